/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels do to a piece (devmem/kernels/piece.h), for every family of devmem/kernels/families.h: one text for CUDA C (devmem/cuda/reduce.cu), OpenCL C
 * (devmem/ze/reduce.cl), and C, which the tests compile with fakes for what a device's compiler provides. docs/kernels.md has the
 * whole in prose.
 *
 * Whole vectors are dealt out to the piece's threads so that neighbouring threads take neighbouring ones; then head and tail are, element by
 * element. No thread reads what another one writes: a destination that is a source too is read, vector for vector, by the thread that will
 * write it, and before. There is no shared memory and no barrier.
 *
 * Loads of aligned vectors say that the line will not be read again, where the language has words for that; those for sources that lie askew
 * keep it, because the neighbouring thread reads half of it. Results are stored as usual: a NIC, or the next step, reads them soon.
 *
 * Who includes it makes the functions of the families that it wants by WEFT_KERNEL_SUM and WEFT_KERNEL_OTHER.
 */
#ifndef WEFT_DEVMEM_KERNELS_REDUCE_H
#define WEFT_DEVMEM_KERNELS_REDUCE_H

#include "devmem/kernels/arithmetic.h"
#include "devmem/kernels/families.h"
#include "devmem/kernels/piece.h"

#define LANES(bits)   (8 * WEFT_KERNEL_VECTOR_BYTES / (bits))
#define BITS_TYPE_8   uint32_t /* of one element */
#define BITS_TYPE_16  uint32_t
#define BITS_TYPE_32  uint32_t
#define BITS_TYPE_64  uint64_t
#define BITS_TYPE_128 struct weft_bits128
#define VECTOR_BYTES  ((uint64_t)WEFT_KERNEL_VECTOR_BYTES)

/* In C the tests say how memory is read and written. */
#if defined(__CUDACC__)
#define LOAD(from)       (*(from))
#define LOAD_ONCE(from)  __ldcs(from)
#define STORE(to, value) (*(to) = (value))
#define UNROLL           _Pragma("unroll")
typedef unsigned long long word64;
#elif defined(__OPENCL_C_VERSION__)
#define LOAD(from)       (*(from))
#define LOAD_ONCE(from)  (*(from))
#define STORE(to, value) (*(to) = (value))
#define UNROLL           _Pragma("unroll")
typedef ulong word64;
#else
#define UNROLL
typedef unsigned long long word64;
#endif

typedef unsigned char byte;

struct vector {
    uint32_t word[4];
};

/* --- memory */

WEFT_ELEMENTWISE struct vector vector_of(uint4 loaded)
{
    struct vector vector = {{loaded.x, loaded.y, loaded.z, loaded.w}};
    return vector;
}

WEFT_ELEMENTWISE struct vector vector_load(const WEFT_GLOBAL byte *from)
{
    return vector_of(LOAD_ONCE((const WEFT_GLOBAL uint4 *)(const WEFT_GLOBAL void *)from));
}

WEFT_ELEMENTWISE void vector_store(const struct weft_kernel_piece *piece, uint64_t at, struct vector vector)
{
    uint64_t offset = piece->head_bytes + at * VECTOR_BYTES;
    uint4 stored;
    stored.x = vector.word[0];
    stored.y = vector.word[1];
    stored.z = vector.word[2];
    stored.w = vector.word[3];
    STORE((WEFT_GLOBAL uint4 *)(WEFT_GLOBAL void *)(piece->destinations[0] + offset), stored);
    if (piece->destinations[1])
        STORE((WEFT_GLOBAL uint4 *)(WEFT_GLOBAL void *)(piece->destinations[1] + offset), stored);
}

/* Sixteen bytes from shift bytes on, in 1 to 15, of two aligned vectors: by whole words, then by bytes of them. */
WEFT_ELEMENTWISE struct vector vector_join(struct vector low, struct vector high, unsigned shift)
{
    uint32_t by8[6], by4[5];
    struct vector joined;
    int far = (shift & 8) != 0, odd = (shift & 4) != 0;
    by8[0] = far ? low.word[2] : low.word[0];
    by8[1] = far ? low.word[3] : low.word[1];
    by8[2] = far ? high.word[0] : low.word[2];
    by8[3] = far ? high.word[1] : low.word[3];
    by8[4] = far ? high.word[2] : high.word[0];
    by8[5] = far ? high.word[3] : high.word[1];
    UNROLL
    for (int i = 0; i < 5; i++)
        by4[i] = odd ? by8[i + 1] : by8[i];
    UNROLL
    for (int i = 0; i < 4; i++)
        joined.word[i] = (uint32_t)(((uint64_t)by4[i + 1] << 32 | by4[i]) >> (8 * (shift & 3)));
    return joined;
}

/* Vector number at of a source, wherever it lies. */
WEFT_ELEMENTWISE struct vector source_vector(const struct weft_kernel_piece *piece, uint32_t source,
                                             uint64_t at)
{
    const WEFT_GLOBAL byte *from = piece->sources[source] + piece->head_bytes + at * VECTOR_BYTES;
    unsigned shift = (unsigned)(uintptr_t)from & (WEFT_KERNEL_VECTOR_BYTES - 1);
    if (!shift)
        return vector_load(from);
    const WEFT_GLOBAL uint4 *around = (const WEFT_GLOBAL uint4 *)(const WEFT_GLOBAL void *)(from - shift);
    return vector_join(vector_of(LOAD(around)), vector_of(LOAD(around + 1)), shift);
}

WEFT_ELEMENTWISE uint64_t bytes_load(const WEFT_GLOBAL byte *from, int size)
{
    uint64_t bits = 0;
    for (int i = 0; i < size; i++)
        bits |= (uint64_t)LOAD(from + i) << (8 * i);
    return bits;
}

WEFT_ELEMENTWISE void bytes_store(WEFT_GLOBAL byte *to, uint64_t bits, int size)
{
    for (int i = 0; i < size; i++)
        STORE(to + i, (byte)(bits >> (8 * i)));
}

/* Elements in memory, by their bits. */
WEFT_ELEMENTWISE uint32_t load_8(const WEFT_GLOBAL byte *from, int bytewise)
{
    (void)bytewise;
    return LOAD(from);
}

WEFT_ELEMENTWISE void store_8(WEFT_GLOBAL byte *to, uint32_t bits, int bytewise)
{
    (void)bytewise;
    STORE(to, (byte)bits);
}

WEFT_ELEMENTWISE uint32_t load_16(const WEFT_GLOBAL byte *from, int bytewise)
{
    return bytewise ? (uint32_t)bytes_load(from, 2)
                    : LOAD((const WEFT_GLOBAL unsigned short *)(const WEFT_GLOBAL void *)from);
}

WEFT_ELEMENTWISE void store_16(WEFT_GLOBAL byte *to, uint32_t bits, int bytewise)
{
    if (bytewise)
        bytes_store(to, bits, 2);
    else
        STORE((WEFT_GLOBAL unsigned short *)(WEFT_GLOBAL void *)to, (unsigned short)bits);
}

WEFT_ELEMENTWISE uint32_t load_32(const WEFT_GLOBAL byte *from, int bytewise)
{
    return bytewise ? (uint32_t)bytes_load(from, 4)
                    : LOAD((const WEFT_GLOBAL unsigned *)(const WEFT_GLOBAL void *)from);
}

WEFT_ELEMENTWISE void store_32(WEFT_GLOBAL byte *to, uint32_t bits, int bytewise)
{
    if (bytewise)
        bytes_store(to, bits, 4);
    else
        STORE((WEFT_GLOBAL unsigned *)(WEFT_GLOBAL void *)to, bits);
}

WEFT_ELEMENTWISE uint64_t load_64(const WEFT_GLOBAL byte *from, int bytewise)
{
    return bytewise ? bytes_load(from, 8) : LOAD((const WEFT_GLOBAL word64 *)(const WEFT_GLOBAL void *)from);
}

WEFT_ELEMENTWISE void store_64(WEFT_GLOBAL byte *to, uint64_t bits, int bytewise)
{
    if (bytewise)
        bytes_store(to, bits, 8);
    else
        STORE((WEFT_GLOBAL word64 *)(WEFT_GLOBAL void *)to, (word64)bits);
}

WEFT_ELEMENTWISE struct weft_bits128 load_128(const WEFT_GLOBAL byte *from, int bytewise)
{
    struct weft_bits128 bits = {load_64(from, bytewise), load_64(from + 8, bytewise)};
    return bits;
}

WEFT_ELEMENTWISE void store_128(WEFT_GLOBAL byte *to, struct weft_bits128 bits, int bytewise)
{
    store_64(to, bits.low, bytewise);
    store_64(to + 8, bits.high, bytewise);
}

/* --- elements within a vector; i is known when the loop around is unrolled */

WEFT_ELEMENTWISE uint32_t get_8(struct vector vector, int i)
{
    return vector.word[i / 4] >> (8 * (i % 4)) & 0xff;
}

WEFT_ELEMENTWISE uint32_t get_16(struct vector vector, int i)
{
    return vector.word[i / 2] >> (16 * (i % 2)) & 0xffff;
}

WEFT_ELEMENTWISE uint32_t get_32(struct vector vector, int i)
{
    return vector.word[i];
}

WEFT_ELEMENTWISE uint64_t get_64(struct vector vector, int i)
{
    return vector.word[2 * i] | (uint64_t)vector.word[2 * i + 1] << 32;
}

WEFT_ELEMENTWISE struct weft_bits128 get_128(struct vector vector, int i)
{
    struct weft_bits128 bits = {get_64(vector, i), get_64(vector, i + 1)};
    return bits;
}

WEFT_ELEMENTWISE void put_8(struct vector *vector, int i, uint32_t bits)
{
    vector->word[i / 4] |= bits << (8 * (i % 4));
}

WEFT_ELEMENTWISE void put_16(struct vector *vector, int i, uint32_t bits)
{
    vector->word[i / 2] |= bits << (16 * (i % 2));
}

WEFT_ELEMENTWISE void put_32(struct vector *vector, int i, uint32_t bits)
{
    vector->word[i] = bits;
}

WEFT_ELEMENTWISE void put_64(struct vector *vector, int i, uint64_t bits)
{
    vector->word[2 * i] = (uint32_t)bits;
    vector->word[2 * i + 1] = (uint32_t)(bits >> 32);
}

WEFT_ELEMENTWISE void put_128(struct vector *vector, int i, struct weft_bits128 bits)
{
    put_64(vector, i, bits.low);
    put_64(vector, i + 1, bits.high);
}

/* The scalar's bits. */
WEFT_ELEMENTWISE uint32_t scalar_8(const struct weft_kernel_piece *piece)
{
    return (uint32_t)piece->scalar[0];
}

#define scalar_16 scalar_8
#define scalar_32 scalar_8

WEFT_ELEMENTWISE uint64_t scalar_64(const struct weft_kernel_piece *piece)
{
    return piece->scalar[0];
}

WEFT_ELEMENTWISE struct weft_bits128 scalar_128(const struct weft_kernel_piece *piece)
{
    struct weft_bits128 bits = {piece->scalar[0], piece->scalar[1]};
    return bits;
}
/* --- threads */

/* Which piece a thread works on, and which it is of the threads there. */
struct place {
    uint32_t piece, block, blocks;
    uint64_t thread, threads;
};

/* --- families. For each: one vector of accumulators, which begins with a source's elements (begin), takes in another's (next), and
 * becomes elements again (end); sums are multiplied by the scalar after begin, and rounded as an element is, and divided before
 * end. Then head and tail, with these two where finishes says so, and a piece of any number of sources, which has the next source's vector in flight while it
 * works on one. */

#define ACCUMULATORS(name, lane_bits, accumulator, widen, combine, narrow)                                   \
    struct name##_vector {                                                                                   \
        accumulator lane[LANES(lane_bits)];                                                                  \
    };                                                                                                       \
    WEFT_ELEMENTWISE void name##_begin(struct name##_vector *sums, struct vector vector)                     \
    {                                                                                                        \
        UNROLL                                                                                               \
        for (int i = 0; i < LANES(lane_bits); i++)                                                           \
            sums->lane[i] = widen(get_##lane_bits(vector, i));                                               \
    }                                                                                                        \
    WEFT_ELEMENTWISE void name##_next(struct name##_vector *sums, struct vector vector)                      \
    {                                                                                                        \
        UNROLL                                                                                               \
        for (int i = 0; i < LANES(lane_bits); i++)                                                           \
            sums->lane[i] = combine(sums->lane[i], widen(get_##lane_bits(vector, i)));                       \
    }                                                                                                        \
    WEFT_ELEMENTWISE struct vector name##_end(const struct name##_vector *sums)                              \
    {                                                                                                        \
        struct vector vector = {{0, 0, 0, 0}};                                                               \
        UNROLL                                                                                               \
        for (int i = 0; i < LANES(lane_bits); i++)                                                           \
            put_##lane_bits(&vector, i, narrow(sums->lane[i]));                                              \
        return vector;                                                                                       \
    }

#define SCALED_AND_DIVIDED(name, lane_bits, accumulator, widen, narrow, divide, times)                       \
    WEFT_ELEMENTWISE accumulator name##_scaled(accumulator value, const struct weft_kernel_piece *piece)     \
    {                                                                                                        \
        if (piece->flags & WEFT_KERNEL_SCALED)                                                               \
            value = widen(narrow(times(value, widen(scalar_##lane_bits(piece)))));                           \
        return value;                                                                                        \
    }                                                                                                        \
    WEFT_ELEMENTWISE accumulator name##_divided(accumulator value, const struct weft_kernel_piece *piece)    \
    {                                                                                                        \
        return piece->finish ? divide(value, piece->finish) : value;                                         \
    }

#define UNCHANGED(name, accumulator)                                                                         \
    WEFT_ELEMENTWISE accumulator name##_scaled(accumulator value, const struct weft_kernel_piece *piece)     \
    {                                                                                                        \
        (void)piece;                                                                                         \
        return value;                                                                                        \
    }                                                                                                        \
    WEFT_ELEMENTWISE accumulator name##_divided(accumulator value, const struct weft_kernel_piece *piece)    \
    {                                                                                                        \
        (void)piece;                                                                                         \
        return value;                                                                                        \
    }

#define EDGES(name, edge_bits, accumulator, widen, combine, narrow)                                          \
    WEFT_ELEMENTWISE void name##_edges(const struct weft_kernel_piece *piece, struct place place,            \
                                       const int finishes)                                                   \
    {                                                                                                        \
        const uint64_t head = piece->head_bytes / ((edge_bits) / 8);                                         \
        const uint64_t skipped = piece->vectors * LANES(edge_bits);                                          \
        const int bytewise = (piece->flags & WEFT_KERNEL_BYTEWISE) != 0;                                     \
        for (uint64_t i = place.thread; i < piece->count - skipped; i += place.threads) {                    \
            uint64_t offset = (i < head ? i : i + skipped) * ((edge_bits) / 8);                              \
            accumulator sum = widen(load_##edge_bits(piece->sources[0] + offset, bytewise));                 \
            if (finishes)                                                                                    \
                sum = name##_scaled(sum, piece);                                                             \
            for (uint32_t s = 1; s < piece->source_count; s++)                                               \
                sum = combine(sum, widen(load_##edge_bits(piece->sources[s] + offset, bytewise)));           \
            BITS_TYPE_##edge_bits bits = narrow(finishes ? name##_divided(sum, piece) : sum);                \
            store_##edge_bits(piece->destinations[0] + offset, bits, bytewise);                              \
            if (piece->destinations[1])                                                                      \
                store_##edge_bits(piece->destinations[1] + offset, bits, bytewise);                          \
        }                                                                                                    \
    }
#define ANY_SOURCES(name, lane_bits)                                                                         \
    WEFT_ELEMENTWISE void name##_piece(const struct weft_kernel_piece *piece, struct place place)            \
    {                                                                                                        \
        for (uint64_t at = place.thread; at < piece->vectors; at += place.threads) {                         \
            struct name##_vector sums;                                                                       \
            struct vector vector = source_vector(piece, 0, at), coming = vector;                             \
            if (piece->source_count > 1)                                                                     \
                coming = source_vector(piece, 1, at);                                                        \
            name##_begin(&sums, vector);                                                                     \
            UNROLL                                                                                           \
            for (int i = 0; i < LANES(lane_bits); i++)                                                       \
                sums.lane[i] = name##_scaled(sums.lane[i], piece);                                           \
            for (uint32_t s = 1; s < piece->source_count; s++) {                                             \
                vector = coming;                                                                             \
                if (s + 1 < piece->source_count)                                                             \
                    coming = source_vector(piece, s + 1, at);                                                \
                name##_next(&sums, vector);                                                                  \
            }                                                                                                \
            UNROLL                                                                                           \
            for (int i = 0; i < LANES(lane_bits); i++)                                                       \
                sums.lane[i] = name##_divided(sums.lane[i], piece);                                          \
            vector_store(piece, at, name##_end(&sums));                                                      \
        }                                                                                                    \
        name##_edges(piece, place, 1);                                                                       \
    }

#define WEFT_KERNEL_SUM(name, lane_bits, accumulator, widen, combine, narrow, divide, times)                 \
    ACCUMULATORS(name, lane_bits, accumulator, widen, combine, narrow)                                       \
    SCALED_AND_DIVIDED(name, lane_bits, accumulator, widen, narrow, divide, times)                           \
    EDGES(name, lane_bits, accumulator, widen, combine, narrow)                                              \
    ANY_SOURCES(name, lane_bits)
#define WEFT_KERNEL_OTHER(name, lane_bits, edge_bits, accumulator, widen, combine, narrow)                   \
    ACCUMULATORS(name, lane_bits, accumulator, widen, combine, narrow)                                       \
    UNCHANGED(name, accumulator)                                                                             \
    EDGES(name, edge_bits, accumulator, widen, combine, narrow)                                              \
    ANY_SOURCES(name, lane_bits)

/* --- copies in device collectives: one source, byte for byte */

WEFT_ELEMENTWISE void collective_copy(const struct weft_kernel_piece *piece, struct place place)
{
    const uint64_t head = piece->head_bytes, skipped = piece->vectors * VECTOR_BYTES;
    for (uint64_t at = place.thread; at < piece->vectors; at += place.threads)
        vector_store(piece, at, source_vector(piece, 0, at));
    for (uint64_t i = place.thread; i < piece->count - skipped; i += place.threads) {
        uint64_t offset = i < head ? i : i + skipped;
        byte copied = LOAD(piece->sources[0] + offset);
        STORE(piece->destinations[0] + offset, copied);
        if (piece->destinations[1])
            STORE(piece->destinations[1] + offset, copied);
    }
}

#endif
