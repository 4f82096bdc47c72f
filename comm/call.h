/* One call of a collective as one rank made it: what all ranks must agree on, and what people want to read.
 *
 * Calls are counted per communicator in program order, blocking and started ones together, from 1; the end of
 * the communicator is a call as well. The k-th call of one rank belongs to the k-th call of every other.
 *
 * The digest packs the call into 32 bits so that every first contact carries it, with the fields apart so that a
 * difference can be named. It holds everything but the count, which travels beside it, and all of the number but
 * its low eight bits: ranks are never further apart than one call of the fast path or WEFT_OPS_MAX of the
 * executor, so the low bits tell any two calls apart that could meet.
 */
#ifndef WEFT_COMM_CALL_H
#define WEFT_COMM_CALL_H

#include <stddef.h>
#include <stdint.h>

/* Beside enum weft_collective. */
#define WEFT_CALL_DUP     13
#define WEFT_CALL_SPLIT   14
#define WEFT_CALL_DESTROY 15

/* Whether a call is one on the communicator itself, of which there is nothing to compare but its name. */
static inline int weft_call_is_on_comm(uint8_t collective)
{
    return collective >= WEFT_CALL_DUP && collective <= WEFT_CALL_DESTROY;
}

/* Part of the form of reports (comm/stall.h). */
struct weft_call {
    uint64_t sequence; /* 0: none */
    uint64_t count;
    int32_t root; /* -1: the collective has none */
    uint8_t collective;
    uint8_t algorithm; /* 0: not chosen yet, nothing to compare */
    uint8_t dtype;
    uint8_t op;
    uint8_t started;  /* by weft_..._start() */
    uint8_t in_place; /* may differ between ranks */
    uint8_t reserved[6];
};

_Static_assert(sizeof(struct weft_call) == 32, "calls travel in reports");

static inline uint32_t weft_call_digest(const struct weft_call *call)
{
    return (call->collective & 0xfu) | (call->algorithm & 0xfu) << 4 | (call->dtype & 0x1fu) << 8 |
           (call->op & 0x1fu) << 13 | (call->started & 1u) << 18 |
           ((uint32_t)(call->root + 1) & 0x1fu) << 19 | (uint32_t)(call->sequence & 0xff) << 24;
}

/* What a digest says of a call: not the count, the number or whether it is in place. */
static inline struct weft_call weft_digest_call(uint32_t digest)
{
    return (struct weft_call){.root = (int32_t)(digest >> 19 & 0x1f) - 1,
                              .collective = digest & 0xf,
                              .algorithm = digest >> 4 & 0xf,
                              .dtype = digest >> 8 & 0x1f,
                              .op = digest >> 13 & 0x1f,
                              .started = digest >> 18 & 1};
}

/* Name of the first field in which two digests differ. */
static inline const char *weft_digest_difference(uint32_t mine, uint32_t theirs)
{
    uint32_t bits = mine ^ theirs;
    if (!bits)
        return "count";
    if (bits & 0xff00000f)
        return "order of calls";
    if (bits & 0x40000)
        return "form (blocking or started)";
    if (bits & 0x1f00)
        return "type";
    if (bits & 0x3e000)
        return "reduction";
    return bits & 0xf80000 ? "root" : "algorithm";
}

/* "weft_comm_destroy", "allreduce"; static. comm/call.c */
const char *weft_call_name(const struct weft_call *call);
/* "allreduce #17: blocking, 1024 float32, sum, ring, in place". Length like snprintf(). */
int weft_call_print(const struct weft_call *call, char *text, size_t capacity);

#endif
