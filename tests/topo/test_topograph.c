/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads text) */
/* topograph's YAML: its three spellings, and what is refused with line and reason. */
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
#include "topo/files/yaml_tree.h"
#include <weft/weft.h>

static void refuses(const char *text, const char *detail)
{
    topo_refuses(weft_read_topograph, text, strlen(text), detail);
}

/* The joins that are made of a text: "s2>s0 s2>s1 s0>n1", upper end first. The caller frees the graph. */
static struct weft_graph *describes(const char *text, const char *joins)
{
    struct weft_graph *graph = topo_read(text);
    assert_string_equal(graph->format, "topograph YAML");
    topo_leads(graph, joins);
    return graph;
}

static void attribute_is(const struct weft_graph *graph, const char *node, const char *name,
                         const char *value)
{
    const char *has = weft_graph_attribute(graph, topo_node(graph, node), name);
    if (!value) {
        assert_null(has);
        return;
    }
    assert_non_null(has);
    assert_string_equal(has, value);
}

/* --- what is read */

static void test_blocks_on_switches(void **state)
{
    (void)state;
    struct weft_graph *graph = describes("# a drawing\n"
                                         "switches:\n"
                                         "  top:\n"
                                         "    labels:\n"
                                         "      site.example/region: west\n"
                                         "    switches: [s0, 's1']\n"
                                         "  s0:\n"
                                         "blocks:\n"
                                         "- switch: s0\n"
                                         "  nodes:\n"
                                         "  - \"[1101-1102]\"\n"
                                         "  - login\n"
                                         "  annotations:\n"
                                         "    domain: nvl1\n"
                                         "    name: inner\n"
                                         "- switch: s1\n"
                                         "  nodes: n[1-2]\n"
                                         "- nodes: [alone]\n",
                                         "top>s0 top>s1 s0>1101 s0>1102 s0>login s1>n1 s1>n2");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 6);
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 3);
    attribute_is(graph, "top", "site.example/region", "west");
    attribute_is(graph, "1102", "domain", "nvl1");
    attribute_is(graph, "1102", "name", "inner");
    attribute_is(graph, "1102", "switch", NULL);
    attribute_is(graph, "1102", "block", NULL);
    attribute_is(graph, "n1", "domain", NULL);
    weft_graph_free(graph);
}

static void test_lists_of_switches(void **state)
{
    (void)state;
    struct weft_graph *graph = describes("topology: \"topology/tree\"\n"
                                         "capacity_blocks:\n"
                                         "- name: cb1\n  nvlink: nv1\n  type: H100\n  nodes: [a1,a2]\n"
                                         "- name: cb2\n  type: H100\n  nodes: [b1]\n"
                                         "- name: cb3\n  nodes: [c1]\n"
                                         "switches:\n"
                                         "- name: top\n  switches: ['leaf[1-2]']\n"
                                         "- name: leaf1\n  capacity_blocks: [cb1]\n"
                                         "- name: leaf2\n  capacity_blocks: ['cb[2-2]']\n  tier: low\n",
                                         "top>leaf1 top>leaf2 leaf1>a1 leaf1>a2 leaf2>b1");
    attribute_is(graph, "a2", "nvlink", "nv1");
    attribute_is(graph, "a2", "type", "H100");
    attribute_is(graph, "a2", "block", "cb1");
    attribute_is(graph, "b1", "nvlink", NULL);
    attribute_is(graph, "c1", "block", "cb3");
    attribute_is(graph, "leaf2", "tier", "low");
    attribute_is(graph, "leaf2", "name", NULL);
    weft_graph_free(graph);
}

static void test_nodes_apart(void **state)
{
    (void)state;
    struct weft_graph *graph = describes("switches:\n"
                                         "  S1: {switches: [S2]}\n"
                                         "  S2: {nodes: [\"I[21-22]\"]}\n"
                                         "nodes:\n"
                                         "  I21: {type: H100, attributes: {nvlink: CB2}}\n"
                                         "  I22:\n"
                                         "  I99: {capacity_block: CB9}\n"
                                         "capacity_blocks:\n"
                                         "  CB2: {nodes: [I21, I22]}\n"
                                         "  CB3:\n",
                                         "S1>S2 S2>I21 S2>I22");
    attribute_is(graph, "I21", "type", "H100");
    attribute_is(graph, "I21", "nvlink", "CB2");
    attribute_is(graph, "I21", "block", "CB2");
    attribute_is(graph, "I22", "type", NULL);
    attribute_is(graph, "I99", "capacity_block", "CB9");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 3);
    weft_graph_free(graph);
}

/* The order of the keys does not matter, nor line ends, nor empty values. */
static void test_spelling(void **state)
{
    (void)state;
    weft_graph_free(
        describes("blocks:\r\n- nodes: [n1]\r\n  switch: s0\r\nswitches:\r\n  s1:\r\n    switches: s0\r\n"
                  "    nodes:\r\n    labels:\r\n",
                  "s1>s0 s0>n1"));
    weft_graph_free(describes("---\nswitches:\nblocks:\n- {switch: s0, nodes: n1}\n...\n", "s0>n1"));
}

/* --- what is refused */

static void test_bad_models(void **state)
{
    (void)state;
    refuses("", "file: no mapping at the top, expected switches: or blocks:");
    refuses("- a\n", "file: no mapping at the top, expected switches: or blocks:");
    refuses("switches:\n", "file: has no switch and no node");
    refuses("switches:\n  s0:\nracks:\n- a\n",
            "file:3: the key \"racks\" in the topology, expected switches, blocks, capacity_blocks or nodes");
    refuses("switches: s0\n", "file:1: switches is text, expected a mapping or a list");
    refuses("switches:\n  s0: [a]\n", "file:2: switches is a list, expected a mapping for each");
    refuses("switches:\n- s0\n", "file:2: switches is text, expected a mapping for each");
    refuses("switches:\n- switches: [a]\n", "file:2: switches: one without a name");
    refuses("switches:\n  '': {switches: [a]}\n", "file:2: switches: one without a name");
    refuses(
        "switches:\n  s0:\n    hosts: [a]\n",
        "file:3: the key \"hosts\" in a switch, expected name, switches, nodes, capacity_blocks or labels");
    refuses("blocks:\n- hosts: [a]\n",
            "file:2: the key \"hosts\" in a block, expected name, switch, nodes or labels");
    refuses("blocks:\n- switch: [a]\n", "file:2: a block's switch is a list, expected its name");
    refuses("nodes:\n  n0:\n    up: [a]\n", "file:3: the key \"up\" in a node, expected words or labels");
    refuses("switches:\n  s0:\n    nodes: {a: b}\n",
            "file:3: what should be names is a mapping, expected a list of them");
    refuses("switches:\n  s0:\n    nodes:\n    - [a]\n",
            "file:4: what should be a name is a list, expected text");
    refuses("switches:\n  s0:\n    labels:\n      a: {b: c}\n",
            "file:4: the key \"a\" in a switch's labels, expected text behind it");
    refuses("blocks:\n- nodes: [n]\n  labels: {a: [c]}\n",
            "file:3: the key \"a\" in a block's labels, expected text behind it");
    refuses("nodes:\n  n:\n    attributes: {a: [c]}\n",
            "file:3: the key \"a\" in a node's labels, expected text behind it");
    refuses("blocks:\n- nodes:\n  - n[1-\n", "file:3: \"n[1-\" has a bracket that is not closed");
    refuses("blocks:\n- nodes: ['n[0-262144]']\n",
            "file:2: lists stand for more than 262144 names, the most that is read");
}

static void test_contradictions(void **state)
{
    (void)state;
    refuses("switches:\n- name: s0\n- name: s0\n", "file:3: switch \"s0\" is in line 2 already");
    refuses("switches:\n  s0: {nodes: [n1]}\n  s1: {nodes: [n1]}\n",
            "file:3: node \"n1\" hangs on two switches, \"s0\" and \"s1\"");
    refuses("blocks:\n- {switch: s0, nodes: [n1]}\n- {switch: s1, nodes: [n1]}\n",
            "file:3: node \"n1\" hangs on two switches, \"s0\" and \"s1\"");
    refuses("blocks:\n- {nodes: [n1]}\n- {nodes: ['n[0-4]']}\n",
            "file:3: node \"n1\" is in two blocks, the first in line 2");
    refuses("switches:\n  s0: {blocks: [b]}\n  s1: {blocks: [b]}\n",
            "file:3: block \"b\" is of two switches, \"s0\" and \"s1\"");
    refuses("switches:\n  s0: {blocks: [b]}\nblocks:\n- name: b\n  switch: s1\n",
            "file:4: block \"b\" is of two switches, \"s0\" and \"s1\"");
    refuses("switches:\n  s0: {switches: [n1]}\nblocks:\n- nodes: [n1]\n",
            "file:4: \"n1\" is a node here and a switch in line 2");
    refuses("switches:\n  s0: {switches: [s1]}\n  s1: {switches: [s0]}\n",
            "file:3: switch \"s0\" stands below itself, by way of \"s1\"");
    refuses("switches:\n  s0: {switches: [s0]}\n", "file:2: switch \"s0\" stands below itself");
}

/* Labels of a block times its nodes. */
static void test_many_labels(void **state)
{
    (void)state;
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof text, "blocks:\n- nodes: ['n[0-262000]']\n  labels:\n");
    for (int i = 0; i < 20; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "    label%d: x\n", i);
    refuses(text, "file:2: blocks give more than 1048576 labels to their nodes, the most that is read");
}

static void test_bad_yaml(void **state)
{
    (void)state;
    refuses("switches: {\n", "file:2: no YAML: did not find expected node content");
    refuses("switches:\n  s0: \"a\n", "file:3: no YAML: found unexpected end of stream");
    refuses("switches:\n  s0: 'a\xff'\n", "file:2: no YAML: invalid leading UTF-8 octet");
    refuses("switches:\n  s0: &x\n  s1: *x\n", "file:3: an alias (*x), expected YAML without");
    refuses("switches:\n  s0:\n---\nswitches:\n", "file:3: a second document, expected one");
    refuses("%YAML 1.1\n%YAML 1.1\n---\nswitches:\n", "file:2: no YAML: found duplicate %YAML directive");
    refuses("%YAML 3.0\n---\nswitches:\n", "file:1: no YAML: found incompatible YAML document");
    refuses("# 5%\n\xc2\x85%TAG ! a\n---\n",
            "file:2: a line that begins with %, expected YAML without directives");
    refuses("switches:\n  s0:\n  s1:\n  s0:\n", "file:4: the key \"s0\" is in line 2 already");
    refuses("switches:\n  [a]: b\n", "file:2: a key that is a list or mapping, expected text");
    refuses("switches:\n  \"a\\0b\":\n", "file:2: a zero byte, expected text");
    refuses("switches:\n  \"a b\":\n",
            "file:2: the name \"a b\" has a blank, bracket, comma or control character in it");
    char deep[64] = "switches:\n  s0: ";
    memset(deep + strlen(deep), '[', 30);
    refuses(deep, "file:2: nested more than 16 deep");
}

static void test_too_many_values(void **state)
{
    (void)state;
    size_t values = WEFT_YAML_NODES_MAX, size = 0;
    char *text = malloc(2 * values + 32);
    assert_non_null(text);
    size = (size_t)sprintf(text, "switches:\n- [");
    for (size_t i = 0; i < values; i++) {
        text[size++] = 'a';
        text[size++] = ',';
    }
    topo_refuses(weft_read_topograph, text, size,
                 "file:2: more than 4194304 values and keys, the most that is read");
    free(text);
    struct weft_text large = {"file", "", (size_t)WEFT_YAML_SIZE_MAX + 1};
    struct weft_yaml yaml;
    assert_int_equal(weft_yaml_parse(&large, &yaml), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "file: more than 32 MiB of YAML, the most that is read");
}

/* --- the sample, and a large one */

static void test_sample(void **state)
{
    (void)state;
    char *bytes = topo_sample("topograph-2block.yaml", NULL);
    struct weft_graph *graph =
        describes(bytes, "top>leaf1 top>leaf2 leaf1>1101 leaf1>1102 leaf1>login leaf2>n1 leaf2>n2");
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 5);
    attribute_is(graph, "top", "site.example/region", "west");
    attribute_is(graph, "1102", "domain", "nvl1");
    weft_graph_free(graph);
    free(bytes);
}

static void test_real_sample(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    if (topo_file("fabric/topograph-medium.yaml", &bytes, &size) != 0)
        skip();
    struct weft_graph *graph = describes(
        bytes, "sw3>sw21 sw3>sw22 sw21>sw11 sw21>sw12 sw22>sw13 sw22>sw14 sw11>1101 sw11>1102 sw12>1201 "
               "sw12>1202 sw13>1301 sw13>1302 sw14>1401 sw14>1402");
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 7);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 8);
    attribute_is(graph, "sw3", "topology.kubernetes.io/region", "us-west");
    attribute_is(graph, "sw22", "topology.kubernetes.io/zone", "zone2");
    attribute_is(graph, "1302", "accelerator.topology.test/domain", "nvl3");
    weft_graph_free(graph);
    free(bytes);
}

static void test_large(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    fprintf(to, "switches:\n  top:\n    switches:\n");
    for (int i = 0; i < 1000; i++)
        fprintf(to, "    - leaf%d\n", i);
    fprintf(to, "blocks:\n");
    for (int i = 0; i < 1000; i++)
        fprintf(to, "- switch: leaf%d\n  nodes:\n  - \"n%d[01-20]\"\n  labels:\n    domain: d%d\n", i, i, i);
    fclose(to);
    struct weft_graph *graph = topo_read(text);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 20000);
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 1001);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 21000);
    attribute_is(graph, "n99920", "domain", "d999");
    weft_graph_free(graph);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_on_switches), cmocka_unit_test(test_lists_of_switches),
        cmocka_unit_test(test_nodes_apart),        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_bad_models),         cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_many_labels),        cmocka_unit_test(test_bad_yaml),
        cmocka_unit_test(test_too_many_values),    cmocka_unit_test(test_sample),
        cmocka_unit_test(test_real_sample),        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
