/* SPDX-License-Identifier: Apache-2.0 */
/* Floating-point elements of 8 and 16 bits as vectors. All are computed in float32, which holds every value of
 * theirs: widening is exact, narrowing rounds once, to nearest even. min and max need no float32 at all.
 *
 * float8 goes through float16, which holds all its values too: e5m2 is float16's upper byte, and e4m3 has the
 * same layout but for one exponent bit less, a factor of 2^8 that float32 multiplies exactly. Only widening may
 * take that way: narrowing in two steps would round twice.
 */
#ifndef WEFT_DEVMEM_REDUCE_NARROW_FLOATS_H
#define WEFT_DEVMEM_REDUCE_NARROW_FLOATS_H

#include "devmem/reduce_vector.h"

/* One vector of elements in the accumulator type. 16-bit floats widen to two vectors of float32, a and b, 8-bit
 * ones to four; which element lies where is up to widening and narrowing. For min and max these types become
 * integers that sort alike. Those and the other types use a only. */
struct wide {
    vec a, b, c, d;
};

INLINE int is_float8(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT8_E4M3 || dtype == WEFT_FLOAT8_E5M2;
}

/* Types computed in float32 that are not. */
INLINE int is_small(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16 || is_float8(dtype);
}

/* float32 lanes to a small type with so many mantissa bits and this exponent bias, in the low bits of each lane;
 * magnitudes beyond largest become largest. The mantissa is rounded by adding just under half a unit, plus one
 * where the kept part is odd: that carries into the exponent exactly when it should. Below the smallest normal
 * number, where units no longer shrink, the processor rounds: adding the power of two whose last place is that
 * unit leaves the number of units in the sum's mantissa. */
INLINE vec_u32 round_small(vec value, int width, int mantissa, int bias, int32_t largest, int32_t nan)
{
    const int dropped = 23 - mantissa;
    const vec_u32 anchor = (vec_u32){0} + ((uint32_t)(127 + 23 + 1 - bias - mantissa) << 23);
    const uint32_t adjust = (1u << dropped) / 2 - 1 - ((uint32_t)(127 - bias) << 23);
    vec_u32 magnitude = (vec_u32)value & 0x7fffffffu;
    vec_u32 normal = (magnitude + adjust + (magnitude >> dropped & 1)) >> dropped;
    vec_u32 tiny = (vec_u32)((vec_f32)magnitude + (vec_f32)anchor) - anchor;
    vec is_tiny = (vec)((vec_i32)magnitude < (128 - bias) << 23);
    vec result = vec_select(is_tiny, (vec)tiny, (vec)normal);
    result = vec_select((vec)((vec_i32)result > largest), (vec)((vec_i32){0} + largest), result);
    if (largest == 0x7b) /* e5m2: only infinity is infinity */
        result = vec_select((vec)((vec_i32)magnitude == 0x7f800000), (vec)((vec_i32){0} + 0x7c), result);
    result |= (vec)((vec_u32)value >> (32 - width) & 1u << (width - 1));
    return (vec_u32)vec_select((vec)((vec_i32)magnitude > 0x7f800000), (vec)((vec_i32){0} + nan), result);
}

/* float16. The processor's own conversions where there are some: they round alike and take denormals as they
 * are, whatever the environment; of a NaN they keep sign and payload, which narrowing has replaced before.
 * half_pack puts the low halves of 32-bit lanes where half_narrow puts its results. */
#if VECTOR_BYTES == 64

INLINE struct wide half_widen(vec halves)
{
    vec a = (vec)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)halves));
    vec b = (vec)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)halves, 1));
    return (struct wide){.a = a, .b = b};
}

INLINE vec half_join(__m256i a, __m256i b)
{
    return (vec)_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

INLINE vec half_narrow(vec a, vec b)
{
    return half_join(_mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT),
                     _mm512_cvtps_ph((__m512)b, _MM_FROUND_TO_NEAREST_INT));
}

INLINE vec half_pack(vec_u32 a, vec_u32 b)
{
    return half_join(_mm512_cvtepi32_epi16((__m512i)a), _mm512_cvtepi32_epi16((__m512i)b));
}

#elif VECTOR_BYTES == 32

INLINE struct wide half_widen(vec halves)
{
    vec a = (vec)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)halves));
    vec b = (vec)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)halves, 1));
    return (struct wide){.a = a, .b = b};
}

INLINE vec half_narrow(vec a, vec b)
{
    __m128i low = _mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT);
    __m128i high = _mm256_cvtps_ph((__m256)b, _MM_FROUND_TO_NEAREST_INT);
    return (vec)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

INLINE vec half_pack(vec_u32 a, vec_u32 b)
{
    __m256i packed = _mm256_packus_epi32((__m256i)a, (__m256i)b);
    return (vec)_mm256_permute4x64_epi64(packed, 0xd8);
}

#else

/* Exponent and mantissa moved into place make a float32 that is too small by 2^112, denormals included; an
 * exponent of all ones is set again. */
INLINE vec half_widen_lanes(vec_u32 halves)
{
    vec_u32 magnitude = (halves & 0x7fff) << 13;
    vec value = (vec)((vec_f32)magnitude * 0x1p112f);
    vec special = (vec)((vec_i32)magnitude >= 0x7c00 << 13) & (vec)((vec_u32){0} + 0x7f800000u);
    return value | special | (vec)((halves & 0x8000) << 16);
}

INLINE struct wide half_widen(vec halves)
{
    return (struct wide){.a = half_widen_lanes((vec_u32)halves & 0xffff),
                         .b = half_widen_lanes((vec_u32)halves >> 16)};
}

INLINE vec half_pack(vec_u32 a, vec_u32 b)
{
    return (vec)(a | b << 16);
}

INLINE vec half_narrow(vec a, vec b)
{
    return half_pack(round_small(a, 16, 10, 15, 0x7c00, 0x7e00), round_small(b, 16, 10, 15, 0x7c00, 0x7e00));
}

#endif

/* float8 in the upper bytes of 16-bit lanes, the lower ones zero, to float32. */
INLINE struct wide quarter_widen(weft_dtype dtype, vec_u16 elements)
{
    if (dtype == WEFT_FLOAT8_E5M2)
        return half_widen((vec)elements);
    vec_u16 nan = (vec_u16)((vec_i16)(elements & 0x7f00) == 0x7f00) & 0x7e00;
    struct wide wide = half_widen((vec)((elements & 0x8000) | (elements & 0x7f00) >> 1 | nan));
    wide.a = (vec)((vec_f32)wide.a * 0x1p8f);
    wide.b = (vec)((vec_f32)wide.b * 0x1p8f);
    return wide;
}

INLINE vec_u32 quarter_round(weft_dtype dtype, vec value)
{
    return dtype == WEFT_FLOAT8_E5M2 ? round_small(value, 8, 2, 15, 0x7b, 0x7e)
                                     : round_small(value, 8, 3, 7, 0x7e, 0x7f);
}

/* float32 lanes rounded to bfloat16 in their upper 16 bits; the lower 16 are left undefined. Adding just
 * under half a unit, plus one where the kept part is odd, carries exactly when it should round up, into
 * infinity too. */
INLINE vec_u32 round_bf16(vec value)
{
    vec_u32 bits = (vec_u32)value;
    vec_u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    vec nan = (vec)((vec_f32)value != (vec_f32)value);
    return (vec_u32)vec_select(nan, (vec)((vec_u32){0} + 0x7fc00000u), (vec)rounded);
}

INLINE vec canonical_f32(vec value)
{
    vec nan = (vec)((vec_f32)value != (vec_f32)value);
    return vec_select(nan, (vec)((vec_u32){0} + 0x7fc00000u), value);
}

INLINE struct wide small_widen(weft_dtype dtype, vec elements)
{
    if (dtype == WEFT_BFLOAT16)
        return (struct wide){.a = (vec)((vec_u32)elements << 16),
                             .b = (vec)((vec_u32)elements & 0xffff0000u)};
    if (dtype == WEFT_FLOAT16)
        return half_widen(elements);
    struct wide even = quarter_widen(dtype, (vec_u16)elements << 8);
    struct wide odd = quarter_widen(dtype, (vec_u16)elements & 0xff00);
    return (struct wide){even.a, even.b, odd.a, odd.b};
}

INLINE vec small_narrow(weft_dtype dtype, struct wide value)
{
    if (dtype == WEFT_BFLOAT16)
        return (vec)(round_bf16(value.a) >> 16 | (round_bf16(value.b) & 0xffff0000u));
    if (dtype == WEFT_FLOAT16)
        return half_narrow(canonical_f32(value.a), canonical_f32(value.b));
    vec even = half_pack(quarter_round(dtype, value.a), quarter_round(dtype, value.b));
    vec odd = half_pack(quarter_round(dtype, value.c), quarter_round(dtype, value.d));
    return even | (vec)((vec_u16)odd << 8);
}

/* min and max: flipping the lower bits of negative numbers makes integers in the order of the numbers, -0 just
 * below +0. A NaN becomes the integer that wins, which no number maps to. */
INLINE int uses_keys(weft_dtype dtype, weft_op op)
{
    return is_small(dtype) && (op == WEFT_MIN || op == WEFT_MAX);
}

INLINE int key_of_nan(weft_dtype dtype, weft_op op)
{
    if (is_float8(dtype))
        return op == WEFT_MIN ? INT8_MIN : INT8_MAX;
    return op == WEFT_MIN ? INT16_MIN : INT16_MAX;
}

/* The last magnitude that is not a NaN. */
INLINE int largest_magnitude(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT8_E4M3:
        return 0x7e;
    case WEFT_FLOAT8_E5M2:
        return 0x7c;
    case WEFT_FLOAT16:
        return 0x7c00;
    default:
        return 0x7f80;
    }
}

INLINE int nan_bits(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT8_E4M3:
        return 0x7f;
    case WEFT_FLOAT8_E5M2:
        return 0x7e;
    case WEFT_FLOAT16:
        return 0x7e00;
    default:
        return 0x7fc0;
    }
}

INLINE vec_i16 key_flip16(vec_i16 bits)
{
    return bits ^ (bits >> 15 & 0x7fff);
}

/* There are no shifts of bytes. */
INLINE vec_i8 key_flip8(vec_i8 bits)
{
    return bits ^ ((vec_i8)(bits < 0) & 0x7f);
}

INLINE vec key_make(weft_dtype dtype, weft_op op, vec elements)
{
    if (is_float8(dtype)) {
        vec nan = (vec)(((vec_i8)elements & 0x7f) > (int8_t)largest_magnitude(dtype));
        vec key = (vec)((vec_i8){0} + (int8_t)key_of_nan(dtype, op));
        return vec_select(nan, key, (vec)key_flip8((vec_i8)elements));
    }
    vec nan = (vec)(((vec_i16)elements & 0x7fff) > (int16_t)largest_magnitude(dtype));
    vec key = (vec)((vec_i16){0} + (int16_t)key_of_nan(dtype, op));
    return vec_select(nan, key, (vec)key_flip16((vec_i16)elements));
}

INLINE vec key_restore(weft_dtype dtype, weft_op op, vec keys)
{
    if (is_float8(dtype)) {
        vec nan = (vec)((vec_i8)keys == (int8_t)key_of_nan(dtype, op));
        return vec_select(nan, (vec)((vec_i8){0} + (int8_t)nan_bits(dtype)), (vec)key_flip8((vec_i8)keys));
    }
    vec nan = (vec)((vec_i16)keys == (int16_t)key_of_nan(dtype, op));
    return vec_select(nan, (vec)((vec_i16){0} + (int16_t)nan_bits(dtype)), (vec)key_flip16((vec_i16)keys));
}

INLINE vec combine_keys(weft_dtype dtype, weft_op op, vec a, vec b)
{
    vec less = is_float8(dtype) ? (vec)((vec_i8)a < (vec_i8)b) : (vec)((vec_i16)a < (vec_i16)b);
    return op == WEFT_MIN ? vec_select(less, a, b) : vec_select(less, b, a);
}

#endif
