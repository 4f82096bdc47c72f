/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's part of stall reports (comm/core/stall.h): collects records and names who is wrong, or who has not come.
 *
 * Records of the same call number are compared field by field. The value that more than half of the ranks pass
 * is right; where no value has that, the lowest rank's is. Rank 0 decides when all ranks have reported the
 * call, or WEFT_JUDGE_NS after the first difference: a rank that is in the call and has noticed nothing reports within
 * WEFT_STALL_NS, one that is not in it yet must not hold up the others.
 *
 * Threads: records and the timer come on the thread of the overlay, which alone touches the rest.
 */
#ifndef WEFT_COMM_CORE_JUDGE_H
#define WEFT_COMM_CORE_JUDGE_H

#include "comm/core/comm.h"

#define WEFT_JUDGE_NS INT64_C(500000000)

_Static_assert(WEFT_VERDICT_NS > 3 * (WEFT_STALL_NS + WEFT_JUDGE_NS),
               "who waits for rank 0's verdict is patient");

/* One rank's call. */
struct weft_judge_entry {
    int rank;
    struct weft_call call;
};

/* Compares calls of one number, given in order of ranks. 0 when they agree, otherwise 1 and the verdict in text:
 * "allreduce #17: rank 2 on host 'a' passes count 1000, rank 0 passes 1024". members [ranks] has the hosts. Pure.
 */
int weft_judge_compare(const struct weft_judge_entry *entries, int count, const struct weft_member *members,
                       int ranks, char *text, size_t capacity);

/* Before the communicator's bootstrap opens; the communicator is borrowed. */
int weft_judge_open(struct weft_comm *comm, struct weft_judge **judge);
/* After weft_bootstrap_stop(), before the bootstrap is closed. NULL is allowed. */
void weft_judge_close(struct weft_judge *judge);

/* The bootstrap's report callback; arg is the judge. */
void weft_judge_take(void *arg, int rank, const void *record, size_t size);

#endif
