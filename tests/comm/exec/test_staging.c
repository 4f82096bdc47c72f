/* SPDX-License-Identifier: Apache-2.0 */
/* The choice between in place and staged, as a function of costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "comm/exec/staging.h"

#define KIB(n) ((size_t)(n) << 10)
#define SEED   UINT64_C(20261129)
#define FIRST  56 /* the number of a small size's first trial, of six calls */

static uint32_t next(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)(*random >> 33);
}

/* What the call that settles does on all ranks. Returns how many take another way. */
static int settle(struct weft_staging *staging, int ranks, enum weft_collective collective, size_t bytes)
{
    uint32_t regrets = 0;
    int changed = 0;
    for (int r = 0; r < ranks; r++)
        regrets = weft_staging_regrets_join(regrets, weft_staging_regrets(&staging[r], collective, bytes));
    for (int r = 0; r < ranks; r++)
        changed += weft_staging_settle(&staging[r], collective, bytes, regrets, 1);
    return changed;
}

/* The same call on each rank, whose costs_ns[way] are its own; 0: it says nothing. Returns its way; *is_timed whether it was of a trial,
 * *changed how often another way was taken, by all of them. */
static int call_of(struct weft_staging *staging, int ranks, enum weft_collective collective, size_t bytes,
                   int64_t costs_ns[][WEFT_STAGING_WAYS], int *is_timed, int *changed)
{
    enum weft_staging_part part = WEFT_STAGING_GOES;
    enum weft_staging_way taken = WEFT_STAGING_IN_PLACE;
    for (int r = 0; r < ranks; r++) {
        enum weft_staging_part own;
        enum weft_staging_way way = weft_staging_next(&staging[r], collective, bytes, &own);
        assert_true(!r || (own == part && way == taken));
        part = own;
        taken = way;
        if (part == WEFT_STAGING_TIMED && costs_ns[r][way])
            weft_staging_observe(&staging[r], collective, bytes, way, costs_ns[r][way]);
    }
    int agreed = part == WEFT_STAGING_SETTLES ? settle(staging, ranks, collective, bytes) : 0;
    assert_true(agreed == 0 || agreed == ranks);
    *is_timed = part == WEFT_STAGING_TIMED;
    *changed += agreed != 0;
    return taken;
}

static int call(struct weft_staging *staging, size_t bytes, int64_t *costs_ns, int *is_timed, int *changed)
{
    int64_t costs[1][WEFT_STAGING_WAYS] = {{costs_ns[0], costs_ns[1], costs_ns[2]}};
    return call_of(staging, 1, WEFT_ALLREDUCE, bytes, costs, is_timed, changed);
}

/* Ranks try both ways in the same calls, three of each: from the 56th on, and then at multiples of a power of two. That costs a twenty-fifth of the time at most
 * where one way is not many times slower, and after a while less; otherwise ever less from the beginning. */
static void test_trials_go_by_number(void **state)
{
    (void)state;
    static const int64_t staged[] = {1010,  1210,  1390, 1790, 2590, 4000,
                                     10000, 20000, 900,  500,  300,  0}; /* in place 1,000 */
    for (size_t c = 0; c < sizeof staged / sizeof *staged; c++) {
        int64_t costs_ns[3][3] = {{1000, staged[c]}, {1000, staged[c]}, {1000, staged[c]}};
        int64_t best_ns = staged[c] && staged[c] < 1000 ? staged[c] : 1000, more_ns = 0, more_at_first_ns = 0;
        struct weft_staging ranks[3];
        int changed = 0, is_timed, trials = 0, before = FIRST;
        for (int r = 0; r < 3; r++)
            weft_staging_open(&ranks[r], 3);
        for (int i = 0; i < 40000; i++) {
            int way = call_of(ranks, 3, WEFT_ALLREDUCE, KIB(256), costs_ns, &is_timed, &changed);
            assert_true(is_timed || way == (best_ns < 1000 && i > FIRST + 6));
            assert_true(is_timed || trials % 6 == 0);
            if (is_timed && trials++ % 6 == 0) {
                int apart = i - before;
                assert_true((apart & (apart - 1)) == 0 && (i == FIRST || (i - FIRST) % apart == 0));
                before = i;
            }
            if (is_timed && costs_ns[0][way])
                more_ns += costs_ns[0][way] - best_ns;
            more_at_first_ns = i < 2000 ? more_ns : more_at_first_ns;
        }
        double at_first = (double)more_at_first_ns / (double)best_ns / 2000,
               later = (double)(more_ns - more_at_first_ns) / (double)best_ns / 38000;
        if (at_first > (staged[c] <= 2590 ? 0.04 : 0.2) || later > (staged[c] <= 10000 ? 0.015 : 0.03) ||
            trials < 6 * 20 || trials > 6 * 120)
            fail_msg("%d ns staged: trials cost %.4f, and later %.4f; %d of them", (int)staged[c], at_first,
                     later, trials);
        assert_int_equal(changed, best_ns < 1000);
    }
}

/* How much slower than the fastest, at worst. */
static double worst(int64_t costs_ns[][WEFT_STAGING_WAYS], int ranks, int way)
{
    double most = 1;
    for (int r = 0; r < ranks; r++) {
        int64_t least = costs_ns[r][0];
        for (int w = 1; w < WEFT_STAGING_WAYS; w++)
            least = costs_ns[r][w] < least ? costs_ns[r][w] : least;
        most =
            (double)costs_ns[r][way] / (double)least > most ? (double)costs_ns[r][way] / (double)least : most;
    }
    return most;
}

/* Ranks that see other costs take the same way (call_of() looks), and none that is much worse for one of them than the best for all. A rank that
 * knows nothing of a way keeps the others from it. */
static void test_ranks_agree(void **state)
{
    (void)state;
    uint64_t random = SEED;
    for (int round = 0; round < 2000; round++) {
        struct weft_staging ranks[4];
        int64_t costs_ns[4][WEFT_STAGING_WAYS];
        int changed = 0, is_timed, way = 0, count = 2 + (int)(next(&random) % 3);
        int silent =
            round % 4 == 0 ? (int)(next(&random) % 3) : -1; /* a way that the last rank says nothing of */
        for (int r = 0; r < count; r++) {
            weft_staging_open(&ranks[r], (uint32_t)count);
            for (int w = 0; w < WEFT_STAGING_WAYS; w++)
                costs_ns[r][w] = 10000 + next(&random) % (round % 2 ? 20000 : 2000);
        }
        if (silent >= 0)
            costs_ns[count - 1][silent] = 0;
        for (int i = 0; i < FIRST + 12; i++)
            way = call_of(ranks, count, WEFT_ALLGATHER, KIB(2048), costs_ns, &is_timed, &changed);
        assert_int_equal(is_timed, 0);
        assert_true(changed == (way != WEFT_STAGING_IN_PLACE));
        if (silent >= 0) {
            assert_int_not_equal(way, silent);
            continue;
        }
        for (int w = 0; w < WEFT_STAGING_WAYS; w++)
            assert_true(worst(costs_ns, count, way) <= worst(costs_ns, count, w) * 1.5 ||
                        worst(costs_ns, count, w) > 2.6);
        assert_true(worst(costs_ns, count, WEFT_STAGING_IN_PLACE) > 1.05 || !changed);
    }
}

/* Ranks that have got apart come together when they settle, also where the ways are as fast; and a rank that has measured nothing brings all back. */
static void test_come_together(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        struct weft_staging ranks[3];
        int64_t costs_ns[3][WEFT_STAGING_WAYS] = {{1000, 1010}, {1010, 1000}, {1000, 1000}};
        int changed = 0, is_timed, way = 0;
        for (int r = 0; r < 3; r++) {
            weft_staging_open(&ranks[r], 3);
            for (int s = 0; s < WEFT_STAGING_SIZES; s++)
                ranks[r].sizes[WEFT_ALLREDUCE][s].taken = r == 1 || silent;
        }
        if (silent)
            memset(costs_ns[2], 0, sizeof costs_ns[2]);
        for (int i = 0; i < FIRST + 7; i++) {
            for (int r = 0; r < 3 && (i < FIRST || i == FIRST + 6); r++) { /* apart until then */
                enum weft_staging_part part;
                way = (int)weft_staging_next(&ranks[r], WEFT_ALLREDUCE, KIB(64), &part);
                assert_int_equal(part, i < FIRST ? WEFT_STAGING_GOES : WEFT_STAGING_SETTLES);
                assert_int_equal(way, r == 1 || silent);
            }
            if (i >= FIRST && i < FIRST + 6)
                call_of(ranks, 3, WEFT_ALLREDUCE, KIB(64), costs_ns, &is_timed, &changed);
        }
        assert_int_equal(settle(ranks, 3, WEFT_ALLREDUCE, KIB(64)), silent ? 3 : 2);
        way = call_of(ranks, 3, WEFT_ALLREDUCE, KIB(64), costs_ns, &is_timed, &changed);
        assert_int_equal(way, !silent);
    }
}

/* The next call of two ranks, whose trials may be apart. Returns whether they settle together. */
static int call_apart(struct weft_staging *ranks, int64_t costs_ns[][WEFT_STAGING_WAYS], int *apart)
{
    enum weft_staging_part parts[2];
    for (int r = 0; r < 2; r++) {
        enum weft_staging_way way = weft_staging_next(&ranks[r], WEFT_ALLREDUCE, KIB(64), &parts[r]);
        if (parts[r] == WEFT_STAGING_TIMED)
            weft_staging_observe(&ranks[r], WEFT_ALLREDUCE, KIB(64), way, costs_ns[r][way]);
    }
    *apart += parts[0] != parts[1];
    if (parts[0] == WEFT_STAGING_SETTLES && parts[1] == WEFT_STAGING_SETTLES)
        return settle(ranks, 2, WEFT_ALLREDUCE, KIB(64)) >= 0;
    for (int r = 0; r < 2; r++) {
        if (parts[r] == WEFT_STAGING_SETTLES)
            weft_staging_settle(&ranks[r], WEFT_ALLREDUCE, KIB(64),
                                weft_staging_regrets(&ranks[r], WEFT_ALLREDUCE, KIB(64)), 1);
    }
    return 0;
}

/* Ranks whose trials are not the same calls any more, meet in some of them, and take the same way from then on; in the end their trials are the same again. */
static void test_meet_again(void **state)
{
    (void)state;
    for (uint32_t other = 32; other <= 2048; other *= 2) {
        struct weft_staging ranks[2];
        int64_t costs_ns[2][WEFT_STAGING_WAYS] = {{1000, 950}, {1000, 1500}}; /* alone they would not agree */
        int apart = 0, met = 0, calls = 0;
        for (int r = 0; r < 2; r++)
            weft_staging_open(&ranks[r], 2);
        while (calls++ < FIRST + 7)
            call_apart(ranks, costs_ns, &apart);
        assert_int_equal(apart, 0);
        for (int s = 0; s < WEFT_STAGING_SIZES; s++) {
            ranks[1].sizes[WEFT_ALLREDUCE][s].taken = WEFT_STAGING_STAGED;
            ranks[1].sizes[WEFT_ALLREDUCE][s].period = other;
        }
        for (int calls_left = 2048 + 7; calls_left > 0 && !met; calls_left--)
            met = call_apart(ranks, costs_ns, &apart);
        assert_true(met && (apart > 0) == (other != 64));
        for (int r = 0; r < 2; r++)
            assert_int_equal(weft_staging_taken(&ranks[r], WEFT_ALLREDUCE, KIB(64)), WEFT_STAGING_IN_PLACE);
        for (int i = 0; i < 30000; i++)
            call_apart(ranks, costs_ns, &apart);
        apart = 0;
        for (int i = 0; i < 5000; i++)
            call_apart(ranks, costs_ns, &apart);
        assert_int_equal(apart, 0);
    }
}

/* Where no regrets come, trials are the same calls as well, whatever each rank has seen. */
static void test_not_agreed(void **state)
{
    (void)state;
    static const int64_t staged_ns[2] = {1150, 3000};
    struct weft_staging ranks[2];
    int trials = 0;
    for (int r = 0; r < 2; r++)
        weft_staging_open(&ranks[r], 2);
    for (int i = 0; i < 20000; i++) {
        enum weft_staging_part parts[2];
        for (int r = 0; r < 2; r++) {
            enum weft_staging_way way = weft_staging_next(&ranks[r], WEFT_ALLREDUCE, KIB(64), &parts[r]);
            if (parts[r] == WEFT_STAGING_TIMED)
                weft_staging_observe(&ranks[r], WEFT_ALLREDUCE, KIB(64), way, way ? staged_ns[r] : 1000);
            if (parts[r] == WEFT_STAGING_SETTLES)
                weft_staging_settle(&ranks[r], WEFT_ALLREDUCE, KIB(64),
                                    weft_staging_regrets(&ranks[r], WEFT_ALLREDUCE, KIB(64)), 0);
        }
        assert_int_equal(parts[0], parts[1]);
        trials += parts[0] == WEFT_STAGING_TIMED;
    }
    assert_in_range(trials, 6 * 8, 6 * 20);
}

/* Costs that were seen with two processors that are near and that are far, in ns, and move every 1,000 calls, with noise, and calls that are late as their
 * peers are: it follows within so many calls. */
static void test_follows(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        int64_t costs_ns[2][WEFT_STAGING_WAYS]; /* near, far */
    } points[] = {
        {KIB(32), {{7100, 5000}, {10200, 14400}}},
        {KIB(64), {{14100, 6800}, {18300, 26600}}},
        {KIB(512), {{54000, 38000}, {61000, 110000}}},
        {KIB(8192), {{3043000, 1669000, 1720000}, {2328000, 3090000, 2600000}}},
    };
    uint64_t random = SEED;
    int slowest = 0;
    for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
        struct weft_staging staging;
        int changed = 0, is_timed, needed = 0;
        double sum_ns = 0, best_ns = 0;
        weft_staging_open(&staging, 2);
        for (int i = 0; i < 20000; i++) {
            const int64_t *near_or_far = points[p].costs_ns[i / 1000 % 2];
            int best = near_or_far[WEFT_STAGING_STAGED] < near_or_far[WEFT_STAGING_IN_PLACE];
            int64_t seen_ns[WEFT_STAGING_WAYS];
            for (int w = 0; w < WEFT_STAGING_WAYS; w++)
                seen_ns[w] = (near_or_far[w] + next(&random) % 1000 * near_or_far[w] / 10000) *
                             (next(&random) % 20 ? 1 : 50);
            int way = call(&staging, points[p].bytes, seen_ns, &is_timed, &changed);
            sum_ns += (double)near_or_far[way];
            best_ns += (double)near_or_far[best];
            needed = i % 1000 == 0 ? 0 : needed;
            needed = !is_timed && near_or_far[way] * 100 > near_or_far[best] * 108 ? i % 1000 + 1 : needed;
            slowest = i % 1000 == 999 && i > 1000 && needed > slowest ? needed : slowest;
        }
        if (sum_ns > 1.12 * best_ns)
            fail_msg("%zu bytes: %.3f times the best", points[p].bytes, sum_ns / best_ns);
        printf("%zu bytes: %.3f times the best\n", points[p].bytes, sum_ns / best_ns);
    }
    printf("it follows within %d calls\n", slowest);
    assert_in_range(slowest, 1, 160);
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
    int64_t staged_is_faster[1][3] = {{6000, 3000}}, slower[1][3] = {{3000, 6000}};
    size_t of_bytes;
    int is_timed, changed = 0;
    weft_staging_open(&staging, 2);
    for (int i = 0; i < FIRST + 7; i++) {
        call_of(&staging, 1, WEFT_ALLREDUCE, KIB(96), staged_is_faster, &is_timed, &changed);
        call_of(&staging, 1, WEFT_ALLTOALL, KIB(96), slower, &is_timed, &changed);
        weft_staging_costs(&staging, WEFT_ALLREDUCE, KIB(128), costs_ns, &of_bytes);
        assert_true(i == FIRST + 6 || !costs_ns[0]); /* not before it is settled */
    }
    assert_int_equal(of_bytes, KIB(128));
    assert_true(costs_ns[0] == 8000 && costs_ns[1] == 4000 && costs_ns[2] == 0);
    assert_int_equal(weft_staging_taken(&staging, WEFT_ALLREDUCE, KIB(128)), 1);
    assert_int_equal(weft_staging_taken(&staging, WEFT_ALLTOALL, KIB(128)), 0);
    assert_int_equal(weft_staging_taken(&staging, WEFT_ALLREDUCE, KIB(129)), 0);
    assert_int_equal(weft_staging_taken(&staging, WEFT_ALLREDUCE, KIB(64)), 0);
    assert_int_equal(weft_staging_taken(&staging, WEFT_ALLREDUCE, (size_t)1 << 40), 0);
    weft_staging_costs(&staging, WEFT_ALLREDUCE, (size_t)1 << 40, costs_ns, &of_bytes);
    assert_int_equal(of_bytes, KIB(64) << 9);
}

/* Calls that fail say nothing, and a trial of such changes nothing. Numbers begin again. */
static void test_without_costs(void **state)
{
    (void)state;
    struct weft_staging staging;
    int is_timed, changed = 0, trials = 0;
    int64_t none[3] = {0}, huge[3] = {0, INT64_MAX}, costs_ns[3] = {2000, 1000};
    weft_staging_open(&staging, 2);
    for (int i = 0; i < 1000; i++) {
        int way = call(&staging, KIB(64), i < 500 ? huge : none, &is_timed, &changed);
        assert_true(is_timed || (i > 500 && i < 700) ||
                    way == (i > FIRST + 6 && i <= 500)); /* the only one that is known; then none is */
    }
    for (int s = 0; s < WEFT_STAGING_SIZES; s++) {
        struct weft_staging_choice *choice = &staging.sizes[WEFT_ALLREDUCE][s];
        choice->calls = UINT32_MAX - 20;
        choice->period = 64;
        choice->taken = WEFT_STAGING_IN_PLACE;
    }
    changed = 0;
    for (int i = 0; i < 100; i++) {
        call(&staging, KIB(64), costs_ns, &is_timed, &changed);
        trials += is_timed;
        assert_true(is_timed || changed == (i >= 19));
    }
    assert_int_equal(trials, 12); /* before numbers begin again and after */
    assert_int_equal(changed, 1);
}

/* From results of 1 MB on three ways are tried, and the best of them is taken; of blocks all ranks' count. What a reduce-scatter
 * leaves is not copied. */
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
        {WEFT_ALLREDUCE, 8, KIB(1), 0},   {WEFT_REDUCE_SCATTER, 8, KIB(4096), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int fastest = 0; fastest < WEFT_STAGING_WAYS; fastest++) {
            struct weft_staging staging;
            int counts[WEFT_STAGING_WAYS] = {0}, is_timed, changed = 0, taken = WEFT_STAGING_IN_PLACE;
            int64_t costs_ns[1][WEFT_STAGING_WAYS] = {{1100, 1110, 1120}};
            costs_ns[0][fastest] = 1000;
            weft_staging_open(&staging, cases[i].ranks);
            for (int number = 0; number < FIRST + 12; number++) {
                taken =
                    call_of(&staging, 1, cases[i].collective, cases[i].bytes, costs_ns, &is_timed, &changed);
                counts[taken] += is_timed;
            }
            assert_int_equal(counts[WEFT_STAGING_IN_PLACE], 3);
            assert_int_equal(counts[WEFT_STAGING_STAGED], 3);
            assert_int_equal(counts[WEFT_STAGING_STREAMED], cases[i].streams ? 3 : 0);
            for (int timed = 0; timed < 2; timed++)
                assert_int_equal(weft_staging_stages(&staging, cases[i].collective, cases[i].bytes,
                                                     (enum weft_staging_way)taken, timed),
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
    int64_t costs_ns[1][WEFT_STAGING_WAYS] = {{2000, 0, 1000}};
    weft_staging_open(&staging, 2);
    for (int i = 0; i < 60; i++) {
        enum weft_staging_way way = (enum weft_staging_way)call_of(&staging, 1, WEFT_ALLGATHER, KIB(2048),
                                                                   costs_ns, &is_timed, &changed);
        assert_int_equal(weft_staging_stages(&staging, WEFT_ALLGATHER, KIB(2048), way, is_timed),
                         is_timed && way != WEFT_STAGING_IN_PLACE);
    }
    assert_int_equal(changed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_go_by_number), cmocka_unit_test(test_follows),
        cmocka_unit_test(test_does_not_flap),       cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_without_costs),       cmocka_unit_test(test_past_the_caches),
        cmocka_unit_test(test_mapped_first),        cmocka_unit_test(test_ranks_agree),
        cmocka_unit_test(test_come_together),       cmocka_unit_test(test_meet_again),
        cmocka_unit_test(test_not_agreed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
