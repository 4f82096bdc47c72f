/* SPDX-License-Identifier: Apache-2.0 */
/* Links that carry less than they could, as weft-topo shows them, and a way over several cables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/tool.h"
#include "topo/report/degraded.h"
#include "topo/read.h"
#include "topo/report/between.h"

#define NODE(word, id, name) "\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0x" id "\n" word " \"" name "\""
#define LEAF(id, described)                                                                                  \
    NODE("Switch\t65", id, "S-0000000000000" id) "\t\t# \"" described "\" base port 0 lid 1 lmc 0\n"
#define UP(port, id, other, speed)                                                                           \
    "[" port "]\t\"S-0000000000000" id "\"[" other "]\t\t# \"box\" lid 2 " speed "\n"
#define DOWN(port, id, host, speed)                                                                          \
    "[" port "]\t\"H-0000000000000" id "\"[1](" id ") \t\t# \"" host " mlx5_0\" lid 3 " speed "\n"
#define HOST(id, host, leaf, port, speed)                                                                    \
    NODE("Ca\t1", id, "H-0000000000000" id)                                                                  \
    "\t\t# \"" host " mlx5_0\"\n[1](" id ") \t\"S-0000000000000" leaf "\"[" port                             \
    "]\t\t# lid 3 lmc 0 \"box\" lid 1 " speed "\n"

/* Two leaves with two hosts each; two cables between them. */
#define FABRIC(host_1, host_2, host_3, host_4, cable_1, cable_2)                                             \
    LEAF("100", "left")                                                                                      \
    DOWN("1", "a01", "n1", host_1)                                                                           \
    DOWN("2", "a02", "n2", host_2)                                                                           \
    UP("11", "200", "21", cable_1)                                                                           \
    UP("12", "200", "22", cable_2)                                                                           \
    LEAF("200", "right")                                                                                     \
    DOWN("1", "a03", "n3", host_3)                                                                           \
    DOWN("2", "a04", "n4", host_4)                                                                           \
    UP("21", "100", "11", cable_1)                                                                           \
    UP("22", "100", "12", cable_2)                                                                           \
    HOST("a01", "n1", "100", "1", host_1)                                                                    \
    HOST("a02", "n2", "100", "2", host_2)                                                                    \
    HOST("a03", "n3", "200", "1", host_3) HOST("a04", "n4", "200", "2", host_4)

/* Hosts, two leaves, two spines, one core; `cable` is between leaves and spines. */
#define TAPERED(host, cable, top)                                                                            \
    LEAF("100", "leaf1")                                                                                     \
    DOWN("1", "a01", "n1", host)                                                                             \
    UP("11", "300", "1", cable)                                                                              \
    UP("12", "400", "1", cable)                                                                              \
    LEAF("200", "leaf2")                                                                                     \
    DOWN("1", "a02", "n2", host)                                                                             \
    UP("11", "300", "2", cable)                                                                              \
    UP("12", "400", "2", cable)                                                                              \
    LEAF("300", "spine1")                                                                                    \
    UP("1", "100", "11", cable)                                                                              \
    UP("2", "200", "11", cable)                                                                              \
    UP("5", "500", "1", top)                                                                                 \
    LEAF("400", "spine2")                                                                                    \
    UP("1", "100", "12", cable)                                                                              \
    UP("2", "200", "12", cable)                                                                              \
    UP("5", "500", "2", top)                                                                                 \
    LEAF("500", "core")                                                                                      \
    UP("1", "300", "5", top)                                                                                 \
    UP("2", "400", "5", top) HOST("a01", "n1", "100", "1", host) HOST("a02", "n2", "200", "1", host)

/* Left and right, with three cables from each to a third switch; between them `cables`, which are described from the left. */
#define TRIANGLE(host, cables_left, cables_right, rest)                                                      \
    LEAF("100", "left")                                                                                      \
    DOWN("9", "a01", "n1", host)                                                                             \
    cables_left UP("3", "300", "1", rest) UP("4", "300", "2", rest) UP("5", "300", "3", rest)                \
        LEAF("200", "right") DOWN("9", "a02", "n2", host) cables_right UP("3", "300", "4", rest)             \
            UP("4", "300", "5", rest) UP("5", "300", "6", rest) LEAF("300", "third")                         \
                UP("1", "100", "3", rest) UP("2", "100", "4", rest) UP("3", "100", "5", rest)                \
                    UP("4", "200", "3", rest) UP("5", "200", "4", rest) UP("6", "200", "5", rest)            \
                        HOST("a01", "n1", "100", "9", host) HOST("a02", "n2", "200", "9", host)
#define ONE(speed) UP("1", "200", "1", speed), UP("1", "100", "1", speed)
#define TWO(speed)                                                                                           \
    UP("1", "200", "1", speed)                                                                               \
    UP("2", "200", "2", speed), UP("1", "100", "1", speed) UP("2", "100", "2", speed)
#define TRIANGLE_OF(...) TRIANGLE(__VA_ARGS__)

static const char trunk[] = FABRIC("4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xDDR", "4xEDR");

/* The total, the hop that limits it and the hops that are shown agree, from both ends. */
static void test_trunk_explained(void **state)
{
    (void)state;
    tool_file("trunk.out", trunk);
    assert_int_equal(tool_run("--input $T/trunk.out --explain n3/mlx5_0 n1/mlx5_0"), 0);
    assert_string_equal(tool_output, "n3/mlx5_0 - n1/mlx5_0: NET, another host, over the fabric\n"
                                     "\n"
                                     "  NIC n3/mlx5_0\n"
                                     "    | inside\n"
                                     "  NIC n3/mlx5_0 port 1\n"
                                     "    | cable, 12.5 GB/s   <- narrowest\n"
                                     "  switch right\n"
                                     "    | 2 cables, 14.5 GB/s together\n"
                                     "    |   cable [21] - [11], 2 GB/s, degraded: another cable of the "
                                     "trunk runs at 100 Gb/s (12.5 GB/s)\n"
                                     "    |   cable [22] - [12], 12.5 GB/s\n"
                                     "  switch left\n"
                                     "    | cable, 12.5 GB/s\n"
                                     "  NIC n1/mlx5_0 port 1\n"
                                     "    | inside\n"
                                     "  NIC n1/mlx5_0\n"
                                     "\n"
                                     "bandwidth: 12.5 GB/s\n"
                                     "latency: unknown\n");
    tool_expect("--input $T/trunk.out --explain n1 n3", 0, "    |   cable [11] - [21], 2 GB/s, degraded: ");
}

static void test_trunk_is_narrowest(void **state)
{
    (void)state;
    tool_file("narrow.out", (char[]){FABRIC("4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xDDR", "4xDDR")});
    tool_expect("--input $T/narrow.out --explain n1/mlx5_0 n3/mlx5_0", 0,
                "    | 2 cables, 2 GB/s a link, 4 GB/s together   <- narrowest\n");
    assert_non_null(strstr(tool_output, "bandwidth: 4 GB/s\n"));
    tool_expect("--input 'fat-tree:leaves=2,nodes-per-leaf=2' --explain node0 node1", 0, "bandwidth: ");
    assert_null(strstr(tool_output, "degraded"));
}

static void test_trunk_in_default_view(void **state)
{
    (void)state;
    tool_file("trunk.out", trunk);
    tool_expect(
        "--input $T/trunk.out", 0,
        "\ndegraded: 1 link carries less than could be\n"
        "  cable left [11] - right [21]: 16 Gb/s (2 GB/s), 4xDDR; another cable of the trunk runs at 100 "
        "Gb/s (12.5 GB/s)\n\n");
    tool_expect(
        "--input $T/trunk.out --format json", 0,
        "\"reason\": \"trunk\", \"bytes_per_s\": 2000000000, \"expected_bytes_per_s\": 12500000000, ");
}

/* Every kind of witness; and what has none is not named. */
static void test_witnesses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum weft_degraded_why why[4]; /* in the order of edges: hosts left, cables, hosts right */
        uint64_t expected_bytes_per_s;
    } cases[] = {
        {trunk, {WEFT_DEGRADED_TRUNK}, 12500000000},
        {TRIANGLE_OF("4xEDR", ONE("4xDDR"), "4xEDR"), {WEFT_DEGRADED_SWITCHES}, 12500000000},
        {TRIANGLE_OF("4xHDR", ONE("4xDDR"), "4xEDR"), {WEFT_DEGRADED_SWITCHES}, 12500000000},
        {FABRIC("1xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR"), {WEFT_DEGRADED_ADAPTER}, 12500000000},
        {FABRIC("4xDDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR"), {WEFT_DEGRADED_ADAPTER}, 12500000000},
        /* Two lanes, slower than any split port's. */
        {TRIANGLE_OF("4xEDR", ONE("2xDDR"), "4xEDR"), {WEFT_DEGRADED_SWITCHES}, 12500000000},
        {FABRIC("2xDDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR"), {WEFT_DEGRADED_ADAPTER}, 12500000000},
        {FABRIC("4xEDR", "4xEDR", "4xEDR", "4xEDR", "2xDDR", "4xEDR"), {WEFT_DEGRADED_TRUNK}, 12500000000},
        /* Only the lanes show it: the adapters are slow all over. */
        {FABRIC("1xHDR", "2xEDR", "2xEDR", "2xEDR", "4xEDR", "4xEDR"), {WEFT_DEGRADED_LANE}, 25000000000},
        /* Alike: slow adapters, slow everything, one lane everywhere. */
        {FABRIC("4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR"), {WEFT_DEGRADED_NOT}, 0},
        {FABRIC("4xDDR", "4xDDR", "4xDDR", "4xDDR", "4xDDR", "4xDDR"), {WEFT_DEGRADED_NOT}, 0},
        {FABRIC("1xSDR", "1xSDR", "1xSDR", "1xSDR", "1xSDR", "1xSDR"), {WEFT_DEGRADED_NOT}, 0},
        {FABRIC("4xDDR", "4xDDR", "4xDDR", "4xDDR", "4xEDR", "4xEDR"), {WEFT_DEGRADED_NOT}, 0},
        /* Narrower above the hosts, between two levels, between two parts. */
        {FABRIC("4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xDDR", "4xDDR"), {WEFT_DEGRADED_NOT}, 0},
        {TAPERED("4xHDR", "4xEDR", "4xHDR"), {WEFT_DEGRADED_NOT}, 0},
        {TAPERED("4xHDR", "4xHDR", "4xEDR"), {WEFT_DEGRADED_NOT}, 0},
        {TRIANGLE_OF("4xEDR", TWO("4xDDR"), "4xEDR"), {WEFT_DEGRADED_NOT}, 0},
        /* On purpose: split ports, chips at half their rate. */
        {FABRIC("2xHDR", "4xHDR", "4xHDR", "4xEDR", "2xHDR", "2xHDR"), {WEFT_DEGRADED_NOT}, 0},
        {FABRIC("4xNDR", "4xNDR", "4xNDR", "4xNDR", "4xNDR", "2xNDR"), {WEFT_DEGRADED_NOT}, 0},
        {FABRIC("4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR", "2xEDR"), {WEFT_DEGRADED_NOT}, 0},
        {FABRIC("4xNDR", "4xNDR", "4xNDR", "2xHDR", "4xNDR", "4xNDR"), {WEFT_DEGRADED_NOT}, 0},
        {TRIANGLE_OF("4xNDR", ONE("2xHDR"), "4xNDR"), {WEFT_DEGRADED_NOT}, 0},
        {TAPERED("4xNDR", "2xHDR", "4xNDR"), {WEFT_DEGRADED_NOT}, 0},
        /* Only one of the two switches is seen to do more. */
        {FABRIC("4xHDR", "4xHDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR"), {WEFT_DEGRADED_NOT}, 0},
        /* A rate that is not known. */
        {FABRIC("4xEDR", "4xEDR", "4xEDR", "4xEDR", "4xODD", "4xEDR"), {WEFT_DEGRADED_NOT}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_text text = {"file", cases[i].text, strlen(cases[i].text)};
        struct weft_graph *graph;
        struct weft_degraded *list;
        uint32_t count, expected = 0;
        assert_int_equal(weft_topo_read_text(&text, &graph), 0);
        assert_int_equal(weft_degraded_find(graph, &list, &count), 0);
        while (expected < 4 && cases[i].why[expected] != WEFT_DEGRADED_NOT)
            expected++;
        if (count != expected)
            fail_msg("case %zu: %u are named, expected %u", i, count, expected);
        for (uint32_t k = 0; k < count; k++) {
            if (list[k].why != cases[i].why[k] ||
                list[k].expected_bytes_per_s != cases[i].expected_bytes_per_s)
                fail_msg("case %zu: %s, %llu bytes per second", i, weft_degraded_why_name(list[k].why),
                         (unsigned long long)list[k].expected_bytes_per_s);
        }
        free(list);
        weft_graph_free(graph);
    }
}

/* A card with fewer lanes than it and its slot have, as discovery says. */
static void test_slot(void **state)
{
    (void)state;
    struct weft_graph *graph;
    uint32_t host, slot, card, count;
    struct weft_degraded *list;
    assert_int_equal(weft_graph_new("test", "test", &graph), 0);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "box");
    assert_int_equal(weft_graph_add_node(graph, &given, &host), 0);
    given = WEFT_NODE_GIVEN(WEFT_NODE_BRIDGE, host, "port");
    assert_int_equal(weft_graph_add_node(graph, &given, &slot), 0);
    given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, slot, "gpu0");
    given.parent_pci = 1;
    given.parent_bytes_per_s = weft_pci_bytes_per_s(16, 8);
    assert_int_equal(weft_graph_add_node(graph, &given, &card), 0);
    assert_int_equal(weft_graph_set_attribute(graph, card, "link_width", "8"), 0);
    assert_int_equal(weft_graph_set_attribute(graph, card, "link_width_max", "16"), 0);
    assert_int_equal(weft_graph_finish(graph), 0);
    assert_int_equal(weft_degraded_find(graph, &list, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(list[0].why, WEFT_DEGRADED_SLOT);
    assert_int_equal(list[0].edge, graph->nodes[card].parent_edge);
    assert_int_equal(list[0].expected_lanes, 16);
    free(list);
    weft_graph_free(graph);
}

static void said(void *arg, const char *text)
{
    char *all = arg;
    size_t used = strlen(all);
    snprintf(all + used, 512 - used, "%s\n", text);
}

/* Only what a shortest way may pass; hosts by their names with a domain and without. */
static void test_between(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *text;
    } cases[] = {
        {"n1", "n3", "degraded cable left [11] - right [21]: 2 GB/s, 4xDDR, could be 12.5 GB/s\n"},
        {"n4.example.org", "n2",
         "degraded cable left [11] - right [21]: 2 GB/s, 4xDDR, could be 12.5 GB/s\n"},
        {"n1", "n2", ""},
        {"n1", "n1", ""},
        {"n1", "n33", ""},
        {"left", "right", ""},
    };
    struct weft_between *between;
    char path[512], text[512];
    tool_file("trunk.out", trunk);
    snprintf(path, sizeof path, "%s/trunk.out", getenv("T"));
    assert_int_equal(weft_between_open(path, &between), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text[0] = '\0';
        assert_int_equal(weft_between_say(between, cases[i].a, cases[i].b, said, text), 0);
        assert_string_equal(text, cases[i].text);
    }
    weft_between_close(between);
    assert_true(weft_between_open("/nowhere", &between) < 0);
}

static void test_speed_names(void **state)
{
    (void)state;
    static const char *const names[] = {"4xSDR", "4xDDR", "1xQDR", "4xFDR10", "4xFDR",
                                        "4xEDR", "2xHDR", "4xNDR", "12xXDR"};
    char name[16];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        weft_ib_speed_name((unsigned)atoi(names[i]), weft_ib_bytes_per_s(names[i]), name);
        assert_string_equal(name, names[i]);
    }
    weft_ib_speed_name(4, 1, name);
    assert_string_equal(name, "");
    weft_ib_speed_name(0, 12500000000, name);
    assert_string_equal(name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trunk_explained),
        cmocka_unit_test(test_trunk_is_narrowest),
        cmocka_unit_test(test_trunk_in_default_view),
        cmocka_unit_test(test_witnesses),
        cmocka_unit_test(test_slot),
        cmocka_unit_test(test_speed_names),
        cmocka_unit_test(test_between),
    };
    return cmocka_run_group_tests(tests, tool_topo, tool_leave);
}
