/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kill/world.h"

#include <ctype.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "algos/plan.h"
#include "base/clock.h"
#include "tests/faults/inject.h"
#include "tests/support/heartbeat.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/patience.h"

#define START_MS    5000  /* for starts that the victim does not live to join */
#define CALL_MS     60000 /* a failure found only by this deadline is a failure of the detector */
#define OTHERS_MS   120000
#define QUIET_OPS   4
#define OVERWRITTEN 0xa5
#define LAST_OP(c)  ((c)->op + 4)
#define NEVER_MS    "600000" /* a death is noticed by connections that break, and not by silence */

struct rank {
    struct kill_world *world;
    const struct kill_case *c;
    struct kill_report *report;
    int rank, is_victim;
    weft_context *context;
    weft_comm *comm;
    int32_t *send, *recv;
    int lost; /* a call has failed */
};

int kill_names(const char *text, int rank)
{
    char wanted[24];
    snprintf(wanted, sizeof wanted, "this rank (%d)", rank); /* in the verdict on itself */
    if (strstr(text, wanted))
        return 1;
    size_t length = (size_t)snprintf(wanted, sizeof wanted, "rank %d", rank);
    for (const char *at = strstr(text, wanted); at; at = strstr(at + 1, wanted)) {
        if (!isdigit((unsigned char)at[length]))
            return 1;
    }
    return 0;
}

/* Notes what is wrong, first things first. Returns 1. */
static int complain(struct rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int complain(struct rank *me, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!me->report->complaint[0])
        vsnprintf(me->report->complaint, sizeof me->report->complaint, format, arguments);
    va_end(arguments);
    return 1;
}

/* A call has failed with the text in weft_error_detail(): was it because of the victim? */
static int judge(struct rank *me, const char *call, int status)
{
    struct kill_world *world = me->world;
    int64_t now_ns = weft_clock_ns(), fired_ns = atomic_load(&world->clock.fired_ns);
    int creating = strcmp(call, "weft_comm_create") == 0;
    snprintf(me->report->detail, sizeof me->report->detail, "%s", weft_error_detail());
    me->report->status = status;
    me->lost = 1;
    /* Somebody else was taken for silent: the case says nothing more, and is counted. */
    if (me->c->signal == SIGSTOP && strstr(me->report->detail, "silent for") &&
        !kill_names(me->report->detail, me->c->victim)) {
        me->report->rash = 1;
        return 0;
    }
    if (!fired_ns)
        return complain(me, "%s failed before anybody died: %s", call, weft_strerror(status));
    me->report->latency_ns = now_ns - fired_ns;
    /* While it was stopped, its own deadline may have passed, and the others have left. */
    if (me->is_victim && creating && status == WEFT_TIMEOUT)
        return 0;
    me->report->end = creating && status == WEFT_RANKS_ABSENT ? KILL_END_DEADLINE : KILL_END_NOTICED;
    if (status != WEFT_PEER_FAILED && status != WEFT_REVOKED && !(creating && status == WEFT_RANKS_ABSENT))
        return complain(me, "%s: unexpected status %s", call, weft_strerror(status));
    if (kill_names(me->report->detail, me->c->victim))
        return 0;
    /* A gap: while the ranks meet, one that leaves because of the death is taken for dead by a third. */
    if (creating && me->c->stage == KILL_OPEN) {
        me->report->misnamed = 1;
        return 0;
    }
    return complain(me, "%s does not name rank %d", call, me->c->victim);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* Small slices, so that little data takes many messages. */
static void settings(const struct kill_case *c)
{
    setenv("WEFT_ALGO", weft_algorithm_name((enum weft_algorithm)c->algorithm), 1);
    set_number("WEFT_FAST_PATH", c->fast_path);
    set_number("WEFT_DIRECT", c->memory != KILL_STAGED);
    set_number("WEFT_SLICE_SHM", 4096);
    set_number("WEFT_EAGER_SHM", 512);
    set_number("WEFT_SLICE_OFI", 4096);
    set_number("WEFT_EAGER_OFI", 512);
    setenv("WEFT_HEARTBEAT_MS", NEVER_MS, 1);
    if (c->signal == SIGSTOP)
        test_silence_set();
}

static int create(struct rank *me)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.secret = me->world->secret;
    options.secret_size = strlen(me->world->secret);
    int dies_early = me->c->stage == KILL_OPEN && !me->world->quiet;
    options.timeout_ms = test_patient(dies_early ? START_MS : CALL_MS);
    kill_point_enter(KILL_OPEN, 0);
    int status = weft_comm_create(me->context, &options, &me->comm);
    kill_point_leave();
    return status == WEFT_OK ? 0 : judge(me, "weft_comm_create", status);
}

static int get_memory(struct rank *me)
{
    size_t bytes = (size_t)me->c->count * sizeof *me->send;
    void *send = NULL, *recv = NULL;
    if (me->c->memory == KILL_MAPPED) {
        if (weft_mem_alloc(me->context, bytes, &send) || weft_mem_alloc(me->context, bytes, &recv))
            return complain(me, "weft_mem_alloc: %s", weft_error_detail());
    } else if (!(send = malloc(bytes)) || !(recv = malloc(bytes))) {
        return complain(me, "no memory");
    }
    me->send = send;
    me->recv = me->c->in_place ? send : recv;
    if (me->c->in_place && me->c->memory == KILL_MAPPED)
        weft_mem_free(me->context, recv);
    else if (me->c->in_place)
        free(recv);
    return 0;
}

static int free_memory(struct rank *me)
{
    int32_t *all[] = {me->send, me->recv == me->send ? NULL : me->recv};
    for (int i = 0; i < 2; i++) {
        if (me->c->memory != KILL_MAPPED)
            free(all[i]);
        else if (all[i] && weft_mem_free(me->context, all[i]))
            return complain(me, "weft_mem_free: %s", weft_error_detail());
    }
    return 0;
}

static int32_t element(int i, int op)
{
    return (i * 7 + op * 13) % 101 + 1;
}

static int check_bits(struct rank *me, int op)
{
    int ranks = me->c->ranks, wrong = 0;
    for (int i = 0; i < me->c->count; i++)
        wrong += me->recv[i] != element(i, op) * (ranks * (ranks + 1) / 2);
    if (!wrong)
        return 0;
    return complain(me, "WRONG: %d of %d elements in operation %d", wrong, me->c->count, op);
}

static int allreduce(struct rank *me, int op)
{
    for (int i = 0; i < me->c->count; i++)
        me->send[i] = element(i, op) * (me->rank + 1);
    kill_point_enter(KILL_OPERATION, op);
    int status =
        weft_allreduce(me->comm, me->send, me->recv, (size_t)me->c->count, WEFT_INT32, WEFT_SUM, NULL);
    kill_point_leave();
    if (status != WEFT_OK)
        return judge(me, "weft_allreduce", status);
    int reached = atomic_load(&me->world->clock.victim_op);
    if (!me->world->quiet && op > reached)
        return complain(me, "operation %d succeeded, and rank %d died in %d", op, me->c->victim, reached);
    return check_bits(me, op);
}

/* After an error: the next call must say the same, and nobody may touch the buffers any more. */
static int after_error(struct rank *me)
{
    size_t bytes = (size_t)me->c->count * sizeof *me->send;
    memset(me->send, OVERWRITTEN, bytes);
    memset(me->recv, OVERWRITTEN, bytes);
    int status =
        weft_allreduce(me->comm, me->send, me->recv, (size_t)me->c->count, WEFT_INT32, WEFT_SUM, NULL);
    if (status != WEFT_REVOKED)
        return complain(me, "the call after the error: %s (%s)", weft_strerror(status), weft_error_detail());
    if (!me->report->rash && !kill_names(weft_error_detail(), me->c->victim))
        return complain(me, "the call after the error does not name rank %d: %s", me->c->victim,
                        weft_error_detail());
    return 0;
}

static int operate(struct rank *me)
{
    int in_operation = me->c->stage == KILL_OPERATION && !me->world->quiet;
    for (int op = 0; in_operation ? me->c->kind == KILL_TIME || op < LAST_OP(me->c) : op < QUIET_OPS; op++) {
        if (allreduce(me, op))
            return 1;
        if (me->lost)
            return after_error(me);
    }
    return in_operation ? complain(me, "no operation failed") : 0;
}

static int destroy(struct rank *me)
{
    kill_point_enter(KILL_DESTROY, 0);
    int status = weft_comm_destroy(me->comm);
    kill_point_leave();
    return status == WEFT_OK ? 0 : judge(me, "weft_comm_destroy", status);
}

/* Waits until every rank that can is through with its operations. */
static int await_others(struct rank *me)
{
    int64_t until_ns = weft_deadline_ns(test_patient(OTHERS_MS));
    int wanted = me->c->ranks - (me->c->signal == SIGKILL && !me->world->quiet);
    atomic_fetch_add(&me->world->finished, 1);
    while (atomic_load(&me->world->finished) < wanted && !atomic_load(&me->world->abandoned)) {
        if (weft_clock_ns() > until_ns)
            return complain(me, "the others do not finish");
        usleep(2000); /* forty ranks that wake more often leave the driver no processor */
    }
    return 0;
}

static int check_untouched(struct rank *me)
{
    size_t wrong = 0, bytes = (size_t)me->c->count * sizeof *me->send;
    for (size_t i = 0; i < bytes; i++) {
        wrong += ((const uint8_t *)me->send)[i] != OVERWRITTEN;
        wrong += ((const uint8_t *)me->recv)[i] != OVERWRITTEN;
    }
    return wrong ? complain(me, "WRONG: %zu bytes changed after the call had returned an error", wrong) : 0;
}

static int live(struct rank *me)
{
    static const char *const transports[] = {"transport=shm", "transport=tcp",
                                             "transport=ofi,ofi_provider=net"};
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.settings = transports[me->c->transport];
    if (weft_context_open(&options, &me->context))
        return complain(me, "weft_context_open: %s", weft_error_detail());
    int bad = get_memory(me);
    bad = bad || create(me);
    int operated = me->comm != NULL && !bad;
    bad = bad || (me->comm && operate(me));
    int failed = me->lost;
    if (me->comm)
        bad |= destroy(me);
    bad |= await_others(me);
    if (!bad && operated && failed)
        bad |= check_untouched(me);
    bad |= free_memory(me);
    if (weft_context_close(me->context))
        bad |= complain(me, "weft_context_close: %s", weft_error_detail());
    if (!bad && me->report->end == KILL_END_NONE)
        me->report->end = KILL_END_CLEAN;
    return bad;
}

int kill_world_rank(struct kill_world *world, int rank)
{
    struct rank me = {.world = world, .c = &world->c, .report = &world->reports[rank], .rank = rank};
    struct test_leak before;
    me.is_victim = !world->quiet && rank == world->c.victim;
    settings(me.c);
    test_leak_take(&before);
    kill_point_arm(me.is_victim ? me.c : NULL, &world->clock);
    int bad = live(&me);
    for (int s = 0; s < KILL_STAGES; s++)
        me.report->calls[s] = kill_point_calls(s);
    if (me.is_victim && me.c->signal == SIGKILL)
        return complain(&me, "the victim has survived");
    if (!test_leak_check(&before))
        return bad;
    if (me.c->transport == KILL_SHM || fault_fds_open())
        bad |= complain(&me, "something was left behind");
    else
        me.report->left_below = 1;
    return bad;
}
