/* SPDX-License-Identifier: Apache-2.0 */
/* What reductions do to one element, as docs/types.md has it, for kernels: from the element's bits to the accumulator
 * (widen), two accumulators into one, the division that ends avg, and back to bits (narrow), which rounds once and makes every
 * NaN the same. Plain C that is CUDA C and OpenCL C too, so that the processor tests what devices run.
 *
 * Why the bits agree with devmem/reduce.h: single IEEE operations only, each rounded to nearest; contraction is off (-fmad=false,
 * FP_CONTRACT OFF, -ffp-contract=off), denormals are kept, division is the correctly rounded one (-prec-div=true, or done
 * here by integers); what processors may choose freely, a NaN's sign and payload, is replaced; min and max compare integers that sort as
 * the numbers do.
 *
 * Bits of elements up to 32 bits come zero-extended in a uint32_t, larger ones in a uint64_t or struct weft_bits128. A function
 * named for a type takes or gives its bits; narrow's result has no bits beyond the type's.
 */
#ifndef WEFT_DEVMEM_KERNELS_ARITHMETIC_H
#define WEFT_DEVMEM_KERNELS_ARITHMETIC_H

#include "devmem/kernels/language.h"

struct weft_bits128 {
    uint64_t low, high;
};

struct weft_complex64 {
    float real, imaginary;
};

struct weft_complex128 {
    double real, imaginary;
};

WEFT_ELEMENTWISE float float_of_bits(uint32_t bits)
{
#ifdef __OPENCL_C_VERSION__
    return as_float(bits);
#else
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

WEFT_ELEMENTWISE uint32_t bits_of_float(float value)
{
#ifdef __OPENCL_C_VERSION__
    return as_uint(value);
#else
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

WEFT_ELEMENTWISE double double_of_bits(uint64_t bits)
{
#ifdef __OPENCL_C_VERSION__
    return as_double(bits);
#else
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

WEFT_ELEMENTWISE uint64_t bits_of_double(double value)
{
#ifdef __OPENCL_C_VERSION__
    return as_ulong(value);
#else
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

/* --- integers and bool. Sums and products are computed modulo 2^32 or 2^64; narrowing drops the rest. */

WEFT_ELEMENTWISE uint32_t bits32_same(uint32_t a)
{
    return a;
}

WEFT_ELEMENTWISE uint64_t bits64_same(uint64_t a)
{
    return a;
}

WEFT_ELEMENTWISE uint32_t int8_narrow(uint32_t a)
{
    return a & 0xff;
}

WEFT_ELEMENTWISE uint32_t int16_narrow(uint32_t a)
{
    return a & 0xffff;
}

/* The same number in 32 bits. */
WEFT_ELEMENTWISE uint32_t int8_widen(uint32_t a)
{
    return (uint32_t)(int32_t)(int8_t)a;
}

WEFT_ELEMENTWISE uint32_t int16_widen(uint32_t a)
{
    return (uint32_t)(int32_t)(int16_t)a;
}

WEFT_ELEMENTWISE uint32_t bool_widen(uint32_t a)
{
    return a != 0;
}

WEFT_ELEMENTWISE uint32_t int_add(uint32_t a, uint32_t b)
{
    return a + b;
}

WEFT_ELEMENTWISE uint32_t int_times(uint32_t a, uint32_t b)
{
    return a * b;
}

WEFT_ELEMENTWISE uint32_t int_and(uint32_t a, uint32_t b)
{
    return a & b;
}

WEFT_ELEMENTWISE uint32_t int_or(uint32_t a, uint32_t b)
{
    return a | b;
}

WEFT_ELEMENTWISE uint32_t int_xor(uint32_t a, uint32_t b)
{
    return a ^ b;
}

WEFT_ELEMENTWISE uint32_t int_max(uint32_t a, uint32_t b)
{
    return (int32_t)a > (int32_t)b ? a : b;
}

WEFT_ELEMENTWISE uint32_t int_min(uint32_t a, uint32_t b)
{
    return (int32_t)a < (int32_t)b ? a : b;
}

WEFT_ELEMENTWISE uint32_t uint_max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

WEFT_ELEMENTWISE uint32_t uint_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

WEFT_ELEMENTWISE uint64_t int64_add(uint64_t a, uint64_t b)
{
    return a + b;
}

WEFT_ELEMENTWISE uint64_t int64_times(uint64_t a, uint64_t b)
{
    return a * b;
}

WEFT_ELEMENTWISE uint64_t int64_max(uint64_t a, uint64_t b)
{
    return (int64_t)a > (int64_t)b ? a : b;
}

WEFT_ELEMENTWISE uint64_t int64_min(uint64_t a, uint64_t b)
{
    return (int64_t)a < (int64_t)b ? a : b;
}

WEFT_ELEMENTWISE uint64_t uint64_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

WEFT_ELEMENTWISE uint64_t uint64_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Division of a sum that has wrapped in its own width first, truncating toward zero: by magnitudes, because a divisor may be larger
 * than the largest signed number. */
WEFT_ELEMENTWISE uint32_t int32_divide(uint32_t a, uint32_t finish)
{
    int negative = (int32_t)a < 0;
    uint32_t quotient = (negative ? 0u - a : a) / finish;
    return negative ? 0u - quotient : quotient;
}

WEFT_ELEMENTWISE uint32_t int8_divide(uint32_t a, uint32_t finish)
{
    return int32_divide(int8_widen(a), finish);
}

WEFT_ELEMENTWISE uint32_t int16_divide(uint32_t a, uint32_t finish)
{
    return int32_divide(int16_widen(a), finish);
}

WEFT_ELEMENTWISE uint32_t uint8_divide(uint32_t a, uint32_t finish)
{
    return (a & 0xff) / finish;
}

WEFT_ELEMENTWISE uint32_t uint16_divide(uint32_t a, uint32_t finish)
{
    return (a & 0xffff) / finish;
}

WEFT_ELEMENTWISE uint32_t uint32_divide(uint32_t a, uint32_t finish)
{
    return a / finish;
}

WEFT_ELEMENTWISE uint64_t uint64_divide(uint64_t a, uint32_t finish)
{
    return a / finish;
}

WEFT_ELEMENTWISE uint64_t int64_divide(uint64_t a, uint32_t finish)
{
    int negative = (int64_t)a < 0;
    uint64_t quotient = (negative ? 0u - a : a) / finish;
    return negative ? 0u - quotient : quotient;
}

/* --- float32, and the smaller types computed in it */

WEFT_ELEMENTWISE float float_add(float a, float b)
{
    return a + b;
}

WEFT_ELEMENTWISE float float_times(float a, float b)
{
    return a * b;
}

#ifdef WEFT_DIVIDES_BY_INTEGERS
/* The quotient of the mantissas with three bits more than a float has, the last of which says whether anything is left. */
WEFT_ELEMENTWISE uint32_t mantissa_divide(uint32_t a, uint32_t b)
{
    const uint64_t dividend = (uint64_t)a << 26;
    const uint64_t quotient = dividend / b;
    return (uint32_t)quotient | (quotient * b != dividend);
}

/* OpenCL C's division of floats need not be rounded correctly, and drivers do not say that they do it where they are asked to. */
WEFT_ELEMENTWISE float float_divide(float a, uint32_t finish)
{
    const uint32_t divisor = bits_of_float((float)finish), sign = bits_of_float(a) & 0x80000000u;
    uint32_t bits = bits_of_float(a) & 0x7fffffffu, below;
    int exponent = (int)(bits >> 23);
    if (bits == 0 || bits >= 0x7f800000u)
        return a;
    if (exponent == 0) {
        bits = bits_of_float(float_of_bits(bits) * 0x1p24f);
        exponent = (int)(bits >> 23) - 24;
    }
    exponent -= (int)(divisor >> 23) - 127;
    bits = mantissa_divide((bits & 0x7fffff) | 0x800000, (divisor & 0x7fffff) | 0x800000);
    if (bits < 1u << 26) {
        bits <<= 1;
        exponent--;
    }
    if (exponent < 1) { /* denormal: fewer bits are left */
        const int less = exponent > -26 ? 1 - exponent : 27;
        bits = bits >> less | ((bits & ((1u << less) - 1)) != 0);
        exponent = 1;
    }
    below = bits & 7;
    bits = (bits >> 3) + (below > 4 || (below == 4 && (bits >> 3 & 1)));
    return float_of_bits(sign | (((uint32_t)(exponent - 1) << 23) + bits));
}
#else
WEFT_ELEMENTWISE float float_divide(float a, uint32_t finish)
{
    return a / (float)finish;
}
#endif

WEFT_ELEMENTWISE uint32_t float32_narrow(float a)
{
    return a != a ? 0x7fc00000u : bits_of_float(a);
}

/* Upwards an exponent and mantissa moved into place make a float32 that is too small by 2^112, denormals included; an exponent of
 * all ones is set again. Devices have an instruction that gives the same numbers, and other NaNs. */
WEFT_ELEMENTWISE float float16_widen(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    float value;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)bits));
    return value;
#else
    uint32_t magnitude = (bits & 0x7fff) << 13;
    uint32_t value = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
    if (magnitude >= 0x7c00u << 13)
        value |= 0x7f800000u;
    return float_of_bits(value | (bits & 0x8000) << 16);
#endif
}

/* float32 to a type of so many bits, mantissa bits and this exponent bias; magnitudes beyond largest become largest. The mantissa is
 * rounded by adding just under half a unit, plus one where the kept part is odd: that carries into the exponent exactly
 * when it should. Below the smallest normal number, where units no longer shrink, the processor rounds: adding the power of two whose
 * last place is that unit leaves the number of units in the sum's mantissa. infinity and nan are the bits for those. */
WEFT_ELEMENTWISE uint32_t small_narrow(float value, int width, int mantissa, int bias, uint32_t largest,
                                       uint32_t infinity, uint32_t nan)
{
    const int dropped = 23 - mantissa;
    const uint32_t anchor = (uint32_t)(127 + 23 + 1 - bias - mantissa) << 23;
    const uint32_t adjust = (1u << dropped) / 2 - 1 - ((uint32_t)(127 - bias) << 23);
    uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffffu, result;
    if (magnitude < (uint32_t)(128 - bias) << 23)
        result = bits_of_float(float_of_bits(magnitude) + float_of_bits(anchor)) - anchor;
    else
        result = (magnitude + adjust + (magnitude >> dropped & 1)) >> dropped;
    result = result > largest ? largest : result;
    result = magnitude == 0x7f800000u ? infinity : result;
    result |= bits >> (32 - width) & 1u << (width - 1);
    return magnitude > 0x7f800000u ? nan : result;
}

WEFT_ELEMENTWISE uint32_t float16_narrow(float a)
{
#ifdef __CUDA_ARCH__
    unsigned short bits;
    __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(a));
    return a != a ? 0x7e00 : bits;
#else
    return small_narrow(a, 16, 10, 15, 0x7c00, 0x7c00, 0x7e00);
#endif
}

WEFT_ELEMENTWISE float bfloat16_widen(uint32_t bits)
{
    return float_of_bits(bits << 16);
}

WEFT_ELEMENTWISE uint32_t bfloat16_narrow(float a)
{
    uint32_t bits = bits_of_float(a);
    return a != a ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* float16's upper byte. */
WEFT_ELEMENTWISE float e5m2_widen(uint32_t bits)
{
    return float16_widen(bits << 8);
}

WEFT_ELEMENTWISE uint32_t e5m2_narrow(float a)
{
    return small_narrow(a, 8, 2, 15, 0x7b, 0x7c, 0x7e);
}

/* As float16 with one exponent bit less: exact after a multiplication by 2^8. */
WEFT_ELEMENTWISE float e4m3_widen(uint32_t bits)
{
    uint32_t shifted = (bits & 0x80) << 8 | (bits & 0x7f) << 7;
    return float16_widen((bits & 0x7f) == 0x7f ? 0x7e00 : shifted) * 0x1p8f;
}

WEFT_ELEMENTWISE uint32_t e4m3_narrow(float a)
{
    return small_narrow(a, 8, 3, 7, 0x7e, 0x7e, 0x7f);
}

/* --- min and max of floats. Flipping the lower bits of negative numbers makes integers in the order of the numbers, -0
 * just below +0. A NaN becomes the integer that wins, which no number maps to. Types of 8 and 16 bits go into the upper bits, where
 * their layout is float32's with fewer bits; infinity is the largest magnitude there that is not a NaN. */

WEFT_ELEMENTWISE uint32_t key_flip(uint32_t bits)
{
    return bits ^ ((bits >> 31) * 0x7fffffffu);
}

WEFT_ELEMENTWISE uint32_t key_make(uint32_t bits, uint32_t infinity, uint32_t winner)
{
    return (bits & 0x7fffffffu) > infinity ? winner : key_flip(bits);
}

WEFT_ELEMENTWISE uint32_t key_restore(uint32_t key, uint32_t winner, uint32_t nan)
{
    return key == winner ? nan : key_flip(key);
}

#define WEFT_KEY_MAX 0x7fffffffu /* what a NaN is to max */
#define WEFT_KEY_MIN 0x80000000u /* what a NaN is to min */

#define WEFT_KEYS(type, shift, infinity, nan)                                                                \
    WEFT_ELEMENTWISE uint32_t type##_max_widen(uint32_t bits)                                                \
    {                                                                                                        \
        return key_make(bits << (shift), (uint32_t)(infinity) << (shift), WEFT_KEY_MAX);                     \
    }                                                                                                        \
    WEFT_ELEMENTWISE uint32_t type##_max_narrow(uint32_t key)                                                \
    {                                                                                                        \
        return key_restore(key, WEFT_KEY_MAX, (uint32_t)(nan) << (shift)) >> (shift);                        \
    }                                                                                                        \
    WEFT_ELEMENTWISE uint32_t type##_min_widen(uint32_t bits)                                                \
    {                                                                                                        \
        return key_make(bits << (shift), (uint32_t)(infinity) << (shift), WEFT_KEY_MIN);                     \
    }                                                                                                        \
    WEFT_ELEMENTWISE uint32_t type##_min_narrow(uint32_t key)                                                \
    {                                                                                                        \
        return key_restore(key, WEFT_KEY_MIN, (uint32_t)(nan) << (shift)) >> (shift);                        \
    }
WEFT_KEYS(e4m3, 24, 0x7e, 0x7f)
WEFT_KEYS(e5m2, 24, 0x7c, 0x7e)
WEFT_KEYS(float16, 16, 0x7c00, 0x7e00)
WEFT_KEYS(bfloat16, 16, 0x7f80, 0x7fc0)
WEFT_KEYS(float32, 0, 0x7f800000, 0x7fc00000)
#undef WEFT_KEYS

WEFT_ELEMENTWISE uint64_t key64_flip(uint64_t bits)
{
    return bits ^ ((bits >> 63) * 0x7fffffffffffffffu);
}

WEFT_ELEMENTWISE int key64_is_nan(uint64_t bits)
{
    return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

WEFT_ELEMENTWISE uint64_t float64_max_widen(uint64_t bits)
{
    return key64_is_nan(bits) ? 0x7fffffffffffffffu : key64_flip(bits);
}

WEFT_ELEMENTWISE uint64_t float64_max_narrow(uint64_t key)
{
    return key == 0x7fffffffffffffffu ? 0x7ff8000000000000u : key64_flip(key);
}

WEFT_ELEMENTWISE uint64_t float64_min_widen(uint64_t bits)
{
    return key64_is_nan(bits) ? 0x8000000000000000u : key64_flip(bits);
}

WEFT_ELEMENTWISE uint64_t float64_min_narrow(uint64_t key)
{
    return key == 0x8000000000000000u ? 0x7ff8000000000000u : key64_flip(key);
}

/* --- float64 and complex numbers */

WEFT_ELEMENTWISE double double_add(double a, double b)
{
    return a + b;
}

WEFT_ELEMENTWISE double double_times(double a, double b)
{
    return a * b;
}

WEFT_ELEMENTWISE double double_divide(double a, uint32_t finish)
{
    return a / (double)finish;
}

WEFT_ELEMENTWISE uint64_t float64_narrow(double a)
{
    return a != a ? 0x7ff8000000000000u : bits_of_double(a);
}

/* (a + bi)(c + di) = (ac - bd) + (ad + bc)i: four products and two sums, each rounded. */
#define WEFT_COMPLEX(type, part)                                                                             \
    WEFT_ELEMENTWISE struct weft_##type type##_add(struct weft_##type a, struct weft_##type b)               \
    {                                                                                                        \
        struct weft_##type sum = {a.real + b.real, a.imaginary + b.imaginary};                               \
        return sum;                                                                                          \
    }                                                                                                        \
    WEFT_ELEMENTWISE struct weft_##type type##_times(struct weft_##type a, struct weft_##type b)             \
    {                                                                                                        \
        part ac = a.real * b.real, bd = a.imaginary * b.imaginary;                                           \
        part ad = a.real * b.imaginary, bc = a.imaginary * b.real;                                           \
        struct weft_##type product = {ac - bd, ad + bc};                                                     \
        return product;                                                                                      \
    }                                                                                                        \
    WEFT_ELEMENTWISE struct weft_##type type##_divide(struct weft_##type a, uint32_t finish)                 \
    {                                                                                                        \
        struct weft_##type quotient = {part##_divide(a.real, finish), part##_divide(a.imaginary, finish)};   \
        return quotient;                                                                                     \
    }
WEFT_COMPLEX(complex64, float)
WEFT_COMPLEX(complex128, double)
#undef WEFT_COMPLEX

WEFT_ELEMENTWISE struct weft_complex64 complex64_widen(uint64_t bits)
{
    struct weft_complex64 value = {float_of_bits((uint32_t)bits), float_of_bits((uint32_t)(bits >> 32))};
    return value;
}

WEFT_ELEMENTWISE uint64_t complex64_narrow(struct weft_complex64 a)
{
    return float32_narrow(a.real) | (uint64_t)float32_narrow(a.imaginary) << 32;
}

WEFT_ELEMENTWISE struct weft_complex128 complex128_widen(struct weft_bits128 bits)
{
    struct weft_complex128 value = {double_of_bits(bits.low), double_of_bits(bits.high)};
    return value;
}

WEFT_ELEMENTWISE struct weft_bits128 complex128_narrow(struct weft_complex128 a)
{
    struct weft_bits128 bits = {float64_narrow(a.real), float64_narrow(a.imaginary)};
    return bits;
}

#endif
