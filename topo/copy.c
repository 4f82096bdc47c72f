/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/copy.h"

static int copy_attributes(const struct weft_graph *from, uint32_t node, struct weft_graph *to, uint32_t made)
{
    int status = 0;
    for (uint32_t i = from->nodes[node].attributes_first; i != WEFT_NODE_NONE && !status;
         i = from->attributes[i].next)
        status = weft_graph_set_attribute(to, made, from->attributes[i].name, from->attributes[i].value);
    return status;
}

int weft_copy_node(const struct weft_graph *from, uint32_t node, uint32_t parent, const char *name,
                   struct weft_graph *to, uint32_t *made)
{
    const struct weft_node *own = &from->nodes[node];
    const struct weft_edge *up = own->parent_edge == WEFT_NODE_NONE ? NULL : &from->edges[own->parent_edge];
    struct weft_node_given given = {
        .kind = (enum weft_node_kind)own->kind,
        .parent = parent,
        .name = name ? name : own->name,
        .pci = own->pci,
        .index = own->index,
        .rail = own->rail,
        .bridge = (enum weft_bridge)own->bridge,
        .state = (enum weft_port_state)own->state,
        .flags = own->flags,
        .guid = own->guid,
        .bytes_per_s = own->bytes_per_s,
        .parent_pci = up && up->kind == WEFT_EDGE_PCI,
        .parent_bytes_per_s = up ? up->bytes_per_s : 0,
        .parent_latency_ns = up ? up->latency_ns : 0,
    };
    int status = weft_graph_add_node(to, &given, made);
    if (status)
        return status;
    if (up) { /* what a reader may have set beyond what it told */
        struct weft_edge *edge = &to->edges[to->nodes[*made].parent_edge];
        edge->kind = up->kind;
        edge->flags = up->flags;
        edge->links = up->links;
    }
    return copy_attributes(from, node, to, *made);
}

int weft_copy_tree(const struct weft_graph *from, uint32_t root, const char *name, struct weft_graph *to,
                   uint32_t *new_of)
{
    int status = weft_copy_node(from, root, WEFT_NODE_NONE, name, to, &new_of[root]);
    for (uint32_t node = weft_graph_next(from, root, root); node != WEFT_NODE_NONE && !status;
         node = weft_graph_next(from, root, node))
        status = weft_copy_node(from, node, new_of[from->nodes[node].parent], NULL, to, &new_of[node]);
    return status;
}

int weft_copy_edges(const struct weft_graph *from, const uint32_t *new_of, const uint8_t *given,
                    struct weft_graph *to)
{
    int status = 0;
    for (uint32_t i = 0; i < from->edge_count && !status; i++) {
        struct weft_edge edge = from->edges[i];
        if (edge.flags & WEFT_EDGE_PARENT)
            continue;
        edge.a = new_of[edge.a];
        edge.b = new_of[edge.b];
        if (edge.a == WEFT_NODE_NONE || edge.b == WEFT_NODE_NONE || edge.a == edge.b)
            continue;
        if (edge.kind == WEFT_EDGE_FABRIC && given && given[edge.a] && given[edge.b])
            continue;
        status = weft_graph_add_edge(to, &edge, NULL);
    }
    return status;
}
