/* SPDX-License-Identifier: Apache-2.0 */
/* Who is heard by the tcp transport: only connections whose other end has proven to know the address, and of these only what
 * keeps to the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/socket.h"
#include "tests/support/attack.h"
#include "tests/support/patience.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_private.h"

#define PATIENCE_MS test_patient(20000)

struct pair {
    struct weft_transport *a, *b;
    struct weft_link *ab, *ba; /* ba: NULL until b connects */
    unsigned messages, failures;
};

static void note(void *arg, const struct weft_event *event)
{
    struct pair *pair = arg;
    pair->messages += event->kind == WEFT_EVENT_MESSAGE;
    pair->failures += event->kind == WEFT_EVENT_LINK_FAILED;
}

static struct weft_transport *open_one(void)
{
    struct weft_transport *transport;
    const struct weft_transport_params params = {
        .size = sizeof params, .fail = weft_fail, .log = weft_log_line};
    assert_int_equal(weft_tcp_ops.open(&params, &transport), 0);
    return transport;
}

static struct weft_link *link_to(struct weft_transport *from, struct weft_transport *to, void *context)
{
    struct weft_link *link;
    assert_int_equal(tcp_connect(from, &to->address, sizeof to->address, context, &link), 0);
    return link;
}

static void turn(struct pair *pair)
{
    tcp_poll(pair->a, 64, note, pair);
    tcp_poll(pair->b, 64, note, pair);
}

static void until(struct pair *pair, const unsigned *value, unsigned wanted)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    while (*value < wanted && weft_clock_ns() < until_ns)
        turn(pair);
    assert_int_equal(*value, wanted);
}

static void until_state(struct pair *pair, const struct weft_link *link, int state)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    while (link->state != state && weft_clock_ns() < until_ns)
        turn(pair);
    assert_int_equal(link->state, state);
}

static void pair_open(struct pair *pair)
{
    *pair = (struct pair){.a = open_one(), .b = open_one()};
    pair->ab = link_to(pair->a, pair->b, pair);
}

static void pair_close(struct pair *pair)
{
    weft_tcp_ops.close(pair->a);
    weft_tcp_ops.close(pair->b);
}

/* One message each way, and nothing else. */
static void expect_alive(struct pair *pair)
{
    unsigned failures = pair->failures;
    pair->messages = 0;
    pair->ba = pair->ba ? pair->ba : link_to(pair->b, pair->a, pair);
    assert_int_equal(tcp_send(pair->ab, "hello", 5, NULL, 0), 0);
    assert_int_equal(tcp_send(pair->ba, "world", 5, "!", 1), 0);
    until(pair, &pair->messages, 2);
    for (int i = 0; i < 100; i++)
        turn(pair);
    assert_int_equal(pair->messages, 2);
    assert_int_equal(pair->failures, failures);
}

static void strangers_are_not_heard(void **state)
{
    enum { SILENT = 400, HALF = 100, WRONG = 30, SCANS = 200 };
    static int silent[SILENT], half[HALF], wrong[WRONG], replays[HALF];
    struct attack_record record;
    struct pair pair;
    (void)state;
    assert_true(attack_may_have(4096));
    pair = (struct pair){.a = open_one(), .b = open_one()};
    uint16_t port = pair.b->address.port;
    attack_make_record(&record);
    attack_scan(port, SCANS);
    attack_silent(port, silent, SILENT);
    attack_half(port, half, HALF);
    attack_replay(port, &record, replays, HALF);
    pair.ab = link_to(pair.a, pair.b, &pair); /* behind all of them */
    until_state(&pair, pair.ab, TCP_LINK_UP);
    expect_alive(&pair);
    assert_true(pair.b->strangers >= SCANS);
    assert_int_equal(pair.b->links_count, 1);
    /* More of them while it runs, and none of them ends it. */
    attack_scan(port, SCANS);
    for (int i = 0; i < WRONG; i++) {
        attack_silent(port, &wrong[i], 1);
        turn(&pair);
    }
    expect_alive(&pair);
    assert_int_equal(pair.b->links_count, 1);
    attack_end(silent, SILENT);
    attack_end(half, HALF);
    attack_end(replays, HALF);
    attack_end(wrong, WRONG);
    pair_close(&pair);
}

/* A connection to b that ends as this dial does. Returns its descriptor, -1: it was shown out. */
static int dial_b(struct pair *pair, const struct weft_key *key, const struct weft_auth_claims *claims)
{
    const struct weft_net_address address = {
        .family = 4, .port = pair->b->address.port, .ip = {127, 0, 0, 1}};
    struct weft_net_dial dial;
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    assert_int_equal(weft_net_dial_start(&dial, key, &address, claims), 0);
    while (dial.fd >= 0 && dial.state != WEFT_NET_DIAL_WELCOMED && weft_clock_ns() < until_ns) {
        struct pollfd wait = {.fd = dial.fd, .events = weft_net_dial_events(&dial)};
        turn(pair);
        if (poll(&wait, 1, 0) > 0)
            weft_net_dial_step(&dial);
    }
    assert_true(dial.fd < 0 || dial.state == WEFT_NET_DIAL_WELCOMED);
    return dial.fd;
}

static struct weft_auth_claims claims_of(const struct pair *pair, uint64_t instance, uint64_t number)
{
    return (struct weft_auth_claims){
        .purpose = TCP_PURPOSE, .nonce = number, .name_hash = pair->b->address.instance, .session = instance};
}

static void a_link_is_not_taken_over(void **state)
{
    struct pair pair;
    struct weft_key other;
    (void)state;
    pair_open(&pair);
    until_state(&pair, pair.ab, TCP_LINK_UP);
    expect_alive(&pair);
    uint64_t a = pair.a->address.instance;
    /* Who knows all of b's address but the key. */
    other = pair.b->address.key;
    other.bytes[31] ^= 1;
    struct weft_auth_claims claims = claims_of(&pair, a, 100);
    assert_int_equal(dial_b(&pair, &other, &claims), -1);
    /* A dial of a's that is not newer than what b knows of it; one for another instance; one for another purpose; one of nobody. */
    claims = claims_of(&pair, a, 1);
    assert_int_equal(dial_b(&pair, &pair.b->address.key, &claims), -1);
    claims = claims_of(&pair, a, 100);
    claims.name_hash++;
    assert_int_equal(dial_b(&pair, &pair.b->address.key, &claims), -1);
    claims = claims_of(&pair, a, 100);
    claims.purpose = WEFT_AUTH_EDGE;
    assert_int_equal(dial_b(&pair, &pair.b->address.key, &claims), -1);
    claims = claims_of(&pair, 0, 100);
    assert_int_equal(dial_b(&pair, &pair.b->address.key, &claims), -1);
    claims = claims_of(&pair, pair.b->address.instance, 100);
    assert_int_equal(dial_b(&pair, &pair.b->address.key, &claims), -1);
    assert_int_equal(pair.b->links_count, 1);
    expect_alive(&pair);
    pair_close(&pair);
}

/* A member of the job that says this once it is welcomed: its link fails with this text, and nobody else's. */
static void expect_broken(const void *bytes, size_t size, const char *text)
{
    struct pair pair;
    pair_open(&pair);
    until_state(&pair, pair.ab, TCP_LINK_UP);
    const struct weft_auth_claims claims = claims_of(&pair, 77, 1);
    int fd = dial_b(&pair, &pair.b->address.key, &claims);
    assert_true(fd >= 0);
    struct weft_link *link = tcp_link_find(pair.b, 77);
    assert_non_null(link);
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
    until_state(&pair, link, TCP_LINK_FAILED);
    assert_int_equal(link->status, WEFT_PROTOCOL);
    if (!strstr(link->why, text))
        fail_msg("the link failed with '%s', expected '%s'", link->why, text);
    expect_alive(&pair);
    weft_fd_close(fd);
    pair_close(&pair);
}

static void broken_rules_end_the_link(void **state)
{
    struct tcp_frame frame = {.mark = 1, .type = TCP_DATA, .size = 8};
    (void)state;
    expect_broken(&frame, sizeof frame, "a frame of type 1 and 8 bytes");
    frame = (struct tcp_frame){.mark = TCP_FRAME_MARK, .type = TCP_DATA, .size = TCP_EAGER_BYTES + 1};
    expect_broken(&frame, sizeof frame, "a frame of type 1 and 65537 bytes");
    frame = (struct tcp_frame){.mark = TCP_FRAME_MARK, .type = 99};
    expect_broken(&frame, sizeof frame, "a frame of type 99");
    frame = (struct tcp_frame){.mark = TCP_FRAME_MARK, .type = TCP_PUT, .size = 1};
    expect_broken(&frame, sizeof frame, "a frame of type 2 and 1 bytes");
    struct {
        struct tcp_frame frame;
        struct tcp_put_head head;
        char bytes[8];
    } put = {.frame = {.mark = TCP_FRAME_MARK, .type = TCP_PUT, .size = sizeof put.head + 8},
             .head = {.name = {.slot = 3, .generation = 1}}};
    expect_broken(&put, sizeof put, "a receive buffer that there never was");
    struct {
        struct tcp_frame frame;
        char bytes[4];
    } cancel = {.frame = {.mark = TCP_FRAME_MARK, .type = TCP_CANCEL, .size = 4}};
    expect_broken(&cancel, sizeof cancel, "a frame of type 3 has 4 bytes, expected 16");
}

/* A member writes beyond what it was given, at another place of it, or guesses the token: not a byte of it arrives. */
static void puts_stay_where_they_belong(void **state)
{
    static const struct {
        uint64_t offset, nonce;
        uint32_t size;
        const char *text;
    } tries[] = {{0, 0, 65, "puts 65 bytes at 0 of a receive buffer of 64 bytes"},
                 {1, 0, 8, "puts 8 bytes at 1"},
                 {UINT64_MAX - 3, 0, 8, "puts 8 bytes at 18446744073709551612"},
                 {0, 1, 8, "a receive buffer that there never was"}};
    (void)state;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        struct pair pair;
        struct weft_token token;
        struct tcp_token own;
        uint8_t memory[64] = {0}, zeros[64] = {0};
        pair_open(&pair);
        until_state(&pair, pair.ab, TCP_LINK_UP);
        const struct weft_auth_claims claims = claims_of(&pair, 77, 1);
        int fd = dial_b(&pair, &pair.b->address.key, &claims);
        struct weft_link *link = tcp_link_find(pair.b, 77);
        assert_int_equal(tcp_advertise(link, NULL, memory, sizeof memory, 1, &token), 0);
        memcpy(&own, &token, sizeof own);
        struct {
            struct tcp_frame frame;
            struct tcp_put_head head;
            uint8_t bytes[128];
        } put = {.frame = {.mark = TCP_FRAME_MARK,
                           .type = TCP_PUT,
                           .size = (uint32_t)sizeof put.head + tries[i].size},
                 .head = {.name = own.name, .offset = tries[i].offset}};
        put.head.name.nonce ^= tries[i].nonce;
        memset(put.bytes, 0xee, sizeof put.bytes);
        assert_true(send(fd, &put, sizeof put, MSG_NOSIGNAL) > 0);
        until_state(&pair, link, TCP_LINK_FAILED);
        if (!strstr(link->why, tries[i].text))
            fail_msg("the link failed with '%s', expected '%s'", link->why, tries[i].text);
        assert_memory_equal(memory, zeros, sizeof memory);
        weft_fd_close(fd);
        pair_close(&pair);
    }
}

static void both_at_once_is_one_link(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct pair pair = {.a = open_one(), .b = open_one()};
        pair.ab = link_to(pair.a, pair.b, &pair);
        for (int early = 0; early < i % 5; early++)
            tcp_poll(pair.b, 64, note, &pair);
        pair.ba = link_to(pair.b, pair.a, &pair);
        until_state(&pair, pair.ab, TCP_LINK_UP);
        until_state(&pair, pair.ba, TCP_LINK_UP);
        expect_alive(&pair);
        assert_int_equal(pair.a->links_count, 1);
        assert_int_equal(pair.b->links_count, 1);
        pair_close(&pair);
    }
}

/* The peer's dial is put aside while ours, which counts, is on its way to somebody who is not there any more. */
static void the_peers_dial_serves_when_ours_fails(void **state)
{
    struct pair pair = {.a = open_one(), .b = open_one()};
    (void)state;
    if (pair.a->address.instance > pair.b->address.instance) {
        struct weft_transport *higher = pair.a;
        pair.a = pair.b;
        pair.b = higher;
    }
    /* a believes that b is at a port where somebody takes connections and says nothing. */
    struct tcp_address moved = pair.b->address;
    struct weft_net_address nowhere = {.family = 4, .ip = {127, 0, 0, 1}};
    int listener;
    assert_int_equal(weft_net_listen(&nowhere, &listener, &moved.port), 0);
    assert_int_equal(tcp_connect(pair.a, &moved, sizeof moved, &pair, &pair.ab), 0);
    pair.ba = link_to(pair.b, pair.a, &pair);
    for (int64_t until_ns = weft_deadline_ns(PATIENCE_MS); !pair.ab->aside && weft_clock_ns() < until_ns;)
        turn(&pair);
    assert_non_null(pair.ab->aside);
    assert_int_equal(pair.ba->state, TCP_LINK_CONNECTING);
    weft_fd_close(listener); /* which resets a's dial */
    until_state(&pair, pair.ab, TCP_LINK_UP);
    until_state(&pair, pair.ba, TCP_LINK_UP);
    expect_alive(&pair);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_not_heard),   cmocka_unit_test(a_link_is_not_taken_over),
        cmocka_unit_test(broken_rules_end_the_link), cmocka_unit_test(puts_stay_where_they_belong),
        cmocka_unit_test(both_at_once_is_one_link),  cmocka_unit_test(the_peers_dial_serves_when_ours_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
