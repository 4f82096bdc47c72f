/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what a test may leave behind: descriptors, threads and shared mappings of this process, and files in
 * /dev/shm that look like weft's. (Not those in /tmp: tests that run beside have theirs there.)
 *
 *     struct test_leak before;
 *     test_leak_take(&before);
 *     ... open and close ...
 *     assert_int_equal(test_leak_check(&before), 0);
 *
 * Heap memory is the address sanitizer's business. Threads: take and check from one thread while no other
 * thread opens or closes things.
 */
#ifndef WEFT_TESTS_LEAK_H
#define WEFT_TESTS_LEAK_H

struct test_leak {
    int descriptors;
    int threads;
    int shared_mappings; /* mappings of memfd, /dev/shm or anonymous shared memory */
    int files;           /* names with "weft" in /dev/shm */
};

void test_leak_take(struct test_leak *leak);

/* How many kinds have grown since `before`; says which, and lists the descriptors, on stderr. Waits up to two
 * seconds for threads that are just ending. */
int test_leak_check(const struct test_leak *before);

#endif
