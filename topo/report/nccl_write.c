/* SPDX-License-Identifier: Apache-2.0 */
/* Writing NCCL's XML (topo/machines/nccl.h says what it is).
 *
 * Nodes that came from NCCL's XML are written from the attributes that reading kept, so that nothing is lost and nothing
 * added. For others the values are made from what the graph knows (nccl_write_make.c); what it does not know is left
 * out, as NCCL asks the system then. Of those, only GPUs, NICs and the switches above them are written: NCCL takes
 * everything else on PCI for a switch. A switch that the graph shows as ports is written once, as its upper port; root
 * ports and host bridges are not written.
 *
 * The walk goes by the nodes' own links, without recursion: a file may nest deeply.
 */
#include "topo/report/nccl_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* --- what was kept while reading */

/* The end of an XML name (ASCII, and any other letters there are), text where none begins. */
static const char *name_end(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    for (;; at++) {
        int letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_' || *at == ':' ||
                     *at >= 0x80;
        int later = (*at >= '0' && *at <= '9') || *at == '-' || *at == '.';
        if (!letter && !(later && (const char *)at != text))
            return (const char *)at;
    }
}

static int name_is_sound(const char *name)
{
    return *name && *name_end(name) == '\0';
}

/* The end of an attribute's escaped value, at its closing quote; NULL where it is not sound. */
static const char *value_end(const char *text)
{
    for (; *text && *text != '"'; text++) {
        if (*text == '<' || (*text == '&' && strncmp(text, "&amp;", 5) != 0 &&
                             strncmp(text, "&lt;", 4) != 0 && strncmp(text, "&quot;", 6) != 0))
            return NULL;
    }
    return *text ? text : NULL;
}

/* Whether a kept tag is one that reading made: attributes may come from elsewhere, and no file shall put markup into
 * another one. */
static int tag_is_sound(const char *tag)
{
    const char *at = name_end(tag);
    if (at == tag)
        return 0;
    while (*at == ' ') {
        const char *name = at + 1;
        at = name_end(name);
        if (at == name || at[0] != '=' || at[1] != '"')
            return 0;
        at = value_end(at + 2);
        if (!at)
            return 0;
        at++;
    }
    return *at == '\0';
}

static void put_kept(struct weft_nccl_out *out, uint32_t node, enum weft_nccl_kind kind)
{
    const struct weft_graph *graph = out->graph;
    const char *element = weft_nccl_kind_name(kind);
    size_t length = strlen(element);
    uint32_t first = graph->nodes[node].attributes_first;
    for (uint32_t a = first; a != WEFT_NODE_NONE; a = graph->attributes[a].next) {
        const char *name = graph->attributes[a].name, *value = graph->attributes[a].value;
        if (weft_nccl_attribute_is_known(kind, name) && strcmp(name, "busid") != 0)
            weft_xml_put(&out->xml, name, value);
        else if (strncmp(name, element, length) == 0 && name[length] == '.' &&
                 name_is_sound(name + length + 1))
            weft_xml_put(&out->xml, name + length + 1, value);
    }
    for (uint32_t a = first; a != WEFT_NODE_NONE; a = graph->attributes[a].next) {
        const char *name = graph->attributes[a].name, *value = graph->attributes[a].value;
        if (strncmp(name, element, length) != 0 || name[length] != '/' || !tag_is_sound(value))
            continue;
        weft_xml_begin(&out->xml, value);
        weft_xml_end(&out->xml, value);
    }
}

/* Whether the node stands for this element of a file of NCCL's: "pci gpu" does for pci and for gpu. */
static int was_given(const struct weft_graph *graph, uint32_t node, const char *element)
{
    const char *given = weft_graph_attribute(graph, node, "nccl");
    size_t length = strlen(element);
    while (given) {
        if (strncmp(given, element, length) == 0 && (given[length] == '\0' || given[length] == ' '))
            return 1;
        given = strchr(given, ' ');
        if (given)
            given++;
    }
    return 0;
}

/* --- nodes */

#define BEGUN_PCI   1 /* bits of weft_nccl_out.begun */
#define BEGUN_INNER 2 /* cpu, gpu, nic, net */

static uint32_t next_kept(const struct weft_nccl_out *out, uint32_t node)
{
    while (node != WEFT_NODE_NONE && !out->kept[node])
        node = out->graph->nodes[node].sibling_next;
    return node;
}

static void begin_pci(struct weft_nccl_out *out, uint32_t node)
{
    char address[64];
    weft_nccl_address(out, node, address);
    weft_xml_begin(&out->xml, "pci");
    weft_xml_put(&out->xml, "busid", address);
    if (was_given(out->graph, node, "pci"))
        put_kept(out, node, WEFT_NCCL_PCI);
    else
        weft_nccl_make_pci(out, node);
    out->begun[node] |= BEGUN_PCI;
}

/* Ports of a switch come in pairs, one above the other: written are those that have no written port right above. */
static int bridge_is_written(const struct weft_nccl_out *out, uint32_t node)
{
    const struct weft_node *nodes = out->graph->nodes, *bridge = &nodes[node];
    if (was_given(out->graph, node, "pci"))
        return 1;
    if (bridge->bridge == WEFT_BRIDGE_HOST || bridge->bridge == WEFT_BRIDGE_PORT)
        return 0;
    if (bridge->bridge != WEFT_BRIDGE_SWITCH || bridge->flags & WEFT_BRIDGE_WHOLE)
        return 1;
    const struct weft_node *above = &nodes[bridge->parent];
    int above_is_port = above->kind == WEFT_NODE_BRIDGE && above->bridge == WEFT_BRIDGE_SWITCH &&
                        !(above->flags & WEFT_BRIDGE_WHOLE);
    return !(above_is_port && out->begun[bridge->parent] & BEGUN_PCI);
}

/* Several gpus or a gpu and a nic in one pci: those have the pci's address and lie in the bridge that is written for it. */
static int lies_in_pci(const struct weft_graph *graph, uint32_t node)
{
    const struct weft_node *device = &graph->nodes[node], *above = &graph->nodes[device->parent];
    return above->kind == WEFT_NODE_BRIDGE && above->pci && device->pci &&
           strcmp(above->pci, device->pci) == 0;
}

static void begin_gpu(struct weft_nccl_out *out, uint32_t node)
{
    int given = was_given(out->graph, node, "gpu");
    if (!lies_in_pci(out->graph, node))
        begin_pci(out, node);
    if (!given && was_given(out->graph, node, "pci"))
        return; /* the file had nothing in it, and NCCL asks the system */
    weft_xml_begin(&out->xml, "gpu");
    if (given)
        put_kept(out, node, WEFT_NCCL_GPU);
    else
        weft_nccl_make_gpu(out, node);
    out->begun[node] |= BEGUN_INNER;
}

static void begin_nic(struct weft_nccl_out *out, uint32_t node)
{
    const struct weft_graph *graph = out->graph;
    const struct weft_node *nic = &graph->nodes[node];
    int given = was_given(graph, node, "nic");
    int has_port = next_kept(out, nic->child_first) != WEFT_NODE_NONE;
    int has_place = nic->pci || graph->nodes[nic->parent].kind == WEFT_NODE_BRIDGE;
    if (has_place && !lies_in_pci(graph, node))
        begin_pci(out, node);
    if (!given && !has_port && (was_given(graph, node, "pci") || weft_graph_is_driverless(graph, node)))
        return; /* nothing for NCCL to open: its files have the pci alone */
    weft_xml_begin(&out->xml, "nic");
    if (given)
        put_kept(out, node, WEFT_NCCL_NIC);
    else if (!has_port)
        weft_nccl_make_net(out, node, WEFT_NODE_NONE);
    out->begun[node] |= BEGUN_INNER;
}

static void begin_cpu(struct weft_nccl_out *out, uint32_t node)
{
    weft_xml_begin(&out->xml, "cpu");
    if (out->several && !weft_graph_attribute(out->graph, node, "host_hash"))
        weft_nccl_put_host(out, node);
    if (was_given(out->graph, node, "cpu"))
        put_kept(out, node, WEFT_NCCL_CPU);
    else
        weft_nccl_make_cpu(out, node);
    out->begun[node] |= BEGUN_INNER;
}

static void begin_node(struct weft_nccl_out *out, uint32_t node)
{
    const struct weft_node *nodes = out->graph->nodes;
    switch ((enum weft_node_kind)nodes[node].kind) {
    case WEFT_NODE_NUMA:
        begin_cpu(out, node);
        return;
    case WEFT_NODE_BRIDGE:
        if (bridge_is_written(out, node))
            begin_pci(out, node);
        return;
    case WEFT_NODE_GPU:
        begin_gpu(out, node);
        return;
    case WEFT_NODE_NIC:
        begin_nic(out, node);
        return;
    case WEFT_NODE_DEVICE:
        begin_pci(out, node);
        return;
    case WEFT_NODE_PORT:
        weft_xml_begin(&out->xml, "net");
        if (was_given(out->graph, node, "net"))
            put_kept(out, node, WEFT_NCCL_NET);
        else
            weft_nccl_make_net(out, nodes[node].parent, node);
        out->begun[node] |= BEGUN_INNER;
        return;
    default:
        return;
    }
}

static void end_node(struct weft_nccl_out *out, uint32_t node)
{
    static const char *const inner[WEFT_NODE_KIND_COUNT] = {
        [WEFT_NODE_NUMA] = "cpu",
        [WEFT_NODE_GPU] = "gpu",
        [WEFT_NODE_NIC] = "nic",
        [WEFT_NODE_PORT] = "net",
    };
    if (out->begun[node] & BEGUN_INNER)
        weft_xml_end(&out->xml, inner[out->graph->nodes[node].kind]);
    if (out->begun[node] & BEGUN_PCI)
        weft_xml_end(&out->xml, "pci");
    out->begun[node] = 0;
}

/* --- the walk */

static void write_tree(struct weft_nccl_out *out, uint32_t top)
{
    const struct weft_node *nodes = out->graph->nodes;
    uint32_t node = top;
    for (;;) {
        begin_node(out, node);
        uint32_t next = next_kept(out, nodes[node].child_first);
        while (next == WEFT_NODE_NONE) {
            end_node(out, node);
            if (node == top)
                return;
            next = next_kept(out, nodes[node].sibling_next);
            if (next == WEFT_NODE_NONE)
                node = nodes[node].parent;
        }
        node = next;
    }
}

static void write_host(struct weft_nccl_out *out, uint32_t host)
{
    const struct weft_node *nodes = out->graph->nodes;
    uint32_t first = next_kept(out, nodes[host].child_first), numas = 0, others = 0;
    for (uint32_t n = first; n != WEFT_NODE_NONE; n = next_kept(out, nodes[n].sibling_next)) {
        if (nodes[n].kind == WEFT_NODE_NUMA) {
            write_tree(out, n);
            numas++;
        } else {
            others++;
        }
    }
    if (others == 0 && numas > 0)
        return;
    weft_xml_begin(&out->xml, "cpu");
    if (out->several)
        weft_nccl_put_host(out, host);
    weft_nccl_make_cpu(out, host);
    for (uint32_t n = first; n != WEFT_NODE_NONE; n = next_kept(out, nodes[n].sibling_next)) {
        if (nodes[n].kind != WEFT_NODE_NUMA)
            write_tree(out, n);
    }
    weft_xml_end(&out->xml, "cpu");
}

/* What is written: by kind, or as a file of NCCL's had it; and what those lie in. */
static void mark_kept(struct weft_nccl_out *out)
{
    const struct weft_graph *graph = out->graph;
    uint32_t made_up = 0;
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct weft_node *node = &graph->nodes[n];
        int is_port = node->kind == WEFT_NODE_PORT && graph->nodes[node->parent].kind == WEFT_NODE_NIC;
        int is_device = node->kind == WEFT_NODE_GPU || node->kind == WEFT_NODE_NIC;
        int is_pci = node->kind == WEFT_NODE_DEVICE || node->kind == WEFT_NODE_BRIDGE;
        if (is_device || is_port || node->kind == WEFT_NODE_NUMA || (is_pci && was_given(graph, n, "pci")))
            out->kept[n] = 1;
        if (out->kept[n] && node->parent != WEFT_NODE_NONE)
            out->kept[node->parent] = 1;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (out->kept[n] && !graph->nodes[n].pci)
            out->made_up[n] = made_up++;
    }
}

static void write_system(struct weft_nccl_out *out, uint32_t host)
{
    const struct weft_node *nodes = out->graph->nodes;
    int all = host == WEFT_NODE_NONE;
    if (all) {
        host = weft_graph_first(out->graph, WEFT_NODE_NONE);
        while (nodes[host].kind != WEFT_NODE_HOST)
            host = nodes[host].sibling_next;
    }
    weft_xml_begin(&out->xml, "system");
    if (was_given(out->graph, host, "system"))
        put_kept(out, host, WEFT_NCCL_SYSTEM);
    else
        weft_xml_put(&out->xml, "version", "1");
    for (uint32_t n = host; n != WEFT_NODE_NONE; n = all ? nodes[n].sibling_next : WEFT_NODE_NONE) {
        if (nodes[n].kind == WEFT_NODE_HOST)
            write_host(out, n);
    }
    weft_xml_end(&out->xml, "system");
}

static int has_host_hash(const struct weft_graph *graph, uint32_t host)
{
    uint32_t child = weft_graph_first(graph, host);
    while (child != WEFT_NODE_NONE && graph->nodes[child].kind != WEFT_NODE_NUMA)
        child = graph->nodes[child].sibling_next;
    return child != WEFT_NODE_NONE && weft_graph_attribute(graph, child, "host_hash");
}

/* *untold: how many of them no host_hash tells apart. */
static uint32_t count_hosts(const struct weft_graph *graph, uint32_t *unlisted)
{
    uint32_t hosts = 0;
    *unlisted = 0;
    for (uint32_t n = weft_graph_first(graph, WEFT_NODE_NONE); n != WEFT_NODE_NONE;
         n = graph->nodes[n].sibling_next) {
        if (graph->nodes[n].kind != WEFT_NODE_HOST)
            continue;
        hosts++;
        *unlisted += !has_host_hash(graph, n);
    }
    return hosts;
}

int weft_nccl_write(const struct weft_graph *graph, uint32_t host, char **xml, size_t *size)
{
    uint32_t unlisted, hosts = count_hosts(graph, &unlisted);
    if (hosts == 0)
        return weft_fail(WEFT_INVALID, "%.300s: no host to write as NCCL's XML", graph->source);
    if (host != WEFT_NODE_NONE && (host >= graph->node_count || graph->nodes[host].kind != WEFT_NODE_HOST))
        return weft_fail(WEFT_INVALID, "node %u of %.300s is no host to write as NCCL's XML", host,
                         graph->source);
    struct weft_nccl_out out = {.graph = graph, .several = host == WEFT_NODE_NONE && unlisted > 1};
    out.kept = calloc(graph->node_count, sizeof *out.kept);
    out.begun = calloc(graph->node_count, sizeof *out.begun);
    out.made_up = calloc(graph->node_count, sizeof *out.made_up);
    out.xml.no_memory = !out.kept || !out.begun || !out.made_up;
    if (!out.xml.no_memory) {
        mark_kept(&out);
        write_system(&out, host);
    }
    free(out.made_up);
    free(out.begun);
    free(out.kept);
    int status = weft_xml_finish(&out.xml, xml, size);
    return status ? weft_fail(status, "%.300s: no memory for NCCL's XML of it", graph->source) : WEFT_OK;
}
