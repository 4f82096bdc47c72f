/* The generators' plans on real data, in random order, by an interpreter that shares nothing with the
 * verifier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "algos/verify.h"
#include "tests/support/plan_interpreter.h"

#define CONST(plans) ((const struct weft_plan *const *)(plans))

static void expect_right(int algorithm, uint32_t ranks, int in_place,
                         const struct interpreter_options *options)
{
    struct weft_plan_request request = {
        WEFT_ALLREDUCE, (enum weft_algorithm)algorithm, ranks, 0, in_place, -1, 0, 0};
    struct weft_plan **plans;
    const char *why;
    if (weft_plans_make(&request, &plans) != WEFT_OK)
        fail_msg("%s", weft_error_detail());
    if (plan_interpret(CONST(plans), ranks, options, &why) != INTERPRETED_RIGHT)
        fail_msg("%s of %u ranks%s, window %u, %zu elements, seed %d%s: %s", weft_algorithm_name(algorithm),
                 ranks, in_place ? " in place" : "", options->window, options->count, (int)options->seed,
                 options->eager ? ", eager" : "", why);
    weft_plans_free(plans, ranks);
}

static void test_small_counts(void **state)
{
    (void)state;
    static const uint32_t windows[] = {2, 3, 4, 7, 32, 64};
    uint64_t runs = getenv("WEFT_LONG") ? 60 : 6;
    for (int algorithm = WEFT_ALGO_RING; algorithm <= WEFT_ALGO_RAB; algorithm++) {
        for (uint32_t ranks = 1; ranks <= 17; ranks++) {
            for (uint64_t run = 0; run < runs; run++) {
                struct interpreter_options options = {
                    .window = windows[run % 6], .count = 2 * ranks + 1, .seed = run * 977 + ranks};
                options.eager = run % 3 == 1;
                expect_right(algorithm, ranks, (int)(run / 2 % 2), &options);
            }
        }
    }
}

/* Fewer elements than chunks: some steps have nothing to do, differently on each rank. */
static void test_few_elements(void **state)
{
    (void)state;
    for (int algorithm = WEFT_ALGO_RING; algorithm <= WEFT_ALGO_RAB; algorithm++) {
        for (uint32_t ranks = 1; ranks <= 17; ranks++) {
            for (size_t count = 0; count <= 5; count++) {
                struct interpreter_options options = {
                    .window = (uint32_t)(2 + count), .count = count, .seed = count, .eager = count % 2};
                expect_right(algorithm, ranks, (int)(ranks + count) % 2, &options);
            }
        }
    }
}

/* The interpreter can tell: each of these would pass a careless one. */
static void test_interpreter_finds_faults(void **state)
{
    (void)state;
    struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_RD, 4, 0, 0, -1, 0, 0};
    struct interpreter_options options = {.window = 8, .count = 64, .seed = 3};
    struct weft_plan **plans;
    const char *why;
    assert_int_equal(weft_plans_make(&request, &plans), WEFT_OK);
    assert_int_equal(plans[2]->step_count, 6);
    struct weft_step *last = &plans[2]->steps[5], *recv = &plans[2]->steps[3];
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_RIGHT);
    last->flags = 0;
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_WRONG);
    last->flags = WEFT_STEP_FINISH;
    recv->peer = 1;
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_STUCK);
    recv->peer = 0;
    recv->destination.slot = 7;
    plans[2]->slots = 8;
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_INVALID);
    weft_plans_free(plans, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_counts),
        cmocka_unit_test(test_few_elements),
        cmocka_unit_test(test_interpreter_finds_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
