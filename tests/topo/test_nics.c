/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC of each rank on machines made by hand: nearest, then fastest, then least used; never one that is down. */
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

#define SEEDS 6

/* A host of two NUMA nodes, each with two PCI switches; on each switch one GPU and one NIC. */
struct machine {
    struct made made;
    uint32_t host, numas[2], switches[4], gpus[4], ports[4];
};

static void machine_add(struct machine *m, const char *name)
{
    m->host = made_item(&m->made, WEFT_NODE_HOST, MADE_NONE, "%s", name);
    for (uint32_t i = 0; i < 2; i++) {
        m->numas[i] = made_item(&m->made, WEFT_NODE_NUMA, m->host, "numa%u", i);
        m->made.items[m->numas[i]].given.index = (int)i;
    }
    for (uint32_t i = 0; i < 4; i++) {
        char nic[16];
        uint32_t root = made_item(&m->made, WEFT_NODE_BRIDGE, m->numas[i / 2], "root%u", i);
        m->made.items[root].given.bridge = WEFT_BRIDGE_HOST;
        m->switches[i] = made_item(&m->made, WEFT_NODE_BRIDGE, root, "switch%u", i);
        m->made.items[m->switches[i]].given.bridge = WEFT_BRIDGE_SWITCH;
        m->made.items[m->switches[i]].given.parent_pci = 1;
        m->gpus[i] = made_item(&m->made, WEFT_NODE_GPU, m->switches[i], "gpu%u", i);
        m->made.items[m->gpus[i]].given.index = (int)i;
        m->made.items[m->gpus[i]].given.parent_pci = 1;
        snprintf(m->made.items[m->gpus[i]].pci, 32, "0000:%02x:00.0", 0x10 * i + 1);
        snprintf(nic, sizeof nic, "mlx5_%u", 3 - i); /* its names run the other way */
        m->ports[i] = made_nic(&m->made, m->switches[i], nic, -1);
        snprintf(m->made.items[m->ports[i] - 1].pci, 32, "0000:%02x:00.0", 0x10 * i + 2);
    }
}

/* Expects the port items, by rank. */
static void nics_expect(const struct machine *m, const struct weft_place *places, uint32_t ranks,
                        const uint32_t *expected)
{
    uint32_t nic[16];
    struct weft_layout *layout;
    assert_int_equal(weft_order_nics(m->made.graph, places, ranks, nic, NULL), WEFT_OK);
    assert_int_equal(weft_order_ranks(m->made.graph, places, ranks, 0, &layout), WEFT_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t node = expected[r] == MADE_NONE ? WEFT_NODE_NONE : m->made.nodes[expected[r]];
        assert_int_equal(nic[r], node);
        assert_int_equal(layout->nic[r], node);
    }
    weft_layout_free(layout);
}

/* On the machine as it is, told in several orders. nears: a character for each rank, the number of its GPU, A or B for a NUMA
 * node, - for anywhere. ports: the number of the port that it should have. */
static void scene_expect(const char *nears, const char *ports)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct machine m = {0};
        struct weft_place places[8];
        uint32_t expected[8], ranks = (uint32_t)strlen(nears);
        machine_add(&m, "h");
        made_build(&m.made, seed);
        for (uint32_t r = 0; r < ranks; r++) {
            uint32_t near = nears[r] == '-'   ? MADE_NONE
                            : nears[r] >= 'A' ? m.numas[nears[r] - 'A']
                                              : m.gpus[nears[r] - '0'];
            places[r] = made_place(&m.made, m.host, near);
            expected[r] = m.ports[ports[r] - '0'];
        }
        nics_expect(&m, places, ranks, expected);
        made_free(&m.made);
    }
}

static void the_nearest_for_each_gpu(void **state)
{
    (void)state;
    scene_expect("2031", "2031");
}

static void ports_that_are_down_are_passed_over(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct machine m = {0};
        machine_add(&m, "h");
        m.made.items[m.ports[0]].given.state = WEFT_PORT_DOWN;
        m.made.items[m.ports[3]].given.state = WEFT_PORT_INIT;
        made_build(&m.made, seed);
        struct weft_place places[4];
        for (int r = 0; r < 4; r++)
            places[r] = made_place(&m.made, m.host, m.gpus[r]);
        /* The other of the same NUMA node takes over. */
        nics_expect(&m, places, 4, (uint32_t[]){m.ports[1], m.ports[1], m.ports[2], m.ports[2]});
        made_free(&m.made);
    }
}

static void ports_on_their_way_are_better_than_none(void **state)
{
    (void)state;
    struct machine m = {0};
    machine_add(&m, "h");
    for (int i = 0; i < 4; i++)
        m.made.items[m.ports[i]].given.state = i == 2 ? WEFT_PORT_INIT : WEFT_PORT_DOWN;
    made_build(&m.made, 0);
    struct weft_place place = made_place(&m.made, m.host, m.gpus[0]);
    nics_expect(&m, &place, 1, &m.ports[2]);
    m.made.items[m.ports[2]].given.state = WEFT_PORT_DOWN;
    made_build(&m.made, 0);
    nics_expect(&m, &place, 1, (uint32_t[]){MADE_NONE});
    made_free(&m.made);
}

static void attribute_set(const struct machine *m, uint32_t item, const char *name)
{
    weft_graph_thaw(m->made.graph);
    assert_int_equal(weft_graph_set_attribute(m->made.graph, m->made.nodes[item], name, "x"), WEFT_OK);
    assert_int_equal(weft_graph_finish(m->made.graph), WEFT_OK);
}

/* Expects all four GPUs to have the same port, where every GPU's own one is in this state and port 0 is plain Ethernet: a
 * network device without a sign of RDMA, or with the one that is named. */
static void surest_expect(const int states[4], const char *sign, uint32_t port)
{
    struct machine m = {0};
    struct weft_place places[4];
    uint32_t expected[4];
    machine_add(&m, "h");
    for (int i = 0; i < 4; i++)
        m.made.items[m.ports[i]].given.state = (enum weft_port_state)states[i];
    made_build(&m.made, 0);
    attribute_set(&m, m.ports[0], "net");
    if (sign)
        attribute_set(&m, m.ports[0], sign);
    for (int i = 0; i < 4; i++) {
        places[i] = made_place(&m.made, m.host, m.gpus[i]);
        expected[i] = m.ports[port];
    }
    nics_expect(&m, places, 4, expected);
    made_free(&m.made);
}

static void what_is_known_to_carry_rdma_comes_first(void **state)
{
    (void)state;
    enum { DOWN = WEFT_PORT_DOWN, INIT = WEFT_PORT_INIT, UP = WEFT_PORT_ACTIVE, UNKNOWN = WEFT_PORT_UNKNOWN };
    surest_expect((const int[]){UP, UNKNOWN, UP, INIT}, NULL, 2);
    surest_expect((const int[]){UP, UNKNOWN, DOWN, INIT}, NULL, 1);
    surest_expect((const int[]){UP, INIT, DOWN, INIT}, NULL, 0);
    surest_expect((const int[]){UNKNOWN, INIT, DOWN, INIT}, NULL, 0);
    surest_expect((const int[]){DOWN, INIT, DOWN, DOWN}, NULL, 1);
    /* RDMA over Ethernet. */
    surest_expect((const int[]){UP, UNKNOWN, DOWN, INIT}, "GID0", 0);
    surest_expect((const int[]){UP, UNKNOWN, DOWN, INIT}, "link_layer", 0);
}

/* A function that no driver holds does not carry yet. */
static void nics_without_a_driver_come_late(void **state)
{
    (void)state;
    struct machine m = {0};
    machine_add(&m, "h");
    uint32_t bare = made_item(&m.made, WEFT_NODE_NIC, m.switches[0], "0000:11:00.7");
    for (int i = 0; i < 4; i++)
        m.made.items[m.ports[i]].given.state = i == 3 ? WEFT_PORT_ACTIVE : WEFT_PORT_DOWN;
    made_build(&m.made, 0);
    struct weft_place place = made_place(&m.made, m.host, m.gpus[0]);
    weft_graph_thaw(m.made.graph);
    assert_int_equal(weft_graph_set_attribute(m.made.graph, m.made.nodes[bare], "driver_device", "none"),
                     WEFT_OK);
    assert_int_equal(weft_graph_finish(m.made.graph), WEFT_OK);
    nics_expect(&m, &place, 1, &m.ports[3]);
    made_free(&m.made);
}

static void bandwidth_decides_between_equally_near_ones(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct machine m = {0};
        machine_add(&m, "h");
        uint32_t slow = made_nic(&m.made, m.switches[1], "eth0", -1),
                 fast = made_nic(&m.made, m.switches[1], "eth1", -1);
        m.made.items[slow].given.bytes_per_s = 125000000;
        m.made.items[fast].given.bytes_per_s = 100000000000u;
        made_build(&m.made, seed);
        struct weft_place places[2] = {made_place(&m.made, m.host, m.gpus[1]),
                                       made_place(&m.made, m.host, m.gpus[1])};
        nics_expect(&m, places, 2, (uint32_t[]){fast, fast});
        made_free(&m.made);
    }
}

static void equal_ones_are_used_alike(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct machine m = {0};
        machine_add(&m, "h");
        made_build(&m.made, seed);
        struct weft_place places[10];
        uint32_t nic[10], used[4] = {0};
        for (int r = 0; r < 10; r++)
            places[r] = made_place(&m.made, m.host, r < 2 ? m.gpus[0] : MADE_NONE);
        assert_int_equal(weft_order_nics(m.made.graph, places, 10, nic, NULL), WEFT_OK);
        for (int r = 0; r < 10; r++)
            for (int i = 0; i < 4; i++)
                used[i] += nic[r] == m.made.nodes[m.ports[i]];
        /* Two near GPU 0 have its NIC; the eight that are anywhere make that 3, 3, 2, 2. */
        assert_int_equal(nic[0], m.made.nodes[m.ports[0]]);
        assert_int_equal(nic[1], m.made.nodes[m.ports[0]]);
        assert_int_equal(used[0] + used[1] + used[2] + used[3], 10);
        for (int i = 0; i < 4; i++)
            assert_true(used[i] == 2 || used[i] == 3);
        made_free(&m.made);
    }
}

static void ranks_near_a_numa_node_share_its_nics(void **state)
{
    (void)state;
    /* NICs in the order of the host's tree, not of their names. */
    scene_expect("BBBB", "2323");
}

/* One rank anywhere on NUMA node 0 chooses first and could take either NIC; the next, near GPU 0, has but the one that the first
 * took. */
static void an_early_rank_gives_way_to_a_late_one(void **state)
{
    (void)state;
    scene_expect("A0", "10");
}

/* Ranks that may be anywhere fill up what the others left. */
static void ranks_anywhere_come_last(void **state)
{
    (void)state;
    scene_expect("--001", "23001");
}

/* By address and by name the three would go in a circle: the order in which a source tells them must not decide. */
static void only_some_have_an_address(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
        struct machine m = {0};
        m.host = made_item(&m.made, WEFT_NODE_HOST, MADE_NONE, "h");
        m.numas[0] = made_item(&m.made, WEFT_NODE_NUMA, m.host, "numa0");
        uint32_t first = made_nic(&m.made, m.numas[0], "mlx5_3", -1);
        uint32_t second = made_nic(&m.made, m.numas[0], "mlx5_1", -1);
        uint32_t without = made_nic(&m.made, m.numas[0], "mlx5_2", -1);
        snprintf(m.made.items[first - 1].pci, 32, "0000:01:00.0");
        snprintf(m.made.items[second - 1].pci, 32, "0000:02:00.0");
        made_build(&m.made, seed);
        struct weft_place places[3];
        for (int r = 0; r < 3; r++)
            places[r] = made_place(&m.made, m.host, m.numas[0]);
        nics_expect(&m, places, 3, (uint32_t[]){first, second, without});
        made_free(&m.made);
    }
}

/* A given NIC is kept, near or far, up or down; the others choose as if nobody had it. */
static void places_may_give_nics(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct machine m = {0};
        char text[512];
        struct weft_layout *layout;
        machine_add(&m, "h");
        m.made.items[m.ports[3]].given.state = WEFT_PORT_DOWN;
        made_build(&m.made, seed);
        struct weft_place places[4];
        for (int r = 0; r < 4; r++)
            places[r] = made_place(&m.made, m.host, m.gpus[r]);
        places[0].nic = m.made.nodes[m.ports[2]];
        places[3].nic = m.made.nodes[m.ports[3]];
        places[0].has_nic = places[3].has_nic = 1;
        nics_expect(&m, places, 4, (uint32_t[]){m.ports[2], m.ports[1], m.ports[2], m.ports[3]});
        assert_int_equal(weft_order_ranks(m.made.graph, places, 4, 0, &layout), WEFT_OK);
        weft_order_explain(m.made.graph, places, layout, 0, text, sizeof text);
        assert_non_null(
            strstr(text, "NIC mlx5_1 port 1, SYS from gpu0, 50 GB/s; its own choice, used by 2 ranks\n"));
        weft_layout_free(layout);
        const uint32_t wrong[] = {m.made.nodes[m.gpus[0]], m.made.graph->node_count, WEFT_NODE_NONE};
        for (int i = 0; i < 3; i++) {
            places[0].nic = wrong[i];
            assert_int_equal(weft_order_ranks(m.made.graph, places, 4, 0, &layout), WEFT_INVALID);
            assert_non_null(strstr(weft_error_detail(), "is no port of host h"));
        }
        made_free(&m.made);
    }
}

static void nics_without_ports_and_hosts_without_nics(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t host = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h"),
             bare = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "bare");
    uint32_t nic = made_item(&made, WEFT_NODE_NIC, host, "nic");
    made_build(&made, 0);
    struct weft_place places[3] = {
        made_place(&made, host, MADE_NONE),
        made_place(&made, bare, MADE_NONE),
        {.host_name = "elsewhere", .host = WEFT_NODE_NONE, .near = WEFT_NODE_NONE}};
    uint32_t found[3];
    assert_int_equal(weft_order_nics(made.graph, places, 3, found, NULL), WEFT_OK);
    assert_int_equal(found[0], made.nodes[nic]);
    assert_int_equal(found[1], WEFT_NODE_NONE);
    assert_int_equal(found[2], WEFT_NODE_NONE);
    made_free(&made);
}

static void the_reason_is_given(void **state)
{
    (void)state;
    struct machine m = {0};
    char text[512];
    struct weft_layout *layout;
    machine_add(&m, "h");
    made_build(&m.made, 0);
    struct weft_place places[3] = {
        made_place(&m.made, m.host, m.gpus[2]),
        made_place(&m.made, m.host, MADE_NONE),
        {.host_name = "elsewhere", .host = WEFT_NODE_NONE, .near = WEFT_NODE_NONE}};
    assert_int_equal(weft_order_ranks(m.made.graph, places, 3, 0, &layout), WEFT_OK);
    weft_order_explain(m.made.graph, places, layout, 0, text, sizeof text);
    assert_string_equal(
        text,
        "rank 0: NIC mlx5_1 port 1, PIX from gpu2, 50 GB/s; one of 1 that serve it equally, used by 1 rank\n"
        "rank 0: position 1, after rank 2; with 2 ranks of host h\n");
    weft_order_explain(m.made.graph, places, layout, 1, text, sizeof text);
    assert_non_null(strstr(text, "as nothing tells where in its host it runs"));
    weft_order_explain(m.made.graph, places, layout, 2, text, sizeof text);
    assert_non_null(strstr(text, "no NIC, as its host is not in the graph"));
    assert_non_null(strstr(text, "with 1 rank of host elsewhere"));
    for (size_t size = 1; size < 80; size++) { /* cut, and never beyond */
        memset(text, 'x', sizeof text);
        weft_order_explain(m.made.graph, places, layout, 0, text, size);
        assert_int_equal(strlen(text), size - 1);
        assert_int_equal(text[size], 'x');
    }
    weft_order_explain(m.made.graph, places, layout, 3, text, sizeof text);
    assert_string_equal(text, "rank 3: there are 3");
    weft_layout_free(layout);
    made_free(&m.made);
}

/* A file can tell of hosts that nobody has built: they are refused at once. */
static void hosts_beyond_comparing_are_refused(void **state)
{
    (void)state;
    enum { MANY = 4097 };
    static struct weft_place places[MANY];
    static uint32_t nic[MANY];
    struct made made = {0};
    uint32_t host = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h");
    for (uint32_t i = 0; i < MANY; i++)
        made_item(&made, WEFT_NODE_NIC, host, "nic%u", i);
    made_build(&made, 0);
    for (uint32_t i = 0; i < MANY; i++)
        places[i] = made_place(&made, host, MADE_NONE);
    assert_int_equal(weft_order_nics(made.graph, places, MANY, nic, NULL), WEFT_UNSUPPORTED);
    assert_string_equal(weft_error_detail(),
                        "host h has 4097 NICs for 4097 ranks: more than can be compared");
    made_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_for_each_gpu),
        cmocka_unit_test(ports_that_are_down_are_passed_over),
        cmocka_unit_test(ports_on_their_way_are_better_than_none),
        cmocka_unit_test(what_is_known_to_carry_rdma_comes_first),
        cmocka_unit_test(nics_without_a_driver_come_late),
        cmocka_unit_test(bandwidth_decides_between_equally_near_ones),
        cmocka_unit_test(equal_ones_are_used_alike),
        cmocka_unit_test(ranks_near_a_numa_node_share_its_nics),
        cmocka_unit_test(an_early_rank_gives_way_to_a_late_one),
        cmocka_unit_test(ranks_anywhere_come_last),
        cmocka_unit_test(only_some_have_an_address),
        cmocka_unit_test(places_may_give_nics),
        cmocka_unit_test(nics_without_ports_and_hosts_without_nics),
        cmocka_unit_test(the_reason_is_given),
        cmocka_unit_test(hosts_beyond_comparing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
