/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of VECTOR_BYTES bytes for the reduction kernels, in the compilers' vector notation so that one text
 * serves every instruction set. A vec is bits without a type; arithmetic casts it to lanes, which costs
 * nothing. All functions are inlined into kernels whose element type and operation are constants, so that the
 * switches vanish.
 *
 * Why the bits agree everywhere: lanes are computed with single IEEE operations (add, multiply, divide,
 * compare) that every processor rounds alike; contraction into fused operations is off in the Makefile; what
 * processors may choose freely, the sign and payload of a NaN, is replaced before storing; and the two zeros
 * are ordered by bit operations, since min and max instructions differ.
 */
#ifndef WEFT_DEVMEM_REDUCE_VECTOR_H
#define WEFT_DEVMEM_REDUCE_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <weft/weft.h>

#if VECTOR_BYTES > 16 || defined(__SSE2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Loops of a few rounds that become straight code, but only after the constants have been folded: spelling
 * them out would multiply compile time. */
#ifdef __clang__
#define UNROLL _Pragma("unroll 4")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

typedef uint64_t vec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t vec_anywhere __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
typedef uint32_t vec_u32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vec_i32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t vec_i64 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t vec_u16 __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t vec_i16 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint8_t vec_u8 __attribute__((vector_size(VECTOR_BYTES)));
typedef int8_t vec_i8 __attribute__((vector_size(VECTOR_BYTES)));
typedef float vec_f32 __attribute__((vector_size(VECTOR_BYTES)));
typedef double vec_f64 __attribute__((vector_size(VECTOR_BYTES)));

INLINE vec vec_load(const char *from)
{
    return *(const vec_anywhere *)(const void *)from;
}

INLINE void vec_store(char *to, vec value)
{
    *(vec_anywhere *)(void *)to = value;
}

/* Writes past the caches where the processor can; to is aligned to VECTOR_BYTES. */
INLINE void vec_store_streaming(char *to, vec value)
{
#if VECTOR_BYTES == 64
    _mm512_stream_si512((__m512i *)(void *)to, (__m512i)value);
#elif VECTOR_BYTES == 32
    _mm256_stream_si256((__m256i *)(void *)to, (__m256i)value);
#elif defined(__SSE2__)
    _mm_stream_si128((__m128i *)(void *)to, (__m128i)value);
#else
    vec_store(to, value);
#endif
}

/* Streaming stores are not ordered with ordinary ones: a flag written after them must not overtake them. */
INLINE void vec_streaming_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

INLINE uint64_t load_bytes(const char *from, size_t size)
{
    uint64_t word = 0;
    memcpy(&word, from, size);
    return word;
}

/* Sixteen bytes in two registers, the first byte in the lowest bits of low. */
struct words {
    uint64_t low, high;
};

/* The first size <= 16 bytes, the rest zero. Two loads that overlap and a shift cover a range of sizes
 * without a loop. */
INLINE struct words words_load(const char *from, size_t size)
{
    if (size > 8)
        return (struct words){load_bytes(from, 8), load_bytes(from + size - 8, 8) >> (8 * (16 - size))};
    if (size >= 4)
        return (struct words){load_bytes(from, 4) | load_bytes(from + size - 4, 4) << (8 * (size - 4)), 0};
    if (size >= 2)
        return (struct words){load_bytes(from, 2) | load_bytes(from + size - 2, 2) << (8 * (size - 2)), 0};
    return (struct words){size ? load_bytes(from, 1) : 0, 0};
}

/* The same backwards: stores that overlap. */
INLINE void words_store(char *to, struct words words, size_t size)
{
    uint64_t last;
    if (size > 8) {
        last = size < 16 ? words.low >> (8 * (size - 8)) | words.high << (8 * (16 - size)) : words.high;
        memcpy(to, &words.low, 8);
        memcpy(to + size - 8, &last, 8);
    } else if (size >= 4) {
        last = words.low >> (8 * (size - 4));
        memcpy(to, &words.low, 4);
        memcpy(to + size - 4, &last, 4);
    } else if (size >= 2) {
        last = words.low >> (8 * (size - 2));
        memcpy(to, &words.low, 2);
        memcpy(to + size - 2, &last, 2);
    } else if (size) {
        memcpy(to, &words.low, 1);
    }
}

#if VECTOR_BYTES == 64

/* Bytes outside the mask are neither read nor written. */
INLINE vec vec_load_part(const char *from, size_t size)
{
    return (vec)_mm512_maskz_loadu_epi8(_bzhi_u64(~(uint64_t)0, (unsigned)size), from);
}

INLINE void vec_store_part(char *to, vec value, size_t size)
{
    _mm512_mask_storeu_epi8(to, _bzhi_u64(~(uint64_t)0, (unsigned)size), (__m512i)value);
}

#elif VECTOR_BYTES == 32

/* The first size < VECTOR_BYTES bytes, the rest zero; nothing beyond them is read. */
INLINE vec vec_load_part(const char *from, size_t size)
{
    struct words first = words_load(from, size < 16 ? size : 16), second = {0, 0};
    if (size > 16)
        second = words_load(from + 16, size - 16);
    return (vec){first.low, first.high, second.low, second.high};
}

/* Writes the first size < VECTOR_BYTES bytes only. */
INLINE void vec_store_part(char *to, vec value, size_t size)
{
    words_store(to, (struct words){value[0], value[1]}, size < 16 ? size : 16);
    if (size > 16)
        words_store(to + 16, (struct words){value[2], value[3]}, size - 16);
}

#else

INLINE vec vec_load_part(const char *from, size_t size)
{
    struct words words = words_load(from, size);
    return (vec){words.low, words.high};
}

INLINE void vec_store_part(char *to, vec value, size_t size)
{
    words_store(to, (struct words){value[0], value[1]}, size);
}

#endif

/* Bits of a where mask has ones, of b elsewhere. */
INLINE vec vec_select(vec mask, vec a, vec b)
{
    return (mask & a) | (~mask & b);
}

/* The smaller (larger) of two lanes, given the masks of a < b and a > b. Lanes that are neither are equal, or
 * zeros of either sign, or hold a NaN: OR of the two keeps an equal value, makes -0 of differing zeros and a
 * NaN of anything with a NaN, since a NaN is an exponent of ones with a mantissa that is not zero. The larger
 * is the smaller of the negated lanes, negated. sign is the sign bit of every lane, 0 for integers. */
INLINE vec vec_smaller(vec less, vec greater, vec a, vec b)
{
    return vec_select(less, a, vec_select(greater, b, a | b));
}

INLINE vec vec_larger(vec less, vec greater, vec a, vec b, vec sign)
{
    return vec_select(less, b, vec_select(greater, a, ((a ^ sign) | (b ^ sign)) ^ sign));
}

#if VECTOR_BYTES == 64
#define EVEN_LANES UINT64_MAX, 0, UINT64_MAX, 0, UINT64_MAX, 0, UINT64_MAX, 0
#define SWAP_LANES 1, 0, 3, 2, 5, 4, 7, 6
#elif VECTOR_BYTES == 32
#define EVEN_LANES UINT64_MAX, 0, UINT64_MAX, 0
#define SWAP_LANES 1, 0, 3, 2
#else
#define EVEN_LANES UINT64_MAX, 0
#define SWAP_LANES 1, 0
#endif

/* Neighbouring 64-bit lanes change places. */
INLINE vec vec_swap(vec value)
{
#ifdef __clang__
    return __builtin_shufflevector(value, value, SWAP_LANES);
#else
    return __builtin_shuffle(value, (vec){SWAP_LANES});
#endif
}

#endif
