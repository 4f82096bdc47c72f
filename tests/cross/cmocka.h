/* SPDX-License-Identifier: Apache-2.0 */
/* As much of cmocka's interface as the tests of pure computations use, for processors this machine only
 * emulates and has no cmocka for. The first failure ends the program. */
#ifndef WEFT_TESTS_CROSS_CMOCKA_H
#define WEFT_TESTS_CROSS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(function)                                                                           \
    {                                                                                                        \
#function, function                                                                                  \
    }
#define cmocka_run_group_tests(tests, setup, teardown) run_all(tests, sizeof(tests) / sizeof *(tests))

static inline int run_all(const struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        tests[i].run(&state);
    }
    printf("[  PASSED  ] %zu test(s).\n", count);
    return 0;
}

#define fail_msg(...)                                                                                        \
    do {                                                                                                     \
        printf(__VA_ARGS__);                                                                                 \
        printf("\n[  FAILED  ] 1 test(s), in %s line %d\n", __FILE__, __LINE__);                             \
        exit(1);                                                                                             \
    } while (0)
#define assert_true(condition)                                                                               \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            fail_msg("wanted: %s", #condition);                                                              \
    } while (0)
#define assert_memory_equal(a, b, size)                                                                      \
    do {                                                                                                     \
        if (memcmp(a, b, size))                                                                              \
            fail_msg("WRONG: not the same bytes: %s, %s", #a, #b);                                           \
    } while (0)
#define assert_null(pointer)      assert_true(!(pointer))
#define assert_non_null(pointer)  assert_true(pointer)
#define assert_int_equal(a, b)    assert_true((long long)(a) == (long long)(b))
#define assert_string_equal(a, b) assert_true(!strcmp(a, b))
#define skip()                    return

#endif
