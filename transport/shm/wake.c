/* SPDX-License-Identifier: Apache-2.0 */
/* Waking a peer that sleeps, as its control pages say (shm.c). */
#include "base/fd.h"
#include "base/fence.h"
#include "transport/shm/shm_private.h"

void shm_peer_ring(struct weft_link *link, uint32_t sleep)
{
    if (atomic_load_explicit(&link->rung, memory_order_relaxed) == sleep)
        return;
    atomic_store_explicit(&link->rung, sleep, memory_order_relaxed);
    uint64_t one = 1;
    ssize_t written = weft_fd_write(link->wake_fd, &one, sizeof one);
    (void)written; /* a full counter is readable too */
}

void shm_peer_wake(struct weft_link *link)
{
    weft_fence_hot(link->light);
    uint32_t sleep = atomic_load_explicit(&link->control->sleep, memory_order_relaxed);
    if (sleep & 1)
        shm_peer_ring(link, sleep);
}
