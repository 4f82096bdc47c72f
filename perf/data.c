/* How the values are chosen, so that every order of evaluation gives the same bits:
 *
 * sum    floats: whole numbers so small that the sum of all ranks' magnitudes still fits the significand:
 * every partial sum is exact. Where there are more ranks than that leaves room for (bfloat16 above 256
 *        ranks), all but every k-th rank contribute 0. Integers: any bits, since wrapping addition is
 *        associative.
 * avg    as sum, without wrapping; the result is the exact sum divided once: correctly rounded in the type
 *        that weft accumulates in (float32 for the 16-bit types, then rounded to the element), truncated for
 *        integers.
 * prod   floats: powers of two whose exponents cannot leave the range, times 3 and 5 from one rank each per
 *        position. Integers: odd numbers, since wrapping multiplication is associative and keeps them odd.
 * min    anything but NaN, infinities and both zeros included: the result is one of the inputs.
 * max    likewise.
 *
 * The idea that a test can demand exact results from floating-point reductions is nccl-tests' "verifiable".
 */
#include "perf/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a type can hold exactly. */
struct kind {
    int is_float;
    int is_signed;
    int exact_bits;    /* whole numbers of magnitude up to 2^exact_bits are exact (integers: fit) */
    int exponent_room; /* floats: 2^-exponent_room .. 2^exponent_room are normal with room to spare */
};

static const struct kind kinds[WEFT_DTYPE_COUNT] = {
    [WEFT_INT8] = {0, 1, 6, 0},      [WEFT_UINT8] = {0, 0, 7, 0},      [WEFT_INT32] = {0, 1, 30, 0},
    [WEFT_UINT32] = {0, 0, 31, 0},   [WEFT_INT64] = {0, 1, 52, 0},     [WEFT_UINT64] = {0, 0, 52, 0},
    [WEFT_FLOAT16] = {1, 1, 11, 8},  [WEFT_FLOAT32] = {1, 1, 24, 100}, [WEFT_FLOAT64] = {1, 1, 53, 900},
    [WEFT_BFLOAT16] = {1, 1, 8, 100}};

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
    if ((chosen >> 32) % (uint64_t)ranks == (uint64_t)rank)
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
        return copysign(INFINITY, sign);
    return ldexp(sign * (double)((hash >> 8) & ((1u << bits) - 1)), (int)((hash >> 40) % 8) - 8);
}

static double float_input(weft_dtype dtype, weft_op op, int rank, int ranks, uint64_t position)
{
    const struct kind *kind = &kinds[dtype];
    if (op == WEFT_PROD)
        return float_factor(kind, rank, ranks, position);
    if (op == WEFT_MIN || op == WEFT_MAX)
        return float_any(kind, rank, position);
    return (double)small_number(kind, rank, ranks, position);
}

static int64_t integer_input(weft_dtype dtype, weft_op op, int rank, int ranks, uint64_t position)
{
    const struct kind *kind = &kinds[dtype];
    if (op == WEFT_AVG)
        return small_number(kind, rank, ranks, position);
    uint64_t bits = mix(position, (uint64_t)rank);
    if (op == WEFT_PROD)
        bits |= 1;
    int spare = 64 - 8 * (int)weft_dtype_size(dtype);
    return kind->is_signed ? (int64_t)(bits << spare) >> spare : (int64_t)(bits << spare >> spare);
}

/* Whether a comes before b, -0 before +0. */
static int float_below(double a, double b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static double float_combine(weft_op op, double a, double b)
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
static int64_t integer_combine(weft_dtype dtype, weft_op op, int64_t a, int64_t b)
{
    int below = kinds[dtype].is_signed ? a < b : (uint64_t)a < (uint64_t)b;
    switch (op) {
    case WEFT_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case WEFT_MIN:
        return below ? a : b;
    case WEFT_MAX:
        return below ? b : a;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* float32 to the upper 16 bits, to nearest even. No NaN comes here. */
static uint16_t bfloat16_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* float32 to IEEE binary16, to nearest even. No NaN comes here. */
static uint16_t float16_bits(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs((double)value);
    int exponent;
    if (magnitude == 0)
        return sign;
    frexp(magnitude, &exponent);
    if (exponent < -13)
        exponent = -13; /* subnormal: fixed quantum of 2^-24 */
    /* In units of the last place; nearbyint rounds to nearest even. A carry runs into the exponent by itself.
     */
    double units = isinf(magnitude) ? 0 : nearbyint(ldexp(magnitude, 11 - exponent));
    uint32_t bits = (uint32_t)(exponent + 13) * 1024 + (uint32_t)units;
    if (isinf(magnitude) || bits > 0x7c00)
        bits = 0x7c00;
    return (uint16_t)(sign | bits);
}

static void store_float(weft_dtype dtype, double value, unsigned char *at)
{
    float single = (float)value;
    uint16_t half = dtype == WEFT_FLOAT16 ? float16_bits(single) : bfloat16_bits(single);
    if (dtype == WEFT_FLOAT64)
        memcpy(at, &value, sizeof value);
    else if (dtype == WEFT_FLOAT32)
        memcpy(at, &single, sizeof single);
    else
        memcpy(at, &half, sizeof half);
}

static void store_integer(weft_dtype dtype, int64_t value, unsigned char *at)
{
    uint8_t byte = (uint8_t)value;
    uint32_t four = (uint32_t)value;
    if (weft_dtype_size(dtype) == 1)
        memcpy(at, &byte, sizeof byte);
    else if (weft_dtype_size(dtype) == 4)
        memcpy(at, &four, sizeof four);
    else
        memcpy(at, &value, sizeof value);
}

/* The only inexact step there is, done as weft.h defines it. */
static double float_average(weft_dtype dtype, double sum, int ranks)
{
    return dtype == WEFT_FLOAT64 ? sum / ranks : (double)((float)sum / (float)ranks);
}

static void expect_float(const struct perf_data *data, int ranks, size_t position)
{
    double value = float_input(data->dtype, data->op, 0, ranks, position);
    for (int rank = 1; rank < ranks; rank++)
        value = float_combine(data->op, value, float_input(data->dtype, data->op, rank, ranks, position));
    if (data->op == WEFT_AVG)
        value = float_average(data->dtype, value, ranks);
    store_float(data->dtype, value, data->expected + position * data->element_bytes);
}

static void expect_integer(const struct perf_data *data, int ranks, size_t position)
{
    int64_t value = integer_input(data->dtype, data->op, 0, ranks, position);
    for (int rank = 1; rank < ranks; rank++)
        value = integer_combine(data->dtype, data->op, value,
                                integer_input(data->dtype, data->op, rank, ranks, position));
    if (data->op == WEFT_AVG)
        value /= ranks;
    store_integer(data->dtype, value, data->expected + position * data->element_bytes);
}

int perf_data_prepare(struct perf_data *data, weft_dtype dtype, weft_op op, int rank, int ranks)
{
    struct perf_data made = {.dtype = dtype, .op = op, .element_bytes = weft_dtype_size(dtype)};
    if (made.element_bytes == 0)
        return -1;
    made.input = malloc(PERF_PATTERN * made.element_bytes);
    made.expected = malloc(PERF_PATTERN * made.element_bytes);
    if (!made.input || !made.expected) {
        perf_data_release(&made);
        return -1;
    }
    for (size_t i = 0; i < PERF_PATTERN; i++) {
        if (kinds[dtype].is_float) {
            store_float(dtype, float_input(dtype, op, rank, ranks, i), made.input + i * made.element_bytes);
            expect_float(&made, ranks, i);
        } else {
            store_integer(dtype, integer_input(dtype, op, rank, ranks, i),
                          made.input + i * made.element_bytes);
            expect_integer(&made, ranks, i);
        }
    }
    *data = made;
    return 0;
}

void perf_data_release(struct perf_data *data)
{
    free(data->input);
    free(data->expected);
    data->input = data->expected = NULL;
}

/* The next run of the pattern that starts at *position and covers at most count elements. */
static size_t next_run(size_t *position, size_t count)
{
    *position %= PERF_PATTERN;
    return count < PERF_PATTERN - *position ? count : PERF_PATTERN - *position;
}

void perf_data_fill(const struct perf_data *data, size_t shift, void *buffer, size_t count)
{
    unsigned char *at = buffer;
    for (size_t position = shift, run; count > 0; position += run, count -= run) {
        run = next_run(&position, count);
        memcpy(at, data->input + position * data->element_bytes, run * data->element_bytes);
        at += run * data->element_bytes;
    }
}

void perf_data_fill_fixed(const struct perf_data *data, void *buffer, size_t count)
{
    unsigned char *at = buffer, one[sizeof(double)];
    if (kinds[data->dtype].is_float)
        store_float(data->dtype, data->op == WEFT_SUM ? 0 : 1, one);
    else
        store_integer(data->dtype, data->op == WEFT_SUM ? 0 : 1, one);
    for (size_t i = 0; i < count; i++)
        memcpy(at + i * data->element_bytes, one, data->element_bytes);
}

/* How many of count elements differ from the pattern. */
static uint64_t differences(const unsigned char *pattern, size_t size, size_t shift, const void *buffer,
                            size_t count)
{
    const unsigned char *at = buffer;
    uint64_t different = 0;
    for (size_t position = shift, run; count > 0; position += run, count -= run) {
        run = next_run(&position, count);
        const unsigned char *wanted = pattern + position * size;
        if (memcmp(at, wanted, run * size) != 0)
            for (size_t i = 0; i < run; i++)
                different += memcmp(at + i * size, wanted + i * size, size) != 0;
        at += run * size;
    }
    return different;
}

uint64_t perf_data_check(const struct perf_data *data, size_t shift, const void *buffer, size_t count)
{
    return differences(data->expected, data->element_bytes, shift, buffer, count);
}

uint64_t perf_data_changed(const struct perf_data *data, size_t shift, const void *buffer, size_t count)
{
    return differences(data->input, data->element_bytes, shift, buffer, count);
}
