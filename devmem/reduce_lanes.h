/* SPDX-License-Identifier: Apache-2.0 */
/* What the operations do to one vector of elements: from bits to the accumulator type (widen), two into one
 * (combine), the division that ends avg (divide), and back (narrow).
 */
#ifndef WEFT_DEVMEM_REDUCE_LANES_H
#define WEFT_DEVMEM_REDUCE_LANES_H

#include "devmem/reduce_narrow_floats.h"
#include "devmem/reduce_vector.h"

typedef int32_t half_i32 __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint32_t half_u32 __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef int16_t half_i16 __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint16_t half_u16 __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef int8_t quarter_i8 __attribute__((vector_size(VECTOR_BYTES / 4)));
typedef uint8_t quarter_u8 __attribute__((vector_size(VECTOR_BYTES / 4)));

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

/* Sums and products modulo 2^n are the same for signed and unsigned lanes. */
#define COMBINE_INTEGERS(name, lanes, unsigned_lanes)                                                        \
    INLINE vec name(weft_op op, vec a, vec b)                                                                \
    {                                                                                                        \
        vec less = (vec)((lanes)a < (lanes)b);                                                               \
        switch (op) {                                                                                        \
        case WEFT_PROD:                                                                                      \
            return (vec)((unsigned_lanes)a * (unsigned_lanes)b);                                             \
        case WEFT_MIN:                                                                                       \
            return vec_select(less, a, b);                                                                   \
        case WEFT_MAX:                                                                                       \
            return vec_select(less, b, a);                                                                   \
        default:                                                                                             \
            return (vec)((unsigned_lanes)a + (unsigned_lanes)b);                                             \
        }                                                                                                    \
    }
COMBINE_INTEGERS(combine_i8, vec_i8, vec_u8)
COMBINE_INTEGERS(combine_u8, vec_u8, vec_u8)
COMBINE_INTEGERS(combine_i16, vec_i16, vec_u16)
COMBINE_INTEGERS(combine_u16, vec_u16, vec_u16)
COMBINE_INTEGERS(combine_i32, vec_i32, vec_u32)
COMBINE_INTEGERS(combine_u32, vec_u32, vec_u32)
COMBINE_INTEGERS(combine_i64, vec_i64, vec)
COMBINE_INTEGERS(combine_u64, vec, vec)
#undef COMBINE_INTEGERS

/* (a + bi)(c + di) = (ac - bd) + (ad + bc)i, real parts in even lanes. Four products, two sums, each rounded;
 * subtracting is adding with the sign changed. */
INLINE vec combine_c64(vec x, vec y)
{
    const vec low = (vec){0} + 0xffffffffu, sign = (vec){0} + 0x80000000u;
    vec real = (x & low) | x << 32, imaginary = x >> 32 | (x & ~low), crossed = y << 32 | y >> 32;
    vec products = (vec)((vec_f32)imaginary * (vec_f32)crossed) ^ sign;
    return (vec)((vec_f32)real * (vec_f32)y + (vec_f32)products);
}

INLINE vec combine_c128(vec x, vec y)
{
    const vec even = {EVEN_LANES}, sign = even & ((vec){0} + ((uint64_t)1 << 63));
    vec real = vec_select(even, x, vec_swap(x)), imaginary = vec_select(even, vec_swap(x), x);
    vec products = (vec)((vec_f64)imaginary * (vec_f64)vec_swap(y)) ^ sign;
    return (vec)((vec_f64)real * (vec_f64)y + (vec_f64)products);
}

/* Truncating division of integers. Those of 8 and 16 bits go through float32, those of 32 bits through float64:
 * the quotient of n bits by a 32-bit count is at least 2^-n of itself away from the next whole number unless it
 * is one, so that no rounding crosses it; a count that float32 cannot hold is so large that the quotient is 0. */
#define DIVIDE_PARTS(name, parts, part, wide_lanes, middle, number)                                          \
    INLINE vec name(vec value, uint32_t divisor)                                                             \
    {                                                                                                        \
        union {                                                                                              \
            vec value;                                                                                       \
            part part[parts];                                                                                \
        } lanes = {value};                                                                                   \
        UNROLL                                                                                               \
        for (int i = 0; i < (parts); i++) {                                                                  \
            wide_lanes quotient = __builtin_convertvector(lanes.part[i], wide_lanes) / (number)divisor;      \
            lanes.part[i] = __builtin_convertvector(__builtin_convertvector(quotient, middle), part);        \
        }                                                                                                    \
        return lanes.value;                                                                                  \
    }
DIVIDE_PARTS(divide_i8, 4, quarter_i8, vec_f32, vec_i32, float)
DIVIDE_PARTS(divide_u8, 4, quarter_u8, vec_f32, vec_i32, float)
DIVIDE_PARTS(divide_i16, 2, half_i16, vec_f32, vec_i32, float)
DIVIDE_PARTS(divide_u16, 2, half_u16, vec_f32, vec_i32, float)
DIVIDE_PARTS(divide_i32, 2, half_i32, vec_f64, half_i32, double)
DIVIDE_PARTS(divide_u32, 2, half_u32, vec_f64, half_u32, double)
#undef DIVIDE_PARTS

INLINE vec divide_64(weft_dtype dtype, vec value, uint32_t divisor)
{
    for (int i = 0; i < VECTOR_BYTES / 8; i++)
        value[i] =
            dtype == WEFT_INT64 ? (uint64_t)((int64_t)value[i] / (int64_t)divisor) : value[i] / divisor;
    return value;
}

INLINE vec combine_lanes(weft_dtype dtype, weft_op op, vec a, vec b)
{
    switch (dtype) {
    case WEFT_INT8:
        return combine_i8(op, a, b);
    case WEFT_UINT8:
        return combine_u8(op, a, b);
    case WEFT_INT16:
        return combine_i16(op, a, b);
    case WEFT_UINT16:
        return combine_u16(op, a, b);
    case WEFT_INT32:
        return combine_i32(op, a, b);
    case WEFT_UINT32:
        return combine_u32(op, a, b);
    case WEFT_INT64:
        return combine_i64(op, a, b);
    case WEFT_UINT64:
        return combine_u64(op, a, b);
    case WEFT_FLOAT64:
        return combine_f64(op, (vec_f64)a, (vec_f64)b);
    case WEFT_COMPLEX64:
        return combine_c64(a, b);
    case WEFT_COMPLEX128:
        return combine_c128(a, b);
    default:
        return combine_f32(op, (vec_f32)a, (vec_f32)b);
    }
}

INLINE vec divide_lanes(weft_dtype dtype, vec value, uint32_t divisor)
{
    switch (dtype) {
    case WEFT_INT8:
        return divide_i8(value, divisor);
    case WEFT_UINT8:
        return divide_u8(value, divisor);
    case WEFT_INT16:
        return divide_i16(value, divisor);
    case WEFT_UINT16:
        return divide_u16(value, divisor);
    case WEFT_INT32:
        return divide_i32(value, divisor);
    case WEFT_UINT32:
        return divide_u32(value, divisor);
    case WEFT_INT64:
    case WEFT_UINT64:
        return divide_64(dtype, value, divisor);
    case WEFT_FLOAT64:
        return (vec)((vec_f64)value / (double)divisor);
    default:
        return (vec)((vec_f32)value / (float)divisor);
    }
}

INLINE struct wide widen(weft_dtype dtype, weft_op op, vec elements)
{
    if (uses_keys(dtype, op))
        return (struct wide){.a = key_make(dtype, op, elements)};
    if (is_small(dtype))
        return small_widen(dtype, elements);
    if (dtype == WEFT_BOOL)
        return (struct wide){.a = (vec)((vec_u8)((vec_u8)elements != 0) & 1)};
    return (struct wide){.a = elements};
}

INLINE struct wide combine(weft_dtype dtype, weft_op op, struct wide x, struct wide y)
{
    if (op == WEFT_AND)
        return (struct wide){.a = x.a & y.a};
    if (op == WEFT_OR)
        return (struct wide){.a = x.a | y.a};
    if (op == WEFT_XOR)
        return (struct wide){.a = x.a ^ y.a};
    if (uses_keys(dtype, op))
        return (struct wide){.a = combine_keys(dtype, op, x.a, y.a)};
    struct wide result = {.a = combine_lanes(dtype, op, x.a, y.a)};
    if (is_small(dtype))
        result.b = combine_lanes(dtype, op, x.b, y.b);
    if (is_float8(dtype)) {
        result.c = combine_lanes(dtype, op, x.c, y.c);
        result.d = combine_lanes(dtype, op, x.d, y.d);
    }
    return result;
}

INLINE struct wide divide(weft_dtype dtype, struct wide value, uint32_t divisor)
{
    struct wide result = {.a = divide_lanes(dtype, value.a, divisor)};
    if (is_small(dtype))
        result.b = divide_lanes(dtype, value.b, divisor);
    if (is_float8(dtype)) {
        result.c = divide_lanes(dtype, value.c, divisor);
        result.d = divide_lanes(dtype, value.d, divisor);
    }
    return result;
}

/* Back to the element type: the only rounding, and the one NaN. */
INLINE vec narrow(weft_dtype dtype, weft_op op, struct wide value)
{
    if (uses_keys(dtype, op))
        return key_restore(dtype, op, value.a);
    if (is_small(dtype))
        return small_narrow(dtype, value);
    switch (dtype) {
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        return canonical_f32(value.a);
    case WEFT_FLOAT64:
    case WEFT_COMPLEX128:
        return vec_select((vec)((vec_f64)value.a != (vec_f64)value.a), (vec){0} + 0x7ff8000000000000u,
                          value.a);
    default:
        return value.a;
    }
}

/* Whether lanes are computed as floating-point numbers: only then the caller's environment matters. Dividing
 * integers gives the same in every environment. */
INLINE int uses_floats(weft_dtype dtype, weft_op op)
{
    switch (dtype) {
    case WEFT_FLOAT32:
    case WEFT_FLOAT64:
    case WEFT_COMPLEX64:
    case WEFT_COMPLEX128:
        return 1;
    default:
        return is_small(dtype) && !uses_keys(dtype, op);
    }
}

INLINE size_t element_size(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_COMPLEX128:
        return 16;
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_FLOAT64:
    case WEFT_COMPLEX64:
        return 8;
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_FLOAT32:
        return 4;
    case WEFT_INT16:
    case WEFT_UINT16:
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

#endif
