/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi */
/* When a connection of the ofi transport counts as over: only once no socket of it can be read any more, and not
 * because an operation could not be started. Sockets over loopback play the connections, without libfabric. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#if __has_include(<rdma/fabric.h>)
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fakes/ofi/ofi_fake.h"
#include "tests/support/patience.h"
#include "transport/ofi/ofi.h"

#define LIMIT_NS test_patient(60000000000)

/* A link between two instances that listen; connections are made by hand. */
struct scene {
    struct ofi_fake *own, *peer;
    struct weft_link *link;
    int own_listens, peer_listens;
};

static struct sockaddr_in listen_at(int *fd)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*fd >= 0 && bind(*fd, (struct sockaddr *)&name, size) == 0 && listen(*fd, 8) == 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&name, &size), 0);
    return name;
}

static void be_at(struct ofi_fake *fake, struct sockaddr_in name)
{
    struct ofi_address *address = &fake->transport->address;
    address->format = fake->transport->info->addr_format = FI_SOCKADDR_IN;
    address->name_size = sizeof name;
    memcpy(address->name, &name, sizeof name);
    fake->transport->address_size = OFI_ADDRESS_FIXED + sizeof name;
}

static struct scene scene_open(void)
{
    struct scene scene = {.own = ofi_fake_open(1, 0), .peer = ofi_fake_open(2, 0)};
    be_at(scene.own, listen_at(&scene.own_listens));
    be_at(scene.peer, listen_at(&scene.peer_listens));
    struct ofi_address *to = &scene.peer->transport->address;
    assert_int_equal(
        ofi_connect(scene.own->transport, to, scene.peer->transport->address_size, &scene, &scene.link), 0);
    scene.link->pending = 0;
    scene.own->transport->links_pending = 0;
    scene.link->state = OFI_LINK_UP;
    return scene;
}

static void scene_close(struct scene *scene)
{
    close(scene->own_listens);
    close(scene->peer_listens);
    ofi_fake_close(scene->own);
    ofi_fake_close(scene->peer);
}

static uint16_t connect_to(int listens, int *fd, int *accepted)
{
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    assert_int_equal(getsockname(listens, (struct sockaddr *)&name, &size), 0);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*fd >= 0 && connect(*fd, (struct sockaddr *)&name, size) == 0);
    *accepted = accept(listens, NULL, NULL);
    assert_true(*accepted >= 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&name, &size), 0);
    return ntohs(name.sin_port);
}

static void fill(int fd)
{
    static const char bytes[65536];
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
        continue;
}

/* A rank whose descriptors strangers have filled says so, beside which limit to raise. */
static void strangers_are_counted(void **state)
{
    (void)state;
    enum { STRANGERS = 20 };
    int fds[STRANGERS + 1][2];
    char text[OFI_LIMIT_TEXT];
    struct scene scene = scene_open();
    assert_null(strstr(ofi_limit_reached(scene.own->transport, -EMFILE, 0, text, sizeof text), "of them"));
    assert_non_null(strstr(text, "ulimit -n"));
    for (int i = 0; i <= STRANGERS; i++) /* one of them is the peer's, whose link is up */
        connect_to(scene.own_listens, &fds[i][0], &fds[i][1]);
    ofi_limit_reached(scene.own->transport, -EMFILE, 0, text, sizeof text);
    assert_non_null(
        strstr(text, "raise it with ulimit -n; 20 of them are connections to this rank's listener"));
    assert_non_null(strstr(text, "(docs/security.md)"));
    for (int i = 0; i <= STRANGERS; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
    scene_close(&scene);
}

static void await_closed(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int64_t until_ns = weft_clock_ns() + LIMIT_NS;
    while (info.tcpi_state != TCP_CLOSE && weft_clock_ns() < until_ns)
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    assert_int_equal(info.tcpi_state, TCP_CLOSE);
}

static void assert_nameless_and_unread(int fd)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    int unread = 0;
    assert_int_equal(getpeername(fd, (struct sockaddr *)&name, &size), -1);
    assert_int_equal(errno, ENOTCONN);
    assert_int_equal(ioctl(fd, FIONREAD, &unread), 0);
    assert_true(unread > 0);
}

/* Whoever made the connection: what was cut while the peer was writing is reset, and can be read to its end. */
static void cut(int by_peer)
{
    struct scene scene = scene_open();
    char bytes[256];
    int ours, theirs;
    if (by_peer)
        scene.link->peer_port = connect_to(scene.own_listens, &theirs, &ours);
    else
        scene.link->own_port = connect_to(scene.peer_listens, &ours, &theirs);
    fill(theirs);
    ofi_sever_begin(scene.link, "a test");
    assert_int_equal(scene.link->state, OFI_LINK_FAILED);
    assert_int_equal(scene.link->sever, OFI_SEVER_SHUT);
    fill(theirs);
    /* What the kernel held back meets the reset, now or when there is room. */
    assert_true(read(ours, bytes, sizeof bytes) > 0);
    close(theirs);
    await_closed(ours);
    assert_nameless_and_unread(ours);
    assert_int_equal(ofi_sever_done(scene.link), 0);
    assert_true(read(ours, bytes, sizeof bytes) > 0);
    assert_int_equal(ofi_sever_done(scene.link), 0);
    close(ours);
    assert_int_equal(ofi_sever_done(scene.link), 1);
    scene_close(&scene);
}

static void a_cut_socket_counts_until_it_is_closed(void **state)
{
    (void)state;
    cut(0);
    cut(1);
}

/* A peer that was killed resets the connection before anything was cut. */
static void a_reset_socket_counts_too(void **state)
{
    (void)state;
    struct scene scene = scene_open();
    int ours, theirs;
    scene.link->own_port = connect_to(scene.peer_listens, &ours, &theirs);
    fill(theirs);
    struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(theirs, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    assert_int_equal(ofi_connection_ended(scene.link, 1), 0);
    close(theirs);
    await_closed(ours);
    assert_nameless_and_unread(ours);
    assert_int_equal(ofi_connection_ended(scene.link, 1), 1);
    scene.link->lost = 1;
    ofi_sever_begin(scene.link, "a test");
    assert_int_equal(scene.link->sever, OFI_SEVER_SHUT);
    assert_int_equal(ofi_sever_done(scene.link), 0);
    close(ours);
    assert_int_equal(ofi_sever_done(scene.link), 1);
    scene_close(&scene);
}

/* The socket is gone: over, unless there is one that may have taken its place. */
static void a_replaced_connection_is_not_over(void **state)
{
    (void)state;
    struct scene scene = scene_open();
    int ours, theirs, other_ours, other_theirs;
    scene.link->own_port = connect_to(scene.peer_listens, &ours, &theirs);
    close(ours);
    close(theirs);
    uint16_t port = connect_to(scene.own_listens, &other_theirs, &other_ours);
    assert_int_equal(ofi_connection_ended(scene.link, 1), 0);
    assert_int_equal(ofi_connection_ended(scene.link, 0), 1);
    ofi_sever_begin(scene.link, "a test");
    assert_int_equal(scene.link->sever, OFI_SEVER_CANNOT);

    struct ofi_fake *third = ofi_fake_open(3, 0);
    struct weft_link *link;
    struct sockaddr_in name;
    memcpy(&name, scene.peer->transport->address.name, sizeof name);
    be_at(third, name);
    assert_int_equal(ofi_connect(scene.own->transport, &third->transport->address,
                                 third->transport->address_size, &scene, &link),
                     0);
    link->state = OFI_LINK_UP;
    link->peer_port = port; /* it was another rank's connection */
    assert_int_equal(ofi_connection_ended(scene.link, 1), 1);
    ofi_sever_begin(scene.link, "a test");
    assert_int_equal(scene.link->sever, OFI_SEVER_SHUT);
    assert_int_equal(ofi_sever_done(scene.link), 1);
    close(other_ours);
    close(other_theirs);
    ofi_fake_close(third);
    scene_close(&scene);
}

/* Whatever keeps an operation from starting: the connection may stand, so memory is not safe. */
static void cannot_start(ssize_t error, int put)
{
    struct scene scene = scene_open();
    struct weft_link *link = scene.link;
    struct ofi_token token = {.magic = OFI_MAGIC, .size = 8, .instance = link->address.instance};
    struct weft_token bytes = {0};
    memcpy(&bytes, &token, sizeof token);
    uint64_t word = 0;
    scene.own->done_count = 0; /* the HELLO */
    link->in_flight = scene.own->transport->in_flight = 0;
    link->peer_window = OFI_WINDOW;
    link->stuck_ns = OFI_STUCK_NS;
    scene.own->start_error = error;
    int status = put ? ofi_put(link, &bytes, NULL, &word, 8, 1) : ofi_send(link, "eight!!", 8, NULL, 0);
    assert_true(status < 0 && status != WEFT_AGAIN);
    assert_int_equal(link->state, OFI_LINK_FAILED);
    ofi_sever_begin(link, "a test");
    assert_int_equal(link->sever, OFI_SEVER_CANNOT);
    scene_close(&scene);
}

static void an_operation_that_cannot_start_ends_nothing(void **state)
{
    (void)state;
    for (int put = 0; put < 2; put++) {
        cannot_start(-FI_ENOMEM, put);
        cannot_start(-FI_EAGAIN, put);
    }
}

/* A provider answers "again" now and then. Time in which nobody tried, for want of a processor or of something to
 * send, does not make that a lost peer; a peer is lost when the provider goes on refusing while it is asked. */
static void refusals_far_apart_are_no_lost_peer(void **state)
{
    (void)state;
    struct scene scene = scene_open();
    struct weft_link *link = scene.link;
    scene.own->done_count = 0; /* the HELLO */
    link->in_flight = scene.own->transport->in_flight = 0;
    link->peer_window = OFI_WINDOW;
    scene.own->start_error = -FI_EAGAIN;
    for (int i = 0; i < 99; i++) {
        link->refused_ns = weft_clock_ns() - 10 * OFI_STUCK_BUSY_NS;
        assert_int_equal(ofi_send(link, "eight!!", 8, NULL, 0), WEFT_AGAIN);
        assert_int_equal(link->state, OFI_LINK_UP);
    }
    scene.own->start_error = 0;
    assert_int_equal(ofi_send(link, "eight!!", 8, NULL, 0), WEFT_OK); /* one that is taken starts anew */
    link->in_flight = scene.own->transport->in_flight = 0;
    scene.own->start_error = -FI_EAGAIN;
    int status = WEFT_AGAIN, tries = 0;
    for (; status == WEFT_AGAIN && tries < 1000; tries++) {
        link->refused_ns = weft_clock_ns() - 10 * OFI_STUCK_BUSY_NS;
        status = ofi_send(link, "eight!!", 8, NULL, 0);
    }
    assert_int_equal(status, WEFT_PEER_FAILED);
    assert_int_equal(tries, 100);
    assert_int_equal(link->state, OFI_LINK_FAILED);
    scene_close(&scene);
}

/* Only what has never been answered, and leads to the peer, is ended. */
static void only_requests_without_an_answer_are_dropped(void **state)
{
    (void)state;
    struct scene scene = scene_open();
    struct tcp_info info;
    socklen_t size = sizeof info;
    char byte = 1;
    int ours[4], theirs[4];
    for (int i = 0; i < 3; i++)
        connect_to(scene.peer_listens, &ours[i], &theirs[i]);
    connect_to(scene.own_listens, &theirs[3], &ours[3]); /* as the peer does */
    assert_int_equal(send(ours[0], &byte, 1, MSG_NOSIGNAL), 1);
    assert_int_equal(send(theirs[1], &byte, 1, MSG_NOSIGNAL), 1);
    assert_int_equal(recv(ours[1], &byte, 1, 0), 1);
    ofi_requests_drop(scene.link);
    static const int states[] = {TCP_CLOSE, TCP_ESTABLISHED, TCP_CLOSE, TCP_ESTABLISHED};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(getsockopt(ours[i], IPPROTO_TCP, TCP_INFO, &info, &size), 0);
        assert_int_equal(info.tcpi_state, states[i]);
    }
    struct pollfd seen = {.fd = theirs[0], .events = POLLIN}; /* nobody answers a request that was dropped */
    assert_int_equal(poll(&seen, 1, 0), 1);
    assert_true(seen.revents & POLLERR);
    for (int i = 0; i < 4; i++) {
        close(ours[i]);
        close(theirs[i]);
    }
    scene_close(&scene);
}

/* A rank that had nothing to recall leaves its call at once, but the others still ask it. */
static void whoever_ends_early_answers_for_a_while(void **state)
{
    (void)state;
    struct scene scene = scene_open();
    ofi_fake_turn(scene.own, NULL, NULL);
    assert_int_equal(weft_ofi_ops.busy(scene.own->transport), 0);
    ofi_recall_wait(scene.own->transport);
    assert_int_equal(weft_ofi_ops.busy(scene.own->transport), 1);
    scene.own->transport->linger_ns = weft_clock_ns();
    assert_int_equal(weft_ofi_ops.busy(scene.own->transport), 0);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_counted),
        cmocka_unit_test(a_cut_socket_counts_until_it_is_closed),
        cmocka_unit_test(a_reset_socket_counts_too),
        cmocka_unit_test(a_replaced_connection_is_not_over),
        cmocka_unit_test(an_operation_that_cannot_start_ends_nothing),
        cmocka_unit_test(refusals_far_apart_are_no_lost_peer),
        cmocka_unit_test(only_requests_without_an_answer_are_dropped),
        cmocka_unit_test(whoever_ends_early_answers_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("SKIP: built without libfabric\n");
    return 77;
}
#endif
