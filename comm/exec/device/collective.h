/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to a device collective: one rank's part as steps that the device works through by itself
 * (include/weft/device.h, run()).
 *
 * Ranks reach each other's mailboxes: device memory in which a rank receives. A message is
 *   SEND   a copy into the receiver's mailbox and a SIGNAL of a word there;
 *   RECV   an AWAIT of that word; who reads the message reads it in the mailbox.
 * Every message of an operation has a place of its own, so that no SEND ever waits: the k-th message from A to B lies
 * behind the k - 1 before it, each rounded up to 64 bytes, in A's part of B's mailbox, and makes the word of A there the number of
 * messages before this operation plus k. Both ends know all lengths from their own plans, and need not send them.
 *
 * A RECV into a SLOT or a CELL costs no copy: its readers read the mailbox. One into OUTPUT or TEMP is copied when a later
 * step touches the range, or at the end. A SEND of what the step just before has computed or copied becomes that step's second
 * destination: receive, reduce and send are one pass over the bytes then.
 *
 * Order. Steps stand in the order of the plan, but an AWAIT comes as late as it can: right before the first step that
 * touches what is received. Device collectives of ranks that all run never wait for each other in a circle: let X be the step before
 * which a rank awaits RECV R, whose SEND S has not been reached at its rank, because that awaits RECV R' before a step X'. All
 * steps before X' but RECVs are done there, so R' < X' <= S in the plan. Now take any run of the plans in windows of two steps, in
 * which a SEND ends when it is received: the verifier (algos/proof/verify.h) proves that such runs end. If X' < S, then R' is
 * not next to S, so it has ended there before S enters the window. If X' = S, then S reads what R' receives into memory (a SEND reads
 * no SLOT), and begins when R' has ended. Either way R' ends before S begins, and S begins before R ends. So along a chain of
 * ranks that wait for each other the ends of what they wait for come earlier and earlier in that run: no circle.
 *
 * A device collective that has ended has awaited every message to its rank: nobody writes into the mailbox any more.
 *
 * Pure: no I/O, no clock; nothing here touches the memory that the steps name.
 */
#ifndef WEFT_COMM_EXEC_DEVICE_COLLECTIVE_H
#define WEFT_COMM_EXEC_DEVICE_COLLECTIVE_H

#include "comm/exec/internal.h"

/* What passes between this rank and another one. */
struct weft_device_collective_channel {
    /* Found by measure(): bytes of this rank's part of the other's mailbox, and of the other's part of this rank's. */
    size_t out_bytes, in_bytes;
    uint32_t sends, receives;
    /* Given to write(): where those parts begin (aligned to 64), the words, and what they hold before. */
    uint8_t *outbox;
    const uint8_t *inbox;
    uint64_t *out_word, *in_word;
    uint64_t sent, received;
};

/* Fills the measures of channels[ranks], and how many steps there are at most. For equal calls. */
void weft_device_collective_measure(const struct weft_layout *layout, const struct weft_plan *plan,
                                    struct weft_device_collective_channel *channels, uint32_t *steps_max);

/* What a device collective computes with: elements of a reduction, or bytes. */
struct weft_device_collective_unit {
    size_t bytes;    /* of an element */
    uint32_t finish; /* avg: number of ranks, otherwise 0 */
};

/* Writes the steps, into room for as many as measure() counted. WEFT_NOMEM. */
int weft_device_collective_write(const struct weft_layout *layout, const struct weft_plan *plan,
                                 const struct weft_device_collective_unit *unit,
                                 const struct weft_device_collective_channel *channels,
                                 struct weft_device_step *steps, uint32_t *step_count);

#endif
