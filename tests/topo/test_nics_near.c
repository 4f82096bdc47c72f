/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (graphs are computed) */
/* The NICs that serve a place best, found by climbing: the same as by asking weft_path_classify() for every NIC of the host, on
 * random machines with everything that classes can follow from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/topo_made.h"
#include "topo/nics_near.h"

enum { SEEDS = 400, ITEMS_MAX = 160 };

static void address_give(struct made_item *item, uint64_t *random)
{
    if (made_random(random, 5))
        snprintf(item->pci, sizeof item->pci, "0000:%02x:%02x.%u", made_random(random, 6),
                 made_random(random, 4), made_random(random, 8));
}

/* Somewhere below: a bridge of any kind, a GPU, or a NIC with up to two ports. */
static void device_add(struct made *made, uint32_t *homes, uint32_t *home_count, uint64_t *random)
{
    static const uint8_t bridges[] = {WEFT_BRIDGE_UNKNOWN, WEFT_BRIDGE_HOST, WEFT_BRIDGE_PORT,
                                      WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_SWITCH};
    uint32_t home = homes[made_random(random, *home_count)], what = made_random(random, 10);
    enum weft_node_kind kind = what < 4 ? WEFT_NODE_BRIDGE : what < 7 ? WEFT_NODE_GPU : WEFT_NODE_NIC;
    uint32_t item = made_item(made, kind, home, "item%u", made->item_count);
    address_give(&made->items[item], random);
    if (kind == WEFT_NODE_BRIDGE) {
        made->items[item].told.bridge = bridges[made_random(random, sizeof bridges)];
        made->items[item].told.flags = made_random(random, 2) ? WEFT_BRIDGE_WHOLE : 0;
        homes[(*home_count)++] = item;
    } else if (kind == WEFT_NODE_NIC) {
        for (uint32_t ports = made_random(random, 3); ports > 0; ports--) {
            uint32_t port = made_item(made, WEFT_NODE_PORT, item, "port%u", made->item_count);
            made->items[port].told.state = (enum weft_port_state)made_random(random, 5);
            made->items[port].told.bytes_per_s = made_random(random, 3) * UINT64_C(50000000000);
        }
    }
}

/* A host, with or without NUMA nodes, and a GPU's own link to some. */
static void machine_make(struct made *made, uint64_t *random)
{
    uint32_t homes[ITEMS_MAX], home_count = 1, numas = made_random(random, 4);
    homes[0] = made_item(made, WEFT_NODE_HOST, MADE_NONE, "h");
    for (uint32_t i = 0; i < numas; i++) {
        homes[home_count] = made_item(made, WEFT_NODE_NUMA, homes[0], "numa%u", i);
        made_item(made, WEFT_NODE_CORE, homes[home_count++], "core%u", i);
    }
    uint32_t wanted = made->item_count + 2 + made_random(random, 40);
    while (made->item_count < wanted)
        device_add(made, homes, &home_count, random);
    for (uint32_t links = made_random(random, 4); links > 0; links--) {
        uint32_t a = made_random(random, made->item_count), b = made_random(random, made->item_count);
        enum weft_node_kind other = made->items[b].told.kind;
        if (a == b || made->items[a].told.kind != WEFT_NODE_GPU ||
            (other != WEFT_NODE_GPU && other != WEFT_NODE_NIC && other != WEFT_NODE_NUMA))
            continue;
        uint32_t cable = made_cable(made, a, b, 1);
        made->cables[cable].told.kind = WEFT_EDGE_GPU_LINK;
    }
}

static int is_down(const struct weft_graph *graph, uint32_t nic)
{
    uint32_t ports = 0, down = 0;
    for (uint32_t at = weft_graph_next_below(graph, nic, WEFT_NODE_PORT, WEFT_NODE_NONE);
         at != WEFT_NODE_NONE; at = weft_graph_next_below(graph, nic, WEFT_NODE_PORT, at)) {
        ports++;
        down += graph->nodes[at].state == WEFT_PORT_DOWN;
    }
    return ports > 0 && ports == down;
}

static int has_end(const struct weft_near *near, uint32_t nic)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < near->end_count; i++) {
        uint32_t node = near->ends[i].node;
        found += node == nic || near->graph->nodes[node].parent == nic;
    }
    return found > 0;
}

/* What the place should find, one NIC after another. Returns how many ends are best. */
static uint32_t every_nic(const struct weft_near *near, uint32_t place, struct weft_near_set *told)
{
    const struct weft_graph *graph = near->graph;
    const struct weft_near_end *first = NULL;
    uint32_t count = 0;
    *told = (struct weft_near_set){.path_class = WEFT_PATH_DIS};
    for (uint32_t i = 0; i < near->end_count; i++) {
        const struct weft_near_end *end = &near->ends[i];
        enum weft_path_class here =
            place == WEFT_NODE_NONE ? WEFT_PATH_LOC : weft_path_classify(graph, place, end->node);
        if (first &&
            (here > told->path_class || (here == told->path_class && end->bytes_per_s < first->bytes_per_s)))
            continue;
        count = first && here == told->path_class && end->bytes_per_s == first->bytes_per_s ? count + 1 : 1;
        first = count == 1 ? end : first;
        told->path_class = here;
    }
    for (uint32_t nic = weft_graph_next_below(graph, near->host, WEFT_NODE_NIC, WEFT_NODE_NONE);
         nic != WEFT_NODE_NONE; nic = weft_graph_next_below(graph, near->host, WEFT_NODE_NIC, nic)) {
        enum weft_path_class here =
            place == WEFT_NODE_NONE ? WEFT_PATH_LOC : weft_path_classify(graph, place, nic);
        told->near += has_end(near, nic) && here <= told->path_class;
        told->nearer_down += is_down(graph, nic) && here < told->path_class;
    }
    return count;
}

static void place_check(struct weft_near *near, uint32_t place)
{
    const struct weft_graph *graph = near->graph;
    struct weft_near_set *set, expected;
    uint32_t best = every_nic(near, place, &expected);
    assert_int_equal(weft_near_look(near, place, &set), WEFT_OK);
    assert_int_equal(set->path_class, expected.path_class);
    assert_int_equal(set->count, best);
    assert_int_equal(set->near, expected.near);
    assert_int_equal(set->nearer_down, expected.nearer_down);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct weft_near_end *end = &near->ends[set->best[i]];
        assert_int_equal(place == WEFT_NODE_NONE ? WEFT_PATH_LOC
                                                 : weft_path_classify(graph, place, end->node),
                         expected.path_class);
        assert_true(end->bytes_per_s == near->ends[set->best[0]].bytes_per_s);
        assert_true(i == 0 || set->best[i] > set->best[i - 1]);
    }
}

static void climbing_finds_what_asking_for_all_does(void **state)
{
    (void)state;
    uint32_t looks = 0, classes[WEFT_PATH_CLASS_COUNT] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct made made = {0};
        uint64_t random = seed;
        machine_make(&made, &random);
        made_build(&made, seed);
        struct weft_near near;
        uint32_t host = made.nodes[0];
        assert_int_equal(weft_near_open(made.graph, host, NULL, &near), WEFT_OK);
        /* Twice, as what one place found may be kept for the next. */
        for (uint32_t i = 0; near.end_count && i < 2 * made.item_count; i++) {
            struct weft_near_set *set;
            uint32_t place = made.nodes[i % made.item_count];
            place_check(&near, place);
            assert_int_equal(weft_near_look(&near, place, &set), WEFT_OK);
            classes[set->path_class]++;
            looks++;
        }
        if (near.end_count)
            place_check(&near, WEFT_NODE_NONE);
        weft_near_close(&near);
        made_free(&made);
    }
    print_message("%u places\n", looks);
    for (int c = WEFT_PATH_LOC; c <= WEFT_PATH_SYS; c++)
        assert_true(classes[c] > 0); /* the machines hold something of everything */
}

static void hosts_without_nics(void **state)
{
    (void)state;
    struct made made = {0};
    struct weft_near near;
    made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h");
    made_build(&made, 0);
    assert_int_equal(weft_near_open(made.graph, made.nodes[0], NULL, &near), WEFT_OK);
    assert_int_equal(near.end_count, 0);
    assert_int_equal(near.nics_up, 0);
    weft_near_close(&near);
    assert_int_equal(weft_near_open(made.graph, WEFT_NODE_NONE, NULL, &near), WEFT_OK);
    assert_int_equal(near.end_count, 0);
    weft_near_close(&near);
    made_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(climbing_finds_what_asking_for_all_does),
        cmocka_unit_test(hosts_without_nics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
