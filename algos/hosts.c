/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/order.h"

/* What hosts are made of. */
struct given {
    const uint32_t *sizes;
    uint32_t count;
    const uint32_t *rings; /* [ring_count][ranks], ranks; NULL: one ring, as numbered */
    uint32_t ring_count;
    uint32_t ports;
};

static size_t numbers_of(uint32_t ranks, uint32_t count, int order, uint32_t rings)
{
    return (size_t)count + 1 + (order ? 2 * (size_t)ranks : 0) +
           (rings > 1 ? 2 * ((size_t)rings + 1) * ranks : 0);
}

/* The hosts and the arrays behind them, for the caller to fill. order: whether there is one. */
static struct weft_hosts *allocate(uint32_t ranks, const struct given *given, int order)
{
    uint32_t rings = given->ring_count > 1 ? given->ring_count : 0;
    struct weft_hosts *hosts =
        malloc(sizeof *hosts + numbers_of(ranks, given->count, order, rings) * sizeof(uint32_t));
    if (!hosts)
        return NULL;
    uint32_t *next = (uint32_t *)(hosts + 1);
    *hosts =
        (struct weft_hosts){ranks, given->count, given->ring_count, given->ports, next, 0, 0, 0, 0, 0, 0};
    next += given->count + 1;
    if (order) {
        hosts->order = next;
        hosts->position = next + ranks;
        next += 2 * (size_t)ranks;
    }
    if (rings) {
        hosts->rings = next;
        hosts->places = next + (size_t)rings * ranks;
        hosts->by_rail = next + 2 * (size_t)rings * ranks;
        hosts->railed = hosts->by_rail + ranks;
    }
    return hosts;
}

/* The arrays are writable until the hosts are handed over. */
static uint32_t *writable(const uint32_t *array)
{
    return (uint32_t *)(uintptr_t)array;
}

/* Copies a ring and finds its inverse; WEFT_INVALID where it is no permutation. */
static int fill(uint32_t ring, const uint32_t *given, uint32_t ranks, const uint32_t *to,
                const uint32_t *inverse)
{
    uint32_t *named = writable(to), *position = writable(inverse);
    memset(position, 0xff, ranks * sizeof *position);
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t rank = given[i];
        if (rank >= ranks || position[rank] != UINT32_MAX)
            return weft_fail(WEFT_INVALID,
                             "hosts: ring %u (0 is the order) has rank %u at position %u, expected each of 0 "
                             "to %u once",
                             ring, rank, i, ranks - 1);
        named[i] = rank;
        position[rank] = i;
    }
    return WEFT_OK;
}

/* Rings by rank, and then by the rank's position. */
static int fill_rings(struct weft_hosts *hosts, const struct given *given)
{
    uint32_t ranks = hosts->ranks;
    for (uint32_t r = 0; hosts->rings && r < given->ring_count; r++) {
        size_t first = (size_t)r * ranks;
        const uint32_t *ring = hosts->rings + first, *place = hosts->places + first;
        int status = fill(r, given->rings + first, ranks, ring, place);
        if (status != WEFT_OK)
            return status;
        for (uint32_t i = 0, host = 0; i < ranks; i++) {
            uint32_t rank = ring[i], position = weft_hosts_position(hosts, rank);
            host += i == hosts->first[host + 1];
            if (position < hosts->first[host] || position >= hosts->first[host + 1])
                return weft_fail(WEFT_INVALID,
                                 "hosts: ring %u has rank %u at position %u, expected one of host %u there",
                                 r, rank, i, host);
            writable(ring)[i] = position;
        }
        for (uint32_t i = 0; i < ranks; i++)
            writable(place)[ring[i]] = i;
    }
    return WEFT_OK;
}

/* The number, in its host by rail, of the rank where a ring comes to host h: that of where it left the host before. */
static uint32_t number_by_rail(const struct weft_hosts *hosts, uint32_t ring, uint32_t h)
{
    uint32_t left = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, ring, hosts->first[h] - 1));
    return hosts->railed[left] - hosts->first[h - 1];
}

/* Orders the ranks of host h by rail; by_rail is UINT32_MAX there, and railed of its ranks. */
static void order_by_rail(struct weft_hosts *hosts, uint32_t h)
{
    uint32_t first = hosts->first[h], size = weft_hosts_size(hosts, h), next = 0;
    uint32_t *by_rail = writable(hosts->by_rail), *railed = writable(hosts->railed);
    for (uint32_t r = 0; h > 0 && r < hosts->ring_count; r++) {
        uint32_t rank = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, r, first));
        uint32_t number = number_by_rail(hosts, r, h);
        if (number >= size || railed[rank] != UINT32_MAX || by_rail[first + number] != UINT32_MAX)
            continue;
        by_rail[first + number] = rank;
        railed[rank] = first + number;
    }
    for (uint32_t i = first; i < first + size; i++) {
        uint32_t rank = weft_hosts_rank(hosts, i);
        if (railed[rank] != UINT32_MAX)
            continue;
        while (by_rail[first + next] != UINT32_MAX)
            next++;
        by_rail[first + next] = rank;
        railed[rank] = first + next;
    }
}

/* An order that is the ranks' numbers is none: plans are shorter without. */
static int is_plain(const uint32_t *order, uint32_t ranks)
{
    for (uint32_t p = 0; order && p < ranks; p++) {
        if (order[p] != p)
            return 0;
    }
    return 1;
}

static int count_ranks(const struct given *given, uint32_t *count)
{
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < given->count; i++) {
        if (given->sizes[i] < 1)
            return weft_fail(WEFT_INVALID, "hosts: host %u has 0 ranks, expected at least 1", i);
        ranks += given->sizes[i];
    }
    if (ranks < 1 || ranks > INT32_MAX)
        return weft_fail(WEFT_INVALID, "hosts: %u hosts have %llu ranks, expected 1 to %d", given->count,
                         (unsigned long long)ranks, INT32_MAX);
    if (given->ring_count < 1 || given->ring_count > WEFT_HOSTS_RINGS_MAX ||
        ranks * given->ring_count > INT32_MAX)
        return weft_fail(
            WEFT_INVALID,
            "hosts: %u rings over %llu ranks, expected 1 to %d, and at most %d ranks in all of them",
            given->ring_count, (unsigned long long)ranks, WEFT_HOSTS_RINGS_MAX, INT32_MAX);
    *count = (uint32_t)ranks;
    return WEFT_OK;
}

static int make(const struct given *given, struct weft_hosts **made)
{
    uint32_t ranks = 0;
    int status = count_ranks(given, &ranks);
    if (status != WEFT_OK)
        return status;
    struct weft_hosts *hosts = allocate(ranks, given, !is_plain(given->rings, ranks));
    if (!hosts)
        return weft_fail(WEFT_NOMEM, "hosts: no memory for %u ranks", ranks);
    uint32_t *first = writable(hosts->first);
    first[0] = 0;
    for (uint32_t i = 0; i < given->count; i++)
        first[i + 1] = first[i] + given->sizes[i];
    if (hosts->order)
        status = fill(0, given->rings, ranks, hosts->order, hosts->position);
    if (status == WEFT_OK)
        status = fill_rings(hosts, given);
    if (status == WEFT_OK && hosts->rings) {
        memset(writable(hosts->by_rail), 0xff, 2 * (size_t)ranks * sizeof(uint32_t));
        for (uint32_t h = 0; h < hosts->count; h++)
            order_by_rail(hosts, h);
    }
    if (status != WEFT_OK) {
        free(hosts);
        return status;
    }
    *made = hosts;
    return WEFT_OK;
}

int weft_hosts_make(const uint32_t *sizes, uint32_t count, const uint32_t *order, struct weft_hosts **hosts)
{
    return make(&(struct given){.sizes = sizes, .count = count, .rings = order, .ring_count = 1}, hosts);
}

int weft_hosts_make_rings(const uint32_t *sizes, uint32_t count, const uint32_t *rings, uint32_t ring_count,
                          uint32_t ports, struct weft_hosts **hosts)
{
    return make(&(struct given){sizes, count, rings, ring_count, ports}, hosts);
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

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* How many different NICs ranks of a host have, the fewest of all hosts; 0 where one has none that is known. scratch: [ranks]. */
static uint32_t count_ports(const struct weft_layout *layout, const uint32_t *sizes, uint32_t count,
                            uint32_t *scratch)
{
    uint32_t fewest = UINT32_MAX;
    for (uint32_t h = 0, first = 0; h < count; first += sizes[h++]) {
        uint32_t ports = 0;
        for (uint32_t i = 0; i < sizes[h]; i++)
            scratch[i] = layout->nic ? layout->nic[layout->order[first + i]] : WEFT_NODE_NONE;
        qsort(scratch, sizes[h], sizeof *scratch, compare_numbers);
        for (uint32_t i = 0; i < sizes[h]; i++)
            ports += scratch[i] != WEFT_NODE_NONE && (i == 0 || scratch[i] != scratch[i - 1]);
        fewest = ports < fewest ? ports : fewest;
    }
    return fewest;
}

int weft_hosts_of_layout(const struct weft_layout *layout, struct weft_hosts **hosts)
{
    uint32_t *sizes = malloc(((size_t)layout->host_count + layout->ranks + 1) * sizeof *sizes);
    if (!sizes)
        return weft_fail(WEFT_NOMEM, "hosts: no memory for %u hosts", layout->host_count);
    struct given given = {
        .sizes = sizes, .count = measure(layout, sizes), .rings = layout->order, .ring_count = 1};
    if (given.count > 1) {
        given.ports = count_ports(layout, sizes, given.count, sizes + layout->host_count);
        if (layout->ring_count > 1) {
            given.rings = layout->rings;
            given.ring_count = layout->ring_count;
        }
    }
    int status = make(&given, hosts);
    free(sizes);
    return status;
}

size_t weft_hosts_bytes(const struct weft_hosts *hosts)
{
    return sizeof *hosts + sizeof(uint32_t) * numbers_of(hosts->ranks, hosts->count, hosts->order != NULL,
                                                         weft_hosts_rings(hosts));
}

void weft_hosts_free(struct weft_hosts *hosts)
{
    free(hosts);
}
