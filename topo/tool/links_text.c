/* SPDX-License-Identifier: Apache-2.0 */
/* Links of a host that containment does not show.
 *
 * A machine with eight GPUs has 28 pairs, mostly alike. Edges that look the same are said once: "every two of 8 GPUs" where
 * they join all pairs, else one line per first end: "gpu0 - gpu1, gpu2: xGMI, 50 GB/s a link".
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/tool.h"

struct links {
    uint32_t *edges; /* sorted by how they look, then by their ends, the smaller number first */
    uint32_t count;
};

static int is_link(const struct weft_graph *graph, uint32_t index, uint32_t host)
{
    const struct weft_edge *edge = &graph->edges[index];
    return (edge->kind == WEFT_EDGE_GPU_LINK || edge->kind == WEFT_EDGE_SOCKET) &&
           graph->nodes[edge->a].host == host && graph->nodes[edge->b].host == host;
}

static uint32_t low_end(const struct weft_edge *edge)
{
    return edge->a < edge->b ? edge->a : edge->b;
}

#define ORDER(x, y)                                                                                          \
    if ((x) != (y))                                                                                          \
    return (x) < (y) ? -1 : 1

/* Whether two edges look the same, and in which order they stand if not. */
static int look_compare(const struct weft_edge *x, const struct weft_edge *y)
{
    ORDER(x->kind, y->kind);
    ORDER(x->flags, y->flags);
    ORDER(y->links, x->links);
    ORDER(y->bytes_per_s, x->bytes_per_s);
    return 0;
}

static int edge_compare(const void *a, const void *b, void *context)
{
    const struct weft_graph *graph = context;
    const struct weft_edge *x = &graph->edges[*(const uint32_t *)a], *y = &graph->edges[*(const uint32_t *)b];
    int look = look_compare(x, y);
    if (look)
        return look;
    ORDER(low_end(x), low_end(y));
    ORDER(weft_edge_other(x, low_end(x)), weft_edge_other(y, low_end(y)));
    return 0;
}

/* Counts the host's links, and notes them where there is room; each at its end of smaller number, so once. */
static void links_collect(const struct weft_graph *graph, uint32_t host, struct links *links)
{
    static const enum weft_node_kind ends[] = {WEFT_NODE_NUMA, WEFT_NODE_GPU, WEFT_NODE_NIC};
    links->count = 0;
    for (size_t kind = 0; kind < sizeof ends / sizeof *ends; kind++) {
        for (uint32_t node = weft_graph_next_below(graph, host, ends[kind], WEFT_NODE_NONE);
             node != WEFT_NODE_NONE; node = weft_graph_next_below(graph, host, ends[kind], node)) {
            uint32_t count;
            const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
            for (uint32_t i = 0; i < count; i++) {
                if (!is_link(graph, edges[i], host) || low_end(&graph->edges[edges[i]]) != node)
                    continue;
                if (links->edges)
                    links->edges[links->count] = edges[i];
                links->count++;
            }
        }
    }
}

static int links_find(const struct weft_graph *graph, uint32_t host, struct links *links)
{
    links->edges = NULL;
    links_collect(graph, host, links);
    links->edges = malloc(((size_t)links->count + 1) * sizeof *links->edges);
    if (!links->edges)
        return weft_fail(WEFT_NOMEM, "no memory to print %" PRIu32 " links", links->count);
    links_collect(graph, host, links);
    qsort_r(links->edges, links->count, sizeof *links->edges, edge_compare, (void *)graph);
    return WEFT_OK;
}

static void node_put(const struct weft_graph *graph, uint32_t index, FILE *file)
{
    const struct weft_node *node = &graph->nodes[index];
    if (node->kind == WEFT_NODE_NUMA && node->index >= 0)
        fprintf(file, "NUMA node %" PRId32, node->index);
    else
        weft_topo_put(file, node->name);
}

/* ": NVLink x12 through NVSwitch, 25 GB/s a link" */
static void look_put(const struct weft_edge *edge, FILE *file)
{
    char text[WEFT_TOPO_EDGE_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE];
    const char *kind = weft_topo_edge(edge, text);
    if (edge->kind == WEFT_EDGE_SOCKET) /* both ends say so */
        kind = edge->links > 1 ? kind : "processor link";
    if (edge->bytes_per_s)
        fprintf(file, ": %s, %s%s\n", kind, weft_topo_rate(edge->bytes_per_s, rate),
                edge->links > 1 ? " a link" : "");
    else
        fprintf(file, ": %s, rate unknown\n", kind);
}

/* Whether the edges, alike, join every two of the host's nodes of one kind, each pair once. */
static uint32_t joins_all(const struct weft_graph *graph, uint32_t host, const uint32_t *edges,
                          uint32_t count)
{
    const struct weft_edge *first = &graph->edges[edges[0]];
    enum weft_node_kind kind = (enum weft_node_kind)graph->nodes[first->a].kind;
    uint64_t nodes = weft_graph_count_below(graph, host, kind);
    if (nodes < 3 || count != nodes * (nodes - 1) / 2)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (graph->nodes[edge->a].kind != kind || graph->nodes[edge->b].kind != kind)
            return 0;
        if (i && low_end(edge) == low_end(&graph->edges[edges[i - 1]]) &&
            weft_edge_other(edge, low_end(edge)) ==
                weft_edge_other(&graph->edges[edges[i - 1]], low_end(edge)))
            return 0;
    }
    return (uint32_t)nodes;
}

static void alike_put(const struct weft_graph *graph, uint32_t host, const uint32_t *edges, uint32_t count,
                      FILE *file)
{
    uint32_t all = joins_all(graph, host, edges, count);
    if (all) {
        const struct weft_edge *first = &graph->edges[edges[0]];
        fprintf(file, "  every two of the %" PRIu32 " %s", all,
                graph->nodes[first->a].kind == WEFT_NODE_NUMA ? "NUMA nodes" : "GPUs");
        look_put(first, file);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        uint32_t low = low_end(edge);
        int more = i > 0 && low_end(&graph->edges[edges[i - 1]]) == low;
        if (!more) {
            fprintf(file, "  ");
            node_put(graph, low, file);
        }
        fprintf(file, more ? ", " : " - ");
        node_put(graph, weft_edge_other(edge, low), file);
        if (i + 1 == count || low_end(&graph->edges[edges[i + 1]]) != low)
            look_put(edge, file);
    }
}

int weft_topo_links_text(const struct weft_graph *graph, uint32_t host, FILE *file)
{
    struct links links;
    int status = links_find(graph, host, &links);
    if (status != WEFT_OK)
        return status;
    for (uint32_t first = 0, end; first < links.count; first = end) {
        for (end = first + 1; end < links.count && look_compare(&graph->edges[links.edges[first]],
                                                                &graph->edges[links.edges[end]]) == 0;)
            end++;
        alike_put(graph, host, links.edges + first, end - first, file);
    }
    free(links.edges);
    return WEFT_OK;
}
