/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric in tiers, and equal switches in groups.
 *
 * A switch on which a host hangs is a leaf, tier 0; any other is one tier above the lowest switch that it is joined with: a
 * search in breadth from all leaves at once. Switches of a tier are alike when they have as many hosts and as many cables
 * of the same rate to hosts, up, down and across. Real fabrics have many kinds, as cables are missing here and there: a tier
 * with too many shows the most frequent ones and joins the others. Small fabrics show each switch.
 */
#include "topo/tool/draw_fabric.h"

#include <stdlib.h>
#include <string.h>

#include "topo/natural.h"

void draw_bundle_add(struct draw_bundle *bundle, const struct weft_edge *edge, uint64_t bytes_per_s)
{
    if (edge->flags & WEFT_EDGE_DOWN) {
        bundle->dead += edge->links;
        return;
    }
    bundle->uncounted |= (edge->flags & WEFT_EDGE_LINKS_UNKNOWN) != 0;
    bundle->mixed |= bundle->links > 0 && bundle->bytes_per_s != bytes_per_s;
    bundle->bytes_per_s = bytes_per_s;
    bundle->links += edge->links;
}

static int by_pair(const void *a, const void *b)
{
    const struct draw_pair *p = a, *q = b;
    if (p->at != q->at)
        return p->at < q->at ? -1 : 1;
    int order = weft_natural_compare(p->name, q->name);
    return order ? order : (p->host > q->host) - (p->host < q->host);
}

/* The rate of a cable; where it has none, that of the port it ends in. */
static uint64_t rate_of(const struct weft_graph *graph, const struct weft_edge *edge)
{
    uint64_t a = graph->nodes[edge->a].kind == WEFT_NODE_PORT ? graph->nodes[edge->a].bytes_per_s : 0;
    uint64_t b = graph->nodes[edge->b].kind == WEFT_NODE_PORT ? graph->nodes[edge->b].bytes_per_s : 0;
    return edge->bytes_per_s ? edge->bytes_per_s : a ? a : b;
}

static int by_host(const void *a, const void *b)
{
    uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    return (p > q) - (p < q);
}

/* Hosts on switches: each pair once, however many ports it has; and how many hosts there are on any. */
static int find_pairs(struct draw_sheet *sheet, struct draw_fabric *fabric)
{
    const struct weft_graph *graph = fabric->graph;
    uint32_t found = 0, kept = 0;
    fabric->pairs = draw_alloc(sheet, ((size_t)graph->edge_count + 1) * sizeof *fabric->pairs);
    uint32_t *hosts = draw_alloc(sheet, ((size_t)graph->edge_count + 1) * sizeof *hosts);
    if (sheet->failed)
        return -1;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct weft_edge *edge = &graph->edges[e];
        uint32_t a = fabric->switch_of[edge->a], b = fabric->switch_of[edge->b];
        if (edge->kind != WEFT_EDGE_FABRIC)
            continue;
        uint32_t host = graph->nodes[a == WEFT_NODE_NONE ? edge->a : edge->b].host,
                 at = a == WEFT_NODE_NONE ? b : a;
        fabric->beside += a == WEFT_NODE_NONE && b == WEFT_NODE_NONE ? edge->links : 0;
        if (at == WEFT_NODE_NONE || host == WEFT_NODE_NONE)
            continue;
        draw_bundle_add(&fabric->switches[at].to_hosts, edge, rate_of(graph, edge));
        draw_bundle_add(&fabric->to_hosts, edge, rate_of(graph, edge));
        hosts[found] = host;
        fabric->pairs[found++] = (struct draw_pair){at, host, graph->nodes[host].name};
    }
    if (found == 0)
        return 0;
    qsort(fabric->pairs, found, sizeof *fabric->pairs, by_pair);
    qsort(hosts, found, sizeof *hosts, by_host);
    for (uint32_t i = 0; i < found; i++) {
        fabric->host_count += i == 0 || hosts[i] != hosts[i - 1];
        if (kept && fabric->pairs[kept - 1].at == fabric->pairs[i].at &&
            fabric->pairs[kept - 1].host == fabric->pairs[i].host)
            continue;
        fabric->pairs[kept++] = fabric->pairs[i];
    }
    fabric->pair_count = kept;
    for (uint32_t i = kept; i-- > 0;) {
        fabric->switches[fabric->pairs[i].at].hosts++;
        fabric->switches[fabric->pairs[i].at].pairs_first = i;
    }
    return 0;
}

static int set_tiers(struct draw_sheet *sheet, struct draw_fabric *fabric)
{
    const struct weft_graph *graph = fabric->graph;
    uint32_t *queue = draw_alloc(sheet, ((size_t)fabric->switch_count + 1) * sizeof *queue), tail = 0, count;
    if (!queue)
        return -1;
    for (uint32_t i = 0; i < fabric->switch_count; i++) {
        fabric->switches[i].tier = fabric->switches[i].hosts ? 0 : WEFT_NODE_NONE;
        if (fabric->switches[i].hosts)
            queue[tail++] = i;
    }
    for (uint32_t front = 0; front < tail; front++) {
        const struct draw_switch *at = &fabric->switches[queue[front]];
        const uint32_t *edges = weft_graph_edges_of(graph, at->node, &count);
        uint32_t tier = at->tier + 1 < FABRIC_TIERS_MAX ? at->tier + 1 : FABRIC_TIERS_MAX - 1;
        fabric->tier_count = at->tier + 1;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t other = fabric->switch_of[weft_edge_other(&graph->edges[edges[i]], at->node)];
            if (other == WEFT_NODE_NONE || fabric->switches[other].tier != WEFT_NODE_NONE)
                continue;
            fabric->switches[other].tier = tier;
            queue[tail++] = other;
        }
    }
    fabric->unreached = fabric->tier_count;
    for (uint32_t i = 0; tail < fabric->switch_count && i < fabric->switch_count; i++) {
        if (fabric->switches[i].tier == WEFT_NODE_NONE)
            fabric->switches[i].tier = fabric->unreached;
    }
    fabric->tier_count += tail < fabric->switch_count;
    return 0;
}

static void add_cables(struct draw_fabric *fabric)
{
    const struct weft_graph *graph = fabric->graph;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct weft_edge *edge = &graph->edges[e];
        uint32_t a = fabric->switch_of[edge->a], b = fabric->switch_of[edge->b];
        if (edge->kind != WEFT_EDGE_FABRIC || a == WEFT_NODE_NONE || b == WEFT_NODE_NONE)
            continue;
        struct draw_switch *p = &fabric->switches[a], *q = &fabric->switches[b];
        draw_bundle_add(p->tier == q->tier  ? &p->across
                        : p->tier < q->tier ? &p->up
                                            : &p->down,
                        edge, edge->bytes_per_s);
        draw_bundle_add(p->tier == q->tier  ? &q->across
                        : p->tier < q->tier ? &q->down
                                            : &q->up,
                        edge, edge->bytes_per_s);
        if (p->tier != q->tier)
            draw_bundle_add(&fabric->tier_up[p->tier < q->tier ? p->tier : q->tier], edge, edge->bytes_per_s);
    }
}

static int compare_bundles(const struct draw_bundle *a, const struct draw_bundle *b)
{
    if (a->links != b->links)
        return a->links > b->links ? -1 : 1;
    if (a->dead != b->dead)
        return a->dead < b->dead ? -1 : 1;
    if (a->mixed != b->mixed)
        return a->mixed < b->mixed ? -1 : 1;
    return a->mixed ? 0 : (a->bytes_per_s < b->bytes_per_s) - (a->bytes_per_s > b->bytes_per_s);
}

/* 0: alike. */
static int compare_looks(const struct draw_switch *a, const struct draw_switch *b)
{
    int order = a->tier != b->tier     ? (a->tier < b->tier ? -1 : 1)
                : a->hosts != b->hosts ? (a->hosts > b->hosts ? -1 : 1)
                                       : 0;
    order = order ? order : compare_bundles(&a->to_hosts, &b->to_hosts);
    order = order ? order : compare_bundles(&a->up, &b->up);
    order = order ? order : compare_bundles(&a->down, &b->down);
    return order ? order : compare_bundles(&a->across, &b->across);
}

static int by_looks(const void *a, const void *b, void *context)
{
    const struct draw_switch *p = a, *q = b;
    const struct draw_fabric *fabric = context;
    int order = fabric->switch_count > FABRIC_SINGLES_MAX ? compare_looks(p, q)
                                                          : (p->tier > q->tier) - (p->tier < q->tier);
    return order
               ? order
               : weft_natural_compare(fabric->graph->nodes[p->node].name, fabric->graph->nodes[q->node].name);
}

static int by_name(const void *a, const void *b, void *context)
{
    const struct draw_switch *p = a, *q = b;
    const struct draw_fabric *fabric = context;
    return weft_natural_compare(fabric->graph->nodes[p->node].name, fabric->graph->nodes[q->node].name);
}

static int by_frequency(const void *a, const void *b)
{
    const struct draw_group *p = a, *q = b;
    if (p->tier != q->tier)
        return p->tier < q->tier ? -1 : 1;
    if (p->count != q->count)
        return p->count > q->count ? -1 : 1;
    return p->first < q->first ? -1 : 1;
}

static int by_first(const void *a, const void *b)
{
    const struct draw_group *p = a, *q = b;
    return (p->first > q->first) - (p->first < q->first);
}

/* Of a tier with too many groups, the most frequent stay and the others become one: their switches move to the tier's end. */
static int join_rest(struct draw_sheet *sheet, struct draw_fabric *fabric, struct draw_group *groups,
                     uint32_t count)
{
    uint32_t first = UINT32_MAX, total = 0, kept = FABRIC_GROUPS_MAX - 1, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        first = groups[i].first < first ? groups[i].first : first;
        total += groups[i].count;
    }
    struct draw_switch *moved = draw_alloc(sheet, total * sizeof *moved);
    if (!moved)
        return -1;
    qsort(groups, count, sizeof *groups, by_frequency);
    qsort(groups, kept, sizeof *groups, by_first);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(moved + at, fabric->switches + groups[i].first, groups[i].count * sizeof *moved);
        groups[i].first = first + at;
        at += groups[i].count;
    }
    memcpy(fabric->switches + first, moved, total * sizeof *moved);
    groups[kept].count = first + total - groups[kept].first;
    groups[kept].rest = 1;
    qsort_r(fabric->switches + groups[kept].first, groups[kept].count, sizeof *moved, by_name, fabric);
    return 0;
}

static int make_groups(struct draw_sheet *sheet, struct draw_fabric *fabric)
{
    uint32_t count = 0, kept = 0;
    struct draw_group *groups = draw_alloc(sheet, ((size_t)fabric->switch_count + 1) * sizeof *groups);
    if (!groups)
        return -1;
    qsort_r(fabric->switches, fabric->switch_count, sizeof *fabric->switches, by_looks, fabric);
    for (uint32_t i = 0; i < fabric->switch_count; i++) {
        if (i == 0 || fabric->switch_count <= FABRIC_SINGLES_MAX ||
            compare_looks(&fabric->switches[i - 1], &fabric->switches[i]) != 0)
            groups[count++] = (struct draw_group){.first = i, .tier = fabric->switches[i].tier};
        groups[count - 1].count++;
    }
    for (uint32_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && groups[end].tier == groups[i].tier; end++)
            ;
        uint32_t of_tier = end - i;
        if (of_tier > FABRIC_GROUPS_MAX && fabric->switch_count > FABRIC_SINGLES_MAX &&
            join_rest(sheet, fabric, groups + i, of_tier) != 0)
            return -1;
        if (of_tier > FABRIC_GROUPS_MAX && fabric->switch_count > FABRIC_SINGLES_MAX)
            of_tier = FABRIC_GROUPS_MAX;
        memmove(groups + kept, groups + i, of_tier * sizeof *groups);
        kept += of_tier;
    }
    fabric->groups = groups;
    fabric->group_count = kept;
    return 0;
}

/* Cables between groups; the switches have moved since they were numbered. */
static int join_groups(struct draw_sheet *sheet, struct draw_fabric *fabric)
{
    const struct weft_graph *graph = fabric->graph;
    fabric->between =
        draw_alloc(sheet, (size_t)fabric->group_count * fabric->group_count * sizeof *fabric->between);
    if (!fabric->between)
        return -1;
    for (uint32_t g = 0; g < fabric->group_count; g++) {
        for (uint32_t i = 0; i < fabric->groups[g].count; i++) {
            struct draw_switch *at = &fabric->switches[fabric->groups[g].first + i];
            at->group = g;
            fabric->switch_of[at->node] = fabric->groups[g].first + i;
        }
    }
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct weft_edge *edge = &graph->edges[e];
        uint32_t a = fabric->switch_of[edge->a], b = fabric->switch_of[edge->b];
        if (edge->kind != WEFT_EDGE_FABRIC || a == WEFT_NODE_NONE || b == WEFT_NODE_NONE)
            continue;
        uint32_t p = fabric->switches[a].group, q = fabric->switches[b].group;
        draw_bundle_add(&fabric->between[(p < q ? p : q) * fabric->group_count + (p < q ? q : p)], edge,
                        edge->bytes_per_s);
    }
    return 0;
}

struct draw_fabric *draw_fabric_new(struct draw_sheet *sheet, const struct weft_graph *graph)
{
    struct draw_fabric *fabric = draw_alloc(sheet, sizeof *fabric);
    if (!fabric)
        return NULL;
    fabric->graph = graph;
    fabric->switch_of = draw_alloc(sheet, ((size_t)graph->node_count + 1) * sizeof *fabric->switch_of);
    fabric->switches = NULL;
    if (!fabric->switch_of)
        return NULL;
    for (uint32_t n = 0; n < graph->node_count; n++)
        fabric->switch_of[n] =
            graph->nodes[n].kind == WEFT_NODE_SWITCH ? fabric->switch_count++ : WEFT_NODE_NONE;
    fabric->switches = draw_alloc(sheet, ((size_t)fabric->switch_count + 1) * sizeof *fabric->switches);
    if (!fabric->switches)
        return NULL;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (fabric->switch_of[n] != WEFT_NODE_NONE)
            fabric->switches[fabric->switch_of[n]].node = n;
    }
    if (find_pairs(sheet, fabric) != 0 || set_tiers(sheet, fabric) != 0)
        return NULL;
    add_cables(fabric);
    if (make_groups(sheet, fabric) != 0 || join_groups(sheet, fabric) != 0)
        return NULL;
    return fabric;
}
