/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads text) */
/* ibnetdiscover's output: what is read of it, also of large and real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/support/topo_asks.h"
#include "tests/support/topo_files.h"
#include "tests/topo/ibnet_small.h"
#include <weft/weft.h>

#define NDR UINT64_C(50000000000)

static struct weft_graph *read_changed(const char *from, const char *to)
{
    char *text = changed(SMALL, from, to);
    struct weft_graph *graph = topo_read(text);
    free(text);
    return graph;
}

/* --- what is read */

static void check_small(const struct weft_graph *graph)
{
    struct weft_edge edge;
    assert_string_equal(graph->format, "ibnetdiscover");
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 2);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 2);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_PORT), 3);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 5);

    uint32_t leaf = topo_node(graph, "leaf-1"), spine = topo_node(graph, "spine-1");
    assert_int_equal(graph->nodes[leaf].guid, 0x100);
    assert_string_equal(weft_graph_attribute(graph, leaf, "description"), "MF0;leaf-1:MQM9700/U1");
    assert_string_equal(weft_graph_attribute(graph, leaf, "lid"), "7");
    assert_string_equal(weft_graph_attribute(graph, leaf, "vendid"), "0x2c9");
    assert_string_equal(weft_graph_attribute(graph, leaf, "devid"), "0xd2f2");
    assert_int_equal(topo_joins(graph, leaf, spine, &edge), 2);
    assert_int_equal(edge.a, leaf);
    assert_int_equal(edge.port_a, 34);
    assert_int_equal(edge.port_b, 2);
    assert_int_equal(edge.links, 1);
    assert_int_equal(edge.flags, 0);
    assert_int_equal(edge.bytes_per_s, NDR);

    uint32_t nic = topo_node(graph, "n1/mlx5_3"), port = topo_child(graph, nic, "1");
    assert_int_equal(graph->nodes[nic].kind, WEFT_NODE_NIC);
    assert_int_equal(graph->nodes[nic].guid, 0xa20);
    assert_int_equal(graph->nodes[nic].rail, 3);
    assert_int_equal(graph->nodes[port].kind, WEFT_NODE_PORT);
    assert_int_equal(graph->nodes[port].index, 1);
    assert_int_equal(graph->nodes[port].rail, 3);
    assert_int_equal(graph->nodes[port].guid, 0xa21);
    assert_int_equal(graph->nodes[port].bytes_per_s, NDR);
    assert_string_equal(weft_graph_attribute(graph, port, "lid"), "22");
    assert_int_equal(topo_joins(graph, port, leaf, &edge), 1);
    assert_int_equal(edge.a == leaf ? edge.port_a : edge.port_b, 2);
    assert_int_equal(edge.a == leaf ? edge.port_b : edge.port_a, 1);

    /* HCA-1 is the first, and half as fast. */
    nic = topo_node(graph, "n2/HCA-1");
    assert_int_equal(graph->nodes[nic].rail, 0);
    assert_int_equal(topo_joins(graph, topo_child(graph, nic, "1"), leaf, &edge), 1);
    assert_int_equal(edge.bytes_per_s, NDR / 2);
    assert_int_equal(graph->nodes[topo_node(graph, "n2")].guid, 0xb10);
    assert_int_equal(graph->nodes[topo_node(graph, "n1")].guid, 0); /* of two cards */
}

static void test_small(void **state)
{
    (void)state;
    struct weft_graph *graph = topo_read(SMALL);
    check_small(graph);
    weft_graph_free(graph);
}

/* Line ends of another system, no line end at the end, a byte order mark, port lines in another order. */
static void test_spelling(void **state)
{
    (void)state;
    char text[2 * sizeof SMALL + 4] = "\xef\xbb\xbf";
    char *to = text + 3;
    for (const char *from = SMALL; *from; from++) {
        if (*from == '\n')
            *to++ = '\r';
        *to++ = *from;
    }
    to[-2] = '\0';
    struct weft_graph *graph = topo_read(text);
    check_small(graph);
    weft_graph_free(graph);

    graph = topo_read(HEAD LEAF_HEAD LEAF_UP LEAF_HOSTS SPINE CAS);
    check_small(graph);
    weft_graph_free(graph);
}

/* With -g: chassis, external port numbers, comments behind the identities; with -f: more behind the speed. */
static void test_groups_and_full(void **state)
{
    (void)state;
    struct weft_graph *graph = topo_read(
        "\nChassis 1 (guid 0x100)\n\n# Spine Nodes\n# Line Nodes\n"
        "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x100\t\t# Chassis 12 (box) slot 3\n"
        "switchguid=0x100(100)\t# ISR9288 line slot 3\n"
        "Switch\t24 \"S-0000000000000100\"\t\t# \"MF0;big:CS7500/L03/U1\" base port 0 lid 7 lmc 0\n"
        "[1][ext 13]\t\"H-0000000000000a10\"[2][ext 4](a11) \t\t# \"n1\" lid 21 4xQDR s=4 w=2 v=8\n"
        "\nHostname: box\nNon-Chassis Nodes\n"
        "\ncaguid=0xa10\nCa\t2 \"H-0000000000000a10\"\t\t# \"n1\" (scp)\n"
        "[2](a11) \t\"S-0000000000000100\"[1][ext 13]\t\t# lid 21 lmc 0 \"big\" lid 7 4xQDR s=4 w=2 v=8\n");
    uint32_t big = topo_node(graph, "big/L03/U1"), host = topo_node(graph, "n1");
    assert_string_equal(weft_graph_attribute(graph, big, "chassis"), "12");
    assert_int_equal(graph->nodes[host].kind, WEFT_NODE_HOST);
    uint32_t nic = topo_child(graph, host, "H-0000000000000a10");
    assert_int_equal(graph->nodes[nic].rail, -1);
    assert_int_equal(graph->nodes[topo_child(graph, nic, "2")].bytes_per_s, UINT64_C(4000000000));
    weft_graph_free(graph);
}

/* Both ports of an adapter: their rails are not told by its name. */
static void test_two_ports(void **state)
{
    (void)state;
    struct weft_graph *graph =
        topo_read("Switch\t36 \"S-0000000000000100\"\t\t# \"sw\" base port 0 lid 7 lmc 0\n"
                  "[1]\t\"H-0000000000000a10\"[1](a11) \t\t# \"n1 mlx4_1\" lid 21 4xFDR\n"
                  "[2]\t\"H-0000000000000a10\"[2](a12) \t\t# \"n1 mlx4_1\" lid 21 4xFDR\n"
                  "\ncaguid=0xa10\nCa\t2 \"H-0000000000000a10\"\t\t# \"n1 mlx4_1\"\n"
                  "[1](a11) \t\"S-0000000000000100\"[1]\t\t# lid 21 lmc 0 \"sw\" lid 7 4xFDR\n"
                  "[2](a12) \t\"S-0000000000000100\"[2]\t\t# lid 22 lmc 0 \"sw\" lid 7 4xFDR\n");
    uint32_t nic = topo_node(graph, "n1/mlx4_1");
    assert_int_equal(graph->nodes[nic].rail, 1);
    assert_int_equal(graph->nodes[topo_child(graph, nic, "1")].rail, -1);
    assert_int_equal(graph->nodes[topo_child(graph, nic, "2")].rail, -1);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 2);
    weft_graph_free(graph);
}

/* Two machines with a cable between them, and a router. */
static void test_no_switch_and_router(void **state)
{
    (void)state;
    struct weft_graph *graph =
        topo_read("Ca\t1 \"H-0000000000000a10\"\t\t# \"n1 mlx5_0\"\n"
                  "[1](a11) \t\"H-0000000000000b10\"[1] (b11) \t\t# lid 1 lmc 0 \"n2 mlx5_0\" lid 2 4xEDR\n"
                  "\nCa\t1 \"H-0000000000000b10\"\t\t# \"n2 mlx5_0\"\n"
                  "[1](b11) \t\"H-0000000000000a10\"[1] (a11) \t\t# lid 2 lmc 0 \"n1 mlx5_0\" lid 1 4xEDR\n");
    assert_int_equal(topo_joins(graph, topo_child(graph, topo_node(graph, "n1/mlx5_0"), "1"),
                                topo_child(graph, topo_node(graph, "n2/mlx5_0"), "1"), NULL),
                     1);
    weft_graph_free(graph);

    graph = topo_read("Switch\t36 \"S-0000000000000100\"\t\t# \"sw\" base port 0 lid 7 lmc 0\n"
                      "[1]\t\"R-0000000000000c10\"[2](c11) \t\t# \"gate\" lid 21 4xHDR\n"
                      "\nrtguid=0xc10\nRt\t2 \"R-0000000000000c10\"\t\t# \"gate\"\n"
                      "[2](c11) \t\"S-0000000000000100\"[1]\t\t# lid 21 lmc 0 \"sw\" lid 7 4xHDR\n");
    uint32_t wait = topo_node(graph, "gate");
    assert_int_equal(graph->nodes[wait].kind, WEFT_NODE_SWITCH);
    assert_string_equal(weft_graph_attribute(graph, wait, "router"), "yes");
    assert_int_equal(topo_joins(graph, wait, topo_node(graph, "sw"), NULL), 1);
    weft_graph_free(graph);
}

static void test_speeds(void **state)
{
    (void)state;
    static const struct {
        const char *speed;
        uint64_t bytes_per_s;
    } cases[] = {
        {"4xNDR", NDR},
        {"4xHDR", NDR / 2},
        {"2xNDR", NDR / 2},
        {"1xXDR", NDR / 2},
        {"4xEDR", 12500000000},
        {"4xSDR", 1000000000},
        {"4x???", 0},
        {"4xunknown", 0},
        {"??NDR", 0},
        {"", 0},
        {"4xNDRNDRNDRNDRNDRNDR", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "Switch\t36 \"S-0000000000000100\"\t\t# \"sw\" base port 0 lid 7 lmc 0\n"
                 "[1]\t\"H-0000000000000a10\"[1](a11) \t\t# \"n1 mlx5_0\" lid 21 %s\n"
                 "Ca\t1 \"H-0000000000000a10\"\t\t# \"n1 mlx5_0\"\n"
                 "[1](a11) \t\"S-0000000000000100\"[1]\t\t# lid 21 lmc 0 \"sw\" lid 7 %s\n",
                 cases[i].speed, cases[i].speed);
        struct weft_graph *graph = topo_read(text);
        struct weft_edge edge;
        assert_int_equal(topo_joins(graph, topo_node(graph, "sw"),
                                    topo_child(graph, topo_node(graph, "n1/mlx5_0"), "1"), &edge),
                         1);
        assert_int_equal(edge.bytes_per_s, cases[i].bytes_per_s);
        weft_graph_free(graph);
    }
    /* One end that does not know its speed believes the other. */
    struct weft_graph *graph = read_changed("\"n1 mlx5_0\" lid 21 4xNDR", "\"n1 mlx5_0\" lid 21 4x???");
    check_small(graph);
    weft_graph_free(graph);
}

/* --- who is whose host */

struct adapter {
    const char *system, *description;
};

/* A switch with these adapters at ports 1, 2, ...; their GUIDs are 0xa01, 0xa02, ... */
static struct weft_graph *read_adapters(const struct adapter *adapters, unsigned count)
{
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "Switch\t64 \"S-0000000000000100\"\t\t# \"sw\" base port 0 lid 7 lmc 0\n");
    for (unsigned i = 1; i <= count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "[%u]\t\"H-0000000000000a%02x\"[1](b%02x) \t\t# \"%s\" lid 1 4xNDR\n", i, i,
                                 i, adapters[i - 1].description);
    for (unsigned i = 1; i <= count; i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            "\nvendid=0x2c9\n%s%s\ncaguid=0xa%02x\nCa\t1 \"H-0000000000000a%02x\"\t\t# \"%s\"\n"
            "[1](b%02x) \t\"S-0000000000000100\"[%u]\t\t# lid 1 lmc 0 \"sw\" lid 7 4xNDR\n",
            *adapters[i - 1].system ? "sysimgguid=0x" : "", adapters[i - 1].system, i, i,
            adapters[i - 1].description, i, i);
    assert_true(used < sizeof text);
    return topo_read(text);
}

/* The name of the host that has adapter `number`. */
static const char *host_of(const struct weft_graph *graph, unsigned number)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].kind == WEFT_NODE_NIC && graph->nodes[i].guid == 0xa00 + number)
            return graph->nodes[graph->nodes[i].parent].name;
    }
    fail_msg("no adapter %u", number);
    return NULL;
}

static void hosts_are(const struct adapter *adapters, const char *const *hosts, unsigned count)
{
    struct weft_graph *graph = read_adapters(adapters, count);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), count);
    for (unsigned i = 0; i < count; i++)
        assert_string_equal(host_of(graph, i + 1), hosts[i]);
    weft_graph_free(graph);
}

static void test_hosts_by_name(void **state)
{
    (void)state;
    static const struct adapter adapters[] = {
        {"1", "n1 mlx5_0"},    {"2", "n1 mlx5_11"},       {"3", "n1.site.example HCA-2"},
        {"4", "n2 ibp12s0f1"}, {"5", "  n2   rocep1s0 "}, {"6", "n3"}};
    static const char *const hosts[] = {"n1", "n1", "n1.site.example", "n2", "n2", "n3"};
    struct weft_graph *graph = read_adapters(adapters, 6);
    for (unsigned i = 0; i < 6; i++)
        assert_string_equal(host_of(graph, i + 1), hosts[i]);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 4);
    assert_int_equal(graph->nodes[topo_node(graph, "mlx5_11")].rail, 11);
    assert_int_equal(graph->nodes[topo_node(graph, "HCA-2")].rail, 1);
    assert_int_equal(graph->nodes[topo_node(graph, "ibp12s0f1")].rail, -1);
    weft_graph_free(graph);
}

/* Makers' texts, empty ones, names of a device alone and common names tell of no host. */
static void test_hosts_without_name(void **state)
{
    (void)state;
    static const struct adapter adapters[] = {{"0e1", "MT4129 ConnectX7   Mellanox Technologies"},
                                              {"0e1", "MT4129 ConnectX7   Mellanox Technologies"},
                                              {"", ""},
                                              {"0e2", "mlx5_0"},
                                              {"0e3", "localhost mlx5_0"},
                                              {"0e4", "localhost mlx5_1"},
                                              {"0e5", "(none) HCA-1"},
                                              {"0e6", "n1 Ethernet"}};
    static const char *const hosts[] = {
        "host-00000000000000e1", "host-00000000000000e1", "host-0000000000000a03", "host-00000000000000e2",
        "host-00000000000000e3", "host-00000000000000e4", "host-00000000000000e5", "host-00000000000000e6"};
    hosts_are(adapters, hosts, 8);
}

/* One name for two machines: neither gets it, also not for the adapters of which only one has its device's name. */
static void test_hosts_that_share_a_name(void **state)
{
    (void)state;
    static const struct adapter adapters[] = {{"0e1", "clone mlx5_0"}, {"0e2", "clone mlx5_0"},
                                              {"0e2", "clone mlx5_1"}, {"0e3", "alone"},
                                              {"0e4", "alone"},        {"0e5", "n1 mlx5_0"}};
    static const char *const hosts[] = {"host-00000000000000e1", "host-00000000000000e2",
                                        "host-00000000000000e2", "host-00000000000000e3",
                                        "host-00000000000000e4", "n1"};
    hosts_are(adapters, hosts, 6);

    /* Two functions of one card may say the same; and the same with more blanks is the same. */
    static const struct adapter one_card[] = {
        {"0e1", "n1"}, {"0e1", "n1"}, {"0e2", "n2 mlx5_0"}, {"0e3", "n2  mlx5_0"}};
    static const char *const places[] = {"n1", "n1", "host-00000000000000e2", "host-00000000000000e3"};
    hosts_are(one_card, places, 4);
}

/* An adapter without a name is in the host of its card, unless that card is in two. */
static void test_hosts_by_card(void **state)
{
    (void)state;
    static const struct adapter adapters[] = {{"0e1", "ConnectX 7"}, {"0e1", "n1 mlx5_0"},
                                              {"0e1", "n1 mlx5_1"},  {"0e2", "n2 mlx5_0"},
                                              {"0e2", "n3 mlx5_0"},  {"0e2", "ConnectX 7"}};
    static const char *const hosts[] = {"n1", "n1", "n1", "n2", "n3", "host-00000000000000e2"};
    hosts_are(adapters, hosts, 6);
}

static void test_aggregation_nodes(void **state)
{
    (void)state;
    static const struct adapter adapters[] = {{"0e1", "n1 mlx5_0"},
                                              {"100", "Mellanox Technologies Aggregation Node"},
                                              {"101", "Mellanox Technologies Aggregation Node"}};
    struct weft_graph *graph = read_adapters(adapters, 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 1);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 1);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 1);
    assert_string_equal(weft_graph_attribute(graph, topo_node(graph, "sw"), "aggregation_nodes"), "2");
    weft_graph_free(graph);
}

/* --- names of switches */

/* Two switches with these descriptions and a cable, which belong to a host's as well. */
static void switches_are(const char *first, const char *second, const char *first_name,
                         const char *second_name)
{
    char text[2048];
    snprintf(text, sizeof text,
             "Switch\t36 \"S-0000000000000100\"\t\t# \"%s\" base port 0 lid 7 lmc 0\n"
             "[1]\t\"S-0000000000000200\"[1]\t\t# \"%s\" lid 8 4xNDR\n"
             "[2]\t\"H-0000000000000a10\"[1](a11) \t\t# \"n1 mlx5_0\" lid 21 4xNDR\n"
             "[3]\t\"S-0000000000000100\"[4]\t\t# \"%s\" lid 7 4xNDR\n"
             "[4]\t\"S-0000000000000100\"[3]\t\t# \"%s\" lid 7 4xNDR\n"
             "Switch\t36 \"S-0000000000000200\"\t\t# \"%s\" base port 0 lid 8 lmc 0\n"
             "[1]\t\"S-0000000000000100\"[1]\t\t# \"%s\" lid 7 4xNDR\n",
             first, second, first, first, second, first);
    struct weft_graph *graph = topo_read(text);
    uint32_t one = topo_node(graph, first_name), other = topo_node(graph, second_name);
    assert_int_equal(graph->nodes[one].guid, 0x100);
    assert_int_equal(graph->nodes[other].guid, 0x200);
    assert_int_equal(topo_joins(graph, one, other, NULL), 1);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 2);
    assert_string_equal(weft_graph_attribute(graph, one, "loop_cables"), "1");
    /* The adapter has no section of its own: its switch's telling makes it. */
    uint32_t nic = topo_node(graph, "mlx5_0");
    assert_string_equal(weft_graph_attribute(graph, nic, "told_by"), "switch");
    assert_int_equal(graph->nodes[topo_child(graph, nic, "1")].guid, 0xa11);
    assert_int_equal(topo_joins(graph, one, topo_child(graph, nic, "1"), NULL), 1);
    weft_graph_free(graph);
}

static void test_switch_names(void **state)
{
    (void)state;
    switches_are("MF0;a:M/U1", "MF0;b:M/L01/U2", "a", "b/L01/U2");
    switches_are("MF0;a:M/U1", "a", "S-0000000000000100", "S-0000000000000200");
    switches_are("", "MF0;odd", "S-0000000000000100", "MF0;odd");
    switches_are("Quantum Mellanox Technologies", "n1", "S-0000000000000100", "S-0000000000000200");
    switches_are("say \"hi\"", "plain", "S-0000000000000100", "plain");
}

/* --- samples */

static void test_sample(void **state)
{
    (void)state;
    char *bytes = topo_sample("ibnetdiscover-2leaf.out", NULL);
    struct weft_graph *graph = topo_read(bytes);
    assert_string_equal(graph->format, "ibnetdiscover");
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 4);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 2);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 4 + 4);
    for (uint32_t i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].kind == WEFT_EDGE_FABRIC)
            assert_int_equal(graph->edges[i].bytes_per_s, NDR);
    uint32_t leaf = topo_node(graph, "leaf-2"), nic = topo_node(graph, "n1/mlx5_1");
    assert_int_equal(topo_joins(graph, leaf, topo_node(graph, "spine-1"), NULL), 2);
    assert_int_equal(topo_joins(graph, leaf, topo_child(graph, nic, "1"), NULL), 1);
    assert_int_equal(graph->nodes[nic].guid, 0xa20);
    assert_int_equal(graph->nodes[nic].rail, 1);
    weft_graph_free(graph);
    free(bytes);
}

static void test_bad_sample(void **state)
{
    (void)state;
    size_t size;
    char *bytes = topo_sample("bad/ibnetdiscover-no-cable.out", &size);
    topo_refuses(weft_read_ibnetdiscover, bytes, size,
                 "file:18: \"H-0000000000000a10\" (\"n1 mlx5_0\") has no cable, expected a line like [1] for "
                 "at least one "
                 "of its 1 ports: the file is cut, or its maker's own port is down");
    free(bytes);
}

/* Hosts, leaf and spine switches, and cables between switches were counted once with grep and awk. */
static void test_real_sample(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    if (topo_file("fabric/ibnetdiscover-ndr.out", &bytes, &size) != 0)
        skip();
    struct weft_graph *graph = topo_read(bytes);
    assert_string_equal(graph->format, "ibnetdiscover");
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 40);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 582 - 40); /* each switch has an aggregation node */
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 121 + 69 + 3); /* named, makers' texts, localhost */
    uint32_t leaves = 0, spines = 0, between = 0, named = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct weft_node *node = &graph->nodes[i];
        leaves += node->kind == WEFT_NODE_SWITCH && strstr(node->name, "IBLEAF") != NULL;
        spines += node->kind == WEFT_NODE_SWITCH && strstr(node->name, "IBSPINE") != NULL;
        named += node->kind == WEFT_NODE_NIC && node->rail >= 0;
        if (node->kind == WEFT_NODE_SWITCH)
            assert_string_equal(weft_graph_attribute(graph, i, "aggregation_nodes"), "1");
    }
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct weft_edge *edge = &graph->edges[i];
        between +=
            graph->nodes[edge->a].kind == WEFT_NODE_SWITCH && graph->nodes[edge->b].kind == WEFT_NODE_SWITCH;
        if (edge->kind == WEFT_EDGE_FABRIC)
            assert_int_equal(edge->bytes_per_s, NDR);
    }
    assert_int_equal(leaves, 31);
    assert_int_equal(spines, 9);
    assert_int_equal(between, 532);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 532 + 542);
    assert_int_equal(named, 542 - 69);
    assert_int_equal(topo_joins(graph, topo_node(graph, "A09-P1-IBLEAF-04-04"),
                                topo_node(graph, "A10-P1-IBSPINE-02"), NULL),
                     2);
    uint32_t nic = topo_node(graph, "a08-p1-dgx-04-c01/mlx5_5");
    assert_int_equal(graph->nodes[nic].guid, UINT64_C(0xe09d7303007a4bd8));
    assert_int_equal(graph->nodes[nic].rail, 5);
    assert_int_equal(
        topo_joins(graph, topo_node(graph, "A09-P1-IBLEAF-04-04"), topo_child(graph, nic, "1"), NULL), 1);
    weft_graph_free(graph);
    free(bytes);
}

static void test_real_bad_sample(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    if (topo_file("fabric/ibnetdiscover-bad.out", &bytes, &size) != 0)
        skip();
    topo_refuses(
        weft_read_ibnetdiscover, bytes, size,
        "file:10: \"H-b8e92403009ca838\" (\"dgx-gb200-n01-c1 HCA-1\") has no cable, expected a line like [1] "
        "for at least one of its 1 ports: the file is cut, or its maker's own port is down");
    free(bytes);
}

/* 20,000 hosts on 625 leaves of 32 under 16 spines, one cable each. */
#define LEAVES 625
#define SPINES 16
#define BELOW  32

static void put_fabric(FILE *to)
{
    for (int leaf = 0; leaf < LEAVES; leaf++) {
        fprintf(to, "Switch\t64 \"S-%016x\"\t\t# \"leaf-%d\" base port 0 lid 1 lmc 0\n", 0x1000 + leaf, leaf);
        for (int i = 0; i < BELOW; i++)
            fprintf(to, "[%d]\t\"H-%016x\"[1](%x)\t\t# \"n%d mlx5_0\" lid 1 4xNDR\n", i + 1,
                    0x100000 + leaf * BELOW + i, 0x100000 + leaf * BELOW + i, leaf * BELOW + i);
        for (int i = 0; i < SPINES; i++)
            fprintf(to, "[%d]\t\"S-%016x\"[%d]\t\t# \"spine-%d\" lid 1 4xNDR\n", BELOW + 1 + i,
                    0x2000 + i * 8 + leaf / 128, leaf % 128 + 1, i * 8 + leaf / 128);
    }
    for (int spine = 0; spine < SPINES * 8; spine++) {
        if (spine % 8 * 128 >= LEAVES)
            continue;
        fprintf(to, "Switch\t128 \"S-%016x\"\t\t# \"spine-%d\" base port 0 lid 1 lmc 0\n", 0x2000 + spine,
                spine);
        for (int leaf = spine % 8 * 128; leaf < spine % 8 * 128 + 128 && leaf < LEAVES; leaf++)
            fprintf(to, "[%d]\t\"S-%016x\"[%d]\t\t# \"leaf-%d\" lid 1 4xNDR\n", leaf % 128 + 1, 0x1000 + leaf,
                    BELOW + 1 + spine / 8, leaf);
    }
    for (int host = 0; host < LEAVES * BELOW; host++)
        fprintf(to,
                "\ncaguid=0x%x\nCa\t1 \"H-%016x\"\t\t# \"n%d mlx5_0\"\n[1](%x) \t\"S-%016x\"[%d]\t\t# lid 1 "
                "lmc 0 "
                "\"leaf-%d\" lid 1 4xNDR\n",
                0x100000 + host, 0x100000 + host, host, 0x100000 + host, 0x1000 + host / BELOW,
                host % BELOW + 1, host / BELOW);
}

static void test_large(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);
    assert_non_null(to);
    put_fabric(to);
    fclose(to);
    struct weft_graph *graph = topo_read(bytes);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 20000);
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), LEAVES + SPINES * 5);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 20000 + LEAVES * SPINES);
    weft_graph_free(graph);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_groups_and_full),
        cmocka_unit_test(test_two_ports),
        cmocka_unit_test(test_no_switch_and_router),
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_hosts_by_name),
        cmocka_unit_test(test_hosts_without_name),
        cmocka_unit_test(test_hosts_that_share_a_name),
        cmocka_unit_test(test_hosts_by_card),
        cmocka_unit_test(test_aggregation_nodes),
        cmocka_unit_test(test_switch_names),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_bad_sample),
        cmocka_unit_test(test_real_sample),
        cmocka_unit_test(test_real_bad_sample),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
