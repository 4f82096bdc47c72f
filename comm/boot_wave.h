/* SPDX-License-Identifier: Apache-2.0 */
/* Waves over the overlay, and the agreements made of them (docs/bootstrap.md, sections 8 and 9).
 *
 * Everything here is locked: called with the bootstrap's lock held.
 */
#ifndef WEFT_COMM_BOOT_WAVE_H
#define WEFT_COMM_BOOT_WAVE_H

#include "comm/boot.h"

/* --- sets of ranks, as they travel: one bit each, rank 0 lowest */

static inline size_t weft_boot_set_bytes(int ranks)
{
    return ((size_t)ranks + 7) / 8;
}

static inline int weft_boot_set_has(const unsigned char *set, int rank)
{
    return set[rank / 8] >> (rank % 8) & 1;
}

static inline void weft_boot_set_add(unsigned char *set, int rank)
{
    set[rank / 8] |= (unsigned char)(1 << rank % 8);
}

/* --- bodies (boot_wave_body.c) */

enum weft_boot_wave_kind {
    WEFT_BOOT_COLLECT = 1, /* who takes part in an agreement, and with which flags */
    WEFT_BOOT_PROPOSE = 2, /* this is the outcome, unless somebody died meanwhile */
    WEFT_BOOT_ASK = 3,     /* who has come to an agreement */
    WEFT_BOOT_SYNC = 4,    /* these are dead */
};

struct weft_boot_wave_head {
    uint32_t initiator;
    uint64_t number; /* counted by the initiator over all its waves */
    int kind;
    uint32_t instance; /* of the agreement */
};

/* Attempts to decide are ordered by coordinator, then by number: coordinators follow each other upwards. */
struct weft_boot_ballot {
    uint32_t rank;
    uint64_t number;
};

/* An outcome. */
struct weft_boot_value {
    uint64_t flags;
    uint32_t leader, payload_size;
    unsigned char payload[WEFT_BOOTSTRAP_PAYLOAD_MAX];
    unsigned char dead[]; /* a set */
};

struct weft_boot_echo {
    struct weft_boot_wave_head head;
    int tainted; /* a rank was lost on the way: the wave says nothing about those who are not in set */
    uint64_t flags;
    const unsigned char *set;         /* in the body; who was covered, or has come (ASK) */
    struct weft_boot_ballot ballot;   /* of accepted */
    struct weft_boot_value *accepted; /* NULL none; the receiver's to weft_boot_value_free() */
};

struct weft_boot_value *weft_boot_value_new(int ranks); /* zeroed; NULL without memory */
struct weft_boot_value *weft_boot_value_copy(const struct weft_boot_value *value, int ranks);
void weft_boot_value_free(struct weft_boot_value *value); /* wipes it; NULL allowed */

/* A wave ends with what its kind brings: PROPOSE a value, SYNC a set, the others nothing. */
void weft_boot_wave_put(struct weft_boot_writer *writer, const struct weft_boot_wave_head *head,
                        const struct weft_boot_value *value, const unsigned char *set, int ranks);
/* *value (malloc()ed) and *set (in the body) are NULL where the kind has none. WEFT_PROTOCOL, WEFT_NOMEM. */
int weft_boot_wave_get(const void *body, size_t size, int ranks, struct weft_boot_wave_head *head,
                       struct weft_boot_value **value, const unsigned char **set);
void weft_boot_echo_put(struct weft_boot_writer *writer, const struct weft_boot_echo *echo, int ranks);
int weft_boot_echo_get(const void *body, size_t size, int ranks, struct weft_boot_echo *echo);
void weft_boot_decided_put(struct weft_boot_writer *writer, uint32_t instance,
                           const struct weft_boot_value *value, int ranks);
int weft_boot_decided_get(const void *body, size_t size, int ranks, uint32_t *instance,
                          struct weft_boot_value **value);
/* AGREED: a set. */
int weft_boot_set_get(const void *body, size_t size, int ranks, const unsigned char **set);
/* LEFT: a rank. */
int weft_boot_left_get(const void *body, size_t size, int ranks, int *rank);

/* --- the engine (boot_wave.c) */

/* One wave as this rank sees it. The last one of an initiator is remembered after its end, to know late copies. */
struct weft_boot_wave {
    struct weft_boot_wave *next;
    struct weft_boot_wave_head head;
    int parent; /* edge on which it came first, -1: it began here */
    int held;   /* waits for this rank's own contribution */
    int ended;
    int tainted;
    int awaited;           /* edges from which nothing came yet */
    unsigned char *awaits; /* per edge */
    /* What the echoes brought. */
    unsigned char *set;
    uint64_t flags;
    struct weft_boot_ballot ballot;
    struct weft_boot_value *accepted;
};

/* Begins a wave, in place of an earlier one of its class. value, set: what its kind brings. */
int weft_boot_wave_start(struct weft_bootstrap *b, int kind, uint32_t instance,
                         const struct weft_boot_value *value, const unsigned char *set);
/* Whether an own wave of that kind's class is under way for the instance. */
int weft_boot_wave_runs(const struct weft_bootstrap *b, int kind, uint32_t instance);
/* This rank has contributed: waves that were held go on. */
void weft_boot_waves_release(struct weft_bootstrap *b, uint32_t instance);
/* Nothing comes on this edge any more. */
void weft_boot_waves_lost(struct weft_bootstrap *b, const struct weft_boot_edge *edge);
/* A rank is dead: its waves end. */
void weft_boot_waves_end(struct weft_bootstrap *b, int initiator);
void weft_boot_waves_clear(struct weft_bootstrap *b);
/* WAVE and ECHO. Negative: the peer is at fault. */
int weft_boot_wave_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
int weft_boot_echo_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* Sends a frame on all live edges but one (NULL: on all). Takes over the writer's bytes. */
void weft_boot_tell_all(struct weft_bootstrap *b, int type, struct weft_boot_writer *writer,
                        const struct weft_boot_edge *except);
int weft_boot_edge_live(const struct weft_boot_edge *edge);
/* The same, or broken: what became of the neighbour is not known yet. */
int weft_boot_edge_open(const struct weft_boot_edge *edge);

/* --- what the engine asks of the agreement (boot_agree.c) */

/* A wave has reached this rank. 0: it takes part, and wave->held is set; 1: it does not. Takes over value. */
int weft_boot_agree_joins(struct weft_bootstrap *b, struct weft_boot_wave *wave,
                          struct weft_boot_value *value, const unsigned char *set);
/* Adds this rank's own part to what the echoes brought. */
void weft_boot_agree_adds(struct weft_bootstrap *b, struct weft_boot_wave *wave);
/* An own wave has come back. */
void weft_boot_agree_done(struct weft_bootstrap *b, struct weft_boot_wave *wave);

#endif
