/* SPDX-License-Identifier: Apache-2.0 */
/* NICs and cables that do not end at each other: what the rings and the order make of hosts of which the fabric tells a switch alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/topo_layout.h"
#include "tests/support/topo_made.h"
#include "topo/order.h"
#include "topo/report/order_load.h"

#define HOSTS 4
#define RAILS 3
#define RANKS (HOSTS * RAILS)

/* Hosts n0 to n3, by turns on one of two leaves below a spine, each with a NIC for every rail, and a rank for each NIC. */
struct cluster {
    struct made made;
    uint32_t leaves[2], hosts[HOSTS], ports[HOSTS][RAILS], cables[HOSTS];
    struct weft_place places[RANKS];
};

/* at_host: each host has one cable, of the host itself; else each NIC has its own. */
static void cluster_make(struct cluster *c, int at_host, uint64_t seed)
{
    struct made *made = &c->made;
    memset(c, 0, sizeof *c);
    uint32_t spine = made_item(made, WEFT_NODE_SWITCH, MADE_NONE, "spine");
    for (uint32_t l = 0; l < 2; l++) {
        c->leaves[l] = made_item(made, WEFT_NODE_SWITCH, MADE_NONE, "leaf%u", l);
        made_cable(made, c->leaves[l], spine, RAILS);
    }
    for (uint32_t h = 0; h < HOSTS; h++) {
        c->hosts[h] = made_item(made, WEFT_NODE_HOST, MADE_NONE, "n%u", h);
        for (uint32_t n = 0; n < RAILS; n++) {
            char name[8] = {'m', 'l', 'x', '5', '_', (char)('0' + n), 0};
            c->ports[h][n] = made_nic(made, c->hosts[h], name, (int)n);
            if (!at_host)
                made_cable(made, c->ports[h][n], c->leaves[h % 2], 1);
        }
        if (at_host)
            c->cables[h] = made_cable(made, c->hosts[h], c->leaves[h % 2], 1);
    }
    made_build(made, seed);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        c->places[rank] = made_place(made, c->hosts[rank % HOSTS], MADE_NONE);
}

static void give_nic(struct cluster *c, uint32_t rank)
{
    c->places[rank].nic = c->made.nodes[c->ports[rank % HOSTS][rank / HOSTS]];
    c->places[rank].has_nic = 1;
}

/* n0 n2 n1 n3: by leaf. */
static void expect_by_leaf(const struct weft_layout *layout)
{
    static const uint32_t hosts[HOSTS] = {0, 2, 1, 3};
    for (uint32_t at = 0; at < layout->ranks; at++)
        assert_int_equal(layout->order[at] % HOSTS, hosts[at / RAILS]);
}

static void lanes_are_nics(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        for (uint64_t seed = 0; seed < 8; seed++) {
            struct cluster c;
            struct weft_layout *layout;
            struct weft_load load;
            struct weft_bound bound;
            cluster_make(&c, 1, seed);
            for (uint32_t rank = 0; rank < RANKS && given; rank++)
                give_nic(&c, rank);
            assert_int_equal(weft_order_ranks(c.made.graph, c.places, RANKS, 0, &layout), 0);
            layout_check(c.made.graph, c.places, layout, 0);
            assert_int_equal(layout->ring_count, RAILS);
            expect_by_leaf(layout);
            unsigned left_on = 0; /* n0's rails */
            for (uint32_t ring = 0; ring < RAILS; ring++) {
                for (uint32_t at = 0; at < RANKS; at++) {
                    const uint32_t *ranks = layout->rings + (size_t)ring * RANKS;
                    uint32_t from = ranks[at], to = ranks[(at + 1) % RANKS];
                    if (layout->host_of[from] == layout->host_of[to])
                        continue;
                    int rail = c.made.graph->nodes[c.made.graph->nodes[layout->nic[from]].parent].rail;
                    assert_int_equal(rail,
                                     c.made.graph->nodes[c.made.graph->nodes[layout->nic[to]].parent].rail);
                    left_on |= from % HOSTS == 0 ? 1u << rail : 0;
                }
            }
            assert_int_equal(left_on, (1u << RAILS) - 1);
            /* All rings are on the host's cable. */
            assert_int_equal(weft_load_rings(c.made.graph, c.places, layout, &load), 0);
            assert_int_equal(weft_load_bound(c.made.graph, c.places, RANKS, layout->nic, RAILS, &bound), 0);
            assert_true(load.highest == RAILS && bound.highest == RAILS);
            assert_int_equal(load.crossings_leaf, 2 * RAILS);
            weft_load_free(&load);
            weft_layout_free(layout);
            made_free(&c.made);
        }
    }
}

/* WEFT_ORDER_GIVEN_NICS: who is given none has none, takes part in no rail, and hangs where its host does. */
static void given_nics_only(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        for (uint32_t without = 0; without <= RANKS; without += HOSTS) { /* so many ranks */
            struct cluster c;
            struct weft_layout *layout;
            cluster_make(&c, seed % 2, seed);
            for (uint32_t rank = without; rank < RANKS; rank++)
                give_nic(&c, rank);
            assert_int_equal(weft_order_ranks(c.made.graph, c.places, RANKS, WEFT_ORDER_GIVEN_NICS, &layout),
                             0);
            layout_check(c.made.graph, c.places, layout, 0);
            uint32_t rails = RAILS - without / HOSTS;
            assert_int_equal(layout->ring_count, rails ? rails : 1);
            expect_by_leaf(layout);
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                char text[400];
                assert_int_equal(layout->nic[rank], rank < without ? WEFT_NODE_NONE : c.places[rank].nic);
                assert_int_equal(layout->nic_reasons[rank].sharing, rank >= without);
                weft_order_explain(c.made.graph, c.places, layout, rank, text, sizeof text);
                assert_int_equal(strstr(text, "no NIC, as it tells none that it uses") != NULL,
                                 rank < without);
            }
            weft_layout_free(layout);
            made_free(&c.made);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_are_nics),
        cmocka_unit_test(given_nics_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
