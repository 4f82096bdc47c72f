/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs */
/* Which ports of a machine WEFT_VERBS_DEVICE means, and how fast they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

#include "transport/verbs/device.h"

/* Two fast adapters and a slow one with two ports; in the order in which a system lists them. */
static const struct verbs_candidate host[] = {
    {"mlx5_10", 1, 1, 200000}, {"mlx5_2", 1, 1, 200000}, {"mlx5_bond_0", 1, 1, 25000},
    {"mlx5_3", 1, 1, 100000},  {"mlx5_3", 2, 0, 100000},
};

enum { HOST = sizeof host / sizeof *host };

/* "mlx5_2:1 mlx5_10:1", or the status. */
static const char *choose(const char *list, int capacity)
{
    static char text[256];
    int chosen[HOST];
    int count = verbs_choose(list, host, HOST, chosen, capacity);
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        sprintf(text + strlen(text), "%s%s:%d", i ? " " : "", host[chosen[i]].device, host[chosen[i]].port);
    if (count < 0)
        sprintf(text, "%d", count);
    return text;
}

static void test_by_itself_the_fastest_come_first(void **state)
{
    (void)state;
    assert_string_equal(choose("", HOST), "mlx5_2:1 mlx5_10:1 mlx5_3:1 mlx5_bond_0:1");
    assert_string_equal(choose("", 2), "mlx5_2:1 mlx5_10:1");
}

static void test_a_list_has_its_order(void **state)
{
    (void)state;
    assert_string_equal(choose("mlx5_bond_0,mlx5_10:1", HOST), "mlx5_bond_0:1 mlx5_10:1");
    assert_string_equal(choose("mlx5_3,mlx5_3:1,mlx5_3", HOST),
                        "mlx5_3:1"); /* once, and without what is down */
    assert_string_equal(choose("mlx5_2,mlx5_10", HOST), "mlx5_2:1 mlx5_10:1");
    assert_string_equal(choose("mlx5_2,mlx5_10", 1), "mlx5_2:1");
}

static void test_exclusion(void **state)
{
    (void)state;
    assert_string_equal(choose("^mlx5_2", HOST), "mlx5_10:1 mlx5_3:1 mlx5_bond_0:1");
    assert_string_equal(choose("^mlx5_2,mlx5_10:1,nosuch", HOST), "mlx5_3:1 mlx5_bond_0:1");
    assert_string_equal(choose("^mlx5_3:2", HOST), "mlx5_2:1 mlx5_10:1 mlx5_3:1 mlx5_bond_0:1");
}

static void expect_refusal(const char *list, int status, const char *text)
{
    char number[16];
    sprintf(number, "%d", status);
    assert_string_equal(choose(list, HOST), number);
    if (!strstr(weft_error_detail(), text))
        fail_msg("'%s' does not say '%s'", weft_error_detail(), text);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal("mlx5_1", WEFT_NOT_FOUND,
                   "no 'mlx5_1' here; this machine has mlx5_10:1 (active), mlx5_2:1");
    expect_refusal("mlx5_2,mlx5_2:2,mlx5_10", WEFT_NOT_FOUND, "no 'mlx5_2:2' here");
    expect_refusal("mlx5", WEFT_NOT_FOUND, "no 'mlx5' here"); /* no prefixes */
    expect_refusal("mlx5_3:2", WEFT_NOT_FOUND,
                   "no active port of WEFT_VERBS_DEVICE 'mlx5_3:2'; this machine has");
    expect_refusal("mlx5_3:2", WEFT_NOT_FOUND, "mlx5_3:1 (active), mlx5_3:2");
    expect_refusal("^mlx5_2,mlx5_10,mlx5_3,mlx5_bond_0", WEFT_NOT_FOUND,
                   "no active port of WEFT_VERBS_DEVICE '^mlx5_2");
    for (size_t i = 0; i < 8; i++) {
        static const char *const lists[] = {",",        ":1", "mlx5_2:",    "mlx5_2:0",
                                            "mlx5_2:x", "^",  "mlx5_2:1:1", "mlx5_2,"};
        expect_refusal(lists[i], WEFT_INVALID, "expected devices and ports as 'mlx5_0:1,mlx5_1'");
    }
}

static void test_a_machine_without_ports(void **state)
{
    (void)state;
    int chosen[1];
    assert_int_equal(verbs_choose("", NULL, 0, chosen, 1), WEFT_NOT_FOUND);
    assert_string_equal(weft_error_detail(), "verbs: no active port; this machine has no port at all");
}

static void test_a_list_longer_than_a_line(void **state)
{
    (void)state;
    struct verbs_candidate many[64];
    int chosen[64];
    for (int i = 0; i < 64; i++) {
        many[i] = (struct verbs_candidate){.port = 1, .is_active = 1, .speed_mbps = 1000};
        snprintf(many[i].device, sizeof many[i].device, "a_device_with_a_long_name_as_udev_gives_them_%d",
                 63 - i);
    }
    assert_int_equal(verbs_choose("", many, 64, chosen, 64), 64);
    for (int i = 0; i < 64; i++)
        assert_int_equal(chosen[i], 63 - i);
    assert_int_equal(verbs_choose("x", many, 64, chosen, 64), WEFT_NOT_FOUND);
    assert_non_null(strstr(weft_error_detail(), "this machine has a_device"));
}

static void test_rates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int layer;
        uint32_t mbps;
    } rows[] = {
        {"2.5 Gb/sec (1X SDR)", IBV_LINK_LAYER_INFINIBAND, 2000},
        {"40 Gb/sec (4X QDR)", IBV_LINK_LAYER_INFINIBAND, 32000},
        {"40 Gb/sec (4X QDR)", IBV_LINK_LAYER_ETHERNET, 40000},
        {"56 Gb/sec (4X FDR)", IBV_LINK_LAYER_INFINIBAND, 56000},
        {"100 Gb/sec (4X EDR)", IBV_LINK_LAYER_INFINIBAND, 100000},
        {"400 Gb/sec (4X NDR)", IBV_LINK_LAYER_INFINIBAND, 400000},
        {"800 Gb/sec (4X XDR)", IBV_LINK_LAYER_INFINIBAND, 800000},
        {"25 Gb/sec (1X EDR)", IBV_LINK_LAYER_ETHERNET, 25000},
        {"", IBV_LINK_LAYER_ETHERNET, 0},
        {"fast", IBV_LINK_LAYER_ETHERNET, 0},
        {"99999999999999999999", IBV_LINK_LAYER_ETHERNET, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(verbs_rate_mbps(rows[i].text, rows[i].layer), rows[i].mbps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_itself_the_fastest_come_first),
        cmocka_unit_test(test_a_list_has_its_order),
        cmocka_unit_test(test_exclusion),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_machine_without_ports),
        cmocka_unit_test(test_a_list_longer_than_a_line),
        cmocka_unit_test(test_rates),
    };
    return cmocka_run_group_tests_name("verbs choose", tests, NULL, NULL);
}
