/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of the cache-line path, where they lie and whose they are: fastpath.h says how they are used. */
#ifndef WEFT_COMM_EXEC_FASTPATH_SLOTS_H
#define WEFT_COMM_EXEC_FASTPATH_SLOTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/exec/fastpath.h"

#define WEFT_SLOT_INLINE_BYTES 48
#define WEFT_SLOTS_GIVEN       WEFT_FASTPATH_WORDS_MAX /* two more than a root may be ahead */
#define WEFT_SLOT_GIVEN_BYTES                                                                                \
    (WEFT_FASTPATH_GIVEN_MAX + 128) /* so that not all lie in the same places of a cache */

/* One published contribution. Written by its owner, read by everybody. */
struct weft_slot {
    _Alignas(64) _Atomic uint64_t word; /* digest << 32 | sequence, written last */
    uint8_t small[WEFT_SLOT_INLINE_BYTES];
    _Atomic uint64_t size; /* bytes published: a count that differs is found exactly */
};

/* How much of a large one there is before its word says that it is all. A line of its own: the slot's may have a program's bytes of an operation
 * before where it would lie. The number of the exchange is in it, which does not come again: 44 bits are 50 days of exchanges that take 0.25 us. */
#define WEFT_SLOT_PART_BITS 20
#define WEFT_SLOT_PART_MAX  ((UINT64_C(1) << WEFT_SLOT_PART_BITS) - 1)
struct weft_slot_part {
    _Alignas(64) _Atomic uint64_t word; /* exchanges, this one included << WEFT_SLOT_PART_BITS | bytes */
};

/* That a rank has come to an operation that a root gives: four to a line, so that a root which is far ahead fetches few. */
struct weft_slot_mark {
    _Atomic uint64_t word; /* as above */
    _Atomic uint64_t
        size; /* and the sequence in the upper half: it may be written again while another rank looks */
};

/* Of an operation that a root has given: what the others' marks have to be. */
struct weft_slot_given {
    uint64_t word, size;
    uint64_t sequence, count; /* with the root what the digest has in part: of struct weft_call */
    int32_t root;
};

struct weft_fastpath {
    struct weft_context *context;
    uint32_t ranks, rank;
    uint32_t sequence;
    uint64_t exchanged; /* operations in which everybody waits for everybody */
    uint32_t given,
        settled; /* operations that a root gave; those of them in which everybody has been seen, and compared */
    uint32_t root;   /* of the last operation; WEFT_FASTPATH_NO_ROOT */
    size_t at, data; /* where its slot lies among a rank's slots, and what does not fit into that */
    size_t bytes_max, slot_bytes;
    uint32_t
        part_bytes; /* of what goes in parts, which others take as they come; 0: this operation does not. */
    uint32_t taken[WEFT_FASTPATH_RANKS_MAX];           /* bytes of each rank's that are here then */
    int demotes;                                       /* see base/demote.h */
    uint8_t *own;                                      /* its slots */
    const uint8_t *published[WEFT_FASTPATH_RANKS_MAX]; /* every rank's slots, the own included */
    struct weft_link *links[WEFT_FASTPATH_RANKS_MAX];
    struct weft_token tokens[WEFT_FASTPATH_RANKS_MAX]; /* of the own slots, for each peer */
    const struct weft_transport_ops *ops;
    uint8_t *partial; /* sums on the way up the tree: ranks / 2 of bytes_max */
    struct weft_slot_given expected[WEFT_SLOTS_GIVEN];
};

/* A rank's slots: two for operations in which everybody waits for everybody, each with room and a part's word behind it; then its marks; then those that it
 * gives, with room for each. */
static inline size_t weft_slot_exchanged(const struct weft_fastpath *fastpath, uint64_t number)
{
    return (number & 1) * fastpath->slot_bytes;
}
/* Of the slot that lies there. */
static inline size_t weft_slot_part(const struct weft_fastpath *fastpath, size_t at)
{
    return at + fastpath->slot_bytes - sizeof(struct weft_slot_part);
}
static inline size_t weft_slot_marked(const struct weft_fastpath *fastpath, uint32_t number)
{
    return 2 * fastpath->slot_bytes + number % WEFT_SLOTS_GIVEN * sizeof(struct weft_slot_mark);
}
static inline size_t weft_slot_given(const struct weft_fastpath *fastpath, uint32_t number)
{
    return 2 * fastpath->slot_bytes + WEFT_SLOTS_GIVEN * sizeof(struct weft_slot_mark) +
           number % WEFT_SLOTS_GIVEN * sizeof(struct weft_slot);
}
static inline size_t weft_slot_given_data(const struct weft_fastpath *fastpath, uint32_t number)
{
    return 2 * fastpath->slot_bytes +
           WEFT_SLOTS_GIVEN * (sizeof(struct weft_slot_mark) + sizeof(struct weft_slot)) +
           number % WEFT_SLOTS_GIVEN * WEFT_SLOT_GIVEN_BYTES;
}

#endif
