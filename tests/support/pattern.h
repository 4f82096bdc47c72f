/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of which no two places of a page, and no two seeds, are alike: what was written, and whether it has come. */
#ifndef WEFT_TESTS_PATTERN_H
#define WEFT_TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static inline uint8_t pattern_value(size_t i, int seed)
{
    uint32_t mixed = ((uint32_t)i + 1) * 2654435761u + (uint32_t)seed * 40503u;
    return (uint8_t)((mixed ^ mixed >> 15) * 2246822519u >> 24);
}

static inline void pattern_fill(uint8_t *memory, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = pattern_value(i, seed);
}

/* 0, or 1 and said on stderr. */
static inline int pattern_check(const uint8_t *memory, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != pattern_value(i, seed)) {
            fprintf(stderr, "byte %zu of %zu is %u, expected %u\n", i, bytes, memory[i],
                    pattern_value(i, seed));
            return 1;
        }
    }
    return 0;
}

#endif
