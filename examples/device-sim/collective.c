/* SPDX-License-Identifier: Apache-2.0 */
/* Device collectives.
 *
 * run() looks at everything that can be known to be wrong and keeps a copy of the steps. The queue's thread then does one step after the
 * other by itself. Nothing but words joins it with the threads of other queues, be they in this process or in another one: they are
 * stored with release and loaded with acquire, so that what was written before a word is seen behind it.
 *
 * A thread that waits for a word looks at it, at the device collective's stop, and, when it has looked some times, at whether its queue is being
 * closed. delay= makes each step late. fail= chooses among device collectives, not steps: one that is chosen ends at one of its steps,
 * and those before it are done.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_private.h"

#define LOOKS    64 /* at a word, before the thread sleeps */
#define SLEEP_US 20

/* --- what is queued */

static int refuse(const struct weft_device_queue *queue, uint32_t number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse(const struct weft_device_queue *queue, uint32_t number, const char *format, ...)
{
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return queue->device->params.fail(WEFT_INVALID, "sim: step %u of a device collective %s", number, text);
}

/* What can be said without knowing whose memory is where. */
static int check_form(const struct weft_device_queue *queue, uint32_t number,
                      const struct weft_device_step *step, size_t element_bytes)
{
    uint64_t bytes;
    switch (step->kind) {
    case WEFT_DEVICE_STEP_REDUCE:
        if (step->source_count < 1 || step->source_count > WEFT_DEVICE_SOURCES_MAX ||
            step->destination_count < 1 || step->destination_count > WEFT_DEVICE_DESTINATIONS_MAX)
            return refuse(queue, number, "reduces %u sources (1 to %d) to %u destinations (1 to %d)",
                          step->source_count, WEFT_DEVICE_SOURCES_MAX, step->destination_count,
                          WEFT_DEVICE_DESTINATIONS_MAX);
        if (__builtin_mul_overflow(step->count, element_bytes, &bytes))
            return refuse(queue, number, "has %llu elements: more than there is memory",
                          (unsigned long long)step->count);
        return WEFT_OK;
    case WEFT_DEVICE_STEP_SIGNAL:
    case WEFT_DEVICE_STEP_AWAIT:
        if ((uintptr_t)step->word % sizeof *step->word)
            return refuse(queue, number, "has its word at %p: expected a multiple of %zu", (void *)step->word,
                          sizeof *step->word);
        return WEFT_OK;
    default:
        return refuse(queue, number, "is of kind %u: expected 0 to %d", step->kind, WEFT_DEVICE_STEP_AWAIT);
    }
}

/* The places of a step, destinations before sources, or its word; how many, and of how many bytes each. */
static int places_of(const struct weft_device_step *step, size_t element_bytes, void **pointers, size_t *size)
{
    int used = 0;
    if (step->kind != WEFT_DEVICE_STEP_REDUCE) {
        pointers[0] = step->word;
        *size = sizeof *step->word;
        return 1;
    }
    *size = (size_t)step->count * element_bytes;
    for (uint32_t d = 0; d < step->destination_count; d++)
        pointers[used++] = step->destinations[d];
    for (uint32_t s = 0; s < step->source_count; s++)
        pointers[used++] = (void *)(uintptr_t)step->sources[s];
    return *size > 0 ? used : 0;
}

/* [lock] */
static int check_reach(const struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    size_t element_bytes = sim_element_bytes(collective->dtype), size;
    void *pointers[SIM_POINTERS_MAX];
    const struct sim_span *span = sim_span_find(collective->stop, sizeof *collective->stop);
    if (!span || span->kind != WEFT_MEMORY_PINNED)
        return queue->device->params.fail(WEFT_INVALID,
                                          "sim: a device collective's stop is at %p: no pinned memory",
                                          (const void *)collective->stop);
    for (uint32_t i = 0; i < collective->step_count; i++) {
        int count = places_of(&collective->steps[i], element_bytes, pointers, &size);
        for (int p = 0; p < count; p++) {
            if (!sim_span_find(pointers[p], size))
                return refuse(queue, i, "uses %zu bytes at %p: no memory that devices can reach", size,
                              pointers[p]);
            if (!sim_is_reached(queue->device, queue->ordinal, pointers[p]))
                return queue->device->params.fail(
                    WEFT_UNSUPPORTED,
                    "sim: step %u of a device collective: device %d does not reach the memory at %p", i,
                    queue->ordinal, pointers[p]);
        }
    }
    return WEFT_OK;
}

static int check(const struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    const struct weft_device_params *params = &queue->device->params;
    if (collective->size < sizeof *collective)
        return params->fail(WEFT_INVALID, "sim: a device collective's struct has %zu bytes: expected %zu",
                            collective->size, sizeof *collective);
    if (collective->step_count < 1 || collective->step_count > WEFT_DEVICE_STEPS_MAX)
        return params->fail(WEFT_INVALID, "sim: a device collective of %u steps: expected 1 to %d",
                            collective->step_count, WEFT_DEVICE_STEPS_MAX);
    if (!sim_reduce_knows(collective->dtype, collective->op, 0))
        return params->fail(WEFT_UNSUPPORTED, "sim: operation %d of type %d is not supported",
                            (int)collective->op, (int)collective->dtype);
    if ((uintptr_t)collective->stop % sizeof *collective->stop)
        return params->fail(WEFT_INVALID,
                            "sim: a device collective's stop is at %p: expected a multiple of %zu",
                            (const void *)collective->stop, sizeof *collective->stop);
    int status = WEFT_OK;
    for (uint32_t i = 0; i < collective->step_count && status == WEFT_OK; i++)
        status = check_form(queue, i, &collective->steps[i], sim_element_bytes(collective->dtype));
    return status;
}

int sim_run(struct weft_device_queue *queue, const struct weft_device_collective *collective)
{
    int status = check(queue, collective);
    if (status == WEFT_OK)
        status = sim_enter(queue->device);
    if (status != WEFT_OK)
        return status;
    size_t steps_bytes = collective->step_count * sizeof *collective->steps;
    struct weft_device_collective *own = NULL;
    status = check_reach(queue, collective);
    if (status != WEFT_OK)
        goto leave;
    own = malloc(sizeof *own + steps_bytes);
    status = own ? WEFT_OK : WEFT_NOMEM;
    if (own) {
        *own = *collective;
        own->steps = (const struct weft_device_step *)(own + 1);
        memcpy(own + 1, collective->steps, steps_bytes);
        status = sim_command_queue_append(&queue->commands,
                                          &(struct sim_work){.kind = SIM_RUN, .collective = own});
    }
    if (status != WEFT_OK) {
        free(own);
        status = queue->device->params.fail(status, "sim: no memory for a device collective");
    }
leave:
    sim_leave();
    return status;
}

/* --- what the thread does */

static int is_set(const char *stop)
{
    return __atomic_load_n((const uint64_t *)(const void *)stop, __ATOMIC_ACQUIRE) != 0;
}

static void reduce(const struct weft_device_collective *collective, const struct weft_device_step *step,
                   char *const *views, size_t size)
{
    char *const *sources = views + step->destination_count;
    struct weft_device_reduction reduction = {.size = sizeof reduction,
                                              .dtype = collective->dtype,
                                              .op = collective->op,
                                              .source_count = step->source_count,
                                              .destination_count = step->destination_count,
                                              .sources = (const void *const *)sources,
                                              .destinations = (void *const *)views,
                                              .count = step->count,
                                              .finish = step->finish};
    if (step->source_count > 1 || step->finish) {
        sim_reduce(&reduction);
        return;
    }
    for (uint32_t d = 0; d < step->destination_count; d++)
        memmove(views[d], sources[0], size);
}

/* [lock] 1 when the word is there, 0 when the device collective ends here. */
static int await(struct sim_command_queue *commands, const uint64_t *word, uint64_t value, const char *stop)
{
    for (;;) {
        int is_there = 0, is_stopped = 0;
        pthread_mutex_unlock(&sim.lock);
        for (int look = 0; look < LOOKS && !is_there && !is_stopped; look++) {
            is_there = __atomic_load_n(word, __ATOMIC_ACQUIRE) >= value;
            is_stopped = !is_there && is_set(stop);
            if (!is_there && !is_stopped)
                sched_yield();
        }
        if (!is_there && !is_stopped)
            usleep(SLEEP_US);
        pthread_mutex_lock(&sim.lock);
        if (is_there || is_stopped)
            return is_there;
        if (commands->is_abandoned) {
            sim_command_queue_fail(commands, WEFT_CANCELLED,
                                   "sim: the queue was closed while a device collective waited for a word");
            return 0;
        }
    }
}

/* [lock] Whether the device collective goes on. */
static int step_run(struct sim_command_queue *commands, const struct weft_device_collective *collective,
                    const struct weft_device_step *step, const char *stop)
{
    struct sim_span *spans[SIM_POINTERS_MAX];
    void *pointers[SIM_POINTERS_MAX];
    char *views[SIM_POINTERS_MAX] = {NULL};
    size_t size;
    int count = places_of(step, sim_element_bytes(collective->dtype), pointers, &size), goes_on = 1;
    if (!sim_command_queue_hold(commands, pointers, count, size, spans, views))
        return 0;
    uint64_t *word = (uint64_t *)(void *)views[0];
    if (step->kind == WEFT_DEVICE_STEP_AWAIT) {
        goes_on = await(commands, word, step->value, stop);
    } else {
        unsigned delay_us = commands->device->delay_us;
        pthread_mutex_unlock(&sim.lock);
        if (delay_us)
            usleep((useconds_t)(sim_random(&commands->random) % (delay_us + 1)));
        if (step->kind == WEFT_DEVICE_STEP_SIGNAL)
            __atomic_store_n(word, step->value, __ATOMIC_RELEASE);
        else if (count > 0)
            reduce(collective, step, views, size);
        pthread_mutex_lock(&sim.lock);
    }
    sim_command_queue_release(spans, count);
    return goes_on;
}

void sim_collective_run(struct sim_command_queue *commands, const struct weft_device_collective *collective)
{
    unsigned one_in = commands->device->fail;
    uint32_t failing = collective->step_count; /* none */
    void *at = (void *)(uintptr_t)collective->stop;
    struct sim_span *span;
    char *stop;
    if (one_in && sim_random(&commands->random) % one_in == 0)
        failing = (uint32_t)(sim_random(&commands->random) % collective->step_count);
    if (!sim_command_queue_hold(commands, &at, 1, sizeof *collective->stop, &span, &stop))
        return;
    for (uint32_t i = 0; i < collective->step_count && !is_set(stop); i++) {
        if (i == failing)
            sim_command_queue_fail(commands, WEFT_TRANSPORT,
                                   "sim: a device collective fails, as the options say");
        if (i == failing || !step_run(commands, collective, &collective->steps[i], stop))
            break;
    }
    sim_command_queue_release(&span, 1);
}
