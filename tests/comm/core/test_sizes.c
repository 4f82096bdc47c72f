/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with sizes for each rank, on which ranks disagree.
 *
 * alltoallv, gatherv, scatterv: two ranks disagree on what one sends the other. Who receives fails with WEFT_MISMATCH in that very call.
 * Of alltoallv so does who sends, though it has got all that it expected: even where everybody else has sent before it comes. Of the
 * others so does who sends more than an eager message; with one it may have returned, and its next call fails. Whoever
 * fails says the same: both ranks, and both sizes. Nothing is written but what a rank expects where it expects it.
 *
 * allgatherv, reduce_scatterv: a rank passes other counts than the others. All fail in that very call, also those for which or from
 * which there are no elements.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/exec/call.h"
#include "tests/support/effort.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define RANKS_MAX 4
#define SMALL     3
#define LARGE     30000 /* no eager message */
#define STRIDE    (LARGE + 64)
#define POISON    0xa5

enum what { ALLTOALLV, GATHERV, SCATTERV };
static const char *const names[] = {"alltoallv", "gatherv", "scatterv"};

/* Elements that the sender sends and the receiver expects. */
struct sizes {
    size_t sent, expected;
};

static const struct sizes sizes[] = {{SMALL, SMALL - 1}, {SMALL - 1, SMALL}, {SMALL, 0},        {0, SMALL},
                                     {SMALL, LARGE},     {LARGE, SMALL},     {LARGE, LARGE - 1}};
#define SIZES (sizeof sizes / sizeof *sizes)

struct scene {
    enum what what;
    const char *transport, *provider;
    struct sizes sizes;
    int sender, receiver;
    int late;                        /* a rank that comes when all others have sent what they can; -1: none */
    int both;                        /* alltoallv: the other direction differs as well */
    atomic_int *ready, *there, *end; /* ranks that may begin; have started the call; are through with it */
};

static void rendezvous(atomic_int *count, int expected)
{
    while (atomic_load(count) < expected)
        usleep(200);
}

/* Nobody goes on before all have left the barrier, in which they would hear of what is to come. */
static int meet(struct job *job, atomic_int *ready)
{
    int status = job_greet(job->comm);
    status = status ? status : weft_barrier(job->comm, NULL);
    atomic_fetch_add(ready, 1);
    rendezvous(ready, weft_comm_size(job->comm));
    return status;
}

/* What a rank passes: blocks at STRIDE from each other. */
struct pass {
    size_t send_counts[RANKS_MAX], recv_counts[RANKS_MAX], offsets[RANKS_MAX];
    float *send, *recv;
};

static int make_pass(const struct scene *scene, int rank, int ranks, struct pass *pass)
{
    size_t bytes = (size_t)ranks * STRIDE * sizeof(float);
    pass->send = calloc(1, bytes);
    pass->recv = malloc(bytes);
    CHECK(pass->send && pass->recv);
    memset(pass->recv, POISON, bytes);
    for (int r = 0; r < ranks; r++) {
        pass->send_counts[r] = (size_t)(rank + r) % 5; /* some are empty */
        pass->recv_counts[r] = (size_t)(rank + r) % 5;
        pass->offsets[r] = (size_t)r * STRIDE;
    }
    if (rank == scene->sender)
        pass->send_counts[scene->receiver] = scene->sizes.sent;
    if (rank == scene->receiver)
        pass->recv_counts[scene->sender] = scene->sizes.expected;
    if (rank == scene->receiver && scene->both)
        pass->send_counts[scene->sender] += 7;
    return 0;
}

static int perform(weft_comm *comm, const struct scene *scene, const struct pass *pass,
                   const weft_call_options *options)
{
    int sender = scene->sender, receiver = scene->receiver;
    switch (scene->what) {
    case ALLTOALLV:
        return weft_alltoallv(comm, pass->send, pass->send_counts, pass->offsets, pass->recv,
                              pass->recv_counts, pass->offsets, WEFT_FLOAT32, options);
    case GATHERV:
        return weft_gatherv(comm, pass->send, pass->send_counts[receiver], pass->recv, pass->recv_counts,
                            pass->offsets, WEFT_FLOAT32, receiver, options);
    default:
        return weft_scatterv(comm, pass->send, pass->send_counts, pass->offsets, pass->recv,
                             pass->recv_counts[sender], WEFT_FLOAT32, sender, options);
    }
}

/* Bytes that are not those of a block which this rank expects. */
static int is_untouched(const struct scene *scene, const struct pass *pass, int rank, int ranks)
{
    const uint8_t *bytes = (const uint8_t *)pass->recv;
    for (int r = 0; r < ranks; r++) {
        size_t expected = pass->recv_counts[r], from = (size_t)r * STRIDE;
        if (scene->what == SCATTERV)
            expected = r ? 0 : pass->recv_counts[scene->sender];
        else if (scene->what == GATHERV && rank != scene->receiver)
            expected = 0;
        for (size_t b = (from + expected) * sizeof(float); b < (from + STRIDE) * sizeof(float); b++)
            if (bytes[b] != POISON)
                return 0;
    }
    return 1;
}

static void word(const struct scene *scene, char *text, size_t size)
{
    snprintf(text, size, "%s #2: rank %d sends %zu elements to rank %d, which expects %zu",
             names[scene->what], scene->sender, scene->sizes.sent, scene->receiver, scene->sizes.expected);
}

/* The call itself, and how it ended, with its text. */
static int call(const struct scene *scene, struct job *job, const struct pass *pass, int rank, int ranks,
                char *text, size_t size)
{
    weft_work *work = NULL;
    int is_late = rank == scene->late;
    if (is_late)
        rendezvous(scene->there, ranks - 1);
    int starts = scene->late >= 0 && !is_late;
    int status = perform(job->comm, scene, pass, WEFT_START(starts ? &work : NULL));
    if (starts) {
        atomic_fetch_add(scene->there, 1);
        rendezvous(scene->end, 1);
        status = status ? status : weft_work_wait(work, -1);
    }
    snprintf(text, size, "%s", weft_error_detail());
    atomic_fetch_add(scene->end, 1);
    weft_work_free(work);
    return status;
}

static int must_hear(const struct scene *scene, int rank)
{
    return rank == scene->receiver ||
           (rank == scene->sender && (scene->what == ALLTOALLV || scene->sizes.sent == LARGE));
}

static int body(int rank, int ranks, void *arg)
{
    const struct scene *scene = arg;
    struct job job;
    struct pass pass;
    char text[600], expected[200];
    CHECK(make_pass(scene, rank, ranks, &pass) == 0);
    CHECK_OK(job_open(&job, scene->transport, scene->provider));
    CHECK_OK(meet(&job, scene->ready));
    word(scene, expected, sizeof expected);
    int status = call(scene, &job, &pass, rank, ranks, text, sizeof text);
    int heard = status == WEFT_MISMATCH, bad = must_hear(scene, rank) && !heard;
    if (!heard && status == WEFT_OK) {
        status = weft_barrier(job.comm, NULL);
        snprintf(text, sizeof text, "%s", weft_error_detail());
    }
    bad |= status != WEFT_MISMATCH || !strstr(text, expected);
    if (bad)
        fprintf(stderr, "rank %d of %d over %s, late %d: %s after status %d, '%s': expected '%s'\n", rank,
                ranks, scene->transport, scene->late, heard ? "in the call" : "later", status, text,
                expected);
    CHECK(weft_barrier(job.comm, NULL) == WEFT_REVOKED);
    CHECK_BITS(is_untouched(scene, &pass, rank, ranks));
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    free(pass.send);
    free(pass.recv);
    return bad;
}

static void play(struct scene scene, int ranks)
{
    atomic_int *counts = test_ranks_shared(3 * sizeof *counts);
    scene.ready = counts;
    scene.there = counts + 1;
    scene.end = counts + 2;
    assert_int_equal(test_ranks_fork(ranks, body, &scene), 0);
}

/* Every operation, size, number of ranks, and who comes late; pairs in turn. */
static void sweep(const char *transport, const char *provider)
{
    size_t turn = 0;
    for (int what = ALLTOALLV; what <= SCATTERV; what++) {
        for (size_t s = 0; s < SIZES; s++) {
            for (int ranks = 2; ranks <= RANKS_MAX; ranks++, turn++) {
                if (test_left_out((size_t)what + s + (size_t)ranks, 3, 3))
                    continue;
                int sender = (int)(turn % (size_t)ranks),
                    receiver = (sender + 1 + (int)s % (ranks - 1)) % ranks;
                struct scene scene = {what, transport, provider, sizes[s], sender, receiver,
                                      -1,   0,         NULL,     NULL,     NULL};
                scene.late = (s + (size_t)ranks) % 3 == 0 ? -1 : turn % 2 ? sender : receiver;
                play(scene, ranks);
            }
        }
    }
}

static void test_shm(void **state)
{
    (void)state;
    sweep("shm", NULL);
}

static void test_tcp(void **state)
{
    (void)state;
    sweep("tcp", NULL);
}

static void test_ofi(void **state)
{
    (void)state;
    if (!job_has_ofi("tcp;ofi_rxm"))
        skip();
    sweep("ofi", "tcp;ofi_rxm");
}

/* Who has got what it expected hears of it, whoever it is, though all others have sent before it comes. */
static void test_late_sender(void **state)
{
    (void)state;
    static const char *const transports[] = {"shm", "tcp"};
    for (int t = 0; t < 2; t++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            for (int sender = 0; sender < ranks; sender++) {
                struct scene scene = {
                    ALLTOALLV, transports[t], NULL, sizes[0], sender, (sender + 1) % ranks, sender,
                    0,         NULL,          NULL, NULL};
                play(scene, ranks);
            }
        }
    }
}

/* Of both directions the lower rank's is named, by both. */
static void test_both_directions(void **state)
{
    (void)state;
    for (int late = -1; late < 2; late++) {
        struct scene scene = {ALLTOALLV, "shm", NULL, sizes[0], 0, 1, late, 1, NULL, NULL, NULL};
        play(scene, 2);
    }
}

/* --- counts that all ranks pass */

struct counts {
    const char *transport, *algorithm;
    int reduces, wrong, late;
    size_t right_counts[RANKS_MAX], wrong_counts[RANKS_MAX];
    atomic_int *ready, *there, *end;
};

static int counts_body(int rank, int ranks, void *arg)
{
    const struct counts *counts = arg;
    const size_t *mine = rank == counts->wrong ? counts->wrong_counts : counts->right_counts;
    static float send[RANKS_MAX * 8], recv[RANKS_MAX * 8];
    struct job job;
    weft_work *work = NULL;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    CHECK_OK(job_open(&job, counts->transport, NULL));
    CHECK_OK(meet(&job, counts->ready));
    int is_late = rank == counts->late, starts = counts->late >= 0 && !is_late;
    options.work = starts ? &work : NULL;
    options.algorithm = counts->algorithm;
    if (is_late)
        rendezvous(counts->there, ranks - 1);
    int status = counts->reduces
                     ? weft_reduce_scatterv(job.comm, send, recv, mine, WEFT_FLOAT32, WEFT_SUM, &options)
                     : weft_allgatherv(job.comm, send, mine[rank], recv, mine, NULL, WEFT_FLOAT32, &options);
    if (starts) {
        atomic_fetch_add(counts->there, 1);
        rendezvous(counts->end, 1);
        status = status ? status : weft_work_wait(work, -1);
    }
    atomic_fetch_add(counts->end, 1);
    const char *name = counts->reduces ? "reduce_scatterv #2: " : "allgatherv #2: ";
    int bad = status != WEFT_MISMATCH || !strstr(weft_error_detail(), name) ||
              !strstr(weft_error_detail(), "counts");
    if (bad)
        fprintf(stderr, "rank %d of %d, %s by %s over %s, rank %d wrong, rank %d late: status %d, '%s'\n",
                rank, ranks, name, counts->algorithm, counts->transport, counts->wrong, counts->late, status,
                weft_error_detail());
    weft_work_free(work);
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    return bad;
}

/* empty: ranks whose blocks have no elements, as bits. */
static void differ(struct counts counts, int ranks, unsigned empty, int index)
{
    atomic_int *shared = test_ranks_shared(3 * sizeof *shared);
    for (int r = 0; r < ranks; r++)
        counts.right_counts[r] = counts.wrong_counts[r] = empty >> r & 1 ? 0 : SMALL;
    counts.wrong_counts[index] = counts.wrong_counts[index] ? 0 : 1;
    counts.ready = shared;
    counts.there = shared + 1;
    counts.end = shared + 2;
    assert_int_equal(test_ranks_fork(ranks, counts_body, &counts), 0);
}

static void test_counts(void **state)
{
    (void)state;
    static const char *const algorithms[2][3] = {{"ring", "bruck"}, {"ring", "halving", "direct"}};
    size_t turn = 0;
    for (int reduces = 0; reduces < 2; reduces++) {
        for (int a = 0; a < 3 && algorithms[reduces][a]; a++) {
            for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
                for (unsigned empty = 0; empty < 1u << ranks; empty++, turn++) {
                    if (test_left_out(turn, 5, 3))
                        continue;
                    struct counts counts = {.transport = turn % 2 ? "shm" : "tcp",
                                            .algorithm = algorithms[reduces][a],
                                            .reduces = reduces,
                                            .wrong = (int)(turn % (size_t)ranks),
                                            .late = (int)(turn / 3 % ((size_t)ranks + 1)) - 1};
                    differ(counts, ranks, empty, (int)(turn / 2 % (size_t)ranks));
                }
            }
        }
    }
}

/* --- how sizes travel */

static void test_pairs(void **state)
{
    (void)state;
    static const uint64_t edges[] = {0,
                                     1,
                                     65536,
                                     WEFT_CALL_EXPECTED_MAX - 1,
                                     WEFT_CALL_EXPECTED_MAX,
                                     WEFT_CALL_EXPECTED_MAX + 1,
                                     (UINT64_C(1) << 31) - 1,
                                     UINT64_C(1) << 31,
                                     (UINT64_C(1) << 44) - 1};
    enum { EDGES = sizeof edges / sizeof *edges };
    uint64_t pairs[EDGES * EDGES];
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        uint64_t sent = edges[i / EDGES], expected = edges[i % EDGES];
        pairs[i] = weft_call_pair(sent, expected);
        assert_int_equal(weft_call_pair_sent(pairs[i]), sent);
        int is_cut = (sent | expected) >> 31 && expected > WEFT_CALL_EXPECTED_MAX;
        assert_int_equal(weft_call_pair_expected(pairs[i]), is_cut ? WEFT_CALL_EXPECTED_MAX : expected);
    }
    /* What is the same of two different pairs: sizes that are too long for a message that does not wait. */
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        for (size_t j = 0; j < i; j++) {
            if (pairs[i] == pairs[j])
                assert_true(edges[i / EDGES] == edges[j / EDGES] &&
                            edges[i % EDGES] >= WEFT_CALL_EXPECTED_MAX &&
                            edges[j % EDGES] >= WEFT_CALL_EXPECTED_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_late_sender),
        cmocka_unit_test(test_both_directions),
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_ofi),
        cmocka_unit_test(test_counts),
    };
    setenv("WEFT_LOG", "none", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
