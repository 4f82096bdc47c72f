/* SPDX-License-Identifier: Apache-2.0 */
/* Several hosts on this machine: network namespaces with a host name each, all on one switch. Ranks on one of them share
 * memory, ranks on different ones meet over TCP, as on a cluster.
 *
 *     const char *impossible = test_machines_open((const char *const[]){"a", "b"}, 2);
 *     if (impossible)
 *         TEST_SKIP("%s", impossible);
 *     assert_int_equal(test_ranks_fork(4, body, NULL), 0);
 *     test_machines_close();
 *
 * and in the body, before anything is opened:
 *
 *     CHECK(test_machines_enter(rank % 2) == 0);
 *     test_machines_seat(rank, ranks, 0, 1);
 *
 * The calling process stays where it is. One set of hosts at a time; needs the rights to make namespaces, and iproute2.
 */
#ifndef WEFT_TESTS_MACHINES_H
#define WEFT_TESTS_MACHINES_H

#define TEST_MACHINES_MAX 8

/* NULL, or why there can be no such hosts here (static text; then there is nothing to close). Names may be equal. */
const char *test_machines_open(const char *const *names, int count);
void test_machines_close(void);

/* Moves the calling thread, and what it starts, to host `index`. 0 or an errno. */
int test_machines_enter(int index);

/* Takes the rank's place in a communicator whose rank 0 is on host `home` (test_ranks_seat(); there is no listening socket).
 * meeting: a number of the communicator's own, 1 to 1,000, so that nobody comes to an earlier one's. */
void test_machines_seat(int rank, int ranks, int home, int meeting);

#endif
