/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines) */
/* What a call's options promise: how it runs is each rank's own affair, its deadline, its label, its algorithm; and how a program hears of
 * the end of what it has started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

/* --- blocking and started calls of each rank, at random */

enum { MIXED = 400, IN_FLIGHT = 6, LARGEST = 40000 };

struct pending {
    weft_work *work; /* NULL: the call has blocked */
    size_t count;
    float *recv;
};

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* Values whose sum depends on the order, so that the bits show which way a call has gone. */
static void fill(float *values, size_t count, int rank, int call)
{
    uint32_t random = (uint32_t)(call * 64 + rank);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((double)(int32_t)(next(&random) << 8) * (i % 3 ? 1e-3 : 1e10));
}

static int end_one(struct pending *pending, const float *expected)
{
    if (pending->work) {
        CHECK_OK(weft_work_wait(pending->work, -1));
        CHECK_OK(weft_work_free(pending->work));
    }
    CHECK_BITS(memcmp(pending->recv, expected, pending->count * sizeof(float)) == 0);
    free(pending->recv);
    return 0;
}

/* The same calls: which of them this rank starts, and when it waits, is of its own dice. Compared with ranks that all block. */
static int mix_body(int rank, int ranks, void *arg)
{
    static const size_t counts[] = {0, 1, 2, 17, 1000, 5000, LARGEST};
    static float send[IN_FLIGHT][LARGEST], expected[IN_FLIGHT][LARGEST];
    const int *in_place = arg;
    struct job job, plain;
    struct pending pending[IN_FLIGHT];
    uint32_t common = 5, own = 77u * (uint32_t)(rank + 1);
    (void)ranks;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(job_open_beside(&plain, &job, NULL));
    for (int first = 0; first < MIXED; first += IN_FLIGHT) {
        for (int i = 0; i < IN_FLIGHT; i++) {
            struct pending *one = &pending[i];
            *one = (struct pending){.count = counts[next(&common) % 7]};
            int allreduce = next(&common) % 3 != 0;
            fill(send[i], one->count, rank, first + i);
            one->recv = malloc(LARGEST * sizeof(float));
            CHECK(one->recv != NULL);
            memcpy(one->recv, send[i], one->count * sizeof(float));
            const float *from = *in_place ? one->recv : send[i];
            weft_work **work = next(&own) % 2 ? &one->work : NULL;
            CHECK_OK(allreduce ? weft_allreduce(job.comm, from, one->recv, one->count, WEFT_FLOAT32, WEFT_SUM,
                                                WEFT_START(work))
                               : weft_broadcast(job.comm, from, one->recv, one->count, WEFT_FLOAT32, 1,
                                                WEFT_START(work)));
            CHECK_OK(allreduce ? weft_allreduce(plain.comm, send[i], expected[i], one->count, WEFT_FLOAT32,
                                                WEFT_SUM, NULL)
                               : weft_broadcast(plain.comm, send[i], expected[i], one->count, WEFT_FLOAT32, 1,
                                                NULL));
        }
        for (int i = 0; i < IN_FLIGHT; i++)
            CHECK(end_one(&pending[i], expected[i]) == 0);
    }
    CHECK_OK(job_close(&plain));
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_mixed(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_int_equal(test_ranks_fork(2, mix_body, &in_place), 0);
        assert_int_equal(test_ranks_fork(3, mix_body, &in_place), 0);
    }
}

/* --- deadline, label, algorithm */

/* Nobody else comes: the call's own deadline ends it, long before the communicator's, and the text has its label. */
static int deadline_body(int rank, int ranks, void *arg)
{
    struct job job;
    int32_t value = rank, sum;
    int started = *(const int *)arg, status;
    weft_work *work = NULL;
    (void)ranks;
    CHECK_OK(job_open_within(&job, "shm", NULL, 600000));
    CHECK_OK(weft_comm_get_error(job.comm));
    if (rank == 0) {
        status = weft_allreduce(
            job.comm, &value, &sum, 1, WEFT_INT32, WEFT_SUM,
            WEFT_CALL(.work = started ? &work : NULL, .timeout_ms = 300, .label = "layer 7\ngradients"));
        if (started) {
            CHECK_OK(status);
            CHECK(weft_work_wait(work, 0) == WEFT_AGAIN);
            status = weft_work_wait(work, -1);
        }
        CHECK(status == WEFT_TIMEOUT);
        CHECK(strstr(weft_error_detail(), "'layer 7?gradients'") != NULL);
        CHECK(weft_comm_get_error(job.comm) == WEFT_TIMEOUT);
        CHECK(strstr(weft_error_detail(), "layer 7") != NULL);
        weft_work_free(work);
    } else {
        while (weft_comm_get_error(job.comm) == WEFT_OK)
            usleep(1000);
        CHECK(strstr(weft_error_detail(), "layer 7") != NULL);
    }
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_deadline(void **state)
{
    (void)state;
    for (int started = 0; started < 2; started++)
        assert_int_equal(test_ranks_fork(2, deadline_body, &started), 0);
}

/* Whether a text is in the file by now. */
static int file_has(const char *path, const char *text)
{
    char bytes[16384];
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(bytes, 1, sizeof bytes - 1, file) : 0;
    bytes[length] = '\0';
    if (file)
        fclose(file);
    return strstr(bytes, text) != NULL;
}

/* Rank 1 comes when the log has said that it is waited for: what is late is reported, and nothing ends by that. */
static int report_body(int rank, int ranks, void *arg)
{
    struct job job;
    int32_t value = rank;
    (void)ranks;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank == 1) {
        while (!file_has(arg, ": rank 1 has not called allreduce #1 'checkpoint'"))
            usleep(10000);
    }
    CHECK_OK(
        weft_allreduce(job.comm, &value, &value, 1, WEFT_INT32, WEFT_SUM, WEFT_CALL(.label = "checkpoint")));
    CHECK_BITS(value == 1);
    if (rank == 1) {
        CHECK(file_has(arg, "allreduce #1 'checkpoint' has taken"));
        CHECK(file_has(arg, "waits for rank 1"));
        while (!file_has(arg, "a message has taken"))
            usleep(10000);
        while (!file_has(arg, " ms in messages"))
            usleep(10000);
        CHECK(!file_has(arg, "for 0 ms in messages"));
        CHECK(file_has(arg, "communicator: rank 1 reaches 1 rank by shm"));
        CHECK(file_has(arg, "communicator: 2 ranks on 1 host, ordered by"));
        CHECK_OK(weft_send(job.comm, &value, 1, WEFT_INT32, 0, 0, NULL));
    } else {
        CHECK_OK(weft_recv(job.comm, &value, 1, WEFT_INT32, 1, 0, NULL, NULL));
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_report(void **state)
{
    char folder[] = "/tmp/weft-report-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    setenv("WEFT_LOG_FILE", path, 1);
    setenv("WEFT_REPORT_MS", "400", 1);
    setenv("WEFT_LOG", "info", 1);
    assert_int_equal(test_ranks_fork(2, report_body, path), 0);
    unsetenv("WEFT_LOG");
    unsetenv("WEFT_LOG_FILE");
    unsetenv("WEFT_REPORT_MS");
    unlink(path);
    rmdir(folder);
}

static int algorithm_body(int rank, int ranks, void *arg)
{
    static const char *const names[] = {"ring", "rd", "rab", "tree", "auto"};
    struct job job;
    float send[64], recv[64];
    (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        job_fill(send, WEFT_FLOAT32, rank, 64);
        CHECK_OK(weft_allreduce(job.comm, send, recv, 64, WEFT_FLOAT32, WEFT_SUM,
                                WEFT_CALL(.algorithm = names[i])));
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, 64) == 0);
    }
    CHECK(weft_allreduce(job.comm, send, recv, 64, WEFT_FLOAT32, WEFT_SUM, WEFT_CALL(.algorithm = "bruck")) ==
          WEFT_UNSUPPORTED);
    CHECK(strstr(weft_error_detail(), "algorithm 'bruck' does not serve this allreduce") != NULL);
    CHECK(weft_allreduce(job.comm, send, recv, 64, WEFT_FLOAT32, WEFT_SUM, WEFT_CALL(.algorithm = "quick")) ==
          WEFT_INVALID);
    CHECK(weft_send(job.comm, send, 1, WEFT_FLOAT32, rank, 0, WEFT_CALL(.algorithm = "ring")) ==
          WEFT_UNSUPPORTED);
    CHECK_OK(weft_barrier(job.comm, NULL)); /* refused calls have not been made */
    /* One rank passes another one than the others: a mismatch that names it. */
    int status = weft_allreduce(job.comm, send, recv, 64, WEFT_FLOAT32, WEFT_SUM,
                                WEFT_CALL(.algorithm = rank == 1 ? "rab" : "ring"));
    CHECK(status == WEFT_MISMATCH);
    CHECK(strstr(weft_error_detail(), "rank 1 on host") && strstr(weft_error_detail(), "algorithm rab"));
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_algorithm(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, algorithm_body, NULL), 0);
}

/* --- how a program hears of an end */

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int calls, status;
    char detail[600];
};

static void hear(void *arg, int status, const char *detail)
{
    struct heard *heard = arg;
    pthread_mutex_lock(&heard->lock);
    heard->calls++;
    heard->status = status;
    snprintf(heard->detail, sizeof heard->detail, "%s", detail);
    pthread_cond_signal(&heard->changed);
    pthread_mutex_unlock(&heard->lock);
}

static void await_call(struct heard *heard)
{
    pthread_mutex_lock(&heard->lock);
    while (!heard->calls)
        pthread_cond_wait(&heard->changed, &heard->lock);
    pthread_mutex_unlock(&heard->lock);
}

#define HEARD_INIT                                                                                           \
    {                                                                                                        \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 1, ""                                        \
    }

/* The program makes no call while it waits: weft's own thread brings the work to its end. freed: the handle goes before that. */
static int callback_body(int rank, int ranks, void *arg)
{
    static float send[300000], recv[300000];
    static const size_t counts[] = {1, 5000, 300000};
    struct job job;
    int freed = *(const int *)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int i = 0; i < 3; i++) {
        struct heard heard = HEARD_INIT;
        weft_work *work;
        job_fill(send, WEFT_FLOAT32, rank, counts[i]);
        CHECK_OK(weft_allreduce(job.comm, send, recv, counts[i], WEFT_FLOAT32, WEFT_SUM, WEFT_START(&work)));
        CHECK_OK(weft_work_set_callback(work, hear, &heard));
        if (freed)
            CHECK_OK(weft_work_free(work));
        await_call(&heard);
        CHECK(heard.calls == 1 && heard.status == WEFT_OK && heard.detail[0] == '\0');
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, ranks, counts[i]) == 0);
        if (!freed) {
            CHECK_OK(weft_work_set_callback(work, hear, &heard)); /* it has ended: at once */
            CHECK(heard.calls == 2);
            CHECK_OK(weft_work_free(work));
        }
    }
    CHECK_OK(job_close(&job));
    return 0;
}

/* A receive that nobody sends for ends with its deadline, and a call with the communicator; both are reported. */
static int failing_body(int rank, int ranks, void *arg)
{
    struct job job;
    struct heard late = HEARD_INIT, failed = HEARD_INIT;
    weft_work *receive, *reduction;
    int32_t value = rank, sum;
    (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    if (rank == 0) {
        CHECK_OK(weft_recv(job.comm, &value, 1, WEFT_INT32, 1, 5, NULL,
                           WEFT_CALL(.work = &receive, .timeout_ms = 200, .label = "news")));
        CHECK_OK(weft_work_set_callback(receive, hear, &late));
        await_call(&late);
        CHECK(late.status == WEFT_TIMEOUT && strstr(late.detail, "receive 'news'") != NULL);
        CHECK(weft_work_free(receive) == WEFT_TIMEOUT);
        CHECK_OK(weft_comm_get_error(job.comm));
        CHECK_OK(weft_allreduce(job.comm, &value, &sum, 1, WEFT_INT32, WEFT_SUM, WEFT_START(&reduction)));
        CHECK_OK(weft_work_set_callback(reduction, hear, &failed));
        CHECK_OK(weft_send(job.comm, &value, 1, WEFT_INT32, 1, 6, NULL));
        await_call(&failed);
        CHECK(failed.status == WEFT_REVOKED && strstr(failed.detail, "no more") != NULL);
        weft_work_free(reduction);
    } else {
        CHECK_OK(weft_recv(job.comm, &value, 1, WEFT_INT32, 0, 6, NULL, NULL));
        CHECK_OK(weft_comm_abort(job.comm, "no more"));
    }
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_callback(void **state)
{
    (void)state;
    for (int freed = 0; freed < 2; freed++) {
        assert_int_equal(test_ranks_fork(2, callback_body, &freed), 0);
        assert_int_equal(test_ranks_fork(3, callback_body, &freed), 0);
    }
    assert_int_equal(test_ranks_fork(2, failing_body, NULL), 0);
}

/* An event loop sleeps in poll() alone. */
static int descriptor_body(int rank, int ranks, void *arg)
{
    struct job job;
    int fd = -1, again = -1, other = (rank + 1) % ranks;
    uint64_t ended;
    int32_t value = rank, sums[2], got;
    weft_work *works[4];
    weft_message info = WEFT_MESSAGE_INIT;
    (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    CHECK_OK(weft_context_get_fd(job.context, &fd));
    CHECK_OK(weft_context_get_fd(job.context, &again));
    CHECK(fd >= 0 && fd == again);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    CHECK_OK(weft_barrier(job.comm, NULL));
    CHECK(poll(&polled, 1, 0) == 0); /* nothing that was started has ended */
    CHECK_OK(weft_allreduce(job.comm, &value, &sums[0], 1, WEFT_INT32, WEFT_SUM, WEFT_START(&works[0])));
    CHECK_OK(weft_allreduce(job.comm, &value, &sums[1], 1, WEFT_INT32, WEFT_SUM, WEFT_START(&works[1])));
    CHECK_OK(weft_recv(job.comm, &got, 1, WEFT_INT32, WEFT_ANY_SOURCE, 3, &info, WEFT_START(&works[2])));
    CHECK_OK(weft_send(job.comm, &value, 1, WEFT_INT32, other, 3, WEFT_START(&works[3])));
    for (uint64_t all = 0; all < 4; all += ended) {
        CHECK(poll(&polled, 1, -1) == 1);
        CHECK(read(fd, &ended, sizeof ended) == sizeof ended);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_work_wait(works[i], 0));
        CHECK_OK(weft_work_free(works[i]));
    }
    CHECK_BITS(sums[0] == ranks * (ranks - 1) / 2 && sums[1] == sums[0]);
    CHECK_BITS(got == info.source);
    CHECK(info.bytes == 4 && info.tag == 3);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_descriptor(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, descriptor_body, NULL), 0);
    assert_int_equal(test_ranks_fork(3, descriptor_body, NULL), 0);
}

/* A send and a receive under one handle. */
static int sendrecv_body(int rank, int ranks, void *arg)
{
    struct job job;
    enum { LONG = 200000 };
    static int32_t send[LONG], recv[LONG];
    weft_message info = WEFT_MESSAGE_INIT;
    weft_work *work;
    (void)arg;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int count = 1; count <= LONG; count = count == 1 ? LONG : LONG + 1) {
        for (int i = 0; i < count; i++)
            send[i] = rank * 7 + i;
        CHECK_OK(weft_sendrecv(job.comm, send, (size_t)count, (rank + 1) % ranks, 4, recv, (size_t)count,
                               (rank + ranks - 1) % ranks, 4, WEFT_INT32, &info, WEFT_START(&work)));
        CHECK_OK(weft_work_wait(work, -1));
        CHECK_OK(weft_work_free(work));
        CHECK(info.source == (rank + ranks - 1) % ranks && info.bytes == 4 * (size_t)count);
        for (int i = 0; i < count; i++)
            CHECK_BITS(recv[i] == info.source * 7 + i);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_sendrecv(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, sendrecv_body, NULL), 0);
    assert_int_equal(test_ranks_fork(1, sendrecv_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),    cmocka_unit_test(test_deadline), cmocka_unit_test(test_algorithm),
        cmocka_unit_test(test_report),   cmocka_unit_test(test_callback), cmocka_unit_test(test_descriptor),
        cmocka_unit_test(test_sendrecv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
