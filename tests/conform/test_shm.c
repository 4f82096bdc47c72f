/* SPDX-License-Identifier: Apache-2.0 */
/* The transport contract on shm, with and without reading peers' memory by system call. */
#include "tests/support/conform.h"

static const struct conform_backend rows[] = {
    {.label = "shm",
     .transport = "shm",
     .direct = 1,
     .offers = WEFT_CAP_READ,
     .notifies = 1,
     .processes = 1,
     .peers = 14,
     .reads_maps_only_alloc = 1,
     .takes_back = 1},
    {.label = "shm without process_vm_readv",
     .transport = "shm",
     .direct = 0,
     .offers = WEFT_CAP_READ,
     .notifies = 1,
     .processes = 1,
     .peers = 4,
     .reads_maps_only_alloc = 1,
     .takes_back = 1},
};

int main(void)
{
    return conform_run(rows, sizeof rows / sizeof rows[0]);
}
