/* SPDX-License-Identifier: Apache-2.0 */
/* Command queues: sequences of work, each done by a thread of its own, in order. */
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

void sim_wait_drop(struct weft_device_wait *wait)
{
    if (--wait->users > 0)
        return;
    sim.counts.waits--;
    free(wait);
}

void sim_command_queue_fail(struct sim_command_queue *commands, int status, const char *why)
{
    if (commands->status == WEFT_OK) {
        commands->status = status;
        snprintf(commands->why, sizeof commands->why, "%s", why);
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

int sim_command_queue_hold(struct sim_command_queue *commands, void *const *pointers, int count, size_t size,
                           struct sim_span **spans, char **views)
{
    char why[160];
    for (int i = 0; i < count; i++) {
        spans[i] = sim_span_find(pointers[i], size);
        if (!spans[i]) {
            snprintf(why, sizeof why,
                     "sim: memory at %p, %zu bytes, was freed before the work on it was done", pointers[i],
                     size);
            if (commands->device) /* a real device would end more than this queue */
                commands->device->params.log(WEFT_DEVICE_LOG_ERROR, "%s", why);
            sim_command_queue_fail(commands, WEFT_TRANSPORT, why);
            return 0;
        }
        views[i] = spans[i]->view + ((uintptr_t)pointers[i] - spans[i]->base);
    }
    for (int i = 0; i < count; i++)
        spans[i]->users++;
    return 1;
}

void sim_command_queue_release(struct sim_span *const *spans, int count)
{
    for (int i = 0; i < count; i++)
        spans[i]->users--;
    pthread_cond_broadcast(&sim.changed);
}

static void work_on_memory(struct sim_command_queue *commands, const struct sim_work *work)
{
    struct sim_span *spans[SIM_POINTERS_MAX];
    char *views[SIM_POINTERS_MAX];
    if (!sim_command_queue_hold(commands, work->pointers, work->pointer_count, work->size, spans, views))
        return;
    unsigned delay_us = commands->device ? commands->device->delay_us : 0;
    unsigned one_in = commands->device ? commands->device->fail : 0;
    pthread_mutex_unlock(&sim.lock);
    if (delay_us)
        usleep((useconds_t)(sim_random(&commands->random) % (delay_us + 1)));
    int is_chosen = one_in && sim_random(&commands->random) % one_in == 0;
    if (!is_chosen)
        compute(work, views);
    pthread_mutex_lock(&sim.lock);
    sim_command_queue_release(spans, work->pointer_count);
    if (is_chosen)
        sim_command_queue_fail(commands, WEFT_TRANSPORT, "sim: work fails, as the options say");
}

/* [lock] */
static void await(struct sim_command_queue *commands, const struct weft_device_event *event)
{
    while (event->state == 0 && !commands->is_abandoned)
        pthread_cond_wait(&sim.changed, &sim.lock);
    if (event->state < 0)
        sim_command_queue_fail(commands, event->state, event->why);
    else if (event->state == 0)
        sim_command_queue_fail(commands, WEFT_CANCELLED,
                               "sim: the queue was closed before what it waited for had happened");
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* [lock] Failed command queues skip the work, but still open stream waits and complete events. */
static void run(struct sim_command_queue *commands, struct sim_work *work)
{
    struct weft_device_event *event = work->event;
    switch (work->kind) {
    case SIM_MARK:
        event->happened_ns = now_ns();
        snprintf(event->why, sizeof event->why, "%s", commands->why);
        __atomic_store_n(&event->state, commands->status == WEFT_OK ? 1 : commands->status, __ATOMIC_RELEASE);
        sim_event_drop(event);
        break;
    case SIM_AWAIT:
        await(commands, event);
        sim_event_drop(event);
        break;
    case SIM_WAIT:
        while (!work->wait->is_open)
            pthread_cond_wait(&sim.changed, &sim.lock);
        sim_wait_drop(work->wait);
        break;
    case SIM_OPEN:
        work->wait->is_open = 1;
        sim_wait_drop(work->wait);
        break;
    case SIM_FLAG:
        pthread_mutex_unlock(&sim.lock);
        while (!__atomic_load_n(work->flag, __ATOMIC_ACQUIRE))
            usleep(FLAG_POLL_US);
        pthread_mutex_lock(&sim.lock);
        break;
    case SIM_RUN:
        if (commands->status == WEFT_OK)
            sim_collective_run(commands, work->collective);
        free(work->collective);
        break;
    default:
        if (commands->status == WEFT_OK)
            work_on_memory(commands, work);
        break;
    }
}

static void *serve(void *arg)
{
    struct sim_command_queue *commands = arg;
    pthread_mutex_lock(&sim.lock);
    for (;;) {
        while (!commands->first && !commands->is_closing)
            pthread_cond_wait(&commands->has_work, &sim.lock);
        struct sim_work *work = commands->first;
        if (!work)
            break;
        run(commands, work);
        commands->first = work->next;
        if (!commands->first)
            commands->end = &commands->first;
        free(work);
        pthread_cond_broadcast(&sim.changed);
    }
    commands->is_ended = 1;
    pthread_cond_broadcast(&sim.changed);
    pthread_mutex_unlock(&sim.lock);
    return NULL;
}

int sim_command_queue_open(struct sim_command_queue *commands, struct weft_device *device, uint64_t seed)
{
    *commands =
        (struct sim_command_queue){.device = device, .random = seed, .has_work = PTHREAD_COND_INITIALIZER};
    commands->end = &commands->first;
    return pthread_create(&commands->thread, NULL, serve, commands) == 0 ? WEFT_OK : WEFT_SYSTEM;
}

/* [lock] What runs on memory is short and is waited for in any case; so is an event that has happened by the deadline. */
static void end_or_abandon(struct sim_command_queue *commands)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += WEFT_DEVICE_CLOSE_MS % 1000 * 1000000L;
    deadline.tv_sec += WEFT_DEVICE_CLOSE_MS / 1000 + deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    int late = 0;
    while (!commands->is_ended && !late)
        late = pthread_cond_clockwait(&sim.changed, &sim.lock, CLOCK_MONOTONIC, &deadline) == ETIMEDOUT;
    commands->is_abandoned = 1;
    pthread_cond_broadcast(&sim.changed);
}

void sim_command_queue_close(struct sim_command_queue *commands)
{
    pthread_mutex_lock(&sim.lock);
    commands->is_closing = 1;
    pthread_cond_signal(&commands->has_work);
    if (commands->device)
        end_or_abandon(commands);
    pthread_mutex_unlock(&sim.lock);
    pthread_join(commands->thread, NULL);
    pthread_cond_destroy(&commands->has_work);
}

int sim_command_queue_append(struct sim_command_queue *commands, const struct sim_work *work)
{
    struct sim_work *own = malloc(sizeof *own);
    if (!own)
        return WEFT_NOMEM;
    *own = *work;
    own->next = NULL;
    *commands->end = own;
    commands->end = &own->next;
    if (own->event && (own->kind == SIM_MARK || own->kind == SIM_AWAIT))
        own->event->users++;
    if (own->wait)
        own->wait->users++;
    pthread_cond_signal(&commands->has_work);
    return WEFT_OK;
}

int sim_command_queue_add(struct sim_command_queue *commands, const struct sim_work *work)
{
    int status = sim_enter(commands->device);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < work->pointer_count && status == WEFT_OK; i++) {
        if (!sim_span_find(work->pointers[i], work->size))
            status = WEFT_INVALID;
    }
    if (status == WEFT_OK)
        status = sim_command_queue_append(commands, work);
    sim_leave();
    return status;
}
