/* SPDX-License-Identifier: Apache-2.0 */
/* How flows divide over shortest routes.
 *
 * All flows to one switch are spread at once: a search from that switch outwards gives every switch its distance, each flow
 * is put down at the switch it enters, and then, from the farthest switch to the nearest, what stands at a switch is divided over
 * its cables that lead one step nearer. So the cost is one walk over the fabric for every switch that something goes to, however
 * many flows there are; and the walk ends where the last flow is met. An end on several switches is a goal of its own,
 * since its flows arrive at whichever of them is nearest. */
#include "topo/routes.h"

#include <stdlib.h>

#include "base/error.h"

struct task {
    uint32_t from, to;
    uint32_t goal; /* the switch, or switch_count + the end's node where it has several */
};

static int tasks_compare(const void *left, const void *right)
{
    const struct task *a = left, *b = right;
    if (a->goal != b->goal)
        return a->goal < b->goal ? -1 : 1;
    return 0; /* sums of equal parts do not depend on their order */
}

/* The one switch that the end hangs on; WEFT_NODE_NONE: none, or several. */
static uint32_t only_switch(const struct weft_routes *routes, uint32_t end, unsigned *several)
{
    struct weft_hop hop;
    uint32_t at = 0, other, found = WEFT_NODE_NONE;
    *several = 0;
    while (weft_routes_cable(routes, end, &at, &hop, &other)) {
        if (hop.to == WEFT_NODE_NONE)
            continue;
        if (found != WEFT_NODE_NONE && found != hop.to) {
            *several = 1;
            return WEFT_NODE_NONE;
        }
        found = hop.to;
    }
    return found;
}

/* Puts amount on the cables between an end and a switch, up (towards the switch) or down. */
static void cables_load(const struct weft_routes *routes, uint32_t end, uint32_t goal, double amount,
                        int down, double *streams)
{
    struct weft_hop hop;
    uint32_t at = 0, other;
    double links = 0;
    while (weft_routes_cable(routes, end, &at, &hop, &other))
        links += hop.to == goal ? hop.links : 0;
    at = 0;
    while (weft_routes_cable(routes, end, &at, &hop, &other))
        if (hop.to == goal)
            streams[down ? hop.slot ^ 1 : hop.slot] += amount * hop.links / links;
}

/* A flow between ends that are cabled to each other; 0 where they are not. */
static int direct_load(const struct weft_routes *routes, const struct weft_flow *flow, double *streams)
{
    struct weft_hop hop;
    uint32_t at = 0, other;
    double links = 0;
    while (weft_routes_cable(routes, flow->from, &at, &hop, &other))
        links += other == flow->to ? hop.links : 0;
    at = 0;
    while (links > 0 && weft_routes_cable(routes, flow->from, &at, &hop, &other))
        if (other == flow->to)
            streams[hop.slot] += hop.links / links;
    return links > 0;
}

/* A flow whose ends have a switch in common: it goes over that switch, or evenly over all such. */
static int adjacent_load(const struct weft_routes *routes, const struct weft_flow *flow, uint32_t goal,
                         double *streams)
{
    struct weft_hop hop;
    uint32_t at = 0, other;
    while (weft_routes_cable(routes, flow->from, &at, &hop, &other)) {
        if (hop.to == goal) {
            cables_load(routes, flow->from, goal, 1, 0, streams);
            cables_load(routes, flow->to, goal, 1, 1, streams);
            return 1;
        }
    }
    return 0;
}

/* Marks the switches that the tasks start from; returns how many, or UINT32_MAX where the whole fabric is to be walked. */
static uint32_t sources_mark(struct weft_routes *routes, const struct task *tasks, uint64_t count)
{
    uint32_t marked = 0;
    int all = 0;
    for (uint64_t i = 0; i < count; i++) {
        unsigned several;
        uint32_t source = only_switch(routes, tasks[i].from, &several);
        all |= several;
        if (source != WEFT_NODE_NONE && !routes->wanted[source]) {
            routes->wanted[source] = 1;
            marked++;
        }
    }
    return all ? UINT32_MAX : marked;
}

/* Distances from the goal; returns how many switches were reached, in routes->queue. */
static uint32_t search(struct weft_routes *routes, const struct task *tasks, uint64_t count)
{
    uint32_t wanted = sources_mark(routes, tasks, count), reached = 0;
    struct weft_hop hop;
    uint32_t at = 0, other;
    while (weft_routes_cable(routes, tasks->to, &at, &hop, &other)) {
        if (hop.to != WEFT_NODE_NONE && routes->distance[hop.to] == WEFT_NODE_NONE) {
            routes->distance[hop.to] = 0;
            routes->queue[reached++] = hop.to;
            wanted -= wanted != UINT32_MAX && routes->wanted[hop.to];
        }
    }
    for (uint32_t next = 0; next < reached && wanted > 0; next++) {
        uint32_t here = routes->queue[next];
        for (uint32_t h = routes->hop_first[here]; h < routes->hop_first[here + 1]; h++) {
            uint32_t to = routes->hops[h].to;
            if (routes->distance[to] != WEFT_NODE_NONE)
                continue;
            routes->distance[to] = routes->distance[here] + 1;
            routes->queue[reached++] = to;
            wanted -= wanted != UINT32_MAX && routes->wanted[to];
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        unsigned several;
        uint32_t source = only_switch(routes, tasks[i].from, &several);
        if (source != WEFT_NODE_NONE)
            routes->wanted[source] = 0;
    }
    return reached;
}

/* Puts the flow down at the nearest switches of its end. Returns 0 where none leads to the goal. */
static int source_load(struct weft_routes *routes, uint32_t end, double *streams)
{
    struct weft_hop hop;
    uint32_t at = 0, other, nearest = WEFT_NODE_NONE;
    double links = 0;
    while (weft_routes_cable(routes, end, &at, &hop, &other)) {
        if (hop.to == WEFT_NODE_NONE || routes->distance[hop.to] == WEFT_NODE_NONE)
            continue;
        if (routes->distance[hop.to] < nearest) {
            nearest = routes->distance[hop.to];
            links = 0;
        }
        links += routes->distance[hop.to] == nearest ? hop.links : 0;
    }
    at = 0;
    while (nearest != WEFT_NODE_NONE && weft_routes_cable(routes, end, &at, &hop, &other)) {
        if (hop.to != WEFT_NODE_NONE && routes->distance[hop.to] == nearest) {
            streams[hop.slot] += hop.links / links;
            routes->here[hop.to] += hop.links / links;
        }
    }
    return nearest != WEFT_NODE_NONE;
}

static void switch_load(struct weft_routes *routes, uint32_t here, double *streams)
{
    const struct weft_hop *first = routes->hops + routes->hop_first[here],
                          *end = routes->hops + routes->hop_first[here + 1];
    double links = 0;
    for (const struct weft_hop *hop = first; hop < end; hop++)
        links += routes->distance[hop->to] + 1 == routes->distance[here] ? hop->links : 0;
    for (const struct weft_hop *hop = first; hop < end; hop++) {
        if (routes->distance[hop->to] + 1 == routes->distance[here]) {
            double part = routes->here[here] * hop->links / links;
            streams[hop->slot] += part;
            routes->here[hop->to] += part;
        }
    }
}

/* All flows to one goal. */
static void goal_load(struct weft_routes *routes, const struct task *tasks, uint64_t count, double *streams)
{
    uint32_t reached = search(routes, tasks, count);
    for (uint64_t i = 0; i < count; i++) {
        if (source_load(routes, tasks[i].from, streams) && tasks[i].goal < routes->switch_count)
            cables_load(routes, tasks[i].to, tasks[i].goal, 1, 1, streams);
    }
    for (uint32_t i = reached; i-- > 0;) {
        uint32_t here = routes->queue[i];
        if (routes->here[here] > 0 && routes->distance[here] > 0)
            switch_load(routes, here, streams);
        else if (routes->here[here] > 0 && tasks->goal >= routes->switch_count)
            cables_load(routes, tasks->to, here, routes->here[here], 1, streams);
    }
    for (uint32_t i = 0; i < reached; i++) {
        routes->here[routes->queue[i]] = 0;
        routes->distance[routes->queue[i]] = WEFT_NODE_NONE;
    }
}

int weft_routes_spread(struct weft_routes *routes, const struct weft_flow *flows, uint64_t count,
                       double *streams)
{
    struct task *tasks = malloc((count ? count : 1) * sizeof *tasks);
    if (!tasks)
        return weft_fail(WEFT_NOMEM, "no memory for %llu flows", (unsigned long long)count);
    uint64_t far = 0;
    for (uint64_t i = 0; i < count; i++) {
        unsigned several;
        uint32_t goal = only_switch(routes, flows[i].to, &several);
        if (direct_load(routes, &flows[i], streams))
            continue;
        if (goal == WEFT_NODE_NONE && !several)
            continue; /* cabled to something else than a switch */
        if (goal != WEFT_NODE_NONE && adjacent_load(routes, &flows[i], goal, streams))
            continue;
        tasks[far++] =
            (struct task){flows[i].from, flows[i].to, several ? routes->switch_count + flows[i].to : goal};
    }
    qsort(tasks, far, sizeof *tasks, tasks_compare);
    for (uint64_t first = 0, next; first < far; first = next) {
        for (next = first + 1; next < far && tasks[next].goal == tasks[first].goal;)
            next++;
        goal_load(routes, tasks + first, next - first, streams);
    }
    free(tasks);
    return WEFT_OK;
}
