/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA kernels: one per family of types and operations (devmem/kernels/families.h) for any number of sources, and some for a fixed number.
 * What they do to a piece is devmem/kernels/reduce.h; what they are given, devmem/cuda/parameters.h. docs/kernels.md has the whole in prose.
 *
 * A block finds its piece by its number. Kernels have no shared memory and no barrier, but those at the end, which work through device
 * collectives (devmem/cuda/collective.h).
 *
 * This text is C as well, which the tests compile with fakes for what nvcc provides.
 */
#include "devmem/cuda/collective.h"
#include "devmem/cuda/parameters.h"
#include "devmem/kernels/reduce.h"

#ifdef __cplusplus
#define KERNEL extern "C" __global__ void __launch_bounds__(WEFT_KERNEL_THREADS, WEFT_KERNEL_RESIDENT)
#else
#define KERNEL __global__ void __launch_bounds__(WEFT_KERNEL_THREADS, WEFT_KERNEL_RESIDENT)
#endif

#define TILE_ROW_BYTES ((uint64_t)WEFT_KERNEL_THREADS * WEFT_KERNEL_VECTOR_BYTES)

WEFT_ELEMENTWISE struct place place_find(const struct weft_kernel_batch *batch)
{
    struct place place;
    uint32_t piece = 0, end = gridDim.x;
    while (piece + 1 < batch->piece_count && blockIdx.x >= batch->pieces[piece + 1].first_block)
        piece++;
    if (piece + 1 < batch->piece_count)
        end = batch->pieces[piece + 1].first_block;
    place.piece = piece;
    place.block = blockIdx.x - batch->pieces[piece].first_block;
    place.blocks = end - batch->pieces[piece].first_block;
    place.thread = (uint64_t)place.block * WEFT_KERNEL_THREADS + threadIdx.x;
    place.threads = (uint64_t)place.blocks * WEFT_KERNEL_THREADS;
    return place;
}

/* --- any number of sources */

#define ANY(name)                                                                                            \
    KERNEL weft_cuda_##name(const __grid_constant__ struct weft_kernel_batch batch)                          \
    {                                                                                                        \
        const struct place place = place_find(&batch);                                                       \
        name##_piece(&batch.pieces[place.piece], place);                                                     \
    }

#define SUM(name, ...)   WEFT_KERNEL_SUM(name, __VA_ARGS__) ANY(name)
#define OTHER(name, ...) WEFT_KERNEL_OTHER(name, __VA_ARGS__) ANY(name)
WEFT_KERNEL_FAMILIES(SUM, OTHER)

/* --- a fixed number of aligned sources, neither scaled nor divided. A block goes by tiles of some vectors for each of its threads,
 * which are all loaded before the first one is used; the last tile, which may not be whole, goes vector by vector. */

#define FIXED(name, sources_here, in_flight)                                                                 \
    WEFT_ELEMENTWISE void name##_##sources_here##_tile(const struct weft_kernel_piece *piece, uint64_t at,   \
                                                       const int vectors)                                    \
    {                                                                                                        \
        struct vector loaded[in_flight][sources_here];                                                       \
        const uint64_t offset = piece->head_bytes + at * VECTOR_BYTES;                                       \
        UNROLL                                                                                               \
        for (int k = 0; k < vectors; k++) {                                                                  \
            UNROLL                                                                                           \
            for (int s = 0; s < (sources_here); s++)                                                         \
                loaded[k][s] = vector_load(piece->sources[s] + offset + k * TILE_ROW_BYTES);                 \
        }                                                                                                    \
        UNROLL                                                                                               \
        for (int k = 0; k < vectors; k++) {                                                                  \
            struct name##_vector sums;                                                                       \
            name##_begin(&sums, loaded[k][0]);                                                               \
            UNROLL                                                                                           \
            for (int s = 1; s < (sources_here); s++)                                                         \
                name##_next(&sums, loaded[k][s]);                                                            \
            vector_store(piece, at + (uint64_t)k * WEFT_KERNEL_THREADS, name##_end(&sums));                  \
        }                                                                                                    \
    }                                                                                                        \
    KERNEL weft_cuda_##name##_##sources_here(const __grid_constant__ struct weft_kernel_batch batch)              \
    {                                                                                                        \
        const struct place place = place_find(&batch);                                                       \
        const struct weft_kernel_piece *piece = &batch.pieces[place.piece];                                  \
        const uint64_t tile = (uint64_t)WEFT_KERNEL_THREADS * (in_flight), vectors = piece->vectors;         \
        uint64_t at = place.block * tile + threadIdx.x;                                                      \
        for (; at + tile - WEFT_KERNEL_THREADS < vectors; at += place.blocks * tile)                         \
            name##_##sources_here##_tile(piece, at, in_flight);                                              \
        for (; at < vectors; at += WEFT_KERNEL_THREADS)                                                      \
            name##_##sources_here##_tile(piece, at, 1);                                                      \
        name##_edges(piece, place, 0);                                                                       \
    }
WEFT_KERNEL_FIXED(FIXED)

/* --- device collectives. One kernel for each family but copies, which every device collective may have. As C, a block's threads are gone through
 * one after the other between two barriers. */

#ifdef __CUDACC__
#define COLLECTIVE_KERNEL extern "C" __global__ void __launch_bounds__(WEFT_KERNEL_COLLECTIVE_THREADS, 1)
#define SHARED         __shared__
#define FIRST_THREAD   if (threadIdx.x == 0)
#define EACH_THREAD
#define TOGETHER() __syncthreads()
#else
#define COLLECTIVE_KERNEL __global__ void
#define SHARED
#define FIRST_THREAD
#define EACH_THREAD for (threadIdx.x = 0; threadIdx.x < WEFT_KERNEL_COLLECTIVE_THREADS; threadIdx.x++)
#define TOGETHER()
#endif

WEFT_ELEMENTWISE struct place place_in_collective(void)
{
    struct place place;
    place.piece = 0;
    place.block = blockIdx.x;
    place.blocks = gridDim.x;
    place.thread = (uint64_t)blockIdx.x * WEFT_KERNEL_COLLECTIVE_THREADS + threadIdx.x;
    place.threads = (uint64_t)gridDim.x * WEFT_KERNEL_COLLECTIVE_THREADS;
    return place;
}

#define COLLECTIVE(name, ...)                                                                                   \
    COLLECTIVE_KERNEL weft_cuda_##name##_collective(const __grid_constant__ struct weft_kernel_collective collective)    \
    {                                                                                                        \
        SHARED struct walk walk;                                                                             \
        FIRST_THREAD walk_begin(&walk, &collective, blockIdx.x, gridDim.x);                                     \
        TOGETHER();                                                                                          \
        while (walk.kind != WEFT_KERNEL_STEP_END) {                                                          \
            EACH_THREAD                                                                                      \
            {                                                                                                \
                if (walk.kind == WEFT_KERNEL_STEP_COPY)                                                      \
                    collective_copy(&walk.piece, place_in_collective());                                           \
                else                                                                                         \
                    name##_piece(&walk.piece, place_in_collective());                                           \
            }                                                                                                \
            TOGETHER();                                                                                      \
            FIRST_THREAD walk_on(&walk, &collective, blockIdx.x, gridDim.x);                                    \
            TOGETHER();                                                                                      \
        }                                                                                                    \
    }
WEFT_KERNEL_REDUCTIONS(COLLECTIVE, COLLECTIVE)
