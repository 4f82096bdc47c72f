/* SPDX-License-Identifier: Apache-2.0 */
/* How a message travels: in one piece or several, and who moves its bytes. Both ends decide alike, from its length and what the
 * transport offers, so that nothing has to be said about it.
 *
 * The eager limit stands in peer->eager_bytes: what the settings say (WEFT_EAGER_SHM and the like), as far as a transport's frame has room
 * (comm/core/comm.c). What a device's memory changes is decided behind this (comm/exec/device/message.c), and so is what a SEND of
 * WEFT_MODE_READ offers (comm/exec/send.c).
 */
#include "comm/exec/internal.h"

/* What a peer's transport offers comes with its link. */
int weft_exec_has_left(const struct weft_exec *exec, uint32_t rank)
{
    const struct weft_exec_hooks *hooks = &exec->options.hooks;
    return hooks->has_left && hooks->has_left(hooks->comm, rank);
}

int weft_exec_connect(struct weft_exec *exec, uint32_t rank, struct weft_exec_peer **found)
{
    struct weft_exec_peer *peer = &exec->peers[rank];
    if (!peer->link) {
        const struct weft_exec_hooks *hooks = &exec->options.hooks;
        int status = hooks->connect(hooks->comm, rank, peer);
        if (status != WEFT_OK)
            return status != WEFT_AGAIN && weft_exec_has_left(exec, rank) ? WEFT_PEER_FAILED : status;
    }
    *found = peer;
    return WEFT_OK;
}

int weft_mode_choose(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    struct weft_exec_peer *peer = &op->exec->peers[inflight->rank];
    int status = peer->link ? WEFT_OK : weft_exec_connect(op->exec, inflight->rank, &peer);
    if (status != WEFT_OK)
        return status;
    inflight->mode = WEFT_MODE_EAGER;
    if (inflight->length <= peer->eager_bytes) { /* 0: of a call whose messages say how long they are */
        inflight->slice_bytes = inflight->length ? (inflight->length + 63) / 64 * 64 : 64;
        inflight->slices = 1;
        return WEFT_OK;
    }
    inflight->slice_bytes = peer->eager_bytes / 64 * 64;
    if (peer->caps & (WEFT_CAP_READ | WEFT_CAP_PUT)) {
        inflight->mode = peer->caps & WEFT_CAP_READ ? WEFT_MODE_READ : WEFT_MODE_PUT;
        inflight->slice_bytes = peer->slice_bytes;
        if (inflight->mode == WEFT_MODE_PUT && inflight->slice_bytes > peer->put_bytes)
            inflight->slice_bytes = peer->put_bytes / 64 * 64;
    }
    inflight->slices = (uint32_t)((inflight->length + inflight->slice_bytes - 1) / inflight->slice_bytes);
    return WEFT_OK;
}
