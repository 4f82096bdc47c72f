/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/calls/group.h"

#include <stdio.h>

#include "base/fork.h"
#include "comm/exec/group.h"
#include "comm/exec/stream.h"

static _Thread_local struct weft_work *started, *last; /* in the order of the calls */

void weft_group_defer(struct weft_work *work)
{
    work->next = NULL;
    if (started)
        last->next = work;
    else
        started = work;
    last = work;
}

/* The thread exits inside a group. Nobody else knows the handles: without them the operations run on, and the communicator can be
 * destroyed. */
static void leave(void)
{
    while (started) {
        struct weft_work *work = started;
        started = work->next;
        weft_work_free(work);
    }
}

int weft_group_start(void)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = weft_group_notice_leaving(WEFT_LEAVER_CALLS, leave);
    weft_group_depth += status == WEFT_OK;
    return status;
}

/* Everything runs already, so that waiting for one after the other lets all go on. */
static int finish(void)
{
    int first = weft_group_place_waits();
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    while (started) {
        struct weft_work *work = started;
        started = work->next;
        int status = weft_work_wait(work, -1);
        if (status != WEFT_OK && first == WEFT_OK) {
            first = status;
            snprintf(text, sizeof text, "%s", weft_error_detail());
        }
        weft_work_free(work);
    }
    return first == WEFT_OK ? WEFT_OK : weft_fail(first, "%s", text);
}

int weft_group_end(void)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!weft_group_is_open())
        return weft_fail(WEFT_INVALID, "weft_group_end() without weft_group_start()");
    weft_group_depth--;
    return weft_group_is_open() ? WEFT_OK : finish();
}
