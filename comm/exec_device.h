/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on memory of devices, for the other files of the executor: begin and end, and how their flights move. */
#ifndef WEFT_COMM_EXEC_DEVICE_H
#define WEFT_COMM_EXEC_DEVICE_H

#include "comm/exec_internal.h"

/* exec_device.c */
/* The operation or transfer begins: op->request.lane is set. */
int weft_device_begin(struct weft_exec_op *op);
/* Runs it as far as it goes. 0 or the status it fails with. */
int weft_device_run(struct weft_exec_op *op);
/* Deals with what the lane has done. Returns how much that was; the operation may have failed. */
int weft_device_look(struct weft_exec_op *op);
/* The operation ends, early or not. */
void weft_device_end(struct weft_exec_op *op);
/* All operations of the executor end now, and share one wait, so that those on a device that hangs do not add up. */
void weft_device_stop(struct weft_exec *exec);
/* How long this rank may still wait for what other ranks' devices do with its memory: all that ends with the executor together. */
int64_t weft_device_recall_ms(struct weft_exec *exec);
/* A rank of this process. */
static inline int weft_peer_is_here(const struct weft_exec_peer *peer, const struct weft_shares *shares)
{
    return peer->process == weft_share_instance(shares);
}
int weft_device_compute(struct weft_exec_op *op, struct weft_flight *flight);
/* Staging memory of an operation, which its device reads and writes if it has one. NULL when none can be had. */
uint8_t *weft_stage_get(struct weft_exec_op *op, uint32_t transport, size_t size);
void weft_stage_put(struct weft_exec_op *op, uint32_t transport, void *memory, size_t size);
/* Fails with WEFT_NOMEM: weft_stage_get() has given no memory to be used for messages of rank, and says why. */
int weft_stage_missing(const char *what, size_t size, uint32_t rank);

/* exec_device_message.c */
/* SEND: queues copies into staging, if any, as far as it goes; `copied` slices of it may be sent. */
int weft_device_stage(struct weft_exec_op *op, struct weft_flight *flight);
/* RECV: what has arrived goes into staging, and from there to its target. */
int weft_device_recv(struct weft_exec_op *op, struct weft_flight *flight);
/* Only a transport with one of these is asked: others may copy by the processor, which need not reach the memory. */
#define WEFT_CAP_DEVICE_MEMORY (WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER)
/* PUT: finds out, when the flight is set up, whether the transport reads or writes the memory by itself: direct, region. */
int weft_device_reach(struct weft_exec_op *op, struct weft_flight *flight);
/* What a note in the lane is about. */
enum weft_lane_what {
    WEFT_LANE_LOADED,   /* the shadows are filled */
    WEFT_LANE_COPIED,   /* SEND: amount slices are in staging; direct: the device has done with them */
    WEFT_LANE_FINAL,    /* SEND, shared: amount slices are there */
    WEFT_LANE_CONSUMED, /* RECV: amount bytes have been used */
};
int weft_device_note(struct weft_exec_op *op, const struct weft_flight *flight, enum weft_lane_what what,
                     uint64_t amount);
/* WEFT_LANE_CONSUMED is due. */
int weft_device_consumed(struct weft_exec_op *op, struct weft_flight *flight, size_t position);

/* exec_device_direct.c */
/* Whether a SEND offers its memory itself. */
int weft_direct_may(struct weft_exec_op *op, const struct weft_flight *flight);
/* SEND: `copied` slices of it may be read. */
int weft_direct_look(struct weft_exec_op *op, struct weft_flight *flight);
/* SEND: offers, and tells that the first slices may be read. */
int weft_direct_tell(struct weft_exec_op *op, struct weft_flight *flight, uint32_t ready);
/* SEND: REFUSE has come. */
int weft_direct_refused(struct weft_exec_op *op, struct weft_flight *flight);
/* RECV: takes the offer, or refuses it. */
int weft_direct_take(struct weft_exec_op *op, struct weft_flight *flight,
                     const struct weft_wire_device_offer *offer);
/* RECV: says that it refuses. */
int weft_direct_refuse(struct weft_exec_op *op, struct weft_flight *flight);
int weft_direct_recv(struct weft_exec_op *op, struct weft_flight *flight);
/* RECV: the kind has refused the first work on the sender's memory, of which none is queued. It will be refused, and come staged. 0: it
 * is too late for that, or the message is not read so. */
int weft_direct_decline(struct weft_exec_op *op, struct weft_flight *flight);
/* RECV: the device has worked on what was read: whether it was still the message. */
int weft_direct_check(const struct weft_exec_op *op, const struct weft_flight *flight);
/* How many bytes of a RECV its readers may work on: far enough to keep the device busy, and little enough to end soon. */
size_t weft_direct_limit(const struct weft_flight *flight);
/* How much is queued before others get a turn, who may queue what follows from it. */
static inline size_t weft_direct_piece(const struct weft_flight *flight)
{
    return WEFT_LANDINGS * flight->slice_bytes;
}
/* The message's end, at either side. A SEND that ends early waits until its memory is no longer read. */
void weft_direct_release(struct weft_exec_op *op, struct weft_flight *flight);

#endif
