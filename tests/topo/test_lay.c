/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (layouts are computed) */
/* Machines laid under fabrics. */
#include "topo/discover/discover.h"
#include "topo/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/topo_asks.h"
#include "tests/support/topo_files.h"
#include "topo/path.h"

static uint32_t joined, added;

static struct weft_graph *new_graph(const char *source)
{
    struct weft_graph *graph = NULL;
    assert_int_equal(weft_graph_new(source, "by hand", &graph), 0);
    return graph;
}

static uint32_t add(struct weft_graph *graph, enum weft_node_kind kind, uint32_t parent, const char *name,
                    uint64_t guid, int32_t index)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    given.guid = guid;
    given.index = index;
    uint32_t node = WEFT_NODE_NONE;
    assert_int_equal(weft_graph_add_node(graph, &given, &node), 0);
    return node;
}

static uint32_t join(struct weft_graph *graph, uint32_t a, uint32_t b, enum weft_edge_kind kind)
{
    struct weft_edge given = {
        .a = a, .b = b, .kind = (uint8_t)kind, .bytes_per_s = 5, .port_a = -1, .port_b = 4};
    uint32_t edge = WEFT_NODE_NONE;
    assert_int_equal(weft_graph_add_edge(graph, &given, &edge), 0);
    return edge;
}

static int is_there(const struct weft_graph *graph, const char *name)
{
    uint32_t node;
    return weft_graph_find(graph, name, &node) == 0;
}

static struct weft_graph *lay(struct weft_graph *machines, struct weft_graph *fabric, int everywhere)
{
    struct weft_graph *graph = NULL;
    assert_int_equal(weft_graph_finish(machines), 0);
    assert_int_equal(weft_graph_finish(fabric), 0);
    joined = added = 77;
    if (weft_fabric_lay(machines, fabric, everywhere, &graph, &joined, &added) != 0)
        fail_msg("%s", weft_error_detail());
    assert_int_equal(graph->finished, 1);
    return graph;
}

/* What is at the other end of the node's only cable. */
static const char *cabled_to(const struct weft_graph *graph, const char *name)
{
    uint32_t count, node = topo_node(graph, name), cables = 0;
    const char *other = "nothing";
    const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (edge->kind == WEFT_EDGE_FABRIC) {
            other = graph->nodes[weft_edge_other(edge, node)].name;
            cables++;
        }
    }
    assert_true(cables <= 1);
    return other;
}

/* A machine: two NUMA nodes, a GPU and a NIC with two ports on the first, a NIC without ports on the second. */
static void add_machine(struct weft_graph *graph, const char *name, uint64_t nic_guid, uint64_t port_guid)
{
    uint32_t host = add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE, name, 0, -1);
    uint32_t numa0 = add(graph, WEFT_NODE_NUMA, host, "numa0", 0, 0);
    uint32_t numa1 = add(graph, WEFT_NODE_NUMA, host, "numa1", 0, 1);
    uint32_t gpu = add(graph, WEFT_NODE_GPU, numa0, "gpu0", 0, 0);
    uint32_t nic = add(graph, WEFT_NODE_NIC, numa0, "mlx5_0", nic_guid, -1);
    add(graph, WEFT_NODE_PORT, nic, "mlx5_0:1", 0, 1);
    add(graph, WEFT_NODE_PORT, nic, "mlx5_0:2", port_guid, 2);
    add(graph, WEFT_NODE_NIC, numa1, "mlx5_1", 0, -1);
    uint32_t socket = join(graph, numa0, numa1, WEFT_EDGE_SOCKET);
    graph->edges[socket].latency_ns = 9;
    assert_int_equal(weft_graph_set_attribute(graph, gpu, "sm", "90"), 0);
}

static uint32_t add_adapter(struct weft_graph *graph, uint32_t host, const char *name, uint64_t guid,
                            int32_t port_number, uint64_t port_guid, uint32_t leaf)
{
    char text[8];
    snprintf(text, sizeof text, "%d", port_number);
    uint32_t nic = add(graph, WEFT_NODE_NIC, host, name, guid, -1);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, text);
    given.index = port_number;
    given.guid = port_guid;
    given.bytes_per_s = 7;
    given.rail = 3;
    uint32_t port = WEFT_NODE_NONE;
    assert_int_equal(weft_graph_add_node(graph, &given, &port), 0);
    join(graph, port, leaf, WEFT_EDGE_FABRIC);
    return port;
}

static void test_by_hand(void **state)
{
    (void)state;
    struct weft_graph *machines = new_graph("machines"), *fabric = new_graph("fabric");
    add_machine(machines, "h1", 0, 0);
    add_machine(machines, "h2.cluster", 0, 0);    /* found by the part before the dot */
    add_machine(machines, "renamed", 0x51, 0x52); /* found by a GUID */
    add_machine(machines, "alone", 0, 0);
    uint32_t leaf = add(fabric, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "leaf", 0xabc, -1);
    uint32_t spine = add(fabric, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "spine", 0, -1);
    join(fabric, leaf, spine, WEFT_EDGE_FABRIC);
    uint32_t h1 = add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h1", 0, -1);
    add_adapter(fabric, h1, "mlx5_0", 0x11, 2, 0x12, leaf);
    add_adapter(fabric, h1, "mlx5_1", 0, 1, 0, spine);
    add_adapter(fabric, h1, "mlx5_9", 0, 1, 0, spine); /* nothing in the machine */
    uint32_t h2 = add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h2", 0, -1);
    add_adapter(fabric, h2, "mlx5_0", 0, 1, 0, leaf);
    uint32_t h3 = add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "HCA-1", 0, -1);
    add_adapter(fabric, h3, "a name", 0x51, 1, 0, leaf);
    add_adapter(fabric, h3, "other name", 0, 7, 0x52, spine);
    uint32_t h4 = add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h4", 0, -1);
    add_adapter(fabric, h4, "mlx5_0", 0, 1, 0, leaf);
    assert_int_equal(weft_graph_set_attribute(fabric, leaf, "lid", "5"), 0);

    struct weft_graph *graph = lay(machines, fabric, 0);
    weft_graph_free(machines);
    weft_graph_free(fabric);
    assert_int_equal(joined, 2 + 1 + 2);
    assert_int_equal(added, 1);
    assert_string_equal(graph->source, "machines under fabric");
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST), 5);
    assert_string_equal(cabled_to(graph, "h1/mlx5_0:2"), "leaf");
    assert_string_equal(cabled_to(graph, "h1/mlx5_0:1"), "nothing");
    assert_string_equal(cabled_to(graph, "h1/mlx5_1"), "spine"); /* a NIC of which no port is known */
    assert_string_equal(cabled_to(graph, "h1/mlx5_9/1"), "spine");
    assert_string_equal(cabled_to(graph, "h2.cluster/mlx5_0:1"), "leaf");
    assert_string_equal(cabled_to(graph, "renamed/mlx5_0:1"), "leaf");
    assert_string_equal(cabled_to(graph, "renamed/mlx5_0:2"), "spine");
    assert_string_equal(cabled_to(graph, "h4/mlx5_0/1"), "leaf");
    assert_string_equal(cabled_to(graph, "alone/mlx5_0:1"), "nothing");
    assert_false(is_there(graph, "HCA-1"));
    assert_false(is_there(graph, "h2"));
    const struct weft_node *port = &graph->nodes[topo_node(graph, "h1/mlx5_0:2")];
    assert_int_equal(port->guid, 0x12);
    assert_int_equal(port->bytes_per_s, 7);
    assert_int_equal(port->rail, 3);
    assert_int_equal(graph->nodes[topo_node(graph, "leaf")].guid, 0xabc);
    assert_string_equal(weft_graph_attribute(graph, topo_node(graph, "leaf"), "lid"), "5");
    assert_string_equal(weft_graph_attribute(graph, topo_node(graph, "renamed/gpu0"), "sm"), "90");
    struct weft_path path;
    assert_int_equal(
        weft_path_find(graph, topo_node(graph, "alone/numa0"), topo_node(graph, "alone/numa1"), &path), 0);
    assert_int_equal(path.latency_ns, 9);
    assert_int_equal(weft_path_find(graph, topo_node(graph, "h1/gpu0"), topo_node(graph, "h4"), &path), 0);
    assert_string_equal(weft_path_class_name(path.path_class), "NET");
    assert_int_equal(weft_path_find(graph, topo_node(graph, "alone/gpu0"), topo_node(graph, "h4"), &path), 0);
    assert_string_equal(weft_path_class_name(path.path_class), "DIS");
    weft_graph_free(graph);
}

/* Names that fit several hosts fit none. */
static void test_ambiguous(void **state)
{
    (void)state;
    struct weft_graph *machines = new_graph("machines"), *fabric = new_graph("fabric");
    add_machine(machines, "h1", 0, 0);
    add_machine(machines, "h2.a", 0, 0);
    add_machine(machines, "h2.b", 0, 0);
    add_machine(machines, "x", 0x77, 0);
    add_machine(machines, "y", 0x77, 0);
    add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h1.a", 0, -1);
    add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h1.b", 0, -1);
    add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h2", 0, -1);
    add(fabric, WEFT_NODE_NIC, add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "z", 0, -1), "nic", 0x77, -1);
    struct weft_graph *graph = lay(machines, fabric, 0);
    assert_int_equal(joined, 0);
    assert_int_equal(added, 4);
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST), 9);
    weft_graph_free(graph);
    weft_graph_free(machines);
    weft_graph_free(fabric);
}

/* A fabric that tells hosts and no ports, and what both graphs tell of one host. */
static void test_hosts_only(void **state)
{
    (void)state;
    struct weft_graph *machines = new_graph("machines"), *fabric = new_graph("fabric");
    add_machine(machines, "h1", 0, 0);
    uint32_t own_leaf = add(machines, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "leaf", 0, -1);
    uint32_t nv = add(machines, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "nv", 0, -1);
    join(machines, own_leaf, nv, WEFT_EDGE_FABRIC);
    uint32_t leaf = add(fabric, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "leaf", 0, -1);
    uint32_t h1 = add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h1", 0, -1);
    uint32_t h2 = add(fabric, WEFT_NODE_HOST, WEFT_NODE_NONE, "h2", 0, -1);
    join(fabric, h1, leaf, WEFT_EDGE_FABRIC);
    join(fabric, h2, leaf, WEFT_EDGE_FABRIC);
    /* Its inside as the fabric's source tells it is left out; a device on the host under the name of another is not. */
    uint32_t numa = add(fabric, WEFT_NODE_NUMA, h1, "numa7", 0, 7);
    add(fabric, WEFT_NODE_GPU, numa, "gpu7", 0, 7);
    add(fabric, WEFT_NODE_NIC, numa, "numa1", 0, -1);
    struct weft_graph *graph = lay(machines, fabric, 0);
    assert_int_equal(joined, 1);
    assert_int_equal(added, 1);
    assert_string_equal(cabled_to(graph, "h1"), "leaf");
    assert_string_equal(cabled_to(graph, "nv"), "leaf");
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_SWITCH), 2);
    assert_int_equal(weft_graph_count_below(graph, topo_node(graph, "h1"), WEFT_NODE_GPU), 1);
    assert_int_equal(graph->nodes[topo_node(graph, "h1/numa1@fabric")].kind, WEFT_NODE_NIC);
    assert_int_equal(graph->nodes[topo_node(graph, "h1/numa1")].kind, WEFT_NODE_NUMA);
    weft_graph_free(graph);
    weft_graph_free(machines);
    weft_graph_free(fabric);
}

static void test_everywhere(void **state)
{
    (void)state;
    struct weft_graph *machines = topo_read("machine:gpus=4,nics=12,cores=2,numas=2,pci-switches=4");
    struct weft_graph *fabric =
        topo_read("fat-tree:leaves=12,nodes-per-leaf=3,nics=12,rails=12,rail-optimised=1");
    struct weft_graph *graph = lay(machines, fabric, 1);
    assert_int_equal(added, 0);
    assert_int_equal(joined, 36);
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST), 3);
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU), 12);
    assert_int_equal(weft_graph_count_below(graph, topo_node(graph, "node2"), WEFT_NODE_NIC), 12);
    assert_string_equal(cabled_to(graph, "node2/nic11:1"), "leaf11");
    assert_int_equal(weft_graph_count_below(graph, topo_node(graph, "node2"), WEFT_NODE_CORE), 2);
    struct weft_path path;
    assert_int_equal(
        weft_path_find(graph, topo_node(graph, "node1/numa0"), topo_node(graph, "node1/numa1"), &path), 0);
    assert_int_equal(path.edge_count, 1); /* the processors' link was copied as well */
    weft_graph_free(graph);
    weft_graph_free(machines);

    /* Names that say nothing: in order, and what is left over stays without a cable. */
    machines = new_graph("one");
    uint32_t host = add(machines, WEFT_NODE_HOST, WEFT_NODE_NONE, "template", 0, -1);
    static const char *const names[] = {"ib10", "ib9", "ib1", "ib30"};
    for (int i = 0; i < 4; i++)
        add(machines, WEFT_NODE_NIC, host, names[i], 0x99, -1);
    weft_graph_free(fabric);
    fabric = topo_read("fat-tree:leaves=3,nodes-per-leaf=2,nics=3,rails=3,rail-optimised=1,spines=1");
    graph = lay(machines, fabric, 1);
    assert_int_equal(joined, 6);
    assert_string_equal(cabled_to(graph, "node1/ib1"), "leaf0");
    assert_string_equal(cabled_to(graph, "node1/ib9"), "leaf1");
    assert_string_equal(cabled_to(graph, "node1/ib10"), "leaf2");
    assert_string_equal(cabled_to(graph, "node1/ib30"), "nothing");
    assert_false(is_there(graph, "template"));
    weft_graph_free(graph);
    weft_graph_free(machines);
    weft_graph_free(fabric);
}

static void test_refused(void **state)
{
    (void)state;
    struct weft_graph *machines = new_graph("two"), *fabric = topo_read("fat-tree:"), *graph = NULL;
    add_machine(machines, "h1", 0, 0);
    add_machine(machines, "h2", 0, 0);
    assert_int_equal(weft_fabric_lay(machines, fabric, 0, &graph, &joined, &added), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "not finished"));
    assert_int_equal(weft_graph_finish(machines), 0);
    assert_int_equal(weft_fabric_lay(machines, fabric, 1, &graph, &joined, &added), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "two: 2 hosts, expected one that stands for all hosts of file");
    weft_graph_thaw(machines);
    add(machines, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "node00", 0, -1); /* a host there */
    assert_int_equal(weft_graph_finish(machines), 0);
    assert_int_equal(weft_fabric_lay(machines, fabric, 0, &graph, &joined, &added), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "\"node00\" is there twice"));
    assert_null(graph);
    weft_graph_free(machines);
    weft_graph_free(fabric);

    machines = topo_read("machine:gpus=64,nics=64,cores=1024");
    fabric = topo_read("fat-tree:leaves=1024,nodes-per-leaf=64,numas=1,pci-switches=0");
    assert_int_equal(weft_fabric_lay(machines, fabric, 1, &graph, &joined, &added), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "expected at most 16777216"));
    weft_graph_free(machines);
    weft_graph_free(fabric);
}

/* A machine and a fabric with as many NICs in each host. */
static void lay_samples(char *fabric_bytes, size_t fabric_size, char *machine_bytes, size_t machine_size)
{
    struct weft_text fabric_text = {"fabric", fabric_bytes, fabric_size},
                     machine_text = {"machine", machine_bytes, machine_size};
    struct weft_graph *fabric = NULL, *machine = NULL;
    assert_int_equal(weft_topo_read_text(&fabric_text, &fabric), 0);
    assert_int_equal(weft_topo_read_text(&machine_text, &machine), 0);
    free(fabric_bytes);
    free(machine_bytes);
    uint32_t hosts = weft_graph_count_below(fabric, WEFT_NODE_NONE, WEFT_NODE_HOST);
    uint32_t gpus = weft_graph_count_below(machine, WEFT_NODE_NONE, WEFT_NODE_GPU);
    assert_true(hosts > 1 && gpus > 1);
    struct weft_graph *graph = lay(machine, fabric, 1);
    assert_int_equal(added, 0);
    assert_true(joined >= hosts);
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST), hosts);
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU), gpus * hosts);
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_SWITCH),
                     weft_graph_count_below(fabric, WEFT_NODE_NONE, WEFT_NODE_SWITCH));
    weft_graph_free(graph);
    /* The fabric under itself is the fabric. */
    graph = lay(fabric, fabric, 0);
    assert_int_equal(added, 0);
    assert_int_equal(graph->node_count, fabric->node_count);
    assert_int_equal(graph->edge_count, fabric->edge_count);
    weft_graph_free(graph);
    weft_graph_free(machine);
    weft_graph_free(fabric);
}

static void test_samples(void **state)
{
    (void)state;
    size_t fabric_size, machine_size;
    char *fabric = topo_sample("ibnetdiscover-2leaf.out", &fabric_size);
    char *machine = topo_sample("nvidia-4gpu-2nic.xml", &machine_size);
    lay_samples(fabric, fabric_size, machine, machine_size);
}

static void test_real_samples(void **state)
{
    (void)state;
    char *fabric, *machine;
    size_t fabric_size, machine_size;
    if (topo_file("fabric/ibnetdiscover-ndr.out", &fabric, &fabric_size) != 0)
        skip();
    if (topo_file("nccl-xml/azure-ndv4.xml", &machine, &machine_size) != 0) {
        free(fabric);
        skip();
    }
    lay_samples(fabric, fabric_size, machine, machine_size);
}

int main(void)
{
    weft_discover_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),      cmocka_unit_test(test_ambiguous),
        cmocka_unit_test(test_hosts_only),   cmocka_unit_test(test_everywhere),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_samples),
        cmocka_unit_test(test_real_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
