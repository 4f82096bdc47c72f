/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/driven.h"

#include "comm/core/inbox.h"
#include "comm/core/queue.h"
#include "comm/core/work.h"
#include "devmem/share.h"

_Static_assert(offsetof(struct weft_wire_header, comm) == 0, "messages begin with their communicator's id");
_Static_assert(offsetof(struct weft_comm, driven) == 0, "one is the other");

static void message(struct weft_driven *driven, const void *sender, const void *data, size_t size)
{
    const struct weft_comm *comm = (const struct weft_comm *)driven;
    if (size >= sizeof(struct weft_wire_header))
        weft_exec_message(comm->exec, sender, data, size);
}

static void io_done(struct weft_driven *driven, uint64_t cookie, int status)
{
    weft_exec_io_done(((const struct weft_comm *)driven)->exec, cookie, status);
}

static void link_failed(struct weft_driven *driven, struct weft_link *link, int status, const char *why)
{
    weft_comm_link_failed((struct weft_comm *)driven, link, status, why);
}

static int poll_once(struct weft_driven *driven)
{
    struct weft_comm *comm = (struct weft_comm *)driven;
    if ((weft_bootstrap_has_failed(comm->bootstrap) || comm->failure.lost_status) && !comm->failure.status &&
        weft_comm_check(comm) != WEFT_OK)
        return 1;
    if (weft_bootstrap_gone(comm->bootstrap) && !comm->failure.status)
        weft_comm_look_for_gone(comm);
    if (comm->dropped_ops)
        weft_works_reap(comm);
    return weft_exec_progress(comm->exec) + weft_p2p_progress(comm->p2p);
}

static int is_blocked(const struct weft_driven *driven)
{
    const struct weft_comm *comm = (const struct weft_comm *)driven;
    const struct weft_failure_record *failure = &comm->failure;
    int awaits_reason = (failure->lost_status || failure->needed_ns) && !failure->status; /* by the clock */
    return awaits_reason || weft_exec_is_blocked(comm->exec) || weft_p2p_is_blocked(comm->p2p);
}

static int64_t look(struct weft_driven *driven, int64_t now_ns)
{
    return weft_stall_look((struct weft_comm *)driven, now_ns);
}

static void fail(struct weft_driven *driven, int status, const char *text)
{
    weft_comm_fail((struct weft_comm *)driven, status, text);
}

const struct weft_driven_ops weft_comm_driven_ops = {
    .message = message,
    .io_done = io_done,
    .link_failed = link_failed,
    .poll = poll_once,
    .is_blocked = is_blocked,
    .look = look,
    .fail = fail,
    .deliver = weft_inbox_deliver,
    .oob_send = weft_inbox_send,
};

int weft_driven_carry(struct weft_context *context)
{
    int happened = 0;
    if (context->p2p.copies)
        happened += weft_p2p_copies_progress(context);
    if (context->p2p.held)
        happened += weft_works_follow(context);
    if (context->core.queues)
        happened += weft_queues_progress(context);
    if (context->core.watched)
        happened += weft_works_look(context);
    return happened;
}

static int is_peer_process(const struct weft_comm *comm, uint64_t process)
{
    for (int r = 0; r < comm->ranks; r++) {
        if (comm->members[r].process == process)
            return 1;
    }
    return 0;
}

void weft_driven_forget(const struct weft_comm *comm)
{
    const struct weft_context *context = comm->context;
    for (int r = 0; r < comm->ranks && comm->members && context->devices.shares; r++) {
        uint64_t process = comm->members[r].process;
        int is_needed = 0;
        for (uint32_t i = 0; i < context->routes.count && !is_needed; i++)
            is_needed = context->routes.all[i] != &comm->driven &&
                        is_peer_process((const struct weft_comm *)context->routes.all[i], process);
        if (!is_needed)
            weft_share_forget(context->devices.shares, process);
    }
}
