/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs */
/* Which GIDs of a port are announced to peers, and which two go together. The tables are as ports of these kinds have
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/verbs/gid.h"

enum { IB = VERBS_GID_IB, V1 = VERBS_GID_ROCE1, V2 = VERBS_GID_ROCE2 };

static struct verbs_gid gid(const char *text, int type, int prefix_bits, int index)
{
    struct verbs_gid made = {
        .type = (uint8_t)type, .prefix_bits = (uint8_t)prefix_bits, .index = (uint8_t)index};
    assert_int_equal(inet_pton(AF_INET6, text, made.raw), 1);
    return made;
}

/* A RoCE adapter with IPv4 and IPv6 addresses. */
static int table_full(struct verbs_gid *table)
{
    table[0] = gid("fe80::bace:f6ff:fe01:203", V1, 64, 0);
    table[1] = gid("fe80::bace:f6ff:fe01:203", V2, 64, 1);
    table[2] = gid("::ffff:192.168.4.17", V1, 120, 2);
    table[3] = gid("::ffff:192.168.4.17", V2, 120, 3);
    table[4] = gid("2001:db8:4::17", V1, 64, 4);
    table[5] = gid("2001:db8:4::17", V2, 64, 5);
    return 6;
}

static void expect_choice(const struct verbs_gid *table, int count, int wanted, const char *indexes)
{
    struct verbs_gid chosen[VERBS_PORT_GIDS];
    char text[64] = "";
    int used = verbs_gids_choose(table, count, wanted, chosen);
    for (int i = 0; i < used; i++)
        sprintf(text + strlen(text), "%s%d", i ? " " : "", chosen[i].index);
    assert_string_equal(text, indexes);
}

static void test_choice_of_a_full_table(void **state)
{
    (void)state;
    struct verbs_gid table[6];
    int count = table_full(table);
    expect_choice(table, count, -1, "3 5 1 2"); /* v2 IPv4, IPv6, link-local; then v1 */
    expect_choice(table, count, 0, "0");
    expect_choice(table, count, 5, "5");
    expect_choice(table, count, 6, "");
}

static void test_choice_prefers_the_first_of_equals(void **state)
{
    (void)state;
    /* An adapter with VLANs: three IPv4 addresses. */
    struct verbs_gid table[] = {gid("fe80::1", V2, 64, 0), gid("::ffff:10.0.0.1", V2, 104, 1),
                                gid("::ffff:10.1.0.1", V2, 112, 2), gid("::ffff:10.2.0.1", V2, 112, 3)};
    expect_choice(table, 4, -1, "1 0");
    /* In a container the first belongs to the host. */
    table[1].foreign = 1;
    expect_choice(table, 4, -1, "2 0");
}

static void test_choice_of_poor_tables(void **state)
{
    (void)state;
    struct verbs_gid old = gid("fe80::2", V1, 64, 0), none = gid("::", V2, 0, 0);
    struct verbs_gid infiniband[] = {gid("fe80::248a:703:b4:1", IB, 0, 0),
                                     gid("fe80::248a:703:b4:2", IB, 0, 1),
                                     gid("fec0:0:77::248a:703:b4:1", IB, 0, 2)};
    expect_choice(&old, 1, -1, "0");
    expect_choice(&none, 1, -1, "");
    expect_choice(&none, 1, 0, "");
    expect_choice(NULL, 0, -1, "");
    expect_choice(infiniband, 3, -1, "0 2"); /* one per subnet */
}

static void test_order_of_pairs(void **state)
{
    (void)state;
    /* Each row goes together better than the next. */
    static const struct {
        const char *a, *b;
        int type, a_prefix, b_prefix;
    } rows[] = {
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", V2, 120, 120},     /* same subnet */
        {"2001:db8::1", "2001:db8::2", V2, 64, 64},               /* the same, IPv6 */
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", V2, 0, 120},       /* who knows */
        {"::ffff:10.0.0.1", "::ffff:10.0.1.2", V2, 120, 120},     /* through a router */
        {"2001:db8::1", "2001:db8:1::2", V2, 64, 64},             /* the same, IPv6 */
        {"fe80::1", "fe80::2", V2, 64, 64},                       /* link-local */
        {"::ffff:169.254.0.1", "::ffff:169.254.7.2", V2, 0, 112}, /* also */
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", V1, 120, 120},     /* RoCE v1 */
        {"fe80::1", "fe80::2", V1, 64, 64},
    };
    int last = 1000;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verbs_gid a = gid(rows[i].a, rows[i].type, rows[i].a_prefix, 0),
                         b = gid(rows[i].b, rows[i].type, rows[i].b_prefix, 0);
        int score = verbs_gid_score(&a, &b);
        if (score <= 0 || score >= last)
            fail_msg("row %zu has score %d after %d", i, score, last);
        last = score;
    }
}

static void test_pairs_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int a_type, b_type;
    } rows[] = {
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", V2, V1}, /* versions do not understand each other */
        {"::ffff:10.0.0.1", "2001:db8::2", V2, V2},     /* nor do address families */
        {"fe80::1", "2001:db8::2", V2, V2},
        {"::ffff:169.254.0.1", "::ffff:10.0.0.2", V2, V2},
        {"::ffff:10.0.0.1", "::ffff:10.0.1.2", V1, V1}, /* no router takes v1 */
        {"::", "::ffff:10.0.0.1", V2, V2},
        {"fe80::1", "fe80:0:0:1::1", IB, IB},      /* other InfiniBand subnet, and no way to it */
        {"fec0:0:77::1", "fec0:0:0:1::1", IB, IB}, /* the same with a FLID at one end only */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verbs_gid a = gid(rows[i].a, rows[i].a_type, 120, 0),
                         b = gid(rows[i].b, rows[i].b_type, 120, 0);
        if (verbs_gid_score(&a, &b) || verbs_gid_score(&b, &a))
            fail_msg("%s and %s go together", rows[i].a, rows[i].b);
    }
}

static void test_infiniband_subnets(void **state)
{
    (void)state;
    struct verbs_gid a = gid("fe80::248a:703:b4:1", IB, 0, 0), b = gid("fe80::248a:703:b4:2", IB, 0, 0);
    struct verbs_gid c = gid("fec0:0:77:1::1", IB, 0, 0), d = gid("fec0:0:78:2::2", IB, 0, 0);
    assert_true(verbs_gid_score(&a, &b) > verbs_gid_score(&c, &d));
    assert_true(verbs_gid_score(&c, &d) > 0);
}

static void test_score_is_symmetric(void **state)
{
    (void)state;
    static const char *const texts[] = {"::ffff:10.0.0.1", "::ffff:10.0.1.9", "2001:db8::1", "2001:db8:1::2",
                                        "fe80::1",         "fe80::2",         "fec0:0:7::1", "::"};
    srand(1);
    for (int i = 0; i < 20000; i++) {
        struct verbs_gid a = gid(texts[rand() % 8], rand() % 3, 32 * (rand() % 5), 0);
        struct verbs_gid b = gid(texts[rand() % 8], rand() % 3, 32 * (rand() % 5), 0);
        a.foreign = (uint8_t)(rand() % 2);
        b.foreign = (uint8_t)(rand() % 2);
        assert_int_equal(verbs_gid_score(&a, &b), verbs_gid_score(&b, &a));
    }
}

static void test_texts(void **state)
{
    (void)state;
    char text[VERBS_GID_TEXT];
    struct verbs_gid a = gid("::ffff:10.7.0.1", V2, 0, 0);
    assert_string_equal(verbs_gid_text(a.raw, text), "::ffff:10.7.0.1");
    assert_string_equal(verbs_gid_type_text(V1), "RoCE v1");
    assert_string_equal(verbs_gid_type_text(9), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice_of_a_full_table),
        cmocka_unit_test(test_choice_prefers_the_first_of_equals),
        cmocka_unit_test(test_choice_of_poor_tables),
        cmocka_unit_test(test_order_of_pairs),
        cmocka_unit_test(test_pairs_that_cannot_be),
        cmocka_unit_test(test_infiniband_subnets),
        cmocka_unit_test(test_score_is_symmetric),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests_name("verbs gid", tests, NULL, NULL);
}
