/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (tables) */
/* Sizes and names of types and operations, and the version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <weft/weft.h>

static void types_have_sizes_and_names(void **state)
{
    (void)state;
    static const struct {
        weft_dtype dtype;
        size_t size;
        const char *name;
    } types[] = {
        {WEFT_INT8, 1, "int8"},
        {WEFT_UINT8, 1, "uint8"},
        {WEFT_INT32, 4, "int32"},
        {WEFT_UINT32, 4, "uint32"},
        {WEFT_INT64, 8, "int64"},
        {WEFT_UINT64, 8, "uint64"},
        {WEFT_FLOAT16, 2, "float16"},
        {WEFT_FLOAT32, 4, "float32"},
        {WEFT_FLOAT64, 8, "float64"},
        {WEFT_BFLOAT16, 2, "bfloat16"},
        {WEFT_INT16, 2, "int16"},
        {WEFT_UINT16, 2, "uint16"},
        {WEFT_FLOAT8_E4M3, 1, "float8_e4m3"},
        {WEFT_FLOAT8_E5M2, 1, "float8_e5m2"},
        {WEFT_COMPLEX64, 8, "complex64"},
        {WEFT_COMPLEX128, 16, "complex128"},
        {WEFT_BOOL, 1, "bool"},
    };
    assert_int_equal(sizeof types / sizeof *types, WEFT_DTYPE_COUNT);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        assert_int_equal(weft_dtype_size(types[i].dtype), types[i].size);
        assert_string_equal(weft_dtype_name(types[i].dtype), types[i].name);
    }
    assert_int_equal(weft_dtype_size(WEFT_DTYPE_COUNT), 0);
    assert_int_equal(weft_dtype_size((weft_dtype)-1), 0);
    assert_string_equal(weft_dtype_name((weft_dtype)-1), "unknown");
}

static void operations_have_names(void **state)
{
    (void)state;
    assert_string_equal(weft_op_name(WEFT_SUM), "sum");
    assert_string_equal(weft_op_name(WEFT_PROD), "prod");
    assert_string_equal(weft_op_name(WEFT_MIN), "min");
    assert_string_equal(weft_op_name(WEFT_MAX), "max");
    assert_string_equal(weft_op_name(WEFT_AVG), "avg");
    assert_string_equal(weft_op_name(WEFT_AND), "and");
    assert_string_equal(weft_op_name(WEFT_OR), "or");
    assert_string_equal(weft_op_name(WEFT_XOR), "xor");
    assert_string_equal(weft_op_name(WEFT_OP_COUNT), "unknown");
}

static void version_matches_header(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    assert_string_equal(weft_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_sizes_and_names),
        cmocka_unit_test(operations_have_names),
        cmocka_unit_test(version_matches_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
