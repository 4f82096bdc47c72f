/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that are alike: the same picture would be drawn of them but for their name.
 *
 * Every node gets a digest of what it is and of the digest of its parent; a host's is the sum of those of its nodes and
 * of its edges, so that neither order nor the host's own name matters. Ranks count by number only. Digests are of 64 bits;
 * two hosts that differ and meet in one would be drawn as one kind, which harms nobody.
 */
#include "topo/tool/draw.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "topo/natural.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
    return weft_mix(a * 0x9e3779b97f4a7c15u + b + 0x7f4a7c15u);
}

static uint64_t mix_text(uint64_t digest, const char *text)
{
    return mix(text ? weft_hash_text(digest, text) : digest, 1);
}

static uint64_t digest_node(const struct weft_graph *graph, uint32_t n, uint64_t above)
{
    const struct weft_node *node = &graph->nodes[n];
    uint64_t digest = mix(above, node->kind);
    if (node->kind == WEFT_NODE_RANK)
        return digest;
    digest = mix(digest, (uint64_t)node->bridge << 32 | (uint64_t)node->state << 16 | node->flags);
    if (node->kind == WEFT_NODE_HOST)
        return digest;
    digest = mix(digest, (uint64_t)(uint32_t)node->index << 32 | (uint32_t)node->rail);
    digest = mix_text(mix_text(mix(digest, node->bytes_per_s), node->name), node->pci);
    if (node->parent_edge != WEFT_NODE_NONE)
        digest = mix(digest, graph->edges[node->parent_edge].bytes_per_s);
    return digest;
}

/* A host of which more is known than how it is cabled. */
static int is_described(const struct weft_graph *graph, uint32_t host)
{
    static const uint8_t kinds[] = {WEFT_NODE_GPU, WEFT_NODE_NUMA, WEFT_NODE_BRIDGE, WEFT_NODE_CORE};
    for (size_t i = 0; i < sizeof kinds; i++) {
        if (weft_graph_next_below(graph, host, (enum weft_node_kind)kinds[i], WEFT_NODE_NONE) !=
            WEFT_NODE_NONE)
            return 1;
    }
    return 0;
}

struct named_host {
    uint64_t digest;
    uint32_t host;
    const char *name;
};

static int by_digest(const void *a, const void *b)
{
    const struct named_host *p = a, *q = b;
    if (p->digest != q->digest)
        return p->digest < q->digest ? -1 : 1;
    return weft_natural_compare(p->name, q->name);
}

static int by_count(const void *a, const void *b, void *context)
{
    const struct draw_kind *p = a, *q = b;
    const struct weft_graph *graph = context;
    if (p->count != q->count)
        return p->count > q->count ? -1 : 1;
    return weft_natural_compare(graph->nodes[p->hosts[0]].name, graph->nodes[q->hosts[0]].name);
}

/* The digests of all nodes, parents before children. */
static void digest_all(const struct weft_graph *graph, uint64_t *digests)
{
    uint32_t n = weft_graph_first(graph, WEFT_NODE_NONE);
    while (n != WEFT_NODE_NONE) {
        uint32_t parent = graph->nodes[n].parent, next = weft_graph_first(graph, n);
        digests[n] = digest_node(graph, n, parent == WEFT_NODE_NONE ? 0 : digests[parent]);
        while (next == WEFT_NODE_NONE && n != WEFT_NODE_NONE) {
            next = graph->nodes[n].sibling_next;
            n = graph->nodes[n].parent;
        }
        n = next;
    }
}

/* The sums, kept at the hosts' own places in a second list. */
static void sum_up(const struct weft_graph *graph, const uint64_t *digests, uint64_t *sums)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].host != WEFT_NODE_NONE)
            sums[graph->nodes[n].host] += mix(digests[n], 2);
    }
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct weft_edge *edge = &graph->edges[e];
        uint32_t host = graph->nodes[edge->a].host;
        if (edge->flags & WEFT_EDGE_PARENT || host == WEFT_NODE_NONE || graph->nodes[edge->b].host != host)
            continue;
        uint64_t digest = mix(digests[edge->a] + digests[edge->b], (uint64_t)edge->kind << 32 | edge->flags);
        sums[host] += mix(mix(digest, edge->links), edge->bytes_per_s);
    }
}

struct draw_kind *draw_kinds(struct draw_sheet *sheet, const struct weft_graph *graph, uint32_t *count)
{
    size_t nodes = (size_t)graph->node_count + 1;
    uint64_t *digests = draw_alloc(sheet, nodes * sizeof *digests),
             *sums = draw_alloc(sheet, nodes * sizeof *sums);
    uint32_t total = 0, described = 0, switches = 0;
    *count = 0;
    if (sheet->failed)
        return NULL;
    digest_all(graph, digests);
    sum_up(graph, digests, sums);
    for (uint32_t n = weft_graph_first(graph, WEFT_NODE_NONE); n != WEFT_NODE_NONE;
         n = graph->nodes[n].sibling_next) {
        total += graph->nodes[n].kind == WEFT_NODE_HOST;
        switches += graph->nodes[n].kind == WEFT_NODE_SWITCH;
    }
    struct named_host *hosts = draw_alloc(sheet, (total + 1) * sizeof *hosts);
    struct draw_kind *kinds = draw_alloc(sheet, (total + 1) * sizeof *kinds);
    uint32_t *members = draw_alloc(sheet, (total + 1) * sizeof *members);
    if (sheet->failed)
        return NULL;
    for (uint32_t n = weft_graph_first(graph, WEFT_NODE_NONE); n != WEFT_NODE_NONE;
         n = graph->nodes[n].sibling_next) {
        if (graph->nodes[n].kind == WEFT_NODE_HOST && (switches == 0 || is_described(graph, n)))
            hosts[described++] = (struct named_host){sums[n], n, graph->nodes[n].name};
    }
    if (described)
        qsort(hosts, described, sizeof *hosts, by_digest);
    for (uint32_t i = 0; i < described; i++) {
        members[i] = hosts[i].host;
        if (i == 0 || hosts[i].digest != hosts[i - 1].digest)
            kinds[(*count)++] = (struct draw_kind){hosts[i].digest, &members[i], 0};
        kinds[*count - 1].count++;
    }
    if (*count)
        qsort_r(kinds, *count, sizeof *kinds, by_count, (void *)(uintptr_t)graph);
    return kinds;
}
