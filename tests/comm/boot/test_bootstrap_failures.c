/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths, late ranks, revocations and exits once a communicator is there. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot/boot.h"
#include "tests/support/boot_party.h"
#include "tests/support/patience.h"

static int late_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(done);
    if (rank != 6 && rank != 9) {
        struct weft_blob *blobs;
        CHECK(weft_bootstrap_allgather(party.b, "allgather", "x", 1, &blobs,
                                       weft_deadline_ns(test_patient(300))) == WEFT_TIMEOUT);
        CHECK(party_detail_has("allgather: deadline passed, ranks 6, 9 of 11 did not come"));
        CHECK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(test_patient(300))) ==
              WEFT_TIMEOUT);
    }
    pthread_barrier_wait(done);
    CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
    party_close(&party);
    return 0;
}

static int late_root_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(done);
    if (rank != 0) {
        CHECK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(test_patient(200))) ==
              WEFT_TIMEOUT);
        CHECK(party_detail_has("barrier: deadline passed, rank 0 of 6 did not come"));
    }
    pthread_barrier_wait(done);
    party_close(&party);
    return 0;
}

static void test_late_ranks_are_named(void **state)
{
    (void)state;
    pthread_barrier_t done;
    pthread_barrier_init(&done, NULL, 11);
    assert_int_equal(party_run_threads(11, late_body, &done), 0);
    pthread_barrier_destroy(&done);
    pthread_barrier_init(&done, NULL, 6);
    assert_int_equal(party_run_threads(6, late_root_body, &done), 0);
    pthread_barrier_destroy(&done);
}

struct revoke_case {
    pthread_barrier_t done;
    const char *text;     /* that rank 7 gives */
    const char *expected; /* behind its host and process */
};

static int revoke_body(int rank, int ranks, void *arg)
{
    struct revoke_case *one = arg;
    struct party party;
    char text[512];
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&one->done); /* while somebody is still in open, it would be an error of that */
    if (rank == 7) {
        weft_bootstrap_revoke(party.b, one->text);
        weft_bootstrap_revoke(party.b, "again");
    } else {
        CHECK(party_wait_failed(&party, 1));
    }
    CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_REVOKED);
    CHECK(strncmp(text, "rank 7 on host '", 16) == 0 && strstr(text, one->expected));
    CHECK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)) == WEFT_REVOKED);
    CHECK(party_detail_has(one->expected));
    pthread_barrier_wait(&one->done);
    CHECK(__atomic_load_n(&party.calls, __ATOMIC_SEQ_CST) == (rank != 7));
    party_close(&party);
    return 0;
}

static void revoke_says(int ranks, const char *text, const char *expected)
{
    struct revoke_case one = {.text = text, .expected = expected};
    pthread_barrier_init(&one.done, NULL, (unsigned)ranks);
    assert_int_equal(party_run_threads(ranks, revoke_body, &one), 0);
    pthread_barrier_destroy(&one.done);
}

static void test_revoke_reaches_all(void **state)
{
    (void)state;
    revoke_says(23, "its transport broke", ") gave up: its transport broke");
    revoke_says(8, "rank 7 gave up after 5 ms: no end of it", ") gave up after 5 ms: no end of it");
    revoke_says(8, "rank 70 gave up", ") gave up: rank 70 gave up");
}

/* Ranks leave while others stay and look: nobody is called dead, and a gather says who is gone. */
static int leave_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    if (rank == 0 || rank == 2) {
        party_close(&party);
        pthread_barrier_wait(done);
    } else {
        pthread_barrier_wait(done);
        CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
        if (weft_boot_parent(rank) == 0) {
            CHECK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)) ==
                  WEFT_PEER_FAILED);
            CHECK(party_detail_has("rank 0 on host"));
            CHECK(party_detail_has("has left the communicator"));
        }
        CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
        pthread_barrier_wait(done);
        CHECK(__atomic_load_n(&party.calls, __ATOMIC_SEQ_CST) == 0);
        party_close(&party);
        return 0;
    }
    pthread_barrier_wait(done);
    return 0;
}

static void test_leaving_is_no_death(void **state)
{
    (void)state;
    pthread_barrier_t done;
    pthread_barrier_init(&done, NULL, 12);
    assert_int_equal(party_run_threads(12, leave_body, &done), 0);
    pthread_barrier_destroy(&done);
}

/* --- processes, since threads cannot be killed */

/* Shared between the processes. */
struct killing {
    int victim;
    int open_count; /* atomic: who has returned from open, before which a death would be an error of open */
};

static int killed_body(int rank, int ranks, void *arg)
{
    struct killing *killing = arg;
    struct party party;
    char text[512], expected[64];
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    __atomic_add_fetch(&killing->open_count, 1, __ATOMIC_SEQ_CST);
    if (rank == killing->victim) {
        while (__atomic_load_n(&killing->open_count, __ATOMIC_SEQ_CST) < ranks)
            usleep(500);
        kill(getpid(), SIGKILL);
    }
    if (rank % 2) { /* waiting in a call, or not */
        CHECK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)) == WEFT_PEER_FAILED);
        CHECK(party_detail_has("died: connection"));
    }
    CHECK(party_wait_failed(&party, 1));
    CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_PEER_FAILED);
    snprintf(expected, sizeof expected, "rank %d on host '", killing->victim);
    CHECK(strncmp(text, expected, strlen(expected)) == 0);
    party_close(&party);
    return 0;
}

static void test_killed_rank_is_named_everywhere(void **state)
{
    (void)state;
    static const int victims[] = {0, 1, 2, 5, 10};
    struct killing *killing =
        mmap(NULL, sizeof *killing, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(killing != MAP_FAILED);
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        int statuses[11];
        *killing = (struct killing){.victim = victims[i]};
        assert_int_equal(test_ranks_fork_status(11, killed_body, killing, statuses), 1);
        assert_true(WIFSIGNALED(statuses[victims[i]]) && WTERMSIG(statuses[victims[i]]) == SIGKILL);
    }
    munmap(killing, sizeof *killing);
}

/* Rank 0 is stopped: it cannot say who is missing, and that is what the others say. */
static int stopped_root_body(int rank, int ranks, void *arg)
{
    int *open_count = arg;
    struct party party;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pid_t root = (pid_t)party.b->members[0].pid;
    __atomic_add_fetch(open_count, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(open_count, __ATOMIC_SEQ_CST) < ranks)
        usleep(500);
    if (rank == 0) {
        kill(getpid(), SIGSTOP);
        return 1;
    }
    CHECK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(500)) == WEFT_TIMEOUT);
    CHECK(party_detail_has("rank 0 on host '"));
    CHECK(party_detail_has("does not answer who is missing"));
    __atomic_add_fetch(open_count, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(open_count, __ATOMIC_SEQ_CST) < 2 * ranks - 1)
        usleep(500);
    kill(root, SIGKILL);
    CHECK(party_wait_failed(&party, 1));
    party_close(&party);
    return 0;
}

static void test_stopped_root(void **state)
{
    (void)state;
    int statuses[3];
    int *open_count =
        mmap(NULL, sizeof *open_count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(open_count != MAP_FAILED);
    assert_int_equal(test_ranks_fork_status(3, stopped_root_body, open_count, statuses), 1);
    assert_true(WIFSIGNALED(statuses[0]));
    munmap(open_count, sizeof *open_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_rank_is_named_everywhere), /* forks first, while there are no threads */
        cmocka_unit_test(test_stopped_root),
        cmocka_unit_test(test_late_ranks_are_named),
        cmocka_unit_test(test_revoke_reaches_all),
        cmocka_unit_test(test_leaving_is_no_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
