/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (ranks take turns) */
/* The executor on the loop transport: every algorithm, every way bytes can travel, odd sizes, tiny windows,
 * storms of WEFT_AGAIN and delayed completions, sequences that wrap, mismatches. */
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

static const char *const modes[] = {"map",         "pull",        "put",           "eager",
                                    "map:storm=3", "put:storm=5", "eager:storm=7", "pull:storm=11"};

static int32_t value_of(uint32_t rank, size_t index)
{
    return (int32_t)((rank + 1) * 2654435761u ^ (uint32_t)index * 40503u);
}

struct data {
    void *inputs[64], *outputs[64];
};

static void data_make(struct data *data, uint32_t ranks, size_t count, int in_place)
{
    for (uint32_t r = 0; r < ranks; r++) {
        int32_t *input = malloc(count * 4 + 64);
        for (size_t i = 0; i < count; i++)
            input[i] = value_of(r, i);
        memset(input + count, 0xa5, 64);
        data->inputs[r] = input;
        data->outputs[r] = in_place ? input : malloc(count * 4 + 64);
        if (!in_place)
            memset(data->outputs[r], 0xa5, count * 4 + 64);
    }
}

static size_t data_wrong(const struct data *data, uint32_t ranks, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (uint32_t r = 0; r < ranks; r++)
            sum = (int32_t)((uint32_t)sum + (uint32_t)value_of(r, i));
        for (uint32_t r = 0; r < ranks; r++)
            wrong += ((const int32_t *)data->outputs[r])[i] != sum;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        const uint8_t *guard = (const uint8_t *)data->outputs[r] + count * 4;
        for (int i = 0; i < 64; i++)
            wrong += guard[i] != 0xa5;
    }
    return wrong;
}

static void data_free(struct data *data, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        if (data->outputs[r] != data->inputs[r])
            free(data->outputs[r]);
        free(data->inputs[r]);
    }
}

static void check_one(struct exec_world *world, enum weft_algorithm algorithm, uint32_t ranks, size_t count,
                      int in_place, const char *mode)
{
    struct data data = {0};
    data_make(&data, ranks, count, in_place);
    int status = exec_world_allreduce(world, algorithm, in_place, data.inputs, data.outputs, count,
                                      WEFT_INT32, WEFT_SUM);
    size_t wrong = status ? 0 : data_wrong(&data, ranks, count);
    data_free(&data, ranks);
    if (status || wrong)
        fail_msg("%s%s, %s, %u ranks, %zu elements, in place %d: status %d (%s), %zu wrong",
                 wrong ? "WRONG: " : "", weft_algorithm_name(algorithm), mode, ranks, count, in_place, status,
                 weft_error_detail(), wrong);
}

static void test_every_way(void **state)
{
    (void)state;
    static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 13};
    static const size_t counts[] = {0, 1, 2, 5, 16, 17, 333, 5000, 40000};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
            struct exec_world_options options = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = 1024,
                                                 .slice_bytes = 4096,
                                                 .first_sequence = UINT32_MAX - 5,
                                                 .seed = (uint32_t)(m % 2 ? 17 + n : 0)};
            struct exec_world *world;
            assert_int_equal(exec_world_open(&options, &world), 0);
            for (int a = WEFT_ALGO_RING; a <= WEFT_ALGO_RAB; a++) {
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                    check_one(world, a, rank_counts[n], counts[c], (int)(c + n + (size_t)a) % 2, modes[m]);
            }
            exec_world_close(world);
        }
    }
}

static void test_staged(void **state)
{
    (void)state;
    struct exec_world_options options = {.ranks = 4,
                                         .window = 16,
                                         .mode = "map",
                                         .eager_bytes = 256,
                                         .slice_bytes = 1024,
                                         .stage_only = 1,
                                         .seed = 5};
    struct exec_world *world;
    assert_int_equal(exec_world_open(&options, &world), 0);
    for (int a = WEFT_ALGO_RING; a <= WEFT_ALGO_RAB; a++)
        check_one(world, a, 4, 30000, a % 2, "staged");
    assert_true(weft_exec_get_stats(exec_world_rank(world, 0))->bytes_staged > 0);
    exec_world_paint_staging(world, 0x5c);
    check_one(world, WEFT_ALGO_RING, 4, 30000, 0, "staged");
    assert_true(exec_world_painted_away(world, 0x5c) > 0);
    exec_world_close(world);
}

static void test_zero_copy(void **state)
{
    (void)state;
    struct exec_world_options options = {
        .ranks = 4, .window = 16, .mode = "map", .eager_bytes = 256, .slice_bytes = 1024};
    struct exec_world *world;
    assert_int_equal(exec_world_open(&options, &world), 0);
    check_one(world, WEFT_ALGO_RING, 4, 30000, 0, "map");
    const struct weft_exec_stats *stats = weft_exec_get_stats(exec_world_rank(world, 0));
    assert_int_equal(stats->bytes_staged, 0);
    assert_int_equal(stats->bytes_eager, 0);
    assert_int_equal(stats->bytes_direct, 30000 / 4 * 4 * 6);
    exec_world_close(world);
}

/* A peer that gives up takes back what puts were to reach. That is no verdict of its own: who is to blame comes by other means. */
static void test_late_puts(void **state)
{
    (void)state;
    struct exec_world_options options = {.ranks = 2, .window = 8, .mode = "put", .puts_are_late = 1};
    options.eager_bytes = 256;
    for (int a = WEFT_ALGO_RING; a <= WEFT_ALGO_RAB; a++) {
        struct exec_world *world;
        struct data data = {0};
        assert_int_equal(exec_world_open(&options, &world), 0);
        data_make(&data, 2, 5000, 0);
        int status = exec_world_allreduce(world, (enum weft_algorithm)a, 0, data.inputs, data.outputs, 5000,
                                          WEFT_INT32, WEFT_SUM);
        int failure = WEFT_OK;
        for (uint32_t r = 0; r < 2; r++)
            assert_null(exec_world_failure(world, r, &failure));
        assert_int_equal(status, WEFT_TIMEOUT); /* nothing moves any more */
        data_free(&data, 2);
        exec_world_close(world);
    }
}

/* The offer promises the right length, and the token stands for less: nobody reads past what there is, neither of a
 * whole message nor of a ring of slices. */
static void test_short_tokens(void **state)
{
    (void)state;
    /* pull() comes upon the missing byte by itself, and calls that the caller's mistake. */
    static const struct {
        const char *mode;
        int staged, status;
    } scenes[] = {{"map", 0, WEFT_PROTOCOL}, {"map", 1, WEFT_PROTOCOL}, {"pull", 0, WEFT_INVALID}};
    for (size_t m = 0; m < sizeof scenes / sizeof *scenes; m++) {
        struct exec_world_options options = {.ranks = 2,
                                             .window = 8,
                                             .mode = scenes[m].mode,
                                             .eager_bytes = 256,
                                             .slice_bytes = 1024,
                                             .stage_only = scenes[m].staged,
                                             .short_tokens = 1};
        for (int a = WEFT_ALGO_RING; a <= WEFT_ALGO_RAB; a++) {
            struct exec_world *world;
            struct data data = {0};
            assert_int_equal(exec_world_open(&options, &world), 0);
            data_make(&data, 2, 5000, 0);
            int status =
                exec_world_allreduce(world, a, 0, data.inputs, data.outputs, 5000, WEFT_INT32, WEFT_SUM);
            if (status != scenes[m].status)
                fail_msg("%s, %s, staged %d: status %d (%s)", weft_algorithm_name(a), scenes[m].mode,
                         scenes[m].staged, status, weft_error_detail());
            data_free(&data, 2);
            exec_world_close(world);
        }
    }
}

static void test_mismatch(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        struct exec_world_options options = {
            .ranks = 2, .window = 8, .mode = modes[m], .eager_bytes = 256, .slice_bytes = 1024};
        struct exec_world *world;
        assert_int_equal(exec_world_open(&options, &world), 0);
        struct data data = {0};
        data_make(&data, 2, 4000, 0);
        static const struct {
            size_t count[2];
            uint32_t digest[2];
            const char *named;
        } cases[] = {{{4000, 4000}, {1u << 9, 2u << 9}, "type"}, {{4000, 4000}, {0, 1u << 14}, "reduction"}};
        const size_t which = m % 2;
        struct weft_plan *plans[2];
        struct weft_exec_op *ops[2];
        for (uint32_t r = 0; r < 2; r++) {
            struct weft_plan_request wanted = {WEFT_ALLREDUCE, WEFT_ALGO_RING, 2, r, 0, -1, 0, 0, NULL};
            assert_int_equal(weft_plan_make(&wanted, &plans[r]), 0);
            struct weft_exec_request request = {.plan = plans[r],
                                                .input = data.inputs[r],
                                                .output = data.outputs[r],
                                                .count = cases[which].count[r],
                                                .element_bytes = 4,
                                                .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
                                                .digest = cases[which].digest[r],
                                                .call.root = -1};
            assert_int_equal(weft_exec_start(exec_world_rank(world, r), &request, &ops[r]), 0);
        }
        for (int i = 0; i < 1000; i++)
            exec_world_turn(world);
        int found = 0;
        for (uint32_t r = 0; r < 2; r++) {
            int status;
            const char *text = exec_world_failure(world, r, &status);
            if (text) {
                assert_int_equal(status, WEFT_MISMATCH);
                assert_non_null(strstr(text, cases[which].named));
                found++;
            }
            weft_exec_op_free(ops[r]);
            weft_plan_free(plans[r]);
        }
        assert_true(found > 0);
        data_free(&data, 2);
        exec_world_close(world);
    }
}

/* Bytes from outside: whatever they are, the executor answers with a failure or ignores them. */
static void test_garbage(void **state)
{
    (void)state;
    uint64_t random = 12345;
    for (int round = 0; round < 3000; round++) {
        struct exec_world_options options = {.ranks = 3,
                                             .window = 8,
                                             .mode = round % 2 ? "map" : "put",
                                             .eager_bytes = 256,
                                             .slice_bytes = 1024};
        struct exec_world *world;
        assert_int_equal(exec_world_open(&options, &world), 0);
        struct data data = {0};
        data_make(&data, 3, 3000, 0);
        struct weft_plan *plan;
        struct weft_plan_request wanted = {
            WEFT_ALLREDUCE, WEFT_ALGO_RING + round % 4, 3, 0, 0, -1, 0, 0, NULL};
        assert_int_equal(weft_plan_make(&wanted, &plan), 0);
        struct weft_exec_request request = {.plan = plan,
                                            .input = data.inputs[0],
                                            .output = data.outputs[0],
                                            .count = 3000,
                                            .element_bytes = 4,
                                            .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
                                            .digest = 7,
                                            .call.root = -1};
        struct weft_exec_op *op;
        assert_int_equal(weft_exec_start(exec_world_rank(world, 0), &request, &op), 0);
        for (int i = 0; i < 8; i++) {
            uint64_t block[40];
            struct weft_wire_header *header = (struct weft_wire_header *)block;
            for (size_t w = 0; w < 40; w++)
                block[w] = random = random * 6364136223846793005u + 1442695040888963407u;
            size_t size = sizeof *header + (random >> 8) % 2 * sizeof(struct weft_token);
            header->comm = 1;
            header->op = (random >> 10) % 4 == 0;
            header->source = (random >> 12) % 4;
            header->message = (random >> 14) % 3;
            header->slice = (random >> 16) % 4;
            header->digest = (random >> 18) % 8 ? 7 : 8;
            header->size = (uint32_t)(size - sizeof *header);
            header->kind = (uint8_t)((random >> 20) % 14);
            header->version = WEFT_WIRE_VERSION;
            header->count = (random >> 30) % 16 == 0;
            header->flags = (uint16_t)((random >> 23) % 2);
            weft_exec_message(exec_world_rank(world, 0), NULL, block, (random >> 25) % 16 ? size : size / 2);
            weft_exec_progress(exec_world_rank(world, 0));
        }
        weft_exec_op_free(op);
        weft_plan_free(plan);
        data_free(&data, 3);
        exec_world_close(world);
    }
}

static int never_connected(void *arg, uint32_t rank, struct weft_exec_peer *peer)
{
    (void)arg, (void)rank, (void)peer;
    return WEFT_TRANSPORT;
}

/* Senders are numbers here: that of their rank. */
static int sent_by(void *arg, uint32_t rank, const void *sender)
{
    (void)arg;
    return (uintptr_t)sender == 100 + rank;
}

static int lone_status;
static char lone_words[WEFT_DETAIL_MAX];

static void lone_stopped(void *arg, int status, const char *words)
{
    (void)arg;
    lone_status = status;
    snprintf(lone_words, sizeof lone_words, "%s", words);
}

static const char *lone_failure(int *status)
{
    *status = lone_status;
    return lone_status ? lone_words : NULL;
}

static struct weft_exec *lone_exec(void)
{
    lone_status = 0;
    struct weft_exec_options options = {
        .id = 1,
        .rank = 0,
        .ranks = 4,
        .window = 8,
        .hooks = {.connect = never_connected, .sent_by = sent_by, .stopped = lone_stopped}};
    struct weft_exec *exec;
    assert_int_equal(weft_exec_create(&options, &exec), 0);
    return exec;
}

static void announce(struct weft_exec *exec, uint32_t source, uintptr_t sender, uint32_t message)
{
    struct weft_wire_header header = {.comm = 1,
                                      .source = source,
                                      .message = message,
                                      .kind = WEFT_WIRE_EAGER,
                                      .version = WEFT_WIRE_VERSION};
    weft_exec_message(exec, (const void *)sender, &header, sizeof header);
}

/* A message counts only in the name of the rank whose link it came over. */
static void test_impostor(void **state)
{
    (void)state;
    int status;
    struct weft_exec *exec = lone_exec();
    announce(exec, 2, 102, 0);
    announce(exec, 3, 103, 0);
    announce(exec, 2, 102, 1);
    assert_null(lone_failure(&status));
    announce(exec, 2, 103, 2);
    const char *text = lone_failure(&status);
    assert_int_equal(status, WEFT_PROTOCOL);
    assert_non_null(strstr(text, "rank 2"));
    assert_non_null(strstr(text, "rank 3"));
    weft_exec_destroy(exec);
    exec = lone_exec();
    announce(exec, 1, 999, 0);
    text = lone_failure(&status);
    assert_int_equal(status, WEFT_PROTOCOL);
    assert_non_null(strstr(text, "rank 1"));
    weft_exec_destroy(exec);
}

/* What is kept for steps to come is bounded, per peer. */
static void test_flood(void **state)
{
    (void)state;
    int status;
    struct weft_exec *exec = lone_exec();
    announce(exec, 3, 103, 0);
    uint32_t sent = 0;
    while (sent < 1000000 && !lone_failure(&status))
        announce(exec, 2, 102, sent++);
    const char *text = lone_failure(&status);
    assert_int_equal(status, WEFT_PROTOCOL);
    assert_non_null(strstr(text, "rank 2"));
    assert_true(sent > 64 * 64 && sent < 100000);
    weft_exec_destroy(exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way), cmocka_unit_test(test_staged),
        cmocka_unit_test(test_zero_copy), cmocka_unit_test(test_short_tokens),
        cmocka_unit_test(test_mismatch),  cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_impostor),  cmocka_unit_test(test_flood),
        cmocka_unit_test(test_late_puts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
