/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct joint {
    uint32_t a, b;
};

struct finding {
    const struct weft_order *order;
    const struct weft_routes *routes;
    uint32_t *height;     /* by switch, WEFT_NODE_NONE: not reached */
    uint32_t *together;   /* union-find */
    uint32_t *hosts_on;   /* by switch: hosts that hang on it and on others */
    uint32_t *seen;       /* by switch: the host, plus 1, that was last seen on it */
    struct joint *joints; /* consecutive switches of a host */
    size_t joint_count;
};

static uint32_t find(uint32_t *together, uint32_t s)
{
    while (together[s] != s) {
        together[s] = together[together[s]];
        s = together[s];
    }
    return s;
}

static void unite(uint32_t *together, uint32_t a, uint32_t b)
{
    a = find(together, a);
    b = find(together, b);
    if (a < b)
        together[b] = a;
    else
        together[a] = b;
}

/* Distance from the leaves, which have height 0 already. */
static void heights_find(struct finding *f, uint32_t *queue)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < f->routes->switch_count; s++)
        if (f->height[s] == 0)
            queue[count++] = s;
    for (uint32_t next = 0; next < count; next++) {
        uint32_t here = queue[next];
        for (uint32_t h = f->routes->hop_first[here]; h < f->routes->hop_first[here + 1]; h++) {
            uint32_t to = f->routes->hops[h].to;
            if (f->height[to] == WEFT_NODE_NONE) {
                f->height[to] = f->height[here] + 1;
                queue[count++] = to;
            }
        }
    }
}

static int joints_compare(const void *left, const void *right)
{
    const struct joint *a = left, *b = right;
    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    return a->b < b->b ? -1 : a->b > b->b;
}

static int numbers_compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* The distinct switches that the host's ranks hang on, sorted; marks them as leaves. list: [switch_count]. */
static uint32_t host_switches(struct finding *f, uint32_t host, uint32_t *list)
{
    const struct weft_order_host *given = &f->order->hosts[host];
    uint32_t count = 0;
    for (uint32_t i = 0; i < given->count; i++) {
        uint32_t end = f->order->ends[f->order->members[given->first + i]], at = 0, other;
        struct weft_hop hop;
        if (end == WEFT_NODE_NONE || (i && end == f->order->ends[f->order->members[given->first + i - 1]]))
            continue;
        while (weft_routes_cable(f->routes, end, &at, &hop, &other)) {
            if (hop.to != WEFT_NODE_NONE && f->seen[hop.to] != host + 1) {
                f->seen[hop.to] = host + 1;
                f->height[hop.to] = 0;
                list[count++] = hop.to;
            }
        }
    }
    qsort(list, count, sizeof *list, numbers_compare);
    return count;
}

/* Every host with several switches joins each with the next. */
static int joints_find(struct finding *f, uint32_t *list)
{
    size_t room = 0;
    for (uint32_t host = 0; host < f->order->host_count; host++) {
        uint32_t count = host_switches(f, host, list);
        if (f->joint_count + count > room) {
            room = 2 * (f->joint_count + count);
            struct joint *more = realloc(f->joints, room * sizeof *more);
            if (!more)
                return weft_fail(WEFT_NOMEM, "no memory for the switches of %u hosts", f->order->host_count);
            f->joints = more;
        }
        for (uint32_t i = 0; count > 1 && i < count; i++) {
            f->hosts_on[list[i]]++;
            if (i)
                f->joints[f->joint_count++] = (struct joint){list[i - 1], list[i]};
        }
    }
    return WEFT_OK;
}

static void joints_unite(struct finding *f, int strict)
{
    if (f->joint_count)
        qsort(f->joints, f->joint_count, sizeof *f->joints, joints_compare);
    for (size_t first = 0, next; first < f->joint_count; first = next) {
        const struct joint *joint = &f->joints[first];
        for (next = first + 1; next < f->joint_count && !joints_compare(joint, &f->joints[next]);)
            next++;
        uint32_t a = f->hosts_on[joint->a], b = f->hosts_on[joint->b];
        if (strict || 2 * (next - first) > (a < b ? a : b))
            unite(f->together, joint->a, joint->b);
    }
}

/* Joins what is joined through switches up to the height, and writes down who is together. first: [switch_count], scratch. */
static void tier_fill(struct finding *f, uint32_t height, int cables, uint32_t *first, uint32_t *group)
{
    const struct weft_routes *routes = f->routes;
    for (uint32_t s = 0; cables && s < routes->switch_count; s++)
        for (uint32_t h = routes->hop_first[s]; f->height[s] <= height && h < routes->hop_first[s + 1]; h++)
            if (f->height[routes->hops[h].to] <= height)
                unite(f->together, s, routes->hops[h].to);
    memset(first, 0xff, routes->switch_count * sizeof *first);
    for (uint32_t s = 0; s < routes->switch_count; s++) {
        uint32_t root = find(f->together, s);
        if (f->height[s] == 0 && first[root] == WEFT_NODE_NONE)
            first[root] = s;
    }
    for (uint32_t s = 0; s < routes->switch_count; s++)
        group[s] = f->height[s] <= height ? first[find(f->together, s)] : WEFT_NODE_NONE;
}

static int tiers_make(struct finding *f, int strict, struct weft_tiers *tiers)
{
    uint32_t switches = f->routes->switch_count, highest = 0;
    int status = joints_find(f, f->routes->queue);
    if (status)
        return status;
    heights_find(f, f->routes->queue);
    joints_unite(f, strict);
    for (uint32_t s = 0; s < switches; s++)
        if (f->height[s] != WEFT_NODE_NONE && f->height[s] > highest)
            highest = f->height[s];
    unsigned count = highest + 2 < WEFT_ORDER_TIERS_MAX ? highest + 2 : WEFT_ORDER_TIERS_MAX;
    uint32_t *group = malloc(((size_t)count * switches + 1) * sizeof *group);
    if (!group)
        return weft_fail(WEFT_NOMEM, "no memory for %u tiers of %u switches", count, switches);
    for (unsigned t = 0; t < count; t++)
        tier_fill(f, t ? t - 1 : 0, t > 0, f->seen, group + (size_t)t * switches);
    *tiers = (struct weft_tiers){count, group};
    return WEFT_OK;
}

int weft_tiers_find(const struct weft_order *order, int strict, struct weft_tiers *tiers)
{
    size_t switches = order->routes->switch_count + (size_t)1;
    struct finding f = {.order = order, .routes = order->routes};
    uint32_t *numbers = calloc(4 * switches, sizeof *numbers);
    if (!numbers)
        return weft_fail(WEFT_NOMEM, "no memory for the tiers of %u switches", order->routes->switch_count);
    f.height = numbers;
    f.together = numbers + switches;
    f.hosts_on = numbers + 2 * switches;
    f.seen = numbers + 3 * switches;
    memset(f.height, 0xff, switches * sizeof *f.height);
    for (uint32_t s = 0; s < switches; s++)
        f.together[s] = s;
    int status = tiers_make(&f, strict, tiers);
    free(f.joints);
    free(numbers);
    return status;
}
