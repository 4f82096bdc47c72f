/* SPDX-License-Identifier: Apache-2.0 */
/* The service thread: callbacks, output, unwatch against running callbacks, tick, wake, reuse of numbers. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <weft/weft.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/service.h"
#include "tests/support/leak.h"

#define WAIT_MS 10000

struct probe {
    struct weft_service *service;
    int calls;       /* atomic */
    int in_callback; /* atomic */
    int drain;       /* read what made it readable */
    int slow_ms;
    int unwatch_self; /* unwatch from inside, and count what is left */
    char thread_name[32];
    int signals_blocked;
};

static int seen(int *counter)
{
    return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static int wait_for(int *counter, int at_least)
{
    int64_t until_ns = weft_deadline_ns(WAIT_MS);
    while (seen(counter) < at_least && weft_clock_ns() < until_ns)
        usleep(500);
    return seen(counter) >= at_least;
}

static void on_ready(void *arg, int fd)
{
    struct probe *probe = arg;
    char bytes[64];
    __atomic_store_n(&probe->in_callback, 1, __ATOMIC_SEQ_CST);
    if (probe->drain)
        (void)!read(fd, bytes, sizeof bytes);
    if (probe->unwatch_self)
        weft_service_unwatch(probe->service, fd);
    if (probe->slow_ms)
        usleep((unsigned)probe->slow_ms * 1000);
    if (!probe->thread_name[0]) {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        probe->signals_blocked = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGALRM);
        pthread_getname_np(pthread_self(), probe->thread_name, sizeof probe->thread_name);
    }
    __atomic_store_n(&probe->in_callback, 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&probe->calls, 1, __ATOMIC_SEQ_CST);
}

static int pair_setup(void **state)
{
    static int fds[2];
    *state = fds;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds);
}

static int pair_teardown(void **state)
{
    int *fds = *state;
    close(fds[0]);
    close(fds[1]);
    return 0;
}

static void test_callback_per_byte(void **state)
{
    int *fds = *state;
    struct probe probe = {.drain = 1};
    assert_int_equal(weft_service_start("weft-test", &probe.service), 0);
    assert_int_equal(weft_service_watch(probe.service, fds[0], on_ready, &probe), 0);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(write(fds[1], "x", 1), 1);
        assert_true(wait_for(&probe.calls, i));
    }
    weft_service_unwatch(probe.service, fds[0]);
    int calls = seen(&probe.calls);
    assert_int_equal(calls, 5);
    assert_int_equal(write(fds[1], "x", 1), 1);
    usleep(20000);
    assert_int_equal(seen(&probe.calls), calls);
    weft_service_stop(probe.service);
    assert_string_equal(probe.thread_name, "weft-test");
    assert_true(probe.signals_blocked);
}

static void test_watch_is_level_triggered(void **state)
{
    int *fds = *state;
    struct probe probe = {0};
    assert_int_equal(weft_service_start("weft-test", &probe.service), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(weft_service_watch(probe.service, fds[0], on_ready, &probe), 0);
    assert_true(wait_for(&probe.calls, 3));
    assert_int_not_equal(weft_service_watch(probe.service, fds[0], on_ready, &probe), 0); /* twice */
    weft_service_stop(probe.service);
}

static void test_unwatch_waits_for_the_callback(void **state)
{
    int *fds = *state;
    for (int i = 0; i < 20; i++) {
        struct probe probe = {.slow_ms = 5};
        assert_int_equal(weft_service_start("weft-test", &probe.service), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        assert_int_equal(weft_service_watch(probe.service, fds[0], on_ready, &probe), 0);
        assert_true(wait_for(&probe.in_callback, 1) || seen(&probe.calls));
        weft_service_unwatch(probe.service, fds[0]);
        assert_int_equal(seen(&probe.in_callback), 0);
        int calls = seen(&probe.calls);
        usleep(2000);
        assert_int_equal(seen(&probe.calls), calls);
        weft_service_stop(probe.service);
    }
}

static void test_unwatch_from_the_callback(void **state)
{
    int *fds = *state;
    struct probe probe = {.unwatch_self = 1};
    assert_int_equal(weft_service_start("weft-test", &probe.service), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(weft_service_watch(probe.service, fds[0], on_ready, &probe), 0);
    assert_true(wait_for(&probe.calls, 1));
    usleep(10000);
    assert_int_equal(seen(&probe.calls), 1);
    /* The number may be watched anew. */
    assert_int_equal(weft_service_watch(probe.service, fds[0], on_ready, &probe), 0);
    assert_true(wait_for(&probe.calls, 2));
    weft_service_stop(probe.service);
}

static void test_output(void **state)
{
    int *fds = *state;
    struct probe probe = {0};
    assert_int_equal(weft_service_start("weft-test", &probe.service), 0);
    assert_int_not_equal(weft_service_want_output(probe.service, fds[0], 1), 0); /* not watched */
    assert_int_equal(weft_service_watch(probe.service, fds[0], on_ready, &probe), 0);
    usleep(10000);
    assert_int_equal(seen(&probe.calls), 0); /* writable, but nobody asked */
    assert_int_equal(weft_service_want_output(probe.service, fds[0], 1), 0);
    assert_true(wait_for(&probe.calls, 1));
    assert_int_equal(weft_service_want_output(probe.service, fds[0], 0), 0);
    /* Some may have been on their way; then there are no more, while a writable socket would call for ever.
     */
    int64_t until_ns = weft_deadline_ns(WAIT_MS);
    int calls = -1;
    while (calls != seen(&probe.calls) && weft_clock_ns() < until_ns) {
        calls = seen(&probe.calls);
        usleep(20000);
    }
    assert_true(weft_clock_ns() < until_ns);
    weft_service_unwatch(probe.service, fds[0]);
    weft_service_stop(probe.service);
}

struct ticker {
    int ticks; /* atomic */
    int sleep_ms;
};

static int on_tick(void *arg)
{
    struct ticker *ticker = arg;
    __atomic_add_fetch(&ticker->ticks, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&ticker->sleep_ms, __ATOMIC_SEQ_CST);
}

/* --- timers */

struct alarm {
    struct weft_service *service;
    struct weft_service_timer timer;
    int calls;       /* atomic */
    int in_callback; /* atomic */
    int again;       /* how often it sets itself once more */
    int64_t due_ns;
    int early; /* it came before its time */
    int stays; /* atomic: stay in the callback as long as it is set */
};

static void on_alarm(void *arg)
{
    struct alarm *alarm = arg;
    __atomic_store_n(&alarm->in_callback, 1, __ATOMIC_SEQ_CST);
    alarm->early |= weft_clock_ns() < alarm->due_ns;
    while (seen(&alarm->stays))
        usleep(500);
    if (alarm->again-- > 0)
        weft_service_timer_set(alarm->service, &alarm->timer, alarm->due_ns = weft_clock_ns());
    __atomic_store_n(&alarm->in_callback, 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&alarm->calls, 1, __ATOMIC_SEQ_CST);
}

static void alarm_set(struct alarm *alarm, int64_t in_ms)
{
    alarm->due_ns = weft_clock_ns() + in_ms * 1000000;
    weft_service_timer_set(alarm->service, &alarm->timer, alarm->due_ns);
}

static struct alarm alarm_of(struct weft_service *service)
{
    return (struct alarm){.service = service, .timer = {.expired = on_alarm}};
}

/* In an order of their own, each once, and not before their time; an earlier one wakes a thread that sleeps for a later one. */
static void test_timers(void **state)
{
    (void)state;
    static const int64_t in_ms[] = {200, 30, 0, 80, 30};
    enum { ALARMS = sizeof in_ms / sizeof *in_ms };
    struct weft_service *service;
    struct alarm alarms[ALARMS];
    assert_int_equal(weft_service_start("weft-test", &service), 0);
    for (int i = 0; i < ALARMS; i++) {
        alarms[i] = alarm_of(service);
        alarms[i].timer.arg = &alarms[i];
        alarm_set(&alarms[i], in_ms[i]);
    }
    for (int i = 0; i < ALARMS; i++) {
        assert_true(wait_for(&alarms[i].calls, 1));
        weft_service_timer_end(service, &alarms[i].timer);
        assert_int_equal(seen(&alarms[i].calls), 1);
        assert_false(alarms[i].early);
    }
    weft_service_stop(service);
}

/* The last time counts: one that is put off does not come, one that is put forward does. */
static void test_timer_is_set_again(void **state)
{
    (void)state;
    struct weft_service *service;
    assert_int_equal(weft_service_start("weft-test", &service), 0);
    struct alarm late = alarm_of(service), soon = alarm_of(service), marker = alarm_of(service);
    late.timer.arg = &late, soon.timer.arg = &soon, marker.timer.arg = &marker;
    struct alarm busy = alarm_of(service); /* the thread looks at no other timer meanwhile */
    busy.timer.arg = &busy;
    busy.stays = 1;
    alarm_set(&busy, 0);
    assert_true(wait_for(&busy.in_callback, 1));
    alarm_set(&late, 20);
    alarm_set(&late, 3600000);
    alarm_set(&soon, 3600000);
    alarm_set(&soon, 1);
    __atomic_store_n(&busy.stays, 0, __ATOMIC_SEQ_CST);
    assert_true(wait_for(&soon.calls, 1));
    alarm_set(&marker, 40); /* behind the time that was set first */
    assert_true(wait_for(&marker.calls, 1));
    assert_int_equal(seen(&late.calls), 0);
    weft_service_timer_end(service, &late.timer);
    weft_service_timer_end(service, &late.timer); /* which is not set any more */
    weft_service_stop(service);
}

static void test_timer_sets_itself(void **state)
{
    (void)state;
    struct weft_service *service;
    assert_int_equal(weft_service_start("weft-test", &service), 0);
    struct alarm alarm = alarm_of(service);
    alarm.timer.arg = &alarm;
    alarm.again = 100;
    alarm_set(&alarm, 0);
    assert_true(wait_for(&alarm.calls, 101));
    weft_service_timer_end(service, &alarm.timer);
    assert_int_equal(seen(&alarm.calls), 101);
    assert_false(alarm.early);
    weft_service_stop(service);
}

static void *let_go(void *arg)
{
    struct alarm *alarm = arg;
    usleep(20000); /* usually the other thread waits for the callback by then */
    __atomic_store_n(&alarm->stays, 0, __ATOMIC_SEQ_CST);
    return NULL;
}

static void test_timer_end_waits_for_the_callback(void **state)
{
    (void)state;
    struct weft_service *service;
    pthread_t thread;
    assert_int_equal(weft_service_start("weft-test", &service), 0);
    struct alarm alarm = alarm_of(service);
    alarm.timer.arg = &alarm;
    alarm.stays = 1;
    alarm.again = 1; /* which its end undoes */
    alarm_set(&alarm, 0);
    assert_true(wait_for(&alarm.in_callback, 1));
    assert_int_equal(pthread_create(&thread, NULL, let_go, &alarm), 0);
    weft_service_timer_end(service, &alarm.timer);
    assert_int_equal(seen(&alarm.in_callback), 0);
    assert_int_equal(seen(&alarm.calls), 1);
    assert_false(alarm.timer.is_set);
    pthread_join(thread, NULL);
    weft_service_stop(service);
}

static void test_tick(void **state)
{
    (void)state;
    struct weft_service *service;
    struct ticker ticker = {.sleep_ms = -1};
    assert_int_equal(weft_service_start("weft-test", &service), 0);
    weft_service_set_tick(service, on_tick, &ticker);
    assert_true(wait_for(&ticker.ticks, 1)); /* set_tick wakes */
    for (int i = 0; i < 100; i++) {
        int before = seen(&ticker.ticks);
        weft_service_wake(service);
        assert_true(wait_for(&ticker.ticks, before + 1)); /* no wake-up is ever lost */
    }
    __atomic_store_n(&ticker.sleep_ms, 1, __ATOMIC_SEQ_CST);
    weft_service_wake(service);
    assert_true(wait_for(&ticker.ticks, seen(&ticker.ticks) + 5)); /* comes back by itself */
    weft_service_set_tick(service, NULL, NULL);
    int after = seen(&ticker.ticks);
    weft_service_wake(service);
    usleep(10000);
    assert_int_equal(seen(&ticker.ticks), after);
    weft_service_stop(service);
}

struct sleeper {
    struct weft_service *service;
    int sleeps; /* atomic */
    int woken;  /* atomic: times, before it had slept for long */
};

/* As a context's does when nothing happens. */
static int sleep_on_the_service(void *arg)
{
    struct sleeper *sleeper = arg;
    struct pollfd polled = {.fd = weft_service_fd(sleeper->service), .events = POLLIN};
    if (poll(&polled, 1, 0) == 1) /* what woke it is read behind this tick */
        return 0;
    __atomic_fetch_add(&sleeper->sleeps, 1, __ATOMIC_SEQ_CST);
    int woken = poll(&polled, 1, WAIT_MS);
    __atomic_fetch_add(&sleeper->woken, woken, __ATOMIC_SEQ_CST);
    return 0;
}

static void test_whoever_waits_for_a_tick_wakes_it(void **state)
{
    (void)state;
    struct sleeper sleeper = {0};
    assert_int_equal(weft_service_start("weft-test", &sleeper.service), 0);
    weft_service_set_tick(sleeper.service, sleep_on_the_service, &sleeper);
    assert_true(wait_for(&sleeper.sleeps, 1));
    weft_service_set_lost(sleeper.service, NULL, NULL); /* waits for no tick */
    assert_int_equal(seen(&sleeper.woken), 0);
    weft_service_set_tick(sleeper.service, NULL, NULL);
    assert_int_equal(seen(&sleeper.sleeps), 1);
    assert_int_equal(seen(&sleeper.woken), 1);
    weft_service_stop(sleeper.service);
}

static void test_many_descriptors(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    int fds[COUNT][2];
    struct probe probe = {.drain = 1};
    assert_int_equal(weft_service_start("weft-test", &probe.service), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds[i]), 0);
        assert_int_equal(weft_service_watch(probe.service, fds[i][0], on_ready, &probe), 0);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(write(fds[i][1], "x", 1), 1);
    assert_true(wait_for(&probe.calls, COUNT));
    for (int i = 0; i < COUNT; i++) {
        weft_service_unwatch(probe.service, fds[i][0]);
        close(fds[i][0]);
        close(fds[i][1]);
    }
    assert_int_equal(seen(&probe.calls), COUNT);
    weft_service_stop(probe.service);
}

/* What is lost is the set, and not the descriptor that somebody wants to have watched. */
static void test_lost_set(void **state)
{
    (void)state;
    struct weft_service *service;
    assert_int_equal(weft_service_start("weft-test", &service), WEFT_OK);
    int set = weft_service_fd(service), null = open("/dev/null", O_RDWR | O_CLOEXEC),
        fd = eventfd(0, EFD_CLOEXEC);
    char expected[100];
    assert_true(null >= 0 && fd >= 0 && dup2(null, set) == set);
    snprintf(expected, sizeof expected, "the program has closed or replaced descriptor %d, which is weft's",
             set);
    assert_int_equal(weft_service_watch(service, fd, on_ready, NULL), WEFT_SYSTEM);
    assert_non_null(strstr(weft_error_detail(), expected));
    weft_service_stop(service);
    assert_int_equal(close(fd) | close(null) | close(set), 0);
}

static void test_nothing_is_left(void **state)
{
    (void)state;
    struct test_leak before;
    test_leak_take(&before);
    for (int i = 0; i < 50; i++) {
        struct weft_service *service;
        assert_int_equal(weft_service_start("weft-test", &service), 0);
        weft_service_stop(service);
    }
    weft_service_stop(NULL);
    assert_int_equal(test_leak_check(&before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_callback_per_byte, pair_setup, pair_teardown),
        cmocka_unit_test_setup_teardown(test_watch_is_level_triggered, pair_setup, pair_teardown),
        cmocka_unit_test_setup_teardown(test_unwatch_waits_for_the_callback, pair_setup, pair_teardown),
        cmocka_unit_test_setup_teardown(test_unwatch_from_the_callback, pair_setup, pair_teardown),
        cmocka_unit_test_setup_teardown(test_output, pair_setup, pair_teardown),
        cmocka_unit_test(test_tick),
        cmocka_unit_test(test_whoever_waits_for_a_tick_wakes_it),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_timer_is_set_again),
        cmocka_unit_test(test_timer_sets_itself),
        cmocka_unit_test(test_timer_end_waits_for_the_callback),
        cmocka_unit_test(test_many_descriptors),
        cmocka_unit_test(test_lost_set),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
