/* SPDX-License-Identifier: Apache-2.0 */
/* REDUCE and COPY: one pass over memory per slice.
 *
 * Sources that are SLOTs are read where their bytes already are (the peer's mapped memory, the receive
 * buffer, the message itself), or pulled into a scratch slice that stays in cache; so receiving and reducing
 * is one pass.
 */
#include <string.h>

#include "comm/exec/internal.h"

#define PIECE_BYTES 4096

/* Lowers *size to what lies contiguously in every source: slices of different links differ. */
static void find_contiguous(const struct weft_exec_op *op, const struct weft_inflight *inflight, size_t *size)
{
    for (int i = 0; i < inflight->step.source_count; i++) {
        if (inflight->bound[i] == WEFT_NONE)
            continue;
        const struct weft_inflight *from = &op->in_flight[inflight->bound[i]];
        size_t left = from->slice_bytes - weft_slice_offset(from, inflight->done);
        if (left < *size)
            *size = left;
    }
}

/* Fetches size bytes of every source. */
static int gather_sources(struct weft_exec_op *op, struct weft_inflight *inflight, size_t size,
                          const void **sources)
{
    for (int i = 0; i < inflight->step.source_count; i++) {
        const uint8_t *memory;
        if (inflight->bound[i] == WEFT_NONE) {
            memory = inflight->sources[i] + inflight->done;
        } else {
            int status =
                weft_recv_source(op, &op->in_flight[inflight->bound[i]], inflight->done, size, i, &memory);
            if (status != WEFT_OK)
                return status;
        }
        sources[i] = memory;
    }
    return WEFT_OK;
}

/* The user's function takes two sources and may write over either of them. With three, the sum of the first two has
 * no place of its own where the target is the third: then it is made piece by piece. */
static void compute_user(const struct weft_exec_request *request, uint8_t *target, const void *const *sources,
                         int source_count, size_t count)
{
    weft_reduce_callback *reduce = request->user.reduce;
    void *arg = request->user.arg;
    weft_dtype dtype = request->user.dtype;
    if (source_count == 2 || target != sources[2]) {
        reduce(arg, sources[0], sources[1], target, count, dtype);
        if (source_count == 3)
            reduce(arg, target, sources[2], target, count, dtype);
        return;
    }
    _Alignas(64) uint8_t sum[PIECE_BYTES];
    size_t element_bytes = request->element_bytes, piece = PIECE_BYTES / element_bytes;
    for (size_t at = 0; at < count; at += piece) {
        size_t now = count - at < piece ? count - at : piece, offset = at * element_bytes;
        reduce(arg, (const uint8_t *)sources[0] + offset, (const uint8_t *)sources[1] + offset, sum, now,
               dtype);
        reduce(arg, sum, target + offset, target + offset, now, dtype);
    }
}

void weft_compute(struct weft_exec_op *op, const struct weft_inflight *inflight, size_t size,
                  const void *const *sources)
{
    const struct weft_exec_request *request = &op->request;
    uint8_t *target = inflight->target + inflight->done;
    uint32_t finish = inflight->step.flags & WEFT_STEP_FINISH ? request->finish : 0;
    if (inflight->step.kind == WEFT_STEP_REDUCE && request->user.reduce)
        compute_user(request, target, sources, inflight->step.source_count, size / request->element_bytes);
    else if (request->reduce &&
             (inflight->step.kind == WEFT_STEP_REDUCE || inflight->step.flags & WEFT_STEP_FINISH))
        request->reduce(target, sources, inflight->step.source_count, size / request->element_bytes, finish);
    else if (target != sources[0] && request->streaming && !request->reduce &&
             !request->user.reduce) /* else it is reduced into */
        weft_copy_streaming(target, sources[0], size);
    else if (target != sources[0])
        weft_copy(target, sources[0], size);
}

int weft_compute_advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    size_t limit = weft_inflight_limit(op, inflight);
    for (int i = 0; i < inflight->step.source_count; i++) {
        if (inflight->bound[i] != WEFT_NONE && op->in_flight[inflight->bound[i]].visible < limit)
            limit = op->in_flight[inflight->bound[i]].visible;
    }
    if (limit <= inflight->done)
        return WEFT_OK;
    size_t size = limit - inflight->done;
    if (size > WEFT_WORK_BYTES)
        size = WEFT_WORK_BYTES;
    const void *sources[WEFT_STEP_SOURCES_MAX];
    find_contiguous(op, inflight, &size);
    int status = gather_sources(op, inflight, size, sources);
    if (status != WEFT_OK)
        return status;
    weft_compute(op, inflight, size, sources);
    op->work_bytes += size;
    inflight->done += size;
    inflight->visible = inflight->done;
    for (int i = 0; i < inflight->step.source_count; i++) {
        if (inflight->bound[i] == WEFT_NONE)
            continue;
        status = weft_recv_consumed(op, &op->in_flight[inflight->bound[i]], inflight->done);
        if (status != WEFT_OK)
            return status;
    }
    if (inflight->done == inflight->length) {
        weft_inflight_finish(op, inflight);
    } else {
        weft_inflight_wake(op, inflight);
        weft_inflight_again(op, inflight);
    }
    return WEFT_OK;
}
