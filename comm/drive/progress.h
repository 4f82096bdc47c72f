/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: whoever waits drives; when nobody waits and work is outstanding, the service thread does.
 *
 * A waiting thread polls all transports under the context's lock. After WEFT_SPIN_US without news it sleeps
 * on the transports' descriptors; with more ranks than processors on the host it gives its processor away
 * between polls. Of several waiting threads one sleeps on the descriptors (the leader), the others on a
 * condition.
 */
#ifndef WEFT_COMM_DRIVE_PROGRESS_H
#define WEFT_COMM_DRIVE_PROGRESS_H

#include "comm/drive/context.h"

/* [lock] Polls every transport and moves every executor once. Returns how much happened. */
int weft_progress_once(struct weft_context *context);

/* How long a waiter has found nothing. Start with {0}. */
struct weft_idle {
    int64_t since_ns;
    uint32_t rounds;
    int sleeps; /* it was time to sleep */
};

/* After a round without news: pauses or yields. Returns 1 when it is time to sleep. Needs no lock. */
int weft_idle_pause(struct weft_context *context, struct weft_idle *idle);

/* [lock] Sleeps until a transport or the context's event has news, at most until until_ns, and where no event announces them only
 * for a part of the time that idle has counted. The lock is released meanwhile. done() is asked once after arming, so that what came just
 * before is not slept through. For weft_wait(). */
struct weft_wait;
void weft_progress_sleep(struct weft_context *context, const struct weft_idle *idle, int64_t until_ns,
                         const struct weft_wait *wait);

/* [lock] Lets another thread that waits for the lock have it. For whoever polls in a loop. */
void weft_progress_step_aside(struct weft_context *context);

/* Wakes a leader that sleeps. Any thread. */
void weft_progress_wake(struct weft_context *context);

/* [lock] Wakes whoever sleeps: something has happened that progress has not counted. */
void weft_progress_notify(struct weft_context *context);

/* The service thread's part; arg is the context. */
int weft_progress_tick(void *arg);

/* [lock] After a call is done: what it sent may still need polling to leave, and the caller may go away to
 * compute. Polls a little, then leaves it to the service thread. */
void weft_progress_flush(struct weft_context *context);

/* [lock] The process ends: polls until no transport is busy, at most so long. */
void weft_progress_drain(struct weft_context *context, int64_t until_ns);

/* The service thread polls for as long as a transport says that it is busy. */
void weft_progress_linger(struct weft_context *context);

/* [lock] Work that weft_progress_background() has counted, and that may have sent something, has ended: nobody is in a call for it, and the
 * next one may come in hours. */
void weft_progress_ended(struct weft_context *context);

/* Counts work that nobody waits for. */
void weft_progress_background(struct weft_context *context, int change);
/* The same, as the executor's hook. */
void weft_progress_listen(void *context, int change);

#endif
