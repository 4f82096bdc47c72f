/* SPDX-License-Identifier: Apache-2.0 */
/* Under a sanitizer programs are many times slower, and what it can find shows in fewer turns. The rule for tests, written down here:
 *
 * - Each scene, each kind of call and each way that code can take stays. What is left out are repetitions: other numbers of ranks,
 *   other types, other seeds, more rounds of the same, bytes that only make a message longer.
 * - Where a sweep has two dimensions it is sampled over both by turns, so that each value of each is still met.
 * - What is promised about time is not asked, or asked with more patience.
 *
 * Plain runs keep everything.
 */
#ifndef WEFT_TESTS_SANITIZED_H
#define WEFT_TESTS_SANITIZED_H

#include <stdlib.h>

/* Set by tests/scripts/sanitize.sh: a sanitizer's name. Scripts look at it themselves. */
static inline int test_is_sanitized(void)
{
    return getenv("WEFT_SANITIZER") != NULL;
}

#endif
