/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/letter.h"

#include "base/clock.h"
#include "comm/p2p_internal.h"
#include "comm/progress.h"

#define RETRY_NS 1000000 /* nobody tells when a link has room again */

struct watch {
    struct weft_comm *comm;
    int (*look)(struct weft_comm *comm, void *arg);
    void *arg;
    int found;
};

static int nothing_there(void *arg)
{
    struct watch *watch = arg;
    if (!watch->found)
        watch->found = watch->look(watch->comm, watch->arg);
    return !watch->found;
}

/* nap_ns: asleep no longer than that at a time. [lock] */
static int await(struct watch *watch, int64_t deadline_ns, int64_t nap_ns)
{
    struct weft_comm *comm = watch->comm;
    struct weft_context *context = comm->context;
    struct weft_idle idle = {0};
    while (nothing_there(watch)) {
        int moved = weft_progress_once(context);
        if (!nothing_there(watch))
            break;
        if (weft_comm_is_lost(comm) && weft_comm_check_any(comm) != WEFT_OK)
            return comm->failed;
        weft_progress_step_aside(context);
        if (moved)
            idle = (struct weft_idle){0};
        else if (!weft_idle_pause(context, &idle))
            continue;
        int64_t now_ns = weft_clock_ns();
        if (now_ns >= deadline_ns)
            return WEFT_TIMEOUT;
        if (!moved)
            weft_progress_sleep(context, &idle, deadline_ns - now_ns < nap_ns ? deadline_ns : now_ns + nap_ns,
                                nothing_there, watch);
    }
    return WEFT_OK;
}

int weft_letter_await(struct weft_comm *comm, int (*look)(struct weft_comm *comm, void *arg), void *arg,
                      int64_t deadline_ns)
{
    struct watch watch = {comm, look, arg, 0};
    int status = weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    weft_context_lock(comm->context);
    status = await(&watch, deadline_ns, INT64_MAX);
    weft_context_unlock(comm->context);
    return comm->failed ? weft_comm_report(comm) : status;
}

struct sending {
    const void *bytes;
    size_t size;
    int peer, status;
    int64_t tag;
};

static int try_to_send(struct weft_comm *comm, void *arg)
{
    struct sending *sending = arg;
    sending->status = weft_p2p_peer_find(comm->p2p, (uint32_t)sending->peer)
                          ? weft_p2p_send_now(comm->p2p, sending->peer, sending->tag, WEFT_SPACE_INTERNAL,
                                              sending->bytes, sending->size)
                          : weft_fail(WEFT_NOMEM, "no memory for the state of rank %d", sending->peer);
    return sending->status != WEFT_AGAIN;
}

int weft_letter_send(struct weft_comm *comm, const void *bytes, size_t size, int peer, int64_t tag,
                     int64_t deadline_ns)
{
    struct sending sending = {bytes, size, peer, WEFT_AGAIN, tag};
    struct watch watch = {comm, try_to_send, &sending, 0};
    int status = weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    weft_context_lock(comm->context);
    status = await(&watch, deadline_ns, RETRY_NS);
    if (status == WEFT_OK)
        status = sending.status;
    if (status == WEFT_OK)
        weft_progress_flush(comm->context);
    else if (status != WEFT_TIMEOUT)
        weft_comm_check_any(comm);
    weft_context_unlock(comm->context);
    return comm->failed ? weft_comm_report(comm) : status;
}
