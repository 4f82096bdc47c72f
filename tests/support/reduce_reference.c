#include "tests/support/reduce_reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "devmem/reduce.h"

const weft_dtype reference_types[REFERENCE_TYPES] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_INT32};
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

/* float32 to bfloat16, nearest even, by comparing distances to the two neighbours in float64. The neighbour
 * above the largest number counts as 2^128. */
static uint64_t bits_of_bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t sign = bits >> 31 << 15, below = bits >> 16 & 0x7fff;
    if (isnan(value))
        return 0x7fc0;
    if (isinf(value))
        return sign | 0x7f80;
    double above = below == 0x7f7f ? 0x1p128 : (double)float_of((below + 1) << 16);
    double down = fabs((double)value) - (double)float_of(below << 16), up = above - fabs((double)value);
    return sign | (down < up || (down == up && below % 2 == 0) ? below : below + 1);
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

static int64_t combine_int(weft_op op, int64_t a, int64_t b)
{
    switch (op) {
    case WEFT_PROD:
        return (int32_t)(uint32_t)(uint64_t)(a * b);
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    default:
        return (int32_t)(uint32_t)(uint64_t)(a + b);
    }
}

static uint64_t reduce_float(weft_dtype dtype, weft_op op, const uint64_t *elements, int count,
                             uint32_t finish)
{
    int shift = dtype == WEFT_BFLOAT16 ? 16 : 0;
    float result = float_of(elements[0] << shift);
    for (int i = 1; i < count; i++)
        result = combine_float(op, result, float_of(elements[i] << shift));
    if (finish)
        result /= (float)finish;
    return dtype == WEFT_BFLOAT16 ? bits_of_bfloat16(result) : bits_of_float(result);
}

uint64_t reference_reduce(weft_dtype dtype, weft_op op, const uint64_t *elements, int count, uint32_t finish)
{
    if (dtype == WEFT_INT32) {
        int64_t result = (int32_t)(uint32_t)elements[0];
        for (int i = 1; i < count; i++)
            result = combine_int(op, result, (int32_t)(uint32_t)elements[i]);
        return (uint32_t)(finish ? result / (int64_t)finish : result);
    }
    if (dtype != WEFT_FLOAT64)
        return reduce_float(dtype, op, elements, count, finish);
    double result = double_of(elements[0]);
    for (int i = 1; i < count; i++)
        result = combine_double(op, result, double_of(elements[i]));
    return bits_of_double(finish ? result / finish : result);
}

static const uint64_t specials_float32[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x3f800001, 0x4b7fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
    0x7fc00000, 0xffc00000, 0x7fffffff, 0xffc01234, 0x7f800001, 0xff800001, 0x7fbfffff, 0xffa00000,
};

static const uint64_t specials_float64[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001, 0x000fffffffffffff,
    0x800fffffffffffff, 0x0010000000000000, 0x8010000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x3ff0000000000001, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
    0x7ff8000000000000, 0xfff8000000000000, 0x7fffffffffffffff, 0xfff8000000001234, 0x7ff0000000000001,
    0xfff0000000000001, 0x7ff7ffffffffffff, 0x7ff0000080000000, 0x7ff000007fffffff,
};

static const uint64_t specials_bfloat16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x3f80, 0xbf80, 0x3f81, 0x4b7f,
    0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7fff, 0xffc1, 0x7f81, 0xff81, 0x7fbf, 0x7eff,
};

static const uint64_t specials_int32[] = {
    0, 1, 2, 7, 0xffffffff, 0xfffffffe, 0xfffffff9, 0x7fffffff, 0x7ffffffe, 0x80000000, 0x80000001, 0x10001,
};

size_t reference_specials(weft_dtype dtype, const uint64_t **bits)
{
    switch (dtype) {
    case WEFT_FLOAT32:
        *bits = specials_float32;
        return sizeof specials_float32 / sizeof(uint64_t);
    case WEFT_FLOAT64:
        *bits = specials_float64;
        return sizeof specials_float64 / sizeof(uint64_t);
    case WEFT_BFLOAT16:
        *bits = specials_bfloat16;
        return sizeof specials_bfloat16 / sizeof(uint64_t);
    default:
        *bits = specials_int32;
        return sizeof specials_int32 / sizeof(uint64_t);
    }
}

/* SplitMix64 (Steele, Lea and Flood 2014). */
uint64_t reference_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

uint64_t reference_element(weft_dtype dtype, uint64_t *state)
{
    size_t size = weft_dtype_size(dtype);
    uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * size)) - 1;
    uint64_t choice = reference_random(state), bits = reference_random(state);
    const uint64_t *specials;
    size_t special_count = reference_specials(dtype, &specials);
    if (choice % 8 == 0)
        return specials[bits % special_count];
    if (choice % 8 == 1)
        return bits & mask;
    double value = ((double)(bits >> 11) * 0x1p-53 - 0.5) * (double)(choice >> 32 & 0xfff);
    switch (dtype) {
    case WEFT_FLOAT64:
        return bits_of_double(value);
    case WEFT_FLOAT32:
        return bits_of_float((float)value);
    case WEFT_BFLOAT16:
        return bits_of_bfloat16((float)value);
    default:
        return (uint32_t)(int32_t)(value * 1000);
    }
}

uint64_t reference_get(weft_dtype dtype, const void *array, size_t i)
{
    size_t size = weft_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * size, size);
    return bits;
}

void reference_set(weft_dtype dtype, void *array, size_t i, uint64_t bits)
{
    size_t size = weft_dtype_size(dtype);
    memcpy((char *)array + i * size, &bits, size);
}

double reference_value(weft_dtype dtype, uint64_t bits)
{
    switch (dtype) {
    case WEFT_FLOAT64:
        return double_of(bits);
    case WEFT_FLOAT32:
        return (double)float_of(bits);
    case WEFT_BFLOAT16:
        return (double)float_of(bits << 16);
    default:
        return (double)(int32_t)(uint32_t)bits;
    }
}
