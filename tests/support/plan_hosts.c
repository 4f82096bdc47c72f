/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/plan_hosts.h"

#include <stdio.h>
#include <stdlib.h>

#include "topo/order.h"
#include "topo/read.h"

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* What tests cannot go on without. */
static void *must(void *made)
{
    if (!made)
        exit(99);
    return made;
}

static uint32_t *order_random(uint32_t ranks, uint64_t *state)
{
    uint32_t *order = must(calloc(ranks, sizeof *order));
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t other = (uint32_t)(draw(state) % (i + 1));
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

/* Ring 0 is the order, the others pass the ranks of each host at random. */
static uint32_t *rings_random(const uint32_t *sizes, uint32_t ranks, uint32_t rings, const uint32_t *order,
                              uint64_t *state)
{
    uint32_t *all = must(calloc((size_t)rings * ranks, sizeof *all));
    for (uint32_t r = 0; r < rings; r++) {
        uint32_t *ring = all + (size_t)r * ranks;
        for (uint32_t i = 0; i < ranks; i++)
            ring[i] = order ? order[i] : i;
        for (uint32_t first = 0, host = 0; r > 0 && first < ranks; first += sizes[host++]) {
            for (uint32_t i = sizes[host]; i > 1; i--) {
                uint32_t other = first + (uint32_t)(draw(state) % i), kept = ring[first + i - 1];
                ring[first + i - 1] = ring[other];
                ring[other] = kept;
            }
        }
    }
    return all;
}

static struct weft_hosts *make(const uint32_t *sizes, uint32_t count, const uint32_t *order)
{
    struct weft_hosts *hosts = NULL;
    weft_hosts_make(sizes, count, order, &hosts);
    return must(hosts);
}

/* Hosts of any sizes. rings: 0 for any number, mostly one. */
static struct weft_hosts *any_hosts(uint32_t ranks, uint32_t rings, uint64_t seed)
{
    uint64_t state = seed * 977 + ranks;
    uint32_t *sizes = must(calloc(ranks, sizeof *sizes)), count = 0, left = ranks;
    uint32_t *order = draw(&state) % 2 ? order_random(ranks, &state) : NULL;
    uint32_t limit = 1 + (uint32_t)(draw(&state) % ranks), even = (uint32_t)(draw(&state) % 3);
    while (left > 0) {
        uint32_t size = even == 0 ? limit : 1 + (uint32_t)(draw(&state) % limit);
        sizes[count] = size < left ? size : left;
        left -= sizes[count++];
    }
    if (rings == 0)
        rings = draw(&state) % 3 ? 1 : 2 + (uint32_t)(draw(&state) % 7);
    uint32_t *all = rings_random(sizes, ranks, rings, order, &state);
    struct weft_hosts *hosts = NULL;
    weft_hosts_make_rings(sizes, count, all, rings, 0, &hosts);
    free(all);
    free(sizes);
    free(order);
    return must(hosts);
}

struct weft_hosts *plan_hosts_random(uint32_t ranks, uint64_t seed)
{
    return any_hosts(ranks, 0, seed);
}

struct weft_hosts *plan_hosts_rings(uint32_t ranks, uint32_t rings, uint64_t seed)
{
    return any_hosts(ranks, rings, seed);
}

/* As many ranks on the fabric's hosts, each near a GPU of its own, in the order of the graph. uneven: any number up to all
 * of a host's GPUs. */
static struct weft_place *place_ranks(const struct weft_graph *graph, uint32_t ranks, int uneven,
                                      uint64_t *state)
{
    struct weft_place *places = must(calloc(ranks, sizeof *places));
    uint32_t host = WEFT_NODE_NONE;
    for (uint32_t placed = 0; placed < ranks;) {
        host = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST, host);
        uint32_t gpus = weft_graph_count_below(graph, host, WEFT_NODE_GPU), gpu = WEFT_NODE_NONE;
        uint32_t size = uneven ? 1 + (uint32_t)(draw(state) % gpus) : gpus;
        for (uint32_t i = 0; i < size && placed < ranks; i++) {
            gpu = weft_graph_next_below(graph, host, WEFT_NODE_GPU, gpu);
            places[placed++] = (struct weft_place){.host = host, .near = gpu};
        }
    }
    return places;
}

struct weft_hosts *plan_hosts_railed(uint32_t ranks, uint32_t rails, uint64_t seed)
{
    uint64_t state = seed;
    char text[128];
    int uneven = seed % 2, own_leaves = seed / 2 % 2;
    uint32_t most = uneven ? ranks : (ranks + rails - 1) / rails;
    snprintf(text, sizeof text, "fat-tree:leaves=%u,nodes-per-leaf=4,gpus=%u,rails=%u,rail-optimised=%d",
             (most + 3) / 4 * (own_leaves ? rails : 1), rails, rails, own_leaves);
    struct weft_graph *graph = NULL;
    struct weft_layout *layout = NULL;
    struct weft_hosts *hosts = NULL;
    weft_topo_read(text, &graph);
    struct weft_place *places = place_ranks(must(graph), ranks, uneven, &state);
    for (uint32_t i = ranks; seed / 4 % 2 && i > 1; i--) {
        uint32_t other = (uint32_t)(draw(&state) % i);
        struct weft_place kept = places[i - 1];
        places[i - 1] = places[other];
        places[other] = kept;
    }
    weft_order_ranks(graph, places, ranks, 0, &layout);
    weft_hosts_of_layout(must(layout), &hosts);
    weft_layout_free(layout);
    weft_graph_free(graph);
    free(places);
    return must(hosts);
}

struct weft_hosts *plan_hosts_composition(uint32_t ranks, uint64_t number, const uint32_t *order)
{
    uint32_t sizes[64] = {1}, count = 1;
    for (uint32_t i = 1; i < ranks; i++) {
        count += number >> (i - 1) & 1;
        sizes[count - 1]++;
    }
    return make(sizes, count, order);
}

struct weft_hosts *plan_hosts_even(uint32_t count, uint32_t size, uint32_t last, int shuffled)
{
    uint32_t *sizes = must(calloc(count, sizeof *sizes)), *order = NULL;
    uint64_t state = count;
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = i + 1 < count ? size : last;
    if (shuffled)
        order = order_random((count - 1) * size + last, &state);
    struct weft_hosts *hosts = make(sizes, count, order);
    free(sizes);
    free(order);
    return hosts;
}

const char *plan_hosts_name(const struct weft_hosts *hosts)
{
    static char text[512];
    size_t at = (size_t)snprintf(text, sizeof text, "hosts ");
    for (uint32_t i = 0; i < hosts->count && at < sizeof text - 64; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i ? "," : "", weft_hosts_size(hosts, i));
    for (uint32_t i = 0; hosts->order && i < hosts->ranks && at < sizeof text - 64; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i ? " " : ", order ", hosts->order[i]);
    if (weft_hosts_rings(hosts) > 1)
        snprintf(text + at, sizeof text - at, ", %u rings", weft_hosts_rings(hosts));
    return text;
}
