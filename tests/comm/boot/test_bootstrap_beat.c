/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (heartbeats) */
/* The failure detector: silent ranks are declared dead and hear so, ranks that only did not run are not; what is
 * announced about deaths; reports to rank 0 and revocations with a status.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot/consensus/wave.h"
#include "tests/support/boot_party.h"
#include "tests/support/heartbeat.h"
#include "tests/support/skip.h"

enum { RANKS = 6, MANY = 21 };

/* Shared between processes. */
struct shared {
    int victim;
    int here[8];  /* atomic: how often each rank has passed meet() */
    int pids[8];  /* atomic */
    int steps[8]; /* atomic: of the two sides with namespaces */
};

static struct shared *share(void)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    memset(shared, 0, sizeof *shared);
    return shared;
}

/* Waits until `ranks` ranks have passed as often as this one. 0 when that does not happen. */
static int meet(struct shared *shared, int rank, int ranks)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    int mine = __atomic_add_fetch(&shared->here[rank], 1, __ATOMIC_SEQ_CST);
    for (int r = 0; r < ranks; r++) {
        while (__atomic_load_n(&shared->here[r], __ATOMIC_SEQ_CST) < mine) {
            if (weft_clock_ns() > until_ns)
                return 0;
            usleep(500);
        }
    }
    return 1;
}

static void pause_ms(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

/* Whether that is a death by silence, and no shorter one than the heartbeat. */
static int says_silent(const char *text)
{
    double silent_s = 0;
    const char *at = strstr(text, "died: silent for ");
    if (at && sscanf(at, "died: silent for %lf s", &silent_s) == 1 && silent_s * 1000 >= test_silence_ms())
        return 1;
    fprintf(stderr, "not silent for %d ms: '%s'\n", test_silence_ms(), text);
    return 0;
}

/* --- stopped, and what it hears */

static int stopped_rank(struct party *party, int ranks)
{
    char text[512];
    unsigned char dead[RANKS];
    struct weft_boot_agreement out = {.dead = dead};
    struct weft_bootstrap *b = party->b;
    (void)ranks;
    kill(getpid(), SIGSTOP);
    /* ... and goes on when the others are sure. */
    CHECK(party_wait_failed(party, 1));
    CHECK(weft_bootstrap_failure(b, text, sizeof text) == WEFT_PEER_FAILED);
    if (!strstr(text, "was declared dead by rank ") || !strstr(text, ": silent for "))
        fprintf(stderr, "the stopped rank says '%s'\n", text);
    CHECK(strstr(text, "was declared dead by rank ") && strstr(text, ": silent for "));
    CHECK(weft_bootstrap_barrier(b, "barrier", weft_deadline_ns(PATIENCE_MS)) == WEFT_PEER_FAILED);
    CHECK(weft_bootstrap_agree(b, 1, NULL, 0, weft_deadline_ns(PATIENCE_MS), &out) == WEFT_PEER_FAILED);
    CHECK(party_detail_has("was declared dead by rank "));
    return 0;
}

static int stop_body(int rank, int ranks, void *arg)
{
    struct shared *shared = arg;
    struct party party;
    struct weft_boot_death deaths[RANKS];
    unsigned char dead[RANKS];
    struct weft_boot_agreement out = {.dead = dead};
    char text[512], expected[64];
    int count, victim = shared->victim;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    shared->pids[rank] = getpid();
    CHECK(meet(shared, rank, ranks));
    if (rank == victim) {
        CHECK(stopped_rank(&party, ranks) == 0);
        party_close(&party);
        return 0;
    }
    CHECK(party_wait_failed(&party, 1));
    CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_PEER_FAILED);
    snprintf(expected, sizeof expected, "rank %d on host '", victim);
    CHECK(strncmp(text, expected, strlen(expected)) == 0 && says_silent(text));
    CHECK_OK(weft_bootstrap_agree(party.b, (uint64_t)rank | 32, &rank, sizeof rank,
                                  weft_deadline_ns(PATIENCE_MS), &out));
    CHECK(out.leader == (victim == 0) && (out.flags & 32));
    for (int r = 0; r < ranks; r++)
        CHECK(dead[r] == (r == victim));
    CHECK_OK(weft_bootstrap_deaths(party.b, deaths, RANKS, &count, weft_deadline_ns(PATIENCE_MS)));
    CHECK(count == 1 && deaths[0].rank == victim && deaths[0].host[0] &&
          strncmp(deaths[0].reason, "silent", 6) == 0);
    CHECK(llabs(deaths[0].time_ns / 1000000000 - (long long)time(NULL)) < 3600);
    /* All survivors are sure: let it go on. One does that, once: a leak check stops the threads of what ends by ptrace, and waits for ever
     * where a SIGCONT takes its stop away. */
    shared->here[victim] = 2;
    CHECK(meet(shared, rank, ranks));
    if (rank == (victim == 0))
        kill(shared->pids[victim], SIGCONT);
    party_close(&party);
    return 0;
}

static void test_stopped_rank_is_declared_dead(void **state)
{
    (void)state;
    static const int victims[] = {0, 1, 5};
    struct shared *shared = share();
    struct party_extra beat = {.heartbeat_ms = test_silence_ms()};
    party_extra(&beat);
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        memset(shared, 0, sizeof *shared);
        shared->victim = victims[i];
        assert_int_equal(test_ranks_fork(RANKS, stop_body, shared), 0);
    }
    munmap(shared, sizeof *shared);
}

/* --- the whole job stopped for longer than a heartbeat: nobody was silent while he could have spoken */

static int frozen_body(int rank, int ranks, void *arg)
{
    struct shared *shared = arg;
    struct party party;
    int job = ranks - 1; /* the last is not part of it, but stops and continues the others */
    if (rank < job)
        CHECK_OK(party_open(&party, rank, job, "", PATIENCE_MS));
    shared->pids[rank] = getpid();
    CHECK(rank || setpgid(0, 0) == 0);
    CHECK(meet(shared, rank, ranks));
    CHECK(rank == 0 || rank == job || setpgid(0, shared->pids[0]) == 0);
    CHECK(meet(shared, rank, ranks));
    /* A group: all stop at once on a slow machine, too. */
    for (int round = 0; rank == job && round < 2; round++) {
        CHECK(kill(-shared->pids[0], SIGSTOP) == 0);
        pause_ms(test_silence_ms() + 1500);
        CHECK(kill(-shared->pids[0], SIGCONT) == 0);
        pause_ms(500);
    }
    CHECK(meet(shared, rank, ranks));
    if (rank == job)
        return 0;
    CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
    CHECK_OK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)));
    CHECK(__atomic_load_n(&party.calls, __ATOMIC_SEQ_CST) == 0);
    party_close(&party);
    return 0;
}

static void test_frozen_job_goes_on(void **state)
{
    (void)state;
    struct shared *shared = share();
    struct party_extra beat = {.heartbeat_ms = test_silence_ms() + 1000};
    party_extra(&beat);
    assert_int_equal(test_ranks_fork(5, frozen_body, shared), 0);
    munmap(shared, sizeof *shared);
}

/* --- a link that goes down: three ranks, the last on another "host" */

#define NEAR "10.93.0.1"
#define FAR  "10.93.0.2"

static int shell(const char *format, int number)
{
    char command[256];
    snprintf(command, sizeof command, format, number);
    return system(command);
}

/* 0: there; 2: not allowed here. */
static int make_hosts(struct shared *shared, int rank)
{
    char path[64];
    shared->pids[rank] = getpid();
    if (rank != 1 && (unshare(CLONE_NEWNET) || shell("ip link set lo up 2>/dev/null", 0)))
        shared->steps[rank] = 1;
    if (!meet(shared, rank, 3))
        return 1;
    if (shared->steps[0] || shared->steps[2])
        return 2;
    snprintf(path, sizeof path, "/proc/%d/ns/net", shared->pids[0]);
    FILE *file = rank == 1 ? fopen(path, "r") : NULL;
    if (rank == 1 && (!file || setns(fileno(file), CLONE_NEWNET)))
        return 1;
    if (file)
        fclose(file);
    if (rank == 0 && shell("ip link add weft0 type veth peer name weft1 && ip link set weft1 netns %d && "
                           "ip address add " NEAR "/24 dev weft0 && ip link set weft0 up",
                           shared->pids[2]))
        shared->steps[0] = 1;
    if (!meet(shared, rank, 3))
        return 1;
    if (shared->steps[0])
        return 2;
    if (rank == 2 && shell("ip address add " FAR "/24 dev weft1 && ip link set weft1 up", 0))
        return 1;
    return !meet(shared, rank, 3);
}

static int link_body(int rank, int ranks, void *arg)
{
    struct shared *shared = arg;
    struct party party;
    char text[512];
    int made = make_hosts(shared, rank);
    if (made)
        return made;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    CHECK(meet(shared, rank, ranks));
    pause_ms(test_silence_ms() + 1000); /* nothing happens as long as the link is up */
    CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
    CHECK(meet(shared, rank, ranks));
    if (rank == 0)
        CHECK(shell("ip link set weft0 down", 0) == 0);
    CHECK(party_wait_failed(&party, 1));
    CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_PEER_FAILED);
    CHECK(says_silent(text));
    CHECK(strncmp(text, rank < 2 ? "rank 2 " : "rank ", rank < 2 ? 7 : 5) == 0);
    party_close(&party);
    return 0;
}

static void test_link_down(void **state)
{
    (void)state;
    int statuses[3];
    struct shared *shared = share();
    struct party_extra beat = {.heartbeat_ms = test_silence_ms(), .address = NEAR ":47311"};
    party_extra(&beat);
    int bad = test_ranks_fork_status(3, link_body, shared, statuses);
    munmap(shared, sizeof *shared);
    if (bad && WIFEXITED(statuses[0]) && WEXITSTATUS(statuses[0]) == 2)
        TEST_SKIP("network namespaces cannot be made here");
    assert_int_equal(bad, 0);
}

/* --- many deaths at once: everybody hears of all, with an interior of the tree that is gone */

struct interior {
    pthread_barrier_t all;
};

static int interior_body(int rank, int ranks, void *arg)
{
    struct interior *interior = arg;
    struct party party;
    struct weft_boot_death deaths[MANY];
    int count = 0;
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&interior->all);
    if (rank >= 1 && rank <= 4) {
        party_die(&party);
    } else {
        while (count < 4 && weft_clock_ns() < until_ns) {
            CHECK_OK(weft_bootstrap_deaths(party.b, deaths, MANY, &count, until_ns));
            usleep(500);
        }
        CHECK(count == 4);
        for (int i = 0; i < count; i++)
            CHECK(deaths[i].rank == i + 1);
    }
    pthread_barrier_wait(&interior->all);
    party_close(&party);
    return 0;
}

static void test_interior_ranks_die(void **state)
{
    (void)state;
    static const struct party_extra none;
    struct interior interior;
    party_extra(&none);
    pthread_barrier_init(&interior.all, NULL, MANY);
    assert_int_equal(party_run_threads(MANY, interior_body, &interior), 0);
    pthread_barrier_destroy(&interior.all);
}

/* --- reports, and revocations with a status */

struct reports {
    pthread_barrier_t all;
    int from[MANY]; /* atomic */
    struct party *root;
};

static void on_report(void *arg, int rank, enum weft_oob_channel channel, const void *record, size_t size)
{
    struct reports *reports = arg;
    int number;
    if (channel != WEFT_OOB_REPORT || size != sizeof number + (size_t)rank)
        return;
    memcpy(&number, record, sizeof number);
    if (number == 1000 + rank)
        __atomic_add_fetch(&reports->from[rank], 1, __ATOMIC_SEQ_CST);
    if (rank == 7) /* as a comparison of reports will */
        weft_bootstrap_revoke_as(reports->root->b, WEFT_MISMATCH, "rank 7 has another count: 8 instead of 9");
}

static int report_body(int rank, int ranks, void *arg)
{
    struct reports *reports = arg;
    struct party party;
    char record[WEFT_BOOTSTRAP_OOB_MAX] = {0}, text[512];
    int number = 1000 + rank;
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    if (rank == 0)
        reports->root = &party;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&reports->all);
    memcpy(record, &number, sizeof number);
    if (rank != 7)
        CHECK_OK(weft_bootstrap_send_oob(party.b, 0, WEFT_OOB_REPORT, record, sizeof number + (size_t)rank));
    for (int r = 0; r < ranks && rank == 0; r++) {
        while (r != 7 && __atomic_load_n(&reports->from[r], __ATOMIC_SEQ_CST) < 1 &&
               weft_clock_ns() < until_ns)
            usleep(500);
        CHECK(__atomic_load_n(&reports->from[r], __ATOMIC_SEQ_CST) == (r != 7));
    }
    CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
    pthread_barrier_wait(&reports->all);
    if (rank == 3)
        weft_bootstrap_revoke(party.b, "tired");
    if (rank == 7)
        CHECK_OK(weft_bootstrap_send_oob(party.b, 0, WEFT_OOB_REPORT, record, sizeof number + (size_t)rank));
    while (weft_bootstrap_failure(party.b, text, sizeof text) != WEFT_MISMATCH && weft_clock_ns() < until_ns)
        usleep(500);
    CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_MISMATCH);
    CHECK(strcmp(text, "rank 7 has another count: 8 instead of 9") == 0);
    CHECK(party_wait_failed(&party, 1)); /* rank 0 and 3 are called as well */
    weft_bootstrap_revoke_as(party.b, WEFT_TRANSPORT, "too late");
    CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_MISMATCH);
    pthread_barrier_wait(&reports->all);
    party_close(&party);
    return 0;
}

static void test_reports_and_their_verdict(void **state)
{
    (void)state;
    static struct reports reports;
    void *args[11];
    for (int r = 0; r < 11; r++)
        args[r] = &reports;
    struct party_extra extra = {.received = on_report, .received_args = args};
    party_extra(&extra);
    pthread_barrier_init(&reports.all, NULL, 11);
    assert_int_equal(party_run_threads(11, report_body, &reports), 0);
    pthread_barrier_destroy(&reports.all);
}

/* --- neighbours */

static void test_neighbours(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 5, 6, 7, 16, 17, 100, 1000, 1 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int ranks = sizes[s], step = ranks > 1000 ? 9973 : 1;
        for (int r = 0; r < ranks; r += step) {
            int list[WEFT_BOOT_DEGREE_MAX], back[WEFT_BOOT_DEGREE_MAX], tree;
            int count = weft_boot_neighbours(r, ranks, list, &tree);
            assert_true(count <= 45 && tree <= count && (ranks > 5 || count == ranks - 1));
            for (int i = 0; i < count; i++) {
                int back_tree, back_count = weft_boot_neighbours(list[i], ranks, back, &back_tree), at = 0;
                assert_true(list[i] >= 0 && list[i] < ranks && list[i] != r);
                while (at < back_count && back[at] != r)
                    at++;
                assert_true(at < back_count &&
                            (at < back_tree) == (i < tree)); /* both know, and agree which kind */
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_rank_is_declared_dead), /* forks first, while there are no threads */
        cmocka_unit_test(test_frozen_job_goes_on),
        cmocka_unit_test(test_link_down),
        cmocka_unit_test(test_interior_ranks_die),
        cmocka_unit_test(test_reports_and_their_verdict),
        cmocka_unit_test(test_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
