/* SPDX-License-Identifier: Apache-2.0 */
/* Work that keeps a lane from getting on: a program that waits for a word of the test's. */
#ifndef WEFT_TESTS_LANE_STALL_H
#define WEFT_TESTS_LANE_STALL_H

#include <stdint.h>

#include "devmem/lane.h"

struct lane_stall {
    const struct weft_device_kind *kind;
    uint64_t *words; /* pinned: what is awaited, and the stop */
};

/* Readies it for one lane of the kind. Fails the test where there is no memory. */
void lane_stall_open(struct lane_stall *stall, const struct weft_device_kind *kind);
/* What is queued in the lane from now on waits for lane_stall_end(). Returns what queueing it returned. */
int lane_stall_put(struct lane_stall *stall, struct weft_lane *lane);
void lane_stall_end(struct lane_stall *stall);
/* The lane's work has ended, or its queue has been closed. */
void lane_stall_close(struct lane_stall *stall);

#endif
