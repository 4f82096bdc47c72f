/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (computes) */
/* weft-perf's operations: who sends and receives how much. What one rank expects is what another one sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf/calls.c" /* a program's files, not in libweft.a */

#include "perf/operations.c"

#include "perf/shape.c"

enum { RANKS_MAX = 9 };

static const struct perf_operation *operation_named(const char *name)
{
    for (int i = 0; i < perf_operation_count; i++)
        if (strcmp(perf_operations[i].name, name) == 0)
            return &perf_operations[i];
    fail_msg("no operation %s", name);
    return NULL;
}

/* What source has from position on is a block that it sends to shape's rank. */
static void check_source(const struct perf_operation *operation, const struct perf_shape *shapes, int rank,
                         const struct perf_stretch *stretch)
{
    int source = stretch->source == PERF_REDUCED ? 0 : stretch->source;
    assert_in_range(source, 0, shapes[rank].ranks - 1);
    assert_true(stretch->position + stretch->count <= shapes[source].send);
    if (operation->sends == PERF_WHOLE && operation->receives == PERF_BLOCK)
        assert_int_equal(stretch->position, sum(shapes[source].counts, rank));
    if (is_alltoall(operation)) {
        assert_int_equal(stretch->count, shapes[source].counts[rank]);
        assert_int_equal(stretch->position, sum(shapes[source].counts, rank));
    } else if (operation->sends == PERF_BLOCK) {
        assert_int_equal(stretch->count, shapes[source].send);
    }
}

static void check_rank(const struct perf_operation *operation, const struct perf_shape *shapes, int rank)
{
    const struct perf_shape *shape = &shapes[rank];
    size_t covered = 0;
    assert_true(shape->send_at + shape->send <= shape->total);
    assert_true(shape->recv_at + shape->recv <= shape->total);
    assert_true(shape->total <= shape->elements);
    for (int i = 0; i < perf_shape_stretches(shape, operation); i++) {
        struct perf_stretch stretch;
        perf_shape_stretch(shape, operation, i, &stretch);
        assert_int_equal(stretch.at, covered);
        check_source(operation, shapes, rank, &stretch);
        covered += stretch.count;
    }
    assert_int_equal(covered, shape->recv);
    if (operation->traits & PERF_UNEQUAL)
        assert_int_equal(shape->total, shape->elements);
}

static void check_operation(const struct perf_operation *operation, size_t elements, int ranks, int root)
{
    struct perf_shape shapes[RANKS_MAX];
    for (int rank = 0; rank < ranks; rank++)
        assert_int_equal(perf_shape_make(&shapes[rank], operation, elements, rank, ranks, root), 0);
    for (int rank = 0; rank < ranks; rank++)
        check_rank(operation, shapes, rank);
    for (int rank = 0; rank < ranks; rank++)
        perf_shape_release(&shapes[rank]);
}

static void test_what_is_expected_is_what_is_sent(void **state)
{
    static const size_t elements[] = {0, 1, 5, 64, 1000, ((size_t)1 << 40) + 7};
    (void)state;
    for (int i = 0; i < perf_operation_count; i++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
            for (int root = 0; root < ranks; root++)
                for (size_t e = 0; e < sizeof elements / sizeof *elements; e++)
                    check_operation(&perf_operations[i], elements[e], ranks, root);
}

static void test_unequal_blocks_are_unequal(void **state)
{
    (void)state;
    assert_int_equal(unequal(100, 0, 4), 10);
    assert_int_equal(unequal(100, 1, 4), 20);
    assert_int_equal(unequal(100, 2, 4), 30);
    assert_int_equal(unequal(100, 3, 4), 40);
    assert_int_equal(unequal(1, 0, 4) + unequal(1, 1, 4) + unequal(1, 2, 4) + unequal(1, 3, 4), 1);
}

static void test_names_and_flags(void **state)
{
    struct perf_accepts accepts;
    (void)state;
    perf_operation_accepts(operation_named("allreduce"), &accepts);
    assert_true(accepts.flags & PERF_TAKES_OP && accepts.flags & PERF_TAKES_PLACEMENT);
    assert_false(accepts.flags & (PERF_TAKES_ROOT | PERF_TAKES_WINDOW));
    for (int i = 0; i < perf_operation_count; i++)
        assert_ptr_equal(operation_named(perf_operations[i].name), &perf_operations[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_expected_is_what_is_sent),
        cmocka_unit_test(test_unequal_blocks_are_unequal),
        cmocka_unit_test(test_names_and_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
