/* The order of ranks: by hosts alone, along graphs made here by hand, and along synthetic fabrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "topo/natural.h"
#include "topo/order.h"

static struct weft_place named(const char *host)
{
    return (struct weft_place){.host_name = host, .host = WEFT_NODE_NONE, .near = WEFT_NODE_NONE};
}

static void expect_order(const struct weft_layout *layout, const uint32_t *expected)
{
    for (uint32_t at = 0; at < layout->ranks; at++) {
        assert_int_equal(layout->order[at], expected[at]);
        assert_int_equal(layout->rings[at], expected[at]);
        assert_int_equal(layout->position[expected[at]], at);
    }
}

static void expect_group(const struct weft_layout *layout, uint32_t group, uint32_t parent, uint32_t first,
                         uint32_t count, enum weft_level level)
{
    assert_true(group < layout->group_count);
    assert_int_equal(layout->groups[group].parent, parent);
    assert_int_equal(layout->groups[group].first, first);
    assert_int_equal(layout->groups[group].count, count);
    assert_int_equal(layout->groups[group].level, level);
    assert_int_equal(layout->groups[group].depth,
                     parent == UINT32_MAX ? 0 : layout->groups[parent].depth + 1);
}

static void natural_order(void **state)
{
    (void)state;
    assert_true(weft_natural_compare("node9", "node10") < 0);
    assert_true(weft_natural_compare("node10", "node9") > 0);
    assert_int_equal(weft_natural_compare("node10", "node10"), 0);
    assert_true(weft_natural_compare("a2-b9", "a2-b10") < 0);
    assert_true(weft_natural_compare("a02-b10", "a2-b9") > 0);
    assert_true(weft_natural_compare("a01", "a1") != 0);
    assert_true(weft_natural_compare("a01", "a1") == -weft_natural_compare("a1", "a01") ||
                (weft_natural_compare("a01", "a1") < 0) == (weft_natural_compare("a1", "a01") > 0));
    assert_true(weft_natural_compare("a", "a0") < 0);
    assert_true(weft_natural_compare("x99999999999999999999999999", "x100000000000000000000000000") < 0);
    assert_true(weft_natural_compare("", "a") < 0);
}

static void hosts_by_name_cyclic(void **state)
{
    (void)state;
    /* Cyclic over node9, node10, node1: the order is by host, hosts in natural order, ranks by number. */
    const char *names[] = {"node9", "node10", "node1"};
    struct weft_place places[7];
    for (int i = 0; i < 7; i++) {
        places[i] = named(names[i % 3]);
    }
    struct weft_layout *layout;
    assert_int_equal(weft_order_ranks(NULL, places, 7, 0, &layout), WEFT_OK);
    expect_order(layout, (uint32_t[]){2, 5, 0, 3, 6, 1, 4});
    assert_int_equal(layout->host_count, 3);
    assert_int_equal(layout->ring_count, 1);
    assert_int_equal(layout->group_count, 4);
    expect_group(layout, 0, UINT32_MAX, 0, 7, WEFT_LEVEL_JOB);
    expect_group(layout, 1, 0, 0, 2, WEFT_LEVEL_HOST);
    expect_group(layout, 2, 0, 2, 3, WEFT_LEVEL_HOST);
    expect_group(layout, 3, 0, 5, 2, WEFT_LEVEL_HOST);
    uint32_t host_of[] = {1, 2, 0, 1, 2, 0, 1};
    for (uint32_t rank = 0; rank < 7; rank++) {
        assert_int_equal(layout->host_of[rank], host_of[rank]);
        assert_int_equal(layout->nic[rank], WEFT_NODE_NONE);
    }
    weft_layout_free(layout);
}

static void one_rank_and_one_host(void **state)
{
    (void)state;
    struct weft_place places[3] = {named("a"), named("a"), named("a")};
    for (uint32_t ranks = 1; ranks <= 3; ranks++) {
        struct weft_layout *layout;
        assert_int_equal(weft_order_ranks(NULL, places, ranks, 0, &layout), WEFT_OK);
        expect_order(layout, (uint32_t[]){0, 1, 2});
        assert_int_equal(layout->group_count, 2);
        expect_group(layout, 0, UINT32_MAX, 0, ranks, WEFT_LEVEL_JOB);
        expect_group(layout, 1, 0, 0, ranks, WEFT_LEVEL_HOST);
        weft_layout_free(layout);
    }
}

static void by_rank_keeps_the_ranks(void **state)
{
    (void)state;
    /* b is in one piece, a is not: only b has a group. */
    struct weft_place places[6] = {named("b"), named("b"), named("a"), named("c"), named("a"), named("c")};
    struct weft_layout *layout;
    assert_int_equal(weft_order_ranks(NULL, places, 6, WEFT_ORDER_BY_RANK, &layout), WEFT_OK);
    expect_order(layout, (uint32_t[]){0, 1, 2, 3, 4, 5});
    assert_int_equal(layout->group_count, 2);
    expect_group(layout, 1, 0, 0, 2, WEFT_LEVEL_HOST);
    assert_int_equal(layout->host_count, 3);
    uint32_t host_of[] = {0, 0, 1, 2, 1, 2};
    for (uint32_t rank = 0; rank < 6; rank++) {
        assert_int_equal(layout->host_of[rank], host_of[rank]);
    }
    weft_layout_free(layout);
}

static void by_rank_in_blocks_has_all_groups(void **state)
{
    (void)state;
    struct weft_place places[6] = {named("b"), named("b"), named("a"), named("a"), named("a"), named("c")};
    struct weft_layout *layout;
    assert_int_equal(weft_order_ranks(NULL, places, 6, WEFT_ORDER_BY_RANK, &layout), WEFT_OK);
    assert_int_equal(layout->group_count, 4);
    expect_group(layout, 1, 0, 0, 2, WEFT_LEVEL_HOST);
    expect_group(layout, 2, 0, 2, 3, WEFT_LEVEL_HOST);
    expect_group(layout, 3, 0, 5, 1, WEFT_LEVEL_HOST);
    weft_layout_free(layout);
}

static void wrong_places_are_refused(void **state)
{
    (void)state;
    struct weft_layout *layout = (void *)state;
    struct weft_place places[2] = {named("a"), named(NULL)};
    assert_int_equal(weft_order_ranks(NULL, places, 2, 0, &layout), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "rank 1"));
    assert_int_equal(weft_order_ranks(NULL, places, 0, 0, &layout), WEFT_INVALID);
    places[1] = (struct weft_place){.host = 3, .near = WEFT_NODE_NONE};
    assert_int_equal(weft_order_ranks(NULL, places, 2, 0, &layout), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "node 3 is no host"));
    assert_ptr_equal(layout, state); /* set only on success */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(natural_order),
        cmocka_unit_test(hosts_by_name_cyclic),
        cmocka_unit_test(one_rank_and_one_host),
        cmocka_unit_test(by_rank_keeps_the_ranks),
        cmocka_unit_test(by_rank_in_blocks_has_all_groups),
        cmocka_unit_test(wrong_places_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
