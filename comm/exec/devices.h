/* SPDX-License-Identifier: Apache-2.0 */
/* What operations on device memory do otherwise than those on host memory. The executor knows it by this table alone; comm/exec/device defines
 * it (comm/exec/device/ops.h), and whoever makes an executor passes it in (weft_exec_options.devices).
 *
 * Entries about an operation are called only if it has a command queue, those about a step in flight only if its operation has `device`
 * set, and `pay`, `stop` and `close` only if the executor has `programs`. The others say when.
 */
#ifndef WEFT_COMM_EXEC_DEVICES_H
#define WEFT_COMM_EXEC_DEVICES_H

#include <stddef.h>
#include <stdint.h>

struct weft_exec;
struct weft_exec_op;
struct weft_inflight;
struct weft_wire_device_offer;
struct weft_wire_header;

struct weft_exec_device_ops {
    /* --- an operation or transfer; those that return int answer 0 or the status it fails with */
    int (*begin)(struct weft_exec_op *op);
    /* Runs it as far as it goes. */
    int (*run)(struct weft_exec_op *op);
    /* Deals with what the command queue has done. Returns how much that was; the operation may have failed. */
    int (*look)(struct weft_exec_op *op);
    /* It ends, early or not. */
    void (*end)(struct weft_exec_op *op);
    /* What it waits for while its phase is WEFT_PHASE_VOTES. */
    void (*describe)(const struct weft_exec_op *op, char *text, size_t capacity);

    /* --- a step in flight */
    /* SEND, RECV: it has been set up; finds out how the device and the transport share the work. */
    int (*open)(struct weft_exec_op *op, struct weft_inflight *inflight);
    /* SEND: brings its bytes to where they leave from: `copied` slices of it may be sent. Those of one that is `shared` have been offered. */
    int (*send)(struct weft_exec_op *op, struct weft_inflight *inflight);
    /* SEND, `shared`: the peer cannot use what has been offered. */
    void (*refused)(struct weft_exec_op *op, struct weft_inflight *inflight);
    /* RECV: takes an offer of device memory, or sets `refuses`. */
    int (*take)(struct weft_exec_op *op, struct weft_inflight *inflight,
                const struct weft_wire_device_offer *offer);
    /* RECV: brings what has arrived to its target. */
    int (*recv)(struct weft_exec_op *op, struct weft_inflight *inflight);
    int (*compute)(struct weft_exec_op *op, struct weft_inflight *inflight);
    /* SEND, RECV: the end of one that is `shared`. */
    void (*release)(struct weft_exec_op *op, struct weft_inflight *inflight);

    /* --- device collectives (comm/exec/device/votes.h) */
    /* Whether a VOTE can be one at all, whatever it is for; ahead: of what has begun here. */
    int (*vote_check)(struct weft_exec *exec, const struct weft_wire_header *header, int32_t ahead);
    /* A VOTE that has been checked, or a MAILBOX. op: the running operation that a VOTE is for, with a command queue or without; NULL: it is
     * over. */
    int (*message)(struct weft_exec *exec, struct weft_exec_op *op, const struct weft_wire_header *header,
                   const void *payload);
    /* Sends what could not be sent to others before. */
    int (*pay)(struct weft_exec *exec);
    /* All operations end: what runs on the device without the host is to end soon. Does not wait. */
    void (*stop)(struct weft_exec *exec);
    /* Frees it. All operations have ended. */
    void (*close)(struct weft_exec *exec);
    /* What an executor has allocated for it. */
    size_t (*bytes)(const struct weft_exec *exec);
};

#endif
