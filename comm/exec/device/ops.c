/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/device/ops.h"

#include "comm/exec/device/votes.h"

/* A SEND offers its memory itself where it can. */
static int open_step(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    if (inflight->step.kind == WEFT_STEP_SEND)
        inflight->shared = (uint8_t)weft_direct_may(op, inflight);
    return inflight->mode == WEFT_MODE_PUT ? weft_device_reach(op, inflight) : WEFT_OK;
}

static int send_index(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    return inflight->shared ? weft_direct_send(op, inflight) : weft_device_stage(op, inflight);
}

static int recv_step(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    return inflight->shared ? weft_direct_recv(op, inflight) : weft_device_recv(op, inflight);
}

static int take_message(struct weft_exec *exec, struct weft_exec_op *op,
                        const struct weft_wire_header *header, const void *payload)
{
    if (header->kind == WEFT_WIRE_MAILBOX)
        return weft_mailbox_take(exec, header, payload);
    return op ? weft_vote_take(op, header, payload) : weft_vote_refuse(exec, header->source, header->op);
}

const struct weft_exec_device_ops weft_exec_devices = {
    .begin = weft_device_begin,
    .run = weft_device_run,
    .look = weft_device_look,
    .end = weft_device_end,
    .describe = weft_vote_describe,
    .open = open_step,
    .send = send_index,
    .refused = weft_direct_stage_instead,
    .take = weft_direct_take,
    .recv = recv_step,
    .compute = weft_device_compute,
    .release = weft_direct_release,
    .vote_check = weft_vote_check,
    .message = take_message,
    .pay = weft_votes_pay,
    .stop = weft_device_collectives_stop,
    .close = weft_device_collectives_free,
    .bytes = weft_device_collectives_bytes,
};
