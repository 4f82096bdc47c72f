/* SPDX-License-Identifier: Apache-2.0 */
/* Works whose end somebody wants to know without waiting: a callback, or the context's descriptor. Nobody else pays for it. */
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"
#include "comm/core/background.h"
#include "comm/core/work.h"
#include "comm/drive/progress.h"

/* --- the descriptor */

int weft_context_get_fd(weft_context *context, int *fd)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !fd)
        return weft_fail(WEFT_INVALID, "%s is NULL", context ? "fd" : "context");
    int status = weft_context_signal_fd(context);
    if (status == WEFT_OK)
        *fd = context->signal_fd;
    return status;
}

void weft_work_own(struct weft_work *work, int has_handle, int is_ordered)
{
    work->is_owned = has_handle || !is_ordered;
    if (has_handle && atomic_load(&work->context->signal_fd) >= 0)
        work->signals = 1;
}

static void signal_end(struct weft_work *work)
{
    uint64_t one = 1;
    if (!atomic_exchange(&work->signals, 0))
        return;
    ssize_t put = weft_fd_write(work->context->signal_fd, &one, sizeof one);
    (void)put; /* full means that it is readable already */
}

void weft_work_notify_at_once(struct weft_work *work)
{
    if (work->status != WEFT_AGAIN)
        signal_end(work);
}

/* --- watching */

void weft_work_watch(struct weft_work *work)
{
    struct weft_context *context = work->context;
    if (work->is_watched || work->background)
        return;
    work->is_watched = 1;
    work->watched_previous = NULL;
    work->watched_next = context->core.watched;
    if (context->core.watched)
        context->core.watched->watched_previous = work;
    context->core.watched = work;
}

static void unwatch(struct weft_work *work)
{
    struct weft_work *next = work->watched_next, *previous = work->watched_previous;
    if (!work->is_watched)
        return;
    work->is_watched = 0;
    *(previous ? &previous->watched_next : &work->context->core.watched) = next;
    if (next)
        next->watched_previous = previous;
}

/* What weft_work_wait() would say; the thread's own error stays. */
static void word(const struct weft_work *work, struct weft_notice *notice)
{
    char before[WEFT_DETAIL_MAX];
    snprintf(before, sizeof before, "%s", weft_error_detail());
    notice->status = weft_work_word(work);
    snprintf(notice->detail, sizeof notice->detail, "%s",
             notice->status == WEFT_OK ? "" : weft_error_detail());
    weft_error_set_detail(before);
}

void weft_work_notify(struct weft_work *work)
{
    struct weft_notice *notice = work->notice;
    unwatch(work);
    if (work->signals)
        signal_end(work);
    if (!notice)
        return;
    word(work, notice);
    work->notice = NULL;
    weft_context_notify(work->context, notice);
}

/* Returns 1 when the list may have changed. */
static int look(struct weft_work *work, int64_t now_ns)
{
    struct weft_comm *comm = work->comm;
    weft_work_settle(work);
    if (!work->is_watched)
        return 1;
    if (weft_comm_check(comm) != WEFT_OK)
        return 1;
    if (work->queued || now_ns < work->deadline_ns)
        return 0;
    if (work->is_message) {
        work->deadline_ns = WEFT_NEVER_NS; /* once */
        weft_work_expire(work);
        return 1;
    }
    struct weft_exec_op *op = weft_work_running(work);
    return op && weft_work_late(comm, op, &work->deadline_ns) == WEFT_TIMEOUT;
}

int weft_works_look(struct weft_context *context)
{
    int64_t now_ns = weft_clock_ns();
    for (struct weft_work *work = context->core.watched, *next; work; work = next) {
        next = work->watched_next;
        if (look(work, now_ns))
            return 1;
    }
    return 0;
}
