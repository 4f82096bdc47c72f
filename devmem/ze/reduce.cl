/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for Level Zero: one per family of a group (devmem/kernels/families.h), for any number of sources. WEFT_GROUP names the group: each becomes a
 * module of its own, so that a device compiles what is used, and one without float64 all that needs none. What a kernel does to a piece is
 * devmem/kernels/reduce.h. docs/kernels.md has the whole in prose.
 *
 * A launch is one piece. Its memory comes by parameters of its own, not in a struct: a driver lets a kernel into what it was given as
 * pointers, whosever context that is of. devmem/ze/launch.c fills them in this order.
 *
 * This text is C as well, which the tests compile with fakes for what OpenCL C provides.
 */
#include "devmem/kernels/reduce.h"

#define JOINED_NOW(a, b) a##b
#define JOINED(a, b)     JOINED_NOW(a, b)

WEFT_ELEMENTWISE struct place place_find(void)
{
    struct place place;
    place.piece = 0;
    place.block = (uint32_t)get_group_id(0);
    place.blocks = (uint32_t)get_num_groups(0);
    place.thread = (uint64_t)place.block * WEFT_KERNEL_THREADS + (uint32_t)get_local_id(0);
    place.threads = (uint64_t)place.blocks * WEFT_KERNEL_THREADS;
    return place;
}

#define SOURCE(n) const __global uchar *source##n
#define KERNEL(name)                                                                                         \
    __kernel __attribute__((reqd_work_group_size(WEFT_KERNEL_THREADS, 1, 1))) void weft_ze_##name(           \
        SOURCE(0), SOURCE(1), SOURCE(2), SOURCE(3), SOURCE(4), SOURCE(5), SOURCE(6), SOURCE(7),              \
        __global uchar *destination0, __global uchar *destination1, ulong count, ulong head_bytes,           \
        ulong vectors, ulong scalar_low, ulong scalar_high, uint source_count, uint finish, uint flags)      \
    {                                                                                                        \
        struct weft_kernel_piece piece;                                                                      \
        piece.sources[0] = source0;                                                                          \
        piece.sources[1] = source1;                                                                          \
        piece.sources[2] = source2;                                                                          \
        piece.sources[3] = source3;                                                                          \
        piece.sources[4] = source4;                                                                          \
        piece.sources[5] = source5;                                                                          \
        piece.sources[6] = source6;                                                                          \
        piece.sources[7] = source7;                                                                          \
        piece.destinations[0] = destination0;                                                                \
        piece.destinations[1] = destination1;                                                                \
        piece.count = count;                                                                                 \
        piece.head_bytes = head_bytes;                                                                       \
        piece.vectors = vectors;                                                                             \
        piece.scalar[0] = scalar_low;                                                                        \
        piece.scalar[1] = scalar_high;                                                                       \
        piece.source_count = source_count;                                                                   \
        piece.finish = finish;                                                                               \
        piece.flags = flags;                                                                                 \
        piece.first_block = 0;                                                                               \
        name##_piece(&piece, place_find());                                                                  \
    }

#define SUM(name, ...)   WEFT_KERNEL_SUM(name, __VA_ARGS__) KERNEL(name)
#define OTHER(name, ...) WEFT_KERNEL_OTHER(name, __VA_ARGS__) KERNEL(name)
JOINED(WEFT_KERNEL_GROUP_, WEFT_GROUP)(SUM, OTHER)
