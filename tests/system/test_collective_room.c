/* SPDX-License-Identifier: Apache-2.0 */
/* More collectives than may be in flight on a communicator (64): starts and lists wait for room, on every rank and before
 * they touch the caller's memory, so that nothing is scaled twice, counted on some ranks only, or left behind by a rank
 * that dies meanwhile. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

enum { ROOM = 64, TENSORS = 100, ELEMENTS = 25600 /* too many to be packed */ };

#define LATE_US 200000

static int open_premul(struct job *job, int rank, weft_op *op)
{
    int32_t scalar = rank + 2;
    CHECK_OK(job_open(job, "shm", NULL));
    CHECK_OK(job_make_scaling(job->context, WEFT_INT32, &scalar, op));
    return 0;
}

/* What rank r passes is r + 1, which it multiplies by r + 2. */
static int32_t expected_sum(int ranks)
{
    int32_t sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += (r + 1) * (r + 2);
    return sum;
}

static int32_t *make_tensor(int rank)
{
    int32_t *tensor = malloc(ELEMENTS * sizeof *tensor);
    for (int i = 0; tensor && i < ELEMENTS; i++)
        tensor[i] = rank + 1;
    return tensor;
}

static size_t tensor_wrong(const int32_t *tensor, int32_t expected)
{
    size_t wrong = 0;
    for (int i = 0; i < ELEMENTS; i++)
        wrong += tensor[i] != expected;
    return wrong;
}

/* arg: NULL one start for each tensor; otherwise all in one list. */
static int scaled_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_op op;
    int32_t *data[TENSORS];
    size_t counts[TENSORS], wrong = 0;
    weft_work *works[TENSORS] = {0};
    CHECK(open_premul(&job, rank, &op) == 0);
    for (int t = 0; t < TENSORS; t++) {
        CHECK(data[t] = make_tensor(rank));
        counts[t] = ELEMENTS;
    }
    if (rank == ranks - 1)
        usleep(LATE_US);
    if (arg)
        CHECK_OK(weft_allreduce_list(job.comm, TENSORS, (const void *const *)data, (void *const *)data,
                                     counts, WEFT_INT32, op, WEFT_START(&works[0])));
    for (int t = 0; t < TENSORS && !arg; t++)
        CHECK_OK(weft_allreduce(job.comm, data[t], data[t], ELEMENTS, WEFT_INT32, op, WEFT_START(&works[t])));
    for (int t = 0; t < TENSORS && works[t]; t++) {
        CHECK_OK(weft_work_wait(works[t], -1));
        CHECK_OK(weft_work_free(works[t]));
    }
    for (int t = 0; t < TENSORS; t++) {
        wrong += tensor_wrong(data[t], expected_sum(ranks));
        free(data[t]);
    }
    CHECK_BITS(wrong == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_scaled_once(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        assert_int_equal(test_ranks_fork(ranks, scaled_body, NULL), 0);
        assert_int_equal(test_ranks_fork(ranks, scaled_body, (void *)(uintptr_t) "list"), 0);
    }
}

/* Rank 2 is late: until then rank 1, which only sends, has ended everything, and rank 0 nothing. A blocking call then
 * finds room on one of them and none on the other. */
static int uneven_body(int rank, int ranks, void *arg)
{
    enum { LARGE = 4 << 20, COUNT = 1 << 20 };
    (void)arg;
    struct job job;
    const size_t counts[3] = {0, 1, LARGE};
    int32_t *send = calloc(LARGE, 4), *recv = calloc(LARGE + 1, 4), small[ROOM][16], got[ROOM][16];
    float *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);
    weft_work *works[ROOM];
    CHECK(ranks == 3 && send && recv && in && out);
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(rank + i % 5);
    for (int i = 0; i < ROOM * 16; i++)
        small[i / 16][i % 16] = rank + i;
    if (rank == 2)
        usleep(LATE_US);
    CHECK_OK(
        weft_gatherv(job.comm, send, counts[rank], recv, counts, NULL, WEFT_INT32, 0, WEFT_START(&works[0])));
    for (int t = 1; t < ROOM; t++)
        CHECK_OK(weft_reduce(job.comm, small[t], got[t], 16, WEFT_INT32, WEFT_SUM, 0, WEFT_START(&works[t])));
    CHECK_OK(weft_allreduce(job.comm, in, out, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_OK(weft_broadcast(job.comm, in, in, COUNT, WEFT_FLOAT32, 1, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(out[i] == (float)(3 + 3 * (i % 5)) && in[i] == (float)(1 + i % 5));
    for (int t = 0; t < ROOM; t++) {
        CHECK_OK(weft_work_wait(works[t], -1));
        CHECK_OK(weft_work_free(works[t]));
    }
    for (int i = 16; i < ROOM * 16 && rank == 0; i++)
        CHECK_BITS(got[i / 16][i % 16] == 3 + 3 * i);
    CHECK_OK(job_close(&job));
    free(send);
    free(recv);
    free(in);
    free(out);
    return 0;
}

static void test_uneven(void **state)
{
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        setenv("WEFT_FAST_PATH", fast ? "1" : "0", 1);
        assert_int_equal(test_ranks_fork(3, uneven_body, NULL), 0);
    }
    unsetenv("WEFT_FAST_PATH");
}

enum last { LIST, START, BLOCKING, LASTS };

/* Shared by the ranks. */
struct death {
    enum last way;
    _Atomic int full; /* rank 0 has no room any more */
};

/* Rank 1 dies while rank 0 waits for room. */
static int death_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    struct job job;
    int32_t *data[ROOM + 1];
    weft_work *works[ROOM], *work = NULL;
    const size_t count = ELEMENTS;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int t = 0; t <= ROOM; t++)
        CHECK(data[t] = make_tensor(rank));
    struct death *death = arg;
    if (rank == 1) {
        while (!death->full)
            usleep(1000);
        usleep(LATE_US); /* into the call that waits, or right before it */
        kill(getpid(), SIGKILL);
    }
    for (int t = 0; t < ROOM; t++)
        CHECK_OK(weft_allreduce(job.comm, data[t], data[t], ELEMENTS, WEFT_INT32, WEFT_SUM,
                                WEFT_START(&works[t])));
    int32_t *last = data[ROOM];
    enum last way = death->way;
    death->full = 1;
    int status = way == LIST
                     ? weft_allreduce_list(job.comm, 1, (const void *const *)&last, (void *const *)&last,
                                           &count, WEFT_INT32, WEFT_SUM, WEFT_START(&work))
                 : way == START
                     ? weft_allreduce(job.comm, last, last, ELEMENTS, WEFT_INT32, WEFT_SUM, WEFT_START(&work))
                     : weft_broadcast(job.comm, last, last, ELEMENTS, WEFT_INT32, 0, NULL);
    CHECK(status == WEFT_PEER_FAILED && strstr(weft_error_detail(), "rank 1"));
    CHECK(!work);
    CHECK_BITS(tensor_wrong(last, 1) == 0);
    for (int t = 0; t < ROOM; t++) {
        CHECK(weft_work_wait(works[t], -1) == WEFT_PEER_FAILED);
        weft_work_free(works[t]);
        free(data[t]);
    }
    free(last);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_death(void **state)
{
    (void)state;
    for (enum last way = LIST; way < LASTS; way++) {
        int statuses[2];
        struct death *death =
            mmap(NULL, sizeof *death, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(death != MAP_FAILED);
        death->way = way;
        test_ranks_fork_status(2, death_body, death, statuses);
        munmap(death, sizeof *death);
        assert_int_equal(statuses[0], 0);
        assert_true(WIFSIGNALED(statuses[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scaled_once), cmocka_unit_test(test_uneven),
                                       cmocka_unit_test(test_death)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
