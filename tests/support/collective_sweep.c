/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/collective_sweep.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/ranks.h"
#include "tests/support/effort.h"

static int run_equal(weft_comm *comm, const struct case_shape *shape, const struct case_rank *c,
                     const weft_call_options *options)
{
    const void *send = c->input.memory;
    void *recv = c->output.memory;
    size_t n = shape->count;
    int root = shape->root;
    const weft_dtype type = WEFT_INT32;
    switch (shape->collective) {
    case WEFT_ALLREDUCE:
        return weft_allreduce(comm, send, recv, n, type, WEFT_SUM, options);
    case WEFT_BROADCAST:
        return weft_broadcast(comm, send, recv, n, type, root, options);
    case WEFT_REDUCE:
        return weft_reduce(comm, send, recv, n, type, WEFT_SUM, root, options);
    case WEFT_ALLGATHER:
        return weft_allgather(comm, send, recv, n, type, options);
    case WEFT_GATHER:
        return weft_gather(comm, send, recv, n, type, root, options);
    case WEFT_SCATTER:
        return weft_scatter(comm, send, recv, n, type, root, options);
    case WEFT_REDUCE_SCATTER:
        return weft_reduce_scatter(comm, send, recv, n, type, WEFT_SUM, options);
    case WEFT_ALLTOALL:
        return weft_alltoall(comm, send, recv, n, type, options);
    default:
        return weft_barrier(comm, options);
    }
}

static int run_unequal(weft_comm *comm, const struct case_shape *shape, const struct case_rank *c,
                       const weft_call_options *options)
{
    const struct case_buffer *in = &c->input, *out = &c->output;
    const void *send = in->memory;
    void *recv = out->memory;
    int root = shape->root;
    const weft_dtype type = WEFT_INT32;
    switch (shape->collective) {
    case WEFT_ALLGATHER:
        return weft_allgatherv(comm, send, c->count, recv, out->counts, out->offsets, type, options);
    case WEFT_GATHER:
        return weft_gatherv(comm, send, c->count, recv, out->counts, out->offsets, type, root, options);
    case WEFT_SCATTER:
        return weft_scatterv(comm, send, in->counts, in->offsets, recv, c->count, type, root, options);
    case WEFT_REDUCE_SCATTER:
        return weft_reduce_scatterv(comm, send, recv, in->counts, type, WEFT_SUM, options);
    default:
        return weft_alltoallv(comm, send, in->counts, in->offsets, recv, out->counts, out->offsets, type,
                              options);
    }
}

static _Thread_local collective_place *place_by;

void collective_place_by(collective_place *place)
{
    place_by = place;
}

static _Thread_local const struct collective_stream *stream_by;

void collective_stream_by(const struct collective_stream *stream)
{
    stream_by = stream;
}

int collective_check(weft_comm *comm, const struct case_shape *shape, int started)
{
    uint32_t rank = (uint32_t)weft_comm_rank(comm);
    struct case_rank made;
    struct case_device device = {.where = CASE_BOTH};
    weft_work *work = NULL;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
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
    options.work = started ? &work : NULL;
    options.stream_kind = stream_by ? stream_by->kind : NULL;
    options.stream = stream_by ? stream_by->stream : NULL;
    int status = (shape->unequal ? run_unequal : run_equal)(comm, shape, &passed, &options);
    if (status == WEFT_OK && work)
        status = weft_work_wait(work, -1);
    if (stream_by)
        CHECK_OK(stream_by->sync(stream_by->stream));
    if (device.kind)
        case_device_get(&device, &made);
    if (status != WEFT_OK)
        fprintf(stderr, "rank %u: %s: %s (%s)\n", rank, case_name(shape, name, sizeof name),
                weft_strerror(status), weft_error_detail());
    size_t wrong = status == WEFT_OK ? case_wrong(shape, rank, &made) : 0;
    if (wrong)
        fprintf(stderr, "WRONG: rank %u: %s%s: %zu elements\n", rank, case_name(shape, name, sizeof name),
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

/* Of the calls that are started every third one is by all ranks, the others by half of them. */
static int starts(const weft_comm *comm, const struct case_shape *shape)
{
    return shape->seed % 3 == 0 || ((unsigned)weft_comm_rank(comm) + shape->seed / 3) % 2;
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
                    if (collective_check(comm, &shape, form >> 1 && starts(comm, &shape)))
                        return 1;
                }
            }
        }
    }
    return 0;
}
