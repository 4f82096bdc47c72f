/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on memory of a kind of device, between real ranks: what any kind must do. In a body of test_ranks_*(). */
#ifndef WEFT_TESTS_DEVICE_CALLS_H
#define WEFT_TESTS_DEVICE_CALLS_H

#include "tests/support/collective_sweep.h"

/* Every collective with buffers where place says, operations that only the host can do, premultiplied sums, lists, pinned
 * memory, calls on two devices at once, where kind has two, and memory that is freed and allocated again. stats: of the collectives. 0, or 1 after a line on stderr. */
int device_calls_check(const struct weft_device_kind *kind, collective_place *place, weft_comm_stats *stats);

/* Places, on the kind that the calling thread has named (the check does): all is on a device, of which ranks have one each as far as
 * there are as many; some ranks' calls, and some of their buffers, are the host's. */
void device_calls_by(const struct weft_device_kind *kind);
void device_calls_together(uint32_t rank, uint32_t seed, struct case_device *device);
void device_calls_scatter(uint32_t rank, uint32_t seed, struct case_device *device);

#endif
