/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs of a host by nearness: each place is held against every NIC, which costs the depth of the host's tree. */
#include "topo/nics_near.h"

#include <stdlib.h>

#include "base/error.h"
#include "topo/natural.h"

struct weft_near_nic {
    uint32_t node;
    uint32_t first, count; /* its ends */
    int down;              /* has ports, and all are down */
};

/* --- ends */

static struct weft_near_end end_of(const struct weft_graph *graph, uint32_t node, uint32_t nic)
{
    const struct weft_node *said = &graph->nodes[node];
    struct weft_near_end made = {.node = node, .nic = nic, .bytes_per_s = said->bytes_per_s};
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (edge->kind != WEFT_EDGE_FABRIC || edge->flags & WEFT_EDGE_DOWN)
            continue;
        made.cabled = 1;
        if (!said->bytes_per_s && edge->bytes_per_s > made.bytes_per_s)
            made.bytes_per_s = edge->bytes_per_s;
    }
    return made;
}

/* A network device of the system's without anything that RDMA devices have. Sources that tell nothing of the kind (NCCL's files,
 * synthetic texts) tell of no others than those to be used. */
static int is_plain_ethernet(const struct weft_graph *graph, uint32_t port)
{
    uint32_t nic = graph->nodes[port].parent;
    return weft_graph_attribute(graph, port, "net") && !graph->nodes[port].guid && !graph->nodes[nic].guid &&
           !weft_graph_attribute(graph, port, "GID0") && !weft_graph_attribute(graph, port, "link_layer") &&
           !weft_graph_attribute(graph, nic, "NodeGUID");
}

/* How sure it is that GPUs' data can go through the end. The best level that any end of the host has is the one that is chosen
 * from: a near port of which nobody knows whether it is up must not beat one that is, nor plain Ethernet RDMA. */
enum level {
    LEVEL_DOWN,
    LEVEL_COMING,  /* up, but not yet ready; or a function that no driver holds */
    LEVEL_PLAIN,   /* Ethernet without RDMA, not known to be down */
    LEVEL_UNKNOWN, /* nobody says whether it carries */
    LEVEL_ACTIVE,
};

static enum level level_of(const struct weft_graph *graph, uint32_t end)
{
    const struct weft_node *node = &graph->nodes[end];
    if (node->kind != WEFT_NODE_PORT)
        return weft_graph_is_driverless(graph, end) ? LEVEL_COMING : LEVEL_UNKNOWN;
    if (node->state == WEFT_PORT_DOWN)
        return LEVEL_DOWN;
    if (node->state != WEFT_PORT_ACTIVE && node->state != WEFT_PORT_UNKNOWN)
        return LEVEL_COMING;
    if (is_plain_ethernet(graph, end))
        return LEVEL_PLAIN;
    return node->state == WEFT_PORT_ACTIVE ? LEVEL_ACTIVE : LEVEL_UNKNOWN;
}

/* The NIC's ports one after another, or the NIC itself where it has none. */
static uint32_t next_end(const struct weft_graph *graph, uint32_t nic, uint32_t after)
{
    if (after == nic)
        return WEFT_NODE_NONE;
    uint32_t port = weft_graph_next_below(graph, nic, WEFT_NODE_PORT, after);
    return port == WEFT_NODE_NONE && after == WEFT_NODE_NONE ? nic : port;
}

/* Nodes, or structs that begin with one. */
static int compare_nodes(const void *left, const void *right, void *context)
{
    return weft_order_nodes(context, *(const uint32_t *)left, *(const uint32_t *)right);
}

static int no_memory(const struct weft_near *near)
{
    return weft_fail(WEFT_NOMEM, "no memory for the NICs of host %s", near->graph->nodes[near->host].name);
}

/* The NICs; raises the level to that of the best of their ends. */
static int list_nics(struct weft_near *near, const uint8_t *allowed, enum level *level)
{
    const struct weft_graph *graph = near->graph;
    uint32_t count = weft_graph_count_below(graph, near->host, WEFT_NODE_NIC);
    near->nics = calloc(count + 1, sizeof *near->nics);
    if (!near->nics)
        return no_memory(near);
    for (uint32_t node = weft_graph_next_below(graph, near->host, WEFT_NODE_NIC, WEFT_NODE_NONE);
         node != WEFT_NODE_NONE; node = weft_graph_next_below(graph, near->host, WEFT_NODE_NIC, node))
        near->nics[near->nic_count++].node = node;
    qsort_r(near->nics, count, sizeof *near->nics, compare_nodes, (void *)(uintptr_t)graph);
    for (uint32_t i = 0; i < count; i++) {
        struct weft_near_nic *nic = &near->nics[i];
        nic->down = 1;
        for (uint32_t end = next_end(graph, nic->node, WEFT_NODE_NONE); end != WEFT_NODE_NONE;
             end = next_end(graph, nic->node, end)) {
            enum level here = level_of(graph, end);
            nic->down &= here == LEVEL_DOWN;
            if (here > *level && (!allowed || allowed[end]))
                *level = here;
        }
        near->nics_up += !nic->down;
    }
    return 0;
}

/* Of the level, NIC by NIC. list NULL only counts. */
static uint32_t fill_ends(struct weft_near *near, const uint8_t *allowed, enum level level,
                          struct weft_near_end *list)
{
    const struct weft_graph *graph = near->graph;
    uint32_t count = 0;
    for (uint32_t i = 0; i < near->nic_count && level != LEVEL_DOWN; i++) {
        struct weft_near_nic *nic = &near->nics[i];
        nic->first = count;
        for (uint32_t end = next_end(graph, nic->node, WEFT_NODE_NONE); end != WEFT_NODE_NONE;
             end = next_end(graph, nic->node, end)) {
            if (level_of(graph, end) != level || (allowed && !allowed[end]))
                continue;
            if (list)
                list[count] = end_of(graph, end, i);
            count++;
        }
        nic->count = count - nic->first;
        near->nics_fit += list && nic->count;
        if (list)
            qsort_r(list + nic->first, nic->count, sizeof *list, compare_nodes, (void *)(uintptr_t)graph);
    }
    return count;
}

/* --- open and close */

int weft_near_open(const struct weft_graph *graph, uint32_t host, const uint8_t *allowed,
                   struct weft_near *near)
{
    *near = (struct weft_near){.graph = graph, .host = host};
    if (host == WEFT_NODE_NONE)
        return 0;
    enum level level = LEVEL_DOWN;
    int status = list_nics(near, allowed, &level);
    if (!status) {
        near->end_count = fill_ends(near, allowed, level, NULL);
        near->ends = malloc((near->end_count + 1) * sizeof *near->ends);
        near->set.best = malloc((near->end_count + 1) * sizeof *near->set.best);
        near->nic_used = calloc(near->nic_count + 1, sizeof *near->nic_used);
        status = near->ends && near->set.best && near->nic_used ? 0 : no_memory(near);
    }
    if (status)
        weft_near_close(near);
    else
        fill_ends(near, allowed, level, near->ends);
    return status;
}

void weft_near_close(struct weft_near *near)
{
    free(near->nics);
    free(near->set.best);
    free(near->nic_used);
    free(near->ends);
    *near = (struct weft_near){0};
}

/* --- sets */

/* Below 0: a serves better, by what its class leaves open. */
static int compare_ends(const struct weft_near_end *a, const struct weft_near_end *b)
{
    if (a->bytes_per_s != b->bytes_per_s)
        return a->bytes_per_s > b->bytes_per_s ? -1 : 1;
    return a->cabled != b->cabled ? (a->cabled ? -1 : 1) : 0;
}

/* Adds the NIC's ends if they are among the best so far. */
static void compare_with(const struct weft_near *near, const struct weft_near_nic *nic,
                         enum weft_path_class path_class, struct weft_near_set *set)
{
    for (uint32_t i = nic->first; i < nic->first + nic->count; i++) {
        int better = set->count == 0 ? -1
                     : path_class != set->path_class
                         ? (path_class < set->path_class ? -1 : 1)
                         : compare_ends(&near->ends[i], &near->ends[set->best[0]]);
        if (better > 0)
            continue;
        if (better < 0)
            set->count = 0;
        set->path_class = path_class;
        set->best[set->count++] = i;
    }
}

const struct weft_near_set *weft_near_look(struct weft_near *near, uint32_t place)
{
    uint32_t fit[WEFT_PATH_CLASS_COUNT] = {0}, down[WEFT_PATH_CLASS_COUNT] = {0};
    struct weft_near_set *set = &near->set;
    uint32_t from = place == WEFT_NODE_NONE ? near->host : place;
    *set = (struct weft_near_set){.best = set->best, .path_class = WEFT_PATH_DIS};
    for (uint32_t i = 0; i < near->nic_count; i++) {
        const struct weft_near_nic *nic = &near->nics[i];
        enum weft_path_class path_class = weft_path_classify(near->graph, from, nic->node);
        fit[path_class] += nic->count > 0;
        down[path_class] += (uint32_t)nic->down;
        compare_with(near, nic, path_class, set);
    }
    for (int c = 0; c <= (int)set->path_class; c++) {
        set->near += fit[c];
        set->nearer_down += c < (int)set->path_class ? down[c] : 0;
    }
    return set;
}
