/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/group_calls.h"
#include "comm/progress.h"

#define DUMPED_MAX 4

static void enlist(struct weft_comm *comm)
{
    if (comm->queue.is_listed)
        return;
    comm->queue.is_listed = 1;
    comm->queue.next = comm->context->queues;
    comm->context->queues = comm;
}

static void delist(struct weft_comm *comm)
{
    struct weft_comm **at = &comm->context->queues;
    if (!comm->queue.is_listed || comm->queue.head || comm->queue.running)
        return;
    while (*at != comm)
        at = &(*at)->queue.next;
    *at = comm->queue.next;
    comm->queue.is_listed = 0;
}

int weft_queue_add(struct weft_comm *comm, struct weft_queued *queued, struct weft_stream *stream,
                   struct weft_work *work)
{
    struct weft_queue *queue = &comm->queue;
    queued->next = NULL;
    queued->work = work;
    queued->hold = NULL;
    int status = stream ? weft_hold_take(stream, &queued->hold) : WEFT_OK;
    if (status != WEFT_OK) {
        char text[WEFT_DETAIL_MAX];
        snprintf(text, sizeof text, "%s", weft_error_detail());
        if (comm->bootstrap) /* the other ranks would wait for it */
            weft_comm_fail(comm, status, text);
        return weft_fail(status, "%s", text);
    }
    work->queued = queued;
    work->deadline_ns = WEFT_NEVER_NS;
    *(queue->head ? &queue->tail->next : &queue->head) = queued;
    queue->tail = queued;
    atomic_fetch_add(&queue->waiting, 1);
    enlist(comm);
    weft_progress_background(comm->context, 1);
    return WEFT_OK;
}

/* It is in no list any more. What it has computed is where it belongs before its status, and the gate, say so. */
static void end(struct weft_comm *comm, struct weft_queued *queued, int status)
{
    struct weft_work *work = queued->work;
    for (size_t i = 0; i < work->part_count; i++)
        weft_part_end(&work->parts[i]);
    if (status == WEFT_OK && comm->bootstrap && weft_bootstrap_has_failed(comm->bootstrap))
        status = weft_comm_check(comm); /* as in weft_work_drive() */
    if (status == WEFT_OK && work->finish)
        work->finish(work);
    work->finish = NULL;
    weft_hold_put(queued->hold);
    queued->ops->release(queued);
    work->queued = NULL;
    work->status = status;
    weft_progress_ended(comm->context);
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
    int status = comm->failed ? comm->failed : WEFT_CANCELLED;
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
    if (queued->ops->look)
        return queued->ops->look(queued);
    for (size_t i = 0; i < work->part_count; i++) {
        int part = work->parts[i].op ? weft_exec_op_status(work->parts[i].op) : WEFT_OK;
        if (part == WEFT_AGAIN)
            return WEFT_AGAIN;
        status = status == WEFT_OK ? part : status;
    }
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
             comm->timeout_ms, call);
    weft_comm_fail(comm, WEFT_TIMEOUT, text);
}

/* A failure has been said to weft_error_detail(). */
static void fail(struct weft_comm *comm, int status)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_comm_fail(comm, status, text);
}

/* Ends what has ended. Returns how many. */
static int look_at_running(struct weft_comm *comm)
{
    int moved = 0;
    int64_t now_ns = comm->queue.running ? weft_clock_ns() : 0;
    for (struct weft_queued **at = &comm->queue.running; *at && !comm->failed;) {
        int status = status_of(*at);
        if (status == WEFT_AGAIN) {
            if (now_ns >= (*at)->deadline_ns)
                be_late(comm, *at);
            at = &(*at)->next;
            continue;
        }
        if (status != WEFT_OK && !comm->bootstrap)
            fail(comm, status);
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
    while (queue->head && !comm->failed) {
        struct weft_queued *queued = queue->head;
        int reached = weft_hold_look(queued->hold);
        if (!reached)
            break;
        int status = reached < 0 ? reached : queued->ops->start(queued);
        if (status == WEFT_AGAIN)
            break;
        if (status != WEFT_OK) {
            fail(comm, status);
            break;
        }
        moved++;
        queued->deadline_ns = weft_comm_deadline_ns(comm);
        queue->head = queued->next;
        atomic_fetch_sub(&queue->waiting, 1);
        queued->next = queue->running;
        queue->running = queued;
    }
    return moved;
}

int weft_queues_progress(struct weft_context *context)
{
    int moved = 0;
    for (struct weft_comm *comm = context->queues, *next; comm; comm = next) {
        next = comm->queue.next;
        if (weft_comm_is_lost(comm))
            weft_comm_check_any(comm);
        moved += look_at_running(comm) + start_waiting(comm);
        if (comm->failed) {
            weft_queue_fail(comm);
            moved++;
        }
        delist(comm);
    }
    return moved;
}

/* --- waiting */

static int calls_wait(void *arg)
{
    const struct weft_comm *comm = arg;
    return atomic_load(&comm->queue.waiting) && !comm->failed;
}

static int has_not_ended(void *arg)
{
    const struct weft_work *work = arg;
    return work->queued != NULL;
}

static int is_late(struct weft_comm *comm, int64_t *deadline_ns)
{
    (void)comm, (void)deadline_ns;
    return weft_fail(WEFT_TIMEOUT, "the operation is still running");
}

int weft_queue_await(struct weft_comm *comm)
{
    if (!atomic_load_explicit(&comm->queue.waiting, memory_order_relaxed))
        return WEFT_OK;
    int status = weft_group_place_holds(); /* nobody else does */
    if (status != WEFT_OK)
        return status;
    weft_context_lock(comm->context);
    weft_drive_while(comm, calls_wait, comm, WEFT_NEVER_NS, is_late);
    weft_context_unlock(comm->context);
    return comm->failed ? weft_comm_report(comm) : WEFT_OK;
}

int weft_queue_drive(struct weft_work *work, int64_t deadline_ns)
{
    return weft_drive_while(work->comm, has_not_ended, work, deadline_ns, is_late);
}

/* --- texts */

/* "allreduce #17: ...: waits for the stream that the call was made on, of sim device 0" */
static int print(const struct weft_queued *queued, char *text, size_t capacity)
{
    char call[200], stream[120] = "the calls before it";
    weft_call_print(&queued->call, call, sizeof call);
    if (queued->hold && weft_hold_look(queued->hold) == 0)
        weft_hold_print(queued->hold, stream, sizeof stream);
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
