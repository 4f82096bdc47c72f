/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/mismatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "comm/exec/internal.h"

/* Name of the first field in which two digests differ. */
static const char *difference_of(uint32_t mine, uint32_t theirs)
{
    uint32_t bits = mine ^ theirs;
    if (!bits)
        return "count";
    if (bits & 0xff00001f)
        return "order of calls";
    if (bits & 0x3e00)
        return "type";
    if (bits & 0x7c000)
        return "reduction";
    return bits & 0xf00000 ? "root" : "algorithm";
}

/* How all suspicions begin. Returns the length. */
static size_t begin(const struct weft_call *call, const char *what, uint32_t peer, uint32_t rank, char *text,
                    size_t capacity)
{
    return (size_t)snprintf(text, capacity, "rank %u and rank %u disagree on the %s of call #%" PRIu64, peer,
                            rank, what, call->sequence);
}

void weft_mismatch_message(uint32_t digest, const struct weft_call *call,
                           const struct weft_wire_header *header, uint32_t rank, char *text, size_t capacity)
{
    const char *difference = difference_of(digest, header->digest);
    uint64_t count = weft_call_count(call), theirs = header->count;
    int same = digest == header->digest, hashed = weft_call_is_hashed(call);
    if (same && call->root >= 0 && !weft_call_same_root(theirs, count))
        difference = "root";
    else if (same && hashed)
        difference = "counts";
    size_t used = begin(call, difference, header->source, rank, text, capacity);
    if (strcmp(difference, "root") == 0) /* of one collective, then */
        snprintf(text + used, capacity - used, ": %" PRId64 " and %" PRId32,
                 (int64_t)(theirs >> WEFT_CALL_ROOT_SHIFT) - 1, call->root);
    else if (same && !hashed)
        snprintf(text + used, capacity - used, ": %" PRIu64 " and %" PRIu64,
                 call->root >= 0 ? weft_call_without_root(theirs) : theirs, call->count);
}

void weft_mismatch_cell(const struct weft_call *call, uint32_t digest, uint64_t bytes, uint64_t theirs,
                        uint32_t peer, uint32_t rank, char *text, size_t capacity)
{
    const char *difference = difference_of(weft_call_digest(call), digest);
    size_t used = begin(call, difference, peer, rank, text, capacity);
    if (strcmp(difference, "root") == 0) { /* of sixteen ranks at most, then */
        snprintf(text + used, capacity - used, ": %u and %" PRId32, ((digest >> 20 & 0xf) + 15) % 16,
                 call->root);
        return;
    }
    snprintf(text + used, capacity - used, " (%" PRIu64 " and %" PRIu64 " bytes)", theirs, bytes);
}

void weft_mismatch_count(const struct weft_call *call, uint64_t count, uint64_t theirs, uint32_t peer,
                         uint32_t rank, char *text, size_t capacity)
{
    size_t used = begin(call, "count", peer, rank, text, capacity);
    snprintf(text + used, capacity - used, ": %" PRIu64 " and %" PRIu64, theirs, count);
}

void weft_mismatch_left(const struct weft_exec_op *op, const struct weft_wire_header *header,
                        uint32_t expected, char *text, size_t capacity)
{
    snprintf(text, capacity,
             "rank %u has sent rank %u message %u of call #%" PRIu64 " (%s), in which it expects %u",
             header->source, op->exec->options.rank, header->message, op->request.call.sequence,
             weft_call_name(&op->request.call), expected);
}

int weft_mismatch_slice(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                        const struct weft_wire_header *header)
{
    return weft_fail(
        WEFT_MISMATCH,
        "rank %u sent %u bytes as slice %u of message %u in operation %u, this rank expected %zu "
        "in %u slices: do all ranks use the same count?",
        header->source, header->size, header->slice, header->message, op->sequence, inflight->length,
        inflight->slices);
}

int weft_mismatch_offer(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                        const struct weft_wire_header *header, uint64_t offered)
{
    return weft_fail(WEFT_MISMATCH,
                     "rank %u offered %" PRIu64
                     " bytes as message %u in operation %u, this rank expected %zu: do all "
                     "ranks use the same count?",
                     header->source, offered, header->message, op->sequence, inflight->length);
}

/* at_least: " at least", where a size travels cut. */
static int word_size(const struct weft_exec_op *op, uint32_t sender, uint64_t sent, uint32_t receiver,
                     uint64_t expected, const char *at_least)
{
    size_t element_bytes = op->request.element_bytes;
    return weft_fail(WEFT_MISMATCH,
                     "%s #%" PRIu64 ": rank %u sends %" PRIu64
                     " elements to rank %u, which expects%s %" PRIu64,
                     weft_call_name(&op->request.call), op->request.call.sequence, sender,
                     sent / element_bytes, receiver, at_least, expected / element_bytes);
}

/* Where both directions differ, that of the lower rank's message: so both ends say the same. */
static int pair_differs(const struct weft_exec_op *op, uint32_t there, uint64_t pair)
{
    uint32_t here = op->exec->options.rank;
    uint64_t sent = op->layout.input.lengths[there], expected = op->layout.output.lengths[there];
    uint64_t their_sent = weft_call_pair_sent(pair), their_expected = weft_call_pair_expected(pair);
    int is_cut = weft_call_pair_is_long(pair) && their_expected == WEFT_CALL_EXPECTED_MAX;
    int sends = is_cut ? sent < their_expected || expected == their_sent : sent != their_expected;
    if (sends && (here < there || expected == their_sent))
        return word_size(op, here, sent, there, their_expected, is_cut ? " at least" : "");
    return word_size(op, there, their_sent, here, expected, "");
}

int weft_mismatch_size(const struct weft_exec_op *op, const struct weft_inflight *inflight,
                       const struct weft_wire_header *header)
{
    uint32_t here = op->exec->options.rank, there = header->source;
    uint64_t theirs = weft_call_without_root(header->count);
    if (op->layout.paired)
        return pair_differs(op, there, header->count);
    return inflight->step.kind == WEFT_STEP_SEND ? word_size(op, here, inflight->length, there, theirs, "")
                                                 : word_size(op, there, theirs, here, inflight->length, "");
}
