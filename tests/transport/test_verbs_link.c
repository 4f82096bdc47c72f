/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* Links of the verbs transport on a device in memory: what becomes of them when queue pairs break, peers go and out-of-band messages
 * come at the wrong time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/fakes/verbs/verbs_nodes.h"
#include "transport/verbs/verbs_private.h"

static struct verbs_node *const nodes = verbs_nodes;

static void ignore(void *arg, const struct weft_event *event)
{
    (void)arg, (void)event;
}

/* Both ends learn of it, others do not; a new link works, and what was sent over the old one stays away. */
static void a_broken_queue_pair_ends_its_link_only(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0),
                     *other = verbs_nodes_join(0, 2);
    verbs_nodes_say(link, "before", 1);
    rdma_fake_break(link->qps[0]->ibv->qp_num, IBV_WC_LOC_PROT_ERR);
    verbs_nodes_turns(3);
    assert_int_equal(nodes[0].failed, 1);
    assert_int_equal(nodes[1].failed, 1);
    assert_int_equal(nodes[2].failed, 0);
    assert_int_equal(nodes[0].status, WEFT_TRANSPORT);
    assert_non_null(verbs_nodes_ops.why(link));
    assert_non_null(strstr(verbs_nodes_ops.why(link), "fake0"));
    assert_true(verbs_nodes_ops.send(link, "x", 1, NULL, 0) < 0);
    assert_true(verbs_nodes_ops.send(back, "x", 1, NULL, 0) < 0);
    verbs_nodes_say(other, "third", 2);
    struct weft_link *again = verbs_nodes_join(0, 1);
    assert_ptr_not_equal(again, link);
    assert_null(verbs_nodes_ops.why(again));
    verbs_nodes_say(again, "after", 1);
    assert_int_equal(nodes[0].failed + nodes[1].failed, 2);
}

/* Out-of-band messages received twice, and those of a link that is no more, change nothing. */
static void late_oob_does_no_harm(void **state)
{
    struct verbs_nodes_message kept[64];
    (void)state;
    verbs_nodes_hold = 1;
    struct weft_link *link = verbs_nodes_begin(0, 1);
    int count = 0;
    for (int round = 0; round < 6; round++) {
        int now = verbs_nodes_oob_count;
        for (int i = count; i < now; i++) {
            kept[i] = verbs_nodes_oob[i];
            verbs_nodes_hand_over(&kept[i]);
        }
        count = now;
        verbs_nodes_turns(1);
    }
    assert_true(count >= 3);
    verbs_nodes_say(link, "up", 1);
    for (int i = 0; i < count; i++)
        verbs_nodes_hand_over(&kept[i]);
    verbs_nodes_oob_count = verbs_nodes_hold = 0;
    verbs_nodes_turns(3);
    verbs_nodes_say(link, "still", 1);
    rdma_fake_break(link->qps[0]->ibv->qp_num, IBV_WC_LOC_PROT_ERR);
    verbs_nodes_turns(3);
    struct weft_link *again = verbs_nodes_join(0, 1);
    for (int i = 0; i < count; i++)
        verbs_nodes_hand_over(&kept[i]);
    verbs_nodes_turns(3);
    verbs_nodes_say(again, "again", 1);
    assert_int_equal(nodes[1].failed, 0); /* it never held the link */
}

static void both_may_begin_at_once(void **state)
{
    (void)state;
    verbs_nodes_hold = 1;
    struct weft_link *there = verbs_nodes_begin(0, 1), *back = verbs_nodes_begin(1, 0);
    verbs_nodes_hold = 0;
    verbs_nodes_turns(6);
    verbs_nodes_say(there, "there", 1);
    verbs_nodes_say(back, "back", 0);
    assert_int_equal(nodes[0].transport->links_count, 1);
    assert_int_equal(nodes[1].transport->links_count, 1);
    assert_int_equal(nodes[0].failed + nodes[1].failed, 0);
}

static void an_instance_may_talk_to_itself(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 0);
    verbs_nodes_say(link, "myself", 0);
}

/* Many more messages than the numbers up to the wrap, a window at a time. */
static void numbers_wrap(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1);
    for (int i = 0; i < 200; i++)
        verbs_nodes_say(link, i % 2 ? "odd" : "even", 1);
    assert_true(link->sent < VERBS_FIRST_SEQUENCE);
}

static void a_peer_that_is_gone_is_an_error(void **state)
{
    (void)state;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t size = nodes[1].size;
    memcpy(address, nodes[1].address, size);
    nodes[1].size = 0; /* nobody has it any more */
    struct weft_link *link = NULL;
    assert_int_equal(verbs_nodes_ops.connect(nodes[0].transport, address, size, &nodes[0], &link), 0);
    verbs_nodes_turns(1);
    assert_int_equal(nodes[0].failed, 1);
    assert_int_equal(nodes[0].status, WEFT_PEER_FAILED);
}

static struct verbs_library library; /* with something in place of the fake's */
static int asked;

static int no_event(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context, (void)event;
    assert_true(++asked < 1000);
    errno = EIO;
    return -1;
}

/* As after a reset: the kernel answers every read with EIO. */
static void a_device_that_is_gone_ends_the_instance(void **state)
{
    (void)state;
    verbs_nodes_join(0, 1);
    verbs_nodes_join(0, 2);
    struct verbs_rail *rail = &nodes[0].transport->rails[0];
    library = *rail->verbs;
    library.get_async_event = no_event;
    rail->verbs = &library;
    asked = 0;
    verbs_nodes_ops.disarm(nodes[0].transport);
    int before = asked;
    verbs_nodes_ops.disarm(nodes[0].transport);
    assert_in_range(asked - before, 1, 2);
    assert_int_equal(verbs_nodes_ops.poll(nodes[0].transport, 16, ignore, NULL), 2); /* both links */
    assert_true(verbs_nodes_ops.poll(nodes[0].transport, 16, ignore, NULL) < 0);
    assert_non_null(strstr(weft_error_detail(), "reset, unplugged"));
}

/* A put that the sender has seen the end of has arrived, over whichever rail, also if the sender closes next and
 * the receiver looks only then. */
static void a_good_bye_overtakes_no_put(void **state)
{
    static uint8_t memory[2][2][4096];
    struct weft_region *source, *target;
    struct weft_token tokens[2];
    (void)state;
    verbs_nodes_close();
    verbs_nodes_open("2", NULL);
    struct weft_link *there = verbs_nodes_join(0, 1), *back = verbs_nodes_join(1, 0);
    const struct weft_transport_ops *ops = &verbs_nodes_ops;
    memset(memory[0], 0x5a, sizeof memory[0]);
    assert_int_equal(ops->reg(nodes[0].transport, memory[0], sizeof memory[0], &source), 0);
    assert_int_equal(ops->reg(nodes[1].transport, memory[1], sizeof memory[1], &target), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ops->advertise(back, target, memory[1][i], 4096, 7, &tokens[i]), 0);
    verbs_nodes_turns(3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ops->put(there, &tokens[i], source, memory[0][i], 4096, 1), 0);
    verbs_nodes_poll(0, 10);
    assert_int_equal(nodes[0].put, 2);
    ops->dereg(source);
    ops->close(nodes[0].transport);
    nodes[0].transport = NULL;
    verbs_nodes_poll(1, 10);
    assert_int_equal(nodes[1].filled, 2);
    assert_memory_equal(memory[1], memory[0], sizeof memory[0]);
    assert_int_equal(nodes[1].failed, 1);
    assert_int_equal(nodes[1].status, WEFT_PEER_FAILED);
    ops->dereg(target);
}

/* Nor does the out-of-band message that a link has failed overtake a message. */
static void the_end_of_a_link_overtakes_no_message(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1);
    verbs_nodes_join(1, 0);
    assert_int_equal(verbs_nodes_ops.send(link, "last", 4, NULL, 0), WEFT_OK);
    rdma_fake_break(link->qps[0]->ibv->qp_num, IBV_WC_LOC_PROT_ERR);
    verbs_nodes_poll(0, 3);
    assert_int_equal(nodes[0].failed, 1);
    assert_non_null(verbs_nodes_ops.why(link));
    assert_int_equal(verbs_nodes_oob_count, 1);
    verbs_nodes_turns(3);
    assert_int_equal(nodes[1].received, 1);
    assert_int_equal(nodes[1].failed, 1);
}

/* Another member publishes an address with this one's instance number; it does not get its messages. */
static void an_instance_number_is_no_address(void **state)
{
    (void)state;
    struct verbs_address own;
    struct weft_transport *impostor = nodes[2].transport;
    memcpy(nodes[2].address + 8, nodes[1].address + 8, 8);
    assert_int_equal(verbs_address_decode(nodes[2].address, nodes[2].size, &own), 0);
    assert_int_equal(own.instance, nodes[1].transport->own.instance);
    impostor->own = own;
    memcpy(impostor->address, nodes[2].address, nodes[2].size);
    struct weft_link *wrong = verbs_nodes_join(2, 0), *right = verbs_nodes_join(0, 1);
    verbs_nodes_say(right, "secret", 1);
    assert_int_equal(nodes[2].received, 0);
    verbs_nodes_say(wrong, "other", 0);
}

static int refuses(struct ibv_qp *pair, struct ibv_qp_attr *attributes, int mask)
{
    (void)pair, (void)attributes, (void)mask;
    return EBUSY;
}

static int lives_on(struct ibv_qp *pair)
{
    (void)pair;
    return EBUSY;
}

/* Whoever is given memory back hears that the device may still write there. */
static void a_queue_pair_that_cannot_be_destroyed_ends_the_instance(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1);
    struct verbs_rail *rail = &nodes[0].transport->rails[0];
    const struct verbs_library *real = rail->verbs;
    library = *real;
    library.modify_qp = refuses;
    library.destroy_qp = lives_on;
    rail->verbs = &library;
    verbs_link_fail(link, WEFT_TRANSPORT, "for the test");
    verbs_link_cut(link);
    assert_int_equal(verbs_nodes_ops.poll(nodes[0].transport, 16, ignore, NULL), 1);
    assert_true(verbs_nodes_ops.poll(nodes[0].transport, 16, ignore, NULL) < 0);
    assert_non_null(strstr(weft_error_detail(), "fake0 port 1 cannot be destroyed: Device or resource busy"));
    rail->verbs = real; /* it is tried again while closing: nothing is left behind */
}

static int (*real_destroy)(struct ibv_qp *);
static int refusals; /* still to come */

static int lives_for_a_while(struct ibv_qp *pair)
{
    return refusals-- > 0 ? EBUSY : real_destroy(pair);
}

/* The same while the instance closes: the links that are gone already are left alone. */
static void a_queue_pair_that_lives_on_while_closing_does_no_harm(void **state)
{
    (void)state;
    verbs_nodes_join(0, 1);
    verbs_nodes_join(0, 2);
    struct verbs_rail *rail = &nodes[0].transport->rails[0];
    library = *rail->verbs;
    real_destroy = library.destroy_qp;
    library.modify_qp = refuses;
    library.destroy_qp = lives_for_a_while;
    rail->verbs = &library;
    refusals = 2;
    verbs_nodes_ops.close(nodes[0].transport);
    nodes[0].transport = NULL;
    assert_true(refusals < 0); /* each was asked, and then again */
}

/* A request that nobody asked a completion for ends with its link all the same, not only when the time for that is over. */
static void what_was_sent_silently_is_flushed_with_its_link(void **state)
{
    (void)state;
    struct weft_link *link = verbs_nodes_join(0, 1);
    const struct verbs_qp *qp = link->qps[link->first];
    while (qp->posted == qp->retired || qp->signalled == qp->posted) {
        assert_int_equal(verbs_nodes_ops.send(link, "x", 1, NULL, 0), WEFT_OK);
        verbs_nodes_turns(1);
    }
    verbs_link_fail(link, WEFT_TRANSPORT, "for the test");
    link->dying_ns += INT64_C(1000000000000); /* the queue pair stays while it is looked at */
    verbs_nodes_poll(0, 2);
    assert_int_equal(qp->posted, qp->retired);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_broken_queue_pair_ends_its_link_only, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(late_oob_does_no_harm, verbs_nodes_setup, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(both_may_begin_at_once, verbs_nodes_setup, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(an_instance_may_talk_to_itself, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(numbers_wrap, verbs_nodes_setup, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_device_that_is_gone_ends_the_instance, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_good_bye_overtakes_no_put, verbs_nodes_setup, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_link_overtakes_no_message, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_queue_pair_that_cannot_be_destroyed_ends_the_instance,
                                        verbs_nodes_setup, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_queue_pair_that_lives_on_while_closing_does_no_harm,
                                        verbs_nodes_setup, verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(what_was_sent_silently_is_flushed_with_its_link, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(an_instance_number_is_no_address, verbs_nodes_setup,
                                        verbs_nodes_teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_is_gone_is_an_error, verbs_nodes_setup,
                                        verbs_nodes_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
