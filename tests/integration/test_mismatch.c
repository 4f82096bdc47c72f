/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines) */
/* The matrix of disagreement: each thing that ranks must agree on, each rank wrong in turn, 2 to 5 ranks, over shm
 * and over libfabric's tcp, ranks as processes and as threads.
 *
 * Every rank's call must fail with WEFT_MISMATCH (WEFT_SETTINGS at creation) and a text that names the rank that is
 * wrong and the field; with two ranks there is no majority and rank 1 is named. No call may succeed.
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
#include "comm/judge.h"
#include "comm/stall.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

#define RANKS_MAX  5
#define PROMISE_NS INT64_C(1000000000) /* for nine answers in ten; the others may wait for a processor */
#define LEAVE_NS   INT64_C(700000000)
#define MEMORY     (200002 * 8)
#define SMALL      5
#define LARGE      100000
#define SAME_HASH1 6 /* counts that an earlier form of the digest could not tell apart */
#define SAME_HASH2 10952

struct arguments {
    size_t count;
    weft_dtype dtype;
    weft_op op;
};

/* What a rank does; right and wrong ranks of a case have one each. */
enum deed {
    BLOCK,
    START,
    START_AND_LEAVE,
    TWO_CALLS,
    TWO_STARTS,
    START_THEN_BLOCK,
    BLOCK_THEN_START,
    DESTROY
};

struct script {
    enum deed deed;
    struct arguments first, second;
};

struct scenario {
    const char *name, *field; /* field: what the text must say of it */
    struct script right, wrong;
};

#define F32 WEFT_FLOAT32
static const struct scenario scenarios[] = {
    {"tiny count", "count", {BLOCK, {SMALL, F32, WEFT_SUM}, {0}}, {BLOCK, {SMALL + 1, F32, WEFT_SUM}, {0}}},
    {"large count", "count", {BLOCK, {LARGE, F32, WEFT_SUM}, {0}}, {BLOCK, {LARGE + 1, F32, WEFT_SUM}, {0}}},
    {"tiny among large", "count", {BLOCK, {LARGE, F32, WEFT_SUM}, {0}}, {BLOCK, {2, F32, WEFT_SUM}, {0}}},
    {"large among tiny", "count", {BLOCK, {2, F32, WEFT_SUM}, {0}}, {BLOCK, {LARGE, F32, WEFT_SUM}, {0}}},
    {"preamble-sized", "count", {BLOCK, {LARGE, F32, WEFT_SUM}, {0}}, {BLOCK, {4, F32, WEFT_SUM}, {0}}},
    {"same hash",
     "count",
     {BLOCK, {SAME_HASH1, F32, WEFT_SUM}, {0}},
     {BLOCK, {SAME_HASH2, F32, WEFT_SUM}, {0}}},
    {"no elements", "count", {BLOCK, {1000, F32, WEFT_SUM}, {0}}, {BLOCK, {0, F32, WEFT_SUM}, {0}}},
    {"some elements", "count", {BLOCK, {0, F32, WEFT_SUM}, {0}}, {BLOCK, {1, F32, WEFT_SUM}, {0}}},
    {"started count",
     "count",
     {START, {LARGE, F32, WEFT_SUM}, {0}},
     {START, {LARGE / 2, F32, WEFT_SUM}, {0}}},
    {"started and left",
     "count",
     {START, {SMALL, F32, WEFT_SUM}, {0}},
     {START_AND_LEAVE, {SMALL + 3, F32, WEFT_SUM}, {0}}},
    {"type, tiny", "type", {BLOCK, {SMALL, F32, WEFT_SUM}, {0}}, {BLOCK, {SMALL, WEFT_INT32, WEFT_SUM}, {0}}},
    {"type, large",
     "type",
     {BLOCK, {LARGE, F32, WEFT_SUM}, {0}},
     {BLOCK, {LARGE, WEFT_INT32, WEFT_SUM}, {0}}},
    {"larger type",
     "type",
     {BLOCK, {SMALL, F32, WEFT_SUM}, {0}},
     {BLOCK, {SMALL, WEFT_FLOAT64, WEFT_SUM}, {0}}},
    {"type, equal bytes",
     "type",
     {BLOCK, {LARGE, F32, WEFT_SUM}, {0}},
     {BLOCK, {LARGE / 2, WEFT_FLOAT64, WEFT_SUM}, {0}}},
    {"started type",
     "type",
     {START, {LARGE, F32, WEFT_SUM}, {0}},
     {START, {LARGE, WEFT_BFLOAT16, WEFT_SUM}, {0}}},
    {"reduction, tiny",
     "reduction",
     {BLOCK, {SMALL, F32, WEFT_SUM}, {0}},
     {BLOCK, {SMALL, F32, WEFT_MAX}, {0}}},
    {"reduction, large",
     "reduction",
     {BLOCK, {LARGE, F32, WEFT_SUM}, {0}},
     {BLOCK, {LARGE, F32, WEFT_AVG}, {0}}},
    {"started reduction",
     "reduction",
     {START, {SMALL, F32, WEFT_SUM}, {0}},
     {START, {SMALL, F32, WEFT_MIN}, {0}}},
    {"started, tiny", "form", {BLOCK, {SMALL, F32, WEFT_SUM}, {0}}, {START, {SMALL, F32, WEFT_SUM}, {0}}},
    {"started, large", "form", {BLOCK, {LARGE, F32, WEFT_SUM}, {0}}, {START, {LARGE, F32, WEFT_SUM}, {0}}},
    {"blocking, tiny", "form", {START, {SMALL, F32, WEFT_SUM}, {0}}, {BLOCK, {SMALL, F32, WEFT_SUM}, {0}}},
    {"blocking, large", "form", {START, {LARGE, F32, WEFT_SUM}, {0}}, {BLOCK, {LARGE, F32, WEFT_SUM}, {0}}},
    {"order",
     "type",
     {TWO_CALLS, {SMALL, F32, WEFT_SUM}, {9, WEFT_INT32, WEFT_SUM}},
     {TWO_CALLS, {9, WEFT_INT32, WEFT_SUM}, {SMALL, F32, WEFT_SUM}}},
    {"order, large",
     "count",
     {TWO_CALLS, {LARGE, F32, WEFT_SUM}, {3000, F32, WEFT_SUM}},
     {TWO_CALLS, {3000, F32, WEFT_SUM}, {LARGE, F32, WEFT_SUM}}},
    {"order of started",
     "reduction",
     {TWO_STARTS, {LARGE, F32, WEFT_SUM}, {LARGE, F32, WEFT_MAX}},
     {TWO_STARTS, {LARGE, F32, WEFT_MAX}, {LARGE, F32, WEFT_SUM}}},
    {"order of forms",
     "form",
     {START_THEN_BLOCK, {SMALL, F32, WEFT_SUM}, {SMALL, F32, WEFT_SUM}},
     {BLOCK_THEN_START, {SMALL, F32, WEFT_SUM}, {SMALL, F32, WEFT_SUM}}},
    {"order of forms, large",
     "form",
     {START_THEN_BLOCK, {LARGE, F32, WEFT_SUM}, {LARGE, F32, WEFT_SUM}},
     {BLOCK_THEN_START, {LARGE, F32, WEFT_SUM}, {LARGE, F32, WEFT_SUM}}},
    {"end, tiny", "weft_comm_destroy", {BLOCK, {SMALL, F32, WEFT_SUM}, {0}}, {DESTROY, {0}, {0}}},
    {"end, started", "weft_comm_destroy", {START, {LARGE, F32, WEFT_SUM}, {0}}, {DESTROY, {0}, {0}}},
    {"one more call", "allreduce", {DESTROY, {0}, {0}}, {BLOCK, {LARGE, F32, WEFT_SUM}, {0}}},
};
#define SCENARIOS ((int)(sizeof scenarios / sizeof *scenarios))

struct transport {
    const char *name, *provider;
    int threads;
};

static const struct transport transports[] = {
    {"shm", NULL, 0}, {"ofi", "tcp;ofi_rxm", 0}, {"shm", NULL, 1}, {"ofi", "tcp;ofi_rxm", 1}};
#define TRANSPORTS ((int)(sizeof transports / sizeof *transports))

struct setup {
    const struct scenario *scenario;
    const struct transport *transport;
    int wrong;
    struct tally *tally;
};

/* Of all answers; shared by the processes. */
struct tally {
    _Atomic int64_t slowest_ns[SCENARIOS];
    atomic_int answers, slow, unnamed; /* unnamed: the rank is not the wrong one */
};

static int call(weft_comm *comm, void *const *memory, const struct arguments *arguments)
{
    return weft_allreduce(comm, memory[0], memory[1], arguments->count, arguments->dtype, arguments->op);
}

/* Two works at most; the first failure counts. */
static int start(weft_comm *comm, void *const *memory, const struct arguments *arguments, weft_work **work)
{
    return weft_allreduce_start(comm, memory[0], memory[1], arguments->count, arguments->dtype, arguments->op,
                                work);
}

/* The script: returns the first status that is not OK and copies its text. *gone is set when the communicator has
 * been destroyed. */
static int perform(weft_comm *comm, const struct script *script, void *const *memory, char *text, size_t size,
                   int *gone)
{
    void *const *second = memory + 2;
    weft_work *works[2] = {NULL, NULL};
    int status = WEFT_OK;
    *gone = script->deed == DESTROY;
    switch (script->deed) {
    case BLOCK:
    case TWO_CALLS:
    case BLOCK_THEN_START:
        status = call(comm, memory, &script->first);
        break;
    case DESTROY:
        status = weft_comm_destroy(comm);
        break;
    default:
        status = start(comm, memory, &script->first, &works[0]);
    }
    if (status == WEFT_OK && (script->deed == TWO_CALLS || script->deed == START_THEN_BLOCK))
        status = call(comm, second, &script->second);
    else if (status == WEFT_OK && (script->deed == TWO_STARTS || script->deed == BLOCK_THEN_START))
        status = start(comm, second, &script->second, &works[1]);
    if (script->deed == START_AND_LEAVE)
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
    return status;
}

static int judge(const struct setup *setup, int rank, int ranks, int status, const char *text,
                 int64_t took_ns)
{
    char expected[32];
    struct tally *tally = setup->tally;
    _Atomic int64_t *slowest_ns = &tally->slowest_ns[setup->scenario - scenarios];
    if (rank == setup->wrong && setup->scenario->wrong.deed == START_AND_LEAVE)
        took_ns = took_ns > LEAVE_NS ? took_ns - LEAVE_NS : 0;
    if (took_ns > *slowest_ns)
        *slowest_ns = took_ns;
    snprintf(expected, sizeof expected, "rank %d on host '", ranks == 2 ? 1 : setup->wrong);
    int named = strstr(text, expected) != NULL;
    tally->answers++;
    tally->slow += took_ns > PROMISE_NS * (test_is_sanitized() ? 4 : 1);
    tally->unnamed += !named;
    /* Where rank 0 has decided without ranks that came late, the other one of the two may be taken for the wrong one. Both
     * stand in the text. */
    snprintf(expected, sizeof expected, "rank %d ", setup->wrong);
    if (!named)
        named = strstr(text, expected) && strstr(text, "on host '");
    if (status == WEFT_MISMATCH && named && strstr(text, setup->scenario->field) && strstr(text, " #2: "))
        return 0;
    fprintf(
        stderr, "%s, %s%s, rank %d of %d, rank %d wrong: status %d after %lld ms, '%s': expected %s and %s\n",
        setup->scenario->name, setup->transport->name, setup->transport->threads ? " threads" : "", rank,
        ranks, setup->wrong, status, (long long)(took_ns / 1000000), text, expected, setup->scenario->field);
    return 1;
}

static int scenario_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    struct job job;
    void *memory[4];
    CHECK_OK(job_open(&job, setup->transport->name, setup->transport->provider));
    for (int i = 0; i < 4; i++)
        CHECK(memory[i] = calloc(1, MEMORY));
    job_fill(memory[0], WEFT_FLOAT32, rank, SMALL);
    CHECK_OK(weft_allreduce(job.comm, memory[0], memory[1], SMALL, WEFT_FLOAT32, WEFT_SUM));
    CHECK(job_wrong(memory[1], WEFT_FLOAT32, WEFT_SUM, ranks, SMALL) == 0);
    char text[600];
    int gone;
    int64_t start_ns = weft_clock_ns();
    const struct script *script = rank == setup->wrong ? &setup->scenario->wrong : &setup->scenario->right;
    int status = perform(job.comm, script, memory, text, sizeof text, &gone);
    int bad = judge(setup, rank, ranks, status, text, weft_clock_ns() - start_ns);
    if (!gone) {
        CHECK(weft_allreduce(job.comm, memory[0], memory[1], SMALL, WEFT_FLOAT32, WEFT_SUM) == WEFT_REVOKED);
        CHECK_OK(weft_comm_destroy(job.comm));
    }
    for (int i = 0; i < 4; i++)
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

static int list_points(struct point *points, int has_ofi)
{
    int count = 0;
    for (int s = 0; s < SCENARIOS; s++)
        for (int t = 0; t < TRANSPORTS; t++)
            for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
                for (int wrong = 0; wrong < ranks && (has_ofi || !transports[t].provider); wrong++)
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
    int has_ofi = job_has_ofi("tcp;ofi_rxm");
    int count = list_points(points, has_ofi);
    shuffle(points, count, &random);
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    for (; done < count && (everything || done < (int)test_by_effort(1, 2, 2) * SCENARIOS) && bad == 0;
         done++) {
        const struct point *point = &points[done];
        struct setup setup = {&scenarios[point->scenario], &transports[point->transport], point->wrong,
                              tally};
        bad = run(setup.transport, point->ranks, scenario_body, &setup);
    }
    printf("%d of %d points, WEFT_SEED=%llu%s\n", done, count, (unsigned long long)seed,
           has_ofi ? "" : ", without ofi: no provider");
    for (int s = 0; s < SCENARIOS; s++)
        printf("  %-24s slowest rank %lld ms\n", scenarios[s].name,
               (long long)(tally->slowest_ns[s] / 1000000));
    int answers = tally->answers, slow = tally->slow, unnamed = tally->unnamed;
    munmap(tally, sizeof *tally);
    printf("%d answers, %d late, %d that name another rank\n", answers, slow, unnamed);
    if (bad)
        fail_msg("%d ranks failed; WEFT_SEED=%llu", bad, (unsigned long long)seed);
    int few = answers / (test_is_sanitized() ? 2 : 10);
    if (slow > few || unnamed > few)
        fail_msg("too many answers were late or named the wrong rank; WEFT_SEED=%llu",
                 (unsigned long long)seed);
}

/* In place here, out of place there: not a disagreement. */
static int in_place_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    struct job job;
    CHECK_OK(job_open(&job, setup->transport->name, setup->transport->provider));
    static const size_t counts[] = {SMALL, 3000, LARGE};
    for (int c = 0; c < 3; c++) {
        void *send = calloc(1, MEMORY), *recv = rank == setup->wrong ? send : calloc(1, MEMORY);
        CHECK(send && recv);
        job_fill(send, WEFT_FLOAT32, rank, counts[c]);
        CHECK_OK(weft_allreduce(job.comm, send, recv, counts[c], WEFT_FLOAT32, WEFT_SUM));
        CHECK(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, counts[c]) == 0);
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
    int has_ofi = job_has_ofi("tcp;ofi_rxm");
    for (int t = 0; t < (has_ofi ? 2 : 1); t++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            struct setup setup = {NULL, &transports[t], (ranks + t) % ranks, NULL};
            assert_int_equal(run(setup.transport, ranks, in_place_body, &setup), 0);
        }
    }
}

/* Settings that shape plans are compared when ranks meet. */
static const char *const settings[][2] = {
    {"WEFT_ALGO", "tree"},        {"WEFT_CONNECT", "eager"},   {"WEFT_DIRECT", "0"},
    {"WEFT_EAGER_OFI", "1024"},   {"WEFT_EAGER_SHM", "1024"},  {"WEFT_EAGER_VERBS", "1024"},
    {"WEFT_FAST_PATH", "128"},    {"WEFT_RAB_BYTES", "12345"}, {"WEFT_RD_BYTES", "12345"},
    {"WEFT_SLICE_OFI", "8192"},   {"WEFT_SLICE_SHM", "8192"},  {"WEFT_SLICE_VERBS", "8192"},
    {"WEFT_VERBS_FAILOVER", "1"}, {"WEFT_VERBS_QPS", "3"},     {"WEFT_VERBS_STRIPE", "8192"},
    {"WEFT_WINDOW", "8"},
};
#define SETTINGS ((int)(sizeof settings / sizeof *settings))

struct setting {
    const char *const *pair;
    int wrong;
};

static int settings_body(int rank, int ranks, void *arg)
{
    const struct setting *setting = arg;
    char expected[100];
    if (rank == setting->wrong)
        setenv(setting->pair[0], setting->pair[1], 1);
    struct job job;
    int status = job_open(&job, "shm", NULL), named = ranks == 2 ? 1 : setting->wrong;
    int length = snprintf(expected, sizeof expected, "rank %d on host '", named);
    CHECK(length > 0);
    if (status == WEFT_SETTINGS && strstr(weft_error_detail(), expected) &&
        strstr(weft_error_detail(), setting->pair[0]) && strstr(weft_error_detail(), setting->pair[1]))
        return 0;
    fprintf(stderr, "rank %d of %d, rank %d wrong: status %d, '%s': expected %s and %s\n", rank, ranks,
            setting->wrong, status, weft_error_detail(), expected, setting->pair[0]);
    return 1;
}

static void test_settings(void **state)
{
    (void)state;
    int everything = getenv("WEFT_LONG") != NULL;
    for (int s = 0; s < SETTINGS; s++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            for (int wrong = 0; wrong < ranks; wrong++) {
                if (!everything && (s + ranks + wrong) % 7)
                    continue;
                struct setting setting = {settings[s], wrong};
                assert_int_equal(test_ranks_fork(ranks, settings_body, &setting), 0);
            }
        }
    }
}

/* Two communicators of one context: while a thread keeps the second busy, the ranks disagree on the first, one
 * of them in weft_comm_destroy(), which nobody drives. */
struct busy {
    char file[64];
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
        busy->wrong = weft_allreduce(busy->comm, data, data, LARGE, WEFT_FLOAT32, WEFT_MAX) != WEFT_OK;
        stop = data[0];
    }
    return NULL;
}

static int busy_body(int rank, int ranks, void *arg)
{
    struct busy busy = {.wrong = 0};
    struct job job;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    pthread_t thread;
    static float memory[LARGE];
    snprintf(busy.file, sizeof busy.file, "%s", (const char *)arg);
    CHECK_OK(job_open(&job, "shm", NULL));
    options.rank = rank;
    options.ranks = ranks;
    options.file = busy.file;
    options.name = "busy";
    CHECK_OK(weft_comm_create(job.context, &options, &busy.comm));
    CHECK(pthread_create(&thread, NULL, keep_busy, &busy) == 0);
    int status = rank == 0 ? weft_comm_destroy(job.comm)
                           : weft_allreduce(job.comm, memory, memory, LARGE, WEFT_FLOAT32, WEFT_SUM);
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
    char folder[] = "/tmp/weft-mismatch-XXXXXX", file[64];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/meet", folder);
    assert_int_equal(test_ranks_fork(2, busy_body, file), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_beside_a_busy_one),
        cmocka_unit_test(test_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
