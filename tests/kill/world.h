/* SPDX-License-Identifier: Apache-2.0 */
/* One job in which one rank dies: what each rank does, and what every survivor must see.
 *
 * Ranks run allreduces, each on other data. A survivor may finish the operation in which the victim died, with exact
 * bits, if it had everything already, but none that comes later; then it gets an error that names the victim, the
 * next call says the same, and everything can be closed with nothing left. After the error no byte of its buffers
 * changes any more, whatever the others still do. A victim that was only stopped must see the same once it goes on.
 */
#ifndef WEFT_TESTS_KILL_WORLD_H
#define WEFT_TESTS_KILL_WORLD_H

#include "tests/kill/point.h"

enum kill_end {
    KILL_END_NONE,     /* not yet, or something went wrong */
    KILL_END_CLEAN,    /* no call failed: the victim died when it had nothing left to give */
    KILL_END_NOTICED,  /* a call failed because of the death */
    KILL_END_DEADLINE, /* the victim had not arrived yet: the start failed at its deadline */
};

struct kill_report {
    int end; /* enum kill_end */
    int status;
    int misnamed;       /* a known gap, counted apart (world.c) */
    int rash;           /* another rank was called silent, while stops are noticed within 0.2 s */
    int left_below;     /* libfabric left something behind */
    int64_t latency_ns; /* NOTICED: from the death to the failing call's return */
    unsigned calls[KILL_STAGES];
    char detail[400];    /* of the failed call */
    char complaint[400]; /* "" when everything was as it must be */
};

/* In memory shared by the ranks and the driver. */
struct kill_world {
    struct kill_case c;
    struct kill_clock clock;
    char secret[64];       /* of this job: the next may get the port of one whose rank 0 has died */
    int quiet;             /* nobody dies: counts system calls */
    _Atomic int finished;  /* ranks that have no operation any more */
    _Atomic int abandoned; /* some rank went wrong: do not wait for it */
    struct kill_report reports[KILL_RANKS_MAX];
};

/* A rank's life; test_ranks_seat() has been called. 0 when nothing is to complain about. */
int kill_world_rank(struct kill_world *world, int rank);

/* Whether the text names the rank. */
int kill_names(const char *text, int rank);

#endif
