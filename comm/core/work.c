/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/core/background.h"
#include "comm/drive/progress.h"
#include "comm/exec/group.h"
#include "comm/core/queue.h"
#include "base/service.h"

#ifdef __SANITIZE_ADDRESS__
#define SPARES_MAX 0 /* so that it sees who uses one that is free */
#else
#define SPARES_MAX 128
#endif

int weft_work_late(struct weft_comm *comm, struct weft_exec_op *op, int64_t *deadline_ns)
{
    char waits[300], text[WEFT_DETAIL_MAX], title[WEFT_CALL_TITLE];
    struct weft_exec_look *looked = weft_exec_op_look(op);
    int64_t timeout_ms = weft_comm_timeout_of(comm, looked->timeout_ms);
    weft_exec_describe(op, waits, sizeof waits);
    if (!(looked->reported & WEFT_STALL_ASKED)) {
        *deadline_ns = weft_stall_late(comm, weft_exec_op_call(op), &looked->reported, timeout_ms, waits);
        return WEFT_OK;
    }
    weft_call_title(weft_exec_op_call(op), title, sizeof title);
    snprintf(text, sizeof text, "rank %d gave up after %lld ms in %s at %s", comm->rank,
             (long long)timeout_ms, title, waits);
    weft_comm_fail(comm, WEFT_TIMEOUT, text);
    return WEFT_TIMEOUT;
}

/* Whether it has not ended, or has ended well at a rank that waits for a verdict: what it has got may be of another call. */
static int is_open(const struct weft_comm *comm, const struct weft_exec_op *op)
{
    int status = weft_exec_op_status(op);
    return status == WEFT_AGAIN ||
           (status == WEFT_OK && weft_stall_has_suspicion(comm) && !comm->failure.status);
}

/* What has ended well here may be worth nothing: another call's data, or half a result that a rank which gave up let others read. */
static int is_in_doubt(const struct weft_comm *comm)
{
    return weft_stall_has_suspicion(comm) || weft_bootstrap_has_failed(comm->bootstrap);
}

struct waiting_op {
    struct weft_comm *comm;
    struct weft_exec_op *op;
};

static int has_ended(void *arg)
{
    const struct waiting_op *waiting = arg;
    return !is_open(waiting->comm, waiting->op);
}

static int ends_late(void *arg, int64_t *deadline_ns)
{
    const struct waiting_op *waiting = arg;
    return weft_work_late(waiting->comm, waiting->op, deadline_ns);
}

int weft_work_drive(struct weft_comm *comm, struct weft_exec_op *op, int64_t deadline_ns, int revoke)
{
    struct waiting_op waiting = {comm, op};
    int status = weft_comm_wait(comm, has_ended, revoke ? ends_late : weft_wait_ends, &waiting, deadline_ns,
                                weft_exec_op_look(op)->timeout_ms);
    if (is_open(comm, op))
        return weft_fail(status, "the operation is still running");
    status = weft_exec_op_status(op);
    if (status == WEFT_OK && is_in_doubt(comm))
        return weft_comm_check(comm);
    if (status == WEFT_OK)
        weft_progress_flush(comm->context);
    return status;
}

void weft_part_end(struct weft_part *part)
{
    if (part->op)
        weft_exec_op_free(part->op);
    weft_plans_put(part->plan);
    free(part->memory);
    if (part->staging) /* not before the command queue's work on it is done */
        weft_command_queue_keep(part->commands, weft_memory_buffer_put, part->context, WEFT_SHM,
                                part->staging, part->staging_bytes);
    weft_command_queue_put(part->commands);
    if (part->commands && *weft_command_queues_surplus(part->context->devices.queues, 0) &&
        !atomic_exchange(&part->context->regions.has_surplus, 1))
        weft_service_wake(part->context->service);
    free(part->moves);
    *part = (struct weft_part){0};
}

/* One that has been put back, or NULL. */
static struct weft_work *take_spare(struct weft_context_core *core)
{
    struct weft_work *work = core->spare;
    if (work) {
        core->spare = work->next;
        core->spares--;
    }
    return work;
}

int weft_work_new(struct weft_comm *comm, int64_t timeout_ms, const char *label, struct weft_work **made)
{
    struct weft_work *work = take_spare(&comm->context->core);
    if (!work)
        work = malloc(sizeof *work);
    if (!work)
        return weft_fail(WEFT_NOMEM, "no memory for a work handle");
    size_t bytes = offsetof(struct weft_work, label);
    __asm__("" : "+r"(bytes)); /* gcc clears what it knows the length of with rep stos, which takes longer */
    memset(work, 0, bytes);
    work->label[0] = '\0';
    work->comm = comm;
    work->context = comm->context;
    work->timeout_ms = timeout_ms;
    work->deadline_ns = weft_deadline_about_ns(weft_comm_timeout_of(comm, timeout_ms));
    atomic_init(&work->status, WEFT_AGAIN);
    if (label)
        snprintf(work->label, sizeof work->label, "%s", label);
    work->parts = &work->only;
    *made = work;
    return WEFT_OK;
}

/* All that hangs on it. */
static void clear(struct weft_work *work)
{
    if (work->parts != &work->only)
        free(work->parts);
    free(work->arg);
    free(work->sent);
    free(work->notice);
}

void weft_work_discard(struct weft_work *work)
{
    clear(work);
    free(work);
}

void weft_work_recycle(struct weft_work *work)
{
    struct weft_context_core *core = &work->context->core;
    clear(work);
    if (core->spares >= SPARES_MAX) {
        free(work);
        return;
    }
    work->comm = NULL; /* weft_work_free() refuses it */
    work->next = core->spare;
    core->spare = work;
    core->spares++;
}

void weft_works_free_spares(struct weft_context *context)
{
    for (struct weft_work *work = context->core.spare, *next; work; work = next) {
        next = work->next;
        free(work);
    }
    context->core.spare = NULL;
    context->core.spares = 0;
}

struct weft_exec_op *weft_work_running(const struct weft_work *work)
{
    for (size_t i = 0; i < work->part_count; i++) {
        struct weft_exec_op *op = work->parts[i].op;
        if (op && is_open(work->comm, op))
            return op;
    }
    return NULL;
}

void weft_work_end(struct weft_work *work, int status)
{
    /* Under the lock, although it may be long: the callback's thread may free the handle before it waits. And before the status, which
     * who waits reads without the lock. */
    if (work->notice)
        weft_work_finish(work, status);
    atomic_store_explicit(&work->status, status, memory_order_release);
    if (!work->is_quiet)
        weft_progress_ended(work->context);
    weft_work_notify(work);
}

void weft_work_settle(struct weft_work *work)
{
    int status = WEFT_OK;
    if (work->is_message || work->background || work->status != WEFT_AGAIN || work->queued ||
        weft_work_running(work))
        return;
    for (size_t i = 0; i < work->part_count; i++) {
        struct weft_part *part = &work->parts[i];
        int ended = part->op ? weft_exec_op_status(part->op) : WEFT_OK;
        status = status == WEFT_OK ? ended : status;
        weft_part_end(part);
    }
    if (status == WEFT_OK && is_in_doubt(work->comm))
        status = weft_comm_check(work->comm);
    weft_work_end(work, status);
}

void weft_work_finish(struct weft_work *work, int status)
{
    void (*last)(struct weft_work *) = status == WEFT_OK ? work->finish : NULL;
    work->finish = NULL;
    if (last)
        last(work);
}

/* Of a send and a receive the send's status goes first: the receive is taken back where that has failed. */
int weft_work_message_status(const struct weft_work *work)
{
    int own = work->request.status, sent = work->sent ? work->sent->request.status : WEFT_OK;
    if (own == WEFT_AGAIN || sent == WEFT_AGAIN)
        return WEFT_AGAIN;
    return sent != WEFT_OK ? sent : own;
}

const struct weft_request *weft_work_culprit(const struct weft_work *work)
{
    return work->sent && work->sent->request.status != WEFT_OK ? &work->sent->request : &work->request;
}

void weft_work_expire(struct weft_work *work)
{
    struct weft_comm *comm = work->comm;
    int dropped = work->dropped, sends = work->sent && work->sent->request.status == WEFT_AGAIN;
    weft_request_expire(comm, sends ? &work->sent->request : &work->request);
    if (!dropped && sends && work->request.status == WEFT_AGAIN)
        weft_p2p_withdraw(comm->p2p, &work->request, WEFT_CANCELLED);
}

void weft_work_message_ended(struct weft_request *request)
{
    struct weft_sent *sent = (struct weft_sent *)request;
    struct weft_work *work = (struct weft_work *)((char *)request - offsetof(struct weft_work, request));
    if (request->is_second)
        work = sent->work;
    int status = weft_work_message_status(work);
    if (status == WEFT_AGAIN)
        return;
    weft_work_end(work, status);
    if (work->dropped) {
        work->comm->dropped--;
        weft_work_recycle(work);
    }
}

/* Whether a failure is the work's alone, and not its communicator's. */
static int fails_alone(const struct weft_work *work)
{
    return work->background || (work->is_message && weft_work_culprit(work)->own);
}

int weft_work_word(const struct weft_work *work)
{
    const struct weft_comm *comm = work->comm;
    if (work->status == WEFT_OK)
        return WEFT_OK;
    if (fails_alone(work))
        return work->background ? weft_fail(work->status, "%s", work->background->detail)
                                : weft_request_fail(comm, weft_work_culprit(work));
    return comm->failure.status ? weft_comm_word_failure(comm)
                                : weft_fail(work->status, "%s", weft_strerror(work->status));
}

static int result(struct weft_work *work)
{
    if (work->status == WEFT_AGAIN)
        return WEFT_OK;
    weft_work_finish(work, work->status);
    if (work->status != WEFT_OK && !fails_alone(work) && work->comm->failure.status)
        atomic_store(&work->comm->failure.is_reported, 1); /* every work says it */
    return weft_work_word(work);
}

/* [lock] */
static int drive_message(struct weft_work *work, int64_t deadline_ns, int ends)
{
    struct weft_p2p *p2p = work->comm->p2p;
    int status =
        work->sent ? weft_request_drive(work->comm, &work->sent->request, deadline_ns, ends) : WEFT_OK;
    if (work->sent && work->sent->request.status == WEFT_AGAIN)
        return status;
    if (status != WEFT_OK && work->request.status == WEFT_AGAIN)
        weft_p2p_withdraw(p2p, &work->request, WEFT_CANCELLED);
    return weft_request_drive(work->comm, &work->request, deadline_ns, ends);
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
        if (weft_comm_check(comm) == WEFT_OK && now_ns >= work->deadline_ns)
            drive_message(work, now_ns, 1);
        return;
    }
    weft_stall_look(comm, now_ns);
    struct weft_exec_op *op = weft_work_running(work);
    if (now_ns >= work->deadline_ns && op)
        weft_work_late(comm, op, &work->deadline_ns);
    else
        weft_comm_check(comm);
}

/* [lock] */
static int drive(struct weft_work *work, int64_t deadline_ns, int revoke)
{
    if (work->is_message)
        return drive_message(work, deadline_ns, revoke);
    int status = WEFT_OK;
    if (work->queued)
        return weft_queue_drive(work, deadline_ns);
    for (struct weft_exec_op *op; status == WEFT_OK && (op = weft_work_running(work));)
        status = weft_work_drive(work->comm, op, deadline_ns, revoke);
    return status;
}

void weft_work_attend(struct weft_work *work, int waits, int64_t since_ns)
{
    struct weft_exec_op *op = work->part_count == 1 ? weft_work_running(work) : NULL;
    int before = work->waiters;
    work->waiters += waits ? 1 : -1;
    if (op && (before == 0 || work->waiters == 0)) /* what several threads wait is not counted twice */
        weft_exec_op_waits(op, waits, since_ns);
}

/* Looks, or waits; since_ns: since when its caller has waited for the lock, or 0. [lock] */
static int await_end(struct weft_work *work, int64_t timeout_ms, int64_t since_ns)
{
    int64_t deadline_ns = weft_deadline_ns(timeout_ms);
    int revoke = deadline_ns >= work->deadline_ns, status = WEFT_OK;
    weft_work_settle(work);
    if (work->status == WEFT_AGAIN) {
        weft_work_attend(work, 1, since_ns);
        if (timeout_ms == 0)
            look(work);
        else
            status = drive(work, revoke ? work->deadline_ns : deadline_ns, revoke);
        weft_work_attend(work, 0, 0);
    }
    weft_work_settle(work);
    if (work->status == WEFT_AGAIN && timeout_ms == 0)
        status = weft_fail(WEFT_AGAIN, "the operation is still running");
    return status;
}

int weft_work_wait(weft_work *work, int64_t timeout_ms)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work)
        return weft_fail(WEFT_INVALID, "work is NULL");
    int status = weft_group_place_waits(); /* it may be one of them */
    if (status != WEFT_OK)
        return status;
    if (work->background) {
        status = work->background->await(work, timeout_ms);
        if (status != WEFT_OK)
            return status;
    } else if (work->status == WEFT_AGAIN) {
        struct weft_context *context = work->context;
        int64_t since_ns = weft_context_lock_since(context); /* who had it may have copied for the call */
        status = await_end(work, timeout_ms, since_ns);
        weft_context_unlock(context);
        if (work->status == WEFT_AGAIN)
            return status;
    }
    status = result(work);
    if (status == WEFT_OK && work->info)
        weft_message_of(&work->request, work->info);
    return status;
}

/* Of one that has ended. */
static int call_at_once(struct weft_work *work, struct weft_notice *notice)
{
    int status = result(work);
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", status == WEFT_OK ? "" : weft_error_detail());
    notice->callback(notice->arg, status, text);
    free(notice);
    weft_error_clear();
    return WEFT_OK;
}

int weft_work_set_callback(weft_work *work, weft_work_callback *callback, void *arg)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work || !callback)
        return weft_fail(WEFT_INVALID, "%s is NULL", work ? "callback" : "work");
    struct weft_notice *notice = malloc(sizeof *notice), *before = NULL;
    if (!notice)
        return weft_fail(WEFT_NOMEM, "no memory for a callback");
    *notice = (struct weft_notice){.callback = callback, .arg = arg};
    weft_context_lock(work->context);
    weft_work_settle(work);
    int runs = work->status == WEFT_AGAIN;
    if (runs) {
        before = work->notice;
        work->notice = notice;
        weft_work_watch(work);
        if (work->is_quiet)
            weft_queue_rouse(work->comm);
    }
    weft_context_unlock(work->context);
    free(before);
    return runs ? WEFT_OK : call_at_once(work, notice);
}

int weft_work_cancel(weft_work *work)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!work)
        return weft_fail(WEFT_INVALID, "work is NULL");
    if (!work->is_message || work->request.sends)
        return weft_fail(WEFT_INVALID, "the work is no receive: expected one of weft_recv()");
    struct weft_context *context = work->comm->context;
    weft_context_lock(context);
    int status = weft_p2p_withdraw(work->comm->p2p, &work->request, WEFT_CANCELLED);
    weft_context_unlock(context);
    return status == WEFT_OK ? status
                             : weft_fail(WEFT_BUSY, "the receive has a message already, or has ended");
}

/* [lock] */
static void drop(struct weft_work *work)
{
    struct weft_comm *comm = work->comm;
    work->dropped = 1;
    comm->dropped++;
    if (work->is_quiet)
        weft_queue_rouse(comm);
    if (work->is_message) {
        work->request.is_unannounced = 1;
        if (work->sent)
            work->sent->request.is_unannounced = 1;
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
        weft_work_settle(work);
        weft_work_finish(work, work->status);
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
    if (work->background)
        return work->background->end(work);
    if (!comm)
        return weft_fail(WEFT_INVALID, "work has been freed before: expected one that runs, or has ended");
    weft_context_lock(comm->context);
    weft_work_settle(work);
    int status = work->status, is_gone = status == WEFT_AGAIN || (status == WEFT_OK && !work->finish);
    comm->works--;
    if (status == WEFT_AGAIN)
        drop(work);
    else if (is_gone)
        weft_work_recycle(work);
    weft_context_unlock(comm->context);
    if (is_gone)
        return WEFT_OK;
    status = result(work);
    weft_work_discard(work);
    return status;
}

static int has_room(void *arg)
{
    const struct weft_comm *comm = arg;
    return !weft_exec_is_full(comm->exec);
}

static int room_is_late(void *arg, int64_t *deadline_ns)
{
    struct weft_comm *comm = arg;
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    return weft_exec_running(comm->exec, ops) > 0 ? weft_work_late(comm, ops[0], deadline_ns) : WEFT_OK;
}

int weft_works_await_room(struct weft_comm *comm)
{
    return weft_comm_wait(comm, has_room, room_is_late, comm, 0, 0);
}

static int drops_have_ended(void *arg)
{
    const struct weft_comm *comm = arg;
    return !comm->dropped;
}

static int drops_are_late(void *arg, int64_t *deadline_ns)
{
    struct weft_comm *comm = arg;
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
    int status = weft_comm_wait(comm, drops_have_ended, drops_are_late, comm, 0, 0);
    weft_works_reap(comm);
    weft_context_unlock(comm->context);
    return status;
}

/* --- stream-ordered messages */

/* WEFT_OK: nothing has happened; 1: something has; else what the request has failed with. */
static int look_held(struct weft_comm *comm, struct weft_request *request, int64_t now_ns)
{
    if (request->is_reached) {
        if (now_ns < request->deadline_ns)
            return WEFT_OK;
        request->deadline_ns = WEFT_NEVER_NS;
        weft_request_expire(comm, request);
        return 1;
    }
    int reached = weft_request_look(request);
    if (reached > 0)
        weft_request_go_on(request, weft_comm_deadline_of(comm, request->timeout_ms));
    return reached;
}

int weft_works_follow(struct weft_context *context)
{
    int64_t now_ns = weft_clock_ns();
    for (struct weft_request *request = context->p2p.held, *next; request; request = next) {
        struct weft_comm *comm = weft_p2p_comm(request->p2p);
        next = request->held_next;
        if (weft_comm_check(comm) != WEFT_OK)
            return 1; /* the list has changed */
        int status = look_held(comm, request, now_ns);
        if (status < 0)
            weft_comm_fail_here(comm, status);
        if (status != WEFT_OK)
            return 1; /* several may have ended, next among them */
    }
    return 0;
}
