/* SPDX-License-Identifier: Apache-2.0 */
/* One operation of a call, from its operands to the executor: on whose memory it works, what is done to its input before, its plan. A call is
 * one of them, a list several. */
#ifndef WEFT_COMM_CALLS_PART_H
#define WEFT_COMM_CALLS_PART_H

#include "comm/calls/collective.h"
#include "comm/core/work.h"
#include "comm/regions/device_memory.h"

/* Whose memory the operands are. Needs no lock. */
int weft_operands_where(const struct weft_comm *comm, const struct weft_operands *operands,
                        struct weft_where *where);

/* Takes a command queue for the part; where: as above, of a device. on_host becomes WEFT_SHADOW_NONE where the device lacks the reduction. [lock] */
int weft_part_take_command_queue(struct weft_comm *comm, const struct weft_operands *operands,
                                 const struct weft_where *where, struct weft_part *part);

/* Starts one operation of a call that is counted elsewhere: the plan's algorithm is call's; kept: of the call's like, NULL where progress
 * starts it, or the call is several. Where as many operations are in
 * flight as there may be, one must end first. [lock] */
int weft_part_start(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_call *call, struct weft_kept_call *kept, struct weft_part *part);

/* The same of a part whose command queue has been taken, and whose room has been found. What fails ends the part. [lock] */
int weft_part_start_placed(struct weft_comm *comm, const struct weft_operands *operands,
                           const struct weft_call *call, struct weft_kept_call *kept, struct weft_part *part);

#endif
