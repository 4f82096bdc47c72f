/* SPDX-License-Identifier: Apache-2.0 */
/* How far another processor is, as a function of the times that a line took: base/distance.h. The times are those that were seen on a virtual machine: 40 to 70 ns
 * near, 130 to 190 far, and some that are much longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/distance.h"

#define SEED UINT64_C(20261130)

static uint32_t next(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)(*random >> 33);
}

/* One in 50 was interrupted. */
static int64_t line_ns(uint64_t *random, int far)
{
    if (next(random) % 50 == 0)
        return 400 + next(random) % 10000;
    return far ? 130 + next(random) % 60 : 40 + next(random) % 30;
}

static void test_follows(void **state)
{
    (void)state;
    struct weft_distance distance = {0};
    uint64_t random = SEED;
    int was_wrong = 0, looks = 0;
    for (int move = 0; move < 1000; move++) {
        int far = move % 2, stays = 5 + (int)(next(&random) % 1000);
        for (int i = 0; i < stays; i++) {
            assert_int_equal(weft_distance_observe(&distance, line_ns(&random, far)), 0);
            if (i >= 1) {
                looks++;
                was_wrong += distance.is_far != far;
            }
        }
    }
    assert_true(looks > 4 * WEFT_DISTANCE_WINDOW);
    assert_in_range(was_wrong, 0, looks / 1000); /* two in a row are */
}

/* Who has seen far processors alone takes them for near, until they are, and says so once. */
static void test_was_far(void **state)
{
    (void)state;
    struct weft_distance distance = {0};
    uint64_t random = SEED;
    int said = 0;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(weft_distance_observe(&distance, 130 + next(&random) % 60) + distance.is_far, 0);
    for (int i = 0; i < 1000; i++)
        said += weft_distance_observe(&distance, 40 + next(&random) % 20);
    assert_int_equal(said, 1);
    assert_int_equal(distance.is_far, 0);
    for (int i = 0; i < 2; i++)
        weft_distance_observe(&distance, 150);
    assert_int_equal(distance.is_far, 1);
}

/* Both threads were on one processor for a moment, where a line takes nearly nothing: other near ones are far then, but not for ever. */
static void test_forgets(void **state)
{
    (void)state;
    struct weft_distance distance = {0};
    uint64_t random = SEED;
    int said = 0, looks = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft_distance_observe(&distance, 10), 0);
    for (int i = 0; i < 2; i++)
        weft_distance_observe(&distance, 60);
    assert_int_equal(distance.is_far, 1);
    while (said == 0 && looks++ < 3 * WEFT_DISTANCE_WINDOW)
        said = weft_distance_observe(&distance, 40 + next(&random) % 30);
    assert_int_equal(said, -1);
    assert_int_equal(distance.is_far, 0);
    assert_in_range(looks, WEFT_DISTANCE_WINDOW, 2 * WEFT_DISTANCE_WINDOW + 1);
    for (int i = 0; i < 2; i++)
        weft_distance_observe(&distance, 150);
    assert_int_equal(distance.is_far, 1);
}

/* A clock of 24 MHz: near lines take a tick or two, and far ones four. */
static void test_coarse_clock(void **state)
{
    (void)state;
    struct weft_distance distance = {0};
    uint64_t random = SEED;
    for (int i = 0; i < 100; i++)
        weft_distance_observe(&distance, next(&random) % 2 ? 42 : 83);
    for (int i = 0; i < 1000; i++) {
        weft_distance_observe(&distance, next(&random) % 2 ? 42 : 83);
        assert_int_equal(distance.is_far, 0);
    }
    for (int i = 0; i < 2; i++)
        weft_distance_observe(&distance, 167);
    assert_int_equal(distance.is_far, 1);
}

/* A clock that stands, or goes back, says nothing. */
static void test_no_time(void **state)
{
    (void)state;
    static const int64_t times_ns[] = {0, -5, INT64_MAX, INT64_MIN, 0, 60, 0, -1, 50, INT64_MAX, 60};
    struct weft_distance distance = {0};
    for (size_t i = 0; i < sizeof times_ns / sizeof *times_ns; i++) {
        assert_int_equal(weft_distance_observe(&distance, times_ns[i]), 0);
        assert_int_equal(distance.is_far, 0);
    }
    assert_int_equal(distance.near_ns, 60);
    for (int i = 0; i < 2; i++)
        weft_distance_observe(&distance, 1000000);
    assert_int_equal(distance.is_far, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follows),      cmocka_unit_test(test_was_far), cmocka_unit_test(test_forgets),
        cmocka_unit_test(test_coarse_clock), cmocka_unit_test(test_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
