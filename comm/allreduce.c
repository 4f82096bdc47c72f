/* Allreduce: checks arguments, picks path and plan, runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/choose.h"
#include "base/fork.h"
#include "comm/fastpath.h"
#include "comm/group_calls.h"
#include "comm/progress.h"
#include "comm/work.h"

/* Same arguments, same choice on every rank. */
static enum weft_algorithm choose(const struct weft_comm *comm, size_t bytes)
{
    const struct weft_settings *settings = &comm->context->settings;
    struct weft_choice choice = {
        .collective = WEFT_ALLREDUCE,
        .ranks = (uint32_t)comm->ranks,
        .bytes = bytes,
        .algorithm = settings->algorithm,
        .rd_bytes = settings->rd_bytes,
        .rab_bytes = settings->rab_bytes,
        .one_host = comm->one_host,
        .oversubscribed = comm->some_host_crowded,
    };
    return weft_algorithm_choose(&choice);
}

static enum weft_algorithm choose_cached(struct weft_comm *comm, size_t bytes)
{
    if (comm->chosen_bytes != bytes) {
        comm->chosen = choose(comm, bytes);
        comm->chosen_bytes = bytes;
    }
    return comm->chosen;
}

static int check_arguments(const weft_comm *comm, const void *send, const void *recv, size_t count,
                           weft_dtype dtype, weft_op op)
{
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    size_t element_bytes = weft_dtype_size(dtype);
    if (!element_bytes)
        return weft_fail(WEFT_INVALID, "dtype is %d: expected 0 to %d", (int)dtype, WEFT_DTYPE_COUNT - 1);
    if ((unsigned)op >= WEFT_OP_COUNT)
        return weft_fail(WEFT_INVALID, "op is %d: expected 0 to %d", (int)op, WEFT_OP_COUNT - 1);
    if (count > SIZE_MAX / 2 / element_bytes)
        return weft_fail(WEFT_INVALID, "count is %zu elements of %zu bytes: expected at most %zu bytes",
                         count, element_bytes, SIZE_MAX / 2);
    if (count && (!send || !recv))
        return weft_fail(WEFT_INVALID, "%s is NULL, count is %zu", send ? "recv" : "send", count);
    uintptr_t from = (uintptr_t)send, to = (uintptr_t)recv, bytes = count * element_bytes;
    if (from != to && from < to + bytes && to < from + bytes)
        return weft_fail(WEFT_INVALID, "send and recv overlap without being equal");
    if (!weft_reduce_find(dtype, op))
        return weft_fail(WEFT_UNSUPPORTED, "%s of %s is not supported", weft_op_name(op),
                         weft_dtype_name(dtype));
    return WEFT_OK;
}

static int find_plan(struct weft_comm *comm, enum weft_algorithm algorithm, int in_place,
                     const struct weft_plan **found)
{
    struct weft_plan **plan = &comm->plans[algorithm][in_place];
    if (!*plan) {
        struct weft_plan_request request = {
            WEFT_ALLREDUCE, algorithm, (uint32_t)comm->ranks, (uint32_t)comm->rank, in_place, -1, 0, 0};
        int status = weft_plan_make(&request, plan);
        if (status != WEFT_OK)
            return status;
    }
    *found = *plan;
    return WEFT_OK;
}

/* Whether the cache-line path serves this size. It stands for recursive doubling, so another fixed algorithm
 * turns it off. */
static int takes_fastpath(const struct weft_comm *comm, size_t bytes)
{
    int64_t fixed = comm->context->settings.algorithm;
    return comm->fastpath && bytes <= weft_fastpath_bytes_max(comm->fastpath) &&
           (fixed == WEFT_ALGO_AUTO || fixed == WEFT_ALGO_RD);
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
                              .op = (uint8_t)op,
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

/* Whether results go past the caches. In one pass the output is written once and read by nobody here, so this
 * pays as soon as it exceeds a processor's own cache; otherwise peers read it back at once, and only outputs
 * of about the size of the shared cache gain (figures: docs/performance.md). */
static int should_stream(const struct weft_comm *comm, enum weft_algorithm algorithm, size_t bytes,
                         int in_place)
{
    const size_t one_pass_bytes = 1u << 20, shared_bytes = 16u << 20;
    int one_pass = comm->ranks == 2 && algorithm == WEFT_ALGO_RD;
    return !in_place && bytes >= (one_pass ? one_pass_bytes : shared_bytes);
}

/* [lock] */
static int start(struct weft_comm *comm, const struct weft_call *call, const void *send, void *recv,
                 struct weft_exec_op **started)
{
    size_t count = call->count, element_bytes = weft_dtype_size((weft_dtype)call->dtype);
    weft_dtype dtype = (weft_dtype)call->dtype;
    weft_op op = (weft_op)call->op;
    enum weft_algorithm algorithm = call->algorithm;
    const struct weft_plan *plan;
    int status = find_plan(comm, algorithm, send == recv, &plan);
    if (status != WEFT_OK)
        return status;
    int streaming = should_stream(comm, algorithm, count * element_bytes, send == recv);
    struct weft_exec_request request = {
        .plan = plan,
        .input = send,
        .output = recv,
        .count = count,
        .element_bytes = element_bytes,
        .reduce = streaming ? weft_reduce_find_streaming(dtype, op) : weft_reduce_find(dtype, op),
        .streaming = streaming,
        .finish = op == WEFT_AVG ? (uint32_t)comm->ranks : 0,
        .digest = weft_call_digest(call),
        .call = *call,
    };
    return weft_exec_start(comm->exec, &request, started);
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

static int run_plan(struct weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                    weft_op op)
{
    enum weft_algorithm algorithm = choose_cached(comm, count * weft_dtype_size(dtype));
    struct weft_call call = make_call(comm, send, recv, count, dtype, op, WEFT_ALGO_AUTO);
    weft_comm_count_call(comm);
    if (comm->fastpath && agree_on_algorithm(comm, &call, send, &algorithm) != WEFT_OK)
        return weft_comm_report(comm);
    call.algorithm = (uint8_t)algorithm;
    weft_context_lock(comm->context);
    struct weft_exec_op *running;
    int64_t deadline_ns = weft_comm_deadline_ns(comm);
    int status = weft_comm_check(comm);
    if (status == WEFT_OK) {
        status = start(comm, &call, send, recv, &running);
        if (status == WEFT_OK) {
            status = weft_work_drive(comm, running, deadline_ns, 1);
            weft_exec_op_free(running);
        }
    }
    weft_context_unlock(comm->context);
    return status != WEFT_OK && comm->failed ? weft_comm_report(comm) : status;
}

static int start_in_group(struct weft_comm *comm, const void *send, void *recv, size_t count,
                          weft_dtype dtype, weft_op op)
{
    struct weft_work *work;
    int status = weft_allreduce_start(comm, send, recv, count, dtype, op, &work);
    if (status == WEFT_OK)
        weft_group_defer(work);
    return status;
}

/* checked is a constant: 0 leaves out the comparison of calls on the cache-line path. */
static inline int allreduce(struct weft_comm *comm, const void *send, void *recv, size_t count,
                            weft_dtype dtype, weft_op op, int checked)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = check_arguments(comm, send, recv, count, dtype, op);
    if (status != WEFT_OK)
        return status;
    if (comm->ranks == 1)
        return run_alone(comm, send, recv, count, dtype, op);
    if (comm->failed || weft_bootstrap_has_failed(comm->bootstrap)) {
        weft_context_lock(comm->context);
        weft_comm_check(comm);
        weft_context_unlock(comm->context);
        return weft_comm_report(comm);
    }
    if (weft_group_is_open())
        return start_in_group(comm, send, recv, count, dtype, op);
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
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = check_arguments(comm, send, recv, count, dtype, op);
    if (status != WEFT_OK)
        return status;
    if (!started)
        return weft_fail(WEFT_INVALID, "work is NULL");
    struct weft_work *work = calloc(1, sizeof *work);
    if (!work)
        return weft_fail(WEFT_NOMEM, "no memory for a work handle");
    work->comm = comm;
    work->deadline_ns = weft_comm_deadline_ns(comm);
    if (comm->ranks == 1) {
        work->status = run_alone(comm, send, recv, count, dtype, op);
    } else {
        weft_context_lock(comm->context);
        status = weft_comm_check(comm);
        struct weft_call call = make_call(comm, send, recv, count, dtype, op,
                                          choose_cached(comm, count * weft_dtype_size(dtype)));
        call.started = 1;
        if (status == WEFT_OK)
            status = start(comm, &call, send, recv, &work->op);
        if (status == WEFT_OK)
            weft_comm_count_call(comm);
        weft_context_unlock(comm->context);
        if (status != WEFT_OK) {
            free(work);
            return comm->failed ? weft_comm_report(comm) : status;
        }
        work->status = WEFT_AGAIN;
        weft_progress_background(comm->context, 1);
    }
    comm->works++;
    *started = work;
    return WEFT_OK;
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
        chosen = choose(comm, bytes);
        if (comm->fastpath)
            prefer_one_pass(comm, weft_memory_is_shared(comm->context, send, bytes), send == recv, &chosen);
    }
    *algorithm = comm->ranks == 1 ? "copy" : weft_algorithm_name(chosen);
    *transport = comm->ranks == 1 ? "none" : comm->one_host ? "shm" : comm->no_shm ? "ofi" : "shm+ofi";
    return WEFT_OK;
}
