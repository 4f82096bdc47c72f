/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs hwloc */
/* Fuzz target: hwloc's XML. What is read obeys the graph's rules, and finding things in it ends. hwloc's own loader may end
 * the process that it is tried in (topo/discover/hwloc.c), and never this one.
 */
#include <stddef.h>
#include <stdint.h>
#include "topo/discover/discover.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    weft_discover_begin();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_text text = {"fuzz.xml", (const char *)data, size};
    struct weft_graph *graph;
    if (weft_graph_new(text.name, "hwloc XML", &graph))
        return 0;
    if (weft_read_hwloc(&text, graph) == 0 && weft_graph_finish(graph) == 0) {
        uint32_t below = 0;
        for (int kind = 0; kind < WEFT_NODE_KIND_COUNT; kind++)
            below += weft_graph_count_below(graph, WEFT_NODE_NONE, (enum weft_node_kind)kind);
        if (below != graph->node_count)
            __builtin_trap();
    }
    weft_graph_free(graph);
    return 0;
}
