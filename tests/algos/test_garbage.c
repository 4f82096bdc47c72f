/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (plans are computed) */
/* The verifier on wrong plans: it names what is wrong and where, and garbage never makes it crash or hang. */
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
#include "tests/support/plan_cases.h"

#define CONST(plans) ((const struct weft_plan *const *)(plans))
#define RANKS_MAX    6

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)((x ^ x >> 31) >> 16) % below;
}

static void make(struct weft_plan **plans, int algorithm, uint32_t ranks, int in_place)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct weft_plan_request request = {
            WEFT_ALLREDUCE, (enum weft_algorithm)algorithm, ranks, rank, in_place, -1, 0, 0, NULL};
        assert_int_equal(weft_plan_make(&request, &plans[rank]), WEFT_OK);
    }
}

static void release(struct weft_plan **plans, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++)
        weft_plan_free(plans[rank]);
}

/* --- each kind of error is named ----------------------------------------------------------------------- */

enum change {
    FIRST_CHUNK,
    ALL_CHUNKS,
    WRITE_INPUT,
    USE_TEMP,
    SEND_SLOT,
    ONE_SOURCE,
    SLOT_OUTSIDE,
    SELF,
    PEER_OUTSIDE,
    SLOT_TWICE,
    SLOT_UNREAD,
    TEMP_UNREAD,
    NO_FINISH,
    FINISH_EARLY,
    DROP_SEND,
    TWICE,
    OTHER_RANGE,
    OTHER_ORDER,
    NESTED,
    LONG_BODY,
    NO_CHUNKS,
    OTHER_RANK,
    KIND,
    FLAGS
};

/* Breaks rank 1's plan. Recursive doubling of 4 ranks: RECV SEND REDUCE (TEMP), RECV SEND REDUCE (OUTPUT). */
static void break_rd(struct weft_plan *plan, enum change change)
{
    struct weft_step *steps = plan->steps;
    switch (change) {
    case FIRST_CHUNK:
        steps[0].chunk = 1;
        break;
    case ALL_CHUNKS:
        steps[0].span = UINT32_MAX;
        break;
    case WRITE_INPUT:
        steps[2].destination.buffer = WEFT_BUFFER_INPUT;
        break;
    case USE_TEMP:
        plan->temp_chunks = 0;
        break;
    case SEND_SLOT:
        steps[4].sources[0].buffer = WEFT_BUFFER_SLOT;
        break;
    case ONE_SOURCE:
        steps[5].source_count = 1;
        break;
    case SLOT_OUTSIDE:
        steps[0].destination.slot = 2;
        break;
    case SELF:
        steps[1].peer = 1;
        break;
    case PEER_OUTSIDE:
        steps[1].peer = 4;
        break;
    case SLOT_TWICE:
        steps[5].sources[0] = steps[5].sources[1] = (struct weft_ref){.buffer = WEFT_BUFFER_SLOT};
        break;
    case SLOT_UNREAD:
        steps[5].sources[0] = steps[5].sources[1] = (struct weft_ref){.buffer = WEFT_BUFFER_TEMP};
        break;
    case TEMP_UNREAD:
        steps[1].sources[0] = (struct weft_ref){.buffer = WEFT_BUFFER_TEMP};
        break;
    case NO_FINISH:
        steps[5].flags = 0;
        break;
    case FINISH_EARLY:
        steps[2].flags = WEFT_STEP_FINISH;
        break;
    case DROP_SEND:
        plan->step_count = 3;
        break;
    case TWICE:
        steps[2].source_count = 3;
        steps[2].sources[2] = (struct weft_ref){.buffer = WEFT_BUFFER_INPUT};
        break;
    case OTHER_ORDER:
        steps[5].sources[2] = steps[5].sources[0];
        steps[5].sources[0] = steps[5].sources[1];
        steps[5].sources[1] = steps[5].sources[2];
        break;
    case NO_CHUNKS:
        plan->chunks = 0;
        break;
    case OTHER_RANK:
        plan->rank = 2;
        break;
    case KIND:
        steps[3].kind = 77;
        break;
    default:
        steps[3].flags = 0x80;
    }
}

/* Ring of 4 ranks: RECV SEND REDUCE LOOP(3) RECV SEND REDUCE LOOP(2). */
static void break_ring(struct weft_plan *plan, enum change change)
{
    if (change == OTHER_RANGE)
        plan->steps[1].chunk = 0;
    else if (change == NESTED)
        plan->steps[4] = plan->steps[3];
    else
        plan->steps[10].body = 9;
}

static void test_errors_are_named(void **state)
{
    (void)state;
    static const struct {
        enum change change;
        const char *where, *what;
    } cases[] = {
        {FIRST_CHUNK, "rank 1's plan: record 0", "chunks that the plan does not have"},
        {ALL_CHUNKS, "rank 1's plan: record 0", "chunks that the plan does not have"},
        {WRITE_INPUT, "rank 1's plan: record 2", "writes INPUT"},
        {USE_TEMP, "rank 1's plan: record 2", "does not announce"},
        {SEND_SLOT, "rank 1's plan: record 4", "sends from a slot"},
        {ONE_SOURCE, "rank 1's plan: record 5", "number of sources"},
        {SLOT_OUTSIDE, "rank 1's plan: record 0", "slot that the plan does not have"},
        {SELF, "rank 1 step 1", "own rank"},
        {PEER_OUTSIDE, "rank 1's plan: record 1", "peer that does not exist"},
        {SLOT_TWICE, "rank 1 step 5", "slot that is empty"},
        {SLOT_UNREAD, "rank 1 ends", "never read"},
        {TEMP_UNREAD, "rank 1's TEMP", "before it was written"},
        {NO_FINISH, "rank 1 ends", "not finished"},
        {FINISH_EARLY, "rank ", "finished already"},
        {DROP_SEND, "rank 3 step 3", "has ended without a matching step"},
        {TWICE, "rank 1 step 2", "the contribution of rank 1 twice"},
        {OTHER_RANGE, "rank 2 step 0", "meets rank 1 step 1"},
        {OTHER_ORDER, "rank 1 ends", "another order"},
        {NESTED, "rank 1's plan: record 3", "another LOOP"},
        {LONG_BODY, "rank 1's plan: record 10", "does not lie within the plan"},
        {NO_CHUNKS, "rank 1's plan", "no chunks"},
        {OTHER_RANK, "plan 1 of 4", "rank 2's"},
        {KIND, "rank 1's plan: record 3", "unknown kind"},
        {FLAGS, "rank 1's plan: record 3", "unknown flags"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_plan *plans[4];
        struct weft_verify_report report;
        enum change change = cases[i].change;
        int ring = change == OTHER_RANGE || change == NESTED || change == LONG_BODY;
        make(plans, ring ? WEFT_ALGO_RING : WEFT_ALGO_RD, 4, 0);
        assert_int_equal(weft_plans_verify(CONST(plans), 4, NULL, &report), WEFT_OK);
        if (ring)
            break_ring(plans[1], change);
        else
            break_rd(plans[1], change);
        int status = weft_plans_verify(CONST(plans), 4, NULL, &report);
        const char *detail = weft_error_detail();
        if (status != WEFT_INVALID || !strstr(detail, cases[i].where) || !strstr(detail, cases[i].what))
            fail_msg("change %d: status %d, '%s', expected '%s' and '%s'", change, status, detail,
                     cases[i].where, cases[i].what);
        release(plans, 4);
    }
}

#define HEADER       (-1)
#define STEP(field)  offsetof(struct weft_step, field), sizeof(((struct weft_step *)0)->field)
#define FIRST(field) offsetof(struct weft_step, sources[0].field), sizeof(((struct weft_ref *)0)->field)
#define PLAN(field)  offsetof(struct weft_plan, field), sizeof(((struct weft_plan *)0)->field)

/* One field of one record (or of the header) of one rank's plan gets another value. */
struct poke {
    enum weft_collective collective;
    enum weft_algorithm algorithm;
    uint32_t ranks;
    int unequal;
    uint32_t rank;
    int record;
    size_t offset, size;
    uint32_t value;
    const char *where, *what;
};

static const struct poke pokes[] = {
    {WEFT_ALLGATHER, WEFT_ALGO_RING, 4, 0, 1, 1, STEP(chunk), 0, "rank 1 step 1",
     "this rank's INPUT does not have"},
    {WEFT_REDUCE, WEFT_ALGO_BINOMIAL, 4, 0, 2, 1, STEP(destination.buffer), WEFT_BUFFER_OUTPUT,
     "rank 2 step 1", "this rank's OUTPUT does not have"},
    {WEFT_REDUCE, WEFT_ALGO_RAB, 4, 0, 1, HEADER, PLAN(temp_chunks), 1, "rank 1 step 2",
     "plan's TEMP does not have"},
    {WEFT_REDUCE, WEFT_ALGO_RAB, 4, 0, 1, HEADER, PLAN(temp_first), 1, "rank 1 step 2",
     "plan's TEMP does not have"},
    {WEFT_REDUCE, WEFT_ALGO_RAB, 4, 0, 1, HEADER, PLAN(temp_chunks), 9, "rank 1's plan",
     "more TEMP than chunks"},
    {WEFT_REDUCE_SCATTER, WEFT_ALGO_RING, 5, 0, 1, 5, STEP(chunk), 3, "rank 1 step 4", "than its cell holds"},
    {WEFT_REDUCE_SCATTER, WEFT_ALGO_RING, 5, 0, 1, 5, FIRST(slot), 1, "rank 1 step 4",
     "a cell that is empty"},
    {WEFT_REDUCE_SCATTER, WEFT_ALGO_RING, 5, 0, 1, 3, STEP(destination.slot), 3, "rank 1's plan: record 3",
     "a cell that the plan does not have"},
    {WEFT_REDUCE_SCATTER, WEFT_ALGO_RING, 5, 0, 1, HEADER, PLAN(cells), 17, "rank 1's plan",
     "too many cells"},
    {WEFT_REDUCE, WEFT_ALGO_CHAIN, 3, 0, 1, 3, STEP(span), 2, "rank 1's plan: record 3",
     "several chunks into a cell"},
    {WEFT_GATHER, WEFT_ALGO_DIRECT, 4, 1, 0, 2, STEP(span), 2, "rank 0's plan: record 2", "may have gaps"},
    {WEFT_GATHER, WEFT_ALGO_DIRECT, 4, 1, 1, 0, FIRST(buffer), WEFT_BUFFER_TEMP, "rank 1's plan: record 0",
     "does not announce"},
    {WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, 4, 0, 0, 2, STEP(flags), WEFT_STEP_FINISH, "rank 0's plan: record 2",
     "that does not reduce"},
    {WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, 4, 0, 0, 0, FIRST(buffer), WEFT_BUFFER_OUTPUT, "rank 0's OUTPUT",
     "before it was written"},
    {WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, 4, 0, 0, HEADER, PLAN(step_count), 2, "rank 0 ends",
     "without a value"},
    {WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, 4, 0, 2, HEADER, PLAN(root), 1, "rank 2's plan",
     "another collective"},
    {WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, 4, 0, 2, HEADER, PLAN(root), 4, "rank 2's plan",
     "root that does not exist"},
    {WEFT_BROADCAST, WEFT_ALGO_BINOMIAL, 4, 0, 2, HEADER, PLAN(unequal), 1, "rank 2's plan", "not of blocks"},
    {WEFT_ALLGATHER, WEFT_ALGO_RING, 4, 0, 2, HEADER, PLAN(root), 1, "rank 2's plan",
     "root that does not exist"},
    {WEFT_ALLGATHER, WEFT_ALGO_RING, 4, 0, 2, HEADER, PLAN(collective), 9, "rank 2's plan",
     "expected 0 to 8"},
    {WEFT_ALLGATHER, WEFT_ALGO_RING, 4, 0, 2, HEADER, PLAN(chunks), 3, "rank 2's plan",
     "no chunk for each rank"},
    {WEFT_ALLGATHER, WEFT_ALGO_RING, 4, 0, 2, 2, STEP(kind), WEFT_STEP_REDUCE, "rank 2's plan: record 2",
     "number of sources"},
    {WEFT_ALLGATHER, WEFT_ALGO_BRUCK, 4, 1, 1, 7, STEP(from), 1, "rank 1's plan: record 7", "differ in size"},
    {WEFT_ALLTOALL, WEFT_ALGO_BRUCK, 4, 0, 1, 0, STEP(from), 4, "rank 1's plan: record 0",
     "copies from chunks"},
    {WEFT_ALLTOALL, WEFT_ALGO_BRUCK, 4, 0, 1, 0, STEP(from), 3, "rank 2 ends", "in the place of"},
    {WEFT_ALLTOALL, WEFT_ALGO_PAIRWISE, 4, 0, 1, 3, STEP(chunk), 2, "rank 1 ends",
     "without a value in chunk 1"},
    {WEFT_ALLTOALL, WEFT_ALGO_PAIRWISE, 4, 0, 1, HEADER, PLAN(in_place), 1, "rank 1's plan", "in place"},
    {WEFT_ALLTOALL, WEFT_ALGO_PAIRWISE, 4, 0, 1, 1, STEP(chunk_stride), 0, "rank 1 ends",
     "rank 2's data in chunk 0"},
    {WEFT_BARRIER, WEFT_ALGO_DISSEMINATION, 4, 0, 1, 5, STEP(kind), WEFT_STEP_COPY, "rank 1's plan: record 5",
     "number of sources"},
    {WEFT_BARRIER, WEFT_ALGO_DISSEMINATION, 4, 0, 1, 4, FIRST(buffer), WEFT_BUFFER_INPUT, "rank 3 ends",
     "without rank 0's contribution"},
};

static void test_errors_of_collectives_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pokes / sizeof *pokes; i++) {
        const struct poke *poke = &pokes[i];
        struct weft_plan_request request = {.collective = poke->collective,
                                            .algorithm = poke->algorithm,
                                            .ranks = poke->ranks,
                                            .root = weft_collective_has_root(poke->collective) ? 0 : -1,
                                            .unequal = poke->unequal};
        struct weft_plan **plans;
        struct weft_verify_report report;
        assert_int_equal(weft_plans_make(&request, &plans), WEFT_OK);
        assert_int_equal(weft_plans_verify(CONST(plans), poke->ranks, NULL, &report), WEFT_OK);
        struct weft_plan *plan = plans[poke->rank];
        char *base = poke->record == HEADER ? (char *)plan : (char *)&plan->steps[poke->record];
        memcpy(base + poke->offset, &poke->value, poke->size); /* the smallest byte comes first */
        int status = weft_plans_verify(CONST(plans), poke->ranks, NULL, &report);
        const char *detail = weft_error_detail();
        if (status != WEFT_INVALID || !strstr(detail, poke->where) || !strstr(detail, poke->what))
            fail_msg("poke %zu: status %d, '%s', expected '%s' and '%s'", i, status, detail, poke->where,
                     poke->what);
        weft_plans_free(plans, poke->ranks);
    }
}

/* An order that is asked for is missed where it is missing. */
static void test_orders_are_expected(void **state)
{
    (void)state;
    static const struct {
        enum weft_algorithm algorithm;
        int strict, has;
    } cases[] = {{WEFT_ALGO_RING, 0, 0},
                 {WEFT_ALGO_TREE, 0, 0},
                 {WEFT_ALGO_RD, 0, WEFT_VERIFY_EXPECT_RANK_ORDER},
                 {WEFT_ALGO_RD, 1, WEFT_VERIFY_EXPECT_STRICT},
                 {WEFT_ALGO_RAB, 0, WEFT_VERIFY_EXPECT_STRICT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_plan_request request = {
            WEFT_ALLREDUCE, cases[i].algorithm, 7, 0, 0, -1, 0, cases[i].strict, NULL};
        struct weft_plan **plans;
        struct weft_verify_report report;
        assert_int_equal(weft_plans_make(&request, &plans), WEFT_OK);
        for (unsigned expect = 0; expect < 4; expect++) {
            struct weft_verify_options options = {.expect = expect};
            int status = weft_plans_verify(CONST(plans), 7, &options, &report);
            assert_int_equal(status, expect & ~(unsigned)cases[i].has ? WEFT_INVALID : WEFT_OK);
            assert_true(status == WEFT_OK || strstr(weft_error_detail(), "order"));
            assert_true(status != WEFT_OK || report.orders == (unsigned)cases[i].has);
        }
        weft_plans_free(plans, 7);
    }
}

/* Both partners reduce over what they are sending: each waits for the other. */
static void test_deadlock_is_found(void **state)
{
    (void)state;
    struct weft_plan *plans[2];
    struct weft_verify_report report;
    make(plans, WEFT_ALGO_RD, 2, 1);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(plans[rank]->steps[0].kind, WEFT_STEP_COPY);
        plans[rank]->steps[0] = plans[rank]->steps[1];
        plans[rank]->steps[1] = plans[rank]->steps[2];
        plans[rank]->steps[1].sources[0].buffer = WEFT_BUFFER_OUTPUT;
        plans[rank]->steps[2] = plans[rank]->steps[3];
        plans[rank]->steps[2].sources[rank].buffer = WEFT_BUFFER_INPUT;
        plans[rank]->step_count = 3;
    }
    assert_int_equal(weft_plans_verify(CONST(plans), 2, NULL, &report), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "deadlock"));
    assert_int_equal(report.rank, 0);
    assert_int_equal(report.step, 1);
    release(plans, 2);
    make(plans, WEFT_ALGO_RD, 2, 0);
    struct weft_verify_options narrow = {.window = 1};
    assert_int_equal(weft_plans_verify(CONST(plans), 2, &narrow, &report), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "window 1"));
    release(plans, 2);
}

static void test_limits(void **state)
{
    (void)state;
    struct weft_plan *plans[4];
    struct weft_verify_report report;
    make(plans, WEFT_ALGO_RING, 4, 0);
    struct weft_verify_options wide = {.window = 65}, small = {.memory_max = 100}, few = {.steps_max = 10};
    assert_int_equal(weft_plans_verify(CONST(plans), 4, &wide, &report), WEFT_INVALID);
    assert_int_equal(weft_plans_verify(CONST(plans), 4, &small, &report), WEFT_NOMEM);
    assert_int_equal(weft_plans_verify(CONST(plans), 4, &few, &report), WEFT_INVALID);
    assert_int_equal(weft_plans_verify(CONST(plans), 0, NULL, &report), WEFT_INVALID);
    release(plans, 4);
    make(plans, WEFT_ALGO_TREE, 4, 0);
    struct weft_verify_options rotation = {.method = WEFT_VERIFY_ROTATION};
    assert_int_equal(weft_plans_verify(CONST(plans), 4, &rotation, &report), WEFT_UNSUPPORTED);
    release(plans, 4);
}

/* --- garbage ------------------------------------------------------------------------------------------- */

/* Verifies within small limits, and prints, whatever it is. */
static int verify_garbage(struct weft_plan **plans, uint32_t ranks, FILE *sink)
{
    struct weft_verify_options options = {.window = 1 + draw(64),
                                          .method = (enum weft_verify_method)draw(3),
                                          .interleavings = draw(2),
                                          .seed = draw(1000),
                                          .memory_max = 1 << 22,
                                          .steps_max = 20000};
    struct weft_verify_report report;
    int status = weft_plans_verify(CONST(plans), ranks, &options, &report);
    if (status != WEFT_OK) {
        assert_true(status == WEFT_INVALID || status == WEFT_NOMEM || status == WEFT_UNSUPPORTED);
        assert_true(strlen(weft_error_detail()) > 10);
    }
    weft_plan_dump(plans[draw(ranks)], sink);
    weft_plan_dump_json(plans[draw(ranks)], sink);
    return status;
}

/* The plans of a collective by an algorithm. */
static void make_any(struct weft_plan **plans, uint32_t ranks)
{
    struct plan_cases cases = plan_cases_start(ranks, 2);
    cases.next = draw(9 * WEFT_ALGO_COUNT * 16);
    if (!plan_cases_next(&cases)) {
        cases.next = 0;
        assert_true(plan_cases_next(&cases));
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct weft_plan_request request = cases.request;
        request.rank = rank;
        assert_int_equal(weft_plan_make(&request, &plans[rank]), WEFT_OK);
    }
}

/* Right plans with some bytes changed, the more the wilder. */
static void test_corrupted(void **state)
{
    (void)state;
    FILE *sink = fopen("/dev/null", "w");
    assert_non_null(sink);
    random_state = 11;
    int accepted = 0, rounds = getenv("WEFT_LONG") ? 300000 : 12000;
    for (int round = 0; round < rounds; round++) {
        struct weft_plan *plans[RANKS_MAX];
        uint32_t ranks = 1 + draw(RANKS_MAX);
        make_any(plans, ranks);
        for (uint32_t changes = draw(4) + draw(2) * draw(30); changes > 0; changes--) {
            struct weft_plan *plan = plans[draw(ranks)];
            uint32_t count = plan->step_count;
            size_t size = sizeof *plan + count * sizeof *plan->steps;
            uint8_t *byte = (uint8_t *)plan + draw((uint32_t)size);
            *byte = (uint8_t)(draw(2) ? draw(256) : *byte + draw(3) - 1);
            plan->step_count = count; /* the length of the array is the caller's word */
        }
        accepted += verify_garbage(plans, ranks, sink) == WEFT_OK;
        release(plans, ranks);
    }
    fclose(sink);
    assert_true(accepted > rounds / 100 && accepted < rounds / 2);
}

static void random_record(struct weft_step *step, uint32_t ranks, uint32_t chunks)
{
    step->kind = (uint8_t)draw(5);
    step->flags = (uint8_t)(step->kind >= WEFT_STEP_REDUCE && draw(2));
    step->source_count =
        (uint8_t)(step->kind == WEFT_STEP_REDUCE ? 2 + draw(2) : step->kind != WEFT_STEP_RECV);
    step->peer = (int32_t)draw(ranks);
    step->peer_stride = (int32_t)draw(3) - 1;
    step->chunk = draw(chunks);
    step->chunk_stride = (int32_t)draw(5) - 2;
    step->span = 1 + draw(2);
    step->iterations = draw(4) ? draw(5) : draw(UINT32_MAX);
    step->body = 1 + draw(3);
    if (step->kind == WEFT_STEP_COPY) {
        step->from = draw(3) ? step->chunk : draw(chunks);
        step->from_stride = draw(3) ? step->chunk_stride : (int32_t)draw(3) - 1;
    }
    for (int k = 0; k < 4 && step->kind != WEFT_STEP_LOOP; k++) {
        struct weft_ref *ref = k ? &step->sources[k - 1] : &step->destination;
        ref->buffer = (uint8_t)(k || step->kind != WEFT_STEP_SEND ? draw(5) : 0);
        if (ref->buffer >= WEFT_BUFFER_SLOT) {
            ref->slot = (uint16_t)draw(3);
            ref->slot_stride = (int16_t)((int)draw(3) - 1);
        }
    }
}

/* Records that pass the static checks more often than random bytes would: small numbers everywhere. */
static void test_random_records(void **state)
{
    (void)state;
    FILE *sink = fopen("/dev/null", "w");
    assert_non_null(sink);
    random_state = 12;
    for (int round = 0; round < (getenv("WEFT_LONG") ? 500000 : 20000); round++) {
        struct weft_plan *plans[RANKS_MAX];
        uint32_t ranks = 1 + draw(RANKS_MAX), collective = draw(WEFT_COLLECTIVE_COUNT);
        int blocks = weft_collective_blocks(collective);
        uint32_t chunks = (blocks ? ranks : 1) + draw(3), unequal = blocks && draw(3) == 0;
        int root = weft_collective_has_root(collective) ? (int)draw(ranks) : -1;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            uint32_t count = draw(10);
            plans[rank] = calloc(1, sizeof **plans + count * sizeof(struct weft_step));
            assert_non_null(plans[rank]);
            *plans[rank] = (struct weft_plan){.collective = collective,
                                              .algorithm = WEFT_ALGO_RING,
                                              .root = root,
                                              .unequal = unequal,
                                              .cells = draw(3),
                                              .ranks = ranks,
                                              .rank = rank,
                                              .chunks = unequal ? ranks : chunks,
                                              .slots = draw(4),
                                              .in_place = draw(2),
                                              .temp_chunks = draw(chunks + 1),
                                              .step_count = count};
            for (uint32_t i = 0; i < count; i++)
                random_record(&plans[rank]->steps[i], ranks, plans[rank]->chunks);
        }
        verify_garbage(plans, ranks, sink);
        for (uint32_t rank = 0; rank < ranks; rank++)
            free(plans[rank]);
    }
    fclose(sink);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_named),
        cmocka_unit_test(test_errors_of_collectives_are_named),
        cmocka_unit_test(test_orders_are_expected),
        cmocka_unit_test(test_deadlock_is_found),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_corrupted),
        cmocka_unit_test(test_random_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
