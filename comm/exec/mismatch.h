/* SPDX-License-Identifier: Apache-2.0 */
/* What is said where ranks are not in the same call: what a peer's message or cell shows here. When rank 0 has compared the calls of
 * all, its words replace these (comm/core/judge_compare.c). */
#ifndef WEFT_COMM_EXEC_MISMATCH_H
#define WEFT_COMM_EXEC_MISMATCH_H

#include <stddef.h>
#include <stdint.h>

#include "comm/exec/call.h"
#include "comm/exec/wire.h"

struct weft_exec_op;
struct weft_inflight;

/* Texts, of which who has them makes a suspicion. A message of another call than this rank's, whose digest is `digest`. */
void weft_mismatch_message(uint32_t digest, const struct weft_call *call,
                           const struct weft_wire_header *header, uint32_t rank, char *text, size_t capacity);
/* A cell of another call than this rank's, for which `bytes` and `theirs` have been published. */
void weft_mismatch_cell(const struct weft_call *call, uint32_t digest, uint64_t bytes, uint64_t theirs,
                        uint32_t peer, uint32_t rank, char *text, size_t capacity);
/* Two ranks have shown each other their counts. */
void weft_mismatch_count(const struct weft_call *call, uint64_t count, uint64_t theirs, uint32_t peer,
                         uint32_t rank, char *text, size_t capacity);
/* A message that no step of an operation expected, which has ended without. */
void weft_mismatch_left(const struct weft_exec_op *op, const struct weft_wire_header *header,
                        uint32_t expected, char *text, size_t capacity);

/* Fail with WEFT_MISMATCH: sizes of one message that both ends know, in calls that are the same otherwise. */
int weft_mismatch_slice(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                        const struct weft_wire_header *header);
int weft_mismatch_offer(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                        const struct weft_wire_header *header, uint64_t offered);
/* Of calls in which ranks know only their own sizes. */
int weft_mismatch_size(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                       const struct weft_wire_header *header);

#endif
