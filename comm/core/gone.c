/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that have left while others stay: no failure for who does not need them.
 *
 * A rank that has left has given out what it owed. So nothing ends before its link has: what it sent is here by then. What still waits for it
 * after a moment, in which what is here has been looked at, waits for ever, and fails by its name: a message alone, a collective with the
 * communicator, as it cannot come to its end at any rank.
 */
#include <stdio.h>

#include "base/clock.h"
#include "comm/core/comm.h"
#include "comm/core/failure.h"
#include "comm/exec/fastpath.h"

#define MOMENT_NS INT64_C(200000000)
#define SILENT_NS INT64_C(10000000000)

/* Its link may be one that says nothing of its end. */
static int is_reached(const struct weft_comm *comm, int rank, int64_t now_ns)
{
    struct weft_link *link = weft_exec_link(comm->exec, (uint32_t)rank);
    const struct weft_transport_ops *ops = &comm->context->transports[comm->members[rank].transport].ops;
    return link && !comm->members[rank].is_cut && !ops->why(link) &&
           now_ns - comm->failure.gone_ns < SILENT_NS;
}

int weft_comm_is_out_of_reach(const struct weft_comm *comm, int rank)
{
    if (!weft_bootstrap_gone(comm->bootstrap))
        return 0;
    int64_t now_ns = weft_clock_ns();
    int first = rank < 0 ? 0 : rank, last = rank < 0 ? comm->ranks - 1 : rank;
    for (int r = first; r <= last; r++) {
        if ((r == comm->rank && rank < 0) || (comm->members[r].is_gone && !is_reached(comm, r, now_ns)))
            continue;
        return 0;
    }
    return 1;
}

/* Who has left by now. */
static void note_gone(struct weft_comm *comm, int64_t now_ns)
{
    int gone = weft_bootstrap_gone(comm->bootstrap);
    if (gone == comm->failure.gone)
        return;
    comm->failure.gone = gone;
    comm->failure.gone_ns = now_ns;
    for (int r = 0; r < comm->ranks; r++)
        comm->members[r].is_gone = (uint8_t)weft_bootstrap_is_gone(comm->bootstrap, r, NULL, 0);
}

/* Whether a collective in flight waits for it. */
static int is_awaited(const struct weft_comm *comm, int rank)
{
    const struct weft_waiting *waiting = comm->stall.waiting;
    if (waiting && waiting->fast_sequence &&
        weft_fastpath_awaits(comm->fastpath, (uint32_t)rank, waiting->fast_sequence))
        return 1;
    return weft_exec_awaits(comm->exec, (uint32_t)rank);
}

/* The link's end has been taken for a failure before it was known why it came. */
static void find_again(struct weft_failure_record *failure, int rank)
{
    if (failure->has_stopped || failure->lost_rank != rank)
        return;
    failure->lost_status = WEFT_OK;
    failure->lost_rank = -1;
}

void weft_comm_look_for_gone(struct weft_comm *comm)
{
    struct weft_failure_record *failure = &comm->failure;
    char text[WEFT_DETAIL_MAX];
    int64_t now_ns = weft_clock_ns();
    note_gone(comm, now_ns);
    int is_needed = 0, is_due = failure->needed_ns && now_ns - failure->needed_ns >= MOMENT_NS;
    int others = comm->ranks - 1 - failure->gone;
    for (int r = 0; r < comm->ranks && comm->exec && !failure->status; r++) {
        if (!comm->members[r].is_gone)
            continue;
        find_again(failure, r);
        if (is_reached(comm, r, now_ns))
            continue;
        int collective = is_awaited(comm, r);
        int messages = weft_p2p_awaits(comm->p2p, r, !others);
        if (is_due && messages)
            messages = weft_p2p_give_up(comm->p2p, r, !others);
        if (is_due && (collective || messages)) {
            weft_bootstrap_is_gone(comm->bootstrap, r, text, sizeof text);
            weft_comm_fail(comm, WEFT_PEER_FAILED, text);
        }
        is_needed |= collective || messages;
    }
    if (!is_needed)
        failure->needed_ns = 0;
    else if (!failure->needed_ns)
        failure->needed_ns = now_ns;
}
