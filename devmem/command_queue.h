/* SPDX-License-Identifier: Apache-2.0 */
/* Command queues: one operation's work on a device, and how the host keeps up with it.
 *
 * A command queue is a queue of one device with a list of notes. Whoever queues work writes down behind it what is to be done when the
 * device has got that far, and asks from time to time what has become due. Work of a command queue runs in order, so what is queued
 * later may use what was queued before; only what others than the device read or write (the network, the host) waits
 * for notes. An operation has a command queue of its own from its beginning to its end, so that none waits behind another's.
 *
 * Nothing that may take for ever is queued into a command queue, so that an operation which ends early leaves no work behind that could touch
 * the program's memory later. Where the program's streams are the host asks by itself (comm/exec/stream.h).
 *
 * Command queues are opened when they are needed and kept for the next operation. One that still has work when it is given back is set aside
 * until that is done, with the memory that the work uses.
 *
 * Threads: the caller serialises everything on one pool, its command queues included (the context's lock), but opening one for it. Opening
 * and getting a command queue, getting its memory and destroying the pool may wait for the device for a bounded time; nothing else does.
 */
#ifndef WEFT_DEVMEM_COMMAND_QUEUE_H
#define WEFT_DEVMEM_COMMAND_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "devmem/devices.h"

struct weft_command_queues;
struct weft_command_queue;

/* What becomes due; of no meaning to the command queue. */
struct weft_command_queue_note {
    uint32_t what, who;
    uint64_t amount;
};

int weft_command_queues_create(struct weft_command_queues **queues);
/* All command queues have been given back. Waits up to a second for those that still have work; what is not done then is left to the
 * driver, which is logged. NULL is allowed. */
void weft_command_queues_destroy(struct weft_command_queues *queues);

/* Whether the pool has had a command queue of this device: 1 or 0. The first one of a process takes long: the device loads what it computes
 * with. */
int weft_command_queues_know(const struct weft_command_queues *queues, const struct weft_device_kind *kind,
                             int ordinal);
/* A command queue of no pool yet. Any thread. */
int weft_command_queue_open(const struct weft_device_kind *kind, int ordinal,
                            struct weft_command_queue **commands);
/* Makes it one of the pool's that has been got. */
void weft_command_queues_join(struct weft_command_queues *queues, struct weft_command_queue *commands);

int weft_command_queue_get(struct weft_command_queues *queues, const struct weft_device_kind *kind,
                           int ordinal, struct weft_command_queue **commands);
/* Opens its stream wait if that is still closed. NULL is allowed. */
void weft_command_queue_put(struct weft_command_queue *commands);

const struct weft_device_kind *weft_command_queue_kind(const struct weft_command_queue *commands);
int weft_command_queue_ordinal(const struct weft_command_queue *commands);

/* As the kind's operations of these names. A command queue that has failed answers what it has failed with. Copies and reductions that the
 * kind refuses (WEFT_UNSUPPORTED) leave the command queue as it was. */
int weft_command_queue_copy(struct weft_command_queue *commands, void *destination, const void *source,
                            size_t size);
int weft_command_queue_reduce(struct weft_command_queue *commands,
                              const struct weft_device_reduction *reduction);
/* Also this is bounded: the caller sets the program's stop when it does not get on. */
int weft_command_queue_run(struct weft_command_queue *commands,
                           const struct weft_device_collective *collective);
/* Puts a closed wait into the stream; once per operation. It is opened by open(), behind what the command queue holds by then, or with
 * the command queue's end. */
int weft_command_queue_close_wait(struct weft_command_queue *commands, void *stream);
int weft_command_queue_open_wait(struct weft_command_queue *commands);
/* Counts work that waits for others as a stream at a closed wait does, or, with -1, that does so no more. Any thread. */
void weft_device_waits_count(int change);
/* Calls act(arg) if no command queue of this process has a closed stream wait; none gets one meanwhile. Any thread; act() uses no command
 * queue. */
void weft_command_queues_without_waits(void (*act)(void *arg), void *arg);
/* Whether reductions in command queues of that ordinal can use the memory, which is the kind's; what the driver needs for it is done first,
 * if no command queue of this process has a closed stream wait. Any thread. */
int weft_command_queues_reach(const struct weft_device_kind *kind, int ordinal, const void *memory);
/* Puts a closed wait into a stream for no command queue yet. Whoever has it opens it by weft_device_wait_open(), or gives it to a command queue. Any
 * thread. */
int weft_device_wait_close(const struct weft_device_kind *kind, int ordinal, void *stream,
                           struct weft_device_wait **wait);
/* Opens it now; frees one that is open, or will be. */
int weft_device_wait_open_now(const struct weft_device_kind *kind, int ordinal,
                              struct weft_device_wait *wait);
void weft_device_wait_forget(const struct weft_device_kind *kind, struct weft_device_wait *wait);
/* Both. devmem/wait.c */
void weft_device_wait_open(const struct weft_device_kind *kind, int ordinal, struct weft_device_wait *wait);
/* A wait that the caller has put into a stream of this kind is the command queue's from now on, as if wait_stream() had made it. */
void weft_command_queue_take_wait(struct weft_command_queue *commands, struct weft_device_wait *wait);
/* What others than the device have written into its memory, and the host knows to be there, is seen by what is queued from now
 * on. As the kind's operation; no matter of the command queue's work. */
int weft_command_queue_flush_writes(struct weft_command_queue *commands);

/* Becomes due when everything queued so far is done, after the next flush(). */
int weft_command_queue_note(struct weft_command_queue *commands, const struct weft_command_queue_note *note);
/* One mark for all notes, and all work, since the last. Nothing where there is none. */
int weft_command_queue_flush(struct weft_command_queue *commands);
/* 1: *note is due, and is forgotten here; 0: none is; negative: work has failed, and so has the command queue; so it answers from then on. */
int weft_command_queue_poll(struct weft_command_queue *commands, struct weft_command_queue_note *note);
/* Whether all work is done and no note is left. Asks nobody: what poll() has found so far. */
int weft_command_queue_is_idle(const struct weft_command_queue *commands);
/* Forgets all notes and waits until all work is done: WEFT_OK, WEFT_TIMEOUT without a text, or what it has failed with. */
int weft_command_queue_drain(struct weft_command_queue *commands, int64_t timeout_ms);

/* For whose memory the command queue's work reads by a borrowed mapping (devmem/borrowed.h). Any thread, also while the pool's is busy: the
 * command queue is there until it is let go. stop(): takes no more work, and answers WEFT_PEER_FAILED to more; waits until what it holds is
 * done: WEFT_OK, also where that has failed, WEFT_TIMEOUT, or why it cannot be asked. It is of no use for another operation then. */
void weft_command_queue_borrows(struct weft_command_queue *commands);
void weft_command_queue_hold_on(struct weft_command_queue *commands);
void weft_command_queue_let_go(struct weft_command_queue *commands);
int weft_command_queue_stop(struct weft_command_queue *commands, int64_t timeout_ms);

/* Device memory of the command queue's, at least size bytes, aligned to 64: for each use the same memory at every call until the command
 * queue is given back. Growing it forgets what was in it; nothing that uses the smaller one may be queued. */
enum weft_command_queue_use {
    WEFT_COMMAND_QUEUE_PLAN,
    WEFT_COMMAND_QUEUE_INPUT,
    WEFT_COMMAND_QUEUE_LIST,
    WEFT_COMMAND_QUEUE_USES
};
int weft_command_queue_memory(struct weft_command_queue *commands, enum weft_command_queue_use use,
                              size_t size, void **memory);

/* Memory that is more than the pool keeps: devmem/command_queue_surplus.h. Retired: that others may still write into, and that stays until the
 * pool is destroyed. */
struct weft_command_queue_surplus **weft_command_queues_surplus(struct weft_command_queues *queues,
                                                                int is_retired);
struct weft_command_queues *weft_command_queue_pool(const struct weft_command_queue *commands);

/* Whether the device has this reduction: 1 or 0. */
int weft_command_queue_reduces(struct weft_command_queue *commands, weft_dtype dtype, weft_op op);

/* Memory that the command queue's work may use: release(arg, index, memory, size) is called when all of it is done, at once where it is.
 * Where it never is done it is never called. */
typedef void weft_command_queue_release(void *arg, uint32_t index, void *memory, size_t size);
void weft_command_queue_keep(struct weft_command_queue *commands, weft_command_queue_release *release,
                             void *arg, uint32_t index, void *memory, size_t size);

#endif
