/* SPDX-License-Identifier: Apache-2.0 */
/* The order of ranks: by hosts alone, along graphs made here by hand, and along synthetic fabrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/topo_layout.h"
#include "tests/support/topo_made.h"
#include "topo/natural.h"
#include "topo/order.h"
#include "topo/report/order_load.h"

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

/* Two pods of three hosts in a rail-optimised fabric with two rails, each host with two NUMA nodes, a NIC, and two GPUs on
 * a PCI switch in each; one host more has no cable, one has lost its second NIC, and the job has a rank on a host that
 * the graph lacks. */
struct cluster {
    struct made made;
    uint32_t hosts[8], gpus[8][4], numas[8][2], leaves[4], ranks;
    struct weft_place places[64];
    uint32_t ids[64]; /* what each rank is: host * 4 + GPU; of the host that the graph lacks: 100 */
};

static void host_add(struct cluster *c, uint32_t h, const char *name, uint32_t pod, int cables)
{
    struct made *made = &c->made;
    c->hosts[h] = made_item(made, WEFT_NODE_HOST, MADE_NONE, "%s", name);
    for (uint32_t n = 0; n < 2; n++) {
        c->numas[h][n] = made_item(made, WEFT_NODE_NUMA, c->hosts[h], "numa%u", n);
        made->items[c->numas[h][n]].given.index = (int)n;
        uint32_t bridge = made_item(made, WEFT_NODE_BRIDGE, c->numas[h][n], "switch%u", n);
        made->items[bridge].given.bridge = WEFT_BRIDGE_SWITCH;
        for (uint32_t g = 0; g < 2; g++) {
            c->gpus[h][2 * n + g] = made_item(made, WEFT_NODE_GPU, bridge, "gpu%u", 2 * n + g);
            made->items[c->gpus[h][2 * n + g]].given.index = (int)(2 * n + g);
        }
        if (h == 4 && n == 1)
            continue;
        uint32_t port = made_nic(made, bridge, n ? "mlx5_1" : "mlx5_0", (int)n);
        if (cables)
            made_cable(made, port, c->leaves[2 * pod + n], 1);
    }
}

/* keep: of each host, how many ranks; shuffled by the seed, as the graph is. */
static void cluster_make(struct cluster *c, const uint32_t *keep, uint64_t seed)
{
    static const char *const names[8] = {"n9", "n10", "n1", "n20", "n3", "n100", "n0", "n7"};
    memset(c, 0, sizeof *c);
    for (uint32_t l = 0; l < 4; l++)
        c->leaves[l] =
            made_item(&c->made, WEFT_NODE_SWITCH, MADE_NONE, "leaf%u", 11 - l); /* pod 1's come first */
    for (uint32_t s = 0; s < 2; s++) {
        uint32_t spine = made_item(&c->made, WEFT_NODE_SWITCH, MADE_NONE, "a-spine%u", s);
        for (uint32_t l = 0; l < 4; l++)
            made_cable(&c->made, spine, c->leaves[l], 1);
    }
    for (uint32_t h = 0; h < 7; h++)
        host_add(c, h, names[h], h / 3 % 2, h < 6);
    made_build(&c->made, seed);
    for (uint32_t h = 0; h < 8; h++) {
        for (uint32_t g = 0; g < keep[h]; g++) {
            c->ids[c->ranks] = h == 7 ? 100 : h * 4 + g;
            c->places[c->ranks++] = h == 7 ? named("n7") : made_place(&c->made, c->hosts[h], c->gpus[h][g]);
        }
    }
    for (uint32_t i = c->ranks; seed && i > 1; i--) {
        uint32_t other = made_random(&seed, i), id = c->ids[i - 1];
        struct weft_place kept = c->places[i - 1];
        c->places[i - 1] = c->places[other];
        c->ids[i - 1] = c->ids[other];
        c->places[other] = kept;
        c->ids[other] = id;
    }
}

static const uint32_t keep_all[8] = {4, 4, 4, 4, 4, 4, 4, 1};

static void along_a_fabric_by_name(void **state)
{
    (void)state;
    const uint32_t keep[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    /* Pod 1 (leaves 8, 9) before pod 0; hosts in natural order; those without a cable last. */
    const uint32_t hosts[8] = {4, 3, 5, 2, 0, 1, 6, 25};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct cluster c;
        struct weft_layout *layout;
        cluster_make(&c, keep, seed);
        assert_int_equal(weft_order_ranks(c.made.graph, c.places, c.ranks, 0, &layout), WEFT_OK);
        layout_check(c.made.graph, c.places, layout, 0);
        for (uint32_t at = 0; at < 8; at++)
            assert_int_equal(c.ids[layout->order[at]] / 4, hosts[at]);
        assert_int_equal(layout->host_count, 8);
        assert_int_equal(layout->ring_count, 1);
        expect_group(layout, 0, UINT32_MAX, 0, 8, WEFT_LEVEL_JOB);
        expect_group(layout, 1, 0, 0, 6, WEFT_LEVEL_SWITCH); /* those that the spines join, and the rest */
        expect_group(layout, 2, 1, 0, 3, WEFT_LEVEL_SWITCH);
        expect_group(layout, 3, 2, 0, 1, WEFT_LEVEL_HOST);
        expect_group(layout, 6, 1, 3, 3, WEFT_LEVEL_SWITCH);
        expect_group(layout, 10, 0, 6, 1, WEFT_LEVEL_HOST);
        expect_group(layout, 11, 0, 7, 1, WEFT_LEVEL_HOST);
        assert_int_equal(layout->group_count, 12);
        weft_layout_free(layout);
        made_free(&c.made);
    }
}

static void the_same_layout_from_any_order_of_facts(void **state)
{
    (void)state;
    const uint32_t some[8] = {4, 1, 3, 2, 4, 4, 2, 1};
    const uint32_t *const keeps[] = {keep_all, some};
    for (int k = 0; k < 2; k++) {
        uint32_t first[4 * 64], count = 0, rings = 0, groups = 0;
        struct weft_group_span spans[64];
        for (uint64_t seed = 0; seed < 30; seed++) {
            struct cluster c;
            struct weft_layout *layout;
            cluster_make(&c, keeps[k], seed);
            assert_int_equal(weft_order_ranks(c.made.graph, c.places, c.ranks, 0, &layout), WEFT_OK);
            layout_check(c.made.graph, c.places, layout, 0);
            if (seed == 0) {
                count = c.ranks;
                rings = layout->ring_count;
                groups = layout->group_count;
                assert_true(rings <= 4 && groups <= 64);
                memcpy(spans, layout->groups, groups * sizeof *spans);
            }
            assert_int_equal(layout->ring_count, rings);
            assert_int_equal(layout->group_count, groups);
            for (uint32_t i = 0; i < rings * count; i++) {
                if (seed == 0)
                    first[i] = c.ids[layout->rings[i]];
                assert_int_equal(c.ids[layout->rings[i]], first[i]);
            }
            for (uint32_t g = 0; g < groups; g++) {
                assert_int_equal(layout->groups[g].first, spans[g].first);
                assert_int_equal(layout->groups[g].count, spans[g].count);
                assert_int_equal(layout->groups[g].level, spans[g].level);
                assert_int_equal(layout->groups[g].parent, spans[g].parent);
            }
            weft_layout_free(layout);
            made_free(&c.made);
        }
    }
}

static void groups_of_all_levels(void **state)
{
    (void)state;
    struct cluster c;
    struct weft_layout *layout;
    cluster_make(&c, keep_all, 7);
    assert_int_equal(weft_order_ranks(c.made.graph, c.places, c.ranks, 0, &layout), WEFT_OK);
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_SWITCH), 3);
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_HOST), 8);
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_NUMA), 14);
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_BRIDGE), 0); /* the same ranks as their NUMA nodes */
    weft_layout_free(layout);
    made_free(&c.made);
}

static void by_rank_along_a_graph(void **state)
{
    (void)state;
    struct cluster c;
    struct weft_layout *layout;
    cluster_make(&c, keep_all, 0);
    assert_int_equal(weft_order_ranks(c.made.graph, c.places, c.ranks, WEFT_ORDER_BY_RANK, &layout), WEFT_OK);
    layout_check(c.made.graph, c.places, layout, 1);
    for (uint32_t at = 0; at < c.ranks; at++)
        assert_int_equal(layout->order[at], at);
    assert_int_equal(layout->ring_count, 1);
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_SWITCH), 3); /* blocks of hosts, pod after pod */
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_HOST), 8);
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_NUMA), 14);
    assert_int_not_equal(layout->nic[0], WEFT_NODE_NONE);
    weft_layout_free(layout);
    /* Cyclic: no host is in one piece. */
    for (uint32_t i = 0; i < 16; i++)
        c.places[i] = made_place(&c.made, c.hosts[i % 4], c.gpus[i % 4][i / 4]);
    assert_int_equal(weft_order_ranks(c.made.graph, c.places, 16, WEFT_ORDER_BY_RANK, &layout), WEFT_OK);
    layout_check(c.made.graph, c.places, layout, 1);
    assert_int_equal(layout->group_count, 1);
    weft_layout_free(layout);
    made_free(&c.made);
}

/* Rings of the whole cluster but for what has no cable: no ring changes the leaf but from pod to pod. */
static void rings_on_rails_of_their_own(void **state)
{
    (void)state;
    const uint32_t keep[8] = {4, 4, 4, 4, 0, 4, 0, 0};
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct cluster c;
        struct weft_layout *layout;
        struct weft_load load;
        cluster_make(&c, keep, seed);
        assert_int_equal(weft_order_ranks(c.made.graph, c.places, c.ranks, 0, &layout), WEFT_OK);
        assert_int_equal(layout->ring_count, 2);
        assert_int_equal(weft_load_rings(c.made.graph, c.places, layout, &load), WEFT_OK);
        assert_int_equal(load.crossings_leaf, 4);
        assert_true(load.highest == 1);
        weft_load_free(&load);
        weft_layout_free(layout);
        made_free(&c.made);
    }
}

/* NICs and no fabric, as when only the machines are known: a ring for each NIC all the same. */
static void rings_without_a_fabric(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t hosts[3];
    struct weft_place places[12];
    for (uint32_t h = 0; h < 3; h++) {
        hosts[h] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", h);
        made_nic(&made, hosts[h], "mlx5_0", -1);
        made_nic(&made, hosts[h], "mlx5_1", -1);
    }
    made_build(&made, 3);
    for (uint32_t r = 0; r < 12; r++)
        places[r] = made_place(&made, hosts[r % 3], MADE_NONE);
    struct weft_layout *layout;
    assert_int_equal(weft_order_ranks(made.graph, places, 12, 0, &layout), WEFT_OK);
    layout_check(made.graph, places, layout, 0);
    assert_int_equal(layout->ring_count, 2);
    assert_int_equal(layout->group_count, 4);
    for (uint32_t r = 0; r < 2; r++) {
        const uint32_t *ring = layout->rings + 12 * (size_t)r;
        for (uint32_t at = 3; at < 12; at += 4) { /* from the last of a host to the first of the next */
            const char *from = made.graph->nodes[made.graph->nodes[layout->nic[ring[at]]].parent].name;
            const char *to =
                made.graph->nodes[made.graph->nodes[layout->nic[ring[(at + 1) % 12]]].parent].name;
            assert_string_equal(from, r ? "mlx5_1" : "mlx5_0");
            assert_string_equal(to, r ? "mlx5_1" : "mlx5_0");
        }
    }
    weft_layout_free(layout);
    made_free(&made);
}

/* Rails that no cable joins: between hosts a ring stays on its rail, as there is no way to another. */
static void rails_that_never_meet(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct made made = {0};
        uint32_t leaves[2][2], hosts[4];
        for (uint32_t rail = 0; rail < 2; rail++) {
            uint32_t spine = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "spine%u", rail);
            for (uint32_t pod = 0; pod < 2; pod++) {
                leaves[pod][rail] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "leaf%u-%u", pod, rail);
                made_cable(&made, leaves[pod][rail], spine, 2);
            }
        }
        for (uint32_t h = 0; h < 4; h++) {
            hosts[h] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", h);
            for (uint32_t rail = 0; rail < 2; rail++)
                made_cable(&made, made_nic(&made, hosts[h], rail ? "b" : "a", -1), leaves[h % 2][rail], 1);
        }
        made_build(&made, seed);
        struct weft_place places[8];
        for (uint32_t r = 0; r < 8; r++)
            places[r] = made_place(&made, hosts[(r + seed) % 4], MADE_NONE);
        struct weft_layout *layout;
        struct weft_load load;
        struct weft_bound bound;
        double delivered = 0;
        assert_int_equal(weft_order_ranks(made.graph, places, 8, 0, &layout), WEFT_OK);
        layout_check(made.graph, places, layout, 0);
        assert_int_equal(layout->ring_count, 2);
        assert_int_equal(layout_groups(layout, WEFT_LEVEL_SWITCH), 2);
        assert_int_equal(weft_load_rings(made.graph, places, layout, &load), WEFT_OK);
        assert_int_equal(weft_load_bound(made.graph, places, 8, layout->nic, 2, &bound), WEFT_OK);
        for (uint32_t e = 0; e < made.graph->edge_count; e++)
            if (made.graph->nodes[made.graph->edges[e].a].kind == WEFT_NODE_PORT ||
                made.graph->nodes[made.graph->edges[e].b].kind == WEFT_NODE_PORT)
                delivered += load.streams[2 * e] + load.streams[2 * e + 1];
        assert_true(delivered == 16); /* each of 4 hosts' flows in 2 rings, out and in: all had a way */
        assert_true(load.highest == 1 && bound.highest == 1);
        assert_int_equal(load.crossings_leaf, 4);
        assert_int_equal(bound.crossings_leaf, 4);
        weft_load_free(&load);
        weft_layout_free(layout);
        made_free(&made);
    }
}

/* A host whose two cables are swapped takes its rails from the leaves: no ring changes the leaf there. */
static void swapped_cables_are_noticed(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct made made = {0};
        uint32_t leaves[2], hosts[6], spine = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "spine");
        struct weft_place places[12];
        for (uint32_t rail = 0; rail < 2; rail++) {
            leaves[rail] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "leaf%u", rail);
            made_cable(&made, leaves[rail], spine, 2);
        }
        for (uint32_t h = 0; h < 6; h++) {
            hosts[h] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", h);
            for (uint32_t rail = 0; rail < 2; rail++)
                made_cable(&made, made_nic(&made, hosts[h], rail ? "b" : "a", (int)rail),
                           leaves[rail ^ (h == 3)], 1);
        }
        made_build(&made, seed);
        for (uint32_t r = 0; r < 12; r++)
            places[r] = made_place(&made, hosts[r % 6], MADE_NONE);
        struct weft_layout *layout;
        struct weft_load load;
        assert_int_equal(weft_order_ranks(made.graph, places, 12, 0, &layout), WEFT_OK);
        layout_check(made.graph, places, layout, 0);
        assert_int_equal(layout->ring_count, 2);
        assert_int_equal(weft_load_rings(made.graph, places, layout, &load), WEFT_OK);
        assert_int_equal(load.crossings_leaf, 0);
        assert_true(load.highest == 1);
        weft_load_free(&load);
        weft_layout_free(layout);
        made_free(&made);
    }
}

/* One host on both leaves: those that are on one stay together. */
static void a_host_that_joins_two_leaves(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct made made = {0};
        uint32_t leaves[2], hosts[7], spine = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "spine");
        static const uint32_t number[7] = {0, 4, 1, 3, 2, 5, 6}; /* of the host that each rank is on */
        static const uint32_t expected[7] = {0, 2, 3, 4, 6, 1, 5};
        struct weft_place places[7];
        for (int i = 0; i < 2; i++) {
            leaves[i] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "leaf%d", i);
            made_cable(&made, leaves[i], spine, 1);
        }
        for (uint32_t h = 0; h < 7; h++) {
            hosts[h] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", h);
            made_cable(&made, hosts[h], leaves[h % 2], 1);
        }
        made_cable(&made, hosts[3], leaves[0], 1);
        made_build(&made, seed);
        for (uint32_t r = 0; r < 7; r++)
            places[r] = made_place(&made, hosts[number[r]], MADE_NONE);
        struct weft_layout *layout;
        struct weft_load load;
        assert_int_equal(weft_order_ranks(made.graph, places, 7, 0, &layout), WEFT_OK);
        layout_check(made.graph, places, layout, 0);
        for (uint32_t at = 0; at < 7; at++)
            assert_int_equal(number[layout->order[at]], expected[at]);
        assert_int_equal(weft_load_ring(made.graph, places, 7, layout->nic, layout->rings, &load), WEFT_OK);
        assert_int_equal(load.crossings_leaf, 2);
        weft_load_free(&load);
        weft_layout_free(layout);
        made_free(&made);
    }
}

/* A fabric in two parts, and places at random on all of it: nothing is lost. */
static void fabrics_in_parts(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int turn = 0; turn < 30; turn++) {
        struct made made = {0};
        uint32_t switches[4], hosts[9];
        struct weft_place places[40];
        for (uint32_t s = 0; s < 4; s++)
            switches[s] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "s%u", s);
        made_cable(&made, switches[0], switches[1], 1);
        for (uint32_t h = 0; h < 9; h++) {
            hosts[h] = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", h);
            for (uint32_t n = made_random(&random, 4); n-- > 0;) {
                char name[2] = {(char)('a' + n), 0};
                uint32_t port = made_nic(&made, hosts[h], name, (int)made_random(&random, 5) - 1);
                if (made_random(&random, 5))
                    made_cable(&made, port, switches[made_random(&random, 4)], 1);
            }
        }
        made_build(&made, random);
        uint32_t ranks = 1 + made_random(&random, 40);
        for (uint32_t r = 0; r < ranks; r++)
            places[r] = made_random(&random, 9) ? made_place(&made, hosts[made_random(&random, 9)], MADE_NONE)
                                                : named("h3");
        struct weft_layout *layout;
        struct weft_load load;
        struct weft_bound bound;
        assert_int_equal(weft_order_ranks(made.graph, places, ranks, 0, &layout), WEFT_OK);
        layout_check(made.graph, places, layout, 0);
        assert_int_equal(weft_load_rings(made.graph, places, layout, &load), WEFT_OK);
        assert_int_equal(weft_load_bound(made.graph, places, ranks, layout->nic, layout->ring_count, &bound),
                         WEFT_OK);
        assert_true(bound.highest <= load.highest + 1e-9);
        assert_true(bound.crossings_leaf <= load.crossings_leaf);
        weft_load_free(&load);
        weft_layout_free(layout);
        made_free(&made);
    }
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
        cmocka_unit_test(along_a_fabric_by_name),
        cmocka_unit_test(the_same_layout_from_any_order_of_facts),
        cmocka_unit_test(groups_of_all_levels),
        cmocka_unit_test(by_rank_along_a_graph),
        cmocka_unit_test(rings_on_rails_of_their_own),
        cmocka_unit_test(rings_without_a_fabric),
        cmocka_unit_test(rails_that_never_meet),
        cmocka_unit_test(swapped_cables_are_noticed),
        cmocka_unit_test(a_host_that_joins_two_leaves),
        cmocka_unit_test(fabrics_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
