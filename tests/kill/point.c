/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kill/point.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/exec/internal.h"
#include "comm/exec/fastpath.h"
#include "comm/drive/progress.h"
#include "tests/faults/inject.h"

static struct kill_case wanted;
static struct kill_clock *record;
static atomic_int armed, is_victim, stage, operation;
static _Atomic unsigned calls[KILL_STAGES], moves, notifies, pauses, reductions, advances;

static void fire(void)
{
    if (!atomic_exchange(&armed, 0))
        return;
    atomic_store(&record->fired_stage, stage);
    atomic_store(&record->fired_ns, weft_clock_ns());
    kill(getpid(), wanted.signal);
}

/* Whether death is due in this operation or stage, at a point of this kind. */
static int due(enum kill_kind kind)
{
    return atomic_load_explicit(&armed, memory_order_relaxed) && wanted.kind == (int)kind &&
           stage == wanted.stage && (stage != KILL_OPERATION || operation == wanted.op);
}

/* Dying behind a call is dying before the next one. Calls that only wait are left out: how often they are made is chance. */
static void at_call(enum fault_call call)
{
    static const enum fault_call counted[] = {FAULT_SOCKET,        FAULT_BIND,      FAULT_LISTEN,
                                              FAULT_CONNECT,       FAULT_ACCEPT4,   FAULT_GETSOCKOPT,
                                              FAULT_SEND,          FAULT_RECV,      FAULT_SENDMSG,
                                              FAULT_RECVMSG,       FAULT_READ,      FAULT_WRITE,
                                              FAULT_CLOSE,         FAULT_PIPE2,     FAULT_EVENTFD,
                                              FAULT_EPOLL_CREATE1, FAULT_EPOLL_CTL, FAULT_MMAP,
                                              FAULT_MEMFD_CREATE,  FAULT_FTRUNCATE, FAULT_PROCESS_VM_READV,
                                              FAULT_PTHREAD_CREATE};
    int now = atomic_load_explicit(&stage, memory_order_relaxed), counts = 0;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        counts |= counted[i] == call;
    if (now != KILL_NOWHERE && counts && ++calls[now] == (unsigned)wanted.n && due(KILL_CALL))
        fire();
}

void kill_point_arm(const struct kill_case *c, struct kill_clock *clock)
{
    record = clock;
    fault_watch(at_call);
    if (c) {
        wanted = *c;
        atomic_store(&is_victim, 1);
        atomic_store(&armed, 1);
    }
}

static void *fire_later(void *arg)
{
    usleep((unsigned)wanted.n);
    fire();
    return arg;
}

void kill_point_enter(int entered, int op)
{
    stage = entered;
    operation = op;
    if (is_victim && entered == KILL_OPERATION)
        atomic_store(&record->victim_op, op);
    pthread_t thread;
    if (due(KILL_TIME) && pthread_create(&thread, NULL, fire_later, NULL) == 0)
        pthread_detach(thread);
}

void kill_point_leave(void)
{
    if (wanted.kind != KILL_TIME && due((enum kill_kind)wanted.kind))
        fire();
    stage = KILL_NOWHERE;
}

unsigned kill_point_calls(int of_stage)
{
    return calls[of_stage];
}

void kill_at_move(int done)
{
    if (!due(KILL_MOVE))
        return;
    unsigned count = done ? moves : ++moves;
    if ((wanted.phase == KILL_DONE) == done && count == (unsigned)wanted.n)
        fire();
}

/* --- the executor: a step is known by its place in program order */

static int at_step(const struct weft_inflight *inflight)
{
    return due(KILL_STEP) && inflight->sequence == (uint32_t)wanted.step;
}

static void before_advance(const struct weft_inflight *inflight)
{
    if (at_step(inflight) && wanted.phase == KILL_ENTER)
        fire();
}

static void after_advance(const struct weft_inflight *inflight, uint32_t sequence)
{
    if (at_step(inflight) && inflight->sequence == sequence && wanted.phase == KILL_MIDDLE &&
        ++advances == (unsigned)wanted.n)
        fire();
}

int __real_weft_send_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
int __wrap_weft_send_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
int __wrap_weft_send_advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t sequence = inflight->sequence;
    before_advance(inflight);
    int status = __real_weft_send_advance(op, inflight);
    after_advance(inflight, sequence);
    return status;
}

int __real_weft_recv_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
int __wrap_weft_recv_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
int __wrap_weft_recv_advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t sequence = inflight->sequence;
    before_advance(inflight);
    int status = __real_weft_recv_advance(op, inflight);
    after_advance(inflight, sequence);
    return status;
}

int __real_weft_compute_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
int __wrap_weft_compute_advance(struct weft_exec_op *op, struct weft_inflight *inflight);
int __wrap_weft_compute_advance(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    uint32_t sequence = inflight->sequence;
    before_advance(inflight);
    int status = __real_weft_compute_advance(op, inflight);
    after_advance(inflight, sequence);
    return status;
}

int __real_weft_recv_message(struct weft_exec_op *op, struct weft_inflight *inflight,
                             const struct weft_wire_header *header, const void *payload,
                             struct weft_early *early, int *kept);
int __wrap_weft_recv_message(struct weft_exec_op *op, struct weft_inflight *inflight,
                             const struct weft_wire_header *header, const void *payload,
                             struct weft_early *early, int *kept);
int __wrap_weft_recv_message(struct weft_exec_op *op, struct weft_inflight *inflight,
                             const struct weft_wire_header *header, const void *payload,
                             struct weft_early *early, int *kept)
{
    if (at_step(inflight) && wanted.phase == KILL_MESSAGE)
        fire();
    return __real_weft_recv_message(op, inflight, header, payload, early, kept);
}

void __real_weft_inflight_finish(struct weft_exec_op *op, struct weft_inflight *inflight);
void __wrap_weft_inflight_finish(struct weft_exec_op *op, struct weft_inflight *inflight);
void __wrap_weft_inflight_finish(struct weft_exec_op *op, struct weft_inflight *inflight)
{
    int here = at_step(inflight);
    if (here && wanted.phase != KILL_DONE)
        fire();
    __real_weft_inflight_finish(op, inflight);
    if (here)
        fire();
}

/* --- the cache-line path: publish, wake the others, wait, reduce */

void kill_at_notify(void)
{
    if (due(KILL_FAST) && wanted.phase == KILL_MESSAGE && ++notifies == (unsigned)wanted.n)
        fire();
}

int __real_weft_idle_pause(struct weft_context *context, struct weft_idle *idle);
int __wrap_weft_idle_pause(struct weft_context *context, struct weft_idle *idle);
int __wrap_weft_idle_pause(struct weft_context *context, struct weft_idle *idle)
{
    if (due(KILL_FAST) && wanted.phase == KILL_MIDDLE && ++pauses == (unsigned)wanted.n)
        fire();
    return __real_weft_idle_pause(context, idle);
}

static weft_reduce_function *real_reduce;

static void reduce_and_die(void *destination, const void *const *sources, int source_count, size_t count,
                           uint32_t finish)
{
    if (due(KILL_FAST) && wanted.phase == KILL_FINISH && ++reductions == (unsigned)wanted.n)
        fire();
    real_reduce(destination, sources, source_count, count, finish);
}

__typeof__(weft_fastpath_run) __real_weft_fastpath_run, __wrap_weft_fastpath_run;
int __wrap_weft_fastpath_run(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                             int *by_plan, struct weft_fastpath_odd *odd)
{
    struct weft_fastpath_exchange mine = *exchange;
    if (mine.kind == WEFT_FASTPATH_REDUCES) {
        real_reduce = mine.reduction.reduce;
        mine.reduction.reduce = reduce_and_die;
    }
    if (due(KILL_FAST) && wanted.phase == KILL_ENTER)
        fire();
    return __real_weft_fastpath_run(fastpath, &mine, by_plan, odd);
}

/* --- stages inside weft_comm_create() */

struct weft_comm;
int __real_weft_agree(struct weft_comm *comm, int64_t deadline_ns);
int __wrap_weft_agree(struct weft_comm *comm, int64_t deadline_ns);
int __wrap_weft_agree(struct weft_comm *comm, int64_t deadline_ns)
{
    kill_point_leave();
    kill_point_enter(KILL_AGREE, 0);
    return __real_weft_agree(comm, deadline_ns);
}
