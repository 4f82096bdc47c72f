/* SPDX-License-Identifier: Apache-2.0 */
/* What command queues and their pool are made of. command_queue.c: one command queue; command_queue_pool.c: which there are, and
 * what they use. */
#ifndef WEFT_DEVMEM_COMMAND_QUEUE_PRIVATE_H
#define WEFT_DEVMEM_COMMAND_QUEUE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "devmem/command_queue.h"

#define WEFT_COMMAND_QUEUES_KNOWN_MAX 16 /* devices that are remembered */

/* A mark of the queue's and the notes before it. */
struct weft_command_queue_mark {
    struct weft_device_event *event;
    uint32_t end; /* number of the first note that is not its */
};

/* Memory to give back when the work is done. */
struct weft_command_queue_kept {
    struct weft_command_queue_kept *next;
    weft_command_queue_release *release;
    void *arg;
    uint32_t index;
    void *memory;
    size_t size;
};

struct weft_command_queue {
    struct weft_command_queues *queues;
    struct weft_command_queue *next; /* idle or set aside */
    const struct weft_device_kind *kind;
    int ordinal, status;
    struct weft_device_queue *queue;
    pthread_mutex_t queue_lock; /* of the queue alone: weft_command_queue_stop() uses it, too */
    atomic_int is_stopped;      /* takes no more work */
    atomic_int end;             /* enum weft_command_queue_end */
    atomic_uint holders;        /* who must not find it gone */
    int has_borrowed;
    struct weft_device_wait *wait; /* closed; NULL: none */
    int has_work;                  /* queued since the last mark */
    int is_blind; /* no mark can be made: only closing the queue shows when its work has ended */
    /* Rings: numbers count up, their places are number % capacity. */
    struct weft_command_queue_note *notes;
    uint32_t notes_capacity, first_note, due_note, next_note; /* [first, due) is due */
    struct weft_command_queue_mark *marks;
    uint32_t marks_capacity, first_mark, next_mark;
    uint32_t noted; /* notes that have a mark behind them */
    struct {
        void *memory;
        size_t bytes;
    } memory[WEFT_COMMAND_QUEUE_USES];
    struct weft_command_queue_kept *kept;
    char why[WEFT_DETAIL_MAX]; /* of status */
};

enum weft_command_queue_end {
    WEFT_COMMAND_QUEUE_OPEN,
    WEFT_COMMAND_QUEUE_CLOSING,
    WEFT_COMMAND_QUEUE_CLOSED
};

struct weft_command_queues {
    struct weft_command_queue *idle, *aside;
    const struct weft_device_kind
        *known_kinds[WEFT_COMMAND_QUEUES_KNOWN_MAX]; /* devices that command queues have been opened on */
    int known_ordinals[WEFT_COMMAND_QUEUES_KNOWN_MAX];
    struct weft_command_queue_surplus *surplus, *retired;
    uint32_t idle_count, known_count;
    size_t idle_bytes; /* memory of the idle ones */
};

/* Whether all work is done, as far as has been looked. */
int weft_command_queue_has_ended(const struct weft_command_queue *commands);
/* Looks; the same. A queue that has failed may still hold marks: all of them fail soon. */
int weft_command_queue_look_to_the_end(struct weft_command_queue *commands);
/* The last mark of the command queue. What was queued before something could not be queued still runs. */
void weft_command_queue_mark_the_end(struct weft_command_queue *commands);
/* The queue is closed. */
void weft_command_queue_free(struct weft_command_queue *commands);

#endif
