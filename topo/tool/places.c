/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/tool/places.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"

/* How many ranks the host gets. */
static uint64_t ranks_of(const struct weft_graph *graph, uint32_t host, const struct weft_topo_job *job)
{
    if (job->ranks_per_node)
        return job->ranks_per_node;
    uint32_t gpus = weft_graph_count_below(graph, host, WEFT_NODE_GPU);
    return gpus ? gpus : 1;
}

static uint32_t next_in_turn(const struct weft_graph *graph, uint32_t host, enum weft_node_kind kind,
                             uint32_t last)
{
    uint32_t next = weft_graph_next_below(graph, host, kind, last);
    return next == WEFT_NODE_NONE ? weft_graph_next_below(graph, host, kind, WEFT_NODE_NONE) : next;
}

static uint32_t host_fill(const struct weft_graph *graph, uint32_t host, uint32_t ranks,
                          struct weft_place *places)
{
    int has_gpus = weft_graph_count_below(graph, host, WEFT_NODE_GPU) > 0;
    int has_numa = weft_graph_count_below(graph, host, WEFT_NODE_NUMA) > 0;
    uint32_t near = WEFT_NODE_NONE;
    for (uint32_t i = 0; i < ranks; i++) {
        if (has_gpus || has_numa)
            near = next_in_turn(graph, host, has_gpus ? WEFT_NODE_GPU : WEFT_NODE_NUMA, near);
        places[i] = (struct weft_place){.host = host, .near = near};
    }
    return ranks;
}

/* Fisher and Yates; the remainder's bias is below 2^-40 for the sizes here. */
static void shuffle(struct weft_place *places, uint32_t ranks, uint64_t seed)
{
    for (uint32_t i = ranks; i > 1; i--) {
        uint32_t other = (uint32_t)(weft_random(&seed) % i);
        struct weft_place kept = places[i - 1];
        places[i - 1] = places[other];
        places[other] = kept;
    }
}

int weft_topo_places_make(const struct weft_graph *graph, const struct weft_topo_job *job,
                          struct weft_place **places, uint32_t *ranks)
{
    uint64_t count = 0;
    for (uint32_t host = weft_graph_first(graph, WEFT_NODE_NONE); host != WEFT_NODE_NONE;
         host = graph->nodes[host].sibling_next) {
        if (graph->nodes[host].kind == WEFT_NODE_HOST)
            count += ranks_of(graph, host, job);
    }
    if (count == 0)
        return weft_fail(WEFT_INVALID, "there is no host to place ranks on");
    if (count > WEFT_TOPO_RANKS_MAX)
        return weft_fail(WEFT_UNSUPPORTED, "that makes %" PRIu64 " ranks: expected at most %u", count,
                         WEFT_TOPO_RANKS_MAX);
    struct weft_place *made = malloc(count * sizeof *made);
    if (!made)
        return weft_fail(WEFT_NOMEM, "no memory for the places of %" PRIu64 " ranks", count);
    uint32_t filled = 0;
    for (uint32_t host = weft_graph_first(graph, WEFT_NODE_NONE); host != WEFT_NODE_NONE;
         host = graph->nodes[host].sibling_next) {
        if (graph->nodes[host].kind == WEFT_NODE_HOST)
            filled += host_fill(graph, host, (uint32_t)ranks_of(graph, host, job), made + filled);
    }
    if (job->shuffle)
        shuffle(made, filled, job->seed);
    *places = made;
    *ranks = filled;
    return WEFT_OK;
}
