/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (plans are computed); early */
/* Is the verifier strict enough? Plans are broken on purpose, in every way a generator might get them wrong,
 * and the verifier has to notice.
 *
 * A mutant is one change to one record (a step, or a LOOP), in one rank's plan or in all ranks' alike, of any
 * plan at 2 to 17 ranks (tests/support/plan_cases.h); on one host or several; for rings also with their loops unrolled, so that single steps change. Whether
 * it is equivalent is not for the verifier to say: the interpreter (tests/support/plan_interpreter.h) runs it
 * on real data, in the same window, with SENDs that complete late (and early), over many random schedules
 * and element counts. Right results with identical bits and nothing stuck in all runs: equivalent. Otherwise
 * it counts, and the verifier must refuse it.
 *
 * Default: a sample, chosen by WEFT_SEED (printed). WEFT_LONG=1: a larger one, which takes minutes. Survivors
 * are listed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "algos/proof/dump.h"
#include "algos/proof/verify.h"
#include "algos/step_print.h"
#include "tests/support/plan_cases.h"
#include "tests/support/plan_hosts.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/effort.h"

#define CONST(plans)     ((const struct weft_plan *const *)(plans))
#define RANKS_MAX        17
#define SAMPLE           800 /* one in so many, by default */
#define SAMPLE_SANITIZED 1280
#define SAMPLE_LONG      8
#define RUNS_TO_ACQUIT   24
#define RECORDS_UNROLLED 160

enum operator_kind {
    PEER,
    PEER_STRIDE,
    CHUNK,
    CHUNK_STRIDE,
    CHUNK_STRIDE_ZERO,
    SPAN,
    SWAP_STEPS,
    MISSING,
    DOUBLED,
    SOURCE_ORDER,
    SOURCE_COUNT,
    BUFFER,
    SLOT,
    SLOT_STRIDE,
    FROM,
    FROM_STRIDE,
    FLAGS,
    KIND,
    ITERATIONS,
    BODY
};

/* a and b choose among the operator's variants. */
static const struct operator
{
    enum operator_kind kind;
    int a, b;
    const char *name;
}
operators[] = {
    {PEER, 1, 0, "peer"},
    {PEER, -1, 0, "peer"},
    {PEER, 2, 0, "peer"},
    {PEER_STRIDE, 1, 0, "peer stride"},
    {CHUNK, 1, 0, "chunk"},
    {CHUNK, -1, 0, "chunk"},
    {CHUNK_STRIDE, 1, 0, "chunk stride"},
    {CHUNK_STRIDE, -1, 0, "chunk stride"},
    {CHUNK_STRIDE_ZERO, 0, 0, "stride zero"},
    {SPAN, 1, 0, "span"},
    {SPAN, -1, 0, "span"},
    {SWAP_STEPS, 1, 0, "order swapped"},
    {SWAP_STEPS, 2, 0, "order swapped"},
    {MISSING, 0, 0, "step missing"},
    {DOUBLED, 0, 0, "step doubled"},
    {SOURCE_ORDER, 0, 1, "source order"},
    {SOURCE_ORDER, 1, 2, "source order"},
    {SOURCE_ORDER, 0, 2, "source order"},
    {SOURCE_COUNT, -1, 0, "source count"},
    {SOURCE_COUNT, 1, 0, "source count"},
    {BUFFER, 0, 0, "buffer"},
    {BUFFER, 0, 1, "buffer"},
    {BUFFER, 0, 2, "buffer"},
    {BUFFER, 0, 3, "buffer"},
    {BUFFER, 1, 0, "buffer"},
    {BUFFER, 1, 1, "buffer"},
    {BUFFER, 1, 2, "buffer"},
    {BUFFER, 1, 3, "buffer"},
    {BUFFER, 2, 0, "buffer"},
    {BUFFER, 2, 1, "buffer"},
    {BUFFER, 2, 2, "buffer"},
    {BUFFER, 2, 3, "buffer"},
    {BUFFER, 3, 0, "buffer"},
    {BUFFER, 3, 1, "buffer"},
    {BUFFER, 3, 2, "buffer"},
    {BUFFER, 3, 3, "buffer"},
    {BUFFER, 0, 4, "buffer"},
    {BUFFER, 1, 4, "buffer"},
    {BUFFER, 2, 4, "buffer"},
    {SLOT, 0, 1, "slot"},
    {SLOT, 1, 1, "slot"},
    {SLOT, 2, 1, "slot"},
    {SLOT, 3, 1, "slot"},
    {SLOT_STRIDE, 0, 1, "slot stride"},
    {SLOT_STRIDE, 0, -1, "slot stride"},
    {SLOT_STRIDE, 1, 1, "slot stride"},
    {SLOT_STRIDE, 1, -1, "slot stride"},
    {FROM, 1, 0, "from"},
    {FROM, -1, 0, "from"},
    {FROM_STRIDE, 1, 0, "from stride"},
    {FROM_STRIDE, -1, 0, "from stride"},
    {FLAGS, 0, 0, "flags"},
    {KIND, WEFT_STEP_SEND, WEFT_STEP_RECV, "kind"},
    {KIND, WEFT_STEP_RECV, WEFT_STEP_SEND, "kind"},
    {KIND, WEFT_STEP_REDUCE, WEFT_STEP_COPY, "kind"},
    {KIND, WEFT_STEP_COPY, WEFT_STEP_REDUCE, "kind"},
    {ITERATIONS, 1, 0, "iterations"},
    {ITERATIONS, -1, 0, "iterations"},
    {BODY, 1, 0, "body"},
    {BODY, -1, 0, "body"},
};

#define OPERATORS (sizeof operators / sizeof *operators)

/* --- changing a record --------------------------------------------------------------------------------- */

/* Reference number 0 is the destination, 1..3 the sources; NULL where the step does not use it. */
static struct weft_ref *ref_of(struct weft_step *step, int number)
{
    if (number == 0)
        return step->kind == WEFT_STEP_SEND ? NULL : &step->destination;
    return number <= step->source_count ? &step->sources[number - 1] : NULL;
}

static int change_ref(const struct weft_plan *plan, struct weft_step *step, const struct operator* how)
{
    struct weft_ref *ref = ref_of(step, how->a);
    if (!ref)
        return 0;
    if (how->kind == BUFFER) {
        if (ref->buffer == how->b || (how->b == WEFT_BUFFER_SLOT && plan->slots == 0) ||
            (how->b == WEFT_BUFFER_CELL && plan->cells == 0))
            return 0;
        *ref = (struct weft_ref){.buffer = (uint8_t)how->b};
        return 1;
    }
    int numbers = ref->buffer == WEFT_BUFFER_SLOT   ? (int)plan->slots
                  : ref->buffer == WEFT_BUFFER_CELL ? (int)plan->cells
                                                    : 0;
    if (numbers < 2)
        return 0;
    if (how->kind == SLOT)
        ref->slot = (uint16_t)((ref->slot + how->b + numbers) % numbers);
    else
        ref->slot_stride = (int16_t)(ref->slot_stride + how->b);
    return 1;
}

static int change_sources(struct weft_step *step, const struct operator* how)
{
    if (step->kind != WEFT_STEP_REDUCE)
        return 0;
    if (how->kind == SOURCE_COUNT) {
        step->source_count = (uint8_t)(step->source_count + how->a);
        return 1;
    }
    if (how->b >= step->source_count)
        return 0;
    struct weft_ref first = step->sources[how->a];
    step->sources[how->a] = step->sources[how->b];
    step->sources[how->b] = first;
    return 1;
}

/* Changes one field; 0 when the operator does not apply. */
static int change_step(struct weft_plan *plan, struct weft_step *step, const struct operator* how)
{
    int transfers = step->kind == WEFT_STEP_SEND || step->kind == WEFT_STEP_RECV;
    switch (how->kind) {
    case PEER:
        step->peer = (int32_t)((uint32_t)(step->peer + how->a + (int)plan->ranks) % plan->ranks);
        return transfers && how->a % (int)plan->ranks != 0;
    case PEER_STRIDE:
        step->peer_stride += how->a;
        return transfers;
    case CHUNK:
        if (step->kind == WEFT_STEP_COPY && step->from == step->chunk)
            step->from = (uint32_t)(step->from + (uint32_t)how->a + plan->chunks) % plan->chunks;
        step->chunk = (uint32_t)(step->chunk + (uint32_t)how->a + plan->chunks) % plan->chunks;
        return plan->chunks > 1;
    case FROM:
        step->from = (uint32_t)(step->from + (uint32_t)how->a + plan->chunks) % plan->chunks;
        return plan->chunks > 1 && step->kind == WEFT_STEP_COPY;
    case FROM_STRIDE:
        step->from_stride += how->a;
        return plan->chunks > 1 && step->kind == WEFT_STEP_COPY;
    case CHUNK_STRIDE:
        step->chunk_stride += how->a;
        return plan->chunks > 1;
    case CHUNK_STRIDE_ZERO:
        if (step->chunk_stride == 0)
            return 0;
        step->chunk_stride = 0;
        return 1;
    case SPAN:
        step->span += (uint32_t)how->a;
        return 1;
    case SOURCE_ORDER:
    case SOURCE_COUNT:
        return change_sources(step, how);
    case FLAGS:
        step->flags ^= WEFT_STEP_FINISH;
        return !transfers;
    case KIND:
        if (step->kind != how->a)
            return 0;
        step->kind = (uint8_t)how->b;
        step->source_count = how->b == WEFT_STEP_REDUCE ? 2 : how->b != WEFT_STEP_RECV;
        return 1;
    default:
        return change_ref(plan, step, how);
    }
}

/* The LOOP whose body holds the record, NULL outside loops. */
static struct weft_step *loop_around(struct weft_plan *plan, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        struct weft_step *step = &plan->steps[i];
        if (step->kind == WEFT_STEP_LOOP && index <= i + step->body)
            return step;
    }
    return NULL;
}

/* Changes the list of records. plan has room for one more. */
static int change_list(struct weft_plan *plan, uint32_t index, const struct operator* how)
{
    struct weft_step *step = &plan->steps[index], *loop = loop_around(plan, index), kept = *step;
    uint32_t other = index + (uint32_t)how->a;
    size_t behind = (plan->step_count - index - 1) * sizeof *step;
    switch (how->kind) {
    case SWAP_STEPS:
        if (other >= plan->step_count || plan->steps[other].kind == WEFT_STEP_LOOP ||
            loop_around(plan, other) != loop)
            return 0;
        *step = plan->steps[other];
        plan->steps[other] = kept;
        return 1;
    case MISSING:
        memmove(step, step + 1, behind);
        plan->step_count--;
        if (loop)
            loop->body--;
        return 1;
    case DOUBLED:
        memmove(step + 2, step + 1, behind);
        step[1] = kept;
        plan->step_count++;
        if (loop)
            loop->body++;
        return 1;
    default:
        return 0;
    }
}

static int change(struct weft_plan *plan, uint32_t index, const struct operator* how)
{
    struct weft_step *step = &plan->steps[index];
    int strides = how->kind == PEER_STRIDE || how->kind == CHUNK_STRIDE || how->kind == SLOT_STRIDE ||
                  how->kind == FROM_STRIDE;
    if (strides && !loop_around(plan, index))
        return 0; /* no iteration would see it */
    if (step->kind == WEFT_STEP_LOOP) {
        if (how->kind == ITERATIONS)
            step->iterations += (uint32_t)how->a;
        else if (how->kind == BODY)
            step->body += (uint32_t)how->a;
        return (how->kind == ITERATIONS && step->iterations < 1000) || how->kind == BODY;
    }
    switch (how->kind) {
    case ITERATIONS:
    case BODY:
        return 0;
    case SWAP_STEPS:
    case MISSING:
    case DOUBLED:
        return change_list(plan, index, how);
    default:
        return change_step(plan, step, how);
    }
}

/* --- judging ------------------------------------------------------------------------------------------- */

struct score {
    uint64_t seed;
    uint64_t number; /* of mutants met */
    unsigned sample;
    unsigned tried, harmful, caught, harmless, strict;
    unsigned harmful_by[BODY + 1], missed_by[BODY + 1], harmless_by[BODY + 1];
};

/* What is mutated: all plans of one request, each with room for one more record. */
struct subject {
    struct weft_plan_request request;
    unsigned expect; /* WEFT_VERIFY_EXPECT_* */
    uint32_t ranks;
    struct weft_plan *plans[RANKS_MAX];
    struct weft_plan *mutants[RANKS_MAX];
    const struct weft_plan *mixed[RANKS_MAX];
    int unrolled;
};

static int is_harmful(const struct subject *subject, uint32_t window, uint64_t seed, const char **why)
{
    size_t chunks = weft_collective_blocks(subject->request.collective) ? 1 : subject->plans[0]->chunks;
    for (uint64_t run = 0; run < RUNS_TO_ACQUIT; run++) {
        struct interpreter_options options = {
            .window = window, .count = 2 * chunks + 1, .seed = seed + run * 7919};
        options.strict = (subject->expect & WEFT_VERIFY_EXPECT_STRICT) != 0;
        options.ordered = (subject->expect & WEFT_VERIFY_EXPECT_RANK_ORDER) != 0;
        if (run % 8 == 5)
            options.count = chunks * 7;
        options.eager = run % 8 == 7;
        if (plan_interpret(subject->mixed, subject->ranks, &options, why) != INTERPRETED_RIGHT)
            return 1;
    }
    return 0;
}

static void judge(struct score *score, const struct subject *subject, uint32_t rank, uint32_t index,
                  const struct operator* how)
{
    static const uint32_t windows[] = {32, 2, 3, 5, 64, 4};
    uint32_t window = windows[score->number % 6];
    struct weft_verify_options options = {.window = window, .expect = subject->expect, .seed = score->number};
    struct weft_verify_report report;
    const char *why;
    int accepted = weft_plans_verify(subject->mixed, subject->ranks, &options, &report) == WEFT_OK;
    int harmful = is_harmful(subject, window, score->number, &why);
    score->tried++;
    score->harmful += harmful;
    score->caught += harmful && !accepted;
    score->harmless += !harmful;
    score->strict += !harmful && !accepted;
    score->harmful_by[how->kind] += harmful;
    score->harmless_by[how->kind] += !harmful;
    if (!harmful || !accepted)
        return;
    char text[160];
    uint32_t shown = rank < subject->ranks ? rank : 0;
    weft_step_print(&subject->plans[shown]->steps[index], text, sizeof text);
    score->missed_by[how->kind]++;
    print_message(
        "survivor: %s by %s%s, %u ranks%s%s%s, window %u, %s of rank %d record %u (%s) %+d %d: %s\n",
        weft_collective_name(subject->request.collective), weft_algorithm_name(subject->request.algorithm),
        subject->unrolled ? " unrolled" : "", subject->ranks, subject->request.in_place ? " in place" : "",
        subject->request.unequal ? " unequal" : "", subject->request.strict ? " strict" : "", window,
        how->name, rank < subject->ranks ? (int)rank : -1, index, text, how->a, how->b, why);
}

/* A fixed choice, spread evenly. */
static int in_sample(struct score *score)
{
    uint64_t x = (score->seed + ++score->number) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (x >> 32) % score->sample == 0;
}

static size_t plan_size(const struct weft_plan *plan)
{
    return sizeof *plan + plan->step_count * sizeof *plan->steps;
}

/* Applies one operator to one record of one rank's plan, or of all (rank == ranks). */
static void mutate(struct score *score, struct subject *subject, uint32_t rank, uint32_t index,
                   const struct operator* how)
{
    int changed = 0;
    if (!in_sample(score))
        return;
    for (uint32_t r = 0; r < subject->ranks; r++) {
        subject->mixed[r] = subject->plans[r];
        if ((rank != r && rank != subject->ranks) || index >= subject->plans[r]->step_count)
            continue;
        memcpy(subject->mutants[r], subject->plans[r], plan_size(subject->plans[r]));
        if (!change(subject->mutants[r], index, how))
            continue;
        subject->mixed[r] = subject->mutants[r];
        changed = 1;
    }
    if (changed)
        judge(score, subject, rank, index, how);
}

static struct weft_plan *roomy(void)
{
    struct weft_plan *plan = calloc(1, sizeof *plan + (RECORDS_UNROLLED + 2) * sizeof *plan->steps);
    assert_non_null(plan);
    return plan;
}

static void subject_open(struct subject *subject, const struct weft_plan_request *made, int unrolled)
{
    struct weft_plan_request request = *made;
    uint32_t ranks = request.ranks;
    *subject = (struct subject){.request = request, .ranks = ranks, .unrolled = unrolled};
    if (request.strict)
        subject->expect = WEFT_VERIFY_EXPECT_STRICT;
    else if (weft_algorithm_keeps_order(request.collective, request.algorithm))
        subject->expect = WEFT_VERIFY_EXPECT_RANK_ORDER;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        request.rank = rank;
        struct weft_plan *plan;
        assert_int_equal(weft_plan_make(&request, &plan), WEFT_OK);
        subject->plans[rank] = roomy();
        subject->mutants[rank] = roomy();
        *subject->plans[rank] = *plan;
        if (unrolled) {
            struct weft_cursor cursor;
            weft_cursor_start(&cursor, plan);
            uint32_t count = 0;
            while (weft_cursor_next(&cursor, &subject->plans[rank]->steps[count]))
                assert_true(++count <= RECORDS_UNROLLED);
            subject->plans[rank]->step_count = count;
        } else {
            assert_true(plan->step_count <= RECORDS_UNROLLED);
            memcpy(subject->plans[rank], plan, plan_size(plan));
        }
        weft_plan_free(plan);
    }
}

static void subject_close(struct subject *subject)
{
    for (uint32_t rank = 0; rank < subject->ranks; rank++) {
        free(subject->plans[rank]);
        free(subject->mutants[rank]);
    }
}

static void mutate_all(struct score *score, const struct weft_plan_request *request, int unrolled)
{
    struct subject subject;
    uint32_t ranks = request->ranks;
    subject_open(&subject, request, unrolled);
    for (uint32_t rank = 0; rank <= ranks; rank++) {
        uint32_t count = subject.plans[rank < ranks ? rank : 0]->step_count;
        for (uint32_t index = 0; index < count; index++) {
            for (size_t i = 0; i < OPERATORS; i++)
                mutate(score, &subject, rank, index, &operators[i]);
        }
    }
    subject_close(&subject);
}

/* What goes along several rings. */
static void mutate_on_rings(struct score *score, uint32_t ranks)
{
    struct weft_hosts *hosts = plan_hosts_rings(ranks, 2 + ranks % 2, ranks);
    struct plan_cases cases = plan_cases_on(hosts, 1);
    while (plan_cases_next(&cases)) {
        enum weft_algorithm algorithm = cases.request.algorithm;
        if (!weft_collective_blocks(cases.request.collective) &&
            (algorithm == WEFT_ALGO_RING || (algorithm == WEFT_ALGO_CHAIN && ranks < 5)))
            mutate_all(score, &cases.request, 0);
    }
    weft_hosts_free(hosts);
}

/* Hierarchical plans, and the first ring along an order. */
static void mutate_on_hosts(struct score *score, uint32_t ranks)
{
    struct weft_hosts *hosts = plan_hosts_random(ranks, ranks + 4);
    struct plan_cases cases = plan_cases_on(hosts, 1);
    while (plan_cases_next(&cases)) {
        enum weft_algorithm algorithm = cases.request.algorithm;
        if (algorithm == WEFT_ALGO_HIER || algorithm == WEFT_ALGO_LEADER ||
            (algorithm == WEFT_ALGO_RING && ranks < 9))
            mutate_all(score, &cases.request, 0);
    }
    weft_hosts_free(hosts);
}

static void test_mutants(void **state)
{
    (void)state;
    const char *seed = getenv("WEFT_SEED");
    struct score score = {.seed = seed ? strtoull(seed, NULL, 10) : 1,
                          .sample = (uint32_t)test_by_effort(SAMPLE_SANITIZED, SAMPLE, SAMPLE_LONG)};
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
        struct plan_cases cases = plan_cases_start(ranks, 1);
        while (plan_cases_next(&cases)) {
            int loops =
                cases.request.algorithm == WEFT_ALGO_RING || cases.request.algorithm == WEFT_ALGO_PAIRWISE;
            if (cases.request.algorithm == WEFT_ALGO_CHAIN && ranks > 6)
                continue; /* nothing new, and slow */
            mutate_all(&score, &cases.request, 0);
            if (loops && ranks <= 9)
                mutate_all(&score, &cases.request, 1);
        }
        mutate_on_hosts(&score, ranks);
        if (ranks < 7)
            mutate_on_rings(&score, ranks);
    }
    print_message(
        "mutants: %u tried (1 in %u, WEFT_SEED=%llu), %u equivalent (%u of them refused all the same), "
        "%u not; caught %u of those, %.3f %%\n",
        score.tried, score.sample, (unsigned long long)score.seed, score.harmless, score.strict,
        score.harmful, score.caught, 100.0 * score.caught / score.harmful);
    for (size_t i = 0; i < OPERATORS; i++) {
        enum operator_kind kind = operators[i].kind;
        if (i + 1 == OPERATORS || operators[i + 1].kind != kind)
            print_message("    %-14s %6u not equivalent, %u missed; %u equivalent\n", operators[i].name,
                          score.harmful_by[kind], score.missed_by[kind], score.harmless_by[kind]);
    }
    assert_true(score.harmful > 200);
    assert_true((uint64_t)score.caught * 100 >= (uint64_t)score.harmful * 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
