/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of intervals against a list that is searched from end to end. */
#include "base/interval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 200
#define SPACE 600

static struct weft_interval intervals[COUNT];
static int inside[COUNT];
static uint32_t state_of_random;

static uint32_t draw(uint32_t below)
{
    state_of_random = state_of_random * 1103515245u + 12345u;
    return (state_of_random >> 8) % below;
}

static int is_inside(const struct weft_interval *found)
{
    return found >= intervals && found < intervals + COUNT && inside[found - intervals];
}

static void compare(const struct weft_intervals *tree, uintptr_t begin, uintptr_t end)
{
    int covered = 0, touched = 0;
    uint8_t taken[SPACE + COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        if (!inside[i])
            continue;
        covered |= intervals[i].begin <= begin && intervals[i].end >= end;
        touched |= intervals[i].begin < end && intervals[i].end > begin;
        memset(taken + intervals[i].begin, 1, intervals[i].end - intervals[i].begin);
    }
    const struct weft_interval *cover = weft_intervals_cover(tree, begin, end);
    const struct weft_interval *touch = weft_intervals_touch(tree, begin, end);
    assert_int_equal(cover != NULL, covered);
    assert_int_equal(touch != NULL, touched);
    assert_true(!cover || (is_inside(cover) && cover->begin <= begin && cover->end >= end));
    assert_true(!touch || (is_inside(touch) && touch->begin < end && touch->end > begin));
    const struct weft_interval *at = NULL;
    for (int i = 0; i < COUNT; i++) { /* which lie in the order of their addresses */
        if (inside[i] && intervals[i].begin == begin)
            assert_ptr_equal(at = weft_intervals_at(tree, begin, at), &intervals[i]);
    }
    assert_null(weft_intervals_at(tree, begin, at));
    uintptr_t gap_begin = begin, gap_end, from, to;
    while (gap_begin < end && taken[gap_begin])
        gap_begin++;
    for (gap_end = gap_begin; gap_end < end && !taken[gap_end];)
        gap_end++;
    assert_int_equal(weft_intervals_gap(tree, begin, end, &from, &to), gap_begin < end);
    if (gap_begin < end) {
        assert_int_equal(from, gap_begin);
        assert_int_equal(to, gap_end);
    }
}

static void test_random(void **state)
{
    (void)state;
    struct weft_intervals tree = {0};
    memset(inside, 0, sizeof inside);
    for (int turn = 0; turn < 20000; turn++) {
        int i = (int)draw(COUNT);
        /* Fuller and emptier by turns; wide and narrow; the same begin often. */
        if (inside[i]) {
            weft_intervals_remove(&tree, &intervals[i]);
            inside[i] = 0;
        } else if (draw(4000) > (uint32_t)turn % 4000) {
            intervals[i].begin = draw(SPACE / 10) * 10;
            intervals[i].end = intervals[i].begin + 1 + draw(draw(8) ? 12 : COUNT - 1);
            weft_intervals_add(&tree, &intervals[i]);
            inside[i] = 1;
        }
        uintptr_t begin = draw(2) ? draw(SPACE) : draw(SPACE / 10) * 10, end = begin + 1 + draw(40);
        compare(&tree, begin, end);
    }
}

static int depth_of(const struct weft_interval *node)
{
    int left = node ? depth_of(node->left) : 0, right = node ? depth_of(node->right) : 0;
    return node ? 1 + (left > right ? left : right) : 0;
}

/* Rising, falling and equal begins leave a tree that is not much deeper than a balanced one. */
static void test_depth(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    struct weft_interval *many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    for (int order = 0; order < 3; order++) {
        struct weft_intervals tree = {0};
        for (int i = 0; i < MANY; i++) {
            many[i].begin = order == 0 ? (uintptr_t)i : order == 1 ? (uintptr_t)(MANY - i) : 5;
            many[i].end = many[i].begin + 1;
            weft_intervals_add(&tree, &many[i]);
        }
        assert_true(depth_of(tree.root) < 50); /* balanced: 14 */
        for (int i = 0; i < MANY; i++)
            weft_intervals_remove(&tree, &many[i]);
        assert_null(tree.root);
    }
    free(many);
}

static void test_last_address(void **state)
{
    (void)state;
    struct weft_intervals tree = {0};
    struct weft_interval top = {.begin = UINTPTR_MAX - 4096, .end = UINTPTR_MAX};
    assert_null(weft_intervals_cover(&tree, 1, 2));
    weft_intervals_add(&tree, &top);
    assert_ptr_equal(weft_intervals_cover(&tree, UINTPTR_MAX - 1, UINTPTR_MAX), &top);
    assert_null(weft_intervals_cover(&tree, UINTPTR_MAX - 4097, UINTPTR_MAX));
    assert_ptr_equal(weft_intervals_touch(&tree, 0, UINTPTR_MAX - 4095), &top);
    assert_null(weft_intervals_touch(&tree, 0, UINTPTR_MAX - 4096));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_last_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
