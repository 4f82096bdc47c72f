/* SPDX-License-Identifier: Apache-2.0 */
/* The cache-line path (comm/exec/fastpath.h) of a communicator: what it does while a peer lets it wait, and when one gives up. */
#ifndef WEFT_COMM_CORE_FASTPATH_H
#define WEFT_COMM_CORE_FASTPATH_H

#include "comm/core/comm.h"
#include "comm/exec/fastpath.h"

/* An operation of the path whose peers let it wait. [lock] */
struct weft_exchange {
    struct weft_comm *comm;
    struct weft_waiting shown;
    int64_t deadline_ns;
    int64_t look_ns; /* when stalls are looked at next */
    int is_doubted;  /* a peer is in another call: rank 0 is asked */
};

/* Goes on with an operation for which weft_fastpath_run() has been too short, or found something odd: status. Takes the lock. */
int weft_exchange_go_on(struct weft_comm *comm, const struct weft_fastpath_exchange *made, int64_t timeout_ms,
                        int status, const struct weft_fastpath_odd *odd, int *by_plan);
/* All of an operation; blocks. *by_plan as weft_fastpath_finish(). Returns what the communicator has failed with: with WEFT_MISMATCH where
 * ranks are in different calls, when rank 0 has named the one that is wrong. Takes the lock if it must wait for long. */
static inline int weft_exchange_run(struct weft_comm *comm, const struct weft_fastpath_exchange *made,
                                    int64_t timeout_ms, int *by_plan)
{
    struct weft_fastpath_odd odd;
    int status = weft_fastpath_run(comm->fastpath, made, by_plan, &odd);
    return __builtin_expect(status == WEFT_OK, 1)
               ? WEFT_OK
               : weft_exchange_go_on(comm, made, timeout_ms, status, &odd, by_plan);
}
/* After that: what has been shown differs, as the text says. Waits for rank 0's verdict, and returns the same. Takes the lock. */
int weft_exchange_differs(struct weft_comm *comm, const struct weft_call *call, const char *text);

/* The parts of it, for who does not block. [lock] */

/* After weft_fastpath_begin(). call's label must stay until weft_exchange_end(). */
void weft_exchange_begin(struct weft_comm *comm, const struct weft_call *call, int64_t timeout_ms,
                         struct weft_exchange *exchange);
/* WEFT_OK: it can be finished; WEFT_AGAIN: some rank has not come; else what the communicator has failed with. */
int weft_exchange_look(struct weft_comm *comm, struct weft_exchange *exchange);
int weft_exchange_is_ready(const struct weft_comm *comm);
/* Finishes it. WEFT_AGAIN: peers are in another call, and the verdict is to come. */
int weft_exchange_finish(struct weft_comm *comm, const struct weft_fastpath_exchange *made,
                         struct weft_exchange *exchange, int *by_plan);
/* What has been shown differs, as the text says. */
void weft_exchange_doubt(struct weft_comm *comm, struct weft_exchange *exchange, const char *text);
void weft_exchange_end(struct weft_comm *comm, struct weft_exchange *exchange);

#endif
