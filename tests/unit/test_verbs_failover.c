/* Rails of the verbs transport that go down and come back, on an RDMA device in memory (tests/fake): messages come once each
 * and in order, puts land whole, memory that was landed is not written again, and what cannot go on fails with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/fake/rdma_fake.h"
#include "tests/support/conform.h"
#include "transport/verbs/failover.h"

#define PUTS    6
#define SIZE    40001
#define PATTERN 0x5a

static const char *two_ports(void)
{
    return "2";
}

static const struct weft_verbs_settings settings = {.qps = 1,
                                                    .rails = 4,
                                                    .stripe_bytes = 8192,
                                                    .gid_index = -1,
                                                    .timeout = 14,
                                                    .retry = 6,
                                                    .windows = 1,
                                                    .failover = 1};
static const struct weft_verbs_settings windowless = {
    .qps = 2, .rails = 4, .stripe_bytes = 8192, .gid_index = -1, .timeout = 14, .retry = 6, .failover = 1};
static const struct conform_backend plain = {
    .label = "failover", .transport = "verbs", .devices = two_ports, .verbs = &settings};
static const struct conform_backend lossy = {.label = "failover, letters lost",
                                             .transport = "verbs",
                                             .devices = two_ports,
                                             .verbs = &settings,
                                             .lossy_letters = 1};
static const struct conform_backend bare = {.label = "failover, two queue pairs per rail and no windows",
                                            .transport = "verbs",
                                            .devices = two_ports,
                                            .verbs = &windowless};

/* Instance 0 sends and puts to instance 1, which answers each message. */
struct stage {
    struct conform_world world;
    struct conform_node *nodes;
    struct weft_link *to, *back;
    uint8_t *source, *target;
    struct weft_region *source_region, *target_region;
    struct weft_token tokens[PUTS];
    size_t sent, answered, put;
    uint32_t seed;
};

static void stage_open(struct stage *stage, const struct conform_backend *backend)
{
    memset(stage, 0, sizeof *stage);
    rdma_fake_port(0, 1, 0);
    rdma_fake_port(1, 1, 0);
    conform_open(&stage->world, backend, 2);
    stage->nodes = stage->world.nodes;
    stage->to = conform_connect(&stage->world, 0, 1, &stage->to);
    stage->back = conform_connect(&stage->world, 1, 0, &stage->back);
    stage->source = malloc(PUTS * SIZE);
    stage->target = malloc(PUTS * SIZE);
    assert_true(stage->source && stage->target);
    memset(stage->target, PATTERN, PUTS * SIZE);
    assert_int_equal(
        stage->nodes[0].ops.reg(stage->nodes[0].transport, stage->source, PUTS * SIZE, &stage->source_region),
        0);
    assert_int_equal(
        stage->nodes[1].ops.reg(stage->nodes[1].transport, stage->target, PUTS * SIZE, &stage->target_region),
        0);
}

static void stage_close(struct stage *stage)
{
    stage->nodes[0].ops.dereg(stage->source_region);
    stage->nodes[1].ops.dereg(stage->target_region);
    conform_close(&stage->world);
    free(stage->source);
    free(stage->target);
    assert_int_equal(rdma_fake_count(), 0);
}

static size_t message_size(size_t number)
{
    return number % 3 ? 8 + number % 200 : 4000 + number % 3000;
}

/* Sends what the window takes, and lets the other end answer what has come. */
static void chat(struct stage *stage, size_t most)
{
    uint8_t bytes[8000];
    for (; stage->sent < most; stage->sent++) {
        size_t size = message_size(stage->sent);
        conform_fill(bytes, size, (uint32_t)stage->sent);
        int status = stage->nodes[0].ops.send(stage->to, bytes, 8, bytes + 8, size - 8);
        if (status == WEFT_AGAIN)
            break;
        assert_int_equal(status, 0);
    }
    for (; stage->answered < stage->nodes[1].message_count; stage->answered++) {
        size_t size = message_size(stage->answered + 1);
        conform_fill(bytes, size, (uint32_t)stage->answered + 77);
        int status = stage->nodes[1].ops.send(stage->back, bytes, size, NULL, 0);
        if (status == WEFT_AGAIN)
            break;
        assert_int_equal(status, 0);
    }
}

/* All messages so far have come, once each and in order, in both directions. */
static void finish_chat(struct stage *stage)
{
    int64_t limit_ns = weft_clock_ns() + 20000000000;
    while (stage->nodes[0].message_count < stage->sent && weft_clock_ns() < limit_ns) {
        chat(stage, stage->sent);
        conform_turn(&stage->world);
    }
    assert_int_equal(stage->nodes[1].message_count, stage->sent);
    assert_int_equal(stage->nodes[0].message_count, stage->sent);
    for (size_t i = 0; i < stage->sent; i++) {
        assert_true(conform_matches(&stage->nodes[1], i, message_size(i), (uint32_t)i));
        assert_true(conform_matches(&stage->nodes[0], i, message_size(i + 1), (uint32_t)i + 77));
    }
    assert_int_equal(stage->nodes[0].failed_count + stage->nodes[1].failed_count, 0);
}

static void land_all(struct stage *stage)
{
    for (size_t i = 0; i < PUTS; i++) {
        size_t size = i % 2 ? SIZE : 1001;
        int status;
        while ((status = stage->nodes[1].ops.land(stage->back, stage->target_region, stage->target + i * SIZE,
                                                  size, i, &stage->tokens[i])) == WEFT_AGAIN)
            conform_turn(&stage->world);
        assert_int_equal(status, 0);
    }
}

static void put_all(struct stage *stage)
{
    conform_fill(stage->source, PUTS * SIZE, ++stage->seed);
    for (size_t i = 0; i < PUTS; i++) {
        size_t size = i % 2 ? SIZE : 1001;
        int status;
        while ((status = stage->nodes[0].ops.put(stage->to, &stage->tokens[i], stage->source_region,
                                                 stage->source + i * SIZE, size, i)) == WEFT_AGAIN)
            conform_turn(&stage->world);
        assert_int_equal(status, 0);
    }
    stage->put += PUTS;
}

/* All puts have landed and ended, with the right bytes and none beside; the memory is used for something else then. */
static void finish_puts(struct stage *stage)
{
    conform_until(&stage->world, &stage->nodes[1].landed_count, stage->put);
    conform_until(&stage->world, &stage->nodes[0].put_done_count, stage->put);
    assert_int_equal(stage->nodes[1].landed_count, stage->put);
    for (size_t i = 0; i < PUTS; i++) {
        size_t size = i % 2 ? SIZE : 1001;
        assert_memory_equal(stage->target + i * SIZE, stage->source + i * SIZE, size);
        for (size_t k = size; k < SIZE; k++)
            assert_int_equal(stage->target[i * SIZE + k], PATTERN);
        assert_int_equal(stage->nodes[0].put_status[stage->put - 1 - i], 0);
    }
    stage->nodes[0].put_done_count = stage->nodes[1].landed_count = stage->put = 0;
    memset(stage->target, PATTERN, PUTS * SIZE);
}

static void assert_untouched(const struct stage *stage)
{
    for (size_t i = 0; i < PUTS * SIZE; i++)
        assert_int_equal(stage->target[i], PATTERN);
}

static void until_lanes(struct stage *stage, int lanes)
{
    int64_t limit_ns = weft_clock_ns() + 15000000000;
    while ((__builtin_popcount(stage->to->live) != lanes || stage->to->held || stage->back->held ||
            stage->to->state != VERBS_LINK_UP || stage->back->state != VERBS_LINK_UP) &&
           weft_clock_ns() < limit_ns)
        conform_turn(&stage->world);
    assert_int_equal(__builtin_popcount(stage->to->live), lanes);
    assert_int_equal(stage->to->live, stage->back->live);
}

static void flaps(const struct conform_backend *backend, int count, int lanes)
{
    struct stage stage;
    stage_open(&stage, backend);
    for (int i = 0; i < count; i++) {
        land_all(&stage);
        rdma_fake_carried(i % 2);
        put_all(&stage);
        finish_puts(&stage);
        assert_true(rdma_fake_carried(i % 2) > 0); /* it is back */
        land_all(&stage);
        chat(&stage, stage.sent + 3);
        if (i % 3 == 0)
            rdma_fake_port(i % 2, 0, 0);
        put_all(&stage);
        chat(&stage, stage.sent + 40);
        if (i % 3 == 1)
            rdma_fake_port(i % 2, 0, 0);
        conform_poll(&stage.nodes[i / 3 % 2], 3);
        chat(&stage, stage.sent + 20);
        if (i % 3 == 2)
            rdma_fake_port(i % 2, 0, 0);
        finish_puts(&stage);
        finish_chat(&stage);
        until_lanes(&stage, lanes / 2);
        rdma_fake_carried(i % 2);
        chat(&stage, stage.sent + 10);
        finish_chat(&stage);
        assert_int_equal(rdma_fake_carried(i % 2), 0);
        assert_true(rdma_fake_carried(!(i % 2)) > 0);
        assert_untouched(&stage);
        rdma_fake_port(i % 2, 1, 0);
        until_lanes(&stage, lanes);
    }
    stage_close(&stage);
}

static void rails_that_flap_lose_nothing(void **state)
{
    (void)state;
    flaps(&plain, 20, 2);
    flaps(&lossy, 4, 2);
    flaps(&bare, 6, 4);
}

/* Nobody reports that a path is broken: what goes over it ends with an error, and the lane is left alone for a while. */
static void a_rail_that_fails_silently_is_left_out_for_a_while(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &plain);
    land_all(&stage);
    chat(&stage, 10);
    rdma_fake_port(0, 0, 1);
    put_all(&stage);
    finish_puts(&stage);
    chat(&stage, stage.sent + 30);
    finish_chat(&stage);
    until_lanes(&stage, 1);
    assert_int_equal(stage.to->live, 2);
    rdma_fake_port(0, 1, 1);
    until_lanes(&stage, 2);
    stage_close(&stage);
}

/* All rails are down; what was sent and put goes on when one comes back, of whatever number. */
static void all_rails_may_be_down_for_a_while(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &plain);
    land_all(&stage);
    rdma_fake_port(0, 0, 0);
    put_all(&stage);
    chat(&stage, 20);
    rdma_fake_port(1, 0, 0);
    for (int i = 0; i < 3000; i++) {
        chat(&stage, 30);
        conform_turn(&stage.world);
    }
    assert_int_equal(stage.to->state, VERBS_LINK_CONNECTING);
    assert_true(stage.nodes[0].put_done_count < PUTS);
    rdma_fake_port(1, 1, 0);
    finish_puts(&stage);
    chat(&stage, 40);
    finish_chat(&stage);
    assert_int_equal(stage.to->live, 2);
    stage_close(&stage);
}

/* Both rails are down at both ends and stay so: no pair is left. */
static void rails_that_do_not_come_back_fail_the_link(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &plain);
    land_all(&stage);
    rdma_fake_port(0, 0, 0);
    rdma_fake_port(1, 0, 0);
    int status;
    conform_fill(stage.source, PUTS * SIZE, 5);
    while ((status = stage.nodes[0].ops.put(stage.to, &stage.tokens[1], stage.source_region, stage.source,
                                            SIZE, 9)) == WEFT_AGAIN)
        conform_turn(&stage.world);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++)
        conform_until(&stage.world, &stage.nodes[i].failed_count, 1);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, 1);
    assert_int_equal(stage.nodes[0].put_status[0], WEFT_TRANSPORT);
    assert_int_equal(stage.nodes[0].failed_status[0], WEFT_TRANSPORT);
    const char *why = stage.nodes[0].ops.why(stage.to);
    assert_non_null(strstr(why, "fake"));
    assert_non_null(strstr(why, "no other rail took its place within 10 s"));
    assert_untouched(&stage);
    rdma_fake_port(0, 1, 0);
    rdma_fake_port(1, 1, 0);
    stage_close(&stage);
}

/* Landings that are taken back while the link has no lanes are free at once, and their tokens of no use afterwards. */
static void what_is_taken_back_meanwhile_stays_so(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &plain);
    land_all(&stage);
    rdma_fake_port(0, 0, 0);
    rdma_fake_port(1, 0, 0);
    put_all(&stage);
    while (stage.to->live || stage.back->live)
        conform_turn(&stage.world);
    for (size_t i = 0; i < PUTS; i++) {
        if (i % 2 == 0)
            stage.nodes[1].ops.recall(stage.back, &stage.tokens[i], 0);
        else
            stage.nodes[0].ops.recall(stage.to, NULL, i);
    }
    stage.nodes[0].ops.recall_wait(stage.nodes[0].transport);
    stage.nodes[1].ops.recall_wait(stage.nodes[1].transport);
    assert_untouched(&stage);
    memset(stage.source, 0x77, PUTS * SIZE); /* nobody reads it any more */
    rdma_fake_port(0, 1, 0);
    chat(&stage, 10);
    finish_chat(&stage);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, PUTS / 2);
    conform_settle(&stage.world);
    assert_int_equal(stage.nodes[0].put_done_count, PUTS / 2); /* of those that nobody called back */
    assert_int_equal(stage.nodes[1].landed_count, 0);
    assert_untouched(&stage);
    assert_int_equal(
        stage.nodes[0].ops.put(stage.to, &stage.tokens[0], stage.source_region, stage.source, 1001, 0),
        WEFT_CANCELLED);
    for (size_t i = 1; i < PUTS; i += 2) /* these landings are open still */
        assert_int_equal(stage.nodes[0].ops.put(stage.to, &stage.tokens[i], stage.source_region,
                                                stage.source + i * SIZE, SIZE, i),
                         0);
    conform_until(&stage.world, &stage.nodes[1].landed_count, PUTS / 2);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, PUTS);
    rdma_fake_port(1, 1, 0);
    until_lanes(&stage, 2);
    stage_close(&stage);
}

/* A token from before is as good as new as long as its landing is open. */
static void tokens_outlive_their_lanes(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &plain);
    land_all(&stage);
    rdma_fake_port(0, 0, 0);
    until_lanes(&stage, 1);
    rdma_fake_port(0, 1, 0);
    until_lanes(&stage, 2);
    rdma_fake_carried(0);
    put_all(&stage);
    assert_true(rdma_fake_carried(0) > 0);
    finish_puts(&stage);
    assert_int_equal(
        stage.nodes[0].ops.put(stage.to, &stage.tokens[0], stage.source_region, stage.source, 1002, 0),
        WEFT_CANCELLED); /* not of this size */
    stage_close(&stage);
}

/* Rails go down and come back faster than the link gets up again. */
static void flaps_within_a_recovery(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &lossy);
    for (int round = 0; round < 6; round++) {
        land_all(&stage);
        chat(&stage, stage.sent + 20);
        put_all(&stage);
        for (int i = 0; i < 12; i++) {
            rdma_fake_port(i % 2, i / 2 % 2, 0);
            for (int k = 0; k < 1 + round; k++)
                conform_poll(&stage.nodes[(i + k) % 2], 1 + round);
        }
        rdma_fake_port(0, 1, 0);
        rdma_fake_port(1, 1, 0);
        finish_puts(&stage);
        chat(&stage, stage.sent + 20);
        finish_chat(&stage);
    }
    until_lanes(&stage, 2);
    stage_close(&stage);
}

/* An error that another rail cannot help comes back at once, wherever it is tried: that ends. */
static void errors_that_come_back_end_the_link(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &plain);
    for (int i = 0; i < 100 && stage.to->state != VERBS_LINK_FAILED; i++) {
        if (stage.to->state == VERBS_LINK_UP)
            rdma_fake_break(stage.to->lanes[stage.to->first]->qp->qp_num, IBV_WC_GENERAL_ERR);
        for (int k = 0; k < 300 && stage.to->state == VERBS_LINK_UP; k++)
            conform_turn(&stage.world);
        memset(stage.to->failover->banned_ns, 0, sizeof stage.to->failover->banned_ns);
        for (int k = 0; k < 3000 && stage.to->state == VERBS_LINK_CONNECTING; k++)
            conform_turn(&stage.world);
    }
    assert_int_equal(stage.to->state, VERBS_LINK_FAILED);
    assert_non_null(strstr(stage.nodes[0].ops.why(stage.to), "general error"));
    stage_close(&stage);
}

/* With nothing to send, it does not wait for one. */
static void closing_ends_a_link_without_lanes(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &plain);
    chat(&stage, 5);
    finish_chat(&stage);
    rdma_fake_port(0, 0, 0);
    rdma_fake_port(1, 0, 0);
    while (stage.to->state == VERBS_LINK_UP || stage.back->state == VERBS_LINK_UP)
        conform_turn(&stage.world);
    stage_close(&stage);
    rdma_fake_port(0, 1, 0);
    rdma_fake_port(1, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_that_flap_lose_nothing),
        cmocka_unit_test(a_rail_that_fails_silently_is_left_out_for_a_while),
        cmocka_unit_test(all_rails_may_be_down_for_a_while),
        cmocka_unit_test(rails_that_do_not_come_back_fail_the_link),
        cmocka_unit_test(what_is_taken_back_meanwhile_stays_so),
        cmocka_unit_test(tokens_outlive_their_lanes),
        cmocka_unit_test(flaps_within_a_recovery),
        cmocka_unit_test(errors_that_come_back_end_the_link),
        cmocka_unit_test(closing_ends_a_link_without_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
