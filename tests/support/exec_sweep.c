/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/exec_sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/support/effort.h"

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

static struct weft_exec_blocks blocks_of(const struct case_buffer *buffer)
{
    return (struct weft_exec_blocks){buffer->counts, buffer->offsets};
}

struct scene {
    struct case_shape shape;
    enum weft_algorithm algorithm;
    struct case_rank ranks[SWEEP_RANKS_MAX];
    struct case_device devices[SWEEP_RANKS_MAX];
    struct weft_plan *plans[SWEEP_RANKS_MAX];
    struct weft_exec_request requests[SWEEP_RANKS_MAX];
};

/* Moves a rank's buffers to where they shall be. */
static int put_rank(const struct exec_sweep *sweep, struct scene *scene, uint32_t rank, uint32_t *random)
{
    struct case_device *device = &scene->devices[rank];
    struct weft_exec_request *request = &scene->requests[rank];
    *device = (struct case_device){.where = CASE_BOTH};
    if (!sweep->place)
        return WEFT_OK;
    sweep->place(rank, random, device, &request->on_host);
    if (!device->kind)
        return WEFT_OK;
    case_device_put(device, &scene->ranks[rank]);
    request->input = device->input;
    request->output = device->output;
    return weft_command_queue_get(sweep->queues, device->kind, device->ordinal, &request->commands);
}

static int scene_open(const struct exec_sweep *sweep, struct scene *scene, uint32_t *random)
{
    const struct case_shape *shape = &scene->shape;
    const struct weft_call call = {.sequence = 1,
                                   .count = shape->count,
                                   .root = shape->root,
                                   .collective = (uint8_t)shape->collective,
                                   .algorithm = (uint8_t)scene->algorithm,
                                   .dtype = WEFT_INT32};
    for (uint32_t r = 0; r < shape->ranks; r++) {
        struct case_rank *rank = &scene->ranks[r];
        case_make(shape, r, rank);
        struct weft_plan_request wanted = {.collective = shape->collective,
                                           .algorithm = scene->algorithm,
                                           .ranks = shape->ranks,
                                           .rank = r,
                                           .in_place = rank->in_place,
                                           .root = shape->root,
                                           .unequal = shape->unequal != 0,
                                           .hosts = sweep->hosts};
        int status = weft_plan_make(&wanted, &scene->plans[r]);
        if (status != WEFT_OK)
            return status;
        scene->requests[r] = (struct weft_exec_request){
            .plan = scene->plans[r],
            .input = rank->input.memory,
            .output = rank->output.memory,
            .count = rank->count,
            .element_bytes = sizeof(int32_t),
            .input_blocks = blocks_of(&rank->input),
            .output_blocks = blocks_of(&rank->output),
            .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
            .dtype = WEFT_INT32,
            .op = WEFT_SUM,
            .digest = weft_call_digest(&call),
            .call = call,
        };
        status = put_rank(sweep, scene, r, random);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static void scene_close(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->shape.ranks; r++) {
        case_free(&scene->ranks[r]);
        weft_plan_free(scene->plans[r]);
        scene->plans[r] = NULL;
    }
}

static void check(const struct exec_sweep *sweep, struct scene *scene, uint32_t *random)
{
    char name[160];
    int status = scene_open(sweep, scene, random);
    if (status == WEFT_OK)
        status = exec_world_run(sweep->world, scene->requests);
    for (uint32_t r = 0; r < scene->shape.ranks; r++) {
        weft_command_queue_put(scene->requests[r].commands);
        scene->requests[r].commands = NULL;
        if (scene->devices[r].kind)
            case_device_get(&scene->devices[r], &scene->ranks[r]);
    }
    size_t wrong = 0;
    uint32_t who = 0;
    for (uint32_t r = 0; r < scene->shape.ranks && status == WEFT_OK && !wrong; r++) {
        wrong = case_wrong(&scene->shape, r, &scene->ranks[r]);
        who = r;
    }
    if (status || wrong)
        fail_msg("%s%s by %s, %s: status %d (%s), %zu wrong at rank %u", wrong ? "WRONG: " : "",
                 case_name(&scene->shape, name, sizeof name), weft_algorithm_name(scene->algorithm),
                 sweep->mode, status, weft_error_detail(), wrong, who);
    scene_close(scene);
}

/* Where every rank knows what the plan needs. */
static int can_be_unequal(enum weft_collective collective, enum weft_algorithm algorithm)
{
    return weft_algorithm_serves_unequal(collective, algorithm) &&
           (weft_algorithm_needs(collective, algorithm) == WEFT_NEEDS_OWN_COUNTS ||
            collective == WEFT_ALLGATHER || collective == WEFT_REDUCE_SCATTER);
}

static void check_algorithm(const struct exec_sweep *sweep, struct scene *scene, uint32_t *random)
{
    enum weft_collective collective = scene->shape.collective;
    size_t step = test_by_effort(3, 2, 1), diagonal = (size_t)collective + scene->algorithm + sweep->ranks;
    if (step > sweep->count_count)
        step = sweep->count_count; /* each algorithm has one size at least */
    for (size_t c = diagonal % step; c < sweep->count_count; c += step) {
        for (int unequal = 0; unequal <= (can_be_unequal(collective, scene->algorithm) ? 2 : 0); unequal++) {
            /* Devices' threads take their time. */
            if (sweep->place && unequal && test_left_out(diagonal / 2 + (size_t)unequal, 2, 2))
                continue;
            scene->shape = (struct case_shape){
                .collective = collective,
                .ranks = sweep->ranks,
                .root = weft_collective_has_root(collective) ? (int)(next(random) % sweep->ranks) : -1,
                .count = sweep->counts[c],
                .in_place = collective != WEFT_ALLTOALL && next(random) % 2,
                .unequal = unequal,
                .seed = next(random),
            };
            if (!unequal || sweep->counts[c])
                check(sweep, scene, random);
        }
    }
}

void exec_sweep(const struct exec_sweep *sweep, uint32_t *random)
{
    static struct scene scene;
    for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
        for (int a = WEFT_ALGO_RING; a < WEFT_ALGO_COUNT; a++) {
            scene = (struct scene){.shape.collective = (enum weft_collective)c,
                                   .algorithm = (enum weft_algorithm)a};
            if (weft_algorithm_serves(scene.shape.collective, scene.algorithm) &&
                (!sweep->hosts || weft_algorithm_follows_order(scene.shape.collective, scene.algorithm)))
                check_algorithm(sweep, &scene, random);
        }
    }
}

struct weft_exec_stats exec_sweep_world(const struct exec_world_options *options, sweep_place *place,
                                        struct weft_command_queues *queues, uint32_t *random)
{
    static const size_t counts[] = {333, 9000};
    struct exec_sweep all = {.ranks = options->ranks,
                             .mode = options->mode ? options->mode : options->transport,
                             .place = place,
                             .queues = queues,
                             .counts = counts,
                             .count_count = sizeof counts / sizeof *counts};
    assert_int_equal(exec_world_open(options, &all.world), 0);
    exec_sweep(&all, random);
    struct weft_exec_stats sum = exec_world_sum(all.world);
    assert_int_equal(exec_world_regions(all.world), 0);
    exec_world_close(all.world);
    return sum;
}
