/* SPDX-License-Identifier: Apache-2.0 */
/* The form of the lines is public (weft_comm_dump(3)): weft-perf merges those of all ranks. */
#include "comm/core/dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/core/comm.h"
#include "comm/exec/fastpath.h"
#include "comm/core/queue.h"

/* Text that is cut where its room ends. */
struct page {
    char *text;
    size_t capacity, used;
};

static void add(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

static size_t room(const struct page *page)
{
    return page->used < page->capacity ? page->capacity - page->used : 0;
}

static void add(struct page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(room(page) ? page->text + page->used : NULL, room(page), format, args);
    va_end(args);
    page->used += length > 0 ? (size_t)length : 0;
}

static void add_call(struct page *page, const struct weft_comm *comm, const struct weft_call *call,
                     int64_t since_ns)
{
    char text[200];
    int64_t waited_ms = since_ns ? (weft_clock_ns() - since_ns) / 1000000 : 0;
    weft_call_print(call, text, sizeof text);
    add(page, "rank %d of %d on host '%s', pid %d, for %" PRId64 " ms in %s\n", comm->rank, comm->ranks,
        comm->members[comm->rank].host, comm->members[comm->rank].pid, waited_ms, text);
}

static void add_fastpath(struct page *page, const struct weft_comm *comm, const struct weft_waiting *waiting)
{
    for (int r = 0; r < comm->ranks; r++) {
        if (weft_fastpath_awaits(comm->fastpath, (uint32_t)r, waiting->fast_sequence))
            add(page, "  fast path: nothing published yet, waits for rank %d\n", r);
    }
}

/* Sends, receives and messages that no receive has taken. Returns whether there are any. */
static int add_messages(struct page *page, const struct weft_comm *comm)
{
    char text[8192];
    if (weft_p2p_dump(comm->p2p, text, sizeof text) == 0)
        return 0;
    const struct weft_request *oldest = weft_p2p_oldest(comm->p2p);
    int64_t waited_ms = oldest ? (weft_clock_ns() - oldest->since_ns) / 1000000 : 0;
    add(page, "rank %d of %d on host '%s', pid %d, for %" PRId64 " ms in messages\n", comm->rank, comm->ranks,
        comm->members[comm->rank].host, comm->members[comm->rank].pid, waited_ms);
    add(page, "%s", text);
    return 1;
}

/* Calls that have been made and have not begun. Returns whether there are any. */
static int add_queue(struct page *page, const struct weft_comm *comm)
{
    char text[2000];
    size_t length = weft_queue_dump(comm, text, sizeof text);
    if (length)
        add(page, "rank %d of %d on host '%s', pid %d, for 0 ms in calls that have not begun\n%s", comm->rank,
            comm->ranks, comm->members[comm->rank].host, comm->members[comm->rank].pid, text);
    return length != 0;
}

/* Every call that this rank is in. Returns how many. */
static int add_calls(struct page *page, const struct weft_comm *comm)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    int count = weft_exec_running(comm->exec, ops);
    const struct weft_waiting *waiting = comm->stall.waiting;
    for (int i = 0; i < count; i++) {
        add_call(page, comm, weft_exec_op_call(ops[i]), weft_exec_op_look(ops[i])->since_ns);
        page->used += weft_exec_dump(ops[i], room(page) ? page->text + page->used : NULL, room(page));
    }
    int messages = add_messages(page, comm) + add_queue(page, comm);
    if (!waiting)
        return count + messages;
    add_call(page, comm, &waiting->call, waiting->since_ns);
    if (waiting->fast_sequence)
        add_fastpath(page, comm, waiting);
    else
        add(page, "  waits until every rank has come to the end of the communicator\n");
    return count + messages + 1;
}

size_t weft_dump_locked(const struct weft_comm *comm, char *text, size_t capacity)
{
    struct page page = {text, capacity, 0};
    if (capacity)
        text[0] = '\0';
    if (comm->failure.status && comm->failure.waits[0]) {
        add(&page, "%s", comm->failure.waits);
    } else if (add_calls(&page, comm) == 0) {
        add(&page, "rank %d of %d on host '%s', pid %d, waits for nothing; calls made: %" PRIu64 "\n",
            comm->rank, comm->ranks, comm->members[comm->rank].host, comm->members[comm->rank].pid,
            atomic_load_explicit(&comm->calls, memory_order_relaxed));
    }
    if (comm->failure.status)
        add(&page, "  failed: %s\n", comm->failure.text);
    return page.used;
}

int weft_comm_dump(weft_comm *comm, char *text, size_t capacity, size_t *length)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || (!text && capacity))
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "text" : "comm");
    weft_context_lock(comm->context);
    size_t needed = weft_dump_locked(comm, text, capacity);
    weft_context_unlock(comm->context);
    if (length)
        *length = needed;
    return WEFT_OK;
}
