/* SPDX-License-Identifier: Apache-2.0 */
/* A transport's instance breaks and is set aside: memory that came from it is given back to it, whether another one
 * has taken its place or none could be had. The instance breaks as progress sees it: its poll() fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/core/comm.h"
#include "comm/drive/progress.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "transport/shm/shm_private.h"

#define BYTES (1u << 20)
#define COUNT 16 /* floats of an allreduce that goes along the fast path */

struct scene {
    int starving; /* no instance can be opened after the one that breaks */
    char file[64];
    atomic_int reduced; /* ranks that have their result */
};

static int poll_fails(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    (void)transport, (void)budget, (void)handler, (void)arg;
    return weft_fail(WEFT_TRANSPORT, "this instance is made to break");
}

/* Returns the instance, or NULL when it has not broken. The next that is opened has a table of its own. */
static struct weft_transport *break_shm(weft_context *context)
{
    weft_context_lock(context);
    struct weft_open_transport *shm = &context->transports[WEFT_SHM];
    shm->ops.poll = poll_fails;
    weft_progress_once(context);
    struct weft_transport *instance = context->working & 1u << WEFT_SHM ? NULL : shm->instance;
    weft_context_unlock(context);
    return instance;
}

static struct weft_transport *shm_of(weft_context *context)
{
    return context->transports[WEFT_SHM].instance;
}

/* Allocations of an instance that have not been given back. */
static int segments_of(const struct weft_transport *instance)
{
    int found = 0;
    for (uint32_t i = 0; i < instance->segment_count; i++)
        found += instance->segments[i].base != NULL;
    return found;
}

static int is_mapped(void *memory)
{
    unsigned char pages[1];
    return mincore(memory, 1, pages) == 0;
}

/* No more descriptors for now, so that no instance can be opened; and back. */
static int starve(struct rlimit *before)
{
    CHECK(getrlimit(RLIMIT_NOFILE, before) == 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before->rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    return 0;
}

static int memory_outlives_its_instance(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    const struct scene *scene = arg;
    struct rlimit before;
    weft_context *context;
    void *old, *new, *third;
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_mem_alloc(context, BYTES, &old));
    CHECK(weft_memory_is_shared(context, old, BYTES));
    struct weft_transport *broken = break_shm(context);
    CHECK(broken != NULL && segments_of(broken) == 1);
    CHECK(!scene->starving || starve(&before) == 0);
    CHECK_OK(weft_mem_alloc(context, BYTES, &new));
    CHECK(!scene->starving || setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(shm_of(context) != broken && (shm_of(context) == NULL) == scene->starving);
    CHECK(weft_memory_is_shared(context, new, BYTES) == !scene->starving);
    /* Peers of the new instance could not map it: it must not be taken for memory that they can. */
    CHECK(!weft_memory_is_shared(context, old, BYTES));
    memset(old, 1, BYTES);
    memset(new, 2, BYTES);
    CHECK_OK(weft_mem_free(context, old));
    CHECK(!is_mapped(old) && segments_of(broken) == 0);
    CHECK_OK(weft_mem_alloc(context, BYTES, &third));
    CHECK(weft_memory_is_shared(context, third, BYTES));
    CHECK(weft_context_close(context) == WEFT_BUSY);
    CHECK_OK(weft_mem_free(context, new));
    CHECK(!is_mapped(new));
    CHECK_OK(weft_mem_free(context, third));
    CHECK_OK(weft_context_close(context));
    return 0;
}

/* Buffers of the executor: an idle one goes with its instance, one in use when it comes back, and none is handed
 * out again for another instance. */
static int pooled_buffers_go_with_their_instance(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    weft_context *context;
    CHECK_OK(weft_context_open(NULL, &context));
    weft_context_lock(context);
    int opened = weft_context_transport(context, WEFT_SHM, NULL);
    void *idle = weft_memory_buffer_get(context, WEFT_SHM, BYTES, NULL);
    void *used = weft_memory_buffer_get(context, WEFT_SHM, BYTES, NULL);
    weft_memory_buffer_put(context, WEFT_SHM, idle, BYTES);
    weft_context_unlock(context);
    CHECK_OK(opened);
    CHECK(idle && used);
    struct weft_transport *broken = break_shm(context);
    CHECK(broken != NULL && segments_of(broken) == 2);
    weft_context_lock(context);
    opened = weft_context_transport(context, WEFT_SHM, NULL);
    int left = segments_of(broken);
    weft_memory_buffer_put(context, WEFT_SHM, used, BYTES);
    void *fresh = weft_memory_buffer_get(context, WEFT_SHM, BYTES, NULL);
    weft_memory_buffer_put(context, WEFT_SHM, fresh, BYTES);
    weft_context_unlock(context);
    CHECK_OK(opened);
    CHECK(left == 1);
    CHECK(fresh && fresh != used && segments_of(shm_of(context)) == 1);
    CHECK_OK(weft_context_close(context));
    return 0;
}

static int reduces(weft_comm *comm, int rank, int ranks)
{
    float send[COUNT], recv[COUNT];
    job_fill(send, WEFT_FLOAT32, rank, COUNT);
    CHECK_OK(weft_allreduce(comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, COUNT) == 0);
    return 0;
}

static int reduces_in_another(weft_context *context, const char *file, int rank, int ranks)
{
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.ranks = ranks;
    options.file = file;
    options.timeout_ms = 30000;
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK(reduces(comm, rank, ranks) == 0);
    CHECK_OK(weft_comm_destroy(comm));
    return 0;
}

static int fast_path_outlives_its_instance(int rank, int ranks, void *arg)
{
    struct scene *scene = arg;
    struct rlimit before;
    struct job job;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK(reduces(job.comm, rank, ranks) == 0);
    CHECK(job.comm->fastpath != NULL);
    atomic_fetch_add(&scene->reduced, 1);
    while (atomic_load(&scene->reduced) < ranks) /* who breaks early takes the other's result away */
        usleep(200);
    struct weft_transport *broken = break_shm(job.context);
    CHECK(broken != NULL && segments_of(broken) == 1 && atomic_load(&job.comm->failure.status));
    void *memory;
    CHECK(!scene->starving || starve(&before) == 0);
    CHECK_OK(weft_mem_alloc(job.context, BYTES, &memory)); /* sets the instance aside */
    CHECK(!scene->starving || setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK((shm_of(job.context) == NULL) == scene->starving);
    CHECK(scene->starving || segments_of(shm_of(job.context)) == 1);
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK(segments_of(broken) == 0);
    CHECK_OK(weft_mem_free(job.context, memory));
    CHECK(reduces_in_another(job.context, scene->file, rank, ranks) == 0); /* the context serves on */
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void run(int ranks, test_rank_function *function, int starving)
{
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(scene, MAP_FAILED);
    scene->starving = starving;
    char folder[] = "/tmp/test_set_aside.XXXXXX";
    assert_non_null(mkdtemp(folder));
    snprintf(scene->file, sizeof scene->file, "%s/job", folder);
    int wrong = test_ranks_fork(ranks, function, scene);
    unlink(scene->file);
    rmdir(folder);
    munmap(scene, sizeof *scene);
    assert_int_equal(wrong, 0);
}

static void test_memory(void **state)
{
    (void)state;
    run(1, memory_outlives_its_instance, 0);
}

static void test_memory_without_successor(void **state)
{
    (void)state;
    run(1, memory_outlives_its_instance, 1);
}

static void test_buffers(void **state)
{
    (void)state;
    run(1, pooled_buffers_go_with_their_instance, 0);
}

static void test_fast_path(void **state)
{
    (void)state;
    run(2, fast_path_outlives_its_instance, 0);
}

static void test_fast_path_without_successor(void **state)
{
    (void)state;
    run(2, fast_path_outlives_its_instance, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_without_successor),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_fast_path),
        cmocka_unit_test(test_fast_path_without_successor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
