/* SPDX-License-Identifier: Apache-2.0 */
/* READ: a RECV whose sender offers its memory. What the transport maps is read where it lies; else it is pulled. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/exec/read.h"

#define STREAMED_BYTES (8u << 20) /* the end would push the beginning out of a cache */

static const struct weft_exec_peer *peer_of(const struct weft_exec_op *op,
                                            const struct weft_inflight *inflight)
{
    return &op->exec->peers[inflight->rank];
}

/* Offset of slice bytes within the token: offers are the whole message, staged ones a ring. */
static uint64_t token_offset(const struct weft_inflight *inflight, size_t position)
{
    if (!inflight->staging)
        return position;
    return position / inflight->slice_bytes % WEFT_STAGES * inflight->slice_bytes +
           weft_slice_offset(inflight, position);
}

/* How much of what the token stands for is read: token_offset() stays below this. The peer chose the token and
 * whether it is a ring, so the transport must find that much behind it. */
static size_t token_bytes(const struct weft_inflight *inflight)
{
    size_t ring = WEFT_STAGES * inflight->slice_bytes;
    return inflight->staging && ring < inflight->length ? ring : inflight->length;
}

int weft_read_map(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = peer_of(op, inflight);
    const void *mapped;
    int status = peer->ops->map(peer->link, &inflight->token, token_bytes(inflight), &mapped);
    if (status == WEFT_OK)
        inflight->mapped = mapped;
    return status;
}

int weft_read_check(struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    const struct weft_exec_peer *peer = peer_of(op, inflight);
    return inflight->mapped ? peer->ops->exposed(peer->link, &inflight->token) : WEFT_OK;
}

static void count_read(struct weft_exec_op *op, const struct weft_inflight *inflight, size_t size)
{
    struct weft_exec_stats *stats = &op->exec->stats;
    if (inflight->staging)
        return;
    stats->bytes_direct += size;
    *(inflight->mapped ? &stats->bytes_mapped : &stats->bytes_pulled) += size;
}

static uint8_t *scratch_get(struct weft_exec *exec, int index, size_t size)
{
    if (size > exec->scratch_bytes[index]) {
        free(exec->scratch[index]);
        exec->scratch_bytes[index] = (size + 63) / 64 * 64;
        exec->scratch[index] = aligned_alloc(64, exec->scratch_bytes[index]);
        if (!exec->scratch[index])
            exec->scratch_bytes[index] = 0;
    }
    return exec->scratch[index];
}

int weft_read_source(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position, size_t size,
                     int scratch, const uint8_t **source)
{
    count_read(op, inflight, size);
    if (inflight->mapped) {
        int status = weft_read_map(op, inflight);
        *source = inflight->mapped + token_offset(inflight, position);
        return status;
    }
    uint8_t *memory = scratch_get(op->exec, scratch, inflight->slice_bytes);
    if (!memory)
        return weft_fail(WEFT_NOMEM, "no memory for a slice of %zu bytes", inflight->slice_bytes);
    const struct weft_exec_peer *peer = peer_of(op, inflight);
    *source = memory;
    return peer->ops->pull(peer->link, &inflight->token, token_offset(inflight, position), memory, size, 0);
}

/* Whether what is read goes past the caches: a long message that nobody here reads on. A device does at once. Calls whose ways are measured
 * have that among them: trials.c. */
static int is_streamed(const struct weft_exec_op *op, const struct weft_inflight *inflight)
{
    return op->request.streaming || (inflight->length >= STREAMED_BYTES && !inflight->dependents &&
                                     !op->device && !(op->window && op->window->trial.begun_ns));
}

/* Reads size bytes from position on, which lie within a slice where the sender has staged them. */
static int fetch(struct weft_exec_op *op, struct weft_inflight *inflight, size_t position, size_t size,
                 uint8_t *target)
{
    const struct weft_exec_peer *peer = peer_of(op, inflight);
    if (!inflight->mapped)
        return peer->ops->pull(peer->link, &inflight->token, token_offset(inflight, position), target, size,
                               is_streamed(op, inflight) ? WEFT_PULL_STREAMING : 0);
    int status = weft_read_map(op, inflight);
    if (status != WEFT_OK)
        return status;
    const uint8_t *source = inflight->mapped + token_offset(inflight, position);
    if (is_streamed(op, inflight))
        weft_copy_streaming(target, source, size);
    else
        weft_copy(target, source, size);
    return weft_read_check(op, inflight);
}

int weft_read_slice(struct weft_exec_op *op, struct weft_inflight *inflight, uint32_t slice, uint8_t *target)
{
    return fetch(op, inflight, (size_t)slice * inflight->slice_bytes, weft_slice_size(inflight, slice),
                 target);
}

/* Up to where the next read goes. Both ends begin anew with each pull. */
static size_t read_end(const struct weft_inflight *inflight, size_t limit)
{
    uint32_t first = weft_slices_within(inflight, inflight->done), end = inflight->ready, most = 1;
    if (!inflight->mapped && !inflight->staging && !inflight->dependents)
        most = weft_exec_read_bytes((uint32_t)inflight->slice_bytes) / (uint32_t)inflight->slice_bytes;
    if (end > weft_slices_within(inflight, limit))
        end = weft_slices_within(inflight, limit);
    if (end > first + most)
        end = first + most;
    return weft_slices_bytes(inflight, end);
}

int weft_read_advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    size_t end = read_end(inflight, weft_inflight_limit(op, inflight));
    if (inflight->done >= end)
        return WEFT_OK;
    size_t size = end - inflight->done;
    int status = fetch(op, inflight, inflight->done, size, inflight->target + inflight->done);
    if (status != WEFT_OK)
        return status;
    count_read(op, inflight, size);
    op->work_bytes += size;
    inflight->done = inflight->visible = end;
    weft_inflight_wake(op, inflight);
    weft_inflight_again(op, inflight);
    return WEFT_OK;
}
