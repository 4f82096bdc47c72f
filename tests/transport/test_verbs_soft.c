/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* The verbs transport on a device that does what only Soft-RoCE does: it delivers a message twice, and binds windows again
 * with what it sends again (queue.c), which the device in memory takes for the end of the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/fakes/verbs/verbs_nodes.h"
#include "transport/verbs/verbs_private.h"

#define SIZE 20000

static struct verbs_node *const nodes = verbs_nodes;
static const struct weft_transport_ops *const ops = &verbs_nodes_ops;

static int open_soft(void **state)
{
    (void)state;
    struct weft_verbs_settings settings = WEFT_VERBS_SETTINGS_INIT;
    settings.stripe_bytes = 5000;
    verbs_nodes_open("2 soft", &settings);
    return 0;
}

/* --- messages that come again */

/* Puts a frame of a message into the hands of the link's device. */
static void deliver(const struct weft_link *link, uint32_t sequence, const char *text)
{
    uint8_t bytes[64];
    struct verbs_frame frame = {VERBS_FRAME_MARK, VERBS_DATA, 0, link->id, sequence, link->acked};
    memcpy(bytes, &frame, sizeof frame);
    memcpy(bytes + sizeof frame, text, strlen(text));
    assert_true(rdma_fake_deliver(link->qps[0]->ibv->qp_num, bytes, sizeof frame + strlen(text)));
    verbs_nodes_turns(2);
}

static void a_last_message_that_comes_twice_is_reported_once(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
    verbs_nodes_say(link, "first", 1);
    verbs_nodes_say(link, "second", 1);
    deliver(back, VERBS_FIRST_SEQUENCE + 1, "second");
    assert_int_equal(nodes[1].received, 2);
    assert_int_equal(nodes[1].failed, 0);
    for (int i = 0; i < 100; i++) /* credits and buffers are still right */
        verbs_nodes_say(link, "third", 1);
    deliver(back, VERBS_FIRST_SEQUENCE + 100, "older");
    assert_int_equal(nodes[1].received, 102);
    assert_int_equal(nodes[1].failed, 1);
    assert_int_equal(nodes[1].status, WEFT_PROTOCOL);
    assert_non_null(strstr(ops->why(back), "arrived where"));
}

/* Before the first there is none that could come again. */
static void a_message_before_the_first_is_an_error(void **state)
{
    (void)state;
    verbs_nodes_join(0, 1);
    deliver(verbs_nodes_join(1, 0), VERBS_FIRST_SEQUENCE - 1, "zeroth");
    assert_int_equal(nodes[1].received, 0);
    assert_int_equal(nodes[1].failed, 1);
    assert_int_equal(nodes[1].status, WEFT_PROTOCOL);
}

/* --- windows that wait */

static uint8_t source[SIZE], target[SIZE];

/* Node 1's side: its links, and receive buffers filled behind messages whose end it has not heard. */
struct stage {
    struct weft_link *there, *back;
    struct weft_region *from, *to;
    struct weft_token token;
};

static void stage_open(struct stage *stage)
{
    memset(source, 's', sizeof source);
    memset(target, 0, sizeof target);
    stage->there = verbs_nodes_join(0, 1);
    stage->back = verbs_nodes_join(1, 0);
    assert_int_equal(ops->reg(nodes[0].transport, source, SIZE, &stage->from), 0);
    assert_int_equal(ops->reg(nodes[1].transport, target, SIZE, &stage->to), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ops->send(stage->back, "x", 1, NULL, 0), WEFT_OK);
    assert_int_equal(ops->advertise(stage->back, stage->to, target, SIZE, 7, &stage->token), WEFT_OK);
    assert_true(stage->back->unbound > 0);
}

static void stage_close(struct stage *stage)
{
    ops->dereg(stage->from);
    ops->dereg(stage->to);
}

static void put_and_fill(struct stage *stage)
{
    int filled = nodes[1].filled;
    verbs_nodes_turns(2);
    verbs_nodes_say(stage->back, "go", 0);
    assert_int_equal(ops->put(stage->there, &stage->token, stage->from, source, SIZE, 1), WEFT_OK);
    verbs_nodes_turns(4);
    assert_int_equal(nodes[1].filled, filled + 1);
    assert_memory_equal(target, source, SIZE);
    assert_int_equal(nodes[0].failed + nodes[1].failed, 0);
}

/* Nothing overtakes it: neither a message nor a put the other way; and a busy queue pair does not make it wait for ever. */
static void a_window_waits_for_what_is_under_way(void **state)
{
    (void)state;
    struct stage stage;
    struct weft_token token;
    stage_open(&stage);
    assert_int_equal(ops->send(stage.back, "y", 1, NULL, 0), WEFT_AGAIN);
    assert_int_equal(ops->advertise(stage.there, stage.from, source, SIZE, 8, &token), WEFT_OK);
    assert_int_equal(ops->put(stage.back, &token, stage.to, target, SIZE, 9), WEFT_AGAIN);
    assert_true(ops->busy(nodes[1].transport)); /* nobody has asked for the end of those messages yet */
    for (int i = 0; i < 3 && stage.back->unbound; i++) {
        assert_int_equal(ops->send(stage.back, "y", 1, NULL, 0), WEFT_AGAIN);
        verbs_nodes_poll(1, 1);
    }
    assert_int_equal(stage.back->unbound, 0);
    ops->withdraw(stage.there, &token);
    put_and_fill(&stage);
    stage_close(&stage);
}

static void an_rbuf_whose_window_waits_can_be_withdrawn(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    ops->withdraw(stage.back, &stage.token);
    assert_int_equal(stage.back->unbound, 0);
    verbs_nodes_turns(3);
    int objects = rdma_fake_count();
    for (int i = 0; i < 50; i++) { /* windows and places come back */
        assert_int_equal(ops->send(stage.back, "x", 1, NULL, 0), WEFT_OK);
        assert_int_equal(ops->advertise(stage.back, stage.to, target, SIZE, 7, &stage.token), WEFT_OK);
        ops->withdraw(stage.back, &stage.token);
        verbs_nodes_turns(2);
    }
    assert_int_equal(rdma_fake_count(), objects);
    assert_int_equal(ops->advertise(stage.back, stage.to, target, SIZE, 7, &stage.token), WEFT_OK);
    verbs_nodes_poll(1, 3);
    put_and_fill(&stage);
    stage_close(&stage);
}

static void a_link_may_fail_while_a_window_waits(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    rdma_fake_break(stage.back->qps[1]->ibv->qp_num, IBV_WC_LOC_PROT_ERR);
    verbs_nodes_turns(3);
    assert_int_equal(nodes[1].failed, 1);
    assert_int_equal(stage.back->unbound, 0);
    stage_close(&stage);
    stage_open(&stage); /* with new links */
    verbs_nodes_poll(1, 3);
    nodes[0].failed = nodes[1].failed = 0;
    put_and_fill(&stage);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_last_message_that_comes_twice_is_reported_once, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_message_before_the_first_is_an_error, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_window_waits_for_what_is_under_way, open_soft,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(an_rbuf_whose_window_waits_can_be_withdrawn, open_soft,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_link_may_fail_while_a_window_waits, open_soft,
                                        verbs_nodes_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
