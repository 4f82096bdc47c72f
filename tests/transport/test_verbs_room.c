/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* Room for what links of the verbs transport send and receive, on a device in memory: no message ever meets an empty
 * receive queue (the device ends the program then), whatever became of other links before, and none takes it all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

#include "tests/fakes/verbs/verbs_nodes.h"
#include "transport/verbs/rbuf.h"

static struct verbs_node *const nodes = verbs_nodes;
static const struct weft_transport_ops *const ops = &verbs_nodes_ops;

static void pause_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

/* Sends what the window takes; nobody reads it. */
static int fill_window(struct weft_link *link)
{
    int count = 0;
    while (ops->send(link, "x", 1, NULL, 0) == WEFT_OK)
        count++;
    return count;
}

/* Devices differ, and peers are many: the queue is not smaller than need be. */
static void the_queue_is_as_long_as_the_device_allows(void **state)
{
    (void)state;
    const struct verbs_queues *queues = &nodes[0].transport->queues[0];
    assert_int_equal(queues->rail->limits.shared_entries, 16384);
    assert_int_equal(queues->srq_entries, 16384);
}

/* The device forgets the completions of a queue pair that is reset or destroyed; the receives that they were of are not
 * lost with them. */
static void links_that_end_take_no_receives_along(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct weft_link *there = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
        assert_int_equal(fill_window(there), VERBS_WINDOW);
        verbs_link_fail(back, WEFT_TRANSPORT, "for the test");
        pause_ms(10);
        verbs_nodes_poll(1, 1);
        pause_ms(210);
        verbs_nodes_poll(1, 1);
        verbs_nodes_turns(5);
    }
    struct weft_link *there = verbs_nodes_join(0, 1), *third = verbs_nodes_join(2, 1);
    int before = nodes[1].received;
    assert_int_equal(fill_window(there) + fill_window(third), 2 * VERBS_WINDOW);
    verbs_nodes_turns(10);
    assert_int_equal(nodes[1].received - before, 2 * VERBS_WINDOW);
}

struct scene {
    struct weft_link *there, *back; /* node 0 puts to node 1 */
    struct weft_region *source, *target;
};
static uint8_t memory[2][1 << 20];

static void scene_open(struct scene *scene)
{
    scene->there = verbs_nodes_join(0, 1);
    scene->back = verbs_nodes_join(1, 0);
    assert_int_equal(ops->reg(nodes[0].transport, memory[0], sizeof memory[0], &scene->source), 0);
    assert_int_equal(ops->reg(nodes[1].transport, memory[1], sizeof memory[1], &scene->target), 0);
}

static int put(const struct scene *scene, const struct weft_token *token)
{
    return ops->put(scene->there, token, scene->source, memory[0], 1024, 1);
}

/* A receive buffer of 1,024 bytes, of which the peer knows. */
static void advertise(const struct scene *scene, struct weft_token *token)
{
    int status;
    while ((status = ops->advertise(scene->back, scene->target, memory[1], 1024, 7, token)) == WEFT_AGAIN)
        verbs_nodes_turns(1);
    assert_int_equal(status, WEFT_OK);
    verbs_nodes_say(scene->back, "token", 0);
}

/* Every receive buffer that was withdrawn is refused, for as long as anybody may have its token, also when its slot has been
 * used again since; and no other is. */
static void each_rbuf_that_was_withdrawn_is_refused(void **state)
{
    struct weft_token withdrawn[3], token;
    struct scene scene;
    (void)state;
    scene_open(&scene);
    for (int i = 0; i < 3; i++) {
        advertise(&scene, &withdrawn[i]);
        assert_int_equal(ops->recall(scene.back, &withdrawn[i], 0), WEFT_OK);
        verbs_nodes_turns(5);
    }
    for (int i = 0; i <= VERBS_GENERATION_MASK + 100;
         i++) { /* all generations of the slot, and some once more */
        advertise(&scene, &token);
        assert_int_equal(put(&scene, &token), WEFT_OK);
        verbs_nodes_turns(5);
        assert_int_equal(nodes[1].filled, i + 1);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(&scene, &withdrawn[i]), WEFT_CANCELLED);
    verbs_nodes_turns(3);
    assert_int_equal(nodes[0].failed + nodes[1].failed, 0);
    verbs_nodes_say(scene.there, "up", 1);
}

static struct verbs_library library; /* that has no memory to give */
static int asked;

static struct ibv_mr *no_memory(struct ibv_pd *domain, void *start, size_t size, uint64_t iova,
                                unsigned access)
{
    (void)domain, (void)start, (void)size, (void)iova, (void)access;
    asked++;
    errno = ENOMEM;
    return NULL;
}

/* What could not be had is neither taken nor asked for each time. */
static void room_that_is_refused_is_not_taken(void **state)
{
    struct scene scene;
    (void)state;
    scene_open(&scene);
    struct verbs_queues *queues = &nodes[1].transport->queues[0];
    const struct verbs_library *real = queues->rail->verbs;
    library = *real;
    library.reg_mr = no_memory;
    queues->rail->verbs = &library;
    uint32_t before = queues->cq_reserved;
    asked = 0;
    while (verbs_receives_reserve(queues, 1) == WEFT_OK)
        before++;
    for (int i = 0; i < 100; i++)
        assert_int_equal(verbs_receives_reserve(queues, 1), WEFT_NOMEM);
    assert_non_null(strstr(weft_error_detail(), "out of memory"));
    assert_int_equal(queues->cq_reserved, before);
    assert_in_range(asked, 1, 3);
    queues->rail->verbs = real;
    pause_ms(110);
    assert_int_equal(verbs_receives_reserve(queues, 1), WEFT_OK);
}

/* However many puts lie unread, a third instance's messages find their receives. */
static void puts_leave_receives_to_messages(void **state)
{
    static struct weft_token tokens[400];
    struct scene scene;
    (void)state;
    scene_open(&scene);
    struct weft_link *third = verbs_nodes_join(2, 1);
    for (int i = 0; i < 400; i++) {
        int status;
        while ((status = ops->advertise(scene.back, scene.target, memory[1] + 1024 * i, 1024, 7,
                                        &tokens[i])) == WEFT_AGAIN)
            verbs_nodes_turns(1);
        assert_int_equal(status, WEFT_OK);
    }
    verbs_nodes_turns(3);
    for (int i = 0; i < 400; i++) {
        int status;
        while ((status = put(&scene, &tokens[i])) == WEFT_AGAIN)
            verbs_nodes_poll(0, 1);
        assert_int_equal(status, WEFT_OK);
    }
    assert_int_equal(fill_window(third), VERBS_WINDOW);
    verbs_nodes_turns(50);
    assert_int_equal(nodes[1].filled, 400);
    assert_int_equal(nodes[1].received, VERBS_WINDOW);
}

static int open_two_qps(void **state)
{
    (void)state;
    struct weft_verbs_settings settings = WEFT_VERBS_SETTINGS_INIT;
    settings.qps = 2;
    settings.stripe_bytes = 4096;
    verbs_nodes_open(NULL, &settings);
    return 0;
}

/* Where the queue has a receive for one of its queue pairs only, a receive buffer waits for others, but not for itself. */
static void an_rbuf_does_not_wait_for_itself(void **state)
{
    struct scene scene;
    struct weft_token first, second;
    (void)state;
    scene_open(&scene);
    struct verbs_queues *queues = &nodes[1].transport->queues[0];
    uint32_t entries = queues->srq_entries;
    queues->srq_entries = queues->receives_wanted + 1;
    assert_int_equal(ops->advertise(scene.back, scene.target, memory[1], 65536, 7, &first), WEFT_OK);
    assert_int_equal(ops->advertise(scene.back, scene.target, memory[1], 65536, 7, &second), WEFT_AGAIN);
    verbs_nodes_turns(3);
    verbs_nodes_say(scene.back, "token", 0);
    assert_int_equal(ops->put(scene.there, &first, scene.source, memory[0], 65536, 1), WEFT_OK);
    verbs_nodes_turns(5);
    assert_int_equal(nodes[1].filled, 1);
    assert_int_equal(ops->advertise(scene.back, scene.target, memory[1], 65536, 7, &second), WEFT_OK);
    ops->withdraw(scene.back, &second);
    queues->srq_entries = entries;
}

/* However many receive buffers are withdrawn while the peer does not look, its receive queue takes the questions. */
static void many_rbufs_may_be_withdrawn_at_once(void **state)
{
    static struct weft_token tokens[100];
    struct scene scene;
    (void)state;
    scene_open(&scene);
    for (int i = 0; i < 100; i++)
        advertise(&scene, &tokens[i]);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(ops->recall(scene.back, &tokens[i], 0), WEFT_OK);
        verbs_nodes_poll(1, 1);
    }
    verbs_nodes_turns(500);
    for (int i = 0; i < 100; i++)
        assert_int_equal(put(&scene, &tokens[i]), WEFT_CANCELLED);
    ops->recall_wait(nodes[1].transport); /* nothing is left to wait for */
    assert_int_equal(nodes[0].failed + nodes[1].failed, 0);
    assert_int_equal(scene.back->cancels, 0);
}

static int (*real_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static const struct ibv_qp *silent;

/* Nothing of the silent one's completes, as long as the adapter goes on trying. */
static int post_some(struct ibv_qp *pair, struct ibv_send_wr *chain, struct ibv_send_wr **bad)
{
    return pair == silent ? 0 : real_post(pair, chain, bad);
}

static void a_peer_that_is_silent_leaves_buffers_to_others(void **state)
{
    (void)state;
    struct weft_link *dead = verbs_nodes_join(0, 1), *alive = verbs_nodes_join(0, 2);
    struct ibv_context_ops *device = &nodes[0].transport->rails[0].context->ops;
    real_post = device->post_send;
    device->post_send = post_some;
    silent = dead->qps[0]->ibv;
    while (ops->send(dead, memory[0], 1000, NULL, 0) == WEFT_OK)
        continue;
    int before = nodes[2].received;
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 20 && ops->send(alive, memory[0], 1000, NULL, 0) == WEFT_AGAIN; k++)
            verbs_nodes_turns(1);
        verbs_nodes_turns(1);
    }
    assert_int_equal(nodes[2].received - before, 200);
    device->post_send = real_post;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_queue_is_as_long_as_the_device_allows, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(links_that_end_take_no_receives_along, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(room_that_is_refused_is_not_taken, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(puts_leave_receives_to_messages, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(an_rbuf_does_not_wait_for_itself, open_two_qps, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(many_rbufs_may_be_withdrawn_at_once, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_is_silent_leaves_buffers_to_others, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(each_rbuf_that_was_withdrawn_is_refused, verbs_nodes_setup,
                                        verbs_nodes_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
