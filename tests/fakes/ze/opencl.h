/* SPDX-License-Identifier: Apache-2.0 */
/* What OpenCL C provides, for devmem/ze/reduce.cl compiled as C: its kernels become functions that do what one work item does. Loads and stores insist
 * on the alignment that a device insists on, and on memory of the allocations that the kernel was given. */
#ifndef WEFT_TESTS_FAKES_ZE_OPENCL_H
#define WEFT_TESTS_FAKES_ZE_OPENCL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define WEFT_OPENCL_AS_C
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef struct {
    uint32_t x, y, z, w;
} __attribute__((aligned(16))) uint4;

#define __kernel static
#define __global
#define reqd_work_group_size(x, y, z)

struct opencl_span {
    uintptr_t begin, end;
};

/* The work item of this thread, and what it may touch. */
static _Thread_local struct {
    size_t group, groups, local;
    const struct opencl_span *spans;
    int span_count;
} opencl_item;

static inline size_t get_group_id(uint dimension)
{
    return dimension ? 0 : opencl_item.group;
}

static inline size_t get_num_groups(uint dimension)
{
    return dimension ? 1 : opencl_item.groups;
}

static inline size_t get_local_id(uint dimension)
{
    return dimension ? 0 : opencl_item.local;
}

/* Where the driver has memory that a kernel was given no pointer to, or ends the process: ze_collectives.c. NULL elsewhere. */
static _Thread_local void *(*opencl_find)(uintptr_t address, size_t size);

/* As a device faults: at once. */
static inline void *opencl_access(const void *address, size_t size)
{
    uintptr_t begin = (uintptr_t)address;
    int span = 0;
    if (opencl_find && begin % size == 0)
        return opencl_find(begin, size);
    while (span < opencl_item.span_count &&
           (begin < opencl_item.spans[span].begin || begin + size > opencl_item.spans[span].end))
        span++;
    if (begin % size || span == opencl_item.span_count) {
        fprintf(stderr, "a kernel touches %zu bytes %s\n", size,
                begin % size ? "at an address that is not a multiple of that" : "outside its memory");
        abort();
    }
    return (void *)begin;
}

#define OPENCL_LOAD(name, type)                                                                              \
    static inline type name(const type *from)                                                                \
    {                                                                                                        \
        type value;                                                                                          \
        memcpy(&value, opencl_access(from, sizeof value), sizeof value);                                     \
        return value;                                                                                        \
    }
OPENCL_LOAD(opencl_load_1, unsigned char)
OPENCL_LOAD(opencl_load_2, unsigned short)
OPENCL_LOAD(opencl_load_4, unsigned)
OPENCL_LOAD(opencl_load_8, unsigned long long)
OPENCL_LOAD(opencl_load_16, uint4)

/* Items of a group one after the other, between two barriers. */
#define OPENCL_EACH_ITEM(items) for (opencl_item.local = 0; opencl_item.local < (items); opencl_item.local++)

#define LOAD_ONCE opencl_load_16
#define LOAD(from)                                                                                           \
    _Generic((from), const unsigned char *                                                                   \
             : opencl_load_1, const unsigned short *                                                         \
             : opencl_load_2, const unsigned *                                                               \
             : opencl_load_4, const unsigned long long *                                                     \
             : opencl_load_8, const uint4 *                                                                  \
             : opencl_load_16)(from)
#define STORE(to, value)                                                                                     \
    do {                                                                                                     \
        __typeof__(*(to)) stored_ = (value);                                                                 \
        memcpy(opencl_access(to, sizeof stored_), &stored_, sizeof stored_);                                 \
    } while (0)

#endif
