/* SPDX-License-Identifier: Apache-2.0 */
/* Runs cases, a few at a time, and keeps the score. */
#ifndef WEFT_TESTS_KILL_DRIVER_H
#define WEFT_TESTS_KILL_DRIVER_H

#include "tests/kill/world.h"

struct kill_score {
    unsigned cases, deaths, answers, revoked, deadlines, clean;
    unsigned misnamed; /* cases in which a rank that left was named: a known gap */
    unsigned left_below, slow;
    unsigned rash;  /* cases in which a rank was called silent that nobody had stopped */
    unsigned wrong; /* cases with a complaint, each printed with its line for WEFT_KILL_CASE */
    unsigned hangs; /* cases cut off by the watchdog, in wrong too */
    size_t samples, capacity;
    int64_t *latency_ns; /* of calls that failed because of the death */
};

void kill_score_clear(struct kill_score *score);
/* Prints one line: how many, p50, p99 and maximum. */
void kill_score_print(struct kill_score *score, const char *what);
/* Of the samples, the value that `part` (0 to 1) of them do not exceed; 0 without samples. */
int64_t kill_score_quantile(struct kill_score *score, double part);

/* Once, before what is below. */
void kill_prepare(void);
/* Loads libfabric, for good: ranks that fork from here have it already. */
void kill_prepare_ofi(void);

/* Runs a job that nobody kills and hands its counts of system calls to the decks. 0 when all went well. */
int kill_run_quiet(int transport, int ranks);

/* Asks `next` for cases (0: no more) and runs them, `jobs` at a time. */
typedef int kill_next(void *arg, struct kill_case *c);
void kill_run(kill_next *next, void *arg, int jobs, struct kill_score *score);

#endif
