/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Operations on device memory that begin late, end early or fail: what the program's stream sees, what is written after the
 * call has returned, and what is said. The buffers are memory that the simulated device and the host both reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "examples/device-sim/sim.h"
#include "tests/support/sim_scene.h"
#include "tests/support/command_queue_stall.h"

#define RANKS   3
#define COUNT   3000
#define BYTES   (COUNT * sizeof(int32_t))
#define TURNS   2000
#define SHADOWS (WEFT_SHADOW_INPUT | WEFT_SHADOW_OUTPUT)
#define PAINT   0x5a
#define FAILS   "sim: work fails, as the options say"

/* "shared": ranks read each other's device memory. */
static const char *const modes[] = {"map", "pull", "put", "eager", "shared"};
#define MODES (sizeof modes / sizeof *modes)

struct rank {
    struct weft_plan *plan;
    struct weft_exec_request request;
    struct weft_exec_op *op;
    struct weft_command_queue *commands;
    int32_t *input, *output, *seen; /* seen: what a kernel behind the call copies from the output */
    void *stream;
};

static struct {
    const struct sim_api *sim;
    struct exec_world *world;
    struct rank ranks[RANKS];
} scene;

/* Some kinds of trouble begin here already; those calls are made again. */
static int32_t *pinned(void)
{
    void *memory;
    while (sim_scene.sim->ops.allocate(sim_scene.sim->device, -1, WEFT_MEMORY_PINNED, BYTES, &memory) !=
           WEFT_OK)
        ;
    return memory;
}

static void rank_open(uint32_t r, int on_host)
{
    struct rank *rank = &scene.ranks[r];
    const struct weft_call call = {
        .sequence = 1, .count = COUNT, .root = -1, .collective = WEFT_ALLREDUCE, .dtype = WEFT_INT32};
    struct weft_plan_request wanted = {
        .collective = WEFT_ALLREDUCE, .algorithm = WEFT_ALGO_RING, .ranks = RANKS, .rank = r, .root = -1};
    *rank = (struct rank){.input = pinned(), .output = pinned(), .seen = pinned()};
    assert_int_equal(weft_plan_make(&wanted, &rank->plan), 0);
    assert_int_equal(weft_command_queue_get(sim_scene.queues, sim_scene.sim, 0, &rank->commands), 0);
    assert_int_equal(scene.sim->stream_open(0, &rank->stream), 0);
    for (int i = 0; i < COUNT; i++)
        rank->input[i] = i + (int32_t)r;
    memset(rank->output, PAINT, BYTES);
    rank->request = (struct weft_exec_request){
        .plan = rank->plan,
        .input = rank->input,
        .output = rank->output,
        .count = COUNT,
        .element_bytes = sizeof(int32_t),
        .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
        .commands = rank->commands,
        .on_host = on_host,
        .dtype = WEFT_INT32,
        .op = WEFT_SUM,
        .digest = weft_call_digest(&call),
        .call = call,
    };
}

static void scene_open(const char *options, const char *mode, int on_host, int no_staging)
{
    int is_shared = strcmp(mode, "shared") == 0;
    const struct exec_world_options world = {.ranks = RANKS,
                                             .window = 16,
                                             .mode = is_shared ? "map" : mode,
                                             .sharing = is_shared ? EXEC_TOGETHER : EXEC_APART,
                                             .eager_bytes = 512,
                                             .slice_bytes = 1024,
                                             .no_staging = no_staging};
    sim_scene_open(options);
    scene.sim = sim_scene_sim();
    assert_int_equal(exec_world_open(&world, &scene.world), 0);
    for (uint32_t r = 0; r < RANKS; r++)
        rank_open(r, on_host);
}

static void command_queues_end(void)
{
    weft_command_queues_destroy(sim_scene.queues);
    sim_scene.queues = NULL;
}

/* The command queues go first, since they may hold staging; then nothing uses it. Every stream comes to its end. */
static void scene_close(void)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        struct rank *rank = &scene.ranks[r];
        if (rank->op)
            weft_exec_op_free(rank->op);
        weft_command_queue_put(rank->commands);
        assert_int_equal(scene.sim->stream_close(rank->stream), 0);
    }
    command_queues_end();
    assert_int_equal(exec_world_staged(scene.world), 0);
    exec_world_close(scene.world);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct rank *rank = &scene.ranks[r];
        weft_plan_free(rank->plan);
        assert_int_equal(sim_scene.sim->ops.release(sim_scene.sim->device, rank->input), 0);
        assert_int_equal(sim_scene.sim->ops.release(sim_scene.sim->device, rank->output), 0);
        assert_int_equal(sim_scene.sim->ops.release(sim_scene.sim->device, rank->seen), 0);
    }
    sim_scene_close();
}

/* A call that the stream has come to, which what comes behind it in the stream waits for. */
static int start(uint32_t r)
{
    struct rank *rank = &scene.ranks[r];
    assert_int_equal(weft_command_queue_close_wait(rank->commands, rank->stream), 0);
    return weft_exec_start(exec_world_rank(scene.world, r), &rank->request, &rank->op);
}

/* And a kernel that looks at the output. */
static int start_in_stream(uint32_t r)
{
    struct rank *rank = &scene.ranks[r];
    int status = start(r);
    assert_int_equal(scene.sim->stream_copy(rank->stream, rank->seen, rank->output, BYTES), 0);
    return status;
}

static int is_running(uint32_t r)
{
    return weft_exec_op_status(scene.ranks[r].op) == WEFT_AGAIN;
}

static int are_running(void)
{
    int running = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        running += is_running(r);
    return running;
}

static void turn(int turns)
{
    for (int i = 0; i < turns; i++) {
        if (exec_world_turn(scene.world) == 0)
            usleep(20);
    }
}

/* The others fail next, in ways of their own. One turn may do both: a device's words go first, and what is refused. */
static const char *first_failure(int *status)
{
    const char *first = NULL;
    for (uint32_t r = 0; r < RANKS; r++) {
        int now;
        const char *text = exec_world_failure(scene.world, r, &now);
        if (!text || (first && !strstr(text, "as the options say")))
            continue;
        first = text;
        *status = now;
    }
    return first;
}

static void check_results(const int32_t *results, const char *what)
{
    for (int i = 0; i < COUNT; i++) {
        if (results[i] != 3 * i + 3)
            fail_msg("WRONG: %s: element %d is %d, expected %d", what, i, results[i], 3 * i + 3);
    }
}

static void check_seen(const char *what)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(scene.sim->stream_sync(scene.ranks[r].stream), 0);
        check_results(scene.ranks[r].seen, what);
    }
}

static void expect_waits(uint32_t r, const char *described, const char *dumped)
{
    char text[2000];
    weft_exec_describe(scene.ranks[r].op, text, sizeof text);
    if (!strstr(text, described))
        fail_msg("'%s': expected '%s'", text, described);
    size_t length = weft_exec_dump(scene.ranks[r].op, text, sizeof text);
    assert_int_equal(length, strlen(text));
    if (!strstr(text, dumped))
        fail_msg("'%s': expected '%s'", text, dumped);
    assert_int_equal(weft_exec_dump(scene.ranks[r].op, NULL, 0), length);
}

/* What comes from others before the call begins is kept. */
static void test_begins_late(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODES; m++) {
        for (int on_host = 0; on_host < 2; on_host++) {
            scene_open("sim:seed=1,delay=20", modes[m], on_host ? SHADOWS : 0, 0);
            for (uint32_t r = 1; r < RANKS; r++)
                assert_int_equal(start_in_stream(r), 0);
            turn(TURNS);
            assert_true(is_running(1) && is_running(2));
            expect_waits(1, "receive from rank 0 (0 of", "waits for rank 0\n");
            memcpy(scene.ranks[0].input, scene.ranks[1].input, BYTES);
            assert_int_equal(start_in_stream(0), 0);
            while (are_running())
                turn(1);
            for (uint32_t r = 0; r < RANKS; r++) {
                assert_int_equal(weft_exec_op_status(scene.ranks[r].op), 0);
                assert_int_equal(scene.sim->stream_sync(scene.ranks[r].stream), 0);
                for (int i = 0; i < COUNT; i++)
                    assert_int_equal(scene.ranks[r].seen[i], 3 * i + 4);
            }
            scene_close();
        }
    }
}

/* A kernel behind the call sees the results, however slow the device is. */
static void test_waits(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODES; m++) {
        for (int on_host = 0; on_host < 2; on_host++) {
            scene_open("sim:seed=3,delay=1000", modes[m], on_host ? SHADOWS : 0, 0);
            for (uint32_t r = 0; r < RANKS; r++)
                assert_int_equal(start_in_stream(r), 0);
            while (are_running())
                turn(1);
            check_seen(modes[m]);
            const struct weft_exec_stats *stats = weft_exec_get_stats(exec_world_rank(scene.world, 0));
            /* in and out of the host; or each of 4 messages of a third, sent and received; or what is received, read by the device */
            int is_shared = strcmp(modes[m], "shared") == 0 && !on_host;
            assert_true(on_host || stats->bytes_direct == (is_shared ? 4 * BYTES / 3 : 0));
            assert_int_equal(stats->bytes_staged, on_host ? 2 * BYTES : is_shared ? 0 : 8 * BYTES / 3);
            scene_close();
        }
    }
}

enum point { LOADS, RUNS, ENDS, POINTS };

static int is_at(uint32_t r, enum point point)
{
    static const char *const marks[] = {"which copies", "", "the last of the work"};
    char text[500];
    weft_exec_describe(scene.ranks[r].op, text, sizeof text);
    for (int p = 0; point == RUNS && p < POINTS; p++) {
        if (p != RUNS && strstr(text, marks[p]))
            return 0;
    }
    return strstr(text, marks[point]) && !weft_command_queue_is_idle(scene.ranks[r].commands);
}

/* Rank 0's operation ends at a point of its way, by the executor's failure or alone. Nothing is written then. 0: it was
 * never seen at that point, which a fast device or a busy host can do. */
static int check_ended_at(enum point point, const char *mode, int on_host, int alone, int seed)
{
    char options[64];
    snprintf(options, sizeof options, "sim:seed=%d,delay=3000", seed);
    scene_open(options, mode, on_host, 0);
    struct rank *ended = &scene.ranks[0];
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(start(r), 0);
    while (is_running(0) && !is_at(0, point))
        turn(1);
    for (int more = 0; point == RUNS && more < 20 && is_running(0); more++)
        turn(1);
    if (!is_running(0)) {
        scene_close();
        return 0;
    }
    if (alone) {
        weft_exec_op_free(ended->op);
        ended->op = NULL;
    } else {
        weft_exec_fail(exec_world_rank(scene.world, 0), WEFT_CANCELLED);
        assert_int_equal(weft_exec_op_status(ended->op), WEFT_CANCELLED);
    }
    for (uint32_t r = 1; r < RANKS; r++)
        weft_exec_fail(exec_world_rank(scene.world, r), WEFT_REVOKED);
    memset(ended->output, PAINT, BYTES);
    exec_world_paint_staging(scene.world, PAINT);
    for (uint32_t r = 0; r < RANKS; r++) {
        weft_command_queue_put(scene.ranks[r].commands);
        scene.ranks[r].commands = NULL;
        scene.sim->stream_sync(scene.ranks[r].stream); /* the stream wait has ended */
    }
    command_queues_end();
    assert_int_equal(exec_world_staged(scene.world), 0);
    assert_int_equal(exec_world_painted_away(scene.world, PAINT), 0);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(((uint8_t *)ended->output)[i], PAINT);
    scene_close();
    return 1;
}

static void end_at(enum point point, const char *mode, int on_host, int alone)
{
    int seed = 1;
    while (!check_ended_at(point, mode, on_host, alone, seed) && seed < 100)
        seed++;
    assert_true(seed < 100);
}

static void test_ended_early(void **state)
{
    (void)state;
    for (int point = LOADS; point < POINTS; point++) {
        for (size_t m = 0; m < MODES; m++) {
            if (point == RUNS)
                end_at((enum point)point, modes[m], 0, m % 2);
            else
                end_at((enum point)point, modes[m], SHADOWS, m % 2 == 0);
        }
    }
}

/* A device that does not come to its end keeps the staging that it may still write, or the mappings that it may read. */
static void test_hangs(void **state)
{
    (void)state;
    static const char *const ways[] = {"put", "map", "shared", "shared"};
    for (int way = 0; way < 4; way++) {
        int alone = way % 2, is_staged = way < 2;
        scene_open("sim:seed=1", ways[way], 0, 0);
        struct rank *stuck = &scene.ranks[0];
        struct command_queue_stall stall;
        command_queue_stall_open(&stall, sim_scene.sim);
        for (uint32_t r = 0; r < RANKS; r++) {
            struct rank *rank = &scene.ranks[r];
            assert_int_equal(weft_exec_start(exec_world_rank(scene.world, r), &rank->request, &rank->op), 0);
        }
        assert_int_equal(command_queue_stall_put(&stall, stuck->commands), 0);
        turn(TURNS);
        assert_true(is_running(0));
        expect_waits(0, "waits for sim device 0)", "waits for sim device 0\n");
        for (uint32_t r = 1; r < RANKS; r++)
            weft_exec_fail(exec_world_rank(scene.world, r), WEFT_REVOKED);
        if (alone) {
            weft_exec_op_free(stuck->op);
            stuck->op = NULL;
        } else {
            weft_exec_fail(exec_world_rank(scene.world, 0), WEFT_TIMEOUT);
        }
        assert_int_equal(exec_world_staged(scene.world) > 0, is_staged);
        weft_command_queue_put(stuck->commands);
        stuck->commands = NULL;
        assert_int_equal(exec_world_staged(scene.world) > 0, is_staged);
        command_queue_stall_end(&stall);
        for (uint32_t r = 1; r < RANKS; r++) {
            weft_command_queue_put(scene.ranks[r].commands);
            scene.ranks[r].commands = NULL;
        }
        command_queues_end();
        command_queue_stall_close(&stall);
        scene_close();
    }
}

/* One work in many fails: then the operation does, with the device's words, and the streams go on. */
static void test_failing_device(void **state)
{
    (void)state;
    int failures = 0, successes = 0;
    for (int seed = 1; seed <= 24; seed++) {
        char options[64];
        snprintf(options, sizeof options, "sim:seed=%d,fail=60", seed);
        scene_open(options, modes[(size_t)seed % MODES], seed % 3 ? 0 : SHADOWS, 0);
        const char *text = NULL;
        int status;
        for (uint32_t r = 0; r < RANKS; r++)
            assert_int_equal(start_in_stream(r), 0);
        while (!(text = first_failure(&status)) && are_running())
            turn(1);
        if (text && (status != WEFT_TRANSPORT || strcmp(text, FAILS)))
            fail_msg("seed %d: status %d, %s", seed, status, text);
        for (uint32_t r = 0; r < RANKS && text; r++) {
            weft_exec_fail(exec_world_rank(scene.world, r), WEFT_REVOKED);
            assert_false(is_running(r));
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            weft_command_queue_put(scene.ranks[r].commands);
            scene.ranks[r].commands = NULL;
            assert_int_equal(scene.sim->stream_sync(scene.ranks[r].stream), 0);
            if (!text)
                check_results(scene.ranks[r].seen, options);
        }
        failures += text != NULL;
        successes += text == NULL;
        scene_close();
    }
    if (!failures || !successes)
        fail_msg("%d failures, %d successes: expected some of both", failures, successes);
}

static void expect_text(const char *text, int status, const char *part, const char *reason)
{
    if (status != WEFT_NOMEM || !strstr(text, part) || !strstr(text, reason))
        fail_msg("status %d, '%s': expected '%s' and '%s'", status, text, part, reason);
}

/* How the operations of all ranks end where registrations are refused: each with what was refused, or with its results. */
static void check_refused(int seed, int on_host, int *failures, int *successes)
{
    char options[64];
    int has_failed = 0, status;
    snprintf(options, sizeof options, "sim:seed=%d,refuse=%d", seed, on_host ? 10 : 60);
    scene_open(options, modes[(size_t)seed % MODES], on_host, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        status = start_in_stream(r);
        if (status != WEFT_OK)
            expect_text(weft_error_detail(), status, on_host ? "no host memory of 12000 bytes for rank" : "",
                        "as the options say");
        has_failed += status != WEFT_OK;
    }
    while (!has_failed && are_running()) {
        turn(1);
        const char *text = first_failure(&status);
        if (text)
            expect_text(text, status, " memory of ", "as the options say");
        has_failed += text != NULL;
    }
    if (!has_failed)
        check_seen(options);
    *failures += has_failed != 0;
    *successes += !has_failed;
    scene_close();
}

static void test_refused(void **state)
{
    (void)state;
    for (int on_host = 0; on_host <= SHADOWS; on_host += SHADOWS) {
        int failures = 0, successes = 0;
        for (int seed = 1; seed <= 24; seed++)
            check_refused(seed, on_host, &failures, &successes);
        if (!failures || !successes)
            fail_msg("%d failures, %d successes: expected some of both", failures, successes);
    }
}

static void test_no_staging(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODES; m++) {
        int status = 0;
        scene_open("sim:seed=1", modes[m], 0, 1);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(start_in_stream(r), 0);
            while (is_running(r))
                turn(1);
            const char *text = exec_world_failure(scene.world, r, &status);
            assert_non_null(text);
            expect_text(text, status, "memory of ", " bytes for rank ");
        }
        scene_close();
        scene_open("sim:seed=1", modes[m], SHADOWS, 1);
        assert_int_equal(start_in_stream(0), WEFT_NOMEM);
        assert_string_equal(weft_error_detail(), "no host memory of 12000 bytes for rank 0");
        scene_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins_late),    cmocka_unit_test(test_waits),
        cmocka_unit_test(test_ended_early),    cmocka_unit_test(test_hangs),
        cmocka_unit_test(test_failing_device), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_staging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
