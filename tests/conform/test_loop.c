/* SPDX-License-Identifier: Apache-2.0 */
/* The transport contract on loop, in fair weather and in storms. */
#include "tests/support/conform.h"

#define BOTH (WEFT_CAP_READ | WEFT_CAP_PUT)

static const struct conform_backend rows[] = {
    {.label = "loop map",
     .transport = "loop",
     .provider = "map",
     .offers = WEFT_CAP_READ,
     .notifies = 1,
     .peers = 12},
    {.label = "loop pull",
     .transport = "loop",
     .provider = "pull",
     .offers = WEFT_CAP_READ,
     .notifies = 1,
     .peers = 4},
    {.label = "loop put",
     .transport = "loop",
     .provider = "put",
     .offers = WEFT_CAP_PUT,
     .notifies = 1,
     .peers = 4},
    {.label = "loop eager", .transport = "loop", .provider = "eager", .notifies = 1, .peers = 4},
    {.label = "loop all", .transport = "loop", .provider = "all", .offers = BOTH, .notifies = 1, .peers = 4},
    {.label = "loop letters",
     .transport = "loop",
     .provider = "all:oob",
     .offers = BOTH,
     .notifies = 1,
     .peers = 4},
    {.label = "loop letters lost",
     .transport = "loop",
     .provider = "put:oob:storm=3",
     .offers = WEFT_CAP_PUT,
     .notifies = 1,
     .peers = 12,
     .lossy_oob = 1},
    {.label = "loop storm 1",
     .transport = "loop",
     .provider = "all:storm=1",
     .offers = BOTH,
     .notifies = 1,
     .peers = 12},
    {.label = "loop storm 2",
     .transport = "loop",
     .provider = "all:storm=2",
     .offers = BOTH,
     .notifies = 1,
     .peers = 4},
};

int main(void)
{
    return conform_run(rows, sizeof rows / sizeof rows[0]);
}
