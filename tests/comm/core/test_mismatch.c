/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines) */
/* The matrix of disagreement: each thing that ranks must agree on in each collective, each rank wrong in turn, 2 to 5 ranks, over shm and
 * over tcp, ranks as processes and as threads. Some ranks block in their calls and some start them: they need not agree on that.
 *
 * Every rank's call must fail with WEFT_MISMATCH in the same words, which name the call, the field, and the rank
 * that is wrong; with two ranks there is no majority and rank 1 is named. No allreduce may succeed. In other collectives a rank whose
 * part is done before the others have begun may have returned; then its next call must fail.
 *
 * make check runs each scenario twice, once with a sanitizer (WEFT_SEED=1 shuffles the matrix), WEFT_LONG=1 the whole matrix.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/core/judge.h"
#include "comm/core/stall.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

#define RANKS_MAX  5
#define FAR_RANKS  18                  /* has roots whose low four bits are the same */
#define PROMISE_NS INT64_C(1000000000) /* for nine answers in ten; the others may wait for a processor */
#define LEAVE_NS   INT64_C(700000000)
#define SMALL      5
#define LARGE      30000
#define MEMORY     ((RANKS_MAX + 1) * LARGE * sizeof(double))
#define SAME_HASH1 6 /* counts that an earlier form of the digest could not tell apart */
#define SAME_HASH2 10952

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
    BARRIER,
    DESTROY
};

static const char *const call_names[] = {"allreduce",      "broadcast",        "reduce",   "allgather",
                                         "allgatherv",     "gather",           "gatherv",  "scatterv",
                                         "reduce_scatter", "reduce_scatterv",  "alltoall", "alltoallv",
                                         "barrier",        "weft_comm_destroy"};

/* A call; extra is how many elements more than the others' the block of rank 1 (of rank 0 at rank 1) has. */
struct act {
    enum what what;
    size_t count;
    weft_dtype dtype;
    weft_op op;
    int root;
    size_t extra;
};

/* What a rank does; right and wrong ranks of a case have one each. A second call follows where it has elements. */
struct script {
    struct act first, second;
    int leaves; /* it starts the call, and stays away for a while */
};

struct scenario {
    const char *name, *field; /* field: what the text must say of it */
    struct script right, wrong;
};

#define F32 WEFT_FLOAT32
#define F64 WEFT_FLOAT64
#define I32 WEFT_INT32
/* Scripts of one call. */
#define REDUCES(count, dtype, op)                                                                            \
    {                                                                                                        \
        {ALLREDUCE, count, dtype, op, 0, 0}, {0}, 0                                                          \
    }
#define CALLS(what, count, root, extra)                                                                      \
    {                                                                                                        \
        {what, count, F32, WEFT_SUM, root, extra}, {0}, 0                                                    \
    }
static const struct scenario scenarios[] = {
    {"tiny count", "count", REDUCES(SMALL, F32, WEFT_SUM), REDUCES(SMALL + 1, F32, WEFT_SUM)},
    {"large count", "count", REDUCES(LARGE, F32, WEFT_SUM), REDUCES(LARGE + 1, F32, WEFT_SUM)},
    {"tiny among large", "count", REDUCES(LARGE, F32, WEFT_SUM), REDUCES(2, F32, WEFT_SUM)},
    {"large among tiny", "count", REDUCES(2, F32, WEFT_SUM), REDUCES(LARGE, F32, WEFT_SUM)},
    {"preamble-sized", "count", REDUCES(LARGE, F32, WEFT_SUM), REDUCES(4, F32, WEFT_SUM)},
    {"same hash", "count", REDUCES(SAME_HASH1, F32, WEFT_SUM), REDUCES(SAME_HASH2, F32, WEFT_SUM)},
    {"no elements", "count", REDUCES(1000, F32, WEFT_SUM), REDUCES(0, F32, WEFT_SUM)},
    {"some elements", "count", REDUCES(0, F32, WEFT_SUM), REDUCES(1, F32, WEFT_SUM)},
    {"started and left",
     "count",
     REDUCES(SMALL, F32, WEFT_SUM),
     {{ALLREDUCE, SMALL + 3, F32, WEFT_SUM, 0, 0}, {0}, 1}},
    {"type, tiny", "type", REDUCES(SMALL, F32, WEFT_SUM), REDUCES(SMALL, I32, WEFT_SUM)},
    {"type, large", "type", REDUCES(LARGE, F32, WEFT_SUM), REDUCES(LARGE, I32, WEFT_SUM)},
    {"larger type", "type", REDUCES(SMALL, F32, WEFT_SUM), REDUCES(SMALL, F64, WEFT_SUM)},
    {"type, equal bytes", "type", REDUCES(LARGE, F32, WEFT_SUM), REDUCES(LARGE / 2, F64, WEFT_SUM)},
    {"reduction, tiny", "reduction", REDUCES(SMALL, F32, WEFT_SUM), REDUCES(SMALL, F32, WEFT_MAX)},
    {"reduction, large", "reduction", REDUCES(LARGE, F32, WEFT_SUM), REDUCES(LARGE, F32, WEFT_AVG)},
    {"order",
     "type",
     {{ALLREDUCE, SMALL, F32, WEFT_SUM, 0, 0}, {ALLREDUCE, 9, I32, WEFT_SUM, 0, 0}, 0},
     {{ALLREDUCE, 9, I32, WEFT_SUM, 0, 0}, {ALLREDUCE, SMALL, F32, WEFT_SUM, 0, 0}, 0}},
    {"order, large",
     "count",
     {{ALLREDUCE, LARGE, F32, WEFT_SUM, 0, 0}, {ALLREDUCE, 3000, F32, WEFT_SUM, 0, 0}, 0},
     {{ALLREDUCE, 3000, F32, WEFT_SUM, 0, 0}, {ALLREDUCE, LARGE, F32, WEFT_SUM, 0, 0}, 0}},
    {"order of reductions",
     "reduction",
     {{ALLREDUCE, LARGE, F32, WEFT_SUM, 0, 0}, {ALLREDUCE, LARGE, F32, WEFT_MAX, 0, 0}, 0},
     {{ALLREDUCE, LARGE, F32, WEFT_MAX, 0, 0}, {ALLREDUCE, LARGE, F32, WEFT_SUM, 0, 0}, 0}},
    {"end, tiny", "call #2", REDUCES(SMALL, F32, WEFT_SUM), CALLS(DESTROY, 0, 0, 0)},
    {"end, large", "call #2", REDUCES(LARGE, F32, WEFT_SUM), CALLS(DESTROY, 0, 0, 0)},
    {"one more call", "call #2", CALLS(DESTROY, 0, 0, 0), REDUCES(LARGE, F32, WEFT_SUM)},
    {"collective, small", "call #2", CALLS(ALLGATHER, SMALL, 0, 0), CALLS(ALLTOALL, SMALL, 0, 0)},
    {"collective, large", "call #2", CALLS(ALLGATHER, LARGE, 0, 0), CALLS(ALLTOALL, LARGE, 0, 0)},
    {"equal and unequal", "call #2", CALLS(ALLGATHER, LARGE, 0, 0), CALLS(ALLGATHERV, LARGE, 0, 0)},
    {"barrier", "call #2", CALLS(BARRIER, 0, 0, 0), CALLS(ALLREDUCE, SMALL, 0, 0)},
    {"root, small", "root", CALLS(BROADCAST, SMALL, 0, 0), CALLS(BROADCAST, SMALL, 1, 0)},
    {"root, large", "root", CALLS(BROADCAST, LARGE, 1, 0), CALLS(BROADCAST, LARGE, 0, 0)},
    {"root of a reduction", "root", CALLS(REDUCE, LARGE, 1, 0), CALLS(REDUCE, LARGE, 0, 0)},
    {"root of a gather", "root", CALLS(GATHER, LARGE, 0, 0), CALLS(GATHER, LARGE, 1, 0)},
    {"count of alltoall", "count", CALLS(ALLTOALL, SMALL, 0, 0), CALLS(ALLTOALL, SMALL + 1, 0, 0)},
    {"count of allgather", "count", CALLS(ALLGATHER, LARGE, 0, 0), CALLS(ALLGATHER, LARGE - 1, 0, 0)},
    {"count of reduce_scatter", "count", CALLS(REDUCE_SCATTER, SMALL, 0, 0), CALLS(REDUCE_SCATTER, 2, 0, 0)},
    {"type of alltoall",
     "type",
     CALLS(ALLTOALL, LARGE, 0, 0),
     {{ALLTOALL, LARGE, I32, WEFT_SUM, 0, 0}, {0}, 0}},
    {"reduction of reduce_scatter",
     "reduction",
     CALLS(REDUCE_SCATTER, LARGE, 0, 0),
     {{REDUCE_SCATTER, LARGE, F32, WEFT_MAX, 0, 0}, {0}, 0}},
    {"counts of allgatherv", "counts", CALLS(ALLGATHERV, LARGE, 0, 0), CALLS(ALLGATHERV, LARGE, 0, 5)},
    {"counts of reduce_scatterv", "counts", CALLS(REDUCE_SCATTERV, SMALL, 0, 0),
     CALLS(REDUCE_SCATTERV, SMALL, 0, 1)},
    {"counts, all empty", "counts", CALLS(ALLGATHERV, 0, 0, 0), CALLS(ALLGATHERV, 0, 0, 1)},
    {"sizes of gatherv", "gatherv #2", CALLS(GATHERV, LARGE, 0, 0), CALLS(GATHERV, LARGE, 0, 7)},
    {"sizes of gatherv, small", "gatherv #2", CALLS(GATHERV, SMALL, 0, 0), CALLS(GATHERV, SMALL, 0, 7)},
    {"sizes of gatherv, mixed", "gatherv #2", CALLS(GATHERV, 0, 0, 0), CALLS(GATHERV, 0, 0, LARGE)},
    {"sizes of scatterv", "scatterv #2", CALLS(SCATTERV, LARGE, 0, 0), CALLS(SCATTERV, LARGE, 0, 7)},
    {"sizes of alltoallv", "alltoallv #2", CALLS(ALLTOALLV, SMALL, 0, 0), CALLS(ALLTOALLV, SMALL, 0, LARGE)},
};
#define SCENARIOS ((int)(sizeof scenarios / sizeof *scenarios))

struct transport {
    const char *name;
    int threads;
};

static const struct transport transports[] = {{"shm", 0}, {"tcp", 0}, {"shm", 1}, {"tcp", 1}};
#define TRANSPORTS ((int)(sizeof transports / sizeof *transports))

struct setup {
    const struct scenario *scenario;
    const struct transport *transport;
    int wrong;
    unsigned started;    /* ranks that start their calls, as bits */
    struct tally *tally; /* NULL: nothing is counted */
};

/* Of all answers; shared by the processes. */
struct tally {
    _Atomic int64_t slowest_ns;
    atomic_int answers, slow, unnamed; /* unnamed: the rank is not the wrong one */
};

/* Counts of an unequal call as this rank believes them: extra for rank 1, at rank 1 for rank 0. */
static void fill_counts(size_t *counts, int rank, int ranks, const struct act *act)
{
    for (int r = 0; r < ranks; r++)
        counts[r] = act->count;
    counts[rank == 1 ? 0 : 1] += act->extra;
}

static int perform(weft_comm *comm, const struct act *act, void *send, void *recv,
                   const weft_call_options *options)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    size_t counts[FAR_RANKS], others[FAR_RANKS], n = act->count;
    size_t own = n + (rank == act->root ? 0 : act->extra);
    fill_counts(counts, rank, ranks, act);
    fill_counts(others, rank, ranks, &(struct act){.count = n});
    switch (act->what) {
    case ALLREDUCE:
        return weft_allreduce(comm, send, recv, n, act->dtype, act->op, options);
    case BROADCAST:
        return weft_broadcast(comm, send, recv, n, act->dtype, act->root, options);
    case REDUCE:
        return weft_reduce(comm, send, recv, n, act->dtype, act->op, act->root, options);
    case ALLGATHER:
        return weft_allgather(comm, send, recv, n, act->dtype, options);
    case ALLGATHERV:
        return weft_allgatherv(comm, send, counts[rank], recv, counts, NULL, act->dtype, options);
    case GATHER:
        return weft_gather(comm, send, recv, n, act->dtype, act->root, options);
    case GATHERV:
        return weft_gatherv(comm, send, own, recv, counts, NULL, act->dtype, act->root, options);
    case SCATTERV:
        return weft_scatterv(comm, send, counts, NULL, recv, own, act->dtype, act->root, options);
    case REDUCE_SCATTER:
        return weft_reduce_scatter(comm, send, recv, n, act->dtype, act->op, options);
    case REDUCE_SCATTERV:
        return weft_reduce_scatterv(comm, send, recv, counts, act->dtype, act->op, options);
    case ALLTOALL:
        return weft_alltoall(comm, send, recv, n, act->dtype, options);
    case ALLTOALLV:
        return weft_alltoallv(comm, send, counts, NULL, recv, others, NULL, act->dtype, options);
    case BARRIER:
        return weft_barrier(comm, options);
    default:
        return weft_comm_destroy(comm);
    }
}

/* Whether a rank may be through with its part of a call that others have not made. */
static int may_return(const struct act *act)
{
    return act->what != ALLREDUCE && act->what != DESTROY;
}

/* The script: returns the first status that is not OK and copies its text. */
static int play(weft_comm *comm, const struct script *script, void *const *memory, int started, char *text,
                size_t size)
{
    weft_work *works[2] = {NULL, NULL};
    started |= script->leaves;
    int status = perform(comm, &script->first, memory[0], memory[1], WEFT_START(started ? &works[0] : NULL));
    if (status == WEFT_OK && script->second.count)
        status = perform(comm, &script->second, memory[0], memory[2], WEFT_START(started ? &works[1] : NULL));
    if (script->leaves)
        usleep(LEAVE_NS / 1000); /* the others hear of it from the service thread */
    snprintf(text, size, "%s", weft_error_detail());
    for (int i = 0; i < 2; i++) {
        int ended = works[i] ? weft_work_wait(works[i], -1) : WEFT_OK;
        if (ended != WEFT_OK && status == WEFT_OK) {
            status = ended;
            snprintf(text, size, "%s", weft_error_detail());
        }
        weft_work_free(works[i]);
    }
    for (int i = 0; i < 3 && status == WEFT_OK && may_return(&script->first); i++) {
        status = weft_barrier(comm, NULL);
        snprintf(text, size, "%s", weft_error_detail());
    }
    return status;
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
    snprintf(right, sizeof right, " %zu", scenario->right.first.count);
    snprintf(wrong, sizeof wrong, " %zu", scenario->wrong.first.count + scenario->wrong.first.extra);
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
    snprintf(one, sizeof one, "the root of call #2: %d and %d", scenario->right.first.root,
             scenario->wrong.first.root);
    snprintf(other, sizeof other, "the root of call #2: %d and %d", scenario->wrong.first.root,
             scenario->right.first.root);
    return strstr(text, one) || strstr(text, other);
}

/* Who is right depends on who came first where as many are of each opinion. */
static int says_values(const struct scenario *scenario, const char *text)
{
    char right[32], wrong[32];
    const char *field = scenario->field;
    if (strchr(field, '#') && strcmp(field, "call #2") != 0)
        return says_sizes(scenario, text);
    print_value(field, &scenario->right.first, right, sizeof right);
    print_value(field, &scenario->wrong.first, wrong, sizeof wrong);
    return says(text, field, wrong, right) || says(text, field, right, wrong) || says_met(scenario, text);
}

/* Where all wait for all, who is wrong is known, and soon: counts the answers for which that is not so. Where rank 0 has decided without ranks
 * that came late, the other one of the two may be taken for the wrong one; both stand in the text. */
static int names_rank(const struct setup *setup, int rank, int ranks, const char *text, int64_t took_ns)
{
    char expected[32];
    struct tally *tally = setup->tally;
    if (rank == setup->wrong && setup->scenario->wrong.leaves)
        took_ns = took_ns > LEAVE_NS ? took_ns - LEAVE_NS : 0;
    if (took_ns > tally->slowest_ns)
        tally->slowest_ns = took_ns;
    snprintf(expected, sizeof expected, "rank %d on host '", ranks == 2 ? 1 : setup->wrong);
    int named = strstr(text, expected) != NULL;
    tally->answers++;
    tally->slow += took_ns > PROMISE_NS;
    tally->unnamed += !named;
    snprintf(expected, sizeof expected, "rank %d ", setup->wrong);
    return named || (strstr(text, expected) && strstr(text, "on host '"));
}

static int judge(const struct setup *setup, int rank, int ranks, int status, const char *text,
                 int64_t took_ns)
{
    const struct scenario *scenario = setup->scenario;
    int named = may_return(&scenario->right.first) || names_rank(setup, rank, ranks, text, took_ns);
    int valued = scenario->right.second.count || says_values(scenario, text);
    if (status == WEFT_MISMATCH && named && valued && strstr(text, scenario->field) && strstr(text, "rank") &&
        strstr(text, "#2"))
        return 0;
    fprintf(
        stderr,
        "%s, %s%s, rank %d of %d, rank %d wrong, 0x%x start: status %d after %lld ms, '%s': expected '%s'\n",
        scenario->name, setup->transport->name, setup->transport->threads ? " threads" : "", rank, ranks,
        setup->wrong, setup->started, status, (long long)(took_ns / 1000000), text, scenario->field);
    return 1;
}

static int scenario_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    const struct script *script = rank == setup->wrong ? &setup->scenario->wrong : &setup->scenario->right;
    struct job job;
    void *memory[3];
    char text[600];
    CHECK_OK(job_open(&job, setup->transport->name, NULL));
    for (int i = 0; i < 3; i++)
        CHECK(memory[i] = calloc(1, MEMORY));
    int status = weft_barrier(job.comm, NULL); /* a slow rank may hear in it what the others did after it */
    int64_t start_ns = weft_clock_ns();
    snprintf(text, sizeof text, "%s", weft_error_detail());
    int gone = status == WEFT_OK && script->first.what == DESTROY;
    if (status == WEFT_OK)
        status = play(job.comm, script, memory, setup->started >> rank & 1, text, sizeof text);
    int bad = judge(setup, rank, ranks, status, text, weft_clock_ns() - start_ns);
    if (!gone) {
        CHECK(weft_barrier(job.comm, NULL) == WEFT_REVOKED);
        CHECK_OK(weft_comm_destroy(job.comm));
    }
    for (int i = 0; i < 3; i++)
        free(memory[i]);
    CHECK_OK(weft_context_close(job.context));
    return bad;
}

static int run(const struct transport *transport, int ranks, test_rank_function *body, void *arg)
{
    return transport->threads ? test_ranks_threads(ranks, body, arg) : test_ranks_fork(ranks, body, arg);
}

static uint64_t random_next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* Numbers a point of the matrix: scenario, transport, ranks, wrong rank. */
struct point {
    int scenario, transport, ranks, wrong;
};

static int list_points(struct point *points)
{
    int count = 0;
    for (int s = 0; s < SCENARIOS; s++)
        for (int t = 0; t < TRANSPORTS; t++)
            for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
                for (int wrong = 0; wrong < ranks; wrong++)
                    points[count++] = (struct point){s, t, ranks, wrong};
    return count;
}

/* Points in a random order in which every scenario comes once before any comes twice. */
static void shuffle(struct point *points, int count, uint64_t *random)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(random_next(random) % (uint64_t)(i + 1));
        struct point swapped = points[i];
        points[i] = points[j];
        points[j] = swapped;
    }
    for (int at = 0; at + 1 < count; at++) {
        int seen[SCENARIOS] = {0};
        for (int i = at / SCENARIOS * SCENARIOS; i < at; i++)
            seen[points[i].scenario] = 1;
        for (int i = at; i < count; i++) {
            if (seen[points[i].scenario])
                continue;
            struct point swapped = points[at];
            points[at] = points[i];
            points[i] = swapped;
            break;
        }
    }
}

static void test_matrix(void **state)
{
    (void)state;
    /* A rank that waits reports, and then rank 0 decides: no clock of this machine can break that part of the promise. */
    assert_true(WEFT_STALL_NS + WEFT_JUDGE_NS < PROMISE_NS);
    static struct point points[SCENARIOS * 4 * 14];
    const char *given = getenv("WEFT_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    uint64_t random = seed;
    int everything = getenv("WEFT_LONG") != NULL, bad = 0, done = 0;
    int count = list_points(points);
    shuffle(points, count, &random);
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    for (; done < count && (everything || done < (int)test_by_effort(1, 2, 2) * SCENARIOS) && bad == 0;
         done++) {
        const struct point *point = &points[done];
        struct setup setup = {&scenarios[point->scenario], &transports[point->transport], point->wrong,
                              (unsigned)random_next(&random), tally};
        bad = run(setup.transport, point->ranks, scenario_body, &setup);
    }
    printf("%d of %d points, WEFT_SEED=%llu\n", done, count, (unsigned long long)seed);
    int answers = tally->answers, slow = tally->slow, unnamed = tally->unnamed;
    printf("%d answers, %d late, the slowest after %lld ms, %d that name another rank\n", answers, slow,
           (long long)(tally->slowest_ns / 1000000), unnamed);
    munmap(tally, sizeof *tally);
    if (bad)
        fail_msg("%d ranks failed; WEFT_SEED=%llu", bad, (unsigned long long)seed);
    /* By the machine's clock, so test_mismatch_clock.sh asks for it, when nothing else runs. */
    int few = getenv("WEFT_TEST_CLOCK") ? answers / 10 : answers;
    if (slow > few || unnamed > few)
        fail_msg("too many answers were late or named the wrong rank; WEFT_SEED=%llu",
                 (unsigned long long)seed);
}

/* Sizes travel where other calls have their count: the root must be compared all the same. Small, so that no rank
 * notices for another reason. */
static void test_far_roots(void **state)
{
    (void)state;
    static const struct scenario far[] = {
        {"far root of gatherv", "root", CALLS(GATHERV, SMALL, 0, 0), CALLS(GATHERV, SMALL, 16, 0)},
        {"far root of scatterv", "root", CALLS(SCATTERV, SMALL, 16, 0), CALLS(SCATTERV, SMALL, 0, 0)},
        {"far root of reduce", "root", CALLS(REDUCE, SMALL, 17, 0), CALLS(REDUCE, SMALL, 1, 0)},
    };
    setenv("WEFT_FAST_PATH", "0", 1);
    for (size_t s = 0; s < sizeof far / sizeof *far; s++) {
        struct setup setup = {&far[s], &transports[0], 5, 0, NULL};
        assert_int_equal(test_ranks_fork(FAR_RANKS, scenario_body, &setup), 0);
    }
    unsetenv("WEFT_FAST_PATH");
}

/* In place here, out of place there: not a disagreement. */
static int in_place_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    struct job job;
    CHECK_OK(job_open(&job, setup->transport->name, NULL));
    static const size_t counts[] = {SMALL, 3000, LARGE};
    for (int c = 0; c < 3; c++) {
        void *send = calloc(1, MEMORY), *recv = rank == setup->wrong ? send : calloc(1, MEMORY);
        CHECK(send && recv);
        job_fill(send, WEFT_FLOAT32, rank, counts[c]);
        CHECK_OK(weft_allreduce(job.comm, send, recv, counts[c], WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, counts[c]) == 0);
        if (recv != send)
            free(recv);
        free(send);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_in_place(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            struct setup setup = {NULL, &transports[t], (ranks + t) % ranks, 0, NULL};
            assert_int_equal(run(setup.transport, ranks, in_place_body, &setup), 0);
        }
    }
}

/* Two communicators of one context: while a thread keeps the second busy, the ranks disagree on the first, one
 * of them in weft_comm_destroy(), which nobody drives. */
struct busy {
    weft_comm *comm;
    atomic_int stop, wrong;
};

static void *keep_busy(void *arg)
{
    struct busy *busy = arg;
    static float data[LARGE];
    float stop = 0;
    while (stop == 0 && !busy->wrong) { /* the ranks stop in the same round */
        data[0] = (float)atomic_load(&busy->stop);
        busy->wrong = weft_allreduce(busy->comm, data, data, LARGE, WEFT_FLOAT32, WEFT_MAX, NULL) != WEFT_OK;
        stop = data[0];
    }
    return NULL;
}

static int busy_body(int rank, int ranks, void *arg)
{
    struct busy busy = {.wrong = 0};
    struct job job;
    pthread_t thread;
    static float memory[LARGE];
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &busy.comm, NULL));
    CHECK(pthread_create(&thread, NULL, keep_busy, &busy) == 0);
    int status = rank == 0 ? weft_comm_destroy(job.comm)
                           : weft_allreduce(job.comm, memory, memory, LARGE, WEFT_FLOAT32, WEFT_SUM, NULL);
    int named =
        strstr(weft_error_detail(), "rank 1 on host '") && strstr(weft_error_detail(), "weft_comm_destroy");
    atomic_store(&busy.stop, 1);
    pthread_join(thread, NULL);
    CHECK(status == WEFT_MISMATCH && named);
    CHECK(!busy.wrong);
    CHECK_OK(weft_comm_destroy(busy.comm));
    if (rank)
        CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_beside_a_busy_one(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, busy_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_beside_a_busy_one),
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_far_roots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
