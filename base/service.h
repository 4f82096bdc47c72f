/* SPDX-License-Identifier: Apache-2.0 */
/* A background thread that sleeps in epoll and runs callbacks for watched descriptors, timers and one deferred-work hook.
 * A context has one for its transports, and one for its communicators' overlays (comm/drive/context.h).
 *
 * Threads: every function may be called from any thread, including from callbacks. weft_service_unwatch()
 * returns only when no callback of that descriptor is running (unless called from that callback itself).
 */
#ifndef WEFT_BASE_SERVICE_H
#define WEFT_BASE_SERVICE_H

#include <stdint.h>

struct weft_service;

typedef void weft_service_callback(void *arg, int fd);

/* Called on the service thread before it sleeps and after each wake-up; returns how many milliseconds it may
 * sleep at most (negative: until something is readable). */
typedef int weft_service_tick(void *arg);

/* name is what the system shows for the thread: at most 15 characters. */
int weft_service_start(const char *name, struct weft_service **service);
/* Joins the thread. No callback runs after it returns. Not from a callback. NULL is allowed. */
void weft_service_stop(struct weft_service *service);

int weft_service_watch(struct weft_service *service, int fd, weft_service_callback *callback, void *arg);
void weft_service_unwatch(struct weft_service *service, int fd);
/* Whether the watched descriptor's callback also runs when it is writable (it always runs when readable). */
int weft_service_want_output(struct weft_service *service, int fd, int on);
/* At most one tick at a time; NULL removes it, and returns when it is not running any more. */
void weft_service_set_tick(struct weft_service *service, weft_service_tick *tick, void *arg);
/* Called once, on the service thread, when it is found that descriptor fd is not weft's any more (base/fd.h), be it one of its own or
 * a watched one. NULL removes it, and returns when it is not running any more. */
typedef void weft_service_lost(void *arg, int fd);
/* One of those descriptors that is not weft's any more; -1: none. */
int weft_service_find_lost(struct weft_service *service);
void weft_service_set_lost(struct weft_service *service, weft_service_lost *on_lost, void *arg);
/* A timer, which costs no descriptor, for services without a tick. Each expiry looks at all timers of the service. It is the caller's
 * memory, with the first two set and the others 0, and stays until weft_service_timer_end(). */
struct weft_service_timer {
    void (*expired)(void *arg); /* on the service thread, without any lock of its */
    void *arg;
    int64_t due_ns;                  /* the service's, as all below */
    struct weft_service_timer *next; /* of those that are set */
    int is_set, is_ending;
};

/* expired() runs once, when weft_clock_ns() shows due_ns, up to a millisecond later, or more where the thread is busy. A time that was set before
 * counts no more. The timer is not set any more when expired() begins: it may set it again. */
void weft_service_timer_set(struct weft_service *service, struct weft_service_timer *timer, int64_t due_ns);
/* The timer is not set, and its callback is not running (unless called from that callback itself). */
void weft_service_timer_end(struct weft_service *service, struct weft_service_timer *timer);

/* A descriptor that is readable while the thread has something to do: a tick that sleeps polls it as well. */
int weft_service_fd(const struct weft_service *service);
/* Makes the thread run its tick soon. */
void weft_service_wake(struct weft_service *service);

#endif
