/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* What peers may announce of device memory that others read, and what is said of who waits for it. That it arrives: test_exec_device.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "base/error.h"
#include "devmem/share_wire.h"
#include "tests/support/sim_scene.h"

/* --- a kind whose work does not end */

static struct weft_device_kind spoiled;

static int never_done(struct weft_device_event *event)
{
    (void)event;
    return 0;
}

/* --- what peers may announce of device memory */

#define LIES_COUNT 5000

static enum lie {
    LIE_SHORT,
    LIE_LONG,
    LIE_STAGED,
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
    struct weft_share_content content;
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
    header->flags |= lie == LIE_STAGED ? WEFT_WIRE_STAGED : 0;
    *size = lie == LIE_SHORT ? sizeof(struct weft_wire_offer) : lie == LIE_LONG ? *size + 1 : *size;
    if (lie < LIE_OTHER_PROCESS || lie > LIE_BYTES)
        return;
    memcpy(&offer, payload, sizeof offer);
    assert_int_equal(weft_share_read(&offer.share, &content), WEFT_OK);
    content.instance += lie == LIE_OTHER_PROCESS;
    content.identity += lie == LIE_FREED ? 1000 : 0;
    content.length -= lie == LIE_FEWER;
    assert_int_equal(weft_share_write(&content, &offer.share), WEFT_OK);
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
        assert_int_equal(sim_scene.sim->ops.allocate(sim_scene.sim->device, 0, WEFT_MEMORY_DEVICE,
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
        assert_int_equal(
            weft_command_queue_get(sim_scene.queues, sim_scene.sim, 0, &pair->requests[r].commands), 0);
    }
}

static void pair_close(struct pair *pair)
{
    for (uint32_t r = 0; r < 2; r++) {
        weft_command_queue_put(pair->requests[r].commands);
        weft_plan_free(pair->plans[r]);
        assert_int_equal(sim_scene.sim->ops.release(sim_scene.sim->device, pair->memory[r]), 0);
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
        const char *why = exec_world_failure(pair.world, r, &theirs);
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
    sim_scene_open("sim:seed=10");
    const struct weft_device_kind *honest = sim_scene.sim;
    spoiled = *honest;
    sim_scene.sim = &spoiled;
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
    sim_scene.sim = honest;
    sim_scene_close();
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
        {LIE_OTHER_PROCESS, EXEC_TOGETHER, "is of another process than its peer"},
        {LIE_FREED, EXEC_TOGETHER, "is freed, or never was there"},
        {LIE_FEWER, EXEC_TOGETHER, "a description names 19999 bytes of device memory: expected 20000"},
        {LIE_BYTES, EXEC_TOGETHER, "a description of device memory has version"},
        {LIE_TWICE, EXEC_ONE_WAY, "rank 0 offered message 0 twice, or with"},
        {LIE_REFUSE, EXEC_TOGETHER, "rank 1 refused message 0, which was not offered, or is taken"},
    };
    sim_scene_open("sim:seed=6");
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
    sim_scene_close();
}

/* A sender that has given up, before the offer is taken and while it is read. */
static void test_taken_back(void **state)
{
    (void)state;
    sim_scene_open("sim:seed=7");
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
    sim_scene_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_taken_back),
        cmocka_unit_test(test_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
