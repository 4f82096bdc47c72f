/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that pass between processes: who asks gets the very file, and nobody gets one, or passes one off, without the key. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/fd_message.h"
#include "devmem/offer/offer.h"
#include "devmem/offer/wire.h"
#include "tests/support/leak.h"

#define GUESTS 70 /* more than a desk keeps */

static void ignore(int level, const char *format, ...)
{
    (void)level, (void)format;
}

static const struct weft_device_params params = {.size = sizeof params, .fail = weft_fail, .log = ignore};
static const int some_kind, other_kind;

static int make_file(ino_t *inode)
{
    struct stat known;
    int fd = memfd_create("weft-test-offer", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &known), 0);
    *inode = known.st_ino;
    return fd;
}

static ino_t put(uint64_t base, uint64_t identity, struct weft_offer *offer)
{
    struct weft_offer_memory memory = {
        .owner = &some_kind, .base = base, .identity = identity, .offset = identity * 10, .size = 7};
    ino_t inode;
    int fd = weft_fd_add(make_file(&inode));
    assert_int_equal(weft_offer_put(&params, &memory, fd, offer), WEFT_OK);
    return inode;
}

static int fetched(const struct weft_offer *offer, ino_t *inode)
{
    struct stat known;
    int fd = -1;
    int status = weft_offer_fetch(&params, offer, &fd);
    if (status != WEFT_OK) {
        assert_int_equal(fd, -1);
        return status;
    }
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fstat(fd, &known), 0);
    *inode = known.st_ino;
    weft_fd_close(fd);
    return WEFT_OK;
}

static void expect_refusal(const struct weft_offer *offer, int status, const char *part)
{
    ino_t inode;
    assert_int_equal(fetched(offer, &inode), status);
    if (!strstr(weft_error_detail(), part))
        fail_msg("'%s' is not in '%s'", part, weft_error_detail());
}

/* --- what is offered */

static void test_who_asks_gets_the_file(void **state)
{
    (void)state;
    struct test_leak before;
    struct weft_offer first, second;
    ino_t found = 0;
    test_leak_take(&before);
    weft_offer_open();
    weft_offer_open();
    assert_int_equal(weft_offer_sign(&params, &first), WEFT_OK);
    second = first;
    assert_int_equal(first.pid, getpid());
    ino_t one = put(0x1000, 1, &first), two = put(0x2000, 2, &second);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fetched(&first, &found), WEFT_OK);
        assert_int_equal(found, one);
        assert_int_equal(fetched(&second, &found), WEFT_OK);
        assert_int_equal(found, two);
    }
    weft_offer_close();
    assert_int_equal(fetched(&first, &found), WEFT_OK); /* another user is there */
    weft_offer_close();
    expect_refusal(&first, WEFT_UNSUPPORTED, "nobody hands out its descriptor");
    assert_int_equal(test_leak_check(&before), 0);
    weft_offer_open(); /* another desk, with another key */
    assert_int_equal(weft_offer_sign(&params, &second), WEFT_OK);
    assert_memory_not_equal(first.key, second.key, sizeof first.key);
    assert_false(weft_offer_is_mine(&first));
    assert_true(weft_offer_is_mine(&second));
    weft_offer_close();
    assert_int_equal(test_leak_check(&before), 0); /* a key alone has started nothing */
}

/* As where two threads export the same: neither finds it, and both put it up. */
static void test_one_memory_has_one_offer(void **state)
{
    (void)state;
    struct test_leak before;
    struct weft_offer first, second;
    struct weft_offer_memory again = {.owner = &some_kind, .base = 0x1000, .identity = 1, .offset = 3};
    ino_t found = 0, other;
    weft_offer_open();
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    ino_t one = put(0x1000, 1, &first);
    test_leak_take(&before);
    int fd = weft_fd_add(make_file(&other));
    assert_int_equal(weft_offer_put(&params, &again, fd, &second), WEFT_OK);
    assert_int_equal(test_leak_check(&before), 0); /* the other descriptor is closed */
    assert_memory_equal(&first, &second, sizeof first);
    assert_true(again.offset == 10 && again.size == 7);
    assert_int_equal(fetched(&second, &found), WEFT_OK);
    assert_int_equal(found, one);
    weft_offer_close();
}

static int is_not_three(void *arg, const struct weft_offer_memory *memory)
{
    ++*(int *)arg;
    return memory->identity != 3;
}

static void test_what_is_gone_is_taken_down(void **state)
{
    (void)state;
    struct weft_offer kept = {.slot = 0}, gone = {.slot = 0}, found = {.slot = 0}, foreign;
    struct weft_offer_memory wanted = {.owner = &some_kind, .base = 0x2000, .identity = 2},
                             changed = {.owner = &some_kind, .base = 0x2000, .identity = 4},
                             other = {.owner = &other_kind, .base = 0x9000, .identity = 9};
    ino_t inode, seen;
    int asked = 0;
    weft_offer_open();
    inode = put(0x2000, 2, &kept);
    put(0x3000, 3, &gone);
    int fd = weft_fd_add(make_file(&seen));
    assert_int_equal(weft_offer_put(&params, &other, fd, &foreign), WEFT_OK);
    found = kept;
    found.slot = UINT16_MAX;
    assert_int_equal(weft_offer_find(&wanted, is_not_three, &asked, &found), 1);
    assert_int_equal(asked, 1); /* the other kind's is not its business */
    assert_memory_equal(&found, &kept, sizeof found);
    assert_true(wanted.offset == 20 && wanted.size == 7);
    expect_refusal(&gone, WEFT_PROTOCOL, "is not, or no longer, one of process");
    assert_int_equal(weft_offer_find(&changed, is_not_three, &asked, &found), 0);
    assert_int_equal(fetched(&kept, &seen), WEFT_OK);
    assert_int_equal(seen, inode);
    struct weft_offer anew;
    put(0x5000, 5, &anew); /* the same place */
    assert_int_equal(anew.slot, gone.slot);
    expect_refusal(&gone, WEFT_PROTOCOL, "is not, or no longer, one of process");
    assert_int_equal(fetched(&foreign, &seen), WEFT_OK);
    weft_offer_close();
}

static void test_offers_that_nobody_made(void **state)
{
    (void)state;
    struct weft_offer offer, bad;
    weft_offer_open();
    put(0x1000, 1, &offer);
    for (int i = 0; i < WEFT_OFFER_KEY_BYTES; i++) {
        bad = offer;
        bad.key[i] ^= 1;
        expect_refusal(&bad, WEFT_UNSUPPORTED, "has ended, or is in another network namespace");
        assert_false(weft_offer_is_mine(&bad));
    }
    bad = offer;
    bad.serial++;
    expect_refusal(&bad, WEFT_PROTOCOL, "no longer");
    bad = offer;
    bad.slot = 7;
    expect_refusal(&bad, WEFT_PROTOCOL, "no longer");
    bad.slot = UINT16_MAX;
    expect_refusal(&bad, WEFT_PROTOCOL, "no longer");
    bad = offer;
    bad.pid = 77; /* for people only */
    ino_t inode;
    assert_int_equal(fetched(&bad, &inode), WEFT_OK);
    weft_offer_close();
}

/* --- who asks without the key */

static int dial(const struct weft_offer *offer)
{
    struct sockaddr_un name;
    int length = offer_socket_name(offer->key, &name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, (socklen_t)length), 0);
    return fd;
}

/* The desk closes without a word. */
static void expect_silence(const struct weft_offer *offer, const void *bytes, size_t size, int fd_beside)
{
    char answer[64];
    int fd = dial(offer);
    assert_int_equal(weft_fd_note(fd), 0);
    assert_int_equal(weft_fd_message_send(fd, bytes, size, &fd_beside, fd_beside >= 0), 0);
    ssize_t got = recv(fd, answer, sizeof answer, 0);
    assert_true(got <= 0);
    weft_fd_forget(fd);
    close(fd);
}

/* The desk closes a guest's end behind its answer. */
static void expect_no_leak(const struct test_leak *before)
{
    struct test_leak now;
    for (int i = 0; i < 10000; i++) {
        test_leak_take(&now);
        if (now.descriptors <= before->descriptors)
            break;
        usleep(1000);
    }
    assert_int_equal(test_leak_check(before), 0);
}

static void test_who_has_no_key_gets_nothing(void **state)
{
    (void)state;
    struct test_leak before;
    struct weft_offer offer;
    struct offer_ask ask = {.magic = OFFER_MAGIC}, good;
    uint8_t key[WEFT_OFFER_KEY_BYTES] = {1};
    char longer[sizeof ask + 1] = "";
    ino_t inode;
    weft_offer_open();
    put(0x1000, 1, &offer);
    test_leak_take(&before);
    ask.slot = offer.slot;
    ask.serial = offer.serial;
    good = ask;
    offer_ask_prove(offer.key, &good, good.mac);
    offer_ask_prove(key, &ask, ask.mac);
    expect_silence(&offer, &ask, sizeof ask, -1); /* another key */
    ask = good;
    ask.nonce[0] ^= 1; /* the proof is of another question */
    expect_silence(&offer, &ask, sizeof ask, -1);
    ask = good;
    ask.magic++;
    expect_silence(&offer, &ask, sizeof ask, -1);
    expect_silence(&offer, &good, sizeof good - 1, -1);
    memcpy(longer, &good, sizeof good);
    expect_silence(&offer, longer, sizeof longer, -1);
    ask.magic = 0;
    assert_int_equal(weft_fd_note(STDERR_FILENO), 0);
    expect_silence(&offer, &ask, sizeof ask, STDERR_FILENO); /* what comes along is closed */
    weft_fd_forget(STDERR_FILENO);
    close(dial(&offer));
    assert_int_equal(fetched(&offer, &inode), WEFT_OK);
    expect_no_leak(&before);
    weft_offer_close();
}

static void test_silent_guests_keep_nobody_away(void **state)
{
    (void)state;
    struct test_leak before;
    struct weft_offer offer;
    int guests[GUESTS];
    ino_t inode, made;
    test_leak_take(&before);
    weft_offer_open();
    made = put(0x1000, 1, &offer);
    for (int i = 0; i < GUESTS; i++)
        guests[i] = dial(&offer);
    assert_int_equal(fetched(&offer, &inode), WEFT_OK);
    assert_int_equal(inode, made);
    struct pollfd polled = {.fd = guests[0], .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 10000), 1); /* the oldest has made room */
    weft_offer_close();
    for (int i = 0; i < GUESTS; i++)
        close(guests[i]);
    assert_int_equal(test_leak_check(&before), 0);
}

/* --- who answers without the key */

enum lie { SAYS_NOTHING, LEAVES, SAYS_TOO_LITTLE, HAS_ANOTHER_KEY, ANSWERS_ANOTHER_QUESTION, LIES };

/* Has the desk's name, as whoever saw it in /proc/net/unix may have when the desk has gone. */
__attribute__((noreturn)) static void impostor(const struct weft_offer *offer, int ready)
{
    static struct sockaddr_un name;
    int length = offer_socket_name(offer->key, &name);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (weft_fd_note(listener) || bind(listener, (struct sockaddr *)&name, (socklen_t)length) ||
        listen(listener, 8) || write(ready, "r", 1) != 1)
        _exit(1);
    for (int lie = 0;; lie = (lie + 1) % LIES) {
        struct offer_ask ask;
        struct offer_answer answer = {.status = OFFER_GIVEN};
        uint8_t key[WEFT_OFFER_KEY_BYTES] = {1};
        int fd = accept(listener, NULL, NULL);
        if (weft_fd_note(fd) || recv(fd, &ask, sizeof ask, 0) != sizeof ask)
            _exit(2);
        if (lie == HAS_ANOTHER_KEY)
            offer_answer_prove(key, &ask, answer.status, answer.mac);
        if (lie == ANSWERS_ANOTHER_QUESTION) { /* with a proof that it could have heard */
            ask.nonce[0]++;
            offer_answer_prove(offer->key, &ask, answer.status, answer.mac);
        }
        if (lie > LEAVES)
            weft_fd_message_send(fd, &answer, lie == SAYS_TOO_LITTLE ? 3 : sizeof answer, &listener, 1);
        weft_fd_forget(fd);
        if (lie != SAYS_NOTHING)
            close(fd);
    }
}

static void test_what_an_impostor_gives_is_not_taken(void **state)
{
    (void)state;
    static const char *const expected[LIES] = {
        [SAYS_NOTHING] = "it has not handed out the descriptor within 2000 ms",
        [LEAVES] = "nobody hands out its descriptor",
        [SAYS_TOO_LITTLE] = "what answers at its socket is not this process",
        [HAS_ANOTHER_KEY] = "what answers at its socket is not this process",
        [ANSWERS_ANOTHER_QUESTION] = "what answers at its socket is not this process",
    };
    struct test_leak before;
    struct weft_offer offer = {.key = "an impostor's", .pid = 4711, .serial = 1};
    int ready[2];
    char byte;
    assert_int_equal(weft_crypto_init(), WEFT_OK);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0)
        impostor(&offer, ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    test_leak_take(&before);
    for (int lie = 0; lie < LIES; lie++)
        expect_refusal(&offer, lie <= LEAVES ? WEFT_UNSUPPORTED : WEFT_PROTOCOL, expected[lie]);
    assert_int_equal(test_leak_check(&before), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

/* --- processes */

__attribute__((noreturn)) static void exporter(int out)
{
    struct weft_offer offer;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    weft_offer_open();
    put(0x1000, 1, &offer);
    if (write(out, &offer, sizeof offer) != sizeof offer)
        _exit(1);
    for (;;)
        pause();
}

static void test_a_process_that_is_stopped(void **state)
{
    (void)state;
    struct weft_offer offer;
    int back[2], status;
    ino_t inode;
    assert_int_equal(pipe2(back, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0)
        exporter(back[1]);
    assert_int_equal(read(back[0], &offer, sizeof offer), sizeof offer);
    assert_int_equal(fetched(&offer, &inode), WEFT_OK);
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    expect_refusal(&offer, WEFT_UNSUPPORTED, "it has not handed out the descriptor within 2000 ms");
    kill(child, SIGCONT);
    assert_int_equal(fetched(&offer, &inode), WEFT_OK);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    expect_refusal(&offer, WEFT_UNSUPPORTED, "nobody hands out its descriptor");
    close(back[0]);
    close(back[1]);
}

/* A child has neither the thread nor the lock's owner: it leaves the desk alone. */
static void test_a_forked_child_touches_nothing(void **state)
{
    (void)state;
    struct weft_offer offer;
    int status;
    ino_t inode;
    weft_offer_open();
    put(0x1000, 1, &offer);
    pid_t child = fork();
    if (child == 0) {
        weft_offer_open();
        weft_offer_close();
        weft_offer_close();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(fetched(&offer, &inode), WEFT_OK);
    weft_offer_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_an_impostor_gives_is_not_taken),
        cmocka_unit_test(test_a_process_that_is_stopped),
        cmocka_unit_test(test_who_asks_gets_the_file),
        cmocka_unit_test(test_what_is_gone_is_taken_down),
        cmocka_unit_test(test_one_memory_has_one_offer),
        cmocka_unit_test(test_offers_that_nobody_made),
        cmocka_unit_test(test_who_has_no_key_gets_nothing),
        cmocka_unit_test(test_silent_guests_keep_nobody_away),
        cmocka_unit_test(test_a_forked_child_touches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
