#include "algos/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/order.h"

/* The hosts and the arrays behind them, for the caller to fill. order: whether there is one. */
static struct weft_hosts *allocate(uint32_t ranks, uint32_t count, int order)
{
    size_t numbers = (size_t)count + 1 + (order ? 2 * (size_t)ranks : 0);
    struct weft_hosts *hosts = malloc(sizeof *hosts + numbers * sizeof(uint32_t));
    if (!hosts)
        return NULL;
    uint32_t *first = (uint32_t *)(hosts + 1);
    uint32_t *named = order ? first + count + 1 : NULL;
    *hosts = (struct weft_hosts){ranks, count, first, named, named ? named + ranks : NULL};
    return hosts;
}

/* The arrays are writable until the hosts are handed over. */
static uint32_t *writable(const uint32_t *array)
{
    return (uint32_t *)(uintptr_t)array;
}

/* Copies the order and finds the positions; WEFT_INVALID where it is no permutation. */
static int fill_order(struct weft_hosts *hosts, const uint32_t *order)
{
    uint32_t *named = writable(hosts->order), *position = writable(hosts->position);
    memset(position, 0xff, hosts->ranks * sizeof *position);
    for (uint32_t i = 0; i < hosts->ranks; i++) {
        uint32_t rank = order[i];
        if (rank >= hosts->ranks || position[rank] != UINT32_MAX)
            return weft_fail(WEFT_INVALID,
                             "hosts: the order has rank %u at position %u, expected each of 0 to %u once",
                             rank, i, hosts->ranks - 1);
        named[i] = rank;
        position[rank] = i;
    }
    return WEFT_OK;
}

int weft_hosts_make(const uint32_t *sizes, uint32_t count, const uint32_t *order, struct weft_hosts **made)
{
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] < 1)
            return weft_fail(WEFT_INVALID, "hosts: host %u has 0 ranks, expected at least 1", i);
        ranks += sizes[i];
    }
    if (ranks < 1 || ranks > INT32_MAX)
        return weft_fail(WEFT_INVALID, "hosts: %u hosts have %llu ranks, expected 1 to %d", count,
                         (unsigned long long)ranks, INT32_MAX);
    struct weft_hosts *hosts = allocate((uint32_t)ranks, count, order != NULL);
    if (!hosts)
        return weft_fail(WEFT_NOMEM, "hosts: no memory for %u ranks", (uint32_t)ranks);
    uint32_t *first = writable(hosts->first);
    first[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        first[i + 1] = first[i] + sizes[i];
    int status = order ? fill_order(hosts, order) : WEFT_OK;
    if (status != WEFT_OK) {
        free(hosts);
        return status;
    }
    *made = hosts;
    return WEFT_OK;
}

/* Ranks of each host by position, or all as one host where a host's are not side by side. Returns how many hosts. */
static uint32_t measure(const struct weft_layout *layout, uint32_t *sizes)
{
    uint32_t count = 0, last = UINT32_MAX;
    memset(sizes, 0, layout->host_count * sizeof *sizes);
    for (uint32_t i = 0; i < layout->ranks; i++) {
        uint32_t host = layout->host_of[layout->order[i]];
        if (host != last && (count == layout->host_count || host != count)) {
            sizes[0] = layout->ranks;
            return 1;
        }
        count += host != last;
        sizes[host]++;
        last = host;
    }
    return count;
}

/* An order that is the ranks' numbers is none: plans are shorter without. */
static const uint32_t *order_of(const struct weft_layout *layout)
{
    for (uint32_t p = 0; p < layout->ranks; p++) {
        if (layout->order[p] != p)
            return layout->order;
    }
    return NULL;
}

int weft_hosts_of_layout(const struct weft_layout *layout, struct weft_hosts **hosts)
{
    uint32_t *sizes = malloc(((size_t)layout->host_count + 1) * sizeof *sizes);
    if (!sizes)
        return weft_fail(WEFT_NOMEM, "hosts: no memory for %u hosts", layout->host_count);
    int status = weft_hosts_make(sizes, measure(layout, sizes), order_of(layout), hosts);
    free(sizes);
    return status;
}

void weft_hosts_free(struct weft_hosts *hosts)
{
    free(hosts);
}
