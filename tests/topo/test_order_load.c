/* SPDX-License-Identifier: Apache-2.0 */
/* Loads counted by hand on small fabrics, and the least load against every ring there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/topo_made.h"
#include "topo/report/order_load.h"

#define NEAR(a, b) assert_true((a) - (b) < 1e-9 && (b) - (a) < 1e-9)

/* Streams on the cable from item a to item b, all links together; cables between the same two are added up. */
static double streams(const struct made *made, const struct weft_load *load, uint32_t a, uint32_t b)
{
    double sum = 0;
    for (uint32_t e = 0; e < made->graph->edge_count; e++) {
        const struct weft_edge *edge = &made->graph->edges[e];
        if (edge->kind != WEFT_EDGE_FABRIC)
            assert_true(load->streams[2 * e] == 0 && load->streams[2 * e + 1] == 0);
        else if (edge->a == made->nodes[a] && edge->b == made->nodes[b])
            sum += load->streams[2 * e];
        else if (edge->a == made->nodes[b] && edge->b == made->nodes[a])
            sum += load->streams[2 * e + 1];
    }
    return sum;
}

/* Two leaves, two spines, two hosts a leaf; leaf 0 has 3 links to spine 0 and 1 to spine 1. */
struct small {
    struct made made;
    uint32_t hosts[4], ports[4], leaves[2], spines[2];
    struct weft_place places[4];
    uint32_t nic[4];
};

static void small_make(struct small *s, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 2; i++) {
        s->leaves[i] = made_item(&s->made, WEFT_NODE_SWITCH, MADE_NONE, "leaf%d", i);
        s->spines[i] = made_item(&s->made, WEFT_NODE_SWITCH, MADE_NONE, "spine%d", i);
    }
    made_cable(&s->made, s->leaves[0], s->spines[0], 3);
    made_cable(&s->made, s->spines[1], s->leaves[0], 1);
    made_cable(&s->made, s->leaves[1], s->spines[0], 1);
    made_cable(&s->made, s->leaves[1], s->spines[1], 1);
    for (int i = 0; i < 4; i++) {
        s->hosts[i] = made_item(&s->made, WEFT_NODE_HOST, MADE_NONE, "host%d", i);
        s->ports[i] = made_nic(&s->made, s->hosts[i], "mlx5_0", -1);
        made_cable(&s->made, s->ports[i], s->leaves[i / 2], 1);
    }
    made_build(&s->made, seed);
    for (int i = 0; i < 4; i++) {
        s->places[i] = made_place(&s->made, s->hosts[i], MADE_NONE);
        s->nic[i] = s->made.nodes[s->ports[i]];
    }
}

static void loads_by_hand(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct small s;
        struct weft_load load;
        small_make(&s, seed);
        struct weft_pair pairs[] = {{0, 2}, {1, 2}, {2, 0}, {0, 1}};
        assert_int_equal(weft_load_pairs(s.made.graph, s.places, 4, s.nic, pairs, 4, &load), WEFT_OK);
        NEAR(streams(&s.made, &load, s.ports[0], s.leaves[0]), 2);
        NEAR(streams(&s.made, &load, s.ports[1], s.leaves[0]), 1);
        NEAR(streams(&s.made, &load, s.leaves[0], s.ports[1]), 1);
        NEAR(streams(&s.made, &load, s.leaves[0], s.ports[0]), 1);
        /* Two flows out of leaf 0: over 4 links, 3 of them to spine 0. */
        NEAR(streams(&s.made, &load, s.leaves[0], s.spines[0]), 1.5);
        NEAR(streams(&s.made, &load, s.leaves[0], s.spines[1]), 0.5);
        NEAR(streams(&s.made, &load, s.spines[0], s.leaves[1]), 1.5);
        NEAR(streams(&s.made, &load, s.spines[1], s.leaves[1]), 0.5);
        /* One back: evenly over leaf 1's two links. */
        NEAR(streams(&s.made, &load, s.leaves[1], s.spines[0]), 0.5);
        NEAR(streams(&s.made, &load, s.spines[0], s.leaves[0]), 0.5);
        NEAR(streams(&s.made, &load, s.leaves[1], s.ports[2]), 2);
        NEAR(load.highest, 2);
        NEAR(load.highest_time * 50e9, 2);
        assert_int_equal(load.crossings_host, 4);
        assert_int_equal(load.crossings_leaf, 3);
        assert_int_equal(load.crossings_numa, 0);
        weft_load_free(&load);
        made_free(&s.made);
    }
}

static void parallel_cables_are_as_good_as_links(void **state)
{
    (void)state;
    /* One switch to another over a cable of 2 links and one of 1: thirds. */
    struct made made = {0};
    uint32_t switches[2], hosts[2], ports[2];
    for (int i = 0; i < 2; i++) {
        switches[i] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "s%d", i);
        hosts[i] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%d", i);
        ports[i] = made_nic(&made, hosts[i], "n", -1);
        made_cable(&made, ports[i], switches[i], 1);
    }
    uint32_t wide = made_cable(&made, switches[0], switches[1], 2);
    made_cable(&made, switches[0], switches[1], 1);
    uint32_t down = made_cable(&made, switches[0], switches[1], 5);
    made.cables[down].given.flags = WEFT_EDGE_DOWN;
    made_build(&made, 0);
    struct weft_place places[2] = {made_place(&made, hosts[0], MADE_NONE),
                                   made_place(&made, hosts[1], MADE_NONE)};
    uint32_t nic[2] = {made.nodes[ports[0]], made.nodes[ports[1]]}, ring[2] = {0, 1};
    struct weft_load load;
    assert_int_equal(weft_load_ring(made.graph, places, 2, nic, ring, &load), WEFT_OK);
    for (uint32_t e = 0; e < made.graph->edge_count; e++) {
        const struct weft_edge *edge = &made.graph->edges[e];
        if (edge->kind == WEFT_EDGE_FABRIC && edge->links == made.cables[wide].given.links) {
            NEAR(load.streams[2 * e], 2.0 / 3);
            NEAR(load.streams[2 * e + 1], 2.0 / 3);
        } else if (edge->flags & WEFT_EDGE_DOWN) {
            NEAR(load.streams[2 * e], 0);
        }
    }
    NEAR(load.highest, 1);
    assert_int_equal(load.crossings_leaf, 2);
    weft_load_free(&load);
    made_free(&made);
}

static void hosts_cabled_to_each_other(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t hosts[2], ports[2];
    for (int i = 0; i < 2; i++) {
        hosts[i] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%d", i);
        ports[i] = made_nic(&made, hosts[i], "n", -1);
    }
    made_cable(&made, ports[0], ports[1], 1);
    made_build(&made, 0);
    struct weft_place places[2] = {made_place(&made, hosts[0], MADE_NONE),
                                   made_place(&made, hosts[1], MADE_NONE)};
    uint32_t nic[2] = {made.nodes[ports[0]], made.nodes[ports[1]]}, ring[2] = {1, 0};
    struct weft_load load;
    assert_int_equal(weft_load_ring(made.graph, places, 2, nic, ring, &load), WEFT_OK);
    NEAR(streams(&made, &load, ports[0], ports[1]), 1);
    NEAR(streams(&made, &load, ports[1], ports[0]), 1);
    assert_int_equal(load.crossings_leaf, 0);
    weft_load_free(&load);
    made_free(&made);
}

static void a_host_on_two_leaves(void **state)
{
    (void)state;
    /* The host itself hangs on both leaves; flows to it arrive at the leaf they start from, and half of those from the
     * third leaf on each. */
    struct made made = {0};
    uint32_t leaves[3], hosts[4], spine = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "spine");
    for (int i = 0; i < 3; i++) {
        leaves[i] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "leaf%d", i);
        made_cable(&made, leaves[i], spine, 1);
        hosts[i] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%d", i);
        made_cable(&made, hosts[i], leaves[i], 1);
    }
    hosts[3] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h3");
    made_cable(&made, hosts[3], leaves[0], 1);
    made_cable(&made, hosts[3], leaves[1], 1);
    made_build(&made, 3);
    struct weft_place places[4];
    uint32_t nic[4];
    for (int i = 0; i < 4; i++) {
        places[i] = made_place(&made, hosts[i], MADE_NONE);
        nic[i] = WEFT_NODE_NONE;
    }
    struct weft_pair pairs[] = {{0, 3}, {2, 3}, {3, 2}};
    struct weft_load load;
    assert_int_equal(weft_load_pairs(made.graph, places, 4, nic, pairs, 3, &load), WEFT_OK);
    NEAR(streams(&made, &load, leaves[0], hosts[3]), 1.5);
    NEAR(streams(&made, &load, leaves[1], hosts[3]), 0.5);
    NEAR(streams(&made, &load, leaves[2], spine), 1);
    NEAR(streams(&made, &load, spine, leaves[0]), 0.5);
    NEAR(streams(&made, &load, spine, leaves[1]), 0.5);
    NEAR(streams(&made, &load, hosts[3], leaves[0]), 0.5);
    NEAR(streams(&made, &load, leaves[1], spine), 0.5);
    NEAR(streams(&made, &load, spine, leaves[2]), 1);
    assert_int_equal(load.crossings_leaf, 2);
    weft_load_free(&load);
    made_free(&made);
}

static void what_cannot_be_counted_is_refused(void **state)
{
    (void)state;
    struct small s;
    struct weft_load load = {.highest = 7};
    small_make(&s, 0);
    struct weft_pair pair = {0, 4};
    assert_int_equal(weft_load_pairs(s.made.graph, s.places, 4, s.nic, &pair, 1, &load), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "rank 0 to 4 of 4"));
    s.nic[2] = s.made.graph->node_count;
    pair.to = 3;
    assert_int_equal(weft_load_pairs(s.made.graph, s.places, 4, s.nic, &pair, 1, &load), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "rank 2"));
    assert_int_equal(weft_load_pairs(NULL, s.places, 4, s.nic, &pair, 1, &load), WEFT_INVALID);
    NEAR(load.highest, 7);
    made_free(&s.made);
}

/* The least of all rings over the ranks: the first stays, the others are permuted. */
struct least {
    const struct weft_graph *graph;
    const struct weft_place *places;
    const uint32_t *nic;
    uint32_t ranks, ring[8];
    double highest;
    uint64_t crossings;
};

static void rings_try(struct least *least, uint32_t at)
{
    if (at == least->ranks) {
        struct weft_load load;
        assert_int_equal(
            weft_load_ring(least->graph, least->places, least->ranks, least->nic, least->ring, &load),
            WEFT_OK);
        least->highest = load.highest < least->highest ? load.highest : least->highest;
        least->crossings = load.crossings_leaf < least->crossings ? load.crossings_leaf : least->crossings;
        weft_load_free(&load);
        return;
    }
    for (uint32_t i = at; i < least->ranks; i++) {
        uint32_t kept = least->ring[at];
        least->ring[at] = least->ring[i];
        least->ring[i] = kept;
        rings_try(least, at + 1);
        least->ring[i] = least->ring[at];
        least->ring[at] = kept;
    }
}

/* Whatever the ring, it is not below the bound; and the layout's is as good as the best. */
static void bound_against_all_rings(const struct made *made, const struct weft_place *places, uint32_t ranks,
                                    int tight)
{
    struct weft_layout *layout;
    assert_int_equal(weft_order_ranks(made->graph, places, ranks, 0, &layout), WEFT_OK);
    struct least least = {made->graph, places, layout->nic, ranks, {0, 1, 2, 3, 4, 5, 6, 7}, 1e9, UINT64_MAX};
    rings_try(&least, 1);
    struct weft_bound bound;
    struct weft_load load;
    assert_int_equal(weft_load_bound(made->graph, places, ranks, layout->nic, 1, &bound), WEFT_OK);
    assert_true(bound.highest <= least.highest + 1e-9);
    assert_true(bound.crossings_leaf <= least.crossings);
    assert_int_equal(weft_load_ring(made->graph, places, ranks, layout->nic, layout->order, &load), WEFT_OK);
    if (tight) {
        NEAR(bound.highest, least.highest);
        assert_int_equal(bound.crossings_leaf, least.crossings);
        NEAR(load.highest, least.highest);
        assert_int_equal(load.crossings_leaf, least.crossings);
    }
    assert_non_null(strstr(bound.argument, "at least once"));
    weft_load_free(&load);
    weft_layout_free(layout);
}

static void bound_on_leaves_and_spines(void **state)
{
    (void)state;
    struct small s;
    small_make(&s, 0);
    bound_against_all_rings(&s.made, s.places, 4, 1);
    made_free(&s.made);
}

/* Hosts hung on random trees and meshes of switches with 1 to 3 links: nothing may be below the bound. */
static void bound_on_random_fabrics(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (int fabric = 0; fabric < 40; fabric++) {
        struct made made = {0};
        uint32_t switches[5], hosts[4], ranks = 0;
        uint32_t switch_count = 2 + made_random(&random, 4), host_count = 2 + made_random(&random, 3);
        struct weft_place places[8];
        for (uint32_t s = 0; s < switch_count; s++) {
            switches[s] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "s%u", s);
            if (s && made_random(&random, 12)) /* else a part of its own */
                made_cable(&made, switches[s], switches[made_random(&random, s)],
                           1 + made_random(&random, 3));
        }
        for (uint32_t extra = made_random(&random, 3); extra-- > 0;)
            made_cable(&made, switches[0], switches[1 + made_random(&random, switch_count - 1)], 1);
        for (uint32_t h = 0; h < host_count; h++) {
            hosts[h] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", h);
            for (uint32_t n = 1 + made_random(&random, 2); n-- > 0;) {
                char name[2] = {(char)('a' + n), 0};
                uint32_t port = made_nic(&made, hosts[h], name, (int)n);
                if (made_random(&random, 8))
                    made_cable(&made, port, switches[made_random(&random, switch_count)],
                               1 + made_random(&random, 2));
            }
        }
        made_build(&made, random);
        for (uint32_t h = 0; h < host_count; h++)
            for (uint32_t r = 1 + made_random(&random, 2); r-- > 0 && ranks < 6;)
                places[ranks++] = made_place(&made, hosts[h], MADE_NONE);
        bound_against_all_rings(&made, places, ranks, 0);
        made_free(&made);
    }
}

/* Leaf switches cabled in a ring, in an order that their names do not tell: one host each. */
static void bound_on_a_ring_of_switches(void **state)
{
    (void)state;
    struct made made = {0};
    const uint32_t around[7] = {3, 0, 5, 2, 6, 1, 4};
    uint32_t switches[7], hosts[7];
    struct weft_place places[7];
    for (uint32_t s = 0; s < 7; s++) {
        switches[s] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "s%u", s);
        hosts[s] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", s);
        made_cable(&made, made_nic(&made, hosts[s], "n", -1), switches[s], 1);
    }
    for (uint32_t s = 0; s < 7; s++)
        made_cable(&made, switches[around[s]], switches[around[(s + 1) % 7]], 1);
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct weft_layout *layout, *plain;
        struct weft_load load, plain_load;
        made_build(&made, seed);
        for (uint32_t h = 0; h < 7; h++)
            places[h] = made_place(&made, hosts[h], MADE_NONE);
        bound_against_all_rings(&made, places, 7, 0);
        assert_int_equal(weft_order_ranks(made.graph, places, 7, 0, &layout), WEFT_OK);
        assert_int_equal(weft_order_ranks(made.graph, places, 7, WEFT_ORDER_NO_REFINE, &plain), WEFT_OK);
        assert_int_equal(weft_load_ring(made.graph, places, 7, layout->nic, layout->order, &load), WEFT_OK);
        assert_int_equal(weft_load_ring(made.graph, places, 7, plain->nic, plain->order, &plain_load),
                         WEFT_OK);
        assert_int_equal(plain->refined, 0);
        assert_true(layout->refined > 0);
        assert_true(load.highest < plain_load.highest);
        NEAR(load.highest, 1); /* it follows the cables */
        weft_load_free(&load);
        weft_load_free(&plain_load);
        weft_layout_free(layout);
        weft_layout_free(plain);
    }
    made_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_by_hand),
        cmocka_unit_test(parallel_cables_are_as_good_as_links),
        cmocka_unit_test(hosts_cabled_to_each_other),
        cmocka_unit_test(a_host_on_two_leaves),
        cmocka_unit_test(what_cannot_be_counted_is_refused),
        cmocka_unit_test(bound_on_leaves_and_spines),
        cmocka_unit_test(bound_on_random_fabrics),
        cmocka_unit_test(bound_on_a_ring_of_switches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
