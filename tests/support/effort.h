/* SPDX-License-Identifier: Apache-2.0 */
/* How much a test repeats. There are three efforts:
 *
 *   sanitized   a build with a sanitizer (WEFT_SANITIZER): programs are many times slower, and faults show in fewer turns
 *   ordinary    make check
 *   long        make check-long (WEFT_LONG): everything; there a build with a sanitizer makes the ordinary effort
 *
 * The rule for what stays out:
 *
 * - Each scene, each kind of call and each way that code can take stays at every effort. What is left out are repetitions: other
 *   numbers of ranks, other types, other seeds, more rounds of the same, bytes that only make a message longer.
 * - A sweep in two or more dimensions is sampled along diagonals (test_left_out), so that each value of each dimension is still met.
 * - What is promised about time is asked at every effort, under a sanitizer with more patience (test_is_sanitized).
 */
#ifndef WEFT_TESTS_EFFORT_H
#define WEFT_TESTS_EFFORT_H

#include <stddef.h>
#include <stdlib.h>

enum test_effort { TEST_SANITIZED, TEST_ORDINARY, TEST_LONG };

/* Set by tests/scripts/sanitize.sh: a sanitizer's name. Scripts look at it themselves. */
static inline int test_is_sanitized(void)
{
    return getenv("WEFT_SANITIZER") != NULL;
}

static inline enum test_effort test_effort(void)
{
    if (test_is_sanitized())
        return getenv("WEFT_LONG") ? TEST_ORDINARY : TEST_SANITIZED;
    return getenv("WEFT_LONG") ? TEST_LONG : TEST_ORDINARY;
}

/* How many: ranks, rounds, seeds. */
static inline size_t test_by_effort(size_t sanitized, size_t ordinary, size_t all)
{
    return test_effort() == TEST_LONG ? all : test_effort() == TEST_ORDINARY ? ordinary : sanitized;
}

/* Whether a point of a sweep stays out, of which one in so many is kept; `diagonal` is the sum of its indices. Each dimension must have at
 * least as many values as there are between two that are kept, or some values would not be met. All stay at the effort "long". */
static inline int test_left_out(size_t diagonal, size_t sanitized, size_t ordinary)
{
    return diagonal % test_by_effort(sanitized, ordinary, 1) != 0;
}

#endif
