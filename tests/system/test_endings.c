/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines); early */
/* Programs that end with communicators they have not destroyed: who ends well has left, and all else has failed. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"

#define LARGE    3000000
#define MESSAGES 260 /* of 1,000 bytes: a little more than the receiver's credit may be without an answer */

static const char *const transports[] = {"shm", "tcp"};

struct scene {
    const char *transport;
    _Atomic pid_t pids[4];
    _Atomic int begun; /* ranks that are out of the first barrier: nobody ends before all are */
};

static struct scene *scene; /* shared by the ranks */

/* What three ranks do, and with which status each is to end. */
struct ending {
    const char *name;
    test_rank_function *body;
    int ends[3];
};

static void each_transport(void **state)
{
    const struct ending *ending = *state;
    scene = scene ? scene : test_ranks_shared(sizeof *scene);
    for (size_t t = 0; t < 2; t++) {
        int statuses[3];
        *scene = (struct scene){.transport = transports[t]};
        test_ranks_fork_status(3, ending->body, NULL, statuses);
        for (int r = 0; r < 3; r++) {
            if (!WIFEXITED(statuses[r]) || WEXITSTATUS(statuses[r]) != ending->ends[r])
                fail_msg("%s, rank %d: wait status 0x%x, expected exit status %d", transports[t], r,
                         (unsigned)statuses[r], ending->ends[r]);
        }
    }
}

static int begin(struct job *job, int rank)
{
    scene->pids[rank] = getpid();
    CHECK_OK(job_open_within(job, scene->transport, NULL, test_patient(60000)));
    CHECK_OK(weft_barrier(job->comm, NULL));
    scene->begun++;
    while (scene->begun < 3)
        usleep(1000);
    return 0;
}

/* Waits until the process of a rank is no more. */
static int await_end(int rank)
{
    int fd = (int)syscall(SYS_pidfd_open, scene->pids[rank], 0);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    CHECK(fd < 0 || poll(&polled, 1, (int)test_patient(60000)) == 1); /* not there: gone already */
    close(fd);
    return 0;
}

static int has(const char *text)
{
    int found = strstr(weft_error_detail(), text) != NULL;
    if (!found)
        fprintf(stderr, "'%s' is not in: %s\n", text, weft_error_detail());
    return found;
}

static int call_all(struct job *job)
{
    float mine[1000] = {1}, sum[1000];
    return weft_allreduce(job->comm, mine, sum, 1000, WEFT_FLOAT32, WEFT_SUM, NULL);
}

/* Both directions, short and long. */
static int talk(struct job *job, int rank)
{
    static uint8_t out[LARGE], in[LARGE];
    const size_t sizes[] = {12, LARGE};
    int other = 3 - rank;
    for (size_t i = 0; i < 2; i++) {
        memset(out, rank * 7 + (int)i, sizeof out);
        memset(in, 0, sizeof in);
        CHECK_OK(weft_sendrecv(job->comm, out, sizes[i], other, 5, in, sizes[i], other, 5, WEFT_UINT8, NULL,
                               NULL));
        CHECK_BITS(in[0] == other * 7 + (int)i && in[sizes[i] - 1] == other * 7 + (int)i);
    }
    return 0;
}

static int end_well(struct job *job)
{
    CHECK_OK(weft_comm_get_error(job->comm));
    CHECK_OK(weft_comm_destroy(job->comm));
    CHECK_OK(weft_context_close(job->context));
    return 0;
}

/* --- what fails */

static int status_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 1)
        exit(3);
    CHECK(call_all(&job) == WEFT_PEER_FAILED);
    CHECK(has("rank 1 on host") && has("its program has ended with exit status 3"));
    job_close(&job);
    return 0;
}

/* Nobody hears of the end before there is one: who has started the ranks sees the first failure first. */
static pid_t lives_on;
static void linger(void)
{
    if (getpid() == lives_on)
        usleep(1500000); /* of exit handlers; the others are to wait for it, so they cannot end before */
}

static int order_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    lives_on = rank == 1 ? getpid() : 0;
    atexit(linger); /* before weft's, so it runs after that */
    CHECK(begin(&job, rank) == 0);
    if (rank == 1)
        exit(1);
    CHECK(call_all(&job) == WEFT_PEER_FAILED);
    int fd = (int)syscall(SYS_pidfd_open, scene->pids[1], 0);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    /* The system closes connections a moment before it says that a process is over. */
    CHECK(fd < 0 || poll(&polled, 1, 1000) == 1);
    CHECK(has("rank 1 on host") && has("its program has ended with exit status 1"));
    job_close(&job);
    return 0;
}

static int abrupt_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 1)
        _exit(0);
    CHECK(call_all(&job) == WEFT_PEER_FAILED);
    CHECK(has("rank 1 on host") && has("died"));
    job_close(&job);
    return 0;
}

static int said_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 2) {
        weft_process_end(4);
        _exit(4);
    }
    CHECK(call_all(&job) == WEFT_PEER_FAILED);
    CHECK(has("rank 2 on host") && has("its program has ended with exit status 4"));
    job_close(&job);
    return 0;
}

/* --- what does not */

static int leave_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 0)
        exit(0);
    CHECK(await_end(0) == 0);
    CHECK(talk(&job, rank) == 0);
    return end_well(&job);
}

/* Who needs it hears of it, and that message alone ends. */
static int needed_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t byte;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 0)
        exit(0);
    if (rank == 1) { /* from before its end, and after it */
        CHECK(weft_recv(job.comm, &byte, 1, WEFT_UINT8, 0, 1, NULL, NULL) == WEFT_PEER_FAILED);
        CHECK(has("rank 0 on host") && has("has left: its program has ended"));
        CHECK(weft_recv(job.comm, &byte, 1, WEFT_UINT8, 0, 1, NULL, NULL) == WEFT_PEER_FAILED);
        CHECK(has("rank 0 on host") && has("has left: its program has ended"));
        CHECK(weft_send(job.comm, &byte, 1, WEFT_UINT8, 0, 1, NULL) == WEFT_PEER_FAILED);
        CHECK(has("rank 0 on host") && has("has left: its program has ended"));
        CHECK(weft_probe(job.comm, 0, 1, -1, NULL) == WEFT_PEER_FAILED);
        CHECK(has("rank 0 on host") && has("has left: its program has ended"));
    }
    CHECK(talk(&job, rank) == 0);
    return end_well(&job);
}

static int collective_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 0)
        exit(0);
    CHECK(await_end(0) == 0);
    int status = call_all(&job);
    CHECK(status == WEFT_PEER_FAILED || status == WEFT_REVOKED); /* by itself, or by the other one */
    CHECK(has("rank 0 on host") && has("has left: its program has ended"));
    job_close(&job);
    return 0;
}

/* Also where they are in it before it is known that it will not come. */
static int early_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 0)
        exit(0);
    int status = call_all(&job);
    CHECK(status == WEFT_PEER_FAILED || status == WEFT_REVOKED);
    CHECK(has("rank 0 on host") && has("has left: its program has ended"));
    job_close(&job);
    return 0;
}

/* The last of them asks for an answer, which is for nobody by then, and this rank may never have connected to the sender. */
static int many_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t bytes[1000];
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    for (int i = 0; i < MESSAGES && rank != 1; i++) {
        memset(bytes, rank == 0 ? i : 0, sizeof bytes);
        if (rank == 0) {
            CHECK_OK(weft_send(job.comm, bytes, sizeof bytes, WEFT_UINT8, 2, i, NULL));
            continue;
        }
        CHECK(i != MESSAGES - 30 || await_end(0) == 0);
        CHECK_OK(weft_recv(job.comm, bytes, sizeof bytes, WEFT_UINT8, 0, i, NULL, NULL));
        CHECK_BITS(bytes[0] == (uint8_t)i && bytes[999] == (uint8_t)i);
    }
    if (rank == 0)
        exit(0);
    CHECK(talk(&job, rank) == 0);
    return end_well(&job);
}

/* What it has sent is received after its end, and a rank that is waited for has not left before it has come. */
static int given_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t bytes[1000];
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    memset(bytes, rank == 0 ? 0x3d : 0, sizeof bytes);
    if (rank == 0) {
        CHECK_OK(weft_send(job.comm, bytes, sizeof bytes, WEFT_UINT8, 2, 9, NULL));
        exit(0);
    }
    CHECK(await_end(0) == 0);
    if (rank == 2) {
        CHECK_OK(weft_recv(job.comm, bytes, sizeof bytes, WEFT_UINT8, 0, 9, NULL, NULL));
        CHECK_BITS(bytes[0] == 0x3d && bytes[999] == 0x3d);
    }
    CHECK(talk(&job, rank) == 0);
    return end_well(&job);
}

/* All of them end so, one of them by destroying it. */
static int all_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    if (rank == 1) {
        CHECK_OK(weft_comm_destroy(job.comm));
        CHECK_OK(weft_context_close(job.context));
    }
    exit(0);
}

/* A child's end is not the rank's. */
static int child_body(int rank, int ranks, void *arg)
{
    struct job job;
    int status;
    (void)ranks, (void)arg;
    CHECK(begin(&job, rank) == 0);
    pid_t child = fork();
    if (child == 0)
        exit(5);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_OK(call_all(&job));
    return end_well(&job);
}

/* A program's own handler destroys it after weft's has run. */
static struct job kept;
static void destroy_late(void)
{
    if (kept.comm && (weft_comm_destroy(kept.comm) != WEFT_OK || weft_context_close(kept.context) != WEFT_OK))
        _exit(9);
}

static int late_body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    atexit(destroy_late);
    CHECK(begin(&kept, rank) == 0);
    exit(rank == 2 ? 6 : 0);
}

static struct ending endings[] = {
    {"test_exit_status", status_body, {0, 3, 0}},
    {"test_order", order_body, {0, 1, 0}},
    {"test_abrupt", abrupt_body, {0, 0, 0}},
    {"test_said", said_body, {0, 0, 4}},
    {"test_leave", leave_body, {0, 0, 0}},
    {"test_needed", needed_body, {0, 0, 0}},
    {"test_collective", collective_body, {0, 0, 0}},
    {"test_given", given_body, {0, 0, 0}},
    {"test_all", all_body, {0, 0, 0}},
    {"test_child", child_body, {0, 0, 0}},
    {"test_late", late_body, {0, 0, 6}},
    {"test_early", early_body, {0, 0, 0}},
    {"test_many", many_body, {0, 0, 0}},
};

int main(void)
{
    enum { COUNT = sizeof endings / sizeof *endings };
    struct CMUnitTest tests[COUNT];
    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){endings[i].name, each_transport, NULL, NULL, &endings[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
