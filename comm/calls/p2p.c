/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of point-to-point messages. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/calls/how.h"
#include "comm/drive/progress.h"

/* What a call sends or receives. */
struct end {
    const void *memory; /* not written by a send */
    size_t bytes;
    int peer, sends;
    int64_t tag;
};

/* --- arguments */

static int is_broken(const struct weft_comm *comm)
{
    return comm->failure.status || weft_bootstrap_has_failed(comm->bootstrap);
}

static int report_broken(struct weft_comm *comm)
{
    weft_context_lock(comm->context);
    weft_comm_check(comm);
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

static inline int check_peer(struct weft_comm *comm, int peer, int64_t tag, int receives)
{
    int lowest = receives ? -1 : 0; /* both "any" are -1 */
    if (peer < lowest || peer >= comm->ranks)
        return weft_fail(WEFT_INVALID, "%s is %d: expected a rank below %d%s", receives ? "source" : "peer",
                         peer, comm->ranks, receives ? " or WEFT_ANY_SOURCE" : "");
    if (tag < lowest)
        return weft_fail(WEFT_INVALID, "tag is %" PRId64 ": expected 0 or more%s", tag,
                         receives ? ", or WEFT_ANY_TAG" : "");
    if (!receives && weft_bootstrap_gone(comm->bootstrap) && weft_comm_has_left(comm, (uint32_t)peer))
        return WEFT_PEER_FAILED;
    return WEFT_OK;
}

/* What its options say; there is nothing to choose. */
static inline int read_how(const weft_call_options *options, struct weft_how *how)
{
    int status = weft_how_read(options, how);
    if (status == WEFT_OK && how->algorithm)
        return weft_fail(WEFT_UNSUPPORTED, "algorithm is '%s': expected NULL, as a message has none",
                         weft_algorithm_name(how->algorithm));
    return status;
}

/* How a call that sends or receives begins; *bytes is the buffer's length. */
static inline int enter(struct weft_comm *comm, const void *data, size_t count, weft_dtype dtype, int peer,
                        int64_t tag, int receives, const weft_call_options *options, size_t *bytes,
                        struct weft_how *how)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = check(comm, data, count, dtype, bytes);
    if (status == WEFT_OK)
        status = check_peer(comm, peer, tag, receives);
    return status == WEFT_OK ? read_how(options, how) : status;
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
static inline void request_make(struct weft_request *request, const struct end *end,
                                const struct weft_where *where, const struct weft_how *how)
{
    request->memory = (void *)(uintptr_t)end->memory;
    request->bytes = end->bytes;
    request->peer = end->peer;
    request->tag = end->tag;
    request->where = *where;
    request->sends = (uint8_t)end->sends;
    request->space = WEFT_SPACE_USER;
    request->ended = NULL;
    request->status = request->state = request->own = 0;
    request->found_tag = 0;
    request->found_bytes = 0;
    request->id = request->peer_id = 0;
    request->commands = NULL;
    request->local = NULL;
    request->since_ns = 0;
    request->stream_wait = NULL;
    request->label = how->label;
    request->timeout_ms = how->timeout_ms;
    request->is_second = request->is_unannounced = 0;
}

/* Stream-ordered. [lock] */
static int request_follow(struct weft_request *request, struct weft_stream *stream)
{
    request->mate = NULL;
    request->payload = NULL;
    request->keeping = WEFT_OK;
    request->is_reached = request->is_listed = 0;
    return weft_stream_wait_take(stream, &request->stream_wait);
}

/* [lock] Starts a request. To the rank itself that may be what another thread sleeps for. */
static inline int begin(struct weft_comm *comm, struct weft_request *request)
{
    int status = request->sends ? weft_p2p_send(comm->p2p, request) : weft_p2p_receive(comm->p2p, request);
    if (weft_p2p_take_news(comm->p2p))
        weft_progress_notify(comm->context);
    return status;
}

/* A blocking call's end: the words of what went wrong. */
static int finish(struct weft_comm *comm, const struct weft_request *request, int status)
{
    if (status == WEFT_OK)
        return WEFT_OK;
    if (request->own)
        return weft_request_fail(comm, request);
    return comm->failure.status ? weft_comm_report(comm) : status;
}

/* --- started calls */

/* Begins one request of a work. [lock] */
static int begin_one(struct weft_comm *comm, struct weft_request *request, struct weft_stream *stream)
{
    int status = stream ? request_follow(request, stream) : WEFT_OK;
    if (status == WEFT_OK)
        status = begin(comm, request);
    if (status != WEFT_OK) {
        weft_stream_wait_put(request->stream_wait);
        return status;
    }
    if (stream && request->status == WEFT_AGAIN)
        weft_request_follow(comm->p2p, request);
    if (request->status == WEFT_AGAIN)
        request->ended = weft_work_message_ended;
    return WEFT_OK;
}

/* Makes the work of one message, or of a send beside a receive. [lock] */
static int make_work(struct weft_comm *comm, const struct end *ends, int count,
                     const struct weft_where *where, const struct weft_how *how, struct weft_work **made)
{
    struct weft_work *work;
    int status = weft_how_work(comm, how, &work);
    if (status != WEFT_OK)
        return status;
    struct weft_how kept = *how; /* with a label that stays */
    kept.label = work->label[0] ? work->label : NULL;
    work->is_message = 1;
    request_make(&work->request, &ends[0], &where[0], &kept);
    if (count > 1) {
        work->sent = calloc(1, sizeof *work->sent);
        if (!work->sent) {
            weft_work_discard(work);
            return weft_fail(WEFT_NOMEM, "no memory for a work handle");
        }
        request_make(&work->sent->request, &ends[1], &where[1], &kept);
        work->sent->work = work;
        work->sent->request.is_second = 1;
        work->sent->request.status = WEFT_AGAIN; /* the work has not ended before it has begun */
    }
    if (how->stream)
        work->deadline_ns = WEFT_NEVER_NS;
    *made = work;
    return WEFT_OK;
}

/* The receive has begun, the send beside it could not. Where it has a message already it goes on, and nobody hears of it. Returns whether
 * the work is still the caller's. [lock] */
static int take_back(struct weft_work *work, int status)
{
    struct weft_comm *comm = work->comm;
    work->sent->request.status = status;
    if (work->request.status != WEFT_AGAIN ||
        weft_p2p_withdraw(comm->p2p, &work->request, WEFT_CANCELLED) == WEFT_OK)
        return 1;
    work->dropped = 1;
    comm->dropped++;
    weft_progress_background(comm->context, 1);
    return 0;
}

/* [lock] */
static int begin_work(struct weft_work *work, struct weft_stream *stream, int *is_ours)
{
    struct weft_comm *comm = work->comm;
    int status = begin_one(comm, &work->request, stream);
    if (status == WEFT_OK && work->sent) {
        status = begin_one(comm, &work->sent->request, stream);
        *is_ours = status == WEFT_OK || take_back(work, status);
    }
    if (status != WEFT_OK) {
        weft_comm_check(comm);
        return status;
    }
    comm->works++;
    status = weft_work_message_status(work);
    atomic_store_explicit(&work->status, status, memory_order_release);
    if (status != WEFT_AGAIN) {
        weft_progress_flush(comm->context);
        return WEFT_OK;
    }
    weft_progress_background(comm->context, 1);
    if (work->signals)
        weft_work_watch(work);
    return WEFT_OK;
}

/* A send and a receive in a stream begin together, as calls of a group do. */
static int start_work(struct weft_comm *comm, const struct end *ends, int count,
                      const struct weft_where *where, weft_message *info, const struct weft_how *how)
{
    struct weft_work *work = NULL;
    int is_ours = 1, together = count > 1;
    weft_context_lock(comm->context);
    int status = make_work(comm, ends, count, where, how, &work);
    if (status == WEFT_OK) {
        work->info = info;
        weft_group_depth += together;
        status = begin_work(work, how->stream, &is_ours);
        weft_group_depth -= together;
    }
    weft_context_unlock(comm->context);
    if (status != WEFT_OK && work && is_ours)
        weft_work_discard(work);
    if (status == WEFT_OK)
        status = weft_how_leave(how, work);
    int placed = together && !weft_group_is_open() ? weft_group_place_waits() : WEFT_OK;
    return status == WEFT_OK ? placed : comm->failure.status ? weft_comm_report(comm) : status;
}

/* ends: a message, or a receive and a send. */
static int start(struct weft_comm *comm, const struct end *ends, int count, weft_message *info,
                 struct weft_how *how)
{
    struct weft_where where[2];
    int status = WEFT_OK;
    if (is_broken(comm))
        return report_broken(comm);
    for (int i = 0; i < count && status == WEFT_OK; i++)
        status = look_where(comm, ends[i].memory, ends[i].bytes, &where[i]);
    if (status == WEFT_OK)
        status = weft_how_follow(comm, &where[count > 1 && !where[0].kind], how);
    if (status == WEFT_OK && info && how->stream && !how->work)
        status =
            weft_fail(WEFT_INVALID, "info is not NULL in a stream-ordered call, which returns "
                                    "before a message has come: expected NULL, or a work in the options");
    if (status == WEFT_OK)
        status = start_work(comm, ends, count, where, info, how);
    weft_how_end(how);
    return status;
}

/* --- blocking calls */

/* [lock] */
static int send_slowly(struct weft_comm *comm, const struct end *end, const struct weft_where *where,
                       const struct weft_how *how, struct weft_request *request)
{
    request_make(request, end, where, how);
    int status = begin(comm, request);
    if (status == WEFT_OK)
        return weft_request_drive(comm, request, 0, 1);
    weft_comm_check(comm);
    return status;
}

static inline int send_now(struct weft_comm *comm, const struct end *end, const struct weft_how *how)
{
    if (is_broken(comm))
        return report_broken(comm);
    struct weft_request request;
    struct weft_where where;
    int status = look_where(comm, end->memory, end->bytes, &where);
    if (status != WEFT_OK)
        return status;
    request.own = 0;
    weft_context_lock(comm->context);
    status = where.kind ? WEFT_AGAIN
                        : weft_p2p_send_now(comm->p2p, end->peer, end->tag, WEFT_SPACE_USER, end->memory,
                                            end->bytes);
    if (status == WEFT_OK)
        weft_progress_flush(comm->context);
    else
        status = send_slowly(comm, end, &where, how, &request);
    weft_context_unlock(comm->context);
    return finish(comm, &request, status);
}

int weft_send(weft_comm *comm, const void *data, size_t count, weft_dtype dtype, int peer, int64_t tag,
              const weft_call_options *options)
{
    struct end end = {.memory = data, .peer = peer, .sends = 1, .tag = tag};
    struct weft_how how;
    int status = enter(comm, data, count, dtype, peer, tag, 0, options, &end.bytes, &how);
    if (status != WEFT_OK)
        return status;
    return how.starts ? start(comm, &end, 1, NULL, &how) : send_now(comm, &end, &how);
}

static inline int recv_now(struct weft_comm *comm, const struct end *end, const struct weft_how *how,
                           struct weft_request *request)
{
    if (is_broken(comm))
        return report_broken(comm);
    struct weft_where where;
    int status = look_where(comm, end->memory, end->bytes, &where);
    if (status != WEFT_OK)
        return status;
    request_make(request, end, &where, how);
    weft_context_lock(comm->context);
    status = begin(comm, request);
    if (status == WEFT_OK)
        status = weft_request_drive(comm, request, 0, 1);
    else
        weft_comm_check(comm);
    weft_context_unlock(comm->context);
    return finish(comm, request, status);
}

int weft_recv(weft_comm *comm, void *data, size_t count, weft_dtype dtype, int source, int64_t tag,
              weft_message *info, const weft_call_options *options)
{
    struct end end = {.memory = data, .peer = source, .tag = tag};
    struct weft_how how;
    struct weft_request request;
    int status = enter(comm, data, count, dtype, source, tag, 1, options, &end.bytes, &how);
    if (status == WEFT_OK)
        status = weft_message_check(info);
    if (status != WEFT_OK)
        return status;
    if (how.starts)
        return start(comm, &end, 1, info, &how);
    status = recv_now(comm, &end, &how, &request);
    if (status == WEFT_OK && info)
        weft_message_of(&request, info);
    return status;
}

/* Both have been started when this is called, and both have ended when it returns. [lock] */
static int drive_both(struct weft_comm *comm, struct weft_request *send, struct weft_request *recv)
{
    int64_t deadline_ns = weft_comm_deadline_of(comm, send->timeout_ms);
    int status = weft_request_drive(comm, send, deadline_ns, 1);
    if (status != WEFT_OK && weft_p2p_withdraw(comm->p2p, recv, WEFT_CANCELLED) == WEFT_OK)
        return status;
    int received = weft_request_drive(comm, recv, deadline_ns, 1);
    return status != WEFT_OK ? status : received;
}

static int exchange_now(struct weft_comm *comm, const struct end ends[2], weft_message *info,
                        const struct weft_how *how)
{
    if (is_broken(comm))
        return report_broken(comm);
    struct weft_request receive, request, *culprit = &receive;
    struct weft_where from, to;
    int status = look_where(comm, ends[1].memory, ends[1].bytes, &from);
    if (status == WEFT_OK)
        status = look_where(comm, ends[0].memory, ends[0].bytes, &to);
    if (status != WEFT_OK)
        return status;
    request_make(&receive, &ends[0], &to, how);
    request_make(&request, &ends[1], &from, how);
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
        weft_comm_check(comm);
    weft_context_unlock(comm->context);
    if (status == WEFT_OK && info)
        weft_message_of(&receive, info);
    if (request.status != WEFT_OK || request.state != WEFT_REQUEST_ENDED)
        culprit = &request;
    return finish(comm, culprit, status);
}

int weft_sendrecv(weft_comm *comm, const void *send, size_t send_count, int dest, int64_t send_tag,
                  void *recv, size_t recv_count, int source, int64_t recv_tag, weft_dtype dtype,
                  weft_message *info, const weft_call_options *options)
{
    struct end ends[2] = {{.memory = recv, .peer = source, .tag = recv_tag},
                          {.memory = send, .peer = dest, .sends = 1, .tag = send_tag}};
    struct weft_how how;
    int status = enter(comm, send, send_count, dtype, dest, send_tag, 0, options, &ends[1].bytes, &how);
    if (status == WEFT_OK)
        status = check(comm, recv, recv_count, dtype, &ends[0].bytes);
    if (status == WEFT_OK)
        status = check_peer(comm, source, recv_tag, 1);
    if (status == WEFT_OK)
        status = weft_message_check(info);
    if (status != WEFT_OK)
        return status;
    return how.starts ? start(comm, ends, 2, info, &how) : exchange_now(comm, ends, info, &how);
}

struct look {
    struct weft_comm *comm;
    int32_t source, found;
    int64_t tag, found_tag;
    uint64_t bytes;
};

static int is_there(void *arg)
{
    struct look *look = arg;
    return weft_p2p_look(look->comm->p2p, look->source, look->tag, WEFT_SPACE_USER, &look->found,
                         &look->found_tag, &look->bytes) != WEFT_AGAIN;
}

/* It is, or it will not come any more. */
static int is_over(void *arg)
{
    const struct look *look = arg;
    return is_there(arg) || weft_comm_is_out_of_reach(look->comm, look->source);
}

static int no_message(const struct look *look, int64_t timeout_ms)
{
    char whom[96];
    weft_p2p_print_whom(look->source, look->tag, WEFT_SPACE_USER, whom, sizeof whom);
    if (timeout_ms == 0)
        return weft_fail(WEFT_AGAIN, "there is no message from %s", whom);
    return weft_fail(WEFT_TIMEOUT, "no message from %s has come within %" PRId64 " ms", whom, timeout_ms);
}

/* [lock] */
static int await_message(struct weft_comm *comm, struct look *look, int64_t timeout_ms)
{
    if (timeout_ms != 0) {
        int status = weft_comm_wait(comm, is_over, weft_wait_ends, look, weft_deadline_ns(timeout_ms), 0);
        if (status == WEFT_OK && !is_there(look)) {
            if (look->source < 0 || !weft_comm_has_left(comm, (uint32_t)look->source))
                weft_fail(WEFT_PEER_FAILED, "all other ranks have left");
            return WEFT_PEER_FAILED;
        }
        return status == WEFT_TIMEOUT && !comm->failure.status ? no_message(look, timeout_ms) : status;
    }
    if (!is_there(look))
        weft_progress_once(comm->context);
    if (is_there(look))
        return WEFT_OK;
    int failed = weft_comm_check(comm);
    return failed != WEFT_OK ? failed : no_message(look, 0);
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
        weft_message_set(info, look.found, look.found_tag, look.bytes);
    return status != WEFT_OK && comm->failure.status ? weft_comm_report(comm) : status;
}
