/* What goes wrong while ranks meet and gather, and what each of them then says. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot.h"
#include "comm/boot_net.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define PATIENCE_MS 20000 /* nothing here waits that long unless it is broken */

struct party {
    struct weft_service *service;
    struct weft_bootstrap *b;
    int calls; /* of failed, atomic */
};

static void on_failed(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static int party_open(struct party *party, int rank, int ranks, const char *name, int64_t timeout_ms)
{
    *party = (struct party){0};
    CHECK_OK(weft_service_start(&party->service));
    struct weft_bootstrap_options options = {.rank = rank,
                                             .ranks = ranks,
                                             .name = name,
                                             .listen_fd = -1,
                                             .address = test_ranks_address(),
                                             .deadline_ns = weft_deadline_ns(timeout_ms),
                                             .service = party->service,
                                             .failed = on_failed,
                                             .failed_arg = &party->calls};
    if (rank == 0)
        options.listen_fd = dup(test_ranks_listen_fd());
    int status = weft_bootstrap_open(&options, &party->b);
    if (status != WEFT_OK && options.listen_fd >= 0)
        close(options.listen_fd); /* still ours */
    return status;
}

static void party_close(struct party *party)
{
    weft_bootstrap_close(party->b);
    weft_service_stop(party->service);
}

static int detail_has(const char *part)
{
    if (strstr(weft_error_detail(), part))
        return 1;
    fprintf(stderr, "detail is '%s', expected '%s' in it\n", weft_error_detail(), part);
    return 0;
}

static int64_t left_ns(int64_t start_ns)
{
    return weft_clock_ns() - start_ns;
}

static int nothing(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    return 0;
}

static void run_threads(int ranks, test_rank_function *function, void *arg)
{
    test_ranks_threads(1, nothing, NULL); /* a sanitizer's own thread starts with the first */
    struct test_leak before;
    test_leak_take(&before);
    assert_int_equal(test_ranks_threads(ranks, function, arg), 0);
    assert_int_equal(test_leak_check(&before), 0);
}

static int missing_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 3 || rank >= 5)
        return 0;
    int64_t start_ns = weft_clock_ns();
    CHECK(party_open(&party, rank, ranks, "", 500) == WEFT_ABSENT);
    CHECK(left_ns(start_ns) >= INT64_C(300000000)); /* not before its time; the first deadline counts */
    CHECK(detail_has("ranks 3, 5-7 of 8 did not arrive within 0."));
    party_close(&party);
    return 0;
}

static void test_missing_ranks_are_named(void **state)
{
    (void)state;
    run_threads(8, missing_body, NULL);
}

static int no_root_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 0) {
        sleep(1); /* its socket stays open and takes connections, but nobody answers */
        return 0;
    }
    CHECK(party_open(&party, rank, ranks, "", 400) == WEFT_ABSENT);
    char expected[128];
    snprintf(expected, sizeof expected, "rank 0 did not answer at %s within 0.", test_ranks_address());
    CHECK(detail_has(expected));
    CHECK(detail_has("check-in was not answered"));
    party_close(&party);
    return 0;
}

static int no_root_refused(int rank, int ranks, void *arg)
{
    (void)arg;
    if (rank == 0)
        return 0;
    struct party party = {0};
    CHECK_OK(weft_service_start(&party.service));
    struct weft_bootstrap_options options = {.rank = rank,
                                             .ranks = ranks,
                                             .listen_fd = -1,
                                             .address = "127.0.0.1:1",
                                             .deadline_ns = weft_deadline_ns(300),
                                             .service = party.service};
    CHECK(weft_bootstrap_open(&options, &party.b) == WEFT_ABSENT);
    CHECK(detail_has("rank 0 did not answer at 127.0.0.1:1 within 0."));
    CHECK(detail_has("Connection refused"));
    party_close(&party);
    return 0;
}

static void test_absent_root_is_named(void **state)
{
    (void)state;
    run_threads(3, no_root_body, NULL);
    run_threads(3, no_root_refused, NULL);
}

static int wrong_size_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank, rank == 2 ? 5 : ranks, "", PATIENCE_MS) == WEFT_INVALID);
    CHECK(detail_has("rank 2 on host '"));
    CHECK(detail_has("says there are 5 ranks, rank 0 says 4"));
    party_close(&party);
    return 0;
}

static int duplicate_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank == 3 ? 2 : rank, ranks, "", PATIENCE_MS) == WEFT_INVALID);
    CHECK(detail_has("rank 2 exists twice: on host '"));
    party_close(&party);
    return 0;
}

static int second_root_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank == 3 ? 7 : rank, rank == 3 ? 8 : ranks, "", PATIENCE_MS) == WEFT_INVALID);
    CHECK(detail_has("says there are 8 ranks, rank 0 says 4"));
    party_close(&party);
    return 0;
}

static void test_disagreement_is_told_to_all(void **state)
{
    (void)state;
    int64_t start_ns = weft_clock_ns();
    run_threads(4, wrong_size_body, NULL);
    run_threads(4, duplicate_body, NULL);
    run_threads(4, second_root_body, NULL);
    assert_true(left_ns(start_ns) < PATIENCE_MS * INT64_C(1000000));
}

static int other_name_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank, ranks, rank == 2 ? "other" : "ours", 500) == WEFT_ABSENT);
    CHECK(rank == 2 ? detail_has("rank 0 did not answer")
                    : detail_has("rank 2 of 4 did not arrive within 0."));
    party_close(&party);
    return 0;
}

static void test_other_communicators_do_not_disturb(void **state)
{
    (void)state;
    run_threads(4, other_name_body, NULL);
}

/* --- a rank made by hand */

static int raw_connect(void)
{
    struct weft_boot_address address;
    int fd;
    if (weft_boot_address_parse(test_ranks_address(), &address) != WEFT_OK ||
        weft_boot_connect(&address, weft_deadline_ns(PATIENCE_MS), &fd) != WEFT_OK)
        return -1;
    return fd;
}

static int raw_checkin(int fd, int rank, int ranks, int version, uint64_t left_ms)
{
    struct weft_boot_checkin in = {.version_min = version,
                                   .version_max = version,
                                   .rank = (uint32_t)rank,
                                   .ranks = (uint32_t)ranks,
                                   .name_hash = weft_boot_name_hash(""),
                                   .left_ms = left_ms,
                                   .member = {.address = {.family = 4, .port = 9, .ip = {127, 0, 0, 1}}}};
    snprintf(in.member.host, sizeof in.member.host, "made-by-hand");
    struct weft_boot_writer body = {0};
    uint32_t sequence = 5;
    weft_boot_checkin_put(&body, &in);
    int status = weft_boot_send(fd, WEFT_BOOT_CHECKIN, &body, &sequence);
    free(body.data);
    return status;
}

/* Reads one of ACCEPTED, REFUSED, TABLE; the body is dropped unless it is wanted as a refusal. */
static int raw_read(int fd, struct weft_boot_reader *reader, struct weft_boot_refused *refused)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    int status = 0, idle;
    reader->accepts =
        WEFT_BOOT_BIT(WEFT_BOOT_ACCEPTED) | WEFT_BOOT_BIT(WEFT_BOOT_REFUSED) | WEFT_BOOT_BIT(WEFT_BOOT_TABLE);
    while (status == 0 && weft_clock_ns() < until_ns) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        weft_boot_poll(&wait, 1, until_ns, 100);
        status = weft_boot_receive(fd, reader, &idle);
    }
    if (status != 1)
        return -1;
    struct weft_boot_frame frame;
    weft_boot_reader_take(reader, &frame);
    if (frame.type == WEFT_BOOT_REFUSED && refused)
        status = weft_boot_refused_get(frame.body, frame.size, refused);
    free(frame.body);
    return status < 0 ? status : frame.type;
}

static int wrong_version_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 2) {
        struct weft_boot_reader reader = {0};
        struct weft_boot_refused refused;
        int fd = raw_connect();
        CHECK(fd >= 0);
        CHECK_OK(raw_checkin(fd, rank, ranks, 7, UINT64_MAX));
        CHECK(raw_read(fd, &reader, &refused) == WEFT_BOOT_REFUSED);
        CHECK(refused.status == WEFT_PROTOCOL);
        CHECK(strstr(refused.text, "rank 2 speaks bootstrap versions 7 to 7, rank 0 speaks 1 to 1"));
        close(fd);
        return 0;
    }
    CHECK(party_open(&party, rank, ranks, "", PATIENCE_MS) == WEFT_PROTOCOL);
    CHECK(detail_has("rank 2 speaks bootstrap versions 7 to 7"));
    party_close(&party);
    return 0;
}

static void test_wrong_version(void **state)
{
    (void)state;
    run_threads(4, wrong_version_body, NULL);
}

static int deserter_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 2) {
        struct weft_boot_reader reader = {0};
        int fd = raw_connect();
        CHECK(fd >= 0);
        CHECK_OK(raw_checkin(fd, rank, ranks, 1, UINT64_MAX));
        CHECK(raw_read(fd, &reader, NULL) == WEFT_BOOT_ACCEPTED);
        close(fd);
        return 0;
    }
    if (rank == 3)
        usleep(200000); /* the others wait for this one when rank 2 goes */
    CHECK(party_open(&party, rank, ranks, "", PATIENCE_MS) == WEFT_PEER_FAILED);
    CHECK(detail_has("rank 2 on host 'made-by-hand'"));
    CHECK(__atomic_load_n(&party.calls, __ATOMIC_SEQ_CST) == 0);
    party_close(&party);
    return 0;
}

static void test_death_after_checkin(void **state)
{
    (void)state;
    run_threads(5, deserter_body, NULL);
}

/* Rank 1 takes the table and then neither answers nor connects to its child, rank 5. */
static int idle_parent_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 1) {
        struct weft_boot_reader reader = {0};
        int fd = raw_connect();
        CHECK(fd >= 0);
        CHECK_OK(raw_checkin(fd, rank, ranks, 1, UINT64_MAX));
        CHECK(raw_read(fd, &reader, NULL) == WEFT_BOOT_ACCEPTED);
        CHECK(raw_read(fd, &reader, NULL) == WEFT_BOOT_TABLE);
        usleep(1500000);
        close(fd);
        return 0;
    }
    CHECK(party_open(&party, rank, ranks, "", 600) == WEFT_ABSENT);
    CHECK(detail_has("ranks 1, 5-6 of 7 did not come") || detail_has("heard nothing more from rank 1"));
    party_close(&party);
    return 0;
}

static void test_silence_after_checkin(void **state)
{
    (void)state;
    run_threads(7, idle_parent_body, NULL);
}

static int strangers_body(int rank, int ranks, void *arg)
{
    enum { SILENT = 300 }; /* more than are kept waiting */
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int silent[SILENT], count = 0;
    struct party party;
    (void)arg;
    if (rank == 1) {
        for (; count < SILENT && (silent[count] = raw_connect()) >= 0; count++) {
            unsigned char header[WEFT_BOOT_HEADER_BYTES];
            if (count % 3 == 0) {
                weft_boot_header_write(header, WEFT_BOOT_CHECKIN, count % 2 ? 80 : UINT64_MAX, 1);
                CHECK(send(silent[count], header, count % 5 ? 13 : sizeof header, MSG_NOSIGNAL) > 0);
            } else if (count % 3 == 1) {
                CHECK(send(silent[count], http, sizeof http, MSG_NOSIGNAL) > 0);
            }
        }
        CHECK(count == SILENT);
    }
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    CHECK_OK(weft_bootstrap_barrier(party.b, weft_deadline_ns(PATIENCE_MS)));
    for (int i = 0; i < count; i++)
        close(silent[i]);
    party_close(&party);
    return 0;
}

static void test_strangers_do_not_disturb(void **state)
{
    (void)state;
    run_threads(6, strangers_body, NULL);
}

/* Rank 0 meets 1,000 check-ins by hand and misses one: everybody hears which, when the last one's deadline,
 * the shortest of all, has passed. */
static int thousand_body(int rank, int ranks, void *arg)
{
    enum { RANKS = 1001, ABSENT_RANK = 500 };
    struct party party;
    (void)ranks;
    (void)arg;
    if (rank == 0) {
        CHECK(party_open(&party, 0, RANKS, "", PATIENCE_MS) == WEFT_ABSENT);
        CHECK(detail_has("rank 500 of 1001 did not arrive within "));
        party_close(&party);
        return 0;
    }
    int fds[RANKS];
    struct weft_boot_reader *readers = calloc(RANKS, sizeof *readers);
    CHECK(readers);
    for (int i = 1; i < RANKS; i++) {
        if (i == ABSENT_RANK)
            continue;
        fds[i] = raw_connect();
        CHECK(fds[i] >= 0);
        CHECK_OK(raw_checkin(fds[i], i, RANKS, 1, i == RANKS - 1 ? 100 : UINT64_MAX));
    }
    for (int i = 1; i < RANKS; i++) {
        struct weft_boot_refused refused;
        if (i == ABSENT_RANK)
            continue;
        CHECK(raw_read(fds[i], &readers[i], NULL) == WEFT_BOOT_ACCEPTED);
        CHECK(raw_read(fds[i], &readers[i], &refused) == WEFT_BOOT_REFUSED);
        CHECK(refused.status == WEFT_ABSENT && strstr(refused.text, "rank 500 of 1001 did not arrive"));
        close(fds[i]);
    }
    free(readers);
    return 0;
}

static void test_thousand_checkins(void **state)
{
    (void)state;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 4096)
        TEST_SKIP("both ends of 1000 connections need 4096 descriptors, the hard limit is %llu",
                  (unsigned long long)limit.rlim_max);
    struct rlimit more = {.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    if (limit.rlim_cur < 4096)
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
    run_threads(2, thousand_body, NULL);
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* --- after the start */

static int late_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    if (rank != 6 && rank != 9) {
        struct weft_blob *blobs;
        CHECK(weft_bootstrap_allgather(party.b, "x", 1, &blobs, weft_deadline_ns(300)) == WEFT_TIMEOUT);
        CHECK(detail_has("allgather: deadline passed, ranks 6, 9 of 11 did not come"));
        CHECK(weft_bootstrap_barrier(party.b, weft_deadline_ns(300)) == WEFT_TIMEOUT);
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
    if (rank != 0) {
        CHECK(weft_bootstrap_barrier(party.b, weft_deadline_ns(200)) == WEFT_TIMEOUT);
        CHECK(detail_has("barrier: deadline passed, rank 0 of 6 did not come"));
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
    run_threads(11, late_body, &done);
    pthread_barrier_destroy(&done);
    pthread_barrier_init(&done, NULL, 6);
    run_threads(6, late_root_body, &done);
    pthread_barrier_destroy(&done);
}

static int wait_failed(struct party *party, int calls)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    while (
        (!weft_bootstrap_has_failed(party->b) || __atomic_load_n(&party->calls, __ATOMIC_SEQ_CST) < calls) &&
        weft_clock_ns() < until_ns)
        usleep(500);
    return weft_bootstrap_has_failed(party->b) && __atomic_load_n(&party->calls, __ATOMIC_SEQ_CST) == calls;
}

static int revoke_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    char text[512];
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(done); /* while somebody is still in open, it would be an error of that */
    if (rank == 7) {
        weft_bootstrap_revoke(party.b, "its transport broke");
        weft_bootstrap_revoke(party.b, "again");
    } else {
        CHECK(wait_failed(&party, 1));
    }
    CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_REVOKED);
    CHECK(strncmp(text, "rank 7 on host '", 16) == 0 && strstr(text, "gave up: its transport broke"));
    CHECK(weft_bootstrap_barrier(party.b, weft_deadline_ns(PATIENCE_MS)) == WEFT_REVOKED);
    CHECK(detail_has("gave up: its transport broke"));
    pthread_barrier_wait(done);
    CHECK(__atomic_load_n(&party.calls, __ATOMIC_SEQ_CST) == (rank != 7));
    party_close(&party);
    return 0;
}

static void test_revoke_reaches_all(void **state)
{
    (void)state;
    pthread_barrier_t done;
    pthread_barrier_init(&done, NULL, 23);
    run_threads(23, revoke_body, &done);
    pthread_barrier_destroy(&done);
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
            CHECK(weft_bootstrap_barrier(party.b, weft_deadline_ns(PATIENCE_MS)) == WEFT_PEER_FAILED);
            CHECK(detail_has("rank 0 on host"));
            CHECK(detail_has("has left the communicator"));
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
    run_threads(12, leave_body, &done);
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
        CHECK(weft_bootstrap_barrier(party.b, weft_deadline_ns(PATIENCE_MS)) == WEFT_PEER_FAILED);
        CHECK(detail_has("died: connection"));
    }
    CHECK(wait_failed(&party, 1));
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
    CHECK(weft_bootstrap_barrier(party.b, weft_deadline_ns(500)) == WEFT_TIMEOUT);
    CHECK(detail_has("rank 0 on host '"));
    CHECK(detail_has("does not answer who is missing"));
    __atomic_add_fetch(open_count, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(open_count, __ATOMIC_SEQ_CST) < 2 * ranks - 1)
        usleep(500);
    kill(root, SIGKILL);
    CHECK(wait_failed(&party, 1));
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
        cmocka_unit_test(test_missing_ranks_are_named),
        cmocka_unit_test(test_absent_root_is_named),
        cmocka_unit_test(test_disagreement_is_told_to_all),
        cmocka_unit_test(test_other_communicators_do_not_disturb),
        cmocka_unit_test(test_wrong_version),
        cmocka_unit_test(test_death_after_checkin),
        cmocka_unit_test(test_silence_after_checkin),
        cmocka_unit_test(test_strangers_do_not_disturb),
        cmocka_unit_test(test_thousand_checkins),
        cmocka_unit_test(test_late_ranks_are_named),
        cmocka_unit_test(test_revoke_reaches_all),
        cmocka_unit_test(test_leaving_is_no_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
