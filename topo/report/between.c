/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/report/between.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/report/degraded.h"
#include "topo/path_ends.h"
#include "topo/read.h"
#include "topo/report/order_load.h"

#define LINE_MAX_BYTES (3 * WEFT_NAME_SIZE_MAX)

struct weft_between {
    struct weft_graph *graph;
    struct weft_degraded *list;
    uint32_t count;
};

/* Each end of either host as a rank that sends through it, and every pair of them. */
struct traffic {
    struct weft_ends ends[2];
    struct weft_place *places;
    uint32_t *nic;
    struct weft_pair *pairs;
    struct weft_load load;
};

int weft_between_open(const char *path, struct weft_between **between)
{
    struct weft_between *made = calloc(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_NOMEM, "no memory for the fabric of %s", path);
    int status = weft_topo_read(path, &made->graph);
    if (!status)
        status = weft_degraded_find(made->graph, &made->list, &made->count);
    if (status) {
        weft_between_close(made);
        return status;
    }
    *between = made;
    return 0;
}

void weft_between_close(struct weft_between *between)
{
    if (!between)
        return;
    weft_graph_free(between->graph);
    free(between->list);
    free(between);
}

/* Up to the first dot, or all of it. */
static size_t label_size(const char *name)
{
    return strcspn(name, ".");
}

/* By its whole name first: "n1.a" and "n1.b" may both be there. */
static uint32_t find_host(const struct weft_graph *graph, const char *name)
{
    uint32_t like = WEFT_NODE_NONE;
    size_t size = label_size(name);
    for (uint32_t host = weft_graph_first(graph, WEFT_NODE_NONE); host != WEFT_NODE_NONE;
         host = graph->nodes[host].sibling_next) {
        const char *other = graph->nodes[host].name;
        if (graph->nodes[host].kind != WEFT_NODE_HOST)
            continue;
        if (strcmp(other, name) == 0)
            return host;
        int both_whole = name[size] && other[label_size(other)];
        if (!both_whole && label_size(other) == size && strncmp(other, name, size) == 0)
            like = host;
    }
    return like;
}

static int traffic_make(const struct weft_graph *graph, const uint32_t hosts[2], struct traffic *traffic)
{
    int status = 0;
    for (int side = 0; side < 2 && !status; side++)
        status = weft_path_ends(graph, hosts[side], 1, &traffic->ends[side]);
    uint32_t first = traffic->ends[0].count, ranks = first + traffic->ends[1].count, count = 0;
    if (status || first == 0 || ranks == first)
        return status;
    traffic->places = malloc(ranks * sizeof *traffic->places);
    traffic->nic = malloc(ranks * sizeof *traffic->nic);
    traffic->pairs = malloc((size_t)first * (ranks - first) * sizeof *traffic->pairs);
    if (!traffic->places || !traffic->nic || !traffic->pairs)
        return weft_fail(WEFT_NOMEM, "no memory for the ways between two hosts");
    for (uint32_t i = 0; i < ranks; i++) {
        traffic->places[i] = (struct weft_place){.host = hosts[i >= first], .near = WEFT_NODE_NONE};
        traffic->nic[i] = i < first ? traffic->ends[0].nodes[i] : traffic->ends[1].nodes[i - first];
    }
    for (uint32_t a = 0; a < first; a++) {
        for (uint32_t b = first; b < ranks; b++)
            traffic->pairs[count++] = (struct weft_pair){a, b};
    }
    return weft_load_pairs(graph, traffic->places, ranks, traffic->nic, traffic->pairs, count,
                           &traffic->load);
}

static void traffic_free(struct traffic *traffic)
{
    for (int side = 0; side < 2; side++)
        weft_path_ends_free(&traffic->ends[side]);
    free(traffic->places);
    free(traffic->nic);
    free(traffic->pairs);
    if (traffic->load.streams)
        weft_load_free(&traffic->load);
}

/* "switch [11]", "host/mlx5_0 port 1". */
static void end_text(const struct weft_graph *graph, uint32_t index, int32_t port, char text[LINE_MAX_BYTES])
{
    const struct weft_node *node = &graph->nodes[index];
    const char *host = node->host == WEFT_NODE_NONE ? "" : graph->nodes[node->host].name;
    uint32_t nic = weft_graph_above(graph, index, WEFT_NODE_NIC);
    if (node->kind == WEFT_NODE_SWITCH && port >= 0)
        snprintf(text, LINE_MAX_BYTES, "%s [%" PRId32 "]", node->name, port);
    else if (node->kind == WEFT_NODE_PORT && nic != WEFT_NODE_NONE)
        snprintf(text, LINE_MAX_BYTES, "%s/%s port %s", host, graph->nodes[nic].name, node->name);
    else
        snprintf(text, LINE_MAX_BYTES, "%s", node->name);
}

static void link_say(const struct weft_graph *graph, const struct weft_degraded *link,
                     void (*say)(void *arg, const char *text), void *arg)
{
    const struct weft_edge *edge = &graph->edges[link->edge];
    char a[LINE_MAX_BYTES], b[LINE_MAX_BYTES], name[16], line[2 * LINE_MAX_BYTES + 128];
    end_text(graph, edge->a, edge->port_a, a);
    end_text(graph, edge->b, edge->port_b, b);
    weft_ib_speed_name(edge->lanes, edge->bytes_per_s, name);
    snprintf(line, sizeof line, "degraded cable %s - %s: %.4g GB/s%s%s, could be %.4g GB/s", a, b,
             (double)edge->bytes_per_s / 1e9, *name ? ", " : "", name,
             (double)link->expected_bytes_per_s / 1e9);
    say(arg, line);
}

int weft_between_say(const struct weft_between *between, const char *host_a, const char *host_b,
                     void (*say)(void *arg, const char *text), void *arg)
{
    const struct weft_graph *graph = between->graph;
    uint32_t hosts[2] = {find_host(graph, host_a), find_host(graph, host_b)};
    struct traffic traffic = {0};
    if (!between->count || hosts[0] == WEFT_NODE_NONE || hosts[1] == WEFT_NODE_NONE || hosts[0] == hosts[1])
        return 0;
    int status = traffic_make(graph, hosts, &traffic);
    for (uint32_t i = 0; i < between->count && !status && traffic.load.streams; i++) {
        const double *streams = &traffic.load.streams[2 * (size_t)between->list[i].edge];
        if (graph->edges[between->list[i].edge].kind == WEFT_EDGE_FABRIC &&
            (streams[0] > 0 || streams[1] > 0))
            link_say(graph, &between->list[i], say, arg);
    }
    traffic_free(&traffic);
    return status;
}
