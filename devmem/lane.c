/* SPDX-License-Identifier: Apache-2.0 */
/* One lane: its work, notes and marks, and its end. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "devmem/lane_private.h"
#include "devmem/loan.h"

#define NOTES_BEGIN 32

void weft_lane_free(struct weft_lane *lane)
{
    pthread_mutex_destroy(&lane->queue_lock);
    free(lane->notes);
    free(lane->marks);
    free(lane);
}

/* Remembers why; the text is weft_error_detail(). What failed first is why the rest does. WEFT_AGAIN is nothing that work of a kind
 * can fail with: of operations it means that they run. */
static int fail(struct weft_lane *lane, int status)
{
    if (status == WEFT_AGAIN)
        status = WEFT_SYSTEM;
    if (lane->status == WEFT_OK) {
        lane->status = status;
        memcpy(lane->why, weft_error_detail(), strlen(weft_error_detail()) + 1);
    }
    return status;
}

static int failed(const struct weft_lane *lane)
{
    return weft_fail(lane->status, "%s", lane->why);
}

/* The driver says what has happened; marks that have are let go. What was noted before work that has failed is not due. */
static int look(struct weft_lane *lane)
{
    while (lane->status == WEFT_OK && lane->first_mark != lane->next_mark) {
        struct weft_lane_mark *mark = &lane->marks[lane->first_mark % lane->marks_capacity];
        int happened = lane->kind->ops.test(mark->event);
        if (happened == 0)
            break;
        if (happened < 0)
            fail(lane, happened);
        else
            lane->due_note = mark->end;
        lane->kind->ops.event_free(mark->event);
        lane->first_mark++;
    }
    return lane->status;
}

int weft_lane_has_ended(const struct weft_lane *lane)
{
    return lane->first_mark == lane->next_mark && (!lane->has_work || lane->is_blind);
}

int weft_lane_is_idle(const struct weft_lane *lane)
{
    return lane->first_mark == lane->next_mark && !lane->has_work && lane->first_note == lane->next_note;
}

int weft_lane_look_to_the_end(struct weft_lane *lane)
{
    look(lane);
    while (lane->status != WEFT_OK && lane->first_mark != lane->next_mark) {
        struct weft_lane_mark *mark = &lane->marks[lane->first_mark % lane->marks_capacity];
        if (lane->kind->ops.test(mark->event) == 0)
            break;
        lane->kind->ops.event_free(mark->event);
        lane->first_mark++;
    }
    return weft_lane_has_ended(lane);
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

static int grow_notes(struct weft_lane *lane)
{
    void *ring =
        grow(lane->notes, &lane->notes_capacity, lane->first_note, lane->next_note, sizeof *lane->notes);
    lane->notes = ring ? ring : lane->notes;
    return ring ? WEFT_OK : WEFT_NOMEM;
}

static int grow_marks(struct weft_lane *lane)
{
    void *ring =
        grow(lane->marks, &lane->marks_capacity, lane->first_mark, lane->next_mark, sizeof *lane->marks);
    lane->marks = ring ? ring : lane->marks;
    return ring ? WEFT_OK : WEFT_NOMEM;
}

/* A mark behind all that is queued, also when the lane has failed. */
static int put_mark(struct weft_lane *lane)
{
    if (lane->next_mark - lane->first_mark == lane->marks_capacity) {
        int status = grow_marks(lane);
        if (status != WEFT_OK)
            return status;
    }
    struct weft_lane_mark *mark = &lane->marks[lane->next_mark % lane->marks_capacity];
    pthread_mutex_lock(&lane->queue_lock);
    int status = lane->kind->ops.mark(lane->queue, &mark->event);
    pthread_mutex_unlock(&lane->queue_lock);
    if (status != WEFT_OK)
        return status;
    mark->end = lane->noted = lane->next_note;
    lane->next_mark++;
    lane->has_work = 0;
    return WEFT_OK;
}

void weft_lane_mark_the_end(struct weft_lane *lane)
{
    int status = lane->has_work && !lane->is_blind ? put_mark(lane) : WEFT_OK;
    if (status == WEFT_OK)
        return;
    weft_log(WEFT_LOG_ERROR,
             "%s device %d may still work on an operation that has ended, with nothing to say when: %s",
             lane->kind->name, lane->ordinal, weft_error_detail());
    fail(lane, status);
    lane->is_blind = 1;
}

int weft_lane_open(const struct weft_device_kind *kind, int ordinal, struct weft_lane **opened)
{
    struct weft_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return weft_fail(WEFT_NOMEM, "no memory for a lane");
    lane->kind = kind;
    lane->ordinal = ordinal;
    pthread_mutex_init(&lane->queue_lock, NULL);
    int status = grow_notes(lane) == WEFT_OK ? grow_marks(lane) : WEFT_NOMEM;
    if (status == WEFT_OK)
        status = kind->ops.queue_open(kind->device, ordinal, &lane->queue);
    if (status == WEFT_OK) {
        *opened = lane;
        return WEFT_OK;
    }
    weft_lane_free(lane);
    return status;
}

const struct weft_device_kind *weft_lane_kind(const struct weft_lane *lane)
{
    return lane->kind;
}

int weft_lane_flush_writes(struct weft_lane *lane)
{
    return lane->kind->ops.flush_writes(lane->kind->device, lane->ordinal);
}

int weft_lane_ordinal(const struct weft_lane *lane)
{
    return lane->ordinal;
}

/* Notes what queueing has come to. A lane that could not queue something has failed: what follows would lack it. */
static int queued(struct weft_lane *lane, int status)
{
    lane->has_work = 1; /* also where a part of it could not be queued */
    return status != WEFT_OK ? fail(lane, status) : WEFT_OK;
}

/* What is refused is not queued, and nothing that follows would lack it: the caller does without, or fails by itself. */
static int queued_or_refused(struct weft_lane *lane, int status)
{
    return status == WEFT_UNSUPPORTED ? status : queued(lane, status);
}

/* WEFT_OK with the queue locked. */
static int queue_begin(struct weft_lane *lane)
{
    if (lane->status != WEFT_OK)
        return failed(lane);
    pthread_mutex_lock(&lane->queue_lock);
    if (!atomic_load_explicit(&lane->is_stopped, memory_order_relaxed))
        return WEFT_OK;
    pthread_mutex_unlock(&lane->queue_lock);
    return fail(lane, weft_loan_gone());
}

int weft_lane_copy(struct weft_lane *lane, void *destination, const void *source, size_t size)
{
    int status = queue_begin(lane);
    if (status != WEFT_OK)
        return status;
    status = lane->kind->ops.copy(lane->queue, destination, source, size);
    pthread_mutex_unlock(&lane->queue_lock);
    return queued_or_refused(lane, status);
}

int weft_lane_reduce(struct weft_lane *lane, const struct weft_device_reduction *reduction)
{
    int status = queue_begin(lane);
    if (status != WEFT_OK)
        return status;
    status = lane->kind->ops.reduce(lane->queue, reduction);
    pthread_mutex_unlock(&lane->queue_lock);
    return queued_or_refused(lane, status);
}

int weft_lane_run(struct weft_lane *lane, const struct weft_device_program *program)
{
    int status = queue_begin(lane);
    if (status != WEFT_OK)
        return status;
    status = lane->kind->ops.run(lane->queue, program);
    pthread_mutex_unlock(&lane->queue_lock);
    return queued(lane, status);
}

void weft_lane_borrows(struct weft_lane *lane)
{
    lane->has_borrowed = 1;
}

void weft_lane_hold_on(struct weft_lane *lane)
{
    atomic_fetch_add(&lane->holders, 1);
}

void weft_lane_let_go(struct weft_lane *lane)
{
    atomic_fetch_sub(&lane->holders, 1);
}

static int late(const struct weft_lane *lane)
{
    return weft_fail(WEFT_TIMEOUT, "the work of a queue of %s device %d has not ended", lane->kind->name,
                     lane->ordinal);
}

int weft_lane_stop(struct weft_lane *lane, int64_t timeout_ms)
{
    const struct weft_device_ops *ops = &lane->kind->ops;
    struct weft_device_event *event = NULL;
    int64_t until_ns = weft_deadline_ns(timeout_ms);
    pthread_mutex_lock(&lane->queue_lock);
    atomic_store_explicit(&lane->is_stopped, 1, memory_order_relaxed);
    int is_open = atomic_load(&lane->end) == WEFT_LANE_OPEN;
    int status = is_open ? ops->mark(lane->queue, &event) : WEFT_OK;
    pthread_mutex_unlock(&lane->queue_lock);
    if (status != WEFT_OK)
        return status;
    while (!is_open && atomic_load(&lane->end) != WEFT_LANE_CLOSED) {
        if (weft_clock_ns() >= until_ns)
            return late(lane);
        sched_yield();
    }
    if (!is_open)
        return WEFT_OK;
    int happened;
    while ((happened = ops->test(event)) == 0 && weft_clock_ns() < until_ns)
        sched_yield();
    ops->event_free(event);
    return happened == 0 ? late(lane) : WEFT_OK;
}

int weft_lane_hold(struct weft_lane *lane, void *stream)
{
    return weft_gate_close(lane->kind, lane->ordinal, stream, &lane->gate);
}

void weft_lane_take_gate(struct weft_lane *lane, struct weft_device_gate *gate)
{
    lane->gate = gate;
}

/* A stream that waits for ever is worse than one that goes on too early, which the lane's failure tells. */
int weft_lane_open_gate(struct weft_lane *lane)
{
    struct weft_device_gate *gate = lane->gate;
    if (!gate)
        return WEFT_OK;
    lane->gate = NULL;
    int is_behind = lane->status == WEFT_OK && !weft_lane_has_ended(lane);
    int status = WEFT_OK;
    if (is_behind) {
        pthread_mutex_lock(&lane->queue_lock);
        status = lane->kind->ops.open_gate(gate, lane->queue);
        pthread_mutex_unlock(&lane->queue_lock);
        queued(lane, status);
    }
    if (!is_behind || status != WEFT_OK) {
        int opened = weft_gate_open_now(lane->kind, lane->ordinal, gate);
        status = status == WEFT_OK ? opened : failed(lane);
    }
    weft_gate_forget(lane->kind, gate);
    return status;
}

int weft_lane_note(struct weft_lane *lane, const struct weft_lane_note *note)
{
    if (lane->next_note - lane->first_note == lane->notes_capacity) {
        int status = grow_notes(lane);
        if (status != WEFT_OK)
            return status;
    }
    lane->notes[lane->next_note++ % lane->notes_capacity] = *note;
    return WEFT_OK;
}

int weft_lane_flush(struct weft_lane *lane)
{
    if (lane->status)
        return failed(lane);
    if (!lane->has_work && lane->noted == lane->next_note)
        return WEFT_OK;
    int status = put_mark(lane);
    return status == WEFT_OK ? WEFT_OK : fail(lane, status);
}

int weft_lane_poll(struct weft_lane *lane, struct weft_lane_note *note)
{
    if (lane->status || (lane->first_note == lane->due_note && look(lane) != WEFT_OK))
        return failed(lane);
    if (lane->first_note == lane->due_note)
        return 0;
    *note = lane->notes[lane->first_note++ % lane->notes_capacity];
    return 1;
}

int weft_lane_drain(struct weft_lane *lane, int64_t timeout_ms)
{
    int64_t until_ns = weft_deadline_ns(timeout_ms);
    weft_lane_mark_the_end(lane);
    while (!weft_lane_look_to_the_end(lane)) {
        if (weft_clock_ns() >= until_ns)
            return WEFT_TIMEOUT;
        sched_yield();
    }
    lane->first_note = lane->due_note = lane->noted = lane->next_note;
    return lane->status ? failed(lane) : WEFT_OK;
}

int weft_lane_reduces(struct weft_lane *lane, weft_dtype dtype, weft_op op)
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
    pthread_mutex_lock(&lane->queue_lock);
    int status = lane->kind->ops.reduce(lane->queue, &reduction);
    pthread_mutex_unlock(&lane->queue_lock);
    weft_error_set_detail(detail);
    return status != WEFT_UNSUPPORTED && status != WEFT_MISSING;
}
