/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: how each peer is reached, and what the executor asks of them. */
#include "comm/core/comm.h"

#include "base/fork.h"

struct weft_exec_collectives weft_comm_device_collectives(const struct weft_comm *comm)
{
    const struct weft_settings *settings = &comm->context->settings;
    return (struct weft_exec_collectives){
        .mode = (enum weft_device_collective_mode)settings->device_collective,
        .bytes = comm->one_host ? (size_t)settings->device_collective_bytes : 0};
}

int weft_comm_link_peer(void *arg, uint32_t rank, struct weft_exec_peer *peer)
{
    struct weft_comm *comm = arg;
    struct weft_context *context = comm->context;
    const struct weft_member *member = &comm->members[rank];
    enum weft_transport_index index = member->transport;
    struct weft_link *link;
    size_t size;
    const uint8_t *address = weft_member_address(member, index, &size);
    int status = weft_context_link(context, index, address, size, &link);
    if (status != WEFT_OK)
        return status;
    struct weft_open_transport *transport = &context->transports[index];
    const struct weft_settings *settings = &context->settings;
    const int64_t eagers[] = {[WEFT_SHM] = settings->eager_bytes_shm,
                              [WEFT_OFI] = settings->eager_bytes_ofi,
                              [WEFT_VERBS] = settings->eager_bytes_verbs,
                              [WEFT_TCP] = settings->eager_bytes_tcp};
    const int64_t slices[] = {[WEFT_SHM] = settings->slice_bytes_shm,
                              [WEFT_OFI] = settings->slice_bytes_ofi,
                              [WEFT_VERBS] = settings->slice_bytes_verbs,
                              [WEFT_TCP] = settings->slice_bytes_tcp};
    uint32_t room = transport->caps.eager_bytes - (uint32_t)sizeof(struct weft_wire_header);
    int64_t eager = eagers[index], inside = index == WEFT_SHM && !settings->way_shm ? 2 * eager : eager;
    *peer = (struct weft_exec_peer){
        .ops = &transport->ops,
        .instance = transport->instance,
        .link = link,
        .caps = transport->caps.flags,
        .eager_bytes = eager < room ? (eager < 64 ? 64 : (uint32_t)eager) : room,
        .inside_bytes = inside < room ? (uint32_t)inside : room,
        .slice_bytes = (uint32_t)(slices[index] / 64 * 64),
        .put_bytes = transport->caps.put_bytes,
        .stage_only = index == WEFT_SHM && !settings->direct,
        .way = (int)settings->way_shm,
        .transport = index,
        .process = index == WEFT_SHM ? member->process : 0,
    };
    return WEFT_OK;
}

void weft_comm_stopped(void *arg, int status, const char *words)
{
    struct weft_comm *comm = arg;
    comm->failure.has_stopped = 1;
    weft_comm_lose(comm, status, words);
}

int weft_comm_differs(void *arg, const char *text, const struct weft_call *past)
{
    return weft_stall_suspect(arg, text, past);
}

int weft_comm_sent_by(void *arg, uint32_t rank, const void *sender)
{
    struct weft_comm *comm = arg;
    const struct weft_member *member = &comm->members[rank];
    enum weft_transport_index index = member->transport;
    const struct weft_open_transport *transport = &comm->context->transports[index];
    size_t size;
    const uint8_t *address = weft_member_address(member, index, &size);
    return comm->context->progress.polled == (int)index &&
           transport->ops.sent_by(transport->instance, sender, address, size);
}

int weft_comm_tagged(void *arg, const struct weft_wire_header *header, const void *payload)
{
    struct weft_comm *comm = arg;
    return weft_p2p_message(comm->p2p, header, payload);
}

int weft_comm_make_p2p(struct weft_comm *comm)
{
    const struct weft_p2p_options options = {.rank = (uint32_t)comm->rank,
                                             .ranks = (uint32_t)comm->ranks,
                                             .local_bytes = (size_t)comm->context->settings.eager_bytes_shm,
                                             .exec = comm->exec,
                                             .context = comm->context,
                                             .fail = weft_comm_fail,
                                             .comm = comm};
    return weft_p2p_open(&options, &comm->p2p);
}

int weft_comm_set_timeout(weft_comm *comm, int64_t timeout_ms)
{
    weft_error_clear();
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    atomic_store(&comm->timeout_ms, timeout_ms ? timeout_ms : comm->context->settings.timeout_ms);
    return WEFT_OK;
}

int weft_comm_refuse_forming(const struct weft_comm *comm)
{
    return weft_fail(WEFT_BUSY,
                     "rank %d still makes a communicator from this one: expected no other collective on it "
                     "until that work has ended",
                     comm->rank);
}

int weft_comm_rank(const weft_comm *comm)
{
    if (weft_fork_is_child())
        return weft_fork_refuse();
    return comm ? comm->rank : weft_fail(WEFT_INVALID, "comm is NULL");
}

int weft_comm_size(const weft_comm *comm)
{
    if (weft_fork_is_child())
        return weft_fork_refuse();
    return comm ? comm->ranks : weft_fail(WEFT_INVALID, "comm is NULL");
}
