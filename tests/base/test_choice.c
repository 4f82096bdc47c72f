/* SPDX-License-Identifier: Apache-2.0 */
/* The choice between two ways or three, as a function of costs: of reads by the kernel, fed, and fed past the caches (transport/shm/pull.c). The costs are those of half round trips that
 * were seen with two processors that are near and that are far, in ns, with noise from a seed on top. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/choice.h"

#define KIB(n) ((size_t)(n) << 10)
#define SEED   UINT64_C(20261128)

static uint32_t next(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)(*random >> 33);
}

enum { KERNEL, FED, PAST, WAYS };

/* [near, far][KERNEL, FED, PAST]; PAST where there are three ways. */
struct point {
    size_t bytes;
    int64_t cost_ns[2][WAYS];
};
static const struct point points[] = {
    {KIB(16), {{4800, 2100}, {3700, 5600}}},           {KIB(32), {{6700, 2900}, {4800, 9400}}},
    {KIB(128), {{12000, 8800}, {14400, 31000}}},       {KIB(512), {{48500, 32000}, {61000, 138000}}},
    {KIB(2048), {{197000, 124000}, {268000, 572000}}},
};
#define POINTS (sizeof points / sizeof *points)

/* Where ways differ by less it is of no matter which is taken. */
static int differs(const int64_t *cost_ns)
{
    int64_t least = cost_ns[0] < cost_ns[1] ? cost_ns[0] : cost_ns[1];
    return (cost_ns[0] + cost_ns[1] - 2 * least) * 100 > 8 * least;
}

static uint8_t best_of(const int64_t *cost_ns)
{
    return cost_ns[FED] < cost_ns[KERNEL] ? FED : KERNEL;
}

static const struct point triples[] = {
    {KIB(8), {{3900, 1100, 1780}, {4300, 3100, 2500}}},
    {KIB(32), {{6600, 2350, 3800}, {7500, 9000, 4700}}},
    {KIB(64), {{7500, 4250, 6500}, {10000, 14800, 7600}}},
    {KIB(128), {{21000, 15500, 21500}, {23500, 29000, 17600}}},
    {KIB(512), {{74000, 54000, 76000}, {74000, 110000, 67000}}},
    {KIB(8192), {{2260000, 1610000, 2860000}, {2640000, 3480000, 1860000}}},
};
#define TRIPLES (sizeof triples / sizeof *triples)

static uint8_t best_of_three(const int64_t *cost_ns)
{
    return cost_ns[PAST] < cost_ns[best_of(cost_ns)] ? PAST : best_of(cost_ns);
}

/* Noise: up to a tenth more, and of one in `late` messages much more, as its receiver was late. 0: of none. */
static int64_t noisy(uint64_t *random, int64_t cost_ns, uint32_t late)
{
    int64_t seen = cost_ns + (int64_t)(next(random) % 1000) * cost_ns / 10000;
    return late && next(random) % late == 0 ? seen * 50 : seen;
}

/* Sends one message; returns what it costs, noise aside. */
static int64_t message(struct weft_choices *ways, const struct point *point, int far, uint32_t late,
                       uint64_t *random, int *switched)
{
    int is_timed;
    uint8_t way = weft_choices_next(ways, point->bytes, &is_timed);
    int64_t cost_ns = point->cost_ns[far][way];
    if (is_timed)
        *switched += weft_choices_observe(ways, point->bytes, way, noisy(random, cost_ns, late));
    return cost_ns;
}

/* The first trial comes soon, and sooner of large messages. */
static void test_begins_with_the_first(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        int first, last;
    } cases[] = {{KIB(64), 8, 20}, {KIB(256), 8, 20}, {KIB(257), 2, 5}, {(size_t)1 << 30, 2, 5}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct weft_choices ways;
        int is_timed, trial = -1, switched = 0;
        weft_choices_open(&ways, 2);
        for (int i = 0; i < 40; i++) {
            uint8_t way = weft_choices_next(&ways, cases[c].bytes, &is_timed);
            if (trial < 0 && way == FED)
                trial = i;
            if (is_timed)
                switched += weft_choices_observe(&ways, cases[c].bytes, way, way == FED ? 800 : 1000);
            assert_int_equal(switched, trial >= 0 && i >= trial + 2);
        }
        assert_in_range(trial, cases[c].first, cases[c].last);
    }
}

/* Processors that stay where they are: the better way is found, and what trials cost is little. */
static void test_finds_the_better(void **state)
{
    (void)state;
    uint64_t random = SEED;
    for (size_t p = 0; p < POINTS; p++) {
        for (int far = 0; far < 2; far++) {
            struct weft_choices ways;
            int switched = 0;
            int64_t sum_ns = 0, best_ns = 0;
            weft_choices_open(&ways, 2);
            for (int i = 0; i < 4000; i++) {
                sum_ns += message(&ways, &points[p], far, 0, &random, &switched);
                best_ns += points[p].cost_ns[far][best_of(points[p].cost_ns[far])];
            }
            double limit =
                differs(points[p].cost_ns[far]) ? 1.03 : 1.05; /* what is slower by less than 5 % may stay */
            if ((double)sum_ns > limit * (double)best_ns || switched > 1)
                fail_msg("%zu bytes, %s: %.3f times the best, switched %d times", points[p].bytes,
                         far ? "far" : "near", (double)sum_ns / (double)best_ns, switched);
        }
    }
}

/* A way that is always slower, by little or by much: trials cost a fiftieth of the time at most, apart from the first few. */
static void test_trials_are_cheap(void **state)
{
    (void)state;
    for (int64_t times = 11; times <= 151; times += 2) {
        struct weft_choices ways;
        int is_timed;
        int64_t sum_ns = 0;
        weft_choices_open(&ways, times % 4 == 1 ? 2 : WAYS);
        for (int i = 0; i < 100000; i++) {
            uint8_t way = weft_choices_next(&ways, KIB(64), &is_timed);
            int64_t cost_ns = way == KERNEL ? 1000 : 100 * times;
            sum_ns += i < 200 ? 1000 : cost_ns;
            if (is_timed)
                weft_choices_observe(&ways, KIB(64), way, cost_ns);
        }
        if (sum_ns > INT64_C(1000) * 102500)
            fail_msg("%.1f times as slow: trials cost %.4f", (double)times / 10, (double)sum_ns / 1e8 - 1);
    }
}

/* Once all messages of a trial are late: the next one is not put off for long. */
static void test_late_once(void **state)
{
    (void)state;
    struct weft_choices ways;
    int is_timed, fed = 0, last = 0, apart = 0;
    weft_choices_open(&ways, 2);
    for (int i = 0; i < 3000; i++) {
        uint8_t way = weft_choices_next(&ways, KIB(64), &is_timed);
        int is_late = way == FED && fed / 3 == 5; /* the sixth trial */
        if (way == FED && fed++ % 3 == 0) {
            apart = i - last > apart ? i - last : apart;
            last = i;
        }
        if (is_timed)
            weft_choices_observe(&ways, KIB(64), way, way == KERNEL ? 1000 : is_late ? 50000 : 1100);
    }
    assert_in_range(apart, 100, 520);
}

/* Of long messages each is timed, of short ones a fifth. */
static void test_timed(void **state)
{
    (void)state;
    for (int is_long = 0; is_long < 2; is_long++) {
        struct weft_choices ways;
        int is_timed, timed = 0;
        weft_choices_open(&ways, 2);
        for (int i = 0; i < 1000; i++) {
            uint8_t way = weft_choices_next(&ways, KIB(64) + (size_t)is_long, &is_timed);
            timed += is_timed;
            if (is_timed)
                weft_choices_observe(&ways, KIB(64) + (size_t)is_long, way, way == KERNEL ? 1000 : 2000);
        }
        assert_in_range(timed, is_long ? 1000 : 200, is_long ? 1000 : 260);
    }
}

/* They move every 1,000 to 2,000 messages, and receivers are late now and then. */
static void test_follows(void **state)
{
    (void)state;
    uint64_t random = SEED;
    double sum_ns = 0, best_ns = 0;
    int slowest[2] = {0, 0};
    for (size_t p = 0; p < POINTS; p++) {
        struct weft_choices ways;
        int switched = 0;
        weft_choices_open(&ways, 2);
        for (int move = 0; move < 100; move++) {
            int far = move % 2, messages = 1000 + (int)(next(&random) % 1000), needed = 0;
            int64_t best = points[p].cost_ns[far][best_of(points[p].cost_ns[far])];
            for (int i = 0; i < messages; i++) {
                sum_ns += (double)message(&ways, &points[p], far, 20, &random, &switched) / (double)best;
                best_ns += 1;
                if (differs(points[p].cost_ns[far]) &&
                    weft_choices_taken(&ways, points[p].bytes) != best_of(points[p].cost_ns[far]))
                    needed = i + 1;
            }
            if (move > 0 && needed < messages &&
                needed > slowest[far]) /* once in thousands all of a trial are late */
                slowest[far] = needed;
        }
    }
    printf(
        "%.3f times the best; the choice follows within %d messages, where the kernel has become faster %d\n",
        sum_ns / best_ns, slowest[0], slowest[1]);
    assert_true(sum_ns < 1.04 * best_ns);
    assert_in_range(slowest[0], 1, 600);
    assert_in_range(slowest[1], 1, 300);
}

/* Far from each other all of a sudden: what is fed costs several times as much, and soon no more messages are, however slow the kernel was before, and
 * however often they have moved already. */
static void test_follows_at_once(void **state)
{
    (void)state;
    uint64_t random = SEED;
    int slowest = 0;
    for (size_t p = 0; p < POINTS; p++) {
        struct weft_choices ways;
        int switched = 0, stayed = 3000;
        weft_choices_open(&ways, 2);
        for (int flip = 0; flip < 200; flip++) {
            int needed = 0;
            for (int i = 0; i < stayed || weft_choices_taken(&ways, points[p].bytes) != FED; i++)
                message(&ways, &points[p], 0, 0, &random, &switched);
            while (weft_choices_taken(&ways, points[p].bytes) == FED && needed < 1000) {
                message(&ways, &points[p], 1, 0, &random, &switched);
                needed++;
            }
            slowest = needed > slowest ? needed : slowest;
            for (int i = 0; i < stayed; i++)
                message(&ways, &points[p], 1, 0, &random, &switched);
            stayed = 100 + (int)(next(&random) % 1000);
        }
    }
    printf("what is fed is not any more after %d messages\n", slowest);
    assert_in_range(slowest, 1, 90);
}

/* Two ways that cost the same: it hardly ever changes. */
static void test_never_flaps(void **state)
{
    (void)state;
    static const struct point same = {KIB(64), {{5000, 5000}, {5000, 5000}}};
    uint64_t random = SEED;
    struct weft_choices ways;
    int switched = 0;
    weft_choices_open(&ways, 2);
    for (int i = 0; i < 100000; i++)
        message(&ways, &same, 0, 10, &random, &switched);
    assert_in_range(switched, 0, 10);
}

/* Costs that move all the time, as a sender helps now and then, are a reason for trials again and again. They stay cheap. */
static void test_restless(void **state)
{
    (void)state;
    static const int64_t tried_ns[] = {110000, 150000, 200000, 400000, 1000000};
    for (size_t t = 0; t < 4 * (sizeof tried_ns / sizeof *tried_ns); t++) {
        size_t bytes = t % 4 < 2 ? KIB(512) : KIB(64); /* all are timed, or a fifth */
        int64_t tried[WAYS] = {0, tried_ns[t / 4], t % 2 ? tried_ns[t / 4] : 110000};
        struct weft_choices ways;
        uint64_t random = SEED;
        int64_t sum_ns = 0, best_ns = 0, cost_ns = 100000;
        weft_choices_open(&ways, WAYS);
        for (int i = 0; i < 50000; i++) {
            int is_timed;
            if (i % 40 == 0)
                cost_ns = next(&random) % 2 ? 100000 : 60000;
            uint8_t way = weft_choices_next(&ways, bytes, &is_timed);
            int64_t seen_ns = way == KERNEL ? cost_ns : tried[way];
            if (is_timed)
                weft_choices_observe(&ways, bytes, way, seen_ns);
            sum_ns += seen_ns;
            best_ns += cost_ns;
        }
        if ((double)sum_ns > 1.04 * (double)best_ns)
            fail_msg("%lld ns beside 60000 to 100000: %.3f times the best", (long long)tried_ns[t / 4],
                     (double)sum_ns / (double)best_ns);
    }
}

/* Calls have several messages of a size, of which one costs less, whichever way it goes. */
static void test_calls_of_several(void **state)
{
    (void)state;
    for (uint32_t each = 2; each <= 5; each++) {
        struct weft_choices ways;
        int changed = 0, trials = 0;
        weft_choices_open(&ways, 2);
        for (uint32_t i = 0; i < 100000; i++) {
            int is_timed;
            uint8_t way = weft_choices_next(&ways, KIB(512), &is_timed);
            trials += way == FED;
            if (is_timed)
                changed += weft_choices_observe(&ways, KIB(512), way, i % each ? 100000 : 60000);
        }
        assert_int_equal(changed, 0);
        assert_in_range(trials, 3 * 100000 / 520, 3 * 100000 / 480); /* of three messages each */
    }
}

/* Sizes know nothing of each other; odd costs do no harm. */
static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, KIB(8), KIB(8) + 1, KIB(64), (size_t)1 << 40};
    struct weft_choices ways;
    int is_timed;
    weft_choices_open(&ways, 2);
    for (int i = 0; i < 2000; i++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            uint8_t way = weft_choices_next(&ways, sizes[s], &is_timed);
            int64_t cost_ns = sizes[s] == KIB(64) && way == KERNEL ? 2000 : 1000;
            if (is_timed)
                weft_choices_observe(&ways, sizes[s], way, cost_ns);
        }
    }
    assert_int_equal(weft_choices_taken(&ways, KIB(8)), KERNEL);
    assert_int_equal(weft_choices_taken(&ways, KIB(64)), FED);
    assert_int_equal(weft_choices_taken(&ways, KIB(33)), FED);
    assert_int_equal(weft_choices_taken(&ways, KIB(32)), KERNEL);
    weft_choices_observe(&ways, 0, KERNEL, 5);
    weft_choices_observe(&ways, KIB(8), KERNEL, 0);
    weft_choices_observe(&ways, KIB(8), KERNEL, -5);
    weft_choices_observe(&ways, 1, KERNEL, INT64_MAX);
    assert_int_equal(weft_choices_taken(&ways, KIB(8)), KERNEL);
}

/* However many messages are sent before the first cost is known, a trial has three. */
static void test_trial_is_short(void **state)
{
    (void)state;
    struct weft_choices ways;
    int is_timed, fed = 0;
    weft_choices_open(&ways, 2);
    for (int i = 0; i < 300; i++)
        fed += weft_choices_next(&ways, KIB(64), &is_timed) == FED;
    assert_int_equal(fed, 3);
    for (int i = 0; i < 3; i++)
        weft_choices_observe(&ways, KIB(64), KERNEL, 2000);
    int changed = 0;
    for (int i = 0; i < 3; i++)
        changed += weft_choices_observe(&ways, KIB(64), FED, 1000);
    assert_int_equal(changed, 1);
    assert_int_equal(weft_choices_taken(&ways, KIB(64)), FED);
}

/* Messages that have gone another way in the end: a trial of them ends, and changes nothing; and one whose messages never end is given up. */
static void test_trial_without_costs(void **state)
{
    (void)state;
    for (int is_said = 0; is_said < 2; is_said++) {
        struct weft_choices ways;
        int is_timed, fed = 0;
        weft_choices_open(&ways, 2);
        for (int i = 0; i < 5000; i++) {
            uint8_t way = weft_choices_next(&ways, KIB(64), &is_timed);
            fed += way == FED;
            if (is_timed && (way == KERNEL || is_said))
                assert_int_equal(weft_choices_observe(&ways, KIB(64), way, way == KERNEL ? 1000 : 0), 0);
        }
        assert_int_equal(weft_choices_taken(&ways, KIB(64)), KERNEL);
        assert_in_range(fed, is_said ? 3 * 16 : 6, 5000 / 10); /* hardly more rarely where that is known */
    }
}

/* --- three ways */

/* Where processors stay the best of three is found, and both others have trials that cost little. */
static void test_three(void **state)
{
    (void)state;
    uint64_t random = SEED;
    for (size_t p = 0; p < TRIPLES; p++) {
        for (int far = 0; far < 2; far++) {
            struct weft_choices ways;
            int switched = 0, tried[WAYS] = {0};
            int64_t sum_ns = 0, best_ns = 0;
            const int64_t *cost_ns = triples[p].cost_ns[far];
            weft_choices_open(&ways, WAYS);
            for (int i = 0; i < 8000; i++) {
                int64_t seen_ns = message(&ways, &triples[p], far, 0, &random, &switched);
                for (int way = 0; way < WAYS; way++)
                    tried[way] += seen_ns == cost_ns[way];
                sum_ns += i < 200 ? 0 : seen_ns; /* the first trials are of both others */
                best_ns += i < 200 ? 0 : cost_ns[best_of_three(cost_ns)];
            }
            if ((double)sum_ns > 1.05 * (double)best_ns || switched > 2)
                fail_msg("%zu bytes, %s: %.3f times the best, switched %d times", triples[p].bytes,
                         far ? "far" : "near", (double)sum_ns / (double)best_ns, switched);
            for (int way = 0; way < WAYS; way++)
                assert_true(tried[way] >= 3 * 6);
        }
    }
}

/* Both others have a trial soon after costs have moved: the first one may be the worse of them. */
static void test_three_at_once(void **state)
{
    (void)state;
    static const struct point worse_first = {KIB(64), {{9000, 1000, 9000}, {5000, 4000, 1500}}},
                              worse_last = {KIB(64), {{9000, 1000, 9000}, {1500, 4000, 5000}}};
    for (int last = 0; last < 2; last++) {
        const struct point *point = last ? &worse_last : &worse_first;
        for (int stayed = 1000; stayed < 1400; stayed++) { /* either may be next */
            struct weft_choices ways;
            uint64_t random = SEED;
            int switched = 0, needed = 0;
            weft_choices_open(&ways, WAYS);
            for (int i = 0; i < stayed; i++)
                message(&ways, point, 0, 0, &random, &switched);
            assert_int_equal(weft_choices_taken(&ways, KIB(64)), FED);
            while (weft_choices_taken(&ways, KIB(64)) != (last ? KERNEL : PAST) && needed < 1000) {
                message(&ways, point, 1, 0, &random, &switched);
                needed++;
            }
            assert_in_range(needed, 1, 170);
        }
    }
}

/* Costs of both ways, of some sizes. */
static void learn(struct weft_choices *ways, size_t bytes, int64_t fed_ns, int64_t past_ns)
{
    int is_timed, is_trial = 0;
    for (int i = 0; i < 400 || is_trial; i++) {
        uint8_t way = weft_choices_next(ways, bytes, &is_timed);
        if (is_timed)
            weft_choices_observe(ways, bytes, way,
                                 way == KERNEL ? 10 * fed_ns
                                 : way == FED  ? fed_ns
                                               : past_ns);
        is_trial = 0;
        for (int s = 0; s < WEFT_CHOICE_SIZES; s++)
            is_trial |= ways->sizes[s].trial > 0;
    }
}

/* Two ways, where one costs clearly less, over all sizes. */
static void test_compares(void **state)
{
    (void)state;
    static const struct {
        int64_t small[2], large[2];
        int less;
    } cases[] = {
        {{1000, 1300}, {0, 0}, -1},      {{1300, 1000}, {0, 0}, 1},        {{1000, 1100}, {0, 0}, 0},
        {{1100, 1000}, {0, 0}, 0},       {{1000, 2000}, {9000, 7000}, -1}, /* each size counts the same */
        {{1000, 1300}, {9000, 9000}, 0}, {{1000, 2000}, {9000, 4500}, 0},  {{2000, 1000}, {9000, 9000}, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct weft_choices ways;
        weft_choices_open(&ways, WAYS);
        assert_int_equal(weft_choices_compare(&ways, FED, PAST), 0);
        learn(&ways, KIB(8), cases[c].small[0], cases[c].small[1]);
        if (cases[c].large[0])
            learn(&ways, KIB(512), cases[c].large[0], cases[c].large[1]);
        assert_int_equal(weft_choices_compare(&ways, FED, PAST), cases[c].less);
        assert_int_equal(weft_choices_compare(&ways, PAST, FED), -cases[c].less);
    }
}

/* In the midst of a trial the cost of what is tried is that of the first of its messages, which says little: that size does not count. */
static void test_compares_no_trial(void **state)
{
    (void)state;
    struct weft_choices ways;
    int of_trials = 0; /* messages: three of each */
    weft_choices_open(&ways, WAYS);
    learn(&ways, KIB(8), 1000, 2000);
    for (int i = 0; i < 2000; i++) {
        int is_timed, is_trial;
        uint8_t way = weft_choices_next(&ways, KIB(8), &is_timed);
        is_trial = ways.sizes[0].trial > 0;
        of_trials += is_trial;
        assert_int_equal(weft_choices_compare(&ways, FED, PAST), is_trial ? 0 : -1);
        if (is_timed)
            weft_choices_observe(&ways, KIB(8), way, way == FED ? 1000 : way == PAST ? 2000 : 9000);
    }
    assert_true(of_trials >= 2 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins_with_the_first),
        cmocka_unit_test(test_finds_the_better),
        cmocka_unit_test(test_trials_are_cheap),
        cmocka_unit_test(test_late_once),
        cmocka_unit_test(test_timed),
        cmocka_unit_test(test_follows),
        cmocka_unit_test(test_follows_at_once),
        cmocka_unit_test(test_never_flaps),
        cmocka_unit_test(test_restless),
        cmocka_unit_test(test_calls_of_several),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_trial_is_short),
        cmocka_unit_test(test_trial_without_costs),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_three_at_once),
        cmocka_unit_test(test_compares),
        cmocka_unit_test(test_compares_no_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
