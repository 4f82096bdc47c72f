/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines) */
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
#include "tests/support/effort.h"

#define RANKS_MAX 4
#define FAR_RANKS 18 /* has roots whose low four bits are the same */
#define SMALL     3
#define LARGE     30000
#define ELEMENTS  (4 * 3 * LARGE)

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

static const char *const call_names[] = {
    "allreduce", "broadcast",      "reduce",          "allgather", "allgatherv", "gather", "gatherv",
    "scatterv",  "reduce_scatter", "reduce_scatterv", "alltoall",  "alltoallv",  "barrier"};

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
    size_t counts[FAR_RANKS], others[FAR_RANKS], n = act->count;
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

/* The value of the field in one act, as texts have it; "" where it is a hash. */
static void print_value(const char *field, const struct act *act, char *text, size_t capacity)
{
    *text = 0;
    if (strcmp(field, "root") == 0)
        snprintf(text, capacity, "%d", act->root);
    else if (strcmp(field, "count") == 0)
        snprintf(text, capacity, "%zu", act->count);
    else if (strcmp(field, "type") == 0)
        snprintf(text, capacity, "%s", weft_dtype_name(act->dtype));
    else if (strcmp(field, "reduction") == 0)
        snprintf(text, capacity, "%s", weft_op_name(act->op));
    else if (strcmp(field, "call #2") == 0)
        snprintf(text, capacity, "%s", call_names[act->what]);
    else
        snprintf(text, capacity, "with hash ");
}

/* "rank 2 on host 'a' passes root 1, rank 0 passes 2", "ranks 1, 3 call allgather, rank 0 calls barrier". */
static int says(const char *text, const char *field, const char *wrong, const char *right)
{
    char words[100];
    int calls = strcmp(field, "call #2") == 0, hashed = strcmp(field, "counts") == 0;
    if (calls)
        snprintf(words, sizeof words, " %s, rank", wrong);
    else
        snprintf(words, sizeof words, " %s %s%s", field, wrong, hashed ? "" : ", rank");
    if (!strstr(text, words) || !strstr(text, calls ? " call" : " pass"))
        return 0;
    snprintf(words, sizeof words, " %s %s", calls ? "calls" : "passes", right);
    size_t all = strlen(text), end = strlen(words);
    return hashed ? strstr(text, words) != NULL : all > end && strcmp(text + all - end, words) == 0;
}

/* Sizes that two ranks do not share: both are named. */
static int says_sizes(const struct scenario *scenario, const char *text)
{
    char right[32], wrong[32];
    snprintf(right, sizeof right, " %zu", scenario->right.count);
    snprintf(wrong, sizeof wrong, " %zu", scenario->wrong.count + scenario->wrong.extra);
    return strstr(text, " sends") && strstr(text, "which expects") && strstr(text, right) &&
           strstr(text, wrong);
}

/* The words of a rank that has met the other's message, where rank 0 has heard of one of the two only: the other was
 * through with its part at once, or this machine is slow. Of counts it knows the hash only. */
static int says_met(const struct scenario *scenario, const char *text)
{
    char one[64], other[64];
    if (strcmp(scenario->field, "counts") == 0)
        return strstr(text, "disagree on the counts of call #2") != NULL;
    if (strcmp(scenario->field, "root") != 0)
        return 0;
    snprintf(one, sizeof one, "the root of call #2: %d and %d", scenario->right.root, scenario->wrong.root);
    snprintf(other, sizeof other, "the root of call #2: %d and %d", scenario->wrong.root,
             scenario->right.root);
    return strstr(text, one) || strstr(text, other);
}

/* Who is right depends on who came first where as many are of each opinion. */
static int says_values(const struct scenario *scenario, const char *text)
{
    char right[32], wrong[32];
    const char *field = scenario->field;
    if (strchr(field, '#') && strcmp(field, "call #2") != 0)
        return says_sizes(scenario, text);
    print_value(field, &scenario->right, right, sizeof right);
    print_value(field, &scenario->wrong, wrong, sizeof wrong);
    return says(text, field, wrong, right) || says(text, field, right, wrong) || says_met(scenario, text);
}

static int judge(const struct setup *setup, int rank, int ranks, int status, const char *text,
                 int64_t took_ns)
{
    if (status == WEFT_MISMATCH && strstr(text, setup->scenario->field) && strstr(text, "rank") &&
        strstr(text, "#2") && says_values(setup->scenario, text))
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
            if (test_is_sanitized() && (s + ranks) % 2 == (provider != NULL))
                continue; /* half of them each way */
            struct setup setup = {&scenarios[s], transports, provider, wrong};
            assert_int_equal(test_ranks_fork(ranks, body, &setup), 0);
        }
    }
}

/* Sizes travel where other calls have their count: the root must be compared all the same. Small, so that no rank
 * notices for another reason. */
static void test_far_roots(void **state)
{
    (void)state;
    static const struct scenario far[] = {
        {"far root of gatherv", "root", {GATHERV, SMALL, 0, F, 0, 0, 0}, {GATHERV, SMALL, 16, F, 0, 0, 0}},
        {"far root of scatterv", "root", {SCATTERV, SMALL, 16, F, 0, 0, 0}, {SCATTERV, SMALL, 0, F, 0, 0, 0}},
        {"far root of reduce", "root", {REDUCE, SMALL, 17, F, 0, 0, 0}, {REDUCE, SMALL, 1, F, 0, 0, 0}},
    };
    setenv("WEFT_FAST_PATH", "0", 1);
    for (size_t s = 0; s < sizeof far / sizeof *far; s++) {
        struct setup setup = {&far[s], "shm", NULL, 5};
        assert_int_equal(test_ranks_fork(FAR_RANKS, body, &setup), 0);
    }
    unsetenv("WEFT_FAST_PATH");
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shm), cmocka_unit_test(test_ofi),
                                       cmocka_unit_test(test_far_roots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
