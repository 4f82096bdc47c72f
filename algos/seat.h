/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank sits, and what a host's ranks share out: for generators that go by hosts. Internal to algos/.
 *
 * Shares. A host divides `shares` things (slices of the data, the blocks of another host) among its ranks: neighbours get
 * neighbouring things, and their numbers differ by one at most. Where there are fewer shares than ranks some ranks have
 * none, evenly spread; with as many shares as ranks each has its own.
 *
 * Ticks. These plans are written along a clock that all ranks share: a tick is one message between two neighbours of a
 * ring. In a tick a rank has at most one RECV and one SEND, next to each other and in this order, then the REDUCE of what
 * came; all ranks take their ticks in the same order. So they cannot deadlock, however narrow the window, if it holds two
 * steps: once all earlier ticks are done everywhere, each rank's RECV and SEND of this one are both in its window, every
 * RECV meets its SEND, and the REDUCE, which then stands behind the SEND, is in the window and frees the sender.
 */
#ifndef WEFT_ALGOS_SEAT_H
#define WEFT_ALGOS_SEAT_H

#include "algos/generators.h"
#include "algos/hosts.h"

struct weft_seat {
    const struct weft_hosts *hosts;
    uint32_t host, host_count;
    uint32_t first; /* position of the host's first rank */
    uint32_t local; /* the rank's number in its host */
    uint32_t size;  /* ranks of its host */
};

static inline struct weft_seat weft_seat_of(const struct weft_plan_request *request)
{
    const struct weft_hosts *hosts = request->hosts;
    uint32_t host = weft_hosts_at(hosts, request->rank), first = hosts->first[host];
    return (struct weft_seat){
        hosts, host, hosts->count, first, request->rank - first, weft_hosts_size(hosts, host)};
}

/* Which of the host's ranks has a share. */
static inline uint32_t weft_share_owner(uint32_t share, uint32_t shares, uint32_t ranks)
{
    return (uint32_t)((uint64_t)share * ranks / shares);
}

/* The shares of one of its ranks: [first, end). */
struct weft_shares {
    uint32_t first, end;
};

static inline struct weft_shares weft_shares_of(uint32_t owner, uint32_t shares, uint32_t ranks)
{
    uint64_t whole = shares;
    return (struct weft_shares){(uint32_t)((owner * whole + ranks - 1) / ranks),
                                (uint32_t)((owner * whole + whole + ranks - 1) / ranks)};
}

/* (a - b) mod n, for b up to n. */
static inline uint32_t weft_back(uint32_t a, uint32_t b, uint32_t n)
{
    return (uint32_t)(((uint64_t)a + n - b) % n);
}

/* Positions of the neighbours in the ring within the host. */
static inline uint32_t weft_seat_left(const struct weft_seat *seat)
{
    return seat->first + weft_back(seat->local, 1, seat->size);
}

static inline uint32_t weft_seat_right(const struct weft_seat *seat)
{
    return seat->first + (seat->local + 1) % seat->size;
}

#endif
