/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (limits of the helpers) */
/* The test helpers themselves: a helper that cannot notice a failure would hide all others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/leak.h"
#include "tests/support/ranks.h"

static int odd_ranks_fail(int rank, int ranks, void *arg)
{
    CHECK(ranks == *(int *)arg);
    CHECK(rank % 2 == 0);
    return 0;
}

static int rank_one_dies(int rank, int ranks, void *arg)
{
    (void)ranks;
    (void)arg;
    if (rank == 1)
        raise(SIGKILL);
    return 0;
}

static int rank_zero_hangs(int rank, int ranks, void *arg)
{
    (void)ranks;
    (void)arg;
    while (rank == 0)
        pause();
    return 0;
}

static int options_are_filled(int rank, int ranks, void *arg)
{
    (void)arg;
    weft_comm_options first = WEFT_COMM_OPTIONS_INIT, again = WEFT_COMM_OPTIONS_INIT;
    int listening = 0;
    socklen_t size = sizeof listening;
    test_ranks_options(&first);
    test_ranks_options(&again);
    CHECK(first.rank == rank && first.ranks == ranks);
    CHECK(strncmp(first.address, "127.0.0.1:", 10) == 0 && atoi(first.address + 10) > 0);
    CHECK(again.listen_fd == -1);
    CHECK((first.listen_fd >= 0) == (rank == 0));
    if (rank == 0) {
        CHECK(getsockopt(first.listen_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening);
        close(first.listen_fd);
    }
    return 0;
}

static void test_fork_reports_failing_ranks(void **state)
{
    (void)state;
    int ranks = 5;
    assert_int_equal(test_ranks_fork(ranks, odd_ranks_fail, &ranks), 2);
    assert_int_equal(test_ranks_threads(ranks, odd_ranks_fail, &ranks), 2);
    ranks = 1;
    assert_int_equal(test_ranks_fork(ranks, odd_ranks_fail, &ranks), 0);
    assert_int_equal(test_ranks_threads(ranks, odd_ranks_fail, &ranks), 0);
}

static void test_fork_reports_signals_and_limits(void **state)
{
    (void)state;
    int statuses[3];
    assert_int_equal(test_ranks_fork_status(3, rank_one_dies, NULL, statuses), 1);
    assert_true(WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == SIGKILL);
    test_ranks_limit(1);
    assert_int_equal(test_ranks_fork_status(2, rank_zero_hangs, NULL, statuses), 1);
    assert_true(WIFSIGNALED(statuses[0]) && statuses[1] == 0);
    test_ranks_limit(120);
}

static void test_options(void **state)
{
    (void)state;
    struct test_leak before;
    test_leak_take(&before);
    assert_int_equal(test_ranks_fork(3, options_are_filled, NULL), 0);
    assert_int_equal(test_ranks_threads(3, options_are_filled, NULL), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

static void *wait_for_byte(void *arg)
{
    char byte;
    return read(*(int *)arg, &byte, 1) == 1 ? NULL : arg;
}

static void test_leaks_are_seen(void **state)
{
    (void)state;
    struct test_leak before;
    int ends[2];
    pthread_t thread;
    test_leak_take(&before);
    assert_int_equal(test_leak_check(&before), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(test_leak_check(&before), 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_byte, &ends[0]), 0);
    assert_int_equal(test_leak_check(&before), 2);
    assert_int_equal(write(ends[1], "x", 1), 1);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(test_leak_check(&before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork_reports_failing_ranks),
        cmocka_unit_test(test_fork_reports_signals_and_limits),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_leaks_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
