/* SPDX-License-Identifier: Apache-2.0 */
/* A message waits for nothing but its receive: not for other messages of its sender, to other ranks or to the same one, and
 * not for a collective; and no collective waits for a message. There is no clock in it: who would wait waits for something
 * that comes only later, until the communicator's deadline.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define RANKS 3
#define LARGE (4u << 20)

enum { FIRST = 1, SECOND, GO };

struct way {
    const char *transports;
    size_t bytes;
};

static const struct way ways[] = {
    {"shm", 8},
    {"shm", LARGE},
    {"tcp", 8},
    {"tcp", LARGE},
};

struct scene {
    struct job job;
    size_t bytes;
    uint8_t *out, *in;
};

static int send(struct scene *scene, int to, int64_t tag)
{
    return weft_send(scene->job.comm, scene->out, scene->bytes, WEFT_UINT8, to, tag, NULL);
}

static int send_start(struct scene *scene, int to, int64_t tag, weft_work **work)
{
    return weft_send(scene->job.comm, scene->out, scene->bytes, WEFT_UINT8, to, tag, WEFT_START(work));
}

/* Receives what `from` has in its memory. */
static int receive(struct scene *scene, int from, int64_t tag)
{
    memset(scene->in, 0, scene->bytes);
    CHECK_OK(weft_recv(scene->job.comm, scene->in, scene->bytes, WEFT_UINT8, from, tag, NULL, NULL));
    for (size_t i = 0; i < scene->bytes; i++)
        CHECK_BITS(scene->in[i] == 'a' + from);
    return 0;
}

static int finish(weft_work *work)
{
    CHECK_OK(weft_work_wait(work, -1));
    CHECK_OK(weft_work_free(work));
    return 0;
}

/* Rank 1 posts the receive of what rank 0 has sent first only when rank 2 has what was sent second. */
static int other_ranks(struct scene *scene, int rank)
{
    weft_work *first;
    switch (rank) {
    case 0:
        CHECK_OK(send_start(scene, 1, FIRST, &first));
        CHECK_OK(send(scene, 2, SECOND));
        return finish(first);
    case 1:
        CHECK(receive(scene, 2, GO) == 0);
        return receive(scene, 0, FIRST);
    default:
        CHECK(receive(scene, 0, SECOND) == 0);
        return send(scene, 1, GO);
    }
}

/* Rank 1 receives in the other order: the second send ends before the first has a receive. */
static int same_rank(struct scene *scene, int rank)
{
    weft_work *first;
    if (rank == 0) {
        CHECK_OK(send_start(scene, 1, FIRST, &first));
        CHECK_OK(send(scene, 1, SECOND));
        CHECK_OK(send(scene, 1, GO));
        return finish(first);
    }
    if (rank == 1) {
        CHECK(receive(scene, 0, SECOND) == 0);
        CHECK(receive(scene, 0, GO) == 0);
        return receive(scene, 0, FIRST);
    }
    return 0;
}

/* Ranks 0 and 1 are in an allreduce that rank 2 enters only when messages between all of them have arrived. */
static int beside_a_collective(struct scene *scene, int rank)
{
    float *sums = calloc(LARGE, sizeof *sums);
    weft_work *work = NULL;
    CHECK(sums);
    CHECK_OK(rank == 2 ? WEFT_OK
                       : weft_allreduce(scene->job.comm, sums, sums, LARGE / 8, WEFT_FLOAT32, WEFT_SUM,
                                        WEFT_START(&work)));
    if (rank == 0) {
        CHECK_OK(send(scene, 1, FIRST));
    } else if (rank == 1) {
        CHECK(receive(scene, 0, FIRST) == 0);
        CHECK_OK(send(scene, 2, SECOND));
    } else {
        CHECK(receive(scene, 1, SECOND) == 0);
        CHECK_OK(weft_allreduce(scene->job.comm, sums, sums, LARGE / 8, WEFT_FLOAT32, WEFT_SUM,
                                WEFT_START(&work)));
    }
    CHECK(finish(work) == 0);
    free(sums);
    return 0;
}

/* An allreduce ends while a message has no receive yet. */
static int collectives_go_on(struct scene *scene, int rank, int ranks)
{
    weft_work *first = NULL;
    float sum = 0, one = 1;
    CHECK_OK(rank == 0 ? send_start(scene, 1, FIRST, &first) : WEFT_OK);
    CHECK_OK(weft_allreduce(scene->job.comm, &one, &sum, 1, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(sum == (float)ranks);
    CHECK(rank != 1 || receive(scene, 0, FIRST) == 0);
    return rank == 0 ? finish(first) : 0;
}

static int body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    struct scene scene = {.bytes = way->bytes};
    CHECK_OK(job_open(&scene.job, way->transports, NULL));
    scene.out = malloc(way->bytes);
    scene.in = malloc(way->bytes);
    CHECK(scene.out && scene.in);
    memset(scene.out, 'a' + rank, way->bytes);
    for (int round = 0; round < 3; round++) {
        CHECK(other_ranks(&scene, rank) == 0);
        CHECK(same_rank(&scene, rank) == 0);
        CHECK(beside_a_collective(&scene, rank) == 0);
        CHECK(collectives_go_on(&scene, rank, ranks) == 0);
    }
    free(scene.out);
    free(scene.in);
    CHECK_OK(job_close(&scene.job));
    return 0;
}

static void test_over(void **state)
{
    const struct way *way = *state;
    assert_int_equal(test_ranks_fork(RANKS, body, (void *)(uintptr_t)way), 0);
}

int main(void)
{
#define OVER(name, index)                                                                                    \
    {                                                                                                        \
        name, test_over, NULL, NULL, (void *)(uintptr_t)&ways[index]                                         \
    }
    const struct CMUnitTest tests[] = {
        OVER("shm, small", 0),
        OVER("shm, large", 1),
        OVER("tcp, small", 2),
        OVER("tcp, large", 3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
