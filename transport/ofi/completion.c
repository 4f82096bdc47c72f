/* SPDX-License-Identifier: Apache-2.0 */
/* Completions, events and sleeping.
 *
 * Completions never call the caller back: they queue events, which are part of the buffer, put, receive buffer or
 * link that they are about. Only poll() reports them. So progress can be made anywhere (while withdrawing a
 * receive buffer, while closing) without running the caller's code there.
 */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

#define CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

void ofi_event_push(struct weft_transport *transport, struct ofi_event *event, enum weft_event_kind kind,
                    int status)
{
    event->next = NULL;
    event->kind = kind;
    event->status = status;
    event->withdrawn = 0;
    *transport->events_last = event;
    transport->events_last = &event->next;
}

static void message_report(struct weft_transport *transport, struct ofi_buffer *buffer,
                           weft_event_handler *handler, void *arg)
{
    const uint8_t *frame = buffer->memory + transport->prefix;
    struct weft_event event = {
        .kind = WEFT_EVENT_MESSAGE,
        .data = frame + sizeof(struct ofi_frame),
        .data_size = buffer->size - sizeof(struct ofi_frame),
        .sender = buffer->op.link,
    };
    handler(arg, &event);
    ofi_message_consume(buffer->op.link, buffer);
}

/* Returns 1 when the caller heard something. */
static int event_report(struct weft_transport *transport, struct ofi_event *queued,
                        weft_event_handler *handler, void *arg)
{
    struct weft_event event = {.kind = queued->kind, .status = queued->status};
    int withdrawn = queued->withdrawn;
    if (queued->kind == WEFT_EVENT_MESSAGE) {
        message_report(transport, CONTAINER(queued, struct ofi_buffer, event), handler, arg);
        return 1;
    }
    if (queued->kind == WEFT_EVENT_PUT_DONE) {
        struct ofi_put *put = CONTAINER(queued, struct ofi_put, event);
        event.cookie = put->cookie;
        ofi_put_reported(transport, put);
    } else if (queued->kind == WEFT_EVENT_FILLED) {
        struct ofi_rbuf *rbuf = CONTAINER(queued, struct ofi_rbuf, event);
        event.cookie = rbuf->cookie;
        ofi_rbuf_reported(transport, rbuf);
    } else {
        struct weft_link *link = CONTAINER(queued, struct weft_link, event);
        withdrawn |= link->references == 0;
        event.link_context = link->context;
        weft_fail(link->status, "%s", link->why);
    }
    if (!withdrawn)
        handler(arg, &event);
    return !withdrawn;
}

static int events_report(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int reported = 0;
    while (reported < budget && transport->events) {
        struct ofi_event *event = transport->events;
        transport->events = event->next;
        if (!transport->events)
            transport->events_last = &transport->events;
        reported += event_report(transport, event, handler, arg);
    }
    return reported;
}

static void complete(struct weft_transport *transport, const struct fi_cq_data_entry *entry)
{
    struct ofi_op *op = entry->op_context;
    if (entry->flags & FI_REMOTE_CQ_DATA) {
        ofi_rbuf_arrived(transport, entry->data);
        if (transport->data_buffers && op)
            ofi_buffer_repost(transport, CONTAINER(op, struct ofi_buffer, op));
        return;
    }
    if (!op)
        return;
    struct ofi_buffer *buffer;
    size_t size = entry->len > transport->prefix ? entry->len - transport->prefix : 0;
    switch (op->kind) {
    case OFI_OP_RECV:
        buffer = CONTAINER(op, struct ofi_buffer, op);
        buffer->size = (uint32_t)size;
        ofi_frame_receive(transport, buffer);
        break;
    case OFI_OP_SEND:
        buffer = CONTAINER(op, struct ofi_buffer, op);
        if (buffer->control)
            ofi_link_greeted(op->link);
        ofi_link_ended(op->link);
        ofi_send_return(transport, buffer);
        break;
    case OFI_OP_PUT:
        ofi_put_completed(transport, CONTAINER(op, struct ofi_put, op), WEFT_OK);
        break;
    case OFI_OP_RBUF:
        ofi_rbuf_completed(transport, CONTAINER(op, struct ofi_rbuf, op), WEFT_OK, size);
        break;
    }
}

void ofi_break(struct weft_transport *transport, const char *why)
{
    if (transport->broken)
        return;
    transport->broken = 1;
    snprintf(transport->why, sizeof transport->why, "%s", why);
    weft_log(WEFT_LOG_ERROR, "%s", transport->why);
    ofi_rbufs_close(transport);
    ofi_endpoint_stop(transport);
    while (transport->active_puts)
        ofi_put_completed(transport, transport->active_puts, WEFT_TRANSPORT);
    for (uint32_t i = 0; i < transport->rbufs_count; i++)
        transport->rbufs[i]->posted = 0;
    for (uint32_t i = 0; i < transport->links_count; i++)
        ofi_link_fail(transport->links[i], WEFT_TRANSPORT, "%s", why);
}

static void break_after(struct weft_transport *transport, const char *what, int error)
{
    char why[160];
    snprintf(why, sizeof why, "ofi: %s of provider %s: %s", what, transport->info->fabric_attr->prov_name,
             transport->library->strerror(error));
    ofi_break(transport, why);
}

/* The operation failed: its buffer comes back, and whoever depends on it is informed. */
static void complete_failed(struct weft_transport *transport, const struct fi_cq_err_entry *error)
{
    struct ofi_op *op = error->op_context;
    char text[128] = "";
    const char *reason = fi_cq_strerror(transport->cq, error->prov_errno, error->err_data, text, sizeof text);
    if (!reason || !*reason)
        reason = text;
    const char *kind = transport->library->strerror(error->err);
    weft_log(WEFT_LOG_DEBUG, "ofi: failed completion: %s (%s)", kind, reason);
    int control;
    if (!op)
        return;
    switch (op->kind) {
    case OFI_OP_RECV:
        transport->stale_frames++;
        if (error->err != FI_ECANCELED)
            ofi_buffer_repost(transport, CONTAINER(op, struct ofi_buffer, op));
        break;
    case OFI_OP_SEND:
        ofi_link_ended(op->link);
        control = CONTAINER(op, struct ofi_buffer, op)->control;
        ofi_send_return(transport, CONTAINER(op, struct ofi_buffer, op));
        if (control && (op->link->wary || ofi_hello_again(op->link)))
            break; /* it is said again, if need be */
        op->link->lost = 1;
        ofi_link_fail(op->link, op->link->state == OFI_LINK_UP ? WEFT_PEER_FAILED : WEFT_TRANSPORT,
                      "ofi: the peer cannot be reached: %s (%s)", kind, reason);
        break;
    case OFI_OP_PUT:
        ofi_put_completed(transport, CONTAINER(op, struct ofi_put, op), WEFT_TRANSPORT);
        op->link->lost = 1;
        ofi_link_fail(op->link, WEFT_PEER_FAILED, "ofi: a put failed: %s (%s)", kind, reason);
        break;
    case OFI_OP_RBUF:
        ofi_rbuf_completed(transport, CONTAINER(op, struct ofi_rbuf, op),
                           error->err == FI_ECANCELED ? WEFT_CANCELLED : WEFT_TRANSPORT, 0);
        break;
    }
}

static void read_error(struct weft_transport *transport)
{
    struct fi_cq_err_entry error;
    memset(&error, 0, sizeof error);
    ssize_t count = fi_cq_readerr(transport->cq, &error, 0);
    if (count > 0)
        complete_failed(transport, &error);
    else if (count != -FI_EAGAIN)
        break_after(transport, "reading an error", (int)-count);
}

int ofi_progress(struct weft_transport *transport, int limit)
{
    struct fi_cq_data_entry entries[OFI_BATCH];
    if (transport->broken)
        return 0;
    size_t most = limit < OFI_BATCH ? (size_t)limit : OFI_BATCH;
    ssize_t count = fi_cq_read(transport->cq, entries, most);
    if (count > 0) {
        for (ssize_t i = 0; i < count; i++)
            complete(transport, &entries[i]);
    } else if (count == -FI_EAVAIL) {
        read_error(transport);
    } else if (count != -FI_EAGAIN && count != 0) {
        break_after(transport, "reading completions", (int)-count);
    }
    if (transport->broken)
        return 0;
    if (transport->unposted)
        ofi_receives_post(transport);
    if (transport->rbufs_unposted)
        ofi_rbufs_post(transport);
    if (transport->links_pending)
        ofi_links_flush(transport);
    return count > 0 ? (int)count : 0;
}

/* Whoever waits looks often, also when it sleeps in between. Where looks are seldom nobody waits, and no peer is asked. */
static void look_for_dead(struct weft_transport *transport, int64_t now_ns)
{
    int64_t looks_ns = now_ns - transport->looked_ns;
    transport->looked_ns = now_ns;
    if (!transport->silent_since_ns || looks_ns > OFI_LOOKS * OFI_SELDOM_NS)
        transport->silent_since_ns = now_ns;
    else if (now_ns - transport->silent_since_ns > OFI_PROBE_NS)
        ofi_links_probe(transport, now_ns);
}

/* What nobody's arrival reminds us of: acknowledgements that found no frame to ride on, connections that do
 * not come up, peers that died without a word. */
static void idle(struct weft_transport *transport)
{
    int is_due = ++transport->idle_polls % OFI_LOOKS == 0;
    if (!is_due && !transport->links_unanswered)
        return;
    int64_t now_ns = weft_clock_ns();
    if (is_due)
        look_for_dead(transport, now_ns);
    if (transport->links_connecting || transport->links_unanswered)
        ofi_links_check(transport, now_ns);
    if (!transport->owing)
        return;
    if (!transport->owing_since_ns)
        transport->owing_since_ns = now_ns;
    else if (now_ns - transport->owing_since_ns > OFI_ACK_NS)
        ofi_acks_want(transport);
}

int ofi_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int reported = transport->events ? events_report(transport, budget, handler, arg) : 0;
    if (reported < budget) {
        ofi_progress(transport, budget - reported);
        reported += events_report(transport, budget - reported, handler, arg);
    }
    if (!reported) {
        idle(transport);
        if (transport->broken)
            return weft_fail(WEFT_TRANSPORT, "%s", transport->why);
    } else {
        transport->silent_since_ns = 0;
    }
    return reported;
}

int ofi_fds(struct weft_transport *transport, int *fds, int capacity)
{
    if (transport->wait_fd < 0 || capacity < 1)
        return 0;
    fds[0] = transport->wait_fd;
    return 1;
}

int ofi_arm(struct weft_transport *transport)
{
    if (transport->broken)
        return WEFT_AGAIN;
    if (transport->owing)
        ofi_acks_want(transport);
    ofi_links_flush(transport);
    if (transport->events || transport->links_pending || transport->links_connecting ||
        transport->rbufs_unposted)
        return WEFT_AGAIN;
    if (transport->wait_fd < 0)
        return WEFT_OK;
    struct fid *fids[1] = {&transport->cq->fid};
    return fi_trywait(transport->fabric, fids, 1) == 0 ? WEFT_OK : WEFT_AGAIN;
}
