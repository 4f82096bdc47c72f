/* SPDX-License-Identifier: Apache-2.0 */
/* How a started call says that it has failed: with the communicator's status and words, whatever has ended the operation itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/comm.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT 100000
#define WORDS "ranks disagree on the number of apples"

struct scene {
    int tests; /* weft_work_test(), not weft_work_wait() */
    atomic_int is_over;
};

/* Rank 0 never makes the call. At rank 1 a link breaks, which ends the operation, and only then it hears why: here both come
 * while nobody else can look. */
static int hear_late(int rank, int ranks, void *arg)
{
    struct scene *scene = arg;
    static float send[COUNT], recv[COUNT];
    struct job job;
    weft_work *work;
    int done = 0;
    (void)ranks;
    CHECK_OK(job_open(&job, "shm", NULL));
    int status = weft_barrier(job.comm); /* a slow rank may hear in it what the other did after it */
    while (rank == 0 && !atomic_load(&scene->is_over))
        usleep(1000); /* its next call would be another one than rank 1's */
    if (rank == 1) {
        CHECK_OK(status);
        CHECK_OK(weft_allreduce_start(job.comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, &work));
        weft_context_lock(job.context);
        weft_exec_fail(job.comm->exec, WEFT_PEER_FAILED, "reading the memory of rank 0 has failed");
        weft_bootstrap_revoke_as(job.comm->bootstrap, WEFT_MISMATCH, WORDS);
        weft_context_unlock(job.context);
        atomic_store(&scene->is_over, 1);
        while (scene->tests && status == WEFT_OK && !done)
            status = weft_work_test(work, &done);
        if (!scene->tests)
            status = weft_work_wait(work, -1);
        CHECK(status == WEFT_MISMATCH && !done);
        CHECK(strcmp(weft_error_detail(), WORDS) == 0);
        weft_work_free(work);
    }
    while (status == WEFT_OK)
        status = weft_barrier(job.comm);
    CHECK(status == WEFT_MISMATCH);
    CHECK(strcmp(weft_error_detail(), WORDS) == 0);
    CHECK(weft_barrier(job.comm) == WEFT_REVOKED);
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_status_fits_words(void **state)
{
    (void)state;
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(scene, MAP_FAILED);
    for (int tests = 0; tests < 2; tests++) {
        scene->tests = tests;
        atomic_store(&scene->is_over, 0);
        assert_int_equal(test_ranks_fork(2, hear_late, scene), 0);
    }
    munmap(scene, sizeof *scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_status_fits_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
