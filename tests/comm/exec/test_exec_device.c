/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* run: early; elsewhere (tests/system/test_streams) */
/* The executor on device memory: every collective by every algorithm on the loop transport, wherever the ranks' memory is and
 * however it moves. What peers may announce of such memory: test_exec_direct.c. How ranks agree on device collectives: test_exec_device_collectives.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "base/error.h"
#include "tests/support/bits.h"
#include "tests/support/sim_scene.h"
#include "tests/support/exec_sweep.h"
#include "tests/support/effort.h"

static void on_host_kind(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    (void)rank, (void)random, (void)on_host;
    device->kind = sim_scene.host;
}

/* What ranks have moved at the end. Messages up to the eager limit are staged at both ends. */
enum moved {
    ANYHOW,
    NOTHING_ELSE_STAGED,
    MORE_STAGED, /* but not all */
    ALL_STAGED,
    BY_COLLECTIVES,
};

/* How device memory is reached by others. */
enum way {
    APART,            /* not at all */
    TOGETHER,         /* by the others' devices */
    ONE_WAY,          /* the same, but ranks with an odd number cannot */
    REGISTERED,       /* the transport puts from there, and into it */
    HERE_AND_THERE,   /* the same, but for ranks with an odd number */
    COLLECTIVES,      /* together, and what can be a program is one */
    COLLECTIVES_AUTO, /* where that is faster */
};

static const uint32_t rank_counts[] = {2, 3, 5, 8};

static const struct row {
    const char *name, *device;
    enum way way;
    sweep_place *place;
    const char *modes[2]; /* for even and for odd places in rank_counts */
    uint32_t which;       /* places in rank_counts, as bits */
    enum moved moved;
} rows[] = {
    {"the kind host", "sim:seed=1", APART, on_host_kind, {"map", "put:storm=5"}, 0xf, ANYHOW},
    {"the kind host, by pulls", "sim:seed=1", APART, on_host_kind, {"pull:storm=11", "eager"}, 0xf, ANYHOW},
    {"staged", "sim:seed=1", APART, sim_scene_on_sim, {"pull:storm=11", "put:storm=5"}, 0xf, ANYHOW},
    {"slow", "sim:seed=2,delay=20", APART, sim_scene_anywhere, {"eager:storm=7", "put"}, 0xf, ANYHOW},
    {"shared", "sim:seed=3", TOGETHER, sim_scene_on_sim, {"map", "pull:storm=11"}, 0xf, NOTHING_ELSE_STAGED},
    {"shared, slow",
     "sim:seed=4,delay=20",
     TOGETHER,
     sim_scene_on_sim,
     {"pull", "map:storm=5"},
     0xf,
     NOTHING_ELSE_STAGED},
    {"shared, mixed", "sim:seed=5", TOGETHER, sim_scene_anywhere, {"map:storm=5", "pull"}, 0xf, ANYHOW},
    {"shared with some", "sim:seed=5", ONE_WAY, sim_scene_on_sim, {"map", "pull:storm=11"}, 0xf, ANYHOW},
    {"out of reach, mapped", "sim:seed=8,peers=0", TOGETHER, sim_scene_on_sim, {"map", ""}, 1, ALL_STAGED},
    {"out of reach, pulled", "sim:seed=8,peers=0", TOGETHER, sim_scene_on_sim, {"pull", ""}, 1, ALL_STAGED},
    {"registered",
     "sim:seed=1,dmabuf=1",
     REGISTERED,
     sim_scene_on_sim,
     {"put", "put:storm=3"},
     9,
     NOTHING_ELSE_STAGED},
    {"registered, slow",
     "sim:seed=2,dmabuf=1,delay=20",
     REGISTERED,
     sim_scene_on_sim,
     {"put", "put:storm=3"},
     9,
     NOTHING_ELSE_STAGED},
    {"registered, refused to some",
     "sim:seed=3,dmabuf=1",
     HERE_AND_THERE,
     sim_scene_on_sim,
     {"put", "put:storm=3"},
     9,
     MORE_STAGED},
    {"registered, mixed",
     "sim:seed=4,dmabuf=1,delay=5",
     REGISTERED,
     sim_scene_anywhere,
     {"put", "put:storm=3"},
     9,
     ANYHOW},
    {"programs", "sim:seed=1", COLLECTIVES, sim_scene_on_sim, {"pull", "map:storm=7"}, 0xf, BY_COLLECTIVES},
    {"programs, slow",
     "sim:seed=2,delay=20",
     COLLECTIVES,
     sim_scene_on_sim,
     {"", "map:storm=7"},
     2,
     BY_COLLECTIVES},
    {"programs, mixed", "sim:seed=3", COLLECTIVES, sim_scene_anywhere, {"pull", "map:storm=7"}, 6, ANYHOW},
    {"programs where they are faster",
     "sim:seed=4",
     COLLECTIVES_AUTO,
     sim_scene_on_sim,
     {"pull", "map:storm=7"},
     3,
     BY_COLLECTIVES},
};

static void check_moved(enum moved moved, uint32_t ranks, const struct weft_exec_stats *sum)
{
    switch (moved) {
    case NOTHING_ELSE_STAGED:
        assert_int_equal(sum->bytes_staged, 2 * sum->bytes_eager);
        assert_true(sum->bytes_direct > sum->bytes_eager);
        break;
    case MORE_STAGED:
        assert_true(sum->bytes_staged > 2 * sum->bytes_eager);
        assert_true(sum->bytes_direct > 0);
        break;
    case ALL_STAGED:
        assert_int_equal(sum->bytes_direct, 0);
        assert_true(sum->bytes_staged > 2 * sum->bytes_eager);
        break;
    case BY_COLLECTIVES:
        assert_in_range(sum->collectives, 20 * ranks, 1000 * ranks);
        break;
    default:
        break;
    }
}

static void check_row(void **state)
{
    const struct row *row = *state;
    uint32_t random = (uint32_t)(row - rows) + 3;
    sim_scene_open(row->device);
    for (uint32_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
        if (!(row->which >> n & 1) || (n % 2 && test_is_sanitized() && row->which != 2))
            continue;
        const struct exec_world_options world = {
            .ranks = rank_counts[n],
            .window = n % 2 ? 32 : 4,
            .mode = row->modes[n % 2],
            .eager_bytes = row->way >= COLLECTIVES ? 1024 : 64,
            .slice_bytes = n % 3 ? 2048 : 1024,
            .seed = n % 2 ? 17 + n : 0,
            .first_sequence = n == 2 ? UINT32_MAX - 20 : 0,
            .sharing = row->way == TOGETHER || row->way >= COLLECTIVES ? EXEC_TOGETHER
                       : row->way == ONE_WAY                           ? EXEC_ONE_WAY
                                                                       : EXEC_APART,
            .registers = row->way == REGISTERED || row->way == HERE_AND_THERE ? sim_scene.sim : NULL,
            .refuses = row->way == HERE_AND_THERE ? 0xaa : 0,
            .collectives = {row->way == COLLECTIVES_AUTO ? WEFT_DEVICE_COLLECTIVE_AUTO
                                                         : WEFT_DEVICE_COLLECTIVE_ALWAYS,
                            row->way >= COLLECTIVES ? 1 << 20 : 0}};
        const struct weft_exec_stats sum = exec_sweep_world(&world, row->place, sim_scene.queues, &random);
        check_moved(row->moved, world.ranks, &sum);
    }
    sim_scene_close();
}

/* --- kinds that do not keep their word */

static struct weft_device_kind spoiled;

static void on_spoiled(uint32_t rank, uint32_t *random, struct case_device *device, int *on_host)
{
    sim_scene_on_sim(rank, random, device, on_host);
    device->kind = &spoiled;
}

static int refuse_to_flush(struct weft_device *device, int ordinal)
{
    (void)device, (void)ordinal;
    return weft_fail(WEFT_UNSUPPORTED, "the test's device does not see what NICs write");
}

/* The device does not see what NICs write there: receives are staged, and sends leave from its memory all the same. */
static void test_writes_that_are_not_seen(void **state)
{
    (void)state;
    sim_scene_open("sim:seed=1,dmabuf=1");
    spoiled = *sim_scene.sim;
    spoiled.ops.flush_writes = refuse_to_flush;
    struct exec_world_options world = {.ranks = 3,
                                       .window = 32,
                                       .mode = "put",
                                       .eager_bytes = 64,
                                       .slice_bytes = 1024,
                                       .registers = sim_scene.sim};
    uint32_t random = 23, again = random;
    const struct weft_exec_stats seen = exec_sweep_world(&world, sim_scene_on_sim, sim_scene.queues, &random);
    const struct weft_exec_stats unseen = exec_sweep_world(&world, on_spoiled, sim_scene.queues, &again);
    assert_int_equal(unseen.bytes_eager, seen.bytes_eager);
    assert_true(unseen.bytes_staged > 2 * unseen.bytes_eager);
    /* What is put counts once, where it arrives, and again where it was staged to be sent. */
    assert_int_equal(unseen.bytes_staged + unseen.bytes_direct, seen.bytes_staged + seen.bytes_direct);
    sim_scene_close();
}

static int device_of(const void *memory)
{
    struct weft_device_span span = {.size = sizeof span};
    int status = spoiled.ops.identify(spoiled.device, memory, &span);
    return status == WEFT_OK && span.kind == WEFT_MEMORY_DEVICE ? span.ordinal : -1;
}

static int refuse_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    int to = device_of(destination), from = device_of(source);
    if (to >= 0 && from >= 0 && to != from)
        return weft_fail(WEFT_UNSUPPORTED, "a copy is refused");
    return sim_scene.sim->ops.copy(queue, destination, source, size);
}

static int refuse_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    int device = device_of(reduction->destinations[0]);
    for (uint32_t s = 0; s < reduction->source_count; s++) {
        int theirs = device_of(reduction->sources[s]);
        if (theirs >= 0 && theirs != device)
            return weft_fail(WEFT_UNSUPPORTED, "a reduction is refused");
    }
    return sim_scene.sim->ops.reduce(queue, reduction);
}

/* Work between two devices is refused when it is queued, which reaches() did not say. */
static void test_refused_when_queued(void **state)
{
    (void)state;
    static const char *const modes[] = {"map", "pull:storm=7"};
    sim_scene_open("sim:seed=9");
    spoiled = *sim_scene.sim;
    spoiled.ops.copy = refuse_copy;
    spoiled.ops.reduce = refuse_reduce;
    for (uint32_t m = 0; m < 2; m++) {
        uint32_t random = 14;
        const struct exec_world_options world = {.ranks = 3 + m, /* ranks 0 and 2 are on one device */
                                                 .window = 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = 64,
                                                 .slice_bytes = 512,
                                                 .sharing = EXEC_TOGETHER};
        const struct weft_exec_stats sum = exec_sweep_world(&world, on_spoiled, sim_scene.queues, &random);
        check_moved(MORE_STAGED, world.ranks, &sum);
    }
    sim_scene_close();
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
    sim_scene_open("sim:seed=1");
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
        assert_int_equal(weft_command_queue_get(sim_scene.queues, sim_scene.sim, 0, &requests[r].commands),
                         0);
        assert_int_equal(weft_exec_start(exec_world_rank(world, r), &requests[r], &ops[r]), 0);
        assert_int_equal(memory[r][1][0], 3 * memory[r][0][0]);
        assert_int_equal(memory[r][1][COUNT - 1], 0);
    }
    for (int turns = 0; turns < 1000 && weft_exec_op_status(ops[0]) + weft_exec_op_status(ops[1]); turns++)
        exec_world_turn(world);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(weft_exec_op_status(ops[r]), WEFT_OK);
        for (int i = 0; i < COUNT; i++)
            assert_bits(memory[r][2][i] == 3 * (2 * i + 3));
        weft_exec_op_free(ops[r]);
        weft_command_queue_put(requests[r].commands);
        weft_plan_free(plans[r]);
        for (int b = 0; b < 3; b++)
            free(memory[r][b]);
    }
    exec_world_close(world);
    sim_scene_close();
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof *rows };
    struct CMUnitTest tests[ROWS + 3] = {
        cmocka_unit_test(test_writes_that_are_not_seen),
        cmocka_unit_test(test_refused_when_queued),
        cmocka_unit_test(test_scaled_on_the_host),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[i + 3] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = check_row, .initial_state = (void *)(uintptr_t)&rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
