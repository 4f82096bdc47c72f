/* SPDX-License-Identifier: Apache-2.0 */
/* How blocks of CUDA's see words and each other in a device collective, which they walk as devmem/kernels/walk.h has it. Plain C as well, which the
 * tests compile.
 *
 * Order in memory (PTX ISA, memory consistency model). Threads' writes come before the block's barrier, that before the first thread's
 * fence and its release (of the counter, or of a word); whoever acquires that value has them behind it, and so, behind its own block's
 * barrier, have the threads beside it. Chains of such pairs hold over several blocks, devices and the host. Before a signal all
 * blocks fence at the scope of the system, as what they wrote may lie in a peer's memory.
 */
#ifndef WEFT_DEVMEM_CUDA_COLLECTIVE_H
#define WEFT_DEVMEM_CUDA_COLLECTIVE_H

#include "devmem/cuda/parameters.h"

/* Meetings of the blocks of one queue's launches. */
struct weft_kernel_meeting {
    uint32_t arrived, left;
};

#ifdef __CUDACC__
#define WALKS    __device__ __noinline__ /* not static: such names have a part that is another in each build */
#define MEETINGS static __device__

static __device__ __forceinline__ uint64_t word_acquire(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

static __device__ __forceinline__ uint64_t word_look(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

static __device__ __forceinline__ void word_release(uint64_t *word, uint64_t value)
{
    __threadfence_system();
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/* The count before. */
static __device__ __forceinline__ uint32_t count_add(uint32_t *count)
{
    uint32_t before;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
    return before;
}

static __device__ __forceinline__ uint32_t count_acquire(const uint32_t *count)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(count) : "memory");
    return value;
}

static __device__ __forceinline__ void count_clear(uint32_t *count)
{
    asm volatile("st.relaxed.gpu.u32 [%0], 0;" ::"l"(count) : "memory");
}

static __device__ __forceinline__ void writes_publish(void)
{
    __threadfence_system();
}

static __device__ __forceinline__ void rest(void)
{
    __nanosleep(100);
}

#else
#include <sched.h>
#define WALKS    static
#define MEETINGS static

static inline uint64_t word_acquire(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline uint64_t word_look(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void word_release(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline uint32_t count_add(uint32_t *count)
{
    return __atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL);
}

static inline uint32_t count_acquire(const uint32_t *count)
{
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static inline void count_clear(uint32_t *count)
{
    __atomic_store_n(count, 0, __ATOMIC_RELAXED);
}

/* The release of the counter does it. */
static inline void writes_publish(void)
{
}

static inline void rest(void)
{
    sched_yield();
}
#endif

MEETINGS struct weft_kernel_meeting meetings[WEFT_KERNEL_MEETINGS];

#define WEFT_KERNEL_MEETS
#include "devmem/kernels/walk.h"

#endif
