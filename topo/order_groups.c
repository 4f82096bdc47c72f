/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of a layout: for every level, the runs of ranks with equal keys along the order.
 *
 * A key that appears in several runs has no group at all: a group is contiguous or is none. (Along an order that was made
 * from the same keys there are no such runs; along the ranks as they are numbered, and for what a ring had to divide, there
 * may be.) Whole levels are then left out that tell nothing: where each group is all of the group around it, where every
 * group is a single rank, and tiers of switches where every group is a single host. */
#include "topo/order_parts.h"

#include <stdlib.h>

#include "base/error.h"

struct run {
    uint32_t key, first, count;
    unsigned whole; /* the only run of its key */
};

struct runs {
    uint32_t count;
    struct run *list; /* by position */
    uint32_t *run_at; /* [ranks]: index of the run that starts at the position, or WEFT_NODE_NONE */
};

static int runs_compare(const void *left, const void *right, void *context)
{
    const struct run *list = context, *a = &list[*(const uint32_t *)left],
                     *b = &list[*(const uint32_t *)right];
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return a->first < b->first ? -1 : a->first > b->first;
}

/* sorted: [ranks], scratch. */
static void runs_find(const struct weft_order *order, const uint32_t *keys, uint32_t *sorted,
                      struct runs *runs)
{
    const uint32_t *ring = order->rings;
    runs->count = 0;
    for (uint32_t at = 0; at < order->ranks; at++) {
        runs->run_at[at] = WEFT_NODE_NONE;
        if (at == 0 || keys[ring[at]] != keys[ring[at - 1]]) {
            runs->list[runs->count++] = (struct run){keys[ring[at]], at, 0, 1};
        }
        runs->list[runs->count - 1].count++;
    }
    for (uint32_t i = 0; i < runs->count; i++) {
        sorted[i] = i;
    }
    qsort_r(sorted, runs->count, sizeof *sorted, runs_compare, runs->list);
    for (uint32_t i = 1; i < runs->count; i++) {
        if (runs->list[sorted[i]].key == runs->list[sorted[i - 1]].key) {
            runs->list[sorted[i]].whole = runs->list[sorted[i - 1]].whole = 0;
        }
    }
    for (uint32_t i = 0; i < runs->count; i++) {
        if (runs->list[i].whole && runs->list[i].key != WEFT_NODE_NONE) {
            runs->run_at[runs->list[i].first] = i;
        }
    }
}

/* Whether the level says more than what is around it. around: [ranks], for each position how many ranks the smallest group
 * around it has. */
static int runs_differ(const struct weft_order *order, enum weft_level level, const struct runs *runs,
                       const uint32_t *around)
{
    int divides = 0, joins = 0;
    for (uint32_t at = 0; at < order->ranks; at++) {
        if (runs->run_at[at] == WEFT_NODE_NONE) {
            continue;
        }
        uint32_t count = runs->list[runs->run_at[at]].count;
        uint32_t alone =
            level == WEFT_LEVEL_SWITCH ? order->hosts[order->host_of[order->rings[at]]].count : 1;
        divides |= count < around[at];
        joins |= count > alone;
    }
    return level == WEFT_LEVEL_HOST || (divides && joins);
}

static void groups_fill(struct weft_order *order, const struct runs *levels, unsigned level_count)
{
    struct {
        uint32_t group, end;
    } open[WEFT_ORDER_LEVELS_MAX + 1] = {{0, order->ranks}};
    unsigned depth = 0;
    uint32_t groups = 0;
    order->groups[groups++] =
        (struct weft_group_span){UINT32_MAX, 0, order->ranks, 0, WEFT_LEVEL_JOB, WEFT_NODE_NONE};
    for (uint32_t at = 0; at < order->ranks; at++) {
        while (depth > 0 && open[depth].end <= at) {
            depth--;
        }
        for (unsigned l = 0; l < level_count; l++) {
            if (!levels[l].list || levels[l].run_at[at] == WEFT_NODE_NONE) {
                continue;
            }
            const struct run *run = &levels[l].list[levels[l].run_at[at]];
            enum weft_level level = order->levels[l].level;
            order->groups[groups] = (struct weft_group_span){
                .parent = open[depth].group,
                .first = at,
                .count = run->count,
                .depth = (uint16_t)(depth + 1),
                .level = (uint16_t)level,
                .node = level == WEFT_LEVEL_HOST ? order->hosts[run->key].node : run->key,
            };
            depth++;
            open[depth].group = groups++;
            open[depth].end = at + run->count;
        }
    }
    order->group_count = groups;
}

static void runs_free(struct runs *runs)
{
    free(runs->list);
    free(runs->run_at);
    *runs = (struct runs){0};
}

/* Keeps in levels[] what tells something, the rest is left empty; returns how many groups that makes. */
static int levels_choose(const struct weft_order *order, struct runs *levels, uint32_t *scratch,
                         uint64_t *groups)
{
    uint32_t *around = scratch + order->ranks;
    for (uint32_t at = 0; at < order->ranks; at++) {
        around[at] = order->ranks;
    }
    *groups = 1;
    for (unsigned l = 0; l < order->level_count; l++) {
        struct runs *runs = &levels[l];
        runs->list = malloc(order->ranks * sizeof *runs->list);
        runs->run_at = malloc(order->ranks * sizeof *runs->run_at);
        if (!runs->list || !runs->run_at) {
            return weft_fail(WEFT_NOMEM, "no memory for the groups of %u ranks", order->ranks);
        }
        runs_find(order, order->levels[l].keys, scratch, runs);
        if (!runs_differ(order, order->levels[l].level, runs, around)) {
            runs_free(runs);
            continue;
        }
        for (uint32_t i = 0; i < runs->count; i++) {
            const struct run *run = &runs->list[i];
            if (runs->run_at[run->first] == WEFT_NODE_NONE) {
                continue;
            }
            (*groups)++;
            for (uint32_t at = run->first; at < run->first + run->count; at++) {
                around[at] = run->count;
            }
        }
    }
    return WEFT_OK;
}

int weft_order_group(struct weft_order *order)
{
    struct runs levels[WEFT_ORDER_LEVELS_MAX] = {{0}};
    uint64_t groups = 0;
    int status = WEFT_NOMEM;
    uint32_t *scratch = malloc(2 * (size_t)order->ranks * sizeof *scratch);
    if (scratch) {
        status = levels_choose(order, levels, scratch, &groups);
    } else {
        weft_fail(WEFT_NOMEM, "no memory for the groups of %u ranks", order->ranks);
    }
    if (!status) {
        order->groups = malloc((size_t)groups * sizeof *order->groups);
        status = order->groups ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for %u groups", (unsigned)groups);
    }
    if (!status) {
        groups_fill(order, levels, order->level_count);
    }
    for (unsigned l = 0; l < order->level_count; l++) {
        runs_free(&levels[l]);
    }
    free(scratch);
    return status;
}
