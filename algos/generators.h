/* The generators behind weft_plan_make(), one file each. Internal to algos/.
 *
 * Each appends one rank's steps to a builder it starts. ranks is at least 2 (one rank needs no algorithm),
 * and the request has been checked. Pure.
 */
#ifndef WEFT_ALGOS_GENERATORS_H
#define WEFT_ALGOS_GENERATORS_H

#include "algos/builder.h"

void weft_ring_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_tree_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_rd_generate(struct weft_builder *builder, const struct weft_plan_request *request);
void weft_rab_generate(struct weft_builder *builder, const struct weft_plan_request *request);

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

#endif
