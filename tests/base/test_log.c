/* SPDX-License-Identifier: Apache-2.0 */
/* The log never waits for who reads it. Each case runs in a child, whose stderr is what the case is about; a case
 * that waits is ended by an alarm. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/support/skip.h"

#define LIMIT_S 30

/* In a child: stdout is the test's still. */
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("line %d: not so: %s (%s)\n", __LINE__, #condition, strerror(errno));                     \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static void run_child(int (*body)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(LIMIT_S);
        int failed = body();
        fflush(stdout);
        _exit(failed);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("the child ended with status %#x%s", (unsigned)status,
                 WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it waited" : "");
}

/* Writes until nothing more goes in. The open file is left as it was. */
static int fill(int fd)
{
    char dots[1000];
    int flags = fcntl(fd, F_GETFL);
    memset(dots, '.', sizeof dots);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return -1;
    for (int quiet = 0; quiet < 5;
         quiet++, usleep(10000)) /* a terminal passes bytes on, and has room again */
        for (size_t size = sizeof dots; size > 0; size /= 2)
            while (write(fd, dots, size) > 0)
                quiet = 0;
    return errno == EAGAIN ? fcntl(fd, F_SETFL, flags) : -1;
}

/* Reads all that is there, the last of it as text. */
static void drain(int fd, char *text, size_t capacity)
{
    ssize_t got;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    *text = '\0';
    for (int quiet = 0; quiet < 5; quiet++, usleep(10000)) /* a terminal takes a moment */
        while ((got = read(fd, text, capacity - 1)) > 0) {
            text[got] = '\0';
            quiet = 0;
        }
}

/* To stderr, or to the log's file if there is one; `from` is where it can be read. */
static int log_while_full(int from)
{
    char text[65536];
    errno = 123;
    for (int i = 0; i < 3; i++)
        weft_log(WEFT_LOG_WARN, "unheard");
    CHECK(errno == 123);
    CHECK((fcntl(2, F_GETFL) & O_NONBLOCK) == 0);
    drain(from, text, sizeof text);
    CHECK(!strstr(text, "unheard"));
    weft_log(WEFT_LOG_WARN, "heard %d", 1);
    drain(from, text, sizeof text);
    CHECK(strstr(text, "] 3 lines were dropped: the log did not take them at once\n"));
    CHECK(strstr(text, "] heard 1\n"));
    weft_log(WEFT_LOG_WARN, "heard %d", 2);
    drain(from, text, sizeof text);
    CHECK(!strstr(text, "dropped") && strstr(text, "] heard 2\n"));
    weft_log_line(-7, "below %d", 3); /* as a plug-in may say it */
    weft_log_line(1000, "above");
    drain(from, text, sizeof text);
    CHECK(strstr(text, " error [") && strstr(text, "] below 3\n") && !strstr(text, "above"));
    return 0;
}

static int full_pipe(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2 && fill(2) == 0);
    return log_while_full(ends[0]);
}

static int full_socket(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && dup2(ends[1], 2) == 2 && fill(2) == 0);
    return log_while_full(ends[0]);
}

static int stopped_terminal(void)
{
    struct termios raw;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0 && tcgetattr(slave, &raw) == 0);
    cfmakeraw(&raw);
    CHECK(tcsetattr(slave, TCSANOW, &raw) == 0);
    CHECK(dup2(slave, 2) == 2 && fill(2) == 0);
    return log_while_full(master);
}

static int full_fifo_as_file(void)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-log-%d", (int)getpid());
    CHECK(mkfifo(path, 0600) == 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK), writer = open(path, O_WRONLY);
    CHECK(reader >= 0 && writer >= 0 && fill(writer) == 0);
    setenv("WEFT_LOG_FILE", path, 1);
    int failed = log_while_full(reader);
    unlink(path);
    return failed;
}

/* Nobody ever reads; that is no reason to end the process. */
static int broken_pipe(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    close(ends[0]);
    weft_log(WEFT_LOG_WARN, "unheard");
    CHECK(pipe(ends) == 0);
    dup2(ends[1], 2);
    weft_log(WEFT_LOG_WARN, "heard");
    char text[4096];
    drain(ends[0], text, sizeof text);
    CHECK(strstr(text, "] 1 line was dropped: the log did not take it at once\n"));
    return 0;
}

/* A caller who may only read a pipe does not write to it by way of this program's log. */
static int read_only_pipe(void)
{
    int ends[2];
    char text[4096];
    CHECK(pipe(ends) == 0 && dup2(ends[0], 2) == 2);
    weft_log(WEFT_LOG_WARN, "unheard");
    drain(ends[0], text, sizeof text);
    CHECK(*text == '\0');
    return 0;
}

static char empty_folder[] = "/tmp/weft-log-XXXXXX";

/* Where open files cannot be opened anew. */
static int leave_proc(void)
{
    CHECK(chdir(empty_folder) == 0 && chroot(".") == 0);
    CHECK(access("/proc/self", F_OK) != 0);
    return 0;
}

static int full_pipe_without_proc(void)
{
    return leave_proc() ? 1 : full_pipe();
}

static int broken_pipe_without_proc(void)
{
    return leave_proc() ? 1 : broken_pipe();
}

static void test_full_pipe(void **state)
{
    (void)state;
    run_child(full_pipe);
}

static void test_full_socket(void **state)
{
    (void)state;
    run_child(full_socket);
}

static void test_stopped_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0)
        TEST_SKIP("no pseudo-terminal: %s", strerror(errno));
    close(master);
    run_child(stopped_terminal);
}

static void test_full_fifo_as_file(void **state)
{
    (void)state;
    run_child(full_fifo_as_file);
}

static void test_other_pipes(void **state)
{
    (void)state;
    run_child(broken_pipe);
    run_child(read_only_pipe);
}

static void test_without_proc(void **state)
{
    (void)state;
    if (geteuid() != 0)
        TEST_SKIP("only root can change the root directory");
    assert_non_null(mkdtemp(empty_folder));
    run_child(full_pipe_without_proc);
    run_child(broken_pipe_without_proc);
    assert_int_equal(rmdir(empty_folder), 0);
}

/* Each pair of names is said once at its place in the code. */
static void test_pairs_are_said_once(void **state)
{
    uint64_t said[WEFT_LOG_PAIRS] = {0}, others[WEFT_LOG_PAIRS] = {0};
    char name[16];
    (void)state;
    assert_true(weft_log_is_new(said, "ze", "verbs"));
    assert_false(weft_log_is_new(said, "ze", "verbs"));
    assert_true(weft_log_is_new(said, "ze", "ofi"));
    assert_true(weft_log_is_new(said, "cuda", "verbs"));
    assert_true(weft_log_is_new(said, "zev", "erbs"));
    assert_false(weft_log_is_new(said, "cuda", "verbs"));
    assert_true(weft_log_is_new(others, "ze", "verbs"));
    for (int i = 4; i < 2 * WEFT_LOG_PAIRS; i++) { /* the rest is not said */
        snprintf(name, sizeof name, "kind%d", i);
        assert_int_equal(weft_log_is_new(said, name, "verbs"), i < WEFT_LOG_PAIRS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_pipe),           cmocka_unit_test(test_full_socket),
        cmocka_unit_test(test_stopped_terminal),    cmocka_unit_test(test_full_fifo_as_file),
        cmocka_unit_test(test_pairs_are_said_once), cmocka_unit_test(test_other_pipes),
        cmocka_unit_test(test_without_proc),
    };
    unsetenv("WEFT_LOG");
    unsetenv("WEFT_LOG_FILE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
