/* SPDX-License-Identifier: Apache-2.0 */
/* Puts of transport/verbs, beyond the transports' contract: what a peer that breaks the rules can do, and what it costs;
 * taking memory back by force; queues and windows that run out. The private header plays the peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/support/bits.h"
#include "tests/support/conform.h"
#include "tests/support/rdma_device.h"
#include "tests/support/skip.h"
#include "transport/verbs/rbuf.h"

#define PATTERN 0x5a

static char first_device[64];

static const char *device(void)
{
    snprintf(first_device, sizeof first_device, "%s", getenv("WEFT_RDMA_DEVICE"));
    first_device[strcspn(first_device, ",")] = '\0';
    return first_device;
}

/* A peer that says nothing is given up, and soon. */
static void one_qp(struct weft_verbs_settings *settings)
{
    settings->rails = 1;
    settings->timeout = 14;
    settings->retry = 6;
}

static void two_qps(struct weft_verbs_settings *settings)
{
    one_qp(settings);
    settings->qps = 2;
    settings->stripe_bytes = 8192;
}

static void bare(struct weft_verbs_settings *settings)
{
    one_qp(settings);
    settings->windows = 0;
}

static const struct conform_backend plain = {
    .label = "verbs", .transport = "verbs", .devices = device, .verbs = one_qp};
static const struct conform_backend striped = {
    .label = "verbs, two queue pairs", .transport = "verbs", .devices = device, .verbs = two_qps};
static const struct conform_backend windowless = {
    .label = "verbs, no windows", .transport = "verbs", .devices = device, .verbs = bare};

/* Instances 0 and 2 put into memory of instance 1. */
struct stage {
    struct conform_world world;
    struct conform_node *nodes;
    struct weft_link *to, *back;          /* 0's link to 1, and 1's to 0 */
    struct weft_link *other, *other_back; /* 2's link to 1, and 1's to 2 */
    uint8_t *source, *target;
    size_t size;
    struct weft_region *source_region, *other_region, *target_region;
};

static struct weft_region *reg(struct conform_node *node, void *memory, size_t size)
{
    struct weft_region *region;
    assert_int_equal(node->ops.reg(node->transport, memory, size, &region), 0);
    return region;
}

static void stage_open(struct stage *stage, const struct conform_backend *backend, int count, size_t size)
{
    memset(stage, 0, sizeof *stage);
    conform_open(&stage->world, backend, count);
    stage->nodes = stage->world.nodes;
    stage->to = conform_connect(&stage->world, 0, 1, &stage->to);
    stage->back = conform_connect(&stage->world, 1, 0, &stage->back);
    stage->size = size;
    stage->source = malloc(size);
    stage->target = malloc(size);
    assert_true(stage->source && stage->target);
    conform_fill(stage->source, size, 3);
    memset(stage->target, PATTERN, size);
    stage->source_region = reg(&stage->nodes[0], stage->source, size);
    stage->target_region = reg(&stage->nodes[1], stage->target, size);
    if (count > 2) {
        stage->other = conform_connect(&stage->world, 2, 1, &stage->other);
        stage->other_back = conform_connect(&stage->world, 1, 2, &stage->other_back);
        stage->other_region = reg(&stage->nodes[2], stage->source, size);
    }
}

static void stage_close(struct stage *stage)
{
    stage->nodes[0].ops.dereg(stage->source_region);
    stage->nodes[1].ops.dereg(stage->target_region);
    if (stage->other_region)
        stage->nodes[2].ops.dereg(stage->other_region);
    conform_close(&stage->world);
    free(stage->source);
    free(stage->target);
}

static int advertise(struct stage *stage, struct weft_link *link, size_t offset, size_t size,
                     struct weft_token *token)
{
    return stage->nodes[1].ops.advertise(link, stage->target_region, stage->target + offset, size, offset,
                                         token);
}

static void must_fill(struct stage *stage, struct weft_link *link, size_t offset, size_t size,
                      struct weft_token *token)
{
    int status;
    while ((status = advertise(stage, link, offset, size, token)) == WEFT_AGAIN)
        conform_turn(&stage->world);
    assert_int_equal(status, 0);
}

/* What receive buffers were given before may be written by puts now. */
static void announce(struct stage *stage, struct weft_link *link, int to)
{
    size_t before = stage->nodes[to].message_count;
    uint64_t word = 0;
    conform_send(&stage->world, 1, link, &word, sizeof word, NULL, 0);
    conform_until(&stage->world, &stage->nodes[to].message_count, before + 1);
}

static int put(struct stage *stage, int from, const struct weft_token *token, size_t offset, size_t size)
{
    struct conform_node *node = &stage->nodes[from];
    struct weft_link *link = from ? stage->other : stage->to;
    struct weft_region *region = from ? stage->other_region : stage->source_region;
    int status;
    while ((status = node->ops.put(link, token, region, stage->source + offset, size, offset)) == WEFT_AGAIN)
        conform_turn(&stage->world);
    return status;
}

static void assert_untouched(const struct stage *stage, size_t offset, size_t size)
{
    for (size_t i = 0; i < size; i++)
        assert_bits(stage->target[offset + i] == PATTERN);
}

/* The link between instances 1 and 2 goes on. */
static void assert_others_go_on(struct stage *stage)
{
    struct weft_token token;
    size_t filled = stage->nodes[1].filled_count;
    must_fill(stage, stage->other_back, 100, 5001, &token);
    announce(stage, stage->other_back, 2);
    assert_int_equal(put(stage, 2, &token, 100, 5001), 0);
    conform_until(&stage->world, &stage->nodes[1].filled_count, filled + 1);
    assert_memory_equal(stage->target + 100, stage->source + 100, 5001);
    assert_int_equal(stage->nodes[2].failed_count, 0);
    memset(stage->target, PATTERN, stage->size);
}

/* A put with the key of a receive buffer that has ended, by a peer that does not look whether it may. */
static void put_stale(struct stage *stage, const struct weft_token *stale)
{
    assert_int_equal(put(stage, 0, stale, 9000, 4097), 0);
    conform_until(&stage->world, &stage->nodes[0].failed_count, 1);
    conform_until(&stage->world, &stage->nodes[0].put_done_count, 1);
    assert_true(stage->nodes[0].put_status[0] < 0);
}

static void a_stale_key_costs_its_user_the_link(void **state)
{
    (void)state;
    struct stage stage;
    struct weft_token stale, token;
    stage_open(&stage, &plain, 3, 20000);
    must_fill(&stage, stage.back, 9000, 4097, &stale);
    stage.nodes[1].ops.withdraw(stage.back, &stale); /* it was announced to nobody, so nobody is asked */
    must_fill(&stage, stage.back, 100, 50, &token);
    put_stale(&stage, &stale);
    const char *why = stage.nodes[0].ops.why(stage.to);
    assert_non_null(why);
    assert_non_null(strstr(why, "remote access error"));
    assert_non_null(strstr(why, stage.nodes[0].transport->rails[0].device));
    assert_int_equal(stage.nodes[0].failed_status[0], WEFT_TRANSPORT);
    conform_until(&stage.world, &stage.nodes[1].failed_count, 1);
    assert_ptr_equal(stage.nodes[1].failed[0], &stage.back);
    assert_untouched(&stage, 0, stage.size);
    assert_others_go_on(&stage);
    assert_int_equal(stage.nodes[1].failed_count, 1);
    assert_int_equal(stage.nodes[1].filled_count, 1);
    stage_close(&stage);
}

/* A peer that is asked, and then never answers. */
static void silence_costs_the_link_and_no_byte(void **state)
{
    struct stage stage;
    struct weft_token tokens[3];
    stage_open(&stage, *state, 3, 20000);
    for (size_t i = 0; i < 3; i++)
        must_fill(&stage, stage.back, i * 5000, 4097, &tokens[i]);
    announce(&stage, stage.back, 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(stage.nodes[1].ops.recall(stage.back, &tokens[i], 0), 0);
    stage.nodes[1].ops.recall_wait(stage.nodes[1].transport); /* nobody polls for instance 0 */
    const char *why = stage.nodes[1].ops.why(stage.back);
    assert_non_null(why);
    assert_non_null(strstr(why, "did not answer"));
    memset(stage.target, PATTERN, stage.size);
    for (size_t i = 0; i < 3; i++)
        stage.nodes[0].ops.put(stage.to, &tokens[i], stage.source_region, stage.source, 4097, i);
    for (int i = 0; i < 20; i++)
        conform_settle(&stage.world);
    assert_untouched(&stage, 0, stage.size);
    assert_int_equal(stage.nodes[1].filled_count, 0);
    assert_int_equal(stage.nodes[0].failed_count, 1);
    assert_int_equal(stage.nodes[1].failed_count, 1);
    assert_ptr_equal(stage.nodes[1].failed[0], &stage.back);
    assert_others_go_on(&stage);
    stage_close(&stage);
}

/* Cuts a put of this size by force: what has arrived by then stays, nothing more comes. Whether the cut came before the end. */
static int cut(const struct conform_backend *backend, size_t size)
{
    struct stage stage;
    struct weft_token token;
    stage_open(&stage, backend, 3, size);
    must_fill(&stage, stage.back, 0, size, &token);
    announce(&stage, stage.back, 0);
    assert_int_equal(put(&stage, 0, &token, 0, size), 0);
    volatile uint8_t *first = stage.target;
    while (first[4096 * 8] == PATTERN)
        continue;
    verbs_link_fail(stage.back, WEFT_PEER_FAILED, "cut by the test");
    verbs_link_cut(stage.back);
    uint8_t *before = malloc(size);
    assert_non_null(before);
    memcpy(before, stage.target, size);
    int is_cut = memcmp(before, stage.source, size) != 0;
    for (int i = 0; i < 10; i++)
        conform_settle(&stage.world);
    assert_memory_equal(before, stage.target, size);
    assert_int_equal(stage.nodes[1].filled_count, 0);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, 1);
    assert_true(!is_cut || stage.nodes[0].put_status[0] < 0);
    memset(stage.target, PATTERN, size);
    assert_others_go_on(&stage);
    free(before);
    stage_close(&stage);
    return is_cut;
}

/* Larger puts where the device is faster: 256 MiB take 400 Gb/s 5 ms. */
static void cut_in_the_middle(void **state)
{
    for (size_t size = 1u << 20; size <= 256u << 20; size *= 4) {
        if (cut(*state, size))
            return;
    }
    TEST_SKIP("%s writes 256 MiB before they can be cut", device());
}

/* --- what keys open */

static int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static struct ibv_mw_bind_info bound[16];
static struct ibv_qp *bound_on[16];
static int bound_count;

static int post_spy(struct ibv_qp *qp, struct ibv_send_wr *chain, struct ibv_send_wr **bad)
{
    for (const struct ibv_send_wr *entry = chain; entry; entry = entry->next) {
        if (entry->opcode == IBV_WR_BIND_MW && bound_count < 16) {
            bound_on[bound_count] = qp;
            bound[bound_count++] = entry->bind_mw.bind_info;
        }
    }
    return post_send(qp, chain, bad);
}

/* Each queue pair's key opens its part of the receive buffer and nothing else. (Soft-RoCE does not look at a window's bounds, so what is
 * asked of the device is looked at here; test_verbs_windows.c writes beyond one where devices look.) */
static void keys_are_as_narrow_as_the_parts(void **state)
{
    (void)state;
    struct stage stage;
    struct weft_token tokens[3];
    stage_open(&stage, &striped, 2, 40000);
    if (!stage.nodes[1].transport->rails[0].limits.memory_windows) {
        stage_close(&stage);
        TEST_SKIP("%s has no memory windows", device());
    }
    struct ibv_context_ops *ops = &stage.nodes[1].transport->rails[0].context->ops;
    post_send = ops->post_send;
    bound_count = 0;
    ops->post_send = post_spy;
    must_fill(&stage, stage.back, 3, 101, &tokens[0]);
    must_fill(&stage, stage.back, 105, 8191, &tokens[1]);
    must_fill(&stage, stage.back, 10001, 12345, &tokens[2]);
    ops->post_send = post_send;
    assert_int_equal(bound_count, 4);
    const struct {
        size_t offset, size;
        int qp;
    } expected[] = {{3, 101, 0}, {105, 8191, 1}, {10001, 8192, 0}, {18193, 4153, 1}};
    int first_qp = bound_on[0] == stage.back->qps[1]->ibv;
    for (int i = 0; i < 4; i++) {
        int qp = i < 2 ? expected[i].qp ^ first_qp : expected[i].qp;
        assert_ptr_equal(bound_on[i], stage.back->qps[qp]->ibv);
        assert_int_equal(bound[i].addr, (uintptr_t)stage.target + expected[i].offset);
        assert_int_equal(bound[i].length, expected[i].size);
        assert_int_equal(bound[i].mw_access_flags, IBV_ACCESS_REMOTE_WRITE);
    }
    stage_close(&stage);
}

/* --- immediates that a peer should not send */

static void immediate(struct stage *stage, int qp, uint32_t value)
{
    assert_int_equal(verbs_immediate_send(stage->to->qps[qp], value), 0);
}

static void parts_count_once(void **state)
{
    (void)state;
    struct stage stage;
    struct weft_token token;
    stage_open(&stage, &striped, 2, 20000);
    must_fill(&stage, stage.back, 0, 20000, &token);
    announce(&stage, stage.back, 0);
    struct verbs_token fields;
    memcpy(&fields, &token, sizeof fields);
    immediate(&stage, 0, fields.immediate);
    immediate(&stage, 0, fields.immediate);
    immediate(&stage, 1, fields.immediate + (1u << 16)); /* another generation */
    immediate(&stage, 1, fields.immediate + 1);          /* another slot */
    immediate(&stage, 0, fields.immediate | 1u << 28);   /* another queue pair's number */
    conform_until(&stage.world, &stage.nodes[1].transport->stale_immediates, 4);
    conform_settle(&stage.world);
    assert_int_equal(stage.nodes[1].filled_count, 0);
    assert_int_equal(stage.nodes[1].transport->stale_immediates, 4);
    immediate(&stage, 1, fields.immediate);
    conform_until(&stage.world, &stage.nodes[1].filled_count, 1);
    immediate(&stage, 1, fields.immediate);
    conform_settle(&stage.world);
    assert_int_equal(stage.nodes[1].filled_count, 1);
    assert_int_equal(stage.nodes[1].failed_count, 0);
    stage_close(&stage);
}

static void an_end_that_was_not_asked_for_is_an_error(void **state)
{
    (void)state;
    struct stage stage;
    struct weft_token token;
    stage_open(&stage, &plain, 2, 20000);
    must_fill(&stage, stage.back, 0, 20000, &token);
    announce(&stage, stage.back, 0);
    struct verbs_token fields;
    memcpy(&fields, &token, sizeof fields);
    immediate(&stage, 0, fields.immediate | VERBS_IMMEDIATE_END);
    conform_until(&stage.world, &stage.nodes[1].failed_count, 1);
    assert_int_equal(stage.nodes[1].failed_status[0], WEFT_PROTOCOL);
    assert_int_equal(stage.nodes[1].filled_count, 0);
    stage_close(&stage);
}

/* --- much, and limits */

static void a_thousand_rbufs(void **state)
{
    enum { COUNT = 1000, ROUNDS = 2 };
    struct stage stage;
    stage_open(&stage, *state, 2, COUNT * 700);
    struct weft_token *tokens = calloc(COUNT, sizeof *tokens);
    assert_non_null(tokens);
    uint32_t slots = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memset(stage.target, PATTERN, stage.size);
        size_t filled = stage.nodes[1].filled_count, done = stage.nodes[0].put_done_count;
        for (size_t i = 0; i < COUNT; i++)
            must_fill(&stage, stage.back, i * 700, 1 + i % 699, &tokens[i]);
        announce(&stage, stage.back, 0);
        for (size_t i = 0; i < COUNT; i++) {
            size_t at = i * 7 % COUNT;
            assert_int_equal(put(&stage, 0, &tokens[at], at * 700, 1 + at % 699), 0);
        }
        conform_until(&stage.world, &stage.nodes[1].filled_count, filled + COUNT);
        conform_until(&stage.world, &stage.nodes[0].put_done_count, done + COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            assert_memory_equal(stage.target + i * 700, stage.source + i * 700, 1 + i % 699);
            assert_untouched(&stage, i * 700 + 1 + i % 699, 699 - i % 699);
        }
        conform_settle(&stage.world);
        if (!round)
            slots = stage.nodes[1].transport->rbufs->count;
    }
    assert_int_equal(slots, COUNT);
    assert_int_equal(stage.nodes[1].transport->rbufs->count, slots);
    free(tokens);
    stage_close(&stage);
}

/* Writes are split at what the device sends at once; the last is as short as it is. */
static void writes_are_split(void **state)
{
    struct stage stage;
    struct weft_token token;
    stage_open(&stage, *state, 2, 100000);
    for (int i = 0; i < 2; i++) {
        struct weft_transport *transport = stage.nodes[i].transport;
        transport->rails[0].limits.message_bytes = 7001;
        transport->put_bytes = verbs_put_bytes(transport);
    }
    must_fill(&stage, stage.back, 13, 99980, &token);
    announce(&stage, stage.back, 0);
    assert_int_equal(put(&stage, 0, &token, 13, 99980), 0);
    conform_until(&stage.world, &stage.nodes[1].filled_count, 1);
    assert_memory_equal(stage.target + 13, stage.source + 13, 99980);
    assert_untouched(&stage, 0, 13);
    assert_untouched(&stage, 99993, 7);
    stage_close(&stage);
}

static void windows_that_run_out_come_back(void **state)
{
    (void)state;
    struct stage stage;
    struct weft_token tokens[5];
    stage_open(&stage, &plain, 2, 20000);
    struct verbs_rail *rail = &stage.nodes[1].transport->rails[0];
    if (!rail->limits.memory_windows) {
        stage_close(&stage);
        TEST_SKIP("%s has no memory windows", rail->device);
    }
    assert_int_equal(rail->window_count, 0);
    rail->window_limit = 4;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(advertise(&stage, stage.back, i * 1000, 1000, &tokens[i]), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(advertise(&stage, stage.back, 4000, 1000, &tokens[4]), WEFT_AGAIN);
        conform_turn(&stage.world);
    }
    announce(&stage, stage.back, 0);
    assert_int_equal(put(&stage, 0, &tokens[2], 2000, 1000), 0);
    must_fill(&stage, stage.back, 4000, 1000, &tokens[4]);
    announce(&stage, stage.back, 0);
    assert_int_equal(put(&stage, 0, &tokens[4], 4000, 1000), 0);
    conform_until(&stage.world, &stage.nodes[1].filled_count, 2);
    assert_memory_equal(stage.target + 4000, stage.source + 4000, 1000);
    stage_close(&stage);
}

static void what_cannot_be_put_is_refused(void **state)
{
    (void)state;
    struct stage stage;
    struct weft_token token;
    stage_open(&stage, &plain, 2, 20000);
    struct conform_node *from = &stage.nodes[0];
    uint8_t elsewhere[100];
    must_fill(&stage, stage.back, 0, 1000, &token);
    assert_int_equal(advertise(&stage, stage.back, 19000, 1001, &token), WEFT_INVALID);
    assert_int_equal(advertise(&stage, stage.back, 0, 0, &token), WEFT_INVALID);
    assert_int_equal(stage.nodes[1].ops.advertise(stage.back, stage.target_region, elsewhere, 100, 1, &token),
                     WEFT_INVALID);
    assert_int_equal(stage.nodes[1].ops.advertise(stage.back, NULL, stage.target, 100, 1, &token),
                     WEFT_INVALID);
    assert_int_equal(from->ops.put(stage.to, &token, stage.source_region, stage.source, 999, 1),
                     WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "not for 999 bytes"));
    assert_int_equal(from->ops.put(stage.to, &token, stage.source_region, elsewhere, 1000, 1), WEFT_INVALID);
    assert_int_equal(from->ops.put(stage.to, &token, NULL, stage.source, 1000, 1), WEFT_INVALID);
    announce(&stage, stage.back, 0);
    assert_int_equal(put(&stage, 0, &token, 0, 1000), 0);
    conform_until(&stage.world, &stage.nodes[1].filled_count, 1);
    stage_close(&stage);
}

/* With receive buffers that are open, some of them announced, puts in flight, and regions that nobody deregistered. */
static void closing_with_everything_open(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct stage stage;
        struct weft_token tokens[20];
        stage_open(&stage, *state, 2, 1u << 20);
        for (size_t i = 0; i < 20; i++)
            must_fill(&stage, stage.back, i * 50000, 50000, &tokens[i]);
        announce(&stage, stage.back, 0);
        for (size_t i = 0; i < 10; i++)
            assert_int_equal(put(&stage, 0, &tokens[i], i * 50000, 50000), 0);
        struct conform_node *node = &stage.nodes[first];
        node->ops.close(node->transport);
        node->transport = NULL;
        uint8_t *before = malloc(stage.size);
        assert_non_null(before);
        if (first == 1) { /* the memory is its owner's again */
            memcpy(before, stage.target, stage.size);
            conform_settle(&stage.world);
            assert_memory_equal(before, stage.target, stage.size);
        }
        conform_close(&stage.world);
        free(before);
        free(stage.source);
        free(stage.target);
    }
}

int main(void)
{
    const char *reason = test_rdma_absent(0);
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stale_key_costs_its_user_the_link),
        cmocka_unit_test_prestate(silence_costs_the_link_and_no_byte, (void *)(uintptr_t)&plain),
        cmocka_unit_test_prestate(silence_costs_the_link_and_no_byte, (void *)(uintptr_t)&striped),
        cmocka_unit_test_prestate(silence_costs_the_link_and_no_byte, (void *)(uintptr_t)&windowless),
        cmocka_unit_test_prestate(cut_in_the_middle, (void *)(uintptr_t)&plain),
        cmocka_unit_test_prestate(cut_in_the_middle, (void *)(uintptr_t)&windowless),
        cmocka_unit_test(keys_are_as_narrow_as_the_parts),
        cmocka_unit_test(parts_count_once),
        cmocka_unit_test(an_end_that_was_not_asked_for_is_an_error),
        cmocka_unit_test_prestate(a_thousand_rbufs, (void *)(uintptr_t)&plain),
        cmocka_unit_test_prestate(a_thousand_rbufs, (void *)(uintptr_t)&striped),
        cmocka_unit_test_prestate(writes_are_split, (void *)(uintptr_t)&plain),
        cmocka_unit_test_prestate(writes_are_split, (void *)(uintptr_t)&striped),
        cmocka_unit_test(windows_that_run_out_come_back),
        cmocka_unit_test(what_cannot_be_put_is_refused),
        cmocka_unit_test_prestate(closing_with_everything_open, (void *)(uintptr_t)&plain),
        cmocka_unit_test_prestate(closing_with_everything_open, (void *)(uintptr_t)&striped),
        cmocka_unit_test_prestate(closing_with_everything_open, (void *)(uintptr_t)&windowless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
