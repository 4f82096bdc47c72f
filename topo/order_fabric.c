/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts along the fabric: which tier's groups each belongs to, and the order that walks them depth first.
 *
 * A host belongs where most of its ranks' cables lead. Within a group the order is by name, but for hosts whose ranks hang on one
 * of the switches of a rail-optimised group only: the ring should pass all hosts on the first switch, then one that is on the
 * first and the second, then those on the second, and so on, as it changes switches without using the fabric only inside a
 * host. Where there is none on both it changes over once all the same, not with every host. */
#include "topo/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define SWITCHES_WALKED_MAX 256 /* of a group; more are ordered by name alone */

int weft_order_ends(struct weft_order *order)
{
    int status = weft_routes_new(order->graph, &order->routes);
    if (status)
        return status;
    order->ends = malloc(order->ranks * sizeof *order->ends);
    if (!order->ends)
        return weft_fail(WEFT_NOMEM, "no memory for the cables of %u ranks", order->ranks);
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        uint32_t end = weft_routes_end(order->routes, &order->places[rank], order->nic[rank]);
        order->ends[rank] = end == WEFT_NODE_NONE ? order->nic[rank] : end;
    }
    return WEFT_OK;
}

/* The first switch at an end; WEFT_NODE_NONE: it is not on a switch. */
static uint32_t end_switch(const struct weft_order *order, uint32_t end)
{
    struct weft_hop hop;
    uint32_t at = 0, other, first = WEFT_NODE_NONE;
    while (end != WEFT_NODE_NONE && weft_routes_cable(order->routes, end, &at, &hop, &other))
        first = hop.to < first ? hop.to : first;
    return first;
}

static int numbers_compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* The group of tier 0 that most of the host's ranks are in, the first among equals. list: scratch of its ranks. */
static uint32_t host_group(const struct weft_order *order, const uint32_t *group, uint32_t host,
                           uint32_t *list)
{
    const struct weft_order_host *given = &order->hosts[host];
    uint32_t count = 0, best = WEFT_NODE_NONE, most = 0;
    for (uint32_t i = 0; i < given->count; i++) {
        uint32_t leaf = end_switch(order, order->ends[order->members[given->first + i]]);
        if (leaf != WEFT_NODE_NONE)
            list[count++] = group[leaf];
    }
    qsort(list, count, sizeof *list, numbers_compare);
    for (uint32_t first = 0, next; first < count; first = next) {
        for (next = first; next < count && list[next] == list[first];)
            next++;
        if (next - first > most) {
            most = next - first;
            best = list[first];
        }
    }
    return best;
}

/* order->tiers: for each tier and host, the first leaf of its group. */
static int tiers_of_hosts(struct weft_order *order, const struct weft_tiers *tiers)
{
    uint32_t *list = malloc(order->ranks * sizeof *list);
    order->tiers = malloc((size_t)tiers->count * order->host_count * sizeof *order->tiers);
    if (!list || !order->tiers) {
        free(list);
        return weft_fail(WEFT_NOMEM, "no memory for the tiers of %u hosts", order->host_count);
    }
    order->tier_count = tiers->count;
    for (uint32_t host = 0; host < order->host_count; host++) {
        uint32_t leaf = host_group(order, weft_tier(order, tiers, 0), host, list);
        for (unsigned t = 0; t < tiers->count; t++)
            order->tiers[(size_t)t * order->host_count + host] =
                leaf == WEFT_NODE_NONE ? WEFT_NODE_NONE : weft_tier(order, tiers, t)[leaf];
    }
    free(list);
    return WEFT_OK;
}

int weft_order_levels_of_fabric(struct weft_order *order)
{
    struct weft_tiers tiers;
    int status = weft_tiers_find(order, 0, &tiers);
    if (status)
        return status;
    status = tiers_of_hosts(order, &tiers);
    free(tiers.group);
    for (unsigned t = order->tier_count; !status && t-- > 0;) {
        uint32_t *keys;
        status = weft_order_level_add(order, WEFT_LEVEL_SWITCH, &keys);
        for (uint32_t rank = 0; !status && rank < order->ranks; rank++) {
            uint32_t leaf = order->tiers[(size_t)t * order->host_count + order->host_of[rank]];
            keys[rank] = leaf == WEFT_NODE_NONE ? WEFT_NODE_NONE : order->routes->switches[leaf];
        }
    }
    return status;
}

static int hosts_compare(const void *left, const void *right, void *context)
{
    const struct weft_order *order = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    for (unsigned t = order->tier_count; t-- > 0;) {
        uint32_t group_a = order->tiers[(size_t)t * order->host_count + a];
        uint32_t group_b = order->tiers[(size_t)t * order->host_count + b];
        if (group_a != group_b)
            return group_a < group_b ? -1 : 1; /* WEFT_NODE_NONE comes last */
    }
    return a < b ? -1 : a > b;
}

static int host_hangs_on(const struct weft_order *order, uint32_t host, uint32_t leaf)
{
    const struct weft_order_host *given = &order->hosts[host];
    uint32_t last = WEFT_NODE_NONE;
    for (uint32_t i = 0; i < given->count; i++) {
        uint32_t end = order->ends[order->members[given->first + i]];
        if (end != last && end_switch(order, end) == leaf)
            return 1;
        last = end;
    }
    return 0;
}

/* The switch that all ranks of the host hang on, or WEFT_NODE_NONE where they hang on several. */
static uint32_t host_only_leaf(const struct weft_order *order, uint32_t host)
{
    const struct weft_order_host *given = &order->hosts[host];
    uint32_t leaf = end_switch(order, order->ends[order->members[given->first]]);
    for (uint32_t i = 1; i < given->count; i++)
        if (end_switch(order, order->ends[order->members[given->first + i]]) != leaf)
            return WEFT_NODE_NONE;
    return leaf;
}

/* Takes hosts out of left[] into out[] in the order that the head of this file describes. leaves: of the hosts on one switch only,
 * sorted, each once. alone: [count], each host's only leaf. */
static void group_walk(const struct weft_order *order, uint32_t *left, const uint32_t *alone, uint32_t count,
                       const uint32_t *leaves, uint32_t leaf_count, uint32_t *out)
{
    uint32_t used = 0;
    for (uint32_t l = 0; l < leaf_count; l++) {
        for (uint32_t i = 0; i < count; i++) {
            if (left[i] != WEFT_NODE_NONE && alone[i] == leaves[l]) {
                out[used++] = left[i];
                left[i] = WEFT_NODE_NONE;
            }
        }
        for (uint32_t i = 0; l + 1 < leaf_count && i < count; i++) {
            if (left[i] != WEFT_NODE_NONE && alone[i] == WEFT_NODE_NONE &&
                host_hangs_on(order, left[i], leaves[l]) && host_hangs_on(order, left[i], leaves[l + 1])) {
                out[used++] = left[i];
                left[i] = WEFT_NODE_NONE;
                break;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (left[i] != WEFT_NODE_NONE)
            out[used++] = left[i];
}

/* Orders the hosts of one group of tier 0. scratch: [3 * host_count]. */
static void group_order(const struct weft_order *order, uint32_t *hosts, uint32_t count, uint32_t *scratch)
{
    uint32_t *alone = scratch, *leaves = scratch + order->host_count,
             *left = scratch + 2 * (size_t)order->host_count;
    uint32_t singles = 0, distinct = 0;
    for (uint32_t i = 0; i < count; i++) {
        alone[i] = host_only_leaf(order, hosts[i]);
        if (alone[i] != WEFT_NODE_NONE)
            leaves[singles++] = alone[i];
    }
    qsort(leaves, singles, sizeof *leaves, numbers_compare);
    for (uint32_t i = 0; i < singles; i++)
        if (i == 0 || leaves[i] != leaves[i - 1])
            leaves[distinct++] = leaves[i];
    if (singles == 0 || (singles == count && distinct == 1) || distinct > SWITCHES_WALKED_MAX)
        return;
    memcpy(left, hosts, count * sizeof *left);
    group_walk(order, left, alone, count, leaves, distinct, hosts);
}

int weft_order_hosts(struct weft_order *order)
{
    uint32_t *scratch = malloc(3 * (size_t)order->host_count * sizeof *scratch);
    order->host_order = malloc(order->host_count * sizeof *order->host_order);
    if (!scratch || !order->host_order) {
        free(scratch);
        return weft_fail(WEFT_NOMEM, "no memory for the order of %u hosts", order->host_count);
    }
    for (uint32_t i = 0; i < order->host_count; i++)
        order->host_order[i] = i;
    qsort_r(order->host_order, order->host_count, sizeof *order->host_order, hosts_compare, order);
    for (uint32_t first = 0, next; order->tier_count && first < order->host_count; first = next) {
        uint32_t group = order->tiers[order->host_order[first]];
        for (next = first; next < order->host_count && order->tiers[order->host_order[next]] == group;)
            next++;
        if (group != WEFT_NODE_NONE)
            group_order(order, order->host_order + first, next - first, scratch);
    }
    free(scratch);
    return WEFT_OK;
}
