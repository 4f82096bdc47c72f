/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of calls, what weft_group_start() and weft_group_end() stand around, and scopes of streams (comm/stream.h). Per thread; no
 * lock. */
#ifndef WEFT_COMM_GROUP_CALLS_H
#define WEFT_COMM_GROUP_CALLS_H

#include "comm/stream.h"
#include "comm/work.h"

extern _Thread_local int weft_group_depth; /* and WEFT_SCOPE_IS_OPEN */

#define WEFT_SCOPE_IS_OPEN (1 << 30)

/* Whether the calling thread's blocking calls may only start: it is in a group, or in a scope of some context's. */
static inline int weft_calls_may_start(void)
{
    return __builtin_expect(weft_group_depth != 0, 0);
}

static inline int weft_group_is_open(void)
{
    return (weft_group_depth & ~WEFT_SCOPE_IS_OPEN) != 0;
}

/* Whether blocking calls on comm only start. */
static inline int weft_call_starts(const struct weft_comm *comm)
{
    return weft_calls_may_start() && (weft_group_is_open() || weft_stream_of(comm));
}

/* A blocking call on comm has only started: its group waits for it, or nobody does, in a scope. Returns what the call does. */
int weft_call_leave(struct weft_comm *comm, struct weft_work *work);

/* Before the calling thread begins a group or scope: what is open when it exits is left. */
int weft_group_notice_leaving(void);
/* comm/stream.c */
void weft_stream_leave(void);

/* A call has started inside a group: the end of the outermost one waits for it and frees it. */
void weft_group_defer(struct weft_work *work);

#endif
