/* SPDX-License-Identifier: Apache-2.0 */
/* The transport contract on sockets of our own. */
#include "tests/support/conform.h"

static const struct conform_backend rows[] = {
    {.label = "tcp", .transport = "tcp", .offers = WEFT_CAP_PUT, .processes = 1, .peers = 12},
    {.label = "tcp 6",
     .transport = "tcp",
     .local_address = "::1",
     .offers = WEFT_CAP_PUT,
     .processes = 1,
     .peers = 4},
};

int main(void)
{
    return conform_run(rows, sizeof rows / sizeof rows[0]);
}
