/* SPDX-License-Identifier: Apache-2.0 */
/* Building a graph: nodes, edges, attributes, their strings, and the adjacency.
 *
 * Strings lie in chunks that are never moved, so that pointers to them last as long as the graph. Nodes, edges and
 * attributes are arrays that double. A node's parent exists before it, so the forest has no cycles by construction and
 * what can stand below what is checked at once; what can only be known at the end (names unique among siblings) is
 * checked by weft_graph_finish(), by sorting: hashing could be driven into its worst case by a file made for it.
 */
#include "topo/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define CHUNK_BYTES          ((size_t)64 << 10)
#define NODE_ATTRIBUTES_MAX  256 /* of one node: setting one looks through all of them */
#define ATTRIBUTES_TOTAL_MAX (1u << 26)

struct chunk {
    struct chunk *next;
    size_t used, size;
    char bytes[];
};

struct weft_graph_room {
    struct chunk *chunks; /* the first has room */
    uint32_t node_room, edge_room, attribute_room;
};

static int no_memory(void)
{
    return weft_fail(WEFT_NOMEM, "no memory for the topology graph");
}

static int still_open(const struct weft_graph *graph)
{
    return graph->finished ? weft_fail(WEFT_INVALID, "the graph is finished: thaw it first") : 0;
}

/* --- strings */

static char *take_bytes(struct weft_graph *graph, size_t size)
{
    struct weft_graph_room *room = graph->room;
    struct chunk *first = room->chunks;
    if (!first || first->size - first->used < size) {
        size_t bytes = size > CHUNK_BYTES / 4 ? size : CHUNK_BYTES;
        struct chunk *chunk = malloc(sizeof *chunk + bytes);
        if (!chunk)
            return NULL;
        chunk->used = 0;
        chunk->size = bytes;
        /* A large string's own chunk goes behind the first, whose room stays in use. */
        struct chunk **at = first && bytes == size ? &first->next : &room->chunks;
        chunk->next = *at;
        *at = first = chunk;
    }
    char *bytes = first->bytes + first->used;
    first->used += size;
    return bytes;
}

const char *weft_graph_string(struct weft_graph *graph, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = take_bytes(graph, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* A copy that every output can show. */
static const char *clean_string(struct weft_graph *graph, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = take_bytes(graph, size);
    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    weft_text_clean(copy);
    return copy;
}

static int check_name(const char *name)
{
    if (!name || !*name)
        return weft_fail(WEFT_INVALID, "a node without a name");
    if (strlen(name) >= WEFT_NAME_SIZE_MAX)
        return weft_fail(WEFT_INVALID, "the name \"%.40s...\" has %zu bytes, at most %d are expected", name,
                         strlen(name), WEFT_NAME_SIZE_MAX - 1);
    return 0;
}

/* --- the graph */

int weft_graph_new(const char *source, const char *format, struct weft_graph **graph)
{
    struct weft_graph *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory();
    made->room = calloc(1, sizeof *made->room);
    if (!made->room)
        goto free_graph;
    made->first_root = made->last_root = WEFT_NODE_NONE;
    made->source = clean_string(made, source ? source : "");
    made->format = made->source ? clean_string(made, format ? format : "") : NULL;
    if (!made->format)
        goto free_graph;
    *graph = made;
    return 0;
free_graph:
    weft_graph_free(made);
    return no_memory();
}

void weft_graph_free(struct weft_graph *graph)
{
    if (!graph)
        return;
    struct chunk *chunk = graph->room ? graph->room->chunks : NULL;
    while (chunk) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    free(graph->room);
    free(graph->nodes);
    free(graph->edges);
    free(graph->attributes);
    free(graph->incident);
    free(graph);
}

/* Room for one more in an array of `count`. */
static int grow(void **array, uint32_t count, uint32_t *room, size_t item, uint32_t most, const char *what)
{
    if (count < *room)
        return 0;
    if (count >= most)
        return weft_fail(WEFT_INVALID, "more than %u %s, the most that a graph holds", most, what);
    uint32_t more = *room ? *room * 2 : 64;
    if (more > most)
        more = most;
    void *grown = realloc(*array, more * item);
    if (!grown)
        return no_memory();
    *array = grown;
    *room = more;
    return 0;
}

/* --- nodes */

#define KIND(k) (1u << WEFT_NODE_##k)
#define PLACES  (KIND(HOST) | KIND(NUMA) | KIND(BRIDGE))

/* What a node of each kind may stand below; 0: it is a root. */
static const unsigned parents_of[WEFT_NODE_KIND_COUNT] = {
    [WEFT_NODE_HOST] = 0,
    [WEFT_NODE_NUMA] = KIND(HOST),
    [WEFT_NODE_CORE] = KIND(HOST) | KIND(NUMA),
    [WEFT_NODE_BRIDGE] = PLACES,
    [WEFT_NODE_GPU] = PLACES,
    [WEFT_NODE_NIC] = PLACES,
    [WEFT_NODE_PORT] = PLACES | KIND(NIC),
    [WEFT_NODE_DEVICE] = PLACES,
    [WEFT_NODE_SWITCH] = 0,
    [WEFT_NODE_RANK] = PLACES | KIND(CORE) | KIND(GPU) | KIND(NIC) | KIND(PORT) | KIND(DEVICE),
};

static int check_parent(const struct weft_graph *graph, const struct weft_node_given *given)
{
    if ((unsigned)given->kind >= WEFT_NODE_KIND_COUNT)
        return weft_fail(WEFT_INVALID, "node \"%s\" is of kind %d, there are 0 to %d", given->name,
                         (int)given->kind, WEFT_NODE_KIND_COUNT - 1);
    const char *kind = weft_node_kind_name(given->kind);
    unsigned allowed = parents_of[given->kind];
    if (given->parent == WEFT_NODE_NONE)
        return allowed ? weft_fail(WEFT_INVALID, "%s \"%s\" lies in no host", kind, given->name) : 0;
    if (given->parent >= graph->node_count)
        return weft_fail(WEFT_INVALID, "%s \"%s\" lies in node %u, of which there are %u", kind, given->name,
                         given->parent, graph->node_count);
    const struct weft_node *parent = &graph->nodes[given->parent];
    if (!(allowed & 1u << parent->kind))
        return weft_fail(WEFT_INVALID, "%s \"%s\" cannot lie in %s \"%s\"", kind, given->name,
                         weft_node_kind_name(parent->kind), parent->name);
    return 0;
}

static int add_parent_edge(struct weft_graph *graph, const struct weft_node_given *given, uint32_t node,
                           uint32_t *edge)
{
    struct weft_graph_room *room = graph->room;
    int status = grow((void **)&graph->edges, graph->edge_count, &room->edge_room, sizeof *graph->edges,
                      WEFT_EDGES_MAX, "edges");
    if (status)
        return status;
    *edge = graph->edge_count++;
    graph->edges[*edge] = (struct weft_edge){.a = node,
                                             .b = given->parent,
                                             .kind = given->parent_pci ? WEFT_EDGE_PCI : WEFT_EDGE_LOCAL,
                                             .flags = WEFT_EDGE_PARENT,
                                             .links = 1,
                                             .bytes_per_s = given->parent_bytes_per_s,
                                             .latency_ns = given->parent_latency_ns,
                                             .port_a = -1,
                                             .port_b = -1};
    return 0;
}

/* Puts the node at the end of its parent's children, or of the roots. */
static void hang(struct weft_graph *graph, uint32_t node, uint32_t parent)
{
    uint32_t *first = parent == WEFT_NODE_NONE ? &graph->first_root : &graph->nodes[parent].child_first;
    uint32_t *last = parent == WEFT_NODE_NONE ? &graph->last_root : &graph->nodes[parent].child_last;
    if (*first == WEFT_NODE_NONE)
        *first = node;
    else
        graph->nodes[*last].sibling_next = node;
    *last = node;
}

int weft_graph_add_node(struct weft_graph *graph, const struct weft_node_given *given, uint32_t *node)
{
    struct weft_graph_room *room = graph->room;
    int status = still_open(graph);
    if (!status)
        status = check_name(given->name);
    if (!status)
        status = check_parent(graph, given);
    if (!status)
        status = grow((void **)&graph->nodes, graph->node_count, &room->node_room, sizeof *graph->nodes,
                      WEFT_NODES_MAX, "nodes");
    if (status)
        return status;
    const char *name = clean_string(graph, given->name);
    const char *pci = given->pci && name ? clean_string(graph, given->pci) : NULL;
    if (!name || (given->pci && !pci))
        return no_memory();
    uint32_t parent = given->parent, made = graph->node_count, edge = WEFT_NODE_NONE;
    status = parent == WEFT_NODE_NONE ? 0 : add_parent_edge(graph, given, made, &edge);
    if (status)
        return status;
    uint32_t host = parent != WEFT_NODE_NONE        ? graph->nodes[parent].host
                    : given->kind == WEFT_NODE_HOST ? made
                                                    : WEFT_NODE_NONE;
    graph->nodes[graph->node_count++] = (struct weft_node){
        .kind = (uint8_t)given->kind,
        .bridge = (uint8_t)given->bridge,
        .state = (uint8_t)given->state,
        .flags = (uint8_t)given->flags,
        .parent = parent,
        .host = host,
        .index = given->index,
        .rail = given->rail,
        .name = name,
        .pci = pci,
        .guid = given->guid,
        .bytes_per_s = given->bytes_per_s,
        .parent_edge = edge,
        .attributes_first = WEFT_NODE_NONE,
        .attributes_last = WEFT_NODE_NONE,
        .child_first = WEFT_NODE_NONE,
        .child_last = WEFT_NODE_NONE,
        .sibling_next = WEFT_NODE_NONE,
    };
    hang(graph, made, parent);
    *node = made;
    return 0;
}

int weft_graph_rename(struct weft_graph *graph, uint32_t node, const char *name)
{
    int status = still_open(graph);
    if (!status)
        status = check_name(name);
    if (status)
        return status;
    if (node >= graph->node_count)
        return weft_fail(WEFT_INVALID, "node %u gets the name \"%s\", of %u nodes", node, name,
                         graph->node_count);
    const char *copy = clean_string(graph, name);
    if (!copy)
        return no_memory();
    graph->nodes[node].name = copy;
    return 0;
}

/* --- edges */

static int check_ends(const struct weft_graph *graph, const struct weft_edge *given)
{
    if (given->a >= graph->node_count || given->b >= graph->node_count || given->a == given->b)
        return weft_fail(WEFT_INVALID, "an edge joins nodes %u and %u, expected two of %u", given->a,
                         given->b, graph->node_count);
    if (given->kind >= WEFT_EDGE_KIND_COUNT)
        return weft_fail(WEFT_INVALID, "an edge is of kind %d, there are 0 to %d", given->kind,
                         WEFT_EDGE_KIND_COUNT - 1);
    const struct weft_node *a = &graph->nodes[given->a], *b = &graph->nodes[given->b];
    unsigned both = 1u << a->kind | 1u << b->kind;
    int fits = given->kind == WEFT_EDGE_SOCKET ? both == KIND(NUMA) && a->host == b->host
               : given->kind == WEFT_EDGE_FABRIC
                   ? !(both & ~(KIND(HOST) | KIND(NIC) | KIND(PORT) | KIND(SWITCH)))
               : given->kind == WEFT_EDGE_GPU_LINK ? !(both & (KIND(CORE) | KIND(RANK) | KIND(BRIDGE)))
                                                   : a->host == b->host && a->host != WEFT_NODE_NONE;
    if (!fits)
        return weft_fail(WEFT_INVALID, "no edge of kind %s can join %s \"%s\" and %s \"%s\"",
                         weft_edge_kind_name(given->kind), weft_node_kind_name(a->kind), a->name,
                         weft_node_kind_name(b->kind), b->name);
    return 0;
}

int weft_graph_add_edge(struct weft_graph *graph, const struct weft_edge *given, uint32_t *edge)
{
    int status = still_open(graph);
    if (!status)
        status = check_ends(graph, given);
    if (!status)
        status = grow((void **)&graph->edges, graph->edge_count, &graph->room->edge_room,
                      sizeof *graph->edges, WEFT_EDGES_MAX, "edges");
    if (status)
        return status;
    graph->edges[graph->edge_count] = (struct weft_edge){
        .a = given->a,
        .b = given->b,
        .kind = given->kind,
        .flags = given->flags & (uint8_t)~WEFT_EDGE_PARENT,
        .lanes = given->lanes,
        .links = given->links ? given->links : 1,
        .bytes_per_s = given->bytes_per_s,
        .latency_ns = given->latency_ns,
        .port_a = given->port_a,
        .port_b = given->port_b,
    };
    if (edge)
        *edge = graph->edge_count;
    graph->edge_count++;
    return 0;
}

/* --- attributes */

int weft_graph_set_attribute(struct weft_graph *graph, uint32_t node, const char *name, const char *value)
{
    int status = still_open(graph);
    if (status)
        return status;
    if (node >= graph->node_count || !*name)
        return weft_fail(WEFT_INVALID, "attribute \"%s\" of node %u, of which there are %u", name, node,
                         graph->node_count);
    const char *copy = clean_string(graph, value);
    if (!copy)
        return no_memory();
    uint32_t count = 0;
    for (uint32_t i = graph->nodes[node].attributes_first; i != WEFT_NODE_NONE;
         i = graph->attributes[i].next, count++) {
        if (strcmp(graph->attributes[i].name, name) == 0) {
            graph->attributes[i].value = copy;
            return 0;
        }
    }
    if (count >= NODE_ATTRIBUTES_MAX)
        return weft_fail(WEFT_INVALID, "\"%s\" has more than %d attributes, the most that a node has",
                         graph->nodes[node].name, NODE_ATTRIBUTES_MAX);
    status = grow((void **)&graph->attributes, graph->attribute_count, &graph->room->attribute_room,
                  sizeof *graph->attributes, ATTRIBUTES_TOTAL_MAX, "attributes");
    if (status)
        return status;
    const char *name_copy = clean_string(graph, name);
    if (!name_copy)
        return no_memory();
    uint32_t made = graph->attribute_count++;
    graph->attributes[made] = (struct weft_attribute){name_copy, copy, WEFT_NODE_NONE};
    struct weft_node *owner = &graph->nodes[node];
    if (owner->attributes_first == WEFT_NODE_NONE)
        owner->attributes_first = made;
    else
        graph->attributes[owner->attributes_last].next = made;
    owner->attributes_last = made;
    return 0;
}

/* --- finishing */

static int compare_siblings(const void *a, const void *b, void *context)
{
    const struct weft_node *nodes = context;
    const struct weft_node *one = &nodes[*(const uint32_t *)a], *other = &nodes[*(const uint32_t *)b];
    if (one->parent != other->parent)
        return one->parent < other->parent ? -1 : 1;
    return strcmp(one->name, other->name);
}

static int check_siblings(const struct weft_graph *graph)
{
    if (graph->node_count < 2)
        return 0;
    uint32_t *sorted = malloc(graph->node_count * sizeof *sorted);
    if (!sorted)
        return no_memory();
    for (uint32_t i = 0; i < graph->node_count; i++)
        sorted[i] = i;
    qsort_r(sorted, graph->node_count, sizeof *sorted, compare_siblings, graph->nodes);
    int status = 0;
    for (uint32_t i = 1; i < graph->node_count && !status; i++) {
        if (compare_siblings(&sorted[i - 1], &sorted[i], graph->nodes) != 0)
            continue;
        const struct weft_node *node = &graph->nodes[sorted[i]];
        int root = node->parent == WEFT_NODE_NONE;
        status = weft_fail(WEFT_INVALID, "the name \"%s\" is there twice in %s%s%s", node->name,
                           root ? "the graph" : "\"", root ? "" : graph->nodes[node->parent].name,
                           root ? "" : "\"");
    }
    free(sorted);
    return status;
}

int weft_graph_finish(struct weft_graph *graph)
{
    if (graph->finished)
        return 0;
    int status = check_siblings(graph);
    if (status)
        return status;
    uint32_t *incident = malloc((graph->edge_count ? (size_t)graph->edge_count * 2 : 1) * sizeof *incident);
    if (!incident)
        return no_memory();
    struct weft_node *nodes = graph->nodes;
    for (uint32_t i = 0; i < graph->node_count; i++)
        nodes[i].edges_count = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        nodes[graph->edges[i].a].edges_count++;
        nodes[graph->edges[i].b].edges_count++;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        nodes[i].edges_first = at;
        at += nodes[i].edges_count;
        nodes[i].edges_count = 0;
    }
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        struct weft_node *a = &nodes[graph->edges[i].a], *b = &nodes[graph->edges[i].b];
        incident[a->edges_first + a->edges_count++] = i;
        incident[b->edges_first + b->edges_count++] = i;
    }
    free(graph->incident);
    graph->incident = incident;
    graph->finished = 1;
    return 0;
}

void weft_graph_thaw(struct weft_graph *graph)
{
    graph->finished = 0;
}
