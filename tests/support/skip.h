/* SPDX-License-Identifier: Apache-2.0 */
/* Skipping a cmocka test with its reason, in the form that the test runner repeats in its summary. */
#ifndef WEFT_TESTS_SKIP_H
#define WEFT_TESTS_SKIP_H

#include <stdio.h>

/* cmocka.h must have been included before. */
#define TEST_SKIP(...)                                                                                       \
    do {                                                                                                     \
        printf("SKIP: " __VA_ARGS__);                                                                        \
        printf("\n");                                                                                        \
        fflush(stdout);                                                                                      \
        skip();                                                                                              \
    } while (0)

#endif
