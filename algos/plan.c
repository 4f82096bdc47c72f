/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/plan.h"

#include <stdlib.h>
#include <string.h>

#include "algos/generators.h"
#include "algos/hosts.h"
#include "base/error.h"

_Static_assert(sizeof(struct weft_ref) == 8, "plan records have a fixed layout");
_Static_assert(sizeof(struct weft_step) == 64, "plan records have a fixed layout");

/* By enum weft_algorithm. */
static const char *const names[WEFT_ALGO_COUNT] = {
    "auto",  "ring",    "tree",   "rd",       "rab",           "binomial", "chain",  "sag",
    "bruck", "halving", "direct", "pairwise", "dissemination", "hier",     "leader",
};

typedef void generator(struct weft_builder *builder, const struct weft_plan_request *request);

/* Which algorithms serve a collective, and what they can do, says collective.c. */
static generator *const generators[WEFT_COLLECTIVE_COUNT][WEFT_ALGO_COUNT] = {
    [WEFT_ALLREDUCE] = {[WEFT_ALGO_RING] = weft_ring_generate,
                        [WEFT_ALGO_TREE] = weft_tree_generate,
                        [WEFT_ALGO_RD] = weft_rd_generate,
                        [WEFT_ALGO_RAB] = weft_rab_generate,
                        [WEFT_ALGO_HIER] = weft_allreduce_hier_generate,
                        [WEFT_ALGO_LEADER] = weft_allreduce_leader_generate},
    [WEFT_BROADCAST] = {[WEFT_ALGO_BINOMIAL] = weft_broadcast_binomial_generate,
                        [WEFT_ALGO_CHAIN] = weft_broadcast_chain_generate,
                        [WEFT_ALGO_SAG] = weft_broadcast_sag_generate,
                        [WEFT_ALGO_HIER] = weft_broadcast_hier_generate,
                        [WEFT_ALGO_LEADER] = weft_broadcast_leader_generate},
    [WEFT_REDUCE] = {[WEFT_ALGO_BINOMIAL] = weft_reduce_binomial_generate,
                     [WEFT_ALGO_CHAIN] = weft_reduce_chain_generate,
                     [WEFT_ALGO_RAB] = weft_reduce_rab_generate},
    [WEFT_ALLGATHER] = {[WEFT_ALGO_RING] = weft_allgather_ring_generate,
                        [WEFT_ALGO_BRUCK] = weft_allgather_bruck_generate,
                        [WEFT_ALGO_HIER] = weft_allgather_hier_generate},
    [WEFT_GATHER] = {[WEFT_ALGO_BINOMIAL] = weft_gather_binomial_generate,
                     [WEFT_ALGO_DIRECT] = weft_gather_direct_generate},
    [WEFT_SCATTER] = {[WEFT_ALGO_BINOMIAL] = weft_scatter_binomial_generate,
                      [WEFT_ALGO_DIRECT] = weft_scatter_direct_generate},
    [WEFT_REDUCE_SCATTER] = {[WEFT_ALGO_RING] = weft_reduce_scatter_ring_generate,
                             [WEFT_ALGO_HALVING] = weft_reduce_scatter_halving_generate,
                             [WEFT_ALGO_DIRECT] = weft_reduce_scatter_direct_generate,
                             [WEFT_ALGO_HIER] = weft_reduce_scatter_hier_generate},
    [WEFT_ALLTOALL] = {[WEFT_ALGO_PAIRWISE] = weft_alltoall_pairwise_generate,
                       [WEFT_ALGO_BRUCK] = weft_alltoall_bruck_generate},
    [WEFT_BARRIER] = {[WEFT_ALGO_DISSEMINATION] = weft_barrier_generate},
};

/* One rank is its own result; the copy stays in place, because it also finishes the value. */
static void single_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    weft_builder_start(builder, request, 1, 0);
    weft_builder_copy(builder, weft_range(0, 1, 0), weft_in(WEFT_BUFFER_OUTPUT), weft_in(WEFT_BUFFER_INPUT),
                      weft_collective_reduces(request->collective) ? WEFT_STEP_FINISH : 0);
}

/* Fields of which each can be judged alone. */
static int check_fields(const struct weft_plan_request *request)
{
    if ((unsigned)request->collective >= WEFT_COLLECTIVE_COUNT)
        return weft_fail(WEFT_INVALID, "plan request: collective is %d, expected 0 to %d",
                         (int)request->collective, WEFT_COLLECTIVE_COUNT - 1);
    if ((int)request->algorithm <= WEFT_ALGO_AUTO || request->algorithm >= WEFT_ALGO_COUNT)
        return weft_fail(WEFT_INVALID, "plan request: algorithm is %d, expected %d to %d",
                         (int)request->algorithm, WEFT_ALGO_AUTO + 1, WEFT_ALGO_COUNT - 1);
    if (request->ranks < 1 || request->ranks > INT32_MAX)
        return weft_fail(WEFT_INVALID, "plan request: ranks is %u, expected 1 to %d", request->ranks,
                         INT32_MAX);
    if (request->rank >= request->ranks)
        return weft_fail(WEFT_INVALID, "plan request: rank is %u, expected 0 to %u", request->rank,
                         request->ranks - 1);
    return WEFT_OK;
}

/* What the collective and the algorithm allow. */
static int check_form(const struct weft_plan_request *request)
{
    const char *collective = weft_collective_name(request->collective),
               *algorithm = names[request->algorithm];
    if (!weft_algorithm_serves(request->collective, request->algorithm))
        return weft_fail(WEFT_INVALID, "plan request: there is no %s by %s", collective, algorithm);
    if (!weft_collective_has_root(request->collective) && request->root != -1)
        return weft_fail(WEFT_INVALID, "plan request: root is %d, expected -1: %s has none", request->root,
                         collective);
    if (weft_collective_has_root(request->collective) &&
        (request->root < 0 || (uint32_t)request->root >= request->ranks))
        return weft_fail(WEFT_INVALID, "plan request: root is %d, expected 0 to %u", request->root,
                         request->ranks - 1);
    if (request->collective == WEFT_ALLTOALL && request->in_place)
        return weft_fail(WEFT_INVALID, "plan request: there is no alltoall in place");
    if (request->unequal && !weft_algorithm_serves_unequal(request->collective, request->algorithm))
        return weft_fail(WEFT_INVALID, "plan request: %s by %s cannot do unequal blocks", collective,
                         algorithm);
    if (request->strict && weft_collective_reduces(request->collective) &&
        !weft_algorithm_serves_strict(request->collective, request->algorithm))
        return weft_fail(WEFT_INVALID, "plan request: %s by %s cannot keep strict mode's order", collective,
                         algorithm);
    if (request->hosts && request->hosts->ranks != request->ranks)
        return weft_fail(WEFT_INVALID, "plan request: hosts have %u ranks, expected %u",
                         request->hosts->ranks, request->ranks);
    return WEFT_OK;
}

/* Whether this plan is made in the order of the hosts, and not in that of ranks. */
static int follows(const struct weft_plan_request *request)
{
    int fixed = request->strict && weft_collective_reduces(request->collective);
    return request->hosts && !fixed && weft_algorithm_follows_order(request->collective, request->algorithm);
}

/* From positions to ranks. Chunks stay: where they belong to ranks the generator has named them so. Peers that move in a
 * loop would not do so along an order. */
static int name_ranks(struct weft_plan *plan, const struct weft_plan_request *request,
                      const struct weft_hosts *hosts)
{
    plan->rank = request->rank;
    plan->root = request->root;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct weft_step *step = &plan->steps[i];
        if (step->kind != WEFT_STEP_SEND && step->kind != WEFT_STEP_RECV)
            continue;
        if (step->peer_stride != 0)
            return weft_fail(WEFT_INTERNAL, "plan generator moves along ranks that have an order");
        step->peer = (int32_t)weft_hosts_rank(hosts, (uint32_t)step->peer);
    }
    return WEFT_OK;
}

/* The generator's part: all ranks are named by their positions. */
static int make(const struct weft_plan_request *request, struct weft_plan **plan)
{
    struct weft_builder builder;
    if (request->ranks == 1)
        single_generate(&builder, request);
    else
        generators[request->collective][request->algorithm](&builder, request);
    return weft_builder_finish(&builder, plan);
}

/* The hosts as the algorithm wants them. */
static struct weft_hosts view_of(const struct weft_plan_request *request)
{
    struct weft_hosts view = *request->hosts;
    if (request->algorithm == WEFT_ALGO_HIER && view.by_rail) {
        view.order = view.by_rail;
        view.position = view.railed;
        view.rings = view.places = NULL;
    }
    return view;
}

int weft_plan_make(const struct weft_plan_request *request, struct weft_plan **made)
{
    int status = check_fields(request);
    if (status == WEFT_OK)
        status = check_form(request);
    if (status != WEFT_OK)
        return status;
    const uint32_t whole[2] = {0, request->ranks};
    struct weft_hosts hosts = {.ranks = request->ranks, .count = 1, .first = whole};
    struct weft_plan_request placed = *request;
    struct weft_plan *plan;
    placed.hosts = &hosts;
    if (follows(request)) {
        hosts = view_of(request);
        placed.rank = weft_hosts_position(&hosts, request->rank);
        if (request->root >= 0)
            placed.root = (int)weft_hosts_position(&hosts, (uint32_t)request->root);
    }
    status = make(&placed, &plan);
    if (status != WEFT_OK)
        return status;
    if (follows(request))
        status = name_ranks(plan, request, &hosts);
    if (status != WEFT_OK) {
        weft_plan_free(plan);
        return status;
    }
    *made = plan;
    return WEFT_OK;
}

void weft_plan_free(struct weft_plan *plan)
{
    free(plan);
}

const char *weft_algorithm_name(enum weft_algorithm algorithm)
{
    return (unsigned)algorithm < WEFT_ALGO_COUNT ? names[algorithm] : NULL;
}

int weft_algorithm_parse(const char *name)
{
    for (int i = 0; i < WEFT_ALGO_COUNT; i++) {
        if (strcmp(name, names[i]) == 0)
            return i;
    }
    return -1;
}

void weft_cursor_start(struct weft_cursor *cursor, const struct weft_plan *plan)
{
    *cursor = (struct weft_cursor){.plan = plan};
}

/* (start + iteration * stride) mod modulus. The generators' strides rarely leave (-modulus, 2 * modulus), so
 * that a division is the exception. */
static inline uint32_t rotate(uint32_t start, uint32_t iteration, int32_t stride, uint32_t modulus)
{
    int64_t value = start + (int64_t)iteration * stride;
    if (value < 0) {
        value += modulus;
        if (value < 0)
            value = value % modulus + modulus;
    }
    if (value >= modulus) {
        value -= modulus;
        if (value >= modulus)
            value = value <= UINT32_MAX ? (uint32_t)value % modulus : value % modulus;
    }
    return (uint32_t)value;
}

static inline void rotate_ref(struct weft_ref *ref, uint32_t iteration, const struct weft_plan *plan)
{
    if (ref->slot_stride == 0)
        return;
    uint32_t numbers = ref->buffer == WEFT_BUFFER_CELL ? plan->cells : plan->slots;
    ref->slot = (uint16_t)rotate(ref->slot, iteration, ref->slot_stride, numbers);
    ref->slot_stride = 0;
}

/* Applies the strides. Slots rotate only in references that the kind of step uses; the others are zero. */
static inline void resolve(struct weft_step *step, const struct weft_plan *plan, uint32_t iteration)
{
    if (step->chunk_stride != 0) {
        step->chunk = rotate(step->chunk, iteration, step->chunk_stride, plan->chunks);
        step->chunk_stride = 0;
    }
    if (step->peer_stride != 0) {
        step->peer = (int32_t)rotate((uint32_t)step->peer, iteration, step->peer_stride, plan->ranks);
        step->peer_stride = 0;
    }
    if (step->kind == WEFT_STEP_COPY && step->from_stride != 0) {
        step->from = rotate(step->from, iteration, step->from_stride, plan->chunks);
        step->from_stride = 0;
    }
    rotate_ref(&step->destination, iteration, plan);
    for (unsigned i = 0; i < step->source_count; i++)
        rotate_ref(&step->sources[i], iteration, plan);
}

int weft_cursor_next(struct weft_cursor *cursor, struct weft_step *step)
{
    const struct weft_plan *plan = cursor->plan;
    for (;;) {
        if (cursor->loop_end != 0 && cursor->index == cursor->loop_end) {
            if (++cursor->iteration < cursor->iterations) {
                cursor->index = cursor->loop_start;
            } else {
                cursor->loop_end = 0;
                cursor->iteration = 0;
            }
        }
        if (cursor->index == plan->step_count)
            return 0;
        const struct weft_step *record = &plan->steps[cursor->index++];
        if (record->kind != WEFT_STEP_LOOP) {
            *step = *record;
            resolve(step, plan, cursor->iteration);
            return 1;
        }
        if (record->iterations == 0 || record->body == 0) {
            cursor->index += record->body;
            continue;
        }
        cursor->loop_start = cursor->index;
        cursor->loop_end = cursor->index + record->body;
        cursor->iteration = 0;
        cursor->iterations = record->iterations;
    }
}
