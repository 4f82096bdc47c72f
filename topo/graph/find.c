/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a graph, and finding nodes by what people call them. */
#include "topo/graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define NAMED_MAX 4 /* how many of several nodes a message names */

const uint32_t *weft_graph_edges_of(const struct weft_graph *graph, uint32_t node, uint32_t *count)
{
    *count = graph->nodes[node].edges_count;
    return graph->incident + graph->nodes[node].edges_first;
}

uint32_t weft_graph_first(const struct weft_graph *graph, uint32_t parent)
{
    return parent == WEFT_NODE_NONE ? graph->first_root : graph->nodes[parent].child_first;
}

uint32_t weft_graph_above(const struct weft_graph *graph, uint32_t node, enum weft_node_kind kind)
{
    while (node != WEFT_NODE_NONE && graph->nodes[node].kind != kind)
        node = graph->nodes[node].parent;
    return node;
}

uint32_t weft_graph_next(const struct weft_graph *graph, uint32_t top, uint32_t node)
{
    if (graph->nodes[node].child_first != WEFT_NODE_NONE)
        return graph->nodes[node].child_first;
    while (node != top && graph->nodes[node].sibling_next == WEFT_NODE_NONE) {
        node = graph->nodes[node].parent;
        if (node == WEFT_NODE_NONE)
            return node;
    }
    return node == top ? WEFT_NODE_NONE : graph->nodes[node].sibling_next;
}

uint32_t weft_graph_depth(const struct weft_graph *graph, uint32_t node)
{
    uint32_t depth = 0;
    for (; graph->nodes[node].parent != WEFT_NODE_NONE; node = graph->nodes[node].parent)
        depth++;
    return depth;
}

uint32_t weft_graph_next_below(const struct weft_graph *graph, uint32_t top, enum weft_node_kind kind,
                               uint32_t after)
{
    uint32_t node =
        after == WEFT_NODE_NONE ? weft_graph_first(graph, top) : weft_graph_next(graph, top, after);
    while (node != WEFT_NODE_NONE && graph->nodes[node].kind != kind)
        node = weft_graph_next(graph, top, node);
    return node;
}

uint32_t weft_graph_count_below(const struct weft_graph *graph, uint32_t top, enum weft_node_kind kind)
{
    uint32_t count = 0;
    for (uint32_t node = weft_graph_next_below(graph, top, kind, WEFT_NODE_NONE); node != WEFT_NODE_NONE;
         node = weft_graph_next_below(graph, top, kind, node))
        count++;
    return count;
}

int weft_graph_is_driverless(const struct weft_graph *graph, uint32_t nic)
{
    const char *driver = weft_graph_attribute(graph, nic, "driver_device");
    return driver && strcmp(driver, "none") == 0;
}

const char *weft_node_kind_name(enum weft_node_kind kind)
{
    static const char *const names[WEFT_NODE_KIND_COUNT] = {
        [WEFT_NODE_HOST] = "host",     [WEFT_NODE_NUMA] = "numa",     [WEFT_NODE_CORE] = "core",
        [WEFT_NODE_BRIDGE] = "bridge", [WEFT_NODE_GPU] = "gpu",       [WEFT_NODE_NIC] = "nic",
        [WEFT_NODE_PORT] = "port",     [WEFT_NODE_DEVICE] = "device", [WEFT_NODE_SWITCH] = "switch",
        [WEFT_NODE_RANK] = "rank",
    };
    return (unsigned)kind < WEFT_NODE_KIND_COUNT ? names[kind] : "unknown";
}

const char *weft_edge_kind_name(enum weft_edge_kind kind)
{
    static const char *const names[WEFT_EDGE_KIND_COUNT] = {
        [WEFT_EDGE_LOCAL] = "local",       [WEFT_EDGE_PCI] = "pci",       [WEFT_EDGE_SOCKET] = "socket",
        [WEFT_EDGE_GPU_LINK] = "gpu-link", [WEFT_EDGE_FABRIC] = "fabric",
    };
    return (unsigned)kind < WEFT_EDGE_KIND_COUNT ? names[kind] : "unknown";
}

const char *weft_port_state_name(enum weft_port_state state)
{
    static const char *const names[] = {"unknown", "down", "init", "armed", "active"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

/* Whether text, size bytes of it left, ends in name, behind a '/' or as a whole. */
static int ends_in(const char *text, size_t size, const char *name)
{
    size_t length = strlen(name);
    return length <= size && memcmp(text + size - length, name, length) == 0 &&
           (length == size || text[size - length - 1] == '/');
}

/* Names may have slashes themselves, so the text is taken off from its end, name by name on the way up. Names of
 * nodes between may be left out ("host/gpu0"). */
static int is_called(const struct weft_graph *graph, uint32_t node, const char *text)
{
    size_t left = strlen(text);
    if (!ends_in(text, left, graph->nodes[node].name))
        return 0;
    for (; node != WEFT_NODE_NONE; node = graph->nodes[node].parent) {
        const char *name = graph->nodes[node].name;
        if (!ends_in(text, left, name))
            continue;
        left -= strlen(name);
        if (left == 0)
            return 1;
        left--; /* the slash */
    }
    return 0;
}

static void describe(const struct weft_graph *graph, uint32_t node, char *text, size_t size)
{
    const struct weft_node *own = &graph->nodes[node];
    int has_host = own->host != WEFT_NODE_NONE && own->host != node;
    snprintf(text, size, "%s %s%s%s%s%s", weft_node_kind_name(own->kind),
             has_host ? graph->nodes[own->host].name : "", has_host ? "/" : "", own->name,
             own->pci ? " at " : "", own->pci ? own->pci : "");
}

int weft_graph_find(const struct weft_graph *graph, const char *name, uint32_t *node)
{
    char address[32], theirs[32], one[2 * WEFT_NAME_SIZE_MAX + 64];
    char list[NAMED_MAX * 160] = "";
    int by_address = weft_pci_parse(name, address) == 0;
    uint32_t found = WEFT_NODE_NONE, count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const char *pci = graph->nodes[i].pci;
        int same = by_address && pci && weft_pci_parse(pci, theirs) == 0 && strcmp(theirs, address) == 0;
        if (!same && !is_called(graph, i, name))
            continue;
        found = i;
        if (count++ < NAMED_MAX) {
            describe(graph, i, one, sizeof one);
            size_t length = strlen(list);
            snprintf(list + length, sizeof list - length, "%s%.150s", count > 1 ? ", " : "", one);
        }
    }
    weft_error_clear(); /* of addresses that were none */
    if (count == 0)
        return weft_fail(WEFT_INVALID,
                         "there is no \"%.100s\" in %.100s: expected a name (gpu0), HOST/NAME or a "
                         "PCI address (0000:0c:00.0)",
                         name, graph->source);
    if (count > 1)
        return weft_fail(WEFT_INVALID, "\"%.100s\" is the name of %u: %s%s; say HOST/NAME or a PCI address",
                         name, count, list, count > NAMED_MAX ? ", ..." : "");
    *node = found;
    return 0;
}

const char *weft_graph_attribute(const struct weft_graph *graph, uint32_t node, const char *name)
{
    for (uint32_t i = graph->nodes[node].attributes_first; i != WEFT_NODE_NONE;
         i = graph->attributes[i].next) {
        if (strcmp(graph->attributes[i].name, name) == 0)
            return graph->attributes[i].value;
    }
    return NULL;
}
