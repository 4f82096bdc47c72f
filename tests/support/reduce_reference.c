/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/reduce_reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "devmem/reduce.h"

/* Those whose checksum is oldest come first. */
const weft_dtype reference_types[REFERENCE_TYPES] = {
    WEFT_FLOAT32, WEFT_FLOAT64,     WEFT_BFLOAT16,    WEFT_INT32,     WEFT_FLOAT16,    WEFT_INT8,
    WEFT_UINT8,   WEFT_INT16,       WEFT_UINT16,      WEFT_UINT32,    WEFT_INT64,      WEFT_UINT64,
    WEFT_BOOL,    WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2, WEFT_COMPLEX64, WEFT_COMPLEX128,
};
const char *const reference_isas[REFERENCE_ISAS] = {"portable", "avx2", "avx512"};

int reference_isa_runs(const char *isa)
{
    static const char *said[REFERENCE_ISAS];
    if (weft_reduce_find_isa(isa, WEFT_FLOAT32, WEFT_SUM))
        return 1;
    for (int i = 0; i < REFERENCE_ISAS; i++) {
        if (said[i] == isa)
            break;
        if (!said[i]) {
            said[i] = isa;
            printf("SKIP: reductions with %s, which this machine lacks\n", isa);
            break;
        }
    }
    return 0;
}

enum class { INTEGER, FLOATING, COMPLEX, BOOLEAN };

static enum class class_of(weft_dtype dtype) {
    switch (dtype){
        case WEFT_FLOAT8_E4M3 : case WEFT_FLOAT8_E5M2 : case WEFT_FLOAT16 : case WEFT_BFLOAT16 : case
        WEFT_FLOAT32 : case WEFT_FLOAT64 : return FLOATING;
        case WEFT_COMPLEX64 : case WEFT_COMPLEX128 : return COMPLEX;
        case WEFT_BOOL : return BOOLEAN;
        default : return INTEGER;
    }
}

int reference_pair(weft_dtype dtype, weft_op op)
{
    static const char *const pairs[] = {
        [INTEGER] = "sum prod max min avg and or xor",
        [FLOATING] = "sum prod max min avg",
        [COMPLEX] = "sum prod avg",
        [BOOLEAN] = "sum prod max min and or xor",
    };
    if ((unsigned)dtype >= WEFT_DTYPE_COUNT || (unsigned)op >= WEFT_OP_COUNT)
        return 0;
    const char *list = pairs[class_of(dtype)], *found = strstr(list, weft_op_name(op));
    return found && (found == list || found[-1] == ' ');
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static uint64_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? 0x7fc00000 : bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? 0x7ff8000000000000 : bits;
}

/* The types of 8 and 16 bits. infinity is 0 where there is none. */
struct small {
    int width, mantissa, bias;
    unsigned largest, infinity, nan;
    int saturates;
};

static const struct small smalls[] = {
    {16, 10, 15, 0x7bff, 0x7c00, 0x7e00, 0},
    {16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0},
    {8, 3, 7, 0x7e, 0, 0x7f, 1},
    {8, 2, 15, 0x7b, 0x7c, 0x7e, 1},
};

static const struct small *small_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT16:
        return &smalls[0];
    case WEFT_BFLOAT16:
        return &smalls[1];
    case WEFT_FLOAT8_E4M3:
        return &smalls[2];
    case WEFT_FLOAT8_E5M2:
        return &smalls[3];
    default:
        return NULL;
    }
}

/* The finite magnitude with these bits. Tables, since narrowing searches them. */
static double small_magnitude(const struct small *type, unsigned bits)
{
    static double tables[sizeof smalls / sizeof *smalls][0x8000];
    double *table = tables[type - smalls];
    if (table[1] == 0) {
        for (unsigned i = 0; i <= type->largest; i++) {
            int exponent = (int)(i >> type->mantissa), mantissa = (int)(i & ((1u << type->mantissa) - 1));
            if (exponent)
                mantissa += 1 << type->mantissa;
            else
                exponent = 1;
            table[i] = ldexp(mantissa, exponent - type->bias - type->mantissa);
        }
    }
    return table[bits];
}

static float small_value(const struct small *type, unsigned bits)
{
    unsigned sign = 1u << (type->width - 1), magnitude = bits & (sign - 1);
    float value = NAN;
    if (magnitude <= type->largest)
        value = (float)small_magnitude(type, magnitude);
    else if (magnitude == type->infinity)
        value = INFINITY;
    return bits & sign ? -value : value;
}

/* Nearest, ties to even, by comparing distances to the two neighbours in float64. The neighbour above the largest
 * number is as far from it as the one below. */
static unsigned small_round(const struct small *type, float value)
{
    unsigned sign = signbit(value) ? 1u << (type->width - 1) : 0, below = 0, beyond = type->largest + 1;
    double magnitude = fabs((double)value);
    if (isnan(value))
        return type->nan;
    if (isinf(value))
        return sign | (type->infinity ? type->infinity : type->largest);
    while (beyond - below > 1) {
        unsigned middle = (below + beyond) / 2;
        if (small_magnitude(type, middle) <= magnitude)
            below = middle;
        else
            beyond = middle;
    }
    double down = small_magnitude(type, below);
    double up = below < type->largest ? small_magnitude(type, below + 1)
                                      : 2 * down - small_magnitude(type, below - 1);
    unsigned nearest = below;
    if (up - magnitude < magnitude - down || (up - magnitude == magnitude - down && below % 2))
        nearest = below + 1;
    if (nearest > type->largest)
        nearest = type->saturates ? type->largest : type->infinity;
    return sign | nearest;
}

static double smaller(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == 0 && b == 0)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return -smaller(-a, -b);
}

static float combine_float(weft_op op, float a, float b)
{
    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return (float)smaller((double)a, (double)b);
    case WEFT_MAX:
        return (float)larger((double)a, (double)b);
    default:
        return a + b;
    }
}

static double combine_double(weft_op op, double a, double b)
{
    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return smaller(a, b);
    case WEFT_MAX:
        return larger(a, b);
    default:
        return a + b;
    }
}

/* What the low bits of a sum or product mean, as the type reads them. */
static __int128 integer_value(weft_dtype dtype, reference_bits bits)
{
    switch (dtype) {
    case WEFT_INT8:
        return (int8_t)bits;
    case WEFT_UINT8:
        return (uint8_t)bits;
    case WEFT_INT16:
        return (int16_t)bits;
    case WEFT_UINT16:
        return (uint16_t)bits;
    case WEFT_INT32:
        return (int32_t)bits;
    case WEFT_UINT32:
        return (uint32_t)bits;
    case WEFT_INT64:
        return (int64_t)bits;
    default:
        return (uint64_t)bits;
    }
}

static __int128 combine_integer(weft_dtype dtype, weft_op op, __int128 a, __int128 b)
{
    switch (op) {
    case WEFT_PROD:
        return integer_value(dtype, (reference_bits)a * (reference_bits)b);
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_AND:
        return a & b;
    case WEFT_OR:
        return a | b;
    case WEFT_XOR:
        return a ^ b;
    default:
        return integer_value(dtype, (reference_bits)a + (reference_bits)b);
    }
}

static reference_bits low_bits(weft_dtype dtype, reference_bits bits)
{
    size_t size = weft_dtype_size(dtype);
    return size == sizeof bits ? bits : bits & (((reference_bits)1 << (8 * size)) - 1);
}

static reference_bits reduce_integer(weft_dtype dtype, weft_op op, const reference_bits *elements, int count,
                                     uint32_t finish)
{
    __int128 result = integer_value(dtype, elements[0]);
    for (int i = 1; i < count; i++)
        result = combine_integer(dtype, op, result, integer_value(dtype, elements[i]));
    return low_bits(dtype, (reference_bits)(finish ? result / finish : result));
}

static reference_bits reduce_bool(weft_op op, const reference_bits *elements, int count)
{
    int result = elements[0] != 0;
    for (int i = 1; i < count; i++) {
        int next = elements[i] != 0;
        if (op == WEFT_PROD || op == WEFT_MIN || op == WEFT_AND)
            result = result && next;
        else if (op == WEFT_XOR)
            result = result != next;
        else
            result = result || next;
    }
    return (reference_bits)result;
}

static float single_value(weft_dtype dtype, reference_bits bits)
{
    const struct small *small = small_of(dtype);
    return small ? small_value(small, (unsigned)bits) : float_of((uint64_t)bits);
}

static reference_bits reduce_float(weft_dtype dtype, weft_op op, const reference_bits *elements, int count,
                                   uint32_t finish)
{
    const struct small *small = small_of(dtype);
    float result = single_value(dtype, elements[0]);
    for (int i = 1; i < count; i++)
        result = combine_float(op, result, single_value(dtype, elements[i]));
    if (finish)
        result /= (float)finish;
    return small ? small_round(small, result) : bits_of_float(result);
}

static reference_bits reduce_double(weft_op op, const reference_bits *elements, int count, uint32_t finish)
{
    double result = double_of((uint64_t)elements[0]);
    for (int i = 1; i < count; i++)
        result = combine_double(op, result, double_of((uint64_t)elements[i]));
    return bits_of_double(finish ? result / finish : result);
}

static reference_bits reduce_complex64(weft_op op, const reference_bits *elements, int count, uint32_t finish)
{
    float a = float_of((uint64_t)elements[0]), b = float_of((uint64_t)(elements[0] >> 32));
    for (int i = 1; i < count; i++) {
        float c = float_of((uint64_t)elements[i]), d = float_of((uint64_t)(elements[i] >> 32));
        float real = a + c, imaginary = b + d;
        if (op == WEFT_PROD) {
            float ac = a * c, bd = b * d, ad = a * d, bc = b * c;
            real = ac - bd;
            imaginary = ad + bc;
        }
        a = real;
        b = imaginary;
    }
    float by = finish ? (float)finish : 1;
    return (reference_bits)bits_of_float(b / by) << 32 | bits_of_float(a / by);
}

static reference_bits reduce_complex128(weft_op op, const reference_bits *elements, int count,
                                        uint32_t finish)
{
    double a = double_of((uint64_t)elements[0]), b = double_of((uint64_t)(elements[0] >> 64));
    for (int i = 1; i < count; i++) {
        double c = double_of((uint64_t)elements[i]), d = double_of((uint64_t)(elements[i] >> 64));
        double real = a + c, imaginary = b + d;
        if (op == WEFT_PROD) {
            double ac = a * c, bd = b * d, ad = a * d, bc = b * c;
            real = ac - bd;
            imaginary = ad + bc;
        }
        a = real;
        b = imaginary;
    }
    double by = finish ? finish : 1;
    return (reference_bits)bits_of_double(b / by) << 64 | bits_of_double(a / by);
}

reference_bits reference_reduce(weft_dtype dtype, weft_op op, const reference_bits *elements, int count,
                                uint32_t finish)
{
    switch (class_of(dtype)) {
    case INTEGER:
        return reduce_integer(dtype, op, elements, count, finish);
    case BOOLEAN:
        return reduce_bool(op, elements, count);
    case COMPLEX:
        return dtype == WEFT_COMPLEX64 ? reduce_complex64(op, elements, count, finish)
                                       : reduce_complex128(op, elements, count, finish);
    default:
        return dtype == WEFT_FLOAT64 ? reduce_double(op, elements, count, finish)
                                     : reduce_float(dtype, op, elements, count, finish);
    }
}

double reference_value(weft_dtype dtype, reference_bits bits)
{
    if (class_of(dtype) == INTEGER)
        return (double)integer_value(dtype, bits);
    if (dtype == WEFT_BOOL)
        return bits != 0;
    return dtype == WEFT_FLOAT64 ? double_of((uint64_t)bits) : (double)single_value(dtype, bits);
}

reference_bits reference_round(weft_dtype dtype, double value)
{
    const struct small *small = small_of(dtype);
    if (dtype == WEFT_FLOAT64)
        return bits_of_double(value);
    return small ? small_round(small, (float)value) : bits_of_float((float)value);
}

reference_bits reference_get(weft_dtype dtype, const void *array, size_t i)
{
    size_t size = weft_dtype_size(dtype);
    reference_bits bits = 0;
    memcpy(&bits, (const char *)array + i * size, size);
    return bits;
}

void reference_set(weft_dtype dtype, void *array, size_t i, reference_bits bits)
{
    size_t size = weft_dtype_size(dtype);
    memcpy((char *)array + i * size, &bits, size);
}
