/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the calling thread has a group of calls open (comm/calls/group.h). Per thread; no lock. */
#ifndef WEFT_COMM_EXEC_GROUP_H
#define WEFT_COMM_EXEC_GROUP_H

extern _Thread_local int weft_group_depth;

static inline int weft_group_is_open(void)
{
    return __builtin_expect(weft_group_depth != 0, 0);
}

/* Who leaves what is open, in this order. */
enum weft_leaver { WEFT_LEAVER_STREAM, WEFT_LEAVER_CALLS, WEFT_LEAVERS };

/* Before the calling thread begins a group: what is open when it exits is left, by leave(). */
int weft_group_notice_leaving(enum weft_leaver who, void (*leave)(void));

#endif
