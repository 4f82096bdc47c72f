/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/lost_rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/heartbeat.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"

#define LOST 1

struct scene {
    const char *transports, *provider;
    int signal;
    size_t count;
    _Atomic pid_t pid; /* of the lost rank */
    _Atomic int done;  /* survivors that need it no more */
};

/* Somewhere in a call, not between two. */
static void *lose(void *arg)
{
    const struct scene *scene = arg;
    usleep(5000);
    kill(getpid(), scene->signal);
    return NULL;
}

static int call_until_reported(struct scene *scene, struct job *job, int rank, float *send, float *recv)
{
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 1000000; i++) {
        pthread_t thread;
        if (rank == LOST && i == 4)
            CHECK(pthread_create(&thread, NULL, lose, scene) == 0 && pthread_detach(thread) == 0);
        status = weft_allreduce(job->comm, send, recv, scene->count, WEFT_FLOAT32, WEFT_SUM, NULL);
    }
    const char *why = rank == LOST ? "declared dead by rank" : "rank 1 on host";
    if (status == WEFT_PEER_FAILED && strstr(weft_error_detail(), why) &&
        (scene->signal == SIGKILL || strstr(weft_error_detail(), "silent for ")))
        return 0;
    fprintf(stderr, "rank %d: status %d, '%s', where rank %d was lost\n", rank, status, weft_error_detail(),
            LOST);
    return 1;
}

static int go_on(weft_comm *comm, float *send, float *recv, size_t count)
{
    CHECK(weft_comm_size(comm) == 2);
    CHECK(job_reduce(comm, send, recv, count, WEFT_FLOAT32) == 0);
    return job_pass_on(comm, send, recv, count, WEFT_FLOAT32);
}

static int survive(struct scene *scene, struct job *job, weft_comm *pair, float *send, float *recv)
{
    weft_comm *smaller;
    CHECK(go_on(pair, send, recv, scene->count) == 0);
    CHECK_OK(weft_comm_shrink(job->comm, &smaller, NULL));
    CHECK(go_on(smaller, send, recv, scene->count) == 0);
    CHECK_OK(weft_comm_destroy(smaller));
    CHECK(go_on(pair, send, recv, scene->count) == 0);
    CHECK_OK(weft_comm_destroy(pair));
    if (scene->signal == SIGSTOP && ++scene->done == 2)
        CHECK(kill(scene->pid, SIGCONT) == 0);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    static const int others[] = {0, 2};
    struct scene *scene = arg;
    struct job job;
    weft_comm *pair = NULL;
    (void)ranks;
    if (scene->signal == SIGSTOP)
        test_silence_set();
    CHECK_OK(job_open(&job, scene->transports, scene->provider));
    float *send = calloc(scene->count, sizeof *send), *recv = calloc(scene->count, sizeof *recv);
    CHECK(send && recv);
    if (rank == LOST)
        scene->pid = getpid();
    else
        CHECK_OK(weft_comm_subset(job.comm, others, 2, 3, &pair, NULL));
    CHECK(call_until_reported(scene, &job, rank, send, recv) == 0);
    if (rank != LOST)
        CHECK(survive(scene, &job, pair, send, recv) == 0);
    CHECK_OK(job_close(&job));
    CHECK(strcmp(scene->transports, "verbs") != 0 ||
          test_rdma_held() <= 0); /* libfabric keeps devices open */
    free(send);
    free(recv);
    return 0;
}

void lost_rank_is_named(const char *transports, const char *provider, int signal, size_t count)
{
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int statuses[TEST_RANKS_MAX];
    assert_true(scene != MAP_FAILED);
    *scene = (struct scene){.transports = transports, .provider = provider, .signal = signal, .count = count};
    test_ranks_fork_status(3, body, scene, statuses);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
    if (signal == SIGKILL)
        assert_true(WIFSIGNALED(statuses[LOST]) && WTERMSIG(statuses[LOST]) == SIGKILL);
    else
        assert_int_equal(statuses[LOST], 0);
    munmap(scene, sizeof *scene);
}
