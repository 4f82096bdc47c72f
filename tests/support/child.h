/* SPDX-License-Identifier: Apache-2.0 */
/* A function that runs in a process of its own. */
#ifndef WEFT_TESTS_CHILD_H
#define WEFT_TESTS_CHILD_H

/* Its result is the child's exit status, and what this returns; a child that cannot be made, or that a signal ends, fails the
 * test. */
int test_child(int (*child)(void));
/* For main(): one for each number below count, one behind the other. How many have failed. */
int test_children(int (*child)(int number), int count);

#endif
