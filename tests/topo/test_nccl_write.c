/* SPDX-License-Identifier: Apache-2.0 */
/* Writing NCCL's XML: what was read comes back whole, and other graphs become what NCCL understands. */
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
#include "topo/discover/discover.h"
#include "topo/machines/xml_tree.h"
#include "topo/report/nccl_write.h"
#include <weft/weft.h>

static char *write_good(const struct weft_graph *graph, uint32_t host)
{
    char *xml = NULL;
    size_t size = 0;
    if (weft_nccl_write(graph, host, &xml, &size))
        fail_msg("%s", weft_error_detail());
    assert_int_equal(strlen(xml), size);
    return xml;
}

static void writes(const struct weft_graph *graph, const char *expected)
{
    char *xml = write_good(graph, WEFT_NODE_NONE);
    assert_string_equal(xml, expected);
    free(xml);
}

/* Every element and attribute of one document is in the other, in the same order. */
static void same_documents(const char *one, const char *other)
{
    struct weft_text texts[2] = {{"one", one, strlen(one)}, {"other", other, strlen(other)}};
    struct weft_xml_tree a, b;
    assert_int_equal(weft_xml_tree_read(&texts[0], &a), WEFT_OK);
    assert_int_equal(weft_xml_tree_read(&texts[1], &b), WEFT_OK);
    assert_int_equal(a.count, b.count);
    assert_true(a.count > 1);
    for (uint32_t i = 0; i < a.count; i++) {
        struct weft_xml_element left = weft_xml_tree_element(&a, i), right = weft_xml_tree_element(&b, i);
        assert_string_equal(left.name, right.name);
        assert_int_equal(a.nodes[i].parent, b.nodes[i].parent);
        uint32_t count = 0;
        for (; left.attributes[count]; count++)
            ;
        for (uint32_t at = 0; at < count; at += 2) {
            const char *value = weft_xml_attribute(&right, left.attributes[at]);
            if (!value)
                fail_msg("<%s> in line %zu lost its %s", left.name, left.line, left.attributes[at]);
            assert_string_equal(value, left.attributes[at + 1]);
        }
        uint32_t other_count = 0;
        for (; right.attributes[other_count]; other_count++)
            ;
        assert_int_equal(count, other_count);
    }
    weft_xml_tree_free(&a);
    weft_xml_tree_free(&b);
}

static void same_text(const char *a, const char *b)
{
    assert_true(!a == !b);
    if (a)
        assert_string_equal(a, b);
}

static void same_graphs(const struct weft_graph *a, const struct weft_graph *b)
{
    assert_int_equal(a->node_count, b->node_count);
    assert_int_equal(a->edge_count, b->edge_count);
    assert_int_equal(a->attribute_count, b->attribute_count);
    for (uint32_t n = 0; n < a->node_count; n++) {
        const struct weft_node *x = &a->nodes[n], *y = &b->nodes[n];
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->bridge, y->bridge);
        assert_int_equal(x->flags, y->flags);
        assert_int_equal(x->parent, y->parent);
        assert_int_equal(x->index, y->index);
        assert_int_equal(x->rail, y->rail);
        assert_true(x->guid == y->guid && x->bytes_per_s == y->bytes_per_s);
        same_text(x->name, y->name);
        same_text(x->pci, y->pci);
        uint32_t i = x->attributes_first, j = y->attributes_first;
        for (; i != WEFT_NODE_NONE && j != WEFT_NODE_NONE;
             i = a->attributes[i].next, j = b->attributes[j].next) {
            same_text(a->attributes[i].name, b->attributes[j].name);
            same_text(a->attributes[i].value, b->attributes[j].value);
        }
        assert_int_equal(i, j);
    }
    for (uint32_t e = 0; e < a->edge_count; e++)
        assert_memory_equal(&a->edges[e], &b->edges[e], sizeof a->edges[e]);
}

/* Read, written and read again. */
static void round_trip(const char *document)
{
    struct weft_graph *first = topo_read(document);
    char *xml = write_good(first, WEFT_NODE_NONE);
    struct weft_graph *second = topo_read(xml);
    same_documents(document, xml);
    same_graphs(first, second);
    weft_graph_free(second);
    free(xml);
    weft_graph_free(first);
}

static void test_round_trips(void **state)
{
    (void)state;
    /* All elements, with more than the format defines; pci elements with nothing, one thing and several within. */
    round_trip(
        "<system version=\"1\" name=\"n\" x=\"1\"><more a=\"&lt;&amp;&quot;'&gt;\"/>"
        "<cpu host_hash=\"0x1\" numaid=\"0x1\" affinity=\"ff,0\" arch=\"x86_64\" vendor=\"v\" familyid=\"6\" "
        "modelid=\"143\" y=\"2\"><more/>"
        "<pci busid=\"0000:0C:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc010\" "
        "subsystem_vendor=\"0x1\" subsystem_device=\"0x2\" link_speed=\"16 GT/s\" link_width=\"16\" z=\"\">"
        "<pcilink target=\"0000:0d:00.0\"/>"
        "<pci busid=\"1:0.0\" class=\"0x030200\"/><pci busid=\"2:0.0\" class=\"0x020700\"/>"
        "<pci busid=\"3:0.0\"><gpu/></pci><pci busid=\"4:0.0\"><nic/></pci>"
        "<pci busid=\"5:0.0\" class=\"0x010802\"/><pci busid=\"6:0.0\" class=\"0x060400\"/>"
        "<pci busid=\"7:0.0\"><gpu dev=\"1\"/><gpu dev=\"1\" rank=\"2\"/><nic/><pci busid=\"8:0.0\"/></pci>"
        "</pci><nic a=\"b\"><odd/><net name=\"eth0\" speed=\"-1\"/></nic><nic/></cpu></system>");
    round_trip(
        "<system version=\"2\"><cpu numaid=\"0\"><pci busid=\"1:0.0\">"
        "<gpu dev=\"0\" sm=\"70\" gcn=\"gfx942\" arch=\"38911\" rank=\"0\" gdr=\"1\" mlopart=\"0\">"
        "<nvlink target=\"2:0.0\" count=\"1\" tclass=\"0x030200\"/><xgmi target=\"2:0.0\" count=\"2\"/>"
        "<c2c bw=\"1000\" count=\"3\"/><nvlink target=\"fffffff:ffff:ff\" count=\"5\" tclass=\"0x068000\"/>"
        "<nvlink target=\"9:0.0\" count=\"1\"/><odd o=\"1\" :o=\"2\" été.1=\"3\"/></gpu></pci>"
        "<pci busid=\"2:0.0\"><gpu dev=\"1\"/></pci><pci busid=\"3:0.0\"><nic>"
        "<net name=\"a\" dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x1\" maxconn=\"1\" gdr=\"1\" "
        "coll=\"1\" "
        "keep=\"1\" latency=\"1.500000\" gin=\"1\"/><net name=\"a\" "
        "port=\"1\"/><net/></nic></pci></cpu></system>");
    round_trip("<system version=\"1\"><cpu numaid=\"0\" host_hash=\"1\"/><cpu numaid=\"1\" host_hash=\"1\"/>"
               "<cpu numaid=\"0\" host_hash=\"0\"/><cpu numaid=\"0\"/></system>");
}

static void test_samples(void **state)
{
    (void)state;
    static const char *const samples[] = {"nvidia-4gpu-2nic.xml",       "rocm-4gpu-3nic.xml",
                                          "odd/nccl-address-twice.xml", "odd/nccl-addresses.xml",
                                          "odd/nccl-empty.xml",         "odd/nccl-self-link.xml",
                                          "odd/nccl-speed.xml"};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char *text = topo_sample(samples[i], NULL);
        round_trip(text);
        free(text);
    }
}

static void test_real_samples(void **state)
{
    (void)state;
    static const char *const samples[] = {
        "nccl-xml/aws-p4d-24xl.xml",         "nccl-xml/azure-ndv4.xml",
        "nccl-xml/rocm-16gpu-16nic.xml",     "nccl-xml/rocm-8gpu-8nic-mi300.xml",
        "nccl-xml/rocm-8gpu-rome-7numa.xml",
    };
    int found = 0;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char *text;
        size_t size;
        if (topo_file(samples[i], &text, &size))
            continue;
        found = 1;
        round_trip(text);
        free(text);
    }
    if (!found)
        skip();
}

/* From another source: GPUs, NICs and NUMA nodes are all there, at their addresses. */
static void keeps_devices(char *text)
{
    uint32_t driverless = 0, nets = 0;
    struct weft_graph *first = topo_read(text);
    char *xml = write_good(first, WEFT_NODE_NONE);
    struct weft_graph *second = topo_read(xml);
    assert_int_equal(topo_count(first, WEFT_NODE_NUMA), topo_count(second, WEFT_NODE_NUMA));
    static const enum weft_node_kind kinds[] = {WEFT_NODE_GPU, WEFT_NODE_NIC};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(topo_count(first, kinds[k]), topo_count(second, kinds[k]));
        uint32_t a = WEFT_NODE_NONE, b = WEFT_NODE_NONE;
        while ((a = weft_graph_next_below(first, WEFT_NODE_NONE, kinds[k], a)) != WEFT_NODE_NONE) {
            b = weft_graph_next_below(second, WEFT_NODE_NONE, kinds[k], b);
            same_text(first->nodes[a].pci, second->nodes[b].pci);
            if (weft_graph_is_driverless(first, a)) {
                /* NCCL has nothing to open there: no net, and so no name. */
                assert_int_equal(weft_graph_next_below(second, b, WEFT_NODE_PORT, WEFT_NODE_NONE),
                                 WEFT_NODE_NONE);
                driverless++;
                continue;
            }
            same_text(first->nodes[a].name, second->nodes[b].name);
        }
    }
    for (const char *at = strstr(xml, "<net "); at; at = strstr(at + 1, "<net "))
        nets++;
    /* In these files an adapter has one port or is listed without. */
    assert_int_equal(nets, topo_count(first, WEFT_NODE_NIC) - driverless);
    weft_graph_free(second);
    free(xml);
    weft_graph_free(first);
    free(text);
}

static void test_other_samples(void **state)
{
    (void)state;
    keeps_devices(topo_sample("hwloc-2package.xml", NULL));
}

static void test_real_other_samples(void **state)
{
    (void)state;
    static const char *const samples[] = {"hwloc-xml/32em64t-2n8c2t-pci-wholeio.xml",
                                          "hwloc-xml/power8gpudistances.xml",
                                          "hwloc-xml/16intel64-manyVFs.xml"};
    int found = 0;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char *text;
        size_t size;
        if (topo_file(samples[i], &text, &size))
            continue;
        found = 1;
        keeps_devices(text);
    }
    if (!found)
        skip();
}

/* --- graphs made here */

static struct weft_graph *graph_new(void)
{
    struct weft_graph *graph;
    assert_int_equal(weft_graph_new("test", "made", &graph), WEFT_OK);
    return graph;
}

static uint32_t add(struct weft_graph *graph, struct weft_node_given given)
{
    uint32_t node;
    assert_int_equal(weft_graph_add_node(graph, &given, &node), WEFT_OK);
    return node;
}

static uint32_t add_pci(struct weft_graph *graph, enum weft_node_kind kind, uint32_t parent, const char *name,
                        const char *pci, enum weft_bridge bridge, uint64_t bytes_per_s)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    given.pci = pci;
    given.bridge = bridge;
    given.parent_pci = 1;
    given.parent_bytes_per_s = bytes_per_s;
    return add(graph, given);
}

static void link_nodes(struct weft_graph *graph, uint32_t a, uint32_t b, unsigned flags, uint32_t links,
                       uint64_t bytes_per_s)
{
    struct weft_edge edge = {.a = a,
                             .b = b,
                             .kind = WEFT_EDGE_GPU_LINK,
                             .flags = (uint8_t)flags,
                             .links = links,
                             .bytes_per_s = bytes_per_s,
                             .port_a = -1,
                             .port_b = -1};
    assert_int_equal(weft_graph_add_edge(graph, &edge, NULL), WEFT_OK);
}

static void set(struct weft_graph *graph, uint32_t node, const char *name, const char *value)
{
    assert_int_equal(weft_graph_set_attribute(graph, node, name, value), WEFT_OK);
}

/* As a system shows itself: host bridge, root port, a switch as its ports; things that NCCL has no use for. */
static void test_system_view(void **state)
{
    (void)state;
    struct weft_graph *g = graph_new();
    uint32_t host = add(g, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "box"));
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, "numa1");
    given.index = 1;
    uint32_t numa = add(g, given);
    set(g, host, "Architecture", "aarch64");
    set(g, numa, "CPUVendor", "AuthenticAMD");
    set(g, numa, "CPUFamilyNumber", "23");
    set(g, numa, "CPUModelNumber", "49");
    set(g, numa, "affinity", "00000000,000000ff");
    add(g, WEFT_NODE_GIVEN(WEFT_NODE_CORE, numa, "core0"));
    uint32_t root = add_pci(g, WEFT_NODE_BRIDGE, numa, "pci0000:00", NULL, WEFT_BRIDGE_HOST, 0);
    uint32_t port = add_pci(g, WEFT_NODE_BRIDGE, root, "0000:00:01.0", "0000:00:01.0", WEFT_BRIDGE_PORT, 0);
    uint32_t up = add_pci(g, WEFT_NODE_BRIDGE, port, "up", "0000:01:00.0", WEFT_BRIDGE_SWITCH, 31507692308u);
    uint32_t down = add_pci(g, WEFT_NODE_BRIDGE, up, "down", "0000:02:00.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t down2 = add_pci(g, WEFT_NODE_BRIDGE, up, "down2", "0000:02:01.0", WEFT_BRIDGE_SWITCH, 0);
    uint32_t up2 = add_pci(g, WEFT_NODE_BRIDGE, down2, "up2", "0000:03:00.0", WEFT_BRIDGE_SWITCH, 500000000);
    uint32_t down3 = add_pci(g, WEFT_NODE_BRIDGE, up2, "down3", "0000:04:00.0", WEFT_BRIDGE_SWITCH, 0);
    given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, down, "gpu4");
    given.pci = "0000:0c:00.0";
    given.index = 4;
    given.parent_pci = 1;
    uint32_t gpu = add(g, given);
    set(g, gpu, "class", "0x1200");
    set(g, gpu, "vendor", "0x1002");
    set(g, gpu, "sm", "304; no number");
    given = WEFT_NODE_GIVEN(WEFT_NODE_RANK, gpu, "rank3");
    given.index = 3;
    add(g, given);
    given = WEFT_NODE_GIVEN(WEFT_NODE_NIC, down3, "mlx5_0");
    given.pci = "0000:05:00.0";
    given.guid = 0x1c34da030060ce68u;
    uint32_t nic = add(g, given);
    given = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, "mlx5_0:1");
    given.index = 1;
    given.bytes_per_s = 50000000000u;
    add(g, given);
    add_pci(g, WEFT_NODE_DEVICE, root, "disk", "0000:00:17.0", WEFT_BRIDGE_UNKNOWN, 0);
    uint32_t idle = add_pci(g, WEFT_NODE_BRIDGE, root, "idle", "0000:00:1e.0", WEFT_BRIDGE_UNKNOWN, 0);
    add_pci(g, WEFT_NODE_DEVICE, idle, "vga", "0000:09:00.0", WEFT_BRIDGE_UNKNOWN, 0);
    assert_int_equal(weft_graph_finish(g), WEFT_OK);
    writes(g, "<system version=\"1\">\n"
              "  <cpu numaid=\"1\" affinity=\"00000000,000000ff\" arch=\"arm64\" vendor=\"AuthenticAMD\" "
              "familyid=\"143\" modelid=\"49\">\n"
              "    <pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
              "link_width=\"16\">\n"
              "      <pci busid=\"0000:0c:00.0\" class=\"0x120000\" vendor=\"0x1002\" link_speed=\"\" "
              "link_width=\"0\">\n"
              "        <gpu dev=\"4\" rank=\"3\"/>\n"
              "      </pci>\n"
              "      <pci busid=\"0000:03:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s PCIe\" "
              "link_width=\"2\">\n"
              "        <pci busid=\"0000:05:00.0\" class=\"0x020000\" link_speed=\"\" link_width=\"0\">\n"
              "          <nic>\n"
              "            <net name=\"mlx5_0\" speed=\"400000\" port=\"1\" guid=\"0x68ce600003da341c\"/>\n"
              "          </nic>\n"
              "        </pci>\n"
              "      </pci>\n"
              "    </pci>\n"
              "  </cpu>\n"
              "</system>\n");
    weft_graph_free(g);
}

static const char made_up[] =
    "<system version=\"1\">\n"
    "  <cpu numaid=\"65544\"/>\n"
    "  <cpu numaid=\"-1\">\n"
    "    <pci busid=\"fffe:00:01.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
    "link_width=\"16\">\n"
    "      <pci busid=\"fffe:00:02.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">\n"
    "        <gpu dev=\"0\">\n"
    "          <nvlink target=\"fffe:00:03.0\" count=\"4\" tclass=\"0x030200\"/>\n"
    "          <nvlink target=\"fffffff:ffff:ff\" count=\"12\" tclass=\"0x068000\"/>\n"
    "          <nvlink target=\"fffffff:ffff:ff\" count=\"2\" tclass=\"0x068001\"/>\n"
    "        </gpu>\n"
    "      </pci>\n"
    "      <pci busid=\"fffe:00:03.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">\n"
    "        <gpu dev=\"1\">\n"
    "          <nvlink target=\"fffe:00:02.0\" count=\"4\" tclass=\"0x030200\"/>\n"
    "          <nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/>\n"
    "        </gpu>\n"
    "      </pci>\n"
    "      <pci busid=\"fffe:00:04.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">\n"
    "        <gpu dev=\"2\">\n"
    "          <xgmi target=\"fffe:00:05.0\" count=\"1\" tclass=\"0x030200\"/>\n"
    "          <nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/>\n"
    "        </gpu>\n"
    "      </pci>\n"
    "      <pci busid=\"fffe:00:05.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">\n"
    "        <gpu dev=\"3\">\n"
    "          <xgmi target=\"fffe:00:04.0\" count=\"1\" tclass=\"0x030200\"/>\n"
    "          <c2c bw=\"44712\" count=\"10\"/>\n"
    "          <nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/>\n"
    "        </gpu>\n"
    "      </pci>\n"
    "      <pci busid=\"fffe:00:06.0\" class=\"0x020000\" link_speed=\"\" link_width=\"0\">\n"
    "        <nic>\n"
    "          <net name=\"nic0\"/>\n"
    "        </nic>\n"
    "      </pci>\n"
    "    </pci>\n"
    "    <nic>\n"
    "      <net name=\"eth0\"/>\n"
    "    </nic>\n"
    "  </cpu>\n"
    "</system>\n";

/* Without addresses, NUMA nodes or ports: addresses are made up, and links lead to them. */
static void test_made_up(void **state)
{
    (void)state;
    struct weft_graph *g = graph_new();
    uint32_t host = add(g, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "box")), gpus[4];
    uint32_t bridge = add_pci(g, WEFT_NODE_BRIDGE, host, "switch0", NULL, WEFT_BRIDGE_UNKNOWN, 31507692308u);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, bridge, name);
        given.index = i;
        gpus[i] = add(g, given);
    }
    add(g, WEFT_NODE_GIVEN(WEFT_NODE_NIC, bridge, "nic0"));
    add(g, WEFT_NODE_GIVEN(WEFT_NODE_NIC, host, "eth0"));
    uint32_t nvswitch = add(g, WEFT_NODE_GIVEN(WEFT_NODE_DEVICE, host, "nvswitch"));
    uint32_t numa = add(g, WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, "numa"));
    link_nodes(g, gpus[0], gpus[1], WEFT_EDGE_NVLINK, 4, 25000000000u);
    link_nodes(g, gpus[0], nvswitch, WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH, 12, 0);
    link_nodes(g, gpus[1], gpus[2], WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH, 18, 0);
    link_nodes(g, gpus[1], gpus[3], WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH, 18, 0);
    link_nodes(g, gpus[2], gpus[3], WEFT_EDGE_XGMI, 0, 0);
    link_nodes(g, gpus[2], gpus[0], WEFT_EDGE_XE, 1, 0);
    link_nodes(g, gpus[3], gpus[0], WEFT_EDGE_NVLINK | WEFT_EDGE_DOWN, 1, 0);
    link_nodes(g, gpus[3], numa, WEFT_EDGE_C2C, 10, 44712000000u);
    link_nodes(g, gpus[0], numa, WEFT_EDGE_NVLINK, 2, 0);
    assert_int_equal(weft_graph_finish(g), WEFT_OK);
    writes(g, made_up);
    char *xml = write_good(g, host);
    struct weft_graph *again = topo_read(xml);
    assert_int_equal(topo_count(again, WEFT_NODE_GPU), 4);
    assert_int_equal(topo_count(again, WEFT_NODE_NIC), 2);
    weft_graph_free(again);
    free(xml);
    weft_graph_free(g);
}

/* One host of several, and all of them, which then tell them apart. */
static void test_hosts(void **state)
{
    (void)state;
    struct weft_graph *g = graph_new();
    add(g, WEFT_NODE_GIVEN(WEFT_NODE_SWITCH, WEFT_NODE_NONE, "leaf"));
    uint32_t hosts[2];
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "box%d", i);
        hosts[i] = add(g, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, name));
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, hosts[i], "numa0");
        given.index = 0;
        add_pci(g, WEFT_NODE_GPU, add(g, given), "gpu0", i ? "0000:0d:00.0" : "0000:0c:00.0", 0, 0);
    }
    assert_int_equal(weft_graph_finish(g), WEFT_OK);
    char *xml = write_good(g, hosts[1]);
    assert_string_equal(xml,
                        "<system version=\"1\">\n  <cpu numaid=\"0\">\n    <pci busid=\"0000:0d:00.0\" "
                        "class=\"0x030200\" link_speed=\"\" link_width=\"0\">\n      <gpu/>\n    </pci>\n"
                        "  </cpu>\n</system>\n");
    free(xml);
    xml = write_good(g, WEFT_NODE_NONE);
    struct weft_graph *again = topo_read(xml);
    assert_int_equal(topo_count(again, WEFT_NODE_HOST), 2);
    assert_int_equal(topo_count(again, WEFT_NODE_GPU), 2);
    weft_graph_free(again);
    free(xml);
    size_t size = 99;
    assert_int_equal(weft_nccl_write(g, 0, &xml, &size), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "node 0 of test is no host to write as NCCL's XML");
    assert_int_equal(weft_nccl_write(g, 77, &xml, &size), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "node 77 of test is no host to write as NCCL's XML");
    assert_int_equal(size, 99);
    weft_graph_free(g);
    g = graph_new();
    add(g, WEFT_NODE_GIVEN(WEFT_NODE_SWITCH, WEFT_NODE_NONE, "leaf"));
    assert_int_equal(weft_graph_finish(g), WEFT_OK);
    assert_int_equal(weft_nccl_write(g, WEFT_NODE_NONE, &xml, &size), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "test: no host to write as NCCL's XML");
    weft_graph_free(g);
    g = graph_new();
    add(g, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "box"));
    assert_int_equal(weft_graph_finish(g), WEFT_OK);
    writes(g, "<system version=\"1\">\n  <cpu numaid=\"-1\"/>\n</system>\n");
    weft_graph_free(g);
}

/* Attributes that another source took from a stranger put no markup into the file. */
static void test_foreign_attributes(void **state)
{
    (void)state;
    static const char *const tags[] = {"a/><b",      "a x=\"<\"", "a x=\"&b;\"", "a x='1'", "a x=\"1\" ", "",
                                       "a x=\"1\"y", " a",        "1",           "a x=\"1", "a x"};
    struct weft_graph *g = graph_new();
    uint32_t host = add(g, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "box"));
    uint32_t numa = add(g, WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, "numa"));
    set(g, numa, "nccl", "cpu");
    set(g, numa, "numaid", "0\"/><evil x=\"&");
    set(g, numa, "cpu.a b", "1");
    set(g, numa, "cpu.", "1");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        char name[16];
        snprintf(name, sizeof name, "cpu/%zu", i);
        set(g, numa, name, tags[i]);
    }
    set(g, numa, "cpu/99", "good x=\"&amp;\" y=\"\"");
    assert_int_equal(weft_graph_finish(g), WEFT_OK);
    writes(g, "<system version=\"1\">\n"
              "  <cpu numaid=\"0&quot;/&gt;&lt;evil x=&quot;&amp;\">\n"
              "    <good x=\"&amp;\" y=\"\"/>\n"
              "  </cpu>\n"
              "</system>\n");
    weft_graph_free(g);
}

/* Bandwidths and the speed and width that NCCL would reckon them from. */
static void test_speeds(void **state)
{
    (void)state;
    static const struct {
        double gigatransfers;
        unsigned width;
        const char *speed, *width_text;
    } cases[] = {
        {2.5, 1, "2.5 GT/s PCIe", "1"},   {5, 16, "5.0 GT/s PCIe", "16"},   {8, 16, "8.0 GT/s PCIe", "16"},
        {16, 8, "8.0 GT/s PCIe", "16"},   {32, 16, "32.0 GT/s PCIe", "16"}, {64, 16, "64.0 GT/s PCIe", "16"},
        {16, 16, "16.0 GT/s PCIe", "16"}, {64, 2, "64.0 GT/s PCIe", "2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_graph *g = graph_new();
        uint32_t host = add(g, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "box"));
        uint64_t rate = weft_pci_bytes_per_s(cases[i].gigatransfers, cases[i].width);
        add_pci(g, WEFT_NODE_GPU, host, "gpu0", "0000:01:00.0", 0, rate);
        assert_int_equal(weft_graph_finish(g), WEFT_OK);
        char *xml = write_good(g, host);
        struct weft_graph *again = topo_read(xml);
        uint32_t other = weft_graph_next_below(again, WEFT_NODE_NONE, WEFT_NODE_GPU, WEFT_NODE_NONE);
        assert_string_equal(weft_graph_attribute(again, other, "link_speed"), cases[i].speed);
        assert_string_equal(weft_graph_attribute(again, other, "link_width"), cases[i].width_text);
        uint64_t got = again->edges[again->nodes[other].parent_edge].bytes_per_s;
        assert_true(got > rate - rate / 50 && got < rate + rate / 50);
        weft_graph_free(again);
        free(xml);
        weft_graph_free(g);
    }
}

int main(void)
{
    weft_discover_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_real_samples),
        cmocka_unit_test(test_other_samples),
        cmocka_unit_test(test_real_other_samples),
        cmocka_unit_test(test_system_view),
        cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_foreign_attributes),
        cmocka_unit_test(test_speeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
