/* SPDX-License-Identifier: Apache-2.0 */
/* The sharing of a host's ports: see topo/share.h. */
#include "topo/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/natural.h"
#include "topo/nics.h"
#include "topo/path.h"

struct sharing {
    const struct weft_graph *graph;
    const struct weft_place *places;
    uint32_t ranks, most;
    const uint32_t *networks;
    uint32_t *rails; /* PORT nodes */
    uint32_t rail_count;
    uint32_t *users;   /* [rail_count]: ranks that have it */
    uint8_t *allowed;  /* by node: of the network that is shared out now */
    uint32_t *nearest; /* [ranks]: PORT node on that network */
    struct weft_port_share *shares;
};

static int compare_rails(const void *left, const void *right, void *context)
{
    const struct weft_graph *graph = context;
    const struct weft_node *a = &graph->nodes[*(const uint32_t *)left];
    const struct weft_node *b = &graph->nodes[*(const uint32_t *)right];
    int names = weft_natural_compare(graph->nodes[a->parent].name, graph->nodes[b->parent].name);
    return names ? names : a->index < b->index ? -1 : a->index > b->index;
}

int weft_share_rails(const struct weft_graph *graph, uint32_t host, uint32_t **rails, uint32_t *count)
{
    uint32_t capacity = weft_graph_count_below(graph, host, WEFT_NODE_PORT), used = 0;
    uint64_t fastest = 0;
    *rails = NULL;
    *count = 0;
    if (!capacity)
        return WEFT_OK;
    uint32_t *found = malloc(capacity * sizeof *found);
    if (!found)
        return weft_fail(WEFT_NOMEM, "no memory for %u ports", capacity);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t port = weft_graph_next_below(graph, host, WEFT_NODE_PORT, WEFT_NODE_NONE);
             port != WEFT_NODE_NONE; port = weft_graph_next_below(graph, host, WEFT_NODE_PORT, port)) {
            const struct weft_node *node = &graph->nodes[port];
            if (node->state != WEFT_PORT_ACTIVE)
                continue;
            if (pass == 0)
                fastest = node->bytes_per_s > fastest ? node->bytes_per_s : fastest;
            else if (!fastest || node->bytes_per_s > fastest / 2)
                found[used++] = port;
        }
    }
    if (!used) {
        free(found);
        return WEFT_OK;
    }
    qsort_r(found, used, sizeof *found, compare_rails, (void *)(uintptr_t)graph);
    *rails = found;
    *count = used;
    return WEFT_OK;
}

static uint32_t network_of(const struct sharing *s, uint32_t rail)
{
    return s->networks ? s->networks[s->rails[rail]] : 0;
}

/* The first rail of the network that this one is on. */
static uint32_t first_of_network(const struct sharing *s, uint32_t rail)
{
    uint32_t first = 0;
    while (network_of(s, first) != network_of(s, rail))
        first++;
    return first;
}

static uint32_t count_network(const struct sharing *s, uint32_t rail)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->rail_count; i++)
        count += network_of(s, i) == network_of(s, rail);
    return count;
}

static enum weft_path_class class_of(const struct sharing *s, uint32_t rank, uint32_t port)
{
    uint32_t near = s->places[rank].near;
    return near == WEFT_NODE_NONE ? WEFT_PATH_LOC
                                  : weft_path_classify(s->graph, near, s->graph->nodes[port].parent);
}

static void give(struct sharing *s, uint32_t rank, uint32_t port)
{
    s->shares[rank].ports[s->shares[rank].count++] = port;
    for (uint32_t i = 0; i < s->rail_count; i++)
        s->users[i] += s->rails[i] == port;
}

/* Rule 1, on the network whose first rail this is. */
static int give_nearest(struct sharing *s, uint32_t first)
{
    memset(s->allowed, 0, s->graph->node_count);
    for (uint32_t i = first; i < s->rail_count; i++)
        s->allowed[s->rails[i]] = network_of(s, i) == network_of(s, first);
    int status = weft_nics_of(s->graph, s->places, s->ranks, s->allowed, s->nearest);
    for (uint32_t rank = 0; rank < s->ranks && status == WEFT_OK; rank++)
        give(s, rank, s->nearest[rank]);
    return status;
}

/* Before spare ports are given: of the rank's nearest ports, one on each network, and of these the one that fewest ranks before it
 * have as their own. */
static void choose_own(const struct sharing *s, uint32_t rank)
{
    struct weft_port_share *share = &s->shares[rank];
    uint32_t fewest = 0;
    for (uint32_t i = 0; i < share->count; i++) {
        uint32_t port = share->ports[i], owners = 0;
        for (uint32_t before = 0; before < rank; before++)
            owners += s->shares[before].own == port;
        enum weft_path_class path = class_of(s, rank, port),
                             nearest = i ? class_of(s, rank, share->own) : WEFT_PATH_DIS;
        if (i && (path > nearest || (path == nearest && owners >= fewest)))
            continue;
        share->own = port;
        fewest = owners;
    }
}

/* How many ports of the adapter the rank has. */
static uint32_t ports_of_nic(const struct sharing *s, uint32_t rank, uint32_t nic)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->shares[rank].count; i++)
        count += s->graph->nodes[s->shares[rank].ports[i]].parent == nic;
    return count;
}

/* Rule 2, one port; 0: there is none to be given, or nobody to give it to. */
static int give_spare(struct sharing *s)
{
    uint32_t to = WEFT_NODE_NONE, port = WEFT_NODE_NONE, beside = 0, fewest = s->most;
    enum weft_path_class nearest = WEFT_PATH_DIS;
    for (uint32_t rank = 0; rank < s->ranks; rank++)
        fewest = s->shares[rank].count < fewest ? s->shares[rank].count : fewest;
    for (uint32_t i = 0; i < s->rail_count && fewest < s->most; i++) {
        if (s->users[i] || count_network(s, i) < s->ranks)
            continue;
        for (uint32_t rank = 0; rank < s->ranks; rank++) {
            if (s->shares[rank].count != fewest)
                continue;
            enum weft_path_class path = class_of(s, rank, s->rails[i]);
            uint32_t others = ports_of_nic(s, rank, s->graph->nodes[s->rails[i]].parent);
            if (to != WEFT_NODE_NONE && (path > nearest || (path == nearest && others >= beside)))
                continue;
            to = rank;
            port = s->rails[i];
            nearest = path;
            beside = others;
        }
    }
    if (to != WEFT_NODE_NONE)
        give(s, to, port);
    return to != WEFT_NODE_NONE;
}

static void sort_by_rail(const struct sharing *s, struct weft_port_share *share)
{
    uint32_t sorted = 0;
    for (uint32_t i = 0; i < s->rail_count; i++) {
        for (uint32_t k = sorted; k < share->count; k++) {
            if (share->ports[k] != s->rails[i])
                continue;
            share->ports[k] = share->ports[sorted];
            share->ports[sorted++] = s->rails[i];
        }
    }
}

static int share_out(struct sharing *s)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < s->rail_count && status == WEFT_OK; i++) {
        if (first_of_network(s, i) == i)
            status = give_nearest(s, i);
    }
    for (uint32_t rank = 0; rank < s->ranks && status == WEFT_OK; rank++)
        choose_own(s, rank);
    while (status == WEFT_OK && give_spare(s))
        ;
    for (uint32_t rank = 0; rank < s->ranks && status == WEFT_OK; rank++)
        sort_by_rail(s, &s->shares[rank]);
    return status;
}

static uint32_t count_networks(const struct sharing *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->rail_count; i++)
        count += first_of_network(s, i) == i;
    return count;
}

int weft_share_ports(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                     uint32_t most, const uint32_t *networks, struct weft_port_share *shares)
{
    struct sharing s = {.graph = graph,
                        .places = places,
                        .ranks = ranks,
                        .most = most < WEFT_SHARE_MOST ? most : WEFT_SHARE_MOST,
                        .networks = networks,
                        .shares = shares};
    for (uint32_t rank = 0; rank < ranks; rank++)
        shares[rank] = (struct weft_port_share){.own = WEFT_NODE_NONE};
    int status = ranks ? weft_share_rails(graph, places[0].host, &s.rails, &s.rail_count) : WEFT_OK;
    if (status != WEFT_OK || !s.rail_count || count_networks(&s) > s.most)
        goto free_rails;
    s.users = calloc(s.rail_count, sizeof *s.users);
    s.allowed = malloc(graph->node_count);
    s.nearest = malloc(ranks * sizeof *s.nearest);
    if (s.users && s.allowed && s.nearest)
        status = share_out(&s);
    else
        status = weft_fail(WEFT_NOMEM, "no memory to share %u ports among %u ranks", s.rail_count, ranks);
    free(s.nearest);
    free(s.allowed);
    free(s.users);
free_rails:
    free(s.rails);
    return status;
}
