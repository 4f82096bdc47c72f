/* SPDX-License-Identifier: Apache-2.0 */
/* The choice between in place and staged, as a function of costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "comm/exec/staging.h"

#define KIB(n) ((size_t)(n) << 10)
#define SEED   UINT64_C(20261129)

static uint32_t next(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)(*random >> 33);
}

/* One call. Returns its way; *is_timed whether its cost was wanted. */
static int call(struct weft_staging *staging, size_t bytes, const int64_t *costs_ns, int *is_timed,
                int *changed)
{
    enum weft_staging_way way = weft_staging_next(staging, WEFT_ALLREDUCE, bytes, is_timed);
    if (*is_timed)
        *changed += weft_staging_observe(staging, WEFT_ALLREDUCE, bytes, way, costs_ns[way]);
    return way;
}

/* Whatever is seen, ranks try both ways in the same calls: three of each, from the 24th on, and then more and more rarely. */
static void test_trials_go_by_number(void **state)
{
    (void)state;
    static const int64_t costs_ns[3][2] = {{1000, 3000}, {3000, 1000}, {1000, 1000}};
    struct weft_staging ranks[3];
    int changed[3] = {0}, trials = 0, first = -1, last = 0;
    for (int r = 0; r < 3; r++)
        weft_staging_open(&ranks[r], 3);
    for (int i = 0; i < 10000; i++) {
        int timed[3], ways[3];
        for (int r = 0; r < 3; r++)
            ways[r] = call(&ranks[r], KIB(256), costs_ns[r], &timed[r], &changed[r]);
        assert_true(timed[0] == timed[1] && timed[1] == timed[2]);
        assert_true(!timed[0] || (ways[0] == ways[1] && ways[1] == ways[2]));
        assert_true(timed[0] || (ways[0] == 0 && ways[1] == (i > 29) && ways[2] == 0));
        trials += timed[0];
        first = timed[0] && first < 0 ? i : first;
        last = timed[0] ? i : last;
    }
    assert_int_equal(changed[0] + changed[2], 0);
    assert_int_equal(changed[1], 1);
    assert_int_equal(first, 24);
    assert_int_equal(trials % 6, 0);
    assert_in_range(trials, 6 * 8, 6 * 12);
    assert_in_range(last, 10000 - 2100, 10000);
}

/* Costs change: it follows at the next trial. Calls that are late, as their peers are, mislead nobody. */
static void test_follows(void **state)
{
    (void)state;
    struct weft_staging staging;
    uint64_t random = SEED;
    int changed = 0, is_timed;
    weft_staging_open(&staging, 2);
    for (int phase = 0; phase < 6; phase++) {
        for (int i = 0; i < 4200; i++) {
            int64_t costs_ns[2] = {phase % 2 ? 1000 : 1200, phase % 2 ? 1200 : 1000};
            for (int way = 0; way < 2; way++)
                costs_ns[way] *= next(&random) % 4 ? 1 : 50;
            call(&staging, KIB(128), costs_ns, &is_timed, &changed);
        }
        int64_t same[2] = {0, 0};
        enum weft_staging_way way = weft_staging_next(&staging, WEFT_ALLREDUCE, KIB(128), &is_timed);
        if (is_timed)
            weft_staging_observe(&staging, WEFT_ALLREDUCE, KIB(128), way, same[way]);
        else
            assert_int_equal(way, phase % 2 == 0);
    }
    assert_in_range(changed, 6, 8);
}

/* Two ways that cost about the same: it stays with one. */
static void test_does_not_flap(void **state)
{
    (void)state;
    struct weft_staging staging;
    uint64_t random = SEED;
    int changed = 0, is_timed;
    weft_staging_open(&staging, 2);
    for (int i = 0; i < 100000; i++) {
        int64_t costs_ns[WEFT_STAGING_WAYS];
        for (int way = 0; way < WEFT_STAGING_WAYS; way++)
            costs_ns[way] = 5000 + next(&random) % 240;
        call(&staging, i % 2 ? KIB(64) : KIB(2048), costs_ns, &is_timed, &changed);
    }
    assert_int_equal(changed, 0);
}

/* Each size and collective for itself; of a size, costs by length. */
static void test_sizes(void **state)
{
    (void)state;
    struct weft_staging staging;
    uint64_t costs_ns[WEFT_STAGING_WAYS];
    size_t of_bytes;
    int is_timed;
    enum weft_staging_way way;
    weft_staging_open(&staging, 2);
    for (int i = 0; i < 30; i++) {
        way = weft_staging_next(&staging, WEFT_ALLREDUCE, KIB(96), &is_timed);
        if (is_timed)
            weft_staging_observe(&staging, WEFT_ALLREDUCE, KIB(96), way, way ? 3000 : 6000);
        way = weft_staging_next(&staging, WEFT_ALLTOALL, KIB(96), &is_timed);
        if (is_timed)
            weft_staging_observe(&staging, WEFT_ALLTOALL, KIB(96), way, way ? 6000 : 3000);
    }
    assert_int_equal(weft_staging_costs(&staging, WEFT_ALLREDUCE, KIB(128), costs_ns, &of_bytes), 1);
    assert_int_equal(of_bytes, KIB(128));
    assert_true(costs_ns[0] == 8000 && costs_ns[1] == 4000 && costs_ns[2] == 0);
    assert_int_equal(weft_staging_costs(&staging, WEFT_ALLTOALL, KIB(128), costs_ns, &of_bytes), 0);
    assert_int_equal(weft_staging_costs(&staging, WEFT_ALLREDUCE, KIB(129), costs_ns, &of_bytes), 0);
    assert_int_equal(weft_staging_costs(&staging, WEFT_ALLREDUCE, KIB(64), costs_ns, &of_bytes), 0);
    assert_int_equal(weft_staging_costs(&staging, WEFT_ALLREDUCE, (size_t)1 << 40, costs_ns, &of_bytes), 0);
    assert_int_equal(of_bytes, KIB(64) << 9);
}

/* Calls that fail end a trial that changes nothing, as do those whose end is never seen. Numbers begin again. */
static void test_without_costs(void **state)
{
    (void)state;
    struct weft_staging staging;
    int is_timed, changed = 0;
    weft_staging_open(&staging, 2);
    for (int i = 0; i < 1000; i++) {
        enum weft_staging_way way = weft_staging_next(&staging, WEFT_ALLREDUCE, KIB(64), &is_timed);
        if (is_timed && i < 500)
            changed += weft_staging_observe(&staging, WEFT_ALLREDUCE, KIB(64), way, way ? 0 : INT64_MAX);
        assert_true(is_timed || !way);
    }
    for (int s = 0; s < WEFT_STAGING_SIZES; s++) {
        struct weft_staging_choice *choice = &staging.sizes[WEFT_ALLREDUCE][s];
        choice->calls = UINT32_MAX - 20;
        choice->trial = UINT32_MAX - 2;
    }
    static const int64_t costs_ns[2] = {2000, 1000};
    int trials = 0;
    for (int i = 0; i < 100; i++) {
        call(&staging, KIB(64), costs_ns, &is_timed, &changed);
        trials += is_timed;
        assert_true(is_timed || changed == (i > 20));
    }
    assert_int_equal(trials, 6);
    assert_int_equal(changed, 1);
}

/* From results of 1 MB on three ways are tried, and the best of them is taken; of blocks all ranks' count. */
static void test_past_the_caches(void **state)
{
    (void)state;
    static const struct {
        enum weft_collective collective;
        uint32_t ranks;
        size_t bytes;
        int streams;
    } cases[] = {
        {WEFT_ALLREDUCE, 2, KIB(512), 0}, {WEFT_ALLREDUCE, 2, KIB(513), 1},
        {WEFT_ALLGATHER, 2, KIB(512), 1}, {WEFT_ALLTOALL, 2, KIB(256), 0},
        {WEFT_ALLTOALL, 8, KIB(128), 1},  {WEFT_ALLGATHER, 8, KIB(64), 0},
        {WEFT_ALLREDUCE, 8, KIB(1), 0},   {WEFT_REDUCE_SCATTER, 8, KIB(512), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int fastest = 0; fastest < WEFT_STAGING_WAYS; fastest++) {
            struct weft_staging staging;
            int counts[WEFT_STAGING_WAYS] = {0}, is_timed;
            enum weft_staging_way taken = WEFT_STAGING_IN_PLACE;
            weft_staging_open(&staging, cases[i].ranks);
            for (int number = 0; number < 40; number++) {
                taken = weft_staging_next(&staging, cases[i].collective, cases[i].bytes, &is_timed);
                counts[taken] += is_timed;
                if (is_timed)
                    weft_staging_observe(&staging, cases[i].collective, cases[i].bytes, taken,
                                         (int)taken == fastest ? 1000 : 1100 + 10 * (int)taken);
            }
            assert_int_equal(counts[WEFT_STAGING_IN_PLACE], 3);
            assert_int_equal(counts[WEFT_STAGING_STAGED], 3);
            assert_int_equal(counts[WEFT_STAGING_STREAMED], cases[i].streams ? 3 : 0);
            for (int timed = 0; timed < 2; timed++)
                assert_int_equal(
                    weft_staging_stages(&staging, cases[i].collective, cases[i].bytes, taken, timed),
                    taken != WEFT_STAGING_IN_PLACE);
            assert_int_equal(taken, fastest < 2 || cases[i].streams ? fastest : WEFT_STAGING_IN_PLACE);
        }
    }
}

/* Memory that peers map is never staged, and so says nothing of staging: then only trials stage. */
static void test_mapped_first(void **state)
{
    (void)state;
    struct weft_staging staging;
    int is_timed, changed = 0;
    weft_staging_open(&staging, 2);
    for (int i = 0; i < 60; i++) {
        enum weft_staging_way way = weft_staging_next(&staging, WEFT_ALLGATHER, KIB(2048), &is_timed);
        assert_int_equal(weft_staging_stages(&staging, WEFT_ALLGATHER, KIB(2048), way, is_timed),
                         is_timed && way != WEFT_STAGING_IN_PLACE);
        if (is_timed)
            changed += weft_staging_observe(&staging, WEFT_ALLGATHER, KIB(2048), way,
                                            way == WEFT_STAGING_STAGED ? 0 : 2000 - 500 * (int)way);
    }
    assert_int_equal(changed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_go_by_number), cmocka_unit_test(test_follows),
        cmocka_unit_test(test_does_not_flap),       cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_without_costs),       cmocka_unit_test(test_past_the_caches),
        cmocka_unit_test(test_mapped_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
