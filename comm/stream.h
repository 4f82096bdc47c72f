/* SPDX-License-Identifier: Apache-2.0 */
/* The program's streams: where a call stands in one, and what waits there for its result.
 *
 * A call in a scope (weft_stream_begin()) takes a *hold* of the scope's stream: an event where the stream is when the call is made,
 * and behind that a closed gate. The call begins when the event has happened, which progress asks for, and the
 * gate is opened when the last call of the hold has ended, however it ends. Calls of one group share one hold of each stream, which is
 * placed at the end of the group: so they begin together, and none waits for another.
 *
 * Events of a stream happen in their order, so that progress asks for the first one of each stream alone. No queue of weft's waits for
 * a stream: it could stand before another one's work that opens a gate of that stream (include/weft/device.h).
 */
#ifndef WEFT_COMM_STREAM_H
#define WEFT_COMM_STREAM_H

#include "comm/comm.h"

struct weft_device_event;
struct weft_device_gate;

/* A stream of the program's, while scopes or holds use it. [lock] */
struct weft_stream {
    struct weft_stream *next; /* of the context's */
    struct weft_context *context;
    const struct weft_device_kind *kind;
    int ordinal;
    void *handle;                    /* the program's */
    struct weft_hold *placed, **end; /* those that it has yet to come to, in their order */
    int users;
    int status; /* what its work has failed with */
    char why[WEFT_DETAIL_MAX];
};

/* [lock] */
struct weft_hold {
    struct weft_stream *stream;
    struct weft_device_event *event; /* placed; NULL: not yet, or the stream has come there */
    struct weft_hold *behind;        /* placed after it */
    struct weft_device_gate *gate;
    int users, is_reached;
    int status;             /* why it could not be placed */
    struct weft_hold *next; /* of the calling thread's group */
};

/* The scope of the calling thread that a call on comm is in; NULL: none. */
struct weft_stream *weft_stream_of(const struct weft_comm *comm);

/* For a call of the calling thread on the stream. [lock] */
int weft_hold_take(struct weft_stream *stream, struct weft_hold **hold);
/* The call has ended, or will not begin. NULL is allowed. [lock] */
void weft_hold_put(struct weft_hold *hold);
/* 1: the stream has come there; 0: not yet; negative: it never will, with the text. NULL: 1. [lock] */
int weft_hold_look(const struct weft_hold *hold);
/* The lane of the hold's only call opens the gate behind its work, where it can. [lock] */
void weft_hold_give(struct weft_hold *hold, struct weft_lane *lane);
/* "the stream that the call was made on, of cuda device 0" */
void weft_hold_print(const struct weft_hold *hold, char *text, size_t capacity);

/* Places what the calling thread's group holds. Takes the locks. */
int weft_group_place_holds(void);

/* Asks where the streams are; returns how many calls may begin. [lock] */
int weft_streams_progress(struct weft_context *context);

#endif
