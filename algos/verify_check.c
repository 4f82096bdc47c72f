/* Static checks of one plan: what can be said about records before anything is run. */
#include "algos/verify.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"

/* What is wrong with a reference, NULL when nothing is. */
static const char *check_ref(const struct weft_plan *plan, const struct weft_ref *ref)
{
    if (ref->buffer != WEFT_BUFFER_SLOT && (ref->slot || ref->slot_stride))
        return "gives a slot number to a buffer";
    switch (ref->buffer) {
    case WEFT_BUFFER_INPUT:
    case WEFT_BUFFER_OUTPUT:
        return NULL;
    case WEFT_BUFFER_TEMP:
        return plan->temp_chunks ? NULL : "uses TEMP, which the plan does not announce";
    case WEFT_BUFFER_SLOT:
        return ref->slot < plan->slots ? NULL : "names a slot that the plan does not have";
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
    return wrong ? wrong : check_sources(plan, step);
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

static int check_header(const struct weft_plan *plan)
{
    if (plan->ranks < 1 || plan->ranks > INT32_MAX || plan->rank >= plan->ranks)
        return weft_fail(WEFT_INVALID, "plan header: rank %u of %u", plan->rank, plan->ranks);
    if (plan->collective != WEFT_ALLREDUCE)
        return weft_fail(WEFT_INVALID, "rank %u's plan: collective is %u, expected %d (allreduce)",
                         plan->rank, plan->collective, WEFT_ALLREDUCE);
    if (plan->chunks < 1)
        return weft_fail(WEFT_INVALID, "rank %u's plan: no chunks", plan->rank);
    if (plan->slots > UINT16_MAX + 1)
        return weft_fail(WEFT_INVALID, "rank %u's plan: %u slots, expected at most %u", plan->rank,
                         plan->slots, UINT16_MAX + 1);
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
