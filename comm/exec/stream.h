/* SPDX-License-Identifier: Apache-2.0 */
/* The program's streams: where a call stands in one, and what waits there for its result.
 *
 * A stream-ordered call places a *stream wait* (struct weft_stream_wait): an event where the stream is when the call is made,
 * and behind that what keeps the stream from going on. The call begins when the event has happened, which progress asks for, and the
 * wait is opened when its last call has ended, however it ends. Calls of one group share one wait in each stream, which is
 * placed at the end of the group: so they begin together, and none waits for another.
 *
 * Events of a stream happen in their order, so that progress asks for the first one of each stream alone. No queue of weft's waits for
 * a stream: it could stand before another one's work that opens a wait of that stream (include/weft/device.h).
 */
#ifndef WEFT_COMM_EXEC_STREAM_H
#define WEFT_COMM_EXEC_STREAM_H

#include "base/error.h"
#include "comm/drive/context.h"

struct weft_command_queue;

struct weft_device_event;
struct weft_device_wait;

/* A stream of the program's, while calls that are being made or stream waits use it. [lock] */
struct weft_stream {
    struct weft_stream *next; /* of the context's */
    struct weft_context *context;
    const struct weft_device_kind *kind;
    int ordinal;
    void *handle;                           /* the program's */
    struct weft_stream_wait *placed, **end; /* those that it has yet to come to, in their order */
    int users;
    int status; /* what its work has failed with */
    char why[WEFT_DETAIL_MAX];
};

/* [lock] */
struct weft_stream_wait {
    struct weft_stream *stream;
    struct weft_device_event *event; /* placed; NULL: not yet, or the stream has come there */
    struct weft_stream_wait *behind; /* placed after it */
    struct weft_device_wait *closed;
    int users, is_reached;
    int status;                    /* why it could not be placed */
    struct weft_stream_wait *next; /* of the calling thread's group */
};

/* The stream with this handle, of device `ordinal` of a kind, for a call that is being made: until weft_stream_put(). Says what is wrong
 * with kind or ordinal. Takes the lock. */
int weft_stream_get(struct weft_context *context, const char *kind, int ordinal, void *handle,
                    struct weft_stream **stream);
/* Takes the lock. NULL is allowed. */
void weft_stream_put(struct weft_stream *stream);

/* For a call of the calling thread on the stream. [lock] */
int weft_stream_wait_take(struct weft_stream *stream, struct weft_stream_wait **wait);
/* The call has ended, or will not begin. NULL is allowed. [lock] */
void weft_stream_wait_put(struct weft_stream_wait *wait);
/* 1: the stream has come there; 0: not yet; negative: it never will, with the text. NULL: 1. [lock] */
int weft_stream_wait_look(const struct weft_stream_wait *wait);
/* The command queue of the only call opens the stream wait behind its work, where it can. [lock] */
void weft_stream_wait_give(struct weft_stream_wait *wait, struct weft_command_queue *commands);
/* "the stream that the call was made on, of cuda device 0" */
void weft_stream_wait_print(const struct weft_stream_wait *wait, char *text, size_t capacity);

/* Places what the calling thread's group holds. Takes the locks. */
int weft_group_place_waits(void);

/* Asks where the streams are; returns how many calls may begin. [lock] */
int weft_streams_progress(struct weft_context *context);

#endif
