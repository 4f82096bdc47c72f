/* Groups of calls: what weft_group_start() and weft_group_end() stand around. Per thread; no lock. */
#ifndef WEFT_COMM_GROUP_CALLS_H
#define WEFT_COMM_GROUP_CALLS_H

#include "comm/work.h"

extern _Thread_local int weft_group_depth;

/* Whether the calling thread's blocking calls only start. */
static inline int weft_group_is_open(void)
{
    return __builtin_expect(weft_group_depth != 0, 0);
}

/* A call has started inside a group: the end of the outermost one waits for it and frees it. */
void weft_group_defer(struct weft_work *work);

#endif
