/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/collective_sweep.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/ranks.h"
#include "tests/support/effort.h"

static int run_equal(weft_comm *comm, const struct case_shape *shape, const struct case_rank *c,
                     weft_work **work)
{
    const void *send = c->input.memory;
    void *recv = c->output.memory;
    size_t n = shape->count;
    int root = shape->root;
    const weft_dtype type = WEFT_INT32;
    switch (shape->collective) {
    case WEFT_ALLREDUCE:
        return work ? weft_allreduce_start(comm, send, recv, n, type, WEFT_SUM, work)
                    : weft_allreduce(comm, send, recv, n, type, WEFT_SUM);
    case WEFT_BROADCAST:
        return work ? weft_broadcast_start(comm, send, recv, n, type, root, work)
                    : weft_broadcast(comm, send, recv, n, type, root);
    case WEFT_REDUCE:
        return work ? weft_reduce_start(comm, send, recv, n, type, WEFT_SUM, root, work)
                    : weft_reduce(comm, send, recv, n, type, WEFT_SUM, root);
    case WEFT_ALLGATHER:
        return work ? weft_allgather_start(comm, send, recv, n, type, work)
                    : weft_allgather(comm, send, recv, n, type);
    case WEFT_GATHER:
        return work ? weft_gather_start(comm, send, recv, n, type, root, work)
                    : weft_gather(comm, send, recv, n, type, root);
    case WEFT_SCATTER:
        return work ? weft_scatter_start(comm, send, recv, n, type, root, work)
                    : weft_scatter(comm, send, recv, n, type, root);
    case WEFT_REDUCE_SCATTER:
        return work ? weft_reduce_scatter_start(comm, send, recv, n, type, WEFT_SUM, work)
                    : weft_reduce_scatter(comm, send, recv, n, type, WEFT_SUM);
    case WEFT_ALLTOALL:
        return work ? weft_alltoall_start(comm, send, recv, n, type, work)
                    : weft_alltoall(comm, send, recv, n, type);
    default:
        return work ? weft_barrier_start(comm, work) : weft_barrier(comm);
    }
}

static int run_unequal(weft_comm *comm, const struct case_shape *shape, const struct case_rank *c,
                       weft_work **work)
{
    const struct case_buffer *in = &c->input, *out = &c->output;
    const void *send = in->memory;
    void *recv = out->memory;
    int root = shape->root;
    const weft_dtype type = WEFT_INT32;
    switch (shape->collective) {
    case WEFT_ALLGATHER:
        return work ? weft_allgatherv_start(comm, send, c->count, recv, out->counts, out->offsets, type, work)
                    : weft_allgatherv(comm, send, c->count, recv, out->counts, out->offsets, type);
    case WEFT_GATHER:
        return work ? weft_gatherv_start(comm, send, c->count, recv, out->counts, out->offsets, type, root,
                                         work)
                    : weft_gatherv(comm, send, c->count, recv, out->counts, out->offsets, type, root);
    case WEFT_SCATTER:
        return work ? weft_scatterv_start(comm, send, in->counts, in->offsets, recv, c->count, type, root,
                                          work)
                    : weft_scatterv(comm, send, in->counts, in->offsets, recv, c->count, type, root);
    case WEFT_REDUCE_SCATTER:
        return work ? weft_reduce_scatterv_start(comm, send, recv, in->counts, type, WEFT_SUM, work)
                    : weft_reduce_scatterv(comm, send, recv, in->counts, type, WEFT_SUM);
    default:
        return work ? weft_alltoallv_start(comm, send, in->counts, in->offsets, recv, out->counts,
                                           out->offsets, type, work)
                    : weft_alltoallv(comm, send, in->counts, in->offsets, recv, out->counts, out->offsets,
                                     type);
    }
}

static _Thread_local collective_place *place_by;

void collective_place_by(collective_place *place)
{
    place_by = place;
}

static _Thread_local const struct collective_scope *scope_by;

void collective_scope_by(const struct collective_scope *scope)
{
    scope_by = scope;
}

int collective_check(weft_comm *comm, const struct case_shape *shape, int started)
{
    uint32_t rank = (uint32_t)weft_comm_rank(comm);
    struct case_rank made;
    struct case_device device = {.where = CASE_BOTH};
    weft_work *work = NULL;
    char name[200];
    case_make(shape, rank, &made);
    struct case_rank passed = made;
    if (place_by)
        place_by(rank, shape->seed, &device);
    if (device.kind) {
        case_device_put(&device, &made);
        passed.input.memory = device.input;
        passed.output.memory = device.output;
    }
    if (scope_by)
        CHECK_OK(scope_by->begin(scope_by->arg));
    int status = (shape->unequal ? run_unequal : run_equal)(comm, shape, &passed, started ? &work : NULL);
    if (status == WEFT_OK && work)
        status = weft_work_wait(work, -1);
    if (scope_by)
        CHECK_OK(scope_by->end(scope_by->arg));
    if (device.kind)
        case_device_get(&device, &made);
    if (status != WEFT_OK)
        fprintf(stderr, "rank %u: %s: %s (%s)\n", rank, case_name(shape, name, sizeof name),
                weft_strerror(status), weft_error_detail());
    size_t wrong = status == WEFT_OK ? case_wrong(shape, rank, &made) : 0;
    if (wrong)
        fprintf(stderr, "rank %u: %s%s: %zu elements wrong\n", rank, case_name(shape, name, sizeof name),
                started ? ", started" : "", wrong);
    CHECK_OK(weft_work_free(work));
    case_free(&made);
    return status != WEFT_OK || wrong;
}

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* Offsets are no argument of reduce_scatterv. */
static int gaps_max(enum weft_collective collective)
{
    return !weft_collective_blocks(collective) ? 0 : collective == WEFT_REDUCE_SCATTER ? 1 : 2;
}

/* Of the four forms each count has two that differ in all; sanitized, of many counts, one. */
static int is_left_out(uint32_t form, uint32_t turn, size_t counts)
{
    if (test_effort() == TEST_LONG)
        return 0;
    return counts > 2 && test_effort() == TEST_SANITIZED ? form != turn % 4
                                                         : (form == 0 || form == 3) != (turn % 2 == 0);
}

int collective_sweep(weft_comm *comm, unsigned collectives, uint32_t seed, const size_t *counts, size_t count)
{
    uint32_t random = seed, ranks = (uint32_t)weft_comm_size(comm);
    for (size_t n = 0; n < count; n++) {
        for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
            if (!(collectives >> c & 1))
                continue;
            for (int unequal = 0; unequal <= (counts[n] ? gaps_max((enum weft_collective)c) : 0); unequal++) {
                for (int form = 0; form < 4; form++) {
                    if (is_left_out((uint32_t)form, (uint32_t)(c + unequal) + (uint32_t)n, count))
                        continue;
                    struct case_shape shape = {
                        .collective = (enum weft_collective)c,
                        .ranks = ranks,
                        .root = weft_collective_has_root((enum weft_collective)c)
                                    ? (int)(next(&random) % ranks)
                                    : -1,
                        .count = counts[n],
                        .in_place = form & 1,
                        .unequal = unequal,
                        .seed = next(&random),
                    };
                    if (c == WEFT_ALLTOALL && unequal)
                        shape.in_place = 0; /* blocks out have other sizes than blocks in */
                    if (collective_check(comm, &shape, form >> 1))
                        return 1;
                }
            }
        }
    }
    return 0;
}
