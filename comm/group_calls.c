#include "comm/group_calls.h"

#include <stdio.h>

#include "base/fork.h"
#include "comm/message.h"

_Thread_local int weft_group_depth;
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

int weft_group_start(void)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    weft_group_depth++;
    return WEFT_OK;
}

/* Everything runs already, so that waiting for one after the other lets all go on. */
static int finish(void)
{
    int first = WEFT_OK;
    char text[WEFT_DETAIL_MAX] = "";
    while (started) {
        struct weft_work *work = started;
        started = work->next;
        int status = weft_work_wait(work, -1);
        if (status == WEFT_OK && work->info)
            weft_message_tell(&work->request, work->info);
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
    if (weft_group_depth == 0)
        return weft_fail(WEFT_INVALID, "weft_group_end() without weft_group_start()");
    return --weft_group_depth ? WEFT_OK : finish();
}
