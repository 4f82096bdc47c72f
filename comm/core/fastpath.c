/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/fastpath.h"

#include <stdio.h>

#include "base/clock.h"
#include "comm/exec/fastpath.h"

/* First rank 0 is asked who has not come, then this rank says what it knows. [lock] */
static int be_late(void *arg, int64_t *deadline_ns)
{
    struct weft_exchange *exchange = arg;
    struct weft_comm *comm = exchange->comm;
    const struct weft_call *call = &exchange->shown.call;
    int missing = weft_fastpath_missing(comm->fastpath);
    char text[300], title[WEFT_CALL_TITLE];
    if (missing < 0)
        return WEFT_OK;
    weft_call_title(call, title, sizeof title);
    snprintf(text, sizeof text, "%s: rank %d on host '%s' did not arrive in time", title, missing,
             comm->members[missing].host);
    if (exchange->shown.reported & WEFT_STALL_ASKED) {
        weft_comm_fail(comm, WEFT_TIMEOUT, text);
        return WEFT_TIMEOUT;
    }
    int64_t waited_ms = (weft_clock_ns() - exchange->shown.since_ns) / 1000000;
    *deadline_ns = weft_stall_late(comm, call, &exchange->shown.reported, waited_ms, text);
    return WEFT_OK;
}

/* [lock] */
static void lose(struct weft_comm *comm, const struct weft_call *call, uint32_t peer)
{
    char text[300], title[WEFT_CALL_TITLE];
    weft_call_title(call, title, sizeof title);
    snprintf(text, sizeof text, "rank %u on host '%s' gave up during %s", peer, comm->members[peer].host,
             title);
    weft_comm_lose(comm, WEFT_PEER_FAILED, text);
}

/* --- without blocking */

static void show(struct weft_comm *comm, struct weft_waiting *shown)
{
    if (!comm->stall.waiting)
        comm->stall.waiting = shown;
}

void weft_exchange_begin(struct weft_comm *comm, const struct weft_call *call, int64_t timeout_ms,
                         struct weft_exchange *exchange)
{
    int64_t now_ns = weft_clock_ns();
    *exchange = (struct weft_exchange){
        .comm = comm,
        .shown = {.call = *call, .since_ns = now_ns, .fast_sequence = weft_fastpath_sequence(comm->fastpath)},
        .deadline_ns = weft_comm_deadline_of(comm, timeout_ms),
        .look_ns = now_ns + WEFT_STALL_NS};
    show(comm, &exchange->shown);
}

void weft_exchange_end(struct weft_comm *comm, struct weft_exchange *exchange)
{
    if (comm->stall.waiting == &exchange->shown)
        comm->stall.waiting = NULL;
}

int weft_exchange_is_ready(const struct weft_comm *comm)
{
    return weft_fastpath_missing(comm->fastpath) < 0;
}

int weft_exchange_look(struct weft_comm *comm, struct weft_exchange *exchange)
{
    if (weft_exchange_is_ready(comm))
        return WEFT_OK;
    show(comm, &exchange->shown);
    int64_t now_ns = weft_clock_ns();
    if (now_ns >= exchange->look_ns)
        exchange->look_ns = weft_stall_look(comm, now_ns);
    int status = now_ns >= exchange->deadline_ns ? be_late(exchange, &exchange->deadline_ns) : WEFT_OK;
    return status == WEFT_OK ? WEFT_AGAIN : comm->failure.status;
}

static void doubt(struct weft_comm *comm, struct weft_exchange *exchange, const char *text,
                  const struct weft_call *past)
{
    exchange->is_doubted = 1;
    weft_stall_suspect(comm, text, past);
}

/* What weft_fastpath_finish() has come to. */
static int conclude(struct weft_comm *comm, const struct weft_call *call, struct weft_exchange *exchange,
                    int status, const struct weft_fastpath_odd *odd)
{
    if (status == WEFT_OK)
        return WEFT_OK;
    if (status == WEFT_PEER_FAILED)
        lose(comm, call, odd->peer);
    else if (status == WEFT_MISMATCH)
        doubt(comm, exchange, odd->text, odd->past.sequence ? &odd->past : NULL);
    else
        weft_stall_look(comm, weft_clock_ns());
    return comm->failure.status ? comm->failure.status : WEFT_AGAIN;
}

int weft_exchange_finish(struct weft_comm *comm, const struct weft_fastpath_exchange *made,
                         struct weft_exchange *exchange, int *by_plan)
{
    struct weft_fastpath_odd odd;
    int status =
        exchange->is_doubted ? WEFT_AGAIN : weft_fastpath_finish(comm->fastpath, made, by_plan, &odd);
    return conclude(comm, made->call, exchange, status, &odd);
}

void weft_exchange_doubt(struct weft_comm *comm, struct weft_exchange *exchange, const char *text)
{
    doubt(comm, exchange, text, NULL);
}

/* --- all of it */

static int is_ready(void *arg)
{
    return weft_exchange_is_ready(((const struct weft_exchange *)arg)->comm);
}

int weft_exchange_go_on(struct weft_comm *comm, const struct weft_fastpath_exchange *made, int64_t timeout_ms,
                        int status, const struct weft_fastpath_odd *odd, int *by_plan)
{
    struct weft_exchange exchange;
    weft_context_lock(comm->context);
    weft_exchange_begin(comm, made->call, timeout_ms, &exchange);
    if (status == WEFT_AGAIN) {
        status = weft_comm_wait(comm, is_ready, be_late, &exchange, exchange.deadline_ns, 0);
        if (status == WEFT_OK)
            status = weft_exchange_finish(comm, made, &exchange, by_plan);
    } else {
        status = conclude(comm, made->call, &exchange, status, odd);
    }
    if (status == WEFT_AGAIN)
        weft_comm_wait(comm, weft_wait_never, NULL, NULL, WEFT_NEVER_NS, 0);
    weft_exchange_end(comm, &exchange);
    weft_context_unlock(comm->context);
    return status == WEFT_OK ? WEFT_OK : comm->failure.status;
}

int weft_exchange_differs(struct weft_comm *comm, const struct weft_call *call, const char *text)
{
    struct weft_waiting waiting = {.call = *call, .fast_sequence = weft_fastpath_sequence(comm->fastpath)};
    weft_stall_await_verdict(comm, &waiting, text);
    return comm->failure.status;
}
