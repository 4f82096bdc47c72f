/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads text) */
/* Rank, number of ranks and address from options and the environment. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "comm/boot/bootstrap.h"

static const char *const names[] = {"RANK",      "WORLD_SIZE",        "MASTER_ADDR",        "MASTER_PORT",
                                    "WEFT_PORT", "WEFT_BOOTSTRAP_FD", "WEFT_BOOTSTRAP_FILE"};

static int clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static struct weft_bootstrap_options resolved;
static char buffer[WEFT_BOOTSTRAP_BUFFER];

static int resolve(const weft_comm_options *options)
{
    memset(&resolved, 0, sizeof resolved);
    return weft_bootstrap_resolve(options, &resolved, buffer, sizeof buffer);
}

static void expect_invalid(const weft_comm_options *options, const char *part)
{
    assert_int_equal(resolve(options), WEFT_INVALID);
    if (!strstr(weft_error_detail(), part))
        fail_msg("detail is '%s', expected '%s' in it", weft_error_detail(), part);
}

static void test_torchrun(void **state)
{
    (void)state;
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("MASTER_ADDR", "node1", 1);
    setenv("MASTER_PORT", "29500", 1);
    assert_int_equal(resolve(NULL), WEFT_OK);
    assert_int_equal(resolved.rank, 3);
    assert_int_equal(resolved.ranks, 8);
    assert_string_equal(resolved.address, "node1:29501");
    assert_string_equal(resolved.name, "");
    assert_int_equal(resolved.listen_fd, -1);
    setenv("WEFT_PORT", "777", 1);
    setenv("MASTER_ADDR", "fd00::7", 1);
    assert_int_equal(resolve(NULL), WEFT_OK);
    assert_string_equal(resolved.address, "[fd00::7]:777");
    setenv("WEFT_BOOTSTRAP_FILE", "/shared/meet", 1);
    assert_int_equal(resolve(NULL), WEFT_OK);
    assert_string_equal(resolved.file, "/shared/meet");
    assert_null(resolved.address);
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    expect_invalid(NULL, "WORLD_SIZE is not set");
    setenv("WORLD_SIZE", "4", 1);
    expect_invalid(NULL, "RANK is not set");
    setenv("RANK", "4", 1);
    expect_invalid(NULL, "rank is 4: expected 0 to 3");
    setenv("RANK", "1x", 1);
    expect_invalid(NULL, "RANK is '1x'");
    setenv("RANK", "1", 1);
    expect_invalid(NULL, "MASTER_ADDR is not set");
    setenv("MASTER_ADDR", "node1", 1);
    expect_invalid(NULL, "WEFT_PORT is not set");
    setenv("MASTER_PORT", "65535", 1);
    expect_invalid(NULL, "MASTER_PORT is '65535'");
    setenv("WEFT_PORT", "0", 1);
    expect_invalid(NULL, "WEFT_PORT is '0'");
    setenv("WORLD_SIZE", "-2", 1);
    expect_invalid(NULL, "WORLD_SIZE is '-2'");
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.ranks = 0;
    expect_invalid(&options, "number of ranks is 0");
}

static void test_options_come_first(void **state)
{
    (void)state;
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("WEFT_BOOTSTRAP_FILE", "/shared/meet", 1);
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = 1;
    options.ranks = 2;
    options.name = "mine";
    options.address = "here:1";
    assert_int_equal(resolve(&options), WEFT_OK);
    assert_int_equal(resolved.rank, 1);
    assert_string_equal(resolved.name, "mine");
    assert_string_equal(resolved.address, "here:1");
    assert_null(resolved.file);
    options.file = "/f";
    assert_int_equal(resolve(&options), WEFT_OK);
    assert_string_equal(resolved.file, "/f");
    assert_null(resolved.address);
    weft_store store = {0};
    options.store = &store;
    assert_int_equal(resolve(&options), WEFT_OK);
    assert_ptr_equal(resolved.store, &store);
    assert_null(resolved.file);
    options.size = offsetof(weft_comm_options, name); /* of a program built when there was no more */
    assert_int_equal(resolve(&options), WEFT_OK);
    assert_string_equal(resolved.name, "");
    assert_string_equal(resolved.file, "/shared/meet");
}

static void test_one_rank_needs_nothing(void **state)
{
    (void)state;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.ranks = 1;
    assert_int_equal(resolve(&options), WEFT_OK);
    assert_int_equal(resolved.rank, 0);
    struct weft_bootstrap *b;
    struct weft_blob *blobs;
    assert_int_equal(weft_bootstrap_open(&resolved, &b), WEFT_OK); /* not even a service thread */
    assert_int_equal(weft_bootstrap_barrier(b, "barrier", 0), WEFT_OK);
    assert_int_equal(weft_bootstrap_allgather(b, "allgather", "abc", 3, &blobs, 0), WEFT_OK);
    assert_int_equal(blobs[0].size, 3);
    assert_memory_equal(blobs[0].data, "abc", 3);
    free(blobs);
    assert_int_equal(weft_bootstrap_allgather(b, "allgather", "", ((size_t)64 << 20) + 1, &blobs, 0),
                     WEFT_INVALID);
    assert_string_equal(weft_bootstrap_local_address(b), "127.0.0.1");
    weft_bootstrap_close(b);
}

static void test_inherited_listener(void **state)
{
    (void)state;
    char number[16];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    snprintf(number, sizeof number, "%d", fd);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("WEFT_PORT", "4444", 1);
    setenv("WEFT_BOOTSTRAP_FD", number, 1);
    expect_invalid(NULL, "expected a listening socket");
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(resolve(NULL), WEFT_OK);
    assert_int_equal(resolved.listen_fd, fd);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* not for our children */
    setenv("RANK", "1", 1);                           /* the others may have the variable too */
    assert_int_equal(resolve(NULL), WEFT_OK);
    assert_int_equal(resolved.listen_fd, -1);
    close(fd);
}

/* Callers that were compiled before an option existed do not have it. */
static void test_old_sizes(void **state)
{
    (void)state;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = 1;
    options.ranks = 2;
    options.address = "host:1";
    options.secret = "a secret of an honest caller";
    options.secret_size = 28;
    assert_int_equal(resolve(&options), WEFT_OK);
    assert_ptr_equal(resolved.secret, options.secret);
    assert_int_equal(resolved.secret_size, 28);
    options.size = offsetof(weft_comm_options, secret);
    assert_int_equal(resolve(&options), WEFT_OK);
    assert_null(resolved.secret);
    assert_int_equal(resolved.secret_size, 0);
    assert_string_equal(resolved.address, "host:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_old_sizes, clean),
        cmocka_unit_test_setup(test_torchrun, clean),
        cmocka_unit_test_setup(test_what_is_wrong_is_named, clean),
        cmocka_unit_test_setup(test_options_come_first, clean),
        cmocka_unit_test_setup(test_one_rank_needs_nothing, clean),
        cmocka_unit_test_setup(test_inherited_listener, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
