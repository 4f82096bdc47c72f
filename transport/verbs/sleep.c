/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on the completion channels of all rails, and on their devices' own reports.
 *
 * A channel reports the first completion after it was asked to, so asking comes first and looking again second: what
 * completes in between is found. Each report of a channel must be acknowledged before its queue can be destroyed; as that
 * takes a lock, many are acknowledged at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "transport/verbs/async.h"
#include "transport/verbs/rbuf.h"
#include "transport/verbs/verbs_private.h"

#define ACKNOWLEDGE 64

int verbs_sleep_prepare(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
        return weft_fail(WEFT_SYSTEM, "verbs: descriptor of a completion channel: %s", strerror(errno));
    return WEFT_OK;
}

int verbs_fds(struct weft_transport *transport, int *fds, int capacity)
{
    int count = 0;
    for (int i = 0; i < transport->rails_count && count < capacity; i++)
        fds[count++] = transport->rails[i].channel->fd;
    for (int i = 0; i < transport->rails_count && count < capacity; i++)
        fds[count++] = verbs_async_fd(&transport->rails[i]);
    return count;
}

void verbs_wakings_take(struct verbs_queues *queues, uint32_t most)
{
    struct verbs_rail *rail = queues->rail;
    struct ibv_cq *cq;
    void *context;
    while (rail->verbs->get_cq_event(rail->channel, &cq, &context) == 0) {
        queues->is_armed = 0;
        queues->wakings++;
    }
    if (queues->wakings > most) {
        rail->verbs->ack_cq_events(rail->cq, queues->wakings);
        queues->wakings = 0;
    }
}

int verbs_arm(struct weft_transport *transport)
{
    if (transport->links_pending)
        verbs_links_flush(transport);
    if (transport->broken || transport->notices || transport->links_pending || transport->links_leaving ||
        transport->links_unused || transport->links_connecting || transport->dying)
        return WEFT_AGAIN;
    for (int i = 0; i < transport->rails_count; i++) {
        struct verbs_queues *queues = &transport->queues[i];
        verbs_receives_post(queues);
        if (queues->batch_next < queues->batch_count)
            return WEFT_AGAIN;
        if (!queues->is_armed && ibv_req_notify_cq(queues->rail->cq, 0))
            return WEFT_AGAIN;
        queues->is_armed = 1;
        if (verbs_batch_read(queues))
            return WEFT_AGAIN;
    }
    return WEFT_OK;
}

void verbs_disarm(struct weft_transport *transport)
{
    for (int i = 0; i < transport->rails_count; i++)
        verbs_wakings_take(&transport->queues[i], ACKNOWLEDGE);
    verbs_events_take(transport);
    if (transport->settings.failover)
        verbs_failover_tick(transport, weft_clock_ns());
}

int verbs_busy(struct weft_transport *transport)
{
    const struct verbs_rbufs *rbufs = transport->rbufs;
    if (transport->links_pending || transport->links_connecting || transport->dying ||
        transport->links_unused)
        return 1;
    return (rbufs->due || rbufs->linger_ns) && verbs_withdraw_busy(transport);
}
