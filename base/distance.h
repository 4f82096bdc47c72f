/* SPDX-License-Identifier: Apache-2.0 */
/* How far another processor is, by the time that a line of memory takes which it has just written, beside the least time that was seen: near ones mostly share a cache, far ones do not. The
 * processors of a virtual machine, and threads that are not pinned, move from one to the other within milliseconds.
 *
 * A time may be too long, as its thread was interrupted. So what counts is the lesser one of the last two, beside the least of what two in a row had at most. That
 * is forgotten in time, as the nearest place may have been one that nobody comes back to.
 *
 * A pure function of the times that it is given. The caller serialises calls.
 */
#ifndef WEFT_BASE_DISTANCE_H
#define WEFT_BASE_DISTANCE_H

#include <stdint.h>

#define WEFT_DISTANCE_WINDOW 65536 /* times: the least of this window and of the one before counts */
#define WEFT_DISTANCE_NS     10    /* beyond twice as long: what a coarse clock adds */

struct weft_distance {
    uint32_t near_ns;   /* what it takes while the other is near; 0: not known */
    uint32_t low_ns[2]; /* in the window before, and in this one; 0: not known */
    uint32_t before_ns; /* the last time; 0: there was none */
    uint32_t times;     /* in this window */
    int is_far;         /* it takes more than twice as long */
};

static inline int weft_distance_is_far(uint32_t line_ns, uint32_t near_ns)
{
    return near_ns && line_ns > 2 * near_ns + WEFT_DISTANCE_NS;
}

/* A line has taken so long. Returns 1 where what has been taken for near until now was far, -1 where what has been taken for far is near, as nothing
 * nearer has been seen for long; else 0. */
static inline int weft_distance_observe(struct weft_distance *distance, int64_t line_ns)
{
    if (line_ns <= 0 || line_ns > INT32_MAX / 4)
        return 0;
    uint32_t now_ns = (uint32_t)line_ns, before_ns = distance->before_ns, was_ns = distance->near_ns;
    distance->before_ns = now_ns;
    if (!before_ns)
        return 0;
    uint32_t most_ns = now_ns > before_ns ? now_ns : before_ns, least_ns = now_ns + before_ns - most_ns;
    if (!distance->low_ns[1] || most_ns < distance->low_ns[1])
        distance->low_ns[1] = most_ns;
    distance->near_ns = distance->low_ns[0] && distance->low_ns[0] < distance->low_ns[1]
                            ? distance->low_ns[0]
                            : distance->low_ns[1];
    if (++distance->times == WEFT_DISTANCE_WINDOW) {
        distance->low_ns[0] = distance->low_ns[1];
        distance->low_ns[1] = distance->times = 0;
    }
    distance->is_far = weft_distance_is_far(least_ns, distance->near_ns);
    return weft_distance_is_far(was_ns, distance->near_ns) - weft_distance_is_far(distance->near_ns, was_ns);
}

#endif
