/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers on the loop transport: every way bytes can travel, many at a time beside collectives, ids that are used
 * again, and what is announced to whom when the executor fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "comm/exec/internal.h"
#include "tests/support/bits.h"
#include "tests/support/exec_world.h"

#define GUARD 64

struct end {
    int calls, status;
    uint32_t id;
    uint8_t *memory;
    size_t bytes;
};

static void ended(void *arg, int status)
{
    struct end *end = arg;
    end->calls++;
    end->status = status;
}

static uint8_t byte_of(uint32_t seed, size_t i)
{
    return (uint8_t)((seed * 2654435761u + (uint32_t)i * 40503u) >> 13);
}

static void reserve(struct weft_exec *exec, struct end *end, size_t bytes)
{
    *end = (struct end){.memory = malloc(bytes + GUARD), .bytes = bytes};
    assert_non_null(end->memory);
    memset(end->memory, 0xa5, bytes + GUARD);
    assert_int_equal(weft_exec_transfer_reserve(exec, end, &end->id), 0);
    assert_ptr_equal(weft_exec_transfer_arg(exec, end->id), end);
}

static void start(struct weft_exec *exec, struct end *end, uint32_t peer, uint32_t peer_id, int sends)
{
    struct weft_exec_transfer wanted = {.source = sends ? end->memory : NULL,
                                        .destination = sends ? NULL : end->memory,
                                        .bytes = end->bytes,
                                        .peer = peer,
                                        .peer_id = peer_id,
                                        .ended = ended,
                                        .arg = end};
    weft_exec_transfer_start(exec, end->id, &wanted);
}

/* Sends bytes from rank 0 to rank 1; early: the receiver starts first. */
static void pair_start(struct exec_world *world, struct end *from, struct end *to, uint32_t seed,
                       size_t bytes, int early)
{
    struct weft_exec *sender = exec_world_rank(world, 0), *receiver = exec_world_rank(world, 1);
    reserve(sender, from, bytes);
    reserve(receiver, to, bytes);
    for (size_t i = 0; i < bytes; i++)
        from->memory[i] = byte_of(seed, i);
    if (early)
        start(receiver, to, 0, from->id, 0);
    start(sender, from, 1, to->id, 1);
    if (!early)
        start(receiver, to, 0, from->id, 0);
}

static void pair_check(struct end *from, struct end *to, uint32_t seed)
{
    size_t wrong = 0;
    assert_int_equal(from->calls, 1);
    assert_int_equal(to->calls, 1);
    assert_int_equal(from->status, 0);
    assert_int_equal(to->status, 0);
    for (size_t i = 0; i < to->bytes; i++)
        wrong += to->memory[i] != byte_of(seed, i);
    for (size_t i = 0; i < GUARD; i++)
        wrong += to->memory[to->bytes + i] != 0xa5;
    assert_bits(wrong == 0);
    free(from->memory);
    free(to->memory);
}

static void turn_until_idle(struct exec_world *world)
{
    for (int idle = 0; idle < 200; idle++) {
        if (exec_world_turn(world))
            idle = 0;
    }
}

static const char *const modes[] = {"map",         "pull",        "put",           "eager",
                                    "map:storm=3", "put:storm=5", "eager:storm=7", "pull:storm=11"};

static void test_every_way(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 63, 64, 1023, 1024, 1025, 4096, 4097, 70000, 1000003};
    for (size_t m = 0; m < 2 * sizeof modes / sizeof *modes; m++) {
        struct exec_world_options options = {.ranks = 2,
                                             .window = 8,
                                             .mode = modes[m / 2],
                                             .eager_bytes = 1024,
                                             .slice_bytes = 4096,
                                             .stage_only = m == 0,
                                             .seed = (uint32_t)m};
        struct exec_world *world;
        assert_int_equal(exec_world_open(&options, &world), 0);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct end from, to;
            pair_start(world, &from, &to, (uint32_t)s, sizes[s], m % 2);
            turn_until_idle(world);
            pair_check(&from, &to, (uint32_t)s);
            assert_null(weft_exec_transfer_arg(exec_world_rank(world, 0), from.id));
        }
        exec_world_close(world);
    }
}

#define MANY 300

/* Many at a time, in both orders of starting, while a collective runs. */
static void test_many(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        struct exec_world_options options = {
            .ranks = 2, .window = 8, .mode = modes[m], .eager_bytes = 256, .slice_bytes = 1024};
        struct exec_world *world;
        struct end *ends = calloc(2 * MANY, sizeof *ends);
        assert_int_equal(exec_world_open(&options, &world), 0);
        for (uint32_t i = 0; i < MANY; i++)
            pair_start(world, &ends[2 * i], &ends[2 * i + 1], i, 1 + i * 37, (int)(i % 2));
        int32_t in[2][5000], out[2][5000];
        for (int i = 0; i < 5000; i++) {
            in[0][i] = i;
            in[1][i] = 7 * i;
        }
        void *inputs[] = {in[0], in[1]}, *outputs[] = {out[0], out[1]};
        assert_int_equal(
            exec_world_allreduce(world, WEFT_ALGO_RING, 0, inputs, outputs, 5000, WEFT_INT32, WEFT_SUM), 0);
        for (int i = 0; i < 5000; i++)
            assert_bits(out[1][i] == 8 * i);
        turn_until_idle(world);
        for (uint32_t i = 0; i < MANY; i++)
            pair_check(&ends[2 * i], &ends[2 * i + 1], i);
        free(ends);
        exec_world_close(world);
    }
}

/* What runs when the executor fails ends with the same status, once; reserved ids stay their owner's. */
static void test_failure(void **state)
{
    (void)state;
    static const char *const failing[] = {"map", "pull", "put"};
    for (size_t m = 0; m < 3; m++) {
        struct exec_world_options options = {
            .ranks = 2, .window = 8, .mode = failing[m], .eager_bytes = 256, .slice_bytes = 1024};
        struct exec_world *world;
        struct end from, to, waiting;
        assert_int_equal(exec_world_open(&options, &world), 0);
        struct weft_exec *sender = exec_world_rank(world, 0), *receiver = exec_world_rank(world, 1);
        reserve(sender, &waiting, 10);
        pair_start(world, &from, &to, 1, 100000, 1);
        weft_exec_fail(sender, WEFT_PEER_FAILED);
        assert_int_equal(from.calls, 1);
        assert_int_equal(from.status, WEFT_PEER_FAILED);
        assert_int_equal(waiting.calls, 0);
        weft_exec_transfer_release(sender, waiting.id);
        uint32_t id;
        assert_int_equal(weft_exec_transfer_reserve(sender, &from, &id), WEFT_REVOKED);
        weft_exec_fail(receiver, WEFT_REVOKED);
        assert_int_equal(to.calls, 1);
        assert_int_equal(to.status, WEFT_REVOKED);
        free(from.memory);
        free(to.memory);
        free(waiting.memory);
        exec_world_close(world);
    }
}

/* Ids differ from those that used their place before; a message for an old one is refused. */
static void test_stale(void **state)
{
    (void)state;
    struct exec_world_options options = {
        .ranks = 2, .window = 8, .mode = "map", .eager_bytes = 256, .slice_bytes = 1024};
    struct exec_world *world;
    assert_int_equal(exec_world_open(&options, &world), 0);
    struct weft_exec *receiver = exec_world_rank(world, 1);
    uint32_t first, second;
    assert_int_equal(weft_exec_transfer_reserve(receiver, &first, &first), 0);
    weft_exec_transfer_release(receiver, first);
    assert_int_equal(weft_exec_transfer_reserve(receiver, &second, &second), 0);
    assert_int_not_equal(first, second);
    assert_null(weft_exec_transfer_arg(receiver, first));
    struct weft_wire_header header = {.comm = 1,
                                      .op = first,
                                      .kind = WEFT_WIRE_READY,
                                      .version = WEFT_WIRE_VERSION,
                                      .flags = WEFT_WIRE_TRANSFER};
    weft_exec_message(receiver, NULL, &header, sizeof header);
    int status;
    assert_non_null(exec_world_failure(world, 1, &status));
    assert_int_equal(status, WEFT_PROTOCOL);
    exec_world_close(world);
}

static void test_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct weft_transfer) <= 1600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way), cmocka_unit_test(test_many),  cmocka_unit_test(test_failure),
        cmocka_unit_test(test_stale),     cmocka_unit_test(test_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
