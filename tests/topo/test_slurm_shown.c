/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads text) */
/* What `scontrol show topology` prints: trees, blocks, rings and tori, whole and in part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/topo_asks.h"
#include <weft/weft.h>

static void shows(const char *text, const char *joins, const char *warning)
{
    topo_shows(text, "Slurm", joins, warning);
}

/* The nodes of a switch above others are those of these: they hang there alone. */
static void test_tree(void **state)
{
    (void)state;
    shows("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]\n"
          "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n2\n"
          "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-2] Switches=s[0-1]\n"
          "SwitchName=s3 Level=2 LinkSpeed=1 Nodes=n[0-2] Switches=s2\n",
          "s0>n0 s0>n1 s1>n2 s2>s0 s2>s1 s3>s2", NULL);
    /* In any order of lines and words, with the blank that older ones end in, and from another system. */
    shows("\xef\xbb\xbf\r\n  SwitchName=s3 Switches=s2 Nodes=n[0-2] LinkSpeed=1 Level=2 \r\n"
          "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-2] Switches=s[0-1] \r\n"
          "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n2 \r\n"
          "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1] \r\n",
          "s3>s2 s2>s0 s2>s1 s0>n0 s0>n1 s1>n2", NULL);
    shows("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n0\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=\n"
          "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n0 Switches=s[0-1]\n",
          "s0>n0 s2>s0 s2>s1", "file:2: switch \"s1\" has neither nodes nor switches below it");
}

/* `scontrol show topology n0` and `scontrol show topology s2`. */
static void test_part_of_tree(void **state)
{
    (void)state;
    struct weft_graph *graph = topo_read("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]\n"
                                         "SwitchName=s3 Level=2 LinkSpeed=1 Nodes=n[0-4] Switches=s[2,4]\n"
                                         "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-2] Switches=s[0-1]\n");
    topo_leads(graph, "s0>n0 s0>n1 s3>s2 s3>s4 s3>n3 s3>n4 s2>s0 s2>s1 s2>n2");
    assert_int_equal(graph->warning_count, 4);
    assert_string_equal(graph->warnings[0],
                        "file:2: switch \"s4\" is below another, but no line SwitchName= names it");
    assert_string_equal(graph->warnings[1],
                        "file:3: switch \"s1\" is below another, but no line SwitchName= names it");
    assert_string_equal(graph->warnings[2],
                        "file:3: no line says on which switch below \"s2\" 1 of its nodes "
                        "hang: they are taken to hang on that one");
    assert_string_equal(graph->warnings[3],
                        "file:2: no line says on which switch below \"s3\" 2 of its nodes "
                        "hang: they are taken to hang on that one");
    weft_graph_free(graph);
}

static void test_groups(void **state)
{
    (void)state;
    shows("BlockName=b0 BlockIndex=0 Nodes=n[0-1] BlockSize=2\n"
          "BlockName=b1 BlockIndex=1 Nodes=n[2-3] BlockSize=2\n"
          "AggregatedBlock=b[0-1] BlockIndex=2 Nodes=n[0-3] BlockSize=4\n",
          "b0>n0 b0>n1 b1>n2 b1>n3", NULL);
    shows("AggregatedBlock=b0 BlockIndex=1 Nodes=n0 BlockSize=4\nBlockName=b0 BlockIndex=0 Nodes=n0\n",
          "b0>n0", NULL);
    shows("RingName=r0 Nodes=n[0-1] RingSize=4\nRingName=r1 RingSize=4\n", "r0>n0 r0>n1",
          "file:2: switch \"r1\" has neither nodes nor switches below it");
    shows("TorusName=t0 Dims=2x1x1 Nodes=n[0-1]\n  TorusName=t0 PlacementDims=1x1x1(1) Anchors=2\n"
          "  TorusName=t0 PlacementDims=2x1x1(2) Anchors=1\n",
          "t0>n0 t0>n1", NULL);
    struct weft_graph *graph = topo_read(
        "TorusName=t0 Dims=2x1x1 Nodes=n0\nRingName=r0 Nodes=n1 RingSize=4\nBlockName=b0 Nodes=n2\n");
    assert_string_equal(topo_attribute(graph, "t0", "slurm"), "torus");
    assert_string_equal(topo_attribute(graph, "r0", "slurm"), "ring");
    assert_string_equal(topo_attribute(graph, "b0", "slurm"), "block");
    weft_graph_free(graph);
}

/* Each level above the leaves names all nodes of 60,000 again. What no leaf has is counted once, of all levels. */
static void test_many_levels(void **state)
{
    (void)state;
    struct weft_graph *graph =
        topo_read("SwitchName=s4 Level=4 Nodes=n[0-59999] Switches=s3\n"
                  "SwitchName=s3 Level=3 Nodes=n[0-59999] Switches=s2\n"
                  "SwitchName=s2 Level=2 Nodes=n[0-59999] Switches=s1\n"
                  "SwitchName=s1 Level=1 Nodes=n[0-59999] Switches=s[00-01]\n"
                  "SwitchName=s00 Level=0 Nodes=n[0-29999]\nSwitchName=s01 Level=0 Nodes=n[30000-59999]\n");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 60000);
    assert_int_equal(topo_count(graph, WEFT_NODE_SWITCH), 6);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 60005);
    assert_int_equal(graph->warning_count, 0);
    weft_graph_free(graph);
    topo_fails("SwitchName=s0 Level=0 Nodes=n0\nSwitchName=s1 Level=1 Nodes=n[0-262144] Switches=s0\n",
               "file:2: lists stand for more than 262144 names, the most that is read");
    topo_fails("SwitchName=s0 Level=0 Nodes=n0\nSwitchName=s1 Level=1 Nodes=a[1-200000] Switches=s0\n"
               "SwitchName=s2 Level=2 Nodes=b[1-200000] Switches=s1\n",
               "file:3: lists stand for more than 262144 names, the most that is read");
}

static void test_bad(void **state)
{
    (void)state;
    topo_fails("SwitchName=s0 Level=0 Nodes=n0\n\nSwitchName=s1 Level=high Nodes=n1\n",
               "file:3: the level \"high\", expected a number up to 65535, as scontrol prints");
    topo_fails("SwitchName=s0 Level=65536 Nodes=n0\n",
               "file:1: the level \"65536\", expected a number up to 65535, as scontrol prints");
    topo_fails("SwitchName=s0 Level= Nodes=n0\n",
               "file:1: the level \"\", expected a number up to 65535, as scontrol prints");
    topo_fails("SwitchName=s0 Nodes=n0 BlockSize=2\n",
               "file:1: an unknown setting \"BlockSize\", expected Nodes, Switches or LinkSpeed");
    /* Cut off by SLURM_TOPO_LEN. */
    topo_fails("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-\n",
               "file:1: \"n[0-\" has a bracket that is not closed");
    topo_fails("SwitchName=s0 Level=0 Nodes=n0\nSwitchName=s0 Level=0 Nodes=n1\n",
               "file:2: switch \"s0\" is in line 1 already");
    topo_fails("SwitchName=s0 Level=1 Nodes=n0 Switches=s0\n", "file:1: switch \"s0\" stands below itself");
    topo_fails("AggregatedBlock=b[0-1] BlockIndex=2 Nodes=n[0-3]\n", "file: has no switch and no node");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),   cmocka_unit_test(test_part_of_tree),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_many_levels),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
