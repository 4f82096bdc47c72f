/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/stall.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/dump.h"
#include "comm/progress.h"

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
    snprintf(record.waits, sizeof record.waits, "%s", waits);
    char text[200];
    weft_call_print(call, text, sizeof text);
    weft_log(WEFT_LOG_DEBUG, "rank %d reports %s", comm->rank, text);
    weft_bootstrap_report(comm->bootstrap, &record, sizeof record);
}

/* Reports one call when it has waited until due_ns; its state is in *since_ns and *reported. Returns when to look
 * again. */
static int64_t look_at(struct weft_comm *comm, const struct weft_call *call, int64_t *since_ns, int *reported,
                       int64_t now_ns, int urgent)
{
    if (*since_ns == NEVER_LOOKED)
        *since_ns = now_ns;
    if (*reported)
        return WEFT_NEVER_NS;
    if (!urgent && now_ns - *since_ns < WEFT_STALL_NS)
        return *since_ns + WEFT_STALL_NS;
    *reported = 1;
    report(comm, call, 0, (now_ns - *since_ns) / 1000000, "");
    return WEFT_NEVER_NS;
}

static int64_t look(struct weft_comm *comm, int64_t now_ns, int urgent)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    int64_t next_ns = now_ns + WEFT_STALL_NS;
    int count = weft_exec_running(comm->exec, ops);
    for (int i = 0; i < count; i++) {
        struct weft_exec_look *looked = weft_exec_op_look(ops[i]);
        int64_t due_ns =
            look_at(comm, weft_exec_op_call(ops[i]), &looked->since_ns, &looked->reported, now_ns, urgent);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    struct weft_waiting *waiting = comm->stall.waiting;
    if (waiting) {
        int64_t due_ns =
            look_at(comm, &waiting->call, &waiting->since_ns, &waiting->reported, now_ns, urgent);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

int64_t weft_stall_look(struct weft_comm *comm, int64_t now_ns)
{
    struct weft_stall *stall = &comm->stall;
    if (comm->failed)
        return WEFT_NEVER_NS;
    if (stall->suspect_ns && now_ns - stall->suspect_ns >= WEFT_VERDICT_NS)
        weft_comm_fail(comm, WEFT_MISMATCH, stall->suspicion);
    return look(comm, now_ns, 0);
}

void weft_stall_look_all(struct weft_context *context)
{
    int64_t now_ns = weft_clock_ns();
    for (uint32_t i = 0; i < context->comm_count; i++)
        weft_stall_look(context->all[i], now_ns);
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

static int nothing_to_wait_for(void *arg)
{
    const struct weft_comm *comm = arg;
    return !comm->failed && !weft_bootstrap_has_failed(comm->bootstrap);
}

void weft_stall_await_verdict(struct weft_comm *comm, struct weft_waiting *waiting, const char *text)
{
    struct weft_context *context = comm->context;
    const struct weft_idle idle = {.since_ns = weft_clock_ns()};
    weft_context_lock(context);
    comm->stall.waiting = waiting;
    weft_stall_suspect(comm, text, NULL);
    while (weft_comm_check(comm) == WEFT_OK) {
        int64_t now_ns = weft_clock_ns();
        weft_stall_look(comm, now_ns);
        weft_progress_once(context);
        weft_progress_sleep(context, &idle, now_ns + WEFT_STALL_NS / 10, nothing_to_wait_for, comm);
    }
    comm->stall.waiting = NULL;
    weft_context_unlock(context);
}

int64_t weft_stall_late(struct weft_comm *comm, const struct weft_call *call, int64_t waited_ms,
                        const char *waits)
{
    char text[4096];
    weft_dump_locked(comm, text, sizeof text);
    weft_log(WEFT_LOG_WARN, "a deadline of %" PRId64 " ms has passed", comm->timeout_ms);
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        weft_log(WEFT_LOG_WARN, "%s", line);
    comm->stall.late = 1;
    report(comm, call, WEFT_STALL_LATE, waited_ms, waits);
    return weft_clock_ns() + WEFT_LATE_NS;
}
