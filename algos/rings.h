/* Several rings at once: for generators whose data goes along all rings of the hosts. Internal to algos/.
 *
 * Shares. With k rings the data is divided into k shares, one for each ring, which all go through the same steps. Chunks are
 * dealt out like cards: ring r's chunk number x is chunk x k + r of the plan, and slots and cells likewise. So what moves by
 * one in a ring moves by k in the plan, and numbers that run over the end of a ring's share come back to its beginning,
 * since the plan's chunks are k times as many.
 *
 * Side by side. A loop's body holds the steps of all rings, ring by ring, so that the window of the executor has messages of
 * every ring in it. A ring's RECV and SEND of one round, and the REDUCE between them and the next, stand next to each
 * other: a round of one ring is a tick (algos/seat.h), and all ranks take ticks in the same order, round by round and in
 * each ring by ring. So rings cannot deadlock each other, in whatever turn each of them passes the ranks.
 */
#ifndef WEFT_ALGOS_RINGS_H
#define WEFT_ALGOS_RINGS_H

#include "algos/seat.h"

/* Where a rank stands in one ring, and the positions of its neighbours there. Places are counted from the root where the
 * collective has one. */
struct weft_ring_seat {
    uint32_t place, left, right;
};

static inline struct weft_ring_seat weft_ring_seat_of(const struct weft_plan_request *request, uint32_t ring)
{
    const struct weft_hosts *hosts = request->hosts;
    uint32_t n = request->ranks, place = weft_hosts_ring_place(hosts, ring, request->rank);
    uint32_t start = request->root < 0 ? 0 : weft_hosts_ring_place(hosts, ring, (uint32_t)request->root);
    return (struct weft_ring_seat){weft_back(place, start, n),
                                   weft_hosts_ring_at(hosts, ring, weft_back(place, 1, n)),
                                   weft_hosts_ring_at(hosts, ring, (place + 1) % n)};
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

#endif
