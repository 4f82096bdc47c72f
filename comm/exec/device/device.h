/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on device memory: begin and end, and how their steps move. What the executor knows of it: ops.h. */
#ifndef WEFT_COMM_EXEC_DEVICE_DEVICE_H
#define WEFT_COMM_EXEC_DEVICE_DEVICE_H

#include "comm/exec/internal.h"

/* device.c */
/* The operation or transfer begins: op->request.commands is set. */
int weft_device_begin(struct weft_exec_op *op);
/* Runs it as far as it goes. 0 or the status it fails with. */
int weft_device_run(struct weft_exec_op *op);
/* Deals with what the command queue has done. Returns how much that was; the operation may have failed. */
int weft_device_look(struct weft_exec_op *op);
/* The operation ends, early or not. */
void weft_device_end(struct weft_exec_op *op);
/* How long this rank may still wait for what other ranks' devices do with its memory: all that ends with the executor together. */
int64_t weft_device_recall_ms(struct weft_exec *exec);
/* A rank of this process. */
static inline int weft_peer_is_here(const struct weft_exec_peer *peer, const struct weft_shares *shares)
{
    return peer->process == weft_share_instance(shares);
}
int weft_device_compute(struct weft_exec_op *op, struct weft_inflight *inflight);

/* message.c */
/* SEND: queues copies into staging, if any, as far as it goes; `copied` slices of it may be sent. */
int weft_device_stage(struct weft_exec_op *op, struct weft_inflight *inflight);
/* RECV: what has arrived goes into staging, and from there to its target. */
int weft_device_recv(struct weft_exec_op *op, struct weft_inflight *inflight);
/* PUT: finds out, when the step is set up, whether the transport reads or writes the memory by itself: direct, region. */
int weft_device_reach(struct weft_exec_op *op, struct weft_inflight *inflight);
/* What a note in the command queue is about. */
enum weft_command_queue_what {
    WEFT_NOTE_LOADED,   /* the shadows are filled */
    WEFT_NOTE_COPIED,   /* SEND: amount slices are in staging; direct: the device has done with them */
    WEFT_NOTE_FINAL,    /* SEND, shared: amount slices are there */
    WEFT_NOTE_CONSUMED, /* RECV: amount bytes have been used */
};
int weft_device_note(struct weft_exec_op *op, const struct weft_inflight *inflight,
                     enum weft_command_queue_what what, uint64_t amount);
/* WEFT_NOTE_CONSUMED is due. */
int weft_device_consumed(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position);

/* direct.c */
/* Whether a SEND offers its memory itself. */
int weft_direct_may(struct weft_exec_op *op, const struct weft_inflight *inflight);
/* SEND: offers it, and announces those slices that may be read. */
int weft_direct_send(struct weft_exec_op *op, struct weft_inflight *inflight);
/* SEND: from here on the message is staged. */
void weft_direct_stage_instead(struct weft_exec_op *op, struct weft_inflight *inflight);
/* RECV: takes the offer, or refuses it. */
int weft_direct_take(struct weft_exec_op *op, struct weft_inflight *inflight,
                     const struct weft_wire_device_offer *offer);
int weft_direct_recv(struct weft_exec_op *op, struct weft_inflight *inflight);
/* RECV: the kind has refused the first work on the sender's memory, of which none is queued. It will be refused, and come staged. 0: it
 * is too late for that, or the message is not read so. */
int weft_direct_decline(struct weft_exec_op *op, struct weft_inflight *inflight);
/* RECV: the device has worked on what was read: whether it was still the message. */
int weft_direct_check(const struct weft_exec_op *op, const struct weft_inflight *inflight);
/* How many bytes of a RECV its readers may work on: far enough to keep the device busy, and little enough to end soon. */
size_t weft_direct_limit(const struct weft_inflight *inflight);
/* How much is queued before others get a turn, who may queue what follows from it. */
static inline size_t weft_direct_piece(const struct weft_inflight *inflight)
{
    return WEFT_RBUFS * inflight->slice_bytes;
}
/* The message's end, at either side. A SEND that ends early waits until its memory is no longer read. */
void weft_direct_release(struct weft_exec_op *op, struct weft_inflight *inflight);

#endif
