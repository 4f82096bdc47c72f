#include "topo/tool/copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* --- names of roots -------------------------------------------------------------------------------------- */

struct names {
    const char **sorted;
    uint32_t count;
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static uint32_t root_count(const struct weft_graph *graph)
{
    uint32_t count = 0;
    for (uint32_t at = weft_graph_first(graph, WEFT_NODE_NONE); at != WEFT_NODE_NONE;
         at = graph->nodes[at].sibling_next)
        count++;
    return count;
}

static void names_take(struct names *names, const struct weft_graph *graph)
{
    for (uint32_t at = weft_graph_first(graph, WEFT_NODE_NONE); at != WEFT_NODE_NONE;
         at = graph->nodes[at].sibling_next)
        names->sorted[names->count++] = graph->nodes[at].name;
}

/* The names of both graphs' roots. Strings stay the graphs'. */
static int names_make(struct names *names, const struct weft_graph *from, const struct weft_graph *to)
{
    names->count = 0;
    names->sorted = malloc(((size_t)root_count(from) + root_count(to) + 1) * sizeof *names->sorted);
    if (!names->sorted)
        return weft_fail(WEFT_NOMEM, "no memory for the names of hosts");
    names_take(names, to);
    names_take(names, from);
    qsort(names->sorted, names->count, sizeof *names->sorted, compare);
    return WEFT_OK;
}

/* How many roots have the name: 0, 1 or 2, as either graph's are unique. */
static int names_having(const struct names *names, const char *name)
{
    const char **found = bsearch(&name, names->sorted, names->count, sizeof *names->sorted, compare);
    if (!found)
        return 0;
    size_t at = (size_t)(found - names->sorted);
    return (at > 0 && strcmp(found[-1], name) == 0) || (at + 1 < names->count && strcmp(found[1], name) == 0)
               ? 2
               : 1;
}

/* A name of which neither graph has a root: `free` when `name` is taken in `to` as well as in `from`. */
static int name_choose(const struct names *names, const char *name, char free_name[WEFT_NAME_SIZE_MAX])
{
    snprintf(free_name, WEFT_NAME_SIZE_MAX, "%s", name);
    if (names_having(names, name) < 2)
        return WEFT_OK;
    for (uint32_t number = 2; number <= names->count + 2; number++) {
        int length = snprintf(free_name, WEFT_NAME_SIZE_MAX, "%s-%" PRIu32, name, number);
        if (length >= WEFT_NAME_SIZE_MAX)
            break;
        if (names_having(names, free_name) == 0)
            return WEFT_OK;
    }
    return weft_fail(WEFT_INVALID, "host '%.200s' is described twice, and has no shorter name", name);
}

/* --- nodes and edges ------------------------------------------------------------------------------------- */

static int node_copy(const struct weft_graph *from, uint32_t index, const char *name, uint32_t parent,
                     struct weft_graph *to, uint32_t *copy)
{
    const struct weft_node *node = &from->nodes[index];
    struct weft_node_told told = {.kind = (enum weft_node_kind)node->kind,
                                  .parent = parent,
                                  .name = name,
                                  .pci = node->pci,
                                  .index = node->index,
                                  .rail = node->rail,
                                  .bridge = (enum weft_bridge)node->bridge,
                                  .state = (enum weft_port_state)node->state,
                                  .flags = node->flags,
                                  .guid = node->guid,
                                  .bytes_per_s = node->bytes_per_s};
    if (parent != WEFT_NODE_NONE && node->parent_edge != WEFT_NODE_NONE) {
        const struct weft_edge *edge = &from->edges[node->parent_edge];
        told.parent_pci = edge->kind == WEFT_EDGE_PCI;
        told.parent_bytes_per_s = edge->bytes_per_s;
        told.parent_latency_ns = edge->latency_ns;
    }
    int status = weft_graph_add_node(to, &told, copy);
    for (uint32_t at = node->attributes_first; status == WEFT_OK && at != WEFT_NODE_NONE;
         at = from->attributes[at].next)
        status = weft_graph_set_attribute(to, *copy, from->attributes[at].name, from->attributes[at].value);
    return status;
}

/* Parents have smaller numbers than their children, and siblings stand in the order of their numbers. */
static int nodes_copy(const struct weft_graph *from, uint32_t host, const struct names *names,
                      struct weft_graph *to, uint32_t *copies)
{
    char name[WEFT_NAME_SIZE_MAX];
    for (uint32_t i = 0; i < from->node_count; i++) {
        const struct weft_node *node = &from->nodes[i];
        uint32_t parent = node->parent == WEFT_NODE_NONE ? WEFT_NODE_NONE : copies[node->parent];
        copies[i] = WEFT_NODE_NONE;
        if (host != WEFT_NODE_NONE && node->host != host)
            continue;
        const char *called = node->name;
        int status = WEFT_OK;
        if (node->parent == WEFT_NODE_NONE) {
            status = name_choose(names, node->name, name);
            called = name;
        }
        if (status == WEFT_OK)
            status = node_copy(from, i, called, parent, to, &copies[i]);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static int edges_copy(const struct weft_graph *from, struct weft_graph *to, const uint32_t *copies)
{
    for (uint32_t i = 0; i < from->edge_count; i++) {
        struct weft_edge edge = from->edges[i];
        uint32_t made;
        if (edge.flags & WEFT_EDGE_PARENT || copies[edge.a] == WEFT_NODE_NONE ||
            copies[edge.b] == WEFT_NODE_NONE)
            continue;
        edge.a = copies[edge.a];
        edge.b = copies[edge.b];
        int status = weft_graph_add_edge(to, &edge, &made);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

int weft_topo_copy(const struct weft_graph *from, uint32_t host, struct weft_graph *to)
{
    struct names names;
    int status = names_make(&names, from, to);
    if (status != WEFT_OK)
        return status;
    uint32_t *copies = malloc(((size_t)from->node_count + 1) * sizeof *copies);
    if (!copies)
        status = weft_fail(WEFT_NOMEM, "no memory to copy %" PRIu32 " nodes", from->node_count);
    if (status == WEFT_OK)
        status = nodes_copy(from, host, &names, to, copies);
    if (status == WEFT_OK)
        status = edges_copy(from, to, copies);
    free(copies);
    free(names.sorted);
    return status;
}
