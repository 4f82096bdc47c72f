/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* run: early */
/* The executor on memory of a simulated device, between ranks that reach each other's: every collective by every algorithm, where
 * nothing long passes through the host's memory; and what peers may tell of such memory. */
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
#include "devmem/share_wire.h"
#include "tests/support/exec_scene.h"
#include "tests/support/exec_sweep.h"
#include "tests/support/effort.h"

/* What is staged are messages up to the eager limit, once at either end. */
static void check_direct(struct exec_world *world, uint32_t ranks)
{
    uint64_t eager = 0, direct = 0, staged = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const struct weft_exec_stats *stats = weft_exec_get_stats(exec_world_rank(world, r));
        eager += stats->bytes_eager;
        direct += stats->bytes_direct;
        staged += stats->bytes_staged;
    }
    assert_int_equal(staged, 2 * eager);
    assert_true(direct > eager);
}

static void sweep_together(sweep_place *place, uint32_t seed, enum exec_sharing sharing)
{
    static const char *const reading[] = {"map", "pull:storm=11", "map:storm=5"};
    static const uint32_t rank_counts[] = {2, 3, 5, 8};
    static const size_t counts[] = {333, 9000};
    uint32_t random = seed;
    for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
        if (n % 2 && test_is_sanitized())
            continue;
        struct exec_world_options options = {.ranks = rank_counts[n],
                                             .window = n % 2 ? 32 : 4,
                                             .mode = reading[(n + seed) % 3],
                                             .eager_bytes = 64,
                                             .slice_bytes = n % 3 ? 2048 : 512,
                                             .seed = (uint32_t)(n % 2 ? 17 + n : 0),
                                             .sharing = sharing};
        struct exec_sweep all = {.ranks = rank_counts[n],
                                 .mode = options.mode,
                                 .place = place,
                                 .lanes = exec_scene.lanes,
                                 .counts = counts,
                                 .count_count = sizeof counts / sizeof *counts};
        assert_int_equal(exec_world_open(&options, &all.world), 0);
        exec_sweep(&all, &random);
        if (place == exec_scene_on_sim && sharing == EXEC_TOGETHER)
            check_direct(all.world, rank_counts[n]);
        exec_world_close(all.world);
    }
}

/* Threads of one process: device memory is read where it is. */
static void test_together(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=3");
    sweep_together(exec_scene_on_sim, 9, EXEC_TOGETHER);
    exec_scene_close();
}

static void test_together_slow(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=4,delay=20");
    sweep_together(exec_scene_on_sim, 10, EXEC_TOGETHER);
    exec_scene_close();
}

/* Some are on the host, and some on a device, but cannot reach what they are offered. */
static void test_together_mixed(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=5");
    sweep_together(exec_scene_anywhere, 11, EXEC_TOGETHER);
    sweep_together(exec_scene_on_sim, 12, EXEC_ONE_WAY);
    exec_scene_close();
}

static struct weft_exec_stats run_sweep(sweep_place *place, const struct exec_world_options *options,
                                        uint32_t seed)
{
    static const size_t counts[] = {9000};
    struct exec_sweep all = {.ranks = options->ranks,
                             .mode = options->mode,
                             .place = place,
                             .lanes = exec_scene.lanes,
                             .counts = counts,
                             .count_count = 1};
    assert_int_equal(exec_world_open(options, &all.world), 0);
    exec_sweep(&all, &seed);
    struct weft_exec_stats stats = exec_world_sum(all.world);
    exec_world_close(all.world);
    return stats;
}

/* Two devices that do not reach each other; which the receiver finds out. */
static void test_unreachable(void **state)
{
    (void)state;
    static const char *const modes[] = {"map", "pull"};
    exec_scene_open("sim:seed=8,peers=0");
    for (size_t m = 0; m < 2; m++) {
        const struct exec_world_options options = {.ranks = 2,
                                                   .window = 4,
                                                   .mode = modes[m],
                                                   .eager_bytes = 64,
                                                   .slice_bytes = 512,
                                                   .sharing = EXEC_TOGETHER};
        struct weft_exec_stats stats = run_sweep(exec_scene_on_sim, &options, 13);
        assert_int_equal(stats.bytes_direct, 0);
        assert_true(stats.bytes_staged > 0);
    }
    exec_scene_close();
}

/* --- a kind that does not keep its word */

static struct weft_device_kind spoiled;

static int device_of(const void *memory)
{
    struct weft_device_span span = {.size = sizeof span};
    int status = spoiled.ops.identify(spoiled.device, memory, &span);
    return status == WEFT_OK && span.kind == WEFT_MEMORY_DEVICE ? span.ordinal : -1;
}

/* Work between two devices is refused when it is queued, which reaches() did not say. */
static const struct weft_device_kind *honest;

static int refuse_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    int to = device_of(destination), from = device_of(source);
    if (to >= 0 && from >= 0 && to != from)
        return weft_fail(WEFT_UNSUPPORTED, "a copy is refused");
    return honest->ops.copy(queue, destination, source, size);
}

static int refuse_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    int device = device_of(reduction->destinations[0]);
    for (uint32_t s = 0; s < reduction->source_count; s++) {
        int theirs = device_of(reduction->sources[s]);
        if (theirs >= 0 && theirs != device)
            return weft_fail(WEFT_UNSUPPORTED, "a reduction is refused");
    }
    return honest->ops.reduce(queue, reduction);
}

static void spoil(void)
{
    honest = exec_scene.sim;
    spoiled = *honest;
    exec_scene.sim = &spoiled;
}

static void test_refused_when_queued(void **state)
{
    (void)state;
    static const char *const modes[] = {"map", "pull:storm=7"};
    exec_scene_open("sim:seed=9");
    spoil();
    spoiled.ops.copy = refuse_copy;
    spoiled.ops.reduce = refuse_reduce;
    for (size_t m = 0; m < 2; m++) {
        const struct exec_world_options options = {.ranks = 3 + (uint32_t)m,
                                                   .window = 4,
                                                   .mode = modes[m],
                                                   .eager_bytes = 64,
                                                   .slice_bytes = 512,
                                                   .sharing = EXEC_TOGETHER};
        struct weft_exec_stats stats = run_sweep(exec_scene_on_sim, &options, 14);
        assert_true(stats.bytes_direct > 0); /* ranks 0 and 2 are on one device */
        assert_true(stats.bytes_staged > 2 * stats.bytes_eager);
    }
    exec_scene.sim = honest;
    exec_scene_close();
}

static int never_done(struct weft_device_event *event)
{
    (void)event;
    return 0;
}

/* --- what peers may tell of device memory */

#define LIES_COUNT 5000

static enum lie {
    LIE_SHORT,
    LIE_LONG,
    LIE_STAGED,
    LIE_LENT,
    LIE_OTHER_PROCESS,
    LIE_FREED,
    LIE_FEWER,
    LIE_BYTES,
    LIE_TWICE,
    LIE_REFUSE
} lie;

/* Rank 0 is the one that sends. */
static void mangle(struct weft_wire_header *header, uint8_t *payload, size_t *size)
{
    struct weft_wire_device_offer offer;
    struct weft_share_told told;
    if (lie == LIE_REFUSE && header->kind == WEFT_WIRE_TAKEN && header->slice == 20) { /* some is taken */
        header->kind = WEFT_WIRE_REFUSE;
        return;
    }
    if (header->kind != WEFT_WIRE_OFFER)
        return;
    if (lie == LIE_TWICE && !(header->flags & WEFT_WIRE_DEVICE)) {
        header->flags = WEFT_WIRE_DEVICE;
        return;
    }
    if (!(header->flags & WEFT_WIRE_DEVICE))
        return;
    header->flags |= lie == LIE_STAGED ? WEFT_WIRE_STAGED : lie == LIE_LENT ? WEFT_WIRE_LENT : 0;
    *size = lie == LIE_SHORT ? sizeof(struct weft_wire_offer) : lie == LIE_LONG ? *size + 1 : *size;
    if (lie < LIE_OTHER_PROCESS || lie > LIE_BYTES)
        return;
    memcpy(&offer, payload, sizeof offer);
    assert_int_equal(weft_share_read(&offer.share, &told), WEFT_OK);
    told.instance += lie == LIE_OTHER_PROCESS;
    told.identity += lie == LIE_FREED ? 1000 : 0;
    told.length -= lie == LIE_FEWER;
    assert_int_equal(weft_share_write(&told, &offer.share), WEFT_OK);
    offer.share.bytes[0] ^= lie == LIE_BYTES ? 0x80 : 0;
    memcpy(payload, &offer, sizeof offer);
}

/* A broadcast between two ranks. */
struct pair {
    struct exec_world *world;
    struct weft_exec_request requests[2];
    struct weft_plan *plans[2];
    void *memory[2];
};

static void pair_open(struct pair *pair, const struct exec_world_options *options)
{
    const struct weft_call call = {
        .sequence = 1, .count = LIES_COUNT, .collective = WEFT_BROADCAST, .dtype = WEFT_INT32};
    assert_int_equal(exec_world_open(options, &pair->world), 0);
    for (uint32_t r = 0; r < 2; r++) {
        struct weft_plan_request wanted = {.collective = WEFT_BROADCAST,
                                           .algorithm = WEFT_ALGO_BINOMIAL,
                                           .ranks = 2,
                                           .rank = r,
                                           .in_place = 1};
        assert_int_equal(weft_plan_make(&wanted, &pair->plans[r]), 0);
        assert_int_equal(exec_scene.sim->ops.allocate(exec_scene.sim->device, 0, WEFT_MEMORY_DEVICE,
                                                      4 * LIES_COUNT, &pair->memory[r]),
                         0);
        pair->requests[r] = (struct weft_exec_request){.plan = pair->plans[r],
                                                       .input = pair->memory[r],
                                                       .output = pair->memory[r],
                                                       .count = LIES_COUNT,
                                                       .element_bytes = 4,
                                                       .dtype = WEFT_INT32,
                                                       .digest = weft_call_digest(&call),
                                                       .call = call};
        assert_int_equal(weft_lane_get(exec_scene.lanes, exec_scene.sim, 0, &pair->requests[r].lane), 0);
    }
}

static void pair_close(struct pair *pair)
{
    for (uint32_t r = 0; r < 2; r++) {
        weft_lane_put(pair->requests[r].lane);
        weft_plan_free(pair->plans[r]);
        assert_int_equal(exec_scene.sim->ops.release(exec_scene.sim->device, pair->memory[r]), 0);
    }
    exec_world_close(pair->world);
}

/* One of them fails; its status, and what it says. */
static void run_broken(const struct exec_world_options *options, int *status, char *text)
{
    struct pair pair;
    pair_open(&pair, options);
    *status = exec_world_run(pair.world, pair.requests);
    for (uint32_t r = 0; r < 2; r++) {
        int theirs;
        const char *why = weft_exec_failure(exec_world_rank(pair.world, r), &theirs);
        if (why)
            snprintf(text, WEFT_DETAIL_MAX, "%s", why);
    }
    pair_close(&pair);
}

/* Who has been offered everything waits for its own device, not for its peer. */
static void test_waits(void **state)
{
    (void)state;
    const struct exec_world_options options = {
        .ranks = 2, .window = 4, .mode = "map", .slice_bytes = 1024, .sharing = EXEC_TOGETHER};
    struct weft_exec_op *ops[2];
    struct pair pair;
    char text[1000];
    exec_scene_open("sim:seed=10");
    spoil();
    pair_open(&pair, &options);
    spoiled.ops.test = never_done;
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(weft_exec_start(exec_world_rank(pair.world, r), &pair.requests[r], &ops[r]), 0);
    for (int i = 0; i < 100; i++)
        exec_world_turn(pair.world);
    weft_exec_describe(ops[1], text, sizeof text);
    assert_string_equal(text,
                        "step 0 of operation 0: receive from rank 0 (0 of 20000 bytes done, waits for sim "
                        "device 0)");
    weft_exec_describe(ops[0], text, sizeof text);
    assert_string_equal(text, "step 0 of operation 0: send to rank 1 (0 of 20000 bytes done)");
    spoiled.ops.test = honest->ops.test;
    while (weft_exec_op_status(ops[0]) == WEFT_AGAIN || weft_exec_op_status(ops[1]) == WEFT_AGAIN)
        exec_world_turn(pair.world);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(weft_exec_op_status(ops[r]), WEFT_OK);
        weft_exec_op_free(ops[r]);
    }
    pair_close(&pair);
    exec_scene.sim = honest;
    exec_scene_close();
}

static void test_lies(void **state)
{
    (void)state;
    static const struct {
        enum lie lie;
        enum exec_sharing sharing;
        const char *part;
    } lies[] = {
        {LIE_SHORT, EXEC_TOGETHER, "rank 0 offered message 0 twice, or with"},
        {LIE_LONG, EXEC_TOGETHER, "rank 0 offered message 0 twice, or with"},
        {LIE_STAGED, EXEC_TOGETHER, "rank 0 offered message 0 twice, or with"},
        {LIE_LENT, EXEC_TOGETHER, "rank 0 offered message 0 twice, or with"},
        {LIE_OTHER_PROCESS, EXEC_TOGETHER, "is of another process than its peer"},
        {LIE_FREED, EXEC_TOGETHER, "is freed, or never was there"},
        {LIE_FEWER, EXEC_TOGETHER, "tells 19999 bytes of device memory: expected 20000"},
        {LIE_BYTES, EXEC_TOGETHER, "a description of device memory has version"},
        {LIE_TWICE, EXEC_ONE_WAY, "rank 0 offered message 0 twice, or with"},
        {LIE_REFUSE, EXEC_TOGETHER, "rank 1 refused message 0, which was not offered, or is taken"},
    };
    exec_scene_open("sim:seed=6");
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct exec_world_options options = {.ranks = 2,
                                             .window = 4,
                                             .mode = i % 2 ? "map" : "pull",
                                             .slice_bytes = 1024,
                                             .sharing = lies[i].sharing,
                                             .mangle = mangle};
        char text[WEFT_DETAIL_MAX] = "nothing failed";
        int status;
        lie = lies[i].lie;
        run_broken(&options, &status, text);
        if (status != WEFT_PROTOCOL || !strstr(text, lies[i].part))
            fail_msg("lie %zu: status %d (%s): expected %s", i, status, text, lies[i].part);
    }
    exec_scene_close();
}

/* A sender that has given up, before the offer is taken and while it is read. */
static void test_taken_back(void **state)
{
    (void)state;
    exec_scene_open("sim:seed=7");
    for (int checks = 1; checks < 4; checks++) {
        struct exec_world_options options = {.ranks = 2,
                                             .window = 4,
                                             .mode = "map",
                                             .slice_bytes = 1024,
                                             .sharing = EXEC_TOGETHER,
                                             .checks = checks};
        char text[WEFT_DETAIL_MAX] = "nothing failed";
        int status;
        run_broken(&options, &status, text);
        assert_int_equal(status, WEFT_PEER_FAILED);
        assert_string_equal(text, "the memory has been taken back");
    }
    exec_scene_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies),          cmocka_unit_test(test_taken_back),
        cmocka_unit_test(test_together),      cmocka_unit_test(test_together_mixed),
        cmocka_unit_test(test_together_slow), cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_waits),         cmocka_unit_test(test_refused_when_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
