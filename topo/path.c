/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and routes.
 *
 * Inside a host the route is the tree's: up from both ends to their nearest common ancestor. What that is gives the
 * class. Below a bridge, the bridges between decide: none is the same switch (or the same port, for functions of one
 * device), more are several switches. A switch may be told in two ways, though: as one bridge (NCCL's files,
 * WEFT_BRIDGE_WHOLE), or as its ports, an upper one with lower ones below it (the system's own view, so hwloc's). Where a
 * source does not say what its bridges are, addresses do: lower ports of one switch lie on one bus and differ in their
 * device number, upper ports of different switches never do.
 *
 * Cores count as their NUMA node, ports as their NIC, ranks as what they are placed at.
 *
 * Between hosts: candidates are the live ports nearest to each end, by class; where the fabric does not join those (rails
 * that do not meet), all live ports of both hosts. The search among them is topo/path_search.c's.
 */
#include "topo/path.h"

#include <string.h>

#include "base/error.h"
#include "topo/path_ends.h"
#include "topo/path_search.h"

/* --- classes */

/* Where two nodes of one host meet, and how they come there. */
struct meeting {
    uint32_t node;         /* their nearest common ancestor, or one of the two */
    uint32_t below[2];     /* its children on the way to them, WEFT_NODE_NONE where it is one itself */
    uint32_t distances[2]; /* edges up from each */
};

static struct meeting meet(const struct weft_graph *graph, uint32_t a, uint32_t b)
{
    uint32_t ends[2] = {a, b}, depths[2] = {weft_graph_depth(graph, a), weft_graph_depth(graph, b)};
    struct meeting met = {.below = {WEFT_NODE_NONE, WEFT_NODE_NONE}};
    while (ends[0] != ends[1]) {
        int side = depths[0] >= depths[1] ? 0 : 1;
        met.below[side] = ends[side];
        met.distances[side]++;
        ends[side] = graph->nodes[ends[side]].parent;
        depths[side]--;
    }
    met.node = ends[0];
    return met;
}

/* The node that counts for it. */
static uint32_t stand_in(const struct weft_graph *graph, uint32_t node)
{
    const struct weft_node *nodes = graph->nodes;
    if (nodes[node].kind == WEFT_NODE_RANK)
        node = nodes[node].parent;
    if (nodes[node].kind == WEFT_NODE_CORE)
        node = nodes[node].parent;
    if (nodes[node].kind == WEFT_NODE_PORT && nodes[nodes[node].parent].kind == WEFT_NODE_NIC)
        node = nodes[node].parent;
    return node;
}

/* Whether two addresses agree in domain and bus, or in these and the device. */
static int share(const struct weft_node *a, const struct weft_node *b, int with_device)
{
    char one[32], other[32];
    if (!a->pci || !b->pci || weft_pci_parse(a->pci, one) != 0 || weft_pci_parse(b->pci, other) != 0)
        return 0;
    char end = with_device ? '.' : ':';
    size_t length = (size_t)(strrchr(one, end) - one);
    return strncmp(one, other, length + 1) == 0;
}

static int is_switch_port(const struct weft_node *node)
{
    return node->kind == WEFT_NODE_BRIDGE && node->bridge == WEFT_BRIDGE_SWITCH &&
           !(node->flags & WEFT_BRIDGE_WHOLE);
}

/* Below a bridge that is no host bridge. */
static enum weft_path_class classify_switch(const struct weft_graph *graph, const struct meeting *met)
{
    const struct weft_node *nodes = graph->nodes, *top = &nodes[met->node];
    if (met->distances[0] <= 1 && met->distances[1] <= 1)
        return WEFT_PATH_PIX;
    if (met->distances[0] > 2 || met->distances[1] > 2 || top->flags & WEFT_BRIDGE_WHOLE)
        return WEFT_PATH_PXB;
    const struct weft_node *a = &nodes[met->below[0]], *b = &nodes[met->below[1]];
    if (is_switch_port(top))
        return (met->distances[0] == 1 || is_switch_port(a)) && (met->distances[1] == 1 || is_switch_port(b))
                   ? WEFT_PATH_PIX
                   : WEFT_PATH_PXB;
    int ports = share(a, b, 0) && !share(a, b, 1) && !share(a, top, 0);
    return ports ? WEFT_PATH_PIX : WEFT_PATH_PXB;
}

static int is_host_bridge(const struct weft_node *node)
{
    return node->kind == WEFT_NODE_BRIDGE && node->bridge == WEFT_BRIDGE_HOST;
}

/* At a NUMA node, or a host that is told without any. */
static enum weft_path_class classify_numa(const struct weft_graph *graph, const struct meeting *met)
{
    int given = 0;
    for (int side = 0; side < 2; side++)
        given += met->below[side] != WEFT_NODE_NONE && is_host_bridge(&graph->nodes[met->below[side]]);
    int both = met->below[0] != WEFT_NODE_NONE && met->below[1] != WEFT_NODE_NONE;
    return both && given ? WEFT_PATH_NODE : WEFT_PATH_PHB;
}

static int has_numa(const struct weft_graph *graph, uint32_t host)
{
    for (uint32_t child = weft_graph_first(graph, host); child != WEFT_NODE_NONE;
         child = graph->nodes[child].sibling_next) {
        if (graph->nodes[child].kind == WEFT_NODE_NUMA)
            return 1;
    }
    return 0;
}

/* A link of their own that carries, or WEFT_NODE_NONE. */
static uint32_t own_link(const struct weft_graph *graph, uint32_t a, uint32_t b)
{
    uint32_t count;
    if (graph->nodes[a].kind != WEFT_NODE_GPU) {
        uint32_t other = a;
        a = b;
        b = other;
    }
    if (graph->nodes[a].kind != WEFT_NODE_GPU)
        return WEFT_NODE_NONE;
    const uint32_t *edges = weft_graph_edges_of(graph, a, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (edge->kind == WEFT_EDGE_GPU_LINK && weft_edge_carries(edge) && weft_edge_other(edge, a) == b)
            return edges[i];
    }
    return WEFT_NODE_NONE;
}

enum weft_path_class weft_path_classify(const struct weft_graph *graph, uint32_t a, uint32_t b)
{
    a = stand_in(graph, a);
    b = stand_in(graph, b);
    const struct weft_node *nodes = graph->nodes;
    if (a == b)
        return WEFT_PATH_LOC;
    if (own_link(graph, a, b) != WEFT_NODE_NONE)
        return WEFT_PATH_NVL;
    if (nodes[a].host == WEFT_NODE_NONE || nodes[a].host != nodes[b].host)
        return weft_path_has_end(graph, a) && weft_path_has_end(graph, b) ? WEFT_PATH_NET : WEFT_PATH_DIS;
    struct meeting met = meet(graph, a, b);
    const struct weft_node *top = &nodes[met.node];
    int within = met.below[0] == WEFT_NODE_NONE || met.below[1] == WEFT_NODE_NONE;
    if (within && top->kind != WEFT_NODE_NUMA)
        return WEFT_PATH_LOC;
    if (nodes[a].kind != WEFT_NODE_BRIDGE && nodes[b].kind != WEFT_NODE_BRIDGE &&
        share(&nodes[a], &nodes[b], 1))
        return WEFT_PATH_PIX;
    if (top->kind == WEFT_NODE_HOST && has_numa(graph, met.node))
        return WEFT_PATH_SYS;
    if (top->kind == WEFT_NODE_HOST || top->kind == WEFT_NODE_NUMA)
        return classify_numa(graph, &met);
    return is_host_bridge(top) ? WEFT_PATH_PHB : classify_switch(graph, &met);
}

/* --- routes */

static int too_long(void)
{
    return weft_fail(WEFT_INVALID, "a path of more than %d edges", WEFT_PATH_EDGES_MAX);
}

static int append(struct weft_path *path, uint32_t edge)
{
    if (path->edge_count == WEFT_PATH_EDGES_MAX)
        return too_long();
    path->edges[path->edge_count++] = edge;
    return 0;
}

/* The edges from node up to an ancestor: a GPU that has a link of its own to one of its ancestors takes it. */
static int climb(const struct weft_graph *graph, uint32_t node, uint32_t top, struct weft_path *path)
{
    while (node != top) {
        uint32_t next = graph->nodes[node].parent, edge = graph->nodes[node].parent_edge;
        uint32_t numa = weft_graph_above(graph, node, WEFT_NODE_NUMA);
        if (graph->nodes[node].kind == WEFT_NODE_GPU && numa != WEFT_NODE_NONE &&
            weft_graph_depth(graph, numa) >= weft_graph_depth(graph, top)) {
            uint32_t link = own_link(graph, node, numa);
            next = link == WEFT_NODE_NONE ? next : numa;
            edge = link == WEFT_NODE_NONE ? edge : link;
        }
        if (append(path, edge) != 0)
            return WEFT_INVALID;
        node = next;
    }
    return 0;
}

static void turn_round(uint32_t *edges, uint32_t count)
{
    for (uint32_t i = 0; i + i + 1 < count; i++) {
        uint32_t edge = edges[i];
        edges[i] = edges[count - 1 - i];
        edges[count - 1 - i] = edge;
    }
}

/* The way between two NUMA nodes over the processors' links; over the host where none is told. */
static int cross(const struct weft_graph *graph, const struct meeting *met, struct weft_path *path)
{
    struct weft_way way = {.edges = path->edges + path->edge_count,
                           .edges_max = WEFT_PATH_EDGES_MAX - path->edge_count};
    int found = weft_path_search(graph, WEFT_EDGE_SOCKET, &met->below[0], 1, &met->below[1], 1, &way);
    if (found < 0)
        return found;
    if (found) {
        path->edge_count += way.edge_count;
        return 0;
    }
    int status = append(path, graph->nodes[met->below[0]].parent_edge);
    return status ? status : append(path, graph->nodes[met->below[1]].parent_edge);
}

/* The route between nodes of one host, behind what the path has. */
static int route_host(const struct weft_graph *graph, uint32_t a, uint32_t b, struct weft_path *path)
{
    uint32_t link = a == b ? WEFT_NODE_NONE : own_link(graph, a, b);
    if (link != WEFT_NODE_NONE)
        return append(path, link);
    struct meeting met = meet(graph, a, b);
    int numas = met.below[0] != WEFT_NODE_NONE && met.below[1] != WEFT_NODE_NONE &&
                graph->nodes[met.below[0]].kind == WEFT_NODE_NUMA &&
                graph->nodes[met.below[1]].kind == WEFT_NODE_NUMA;
    int status = climb(graph, a, numas ? met.below[0] : met.node, path);
    if (!status && numas)
        status = cross(graph, &met, path);
    uint32_t up = path->edge_count;
    if (!status)
        status = climb(graph, b, numas ? met.below[1] : met.node, path);
    if (!status)
        turn_round(path->edges + up, path->edge_count - up);
    return status;
}

/* Ranks and ports have no links themselves: the route goes to what they stand for and on from there. */
static int route(const struct weft_graph *graph, uint32_t a, uint32_t b, struct weft_path *path)
{
    uint32_t from = stand_in(graph, a), to = stand_in(graph, b);
    if (from == to || own_link(graph, from, to) == WEFT_NODE_NONE)
        return route_host(graph, a, b, path);
    int status = climb(graph, a, from, path);
    if (!status)
        status = append(path, own_link(graph, from, to));
    uint32_t up = path->edge_count;
    if (!status)
        status = climb(graph, b, to, path);
    if (!status)
        turn_round(path->edges + up, path->edge_count - up);
    return status;
}

/* 1: routed, 0: not joined. */
static int route_fabric(const struct weft_graph *graph, uint32_t a, uint32_t b, struct weft_path *path)
{
    uint32_t edges[WEFT_PATH_EDGES_MAX];
    struct weft_way way = {.edges = edges, .edges_max = WEFT_PATH_EDGES_MAX};
    int found = 0;
    for (int everything = 0; everything < 2 && found == 0; everything++) {
        struct weft_ends from = {0}, to = {0};
        found = weft_path_ends(graph, a, everything, &from);
        if (!found)
            found = weft_path_ends(graph, b, everything, &to);
        if (!found && from.count && to.count)
            found =
                weft_path_search(graph, WEFT_EDGE_FABRIC, from.nodes, from.count, to.nodes, to.count, &way);
        weft_path_ends_free(&from);
        weft_path_ends_free(&to);
    }
    if (found <= 0)
        return found;
    int status = a == way.from ? 0 : route(graph, a, way.from, path);
    for (uint32_t i = 0; i < way.edge_count && !status; i++)
        status = append(path, edges[i]);
    if (!status && b != way.to)
        status = route(graph, way.to, b, path);
    return status ? status : 1;
}

/* --- what a route carries */

/* Edges that no bytes are slowed by: those inside a device, or to where somebody sits. */
static int is_place(const struct weft_graph *graph, const struct weft_edge *edge)
{
    uint8_t kind = graph->nodes[edge->a].kind;
    return edge->flags & WEFT_EDGE_PARENT && edge->kind == WEFT_EDGE_LOCAL &&
           (kind == WEFT_NODE_PORT || kind == WEFT_NODE_CORE || kind == WEFT_NODE_RANK);
}

static void measure(const struct weft_graph *graph, struct weft_path *path)
{
    path->narrowest = WEFT_NODE_NONE;
    for (uint32_t i = 0; i < path->edge_count; i++) {
        const struct weft_edge *edge = &graph->edges[path->edges[i]];
        uint64_t rate = weft_path_hop_rate(graph, path->edges[i]);
        path->latency_ns += edge->latency_ns;
        if (!rate) {
            path->bandwidth_partly |= !is_place(graph, edge);
        } else if (path->narrowest == WEFT_NODE_NONE || rate < path->bytes_per_s) {
            path->bytes_per_s = rate;
            path->narrowest = path->edges[i];
        }
    }
}

static enum weft_direct judge(const struct weft_graph *graph, uint32_t a, uint32_t b,
                              enum weft_path_class path_class)
{
    const struct weft_node *one = &graph->nodes[stand_in(graph, a)];
    const struct weft_node *other = &graph->nodes[stand_in(graph, b)];
    int gpus = (one->kind == WEFT_NODE_GPU) + (other->kind == WEFT_NODE_GPU);
    int nics = 0;
    for (int side = 0; side < 2; side++) {
        uint8_t kind = side ? other->kind : one->kind;
        nics += kind == WEFT_NODE_NIC || kind == WEFT_NODE_PORT;
    }
    if (gpus != 1 || nics != 1 || path_class > WEFT_PATH_SYS)
        return WEFT_DIRECT_NO;
    if (path_class <= WEFT_PATH_PXB)
        return WEFT_DIRECT_SENSIBLE;
    if (graph->nodes[one->host].flags & WEFT_HOST_VIRTUAL)
        return WEFT_DIRECT_UNKNOWN;
    return path_class == WEFT_PATH_PHB ? WEFT_DIRECT_POSSIBLE : WEFT_DIRECT_NO;
}

int weft_path_find(const struct weft_graph *graph, uint32_t a, uint32_t b, struct weft_path *path)
{
    if (!graph->finished || a >= graph->node_count || b >= graph->node_count)
        return weft_fail(WEFT_INVALID, "a path between nodes %u and %u of %s graph of %u", a, b,
                         graph->finished ? "a" : "an unfinished", graph->node_count);
    struct weft_path found = {.path_class = weft_path_classify(graph, a, b), .narrowest = WEFT_NODE_NONE};
    int status = 0;
    if (found.path_class == WEFT_PATH_NET) {
        status = route_fabric(graph, a, b, &found);
        found.path_class = status == 0 ? WEFT_PATH_DIS : WEFT_PATH_NET;
    } else if (found.path_class != WEFT_PATH_DIS) {
        status = route(graph, a, b, &found);
    }
    if (status < 0)
        return status;
    measure(graph, &found);
    found.direct = judge(graph, a, b, found.path_class);
    *path = found;
    return 0;
}

/* --- words */

const char *weft_path_class_name(enum weft_path_class path_class)
{
    static const char *const names[WEFT_PATH_CLASS_COUNT] = {"LOC",  "NVL", "PIX", "PXB", "PHB",
                                                             "NODE", "SYS", "NET", "DIS"};
    return (unsigned)path_class < WEFT_PATH_CLASS_COUNT ? names[path_class] : "?";
}

const char *weft_path_class_text(enum weft_path_class path_class)
{
    static const char *const texts[WEFT_PATH_CLASS_COUNT] = {
        "the same device, or one within the other",
        "a link of their own (NVLink, xGMI, Xe Link, C2C), direct or through an NVSwitch",
        "at most one PCI switch between them",
        "several PCI switches, no host bridge",
        "a PCI host bridge: the processor's root complex",
        "several host bridges of one NUMA node",
        "the processors' links between NUMA nodes",
        "another host, over the fabric",
        "not joined as far as is known",
    };
    return (unsigned)path_class < WEFT_PATH_CLASS_COUNT ? texts[path_class] : "?";
}

const char *weft_direct_text(enum weft_direct direct)
{
    switch (direct) {
    case WEFT_DIRECT_NO:
        return "not sensible";
    case WEFT_DIRECT_UNKNOWN:
        return "unknown: the virtual machine hides what lies between";
    case WEFT_DIRECT_POSSIBLE:
        return "possible: the rate depends on the processor's root complex";
    case WEFT_DIRECT_SENSIBLE:
        return "sensible";
    }
    return "?";
}
