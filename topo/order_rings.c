/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: where each enters and leaves every host.
 *
 * All rings pass the hosts in the same order and differ in the lanes they take between them. A ring enters a host at a rank on one
 * lane, passes all its ranks, and leaves at another rank, so where every rank has a lane of its own it cannot leave on the lane it
 * came by. Going on another rail to the next host would cross switches at every host, where rails have leaves of their own:
 * the streams of all hosts below a leaf would meet on its uplinks. So the lane changes inside a host and stays between hosts: ring
 * r comes to one host on rail r and leaves on rail r + 1, comes to the next on rail r + 1 and leaves on rail r, and so on.
 *
 * With unequal hosts, missing lanes and an odd number of hosts that takes a search. A ring on shift k is on rail r + k (modulo the
 * number of rails), and rings on the same shift are on different rails whatever it is. So first one shift is sought for all rings
 * to come to each host by, and one to leave by. That is a shortest path over (host, shift), and the costs are, from dear to cheap:
 * entering and leaving at the same rank; a step to where no cable leads; more rings on a lane, in a direction, than some host's busiest
 * lane must have anyway; changing the switch within a group of tier 0; using a lane in a direction that another ring uses; in ring
 * 0, which is the order, entering and leaving within one part (NUMA node, PCI switch) of a host with several, which tears the part
 * in two so that it is no group; changing the rail between groups, or on one switch where the fabric tells that hosts hang on it and
 * not which NIC; and a shift other than 0. (With two parts and an odd number of hosts without a change of rail, one part has to be
 * torn.)
 * Dynamic programming finds the cheapest in O(hosts * rails^2 * rings) for each shift to start from. Where hosts
 * have lanes that others lack, that may leave lanes idle and others used twice: then the same search is done for one ring
 * after another, each seeing what those before use; then both once more with the lanes of each host counted instead of named by
 * their rails; and the cheapest result is taken. */
#include "topo/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define COST_SAME_RANK INT64_C(1000000000000)
#define COST_NO_WAY    INT64_C(10000000000)
#define COST_OVER      INT64_C(1000000000)
#define COST_CROSSING  INT64_C(100000000)
#define COST_USED      INT64_C(100000)
#define COST_TORN      INT64_C(10000)
#define COST_RAIL      INT64_C(100)
#define COST_NEVER     (INT64_MAX / 4)
#define STARTS_WORK                                                                                          \
    (UINT64_C(1) << 25) /* steps of the search up to which every shift is tried to start from */

enum joint { JOINT_NEAR, JOINT_RAIL, JOINT_CROSSING, JOINT_NO_WAY };

/* Rings that move together. */
struct bundle {
    uint32_t first, end;
};

struct search {
    const struct weft_order *order;
    struct weft_lanes lanes;
    uint32_t rails;
    uint32_t limit; /* rings on the busiest lane of some host, whatever is done */
    uint32_t
        *lane_at; /* [host_count][rails]: lane that stands for the rail, WEFT_NODE_NONE: the host has none */
    uint8_t *
        joints; /* [host_count][rails][rails]: from the host at a place to the next, rail left and entered by */
    uint32_t *in, *out; /* by lane: rings so far */
    int64_t *entered;   /* [rails], cost to be at a host by the shift */
    int64_t *left;
    uint8_t *entered_by; /* [host_count + 1][rails]: shift that the host before was left by */
    uint8_t *left_from;  /* [host_count][rails]: shift that the host was entered by */
    uint32_t *taken;     /* [rings][host_count][2]: lanes entered and left by, of the result being made */
    uint32_t *best;      /* the same of the best so far */
    uint32_t *part;      /* [ranks]: which part of its host a rank is in */
    uint32_t *parts;     /* [host_count]: how many parts the host has */
    uint32_t *reach;     /* by switch: equal where cables lead from one to the other */
};

static uint32_t lane_of_rail(const struct weft_lanes *lanes, uint32_t host, uint32_t rail, int counted)
{
    uint32_t first = lanes->first[host], count = lanes->first[host + 1] - first;
    for (uint32_t i = 0; i < count && !counted; i++)
        if (lanes->list[first + i].rail == rail)
            return first + i;
    return count ? first + rail % count : WEFT_NODE_NONE;
}

static uint32_t lane_at(const struct search *s, uint32_t host, uint32_t ring, uint32_t shift)
{
    return s->lane_at[(size_t)host * s->rails + (ring + shift) % s->rails];
}

/* The lanes that a ring takes at a place: in, then out. */
static uint32_t *taken_at(const struct search *s, uint32_t *taken, uint32_t ring, uint32_t at)
{
    return taken + 2 * ((size_t)ring * s->order->host_count + at);
}

static enum joint joint_of(struct search *s, uint32_t from, uint32_t left, uint32_t to, uint32_t entered)
{
    uint32_t a = s->lane_at[(size_t)from * s->rails + left], b = s->lane_at[(size_t)to * s->rails + entered];
    if (a == WEFT_NODE_NONE || b == WEFT_NODE_NONE)
        return JOINT_NEAR;
    const struct weft_lane *out = &s->lanes.list[a], *in = &s->lanes.list[b];
    if ((out->leaf != WEFT_NODE_NONE && out->leaf == in->leaf) ||
        weft_routes_adjacent(s->order->routes, out->end, in->end)) {
        int cables_known = out->end == out->nic && in->end == in->nic;
        return cables_known || out->rail == in->rail ? JOINT_NEAR : JOINT_RAIL;
    }
    if (out->leaf != WEFT_NODE_NONE && in->leaf != WEFT_NODE_NONE &&
        s->reach[out->leaf] != s->reach[in->leaf])
        return JOINT_NO_WAY;
    if (s->order->tiers[from] == s->order->tiers[to] && s->order->tiers[from] != WEFT_NODE_NONE)
        return JOINT_CROSSING;
    return out->rail == in->rail ? JOINT_NEAR : JOINT_RAIL;
}

/* What cables join, whatever hosts do: labels by search from each switch not yet labelled. */
static void reach_fill(struct search *s)
{
    const struct weft_routes *routes = s->order->routes;
    memset(s->reach, 0xff, routes->switch_count * sizeof *s->reach);
    for (uint32_t start = 0; start < routes->switch_count; start++) {
        uint32_t count = 0;
        if (s->reach[start] != WEFT_NODE_NONE)
            continue;
        routes->queue[count++] = start;
        s->reach[start] = start;
        for (uint32_t next = 0; next < count; next++) {
            uint32_t here = routes->queue[next];
            for (uint32_t h = routes->hop_first[here]; h < routes->hop_first[here + 1]; h++) {
                if (s->reach[routes->hops[h].to] == WEFT_NODE_NONE) {
                    s->reach[routes->hops[h].to] = start;
                    routes->queue[count++] = routes->hops[h].to;
                }
            }
        }
    }
}

/* counted: rails stand for a host's lanes in turn, whatever rails those are on. */
static void joints_fill(struct search *s, int counted)
{
    uint32_t hosts = s->order->host_count, most = 1;
    uint8_t *joint = s->joints;
    for (uint32_t host = 0; host < hosts; host++) {
        uint32_t count = s->lanes.first[host + 1] - s->lanes.first[host];
        most = count > most ? count : most;
    }
    s->rails = counted && most < s->lanes.rail_count ? most : s->lanes.rail_count;
    for (uint32_t host = 0; host < hosts; host++)
        for (uint32_t rail = 0; rail < s->rails; rail++)
            s->lane_at[(size_t)host * s->rails + rail] = lane_of_rail(&s->lanes, host, rail, counted);
    for (uint32_t at = 0; at < hosts; at++)
        for (uint32_t left = 0; left < s->rails; left++)
            for (uint32_t entered = 0; entered < s->rails; entered++)
                *joint++ = (uint8_t)joint_of(s, s->order->host_order[at], left,
                                             s->order->host_order[(at + 1) % hosts], entered);
}

/* Parts of a host: what the first level divides it into that divides it at all. */
static void parts_fill(struct search *s)
{
    const struct weft_order *order = s->order;
    for (uint32_t h = 0; h < order->host_count; h++) {
        const uint32_t *members = order->members + order->hosts[h].first;
        uint32_t count = order->hosts[h].count;
        s->parts[h] = 1;
        for (uint32_t i = 0; i < count; i++)
            s->part[members[i]] = 0;
        for (unsigned l = 0; l < order->level_count && s->parts[h] == 1; l++) {
            if (order->levels[l].level != WEFT_LEVEL_NUMA && order->levels[l].level != WEFT_LEVEL_BRIDGE)
                continue;
            const uint32_t *keys = order->levels[l].keys;
            for (uint32_t i = 1; i < count; i++) {
                s->parts[h] += keys[members[i]] != keys[members[i - 1]];
                s->part[members[i]] = s->parts[h] - 1;
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            if (s->lanes.lane_of[members[i]] == WEFT_NODE_NONE)
                continue;
            struct weft_lane *lane = &s->lanes.list[s->lanes.lane_of[members[i]]];
            uint32_t part = s->part[members[i]];
            lane->part_low = part < lane->part_low ? part : lane->part_low;
            lane->part_high = part > lane->part_high ? part : lane->part_high;
        }
    }
}

static int64_t host_cost(const struct search *s, uint32_t ring, uint32_t host, uint32_t entered,
                         uint32_t left)
{
    uint32_t a = lane_at(s, host, ring, entered), b = lane_at(s, host, ring, left);
    if (a == WEFT_NODE_NONE || s->order->hosts[host].count == 1)
        return 0;
    const struct weft_lane *in = &s->lanes.list[a], *out = &s->lanes.list[b];
    if (a == b && in->ranks == 1)
        return COST_SAME_RANK;
    int one_part =
        in->part_low == in->part_high && out->part_low == out->part_high && in->part_low == out->part_low;
    return ring == 0 && s->parts[host] > 1 && one_part ? COST_TORN : 0;
}

/* Of coming to or going from a host by a shift, for what others use there; used is as it was afterwards. */
static int64_t lanes_cost(const struct search *s, struct bundle bundle, uint32_t host, uint32_t shift,
                          uint32_t *used)
{
    int64_t cost = shift;
    if (lane_at(s, host, 0, 0) == WEFT_NODE_NONE)
        return cost;
    for (uint32_t ring = bundle.first; ring < bundle.end; ring++) {
        uint32_t before = used[lane_at(s, host, ring, shift)]++;
        cost += COST_USED * before + (before >= s->limit ? COST_OVER : 0);
    }
    for (uint32_t ring = bundle.first; ring < bundle.end; ring++)
        used[lane_at(s, host, ring, shift)]--;
    return cost;
}

static void host_pass(struct search *s, struct bundle bundle, uint32_t at)
{
    uint32_t host = s->order->host_order[at];
    for (uint32_t left = 0; left < s->rails; left++) {
        s->left[left] = COST_NEVER;
        for (uint32_t entered = 0; entered < s->rails; entered++) {
            int64_t cost = s->entered[entered];
            for (uint32_t ring = bundle.first; ring < bundle.end && cost < s->left[left]; ring++)
                cost += host_cost(s, ring, host, entered, left);
            if (cost < s->left[left]) {
                s->left[left] = cost;
                s->left_from[at * (size_t)s->rails + left] = (uint8_t)entered;
            }
        }
        s->left[left] += lanes_cost(s, bundle, host, left, s->out);
    }
}

static int64_t joint_cost(const struct search *s, uint32_t ring, uint32_t at, uint32_t left, uint32_t entered)
{
    static const int64_t costs[] = {0, COST_RAIL, COST_CROSSING, COST_NO_WAY};
    uint32_t out = (ring + left) % s->rails, in = (ring + entered) % s->rails;
    return costs[s->joints[((size_t)at * s->rails + out) * s->rails + in]];
}

static void joint_pass(struct search *s, struct bundle bundle, uint32_t at)
{
    uint32_t next = s->order->host_order[(at + 1) % s->order->host_count];
    for (uint32_t entered = 0; entered < s->rails; entered++) {
        s->entered[entered] = COST_NEVER;
        for (uint32_t left = 0; left < s->rails; left++) {
            int64_t cost = s->left[left];
            for (uint32_t ring = bundle.first; ring < bundle.end && cost < s->entered[entered]; ring++)
                cost += joint_cost(s, ring, at, left, entered);
            if (cost < s->entered[entered]) {
                s->entered[entered] = cost;
                s->entered_by[(at + 1) * (size_t)s->rails + entered] = (uint8_t)left;
            }
        }
        s->entered[entered] += lanes_cost(s, bundle, next, entered, s->in);
    }
}

/* The cheapest way around from the shift; kept in the result where it is below *best. */
static void around_from(struct search *s, struct bundle bundle, uint32_t start, int64_t *best)
{
    uint32_t hosts = s->order->host_count;
    for (uint32_t shift = 0; shift < s->rails; shift++)
        s->entered[shift] = shift == start ? 0 : COST_NEVER;
    for (uint32_t at = 0; at < hosts; at++) {
        host_pass(s, bundle, at);
        joint_pass(s, bundle, at);
    }
    if (s->entered[start] >= *best)
        return;
    *best = s->entered[start];
    uint32_t entered = start;
    for (uint32_t at = hosts; at-- > 0;) {
        uint32_t left = s->entered_by[(at + 1) * (size_t)s->rails + entered];
        entered = s->left_from[at * (size_t)s->rails + left];
        uint32_t host = s->order->host_order[at];
        for (uint32_t ring = bundle.first; ring < bundle.end; ring++) {
            taken_at(s, s->taken, ring, at)[0] = lane_at(s, host, ring, entered);
            taken_at(s, s->taken, ring, at)[1] = lane_at(s, host, ring, left);
        }
    }
}

/* Searches for the bundle, notes what it uses, and returns what it costs. */
static int64_t bundle_search(struct search *s, struct bundle bundle, int64_t enough)
{
    uint64_t work = (uint64_t)s->order->host_count * s->rails * s->rails * s->rails * s->order->ring_count;
    int64_t best = COST_NEVER;
    for (uint32_t start = 0; start < s->rails && best >= enough; start++) {
        around_from(s, bundle, start, &best);
        if (work > STARTS_WORK)
            break;
    }
    for (uint32_t at = 0; at < s->order->host_count; at++) {
        for (uint32_t ring = bundle.first; ring < bundle.end; ring++) {
            const uint32_t *taken = taken_at(s, s->taken, ring, at);
            if (taken[0] == WEFT_NODE_NONE)
                continue;
            s->in[taken[0]]++;
            s->out[taken[1]]++;
        }
    }
    return best;
}

/* What using lanes costs at least, and the limit: rings spread evenly over each host's, in both directions. */
static int64_t used_least(struct search *s)
{
    int64_t sum = 0;
    uint32_t rings = s->order->ring_count;
    for (uint32_t h = 0; h < s->order->host_count; h++) {
        uint32_t count = s->lanes.first[h + 1] - s->lanes.first[h];
        if (count == 0)
            continue;
        int64_t each = rings / count, more = rings % count;
        uint32_t on_one = (rings + count - 1) / count;
        s->limit = on_one > s->limit ? on_one : s->limit;
        sum += 2 * COST_USED * (more * (each * (each + 1) / 2) + (count - more) * (each * (each - 1) / 2));
    }
    return sum;
}

/* One kind of search after another until one is as good as can be; s->best has the lanes of the best. */
static void rings_search(struct search *s)
{
    uint32_t rings = s->order->ring_count, lanes = s->lanes.first[s->order->host_count];
    int64_t enough = used_least(s) + COST_USED, best = COST_NEVER;
    for (int kind = 0; kind < 4 && best >= enough; kind++) {
        int apart = kind & 1, counted = kind >> 1;
        int64_t cost = 0;
        if (rings == 1 && kind)
            break;
        if (!apart)
            joints_fill(s, counted);
        memset(s->in, 0, 2 * (size_t)lanes * sizeof *s->in); /* out is behind it */
        for (uint32_t ring = 0; apart && ring < rings; ring++)
            cost += bundle_search(s, (struct bundle){ring, ring + 1}, 0);
        if (!apart)
            cost = bundle_search(s, (struct bundle){0, rings}, enough);
        if (cost >= best)
            continue;
        uint32_t *kept = s->best;
        s->best = s->taken;
        s->taken = kept;
        best = cost;
    }
}

/* Which ranks of a host the ring enters and leaves at, given its lanes: in different parts where that can be. */
static void ranks_choose(const struct search *s, uint32_t host, uint32_t in, uint32_t out, uint32_t *enter,
                         uint32_t *leave)
{
    const uint32_t *members = s->order->members + s->order->hosts[host].first;
    const struct weft_lane *a = &s->lanes.list[in], *b = &s->lanes.list[out];
    int turned = a->part_low == b->part_high;
    uint32_t part_in = turned ? a->part_high : a->part_low, part_out = turned ? b->part_low : b->part_high;
    *enter = *leave = WEFT_NODE_NONE;
    for (uint32_t i = 0; i < s->order->hosts[host].count; i++) {
        uint32_t rank = members[i], lane = s->lanes.lane_of[rank];
        if (lane == in && s->part[rank] == part_in && *enter == WEFT_NODE_NONE)
            *enter = rank;
        else if (lane == out && s->part[rank] == part_out)
            *leave = rank;
    }
}

/* Writes members to ring, those of equal keys next to each other at every level from l down: first what has the rank to enter at,
 * last what has the one to leave at. */
static uint32_t *members_write(const struct weft_order *order, unsigned l, const uint32_t *members,
                               uint32_t count, uint32_t enter, uint32_t leave, uint32_t *ring)
{
    while (l < order->level_count && order->levels[l].level != WEFT_LEVEL_NUMA &&
           order->levels[l].level != WEFT_LEVEL_BRIDGE)
        l++;
    const uint32_t *keys = l < order->level_count ? order->levels[l].keys : NULL;
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t first = 0, next; first < count; first = next) {
            int enters = 0, leaves = 0;
            for (next = first;
                 next < count && (next == first || (keys && keys[members[next]] == keys[members[first]]));
                 next++) {
                enters |= members[next] == enter;
                leaves |= members[next] == leave;
            }
            if (turn != (enters ? 0 : leaves ? 2 : 1))
                continue;
            if (keys)
                ring = members_write(order, l + 1, members + first, next - first, enter, leave, ring);
            else
                *ring++ = members[first];
        }
    }
    return ring;
}

static void ring_write(const struct search *s, uint32_t ring)
{
    const struct weft_order *order = s->order;
    uint32_t *start = order->rings + (size_t)ring * order->ranks;
    for (uint32_t at = 0; at < order->host_count; at++) {
        uint32_t host = order->host_order[at], enter = WEFT_NODE_NONE, leave = WEFT_NODE_NONE;
        uint32_t in = taken_at(s, s->best, ring, at)[0], out = taken_at(s, s->best, ring, at)[1];
        if (in != WEFT_NODE_NONE)
            ranks_choose(s, host, in, out, &enter, &leave);
        uint32_t *end = members_write(order, 0, order->members + order->hosts[host].first,
                                      order->hosts[host].count, enter, leave, start);
        for (uint32_t *move = start; leave != WEFT_NODE_NONE && leave != enter && move + 1 < end; move++) {
            if (*move == leave) { /* it enters in the part that it leaves from */
                *move = move[1];
                move[1] = leave;
            }
        }
        start = end;
    }
}

static int search_allocate(struct search *s)
{
    size_t hosts = s->order->host_count, rails = s->rails, lanes = s->lanes.first[hosts],
           ranks = s->order->ranks;
    s->lane_at = malloc(hosts * rails * sizeof *s->lane_at);
    s->joints = malloc(hosts * rails * rails);
    s->entered_by = malloc((hosts + 1) * rails);
    s->left_from = malloc(hosts * rails);
    s->taken = malloc(2 * s->order->ring_count * hosts * sizeof *s->taken);
    s->best = malloc(2 * s->order->ring_count * hosts * sizeof *s->best);
    s->entered = malloc(2 * rails * sizeof *s->entered);
    s->in = calloc(2 * lanes + 1, sizeof *s->in);
    s->part = malloc((ranks + hosts) * sizeof *s->part);
    s->reach = malloc((s->order->routes->switch_count + (size_t)1) * sizeof *s->reach);
    if (!s->lane_at || !s->joints || !s->entered_by || !s->left_from || !s->taken || !s->best ||
        !s->entered || !s->in || !s->part || !s->reach)
        return weft_fail(WEFT_NOMEM, "no memory for rings over %u hosts", s->order->host_count);
    s->left = s->entered + rails;
    s->out = s->in + lanes;
    s->parts = s->part + ranks;
    return WEFT_OK;
}

static void search_free(struct search *s)
{
    free(s->reach);
    free(s->part);
    free(s->in);
    free(s->entered);
    free(s->best);
    free(s->taken);
    free(s->left_from);
    free(s->entered_by);
    free(s->joints);
    free(s->lane_at);
    weft_lanes_free(&s->lanes);
}

int weft_order_rings(struct weft_order *order)
{
    struct search s = {.order = order};
    int status = weft_lanes_find(order, &s.lanes);
    if (status)
        return status;
    s.rails = s.lanes.rail_count;
    if (!order->rings) {
        order->ring_count = weft_lanes_rings(order, &s.lanes);
        order->rings = malloc((size_t)order->ring_count * order->ranks * sizeof *order->rings);
        if (!order->rings)
            status =
                weft_fail(WEFT_NOMEM, "no memory for %u rings of %u ranks", order->ring_count, order->ranks);
    }
    if (!status)
        status = search_allocate(&s);
    if (!status) {
        reach_fill(&s);
        parts_fill(&s);
        rings_search(&s);
        for (uint32_t ring = 0; ring < order->ring_count; ring++)
            ring_write(&s, ring);
    }
    search_free(&s);
    return status;
}
