/* What ranks can disagree on in collectives beyond allreduce (test_mismatch.c): which collective, its root, count, type
 * and reduction, counts per rank, sizes that only two ranks know. Each rank wrong in turn, over shm and libfabric's tcp.
 *
 * A rank whose part is done before the others have begun may have returned; then its next call must fail. Every rank
 * hears WEFT_MISMATCH in the same words, which name the call, the field, and a rank that differs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define RANKS_MAX 4
#define SMALL     3
#define LARGE     30000
#define ELEMENTS  (4 * 3 * LARGE)
#define BOUND_NS  INT64_C(10000000000)

enum what {
    ALLREDUCE,
    BROADCAST,
    REDUCE,
    ALLGATHER,
    ALLGATHERV,
    GATHER,
    GATHERV,
    SCATTERV,
    REDUCE_SCATTER,
    REDUCE_SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    BARRIER
};

/* A call; extra is how many elements more than the others' the block of rank 1 (of rank 0 at rank 1) has. */
struct act {
    enum what what;
    size_t count;
    int root;
    weft_dtype dtype;
    weft_op op;
    size_t extra;
    int started;
};

struct scenario {
    const char *name, *field;
    struct act right, wrong;
};

#define F WEFT_FLOAT32
#define I WEFT_INT32
static const struct scenario scenarios[] = {
    {"collective, small", "call #2", {ALLGATHER, SMALL, 0, F, 0, 0, 0}, {ALLTOALL, SMALL, 0, F, 0, 0, 0}},
    {"collective, large", "call #2", {ALLGATHER, LARGE, 0, F, 0, 0, 0}, {ALLTOALL, LARGE, 0, F, 0, 0, 0}},
    {"equal and unequal", "call #2", {ALLGATHER, LARGE, 0, F, 0, 0, 0}, {ALLGATHERV, LARGE, 0, F, 0, 0, 0}},
    {"barrier", "call #2", {BARRIER, 0, 0, F, 0, 0, 0}, {ALLREDUCE, SMALL, 0, F, 0, 0, 0}},
    {"root, small", "root", {BROADCAST, SMALL, 0, F, 0, 0, 0}, {BROADCAST, SMALL, 1, F, 0, 0, 0}},
    {"root, large", "root", {BROADCAST, LARGE, 1, F, 0, 0, 0}, {BROADCAST, LARGE, 0, F, 0, 0, 0}},
    {"root of a reduction", "root", {REDUCE, LARGE, 1, F, 0, 0, 0}, {REDUCE, LARGE, 0, F, 0, 0, 0}},
    {"root of a gather", "root", {GATHER, LARGE, 0, F, 0, 0, 0}, {GATHER, LARGE, 1, F, 0, 0, 0}},
    {"started root", "root", {BROADCAST, SMALL, 0, F, 0, 0, 1}, {BROADCAST, SMALL, 1, F, 0, 0, 1}},
    {"count, small", "count", {ALLTOALL, SMALL, 0, F, 0, 0, 0}, {ALLTOALL, SMALL + 1, 0, F, 0, 0, 0}},
    {"count, large", "count", {ALLGATHER, LARGE, 0, F, 0, 0, 0}, {ALLGATHER, LARGE - 1, 0, F, 0, 0, 0}},
    {"count, started", "count", {REDUCE_SCATTER, SMALL, 0, F, 0, 0, 1}, {REDUCE_SCATTER, 2, 0, F, 0, 0, 1}},
    {"type", "type", {ALLTOALL, LARGE, 0, F, 0, 0, 0}, {ALLTOALL, LARGE, 0, I, 0, 0, 0}},
    {"reduction",
     "reduction",
     {REDUCE_SCATTER, LARGE, 0, F, 0, 0, 0},
     {REDUCE_SCATTER, LARGE, 0, F, WEFT_MAX, 0, 0}},
    {"counts of allgatherv",
     "counts",
     {ALLGATHERV, LARGE, 0, F, 0, 0, 0},
     {ALLGATHERV, LARGE, 0, F, 0, 5, 0}},
    {"counts of reduce_scatterv",
     "counts",
     {REDUCE_SCATTERV, SMALL, 0, F, 0, 0, 0},
     {REDUCE_SCATTERV, SMALL, 0, F, 0, 1, 0}},
    {"counts, all empty", "counts", {ALLGATHERV, 0, 0, F, 0, 0, 0}, {ALLGATHERV, 0, 0, F, 0, 1, 0}},
    {"sizes of gatherv", "gatherv #2", {GATHERV, LARGE, 0, F, 0, 0, 0}, {GATHERV, LARGE, 0, F, 0, 7, 0}},
    {"sizes of gatherv, small",
     "gatherv #2",
     {GATHERV, SMALL, 0, F, 0, 0, 0},
     {GATHERV, SMALL, 0, F, 0, 7, 0}},
    {"sizes of gatherv, mixed", "gatherv #2", {GATHERV, 0, 0, F, 0, 0, 0}, {GATHERV, 0, 0, F, 0, LARGE, 0}},
    {"sizes of scatterv", "scatterv #2", {SCATTERV, LARGE, 0, F, 0, 0, 0}, {SCATTERV, LARGE, 0, F, 0, 7, 0}},
    {"sizes of alltoallv",
     "alltoallv #2",
     {ALLTOALLV, SMALL, 0, F, 0, 0, 1},
     {ALLTOALLV, SMALL, 0, F, 0, LARGE, 1}},
};
#define SCENARIOS ((int)(sizeof scenarios / sizeof *scenarios))

struct setup {
    const struct scenario *scenario;
    const char *transports, *provider;
    int wrong;
};

/* Counts of an unequal call as this rank believes them: extra for rank 1, at rank 1 for rank 0. */
static void fill_counts(size_t *counts, int rank, int ranks, const struct act *act)
{
    for (int r = 0; r < ranks; r++)
        counts[r] = act->count;
    counts[rank == 1 ? 0 : 1] += act->extra;
}

static int perform(weft_comm *comm, const struct act *act, void *send, void *recv, weft_work **work)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    size_t counts[RANKS_MAX], others[RANKS_MAX], n = act->count;
    size_t own = n + (rank == act->root ? 0 : act->extra);
    fill_counts(counts, rank, ranks, act);
    fill_counts(others, rank, ranks, &(struct act){.count = n});
    switch (act->what) {
    case ALLREDUCE:
        return weft_allreduce(comm, send, recv, n, act->dtype, act->op);
    case BROADCAST:
        return act->started ? weft_broadcast_start(comm, send, recv, n, act->dtype, act->root, work)
                            : weft_broadcast(comm, send, recv, n, act->dtype, act->root);
    case REDUCE:
        return weft_reduce(comm, send, recv, n, act->dtype, act->op, act->root);
    case ALLGATHER:
        return weft_allgather(comm, send, recv, n, act->dtype);
    case ALLGATHERV:
        return weft_allgatherv(comm, send, counts[rank], recv, counts, NULL, act->dtype);
    case GATHER:
        return weft_gather(comm, send, recv, n, act->dtype, act->root);
    case GATHERV:
        return weft_gatherv(comm, send, own, recv, counts, NULL, act->dtype, act->root);
    case SCATTERV:
        return weft_scatterv(comm, send, counts, NULL, recv, own, act->dtype, act->root);
    case REDUCE_SCATTER:
        return act->started ? weft_reduce_scatter_start(comm, send, recv, n, act->dtype, act->op, work)
                            : weft_reduce_scatter(comm, send, recv, n, act->dtype, act->op);
    case REDUCE_SCATTERV:
        return weft_reduce_scatterv(comm, send, recv, counts, act->dtype, act->op);
    case ALLTOALL:
        return weft_alltoall(comm, send, recv, n, act->dtype);
    case ALLTOALLV:
        return weft_alltoallv_start(comm, send, counts, NULL, recv, others, NULL, act->dtype, work);
    default:
        return weft_barrier(comm);
    }
}

static int judge(const struct setup *setup, int rank, int ranks, int status, const char *text,
                 int64_t took_ns)
{
    if (status == WEFT_MISMATCH && strstr(text, setup->scenario->field) && strstr(text, "rank") &&
        strstr(text, "#2") && took_ns < BOUND_NS)
        return 0;
    fprintf(stderr, "%s, %s, rank %d of %d, rank %d wrong: status %d after %lld ms, '%s': expected '%s'\n",
            setup->scenario->name, setup->transports, rank, ranks, setup->wrong, status,
            (long long)(took_ns / 1000000), text, setup->scenario->field);
    return 1;
}

static int body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    struct job job;
    char text[600];
    float *send = calloc(ELEMENTS, 4), *recv = calloc(ELEMENTS, 4);
    CHECK(send && recv);
    CHECK_OK(job_open(&job, setup->transports, setup->provider));
    int status = weft_barrier(job.comm); /* a slow rank may hear in it what the others did after it */
    int64_t start_ns = weft_clock_ns();
    const struct act *act = rank == setup->wrong ? &setup->scenario->wrong : &setup->scenario->right;
    weft_work *work = NULL;
    if (status == WEFT_OK)
        status = perform(job.comm, act, send, recv, &work);
    if (status == WEFT_OK && work)
        status = weft_work_wait(work, -1);
    for (int i = 0; i < 3 && status == WEFT_OK; i++)
        status = weft_barrier(job.comm);
    snprintf(text, sizeof text, "%s", weft_error_detail());
    int bad = judge(setup, rank, ranks, status, text, weft_clock_ns() - start_ns);
    weft_work_free(work);
    CHECK(weft_barrier(job.comm) == WEFT_REVOKED);
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    free(send);
    free(recv);
    return bad;
}

static void sweep(const char *transports, const char *provider, int ranks_max)
{
    for (int s = 0; s < SCENARIOS; s++) {
        for (int ranks = 2; ranks <= ranks_max; ranks += 1 + s % 2) {
            int wrong = (s + ranks) % ranks;
            struct setup setup = {&scenarios[s], transports, provider, wrong};
            assert_int_equal(test_ranks_fork(ranks, body, &setup), 0);
        }
    }
}

static void test_shm(void **state)
{
    (void)state;
    sweep("shm", NULL, RANKS_MAX);
}

static void test_ofi(void **state)
{
    (void)state;
    if (!job_has_ofi("tcp;ofi_rxm"))
        skip();
    sweep("ofi", "tcp;ofi_rxm", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shm), cmocka_unit_test(test_ofi)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
