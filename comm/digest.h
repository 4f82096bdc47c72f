/* What the ranks of one operation must agree on, packed into 32 bits so that every first contact carries it.
 * The fields stay apart, so that a difference can be named. The count is a 14-bit hash: different counts pass
 * unnoticed here once in 16,384, and are then caught by the message sizes.
 */
#ifndef WEFT_COMM_DIGEST_H
#define WEFT_COMM_DIGEST_H

#include <stddef.h>
#include <stdint.h>

struct weft_digest_fields {
    uint32_t collective; /* 4 bits */
    uint32_t algorithm;  /* 4 bits */
    uint32_t dtype;      /* 5 bits */
    uint32_t op;         /* 5 bits */
    size_t count;
};

static inline uint32_t weft_digest_pack(const struct weft_digest_fields *fields)
{
    uint32_t hash = (uint32_t)((fields->count * 0x9e3779b97f4a7c15ULL) >> 50);
    return fields->collective | fields->algorithm << 4 | fields->dtype << 8 | fields->op << 13 | hash << 18;
}

/* Names of the fields that differ, comma-separated. */
static inline const char *weft_digest_difference(uint32_t mine, uint32_t theirs)
{
    uint32_t bits = mine ^ theirs;
    if (bits & 0xf)
        return "collective";
    if (bits & 0x1f00)
        return "type";
    if (bits & 0x3e000)
        return "reduction";
    if (bits & 0xfffc0000)
        return "count";
    return "algorithm";
}

#endif
