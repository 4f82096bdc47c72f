/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes and their pool are made of. lane.c: one lane; lane_pool.c: which there are, and what they use. */
#ifndef WEFT_DEVMEM_LANE_PRIVATE_H
#define WEFT_DEVMEM_LANE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "devmem/lane.h"

#define WEFT_LANES_KNOWN_MAX 16 /* devices that are remembered */

/* A mark of the queue's and the notes before it. */
struct weft_lane_mark {
    struct weft_device_event *event;
    uint32_t end; /* number of the first note that is not its */
};

/* Memory to give back when the work is done. */
struct weft_lane_kept {
    struct weft_lane_kept *next;
    weft_lane_release *release;
    void *arg;
    uint32_t index;
    void *memory;
    size_t size;
};

struct weft_lane {
    struct weft_lanes *lanes;
    struct weft_lane *next; /* idle or set aside */
    const struct weft_device_kind *kind;
    int ordinal, status;
    struct weft_device_queue *queue;
    pthread_mutex_t queue_lock; /* of the queue alone: weft_lane_stop() uses it, too */
    atomic_int is_stopped;      /* takes no more work */
    atomic_int end;             /* enum weft_lane_end */
    atomic_uint holders;        /* who must not find it gone */
    int has_borrowed;
    struct weft_device_gate *gate; /* closed; NULL: none */
    int has_work;                  /* queued since the last mark */
    int is_blind; /* no mark can be made: only closing the queue tells when its work has ended */
    /* Rings: numbers count up, their places are number % capacity. */
    struct weft_lane_note *notes;
    uint32_t notes_capacity, first_note, due_note, next_note; /* [first, due) is due */
    struct weft_lane_mark *marks;
    uint32_t marks_capacity, first_mark, next_mark;
    uint32_t noted; /* notes that have a mark behind them */
    struct {
        void *memory;
        size_t bytes;
    } memory[WEFT_LANE_USES];
    struct weft_lane_kept *kept;
    char why[WEFT_DETAIL_MAX]; /* of status */
};

enum weft_lane_end { WEFT_LANE_OPEN, WEFT_LANE_CLOSING, WEFT_LANE_CLOSED };

struct weft_lanes {
    struct weft_lane *idle, *aside;
    const struct weft_device_kind
        *known_kinds[WEFT_LANES_KNOWN_MAX]; /* devices that lanes have been opened on */
    int known_ordinals[WEFT_LANES_KNOWN_MAX];
    struct weft_lane_surplus *surplus, *retired;
    uint32_t idle_count, known_count;
    size_t idle_bytes; /* memory of the idle ones */
};

/* Whether all work is done, as far as has been looked. */
int weft_lane_has_ended(const struct weft_lane *lane);
/* Looks; the same. A queue that has failed may still hold marks: all of them fail soon. */
int weft_lane_look_to_the_end(struct weft_lane *lane);
/* The last mark of the lane. What was queued before something could not be queued still runs. */
void weft_lane_mark_the_end(struct weft_lane *lane);
/* The queue is closed. */
void weft_lane_free(struct weft_lane *lane);

#endif
