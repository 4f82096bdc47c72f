/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (graphs are computed) */
/* The graph: building, rules, walking, finding, units; and telling files apart. */
#include "topo/graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "topo/readers.h"

#define assert_detail(part) assert_non_null(strstr(weft_error_detail(), (part)))

static struct weft_graph *new_graph(void)
{
    struct weft_graph *graph = NULL;
    assert_int_equal(weft_graph_new("a test", "by hand", &graph), 0);
    return graph;
}

static uint32_t add(struct weft_graph *graph, enum weft_node_kind kind, uint32_t parent, const char *name,
                    const char *pci)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    given.pci = pci;
    uint32_t node = WEFT_NODE_NONE;
    assert_int_equal(weft_graph_add_node(graph, &given, &node), 0);
    return node;
}

static int try_add(struct weft_graph *graph, enum weft_node_kind kind, uint32_t parent, const char *name)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    uint32_t node = 77;
    int status = weft_graph_add_node(graph, &given, &node);
    assert_true(status == 0 || node == 77);
    return status;
}

static int try_join(struct weft_graph *graph, uint32_t a, uint32_t b, enum weft_edge_kind kind)
{
    struct weft_edge given = {.a = a, .b = b, .kind = (uint8_t)kind, .port_a = -1, .port_b = -1};
    return weft_graph_add_edge(graph, &given, NULL);
}

/* h1 > n0 > (b0 > (gpu0, nic0 > p1), gpu1), h1 > n1; h2 > gpu0; s1 */
enum { H1, N0, B0, GPU0, NIC0, P1, GPU1, N1, H2, H2_GPU0, S1, SCENE_NODES };

static struct weft_graph *scene(void)
{
    struct weft_graph *graph = new_graph();
    assert_int_equal(add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE, "h1", NULL), H1);
    assert_int_equal(add(graph, WEFT_NODE_NUMA, H1, "n0", NULL), N0);
    assert_int_equal(add(graph, WEFT_NODE_BRIDGE, N0, "b0", "0000:0a:00.0"), B0);
    assert_int_equal(add(graph, WEFT_NODE_GPU, B0, "gpu0", "0000:0c:00.0"), GPU0);
    assert_int_equal(add(graph, WEFT_NODE_NIC, B0, "nic0", "0000:0d:00.0"), NIC0);
    assert_int_equal(add(graph, WEFT_NODE_PORT, NIC0, "1", NULL), P1);
    assert_int_equal(add(graph, WEFT_NODE_GPU, N0, "gpu1", "0001:0c:00.0"), GPU1);
    assert_int_equal(add(graph, WEFT_NODE_NUMA, H1, "n1", NULL), N1);
    assert_int_equal(add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE, "h2", NULL), H2);
    assert_int_equal(add(graph, WEFT_NODE_GPU, H2, "gpu0", "0000:0c:00.0"), H2_GPU0);
    assert_int_equal(add(graph, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "rack;1/leaf/1", NULL), S1);
    return graph;
}

static void test_forest(void **state)
{
    (void)state;
    struct weft_graph *graph = scene();
    assert_string_equal(graph->source, "a test");
    assert_string_equal(graph->format, "by hand");
    assert_int_equal(graph->node_count, SCENE_NODES);
    assert_int_equal(graph->edge_count, 8); /* one for each that is no root */
    assert_int_equal(graph->nodes[P1].host, H1);
    assert_int_equal(graph->nodes[H2_GPU0].host, H2);
    assert_int_equal(graph->nodes[H1].host, H1);
    assert_int_equal(graph->nodes[S1].host, WEFT_NODE_NONE);
    const struct weft_edge *edge = &graph->edges[graph->nodes[GPU0].parent_edge];
    assert_int_equal(edge->a, GPU0);
    assert_int_equal(edge->b, B0);
    assert_int_equal(edge->flags, WEFT_EDGE_PARENT);
    assert_int_equal(graph->nodes[H1].parent_edge, WEFT_NODE_NONE);

    static const uint32_t roots[] = {H1, H2, S1, WEFT_NODE_NONE};
    uint32_t at = 0, node = weft_graph_first(graph, WEFT_NODE_NONE);
    for (; roots[at] != WEFT_NODE_NONE; at++, node = graph->nodes[node].sibling_next)
        assert_int_equal(node, roots[at]);
    assert_int_equal(node, WEFT_NODE_NONE);

    assert_int_equal(weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, WEFT_NODE_NONE), GPU0);
    assert_int_equal(weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, GPU0), GPU1);
    assert_int_equal(weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, GPU1), H2_GPU0);
    assert_int_equal(weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, H2_GPU0), WEFT_NODE_NONE);
    assert_int_equal(weft_graph_next_below(graph, H1, WEFT_NODE_GPU, GPU1), WEFT_NODE_NONE);
    assert_int_equal(weft_graph_next_below(graph, B0, WEFT_NODE_BRIDGE, WEFT_NODE_NONE), WEFT_NODE_NONE);
    assert_int_equal(weft_graph_next_below(graph, N1, WEFT_NODE_GPU, WEFT_NODE_NONE), WEFT_NODE_NONE);
    assert_int_equal(weft_graph_count_below(graph, H1, WEFT_NODE_GPU), 2);
    assert_int_equal(weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST), 2);
    assert_int_equal(weft_graph_above(graph, P1, WEFT_NODE_NUMA), N0);
    assert_int_equal(weft_graph_above(graph, N0, WEFT_NODE_NUMA), N0);
    assert_int_equal(weft_graph_above(graph, H2_GPU0, WEFT_NODE_NUMA), WEFT_NODE_NONE);
    weft_graph_free(graph);
    weft_graph_free(NULL);
}

static void test_rules(void **state)
{
    (void)state;
    struct weft_graph *graph = scene();
    assert_int_equal(try_add(graph, WEFT_NODE_GPU, WEFT_NODE_NONE, "gpu"), WEFT_INVALID);
    assert_detail("gpu \"gpu\" lies in no host");
    assert_int_equal(try_add(graph, WEFT_NODE_HOST, H1, "h3"), WEFT_INVALID);
    assert_detail("host \"h3\" cannot lie in host \"h1\"");
    assert_int_equal(try_add(graph, WEFT_NODE_NIC, GPU0, "nic"), WEFT_INVALID);
    assert_int_equal(try_add(graph, WEFT_NODE_NIC, S1, "nic"), WEFT_INVALID);
    assert_int_equal(try_add(graph, WEFT_NODE_NIC, SCENE_NODES, "nic"), WEFT_INVALID);
    assert_detail("lies in node 11, of which there are 11");
    assert_int_equal(try_add(graph, WEFT_NODE_KIND_COUNT, H1, "x"), WEFT_INVALID);
    assert_int_equal(try_add(graph, WEFT_NODE_GPU, H1, ""), WEFT_INVALID);
    assert_detail("without a name");
    char name[WEFT_NAME_SIZE_MAX + 1];
    memset(name, 'x', sizeof name);
    name[WEFT_NAME_SIZE_MAX] = '\0';
    assert_int_equal(try_add(graph, WEFT_NODE_GPU, H1, name), WEFT_INVALID);
    assert_detail("has 256 bytes, at most 255");
    assert_int_equal(try_add(graph, WEFT_NODE_GPU, H1, name + 1), 0);
    assert_int_equal(graph->node_count, SCENE_NODES + 1);

    uint32_t edges = graph->edge_count;
    assert_int_equal(try_join(graph, GPU0, GPU0, WEFT_EDGE_GPU_LINK), WEFT_INVALID);
    assert_int_equal(try_join(graph, GPU0, 999, WEFT_EDGE_GPU_LINK), WEFT_INVALID);
    assert_int_equal(try_join(graph, GPU0, GPU1, WEFT_EDGE_KIND_COUNT), WEFT_INVALID);
    assert_int_equal(try_join(graph, GPU0, N0, WEFT_EDGE_SOCKET), WEFT_INVALID);
    assert_detail("no edge of kind socket can join gpu \"gpu0\" and numa \"n0\"");
    assert_int_equal(try_join(graph, GPU0, S1, WEFT_EDGE_FABRIC), WEFT_INVALID);
    assert_int_equal(try_join(graph, H1, H2, WEFT_EDGE_LOCAL), WEFT_INVALID);
    assert_int_equal(try_join(graph, B0, S1, WEFT_EDGE_PCI), WEFT_INVALID);
    assert_int_equal(graph->edge_count, edges);
    assert_int_equal(try_join(graph, N0, N1, WEFT_EDGE_SOCKET), 0);
    assert_int_equal(try_join(graph, GPU0, N1, WEFT_EDGE_GPU_LINK), 0);
    assert_int_equal(try_join(graph, P1, S1, WEFT_EDGE_FABRIC), 0);
    assert_int_equal(try_join(graph, H2, S1, WEFT_EDGE_FABRIC), 0);
    assert_int_equal(graph->edges[edges].links, 1);
    assert_int_equal(graph->edge_count, edges + 4);
    weft_graph_free(graph);
}

static void test_siblings(void **state)
{
    (void)state;
    struct weft_graph *graph = scene();
    uint32_t twin = add(graph, WEFT_NODE_DEVICE, B0, "gpu0", NULL);
    assert_int_equal(weft_graph_finish(graph), WEFT_INVALID);
    assert_detail("the name \"gpu0\" is there twice in \"b0\"");
    assert_int_equal(graph->finished, 0);
    assert_int_equal(weft_graph_rename(graph, twin, ""), WEFT_INVALID);
    assert_int_equal(weft_graph_rename(graph, twin + 1, "x"), WEFT_INVALID);
    assert_int_equal(weft_graph_rename(graph, twin, "gpu0a"), 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    weft_graph_thaw(graph);
    add(graph, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "h2", NULL);
    assert_int_equal(weft_graph_finish(graph), WEFT_INVALID);
    assert_detail("the name \"h2\" is there twice in the graph");
    weft_graph_free(graph);
}

static void test_adjacency(void **state)
{
    (void)state;
    struct weft_graph *graph = scene();
    struct weft_edge given = {.a = GPU0,
                              .b = GPU1,
                              .kind = WEFT_EDGE_GPU_LINK,
                              .flags = WEFT_EDGE_NVLINK | WEFT_EDGE_PARENT,
                              .links = 4,
                              .bytes_per_s = 25000000000,
                              .latency_ns = 7,
                              .port_a = 1,
                              .port_b = 2};
    uint32_t link = 0, second = 0, count = 0;
    assert_int_equal(weft_graph_add_edge(graph, &given, &link), 0);
    assert_int_equal(weft_graph_add_edge(graph, &given, &second), 0); /* kept as told */
    assert_int_not_equal(link, second);
    assert_int_equal(graph->edges[link].flags, WEFT_EDGE_NVLINK); /* PARENT is not the caller's */
    assert_int_equal(graph->edges[link].port_b, 2);
    assert_int_equal(weft_graph_finish(graph), 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    const uint32_t *edges = weft_graph_edges_of(graph, GPU1, &count);
    assert_int_equal(count, 3);
    assert_int_equal(edges[0], graph->nodes[GPU1].parent_edge);
    assert_int_equal(edges[1], link);
    assert_int_equal(weft_edge_other(&graph->edges[link], GPU1), GPU0);
    assert_int_equal(weft_edge_other(&graph->edges[link], GPU0), GPU1);
    weft_graph_edges_of(graph, S1, &count);
    assert_int_equal(count, 0);

    assert_int_equal(weft_graph_add_edge(graph, &given, &link), WEFT_INVALID);
    assert_detail("finished");
    assert_int_equal(try_add(graph, WEFT_NODE_GPU, H1, "gpu9"), WEFT_INVALID);
    assert_int_equal(weft_graph_rename(graph, H1, "x"), WEFT_INVALID);
    assert_int_equal(weft_graph_set_attribute(graph, H1, "x", "y"), WEFT_INVALID);
    weft_graph_thaw(graph);
    assert_int_equal(try_join(graph, P1, S1, WEFT_EDGE_FABRIC), 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    weft_graph_edges_of(graph, S1, &count);
    assert_int_equal(count, 1);
    weft_graph_free(graph);
}

static void test_attributes(void **state)
{
    (void)state;
    struct weft_graph *graph = scene();
    assert_null(weft_graph_attribute(graph, GPU0, "sm"));
    assert_int_equal(weft_graph_set_attribute(graph, GPU0, "sm", "80"), 0);
    assert_int_equal(weft_graph_set_attribute(graph, GPU1, "sm", "70"), 0);
    assert_int_equal(weft_graph_set_attribute(graph, GPU0, "gdr", "1"), 0);
    assert_int_equal(weft_graph_set_attribute(graph, GPU0, "sm", "90"), 0);
    assert_string_equal(weft_graph_attribute(graph, GPU0, "sm"), "90");
    assert_string_equal(weft_graph_attribute(graph, GPU1, "sm"), "70");
    uint32_t at = graph->nodes[GPU0].attributes_first;
    assert_string_equal(graph->attributes[at].name, "sm");
    at = graph->attributes[at].next;
    assert_string_equal(graph->attributes[at].name, "gdr");
    assert_int_equal(graph->attributes[at].next, WEFT_NODE_NONE);
    assert_int_equal(weft_graph_set_attribute(graph, SCENE_NODES, "sm", "80"), WEFT_INVALID);
    assert_int_equal(weft_graph_set_attribute(graph, GPU0, "", "80"), WEFT_INVALID);
    char name[16];
    for (int i = 0; i < 256; i++) {
        snprintf(name, sizeof name, "a%d", i);
        assert_int_equal(weft_graph_set_attribute(graph, NIC0, name, name), 0);
    }
    assert_int_equal(weft_graph_set_attribute(graph, NIC0, "a7", "new"), 0);
    assert_int_equal(weft_graph_set_attribute(graph, NIC0, "more", ""), WEFT_INVALID);
    assert_detail("\"nic0\" has more than 256 attributes");
    assert_string_equal(weft_graph_attribute(graph, NIC0, "a7"), "new");
    weft_graph_free(graph);
}

static void test_strings(void **state)
{
    (void)state;
    struct weft_graph *graph = new_graph();
    uint32_t host = add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE, "a\nb\x1b[31m\x7f", NULL);
    assert_string_equal(graph->nodes[host].name, "a?b?[31m?");
    /* Characters of two to four bytes stay; a cut one, an overlong one, a surrogate and a C1 control do not. */
    host = add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", NULL);
    assert_string_equal(graph->nodes[host].name, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    host = add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE,
               "\xc3x\xc0\xaf\xed\xa0\x80\xc2\x9b\xf4\x90\x80\x80\xe2\x82", NULL);
    assert_string_equal(graph->nodes[host].name, "?x???????????"
                                                 "??");
    /* Strings stay where they are while chunks come and go. */
    size_t size = 100000;
    char *large = malloc(size);
    memset(large, 'y', size);
    large[size - 1] = '\0';
    const char *first = weft_graph_string(graph, "first\n");
    const char *copy = weft_graph_string(graph, large);
    for (int i = 0; i < 5000; i++)
        assert_string_equal(weft_graph_string(graph, "thirty bytes or so, many times"),
                            "thirty bytes or so, many times");
    assert_string_equal(first, "first\n");
    assert_string_equal(copy, large);
    free(large);
    weft_graph_free(graph);
}

static void test_find(void **state)
{
    (void)state;
    struct weft_graph *graph = scene();
    static const struct {
        const char *name;
        uint32_t node;
    } cases[] = {
        {"gpu1", GPU1},          {"h1/gpu0", GPU0}, {"h2/gpu0", H2_GPU0},   {"nic0/1", P1},
        {"h1/nic0/1", P1},       {"1:c:0.0", GPU1}, {"0000:0D:00.0", NIC0}, {"00000000:0a:00.0", B0},
        {"h1/n0/b0/gpu0", GPU0}, {"h2", H2},        {"rack;1/leaf/1", S1},  {"b0/gpu0", GPU0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t node = 77;
        assert_int_equal(weft_graph_find(graph, cases[i].name, &node), 0);
        assert_int_equal(node, cases[i].node);
    }
    static const char *const none[] = {"gpu9", "pu0", "h2/nic0", "h1gpu0", "0:1:2.3", "/gpu0", "leaf/1", ""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        uint32_t node = 77;
        assert_int_equal(weft_graph_find(graph, none[i], &node), WEFT_INVALID);
        assert_detail("there is no \"");
        assert_detail("in a test");
        assert_int_equal(node, 77);
    }
    uint32_t node = 77;
    assert_int_equal(weft_graph_find(graph, "gpu0", &node), WEFT_INVALID);
    assert_detail("\"gpu0\" is the name of 2: gpu h1/gpu0 at 0000:0c:00.0, gpu h2/gpu0 at 0000:0c:00.0");
    assert_int_equal(weft_graph_find(graph, "0:c:0.0", &node), WEFT_INVALID);
    char name[16];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "x%d", i);
        add(graph, WEFT_NODE_GPU, add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE, name, NULL), "same", NULL);
    }
    assert_int_equal(weft_graph_find(graph, "same", &node), WEFT_INVALID);
    assert_detail("is the name of 8: gpu x0/same, gpu x1/same, gpu x2/same, gpu x3/same, ...;");
    assert_int_equal(node, 77);
    weft_graph_free(graph);
}

static void test_growth(void **state)
{
    (void)state;
    struct weft_graph *graph = new_graph();
    uint32_t host = add(graph, WEFT_NODE_HOST, WEFT_NODE_NONE, "h", NULL);
    char name[16];
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "gpu%u", i);
        assert_int_equal(add(graph, WEFT_NODE_GPU, host, name, NULL), i + 1);
    }
    for (uint32_t i = 1; i < 1000; i++)
        assert_int_equal(try_join(graph, i, i + 1, WEFT_EDGE_GPU_LINK), 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    assert_int_equal(weft_graph_count_below(graph, host, WEFT_NODE_GPU), 1000);
    uint32_t count = 0;
    const uint32_t *edges = weft_graph_edges_of(graph, 500, &count);
    assert_int_equal(count, 3);
    assert_int_equal(weft_edge_other(&graph->edges[edges[1]], 500), 499);
    assert_int_equal(weft_edge_other(&graph->edges[edges[2]], 500), 501);
    weft_graph_edges_of(graph, host, &count);
    assert_int_equal(count, 1000);
    weft_graph_free(graph);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(weft_node_kind_name(WEFT_NODE_GPU), "gpu");
    assert_string_equal(weft_node_kind_name(WEFT_NODE_SWITCH), "switch");
    assert_string_equal(weft_node_kind_name(WEFT_NODE_KIND_COUNT), "unknown");
    assert_string_equal(weft_edge_kind_name(WEFT_EDGE_GPU_LINK), "gpu-link");
    assert_string_equal(weft_edge_kind_name(WEFT_EDGE_KIND_COUNT), "unknown");
    assert_string_equal(weft_port_state_name(WEFT_PORT_UNKNOWN), "unknown");
    assert_string_equal(weft_port_state_name(WEFT_PORT_ACTIVE), "active");
    for (int kind = 0; kind < WEFT_NODE_KIND_COUNT; kind++)
        assert_non_null(weft_node_kind_name((enum weft_node_kind)kind));
}

static void test_pci(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"0000:0C:00.0", "0000:0c:00.0"},     {"c:0.0", "0000:0c:00.0"},
        {"00000000:0c:1f.7", "0000:0c:1f.7"}, {"10000:e1:00.0", "10000:e1:00.0"},
        {"ffff:ff:01.0", "ffff:ff:01.0"},     {"FFFFFFFF:1:2.3", "ffffffff:01:02.3"},
    };
    static const char *const bad[] = {"",
                                      "0c",
                                      "0000:0c:00",
                                      "0000:0c:20.0",
                                      "0000:0c:00.8",
                                      "0000:100:0.0",
                                      "g:0.0",
                                      "0000:0c:00.0 ",
                                      "1:2:3:4.0",
                                      ":0c:00.0",
                                      "123456789:0c:00.0",
                                      "0000:0c:.0"};
    char address[32];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(weft_pci_parse(good[i][0], address), 0);
        assert_string_equal(address, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        strcpy(address, "old");
        assert_int_equal(weft_pci_parse(bad[i], address), WEFT_INVALID);
        assert_string_equal(address, "old");
    }
    assert_detail("\"0000:0c:.0\" is no PCI address");

    double speed = 0;
    assert_int_equal(weft_pci_speed_parse("8 GT/s", &speed), 0);
    assert_true(speed == 8);
    assert_int_equal(weft_pci_speed_parse("16.0 GT/s PCIe", &speed), 0);
    assert_true(speed == 16);
    assert_int_equal(weft_pci_speed_parse("2.5", &speed), 0);
    assert_true(speed == 2.5);
    static const char *const no_speed[] = {"",       "Unknown",           "GT/s",    "8 MB/s",
                                           "0 GT/s", "99999 GT/s",        "-8 GT/s", "1.2.3 GT/s",
                                           "inf",    "1234567890123 GT/s"};
    for (size_t i = 0; i < sizeof no_speed / sizeof *no_speed; i++) {
        assert_int_equal(weft_pci_speed_parse(no_speed[i], &speed), WEFT_INVALID);
        assert_true(speed == 2.5);
    }
    assert_int_equal(weft_pci_bytes_per_s(2.5, 1), 250000000);
    assert_int_equal(weft_pci_bytes_per_s(5, 8), 4000000000);
    assert_int_equal(weft_pci_bytes_per_s(8, 16), 15753846154);
    assert_int_equal(weft_pci_bytes_per_s(16, 16), 31507692308);
    assert_int_equal(weft_pci_bytes_per_s(64, 16), 121000000000);
    assert_int_equal(weft_pci_bytes_per_s(0, 16), 0);
    assert_int_equal(weft_pci_bytes_per_s(8, 0), 0);
    assert_int_equal(weft_pci_bytes_per_s(8, 255), 0);
    assert_int_equal(weft_pci_bytes_per_s(-1, 16), 0);
}

static void test_infiniband(void **state)
{
    (void)state;
    assert_int_equal(weft_ib_bytes_per_s("1xSDR"), 250000000);
    assert_int_equal(weft_ib_bytes_per_s("4xQDR"), 4000000000);
    assert_int_equal(weft_ib_bytes_per_s("4xFDR10"), 5000000000);
    assert_int_equal(weft_ib_bytes_per_s("4xFDR"), 6818181818);
    assert_int_equal(weft_ib_bytes_per_s("4xEDR"), 12500000000);
    assert_int_equal(weft_ib_bytes_per_s("4xHDR"), 25000000000);
    assert_int_equal(weft_ib_bytes_per_s("2xNDR"), 25000000000);
    assert_int_equal(weft_ib_bytes_per_s("4xNDR"), 50000000000);
    assert_int_equal(weft_ib_bytes_per_s("4xXDR"), 100000000000);
    static const char *const none[] = {"", "4x", "xNDR", "NDR", "3xNDR", "4xNDRR", "4xndr", "99999999999xNDR",
                                       "4"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(weft_ib_bytes_per_s(none[i]), 0);
}

/* --- telling files apart */

static enum weft_topo_format detect(const char *text)
{
    size_t size = strlen(text);
    char *exact = malloc(size ? size : 1); /* no 0 behind it, for those who watch */
    memcpy(exact, text, size);
    struct weft_text given = {"t", exact, size};
    enum weft_topo_format format = weft_topo_detect(&given);
    free(exact);
    return format;
}

static const struct {
    const char *text;
    enum weft_topo_format format;
} detect_cases[] = {
    {"<topology version=\"2.0\">", WEFT_FORMAT_HWLOC},
    {"<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology>", WEFT_FORMAT_HWLOC},
    {"\xef\xbb\xbf <!-- <topology> -->\n<system version=\"1\">", WEFT_FORMAT_NCCL},
    {"<!DOCTYPE system [ <!ENTITY a \"b\"> ]><system/>", WEFT_FORMAT_NCCL},
    {"<systems>", WEFT_FORMAT_COUNT},
    {"<system", WEFT_FORMAT_COUNT},
    {"<!-- <system> ", WEFT_FORMAT_COUNT},
    {"<html>", WEFT_FORMAT_COUNT},
    {"#\n# Topology file: generated on\n\nvendid=0x2c9\n", WEFT_FORMAT_IBNETDISCOVER},
    {"Switch\t65 \"S-1\"", WEFT_FORMAT_IBNETDISCOVER},
    {"Ca\t1 \"H-1\"\n", WEFT_FORMAT_IBNETDISCOVER},
    {"Switch is a word\n", WEFT_FORMAT_COUNT},
    {"SW   236  1 0x2c5eab0300c26280 4x NDR\n", WEFT_FORMAT_IBNETDISCOVER},
    {"Ca\t : 0x1 ports 1\n", WEFT_FORMAT_IBNETDISCOVER},
    {"# a drawing\n---\nswitches:\n  sw1:\n", WEFT_FORMAT_TOPOGRAPH},
    {"blocks:\n", WEFT_FORMAT_TOPOGRAPH},
    {"blocks", WEFT_FORMAT_COUNT},
    {"SwitchName=s0 Nodes=n[0-3]\r\n", WEFT_FORMAT_SLURM},
    {"BLOCKNAME=b0", WEFT_FORMAT_SLURM},
    {"SLURM_TOPOLOGY_ADDR=s0.s1.n1", WEFT_FORMAT_SLURM},
    {"n1 s0.s1.n1 switch.switch.node\n", WEFT_FORMAT_SLURM},
    {"n1 n1\n", WEFT_FORMAT_SLURM},
    {"s0.s1.n[1-2]\n", WEFT_FORMAT_SLURM},
    {"s0.b1.n1 switch.block.node", WEFT_FORMAT_SLURM},
    {"s0.s1.n1 switch.switch", WEFT_FORMAT_COUNT},
    {"end.\n", WEFT_FORMAT_COUNT},
    {"a.b!\n", WEFT_FORMAT_COUNT},
    {"n1 s0.xn1\n", WEFT_FORMAT_COUNT},
    {"n1 s0.n1 switch.node more\n", WEFT_FORMAT_COUNT},
    {"BlockSizes=4\n", WEFT_FORMAT_SLURM},
    {"AggregatedBlock=b[0-1] BlockIndex=2", WEFT_FORMAT_SLURM},
    {"RingName=r0 Nodes=n0", WEFT_FORMAT_SLURM},
    {"TorusName=t0 Dims=2x2x2", WEFT_FORMAT_SLURM},
    {"r8:2.n1 ring:position.node\n", WEFT_FORMAT_SLURM},
    {"\r\n---\r\n- topology: t\r\n", WEFT_FORMAT_SLURM_YAML},
    {"%YAML 1.1\n---\n- cluster_default: true\n", WEFT_FORMAT_SLURM_YAML},
    {"- clusterDefault: true\n  topology: t\n", WEFT_FORMAT_SLURM_YAML},
    {"-   \"topology\": t\n", WEFT_FORMAT_SLURM_YAML},
    {"- tree:\n    switches:\n", WEFT_FORMAT_SLURM_YAML},
    {"[\n  {\n    \"topology\": \"t\"\n", WEFT_FORMAT_SLURM_YAML},
    {"[{topology: t, flat: true}]", WEFT_FORMAT_SLURM_YAML},
    {"- 'topology': t\n", WEFT_FORMAT_SLURM_YAML},
    {"-\n  topology: t\n", WEFT_FORMAT_SLURM_YAML},
    {"---\r\n-  \r\n# the first\r\n\r\n  'cluster_default': true\r\n", WEFT_FORMAT_SLURM_YAML},
    {"[{\"topology\":\"t\",\"flat\":true}]", WEFT_FORMAT_SLURM_YAML},
    {"[{\"cluster_default\":true,\"topology\":\"t\"}]", WEFT_FORMAT_SLURM_YAML},
    {"-\n  name: a\n  topology: t\n", WEFT_FORMAT_COUNT},
    {"- 'topology\": t\n", WEFT_FORMAT_COUNT},
    {"- topology:t\n", WEFT_FORMAT_COUNT},
    {"-", WEFT_FORMAT_COUNT},
    {"topology: t\n", WEFT_FORMAT_COUNT},
    {"- topologyname\n", WEFT_FORMAT_COUNT},
    {"\"tree\": 1\n", WEFT_FORMAT_COUNT},
    {"fat-tree:leaves=32,gpus=8", WEFT_FORMAT_SYNTHETIC},
    {"torus:size=3", WEFT_FORMAT_SYNTHETIC},
    {"machine:", WEFT_FORMAT_SYNTHETIC},
    {"note: this is text", WEFT_FORMAT_COUNT},
    {"", WEFT_FORMAT_COUNT},
    {"\n\n# nothing\n", WEFT_FORMAT_COUNT},
    {"\x7f"
     "ELF\x02\x01",
     WEFT_FORMAT_COUNT},
};

static void test_detect(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof detect_cases / sizeof *detect_cases; i++) {
        if (detect(detect_cases[i].text) != detect_cases[i].format)
            fail_msg("\"%s\" is taken for %d", detect_cases[i].text, detect(detect_cases[i].text));
    }
}

static void test_unread(void **state)
{
    (void)state;
    struct weft_graph *graph = NULL;
    struct weft_text text = {"some.file", "hello\n", 6};
    assert_int_equal(weft_topo_read_text(&text, &graph), WEFT_INVALID);
    assert_detail("some.file: not a topology");
    assert_int_equal(weft_topo_read("/nonexistent/file", &graph), WEFT_SYSTEM);
    assert_detail("cannot open /nonexistent/file: No such file");
    assert_int_equal(weft_topo_read("/", &graph), WEFT_INVALID);
    assert_detail("/: a directory: expected a regular file");
    assert_int_equal(weft_topo_read("/dev/null", &graph), WEFT_INVALID);
    assert_detail("/dev/null: a character device: expected a regular file");
    assert_int_equal(weft_topo_read_any("/dev/null", &graph), WEFT_INVALID);
    assert_detail("/dev/null: holds nothing: expected XML");
    assert_int_equal(weft_topo_read("no-such:file", &graph), WEFT_INVALID);
    assert_detail("no-such:file: not a topology");
    assert_int_equal(weft_topo_read_any("/dev/zero", &graph), WEFT_INVALID);
    assert_detail("/dev/zero: larger than 256 MiB");
    assert_null(graph);
    assert_int_equal(weft_read_fail(&text, 12, "found \"%s\"", "\x1b[2J\n\xc2\x9b"), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "some.file:12: found \"?[2J???\"");
    assert_int_equal(weft_read_fail(&text, 0, "is %d", 3), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "some.file: is 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forest),    cmocka_unit_test(test_rules),      cmocka_unit_test(test_siblings),
        cmocka_unit_test(test_adjacency), cmocka_unit_test(test_attributes), cmocka_unit_test(test_strings),
        cmocka_unit_test(test_find),      cmocka_unit_test(test_growth),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_pci),       cmocka_unit_test(test_infiniband), cmocka_unit_test(test_detect),
        cmocka_unit_test(test_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
