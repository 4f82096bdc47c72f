/* SPDX-License-Identifier: Apache-2.0 */
/* A message until it has ended: waiting for it, its deadline, and the words of how it ended. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/struct.h"
#include "comm/core/work.h"
#include "comm/drive/progress.h"

static const struct weft_struct message_struct = WEFT_STRUCT(weft_message, WEFT_MESSAGE_INIT, bytes);

int weft_message_check(const weft_message *message)
{
    return message ? weft_struct_check(&message_struct, message) : WEFT_OK;
}

void weft_message_set(weft_message *message, int source, int64_t tag, uint64_t bytes)
{
    const weft_message now = {.source = source, .tag = tag, .bytes = bytes};
    weft_struct_fill(&message_struct, message, 0, &now);
}

void weft_message_of(const struct weft_request *request, weft_message *message)
{
    weft_message_set(message, request->found, request->found_tag, request->found_bytes);
}

/* [lock] A message that lies here may be what the other end does instead: it was sent with another tag, or before its sender receives. */
static void note_other(const struct weft_comm *comm, struct weft_request *request)
{
    request->is_unmet = request->state == WEFT_REQUEST_POSTED || request->state == WEFT_REQUEST_ANNOUNCED ||
                        request->state == WEFT_REQUEST_LOCAL;
    request->other = -1;
    weft_p2p_look(comm->p2p, request->peer, WEFT_MATCH_ANY, request->space, &request->other,
                  &request->other_tag, &request->other_bytes);
}

/* After note_other(). */
static int gave_up(const struct weft_comm *comm, const struct weft_request *request, const char *what)
{
    char other[120] = "";
    const char *lacks = !request->is_unmet ? "no end of"
                        : request->sends   ? "no receive for"
                                           : "no message for";
    if (request->is_unmet && request->other >= 0)
        snprintf(other, sizeof other, "; %" PRIu64 " bytes from rank %d, tag %" PRId64 ", wait here for %s",
                 request->other_bytes, request->other, request->other_tag,
                 request->sends ? "a receive" : "another receive");
    return weft_fail(WEFT_TIMEOUT, "rank %d gave up after %" PRId64 " ms: %s the %s%s", comm->rank,
                     weft_comm_timeout_of(comm, request->timeout_ms), lacks, what, other);
}

/* It was for a rank that has left. A receive from any rank was for all of them. */
static int fail_with_gone(const struct weft_comm *comm, const struct weft_request *request, const char *what)
{
    char text[300];
    int32_t rank = request->sends || request->found < 0 ? request->peer : request->found;
    if (rank < 0 || !weft_bootstrap_is_gone(comm->bootstrap, rank, text, sizeof text))
        snprintf(text, sizeof text, "all other ranks have left");
    return weft_fail(WEFT_PEER_FAILED, "%s: %s", what, text);
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
        return gave_up(comm, request, what);
    if (request->status == WEFT_PEER_FAILED)
        return fail_with_gone(comm, request, what);
    return weft_fail(request->status, "the %s was cancelled", what);
}

/* The communicator ends with the request. */
static int give_up(struct weft_comm *comm, const struct weft_request *request)
{
    char what[200];
    weft_request_print(request, what, sizeof what);
    gave_up(comm, request, what);
    weft_log(WEFT_LOG_WARN, "%s", weft_error_detail());
    return weft_comm_fail_here(comm, WEFT_TIMEOUT);
}

/* The deadline has passed. */
static int be_late(struct weft_comm *comm, struct weft_request *request)
{
    note_other(comm, request);
    if (weft_p2p_withdraw(comm->p2p, request, WEFT_TIMEOUT) == WEFT_OK)
        return WEFT_TIMEOUT;
    return give_up(comm, request);
}

struct waiting_request {
    struct weft_comm *comm;
    struct weft_request *request;
    int64_t since_ns; /* weft_stall_look_message()'s */
};

static int has_ended(void *arg)
{
    return ((const struct waiting_request *)arg)->request->status != WEFT_AGAIN;
}

static int ends_late(void *arg, int64_t *deadline_ns)
{
    const struct waiting_request *waiting = arg;
    (void)deadline_ns;
    return be_late(waiting->comm, waiting->request);
}

static int64_t look_at_message(void *arg, int64_t now_ns)
{
    struct waiting_request *waiting = arg;
    if (!waiting->request->since_ns)
        waiting->request->since_ns =
            now_ns; /* those that nobody waits for are dated when they are first shown */
    return weft_stall_look_message(waiting->comm, &waiting->since_ns, now_ns);
}

int weft_request_drive(struct weft_comm *comm, struct weft_request *request, int64_t deadline_ns, int ends)
{
    struct waiting_request waiting = {comm, request, 0};
    const struct weft_wait wait = {.driven = &comm->driven,
                                   .done = has_ended,
                                   .late = ends ? ends_late : weft_wait_ends,
                                   .look = look_at_message,
                                   .arg = &waiting,
                                   .deadline_ns = deadline_ns,
                                   .timeout_ms = weft_comm_timeout_of(comm, request->timeout_ms)};
    int status = weft_wait(comm->context, &wait);
    if (request->status == WEFT_AGAIN)
        return weft_fail(status, "the operation is still running");
    if (request->status == WEFT_OK)
        weft_progress_flush(comm->context);
    else if (!request->own)
        weft_comm_check(comm);
    return request->status;
}

void weft_request_expire(struct weft_comm *comm, struct weft_request *request)
{
    if (request->is_unannounced) {
        note_other(comm, request);
        give_up(comm, request);
    } else {
        be_late(comm, request);
    }
}
