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

#include "algos/dump.h"
#include "algos/verify.h"

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
            WEFT_ALLREDUCE, (enum weft_algorithm)algorithm, ranks, rank, in_place, -1, 0, 0};
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

/* Ring of 4 ranks: RECV SEND LOOP(3) REDUCE LOOP(2). */
static void break_ring(struct weft_plan *plan, enum change change)
{
    if (change == OTHER_RANGE)
        plan->steps[1].chunk = 0;
    else if (change == NESTED)
        plan->steps[3] = plan->steps[2];
    else
        plan->steps[7].body = 9;
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
        {NESTED, "rank 1's plan: record 2", "another LOOP"},
        {LONG_BODY, "rank 1's plan: record 7", "does not lie within the plan"},
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
        make(plans, 1 + (int)draw(4), ranks, (int)draw(2));
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
    for (int k = 0; k < 4 && step->kind != WEFT_STEP_LOOP; k++) {
        struct weft_ref *ref = k ? &step->sources[k - 1] : &step->destination;
        ref->buffer = (uint8_t)(k || step->kind != WEFT_STEP_SEND ? draw(4) : 0);
        if (ref->buffer == WEFT_BUFFER_SLOT) {
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
        uint32_t ranks = 1 + draw(RANKS_MAX), chunks = 1 + draw(4);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            uint32_t count = draw(10);
            plans[rank] = calloc(1, sizeof **plans + count * sizeof(struct weft_step));
            assert_non_null(plans[rank]);
            *plans[rank] = (struct weft_plan){.ranks = ranks,
                                              .rank = rank,
                                              .chunks = chunks,
                                              .slots = draw(4),
                                              .in_place = draw(2),
                                              .temp_chunks = draw(2),
                                              .step_count = count};
            for (uint32_t i = 0; i < count; i++)
                random_record(&plans[rank]->steps[i], ranks, chunks);
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
        cmocka_unit_test(test_errors_are_named), cmocka_unit_test(test_deadlock_is_found),
        cmocka_unit_test(test_limits),           cmocka_unit_test(test_corrupted),
        cmocka_unit_test(test_random_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
