/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (orders are computed) */
/* Orders along synthetic fabrics of all sizes, with shuffled ranks: crossings and loads as low as can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/topo_layout.h"
#include "tests/support/topo_made.h"
#include "topo/read.h"
#include "topo/report/order_load.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct fabric {
    const char *text;
    uint32_t ranks_per_host;
    uint32_t rings;
    uint32_t switch_groups; /* of all tiers */
    uint64_t crossings;     /* of one ring */
    double highest;         /* of all rings together */
};

static void fabric_expect(const struct fabric *fabric, uint64_t seed)
{
    struct weft_graph *graph;
    struct weft_place *places;
    struct weft_layout *layout;
    struct weft_load load;
    struct weft_bound bound;
    if (weft_topo_read(fabric->text, &graph))
        fail_msg("%s: %s", fabric->text, weft_error_detail());
    uint32_t ranks = layout_places(graph, fabric->ranks_per_host, seed, &places);
    double start = seconds();
    assert_int_equal(weft_order_ranks(graph, places, ranks, 0, &layout), WEFT_OK);
    double ordered = seconds();
    layout_check(graph, places, layout, 0);
    double checked = seconds();
    assert_int_equal(weft_load_rings(graph, places, layout, &load), WEFT_OK);
    assert_int_equal(weft_load_bound(graph, places, ranks, layout->nic, layout->ring_count, &bound), WEFT_OK);
    print_message("%s: %u ranks, %u rings, %u groups, %u refined: ordered in %.3f s, load in %.3f s; load "
                  "%.4g, bound %.4g; "
                  "crossings %llu, bound %llu\n",
                  fabric->text, ranks, layout->ring_count, layout->group_count, layout->refined,
                  ordered - start, seconds() - checked, load.highest, bound.highest,
                  (unsigned long long)load.crossings_leaf, (unsigned long long)bound.crossings_leaf);
    assert_int_equal(layout->ring_count, fabric->rings);
    assert_int_equal(layout_groups(layout, WEFT_LEVEL_SWITCH), fabric->switch_groups);
    assert_int_equal(load.crossings_leaf, fabric->crossings * fabric->rings);
    assert_int_equal(bound.crossings_leaf, fabric->crossings * fabric->rings);
    assert_true(load.highest < fabric->highest + 1e-9 && load.highest > fabric->highest - 1e-9);
    assert_true(load.highest <= 1.05 * bound.highest);
    weft_load_free(&load);
    weft_layout_free(layout);
    free(places);
    weft_graph_free(graph);
}

static void small_fabrics(void **state)
{
    (void)state;
    const struct fabric fabrics[] = {
        {"fat-tree:leaves=4,nodes-per-leaf=8", 1, 1, 4, 4, 1},
        {"fat-tree:leaves=4,nodes-per-leaf=8,oversubscription=8", 3, 1, 4, 4, 1},
        {"fat-tree:leaves=4,nodes-per-leaf=1", 2, 1, 0, 4, 1},
        {"fat-tree:leaves=3,nodes-per-leaf=3,gpus=4,rails=4", 4, 4, 3, 3, 1},
        {"fat-tree:leaves=3,nodes-per-leaf=3,gpus=2,rails=2", 2, 2, 3, 3, 1},
        {"fat-tree:leaves=4,nodes-per-leaf=8,gpus=8,rails=8,oversubscription=16", 8, 8, 4, 4, 2},
        {"fat-tree:leaves=16,nodes-per-leaf=6,gpus=4,rails=4,rail-optimised=1", 4, 4, 4, 4, 1},
        {"fat-tree:leaves=12,nodes-per-leaf=5,gpus=4,rails=4,rail-optimised=1", 4, 4, 3, 3, 1},
        {"fat-tree:leaves=12,nodes-per-leaf=5,rails=4,rail-optimised=1", 8, 4, 3, 3, 1},
        {"fat-tree:leaves=12,nodes-per-leaf=5,rails=4,rail-optimised=1", 1, 1, 3, 3, 1},
        {"fat-tree:leaves=4,nodes-per-leaf=7,gpus=4,rails=4,rail-optimised=1", 4, 4, 0, 0, 1},
        {"fat-tree:leaves=16,nodes-per-leaf=4,tiers=3,pods=4,oversubscription=4", 2, 1, 20, 16, 1},
        {"fat-tree:leaves=32,nodes-per-leaf=3,gpus=4,rails=4,rail-optimised=1,tiers=3,pods=2", 4, 4, 10, 8,
         1},
    };
    for (size_t i = 0; i < sizeof fabrics / sizeof *fabrics; i++)
        for (uint64_t seed = 0; seed < 4; seed++)
            fabric_expect(&fabrics[i], seed);
}

static void many_ranks(void **state)
{
    (void)state;
    const struct fabric fabrics[] = {
        {"fat-tree:leaves=64,nodes-per-leaf=32,gpus=8,rails=8,oversubscription=4", 8, 8, 64, 64, 1},
        {"fat-tree:leaves=64,nodes-per-leaf=32,gpus=8,rails=8,oversubscription=4,tiers=3,pods=8", 8, 8, 72,
         64, 1},
        {"fat-tree:leaves=512,nodes-per-leaf=32,gpus=8,rails=8,rail-optimised=1,oversubscription=4", 8, 8, 64,
         64, 1},
    };
    for (size_t i = 0; i < sizeof fabrics / sizeof *fabrics; i++)
        fabric_expect(&fabrics[i], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_fabrics),
        cmocka_unit_test(many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
