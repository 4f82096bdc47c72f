/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on data: what a collective, a message, a copy or a reduction has produced. Where one is not so, the word WRONG is
 * printed. tests/run.sh gives a program no second look after it: wrong bits are a bug, however seldom they come, and never a matter of
 * a busy machine. Statuses, texts, counts and times are not data; a failure of those must not print it. */
#ifndef WEFT_TESTS_BITS_H
#define WEFT_TESTS_BITS_H

#include <stdio.h>

/* Whether the condition is so; says where it is not. */
#define BITS_AGREE(condition)                                                                                \
    ((condition) || (fprintf(stderr, "WRONG %s:%d: not so: %s\n", __FILE__, __LINE__, #condition), 0))

/* cmocka's assert_true() for data. assert_memory_equal() needs nothing: tests/run.sh knows what it prints. */
#define assert_bits(condition)                                                                               \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            fail_msg("WRONG: not so: %s", #condition);                                                       \
    } while (0)

#endif
