/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of the readers of topologies fails in turn: WEFT_NOMEM, the result untouched, nothing left behind. Then
 * each call of discovery. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>

#include "tests/faults/inject.h"
#include "tests/support/topo_made.h"
#include "topo/discover/discover.h"
#include "topo/order.h"
#include "topo/read.h"
#include "topo/share.h"
#include "topo/report/nccl_write.h"
#include "topo/report/order_load.h"
#include <weft/weft.h>

/* Something of everything that the kind can say, in few lines. */
static const struct {
    const char *name, *text;
} texts[] = {
    {"hwloc.xml",
     "<topology version=\"2.0\"><object type=\"Machine\" gp_index=\"1\"><info name=\"HostName\" value=\"h\"/>"
     "<object type=\"Package\" os_index=\"0\" nodeset=\"0x1\"><info name=\"CPUModel\" value=\"m\"/>"
     "<object type=\"NUMANode\" os_index=\"0\" nodeset=\"0x1\"/><object type=\"PU\" os_index=\"0\"/>"
     "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-02]\">"
     "<object type=\"PCIDev\" gp_index=\"2\" pci_busid=\"01:00.0\" pci_type=\"0302 [10de:20b0] [0000:0000] "
     "a1\"/>"
     "<object type=\"PCIDev\" gp_index=\"3\" pci_busid=\"02:00.0\" pci_type=\"0302 [10de:20b0] [0000:0000] "
     "a1\"/>"
     "<object type=\"PCIDev\" gp_index=\"4\" pci_busid=\"03:00.0\" pci_type=\"0200 [15b3:1017] [0000:0000] "
     "00\">"
     "<object type=\"OSDev\" name=\"eth0\" osdev_type=\"2\"/><object type=\"OSDev\" name=\"mlx5_0\" "
     "osdev_type=\"3\">"
     "<info name=\"Port1State\" value=\"4\"/><info name=\"Port1LID\" "
     "value=\"0x1\"/></object></object></object></object>"
     "</object><distances2hetero nbobjs=\"2\" name=\"NVLinkBandwidth\"><indexes>PCIDev:2 PCIDev:3</indexes>"
     "<u64values>0 9 9 0</u64values></distances2hetero></topology>"},
    {"ibnetdiscover.out",
     "vendid=0x2c9\nsysimgguid=0x1\nswitchguid=0x1(1)\n"
     "Switch\t8 \"S-0000000000000001\" # \"MF0;leaf:M/U1\" enhanced port 0 lid 7 lmc 0\n"
     "[1] \"H-0000000000000011\"[1](11) # \"n1 mlx5_0\" lid 1 4xNDR\n"
     "[2] \"H-0000000000000012\"[1](12) # \"\" lid 2 4xNDR\n"
     "[3] \"H-0000000000000013\"[1](13) # \"n2 mlx5_0\" lid 3 4xNDR\n"
     "[4] \"S-0000000000000001\"[5] # \"\" lid 3 4xNDR\n[5] \"S-0000000000000001\"[4] # \"\" lid 3 4xNDR\n"
     "[6] \"R-0000000000000021\"[1](13) # \"gate\" lid 3 4xNDR\n"
     "Ca\t1 \"H-0000000000000011\" # \"n1 mlx5_0\"\n[1](11) \"S-0000000000000001\"[1] # lid 1 lmc 0 \"\" lid "
     "7 "
     "4xNDR\n"
     "Ca\t1 \"H-0000000000000012\" # \"\"\n[1](12) \"S-0000000000000001\"[2] # lid 2 lmc 0 \"\" lid 7 "
     "4xNDR\n"},
    {"nccl.xml",
     "<!-- c -- --><system version=\"1\" x=\"1\"><cpu numaid=\"0\" host_hash=\"1\">"
     "<pci busid=\"5:0.0\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"8\">"
     "<pci busid=\"c:0.0\"><gpu dev=\"0\" sm=\"80\"><nvlink target=\"d:0.0\" count=\"4\"/>"
     "<nvlink target=\"1:0.0\" count=\"4\" tclass=\"0x068000\"/><c2c bw=\"1\" count=\"1\"/></gpu></pci>"
     "<pci busid=\"d:0.0\"><gpu dev=\"1\" sm=\"80\"><nvlink target=\"c:0.0\" count=\"4\"/>"
     "<nvlink target=\"1:0.0\" count=\"4\" tclass=\"0x068000\"/></gpu></pci><pcilink target=\"6:0.0\"/></pci>"
     "<pci busid=\"6:0.0\" class=\"0x060400\"/><nic><net name=\"a\" port=\"1\" "
     "speed=\"10\"/></nic></cpu></system>"},
    {"slurm", "s0.s[1-2].n1\ns0.s3.n2 switch.block.node\n"},
    {"topograph.yaml", "switches:\n  s0: {switches: [s1], labels: {a: b}, blocks: [cb]}\n"
                       "blocks:\n- {name: cb, nodes: ['n[0-70]'], type: x}\nnodes: {n0: {c: d}}\n"},
    {"topology.conf", "SwitchName=s0 Nodes=n[0-70] LinkSpeed=1\nSwitchName=s1 Switches=s0\n"},
};

static void test_memory(void **state)
{
    (void)state;
    static const int calls[] = {FAULT_MALLOC, FAULT_CALLOC, FAULT_REALLOC, FAULT_YAML_PARSER_INITIALIZE,
                                FAULT_YAML_PARSER_PARSE};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct weft_text text = {texts[i].name, texts[i].text, strlen(texts[i].text)};
        uint32_t failures = 0;
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
            for (uint32_t k = 1;; k++) {
                struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
                struct fault_report report;
                struct weft_graph *graph = NULL;
                size_t before = fault_blocks_live();
                fault_arm(&aim);
                int status = weft_topo_read_text(&text, &graph);
                fault_disarm(&report);
                if (!report.reached) {
                    assert_int_equal(status, WEFT_OK);
                    weft_graph_free(graph);
                    assert_int_equal(fault_blocks_live(), before);
                    break;
                }
                failures++;
                if (status != WEFT_NOMEM)
                    print_message("%s: %s number %u: %d %s\n", texts[i].name, fault_call_name(calls[c]), k,
                                  status, weft_error_detail());
                assert_int_equal(status, WEFT_NOMEM);
                assert_null(graph);
                assert_int_equal(fault_blocks_live(), before);
            }
        }
        print_message("%s: %u allocations failed\n", texts[i].name, failures);
        assert_true(failures >= 5);
    }
}

/* Writing what can be written: the same, and no text is given. */
static void test_writing(void **state)
{
    (void)state;
    static const int calls[] = {FAULT_MALLOC, FAULT_CALLOC, FAULT_REALLOC};
    struct weft_graph *graph;
    struct weft_text text = {"nccl.xml", NULL, 0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(texts[i].name, text.name) == 0)
            text.data = texts[i].text;
    }
    text.size = strlen(text.data);
    assert_int_equal(weft_topo_read_text(&text, &graph), WEFT_OK);
    uint32_t failures = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (uint32_t k = 1;; k++) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
            struct fault_report report;
            char *xml = NULL;
            size_t size = 0, before = fault_blocks_live();
            fault_arm(&aim);
            int status = weft_nccl_write(graph, WEFT_NODE_NONE, &xml, &size);
            fault_disarm(&report);
            assert_int_equal(status, report.reached ? WEFT_NOMEM : WEFT_OK);
            if (!report.reached) {
                assert_int_equal(strlen(xml), size);
                fault_block_remove(xml);
                free(xml);
                assert_int_equal(fault_blocks_live(), before);
                break;
            }
            failures++;
            assert_null(xml);
            assert_int_equal(fault_blocks_live(), before);
        }
    }
    assert_true(failures >= 4);
    weft_graph_free(graph);
}

static int descriptors(void)
{
    int open_now = 0;
    for (int fd = 0; fd < 1024; fd++)
        open_now += fcntl(fd, F_GETFD) >= 0;
    return open_now;
}

/* Discovery does without what fails, but for memory: a file, a folder, a library, one of its functions. */
static void test_discovery(void **state)
{
    (void)state;
    static const int calls[] = {FAULT_MALLOC,     FAULT_CALLOC,  FAULT_REALLOC,    FAULT_OPEN,
                                FAULT_READ,       FAULT_OPENDIR, FAULT_DLOPEN,     FAULT_DLSYM,
                                FAULT_READLINKAT, FAULT_STAT,    FAULT_GETHOSTNAME};
    struct weft_graph *graph;
    assert_int_equal(weft_topo_discover(&graph), WEFT_OK); /* what stays for good is there from now on */
    weft_graph_free(graph);
    uint32_t failures = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        int is_memory = calls[c] == FAULT_MALLOC || calls[c] == FAULT_CALLOC || calls[c] == FAULT_REALLOC;
        for (uint32_t k = 1;; k++) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
            struct fault_report report;
            size_t before = fault_blocks_live();
            int open_before = descriptors();
            graph = NULL;
            fault_arm(&aim);
            int status = weft_topo_discover(&graph);
            fault_disarm(&report);
            if (status != (is_memory && report.reached ? WEFT_NOMEM : WEFT_OK))
                print_message("%s number %u: %d %s\n", fault_call_name(calls[c]), k, status,
                              weft_error_detail());
            assert_int_equal(status, is_memory && report.reached ? WEFT_NOMEM : WEFT_OK);
            assert_int_equal(graph != NULL, status == WEFT_OK);
            weft_graph_free(graph);
            assert_int_equal(fault_blocks_live(), before);
            assert_int_equal(descriptors(), open_before);
            if (!report.reached)
                break;
            failures++;
        }
    }
    print_message("discovery: %u calls failed\n", failures);
    assert_true(failures > 50);
}

/* The layout, NICs, loads and the least load of 24 ranks on a fabric with something of everything. */
static int order_all(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks)
{
    struct weft_layout *layout = NULL;
    struct weft_load load;
    struct weft_bound bound;
    uint32_t nic[24];
    int status = weft_order_nics(graph, places, ranks, nic);
    if (!status)
        status = weft_order_ranks(graph, places, ranks, 0, &layout);
    assert_int_equal(layout != NULL, status == WEFT_OK);
    if (!status)
        status = weft_load_bound(graph, places, ranks, nic, &bound);
    if (!status)
        status = weft_load_rings(graph, places, layout, &load);
    if (!status)
        weft_load_free(&load);
    weft_layout_free(layout);
    return status;
}

/* refined: whether the refinement keeps moves. */
static void order_faults(const struct weft_graph *graph, uint32_t ranks_per_host, int refined)
{
    static const int calls[] = {FAULT_MALLOC, FAULT_CALLOC, FAULT_REALLOC};
    struct weft_place places[24];
    uint32_t host = WEFT_NODE_NONE, failures = 0;
    for (uint32_t r = 0; r < 24; r++) {
        if (r % ranks_per_host == 0)
            host = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST, host);
        places[23 - r] = (struct weft_place){.host = host, .near = WEFT_NODE_NONE};
    }
    struct weft_layout *layout;
    assert_int_equal(weft_order_ranks(graph, places, 24, 0, &layout), WEFT_OK);
    assert_int_equal(layout->refined > 0, refined);
    weft_layout_free(layout);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        struct fault_report report = {.reached = 1};
        for (uint32_t k = 1; report.reached; k++) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
            size_t before = fault_blocks_live();
            fault_arm(&aim);
            int status = order_all(graph, places, 24);
            fault_disarm(&report);
            assert_int_equal(status, report.reached ? WEFT_NOMEM : WEFT_OK);
            assert_int_equal(fault_blocks_live(), before);
            failures += report.reached != 0;
        }
    }
    print_message("order: %u allocations failed\n", failures);
    assert_true(failures > 100);
}

/* Four ports of two networks among three ranks. */
static void test_share(void **state)
{
    static const int calls[] = {FAULT_MALLOC, FAULT_CALLOC};
    (void)state;
    struct made made = {0};
    struct weft_place places[3];
    struct weft_port_share shares[3];
    uint32_t host = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h"), networks[64] = {0};
    for (uint32_t p = 0; p < 4; p++)
        made_nic(&made, host, p == 0 ? "a" : p == 1 ? "b" : p == 2 ? "c" : "d", -1);
    made_build(&made, 0);
    assert_true(made.graph->node_count <= 64);
    networks[made.nodes[4]] = 1;
    for (uint32_t r = 0; r < 3; r++)
        places[r] = made_place(&made, host, MADE_NONE);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        struct fault_report report = {.reached = 1};
        for (uint32_t k = 1; report.reached; k++) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
            size_t before = fault_blocks_live();
            fault_arm(&aim);
            int status = weft_share_ports(made.graph, places, 3, 4, networks, shares);
            fault_disarm(&report);
            assert_int_equal(status, report.reached ? WEFT_NOMEM : WEFT_OK);
            assert_int_equal(fault_blocks_live(), before);
            assert_true(!report.reached || k < 100);
        }
    }
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(shares[r].count, 2);
    made_free(&made);
}

static void test_order(void **state)
{
    (void)state;
    struct weft_graph *graph;
    assert_int_equal(
        weft_topo_read("fat-tree:leaves=6,nodes-per-leaf=2,gpus=4,rails=2,rail-optimised=1", &graph),
        WEFT_OK);
    order_faults(graph, 4, 0);
    weft_graph_free(graph);
    /* Six switches cabled in a ring that their names do not tell, so that the order is refined. */
    struct made made = {0};
    static const uint32_t around[6] = {0, 2, 4, 1, 5, 3};
    uint32_t switches[6];
    for (uint32_t s = 0; s < 6; s++) {
        switches[s] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "s%u", s);
        uint32_t host = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", s);
        made_cable(&made, made_nic(&made, host, "n", -1), switches[s], 1);
    }
    for (uint32_t s = 0; s < 6; s++)
        made_cable(&made, switches[around[s]], switches[around[(s + 1) % 6]], 1);
    made_build(&made, 0);
    order_faults(made.graph, 4, 1);
    made_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_writing),
                                       cmocka_unit_test(test_discovery), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_share)};
    fault_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
