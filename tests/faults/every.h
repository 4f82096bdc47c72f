/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of a scene fails in turn, until a run passes without reaching its fault. */
#ifndef WEFT_TESTS_FAULTS_EVERY_H
#define WEFT_TESTS_FAULTS_EVERY_H

#include "tests/faults/inject.h"

/* Cleans up after itself and returns the first status that is not 0. */
typedef int fault_run(void);

/* What a run is to return with this fault; clean is what it returns without any, status what it has returned. */
typedef int fault_expect(const struct fault_report *report, int clean, int status);

/* No memory is WEFT_NOMEM. Of the rest what a library must get over is nothing, and any other fault is WEFT_SYSTEM; or nothing either. */
fault_expect fault_expect_error, fault_expect_memory_only;

/* Fails the test where a status is another one, where an error has no reason, or where memory or descriptors are left. In the first way of
 * each call; or in all of them, also with calls that go on failing. Returns how many faults were reached. */
unsigned fault_try_first(const char *name, fault_run *run, fault_expect *expect);
unsigned fault_try_all(const char *name, fault_run *run, fault_expect *expect);

#endif
