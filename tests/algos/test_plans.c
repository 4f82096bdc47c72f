/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (plans are computed); early */
/* Generators, cursor and verifier: every rank count from 1 to 64, and two large ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "algos/hazard.h"
#include "algos/proof/verify.h"
#include "tests/support/plan_cases.h"
#include "tests/support/plan_proof.h"

#define CONST(plans) ((const struct weft_plan *const *)(plans))

static struct weft_plan **make(int algorithm, uint32_t ranks, int in_place)
{
    return plan_proof_make((struct weft_plan_request){WEFT_ALLREDUCE, (enum weft_algorithm)algorithm, ranks,
                                                      0, in_place, -1, 0, 0, NULL});
}

struct count {
    uint32_t sends, recvs, copies;
};

static struct count count_of(const struct weft_plan *plan)
{
    struct count count = {0, 0, 0};
    struct weft_cursor cursor;
    struct weft_step step;
    weft_cursor_start(&cursor, plan);
    while (weft_cursor_next(&cursor, &step)) {
        count.sends += step.kind == WEFT_STEP_SEND;
        count.recvs += step.kind == WEFT_STEP_RECV;
        count.copies += step.kind == WEFT_STEP_COPY;
    }
    return count;
}

/* What a request's results have to be put together like. */
static unsigned expected_order(const struct weft_plan_request *request)
{
    if (request->strict)
        return WEFT_VERIFY_EXPECT_STRICT;
    return weft_algorithm_keeps_order(request->collective, request->algorithm) ? WEFT_VERIFY_EXPECT_RANK_ORDER
                                                                               : 0;
}

/* Every plan there is. The narrowest window and one that varies, of many ranks in turn, and at times the default one; all roots of few
 * ranks, the first, the last and two more of many. Strict plans have the one expression that strict mode fixes, others
 * the order of ranks where the algorithm claims to keep it. */
static void test_every_count(void **state)
{
    (void)state;
    int all = getenv("WEFT_LONG") != NULL;
    for (uint32_t ranks = 1, last = plan_proof_ranks(64, 18); ranks <= last; ranks++) {
        struct plan_cases cases = plan_cases_start(ranks, ranks <= (all ? 16 : 9) ? ranks
                                                          : ranks <= 32           ? 4
                                                                                  : 2);
        while (plan_cases_next(&cases)) {
            struct weft_plan **plans = plan_proof_make(cases.request);
            for (uint32_t window = 2; window <= 64; window++) {
                struct weft_verify_options options = {
                    .window = window, .expect = expected_order(&cases.request), .seed = window + ranks};
                int narrow = window == 2, varies = window == 3 + ranks * 7 % 62;
                int asked = ranks > 32 ? (ranks % 2 ? narrow : varies)
                                       : narrow || varies || (window == 32 && ranks % 4 == 0);
                if (all || asked)
                    plan_proof_expect(&cases.request, plans, &options);
            }
            weft_plans_free(plans, ranks);
        }
    }
}

/* Ranks may differ in whether their buffers are the same. */
static void test_mixed_in_place(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 20; ranks++) {
        struct plan_cases cases = plan_cases_start(ranks, 2);
        while (plan_cases_next(&cases)) {
            if (cases.request.in_place || cases.request.collective == WEFT_ALLTOALL)
                continue;
            struct weft_plan_request request = cases.request;
            request.in_place = 1;
            struct weft_plan **plans = plan_proof_make(cases.request), **others = plan_proof_make(request);
            for (uint32_t rank = 0; rank < ranks; rank++) {
                struct weft_plan *swapped = plans[rank];
                if ((rank * 2654435761u >> 7) % 2 == 0)
                    continue;
                plans[rank] = others[rank];
                others[rank] = swapped;
            }
            for (uint32_t window = 2; window <= 64; window *= 16) {
                plan_proof_expect(&request, plans, &(struct weft_verify_options){.window = window});
                plan_proof_expect(&request, others, &(struct weft_verify_options){.window = window});
            }
            weft_plans_free(plans, ranks);
            weft_plans_free(others, ranks);
        }
    }
}

/* The verifier's claim that one schedule stands for all. */
static void test_random_interleavings(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 17; ranks++) {
        struct plan_cases cases = plan_cases_start(ranks, 1);
        while (plan_cases_next(&cases)) {
            struct weft_plan **plans = plan_proof_make(cases.request);
            struct weft_verify_options options = {
                .window = 2 + ranks * 5 % 31, .interleavings = 5, .seed = 7};
            plan_proof_expect(&cases.request, plans, &options);
            weft_plans_free(plans, ranks);
        }
    }
}

/* The change'th of some changes to a step; chunks and peers stay within bounds. */
static void change_step(struct weft_step *step, uint32_t change, uint32_t ranks, uint32_t chunks)
{
    switch (change % 4) {
    case 0:
        step->chunk = (step->chunk + 1) % chunks;
        break;
    case 1:
        step->flags ^= step->kind == WEFT_STEP_REDUCE;
        break;
    case 2:
        step->chunk_stride = -step->chunk_stride;
        break;
    default:
        step->peer = (int32_t)((uint32_t)(step->peer + 1) % ranks);
    }
}

/* Rotation and full method agree, on right plans and on ones that all ranks got wrong alike. Returns how many were
 * refused by rotation. */
static int rotation_agrees(struct weft_plan_request request)
{
    int refused = 0;
    uint32_t ranks = request.ranks;
    struct weft_plan **plans = plan_proof_make(request);
    for (uint32_t change = 0; change < 4 * plans[0]->step_count + 1; change++) {
        struct weft_step kept[64];
        struct weft_verify_report report;
        struct weft_verify_options full = {.method = WEFT_VERIFY_FULL},
                                   rotation = {.method = WEFT_VERIFY_ROTATION};
        for (uint32_t rank = 0; change && rank < ranks; rank++) {
            kept[rank] = plans[rank]->steps[(change - 1) / 4];
            change_step(&plans[rank]->steps[(change - 1) / 4], change - 1, ranks, plans[rank]->chunks);
        }
        int by_full = weft_plans_verify(CONST(plans), ranks, &full, &report);
        int by_rotation = weft_plans_verify(CONST(plans), ranks, &rotation, &report);
        assert_true(change || by_rotation == WEFT_OK);
        if (by_rotation != WEFT_UNSUPPORTED && (by_full == WEFT_OK) != (by_rotation == WEFT_OK))
            fail_msg("%s, ranks %u change %u: full %d, rotation %d", weft_collective_name(request.collective),
                     ranks, change, by_full, by_rotation);
        refused += by_rotation == WEFT_INVALID;
        for (uint32_t rank = 0; change && rank < ranks; rank++)
            plans[rank]->steps[(change - 1) / 4] = kept[rank];
    }
    weft_plans_free(plans, ranks);
    return refused;
}

static void test_rotation_agrees(void **state)
{
    (void)state;
    static const struct weft_plan_request requests[] = {
        {WEFT_ALLREDUCE, WEFT_ALGO_RING, 0, 0, 0, -1, 0, 0, NULL},
        {WEFT_ALLGATHER, WEFT_ALGO_RING, 0, 0, 0, -1, 0, 0, NULL},
        {WEFT_REDUCE_SCATTER, WEFT_ALGO_RING, 0, 0, 0, -1, 0, 0, NULL},
        {WEFT_ALLTOALL, WEFT_ALGO_PAIRWISE, 0, 0, 0, -1, 0, 0, NULL},
        {WEFT_BARRIER, WEFT_ALGO_DISSEMINATION, 0, 0, 0, -1, 0, 0, NULL},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int refused = 0;
        for (uint32_t ranks = 2; ranks <= 24; ranks++) {
            struct weft_plan_request request = requests[i];
            request.ranks = ranks;
            request.in_place = ranks % 3 == 0 && request.collective != WEFT_ALLTOALL;
            refused += rotation_agrees(request);
        }
        assert_true(refused > 60);
    }
}

/* 10,240 ranks, by rotation or where a rank has little; others as far as the full method is quick. In place or not by turns. */
static void test_large(void **state)
{
    (void)state;
    int more = getenv("WEFT_LONG") != NULL;
    struct plan_cases cases = plan_cases_start(plan_proof_ranks(10240, 640), 1);
    while (plan_cases_next(&cases)) {
        struct weft_plan_request request = cases.request;
        int turn = ((int)request.collective + (int)request.algorithm + request.unequal + request.strict) % 2;
        if (!more && request.in_place != turn && request.collective != WEFT_ALLTOALL)
            continue;
        int many_chunks =
            request.algorithm == WEFT_ALGO_RAB || request.algorithm == WEFT_ALGO_SAG ||
            request.algorithm == WEFT_ALGO_BRUCK || request.algorithm == WEFT_ALGO_HALVING ||
            request.algorithm == WEFT_ALGO_HIER ||
            (request.algorithm == WEFT_ALGO_DIRECT && request.collective == WEFT_REDUCE_SCATTER);
        if (many_chunks)
            request.ranks = more ? 1500 : plan_proof_ranks(520, 130);
        if (many_chunks && request.root >= 0)
            request.root = (int)request.ranks / 3;
        struct weft_verify_options options = {.expect = many_chunks ? expected_order(&request) : 0};
        struct weft_plan **plans = plan_proof_make(request);
        plan_proof_expect(&request, plans, &options);
        weft_plans_free(plans, request.ranks);
    }
}

/* What the algorithms promise of their plans' size. */
static void test_thrift(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 70; ranks++) {
        struct plan_cases cases = plan_cases_start(ranks, 2);
        uint32_t log = 0;
        while ((uint64_t)1 << log < ranks)
            log++;
        while (plan_cases_next(&cases)) {
            struct weft_plan **plans = plan_proof_make(cases.request);
            enum weft_collective collective = cases.request.collective;
            enum weft_algorithm algorithm = cases.request.algorithm;
            for (uint32_t rank = 0; rank < ranks; rank++) {
                struct count count = count_of(plans[rank]);
                int tree = (collective == WEFT_GATHER || collective == WEFT_SCATTER) &&
                           algorithm == WEFT_ALGO_BINOMIAL;
                int is_root = plans[rank]->root == (int)rank;
                uint32_t temp = plans[rank]->temp_chunks - plans[rank]->temp_first;
                if (collective == WEFT_BARRIER || algorithm == WEFT_ALGO_BRUCK)
                    assert_in_range(count.sends, log, collective == WEFT_ALLGATHER ? 2 * log : log);
                if (tree || (collective == WEFT_ALLGATHER && !cases.request.unequal))
                    assert_in_range(count.copies, 0, 1);
                if (tree && (is_root || count.sends + count.recvs == 1))
                    assert_int_equal(temp, 0);
                if (algorithm == WEFT_ALGO_CHAIN || algorithm == WEFT_ALGO_RING ||
                    algorithm == WEFT_ALGO_DIRECT)
                    assert_int_equal(temp, 0); /* cells are enough */
                assert_in_range(plans[rank]->cells, 0, 4);
                assert_true(collective != WEFT_REDUCE || algorithm != WEFT_ALGO_CHAIN ||
                            plans[rank]->chunks >= 16 * plans[rank]->cells);
            }
            weft_plans_free(plans, ranks);
        }
    }
}

/* Rank 0's plan stays about a dozen records long. */
static void test_ring_is_short(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks < 2000000000; ranks = ranks * 3 + 1) {
        struct weft_plan_request request = {
            WEFT_ALLREDUCE, WEFT_ALGO_RING, ranks, ranks / 2, 0, -1, 0, 0, NULL};
        struct weft_plan *plan;
        assert_int_equal(weft_plan_make(&request, &plan), WEFT_OK);
        assert_in_range(plan->step_count, 1, 13);
        weft_plan_free(plan);
    }
}

/* In the double tree no rank has children in both trees, whatever the count. */
static void test_tree_is_balanced(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 300; ranks++) {
        struct weft_plan **plans = make(WEFT_ALGO_TREE, ranks, 0);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            int reduces[2] = {0, 0};
            for (uint32_t i = 0; i < plans[rank]->step_count; i++)
                reduces[plans[rank]->steps[i].chunk] += plans[rank]->steps[i].kind == WEFT_STEP_REDUCE;
            assert_int_equal(reduces[0] && reduces[1], 0); /* inner in one tree only */
            assert_in_range(plans[rank]->step_count, 4, 9);
        }
        weft_plans_free(plans, ranks);
    }
}

/* --- the cursor ---------------------------------------------------------------------------------------- */

static int64_t wrap(int64_t value, int64_t modulus)
{
    return (value % modulus + modulus) % modulus;
}

static int64_t slot_at(const struct weft_plan *plan, const struct weft_ref *ref, int64_t iteration)
{
    uint32_t numbers = ref->buffer == WEFT_BUFFER_CELL ? plan->cells : plan->slots;
    return numbers ? wrap(ref->slot + iteration * ref->slot_stride, numbers) : ref->slot;
}

static void expect_step(const struct weft_plan *plan, const struct weft_step *record, int64_t iteration,
                        const struct weft_step *step)
{
    assert_int_equal(step->kind, record->kind);
    assert_int_equal(step->flags, record->flags);
    assert_int_equal(step->span, record->span);
    assert_int_equal(step->source_count, record->source_count);
    assert_int_equal(step->chunk, wrap(record->chunk + iteration * record->chunk_stride, plan->chunks));
    assert_int_equal(step->chunk_stride, 0);
    assert_int_equal(step->peer, wrap(record->peer + iteration * record->peer_stride, plan->ranks));
    assert_int_equal(step->peer_stride, 0);
    if (step->kind == WEFT_STEP_COPY)
        assert_int_equal(step->from, wrap(record->from + iteration * record->from_stride, plan->chunks));
    assert_int_equal(step->destination.slot, slot_at(plan, &record->destination, iteration));
    assert_int_equal(step->destination.slot_stride, 0);
    for (int i = 0; i < step->source_count; i++) {
        assert_int_equal(step->sources[i].buffer, record->sources[i].buffer);
        assert_int_equal(step->sources[i].slot, slot_at(plan, &record->sources[i], iteration));
        assert_int_equal(step->sources[i].slot_stride, 0);
    }
}

static void expect_walk(const struct weft_plan *plan)
{
    struct weft_cursor cursor;
    struct weft_step step;
    weft_cursor_start(&cursor, plan);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct weft_step *record = &plan->steps[i];
        uint32_t iterations = 1, body = 1;
        if (record->kind == WEFT_STEP_LOOP) {
            iterations = record->iterations;
            body = record->body;
            i += body;
            record++;
        }
        for (uint32_t k = 0; k < iterations; k++) {
            for (uint32_t b = 0; b < body; b++) {
                assert_int_equal(weft_cursor_next(&cursor, &step), 1);
                expect_step(plan, record + b, k, &step);
            }
        }
    }
    assert_int_equal(weft_cursor_next(&cursor, &step), 0);
    assert_int_equal(weft_cursor_next(&cursor, &step), 0);
}

/* A made-up plan with every kind of stride, loops next to each other, empty ones, and one at the end. */
static void test_cursor(void **state)
{
    (void)state;
    struct weft_plan *plan = calloc(1, sizeof *plan + 12 * sizeof(struct weft_step));
    assert_non_null(plan);
    *plan = (struct weft_plan){.ranks = 7, .chunks = 11, .slots = 3, .step_count = 12};
    static const uint32_t bodies[12] = {[1] = 2, [4] = 1, [6] = 2, [9] = 2};
    static const uint32_t counts[12] = {[1] = 40, [4] = 0, [6] = 1, [9] = 9};
    for (uint32_t i = 0; i < 12; i++) {
        struct weft_step *step = &plan->steps[i];
        *step = (struct weft_step){.kind = WEFT_STEP_REDUCE,
                                   .flags = (uint8_t)(i % 2),
                                   .source_count = 2,
                                   .peer = (int32_t)(i % 7),
                                   .peer_stride = (int32_t)(i * 5) - 23,
                                   .chunk = i % 11,
                                   .chunk_stride = 31 - (int32_t)(i * 6),
                                   .span = 1};
        step->destination = (struct weft_ref){.buffer = 3, .slot = (uint16_t)(i % 3), .slot_stride = -5};
        step->sources[1] = (struct weft_ref){.buffer = 3, .slot = 1, .slot_stride = (int16_t)(i - 4)};
        if (bodies[i])
            *step = (struct weft_step){.kind = WEFT_STEP_LOOP, .iterations = counts[i], .body = bodies[i]};
    }
    expect_walk(plan);
    free(plan);
    for (uint32_t ranks = 2; ranks <= 33; ranks++) {
        struct plan_cases cases = plan_cases_start(ranks, 1);
        while (plan_cases_next(&cases)) {
            struct weft_plan **plans = plan_proof_make(cases.request);
            for (uint32_t rank = 0; rank < ranks; rank++)
                expect_walk(plans[rank]);
            weft_plans_free(plans, ranks);
        }
    }
}

static void test_bad_requests(void **state)
{
    (void)state;
    static const struct {
        struct weft_plan_request request;
        const char *field;
    } cases[] = {
        {{(enum weft_collective)9, WEFT_ALGO_RING, 4, 0, 0, -1, 0, 0, NULL}, "collective"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_AUTO, 4, 0, 0, -1, 0, 0, NULL}, "algorithm"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_COUNT, 4, 0, 0, -1, 0, 0, NULL}, "algorithm"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_RING, 0, 0, 0, -1, 0, 0, NULL}, "ranks"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_RING, 0x80000000u, 0, 0, -1, 0, 0, NULL}, "ranks"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_RING, 4, 4, 0, -1, 0, 0, NULL}, "rank is 4"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_BRUCK, 4, 0, 0, -1, 0, 0, NULL}, "no allreduce by bruck"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_RING, 4, 0, 0, 0, 0, 0, NULL}, "root is 0, expected -1"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_RING, 4, 0, 0, -1, 1, 0, NULL}, "cannot do unequal blocks"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_RING, 4, 0, 0, -1, 0, 1, NULL},
         "allreduce by ring cannot keep strict mode's order"},
        {{WEFT_ALLREDUCE, WEFT_ALGO_TREE, 1, 0, 0, -1, 0, 1, NULL}, "strict"},
        {{WEFT_BROADCAST, WEFT_ALGO_CHAIN, 4, 0, 0, -1, 0, 0, NULL}, "root is -1, expected 0 to 3"},
        {{WEFT_BROADCAST, WEFT_ALGO_CHAIN, 4, 0, 0, 4, 0, 0, NULL}, "root is 4, expected 0 to 3"},
        {{WEFT_GATHER, WEFT_ALGO_BINOMIAL, 4, 0, 0, 0, 1, 0, NULL}, "cannot do unequal blocks"},
        {{WEFT_ALLTOALL, WEFT_ALGO_BRUCK, 4, 0, 0, -1, 1, 0, NULL}, "cannot do unequal blocks"},
        {{WEFT_ALLTOALL, WEFT_ALGO_PAIRWISE, 4, 0, 1, -1, 0, 0, NULL}, "in place"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_plan *plan = (struct weft_plan *)(uintptr_t)1;
        assert_int_equal(weft_plan_make(&cases[i].request, &plan), WEFT_INVALID);
        assert_true(plan == (struct weft_plan *)(uintptr_t)1);
        assert_non_null(strstr(weft_error_detail(), cases[i].field));
    }
}

/* Strict mode means nothing where nothing is reduced; every collective has an algorithm for each form. */
static void test_forms(void **state)
{
    (void)state;
    struct weft_plan_request request = {WEFT_BROADCAST, WEFT_ALGO_SAG, 5, 2, 0, 1, 0, 1, NULL};
    struct weft_plan *plan;
    assert_int_equal(weft_plan_make(&request, &plan), WEFT_OK);
    weft_plan_free(plan);
    for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
        enum weft_collective collective = (enum weft_collective)c;
        int serves = 0, unequal = 0, strict = 0, ordered = 0;
        for (int a = -1; a <= WEFT_ALGO_COUNT; a++) {
            enum weft_algorithm algorithm = (enum weft_algorithm)a;
            int can = weft_algorithm_serves(collective, algorithm);
            serves += can;
            unequal += weft_algorithm_serves_unequal(collective, algorithm);
            strict += weft_algorithm_serves_strict(collective, algorithm);
            ordered += weft_algorithm_keeps_order(collective, algorithm);
            assert_true(can || !(weft_algorithm_serves_unequal(collective, algorithm) ||
                                 weft_algorithm_serves_strict(collective, algorithm) ||
                                 weft_algorithm_keeps_order(collective, algorithm)));
        }
        assert_in_range(serves, collective == WEFT_BARRIER ? 1 : 2, 6);
        assert_int_equal(unequal > 0, weft_collective_blocks(collective));
        assert_int_equal(strict > 0, weft_collective_reduces(collective));
        assert_int_equal(ordered > 0, weft_collective_reduces(collective));
        assert_int_equal(weft_collective_parse(weft_collective_name(collective)), c);
    }
    assert_int_equal(weft_algorithm_needs(WEFT_GATHER, WEFT_ALGO_DIRECT), WEFT_NEEDS_OWN_COUNTS);
    assert_int_equal(weft_algorithm_needs(WEFT_SCATTER, WEFT_ALGO_DIRECT), WEFT_NEEDS_OWN_COUNTS);
    assert_int_equal(weft_algorithm_needs(WEFT_ALLTOALL, WEFT_ALGO_PAIRWISE), WEFT_NEEDS_OWN_COUNTS);
    assert_int_equal(weft_algorithm_needs(WEFT_ALLGATHER, WEFT_ALGO_BRUCK), WEFT_NEEDS_ALL_COUNTS);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"auto",     "ring",     "tree",          "rd",    "rab",
                                        "binomial", "chain",    "sag",           "bruck", "halving",
                                        "direct",   "pairwise", "dissemination", "hier",  "leader"};
    assert_int_equal(sizeof names / sizeof *names, WEFT_ALGO_COUNT);
    for (int i = 0; i < WEFT_ALGO_COUNT; i++) {
        assert_string_equal(weft_algorithm_name((enum weft_algorithm)i), names[i]);
        assert_int_equal(weft_algorithm_parse(names[i]), i);
    }
    assert_null(weft_algorithm_name(WEFT_ALGO_COUNT));
    assert_int_equal(weft_algorithm_parse("rings"), -1);
    assert_int_equal(weft_algorithm_parse(""), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_count),
        cmocka_unit_test(test_mixed_in_place),
        cmocka_unit_test(test_random_interleavings),
        cmocka_unit_test(test_rotation_agrees),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_ring_is_short),
        cmocka_unit_test(test_tree_is_balanced),
        cmocka_unit_test(test_cursor),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_thrift),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
