/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/stall.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/core/comm.h"
#include "comm/core/dump.h"
#include "comm/exec/fastpath.h"

#define NEVER_LOOKED INT64_C(0)

/* The lowest call that this rank is in. */
static uint64_t oldest_call(const struct weft_comm *comm)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    uint64_t oldest = comm->stall.waiting ? comm->stall.waiting->call.sequence : UINT64_MAX;
    int count = weft_exec_running(comm->exec, ops);
    for (int i = 0; i < count; i++) {
        uint64_t sequence = weft_exec_op_call(ops[i])->sequence;
        oldest = sequence < oldest ? sequence : oldest;
    }
    return oldest;
}

static void report(struct weft_comm *comm, const struct weft_call *call, uint32_t flags, int64_t waited_ms,
                   const char *waits)
{
    struct weft_stall_record record = {.magic = WEFT_STALL_MAGIC,
                                       .flags = flags,
                                       .call = *call,
                                       .oldest = oldest_call(comm),
                                       .waited_ms = waited_ms};
    if (record.oldest > call->sequence)
        record.oldest = call->sequence;
    record.call.label = NULL;
    snprintf(record.label, sizeof record.label, "%s", call->label ? call->label : "");
    snprintf(record.waits, sizeof record.waits, "%s", waits);
    char text[200];
    weft_call_print(call, text, sizeof text);
    weft_log(WEFT_LOG_DEBUG, "rank %d reports %s", comm->rank, text);
    weft_bootstrap_send_oob(comm->bootstrap, 0, WEFT_OOB_REPORT, &record, sizeof record);
}

/* Calls that this rank gave ahead of the others, which may wait in other ones of these numbers. The rank waits, so that it makes no call now. */
static void report_past(struct weft_comm *comm)
{
    struct weft_call call;
    for (uint32_t i = 0; comm->fastpath && weft_fastpath_past(comm->fastpath, i, &call); i++)
        report(comm, &call, 0, 0, "");
}

static void log_dump(struct weft_comm *comm)
{
    char text[4096];
    weft_dump_locked(comm, text, sizeof text);
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        weft_log(WEFT_LOG_WARN, "%s", line);
}

static int64_t log_due_ns(const struct weft_comm *comm, int64_t since_ns)
{
    int64_t report_ms = comm->context->settings.report_ms;
    return report_ms < 0 ? WEFT_NEVER_NS : since_ns + report_ms * 1000000;
}

/* The calls that are due for the log: the first of them stands for all. */
struct slow {
    const struct weft_call *call;
    int64_t waited_ms;
};

/* Reports one call when it has waited long enough; its state is in *since_ns and *reported. Returns when to look again. */
static int64_t look_at(struct weft_comm *comm, const struct weft_call *call, int64_t *since_ns, int *reported,
                       int64_t now_ns, int urgent, struct slow *slow)
{
    if (*since_ns == NEVER_LOOKED)
        *since_ns = now_ns;
    if (call->collective == WEFT_CALL_EXIT) /* others may go on without this rank: that is no difference */
        return WEFT_NEVER_NS;
    if (!(*reported & WEFT_STALL_COMPARED)) {
        if (!urgent && now_ns - *since_ns < WEFT_STALL_NS)
            return *since_ns + WEFT_STALL_NS;
        *reported |= WEFT_STALL_COMPARED;
        report(comm, call, 0, (now_ns - *since_ns) / 1000000, "");
    }
    int64_t due_ns = *reported & WEFT_STALL_LOGGED ? WEFT_NEVER_NS : log_due_ns(comm, *since_ns);
    if (now_ns < due_ns)
        return due_ns;
    *reported |= WEFT_STALL_LOGGED;
    if (!slow->call)
        *slow = (struct slow){call, (now_ns - *since_ns) / 1000000};
    return WEFT_NEVER_NS;
}

static void log_slow(struct weft_comm *comm, const struct slow *slow)
{
    char title[WEFT_CALL_TITLE];
    weft_call_title(slow->call, title, sizeof title);
    weft_log(WEFT_LOG_WARN, "%s has taken %" PRId64 " ms so far; what rank %d waits for:", title,
             slow->waited_ms, comm->rank);
    log_dump(comm);
    report(comm, slow->call, WEFT_STALL_SLOW, slow->waited_ms, "");
}

static int64_t look(struct weft_comm *comm, int64_t now_ns, int urgent)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    struct slow slow = {0};
    int64_t next_ns = now_ns + WEFT_STALL_NS;
    int count = weft_exec_running(comm->exec, ops);
    for (int i = 0; i < count; i++) {
        struct weft_exec_look *looked = weft_exec_op_look(ops[i]);
        int64_t due_ns = look_at(comm, weft_exec_op_call(ops[i]), &looked->since_ns, &looked->reported,
                                 now_ns, urgent, &slow);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    struct weft_waiting *waiting = comm->stall.waiting;
    if (waiting) {
        int was_compared = waiting->reported & WEFT_STALL_COMPARED;
        int64_t due_ns =
            look_at(comm, &waiting->call, &waiting->since_ns, &waiting->reported, now_ns, urgent, &slow);
        if (!was_compared && waiting->reported & WEFT_STALL_COMPARED)
            report_past(comm);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    if (slow.call)
        log_slow(comm, &slow);
    return next_ns;
}

int64_t weft_stall_look_message(struct weft_comm *comm, int64_t *since_ns, int64_t now_ns)
{
    if (*since_ns == NEVER_LOOKED)
        *since_ns = now_ns;
    int64_t due_ns = *since_ns == WEFT_NEVER_NS ? WEFT_NEVER_NS : log_due_ns(comm, *since_ns);
    if (now_ns < due_ns)
        return due_ns;
    weft_log(WEFT_LOG_WARN, "a message has taken %" PRId64 " ms so far; what rank %d waits for:",
             (now_ns - *since_ns) / 1000000, comm->rank);
    log_dump(comm);
    *since_ns = WEFT_NEVER_NS;
    return WEFT_NEVER_NS;
}

int64_t weft_stall_look(struct weft_comm *comm, int64_t now_ns)
{
    struct weft_stall *stall = &comm->stall;
    if (comm->failure.status || !comm->exec) /* not made yet */
        return WEFT_NEVER_NS;
    int64_t verdict_ns = stall->suspect_ns ? stall->suspect_ns + WEFT_VERDICT_NS : WEFT_NEVER_NS;
    if (now_ns >= verdict_ns)
        weft_comm_fail(comm, WEFT_MISMATCH, stall->suspicion);
    int64_t next_ns = look(comm, now_ns, 0);
    return next_ns < verdict_ns ? next_ns : verdict_ns;
}

int weft_stall_suspect(struct weft_comm *comm, const char *text, const struct weft_call *past)
{
    struct weft_stall *stall = &comm->stall;
    if (!stall->suspect_ns) {
        stall->suspect_ns = weft_clock_ns();
        snprintf(stall->suspicion, sizeof stall->suspicion, "%s", text);
        weft_log(WEFT_LOG_INFO, "rank %d: %s", comm->rank, text);
    }
    if (past)
        report(comm, past, 0, 0, "");
    look(comm, weft_clock_ns(), 1);
    return WEFT_OK;
}

int weft_stall_has_suspicion(const struct weft_comm *comm)
{
    return comm->stall.suspect_ns != 0;
}

void weft_stall_await_verdict(struct weft_comm *comm, struct weft_waiting *waiting, const char *text)
{
    struct weft_context *context = comm->context;
    weft_context_lock(context);
    comm->stall.waiting = waiting;
    weft_stall_suspect(comm, text, NULL);
    weft_comm_wait(comm, weft_wait_never, NULL, NULL, WEFT_NEVER_NS, 0);
    comm->stall.waiting = NULL;
    weft_context_unlock(context);
}

int64_t weft_stall_late(struct weft_comm *comm, const struct weft_call *call, int *reported,
                        int64_t waited_ms, const char *waits)
{
    weft_log(WEFT_LOG_WARN, "a deadline of %" PRId64 " ms has passed", waited_ms);
    log_dump(comm);
    *reported |= WEFT_STALL_ASKED;
    report(comm, call, WEFT_STALL_LATE, waited_ms, waits);
    return weft_clock_ns() + WEFT_LATE_NS;
}

int weft_stall_is_late(const struct weft_comm *comm)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    int reported = comm->stall.waiting ? comm->stall.waiting->reported : 0;
    int count = comm->exec ? weft_exec_running(comm->exec, ops) : 0; /* none: not made yet */
    for (int i = 0; i < count; i++)
        reported |= weft_exec_op_look(ops[i])->reported;
    return (reported & WEFT_STALL_ASKED) != 0;
}
