/* SPDX-License-Identifier: Apache-2.0 */
/* build: libs jansson */
/* run: unthreaded (plans are computed) */
/* The weft-plan program, from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "tests/support/tool.h"

#define expect tool_expect

static void test_verify(void **state)
{
    (void)state;
    expect("verify allreduce --algo ring --ranks 8", 0,
           "allreduce ring, 8 ranks: correct; window 32, 280 steps, 112 messages");
    expect("verify allreduce --algo tree --ranks 9 --rank 3", 0, "correct");
    expect("verify allreduce --algo rd --ranks 7 --in-place --window 2 --interleavings 5", 0,
           "in place: correct; window 2");
    expect("verify allreduce --algo rab --ranks 1", 0, "correct");
    expect("verify allreduce --algo ring --ranks 4 --window 1", 1, "WRONG: rank 0 step 0");
    expect("verify allreduce --algo ring --ranks 9 --method rotation", 0, "rotation method");
    expect("verify allreduce --algo rd --ranks 9 --method rotation", 1, "not symmetric");
    expect("verify allgather --algo ring --ranks 64", 0, "allgather ring, 64 ranks: correct");
    expect("verify reduce --algo rab --ranks 11 --root 3 --strict", 0,
           "reduce rab, 11 ranks, root 3, strict: correct");
    expect("verify reduce --algo chain --ranks 4 --strict", 1, "cannot keep strict mode's order");
    expect("verify gather --algo direct --ranks 5 --unequal --in-place", 0,
           "root 0, in place, unequal: correct");
    expect("verify gather --algo binomial --ranks 5 --unequal", 1, "cannot do unequal blocks");
    expect("verify alltoall --algo pairwise --ranks 4 --in-place", 1, "no alltoall in place");
    expect("verify allreduce --algo hier --hosts 3x4,2 --order 7", 0, "allreduce hier, 14 ranks: correct");
    expect("verify broadcast --algo leader --hosts 5,1,3 --ranks 9 --root 6", 0, "9 ranks, root 6: correct");
    expect("verify allgather --algo ring --ranks 9 --order 3 --unequal", 0, "9 ranks, unequal: correct");
    expect("verify barrier --algo dissemination --ranks 100000", 0, "rotation method");
}

static void test_dump(void **state)
{
    (void)state;
    expect("dump allreduce --algo ring --ranks 8 --rank 3", 0, "rank 3 of 8");
    assert_null(strstr(tool_output, "rank 4 of 8"));
    expect("dump allreduce --algo rd --ranks 2 --in-place --rank 0", 0, "COPY chunk 0: TEMP <- INPUT");
    expect("dump allreduce --algo tree --ranks 3", 0, "rank 2 of 3");
    expect("dump allreduce --algo ring --ranks 4 --rank 0 --steps", 0, "14  SEND chunk 3 to 1: OUTPUT");
    expect("dump allreduce --algo hier --hosts 2,2 --rank 2 --steps", 0, "9  SEND chunks 0-1 to 3: OUTPUT");
    expect("dump broadcast --algo hier --hosts 2,2 --rank 2", 0, "0  RECV chunk 0 from 0: OUTPUT");
    expect("dump reduce --algo chain --ranks 3 --root 2 --rank 0", 0,
           "reduce chain, rank 0 of 3, root 2: 64 chunks, 4 slots, 4 cells, 4 records");
    expect("dump allreduce --algo ring --hosts 2,2 --rings 2 --rank 0 --steps", 0,
           "9  RECV chunk 7 from 1: SLOT 3");
    expect("dump gather --algo binomial --ranks 6 --root 2 --rank 0", 0, "TEMP 0-1, 3 records");
    expect("dump alltoall --algo bruck --ranks 4 --rank 1", 0, "COPY chunk 0: OUTPUT <- INPUT chunk 2");
}

static json_t *parse(const char *arguments, int status)
{
    json_error_t error;
    assert_int_equal(tool_run(arguments), status);
    json_t *json = json_loads(tool_output, 0, &error);
    if (!json)
        fail_msg("weft-plan %s: line %d: %s", arguments, error.line, error.text);
    return json;
}

static void test_json(void **state)
{
    (void)state;
    json_t *plan = parse("dump allreduce --algo ring --ranks 5 --rank 2 --json", 0);
    assert_int_equal(json_integer_value(json_object_get(plan, "chunks")), 5);
    assert_int_equal(json_array_size(json_object_get(plan, "steps")), 13);
    json_decref(plan);
    json_t *verdict = parse("verify allreduce --algo tree --ranks 6 --json", 0);
    assert_true(json_is_true(json_object_get(verdict, "proven")));
    json_decref(verdict);
    verdict = parse("verify allreduce --algo ring --ranks 6 --window 1 --json", 1);
    assert_true(json_is_false(json_object_get(verdict, "proven")));
    assert_true(json_is_string(json_object_get(verdict, "error")));
    json_decref(verdict);
    json_t *cost = parse("cost allreduce --ranks 6 --bytes 1M --json", 0);
    json_t *rows = json_object_get(cost, "rows");
    assert_int_equal(json_array_size(rows), 6);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "size_bytes")), 1 << 20);
    json_decref(cost);
    plan = parse("dump scatter --algo direct --ranks 5 --rank 2 --root 4 --unequal --json", 0);
    assert_int_equal(json_integer_value(json_object_get(plan, "root")), 4);
    assert_true(json_is_true(json_object_get(plan, "unequal")));
    json_decref(plan);
    verdict = parse("verify broadcast --algo sag --ranks 6 --root 5 --json", 0);
    assert_string_equal(json_string_value(json_object_get(verdict, "collective")), "broadcast");
    assert_int_equal(json_integer_value(json_object_get(verdict, "root")), 5);
    json_decref(verdict);
}

static void test_cost(void **state)
{
    (void)state;
    expect("cost allreduce --ranks 2 --bytes 8", 0, "chosen");
    expect("cost allreduce --algo rab --ranks 8 --bytes 4K --link network --oversubscribed", 0, "4096  rab");
    assert_null(strstr(tool_output, "ring"));
    expect("cost reduce_scatter --ranks 8 --bytes 1M --strict", 0, "halving");
    expect("cost allreduce --hosts 16x8 --bytes 64M --json", 0, "\"algorithm\": \"hier\"");
    expect("cost allreduce --hosts 16x8 --bytes 8 --algo leader", 0, "chosen");
    expect("cost allreduce --hosts 16x8 --rings 8 --bytes 1G --algo ring", 0, "chosen");
    expect("cost barrier --ranks 8 --bytes 1", 0, "dissemination");
}

static void test_bad_arguments(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "expected a command"},
        {"prove allreduce", "'prove'"},
        {"dump", "expected a collective"},
        {"dump broadcasts --algo ring --ranks 2", "'broadcasts'"},
        {"dump broadcast --algo ring --ranks 2", "expected one of binomial, chain, sag, hier, leader"},
        {"dump allgather --algo ring --ranks 2 --root 0", "'--root'"},
        {"verify reduce --algo chain --ranks 4 --root 4", "--root is '4'"},
        {"dump allreduce --algo ring", "'--ranks'"},
        {"dump allreduce --algo ring --order 4", "'--ranks'"},
        {"dump allreduce --algo ring --hosts 4x", "'4x'"},
        {"dump allreduce --algo ring --hosts 4,,4", "'4,,4'"},
        {"dump allreduce --algo ring --hosts 0", "'0'"},
        {"dump allreduce --algo ring --hosts 2x3x4", "'2x3x4'"},
        {"dump allreduce --algo ring --hosts 99999x99999", "'99999x99999'"},
        {"dump allreduce --algo ring --hosts 4,4 --ranks 9", "--ranks is not the sum of --hosts '4,4'"},
        {"dump allreduce --algo ring --rings 2", "'--ranks'"},
        {"dump allreduce --algo ring --hosts 4,4 --rings 33", "--rings is '33'"},
        {"dump allreduce --ranks 2", "'--algo'"},
        {"dump allreduce --algo auto --ranks 2", "--algo is 'auto'"},
        {"dump allreduce --algo ring --ranks 2 --rank 2", "--rank is '2'"},
        {"dump allreduce --algo ring --ranks 2 --rank", "'--rank'"},
        {"verify allreduce --algo ring --ranks -3", "--ranks is '-3'"},
        {"verify allreduce --algo ring --ranks 8x", "--ranks is '8x'"},
        {"verify allreduce --algo ring --ranks 99999999999", "--ranks is '99999999999'"},
        {"verify allreduce --algo ring --ranks 8 --window 65", "--window is '65'"},
        {"verify allreduce --algo ring --ranks 8 --method best", "'best'"},
        {"verify allreduce --algo ring --ranks 8 --bytes 8", "'--bytes'"},
        {"cost allreduce --ranks 8 --bytes 8T", "--bytes is '8T'"},
        {"cost allreduce --ranks 8 --link smoke", "'smoke'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i][0], 2, cases[i][1]);
    expect("--help", 0, "usage: weft-plan");
    expect("--help", 0, "broadcast       binomial, chain, sag");
    expect("verify allreduce --help", 0, "Exit status");
    expect("dump allreduce --algo ring --ranks 2 > /dev/full", 1, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify), cmocka_unit_test(test_dump),          cmocka_unit_test(test_json),
        cmocka_unit_test(test_cost),   cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, tool_plan, tool_leave);
}
