/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a collective as one rank made it: what all ranks must agree on, and what people want to read.
 *
 * Calls are counted per communicator in program order, blocking and started ones together, from 1; the end of
 * the communicator is a call as well. The k-th call of one rank belongs to the k-th call of every other.
 *
 * The digest packs the call into 32 bits so that every first contact carries it, with the fields apart so that a
 * difference can be named. It holds everything but the count, which travels beside it with the root (of which the
 * digest has four bits), and of the number the low eight bits: ranks are never further apart than WEFT_FASTPATH_WORDS_MAX
 * calls of the cache-line path or WEFT_OPS_MAX of the executor, so the low bits tell any two calls apart that could meet.
 */
#ifndef WEFT_COMM_EXEC_CALL_H
#define WEFT_COMM_EXEC_CALL_H

#include <stddef.h>
#include <stdint.h>

/* Beside enum weft_collective; frozen like it. */
enum weft_other_calls {
    WEFT_CALL_ALLREDUCE_LIST = 9,
    WEFT_CALL_ALLGATHER_LIST = 10,
    WEFT_CALL_REDUCE_SCATTER_LIST = 11,
    WEFT_CALL_SPLIT = 12,
    WEFT_CALL_GROW = 13,
    WEFT_CALL_DESTROY = 14,
    WEFT_CALL_EXIT = 15 /* a destroy, made where a program ends without one */
};

/* What is compared of any premultiplied sum: in no range of operations' numbers. */
#define WEFT_OP_ANNOUNCED_PREMUL 15

#define WEFT_LABEL_BYTES 48 /* with its end: weft_call_options */
/* Copies a program's label, NULL none: what others read of it is printed, and travels. */
void weft_label_set(char text[WEFT_LABEL_BYTES], const char *label);

/* Part of the form of reports (comm/core/stall.h), without its label. */
struct weft_call {
    uint64_t sequence; /* 0: none */
    uint64_t
        count; /* elements; of unequal calls and lists a hash of all counts, or 0 where no rank knows them all */
    int32_t root; /* -1: the collective has none */
    uint8_t collective;
    uint8_t algorithm; /* 0: not chosen yet, nothing to compare */
    uint8_t dtype;
    uint8_t op;
    uint8_t started; /* likewise the next one: may differ between ranks */
    uint8_t in_place;
    uint8_t unequal;    /* allgatherv and the like */
    uint8_t unattended; /* progress has begun it, and nobody waits for it */
    uint8_t reserved[4];
    const char *label; /* the program's word for it, NULL: none. Stays as long as the call. */
};

_Static_assert(sizeof(struct weft_call) == 40, "calls travel in reports");

static inline uint32_t weft_call_digest(const struct weft_call *call)
{
    return (call->collective & 0xfu) | (call->unequal & 1u) << 4 | (call->algorithm & 0xfu) << 5 |
           (call->dtype & 0x1fu) << 9 | (call->op & 0x1fu) << 14 | ((uint32_t)(call->root + 1) & 0xfu) << 20 |
           (uint32_t)(call->sequence & 0xff) << 24;
}

/* What a digest has whole. */
static inline struct weft_call weft_call_of_digest(uint32_t digest)
{
    return (struct weft_call){.collective = digest & 0xf,
                              .unequal = digest >> 4 & 1,
                              .algorithm = digest >> 5 & 0xf,
                              .dtype = digest >> 9 & 0x1f,
                              .op = digest >> 14 & 0x1f};
}

/* Of slots of the cache-line path (comm/exec/fastpath.h) alone. */
#define WEFT_DIGEST_BY_PLAN (1u << 19)

/* What travels beside the digest: the count, and the whole of a root. */
#define WEFT_CALL_ROOT_SHIFT 44
static inline uint64_t weft_call_count(const struct weft_call *call)
{
    return call->count + ((uint64_t)(call->root + 1) << WEFT_CALL_ROOT_SHIFT);
}

/* Where ranks know only their own sizes a message's bytes take the place of the count; the root stays. */
static inline uint64_t weft_call_with_size(uint64_t count, uint64_t bytes)
{
    return (count >> WEFT_CALL_ROOT_SHIFT << WEFT_CALL_ROOT_SHIFT) + bytes;
}
static inline uint64_t weft_call_without_root(uint64_t count)
{
    return count & ((UINT64_C(1) << WEFT_CALL_ROOT_SHIFT) - 1);
}
/* Of calls that have one. */
static inline int weft_call_same_root(uint64_t a, uint64_t b)
{
    return (a ^ b) >> WEFT_CALL_ROOT_SHIFT == 0;
}

/* Of alltoallv each message has two sizes in the place of the count, in bytes: what its sender sends the receiver, and what it expects of
 * it. So each rank of a pair sees in the other's first message whether both mean the same, in both directions. Sizes below 2 GiB are
 * exact; where one is not, the expected one stops at WEFT_CALL_EXPECTED_MAX. That is enough to find what differs, as every message
 * that long waits for its receiver, who has its true size. */
#define WEFT_CALL_EXPECTED_MAX ((UINT64_C(1) << 19) - 1)
static inline uint64_t weft_call_pair(uint64_t sent, uint64_t expected)
{
    if (__builtin_expect((sent | expected) >> 31 == 0, 1))
        return expected << 31 | sent;
    if (expected > WEFT_CALL_EXPECTED_MAX)
        expected = WEFT_CALL_EXPECTED_MAX;
    return UINT64_C(1) << 63 | expected << 44 | sent;
}
static inline int weft_call_pair_is_long(uint64_t pair)
{
    return (int)(pair >> 63);
}
static inline uint64_t weft_call_pair_sent(uint64_t pair)
{
    return pair & ((UINT64_C(1) << (weft_call_pair_is_long(pair) ? 44 : 31)) - 1);
}
static inline uint64_t weft_call_pair_expected(uint64_t pair)
{
    return weft_call_pair_is_long(pair) ? pair >> 44 & WEFT_CALL_EXPECTED_MAX : pair >> 31;
}

/* "weft_comm_destroy", "allreduce", "gatherv", "allreduce_list"; static. comm/exec/call.c */
const char *weft_call_name(const struct weft_call *call);
int weft_call_is_list(const struct weft_call *call);
/* Whether its count is a hash of many. */
int weft_call_is_hashed(const struct weft_call *call);
/* Whether ranks know only their own sizes, so that each message carries its own: gatherv, scatterv, alltoallv. */
int weft_call_is_sized(const struct weft_call *call);
/* Whether a message carries the sizes of both directions of its pair: alltoallv. */
int weft_call_is_paired(const struct weft_call *call);
/* Whether it moves data, so that it has a form, a type and a count; whether it has a reduction. */
int weft_call_moves(const struct weft_call *call);
int weft_call_reduces(const struct weft_call *call);
/* "sum", "op 17" of the caller's own. */
void weft_call_op_name(const struct weft_call *call, char *text, size_t capacity);
/* "1024", "with hash 1f" where there are several. */
void weft_call_count_text(const struct weft_call *call, char *text, size_t capacity);
/* "allreduce #17", "allreduce #17 'layer 7 gradients'". Length like snprintf(); WEFT_CALL_TITLE bytes suffice. */
#define WEFT_CALL_TITLE 112
int weft_call_title(const struct weft_call *call, char *text, size_t capacity);
/* "allreduce #17: blocking, 1024 float32, sum, ring, in place". Length like snprintf(). */
int weft_call_print(const struct weft_call *call, char *text, size_t capacity);

#endif
