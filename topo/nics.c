/* SPDX-License-Identifier: Apache-2.0 */
/* Which NIC each rank sends through.
 *
 * For every place that ranks of a host run near, the host's usable ports are sorted into those that serve it best and the
 * rest (topo/nics_near.c): first by how sure it is that they are up, and RDMA devices before plain Ethernet; then by path
 * class, then by bandwidth, then by whether a cable is known of. Among the best, which are equal, each rank takes the one
 * that fewest take so far; among those one of the NIC that fewest take, so that the ports of one adapter, which share its
 * way to memory, are not the first to be taken; and then the first in the order of the host's tree. Ranks come in the order
 * of the host's tree, so that neighbours get neighbours. Where the sets of several places overlap, later ranks may find
 * their only port taken by an earlier one that had others: so afterwards ranks move from a port to an equal one with at
 * least two fewer ranks, until none can. Ranks whose places give their NIC have that, and do not count for the others. */
#include "topo/nics.h"

#include <stdlib.h>

#include "base/error.h"
#include "topo/nics_near.h"

#define PAIRS_MAX          (UINT64_C(1) << 24) /* of a rank and a NIC in one host: some seconds */
#define BALANCE_PASSES_MAX 8 /* one is enough unless three and more sets overlap in a chain */

/* Ranks on the end, then ranks on its NIC, as one number. */
static uint64_t load_of(const struct weft_near *near, uint32_t end)
{
    return (uint64_t)near->ends[end].used << 32 | near->nic_used[near->ends[end].nic];
}

/* The first of the set's ends that are least loaded. */
static uint32_t least_loaded(const struct weft_near *near, const struct weft_near_set *set)
{
    uint32_t least = set->best[0];
    for (uint32_t i = 1; i < set->count; i++) {
        if (load_of(near, set->best[i]) < load_of(near, least))
            least = set->best[i];
    }
    return least;
}

static void take(struct weft_near *near, uint32_t end, uint32_t ranks)
{
    near->ends[end].used += ranks;
    near->nic_used[near->ends[end].nic] += ranks;
}

static struct weft_nic_reason reason_of(const struct weft_near *near, const struct weft_near_set *set)
{
    return (struct weft_nic_reason){.equal = set->count,
                                    .near = set->near,
                                    .nearer_down = set->nearer_down,
                                    .fit = near->nics_fit,
                                    .others = near->nics_up - near->nics_fit};
}

/* chosen: [count], index of each member's end. */
static void host_choose(struct weft_order *order, const uint32_t *members, uint32_t count,
                        struct weft_near *near, uint32_t *chosen)
{
    const struct weft_near_set *set = NULL;
    int moved = 1;
    for (int pass = 0; pass < BALANCE_PASSES_MAX && moved; pass++) {
        moved = pass == 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t place = order->places[members[i]].near;
            if (i == 0 || place != order->places[members[i - 1]].near)
                set = weft_near_look(near, place);
            uint32_t least = least_loaded(near, set);
            if (pass == 0) {
                chosen[i] = least;
                take(near, least, 1);
                order->nic_reasons[members[i]] = reason_of(near, set);
            } else if (near->ends[chosen[i]].used >= near->ends[least].used + 2) {
                take(near, chosen[i], UINT32_MAX); /* one less */
                take(near, least, 1);
                chosen[i] = least;
                moved = 1;
            }
        }
    }
}

/* Ranks of the host whose places give no NIC choose one. choosers, chosen: room for all ranks. */
static int host_nics(struct weft_order *order, const struct weft_order_host *host, uint32_t *choosers,
                     uint32_t *chosen)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < host->count; i++) {
        uint32_t rank = order->members[host->first + i];
        const struct weft_place *place = &order->places[rank];
        int is_given = host->node != WEFT_NODE_NONE && place->has_nic;
        order->nic[rank] = is_given ? place->nic : WEFT_NODE_NONE;
        if (!is_given)
            choosers[count++] = rank;
    }
    struct weft_near near;
    int status = count ? weft_near_open(order->graph, host->node, order->allowed, &near) : WEFT_OK;
    if (status || !count)
        return status;
    if ((uint64_t)count * near.nic_count > PAIRS_MAX)
        status = weft_fail(WEFT_UNSUPPORTED, "host %s has %u NICs for %u ranks: more than can be compared",
                           host->name, near.nic_count, count);
    else if (near.end_count)
        host_choose(order, choosers, count, &near, chosen);
    for (uint32_t i = 0; !status && near.end_count && i < count; i++)
        order->nic[choosers[i]] = near.ends[chosen[i]].node;
    weft_near_close(&near);
    return status;
}

/* How many ranks have each NIC, into the reasons. */
static int count_sharing(struct weft_order *order)
{
    uint32_t nodes = order->graph ? order->graph->node_count : 0;
    uint32_t *sharing = calloc(nodes + (size_t)1, sizeof *sharing);
    if (!sharing)
        return weft_fail(WEFT_NOMEM, "no memory for the NICs of %u ranks", order->ranks);
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        if (order->nic[rank] != WEFT_NODE_NONE)
            sharing[order->nic[rank]]++;
    }
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        if (order->nic[rank] != WEFT_NODE_NONE)
            order->nic_reasons[rank].sharing = sharing[order->nic[rank]];
    }
    free(sharing);
    return WEFT_OK;
}

int weft_nics_choose(struct weft_order *order)
{
    uint32_t *choosers = malloc(order->ranks * sizeof *choosers);
    uint32_t *chosen = malloc(order->ranks * sizeof *chosen);
    order->nic = malloc(order->ranks * sizeof *order->nic);
    order->nic_reasons = calloc(order->ranks, sizeof *order->nic_reasons);
    int status = choosers && chosen && order->nic && order->nic_reasons
                     ? WEFT_OK
                     : weft_fail(WEFT_NOMEM, "no memory for the NICs of %u ranks", order->ranks);
    for (uint32_t h = 0; !status && h < order->host_count; h++)
        status = host_nics(order, &order->hosts[h], choosers, chosen);
    if (!status)
        status = count_sharing(order);
    free(choosers);
    free(chosen);
    return status;
}

int weft_nics_keep_given(struct weft_order *order)
{
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        const struct weft_place *place = &order->places[rank];
        if (place->host != WEFT_NODE_NONE && place->has_nic)
            continue;
        order->nic[rank] = WEFT_NODE_NONE;
        order->nic_reasons[rank] = (struct weft_nic_reason){.fit = order->nic_reasons[rank].fit};
    }
    return count_sharing(order);
}

static int nics_find(struct weft_order *order, uint32_t *nic, struct weft_nic_reason *reasons)
{
    int status = weft_order_gather(order);
    if (!status)
        status = weft_nics_choose(order);
    for (uint32_t rank = 0; !status && rank < order->ranks; rank++) {
        nic[rank] = order->nic[rank];
        if (reasons)
            reasons[rank] = order->nic_reasons[rank];
    }
    weft_order_free(order);
    return status;
}

int weft_nics_of(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                 const uint8_t *allowed, uint32_t *nic)
{
    struct weft_order order = {.graph = graph, .places = places, .ranks = ranks, .allowed = allowed};
    return nics_find(&order, nic, NULL);
}

int weft_order_nics(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                    uint32_t *nic, struct weft_nic_reason *reasons)
{
    struct weft_order order = {.graph = graph, .places = places, .ranks = ranks};
    return nics_find(&order, nic, reasons);
}
