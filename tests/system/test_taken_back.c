/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap @tests/clock/wraps */
/* run: beside (deadlines) */
/* A call that ends early gives its memory back while a peer is in the middle of reading it, and the user
 * overwrites it at once: the peer must answer an error, never success with what it then finds.
 *
 * The middle of rank 1's output cannot be written, so that rank 1 stops there, in the middle of its operation. weft's own
 * threads in it are stopped by ptrace before, so that no news of the failure can help it. Then rank 0's deadline passes; it
 * overwrites both its buffers; then rank 1 goes on alone.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define COUNT      (2u << 20) /* float: 8 MiB */
#define HELPERS    4          /* threads of weft's, at most */
#define PAGE       4096
#define TIMEOUT_MS 30000
#define LATER_MS   600000
#define HURRY      50

enum way { MAPPED, PULLED, STAGED, WAYS };
static const char *const way_names[] = {"mapped", "pulled", "staged"};

/* Shared by the ranks. */
struct scene {
    enum way way;
    int started;        /* the call has a work */
    int is_message;     /* it is a message of rank 0 to rank 1, in place of an allreduce */
    atomic_int helpers; /* of rank 1: how many helper_tid there are */
    pid_t helper_tid[HELPERS];
    atomic_int no_ptrace;
    atomic_int frozen;   /* rank 1 may begin */
    atomic_int middle;   /* rank 1 stands still */
    atomic_int finished; /* rank 1 has its answer */
    atomic_int left_early, answer, wrong;
    _Alignas(PAGE) float output[COUNT]; /* of rank 1 */
};

static int until(atomic_int *value)
{
    while (!atomic_load(value))
        usleep(200);
    return 1;
}

/* Threads of weft's own: what drives transports, and what carries news of failures. */
static int helper_threads(pid_t *tids)
{
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;
    for (struct dirent *task; tasks && found < HELPERS && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strncmp(name, "weft-", 5) == 0)
            tids[found++] = atoi(task->d_name);
        if (fd >= 0)
            close(fd);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static int freeze(int tid)
{
    int status;
    return ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0 && waitpid(tid, &status, __WALL) == tid;
}

/* On a thread of rank 0. */
static void *orchestrate(void *arg)
{
    struct scene *scene = arg;
    until(&scene->helpers);
    int helpers = atomic_load(&scene->helpers), seized = 0, stopped = 0;
    while (seized < helpers && ptrace(PTRACE_SEIZE, scene->helper_tid[seized], NULL, NULL) == 0)
        seized++;
    while (seized == helpers && stopped < helpers && freeze(scene->helper_tid[stopped]))
        stopped++;
    if (stopped < helpers) {
        atomic_store(&scene->no_ptrace, 1);
        atomic_store(&scene->middle, 1);
    }
    atomic_store(&scene->frozen, 1);
    until(&scene->middle);
    test_clock_hurry(HURRY);
    until(&scene->finished);
    for (int i = 0; i < stopped; i++)
        ptrace(PTRACE_DETACH, scene->helper_tid[i], NULL, NULL);
    return NULL;
}

static struct scene *of_rank_1;

static void *middle_of(struct scene *scene)
{
    return scene->output + COUNT / 2;
}

/* Rank 1 writes the middle of its output. It goes on there. */
static void stand_still(int signal, siginfo_t *info, void *context)
{
    uintptr_t offset = (uintptr_t)info->si_addr - (uintptr_t)middle_of(of_rank_1);
    (void)context;
    if (offset >= PAGE) {
        struct sigaction ordinary = {.sa_handler = SIG_DFL};
        sigaction(signal, &ordinary, NULL);
        return;
    }
    atomic_store(&of_rank_1->middle, 1);
    until(&of_rank_1->left_early);
    mprotect(middle_of(of_rank_1), PAGE, PROT_READ | PROT_WRITE);
}

static int stop_in_the_middle(struct scene *scene)
{
    struct sigaction action = {.sa_sigaction = stand_still, .sa_flags = SA_SIGINFO};
    of_rank_1 = scene;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(mprotect(middle_of(scene), PAGE, PROT_READ) == 0);
    return 0;
}

static int call(struct scene *scene, struct job *job, int rank, const float *input, float *output)
{
    weft_work *work, **started = scene->started ? &work : NULL;
    int status;
    if (!scene->is_message)
        status = weft_allreduce(job->comm, input, output, COUNT, WEFT_FLOAT32, WEFT_SUM, WEFT_START(started));
    else if (rank == 0)
        status = weft_send(job->comm, input, COUNT, WEFT_FLOAT32, 1, 0, WEFT_START(started));
    else
        status = weft_recv(job->comm, output, COUNT, WEFT_FLOAT32, 0, 0, NULL, WEFT_START(started));
    if (status != WEFT_OK || !scene->started)
        return status;
    status = weft_work_wait(work, -1);
    weft_work_free(work);
    return status;
}

static int leaver(struct scene *scene, struct job *job, float *input, float *output)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, orchestrate, scene) == 0);
    CHECK(until(&scene->frozen));
    int status = call(scene, job, 0, input, output);
    memset(input, 0x41, COUNT * sizeof *input); /* the memory is this rank's own again */
    memset(output, 0x41, COUNT * sizeof *output);
    atomic_store(&scene->left_early, status == WEFT_OK ? -1 : 1);
    pthread_join(thread, NULL);
    return 0;
}

static int stayer(struct scene *scene, struct job *job, int helpers, const float *input)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    CHECK(stop_in_the_middle(scene) == 0);
    atomic_store(&scene->helpers, helpers);
    CHECK(until(&scene->frozen));
    int status = call(scene, job, 1, input, scene->output);
    atomic_store(&scene->answer, status);
    int wrong = 0;
    for (size_t i = 0; i < COUNT; i++)
        wrong += scene->output[i] != (scene->is_message ? 1 : 3);
    atomic_store(&scene->wrong, status == WEFT_OK && wrong);
    atomic_store(&scene->finished, 1);
    return 0;
}

static int scene_body(int rank, int ranks, void *arg)
{
    struct scene *scene = arg;
    struct job job;
    void *input, *output;
    (void)ranks;
    if (scene->way == STAGED)
        setenv("WEFT_DIRECT", "0", 1);
    setenv("WEFT_WAY_SHM", "pull", 1);
    setenv("WEFT_ALGO", "rd", 1); /* rank 1 needs rank 0's input and nothing that comes later */
    CHECK_OK(job_open_within(&job, "shm", NULL, rank == 0 ? TIMEOUT_MS : LATER_MS));
    input = job_memory_get(&job, COUNT * sizeof(float), scene->way == MAPPED);
    output = job_memory_get(&job, COUNT * sizeof(float), scene->way == MAPPED);
    CHECK(input && output);
    for (size_t i = 0; i < COUNT; i++)
        ((float *)input)[i] = (float)(rank + 1);
    int helpers = rank == 1 ? helper_threads(scene->helper_tid) : 0;
    CHECK(rank == 0 || helpers >= 2);
    /* Whatever needs the service threads once is done after this. */
    CHECK_OK(weft_allreduce(job.comm, input, output, COUNT / 8, WEFT_FLOAT32, WEFT_SUM, NULL));
    int bad = rank == 0 ? leaver(scene, &job, input, output) : stayer(scene, &job, helpers, input);
    job_memory_put(&job, input, scene->way == MAPPED);
    job_memory_put(&job, output, scene->way == MAPPED);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return bad;
}

static void taken_back_in_the_middle(enum way way, int started, int is_message)
{
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    scene->way = way;
    scene->started = started;
    scene->is_message = is_message;
    int failed = test_ranks_fork(2, scene_body, scene);
    int early = atomic_load(&scene->left_early) == 1, answer = atomic_load(&scene->answer);
    int wrong = atomic_load(&scene->wrong), no_ptrace = atomic_load(&scene->no_ptrace);
    int middle = atomic_load(&scene->middle);
    munmap(scene, sizeof *scene);
    const char *form = is_message ? "a message" : started ? "started" : "blocking";
    assert_int_equal(failed, 0);
    if (no_ptrace)
        TEST_SKIP("ptrace is not allowed here");
    if (wrong)
        fail_msg("WRONG: %s, %s: rank 1 reported success with wrong data", way_names[way], form);
    if (!middle || !early || answer == WEFT_OK)
        fail_msg("%s, %s: rank 1 %s, rank 0 %s, rank 1 answered %d", way_names[way], form,
                 middle ? "stood still" : "was not stopped", early ? "left" : "succeeded", answer);
}

static void test_mapped(void **state)
{
    (void)state;
    taken_back_in_the_middle(MAPPED, 0, 0);
}

static void test_mapped_started(void **state)
{
    (void)state;
    taken_back_in_the_middle(MAPPED, 1, 0);
}

/* Its announcement has offered the memory. */
static void test_mapped_message(void **state)
{
    (void)state;
    taken_back_in_the_middle(MAPPED, 0, 1);
}

static void test_pulled(void **state)
{
    (void)state;
    taken_back_in_the_middle(PULLED, 0, 0);
}

static void test_pulled_started(void **state)
{
    (void)state;
    taken_back_in_the_middle(PULLED, 1, 0);
}

static void test_staged(void **state)
{
    (void)state;
    taken_back_in_the_middle(STAGED, 0, 0);
}

/* --- the cache-line path: rank 0 leaves, spoils its buffers and goes; rank 2 comes only then --- */

static int small_body(int rank, int ranks, void *arg)
{
    atomic_int *gone = arg;
    struct job job;
    float input[100], output[100];
    CHECK_OK(job_open_within(&job, "shm", NULL, rank == 0 ? TIMEOUT_MS : LATER_MS));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++)
            input[i] = (float)(rank + 1);
        if (rank == 2 && round == 1)
            CHECK(until(gone));
        if (rank == 0 && round == 1)
            test_clock_hurry(HURRY);
        int status = weft_allreduce(job.comm, input, output, round ? 100 : 10, WEFT_FLOAT32, WEFT_SUM, NULL);
        CHECK(round == 1 || status == WEFT_OK);
        CHECK(round == 0 || rank != 0 || status == WEFT_TIMEOUT);
        for (int i = 0; status == WEFT_OK && i < (round ? 100 : 10); i++)
            CHECK_BITS(output[i] == (float)(ranks * (ranks + 1) / 2));
        memset(input, 0x41, sizeof input);
    }
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    if (rank == 0)
        atomic_store(gone, 1);
    return 0;
}

static void test_fast_path(void **state)
{
    (void)state;
    atomic_int *gone = mmap(NULL, sizeof *gone, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(gone != MAP_FAILED);
    assert_int_equal(test_ranks_fork(3, small_body, gone), 0);
    munmap((void *)(uintptr_t)gone, sizeof *gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mapped),         cmocka_unit_test(test_mapped_started),
        cmocka_unit_test(test_mapped_message), cmocka_unit_test(test_pulled),
        cmocka_unit_test(test_pulled_started), cmocka_unit_test(test_staged),
        cmocka_unit_test(test_fast_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
