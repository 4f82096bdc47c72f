/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (ranks take turns) */
/* Ranks that are ahead of others, on the loop transport: a late rank gets no more than it has promised to keep, nobody
 * fails or waits for ever, and who waits for an acknowledgement is not looked at meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/support/exec_world.h"

#define TURNS_MAX 1000000

/* Many operations of one collective in one world. Every operation has buffers of its own, of bytes. */
struct fleet {
    struct exec_world *world;
    enum weft_collective collective;
    uint32_t ranks, ops;
    size_t input_bytes, output_bytes;
    struct weft_plan **plans;      /* [ranks] */
    uint8_t *inputs, *outputs;     /* [ranks][ops] */
    struct weft_exec_op **running; /* [ranks][ops] */
};

static uint8_t value_of(uint32_t rank, uint32_t op, size_t index)
{
    return (uint8_t)((rank * 31 + op * 7 + (uint32_t)index * 13) >> 1);
}

static void fleet_open(struct fleet *fleet, const struct exec_world_options *options,
                       enum weft_collective collective, enum weft_algorithm algorithm, uint32_t ops,
                       size_t bytes)
{
    uint32_t ranks = options->ranks;
    *fleet = (struct fleet){.collective = collective, .ranks = ranks, .ops = ops};
    fleet->input_bytes = bytes;
    fleet->output_bytes = collective == WEFT_ALLGATHER ? bytes * ranks : bytes;
    if (exec_world_open(options, &fleet->world))
        fail_msg("%s", weft_error_detail());
    fleet->plans = calloc(ranks, sizeof *fleet->plans);
    fleet->running = calloc((size_t)ranks * ops, sizeof *fleet->running);
    fleet->inputs = malloc(ranks * ops * fleet->input_bytes);
    fleet->outputs = calloc(ranks * ops, fleet->output_bytes);
    for (uint32_t r = 0; r < ranks; r++) {
        struct weft_plan_request wanted = {.collective = collective,
                                           .algorithm = algorithm,
                                           .ranks = ranks,
                                           .rank = r,
                                           .root = collective == WEFT_BROADCAST ? 0 : -1};
        if (weft_plan_make(&wanted, &fleet->plans[r]))
            fail_msg("%s", weft_error_detail());
        for (uint32_t k = 0; k < ops; k++) {
            for (size_t i = 0; i < bytes; i++)
                fleet->inputs[(r * ops + k) * bytes + i] = value_of(r, k, i);
        }
    }
}

static void fleet_close(struct fleet *fleet)
{
    for (size_t i = 0; i < (size_t)fleet->ranks * fleet->ops; i++) {
        if (fleet->running[i])
            weft_exec_op_free(fleet->running[i]);
    }
    for (uint32_t r = 0; r < fleet->ranks; r++)
        weft_plan_free(fleet->plans[r]);
    exec_world_close(fleet->world);
    free(fleet->plans);
    free(fleet->running);
    free(fleet->inputs);
    free(fleet->outputs);
}

static void fleet_start(struct fleet *fleet, uint32_t rank, uint32_t k)
{
    struct weft_call call = {.sequence = k + 1,
                             .count = fleet->input_bytes,
                             .root = fleet->collective == WEFT_BROADCAST ? 0 : -1,
                             .collective = (uint8_t)fleet->collective,
                             .dtype = WEFT_UINT8,
                             .op = WEFT_SUM};
    size_t at = (size_t)rank * fleet->ops + k;
    struct weft_exec_request request = {.plan = fleet->plans[rank],
                                        .input = fleet->inputs + at * fleet->input_bytes,
                                        .output = fleet->outputs + at * fleet->output_bytes,
                                        .count = fleet->input_bytes,
                                        .element_bytes = 1,
                                        .reduce = weft_reduce_find(WEFT_UINT8, WEFT_SUM),
                                        .digest = weft_call_digest(&call),
                                        .call = call};
    if (weft_exec_start(exec_world_rank(fleet->world, rank), &request, &fleet->running[at]))
        fail_msg("rank %u, operation %u: %s", rank, k, weft_error_detail());
}

/* As long as anything moves; nobody may fail. */
static void fleet_settle(struct fleet *fleet)
{
    for (int turn = 0, idle = 0; turn < TURNS_MAX && idle < 50; turn++)
        idle = exec_world_turn(fleet->world) ? 0 : idle + 1;
    for (uint32_t r = 0; r < fleet->ranks; r++) {
        int status;
        const char *why = exec_world_failure(fleet->world, r, &status);
        if (why)
            fail_msg("rank %u of %u failed with %d: %s", r, fleet->ranks, status, why);
    }
}

static uint8_t expected(const struct fleet *fleet, uint32_t k, size_t index)
{
    if (fleet->collective == WEFT_BROADCAST)
        return value_of(0, k, index);
    if (fleet->collective == WEFT_ALLGATHER)
        return value_of((uint32_t)(index / fleet->input_bytes), k, index % fleet->input_bytes);
    uint8_t sum = 0;
    for (uint32_t r = 0; r < fleet->ranks; r++)
        sum = (uint8_t)(sum + value_of(r, k, index));
    return sum;
}

static void fleet_check(const struct fleet *fleet)
{
    uint8_t *wanted = malloc(fleet->output_bytes);
    for (uint32_t k = 0; k < fleet->ops; k++) {
        for (size_t i = 0; i < fleet->output_bytes; i++)
            wanted[i] = expected(fleet, k, i);
        for (uint32_t r = 0; r < fleet->ranks; r++) {
            size_t at = (size_t)r * fleet->ops + k;
            int status = weft_exec_op_status(fleet->running[at]);
            if (status)
                fail_msg("rank %u, operation %u: %d", r, k, status);
            assert_memory_equal(fleet->outputs + at * fleet->output_bytes, wanted, fleet->output_bytes);
        }
    }
    free(wanted);
}

static void run_late(const struct exec_world_options *options, enum weft_collective collective,
                     enum weft_algorithm algorithm, uint32_t ops, size_t bytes)
{
    struct fleet fleet;
    uint32_t late = options->ranks / 2;
    fleet_open(&fleet, options, collective, algorithm, ops, bytes);
    for (uint32_t k = 0; k < ops; k++) {
        for (uint32_t r = 0; r < options->ranks; r++) {
            if (r != late)
                fleet_start(&fleet, r, k);
        }
        fleet_settle(&fleet);
    }
    for (uint32_t k = 0; k < ops; k++)
        fleet_start(&fleet, late, k);
    fleet_settle(&fleet);
    fleet_check(&fleet);
    fleet_close(&fleet);
}

/* A ring's rank could send all its messages of all operations to a neighbour that has not begun. */
static void test_late_rank(void **state)
{
    (void)state;
    struct exec_world_options options = {.ranks = 300, .window = 32, .mode = "map", .eager_bytes = 256};
    run_late(&options, WEFT_ALLGATHER, WEFT_ALGO_RING, 62, 1);
}

/* The same with links that are full again and again, and with the smallest and the largest window. */
static void test_late_rank_full_links(void **state)
{
    (void)state;
    static const uint32_t windows[] = {4, 64};
    for (int i = 0; i < 2; i++) {
        struct exec_world_options options = {
            .ranks = 300, .window = windows[i], .mode = "eager:storm=7", .seed = 5, .first_sequence = ~0u};
        run_late(&options, WEFT_ALLREDUCE, WEFT_ALGO_RING, 2, 300);
    }
}

/* Of a message of many slices as few are sent ahead. */
static void test_long_message(void **state)
{
    (void)state;
    static const char *const modes[] = {"eager", "eager:storm=3"};
    for (int i = 0; i < 2; i++) {
        struct exec_world_options options = {.ranks = 2, .window = 8, .mode = modes[i], .eager_bytes = 64};
        struct fleet fleet;
        fleet_open(&fleet, &options, WEFT_ALLREDUCE, WEFT_ALGO_RING, 2, 200000);
        fleet_start(&fleet, 0, 0);
        fleet_start(&fleet, 0, 1);
        fleet_settle(&fleet);
        assert_in_range(weft_exec_get_stats(exec_world_rank(fleet.world, 0))->messages, 1, 2 * 8 * 8);
        fleet_start(&fleet, 1, 0);
        fleet_start(&fleet, 1, 1);
        fleet_settle(&fleet);
        fleet_check(&fleet);
        fleet_close(&fleet);
    }
}

/* A root that is far ahead waits for its peer's word, and need not be looked at. */
static void test_waits_asleep(void **state)
{
    (void)state;
    struct exec_world_options options = {.ranks = 2, .window = 8, .mode = "map"};
    const uint32_t ops = 100;
    struct fleet fleet;
    fleet_open(&fleet, &options, WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, ops, 8);
    for (uint32_t k = 0; k < ops; k++)
        fleet_start(&fleet, 0, k);
    fleet_settle(&fleet);
    assert_int_equal(weft_exec_op_status(fleet.running[0]), WEFT_OK);
    assert_int_equal(weft_exec_op_status(fleet.running[ops - 1]), WEFT_AGAIN);
    assert_false(weft_exec_is_blocked(exec_world_rank(fleet.world, 0)));
    for (uint32_t k = 0; k < ops; k++) {
        fleet_start(&fleet, 1, k);
        fleet_settle(&fleet);
    }
    fleet_check(&fleet);
    fleet_close(&fleet);
}

static void check_lie(uint32_t op, uint32_t message, uint32_t size, const char *part)
{
    struct exec_world_options options = {.ranks = 2, .window = 8, .mode = "map"};
    struct fleet fleet;
    int status;
    fleet_open(&fleet, &options, WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, 1, 8);
    fleet_start(&fleet, 1, 0);
    uint8_t block[sizeof(struct weft_wire_header) + 8] = {0};
    struct weft_wire_header header = {.comm = 1,
                                      .op = op,
                                      .source = 0,
                                      .message = message,
                                      .size = size,
                                      .kind = WEFT_WIRE_CONSUMED,
                                      .version = WEFT_WIRE_VERSION};
    memcpy(block, &header, sizeof header);
    weft_exec_message(exec_world_rank(fleet.world, 1), NULL, block, sizeof header + size);
    const char *text = exec_world_failure(fleet.world, 1, &status);
    assert_int_equal(status, WEFT_PROTOCOL);
    if (!text || !strstr(text, part))
        fail_msg("%s: expected %s", text, part);
    fleet_close(&fleet);
}

/* To an operation that waits for its peer's message: what that kind of message does not do there. */
static void check_lie_to_waiting(enum weft_wire_kind kind, uint32_t slice, uint32_t size, const char *part)
{
    struct exec_world_options options = {.ranks = 2, .window = 8, .mode = "map"};
    struct fleet fleet;
    int status;
    fleet_open(&fleet, &options, WEFT_ALLREDUCE, WEFT_ALGO_RD, 1, 8);
    fleet_start(&fleet, 1, 0);
    struct weft_exec *exec = exec_world_rank(fleet.world, 1);
    char where[200];
    weft_exec_describe(fleet.running[1], where, sizeof where);
    assert_string_equal(where, "step 0 of operation 0: receive from rank 0 (0 of 8 bytes done)");
    uint8_t block[sizeof(struct weft_wire_header) + 8] = {0};
    struct weft_call call = {.sequence = 1,
                             .count = 8,
                             .root = -1,
                             .collective = WEFT_ALLREDUCE,
                             .dtype = WEFT_UINT8,
                             .op = WEFT_SUM};
    struct weft_wire_header header = {.comm = 1,
                                      .slice = slice,
                                      .digest = weft_call_digest(&call),
                                      .count = weft_call_count(&call),
                                      .size = size,
                                      .kind = (uint8_t)kind,
                                      .version = WEFT_WIRE_VERSION};
    memcpy(block, &header, sizeof header);
    weft_exec_message(exec, NULL, block, sizeof header + size);
    const char *text = exec_world_failure(fleet.world, 1, &status);
    assert_true(status == WEFT_PROTOCOL || status == WEFT_MISMATCH);
    if (!text || !strstr(text, part))
        fail_msg("%s: expected %s", text, part);
    fleet_close(&fleet);
}

/* Nobody has consumed what was not sent. */
static void test_lies(void **state)
{
    (void)state;
    check_lie(0, 1, 0, "rank 0 has consumed 1 messages of operation 0: expected more than 0 and at most 0");
    check_lie(0, 0, 0, "rank 0 has consumed 0 messages of operation 0");
    check_lie(1, 1, 0, "rank 0 has consumed 1 messages of operation 1");
    check_lie(0u - 1, 1, 0, "rank 0 has consumed 1 messages of operation 4294967295");
    check_lie(1000, 1, 0, "rank 0 speaks of operation 1000");
    check_lie(0, 1, 8, "rank 0 speaks of operation 0");
    check_lie_to_waiting(WEFT_WIRE_RBUF, 0, 0,
                         "rank 0 sent kind 5 for message 0 of operation 0, which is over");
    check_lie_to_waiting(WEFT_WIRE_TAKEN, 1, 0,
                         "rank 0 sent kind 4 for message 0 of operation 0, which is over");
    check_lie_to_waiting(WEFT_WIRE_READY, 1, 0, "rank 0 announced 1 of 1 slices of message 0");
    check_lie_to_waiting(WEFT_WIRE_EAGER, 1, 8, "rank 0 sent 8 bytes as slice 1 of message 0");
    check_lie_to_waiting(WEFT_WIRE_EAGER, 0, 7, "rank 0 sent 7 bytes as slice 0 of message 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_rank),    cmocka_unit_test(test_late_rank_full_links),
        cmocka_unit_test(test_long_message), cmocka_unit_test(test_waits_asleep),
        cmocka_unit_test(test_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
