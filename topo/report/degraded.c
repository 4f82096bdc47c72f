/* SPDX-License-Identifier: Apache-2.0 */
/* The edges are passed over twice: first for what each switch and each make of adapter is seen to do, then to compare. Between,
 * the middle rate of each switch's cables to switches is found. */
#include "topo/report/degraded.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/path_search.h"

enum { LANES_OF_PORT = 4, RATES_MAX = 16 };

/* HDR: ports are split in two of two lanes since. */
#define SPLIT_LANE_BYTES_PER_S UINT64_C(6250000000)

/* Adapters of one maker's number and device number. */
struct make {
    const char *vendor, *device;
    uint64_t fastest;
};

struct search {
    const struct weft_graph *graph;
    uint64_t *fastest; /* per node: its fastest cable */
    uint64_t
        *usual; /* per switch: more than half of its cables to switches are this fast; 0: none is known */
    struct make *makes;
    uint32_t make_count, make_room;
    unsigned lanes_most;
    uint64_t whole[RATES_MAX]; /* what cables of four lanes do */
    uint32_t whole_count;
    struct weft_degraded *list;
    uint32_t count, room;
};

static int no_memory(void)
{
    return weft_fail(WEFT_NOMEM, "no memory to compare the cables of a fabric");
}

static int is_switch(const struct weft_graph *graph, uint32_t node)
{
    return graph->nodes[node].kind == WEFT_NODE_SWITCH;
}

/* A cable that carries, of which the rate of one link is known. */
static int has_rate(const struct weft_edge *edge)
{
    return edge->kind == WEFT_EDGE_FABRIC && weft_edge_carries(edge) && edge->bytes_per_s &&
           !(edge->flags & WEFT_EDGE_LINKS_UNKNOWN);
}

/* What the adapter at a cable's end is like; 0: one that is not known. */
static int make_of(const struct weft_graph *graph, uint32_t end, struct make *make)
{
    uint32_t nic = weft_graph_above(graph, end, WEFT_NODE_NIC);
    if (nic == WEFT_NODE_NONE)
        return 0;
    make->vendor = weft_graph_attribute(graph, nic, "vendid");
    make->device = weft_graph_attribute(graph, nic, "devid");
    return make->vendor && make->device;
}

static struct make *find_make(const struct search *search, const struct make *like)
{
    for (uint32_t i = 0; i < search->make_count; i++) {
        if (strcmp(search->makes[i].vendor, like->vendor) == 0 &&
            strcmp(search->makes[i].device, like->device) == 0)
            return &search->makes[i];
    }
    return NULL;
}

static int note_make(struct search *search, uint32_t end, uint64_t rate)
{
    struct make make = {.fastest = rate};
    if (is_switch(search->graph, end) || !make_of(search->graph, end, &make))
        return 0;
    struct make *known = find_make(search, &make);
    if (known) {
        known->fastest = rate > known->fastest ? rate : known->fastest;
        return 0;
    }
    if (search->make_count == search->make_room) {
        uint32_t room = search->make_room ? 2 * search->make_room : 8;
        struct make *more = realloc(search->makes, room * sizeof *more);
        if (!more)
            return no_memory();
        search->makes = more;
        search->make_room = room;
    }
    search->makes[search->make_count++] = make;
    return 0;
}

static void note_whole(struct search *search, const struct weft_edge *edge)
{
    uint32_t i = 0;
    while (i < search->whole_count && search->whole[i] != edge->bytes_per_s)
        i++;
    if (edge->lanes == LANES_OF_PORT && i == search->whole_count && i < RATES_MAX)
        search->whole[search->whole_count++] = edge->bytes_per_s;
}

/* Two lanes that are as fast as a split port's: where a cable of four lanes was trained at two it looks just like that. */
static int is_split(const struct search *search, const struct weft_edge *edge)
{
    if (edge->lanes != LANES_OF_PORT / 2)
        return 0;
    int is_lane = edge->bytes_per_s / edge->lanes >= SPLIT_LANE_BYTES_PER_S;
    for (uint32_t i = 0; i < search->whole_count && !is_lane; i++)
        is_lane = edge->bytes_per_s == search->whole[i] / 2;
    return is_lane;
}

/* What cables are seen to do. */
static int survey(struct search *search)
{
    int status = 0;
    for (uint32_t i = 0; i < search->graph->edge_count && !status; i++) {
        const struct weft_edge *edge = &search->graph->edges[i];
        if (!has_rate(edge))
            continue;
        uint32_t ends[2] = {edge->a, edge->b};
        for (int side = 0; side < 2 && !status; side++) {
            uint64_t *fastest = &search->fastest[ends[side]];
            *fastest = edge->bytes_per_s > *fastest ? edge->bytes_per_s : *fastest;
            status = note_make(search, ends[side], edge->bytes_per_s);
        }
        note_whole(search, edge);
        search->lanes_most = edge->lanes > search->lanes_most ? edge->lanes : search->lanes_most;
    }
    return status;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int compare_rates(const void *a, const void *b)
{
    const uint64_t *one = a, *other = b;
    return *one < *other ? -1 : *one > *other;
}

/* The lower one of two in the middle: what is slower than it is slower than most. rates[] has room for all its cables. */
static uint64_t usual_rate(const struct weft_graph *graph, uint32_t node, uint64_t *rates)
{
    uint32_t edges_count, count = 0;
    const uint32_t *edges = weft_graph_edges_of(graph, node, &edges_count);
    for (uint32_t i = 0; i < edges_count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        if (has_rate(edge) && is_switch(graph, weft_edge_other(edge, node)))
            rates[count++] = edge->bytes_per_s;
    }
    if (!count)
        return 0;
    qsort(rates, count, sizeof *rates, compare_rates);
    return rates[(count - 1) / 2];
}

/* Only of cables between switches: those to hosts may be faster in a network that is meant to be. */
static int survey_switches(struct search *search)
{
    const struct weft_graph *graph = search->graph;
    uint64_t *rates = calloc((size_t)graph->edge_count + 1, sizeof *rates);
    if (!rates)
        return no_memory();
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (is_switch(graph, i))
            search->usual[i] = usual_rate(graph, i, rates);
    }
    free(rates);
    return 0;
}

/* Of the cables between the same two: the rate of the fastest, and how many are as fast as this one, itself counted. */
static uint64_t fastest_of_trunk(const struct weft_graph *graph, const struct weft_edge *edge,
                                 uint32_t *alike)
{
    uint32_t count, from = edge->a, to = edge->b;
    uint64_t fastest = 0;
    if (graph->nodes[to].edges_count < graph->nodes[from].edges_count) {
        from = edge->b;
        to = edge->a;
    }
    const uint32_t *edges = weft_graph_edges_of(graph, from, &count);
    *alike = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *other = &graph->edges[edges[i]];
        if (!has_rate(other) || weft_edge_other(other, from) != to)
            continue;
        fastest = other->bytes_per_s > fastest ? other->bytes_per_s : fastest;
        *alike += other->bytes_per_s == edge->bytes_per_s;
    }
    return fastest;
}

static void judge_trunk(const struct search *search, const struct weft_edge *edge,
                        struct weft_degraded *found)
{
    uint32_t alike;
    uint64_t trunk = fastest_of_trunk(search->graph, edge, &alike);
    uint64_t both = lower(search->usual[edge->a], search->usual[edge->b]);
    if (edge->bytes_per_s < trunk) {
        found->why = WEFT_DEGRADED_TRUNK;
        found->expected_bytes_per_s = trunk;
    } else if (alike == 1 && edge->bytes_per_s < both) {
        found->why = WEFT_DEGRADED_SWITCHES;
        found->expected_bytes_per_s = both;
    }
}

static void judge_adapter(const struct search *search, const struct weft_edge *edge,
                          struct weft_degraded *found)
{
    uint32_t end = is_switch(search->graph, edge->a) ? edge->b : edge->a;
    struct make make, *known;
    if (is_switch(search->graph, edge->a) == is_switch(search->graph, edge->b) ||
        !make_of(search->graph, end, &make) || !(known = find_make(search, &make)))
        return;
    uint64_t expected = lower(known->fastest, search->fastest[weft_edge_other(edge, end)]);
    if (edge->bytes_per_s < expected - expected / 2 && edge->bytes_per_s != expected / 2) {
        found->why = WEFT_DEGRADED_ADAPTER;
        found->expected_bytes_per_s = expected;
    }
}

static void judge_cable(const struct search *search, const struct weft_edge *edge,
                        struct weft_degraded *found)
{
    if (is_split(search, edge))
        return;
    if (is_switch(search->graph, edge->a) && is_switch(search->graph, edge->b))
        judge_trunk(search, edge, found);
    else
        judge_adapter(search, edge, found);
    if (found->why == WEFT_DEGRADED_NOT && edge->lanes == 1 && search->lanes_most > 1) {
        found->why = WEFT_DEGRADED_LANE;
        found->expected_lanes = search->lanes_most < LANES_OF_PORT ? search->lanes_most : LANES_OF_PORT;
        found->expected_bytes_per_s = found->expected_lanes * edge->bytes_per_s;
    }
}

/* A card that has fewer lanes than it and its slot could. */
static void judge_slot(const struct weft_graph *graph, const struct weft_edge *edge,
                       struct weft_degraded *found)
{
    const char *most = weft_graph_attribute(graph, edge->a, "link_width_max");
    const char *has = weft_graph_attribute(graph, edge->a, "link_width");
    unsigned lanes_most = most ? (unsigned)strtoul(most, NULL, 10) : 0;
    unsigned lanes = has ? (unsigned)strtoul(has, NULL, 10) : 0;
    if (!lanes || lanes >= lanes_most || !edge->bytes_per_s)
        return;
    found->why = WEFT_DEGRADED_SLOT;
    found->expected_lanes = lanes_most;
    found->expected_bytes_per_s = edge->bytes_per_s / lanes * lanes_most;
}

static int append(struct search *search, const struct weft_degraded *found)
{
    if (search->count == search->room) {
        uint32_t room = search->room ? 2 * search->room : 8;
        struct weft_degraded *more = realloc(search->list, room * sizeof *more);
        if (!more)
            return no_memory();
        search->list = more;
        search->room = room;
    }
    search->list[search->count++] = *found;
    return 0;
}

static int compare(struct search *search)
{
    int status = 0;
    for (uint32_t i = 0; i < search->graph->edge_count && !status; i++) {
        const struct weft_edge *edge = &search->graph->edges[i];
        struct weft_degraded found = {.edge = i, .why = WEFT_DEGRADED_NOT};
        if (has_rate(edge))
            judge_cable(search, edge, &found);
        else if (edge->kind == WEFT_EDGE_PCI && edge->flags & WEFT_EDGE_PARENT)
            judge_slot(search->graph, edge, &found);
        if (found.why != WEFT_DEGRADED_NOT)
            status = append(search, &found);
    }
    return status;
}

int weft_degraded_find(const struct weft_graph *graph, struct weft_degraded **list, uint32_t *count)
{
    struct search search = {.graph = graph};
    search.fastest = calloc((size_t)graph->node_count + 1, sizeof *search.fastest);
    search.usual = calloc((size_t)graph->node_count + 1, sizeof *search.usual);
    int status = search.fastest && search.usual ? survey(&search) : no_memory();
    if (!status)
        status = survey_switches(&search);
    if (!status)
        status = compare(&search);
    free(search.usual);
    free(search.fastest);
    free(search.makes);
    if (status) {
        free(search.list);
        search.list = NULL;
        search.count = 0;
    }
    *list = search.list;
    *count = search.count;
    return status;
}

const char *weft_degraded_why_name(enum weft_degraded_why why)
{
    static const char *const names[] = {"not", "trunk", "switches", "lane", "adapter", "slot"};
    return (unsigned)why < sizeof names / sizeof *names ? names[why] : "?";
}
