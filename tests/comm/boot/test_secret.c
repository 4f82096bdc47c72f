/* SPDX-License-Identifier: Apache-2.0 */
/* Where secrets come from, what is refused, and what a program with more rights than its caller ignores.
 *
 * The last is tested for real: a copy of this program that is set-user-ID (or set-group-ID) root, run by nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/secret.h"
#include "base/secure.h"
#include "base/settings.h"
#include "comm/boot/bootstrap.h"
#include "tests/support/skip.h"
#include <weft/weft.h>

#define NOBODY 65534

static char folder[64];
static struct weft_secret secret;

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *make_file(const char *name, size_t size, mode_t mode)
{
    const char *path = in_folder(name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)(i * 7 + 1);
        assert_int_equal(write(fd, &byte, 1), 1);
    }
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static int read_secret(void)
{
    memset(&secret, 0xaa, sizeof secret);
    return weft_secret_from_environment(&secret);
}

static void check_read(size_t size)
{
    assert_int_equal(read_secret(), 0);
    assert_int_equal(secret.size, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(secret.bytes[i], (unsigned char)(i * 7 + 1));
}

static void check_refused(const char *reason)
{
    assert_int_equal(read_secret(), WEFT_INVALID);
    if (!strstr(weft_error_detail(), reason))
        fail_msg("'%s' is not in '%s'", reason, weft_error_detail());
}

static void test_file(void **state)
{
    (void)state;
    assert_int_equal(read_secret(), 0);
    assert_int_equal(secret.size, 0);
    static const size_t sizes[] = {WEFT_SECRET_MIN, 1000, WEFT_SECRET_MAX};
    for (int i = 0; i < 3; i++) {
        setenv("WEFT_SECRET_FILE", make_file("good", sizes[i], i == 1 ? 0400 : 0600), 1);
        check_read(sizes[i]);
    }
}

static void test_file_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0601, 0604, 0610, 0640, 0620, 0602, 0666};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        setenv("WEFT_SECRET_FILE", make_file("open", 32, modes[i]), 1);
        check_refused("expected no right for anybody but its owner (chmod 600)");
    }
    setenv("WEFT_SECRET_FILE", make_file("short", WEFT_SECRET_MIN - 1, 0600), 1);
    check_refused("has 15 bytes: expected a secret of 16 to 4096");
    setenv("WEFT_SECRET_FILE", make_file("empty", 0, 0600), 1);
    check_refused("has 0 bytes");
    setenv("WEFT_SECRET_FILE", make_file("long", WEFT_SECRET_MAX + 1, 0600), 1);
    check_refused("has at least 4097 bytes");
    setenv("WEFT_SECRET_FILE", in_folder("none"), 1);
    check_refused("/none': cannot open it: No such file");
    setenv("WEFT_SECRET_FILE", "relative/path", 1);
    check_refused("WEFT_SECRET_FILE is 'relative/path': expected an absolute path");
    setenv("WEFT_SECRET_FILE", folder, 1);
    check_refused("expected a regular file");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    setenv("WEFT_SECRET_FILE", in_folder("pipe"), 1);
    check_refused("expected a regular file");
    make_file("target", 32, 0600);
    assert_int_equal(symlink("target", in_folder("link")), 0);
    setenv("WEFT_SECRET_FILE", in_folder("link"), 1);
    check_refused("expected no symbolic link");
}

static void test_file_of_another(void **state)
{
    (void)state;
    if (geteuid() != 0)
        TEST_SKIP("only root can give a file away");
    const char *path = make_file("theirs", 32, 0600);
    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    setenv("WEFT_SECRET_FILE", path, 1);
    check_refused("belongs to user 65534: expected user 0");
}

static void set_fd(int fd)
{
    char text[16];
    snprintf(text, sizeof text, "%d", fd);
    setenv("WEFT_SECRET_FD", text, 1);
}

static void test_descriptor(void **state)
{
    (void)state;
    setenv("WEFT_SECRET_FILE", "/not/looked/at", 1);
    int fd = open(make_file("good", 40, 0600), O_RDONLY);
    assert_true(fd >= 0);
    set_fd(fd);
    assert_int_equal(lseek(fd, 13, SEEK_SET), 13);
    check_read(40);
    check_read(40); /* again, as for the next communicator */
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 13);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    check_refused("expected an inherited descriptor: Bad file descriptor");
    fd = memfd_create("secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(write(fd, &(unsigned char){(unsigned char)(i * 7 + 1)}, 1), 1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
    set_fd(fd);
    check_read(20);
    close(fd);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    set_fd(ends[0]);
    check_refused("which is not a file");
    close(ends[0]);
    close(ends[1]);
    fd = open("/dev/zero", O_RDONLY);
    set_fd(fd);
    check_refused("which is not a file");
    close(fd);
    static const char *const numbers[] = {"x", "-1", "3x", "99999999999999999999"};
    for (int i = 0; i < 4; i++) {
        setenv("WEFT_SECRET_FD", numbers[i], 1);
        check_refused("expected the number of an inherited descriptor");
    }
}

/* --- the program that the copy is */

__attribute__((noreturn)) static void privileged_main(void)
{
    char buffer[WEFT_BOOTSTRAP_BUFFER];
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    struct weft_bootstrap_options resolved = {0};
    options.rank = 0;
    options.ranks = 2;
    int status = weft_secret_from_environment(&secret);
    int resolved_status = weft_bootstrap_resolve(&options, &resolved, buffer, sizeof buffer);
    struct weft_settings settings;
    int settings_status = weft_settings_read(&settings, NULL);
    weft_log(WEFT_LOG_ERROR, "a line of the log");
    printf("secure %d, secret %d of %zu bytes, place %d %s, settings %d '%s' '%s'\n", weft_secure_mode(),
           status, secret.size, resolved_status, resolved.file ? "file" : "none", settings_status,
           settings.device_plugins, settings.topo_file);
    fflush(stdout);
    _exit(0); /* a leak check would trace this process, which its rights forbid */
}

static int copy_self(const char *path)
{
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
        to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
    struct stat about;
    if (from < 0 || to < 0 || fstat(from, &about) != 0)
        return -1;
    for (off_t left = about.st_size; left > 0;) {
        ssize_t moved = sendfile(to, from, NULL, (size_t)left);
        if (moved <= 0)
            return -1;
        left -= moved;
    }
    close(from);
    return close(to);
}

/* Runs the copy as nobody; what it prints on both outputs is in text. */
static void run_copy(const char *path, mode_t mode, char *text, size_t capacity)
{
    int ends[2], status;
    assert_int_equal(chmod(path, mode), 0);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
            _exit(100);
        execl(path, path, "--privileged", (char *)NULL);
        _exit(101);
    }
    close(ends[1]);
    size_t size = 0;
    for (ssize_t got; size < capacity - 1 && (got = read(ends[0], text + size, capacity - 1 - size)) > 0;)
        size += (size_t)got;
    text[size] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the copy ended with %d: %s", status, text);
}

static int lines_with(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

static void test_more_rights_than_the_caller(void **state)
{
    (void)state;
    struct statvfs about;
    char path[128], log[128], text[4096];
    if (geteuid() != 0)
        TEST_SKIP("only root can make a set-user-ID program of another user");
    if (statvfs(folder, &about) != 0 || (about.f_flag & ST_NOSUID))
        TEST_SKIP("%s is mounted nosuid", folder);
    snprintf(path, sizeof path, "%s", in_folder("copy"));
    snprintf(log, sizeof log, "%s", in_folder("log"));
    assert_int_equal(copy_self(path), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    const char *mine = make_file("good", 32, 0600);
    setenv("WEFT_SECRET_FILE", mine, 1);
    setenv("WEFT_SECRET_FD", "0", 1);
    setenv("WEFT_BOOTSTRAP_FILE", "/shared/meet", 1);
    setenv("WEFT_LOG_FILE", log, 1);
    setenv("WEFT_DEVICE_PLUGIN", "/shared/kind.so", 1);
    setenv("WEFT_TOPO_FILE", "/shared/fabric", 1);
    static const mode_t modes[] = {04755, 02755};
    for (int i = 0; i < 2; i++) {
        run_copy(path, modes[i], text, sizeof text);
        if (!strstr(text, "secure 1, secret 0 of 0 bytes, place -2 none, settings 0 '' ''"))
            fail_msg("mode %o: %s", (unsigned)modes[i], text);
        assert_int_equal(lines_with(text, "runs with more rights than its caller"), 1);
        assert_int_equal(lines_with(text, "a line of the log"), 1);
        assert_int_equal(access(log, F_OK), -1);
    }
    /* The same without the bit is an ordinary program: it does look at the file, which is root's. */
    unsetenv("WEFT_SECRET_FD");
    unsetenv("WEFT_LOG_FILE");
    run_copy(path, 0755, text, sizeof text);
    if (!strstr(
            text,
            "secure 0, secret -2 of 0 bytes, place 0 file, settings 0 '/shared/kind.so' '/shared/fabric'"))
        fail_msg("without a bit: %s", text);
}

static int clear(void **state)
{
    (void)state;
    static const char *const names[] = {"WEFT_SECRET_FILE",   "WEFT_SECRET_FD", "WEFT_BOOTSTRAP_FILE",
                                        "WEFT_LOG_FILE",      "MASTER_ADDR",    "MASTER_PORT",
                                        "WEFT_PORT",          "PMIX_NAMESPACE", "WEFT_BOOTSTRAP_FD",
                                        "WEFT_DEVICE_PLUGIN", "WEFT_TOPO_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/weft-secret-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"good", "open", "short",  "empty", "long", "theirs",
                                        "pipe", "link", "target", "copy",  "log"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--privileged") == 0)
        privileged_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_file, clear),
        cmocka_unit_test_setup(test_file_refused, clear),
        cmocka_unit_test_setup(test_file_of_another, clear),
        cmocka_unit_test_setup(test_descriptor, clear),
        cmocka_unit_test_setup(test_more_rights_than_the_caller, clear),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
