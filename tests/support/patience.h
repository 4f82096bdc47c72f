/* SPDX-License-Identifier: Apache-2.0 */
/* How many times longer than on a quiet machine a test waits for what is to come, before it says that it has not come.
 *
 * tests/run.sh sets WEFT_TEST_PATIENCE for each program, from how busy the machine is when it starts. A build with a sanitizer is three
 * times more patient. Times that are under test, as a deadline that is to pass, are not scaled.
 */
#ifndef WEFT_TESTS_PATIENCE_H
#define WEFT_TESTS_PATIENCE_H

#include <stdint.h>
#include <stdlib.h>

#include "tests/support/effort.h"

static inline int test_patience(void)
{
    const char *text = getenv("WEFT_TEST_PATIENCE");
    int factor = text ? atoi(text) : 1;
    return (factor < 1 ? 1 : factor) * (test_is_sanitized() ? 3 : 1);
}

/* A time in any unit, times the factor. */
static inline int64_t test_patient(int64_t time)
{
    return time * test_patience();
}

#endif
