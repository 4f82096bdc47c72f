/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads text) */
/* Slurm's topology.yaml: trees and blocks, which topology of several is read, and what is refused with line and reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/topo_asks.h"
#include <weft/weft.h>

static void describes(const char *text, const char *joins, const char *warning)
{
    topo_shows(text, "Slurm YAML", joins, warning);
}

static void test_tree(void **state)
{
    (void)state;
    describes("---\n- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n"
              "    - switch: s2\n      children: s[0-1]\n    - switch: s0\n      nodes: n[00-01]\n"
              "    - switch: s1\n      nodes: n02\n",
              "s2>s0 s2>s1 s0>n00 s0>n01 s1>n02", NULL);
    /* In any order of keys, with lists for hostlists, and from another system. */
    describes(
        "\xef\xbb\xbf\r\n# the cluster\r\n- tree:\r\n    switches:\r\n    - nodes: [n00, \"n[01-02]\"]\r\n"
        "      switch: s0\r\n    - {children: [s0], switch: s2}\r\n  topology: fabric\r\n",
        "s0>n00 s0>n01 s0>n02 s2>s0", NULL);
    describes("%YAML 1.1\n---\n- \"topology\": \"fabric\"\n  \"tree\": {\"switches\": [{\"switch\": \"s0\", "
              "\"nodes\": \"n0\"}]}\n",
              "s0>n0", NULL);
    describes("[{\"topology\": \"t\", \"tree\": {\"switches\": [{\"switch\": \"s0\", \"nodes\": \"n0\"}]}}]",
              "s0>n0", NULL);
    /* A "-" on a line of its own, single quotes, and JSON without blanks. */
    describes("-\n  topology: t\n  tree:\n    switches:\n    -\n      switch: s0\n      nodes: n0\n", "s0>n0",
              NULL);
    describes("- 'topology': 't'\n  'tree': {'switches': [{'switch': 's0', 'nodes': 'n0'}]}\n", "s0>n0",
              NULL);
    describes("[{\"topology\":\"t\",\"tree\":{\"switches\":[{\"switch\":\"s0\",\"nodes\":\"n0\"}]}}]",
              "s0>n0", NULL);
    struct weft_graph *graph = topo_read(
        "- topology: t\n  tree:\n    switches:\n    - switch: s0\n      nodes: n0\n      link_speed: 400\n");
    assert_string_equal(topo_attribute(graph, "s0", "link_speed"), "400");
    weft_graph_free(graph);
}

static void test_blocks(void **state)
{
    (void)state;
    const char *text = "- topology: racks\n  block:\n    block_sizes: [2, 4]\n    blocks:\n    - block: b0\n"
                       "      nodes: n[0-1]\n    - block: b1\n      nodes: n2\n";
    describes(text, "b0>n0 b0>n1 b1>n2", NULL);
    struct weft_graph *graph = topo_read(text);
    assert_string_equal(topo_attribute(graph, "b1", "slurm"), "block");
    weft_graph_free(graph);
}

static void test_switch_of_nothing(void **state)
{
    (void)state;
    describes("- topology: t\n  tree:\n    switches:\n    - switch: s0\n      nodes:\n    - switch: s1\n"
              "      children: s0\n      nodes: []\n",
              "s1>s0", "file:4: switch \"s0\" has neither nodes nor switches below it");
}

/* The same switch and nodes in each: only one of them can be meant. */
static void test_which(void **state)
{
    (void)state;
    static const char one[] = "  tree: {switches: [{switch: s0, nodes: n0}]}\n";
    static const char two[] = "  block: {blocks: [{block: s0, nodes: n1}]}\n";
    char text[512];
    snprintf(text, sizeof text, "- topology: a\n%s- topology: b\n%s", one, two);
    describes(text, "s0>n0", "file:1: of 2 topologies \"a\" is read, as it is the first");
    snprintf(text, sizeof text, "- topology: a\n%s- topology: b\n  cluster_default: True\n%s", one, two);
    describes(text, "s0>n1", "file:3: of 2 topologies \"b\" is read, as it is the cluster's default");
    snprintf(text, sizeof text,
             "- topology: a\n%s  cluster_default: yes\n- topology: b\n  cluster_default: yes\n%s", one, two);
    describes(text, "s0>n0", "file:1: of 2 topologies \"a\" is read, as it is the cluster's default");
    snprintf(text, sizeof text, "- topology: a\n%s- clusterDefault: true\n  topology: b\n%s", one, two);
    describes(text, "s0>n1", "file:3: of 2 topologies \"b\" is read, as it is the cluster's default");
    snprintf(text, sizeof text, "- topology: a\n  flat: true\n- topology: b\n  cluster_default: false\n%s",
             two);
    describes(text, "s0>n1", NULL);
    snprintf(text, sizeof text, "- topology: a\n  flat: true\n  cluster_default: true\n- topology: b\n%s",
             two);
    describes(text, "s0>n1",
              "file:4: topology \"b\" is read, as \"a\", the cluster's default, has no switch and no block");
}

static void test_bad(void **state)
{
    (void)state;
    topo_fails("- topology: a\n  flat: true\n- topology: b\n  ring: {rings: []}\n",
               "file:1: no topology in it has switches or blocks, expected tree: or block:");
    topo_fails("- tree:\n    switches: []\n",
               "file:1: a topology without its name, expected \"topology: NAME\"");
    topo_fails("- topology: a\n- b\n",
               "file:2: a topology is text, expected a mapping that begins with \"topology: NAME\"");
    topo_fails("{\"topology\": \"a\"}\n",
               "file:1: no list at the top, expected topologies like \"- topology: NAME\"");
    topo_fails("- topology: a\n  tree: s0\n", "file:2: tree is text, expected a mapping");
    topo_fails("- topology: a\n  tree:\n    blocks: []\n", "file:3: tree without a list of its switches");
    topo_fails("- topology: a\n  block:\n    blocks: {b0: n0}\n",
               "file:3: blocks is a mapping, expected a list");
    topo_fails("- topology: a\n  tree:\n    switches: [s0]\n",
               "file:3: switches is text, expected a mapping for each");
    topo_fails("- topology: a\n  tree:\n    switches:\n    - nodes: n0\n",
               "file:4: switches: one without its name, expected \"switch: NAME\"");
    topo_fails("- topology: a\n  tree:\n    switches:\n    - switch: s0\n      nodes: {n0: 1}\n",
               "file:5: nodes is a mapping, expected a list of names like n[0-3,7]");
    topo_fails("- topology: a\n  tree:\n    switches:\n    - switch: s0\n      nodes: [[n0]]\n",
               "file:5: what should be a name is a list, expected text");
    topo_fails("- topology: a\n  tree:\n    switches:\n    - switch: s0\n      nodes: n[0-\n",
               "file:5: \"n[0-\" has a bracket that is not closed");
    topo_fails(
        "- topology: a\n  tree:\n    switches:\n    - switch: s0\n      nodes: n0\n      children: s1\n",
        "file:6: nodes and children of one switch, expected one of them");
    topo_fails("- topology: a\n  tree:\n    switches:\n    - switch: s0\n      ports: [1]\n",
               "file:5: the key \"ports\" in a switch, expected switch, nodes or children");
    topo_fails("- topology: a\n  tree:\n    switches:\n    - switch: s0\n      nodes: n0\n    - switch: s0\n",
               "file:6: switch \"s0\" is in line 4 already");
    topo_fails("- topology: a\n  tree:\n    switches:\n    - switch: s0\n      children: s1\n",
               "file:5: switch \"s1\" is below another, but no \"- switch:\" names it");
    topo_fails("- topology: a\n  tree:\n    switches: []\n", "file: has no switch and no node");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),  cmocka_unit_test(test_blocks), cmocka_unit_test(test_switch_of_nothing),
        cmocka_unit_test(test_which), cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
