/* SPDX-License-Identifier: Apache-2.0 */
/* The generators behind weft_plan_make(), one file each. Internal to algos/.
 *
 * Each appends one rank's steps to a builder it starts. ranks is at least 2 (one rank needs no algorithm),
 * the request has been checked, and its hosts are there. Where the algorithm follows their order, rank, root and peers
 * are positions (algos/hosts.h), and only chunks that belong to ranks are named by them. Pure.
 */
#ifndef WEFT_ALGOS_GENERATORS_H
#define WEFT_ALGOS_GENERATORS_H

#include "algos/builder.h"

void weft_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_tree_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_rd_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_rab_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_broadcast_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_broadcast_chain_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_broadcast_sag_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_reduce_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_reduce_chain_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_reduce_rab_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_allgather_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_allgather_bruck_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_gather_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_gather_direct_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_scatter_binomial_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_scatter_direct_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_reduce_scatter_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_reduce_scatter_halving_generate(struct weft_builder *builder,
                                          const struct weft_plan_request *request);
void weft_reduce_scatter_direct_generate(struct weft_builder *builder,
                                         const struct weft_plan_request *request);
void weft_alltoall_pairwise_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_alltoall_bruck_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_barrier_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_allreduce_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_allreduce_leader_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_broadcast_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_broadcast_leader_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_allgather_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_reduce_scatter_hier_generate(struct weft_builder *builder, const struct weft_plan_request *request);

/* How ranks are folded onto the largest power of two that is not above their number: of the first
 * 2 * (ranks - width) ranks each even one is a guest of the odd one after it; the others are alone. Hosts and
 * single ranks are numbered 0..width-1 in rank order (their `place`), so that a place's group of ranks is
 * contiguous and groups are ordered like places. */
struct weft_fold {
    uint32_t width;  /* places, a power of two */
    uint32_t rounds; /* log2(width) */
    uint32_t guests; /* ranks without a place */
};

static inline struct weft_fold weft_fold_of(uint32_t ranks)
{
    struct weft_fold fold = {1, 0, 0};
    while (fold.width <= ranks / 2) {
        fold.width *= 2;
        fold.rounds++;
    }
    fold.guests = ranks - fold.width;
    return fold;
}

static inline int weft_fold_is_guest(const struct weft_fold *fold, uint32_t rank)
{
    return rank < 2 * fold->guests && rank % 2 == 0;
}

static inline int weft_fold_is_host(const struct weft_fold *fold, uint32_t rank)
{
    return rank < 2 * fold->guests && rank % 2 == 1;
}

static inline uint32_t weft_fold_place(const struct weft_fold *fold, uint32_t rank)
{
    return rank < 2 * fold->guests ? rank / 2 : rank - fold->guests;
}

static inline uint32_t weft_fold_rank(const struct weft_fold *fold, uint32_t place)
{
    return place < fold->guests ? 2 * place + 1 : place + fold->guests;
}

/* Where a collective has a root, the root is host of its pair even if it is the even one. */
static inline uint32_t weft_fold_host(const struct weft_fold *fold, uint32_t place, uint32_t root)
{
    return place == weft_fold_place(fold, root) ? root : weft_fold_rank(fold, place);
}

/* A rank's place in the binomial tree that hangs below the root: ranks are counted from there, and place v > 0 has as
 * parent v without its lowest set bit b, as children v + b/2, v + b/4, ..., v + 1, as far as they exist. The places
 * below and at v are [v, v + size). */
struct weft_branch {
    uint32_t place;
    uint32_t parent; /* of place 0: 0 */
    uint32_t step;   /* distance of the farthest child that could exist; 0 when there is none */
    uint32_t size;
};

static inline struct weft_branch weft_branch_at(uint32_t place, uint32_t ranks)
{
    uint32_t low = place & -place, step = low / 2;
    if (place == 0) {
        for (step = 1; step < ranks - step; step *= 2)
            continue;
    }
    uint32_t size = place == 0 || low > ranks - place ? ranks - place : low;
    return (struct weft_branch){place, place - low, step, size};
}

static inline struct weft_branch weft_branch_of(const struct weft_plan_request *request)
{
    uint64_t distance = (uint64_t)request->rank + request->ranks - (uint32_t)request->root;
    return weft_branch_at((uint32_t)(distance % request->ranks), request->ranks);
}

static inline uint32_t weft_branch_rank(const struct weft_plan_request *request, uint32_t place)
{
    return (uint32_t)(((uint64_t)place + (uint32_t)request->root) % request->ranks);
}

/* What becomes of a range of chunks or blocks that may run over the end of the space: one part or two. */
struct weft_wrap {
    struct weft_range parts[2];
    int count;
};

static inline struct weft_wrap weft_wrap_of(uint64_t first, uint32_t span, uint32_t chunks)
{
    uint32_t start = (uint32_t)(first % chunks);
    struct weft_wrap wrap = {{weft_range(start, span, 0), weft_range(0, 0, 0)}, 1};
    if (span > chunks - start) {
        wrap.parts[0].span = chunks - start;
        wrap.parts[1] = weft_range(0, span - (chunks - start), 0);
        wrap.count = 2;
    }
    return wrap;
}

#endif
