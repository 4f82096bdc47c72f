/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/drive/progress.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/pause.h"
#include "comm/drive/wait.h"

#define POLL_BUDGET   64
#define SLEEP_NS_MAX  INT64_C(100000000) /* a wake-up lost to a bug costs no more than this */
#define POLLED_NS     INT64_C(1000000)   /* transports without descriptors are looked at this often */
#define FDS_MAX       16
#define ROUNDS_CLOCK  32 /* rounds between looks at the clock */
#define ROUNDS_YIELD  4
#define ROUNDS_EAGER  16 /* without a pause: what is near comes within 0.2 us, and would come 10 ns later */
#define FLUSH_ROUNDS  16
#define VAIN_WAKES    64
#define STEP_ASIDE_NS 50000
#define LOOK_NS       INT64_C(20000000) /* between looks at what waits on any communicator */
#define TICKS_IDLE    16                /* of the service thread, before it sleeps on the descriptors */
#define TICKS_ASIDE   200               /* while another thread drives, before it looks more seldom */
#define OTHERS_NS     INT64_C(2000000) /* since another thread drove: what comes wakes that one, and not this */
#define MISSES        16               /* of the lock, or of falling asleep, before it waits a millisecond */
#define TIDY_MS       5                /* between its tries to get the lock for that */
#define LOOK_MS       250              /* between its looks at libfabric and quiet calls */
#define DOZE_NS       INT64_C(20000000) /* the looks at what waits go on */
#define NAP_NS_MIN    INT64_C(20000)    /* between looks at devices and full rings */
#define NAPS_NS       INT64_C(8000000)  /* since anything happened; then its naps are sleeps of 1 ms */

/* The transports that work, one after the other. */
#define EACH_TRANSPORT(context, mask, t)                                                                     \
    for (unsigned mask = (context)->working, t; mask && (t = (unsigned)__builtin_ctz(mask), 1);              \
         mask &= mask - 1)

static void handle_event(void *arg, const struct weft_event *event)
{
    struct weft_context *context = arg;
    if (event->kind == WEFT_EVENT_MESSAGE) {
        uint32_t id; /* messages begin with it */
        struct weft_driven *driven = NULL;
        if (event->data_size >= sizeof id) {
            memcpy(&id, event->data, sizeof id);
            driven = weft_context_find(context, id);
        }
        if (driven)
            driven->ops->message(driven, event->sender, event->data, event->data_size);
    } else if (event->kind == WEFT_EVENT_LINK_FAILED) {
        struct weft_shared_link *shared = event->link_context;
        const char *why = context->transports[shared->transport].ops.why(shared->link);
        for (uint32_t i = 0; i < context->routes.count; i++)
            context->routes.all[i]->ops->link_failed(context->routes.all[i], shared->link, event->status,
                                                     why);
    } else {
        struct weft_driven *driven = weft_context_find(context, (uint32_t)(event->cookie >> 32));
        if (driven)
            driven->ops->io_done(driven, event->cookie, event->status);
    }
}

/* Ends the communicators that reach somebody by this transport. */
static void fail_users(struct weft_context *context, enum weft_transport_index index, int status)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    for (uint32_t i = 0; i < context->routes.count; i++) {
        struct weft_driven *driven = context->routes.all[i];
        if (driven->transports & 1u << index)
            driven->ops->fail(driven, status, text);
    }
}

static int deliver(struct weft_context *context)
{
    int count = 0;
    atomic_store(&context->progress.oob, 0); /* first: what comes meanwhile is for the next time */
    for (uint32_t i = 0; i < context->routes.count; i++)
        count += context->routes.all[i]->ops->deliver(context->routes.all[i]);
    return count;
}

int weft_progress_once(struct weft_context *context)
{
    int happened = atomic_load_explicit(&context->progress.oob, memory_order_relaxed) ? deliver(context) : 0;
    EACH_TRANSPORT(context, mask, t)
    {
        struct weft_open_transport *transport = &context->transports[t];
        context->progress.polled = (int)t;
        int events = transport->ops.poll(transport->instance, POLL_BUDGET, handle_event, context);
        if (events >= 0) {
            happened += events;
        } else {
            context->working &= ~(1u << t);
            fail_users(context, (enum weft_transport_index)t, events);
        }
    }
    if (context->exec.stream_waits)
        happened += context->hooks->follow_streams(context);
    for (uint32_t i = 0; i < context->routes.count; i++) {
        happened += context->routes.all[i]->ops->poll(context->routes.all[i]);
    }
    if (context->p2p.copies || context->p2p.held || context->core.queues || context->core.watched) {
        context->progress
            .progressing++; /* what starts calls here keeps the lock: nobody else meets them half begun */
        happened += context->hooks->carry(context);
        context->progress.progressing--;
    }
    if (happened) {
        context->progress.events += (uint64_t)happened;
        context->progress.vain_wakes = 0;
        weft_progress_notify(context);
    }
    return happened;
}

int weft_idle_pause(struct weft_context *context, struct weft_idle *idle)
{
    if (idle->sleeps) /* woken, and nothing was there */
        return 1;
    idle->rounds++;
    if (context->oversubscribed && idle->rounds > ROUNDS_YIELD)
        sched_yield();
    else if (idle->rounds > ROUNDS_EAGER)
        weft_pause();
    if (idle->rounds % ROUNDS_CLOCK)
        return 0;
    int64_t now_ns = weft_clock_ns();
    if (!idle->since_ns)
        idle->since_ns = now_ns;
    idle->sleeps = now_ns - idle->since_ns >= context->settings.spin_us * 1000;
    return idle->sleeps;
}

/* Whether something waits for room in a full ring, or for a device: no event says so, so it is looked at. */
static int is_blocked(const struct weft_context *context)
{
    if (context->p2p.copies || context->p2p.held || context->core.queued > context->core.quiet)
        return 1;
    for (uint32_t i = 0; i < context->routes.count; i++) {
        if (context->routes.all[i]->ops->is_blocked(context->routes.all[i]))
            return 1;
    }
    return 0;
}

/* Arms every transport and collects descriptors. Returns their number, or -1 when there is work already. */
static int arm_all(struct weft_context *context, struct pollfd *polled, int64_t *timeout_ns)
{
    int count = 0;
    polled[count++] = (struct pollfd){.fd = context->event_fd, .events = POLLIN};
    int vain =
        context->progress.vain_wakes > VAIN_WAKES; /* some provider's descriptor is readable all the time */
    if (vain && *timeout_ns > POLLED_NS)
        *timeout_ns = POLLED_NS;
    EACH_TRANSPORT(context, mask, t)
    {
        const struct weft_open_transport *transport = &context->transports[t];
        if (transport->ops.arm(transport->instance) != WEFT_OK)
            return -1;
        int fds[FDS_MAX];
        int found = transport->ops.fds(transport->instance, fds, FDS_MAX - count);
        if (found <= 0 && *timeout_ns > POLLED_NS)
            *timeout_ns = POLLED_NS;
        for (int i = 0; i < found && !vain; i++)
            polled[count++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    return count;
}

static void disarm_all(struct weft_context *context)
{
    EACH_TRANSPORT(context, mask, t)
    {
        context->transports[t].ops.disarm(context->transports[t].instance);
    }
}

/* No event says what a device has done, nor that a full ring has room. So it is looked at again after an eighth of the time in which
 * nothing has happened: what is waited for is noticed late by so much at most, and looking costs little of a processor. */
static int64_t nap_ns(int64_t idle_ns)
{
    int64_t part_ns = idle_ns / 8 < POLLED_NS ? idle_ns / 8 : POLLED_NS;
    return part_ns < NAP_NS_MIN ? NAP_NS_MIN : part_ns;
}

/* How long a waiter may sleep. [lock] */
static int64_t sleep_ns(const struct weft_context *context, const struct weft_idle *idle, int64_t until_ns,
                        int is_unannounced)
{
    int64_t now_ns = weft_clock_ns(), sleep_ns = SLEEP_NS_MAX;
    if (is_unannounced || is_blocked(context))
        sleep_ns = nap_ns(now_ns - idle->since_ns);
    if (until_ns != WEFT_NEVER_NS && until_ns - now_ns < sleep_ns)
        sleep_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    return sleep_ns;
}

/* The leader may have gone to sleep before anything was blocked: it sleeps on, and the follower looks by itself. */
static void follow(struct weft_context *context, int64_t wait_ns)
{
    context->progress.followers++;
    weft_clock_wait(&context->progress.changed, &context->lock, weft_clock_ns() + wait_ns);
    context->progress.followers--;
}

void weft_progress_sleep(struct weft_context *context, const struct weft_idle *idle, int64_t until_ns,
                         const struct weft_wait *wait)
{
    int64_t timeout_ns = sleep_ns(context, idle, until_ns, wait->is_unannounced);
    if (context->progress.leader_sleeps) {
        if (!wait->done(wait->arg))
            follow(context, timeout_ns);
        return;
    }
    struct pollfd polled[FDS_MAX];
    int count = arm_all(context, polled, &timeout_ns);
    if (count > 0 && !wait->done(wait->arg)) {
        context->progress.leader_sleeps = 1;
        weft_context_unlock(context);
        const struct timespec timeout = weft_clock_timespec(timeout_ns);
        int ready = ppoll(polled, (nfds_t)count, &timeout, NULL);
        int woken = ready > 0 && !polled[0].revents;
        if (ready > 0 && polled[0].revents) {
            uint64_t drained;
            ssize_t got = weft_fd_read(context->event_fd, &drained, sizeof drained);
            (void)got; /* another thread may have drained it */
        }
        weft_context_lock(context);
        context->progress.leader_sleeps = 0;
        context->progress.vain_wakes += woken;
        if (context->progress.followers)
            pthread_cond_broadcast(&context->progress.changed);
    }
    disarm_all(context);
    if (atomic_load_explicit(&context->progress.dozes, memory_order_relaxed))
        weft_service_wake(context->service); /* its sleep is not armed any more */
}

/* Without the lock: a plain lock would win against a thread that still has to wake up. */
static void let_pass(struct weft_context *context)
{
    int64_t until_ns = weft_clock_ns() + STEP_ASIDE_NS;
    while (atomic_load_explicit(&context->contenders, memory_order_relaxed) && weft_clock_ns() < until_ns)
        sched_yield();
}

void weft_progress_step_aside(struct weft_context *context)
{
    if (!atomic_load_explicit(&context->contenders, memory_order_relaxed) && !context->notices)
        return;
    weft_context_unlock(context);
    let_pass(context);
    weft_context_lock(context);
}

void weft_progress_wake(struct weft_context *context)
{
    uint64_t one = 1;
    ssize_t put = weft_fd_write(context->event_fd, &one, sizeof one);
    (void)put; /* full means that it is readable already */
}

void weft_progress_notify(struct weft_context *context)
{
    if (context->progress.followers)
        pthread_cond_broadcast(&context->progress.changed);
    if (context->progress.leader_sleeps)
        weft_progress_wake(context);
}

static int is_busy(const struct weft_context *context)
{
    if (atomic_load(&context->progress.oob))
        return 1;
    EACH_TRANSPORT(context, mask, t)
    {
        if (context->transports[t].ops.busy(context->transports[t].instance))
            return 1;
    }
    return 0;
}

void weft_progress_flush(struct weft_context *context)
{
    for (int i = 0; i < FLUSH_ROUNDS; i++) {
        if (!is_busy(context))
            return;
        weft_progress_once(context);
    }
    weft_progress_linger(context);
}

void weft_progress_drain(struct weft_context *context, int64_t until_ns)
{
    while (is_busy(context) && weft_clock_ns() < until_ns)
        weft_progress_once(context);
}

/* Takes a flag that is seldom set: a look is cheaper than an exchange. */
static int take(atomic_int *flag)
{
    return atomic_load(flag) && atomic_exchange(flag, 0);
}

static void count_work(struct weft_context *context, int change)
{
    atomic_fetch_add(&context->progress.background, change);
    if (change > 0 &&
        (take(&context->tick.sleeps) || take(&context->tick.aside) || atomic_load(&context->progress.dozes)))
        weft_service_wake(context->service);
}

void weft_progress_linger(struct weft_context *context)
{
    if (!atomic_exchange(&context->progress.lingers, 1))
        count_work(context, 1); /* at the end of a call: who made it may make the next, and drives then */
}

void weft_progress_ended(struct weft_context *context)
{
    if (is_busy(context))
        weft_progress_linger(context);
    weft_progress_background(context, -1);
}

/* Whether a communicator reaches somebody by libfabric, or over sockets, where peers may want to connect. [lock] */
static int has_sockets(const struct weft_context *context)
{
    unsigned reached = 0;
    for (uint32_t i = 0; i < context->routes.count; i++)
        reached |= context->routes.all[i]->transports;
    return (reached & context->working & (1u << WEFT_OFI | 1u << WEFT_TCP)) != 0;
}

/* Nobody may call for hours: what transports have to say or give back meanwhile is seen to once per wake-up of this thread. Who holds the
 * lock drives them anyway. No transport says that it is busy with small messages that libfabric has copied, of which it says
 * nothing; where a socket was full they leave when somebody looks. And a call over the cache lines that nobody waits for may become a plan
 * when a peer comes, which wakes only who sleeps for it. So this thread looks now and then. Returns whether it is to. */
static int tidy(struct weft_context *context)
{
    if (pthread_mutex_trylock(&context->lock) != 0)
        return 1;
    int looks = has_sockets(context) || context->core.quiet;
    if (!context->progress.leader_sleeps && (looks || is_busy(context)))
        weft_progress_once(context);
    context->hooks->tidy(context);
    weft_context_unlock(context);
    return looks;
}

/* Nothing has happened for long: the service thread sleeps on the descriptors until something does. While it does so
 * another thread may lead: then both are woken. Returns whether it has slept: a transport may have something to do at once, and never get
 * anywhere. [lock] */
static int doze(struct weft_context *context)
{
    struct pollfd polled[FDS_MAX];
    int64_t timeout_ns =
        is_blocked(context) || is_busy(context) ? nap_ns(weft_clock_ns() - context->tick.ns) : DOZE_NS;
    atomic_store(&context->progress.dozes, 1); /* before the look: what comes in from now on wakes it */
    if (atomic_load(&context->progress.oob))
        timeout_ns = 0;
    int count = arm_all(context, polled, &timeout_ns);
    if (count > 0) {
        polled[0].fd = weft_service_fd(context->service);
        weft_context_unlock(context);
        const struct timespec timeout = weft_clock_timespec(timeout_ns);
        int ready = ppoll(polled, (nfds_t)count, &timeout, NULL);
        weft_context_lock(context);
        context->progress.vain_wakes += ready != 0 && !polled[0].revents;
    }
    atomic_store(&context->progress.dozes, 0);
    if (!context->progress.leader_sleeps)
        disarm_all(context);
    return count > 0;
}

/* While something waits for a device the service thread looks without pause for as long as a waiting call would, and then takes naps
 * as one does. */
static void nap(struct weft_context *context, int64_t idle_ns, int may_spin)
{
    int spins = may_spin && !context->oversubscribed && idle_ns < context->settings.spin_us * 1000;
    const struct timespec limit = weft_clock_timespec(nap_ns(idle_ns));
    struct pollfd polled = {.fd = weft_service_fd(context->service), .events = POLLIN};
    if (!spins)
        ppoll(&polled, 1, &limit, NULL);
    else
        let_pass(context);
}

/* Whether what is waited for may be a device's doing. [lock] */
static int may_await_device(const struct weft_context *context)
{
    return context->exec.stream_waits || (context->devices.queues && is_blocked(context));
}

static int64_t naps_end_ns(const struct weft_context *context)
{
    int64_t spin_ns = context->settings.spin_us * 1000;
    return context->tick.ns + (spin_ns > NAPS_NS ? spin_ns : NAPS_NS);
}

/* Somebody else has the lock. Whoever starts a call has it for a moment: the service thread tries again soon, and then waits until it is
 * free (weft_context_unlock()). Whoever drives has it again and again, and drives everything: then it waits a millisecond at a time. The
 * millisecond is also for an unlock that has not seen the wish. */
static int await_lock(struct weft_context *context)
{
    if (context->tick.misses < MISSES) {
        context->tick.misses++;
        sched_yield();
        return 0;
    }
    if (context->tick.misses == MISSES) {
        context->tick.misses++;
        atomic_store(&context->is_missed, 1);
        if (pthread_mutex_trylock(&context->lock) == 0) { /* it has become free meanwhile */
            atomic_store(&context->is_missed, 0);
            weft_context_unlock(context);
            return 0;
        }
    }
    atomic_store(&context->tick.aside, 1);
    return 1;
}

/* How long it sleeps after a look. others: another thread drives. [lock] */
static int rest_ms(struct weft_context *context, int may_doze, int dozed, int beside, int others)
{
    if (dozed || (context->tick.idle < TICKS_IDLE && !others))
        return 0;
    if (may_doze && context->tick.misses <
                        MISSES) { /* a transport has something to do at once, and may never get anywhere */
        context->tick.misses++;
        return 0;
    }
    atomic_store(&context->tick.aside, 1);
    return context->tick.idle < TICKS_ASIDE || beside || may_doze ? 1 : 5;
}

int weft_progress_tick(void *arg)
{
    struct weft_context *context = arg;
    if (atomic_load(&context->progress.background) == 0) {
        context->tick.ns = 0; /* what it is woken for counts from then */
        context->tick.idle = 0;
        int looks = tidy(context);
        atomic_store(&context->tick.sleeps, 1);
        if (atomic_load(&context->progress.background) == 0)
            return atomic_load(&context->regions.cache_died) || atomic_load(&context->regions.has_surplus)
                       ? TIDY_MS /* another thread had the lock, or a stream stands at its wait */
                   : looks ? LOOK_MS
                           : -1;
        atomic_store(&context->tick.sleeps, 0);
    }
    int64_t now_ns = weft_clock_ns();
    int due = now_ns - context->tick.looked_ns >= LOOK_NS;
    atomic_store_explicit(&context->tick.aside, 0, memory_order_relaxed);
    if (due)
        weft_context_lock(context); /* whoever drives sees to one communicator only, and steps aside */
    else if (pthread_mutex_trylock(&context->lock) != 0) { /* somebody else drives, or makes a call */
        if (!context->tick.naps || now_ns >= naps_end_ns(context))
            return await_lock(context);
        nap(context, now_ns - context->tick.ns, 0);
        return 0;
    }
    atomic_store_explicit(&context->is_missed, 0, memory_order_relaxed);
    /* As in follow(). */
    int beside = context->progress.leader_sleeps && is_blocked(context);
    uint64_t before = context->progress.events;
    int happened = context->progress.leader_sleeps && !beside ? 0 : weft_progress_once(context);
    int is_new = atomic_exchange(&context->tick.is_new, 0);
    int others = !is_new && before != context->tick.events;
    if (others || is_new)
        context->tick.others_ns = others ? now_ns : 0;
    int beside_others = now_ns - context->tick.others_ns < OTHERS_NS;
    context->tick.idle = happened || others ? 0 : context->tick.idle + 1;
    context->tick.events = context->progress.events;
    if (!context->tick.idle || !context->tick.ns)
        context->tick.ns = now_ns;
    context->tick.naps =
        context->tick.idle >= TICKS_IDLE && now_ns < naps_end_ns(context) && may_await_device(context);
    if (context->tick.naps)
        context->tick.idle = TICKS_IDLE;
    if (due) {
        for (uint32_t i = 0; i < context->routes.count; i++)
            context->routes.all[i]->ops->look(context->routes.all[i], now_ns);
        context->tick.looked_ns = now_ns;
    }
    if (atomic_load(&context->progress.lingers) && !is_busy(context) &&
        atomic_exchange(&context->progress.lingers, 0)) {
        weft_progress_background(context, -1);
        if (atomic_load(&context->progress.oob)) /* one that came in between took this thread for awake */
            weft_progress_linger(context);
    }
    int may_doze = context->tick.idle >= TICKS_IDLE && !context->tick.naps && !beside_others &&
                   !context->progress.leader_sleeps && context->progress.vain_wakes <= VAIN_WAKES;
    int dozed = may_doze && doze(context);
    if (dozed || happened)
        context->tick.misses = 0;
    int sleep_ms = context->tick.naps ? 0 : rest_ms(context, may_doze, dozed, beside, beside_others);
    weft_context_unlock(context);
    if (context->tick.naps) {
        nap(context, now_ns - context->tick.ns, 1);
        return 0;
    }
    return sleep_ms;
}

void weft_progress_listen(void *context, int change)
{
    weft_progress_background(context, change);
}

void weft_progress_background(struct weft_context *context, int change)
{
    if (change > 0)
        atomic_store_explicit(&context->tick.is_new, 1, memory_order_release); /* before it is woken */
    count_work(context, change);
}
