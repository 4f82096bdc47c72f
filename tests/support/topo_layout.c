/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/topo_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/topo_made.h"

static int same_host(const struct weft_place *a, const struct weft_place *b)
{
    if (a->host != WEFT_NODE_NONE || b->host != WEFT_NODE_NONE)
        return a->host == b->host;
    return strcmp(a->host_name, b->host_name) == 0;
}

static void rings_check(const struct weft_place *places, const struct weft_layout *layout, int by_rank)
{
    uint32_t *seen = calloc(layout->ranks, sizeof *seen);
    assert_non_null(seen);
    assert_true(layout->ring_count >= 1);
    for (uint32_t r = 0; r < layout->ring_count; r++) {
        const uint32_t *ring = layout->rings + (size_t)r * layout->ranks;
        for (uint32_t at = 0; at < layout->ranks; at++) {
            assert_true(ring[at] < layout->ranks);
            assert_int_equal(seen[ring[at]], r);
            seen[ring[at]] = r + 1;
            if (r == 0) {
                assert_int_equal(layout->order[at], ring[at]);
                assert_int_equal(layout->position[ring[at]], at);
            }
            /* The hosts of all rings are those of ring 0, in turn. */
            assert_int_equal(layout->host_of[ring[at]], layout->host_of[layout->order[at]]);
            if (at && !by_rank)
                assert_int_equal(same_host(&places[ring[at]], &places[ring[at - 1]]),
                                 layout->host_of[ring[at]] == layout->host_of[ring[at - 1]]);
        }
    }
    free(seen);
}

static void hosts_check(const struct weft_place *places, const struct weft_layout *layout)
{
    uint32_t hosts = 0;
    const struct weft_place **first = calloc(layout->ranks, sizeof(void *));
    assert_non_null(first);
    for (uint32_t at = 0; at < layout->ranks; at++) {
        uint32_t rank = layout->order[at], host = layout->host_of[rank];
        assert_true(host <= hosts);
        if (host == hosts)
            first[hosts++] = &places[rank];
        assert_true(same_host(first[host], &places[rank]));
    }
    assert_int_equal(hosts, layout->host_count);
    free(first);
}

static void groups_check(const struct weft_graph *graph, const struct weft_place *places,
                         const struct weft_layout *layout, int by_rank)
{
    uint32_t hosts = 0;
    assert_int_equal(layout->groups[0].parent, UINT32_MAX);
    assert_int_equal(layout->groups[0].count, layout->ranks);
    assert_int_equal(layout->groups[0].level, WEFT_LEVEL_JOB);
    for (uint32_t g = 1; g < layout->group_count; g++) {
        const struct weft_group_span *group = &layout->groups[g], *parent = &layout->groups[group->parent];
        assert_true(group->parent < g);
        assert_int_equal(group->depth, parent->depth + 1);
        assert_true(group->level > parent->level ||
                    (group->level == parent->level && group->level == WEFT_LEVEL_SWITCH));
        assert_true(group->count >= 1);
        assert_true(group->first >= parent->first &&
                    group->first + group->count <= parent->first + parent->count);
        for (uint32_t before = g - 1; before > group->parent; before--)
            if (layout->groups[before].parent == group->parent) {
                assert_true(layout->groups[before].first + layout->groups[before].count <= group->first);
                break;
            }
        for (uint32_t at = group->first; at < group->first + group->count; at++) {
            const struct weft_place *place = &places[layout->order[at]];
            if (group->level == WEFT_LEVEL_HOST)
                assert_true(same_host(place, &places[layout->order[group->first]]));
            else if (group->level == WEFT_LEVEL_NUMA || group->level == WEFT_LEVEL_BRIDGE)
                assert_true(place->near != WEFT_NODE_NONE);
            if (group->level == WEFT_LEVEL_NUMA)
                assert_int_equal(weft_graph_above(graph, place->near, WEFT_NODE_NUMA), group->node);
        }
        hosts += group->level == WEFT_LEVEL_HOST;
    }
    if (!by_rank)
        assert_int_equal(hosts, layout->host_count);
}

void layout_check(const struct weft_graph *graph, const struct weft_place *places,
                  const struct weft_layout *layout, int by_rank)
{
    rings_check(places, layout, by_rank);
    hosts_check(places, layout);
    groups_check(graph, places, layout, by_rank);
}

uint32_t layout_places(const struct weft_graph *graph, uint32_t ranks_per_host, uint64_t seed,
                       struct weft_place **places)
{
    uint32_t hosts = weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST), count = 0;
    struct weft_place *list = malloc((size_t)hosts * ranks_per_host * sizeof *list);
    assert_non_null(list);
    for (uint32_t host = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST, WEFT_NODE_NONE);
         host != WEFT_NODE_NONE; host = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST, host)) {
        if (weft_graph_next_below(graph, host, WEFT_NODE_NIC, WEFT_NODE_NONE) == WEFT_NODE_NONE)
            continue;
        int gpus = weft_graph_count_below(graph, host, WEFT_NODE_GPU) >= ranks_per_host;
        uint32_t gpu = WEFT_NODE_NONE;
        for (uint32_t r = 0; r < ranks_per_host; r++) {
            if (gpus)
                gpu = weft_graph_next_below(graph, host, WEFT_NODE_GPU, gpu);
            list[count++] = (struct weft_place){.host = host, .near = gpu};
        }
    }
    for (uint32_t i = count; seed && i > 1; i--) {
        uint32_t other = made_random(&seed, i);
        struct weft_place kept = list[i - 1];
        list[i - 1] = list[other];
        list[other] = kept;
    }
    *places = list;
    return count;
}

uint32_t layout_groups(const struct weft_layout *layout, enum weft_level level)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < layout->group_count; g++)
        count += layout->groups[g].level == level;
    return count;
}
