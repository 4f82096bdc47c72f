/* Fuzz target: NCCL's topology XML. What is read without complaint is a graph that keeps its own rules. */
#include <stdint.h>
#include <stdlib.h>
#include "topo/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_text text = {"fuzz.xml", (const char *)data, size};
    struct weft_graph *graph;
    if (weft_graph_new(text.name, "NCCL XML", &graph))
        return 0;
    if (weft_read_nccl(&text, graph) == 0 && weft_graph_finish(graph) == 0) {
        uint32_t degree;
        for (uint32_t n = 0; n < graph->node_count; n++)
            weft_graph_edges_of(graph, n, &degree);
    }
    weft_graph_free(graph);
    return 0;
}
