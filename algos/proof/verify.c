/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/proof/verify.h"

#include <inttypes.h>
#include <string.h>

#include "algos/proof/verify_machine.h"
#include "base/error.h"

#define MEMORY_MAX_DEFAULT ((uint64_t)4 << 30)
#define STEPS_MAX_DEFAULT  ((uint64_t)1 << 32)

/* Checks the plans one by one and against each other. */
static int check_plans(const struct weft_plan *const *plans, uint32_t ranks, uint64_t *steps,
                       struct weft_verify_report *report)
{
    *steps = 0;
    if (ranks < 1)
        return weft_fail(WEFT_INVALID, "no plans to verify");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct weft_plan *plan = plans[rank];
        uint64_t own;
        report->rank = rank;
        int status = weft_plan_check(plan, &own);
        if (status != WEFT_OK)
            return status;
        if (plan->ranks != ranks || plan->rank != rank)
            return weft_fail(WEFT_INVALID, "plan %u of %u says it is rank %u's of %u", rank, ranks,
                             plan->rank, plan->ranks);
        if (plan->collective != plans[0]->collective || plan->algorithm != plans[0]->algorithm ||
            plan->root != plans[0]->root || plan->unequal != plans[0]->unequal)
            return weft_fail(WEFT_INVALID,
                             "rank %u's plan is of another collective, algorithm, root or form than "
                             "rank 0's",
                             rank);
        if (plan->chunks != plans[0]->chunks)
            return weft_fail(WEFT_INVALID, "rank %u's plan has %u chunks, rank 0's %u", rank, plan->chunks,
                             plans[0]->chunks);
        *steps = own > UINT64_MAX - *steps ? UINT64_MAX : *steps + own;
    }
    report->rank = 0;
    return WEFT_OK;
}

/* Whether record b is record a with rank added to peer and, where each rank has a chunk, to chunk. */
static int record_rotated(const struct weft_step *a, const struct weft_step *b, uint32_t rank, uint32_t n,
                          uint32_t chunks)
{
    struct weft_step moved = *a;
    if (a->kind != WEFT_STEP_LOOP) {
        moved.chunk = (uint32_t)(((uint64_t)a->chunk + rank) % chunks);
        if (a->kind == WEFT_STEP_COPY)
            moved.from = (uint32_t)(((uint64_t)a->from + rank) % chunks);
        if (a->kind == WEFT_STEP_SEND || a->kind == WEFT_STEP_RECV)
            moved.peer = (int32_t)(((uint64_t)(uint32_t)a->peer + rank) % n);
        if (a->span != 1)
            return 0; /* a longer range may run over the end in one rank and not in another */
    }
    return memcmp(&moved, b, sizeof moved) == 0;
}

/* Whether every plan is rank 0's, rotated. */
static int plans_rotated(const struct weft_plan *const *plans, uint32_t ranks)
{
    const struct weft_plan *first = plans[0];
    if (first->root >= 0 || first->chunks != (first->collective == WEFT_BARRIER ? 1 : ranks))
        return 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct weft_plan *plan = plans[rank];
        if (plan->slots != first->slots || plan->in_place != first->in_place ||
            plan->temp_first != first->temp_first || plan->temp_chunks != first->temp_chunks ||
            plan->cells != first->cells || plan->step_count != first->step_count)
            return 0;
        for (uint32_t i = 0; i < plan->step_count; i++) {
            if (!record_rotated(&first->steps[i], &plan->steps[i], rank, ranks, first->chunks))
                return 0;
        }
    }
    return 1;
}

/* Whether some plan moves chunks to places of others. */
static int plans_move(const struct weft_plan *const *plans, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (uint32_t i = 0; i < plans[rank]->step_count; i++) {
            const struct weft_step *step = &plans[rank]->steps[i];
            if (step->kind == WEFT_STEP_COPY &&
                (step->from != step->chunk || step->from_stride != step->chunk_stride))
                return 1;
        }
    }
    return plans[0]->collective == WEFT_ALLTOALL;
}

/* The options' chunks, for these plans. */
static int check_chunks(const struct weft_plan *const *plans, uint32_t ranks,
                        const struct weft_verify_options *options)
{
    uint32_t chunks = plans[0]->chunks;
    if (options->chunk_count == 0)
        return WEFT_OK;
    if (options->chunk_first >= chunks || options->chunk_count > chunks - options->chunk_first)
        return weft_fail(WEFT_INVALID, "chunks to follow are %u from %u on, expected some of %u",
                         options->chunk_count, options->chunk_first, chunks);
    if (options->method == WEFT_VERIFY_ROTATION || plans_move(plans, ranks))
        return weft_fail(WEFT_UNSUPPORTED, "a few chunks cannot be followed %s",
                         options->method == WEFT_VERIFY_ROTATION ? "by rotation" : "where plans move them");
    return WEFT_OK;
}

static int run(const struct weft_plan *const *plans, uint32_t ranks, int rotation,
               const struct weft_verify_options *options, struct weft_verify_report *report)
{
    struct weft_machine machine;
    int status = weft_machine_open(&machine, plans, ranks, rotation, options, report);
    if (status != WEFT_OK)
        return status;
    report->method = rotation ? WEFT_VERIFY_ROTATION : WEFT_VERIFY_FULL;
    report->exact = rotation || machine.values.words > 0;
    status = weft_machine_run(&machine, 0);
    for (uint32_t i = 0; status == WEFT_OK && !rotation && i < options->interleavings; i++)
        status = weft_machine_run(&machine, 1);
    weft_machine_close(&machine);
    return status;
}

/* Fills in defaults. */
static int read_options(const struct weft_verify_options *given, struct weft_verify_options *options)
{
    *options = given ? *given : (struct weft_verify_options){0};
    if (options->window == 0)
        options->window = WEFT_VERIFY_WINDOW;
    if (options->window > WEFT_VERIFY_WINDOW_MAX)
        return weft_fail(WEFT_INVALID, "window is %u, expected 1 to %d", options->window,
                         WEFT_VERIFY_WINDOW_MAX);
    if (options->memory_max == 0)
        options->memory_max = MEMORY_MAX_DEFAULT;
    if (options->steps_max == 0)
        options->steps_max = STEPS_MAX_DEFAULT;
    return WEFT_OK;
}

int weft_plans_verify(const struct weft_plan *const *plans, uint32_t ranks,
                      const struct weft_verify_options *given, struct weft_verify_report *report)
{
    struct weft_verify_options options;
    uint64_t steps;
    *report = (struct weft_verify_report){0};
    int status = read_options(given, &options);
    if (status == WEFT_OK)
        status = check_plans(plans, ranks, &steps, report);
    if (status == WEFT_OK)
        status = check_chunks(plans, ranks, &options);
    if (status != WEFT_OK)
        return status;
    report->window = options.window;
    int wanted = options.method == WEFT_VERIFY_ROTATION ||
                 (options.method == WEFT_VERIFY_AUTO && ranks >= WEFT_VERIFY_EXACT_RANKS);
    int rotation = wanted && !options.expect && !options.chunk_count && plans_rotated(plans, ranks);
    if (options.method == WEFT_VERIFY_ROTATION && !rotation)
        return weft_fail(WEFT_UNSUPPORTED, "the plans are not symmetric under rotation");
    if ((rotation ? steps / ranks : steps) > options.steps_max)
        return weft_fail(WEFT_INVALID, "the plans have %" PRIu64 " steps, expected at most %" PRIu64, steps,
                         options.steps_max);
    status = run(plans, ranks, rotation, &options, report);
    if (status == WEFT_UNSUPPORTED && options.method == WEFT_VERIFY_AUTO)
        status = run(plans, ranks, 0, &options, report);
    return status;
}
