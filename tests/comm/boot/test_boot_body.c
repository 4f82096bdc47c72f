/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads and writes bytes) */
/* Reading the bodies of frames, and records: everything a peer, a file or a store can say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "comm/boot/boot.h"
#include "comm/boot/record.h"
#include "comm/boot/consensus/wave.h"

/* Each decoder reads its own encoding, and no prefix or extension of it. */
#define CHECK_STRICT(writer, call_with_size)                                                                 \
    do {                                                                                                     \
        for (size_t size = 0; size < (writer).size; size++) {                                                \
            unsigned char *exact = malloc(size + 1); /* so that the sanitizer sees a read beyond */          \
            assert_non_null(exact);                                                                          \
            memcpy(exact, (writer).data, size);                                                              \
            unsigned char *body = realloc(exact, size ? size : 1);                                           \
            assert_int_equal(call_with_size, WEFT_PROTOCOL);                                                 \
            free(body);                                                                                      \
        }                                                                                                    \
        weft_boot_put(&(writer), 0, 1);                                                                      \
        unsigned char *body = (writer).data;                                                                 \
        size_t size = (writer).size;                                                                         \
        assert_int_equal(call_with_size, WEFT_PROTOCOL);                                                     \
        free((writer).data);                                                                                 \
    } while (0)

static void test_checkin(void **state)
{
    (void)state;
    struct weft_boot_checkin in = {
        .left_ms = 99, .member = {{.family = 6, .port = 4000, .ip = {0xfd, [15] = 1}}, 1234, "a-host\n"}};
    struct weft_boot_checkin out;
    struct weft_boot_writer writer = {0};
    weft_boot_checkin_put(&writer, &in);
    assert_int_equal(weft_boot_checkin_get(writer.data, writer.size, &out), WEFT_OK);
    assert_int_equal(out.left_ms, 99);
    assert_int_equal(out.member.pid, 1234);
    assert_true(weft_net_address_same(&out.member.address, &in.member.address));
    in.member.address.scope = 7; /* a matter of this host */
    size_t once = writer.size;
    weft_boot_checkin_put(&writer, &in);
    assert_int_equal(writer.size, 2 * once);
    assert_memory_equal(writer.data, writer.data + once, once);
    writer.size = once;
    assert_int_equal(out.member.address.scope, 0);
    assert_string_equal(out.member.host, "a-host?"); /* no control characters into logs */
    writer.data[8] = 5;                              /* address family */
    assert_int_equal(weft_boot_checkin_get(writer.data, writer.size, &out), WEFT_PROTOCOL);
    writer.data[8] = 6;
    CHECK_STRICT(writer, weft_boot_checkin_get(body, size, &out));
}

static void test_answers(void **state)
{
    (void)state;
    struct weft_boot_writer writer = {0};
    uint64_t session = 0;
    weft_boot_put(&writer, 42, 8);
    assert_int_equal(weft_boot_accepted_get(writer.data, writer.size, &session), WEFT_OK);
    assert_int_equal(session, 42);
    CHECK_STRICT(writer, weft_boot_accepted_get(body, size, &session));

    struct weft_boot_refused refused;
    writer = (struct weft_boot_writer){0};
    weft_boot_refused_put(&writer, WEFT_RANKS_ABSENT, "ranks 1-3 did not arrive");
    assert_int_equal(weft_boot_refused_get(writer.data, writer.size, &refused), WEFT_OK);
    assert_int_equal(refused.status, WEFT_RANKS_ABSENT);
    assert_string_equal(refused.text, "ranks 1-3 did not arrive");
    free(writer.data);
    static const uint32_t no_refusals[] = {0, 1, 0x80000000, 0x7fffffff};
    for (size_t i = 0; i < sizeof no_refusals / sizeof *no_refusals; i++) {
        writer = (struct weft_boot_writer){0};
        weft_boot_put(&writer, no_refusals[i], 4);
        weft_boot_put(&writer, 0, 2);
        assert_int_equal(weft_boot_refused_get(writer.data, writer.size, &refused), WEFT_PROTOCOL);
        free(writer.data);
    }
}

static void test_table(void **state)
{
    (void)state;
    enum { RANKS = 5 };
    struct weft_boot_member members[RANKS] = {{{.family = 4, .port = 1, .ip = {127, 0, 0, 1}}, 10, "a"},
                                              {{.family = 6, .port = 2, .ip = {1}}, 11, ""}},
                            out[RANKS];
    struct weft_boot_writer writer = {0};
    memset(members[4].host, 'h', WEFT_BOOT_HOST_MAX);
    int64_t beat_ms = 0;
    weft_boot_table_put(&writer, 99, 250, members, RANKS);
    assert_int_equal(weft_boot_table_get(writer.data, writer.size, 99, &beat_ms, out, RANKS), WEFT_OK);
    assert_memory_equal(&out[1].address, &members[1].address, sizeof out[1].address);
    assert_int_equal(beat_ms, 250);
    assert_string_equal(out[4].host, members[4].host);
    assert_int_equal(weft_boot_table_get(writer.data, writer.size, 98, &beat_ms, out, RANKS), WEFT_PROTOCOL);
    assert_int_equal(weft_boot_table_get(writer.data, writer.size, 99, &beat_ms, out, RANKS - 1),
                     WEFT_PROTOCOL);
    CHECK_STRICT(writer, weft_boot_table_get(body, size, 99, &beat_ms, out, RANKS));
}

static void test_notices(void **state)
{
    (void)state;
    struct weft_boot_notice notice = {.rank = 3,
                                      .reporter = 1,
                                      .status = WEFT_PEER_FAILED,
                                      .time_ns = INT64_C(1) << 60,
                                      .aborts = 7,
                                      .text = "closed"},
                            out;
    struct weft_boot_writer writer = {0};
    weft_boot_notice_put(&writer, &notice);
    assert_int_equal(weft_boot_notice_get(writer.data, writer.size, 4, &out), WEFT_OK);
    assert_string_equal(out.text, "closed");
    assert_true(out.status == WEFT_PEER_FAILED && out.time_ns == INT64_C(1) << 60 && out.aborts == 7);
    assert_int_equal(weft_boot_notice_get(writer.data, writer.size, 3, &out),
                     WEFT_PROTOCOL); /* no such rank */
    CHECK_STRICT(writer, weft_boot_notice_get(body, size, 4, &out));

    memset(notice.text, 't', WEFT_BOOT_TEXT_MAX); /* the longest goes through: who sent it is not to blame */
    writer = (struct weft_boot_writer){0};
    weft_boot_notice_put(&writer, &notice);
    assert_in_range(writer.size, WEFT_BOOT_TEXT_MAX, weft_boot_body_max(WEFT_BOOT_REVOKED));
    assert_int_equal(weft_boot_notice_get(writer.data, writer.size, 4, &out), WEFT_OK);
    assert_memory_equal(out.text, notice.text, sizeof out.text);
    free(writer.data);

    uint32_t round = 0;
    const unsigned char *missing;
    writer = (struct weft_boot_writer){0};
    weft_boot_put(&writer, 7, 4);
    weft_boot_put(&writer, 0x88, 1);
    assert_int_equal(weft_boot_late_get(writer.data, writer.size, 8, &round, &missing), WEFT_OK);
    assert_true(round == 7 && weft_boot_set_has(missing, 3) && !weft_boot_set_has(missing, 4));
    assert_int_equal(weft_boot_late_get(writer.data, writer.size, 7, &round, &missing), WEFT_PROTOCOL);
    CHECK_STRICT(writer, weft_boot_late_get(body, size, 8, &round, &missing));
}

/* The decoders of what may hold a value hand it out in a block of its own. */
static int wave_get(int type, const unsigned char *body, size_t size, int ranks,
                    struct weft_boot_wave_head *head)
{
    struct weft_boot_value *value = NULL;
    const unsigned char *set;
    int status = weft_boot_wave_get(type, body, size, ranks, head, &value, &set);
    if (status != WEFT_OK)
        return status;
    int has_value = head->kind == WEFT_BOOT_PROPOSE || head->kind == WEFT_BOOT_DECIDED;
    int has_set =
        head->kind == WEFT_BOOT_SYNC || head->kind == WEFT_BOOT_AGREED || head->kind == WEFT_BOOT_CUT;
    if (has_value != (value != NULL) || has_set != (set != NULL))
        status = WEFT_INTERNAL;
    free(value);
    return status;
}

static int echo_get(const unsigned char *body, size_t size, int ranks, struct weft_boot_echo *echo)
{
    int status = weft_boot_echo_get(body, size, ranks, echo);
    if (status == WEFT_OK)
        free(echo->accepted);
    return status;
}

static void test_waves(void **state)
{
    (void)state;
    enum { RANKS = 11 };
    unsigned char set[2] = {0x81, 0x04};
    struct weft_boot_value *value = weft_boot_value_new(RANKS);
    assert_non_null(value);
    value->flags = 5;
    value->leader = 3;
    value->payload_size = 2;
    value->dead[1] = 0x02;
    for (int kind = WEFT_BOOT_COLLECT; kind <= WEFT_BOOT_CUT; kind++) {
        int type = kind <= WEFT_BOOT_SYNC ? WEFT_BOOT_WAVE : WEFT_BOOT_NEWS;
        struct weft_boot_wave_head head = {.initiator = 10,
                                           .number = UINT64_C(1) << 40,
                                           .kind = kind,
                                           .instance = 7},
                                   out;
        struct weft_boot_writer writer = {0};
        weft_boot_wave_put(&writer, &head, value, set, RANKS);
        assert_int_equal(wave_get(type, writer.data, writer.size, RANKS, &out), WEFT_OK);
        assert_true(out.initiator == 10 && out.number == head.number && out.kind == kind &&
                    out.instance == 7);
        assert_int_equal(wave_get(type, writer.data, writer.size, 10, &out),
                         WEFT_PROTOCOL); /* no such rank */
        assert_int_equal(
            wave_get(WEFT_BOOT_WAVE + WEFT_BOOT_NEWS - type, writer.data, writer.size, RANKS, &out),
            WEFT_PROTOCOL); /* a kind of the other */
        CHECK_STRICT(writer, wave_get(type, body, size, RANKS, &out));
    }
    struct weft_boot_echo echo = {.head = {.initiator = 1, .kind = WEFT_BOOT_COLLECT},
                                  .flags = 9,
                                  .set = set},
                          heard;
    struct weft_boot_writer writer = {0};
    weft_boot_echo_put(&writer, &echo, RANKS);
    assert_int_equal(echo_get(writer.data, writer.size, RANKS, &heard), WEFT_OK);
    assert_true(!heard.tainted && heard.flags == 9 && !heard.accepted && memcmp(heard.set, set, 2) == 0);
    CHECK_STRICT(writer, echo_get(body, size, RANKS, &heard));
    echo.accepted = value;
    echo.tainted = 1;
    echo.ballot = (struct weft_boot_ballot){2, 3};
    writer = (struct weft_boot_writer){0};
    weft_boot_echo_put(&writer, &echo, RANKS);
    assert_int_equal(weft_boot_echo_get(writer.data, writer.size, RANKS, &heard), WEFT_OK);
    assert_true(heard.tainted && heard.ballot.rank == 2 && heard.ballot.number == 3);
    assert_memory_equal(heard.accepted, value, sizeof *value + 2);
    free(heard.accepted);
    CHECK_STRICT(writer, echo_get(body, size, RANKS, &heard));
    value->leader = RANKS; /* no such rank */
    writer = (struct weft_boot_writer){0};
    weft_boot_wave_put(&writer, &(struct weft_boot_wave_head){.kind = WEFT_BOOT_DECIDED}, value, NULL, RANKS);
    struct weft_boot_wave_head out;
    assert_int_equal(wave_get(WEFT_BOOT_NEWS, writer.data, writer.size, RANKS, &out), WEFT_PROTOCOL);
    free(writer.data);
    free(value);
}

static void test_oob(void **state)
{
    (void)state;
    unsigned char bytes[WEFT_BOOT_OOB_MAX + 1] = {7};
    const struct weft_boot_oob_body good = {
        .to = 5, .from = 2, .channel = WEFT_OOB_TRANSPORT, .bytes = bytes, .size = sizeof bytes};
    struct weft_boot_writer writer = {0};
    struct weft_boot_oob_body body;
    weft_boot_oob_put(&writer, &good);
    for (size_t length = 0; length < 12; length++)
        assert_int_equal(weft_boot_oob_get(writer.data, length, 6, &body), WEFT_PROTOCOL);
    assert_int_equal(weft_boot_oob_get(writer.data, 12, 6, &body), WEFT_OK);
    assert_true(body.to == 5 && body.from == 2 && body.channel == WEFT_OOB_TRANSPORT && body.size == 0);
    assert_int_equal(weft_boot_oob_get(writer.data, writer.size - 1, 6, &body), WEFT_OK);
    assert_true(body.bytes == writer.data + 12 && body.size == WEFT_BOOT_OOB_MAX);
    assert_int_equal(weft_boot_oob_get(writer.data, writer.size, 6, &body), WEFT_PROTOCOL);
    assert_int_equal(weft_boot_oob_get(writer.data, 13, 5, &body), WEFT_PROTOCOL);
    static const struct {
        int at;
        unsigned char value; /* a sender that there is not, and oneself; channels that there are not */
    } lies[] = {{4, 6}, {4, 5}, {8, 0}, {8, 3}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        unsigned char before = writer.data[lies[i].at];
        writer.data[lies[i].at] = lies[i].value;
        assert_int_equal(weft_boot_oob_get(writer.data, 13, 6, &body), WEFT_PROTOCOL);
        writer.data[lies[i].at] = before;
    }
    free(writer.data);
}

static void test_result(void **state)
{
    (void)state;
    static const uint64_t lies[][3] = {{1, 2, 4}, {UINT64_MAX, 3, 3}, {0, 0, 5}, {7, 0, 0}};
    const unsigned char *sizes, *data;
    uint32_t round;
    for (int lie = -1; lie < 4; lie++) {
        struct weft_boot_writer writer = {0};
        weft_boot_put(&writer, 5, 4);
        weft_boot_put(&writer, 3, 4);
        for (int i = 0; i < 3; i++)
            weft_boot_put(&writer, lie < 0 ? (uint64_t)i + 1 : lies[lie][i], 8);
        weft_boot_put_bytes(&writer, "abbccc", 6);
        int status = weft_boot_result_get(writer.data, writer.size, 3, &round, &sizes, &data);
        assert_int_equal(status, lie < 0 ? WEFT_OK : WEFT_PROTOCOL);
        if (lie < 0) {
            assert_int_equal(round, 5);
            assert_memory_equal(data, "abbccc", 6);
            assert_int_equal(weft_boot_result_get(writer.data, writer.size, 4, &round, &sizes, &data),
                             WEFT_PROTOCOL);
            CHECK_STRICT(writer, weft_boot_result_get(body, size, 3, &round, &sizes, &data));
        } else {
            free(writer.data);
        }
    }
    assert_int_equal(weft_boot_result_get("\5\0\0\0\0\0\0\0", 8, 3, &round, &sizes, &data), WEFT_OK);
    assert_null(sizes);
}

static void test_record(void **state)
{
    (void)state;
    struct weft_boot_record record = {.nonce = 0xabc,
                                      .host = 5,
                                      .addresses = {.count = WEFT_NET_ADDRESSES_MAX},
                                      .has_secret = 1},
                            out;
    char text[WEFT_BOOT_RECORD_MAX];
    for (int i = 0; i < WEFT_NET_ADDRESSES_MAX; i++) {
        record.addresses.at[i] = (struct weft_net_address){.family = 6, .port = 65535};
        memset(record.addresses.at[i].ip, 0xfd, 16);
    }
    record.addresses.at[0] = (struct weft_net_address){.family = 4, .port = 1, .ip = {10, 0, 0, 1}};
    for (int i = 0; i < WEFT_BOOT_RECORD_SECRET; i++)
        record.secret[i] = (unsigned char)(i * 37 + 9);
    size_t size = weft_boot_record_format(&record, text, sizeof text);
    assert_true(size < sizeof text);
    assert_int_equal(weft_boot_record_parse(text, size, &out), WEFT_OK);
    assert_int_equal(out.nonce, 0xabc);
    assert_int_equal(out.has_secret, 1);
    assert_memory_equal(out.secret, record.secret, sizeof record.secret);
    assert_int_equal(out.addresses.count, WEFT_NET_ADDRESSES_MAX);
    assert_true(weft_net_address_same(&out.addresses.at[31], &record.addresses.at[31]));
    for (size_t less = 0; less < size; less++)
        assert_int_equal(weft_boot_record_parse(text, less, &out), WEFT_PROTOCOL);
    static const char *const bad[] = {
        "weft-rendezvous 2\nnonce 0000000000000001\naddress 1.2.3.4:5\nend\n",
        "weft-rendezvous 1\nnonce 0000000000000000\naddress 1.2.3.4:5\nend\n",
        "weft-rendezvous 1\nnonce 00000000000000zz\naddress 1.2.3.4:5\nend\n",
        "weft-rendezvous 1\nnonce 0000000000000001\naddress a-name:5\nend\n",
        "weft-rendezvous 1\nnonce 0000000000000001\naddress 1.2.3.4:0\nend\n",
        "weft-rendezvous 1\nnonce 0000000000000001\nend\n",
        "weft-rendezvous 1\nnonce 0000000000000001\naddress 1.2.3.4:5\nsecret 00\nend\n",
        ("weft-rendezvous 1\nnonce 0000000000000001\naddress 1.2.3.4:5\nsecret "
         "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg\nend\n"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(weft_boot_record_parse(bad[i], strlen(bad[i]), &out), WEFT_PROTOCOL);
    static const char more[] = "weft-rendezvous 1\nnonce 0000000000000001\nfuture x\naddress "
                               "[::1]:5\naddress [fe80::1%lo]:5\nend\njunk";
    assert_int_equal(weft_boot_record_parse(more, strlen(more), &out), WEFT_OK);
    assert_int_equal(out.has_secret, 0);
    assert_int_equal(out.addresses.count, 2);
    assert_int_equal(out.addresses.at[1].scope, 0); /* if it had one, it would not be this host's */
}

static void test_hostport(void **state)
{
    (void)state;
    char host[WEFT_NET_HOSTPORT_MAX];
    uint16_t port;
    assert_int_equal(weft_net_hostport_split("[fe80::1]:80", host, &port), WEFT_OK);
    assert_string_equal(host, "fe80::1");
    assert_int_equal(weft_net_hostport_split("node-1:65535", host, &port), WEFT_OK);
    assert_string_equal(host, "node-1");
    assert_int_equal(port, 65535);
    static const char *const bad[] = {
        "",       "host",    ":80",  "host:", "host:0", "host:65536", "h:8x",
        "::1:80", "[::1]80", "h:-1", "h: 80", "[]:80",  "h:+80",      "h:99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(weft_net_hostport_split(bad[i], host, &port), WEFT_INVALID);
    assert_true(weft_net_hostport_is_loopback("localhost:1"));
    assert_true(weft_net_hostport_is_loopback("127.3.2.1:1"));
    assert_true(weft_net_hostport_is_loopback("[::1]:1"));
    assert_false(weft_net_hostport_is_loopback("10.0.0.1:1"));
}

static void test_set_text(void **state)
{
    (void)state;
    unsigned char set[125] = {1 << 3 | 1 << 5 | 1 << 6 | 1 << 7};
    char text[256];
    assert_int_equal(weft_boot_set_text(set, 8, text, sizeof text), 4);
    assert_string_equal(text, "ranks 3, 5-7");
    set[0] = 1 << 3;
    assert_int_equal(weft_boot_set_text(set, 4, text, sizeof text), 1);
    assert_string_equal(text, "rank 3");
    memset(set, 0xff, sizeof set);
    assert_int_equal(weft_boot_set_text(set, 1000, text, sizeof text), 1000);
    assert_string_equal(text, "ranks 0-999");
    memset(set, 0x55, sizeof set);
    assert_int_equal(weft_boot_set_text(set, 1000, text, sizeof text), 500);
    assert_non_null(strstr(text, ", ... (500 in all)"));
    assert_true(strlen(text) < 200);
    memset(set, 0, sizeof set);
    assert_int_equal(weft_boot_set_text(set, 1000, text, sizeof text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkin),  cmocka_unit_test(test_answers), cmocka_unit_test(test_table),
        cmocka_unit_test(test_notices),  cmocka_unit_test(test_waves),   cmocka_unit_test(test_oob),
        cmocka_unit_test(test_result),   cmocka_unit_test(test_record),  cmocka_unit_test(test_hostport),
        cmocka_unit_test(test_set_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
