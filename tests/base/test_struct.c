/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of programs that were built with an older or a newer weft.h: read and filled by the place of each member. */
#include "base/struct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/error.h"

/* Three versions of one struct. */
typedef struct first {
    size_t size;
    int64_t number;
} first;
typedef struct known {
    size_t size;
    int64_t number;
    const char *text;
} known;
typedef struct newer {
    size_t size;
    int64_t number;
    const char *text;
    int64_t more;
} newer;

#define KNOWN_INIT                                                                                           \
    {                                                                                                        \
        sizeof(known), -1, "default"                                                                         \
    }
static const struct weft_struct about = WEFT_STRUCT(known, KNOWN_INIT, number);

/* At the end of a page of its own, so that a byte too many is seen by the sanitizers. */
static void *kept(const void *bytes, size_t size)
{
    void *copy = malloc(size);
    assert_non_null(copy);
    return memcpy(copy, bytes, size);
}

static void test_older(void **state)
{
    (void)state;
    known read = KNOWN_INIT;
    const first given = {sizeof given, 7};
    void *exact = kept(&given, sizeof given);
    assert_int_equal(weft_struct_read(&about, &read, exact), WEFT_OK);
    free(exact);
    assert_int_equal(read.number, 7);
    assert_string_equal(read.text, "default");
    assert_int_equal(read.size, sizeof read);
}

static void test_newer(void **state)
{
    (void)state;
    known read = KNOWN_INIT;
    newer given = {sizeof given, 8, "given", 0};
    assert_int_equal(weft_struct_read(&about, &read, &given), WEFT_OK);
    assert_int_equal(read.number, 8);
    assert_string_equal(read.text, "given");
    assert_int_equal(read.size, sizeof read);
    given.more = 1;
    given.number = 9;
    assert_int_equal(weft_struct_read(&about, &read, &given), WEFT_UNSUPPORTED);
    assert_string_equal(
        weft_error_detail(),
        "known has 32 bytes and byte 24 is not 0: this weft knows the first 24 bytes and cannot "
        "do what the others ask for");
    assert_int_equal(read.number, 8);
}

static void test_too_small(void **state)
{
    (void)state;
    known read = KNOWN_INIT;
    const first given = {sizeof given - 1, 7};
    assert_int_equal(weft_struct_read(&about, &read, &given), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "known.size is 15: expected 24, from KNOWN_INIT");
    assert_int_equal(weft_struct_check(&about, &given), WEFT_INVALID);
    assert_int_equal(read.number, -1);
    assert_int_equal(weft_struct_read(&about, &read, NULL), WEFT_OK);
    assert_int_equal(read.number, -1);
}

/* What we fill: as much as there is room for, at the program's distances; what we do not know stays. */
static void test_filled(void **state)
{
    (void)state;
    const known whole = {0, 5, "five"};
    first *small = malloc(2 * sizeof *small);
    newer large[2] = {{sizeof large[0], 0, NULL, 77}};
    assert_non_null(small);
    small[0].size = sizeof small[0];
    for (size_t i = 0; i < 2; i++) {
        weft_struct_fill(&about, small, i, &whole);
        weft_struct_fill(&about, large, i, &whole);
        assert_int_equal(small[i].size, sizeof small[0]);
        assert_int_equal(small[i].number, 5);
        assert_int_equal(large[i].size, sizeof large[0]);
        assert_string_equal(large[i].text, "five");
        assert_int_equal(large[i].more, 77);
    }
    free(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older),
        cmocka_unit_test(test_newer),
        cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
