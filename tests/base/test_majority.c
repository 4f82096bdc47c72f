/* SPDX-License-Identifier: Apache-2.0 */
/* Who is odd: base/majority.h, against counting all pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/majority.h"

#define COUNT  7
#define VALUES 4 /* '0': no vote */

static int alike(const void *arg, int a, int b)
{
    const char *values = arg;
    return values[a] != '0' && values[a] == values[b];
}

static int by_counting(const char *values, int count)
{
    int voters = 0, first = -1;
    for (int i = 0; i < count; i++) {
        voters += values[i] != '0';
        first = first < 0 && values[i] != '0' ? i : first;
    }
    for (int i = 0; i < count; i++) {
        int votes = 0;
        for (int k = 0; k < count; k++)
            votes += alike(values, i, k);
        if (2 * votes > voters && votes)
            return i;
    }
    return first;
}

static void test_all(void **state)
{
    (void)state;
    int total = 1;
    for (int count = 0; count <= COUNT; count++, total *= VALUES) {
        for (int code = 0; code < total; code++) {
            char values[COUNT + 1] = "";
            for (int i = 0, rest = code; i < count; i++, rest /= VALUES)
                values[i] = (char)('0' + rest % VALUES);
            if (weft_majority(count, alike, values) != by_counting(values, count))
                fail_msg("'%s': %d, expected %d", values, weft_majority(count, alike, values),
                         by_counting(values, count));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
