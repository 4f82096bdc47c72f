/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of calls, what weft_group_start() and weft_group_end() stand around. Per thread; no lock. */
#ifndef WEFT_COMM_CALLS_GROUP_H
#define WEFT_COMM_CALLS_GROUP_H

#include "comm/core/work.h"

/* A call has started inside a group: the end of the outermost one waits for it and frees it. */
void weft_group_defer(struct weft_work *work);

#endif
