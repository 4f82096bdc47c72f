/* SPDX-License-Identifier: Apache-2.0 */
/* Ending early: what peers may still read or write is asked back from all of them first, and then waited for
 * once, so that silent peers do not add up. */
#include "comm/exec/internal.h"

uint32_t weft_op_recall(struct weft_exec_op *op)
{
    uint32_t transports = 0;
    for (uint64_t mask = op->active; mask; mask &= mask - 1) {
        struct weft_inflight *inflight = &op->in_flight[__builtin_ctzll(mask)];
        if (inflight->step.kind > WEFT_STEP_RECV || inflight->mode != WEFT_MODE_PUT)
            continue;
        if (inflight->step.kind == WEFT_STEP_SEND)
            weft_send_recall(op, inflight);
        else
            weft_recv_recall(op, inflight);
        transports |= 1u << op->exec->peers[inflight->rank].transport;
    }
    return transports;
}

void weft_recalls_await(struct weft_exec *exec, uint32_t transports)
{
    for (uint32_t r = 0; r < exec->options.ranks && transports; r++) {
        const struct weft_exec_peer *peer = &exec->peers[r];
        if (!peer->link || !(transports >> peer->transport & 1))
            continue;
        transports &= ~(1u << peer->transport);
        peer->ops->recall_wait(peer->instance);
    }
}
