/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* Links that nobody uses any more, on a device in memory: what they give back, what they keep for a peer that still uses
 * them, and connect() while they go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/fakes/verbs/verbs_nodes.h"
#include "transport/verbs/region.h"
#include "transport/verbs/verbs_private.h"

static struct weft_verbs_settings settings(int windows, int failover)
{
    struct weft_verbs_settings made = WEFT_VERBS_SETTINGS_INIT;
    made.windows = windows;
    made.failover = failover;
    return made;
}

static int open_windowless(void **state)
{
    (void)state;
    struct weft_verbs_settings without = settings(0, 0);
    verbs_nodes_open("2", &without);
    return 0;
}

static int is_up(struct weft_link *link)
{
    uint32_t flags;
    int status = verbs_nodes_ops.link_flags(link, &flags);
    assert_true(status == WEFT_OK || status == WEFT_AGAIN);
    return status == WEFT_OK;
}

/* Until the queue pairs of links that have been given up are gone. */
static void settle(void)
{
    do {
        verbs_nodes_turns(1);
    } while (verbs_nodes[0].transport->dying || verbs_nodes[1].transport->dying ||
             verbs_nodes[0].transport->links_unused || verbs_nodes[1].transport->links_unused);
}

/* What an instance has reserved and made. */
struct holding {
    uint32_t links, qps, alive, receives, completions, sends;
};

static struct holding holding_of(int node)
{
    const struct weft_transport *transport = verbs_nodes[node].transport;
    return (struct holding){transport->links_count,           transport->qp_capacity,
                            transport->links_alive,           transport->queues[0].receives_wanted,
                            transport->queues[0].cq_reserved, transport->queues[0].sends_limit};
}

static void communicators_that_come_and_go_leave_nothing(void **state)
{
    (void)state;
    int objects = 0;
    struct holding before[2], after[2];
    for (int i = 0; i < 1000; i++) {
        struct weft_link *there = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
        verbs_nodes_say(there, "there", 1);
        verbs_nodes_say(back, "back", 0);
        verbs_nodes_ops.disconnect(i % 2 ? there : back);
        verbs_nodes_turns(i % 3);
        verbs_nodes_ops.disconnect(i % 2 ? back : there);
        verbs_nodes_turns(2);
        if (i && i < 999)
            continue;
        settle();
        for (int node = 0; node < 2; node++)
            after[node] = holding_of(node);
        if (i) {
            assert_int_equal(rdma_fake_count(), objects);
            assert_memory_equal(before, after, sizeof before);
        }
        objects = rdma_fake_count();
        memcpy(before, after, sizeof before);
    }
    assert_int_equal(after[0].links, 1);
    assert_int_equal(after[0].alive + after[1].alive, 0);
    assert_int_equal(after[0].sends, 0);
    assert_int_equal(verbs_nodes[0].failed + verbs_nodes[1].failed, 0);
}

/* Writes with a key as a peer that does not keep the rules would. */
static void write_raw(struct weft_link *link, struct weft_region *source, const void *bytes, void *target,
                      uint32_t key)
{
    struct ibv_sge part = {(uint64_t)(uintptr_t)bytes, 8, source->mr[0]->lkey};
    struct ibv_send_wr entry;
    memset(&entry, 0, sizeof entry);
    entry.opcode = IBV_WR_RDMA_WRITE;
    entry.sg_list = &part;
    entry.num_sge = 1;
    entry.wr.rdma.remote_addr = (uint64_t)(uintptr_t)target;
    entry.wr.rdma.rkey = key;
    verbs_qp_post(link->qps[0], &entry, 1, (struct verbs_post){VERBS_POST_NONE, NULL}, 0, 1);
}

/* Also when the peer's communicator lives on; one that is made after that gets its right again. */
static void keys_end_with_the_last_reference(void **state)
{
    (void)state;
    static char target[64], source[64] = "forbidden";
    struct weft_region *there, *here;
    struct weft_transport *zero = verbs_nodes[0].transport, *one = verbs_nodes[1].transport;
    struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
    assert_int_equal(verbs_nodes_ops.reg(zero, source, sizeof source, &here), 0);
    assert_int_equal(verbs_nodes_ops.reg(one, target, sizeof target, &there), 0);
    uint32_t key = there->mr[0]->rkey;
    memcpy(source, "allowed.", 8);
    write_raw(link, here, source, target, key);
    assert_memory_equal(target, "allowed.", 8);

    verbs_nodes_ops.disconnect(back);
    verbs_nodes_turns(4);
    back = verbs_nodes_begin(1, 0);
    assert_false(is_up(back));
    verbs_nodes_turns(4);
    assert_true(is_up(back));
    memcpy(source, "again...", 8);
    write_raw(link, here, source, target, key);
    assert_memory_equal(target, "again...", 8);

    verbs_nodes_ops.disconnect(back);
    memcpy(source, "never...", 8);
    write_raw(link, here, source, target, key);
    assert_memory_equal(target, "again...", 8);
    verbs_nodes_turns(4);
    assert_int_equal(verbs_nodes[0].failed, 1);
    assert_int_equal(verbs_nodes[1].failed, 0);
    verbs_nodes_ops.dereg(here);
    verbs_nodes_ops.dereg(there);
}

static void a_peer_that_uses_a_link_keeps_it(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
    uint32_t number = link->qps[0]->ibv->qp_num;
    verbs_nodes_ops.disconnect(back);
    for (int i = 0; i < 100; i++)
        verbs_nodes_say(link, i % 2 ? "odd" : "even", 1);
    back = verbs_nodes_begin(1, 0);
    assert_false(is_up(back));
    assert_int_equal(verbs_nodes_ops.send(back, "x", 1, NULL, 0), WEFT_AGAIN);
    verbs_nodes_turns(3);
    assert_true(is_up(back));
    assert_int_equal(link->qps[0]->ibv->qp_num, number);
    verbs_nodes_say(back, "back", 0);
    verbs_nodes_say(link, "there", 1);
    verbs_nodes_ops.disconnect(link);
    verbs_nodes_ops.disconnect(back);
    settle();
    assert_int_equal(verbs_nodes[0].transport->links_alive + verbs_nodes[1].transport->links_alive, 0);
    assert_int_equal(verbs_nodes[0].failed + verbs_nodes[1].failed, 0);
}

/* One end closes, or its queue pair breaks, while the other waits for an answer: nobody has to hear of it. */
static void what_fails_while_a_link_is_left_is_no_failure(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
    verbs_nodes_ops.disconnect(back);
    back = verbs_nodes_begin(1, 0);
    rdma_fake_break(back->qps[0]->ibv->qp_num, IBV_WC_LOC_PROT_ERR);
    verbs_nodes_turns(8);
    assert_true(is_up(back));
    verbs_nodes_say(back, "anew", 0);
    assert_int_equal(verbs_nodes[1].failed, 0);
    assert_int_equal(verbs_nodes[0].failed, 1); /* it was using it */
    verbs_nodes_ops.disconnect(link);
    verbs_nodes_ops.disconnect(back);
    verbs_nodes_poll(1, 1);
    verbs_nodes_ops.close(verbs_nodes[0].transport);
    verbs_nodes[0].transport = NULL;
    verbs_nodes_poll(1, 100);
    assert_int_equal(verbs_nodes[1].failed, 0);
}

static int open_failover(void **state)
{
    (void)state;
    struct weft_verbs_settings with = settings(0, 1);
    verbs_nodes_open("2", &with);
    return 0;
}

/* Out-of-band messages one by one: what follows from one of them has not been polled yet. */
static void until_up(struct weft_link *link)
{
    while (link->state != VERBS_LINK_UP) {
        struct verbs_nodes_message oob = verbs_nodes_oob[0];
        if (!verbs_nodes_oob_count) {
            for (int i = 0; i < VERBS_NODES; i++)
                verbs_nodes_poll(i, 1);
            continue;
        }
        memmove(verbs_nodes_oob, verbs_nodes_oob + 1, sizeof oob * --verbs_nodes_oob_count);
        verbs_nodes_hand_over(&oob);
    }
}

/* RELEASE of an earlier round counts no more, at either end: whoever connects before it was said again keeps the link and
 * may be written to; and who leaves meanwhile does not part from somebody who has not said it. */
static void a_round_takes_back_what_was_said(void **state)
{
    (void)state;
    static char target[64], source[64] = "written.";
    struct weft_region *there, *here;
    assert_int_equal(verbs_nodes_ops.reg(verbs_nodes[0].transport, source, sizeof source, &here), 0);
    assert_int_equal(verbs_nodes_ops.reg(verbs_nodes[1].transport, target, sizeof target, &there), 0);
    for (int is_used = 0; is_used < 2; is_used++) {
        struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
        verbs_nodes_ops.disconnect(back);
        verbs_nodes_turns(4);
        rdma_fake_port(1, 0, 0);
        while (back->state == VERBS_LINK_UP || link->state == VERBS_LINK_UP)
            verbs_nodes_turns(1);
        if (!is_used)
            verbs_nodes_ops.disconnect(link);
        until_up(back);
        if (is_used) {
            back = verbs_nodes_begin(1, 0);
            until_up(link);
            write_raw(link, here, source, target, there->mr[0]->rkey);
            assert_memory_equal(target, source, 8);
            verbs_nodes_turns(8);
            verbs_nodes_ops.disconnect(link);
            verbs_nodes_turns(8);
            assert_true(is_up(back));
            verbs_nodes_ops.disconnect(back);
        }
        verbs_nodes_turns(8);
        settle();
        assert_int_equal(back->state, VERBS_LINK_PARKED);
        assert_int_equal(link->state, VERBS_LINK_PARKED);
        rdma_fake_port(1, 1, 0);
        verbs_nodes_turns(2);
    }
    assert_int_equal(verbs_nodes[0].failed + verbs_nodes[1].failed, 0);
    verbs_nodes_ops.dereg(here);
    verbs_nodes_ops.dereg(there);
}

/* PART is read only when a rail has failed: nobody would answer to a round, and none is offered. */
static void no_round_follows_part(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
    verbs_nodes_ops.disconnect(link);
    verbs_nodes_turns(2);
    assert_int_equal(link->leave, VERBS_LEAVE_RELEASED);
    rdma_fake_delay(0, 1);
    verbs_nodes_ops.disconnect(back);
    verbs_nodes_turns(4);
    assert_int_equal(back->state, VERBS_LINK_PARKED);
    assert_int_equal(link->state, VERBS_LINK_UP);
    verbs_nodes_hold = 1;
    rdma_fake_plug(0, 0, 0, 0);
    while (link->state != VERBS_LINK_PARKED)
        verbs_nodes_poll(0, 1);
    assert_int_equal(verbs_nodes_oob_count, 0);
    rdma_fake_delay(0, 0);
}

/* A peer that has given up the link, and whose out-of-band message about it was lost, says so again when it is offered a round: it is
 * not asked until the time for a round is over. */
static void a_round_with_nobody_ends_soon(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
    rdma_fake_break(back->qps[0]->ibv->qp_num, IBV_WC_LOC_PROT_ERR);
    verbs_nodes_poll(1, 4);
    assert_int_equal(verbs_nodes[1].failed, 1);
    verbs_nodes_oob_count = 0;
    verbs_nodes_ops.send(link, "there", 5, NULL, 0);
    while (!verbs_nodes[0].failed)
        verbs_nodes_turns(1);
    assert_int_equal(verbs_nodes[0].status, WEFT_PEER_FAILED);
}

/* --- anything in any order */

static uint32_t dice;

static uint32_t throw_dice(uint32_t sides)
{
    dice = dice * 1664525 + 1013904223;
    return (dice >> 8) % sides;
}

struct walk {
    struct weft_link *links[2]; /* NULL: not held */
    int sent[2];                /* by that one */
};

static void walk_step(struct walk *walk, int has_flaps)
{
    int node = (int)throw_dice(2);
    struct weft_link **link = &walk->links[node];
    switch (throw_dice(has_flaps ? 12 : 10)) {
    case 0:
    case 1:
        if (!*link)
            *link = verbs_nodes_begin(node, !node);
        break;
    case 2:
    case 3:
        if (*link)
            verbs_nodes_ops.disconnect(*link);
        *link = NULL;
        break;
    case 4:
    case 5:
        if (*link && verbs_nodes_ops.send(*link, "message", 7, NULL, 0) == WEFT_OK)
            walk->sent[node]++;
        break;
    case 6:
    case 7:
    case 8:
        verbs_nodes_poll(node, 1 + (int)throw_dice(3));
        break;
    case 9:
        verbs_nodes_turns(1 + (int)throw_dice(2));
        break;
    default:
        rdma_fake_port((int)throw_dice(2), (int)throw_dice(2), 0);
    }
}

static void walk(uint32_t seed, const struct weft_verbs_settings *with, int steps)
{
    struct walk walk = {{NULL, NULL}, {0, 0}};
    dice = seed;
    verbs_nodes_open("2", with);
    for (int i = 0; i < steps; i++)
        walk_step(&walk, with->failover != 0);
    rdma_fake_port(0, 1, 0);
    rdma_fake_port(1, 1, 0);
    for (int node = 0; node < 2; node++) {
        if (!walk.links[node])
            walk.links[node] = verbs_nodes_begin(node, !node);
    }
    for (int i = 0; i < 3000000 && (!is_up(walk.links[0]) || !is_up(walk.links[1])); i++)
        verbs_nodes_turns(1);
    for (int i = 0; i < 2; i++) {
        while (verbs_nodes_ops.send(walk.links[i], "the end", 7, NULL, 0) == WEFT_AGAIN)
            verbs_nodes_turns(1);
        verbs_nodes_turns(100);
        assert_int_equal(verbs_nodes[i].failed, 0);
        assert_memory_equal(verbs_nodes[!i].last, "the end", 7);
        assert_int_equal(verbs_nodes[!i].received, walk.sent[i] + 1);
    }
    verbs_nodes_teardown(NULL);
}

static void anything_in_any_order(void **state)
{
    (void)state;
    struct weft_verbs_settings with = settings(1, 0), without = settings(0, 0);
    for (uint32_t seed = 1; seed <= 200; seed++)
        walk(seed, seed % 2 ? &with : &without, 300);
}

static void rails_that_flap_meanwhile(void **state)
{
    (void)state;
    struct weft_verbs_settings with = settings(1, 1), without = settings(0, 1);
    for (uint32_t seed = 1; seed <= 20; seed++)
        walk(seed, seed % 2 ? &with : &without, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(communicators_that_come_and_go_leave_nothing, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(keys_end_with_the_last_reference, open_windowless,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_uses_a_link_keeps_it, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(what_fails_while_a_link_is_left_is_no_failure, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_round_takes_back_what_was_said, open_failover,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(no_round_follows_part, open_failover, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_round_with_nobody_ends_soon, open_failover, verbs_nodes_teardown),
        cmocka_unit_test(anything_in_any_order),
        cmocka_unit_test(rails_that_flap_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
