/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduce: the short way for small ones, and for large ones what ranks of one host tell each other before. Everything
 * else is as for any collective (comm/collective.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "comm/collective.h"
#include "comm/device_call.h"
#include "comm/fastpath.h"
#include "comm/group_calls.h"
#include "comm/op.h"
#include "comm/queue.h"

static struct weft_operands operands_of(const void *send, void *recv, size_t count, weft_dtype dtype,
                                        weft_op op)
{
    return (struct weft_operands){.collective = WEFT_ALLREDUCE,
                                  .root = -1,
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .dtype = dtype,
                                  .op = op,
                                  .element_bytes = weft_dtype_size(dtype),
                                  .send_blocks_count = 1,
                                  .recv_blocks_count = 1,
                                  .in_place = count && send == recv};
}

static int check_arguments(const weft_comm *comm, const void *send, const void *recv, size_t count,
                           weft_dtype dtype, weft_op op)
{
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    size_t element_bytes = weft_dtype_size(dtype);
    if (!element_bytes)
        return weft_fail(WEFT_INVALID, "dtype is %d: expected 0 to %d", (int)dtype, WEFT_DTYPE_COUNT - 1);
    size_t bytes;
    if (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > SIZE_MAX / 2)
        return weft_fail(WEFT_INVALID, "count is %zu elements of %zu bytes: expected at most %zu bytes",
                         count, element_bytes, SIZE_MAX / 2);
    if (count && (!send || !recv))
        return weft_fail(WEFT_INVALID, "%s is NULL, count is %zu", send ? "recv" : "send", count);
    uintptr_t from = (uintptr_t)send, to = (uintptr_t)recv;
    if (from != to && from < to + bytes && to < from + bytes)
        return weft_fail(WEFT_INVALID, "send and recv overlap without being equal");
    return weft_reduce_find(dtype, op) ? WEFT_OK : weft_op_check(comm->context, op, dtype);
}

/* Whether the cache-line path serves this size. It stands for recursive doubling, so another fixed algorithm
 * turns it off. */
static int takes_fastpath(const struct weft_comm *comm, size_t bytes)
{
    int64_t fixed = comm->context->settings.algorithm;
    return comm->fastpath && bytes <= weft_fastpath_bytes_max(comm->fastpath) &&
           (fixed == WEFT_ALGO_AUTO || fixed == WEFT_ALGO_RD ||
            !weft_algorithm_serves(WEFT_ALLREDUCE, (enum weft_algorithm)fixed));
}

int weft_allreduce_takes_fastpath(const struct weft_comm *comm, size_t bytes)
{
    return takes_fastpath(comm, bytes);
}

/* The call that is being made now. */
static struct weft_call make_call(const struct weft_comm *comm, const void *send, const void *recv,
                                  size_t count, weft_dtype dtype, weft_op op, enum weft_algorithm algorithm)
{
    return (struct weft_call){.sequence = weft_comm_next_call(comm),
                              .count = count,
                              .root = -1,
                              .collective = WEFT_ALLREDUCE,
                              .algorithm = (uint8_t)algorithm,
                              .dtype = (uint8_t)dtype,
                              .op = weft_op_told(comm->context, op),
                              .in_place = send == recv};
}

static inline int run_fastpath(struct weft_comm *comm, const void *send, void *recv, size_t count,
                               weft_dtype dtype, weft_op op, int checked)
{
    struct weft_fastpath_request request = {
        .input = send,
        .output = recv,
        .count = count,
        .element_bytes = weft_dtype_size(dtype),
        .reduce = weft_reduce_find(dtype, op),
        .finish = op == WEFT_AVG ? (uint32_t)comm->ranks : 0,
    };
    int status;
    if (checked) {
        const struct weft_call call = make_call(comm, send, recv, count, dtype, op, WEFT_ALGO_RD);
        weft_comm_count_call(comm);
        status = weft_fastpath_allreduce(comm->fastpath, &request, weft_call_digest(&call), comm->timeout_ms);
    } else {
        status = weft_fastpath_allreduce_unchecked(comm->fastpath, &request, comm->timeout_ms);
    }
    if (status != WEFT_OK)
        return weft_comm_report(comm);
    comm->fast_operations++;
    return WEFT_OK;
}

/* What ranks of one host tell each other before a large allreduce, over the cache-line path: it costs a
 * fraction of a microsecond, compares the whole count, and lets the choice of algorithm depend on all ranks'
 * memory. */
struct preamble {
    uint64_t count;
    uint8_t mapped; /* the input can be loaded by the peers */
    uint8_t in_place;
    uint8_t reserved[6];
};

/* Two ranks whose memory is mapped, out of place: each reads the other's input once and writes its own
 * output, which no other processor touches. Anything else is left to the cost model. */
static void prefer_one_pass(const struct weft_comm *comm, int mapped, int in_place,
                            enum weft_algorithm *algorithm)
{
    if (comm->ranks == 2 && mapped && !in_place && comm->context->settings.algorithm == WEFT_ALGO_AUTO)
        *algorithm = WEFT_ALGO_RD;
}

/* The call's algorithm is not chosen before this. */
static int agree_on_algorithm(struct weft_comm *comm, const struct weft_call *call, const void *send,
                              enum weft_algorithm *algorithm)
{
    size_t count = call->count, bytes = count * weft_dtype_size((weft_dtype)call->dtype);
    struct preamble mine = {.count = count, .in_place = call->in_place};
    mine.mapped = weft_memory_is_shared(comm->context, send, bytes);
    const void *theirs[WEFT_FASTPATH_RANKS_MAX];
    int status = weft_fastpath_exchange(comm->fastpath, &mine, sizeof mine, call, comm->timeout_ms, theirs);
    if (status != WEFT_OK)
        return status;
    int all_mapped = 1, any_in_place = 0;
    for (int r = 0; r < comm->ranks; r++) {
        const struct preamble *rank = theirs[r];
        all_mapped &= rank->mapped;
        any_in_place |= rank->in_place;
        if (rank->count == count)
            continue;
        char text[200];
        snprintf(text, sizeof text, "rank %d and rank %d disagree on the count of call #%llu: %llu and %zu",
                 r, comm->rank, (unsigned long long)call->sequence, (unsigned long long)rank->count, count);
        return weft_fastpath_differs(comm->fastpath, call, text);
    }
    prefer_one_pass(comm, all_mapped, any_in_place, algorithm);
    return weft_fastpath_confirm(comm->fastpath, sizeof mine, call);
}

static int run_alone(struct weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                     weft_op op)
{
    if (comm->failed) /* aborted */
        return weft_comm_report(comm);
    const void *sources[1] = {send};
    weft_reduce_find(dtype, op)(recv, sources, 1, count, op == WEFT_AVG ? 1 : 0);
    comm->operations++;
    return WEFT_OK;
}

/* --- the same call again
 *
 * Programs make one call many times. What depends on its count, type and operation only (algorithm, plan, kernel) is
 * kept from the last one; buffers and the number of the call are new. Not where the algorithm depends on the other
 * ranks' memory. */

static int is_again(const struct weft_again *again, const void *send, const void *recv, size_t count,
                    weft_dtype dtype, weft_op op)
{
    return again->plan && again->count == count && again->dtype == dtype && again->op == op &&
           again->in_place == (send == recv);
}

/* [lock] */
static int remember(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_call *call)
{
    struct weft_again *again = &comm->again;
    struct weft_part part = {0};
    weft_plans_put(again->plan);
    again->plan = NULL;
    int status = weft_collective_prepare(comm, operands, call, &again->request, &part);
    if (status != WEFT_OK)
        return status;
    again->plan = part.plan;
    again->count = operands->count;
    again->dtype = operands->dtype;
    again->op = operands->op;
    again->in_place = operands->send == operands->recv;
    return WEFT_OK;
}

/* [lock] */
static int drive_again(struct weft_comm *comm, const void *send, void *recv)
{
    struct weft_exec_request *request = &comm->again.request;
    struct weft_part part = {0};
    int status = weft_exec_is_full(comm->exec) ? weft_works_await_room(comm) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    request->input = send;
    request->output = recv;
    status = weft_exec_start(comm->exec, request, &part.op);
    if (status == WEFT_OK) {
        status = weft_work_drive(comm, part.op, 0, 1);
        weft_part_end(&part);
    }
    return status;
}

static int run_again(struct weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                     weft_op op)
{
    weft_context_lock(comm->context);
    int status = weft_comm_check(comm);
    if (status == WEFT_OK && is_again(&comm->again, send, recv, count, dtype, op)) {
        struct weft_exec_request *request = &comm->again.request;
        request->call.sequence = weft_comm_next_call(comm);
        request->digest = weft_call_digest(&request->call);
    } else if (status == WEFT_OK) {
        const struct weft_operands operands = operands_of(send, recv, count, dtype, op);
        const struct weft_call call =
            make_call(comm, send, recv, count, dtype, op, weft_collective_choose_cached(comm, &operands));
        status = remember(comm, &operands, &call);
    }
    weft_comm_count_call(comm);
    if (status == WEFT_OK)
        status = drive_again(comm, send, recv);
    weft_context_unlock(comm->context);
    return status != WEFT_OK && comm->failed ? weft_comm_report(comm) : status;
}

static int run_plan(struct weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                    weft_op op)
{
    if (!comm->fastpath)
        return run_again(comm, send, recv, count, dtype, op);
    const struct weft_operands operands = operands_of(send, recv, count, dtype, op);
    enum weft_algorithm algorithm = weft_collective_choose_cached(comm, &operands);
    struct weft_call call = make_call(comm, send, recv, count, dtype, op, WEFT_ALGO_AUTO);
    weft_comm_count_call(comm);
    if (agree_on_algorithm(comm, &call, send, &algorithm) != WEFT_OK)
        return weft_comm_report(comm);
    call.algorithm = (uint8_t)algorithm;
    weft_context_lock(comm->context);
    struct weft_part part;
    int64_t deadline_ns = weft_comm_deadline_ns(comm);
    int status = weft_comm_check(comm);
    if (status == WEFT_OK) {
        status = weft_collective_start_part(comm, &operands, &call, &part);
        if (status == WEFT_OK) {
            status = weft_work_drive(comm, part.op, deadline_ns, 1);
            weft_part_end(&part);
        }
    }
    weft_context_unlock(comm->context);
    return status != WEFT_OK && comm->failed ? weft_comm_report(comm) : status;
}

/* In a group. */
static int only_start(struct weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                      weft_op op)
{
    struct weft_work *work;
    int status = weft_allreduce_start(comm, send, recv, count, dtype, op, &work);
    return status == WEFT_OK ? weft_call_leave(comm, work) : status;
}

static int run_copies(struct weft_comm *comm, const struct weft_operands *copies, const void *checked)
{
    return run_fastpath(comm, copies->send, copies->recv, copies->count, copies->dtype, copies->op,
                        *(const int *)checked);
}

/* Devices are in use: whether the call is about their memory or in the order of a stream, and if so what it returns. Calls that
 * progress has yet to start have been waited for then, where this one does not only start. Both ends of the choice are the
 * same for all ranks: only what this rank does for it differs. */
static int takes_device(struct weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                        weft_op op, int checked, int *status)
{
    struct weft_operands operands = operands_of(send, recv, count, dtype, op);
    struct weft_where where;
    int starts = weft_call_starts(comm);
    if (weft_stream_of(comm)) {
        *status = weft_collective_run(comm, &operands);
        return 1;
    }
    *status = starts ? WEFT_OK : weft_queue_await(comm);
    if (*status == WEFT_OK)
        *status = weft_operands_where(comm, &operands, &where);
    if (*status == WEFT_OK && !where.kind)
        return 0;
    if (*status != WEFT_OK)
        return 1;
    if (comm->ranks == 1 || starts || !comm->fastpath) {
        *status = weft_collective_run(comm, &operands);
        return 1;
    }
    *status = weft_comm_begin(comm);
    if (*status == WEFT_OK)
        *status = takes_fastpath(comm, count * operands.element_bytes)
                      ? weft_staged_run(comm, &operands, &where, run_copies, &checked)
                      : run_plan(comm, send, recv, count, dtype, op);
    return 1;
}

/* checked is a constant: 0 leaves out the comparison of calls on the cache-line path. */
static inline int allreduce(struct weft_comm *comm, const void *send, void *recv, size_t count,
                            weft_dtype dtype, weft_op op, int checked)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (__builtin_expect(!weft_op_is_builtin(op), 0)) {
        struct weft_operands operands = operands_of(send, recv, count, dtype, op);
        return weft_collective_run(comm, &operands);
    }
    int status = check_arguments(comm, send, recv, count, dtype, op);
    if (status != WEFT_OK)
        return status;
    if (__builtin_expect(weft_devices_in_use(comm->context->devices), 0) &&
        takes_device(comm, send, recv, count, dtype, op, checked, &status))
        return status;
    if (comm->ranks == 1)
        return run_alone(comm, send, recv, count, dtype, op);
    if (comm->failed || weft_bootstrap_has_failed(comm->bootstrap)) {
        weft_context_lock(comm->context);
        weft_comm_check(comm);
        weft_context_unlock(comm->context);
        return weft_comm_report(comm);
    }
    if (weft_call_starts(comm))
        return only_start(comm, send, recv, count, dtype, op);
    if (takes_fastpath(comm, count * weft_dtype_size(dtype)))
        return run_fastpath(comm, send, recv, count, dtype, op, checked);
    return run_plan(comm, send, recv, count, dtype, op);
}

int weft_allreduce(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, weft_op op)
{
    return allreduce(comm, send, recv, count, dtype, op, 1);
}

int weft_allreduce_unchecked(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                             weft_op op)
{
    return allreduce(comm, send, recv, count, dtype, op, 0);
}

int weft_allreduce_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                         weft_op op, weft_work **started)
{
    struct weft_operands operands = operands_of(send, recv, count, dtype, op);
    return weft_collective_start(comm, &operands, started);
}

int weft_allreduce_describe(const weft_comm *comm, const void *send, const void *recv, size_t count,
                            weft_dtype dtype, weft_op op, const char **algorithm, const char **transport)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = check_arguments(comm, send, recv, count, dtype, op);
    if (status != WEFT_OK)
        return status;
    if (!algorithm || !transport)
        return weft_fail(WEFT_INVALID, "%s is NULL", algorithm ? "transport" : "algorithm");
    size_t bytes = count * weft_dtype_size(dtype);
    enum weft_algorithm chosen = WEFT_ALGO_RD;
    if (!takes_fastpath(comm, bytes)) {
        const struct weft_operands operands = operands_of(send, (void *)(uintptr_t)recv, count, dtype, op);
        chosen = weft_collective_choose(comm, &operands);
        if (comm->fastpath)
            prefer_one_pass(comm, weft_memory_is_shared(comm->context, send, bytes), send == recv, &chosen);
    }
    *algorithm = comm->ranks == 1 ? "copy" : weft_algorithm_name(chosen);
    *transport = weft_comm_transport_name(comm);
    return WEFT_OK;
}
