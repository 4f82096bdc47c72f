/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchical allreduce: rings within hosts and between them.
 *
 * The data is divided into S slices, and each of them into as many parts as there are hosts, H. A host's ranks share the
 * slices out (algos/seat.h). Then
 *   1. within each host a ring reduce-scatter gives every rank its host's sums of its slices;
 *   2. between hosts each slice goes through a ring allreduce of its own (algos/ring.c), over those ranks that have it,
 *      one of every host, a part at a time;
 *   3. within each host a ring allgather hands the slices to all ranks.
 * So every rank drives the network with its share, and what crosses between two hosts is what must: each host sends
 * 2 (H-1)/H of the data once.
 *
 * S is the average number of ranks per host, rounded down. With equal hosts that is one slice for each rank. With unequal
 * ones a rank of a smaller host has several, one of a larger host none or one; it takes part in steps 1 and 3 all the
 * same. There are never more chunks (S H) than ranks.
 *
 * Each chunk is finished by one rank, so all ranks end with the same bits.
 *
 * Cost, with L ranks per host, a, b of the network (b for a whole host's bytes) and a', b', g' within the host:
 *     2 (L-1) (a' + m/L b') + (L-1)/L m g'  +  2 (H-1) a + 2 (H-1)/H m b + (H-1)/H m/L g'
 * where a ring along the hosts has 2 (H a + (L H - H) a') of latency, and one rank of each host at a time that sends to
 * another: for large data, and the more so the more network devices a host has.
 *
 * Source: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective communication: theory, practice, and
 * experience", Concurrency and Computation 19 (2007), section 8, on meshes of two dimensions; unequal ones by sharing out.
 */
#include "algos/seat.h"

#define SLOTS 4

struct scene {
    struct weft_builder *builder;
    struct weft_seat seat;
    uint32_t slices;
    uint32_t slot; /* for the next RECV */
};

static uint32_t slot_next(struct scene *scene)
{
    scene->slot = (scene->slot + 1) % SLOTS;
    return scene->slot;
}

/* The chunks of a rank of this host, by its number in the host; span 0 where it has none. */
static struct weft_range share_of(const struct scene *scene, uint32_t local)
{
    struct weft_shares own = weft_shares_of(local, scene->slices, scene->seat.size);
    uint32_t parts = scene->seat.host_count;
    return weft_range(own.first * parts, (own.end - own.first) * parts, 0);
}

static void generate_scatter(struct scene *scene)
{
    const struct weft_seat *seat = &scene->seat;
    struct weft_builder *builder = scene->builder;
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < seat->size; round++) {
        uint32_t slot = slot_next(scene), last = round + 2 == seat->size;
        uint32_t sent = weft_back(seat->local, round + 1, seat->size);
        struct weft_range give = share_of(scene, sent),
                          take = share_of(scene, weft_back(sent, 1, seat->size));
        if (take.span)
            weft_builder_recv(builder, weft_seat_left(seat), take, weft_slot(slot, 0));
        if (give.span)
            weft_builder_send(builder, weft_seat_right(seat), give, round ? output : input);
        if (take.span)
            weft_builder_reduce(builder, take, output, weft_slot(slot, 0), input,
                                last && seat->host_count == 1 ? WEFT_STEP_FINISH : 0);
        weft_builder_round_end(builder);
    }
}

/* Who has the slice on that host. */
static uint32_t peer_at(const struct scene *scene, uint32_t host, uint32_t slice)
{
    const struct weft_hosts *hosts = scene->seat.hosts;
    return hosts->first[host] + weft_share_owner(slice, scene->slices, weft_hosts_size(hosts, host));
}

/* The rings between hosts, all slices of the rank side by side. */
static void generate_across(struct scene *scene)
{
    const struct weft_seat *seat = &scene->seat;
    struct weft_builder *builder = scene->builder;
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref mine = seat->size > 1 ? output : weft_in(WEFT_BUFFER_INPUT);
    struct weft_shares own = weft_shares_of(seat->local, scene->slices, seat->size);
    uint32_t n = seat->host_count, left = weft_back(seat->host, 1, n), right = (seat->host + 1) % n;
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < n; round++) {
        uint32_t sent = weft_back(seat->host, round, n), taken = weft_back(sent, 1, n);
        for (uint32_t slice = own.first; slice < own.end; slice++) {
            struct weft_range take = weft_range(slice * n + taken, 1, 0);
            uint32_t slot = slot_next(scene);
            weft_builder_recv(builder, peer_at(scene, left, slice), take, weft_slot(slot, 0));
            weft_builder_send(builder, peer_at(scene, right, slice), weft_range(slice * n + sent, 1, 0),
                              round ? output : mine);
            weft_builder_reduce(builder, take, output, weft_slot(slot, 0), mine,
                                round + 2 == n ? WEFT_STEP_FINISH : 0);
        }
        weft_builder_round_end(builder);
    }
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < n; round++) {
        uint32_t taken = weft_back(seat->host, round, n), sent = (taken + 1) % n;
        for (uint32_t slice = own.first; slice < own.end; slice++) {
            weft_builder_recv(builder, peer_at(scene, left, slice), weft_range(slice * n + taken, 1, 0),
                              output);
            weft_builder_send(builder, peer_at(scene, right, slice), weft_range(slice * n + sent, 1, 0),
                              output);
        }
        weft_builder_round_end(builder);
    }
}

static void generate_gather(struct scene *scene)
{
    const struct weft_seat *seat = &scene->seat;
    struct weft_builder *builder = scene->builder;
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    weft_builder_rounds(builder);
    for (uint32_t round = 0; round + 1 < seat->size; round++) {
        uint32_t sent = weft_back(seat->local, round, seat->size);
        struct weft_range give = share_of(scene, sent),
                          take = share_of(scene, weft_back(sent, 1, seat->size));
        if (take.span)
            weft_builder_recv(builder, weft_seat_left(seat), take, output);
        if (give.span)
            weft_builder_send(builder, weft_seat_right(seat), give, output);
        weft_builder_round_end(builder);
    }
}

void weft_allreduce_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct scene scene = {.builder = builder, .seat = weft_seat_of(request)};
    scene.slices = request->ranks / scene.seat.host_count;
    weft_builder_start(builder, request, scene.slices * scene.seat.host_count, SLOTS);
    generate_scatter(&scene);
    generate_across(&scene);
    generate_gather(&scene);
}
