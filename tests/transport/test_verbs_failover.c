/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* run: early */
/* Rails of the verbs transport that go down and come back, on an RDMA device in memory (tests/fakes/verbs): messages come once each
 * and in order, puts arrive whole, a receive buffer that was filled is not written again, and what cannot go on fails with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/fakes/verbs/rails_stage.h"
#include "tests/fakes/verbs/rdma_fake.h"

static void flaps(const struct conform_backend *backend, int count, int qps)
{
    struct stage stage;
    stage_open(&stage, backend);
    for (int i = 0; i < count; i++) {
        stage_advertise(&stage);
        rdma_fake_carried(i % 2);
        stage_put(&stage);
        stage_finish_puts(&stage);
        assert_true(rdma_fake_carried(i % 2) > 0); /* it is back */
        stage_advertise(&stage);
        stage_chat(&stage, stage.sent + 3);
        if (i % 3 == 0)
            rdma_fake_port(i % 2, 0, 0);
        stage_put(&stage);
        stage_chat(&stage, stage.sent + 40);
        if (i % 3 == 1)
            rdma_fake_port(i % 2, 0, 0);
        conform_poll(&stage.nodes[i / 3 % 2], 3);
        stage_chat(&stage, stage.sent + 20);
        if (i % 3 == 2)
            rdma_fake_port(i % 2, 0, 0);
        stage_finish_puts(&stage);
        stage_finish_chat(&stage);
        stage_until_qps(&stage, qps / 2);
        rdma_fake_carried(i % 2);
        stage_chat(&stage, stage.sent + 10);
        stage_finish_chat(&stage);
        assert_int_equal(rdma_fake_carried(i % 2), 0);
        assert_true(rdma_fake_carried(!(i % 2)) > 0);
        stage_check_untouched(&stage);
        rdma_fake_port(i % 2, 1, 0);
        stage_until_qps(&stage, qps);
    }
    stage_close(&stage);
}

static void rails_that_flap_lose_nothing(void **state)
{
    (void)state;
    flaps(&stage_plain, 20, 2);
    flaps(&stage_lossy, 4, 2);
    flaps(&stage_bare, 6, 4);
}

/* Nobody reports that a path is broken: what goes over it ends with an error, and the queue pair is left alone for a while. */
static void a_rail_that_fails_silently_is_left_out_for_a_while(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_advertise(&stage);
    stage_chat(&stage, 10);
    rdma_fake_port(0, 0, 1);
    stage_put(&stage);
    stage_finish_puts(&stage);
    stage_chat(&stage, stage.sent + 30);
    stage_finish_chat(&stage);
    stage_until_qps(&stage, 1);
    assert_int_equal(stage.to->live, 2);
    rdma_fake_port(0, 1, 1);
    stage_until_qps(&stage, 2);
    stage_close(&stage);
}

/* All rails are down; what was sent and put goes on when one comes back, of whatever number. */
static void all_rails_may_be_down_for_a_while(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_advertise(&stage);
    rdma_fake_port(0, 0, 0);
    stage_put(&stage);
    stage_chat(&stage, 20);
    rdma_fake_port(1, 0, 0);
    for (int i = 0; i < 3000; i++) {
        stage_chat(&stage, 30);
        conform_turn(&stage.world);
    }
    assert_int_equal(stage.to->state, VERBS_LINK_CONNECTING);
    assert_true(stage.nodes[0].put_done_count < STAGE_PUTS);
    rdma_fake_port(1, 1, 0);
    stage_finish_puts(&stage);
    stage_chat(&stage, 40);
    stage_finish_chat(&stage);
    assert_int_equal(stage.to->live, 2);
    stage_close(&stage);
}

/* Both rails are down at both ends and stay so: no pair is left. */
static void rails_that_do_not_come_back_fail_the_link(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_advertise(&stage);
    rdma_fake_port(0, 0, 0);
    rdma_fake_port(1, 0, 0);
    int status;
    conform_fill(stage.source, STAGE_PUTS * STAGE_SIZE, 5);
    while ((status = stage.nodes[0].ops.put(stage.to, &stage.tokens[1], stage.source_region, stage.source,
                                            STAGE_SIZE, 9)) == WEFT_AGAIN)
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
    stage_check_untouched(&stage);
    rdma_fake_port(0, 1, 0);
    rdma_fake_port(1, 1, 0);
    stage_close(&stage);
}

/* Receive buffers that are taken back while the link has no queue pairs are free at once, and their tokens of no use afterwards. */
static void what_is_taken_back_meanwhile_stays_so(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_advertise(&stage);
    rdma_fake_port(0, 0, 0);
    rdma_fake_port(1, 0, 0);
    stage_put(&stage);
    while (stage.to->live || stage.back->live)
        conform_turn(&stage.world);
    for (size_t i = 0; i < STAGE_PUTS; i++) {
        if (i % 2 == 0)
            stage.nodes[1].ops.recall(stage.back, &stage.tokens[i], 0);
        else
            stage.nodes[0].ops.recall(stage.to, NULL, i);
    }
    stage.nodes[0].ops.recall_wait(stage.nodes[0].transport);
    stage.nodes[1].ops.recall_wait(stage.nodes[1].transport);
    stage_check_untouched(&stage);
    memset(stage.source, 0x77, STAGE_PUTS * STAGE_SIZE); /* nobody reads it any more */
    rdma_fake_port(0, 1, 0);
    stage_chat(&stage, 10);
    stage_finish_chat(&stage);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, STAGE_PUTS / 2);
    conform_settle(&stage.world);
    assert_int_equal(stage.nodes[0].put_done_count, STAGE_PUTS / 2); /* of those that nobody called back */
    assert_int_equal(stage.nodes[1].filled_count, 0);
    stage_check_untouched(&stage);
    assert_int_equal(
        stage.nodes[0].ops.put(stage.to, &stage.tokens[0], stage.source_region, stage.source, 1001, 0),
        WEFT_CANCELLED);
    for (size_t i = 1; i < STAGE_PUTS; i += 2) /* these receive buffers are open still */
        assert_int_equal(stage.nodes[0].ops.put(stage.to, &stage.tokens[i], stage.source_region,
                                                stage.source + i * STAGE_SIZE, STAGE_SIZE, i),
                         0);
    conform_until(&stage.world, &stage.nodes[1].filled_count, STAGE_PUTS / 2);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, STAGE_PUTS);
    rdma_fake_port(1, 1, 0);
    stage_until_qps(&stage, 2);
    stage_close(&stage);
}

/* A token from before is as good as new as long as its receive buffer is open. */
static void tokens_outlive_their_qps(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_advertise(&stage);
    rdma_fake_port(0, 0, 0);
    stage_until_qps(&stage, 1);
    rdma_fake_port(0, 1, 0);
    stage_until_qps(&stage, 2);
    rdma_fake_carried(0);
    stage_put(&stage);
    assert_true(rdma_fake_carried(0) > 0);
    stage_finish_puts(&stage);
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
    stage_open(&stage, &stage_lossy);
    for (int round = 0; round < 6; round++) {
        stage_advertise(&stage);
        stage_chat(&stage, stage.sent + 20);
        stage_put(&stage);
        for (int i = 0; i < 12; i++) {
            rdma_fake_port(i % 2, i / 2 % 2, 0);
            for (int k = 0; k < 1 + round; k++)
                conform_poll(&stage.nodes[(i + k) % 2], 1 + round);
        }
        rdma_fake_port(0, 1, 0);
        rdma_fake_port(1, 1, 0);
        stage_finish_puts(&stage);
        stage_chat(&stage, stage.sent + 20);
        stage_finish_chat(&stage);
    }
    stage_until_qps(&stage, 2);
    stage_close(&stage);
}

/* An error that another rail cannot help comes back at once, wherever it is tried: that ends. */
static void errors_that_come_back_end_the_link(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    for (int i = 0; i < 100 && stage.to->state != VERBS_LINK_FAILED; i++) {
        if (stage.to->state == VERBS_LINK_UP)
            rdma_fake_break(stage.to->qps[stage.to->first]->ibv->qp_num, IBV_WC_GENERAL_ERR);
        for (int k = 0; k < 300 && stage.to->state == VERBS_LINK_UP; k++)
            conform_turn(&stage.world);
        memset(stage.to->failover->bans, 0, sizeof stage.to->failover->bans);
        for (int k = 0; k < 3000 && stage.to->state == VERBS_LINK_CONNECTING; k++)
            conform_turn(&stage.world);
    }
    assert_int_equal(stage.to->state, VERBS_LINK_FAILED);
    assert_non_null(strstr(stage.nodes[0].ops.why(stage.to), "general error"));
    stage_close(&stage);
}

/* With nothing to send, it does not wait for one. */
static void closing_ends_a_link_without_qps(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_chat(&stage, 5);
    stage_finish_chat(&stage);
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
        cmocka_unit_test(tokens_outlive_their_qps),
        cmocka_unit_test(flaps_within_a_recovery),
        cmocka_unit_test(errors_that_come_back_end_the_link),
        cmocka_unit_test(closing_ends_a_link_without_qps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
