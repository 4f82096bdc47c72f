/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_queue_await */
/* Calls on a communicator itself: what peers bring to them is read with suspicion, and a call before them that has failed is what they
 * report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "comm/form/word.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

int __real_weft_queue_await(struct weft_comm *comm);
int __wrap_weft_queue_await(struct weft_comm *comm);

static int fails; /* the status with which a call before this one ends, or 0 */

int __wrap_weft_queue_await(struct weft_comm *comm)
{
    if (!fails)
        return __real_weft_queue_await(comm);
    weft_context_lock(comm->context);
    weft_comm_fail(comm, fails, "the call before has failed");
    weft_context_unlock(comm->context);
    return weft_comm_report(comm);
}

static void refused(const struct weft_word *bytes, size_t size)
{
    struct weft_word word;
    const struct weft_blob blob = {bytes, size};
    assert_int_equal(weft_word_read(&blob, &word), WEFT_PROTOCOL);
    assert_int_equal(word.status, WEFT_PROTOCOL);
    assert_string_equal(word.text, "it sent bytes that cannot be read");
    assert_string_equal(word.address, "");
}

static void test_words(void **state)
{
    (void)state;
    struct weft_word word, bytes = {.status = WEFT_NOMEM, .text = "no memory\nleft"};
    assert_int_equal(weft_word_read(&(struct weft_blob){&bytes, sizeof bytes}, &word), WEFT_OK);
    assert_int_equal(word.status, WEFT_NOMEM);
    assert_string_equal(word.text, "no memory?left");
    assert_int_equal(weft_word_read(&(struct weft_blob){NULL, 0}, &word), WEFT_OK);
    assert_true(word.status == WEFT_OK && !*word.text && !*word.address);

    refused(&bytes, sizeof bytes - 1);
    bytes.status = 1;
    refused(&bytes, sizeof bytes);
    bytes.status = WEFT_INTERNAL - 1;
    refused(&bytes, sizeof bytes);
    bytes.status = WEFT_NOMEM;
    memset(bytes.text, 'x', sizeof bytes.text);
    refused(&bytes, sizeof bytes);
    bytes.text[0] = '\0';
    memset(bytes.address, '1', sizeof bytes.address);
    refused(&bytes, sizeof bytes);
}

static int make_call(struct job *job, int call)
{
    weft_comm *part = NULL;
    int status = call == 0 ? weft_comm_split(job->comm, 0, 0, &part, NULL) : weft_comm_destroy(job->comm);
    CHECK(status == WEFT_PEER_FAILED && !part);
    CHECK(strcmp(weft_error_detail(), "the call before has failed") == 0);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    struct job job;
    for (int call = 0; call < 2; call++) {
        CHECK_OK(job_open(&job, "shm", NULL));
        if (rank == 0) {
            fails = WEFT_PEER_FAILED;
            CHECK(make_call(&job, call) == 0);
            fails = 0;
        } else {
            CHECK(weft_barrier(job.comm, NULL) == WEFT_REVOKED);
        }
        if (rank != 0 || call < 1)
            weft_comm_destroy(job.comm);
        CHECK_OK(weft_context_close(job.context));
    }
    return 0;
}

static void test_the_call_before(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_the_call_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
