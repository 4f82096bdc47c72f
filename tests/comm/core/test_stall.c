/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap clock_gettime weft_bootstrap_send_oob weft_comm_fail weft_exec_running weft_exec_op_call weft_exec_op_look weft_exec_describe weft_dump_locked */
/* When a rank reports the call that it waits in: to the nanosecond, by a clock that only this test moves. The promise
 * that a disagreement is named within a second rests on every rank keeping these times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/core/comm.h"
#include "comm/exec/exec.h"
#include "comm/core/driven.h"
#include "comm/core/dump.h"
#include "comm/core/stall.h"
#include "comm/core/work.h"
#include "comm/drive/progress.h"

#define LOOKS_NS INT64_C(20000000) /* between looks of the service thread */
#define RANKS    5
#define START_NS INT64_C(5000000000)
#define LONG_NS  INT64_C(3600000000000)

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_weft_bootstrap_send_oob(struct weft_bootstrap *bootstrap, int rank, enum weft_oob_channel channel,
                                   const void *bytes, size_t size);
void __wrap_weft_comm_fail(struct weft_comm *comm, int status, const char *text);
int __wrap_weft_exec_running(const struct weft_exec *exec, struct weft_exec_op **ops);
const struct weft_call *__wrap_weft_exec_op_call(const struct weft_exec_op *op);
struct weft_exec_look *__wrap_weft_exec_op_look(struct weft_exec_op *op);
void __wrap_weft_exec_describe(const struct weft_exec_op *op, char *text, size_t capacity);
size_t __wrap_weft_dump_locked(const struct weft_comm *comm, char *text, size_t capacity);

/* A started call of a fake executor; its address stands for the operation. */
struct started {
    struct weft_call call;
    struct weft_exec_look look;
};

static int64_t now_ns;
static struct started started[2];
static int running, reports;
static struct weft_stall_record last;

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    (void)id;
    *now = (struct timespec){now_ns / 1000000000, now_ns % 1000000000};
    return 0;
}

int __wrap_weft_bootstrap_send_oob(struct weft_bootstrap *bootstrap, int rank, enum weft_oob_channel channel,
                                   const void *bytes, size_t size)
{
    (void)bootstrap;
    assert_true(rank == 0 && channel == WEFT_OOB_REPORT);
    assert_int_equal(size, sizeof last);
    memcpy(&last, bytes, sizeof last);
    reports++;
    return WEFT_OK;
}

void __wrap_weft_comm_fail(struct weft_comm *comm, int status, const char *text)
{
    comm->failure.status = status;
    snprintf(comm->failure.text, sizeof comm->failure.text, "%s", text);
}

int __wrap_weft_exec_running(const struct weft_exec *exec, struct weft_exec_op **ops)
{
    (void)exec;
    for (int i = 0; i < running; i++)
        ops[i] = (struct weft_exec_op *)(void *)&started[i];
    return running;
}

const struct weft_call *__wrap_weft_exec_op_call(const struct weft_exec_op *op)
{
    return &((const struct started *)(const void *)op)->call;
}

struct weft_exec_look *__wrap_weft_exec_op_look(struct weft_exec_op *op)
{
    return &((struct started *)(void *)op)->look;
}

void __wrap_weft_exec_describe(const struct weft_exec_op *op, char *text, size_t capacity)
{
    (void)op;
    snprintf(text, capacity, "a peer");
}

size_t __wrap_weft_dump_locked(const struct weft_comm *comm, char *text, size_t capacity)
{
    (void)comm;
    snprintf(text, capacity, "a dump\n");
    return 7;
}

static struct weft_comm a_comm(int rank)
{
    static struct weft_context context = {.settings.report_ms = -1}; /* nothing is logged */
    memset(started, 0, sizeof started);
    running = reports = 0;
    now_ns = START_NS;
    return (struct weft_comm){
        .context = &context, .rank = rank, .ranks = RANKS, .exec = (struct weft_exec *)started};
}

static int64_t look_at(struct weft_comm *comm, int64_t after_ns)
{
    now_ns = START_NS + after_ns;
    return weft_stall_look(comm, now_ns);
}

/* Not before, not after, once; and each look says when the next one is due, which is who wakes the rank for it. */
static void expect_report_in_time(struct weft_comm *comm, uint64_t sequence)
{
    assert_true(look_at(comm, 0) == START_NS + WEFT_STALL_NS);
    assert_true(look_at(comm, WEFT_STALL_NS - 1) == START_NS + WEFT_STALL_NS);
    assert_int_equal(reports, 0);
    look_at(comm, WEFT_STALL_NS);
    assert_int_equal(reports, 1);
    assert_true(last.call.sequence == sequence && last.oldest == sequence);
    assert_true(last.waited_ms == WEFT_STALL_NS / 1000000);
    look_at(comm, LONG_NS);
    assert_int_equal(reports, 1);
}

static void test_each_rank_reports_in_time(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct weft_comm comm = a_comm(rank);
        started[0].call.sequence = 7;
        running = 1;
        expect_report_in_time(&comm, 7);

        comm = a_comm(rank);
        struct weft_waiting waiting = {.call.sequence = 8};
        comm.stall.waiting = &waiting;
        expect_report_in_time(&comm, 8);
    }
}

/* The look is due when the first of several calls is. */
static void test_the_earliest_call_decides(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct weft_comm comm = a_comm(rank);
        started[0].call.sequence = 3;
        started[1].call.sequence = 4;
        running = 1;
        look_at(&comm, 0);
        running = 2;
        assert_true(look_at(&comm, 1000) == START_NS + WEFT_STALL_NS);
        assert_true(look_at(&comm, WEFT_STALL_NS) == START_NS + 1000 + WEFT_STALL_NS);
        assert_true(reports == 1 && last.call.sequence == 3);
        look_at(&comm, WEFT_STALL_NS + 1000);
        assert_true(reports == 2 && last.call.sequence == 4 && last.oldest == 3);
    }
}

static int poll_nothing(struct weft_driven *driven)
{
    (void)driven;
    return 0;
}

static int is_not_blocked(const struct weft_driven *driven)
{
    (void)driven;
    return 0;
}

/* Of all communicators of a context, by the tick of its service thread. */
static void test_the_service_thread_looks_at_all(void **state)
{
    (void)state;
    struct weft_comm comms[RANKS];
    struct weft_driven *all[RANKS];
    struct weft_driven_ops ops = weft_comm_driven_ops;
    struct weft_waiting waiting[RANKS] = {{.call.sequence = 1}};
    static struct weft_context context;
    for (int rank = 0; rank < RANKS; rank++) {
        comms[rank] = a_comm(rank);
        comms[rank].stall.waiting = &waiting[rank];
        comms[rank].driven.ops = &ops;
        all[rank] = &comms[rank].driven;
    }
    ops.poll = poll_nothing;
    ops.is_blocked = is_not_blocked;
    context.routes.all = all;
    context.progress.background = 1;
    context.routes.count = RANKS;
    weft_progress_tick(&context);
    now_ns = START_NS + WEFT_STALL_NS - 1;
    weft_progress_tick(&context);
    assert_int_equal(reports, 0);
    now_ns += LOOKS_NS;
    weft_progress_tick(&context);
    assert_int_equal(reports, RANKS);
}

/* Who suspects that a peer is in another call reports at once, the call that he has left as well. */
static void test_a_suspicion_is_reported_at_once(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct weft_comm comm = a_comm(rank);
        const struct weft_call past = {.sequence = 5};
        started[0].call.sequence = 6;
        running = 1;
        assert_int_equal(weft_stall_suspect(&comm, "a test", &past), WEFT_OK);
        assert_int_equal(reports, 2);
        assert_true(last.call.sequence == 6 && last.waited_ms == 0);
    }
}

/* Rank 0 says nothing: who had the suspicion ends the communicator with it, not before its time and not without one. */
static void test_no_verdict_comes(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct weft_comm comm = a_comm(rank);
        look_at(&comm, LONG_NS);
        assert_int_equal(comm.failure.status, WEFT_OK);
        comm = a_comm(rank);
        assert_int_equal(weft_stall_suspect(&comm, "the first", NULL), WEFT_OK);
        look_at(&comm, WEFT_VERDICT_NS - 1);
        assert_int_equal(weft_stall_suspect(&comm, "another", NULL), WEFT_OK); /* which starts no new wait */
        assert_int_equal(comm.failure.status, WEFT_OK);
        look_at(&comm, WEFT_VERDICT_NS);
        assert_int_equal(comm.failure.status, WEFT_MISMATCH);
        assert_string_equal(comm.failure.text, "the first");
    }
}

/* For each call whose deadline passes rank 0 is asked once who has not come, also when an earlier one has ended well meanwhile. */
static void test_each_late_call_asks(void **state)
{
    (void)state;
    struct weft_comm comm = a_comm(1);
    int64_t deadline_ns = START_NS;
    started[0].call.sequence = 7;
    started[1].call.sequence = 8;
    running = 2;
    for (int i = 0; i < 2; i++) {
        struct weft_exec_op *op = (struct weft_exec_op *)(void *)&started[i];
        assert_int_equal(weft_stall_is_late(&comm), i);
        assert_int_equal(weft_work_late(&comm, op, &deadline_ns), WEFT_OK);
        assert_true(deadline_ns == START_NS + WEFT_LATE_NS);
        assert_true(reports == i + 1 && last.flags == WEFT_STALL_LATE);
        assert_int_equal(last.call.sequence, 7 + i);
    }
    assert_int_equal(weft_work_late(&comm, (struct weft_exec_op *)(void *)started, &deadline_ns),
                     WEFT_TIMEOUT);
    assert_int_equal(comm.failure.status, WEFT_TIMEOUT);
    running = 0;
    assert_false(weft_stall_is_late(&comm));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rank_reports_in_time),
        cmocka_unit_test(test_the_earliest_call_decides),
        cmocka_unit_test(test_the_service_thread_looks_at_all),
        cmocka_unit_test(test_a_suspicion_is_reported_at_once),
        cmocka_unit_test(test_no_verdict_comes),
        cmocka_unit_test(test_each_late_call_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
