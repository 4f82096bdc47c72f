/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzz targets of fabrics' readers share: what is read obeys the graph's rules, edges join hosts and switches, and every
 * node is found from the roots. */
#ifndef WEFT_FUZZ_SWITCHES_H
#define WEFT_FUZZ_SWITCHES_H

#include <stddef.h>
#include <stdint.h>
#include "topo/read.h"

static inline int fuzz_switches(const uint8_t *data, size_t size, const char *format,
                                int (*read)(const struct weft_text *text, struct weft_graph *graph))
{
    struct weft_text text = {"fuzz", (const char *)data, size};
    struct weft_graph *graph;
    if (weft_graph_new(text.name, format, &graph))
        return 0;
    if (read(&text, graph) == 0 && weft_graph_finish(graph) == 0) {
        uint32_t below = 0;
        for (int kind = 0; kind < WEFT_NODE_KIND_COUNT; kind++)
            below += weft_graph_count_below(graph, WEFT_NODE_NONE, (enum weft_node_kind)kind);
        if (below != graph->node_count || !below)
            __builtin_trap();
        for (uint32_t i = 0; i < graph->edge_count; i++) {
            const struct weft_edge *edge = &graph->edges[i];
            if (edge->kind != WEFT_EDGE_FABRIC && edge->kind != WEFT_EDGE_LOCAL)
                __builtin_trap();
        }
    }
    weft_graph_free(graph);
    return 0;
}

#endif
