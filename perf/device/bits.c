/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/device/bits.h"

#include <string.h>

/* The exponent's place in an element, of types that have one. */
struct layout {
    unsigned bits, exponent_bits, mantissa_bits;
};

static struct layout layout_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT8_E4M3:
        return (struct layout){8, 4, 3};
    case WEFT_FLOAT8_E5M2:
        return (struct layout){8, 5, 2};
    case WEFT_FLOAT16:
        return (struct layout){16, 5, 10};
    case WEFT_BFLOAT16:
        return (struct layout){16, 8, 7};
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        return (struct layout){32, 8, 23};
    case WEFT_FLOAT64:
    case WEFT_COMPLEX128:
        return (struct layout){64, 11, 52};
    default:
        return (struct layout){64, 0, 0};
    }
}

static uint64_t repeat(uint64_t element, unsigned bits)
{
    for (unsigned have = bits; have < 64; have *= 2)
        element |= element << have;
    return element;
}

/* The exponents of numbers from 1/8 to 2 are 0, ones, and any two bits. */
static void find_masks(weft_dtype dtype, uint64_t *keep, uint64_t *set)
{
    struct layout layout = layout_of(dtype);
    if (layout.exponent_bits == 0) {
        *keep = UINT64_MAX;
        *set = 0;
        return;
    }
    uint64_t exponent = (((uint64_t)1 << layout.exponent_bits) - 1) << layout.mantissa_bits;
    uint64_t low = (uint64_t)3 << layout.mantissa_bits;
    uint64_t top = (uint64_t)1 << (layout.exponent_bits + layout.mantissa_bits - 1);
    *keep = repeat(~(exponent & ~low) & (UINT64_MAX >> (64 - layout.bits)), layout.bits);
    *set = repeat(exponent & ~low & ~top, layout.bits);
}

void perf_bits_fill(weft_dtype dtype, enum perf_bits bits, uint64_t stream, void *elements, size_t count)
{
    enum { TAKE_TURNS = 64 }; /* bytes of a kind at a time */
    unsigned char *at = elements;
    size_t size = count * weft_dtype_size(dtype);
    uint64_t keep, set, state = (stream + 1) * 0x9e3779b97f4a7c15u;
    find_masks(dtype, &keep, &set);
    for (size_t i = 0; i < size; i += sizeof state) {
        /* Marsaglia's xorshift64. */
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t word = state;
        if (bits == PERF_BITS_TAME || i / TAKE_TURNS % 2)
            word = (word & keep) | set;
        memcpy(at + i, &word, size - i < sizeof word ? size - i : sizeof word);
    }
}
