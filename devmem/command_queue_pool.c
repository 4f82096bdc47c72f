/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: command queues that are kept, those that are set aside until their work has ended, and memory for their
 * work. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "devmem/borrowed.h"
#include "devmem/command_queue_private.h"
#include "devmem/command_queue_surplus.h"

#define IDLE_MAX   WEFT_COMMAND_QUEUES_KNOWN_MAX /* command queues kept for the next operation */
#define MEMORY_MAX ((size_t)256 << 20)           /* device memory that they keep together */
#define DESTROY_MS 1000

int weft_command_queues_create(struct weft_command_queues **queues)
{
    *queues = calloc(1, sizeof **queues);
    return *queues ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for command queues");
}

static void release_kept(struct weft_command_queue *commands)
{
    while (commands->kept) {
        struct weft_command_queue_kept *kept = commands->kept;
        commands->kept = kept->next;
        kept->release(kept->arg, kept->index, kept->memory, kept->size);
        free(kept);
    }
}

static size_t memory_of(const struct weft_command_queue *commands)
{
    size_t bytes = 0;
    for (int use = 0; use < WEFT_COMMAND_QUEUE_USES; use++)
        bytes += commands->memory[use].bytes;
    return bytes;
}

static void release_use(struct weft_command_queue *commands, int use)
{
    if (commands->memory[use].bytes)
        weft_command_queue_surplus_add(&commands->queues->surplus, commands->kind, commands->ordinal,
                                       commands->memory[use].memory, commands->memory[use].bytes);
    commands->memory[use].bytes = 0;
}

static void release_memory(struct weft_command_queue *commands)
{
    for (int use = 0; use < WEFT_COMMAND_QUEUE_USES; use++)
        release_use(commands, use);
}

/* Nobody holds the command queue from here on, except who does already. */
static void return_borrowed(struct weft_command_queue *commands)
{
    if (commands->has_borrowed)
        weft_borrowed_return_all(commands, 1);
    commands->has_borrowed = 0;
}

/* Of a command queue that has failed nobody knows what is done; when its queue is closed, all is. */
static void close_command_queue(struct weft_command_queue *commands)
{
    for (uint32_t m = commands->first_mark; m != commands->next_mark; m++)
        commands->kind->ops.event_free(commands->marks[m % commands->marks_capacity].event);
    pthread_mutex_lock(&commands->queue_lock);
    atomic_store(&commands->end,
                 WEFT_COMMAND_QUEUE_CLOSING); /* which may take long: nobody waits for the lock meanwhile */
    pthread_mutex_unlock(&commands->queue_lock);
    commands->kind->ops.queue_close(commands->queue);
    atomic_store(&commands->end, WEFT_COMMAND_QUEUE_CLOSED);
    return_borrowed(commands);
    release_kept(commands);
    release_memory(commands);
    while (atomic_load(&commands->holders)) /* until what they wait for has happened, or their time is over */
        sched_yield();
    weft_command_queue_free(commands);
}

static void make_idle(struct weft_command_queue *commands)
{
    struct weft_command_queues *queues = commands->queues;
    commands->first_note = commands->due_note = commands->next_note = commands->noted = 0;
    if (commands->status == WEFT_OK)
        return_borrowed(commands);
    if (commands->status != WEFT_OK || queues->idle_count >= IDLE_MAX || atomic_load(&commands->holders) ||
        atomic_load(&commands->is_stopped)) {
        close_command_queue(commands);
        return;
    }
    release_kept(commands);
    if (queues->idle_bytes + memory_of(commands) > MEMORY_MAX)
        release_memory(commands);
    queues->idle_bytes += memory_of(commands);
    commands->next = queues->idle;
    queues->idle = commands;
    queues->idle_count++;
}

/* What was set aside and has ended meanwhile. */
static void reap(struct weft_command_queues *queues)
{
    char detail[WEFT_DETAIL_MAX];
    if (!queues->aside)
        return;
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    for (struct weft_command_queue **at = &queues->aside, *commands; (commands = *at);) {
        if (!weft_command_queue_look_to_the_end(commands)) {
            at = &commands->next;
            continue;
        }
        *at = commands->next;
        make_idle(commands);
    }
    weft_error_set_detail(detail);
}

void weft_command_queues_destroy(struct weft_command_queues *queues)
{
    if (!queues)
        return;
    int64_t until_ns = weft_clock_ns() + (int64_t)DESTROY_MS * 1000000;
    for (reap(queues); queues->aside && weft_clock_ns() < until_ns; reap(queues))
        sched_yield();
    while (queues->idle) {
        struct weft_command_queue *commands = queues->idle;
        queues->idle = commands->next;
        close_command_queue(commands);
    }
    while (queues->aside) {
        struct weft_command_queue *commands = queues->aside;
        queues->aside = commands->next;
        weft_log(WEFT_LOG_WARN, "work on %s device %d has not ended: its queue is left to the driver",
                 commands->kind->name, commands->ordinal);
        if (commands->has_borrowed)
            weft_borrowed_return_all(commands, 0);
        commands->has_borrowed = 0;
        while (commands->kept) { /* what the work uses is not given back */
            struct weft_command_queue_kept *kept = commands->kept;
            commands->kept = kept->next;
            free(kept);
        }
        memset(commands->memory, 0, sizeof commands->memory);
        close_command_queue(commands);
    }
    weft_command_queue_surplus_end(&queues->surplus);
    weft_command_queue_surplus_end(&queues->retired);
    free(queues);
}

int weft_command_queues_know(const struct weft_command_queues *queues, const struct weft_device_kind *kind,
                             int ordinal)
{
    uint32_t k = queues->known_count;
    while (k && (queues->known_kinds[k - 1] != kind || queues->known_ordinals[k - 1] != ordinal))
        k--;
    return k > 0;
}

void weft_command_queues_join(struct weft_command_queues *queues, struct weft_command_queue *commands)
{
    commands->queues = queues;
    if (queues->known_count == WEFT_COMMAND_QUEUES_KNOWN_MAX ||
        weft_command_queues_know(queues, commands->kind, commands->ordinal))
        return;
    queues->known_kinds[queues->known_count] = commands->kind;
    queues->known_ordinals[queues->known_count++] = commands->ordinal;
}

int weft_command_queue_get(struct weft_command_queues *queues, const struct weft_device_kind *kind,
                           int ordinal, struct weft_command_queue **got)
{
    reap(queues);
    for (struct weft_command_queue **at = &queues->idle, *commands; (commands = *at); at = &commands->next) {
        if (commands->kind != kind || commands->ordinal != ordinal)
            continue;
        *at = commands->next;
        queues->idle_count--;
        queues->idle_bytes -= memory_of(commands);
        *got = commands;
        return WEFT_OK;
    }
    int status = weft_command_queue_open(kind, ordinal, got);
    if (status == WEFT_OK)
        weft_command_queues_join(queues, *got);
    return status;
}

void weft_command_queue_put(struct weft_command_queue *commands)
{
    if (!commands)
        return;
    char detail[WEFT_DETAIL_MAX];
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    weft_command_queue_open_wait(commands);
    weft_command_queue_mark_the_end(commands);
    if (weft_command_queue_look_to_the_end(commands)) {
        make_idle(commands);
    } else {
        commands->next = commands->queues->aside;
        commands->queues->aside = commands;
    }
    weft_error_set_detail(detail);
}

struct weft_command_queue_surplus **weft_command_queues_surplus(struct weft_command_queues *queues,
                                                                int is_retired)
{
    return is_retired ? &queues->retired : &queues->surplus;
}

struct weft_command_queues *weft_command_queue_pool(const struct weft_command_queue *commands)
{
    return commands->queues;
}

static int allocate(struct weft_command_queue *commands, int use, size_t size)
{
    const struct weft_device_kind *kind = commands->kind;
    void **made = &commands->memory[use].memory;
    int status = kind->ops.allocate(kind->device, commands->ordinal, WEFT_MEMORY_DEVICE, size, made);
    commands->memory[use].bytes = status == WEFT_OK ? size : 0;
    return status;
}

int weft_command_queue_memory(struct weft_command_queue *commands, enum weft_command_queue_use use,
                              size_t size, void **memory)
{
    if (commands->memory[use].bytes < size) {
        release_use(commands, (int)use);
        commands->memory[use].bytes =
            weft_command_queue_surplus_find(&commands->queues->surplus, commands->kind, commands->ordinal,
                                            size, &commands->memory[use].memory);
        int status = commands->memory[use].bytes ? WEFT_OK : allocate(commands, (int)use, size);
        if (status == WEFT_NOMEM && commands->queues->surplus) {
            weft_command_queue_surplus_release(&commands->queues->surplus);
            status = allocate(commands, (int)use, size);
        }
        if (status != WEFT_OK)
            return status;
    }
    *memory = commands->memory[use].memory;
    return WEFT_OK;
}

void weft_command_queue_keep(struct weft_command_queue *commands, weft_command_queue_release *release,
                             void *arg, uint32_t index, void *memory, size_t size)
{
    int is_free = commands->status == WEFT_OK && weft_command_queue_has_ended(commands);
    struct weft_command_queue_kept *kept = is_free ? NULL : malloc(sizeof *kept);
    if (!kept) {
        if (is_free)
            release(arg, index, memory, size);
        return; /* without memory for the note it is never given back */
    }
    *kept = (struct weft_command_queue_kept){commands->kept, release, arg, index, memory, size};
    commands->kept = kept;
}
