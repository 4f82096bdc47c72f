/* SPDX-License-Identifier: Apache-2.0 */
/* Runs several ranks of a test, as child processes or as threads.
 *
 *     static int body(int rank, int ranks, void *arg)
 *     {
 *         weft_context *context;
 *         weft_comm *comm;
 *         weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
 *         test_ranks_options(&options);
 *         CHECK_OK(weft_context_open(NULL, &context));
 *         CHECK_OK(weft_comm_create(context, &options, &comm));
 *         CHECK(weft_comm_rank(comm) == rank);
 *         ...
 *         return 0;
 *     }
 *     assert_int_equal(test_ranks_fork(4, body, NULL), 0);
 *
 * A body returns 0 for success. It must not use cmocka's assertions: they would jump into the parent's test
 * runner; CHECK, CHECK_BITS and CHECK_OK print and return 1 instead. Child processes die with their parent. A rank that
 * has not returned within the limit (120 s, or what test_ranks_limit() set) is killed (process) or ends the
 * test program with a message (thread: it cannot be stopped otherwise).
 */
#ifndef WEFT_TESTS_RANKS_H
#define WEFT_TESTS_RANKS_H

#include <stdio.h>
#include <weft/weft.h>

#include "tests/support/bits.h"

typedef int test_rank_function(int rank, int ranks, void *arg);

#define TEST_RANKS_MAX 512

/* The secret of test jobs. */
#define TEST_SECRET       "known to every rank of a test, and to everybody else too"
#define TEST_SECRET_BYTES (sizeof TEST_SECRET - 1)

/* Returns how many ranks did not return 0; says which and why on stderr. */
int test_ranks_fork(int ranks, test_rank_function *function, void *arg);
int test_ranks_threads(int ranks, test_rank_function *function, void *arg);

/* The same with each rank's end: as waitpid() reports it for processes, the return value for threads. Nothing
 * is printed for ranks that ended by a signal, so that tests can kill some. */
int test_ranks_fork_status(int ranks, test_rank_function *function, void *arg, int *statuses);

/* Zeroed memory that the ranks share, also as processes, until the program ends. Ends it when there is none. */
void *test_ranks_shared(size_t size);

/* Seconds until ranks are killed, for the following runs. */
void test_ranks_limit(int limit_s);

/* For tests that fork their ranks themselves: a fresh listening socket on loopback with its address (CLOEXEC; ends
 * the program when there is none), and taking a rank's place in the process or thread that calls. */
int test_ranks_listen(char *address, size_t capacity);
void test_ranks_seat(int rank, int ranks, int listen_fd, const char *address);

/* In a body: fills rank, ranks, address, secret and, on rank 0, listen_fd (a fresh loopback socket, made before the
 * ranks started; ownership passes on). Only the first call in each rank gets the socket. */
void test_ranks_options(weft_comm_options *options);

/* In a body: "127.0.0.1:port" of rank 0, and its listening socket (-1 on other ranks), for tests that do not
 * go through weft_comm_create(). */
const char *test_ranks_address(void);
int test_ranks_listen_fd(void);

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

/* CHECK() for conditions on the data that a call has produced. It prints WRONG, for wrong bits are a bug however seldom they come:
 * tests/run.sh gives the program no second look after it. Not for statuses, texts, counts and times. */
#define CHECK_BITS(condition)                                                                                \
    do {                                                                                                     \
        if (!BITS_AGREE(condition))                                                                          \
            return 1;                                                                                        \
    } while (0)

#define CHECK_OK(call)                                                                                       \
    do {                                                                                                     \
        int check_status = (call);                                                                           \
        if (check_status != 0) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, weft_strerror(check_status),  \
                    weft_error_detail());                                                                    \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

#endif
