/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* run: early */
/* The executor on memory of devices: every collective by every algorithm on the loop transport, with ranks on the kind
 * "host", on the simulated device in all its tempers, on plain host memory and on the host with shadows, mixed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "base/error.h"
#include "tests/support/exec_scene.h"
#include "tests/support/exec_sweep.h"
#include "tests/support/effort.h"

static const char *const modes[] = {"map", "pull:storm=11", "put:storm=5", "eager:storm=7", "put"};

static void on_host_kind(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    (void)rank, (void)random, (void)on_host;
    device->kind = exec_scene.host;
}

static void sweep(sweep_place *place, uint32_t seed)
{
    static const uint32_t rank_counts[] = {2, 3, 5, 8};
    static const size_t counts[] = {333, 5000};
    uint32_t random = seed;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
            if (place != on_host_kind && (m + n) % 5 != (test_is_sanitized() ? 0 : n % 2))
                continue; /* its threads take their time */
            struct exec_world_options options = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = m % 2 ? 64 : 1024,
                                                 .slice_bytes = n % 3 ? 4096 : 1024,
                                                 .seed = (uint32_t)(m % 2 ? 17 + n : 0)};
            struct exec_sweep all = {.ranks = rank_counts[n],
                                     .mode = modes[m],
                                     .place = place,
                                     .lanes = exec_scene.lanes,
                                     .counts = counts,
                                     .count_count = sizeof counts / sizeof *counts};
            assert_int_equal(exec_world_open(&options, &all.world), 0);
            exec_sweep(&all, &random);
            exec_world_close(all.world);
        }
    }
}

static void test_host_kind(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=1");
    sweep(on_host_kind, 3);
    exec_scene_close();
}

static void test_sim(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=1");
    sweep(exec_scene_on_sim, 5);
    exec_scene_close();
}

static void test_slow_and_mixed(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=2,delay=20");
    sweep(exec_scene_anywhere, 7);
    exec_scene_close();
}

/* Everything in a world of its own; what its ranks have moved. */
static struct weft_exec_stats sweep_world(const struct exec_world_options *world, sweep_place *place,
                                          uint32_t *random)
{
    static const size_t counts[] = {333, 5000};
    struct exec_sweep all = {.ranks = world->ranks,
                             .mode = world->mode,
                             .place = place,
                             .lanes = exec_scene.lanes,
                             .counts = counts,
                             .count_count = sizeof counts / sizeof *counts};
    assert_int_equal(exec_world_open(world, &all.world), 0);
    exec_sweep(&all, random);
    struct weft_exec_stats sum = exec_world_sum(all.world);
    assert_int_equal(exec_world_regions(all.world), 0);
    exec_world_close(all.world);
    return sum;
}

/* The transport puts from the device's memory, and into it. What travels in messages is staged at both ends, and nothing
 * else is; with ranks that are refused, more is. */
static void sweep_registered(const char *options, sweep_place *place, uint64_t refuses, uint32_t seed)
{
    static const uint32_t rank_counts[] = {2, 3, 5, 8};
    uint32_t random = seed;
    exec_scene_open(options);
    for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
        if (n % 2 != (test_is_sanitized() ? 0 : n / 2))
            continue;
        const struct exec_world_options world = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = n % 2 ? "put:storm=3" : "put",
                                                 .eager_bytes = 64,
                                                 .slice_bytes = 1024,
                                                 .seed = (uint32_t)(n % 2 ? 17 + n : 0),
                                                 .registers = exec_scene.sim,
                                                 .refuses = refuses};
        const struct weft_exec_stats sum = sweep_world(&world, place, &random);
        assert_true(sum.bytes_direct > 0);
        if (place == exec_scene_on_sim && !refuses)
            assert_int_equal(sum.bytes_staged, 2 * sum.bytes_eager);
        else if (place == exec_scene_on_sim)
            assert_true(sum.bytes_staged > 2 * sum.bytes_eager);
    }
    exec_scene_close();
}

static void test_registered(void **state)
{
    (void)state;
    sweep_registered("sim:seed=1,dmabuf=1", exec_scene_on_sim, 0, 11);
}

static void test_registered_slow(void **state)
{
    (void)state;
    sweep_registered("sim:seed=2,dmabuf=1,delay=20", exec_scene_on_sim, 0, 13);
}

/* Some ranks are refused it, or some of their buffers. */
static void test_registered_here_and_there(void **state)
{
    (void)state;
    sweep_registered("sim:seed=3,dmabuf=1", exec_scene_on_sim, 0xaa, 17);
    sweep_registered("sim:seed=4,dmabuf=1,delay=5", exec_scene_anywhere, 0, 19);
}

/* The device does not see what NICs write there: receives are staged, and sends leave from its memory all the same. */
static struct weft_device_kind unseeing;

static int refuse_to_flush(struct weft_device *device, int ordinal)
{
    (void)device, (void)ordinal;
    return weft_fail(WEFT_UNSUPPORTED, "the test's device does not see what NICs write");
}

static void on_unseeing(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    exec_scene_on_sim(rank, random, device, on_host);
    device->kind = &unseeing;
}

static void test_writes_that_are_not_seen(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=1,dmabuf=1");
    unseeing = *exec_scene.sim;
    unseeing.ops.flush_writes = refuse_to_flush;
    struct exec_world_options world = {.ranks = 3,
                                       .window = 32,
                                       .mode = "put",
                                       .eager_bytes = 64,
                                       .slice_bytes = 1024,
                                       .registers = exec_scene.sim};
    uint32_t random = 23, again = random;
    const struct weft_exec_stats seen = sweep_world(&world, exec_scene_on_sim, &random);
    const struct weft_exec_stats unseen = sweep_world(&world, on_unseeing, &again);
    assert_int_equal(unseen.bytes_eager, seen.bytes_eager);
    assert_true(unseen.bytes_staged > 2 * unseen.bytes_eager);
    /* What is put counts once, where it arrives, and again where it was staged to be sent. */
    assert_int_equal(unseen.bytes_staged + unseen.bytes_direct, seen.bytes_staged + seen.bytes_direct);
    exec_scene_close();
}

/* The host multiplies a long input piece by piece, with turns of others in between. */
static void test_scaled_on_the_host(void **state)
{
    enum { RANKS = 2, COUNT = 300000 };
    (void)state;
    const struct exec_world_options options = {
        .ranks = RANKS, .window = 32, .mode = "map", .eager_bytes = 64, .slice_bytes = 4096};
    const struct weft_call call = {
        .sequence = 1, .count = COUNT, .root = -1, .collective = WEFT_ALLREDUCE, .dtype = WEFT_INT32};
    struct exec_world *world;
    struct weft_plan *plans[RANKS];
    struct weft_exec_moves moves[RANKS];
    struct weft_exec_request requests[RANKS];
    struct weft_exec_op *ops[RANKS];
    int32_t *memory[RANKS][3], three = 3;
    exec_scene_open("sim:seed=1");
    assert_int_equal(exec_world_open(&options, &world), 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct weft_plan_request wanted = {
            .collective = WEFT_ALLREDUCE, .algorithm = WEFT_ALGO_RING, .ranks = RANKS, .rank = r, .root = -1};
        assert_int_equal(weft_plan_make(&wanted, &plans[r]), 0);
        for (int b = 0; b < 3; b++)
            memory[r][b] = calloc(COUNT, sizeof(int32_t));
        for (int i = 0; i < COUNT; i++)
            memory[r][0][i] = i + 1 + (int)r;
        moves[r] =
            (struct weft_exec_moves){.scaled = memory[r][1], .unscaled = memory[r][0], .scaled_count = COUNT};
        memcpy(moves[r].scalar, &three, sizeof three);
        requests[r] = (struct weft_exec_request){.plan = plans[r],
                                                 .input = memory[r][1],
                                                 .output = memory[r][2],
                                                 .count = COUNT,
                                                 .element_bytes = sizeof(int32_t),
                                                 .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
                                                 .moves = &moves[r],
                                                 .on_host = WEFT_SHADOW_NONE,
                                                 .dtype = WEFT_INT32,
                                                 .op = WEFT_SUM,
                                                 .digest = weft_call_digest(&call),
                                                 .call = call};
        assert_int_equal(weft_lane_get(exec_scene.lanes, exec_scene.sim, 0, &requests[r].lane), 0);
        assert_int_equal(weft_exec_start(exec_world_rank(world, r), &requests[r], &ops[r]), 0);
        assert_int_equal(memory[r][1][0], 3 * memory[r][0][0]);
        assert_int_equal(memory[r][1][COUNT - 1], 0);
    }
    for (int turns = 0; turns < 1000 && weft_exec_op_status(ops[0]) + weft_exec_op_status(ops[1]); turns++)
        exec_world_turn(world);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(weft_exec_op_status(ops[r]), WEFT_OK);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(memory[r][2][i], 3 * (2 * i + 3));
        weft_exec_op_free(ops[r]);
        weft_lane_put(requests[r].lane);
        weft_plan_free(plans[r]);
        for (int b = 0; b < 3; b++)
            free(memory[r][b]);
    }
    exec_world_close(world);
    exec_scene_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_kind),
        cmocka_unit_test(test_sim),
        cmocka_unit_test(test_slow_and_mixed),
        cmocka_unit_test(test_registered),
        cmocka_unit_test(test_registered_slow),
        cmocka_unit_test(test_registered_here_and_there),
        cmocka_unit_test(test_writes_that_are_not_seen),
        cmocka_unit_test(test_scaled_on_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
