/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests: damage, to see that it is noticed. */
#ifndef WEFT_PERF_CORRUPT_H
#define WEFT_PERF_CORRUPT_H

#include <stddef.h>

/* Where WEFT_PERF_CORRUPT=rank:index names this rank and an element below count, changes a bit of it and returns 1. */
int perf_corrupt(int rank, void *elements, size_t count, size_t element_bytes);

#endif
