/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi */
/* Making a link of the ofi transport over a provider that loses what was written to a connection which it then
 * replaces: whatever is lost at first, the link is made and then carries messages; what is lost later is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#if __has_include(<rdma/fabric.h>)
#include <string.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/fakes/ofi/ofi_fake.h"
#include "tests/support/patience.h"
#include "transport/ofi/ofi.h"

#define LIMIT_NS test_patient(60000000000)

struct end {
    struct ofi_fake *fake;
    struct weft_link *link;
    uint32_t passed, lose; /* frames that were looked at, and how many to lose first */
    int messages, failures;
};

static void note(void *arg, const struct weft_event *event)
{
    struct end *end = arg;
    end->messages += event->kind == WEFT_EVENT_MESSAGE;
    end->failures += event->kind == WEFT_EVENT_LINK_FAILED;
}

static void connect_to(struct end *from, const struct end *to)
{
    const struct weft_transport *peer = to->fake->transport;
    assert_int_equal(
        ofi_connect(from->fake->transport, &peer->address, peer->address_size, from, &from->link), 0);
}

static void open_both(struct end ends[2], int wary)
{
    memset(ends, 0, 2 * sizeof *ends);
    for (uint32_t i = 0; i < 2; i++) {
        ends[i].fake = ofi_fake_open(i + 1, 0);
        ends[i].fake->transport->ordered = 1;
        if (wary >> i & 1)
            ends[i].fake->transport->address.features = OFI_FEATURE_WARY;
    }
}

static void close_both(struct end ends[2])
{
    ofi_fake_close(ends[0].fake);
    ofi_fake_close(ends[1].fake);
}

/* What one has sent reaches the other, but for what is to be lost. */
static void pass_on(struct end *from, struct end *to)
{
    ofi_fake_turn(from->fake, note, from);
    for (; from->passed < from->fake->sent_count; from->passed++) {
        const struct ofi_fake_frame *frame = &from->fake->sent[from->passed % FAKE_SENT];
        if (from->lose)
            from->lose--;
        else
            assert_true(ofi_fake_deliver(to->fake, frame->bytes, frame->size));
    }
    ofi_fake_turn(to->fake, note, to);
}

static int is_up(const struct end *end)
{
    return end->link && end->link->state == OFI_LINK_UP;
}

static void await_up(struct end ends[2])
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    while (!(is_up(&ends[0]) && is_up(&ends[1])) && weft_clock_ns() < deadline_ns) {
        for (int i = 0; i < 2; i++) {
            if (!is_up(&ends[i]) && ends[i].link)
                assert_int_equal(ofi_send(ends[i].link, "early", 6, NULL, 0), WEFT_AGAIN);
            pass_on(&ends[i], &ends[!i]);
        }
    }
    assert_true(is_up(&ends[0]) && is_up(&ends[1]));
}

static void talk(struct end ends[2])
{
    for (int i = 0; i < 2; i++) {
        ends[i].messages = 0;
        assert_int_equal(ofi_send(ends[i].link, "hello", 6, NULL, 0), 0);
    }
    for (int i = 0; i < 4; i++)
        pass_on(&ends[i % 2], &ends[1 - i % 2]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ends[i].messages, 1);
        assert_int_equal(ends[i].failures, 0);
        assert_int_equal(ends[i].fake->transport->strangers, 0);
    }
}

static void make_link(struct end ends[2])
{
    open_both(ends, 3);
    connect_to(&ends[0], &ends[1]);
    connect_to(&ends[1], &ends[0]);
    await_up(ends);
    talk(ends);
}

static void whatever_is_lost_at_first_the_link_is_made(void **state)
{
    (void)state;
    for (uint32_t lose = 0; lose < 16; lose++) {
        struct end ends[2];
        open_both(ends, 3);
        ends[0].lose = lose % 4;
        ends[1].lose = lose / 4;
        connect_to(&ends[0], &ends[1]);
        connect_to(&ends[1], &ends[0]);
        await_up(ends);
        talk(ends);
        assert_int_equal(ends[0].fake->transport->links_count, 1);
        assert_int_equal(ends[1].fake->transport->links_count, 1);
        close_both(ends);
    }
}

/* The HELLO was for a link that its receiver has given up before it could answer. */
static void a_link_that_is_made_anew_takes_over(void **state)
{
    (void)state;
    struct end ends[2];
    open_both(ends, 3);
    connect_to(&ends[0], &ends[1]);
    ends[1].lose = 1; /* the answer */
    pass_on(&ends[0], &ends[1]);
    pass_on(&ends[1], &ends[0]);
    assert_int_equal(ends[1].fake->transport->links_count, 1);
    ofi_link_fail(ends[1].fake->transport->links[0], WEFT_PEER_FAILED, "a test");
    connect_to(&ends[1], &ends[0]);
    await_up(ends);
    talk(ends);
    assert_int_equal(ends[0].fake->transport->links_count, 1);
    close_both(ends);
}

/* Neither end asks more of the other than its address promises. */
static void both_ends_have_to_know_of_it(void **state)
{
    (void)state;
    for (int wary = 0; wary < 3; wary++) {
        struct end ends[2];
        open_both(ends, wary);
        connect_to(&ends[0], &ends[1]);
        connect_to(&ends[1], &ends[0]);
        pass_on(&ends[0], &ends[1]);
        assert_int_equal(ends[1].link->state, OFI_LINK_UP);
        pass_on(&ends[1], &ends[0]);
        assert_int_equal(ends[0].link->state, OFI_LINK_UP);
        assert_int_equal(ends[0].fake->sent_count, 1);
        talk(ends);
        close_both(ends);
    }
}

/* The last message of several, of which nothing that follows would speak. The one who sent it asks, or is asked. */
static void a_lost_message_is_noticed(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct end ends[2];
        make_link(ends);
        assert_int_equal(ofi_send(ends[0].link, "lost", 5, NULL, 0), 0);
        ends[0].lose = 1;
        pass_on(&ends[0], &ends[1]);
        assert_int_equal(ends[1].failures, 0);
        ofi_link_want(ends[asked].link, OFI_PENDING_FLUSH);
        pass_on(&ends[asked], &ends[!asked]);
        pass_on(&ends[!asked], &ends[asked]);
        assert_int_equal(ends[1].failures, 1);
        assert_int_equal(ends[1].messages, 1);
        uint32_t flags;
        assert_int_equal(weft_ofi_ops.link_flags(ends[1].link, &flags), WEFT_PEER_FAILED);
        assert_non_null(strstr(weft_error_detail(), "1 arrived of 2"));
        close_both(ends);
    }
}

/* Looks in vain, after a long silence, that have taken so long. Returns whether the peer has been asked whether it lives. */
static int asks_after(struct end *end, int64_t looks_ns)
{
    struct weft_transport *transport = end->fake->transport;
    int64_t now_ns = weft_clock_ns();
    transport->idle_polls = 0;
    transport->looked_ns = now_ns - looks_ns;
    transport->silent_since_ns = now_ns - 2 * OFI_PROBE_NS;
    for (int i = 0; i < OFI_LOOKS; i++)
        assert_int_equal(ofi_poll(transport, OFI_BATCH, note, end), 0);
    return end->link->probed_ns != 0;
}

/* A rank in no call looks now and then: the program computes, and what the network does meanwhile is no matter. */
static void only_who_waits_asks_whether_peers_live(void **state)
{
    (void)state;
    struct end ends[2];
    make_link(ends);
    assert_int_equal(asks_after(&ends[0], INT64_C(250000000) * OFI_LOOKS), 0);
    assert_int_equal(asks_after(&ends[0], INT64_C(100000000) * OFI_LOOKS), 1);
    close_both(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_lost_at_first_the_link_is_made),
        cmocka_unit_test(a_link_that_is_made_anew_takes_over),
        cmocka_unit_test(both_ends_have_to_know_of_it),
        cmocka_unit_test(a_lost_message_is_noticed),
        cmocka_unit_test(only_who_waits_asks_whether_peers_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("SKIP: built without libfabric\n");
    return 77;
}
#endif
