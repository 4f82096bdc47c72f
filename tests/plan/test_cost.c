/* The cost model against the plans it stands for, and the choice that rests on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "algos/choose.h"
#include "algos/cost.h"
#include "algos/verify.h"

static double evaluate(int algorithm, uint32_t ranks, uint64_t bytes, const struct weft_link_cost *link)
{
    struct weft_plan_request request = {
        WEFT_ALLREDUCE, (enum weft_algorithm)algorithm, ranks, 0, 0, -1, 0, 0};
    struct weft_plan **plans;
    double time_ns = 0;
    assert_int_equal(weft_plans_make(&request, &plans), WEFT_OK);
    if (weft_plans_cost((const struct weft_plan *const *)plans, ranks, bytes, link, &time_ns) != WEFT_OK)
        fail_msg("%s of %u ranks: %s", weft_algorithm_name(algorithm), ranks, weft_error_detail());
    weft_plans_free(plans, ranks);
    return time_ns;
}

/* Closed forms are within 2 % of what the plans give. The tree's halves share ports, and guests' messages
 * overlap with others': there within a factor of 1.55. Up to a slice per chunk: the evaluation does not
 * slice. */
static void test_closed_forms(void **state)
{
    (void)state;
    for (int algorithm = WEFT_ALGO_RING; algorithm <= WEFT_ALGO_RAB; algorithm++) {
        for (uint32_t ranks = 2; ranks <= 40; ranks += 1 + ranks / 9) {
            for (int class = 0; class < 4; class ++) {
                struct weft_link_cost link = weft_link_cost_of(class % 2, class / 2);
                for (uint64_t bytes = 8; bytes <= 2 * link.slice_bytes; bytes *= 8) {
                    double form = weft_cost_estimate_ns((enum weft_algorithm)algorithm, ranks, bytes, &link);
                    double plan = evaluate(algorithm, ranks, bytes, &link);
                    int folded = algorithm >= WEFT_ALGO_RD && (ranks & (ranks - 1)) != 0;
                    double ratio = form / plan, bound = algorithm == WEFT_ALGO_TREE || folded ? 1.55 : 1.02;
                    if (!(ratio < bound && ratio > 1 / bound))
                        fail_msg("%s of %u ranks, %llu bytes, %s: closed form %.0f ns, plan %.0f ns",
                                 weft_algorithm_name(algorithm), ranks, (unsigned long long)bytes, link.name,
                                 form, plan);
                }
            }
        }
    }
}

/* By hand: two ranks exchange m bytes; ring of three between hosts. */
static void test_known_times(void **state)
{
    (void)state;
    struct weft_link_cost wire = {"wire", 1000, 2, 1, 1 << 20, 0}, memory = {"memory", 100, 2, 3, 1 << 20, 1};
    assert_float_equal(evaluate(WEFT_ALGO_RD, 2, 100, &wire), 1000 + 200 + 100, 0.01);
    assert_float_equal(evaluate(WEFT_ALGO_RD, 2, 100, &memory), 100 + 300, 0.01);
    assert_float_equal(evaluate(WEFT_ALGO_RING, 3, 300, &wire), 4 * (1000 + 200) + 2 * 100, 0.01);
    assert_float_equal(evaluate(WEFT_ALGO_RING, 3, 300, &memory), 4 * 100 + 2 * 300 + 2 * 200, 0.01);
    assert_float_equal(weft_cost_estimate_ns(WEFT_ALGO_RING, 3, 300, &wire), 5000, 0.01);
    assert_float_equal(weft_cost_estimate_ns(WEFT_ALGO_RD, 2, 100, &memory), 400, 0.01);
}

static void test_stuck_plans_end(void **state)
{
    (void)state;
    struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_RD, 4, 0, 0, -1, 0, 0};
    struct weft_link_cost link = weft_link_cost_of(1, 0);
    struct weft_plan **plans;
    double time_ns = -1;
    assert_int_equal(weft_plans_make(&request, &plans), WEFT_OK);
    plans[3]->step_count = 3;
    assert_int_equal(weft_plans_cost((const struct weft_plan *const *)plans, 4, 100, &link, &time_ns),
                     WEFT_INVALID);
    assert_true(time_ns == -1);
    weft_plans_free(plans, 4);
}

static void test_fixed_and_thresholds(void **state)
{
    (void)state;
    struct weft_choice choice = {.ranks = 8, .bytes = 1 << 20, .one_host = 1};
    for (int algorithm = WEFT_ALGO_RING; algorithm <= WEFT_ALGO_RAB; algorithm++) {
        choice.algorithm = algorithm;
        assert_int_equal(weft_algorithm_choose(&choice), algorithm);
    }
    choice.algorithm = WEFT_ALGO_AUTO;
    choice.rd_bytes = 4096;
    choice.rab_bytes = 65536;
    choice.bytes = 4096;
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RD);
    choice.bytes = 4097;
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RAB);
    choice.bytes = 65536;
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RAB);
    choice.bytes = 65537;
    assert_true(weft_algorithm_choose(&choice) == WEFT_ALGO_RING ||
                weft_algorithm_choose(&choice) == WEFT_ALGO_TREE);
    choice.rd_bytes = 0;
    choice.bytes = 8;
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RD);
    choice.rd_bytes = 1 << 20;
    choice.rab_bytes = 0;
    choice.bytes = 1 << 20;
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RD);
    choice.bytes++;
    assert_int_not_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RD);
}

static unsigned rounds_of(enum weft_algorithm algorithm, uint32_t ranks)
{
    unsigned log = 0;
    while (ranks >> (log + 1))
        log++;
    return algorithm == WEFT_ALGO_RING ? 2 * (ranks - 1) : algorithm == WEFT_ALGO_RD ? log : 2 * log;
}

static void test_choice_makes_sense(void **state)
{
    (void)state;
    for (int one_host = 0; one_host < 2; one_host++) {
        struct weft_choice two = {.ranks = 2, .bytes = 8, .one_host = one_host};
        assert_int_equal(weft_algorithm_choose(&two), WEFT_ALGO_RD);
        two.bytes = 64 << 20;
        assert_int_equal(weft_algorithm_choose(&two), WEFT_ALGO_RING);
        struct weft_choice one = {.ranks = 1, .bytes = 8, .one_host = one_host};
        assert_in_range(weft_algorithm_choose(&one), WEFT_ALGO_RING, WEFT_ALGO_RAB);
        /* Few rounds for small data; never more rounds when ranks share processors. */
        for (uint32_t ranks = 3; ranks <= 1000; ranks = ranks * 3 / 2) {
            for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes *= 4) {
                struct weft_choice choice = {.ranks = ranks, .bytes = bytes, .one_host = one_host};
                enum weft_algorithm free = weft_algorithm_choose(&choice);
                choice.oversubscribed = 1;
                enum weft_algorithm crowded = weft_algorithm_choose(&choice);
                assert_in_range(rounds_of(crowded, ranks), 1, rounds_of(free, ranks));
                assert_true(bytes > 64 || free != WEFT_ALGO_RING || ranks == 3);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms),       cmocka_unit_test(test_known_times),
        cmocka_unit_test(test_stuck_plans_end),    cmocka_unit_test(test_fixed_and_thresholds),
        cmocka_unit_test(test_choice_makes_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
