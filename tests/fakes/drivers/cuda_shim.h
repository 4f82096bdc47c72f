/* SPDX-License-Identifier: Apache-2.0 */
/* What nvcc provides, for devmem/cuda/reduce.cu compiled as C: its kernels become functions that do what one thread does, and
 * shim_launch() calls them for each thread in turn; those for programs do what one block does. Loads and stores insist on the alignment that a device insists on, and on memory
 * that the test has named by shim_allow(), to the byte. */
#ifndef WEFT_TESTS_DRIVERS_CUDA_SHIM_H
#define WEFT_TESTS_DRIVERS_CUDA_SHIM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devmem/cuda/parameters.h"

typedef struct {
    uint32_t x, y, z, w;
} __attribute__((aligned(16))) uint4;

/* Of the host's thread, as blocks of a program run in one each. */
static _Thread_local struct {
    uint32_t x, y, z;
} threadIdx, blockIdx, gridDim;

#define __global__ static
#define __grid_constant__
#define __launch_bounds__(threads, blocks)

/* Memory that kernels may read, or write too. */
static struct {
    uintptr_t begin, end;
    int writable;
} shim_spans[64];
static int shim_span_count;

static inline void shim_allow(const void *memory, size_t size, int writable)
{
    shim_spans[shim_span_count].begin = (uintptr_t)memory;
    shim_spans[shim_span_count].end = (uintptr_t)memory + size;
    shim_spans[shim_span_count++].writable = writable;
}

/* As a device faults: at once. */
static inline void *shim_access(const void *address, size_t size, int writes)
{
    uintptr_t begin = (uintptr_t)address;
    int span = 0;
    while (span < shim_span_count &&
           !(begin >= shim_spans[span].begin && begin + size <= shim_spans[span].end &&
             (shim_spans[span].writable || !writes)))
        span++;
    if (begin % size || span == shim_span_count) {
        fprintf(stderr, "a kernel %s %zu bytes %s\n", writes ? "writes" : "reads", size,
                begin % size ? "at an address that is not a multiple of that" : "outside its memory");
        abort();
    }
    return (void *)begin;
}

#define SHIM_LOAD(name, type)                                                                                \
    static inline type name(const type *from)                                                                \
    {                                                                                                        \
        type value;                                                                                          \
        memcpy(&value, shim_access(from, sizeof value, 0), sizeof value);                                    \
        return value;                                                                                        \
    }
SHIM_LOAD(shim_load_1, unsigned char)
SHIM_LOAD(shim_load_2, unsigned short)
SHIM_LOAD(shim_load_4, unsigned)
SHIM_LOAD(shim_load_8, unsigned long long)
SHIM_LOAD(shim_load_16, uint4)

#define LOAD_ONCE shim_load_16
#define LOAD(from)                                                                                           \
    _Generic((from), const unsigned char *                                                                   \
             : shim_load_1, const unsigned short *                                                           \
             : shim_load_2, const unsigned *                                                                 \
             : shim_load_4, const unsigned long long *                                                       \
             : shim_load_8, const uint4 *                                                                    \
             : shim_load_16)(from)
#define STORE(to, value)                                                                                     \
    do {                                                                                                     \
        __typeof__(*(to)) stored_ = (value);                                                                 \
        memcpy(shim_access(to, sizeof stored_, 1), &stored_, sizeof stored_);                                \
    } while (0)

typedef void shim_kernel(const struct weft_kernel_batch batch);

/* All threads one after the other, forwards or, as blocks and warps run in no order, backwards. */
static inline void shim_launch(shim_kernel *kernel, uint32_t grid, uint32_t block,
                               const struct weft_kernel_batch *batch, int backwards)
{
    uint64_t threads = (uint64_t)grid * block;
    gridDim.x = grid;
    for (uint64_t i = 0; i < threads; i++) {
        uint64_t thread = backwards ? threads - 1 - i : i;
        blockIdx.x = (uint32_t)(thread / block);
        threadIdx.x = (uint32_t)(thread % block);
        kernel(*batch);
    }
}

typedef void shim_collective(const struct weft_kernel_collective collective);

struct shim_block {
    pthread_t thread;
    shim_collective *kernel;
    const struct weft_kernel_collective *collective;
    uint32_t number, blocks;
};

static inline void *shim_block_run(void *argument)
{
    const struct shim_block *block = argument;
    gridDim.x = block->blocks;
    blockIdx.x = block->number;
    block->kernel(*block->collective);
    return NULL;
}

/* All blocks at the same time, as they wait for each other; a kernel goes through the threads of its block by itself. */
static inline void shim_launch_collective(shim_collective *kernel, uint32_t grid,
                                          const struct weft_kernel_collective *collective)
{
    struct shim_block blocks[WEFT_KERNEL_COLLECTIVE_BLOCKS] = {{0}};
    if (grid > WEFT_KERNEL_COLLECTIVE_BLOCKS)
        abort();
    for (uint32_t i = 0; i < grid; i++) {
        blocks[i] =
            (struct shim_block){.kernel = kernel, .collective = collective, .number = i, .blocks = grid};
        if (i > 0 && pthread_create(&blocks[i].thread, NULL, shim_block_run, &blocks[i]) != 0)
            abort();
    }
    shim_block_run(&blocks[0]);
    for (uint32_t i = 1; i < grid; i++)
        pthread_join(blocks[i].thread, NULL);
}

#endif
