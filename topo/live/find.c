/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes for what discovery is told of. */
#include <string.h>
#include "topo/live/live.h"

uint32_t weft_live_find(const struct weft_graph *graph, enum weft_node_kind kind, const char *pci)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct weft_node *node = &graph->nodes[i];
        if (node->kind == kind && node->pci && strcmp(node->pci, pci) == 0)
            return i;
    }
    return WEFT_NODE_NONE;
}
