/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs of a host by nearness.
 *
 * The class of a place and a NIC follows from the node where their ways up meet, with two exceptions: links of their own
 * between a GPU and a NIC, and functions of one device. A place for which either holds is held against every NIC. For all
 * others the classes grow on the way up: what meets at a PCI switch is PIX or PXB, at a host bridge PHB, above it NODE or SYS
 * (weft_path_least()). So the NICs below the place come first, then those below its parent, and when the best found is nearer
 * than anything above can be, the rest need no look.
 *
 * At nodes that hold many (a NUMA node, a host, a host bridge, a large switch) it does not matter which of the places below
 * asks, as long as no NIC lies nearer to it (weft_path_alike()): the set is kept there and serves them all.
 *
 * So thousands of GPUs and NICs in one host cost little more than the NICs times the depth of their tree. Exceptions cost the
 * NICs once more for each place: those above, and places that have only down NICs closer than the ones that serve them.
 */
#include "topo/nics_near.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/order_parts.h"

/* How a place comes to a node with NICs. */
enum way { WAY_OTHER, WAY_HOST_BRIDGE, WAY_ITSELF, WAY_COUNT };

struct nic {
    uint32_t node;
    uint32_t first, count; /* its ends */
    int down;              /* has ports, and all are down */
    char device[32];       /* its address on PCI without the function; empty: not told */
};

/* A node and a NIC that is it or lies below it. */
struct below {
    uint32_t node, nic;
};

/* A node with NICs at it or below it. */
struct top {
    uint32_t node;
    uint32_t first, count;                /* of `below` */
    struct weft_near_set kept[WAY_COUNT]; /* best: NULL without */
};

struct weft_near_own {
    struct nic *nics; /* in the order of the host's tree */
    uint32_t nic_count;
    uint32_t *by_device; /* NICs with an address, by device */
    uint32_t by_device_count;
    struct below *below; /* by node, then NIC */
    uint32_t below_count;
    struct top *tops; /* by node */
    uint32_t top_count;
    struct weft_near_set scratch; /* of the last place whose set is not kept */
    uint32_t *scratch_best;
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
    LEVEL_COMING, /* up, but not yet ready; or a function that no driver holds */
    LEVEL_PLAIN,  /* Ethernet without RDMA, not known to be down */
    LEVEL_UNTOLD, /* nobody says whether it carries */
    LEVEL_ACTIVE,
};

static enum level level_of(const struct weft_graph *graph, uint32_t end)
{
    const struct weft_node *node = &graph->nodes[end];
    if (node->kind != WEFT_NODE_PORT)
        return weft_graph_is_driverless(graph, end) ? LEVEL_COMING : LEVEL_UNTOLD;
    if (node->state == WEFT_PORT_DOWN)
        return LEVEL_DOWN;
    if (node->state != WEFT_PORT_ACTIVE && node->state != WEFT_PORT_UNKNOWN)
        return LEVEL_COMING;
    if (is_plain_ethernet(graph, end))
        return LEVEL_PLAIN;
    return node->state == WEFT_PORT_ACTIVE ? LEVEL_ACTIVE : LEVEL_UNTOLD;
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
    struct weft_near_own *own = near->own;
    uint32_t count = weft_graph_count_below(graph, near->host, WEFT_NODE_NIC);
    own->nics = calloc(count + 1, sizeof *own->nics);
    own->by_device = malloc((count + 1) * sizeof *own->by_device);
    if (!own->nics || !own->by_device)
        return no_memory(near);
    for (uint32_t node = weft_graph_next_below(graph, near->host, WEFT_NODE_NIC, WEFT_NODE_NONE);
         node != WEFT_NODE_NONE; node = weft_graph_next_below(graph, near->host, WEFT_NODE_NIC, node))
        own->nics[own->nic_count++].node = node;
    qsort_r(own->nics, count, sizeof *own->nics, compare_nodes, (void *)(uintptr_t)graph);
    for (uint32_t i = 0; i < count; i++) {
        struct nic *nic = &own->nics[i];
        nic->down = 1;
        for (uint32_t end = next_end(graph, nic->node, WEFT_NODE_NONE); end != WEFT_NODE_NONE;
             end = next_end(graph, nic->node, end)) {
            enum level here = level_of(graph, end);
            nic->down &= here == LEVEL_DOWN;
            if (here > *level && (!allowed || allowed[end]))
                *level = here;
        }
        near->nics_up += !nic->down;
        if (weft_path_device(graph, nic->node, nic->device))
            own->by_device[own->by_device_count++] = i;
    }
    return 0;
}

/* Of the level, NIC by NIC. list NULL only counts. */
static uint32_t fill_ends(struct weft_near *near, const uint8_t *allowed, enum level level,
                          struct weft_near_end *list)
{
    const struct weft_graph *graph = near->graph;
    uint32_t count = 0;
    for (uint32_t i = 0; i < near->own->nic_count && level != LEVEL_DOWN; i++) {
        struct nic *nic = &near->own->nics[i];
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

/* --- what lies below what */

static int compare_below(const void *left, const void *right)
{
    const struct below *a = left, *b = right;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->nic < b->nic ? -1 : a->nic > b->nic;
}

static int compare_devices(const void *left, const void *right, void *context)
{
    const struct nic *nics = context;
    return strcmp(nics[*(const uint32_t *)left].device, nics[*(const uint32_t *)right].device);
}

/* One entry for each NIC and node above it. list NULL only counts. */
static uint32_t fill_below(const struct weft_near *near, struct below *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < near->own->nic_count; i++) {
        for (uint32_t node = near->own->nics[i].node; node != WEFT_NODE_NONE;
             node = near->graph->nodes[node].parent) {
            if (list)
                list[count] = (struct below){node, i};
            count++;
        }
    }
    return count;
}

static int list_tops(struct weft_near *near)
{
    struct weft_near_own *own = near->own;
    own->below_count = fill_below(near, NULL);
    own->below = malloc((own->below_count + 1) * sizeof *own->below);
    if (!own->below)
        return no_memory(near);
    fill_below(near, own->below);
    qsort(own->below, own->below_count, sizeof *own->below, compare_below);
    qsort_r(own->by_device, own->by_device_count, sizeof *own->by_device, compare_devices, own->nics);
    uint32_t tops = 0;
    for (uint32_t i = 0; i < own->below_count; i++)
        tops += i == 0 || own->below[i].node != own->below[i - 1].node;
    own->tops = calloc(tops + 1, sizeof *own->tops);
    if (!own->tops)
        return no_memory(near);
    for (uint32_t i = 0; i < own->below_count; i++) {
        if (i == 0 || own->below[i].node != own->below[i - 1].node)
            own->tops[own->top_count++] = (struct top){.node = own->below[i].node, .first = i};
        own->tops[own->top_count - 1].count++;
    }
    return 0;
}

static struct top *find_top(const struct weft_near *near, uint32_t node)
{
    uint32_t low = 0, high = near->own->top_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (near->own->tops[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < near->own->top_count && near->own->tops[low].node == node ? &near->own->tops[low] : NULL;
}

/* --- open and close */

int weft_near_open(const struct weft_graph *graph, uint32_t host, const uint8_t *allowed,
                   struct weft_near *near)
{
    *near = (struct weft_near){.graph = graph, .host = host};
    if (host == WEFT_NODE_NONE)
        return 0;
    near->own = calloc(1, sizeof *near->own);
    if (!near->own)
        return no_memory(near);
    enum level level = LEVEL_DOWN;
    int status = list_nics(near, allowed, &level);
    if (!status) {
        near->end_count = fill_ends(near, allowed, level, NULL);
        near->ends = malloc((near->end_count + 1) * sizeof *near->ends);
        near->own->scratch_best = malloc((near->end_count + 1) * sizeof *near->own->scratch_best);
        near->nic_used = calloc(near->own->nic_count + 1, sizeof *near->nic_used);
        status = near->ends && near->own->scratch_best && near->nic_used ? 0 : no_memory(near);
    }
    if (!status) {
        fill_ends(near, allowed, level, near->ends);
        status = list_tops(near);
    }
    if (status)
        weft_near_close(near);
    return status;
}

void weft_near_close(struct weft_near *near)
{
    struct weft_near_own *own = near->own;
    if (own) {
        for (uint32_t i = 0; i < own->top_count; i++) {
            for (int way = 0; way < WAY_COUNT; way++)
                free(own->tops[i].kept[way].best);
        }
        free(own->tops);
        free(own->below);
        free(own->by_device);
        free(own->nics);
        free(own->scratch_best);
    }
    free(own);
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
static void hold_against(const struct weft_near *near, const struct nic *nic, enum weft_path_class path_class,
                         struct weft_near_set *set)
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

/* Makes the set of the NICs that the top holds. */
static void gather(struct weft_near *near, uint32_t from, const struct top *top, struct weft_near_set *set)
{
    uint32_t fit[WEFT_PATH_CLASS_COUNT] = {0}, down[WEFT_PATH_CLASS_COUNT] = {0};
    *set = (struct weft_near_set){.best = near->own->scratch_best, .path_class = WEFT_PATH_DIS};
    for (uint32_t i = top->first; i < top->first + top->count; i++) {
        const struct nic *nic = &near->own->nics[near->own->below[i].nic];
        enum weft_path_class path_class = weft_path_classify(near->graph, from, nic->node);
        fit[path_class] += nic->count > 0;
        down[path_class] += (uint32_t)nic->down;
        hold_against(near, nic, path_class, set);
    }
    for (int c = 0; c <= (int)set->path_class; c++) {
        set->near += fit[c];
        set->nearer_down += c < (int)set->path_class ? down[c] : 0;
    }
}

/* Whether a link of its own, or a NIC that is a function of the same device, can make the place nearer to a NIC than the tree
 * does. */
static int is_special(const struct weft_near *near, uint32_t place)
{
    const struct weft_graph *graph = near->graph;
    struct weft_near_own *own = near->own;
    uint32_t count, low = 0, high = own->by_device_count;
    const uint32_t *edges = weft_graph_edges_of(graph, place, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (edge->kind == WEFT_EDGE_GPU_LINK &&
            graph->nodes[weft_edge_other(edge, place)].kind == WEFT_NODE_NIC)
            return 1;
    }
    char device[32];
    if (!weft_path_device(graph, place, device))
        return 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(own->nics[own->by_device[middle]].device, device) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < own->by_device_count && strcmp(own->nics[own->by_device[low]].device, device) == 0;
}

/* The set at the top, kept there. */
static int keep(struct weft_near *near, uint32_t from, struct top *top, enum way way,
                struct weft_near_set **set)
{
    struct weft_near_set *kept = &top->kept[way];
    if (!kept->best) {
        struct weft_near_set made;
        gather(near, from, top, &made);
        uint32_t *best = malloc((made.count + 1) * sizeof *best);
        if (!best)
            return no_memory(near);
        memcpy(best, made.best, made.count * sizeof *best);
        made.best = best;
        *kept = made;
    }
    *set = kept;
    return 0;
}

/* The set at a node on the way up from a place, through the child. */
static int look_at(struct weft_near *near, uint32_t from, uint32_t child, struct top *top,
                   struct weft_near_set **set)
{
    if (child == WEFT_NODE_NONE)
        return keep(near, from, top, WAY_ITSELF, set);
    if (!find_top(near, child) && weft_path_alike(near->graph, top->node, from)) {
        int bridge = weft_path_is_host_bridge(near->graph, child);
        return keep(near, from, top, bridge ? WAY_HOST_BRIDGE : WAY_OTHER, set);
    }
    *set = &near->own->scratch;
    gather(near, from, top, *set);
    return 0;
}

int weft_near_look(struct weft_near *near, uint32_t place, struct weft_near_set **set)
{
    const struct weft_graph *graph = near->graph;
    uint32_t from = place == WEFT_NODE_NONE ? near->host : weft_path_stand_in(graph, place);
    if (is_special(near, from)) {
        *set = &near->own->scratch;
        gather(near, from, find_top(near, near->host), *set);
        return 0;
    }
    struct weft_near_set *found = NULL;
    uint32_t child = WEFT_NODE_NONE;
    int status = 0;
    for (uint32_t node = from; node != WEFT_NODE_NONE && !status; node = graph->nodes[node].parent) {
        if (found && found->count && found->path_class < weft_path_least(graph, node, child))
            break;
        struct top *top = find_top(near, node);
        if (top)
            status = look_at(near, from, child, top, &found);
        child = node;
    }
    if (!status)
        *set = found;
    return status;
}
