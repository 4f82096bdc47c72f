/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a, 64 bits (Fowler, Noll, Vo: http://www.isthe.com/chongo/tech/comp/fnv/): a short hash of bytes that come from
 * nobody who would make two of them alike. The numbers go between ranks and into files, so they are the same everywhere and
 * stay as they are. */
#ifndef WEFT_BASE_HASH_H
#define WEFT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEFT_HASH_START UINT64_C(0xcbf29ce484222325)

/* Goes on from a hash, or from WEFT_HASH_START. */
static inline uint64_t weft_hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Without the text's end. */
static inline uint64_t weft_hash_text(uint64_t hash, const char *text)
{
    return weft_hash_bytes(hash, text, strlen(text));
}

/* A bijection whose every output bit depends on every input bit, the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014). */
static inline uint64_t weft_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The next one of its numbers. */
static inline uint64_t weft_random(uint64_t *state)
{
    return weft_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
