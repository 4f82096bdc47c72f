/* SPDX-License-Identifier: Apache-2.0 */
/* Elements to try reductions on: the special ones of every type, and random ones. */
#include <string.h>

#include "tests/support/reduce_reference.h"

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

static const uint64_t specials_float16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x3c00, 0xbc00, 0x3c01, 0x63ff,
    0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7fff, 0xfe01, 0x7c01, 0xfc01, 0x4c00, 0xcc01,
};

static const uint64_t specials_e4m3[] = {
    0x00, 0x80, 0x01, 0x81, 0x07, 0x87, 0x08, 0x88, 0x38, 0xb8, 0x39, 0x70,
    0x77, 0x78, 0x7d, 0xfd, 0x7e, 0xfe, 0x7f, 0xff, 0x41, 0xc1, 0x58, 0xd8,
};

static const uint64_t specials_e5m2[] = {
    0x00, 0x80, 0x01, 0x81, 0x03, 0x83, 0x04, 0x84, 0x3c, 0xbc, 0x3d, 0x70,
    0x78, 0x7a, 0x7b, 0xfb, 0x7c, 0xfc, 0x7d, 0xfd, 0x7e, 0xfe, 0x7f, 0xff,
};

static const uint64_t specials_int32[] = {
    0, 1, 2, 7, 0xffffffff, 0xfffffffe, 0xfffffff9, 0x7fffffff, 0x7ffffffe, 0x80000000, 0x80000001, 0x10001,
};

static const uint64_t specials_bool[] = {0, 1, 2, 0x7f, 0x80, 0xff};

#define LIST(name) name, sizeof name / sizeof *name

static const struct {
    const uint64_t *bits;
    size_t count;
} lists[WEFT_DTYPE_COUNT] = {
    [WEFT_FLOAT32] = {LIST(specials_float32)},   [WEFT_FLOAT64] = {LIST(specials_float64)},
    [WEFT_BFLOAT16] = {LIST(specials_bfloat16)}, [WEFT_FLOAT16] = {LIST(specials_float16)},
    [WEFT_FLOAT8_E4M3] = {LIST(specials_e4m3)},  [WEFT_FLOAT8_E5M2] = {LIST(specials_e5m2)},
    [WEFT_COMPLEX64] = {LIST(specials_float32)}, [WEFT_COMPLEX128] = {LIST(specials_float64)},
    [WEFT_INT32] = {LIST(specials_int32)},       [WEFT_BOOL] = {LIST(specials_bool)},
};

/* Small numbers of both signs and the neighbourhood of where signed and unsigned numbers wrap. */
static reference_bits special_integer(weft_dtype dtype, size_t i)
{
    unsigned width = 8 * (unsigned)weft_dtype_size(dtype);
    reference_bits top = (reference_bits)1 << (width - 1), mask = 2 * top - 1;
    const reference_bits bits[] = {0,    1,        2,        7,
                                   mask, mask - 1, mask - 6, top - 1,
                                   top,  top + 1,  top - 2,  (reference_bits)3 << (width / 2)};
    return bits[i % 12] & mask;
}

size_t reference_specials(weft_dtype dtype, reference_bits bits[REFERENCE_SPECIALS])
{
    size_t count = lists[dtype].count;
    if (count == 0)
        for (; count < 12; count++)
            bits[count] = special_integer(dtype, count);
    for (size_t i = 0; lists[dtype].count && i < count; i++) {
        bits[i] = lists[dtype].bits[i];
        if (dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128) /* some other imaginary part */
            bits[i] |= (reference_bits)lists[dtype].bits[(i * 7 + 3) % count]
                       << (dtype == WEFT_COMPLEX64 ? 32 : 64);
    }
    return count;
}

/* SplitMix64 (Steele, Lea and Flood 2014). */
uint64_t reference_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

static reference_bits special_element(weft_dtype dtype, uint64_t random)
{
    reference_bits specials[REFERENCE_SPECIALS];
    size_t count = reference_specials(dtype, specials);
    return specials[random % count];
}

reference_bits reference_element(weft_dtype dtype, uint64_t *state)
{
    size_t size = weft_dtype_size(dtype);
    if (dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128) {
        weft_dtype part = dtype == WEFT_COMPLEX64 ? WEFT_FLOAT32 : WEFT_FLOAT64;
        reference_bits real = reference_element(part, state);
        return reference_element(part, state) << (4 * size) | real;
    }
    uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * size)) - 1;
    uint64_t choice = reference_random(state), bits = reference_random(state);
    if (choice % 8 == 0)
        return special_element(dtype, bits);
    if (choice % 8 == 1)
        return bits & mask;
    double value = ((double)(bits >> 11) * 0x1p-53 - 0.5) * (double)(choice >> 32 & 0xfff);
    switch (dtype) {
    case WEFT_FLOAT8_E4M3:
        return reference_round(dtype, value / 16);
    case WEFT_FLOAT64:
    case WEFT_FLOAT32:
    case WEFT_BFLOAT16:
    case WEFT_FLOAT16:
    case WEFT_FLOAT8_E5M2:
        return reference_round(dtype, value);
    case WEFT_INT32:
        return (uint32_t)(int32_t)(value * 1000);
    case WEFT_BOOL:
        return bits >> 60 & 1;
    default:
        return (uint64_t)(int64_t)value & mask;
    }
}
