/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and routes on small graphs made by hand. */
#include "topo/path.h"
#include "topo/path_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weft/weft.h>

#define GB ((uint64_t)1000000000)

static struct weft_graph *graph;

static int setup(void **state)
{
    (void)state;
    return weft_graph_new("a test", "by hand", &graph);
}

static int teardown(void **state)
{
    (void)state;
    weft_graph_free(graph);
    return 0;
}

static uint32_t add_given(const struct weft_node_given *given)
{
    uint32_t node = WEFT_NODE_NONE;
    assert_int_equal(weft_graph_add_node(graph, given, &node), 0);
    return node;
}

static uint32_t add(enum weft_node_kind kind, uint32_t parent, const char *name)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    return add_given(&given);
}

/* Something on PCI, with its bandwidth to the parent. */
static uint32_t add_pci(enum weft_node_kind kind, uint32_t parent, const char *name, const char *address,
                        uint64_t bytes_per_s)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    given.pci = address;
    given.parent_pci = 1;
    given.parent_bytes_per_s = bytes_per_s;
    given.parent_latency_ns = 100;
    return add_given(&given);
}

static uint32_t add_bridge(uint32_t parent, const char *name, const char *address, enum weft_bridge bridge,
                           unsigned flags)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_BRIDGE, parent, name);
    given.pci = address;
    given.bridge = bridge;
    given.flags = flags;
    given.parent_pci = 1;
    return add_given(&given);
}

static uint32_t join_ports(uint32_t a, int32_t port_a, uint32_t b, int32_t port_b, enum weft_edge_kind kind,
                           uint64_t bytes_per_s, unsigned flags)
{
    struct weft_edge given = {.a = a,
                              .b = b,
                              .kind = (uint8_t)kind,
                              .flags = (uint8_t)flags,
                              .bytes_per_s = bytes_per_s,
                              .port_a = port_a,
                              .port_b = port_b};
    uint32_t edge = WEFT_NODE_NONE;
    assert_int_equal(weft_graph_add_edge(graph, &given, &edge), 0);
    return edge;
}

static uint32_t join(uint32_t a, uint32_t b, enum weft_edge_kind kind, uint64_t bytes_per_s, unsigned flags)
{
    return join_ports(a, -1, b, -1, kind, bytes_per_s, flags);
}

static struct weft_path find(uint32_t a, uint32_t b)
{
    struct weft_path path;
    memset(&path, 0x5a, sizeof path);
    assert_int_equal(weft_path_find(graph, a, b, &path), 0);
    return path;
}

/* The class, the same both ways, alone and with a route whose edges join a and b. */
static void expect_class(uint32_t a, uint32_t b, const char *name)
{
    for (int turn = 0; turn < 2; turn++) {
        struct weft_path path = find(a, b);
        assert_string_equal(weft_path_class_name(path.path_class), name);
        if (path.path_class != WEFT_PATH_DIS) {
            assert_string_equal(weft_path_class_name(weft_path_classify(graph, a, b)), name);
            uint32_t at = a;
            for (uint32_t i = 0; i < path.edge_count; i++) {
                const struct weft_edge *edge = &graph->edges[path.edges[i]];
                assert_true(edge->a == at || edge->b == at);
                at = weft_edge_other(edge, at);
            }
            assert_int_equal(at, b);
        }
        uint32_t swap = a;
        a = b;
        b = swap;
    }
}

/* As NCCL's XML tells: everything on the NUMA node, switches as one bridge each. */
static void test_whole_switches(void **state)
{
    (void)state;
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h");
    uint32_t numa = add(WEFT_NODE_NUMA, host, "numa0"), numa1 = add(WEFT_NODE_NUMA, host, "numa1");
    uint32_t core = add(WEFT_NODE_CORE, numa, "core0"), other_core = add(WEFT_NODE_CORE, numa, "core1");
    uint32_t top = add_bridge(numa, "sw", "0000:0a:00.0", WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_WHOLE);
    uint32_t below = add_bridge(top, "sw1", "0000:0c:00.0", WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_WHOLE);
    /* The same address as its neighbour, as RCCL's files have it, on another bus than the switch above. */
    uint32_t twin = add_bridge(top, "sw2", "0000:0c:01.0", WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_WHOLE);
    uint32_t gpu0 = add_pci(WEFT_NODE_GPU, below, "gpu0", "0000:0d:00.0", 0);
    uint32_t nic0 = add_pci(WEFT_NODE_NIC, below, "nic0", "0000:0e:00.0", 0);
    uint32_t gpu1 = add_pci(WEFT_NODE_GPU, twin, "gpu1", "0000:10:00.0", 0);
    uint32_t nic1 = add_pci(WEFT_NODE_NIC, top, "nic1", "0000:11:00.0", 0);
    uint32_t port0 = add(WEFT_NODE_PORT, nic0, "1"), port1 = add(WEFT_NODE_PORT, nic0, "2");
    uint32_t gpu2 = add_pci(WEFT_NODE_GPU, numa, "gpu2", "0000:20:00.0", 0);
    uint32_t twin_a = add_pci(WEFT_NODE_NIC, numa, "twin0", "0000:30:00.0", 0);
    uint32_t twin_b = add_pci(WEFT_NODE_NIC, numa, "twin1", "0000:30:00.1", 0);
    uint32_t gpu3 = add_pci(WEFT_NODE_GPU, numa1, "gpu3", "0000:40:00.0", 0);
    uint32_t lone = add_pci(WEFT_NODE_NIC, host, "lone", "0000:50:00.0", 0);
    uint32_t rank = add(WEFT_NODE_RANK, gpu0, "0");
    assert_int_equal(weft_graph_finish(graph), 0);
    expect_class(gpu0, gpu0, "LOC");
    expect_class(port0, nic0, "LOC");
    expect_class(port0, port1, "LOC");
    expect_class(gpu0, top, "LOC");
    expect_class(gpu0, host, "LOC");
    expect_class(rank, gpu0, "LOC");
    expect_class(core, other_core, "LOC");
    expect_class(core, numa, "LOC");
    expect_class(gpu0, nic0, "PIX");
    expect_class(gpu0, port1, "PIX");
    expect_class(rank, port1, "PIX");
    expect_class(twin_a, twin_b, "PIX");
    expect_class(gpu0, gpu1, "PXB");
    expect_class(gpu0, nic1, "PXB");
    expect_class(gpu0, gpu2, "PHB");
    expect_class(gpu2, twin_a, "PHB");
    expect_class(gpu0, numa, "PHB");
    expect_class(core, nic0, "PHB");
    expect_class(gpu0, gpu3, "SYS");
    expect_class(core, gpu3, "SYS");
    expect_class(numa, numa1, "SYS");
    expect_class(lone, gpu0, "SYS"); /* nobody told where it is */
}

/* As the system tells: host bridges, root ports, switches as their ports. */
static void test_switch_ports(void **state)
{
    (void)state;
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h"), numa = add(WEFT_NODE_NUMA, host, "numa0");
    uint32_t root = add_bridge(numa, "hb0", NULL, WEFT_BRIDGE_HOST, 0);
    uint32_t root1 = add_bridge(numa, "hb1", NULL, WEFT_BRIDGE_HOST, 0);
    uint32_t port = add_bridge(root, "rp0", "0000:00:01.0", WEFT_BRIDGE_PORT, 0);
    uint32_t up = add_bridge(port, "up", "0000:01:00.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t down0 = add_bridge(up, "d0", "0000:02:00.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t down1 = add_bridge(up, "d1", "0000:02:01.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t down2 = add_bridge(up, "d2", "0000:02:02.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t up2 = add_bridge(down2, "up2", "0000:05:00.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t down3 = add_bridge(up2, "d3", "0000:06:00.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t gpu = add_pci(WEFT_NODE_GPU, down0, "gpu0", "0000:03:00.0", 0);
    uint32_t nic = add_pci(WEFT_NODE_NIC, down1, "nic0", "0000:04:00.0", 0);
    uint32_t nic_b = add_pci(WEFT_NODE_NIC, down1, "nic0b", "0000:04:00.1", 0);
    uint32_t far = add_pci(WEFT_NODE_NIC, down3, "nic1", "0000:07:00.0", 0);
    uint32_t direct = add_pci(WEFT_NODE_NIC, up, "nic2", "0000:02:1f.0", 0);
    uint32_t port1 = add_bridge(root, "rp1", "0000:00:02.0", WEFT_BRIDGE_PORT, 0);
    uint32_t beside = add_pci(WEFT_NODE_NIC, port1, "nic3", "0000:08:00.0", 0);
    uint32_t sharing = add_pci(WEFT_NODE_DEVICE, port1, "sound", "0000:08:01.0", 0);
    uint32_t elsewhere = add_pci(WEFT_NODE_NIC, root1, "nic4", "0000:80:01.0", 0);
    uint32_t bare = add_pci(WEFT_NODE_NIC, numa, "nic5", "0000:90:01.0", 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    expect_class(gpu, nic, "PIX");
    expect_class(nic, nic_b, "PIX");
    expect_class(gpu, direct, "PIX");
    expect_class(beside, sharing, "PIX");
    expect_class(gpu, far, "PXB");
    expect_class(gpu, beside, "PHB");
    expect_class(gpu, elsewhere, "NODE");
    expect_class(gpu, bare, "NODE");
    expect_class(gpu, numa, "PHB");
}

/* Bridges of which nothing is said but addresses. */
static void test_unknown_bridges(void **state)
{
    (void)state;
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h");
    uint32_t up = add_bridge(host, "up", "0000:01:00.0", WEFT_BRIDGE_UNKNOWN, 0);
    uint32_t gpu =
        add_pci(WEFT_NODE_GPU, add_bridge(up, "a", "0000:02:00.0", WEFT_BRIDGE_UNKNOWN, 0), "gpu", NULL, 0);
    uint32_t nic =
        add_pci(WEFT_NODE_NIC, add_bridge(up, "b", "0000:02:01.0", WEFT_BRIDGE_UNKNOWN, 0), "nic", NULL, 0);
    uint32_t far =
        add_pci(WEFT_NODE_NIC, add_bridge(up, "c", "0000:05:00.0", WEFT_BRIDGE_UNKNOWN, 0), "far", NULL, 0);
    uint32_t silent =
        add_pci(WEFT_NODE_NIC, add_bridge(up, "d", NULL, WEFT_BRIDGE_UNKNOWN, 0), "silent", NULL, 0);
    uint32_t twin =
        add_pci(WEFT_NODE_NIC, add_bridge(up, "e", "0000:02:00.0", WEFT_BRIDGE_UNKNOWN, 0), "t", NULL, 0);
    uint32_t other = add_pci(WEFT_NODE_NIC, host, "other", "0000:09:00.0", 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    expect_class(gpu, nic, "PIX");
    expect_class(gpu, far, "PXB");
    expect_class(gpu, silent, "PXB");
    expect_class(gpu, twin, "PXB");
    expect_class(gpu, other, "PHB"); /* a host without NUMA nodes is one */
}

static void test_gpu_links(void **state)
{
    (void)state;
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h");
    uint32_t numa0 = add(WEFT_NODE_NUMA, host, "numa0"), numa1 = add(WEFT_NODE_NUMA, host, "numa1");
    uint32_t gpu0 = add_pci(WEFT_NODE_GPU, numa0, "gpu0", NULL, 16 * GB);
    uint32_t gpu1 = add_pci(WEFT_NODE_GPU, numa0, "gpu1", NULL, 16 * GB);
    uint32_t gpu2 = add_pci(WEFT_NODE_GPU, numa1, "gpu2", NULL, 16 * GB);
    uint32_t coherent = add(WEFT_NODE_GPU, numa1, "gpu3"),
             nic = add_pci(WEFT_NODE_NIC, numa1, "nic", NULL, 0);
    uint32_t link = join(gpu0, gpu2, WEFT_EDGE_GPU_LINK, 25 * GB, WEFT_EDGE_NVLINK);
    join(gpu0, gpu2, WEFT_EDGE_GPU_LINK, 25 * GB, WEFT_EDGE_NVLINK); /* a second cable */
    join(gpu0, gpu1, WEFT_EDGE_GPU_LINK, 25 * GB, WEFT_EDGE_DOWN);
    uint32_t c2c = join(numa1, coherent, WEFT_EDGE_GPU_LINK, 450 * GB, WEFT_EDGE_C2C);
    uint32_t socket = join(numa0, numa1, WEFT_EDGE_SOCKET, 20 * GB, 0);
    uint32_t rank = add(WEFT_NODE_RANK, gpu2, "2");
    assert_int_equal(weft_graph_finish(graph), 0);
    expect_class(gpu0, gpu2, "NVL");
    expect_class(gpu0, rank, "NVL");
    expect_class(gpu0, gpu1, "PHB"); /* its link is down */
    expect_class(coherent, numa1, "NVL");
    struct weft_path path = find(gpu0, gpu2);
    assert_int_equal(path.edge_count, 1);
    assert_int_equal(path.bytes_per_s, 50 * GB);
    assert_int_equal(path.narrowest, link);
    assert_int_equal(path.bandwidth_partly, 0);
    /* GPU 3 has no PCI: over its own link, and nothing is unknown. */
    path = find(coherent, numa0);
    assert_int_equal(path.edge_count, 2);
    assert_int_equal(path.edges[0], c2c);
    assert_int_equal(path.edges[1], socket);
    assert_int_equal(path.bytes_per_s, 20 * GB);
    assert_int_equal(path.bandwidth_partly, 0);
    path = find(nic, coherent);
    assert_int_equal(path.edges[1], c2c);
    assert_int_equal(path.bytes_per_s, 450 * GB);
    assert_int_equal(path.bandwidth_partly, 1);
    path = find(gpu1, gpu2);
    assert_int_equal(path.path_class, WEFT_PATH_SYS);
    assert_int_equal(path.edge_count, 3);
    assert_int_equal(path.edges[1], socket);
    assert_int_equal(path.bytes_per_s, 16 * GB);
    assert_int_equal(path.latency_ns, 200);
}

/* Where nobody tells how many links there are, the rate is that of all; a cable's ports tell the rate of one. */
static void test_links_uncounted(void **state)
{
    (void)state;
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h"), nodes[2], ports[2];
    uint32_t leaf = add(WEFT_NODE_SWITCH, WEFT_NODE_NONE, "leaf");
    for (int i = 0; i < 2; i++) {
        nodes[i] = add(WEFT_NODE_GPU, host, i ? "gpu1" : "gpu0");
        ports[i] = add(WEFT_NODE_PORT, add(WEFT_NODE_NIC, host, i ? "nic1" : "nic0"), "1");
        graph->nodes[ports[i]].bytes_per_s = 50 * GB;
    }
    uint32_t other = add(WEFT_NODE_GPU, host, "gpu2");
    uint32_t link = join(nodes[0], nodes[1], WEFT_EDGE_GPU_LINK, 40 * GB, WEFT_EDGE_LINKS_UNKNOWN);
    join(nodes[0], other, WEFT_EDGE_GPU_LINK, 0, WEFT_EDGE_LINKS_UNKNOWN);
    join(ports[0], leaf, WEFT_EDGE_FABRIC, 0, 0);
    join(ports[1], leaf, WEFT_EDGE_FABRIC, 0, WEFT_EDGE_LINKS_UNKNOWN);
    assert_int_equal(weft_graph_finish(graph), 0);
    struct weft_path path = find(nodes[0], nodes[1]);
    assert_int_equal(path.bytes_per_s, 40 * GB);
    assert_int_equal(path.narrowest, link);
    assert_int_equal(path.bandwidth_partly, 0);
    path = find(nodes[0], other);
    assert_int_equal(path.bytes_per_s, 0);
    assert_int_equal(path.bandwidth_partly, 1);
    assert_int_equal(weft_path_rate(graph, ports[0], leaf, WEFT_EDGE_FABRIC), 50 * GB);
    assert_int_equal(weft_path_rate(graph, ports[1], leaf, WEFT_EDGE_FABRIC), 0);
}

/* NUMA nodes in a ring, one joined with nobody. */
static void test_sockets(void **state)
{
    (void)state;
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h"), numas[5];
    char name[16];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "numa%d", i);
        numas[i] = add(WEFT_NODE_NUMA, host, name);
    }
    uint32_t a = join(numas[0], numas[3], WEFT_EDGE_SOCKET, 5 * GB, 0);
    uint32_t b = join(numas[3], numas[2], WEFT_EDGE_SOCKET, 5 * GB, 0);
    join(numas[0], numas[1], WEFT_EDGE_SOCKET, 4 * GB, 0);
    join(numas[1], numas[2], WEFT_EDGE_SOCKET, 9 * GB, 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    struct weft_path path = find(numas[0], numas[2]); /* the wider of two */
    assert_int_equal(path.edge_count, 2);
    assert_int_equal(path.edges[0], a);
    assert_int_equal(path.edges[1], b);
    assert_int_equal(path.bytes_per_s, 5 * GB);
    path = find(numas[0], numas[4]);
    assert_int_equal(path.path_class, WEFT_PATH_SYS);
    assert_int_equal(path.edge_count, 2);
    assert_int_equal(path.edges[0], graph->nodes[numas[0]].parent_edge);
    assert_int_equal(path.bytes_per_s, 0);
    assert_int_equal(path.narrowest, WEFT_NODE_NONE);
    assert_int_equal(path.bandwidth_partly, 1);
}

/* Host `name` with one NUMA node, a GPU and NIC near each other and a NIC further off. */
struct machine {
    uint32_t host, gpu, near, far;
};

static struct machine add_machine(const char *name)
{
    struct machine made = {.host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, name)};
    uint32_t numa = add(WEFT_NODE_NUMA, made.host, "numa0");
    uint32_t top = add_bridge(numa, "sw", NULL, WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_WHOLE);
    made.gpu = add_pci(WEFT_NODE_GPU, top, "gpu0", NULL, 32 * GB);
    struct weft_node_given port =
        WEFT_NODE_GIVEN(WEFT_NODE_PORT, add_pci(WEFT_NODE_NIC, top, "nic0", NULL, 30 * GB), "1");
    port.bytes_per_s = 25 * GB;
    made.near = add_given(&port);
    port.parent = add_pci(WEFT_NODE_NIC, numa, "nic1", NULL, 30 * GB);
    made.far = add_given(&port);
    return made;
}

static void test_fabric(void **state)
{
    (void)state;
    struct machine one = add_machine("h1"), two = add_machine("h2"), three = add_machine("h3");
    struct machine four = add_machine("h4");
    static const char *const names[] = {"leaf1", "leaf2", "spine2", "spine1", "spine3", "rail"};
    uint32_t sw[6];
    for (int i = 0; i < 6; i++)
        sw[i] = add(WEFT_NODE_SWITCH, WEFT_NODE_NONE, names[i]);
    uint32_t first = join(one.near, sw[0], WEFT_EDGE_FABRIC, 0, 0);
    join(two.near, sw[1], WEFT_EDGE_FABRIC, 0, 0);
    /* Of three spines the third is wider, but half of it is down; the first comes by its name, at its lower port. */
    uint32_t up = WEFT_NODE_NONE, down = WEFT_NODE_NONE;
    for (int spine = 2; spine < 5; spine++) {
        for (int side = 0; side < 2; side++) {
            uint32_t later = join_ports(sw[side], 9, sw[spine], 7, WEFT_EDGE_FABRIC, 10 * GB, 0);
            uint32_t edge = join_ports(sw[spine], 8, sw[side], 2, WEFT_EDGE_FABRIC, 10 * GB,
                                       spine == 4 && side ? WEFT_EDGE_DOWN : 0);
            if (spine == 4)
                graph->edges[later].bytes_per_s = 15 * GB;
            if (spine == 3 && side)
                down = later; /* the smaller port where the step begins */
            else if (spine == 3)
                up = edge;
        }
    }
    join(one.far, sw[5], WEFT_EDGE_FABRIC, 12 * GB, 0);
    join(three.far, sw[5], WEFT_EDGE_FABRIC, 12 * GB, 0);
    uint32_t rank = add(WEFT_NODE_RANK, one.gpu, "0");
    assert_int_equal(weft_graph_finish(graph), 0);

    expect_class(one.gpu, two.gpu, "NET");
    expect_class(one.near, sw[2], "NET");
    expect_class(sw[0], sw[1], "NET");
    expect_class(one.host, two.host, "NET");
    expect_class(rank, two.near, "NET");
    expect_class(sw[0], sw[5], "DIS");
    expect_class(two.gpu, three.gpu, "DIS");
    expect_class(one.near, three.far, "DIS"); /* those two ports do not meet */
    expect_class(one.gpu, four.gpu, "DIS");   /* no cable at all */
    assert_int_equal(weft_path_classify(graph, one.gpu, four.gpu), WEFT_PATH_DIS);

    struct weft_path path = find(one.gpu, two.gpu);
    assert_int_equal(path.edge_count, 3 + 4 + 3);
    assert_int_equal(path.edges[0], graph->nodes[one.gpu].parent_edge);
    assert_int_equal(path.edges[3], first);
    assert_int_equal(path.edges[4], up);
    assert_int_equal(path.edges[5], down);
    assert_int_equal(path.bytes_per_s, 20 * GB); /* two cables of 10 */
    assert_int_equal(path.narrowest, up);
    assert_int_equal(path.bandwidth_partly, 0); /* the port's rate stands for its cable's */
    assert_int_equal(path.latency_ns, 400);
    assert_int_equal(path.direct, WEFT_DIRECT_NO);
    /* The near ports do not meet, the far ones do. */
    path = find(one.gpu, three.gpu);
    assert_int_equal(path.path_class, WEFT_PATH_NET);
    assert_int_equal(path.bytes_per_s, 12 * GB);
}

/* The same fabric in another order of adding has the same route. */
static void test_order_of_adding(void **state)
{
    (void)state;
    char routes[2][256] = {"", ""};
    for (int turn = 0; turn < 2; turn++) {
        uint32_t hosts[2], spines[3];
        char name[16];
        for (int i = 0; i < 2; i++)
            hosts[i] = add(WEFT_NODE_HOST, WEFT_NODE_NONE, (i ^ turn) ? "h1" : "h0");
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "s%d", turn ? 2 - i : i);
            spines[i] = add(WEFT_NODE_SWITCH, WEFT_NODE_NONE, name);
        }
        for (int i = 0; i < 6; i++)
            join(hosts[i % 2], spines[i / 2], WEFT_EDGE_FABRIC, 0, 0);
        assert_int_equal(weft_graph_finish(graph), 0);
        struct weft_path path = find(hosts[turn], hosts[!turn]);
        assert_int_equal(path.bandwidth_partly, 1);
        assert_int_equal(path.bytes_per_s, 0);
        uint32_t at = hosts[turn];
        for (uint32_t i = 0; i < path.edge_count; i++) {
            at = weft_edge_other(&graph->edges[path.edges[i]], at);
            strcat(strcat(routes[turn], " "), graph->nodes[at].name);
        }
        weft_graph_free(graph);
        assert_int_equal(setup(state), 0);
    }
    assert_string_equal(routes[0], " s0 h1");
    assert_string_equal(routes[1], routes[0]);
}

/* Hosts end routes: none leads through one. */
static void test_through_host(void **state)
{
    (void)state;
    uint32_t a = add(WEFT_NODE_SWITCH, WEFT_NODE_NONE, "a"), b = add(WEFT_NODE_SWITCH, WEFT_NODE_NONE, "b");
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h"), left = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "l");
    uint32_t right = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "r");
    join(host, a, WEFT_EDGE_FABRIC, 0, 0);
    join(host, b, WEFT_EDGE_FABRIC, 0, 0);
    join(left, a, WEFT_EDGE_FABRIC, 0, 0);
    join(right, b, WEFT_EDGE_FABRIC, 0, 0);
    struct weft_node_given down = WEFT_NODE_GIVEN(WEFT_NODE_PORT, add(WEFT_NODE_NIC, left, "nic"), "1");
    down.state = WEFT_PORT_DOWN;
    uint32_t port = add_given(&down);
    join(port, b, WEFT_EDGE_FABRIC, 0, 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    expect_class(left, host, "NET");
    expect_class(left, right, "DIS");
    expect_class(port, right, "DIS");
}

static void test_direct(void **state)
{
    (void)state;
    for (int virtual = 0; virtual < 2; virtual ++) {
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, virtual ? "vm" : "h");
        given.flags = virtual ? WEFT_HOST_VIRTUAL : 0;
        uint32_t host = add_given(&given), numa = add(WEFT_NODE_NUMA, host, "numa0");
        uint32_t far = add_pci(WEFT_NODE_NIC, add(WEFT_NODE_NUMA, host, "numa1"), "far", NULL, 0);
        uint32_t top = add_bridge(numa, "sw", NULL, WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_WHOLE);
        uint32_t below = add_bridge(top, "sw1", NULL, WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_WHOLE);
        uint32_t gpu = add_pci(WEFT_NODE_GPU, top, "gpu", NULL, 0);
        uint32_t pix = add_pci(WEFT_NODE_NIC, top, "pix", NULL, 0);
        uint32_t port = add(WEFT_NODE_PORT, pix, "1");
        uint32_t pxb = add_pci(WEFT_NODE_NIC, below, "pxb", NULL, 0);
        uint32_t phb = add_pci(WEFT_NODE_NIC, numa, "phb", NULL, 0);
        weft_graph_thaw(graph);
        assert_int_equal(weft_graph_finish(graph), 0);
        assert_int_equal(find(gpu, pix).direct, WEFT_DIRECT_SENSIBLE);
        assert_int_equal(find(port, gpu).direct, WEFT_DIRECT_SENSIBLE);
        assert_int_equal(find(gpu, pxb).direct, WEFT_DIRECT_SENSIBLE);
        assert_int_equal(find(gpu, phb).direct, virtual ? WEFT_DIRECT_UNKNOWN : WEFT_DIRECT_POSSIBLE);
        assert_int_equal(find(gpu, far).direct, virtual ? WEFT_DIRECT_UNKNOWN : WEFT_DIRECT_NO);
        assert_int_equal(find(pix, phb).direct, WEFT_DIRECT_NO);
        assert_int_equal(find(gpu, gpu).direct, WEFT_DIRECT_NO);
        weft_graph_thaw(graph);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    uint32_t host = add(WEFT_NODE_HOST, WEFT_NODE_NONE, "h"), parent = host;
    uint32_t gpu = add(WEFT_NODE_GPU, host, "gpu"), at[80];
    for (int i = 0; i < 80; i++)
        at[i] = parent = add_bridge(parent, "b", NULL, WEFT_BRIDGE_SWITCH, WEFT_BRIDGE_WHOLE);
    struct weft_path path = {.edge_count = 77};
    assert_int_equal(weft_path_find(graph, gpu, parent, &path), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "unfinished"));
    assert_int_equal(weft_graph_finish(graph), 0);
    assert_int_equal(weft_path_find(graph, gpu, at[63], &path), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "more than 64 edges"));
    assert_int_equal(weft_path_find(graph, gpu, graph->node_count, &path), WEFT_INVALID);
    assert_int_equal(path.edge_count, 77);
    assert_int_equal(find(gpu, at[62]).edge_count, 64);
    weft_graph_thaw(graph);
    /* A chain of switches. */
    uint32_t first = WEFT_NODE_NONE, last = WEFT_NODE_NONE;
    char name[8];
    for (int i = 0; i < 66; i++) {
        snprintf(name, sizeof name, "s%d", i);
        uint32_t next = add(WEFT_NODE_SWITCH, WEFT_NODE_NONE, name);
        if (i)
            join(last, next, WEFT_EDGE_FABRIC, UINT64_MAX, 0); /* two such are no number any more */
        last = next;
        first = i ? first : next;
    }
    join(first, first + 1, WEFT_EDGE_FABRIC, UINT64_MAX - 1, 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    assert_int_equal(weft_path_find(graph, first, last, &path), WEFT_INVALID);
    path = find(first, last - 1);
    assert_int_equal(path.edge_count, 64);
    assert_int_equal(path.path_class, WEFT_PATH_NET);
    assert_int_equal(path.bandwidth_partly, 1);
}

static void test_words(void **state)
{
    (void)state;
    static const char *const names[] = {"LOC", "NVL", "PIX", "PXB", "PHB", "NODE", "SYS", "NET", "DIS", "?"};
    for (int i = 0; i <= WEFT_PATH_CLASS_COUNT; i++) {
        assert_string_equal(weft_path_class_name((enum weft_path_class)i), names[i]);
        assert_true(strlen(weft_path_class_text((enum weft_path_class)i)) > 10 || i == WEFT_PATH_CLASS_COUNT);
    }
    assert_string_equal(weft_path_class_text(WEFT_PATH_PIX), "at most one PCI switch between them");
    for (int i = WEFT_DIRECT_NO; i < WEFT_DIRECT_SENSIBLE; i++)
        assert_string_not_equal(weft_direct_text((enum weft_direct)i),
                                weft_direct_text(WEFT_DIRECT_SENSIBLE));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_whole_switches), TEST(test_switch_ports),    TEST(test_unknown_bridges),
        TEST(test_gpu_links),      TEST(test_sockets),         TEST(test_links_uncounted),
        TEST(test_fabric),         TEST(test_order_of_adding), TEST(test_through_host),
        TEST(test_direct),         TEST(test_bounds),          TEST(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
