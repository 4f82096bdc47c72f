/* SPDX-License-Identifier: Apache-2.0 */
/* run: elsewhere (tests/conform/test_tcp) */
/* The transport contract on libfabric's providers for TCP. */
#include "tests/support/conform.h"
#include "tests/support/ofi_absent.h"

static const struct conform_backend rows[] = {
    {.label = "ofi net",
     .transport = "ofi",
     .provider = "net",
     .offers = WEFT_CAP_PUT,
     .processes = 1,
     .absent = test_ofi_absent,
     .peers = 6},
    {.label = "ofi tcp;ofi_rxm",
     .transport = "ofi",
     .provider = "tcp;ofi_rxm",
     .offers = WEFT_CAP_PUT,
     .processes = 1,
     .absent = test_ofi_absent,
     .peers = 4},
};

int main(void)
{
    return conform_run(rows, sizeof rows / sizeof rows[0]);
}
