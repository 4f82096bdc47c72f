/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (compares what ranks say) */
/* Who is wrong, and how it is said: the comparison of calls that rank 0 makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "algos/plan.h"
#include "comm/core/judge.h"

#define RANKS 5

static struct weft_member members[RANKS];
static struct weft_judge_entry entries[RANKS];

static int setup(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        snprintf(members[r].host, sizeof members[r].host, "%c", 'a' + r);
        entries[r] = (struct weft_judge_entry){r,
                                               {.sequence = 17,
                                                .count = 1024,
                                                .root = -1,
                                                .collective = WEFT_ALLREDUCE,
                                                .algorithm = WEFT_ALGO_RING,
                                                .dtype = WEFT_FLOAT32,
                                                .op = WEFT_SUM}};
    }
    return 0;
}

static void expect(int count, const char *expected)
{
    char text[400] = "";
    int differs = weft_judge_compare(entries, count, members, RANKS, text, sizeof text);
    assert_int_equal(differs, expected != NULL);
    if (expected)
        assert_string_equal(text, expected);
}

static void test_equal(void **state)
{
    (void)state;
    entries[1].call.in_place = 1;  /* may differ */
    entries[3].call.algorithm = 0; /* not chosen yet */
    for (int count = 1; count <= RANKS; count++)
        expect(count, NULL);
}

static void test_fields(void **state)
{
    (void)state;
    entries[2].call.count = 1000;
    expect(RANKS, "allreduce #17: rank 2 on host 'c' passes count 1000, rank 0 passes 1024");
    entries[2].call.op = WEFT_MAX; /* outweighs the count */
    expect(RANKS, "allreduce #17: rank 2 on host 'c' passes reduction max, rank 0 passes sum");
    entries[2].call.dtype = WEFT_INT32;
    expect(RANKS, "allreduce #17: rank 2 on host 'c' passes type int32, rank 0 passes float32");
    entries[2].call.collective = WEFT_CALL_DESTROY;
    expect(RANKS, "call #17: rank 2 on host 'c' calls weft_comm_destroy, rank 0 calls allreduce");
}

static void test_root_and_algorithm(void **state)
{
    (void)state;
    entries[4].call.algorithm = WEFT_ALGO_TREE;
    expect(RANKS, "allreduce #17: rank 4 on host 'e' passes algorithm tree, rank 0 passes ring");
    entries[4].call.root = 3;
    expect(RANKS, "allreduce #17: rank 4 on host 'e' passes root 3, rank 0 passes -1");
}

/* The majority is right, also against rank 0; without one the lowest rank is. */
static void test_majority(void **state)
{
    (void)state;
    entries[0].call.count = 7;
    expect(RANKS, "allreduce #17: rank 0 on host 'a' passes count 7, rank 1 passes 1024");
    expect(2, "allreduce #17: rank 1 on host 'b' passes count 1024, rank 0 passes 7");
    entries[1].call.count = 7;
    expect(4, "allreduce #17: ranks 2-3 pass count 1024, rank 0 passes 7");
    expect(RANKS, "allreduce #17: ranks 0-1 pass count 7, rank 2 passes 1024");
    for (int r = 0; r < RANKS; r++)
        entries[r].call.count = (uint64_t)r + 1;
    expect(RANKS, "allreduce #17: rank 1 on host 'b' passes count 2, rank 0 passes 1");
}

/* Ranks that have not chosen an algorithm have no voice in it. */
static void test_silent(void **state)
{
    (void)state;
    entries[0].call.algorithm = entries[1].call.algorithm = entries[2].call.algorithm = 0;
    entries[4].call.algorithm = WEFT_ALGO_RAB;
    expect(RANKS, "allreduce #17: rank 4 on host 'e' passes algorithm rab, rank 3 passes ring");
    /* The end of a communicator has no fields. */
    for (int r = 0; r < RANKS; r++) {
        entries[r].call.collective = WEFT_CALL_DESTROY;
        entries[r].call.count = (uint64_t)r;
    }
    expect(RANKS, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_equal, setup),
        cmocka_unit_test_setup(test_fields, setup),
        cmocka_unit_test_setup(test_root_and_algorithm, setup),
        cmocka_unit_test_setup(test_majority, setup),
        cmocka_unit_test_setup(test_silent, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
