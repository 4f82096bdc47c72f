/* SPDX-License-Identifier: Apache-2.0 */
/* One thread around epoll_wait().
 *
 * Watched descriptors live in an array indexed by descriptor. epoll hands back the descriptor together with
 * the generation of its watch, so an event that was fetched before unwatch() (and perhaps before the number
 * was reused) is recognised and dropped. Callbacks run without the lock; `running` says which watch is in its
 * callback, and unwatch() waits for it.
 *
 * A program may close these descriptors, or put files of its own in their place. Then nothing wakes epoll_wait(), so
 * it never sleeps longer than LOOK_MS. A thread that has lost its own descriptors takes naps instead, until it is
 * stopped; whoever can do something about it hears of it once.
 */
#include "base/service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#define EVENTS_MAX  64
#define LOOK_MS     1000       /* how long a loss may go unnoticed */
#define NAP_MS      10         /* between two looks when there is nothing to sleep on */
#define STACK_BYTES (1u << 20) /* callbacks may drive a fabric library */

struct watch {
    weft_service_callback *callback; /* NULL: not watched */
    void *arg;
    uint32_t generation;
    int is_noted; /* for as long as it is watched: nobody has made it known */
};

struct weft_service {
    int epoll_fd, wake_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t idle; /* a callback, the tick or on_lost has returned */
    struct watch *watches;
    size_t watch_count;
    uint32_t generation;
    uint64_t running; /* key of the watch whose callback runs, 0 none */
    weft_service_tick *tick;
    void *tick_arg;
    int tick_running, lost_running;
    int stopping;
    int is_lost;       /* atomic: descriptors that it needs are not weft's any more */
    int64_t looked_ns; /* by the service thread alone */
    weft_service_lost *on_lost;
    void *on_lost_arg;
    struct weft_fd_losses losses; /* of its thread, when that has ended */
    int woken;                    /* atomic: wake_fd has been written and not read yet */

    struct weft_service_timer *timers;         /* that are set */
    const struct weft_service_timer *expiring; /* whose callback runs */
    int64_t earliest_ns;                       /* no timer is due before */
    int64_t
        wakes_ns; /* when the thread wakes by itself; INT64_MIN: it is awake, and looks at the timers before it sleeps */
};

static uint64_t key_of(int fd, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint32_t)fd;
}

static int on_service_thread(const struct weft_service *service)
{
    return pthread_equal(pthread_self(), service->thread);
}

/* [lock] */
static int find_lost(struct weft_service *service)
{
    int found = !weft_fd_is_own(service->epoll_fd)  ? service->epoll_fd
                : !weft_fd_is_own(service->wake_fd) ? service->wake_fd
                                                    : -1;
    for (size_t fd = 0; found < 0 && fd < service->watch_count; fd++)
        if (service->watches[fd].callback && !weft_fd_is_own((int)fd))
            found = (int)fd;
    return found;
}

int weft_service_find_lost(struct weft_service *service)
{
    pthread_mutex_lock(&service->lock);
    int fd = find_lost(service);
    pthread_mutex_unlock(&service->lock);
    return fd;
}

static void look_at_descriptors(struct weft_service *service)
{
    pthread_mutex_lock(&service->lock);
    int fd = service->is_lost ? -1 : find_lost(service);
    weft_service_lost *on_lost = fd >= 0 ? service->on_lost : NULL;
    void *arg = service->on_lost_arg;
    service->lost_running = on_lost != NULL;
    if (fd >= 0)
        __atomic_store_n(&service->is_lost, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&service->lock);
    if (!on_lost)
        return;

    on_lost(arg, fd);

    pthread_mutex_lock(&service->lock);
    service->lost_running = 0;
    pthread_cond_broadcast(&service->idle);
    pthread_mutex_unlock(&service->lock);
}

static void dispatch(struct weft_service *service, uint64_t key)
{
    int fd = (int)(uint32_t)key;
    pthread_mutex_lock(&service->lock);
    struct watch *watch = (size_t)fd < service->watch_count ? &service->watches[fd] : NULL;
    if (!watch || !watch->callback || watch->generation != key >> 32) {
        pthread_mutex_unlock(&service->lock);
        return;
    }
    weft_service_callback *callback = watch->callback;
    void *arg = watch->arg;
    int is_own = weft_fd_is_own(fd);
    service->running = is_own ? key : 0;
    pthread_mutex_unlock(&service->lock);
    if (!is_own) {
        look_at_descriptors(service);
        return;
    }

    callback(arg, fd);

    pthread_mutex_lock(&service->lock);
    service->running = 0;
    pthread_cond_broadcast(&service->idle);
    pthread_mutex_unlock(&service->lock);
}

static int run_tick(struct weft_service *service)
{
    int sleep_ms = -1;
    pthread_mutex_lock(&service->lock);
    weft_service_tick *tick = service->tick;
    void *arg = service->tick_arg;
    service->tick_running = tick != NULL;
    pthread_mutex_unlock(&service->lock);
    if (!tick)
        return sleep_ms;

    sleep_ms = tick(arg);

    pthread_mutex_lock(&service->lock);
    service->tick_running = 0;
    pthread_cond_broadcast(&service->idle);
    pthread_mutex_unlock(&service->lock);
    return sleep_ms;
}

static void drain_wake(struct weft_service *service)
{
    uint64_t count;
    ssize_t got = weft_fd_read(service->wake_fd, &count, sizeof count);
    (void)got; /* nothing to read means nothing to drain */
    /* After the read: a wake in between is then either seen by the tick that follows or written anew. */
    __atomic_store_n(&service->woken, 0, __ATOMIC_SEQ_CST);
}

/* --- timers */

/* [lock] */
static void unset(struct weft_service *service, struct weft_service_timer *timer)
{
    struct weft_service_timer **at = &service->timers;
    if (!timer->is_set)
        return;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    timer->is_set = 0;
}

void weft_service_timer_set(struct weft_service *service, struct weft_service_timer *timer, int64_t due_ns)
{
    pthread_mutex_lock(&service->lock);
    if (timer->is_ending) {
        pthread_mutex_unlock(&service->lock);
        return;
    }
    if (!timer->is_set) {
        timer->next = service->timers;
        service->timers = timer;
        timer->is_set = 1;
    }
    timer->due_ns = due_ns;
    if (due_ns < service->earliest_ns)
        service->earliest_ns = due_ns;
    int is_asleep = due_ns < service->wakes_ns;
    pthread_mutex_unlock(&service->lock);
    if (is_asleep)
        weft_service_wake(service);
}

void weft_service_timer_end(struct weft_service *service, struct weft_service_timer *timer)
{
    pthread_mutex_lock(&service->lock);
    unset(service, timer);
    timer->is_ending = 1; /* the callback that runs may set it again: it does not count */
    while (service->expiring == timer && !on_service_thread(service))
        pthread_cond_wait(&service->idle, &service->lock);
    timer->is_ending = 0;
    pthread_mutex_unlock(&service->lock);
}

/* [lock] One that is due, which is not set any more; NULL: none is. */
static struct weft_service_timer *take_due(struct weft_service *service, int64_t now_ns)
{
    struct weft_service_timer *timer = service->timers;
    while (timer && timer->due_ns > now_ns)
        timer = timer->next;
    if (timer)
        unset(service, timer);
    return timer;
}

static void run_timers(struct weft_service *service)
{
    struct weft_service_timer *timer;
    int64_t now_ns = weft_clock_ns();
    pthread_mutex_lock(&service->lock);
    int is_due = now_ns >= service->earliest_ns;
    while (is_due && (timer = take_due(service, now_ns))) {
        service->expiring = timer;
        pthread_mutex_unlock(&service->lock);

        timer->expired(timer->arg);

        pthread_mutex_lock(&service->lock);
        service->expiring = NULL;
        pthread_cond_broadcast(&service->idle);
    }
    if (is_due) {
        service->earliest_ns = WEFT_NEVER_NS;
        for (timer = service->timers; timer; timer = timer->next)
            service->earliest_ns =
                timer->due_ns < service->earliest_ns ? timer->due_ns : service->earliest_ns;
    }
    pthread_mutex_unlock(&service->lock);
}

/* How long the thread may sleep, longest_ms at most: until the earliest timer, or less. Whoever sets an earlier one from now on wakes it. */
static int fall_asleep(struct weft_service *service, int longest_ms)
{
    int64_t now_ns = weft_clock_ns(), until_ns = now_ns + longest_ms * INT64_C(1000000);
    pthread_mutex_lock(&service->lock);
    if (service->earliest_ns < until_ns)
        until_ns = service->earliest_ns > now_ns ? service->earliest_ns : now_ns;
    service->wakes_ns = until_ns;
    pthread_mutex_unlock(&service->lock);
    return (int)((until_ns - now_ns + 999999) / 1000000);
}

static void wake_up(struct weft_service *service)
{
    pthread_mutex_lock(&service->lock);
    service->wakes_ns = INT64_MIN;
    pthread_mutex_unlock(&service->lock);
}

/* --- the thread */

/* Sleeps until something is to be done, sleep_ms at most unless it is negative. Returns the number of events. */
static int sleep_on_events(struct weft_service *service, struct epoll_event *events, int sleep_ms)
{
    int longest_ms = __atomic_load_n(&service->is_lost, __ATOMIC_SEQ_CST) ? NAP_MS : LOOK_MS;
    int is_long = sleep_ms < 0 || sleep_ms > longest_ms;
    sleep_ms = fall_asleep(service, is_long ? longest_ms : sleep_ms);
    int count = epoll_wait(service->epoll_fd, events, EVENTS_MAX, sleep_ms);
    wake_up(service);
    int64_t now_ns = weft_clock_ns();
    if (now_ns - service->looked_ns >= LOOK_MS * INT64_C(1000000)) { /* also where events come all the time */
        service->looked_ns = now_ns;
        look_at_descriptors(service);
    }
    return count;
}

static int run_events(struct weft_service *service)
{
    struct epoll_event events[EVENTS_MAX];
    int count = 0;
    if (!weft_fd_is_own(service->epoll_fd))
        look_at_descriptors(service); /* before anything else is touched */
    int sleep_ms = run_tick(service);
    /* Once more, for a tick may take long: a wait would take the events of a set of the program's. */
    if (weft_fd_is_own(service->epoll_fd))
        count = sleep_on_events(service, events, sleep_ms);
    else
        poll(NULL, 0, sleep_ms < 0 || sleep_ms > NAP_MS ? NAP_MS : sleep_ms);
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == 0)
            drain_wake(service);
        else
            dispatch(service, events[i].data.u64);
    }
    run_timers(service);
    pthread_mutex_lock(&service->lock);
    int stopping = service->stopping;
    pthread_mutex_unlock(&service->lock);
    return !stopping;
}

static void *run(void *arg)
{
    struct weft_service *service = arg;
    while (run_events(service))
        ;
    weft_fd_losses_take(&service->losses);
    return NULL;
}

static int start_thread(const char *name, struct weft_service *service)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return weft_fail(WEFT_NOMEM, "service thread: no memory for its attributes");
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited: the program's signals stay with its threads */
    /* The new thread compares itself with service->thread only after taking the lock held here. */
    pthread_mutex_lock(&service->lock);
    int error = pthread_create(&service->thread, &attributes, run, service);
    pthread_mutex_unlock(&service->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error)
        return weft_fail_thread(error, "service");
    pthread_setname_np(service->thread, name);
    return WEFT_OK;
}

int weft_service_start(const char *name, struct weft_service **result)
{
    int status;
    struct weft_service *service = calloc(1, sizeof *service);
    if (!service)
        return weft_fail(WEFT_NOMEM, "service thread: no memory");
    service->earliest_ns = WEFT_NEVER_NS;
    service->wakes_ns = INT64_MIN;
    service->epoll_fd = weft_fd_add(epoll_create1(EPOLL_CLOEXEC));
    if (service->epoll_fd < 0) {
        status = weft_fail_errno("service thread: epoll_create1");
        goto free_service;
    }
    service->wake_fd = weft_fd_add(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (service->wake_fd < 0) {
        status = weft_fail_errno("service thread: eventfd");
        goto close_epoll;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    if (epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, service->wake_fd, &event) != 0) {
        status = weft_fail_errno("service thread: epoll_ctl");
        goto close_wake;
    }
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->idle, NULL);
    status = start_thread(name, service);
    if (status != WEFT_OK)
        goto destroy_lock;
    *result = service;
    return WEFT_OK;

destroy_lock:
    pthread_cond_destroy(&service->idle);
    pthread_mutex_destroy(&service->lock);
close_wake:
    weft_fd_close(service->wake_fd);
close_epoll:
    weft_fd_close(service->epoll_fd);
free_service:
    free(service);
    return status;
}

void weft_service_stop(struct weft_service *service)
{
    if (!service)
        return;
    pthread_mutex_lock(&service->lock);
    service->stopping = 1;
    pthread_mutex_unlock(&service->lock);
    weft_service_wake(service);
    pthread_join(service->thread, NULL);
    weft_fd_losses_add(&service->losses);
    for (size_t fd = 0; fd < service->watch_count; fd++)
        if (service->watches[fd].callback && service->watches[fd].is_noted)
            weft_fd_forget((int)fd);
    pthread_cond_destroy(&service->idle);
    pthread_mutex_destroy(&service->lock);
    weft_fd_close(service->wake_fd);
    weft_fd_close(service->epoll_fd);
    free(service->watches);
    free(service);
}

static int reserve(struct weft_service *service, int fd)
{
    if ((size_t)fd < service->watch_count)
        return WEFT_OK;
    size_t count = service->watch_count ? service->watch_count : 64;
    while (count <= (size_t)fd)
        count *= 2;
    struct watch *grown = realloc(service->watches, count * sizeof *grown);
    if (!grown)
        return weft_fail(WEFT_NOMEM, "service thread: no memory for %zu watches", count);
    memset(grown + service->watch_count, 0, (count - service->watch_count) * sizeof *grown);
    service->watches = grown;
    service->watch_count = count;
    return WEFT_OK;
}

/* errno is of a call on the epoll set, unless that is lost. */
static int watch_failed(const struct weft_service *service, int fd)
{
    if (!weft_fd_is_own(service->epoll_fd))
        return weft_fail(WEFT_SYSTEM,
                         "service thread: the program has closed or replaced descriptor %d, which is weft's: "
                         "without it none can be watched",
                         service->epoll_fd);
    if (errno == ENOSPC)
        return weft_fail(WEFT_SYSTEM,
                         "service thread: cannot watch descriptor %d: this user watches too many: raise the "
                         "sysctl fs.epoll.max_user_watches",
                         fd);
    return weft_fail_errno("service thread: cannot watch descriptor %d", fd);
}

int weft_service_watch(struct weft_service *service, int fd, weft_service_callback *callback, void *arg)
{
    if (fd < 0 || !callback)
        return weft_fail(WEFT_INVALID, "service thread: cannot watch descriptor %d", fd);
    pthread_mutex_lock(&service->lock);
    int status = reserve(service, fd);
    if (status == WEFT_OK && service->watches[fd].callback)
        status = weft_fail(WEFT_INVALID, "service thread: descriptor %d is watched already", fd);
    if (status == WEFT_OK) {
        if (++service->generation == 0)
            service->generation = 1; /* 0 with descriptor 0 would look like the wake-up */
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = key_of(fd, service->generation)};
        int is_noted = !weft_fd_is_known(fd) && weft_fd_note(fd) == 0;
        if (weft_fd_epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
            status = watch_failed(service, fd);
        else
            service->watches[fd] = (struct watch){callback, arg, service->generation, is_noted};
        if (status != WEFT_OK && is_noted)
            weft_fd_forget(fd);
    }
    pthread_mutex_unlock(&service->lock);
    return status;
}

void weft_service_unwatch(struct weft_service *service, int fd)
{
    pthread_mutex_lock(&service->lock);
    if (fd >= 0 && (size_t)fd < service->watch_count && service->watches[fd].callback) {
        uint64_t key = key_of(fd, service->watches[fd].generation);
        service->watches[fd].callback = NULL;
        weft_fd_unpoll(service->epoll_fd, fd);
        if (service->watches[fd].is_noted)
            weft_fd_forget(fd);
        while (service->running == key && !on_service_thread(service))
            pthread_cond_wait(&service->idle, &service->lock);
    }
    pthread_mutex_unlock(&service->lock);
}

int weft_service_want_output(struct weft_service *service, int fd, int on)
{
    int status = WEFT_OK;
    pthread_mutex_lock(&service->lock);
    if (fd < 0 || (size_t)fd >= service->watch_count || !service->watches[fd].callback) {
        status = weft_fail(WEFT_INVALID, "service thread: descriptor %d is not watched", fd);
    } else {
        struct epoll_event event = {.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                    .data.u64 = key_of(fd, service->watches[fd].generation)};
        if (weft_fd_epoll_ctl(service->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0)
            status = watch_failed(service, fd);
    }
    pthread_mutex_unlock(&service->lock);
    return status;
}

void weft_service_set_tick(struct weft_service *service, weft_service_tick *tick, void *arg)
{
    pthread_mutex_lock(&service->lock);
    service->tick = tick;
    service->tick_arg = arg;
    weft_service_wake(service); /* first: a tick that runs may sleep on weft_service_fd() */
    while (service->tick_running && !on_service_thread(service))
        pthread_cond_wait(&service->idle, &service->lock);
    pthread_mutex_unlock(&service->lock);
}

void weft_service_set_lost(struct weft_service *service, weft_service_lost *on_lost, void *arg)
{
    pthread_mutex_lock(&service->lock);
    service->on_lost = on_lost;
    service->on_lost_arg = arg;
    while (!on_lost && service->lost_running && !on_service_thread(service))
        pthread_cond_wait(&service->idle, &service->lock);
    pthread_mutex_unlock(&service->lock);
}

int weft_service_fd(const struct weft_service *service)
{
    return service->epoll_fd;
}

void weft_service_wake(struct weft_service *service)
{
    if (__atomic_exchange_n(&service->woken, 1, __ATOMIC_SEQ_CST))
        return;
    uint64_t one = 1;
    ssize_t written = weft_fd_write(service->wake_fd, &one, sizeof one);
    (void)written; /* only fails when the counter is full, and then the thread is awake anyway */
}
