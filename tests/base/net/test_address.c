/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, and which a caller may give for rank 0's. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/error.h"
#include "base/net/socket.h"
#include "tests/support/golden.h"
#include <weft/weft.h>

/* Every machine has it, as number 1. */
static uint32_t loopback(void)
{
    uint32_t index = if_nametoindex("lo");
    assert_true(index > 0);
    return index;
}

static void test_text(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } texts[] = {
        {"10.0.0.1:4000", "10.0.0.1:4000"},         {"[fd00::1]:4000", "[fd00::1]:4000"},
        {"[fe80::1%lo]:4000", "[fe80::1%lo]:4000"}, {"[FE80:0::1]:4000", "[fe80::1]:4000"},
        {"[febf::1%lo]:1", "[febf::1%lo]:1"},
    };
    struct weft_net_address address;
    char text[WEFT_NET_ADDRESS_TEXT], number[32];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(weft_net_address_parse(texts[i].from, &address), WEFT_OK);
        assert_string_equal(weft_net_address_text(&address, 1, text), texts[i].to);
    }
    snprintf(number, sizeof number, "[fe80::1%%%u]:4000", (unsigned)loopback());
    assert_int_equal(weft_net_address_parse(number, &address), WEFT_OK);
    assert_int_equal(address.scope, loopback());
    assert_string_equal(weft_net_address_text(&address, 0, text), "fe80::1%lo");
    address.scope = 4294967295; /* an interface that is no more */
    assert_string_equal(weft_net_address_text(&address, 1, text), "[fe80::1%4294967295]:4000");
    struct weft_net_address longest = {.family = 6, .port = 65535};
    memset(longest.ip, 0xfe, sizeof longest.ip);
    longest.ip[1] = 0x80;
    assert_true(strlen(weft_net_address_text(&longest, 1, text)) + 1 + 15 < sizeof text); /* IFNAMSIZ - 1 */
}

static void test_no_address(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[fe80::1%]:1",  "[fe80::1%no-such]:1", "[fe80::1%999999999]:1", "[fe80::1%1x]:1", "[fe80::1%-1]:1",
        "[fe80::1%0]:1", "[fd00::1%lo]:1",      "10.0.0.1%lo:1",         "[::1%lo]:1",     "node%lo:1"};
    struct weft_net_address address;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (weft_net_address_parse(bad[i], &address) != WEFT_INVALID)
            fail_msg("'%s' is taken", bad[i]);
    }
}

static void test_same(void **state)
{
    (void)state;
    struct weft_net_address a, b;
    assert_int_equal(weft_net_address_parse("[fe80::1%lo]:1", &a), WEFT_OK);
    b = a;
    assert_true(weft_net_address_same(&a, &b));
    b.scope++;
    assert_false(weft_net_address_same(&a, &b));
}

/* The kernel's form: a scope belongs to link-local addresses alone. */
static void test_from(void **state)
{
    (void)state;
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(7), .sin6_scope_id = 5};
    struct weft_net_address address;
    assert_int_equal(inet_pton(AF_INET6, "fe80::1", &in6.sin6_addr), 1);
    assert_int_equal(weft_net_address_from((struct sockaddr *)&in6, &address), 6);
    assert_int_equal(address.scope, 5);
    assert_int_equal(inet_pton(AF_INET6, "fd00::1", &in6.sin6_addr), 1);
    assert_int_equal(weft_net_address_from((struct sockaddr *)&in6, &address), 6);
    assert_int_equal(address.scope, 0);
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.0.0.1", &in6.sin6_addr), 1);
    assert_int_equal(weft_net_address_from((struct sockaddr *)&in6, &address), 4);
    assert_int_equal(address.scope, 0);
}

static void test_what_is_given(void **state)
{
    (void)state;
    struct weft_net_address address;
    struct weft_net_addresses found;
    assert_int_equal(weft_net_hostport_read("[fe80::1%lo]:7", &address), 1);
    assert_int_equal(address.scope, loopback());
    assert_int_equal(address.port, 7);
    assert_int_equal(weft_net_hostport_read("node-1:7", &address), 0);
    assert_int_equal(weft_net_hostport_read("169.254.1.1:7", &address), 1); /* IPv4 has no scopes */
    assert_int_equal(weft_net_hostport_resolve("[fe80::1%lo]:7", &found), WEFT_OK);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.at[0].scope, loopback());
    assert_int_equal(weft_net_hostport_read("[fe80::1]:7", &address), WEFT_INVALID);
    assert_true(golden_matches("address-no-scope", "[fe80::1]:7", "fe80::1"));
    assert_int_equal(weft_net_hostport_resolve("[fe80::1]:7", &found), WEFT_INVALID);
    assert_int_equal(weft_net_hostport_read("[fe80::1%no-such]:7", &address), WEFT_INVALID);
    assert_true(golden_matches("address-no-interface", "[fe80::1%no-such]:7", "no-such", NULL));
    assert_non_null(strstr(weft_error_detail(), " lo"));
    assert_int_equal(weft_net_hostport_read("[fd00::1%lo]:7", &address), WEFT_INVALID);
    assert_true(golden_matches("address-other-scope", "[fd00::1%lo]:7", "lo"));
}

static void test_unknown_link(void **state)
{
    (void)state;
    struct weft_net_address address;
    int fd;
    assert_int_equal(weft_net_address_parse("[fe80::1]:7", &address), WEFT_OK); /* as others publish it */
    assert_int_equal(weft_net_connect_start(&address, &fd), WEFT_PEER_FAILED);
    assert_true(golden_matches("connect-unknown-link", "[fe80::1]:7"));
}

/* What is on no link that is known may be on any. */
static void test_spread(void **state)
{
    (void)state;
    uint32_t scopes[WEFT_NET_SCOPES_MAX];
    int count = weft_net_scopes(scopes);
    struct weft_net_addresses list = {.count = 3};
    assert_int_equal(weft_net_address_parse("10.0.0.1:7", &list.at[0]), WEFT_OK);
    assert_int_equal(weft_net_address_parse("[fe80::1]:7", &list.at[1]), WEFT_OK);
    assert_int_equal(weft_net_address_parse("[fe80::1%lo]:7", &list.at[2]), WEFT_OK);
    weft_net_addresses_spread(&list);
    assert_int_equal(list.count, count + 2);
    assert_int_equal(list.at[0].family, 4);
    for (int i = 0; i < count; i++)
        assert_int_equal(list.at[1 + i].scope, scopes[i]);
    assert_int_equal(list.at[1 + count].scope, loopback());
}

/* What others read has no scope. */
static void test_interfaces(void **state)
{
    (void)state;
    struct weft_net_addresses list;
    weft_net_interfaces(&list);
    assert_true(list.count > 0);
    assert_true(weft_net_address_is_loopback(&list.at[0]));
    for (int i = 0; i < list.count; i++)
        assert_int_equal(list.at[i].scope, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),       cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_same),       cmocka_unit_test(test_from),
        cmocka_unit_test(test_spread),     cmocka_unit_test(test_what_is_given),
        cmocka_unit_test(test_interfaces), cmocka_unit_test(test_unknown_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
