/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (graphs are computed) */
/* Synthetic texts: what they make, and what is wrong with those that make nothing. */
#include "topo/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/topo_asks.h"
#include "topo/path.h"

static struct weft_graph *make(const char *text)
{
    struct weft_graph *graph = NULL;
    int status = weft_topo_read(text, &graph);
    if (status)
        fail_msg("%s: %s", text, weft_error_detail());
    assert_string_equal(graph->format, "synthetic");
    assert_string_equal(graph->source, text);
    assert_int_equal(graph->finished, 1);
    return graph;
}

static struct weft_path path(const struct weft_graph *graph, const char *a, const char *b)
{
    struct weft_path found;
    assert_int_equal(weft_path_find(graph, topo_node(graph, a), topo_node(graph, b), &found), 0);
    return found;
}

static void expect(const struct weft_graph *graph, const char *a, const char *b, const char *name)
{
    assert_string_equal(weft_path_class_name(path(graph, a, b).path_class), name);
}

/* Cables at a switch, by what is at their other end. */
static uint32_t cables(const struct weft_graph *graph, const char *name, enum weft_node_kind kind)
{
    uint32_t edges, sum = 0, node = topo_node(graph, name);
    const uint32_t *edge = weft_graph_edges_of(graph, node, &edges);
    for (uint32_t i = 0; i < edges; i++) {
        const struct weft_edge *at = &graph->edges[edge[i]];
        sum += graph->nodes[weft_edge_other(at, node)].kind == kind ? at->links : 0;
    }
    return sum;
}

static void test_machine(void **state)
{
    (void)state;
    struct weft_graph *graph = make("machine:gpus=8,nics=8,numas=2,nvlink=18,pci-switches=4,cores=12");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 1);
    assert_int_equal(topo_count(graph, WEFT_NODE_NUMA), 2);
    assert_int_equal(topo_count(graph, WEFT_NODE_CORE), 12);
    assert_int_equal(topo_count(graph, WEFT_NODE_BRIDGE), 4);
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 8);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 8);
    assert_int_equal(topo_count(graph, WEFT_NODE_PORT), 8);
    assert_int_equal(weft_graph_count_below(graph, topo_node(graph, "numa1"), WEFT_NODE_GPU), 4);
    assert_int_equal(weft_graph_count_below(graph, topo_node(graph, "numa1"), WEFT_NODE_CORE), 6);
    assert_int_equal(graph->nodes[topo_node(graph, "core07")].index, 7);
    assert_int_equal(graph->nodes[topo_node(graph, "gpu5")].index, 5);
    assert_int_equal(graph->nodes[topo_node(graph, "nic5:1")].rail, 5);
    assert_int_equal(graph->nodes[topo_node(graph, "nic5:1")].bytes_per_s, 50000000000);
    expect(graph, "gpu0", "nic1:1", "PIX");
    expect(graph, "gpu0", "nic2", "PHB");
    expect(graph, "gpu0", "nic7", "SYS");
    expect(graph, "gpu0", "gpu7", "NVL");
    assert_int_equal(path(graph, "gpu0", "gpu7").bytes_per_s, 18 * 25000000000);
    assert_int_equal(path(graph, "gpu0", "nic0").bytes_per_s, 63015384615); /* 16 lanes of 32 GT/s */
    assert_int_equal(path(graph, "gpu0", "nic7").bandwidth_partly,
                     1); /* nobody told of the processors' links */
    weft_graph_free(graph);

    graph = make("machine:");
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 8);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 8);
    assert_int_equal(topo_count(graph, WEFT_NODE_BRIDGE), 8);
    expect(graph, "gpu3", "nic3", "PIX");
    expect(graph, "gpu2", "nic3", "PHB");
    expect(graph, "gpu2", "gpu3", "PHB");
    weft_graph_free(graph);

    graph = make("machine:gpus=16,nics=4,numas=4,pci-switches=0,pci=3,link=100G");
    expect(graph, "gpu00", "nic0", "PHB");
    expect(graph, "gpu15", "nic3", "PHB");
    expect(graph, "gpu04", "nic0", "SYS");
    assert_int_equal(graph->nodes[topo_node(graph, "nic3:1")].bytes_per_s, 12500000000);
    assert_int_equal(path(graph, "gpu00", "nic0").bytes_per_s, 15753846154);
    weft_graph_free(graph);

    graph = make("machine:gpus=0,nics=0");
    assert_int_equal(graph->node_count, 2); /* the host and its NUMA node */
    weft_graph_free(graph);
}

/* The example. */
static void test_fat_tree(void **state)
{
    (void)state;
    struct weft_graph *graph = make("fat-tree:leaves=32,nodes-per-leaf=32,gpus=8,rails=8,oversubscription=4");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 1024);
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 8192);
    assert_int_equal(topo_count(graph, WEFT_NODE_PORT), 8192);
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 32 + 32);
    assert_int_equal(cables(graph, "leaf00", WEFT_NODE_PORT), 256);
    assert_int_equal(cables(graph, "leaf31", WEFT_NODE_SWITCH), 64);
    assert_int_equal(cables(graph, "spine31", WEFT_NODE_SWITCH), 64);
    expect(graph, "node0000/gpu7", "node0000/nic7", "PIX");
    struct weft_path found = path(graph, "node0000/nic0", "node0031/nic7");
    assert_int_equal(found.edge_count, 4); /* port, leaf, port: one switch */
    found = path(graph, "node0000/nic0", "node0032/nic7");
    assert_int_equal(found.edge_count, 6);
    assert_int_equal(found.bytes_per_s, 50000000000);
    assert_int_equal(found.bandwidth_partly, 0);
    /* Cables up go to the spine with the smallest name. */
    assert_string_equal(
        graph->nodes[weft_edge_other(&graph->edges[found.edges[2]], topo_node(graph, "leaf00"))].name,
        "spine00");
    weft_graph_free(graph);

    graph = make("fat-tree:");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 32);
    assert_int_equal(topo_count(graph, WEFT_NODE_PORT), 32);
    assert_int_equal(cables(graph, "leaf0", WEFT_NODE_PORT), 8);
    assert_int_equal(cables(graph, "leaf0", WEFT_NODE_SWITCH), 8);
    assert_int_equal(topo_node(graph, "node31"), topo_node(graph, "node31"));
    weft_graph_free(graph);

    graph = make("fat-tree:leaves=1,oversubscription=3"); /* nothing above */
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 1);
    weft_graph_free(graph);
    graph = make("fat-tree:leaves=2,nodes-per-leaf=6,spines=3,link=HDR,nics=2,rails=1");
    assert_int_equal(cables(graph, "spine2", WEFT_NODE_SWITCH), 8);
    assert_int_equal(graph->nodes[topo_node(graph, "node00/nic1")].rail, 0);
    assert_int_equal(path(graph, "node00/nic0:1", "spine0").bytes_per_s, 25000000000);
    weft_graph_free(graph);
}

static void test_rails(void **state)
{
    (void)state;
    struct weft_graph *graph =
        make("fat-tree:leaves=8,nodes-per-leaf=4,nics=8,rails=4,rail-optimised=1,spines=4");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 8); /* two sets of leaf switches, 4 hosts to each */
    for (int leaf = 0; leaf < 8; leaf++) {
        char name[16];
        snprintf(name, sizeof name, "leaf%d", leaf);
        assert_int_equal(cables(graph, name, WEFT_NODE_PORT), 8);
        assert_int_equal(cables(graph, name, WEFT_NODE_SWITCH), 8);
    }
    assert_int_equal(path(graph, "node0/nic1", "node3/nic5").edge_count, 4); /* both on rail 1 */
    assert_int_equal(path(graph, "node0/nic1", "node3/nic2").edge_count, 6);
    assert_int_equal(path(graph, "node0/nic1", "node4/nic1").edge_count, 6);
    struct weft_path found = path(graph, "node4/nic2", "leaf6");
    assert_int_equal(found.edge_count, 2);
    weft_graph_free(graph);
}

static void test_tiers(void **state)
{
    (void)state;
    struct weft_graph *graph =
        make("fat-tree:leaves=8,nodes-per-leaf=4,tiers=3,pods=4,spines=2,top-oversubscription=2");
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 8 + 4 * 2 + 2 * 2);
    assert_int_equal(cables(graph, "leaf0", WEFT_NODE_SWITCH), 4);
    assert_int_equal(cables(graph, "pod0-spine1", WEFT_NODE_SWITCH),
                     2 * 2 + 2);                                  /* two leaves down, half up */
    assert_int_equal(cables(graph, "top3", WEFT_NODE_SWITCH), 4); /* a spine of each pod */
    assert_int_equal(path(graph, "node00/nic0", "node04/nic0").edge_count, 6);
    assert_int_equal(path(graph, "node00/nic0", "node08/nic0").edge_count, 8);
    weft_graph_free(graph);
}

static void test_size(void **state)
{
    (void)state;
    struct weft_graph *graph = make("fat-tree:leaves=64,nodes-per-leaf=32,gpus=8,rails=8,oversubscription=4");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 2048);
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 16384);
    assert_string_equal(graph->nodes[topo_node(graph, "node2047")].name, "node2047");
    weft_graph_free(graph);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"fat-tree:leaves=0", "leaves=0: expected a number from 1 to 16384"},
        {"fat-tree:leaves=16385", "leaves=16385: expected a number from 1 to 16384"},
        {"fat-tree:leaves=99999999999999999999", "expected a number from 1 to 16384"},
        {"fat-tree:leaves=-1", "leaves=-1: expected a number"},
        {"fat-tree:leaves=4x", "leaves=4x: expected a number"},
        {"fat-tree:leaves=", "leaves=: expected a number"},
        {"fat-tree:leaves", "\"leaves\": expected KEY=VALUE"},
        {"fat-tree:=4", "\"=4\": expected KEY=VALUE"},
        {"fat-tree:leaves=4,,gpus=2", "\"\": expected KEY=VALUE"},
        {"fat-tree:leaves=4,leaves=4", "leaves is told twice"},
        {"fat-tree:leaf=4", "\"leaf\" is no key of fat-tree: expected link, gpus, nics, rails,"},
        {"fat-tree:nics=0", "nics=0: expected a number from 1 to 64"},
        {"fat-tree:nics=2,rails=4", "rails=4: expected at most as many as nics=2"},
        {"fat-tree:gpus=65", "gpus=65: expected a number from 0 to 64"},
        {"fat-tree:link=fast", "link=fast: expected SDR, DDR,"},
        {"fat-tree:link=0G", "link=0G: expected"},
        {"fat-tree:link=G", "link=G: expected"},
        {"fat-tree:link=", "link=: expected"},
        {"fat-tree:link=NDR,link=NDR", "link is told twice"},
        {"fat-tree:oversubscription=3",
         "oversubscription=3: expected a divisor of a leaf switch's 8 cables down"},
        {"fat-tree:spines=3", "spines=3: expected a divisor of a leaf switch's 8 cables up"},
        {"fat-tree:tiers=4", "tiers=4: expected a number from 2 to 3"},
        {"fat-tree:pods=2", "pods=2: expected only with tiers=3"},
        {"fat-tree:top-oversubscription=2", "top-oversubscription=2: expected only with tiers=3"},
        {"fat-tree:tiers=3,pods=3", "leaves=4: expected a multiple of pods=3"},
        {"fat-tree:tiers=3,top-oversubscription=7",
         "top-oversubscription=7: expected a divisor of a spine's 2"},
        {"fat-tree:rail-optimised=1,nics=4,rails=3",
         "nics=4: with rail-optimised expected a multiple of rails=3"},
        {"fat-tree:rail-optimised=1,rails=8", "leaves=4: with rail-optimised expected a multiple of rails=8"},
        {"fat-tree:rail-optimised=2", "rail-optimised=2: expected a number from 0 to 1"},
        {"fat-tree:leaves=16384,nodes-per-leaf=4096", "asks for "},
        {"fat-tree:leaves=8192,nodes-per-leaf=1,spines=1024", "expected a divisor"},
        {"fat-tree:leaves=8192,nodes-per-leaf=16,nics=64,gpus=0,pci-switches=0,spines=1024", "asks for "},
        {"machine:leaves=4", "\"leaves\" is no key of machine: expected link, gpus,"},
        {"machine:numas=0", "numas=0: expected a number from 1 to 64"},
        {"torus:size=4", "\"torus\" is made by nobody: expected fat-tree: or machine:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_graph *graph = NULL;
        assert_int_equal(weft_topo_read(cases[i].text, &graph), WEFT_INVALID);
        assert_null(graph);
        if (!strstr(weft_error_detail(), cases[i].reason))
            fail_msg("%s: said \"%s\"", cases[i].text, weft_error_detail());
        assert_memory_equal(weft_error_detail(), cases[i].text, strlen(cases[i].text)); /* NAME: */
    }
}

static int read_text(const char *data, struct weft_graph **graph)
{
    size_t size = strlen(data);
    char *exact = malloc(size);
    memcpy(exact, data, size);
    struct weft_text text = {"a.file", exact, size};
    int status = weft_topo_read_text(&text, graph);
    free(exact);
    return status;
}

static void test_file(void **state)
{
    (void)state;
    struct weft_graph *graph = NULL;
    assert_int_equal(read_text("# ours\r\n\n  machine:gpus=2 \r\n# end", &graph), 0);
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 2);
    weft_graph_free(graph);
    assert_int_equal(read_text("# ours\nmachine:gpus=x\n", &graph), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "a.file:2: gpus=x: expected a number from 0 to 64");
    assert_int_equal(read_text("machine:gpus=2\n\nmachine:gpus=2\n", &graph), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "a.file:3: a second text, expected one alone");

    char path_name[] = "/tmp/weft-synthetic-XXXXXX";
    int fd = mkstemp(path_name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "fat-tree:leaves=2\n", 18), 18);
    close(fd);
    assert_int_equal(weft_topo_read(path_name, &graph), 0);
    unlink(path_name);
    assert_string_equal(graph->source, path_name);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 16);
    weft_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine), cmocka_unit_test(test_fat_tree), cmocka_unit_test(test_rails),
        cmocka_unit_test(test_tiers),   cmocka_unit_test(test_size),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
