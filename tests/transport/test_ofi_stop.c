/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (heartbeats) */
/* A rank is stopped in the middle of large allreduces over TCP: the others' calls return in bounded time, their
 * memory is their own from then on, and what the stopped rank makes of it later is no wrong result.
 *
 * The survivors overwrite their buffers as soon as their calls return and wake the stopped rank only then:
 * whatever still moves shows, as a byte that changes under a survivor or as a wrong sum that the stopped rank
 * takes for good.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/heartbeat.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"

#define TIMEOUT_MS 20000
#define SILENCE_MS                                                                                           \
    1500 /* not before that: the last beat may be a quarter of the heartbeat old when the rank stops */

struct scene {
    const char *provider;
    size_t count;
    int in_place;
    int busy; /* rank 1 is not in the call that fails, and does not look at the network until the others are through */
    _Atomic int64_t stopped_ns;
    _Atomic pid_t victim;
    _Atomic int survivors, woken, victim_ended;
    _Atomic int good_after; /* calls of the stopped rank that succeeded after it was woken */
};

static void *stop_soon(void *arg)
{
    struct scene *scene = arg;
    usleep(3000);
    scene->stopped_ns = weft_clock_ns();
    kill(getpid(), SIGSTOP);
    return NULL;
}

static int is_filled(const unsigned char *memory, size_t size, int value)
{
    return memory[0] == value && memcmp(memory, memory + 1, size - 1) == 0;
}

static int victim_run(struct scene *scene, struct job *job, float *send, float *recv, int ranks)
{
    pthread_t stopper;
    scene->victim = getpid();
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 100000; i++) {
        if (i == (scene->busy ? 4 : 3))
            CHECK(pthread_create(&stopper, NULL, stop_soon, scene) == 0);
        /* What the call before has left is no result of this one. */
        memset(recv, 0xff, scene->count * sizeof *recv);
        job_fill(send, WEFT_FLOAT32, ranks - 1, scene->count);
        status = weft_allreduce(job->comm, send, recv, scene->count, WEFT_FLOAT32, WEFT_SUM, NULL);
        if (status == WEFT_OK && job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, scene->count)) {
            fprintf(stderr, "WRONG: the stopped rank took a wrong result for good\n");
            return 1;
        }
        scene->good_after += scene->woken && status == WEFT_OK;
    }
    pthread_join(stopper, NULL);
    scene->victim_ended = 1;
    CHECK(status != WEFT_OK);
    return 0;
}

/* The survivors go on without the stopped rank. */
static int go_on(struct scene *scene, struct job *job, float *send, float *recv)
{
    weft_comm *smaller;
    CHECK_OK(weft_comm_shrink(job->comm, &smaller, NULL));
    int rank = weft_comm_rank(smaller), ranks = weft_comm_size(smaller);
    for (int i = 0; i < 3; i++) {
        job_fill(send, WEFT_FLOAT32, rank, scene->count);
        int status = weft_allreduce(smaller, send, recv, scene->count, WEFT_FLOAT32, WEFT_SUM, NULL);
        if (status != WEFT_OK) {
            printf("%s: rank %d of the smaller one: %s\n", scene->provider, rank, weft_error_detail());
            weft_comm_destroy(smaller);
        }
        CHECK_OK(status);
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, scene->count) == 0);
    }
    CHECK_OK(weft_comm_destroy(smaller));
    return 0;
}

static int survivor_run(struct scene *scene, struct job *job, float *send, float *recv, int rank, int ranks)
{
    size_t size = scene->count * sizeof *send;
    int status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 100000; i++) {
        while (i == 4 && rank == 1 && scene->busy && scene->survivors < ranks - 2)
            usleep(1000);
        job_fill(send, WEFT_FLOAT32, rank, scene->count);
        status = weft_allreduce(job->comm, send, recv, scene->count, WEFT_FLOAT32, WEFT_SUM, NULL);
    }
    memset(send, 0xe1, size);
    memset(recv, 0xe1, size);
    int64_t took_ms = (weft_clock_ns() - scene->stopped_ns) / 1000000;
    CHECK(scene->stopped_ns && status != WEFT_OK);
    printf("%s: rank %d returned after %lld ms: %s\n", scene->provider, rank, (long long)took_ms,
           weft_error_detail());
    CHECK(took_ms >= SILENCE_MS);
    scene->survivors++;
    while (scene->survivors < ranks - 1)
        usleep(1000);
    if (rank == 0) {
        scene->woken = 1;
        CHECK(kill(scene->victim, SIGCONT) == 0);
    }
    for (int ended = 0; !ended; usleep(1000)) { /* the last look is after all that the stopped rank did */
        ended = scene->victim_ended;
        CHECK_BITS(is_filled((unsigned char *)send, size, 0xe1) &&
                   is_filled((unsigned char *)recv, size, 0xe1));
    }
    return go_on(scene, job, send, recv);
}

static int body(int rank, int ranks, void *arg)
{
    struct scene *scene = arg;
    struct job job;
    CHECK_OK(job_open_within(&job, "ofi", scene->provider, TIMEOUT_MS));
    float *send = malloc(scene->count * 4), *recv = scene->in_place ? send : malloc(scene->count * 4);
    CHECK(send && recv);
    int failed = rank == ranks - 1 ? victim_run(scene, &job, send, recv, ranks)
                                   : survivor_run(scene, &job, send, recv, rank, ranks);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    if (recv != send)
        free(recv);
    free(send);
    return failed;
}

static void stop_one(const char *provider, int ranks, int in_place, int busy)
{
    if (!job_has_ofi(provider))
        skip();
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    *scene = (struct scene){.provider = provider,
                            .count = test_is_sanitized() ? 3 << 18 : 3 << 20,
                            .in_place = in_place,
                            .busy = busy};
    int failed = test_ranks_fork(ranks, body, scene);
    int good_after = scene->good_after;
    printf("%s: %d calls of the stopped rank were good after it was woken\n", provider, good_after);
    munmap(scene, sizeof *scene);
    assert_int_equal(failed, 0);
    /* The call in which it was stopped, where all that it was to receive had come before; none that the others do not make. */
    assert_in_range(good_after, 0, 1);
}

static void net_stops(void **state)
{
    (void)state;
    stop_one("net", 3, 0, 0);
    stop_one("net", 4, 1, 0);
}

static void rxm_stops(void **state)
{
    (void)state;
    stop_one("tcp;ofi_rxm", 3, 0, 0);
}

/* A survivor that does not look at the network when the others take their memory back: they cut its connection
 * too, and reach it again in the smaller communicator. */
static void a_busy_survivor_is_reached_again(void **state)
{
    (void)state;
    stop_one("net", 4, 0, 1);
    stop_one("tcp;ofi_rxm", 4, 0, 1);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_stops),
        cmocka_unit_test(rxm_stops),
        cmocka_unit_test(a_busy_survivor_is_reached_again),
    };
    test_silence_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
