/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports the ranks of a host open: on hosts made by hand, and which ports are on one network, from trees of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/skip.h"
#include "tests/support/sys_tree.h"
#include "tests/support/topo_made.h"
#include "topo/live/live.h"
#include "topo/share.h"

#define SEEDS     6
#define PORTS_MAX 16
#define RANKS_MAX 32

/* Two NUMA nodes; the first half of the NICs, mlx5_0 and up, is below the first. */
struct machine {
    struct made made;
    uint32_t host, numas[2], nics[PORTS_MAX], ports[PORTS_MAX], count;
    uint32_t network_of[PORTS_MAX];
};

static void machine_begin(struct machine *m)
{
    memset(m, 0, sizeof *m);
    m->host = made_item(&m->made, WEFT_NODE_HOST, MADE_NONE, "h");
    for (uint32_t i = 0; i < 2; i++) {
        m->numas[i] = made_item(&m->made, WEFT_NODE_NUMA, m->host, "numa%u", i);
        m->made.items[m->numas[i]].given.index = (int)i;
    }
}

/* One more NIC with so many ports. */
static void machine_nic(struct machine *m, uint32_t number, uint32_t numa, uint32_t ports)
{
    char name[16];
    snprintf(name, sizeof name, "mlx5_%u", number);
    uint32_t port = made_nic(&m->made, m->numas[numa], name, -1), nic = port - 1;
    snprintf(m->made.items[nic].pci, 32, "0000:%02x:00.0", 0x10 + number);
    for (uint32_t p = 0; p < ports; p++) {
        if (p) {
            port = made_item(&m->made, WEFT_NODE_PORT, nic, "%u", p + 1);
            m->made.items[port].given = m->made.items[m->ports[m->count - 1]].given;
            m->made.items[port].given.index = (int)p + 1;
        }
        m->nics[m->count] = nic;
        m->ports[m->count++] = port;
    }
}

static void machine_make(struct machine *m, uint32_t nics)
{
    machine_begin(m);
    for (uint32_t i = 0; i < nics; i++)
        machine_nic(m, i, i >= (nics + 1) / 2, 1);
}

/* Shares for ranks near these NUMA nodes (-1: anywhere), as text: "0,1|2*,3" is rank 0 with ports 0 and 1, of which 0 is its own,
 * and rank 1 with 2 and 3. The own one has a star where it is not the first. */
static void share(const struct machine *m, const char *numas, uint32_t most, int by_network, char text[512])
{
    struct weft_place places[RANKS_MAX];
    struct weft_port_share shares[RANKS_MAX];
    uint32_t networks[128] = {0}, ranks = (uint32_t)strlen(numas);
    size_t used = 0;
    for (uint32_t r = 0; r < ranks; r++)
        places[r] = made_place(&m->made, m->host, numas[r] == '-' ? MADE_NONE : m->numas[numas[r] - '0']);
    for (uint32_t i = 0; i < m->count; i++)
        networks[m->made.nodes[m->ports[i]]] = m->network_of[i];
    assert_int_equal(
        weft_share_ports(m->made.graph, places, ranks, most, by_network ? networks : NULL, shares), WEFT_OK);
    text[0] = '\0';
    for (uint32_t r = 0; r < ranks; r++) {
        used += (size_t)snprintf(text + used, 512 - used, "%s", r ? "|" : "");
        for (uint32_t i = 0; i < shares[r].count; i++) {
            uint32_t port = 0;
            while (port < m->count && m->made.nodes[m->ports[port]] != shares[r].ports[i])
                port++;
            assert_true(port < m->count);
            used += (size_t)snprintf(text + used, 512 - used, "%s%u%s", i ? "," : "", port,
                                     i && shares[r].own == shares[r].ports[i] ? "*" : "");
        }
        assert_int_equal(shares[r].own == WEFT_NODE_NONE, shares[r].count == 0);
    }
}

/* The same whatever order the graph was made in. */
static void expect(struct machine *m, const char *numas, uint32_t most, int by_network, const char *expected)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char text[512];
        made_build(&m->made, seed);
        share(m, numas, most, by_network, text);
        assert_string_equal(text, expected);
    }
}

static void expect_of(uint32_t nics, const char *numas, uint32_t most, const char *expected)
{
    struct machine m;
    machine_make(&m, nics);
    expect(&m, numas, most, 0, expected);
    made_free(&m.made);
}

static void as_many_ranks_as_ports(void **state)
{
    (void)state;
    expect_of(8, "00001111", 4, "0|1|2|3|4|5|6|7");
    expect_of(8, "01010101", 4, "0|4|1|5|2|6|3|7");
    expect_of(8, "--------", 4, "0|1|2|3|4|5|6|7");
    expect_of(8, "0011----", 4, "0|1|4|5|2|3|6|7");
    expect_of(1, "0", 4, "0");
}

/* All ports have a rank, the near ones first, and no rank has two more than another. */
static void more_ports_than_ranks(void **state)
{
    (void)state;
    expect_of(4, "01", 4, "0,1|2,3");
    expect_of(4, "--", 4, "0,2|1,3");
    expect_of(4, "00", 4, "0,2|1,3");
    expect_of(8, "01", 4, "0,1,2,3|4,5,6,7");
    expect_of(8, "0", 4, "0,1,2,3");
    expect_of(8, "1", 4, "4,5,6,7");
    expect_of(2, "1", 4, "0,1*");
    expect_of(2, "0", 1, "0");
    expect_of(5, "01", 4, "0,1,2|3,4");
    expect_of(8, "01", 2, "0,1|4,5");
    expect_of(12, "-", 16, "0,1,2,3,4,5,6,7,8,9,10,11");
    expect_of(8, "000", 4, "0,3,6|1,4,7|2,5");
}

/* Ranks of one NUMA node share what is near; what is far goes to some of them. */
static void all_ranks_on_one_numa_node(void **state)
{
    (void)state;
    expect_of(2, "00", 4, "0,1|0");
    expect_of(4, "0000", 4, "0,2|1,3|0|1");
}

static void fewer_ports_than_ranks(void **state)
{
    (void)state;
    expect_of(1, "0101", 4, "0|0|0|0");
    expect_of(2, "00001111", 4, "0|0|0|0|1|1|1|1");
    expect_of(2, "0000", 4, "0|0|0|0");
    expect_of(4, "------", 4, "0|1|2|3|0|1");
    expect_of(0, "01", 4, "|");
}

/* Both ports of an adapter go through one slot: a rank gets ports of two adapters before two of one. */
static void adapters_with_two_ports(void **state)
{
    (void)state;
    struct machine m;
    machine_begin(&m);
    machine_nic(&m, 0, 0, 2);
    machine_nic(&m, 1, 0, 2);
    expect(&m, "00", 1, 0, "0|2");
    expect(&m, "00", 4, 0, "0,3|1,2*");
    expect(&m, "0", 2, 0, "0,2");
    expect(&m, "0", 4, 0, "0,1,2,3");
    expect(&m, "000", 4, 0, "0,3|2|1");
    expect(&m, "0000", 4, 0, "0|2|1|3");
    made_free(&m.made);
}

/* A port of at most half the speed is not used, however near; one that is a little slower is. */
static void unequal_speeds(void **state)
{
    (void)state;
    struct machine m;
    machine_make(&m, 4);
    m.made.items[m.ports[2]].given.bytes_per_s /= 2;
    expect(&m, "0011", 4, 0, "0|1|3|3");
    expect(&m, "1", 4, 0, "0,1,3*");
    m.made.items[m.ports[2]].given.bytes_per_s += 1;
    expect(&m, "0011", 4, 0, "0|1|2,3*|3"); /* bandwidth before balance, as in topo/nics.c */
    made_free(&m.made);
    machine_make(&m, 3);
    for (uint32_t i = 0; i < 3; i++) /* nobody says */
        m.made.items[m.ports[i]].given.bytes_per_s = 0;
    expect(&m, "0", 4, 0, "0,1,2");
    made_free(&m.made);
}

static void ports_that_do_not_carry(void **state)
{
    static const enum weft_port_state states[] = {WEFT_PORT_DOWN, WEFT_PORT_INIT, WEFT_PORT_ARMED,
                                                  WEFT_PORT_UNKNOWN};
    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        struct machine m;
        machine_make(&m, 4);
        m.made.items[m.ports[0]].given.state = states[i];
        expect(&m, "0011", 4, 0, "1|1|2|3");
        expect(&m, "0", 4, 0, "1,2,3");
        for (int p = 1; p < 4; p++)
            m.made.items[m.ports[p]].given.state = states[i];
        expect(&m, "01", 4, 0, "|");
        made_free(&m.made);
    }
}

/* Every rank has a port on each network, or all leave it to the caller. */
static void networks_that_do_not_meet(void **state)
{
    (void)state;
    struct machine m;
    machine_make(&m, 2);
    m.network_of[1] = 1;
    expect(&m, "01", 4, 1, "0,1|0,1*");
    expect(&m, "0101", 4, 1, "0,1|0,1*|0,1|0,1*");
    expect(&m, "01", 1, 1, "|");
    made_free(&m.made);
    machine_make(&m, 8);
    for (uint32_t i = 0; i < 8; i++)
        m.network_of[i] = i % 2;
    /* Two ranks have the same two ports, and each owns one of them: otherwise every other port would be nobody's own, and
     * as many rings fewer would be laid. */
    expect(&m, "00001111", 4, 1, "0,1|2,3|0,1*|2,3*|4,5|6,7|4,5*|6,7*");
    expect(&m, "01", 4, 1, "0,1,2,3|4,5,6,7");
    for (uint32_t i = 0; i < 8; i++)
        m.network_of[i] = i;
    expect(&m, "00001111", 4, 1, "|||||||");
    made_free(&m.made);
    machine_make(&m, 4);
    for (uint32_t i = 0; i < 4; i++)
        m.network_of[i] = i;
    expect(&m, "----", 4, 1, "0,1,2,3|0,1*,2,3|0,1,2*,3|0,1,2,3*");
    expect(&m, "0011", 4, 1, "0,1,2,3|0,1*,2,3|0,1,2*,3|0,1,2,3*");
    expect(&m, "10101", 4, 1,
           "0,1,2*,3|0,1,2,3|0,1,2,3*|0,1*,2,3|0,1,2*,3"); /* what is near before what is free */
    made_free(&m.made);
}

/* --- networks */

#define IB "/sys/class/infiniband/"

static void add_port(const char *root, const char *device, const char *layer, const char *gid,
                     const char *second)
{
    static const char *const names[] = {
        "state", "rate", "link_layer", "gids/0", "gids/1", "gid_attrs/ndevs/0", "gid_attrs/ndevs/1"};
    const char *net = strcmp(layer, "Ethernet") == 0 ? device : NULL; /* interfaces are called like devices */
    const char *values[] = {"4: ACTIVE", "100 Gb/sec (4X EDR)", layer, gid, second, net, second ? net : NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, IB "%s/ports/1/%s", device, names[i]);
        if (values[i])
            sys_tree_file(root, path, values[i]);
    }
}

/* The numbers of the networks of a, b, c, ... as characters: "aac" says that the first two are on one. */
static void expect_networks(const char *root, const char *expected)
{
    struct weft_graph *graph;
    uint32_t networks[64], count = 0;
    char text[27] = "";
    assert_int_equal(weft_graph_new("test", "test", &graph), WEFT_OK);
    assert_int_equal(weft_live_host_numas(root, graph), WEFT_OK);
    assert_int_equal(weft_live_rdma(root, graph), WEFT_OK);
    assert_int_equal(weft_graph_finish(graph), WEFT_OK);
    assert_true(graph->node_count <= 64);
    assert_int_equal(weft_live_networks(root, graph, networks), WEFT_OK);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].kind != WEFT_NODE_PORT)
            continue;
        const struct weft_node *first = &graph->nodes[networks[n]];
        assert_int_equal(first->kind, WEFT_NODE_PORT);
        text[count++] = graph->nodes[first->parent].name[0];
    }
    text[count] = '\0';
    assert_string_equal(text, expected);
    weft_graph_free(graph);
}

#define LOCAL "fe80:0000:0000:0000:0000:00ff:fe00:0001"

static void infiniband_subnets(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root);
    add_port(root, "a", "InfiniBand", "fe80:0000:0000:0000:0002:c903:0000:0001", NULL);
    add_port(root, "b", "InfiniBand", "fe80:0000:0000:0000:0002:c903:0000:0002", NULL);
    add_port(root, "c", "InfiniBand", "fec0:0000:0000:0001:0002:c903:0000:0003", NULL);
    add_port(root, "d", "InfiniBand", "fe80:0000:0000:0000:0002:c903:0000:0004", NULL);
    expect_networks(root, "aaca");
    sys_tree_file(root, IB "a/ports/1/sm_lid", "0x1");
    sys_tree_file(root, IB "b/ports/1/sm_lid", "0x1");
    sys_tree_file(root, IB "d/ports/1/sm_lid", "0x7"); /* the default prefix, and another subnet manager */
    expect_networks(root, "aacd");
    sys_tree_remove(root);
}

/* Subnets that have all in common by which they are told apart: a LID that two ports have proves that there are several, and then
 * nobody knows which port is of which. */
static void infiniband_subnets_alike(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root);
    for (int i = 0; i < 4; i++) {
        char gid[64], path[128];
        snprintf(gid, sizeof gid, "%s:0000:0000:%s:0002:c903:0000:000%d", i == 3 ? "fec0" : "fe80",
                 i == 3 ? "0001" : "0000", i + 1);
        add_port(root, names[i], "InfiniBand", gid, NULL);
        snprintf(path, sizeof path, IB "%s/ports/1/sm_lid", names[i]);
        sys_tree_file(root, path, "0x1");
    }
    sys_tree_file(root, IB "a/ports/1/lid", "0x3");
    sys_tree_file(root, IB "b/ports/1/lid", "0x4");
    sys_tree_file(root, IB "c/ports/1/lid", "0x5");
    sys_tree_file(root, IB "d/ports/1/lid", "0x3"); /* of another prefix */
    expect_networks(root, "aaad");
    sys_tree_file(root, IB "c/ports/1/lid", "0x3");
    expect_networks(root, "abcd");
    sys_tree_file(root, IB "c/ports/1/state", "2: INIT"); /* what it says of a LID is old */
    expect_networks(root, "aaad");
    sys_tree_file(root, IB "c/ports/1/state", "4: ACTIVE");
    sys_tree_file(root, IB "c/ports/1/gids/0", "fe80:0000:0000:0000:0002:c903:0000:0001"); /* the same port */
    expect_networks(root, "aaad");
    sys_tree_file(root, IB "a/ports/1/lid", "0x0"); /* not assigned */
    sys_tree_file(root, IB "b/ports/1/lid", "0x0");
    expect_networks(root, "aaad");
    sys_tree_remove(root);
}

#define ROUTES  "/proc/net/route"
#define HEADING "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
/* Connected: 10.7.0.0/16, and 10.0.0.0/8 with flags. */
#define NEAR(interface)        interface "\t0000070A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
#define WIDE(interface, flags) interface "\t0000000A\t00000000\t" flags "\t0\t0\t0\t000000FF\t0\t0\t0\n"

/* The kernel prints addresses as its own processor's numbers. */
static int is_little(void)
{
    uint32_t one;
    memcpy(&one, "\1\0\0", 4);
    return one == 1;
}

static void roce_subnets(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root);
    add_port(root, "a", "Ethernet", LOCAL, "0000:0000:0000:0000:0000:ffff:0a07:0001");
    add_port(root, "b", "Ethernet", LOCAL, "0000:0000:0000:0000:0000:ffff:0a07:0002");
    add_port(root, "c", "Ethernet", LOCAL, "0000:0000:0000:0000:0000:ffff:0a08:0001");
    add_port(root, "d", "Ethernet", LOCAL, "2001:0db8:0000:0001:0000:0000:0000:0001");
    add_port(root, "e", "Ethernet", LOCAL, "2001:0db8:0000:0001:0000:0000:0000:0002");
    add_port(root, "f", "Ethernet", LOCAL, NULL); /* neighbours only, and nothing says who is one */
    add_port(root, "g", "Ethernet", LOCAL, NULL);
    expect_networks(root, "abcddfg"); /* no routes: nobody knows how long the prefixes are */
    if (!is_little())
        TEST_SKIP("the samples are those of a little-endian machine");
    sys_tree_file(root, ROUTES,
                  HEADING "eth0\t00000000\t0100070A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" NEAR("a") NEAR("b")
                      NEAR("c") "broken line\n"
                                "c\t0000080A\t0100070A\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
                                "c\t0000080A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0");
    expect_networks(root, "aacddfg");
    sys_tree_file(root, ROUTES, HEADING WIDE("a", "0001") WIDE("b", "0001") WIDE("c", "0001"));
    expect_networks(root, "aaaddfg");
    sys_tree_file(root, ROUTES, /* the longest mask counts, wherever it stands */
                  HEADING WIDE("a", "0001") WIDE("b", "0001")
                      WIDE("c", "0001") "b\t0200070A\t00000000\t0001\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n");
    expect_networks(root, "abaddfg");
    sys_tree_file(root, ROUTES,
                  HEADING WIDE("a", "0001") WIDE("b", "0000") WIDE("eth0", "0001") WIDE("cc", "0001"));
    expect_networks(root, "abcddfg"); /* one that is not up, and others' */
    sys_tree_remove(root);
}

/* A port has a GID for each VLAN: the route must be that of its interface. */
static void interfaces_of_gids(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root);
    add_port(root, "a", "Ethernet", LOCAL, "0000:0000:0000:0000:0000:ffff:0a07:0001");
    add_port(root, "b", "Ethernet", LOCAL, "0000:0000:0000:0000:0000:ffff:0a07:0002");
    sys_tree_file(root, IB "a/ports/1/gid_attrs/ndevs/1", "a.5");
    sys_tree_file(root, IB "b/ports/1/gid_attrs/ndevs/1", "b.5");
    sys_tree_file(root, ROUTES, HEADING NEAR("a") NEAR("b"));
    expect_networks(root, "ab");
    if (is_little())
        sys_tree_file(root, ROUTES, HEADING NEAR("a.5") NEAR("b.5"));
    expect_networks(root, is_little() ? "aa" : "ab");
    sys_tree_remove(root);
}

/* However many routes there are before those that count, and however long a line is. */
static void many_routes(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    if (!is_little())
        TEST_SKIP("the samples are those of a little-endian machine");
    size_t size = 1 << 17, used;
    char *routes = malloc(size);
    assert_non_null(routes);
    sys_tree_make(root);
    add_port(root, "a", "Ethernet", LOCAL, "0000:0000:0000:0000:0000:ffff:0a07:0001");
    add_port(root, "b", "Ethernet", LOCAL, "0000:0000:0000:0000:0000:ffff:0a07:0002");
    used = (size_t)snprintf(routes, size, "%s%s", HEADING, NEAR("a"));
    memset(routes + used, 'x', 70000);
    used += 70000;
    routes[used++] = '\n';
    while (used < size - 256)
        used += (size_t)snprintf(routes + used, size - used, "%s", WIDE("eth0", "0001"));
    snprintf(routes + used, size - used, "%s", NEAR("b"));
    sys_tree_file(root, ROUTES, routes);
    expect_networks(root, "aa");
    sys_tree_remove(root);
    free(routes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_ranks_as_ports),
        cmocka_unit_test(more_ports_than_ranks),
        cmocka_unit_test(all_ranks_on_one_numa_node),
        cmocka_unit_test(fewer_ports_than_ranks),
        cmocka_unit_test(adapters_with_two_ports),
        cmocka_unit_test(unequal_speeds),
        cmocka_unit_test(ports_that_do_not_carry),
        cmocka_unit_test(networks_that_do_not_meet),
        cmocka_unit_test(infiniband_subnets),
        cmocka_unit_test(infiniband_subnets_alike),
        cmocka_unit_test(roce_subnets),
        cmocka_unit_test(interfaces_of_gids),
        cmocka_unit_test(many_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
