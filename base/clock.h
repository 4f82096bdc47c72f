/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in nanoseconds, and what sleeps by it. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define WEFT_NEVER_NS INT64_MAX

static inline int64_t weft_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline struct timespec weft_clock_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* A condition that is waited for by weft_clock_ns(), which nobody sets back. 0, or an errno. */
static inline int weft_clock_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error)
        return error;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

/* Waits until then at the latest. As with any condition, what is waited for may not have come. */
static inline void weft_clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns)
{
    const struct timespec until = weft_clock_timespec(until_ns);
    if (until_ns == WEFT_NEVER_NS)
        pthread_cond_wait(condition, lock);
    else
        pthread_cond_timedwait(condition, lock, &until);
}

/* The deadline timeout_ms from now; negative means never. */
static inline int64_t weft_deadline_ns(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > INT64_MAX / 2000000)
        return WEFT_NEVER_NS;
    return weft_clock_ns() + timeout_ms * 1000000;
}

/* The time of the last tick, without what looking at the clock takes: up to 10 ms ago. */
static inline int64_t weft_clock_about_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The deadline where nothing depends on some milliseconds: by the clock of the last tick, and 10 ms, which is a long one. */
static inline int64_t weft_deadline_about_ns(int64_t timeout_ms)
{
    if (timeout_ms < 1000 || timeout_ms > INT64_MAX / 2000000)
        return weft_deadline_ns(timeout_ms);
    return weft_clock_about_ns() + (timeout_ms + 10) * 1000000;
}

/* Milliseconds left until deadline_ns, rounded up, for poll(); never more than cap_ms, never negative. */
static inline int weft_clock_left_ms(int64_t deadline_ns, int cap_ms)
{
    if (deadline_ns == WEFT_NEVER_NS)
        return cap_ms;
    int64_t left = (deadline_ns - weft_clock_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > cap_ms ? cap_ms : (int)left;
}

#endif
