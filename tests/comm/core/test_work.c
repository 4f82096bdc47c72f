/* SPDX-License-Identifier: Apache-2.0 */
/* How a started call says that it has failed: with the communicator's status and words, whatever has ended the operation itself. And that its
 * handle, which may have been another call's, says nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/core/work.h"
#include "comm/drive/progress.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT 100000
#define WORDS "ranks disagree on the number of apples"

struct scene {
    int looks; /* weft_work_wait() is asked not to wait */
    atomic_int is_over;
};

/* Rank 0 never makes the call. At rank 1 a link breaks, which stops the operation, and only then it hears why: here both come
 * while nobody else can look. */
static int hear_late(int rank, int ranks, void *arg)
{
    struct scene *scene = arg;
    static float send[COUNT], recv[COUNT];
    struct job job;
    weft_work *work;
    (void)ranks;
    CHECK_OK(job_open(&job, "shm", NULL));
    int status = weft_barrier(job.comm, NULL); /* a slow rank may hear in it what the other did after it */
    while (rank == 0 && !atomic_load(&scene->is_over))
        usleep(1000); /* its next call would be another one than rank 1's */
    if (rank == 1) {
        CHECK_OK(status);
        CHECK_OK(weft_allreduce(job.comm, send, recv, COUNT, WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)));
        weft_context_lock(job.context);
        weft_exec_stop(job.comm->exec,
                       weft_fail(WEFT_PEER_FAILED, "reading the memory of rank 0 has failed"));
        weft_bootstrap_revoke_as(job.comm->bootstrap, WEFT_MISMATCH, WORDS);
        weft_context_unlock(job.context);
        atomic_store(&scene->is_over, 1);
        do
            status = weft_work_wait(work, scene->looks ? 0 : -1);
        while (status == WEFT_AGAIN);
        CHECK(status == WEFT_MISMATCH);
        CHECK(strcmp(weft_error_detail(), WORDS) == 0);
        weft_work_free(work);
    }
    while (status == WEFT_OK)
        status = weft_barrier(job.comm, NULL);
    CHECK(status == WEFT_MISMATCH);
    CHECK(strcmp(weft_error_detail(), WORDS) == 0);
    CHECK(weft_barrier(job.comm, NULL) == WEFT_REVOKED);
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
    for (int looks = 0; looks < 2; looks++) {
        scene->looks = looks;
        atomic_store(&scene->is_over, 0);
        assert_int_equal(test_ranks_fork(2, hear_late, scene), 0);
    }
    munmap(scene, sizeof *scene);
}

/* --- who waits reads the status without the lock */

static int status_at_last;

static void last(struct weft_work *work)
{
    status_at_last = work->status;
}

static void ignore(void *arg, int status, const char *detail)
{
    (void)arg, (void)status, (void)detail;
}

static weft_context *context;
static weft_comm *comm;

static struct weft_work *new_work(int64_t timeout_ms, const char *label)
{
    struct weft_work *work;
    weft_context_lock(context);
    assert_int_equal(weft_work_new(comm, timeout_ms, label, &work), WEFT_OK);
    weft_context_unlock(context);
    comm->works++;
    return work;
}

/* A work that nobody but the test ends. */
static struct weft_work *open_work(void)
{
    struct weft_work *work;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.ranks = 1;
    assert_int_equal(weft_context_open(NULL, &context), WEFT_OK);
    assert_int_equal(weft_comm_create(context, &options, &comm), WEFT_OK);
    work = new_work(-1, NULL);
    work->is_message = 1;
    memset(&work->request, 0, sizeof work->request);
    return work;
}

static void end_work(struct weft_work *work, int status)
{
    weft_context_lock(context);
    weft_work_end(work, status);
    weft_context_unlock(context);
}

static void close_work(struct weft_work *work, int status)
{
    assert_int_equal(weft_work_free(work), status);
    assert_int_equal(weft_comm_destroy(comm), WEFT_OK);
    assert_int_equal(weft_context_close(context), WEFT_OK);
}

/* With a callback what is left to do at the end is done by who notices it. Until then the work runs. */
static void test_last_before_status(void **state)
{
    (void)state;
    struct weft_work *work = open_work();
    work->finish = last;
    status_at_last = WEFT_OK;
    assert_int_equal(weft_work_set_callback(work, ignore, NULL), WEFT_OK);
    weft_progress_background(context, 1);
    end_work(work, WEFT_OK);
    assert_int_equal(status_at_last, WEFT_AGAIN);
    assert_int_equal(weft_work_wait(work, -1), WEFT_OK);
    close_work(work, WEFT_OK);
}

/* --- an operation that fails before its communicator does */

struct heard {
    int status;
    char detail[100];
};

static void hear(void *arg, int status, const char *detail)
{
    struct heard *heard = arg;
    heard->status = status;
    snprintf(heard->detail, sizeof heard->detail, "%s", detail);
}

/* Whoever asks hears the same: the wait, a callback that was there before, and one that comes later. */
static void test_fails_first(void **state)
{
    (void)state;
    struct heard before = {0}, after = {0};
    struct weft_work *work = open_work();
    assert_int_equal(weft_work_set_callback(work, hear, &before), WEFT_OK);
    end_work(work, WEFT_PEER_FAILED);
    assert_int_equal(weft_work_wait(work, -1), WEFT_PEER_FAILED);
    assert_string_equal(weft_error_detail(), weft_strerror(WEFT_PEER_FAILED));
    assert_int_equal(weft_work_set_callback(work, hear, &after), WEFT_OK);
    assert_int_equal(before.status, WEFT_PEER_FAILED);
    assert_int_equal(after.status, WEFT_PEER_FAILED);
    assert_string_equal(before.detail, weft_strerror(WEFT_PEER_FAILED));
    assert_string_equal(after.detail, before.detail);
    close_work(work, WEFT_PEER_FAILED);
}

/* --- handles that are used again */

#define HANDLES 300 /* more than are kept */

static int lasts;

static void count_last(struct weft_work *work)
{
    (void)work;
    lasts++;
}

/* One of a call knows nothing of the call before: neither its label, nor its time, nor what it left to do. */
static void test_used_again(void **state)
{
    (void)state;
    static struct weft_work *works[HANDLES];
    struct weft_work *first = open_work();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < HANDLES; i++) {
            works[i] = new_work(round % 2 ? 0 : 5, round % 2 ? NULL : "step 7");
            assert_string_equal(works[i]->label, round % 2 ? "" : "step 7");
            assert_int_equal(works[i]->timeout_ms, round % 2 ? 0 : 5);
            assert_int_equal(works[i]->status, WEFT_AGAIN);
            assert_true(!works[i]->is_message && !works[i]->notice && !works[i]->info && !works[i]->finish);
            assert_true(!works[i]->part_count && works[i]->parts == &works[i]->only && !works[i]->signals);
            for (int other = 0; other < i; other++)
                assert_ptr_not_equal(works[other], works[i]);
        }
        for (int i = 0; i < HANDLES; i++) {
            works[i]->is_message = 1;
            memset(&works[i]->request, 0, sizeof works[i]->request);
            works[i]->info = &(weft_message)WEFT_MESSAGE_INIT;
            works[i]->finish = i % 2 ? count_last : NULL;
            weft_progress_background(context, 1);
            end_work(works[i], WEFT_OK);
            assert_int_equal(weft_work_free(works[i]), WEFT_OK);
        }
    }
    assert_int_equal(lasts, 3 * HANDLES / 2);
#ifndef __SANITIZE_ADDRESS__ /* which says it itself */
    assert_int_equal(weft_work_free(works[0]), WEFT_INVALID);
#endif
    end_work(first, WEFT_OK);
    close_work(first, WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_status_fits_words),
                                       cmocka_unit_test(test_last_before_status),
                                       cmocka_unit_test(test_fails_first), cmocka_unit_test(test_used_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
