/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of device collectives for Level Zero: one per family of a group, as in devmem/ze/reduce.cl. They walk the steps as devmem/kernels/walk.h has it.
 *
 * One work group does all of it. Groups of a launch need not run at the same time, so that several could not wait for each other.
 *
 * Addresses are in the steps, not in parameters of their own: the host has the driver let the kernel into all memory of the driver's
 * (zeKernelSetIndirectAccess).
 *
 * Order in memory. Words are loaded and stored as volatile 64-bit numbers, and fences of scope all_svm_devices, which is CrossDevice in SPIR-V, stand
 * behind a load and in front of a store: an acquire, and a release. They are no atomic operations. Intel's compiler makes an atomic load of 64 bits
 * out of an atomic OR with 0, which writes: where atomic operations of the device are not atomic against those of the host or of another
 * device, as over a bus, that may undo what the other side has stored in between. A load writes nothing, and has another advantage: a
 * device needs no 64-bit atomic operations. The words are aligned to 8 bytes, and devices read and write 8 such bytes in one piece, which OpenCL does not promise. By
 * its memory model (2.0, 3.3.4 to 3.3.6) fences make happens-before only through atomic operations; here it is what the fences do in hardware, and the work group's
 * barrier takes it to the items beside. It has been seen on no GPU.
 *
 * This text is C as well, which the tests compile with fakes for what OpenCL C provides.
 */
#include "devmem/kernels/reduce.h"

#ifdef __OPENCL_C_VERSION__
#define WALKS static

/* The load is volatile, as a word changes while it is looked at. */
WALKS uint64_t word_look(const __global uint64_t *word)
{
    return *(const volatile __global uint64_t *)word;
}

WALKS uint64_t word_acquire(const __global uint64_t *word)
{
    uint64_t value = word_look(word);
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, memory_scope_all_svm_devices);
    return value;
}

/* The fence is for what the group's other items have written as well, which may lie in a peer's memory. */
WALKS void word_release(__global uint64_t *word, uint64_t value)
{
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_all_svm_devices);
    *(volatile __global uint64_t *)word = value;
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

/* --- whether other queues get on beside a kernel, and it sees what the host writes meanwhile (devmem/ze/probe.c). It is in one module.
 *
 * It looks at `go` before it says that it is there, so that a cache that is never looked behind has the old word. Then it waits for `go`. The looks are
 * numbered, as the host's stop may not be seen either: a look at host memory takes some hundred nanoseconds, so that all of them take about a
 * second. */
#ifdef WEFT_KERNEL_PROBES
#ifndef PROBE_LOOKS
#define PROBE_LOOKS (1u << 21)
#endif

__kernel __attribute__((reqd_work_group_size(WEFT_KERNEL_THREADS, 1, 1))) void weft_ze_probe(
    __global ulong *there, const __global ulong *go, const __global ulong *stop, __global ulong *met)
{
    FIRST_ITEM
    {
        uint32_t looks = word_acquire(go) ? 0 : PROBE_LOOKS;
        word_release(there, 1);
        while (looks && !word_acquire(go))
            looks = look_again(looks, stop) ? looks - 1 : 0;
        if (looks)
            word_release(met, 1);
    }
}
#endif
