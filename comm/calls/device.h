/* SPDX-License-Identifier: Apache-2.0 */
/* Calls without the executor on device memory: small ones, which go over the cache lines. */
#ifndef WEFT_COMM_CALLS_DEVICE_H
#define WEFT_COMM_CALLS_DEVICE_H

#include "comm/calls/collective.h"
#include "comm/regions/device_memory.h"

/* Copies of a call's buffers on the host, in blocks of one size. */
struct weft_staged {
    struct weft_operands operands; /* of the copies */
    struct weft_command_queue *commands;
    void *memory;
    size_t bytes;
};

/* Copies for a call; weft_staged_close() gives them back, also where this fails. [lock] */
int weft_staged_open(struct weft_comm *comm, const struct weft_operands *operands,
                     const struct weft_where *where, struct weft_staged *staged);
/* Copies what was received to where the operands have it: WEFT_AGAIN while the device does it, and then weft_staged_poll() says. [lock] */
int weft_staged_leave(struct weft_comm *comm, const struct weft_operands *operands,
                      const struct weft_staged *staged);
/* WEFT_OK: it has been done; WEFT_AGAIN; or what has failed. [lock] */
int weft_staged_poll(const struct weft_staged *staged);
/* Waits, for a bounded time, for what the device still has to do. [lock] */
void weft_staged_close(struct weft_comm *comm, struct weft_staged *staged);

/* A call that the cache lines serve, which only the host can do: run(comm, copies, arg) makes it on copies of the buffers, in blocks of
 * one size, and returns what the call returns. A copy that fails ends the communicator: the others would wait. Waits. */
typedef int weft_staged_call(struct weft_comm *comm, const struct weft_operands *copies, const void *arg);
int weft_staged_run(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_where *where, weft_staged_call *run, const void *arg);

#endif
