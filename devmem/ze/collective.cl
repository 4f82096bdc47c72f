/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of device collectives for Level Zero: one per family of a group, as in devmem/ze/reduce.cl. They walk the steps as devmem/kernels/walk.h has it.
 *
 * One work group does all of it. Groups of a launch need not run at the same time, so that several could not wait for each other.
 *
 * Addresses are in the steps, not in parameters of their own: the host has the driver let the kernel into all memory of the driver's
 * (zeKernelSetIndirectAccess).
 *
 * Order in memory. Words are 64-bit atomics of scope all_svm_devices, which is CrossDevice in SPIR-V, with acquire and release. By the memory model of OpenCL 2.0
 * (3.3.4 to 3.3.6) an acquire that reads what a release has stored has everything before that behind it, and happens-before goes on by
 * the work group's barrier to the items beside. The model promises that between devices and the host for memory that has fine-grained
 * atomics, as host and shared memory of Level Zero has where the device says ZE_MEMORY_ACCESS_CAP_FLAG_CONCURRENT_ATOMIC. Of a device's memory that another
 * device or process reads it says nothing: that is taken to be so, as such words are written once and atomically, and has been seen on no GPU.
 *
 * This text is C as well, which the tests compile with fakes for what OpenCL C provides.
 */
#ifdef __OPENCL_C_VERSION__
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#endif

#include "devmem/kernels/reduce.h"

#ifdef __OPENCL_C_VERSION__
#define WALKS static
#define WORD(of) ((volatile __global atomic_ulong *)(of))

/* The fences name the memory that they are for, which compilers leave out of an atomic operation's own order. */
WALKS uint64_t word_acquire(const __global uint64_t *word)
{
    uint64_t value = atomic_load_explicit(WORD(word), memory_order_acquire, memory_scope_all_svm_devices);
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, memory_scope_all_svm_devices);
    return value;
}

WALKS uint64_t word_look(const __global uint64_t *word)
{
    return atomic_load_explicit(WORD(word), memory_order_relaxed, memory_scope_all_svm_devices);
}

/* The fence is for what the group's other items have written, which may lie in a peer's memory. */
WALKS void word_release(__global uint64_t *word, uint64_t value)
{
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_all_svm_devices);
    atomic_store_explicit(WORD(word), value, memory_order_release, memory_scope_all_svm_devices);
}

WALKS void rest(void)
{
}

#define SHARED       __local
#define FIRST_ITEM   if (get_local_id(0) == 0)
#define EACH_ITEM
#define TOGETHER()   barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define SHARED
#define FIRST_ITEM
#define EACH_ITEM  OPENCL_EACH_ITEM(WEFT_KERNEL_THREADS)
#define TOGETHER()
#endif

struct weft_kernel_collective {
    const WEFT_GLOBAL uint64_t *words;
    const WEFT_GLOBAL uint64_t *stop; /* of the host */
    uint32_t word_count;
};

#include "devmem/kernels/walk.h"

#define JOINED_NOW(a, b) a##b
#define JOINED(a, b)     JOINED_NOW(a, b)

WEFT_ELEMENTWISE struct place place_in_collective(void)
{
    struct place place;
    place.piece = 0;
    place.block = 0;
    place.blocks = 1;
    place.thread = get_local_id(0);
    place.threads = WEFT_KERNEL_THREADS;
    return place;
}

#define COLLECTIVE(name)                                                                                     \
    __kernel __attribute__((reqd_work_group_size(WEFT_KERNEL_THREADS, 1, 1))) void weft_ze_##name##_collective( \
        const __global ulong *words, const __global ulong *stop, uint word_count)                            \
    {                                                                                                        \
        SHARED struct walk walk;                                                                             \
        const struct weft_kernel_collective collective = {words, stop, word_count};                          \
        FIRST_ITEM walk_begin(&walk, &collective, 0, 1);                                                     \
        TOGETHER();                                                                                          \
        while (walk.kind != WEFT_KERNEL_STEP_END) {                                                          \
            EACH_ITEM                                                                                        \
            {                                                                                                \
                const struct weft_kernel_piece piece = walk.piece;                                           \
                if (walk.kind == WEFT_KERNEL_STEP_COPY)                                                      \
                    collective_copy(&piece, place_in_collective());                                          \
                else                                                                                         \
                    name##_piece(&piece, place_in_collective());                                             \
            }                                                                                                \
            TOGETHER();                                                                                      \
            FIRST_ITEM walk_on(&walk, &collective, 0, 1);                                                    \
            TOGETHER();                                                                                      \
        }                                                                                                    \
    }

#define SUM(name, ...)   WEFT_KERNEL_SUM(name, __VA_ARGS__) COLLECTIVE(name)
#define OTHER(name, ...) WEFT_KERNEL_OTHER(name, __VA_ARGS__) COLLECTIVE(name)
JOINED(WEFT_KERNEL_GROUP_, WEFT_GROUP)(SUM, OTHER)

/* --- whether two kernels run side by side, and see what the host writes meanwhile (devmem/ze/probe.c). It is in one module.
 *
 * Each looks at `go` before it says that it is there, so that a cache that is never looked behind has the old word. Then it waits for the other one, and
 * for `go`, which the host stores when both are there. The looks are numbered, as the host's stop may not be seen either: a look at host memory takes
 * some hundred nanoseconds, so that all of them take about a second. */
#ifdef WEFT_KERNEL_PROBES
#ifndef PROBE_LOOKS
#define PROBE_LOOKS (1u << 21)
#endif

/* So many looks are left; 0: it has not come. */
WALKS uint32_t await_within(uint32_t looks, const WEFT_GLOBAL uint64_t *word,
                            const WEFT_GLOBAL uint64_t *stop)
{
    while (looks && !word_acquire(word))
        looks = look_again(looks, stop) ? looks - 1 : 0;
    return looks;
}

__kernel __attribute__((reqd_work_group_size(WEFT_KERNEL_THREADS, 1, 1))) void weft_ze_probe(
    __global ulong *own, const __global ulong *other, const __global ulong *go, const __global ulong *stop,
    __global ulong *met)
{
    FIRST_ITEM
    {
        uint32_t looks = word_acquire(go) ? 0 : PROBE_LOOKS;
        word_release(own, 1);
        looks = await_within(looks, other, stop);
        looks = await_within(looks, go, stop);
        if (looks)
            word_release(met, 1);
    }
}
#endif
