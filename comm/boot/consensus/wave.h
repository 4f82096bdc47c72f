/* SPDX-License-Identifier: Apache-2.0 */
/* Waves over the overlay, and the agreements made of them (docs/bootstrap.md, sections 8 and 9).
 *
 * Everything here is locked: called with the bootstrap's lock held.
 */
#ifndef WEFT_COMM_BOOT_CONSENSUS_WAVE_H
#define WEFT_COMM_BOOT_CONSENSUS_WAVE_H

#include "comm/boot/boot.h"

/* --- bodies (wave_body.c) */

enum weft_boot_wave_kind {
    WEFT_BOOT_COLLECT = 1, /* who takes part in an agreement, and with which flags */
    WEFT_BOOT_PROPOSE = 2, /* this is the outcome, unless somebody died meanwhile */
    WEFT_BOOT_ASK = 3,     /* who has come to an agreement */
    WEFT_BOOT_SYNC = 4,    /* these are dead */
    /* Of news, which goes to all without an answer: */
    WEFT_BOOT_DECIDED = 5, /* the outcome of an agreement */
    WEFT_BOOT_AGREED = 6,  /* all survivors know that these are dead */
    WEFT_BOOT_LEFT = 7,    /* the initiator has */
    WEFT_BOOT_CUT = 8,     /* these are a part that cannot go on */
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

/* A WAVE and NEWS end with what their kind brings: PROPOSE and DECIDED a value, SYNC, AGREED and CUT a set, the others
 * nothing. */
void weft_boot_wave_put(struct weft_boot_writer *writer, const struct weft_boot_wave_head *head,
                        const struct weft_boot_value *value, const unsigned char *set, int ranks);
/* *value (malloc()ed) and *set (in the body) are NULL where the kind has none. WEFT_PROTOCOL, WEFT_NOMEM. */
int weft_boot_wave_get(int type, const void *body, size_t size, int ranks, struct weft_boot_wave_head *head,
                       struct weft_boot_value **value, const unsigned char **set);
void weft_boot_echo_put(struct weft_boot_writer *writer, const struct weft_boot_echo *echo, int ranks);
int weft_boot_echo_get(const void *body, size_t size, int ranks, struct weft_boot_echo *echo);

/* --- the engine (wave.c) */

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
/* Whether an own wave of that kind's class is in flight for the instance. */
int weft_boot_wave_runs(const struct weft_bootstrap *b, int kind, uint32_t instance);
/* This rank has contributed: waves that were held go on. */
void weft_boot_waves_release(struct weft_bootstrap *b, uint32_t instance);
/* Nothing comes on this edge any more. */
void weft_boot_waves_lost(struct weft_bootstrap *b, const struct weft_boot_edge *edge);
/* The waves of the dead end. */
void weft_boot_waves_end(struct weft_bootstrap *b);
void weft_boot_waves_clear(struct weft_bootstrap *b);
/* WAVE and ECHO. WEFT_NOMEM, or else negative: the peer is at fault. */
int weft_boot_wave_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
int weft_boot_echo_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* Floods news of a kind, about a rank or an agreement, to all neighbours but one (NULL: to all). */
void weft_boot_news(struct weft_bootstrap *b, int kind, int rank, uint32_t instance,
                    const struct weft_boot_value *value, const unsigned char *set,
                    const struct weft_boot_edge *except);
/* Whether the neighbour takes part in what is asked over this edge. Where it is broken, that is not known yet. */
int weft_boot_edge_open(const struct weft_boot_edge *edge);

/* --- what the engine asks of the agreement (agree.c) */

/* A wave has reached this rank. 0: it takes part, and wave->held is set; 1: it does not. Takes over value. */
int weft_boot_agree_joins(struct weft_bootstrap *b, struct weft_boot_wave *wave,
                          struct weft_boot_value *value, const unsigned char *set);
/* Adds this rank's own part to what the echoes brought. */
void weft_boot_agree_adds(struct weft_bootstrap *b, struct weft_boot_wave *wave);
/* An own wave has come back. */
void weft_boot_agree_done(struct weft_bootstrap *b, struct weft_boot_wave *wave);

/* --- what all survivors know (agree.c, sync.c; docs/bootstrap.md, sections 8 and 9) */

/* Begins what is due. */
void weft_boot_agree_begin(struct weft_bootstrap *b);
void weft_boot_agree_clear(struct weft_bootstrap *b);
/* The lowest rank that is neither dead nor known to have left. */
int weft_boot_coordinator(struct weft_bootstrap *b);
/* A death or an agreement is there: from now on departures matter to everybody. */
void weft_boot_agree_seen(struct weft_bootstrap *b);
/* A neighbour has said goodbye. */
void weft_boot_goodbye_heard(struct weft_boot_edge *edge);
/* An agreement waits for its outcome here. */
int weft_boot_agree_waits(const struct weft_bootstrap *b);
/* Makes sure that all know who is dead. */
void weft_boot_sync_begin(struct weft_bootstrap *b, int again);
void weft_boot_sync_learn(struct weft_bootstrap *b, const unsigned char *set, int from);
void weft_boot_sync_done(struct weft_bootstrap *b, const unsigned char *reached);
/* News of a neighbour. */
void weft_boot_decided_take(struct weft_boot_edge *edge, uint32_t number,
                            struct weft_boot_value *value); /* takes it over */
void weft_boot_agreed_take(struct weft_boot_edge *edge, const unsigned char *set);
void weft_boot_left_take(struct weft_boot_edge *edge, int rank);

/* --- a part of the survivors that may or may not go on without the rest (reach.c) */

/* An own wave, untainted, has been through all of set and could not reach more. 1: these are all. 0: the others have
 * been declared dead, or this part is cut off. */
int weft_boot_reach(struct weft_bootstrap *b, const unsigned char *set);
/* The same for a wave that makes sure of deaths. 1: it has. */
int weft_boot_reach_probed(struct weft_bootstrap *b, const unsigned char *set);
/* set: the part that this rank belongs to; from: who says so, NULL: this rank has found out. It stays so: no edge is ever
 * made again, and losses within the part only lessen its share. */
void weft_boot_cut_off(struct weft_bootstrap *b, const unsigned char *set, const struct weft_boot_edge *from);
/* 0: none of a lower rank, as it is for the lowest of each part. */
int weft_boot_has_lower_neighbour(const struct weft_bootstrap *b);

/* --- consensus.c */

extern const struct weft_boot_consensus weft_boot_consensus;
void weft_boot_consensus_clear(struct weft_bootstrap *b); /* frees what it has */

#endif
