/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/oob.h"

#include "comm/p2p/internal.h"
#include "comm/drive/progress.h"
#include "comm/drive/wait.h"

struct watch {
    struct weft_comm *comm;
    int (*look)(struct weft_comm *comm, void *arg);
    void *arg;
    int found;
};

static int has_found(void *arg)
{
    struct watch *watch = arg;
    if (!watch->found)
        watch->found = watch->look(watch->comm, watch->arg);
    return watch->found;
}

/* [lock] */
static int await(struct watch *watch, int64_t deadline_ns, int is_unannounced)
{
    const struct weft_wait wait = {.driven = &watch->comm->driven,
                                   .done = has_found,
                                   .late = weft_wait_ends,
                                   .arg = watch,
                                   .deadline_ns = deadline_ns,
                                   .is_unannounced = is_unannounced};
    return weft_wait(watch->comm->context, &wait);
}

int weft_oob_await(struct weft_comm *comm, int (*look)(struct weft_comm *comm, void *arg), void *arg,
                   int64_t deadline_ns)
{
    struct watch watch = {comm, look, arg, 0};
    int status = weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    weft_context_lock(comm->context);
    status = await(&watch, deadline_ns, 0);
    weft_context_unlock(comm->context);
    return comm->failure.status ? weft_comm_report(comm) : status;
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

int weft_oob_send(struct weft_comm *comm, const void *bytes, size_t size, int peer, int64_t tag,
                  int64_t deadline_ns)
{
    struct sending sending = {bytes, size, peer, WEFT_AGAIN, tag};
    struct watch watch = {comm, try_to_send, &sending, 0};
    int status = weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    weft_context_lock(comm->context);
    status = await(&watch, deadline_ns, 1); /* no event says when a link has room again */
    if (status == WEFT_OK)
        status = sending.status;
    if (status == WEFT_OK)
        weft_progress_flush(comm->context);
    else if (status != WEFT_TIMEOUT)
        weft_comm_check(comm);
    weft_context_unlock(comm->context);
    return comm->failure.status ? weft_comm_report(comm) : status;
}
