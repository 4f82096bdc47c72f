/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on memory of devices, above the executor: where an operation's input comes from, and what goes without the executor. */
#ifndef WEFT_COMM_DEVICE_CALL_H
#define WEFT_COMM_DEVICE_CALL_H

#include "comm/collective.h"
#include "comm/device_memory.h"

/* Whose memory the operands are. Needs no lock. */
int weft_operands_where(const struct weft_comm *comm, const struct weft_operands *operands,
                        struct weft_where *where);

/* Takes a lane for the part where the operands are memory of a device; otherwise the part stays as it is. [lock] */
int weft_part_place(struct weft_comm *comm, const struct weft_operands *operands, struct weft_part *part);

/* The same where it is known. on_host becomes WEFT_SHADOW_NONE where the device lacks the reduction. [lock] */
int weft_part_take_lane(struct weft_comm *comm, const struct weft_operands *operands,
                        const struct weft_where *where, struct weft_part *part);

/* An operation with a lane could not be started, with the text that weft_error_detail() has: the other ranks would wait for it, so
 * the communicator fails. Returns status. [lock] */
int weft_part_fail(struct weft_comm *comm, int status);

/* What the lane does to the input before the operation begins: multiplies it by the scalar, if that is not NULL, or copies it,
 * where it is in place and the plan cannot be. Sets the request's input. [lock] */
int weft_part_prepare_input(struct weft_part *part, const struct weft_operands *operands, const void *scalar,
                            struct weft_exec_request *request, int *in_place);

/* Copies of a call's buffers on the host, in blocks of one size. */
struct weft_staged {
    struct weft_operands operands; /* of the copies */
    struct weft_lane *lane;
    void *memory;
    size_t bytes;
};

/* The call of one rank alone, on a device: copies there, or through the host where that computes. */
struct weft_alone {
    struct weft_operands plain; /* one block on each side */
    struct weft_staged staged;  /* its lane, NULL: there is nothing to do; copies, where the host works */
    int on_host, computed;
};

/* Begins it. WEFT_OK: it is over; WEFT_AGAIN: goes on when the mark in the lane has happened, which its one note tells. [lock] */
int weft_alone_begin(struct weft_comm *comm, const struct weft_operands *operands,
                     const struct weft_where *where, struct weft_alone *alone);
/* The mark has happened. As weft_alone_begin(). [lock] */
int weft_alone_go_on(struct weft_comm *comm, struct weft_alone *alone);
/* After both; the lane may still be working. [lock] */
void weft_alone_end(struct weft_comm *comm, struct weft_alone *alone);
/* The same before it is over: waits for the lane, for a bounded time. [lock] */
void weft_alone_stop(struct weft_comm *comm, struct weft_alone *alone);
/* All of it; waits. */
int weft_device_run_alone(struct weft_comm *comm, const struct weft_operands *operands,
                          const struct weft_where *where);

/* A call that the cache lines serve, which only the host can do: run(comm, copies, arg) makes it on copies of the buffers, in blocks of
 * one size, and returns what the call returns. A copy that fails ends the communicator: the others would wait. Waits. */
typedef int weft_staged_call(struct weft_comm *comm, const struct weft_operands *copies, const void *arg);
int weft_staged_run(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_where *where, weft_staged_call *run, const void *arg);

#endif
