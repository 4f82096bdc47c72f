/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/clock/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define NEVER_NS  INT64_MAX
#define SLICE_NS  INT64_C(5000000) /* asleep for no longer, in case the clock is changed meanwhile */
#define PACES     256
#define SETTLE_MS 10
#define AGAIN_MS  3000

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __real_epoll_wait(int fd, struct epoll_event *events, int capacity, int timeout_ms);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int capacity, int timeout_ms);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

/* Since the system's clock showed real_ns and this one shown_ns, it runs factor / divisor times as fast. Readers take no lock: a pace is
 * written once, before it is the one in force. */
struct pace {
    int64_t real_ns, shown_ns, factor, divisor;
};
static struct pace paces[PACES] = {{.factor = 1, .divisor = 1}};
static atomic_int pace_in_force;
static _Atomic int64_t no_rescue_ns;
static pthread_mutex_t change_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t ns_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static int64_t real_ns(clockid_t id)
{
    struct timespec now;
    __real_clock_gettime(id, &now);
    return ns_of(&now);
}

static const struct pace *pace(void)
{
    return &paces[atomic_load(&pace_in_force)];
}

static int64_t shown_at(const struct pace *pace, int64_t at_ns)
{
    return pace->shown_ns + (at_ns - pace->real_ns) * pace->factor / pace->divisor;
}

static int64_t shown_ns(void)
{
    return shown_at(pace(), real_ns(CLOCK_MONOTONIC));
}

/* How long the system needs for left_ns of this clock; no more than limit_ns. */
static int64_t real_of(int64_t left_ns, int64_t limit_ns)
{
    const struct pace *now = pace();
    if (left_ns >= limit_ns * now->factor / now->divisor)
        return limit_ns;
    return left_ns < 0 ? 0 : (left_ns * now->divisor + now->factor - 1) / now->factor;
}

/* What of a sleep until then the process may sleep now. */
static int64_t slice_ns(int64_t until_ns)
{
    return real_of(until_ns - shown_ns(), SLICE_NS);
}

static int64_t until_ns(int64_t timeout_ns)
{
    int64_t endless_ns = atomic_load(&no_rescue_ns);
    return timeout_ns == NEVER_NS || (endless_ns && timeout_ns >= endless_ns) ? NEVER_NS
                                                                              : shown_ns() + timeout_ns;
}

static void change(int64_t jump_ns, int64_t factor, int64_t divisor)
{
    pthread_mutex_lock(&change_lock);
    int next = atomic_load(&pace_in_force) + 1;
    if (next == PACES)
        abort();
    int64_t now_ns = real_ns(CLOCK_MONOTONIC), shown = shown_at(pace(), now_ns);
    paces[next] = (struct pace){now_ns, shown + jump_ns, factor, divisor};
    atomic_store(&pace_in_force, next);
    pthread_mutex_unlock(&change_lock);
}

void test_clock_hurry(int64_t factor)
{
    change(0, factor, 1);
}

void test_clock_slow(int64_t divisor)
{
    change(0, 1, divisor);
}

struct test_clock_jump {
    int (*ready)(void *arg);
    void *arg;
    int64_t by_ns;
    pthread_t thread;
    atomic_int ended;
};

/* What is ready may still have to look at the clock for its deadline: should the jump come first, there is another. */
static void *jump_when(void *arg)
{
    struct test_clock_jump *jump = arg;
    for (int waits_ms = 1, since_ms = 0; !atomic_load(&jump->ended); usleep(1000)) {
        since_ms = jump->ready(jump->arg) ? since_ms + 1 : 0;
        if (since_ms < waits_ms + SETTLE_MS)
            continue;
        change(jump->by_ns, pace()->factor, pace()->divisor);
        since_ms = 0;
        waits_ms = AGAIN_MS;
    }
    return NULL;
}

struct test_clock_jump *test_clock_jump_when(int (*ready)(void *arg), void *arg, int64_t by_ms)
{
    struct test_clock_jump *jump = malloc(sizeof *jump);
    if (!jump)
        return NULL;
    *jump = (struct test_clock_jump){.ready = ready, .arg = arg, .by_ns = by_ms * 1000000};
    if (pthread_create(&jump->thread, NULL, jump_when, jump) == 0)
        return jump;
    free(jump);
    return NULL;
}

void test_clock_jump_end(struct test_clock_jump *jump)
{
    if (!jump)
        return;
    atomic_store(&jump->ended, 1);
    pthread_join(jump->thread, NULL);
    free(jump);
}

void test_clock_no_rescue(int64_t from_ms)
{
    atomic_store(&no_rescue_ns, from_ms * 1000000);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    int status = __real_clock_gettime(id, now);
    if (status == 0 && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_REALTIME)) {
        int64_t monotonic_ns = id == CLOCK_REALTIME ? real_ns(CLOCK_MONOTONIC) : ns_of(now);
        *now = timespec_of(ns_of(now) + shown_at(pace(), monotonic_ns) - monotonic_ns);
    }
    return status;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    int64_t end_ns = until_ns(timeout ? ns_of(timeout) : NEVER_NS);
    for (;;) {
        const struct timespec slice = timespec_of(slice_ns(end_ns));
        int ready = __real_ppoll(fds, count, &slice, mask);
        if (ready != 0 || shown_ns() >= end_ns)
            return ready;
    }
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    const struct timespec timeout = timespec_of(timeout_ms * INT64_C(1000000));
    return __wrap_ppoll(fds, count, timeout_ms < 0 ? NULL : &timeout, NULL);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int capacity, int timeout_ms)
{
    int64_t end_ns = until_ns(timeout_ms < 0 ? NEVER_NS : timeout_ms * INT64_C(1000000));
    for (;;) {
        int ready = __real_epoll_wait(fd, events, capacity, (int)((slice_ns(end_ns) + 999999) / 1000000));
        if (ready != 0 || shown_ns() >= end_ns)
            return ready;
    }
}

/* A condition does not say which clock it goes by: no machine has run since 1970. Where a slice ends without a signal what is
 * waited for may have come all the same: the caller is to look, as after any wake-up. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    clockid_t id = ns_of(until) > real_ns(CLOCK_REALTIME) / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct timespec now;
    __wrap_clock_gettime(id, &now);
    int64_t end_ns = until_ns(ns_of(until) - ns_of(&now));
    if (end_ns == NEVER_NS)
        return pthread_cond_wait(cond, mutex);
    const struct timespec slice = timespec_of(real_ns(id) + slice_ns(end_ns));
    int status = __real_pthread_cond_timedwait(cond, mutex, &slice);
    return status == ETIMEDOUT && shown_ns() < end_ns ? 0 : status;
}
