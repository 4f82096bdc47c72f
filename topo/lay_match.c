/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of a fabric among machines.
 *
 * Hosts are looked for by their whole name first, then by the part before the first dot (a switch's view often has no
 * domain) where that is not ambiguous, then by a GUID of host, NIC or port. Each host is found once at most.
 */
#include "topo/lay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A host under one of its names or GUIDs. */
struct label {
    const char *name;
    size_t size;
    uint64_t guid;
    uint32_t host; /* WEFT_NODE_NONE: several have it */
};

struct labels {
    struct label *items;
    uint32_t count;
};

static int compare_labels(const void *a, const void *b)
{
    const struct label *one = a, *other = b;
    if (one->guid != other->guid)
        return one->guid < other->guid ? -1 : 1;
    size_t size = one->size < other->size ? one->size : other->size;
    int order = size ? memcmp(one->name, other->name, size) : 0;
    return order ? order : one->size < other->size ? -1 : one->size > other->size;
}

/* The host with this label; none where several have it. */
static uint32_t look_up(const struct labels *labels, const struct label *wanted)
{
    const struct label *found =
        bsearch(wanted, labels->items, labels->count, sizeof *labels->items, compare_labels);
    return found ? found->host : WEFT_NODE_NONE;
}

enum by { BY_NAME, BY_SHORT_NAME, BY_GUID, BY_COUNT };

static int is_labelled(const struct weft_node *node, enum by by)
{
    if (by != BY_GUID)
        return node->kind == WEFT_NODE_HOST;
    return node->guid && node->host != WEFT_NODE_NONE;
}

static struct label label_of(const struct weft_graph *graph, uint32_t node, enum by by)
{
    const struct weft_node *own = &graph->nodes[node];
    struct label label = {.host = own->host};
    if (by == BY_GUID) {
        label.guid = own->guid;
    } else {
        label.name = own->name;
        label.size = by == BY_NAME ? strlen(own->name) : strcspn(own->name, ".");
    }
    return label;
}

/* Leaves one of each run of equal labels. */
static void merge_equal(struct labels *labels)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < labels->count; i++) {
        const struct label *label = &labels->items[i];
        if (kept == 0 || compare_labels(&labels->items[kept - 1], label) != 0)
            labels->items[kept++] = *label;
        else if (labels->items[kept - 1].host != label->host)
            labels->items[kept - 1].host = WEFT_NODE_NONE;
    }
    labels->count = kept;
}

static int label_all(const struct weft_graph *graph, enum by by, struct labels *labels)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        count += (uint32_t)is_labelled(&graph->nodes[i], by);
    labels->count = 0;
    labels->items = malloc((count ? count : 1) * sizeof *labels->items);
    if (!labels->items)
        return weft_fail(WEFT_NOMEM, "no memory to match %u hosts", count);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (is_labelled(&graph->nodes[i], by))
            labels->items[labels->count++] = label_of(graph, i, by);
    }
    qsort(labels->items, labels->count, sizeof *labels->items, compare_labels);
    merge_equal(labels);
    return 0;
}

int weft_lay_hosts(const struct weft_graph *machines, const struct weft_graph *fabric, uint32_t *machine_of)
{
    uint8_t *taken = calloc(machines->node_count + 1, 1);
    if (!taken)
        return weft_fail(WEFT_NOMEM, "no memory to match %u nodes", machines->node_count);
    memset(machine_of, 0xff, fabric->node_count * sizeof *machine_of);
    int status = 0;
    for (int by = BY_NAME; by < BY_COUNT && !status; by++) {
        struct labels ours = {0}, theirs = {0};
        status = label_all(fabric, (enum by)by, &theirs);
        if (!status)
            status = label_all(machines, (enum by)by, &ours);
        for (uint32_t i = 0; i < ours.count && !status; i++) {
            const struct label *label = &ours.items[i];
            uint32_t host = label->host == WEFT_NODE_NONE ? WEFT_NODE_NONE : look_up(&theirs, label);
            if (host == WEFT_NODE_NONE || machine_of[host] != WEFT_NODE_NONE || taken[label->host])
                continue;
            machine_of[host] = label->host;
            taken[label->host] = 1;
        }
        free(ours.items);
        free(theirs.items);
    }
    free(taken);
    return status;
}
