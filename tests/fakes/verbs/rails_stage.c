/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/verbs/rails_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/support/bits.h"
#include "tests/support/patience.h"

static const char *two_ports(void)
{
    return "2";
}

static void with_failover(struct weft_verbs_settings *settings)
{
    settings->stripe_bytes = 8192;
    settings->timeout = 14;
    settings->failover = 1;
}

static void windowless(struct weft_verbs_settings *settings)
{
    with_failover(settings);
    settings->qps = 2;
    settings->windows = 0;
}

const struct conform_backend stage_plain = {
    .label = "failover", .transport = "verbs", .devices = two_ports, .verbs = with_failover};
const struct conform_backend stage_lossy = {.label = "failover, letters lost",
                                            .transport = "verbs",
                                            .devices = two_ports,
                                            .verbs = with_failover,
                                            .lossy_oob = 1};
const struct conform_backend stage_bare = {.label = "failover, two queue pairs per rail and no windows",
                                           .transport = "verbs",
                                           .devices = two_ports,
                                           .verbs = windowless};

void stage_open(struct stage *stage, const struct conform_backend *backend)
{
    memset(stage, 0, sizeof *stage);
    rdma_fake_port(0, 1, 0);
    rdma_fake_port(1, 1, 0);
    conform_open(&stage->world, backend, 2);
    stage->nodes = stage->world.nodes;
    stage->to = conform_connect(&stage->world, 0, 1, &stage->to);
    stage->back = conform_connect(&stage->world, 1, 0, &stage->back);
    stage->source = malloc(STAGE_PUTS * STAGE_SIZE);
    stage->target = malloc(STAGE_PUTS * STAGE_SIZE);
    assert_true(stage->source && stage->target);
    memset(stage->target, STAGE_PATTERN, STAGE_PUTS * STAGE_SIZE);
    assert_int_equal(stage->nodes[0].ops.reg(stage->nodes[0].transport, stage->source,
                                             STAGE_PUTS * STAGE_SIZE, &stage->source_region),
                     0);
    assert_int_equal(stage->nodes[1].ops.reg(stage->nodes[1].transport, stage->target,
                                             STAGE_PUTS * STAGE_SIZE, &stage->target_region),
                     0);
}

void stage_close(struct stage *stage)
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
void stage_chat(struct stage *stage, size_t most)
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
void stage_finish_chat(struct stage *stage)
{
    int64_t limit_ns = weft_clock_ns() + test_patient(20000000000);
    while (stage->nodes[0].message_count < stage->sent && weft_clock_ns() < limit_ns) {
        stage_chat(stage, stage->sent);
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

size_t stage_put_size(size_t number)
{
    return number % 2 ? STAGE_SIZE : 1001;
}

void stage_advertise(struct stage *stage)
{
    for (size_t i = 0; i < STAGE_PUTS; i++) {
        size_t size = stage_put_size(i);
        int status;
        while ((status = stage->nodes[1].ops.advertise(stage->back, stage->target_region,
                                                       stage->target + i * STAGE_SIZE, size, i,
                                                       &stage->tokens[i])) == WEFT_AGAIN)
            conform_turn(&stage->world);
        assert_int_equal(status, 0);
    }
}

void stage_put(struct stage *stage)
{
    conform_fill(stage->source, STAGE_PUTS * STAGE_SIZE, ++stage->seed);
    for (size_t i = 0; i < STAGE_PUTS; i++) {
        size_t size = stage_put_size(i);
        int status;
        while ((status = stage->nodes[0].ops.put(stage->to, &stage->tokens[i], stage->source_region,
                                                 stage->source + i * STAGE_SIZE, size, i)) == WEFT_AGAIN)
            conform_turn(&stage->world);
        assert_int_equal(status, 0);
    }
    stage->put += STAGE_PUTS;
}

/* All puts have arrived and ended, with the right bytes and none beside; the memory is used for something else then. */
void stage_finish_puts(struct stage *stage)
{
    conform_until(&stage->world, &stage->nodes[1].filled_count, stage->put);
    conform_until(&stage->world, &stage->nodes[0].put_done_count, stage->put);
    assert_int_equal(stage->nodes[1].filled_count, stage->put);
    for (size_t i = 0; i < STAGE_PUTS; i++) {
        size_t size = stage_put_size(i);
        assert_memory_equal(stage->target + i * STAGE_SIZE, stage->source + i * STAGE_SIZE, size);
        for (size_t k = size; k < STAGE_SIZE; k++)
            assert_bits(stage->target[i * STAGE_SIZE + k] == STAGE_PATTERN);
        assert_int_equal(stage->nodes[0].put_status[stage->put - 1 - i], 0);
    }
    stage->nodes[0].put_done_count = stage->nodes[1].filled_count = stage->put = 0;
    memset(stage->target, STAGE_PATTERN, STAGE_PUTS * STAGE_SIZE);
}

void stage_check_untouched(const struct stage *stage)
{
    for (size_t i = 0; i < STAGE_PUTS * STAGE_SIZE; i++)
        assert_bits(stage->target[i] == STAGE_PATTERN);
}

void stage_until_qps(struct stage *stage, int qps)
{
    int64_t limit_ns = weft_clock_ns() + test_patient(15000000000);
    while ((__builtin_popcount(stage->to->live) != qps || stage->to->held || stage->back->held ||
            stage->to->state != VERBS_LINK_UP || stage->back->state != VERBS_LINK_UP) &&
           weft_clock_ns() < limit_ns)
        conform_turn(&stage->world);
    assert_int_equal(__builtin_popcount(stage->to->live), qps);
    assert_int_equal(stage->to->live, stage->back->live);
}
