/* SPDX-License-Identifier: Apache-2.0 */
/* Static checks of one plan: what can be said about records before anything is run. */
#include "algos/proof/verify.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"

/* What is wrong with a reference, NULL when nothing is. */
static const char *check_ref(const struct weft_plan *plan, const struct weft_ref *ref)
{
    int numbered = ref->buffer == WEFT_BUFFER_SLOT || ref->buffer == WEFT_BUFFER_CELL;
    if (!numbered && (ref->slot || ref->slot_stride))
        return "gives a slot number to a buffer";
    switch (ref->buffer) {
    case WEFT_BUFFER_INPUT:
    case WEFT_BUFFER_OUTPUT:
        return NULL;
    case WEFT_BUFFER_TEMP:
        return plan->temp_chunks ? NULL : "uses TEMP, which the plan does not announce";
    case WEFT_BUFFER_SLOT:
        return ref->slot < plan->slots ? NULL : "names a slot that the plan does not have";
    case WEFT_BUFFER_CELL:
        return ref->slot < plan->cells ? NULL : "names a cell that the plan does not have";
    default:
        return "names an unknown buffer";
    }
}

static const char *check_destination(const struct weft_plan *plan, const struct weft_step *step)
{
    if (step->destination.buffer == WEFT_BUFFER_INPUT)
        return "writes INPUT";
    if (step->destination.buffer == WEFT_BUFFER_SLOT && step->kind != WEFT_STEP_RECV)
        return "writes a slot, which only RECV may";
    return check_ref(plan, &step->destination);
}

static const char *check_sources(const struct weft_plan *plan, const struct weft_step *step)
{
    int low = step->kind == WEFT_STEP_REDUCE ? 2 : step->kind == WEFT_STEP_RECV ? 0 : 1;
    int high = step->kind == WEFT_STEP_REDUCE ? WEFT_STEP_SOURCES_MAX : low;
    if (step->source_count < low || step->source_count > high)
        return "has the wrong number of sources";
    for (int i = 0; i < step->source_count; i++) {
        const char *wrong = check_ref(plan, &step->sources[i]);
        if (wrong)
            return wrong;
        if (step->kind == WEFT_STEP_SEND && step->sources[i].buffer == WEFT_BUFFER_SLOT)
            return "sends from a slot, which only REDUCE and COPY may read";
    }
    return NULL;
}

static int uses(const struct weft_step *step, unsigned buffer)
{
    int found = step->kind != WEFT_STEP_SEND && step->destination.buffer == buffer;
    for (int i = 0; i < step->source_count; i++)
        found |= step->sources[i].buffer == buffer;
    return found;
}

static const char *check_copy(const struct weft_plan *plan, const struct weft_step *step)
{
    if (step->from == step->chunk && step->from_stride == step->chunk_stride)
        return NULL;
    if (step->from >= plan->chunks || step->span > plan->chunks - step->from)
        return "copies from chunks that the plan does not have";
    if (!weft_collective_blocks((enum weft_collective)plan->collective) || plan->unequal)
        return "moves chunks that differ in size";
    if (step->sources[0].buffer == WEFT_BUFFER_SLOT || uses(step, WEFT_BUFFER_CELL))
        return "moves what is in a slot or a cell";
    return NULL;
}

/* What the collective allows. References have been checked. */
static const char *check_sense(const struct weft_plan *plan, const struct weft_step *step)
{
    enum weft_collective collective = (enum weft_collective)plan->collective;
    int reduces = weft_collective_reduces(collective);
    int user = uses(step, WEFT_BUFFER_INPUT) || uses(step, WEFT_BUFFER_OUTPUT);
    if (step->flags & WEFT_STEP_FINISH && !reduces)
        return "finishes a value of a collective that does not reduce";
    if (step->kind == WEFT_STEP_REDUCE && !reduces && collective != WEFT_BARRIER)
        return "reduces in a collective that does not";
    if (uses(step, WEFT_BUFFER_CELL) && step->span != 1)
        return "puts several chunks into a cell";
    if (plan->unequal && user && step->span != 1)
        return "names several chunks of a caller's buffer that may have gaps";
    if (plan->unequal &&
        (uses(step, WEFT_BUFFER_TEMP) || uses(step, WEFT_BUFFER_CELL) || uses(step, WEFT_BUFFER_SLOT)) &&
        weft_algorithm_needs(collective, (enum weft_algorithm)plan->algorithm) == WEFT_NEEDS_OWN_COUNTS)
        return "uses memory of weft's own for blocks whose size is not known";
    return step->kind == WEFT_STEP_COPY ? check_copy(plan, step) : NULL;
}

static const char *check_step(const struct weft_plan *plan, const struct weft_step *step)
{
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    if (step->span < 1 || step->chunk >= plan->chunks || step->span > plan->chunks - step->chunk)
        return "names chunks that the plan does not have";
    if (transfers && (step->peer < 0 || (uint32_t)step->peer >= plan->ranks))
        return "names a peer that does not exist";
    if (step->flags & ~(unsigned)WEFT_STEP_FINISH)
        return "has unknown flags";
    if (transfers && step->flags)
        return "finishes a value without computing it";
    const struct weft_ref *to = &step->destination;
    const char *wrong = NULL;
    if (step->kind != WEFT_STEP_SEND)
        wrong = check_destination(plan, step);
    else if (to->buffer || to->slot || to->slot_stride)
        wrong = "is a SEND with a destination";
    if (!wrong)
        wrong = check_sources(plan, step);
    return wrong ? wrong : check_sense(plan, step);
}

static const char *check_loop(const struct weft_plan *plan, uint32_t index)
{
    const struct weft_step *loop = &plan->steps[index];
    if (loop->body < 1 || loop->body > plan->step_count - index - 1)
        return "has a body that does not lie within the plan";
    for (uint32_t i = 1; i <= loop->body; i++) {
        if (plan->steps[index + i].kind == WEFT_STEP_LOOP)
            return "has another LOOP in its body";
    }
    return NULL;
}

/* What is wrong with the header, NULL when nothing is. */
static const char *header_fault(const struct weft_plan *plan)
{
    enum weft_collective collective = (enum weft_collective)plan->collective;
    int rooted = weft_collective_has_root(collective), blocks = weft_collective_blocks(collective);
    if (rooted ? plan->root < 0 || (uint32_t)plan->root >= plan->ranks : plan->root != -1)
        return "has a root that does not exist";
    if (collective == WEFT_ALLTOALL && plan->in_place)
        return "is an alltoall in place";
    if (plan->unequal && !blocks)
        return "is unequal, but not of blocks";
    if (blocks && (plan->chunks < plan->ranks || (plan->unequal && plan->chunks != plan->ranks)))
        return "has no chunk for each rank";
    if (plan->temp_chunks > plan->chunks || plan->temp_first > plan->temp_chunks)
        return "has more TEMP than chunks";
    if (plan->cells > WEFT_CELLS_MAX)
        return "has too many cells";
    return NULL;
}

static int check_header(const struct weft_plan *plan)
{
    if (plan->ranks < 1 || plan->ranks > INT32_MAX || plan->rank >= plan->ranks)
        return weft_fail(WEFT_INVALID, "plan header: rank %u of %u", plan->rank, plan->ranks);
    if (plan->collective >= WEFT_COLLECTIVE_COUNT)
        return weft_fail(WEFT_INVALID, "rank %u's plan: collective is %u, expected 0 to %d", plan->rank,
                         plan->collective, WEFT_COLLECTIVE_COUNT - 1);
    if (plan->chunks < 1)
        return weft_fail(WEFT_INVALID, "rank %u's plan: no chunks", plan->rank);
    if (plan->slots > UINT16_MAX + 1)
        return weft_fail(WEFT_INVALID, "rank %u's plan: %u slots, expected at most %u", plan->rank,
                         plan->slots, UINT16_MAX + 1);
    const char *wrong = header_fault(plan);
    if (wrong)
        return weft_fail(WEFT_INVALID, "rank %u's plan: it %s", plan->rank, wrong);
    return WEFT_OK;
}

int weft_plan_check(const struct weft_plan *plan, uint64_t *steps)
{
    int status = check_header(plan);
    if (status != WEFT_OK)
        return status;
    uint64_t total = 0;
    uint32_t loop_end = 0, iterations = 1;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct weft_step *step = &plan->steps[i];
        if (i == loop_end)
            iterations = 1;
        const char *wrong = "is of an unknown kind";
        if (step->kind == WEFT_STEP_LOOP)
            wrong = check_loop(plan, i);
        else if (step->kind < WEFT_STEP_LOOP)
            wrong = check_step(plan, step);
        if (wrong)
            return weft_fail(WEFT_INVALID, "rank %u's plan: record %u %s", plan->rank, i, wrong);
        if (step->kind == WEFT_STEP_LOOP) {
            loop_end = i + 1 + step->body;
            iterations = step->iterations;
        } else {
            total += iterations; /* below 2^64: both factors are below 2^32 */
        }
    }
    *steps = total;
    return WEFT_OK;
}

int weft_plans_make(const struct weft_plan_request *request, struct weft_plan ***plans)
{
    if (request->ranks < 1)
        return weft_fail(WEFT_INVALID, "plan request: ranks is 0, expected at least 1");
    struct weft_plan **made = calloc(request->ranks, sizeof *made);
    if (!made)
        return weft_fail(WEFT_NOMEM, "plans of %u ranks: no memory", request->ranks);
    for (uint32_t rank = 0; rank < request->ranks; rank++) {
        struct weft_plan_request one = *request;
        one.rank = rank;
        int status = weft_plan_make(&one, &made[rank]);
        if (status != WEFT_OK) {
            weft_plans_free(made, request->ranks);
            return status;
        }
    }
    *plans = made;
    return WEFT_OK;
}

void weft_plans_free(struct weft_plan **plans, uint32_t ranks)
{
    for (uint32_t rank = 0; plans && rank < ranks; rank++)
        weft_plan_free(plans[rank]);
    free(plans);
}
