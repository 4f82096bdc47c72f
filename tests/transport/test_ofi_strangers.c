/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi */
/* Who is heard by the ofi transport: only senders that have proven to know its address; nothing is kept for the
 * others, and what was recorded cannot be used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#if __has_include(<rdma/fabric.h>)
#include <string.h>
#include <sys/resource.h>
#include <weft/weft.h>

#include "tests/support/lock_right.h"
#include "tests/fakes/ofi/ofi_fake.h"

struct pair {
    struct ofi_fake *a, *b;
    struct weft_link *ab;        /* a's link to b */
    struct ofi_fake_frame hello; /* a's to b */
};

static uint32_t messages, failures;

static void note(void *arg, const struct weft_event *event)
{
    (void)arg;
    messages += event->kind == WEFT_EVENT_MESSAGE;
    failures += event->kind == WEFT_EVENT_LINK_FAILED;
}

/* Hands over everything that one has sent since `from`. */
static void pass_on(struct ofi_fake *sender, uint32_t from, struct ofi_fake *receiver)
{
    for (uint32_t i = from; i < sender->sent_count; i++)
        assert_true(
            ofi_fake_deliver(receiver, sender->sent[i % FAKE_SENT].bytes, sender->sent[i % FAKE_SENT].size));
}

static struct weft_link *link_to(struct ofi_fake *from, const struct ofi_fake *to)
{
    struct weft_link *link;
    assert_int_equal(
        ofi_connect(from->transport, &to->transport->address, to->transport->address_size, from, &link), 0);
    return link;
}

static void pair_open(struct pair *pair)
{
    messages = failures = 0;
    pair->a = ofi_fake_open(1, 0);
    pair->b = ofi_fake_open(2, 0);
    pair->ab = link_to(pair->a, pair->b);
    assert_int_equal(pair->a->sent_count, 1);
    pair->hello = pair->a->sent[0];
    pass_on(pair->a, 0, pair->b);
    ofi_fake_turn(pair->b, note, NULL);
    assert_int_equal(pair->b->sent_count, 1); /* it has answered */
    pass_on(pair->b, 0, pair->a);
    ofi_fake_turn(pair->a, note, NULL);
    assert_int_equal(pair->ab->state, OFI_LINK_UP);
    assert_int_equal(pair->b->transport->links_count, 1);
    assert_int_equal(pair->b->transport->links[0]->state, OFI_LINK_UP);
}

static void pair_close(struct pair *pair)
{
    ofi_fake_close(pair->a);
    ofi_fake_close(pair->b);
}

static void one_hello_each_makes_a_link(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    uint32_t from = pair.a->sent_count;
    assert_int_equal(ofi_send(pair.ab, "hello", 6, NULL, 0), 0);
    pass_on(pair.a, from, pair.b);
    ofi_fake_turn(pair.b, note, NULL);
    assert_int_equal(messages, 1);
    assert_int_equal(pair.b->transport->strangers, 0);
    /* The key of an instance is not what its HELLO shows. */
    struct weft_key key = pair.a->transport->address.key;
    for (size_t i = 0; i + sizeof key <= pair.hello.size; i++)
        assert_memory_not_equal(pair.hello.bytes + i, &key, sizeof key);
    pair_close(&pair);
}

static void a_hello_counts_once(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    struct weft_link *link = pair.b->transport->links[0];
    for (int i = 0; i < 3; i++)
        assert_true(ofi_fake_deliver(pair.b, pair.hello.bytes, pair.hello.size));
    assert_int_equal(link->state, OFI_LINK_UP);
    assert_int_equal(pair.b->transport->links_count, 1);
    /* Nor does it when the link is over. */
    ofi_link_fail(link, WEFT_PEER_FAILED, "a test");
    assert_true(ofi_fake_deliver(pair.b, pair.hello.bytes, pair.hello.size));
    assert_int_equal(pair.b->transport->links_count, 1);
    /* A new one of the same peer does, and an old one thrown in between does not end its link. */
    ofi_link_fail(pair.ab, WEFT_PEER_FAILED, "a test");
    uint32_t from = pair.a->sent_count;
    link_to(pair.a, pair.b);
    pass_on(pair.a, from, pair.b);
    assert_int_equal(pair.b->transport->links_count, 2);
    assert_int_equal(pair.b->transport->links[1]->state, OFI_LINK_UP);
    assert_true(ofi_fake_deliver(pair.b, pair.hello.bytes, pair.hello.size));
    assert_int_equal(pair.b->transport->links[1]->state, OFI_LINK_UP);
    /* Sent back to its maker, or to another instance, it means nothing. */
    struct ofi_fake *c = ofi_fake_open(3, 0);
    assert_true(ofi_fake_deliver(c, pair.hello.bytes, pair.hello.size));
    assert_true(ofi_fake_deliver(pair.a, pair.hello.bytes, pair.hello.size));
    assert_int_equal(c->transport->links_count, 0);
    assert_int_equal(c->transport->strangers, 1);
    assert_int_equal(pair.a->transport->strangers, 1);
    ofi_fake_close(c);
    pair_close(&pair);
}

static void every_bit_of_a_hello_counts(void **state)
{
    struct ofi_fake *a = ofi_fake_open(1, 0), *b = ofi_fake_open(2, 0);
    (void)state;
    link_to(a, b);
    struct ofi_fake_frame hello = a->sent[0];
    uint64_t strangers = 0;
    for (size_t bit = 0; bit < hello.size * 8; bit++) {
        if (bit < 16)
            continue; /* mark and type: then it is no HELLO at all */
        hello.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(ofi_fake_deliver(b, hello.bytes, hello.size));
        hello.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(b->transport->strangers, ++strangers);
    }
    for (size_t size = 0; size < hello.size; size++)
        assert_true(ofi_fake_deliver(b, hello.bytes, size));
    assert_int_equal(b->transport->links_count, 0);
    assert_int_equal(b->sent_count, 0);
    ofi_fake_close(a);
    ofi_fake_close(b);
}

/* One who knows everything about an instance but its key. */
static void without_the_key_nobody_is_heard(void **state)
{
    struct ofi_fake *a = ofi_fake_open(1, 0), *b = ofi_fake_open(2, 0);
    struct ofi_address guess = b->transport->address;
    struct weft_link *link;
    (void)state;
    guess.key.bytes[31] ^= 1;
    assert_int_equal(ofi_connect(a->transport, &guess, b->transport->address_size, NULL, &link), 0);
    pass_on(a, 0, b);
    ofi_fake_turn(b, NULL, NULL);
    assert_int_equal(b->transport->links_count, 0);
    assert_int_equal(b->transport->strangers, 1);
    assert_int_equal(b->sent_count, 0);
    ofi_fake_close(a);
    ofi_fake_close(b);
}

static void frames_need_the_pass(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    struct weft_transport *b = pair.b->transport;
    struct weft_link *link = b->links[0];
    static const uint8_t types[] = {OFI_DATA,      OFI_CREDIT, OFI_FLUSH, OFI_CANCEL,
                                    OFI_CANCELLED, OFI_BYE,    OFI_SOCKET};
    uint32_t posted = pair.b->posted_count;
    for (int i = 0; i < 10000; i++) {
        struct {
            struct ofi_frame frame;
            uint32_t body[4];
        } forged = {.frame = {.mark = OFI_FRAME_MARK,
                              .type = types[i % 7],
                              .link = link->id,
                              .sequence = link->expected,
                              .consumed = link->sent,
                              .pass = link->pass ^ 1ull << i % 64}};
        assert_true(ofi_fake_deliver(pair.b, &forged, sizeof forged));
    }
    ofi_fake_turn(pair.b, note, NULL);
    assert_int_equal(b->strangers, 10000);
    assert_int_equal(messages + failures, 0);
    assert_int_equal(link->state, OFI_LINK_UP);
    assert_int_equal(link->peer_port, 0);
    assert_int_equal(link->gone, 0);
    assert_int_equal(link->answers_count + link->refused_count, 0);
    /* Nothing was kept: every buffer is posted again, no link was made, nothing was answered. */
    assert_int_equal(pair.b->posted_count, posted);
    assert_int_equal(b->links_count, 1);
    assert_int_equal(pair.b->sent_count, 1);
    pair_close(&pair);
}

/* Completion data of a put that nobody allowed. */
static void puts_need_the_rbufs_number(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    static uint8_t memory[64];
    struct weft_token bytes;
    struct ofi_token token;
    assert_int_equal(ofi_advertise(pair.ab, NULL, memory, sizeof memory, 7, &bytes), 0);
    memcpy(&token, &bytes, sizeof token);
    struct weft_transport *a = pair.a->transport;
    ofi_rbuf_arrived(a, token.immediate);
    ofi_rbuf_arrived(a, (uint64_t)(token.nonce ^ 1) << 32 | token.immediate);
    ofi_rbuf_arrived(a, UINT64_MAX);
    assert_int_equal(a->stale_puts, token.nonce ? 3 : 2);
    assert_int_equal(a->rbufs[0]->state, OFI_RBUF_OPEN);
    ofi_rbuf_arrived(a, (uint64_t)token.nonce << 32 | token.immediate);
    assert_int_equal(a->rbufs[0]->state, OFI_RBUF_FILLED);
    pair_close(&pair);
}

/* A put into a receive buffer that is no more is not waited for when the instance closes. */
static void a_flush_settles_lost_puts(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    static uint8_t source[64];
    struct ofi_token token = {.magic = OFI_MAGIC,
                              .immediate = 77,
                              .size = sizeof source,
                              .instance = pair.b->transport->address.instance};
    struct weft_token bytes;
    memcpy(&bytes, &token, sizeof bytes);
    assert_int_equal(ofi_put(pair.ab, &bytes, NULL, source, sizeof source, 1), 0);
    ofi_fake_turn(pair.a, note, NULL);
    assert_int_equal(pair.ab->puts, 1);
    assert_int_equal(pair.ab->puts_acked, 0);
    uint32_t from = pair.a->sent_count, back = pair.b->sent_count;
    ofi_link_want(pair.ab, OFI_PENDING_FLUSH);
    ofi_fake_turn(pair.a, note, NULL);
    pass_on(pair.a, from, pair.b);
    ofi_fake_turn(pair.b, note, NULL);
    pass_on(pair.b, back, pair.a);
    assert_int_equal(pair.ab->puts_acked, 1);
    pair_close(&pair);
}

/* Registering that fails for a limit says which; on a broken instance it fails and does no more. */
static void registering_fails_with_a_reason(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    static uint8_t memory[64];
    struct weft_token token;
    struct rlimit limit = {0, 1 << 20};
    struct weft_transport *a = pair.a->transport;
    assert_true(test_lock_right(0) >= 0);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    pair.a->registration_error = FI_ENOMEM;
    assert_int_equal(ofi_advertise(pair.ab, NULL, memory, sizeof memory, 7, &token), WEFT_TRANSPORT);
    assert_non_null(strstr(weft_error_detail(), "the limit is 0 KiB of locked memory"));
    assert_non_null(strstr(weft_error_detail(), "ulimit -l"));
    pair.a->registration_error = FI_EMFILE;
    assert_int_equal(ofi_advertise(pair.ab, NULL, memory, sizeof memory, 7, &token), WEFT_TRANSPORT);
    assert_non_null(strstr(weft_error_detail(), "ulimit -n"));
    pair.a->registration_error = FI_EINVAL;
    assert_int_equal(ofi_advertise(pair.ab, NULL, memory, sizeof memory, 7, &token), WEFT_TRANSPORT);
    assert_null(strstr(weft_error_detail(), "ulimit"));
    pair.a->registration_error = 0;
    a->own_keys = 0; /* a provider that chooses keys, and binds registrations to the endpoint */
    a->info->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_PROV_KEY;
    ofi_break(a, "a test");
    struct weft_region *region;
    assert_int_equal(ofi_reg(a, memory, sizeof memory, &region), WEFT_TRANSPORT);
    assert_string_equal(weft_error_detail(), "a test");
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hello_each_makes_a_link), cmocka_unit_test(a_hello_counts_once),
        cmocka_unit_test(every_bit_of_a_hello_counts), cmocka_unit_test(without_the_key_nobody_is_heard),
        cmocka_unit_test(frames_need_the_pass),        cmocka_unit_test(puts_need_the_rbufs_number),
        cmocka_unit_test(a_flush_settles_lost_puts),   cmocka_unit_test(registering_fails_with_a_reason),
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
