/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in nanoseconds. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WEFT_NEVER_NS INT64_MAX

static inline int64_t weft_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The deadline timeout_ms from now; negative means never. */
static inline int64_t weft_deadline_ns(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > INT64_MAX / 2000000)
        return WEFT_NEVER_NS;
    return weft_clock_ns() + timeout_ms * 1000000;
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
