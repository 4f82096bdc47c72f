/* SPDX-License-Identifier: Apache-2.0 */
/* What devices report on their own: ports that go down or come back, queue pairs and devices in error.
 *
 * A context reports for all ports of its device; events of ports that are not the rail's are dropped here.
 */
#ifndef WEFT_TRANSPORT_VERBS_ASYNC_H
#define WEFT_TRANSPORT_VERBS_ASYNC_H

#include "transport/verbs/device.h"
#include "transport/verbs/why.h"

enum verbs_event_kind {
    VERBS_EVENT_PORT_DOWN,
    VERBS_EVENT_PORT_UP,
    VERBS_EVENT_PORT_CHANGED, /* LID, GIDs, partition keys, subnet manager: what peers know may be stale */
    VERBS_EVENT_QUEUE_FAILED, /* queue_pair */
    VERBS_EVENT_QUEUE_DRAINED, /* queue_pair, in error: it takes no more receives, and has completed those it took */
    VERBS_EVENT_RAIL_FAILED, /* completion queue, shared receive queue or device: nothing works here any more */
    VERBS_EVENT_OTHER,       /* of no consequence; logged */
};

struct verbs_event {
    enum verbs_event_kind kind;
    struct ibv_qp *queue_pair;
    char text[VERBS_WHY]; /* what happened and what to look at next, for failures and changes */
};

/* The descriptor that becomes readable; non-blocking. */
int verbs_async_fd(const struct verbs_rail *rail);

#define VERBS_ASYNC_MOST 64 /* events looked at in one go */

/* Takes the next event: 1, or 0 when there is none now. The rail's state has been read anew for events of a port. That the
 * device has no more reports to give, since it is gone, is an event too, once. */
int verbs_async_next(struct verbs_rail *rail, struct verbs_event *event);

/* Pure: sorts an event and words it. */
void verbs_async_sort(int event_type, const char *device, int port, struct verbs_event *event);

#endif
