/* SPDX-License-Identifier: Apache-2.0 */
/* Reading NCCL's XML: what becomes what, what is refused and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "topo/discover/discover.h"
#include "topo/machines/nccl.h"
#include "tests/support/topo_asks.h"
#include <weft/weft.h>

/* In a host with one cpu. */
static void fails_in_cpu(const char *inner, const char *detail)
{
    char document[16384];
    assert_true(snprintf(document, sizeof document,
                         "<system version=\"1\"><cpu numaid=\"0\">\n%s\n</cpu></system>",
                         inner) < (int)sizeof document);
    topo_fails(document, detail);
}

#define GPU(bus, dev, inner)                                                                                 \
    "<pci busid=\"0000:" bus ":00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n" \
    "<gpu dev=\"" dev "\" sm=\"80\" rank=\"" dev "\" gdr=\"1\">" inner "</gpu></pci>\n"

static const char machine[] =
    "<system version=\"1\">\n"
    "<cpu numaid=\"1\" affinity=\"00000000,000000ff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
    "familyid=\"143\" "
    "modelid=\"49\" host_hash=\"0x1b2f\">\n"
    "<pci busid=\"0000:05:00.0\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"8\">\n" GPU(
        "0C", "3", "<nvlink target=\"0000:0D:00.0\" count=\"4\" tclass=\"0x030200\"/>")
        GPU("0d", "7", "<nvlink target=\"0000:0c:00.0\" count=\"4\" tclass=\"0x030200\"/>") //
    "<pci busid=\"0000:07:00.0\" class=\"0x020700\" link_speed=\"\" link_width=\"0\">\n"
    "<nic><net name=\"mlx5_2\" dev=\"0\" speed=\"200000\" port=\"1\" latency=\"0.600000\" "
    "guid=\"0x68ce600003da341c\" maxconn=\"131072\" gdr=\"1\"/>"
    "<net name=\"mlx5_2\" speed=\"-1\" port=\"2\" guid=\"0x68ce600003da341c\"/></nic></pci>\n"
    "<pci busid=\"0000:08:00.0\" class=\"0x010802\" link_speed=\"Unknown\" link_width=\"4\"/>\n"
    "</pci>\n"
    "<nic><net name=\"eth0\" dev=\"1\" speed=\"10000\" port=\"0\" guid=\"0x0\"/></nic>\n"
    "</cpu>\n</system>\n";

static void test_machine(void **state)
{
    (void)state;
    struct weft_graph *g = topo_read(machine);
    assert_string_equal(g->format, "NCCL XML");
    assert_int_equal(g->node_count, 2 + 1 + 2 + 1 + 2 + 1 + 2);
    uint32_t numa = topo_node(g, "numa1"), bridge = topo_node(g, "0000:05:00.0");
    assert_int_equal(g->nodes[numa].index, 1);
    assert_string_equal(weft_graph_attribute(g, numa, "affinity"), "00000000,000000ff");
    assert_string_equal(weft_graph_attribute(g, numa, "host_hash"), "0x1b2f");
    assert_int_equal(g->nodes[bridge].kind, WEFT_NODE_BRIDGE);
    assert_int_equal(g->nodes[bridge].bridge, WEFT_BRIDGE_SWITCH);
    assert_int_equal(g->nodes[bridge].flags, WEFT_BRIDGE_WHOLE);
    assert_int_equal(g->nodes[bridge].parent, numa);
    struct weft_edge edge = topo_edge(g, "0000:05:00.0", "numa1");
    assert_int_equal(edge.kind, WEFT_EDGE_PCI);
    assert_true(edge.bytes_per_s == 7876923077u); /* 8 GT/s x8, 128b/130b */
    const struct weft_node *gpu = &g->nodes[topo_node(g, "gpu3")];
    assert_int_equal(gpu->kind, WEFT_NODE_GPU);
    assert_int_equal(gpu->index, 3);
    assert_string_equal(gpu->pci, "0000:0C:00.0");
    assert_int_equal(gpu->parent, bridge);
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "gpu3"), "sm"), "80");
    assert_true(topo_edge(g, "gpu3", "0000:05:00.0").bytes_per_s == 31507692308u);
    edge = topo_edge(g, "gpu3", "gpu7");
    assert_int_equal(edge.kind, WEFT_EDGE_GPU_LINK);
    assert_int_equal(edge.flags, WEFT_EDGE_NVLINK);
    assert_int_equal(edge.links, 4);
    assert_true(edge.bytes_per_s == 25000000000u);
    const struct weft_node *nic = &g->nodes[topo_node(g, "mlx5_2")],
                           *port = &g->nodes[topo_node(g, "mlx5_2:1")];
    assert_int_equal(nic->kind, WEFT_NODE_NIC);
    assert_true(nic->guid == 0x1c34da030060ce68u);
    assert_true(topo_edge(g, "mlx5_2", "0000:05:00.0").bytes_per_s == 0); /* no speed told */
    assert_int_equal(port->index, 1);
    assert_int_equal(port->parent, topo_node(g, "mlx5_2"));
    assert_true(port->bytes_per_s == 25000000000u);
    assert_int_equal(topo_edge(g, "mlx5_2:1", "mlx5_2").latency_ns, 600);
    assert_true(g->nodes[topo_node(g, "mlx5_2:2")].bytes_per_s == 0);
    assert_int_equal(g->nodes[topo_node(g, "0000:08:00.0")].kind, WEFT_NODE_DEVICE);
    const struct weft_node *virtual_nic = &g->nodes[topo_node(g, "eth0")];
    assert_int_equal(virtual_nic->parent, numa);
    assert_null(virtual_nic->pci);
    assert_true(virtual_nic->guid == 0);
    weft_graph_free(g);
}

/* What a childless pci is follows from its class; NCCL writes two digits where it knows no more. */
static void test_classes(void **state)
{
    (void)state;
    static const struct {
        const char *class;
        enum weft_node_kind kind;
    } classes[] = {
        {"0x030200", WEFT_NODE_GPU},    {"0x038000", WEFT_NODE_GPU},    {"0x120000", WEFT_NODE_GPU},
        {"0x03", WEFT_NODE_GPU},        {"0x020000", WEFT_NODE_NIC},    {"0x020700", WEFT_NODE_NIC},
        {"0x02", WEFT_NODE_NIC},        {"0X060400", WEFT_NODE_BRIDGE}, {"0x068000", WEFT_NODE_DEVICE},
        {"0x010802", WEFT_NODE_DEVICE}, {"0x060000", WEFT_NODE_DEVICE}, {"0x000000", WEFT_NODE_DEVICE},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        char document[256];
        snprintf(document, sizeof document,
                 "<system version=\"2\"><cpu numaid=\"0\"><pci busid=\"ffff:ff:01.0\" "
                 "class=\"%s\"/></cpu></system>",
                 classes[i].class);
        struct weft_graph *g = topo_read(document);
        assert_int_equal(g->nodes[topo_node(g, "ffff:ff:01.0")].kind, classes[i].kind);
        weft_graph_free(g);
    }
}

/* With something in it, that decides. */
static void test_children_decide(void **state)
{
    (void)state;
    struct weft_graph *g = topo_read("<system version=\"1\"><cpu numaid=\"-1\">"
                                     "<pci busid=\"1:0.0\"><gpu dev=\"0\"/></pci>"
                                     "<pci busid=\"2:0.0\" class=\"0x030200\"><nic/></pci>"
                                     "<pci busid=\"3:0.0\" class=\"0x030200\"><pci busid=\"4:0.0\"/></pci>"
                                     "<pci busid=\"5:0.0\" class=\"0x030200\"/></cpu></system>");
    assert_int_equal(g->nodes[topo_node(g, "gpu0")].kind, WEFT_NODE_GPU);
    assert_int_equal(g->nodes[topo_node(g, "nic0")].kind, WEFT_NODE_NIC);
    assert_int_equal(g->nodes[topo_node(g, "0000:03:00.0")].kind, WEFT_NODE_BRIDGE);
    assert_int_equal(g->nodes[topo_node(g, "0000:03:00.0")].bridge, WEFT_BRIDGE_UNKNOWN);
    assert_int_equal(g->nodes[topo_node(g, "0000:04:00.0")].kind, WEFT_NODE_DEVICE);
    assert_int_equal(g->nodes[topo_node(g, "gpu1")].index, 1); /* told by no one: its order */
    assert_int_equal(g->nodes[topo_node(g, "numa")].index, -1);
    weft_graph_free(g);
}

/* Ranks that share a GPU, and partitions of one, are several gpu elements in its pci. */
static void test_gpus_in_one_pci(void **state)
{
    (void)state;
    struct weft_graph *g = topo_read(
        "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0002:81:00.0\" class=\"0x030200\">"
        "<gpu dev=\"0\" sm=\"107\" mlopart=\"0\" rank=\"0\"><c2c bw=\"56376\" count=\"7\"/></gpu>"
        "<gpu dev=\"0\" sm=\"107\" mlopart=\"1\" rank=\"1\"><nvlink target=\"3:0.0\" "
        "count=\"2\"/></gpu></pci>"
        "<pci busid=\"3:0.0\"><gpu dev=\"2\"><nvlink target=\"0002:81:00.0\" count=\"2\"/></gpu></pci>"
        "</cpu></system>");
    assert_int_equal(topo_count(g, WEFT_NODE_GPU), 3);
    const struct weft_node *first = &g->nodes[topo_node(g, "gpu0")],
                           *second = &g->nodes[topo_node(g, "gpu0#2")];
    assert_int_equal(first->parent, second->parent);
    assert_int_equal(g->nodes[first->parent].kind, WEFT_NODE_BRIDGE);
    assert_string_equal(first->pci, "0002:81:00.0");
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "gpu0#2"), "gpu.mlopart"), "1");
    struct weft_edge edge = topo_edge(g, "gpu0", "numa0");
    assert_int_equal(edge.kind, WEFT_EDGE_GPU_LINK);
    assert_int_equal(edge.flags, WEFT_EDGE_C2C);
    assert_int_equal(edge.links, 7);
    assert_true(edge.bytes_per_s == 56376000000u);
    assert_int_equal(topo_edge(g, "gpu0", "gpu2").links, 2); /* an address means the first of them */
    assert_int_equal(topo_edge(g, "gpu0#2", "gpu2").links, 2);
    weft_graph_free(g);
}

static void test_nvswitch(void **state)
{
    (void)state;
    struct weft_graph *g = topo_read(
        "<system version=\"1\"><cpu numaid=\"0\">" GPU(
            "0c", "0",
            "<nvlink target=\"0000:c4:00.0\" count=\"2\" tclass=\"0x068000\"/>"
            "<nvlink target=\"0000:c5:00.0\" count=\"10\" tclass=\"0x068000\"/>")
            GPU("0d", "1", "<nvlink target=\"fffffff:ffff:ff\" count=\"12\" tclass=\"0x068000\"/>")
                GPU("0e", "2", "<nvlink target=\"0004:00:00.0\" count=\"3\" tclass=\"0x068001\"/>")
                    GPU("0f", "3", "<nvlink target=\"0000:c4:00.0\" count=\"7\" tclass=\"0x068000\"/>")
                        GPU("10", "4", "<nvlink target=\"0000:c4:00.0\" tclass=\"0x068000\"/>") //
        "</cpu></system>");
    assert_int_equal(topo_count(g, WEFT_NODE_DEVICE), 0);
    struct weft_edge edge = topo_edge(g, "gpu0", "gpu1");
    assert_int_equal(edge.kind, WEFT_EDGE_GPU_LINK);
    assert_int_equal(edge.flags, WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH);
    assert_int_equal(edge.links, 12);
    assert_true(edge.bytes_per_s == 25000000000u);
    assert_int_equal(topo_edge(g, "gpu0", "gpu3").links, 7);
    assert_int_equal(topo_edge(g, "gpu1", "gpu3").links, 7);
    uint32_t unlisted = topo_node(g, "gpu4");
    assert_int_equal(topo_joins(g, topo_node(g, "gpu3"), unlisted, &edge), 1);
    assert_int_equal(edge.flags, WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH | WEFT_EDGE_LINKS_UNKNOWN);
    assert_int_equal(edge.links, 1);
    /* To the processor: beside the way over PCI. */
    uint32_t gpu = topo_node(g, "gpu2"), degree, links = 0;
    const uint32_t *edges = weft_graph_edges_of(g, gpu, &degree);
    for (uint32_t i = 0; i < degree; i++) {
        const struct weft_edge *at = &g->edges[edges[i]];
        assert_int_equal(weft_edge_other(at, gpu), topo_node(g, "numa0"));
        if (at->kind == WEFT_EDGE_GPU_LINK) {
            assert_int_equal(at->flags, WEFT_EDGE_NVLINK);
            links += at->links;
        }
    }
    assert_int_equal(degree, 2);
    assert_int_equal(links, 3);
    weft_graph_free(g);
}

/* Each end tells what it has; the edge has the larger of both. A target that the file leaves out makes no edge. */
static void test_links(void **state)
{
    (void)state;
    struct weft_graph *g =
        topo_read("<system version=\"2\"><cpu numaid=\"0\">"
                  "<pci busid=\"1:0.0\"><gpu dev=\"0\" gcn=\"gfx942\"><xgmi target=\"2:0.0\" count=\"1\"/>"
                  "<xgmi target=\"2:0.0\" count=\"1\"/><xgmi target=\"9:0.0\" count=\"1\"/></gpu></pci>"
                  "<pci busid=\"2:0.0\"><gpu dev=\"1\" gcn=\"942\"><xgmi target=\"1:0.0\" count=\"1\"/>"
                  "<xgmi target=\"3:0.0\"/></gpu></pci>"
                  "<pci busid=\"3:0.0\"><gpu dev=\"2\" gcn=\"906\"/></pci></cpu></system>");
    struct weft_edge edge = topo_edge(g, "gpu0", "gpu1");
    assert_int_equal(edge.flags, WEFT_EDGE_XGMI);
    assert_int_equal(edge.links, 2);
    assert_true(edge.bytes_per_s == 64000000000u);
    edge = topo_edge(g, "gpu1", "gpu2");
    assert_int_equal(edge.flags, WEFT_EDGE_XGMI | WEFT_EDGE_LINKS_UNKNOWN);
    assert_int_equal(edge.links, 1);
    assert_true(edge.bytes_per_s == 0);     /* what one of them has is not what all have */
    assert_int_equal(g->edge_count, 2 + 4); /* no edge to 9:0.0 */
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "gpu0"), "gpu/2"),
                        "xgmi target=\"9:0.0\" count=\"1\"");
    weft_graph_free(g);
}

static uint64_t rate(const char *gpu, const char *link)
{
    char document[512];
    snprintf(document, sizeof document,
             "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"1:0.0\"><gpu dev=\"0\" %s><%s "
             "target=\"2:0.0\" count=\"1\"/></gpu>"
             "</pci><pci busid=\"2:0.0\"><gpu dev=\"1\"/></pci></cpu></system>",
             gpu, link);
    struct weft_graph *g = topo_read(document);
    uint64_t bytes_per_s = topo_edge(g, "gpu0", "gpu1").bytes_per_s;
    weft_graph_free(g);
    return bytes_per_s;
}

static void test_rates(void **state)
{
    (void)state;
    assert_true(rate("sm=\"60\"", "nvlink") == 20000000000u);
    assert_true(rate("sm=\"70\"", "nvlink") == 25000000000u);
    assert_true(rate("sm=\"86\"", "nvlink") == 14062500000u);
    assert_true(rate("sm=\"90\"", "nvlink") == 25000000000u);
    assert_true(rate("sm=\"100\"", "nvlink") == 50000000000u);
    assert_true(rate("sm=\"107\"", "nvlink") == 0);
    assert_true(rate("", "nvlink") == 0);
    assert_true(rate("gcn=\"908\"", "xgmi") == 46000000000u);
    assert_true(rate("gcn=\"gfx90a\"", "xgmi") == 50000000000u);
    assert_true(rate("gcn=\"gfx950\"", "xgmi") == 76800000000u);
    assert_true(rate("gcn=\"906\"", "xgmi") == 0);
    assert_true(rate("sm=\"80\"", "xgmi") == 0);
}

static void test_pcilink(void **state)
{
    (void)state;
    struct weft_graph *g = topo_read(
        "<system version=\"1\"><cpu numaid=\"0\">"
        "<pci busid=\"1:0.0\" class=\"0x060400\"><pcilink target=\"0000:02:00.0\"/><pcilink "
        "target=\"8:0.0\"/></pci>"
        "<pci busid=\"2:0.0\" class=\"0x060400\"><pcilink target=\"0000:01:00.0\"/></pci></cpu></system>");
    struct weft_edge edge = topo_edge(g, "0000:01:00.0", "0000:02:00.0");
    assert_int_equal(edge.kind, WEFT_EDGE_PCI);
    assert_int_equal(edge.flags, 0);
    assert_int_equal(edge.links, 1);
    assert_int_equal(g->edge_count, 4);
    weft_graph_free(g);
}

/* cpus with the same host_hash are one host, wherever they stand; addresses and links are a host's own. */
static void test_hosts(void **state)
{
    (void)state;
    struct weft_graph *g = topo_read(
        "<system version=\"1\" name=\"pod\">"
        "<cpu numaid=\"0\" host_hash=\"0xa\">" GPU(
            "0c", "0",
            "<nvlink target=\"0000:0d:00.0\" count=\"1\"/>") "</cpu>"
                                                             "<cpu numaid=\"0\" host_hash=\"0xb\">" GPU(
                                                                 "0c", "0", "") "</cpu>"
                                                                                "<cpu numaid=\"1\" "
                                                                                "host_hash=\"0xA\">" GPU(
                                                                                    "0d", "1",
                                                                                    "") "</cpu></system>");
    assert_int_equal(topo_count(g, WEFT_NODE_HOST), 2);
    uint32_t first = topo_node(g, "pod"), second = topo_node(g, "pod#2");
    assert_int_equal(weft_graph_count_below(g, first, WEFT_NODE_NUMA), 2);
    assert_int_equal(weft_graph_count_below(g, first, WEFT_NODE_GPU), 2);
    assert_int_equal(weft_graph_count_below(g, second, WEFT_NODE_GPU), 1);
    assert_int_equal(topo_edge(g, "pod/gpu0", "pod/gpu1").links, 1);
    assert_string_equal(weft_graph_attribute(g, second, "version"), "1");
    weft_graph_free(g);
}

/* What nobody knows is kept; RCCL has one address for several switches, and comments that XML does not allow. */
static void test_oddities(void **state)
{
    (void)state;
    struct weft_graph *g =
        topo_read("<!------ a comment -- with dashes -->\n<system version=\"2\" site=\"x\"><future "
                  "x=\"&lt;&quot;&amp;\"/>"
                  "<cpu numaid=\"0\" cpuid=\"7\">\n"
                  "<pci busid=\"c5:00.0\" class=\"0x060400\"><pci busid=\"1:0.0\" color=\"red\"/></pci>\n"
                  "<pci busid=\"c5:00.0\" class=\"0x060400\"><pci busid=\"2:0.0\"><nic><net name=\"a+b\" "
                  "port=\"1\" gin=\"1\"/>"
                  "<net name=\"b\" port=\"1\"/><net name=\"a+b\" port=\"1\"/></nic></pci></pci>\n"
                  "<pci busid=\"c5:00.0\" class=\"0x060400\"/></cpu></system>");
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "host0"), "system.site"), "x");
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "host0"), "system/0"),
                        "future x=\"&lt;&quot;&amp;\"");
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "numa0"), "cpu.cpuid"), "7");
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "0000:01:00.0"), "pci.color"), "red");
    assert_int_equal(g->nodes[topo_node(g, "0000:c5:00.0#2")].kind, WEFT_NODE_BRIDGE);
    assert_int_equal(g->nodes[topo_node(g, "0000:c5:00.0#3")].kind, WEFT_NODE_BRIDGE);
    assert_int_equal(g->nodes[topo_node(g, "a+b")].kind, WEFT_NODE_NIC);
    assert_string_equal(weft_graph_attribute(g, topo_node(g, "a+b:1"), "net.gin"), "1");
    assert_int_equal(g->nodes[topo_node(g, "b")].kind, WEFT_NODE_PORT);
    assert_int_equal(g->nodes[topo_node(g, "a+b:1#2")].index, 1);
    weft_graph_free(g);
}

static void test_wrong_places(void **state)
{
    (void)state;
    topo_fails("<graphs version=\"1\"/>",
               "file:1: this is NCCL's file of graphs (NCCL_GRAPH_DUMP_FILE), the paths that it has chosen; "
               "weft-topo reads the machine that they were chosen for: NCCL_TOPO_DUMP_FILE=FILE");
    topo_fails("<system version=\"1\"/>", "file:1: <system> has no <cpu>");
    topo_fails("<system version=\"1\">\n<gpu dev=\"0\"/></system>",
               "file:2: <gpu> within <system>, expected within <pci>");
    topo_fails("<system version=\"1\">\n<pci busid=\"1:0.0\"/></system>",
               "file:2: <pci> within <system>, expected within <cpu> or <pci>");
    fails_in_cpu("<gpu dev=\"0\"/>", "file:2: <gpu> within <cpu>, expected within <pci>");
    fails_in_cpu("<net name=\"a\"/>", "file:2: <net> within <cpu>, expected within <nic>");
    fails_in_cpu("<nic>\n<nic/></nic>", "file:3: <nic> within <nic>, expected within <cpu> or <pci>");
    fails_in_cpu("<system version=\"1\"/>", "file:2: <system> within <cpu>, expected only as the root");
    fails_in_cpu("<pci busid=\"1:0.0\">\n<nvlink target=\"2:0.0\"/></pci>",
                 "file:3: <nvlink> within <pci>, expected within <gpu>");
    fails_in_cpu("<future>\n<pci busid=\"1:0.0\"/></future>",
                 "file:3: <pci> within <future>, expected within <cpu> or <pci>");
    fails_in_cpu("<future>\n<more/></future>", "file:3: <more> within <future>, expected nothing there");
    topo_fails("<system version=\"1\"><cpu numaid=\"0\">\n<pci busid=\"1:0.0\"></cpu></system>",
               "file:2: not well-formed XML: mismatched tag");
    topo_fails("<system version=\"1\"><!-- no end <cpu numaid=\"0\"/></system>",
               "file:1: not well-formed XML: unclosed token");
}

/* Asked by itself, without telling kinds apart first. */
static void test_wrong_root(void **state)
{
    (void)state;
    struct weft_text text = {"file", "\n<graphs version=\"1\"/>", 22};
    struct weft_graph *graph;
    assert_int_equal(weft_graph_new(text.name, "NCCL XML", &graph), WEFT_OK);
    assert_int_equal(weft_read_nccl(&text, graph), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "file:2: the root is <graphs>, expected <system>");
    text.size = 0;
    assert_int_equal(weft_read_nccl(&text, graph), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "file:1: not well-formed XML: no element found");
    weft_graph_free(graph);
}

static void test_missing(void **state)
{
    (void)state;
    topo_fails("<system><cpu numaid=\"0\"/></system>", "file:1: <system> has no version");
    topo_fails("<system version=\"1\">\n<cpu/></system>", "file:2: <cpu> has no numaid");
    fails_in_cpu("<pci class=\"0x030200\"/>", "file:2: <pci> has no busid");
    fails_in_cpu("<pci busid=\"1:0.0\"><gpu dev=\"0\">\n<nvlink count=\"1\"/></gpu></pci>",
                 "file:3: <nvlink> has no target");
    fails_in_cpu("<pci busid=\"1:0.0\">\n<pcilink/></pci>", "file:3: <pcilink> has no target");
}

static void test_twice(void **state)
{
    (void)state;
    fails_in_cpu("</cpu>\n<cpu numaid=\"0\">", "file:3: numaid 0 again, which line 1 has for the same host");
}

/* What vendors' files have: read, with one warning for each kind, and nothing made up. */
static void test_odd(void **state)
{
    (void)state;
    static const char text[] =
        "<system version=\"1\">\n<cpu numaid=\"0\" familyid=\"\">\nhere\n"
        "<pci busid=\"0000:0c:00.0\" class=\"0x020000\" link_speed=\"\" link_width=\"\">\n"
        "<nic><net name=\"a\" port=\"1\" speed=\"100000001\"/></nic></pci>\n"
        "<pci busid=\"c:0.0\"><gpu dev=\"0\" sm=\"80\">\n<nvlink target=\"c:0.0\" count=\"2\"/></gpu></pci> "
        ">\n"
        "<pci busid=\"d:0.0\"><gpu dev=\"1\" sm=\"80\"><nvlink target=\"c:0.0\" count=\"2\"/></gpu></pci>\n"
        "<pci busid=\"e:0.0\"/><pci busid=\"f:0.0\"/></cpu></system>";
    static const char *const warnings[] = {
        "file:3: \"here\" between elements, passed over (1 more such)",
        "file:2: <cpu> has an empty familyid, taken as unknown (2 more such)",
        "file:5: <net> has speed=\"100000001\", which are more than 100 Tb/s: its rate is unknown",
        "file:6: busid 0000:0c:00.0 again, which line 4 has: links that name it lead to the first GPU there",
        "file:9: <pci> 0000:0e:00.0 has no class and nothing within: NCCL asks the machine what it is, and "
        "here "
        "it is unknown (1 more such)",
        "file:7: <nvlink> leads from 0000:0c:00.0 to itself, passed over",
    };
    struct weft_graph *g = topo_read(text);
    assert_int_equal(g->warning_count, sizeof warnings / sizeof *warnings);
    for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++)
        assert_string_equal(g->warnings[i], warnings[i]);
    assert_true(g->nodes[topo_node(g, "a:1")].bytes_per_s == 0);
    assert_true(g->edges[g->nodes[topo_node(g, "a")].parent_edge].bytes_per_s == 0);
    assert_int_equal(g->nodes[topo_node(g, "0000:0e:00.0")].kind, WEFT_NODE_DEVICE);
    uint32_t links = 0;
    for (uint32_t i = 0; i < g->edge_count; i++)
        links += g->edges[i].kind == WEFT_EDGE_GPU_LINK;
    assert_int_equal(links, 1); /* to the GPU at the address, not to the NIC */
    weft_graph_free(g);
    /* What is in order has none. */
    g = topo_read("<system version=\"1\"><cpu numaid=\"0\"/></system>");
    assert_int_equal(g->warning_count, 0);
    weft_graph_free(g);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *inner, *detail;
    } cases[] = {
        {"<pci busid=\"here\"/>", "file:2: \"here\" is no PCI address, expected one like 0000:0c:00.0"},
        {"<pci busid=\"0000:0c:20.0\"/>",
         "file:2: \"0000:0c:20.0\" is no PCI address, expected one like 0000:0c:00.0"},
        {"<pci busid=\"1:0.0\" class=\"display\"/>",
         "file:2: <pci> has class=\"display\", expected a whole number from 0 to 16777215"},
        {"<pci busid=\"1:0.0\" link_width=\"-16\"/>",
         "file:2: <pci> has link_width=\"-16\", expected a whole number from 0 to 255"},
        {"<pci busid=\"1:0.0\" link_width=\"16x\"/>",
         "file:2: <pci> has link_width=\"16x\", expected a whole number from 0 to 255"},
        {"<pci busid=\"1:0.0\" link_speed=\"fast\" link_width=\"16\"/>",
         "file:2: <pci> has link_speed=\"fast\", expected one like \"16.0 GT/s\""},
        {"<nic><net name=\"a\" speed=\"-2\"/></nic>",
         "file:2: <net> has speed=\"-2\", expected a whole number from -1 to 2147483647"},
        {"<nic><net name=\"a\" speed=\"1e5\"/></nic>",
         "file:2: <net> has speed=\"1e5\", expected a whole number from -1 to 2147483647"},
        {"<nic><net name=\"a\" guid=\"0x1ffffffffffffffff\"/></nic>",
         "file:2: <net> has guid=\"0x1ffffffffffffffff\", expected a whole number from 0 to "
         "18446744073709551615"},
        {"<nic><net name=\"a\" latency=\"1.2.3\"/></nic>",
         "file:2: <net> has latency=\"1.2.3\", expected a number such as 1.5"},
        {"<pci busid=\"1:0.0\"><gpu dev=\"zero\"/></pci>",
         "file:2: <gpu> has dev=\"zero\", expected a whole number from -1 to 2147483647"},
        {"<pci busid=\"1:0.0\"><gpu dev=\"0\">\n<nvlink target=\"2:0.0\" count=\"-1\"/></gpu></pci>",
         "file:3: <nvlink> has count=\"-1\", expected a whole number from 1 to 4096"},
        {"<pci busid=\"1:0.0\"><gpu dev=\"0\">\n<xgmi target=\"2:0.0\" count=\"4097\"/></gpu></pci>",
         "file:3: <xgmi> has count=\"4097\", expected a whole number from 1 to 4096"},
        {"<pci busid=\"1:0.0\"><gpu dev=\"0\">\n<c2c bw=\"-5\"/></gpu></pci>",
         "file:3: <c2c> has bw=\"-5\", expected a whole number from 0 to 2147483647"},
        {"<pci busid=\"1:0.0\"><gpu dev=\"0\">\n<nvlink target=\"gpu1\"/></gpu></pci>",
         "file:3: \"gpu1\" is no PCI address, expected one like 0000:0c:00.0"},
        {"<pci busid=\"1:0.0\"><gpu dev=\"0\">\n<nvlink target=\"2:0.0\"/></gpu></pci>\n<pci "
         "busid=\"2:0.0\"/>",
         "file:3: <nvlink> leads to 0000:02:00.0, which is no GPU in line 4"},
        {"<pci busid=\"1:0.0\"><pcilink target=\"1:0.0\"/></pci>",
         "file:2: <pcilink> leads from 0000:01:00.0 to itself"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fails_in_cpu(cases[i].inner, cases[i].detail);
    topo_fails("<system version=\"3\"/>",
               "file:1: <system> has version=\"3\", expected a whole number from 1 to 2");
    topo_fails("<system version=\"1\">\n<cpu numaid=\"-2\"/></system>",
               "file:2: <cpu> has numaid=\"-2\", expected a whole number from -1 to 2147483647");
    topo_fails("<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"0-15\"/></system>",
               "file:2: <cpu> has affinity=\"0-15\", expected hexadecimal words such as 00000000,000000ff");
}

/* So many links, or so long a tag, that a node has no room for them. */
static void test_bounds(void **state)
{
    (void)state;
    char inner[16384], *at = inner;
    at += sprintf(at, "<pci busid=\"1:0.0\"><gpu dev=\"0\">\n");
    for (int i = 0; i < 129; i++)
        at += sprintf(at, "<nvlink target=\"0001:%02x:00.0\"/>", i);
    sprintf(at, "</gpu></pci>");
    fails_in_cpu(inner, "file:3: <nvlink> is one of more than 128 links and unknown elements in one <gpu>");
    at = inner;
    for (int i = 0; i < 65; i++)
        at += sprintf(
            at, "<pci busid=\"0001:%02x:00.0\"><gpu>\n<nvlink target=\"\" tclass=\"0x068000\"/></gpu></pci>",
            i);
    fails_in_cpu(inner, "file:67: more than 64 GPUs on NVSwitches in one host");
    at = inner + sprintf(inner, "<future x=\"");
    memset(at, 'x', 4096);
    strcpy(at + 4096, "\"/>");
    fails_in_cpu(inner, "file:2: <future> has more than 4095 bytes");
    at = inner + sprintf(inner, "<nic><net name=\"");
    memset(at, 'x', 300);
    strcpy(at + 300, "\"/></nic>");
    fails_in_cpu(
        inner,
        "file:2: the name \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" has 300 bytes, at most 255 are "
        "expected");
}

int main(void)
{
    weft_discover_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_children_decide),
        cmocka_unit_test(test_gpus_in_one_pci),
        cmocka_unit_test(test_nvswitch),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_pcilink),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_oddities),
        cmocka_unit_test(test_wrong_places),
        cmocka_unit_test(test_wrong_root),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
