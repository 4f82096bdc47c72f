#include "comm/work.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/progress.h"

#define STEP_ASIDE_NS 50000

static int still_running(void *arg)
{
    return weft_exec_op_status(arg) == WEFT_AGAIN;
}

/* The operation's deadline has passed: first rank 0 is asked who has not come, until *deadline_ns; then this rank
 * gives up. Returns WEFT_AGAIN or WEFT_TIMEOUT. */
static int deadline_passed(struct weft_comm *comm, struct weft_exec_op *op, int64_t *deadline_ns)
{
    char waits[300], text[WEFT_DETAIL_MAX];
    weft_exec_describe(op, waits, sizeof waits);
    if (!comm->stall.late) {
        *deadline_ns = weft_stall_late(comm, weft_exec_op_call(op), comm->timeout_ms, waits);
        return WEFT_AGAIN;
    }
    snprintf(text, sizeof text, "rank %d gave up after %lld ms at %s", comm->rank,
             (long long)comm->timeout_ms, waits);
    weft_comm_fail(comm, WEFT_TIMEOUT, text);
    return WEFT_TIMEOUT;
}

/* A short operation is not looked at; a longer one counts from here. Returns when to look. */
static int64_t first_look(struct weft_exec_op *op, int64_t now_ns)
{
    struct weft_exec_look *look = weft_exec_op_look(op);
    if (!look->since_ns)
        look->since_ns = now_ns;
    return look->since_ns + WEFT_STALL_NS;
}

/* Lets another thread have the lock. */
static void step_aside(struct weft_context *context)
{
    if (!atomic_load_explicit(&context->contenders, memory_order_relaxed))
        return;
    weft_context_unlock(context);
    /* A plain unlock and lock would win against a thread that still has to wake up. */
    int64_t until_ns = weft_clock_ns() + STEP_ASIDE_NS;
    while (atomic_load_explicit(&context->contenders, memory_order_relaxed) && weft_clock_ns() < until_ns)
        sched_yield();
    weft_context_lock(context);
}

int weft_work_drive(struct weft_comm *comm, struct weft_exec_op *op, int64_t deadline_ns, int revoke)
{
    struct weft_context *context = comm->context;
    struct weft_idle idle = {0};
    int64_t look_ns = 0;
    while (weft_exec_op_status(op) == WEFT_AGAIN) {
        int moved = weft_progress_once(context);
        if (weft_exec_op_status(op) != WEFT_AGAIN)
            break;
        if (weft_bootstrap_has_failed(comm->bootstrap) || comm->lost_status) {
            int status = weft_comm_check(comm);
            if (status != WEFT_OK)
                break;
        }
        step_aside(context);
        if (moved)
            idle = (struct weft_idle){0};
        else if (!weft_idle_pause(context, &idle))
            continue;
        int64_t now_ns = weft_clock_ns();
        if (now_ns >= look_ns)
            look_ns = look_ns ? weft_stall_look(comm, now_ns) : first_look(op, now_ns);
        if (now_ns >= deadline_ns) {
            if (!revoke)
                return weft_fail(WEFT_TIMEOUT, "the operation is still running");
            if (deadline_passed(comm, op, &deadline_ns) == WEFT_TIMEOUT)
                return WEFT_TIMEOUT;
        }
        if (!moved)
            weft_progress_sleep(context, look_ns < deadline_ns ? look_ns : deadline_ns, still_running, op);
    }
    int status = weft_exec_op_status(op);
    if (status == WEFT_OK && weft_bootstrap_has_failed(comm->bootstrap))
        return weft_comm_check(comm); /* a rank that gave up may have let others read half a result */
    if (status == WEFT_OK)
        weft_progress_flush(context);
    else
        weft_comm_check(comm);
    return status;
}

/* Takes over the result of the operation. [lock] */
static void settle(struct weft_work *work)
{
    int status = weft_exec_op_status(work->op);
    if (status == WEFT_AGAIN)
        return;
    if (status == WEFT_OK && weft_bootstrap_has_failed(work->comm->bootstrap))
        status = weft_comm_check(work->comm); /* as in weft_work_drive() */
    work->status = status;
    weft_exec_op_free(work->op);
    work->op = NULL;
    weft_progress_background(work->comm->context, -1);
}

static int result(struct weft_work *work)
{
    if (work->status == WEFT_OK || work->status == WEFT_AGAIN)
        return WEFT_OK;
    weft_context_lock(work->comm->context);
    weft_comm_check(work->comm);
    weft_context_unlock(work->comm->context);
    work->comm->reported = 1;
    return weft_fail(work->status, "%s", work->comm->failure);
}

int weft_work_test(weft_work *work, int *done)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work || !done)
        return weft_fail(WEFT_INVALID, "%s is NULL", work ? "done" : "work");
    if (work->op) {
        struct weft_context *context = work->comm->context;
        weft_context_lock(context);
        weft_progress_once(context);
        int64_t now_ns = weft_clock_ns();
        weft_stall_look(work->comm, now_ns);
        if (now_ns >= work->deadline_ns && weft_exec_op_status(work->op) == WEFT_AGAIN)
            deadline_passed(work->comm, work->op, &work->deadline_ns);
        else
            weft_comm_check(work->comm);
        settle(work);
        weft_context_unlock(context);
    }
    int status = result(work);
    if (status == WEFT_OK)
        *done = work->status == WEFT_OK;
    return status;
}

int weft_work_wait(weft_work *work, int64_t timeout_ms)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work)
        return weft_fail(WEFT_INVALID, "work is NULL");
    if (work->op) {
        struct weft_context *context = work->comm->context;
        int64_t deadline_ns = timeout_ms < 0 ? work->deadline_ns : weft_deadline_ns(timeout_ms);
        int revoke = deadline_ns >= work->deadline_ns;
        weft_context_lock(context);
        int status = weft_work_drive(work->comm, work->op, revoke ? work->deadline_ns : deadline_ns, revoke);
        settle(work);
        weft_context_unlock(context);
        if (work->op)
            return status;
    }
    return result(work);
}

int weft_work_free(weft_work *work)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work)
        return WEFT_OK;
    int status = weft_work_wait(work, -1);
    work->comm->works--;
    free(work);
    return status;
}
