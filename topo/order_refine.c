/* SPDX-License-Identifier: Apache-2.0 */
/* Moving groups of hosts where that lowers the highest link load.
 *
 * On a fabric that is a tree to those who use it (a fat tree is: ECMP makes its many roots one) the walk by depth is the best there
 * is and its load equals the bound, so nothing is tried. Otherwise: on a ring or mesh of switches, or where cables are
 * missing, it matters which groups are neighbours. A group of hosts, of any tier, is taken out and put in elsewhere among its
 * siblings, or a run of siblings is turned around; a move stays if the highest load gets lower, or if it stays and fewer links have it.
 * Passes over all moves go on until none helps, the bound is reached, or the work that is allowed is done. If in the end the highest
 * load is not lower than at the start, the order at the start is what counts. */
#include "topo/order_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/routes.h"

#define WORK_MAX (UINT64_C(1) << 27) /* elementary steps; about a quarter of a second */
#define CLOSE    (1 + 1e-9)          /* loads that differ by less differ by rounding */

struct score {
    double highest;
    uint32_t links; /* that have it */
};

struct refining {
    struct weft_order *order;
    struct weft_flow *flows;
    double *streams;
    uint32_t *kept;   /* [host_count]: the order before a move */
    uint32_t *blocks; /* [host_count + 1]: where the siblings start that moves are tried on */
    struct score best;
    double bound;
    uint64_t work, cost; /* left, and of one trial */
};

/* The load of all rings along host_order. */
static int score_find(struct refining *r, struct score *score)
{
    struct weft_order *order = r->order;
    const struct weft_graph *graph = order->graph;
    uint64_t flows = 0;
    r->work -= r->cost;
    for (uint32_t ring = 0; ring < order->ring_count; ring++) {
        const uint32_t *ranks = order->rings + (size_t)ring * order->ranks;
        for (uint32_t at = 0; at < order->ranks; at++) {
            uint32_t from = ranks[at], to = ranks[at + 1 < order->ranks ? at + 1 : 0];
            if (order->host_of[from] != order->host_of[to] && order->ends[from] != WEFT_NODE_NONE &&
                order->ends[to] != WEFT_NODE_NONE)
                r->flows[flows++] = (struct weft_flow){order->ends[from], order->ends[to]};
        }
    }
    memset(r->streams, 0, 2 * (size_t)graph->edge_count * sizeof *r->streams);
    int status = weft_routes_spread(order->routes, r->flows, flows, r->streams);
    *score = (struct score){0};
    for (size_t slot = 0; !status && slot < 2 * (size_t)graph->edge_count; slot++) {
        if (r->streams[slot] <= 0)
            continue;
        double load = r->streams[slot] / (graph->edges[slot / 2].links ? graph->edges[slot / 2].links : 1);
        if (load > score->highest * CLOSE)
            *score = (struct score){load, 1};
        else if (load * CLOSE >= score->highest)
            score->links++;
    }
    return status;
}

static int score_better(const struct score *a, const struct score *b)
{
    if (a->highest * CLOSE < b->highest)
        return 1;
    return a->highest <= b->highest * CLOSE && a->links < b->links;
}

/* Keeps what a move made of host_order if it is better, else takes it back. */
static int move_judge(struct refining *r, int *kept)
{
    struct weft_order *order = r->order;
    struct score score;
    int status = weft_order_rings(order);
    if (!status)
        status = score_find(r, &score);
    if (status)
        return status;
    *kept = score_better(&score, &r->best);
    if (*kept) {
        r->best = score;
        order->refined++;
        memcpy(r->kept, order->host_order, order->host_count * sizeof *r->kept);
    } else {
        memcpy(order->host_order, r->kept, order->host_count * sizeof *r->kept);
    }
    return WEFT_OK;
}

/* Takes siblings from..from + count - 1 (their hosts at blocks[]) out and puts them in before sibling `to` of those left. */
static void blocks_move(struct refining *r, uint32_t from, uint32_t to)
{
    uint32_t *hosts = r->order->host_order;
    uint32_t first = r->blocks[from], size = r->blocks[from + 1] - first;
    if (to > from) {
        uint32_t gap = r->blocks[to + 1] - r->blocks[from + 1];
        memmove(hosts + first, r->kept + r->blocks[from + 1], gap * sizeof *hosts);
        memcpy(hosts + first + gap, r->kept + first, size * sizeof *hosts);
    } else {
        uint32_t gap = first - r->blocks[to];
        memmove(hosts + r->blocks[to] + size, r->kept + r->blocks[to], gap * sizeof *hosts);
        memcpy(hosts + r->blocks[to], r->kept + first, size * sizeof *hosts);
    }
}

/* Turns the order of siblings from..to around; inside each it stays. */
static void blocks_turn(struct refining *r, uint32_t from, uint32_t to)
{
    uint32_t *hosts = r->order->host_order + r->blocks[from];
    for (uint32_t b = to + 1; b-- > from;) {
        uint32_t size = r->blocks[b + 1] - r->blocks[b];
        memcpy(hosts, r->kept + r->blocks[b], size * sizeof *hosts);
        hosts += size;
    }
}

static int done(const struct refining *r)
{
    return r->best.highest <= r->bound * CLOSE || r->work < r->cost;
}

static uint32_t host_tier(const struct weft_order *order, unsigned tier, uint32_t host)
{
    return tier < order->tier_count ? order->tiers[(size_t)tier * order->host_count + host] : 0;
}

/* Where the siblings of the tier start among the hosts of one group of the tier above; returns how many there are, and in
 * *next where the group ends. */
static uint32_t blocks_find(struct refining *r, unsigned tier, uint32_t first, uint32_t *next)
{
    const struct weft_order *order = r->order;
    const uint32_t *hosts = order->host_order;
    uint32_t count = 0, at;
    for (at = first; at < order->host_count &&
                     host_tier(order, tier + 1, hosts[at]) == host_tier(order, tier + 1, hosts[first]);
         at++)
        if (at == first || host_tier(order, tier, hosts[at]) != host_tier(order, tier, hosts[at - 1]))
            r->blocks[count++] = at;
    r->blocks[count] = *next = at;
    return count;
}

/* All moves of the siblings of one group, again from the first after one that helped. */
static int siblings_refine(struct refining *r, unsigned tier, uint32_t first, uint32_t *next, int *helped)
{
    uint32_t count = blocks_find(r, tier, first, next);
    int status = WEFT_OK;
    for (uint32_t from = 0; from < count && count > 2; from++) {
        for (uint32_t to = 0; to < 2 * count && !status && !done(r); to++) {
            int kept = 0;
            if (to < count && to != from)
                blocks_move(r, from, to);
            else if (to >= count && to - count > from)
                blocks_turn(r, from, to - count);
            else
                continue;
            status = move_judge(r, &kept);
            if (kept) {
                *helped = 1;
                blocks_find(r, tier, first, next);
            }
        }
    }
    return status;
}

static int passes_make(struct refining *r)
{
    struct weft_order *order = r->order;
    int status = WEFT_OK, helped = 1;
    while (helped && !status && !done(r)) {
        helped = 0;
        for (unsigned tier = order->tier_count; tier-- > 0 && !status;)
            for (uint32_t first = 0, next; first < order->host_count && !status; first = next)
                status = siblings_refine(r, tier, first, &next, &helped);
    }
    return status;
}

static int refine_with(struct refining *r)
{
    struct weft_order *order = r->order;
    struct weft_bound bound;
    struct score start;
    int status = weft_order_bound(order, order->ring_count, &bound);
    if (!status)
        status = score_find(r, &start);
    if (status)
        return status;
    uint32_t *before = malloc(order->host_count * sizeof *before);
    if (!before)
        return weft_fail(WEFT_NOMEM, "no memory to refine the order of %u hosts", order->host_count);
    memcpy(before, order->host_order, order->host_count * sizeof *before);
    memcpy(r->kept, before, order->host_count * sizeof *before);
    r->bound = bound.highest;
    r->best = start;
    if (!done(r)) {
        status = passes_make(r);
        if (start.highest <= r->best.highest * CLOSE) {
            memcpy(order->host_order, before, order->host_count * sizeof *before);
            order->refined = 0;
        }
        if (!status)
            status = weft_order_rings(order);
    }
    free(before);
    return status;
}

int weft_order_refine(struct weft_order *order)
{
    size_t pairs = (size_t)order->ranks * order->ring_count, slots = 2 * (size_t)order->graph->edge_count;
    struct refining r = {.order = order, .work = WORK_MAX};
    /* Rings: a search per host; load: at worst a walk over the fabric for each pair of neighbouring hosts. */
    r.cost = 16 * pairs + slots + (uint64_t)order->ring_count * order->host_count * 512 +
             (uint64_t)order->ring_count * order->host_count *
                 order->routes->hop_first[order->routes->switch_count];
    r.work += r.cost; /* for the start */
    r.flows = malloc(pairs * sizeof *r.flows);
    r.streams = malloc((slots + 1) * sizeof *r.streams);
    r.kept = malloc(order->host_count * sizeof *r.kept);
    r.blocks = malloc((order->host_count + (size_t)1) * sizeof *r.blocks);
    int status = WEFT_OK;
    if (!r.flows || !r.streams || !r.kept || !r.blocks)
        status = weft_fail(WEFT_NOMEM, "no memory to refine the order of %u hosts", order->host_count);
    if (!status)
        status = refine_with(&r);
    free(r.blocks);
    free(r.kept);
    free(r.streams);
    free(r.flows);
    return status;
}
