/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/async.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"

/* What an event is about. */
enum subject { OF_PORT, OF_QUEUE_PAIR, OF_RAIL };

struct row {
    int type; /* enum ibv_event_type */
    enum verbs_event_kind kind;
    enum subject subject;
    const char *text;
};

static const struct row rows[] = {
    {IBV_EVENT_PORT_ERR, VERBS_EVENT_PORT_DOWN, OF_PORT,
     "went down: look at cable, switch port, 'ip link' or ibstat"},
    {IBV_EVENT_PORT_ACTIVE, VERBS_EVENT_PORT_UP, OF_PORT, "is up"},
    {IBV_EVENT_LID_CHANGE, VERBS_EVENT_PORT_CHANGED, OF_PORT,
     "got another LID: links to peers that know the old one fail; was the subnet manager restarted?"},
    {IBV_EVENT_PKEY_CHANGE, VERBS_EVENT_PORT_CHANGED, OF_PORT, "got other partition keys"},
    {IBV_EVENT_GID_CHANGE, VERBS_EVENT_PORT_CHANGED, OF_PORT,
     "got other GIDs: an address of its network interface has changed; links that use an old one fail"},
    {IBV_EVENT_SM_CHANGE, VERBS_EVENT_OTHER, OF_PORT, "has another subnet manager"},
    {IBV_EVENT_CLIENT_REREGISTER, VERBS_EVENT_OTHER, OF_PORT,
     "was asked to register again by its subnet manager"},
    {IBV_EVENT_QP_FATAL, VERBS_EVENT_QUEUE_FAILED, OF_QUEUE_PAIR,
     "queue pair in error: the adapter could not say more; look for a completion error before, and into "
     "dmesg"},
    {IBV_EVENT_QP_REQ_ERR, VERBS_EVENT_QUEUE_FAILED, OF_QUEUE_PAIR,
     "queue pair in error: the peer sent an invalid request; do both run the same version of weft?"},
    {IBV_EVENT_QP_ACCESS_ERR, VERBS_EVENT_QUEUE_FAILED, OF_QUEUE_PAIR,
     "queue pair in error: the peer used a wrong or stale key, or memory that it may not write; look for an "
     "error at the peer"},
    {IBV_EVENT_QP_LAST_WQE_REACHED, VERBS_EVENT_QUEUE_DRAINED, OF_QUEUE_PAIR,
     "queue pair is done with receives"},
    {IBV_EVENT_PATH_MIG_ERR, VERBS_EVENT_QUEUE_FAILED, OF_QUEUE_PAIR, "queue pair in error: no other path"},
    {IBV_EVENT_CQ_ERR, VERBS_EVENT_RAIL_FAILED, OF_RAIL,
     "completion queue in error: it has overrun; completions are lost and nothing works here any more: open "
     "another context; an error in weft or the driver, look into dmesg"},
    {IBV_EVENT_SRQ_ERR, VERBS_EVENT_RAIL_FAILED, OF_RAIL,
     "shared receive queue in error: nothing is received here any more: open another context; look into "
     "dmesg"},
    {IBV_EVENT_DEVICE_FATAL, VERBS_EVENT_RAIL_FAILED, OF_RAIL,
     "device in error: it was reset, unplugged or has failed; look into dmesg"},
};

static const struct row *find_row(int type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].type == type)
            return &rows[i];
    }
    return NULL;
}

void verbs_async_sort(int event_type, const char *device, int port, struct verbs_event *event)
{
    const struct row *row = find_row(event_type);
    memset(event, 0, sizeof *event);
    event->kind = row ? row->kind : VERBS_EVENT_OTHER;
    if (!row)
        snprintf(event->text, sizeof event->text, "%s port %d: event %d", device, port, event_type);
    else
        snprintf(event->text, sizeof event->text, "%s port %d%s %s", device, port,
                 row->subject == OF_PORT ? "" : ":", row->text);
}

int verbs_async_fd(const struct verbs_rail *rail)
{
    return rail->context->async_fd;
}

/* Sorts an event that is the rail's; 0 when it is another port's. */
static int sort(struct verbs_rail *rail, const struct ibv_async_event *native, struct verbs_event *event)
{
    const struct row *row = find_row(native->event_type);
    if (row && row->subject == OF_PORT) {
        if (native->element.port_num != rail->port.number)
            return 0;
        verbs_rail_refresh(rail); /* if it cannot be read, the state says so */
    }
    verbs_async_sort(native->event_type, rail->device, rail->port.number, event);
    if (row && row->subject == OF_QUEUE_PAIR)
        event->queue_pair = native->element.qp;
    int is_detail = event->kind == VERBS_EVENT_OTHER || event->kind == VERBS_EVENT_QUEUE_FAILED ||
                    event->kind == VERBS_EVENT_QUEUE_DRAINED;
    weft_log(is_detail ? WEFT_LOG_DEBUG : WEFT_LOG_WARN, "verbs: %s", event->text);
    return 1;
}

int verbs_async_next(struct verbs_rail *rail, struct verbs_event *event)
{
    struct ibv_async_event native;
    for (int i = 0; i < VERBS_ASYNC_MOST; i++) {
        if (rail->verbs->get_async_event(rail->context, &native)) {
            /* A device that was reset or unplugged answers so for ever: once is enough. */
            if (errno == EAGAIN || errno == EINTR || rail->is_lost)
                return 0;
            rail->is_lost = 1;
            verbs_async_sort(IBV_EVENT_DEVICE_FATAL, rail->device, rail->port.number, event);
            return 1;
        }
        int is_ours = sort(rail, &native, event);
        /* At once: destroying a queue pair waits until its events are acknowledged. */
        rail->verbs->ack_async_event(&native);
        if (is_ours)
            return 1;
    }
    return 0;
}
