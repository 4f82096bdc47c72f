/* SPDX-License-Identifier: Apache-2.0 */
/* The way between two things, hop by hop, and what it is worth. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/json_say.h"
#include "topo/tool/tool.h"

struct pair {
    const struct weft_graph *graph;
    uint32_t a, b;
    struct weft_path path;
    struct weft_degraded *degraded; /* of the whole graph */
    uint32_t degraded_count;
};

/* --- words ------------------------------------------------------------------------------------------------ */

static int is_nic(const struct weft_node *node)
{
    return node->kind == WEFT_NODE_NIC || node->kind == WEFT_NODE_PORT;
}

/* Whether direct access to GPU memory is a question here: between a GPU and a NIC of one host. */
static int asks_direct(const struct pair *pair)
{
    const struct weft_node *a = &pair->graph->nodes[pair->a], *b = &pair->graph->nodes[pair->b];
    return a->host == b->host &&
           ((a->kind == WEFT_NODE_GPU && is_nic(b)) || (b->kind == WEFT_NODE_GPU && is_nic(a)));
}

/* Why it is as it is; the answer itself is weft_direct_text(). */
static const char *direct_why(const struct pair *pair)
{
    const struct weft_node *a = &pair->graph->nodes[pair->a];
    int virtual = a->host != WEFT_NODE_NONE && pair->graph->nodes[a->host].flags & WEFT_HOST_VIRTUAL;
    switch (pair->path.path_class) {
    case WEFT_PATH_LOC:
    case WEFT_PATH_NVL:
        return "they share a link of their own";
    case WEFT_PATH_PIX:
    case WEFT_PATH_PXB:
        return "they meet below the host bridge: the bytes pass neither the processor nor its memory";
    case WEFT_PATH_PHB:
        return virtual
                   ? "they meet at a bridge of a virtual machine, which says nothing about the real one"
                   : "they meet at a host bridge: it works on most machines, at a rate that depends on the "
                     "root complex";
    case WEFT_PATH_NODE:
    case WEFT_PATH_SYS:
        return virtual ? "the virtual machine does not show how they are joined"
                       : "the bytes would cross the processors' own links: staging in host memory is often "
                         "faster";
    default:
        return "nothing known joins them";
    }
}

/* --- hops ------------------------------------------------------------------------------------------------- */

enum { MEMBERS_SHOWN = 8 };

/* What lies beside an edge of the path: edges of its kind between the same two that carry. */
struct bundle {
    uint32_t edges;
    uint64_t links;    /* of all of them */
    uint64_t each;     /* of one link where all are alike, 0: they are not, or it is not known */
    uint64_t together; /* 0: not known */
};

static int is_member(const struct weft_graph *graph, uint32_t hop, uint32_t other)
{
    const struct weft_edge *a = &graph->edges[hop], *b = &graph->edges[other];
    return a->kind == b->kind && !(b->flags & WEFT_EDGE_DOWN) &&
           ((a->a == b->a && a->b == b->b) || (a->a == b->b && a->b == b->a));
}

static void bundle_find(const struct weft_graph *graph, uint32_t hop, struct bundle *bundle)
{
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(graph, graph->edges[hop].a, &count);
    *bundle = (struct bundle){.together = weft_path_hop_rate(graph, hop)};
    int alike = 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (!is_member(graph, hop, edges[i]))
            continue;
        uint64_t each =
            edge->flags & WEFT_EDGE_LINKS_UNKNOWN ? 0 : weft_path_edge_rate(graph, edges[i]) / edge->links;
        alike &= bundle->edges == 0 || each == bundle->each;
        bundle->each = each;
        bundle->edges++;
        bundle->links += edge->links;
    }
    bundle->each = alike ? bundle->each : 0;
}

static const char *links_text(const struct weft_edge *edge)
{
    return edge->kind == WEFT_EDGE_FABRIC ? "cables" : "links";
}

static const struct weft_degraded *degraded_of(const struct pair *pair, uint32_t edge)
{
    for (uint32_t i = 0; i < pair->degraded_count; i++) {
        if (pair->degraded[i].edge == edge)
            return &pair->degraded[i];
    }
    return NULL;
}

static void member_put(const struct pair *pair, uint32_t from, uint32_t index,
                       const struct weft_degraded *degraded, FILE *file)
{
    const struct weft_edge *edge = &pair->graph->edges[index];
    char kind[WEFT_TOPO_EDGE_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE], why[WEFT_TOPO_DEGRADED_SIZE];
    uint64_t bytes_per_s = weft_path_edge_rate(pair->graph, index);
    fprintf(file, "    |   %s", weft_topo_edge(edge, kind));
    if (edge->port_a >= 0 && edge->port_b >= 0)
        fprintf(file, " [%" PRId32 "] - [%" PRId32 "]", edge->a == from ? edge->port_a : edge->port_b,
                edge->a == from ? edge->port_b : edge->port_a);
    fprintf(file, ", %s", bytes_per_s ? weft_topo_rate(bytes_per_s, rate) : "rate unknown");
    fprintf(file, "%s%s\n", degraded ? ", degraded: " : "",
            degraded ? weft_topo_degraded_why(pair->graph, degraded, why) : "");
}

/* The edges of a hop that has several, of many the degraded ones alone; of one edge only that it is degraded. */
static void members_put(const struct pair *pair, uint32_t from, uint32_t hop, const struct bundle *bundle,
                        FILE *file)
{
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(pair->graph, pair->graph->edges[hop].a, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_member(pair->graph, hop, edges[i]))
            continue;
        const struct weft_degraded *degraded = degraded_of(pair, edges[i]);
        if (degraded || (bundle->edges > 1 && bundle->edges <= MEMBERS_SHOWN))
            member_put(pair, from, edges[i], degraded, file);
    }
}

/* A node as a stop on the way: "GPU gpu0, 0000:0f:00.0". */
static void stop_put(const struct pair *pair, uint32_t index, FILE *file)
{
    static const char *const bridges[] = {"bridge", "host bridge", "root port", "PCI switch port"};
    static const char *const kinds[] = {
        [WEFT_NODE_HOST] = "host",     [WEFT_NODE_NUMA] = "NUMA node", [WEFT_NODE_CORE] = "core",
        [WEFT_NODE_GPU] = "GPU",       [WEFT_NODE_NIC] = "NIC",        [WEFT_NODE_PORT] = "NIC",
        [WEFT_NODE_DEVICE] = "device", [WEFT_NODE_SWITCH] = "switch",  [WEFT_NODE_RANK] = "rank"};
    const struct weft_node *node = &pair->graph->nodes[index];
    char name[WEFT_TOPO_NAME_SIZE];
    if (node->kind == WEFT_NODE_BRIDGE && node->flags & WEFT_BRIDGE_WHOLE)
        fprintf(file, "  PCI switch ");
    else
        fprintf(file, "  %s ",
                node->kind == WEFT_NODE_BRIDGE ? bridges[node->bridge & 3]
                                               : kinds[node->kind < WEFT_NODE_KIND_COUNT ? node->kind : 0]);
    fputs(weft_topo_name(pair->graph, index, name), file);
    if (node->pci && strcmp(node->pci, node->name) != 0) {
        fprintf(file, ", ");
        weft_topo_put(file, node->pci);
    }
    fprintf(file, "\n");
}

/* What the path says of the hop: all its edges together. */
static void hop_put(const struct pair *pair, uint32_t from, uint32_t index, FILE *file)
{
    const struct weft_edge *edge = &pair->graph->edges[index];
    struct bundle bundle;
    char kind[WEFT_TOPO_EDGE_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE], time[WEFT_TOPO_AMOUNT_SIZE];
    bundle_find(pair->graph, index, &bundle);
    if (bundle.edges > 1)
        fprintf(file, "    | %" PRIu64 " %s", bundle.links, links_text(edge));
    else
        fprintf(file, "    | %s", weft_topo_edge(edge, kind));
    if (bundle.each && bundle.links > 1)
        fprintf(file, ", %s a link", weft_topo_rate(bundle.each, rate));
    if (edge->kind != WEFT_EDGE_LOCAL || bundle.together)
        fprintf(file, ", %s%s", bundle.together ? weft_topo_rate(bundle.together, rate) : "rate unknown",
                bundle.together && bundle.links > 1 ? " together" : "");
    if (edge->latency_ns)
        fprintf(file, ", %s", weft_topo_time(edge->latency_ns, time));
    fprintf(file, "%s\n", pair->path.narrowest == index ? "   <- narrowest" : "");
    members_put(pair, from, index, &bundle, file);
}

static void worth_put(const struct pair *pair, FILE *file)
{
    char rate[WEFT_TOPO_AMOUNT_SIZE], time[WEFT_TOPO_AMOUNT_SIZE];
    const struct weft_path *path = &pair->path;
    fprintf(file, "bandwidth: %s%s\n", weft_topo_rate(path->bytes_per_s, rate),
            path->bytes_per_s && path->bandwidth_partly ? " at most: some rates on the way are unknown" : "");
    fprintf(file, "latency: %s\n", weft_topo_time(path->latency_ns, time));
    if (asks_direct(pair))
        fprintf(file, "direct access to GPU memory: %s: %s\n", weft_direct_text(path->direct),
                direct_why(pair));
}

static void text_put(const struct pair *pair, FILE *file)
{
    char name[WEFT_TOPO_NAME_SIZE];
    const struct weft_path *path = &pair->path;
    fprintf(file, "%s", weft_topo_name(pair->graph, pair->a, name));
    fprintf(file, " - %s: ", weft_topo_name(pair->graph, pair->b, name));
    fprintf(file, "%s, %s\n", weft_path_class_name(path->path_class), weft_path_class_text(path->path_class));
    if (path->path_class == WEFT_PATH_DIS)
        return;
    fprintf(file, "\n");
    uint32_t at = pair->a;
    stop_put(pair, at, file);
    for (uint32_t i = 0; i < path->edge_count; i++) {
        hop_put(pair, at, path->edges[i], file);
        at = weft_edge_other(&pair->graph->edges[path->edges[i]], at);
        stop_put(pair, at, file);
    }
    fprintf(file, "\n");
    worth_put(pair, file);
}

/* --- JSON ------------------------------------------------------------------------------------------------- */

static json_t *end_json(const struct pair *pair, uint32_t index)
{
    const struct weft_node *node = &pair->graph->nodes[index];
    char name[WEFT_TOPO_NAME_SIZE];
    return json_pack("{s:I, s:s, s:s, s:o}", "id", (json_int_t)index, "kind",
                     weft_node_kind_name((enum weft_node_kind)node->kind), "name",
                     weft_topo_name(pair->graph, index, name), "pci", weft_json_text(node->pci));
}

static json_t *members_json(const struct pair *pair, uint32_t hop)
{
    json_t *list = json_array();
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(pair->graph, pair->graph->edges[hop].a, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &pair->graph->edges[edges[i]];
        if (!is_member(pair->graph, hop, edges[i]))
            continue;
        uint64_t rate = weft_path_edge_rate(pair->graph, edges[i]);
        json_array_append_new(
            list, json_pack("{s:I, s:o, s:o, s:b}", "edge", (json_int_t)edges[i], "links",
                            weft_json_or_null(edge->links, !(edge->flags & WEFT_EDGE_LINKS_UNKNOWN)),
                            "bytes_per_s_together", weft_json_or_null((json_int_t)rate, rate != 0),
                            "degraded", degraded_of(pair, edges[i]) != NULL));
    }
    return list;
}

static json_t *hop_json(const struct pair *pair, uint32_t index, uint32_t from, uint32_t to)
{
    const struct weft_edge *edge = &pair->graph->edges[index];
    struct bundle bundle;
    char text[WEFT_TOPO_EDGE_SIZE];
    bundle_find(pair->graph, index, &bundle);
    uint64_t each = bundle.edges > 1 ? bundle.each : edge->bytes_per_s;
    weft_topo_edge(edge, text);
    if (bundle.edges > 1)
        snprintf(text, sizeof text, "%" PRIu64 " %s", bundle.links, links_text(edge));
    return json_pack("{s:I, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "edge", (json_int_t)index, "from",
                     end_json(pair, from), "to", end_json(pair, to), "kind",
                     weft_edge_kind_name((enum weft_edge_kind)edge->kind), "text", text, "links",
                     weft_json_or_null((json_int_t)bundle.links, !(edge->flags & WEFT_EDGE_LINKS_UNKNOWN)),
                     "bytes_per_s", weft_json_or_null((json_int_t)each, each != 0), "bytes_per_s_together",
                     weft_json_or_null((json_int_t)bundle.together, bundle.together != 0), "latency_ns",
                     weft_json_or_null(edge->latency_ns, edge->latency_ns != 0), "members",
                     members_json(pair, index));
}

static json_t *hops_json(const struct pair *pair)
{
    json_t *list = json_array();
    uint32_t at = pair->a;
    for (uint32_t i = 0; i < pair->path.edge_count; i++) {
        uint32_t index = pair->path.edges[i], next = weft_edge_other(&pair->graph->edges[index], at);
        json_array_append_new(list, hop_json(pair, index, at, next));
        at = next;
    }
    return list;
}

static json_t *direct_json(const struct pair *pair)
{
    static const char *const names[] = {[WEFT_DIRECT_NO] = "no",
                                        [WEFT_DIRECT_UNKNOWN] = "unknown",
                                        [WEFT_DIRECT_POSSIBLE] = "possible",
                                        [WEFT_DIRECT_SENSIBLE] = "sensible"};
    if (!asks_direct(pair))
        return json_null();
    return json_pack("{s:s, s:s}", "answer", names[pair->path.direct], "why", direct_why(pair));
}

static json_t *pair_json(const struct pair *pair)
{
    const struct weft_path *path = &pair->path;
    json_t *root = weft_json_head(pair->graph, "path");
    json_object_set_new(root, "from", end_json(pair, pair->a));
    json_object_set_new(root, "to", end_json(pair, pair->b));
    json_object_set_new(root, "class", json_string(weft_path_class_name(path->path_class)));
    json_object_set_new(root, "class_text", json_string(weft_path_class_text(path->path_class)));
    json_object_set_new(root, "hops", hops_json(pair));
    json_object_set_new(root, "bytes_per_s",
                        weft_json_or_null((json_int_t)path->bytes_per_s, path->bytes_per_s != 0));
    json_object_set_new(root, "bytes_per_s_is_upper_bound", json_boolean(path->bandwidth_partly));
    json_object_set_new(root, "latency_ns",
                        weft_json_or_null((json_int_t)path->latency_ns, path->latency_ns != 0));
    json_object_set_new(root, "narrowest_edge",
                        weft_json_or_null(path->narrowest, path->narrowest != WEFT_NODE_NONE));
    json_object_set_new(root, "direct", direct_json(pair));
    return root;
}

int weft_topo_explain(const struct weft_graph *graph, const char *a, const char *b, int json, FILE *file)
{
    struct pair pair = {.graph = graph};
    int status = weft_graph_find(graph, a, &pair.a);
    if (status == WEFT_OK)
        status = weft_graph_find(graph, b, &pair.b);
    if (status == WEFT_OK)
        status = weft_path_find(graph, pair.a, pair.b, &pair.path);
    if (status == WEFT_OK)
        status = weft_degraded_find(graph, &pair.degraded, &pair.degraded_count);
    if (status != WEFT_OK)
        return status;
    if (json)
        status = weft_json_put(pair_json(&pair), file);
    else
        text_put(&pair, file);
    free(pair.degraded);
    return status;
}
