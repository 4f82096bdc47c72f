/* SPDX-License-Identifier: Apache-2.0 */
/* How the values are chosen, so that every order of evaluation gives the same bits:
 *
 * sum    floats: whole numbers so small that the sum of all ranks' magnitudes still fits the significand:
 *        every partial sum is exact. Where there are more ranks than that leaves room for (bfloat16 above 256
 *        ranks, float8 above 8 or 16), all but every k-th rank contribute 0. Integers: any bits, since wrapping
 *        addition is associative.
 * avg    as sum, without wrapping; the result is the exact sum divided once: correctly rounded in the type
 *        that weft accumulates in (float32 for the 8- and 16-bit types, then rounded to the element), truncated
 *        for integers.
 * prod   floats: powers of two whose exponents cannot leave the range, times 3 and 5 from one rank each per
 *        position. Integers: odd numbers, since wrapping multiplication is associative and keeps them odd.
 * min    anything but NaN, infinities and both zeros included: the result is one of the inputs.
 * max    likewise.
 * and, or, xor  integers: any bits, for and and or such that many ranks leave something to see.
 * bool   0 and 1, likewise.
 *
 * Complex numbers are two floats for sum and avg. Their products are of positive powers of two and, from at most 8
 * ranks per position, of 2+i or -2-i: no power of 2+i has a part that is zero, so that no part's sign of zero
 * depends on the order, and the parts of the eighth are below 2^10.
 *
 * The idea that a test can demand exact results from floating-point reductions is nccl-tests' "verifiable".
 */
#include "perf/values.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* What a type can hold exactly. */
struct kind {
    int is_float;
    int is_signed;
    int exact_bits;    /* whole numbers of magnitude up to 2^exact_bits are exact (integers: fit) */
    int exponent_room; /* floats: 15 * 2^exponent_room fits, 2^-exponent_room is normal */
    double largest;    /* floats: what stands for infinity */
};

static const struct kind kinds[WEFT_DTYPE_COUNT] = {[WEFT_INT8] = {0, 1, 6, 0, 0},
                                                    [WEFT_UINT8] = {0, 0, 7, 0, 0},
                                                    [WEFT_INT16] = {0, 1, 14, 0, 0},
                                                    [WEFT_UINT16] = {0, 0, 15, 0, 0},
                                                    [WEFT_INT32] = {0, 1, 30, 0, 0},
                                                    [WEFT_UINT32] = {0, 0, 31, 0, 0},
                                                    [WEFT_INT64] = {0, 1, 52, 0, 0},
                                                    [WEFT_UINT64] = {0, 0, 52, 0, 0},
                                                    [WEFT_FLOAT16] = {1, 1, 11, 8, INFINITY},
                                                    [WEFT_FLOAT32] = {1, 1, 24, 100, INFINITY},
                                                    [WEFT_FLOAT64] = {1, 1, 53, 900, INFINITY},
                                                    [WEFT_BFLOAT16] = {1, 1, 8, 100, INFINITY},
                                                    [WEFT_FLOAT8_E4M3] = {1, 1, 4, 4, 448},
                                                    [WEFT_FLOAT8_E5M2] = {1, 1, 3, 8, INFINITY},
                                                    [WEFT_COMPLEX64] = {1, 1, 24, 100, INFINITY},
                                                    [WEFT_COMPLEX128] = {1, 1, 53, 900, INFINITY},
                                                    [WEFT_BOOL] = {0, 0, 1, 0, 0}};

/* A well mixed 64-bit value for (position, rank): Steele, Lea and Flood's SplitMix64 finaliser. */
static uint64_t mix(uint64_t position, uint64_t rank)
{
    uint64_t z = (position + 1) * 0x9e3779b97f4a7c15u + rank * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t position_mix(uint64_t position)
{
    return mix(position, UINT64_MAX);
}

/* A whole number such that the magnitudes of all ranks' numbers add up to at most 2^exact_bits. */
static int64_t small_number(const struct kind *kind, int rank, int ranks, uint64_t position)
{
    uint64_t hash = mix(position, (uint64_t)rank);
    int64_t room = (int64_t)1 << (kind->exact_bits < 40 ? kind->exact_bits : 40);
    int64_t limit = room / ranks;
    if (limit == 0) {
        int64_t every = (ranks + room - 1) / room;
        if (rank % every != (int64_t)(position_mix(position) % (uint64_t)every))
            return 0;
        limit = 1;
    }
    if (limit > 1 << 20)
        limit = 1 << 20;
    if (!kind->is_signed)
        return (int64_t)(hash % (uint64_t)(limit + 1));
    return (int64_t)(hash % (uint64_t)(2 * limit + 1)) - limit;
}

static double float_factor(const struct kind *kind, int rank, int ranks, uint64_t position)
{
    uint64_t hash = mix(position, (uint64_t)rank), chosen = position_mix(position);
    int every = (ranks + kind->exponent_room - 1) / kind->exponent_room;
    double factor = hash & 1 ? -1.0 : 1.0;
    if (rank % every == 0)
        factor = ldexp(factor, (int)((hash >> 1) % 3) - 1);
    if (chosen % (uint64_t)ranks == (uint64_t)rank)
        factor *= 3;
    /* 15 needs four bits. */
    if (kind->exact_bits >= 4 && (chosen >> 32) % (uint64_t)ranks == (uint64_t)rank)
        factor *= 5;
    return factor;
}

/* Anything but NaN; one in 32 is a zero, one in 32 infinite. */
static double float_any(const struct kind *kind, int rank, uint64_t position)
{
    uint64_t hash = mix(position, (uint64_t)rank);
    int bits = kind->exact_bits < 30 ? kind->exact_bits : 30;
    double sign = hash & 1 ? -1.0 : 1.0;
    uint64_t draw = (hash >> 1) % 32;
    if (draw == 0)
        return copysign(0.0, sign);
    if (draw == 1)
        return copysign(kind->largest, sign);
    return ldexp(sign * (double)((hash >> 8) & ((1u << bits) - 1)), (int)((hash >> 40) % 8) - 8);
}

static double float_input(weft_dtype dtype, int op, int rank, int ranks, uint64_t position)
{
    const struct kind *kind = &kinds[dtype];
    if (op == WEFT_PROD)
        return float_factor(kind, rank, ranks, position);
    if (op == WEFT_MIN || op == WEFT_MAX)
        return float_any(kind, rank, position);
    return (double)small_number(kind, rank, ranks, position);
}

static int64_t integer_input(weft_dtype dtype, int op, int rank, int ranks, uint64_t position)
{
    const struct kind *kind = &kinds[dtype];
    if (op == WEFT_AVG)
        return small_number(kind, rank, ranks, position);
    uint64_t bits = mix(position, (uint64_t)rank);
    if (op == WEFT_PROD)
        bits |= 1;
    if (op == WEFT_AND)
        bits |= mix(position, (uint64_t)rank + (1u << 20)) | mix(position, (uint64_t)rank + (2u << 20));
    if (op == WEFT_OR)
        bits &= mix(position, (uint64_t)rank + (1u << 20)) & mix(position, (uint64_t)rank + (2u << 20));
    int spare = 64 - 8 * (int)weft_dtype_size(dtype);
    return kind->is_signed ? (int64_t)(bits << spare) >> spare : (int64_t)(bits << spare >> spare);
}

/* Whether a comes before b, -0 before +0. */
static int float_below(double a, double b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static double float_combine(int op, double a, double b)
{
    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return float_below(b, a) ? b : a;
    case WEFT_MAX:
        return float_below(a, b) ? b : a;
    default:
        return a + b;
    }
}

/* Values of up to 64 bits in 64-bit two's complement; wrapping to the type happens when they are stored. */
static int64_t integer_combine(weft_dtype dtype, int op, int64_t a, int64_t b)
{
    int below = kinds[dtype].is_signed ? a < b : (uint64_t)a < (uint64_t)b;
    switch (op) {
    case WEFT_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case WEFT_MIN:
        return below ? a : b;
    case WEFT_MAX:
        return below ? b : a;
    case WEFT_AND:
        return a & b;
    case WEFT_OR:
        return a | b;
    case WEFT_XOR:
        return a ^ b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* Floats of at most 16 bits: stored bits of the significand, bias, and what stands for what is infinite or too large. */
static const struct small_float {
    int mantissa, bias;
    uint32_t top;
} small_floats[WEFT_DTYPE_COUNT] = {
    [WEFT_FLOAT16] = {10, 15, 0x7c00},
    [WEFT_BFLOAT16] = {7, 127, 0x7f80},
    [WEFT_FLOAT8_E4M3] = {3, 7, 0x7e},
    [WEFT_FLOAT8_E5M2] = {2, 15, 0x7c},
};

/* The magnitude's bits, to nearest even. No NaN comes here. */
static uint32_t small_float_bits(const struct small_float *small, double magnitude)
{
    int exponent;
    if (magnitude == 0)
        return 0;
    if (isinf(magnitude))
        return small->top;
    frexp(magnitude, &exponent);
    if (exponent < 2 - small->bias)
        exponent = 2 - small->bias; /* subnormal: the quantum is fixed */
    /* In units of the last place; nearbyint rounds to nearest even. A carry runs into the exponent by itself. */
    double units = nearbyint(ldexp(magnitude, small->mantissa + 1 - exponent));
    uint32_t bits = ((uint32_t)(exponent + small->bias - 2) << small->mantissa) + (uint32_t)units;
    return bits > small->top ? small->top : bits;
}

/* Wherever weft runs the lower bytes come first. */
static void store_integer(weft_dtype dtype, int64_t value, unsigned char *at)
{
    memcpy(at, &value, weft_dtype_size(dtype));
}

/* An element, or one part of a complex one. */
static void store_float(weft_dtype dtype, double value, unsigned char *at)
{
    float single = (float)value;
    if (dtype == WEFT_FLOAT64 || dtype == WEFT_COMPLEX128) {
        memcpy(at, &value, sizeof value);
    } else if (dtype == WEFT_FLOAT32 || dtype == WEFT_COMPLEX64) {
        memcpy(at, &single, sizeof single);
    } else {
        uint32_t sign = signbit(single) ? 1u << (8 * weft_dtype_size(dtype) - 1) : 0;
        store_integer(dtype, sign | small_float_bits(&small_floats[dtype], fabs((double)single)), at);
    }
}

/* The reductions of bool are or, and, xor under several names. */
static int is_or(int op)
{
    return op == WEFT_SUM || op == WEFT_MAX || op == WEFT_OR;
}

static int bool_input(int op, int rank, int ranks, uint64_t position)
{
    uint64_t hash = mix(position, (uint64_t)rank);
    if (op == WEFT_XOR)
        return hash & 1;
    return (hash % (uint64_t)ranks == 0) == is_or(op);
}

static int bool_combine(int op, int a, int b)
{
    return op == WEFT_XOR ? a ^ b : is_or(op) ? a | b : a & b;
}

struct number {
    double real, imaginary;
};

static struct number complex_input(weft_dtype dtype, int op, int rank, int ranks, uint64_t position)
{
    const struct kind *kind = &kinds[dtype];
    if (op != WEFT_PROD)
        return (struct number){(double)small_number(kind, rank, ranks, 2 * position),
                               (double)small_number(kind, rank, ranks, 2 * position + 1)};
    uint64_t hash = mix(position, (uint64_t)rank), chosen = position_mix(position);
    int every = (ranks + 7) / 8;
    double factor = rank % every ? 1 : ldexp(1, (int)((hash >> 1) % 3) - 1);
    if (rank % every != (int)(chosen % (uint64_t)every) || (hash >> 8) % 4 == 0)
        return (struct number){factor, 0};
    factor = hash & 1 ? -factor : factor;
    return (struct number){2 * factor, factor};
}

static struct number complex_combine(int op, struct number a, struct number b)
{
    if (op != WEFT_PROD)
        return (struct number){a.real + b.real, a.imaginary + b.imaginary};
    return (struct number){a.real * b.real - a.imaginary * b.imaginary,
                           a.real * b.imaginary + a.imaginary * b.real};
}

static void store_complex(weft_dtype dtype, struct number value, unsigned char *at)
{
    store_float(dtype, value.real, at);
    store_float(dtype, value.imaginary, at + weft_dtype_size(dtype) / 2);
}

static int is_complex(weft_dtype dtype)
{
    return dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
}

/* The only inexact step there is, done as weft.h defines it. */
static double float_average(weft_dtype dtype, double sum, int ranks)
{
    return dtype == WEFT_FLOAT64 || dtype == WEFT_COMPLEX128 ? sum / ranks
                                                             : (double)((float)sum / (float)ranks);
}

const char *perf_op_name(int op)
{
    return op == PERF_OP_NONE ? "none" : weft_op_name((weft_op)op);
}

void perf_value_input(weft_dtype dtype, int op, int rank, int ranks, size_t position, unsigned char *at)
{
    size_t size = weft_dtype_size(dtype);
    uint64_t bits[2] = {mix(2 * position, (uint64_t)rank), mix(2 * position + 1, (uint64_t)rank)};
    if (op == PERF_OP_NONE)
        memcpy(at, bits, size);
    else if (dtype == WEFT_BOOL)
        *at = (unsigned char)bool_input(op, rank, ranks, position);
    else if (is_complex(dtype))
        store_complex(dtype, complex_input(dtype, op, rank, ranks, position), at);
    else if (kinds[dtype].is_float)
        store_float(dtype, float_input(dtype, op, rank, ranks, position), at);
    else
        store_integer(dtype, integer_input(dtype, op, rank, ranks, position), at);
}

static void reduce_float(weft_dtype dtype, int op, int ranks, size_t position, unsigned char *at)
{
    double value = float_input(dtype, op, 0, ranks, position);
    for (int rank = 1; rank < ranks; rank++)
        value = float_combine(op, value, float_input(dtype, op, rank, ranks, position));
    store_float(dtype, op == WEFT_AVG ? float_average(dtype, value, ranks) : value, at);
}

static void reduce_complex(weft_dtype dtype, int op, int ranks, size_t position, unsigned char *at)
{
    struct number value = complex_input(dtype, op, 0, ranks, position);
    for (int rank = 1; rank < ranks; rank++)
        value = complex_combine(op, value, complex_input(dtype, op, rank, ranks, position));
    if (op == WEFT_AVG)
        value = (struct number){float_average(dtype, value.real, ranks),
                                float_average(dtype, value.imaginary, ranks)};
    store_complex(dtype, value, at);
}

static void reduce_integer(weft_dtype dtype, int op, int ranks, size_t position, unsigned char *at)
{
    int64_t value = integer_input(dtype, op, 0, ranks, position);
    for (int rank = 1; rank < ranks; rank++)
        value = integer_combine(dtype, op, value, integer_input(dtype, op, rank, ranks, position));
    store_integer(dtype, op == WEFT_AVG ? value / ranks : value, at);
}

void perf_value_reduced(weft_dtype dtype, int op, int ranks, size_t position, unsigned char *at)
{
    if (dtype == WEFT_BOOL) {
        int value = bool_input(op, 0, ranks, position);
        for (int rank = 1; rank < ranks; rank++)
            value = bool_combine(op, value, bool_input(op, rank, ranks, position));
        *at = (unsigned char)value;
    } else if (is_complex(dtype)) {
        reduce_complex(dtype, op, ranks, position, at);
    } else if (kinds[dtype].is_float) {
        reduce_float(dtype, op, ranks, position, at);
    } else {
        reduce_integer(dtype, op, ranks, position, at);
    }
}

void perf_value_fixed(weft_dtype dtype, int op, unsigned char *at)
{
    int value = op == WEFT_SUM || op == WEFT_XOR ? 0 : 1;
    if (is_complex(dtype))
        store_complex(dtype, (struct number){value, 0}, at);
    else if (kinds[dtype].is_float)
        store_float(dtype, value, at);
    else
        store_integer(dtype, value, at);
}
