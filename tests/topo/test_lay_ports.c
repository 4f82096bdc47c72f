/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a host matched by what they have in common: as many as can be, the surest first, thousands that are alike too. */
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
#include "topo/lay.h"

enum { SEEDS = 2000, PORTS_MAX = 7, ALIKE = 6000, NO_PORT = -2 };

/* One host's NICs, each with one port or none. */
struct view {
    struct weft_graph *graph;
    uint32_t host;
    struct weft_lay_ports list;
};

static void view_open(struct view *view)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "h");
    assert_int_equal(weft_graph_new("made", "test", &view->graph), WEFT_OK);
    assert_int_equal(weft_graph_add_node(view->graph, &given, &view->host), WEFT_OK);
}

/* number: of its port, -1 for one without, NO_PORT for a NIC without ports. */
static void nic_add(struct view *view, const char *name, uint64_t guid, uint64_t port_guid, int number)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NIC, view->host, name);
    uint32_t nic, port;
    given.guid = guid;
    assert_int_equal(weft_graph_add_node(view->graph, &given, &nic), WEFT_OK);
    if (number == NO_PORT)
        return;
    given = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, "port");
    given.guid = port_guid;
    given.index = number;
    assert_int_equal(weft_graph_add_node(view->graph, &given, &port), WEFT_OK);
}

static void view_close(struct view *view)
{
    weft_lay_free_ports(&view->list);
    weft_graph_free(view->graph);
}

static void match(struct view *fabric, struct view *machine, uint32_t *twin)
{
    struct view *views[] = {fabric, machine};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft_graph_finish(views[i]->graph), WEFT_OK);
        assert_int_equal(weft_lay_list_ports(views[i]->graph, views[i]->host, &views[i]->list), WEFT_OK);
    }
    uint64_t compared = 0;
    assert_int_equal(weft_lay_match_ports(&fabric->list, &machine->list, 0, twin, &compared), WEFT_OK);
}

static int number_of(const struct view *view, uint32_t index)
{
    const struct weft_node *node = &view->graph->nodes[view->list.ports[index]];
    return node->kind == WEFT_NODE_PORT ? node->index : NO_PORT;
}

static int can_pair(const struct view *fabric, uint32_t theirs, const struct view *machine, uint32_t ours)
{
    int a = number_of(fabric, theirs), b = number_of(machine, ours);
    return a < 0 || b < 0 || a == b;
}

/* Along alternating paths. */
static int augment(const struct view *fabric, uint32_t theirs, const struct view *machine, uint8_t *seen,
                   uint32_t *partner)
{
    for (uint32_t k = 0; k < machine->list.count; k++) {
        if (seen[k] || !can_pair(fabric, theirs, machine, k))
            continue;
        seen[k] = 1;
        if (partner[k] == UINT32_MAX || augment(fabric, partner[k], machine, seen, partner)) {
            partner[k] = theirs;
            return 1;
        }
    }
    return 0;
}

static uint32_t most_pairs(const struct view *fabric, const struct view *machine)
{
    uint32_t partner[PORTS_MAX], pairs = 0;
    memset(partner, 0xff, sizeof partner);
    for (uint32_t i = 0; i < fabric->list.count; i++) {
        uint8_t seen[PORTS_MAX] = {0};
        pairs += (uint32_t)augment(fabric, i, machine, seen, partner);
    }
    return pairs;
}

/* All NICs have one GUID, and numbers of ports are told by some. */
static void as_many_as_can_be(void **state)
{
    (void)state;
    uint32_t fewer = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct view views[2] = {0};
        uint64_t random = seed;
        for (int v = 0; v < 2; v++) {
            view_open(&views[v]);
            for (uint32_t i = 1 + made_random(&random, PORTS_MAX); i > 0; i--) {
                char name[16];
                snprintf(name, sizeof name, "%c%u", v ? 'm' : 'f', i);
                /* Without ports on one side only: there the NIC's GUID is the port's too, which is surer. */
                nic_add(&views[v], name, 7, 0,
                        v ? (int)made_random(&random, 6) - 2 : (int)made_random(&random, 5) - 1);
            }
        }
        uint32_t twin[PORTS_MAX], pairs = 0;
        match(&views[0], &views[1], twin);
        uint8_t taken[PORTS_MAX] = {0};
        for (uint32_t i = 0; i < views[0].list.count; i++) {
            if (twin[i] == WEFT_NODE_NONE)
                continue;
            assert_true(twin[i] < views[1].list.count);
            assert_int_equal(taken[twin[i]]++, 0);
            assert_true(can_pair(&views[0], i, &views[1], twin[i]));
            pairs++;
        }
        assert_int_equal(pairs, most_pairs(&views[0], &views[1]));
        fewer += pairs < views[0].list.count;
        view_close(&views[0]);
        view_close(&views[1]);
    }
    assert_true(fewer > 0 && fewer < SEEDS); /* of both kinds */
}

/* A GUID is not given up for a name, though the name would match one more. */
static void the_surest_comes_first(void **state)
{
    (void)state;
    struct view fabric = {0}, machine = {0};
    uint32_t twin[4];
    view_open(&fabric);
    view_open(&machine);
    nic_add(&fabric, "mlx5_0", 0, 0, 1);   /* by name alone, and that one is taken */
    nic_add(&fabric, "mlx5_9", 0, 55, 1);  /* by its port's GUID */
    nic_add(&fabric, "mlx5_8", 66, 0, -1); /* by its NIC's */
    nic_add(&fabric, "mlx5_3", 0, 0, 1);   /* by its name */
    nic_add(&machine, "mlx5_0", 0, 55, 1);
    nic_add(&machine, "mlx5_3", 0, 0, 1);
    nic_add(&machine, "mlx5_2", 66, 0, 2);
    match(&fabric, &machine, twin);
    assert_int_equal(twin[0], WEFT_NODE_NONE);
    assert_int_equal(twin[1], 0);
    assert_int_equal(twin[2], 2);
    assert_int_equal(twin[3], 1);
    view_close(&fabric);
    view_close(&machine);
}

/* As a hostile file may have it. */
static void thousands_with_one_guid(void **state)
{
    (void)state;
    struct view views[2] = {0};
    for (int v = 0; v < 2; v++) {
        view_open(&views[v]);
        for (int i = 0; i < ALIKE; i++) {
            char name[16];
            snprintf(name, sizeof name, "%c%d", v ? 'm' : 'f', i);
            nic_add(&views[v], name, 7, 9, 1);
        }
    }
    uint32_t *twin = malloc(ALIKE * sizeof *twin);
    assert_non_null(twin);
    match(&views[0], &views[1], twin);
    for (uint32_t i = 0; i < ALIKE; i++)
        assert_int_equal(twin[i], i);
    free(twin);
    view_close(&views[0]);
    view_close(&views[1]);
}

static void more_than_can_be_compared(void **state)
{
    (void)state;
    struct view views[2] = {0};
    uint32_t twin;
    for (int v = 0; v < 2; v++) {
        view_open(&views[v]);
        nic_add(&views[v], "mlx5_0", 7, 9, 1);
        assert_int_equal(weft_graph_finish(views[v].graph), WEFT_OK);
        assert_int_equal(weft_lay_list_ports(views[v].graph, views[v].host, &views[v].list), WEFT_OK);
    }
    uint64_t compared = WEFT_LAY_COMPARED_MAX;
    assert_int_equal(weft_lay_match_ports(&views[0].list, &views[1].list, 0, &twin, &compared), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "too many devices in made to lay under made");
    view_close(&views[0]);
    view_close(&views[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_can_be),
        cmocka_unit_test(the_surest_comes_first),
        cmocka_unit_test(thousands_with_one_guid),
        cmocka_unit_test(more_than_can_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
