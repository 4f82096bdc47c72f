/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (plans are computed) */
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
#include "algos/proof/cost_plan.h"
#include "algos/proof/verify.h"
#include "tests/support/plan_cases.h"
#include "tests/support/plan_hosts.h"

static double evaluate(const struct weft_plan_request *request, uint64_t bytes,
                       const struct weft_link_cost *link)
{
    struct weft_plan **plans;
    double time_ns = 0;
    assert_int_equal(weft_plans_make(request, &plans), WEFT_OK);
    if (weft_plans_cost((const struct weft_plan *const *)plans, request->ranks, bytes, link, &time_ns) !=
        WEFT_OK)
        fail_msg("%s of %u ranks: %s", weft_algorithm_name(request->algorithm), request->ranks,
                 weft_error_detail());
    weft_plans_free(plans, request->ranks);
    return time_ns;
}

static double evaluate_allreduce(int algorithm, uint32_t ranks, uint64_t bytes,
                                 const struct weft_link_cost *link)
{
    struct weft_plan_request request = {
        WEFT_ALLREDUCE, (enum weft_algorithm)algorithm, ranks, 0, 0, -1, 0, 0, NULL};
    return evaluate(&request, bytes, link);
}

/* How far the closed form may be from the plan, as a factor. Those that the plans follow exactly, but for small change:
 * 2 %. Elsewhere halves share ports, ranges run over the end, or the surplus ranks' messages overlap with others': 2. */
static double bound_of(enum weft_collective collective, enum weft_algorithm algorithm, uint32_t ranks)
{
    int folded = (ranks & (ranks - 1)) != 0;
    switch (algorithm) {
    case WEFT_ALGO_RING:
    case WEFT_ALGO_HIER:
        return 1.02;
    case WEFT_ALGO_CHAIN:
        return collective == WEFT_BROADCAST ? 1.02 : 1.2;
    case WEFT_ALGO_DISSEMINATION:
        return 1.02;
    case WEFT_ALGO_DIRECT:
        return collective == WEFT_SCATTER ? 1.02 : 1.55;
    case WEFT_ALGO_RD:
    case WEFT_ALGO_RAB:
    case WEFT_ALGO_HALVING:
    case WEFT_ALGO_PAIRWISE:
        return folded ? 1.55 : 1.02;
    case WEFT_ALGO_TREE:
        return 1.6;
    default:
        return 2.01;
    }
}

static void expect_close(const struct weft_plan_request *request, const struct weft_link_cost *link,
                         uint64_t bytes)
{
    double form = weft_cost_estimate_ns(request->collective, request->algorithm, request->ranks, bytes, link);
    double plan = evaluate(request, bytes, link);
    double ratio = form / plan, bound = bound_of(request->collective, request->algorithm, request->ranks);
    int worst_case = request->collective == WEFT_REDUCE_SCATTER && request->algorithm == WEFT_ALGO_DIRECT;
    if (!((ratio < bound || worst_case) && ratio > 1 / bound))
        fail_msg("%s by %s, %u ranks, %llu bytes, %s: closed form %.0f ns, plan %.0f ns",
                 weft_collective_name(request->collective), weft_algorithm_name(request->algorithm),
                 request->ranks, (unsigned long long)bytes, link->name, form, plan);
}

/* Closed forms against what the plans give, up to a slice per chunk: the evaluation does not slice. Where a rank's own
 * block would be copied, in place: the forms leave the copy out. */
static void test_closed_forms(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 40; ranks += 1 + ranks / 9) {
        struct plan_cases cases = plan_cases_start(ranks, 1);
        while (plan_cases_next(&cases)) {
            const struct weft_plan_request *request = &cases.request;
            int copies = !weft_collective_reduces(request->collective) &&
                         request->collective != WEFT_ALLTOALL && request->collective != WEFT_BARRIER;
            if (request->unequal || request->strict || request->in_place != copies)
                continue;
            for (int class = 0; class < 4; class ++) {
                struct weft_link_cost link = weft_link_cost_of(class % 2, class / 2);
                uint64_t last = request->collective == WEFT_BARRIER     ? 8
                                : request->collective == WEFT_ALLREDUCE ? 2 * link.slice_bytes
                                                                        : link.slice_bytes;
                for (uint64_t bytes = 8; bytes <= last; bytes *= 8)
                    expect_close(request, &link, bytes);
            }
        }
    }
}

/* The forms for several hosts, each rank having a port of its own: that is what the evaluation does. */
static void test_hosts(void **state)
{
    (void)state;
    static const uint32_t forms[][2] = {{2, 2}, {2, 8}, {4, 4}, {7, 3}, {16, 8}, {24, 2}};
    static const struct {
        enum weft_collective collective;
        enum weft_algorithm algorithm;
        double bound;
    } cases[] = {
        {WEFT_ALLREDUCE, WEFT_ALGO_HIER, 1.35},   {WEFT_ALLREDUCE, WEFT_ALGO_LEADER, 1.6},
        {WEFT_ALLREDUCE, WEFT_ALGO_RING, 2},      {WEFT_BROADCAST, WEFT_ALGO_HIER, 1.35},
        {WEFT_BROADCAST, WEFT_ALGO_LEADER, 1.6},  {WEFT_ALLGATHER, WEFT_ALGO_HIER, 2},
        {WEFT_REDUCE_SCATTER, WEFT_ALGO_HIER, 2}, {WEFT_BROADCAST, WEFT_ALGO_CHAIN, 2},
        {WEFT_REDUCE, WEFT_ALGO_CHAIN, 2},
    };
    const size_t count = sizeof forms / sizeof *forms;
    for (size_t i = 0; i < 2 * count; i++) {
        /* One ring, and a ring for each rank of a host, each on a rail. (How ranks are numbered changes in which turn
         * they are evaluated, and so at times what ports are taken for busy with.) */
        size_t f = i % count;
        uint32_t size = forms[f][1];
        struct weft_hosts *hosts = i < count ? plan_hosts_even(forms[f][0], size, size, f % 2)
                                             : plan_hosts_railed(forms[f][0] * size, size, 0);
        struct weft_hosts_cost cost = {weft_link_cost_of(1, 0), weft_link_cost_of(0, 0), size};
        assert_int_equal(weft_hosts_rings(hosts), i < count ? 1 : size);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            /* The evaluation does not slice, and so has no pipelines. */
            uint64_t last = cases[c].collective == WEFT_BROADCAST ? cost.local.slice_bytes : 1 << 20;
            for (uint64_t bytes = 32; bytes <= last; bytes *= 4) {
                int copies = !weft_collective_reduces(cases[c].collective);
                struct weft_plan_request request = {
                    cases[c].collective, cases[c].algorithm, hosts->ranks, 0, copies, -1, 0, 0, hosts};
                if (weft_collective_has_root(request.collective))
                    request.root = (int)weft_hosts_rank(hosts, 0);
                struct weft_plan **plans;
                double plan = 0,
                       form = weft_cost_hosts_ns(request.collective, request.algorithm, hosts, bytes, &cost);
                assert_int_equal(weft_plans_make(&request, &plans), WEFT_OK);
                assert_int_equal(
                    weft_plans_cost_hosts((const struct weft_plan *const *)plans, hosts, bytes, &cost, &plan),
                    WEFT_OK);
                weft_plans_free(plans, hosts->ranks);
                if (form / plan > cases[c].bound || plan / form > cases[c].bound)
                    fail_msg("%s by %s, %s, %llu bytes: closed form %.0f ns, plan %.0f ns",
                             weft_collective_name(request.collective), weft_algorithm_name(request.algorithm),
                             plan_hosts_name(hosts), (unsigned long long)bytes, form, plan);
            }
        }
        weft_hosts_free(hosts);
    }
}

/* Hierarchical plans are chosen where there are several hosts with several ranks, and only there. */
static void test_choice_by_hosts(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, size;
        int layered;
    } forms[] = {{16, 8, 1}, {2, 64, 1}, {16, 1, 0}, {1, 16, 0}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct weft_hosts *hosts = plan_hosts_even(forms[f].count, forms[f].size, forms[f].size, 0);
        unsigned chosen = 0;
        for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes *= 4) {
            struct weft_choice choice = {
                .ranks = hosts->ranks, .bytes = bytes, .one_host = forms[f].count == 1, .hosts = hosts};
            chosen |= 1u << weft_algorithm_choose(&choice);
            choice.strict = 1;
            assert_true(weft_algorithm_serves_strict(WEFT_ALLREDUCE, weft_algorithm_choose(&choice)));
            choice.strict = 0;
            choice.rd_bytes = 1 << 20;
            assert_int_equal(weft_algorithm_choose(&choice) == WEFT_ALGO_RD, bytes <= 1 << 20);
            choice.algorithm = WEFT_ALGO_LEADER; /* where it is fixed, everywhere */
            assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_LEADER);
        }
        assert_int_equal(chosen >> WEFT_ALGO_HIER & 1, forms[f].layered);
        assert_int_equal(chosen >> WEFT_ALGO_LEADER & 1, forms[f].layered);
        weft_hosts_free(hosts);
    }
}

/* Where hosts have rails, large data goes along all rings; what the hosts' ranks share is what their ports carry. */
static void test_choice_by_rails(void **state)
{
    (void)state;
    uint32_t sizes[16];
    struct weft_hosts *railed = plan_hosts_railed(128, 8, 4), *hosts = NULL, *unknown = NULL;
    for (uint32_t i = 0; i < 16; i++)
        sizes[i] = 8;
    assert_int_equal(weft_hosts_make_rings(sizes, 16, railed->order, 1, 8, &hosts), WEFT_OK);
    assert_int_equal(weft_hosts_make_rings(sizes, 16, railed->order, 1, 0, &unknown), WEFT_OK);
    struct weft_choice choice = {.ranks = 128, .bytes = (uint64_t)1 << 30, .hosts = railed};
    assert_int_equal(railed->ports, 8);
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RING);
    choice.bytes = 1 << 20;
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_HIER);
    choice.bytes = (uint64_t)1 << 30;
    choice.hosts = hosts;
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_HIER);
    choice.hosts = unknown; /* one port, as far as is known: nothing is to be had by sharing */
    assert_int_equal(weft_algorithm_choose(&choice), WEFT_ALGO_RING);
    /* One ring leaves seven ports idle, hier none. */
    struct weft_hosts_cost cost = {weft_link_cost_of(1, 0), weft_link_cost_of(0, 0), 8};
    double ring = weft_cost_hosts_ns(WEFT_ALLREDUCE, WEFT_ALGO_RING, hosts, choice.bytes, &cost);
    double rings = weft_cost_hosts_ns(WEFT_ALLREDUCE, WEFT_ALGO_RING, railed, choice.bytes, &cost);
    double hier = weft_cost_hosts_ns(WEFT_ALLREDUCE, WEFT_ALGO_HIER, hosts, choice.bytes, &cost);
    assert_true(rings < hier && hier < ring);
    weft_hosts_free(railed);
    weft_hosts_free(hosts);
    weft_hosts_free(unknown);
}

/* By hand: two ranks exchange m bytes; ring of three between hosts. */
static void test_known_times(void **state)
{
    (void)state;
    struct weft_link_cost wire = {"wire", 1000, 0, 0, 2, 1, 1 << 20, 0, 0},
                          memory = {"memory", 100, 50, 150, 2, 3, 1 << 20, 1, 0};
    assert_float_equal(evaluate_allreduce(WEFT_ALGO_RD, 2, 100, &wire), 1000 + 200 + 100, 0.01);
    assert_float_equal(evaluate_allreduce(WEFT_ALGO_RD, 2, 100, &memory), 100 + 300, 0.01);
    assert_float_equal(evaluate_allreduce(WEFT_ALGO_RING, 3, 300, &wire), 4 * (1000 + 200) + 2 * 100, 0.01);
    assert_float_equal(evaluate_allreduce(WEFT_ALGO_RING, 3, 300, &memory), 4 * 100 + 2 * 300 + 2 * 200,
                       0.01);
    assert_float_equal(weft_cost_estimate_ns(WEFT_ALLREDUCE, WEFT_ALGO_RING, 3, 300, &wire), 5000, 0.01);
    assert_float_equal(weft_cost_estimate_ns(WEFT_ALLREDUCE, WEFT_ALGO_RD, 2, 100, &memory), 400, 0.01);
    /* Of more than 150 bytes the whole message is offered, and halves are not. */
    assert_float_equal(weft_cost_estimate_ns(WEFT_ALLREDUCE, WEFT_ALGO_RD, 2, 200, &memory), 100 + 50 + 600,
                       0.01);
    assert_float_equal(weft_cost_estimate_ns(WEFT_ALLREDUCE, WEFT_ALGO_RING, 2, 200, &memory), 2 * 100 + 500,
                       0.01);
}

static void test_stuck_plans_end(void **state)
{
    (void)state;
    struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_RD, 4, 0, 0, -1, 0, 0, NULL};
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
        two.bytes = 512 << 10; /* within a host a message more costs as much as the few bytes that it saves */
        assert_int_equal(weft_algorithm_choose(&two), one_host ? WEFT_ALGO_RD : WEFT_ALGO_RING);
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

/* What is asked for is what the chosen algorithm can do, whatever the setting names. */
static void test_choice_is_able(void **state)
{
    (void)state;
    const uint64_t all = 9 * WEFT_ALGO_COUNT;
    for (uint64_t i = 0; i < all * 2 * 2 * 2 * 2 * 3; i++) {
        static const uint32_t counts[] = {1, 2, 7, 64};
        struct weft_choice choice = {.collective = (enum weft_collective)(i % 9),
                                     .algorithm = (int64_t)(i / 9 % WEFT_ALGO_COUNT),
                                     .unequal = i / all % 2,
                                     .strict = i / (2 * all) % 2,
                                     .keep_order = i / (4 * all) % 2,
                                     .one_host = i / (8 * all) % 2,
                                     .bytes = (uint64_t)8 << 10 * (i / (16 * all))};
        choice.unequal &= weft_collective_blocks(choice.collective);
        choice.ranks = counts[i % 4];
        enum weft_algorithm chosen = weft_algorithm_choose(&choice);
        int ordered = weft_collective_reduces(choice.collective) && choice.keep_order;
        assert_true(!ordered || weft_algorithm_keeps_order(choice.collective, chosen));
        struct weft_plan_request request = {.collective = choice.collective,
                                            .algorithm = chosen,
                                            .ranks = choice.ranks,
                                            .root = weft_collective_has_root(choice.collective) ? 0 : -1,
                                            .unequal = choice.unequal,
                                            .strict = choice.strict && !ordered};
        struct weft_plan *plan;
        if (weft_plan_make(&request, &plan) != WEFT_OK)
            fail_msg("%s", weft_error_detail());
        weft_plan_free(plan);
        request.algorithm = (enum weft_algorithm)choice.algorithm;
        if (chosen == request.algorithm || choice.algorithm == WEFT_ALGO_AUTO ||
            (ordered && !weft_algorithm_keeps_order(choice.collective, request.algorithm)))
            continue;
        assert_int_equal(weft_plan_make(&request, &plan), WEFT_INVALID);
    }
}

static enum weft_algorithm choose(enum weft_collective collective, uint32_t ranks, uint64_t bytes,
                                  int one_host)
{
    return weft_algorithm_choose(&(struct weft_choice){
        .collective = collective, .ranks = ranks, .bytes = bytes, .one_host = one_host});
}

/* Few messages for small data, few bytes for large. */
static void test_choice_by_size(void **state)
{
    (void)state;
    for (int one_host = 0; one_host < 2; one_host++) {
        uint64_t large = (uint64_t)1 << 30;
        assert_int_equal(choose(WEFT_BROADCAST, 16, 8, one_host), WEFT_ALGO_BINOMIAL);
        assert_int_equal(choose(WEFT_BROADCAST, 16, large, one_host), WEFT_ALGO_CHAIN);
        assert_int_equal(choose(WEFT_REDUCE, 16, 8, one_host), WEFT_ALGO_BINOMIAL);
        assert_int_equal(choose(WEFT_REDUCE, 16, large, one_host), WEFT_ALGO_CHAIN);
        assert_int_equal(choose(WEFT_ALLGATHER, 16, 128, one_host), WEFT_ALGO_BRUCK);
        assert_int_equal(choose(WEFT_REDUCE_SCATTER, 16, 128, one_host), WEFT_ALGO_HALVING);
        assert_int_equal(choose(WEFT_REDUCE_SCATTER, 15, large, one_host), WEFT_ALGO_RING);
        assert_int_equal(choose(WEFT_ALLTOALL, 64, 512, one_host), WEFT_ALGO_BRUCK);
        assert_int_equal(choose(WEFT_ALLTOALL, 64, large, one_host), WEFT_ALGO_PAIRWISE);
        assert_int_equal(choose(WEFT_GATHER, 64, 512, one_host), WEFT_ALGO_BINOMIAL);
        assert_int_equal(choose(WEFT_GATHER, 4, large, one_host), WEFT_ALGO_DIRECT);
        assert_int_equal(choose(WEFT_SCATTER, 64, 512, one_host), WEFT_ALGO_BINOMIAL);
        assert_int_equal(choose(WEFT_SCATTER, 4, large, one_host), WEFT_ALGO_DIRECT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms),       cmocka_unit_test(test_known_times),
        cmocka_unit_test(test_stuck_plans_end),    cmocka_unit_test(test_fixed_and_thresholds),
        cmocka_unit_test(test_choice_makes_sense), cmocka_unit_test(test_choice_is_able),
        cmocka_unit_test(test_choice_by_size),     cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_choice_by_hosts),    cmocka_unit_test(test_choice_by_rails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
