/* SPDX-License-Identifier: Apache-2.0 */
/* The file by which rank 0 is found: only a file that does not exist or a record of weft's is written or removed.
 *
 * Whatever else has the name stays as it is, byte for byte, and the error says what is there. Nothing blocks on a
 * pipe, and nothing is opened that opening could change.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/boot/record.h"
#include "tests/support/skip.h"
#include <weft/weft.h>

#define PRECIOUS "results of a week\n"

static char folder[64], path[96], other[96];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test-boot-file-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/meet", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    return 0;
}

/* Fails when anything stays that the test has not named. */
static int remove_folder(void **state)
{
    (void)state;
    int is_mine = strncmp(path, folder, strlen(folder)) == 0;
    if (is_mine && unlink(path) != 0)
        rmdir(path);
    unlink(other);
    return rmdir(folder);
}

static void write_text(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void assert_text(const char *name, const char *text)
{
    char found[256];
    int fd = open(name, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    ssize_t size = read(fd, found, sizeof found - 1);
    close(fd);
    assert_true(size >= 0);
    found[size] = '\0';
    assert_string_equal(found, text);
}

static struct weft_boot_record a_record(uint64_t nonce)
{
    struct weft_boot_record record = {.nonce = nonce, .addresses = {.count = 1}};
    record.addresses.at[0] = (struct weft_net_address){.family = 4, .ip = {127, 0, 0, 1}, .port = 9};
    return record;
}

static const struct weft_bootstrap_options *at_path(void)
{
    static struct weft_bootstrap_options options;
    options.file = path;
    return &options;
}

/* Neither rank 0 nor another rank takes what is at the path, both say that it is `what`, and it is still there. */
static void assert_refused(const char *what)
{
    struct stat before, after;
    assert_int_equal(lstat(path, &before), 0);
    struct weft_boot_record record = a_record(7), found;
    assert_int_equal(weft_boot_record_publish(at_path(), &record), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), path));
    assert_non_null(strstr(weft_error_detail(), what));
    weft_boot_record_withdraw(at_path(), &record);
    assert_int_equal(weft_boot_record_fetch(at_path(), 0, &found), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), what));
    assert_int_equal(lstat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mode, after.st_mode);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void test_other_content(void **state)
{
    (void)state;
    write_text(path, PRECIOUS);
    assert_refused("a file of 18 bytes that is no record of weft's");
    assert_text(path, PRECIOUS);
    write_text(path, "");
    assert_refused("an empty file");
    /* One that begins like a record and goes on as something else. */
    static const char notes[] =
        "weft-rendezvous 1\nnonce 00000000000000aa\naddress 127.0.0.1:9\nend\n" PRECIOUS;
    write_text(path, notes);
    assert_refused("no record of weft's");
    assert_text(path, notes);
    char *large = malloc(3 * WEFT_BOOT_RECORD_MAX);
    assert_non_null(large);
    memset(large, 'x', 3 * WEFT_BOOT_RECORD_MAX);
    memcpy(large, "weft-rendezvous 1\n", 18);
    large[3 * WEFT_BOOT_RECORD_MAX - 1] = '\0';
    write_text(path, large);
    free(large);
    assert_refused("a file of 12287 bytes that is no record of weft's");
}

static void test_unreadable(void **state)
{
    (void)state;
    write_text(path, PRECIOUS);
    assert_int_equal(chmod(path, 0), 0);
    struct weft_boot_record record = a_record(7);
    uid_t user = geteuid(); /* root reads everything: the content decides */
    if (user == 0) {
        assert_int_equal(chmod(folder, 0777), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    int status = weft_boot_record_publish(at_path(), &record);
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(status, WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "cannot be read"));
    assert_int_equal(chmod(path, 0600), 0);
    assert_text(path, PRECIOUS);
}

static void test_fifo(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused("a FIFO");
}

/* Not what it leads to either: a plain file, a record, nothing. */
static void test_symlink(void **state)
{
    (void)state;
    assert_int_equal(symlink(other, path), 0);
    assert_refused("a symbolic link");
    write_text(other, PRECIOUS);
    assert_refused("a symbolic link");
    assert_text(other, PRECIOUS);
    write_text(other, "weft-rendezvous 1\nnonce 00000000000000aa\naddress 127.0.0.1:9\nend\n");
    assert_refused("a symbolic link");
}

static void test_directory(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("a directory");
}

static void test_socket(void **state)
{
    (void)state;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_refused("a socket");
    close(fd);
}

/* A device of this test's own, never one of the machine's. */
static void test_device(void **state)
{
    (void)state;
    if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) != 0)
        TEST_SKIP("no device can be made here: %s", strerror(errno));
    assert_refused("a character device");
}

/* What is there is said first, also where nobody could have made a record beside it. */
static void test_terminal(void **state)
{
    (void)state;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || ptsname_r(terminal, path, sizeof path) != 0)
        TEST_SKIP("no pseudo-terminal: %s", strerror(errno));
    assert_refused("a character device");
    close(terminal);
}

/* What a dead job has left is replaced, torn or not, also when it is from a later version. */
static void test_stale_record(void **state)
{
    (void)state;
    static const char *const stale[] = {
        "weft-rendezvous 1\nnonce 00000000000000aa\naddress 127.0.0.1:9\nend\n",
        "weft-rendezvous 1\nnonce 00",
        "weft-rendezvous 2\nnonce 00000000000000aa\nsomething new\nend\n",
    };
    for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
        write_text(path, stale[i]);
        struct weft_boot_record record = a_record(7 + i), found;
        assert_int_equal(weft_boot_record_publish(at_path(), &record), WEFT_OK);
        assert_int_equal(weft_boot_record_fetch(at_path(), 0, &found), WEFT_OK);
        assert_int_equal(found.nonce, 7 + i);
        weft_boot_record_withdraw(at_path(), &record);
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* Between publishing and withdrawing somebody else has taken the name. */
static void test_taken_meanwhile(void **state)
{
    (void)state;
    struct weft_boot_record mine = a_record(7), theirs = a_record(8), found;
    assert_int_equal(weft_boot_record_publish(at_path(), &mine), WEFT_OK);
    assert_int_equal(unlink(path), 0);
    write_text(path, PRECIOUS);
    weft_boot_record_withdraw(at_path(), &mine);
    assert_text(path, PRECIOUS);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(weft_boot_record_publish(at_path(), &mine), WEFT_OK);
    assert_int_equal(weft_boot_record_publish(at_path(), &theirs), WEFT_OK);
    weft_boot_record_withdraw(at_path(), &mine);
    assert_int_equal(weft_boot_record_fetch(at_path(), 0, &found), WEFT_OK);
    assert_int_equal(found.nonce, 8);
    weft_boot_record_withdraw(at_path(), &theirs);
    assert_int_equal(access(path, F_OK), -1);
}

static void *publish_and_withdraw(void *arg)
{
    atomic_int *stop = arg;
    uint64_t nonce = 1;
    while (!atomic_load(stop)) {
        struct weft_boot_record record = a_record(nonce++);
        if (weft_boot_record_publish(at_path(), &record) == WEFT_OK)
            weft_boot_record_withdraw(at_path(), &record);
    }
    return NULL;
}

/* Somebody renames a file of his to that name again and again while jobs start and end: it never gets lost. */
static void test_race(void **state)
{
    (void)state;
    atomic_int stop = 0;
    pthread_t thread;
    write_text(other, PRECIOUS);
    assert_int_equal(pthread_create(&thread, NULL, publish_and_withdraw, &stop), 0);
    int lost = 0;
    for (int i = 0; i < 2000 && !lost; i++) {
        struct stat mine, there;
        assert_int_equal(lstat(other, &mine), 0);
        assert_int_equal(rename(other, path), 0);
        /* It may be away for a moment, when it came between a look and what followed. */
        for (int tries = 0;; tries++) {
            if (lstat(path, &there) == 0 && there.st_ino == mine.st_ino && rename(path, other) == 0)
                break;
            if ((lost = tries == 100000))
                break;
        }
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    assert_false(lost);
    assert_text(other, PRECIOUS);
}

/* The same by the front door: a communicator of two whose rank 0 finds a file that is not weft's does not wait. */
static void test_communicator(void **state)
{
    (void)state;
    weft_context *context;
    weft_comm *comm;
    assert_int_equal(weft_context_open(NULL, &context), WEFT_OK);
    for (int rank = 0; rank < 2; rank++) {
        weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
        options.rank = rank;
        options.ranks = 2;
        options.timeout_ms = -1;
        options.file = path;
        write_text(path, PRECIOUS);
        assert_int_equal(weft_comm_create(context, &options, &comm), WEFT_INVALID);
        assert_non_null(strstr(weft_error_detail(), "no record of weft's"));
        assert_text(path, PRECIOUS);
    }
    assert_int_equal(weft_context_close(context), WEFT_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_other_content), TEST(test_unreadable),      TEST(test_fifo),   TEST(test_symlink),
        TEST(test_directory),     TEST(test_socket),          TEST(test_device), TEST(test_terminal),
        TEST(test_stale_record),  TEST(test_taken_meanwhile), TEST(test_race),   TEST(test_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
