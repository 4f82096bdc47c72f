/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: lanes that are kept, those that are set aside until their work has ended, and memory for their work. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "devmem/lane_private.h"
#include "devmem/lane_surplus.h"
#include "devmem/loan.h"

#define IDLE_MAX   WEFT_LANES_KNOWN_MAX /* lanes kept for the next operation */
#define MEMORY_MAX ((size_t)256 << 20)  /* device memory that they keep together */
#define DESTROY_MS 1000

int weft_lanes_create(struct weft_lanes **lanes)
{
    *lanes = calloc(1, sizeof **lanes);
    return *lanes ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for lanes");
}

static void release_kept(struct weft_lane *lane)
{
    while (lane->kept) {
        struct weft_lane_kept *kept = lane->kept;
        lane->kept = kept->next;
        kept->release(kept->arg, kept->index, kept->memory, kept->size);
        free(kept);
    }
}

static size_t memory_of(const struct weft_lane *lane)
{
    size_t bytes = 0;
    for (int use = 0; use < WEFT_LANE_USES; use++)
        bytes += lane->memory[use].bytes;
    return bytes;
}

static void release_use(struct weft_lane *lane, int use)
{
    if (lane->memory[use].bytes)
        weft_lane_surplus_add(&lane->lanes->surplus, lane->kind, lane->ordinal, lane->memory[use].memory,
                              lane->memory[use].bytes);
    lane->memory[use].bytes = 0;
}

static void release_memory(struct weft_lane *lane)
{
    for (int use = 0; use < WEFT_LANE_USES; use++)
        release_use(lane, use);
}

/* Nobody holds the lane from here on, except who does already. */
static void return_borrowed(struct weft_lane *lane)
{
    if (lane->has_borrowed)
        weft_loans_return(lane, 1);
    lane->has_borrowed = 0;
}

/* Of a lane that has failed nobody knows what is done; when its queue is closed, all is. */
static void close_lane(struct weft_lane *lane)
{
    for (uint32_t m = lane->first_mark; m != lane->next_mark; m++)
        lane->kind->ops.event_free(lane->marks[m % lane->marks_capacity].event);
    pthread_mutex_lock(&lane->queue_lock);
    atomic_store(&lane->end,
                 WEFT_LANE_CLOSING); /* which may take long: nobody waits for the lock meanwhile */
    pthread_mutex_unlock(&lane->queue_lock);
    lane->kind->ops.queue_close(lane->queue);
    atomic_store(&lane->end, WEFT_LANE_CLOSED);
    return_borrowed(lane);
    release_kept(lane);
    release_memory(lane);
    while (atomic_load(&lane->holders)) /* until what they wait for has happened, or their time is over */
        sched_yield();
    weft_lane_free(lane);
}

static void make_idle(struct weft_lane *lane)
{
    struct weft_lanes *lanes = lane->lanes;
    lane->first_note = lane->due_note = lane->next_note = lane->noted = 0;
    if (lane->status == WEFT_OK)
        return_borrowed(lane);
    if (lane->status != WEFT_OK || lanes->idle_count >= IDLE_MAX || atomic_load(&lane->holders) ||
        atomic_load(&lane->is_stopped)) {
        close_lane(lane);
        return;
    }
    release_kept(lane);
    if (lanes->idle_bytes + memory_of(lane) > MEMORY_MAX)
        release_memory(lane);
    lanes->idle_bytes += memory_of(lane);
    lane->next = lanes->idle;
    lanes->idle = lane;
    lanes->idle_count++;
}

/* What was set aside and has ended meanwhile. */
static void reap(struct weft_lanes *lanes)
{
    char detail[WEFT_DETAIL_MAX];
    if (!lanes->aside)
        return;
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    for (struct weft_lane **at = &lanes->aside, *lane; (lane = *at);) {
        if (!weft_lane_look_to_the_end(lane)) {
            at = &lane->next;
            continue;
        }
        *at = lane->next;
        make_idle(lane);
    }
    weft_error_set_detail(detail);
}

void weft_lanes_destroy(struct weft_lanes *lanes)
{
    if (!lanes)
        return;
    int64_t until_ns = weft_clock_ns() + (int64_t)DESTROY_MS * 1000000;
    for (reap(lanes); lanes->aside && weft_clock_ns() < until_ns; reap(lanes))
        sched_yield();
    while (lanes->idle) {
        struct weft_lane *lane = lanes->idle;
        lanes->idle = lane->next;
        close_lane(lane);
    }
    while (lanes->aside) {
        struct weft_lane *lane = lanes->aside;
        lanes->aside = lane->next;
        weft_log(WEFT_LOG_WARN, "work on %s device %d has not ended: its queue is left to the driver",
                 lane->kind->name, lane->ordinal);
        if (lane->has_borrowed)
            weft_loans_return(lane, 0);
        lane->has_borrowed = 0;
        while (lane->kept) { /* what the work uses is not given back */
            struct weft_lane_kept *kept = lane->kept;
            lane->kept = kept->next;
            free(kept);
        }
        memset(lane->memory, 0, sizeof lane->memory);
        close_lane(lane);
    }
    weft_lane_surplus_end(&lanes->surplus);
    weft_lane_surplus_end(&lanes->retired);
    free(lanes);
}

int weft_lanes_know(const struct weft_lanes *lanes, const struct weft_device_kind *kind, int ordinal)
{
    uint32_t k = lanes->known_count;
    while (k && (lanes->known_kinds[k - 1] != kind || lanes->known_ordinals[k - 1] != ordinal))
        k--;
    return k > 0;
}

void weft_lanes_join(struct weft_lanes *lanes, struct weft_lane *lane)
{
    lane->lanes = lanes;
    if (lanes->known_count == WEFT_LANES_KNOWN_MAX || weft_lanes_know(lanes, lane->kind, lane->ordinal))
        return;
    lanes->known_kinds[lanes->known_count] = lane->kind;
    lanes->known_ordinals[lanes->known_count++] = lane->ordinal;
}

int weft_lane_get(struct weft_lanes *lanes, const struct weft_device_kind *kind, int ordinal,
                  struct weft_lane **got)
{
    reap(lanes);
    for (struct weft_lane **at = &lanes->idle, *lane; (lane = *at); at = &lane->next) {
        if (lane->kind != kind || lane->ordinal != ordinal)
            continue;
        *at = lane->next;
        lanes->idle_count--;
        lanes->idle_bytes -= memory_of(lane);
        *got = lane;
        return WEFT_OK;
    }
    int status = weft_lane_open(kind, ordinal, got);
    if (status == WEFT_OK)
        weft_lanes_join(lanes, *got);
    return status;
}

void weft_lane_put(struct weft_lane *lane)
{
    if (!lane)
        return;
    char detail[WEFT_DETAIL_MAX];
    memcpy(detail, weft_error_detail(), strlen(weft_error_detail()) + 1);
    weft_lane_open_gate(lane);
    weft_lane_mark_the_end(lane);
    if (weft_lane_look_to_the_end(lane)) {
        make_idle(lane);
    } else {
        lane->next = lane->lanes->aside;
        lane->lanes->aside = lane;
    }
    weft_error_set_detail(detail);
}

struct weft_lane_surplus **weft_lanes_surplus(struct weft_lanes *lanes, int is_retired)
{
    return is_retired ? &lanes->retired : &lanes->surplus;
}

struct weft_lanes *weft_lane_pool(const struct weft_lane *lane)
{
    return lane->lanes;
}

static int allocate(struct weft_lane *lane, int use, size_t size)
{
    const struct weft_device_kind *kind = lane->kind;
    void **made = &lane->memory[use].memory;
    int status = kind->ops.allocate(kind->device, lane->ordinal, WEFT_MEMORY_DEVICE, size, made);
    lane->memory[use].bytes = status == WEFT_OK ? size : 0;
    return status;
}

int weft_lane_memory(struct weft_lane *lane, enum weft_lane_use use, size_t size, void **memory)
{
    if (lane->memory[use].bytes < size) {
        release_use(lane, (int)use);
        lane->memory[use].bytes = weft_lane_surplus_find(&lane->lanes->surplus, lane->kind, lane->ordinal,
                                                         size, &lane->memory[use].memory);
        int status = lane->memory[use].bytes ? WEFT_OK : allocate(lane, (int)use, size);
        if (status == WEFT_NOMEM && lane->lanes->surplus) {
            weft_lane_surplus_release(&lane->lanes->surplus);
            status = allocate(lane, (int)use, size);
        }
        if (status != WEFT_OK)
            return status;
    }
    *memory = lane->memory[use].memory;
    return WEFT_OK;
}

void weft_lane_keep(struct weft_lane *lane, weft_lane_release *release, void *arg, uint32_t index,
                    void *memory, size_t size)
{
    int is_free = lane->status == WEFT_OK && weft_lane_has_ended(lane);
    struct weft_lane_kept *kept = is_free ? NULL : malloc(sizeof *kept);
    if (!kept) {
        if (is_free)
            release(arg, index, memory, size);
        return; /* without memory for the note it is never given back */
    }
    *kept = (struct weft_lane_kept){lane->kept, release, arg, index, memory, size};
    lane->kept = kept;
}
