/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: synthetic texts. What is accepted is as large as it said it would be. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "topo/files/synthetic.h"

#define SMALL 20000 /* hosts' devices that are built on every run */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_text text = {"input", (const char *)data, size};
    struct weft_synthetic asked;
    struct weft_graph *graph;
    if (weft_synthetic_parse(&text, &asked) != 0)
        return 0;
    if ((uint64_t)asked.hosts * (asked.gpus + asked.nics + asked.numas + asked.cores) > SMALL ||
        (uint64_t)asked.leaves * asked.spines > SMALL)
        return 0;
    if (weft_graph_new("input", "synthetic", &graph) != 0)
        return 0;
    if (weft_synthetic_build(graph, &asked) != 0 || weft_graph_finish(graph) != 0)
        __builtin_trap();
    if (weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST) != asked.hosts ||
        weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_PORT) != asked.hosts * asked.nics ||
        graph->node_count > WEFT_SYNTHETIC_NODES_MAX || graph->edge_count > WEFT_SYNTHETIC_EDGES_MAX)
        __builtin_trap();
    weft_graph_free(graph);
    return 0;
}
