/* SPDX-License-Identifier: Apache-2.0 */
/* A process that has almost no descriptors left. */
#ifndef WEFT_TESTS_DESCRIPTORS_H
#define WEFT_TESTS_DESCRIPTORS_H

#include <sys/resource.h>

/* The soft limit that leaves room for so many more, whatever gaps there are. */
rlim_t test_descriptors_limit(int room);

/* Sets that limit; 0 when it cannot. */
int test_descriptors_leave(int room);

#endif
