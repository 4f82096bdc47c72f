/* SPDX-License-Identifier: Apache-2.0 */
/* WEFT_TEST_CASE names the cases of a program that run, with * and ?. cmocka can filter, but only when the program asks it to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

__attribute__((constructor)) static void choose_cases(void)
{
    const char *pattern = getenv("WEFT_TEST_CASE");
    if (pattern)
        cmocka_set_test_filter(pattern);
}
