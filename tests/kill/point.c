/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kill/point.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/exec_internal.h"
#include "comm/fastpath.h"
#include "comm/progress.h"

static struct kill_case wanted;
static struct kill_clock *record;
static atomic_int armed, is_victim, stage, operation;
static _Atomic unsigned calls[KILL_STAGES], moves, notifies, pauses, reductions, advances;

void kill_point_arm(const struct kill_case *c, struct kill_clock *clock)
{
    record = clock;
    if (c) {
        wanted = *c;
        atomic_store(&is_victim, 1);
        atomic_store(&armed, 1);
    }
}

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

void kill_at_call(int done)
{
    int now = atomic_load_explicit(&stage, memory_order_relaxed);
    if (now == KILL_NOWHERE)
        return;
    unsigned count = done ? calls[now] : ++calls[now];
    if (due(KILL_CALL) && (wanted.phase == KILL_DONE) == done && count == (unsigned)wanted.n)
        fire();
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

static int at_step(const struct weft_flight *flight)
{
    return due(KILL_STEP) && flight->sequence == (uint32_t)wanted.step;
}

static void before_advance(const struct weft_flight *flight)
{
    if (at_step(flight) && wanted.phase == KILL_ENTER)
        fire();
}

static void after_advance(const struct weft_flight *flight, uint32_t sequence)
{
    if (at_step(flight) && flight->sequence == sequence && wanted.phase == KILL_MIDDLE &&
        ++advances == (unsigned)wanted.n)
        fire();
}

int __real_weft_send_advance(struct weft_exec_op *op, struct weft_flight *flight);
int __wrap_weft_send_advance(struct weft_exec_op *op, struct weft_flight *flight);
int __wrap_weft_send_advance(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t sequence = flight->sequence;
    before_advance(flight);
    int status = __real_weft_send_advance(op, flight);
    after_advance(flight, sequence);
    return status;
}

int __real_weft_recv_advance(struct weft_exec_op *op, struct weft_flight *flight);
int __wrap_weft_recv_advance(struct weft_exec_op *op, struct weft_flight *flight);
int __wrap_weft_recv_advance(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t sequence = flight->sequence;
    before_advance(flight);
    int status = __real_weft_recv_advance(op, flight);
    after_advance(flight, sequence);
    return status;
}

int __real_weft_compute_advance(struct weft_exec_op *op, struct weft_flight *flight);
int __wrap_weft_compute_advance(struct weft_exec_op *op, struct weft_flight *flight);
int __wrap_weft_compute_advance(struct weft_exec_op *op, struct weft_flight *flight)
{
    uint32_t sequence = flight->sequence;
    before_advance(flight);
    int status = __real_weft_compute_advance(op, flight);
    after_advance(flight, sequence);
    return status;
}

int __real_weft_recv_message(struct weft_exec_op *op, struct weft_flight *flight,
                             const struct weft_wire_header *header, const void *payload,
                             struct weft_early *early, int *kept);
int __wrap_weft_recv_message(struct weft_exec_op *op, struct weft_flight *flight,
                             const struct weft_wire_header *header, const void *payload,
                             struct weft_early *early, int *kept);
int __wrap_weft_recv_message(struct weft_exec_op *op, struct weft_flight *flight,
                             const struct weft_wire_header *header, const void *payload,
                             struct weft_early *early, int *kept)
{
    if (at_step(flight) && wanted.phase == KILL_MESSAGE)
        fire();
    return __real_weft_recv_message(op, flight, header, payload, early, kept);
}

void __real_weft_flight_finish(struct weft_exec_op *op, struct weft_flight *flight);
void __wrap_weft_flight_finish(struct weft_exec_op *op, struct weft_flight *flight);
void __wrap_weft_flight_finish(struct weft_exec_op *op, struct weft_flight *flight)
{
    int here = at_step(flight);
    if (here && wanted.phase != KILL_DONE)
        fire();
    __real_weft_flight_finish(op, flight);
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

__typeof__(weft_fastpath_allreduce) __real_weft_fastpath_allreduce, __wrap_weft_fastpath_allreduce;
int __wrap_weft_fastpath_allreduce(struct weft_fastpath *fastpath,
                                   const struct weft_fastpath_request *request, uint32_t digest,
                                   int64_t timeout_ms)
{
    struct weft_fastpath_request mine = *request;
    real_reduce = request->reduce;
    mine.reduce = reduce_and_die;
    if (due(KILL_FAST) && wanted.phase == KILL_ENTER)
        fire();
    return __real_weft_fastpath_allreduce(fastpath, &mine, digest, timeout_ms);
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
