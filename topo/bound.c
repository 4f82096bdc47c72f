/* SPDX-License-Identifier: Apache-2.0 */
/* The least load that rings can have, whatever their order.
 *
 * A ring over all ranks enters every set of hosts that is not all of them at least once, and leaves it at least once. Take a host:
 * each ring that enters puts a stream on one of the ports that its ranks use, so R rings put at least R/m, rounded up, on one of m
 * ports. Take what hangs below a cut of the fabric (tiers.c lists the cuts that the fabric's heights make; a host is on one side of
 * each): R streams come over its cables, so some link carries at least R divided by the number of links. The largest of these
 * is the bound. Every entry of a set comes from outside, so where ranks send between n sets that no host joins, each ring has at
 * least n pairs between them; and the sets that hang on switches in common are the groups of tier 0.
 *
 * Ranks without a cable: a pair with such a rank puts nothing on the fabric, so a set may be entered unseen. U such ranks can hide U of
 * a ring's entries, hence of U + 1 sets at least one is entered by at least one ring in U + 1. Where the fabric falls into parts
 * that nothing joins, pairs between them put nothing on it either, and no load is certain. */
#include "topo/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tiers.h"

struct cuts {
    const struct weft_order *order;
    struct weft_tiers tiers;
    uint32_t rings;  /* that surely enter one of the sets considered together */
    uint32_t unseen; /* ranks without a cable */
    double *loads;   /* [room]: least load of each set of one kind */
    uint32_t count;
    double highest;
};

static int loads_compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a > b ? -1 : a < b;
}

/* Takes the sets of one kind into account: they have no hosts in common. */
static void cuts_take(struct cuts *cuts)
{
    qsort(cuts->loads, cuts->count, sizeof *cuts->loads, loads_compare);
    if (cuts->unseen < cuts->count && cuts->loads[cuts->unseen] > cuts->highest)
        cuts->highest = cuts->loads[cuts->unseen];
    cuts->count = 0;
}

static int ends_compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* Least load of one link when each ring enters the host over one of these ends. list is sorted. */
static double host_load(const struct cuts *cuts, const uint32_t *list, uint32_t count)
{
    uint64_t links = 0, most = 0, ends = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct weft_hop hop;
        uint32_t at = 0, other;
        uint64_t own = 0;
        if (i && list[i] == list[i - 1])
            continue;
        while (weft_routes_cable(cuts->order->routes, list[i], &at, &hop, &other))
            own += hop.links;
        links += own;
        most = own > most ? own : most;
        ends += own > 0;
    }
    if (ends == 0)
        return 0;
    if (most == 1)
        return (double)((cuts->rings + ends - 1) / ends);
    double spread = (double)cuts->rings / (double)links, single = 1 / (double)most;
    return spread > single ? spread : single;
}

/* list: scratch, [ranks]. Ends without a cable are left out. */
static void hosts_cut(struct cuts *cuts, uint32_t *list)
{
    const struct weft_order *order = cuts->order;
    for (uint32_t h = 0; h < order->host_count; h++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < order->hosts[h].count; i++) {
            uint32_t end = order->ends[order->members[order->hosts[h].first + i]];
            if (end != WEFT_NODE_NONE)
                list[count++] = end;
        }
        qsort(list, count, sizeof *list, ends_compare);
        cuts->loads[cuts->count++] = host_load(cuts, list, count);
    }
    if (order->host_count > 1)
        cuts_take(cuts);
    cuts->count = 0;
}

/* links: scratch, [switch_count]: links that leave the set of each first leaf. */
static void tier_cut(struct cuts *cuts, unsigned tier, uint64_t *links)
{
    const struct weft_routes *routes = cuts->order->routes;
    const uint32_t *group = weft_tier(cuts->order, &cuts->tiers, tier);
    memset(links, 0, routes->switch_count * sizeof *links);
    uint32_t sets = 0;
    for (uint32_t s = 0; s < routes->switch_count; s++) {
        if (group[s] == WEFT_NODE_NONE)
            continue;
        sets += group[s] == s;
        for (uint32_t h = routes->hop_first[s]; h < routes->hop_first[s + 1]; h++)
            if (group[routes->hops[h].to] != group[s])
                links[group[s]] += routes->hops[h].links;
    }
    for (uint32_t s = 0; sets > 1 && s < routes->switch_count; s++)
        if (group[s] == s)
            cuts->loads[cuts->count++] = links[s] ? (double)cuts->rings / (double)links[s] : 0;
    cuts_take(cuts);
}

/* How many sets at the tier have ranks; ends that are cabled to each other only, make one more together. */
static uint32_t sets_count(const struct cuts *cuts, unsigned tier)
{
    const uint32_t *group = weft_tier(cuts->order, &cuts->tiers, tier);
    uint32_t sets = 0, direct = 0;
    for (uint32_t s = 0; s < cuts->order->routes->switch_count; s++)
        sets += group[s] == s;
    for (uint32_t rank = 0; rank < cuts->order->ranks && !direct; rank++) {
        struct weft_hop hop = {.to = WEFT_NODE_NONE};
        uint32_t at = 0, other, end = cuts->order->ends[rank];
        direct = end != WEFT_NODE_NONE && weft_routes_cable(cuts->order->routes, end, &at, &hop, &other);
        while (direct && hop.to == WEFT_NODE_NONE &&
               weft_routes_cable(cuts->order->routes, end, &at, &hop, &other))
            continue;
        direct = direct && hop.to == WEFT_NODE_NONE;
    }
    return sets + direct;
}

static uint32_t unseen_count(const struct weft_order *order)
{
    uint32_t unseen = 0;
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        unseen += weft_routes_end(order->routes, &order->places[rank], order->ends[rank]) == WEFT_NODE_NONE;
    return unseen;
}

/* Pairs between sets that no host joins; a rank without a cable hides at most one of them in each ring. */
static uint64_t crossings_least(const struct cuts *cuts, uint32_t rings)
{
    uint32_t sets = sets_count(cuts, 0);
    return sets > 1 && sets > cuts->unseen ? (uint64_t)rings * (sets - cuts->unseen) : 0;
}

int weft_order_bound(const struct weft_order *order, uint32_t rings, struct weft_bound *bound)
{
    struct cuts cuts = {.order = order, .unseen = unseen_count(order)};
    size_t switches = order->routes->switch_count, hosts = order->host_count;
    cuts.rings = (uint32_t)((rings + (uint64_t)cuts.unseen) / (cuts.unseen + (uint64_t)1));
    int status = weft_tiers_find(order, 1, &cuts.tiers);
    if (status)
        return status;
    cuts.loads = malloc((switches > hosts ? switches : hosts) * sizeof *cuts.loads);
    uint64_t *links = malloc((switches + 1) * sizeof *links);
    uint32_t *list = malloc(order->ranks * sizeof *list);
    if (!cuts.loads || !links || !list)
        status = weft_fail(WEFT_NOMEM, "no memory for the least load of %u ranks", order->ranks);
    if (!status && sets_count(&cuts, cuts.tiers.count - 1) == 1) {
        hosts_cut(&cuts, list);
        for (unsigned tier = 0; tier < cuts.tiers.count; tier++)
            tier_cut(&cuts, tier, links);
    }
    if (!status)
        *bound = (struct weft_bound){
            .highest = cuts.highest,
            .crossings_leaf = crossings_least(&cuts, rings),
            .argument = "every ring enters and leaves each set of hosts behind a cut of the fabric at least "
                        "once, which puts a stream "
                        "on the links of the cut, and cannot be spread thinner than evenly over all of them",
        };
    free(list);
    free(links);
    free(cuts.loads);
    free(cuts.tiers.group);
    return status;
}

int weft_load_bound(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                    const uint32_t *nic, uint32_t rings, struct weft_bound *bound)
{
    if (!graph || rings == 0)
        return weft_fail(WEFT_INVALID, "a bound is of one ring or more on a graph");
    struct weft_order order = {.graph = graph, .places = places, .ranks = ranks};
    int status = weft_order_gather(&order);
    for (uint32_t rank = 0; !status && rank < ranks; rank++)
        if (nic[rank] != WEFT_NODE_NONE && nic[rank] >= graph->node_count)
            status = weft_fail(WEFT_INVALID, "bound: NIC %u of rank %u is not in the graph", nic[rank], rank);
    if (!status) {
        order.nic = malloc(ranks * sizeof *order.nic);
        if (order.nic)
            memcpy(order.nic, nic, ranks * sizeof *nic);
        else
            status = weft_fail(WEFT_NOMEM, "no memory for the NICs of %u ranks", ranks);
    }
    if (!status)
        status = weft_order_ends(&order);
    if (!status)
        status = weft_order_bound(&order, rings, bound);
    weft_order_free(&order);
    return status;
}
