/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/drive/progress.h"

#define DUMPED_MAX 4

static void enlist(struct weft_comm *comm)
{
    if (comm->queue.is_listed)
        return;
    comm->queue.is_listed = 1;
    comm->queue.next = comm->context->core.queues;
    comm->context->core.queues = comm;
}

static void delist(struct weft_comm *comm)
{
    struct weft_comm **at = &comm->context->core.queues;
    if (!comm->queue.is_listed || comm->queue.head || comm->queue.running)
        return;
    while (*at != comm)
        at = &(*at)->queue.next;
    *at = comm->queue.next;
    comm->queue.is_listed = 0;
}

/* It is in no list any more. What it has computed is where it belongs before its status says so, and before the stream wait opens. */
static void end(struct weft_comm *comm, struct weft_queued *queued, int status)
{
    struct weft_work *work = queued->work;
    for (size_t i = 0; i < work->part_count; i++)
        weft_part_end(&work->parts[i]);
    if (status == WEFT_OK && weft_bootstrap_has_failed(comm->bootstrap))
        status = weft_comm_check(comm); /* as in weft_work_drive() */
    if (status == WEFT_OK && work->finish)
        work->finish(work);
    work->finish = NULL;
    comm->context->core.queued--;
    comm->context->core.quiet -= queued->is_quiet;
    struct weft_stream_wait *stream_wait = queued->stream_wait;
    queued->ops->release(queued);
    weft_stream_wait_put(stream_wait);
    work->queued = NULL;
    weft_work_end(work, status);
    if (work->dropped) {
        comm->dropped--;
        weft_work_discard(work);
    }
}

static void end_first(struct weft_comm *comm, struct weft_queued **list, int status)
{
    struct weft_queued *queued = *list;
    if (list == &comm->queue.head)
        atomic_fetch_sub(&comm->queue.waiting, 1);
    *list = queued->next;
    end(comm, queued, status);
}

void weft_queue_fail(struct weft_comm *comm)
{
    int status = comm->failure.status ? comm->failure.status : WEFT_CANCELLED;
    while (comm->queue.running)
        end_first(comm, &comm->queue.running, status);
    while (comm->queue.head)
        end_first(comm, &comm->queue.head, status);
    delist(comm);
}

static int status_of(struct weft_queued *queued)
{
    const struct weft_work *work = queued->work;
    int status = WEFT_OK;
    if (weft_work_running(work))
        return WEFT_AGAIN;
    for (size_t i = 0; i < work->part_count && status == WEFT_OK; i++)
        status = work->parts[i].op ? weft_exec_op_status(work->parts[i].op) : WEFT_OK;
    return status;
}

static void be_late(struct weft_comm *comm, struct weft_queued *queued)
{
    struct weft_exec_op *op = weft_work_running(queued->work);
    char call[200], text[WEFT_DETAIL_MAX];
    if (op) {
        weft_work_late(comm, op, &queued->deadline_ns);
        return;
    }
    weft_call_print(&queued->call, call, sizeof call);
    snprintf(text, sizeof text, "rank %d gave up after %" PRId64 " ms: no end of %s", comm->rank,
             weft_comm_timeout_of(comm, queued->work->timeout_ms), call);
    weft_comm_fail(comm, WEFT_TIMEOUT, text);
}

/* Ends what has ended. Returns how many. */
static int look_at_running(struct weft_comm *comm)
{
    int moved = 0;
    int64_t now_ns = 0;
    for (struct weft_queued **at = &comm->queue.running; *at && !comm->failure.status;) {
        int status = status_of(*at);
        if (status == WEFT_AGAIN) {
            now_ns = now_ns ? now_ns : weft_clock_ns();
            if (now_ns >= (*at)->deadline_ns)
                be_late(comm, *at);
            at = &(*at)->next;
            continue;
        }
        end_first(comm, at, status);
        moved++;
    }
    return moved;
}

/* Starts what may begin. Returns how many. */
static int start_waiting(struct weft_comm *comm)
{
    struct weft_queue *queue = &comm->queue;
    int moved = 0;
    while (queue->head && !comm->failure.status) {
        struct weft_queued *queued = queue->head;
        int reached = weft_stream_wait_look(queued->stream_wait);
        if (!reached)
            break;
        int status = reached < 0 ? reached : queued->ops->start(queued);
        if (status == WEFT_AGAIN)
            break;
        if (status != WEFT_OK) {
            weft_comm_fail_here(comm, status);
            break;
        }
        moved++;
        if (!queued->deadline_ns)
            queued->deadline_ns = weft_comm_deadline_of(comm, queued->work->timeout_ms);
        queue->head = queued->next;
        atomic_fetch_sub(&queue->waiting, 1);
        queued->next = queue->running;
        queue->running = queued;
    }
    return moved;
}

/* As many calls wait as may be in flight, for peers: a stream's may be the program's to give. */
static int is_crowded(const struct weft_comm *comm)
{
    return atomic_load(&comm->queue.waiting) >= WEFT_OPS_MAX && !comm->queue.head->stream_wait;
}

static int has_room(void *arg)
{
    return !is_crowded(arg);
}

/* What ends as soon as it begins does so here: of a quiet call nobody else may ever look again. Returns how much moved. */
static int advance(struct weft_comm *comm)
{
    int ended = look_at_running(comm), begun = start_waiting(comm);
    return ended + begun + (begun ? look_at_running(comm) : 0);
}

static void go_on(struct weft_comm *comm)
{
    comm->context->progress.progressing++;
    advance(comm);
    comm->context->progress.progressing--;
}

int weft_queue_add(struct weft_comm *comm, struct weft_queued *queued, struct weft_stream *stream,
                   struct weft_work *work)
{
    struct weft_queue *queue = &comm->queue;
    if (!stream && is_crowded(comm))
        weft_comm_wait(comm, has_room, NULL, comm, WEFT_NEVER_NS, 0); /* the first one has a deadline */
    if (comm->failure.status)
        return weft_comm_word_failure(comm);
    queued->next = NULL;
    queued->work = work;
    queued->stream_wait = NULL;
    int status = stream ? weft_stream_wait_take(stream, &queued->stream_wait) : WEFT_OK;
    if (status != WEFT_OK)
        return weft_comm_fail_here(comm, status); /* the others would wait for it */
    if (queue->head && queue->head->is_quiet)
        go_on(comm);
    weft_queue_rouse(comm); /* nobody waits for it alone any more */
    queued->is_quiet &= !queue->head;
    work->is_quiet = queued->is_quiet;
    work->queued = queued;
    queued->call.label = work->label[0] ? work->label : NULL;
    work->deadline_ns = WEFT_NEVER_NS;
    *(queue->head ? &queue->tail->next : &queue->head) = queued;
    queue->tail = queued;
    atomic_fetch_add(&queue->waiting, 1);
    enlist(comm);
    comm->context->core.queued++;
    if (queued->is_quiet)
        comm->context->core.quiet++;
    else
        weft_progress_background(comm->context, 1);
    if (queue->head == queued && !stream)
        go_on(comm); /* perhaps it need not wait for progress */
    return WEFT_OK;
}

void weft_queue_rouse(struct weft_comm *comm)
{
    struct weft_queued *head = comm->queue.head;
    if (!head || !head->is_quiet)
        return;
    head->is_quiet = head->work->is_quiet = 0;
    comm->context->core.quiet--;
    weft_progress_background(comm->context, 1);
}

int weft_queues_progress(struct weft_context *context)
{
    int moved = 0;
    for (struct weft_comm *comm = context->core.queues, *next; comm; comm = next) {
        next = comm->queue.next;
        weft_comm_check(comm);
        moved += advance(comm);
        if (comm->failure.status) {
            weft_queue_fail(comm);
            moved++;
        }
        delist(comm);
    }
    return moved;
}

/* --- waiting */

/* A peer that comes wakes who sleeps, but not who is about to. */
static int is_due(const struct weft_comm *comm)
{
    const struct weft_queued *head = comm->queue.head;
    return head && head->is_quiet && !head->ops->is_exchanging(head);
}

static int all_have_begun(void *arg)
{
    const struct weft_comm *comm = arg;
    return atomic_load(&comm->queue.waiting) == 0 || is_due(comm);
}

static int has_ended(void *arg)
{
    const struct weft_work *work = arg;
    return !work->queued || is_due(work->comm);
}

int weft_queue_await(struct weft_comm *comm)
{
    if (!atomic_load_explicit(&comm->queue.waiting, memory_order_acquire))
        return WEFT_OK;
    int status = weft_group_place_waits(); /* nobody else does */
    if (status != WEFT_OK)
        return status;
    weft_context_lock(comm->context);
    while (atomic_load(&comm->queue.waiting) && !comm->failure.status) {
        weft_comm_wait(comm, all_have_begun, NULL, comm, WEFT_NEVER_NS, 0);
        weft_progress_once(comm->context);
    }
    weft_context_unlock(comm->context);
    return comm->failure.status ? weft_comm_report(comm) : WEFT_OK;
}

int weft_queue_drive(struct weft_work *work, int64_t deadline_ns)
{
    struct weft_comm *comm = work->comm;
    int status = WEFT_OK;
    while (status == WEFT_OK && work->queued && !comm->failure.status) {
        status = weft_comm_wait(comm, has_ended, weft_wait_ends, work, deadline_ns, 0);
        weft_progress_once(comm->context);
    }
    if (comm->failure.status) {
        weft_queue_fail(comm);
        return WEFT_OK;
    }
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, "the operation is still running");
}

/* --- texts */

/* "allreduce #17: ...: waits for the stream that the call was made on, of sim device 0" */
static int print(const struct weft_queued *queued, char *text, size_t capacity)
{
    char call[200], stream[120] = "";
    snprintf(stream, sizeof stream, "the %s", queued->deadline_ns ? "other ranks" : "calls before it");
    weft_call_print(&queued->call, call, sizeof call);
    if (queued->stream_wait && weft_stream_wait_look(queued->stream_wait) == 0)
        weft_stream_wait_print(queued->stream_wait, stream, sizeof stream);
    return snprintf(text, capacity, "%s: waits for %s", call, stream);
}

void weft_queue_print_first(const struct weft_comm *comm, char *text, size_t capacity)
{
    if (comm->queue.head)
        print(comm->queue.head, text, capacity);
}

size_t weft_queue_dump(const struct weft_comm *comm, char *text, size_t capacity)
{
    size_t used = 0;
    int lines = 0;
    const struct weft_queued *queued = comm->queue.head;
    if (queued && queued->deadline_ns) /* it has begun, and is reported elsewhere */
        queued = queued->next;
    for (; queued && lines < DUMPED_MAX; queued = queued->next, lines++) {
        char line[400];
        print(queued, line, sizeof line);
        used += (size_t)snprintf(used < capacity ? text + used : NULL, used < capacity ? capacity - used : 0,
                                 "  %s\n", line);
    }
    if (queued)
        used += (size_t)snprintf(used < capacity ? text + used : NULL, used < capacity ? capacity - used : 0,
                                 "  and %d more calls that have not begun\n", comm->queue.waiting - lines);
    return used;
}
