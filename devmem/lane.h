/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: one operation's work on a device, and how the host keeps up with it.
 *
 * A lane is a queue of one device with a list of notes. Whoever queues work writes down behind it what is to be done when the
 * device has got that far, and asks from time to time what has become due. Work of a lane runs in order, so what is queued
 * later may use what was queued before; only what others than the device read or write (the network, the host) waits
 * for notes. An operation has a lane of its own from its beginning to its end, so that none waits behind another's.
 *
 * Nothing that may take for ever is queued into a lane, so that an operation which ends early leaves no work behind that could touch
 * the program's memory later. Where the program's streams are the host asks by itself (comm/stream.h).
 *
 * Lanes are opened when they are needed and kept for the next operation. One that still has work when it is given back is set aside
 * until that is done, with the memory that the work uses.
 *
 * Threads: the caller serialises everything on one pool, its lanes included (the context's lock), but opening one for it. Opening and getting
 * a lane, getting its memory and destroying the pool may wait for the device for a bounded time; nothing else does.
 */
#ifndef WEFT_DEVMEM_LANE_H
#define WEFT_DEVMEM_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "devmem/devices.h"

struct weft_lanes;
struct weft_lane;

/* What becomes due; of no meaning to the lane. */
struct weft_lane_note {
    uint32_t what, who;
    uint64_t amount;
};

int weft_lanes_create(struct weft_lanes **lanes);
/* All lanes have been given back. Waits up to a second for those that still have work; what is not done then is left to the
 * driver, which is logged. NULL is allowed. */
void weft_lanes_destroy(struct weft_lanes *lanes);

/* Whether the pool has had a lane of this device: 1 or 0. The first one of a process takes long: the device loads what it computes with. */
int weft_lanes_know(const struct weft_lanes *lanes, const struct weft_device_kind *kind, int ordinal);
/* A lane of no pool yet. Any thread. */
int weft_lane_open(const struct weft_device_kind *kind, int ordinal, struct weft_lane **lane);
/* Makes it one of the pool's that has been got. */
void weft_lanes_join(struct weft_lanes *lanes, struct weft_lane *lane);

int weft_lane_get(struct weft_lanes *lanes, const struct weft_device_kind *kind, int ordinal,
                  struct weft_lane **lane);
/* Opens its gate if that is still closed. NULL is allowed. */
void weft_lane_put(struct weft_lane *lane);

const struct weft_device_kind *weft_lane_kind(const struct weft_lane *lane);
int weft_lane_ordinal(const struct weft_lane *lane);

/* As the kind's operations of these names. A lane that has failed answers what it has failed with. Copies and reductions that the kind
 * refuses (WEFT_UNSUPPORTED) leave the lane as it was. */
int weft_lane_copy(struct weft_lane *lane, void *destination, const void *source, size_t size);
int weft_lane_reduce(struct weft_lane *lane, const struct weft_device_reduction *reduction);
/* Also this is bounded: the caller sets the program's stop when it does not get on. */
int weft_lane_run(struct weft_lane *lane, const struct weft_device_program *program);
/* Puts a closed gate into the stream; once per operation. It is opened by open(), behind what the lane holds by then, or with
 * the lane's end. */
int weft_lane_hold(struct weft_lane *lane, void *stream);
int weft_lane_open_gate(struct weft_lane *lane);
/* Counts work that waits for others as a stream at a gate does, or, with -1, that does so no more. Any thread. */
void weft_gates_count(int change);
/* Calls act(arg) if no lane of this process has a closed gate; none gets one meanwhile. Any thread; act() uses no lane. */
void weft_lanes_without_gates(void (*act)(void *arg), void *arg);
/* Whether reductions in lanes of that ordinal can use the memory, which is the kind's; what the driver needs for it is done first, if
 * no lane of this process has a closed gate. Any thread. */
int weft_lanes_reach(const struct weft_device_kind *kind, int ordinal, const void *memory);
/* Puts a closed gate into a stream for no lane yet. Whoever has it opens it by weft_gate_open(), or gives it to a lane. Any thread. */
int weft_gate_close(const struct weft_device_kind *kind, int ordinal, void *stream,
                    struct weft_device_gate **gate);
/* Opens it now; frees one that is open, or will be. */
int weft_gate_open_now(const struct weft_device_kind *kind, int ordinal, struct weft_device_gate *gate);
void weft_gate_forget(const struct weft_device_kind *kind, struct weft_device_gate *gate);
/* Both. devmem/gate.c */
void weft_gate_open(const struct weft_device_kind *kind, int ordinal, struct weft_device_gate *gate);
/* A gate that the caller has put into a stream of this kind is the lane's from now on, as if hold() had made it. */
void weft_lane_take_gate(struct weft_lane *lane, struct weft_device_gate *gate);
/* What others than the device have written into its memory, and the host knows to be there, is seen by what is queued from now
 * on. As the kind's operation; no matter of the lane's work. */
int weft_lane_flush_writes(struct weft_lane *lane);

/* Becomes due when everything queued so far is done, after the next flush(). */
int weft_lane_note(struct weft_lane *lane, const struct weft_lane_note *note);
/* One mark for all notes, and all work, since the last. Nothing where there is none. */
int weft_lane_flush(struct weft_lane *lane);
/* 1: *note is due, and is forgotten here; 0: none is; negative: work has failed, and so has the lane; so it answers from then on. */
int weft_lane_poll(struct weft_lane *lane, struct weft_lane_note *note);
/* Whether all work is done and no note is left. Asks nobody: what poll() has found so far. */
int weft_lane_is_idle(const struct weft_lane *lane);
/* Forgets all notes and waits until all work is done: WEFT_OK, WEFT_TIMEOUT without a text, or what it has failed with. */
int weft_lane_drain(struct weft_lane *lane, int64_t timeout_ms);

/* For who has lent memory that the lane's work reads (devmem/loan.h). Any thread, also while the pool's is busy: the lane is there until
 * it is let go. stop(): takes no more work, and answers WEFT_PEER_FAILED to more; waits until what it holds is done: WEFT_OK, also where
 * that has failed, WEFT_TIMEOUT, or why it cannot be asked. It is of no use for another operation then. */
void weft_lane_borrows(struct weft_lane *lane);
void weft_lane_hold_on(struct weft_lane *lane);
void weft_lane_let_go(struct weft_lane *lane);
int weft_lane_stop(struct weft_lane *lane, int64_t timeout_ms);

/* Device memory of the lane's, at least size bytes, aligned to 64: for each use the same memory at every call until the lane is
 * given back. Growing it forgets what was in it; nothing that uses the smaller one may be queued. */
enum weft_lane_use { WEFT_LANE_PLAN, WEFT_LANE_INPUT, WEFT_LANE_LIST, WEFT_LANE_USES };
int weft_lane_memory(struct weft_lane *lane, enum weft_lane_use use, size_t size, void **memory);

/* Memory that is more than the pool keeps: devmem/lane_surplus.h. Retired: that others may still write into, and that stays until the
 * pool is destroyed. */
struct weft_lane_surplus **weft_lanes_surplus(struct weft_lanes *lanes, int is_retired);
struct weft_lanes *weft_lane_pool(const struct weft_lane *lane);

/* Whether the device has this reduction: 1 or 0. */
int weft_lane_reduces(struct weft_lane *lane, weft_dtype dtype, weft_op op);

/* Memory that the lane's work may use: release(arg, index, memory, size) is called when all of it is done, at once where it is.
 * Where it never is done it is never called. */
typedef void weft_lane_release(void *arg, uint32_t index, void *memory, size_t size);
void weft_lane_keep(struct weft_lane *lane, weft_lane_release *release, void *arg, uint32_t index,
                    void *memory, size_t size);

#endif
