/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_copy_streaming weft_staging_observe weft_context_lock_since clock_gettime */
/* Which calls stage ordinary memory that could be read in place: on all ranks the same ones, whatever each has measured, and the bits are right
 * whatever each does. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <cmocka.h>

#include "comm/exec/staging.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define COUNT 65536 /* int32, 256 KB of each rank */
#define FIRST 56    /* the first trial's first call, */
#define AGAIN 88    /* and the second's, where staging is faster on all ranks */
#define CALLS 102

#define MAX 4

#define FIXED "this rank stages nothing by choice: WEFT_WAY_SHM is set"

enum memory { ORDINARY, MAPPED };
enum started {
    WAITS = -1,
    LOOKS = -2,
    POLLS = -3,
    WAITS_LATE = -4, /* these, at rank 0 */
    WAITS_LONG = -5,
    TWO_WAIT = -6,
    LOCKED_OUT = -7
};

struct scene {
    const char *way; /* WEFT_WAY_SHM of all ranks; NULL: of rank 0 "pull", of the others "auto" */
    const char *collective;
    enum memory memory;
    int stages;  /* expected */
    int started; /* so many of the first calls rank 0 starts, and waits for them at once; WAITS: all start all, and do so; LOOKS: and only look now and then;
                  * POLLS: look all the time. Rank 0 starts all, and time passes there before it waits, WAITS_LATE, or while it does, WAITS_LONG; after it has
                  * looked at what its other thread waits for, TWO_WAIT; or while that one keeps it from the lock, LOCKED_OUT. The others call when it has. */
};

static int streamed; /* copies past the caches into a result: a peer is fed that way as well */
static const char *result, *result_end;

void __real_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size)
{
    streamed += (const char *)destination >= result && (const char *)destination < result_end;
    __real_weft_copy_streaming(destination, source, size);
}

/* What each way takes on this rank, in place of what it did take; 0: what it did. */
static int64_t given_ns[WEFT_STAGING_WAYS];

void __real_weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                                 enum weft_staging_way way, int64_t cost_ns);
void __wrap_weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                                 enum weft_staging_way way, int64_t cost_ns);
void __wrap_weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                                 enum weft_staging_way way, int64_t cost_ns)
{
    __real_weft_staging_observe(staging, collective, bytes, way, given_ns[way] ? given_ns[way] : cost_ns);
}

/* While it is not 0 the clock stands there: a caller who starts a call and waits for it does so at once, whatever else the machine does. */
static _Atomic int64_t stands_ns;
static _Atomic int *forbidden;  /* shared: is_forbidden() */
static _Atomic int *passed;     /* shared: calls of rank 0 in which time has passed */
static _Thread_local int looks; /* of this thread at the clock, until at_look() is called; 0: it is not */
static _Thread_local void (*at_look)(void);
static _Thread_local void (*with_lock)(void); /* what this thread does when it has the lock; or NULL */

#define PASSES_NS    INT64_C(1000000000)
#define BRIEF_NS     1000
#define LOOKS_LONG   8 /* by then it waits */
#define LOOKS_WITHIN 4 /* of weft_work_wait() at the clock: time passes in it */
static int64_t passes_ns = PASSES_NS;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

static void pass_time(void)
{
    stands_ns += passes_ns;
    ++*passed;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    int status = __real_clock_gettime(id, now);
    int64_t at_ns = stands_ns;
    if (at_ns && id == CLOCK_MONOTONIC)
        *now = (struct timespec){at_ns / 1000000000, at_ns % 1000000000};
    if (looks && --looks == 0)
        at_look();
    return status;
}

int64_t __real_weft_context_lock_since(struct weft_context *context);
int64_t __wrap_weft_context_lock_since(struct weft_context *context);
int64_t __wrap_weft_context_lock_since(struct weft_context *context)
{
    int64_t since_ns = __real_weft_context_lock_since(context);
    void (*then)(void) = with_lock;
    with_lock = NULL;
    if (then)
        then();
    return since_ns;
}

static void stop_clock(int stops)
{
    struct timespec now;
    __real_clock_gettime(CLOCK_MONOTONIC, &now);
    stands_ns = stops ? now.tv_sec * INT64_C(1000000000) + now.tv_nsec : 0;
}

static int await_rank_0(int number)
{
    struct timespec now, end;
    __real_clock_gettime(CLOCK_MONOTONIC, &end);
    do {
        CHECK(__real_clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_sec <= end.tv_sec + 30);
        sched_yield();
    } while (*passed <= number);
    return 0;
}

/* What this thread and the other one of rank 0 have got to. */
static sem_t other_is_in, this_is_in;

static int await_thread(sem_t *is_in)
{
    struct timespec end;
    __real_clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    CHECK(sem_timedwait(is_in, &end) == 0);
    return 0;
}

static void look_at_nth(int n, void (*then)(void))
{
    looks = n;
    at_look = then;
}

static void say_other_is_in(void)
{
    sem_post(&other_is_in);
}

static void say_this_is_in(void)
{
    sem_post(&this_is_in);
}

static void pass_time_with_lock(void)
{
    sem_post(&other_is_in);
    if (await_thread(&this_is_in) == 0)
        pass_time();
}

static void *wait_too(void *work)
{
    look_at_nth(LOOKS_LONG, say_other_is_in);
    return weft_work_wait(work, -1) == WEFT_OK && looks == 0 ? work : NULL;
}

static void *look_at_another(void *work)
{
    with_lock = pass_time_with_lock; /* and not at a look, which may be while weft's own thread has it */
    return weft_work_wait(work, 0) == WEFT_AGAIN && !with_lock ? work : NULL;
}

/* This thread looks at what the other one waits for, and time passes when it has. */
static int wait_beside(weft_work *work)
{
    pthread_t other;
    void *went_well;
    CHECK(pthread_create(&other, NULL, wait_too, work) == 0);
    CHECK(await_thread(&other_is_in) == 0);
    CHECK(weft_work_wait(work, 0) == WEFT_AGAIN);
    pass_time();
    CHECK(pthread_join(other, &went_well) == 0 && went_well);
    return 0;
}

/* The other thread has the lock, as it looks at something else, and time passes when this one has come to wait. */
static int wait_for_lock(const struct job *job, weft_work *work)
{
    pthread_t other;
    void *went_well;
    char byte;
    weft_work *another = NULL;
    CHECK_OK(weft_recv(job->comm, &byte, 1, WEFT_UINT8, 1, 1, NULL, WEFT_START(&another)));
    CHECK(pthread_create(&other, NULL, look_at_another, another) == 0);
    CHECK(await_thread(&other_is_in) == 0);
    look_at_nth(1, say_this_is_in);
    CHECK_OK(weft_work_wait(work, -1));
    CHECK(looks == 0);
    CHECK(pthread_join(other, &went_well) == 0 && went_well);
    CHECK_OK(weft_work_cancel(another));
    CHECK(weft_work_free(another) == WEFT_CANCELLED);
    return 0;
}

/* Rank 0 starts, and waits as the scene says. */
static int run_apart(const struct job *job, weft_work *work, const struct scene *scene)
{
    if (scene->started == TWO_WAIT)
        return wait_beside(work);
    if (scene->started == LOCKED_OUT)
        return wait_for_lock(job, work);
    if (scene->started == WAITS_LATE)
        pass_time();
    else
        look_at_nth(LOOKS_LONG, pass_time);
    CHECK_OK(weft_work_wait(work, -1));
    CHECK(looks == 0);
    return 0;
}

/* Time passes between looks, or in them. */
static int look_on(weft_work *work, const struct scene *scene)
{
    int status;
    passes_ns = BRIEF_NS;
    do {
        if (scene->started == LOOKS)
            pass_time();
        else
            look_at_nth(LOOKS_WITHIN, pass_time);
        status = weft_work_wait(work, 0);
        looks = 0;
    } while (status == WEFT_AGAIN);
    return status;
}

/* The trials' calls: in place, and staged. From results of 1 MB on three calls more are staged, whose results go past the caches. */
static int is_in_place(int number, int second)
{
    return number < FIRST + 3 || (number >= second && number < second + 3);
}

static int is_staged(int number, int second, int streams)
{
    int count = streams ? 6 : 3;
    return (number >= FIRST + 3 && number < FIRST + 3 + count) ||
           (number >= second + 3 && number < second + 3 + count);
}

static int is_streamed(int number, int second)
{
    return (number >= FIRST + 6 && number < FIRST + 9) || (number >= second + 6 && number < second + 9);
}

static int results_are_large(const struct scene *scene, int ranks)
{
    return strcmp(scene->collective, "alltoall") == 0 && ranks * COUNT * (int)sizeof(int32_t) >= 1 << 20;
}

static int run_call(const struct job *job, const struct scene *scene, int32_t *send, int32_t *recv, int rank,
                    int ranks, int number)
{
    for (int i = 0; i < COUNT * ranks; i++)
        send[i] = i % 1021 + 7 * rank + number;
    memset(recv, 0xff, sizeof *recv * COUNT * (size_t)ranks);
    if (strcmp(scene->collective, "allreduce") == 0) {
        weft_work *work = NULL;
        int apart = scene->started <= WAITS_LATE;
        int starts = apart ? !rank : scene->started < 0 || (number < scene->started && !rank);
        CHECK(!apart || !rank || await_rank_0(number) == 0);
        int only_looks = scene->started == LOOKS || scene->started == POLLS;
        stop_clock(scene->started == WAITS || only_looks || (apart && !rank));
        CHECK_OK(weft_allreduce(job->comm, send, recv, COUNT, WEFT_INT32, WEFT_SUM,
                                starts ? WEFT_START(&work) : NULL));
        CHECK(!apart || rank || run_apart(job, work, scene) == 0);
        CHECK(!only_looks || look_on(work, scene) == WEFT_OK);
        CHECK(!starts || weft_work_wait(work, -1) == WEFT_OK);
        stop_clock(0);
        CHECK(!starts || weft_work_free(work) == WEFT_OK);
        for (int i = 0; i < COUNT; i++)
            CHECK(recv[i] == ranks * (i % 1021 + number) + 7 * ranks * (ranks - 1) / 2);
    } else if (strcmp(scene->collective, "broadcast") == 0) {
        CHECK_OK(weft_broadcast(job->comm, send, recv, COUNT, WEFT_INT32, 0, NULL));
        for (int i = 0; i < COUNT; i++)
            CHECK(recv[i] == i % 1021 + number);
    } else {
        CHECK_OK(weft_alltoall(job->comm, send, recv, COUNT, WEFT_INT32, NULL));
        for (int i = 0; i < COUNT * ranks; i++)
            CHECK(recv[i] == (rank * COUNT + i % COUNT) % 1021 + 7 * (i / COUNT) + number);
    }
    return 0;
}

/* Where the kernel lets no process read another one's memory all is staged. */
static int is_forbidden(const struct job *job, const void *memory, int rank, int ranks)
{
    weft_description description = WEFT_DESCRIPTION_INIT;
    int is_so = job_greet(job->comm) == WEFT_OK &&
                weft_comm_describe(job->comm, "send", memory, NULL, COUNT, WEFT_INT32, WEFT_SUM,
                                   (rank + 1) % ranks, &description) == WEFT_OK &&
                strcmp(description.algorithm, "staged") == 0;
    *forbidden |= is_so;
    return is_so;
}

static int body(int rank, int ranks, void *arg)
{
    const struct scene *scene = arg;
    struct job job;
    void *send, *recv;
    size_t bytes = sizeof(int32_t) * COUNT * (size_t)ranks;
    uint64_t staged = 0;
    int stages = scene->stages && ((scene->way && scene->started != WAITS_LATE) || rank),
        streams = results_are_large(scene, ranks);
    int all_stage = scene->memory == ORDINARY && scene->started != WAITS_LATE;
    int second = all_stage ? AGAIN : CALLS;
    for (int way = 0; way < WEFT_STAGING_WAYS; way++)
        given_ns[way] = way == WEFT_STAGING_STAGED ? 900 : 1000; /* where the clock stands all take nothing */

    setenv("WEFT_WAY_SHM", scene->way ? scene->way : rank ? "auto" : "pull", 1);
    CHECK_OK(job_open(&job, "shm", NULL));
    send = job_memory_get(&job, bytes, scene->memory == MAPPED);
    recv = job_memory_get(&job, bytes, scene->memory == MAPPED);
    CHECK(send && recv);
    result = recv;
    result_end = result + bytes;
    if (scene->memory == ORDINARY && is_forbidden(&job, send, rank, ranks))
        return job_close(&job) != WEFT_OK;
    for (int number = 0; number < CALLS; number++) {
        weft_comm_stats stats = WEFT_COMM_STATS_INIT;
        CHECK(run_call(&job, scene, send, recv, rank, ranks, number) == 0);
        CHECK_OK(weft_comm_get_stats(job.comm, &stats));
        if (!stages || is_in_place(number, second))
            CHECK(stats.bytes_staged == staged);
        else if (is_staged(number, second, streams))
            CHECK(stats.bytes_staged - staged >= sizeof(int32_t) * COUNT / 2);
        if (number > FIRST + 9 && number < AGAIN) /* staged is faster, and taken if rank 0 is measured */
            CHECK((stats.bytes_staged > staged) == (stages && all_stage));

        staged = stats.bytes_staged;
        if (number < FIRST + 6 || (number >= second && number < second + 6) || !streams)
            CHECK(!streamed);
        else if (is_streamed(number, second))

            CHECK(streamed >= ranks); /* the own block as well */
        streamed = 0;
    }
    CHECK(scene->started != POLLS || *passed > 0);
    weft_description description = WEFT_DESCRIPTION_INIT;
    CHECK_OK(weft_comm_describe(job.comm, scene->collective, NULL, NULL, COUNT, WEFT_INT32, WEFT_SUM, 0,
                                &description));
    int is_fixed = strcmp(scene->collective, "broadcast") == 0 ? 0
                   : scene->way                                ? strcmp(scene->way, "auto") != 0
                                                               : !rank;
    int is_measured = stages || (streams && scene->memory == MAPPED);
    CHECK(is_measured ? (strstr(description.why, "measured: ") && strstr(description.why, "for 262144 bytes"))
                      : strcmp(description.why, is_fixed ? FIXED : "") == 0);
    CHECK(!strstr(description.why, " ns staged") == !stages);
    CHECK(!strstr(description.why, " ns with results past the caches") == !(is_measured && streams));
    job_memory_put(&job, send, scene->memory == MAPPED);
    job_memory_put(&job, recv, scene->memory == MAPPED);
    CHECK_OK(job_close(&job));
    return 0;
}

static void run(const struct scene *scene, int ranks)
{
    struct scene copy = *scene;
    *passed = 0;
    int failed = test_ranks_fork(ranks, body, &copy);
    if (*forbidden)
        TEST_SKIP("the kernel lets no process read another one's memory here");
    if (failed)
        fail_msg("%s, %d ranks, WEFT_WAY_SHM=%s", scene->collective, ranks,
                 scene->way ? scene->way : "mixed");
}

static void test_by_number(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MAX; ranks++) {
        run(&(struct scene){"auto", "allreduce", ORDINARY, 1, 0}, ranks);
        run(&(struct scene){"auto", "alltoall", ORDINARY, 1, 0}, ranks);
    }
}

/* Also of those that are started, where callers wait at once. Of two ranks a started allreduce begins when the other one has called; so where time passes
 * before that there are three. */
static void test_counts_all(void **state)
{
    (void)state;
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, 20}, 2);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, 20}, 3);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, WAITS}, 2);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, WAITS}, 3);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, WAITS_LONG}, 3);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, POLLS}, 2);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, TWO_WAIT}, 3);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, LOCKED_OUT}, 3);
}

/* A root's memory, memory of weft_mem_alloc(), where a way is fixed, and started calls that nobody waits for. */
static void test_never(void **state)
{
    (void)state;
    run(&(struct scene){"auto", "broadcast", ORDINARY, 0, 0}, 3);
    run(&(struct scene){"auto", "allreduce", MAPPED, 0, 0}, 2);
    run(&(struct scene){"auto", "alltoall", MAPPED, 0, 0}, 4);
    run(&(struct scene){"pull", "allreduce", ORDINARY, 0, 0}, 2);
    run(&(struct scene){"fed", "alltoall", ORDINARY, 0, 0}, 2);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 0, LOOKS}, 2);
    run(&(struct scene){"auto", "allreduce", ORDINARY, 0, LOOKS}, 3);
}

/* Ranks that do not do the same. */
static void test_mixed(void **state)
{
    (void)state;
    run(&(struct scene){"auto", "allreduce", ORDINARY, 1, WAITS_LATE}, 3);
    run(&(struct scene){NULL, "allreduce", ORDINARY, 1, 0}, 3);
    run(&(struct scene){NULL, "alltoall", ORDINARY, 1, 0}, 2);
}

struct difference {
    int odd;      /* the rank that sees another cost of staging than the others */
    int64_t seen; /* for 1000 in place and 900 staged of theirs */
};

static int call_other(const struct job *job, int which, int32_t *send, int32_t *recv)
{
    switch (which) {
    case 0:
        return weft_allreduce(job->comm, send, recv, COUNT, WEFT_INT32, WEFT_SUM, NULL);
    case 1:
        return weft_alltoall(job->comm, send, recv, COUNT, WEFT_INT32, NULL);
    case 2:
        return weft_allgather(job->comm, send, recv, COUNT, WEFT_INT32, NULL);
    default:
        return weft_reduce_scatter(job->comm, send, recv, COUNT, WEFT_INT32, WEFT_SUM, NULL);
    }
}

static int differ(int rank, int ranks, void *arg)
{
    const struct difference *difference = arg;
    static const char *const names[] = {"allreduce", "alltoall", "allgather", "reduce_scatter"};
    struct job job;
    size_t bytes = sizeof(int32_t) * COUNT * (size_t)ranks;
    int32_t *send = calloc(1, bytes), *recv = malloc(bytes);
    int stages = difference->seen < 1000;
    char expected[64];
    given_ns[WEFT_STAGING_IN_PLACE] = given_ns[WEFT_STAGING_STREAMED] = 1000;
    given_ns[WEFT_STAGING_STAGED] = rank == difference->odd ? difference->seen : 900;
    snprintf(expected, sizeof expected, "measured: %d ns %s, ",
             stages ? (int)given_ns[WEFT_STAGING_STAGED] : 1000, stages ? "staged" : "not staged");
    setenv("WEFT_WAY_SHM", "auto", 1);
    CHECK(send && recv);
    CHECK_OK(job_open(&job, "shm", NULL));
    if (is_forbidden(&job, send, rank, ranks))
        return job_close(&job) != WEFT_OK;
    for (int which = 0; which < 4; which++) {
        uint64_t staged = 0;
        weft_description description = WEFT_DESCRIPTION_INIT;
        for (int number = 0; number < AGAIN; number++) {
            weft_comm_stats stats = WEFT_COMM_STATS_INIT;
            CHECK_OK(call_other(&job, which, send, recv));
            CHECK_OK(weft_comm_get_stats(job.comm, &stats));
            CHECK(number < FIRST + 10 || stages == (stats.bytes_staged > staged));
            staged = stats.bytes_staged;
        }
        CHECK_OK(weft_comm_describe(job.comm, names[which], NULL, NULL, COUNT, WEFT_INT32, WEFT_SUM, 0,
                                    &description));
        CHECK(strncmp(description.why, expected, strlen(expected)) == 0);
    }
    free(send);
    free(recv);
    CHECK_OK(job_close(&job));
    return 0;
}

/* One rank for which staging is slower keeps all from it; one for which it is hardly slower than for the others does not. */
static void test_agree(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MAX; ranks++) {
        for (int i = 0; i < 4; i++) {
            struct difference difference = {i % 2 ? 0 : ranks - 1, i / 2 ? 1400 : 920};
            int failed = test_ranks_fork(ranks, differ, &difference);
            if (*forbidden)
                TEST_SKIP("the kernel lets no process read another one's memory here");
            if (failed)
                fail_msg("%d ranks, rank %d sees %d ns", ranks, difference.odd, (int)difference.seen);
        }
    }
}

int main(void)
{
    passed = mmap(NULL, 2 * sizeof *passed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (passed == MAP_FAILED)
        return 1;
    forbidden = passed + 1;
    if (sem_init(&other_is_in, 0, 0) != 0 || sem_init(&this_is_in, 0, 0) != 0)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_number), cmocka_unit_test(test_never),
                                       cmocka_unit_test(test_counts_all), cmocka_unit_test(test_mixed),
                                       cmocka_unit_test(test_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
