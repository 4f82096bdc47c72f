/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: sequences of work, each done by a thread of its own, in order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim_private.h"

#define FLAG_POLL_US 100

void sim_event_drop(struct weft_device_event *event)
{
    if (--event->users > 0)
        return;
    sim.counts.events--;
    free(event);
}

void sim_gate_drop(struct weft_device_gate *gate)
{
    if (--gate->users > 0)
        return;
    sim.counts.gates--;
    free(gate);
}

void sim_lane_fail(struct sim_lane *lane, int status, const char *why)
{
    if (lane->status == WEFT_OK) {
        lane->status = status;
        snprintf(lane->why, sizeof lane->why, "%s", why);
    }
}

/* What the thread does without the lock, on memory that cannot go meanwhile. */
static void compute(const struct sim_work *work, char *const views[])
{
    if (work->kind == SIM_COPY) {
        memmove(views[0], views[1], work->size);
    } else if (work->kind == SIM_FILL) {
        memset(views[0], work->byte, work->size);
    } else {
        struct weft_device_reduction reduction = work->reduction;
        uint32_t destinations = reduction.destination_count;
        reduction.destinations = (void *const *)views;
        reduction.sources = (const void *const *)(views + destinations);
        reduction.scalar = reduction.scalar ? work->scalar : NULL;
        sim_reduce(&reduction);
    }
}

int sim_lane_hold(struct sim_lane *lane, void *const *pointers, int count, size_t size,
                  struct sim_span **spans, char **views)
{
    char why[160];
    for (int i = 0; i < count; i++) {
        spans[i] = sim_span_find(pointers[i], size);
        if (!spans[i]) {
            snprintf(why, sizeof why,
                     "sim: memory at %p, %zu bytes, was freed before the work on it was done", pointers[i],
                     size);
            if (lane->device) /* a real device would end more than this queue */
                lane->device->params.log(WEFT_DEVICE_LOG_ERROR, "%s", why);
            sim_lane_fail(lane, WEFT_TRANSPORT, why);
            return 0;
        }
        views[i] = spans[i]->view + ((uintptr_t)pointers[i] - spans[i]->base);
    }
    for (int i = 0; i < count; i++)
        spans[i]->users++;
    return 1;
}

void sim_lane_release(struct sim_span *const *spans, int count)
{
    for (int i = 0; i < count; i++)
        spans[i]->users--;
    pthread_cond_broadcast(&sim.changed);
}

static void work_on_memory(struct sim_lane *lane, const struct sim_work *work)
{
    struct sim_span *spans[SIM_POINTERS_MAX];
    char *views[SIM_POINTERS_MAX];
    if (!sim_lane_hold(lane, work->pointers, work->pointer_count, work->size, spans, views))
        return;
    unsigned delay_us = lane->device ? lane->device->delay_us : 0;
    unsigned one_in = lane->device ? lane->device->fail : 0;
    pthread_mutex_unlock(&sim.lock);
    if (delay_us)
        usleep((useconds_t)(sim_random(&lane->random) % (delay_us + 1)));
    int is_chosen = one_in && sim_random(&lane->random) % one_in == 0;
    if (!is_chosen)
        compute(work, views);
    pthread_mutex_lock(&sim.lock);
    sim_lane_release(spans, work->pointer_count);
    if (is_chosen)
        sim_lane_fail(lane, WEFT_TRANSPORT, "sim: work fails, as the options say");
}

/* [lock] */
static void await(struct sim_lane *lane, const struct weft_device_event *event)
{
    while (event->state == 0 && !lane->is_abandoned)
        pthread_cond_wait(&sim.changed, &sim.lock);
    if (event->state < 0)
        sim_lane_fail(lane, event->state, event->why);
    else if (event->state == 0)
        sim_lane_fail(lane, WEFT_CANCELLED,
                      "sim: the queue was closed before what it waited for had happened");
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* [lock] Failed lanes skip the work, but still open gates and tell events. */
static void run(struct sim_lane *lane, struct sim_work *work)
{
    struct weft_device_event *event = work->event;
    switch (work->kind) {
    case SIM_MARK:
        event->state = lane->status == WEFT_OK ? 1 : lane->status;
        event->happened_ns = now_ns();
        snprintf(event->why, sizeof event->why, "%s", lane->why);
        sim_event_drop(event);
        break;
    case SIM_AWAIT:
        await(lane, event);
        sim_event_drop(event);
        break;
    case SIM_GATE:
        while (!work->gate->is_open)
            pthread_cond_wait(&sim.changed, &sim.lock);
        sim_gate_drop(work->gate);
        break;
    case SIM_OPEN:
        work->gate->is_open = 1;
        sim_gate_drop(work->gate);
        break;
    case SIM_FLAG:
        pthread_mutex_unlock(&sim.lock);
        while (!__atomic_load_n(work->flag, __ATOMIC_ACQUIRE))
            usleep(FLAG_POLL_US);
        pthread_mutex_lock(&sim.lock);
        break;
    case SIM_RUN:
        if (lane->status == WEFT_OK)
            sim_program_run(lane, work->program);
        free(work->program);
        break;
    default:
        if (lane->status == WEFT_OK)
            work_on_memory(lane, work);
        break;
    }
}

static void *serve(void *arg)
{
    struct sim_lane *lane = arg;
    pthread_mutex_lock(&sim.lock);
    for (;;) {
        while (!lane->first && !lane->is_closing)
            pthread_cond_wait(&lane->has_work, &sim.lock);
        struct sim_work *work = lane->first;
        if (!work)
            break;
        run(lane, work);
        lane->first = work->next;
        if (!lane->first)
            lane->end = &lane->first;
        free(work);
        pthread_cond_broadcast(&sim.changed);
    }
    lane->is_ended = 1;
    pthread_cond_broadcast(&sim.changed);
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

int sim_lane_open(struct sim_lane *lane, struct weft_device *device, uint64_t seed)
{
    *lane = (struct sim_lane){.device = device, .random = seed, .has_work = PTHREAD_COND_INITIALIZER};
    lane->end = &lane->first;
    return pthread_create(&lane->thread, NULL, serve, lane) == 0 ? WEFT_OK : WEFT_SYSTEM;
}

/* [lock] What runs on memory is short and is waited for in any case; so is an event that has happened by the deadline. */
static void end_or_abandon(struct sim_lane *lane)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += WEFT_DEVICE_CLOSE_MS % 1000 * 1000000L;
    deadline.tv_sec += WEFT_DEVICE_CLOSE_MS / 1000 + deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    int late = 0;
    while (!lane->is_ended && !late)
        late = pthread_cond_clockwait(&sim.changed, &sim.lock, CLOCK_MONOTONIC, &deadline) == ETIMEDOUT;
    lane->is_abandoned = 1;
    pthread_cond_broadcast(&sim.changed);
}

void sim_lane_close(struct sim_lane *lane)
{
    pthread_mutex_lock(&sim.lock);
    lane->is_closing = 1;
    pthread_cond_signal(&lane->has_work);
    if (lane->device)
        end_or_abandon(lane);
    pthread_mutex_unlock(&sim.lock);
    pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->has_work);
}

int sim_lane_append(struct sim_lane *lane, const struct sim_work *work)
{
    struct sim_work *own = malloc(sizeof *own);
    if (!own)
        return WEFT_NOMEM;
    *own = *work;
    own->next = NULL;
    *lane->end = own;
    lane->end = &own->next;
    if (own->event && (own->kind == SIM_MARK || own->kind == SIM_AWAIT))
        own->event->users++;
    if (own->gate)
        own->gate->users++;
    pthread_cond_signal(&lane->has_work);
    return WEFT_OK;
}

int sim_lane_add(struct sim_lane *lane, const struct sim_work *work)
{
    int status = sim_enter(lane->device);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < work->pointer_count && status == WEFT_OK; i++) {
        if (!sim_span_find(work->pointers[i], work->size))
            status = WEFT_INVALID;
    }
    if (status == WEFT_OK)
        status = sim_lane_append(lane, work);
    sim_leave();
    return status;
}
