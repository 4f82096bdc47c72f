/* SPDX-License-Identifier: Apache-2.0 */
/* One death: in which job, where exactly, by which signal.
 *
 * A case is a handful of small numbers and can be printed and read back ("transport=0 ranks=4 ..."), so that
 * whatever went wrong can be run again alone.
 */
#ifndef WEFT_TESTS_KILL_CASE_H
#define WEFT_TESTS_KILL_CASE_H

#include <stddef.h>
#include <stdint.h>

#define KILL_RANKS_MAX 8

enum kill_kind {
    KILL_STEP, /* at a step of the plan that the executor runs */
    KILL_FAST, /* inside the cache-line path */
    KILL_MOVE, /* at a call into the transport */
    KILL_CALL, /* at a system call of the library */
    KILL_TIME, /* after so many microseconds, by a thread beside */
    KILL_KINDS
};

enum kill_stage { KILL_NOWHERE, KILL_OPEN, KILL_AGREE, KILL_OPERATION, KILL_DESTROY, KILL_STAGES };

enum kill_phase {
    KILL_ENTER,   /* before the step, call or operation begins */
    KILL_MIDDLE,  /* STEP: after n advances; FAST: while waiting */
    KILL_MESSAGE, /* STEP: when a message for it arrives; FAST: published, at the n-th wake-up */
    KILL_FINISH,  /* STEP: just before it counts as finished; FAST: before the n-th reduction */
    KILL_DONE,    /* just behind it */
    KILL_PHASES
};

enum kill_transport { KILL_SHM, KILL_TCP, KILL_NET, KILL_TRANSPORTS };
enum kill_memory { KILL_HEAP, KILL_MAPPED, KILL_STAGED, KILL_MEMORIES };

struct kill_case {
    int transport; /* enum kill_transport */
    int ranks, victim;
    int signal; /* SIGKILL or SIGSTOP */
    int kind, stage, op, step, phase, n;
    int algorithm; /* enum weft_algorithm, 0 for the fast path or the automatic choice */
    int fast_path; /* setting WEFT_FAST_PATH */
    int memory;    /* enum kill_memory */
    int in_place, count;
};

#define KILL_CASE_TEXT 320
void kill_case_print(const struct kill_case *c, char *text, size_t capacity);
/* 1, or 0 when the text is no case. */
int kill_case_parse(const char *text, struct kill_case *c);

/* Deals cases. The same seed deals the same cases in the same order. Every step of every plan comes up once
 * before any comes up twice. */
struct kill_deck;
struct kill_deck *kill_deck_new(uint64_t seed, int transport, int signal);
void kill_deck_free(struct kill_deck *deck);
void kill_deck_deal(struct kill_deck *deck, struct kill_case *c);
/* System calls that a stage makes, as counted in a job that nobody killed: known to all decks. */
void kill_case_calls(int transport, int ranks, int rank, int stage, unsigned calls);
/* Steps there are, and steps that have been dealt. */
size_t kill_deck_steps(const struct kill_deck *deck, size_t *dealt);

#endif
