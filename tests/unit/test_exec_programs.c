/* Operations as programs of a simulated device: every collective by every algorithm, and what ranks agree on when some vote late,
 * or not at all, or lie. */
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
#include "comm/exec_votes.h"
#include "devmem/claim.h"
#include "examples/device-sim/sim.h"
#include "tests/support/exec_scene.h"
#include "tests/support/exec_sweep.h"

#define PROGRAM_BYTES (1u << 20)

static uint64_t programs_of(struct exec_world *world, uint32_t ranks)
{
    uint64_t programs = weft_exec_get_stats(exec_world_rank(world, 0))->programs;
    for (uint32_t r = 1; r < ranks; r++)
        assert_int_equal(weft_exec_get_stats(exec_world_rank(world, r))->programs, programs);
    return programs;
}

/* which: of the numbers of ranks, as bits. */
static void sweep(const char *options, sweep_place *place, enum weft_program_mode mode, uint32_t which)
{
    static const uint32_t rank_counts[] = {2, 3, 5, 8};
    static const size_t counts[] = {333, 9000};
    uint32_t random = which;
    exec_scene_open(options);
    for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
        if (!(which >> n & 1) || (n > 1 && getenv("WEFT_SANITIZER")))
            continue;
        struct exec_world_options world = {.ranks = rank_counts[n],
                                           .window = n % 2 ? 32 : 4,
                                           .mode = n % 2 ? "map:storm=7" : "pull",
                                           .eager_bytes = 1024,
                                           .slice_bytes = 2048,
                                           .first_sequence = n % 2 ? 0 : UINT32_MAX - 20,
                                           .seed = (uint32_t)(n % 2 ? 17 + n : 0),
                                           .sharing = EXEC_TOGETHER,
                                           .programs = {mode, PROGRAM_BYTES}};
        struct exec_sweep all = {.ranks = rank_counts[n],
                                 .mode = world.mode,
                                 .place = place,
                                 .lanes = exec_scene.lanes,
                                 .counts = counts,
                                 .count_count = sizeof counts / sizeof *counts};
        assert_int_equal(exec_world_open(&world, &all.world), 0);
        exec_sweep(&all, &random);
        uint64_t programs = programs_of(all.world, rank_counts[n]);
        if (place == exec_scene_on_sim)
            assert_in_range(programs, 20, 1000);
        exec_world_close(all.world);
    }
    exec_scene_close();
}

static void test_always(void **state)
{
    (void)state;
    sweep("sim:seed=1", exec_scene_on_sim, WEFT_PROGRAM_ALWAYS, 0xf);
}

static void test_always_slow(void **state)
{
    (void)state;
    sweep("sim:seed=2,delay=20", exec_scene_on_sim, WEFT_PROGRAM_ALWAYS, 2);
}

static void test_always_mixed(void **state)
{
    (void)state;
    sweep("sim:seed=3", exec_scene_anywhere, WEFT_PROGRAM_ALWAYS, 6);
}

static void test_auto(void **state)
{
    (void)state;
    sweep("sim:seed=4", exec_scene_on_sim, WEFT_PROGRAM_AUTO, 3);
}

/* --- allreduces of a few ranks, one by one or many at a time, in memory that the device and the host reach */

#define RANKS 3
#define OPS   24
#define PAINT 0x5a

struct work {
    struct weft_plan *plan;
    struct weft_exec_request request;
    struct weft_exec_op *op;
    int32_t *input, *output;
    size_t count;
};

static struct {
    struct exec_world *world;
    const struct sim_api *sim;
    struct work works[OPS][RANKS];
    uint32_t ops;
    void *stream; /* of the call that waits for it; NULL: none */
    int flag;
    enum weft_program_mode mode;
    size_t count; /* of all operations; 0: various */
} few = {.mode = WEFT_PROGRAM_ALWAYS};

static int32_t *pinned(size_t count)
{
    void *memory;
    assert_int_equal(exec_scene.sim->ops.allocate(exec_scene.sim->device, -1, WEFT_MEMORY_PINNED,
                                                  count * sizeof(int32_t), &memory),
                     0);
    return memory;
}

static void work_open(uint32_t number, uint32_t rank, int on_host)
{
    struct work *work = &few.works[number][rank];
    size_t count = few.count ? few.count : (size_t)100 << number % 5;
    const struct weft_call call = {.sequence = number + 1,
                                   .count = count,
                                   .root = -1,
                                   .collective = WEFT_ALLREDUCE,
                                   .started = 1,
                                   .dtype = WEFT_INT32};
    struct weft_plan_request wanted = {.collective = WEFT_ALLREDUCE,
                                       .algorithm = number % 2 ? WEFT_ALGO_RING : WEFT_ALGO_RD,
                                       .ranks = RANKS,
                                       .rank = rank,
                                       .root = -1};
    *work = (struct work){.count = count, .input = pinned(count), .output = pinned(count)};
    for (size_t i = 0; i < count; i++)
        work->input[i] = (int32_t)(i * number + rank);
    memset(work->output, PAINT, count * sizeof(int32_t));
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
    assert_int_equal(weft_lane_get(exec_scene.lanes, exec_scene.sim, (int)rank % 2, &work->request.lane), 0);
}

/* hosts: ranks, as bits, that run every third operation on the host. */
static void few_open_on(const char *device, uint32_t ops, uint32_t hosts, exec_world_mangle *mangle)
{
    const struct exec_world_options options = {.ranks = RANKS,
                                               .window = 16,
                                               .mode = "map",
                                               .eager_bytes = 512,
                                               .slice_bytes = 1024,
                                               .sharing = EXEC_TOGETHER,
                                               .mangle = mangle,
                                               .programs = {few.mode, PROGRAM_BYTES}};
    exec_scene_open(device);
    few.ops = ops;
    few.stream = NULL;
    assert_int_equal(exec_world_open(&options, &few.world), 0);
    for (uint32_t n = 0; n < ops; n++) {
        for (uint32_t r = 0; r < RANKS; r++)
            work_open(n, r, n % 3 == 2 && hosts >> r & 1 ? WEFT_SHADOW_NONE : 0);
    }
}

static void few_open(uint32_t ops, uint32_t hosts, exec_world_mangle *mangle)
{
    few_open_on("sim:seed=7", ops, hosts, mangle);
}

static void few_close(void)
{
    for (uint32_t n = 0; n < few.ops; n++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            struct work *work = &few.works[n][r];
            if (work->op)
                weft_exec_op_free(work->op);
            weft_lane_put(work->request.lane);
            weft_plan_free(work->plan);
        }
    }
    exec_world_close(few.world);
    for (uint32_t n = 0; n < few.ops; n++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            const struct weft_device_ops *ops = &exec_scene.sim->ops;
            assert_int_equal(ops->release(exec_scene.sim->device, few.works[n][r].input), 0);
            assert_int_equal(ops->release(exec_scene.sim->device, few.works[n][r].output), 0);
        }
    }
    exec_scene_close();
}

static void start(uint32_t number, uint32_t rank)
{
    struct work *work = &few.works[number][rank];
    assert_int_equal(weft_exec_start(exec_world_rank(few.world, rank), &work->request, &work->op), 0);
}

static int status_of(uint32_t number, uint32_t rank)
{
    return few.works[number][rank].op ? weft_exec_op_status(few.works[number][rank].op) : WEFT_AGAIN;
}

/* Turns until the operations before `ops` have ended, or something fails: the first status that is not 0. */
static int turn_until(uint32_t ops)
{
    for (int turn = 0; turn < 100000; turn++) {
        uint32_t left = 0;
        for (uint32_t n = 0; n < ops; n++) {
            for (uint32_t r = 0; r < RANKS; r++) {
                int status = status_of(n, r);
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

static void turn(int times)
{
    for (int i = 0; i < times; i++) {
        exec_world_turn(few.world);
        usleep(20);
    }
}

static void expect_sums(uint32_t ops)
{
    for (uint32_t n = 0; n < ops; n++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            const struct work *work = &few.works[n][r];
            for (size_t i = 0; i < work->count; i++) {
                if (work->output[i] != (int32_t)(RANKS * i * n + 3))
                    fail_msg("operation %u, rank %u, element %zu: %d", n, r, i, (int)work->output[i]);
            }
        }
    }
}

static void one_by_one(uint32_t from, uint32_t end)
{
    for (uint32_t n = from; n < end; n++) {
        for (uint32_t r = 0; r < RANKS; r++)
            start(n, r);
        assert_int_equal(turn_until(n + 1), 0);
    }
}

/* Back to back, of all sizes: all but the first are programs, and where a rank is on the host none. */
static void test_one_by_one(void **state)
{
    (void)state;
    few_open(12, 0, NULL);
    one_by_one(0, 12);
    expect_sums(12);
    assert_in_range(programs_of(few.world, RANKS), 10, 11);
    few_close();
    few_open(12, 2, NULL);
    one_by_one(0, 12);
    expect_sums(12);
    assert_in_range(programs_of(few.world, RANKS), 6, 7);
    few_close();
}

/* Ranks begin them at different times, up to all of them apart. */
static void many_at_a_time(uint32_t hosts, uint32_t lag)
{
    few_open(OPS, hosts, NULL);
    one_by_one(0, 2);
    for (uint32_t n = 2; n < OPS + lag * (RANKS - 1); n++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            uint32_t behind = (r + n / 7) % RANKS * lag;
            while (n >= behind && few.works[n - behind < OPS ? n - behind : OPS - 1][r].op == NULL) {
                uint32_t next = 2;
                while (few.works[next][r].op)
                    next++;
                start(next, r);
            }
        }
        turn(n % 3);
    }
    assert_int_equal(turn_until(OPS), 0);
    expect_sums(OPS);
    programs_of(few.world, RANKS);
    few_close();
}

static void test_many(void **state)
{
    (void)state;
    many_at_a_time(0, 0);
    many_at_a_time(0, 5);
    many_at_a_time(1, 3);
    many_at_a_time(6, OPS);
}

/* A rank comes late to the call; the others have voted. It is said whom they wait for. */
static void test_late_rank(void **state)
{
    (void)state;
    char text[300];
    few_open(3, 0, NULL);
    one_by_one(0, 2);
    uint64_t before = programs_of(few.world, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != 1)
            start(2, r);
    }
    turn(200);
    weft_exec_describe(few.works[2][0].op, text, sizeof text);
    assert_non_null(strstr(text, "waits for rank 1 to begin it"));
    start(2, 1);
    assert_int_equal(turn_until(3), 0);
    expect_sums(3);
    assert_int_equal(programs_of(few.world, RANKS), before + 1);
    few_close();
}

/* --- a device on which programs of one process do not get on beside each other */

static int describe_alone(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    int status = exec_scene.sim->ops.describe(device, ordinal, info);
    info->flags &= ~(uint32_t)WEFT_DEVICE_PROGRAMS_BESIDE;
    return status;
}

/* Each rank on the device of that number, or all on one. */
static void place_alone(struct weft_device_kind *alone, uint32_t ops, int on_one)
{
    *alone = *exec_scene.sim;
    alone->ops.describe = describe_alone;
    for (uint32_t n = 0; n < ops; n++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            struct weft_exec_request *request = &few.works[n][r].request;
            weft_lane_put(request->lane);
            assert_int_equal(weft_lane_get(exec_scene.lanes, alone, on_one ? 0 : (int)r, &request->lane), 0);
        }
    }
}

/* Ranks that share a device have none; and while another communicator has a device's programs, nobody votes for more. */
static void test_alone(void **state)
{
    (void)state;
    struct weft_device_kind alone;
    few_open_on("sim:seed=7,devices=3", 6, 0, NULL);
    place_alone(&alone, 6, 0);
    one_by_one(0, 2);
    uint64_t before = programs_of(few.world, RANKS);
    assert_in_range(before, 0, 1);
    assert_int_equal(weft_claim_take("sim", 1), 1);
    assert_int_equal(weft_claim_take("sim", 1), 0);
    one_by_one(2, 4);
    assert_int_equal(programs_of(few.world, RANKS), before);
    weft_claim_give("sim", 1);
    one_by_one(4, 6);
    expect_sums(6);
    assert_int_equal(programs_of(few.world, RANKS), before + 2);
    for (int ordinal = 0; ordinal < RANKS; ordinal++) {
        assert_int_equal(weft_claim_take("sim", ordinal), 1);
        weft_claim_give("sim", ordinal);
    }
    few_close();
    few_open(6, 0, NULL);
    place_alone(&alone, 6, 1);
    one_by_one(0, 6);
    expect_sums(6);
    assert_int_equal(programs_of(few.world, RANKS), 0);
    few_close();
}

/* --- the choice */

static struct weft_program_class *class_of(uint32_t rank)
{
    return weft_program_class_of(few.works[0][rank].op);
}

/* All ranks come to the same; what one rank has measured counts for all. */
static void expect_choice(uint32_t slow, enum weft_program_way slow_way)
{
    uint32_t done = 1;
    few.mode = WEFT_PROGRAM_AUTO;
    few.count = 700;
    few_open(OPS, 0, NULL);
    one_by_one(0, 1);
    for (; class_of(0)->decided < 6 && done < 12; done++)
        one_by_one(done, done + 1);
    uint64_t before = programs_of(few.world, RANKS);
    assert_int_equal(before, 3); /* tried */
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(class_of(r)->decided, 6);
        assert_true(class_of(r)->cost_ns[WEFT_WAY_PLAN] > 0 && class_of(r)->cost_ns[WEFT_WAY_PROGRAM] > 0);
        class_of(r)->cost_ns[slow_way] = r == slow ? 2000000000 : 1;
    }
    one_by_one(done, OPS);
    expect_sums(OPS);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(class_of(r)->is_settled, 1);
        assert_int_equal(class_of(r)->way, 1 - slow_way);
    }
    assert_int_equal(programs_of(few.world, RANKS), slow_way == WEFT_WAY_PLAN ? before + OPS - done : before);
    few_close();
    few.mode = WEFT_PROGRAM_ALWAYS;
    few.count = 0;
}

static void test_choice(void **state)
{
    (void)state;
    expect_choice(1, WEFT_WAY_PROGRAM);
    expect_choice(2, WEFT_WAY_PLAN);
}

/* --- failures */

static struct {
    int is_due;
    uint32_t votes;
} trouble;

/* Rank 1 ends when all have voted, and it has not seen all votes: the others run a program that will never end. */
static void end_rank_1(struct weft_wire_header *header, uint8_t *payload, size_t *size)
{
    (void)payload, (void)size;
    if (header->kind != WEFT_WIRE_VOTE || !trouble.is_due || ++trouble.votes < RANKS * (RANKS - 1))
        return;
    trouble.is_due = 0;
    weft_exec_fail(exec_world_rank(few.world, 1), WEFT_PEER_FAILED, "rank 1 is gone");
}

static void expect_untouched(uint32_t number, uint32_t rank, const int32_t *as)
{
    const struct work *work = &few.works[number][rank];
    assert_memory_equal(work->output, as, work->count * sizeof(int32_t));
}

/* The ranks that are left are told; what they had on the device ends, and writes nothing later. */
static void test_peer_ends(void **state)
{
    (void)state;
    int32_t after[RANKS][2000];
    few_open(3, 0, end_rank_1);
    one_by_one(0, 2);
    trouble.votes = 0;
    trouble.is_due = 1;
    for (uint32_t r = 0; r < RANKS; r++)
        start(2, r);
    turn(300);
    assert_int_equal(trouble.is_due, 0);
    int waiting = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        waiting += status_of(2, r) == WEFT_AGAIN;
    assert_int_equal(waiting, 2);
    assert_int_equal(status_of(2, 1), WEFT_PEER_FAILED);
    for (uint32_t r = 0; r < RANKS; r++) {
        weft_exec_fail(exec_world_rank(few.world, r), WEFT_PEER_FAILED, "rank 1 is gone");
        assert_int_equal(status_of(2, r), WEFT_PEER_FAILED);
        memcpy(after[r], few.works[2][r].output, few.works[2][r].count * sizeof(int32_t));
    }
    usleep(20000);
    for (uint32_t r = 0; r < RANKS; r++)
        expect_untouched(2, r, after[r]);
    few_close();
}

/* Operations that are freed while they wait for votes. */
static void test_freed_early(void **state)
{
    (void)state;
    few_open(3, 0, NULL);
    one_by_one(0, 2);
    start(2, 0);
    turn(50);
    few_close();
}

/* --- what a rank may tell */

static enum lie {
    LIE_UNALIGNED,
    LIE_OUTSIDE,
    LIE_OVER_WORDS,
    LIE_BYTES,
    LIE_LONG,
    LIE_MAILBOX_LONG,
    LIE_MAILBOX_EMPTY,
    LIE_MAILBOX_LARGE,
    LIE_MAILBOX_TWICE,
    LIE_SHARE,
} lie;

/* Rank 2 lies. */
static void mangle(struct weft_wire_header *header, uint8_t *payload, size_t *size)
{
    struct weft_wire_vote vote;
    struct weft_wire_mailbox mailbox;
    if (header->source != 2)
        return;
    if (header->kind == WEFT_WIRE_VOTE && header->size) {
        memcpy(&vote, payload, sizeof vote);
        vote.offset = lie == LIE_UNALIGNED    ? vote.offset + 8
                      : lie == LIE_OUTSIDE    ? UINT64_MAX - 63
                      : lie == LIE_OVER_WORDS ? 64
                                              : vote.offset;
        vote.bytes += lie == LIE_BYTES ? 64 : 0;
        memcpy(payload, &vote, sizeof vote);
        *size += lie == LIE_LONG;
        if (lie == LIE_MAILBOX_TWICE) {
            header->kind = WEFT_WIRE_MAILBOX;
            header->size = 0;
            *size = 0;
        }
    }
    if (header->kind == WEFT_WIRE_MAILBOX && header->size) {
        memcpy(&mailbox, payload, sizeof mailbox);
        mailbox.bytes = lie == LIE_MAILBOX_EMPTY   ? 0
                        : lie == LIE_MAILBOX_LARGE ? mailbox.bytes << 1
                                                   : mailbox.bytes;
        mailbox.share.bytes[0] ^= lie == LIE_SHARE ? 0x80 : 0;
        memcpy(payload, &mailbox, sizeof mailbox);
        *size += lie == LIE_MAILBOX_LONG;
    }
}

static void test_lies(void **state)
{
    (void)state;
    static const struct {
        enum lie lie;
        const char *part;
    } lies[] = {
        {LIE_UNALIGNED, "of its mailbox of"},
        {LIE_OUTSIDE, "of its mailbox of"},
        {LIE_OVER_WORDS, "of its mailbox of"},
        {LIE_BYTES, "rank 2 expects"},
        {LIE_LONG, "a vote of rank 2 for operation"},
        {LIE_MAILBOX_LONG, "rank 2 tells of a mailbox, in 273 bytes"},
        {LIE_MAILBOX_EMPTY, "rank 2 tells of a mailbox of 0 bytes: expected at least 192"},
        {LIE_MAILBOX_LARGE, "bytes of device memory: expected"},
        {LIE_MAILBOX_TWICE, "rank 2 tells of a mailbox, in 0 bytes"},
        {LIE_SHARE, "a description of device memory has version"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        int status = WEFT_OK;
        const char *why = NULL;
        lie = lies[i].lie;
        few_open(4, 0, mangle);
        for (uint32_t n = 0; n < 4 && status == WEFT_OK; n++) {
            for (uint32_t r = 0; r < RANKS; r++)
                start(n, r);
            status = turn_until(n + 1);
        }
        assert_int_equal(status, WEFT_PROTOCOL);
        for (uint32_t r = 0; r < RANKS && !why; r++)
            why = weft_exec_failure(exec_world_rank(few.world, r), &status);
        if (!why || !strstr(why, lies[i].part))
            fail_msg("lie %zu: %s: expected %s", i, why ? why : "nothing", lies[i].part);
        few_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_by_one),   cmocka_unit_test(test_many),
        cmocka_unit_test(test_late_rank),    cmocka_unit_test(test_peer_ends),
        cmocka_unit_test(test_freed_early),  cmocka_unit_test(test_alone),
        cmocka_unit_test(test_choice),       cmocka_unit_test(test_lies),
        cmocka_unit_test(test_always),       cmocka_unit_test(test_always_slow),
        cmocka_unit_test(test_always_mixed), cmocka_unit_test(test_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
