/* SPDX-License-Identifier: Apache-2.0 */
/* Messages whose announcement offers their memory: the receiver needs nobody for them, and two messages are enough. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define BYTES    (1u << 20)
#define MESSAGES 100
#define COUNTED  (BYTES / 2) /* bytes of them: longer ones have signs of life in the middle */
#define SHORT    16384       /* of many messages */
#define OFFERS   256         /* at a time: comm/p2p/offer.c */
#define MANY     400         /* whose announcements one link has room for */
#define BESIDE   10          /* messages of weft's own while MESSAGES of the program's pass */

static struct scene {
    int is_mapped, needs_pull;
    atomic_int pid; /* of rank 0, about to stop */
    uintptr_t memory;
    atomic_int no_pull, received;
    uint64_t messages[2];
} * scene;

/* --- the sender is stopped */

static int is_stopped(int pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    int found = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file)
        fclose(file);
    return found && state == 'T';
}

static int can_pull(int pid)
{
    uint8_t byte;
    struct iovec here = {&byte, 1}, there = {(void *)scene->memory, 1};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1;
}

static int sender(const struct job *job, uint8_t *memory)
{
    weft_work *work;
    for (size_t i = 0; i < BYTES; i++)
        memory[i] = (uint8_t)(i * 7 + i / 251);
    CHECK_OK(weft_send(job->comm, memory, BYTES, WEFT_UINT8, 1, 3, WEFT_START(&work)));
    scene->memory = (uintptr_t)memory;
    atomic_store(&scene->pid, getpid());
    CHECK(raise(SIGSTOP) == 0);
    CHECK(atomic_load(&scene->received) || atomic_load(&scene->no_pull));
    CHECK_OK(weft_work_wait(work, -1));
    weft_work_free(work);
    return 0;
}

static int receiver(const struct job *job, uint8_t *memory)
{
    int pid = 0;
    for (int i = 0; i < 60000 && (!(pid = atomic_load(&scene->pid)) || !is_stopped(pid)); i++)
        usleep(1000);
    CHECK(pid);
    if (scene->needs_pull && !can_pull(pid)) {
        atomic_store(&scene->no_pull, 1);
        kill(pid, SIGCONT);
    }
    int status = weft_recv(job->comm, memory, BYTES, WEFT_UINT8, 0, 3, NULL, NULL);
    atomic_store(&scene->received, status == WEFT_OK);
    kill(pid, SIGCONT);
    CHECK_OK(status);
    for (size_t i = 0; i < BYTES; i++)
        CHECK_BITS(memory[i] == (uint8_t)(i * 7 + i / 251));
    return 0;
}

static int stopped_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK_OK(job_open_within(&job, "shm", NULL, 60000));
    uint8_t *memory = job_memory_get(&job, BYTES, scene->is_mapped);
    CHECK(memory);
    CHECK_OK(job_greet(job.comm));
    CHECK((rank == 0 ? sender : receiver)(&job, memory) == 0);
    CHECK_OK(weft_barrier(job.comm, NULL));
    job_memory_put(&job, memory, scene->is_mapped);
    CHECK_OK(job_close(&job));
    return 0;
}

static void stopped(int is_mapped)
{
    memset((void *)scene, 0, sizeof *scene);
    scene->is_mapped = is_mapped;
    scene->needs_pull = !is_mapped;
    assert_int_equal(test_ranks_fork(2, stopped_body, NULL), 0);
    if (atomic_load(&scene->no_pull))
        TEST_SKIP("the kernel lets no process read another one's memory here");
}

static void test_stopped_sender(void **state)
{
    (void)state;
    setenv("WEFT_WAY_SHM", "pull", 1);
    stopped(0);
    unsetenv("WEFT_WAY_SHM");
}

static void test_stopped_sender_mapped(void **state)
{
    (void)state;
    stopped(1);
}

/* --- how many messages that takes */

static int counted_body(int rank, int ranks, void *arg)
{
    struct job job;
    weft_comm_stats before = WEFT_COMM_STATS_INIT, after = WEFT_COMM_STATS_INIT;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    uint8_t *memory = job_memory_get(&job, COUNTED, scene->is_mapped);
    CHECK(memory);
    CHECK_OK(job_greet(job.comm));
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK_OK(weft_comm_get_stats(job.comm, &before));
    for (int i = 0; i < MESSAGES; i++) {
        memset(memory, rank ? 0xff : i, COUNTED);
        if (rank == 0)
            CHECK_OK(weft_send(job.comm, memory, COUNTED, WEFT_UINT8, 1, 0, NULL));
        else
            CHECK_OK(weft_recv(job.comm, memory, COUNTED, WEFT_UINT8, 0, 0, NULL, NULL));
        CHECK_BITS(memory[0] == i && memory[COUNTED / 2] == i && memory[COUNTED - 1] == i);
    }
    CHECK_OK(weft_comm_get_stats(job.comm, &after));
    scene->messages[rank] = after.messages - before.messages;
    if (rank && !scene->is_mapped && !after.bytes_pulled)
        atomic_store(&scene->no_pull, 1);
    job_memory_put(&job, memory, scene->is_mapped);
    CHECK_OK(job_close(&job));
    return 0;
}

/* An announcement and an answer for each. */
static void two_messages(int is_mapped)
{
    memset((void *)scene, 0, sizeof *scene);
    scene->is_mapped = is_mapped;
    assert_int_equal(test_ranks_fork(2, counted_body, NULL), 0);
    if (atomic_load(&scene->no_pull))
        TEST_SKIP("the kernel lets no process read another one's memory here");
    assert_in_range(scene->messages[0], MESSAGES, MESSAGES + BESIDE);
    assert_in_range(scene->messages[1], MESSAGES, MESSAGES + BESIDE);
}

static void test_two_messages(void **state)
{
    (void)state;
    setenv("WEFT_WAY_SHM", "pull", 1);
    two_messages(0);
    unsetenv("WEFT_WAY_SHM");
}

static void test_two_messages_mapped(void **state)
{
    (void)state;
    two_messages(1);
}

/* Signs of life are given by bytes: slices of another size make no more of them. */
static void test_two_messages_small_slices(void **state)
{
    (void)state;
    setenv("WEFT_SLICE_SHM", "16384", 1);
    two_messages(1);
    unsetenv("WEFT_SLICE_SHM");
}

/* --- more than may be offered at a time, and matched from the last one on */

static int send_many(const struct job *job, uint8_t *memory, int round)
{
    weft_work *works[MANY];
    for (int i = 0; i < MANY; i++) {
        memset(memory + (size_t)i * SHORT, (i + round) % 251, SHORT);
        CHECK_OK(
            weft_send(job->comm, memory + (size_t)i * SHORT, SHORT, WEFT_UINT8, 1, i, WEFT_START(&works[i])));
    }
    CHECK_OK(weft_barrier(job->comm, NULL));
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(weft_work_wait(works[i], -1));
        weft_work_free(works[i]);
    }
    return 0;
}

static int receive_many(const struct job *job, uint8_t *memory, int round)
{
    CHECK_OK(weft_barrier(job->comm, NULL)); /* all have been announced */
    for (int i = MANY - 1; i >= 0; i--) {
        CHECK_OK(weft_recv(job->comm, memory, SHORT, WEFT_UINT8, 0, i, NULL, NULL));
        for (int k = 0; k < SHORT; k++)
            CHECK_BITS(memory[k] == (i + round) % 251);
    }
    return 0;
}

/* What cannot be offered any more takes a transfer: one message more at either end. In the second round as many as in the first. */
static int many_body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    uint8_t *memory = job_memory_get(&job, (size_t)MANY * SHORT, scene->is_mapped);
    CHECK(memory);
    CHECK_OK(job_greet(job.comm));
    for (int round = 0; round < 2; round++) {
        weft_comm_stats before = WEFT_COMM_STATS_INIT, after = WEFT_COMM_STATS_INIT;
        CHECK_OK(weft_barrier(job.comm, NULL));
        CHECK_OK(weft_comm_get_stats(job.comm, &before));
        CHECK((rank == 0 ? send_many : receive_many)(&job, memory, round) == 0);
        CHECK_OK(weft_comm_get_stats(job.comm, &after));
        uint64_t messages = after.messages - before.messages, expected = MANY + (MANY - OFFERS);
        CHECK(!scene->is_mapped || (messages >= expected && messages <= expected + BESIDE));
    }
    job_memory_put(&job, memory, scene->is_mapped);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_many(void **state)
{
    static const char *const ways[] = {"pull", "fed", "past", "auto"};
    (void)state;
    memset((void *)scene, 0, sizeof *scene);
    for (int i = 0; i < 4; i++) {
        setenv("WEFT_WAY_SHM", ways[i], 1);
        assert_int_equal(test_ranks_fork(2, many_body, NULL), 0);
    }
    unsetenv("WEFT_WAY_SHM");
    scene->is_mapped = 1;
    assert_int_equal(test_ranks_fork(2, many_body, NULL), 0);
}

int main(void)
{
    scene = test_ranks_shared(sizeof *scene);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_sender),
        cmocka_unit_test(test_stopped_sender_mapped),
        cmocka_unit_test(test_two_messages),
        cmocka_unit_test(test_two_messages_mapped),
        cmocka_unit_test(test_two_messages_small_slices),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
