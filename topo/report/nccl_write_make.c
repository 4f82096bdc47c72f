/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's attributes out of what a graph of any other source knows. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "topo/report/nccl_write.h"

void weft_nccl_address(const struct weft_nccl_out *out, uint32_t node, char address[64])
{
    const char *pci = out->graph->nodes[node].pci;
    uint32_t number = out->made_up[node];
    if (pci)
        snprintf(address, 64, "%s", pci);
    else /* in a domain that firmware does not use */
        snprintf(address, 64, "%04x:%02x:%02x.0", 0xfffe - (number >> 13), number >> 5 & 0xff, number & 0x1f);
}

/* NVML's address of what it cannot see; of NVSwitches the class matters alone. */
#define TARGET_UNSEEN  "fffffff:ffff:ff"
#define CLASS_NVSWITCH "0x068000"
#define CLASS_CPU      "0x068001"

static const struct weft_node *node_at(const struct weft_nccl_out *out, uint32_t node)
{
    return &out->graph->nodes[node];
}

static void put_if_known(struct weft_nccl_out *out, uint32_t node, const char *name)
{
    const char *value = weft_graph_attribute(out->graph, node, name);
    if (value)
        weft_xml_put(&out->xml, name, value);
}

/* What other sources have under such a name may be anything. */
static void put_if_number(struct weft_nccl_out *out, uint32_t node, const char *name)
{
    const char *value = weft_graph_attribute(out->graph, node, name);
    if (value && *value && value[strspn(value, "0123456789")] == '\0' && strlen(value) < 9)
        weft_xml_put(&out->xml, name, value);
}

/* --- cpu */

/* Any number that is another one for another host. */
void weft_nccl_put_host(struct weft_nccl_out *out, uint32_t node)
{
    uint64_t hash = weft_hash_text(WEFT_HASH_START, node_at(out, node_at(out, node)->host)->name);
    char text[32];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)hash);
    weft_xml_put(&out->xml, "host_hash", text);
}

static const char *attribute_around(const struct weft_nccl_out *out, uint32_t place, const char *name)
{
    const char *value = weft_graph_attribute(out->graph, place, name);
    return value ? value : weft_graph_attribute(out->graph, node_at(out, place)->host, name);
}

/* NCCL adds CPUID's extended family as if it were four bits further up: 23 (AMD's Zen) is 143. */
static unsigned family_of(const char *given)
{
    unsigned family = 0;
    for (; *given >= '0' && *given <= '9' && family < 1000; given++)
        family = family * 10 + (unsigned)(*given - '0');
    return family > 15 ? 15 + ((family - 15) << 4) : family;
}

void weft_nccl_make_cpu(struct weft_nccl_out *out, uint32_t place)
{
    static const char *const architectures[][2] = {
        {"x86_64", "x86_64"}, {"aarch64", "arm64"}, {"ppc64le", "ppc64"}, {"ppc64", "ppc64"}};
    const struct weft_node *node = node_at(out, place);
    if (node->kind != WEFT_NODE_NUMA)
        weft_xml_put(&out->xml, "numaid", "-1");
    else /* one without a number gets its own beyond what systems have */
        weft_xml_put_number(&out->xml, "numaid",
                            node->index >= 0 ? (uint64_t)node->index : 65536 + out->made_up[place]);
    const char *affinity = weft_graph_attribute(out->graph, place, "affinity");
    if (affinity && affinity[strspn(affinity, "0123456789abcdef,")] == '\0')
        weft_xml_put(&out->xml, "affinity", affinity);
    const char *architecture = attribute_around(out, place, "Architecture");
    for (size_t i = 0; architecture && i < sizeof architectures / sizeof *architectures; i++) {
        if (strcmp(architectures[i][0], architecture) == 0)
            weft_xml_put(&out->xml, "arch", architectures[i][1]);
    }
    const char *vendor = attribute_around(out, place, "CPUVendor");
    const char *family = attribute_around(out, place, "CPUFamilyNumber");
    const char *model = attribute_around(out, place, "CPUModelNumber");
    if (vendor)
        weft_xml_put(&out->xml, "vendor", vendor);
    if (family && family[strspn(family, "0123456789")] == '\0')
        weft_xml_put_number(&out->xml, "familyid", family_of(family));
    if (model && *model && model[strspn(model, "0123456789")] == '\0' && strlen(model) < 9)
        weft_xml_put(&out->xml, "modelid", model);
}

/* --- pci */

/* Six digits: others tell base class and subclass only. */
static void class_of(const struct weft_nccl_out *out, uint32_t node, char class[16])
{
    static const char *const defaults[WEFT_NODE_KIND_COUNT] = {
        [WEFT_NODE_BRIDGE] = "0x060400",
        [WEFT_NODE_GPU] = "0x030200",
        [WEFT_NODE_NIC] = "0x020000",
    };
    const char *given = weft_graph_attribute(out->graph, node, "class"),
               *known = defaults[node_at(out, node)->kind];
    int sound = given && strncmp(given, "0x", 2) == 0 &&
                given[2 + strspn(given + 2, "0123456789abcdefABCDEF")] == '\0' &&
                (strlen(given) == 6 || strlen(given) == 8);
    if (sound)
        snprintf(class, 16, "%s%s", given, strlen(given) == 6 ? "00" : "");
    else
        snprintf(class, 16, "%s", known ? known : "0x000000");
}

/* A speed and a width that make this bandwidth within 1 %, the widest first, as NCCL reckons from these; "" and 0 where
 * there are none: NCCL's words for unknown. */
static void put_speed(struct weft_nccl_out *out, uint64_t bytes_per_s)
{
    static const struct {
        double gigatransfers;
        const char *text;
    } speeds[] = {{2.5, "2.5 GT/s PCIe"}, {5, "5.0 GT/s PCIe"},   {8, "8.0 GT/s PCIe"},
                  {16, "16.0 GT/s PCIe"}, {32, "32.0 GT/s PCIe"}, {64, "64.0 GT/s PCIe"}};
    for (unsigned width = 16; width > 0 && bytes_per_s; width /= 2) {
        for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
            uint64_t made = weft_pci_bytes_per_s(speeds[i].gigatransfers, width);
            uint64_t apart = made > bytes_per_s ? made - bytes_per_s : bytes_per_s - made;
            if (apart <= bytes_per_s / 100) {
                weft_xml_put(&out->xml, "link_speed", speeds[i].text);
                weft_xml_put_number(&out->xml, "link_width", width);
                return;
            }
        }
    }
    weft_xml_put(&out->xml, "link_speed", "");
    weft_xml_put(&out->xml, "link_width", "0");
}

void weft_nccl_make_pci(struct weft_nccl_out *out, uint32_t node)
{
    static const char *const names[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
    char class[16];
    class_of(out, node, class);
    weft_xml_put(&out->xml, "class", class);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_if_known(out, node, names[i]);
    uint32_t edge = node_at(out, node)->parent_edge;
    put_speed(out, edge == WEFT_NODE_NONE ? 0 : out->graph->edges[edge].bytes_per_s);
}

/* --- gpu */

struct gpu_links {
    uint32_t to_switch; /* links to NVSwitches */
    uint32_t to_cpu;
};

static int is_amd(const struct weft_nccl_out *out, uint32_t gpu)
{
    const char *vendor = weft_graph_attribute(out->graph, gpu, "vendor");
    return vendor && strcmp(vendor, "0x1002") == 0;
}

static void put_link(struct weft_nccl_out *out, const char *element, const char *target, uint32_t count,
                     const char *class)
{
    weft_xml_begin(&out->xml, element);
    weft_xml_put(&out->xml, "target", target);
    weft_xml_put_number(&out->xml, "count", count > WEFT_NCCL_COUNT_MAX ? WEFT_NCCL_COUNT_MAX : count);
    weft_xml_put(&out->xml, "tclass", class);
    weft_xml_end(&out->xml, element);
}

static void make_link(struct weft_nccl_out *out, uint32_t gpu, const struct weft_edge *edge,
                      struct gpu_links *sums)
{
    uint32_t other = weft_edge_other(edge, gpu);
    enum weft_node_kind kind = node_at(out, other)->kind;
    if (edge->kind != WEFT_EDGE_GPU_LINK || edge->flags & (WEFT_EDGE_DOWN | WEFT_EDGE_XE) ||
        node_at(out, other)->host != node_at(out, gpu)->host)
        return; /* the format has no other links */
    if (edge->flags & WEFT_EDGE_C2C && kind == WEFT_NODE_NUMA) {
        weft_xml_begin(&out->xml, "c2c");
        if (edge->bytes_per_s)
            weft_xml_put_number(&out->xml, "bw", edge->bytes_per_s / 1000000);
        weft_xml_put_number(&out->xml, "count", edge->links);
        weft_xml_end(&out->xml, "c2c");
    } else if (edge->flags & WEFT_EDGE_NVSWITCH && kind == WEFT_NODE_DEVICE) {
        sums->to_switch += edge->links;
    } else if (edge->flags & WEFT_EDGE_NVSWITCH) { /* between GPUs: each has all of them to every other */
        sums->to_switch = edge->links > sums->to_switch ? edge->links : sums->to_switch;
    } else if (kind == WEFT_NODE_NUMA) {
        sums->to_cpu += edge->links;
    } else if (kind == WEFT_NODE_GPU) {
        char target[64], class[16];
        int xgmi = edge->flags & WEFT_EDGE_XGMI || (!(edge->flags & WEFT_EDGE_NVLINK) && is_amd(out, gpu));
        weft_nccl_address(out, other, target);
        class_of(out, other, class);
        put_link(out, xgmi ? "xgmi" : "nvlink", target, edge->links, class);
    }
}

/* Rank, model and the like stay out where they are not known: NCCL asks the system for them. */
void weft_nccl_make_gpu(struct weft_nccl_out *out, uint32_t gpu)
{
    static const char *const names[] = {"sm", "arch", "gdr"};
    struct gpu_links sums = {0, 0};
    uint32_t count;
    if (node_at(out, gpu)->index >= 0)
        weft_xml_put_number(&out->xml, "dev", (uint64_t)node_at(out, gpu)->index);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_if_number(out, gpu, names[i]);
    put_if_known(out, gpu, "gcn");
    for (uint32_t n = weft_graph_first(out->graph, gpu); n != WEFT_NODE_NONE;
         n = node_at(out, n)->sibling_next) {
        if (node_at(out, n)->kind == WEFT_NODE_RANK && node_at(out, n)->index >= 0) {
            weft_xml_put_number(&out->xml, "rank", (uint64_t)node_at(out, n)->index);
            break;
        }
    }
    const uint32_t *edges = weft_graph_edges_of(out->graph, gpu, &count);
    for (uint32_t i = 0; i < count; i++)
        make_link(out, gpu, &out->graph->edges[edges[i]], &sums);
    if (sums.to_switch)
        put_link(out, "nvlink", TARGET_UNSEEN, sums.to_switch, CLASS_NVSWITCH);
    if (sums.to_cpu)
        put_link(out, "nvlink", TARGET_UNSEEN, sums.to_cpu, CLASS_CPU);
}

/* --- net */

void weft_nccl_make_net(struct weft_nccl_out *out, uint32_t nic, uint32_t port)
{
    const struct weft_node *adapter = node_at(out, nic);
    if (port == WEFT_NODE_NONE)
        weft_xml_begin(&out->xml, "net");
    weft_xml_put(&out->xml, "name", adapter->name);
    if (adapter->index >= 0)
        weft_xml_put_number(&out->xml, "dev", (uint64_t)adapter->index);
    if (port != WEFT_NODE_NONE) {
        if (node_at(out, port)->bytes_per_s)
            weft_xml_put_number(&out->xml, "speed", node_at(out, port)->bytes_per_s / 125000);
        if (node_at(out, port)->index > 0)
            weft_xml_put_number(&out->xml, "port", (uint64_t)node_at(out, port)->index);
    }
    if (adapter->guid) { /* in the order of bytes that NCCL prints: see topo/machines/nccl_nodes.c */
        char text[32];
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)__builtin_bswap64(adapter->guid));
        weft_xml_put(&out->xml, "guid", text);
    }
    if (port == WEFT_NODE_NONE)
        weft_xml_end(&out->xml, "net");
}
