/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of docs/types.md, one element at a time and without any cleverness, so that it can be compared with what is
 * fast. An element becomes a number, numbers are combined from left to right, and the result becomes an element again, which
 * is the only rounding to the element's type. */
#include <math.h>
#include <string.h>

#include "sim_private.h"

enum class { SIGNED, UNSIGNED, SINGLE, DOUBLE, PAIR_SINGLE, PAIR_DOUBLE, TRUTH };

/* mantissa: bits of the fraction, bias: of the exponent; 0 where the element is the number itself. */
struct type {
    enum class class;
    int bytes, mantissa, bias;
};

static const struct type types[WEFT_DTYPE_COUNT] = {
    [WEFT_INT8] = {SIGNED, 1, 0, 0},
    [WEFT_INT16] = {SIGNED, 2, 0, 0},
    [WEFT_INT32] = {SIGNED, 4, 0, 0},
    [WEFT_INT64] = {SIGNED, 8, 0, 0},
    [WEFT_UINT8] = {UNSIGNED, 1, 0, 0},
    [WEFT_UINT16] = {UNSIGNED, 2, 0, 0},
    [WEFT_UINT32] = {UNSIGNED, 4, 0, 0},
    [WEFT_UINT64] = {UNSIGNED, 8, 0, 0},
    [WEFT_FLOAT8_E4M3] = {SINGLE, 1, 3, 7},
    [WEFT_FLOAT8_E5M2] = {SINGLE, 1, 2, 15},
    [WEFT_FLOAT16] = {SINGLE, 2, 10, 15},
    [WEFT_BFLOAT16] = {SINGLE, 2, 7, 127},
    [WEFT_FLOAT32] = {SINGLE, 4, 0, 0},
    [WEFT_FLOAT64] = {DOUBLE, 8, 0, 0},
    [WEFT_COMPLEX64] = {PAIR_SINGLE, 8, 0, 0},
    [WEFT_COMPLEX128] = {PAIR_DOUBLE, 16, 0, 0},
    [WEFT_BOOL] = {TRUTH, 1, 0, 0},
};

/* Only the part of the element's class is used. */
struct number {
    uint64_t whole; /* signed ones extended to 64 bits */
    float single[2];
    double twice[2];
};

size_t sim_element_bytes(weft_dtype dtype)
{
    return (unsigned)dtype < WEFT_DTYPE_COUNT ? (size_t)types[dtype].bytes : 0;
}

int sim_reduce_knows(weft_dtype dtype, weft_op op, int is_scaled)
{
    if ((unsigned)dtype >= WEFT_DTYPE_COUNT || (unsigned)op >= WEFT_OP_COUNT)
        return 0;
    int is_bits = op == WEFT_AND || op == WEFT_OR || op == WEFT_XOR;
    switch (types[dtype].class) {
    case SINGLE:
    case DOUBLE:
        return !is_bits;
    case PAIR_SINGLE:
    case PAIR_DOUBLE:
        return op == WEFT_SUM || op == WEFT_PROD || op == WEFT_AVG;
    case TRUTH:
        return op != WEFT_AVG && !is_scaled;
    default:
        return 1;
    }
}

/* --- floats of 8 and 16 bits: sign, exponent, fraction */

/* Of e4m3 all but one pattern of the largest exponent are numbers; others have infinity and NaN there. */
static int is_e4m3(const struct type *type)
{
    return type->mantissa == 3;
}

static float expand(const struct type *type, unsigned bits)
{
    unsigned sign = bits >> (8 * type->bytes - 1), fraction = bits & ((1u << type->mantissa) - 1);
    int exponent_bits = 8 * type->bytes - 1 - type->mantissa;
    unsigned exponent = (bits >> type->mantissa) & ((1u << exponent_bits) - 1);
    float value;
    if (exponent == (1u << exponent_bits) - 1 && !is_e4m3(type))
        value = fraction ? NAN : INFINITY;
    else if (is_e4m3(type) && exponent == 15 && fraction == 7)
        value = NAN;
    else if (exponent == 0)
        value = ldexpf((float)fraction, 1 - type->bias - type->mantissa);
    else
        value =
            ldexpf((float)(fraction + (1u << type->mantissa)), (int)exponent - type->bias - type->mantissa);
    return sign ? -value : value;
}

/* To nearest, ties to even: the value is counted in units of the last place that its exponent has. Carrying into the next
 * exponent is right by itself, as the patterns of growing numbers follow each other. */
static unsigned contract(const struct type *type, float value)
{
    int width = 8 * type->bytes, exponent;
    unsigned sign = signbit(value) ? 1u << (width - 1) : 0;
    unsigned infinity = (1u << (width - 1)) - (1u << type->mantissa); /* e4m3: 448's neighbourhood */
    unsigned largest = is_e4m3(type) ? 0x7e : infinity - 1;
    int saturates = type->bytes == 1;
    if (isnan(value))
        return is_e4m3(type) ? 0x7f : infinity | 1u << (type->mantissa - 1);
    if (isinf(value))
        return sign | (is_e4m3(type) ? largest : infinity);
    if (value == 0)
        return sign;
    frexp((double)value, &exponent);
    exponent = exponent - 1 < 1 - type->bias ? 1 - type->bias : exponent - 1;
    double units = ldexp(fabs((double)value), type->mantissa - exponent), whole = floor(units);
    double rest = units - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) != 0))
        whole += 1;
    /* A number that is not denormal has its leading one in `whole`, which adds one to the exponent's place. */
    double pattern = ldexp((double)(exponent + type->bias - 1), type->mantissa) + whole;
    if (pattern > (double)largest)
        return sign | (saturates ? largest : infinity);
    return sign | (unsigned)pattern;
}

/* --- elements and numbers */

static struct number load(const struct type *type, const char *element)
{
    struct number number = {0};
    uint64_t bits = 0;
    int shift = 64 - 8 * type->bytes;
    switch (type->class) {
    case SIGNED:
        memcpy(&bits, element, (size_t)type->bytes);
        number.whole = (uint64_t)((int64_t)(bits << shift) >> shift);
        break;
    case UNSIGNED:
        memcpy(&number.whole, element, (size_t)type->bytes);
        break;
    case TRUTH:
        number.whole = *element != 0;
        break;
    case SINGLE:
        memcpy(&bits, element, (size_t)type->bytes);
        if (type->mantissa)
            number.single[0] = expand(type, (unsigned)bits);
        else
            memcpy(number.single, element, 4);
        break;
    case PAIR_SINGLE:
        memcpy(number.single, element, 8);
        break;
    default:
        memcpy(number.twice, element, (size_t)type->bytes);
        break;
    }
    return number;
}

static void store_single(char *element, float value)
{
    const uint32_t nan = 0x7fc00000;
    memcpy(element, isnan(value) ? (const void *)&nan : &value, 4);
}

static void store_double(char *element, double value)
{
    const uint64_t nan = 0x7ff8000000000000;
    memcpy(element, isnan(value) ? (const void *)&nan : &value, 8);
}

static void store(const struct type *type, const struct number *number, char *element)
{
    unsigned bits;
    switch (type->class) {
    case SINGLE:
        bits = type->mantissa ? contract(type, number->single[0]) : 0;
        if (type->mantissa)
            memcpy(element, &bits, (size_t)type->bytes);
        else
            store_single(element, number->single[0]);
        break;
    case PAIR_SINGLE:
        store_single(element, number->single[0]);
        store_single(element + 4, number->single[1]);
        break;
    case DOUBLE:
        store_double(element, number->twice[0]);
        break;
    case PAIR_DOUBLE:
        store_double(element, number->twice[0]);
        store_double(element + 8, number->twice[1]);
        break;
    default:
        memcpy(element, &number->whole, (size_t)type->bytes);
        break;
    }
}

/* --- combining */

/* Whether a is to be taken as the larger one, given that neither is NaN. -0 is below +0. */
static int is_above(double a, double b)
{
    return a > b || (a == b && signbit(b) && !signbit(a));
}

static double choose(weft_op op, double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return is_above(a, b) == (op == WEFT_MAX) ? a : b;
}

static uint64_t combine_whole(const struct type *type, weft_op op, uint64_t a, uint64_t b)
{
    int shift = 64 - 8 * type->bytes, is_less;
    uint64_t result;
    switch (op) {
    case WEFT_PROD:
        result = a * b;
        break;
    case WEFT_MAX:
    case WEFT_MIN:
        is_less = type->class == SIGNED ? (int64_t)a < (int64_t)b : a < b;
        return is_less == (op == WEFT_MIN) ? a : b;
    case WEFT_AND:
        return a & b;
    case WEFT_OR:
        return a | b;
    case WEFT_XOR:
        return a ^ b;
    default:
        result = a + b;
        break;
    }
    result <<= shift;
    return type->class == SIGNED ? (uint64_t)((int64_t)result >> shift) : result >> shift;
}

static uint64_t combine_truth(weft_op op, uint64_t a, uint64_t b)
{
    if (op == WEFT_PROD || op == WEFT_MIN || op == WEFT_AND)
        return a & b;
    return op == WEFT_XOR ? a ^ b : a | b;
}

static void combine_single(const struct type *type, weft_op op, float *a, const float *b)
{
    int is_pair = type->class == PAIR_SINGLE;
    if (op == WEFT_MAX || op == WEFT_MIN) {
        a[0] = (float)choose(op, (double)a[0], (double)b[0]);
    } else if (op != WEFT_PROD) {
        a[0] += b[0];
        a[1] += b[1];
    } else if (!is_pair) {
        a[0] *= b[0];
    } else {
        float products[4] = {a[0] * b[0], a[1] * b[1], a[0] * b[1], a[1] * b[0]};
        a[0] = products[0] - products[1];
        a[1] = products[2] + products[3];
    }
}

static void combine_double(const struct type *type, weft_op op, double *a, const double *b)
{
    int is_pair = type->class == PAIR_DOUBLE;
    if (op == WEFT_MAX || op == WEFT_MIN) {
        a[0] = choose(op, a[0], b[0]);
    } else if (op != WEFT_PROD) {
        a[0] += b[0];
        a[1] += b[1];
    } else if (!is_pair) {
        a[0] *= b[0];
    } else {
        double products[4] = {a[0] * b[0], a[1] * b[1], a[0] * b[1], a[1] * b[0]};
        a[0] = products[0] - products[1];
        a[1] = products[2] + products[3];
    }
}

static void combine(const struct type *type, weft_op op, struct number *a, const struct number *b)
{
    switch (type->class) {
    case SIGNED:
    case UNSIGNED:
        a->whole = combine_whole(type, op, a->whole, b->whole);
        break;
    case TRUTH:
        a->whole = combine_truth(op, a->whole, b->whole);
        break;
    case SINGLE:
    case PAIR_SINGLE:
        combine_single(type, op, a->single, b->single);
        break;
    default:
        combine_double(type, op, a->twice, b->twice);
        break;
    }
}

static void divide(const struct type *type, struct number *a, uint32_t by)
{
    if (type->class == SIGNED)
        a->whole = (uint64_t)((int64_t)a->whole / (int64_t)by);
    else if (type->class == UNSIGNED)
        a->whole /= by;
    for (int i = 0; i < 2; i++) {
        a->single[i] /= (float)by;
        a->twice[i] /= (double)by;
    }
}

void sim_reduce(const struct weft_device_reduction *reduction)
{
    const struct type *type = &types[reduction->dtype];
    size_t bytes = (size_t)type->bytes;
    for (uint64_t i = 0; i < reduction->count; i++) {
        struct number result = load(type, (const char *)reduction->sources[0] + i * bytes);
        if (reduction->scalar) {
            char scaled[16];
            struct number scalar = load(type, reduction->scalar);
            combine(type, WEFT_PROD, &result, &scalar);
            store(type, &result, scaled);
            result = load(type, scaled);
        }
        for (uint32_t s = 1; s < reduction->source_count; s++) {
            struct number next = load(type, (const char *)reduction->sources[s] + i * bytes);
            combine(type, reduction->op, &result, &next);
        }
        if (reduction->finish)
            divide(type, &result, reduction->finish);
        for (uint32_t d = 0; d < reduction->destination_count; d++)
            store(type, &result, (char *)reduction->destinations[d] + i * bytes);
    }
}
