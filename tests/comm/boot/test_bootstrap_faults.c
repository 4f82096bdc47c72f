/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines) */
/* What goes wrong while ranks meet, and what each of them then says. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot/boot.h"
#include "base/net/socket.h"
#include "comm/boot/net.h"
#include "tests/support/attack.h"
#include "tests/support/boot_party.h"
#include "tests/support/patience.h"
#include "tests/support/heartbeat.h"
#include "tests/support/skip.h"

/* A deadline that is to pass, but not before others have done their part. */
#define BRIEF_MS test_patient(500)

static int64_t left_ns(int64_t start_ns)
{
    return weft_clock_ns() - start_ns;
}

static int missing_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 3 || rank >= 5)
        return 0;
    int64_t start_ns = weft_clock_ns();
    CHECK(party_open(&party, rank, ranks, "", BRIEF_MS) == WEFT_RANKS_ABSENT);
    CHECK(left_ns(start_ns) >=
          BRIEF_MS * INT64_C(600000)); /* not before its time; the first deadline counts */
    CHECK(party_detail_has("ranks 3, 5-7 of 8 did not arrive within "));
    party_close(&party);
    return 0;
}

static void test_missing_ranks_are_named(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(8, missing_body, NULL), 0);
}

static int no_root_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 0) {
        usleep((useconds_t)BRIEF_MS *
               2000); /* its socket stays open and takes connections, but nobody answers */
        return 0;
    }
    CHECK(party_open(&party, rank, ranks, "", BRIEF_MS) == WEFT_RANKS_ABSENT);
    char expected[128];
    snprintf(expected, sizeof expected, "rank 0 did not answer at %s within ", test_ranks_address());
    CHECK(party_detail_has(expected));
    CHECK(party_detail_has("check-in was not answered"));
    party_close(&party);
    return 0;
}

static int no_root_refused(int rank, int ranks, void *arg)
{
    (void)arg;
    if (rank == 0)
        return 0;
    struct party party = {0};
    CHECK_OK(weft_service_start("weft-test", &party.service));
    struct weft_bootstrap_options options = {.rank = rank,
                                             .ranks = ranks,
                                             .listen_fd = -1,
                                             .address = "127.0.0.1:1",
                                             .secret = TEST_SECRET,
                                             .secret_size = TEST_SECRET_BYTES,
                                             .deadline_ns = weft_deadline_ns(BRIEF_MS),
                                             .service = party.service};
    CHECK(weft_bootstrap_open(&options, &party.b) == WEFT_RANKS_ABSENT);
    CHECK(party_detail_has("rank 0 did not answer at 127.0.0.1:1 within "));
    CHECK(party_detail_has("Connection refused"));
    party_close(&party);
    return 0;
}

static void test_absent_root_is_named(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(3, no_root_body, NULL), 0);
    assert_int_equal(party_run_threads(3, no_root_refused, NULL), 0);
}

static int wrong_size_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank, rank == 2 ? 5 : ranks, "", PATIENCE_MS) == WEFT_INVALID);
    CHECK(party_detail_has("rank 2 on host '"));
    CHECK(party_detail_has("says there are 5 ranks, rank 0 says 4"));
    party_close(&party);
    return 0;
}

static int duplicate_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank == 3 ? 2 : rank, ranks, "", PATIENCE_MS) == WEFT_INVALID);
    CHECK(party_detail_has("rank 2 exists twice: on host '"));
    party_close(&party);
    return 0;
}

static int second_root_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank == 3 ? 7 : rank, rank == 3 ? 8 : ranks, "", PATIENCE_MS) == WEFT_INVALID);
    CHECK(party_detail_has("says there are 8 ranks, rank 0 says 4"));
    party_close(&party);
    return 0;
}

static void test_disagreement_reaches_all(void **state)
{
    (void)state;
    int64_t start_ns = weft_clock_ns();
    assert_int_equal(party_run_threads(4, wrong_size_body, NULL), 0);
    assert_int_equal(party_run_threads(4, duplicate_body, NULL), 0);
    assert_int_equal(party_run_threads(4, second_root_body, NULL), 0);
    assert_true(left_ns(start_ns) < PATIENCE_MS * INT64_C(1000000));
}

static int other_name_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(party_open(&party, rank, ranks, rank == 2 ? "other" : "ours", BRIEF_MS) == WEFT_RANKS_ABSENT);
    CHECK(rank == 2 ? party_detail_has("rank 0 did not answer")
                    : party_detail_has("rank 2 of 4 did not arrive within "));
    party_close(&party);
    return 0;
}

static void test_other_communicators_do_not_disturb(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(4, other_name_body, NULL), 0);
}

/* A party with a secret of its own, or with none. */
static int open_with_secret(struct party *party, int rank, int ranks, const char *secret, int64_t timeout_ms)
{
    *party = (struct party){0};
    CHECK_OK(weft_service_start("weft-test", &party->service));
    struct weft_bootstrap_options options = {.rank = rank,
                                             .ranks = ranks,
                                             .listen_fd = rank == 0 ? dup(test_ranks_listen_fd()) : -1,
                                             .secret = secret,
                                             .secret_size = secret ? strlen(secret) : 0,
                                             .address = test_ranks_address(),
                                             .heartbeat_ms = TEST_HEARTBEAT_MS,
                                             .deadline_ns = weft_deadline_ns(timeout_ms),
                                             .service = party->service};
    int status = weft_bootstrap_open(&options, &party->b);
    if (options.listen_fd >= 0)
        close(options.listen_fd);
    return status;
}

static int other_secret_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    const char *secret = rank == 2 ? "sixteen letters, not the same" : "sixteen letters and a few more";
    CHECK(open_with_secret(&party, rank, ranks, secret, 3 * BRIEF_MS) == WEFT_RANKS_ABSENT);
    CHECK(rank == 2 ? party_detail_has("has every rank the same secret?")
                    : party_detail_has("rank 2 of 4 did not arrive within "));
    CHECK(rank == 2 || party_detail_has("connections did not prove the job's secret"));
    party_close(&party);
    return 0;
}

static int bad_secret_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    CHECK(open_with_secret(&party, rank, ranks, NULL, PATIENCE_MS) == WEFT_INVALID);
    CHECK(party_detail_has(
        "set WEFT_SECRET_FILE to the absolute path of a file of 16 random bytes or more, mode 0600"));
    party_close(&party);
    CHECK(open_with_secret(&party, rank, ranks, "too short", PATIENCE_MS) == WEFT_INVALID);
    CHECK(party_detail_has("the secret has 9 bytes: expected 16 to 4096"));
    party_close(&party);
    return 0;
}

static void test_secrets(void **state)
{
    (void)state;
    unsetenv("WEFT_SECRET_FILE");
    unsetenv("WEFT_SECRET_FD");
    assert_int_equal(party_run_threads(4, other_secret_body, NULL), 0);
    assert_int_equal(party_run_threads(2, bad_secret_body, NULL), 0);
}

/* --- a rank made by hand */

struct raw {
    struct weft_key job;
    struct weft_net_dial dial;
    struct weft_boot_link link; /* once it is welcomed */
    uint16_t port;              /* where it says that it listens */
};

static int raw_address(struct weft_net_address *address)
{
    return weft_net_address_parse(test_ranks_address(), address) == WEFT_OK;
}

/* A connection that has proven the secret, as this rank. */
static int raw_rank(struct raw *raw, int rank, int ranks)
{
    struct weft_net_address address;
    const struct weft_auth_claims claims = {.purpose = WEFT_AUTH_CHECKIN,
                                            .rank = (uint32_t)rank,
                                            .ranks = (uint32_t)ranks,
                                            .name_hash = weft_boot_name_hash("")};
    *raw = (struct raw){.dial = {.fd = -1}, .link = {.fd = -1}, .port = 9};
    if (!raw_address(&address) || weft_auth_job_key(TEST_SECRET, TEST_SECRET_BYTES, &raw->job) != WEFT_OK ||
        weft_net_dial_start(&raw->dial, &raw->job, &address, &claims) != WEFT_OK)
        return -1;
    weft_net_dial_all(&raw->dial, 1, weft_deadline_ns(PATIENCE_MS), NULL, NULL);
    if (raw->dial.status != WEFT_OK)
        return -1;
    weft_boot_link_open(&raw->link, raw->dial.fd, &raw->dial.session,
                        WEFT_BOOT_BIT(WEFT_BOOT_ACCEPTED) | WEFT_BOOT_BIT(WEFT_BOOT_REFUSED));
    raw->dial.fd = -1;
    return 0;
}

static void raw_close(struct raw *raw)
{
    weft_net_dial_stop(&raw->dial);
    weft_boot_link_close(&raw->link);
}

static int raw_checkin(struct raw *raw, uint64_t left_ms)
{
    struct weft_boot_checkin in = {
        .left_ms = left_ms, .member = {.address = {.family = 4, .port = raw->port, .ip = {127, 0, 0, 1}}}};
    snprintf(in.member.host, sizeof in.member.host, "made-by-hand");
    struct weft_boot_writer body = {0};
    weft_boot_checkin_put(&body, &in);
    int status = weft_boot_send(&raw->link, WEFT_BOOT_CHECKIN, &body);
    free(body.data);
    return status;
}

/* A check-in of another version: longer than ours, and of bytes that mean nothing to us. */
static int raw_checkin_of_version(struct raw *raw, int version)
{
    enum { BODY = 400 };
    unsigned char frame[WEFT_BOOT_HEADER_BYTES + BODY + WEFT_TAG_BYTES],
        *body = frame + WEFT_BOOT_HEADER_BYTES;
    static const unsigned char prefix[] = {'W', 'E', 'F', 'T'};
    memset(frame, 0, WEFT_BOOT_HEADER_BYTES);
    memset(body, 0xee, BODY);
    memcpy(frame, prefix, sizeof prefix);
    frame[4] = (unsigned char)version;
    frame[6] = WEFT_BOOT_CHECKIN;
    frame[8] = BODY & 0xff;
    frame[9] = BODY >> 8;
    weft_auth_seal(&raw->link.send, frame, WEFT_BOOT_HEADER_BYTES, body, BODY, body + BODY);
    return send(raw->link.fd, frame, sizeof frame, MSG_NOSIGNAL) == (ssize_t)sizeof frame ? 0 : -1;
}

/* Reads ACCEPTED or REFUSED; the body is dropped unless it is wanted as a refusal. */
static int raw_read(struct raw *raw, struct weft_boot_refused *refused)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    int status = 0, idle;
    while (status == 0 && weft_clock_ns() < until_ns) {
        struct pollfd wait = {.fd = raw->link.fd, .events = POLLIN};
        weft_net_poll(&wait, 1, until_ns, 100);
        status = weft_boot_receive(&raw->link, &idle);
    }
    if (status != 1)
        return -1;
    struct weft_boot_frame frame;
    weft_boot_reader_take(&raw->link.reader, &frame);
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
        struct weft_boot_refused refused;
        struct raw raw;
        CHECK_OK(raw_rank(&raw, rank, ranks));
        CHECK_OK(raw_checkin_of_version(&raw, 7));
        CHECK(raw_read(&raw, &refused) == WEFT_BOOT_REFUSED);
        CHECK(refused.status == WEFT_PROTOCOL);
        CHECK(strstr(refused.text, "rank 2 speaks version 7 of the bootstrap's protocol, rank 0 version 1"));
        raw_close(&raw);
        return 0;
    }
    CHECK(party_open(&party, rank, ranks, "", PATIENCE_MS) == WEFT_PROTOCOL);
    CHECK(party_detail_has("rank 2 speaks version 7 of the bootstrap's protocol"));
    party_close(&party);
    return 0;
}

static void test_wrong_version(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(4, wrong_version_body, NULL), 0);
}

static int deserter_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct party party;
    if (rank == 2) {
        struct raw raw;
        CHECK_OK(raw_rank(&raw, rank, ranks));
        CHECK_OK(raw_checkin(&raw, UINT64_MAX));
        CHECK(raw_read(&raw, NULL) == WEFT_BOOT_ACCEPTED);
        raw_close(&raw);
        return 0;
    }
    if (rank == 3)
        usleep(200000); /* the others wait for this one when rank 2 goes */
    CHECK(party_open(&party, rank, ranks, "", PATIENCE_MS) == WEFT_PEER_FAILED);
    CHECK(party_detail_has("rank 2 on host 'made-by-hand'"));
    CHECK(__atomic_load_n(&party.calls, __ATOMIC_SEQ_CST) == 0);
    party_close(&party);
    return 0;
}

static void test_death_after_checkin(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(5, deserter_body, NULL), 0);
}

/* One rank checks in, and then takes connections but answers none. */
struct silence {
    int rank;
    int first;   /* whose deadline passes long before the others' */
    int cancels; /* rank 1 does, long before any deadline */
    _Atomic int left;
};

static _Thread_local int64_t cancelled_ns;

static int is_cancelled(void *arg)
{
    (void)arg;
    return cancelled_ns && weft_clock_ns() >= cancelled_ns;
}

/* Who waits in the barrier hears of rank 1; those who dial the silent one hear from it as little as ever. */
static int silence_is_reported(const struct silence *silence, int rank, int status)
{
    char expected[96];
    snprintf(expected, sizeof expected,
             "rank %d on host 'made-by-hand' (pid 0) has checked in, but does not answer", silence->rank);
    if (silence->cancels && rank == 1)
        return status == WEFT_CANCELLED;
    if (silence->cancels && status != WEFT_RANKS_ABSENT)
        return status == WEFT_REVOKED && party_detail_has("rank 1 on host '") && party_detail_has("gave up");
    return status == WEFT_RANKS_ABSENT && party_detail_has(expected);
}

static int silence_body(int rank, int ranks, void *arg)
{
    struct silence *silence = arg;
    struct party party;
    if (rank == silence->rank) {
        const struct weft_net_address here = {.family = 4, .ip = {127, 0, 0, 1}};
        struct raw raw;
        int listener;
        CHECK_OK(raw_rank(&raw, rank, ranks));
        CHECK_OK(weft_net_listen(&here, &listener, &raw.port));
        CHECK_OK(raw_checkin(&raw, UINT64_MAX));
        CHECK(raw_read(&raw, NULL) == WEFT_BOOT_ACCEPTED);
        while (silence->left < ranks - 1)
            usleep(1000);
        close(listener);
        raw_close(&raw);
        return 0;
    }
    cancelled_ns = silence->cancels && rank == 1 ? weft_deadline_ns(1000) : 0;
    int status = party_open(&party, rank, ranks, "", rank == silence->first ? 3000 : 8000);
    int named = silence_is_reported(silence, rank, status);
    party_close(&party);
    ++silence->left;
    CHECK(named);
    return 0;
}

/* Everybody names it: those who dial it, those who wait for these in the barrier, and those who wait for the table. */
static void test_silence_after_checkin(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(7, silence_body, &(struct silence){.rank = 1, .first = 0}), 0);
    assert_int_equal(party_run_threads(12, silence_body, &(struct silence){.rank = 9, .first = 1}), 0);
}

/* One that gives up on it has not died. */
static void test_silence_and_cancel(void **state)
{
    (void)state;
    party_extra(&(struct party_extra){.cancelled = is_cancelled});
    assert_int_equal(
        party_run_threads(12, silence_body, &(struct silence){.rank = 9, .first = -1, .cancels = 1}), 0);
    party_extra(&(struct party_extra){0});
}

/* A copy of rank 0's end of a connection, as a child has it that another thread is about to fork. fcntl() makes it, and
 * not dup(): rank 0's thread closes its end later and no order is promised to it, which a thread sanitizer that watches
 * descriptors would call a race. */
static int copy_of_roots_end(int theirs)
{
    struct weft_net_address wanted, peer;
    if (weft_net_local_address(theirs, &wanted) != WEFT_OK)
        return -1;
    for (int fd = 3; fd < 1024; fd++) {
        if (fd != theirs && weft_net_peer_address(fd, &peer) == WEFT_OK && peer.port == wanted.port)
            return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    }
    return -1;
}

/* Who has proven the secret, and then talks nonsense, is dropped: nothing more from there disturbs, although the
 * connection lives on. */
static int copied_visitor_body(int rank, int ranks, void *arg)
{
    struct party party;
    int copy = -1;
    struct raw raw;
    (void)arg;
    if (rank == 1) {
        char nonsense[200] = "", byte;
        CHECK_OK(raw_rank(&raw, rank, ranks));
        copy = copy_of_roots_end(raw.link.fd);
        CHECK(copy >= 0);
        CHECK(send(raw.link.fd, nonsense, sizeof nonsense, MSG_NOSIGNAL) > 0);
        /* Rank 0 reads no further than what makes no sense; it does not read the rest then, either. */
        usleep(200000);
        CHECK(send(raw.link.fd, nonsense, sizeof nonsense, MSG_NOSIGNAL) > 0);
        usleep(200000);
        CHECK(recv(copy, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1);
    }
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    party_close(&party);
    if (rank == 1) {
        close(copy);
        raw_close(&raw);
    }
    return 0;
}

static void test_copied_visitor(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(3, copied_visitor_body, NULL), 0);
}

static int strangers_body(int rank, int ranks, void *arg)
{
    enum { SILENT = 300 }; /* more than are kept waiting */
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int silent[SILENT], count = 0;
    struct party party;
    (void)arg;
    if (rank == 1) {
        struct weft_net_address address;
        CHECK(raw_address(&address));
        attack_silent(address.port, silent, SILENT);
        for (; count < SILENT && silent[count] >= 0; count++) {
            static const unsigned char header[WEFT_BOOT_HEADER_BYTES] = {
                'W', 'E', 'F', 'T', 1, 0, WEFT_BOOT_CHECKIN};
            if (count % 3 == 0) {
                CHECK(send(silent[count], header, count % 5 ? 13 : sizeof header, MSG_NOSIGNAL) > 0);
            } else if (count % 3 == 1) {
                CHECK(send(silent[count], http, sizeof http, MSG_NOSIGNAL) > 0);
            }
        }
        CHECK(count == SILENT);
    }
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    CHECK_OK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)));
    for (int i = 0; i < count; i++)
        close(silent[i]);
    party_close(&party);
    return 0;
}

static void test_strangers_do_not_disturb(void **state)
{
    (void)state;
    assert_int_equal(party_run_threads(6, strangers_body, NULL), 0);
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
        CHECK(party_open(&party, 0, RANKS, "", PATIENCE_MS) == WEFT_RANKS_ABSENT);
        CHECK(party_detail_has("rank 500 of 1001 did not arrive within "));
        party_close(&party);
        return 0;
    }
    struct raw *raws = calloc(RANKS, sizeof *raws);
    CHECK(raws);
    for (int i = 1; i < RANKS; i++) {
        if (i == ABSENT_RANK)
            continue;
        CHECK_OK(raw_rank(&raws[i], i, RANKS));
        CHECK_OK(raw_checkin(&raws[i], i == RANKS - 1 ? 100 : UINT64_MAX));
    }
    for (int i = 1; i < RANKS; i++) {
        struct weft_boot_refused refused;
        if (i == ABSENT_RANK)
            continue;
        CHECK(raw_read(&raws[i], NULL) == WEFT_BOOT_ACCEPTED);
        CHECK(raw_read(&raws[i], &refused) == WEFT_BOOT_REFUSED);
        CHECK(refused.status == WEFT_RANKS_ABSENT && strstr(refused.text, "rank 500 of 1001 did not arrive"));
        raw_close(&raws[i]);
    }
    free(raws);
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
    assert_int_equal(party_run_threads(2, thousand_body, NULL), 0);
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_ranks_are_named),
        cmocka_unit_test(test_absent_root_is_named),
        cmocka_unit_test(test_disagreement_reaches_all),
        cmocka_unit_test(test_other_communicators_do_not_disturb),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_wrong_version),
        cmocka_unit_test(test_death_after_checkin),
        cmocka_unit_test(test_silence_after_checkin),
        cmocka_unit_test(test_silence_and_cancel),
        cmocka_unit_test(test_copied_visitor),
        cmocka_unit_test(test_strangers_do_not_disturb),
        cmocka_unit_test(test_thousand_checkins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
