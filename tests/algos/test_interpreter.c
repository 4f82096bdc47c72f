/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (plans are computed) */
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

#include "algos/proof/verify.h"
#include "tests/support/plan_cases.h"
#include "tests/support/plan_hosts.h"
#include "tests/support/plan_interpreter.h"

#define CONST(plans) ((const struct weft_plan *const *)(plans))

static void expect_right(const struct weft_plan_request *request, struct interpreter_options options)
{
    struct weft_plan **plans;
    const char *why;
    options.strict = request->strict && weft_collective_reduces(request->collective);
    options.ordered = !request->strict && weft_algorithm_keeps_order(request->collective, request->algorithm);
    if (weft_plans_make(request, &plans) != WEFT_OK)
        fail_msg("%s", weft_error_detail());
    enum interpreted end = plan_interpret(CONST(plans), request->ranks, &options, &why);
    if (end != INTERPRETED_RIGHT)
        fail_msg("%s%s by %s, %u ranks, root %d%s%s%s, window %u, %zu elements, seed %d%s: %s",
                 end == INTERPRETED_WRONG ? "WRONG: " : "", weft_collective_name(request->collective),
                 weft_algorithm_name(request->algorithm), request->ranks, request->root,
                 request->in_place ? ", in place" : "", request->unequal ? ", unequal" : "",
                 request->strict ? ", strict" : "", options.window, options.count, (int)options.seed,
                 options.eager ? ", eager" : "", why);
    weft_plans_free(plans, request->ranks);
}

/* Elements that go with the collective: a few for each chunk of most. */
static size_t count_of(const struct weft_plan_request *request)
{
    if (weft_collective_blocks(request->collective))
        return request->unequal ? 5 : 2;
    return request->algorithm == WEFT_ALGO_CHAIN ? 70 : 2 * request->ranks + 1;
}

static void test_small_counts(void **state)
{
    (void)state;
    static const uint32_t windows[] = {2, 3, 4, 7, 32, 64};
    uint64_t runs = getenv("WEFT_LONG") ? 30 : 2;
    for (uint32_t ranks = 1; ranks <= 17; ranks++) {
        struct plan_cases cases = plan_cases_start(ranks, ranks <= 5 ? ranks : 2);
        for (uint64_t number = 0; plan_cases_next(&cases); number++) {
            for (uint64_t run = 0; run < runs; run++) {
                struct interpreter_options options = {.window = windows[(number + 5 * run) % 6],
                                                      .count = count_of(&cases.request),
                                                      .seed = run * 977 + number + ranks,
                                                      .eager = (run + number) % 3 == 1};
                expect_right(&cases.request, options);
            }
        }
    }
}

/* Ranks on hosts of any sizes, in any order. */
static void test_hosts(void **state)
{
    (void)state;
    static const uint32_t windows[] = {2, 3, 4, 7, 32, 64};
    for (uint32_t ranks = 2; ranks <= 20; ranks++) {
        struct weft_hosts *hosts = plan_hosts_random(ranks, ranks * 3);
        struct plan_cases cases = plan_cases_on(hosts, 2);
        for (uint64_t number = 0; plan_cases_next(&cases); number++) {
            struct interpreter_options options = {.window = windows[number % 6],
                                                  .count = number % 5 == 4 ? 3 : count_of(&cases.request),
                                                  .seed = number + ranks,
                                                  .eager = number % 3 == 1};
            expect_right(&cases.request, options);
        }
        weft_hosts_free(hosts);
    }
}

/* Fewer elements than chunks: some steps have nothing to do, differently on each rank. */
static void test_few_elements(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 17; ranks += 1 + ranks / 6) {
        struct plan_cases cases = plan_cases_start(ranks, 1);
        while (plan_cases_next(&cases)) {
            for (size_t count = 0; count <= 4; count++) {
                struct interpreter_options options = {
                    .window = (uint32_t)(2 + count), .count = count, .seed = count, .eager = count % 2};
                expect_right(&cases.request, options);
            }
        }
    }
}

/* The interpreter sees the difference: each of these would pass a careless one. */
static void test_interpreter_finds_faults(void **state)
{
    (void)state;
    struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_RD, 4, 0, 0, -1, 0, 0, NULL};
    struct interpreter_options options = {.window = 8, .count = 64, .seed = 3};
    struct weft_plan **plans;
    const char *why;
    assert_int_equal(weft_plans_make(&request, &plans), WEFT_OK);
    assert_int_equal(plans[2]->step_count, 6);
    struct weft_step *last = &plans[2]->steps[5], *recv = &plans[2]->steps[3];
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_RIGHT);
    options.strict = 1;
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_WRONG);
    options.strict = 0;
    options.ordered = 1;
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_RIGHT);
    struct weft_ref first = last->sources[0];
    last->sources[0] = last->sources[1];
    last->sources[1] = first;
    assert_int_equal(plan_interpret(CONST(plans), 4, &options, &why), INTERPRETED_WRONG);
    last->sources[1] = last->sources[0];
    last->sources[0] = first;
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
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_interpreter_finds_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
