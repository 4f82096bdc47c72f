/* SPDX-License-Identifier: Apache-2.0 */
/* One command queue: its work, notes and marks, and its end. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "devmem/borrowed.h"
#include "devmem/command_queue_private.h"

#define NOTES_BEGIN 32

void weft_command_queue_free(struct weft_command_queue *commands)
{
    pthread_mutex_destroy(&commands->queue_lock);
    free(commands->notes);
    free(commands->marks);
    free(commands);
}

/* Remembers why; the text is weft_error_detail(). What failed first is why the rest does. WEFT_AGAIN is nothing that work of a kind
 * can fail with: of operations it means that they run. */
static int fail(struct weft_command_queue *commands, int status)
{
    if (status == WEFT_AGAIN)
        status = WEFT_SYSTEM;
    if (commands->status == WEFT_OK) {
        commands->status = status;
        memcpy(commands->why, weft_error_detail(), strlen(weft_error_detail()) + 1);
    }
    return status;
}

static int failed(const struct weft_command_queue *commands)
{
    return weft_fail(commands->status, "%s", commands->why);
}

/* The driver says what has happened; marks that have are let go. What was noted before work that has failed is not due. */
static int look(struct weft_command_queue *commands)
{
    while (commands->status == WEFT_OK && commands->first_mark != commands->next_mark) {
        struct weft_command_queue_mark *mark =
            &commands->marks[commands->first_mark % commands->marks_capacity];
        int happened = commands->kind->ops.test(mark->event);
        if (happened == 0)
            break;
        if (happened < 0)
            fail(commands, happened);
        else
            commands->due_note = mark->end;
        commands->kind->ops.event_free(mark->event);
        commands->first_mark++;
    }
    return commands->status;
}

int weft_command_queue_has_ended(const struct weft_command_queue *commands)
{
    return commands->first_mark == commands->next_mark && (!commands->has_work || commands->is_blind);
}

int weft_command_queue_is_idle(const struct weft_command_queue *commands)
{
    return commands->first_mark == commands->next_mark && !commands->has_work &&
           commands->first_note == commands->next_note;
}

int weft_command_queue_look_to_the_end(struct weft_command_queue *commands)
{
    look(commands);
    while (commands->status != WEFT_OK && commands->first_mark != commands->next_mark) {
        struct weft_command_queue_mark *mark =
            &commands->marks[commands->first_mark % commands->marks_capacity];
        if (commands->kind->ops.test(mark->event) == 0)
            break;
        commands->kind->ops.event_free(mark->event);
        commands->first_mark++;
    }
    return weft_command_queue_has_ended(commands);
}

/* Doubles a ring whose entries [first, next) stay. NULL: no memory, which has been said. */
static void *grow(void *ring, uint32_t *capacity, uint32_t first, uint32_t next, size_t entry_bytes)
{
    uint32_t old = *capacity, grown = old ? 2 * old : NOTES_BEGIN;
    char *made = malloc(grown * entry_bytes);
    if (!made) {
        weft_fail(WEFT_NOMEM, "no memory for %u notes of a device's work", grown);
        return NULL;
    }
    for (uint32_t n = first; n != next; n++)
        memcpy(made + n % grown * entry_bytes, (const char *)ring + n % old * entry_bytes, entry_bytes);
    free(ring);
    *capacity = grown;
    return made;
}

static int grow_notes(struct weft_command_queue *commands)
{
    void *ring = grow(commands->notes, &commands->notes_capacity, commands->first_note, commands->next_note,
                      sizeof *commands->notes);
    commands->notes = ring ? ring : commands->notes;
    return ring ? WEFT_OK : WEFT_NOMEM;
}

static int grow_marks(struct weft_command_queue *commands)
{
    void *ring = grow(commands->marks, &commands->marks_capacity, commands->first_mark, commands->next_mark,
                      sizeof *commands->marks);
    commands->marks = ring ? ring : commands->marks;
    return ring ? WEFT_OK : WEFT_NOMEM;
}

/* A mark behind all that is queued, also when the command queue has failed. */
static int put_mark(struct weft_command_queue *commands)
{
    if (commands->next_mark - commands->first_mark == commands->marks_capacity) {
        int status = grow_marks(commands);
        if (status != WEFT_OK)
            return status;
    }
    struct weft_command_queue_mark *mark = &commands->marks[commands->next_mark % commands->marks_capacity];
    pthread_mutex_lock(&commands->queue_lock);
    int status = commands->kind->ops.mark(commands->queue, &mark->event);
    pthread_mutex_unlock(&commands->queue_lock);
    if (status != WEFT_OK)
        return status;
    mark->end = commands->noted = commands->next_note;
    commands->next_mark++;
    commands->has_work = 0;
    return WEFT_OK;
}

void weft_command_queue_mark_the_end(struct weft_command_queue *commands)
{
    int status = commands->has_work && !commands->is_blind ? put_mark(commands) : WEFT_OK;
    if (status == WEFT_OK)
        return;
    weft_log(WEFT_LOG_ERROR,
             "%s device %d may still work on an operation that has ended, with nothing to say when: %s",
             commands->kind->name, commands->ordinal, weft_error_detail());
    fail(commands, status);
    commands->is_blind = 1;
}

int weft_command_queue_open(const struct weft_device_kind *kind, int ordinal,
                            struct weft_command_queue **opened)
{
    struct weft_command_queue *commands = calloc(1, sizeof *commands);
    if (!commands)
        return weft_fail(WEFT_NOMEM, "no memory for a command queue");
    commands->kind = kind;
    commands->ordinal = ordinal;
    pthread_mutex_init(&commands->queue_lock, NULL);
    int status = grow_notes(commands) == WEFT_OK ? grow_marks(commands) : WEFT_NOMEM;
    if (status == WEFT_OK)
        status = kind->ops.queue_open(kind->device, ordinal, &commands->queue);
    if (status == WEFT_OK) {
        *opened = commands;
        return WEFT_OK;
    }
    weft_command_queue_free(commands);
    return status;
}

const struct weft_device_kind *weft_command_queue_kind(const struct weft_command_queue *commands)
{
    return commands->kind;
}

int weft_command_queue_flush_writes(struct weft_command_queue *commands)
{
    return commands->kind->ops.flush_writes(commands->kind->device, commands->ordinal);
}

int weft_command_queue_ordinal(const struct weft_command_queue *commands)
{
    return commands->ordinal;
}

/* Notes what queueing has come to. A command queue that could not queue something has failed: what follows would lack it. */
static int queued(struct weft_command_queue *commands, int status)
{
    commands->has_work = 1; /* also where a part of it could not be queued */
    return status != WEFT_OK ? fail(commands, status) : WEFT_OK;
}

/* What is refused is not queued, and nothing that follows would lack it: the caller does without, or fails by itself. */
static int queued_or_refused(struct weft_command_queue *commands, int status)
{
    return status == WEFT_UNSUPPORTED ? status : queued(commands, status);
}

/* WEFT_OK with the queue locked. */
static int queue_begin(struct weft_command_queue *commands)
{
    if (commands->status != WEFT_OK)
        return failed(commands);
    pthread_mutex_lock(&commands->queue_lock);
    if (!atomic_load_explicit(&commands->is_stopped, memory_order_relaxed))
        return WEFT_OK;
    pthread_mutex_unlock(&commands->queue_lock);
    return fail(commands, weft_borrowed_gone());
}

int weft_command_queue_copy(struct weft_command_queue *commands, void *destination, const void *source,
                            size_t size)
{
    int status = queue_begin(commands);
    if (status != WEFT_OK)
        return status;
    status = commands->kind->ops.copy(commands->queue, destination, source, size);
    pthread_mutex_unlock(&commands->queue_lock);
    return queued_or_refused(commands, status);
}

int weft_command_queue_reduce(struct weft_command_queue *commands,
                              const struct weft_device_reduction *reduction)
{
    int status = queue_begin(commands);
    if (status != WEFT_OK)
        return status;
    status = commands->kind->ops.reduce(commands->queue, reduction);
    pthread_mutex_unlock(&commands->queue_lock);
    return queued_or_refused(commands, status);
}

int weft_command_queue_run(struct weft_command_queue *commands,
                           const struct weft_device_collective *collective)
{
    int status = queue_begin(commands);
    if (status != WEFT_OK)
        return status;
    status = commands->kind->ops.run(commands->queue, collective);
    pthread_mutex_unlock(&commands->queue_lock);
    return queued(commands, status);
}

void weft_command_queue_borrows(struct weft_command_queue *commands)
{
    commands->has_borrowed = 1;
}

void weft_command_queue_hold_on(struct weft_command_queue *commands)
{
    atomic_fetch_add(&commands->holders, 1);
}

void weft_command_queue_let_go(struct weft_command_queue *commands)
{
    atomic_fetch_sub(&commands->holders, 1);
}

static int late(const struct weft_command_queue *commands)
{
    return weft_fail(WEFT_TIMEOUT, "the work of a queue of %s device %d has not ended", commands->kind->name,
                     commands->ordinal);
}

int weft_command_queue_stop(struct weft_command_queue *commands, int64_t timeout_ms)
{
    const struct weft_device_ops *ops = &commands->kind->ops;
    struct weft_device_event *event = NULL;
    int64_t until_ns = weft_deadline_ns(timeout_ms);
    pthread_mutex_lock(&commands->queue_lock);
    atomic_store_explicit(&commands->is_stopped, 1, memory_order_relaxed);
    int is_open = atomic_load(&commands->end) == WEFT_COMMAND_QUEUE_OPEN;
    int status = is_open ? ops->mark(commands->queue, &event) : WEFT_OK;
    pthread_mutex_unlock(&commands->queue_lock);
    if (status != WEFT_OK)
        return status;
    while (!is_open && atomic_load(&commands->end) != WEFT_COMMAND_QUEUE_CLOSED) {
        if (weft_clock_ns() >= until_ns)
            return late(commands);
        sched_yield();
    }
    if (!is_open)
        return WEFT_OK;
    int happened;
    while ((happened = ops->test(event)) == 0 && weft_clock_ns() < until_ns)
        sched_yield();
    ops->event_free(event);
    return happened == 0 ? late(commands) : WEFT_OK;
}

int weft_command_queue_close_wait(struct weft_command_queue *commands, void *stream)
{
    return weft_device_wait_close(commands->kind, commands->ordinal, stream, &commands->wait);
}

void weft_command_queue_take_wait(struct weft_command_queue *commands, struct weft_device_wait *wait)
{
    commands->wait = wait;
}

/* A stream that waits for ever is worse than one that goes on too early, which the command queue's failure shows. */
int weft_command_queue_open_wait(struct weft_command_queue *commands)
{
    struct weft_device_wait *wait = commands->wait;
    if (!wait)
        return WEFT_OK;
    commands->wait = NULL;
    int is_behind = commands->status == WEFT_OK && !weft_command_queue_has_ended(commands);
    int status = WEFT_OK;
    if (is_behind) {
        pthread_mutex_lock(&commands->queue_lock);
        status = commands->kind->ops.wait_open(wait, commands->queue);
        pthread_mutex_unlock(&commands->queue_lock);
        queued(commands, status);
    }
    if (!is_behind || status != WEFT_OK) {
        int opened = weft_device_wait_open_now(commands->kind, commands->ordinal, wait);
        status = status == WEFT_OK ? opened : failed(commands);
    }
    weft_device_wait_forget(commands->kind, wait);
    return status;
}

int weft_command_queue_note(struct weft_command_queue *commands, const struct weft_command_queue_note *note)
{
    if (commands->next_note - commands->first_note == commands->notes_capacity) {
        int status = grow_notes(commands);
        if (status != WEFT_OK)
            return status;
    }
    commands->notes[commands->next_note++ % commands->notes_capacity] = *note;
    return WEFT_OK;
}

int weft_command_queue_flush(struct weft_command_queue *commands)
{
    if (commands->status)
        return failed(commands);
    if (!commands->has_work && commands->noted == commands->next_note)
        return WEFT_OK;
    int status = put_mark(commands);
    return status == WEFT_OK ? WEFT_OK : fail(commands, status);
}

int weft_command_queue_poll(struct weft_command_queue *commands, struct weft_command_queue_note *note)
{
    if (commands->status || (commands->first_note == commands->due_note && look(commands) != WEFT_OK))
        return failed(commands);
    if (commands->first_note == commands->due_note)
        return 0;
    *note = commands->notes[commands->first_note++ % commands->notes_capacity];
    return 1;
}

int weft_command_queue_drain(struct weft_command_queue *commands, int64_t timeout_ms)
{
    int64_t until_ns = weft_deadline_ns(timeout_ms);
    weft_command_queue_mark_the_end(commands);
    while (!weft_command_queue_look_to_the_end(commands)) {
        if (weft_clock_ns() >= until_ns)
            return WEFT_TIMEOUT;
        sched_yield();
    }
    commands->first_note = commands->due_note = commands->noted = commands->next_note;
    return commands->status ? failed(commands) : WEFT_OK;
}

int weft_command_queue_reduces(struct weft_command_queue *commands, weft_dtype dtype, weft_op op)
{
    char detail[WEFT_DETAIL_MAX];
    _Alignas(16) uint8_t nothing[16] = {0};
    const void *const sources[2] = {nothing, nothing};
    void *const destinations[1] = {nothing};
    const struct weft_device_reduction reduction = {.size = sizeof reduction,
                                                    .dtype = dtype,
                                                    .op = op,
                                                    .source_count = 2,
                                                    .destination_count = 1,
                                                    .sources = sources,
                                                    .destinations = destinations};
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    pthread_mutex_lock(&commands->queue_lock);
    int status = commands->kind->ops.reduce(commands->queue, &reduction);
    pthread_mutex_unlock(&commands->queue_lock);
    weft_error_set_detail(detail);
    return status != WEFT_UNSUPPORTED && status != WEFT_NOT_FOUND;
}
