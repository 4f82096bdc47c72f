/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap pthread_cond_timedwait */
/* Two threads wait in one context: one sleeps on the descriptors, the other until that one wakes it. It sleeps by the clock that nobody
 * sets back. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/core/comm.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define NUMBER 3                    /* what rank 1 sends */
#define FAR_NS INT64_C(10000000000) /* no sleep is so long */

int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                  const struct timespec *until);

struct seen {
    atomic_int sleeps, wrong;
};

static struct seen *seen; /* shared with the other rank */
static pthread_cond_t *followed;

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
    if (condition != followed)
        return __real_pthread_cond_timedwait(condition, lock, until);
    int64_t until_ns = until->tv_sec * INT64_C(1000000000) + until->tv_nsec, now_ns = weft_clock_ns();
    atomic_fetch_add(&seen->sleeps, 1);
    if (until_ns - now_ns > FAR_NS)
        atomic_fetch_add(&seen->wrong, 1);
    int error = __real_pthread_cond_timedwait(condition, lock, until);
    if (error && weft_clock_ns() < until_ns)
        atomic_fetch_add(&seen->wrong, 1);
    return error;
}

static void *receive(void *arg)
{
    int32_t got = -1;
    intptr_t status = weft_recv(arg, &got, 1, WEFT_INT32, 1, 7, NULL, NULL);
    return (void *)(status == WEFT_OK && BITS_AGREE(got == NUMBER) ? got : status);
}

static int body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    struct job job;
    weft_comm *copy;
    int32_t number = NUMBER;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
    if (rank == 0) {
        followed = &job.context->progress.changed;
        pthread_t other;
        void *got;
        CHECK(pthread_create(&other, NULL, receive, copy) == 0);
        CHECK(receive(job.comm) == (void *)(intptr_t)number);
        CHECK(pthread_join(other, &got) == 0 && got == (void *)(intptr_t)number);
    } else {
        while (!atomic_load(&seen->sleeps))
            usleep(1000);
        CHECK_OK(weft_send(job.comm, &number, 1, WEFT_INT32, 0, 7, NULL));
        CHECK_OK(weft_send(copy, &number, 1, WEFT_INT32, 0, 7, NULL));
    }
    CHECK_OK(weft_comm_destroy(copy));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_clock(void **state)
{
    (void)state;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    assert_int_equal(test_ranks_fork(2, body, NULL), 0);
    assert_int_equal(atomic_load(&seen->wrong), 0);
    munmap(seen, sizeof *seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
