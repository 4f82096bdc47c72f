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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_that_flap_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
