/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/exec_few.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include <weft/weft.h>

struct few few = {.mode = WEFT_DEVICE_COLLECTIVE_ALWAYS};

static int32_t *pinned(size_t count)
{
    void *memory;
    assert_int_equal(sim_scene.sim->ops.allocate(sim_scene.sim->device, -1, WEFT_MEMORY_PINNED,
                                                 count * sizeof(int32_t), &memory),
                     0);
    return memory;
}

static void work_open(uint32_t number, uint32_t rank, int on_host)
{
    struct few_work *work = &few.works[number][rank];
    size_t count = few.count ? few.count : (size_t)100 << number % 5;
    const struct weft_call call = {.sequence = number + 1,
                                   .count = count,
                                   .root = -1,
                                   .collective = WEFT_ALLREDUCE,
                                   .started = 1,
                                   .dtype = WEFT_INT32};
    struct weft_plan_request wanted = {.collective = WEFT_ALLREDUCE,
                                       .algorithm = number % 2 ? WEFT_ALGO_RING : WEFT_ALGO_RD,
                                       .ranks = FEW_RANKS,
                                       .rank = rank,
                                       .root = -1};
    *work = (struct few_work){.count = count, .input = pinned(count), .output = pinned(count)};
    for (size_t i = 0; i < count; i++)
        work->input[i] = (int32_t)(i * number + rank);
    memset(work->output, 0x5a, count * sizeof(int32_t));
    assert_int_equal(weft_plan_make(&wanted, &work->plan), 0);
    work->request = (struct weft_exec_request){.plan = work->plan,
                                               .input = work->input,
                                               .output = work->output,
                                               .count = count,
                                               .element_bytes = sizeof(int32_t),
                                               .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
                                               .on_host = on_host,
                                               .dtype = WEFT_INT32,
                                               .op = WEFT_SUM,
                                               .digest = weft_call_digest(&call),
                                               .call = call};
    assert_int_equal(
        weft_command_queue_get(sim_scene.queues, sim_scene.sim, (int)rank % 2, &work->request.commands), 0);
}

void few_open_on(const char *device, uint32_t ops, uint32_t hosts, exec_world_mangle *mangle)
{
    const struct exec_world_options options = {.ranks = FEW_RANKS,
                                               .window = 16,
                                               .mode = "map",
                                               .eager_bytes = 512,
                                               .slice_bytes = 1024,
                                               .sharing = EXEC_TOGETHER,
                                               .mangle = mangle,
                                               .collectives = {few.mode, FEW_BYTES}};
    sim_scene_open(device);
    few.ops = ops;
    assert_int_equal(exec_world_open(&options, &few.world), 0);
    for (uint32_t n = 0; n < ops; n++) {
        for (uint32_t r = 0; r < FEW_RANKS; r++)
            work_open(n, r, n % 3 == 2 && hosts >> r & 1 ? WEFT_SHADOW_NONE : 0);
    }
}

void few_open(uint32_t ops, uint32_t hosts, exec_world_mangle *mangle)
{
    few_open_on("sim:seed=7", ops, hosts, mangle);
}

void few_close(void)
{
    for (uint32_t n = 0; n < few.ops; n++) {
        for (uint32_t r = 0; r < FEW_RANKS; r++) {
            struct few_work *work = &few.works[n][r];
            if (work->op)
                weft_exec_op_free(work->op);
            weft_command_queue_put(work->request.commands);
            weft_plan_free(work->plan);
        }
    }
    exec_world_close(few.world);
    for (uint32_t n = 0; n < few.ops; n++) {
        for (uint32_t r = 0; r < FEW_RANKS; r++) {
            const struct weft_device_ops *ops = &sim_scene.sim->ops;
            assert_int_equal(ops->release(sim_scene.sim->device, few.works[n][r].input), 0);
            assert_int_equal(ops->release(sim_scene.sim->device, few.works[n][r].output), 0);
        }
    }
    sim_scene_close();
}

void few_start(uint32_t number, uint32_t rank)
{
    struct few_work *work = &few.works[number][rank];
    assert_int_equal(weft_exec_start(exec_world_rank(few.world, rank), &work->request, &work->op), 0);
}

int few_status(uint32_t number, uint32_t rank)
{
    return few.works[number][rank].op ? weft_exec_op_status(few.works[number][rank].op) : WEFT_AGAIN;
}

int few_turn_until(uint32_t ops)
{
    for (int turn = 0; turn < 100000; turn++) {
        uint32_t left = 0;
        for (uint32_t n = 0; n < ops; n++) {
            for (uint32_t r = 0; r < FEW_RANKS; r++) {
                int status = few_status(n, r);
                if (status != WEFT_OK && status != WEFT_AGAIN)
                    return status;
                left += status != WEFT_OK;
            }
        }
        if (!left)
            return WEFT_OK;
        if (!exec_world_turn(few.world))
            usleep(20);
    }
    return WEFT_TIMEOUT;
}

void few_turn(int times)
{
    for (int i = 0; i < times; i++) {
        exec_world_turn(few.world);
        usleep(20);
    }
}

void few_expect_sums(uint32_t ops)
{
    for (uint32_t n = 0; n < ops; n++) {
        for (uint32_t r = 0; r < FEW_RANKS; r++) {
            const struct few_work *work = &few.works[n][r];
            for (size_t i = 0; i < work->count; i++) {
                if (work->output[i] != (int32_t)(FEW_RANKS * i * n + 3))
                    fail_msg("WRONG: operation %u, rank %u, element %zu: %d", n, r, i, (int)work->output[i]);
            }
        }
    }
}

void few_one_by_one(uint32_t from, uint32_t end)
{
    for (uint32_t n = from; n < end; n++) {
        for (uint32_t r = 0; r < FEW_RANKS; r++)
            few_start(n, r);
        assert_int_equal(few_turn_until(n + 1), 0);
    }
}

uint64_t few_collectives(void)
{
    uint64_t collectives = weft_exec_get_stats(exec_world_rank(few.world, 0))->collectives;
    for (uint32_t r = 1; r < FEW_RANKS; r++)
        assert_int_equal(weft_exec_get_stats(exec_world_rank(few.world, r))->collectives, collectives);
    return collectives;
}
