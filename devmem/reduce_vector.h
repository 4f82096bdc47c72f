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

typedef uint64_t vec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t vec_anywhere __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
typedef uint32_t vec_u32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vec_i32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t vec_i16 __attribute__((vector_size(VECTOR_BYTES)));
typedef float vec_f32 __attribute__((vector_size(VECTOR_BYTES)));
typedef double vec_f64 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t half_i32 __attribute__((vector_size(VECTOR_BYTES / 2)));

/* One vector of elements in the accumulator type. bfloat16 widens to two vectors of float32: low holds the
 * even elements, high the odd ones; for min and max it becomes integers that sort alike. That and the other
 * types use low only. */
struct wide {
    vec low, high;
};

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

INLINE vec combine_f32(weft_op op, vec_f32 a, vec_f32 b)
{
    const vec sign = (vec)((vec_u32){0} + 0x80000000u);
    switch (op) {
    case WEFT_PROD:
        return (vec)(a * b);
    case WEFT_MIN:
        return vec_smaller((vec)(a < b), (vec)(a > b), (vec)a, (vec)b);
    case WEFT_MAX:
        return vec_larger((vec)(a < b), (vec)(a > b), (vec)a, (vec)b, sign);
    default:
        return (vec)(a + b);
    }
}

INLINE vec combine_f64(weft_op op, vec_f64 a, vec_f64 b)
{
    const vec sign = (vec){0} + ((uint64_t)1 << 63);
    switch (op) {
    case WEFT_PROD:
        return (vec)(a * b);
    case WEFT_MIN:
        return vec_smaller((vec)(a < b), (vec)(a > b), (vec)a, (vec)b);
    case WEFT_MAX:
        return vec_larger((vec)(a < b), (vec)(a > b), (vec)a, (vec)b, sign);
    default:
        return (vec)(a + b);
    }
}

/* Sums and products modulo 2^32 are the same for signed and unsigned lanes. */
INLINE vec combine_i32(weft_op op, vec_i32 a, vec_i32 b)
{
    switch (op) {
    case WEFT_PROD:
        return (vec)((vec_u32)a * (vec_u32)b);
    case WEFT_MIN:
        return vec_select((vec)(a < b), (vec)a, (vec)b);
    case WEFT_MAX:
        return vec_select((vec)(a < b), (vec)b, (vec)a);
    default:
        return (vec)((vec_u32)a + (vec_u32)b);
    }
}

/* Truncating division through float64: the quotient of a 32-bit integer by a 32-bit count is at least 2^-32
 * away from the next whole number unless it is one, so that rounding to 53 bits never crosses it. */
INLINE vec divide_i32(vec value, uint32_t divisor)
{
    typedef double half_f64 __attribute__((vector_size(VECTOR_BYTES)));
    union {
        vec value;
        half_i32 half[2];
    } lanes = {value};
    lanes.half[0] =
        __builtin_convertvector(__builtin_convertvector(lanes.half[0], half_f64) / (double)divisor, half_i32);
    lanes.half[1] =
        __builtin_convertvector(__builtin_convertvector(lanes.half[1], half_f64) / (double)divisor, half_i32);
    return lanes.value;
}

/* min and max of bfloat16 need no float32: flipping the lower bits of negative numbers makes integers in the
 * order of the numbers, -0 just below +0. A NaN becomes the integer that wins, which no number maps to. */
INLINE int16_t key_of_nan(weft_op op)
{
    return op == WEFT_MIN ? INT16_MIN : INT16_MAX;
}

INLINE vec_i16 key_flip(vec_i16 bits)
{
    return bits ^ (bits >> 15 & 0x7fff);
}

INLINE vec key_make(weft_op op, vec_i16 elements)
{
    vec nan = (vec)((elements & 0x7fff) > 0x7f80);
    return vec_select(nan, (vec)((vec_i16){0} + key_of_nan(op)), (vec)key_flip(elements));
}

INLINE vec key_restore(weft_op op, vec_i16 keys)
{
    return vec_select((vec)(keys == key_of_nan(op)), (vec)((vec_i16){0} + 0x7fc0), (vec)key_flip(keys));
}

INLINE vec combine_keys(weft_op op, vec_i16 a, vec_i16 b)
{
    return op == WEFT_MIN ? vec_select((vec)(a < b), (vec)a, (vec)b)
                          : vec_select((vec)(a < b), (vec)b, (vec)a);
}

INLINE int uses_keys(weft_dtype dtype, weft_op op)
{
    return dtype == WEFT_BFLOAT16 && (op == WEFT_MIN || op == WEFT_MAX);
}

INLINE struct wide widen(weft_dtype dtype, weft_op op, vec elements)
{
    if (uses_keys(dtype, op))
        elements = key_make(op, (vec_i16)elements);
    else if (dtype == WEFT_BFLOAT16)
        return (struct wide){(vec)((vec_u32)elements << 16), (vec)((vec_u32)elements & 0xffff0000u)};
    return (struct wide){elements, elements};
}

INLINE vec combine_lanes(weft_dtype dtype, weft_op op, vec a, vec b)
{
    switch (dtype) {
    case WEFT_INT32:
        return combine_i32(op, (vec_i32)a, (vec_i32)b);
    case WEFT_FLOAT64:
        return combine_f64(op, (vec_f64)a, (vec_f64)b);
    default:
        return combine_f32(op, (vec_f32)a, (vec_f32)b);
    }
}

INLINE struct wide combine(weft_dtype dtype, weft_op op, struct wide a, struct wide b)
{
    if (uses_keys(dtype, op))
        return (struct wide){combine_keys(op, (vec_i16)a.low, (vec_i16)b.low), a.high};
    struct wide result = {combine_lanes(dtype, op, a.low, b.low), a.high};
    if (dtype == WEFT_BFLOAT16)
        result.high = combine_lanes(dtype, op, a.high, b.high);
    return result;
}

INLINE vec divide_lanes(weft_dtype dtype, vec value, uint32_t divisor)
{
    switch (dtype) {
    case WEFT_INT32:
        return divide_i32(value, divisor);
    case WEFT_FLOAT64:
        return (vec)((vec_f64)value / (double)divisor);
    default:
        return (vec)((vec_f32)value / (float)divisor);
    }
}

INLINE struct wide divide(weft_dtype dtype, struct wide value, uint32_t divisor)
{
    struct wide result = {divide_lanes(dtype, value.low, divisor), value.high};
    if (dtype == WEFT_BFLOAT16)
        result.high = divide_lanes(dtype, value.high, divisor);
    return result;
}

/* float32 lanes rounded to nearest even in their upper 16 bits; the lower 16 are left undefined. Adding just
 * under half a unit, plus one where the kept part is odd, carries exactly when it should round up, into
 * infinity too. */
INLINE vec_u32 round_bf16(vec value)
{
    vec_u32 bits = (vec_u32)value;
    vec_u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    vec nan = (vec)((vec_f32)value != (vec_f32)value);
    return (vec_u32)vec_select(nan, (vec)((vec_u32){0} + 0x7fc00000u), (vec)rounded);
}

/* Back to the element type: the only rounding, and the one NaN. */
INLINE vec narrow(weft_dtype dtype, weft_op op, struct wide value)
{
    if (uses_keys(dtype, op))
        return key_restore(op, (vec_i16)value.low);
    switch (dtype) {
    case WEFT_BFLOAT16:
        return (vec)(round_bf16(value.low) >> 16 | (round_bf16(value.high) & 0xffff0000u));
    case WEFT_FLOAT32:
        return vec_select((vec)((vec_f32)value.low != (vec_f32)value.low), (vec)((vec_u32){0} + 0x7fc00000u),
                          value.low);
    case WEFT_FLOAT64:
        return vec_select((vec)((vec_f64)value.low != (vec_f64)value.low), (vec){0} + 0x7ff8000000000000u,
                          value.low);
    default:
        return value.low;
    }
}

#endif
