/* SPDX-License-Identifier: Apache-2.0 */
/* Which rail a lane is on.
 *
 * What the source told, where it told different ones for all lanes of a host; else the lanes are counted. Then the fabric is asked:
 * where a leaf's lanes are mostly of one rail, the leaf is that rail's, and a host whose lanes hang on leaves of different
 * rails takes its rails from them. That puts right a host whose two cables are swapped, or that numbers its NICs otherwise. */
#include "topo/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/natural.h"

static int lanes_by_name(const void *left, const void *right, void *context)
{
    const struct weft_lane *a = left, *b = right;
    return a->nic == b->nic ? 0 : weft_order_nodes(context, a->nic, b->nic);
}

static int lanes_by_rail(const void *left, const void *right, void *context)
{
    const struct weft_lane *a = left, *b = right;
    if (a->rail != b->rail)
        return a->rail < b->rail ? -1 : 1;
    return lanes_by_name(left, right, context);
}

static int lanes_by_leaf(const void *left, const void *right)
{
    const struct weft_lane *a = left, *b = right;
    if (a->leaf != b->leaf)
        return a->leaf < b->leaf ? -1 : 1;
    return a->rail < b->rail ? -1 : a->rail > b->rail;
}

static int32_t rail_given(const struct weft_graph *graph, uint32_t nic)
{
    const struct weft_node *node = &graph->nodes[nic];
    if (node->rail < 0 && node->kind == WEFT_NODE_PORT)
        node = &graph->nodes[node->parent];
    return node->rail;
}

static int rails_differ(const struct weft_lane *lanes, uint32_t count)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (lanes[i].rail >= WEFT_RAILS_MAX || seen & 1u << lanes[i].rail)
            return 0;
        seen |= 1u << lanes[i].rail;
    }
    return 1;
}

/* What tells the rank's lane from others; WEFT_NODE_NONE: it has none. */
static uint32_t lane_nic(const struct weft_order *order, uint32_t rank)
{
    if (order->nic[rank] != WEFT_NODE_NONE || order->flags & WEFT_ORDER_GIVEN_NICS)
        return order->nic[rank];
    return order->ends[rank];
}

/* The distinct NICs of a host, by name, with the rails it tells. */
static uint32_t host_lanes(const struct weft_order *order, const struct weft_order_host *host,
                           struct weft_lane *lanes)
{
    uint32_t count = 0, distinct = 0;
    for (uint32_t i = 0; i < host->count; i++) {
        uint32_t rank = order->members[host->first + i], end = order->ends[rank], at = 0, other;
        struct weft_hop hop;
        if (lane_nic(order, rank) == WEFT_NODE_NONE)
            continue;
        lanes[count] = (struct weft_lane){.nic = lane_nic(order, rank),
                                          .end = end,
                                          .leaf = WEFT_NODE_NONE,
                                          .ranks = 1,
                                          .part_low = WEFT_NODE_NONE};
        while (weft_routes_cable(order->routes, end, &at, &hop, &other))
            lanes[count].leaf = hop.to < lanes[count].leaf ? hop.to : lanes[count].leaf;
        count++;
    }
    qsort_r(lanes, count, sizeof *lanes, lanes_by_name, (void *)(uintptr_t)order->graph);
    for (uint32_t i = 0; i < count; i++) {
        if (i && lanes[i].nic == lanes[distinct - 1].nic)
            lanes[distinct - 1].ranks++;
        else
            lanes[distinct++] = lanes[i];
    }
    for (uint32_t i = 0; i < distinct; i++) {
        int32_t rail = rail_given(order->graph, lanes[i].nic);
        lanes[i].rail = rail < 0 ? WEFT_RAILS_MAX : (uint32_t)rail;
    }
    if (!rails_differ(lanes, distinct))
        for (uint32_t i = 0; i < distinct; i++)
            lanes[i].rail = i % WEFT_RAILS_MAX;
    return distinct;
}

/* rail_of: [switch_count], the rail of most lanes on the switch. sorted: a copy of all lanes. */
static void leaves_vote(struct weft_lane *sorted, uint32_t count, uint32_t *rail_of)
{
    qsort(sorted, count, sizeof *sorted, lanes_by_leaf);
    uint32_t most = 0;
    for (uint32_t first = 0, next; first < count; first = next) {
        for (next = first; next < count && !lanes_by_leaf(&sorted[first], &sorted[next]);)
            next++;
        if (first == 0 || sorted[first].leaf != sorted[first - 1].leaf)
            most = 0;
        if (sorted[first].leaf != WEFT_NODE_NONE && next - first > most) {
            most = next - first;
            rail_of[sorted[first].leaf] = sorted[first].rail;
        }
    }
}

static void host_corrects(const struct weft_graph *graph, struct weft_lane *lanes, uint32_t count,
                          const uint32_t *rail_of)
{
    uint32_t seen = 0;
    int differ = 1;
    for (uint32_t i = 0; i < count && differ; i++) {
        differ = lanes[i].leaf != WEFT_NODE_NONE && !(seen & 1u << rail_of[lanes[i].leaf]);
        if (differ)
            seen |= 1u << rail_of[lanes[i].leaf];
    }
    for (uint32_t i = 0; differ && i < count; i++)
        lanes[i].rail = rail_of[lanes[i].leaf];
    qsort_r(lanes, count, sizeof *lanes, lanes_by_rail, (void *)(uintptr_t)graph);
}

static int nics_compare(const void *left, const void *right)
{
    const struct weft_lane *a = *(const struct weft_lane *const *)left,
                           *b = *(const struct weft_lane *const *)right;
    return a->nic < b->nic ? -1 : a->nic > b->nic;
}

/* Which lane each rank is on. */
static int ranks_assign(const struct weft_order *order, struct weft_lanes *lanes)
{
    uint32_t count = lanes->first[order->host_count];
    const struct weft_lane **sorted = malloc((count + (size_t)1) * sizeof *sorted);
    if (!sorted)
        return weft_fail(WEFT_NOMEM, "no memory for the lanes of %u ranks", order->ranks);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = &lanes->list[i];
    qsort(sorted, count, sizeof *sorted, nics_compare);
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        const struct weft_lane wanted = {.nic = lane_nic(order, rank)}, *key = &wanted;
        lanes->lane_of[rank] = WEFT_NODE_NONE;
        if (wanted.nic != WEFT_NODE_NONE) {
            const struct weft_lane **found = bsearch(&key, sorted, count, sizeof *sorted, nics_compare);
            lanes->lane_of[rank] = (uint32_t)(*found - lanes->list);
        }
    }
    free(sorted);
    return WEFT_OK;
}

int weft_lanes_find(const struct weft_order *order, struct weft_lanes *lanes)
{
    struct weft_lanes made = {0};
    size_t ranks = order->ranks, switches = order->routes->switch_count;
    struct weft_lane *sorted = malloc(ranks * sizeof *sorted);
    uint32_t *rail_of = calloc(switches + 1, sizeof *rail_of);
    made.first = malloc((order->host_count + (size_t)1) * sizeof *made.first);
    made.list = malloc(ranks * sizeof *made.list);
    made.lane_of = malloc(ranks * sizeof *made.lane_of);
    int status = WEFT_OK;
    if (!sorted || !rail_of || !made.first || !made.list || !made.lane_of)
        status = weft_fail(WEFT_NOMEM, "no memory for the lanes of %u ranks", order->ranks);
    uint32_t count = 0;
    for (uint32_t h = 0; !status && h < order->host_count; h++) {
        made.first[h] = count;
        count += host_lanes(order, &order->hosts[h], made.list + count);
    }
    if (!status) {
        made.first[order->host_count] = count;
        memcpy(sorted, made.list, count * sizeof *sorted);
        leaves_vote(sorted, count, rail_of);
        for (uint32_t h = 0; h < order->host_count; h++)
            host_corrects(order->graph, made.list + made.first[h], made.first[h + 1] - made.first[h],
                          rail_of);
        made.rail_count = 1;
        for (uint32_t i = 0; i < count; i++)
            made.rail_count = made.list[i].rail >= made.rail_count ? made.list[i].rail + 1 : made.rail_count;
        status = ranks_assign(order, &made);
    }
    free(rail_of);
    free(sorted);
    if (status)
        weft_lanes_free(&made);
    else
        *lanes = made;
    return status;
}

void weft_lanes_free(struct weft_lanes *lanes)
{
    free(lanes->lane_of);
    free(lanes->list);
    free(lanes->first);
    *lanes = (struct weft_lanes){0};
}

/* A host with m lanes that R rings pass has at least R/m of them, rounded up, on one lane, and each ring carries 1/R of the bytes.
 * So the number of rings is the one that makes the largest such share smallest; the most rings among equals, as they spread what
 * is between the hosts. 8 lanes everywhere: 8; one host with 7: 7; one host with 1: 8, as that host is what limits anyway. */
uint32_t weft_lanes_rings(const struct weft_order *order, const struct weft_lanes *lanes)
{
    uint32_t hosts_with[WEFT_RAILS_MAX + 1] = {0}, hosts = 0;
    for (uint32_t h = 0; h < order->host_count; h++) {
        uint32_t count = lanes->first[h + 1] - lanes->first[h];
        hosts_with[count < WEFT_RAILS_MAX ? count : WEFT_RAILS_MAX]++;
        hosts += count > 0;
    }
    uint32_t best = 1, best_streams = 1;
    for (uint32_t rings = 2; hosts > 1 && rings <= WEFT_RAILS_MAX; rings++) {
        uint32_t streams = 0, most = 0;
        for (uint32_t count = 1; count <= WEFT_RAILS_MAX; count++) {
            if (!hosts_with[count])
                continue;
            uint32_t on_one = (rings + count - 1) / count;
            streams = on_one > streams ? on_one : streams;
            most = count;
        }
        if (rings <= most && (uint64_t)streams * best <= (uint64_t)best_streams * rings) {
            best = rings;
            best_streams = streams;
        }
    }
    return best;
}
