/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads text) */
/* Slurm's topology: addresses and topology.conf, hostlists, and what is refused with line and reason. */
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
#include "topo/files/hostlist.h"
#include <weft/weft.h>

static void refuses(const char *text, const char *detail)
{
    topo_refuses(weft_read_slurm, text, strlen(text), detail);
}

/* The reader itself, whatever kind the text looks like. */
static struct weft_graph *read_text(const char *text)
{
    struct weft_text given = {"file", text, strlen(text)};
    struct weft_graph *graph;
    weft_error_clear();
    assert_int_equal(weft_graph_new("file", "Slurm", &graph), 0);
    int status = weft_read_slurm(&given, graph);
    if (!status)
        status = weft_graph_finish(graph);
    if (status)
        fail_msg("%s", weft_error_detail());
    return graph;
}

/* The joins that are made of a text: "s2>s0 s2>s1 s0>n1", upper end first. */
static void describes(const char *text, const char *joins)
{
    struct weft_graph *graph = read_text(text);
    topo_leads(graph, joins);
    weft_graph_free(graph);
}

/* --- hostlists */

struct names {
    char text[8192];
    size_t used;
};

static int take_name(void *arg, struct weft_span name)
{
    struct names *names = arg;
    names->used += (size_t)snprintf(names->text + names->used, sizeof names->text - names->used, "%s%.*s",
                                    names->used ? " " : "", (int)name.size, name.data);
    assert_true(names->used < sizeof names->text);
    return 0;
}

static int expand(const char *list, uint32_t *budget, struct names *names)
{
    struct weft_text text = {"file", list, strlen(list)};
    names->used = 0;
    names->text[0] = '\0';
    return weft_hostlist_expand(&text, 3, (struct weft_span){list, strlen(list)}, budget, take_name, names);
}

static void test_hostlists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *names;
    } cases[] = {
        {"n1", "n1"},
        {"n[0-3,7]", "n0 n1 n2 n3 n7"},
        {"[1101-1102]", "1101 1102"},
        {"n[08-11]", "n08 n09 n10 n11"},
        {"n[001]", "n001"},
        {"n[9-11]x,login,m[0]", "n9x n10x n11x login m0"},
        {"r[1-2]n[1,3-4]", "r1n1 r1n3 r1n4 r2n1 r2n3 r2n4"},
        {"n[999999999]", "n999999999"},
    };
    static struct names names;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t budget = 10;
        assert_int_equal(expand(cases[i].list, &budget, &names), 0);
        assert_string_equal(names.text, cases[i].names);
    }
    uint32_t budget = 3;
    assert_int_equal(expand("n[1-3]", &budget, &names), 0);
    assert_int_equal(budget, 0);
}

static void test_bad_hostlists(void **state)
{
    (void)state;
    static char wide[400];
    static const struct {
        const char *list, *detail;
    } cases[] = {
        {"", "file:3: a list of names has an empty one, expected like n[0-3,7],m1"},
        {"n1,", "file:3: a list of names has an empty one, expected like n[0-3,7],m1"},
        {"n[1", "file:3: \"n[1\" has a bracket that is not closed"},
        {"n1]", "file:3: \"n1]\" closes a bracket that is not open"},
        {"n[]", "file:3: \"n[]\" has something else than numbers in its brackets, expected like n[0-3,7]"},
        {"n[1,]",
         "file:3: \"n[1,]\" has something else than numbers in its brackets, expected like n[0-3,7]"},
        {"n[a-b]",
         "file:3: \"n[a-b]\" has something else than numbers in its brackets, expected like n[0-3,7]"},
        {"n[1-2x]",
         "file:3: \"n[1-2x]\" has something else than numbers in its brackets, expected like n[0-3,7]"},
        {"n[[1]]",
         "file:3: \"n[[1]]\" has something else than numbers in its brackets, expected like n[0-3,7]"},
        {"n[1-]", "file:3: \"n[1-]\" has a range without an end, expected like n[0-3,7]"},
        {"n[3-1]", "file:3: \"n[3-1]\" has a range that runs backwards, expected like n[0-3,7]"},
        {"n[1000000000]",
         "file:3: \"n[1000000000]\" has something else than numbers in its brackets, expected like n[0-3,7]"},
        {"n[00000000001]", "file:3: \"n[00000000001]\" has a number of more than 10 digits"},
        {"[1][1][1][1][1][1][1][1][1]", "file:3: \"[1][1][1][1][1][1][1][1][1]\" has more than 8 brackets"},
        {"n[1-11]", "file:3: lists stand for more than 262144 names, the most that is read"},
        {wide, "file:3: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" stands for a name "
               "of more than "
               "255 bytes"},
    };
    static struct names names;
    memset(wide, 'x', 255);
    strcpy(wide + 255, "[1]");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t budget = 10;
        assert_int_equal(expand(cases[i].list, &budget, &names), WEFT_INVALID);
        assert_string_equal(weft_error_detail(), cases[i].detail);
    }
}

/* --- addresses */

static void test_addresses(void **state)
{
    (void)state;
    describes("s0.s4.s8.n3\n", "s0>s4 s4>s8 s8>n3");
    describes("s0.s4.n3 switch.switch.node\ns0.s5.n4\n", "s0>s4 s0>s5 s4>n3 s5>n4");
    describes("n3 s0.s4.n3\r\n  n4\ts0.s4.n4 switch.switch.node  # here\r\n", "s0>s4 s4>n3 s4>n4");
    describes("b1.n3 block.node", "b1>n3");
    describes("r8:2.n3 ring:position.node\nr8:3.n4 ring:position.node\n", "r8>n3 r8>n4");
    describes("t1:0:3:2.n3 torus:x:y:z.node", "t1>n3");
    /* Names with dots: by the node before it, or by the pattern. */
    describes("n3.site.example s0.n3.site.example\n", "s0>n3.site.example");
    describes("s0.n3.site.example switch.node\n", "s0>n3.site.example");
    /* A level that no switch has, one that two have. */
    describes(".s4.n3 switch.switch.node\n", "s4>n3");
    describes("s[0-1].s4.n3\n", "s0>s4 s1>s4 s4>n3");
    describes("s[0-1].s[4,6].n3\n", "s0>s4 s0>s6 s1>s4 s1>s6 s4>n3 s6>n3");
    /* The same address of every task of a node; a node without a switch. */
    describes("s0.n3\ns0.n3\ns0.n4\n", "s0>n3 s0>n4");
    struct weft_graph *graph = read_text("n3 n3 node\n");
    assert_int_equal(graph->node_count, 1);
    assert_int_equal(graph->nodes[0].kind, WEFT_NODE_HOST);
    weft_graph_free(graph);
    graph = read_text("s0.b1.n3 switch.block.node\n");
    assert_string_equal(weft_graph_attribute(graph, topo_node(graph, "b1"), "slurm"), "block");
    assert_null(weft_graph_attribute(graph, topo_node(graph, "s0"), "slurm"));
    weft_graph_free(graph);
    graph = topo_read("r8:2.n3 ring:position.node\n");
    assert_string_equal(weft_graph_attribute(graph, topo_node(graph, "r8"), "slurm"), "ring");
    weft_graph_free(graph);
}

static void test_variables(void **state)
{
    (void)state;
    describes("SLURM_TOPOLOGY_ADDR=s0.s4.n3\n", "s0>s4 s4>n3");
    describes("SLURM_TOPOLOGY_ADDR=s0.n3.x\nSLURM_TOPOLOGY_ADDR_PATTERN=switch.node\n"
              "SLURM_TOPOLOGY_ADDR=s0.n4.x\nSLURM_TOPOLOGY_ADDR_PATTERN=switch.node\n",
              "s0>n3.x s0>n4.x");
    describes("SLURM_TOPOLOGY_ADDR_PATTERN=switch.node\nSLURM_TOPOLOGY_ADDR=s0.n3.x\n", "s0>n3.x");
    describes("SLURM_TOPOLOGY_ADDR=s0.n3.x SLURM_TOPOLOGY_ADDR_PATTERN=switch.node\n", "s0>n3.x");
    describes("SLURM_TOPOLOGY_ADDR=s0.n3\nSLURM_TOPOLOGY_ADDR=s0.n4\n", "s0>n3 s0>n4");
    refuses(
        "\nSLURM_TOPOLOGY_ADDR_PATTERN=switch.node\n",
        "file:2: no address has the pattern \"switch.node\", expected SLURM_TOPOLOGY_ADDR=... next to it");
    refuses("SLURM_TOPOLOGY_ADDR=\n",
            "file:1: no value behind \"SLURM_TOPOLOGY_ADDR=\", expected an address");
    refuses("SLURM_TOPOLOGY_ADDR=s0.s1.n1\n\nSLURM_TOPOLOGY_ADDR_PATTERN=switch.node.node\n",
            "file:3: the pattern \"switch.node.node\", expected switch or block for each level and node at "
            "the end");
}

static void test_bad_addresses(void **state)
{
    (void)state;
    refuses("n2 s0.n1\n",
            "file:1: the address \"s0.n1\", expected one that ends in the name of the node before it");
    refuses("1 s0.n1\n",
            "file:1: the address \"s0.n1\", expected one that ends in the name of the node before it");
    refuses("s0.n1 switch.switch.node\n",
            "file:1: the address \"s0.n1\", expected a name for each part of its pattern");
    refuses("n1 s0.s1.n1 switch.node\n",
            "file:1: the pattern \"switch.node\", expected as many parts as the address has");
    refuses("n1 s0.s1.n1 rack.switch.node\n", "file:1: the pattern \"rack.switch.node\", expected switch or "
                                              "block for each level and node at the end");
    refuses("n1 s0.s1.n1 switch.switch.switch\n", "file:1: the pattern \"switch.switch.switch\", expected "
                                                  "switch or block for each level and node at the end");
    refuses(
        "n1 s0.n1 switch.node what\n",
        "file:1: too many words behind \"switch.node\", expected \"NODE ADDRESS PATTERN\" and nothing else");
    refuses("1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.g.h.n\n",
            "file:1: the address \"1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.g.h.n\", expected at most 16 levels");
    refuses("s0.\n", "file:1: an empty name, expected that of a switch or node");
    refuses("s0.n1\n\ns1.n1\n",
            "file:3: the address \"s1.n1\" is of the node that line 1 says has \"s0.n1\"");
    refuses("s0.n1\ns0.s0.n2\n", "file:2: switch \"s0\" stands below itself");
    refuses("s0.s1.n1\ns1.s2.n2\ns2.s0.n3\n", "file:3: switch \"s0\" stands below itself, by way of \"s2\"");
    refuses("s0.n1\nn1.n2\n", "file:2: \"n1\" is a switch here and a node in line 1");
    refuses("s0.s1.n1\nn1.s1 switch.node\n", "file:2: \"s1\" is a node here and a switch in line 1");
    refuses("s[0-64].n1\n", "file:1: an address has more than 64 switches side by side");
    refuses("s0.n[1-2]\n",
            "file:1: the name \"n[1-2]\" has a blank, bracket, comma or control character in it");
    refuses("s[0-.n1\n", "file:1: \"s[0-\" has a bracket that is not closed");
    refuses("# nothing\n\n", "file: has no switch and no node");
    topo_refuses(weft_read_slurm, "s0.n\0001\n", 8, "file:1: a zero byte, expected text");
}

/* Levels of 64 switches each make 4,096 joins of a few bytes: that is bounded for the whole text. */
static void test_crossings(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    for (int i = 0; i < 1100; i++)
        fprintf(to, "s[0-63].t[0-63].n%d\n", i);
    fclose(to);
    topo_refuses(weft_read_slurm, text, size,
                 "file:1009: levels of several switches make more than 4194304 joins, the most that is read");
    free(text);
}

/* --- topology.conf */

static void test_conf(void **state)
{
    (void)state;
    describes("# the cluster\nSwitchName=s0 Nodes=n[0-2] LinkSpeed=100\nswitchname=s1 NODES=\"n[3,7]\"\n\n"
              "SwitchName=s2 Switches=s[0-1]  # top\n",
              "s0>n0 s0>n1 s0>n2 s1>n3 s1>n7 s2>s0 s2>s1");
    describes("SwitchName=s0 \\\n  Nodes=n0\\\n\nSwitchName=s1 Nodes=n0\n", "s0>n0 s1>n0");
    describes("BlockName=b0 Nodes=n[0-1]\nBlockName=b1 Nodes=n[2-3]\nBlockSizes=2, \\\n 4\n",
              "b0>n0 b0>n1 b1>n2 b1>n3");
    struct weft_graph *graph =
        read_text("SwitchName=s0 Nodes=n0 LinkSpeed=fast\nBlockName=b0 Nodes=n0\nBlockSizes=1\n");
    assert_string_equal(weft_graph_attribute(graph, topo_node(graph, "s0"), "LinkSpeed"), "fast");
    assert_string_equal(weft_graph_attribute(graph, topo_node(graph, "b0"), "slurm"), "block");
    weft_graph_free(graph);
}

/* What is about to be filled in, or was emptied: Slurm reads it, and so do we. */
static void test_switch_of_nothing(void **state)
{
    (void)state;
    struct weft_graph *graph = read_text("SwitchName=root Switches=spine-[1-2]\nSwitchName=spine-1\n"
                                         "SwitchName=spine-2 Nodes=\nSwitchName=s3 \\\n\nBlockName=b0");
    topo_leads(graph, "root>spine-1 root>spine-2");
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 5);
    assert_int_equal(graph->warning_count, 4);
    assert_string_equal(graph->warnings[0],
                        "file:2: switch \"spine-1\" has neither nodes nor switches below it");
    assert_string_equal(graph->warnings[1],
                        "file:3: switch \"spine-2\" has neither nodes nor switches below it");
    assert_string_equal(graph->warnings[2], "file:5: switch \"s3\" has neither nodes nor switches below it");
    assert_string_equal(graph->warnings[3], "file:6: switch \"b0\" has neither nodes nor switches below it");
    weft_graph_free(graph);
}

static void test_bad_conf(void **state)
{
    (void)state;
    refuses("SwitchName=s0 Nodes=n1 Switches=s1\n",
            "file:1: a second list of what is below a switch in \"Switches\", expected either Nodes= or "
            "Switches=, once");
    refuses("SwitchName=s0 Hosts=n1\n",
            "file:1: an unknown setting \"Hosts\", expected Nodes, Switches or LinkSpeed");
    refuses("SwitchName=s0 n1\n",
            "file:1: found \"n1\", expected SwitchName=..., BlockName=... or an address");
    refuses(
        "Nodes=n1 SwitchName=s0\n",
        "file:1: a line begins with \"Nodes\", expected SwitchName=, BlockName=, BlockSizes= or an address");
    refuses("SwitchName= Nodes=n1\n", "file:1: an empty name, expected that of a switch or node");
    refuses("SwitchName=s0 Nodes=,\n", "file:1: a list of names has an empty one, expected like n[0-3,7],m1");
    refuses("SwitchName=s0 Switches=s1 \\\n Nodes=n1\n",
            "file:2: a second list of what is below a switch in \"Nodes\", expected either Nodes= or "
            "Switches=, once");
    refuses("SwitchName=s0 Nodes=n1 Nodes=n2\n",
            "file:1: a second list of what is below a switch in \"Nodes\", expected either Nodes= or "
            "Switches=, once");
    refuses("SwitchName=s0 Nodes=n1\n\nSwitchName=s0 Nodes=n2\n",
            "file:3: switch \"s0\" is in line 1 already");
    refuses("SwitchName=s0 Nodes=n1\nSwitchName=s1 Switches=s[0,7]\n",
            "file:2: switch \"s7\" is below another, but no line SwitchName= names it");
    refuses("SwitchName=s0 Switches=s1\nSwitchName=s1 Switches=s2\nSwitchName=s2 Switches=s1\n",
            "file:2: switch \"s2\" stands below itself, by way of \"s1\"");
    refuses("SwitchName=s0 Switches=s0\n", "file:1: switch \"s0\" stands below itself");
    refuses("SwitchName=s0 Nodes=n[0-262144]\n",
            "file:1: lists stand for more than 262144 names, the most that is read");
    refuses("SwitchName=s0 Nodes=n[0-200000]\nSwitchName=s1 Nodes=m[0-200000]\n",
            "file:2: lists stand for more than 262144 names, the most that is read");
}

/* 20,000 nodes, also as what srun prints for each. */
static void test_large(void **state)
{
    (void)state;
    struct weft_graph *graph = topo_read("SwitchName=leaf0 Nodes=n[0-9999]\nSwitchName=leaf1 "
                                         "Nodes=n[10000-19999]\nSwitchName=top Switches=leaf[0-1]\n");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 20000);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 20002);
    weft_graph_free(graph);
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    for (int i = 0; i < 40000; i++)
        fprintf(to, "top.leaf%d.n%d switch.switch.node\n", i % 20000 / 40, i % 20000);
    fclose(to);
    graph = topo_read(text);
    assert_string_equal(graph->format, "Slurm");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 20000);
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 501);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 20500);
    weft_graph_free(graph);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostlists),
        cmocka_unit_test(test_bad_hostlists),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_crossings),
        cmocka_unit_test(test_conf),
        cmocka_unit_test(test_bad_conf),
        cmocka_unit_test(test_switch_of_nothing),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
