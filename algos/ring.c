/* SPDX-License-Identifier: Apache-2.0 */
/* Ring allreduce, over one ring or several at once.
 *
 * The data is divided into as many chunks as there are ranks, n. Chunk c starts at rank c and travels once
 * around the ring 0 -> 1 -> ... -> n-1 -> 0 collecting a sum; after n-1 hops it is complete at rank c-1
 * (reduce-scatter). From there it travels n-1 more hops, now only being copied (allgather). In every round
 * each rank sends one chunk to its right and receives one from its left, so all links work all the time.
 *
 * Each chunk is added up along one path, ((x[c] + x[c+1]) + ...) + x[c-1], and finished by one rank, so all
 * ranks end with the same bits.
 *
 * Where the hosts have k rings (algos/hosts.h), one per rail, the data is divided into k shares, each of which goes around its
 * own ring in n chunks (algos/rings.h). All pass the same hosts in the same order, but go between them through different
 * network devices: one ring alone has one stream into each host and one out, and leaves all devices but one idle.
 *
 * Cost, with a per message, b per byte of a device and g per byte reduced, m bytes:
 *     2 (n-1) a  +  2 (n-1)/n m/k b  +  (n-1)/n m g
 * which moves the least possible number of bytes per rank, at the price of a number of rounds that grows
 * with n: for large data.
 *
 * RECV stands before SEND so that even a window of two steps makes progress: a SEND is complete only when the
 * right neighbour has reduced it, and its REDUCE must be in its window then.
 *
 * Source: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * Journal of Parallel and Distributed Computing 69 (2009).
 */
#include "algos/rings.h"

/* Slots of a ring in rotation. Two would do; more let a neighbour that is ahead announce its chunks early. */
#define SLOTS 4

struct scene {
    struct weft_builder *builder;
    const struct weft_plan_request *request;
    uint32_t rings, slots; /* of each ring */
};

/* Round number `round` of the first half in every ring; step is 1 where it is the body of a loop that goes on from there. */
static void reduce_round(const struct scene *scene, uint32_t round, int step, enum weft_buffer source,
                         unsigned flags)
{
    uint32_t n = scene->request->ranks;
    for (uint32_t r = 0; r < scene->rings; r++) {
        struct weft_ring ring = {r, scene->rings};
        struct weft_ring_seat seat = weft_ring_seat_of(scene->request, r);
        struct weft_range sent = weft_ring_chunk(ring, weft_back(seat.place, round, n), -step),
                          taken = weft_ring_chunk(ring, weft_back(seat.place, round + 1, n), -step);
        struct weft_ref slot = weft_ring_slot(ring, round % scene->slots, step);
        weft_builder_recv(scene->builder, seat.left, taken, slot);
        weft_builder_send(scene->builder, seat.right, sent, weft_in(source));
        weft_builder_reduce(scene->builder, taken, weft_in(WEFT_BUFFER_OUTPUT), slot,
                            weft_in(WEFT_BUFFER_INPUT), flags);
    }
}

/* The first half. A LOOP takes the rounds between the first, which sends what the rank has been given, and the last. */
static void generate_scatter(const struct scene *scene)
{
    uint32_t n = scene->request->ranks;
    reduce_round(scene, 0, 0, WEFT_BUFFER_INPUT, n == 2 ? WEFT_STEP_FINISH : 0);
    if (n > 3) {
        weft_builder_loop(scene->builder, n - 3);
        reduce_round(scene, 1, 1, WEFT_BUFFER_OUTPUT, 0);
        weft_builder_loop_end(scene->builder);
    }
    if (n > 2)
        reduce_round(scene, n - 2, 0, WEFT_BUFFER_OUTPUT, WEFT_STEP_FINISH);
}

static void generate_gather(const struct scene *scene)
{
    uint32_t n = scene->request->ranks;
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    weft_builder_loop(scene->builder, n - 1);
    for (uint32_t r = 0; r < scene->rings; r++) {
        struct weft_ring ring = {r, scene->rings};
        struct weft_ring_seat seat = weft_ring_seat_of(scene->request, r);
        weft_builder_recv(scene->builder, seat.left, weft_ring_chunk(ring, seat.place, -1), output);
        weft_builder_send(scene->builder, seat.right, weft_ring_chunk(ring, (seat.place + 1) % n, -1),
                          output);
    }
    weft_builder_loop_end(scene->builder);
}

void weft_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks;
    struct scene scene = {builder, request, weft_hosts_rings(request->hosts), n - 1 < SLOTS ? n - 1 : SLOTS};
    weft_builder_start(builder, request, n * scene.rings, scene.slots * scene.rings);
    generate_scatter(&scene);
    generate_gather(&scene);
}
