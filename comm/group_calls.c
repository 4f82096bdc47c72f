/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/group_calls.h"

#include <pthread.h>
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

/* --- a thread that exits inside a group */

static pthread_mutex_t leaving_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t leaving;
static int leaving_made;                  /* under the lock */
static _Thread_local int leaving_noticed; /* leave() is called at the end of this thread */

/* Nobody else knows the handles: without them the operations run on, and the communicator can be destroyed. */
static void leave(void *arg)
{
    (void)arg;
    weft_stream_leave();
    weft_group_place_holds();
    weft_group_depth = leaving_noticed = 0;
    while (started) {
        struct weft_work *work = started;
        started = work->next;
        weft_work_free(work);
    }
}

__attribute__((destructor)) static void forget_key(void)
{
    if (leaving_made) /* threads may live longer than the library, where a program unloads it */
        pthread_key_delete(leaving);
}

int weft_group_notice_leaving(void)
{
    if (leaving_noticed)
        return WEFT_OK;
    pthread_mutex_lock(&leaving_lock);
    int error = leaving_made ? 0 : pthread_key_create(&leaving, leave);
    leaving_made |= !error;
    pthread_mutex_unlock(&leaving_lock);
    if (!error)
        error = pthread_setspecific(leaving, &leaving);
    if (error)
        return weft_fail(WEFT_SYSTEM, "cannot begin a group or scope: no room for a thread's own data: %s",
                         weft_errno_text(error));
    leaving_noticed = 1;
    return WEFT_OK;
}

int weft_group_start(void)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = weft_group_notice_leaving();
    weft_group_depth += status == WEFT_OK;
    return status;
}

int weft_call_leave(struct weft_comm *comm, struct weft_work *work)
{
    if (weft_stream_of(comm))
        return weft_work_free(work);
    weft_group_defer(work);
    return WEFT_OK;
}

/* Everything runs already, so that waiting for one after the other lets all go on. */
static int finish(void)
{
    int first = weft_group_place_holds();
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
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
    if (!weft_group_is_open())
        return weft_fail(WEFT_INVALID, "weft_group_end() without weft_group_start()");
    weft_group_depth--;
    return weft_group_is_open() ? WEFT_OK : finish();
}
