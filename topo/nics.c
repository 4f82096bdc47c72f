/* Which NIC each rank sends through.
 *
 * For every place that ranks of a host run near, the host's usable ports are sorted into those that serve it best and the rest:
 * first by path class, then by bandwidth, then by whether a cable is known of. Among the best, which are equal, each rank takes
 * the one that fewest take so far; among those one of the NIC that fewest take, so that the ports of one adapter, which share its
 * way to memory, are not the first to be taken; and then the first in the order of the host's tree. Ranks come in the order of the host's tree, so that neighbours
 * get neighbours. Where the sets of several places overlap, later ranks may find their only port taken by an earlier one
 * that had others: so afterwards ranks move from a port to an equal one with at least two fewer ranks, until none can. */
#include "topo/nics.h"

#include <stdlib.h>

#include "base/error.h"
#include "topo/path.h"

#define BALANCE_PASSES_MAX 8 /* one is enough unless three and more sets overlap in a chain */

struct candidate {
    uint32_t node; /* PORT, or NIC without ports */
    uint32_t nic;
    uint64_t bytes_per_s;
    unsigned cabled;
    uint32_t used;
};

struct candidates {
    uint32_t count;
    struct candidate *list;
    uint32_t *best; /* indices of the best ones for one place */
    uint32_t best_count;
};

static int candidates_compare(const void *left, const void *right, void *context)
{
    const struct candidate *a = left, *b = right;
    return weft_order_nodes(context, a->node, b->node);
}

static struct candidate candidate_of(const struct weft_graph *graph, uint32_t node)
{
    const struct weft_node *said = &graph->nodes[node];
    struct candidate made = {node, said->kind == WEFT_NODE_PORT ? said->parent : node, said->bytes_per_s, 0,
                             0};
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

/* 2: carries, as far as anyone knows; 1: on its way there; 0: not to be used. */
static int usable(const struct weft_node *node)
{
    if (node->kind != WEFT_NODE_PORT || node->state == WEFT_PORT_ACTIVE || node->state == WEFT_PORT_UNKNOWN)
        return 2;
    return node->state == WEFT_PORT_DOWN ? 0 : 1;
}

/* Fills the list with the host's ports of this usability and NICs without ports, as far as allowed (by node; NULL: all);
 * returns how many. A list of NULL only counts. */
static uint32_t host_ports(const struct weft_graph *graph, uint32_t host, const uint8_t *allowed, int level,
                           struct candidate *list)
{
    uint32_t count = 0;
    for (uint32_t nic = weft_graph_next_below(graph, host, WEFT_NODE_NIC, WEFT_NODE_NONE);
         nic != WEFT_NODE_NONE; nic = weft_graph_next_below(graph, host, WEFT_NODE_NIC, nic)) {
        uint32_t port = weft_graph_next_below(graph, nic, WEFT_NODE_PORT, WEFT_NODE_NONE);
        if (port == WEFT_NODE_NONE && level == 2 && (!allowed || allowed[nic])) {
            if (list)
                list[count] = candidate_of(graph, nic);
            count++;
        }
        for (; port != WEFT_NODE_NONE; port = weft_graph_next_below(graph, nic, WEFT_NODE_PORT, port)) {
            if (usable(&graph->nodes[port]) != level || (allowed && !allowed[port]))
                continue;
            if (list)
                list[count] = candidate_of(graph, port);
            count++;
        }
    }
    return count;
}

static int candidates_find(const struct weft_graph *graph, uint32_t host, const uint8_t *allowed,
                           struct candidates *found)
{
    int level = 2;
    *found = (struct candidates){.count = host_ports(graph, host, allowed, 2, NULL)};
    if (found->count == 0) {
        level = 1;
        found->count = host_ports(graph, host, allowed, 1, NULL);
    }
    if (found->count == 0)
        return WEFT_OK;
    found->list = malloc(found->count * sizeof *found->list);
    found->best = malloc(found->count * sizeof *found->best);
    if (!found->list || !found->best) {
        free(found->list);
        free(found->best);
        *found = (struct candidates){0};
        return weft_fail(WEFT_NOMEM, "no memory for the NICs of host %s", graph->nodes[host].name);
    }
    host_ports(graph, host, allowed, level, found->list);
    qsort_r(found->list, found->count, sizeof *found->list, candidates_compare, (void *)(uintptr_t)graph);
    return WEFT_OK;
}

/* Below 0: a serves better. */
static int serve_compare(enum weft_path_class class_a, const struct candidate *a,
                         enum weft_path_class class_b, const struct candidate *b)
{
    if (class_a != class_b)
        return class_a < class_b ? -1 : 1;
    if (a->bytes_per_s != b->bytes_per_s)
        return a->bytes_per_s > b->bytes_per_s ? -1 : 1;
    return a->cabled != b->cabled ? (a->cabled ? -1 : 1) : 0;
}

static void best_find(const struct weft_graph *graph, uint32_t near, struct candidates *all)
{
    enum weft_path_class best_class = WEFT_PATH_DIS;
    all->best_count = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct candidate *candidate = &all->list[i];
        enum weft_path_class path_class =
            near == WEFT_NODE_NONE ? WEFT_PATH_LOC : weft_path_classify(graph, near, candidate->nic);
        int better = all->best_count == 0
                         ? -1
                         : serve_compare(path_class, candidate, best_class, &all->list[all->best[0]]);
        if (better > 0)
            continue;
        if (better < 0) {
            all->best_count = 0;
            best_class = path_class;
        }
        all->best[all->best_count++] = i;
    }
}

/* Through all ports of the candidate's NIC. */
static uint32_t nic_used(const struct candidates *all, uint32_t candidate)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < all->count; i++)
        used += all->list[i].nic == all->list[candidate].nic ? all->list[i].used : 0;
    return used;
}

static uint32_t least_used(const struct candidates *all)
{
    uint32_t least = all->best[0], least_nic = nic_used(all, least);
    for (uint32_t i = 1; i < all->best_count; i++) {
        uint32_t used = all->list[all->best[i]].used, nic = nic_used(all, all->best[i]);
        if (used > all->list[least].used || (used == all->list[least].used && nic >= least_nic))
            continue;
        least = all->best[i];
        least_nic = nic;
    }
    return least;
}

/* chosen: [count], index of each member's candidate. */
static void host_choose(const struct weft_order *order, const uint32_t *members, uint32_t count,
                        struct candidates *all, uint32_t *chosen)
{
    int moved = 1;
    for (int pass = 0; pass < BALANCE_PASSES_MAX && moved; pass++) {
        moved = pass == 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t near = order->places[members[i]].near;
            if (i == 0 || near != order->places[members[i - 1]].near)
                best_find(order->graph, near, all);
            uint32_t least = least_used(all);
            if (pass == 0) {
                chosen[i] = least;
                all->list[least].used++;
            } else if (all->list[chosen[i]].used >= all->list[least].used + 2) {
                all->list[chosen[i]].used--;
                all->list[least].used++;
                chosen[i] = least;
                moved = 1;
            }
        }
    }
}

int weft_nics_choose(struct weft_order *order)
{
    uint32_t *chosen = malloc(order->ranks * sizeof *chosen);
    order->nic = malloc(order->ranks * sizeof *order->nic);
    int status = chosen && order->nic
                     ? WEFT_OK
                     : weft_fail(WEFT_NOMEM, "no memory for the NICs of %u ranks", order->ranks);
    for (uint32_t h = 0; !status && h < order->host_count; h++) {
        const struct weft_order_host *host = &order->hosts[h];
        const uint32_t *members = order->members + host->first;
        struct candidates all = {0};
        if (host->node != WEFT_NODE_NONE)
            status = candidates_find(order->graph, host->node, order->allowed, &all);
        if (!status && all.count)
            host_choose(order, members, host->count, &all, chosen);
        for (uint32_t i = 0; i < host->count; i++)
            order->nic[members[i]] = all.count ? all.list[chosen[i]].node : WEFT_NODE_NONE;
        free(all.list);
        free(all.best);
    }
    free(chosen);
    return status;
}

uint32_t weft_nics_equal(const struct weft_graph *graph, const struct weft_place *place)
{
    struct candidates all;
    if (place->host == WEFT_NODE_NONE || candidates_find(graph, place->host, NULL, &all) || !all.count)
        return 0;
    best_find(graph, place->near, &all);
    uint32_t count = all.best_count;
    free(all.list);
    free(all.best);
    return count;
}

int weft_nics_of(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                 const uint8_t *allowed, uint32_t *nic)
{
    struct weft_order order = {.graph = graph, .places = places, .ranks = ranks, .allowed = allowed};
    int status = weft_order_gather(&order);
    if (!status)
        status = weft_nics_choose(&order);
    for (uint32_t rank = 0; !status && rank < ranks; rank++)
        nic[rank] = order.nic[rank];
    weft_order_free(&order);
    return status;
}

int weft_order_nics(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                    uint32_t *nic)
{
    return weft_nics_of(graph, places, ranks, NULL, nic);
}
