/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of point-to-point messages. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "comm/group_calls.h"
#include "comm/message.h"
#include "comm/progress.h"

int weft_message_check(const weft_message *message)
{
    if (message && message->size < sizeof(size_t))
        return weft_fail(WEFT_INVALID, "weft_message.size is %zu: use WEFT_MESSAGE_INIT", message->size);
    return WEFT_OK;
}

static void tell(weft_message *message, int source, int64_t tag, uint64_t bytes)
{
    weft_message now = {.size = message->size, .source = source, .tag = tag, .bytes = bytes};
    memcpy(message, &now, message->size < sizeof now ? message->size : sizeof now);
}

void weft_message_tell(const struct weft_request *request, weft_message *message)
{
    tell(message, request->found, request->found_tag, request->found_bytes);
}

/* --- waiting */

static int still_running(void *arg)
{
    const struct weft_request *request = arg;
    return request->status == WEFT_AGAIN;
}

static int gave_up(const struct weft_comm *comm, const char *what)
{
    return weft_fail(WEFT_TIMEOUT, "rank %d gave up after %" PRId64 " ms: no end of the %s", comm->rank,
                     comm->timeout_ms, what);
}

int weft_request_fail(const struct weft_comm *comm, const struct weft_request *request)
{
    char what[200];
    if (request->status == WEFT_MISMATCH)
        return weft_fail(WEFT_MISMATCH,
                         "a message of %" PRIu64 " bytes from rank %d, tag %" PRId64
                         ", is longer than the %zu bytes that this receive has room for",
                         request->found_bytes, request->found, request->found_tag, request->bytes);
    weft_request_print(request, what, sizeof what);
    if (request->status == WEFT_TIMEOUT)
        return gave_up(comm, what);
    return weft_fail(request->status, "the %s was cancelled", what);
}

/* The deadline has passed. */
static int be_late(struct weft_comm *comm, struct weft_request *request, int ends)
{
    if (!ends)
        return weft_fail(WEFT_TIMEOUT, "the operation is still running");
    if (weft_p2p_withdraw(comm->p2p, request, WEFT_TIMEOUT) == WEFT_OK)
        return WEFT_TIMEOUT;
    char what[200], text[WEFT_DETAIL_MAX];
    weft_request_print(request, what, sizeof what);
    gave_up(comm, what);
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_log(WEFT_LOG_WARN, "%s", text);
    weft_comm_fail(comm, WEFT_TIMEOUT, text); /* ends the request */
    return WEFT_TIMEOUT;
}

int weft_request_drive(struct weft_comm *comm, struct weft_request *request, int64_t deadline_ns, int ends)
{
    struct weft_context *context = comm->context;
    struct weft_idle idle = {0};
    while (request->status == WEFT_AGAIN) {
        int moved = weft_progress_once(context);
        if (request->status != WEFT_AGAIN)
            break;
        if (weft_comm_is_lost(comm) && weft_comm_check_any(comm) != WEFT_OK)
            break;
        weft_progress_step_aside(context);
        if (moved)
            idle = (struct weft_idle){0};
        else if (!weft_idle_pause(context, &idle))
            continue;
        if (request->status != WEFT_AGAIN)
            break;
        if (!deadline_ns)
            deadline_ns = weft_comm_deadline_ns(comm);
        if (weft_clock_ns() >= deadline_ns)
            return be_late(comm, request, ends);
        if (!moved)
            weft_progress_sleep(context, &idle, deadline_ns, still_running, request);
    }
    if (request->status == WEFT_OK)
        weft_progress_flush(context);
    else if (!request->own)
        weft_comm_check_any(comm);
    return request->status;
}

void weft_request_expire(struct weft_comm *comm, struct weft_request *request)
{
    char what[200], text[WEFT_DETAIL_MAX];
    if (!request->is_untold) {
        be_late(comm, request, 1);
        return;
    }
    weft_request_print(request, what, sizeof what);
    gave_up(comm, what);
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_comm_fail(comm, WEFT_TIMEOUT, text);
}

/* --- arguments */

static int is_broken(const struct weft_comm *comm)
{
    return comm->failed || (comm->bootstrap && weft_bootstrap_has_failed(comm->bootstrap));
}

static int report_broken(struct weft_comm *comm)
{
    weft_context_lock(comm->context);
    weft_comm_check_any(comm);
    weft_context_unlock(comm->context);
    return weft_comm_report(comm);
}

/* What all calls look at; *bytes is the buffer's length. */
static inline int check(struct weft_comm *comm, const void *data, size_t count, weft_dtype dtype,
                        size_t *bytes)
{
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    size_t element_bytes = weft_dtype_size(dtype);
    if (!element_bytes)
        return weft_fail(WEFT_INVALID, "dtype is %d: expected 0 to %d", (int)dtype, WEFT_DTYPE_COUNT - 1);
    size_t size;
    if (__builtin_mul_overflow(count, element_bytes, &size) || size > SIZE_MAX / 2)
        return weft_fail(WEFT_INVALID, "count is %zu elements of %zu bytes: expected at most %zu bytes",
                         count, element_bytes, SIZE_MAX / 2);
    if (count && !data)
        return weft_fail(WEFT_INVALID, "the buffer is NULL, count is %zu", count);
    *bytes = size;
    return WEFT_OK;
}

static inline int check_peer(const struct weft_comm *comm, int peer, int64_t tag, int receives)
{
    int lowest = receives ? -1 : 0; /* both "any" are -1 */
    if (peer < lowest || peer >= comm->ranks)
        return weft_fail(WEFT_INVALID, "%s is %d: expected a rank below %d%s", receives ? "source" : "peer",
                         peer, comm->ranks, receives ? " or WEFT_ANY_SOURCE" : "");
    if (tag < lowest)
        return weft_fail(WEFT_INVALID, "tag is %" PRId64 ": expected 0 or more%s", tag,
                         receives ? ", or WEFT_ANY_TAG" : "");
    return WEFT_OK;
}

/* How a call that sends or receives begins; *bytes is the buffer's length. */
static inline int enter(struct weft_comm *comm, const void *data, size_t count, weft_dtype dtype, int peer,
                        int64_t tag, int receives, size_t *bytes)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = check(comm, data, count, dtype, bytes);
    return status == WEFT_OK ? check_peer(comm, peer, tag, receives) : status;
}

/* Whose memory a message is in or goes to. */
static inline int look_where(struct weft_comm *comm, const void *memory, size_t bytes,
                             struct weft_where *where)
{
    int status = weft_where_look(comm->context, bytes ? memory : NULL, NULL, WEFT_WHERE_COPIES, where);
    if (status == WEFT_OK && where->kind)
        weft_where_prepare(comm->context, where);
    return status;
}

/* The links of lists, and what is posted or copied, are set when the request gets there. */
static void request_make(struct weft_request *request, const void *memory, size_t bytes,
                         const struct weft_where *where, int peer, int64_t tag, int sends)
{
    request->memory = (void *)(uintptr_t)memory;
    request->bytes = bytes;
    request->peer = peer;
    request->tag = tag;
    request->where = *where;
    request->sends = (uint8_t)sends;
    request->space = WEFT_SPACE_USER;
    request->ended = NULL;
    request->status = request->state = request->own = 0;
    request->found_tag = 0;
    request->found_bytes = 0;
    request->id = request->peer_id = 0;
    request->lane = NULL;
    request->local = NULL;
    request->since_ns = 0;
    request->hold = NULL;
}

/* In the order of a scope's stream. [lock] */
static int request_follow(struct weft_request *request, struct weft_stream *stream)
{
    request->mate = NULL;
    request->payload = NULL;
    request->keeping = WEFT_OK;
    request->is_reached = request->is_listed = request->is_untold = 0;
    return weft_hold_take(stream, &request->hold);
}

/* [lock] Starts a request. To the rank itself that may be what another thread sleeps for. */
static inline int begin(struct weft_comm *comm, struct weft_request *request)
{
    int status = request->sends ? weft_p2p_send(comm->p2p, request) : weft_p2p_receive(comm->p2p, request);
    if (weft_p2p_take_news(comm->p2p))
        weft_progress_tell(comm->context);
    return status;
}

/* A blocking call's end: the words of what went wrong. */
static int finish(struct weft_comm *comm, const struct weft_request *request, int status)
{
    if (status == WEFT_OK)
        return WEFT_OK;
    if (request->own)
        return weft_request_fail(comm, request);
    return comm->failed ? weft_comm_report(comm) : status;
}

/* --- started calls */

static void work_ended(struct weft_request *request)
{
    struct weft_work *work = (struct weft_work *)((char *)request - offsetof(struct weft_work, request));
    weft_progress_ended(work->comm->context);
}

static int start(struct weft_comm *comm, const void *memory, size_t bytes, int peer, int64_t tag, int sends,
                 struct weft_work **started)
{
    struct weft_where where;
    struct weft_stream *stream = weft_stream_of(comm);
    if (is_broken(comm))
        return report_broken(comm);
    int status = look_where(comm, memory, bytes, &where);
    if (status != WEFT_OK)
        return status;
    struct weft_work *work = calloc(1, sizeof *work);
    if (!work)
        return weft_fail(WEFT_NOMEM, "no memory for a work handle");
    work->comm = comm;
    work->is_message = 1;
    work->deadline_ns = stream ? WEFT_NEVER_NS : weft_comm_deadline_ns(comm);
    request_make(&work->request, memory, bytes, &where, peer, tag, sends);
    weft_context_lock(comm->context);
    if (stream)
        status = request_follow(&work->request, stream);
    if (status == WEFT_OK)
        status = begin(comm, &work->request);
    if (status == WEFT_OK) {
        if (stream && work->request.status == WEFT_AGAIN)
            weft_request_follow(comm->p2p, &work->request);
        if (work->request.status == WEFT_AGAIN) {
            work->request.ended = work_ended;
            weft_progress_background(comm->context, 1);
        } else {
            weft_progress_flush(comm->context);
        }
        work->status = work->request.status;
        comm->works++;
    } else {
        weft_hold_put(work->request.hold);
        weft_comm_check_any(comm);
    }
    weft_context_unlock(comm->context);
    if (status == WEFT_OK) {
        *started = work;
        return WEFT_OK;
    }
    free(work);
    return comm->failed ? weft_comm_report(comm) : status;
}

/* In a group or scope. In a scope nobody is there to tell what has come. */
static int only_start(struct weft_comm *comm, const void *memory, size_t bytes, int peer, int64_t tag,
                      int sends, weft_message *info)
{
    struct weft_work *work;
    if (info && weft_stream_of(comm))
        return weft_fail(WEFT_INVALID,
                         "info is not NULL in the order of a stream, where the call returns before "
                         "a message has come: expected NULL, or weft_recv_start()");
    int status = start(comm, memory, bytes, peer, tag, sends, &work);
    if (status != WEFT_OK)
        return status;
    work->info = info;
    return weft_call_leave(comm, work);
}

int weft_send_start(weft_comm *comm, const void *data, size_t count, weft_dtype dtype, int peer, int64_t tag,
                    weft_work **work)
{
    size_t bytes = 0;
    int status = enter(comm, data, count, dtype, peer, tag, 0, &bytes);
    if (status != WEFT_OK)
        return status;
    return work ? start(comm, data, bytes, peer, tag, 1, work) : weft_fail(WEFT_INVALID, "work is NULL");
}

int weft_recv_start(weft_comm *comm, void *data, size_t count, weft_dtype dtype, int source, int64_t tag,
                    weft_work **work)
{
    size_t bytes = 0;
    int status = enter(comm, data, count, dtype, source, tag, 1, &bytes);
    if (status != WEFT_OK)
        return status;
    return work ? start(comm, data, bytes, source, tag, 0, work) : weft_fail(WEFT_INVALID, "work is NULL");
}

/* --- blocking calls */

/* [lock] */
static int send_slowly(struct weft_comm *comm, const void *data, size_t bytes, const struct weft_where *where,
                       int peer, int64_t tag, struct weft_request *request)
{
    request_make(request, data, bytes, where, peer, tag, 1);
    int status = begin(comm, request);
    if (status == WEFT_OK)
        return weft_request_drive(comm, request, 0, 1);
    weft_comm_check_any(comm);
    return status;
}

static inline int send_now(struct weft_comm *comm, const void *data, size_t bytes, int peer, int64_t tag)
{
    if (is_broken(comm))
        return report_broken(comm);
    struct weft_request request;
    struct weft_where where;
    int status = look_where(comm, data, bytes, &where);
    if (status != WEFT_OK)
        return status;
    request.own = 0;
    weft_context_lock(comm->context);
    status = where.kind ? WEFT_AGAIN : weft_p2p_send_now(comm->p2p, peer, tag, WEFT_SPACE_USER, data, bytes);
    if (status == WEFT_OK)
        weft_progress_flush(comm->context);
    else
        status = send_slowly(comm, data, bytes, &where, peer, tag, &request);
    weft_context_unlock(comm->context);
    return finish(comm, &request, status);
}

int weft_send(weft_comm *comm, const void *data, size_t count, weft_dtype dtype, int peer, int64_t tag)
{
    size_t bytes = 0;
    int status = enter(comm, data, count, dtype, peer, tag, 0, &bytes);
    if (status != WEFT_OK)
        return status;
    if (weft_call_starts(comm))
        return only_start(comm, data, bytes, peer, tag, 1, NULL);
    return send_now(comm, data, bytes, peer, tag);
}

static inline int recv_now(struct weft_comm *comm, void *data, size_t bytes, int source, int64_t tag,
                           struct weft_request *request)
{
    if (is_broken(comm))
        return report_broken(comm);
    struct weft_where where;
    int status = look_where(comm, data, bytes, &where);
    if (status != WEFT_OK)
        return status;
    request_make(request, data, bytes, &where, source, tag, 0);
    weft_context_lock(comm->context);
    status = begin(comm, request);
    if (status == WEFT_OK)
        status = weft_request_drive(comm, request, 0, 1);
    else
        weft_comm_check_any(comm);
    weft_context_unlock(comm->context);
    return finish(comm, request, status);
}

int weft_recv(weft_comm *comm, void *data, size_t count, weft_dtype dtype, int source, int64_t tag,
              weft_message *info)
{
    size_t bytes = 0;
    int status = enter(comm, data, count, dtype, source, tag, 1, &bytes);
    if (status == WEFT_OK)
        status = weft_message_check(info);
    if (status != WEFT_OK)
        return status;
    if (weft_call_starts(comm))
        return only_start(comm, data, bytes, source, tag, 0, info);
    struct weft_request request;
    status = recv_now(comm, data, bytes, source, tag, &request);
    if (status == WEFT_OK && info)
        weft_message_tell(&request, info);
    return status;
}

/* Both have been started when this is called, and both have ended when it returns. [lock] */
static int drive_both(struct weft_comm *comm, struct weft_request *send, struct weft_request *recv)
{
    int64_t deadline_ns = weft_comm_deadline_ns(comm);
    int status = weft_request_drive(comm, send, deadline_ns, 1);
    if (status != WEFT_OK && weft_p2p_withdraw(comm->p2p, recv, WEFT_CANCELLED) == WEFT_OK)
        return status;
    int received = weft_request_drive(comm, recv, deadline_ns, 1);
    return status != WEFT_OK ? status : received;
}

int weft_sendrecv(weft_comm *comm, const void *send, size_t send_count, int dest, int64_t send_tag,
                  void *recv, size_t recv_count, int source, int64_t recv_tag, weft_dtype dtype,
                  weft_message *info)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    size_t sent = 0, room = 0;
    int status = check(comm, send, send_count, dtype, &sent);
    if (status == WEFT_OK)
        status = check(comm, recv, recv_count, dtype, &room);
    if (status == WEFT_OK)
        status = check_peer(comm, dest, send_tag, 0);
    if (status == WEFT_OK)
        status = check_peer(comm, source, recv_tag, 1);
    if (status == WEFT_OK)
        status = weft_message_check(info);
    if (status != WEFT_OK)
        return status;
    if (weft_call_starts(comm)) {
        weft_group_depth++; /* in a stream they begin together */
        status = only_start(comm, recv, room, source, recv_tag, 0, info);
        if (status == WEFT_OK)
            status = only_start(comm, send, sent, dest, send_tag, 1, NULL);
        weft_group_depth--;
        int placed = weft_group_is_open() ? WEFT_OK : weft_group_place_holds();
        return status == WEFT_OK ? placed : status;
    }
    if (is_broken(comm))
        return report_broken(comm);
    struct weft_request receive, request, *culprit = &receive;
    struct weft_where from, to;
    status = look_where(comm, send, sent, &from);
    if (status == WEFT_OK)
        status = look_where(comm, recv, room, &to);
    if (status != WEFT_OK)
        return status;
    request_make(&receive, recv, room, &to, source, recv_tag, 0);
    request_make(&request, send, sent, &from, dest, send_tag, 1);
    weft_context_lock(comm->context);
    status = begin(comm, &receive);
    if (status == WEFT_OK) {
        status = begin(comm, &request);
        if (status == WEFT_OK)
            status = drive_both(comm, &request, &receive);
        else if (weft_p2p_withdraw(comm->p2p, &receive, WEFT_CANCELLED) != WEFT_OK)
            weft_request_drive(comm, &receive, 0, 1);
    }
    if (status != WEFT_OK)
        weft_comm_check_any(comm);
    weft_context_unlock(comm->context);
    if (status == WEFT_OK && info)
        weft_message_tell(&receive, info);
    if (request.status != WEFT_OK || request.state != WEFT_REQUEST_ENDED)
        culprit = &request;
    return finish(comm, culprit, status);
}

struct look {
    struct weft_comm *comm;
    int32_t source, found;
    int64_t tag, found_tag;
    uint64_t bytes;
};

static int nothing_there(void *arg)
{
    struct look *look = arg;
    return weft_p2p_look(look->comm->p2p, look->source, look->tag, WEFT_SPACE_USER, &look->found,
                         &look->found_tag, &look->bytes) == WEFT_AGAIN;
}

/* limit_ms is -1 where nobody has waited. */
static int no_message(const struct look *look, int64_t limit_ms)
{
    char whom[96];
    weft_p2p_print_whom(look->source, look->tag, WEFT_SPACE_USER, whom, sizeof whom);
    if (limit_ms < 0)
        return weft_fail(WEFT_AGAIN, "there is no message from %s", whom);
    return weft_fail(WEFT_TIMEOUT, "no message from %s has come within %" PRId64 " ms", whom, limit_ms);
}

/* [lock] */
static int await_message(struct weft_comm *comm, struct look *look, int64_t timeout_ms)
{
    struct weft_context *context = comm->context;
    int64_t limit_ms = timeout_ms < 0 ? comm->timeout_ms : timeout_ms;
    int64_t deadline_ns = timeout_ms == 0 ? 0 : weft_deadline_ns(limit_ms);
    struct weft_idle idle = {0};
    while (nothing_there(look)) {
        int moved = weft_progress_once(context);
        if (!nothing_there(look))
            break;
        if (weft_comm_is_lost(comm) && weft_comm_check_any(comm) != WEFT_OK)
            return comm->failed;
        if (timeout_ms == 0)
            return no_message(look, -1);
        weft_progress_step_aside(context);
        if (moved)
            idle = (struct weft_idle){0};
        else if (!weft_idle_pause(context, &idle))
            continue;
        if (weft_clock_ns() >= deadline_ns)
            return no_message(look, limit_ms);
        if (!moved)
            weft_progress_sleep(context, &idle, deadline_ns, nothing_there, look);
    }
    return WEFT_OK;
}

int weft_probe(weft_comm *comm, int source, int64_t tag, int64_t timeout_ms, weft_message *info)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    int status = check_peer(comm, source, tag, 1);
    if (status == WEFT_OK)
        status = weft_message_check(info);
    if (status != WEFT_OK)
        return status;
    if (is_broken(comm))
        return report_broken(comm);
    struct look look = {.comm = comm, .source = source, .tag = tag};
    weft_context_lock(comm->context);
    status = await_message(comm, &look, timeout_ms);
    weft_context_unlock(comm->context);
    if (status == WEFT_OK && info)
        tell(info, look.found, look.found_tag, look.bytes);
    return status != WEFT_OK && comm->failed ? weft_comm_report(comm) : status;
}
