/* SPDX-License-Identifier: Apache-2.0 */
/* Lines taken apart, and the map of names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "topo/files/names.h"

static struct weft_span span(const char *text)
{
    return (struct weft_span){text, strlen(text)};
}

static void test_lines(void **state)
{
    (void)state;
    struct weft_text text = {"file", "\xef\xbb\xbfone\r\n\n two\n\xef\xbb\xbf", 17};
    struct weft_cursor cursor = {0};
    size_t at = 0;
    static const char *const lines[] = {"one", "", " two", "\xef\xbb\xbf"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(weft_line_next(&text, &at, &cursor), 1);
        assert_int_equal(cursor.line, i + 1);
        assert_true(weft_span_is(weft_line_rest(&cursor), lines[i]));
    }
    assert_int_equal(weft_line_next(&text, &at, &cursor), 0);
}

static void test_numbers(void **state)
{
    (void)state;
    uint32_t number = 7;
    uint64_t hex = 7;
    struct weft_cursor cursor = {.at = "254x"}, start;
    cursor.end = cursor.at + 4;
    start = cursor;
    assert_int_equal(weft_line_take_number(&cursor, 253, &number), 0);
    assert_ptr_equal(cursor.at, start.at);
    assert_int_equal(number, 7);
    assert_int_equal(weft_line_take_number(&cursor, 254, &number), 1);
    assert_int_equal(number, 254);
    assert_int_equal(weft_line_take_number(&cursor, 254, &number), 0);
    assert_true(weft_line_take(&cursor, "x"));

    static const char most[] = "ffffFFFFffffFFFF", more[] = "0ffffFFFFffffFFFF";
    cursor = (struct weft_cursor){.at = most, .end = most + 16};
    assert_int_equal(weft_line_take_hex(&cursor, &hex), 1);
    assert_true(hex == UINT64_MAX);
    cursor = (struct weft_cursor){.at = more, .end = more + 17};
    assert_int_equal(weft_line_take_hex(&cursor, &hex), 0);
    assert_ptr_equal(cursor.at, more);
    static const char big[] = "99999999999999999999";
    cursor = (struct weft_cursor){.at = big, .end = big + 20};
    assert_int_equal(weft_line_take_number(&cursor, UINT32_MAX, &number), 0);
}

static void test_names_that_are_alike(void **state)
{
    (void)state;
    static const char *const texts[] = {"b", "", "a", "ab", "abc", "abd", "\xff", "\x01", "b\x01", "bb"};
    struct weft_names names = {0};
    uint32_t value;
    assert_int_equal(weft_names_find(&names, span("a"), &value), 0);
    for (uint32_t i = 0; i < 10; i++) {
        for (uint32_t j = 0; j < 10; j++) {
            assert_int_equal(weft_names_find(&names, span(texts[j]), &value), j < i);
            if (j < i)
                assert_int_equal(value, j);
        }
        assert_int_equal(weft_names_put(&names, span(texts[i]), i, &value), 0);
        assert_int_equal(value, i);
    }
    assert_int_equal(weft_names_put(&names, span("abc"), 77, &value), 0);
    assert_int_equal(value, 4);
    weft_names_change(&names, span("abc"), 77);
    assert_int_equal(weft_names_find(&names, span("abc"), &value), 1);
    assert_int_equal(value, 77);
    assert_int_equal(weft_names_find(&names, span("abcd"), &value), 0);
    weft_names_free(&names);
    assert_int_equal(weft_names_find(&names, span("abc"), &value), 0);
}

/* Names of few characters in any order, each asked for again and again, against a table of all there can be. */
#define LETTERS 3
#define LENGTH  9
#define ALL     29524 /* 3^0 + ... + 3^9 */

static void test_names_at_random(void **state)
{
    (void)state;
    static char texts[ALL][LENGTH + 1];
    static uint32_t has[ALL];
    uint32_t count = 1, state_of = 12345;
    for (uint32_t from = 0; count < ALL; from++) {
        size_t length = strlen(texts[from]);
        for (int letter = 0; letter < LETTERS; letter++) {
            memcpy(texts[count], texts[from], length);
            texts[count++][length] = "a\x80z"[letter];
        }
    }
    struct weft_names names = {0};
    for (uint32_t i = 0; i < 60000; i++) {
        state_of = state_of * 1664525 + 1013904223;
        uint32_t which = (state_of >> 8) % ALL, value = 0;
        int known = weft_names_find(&names, span(texts[which]), &value);
        assert_int_equal(known, has[which] != 0);
        if (known)
            assert_int_equal(value, has[which]);
        has[which] = known ? has[which] : i + 1;
        assert_int_equal(weft_names_put(&names, span(texts[which]), i + 1, &value), 0);
        assert_int_equal(value, has[which]);
    }
    weft_names_free(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_names_that_are_alike),
        cmocka_unit_test(test_names_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
