/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (computes) */
/* Numbers that programs, scripts and other ranks have compiled in or written down: they never change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <weft/transport.h>
#include <weft/weft.h>

#include "algos/plan.h"

static void test_status_numbers(void **state)
{
    (void)state;
    static const int frozen[] = {WEFT_OK,          WEFT_AGAIN,     WEFT_INVALID,      WEFT_NOMEM,
                                 WEFT_UNSUPPORTED, WEFT_TIMEOUT,   WEFT_PEER_FAILED,  WEFT_REVOKED,
                                 WEFT_MISMATCH,    WEFT_SETTINGS,  WEFT_PROTOCOL,     WEFT_SYSTEM,
                                 WEFT_TRANSPORT,   WEFT_NOT_FOUND, WEFT_RANKS_ABSENT, WEFT_CANCELLED,
                                 WEFT_ACCESS,      WEFT_BUSY,      WEFT_INTERNAL};
    for (int i = 0; i < (int)(sizeof frozen / sizeof *frozen); i++) {
        assert_int_equal(frozen[i], -i);
        assert_string_not_equal(weft_strerror(-i), "");
    }
    assert_non_null(weft_strerror(1));
    assert_non_null(weft_strerror(-100000));
}

static void test_type_and_operation_numbers(void **state)
{
    (void)state;
    static const char *const types[] = {"int8",       "uint8",   "int32",       "uint32",      "int64",
                                        "uint64",     "float16", "float32",     "float64",     "bfloat16",
                                        "int16",      "uint16",  "float8_e4m3", "float8_e5m2", "complex64",
                                        "complex128", "bool"};
    static const char *const operations[] = {"sum", "prod", "max", "min", "avg", "and", "or", "xor"};
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 2, 2, 1, 1, 8, 16, 1};
    assert_int_equal(WEFT_FLOAT32, 7);
    assert_int_equal(WEFT_BFLOAT16, 9);
    assert_int_equal(WEFT_AVG, 4);
    assert_int_equal(WEFT_BOOL, 16);
    assert_int_equal(WEFT_XOR, 7);
    for (int i = 0; i < 17; i++) {
        assert_string_equal(weft_dtype_name((weft_dtype)i), types[i]);
        assert_int_equal(weft_dtype_size((weft_dtype)i), sizes[i]);
    }
    for (int i = 0; i < 8; i++)
        assert_string_equal(weft_op_name((weft_op)i), operations[i]);
    assert_int_equal(weft_dtype_size((weft_dtype)99), 0);
}

static void test_algorithm_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"auto", "ring", "tree", "rd", "rab"};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(weft_algorithm_name((enum weft_algorithm)i), names[i]);
        assert_int_equal(weft_algorithm_parse(names[i]), i);
    }
}

static void test_structs_start_with_their_size(void **state)
{
    (void)state;
    weft_context_options context = WEFT_CONTEXT_OPTIONS_INIT;
    weft_comm_options comm = WEFT_COMM_OPTIONS_INIT;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    assert_int_equal(offsetof(weft_context_options, size), 0);
    assert_int_equal(offsetof(weft_comm_options, size), 0);
    assert_int_equal(offsetof(weft_comm_stats, size), 0);
    assert_int_equal(offsetof(struct weft_transport_ops, size), 0);
    assert_int_equal(offsetof(struct weft_transport_params, size), 0);
    assert_int_equal(context.size, sizeof context);
    assert_int_equal(comm.size, sizeof comm);
    assert_int_equal(stats.size, sizeof stats);
    assert_int_equal(comm.rank, -1);
    assert_int_equal(comm.ranks, -1);
    assert_int_equal(comm.listen_fd, -1);
}

static void test_version_matches_the_header(void **state)
{
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR,
             WEFT_VERSION_PATCH);
    assert_string_equal(weft_version(), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_numbers),
        cmocka_unit_test(test_type_and_operation_numbers),
        cmocka_unit_test(test_algorithm_numbers),
        cmocka_unit_test(test_structs_start_with_their_size),
        cmocka_unit_test(test_version_matches_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
