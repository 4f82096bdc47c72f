/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/work.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/group_calls.h"
#include "comm/message.h"
#include "comm/progress.h"
#include "comm/queue.h"
#include "comm/service.h"

static int still_running(void *arg)
{
    return weft_exec_op_status(arg) == WEFT_AGAIN;
}

int weft_work_late(struct weft_comm *comm, struct weft_exec_op *op, int64_t *deadline_ns)
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
        weft_progress_step_aside(context);
        if (moved)
            idle = (struct weft_idle){0};
        else if (!weft_idle_pause(context, &idle))
            continue;
        int64_t now_ns = weft_clock_ns();
        if (!deadline_ns)
            deadline_ns = weft_comm_deadline_ns(comm);
        if (now_ns >= look_ns)
            look_ns = look_ns ? weft_stall_look(comm, now_ns) : first_look(op, now_ns);
        if (now_ns >= deadline_ns) {
            if (!revoke)
                return weft_fail(WEFT_TIMEOUT, "the operation is still running");
            if (weft_work_late(comm, op, &deadline_ns) == WEFT_TIMEOUT)
                return WEFT_TIMEOUT;
        }
        if (!moved)
            weft_progress_sleep(context, &idle, look_ns < deadline_ns ? look_ns : deadline_ns, still_running,
                                op);
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

void weft_part_end(struct weft_part *part)
{
    if (part->op)
        weft_exec_op_free(part->op);
    weft_plans_put(part->plan);
    free(part->memory);
    if (part->staging) /* not before the lane's work on it is done */
        weft_lane_keep(part->lane, weft_memory_buffer_put, part->context, WEFT_SHM, part->staging,
                       part->staging_bytes);
    weft_lane_put(part->lane);
    if (part->lane && *weft_lanes_surplus(part->context->lanes, 0) &&
        !atomic_exchange(&part->context->has_surplus, 1))
        weft_service_wake(part->context->service);
    free(part->moves);
    *part = (struct weft_part){0};
}

int weft_work_new(struct weft_comm *comm, struct weft_work **made)
{
    struct weft_work *work = calloc(1, sizeof *work);
    if (!work)
        return weft_fail(WEFT_NOMEM, "no memory for a work handle");
    work->comm = comm;
    work->deadline_ns = weft_comm_deadline_ns(comm);
    work->status = WEFT_AGAIN;
    work->parts = &work->only;
    *made = work;
    return WEFT_OK;
}

void weft_work_discard(struct weft_work *work)
{
    if (work->parts != &work->only)
        free(work->parts);
    free(work->arg);
    free(work);
}

struct weft_exec_op *weft_work_running(const struct weft_work *work)
{
    for (size_t i = 0; i < work->part_count; i++) {
        struct weft_exec_op *op = work->parts[i].op;
        if (op && weft_exec_op_status(op) == WEFT_AGAIN)
            return op;
    }
    return NULL;
}

/* Takes over the results of the operations when all have ended. [lock] */
static void settle(struct weft_work *work)
{
    if (work->is_message) {
        work->status = work->request.status;
        return;
    }
    int status = WEFT_OK;
    if (work->status != WEFT_AGAIN || work->queued || weft_work_running(work))
        return;
    for (size_t i = 0; i < work->part_count; i++) {
        struct weft_part *part = &work->parts[i];
        int ended = part->op ? weft_exec_op_status(part->op) : WEFT_OK;
        status = status == WEFT_OK ? ended : status;
        weft_part_end(part);
    }
    if (status == WEFT_OK && weft_bootstrap_has_failed(work->comm->bootstrap))
        status = weft_comm_check(work->comm); /* as in weft_work_drive() */
    work->status = status;
    weft_progress_ended(work->comm->context);
}

/* What is left to do when all has ended well: once. It may be long, and others want the lock. */
static void finish(struct weft_work *work)
{
    void (*last)(struct weft_work *) = work->status == WEFT_OK ? work->finish : NULL;
    work->finish = NULL;
    if (last)
        last(work);
}

static int result(struct weft_work *work)
{
    if (work->status == WEFT_AGAIN)
        return WEFT_OK;
    finish(work);
    if (work->status == WEFT_OK)
        return WEFT_OK;
    if (work->is_message && work->request.own)
        return weft_request_fail(work->comm, &work->request);
    if (work->comm->bootstrap) {
        weft_context_lock(work->comm->context);
        weft_comm_check(work->comm);
        weft_context_unlock(work->comm->context);
    }
    work->comm->reported = 1;
    /* An operation may end with a link before its communicator hears the reason. */
    return weft_fail(work->comm->failed ? work->comm->failed : work->status, "%s", work->comm->failure);
}

/* One look at a work that runs. [lock] */
static void look(struct weft_work *work)
{
    struct weft_comm *comm = work->comm;
    weft_progress_once(comm->context);
    int64_t now_ns = weft_clock_ns();
    if (work->queued)
        return; /* progress has looked at it */
    if (work->is_message) {
        if (now_ns >= work->deadline_ns || weft_comm_is_lost(comm))
            weft_request_drive(comm, &work->request, now_ns, now_ns >= work->deadline_ns);
        return;
    }
    weft_stall_look(comm, now_ns);
    struct weft_exec_op *op = weft_work_running(work);
    if (now_ns >= work->deadline_ns && op)
        weft_work_late(comm, op, &work->deadline_ns);
    else
        weft_comm_check(comm);
}

int weft_work_test(weft_work *work, int *done)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work || !done)
        return weft_fail(WEFT_INVALID, "%s is NULL", work ? "done" : "work");
    if (work->status == WEFT_AGAIN) {
        struct weft_context *context = work->comm->context;
        weft_context_lock(context);
        settle(work);
        if (work->status == WEFT_AGAIN) {
            look(work);
            settle(work);
        }
        weft_context_unlock(context);
    }
    int status = result(work);
    if (status == WEFT_OK)
        *done = work->status == WEFT_OK;
    return status;
}

/* [lock] */
static int drive(struct weft_work *work, int64_t deadline_ns, int revoke)
{
    if (work->is_message)
        return weft_request_drive(work->comm, &work->request, deadline_ns, revoke);
    int status = WEFT_OK;
    if (work->queued)
        return weft_queue_drive(work, deadline_ns);
    for (struct weft_exec_op *op; status == WEFT_OK && (op = weft_work_running(work));)
        status = weft_work_drive(work->comm, op, deadline_ns, revoke);
    return status;
}

int weft_work_wait(weft_work *work, int64_t timeout_ms)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work)
        return weft_fail(WEFT_INVALID, "work is NULL");
    int placed = weft_calls_may_start() ? weft_group_place_holds() : WEFT_OK; /* it may be one of them */
    if (placed != WEFT_OK)
        return placed;
    if (work->status == WEFT_AGAIN) {
        struct weft_context *context = work->comm->context;
        int64_t deadline_ns = timeout_ms < 0 ? work->deadline_ns : weft_deadline_ns(timeout_ms);
        int revoke = deadline_ns >= work->deadline_ns, status = WEFT_OK;
        weft_context_lock(context);
        settle(work);
        if (work->status == WEFT_AGAIN) {
            status = drive(work, revoke ? work->deadline_ns : deadline_ns, revoke);
            settle(work);
        }
        weft_context_unlock(context);
        if (work->status == WEFT_AGAIN)
            return status;
    }
    return result(work);
}

int weft_work_get_message(const weft_work *work, weft_message *message)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work || !message)
        return weft_fail(WEFT_INVALID, "%s is NULL", work ? "message" : "work");
    int status = weft_message_check(message);
    if (status != WEFT_OK)
        return status;
    if (!work->is_message || work->request.sends)
        return weft_fail(WEFT_INVALID, "the work is no receive");
    weft_context_lock(work->comm->context);
    int running = work->request.status == WEFT_AGAIN, found = work->request.found >= 0;
    weft_context_unlock(work->comm->context);
    if (running)
        return weft_fail(WEFT_BUSY, "the receive is still running");
    if (!found)
        return weft_fail(WEFT_INVALID, "the receive has ended without a message");
    weft_message_tell(&work->request, message);
    return WEFT_OK;
}

int weft_work_cancel(weft_work *work)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work)
        return weft_fail(WEFT_INVALID, "work is NULL");
    if (!work->is_message || work->request.sends)
        return weft_fail(WEFT_INVALID,
                         "the work is no receive: expected one that weft_recv_start() has made");
    struct weft_context *context = work->comm->context;
    weft_context_lock(context);
    int status = weft_p2p_withdraw(work->comm->p2p, &work->request, WEFT_CANCELLED);
    settle(work);
    weft_context_unlock(context);
    return status == WEFT_OK ? status
                             : weft_fail(WEFT_BUSY, "the receive has a message already, or has ended");
}

static void dropped_message_ended(struct weft_request *request)
{
    struct weft_work *work = (struct weft_work *)((char *)request - offsetof(struct weft_work, request));
    work->comm->dropped--;
    weft_progress_ended(work->comm->context);
    free(work);
}

/* [lock] */
static void drop(struct weft_work *work)
{
    struct weft_comm *comm = work->comm;
    work->dropped = 1;
    comm->dropped++;
    if (work->is_message) {
        work->request.ended = dropped_message_ended;
        work->request.is_untold = 1;
        return;
    }
    if (work->queued)
        return;
    work->next = comm->dropped_ops;
    comm->dropped_ops = work;
}

void weft_works_reap(struct weft_comm *comm)
{
    struct weft_work **at = &comm->dropped_ops;
    while (*at) {
        struct weft_work *work = *at;
        if (weft_work_running(work)) {
            at = &work->next;
            continue;
        }
        *at = work->next;
        settle(work);
        finish(work);
        comm->dropped--;
        weft_work_discard(work);
    }
}

int weft_work_free(weft_work *work)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work)
        return WEFT_OK;
    struct weft_comm *comm = work->comm;
    weft_context_lock(comm->context);
    if (work->status == WEFT_AGAIN)
        settle(work);
    int running = work->status == WEFT_AGAIN;
    if (running)
        drop(work);
    comm->works--;
    weft_context_unlock(comm->context);
    if (running)
        return WEFT_OK;
    int status = result(work);
    weft_work_discard(work);
    return status;
}

static int drops_left(void *arg)
{
    const struct weft_comm *comm = arg;
    return comm->dropped && !comm->failed;
}

static int is_full(void *arg)
{
    const struct weft_comm *comm = arg;
    return weft_exec_is_full(comm->exec) && !comm->failed;
}

int weft_drive_while(struct weft_comm *comm, int (*still)(void *arg), void *arg, int64_t deadline_ns,
                     int (*late)(struct weft_comm *comm, int64_t *deadline_ns))
{
    struct weft_context *context = comm->context;
    struct weft_idle idle = {0};
    int status = WEFT_OK;
    while (status == WEFT_OK && still(arg)) {
        int moved = weft_progress_once(context);
        weft_works_reap(comm);
        if (weft_comm_is_lost(comm) && !comm->failed)
            weft_comm_check_any(comm);
        if (!still(arg))
            break;
        weft_progress_step_aside(context);
        if (moved)
            idle = (struct weft_idle){0};
        else if (!weft_idle_pause(context, &idle))
            continue;
        if (weft_clock_ns() >= deadline_ns)
            status = late(comm, &deadline_ns);
        else if (!moved)
            weft_progress_sleep(context, &idle, deadline_ns, still, arg);
    }
    weft_works_reap(comm);
    return status;
}

static int room_is_late(struct weft_comm *comm, int64_t *deadline_ns)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    if (weft_exec_running(comm->exec, ops) > 0)
        weft_work_late(comm, ops[0], deadline_ns);
    return WEFT_OK;
}

int weft_works_await_room(struct weft_comm *comm)
{
    weft_drive_while(comm, is_full, comm, weft_comm_deadline_ns(comm), room_is_late);
    return comm->failed;
}

static int drops_are_late(struct weft_comm *comm, int64_t *deadline_ns)
{
    char text[WEFT_DETAIL_MAX], what[200] = "";
    const struct weft_request *oldest = weft_p2p_oldest(comm->p2p);
    (void)deadline_ns;
    if (oldest)
        weft_request_print(oldest, what, sizeof what);
    else
        weft_queue_print_first(comm, what, sizeof what);
    snprintf(text, sizeof text,
             "rank %d gave up after %lld ms at the end of %d operations whose handles were freed%s%s",
             comm->rank, (long long)comm->timeout_ms, comm->dropped, what[0] ? ", first a " : "", what);
    weft_comm_fail(comm, WEFT_TIMEOUT, text);
    return WEFT_TIMEOUT;
}

int weft_works_finish(struct weft_comm *comm)
{
    weft_context_lock(comm->context);
    weft_drive_while(comm, drops_left, comm, weft_comm_deadline_ns(comm), drops_are_late);
    int status = comm->failed;
    weft_context_unlock(comm->context);
    return status;
}
