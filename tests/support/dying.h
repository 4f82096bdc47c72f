/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is to die in the middle of what it does. */
#ifndef WEFT_TESTS_DYING_H
#define WEFT_TESTS_DYING_H

/* This process is killed by a thread of its own after so long. 0, or an errno value. */
int test_die_soon(unsigned delay_us);

#endif
