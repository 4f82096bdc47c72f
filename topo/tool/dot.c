/* SPDX-License-Identifier: Apache-2.0 */
/* A graph in Graphviz's language (graphviz.org/doc/info/lang.html).
 *
 * A host of which more is known than its cables is a cluster, with a cluster for each NUMA node in it and nodes for what
 * leads to GPUs and NICs. Where hosts are many, or nothing else is known of one, a host is one node. Switches of one
 * tier are on one rank, tiers from the top down. Ports are not drawn: cables end at their NIC, or at the host where that is
 * one node. Equal edges between the same two nodes are one that says how many. Names of things are in labels only; identifiers
 * are "n" and the place of the node in depth-first order of sorted names, so that equal graphs give equal text.
 */
#include "topo/tool/tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/natural.h"
#include "topo/tool/draw_fabric.h"

enum { CLUSTERS_MAX = 64 };

struct dot_edge {
    uint32_t upper, lower; /* numbers of nodes */
    uint32_t flags, kind;
    uint64_t links, bytes_per_s;
};

struct dot {
    const struct weft_graph *graph;
    const struct draw_fabric *fabric;
    struct draw_sheet *sheet; /* memory */
    FILE *out;
    uint32_t *order, count; /* nodes, parents before children, siblings sorted */
    uint32_t *number;       /* by node: its place in that order */
    uint32_t *drawn;        /* by node: the node that stands for it */
    uint32_t *below;        /* by node: GPUs and NICs at it and below */
    struct dot_edge *edges;
    uint32_t edge_count;
    int whole; /* hosts are clusters */
};

/* In a quoted string: quotes and backslashes get a backslash in front. */
static void put_text(FILE *out, const char *text)
{
    while (*text) {
        char one[4];
        size_t length = weft_topo_clean_one(&text, one);
        if (one[0] == '"' || one[0] == '\\')
            putc('\\', out);
        fwrite(one, 1, length, out);
    }
}

struct sorted {
    uint32_t node;
    const struct weft_node *given;
};

static int by_name(const void *a, const void *b)
{
    const struct weft_node *p = ((const struct sorted *)a)->given, *q = ((const struct sorted *)b)->given;
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    if (p->index != q->index)
        return p->index < q->index ? -1 : 1;
    return weft_natural_compare(p->name, q->name);
}

/* Depth first with a stack of what is still to come: children are pushed from the last to the first, so that the first is
 * taken next. */
static void sort_nodes(struct dot *dot)
{
    const struct weft_graph *graph = dot->graph;
    size_t room = (size_t)graph->node_count + 1;
    struct sorted *children = draw_alloc(dot->sheet, room * sizeof *children);
    uint32_t *stack = draw_alloc(dot->sheet, room * sizeof *stack), height = 0, parent = WEFT_NODE_NONE;
    while (!dot->sheet->failed) {
        uint32_t count = 0;
        for (uint32_t n = weft_graph_first(graph, parent); n != WEFT_NODE_NONE;
             n = graph->nodes[n].sibling_next)
            children[count++] = (struct sorted){n, &graph->nodes[n]};
        if (count > 1)
            qsort(children, count, sizeof *children, by_name);
        while (count > 0)
            stack[height++] = children[--count].node;
        if (height == 0)
            return;
        parent = stack[--height];
        dot->number[parent] = dot->count;
        dot->order[dot->count++] = parent;
    }
}

static int is_cluster(const struct dot *dot, uint32_t n)
{
    const struct weft_node *node = &dot->graph->nodes[n];
    if (node->kind == WEFT_NODE_NUMA)
        return node->parent != WEFT_NODE_NONE && dot->graph->nodes[node->parent].kind == WEFT_NODE_HOST &&
               is_cluster(dot, node->parent);
    if (node->kind != WEFT_NODE_HOST || !dot->whole)
        return 0;
    return dot->fabric->switch_count == 0 ||
           weft_graph_next_below(dot->graph, n, WEFT_NODE_GPU, WEFT_NODE_NONE) != WEFT_NODE_NONE ||
           weft_graph_next_below(dot->graph, n, WEFT_NODE_NUMA, WEFT_NODE_NONE) != WEFT_NODE_NONE;
}

/* What stands for each node: itself, or what it is a part of. */
static void choose_nodes(struct dot *dot)
{
    const struct weft_graph *graph = dot->graph;
    uint32_t hosts = 0, host = WEFT_NODE_NONE;
    int open = 0;
    for (uint32_t i = dot->count; i-- > 0;) {
        const struct weft_node *node = &graph->nodes[dot->order[i]];
        dot->below[dot->order[i]] += node->kind == WEFT_NODE_GPU || node->kind == WEFT_NODE_NIC;
        hosts += node->kind == WEFT_NODE_HOST;
        if (node->parent != WEFT_NODE_NONE)
            dot->below[node->parent] += dot->below[dot->order[i]];
    }
    dot->whole = hosts <= CLUSTERS_MAX;
    for (uint32_t i = 0; i < dot->count; i++) {
        uint32_t n = dot->order[i];
        const struct weft_node *node = &graph->nodes[n];
        if (node->kind == WEFT_NODE_HOST) {
            host = n;
            open = is_cluster(dot, host);
        }
        int own =
            node->parent == WEFT_NODE_NONE ||
            (open && (node->kind == WEFT_NODE_NUMA || node->kind == WEFT_NODE_GPU ||
                      node->kind == WEFT_NODE_NIC || (node->kind == WEFT_NODE_BRIDGE && dot->below[n] > 0)));
        dot->drawn[n] = own ? n : dot->drawn[node->parent];
    }
}

/* Higher tiers come first, hosts last; within a host, what was told first. */
static int is_upper(const struct dot *dot, uint32_t a, uint32_t b)
{
    uint32_t at_a = dot->fabric->switch_of[a], at_b = dot->fabric->switch_of[b];
    int64_t tier_a = at_a == WEFT_NODE_NONE ? -1 : (int64_t)dot->fabric->switches[at_a].tier;
    int64_t tier_b = at_b == WEFT_NODE_NONE ? -1 : (int64_t)dot->fabric->switches[at_b].tier;
    return tier_a != tier_b ? tier_a > tier_b : dot->number[a] < dot->number[b];
}

static int compare_edges(const struct dot_edge *p, const struct dot_edge *q)
{
    if (p->upper != q->upper)
        return p->upper < q->upper ? -1 : 1;
    if (p->lower != q->lower)
        return p->lower < q->lower ? -1 : 1;
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    if (p->flags != q->flags)
        return p->flags < q->flags ? -1 : 1;
    return (p->bytes_per_s > q->bytes_per_s) - (p->bytes_per_s < q->bytes_per_s);
}

static int by_ends(const void *a, const void *b)
{
    return compare_edges(a, b);
}

static void collect_edges(struct dot *dot)
{
    const struct weft_graph *graph = dot->graph;
    uint32_t kept = 0;
    dot->edges = draw_alloc(dot->sheet, ((size_t)graph->edge_count + 1) * sizeof *dot->edges);
    if (!dot->edges)
        return;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct weft_edge *edge = &graph->edges[e];
        uint32_t a = dot->drawn[edge->a], b = dot->drawn[edge->b];
        if (a == b)
            continue;
        if (!is_upper(dot, a, b)) {
            uint32_t c = a;
            a = b;
            b = c;
        }
        uint64_t rate = edge->bytes_per_s;
        if (!rate && edge->kind == WEFT_EDGE_FABRIC) {
            const struct weft_node *p = &graph->nodes[edge->a], *q = &graph->nodes[edge->b];
            rate = p->kind == WEFT_NODE_PORT   ? p->bytes_per_s
                   : q->kind == WEFT_NODE_PORT ? q->bytes_per_s
                                               : 0;
        }
        dot->edges[dot->edge_count++] =
            (struct dot_edge){dot->number[a], dot->number[b], edge->flags & ~(unsigned)WEFT_EDGE_PARENT,
                              edge->kind,     edge->links,    rate};
    }
    if (dot->edge_count)
        qsort(dot->edges, dot->edge_count, sizeof *dot->edges, by_ends);
    for (uint32_t i = 0; i < dot->edge_count; i++) {
        if (kept && compare_edges(&dot->edges[kept - 1], &dot->edges[i]) == 0)
            dot->edges[kept - 1].links += dot->edges[i].links;
        else
            dot->edges[kept++] = dot->edges[i];
    }
    dot->edge_count = kept;
}

static void put_node(const struct dot *dot, uint32_t n)
{
    static const char *const looks[WEFT_NODE_KIND_COUNT] = {
        [WEFT_NODE_HOST] = "shape=box, style=filled, fillcolor=\"#f1f3f5\"",
        [WEFT_NODE_NUMA] = "shape=box, style=filled, fillcolor=\"#eef2f6\"",
        [WEFT_NODE_BRIDGE] = "shape=box, style=filled, fillcolor=\"#fffdf5\"",
        [WEFT_NODE_GPU] = "shape=box, style=filled, fillcolor=\"#d6efd2\"",
        [WEFT_NODE_NIC] = "shape=box, style=filled, fillcolor=\"#d4e6fa\"",
        [WEFT_NODE_SWITCH] = "shape=box, style=filled, fillcolor=\"#e7e0f5\"",
    };
    const struct weft_node *node = &dot->graph->nodes[n];
    fprintf(dot->out, "n%" PRIu32 " [label=\"", dot->number[n]);
    put_text(dot->out, node->name);
    if (node->pci && strcmp(node->pci, node->name) != 0) {
        fputs("\\n", dot->out);
        put_text(dot->out, node->pci);
    }
    for (uint32_t i = dot->number[n] + 1; node->kind == WEFT_NODE_NIC && i < dot->count; i++) {
        const struct weft_node *port = &dot->graph->nodes[dot->order[i]];
        char rate[WEFT_TOPO_AMOUNT_SIZE];
        if (port->parent != n)
            break;
        if (port->kind != WEFT_NODE_PORT)
            continue;
        fputs("\\nport", dot->out);
        if (port->index >= 0)
            fprintf(dot->out, " %" PRId32, port->index);
        fprintf(dot->out, ": %s",
                port->state == WEFT_PORT_DOWN ? "down" : weft_topo_bits(port->bytes_per_s, rate));
    }
    const char *look = looks[node->kind] ? looks[node->kind] : "shape=box";
    fprintf(dot->out, "\", %s];\n", look);
}

static void open_cluster(const struct dot *dot, uint32_t n)
{
    fprintf(dot->out, "subgraph cluster_n%" PRIu32 " {\nlabel=\"", dot->number[n]);
    put_text(dot->out, dot->graph->nodes[n].name);
    fputs("\";\n", dot->out);
}

/* The list has everything of a host behind it and everything of a NUMA node behind that, so clusters nest by themselves. */
static void put_nodes(const struct dot *dot)
{
    const struct weft_graph *graph = dot->graph;
    int host_open = 0, numa_open = 0;
    for (uint32_t i = 0; i < dot->count; i++) {
        uint32_t n = dot->order[i];
        const struct weft_node *node = &graph->nodes[n];
        int is_root = node->parent == WEFT_NODE_NONE,
            in_host = !is_root && graph->nodes[node->parent].kind == WEFT_NODE_HOST;
        if (numa_open && (is_root || in_host)) {
            fputs("}\n", dot->out);
            numa_open = 0;
        }
        if (host_open && is_root) {
            fputs("}\n", dot->out);
            host_open = 0;
        }
        if (is_cluster(dot, n)) {
            open_cluster(dot, n);
            host_open |= is_root;
            numa_open |= !is_root;
        }
        if (dot->drawn[n] == n)
            put_node(dot, n);
    }
    fputs(numa_open ? "}\n" : "", dot->out);
    fputs(host_open ? "}\n" : "", dot->out);
}

static void put_edge(const struct dot *dot, const struct dot_edge *edge)
{
    static const char *const colours[WEFT_EDGE_KIND_COUNT] = {[WEFT_EDGE_LOCAL] = "#8c99a8",
                                                              [WEFT_EDGE_PCI] = "#8a7a45",
                                                              [WEFT_EDGE_SOCKET] = "#64748b",
                                                              [WEFT_EDGE_GPU_LINK] = "#3d8b37",
                                                              [WEFT_EDGE_FABRIC] = "#6f4fb3"};
    char rate[WEFT_TOPO_AMOUNT_SIZE];
    fprintf(dot->out, "n%" PRIu32 " -- n%" PRIu32 " [color=\"%s\"", edge->upper, edge->lower,
            colours[edge->kind]);
    if (edge->kind == WEFT_EDGE_LOCAL) {
        fputs("];\n", dot->out);
        return;
    }
    fputs(", label=\"", dot->out);
    if (edge->links > 1)
        fprintf(dot->out, "%" PRIu64 " x ", edge->links);
    fputs(edge->bytes_per_s == 0           ? "?"
          : edge->kind == WEFT_EDGE_FABRIC ? weft_topo_bits(edge->bytes_per_s, rate)
                                           : weft_topo_rate(edge->bytes_per_s, rate),
          dot->out);
    fprintf(dot->out, "\"%s];\n",
            edge->flags & WEFT_EDGE_DOWN                                         ? ", style=dashed"
            : edge->kind == WEFT_EDGE_GPU_LINK || edge->kind == WEFT_EDGE_SOCKET ? ", constraint=false"
                                                                                 : "");
}

/* Switches are sorted by tier; those with no way to a host are left where they fall. */
static void put_ranks(const struct dot *dot)
{
    const struct draw_fabric *fabric = dot->fabric;
    for (uint32_t i = 0; i < fabric->switch_count; i++) {
        uint32_t tier = fabric->switches[i].tier;
        if (i == 0 || fabric->switches[i - 1].tier != tier)
            fputs("{ rank=same;", dot->out);
        fprintf(dot->out, " n%" PRIu32 ";", dot->number[fabric->switches[i].node]);
        if (i + 1 == fabric->switch_count || fabric->switches[i + 1].tier != tier)
            fputs(" }\n", dot->out);
    }
}

int weft_topo_dot(const struct weft_graph *graph, FILE *file)
{
    struct draw_sheet sheet = {0};
    struct dot dot = {.graph = graph, .sheet = &sheet, .out = file};
    size_t room = (size_t)graph->node_count + 1;
    dot.fabric = draw_fabric_new(&sheet, graph);
    dot.order = draw_alloc(&sheet, room * sizeof *dot.order);
    dot.number = draw_alloc(&sheet, room * sizeof *dot.number);
    dot.drawn = draw_alloc(&sheet, room * sizeof *dot.drawn);
    dot.below = draw_alloc(&sheet, room * sizeof *dot.below);
    if (!sheet.failed)
        sort_nodes(&dot);
    if (!sheet.failed) {
        choose_nodes(&dot);
        collect_edges(&dot);
    }
    if (!sheet.failed) {
        fputs("graph weft {\nnode [fontname=\"sans-serif\", fontsize=10];\nedge [fontname=\"sans-serif\", "
              "fontsize=9];\n",
              file);
        fputs("label=\"", file);
        put_text(file, graph->source ? graph->source : "");
        fputs("\";\n", file);
        put_nodes(&dot);
        put_ranks(&dot);
        for (uint32_t i = 0; i < dot.edge_count; i++)
            put_edge(&dot, &dot.edges[i]);
        fputs("}\n", file);
    }
    int failed = sheet.failed;
    draw_sheet_free(&sheet);
    return failed ? weft_fail(WEFT_NOMEM, "the graph of %" PRIu32 " nodes", graph->node_count) : 0;
}
