/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (plans are computed); early */
/* Plans of ranks that stand on hosts: hierarchical ones, and rings, trees and chains that follow an order; for every rank
 * count, hosts of any sizes, in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "algos/hosts.h"
#include "algos/proof/verify.h"
#include "tests/support/plan_cases.h"
#include "tests/support/plan_hosts.h"
#include "tests/support/effort.h"
#include "tests/support/plan_proof.h"
#include "topo/order.h"

#define CONST(plans) ((const struct weft_plan *const *)(plans))

/* Everything there is on these hosts, in the narrowest window and one more; of many ranks in one of them. */
static void expect_all(const struct weft_hosts *hosts, uint32_t roots, uint32_t window,
                       uint32_t interleavings)
{
    struct plan_cases cases = plan_cases_on(hosts, roots);
    while (plan_cases_next(&cases)) {
        const uint32_t windows[] = {2, window};
        struct weft_plan **plans = plan_proof_make(cases.request);
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
            struct weft_verify_options options = {.window = windows[i],
                                                  .interleavings = interleavings,
                                                  .expect =
                                                      cases.request.strict ? WEFT_VERIFY_EXPECT_STRICT : 0,
                                                  .seed = window};
            int twice = i == 1 && windows[1] == windows[0];
            int turn = getenv("WEFT_LONG") || hosts->ranks <= 24 || i == hosts->ranks % 2;
            if (turn && !twice)
                plan_proof_expect(&cases.request, plans, &options);
        }
        weft_plans_free(plans, hosts->ranks);
    }
}

static void test_every_count(void **state)
{
    (void)state;
    uint64_t seeds = getenv("WEFT_LONG") ? 40 : 2;
    for (uint32_t ranks = 1, last = plan_proof_ranks(64, 16); ranks <= last; ranks++) {
        for (uint64_t seed = 0; seed < (ranks <= 24 || seeds > 2 ? seeds : 1); seed++) {
            struct weft_hosts *hosts = plan_hosts_random(ranks, seed + ranks);
            expect_all(hosts,
                       ranks <= 8    ? ranks
                       : ranks <= 24 ? 3
                                     : 1,
                       3 + (uint32_t)(ranks * 7 + seed) % 62, 0);
            weft_hosts_free(hosts);
        }
    }
}

/* Every way to put up to 7 ranks on hosts, all roots. */
static void test_every_partition(void **state)
{
    (void)state;
    static const uint32_t order[] = {3, 0, 6, 2, 5, 1, 4};
    for (uint32_t ranks = 2; ranks <= 7; ranks++) {
        for (uint64_t number = 0; number < 1u << (ranks - 1); number++) {
            struct weft_hosts *hosts =
                plan_hosts_composition(ranks, number, ranks == 7 && number % 2 ? order : NULL);
            expect_all(hosts, ranks, 2 + (uint32_t)number % 5, 0);
            weft_hosts_free(hosts);
        }
    }
}

static void test_interleavings(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= plan_proof_ranks(19, 11); ranks++) {
        struct weft_hosts *hosts = plan_hosts_random(ranks, 100 + ranks);
        expect_all(hosts, 1, 2 + ranks * 5 % 31, 4);
        weft_hosts_free(hosts);
    }
}

/* Ranks may differ in whether their buffers are the same. */
static void test_mixed_in_place(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 20; ranks++) {
        struct weft_hosts *hosts = plan_hosts_random(ranks, 200 + ranks);
        struct plan_cases cases = plan_cases_on(hosts, 2);
        while (plan_cases_next(&cases)) {
            if (cases.request.in_place)
                continue;
            struct weft_plan_request request = cases.request;
            request.in_place = 1;
            struct weft_plan **plans = plan_proof_make(cases.request), **others = plan_proof_make(request);
            for (uint32_t rank = 0; rank < ranks; rank++) {
                struct weft_plan *kept = plans[rank];
                if ((rank * 2654435761u >> 7) % 2 == 0)
                    continue;
                plans[rank] = others[rank];
                others[rank] = kept;
            }
            for (uint32_t window = 2; window <= 64; window *= 16) {
                plan_proof_expect(&request, plans, &(struct weft_verify_options){.window = window});
                plan_proof_expect(&request, others, &(struct weft_verify_options){.window = window});
            }
            weft_plans_free(plans, ranks);
            weft_plans_free(others, ranks);
        }
        weft_hosts_free(hosts);
    }
}

/* 10,240 ranks, equal hosts and not. */
static void test_large(void **state)
{
    (void)state;
    uint32_t count = plan_proof_ranks(160, 12);
    int more = getenv("WEFT_LONG") != NULL;
    for (uint32_t form = 0; form < 3; form++) {
        /* 160 hosts of 64; the last smaller; and all of them in a random order. */
        struct weft_hosts *hosts = plan_hosts_even(count, 64, form ? 17 : 64, form == 2);
        uint32_t ranks = hosts->ranks;
        const enum weft_algorithm algorithms[] = {WEFT_ALGO_HIER, WEFT_ALGO_LEADER, WEFT_ALGO_TREE};
        for (uint32_t a = 0; a < 3; a++) {
            if (!test_left_out(a + 2 * form, 3, 3))
                plan_proof_expect_large(hosts, WEFT_ALLREDUCE, algorithms[a], -1);
        }
        const int roots[] = {0, (int)ranks / 3, (int)ranks - 1};
        for (uint32_t i = 0; i < 3; i++) {
            if (test_left_out(i + form, 3, 3))
                continue;
            plan_proof_expect_large(hosts, WEFT_BROADCAST, WEFT_ALGO_HIER, roots[i]);
            plan_proof_expect_large(hosts, WEFT_BROADCAST, WEFT_ALGO_LEADER, roots[i]);
        }
        weft_hosts_free(hosts);
        /* Here every rank has a message for every block: 10^8 of them at 10,240 ranks, for patient runs. */
        hosts = more && form < 2 ? plan_hosts_even(160, 64, form ? 17 : 64, 0)
                                 : plan_hosts_even(plan_proof_ranks(26, 8), 20, form ? 7 : 20, form == 2);
        plan_proof_expect_large(hosts, WEFT_ALLGATHER, WEFT_ALGO_HIER, -1);
        plan_proof_expect_large(hosts, WEFT_REDUCE_SCATTER, WEFT_ALGO_HIER, -1);
        weft_hosts_free(hosts);
    }
}

/* What crosses from host to host, in chunks. */
static uint64_t crossings(const struct weft_hosts *hosts, struct weft_plan **plans, uint64_t *messages)
{
    uint64_t chunks = 0;
    *messages = 0;
    for (uint32_t rank = 0; rank < hosts->ranks; rank++) {
        struct weft_cursor cursor;
        struct weft_step step;
        uint32_t own = weft_hosts_at(hosts, weft_hosts_position(hosts, rank));
        weft_cursor_start(&cursor, plans[rank]);
        while (weft_cursor_next(&cursor, &step)) {
            if (step.kind != WEFT_STEP_SEND ||
                weft_hosts_at(hosts, weft_hosts_position(hosts, (uint32_t)step.peer)) == own)
                continue;
            chunks += step.span;
            ++*messages;
        }
    }
    return chunks;
}

/* The point of it all: what crosses between hosts is what must. */
static void test_thrift(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 60; ranks++) {
        struct weft_hosts *hosts = plan_hosts_random(ranks, 300 + ranks);
        struct plan_cases cases = plan_cases_on(hosts, 3);
        uint32_t n = hosts->count, log = 0;
        while (1u << log < n)
            log++;
        while (plan_cases_next(&cases)) {
            enum weft_collective collective = cases.request.collective;
            enum weft_algorithm algorithm = cases.request.algorithm;
            if (algorithm != WEFT_ALGO_HIER && algorithm != WEFT_ALGO_LEADER)
                continue;
            struct weft_plan **plans = plan_proof_make(cases.request);
            uint64_t messages, chunks = crossings(hosts, plans, &messages);
            if (collective == WEFT_BROADCAST)
                assert_int_equal(messages, n - 1);
            else if (algorithm == WEFT_ALGO_LEADER)
                assert_in_range(messages, n > 1 ? n : 0, n * (log + 1));
            else if (collective == WEFT_ALLREDUCE)
                assert_int_equal(chunks, 2 * (uint64_t)(n - 1) * plans[0]->chunks);
            else
                assert_int_equal(chunks, (uint64_t)(n - 1) * ranks); /* each block over all links but one */
            if (collective == WEFT_ALLREDUCE)
                assert_in_range(plans[0]->chunks, 1, ranks);
            weft_plans_free(plans, ranks);
        }
        weft_hosts_free(hosts);
    }
}

/* Plans stay short where hosts are alike and ranks numbered along them. */
static void test_short(void **state)
{
    (void)state;
    static const struct {
        enum weft_collective collective;
        uint32_t most;
    } cases[] = {
        {WEFT_ALLREDUCE, 45}, {WEFT_BROADCAST, 4}, {WEFT_ALLGATHER, 330}, {WEFT_REDUCE_SCATTER, 480}};
    struct weft_hosts *hosts = plan_hosts_even(80, 32, 32, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t rank = 0; rank < hosts->ranks; rank += 37) {
            struct weft_plan_request request = {.collective = cases[i].collective,
                                                .algorithm = WEFT_ALGO_HIER,
                                                .ranks = hosts->ranks,
                                                .rank = rank,
                                                .root = cases[i].collective == WEFT_BROADCAST ? 55 : -1,
                                                .hosts = hosts};
            struct weft_plan *plan;
            assert_int_equal(weft_plan_make(&request, &plan), WEFT_OK);
            assert_in_range(plan->step_count, 1, cases[i].most);
            assert_int_equal(plan->rank, rank);
            assert_int_equal(plan->root, request.root);
            weft_plan_free(plan);
        }
    }
    weft_hosts_free(hosts);
}

/* An order that is no other than that of ranks changes nothing; strict mode's plans and those of algorithms that do not
 * follow an order are the same in any. */
static void test_order_is_followed(void **state)
{
    (void)state;
    static const uint32_t same[] = {0, 1, 2, 3, 4, 5, 6}, order[] = {3, 0, 6, 2, 5, 1, 4};
    for (int other = 0; other < 2; other++) {
        struct weft_hosts *hosts = plan_hosts_composition(7, 0, other ? order : same);
        struct plan_cases cases = plan_cases_start(7, 7);
        while (plan_cases_next(&cases)) {
            struct weft_plan_request request = cases.request;
            int follows = weft_algorithm_follows_order(request.collective, request.algorithm) &&
                          !(request.strict && weft_collective_reduces(request.collective));
            struct weft_plan **plain = plan_proof_make(request);
            request.hosts = hosts;
            struct weft_plan **plans = plan_proof_make(request);
            uint32_t differ = 0;
            for (uint32_t rank = 0; rank < 7; rank++) {
                assert_int_equal(plans[rank]->root, request.root);
                differ += plans[rank]->step_count != plain[rank]->step_count ||
                          memcmp(plans[rank]->steps, plain[rank]->steps,
                                 plans[rank]->step_count * sizeof plans[rank]->steps[0]) != 0;
            }
            int blocks = weft_collective_blocks(request.collective) && request.algorithm == WEFT_ALGO_RING;
            if (other && follows)
                assert_true(differ > 0);
            else if (!blocks) /* rings of blocks are written in another form, which is proven above */
                assert_int_equal(differ, 0);
            weft_plans_free(plans, 7);
            weft_plans_free(plain, 7);
        }
        weft_hosts_free(hosts);
    }
}

/* A ring that follows an order has its neighbours. */
static void test_neighbours(void **state)
{
    (void)state;
    static const uint32_t order[] = {3, 0, 6, 2, 5, 1, 4};
    struct weft_hosts *hosts = plan_hosts_composition(7, 4, order);
    for (uint32_t at = 0; at < 7; at++) {
        struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_RING, 7, order[at], 0, -1, 0, 0, hosts};
        struct weft_plan *plan;
        assert_int_equal(weft_plan_make(&request, &plan), WEFT_OK);
        assert_int_equal(plan->steps[0].peer, order[(at + 6) % 7]);
        assert_int_equal(plan->steps[1].peer, order[(at + 1) % 7]);
        weft_plan_free(plan);
    }
    weft_hosts_free(hosts);
}

static void test_bad_hosts(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 0, 1}, twice[] = {0, 1, 1}, high[] = {0, 1, 3},
                          huge[] = {1u << 31, 1u << 31};
    struct weft_hosts *hosts = NULL;
    assert_int_equal(weft_hosts_make(sizes, 3, NULL, &hosts), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "host 1 has 0 ranks"));
    assert_int_equal(weft_hosts_make(sizes, 0, NULL, &hosts), WEFT_INVALID);
    assert_int_equal(weft_hosts_make(huge, 2, NULL, &hosts), WEFT_INVALID);
    const uint32_t three[] = {2, 1};
    assert_int_equal(weft_hosts_make(three, 2, twice, &hosts), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "rank 1 at position 2"));
    assert_int_equal(weft_hosts_make(three, 2, high, &hosts), WEFT_INVALID);
    const uint32_t rings[] = {0, 1, 2, 2, 0, 2};
    assert_int_equal(weft_hosts_make_rings(three, 2, rings, 2, 0, &hosts), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "ring 1 (0 is the order) has rank 2 at position 2"));
    const uint32_t back[] = {0, 1, 2, 2, 1, 0};
    assert_int_equal(weft_hosts_make_rings(three, 2, back, 2, 0, &hosts), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "ring 1 has rank 2 at position 0, expected one of host 0"));
    assert_int_equal(weft_hosts_make_rings(three, 2, rings, 0, 0, &hosts), WEFT_INVALID);
    assert_int_equal(weft_hosts_make_rings(three, 2, rings, WEFT_HOSTS_RINGS_MAX + 1, 0, &hosts),
                     WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "33 rings over 3 ranks"));
    assert_null(hosts);
    assert_int_equal(weft_hosts_make(three, 2, NULL, &hosts), WEFT_OK);
    struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_HIER, 4, 0, 0, -1, 0, 0, hosts};
    struct weft_plan *plan;
    assert_int_equal(weft_plan_make(&request, &plan), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "hosts have 3 ranks, expected 4"));
    weft_hosts_free(hosts);
}

/* From a layout: its order and hosts; one host where they are not side by side. */
static void test_layouts(void **state)
{
    (void)state;
    uint32_t order[] = {4, 1, 0, 3, 2}, host_of[] = {1, 0, 2, 2, 0};
    struct weft_layout layout = {.ranks = 5, .host_count = 3, .order = order, .host_of = host_of};
    struct weft_hosts *hosts;
    assert_int_equal(weft_hosts_of_layout(&layout, &hosts), WEFT_OK);
    assert_int_equal(hosts->count, 3);
    assert_int_equal(weft_hosts_size(hosts, 0), 2);
    assert_int_equal(weft_hosts_size(hosts, 1), 1);
    assert_int_equal(weft_hosts_size(hosts, 2), 2);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(weft_hosts_rank(hosts, i), order[i]);
        assert_int_equal(weft_hosts_position(hosts, order[i]), i);
        assert_int_equal(weft_hosts_at(hosts, i), host_of[order[i]]);
    }
    assert_int_equal(weft_hosts_rings(hosts), 1);
    assert_int_equal(hosts->ports, 0);
    weft_hosts_free(hosts);
    uint32_t cyclic[] = {0, 1, 0, 1, 2};
    uint32_t by_rank[] = {0, 1, 2, 3, 4};
    layout.host_of = cyclic;
    layout.order = by_rank;
    assert_int_equal(weft_hosts_of_layout(&layout, &hosts), WEFT_OK);
    assert_int_equal(hosts->count, 1);
    assert_int_equal(hosts->ranks, 5);
    assert_null(hosts->order);
    assert_int_equal(weft_hosts_rank(hosts, 3), 3);
    weft_hosts_free(hosts);
}

/* Chunks that are followed, or not. */
static void test_followed_chunks(void **state)
{
    (void)state;
    struct weft_hosts *hosts = plan_hosts_composition(6, 4, NULL);
    struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_HIER, 6, 0, 0, -1, 0, 0, hosts};
    struct weft_plan **plans = plan_proof_make(request);
    struct weft_verify_report report;
    struct weft_step *last = &plans[3]->steps[plans[3]->step_count - 1], *sum = NULL;
    assert_int_equal(last->kind, WEFT_STEP_SEND);
    for (uint32_t i = 0; i < plans[3]->step_count; i++) {
        if (plans[3]->steps[i].kind == WEFT_STEP_REDUCE)
            sum = &plans[3]->steps[i];
    }
    assert_non_null(sum);
    sum->flags ^= WEFT_STEP_FINISH; /* one chunk is wrong */
    int wrong = 0;
    for (uint32_t chunk = 0; chunk < plans[0]->chunks; chunk++) {
        struct weft_verify_options options = {.chunk_first = chunk, .chunk_count = 1};
        wrong += weft_plans_verify(CONST(plans), 6, &options, &report) == WEFT_INVALID;
    }
    assert_int_equal(wrong, 1);
    sum->flags ^= WEFT_STEP_FINISH;
    plans[3]->step_count--; /* what is not a matter of values is seen in any */
    struct weft_verify_options one = {.chunk_first = 1, .chunk_count = 1};
    assert_int_equal(weft_plans_verify(CONST(plans), 6, &one, &report), WEFT_INVALID);
    plans[3]->step_count++;
    assert_int_equal(weft_plans_verify(CONST(plans), 6, &one, &report), WEFT_OK);
    one.chunk_count = 6;
    assert_int_equal(weft_plans_verify(CONST(plans), 6, &one, &report), WEFT_INVALID);
    one.chunk_count = 1;
    one.method = WEFT_VERIFY_ROTATION;
    assert_int_equal(weft_plans_verify(CONST(plans), 6, &one, &report), WEFT_UNSUPPORTED);
    weft_plans_free(plans, 6);
    weft_hosts_free(hosts);
    plans = plan_proof_make(
        (struct weft_plan_request){WEFT_ALLTOALL, WEFT_ALGO_PAIRWISE, 4, 0, 0, -1, 0, 0, NULL});
    one.method = WEFT_VERIFY_AUTO;
    assert_int_equal(weft_plans_verify(CONST(plans), 4, &one, &report), WEFT_UNSUPPORTED);
    weft_plans_free(plans, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_count),   cmocka_unit_test(test_every_partition),
        cmocka_unit_test(test_interleavings), cmocka_unit_test(test_mixed_in_place),
        cmocka_unit_test(test_large),         cmocka_unit_test(test_thrift),
        cmocka_unit_test(test_short),         cmocka_unit_test(test_order_is_followed),
        cmocka_unit_test(test_neighbours),    cmocka_unit_test(test_bad_hosts),
        cmocka_unit_test(test_layouts),       cmocka_unit_test(test_followed_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
