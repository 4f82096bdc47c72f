/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes over real sockets: many at once, among strangers of all kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/net/accept.h"
#include "base/net/dial.h"
#include "base/net/socket.h"
#include "tests/support/attack.h"
#include "tests/support/descriptors.h"
#include "tests/support/leak.h"
#include "tests/support/patience.h"
#include "tests/support/skip.h"
#include <weft/weft.h>

#define DIALS       40
#define PATIENCE_MS ((int)test_patient(30000))

struct door {
    int listener;
    struct weft_net_address address;
    struct weft_key job;
    unsigned strangers;
    struct weft_net_accept *accept;
};

static void open_door(struct door *door, int expected)
{
    *door = (struct door){.address = {.family = 4, .ip = {127, 0, 0, 1}}};
    assert_int_equal(weft_auth_job_key("sixteen bytes and more", 22, &door->job), 0);
    assert_int_equal(weft_net_listen(&door->address, &door->listener, &door->address.port), 0);
    assert_int_equal(weft_net_accept_open("bootstrap", door->listener, &door->job, expected, &door->strangers,
                                          &door->accept),
                     0);
}

static void close_door(struct door *door)
{
    weft_net_accept_close(door->accept);
    weft_fd_close(door->listener);
}

static int knock(const struct door *door)
{
    int fd;
    attack_silent(door->address.port, &fd, 1);
    assert_true(fd >= 0);
    return fd;
}

/* Serves until something is proven, or for wait_ms. */
static int serve(struct door *door, struct weft_net_proven *proven, int wait_ms)
{
    int64_t until_ns = weft_deadline_ns(wait_ms);
    for (;;) {
        int status = weft_net_accept_step(door->accept, proven);
        if (status != 0)
            return status;
        int left_ms = weft_clock_left_ms(until_ns, wait_ms);
        struct pollfd wait = {.fd = weft_net_accept_fd(door->accept), .events = POLLIN};
        if (left_ms == 0 || (poll(&wait, 1, left_ms) == 0 && wait_ms < PATIENCE_MS))
            return 0;
    }
}

static void start_dial(struct weft_net_dial *dial, const struct door *door, const struct weft_key *job,
                       int rank)
{
    struct weft_auth_claims claims = {.purpose = WEFT_AUTH_EDGE, .rank = (uint32_t)rank, .peer = 77};
    assert_int_equal(weft_net_dial_start(dial, job, &door->address, &claims), 0);
}

/* Carries a dial on as far as it gets without waiting long; the door is served meanwhile. 1: proven. */
static int meet(struct door *door, struct weft_net_dial *dial, struct weft_net_proven *proven)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    int got = 0;
    while (weft_clock_ns() < until_ns && dial->state != WEFT_NET_DIAL_WELCOMED) {
        struct pollfd wait = {.fd = dial->fd, .events = weft_net_dial_events(dial)};
        if (poll(&wait, 1, 1) > 0 && weft_net_dial_step(dial) != 0)
            return -1;
        if (!got && serve(door, proven, 1) == 1) {
            got = 1;
            assert_int_equal(weft_net_welcome(proven), 0);
        }
    }
    return got;
}

static void test_one(void **state)
{
    (void)state;
    struct test_leak before;
    test_leak_take(&before);
    struct door door;
    struct weft_net_dial dial;
    struct weft_net_proven proven;
    open_door(&door, 1);
    start_dial(&dial, &door, &door.job, 5);
    assert_int_equal(meet(&door, &dial, &proven), 1);
    assert_int_equal(proven.claims.rank, 5);
    assert_int_equal(proven.claims.peer, 77);
    assert_int_equal(proven.claims.purpose, WEFT_AUTH_EDGE);
    assert_memory_equal(&proven.session.receive, &dial.session.send, sizeof dial.session.send);
    assert_memory_equal(&proven.session.send, &dial.session.receive, sizeof dial.session.send);
    assert_int_equal(door.strangers, 0);
    weft_fd_close(proven.fd);
    weft_net_dial_stop(&dial);
    close_door(&door);
    assert_int_equal(test_leak_check(&before), 0);
}

/* What follows the proof in the stream is left for who takes the connection. */
static void test_bytes_behind_the_proof(void **state)
{
    (void)state;
    struct door door;
    struct weft_net_dial dial;
    struct weft_net_proven proven;
    char text[8] = "";
    open_door(&door, 1);
    start_dial(&dial, &door, &door.job, 5);
    while (dial.state != WEFT_NET_DIAL_PROVEN) {
        struct pollfd wait = {.fd = dial.fd, .events = weft_net_dial_events(&dial)};
        assert_int_equal(serve(&door, &proven, 1), 0);
        if (poll(&wait, 1, 1) > 0)
            assert_int_equal(weft_net_dial_step(&dial), 0);
    }
    assert_int_equal(send(dial.fd, "behind", 6, MSG_NOSIGNAL), 6);
    assert_int_equal(serve(&door, &proven, PATIENCE_MS), 1);
    assert_int_equal(recv(proven.fd, text, sizeof text, MSG_WAITALL | MSG_DONTWAIT), 6);
    assert_string_equal(text, "behind");
    weft_fd_close(proven.fd);
    weft_net_dial_stop(&dial);
    close_door(&door);
}

static void *dial_thread(void *arg)
{
    struct weft_net_dial *dials = arg;
    weft_net_dial_all(dials, DIALS, weft_deadline_ns(PATIENCE_MS), NULL, NULL);
    return NULL;
}

/* Forty at once, while 1,500 strangers hold on to their connections, more than there are places. */
static void test_many_among_silent(void **state)
{
    (void)state;
    enum { STRANGERS = 1500, PLACES = 1024 };
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 4 * PLACES)
        TEST_SKIP("%d connections and their limit need %d descriptors, the hard limit is %llu", STRANGERS,
                  4 * PLACES, (unsigned long long)limit.rlim_max);
    if (limit.rlim_cur < 4 * PLACES) {
        limit.rlim_cur = 4 * PLACES;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    struct test_leak before;
    static int silent[STRANGERS];
    static struct weft_net_dial dials[DIALS];
    unsigned char seen[DIALS] = {0};
    struct door door;
    pthread_t thread;
    test_leak_take(&before);
    open_door(&door, DIALS);
    for (int i = 0; i < STRANGERS; i++)
        silent[i] = knock(&door);
    for (int i = 0; i < DIALS; i++)
        start_dial(&dials[i], &door, &door.job, i);
    assert_int_equal(pthread_create(&thread, NULL, dial_thread, dials), 0);
    for (int i = 0; i < DIALS; i++) {
        struct weft_net_proven proven;
        assert_int_equal(serve(&door, &proven, PATIENCE_MS), 1);
        assert_in_range(proven.claims.rank, 0, DIALS - 1);
        assert_int_equal(seen[proven.claims.rank], 0);
        seen[proven.claims.rank] = 1;
        assert_int_equal(weft_net_welcome(&proven), 0);
        weft_fd_close(proven.fd);
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < DIALS; i++) {
        assert_int_equal(dials[i].status, 0);
        assert_int_equal(dials[i].state, WEFT_NET_DIAL_WELCOMED);
        weft_net_dial_stop(&dials[i]);
    }
    assert_true(door.strangers >= STRANGERS - PLACES - DIALS - 1);
    for (int i = 0; i < STRANGERS; i++)
        close(silent[i]);
    close_door(&door);
    assert_int_equal(test_leak_check(&before), 0);
}

/* Each is shown out and counted; none is handed out, and the next honest dial gets through. */
static void test_strangers(void **state)
{
    (void)state;
    struct door door;
    struct weft_net_proven proven;
    struct weft_net_dial dial;
    struct weft_key wrong;
    char noise[500];
    open_door(&door, 1);
    close(knock(&door)); /* a port scan */
    assert_int_equal(serve(&door, &proven, 200), 0);
    assert_int_equal(door.strangers, 1);
    int fd = knock(&door);
    memset(noise, 0x5a, sizeof noise);
    assert_true(send(fd, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    assert_int_equal(serve(&door, &proven, 200), 0);
    assert_int_equal(door.strangers, 2);
    close(fd);
    fd = knock(&door); /* half a proof, then nothing, then the end */
    assert_true(send(fd, noise, WEFT_AUTH_PROOF_BYTES - 1, MSG_NOSIGNAL) > 0);
    assert_int_equal(serve(&door, &proven, 100), 0);
    assert_int_equal(door.strangers, 2);
    close(fd);
    assert_int_equal(serve(&door, &proven, 200), 0);
    assert_int_equal(door.strangers, 3);
    assert_int_equal(weft_auth_job_key("sixteen bytes and other", 23, &wrong), 0);
    start_dial(&dial, &door, &wrong, 1);
    assert_int_equal(meet(&door, &dial, &proven), -1);
    assert_non_null(strstr(weft_error_detail(), "secret"));
    assert_int_equal(door.strangers, 4);
    start_dial(&dial, &door, &door.job, 1);
    assert_int_equal(meet(&door, &dial, &proven), 1);
    assert_int_equal(door.strangers, 4);
    weft_fd_close(proven.fd);
    weft_net_dial_stop(&dial);
    close_door(&door);
}

/* A copy of this process's end of a connection, as a child has it that another thread is about to fork. */
static int copy_of_our_end(int theirs)
{
    struct weft_net_address wanted, peer;
    assert_int_equal(weft_net_local_address(theirs, &wanted), 0);
    for (int fd = 3; fd < 1024; fd++) {
        if (fd != theirs && weft_net_peer_address(fd, &peer) == 0 && peer.port == wanted.port)
            return dup(fd);
    }
    return -1;
}

/* Who was shown out is heard no more, although its connection lives on. */
static void test_copied_descriptor(void **state)
{
    (void)state;
    struct door door;
    struct weft_net_proven proven;
    char noise[500];
    open_door(&door, 1);
    int fd = knock(&door);
    assert_int_equal(serve(&door, &proven, 100), 0);
    int copy = copy_of_our_end(fd);
    assert_true(copy >= 0);
    memset(noise, 0x5a, sizeof noise);
    assert_true(send(fd, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    struct pollfd wait = {.fd = weft_net_accept_fd(door.accept), .events = POLLIN};
    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    assert_int_equal(weft_net_accept_step(door.accept, &proven), 0);
    assert_int_equal(door.strangers, 1);
    assert_true(send(fd, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    assert_int_equal(poll(&wait, 1, 100), 0);
    close(copy);
    close(fd);
    close_door(&door);
}

/* A proof that was overheard is worth nothing on the next connection. */
static void test_replayed_proof(void **state)
{
    (void)state;
    struct door door;
    struct weft_net_dial dial;
    struct weft_net_proven proven;
    open_door(&door, 1);
    start_dial(&dial, &door, &door.job, 1);
    assert_int_equal(meet(&door, &dial, &proven), 1);
    weft_fd_close(proven.fd);
    int fd = knock(&door);
    assert_true(send(fd, dial.proof, sizeof dial.proof, MSG_NOSIGNAL) > 0);
    assert_int_equal(serve(&door, &proven, 200), 0);
    assert_int_equal(door.strangers, 1);
    close(fd);
    weft_net_dial_stop(&dial);
    close_door(&door);
}

static void test_not_weft(void **state)
{
    (void)state;
    struct door door;
    struct weft_net_dial dial;
    open_door(&door, 1);
    start_dial(&dial, &door, &door.job, 1);
    struct pollfd wait = {.fd = door.listener, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    int fd = accept(door.listener, NULL, NULL);
    assert_true(fd >= 0);
    static const char banner[] = "SSH-2.0-something that is not a handshake of ours\r\n";
    assert_true(send(fd, banner, sizeof banner, MSG_NOSIGNAL) > 0);
    weft_net_dial_all(&dial, 1, weft_deadline_ns(PATIENCE_MS), NULL, NULL);
    assert_int_equal(dial.status, WEFT_PROTOCOL);
    assert_non_null(strstr(dial.reason, "does not begin a handshake"));
    assert_int_equal(dial.fd, -1);
    close(fd);
    close_door(&door);
}

/* Nobody listens; somebody listens but never answers. */
static void test_dial_in_vain(void **state)
{
    (void)state;
    struct door door;
    struct weft_net_dial dials[2];
    open_door(&door, 1);
    start_dial(&dials[0], &door, &door.job, 1);
    start_dial(&dials[1], &door, &door.job, 2);
    weft_net_dial_all(dials, 2, weft_deadline_ns(50), NULL, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dials[i].status, WEFT_TIMEOUT);
        assert_non_null(strstr(dials[i].reason, "no handshake before the deadline"));
    }
    close_door(&door);
    struct weft_auth_claims claims = {.purpose = WEFT_AUTH_EDGE};
    if (weft_net_dial_start(&dials[0], &door.job, &door.address, &claims) == 0)
        weft_net_dial_all(dials, 1, weft_deadline_ns(PATIENCE_MS), NULL, NULL);
    assert_int_equal(dials[0].status, WEFT_PEER_FAILED);
    assert_int_equal(dials[0].fd, -1);
}

/* Serves a dial with so many descriptors to spare, behind so many silent strangers. What meet() returns, or the error
 * of the first step. */
static int meet_with(int spare, int strangers)
{
    struct rlimit limit;
    struct door door;
    struct weft_net_dial dial;
    struct weft_net_proven proven = {.fd = -1};
    int silent[8];
    open_door(&door, 1);
    for (int i = 0; i < strangers; i++)
        silent[i] = knock(&door);
    start_dial(&dial, &door, &door.job, 1);
    getrlimit(RLIMIT_NOFILE, &limit);
    assert_true(test_descriptors_leave(spare));
    int status = spare ? meet(&door, &dial, &proven) : serve(&door, &proven, PATIENCE_MS);
    setrlimit(RLIMIT_NOFILE, &limit);
    if (proven.fd >= 0)
        weft_fd_close(proven.fd);
    weft_net_dial_stop(&dial);
    for (int i = 0; i < strangers; i++)
        close(silent[i]);
    close_door(&door);
    return status;
}

/* One descriptor is enough: strangers give it up. Without any that is said at once. */
static void test_last_descriptors(void **state)
{
    (void)state;
    for (int spare = 1; spare <= 3; spare++) {
        assert_int_equal(meet_with(spare, 0), 1);
        assert_int_equal(meet_with(spare, 8), 1);
    }
    assert_int_equal(meet_with(0, 0), WEFT_SYSTEM);
    assert_non_null(strstr(weft_error_detail(), "ulimit -n"));
}

/* The dialing side says which it was: no socket here, or nobody there. */
static void test_no_socket(void **state)
{
    (void)state;
    struct rlimit limit;
    struct door door;
    struct weft_net_dial dial;
    struct weft_auth_claims claims = {.purpose = WEFT_AUTH_EDGE};
    open_door(&door, 1);
    getrlimit(RLIMIT_NOFILE, &limit);
    assert_true(test_descriptors_leave(0));
    int status = weft_net_dial_start(&dial, &door.job, &door.address, &claims);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(status, WEFT_SYSTEM);
    assert_int_equal(dial.status, WEFT_SYSTEM);
    assert_non_null(strstr(dial.reason, "ulimit -n"));
    close_door(&door);
}

/* Whoever comes is challenged, however many come behind: more than there are places, each time. */
static void test_flood(void **state)
{
    (void)state;
    enum { LIMIT = 256, FLOOD = 120 };
    struct rlimit limit, low;
    struct door door;
    struct weft_net_dial dial;
    struct weft_net_proven proven = {.fd = -1};
    int silent[FLOOD];
    getrlimit(RLIMIT_NOFILE, &limit);
    low = limit;
    low.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    open_door(&door, 1);
    start_dial(&dial, &door, &door.job, 1);
    for (int i = 0; i < FLOOD; i++)
        silent[i] = knock(&door);
    assert_int_equal(meet(&door, &dial, &proven), 1);
    assert_int_equal(dial.state, WEFT_NET_DIAL_WELCOMED);
    weft_fd_close(proven.fd);
    weft_net_dial_stop(&dial);
    for (int i = 0; i < FLOOD; i++)
        close(silent[i]);
    close_door(&door);
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_bytes_behind_the_proof),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_replayed_proof),
        cmocka_unit_test(test_copied_descriptor),
        cmocka_unit_test(test_not_weft),
        cmocka_unit_test(test_dial_in_vain),
        cmocka_unit_test(test_last_descriptors),
        cmocka_unit_test(test_no_socket),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_many_among_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
