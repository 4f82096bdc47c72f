/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap weft_log getaddrinfo @tests/clock/wraps */
/* What a rank says while it tries in vain: a host that has no address yet, a port that is taken, other ranks that do not come. The clock runs faster, and the
 * deadline is far behind what is waited for. */
#include <arpa/inet.h>
#include <netdb.h>
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
#include "base/clock.h"
#include "base/log.h"
#include "comm/boot/bootstrap.h"
#include "tests/clock/clock.h"
#include "tests/support/golden.h"
#include "tests/support/ranks.h"

#define HURRY      1000
#define TRYING_NS  INT64_C(5000000000)
#define REPORT_NS  INT64_C(30000000000)
#define FAR_MS     INT64_C(10000000)
#define EARLIER_MS 50 /* a deadline that is to pass */

void __wrap_weft_log(enum weft_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);

static int warnings, taken = -1;
static int64_t report_ns; /* of the next meeting */
static int64_t warned_ns;
static char said[512];

void __wrap_weft_log(enum weft_log_level level, const char *format, ...)
{
    va_list args;
    if (level > WEFT_LOG_WARN)
        return;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    warned_ns = weft_clock_ns();
    warnings++;
    if (taken >= 0)
        close(taken); /* now rank 0 may have it */
    taken = -1;
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    (void)node, (void)service, (void)hints, (void)found;
    return EAI_NONAME;
}

static int clean(void **state)
{
    static const char *const names[] = {"RANK",      "WORLD_SIZE",        "MASTER_ADDR",        "MASTER_PORT",
                                        "WEFT_PORT", "WEFT_BOOTSTRAP_FD", "WEFT_BOOTSTRAP_FILE"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    warnings = 0;
    warned_ns = 0;
    report_ns = 0; /* or a busy machine lets it come behind what is waited for */
    said[0] = '\0';
    test_clock_hurry(1);
    return 0;
}

/* Often enough to have seen that it is said once. */
static int has_seen_enough(void *arg)
{
    (void)arg;
    return warnings > 0 && weft_clock_ns() > warned_ns + 3 * TRYING_NS;
}

/* As weft_comm_create() does, by the environment. */
static int meet(int64_t timeout_ms)
{
    char buffer[WEFT_BOOTSTRAP_BUFFER];
    struct weft_bootstrap_options options = {.secret = NULL};
    struct weft_bootstrap *b;
    weft_comm_options given = WEFT_COMM_OPTIONS_INIT;
    given.secret = TEST_SECRET;
    given.secret_size = TEST_SECRET_BYTES;
    int status = weft_bootstrap_resolve(&given, &options, buffer, sizeof buffer);
    if (status != WEFT_OK)
        return status;
    assert_int_equal(weft_service_start("weft-test", &options.service), WEFT_OK);
    options.report_ns = report_ns;
    options.deadline_ns = weft_deadline_ns(timeout_ms);
    options.cancelled = has_seen_enough;
    status = weft_bootstrap_open(&options, &b);
    weft_service_stop(options.service);
    return status;
}

/* One that is bound, and that somebody may listen at. */
static int take_port(int listens)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(taken >= 0);
    assert_int_equal(bind(taken, (struct sockaddr *)&name, size), 0);
    if (listens)
        assert_int_equal(listen(taken, 1), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&name, &size), 0);
    return ntohs(name.sin_port);
}

static void set_rank(const char *rank, const char *host)
{
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", host, 1);
}

static void test_unknown_name(void **state)
{
    (void)state;
    set_rank("1", "node7");
    setenv("WEFT_PORT", "29600", 1);
    int64_t start_ns = weft_clock_ns();
    test_clock_hurry(HURRY);
    assert_int_equal(meet(FAR_MS), WEFT_CANCELLED);
    assert_int_equal(warnings, 1);
    assert_true(warned_ns - start_ns >= TRYING_NS);
    assert_true(golden_matches_text(said, (const char *const[]){"boot-name-trying", "node7"}, 2));
    test_clock_hurry(1);
    warnings = 0;
    assert_int_equal(meet(EARLIER_MS), WEFT_RANKS_ABSENT);
    assert_int_equal(warnings, 0);
}

static void test_no_deadline(void **state)
{
    (void)state;
    set_rank("1", "node7");
    setenv("WEFT_PORT", "29600", 1);
    test_clock_hurry(HURRY);
    assert_int_equal(meet(-1), WEFT_CANCELLED);
    assert_true(golden_matches_text(said, (const char *const[]){"boot-name-trying-on", "node7"}, 2));
}

static void set_port(const char *name, int port)
{
    char number[16];
    snprintf(number, sizeof number, "%d", port);
    setenv(name, number, 1);
}

/* Rank 0 has it when it is free again, and says meanwhile what it waits for. */
static void test_taken_port_is_said(void **state)
{
    (void)state;
    set_rank("0", "127.0.0.1");
    int port = take_port(1);
    set_port("MASTER_PORT", port - 1);
    int64_t start_ns = weft_clock_ns();
    test_clock_hurry(HURRY);
    assert_int_equal(meet(FAR_MS), WEFT_CANCELLED);
    assert_int_equal(warnings, 1);
    assert_true(warned_ns - start_ns >= TRYING_NS);
    assert_true(golden_matches_text(said, (const char *const[]){"boot-port-trying"}, 1));
}

static void test_port_is_named(void **state)
{
    (void)state;
    char number[16];
    set_rank("0", "127.0.0.1");
    int port = take_port(1);
    snprintf(number, sizeof number, "%d", port);
    set_port("MASTER_PORT", port - 1);
    assert_int_equal(meet(EARLIER_MS), WEFT_SYSTEM);
    assert_true(golden_matches("boot-port-next", number, number));
    set_port("WEFT_PORT", port);
    assert_int_equal(meet(EARLIER_MS), WEFT_SYSTEM);
    assert_true(golden_matches("boot-port-own", number, number));
    close(taken);
    taken = -1;
}

/* --- ranks that do not come */

/* The rank says something once, when the meeting takes long. */
static void expect_report(const char *rank, int port)
{
    set_rank(rank, "127.0.0.1");
    set_port("WEFT_PORT", port);
    report_ns = REPORT_NS;
    int64_t start_ns = weft_clock_ns();
    test_clock_hurry(HURRY);
    assert_int_equal(meet(FAR_MS), WEFT_CANCELLED);
    assert_int_equal(warnings, 1);
    assert_true(warned_ns - start_ns >= REPORT_NS);
}

static int free_port(void)
{
    int port = take_port(0);
    close(taken);
    taken = -1;
    return port;
}

static void test_absent_rank(void **state)
{
    (void)state;
    expect_report("0", free_port());
    assert_true(golden_matches_text(said, (const char *const[]){"boot-rank-absent"}, 1));
}

/* Bound, so that it is nobody else's; and nobody listens. */
static void test_absent_root(void **state)
{
    (void)state;
    int port = take_port(0), nobody = taken;
    taken = -1;
    expect_report("1", port);
    assert_true(golden_matches_text(said, (const char *const[]){"boot-root-absent"}, 1));
    close(nobody);
}

/* Somebody listens, and says nothing. */
static void test_silent_root(void **state)
{
    (void)state;
    int port = take_port(1), listener = taken;
    taken = -1;
    expect_report("1", port);
    assert_true(golden_matches_text(said, (const char *const[]){"boot-root-silent"}, 1));
    close(listener);
}

/* One of the addresses that are for documents, which no host has. */
static void test_address_of_another_host(void **state)
{
    (void)state;
    set_rank("0", "192.0.2.1");
    set_port("WEFT_PORT", free_port());
    assert_int_equal(meet(EARLIER_MS), WEFT_RANKS_ABSENT);
    assert_true(golden_matches("boot-elsewhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unknown_name, clean, clean),
        cmocka_unit_test_setup_teardown(test_no_deadline, clean, clean),
        cmocka_unit_test_setup_teardown(test_taken_port_is_said, clean, clean),
        cmocka_unit_test_setup_teardown(test_port_is_named, clean, clean),
        cmocka_unit_test_setup_teardown(test_absent_rank, clean, clean),
        cmocka_unit_test_setup_teardown(test_absent_root, clean, clean),
        cmocka_unit_test_setup_teardown(test_address_of_another_host, clean, clean),
        cmocka_unit_test_setup_teardown(test_silent_root, clean, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
