/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that share one piece of memory and meet in it: what the bounds are made of. */
#ifndef WEFT_PEERS_PAIR_H
#define WEFT_PEERS_PAIR_H

#include "perf/peers/loop.h"

#include <sys/mman.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

struct pair_side {
    uint64_t arrived __attribute__((aligned(64)));
    float *send, *recv; /* addresses in the side's own process */
    pid_t pid;
};

static inline void pair_relax(void)
{
#ifdef __SSE2__
    _mm_pause();
#endif
}

/* Waits until the other side has come here as often. arrivals is the caller's own count. */
static inline void pair_meet(struct pair_side *sides, int rank, uint64_t *arrivals)
{
    uint64_t wanted = ++*arrivals;
    __atomic_store_n(&sides[rank].arrived, wanted, __ATOMIC_RELEASE);
    while (__atomic_load_n(&sides[!rank].arrived, __ATOMIC_ACQUIRE) < wanted)
        pair_relax();
}

/* Maps size bytes of the memory that the coordinator handed down. NULL after a message. */
static inline void *pair_map(size_t size)
{
    int descriptor = atoi(peers_environment("PEERS_SHARED_FD", "-1"));
    void *memory = MAP_FAILED;
    if (ftruncate(descriptor, (off_t)size) == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "PEERS_SHARED_FD: cannot map the shared memory: %s\n", strerror(errno));
        return NULL;
    }
    return memory;
}

#endif
