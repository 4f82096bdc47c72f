/* SPDX-License-Identifier: Apache-2.0 */
/* Copies parts of a finished graph into one being built. Where a copy fails the new graph is half filled: drop it. */
#ifndef WEFT_TOPO_COPY_H
#define WEFT_TOPO_COPY_H

#include "topo/graph/graph.h"

/* One node with its attributes and the edge to its parent, a node of `to`. name NULL: its own. */
int weft_copy_node(const struct weft_graph *from, uint32_t node, uint32_t parent, const char *name,
                   struct weft_graph *to, uint32_t *made);

/* A root with all below it; new_of, by nodes of `from`, gets the copies. */
int weft_copy_tree(const struct weft_graph *from, uint32_t root, const char *name, struct weft_graph *to,
                   uint32_t *new_of);

/* Edges beside those of the tree, where both ends have a copy (new_of; else WEFT_NODE_NONE); but no cable between two
 * nodes of `to` that are `told` already, NULL: none is. */
int weft_copy_edges(const struct weft_graph *from, const uint32_t *new_of, const uint8_t *given,
                    struct weft_graph *to);

#endif
