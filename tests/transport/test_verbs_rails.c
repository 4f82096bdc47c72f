/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* Rails of the verbs transport that fail in unusual ways, on an RDMA device in memory: what was acknowledged and did not
 * arrive, what arrives and is reported late, ends that believe in different rails, queue pairs that are left out, more than two
 * instances, and peers that do not keep to the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/fakes/verbs/rails_stage.h"
#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/support/patience.h"

#define NODES 4

/* The adapter has acknowledged messages, and died before the peer had them. */
static void messages_that_were_acknowledged_are_sent_again(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_chat(&stage, 5);
    stage_finish_chat(&stage);
    rdma_fake_swallow(0, 1);
    stage_chat(&stage, 25);
    conform_settle(&stage.world);
    assert_int_equal(stage.sent, 25);
    assert_int_equal(stage.nodes[1].message_count, 5);
    rdma_fake_port(0, 0, 0);
    rdma_fake_swallow(0, 0);
    stage_finish_chat(&stage);
    assert_true(stage.to->failover->messages >= 20);
    rdma_fake_port(0, 1, 0);
    stage_until_qps(&stage, 2);
    stage_close(&stage);
}

/* The same with puts: their source may have been overwritten since, so nothing can be sent again. That is an error, and
 * no receive buffer is said to be filled. */
static void puts_that_were_acknowledged_and_lost_are_an_error(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_advertise(&stage);
    conform_send(&stage.world, 1, stage.back, "tokens", 6, NULL, 0); /* they come by message */
    conform_until(&stage.world, &stage.nodes[0].message_count, 1);
    rdma_fake_swallow(0, 1);
    rdma_fake_swallow(1, 1);
    stage_put(&stage);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, STAGE_PUTS);
    assert_int_equal(stage.nodes[0].put_status[0], 0);
    rdma_fake_port(0, 0, 0);
    rdma_fake_swallow(0, 0);
    rdma_fake_swallow(1, 0);
    conform_until(&stage.world, &stage.nodes[0].failed_count, 1);
    conform_until(&stage.world, &stage.nodes[1].failed_count, 1);
    assert_int_equal(stage.nodes[0].failed_status[0], WEFT_TRANSPORT);
    assert_non_null(strstr(stage.nodes[0].ops.why(stage.to), "acknowledged a put that has not arrived"));
    assert_int_equal(stage.nodes[1].filled_count, 0);
    stage_check_untouched(&stage);
    stage_close(&stage);
}

/* One queue pair's part was acknowledged and is lost, the other's has failed: all of it is written again. */
static void parts_that_were_acknowledged_are_written_again(void **state)
{
    struct stage stage;
    struct weft_token token;
    (void)state;
    stage_open(&stage, &stage_plain);
    assert_int_equal(
        stage.nodes[1].ops.advertise(stage.back, stage.target_region, stage.target, STAGE_SIZE, 7, &token),
        0);
    rdma_fake_swallow(0, 1);
    rdma_fake_port(1, 0, 0);
    conform_fill(stage.source, STAGE_SIZE, 9);
    int status;
    while ((status = stage.nodes[0].ops.put(stage.to, &token, stage.source_region, stage.source, STAGE_SIZE,
                                            3)) == WEFT_AGAIN)
        conform_turn(&stage.world);
    assert_int_equal(status, 0);
    assert_true(stage.to->round == 0); /* the part of queue pair 0 went out in this round */
    rdma_fake_swallow(0, 0);
    conform_until(&stage.world, &stage.nodes[0].put_done_count, 1);
    conform_until(&stage.world, &stage.nodes[1].filled_count, 1);
    assert_int_equal(stage.nodes[0].put_status[0], 0);
    assert_memory_equal(stage.target, stage.source, STAGE_SIZE);
    memset(stage.target, STAGE_PATTERN, STAGE_SIZE);
    rdma_fake_port(1, 1, 0);
    stage_until_qps(&stage, 2);
    stage_check_untouched(&stage);
    stage_close(&stage);
}

/* More receive buffers than one frame of keys has room for: the peer hears of the last ones, and that there are no others, later.
 * The first one is to be cut over both rails. */
#define MANY (VERBS_KEY_ENTRIES + 1)

static void many_arrive(struct stage *stage, struct weft_token *first)
{
    struct weft_token token;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(stage->nodes[1].ops.advertise(stage->back, stage->target_region, stage->target,
                                                       STAGE_SIZE, (uint64_t)i, i ? &token : first),
                         0);
    conform_send(&stage->world, 1, stage->back, "tokens", 6, NULL, 0);
    conform_until(&stage->world, &stage->nodes[0].message_count, 1);
}

/* Until the first frame of keys is there, and no other. */
static void until_keys(struct stage *stage, uint32_t round)
{
    const struct verbs_failover *failover = stage->to->failover;
    int64_t limit_ns = weft_clock_ns() + test_patient(15000000000);
    while ((stage->to->round == round || !failover->renewals_count ||
            __builtin_popcount(failover->renewals[0].token.check & 0xff) != 2) &&
           weft_clock_ns() < limit_ns) {
        conform_poll(&stage->nodes[1], 16);
        conform_poll(&stage->nodes[0], 16);
    }
    assert_int_equal(failover->keys_known, 0);
    assert_int_equal(stage->to->state, VERBS_LINK_UP);
}

/* A put that begins in a new round, before the peer has announced all keys of it, and is lost in this very round: that there
 * are no other keys says nothing of it. */
static void the_end_of_the_keys_settles_earlier_puts_only(void **state)
{
    struct stage stage;
    struct weft_token token;
    (void)state;
    stage_open(&stage, &stage_plain);
    many_arrive(&stage, &token);
    uint32_t round = stage.to->round;
    rdma_fake_port(1, 0, 0);
    stage_until_qps(&stage, 1);
    for (int i = 0; i < 100000 && !stage.to->failover->keys_known; i++)
        conform_turn(&stage.world);
    assert_int_equal(stage.to->failover->keys_known, 1);
    rdma_fake_port(1, 1, 0);
    until_keys(&stage, round + 1);
    conform_fill(stage.source, STAGE_SIZE, 9);
    rdma_fake_port(1, 0, 1);
    rdma_fake_delay(0, 1);
    assert_int_equal(
        stage.nodes[0].ops.put(stage.to, &token, stage.source_region, stage.source, STAGE_SIZE, 3), 0);
    for (int i = 0; i < 10; i++)
        conform_poll(&stage.nodes[1], 16);
    assert_int_equal(stage.back->failover->keys_sent, 1);
    assert_int_equal(stage.to->failover->keys_known, 0);
    struct verbs_frame again = {.mark = VERBS_FRAME_MARK,
                                .type = VERBS_KEYS_END,
                                .link = stage.to->id,
                                .consumed = stage.back->consumed};
    assert_true(rdma_fake_deliver(stage.to->qps[stage.to->first]->ibv->qp_num, &again, sizeof again));
    for (int i = 0; i < 100000 && stage.to->state == VERBS_LINK_UP; i++)
        conform_poll(&stage.nodes[0], 16);
    assert_int_not_equal(stage.to->state, VERBS_LINK_UP);
    rdma_fake_delay(0, 0); /* now KEYS_END is found, twice, as Soft-RoCE would have it (message.c) */
    conform_until(&stage.world, &stage.nodes[0].put_done_count, 1);
    conform_until(&stage.world, &stage.nodes[1].filled_count, 1);
    assert_int_equal(stage.nodes[0].put_status[0], 0);
    assert_memory_equal(stage.target, stage.source, STAGE_SIZE);
    stage_close(&stage);
}

/* What the adapter has acknowledged is in the completion queue only after the queue pair has been in error for a while. */
static void what_completes_late_has_arrived(void **state)
{
    struct stage stage;
    (void)state;
    for (int rail = 0; rail < 2; rail++) {
        stage_open(&stage, &stage_plain);
        stage_advertise(&stage);
        stage_chat(&stage, 5);
        stage_finish_chat(&stage);
        rdma_fake_delay(0, 1);
        rdma_fake_delay(1, 1);
        stage_put(&stage);
        stage_chat(&stage, 15);
        conform_until(&stage.world, &stage.nodes[0].put_done_count, STAGE_PUTS);
        assert_int_equal(stage.nodes[1].filled_count, 0);
        assert_int_equal(stage.nodes[1].message_count, 5);
        rdma_fake_port(rail, 0, 0);
        while (!stage.to->round || !stage.back->round)
            conform_turn(&stage.world);
        rdma_fake_delay(0, 0);
        rdma_fake_delay(1, 0);
        stage_finish_puts(&stage);
        stage_finish_chat(&stage);
        assert_int_equal(stage.to->failover->messages + stage.to->failover->puts, 0); /* all had arrived */
        rdma_fake_port(rail, 1, 0);
        stage_until_qps(&stage, 2);
        stage_check_untouched(&stage);
        stage_close(&stage);
    }
}

/* One end has lost one port, the other end the other: there is no pair left until one comes back. */
static void ends_may_lose_different_rails(void **state)
{
    struct stage stage;
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        stage_open(&stage, &stage_plain);
        stage_advertise(&stage);
        stage_chat(&stage, 10);
        rdma_fake_plug(0, 0, 0, 0);
        rdma_fake_plug(1, 1, 0, silent);
        stage_put(&stage);
        stage_chat(&stage, 40);
        for (int i = 0; i < 3000; i++) {
            stage_chat(&stage, 40);
            conform_turn(&stage.world);
        }
        assert_int_equal(stage.to->state, VERBS_LINK_CONNECTING);
        assert_true(stage.nodes[0].put_done_count < STAGE_PUTS);
        rdma_fake_plug(silent, silent, 1, silent); /* one of the two */
        stage_finish_puts(&stage);
        stage_finish_chat(&stage);
        assert_int_equal(stage.to->live, silent ? 2 : 1);
        stage_check_untouched(&stage);
        rdma_fake_plug(0, 0, 1, 0);
        rdma_fake_plug(1, 1, 1, silent);
        stage_until_qps(&stage, 2);
        stage_close(&stage);
    }
}

/* A path that was broken is left out for long; but not when there is no other, at this end or at both. */
static void a_qp_that_is_left_out_is_better_than_none(void **state)
{
    struct stage stage;
    (void)state;
    for (int end = 0; end < 2; end++) {
        stage_open(&stage, &stage_plain);
        rdma_fake_port(0, 0, 1);
        stage_chat(&stage, 10);
        stage_finish_chat(&stage);
        assert_int_equal(stage.to->live, 2);
        rdma_fake_port(0, 1, 1);
        for (int i = 0; i < 2; i++) { /* it has been so for a while */
            struct verbs_ban *ban = (i ? stage.back : stage.to)->failover->bans;
            if (ban->until_ns)
                ban->until_ns = ban->failed_ns + INT64_C(100000000000);
        }
        rdma_fake_plug(end, 1, 0, 0);
        stage_chat(&stage, 30);
        stage_finish_chat(&stage);
        assert_int_equal(stage.to->live, 1);
        rdma_fake_plug(end, 1, 1, 0);
        stage_until_qps(&stage, 2);
        stage_close(&stage);
    }
}

/* All queue pairs of a pair of ports share what is broken: the first failure takes them all out. */
static void one_failure_speaks_for_all_queue_pairs_of_a_rail(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_bare);
    stage_advertise(&stage);
    rdma_fake_port(0, 0, 1);
    stage_put(&stage);
    stage_chat(&stage, 40);
    stage_finish_puts(&stage);
    stage_finish_chat(&stage);
    assert_int_equal(stage.to->round, 1);
    assert_int_equal(stage.to->live, 2 | 8);
    rdma_fake_port(0, 1, 1);
    stage_until_qps(&stage, 4);
    stage_close(&stage);
}

/* The port is down when the two meet, and what it reported is forgotten by then. */
static void a_port_may_go_down_before_there_is_a_link(void **state)
{
    struct conform_world world;
    (void)state;
    conform_open(&world, &stage_plain, 2);
    rdma_fake_port(0, 0, 0);
    conform_settle(&world);
    struct weft_link *to = conform_connect(&world, 0, 1, &world),
                     *back = conform_connect(&world, 1, 0, &world);
    uint8_t bytes[100];
    conform_fill(bytes, sizeof bytes, 1);
    conform_send(&world, 0, to, bytes, sizeof bytes, NULL, 0);
    conform_until(&world, &world.nodes[1].message_count, 1);
    assert_int_equal(to->live, 2);
    assert_true(to->failover->barren == 0); /* nothing had to fail first */
    assert_int_equal(to->failover->bans[0].until_ns, 0);
    assert_int_equal(back->failover->bans[0].until_ns, 0);
    rdma_fake_port(0, 1, 0);
    int64_t limit_ns = weft_clock_ns() + test_patient(15000000000);
    while ((to->live != 3 || to->state != VERBS_LINK_UP) && weft_clock_ns() < limit_ns)
        conform_turn(&world);
    assert_int_equal(to->live, 3);
    conform_close(&world);
    assert_int_equal(rdma_fake_count(), 0);
}

/* --- more than two */

struct crowd {
    struct conform_world world;
    struct weft_link *links[NODES][NODES];
    uint32_t said;
};

static void crowd_open(struct crowd *crowd)
{
    memset(crowd, 0, sizeof *crowd);
    conform_open(&crowd->world, &stage_plain, NODES);
    for (int i = 0; i < NODES; i++) {
        for (int k = 0; k < NODES; k++)
            crowd->links[i][k] = i == k ? NULL : conform_connect(&crowd->world, i, k, crowd);
    }
}

/* Everybody sends to everybody, and all of it arrives. */
static void crowd_talk(struct crowd *crowd, int count)
{
    size_t before[NODES];
    uint8_t bytes[3000];
    for (int i = 0; i < NODES; i++)
        before[i] = crowd->world.nodes[i].message_count;
    for (int n = 0; n < count; n++, crowd->said++) {
        conform_fill(bytes, sizeof bytes, crowd->said);
        for (int i = 0; i < NODES * NODES; i++) {
            if (i / NODES != i % NODES)
                conform_send(&crowd->world, i / NODES, crowd->links[i / NODES][i % NODES], bytes,
                             sizeof bytes, NULL, 0);
        }
    }
    for (int i = 0; i < NODES; i++) {
        struct conform_node *node = &crowd->world.nodes[i];
        conform_until(&crowd->world, &node->message_count, before[i] + (size_t)count * (NODES - 1));
        assert_int_equal(node->message_count, before[i] + (size_t)count * (NODES - 1));
        assert_int_equal(node->failed_count, 0);
    }
}

static void crowd_until_qps(struct crowd *crowd, uint8_t live)
{
    int64_t limit_ns = weft_clock_ns() + test_patient(15000000000);
    for (int i = 0; i < NODES * NODES; i++) {
        struct weft_link *link = crowd->links[i / NODES][i % NODES];
        while (link && (link->live != live || link->state != VERBS_LINK_UP) && weft_clock_ns() < limit_ns)
            conform_turn(&crowd->world);
        assert_true(!link || link->live == live);
    }
}

static void crowd_close(struct crowd *crowd)
{
    conform_close(&crowd->world);
    assert_int_equal(rdma_fake_count(), 0);
}

/* A switch fails: one rail of everybody is down. */
static void a_rail_may_go_down_for_all(void **state)
{
    struct crowd crowd;
    (void)state;
    crowd_open(&crowd);
    for (int i = 0; i < 4; i++) {
        crowd_talk(&crowd, 5);
        rdma_fake_port(i % 2, 0, 0);
        crowd_talk(&crowd, 20);
        crowd_until_qps(&crowd, (uint8_t)(2 - i % 2));
        rdma_fake_port(i % 2, 1, 0);
        crowd_talk(&crowd, 5);
        crowd_until_qps(&crowd, 3);
    }
    crowd_close(&crowd);
}

/* One connection of one pair breaks: nobody else notices. */
static void what_breaks_between_two_concerns_nobody_else(void **state)
{
    struct crowd crowd;
    (void)state;
    crowd_open(&crowd);
    crowd_talk(&crowd, 5);
    struct weft_link *link = crowd.links[1][2];
    rdma_fake_break(link->qps[link->first]->ibv->qp_num, IBV_WC_RETRY_EXC_ERR);
    crowd_talk(&crowd, 40);
    for (int i = 0; i < NODES * NODES; i++) {
        int is_pair = i == 1 * NODES + 2 || i == 2 * NODES + 1;
        assert_true(!crowd.links[i / NODES][i % NODES] ||
                    (crowd.links[i / NODES][i % NODES]->round > 0) == is_pair);
    }
    crowd_close(&crowd);
}

/* One instance loses a port: its links use the other, the rest use both. */
static void a_port_of_one_concerns_its_links_only(void **state)
{
    struct crowd crowd;
    (void)state;
    crowd_open(&crowd);
    crowd_talk(&crowd, 5);
    rdma_fake_plug(3, 0, 0, 0);
    crowd_talk(&crowd, 40);
    for (int i = 0; i < NODES * NODES; i++) {
        struct weft_link *link = crowd.links[i / NODES][i % NODES];
        assert_true(!link || link->live == (i / NODES == 3 || i % NODES == 3 ? 2 : 3));
    }
    rdma_fake_plug(3, 0, 1, 0);
    crowd_until_qps(&crowd, 3);
    crowd_close(&crowd);
}

/* --- rules */

/* A device that delivers twice: receivers go by the number. */
static void what_comes_twice_counts_once(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    stage_chat(&stage, 5);
    stage_finish_chat(&stage);
    for (uint32_t age = 1; age < 4; age++) {
        struct verbs_frame frame = {.mark = VERBS_FRAME_MARK,
                                    .type = VERBS_DATA,
                                    .link = stage.back->id,
                                    .sequence = stage.back->expected - age,
                                    .consumed = stage.to->consumed};
        rdma_fake_deliver(stage.back->qps[stage.back->first]->ibv->qp_num, &frame, sizeof frame);
    }
    conform_settle(&stage.world);
    assert_int_equal(stage.nodes[1].message_count, 5);
    stage_chat(&stage, 30);
    stage_finish_chat(&stage);
    stage_close(&stage);
}

/* Rounds are counted one by one; a peer cannot be anywhere. */
static void a_peer_in_a_round_far_away_is_not_believed(void **state)
{
    struct stage stage;
    (void)state;
    stage_open(&stage, &stage_plain);
    const struct weft_link *back = stage.back;
    struct verbs_oob oob = {.type = VERBS_OOB_HALF,
                            .link = back->id,
                            .generation = back->generation,
                            .heard = back->peer_generation,
                            .qp_count = back->qp_count,
                            .window = 32,
                            .frame_bytes = VERBS_FRAME_BYTES,
                            .features = VERBS_FEATURE_FAILOVER,
                            .round = UINT32_C(0xffffffff),
                            .expected = back->expected,
                            .consumed = back->consumed};
    uint8_t bytes[WEFT_OOB_MAX];
    size_t size = verbs_oob_write(&oob, bytes);
    stage.nodes[0].ops.oob_receive(stage.nodes[0].transport, stage.nodes[1].address,
                                   stage.nodes[1].address_size, bytes, size);
    conform_until(&stage.world, &stage.nodes[0].failed_count, 1);
    assert_int_equal(stage.nodes[0].failed_status[0], WEFT_PROTOCOL);
    assert_non_null(strstr(stage.nodes[0].ops.why(stage.to), "round 4294967295"));
    conform_until(&stage.world, &stage.nodes[1].failed_count, 1);
    stage_close(&stage);
}

static void rounds_turn(struct stage *stage, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t round = stage->to->round;
        rdma_fake_break(stage->to->qps[stage->to->first]->ibv->qp_num, IBV_WC_GENERAL_ERR);
        while (stage->to->round == round && stage->to->state != VERBS_LINK_FAILED)
            conform_turn(&stage->world);
        for (int k = 0; k < 2; k++) { /* no queue pair is left out, now */
            struct verbs_failover *failover = (k ? stage->back : stage->to)->failover;
            memset(failover->bans, 0, sizeof failover->bans);
            failover->restore_ns = 1;
        }
        stage_until_qps(stage, 2);
        stage_chat(stage, stage->sent + 5);
        stage_finish_chat(stage);
    }
}

/* A device may lose a receive with each queue pair that ends: there are others then. One that loses none needs none. */
static void receives_that_get_lost_are_replaced(void **state)
{
    struct stage stage;
    (void)state;
    for (int spill = 0; spill < 2; spill++) {
        stage_open(&stage, &stage_plain);
        rdma_fake_spill(spill);
        rounds_turn(&stage, 100);
        rdma_fake_spill(0);
        const struct verbs_queues *queues = stage.nodes[0].transport->queues;
        if (spill)
            assert_true(queues[0].receives_lost >= 100);
        else
            assert_true(queues[0].receives_lost + queues[1].receives_lost < 8);
        stage_close(&stage);
    }
}

static int ports_up(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rdma_fake_port(i, 1, 0);
        rdma_fake_swallow(i, 0);
        rdma_fake_delay(i, 0);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(messages_that_were_acknowledged_are_sent_again, ports_up),
        cmocka_unit_test_setup(puts_that_were_acknowledged_and_lost_are_an_error, ports_up),
        cmocka_unit_test_setup(parts_that_were_acknowledged_are_written_again, ports_up),
        cmocka_unit_test_setup(the_end_of_the_keys_settles_earlier_puts_only, ports_up),
        cmocka_unit_test_setup(what_completes_late_has_arrived, ports_up),
        cmocka_unit_test_setup(ends_may_lose_different_rails, ports_up),
        cmocka_unit_test_setup(a_qp_that_is_left_out_is_better_than_none, ports_up),
        cmocka_unit_test_setup(one_failure_speaks_for_all_queue_pairs_of_a_rail, ports_up),
        cmocka_unit_test_setup(a_port_may_go_down_before_there_is_a_link, ports_up),
        cmocka_unit_test_setup(a_rail_may_go_down_for_all, ports_up),
        cmocka_unit_test_setup(what_breaks_between_two_concerns_nobody_else, ports_up),
        cmocka_unit_test_setup(a_port_of_one_concerns_its_links_only, ports_up),
        cmocka_unit_test_setup(what_comes_twice_counts_once, ports_up),
        cmocka_unit_test_setup(a_peer_in_a_round_far_away_is_not_believed, ports_up),
        cmocka_unit_test_setup(receives_that_get_lost_are_replaced, ports_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
