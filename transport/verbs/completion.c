/* SPDX-License-Identifier: Apache-2.0 */
/* Completions and events.
 *
 * poll() hands messages straight from the completion to the caller. Everything else, and messages that are found while
 * the caller must not be called (in recall_wait(), while closing), is queued as a notice, which is part of the thing that
 * it is about; while notices wait, messages queue behind them, so that the order stays. Completions are read in batches
 * that belong to the rail: if a callback makes progress itself, it goes on where poll() has stopped.
 */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/async.h"
#include "transport/verbs/failover.h"
#include "transport/verbs/rbuf.h"
#include "transport/verbs/verbs_private.h"

#define EVENTS_NS 10000000 /* between looks at what the devices report */

void verbs_notice_push(struct weft_transport *transport, struct verbs_notice *notice,
                       enum weft_event_kind kind, int status)
{
    notice->next = NULL;
    notice->kind = kind;
    notice->status = status;
    notice->withdrawn = 0;
    *transport->notices_last = notice;
    transport->notices_last = &notice->next;
}

static void message_report(struct verbs_queues *queues, struct weft_link *link, struct verbs_buffer *buffer,
                           weft_event_handler *handler, void *arg)
{
    struct weft_event event = {
        .kind = WEFT_EVENT_MESSAGE,
        .data = buffer->memory + sizeof(struct verbs_frame),
        .data_size = buffer->size - sizeof(struct verbs_frame),
        .sender = link,
    };
    handler(arg, &event);
    verbs_receive_return(queues, buffer);
    verbs_message_consume(link);
}

/* Returns 1 when the caller heard something. */
static int notice_report(struct verbs_notice *notice, weft_event_handler *handler, void *arg)
{
    struct weft_event event = {.kind = notice->kind, .status = notice->status};
    int withdrawn = notice->withdrawn;
    if (notice->kind == WEFT_EVENT_MESSAGE) {
        struct verbs_buffer *buffer = VERBS_NOTICE_OF(notice, struct verbs_buffer);
        message_report(buffer->queues, buffer->link, buffer, handler, arg);
        return 1;
    }
    if (notice->kind == WEFT_EVENT_PUT_DONE) {
        event.cookie = verbs_put_reported(notice);
    } else if (notice->kind == WEFT_EVENT_FILLED) {
        event.cookie = verbs_rbuf_reported(notice);
    } else {
        struct weft_link *link = VERBS_NOTICE_OF(notice, struct weft_link);
        withdrawn |= link->references == 0;
        event.link_context = link->context;
        weft_fail(link->status, "%s", link->why);
    }
    if (!withdrawn)
        handler(arg, &event);
    return !withdrawn;
}

static int notices_report(struct weft_transport *transport, int budget, weft_event_handler *handler,
                          void *arg)
{
    int reported = 0;
    while (reported < budget && transport->notices) {
        struct verbs_notice *notice = transport->notices;
        transport->notices = notice->next;
        if (!transport->notices)
            transport->notices_last = &transport->notices;
        reported += notice_report(notice, handler, arg);
    }
    return reported;
}

static void failure_fill(struct verbs_qp *qp, const struct ibv_wc *completion, struct verbs_failure *failure)
{
    verbs_failure_fill(qp->queues->rail, &qp->link->transport->settings, &qp->path, (int)completion->status,
                       completion->vendor_err, failure);
    failure->queue_pair = qp->ibv->qp_num;
    failure->peer_queue_pair = qp->peer_number;
}

/* The queue pair is in error. What is flushed says nothing new, unless it is the first that is heard of an error: rxe
 * reports so what it finds wrong on this side. The device's events may know better, and come first then. */
static void queue_pair_failed(struct verbs_qp *qp, const struct ibv_wc *completion)
{
    struct weft_link *link = qp->link;
    if (!qp->is_stopped && completion->status == IBV_WC_WR_FLUSH_ERR)
        verbs_events_take(link->transport);
    if (link->state == VERBS_LINK_FAILED || qp->is_stopped)
        return;
    struct verbs_failure failure;
    char text[VERBS_WHY];
    failure_fill(qp, completion, &failure);
    if (verbs_failover_helps((int)completion->status))
        verbs_qp_trouble(qp, verbs_why_status((int)completion->status), "verbs: %s",
                         verbs_why(&failure, text));
    else
        verbs_link_fail(link, verbs_why_status((int)completion->status), "verbs: %s",
                        verbs_why(&failure, text));
}

static void send_completed(struct weft_transport *transport, const struct ibv_wc *completion)
{
    struct verbs_qp *qp = verbs_qp_find(transport, completion->wr_id);
    if (!qp) {
        transport->stale_completions++;
        return;
    }
    if (completion->status == IBV_WC_SUCCESS) {
        verbs_qp_retire(qp, completion->wr_id, WEFT_OK);
        return;
    }
    queue_pair_failed(qp, completion);
    verbs_qp_retire(qp, completion->wr_id, qp->link->status ? qp->link->status : WEFT_TRANSPORT);
}

/* Returns 1 when the caller heard something. */
static int receive_completed(struct verbs_queues *queues, const struct ibv_wc *completion,
                             weft_event_handler *handler, void *arg)
{
    struct weft_transport *transport = queues->transport;
    uint32_t index = (uint32_t)completion->wr_id;
    if (index >= queues->receives_count)
        return 0;
    struct verbs_buffer *buffer = queues->receives[index];
    queues->receives_posted--;
    if (buffer->turn) {
        if ((int32_t)(buffer->turn - queues->receives_done) > 0)
            queues->receives_done = buffer->turn;
        buffer->turn = 0;
    }
    struct weft_link *link = NULL;
    if (completion->status != IBV_WC_SUCCESS) {
        struct verbs_qp *qp = verbs_qp_by_number(queues, completion->qp_num);
        if (qp)
            queue_pair_failed(qp, completion);
    } else if (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        verbs_rbuf_arrived(queues, completion->qp_num, be32toh(completion->imm_data));
    } else {
        buffer->size = completion->byte_len;
        link = verbs_frame_receive(queues, buffer, completion->qp_num);
    }
    if (!link) {
        verbs_receive_return(queues, buffer);
        return 0;
    }
    if (handler && !transport->notices) {
        message_report(queues, link, buffer, handler, arg);
        return 1;
    }
    buffer->link = link;
    buffer->queues = queues;
    verbs_notice_push(transport, &buffer->notice, WEFT_EVENT_MESSAGE, WEFT_OK);
    return 0;
}

int verbs_batch_read(struct verbs_queues *queues)
{
    int count = ibv_poll_cq(queues->rail->cq, VERBS_BATCH, queues->batch);
    queues->batch_next = 0;
    queues->batch_count = count > 0 ? count : 0;
    if (count >= 0)
        return count;
    char why[160];
    snprintf(why, sizeof why, "verbs: the completion queue of %s cannot be read", queues->rail->device);
    verbs_break(queues->transport, why);
    return 0;
}

/* Handles what the rail has completed, until the caller has got `budget` events. Without a handler none is reported. */
static int rail_drive(struct verbs_queues *queues, int budget, weft_event_handler *handler, void *arg)
{
    int reported = 0;
    if (queues->batch_next == queues->batch_count && !verbs_batch_read(queues))
        return 0;
    while (reported < budget && queues->batch_next < queues->batch_count) {
        const struct ibv_wc *completion = &queues->batch[queues->batch_next++];
        if (completion->wr_id & VERBS_RECEIVE)
            reported += receive_completed(queues, completion, handler, arg);
        else
            send_completed(queues->transport, completion);
    }
    return reported;
}

void verbs_queues_drain(struct verbs_queues *queues)
{
    queues->has_remains = 0;
    do {
        rail_drive(queues, VERBS_BATCH, NULL, NULL);
    } while ((queues->batch_next < queues->batch_count || verbs_batch_read(queues)) &&
             !queues->transport->broken);
}

void verbs_drain(struct weft_transport *transport)
{
    for (int i = 0; i < transport->rails_count && !transport->broken; i++)
        verbs_queues_drain(&transport->queues[i]);
}

/* BYE comes after all messages, but each rail has a completion queue of its own: what came over others, and was
 * acknowledged before, may not have been read yet. */
static void links_leave(struct weft_transport *transport)
{
    verbs_drain(transport);
    transport->links_leaving = 0;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (transport->links[i]->gone)
            verbs_link_fail(transport->links[i], WEFT_PEER_FAILED, "verbs: the peer has closed its end");
    }
}

/* What completions lead to. */
static void follow_up(struct weft_transport *transport)
{
    if (transport->links_leaving)
        links_leave(transport);
    if (transport->rbufs->due)
        verbs_rbufs_poll(transport);
    if (transport->links_turning)
        verbs_failover_drive(transport);
    if (transport->links_pending)
        verbs_links_flush(transport);
    if (transport->links_unused)
        verbs_leave_drive(transport);
    if (transport->dying)
        verbs_links_reap(transport, weft_clock_ns());
}

void verbs_break(struct weft_transport *transport, const char *why)
{
    if (transport->broken)
        return;
    transport->broken = 1;
    snprintf(transport->why, sizeof transport->why, "%s", why);
    weft_log(WEFT_LOG_ERROR, "%s", transport->why);
    for (uint32_t i = 0; i < transport->links_count; i++)
        verbs_link_fail(transport->links[i], WEFT_TRANSPORT, "%s", why);
}

/* Without another rail a port that goes down is no failure yet: what is in flight waits for it as long as retries last. */
static void event_handle(struct weft_transport *transport, struct verbs_queues *queues,
                         const struct verbs_event *event)
{
    struct verbs_qp *qp = NULL;
    if (event->queue_pair)
        qp = verbs_qp_by_number(queues, event->queue_pair->qp_num);
    if (qp && event->kind == VERBS_EVENT_QUEUE_DRAINED) {
        qp->is_drained = 1;
    } else if (qp && event->kind == VERBS_EVENT_QUEUE_FAILED && qp->link->state != VERBS_LINK_FAILED) {
        const struct ibv_wc none = {.status = IBV_WC_SUCCESS};
        struct verbs_failure failure;
        char text[VERBS_WHY];
        failure_fill(qp, &none, &failure);
        verbs_link_fail(qp->link, WEFT_TRANSPORT, "verbs: %s", verbs_why_event(event->text, &failure, text));
    } else if (event->kind == VERBS_EVENT_RAIL_FAILED)
        verbs_break(transport, event->text);
    else if (event->kind == VERBS_EVENT_PORT_DOWN || event->kind == VERBS_EVENT_PORT_UP)
        verbs_failover_port(transport, queues->rail, event->kind == VERBS_EVENT_PORT_UP);
}

void verbs_events_take(struct weft_transport *transport)
{
    struct verbs_event event;
    for (int i = 0; i < transport->rails_count; i++) {
        for (int k = 0; k < VERBS_ASYNC_MOST && verbs_async_next(&transport->rails[i], &event); k++)
            event_handle(transport, &transport->queues[i], &event);
    }
}

static int has_deferred(const struct weft_transport *transport)
{
    int has = 0;
    for (int i = 0; i < transport->rails_count; i++)
        has |= transport->queues[i].deferred != NULL;
    return has;
}

/* What nothing that arrives reminds us of. */
static void idle(struct weft_transport *transport)
{
    for (int i = 0; i < transport->rails_count; i++)
        verbs_receives_post(&transport->queues[i]);
    if (!transport->links_connecting && !transport->dying && !has_deferred(transport) &&
        transport->turns % 4096)
        return;
    int64_t now_ns = weft_clock_ns();
    verbs_links_tick(transport, now_ns);
    if (now_ns - transport->events_ns < EVENTS_NS)
        return;
    transport->events_ns = now_ns;
    for (int i = 0; i < transport->rails_count; i++)
        verbs_deferred_destroy(&transport->queues[i], now_ns);
    verbs_events_take(transport);
    verbs_failover_tick(transport, now_ns);
}

void verbs_progress(struct weft_transport *transport)
{
    for (int i = 0; i < transport->rails_count && !transport->broken; i++)
        rail_drive(&transport->queues[i], VERBS_BATCH, NULL, NULL);
    follow_up(transport);
    if (++transport->turns % 64 == 0)
        idle(transport);
}

int verbs_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int reported = transport->notices ? notices_report(transport, budget, handler, arg) : 0;
    for (int i = 0; i < transport->rails_count && reported < budget && !transport->broken; i++)
        reported += rail_drive(&transport->queues[i], budget - reported, handler, arg);
    follow_up(transport);
    if (transport->notices && reported < budget)
        reported += notices_report(transport, budget - reported, handler, arg);
    if (++transport->turns % 64 == 0)
        idle(transport);
    return reported || !transport->broken || transport->notices
               ? reported
               : weft_fail(WEFT_TRANSPORT, "%s", transport->why);
}
