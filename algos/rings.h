/* SPDX-License-Identifier: Apache-2.0 */
/* Several rings at once: for generators whose data goes along all rings of the hosts. Internal to algos/.
 *
 * Shares. With k rings the data is divided into k shares, one for each ring, which all go through the same steps. Chunks are
 * dealt out like cards: ring r's chunk number x is chunk x k + r of the plan, and slots and cells likewise. So what moves by
 * one in a ring moves by k in the plan, and numbers that run over the end of a ring's share come back to its beginning,
 * since the plan's chunks are k times as many.
 *
 * Side by side. A loop's body holds the steps of all rings, ring by ring, three for each ring at most. So the window of the executor
 * has messages of as many rings in it as a third of its steps: of ten with the 32 that WEFT_WINDOW is by default, of one with 4.
 * Rings beyond wait for those before them in the body; results do not depend on it. A ring's RECV and SEND of one round, and the
 * REDUCE between them and the next, stand next to each other: a round of one ring is a tick (algos/seat.h), and all ranks take
 * ticks in the same order, round by round and in each ring by ring. So rings cannot deadlock each other, in whatever turn each
 * of them passes the ranks.
 */
#ifndef WEFT_ALGOS_RINGS_H
#define WEFT_ALGOS_RINGS_H

#include "algos/seat.h"

/* Where a rank stands in one ring, and the positions of its neighbours there. */
struct weft_ring_seat {
    uint32_t place, left, right;
};

static inline struct weft_ring_seat weft_ring_seat_of(const struct weft_plan_request *request, uint32_t ring)
{
    const struct weft_hosts *hosts = request->hosts;
    uint32_t n = request->ranks, place = weft_hosts_ring_place(hosts, ring, request->rank);
    return (struct weft_ring_seat){place, weft_hosts_ring_at(hosts, ring, weft_back(place, 1, n)),
                                   weft_hosts_ring_at(hosts, ring, (place + 1) % n)};
}

/* A chain: a ring that is cut open at the root. It begins there, passes the other ranks of the root's host as they come in the
 * ring, and then the other hosts. So it leaves the root's host where the ring does and does not come back; and a rank's places in
 * the chains of all rings are near each other. That is what keeps them going side by side: chains of which one came to a rank
 * at its beginning and another at its end would wait for each other in the window. One host's is the ring from the root on. */
static inline uint32_t weft_chain_place(const struct weft_plan_request *request, uint32_t ring,
                                        uint32_t position)
{
    const struct weft_hosts *hosts = request->hosts;
    uint32_t n = request->ranks, place = weft_hosts_ring_place(hosts, ring, position);
    uint32_t root = weft_hosts_ring_place(hosts, ring, (uint32_t)request->root);
    if (hosts->count == 1 || place == root)
        return weft_back(place, root, n);
    uint32_t host = weft_hosts_at(hosts, root), first = hosts->first[host];
    if (place >= first && place < hosts->first[host + 1])
        return place - first + (place < root);
    return weft_back(place, first, n);
}

/* The position at a place of the chain. */
static inline uint32_t weft_chain_at(const struct weft_plan_request *request, uint32_t ring, uint32_t place)
{
    const struct weft_hosts *hosts = request->hosts;
    uint32_t n = request->ranks, root = weft_hosts_ring_place(hosts, ring, (uint32_t)request->root),
             start = root;
    if (hosts->count > 1 && place > 0) {
        uint32_t host = weft_hosts_at(hosts, root);
        start = hosts->first[host];
        place -= place < weft_hosts_size(hosts, host) && start + place <= root;
    }
    return weft_hosts_ring_at(hosts, ring, (uint32_t)(((uint64_t)start + place) % n));
}

/* Seats in a chain: left is towards the root. Neighbours over the ends are without meaning. */
static inline struct weft_ring_seat weft_chain_seat_of(const struct weft_plan_request *request, uint32_t ring)
{
    uint32_t n = request->ranks, place = weft_chain_place(request, ring, request->rank);
    return (struct weft_ring_seat){place, weft_chain_at(request, ring, weft_back(place, 1, n)),
                                   weft_chain_at(request, ring, (place + 1) % n)};
}

/* One of k rings, and what its numbers are in the plan. */
struct weft_ring {
    uint32_t number, count;
};

/* Its chunk number x; step: by how many of its chunks it moves with each iteration of a loop. */
static inline struct weft_range weft_ring_chunk(struct weft_ring ring, uint32_t x, int32_t step)
{
    return weft_range(x * ring.count + ring.number, 1, step * (int32_t)ring.count);
}

static inline struct weft_ref weft_ring_slot(struct weft_ring ring, uint32_t slot, int step)
{
    return weft_slot(slot * ring.count + ring.number, step * (int)ring.count);
}

static inline struct weft_ref weft_ring_cell(struct weft_ring ring, uint32_t cell, int step)
{
    return weft_cell_ref(cell * ring.count + ring.number, step * (int)ring.count);
}

/* A chain reduce over k rings, of which it uses as many as there are cells: how many cells each has, and chunks. */
static inline uint32_t weft_chain_rings(uint32_t rings)
{
    return rings < WEFT_CELLS_MAX ? rings : WEFT_CELLS_MAX;
}

static inline uint32_t weft_chain_cells(uint32_t rings)
{
    return rings > WEFT_CELLS_MAX / 4 ? WEFT_CELLS_MAX / weft_chain_rings(rings) : 4;
}

static inline uint32_t weft_chain_chunks(uint32_t rings)
{
    return 16 * weft_chain_cells(rings); /* so much memory is needed at most, as a part of the data */
}

#endif
