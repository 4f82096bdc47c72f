/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi */
/* Loading libfabric: signal dispositions stay as they were, and a missing library is an error that says what
 * to install. Each test runs in a process of its own, as libfabric stays loaded once it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/support/child.h"
#include "tests/support/mounts.h"
#include "tests/support/ofi_absent.h"
#include "tests/support/skip.h"
#include "transport/registry.h"

#define SIGNALS 64

/* Exit statuses of the children. */
enum { GOOD, BAD, ABSENT };

static int open_and_close(const char *provider)
{
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct weft_transport_params params = {.size = sizeof params, .provider = provider};
    int status = weft_transport_complete(weft_transport_find("ofi"), &ops);
    if (!status)
        status = ops.open(&params, &transport);
    if (status == 0)
        ops.close(transport);
    return status;
}

static int run_child(int (*child)(void))
{
    int status = test_child(child);
    if (status == ABSENT)
        TEST_SKIP("no mounts of one's own here: libfabric's library cannot be hidden");
    return status;
}

static void handler(int signal)
{
    (void)signal;
}

/* The C library sets this kernel flag on its own with every sigaction(). */
#define RESTORER 0x04000000

/* The mask says nothing where no handler runs (and the thread sanitizer changes it there). */
static int is_same(const struct sigaction *a, const struct sigaction *b)
{
    int handled = a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN;
    for (int i = 1; handled && i <= SIGNALS; i++) {
        if (sigismember(&a->sa_mask, i) != sigismember(&b->sa_mask, i))
            return 0;
    }
    return a->sa_handler == b->sa_handler && ((a->sa_flags ^ b->sa_flags) & ~RESTORER) == 0;
}

/* With one handler of our own, and shm, the provider that installs the most. */
static int signals_child(void)
{
    static struct sigaction before[SIGNALS + 1], after;
    static const char *const providers[] = {"net", "tcp;ofi_rxm", "shm"};
    struct sigaction own;
    memset(&own, 0, sizeof own);
    own.sa_handler = handler;
    own.sa_flags = SA_RESTART;
    sigaddset(&own.sa_mask, SIGUSR2);
    sigaction(SIGTERM, &own, NULL);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i <= SIGNALS; i++)
        sigaction(i, NULL, &before[i]);
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) {
        int status = open_and_close(providers[i]);
        if (status && (status != WEFT_NOT_FOUND || i == 0))
            return BAD;
        for (int k = 1; k <= SIGNALS; k++) {
            memset(&after, 0, sizeof after);
            sigaction(k, NULL, &after);
            if (!is_same(&before[k], &after)) {
                fprintf(stderr, "%s changed signal %d\n", providers[i], k);
                return BAD;
            }
        }
    }
    return GOOD;
}

static void signals_stay_as_they_were(void **state)
{
    (void)state;
    assert_int_equal(run_child(signals_child), GOOD);
}

/* Nothing of libfabric may be there before the first open. */
static int is_mapped(const char *name)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static int lazy_child(void)
{
    struct weft_transport_ops ops;
    if (weft_transport_complete(weft_transport_find("ofi"), &ops) || is_mapped("libfabric"))
        return BAD;
    int status = open_and_close("net");
    return status == 0 && is_mapped("libfabric") ? GOOD : BAD;
}

static void loaded_by_the_first_open(void **state)
{
    (void)state;
    assert_int_equal(run_child(lazy_child), GOOD);
}

/* A mount namespace in which the library is an empty file. */
static int hide_library(void)
{
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                          "/usr/lib64", "/usr/lib", "/usr/local/lib"};
    char path[256];
    int hidden = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s/libfabric.so.1", folders[i]);
        if (access(path, F_OK) == 0 && test_mounts_own(path) == 0)
            hidden += mount("/dev/null", path, NULL, MS_BIND, NULL) == 0;
    }
    return hidden ? 0 : -1;
}

static int missing_child(void)
{
    if (hide_library())
        return ABSENT;
    int status = open_and_close("");
    if (status != WEFT_NOT_FOUND || !strstr(weft_error_detail(), "install") ||
        !strstr(weft_error_detail(), "libfabric1")) {
        fprintf(stderr, "status %d, detail: %s\n", status, weft_error_detail());
        return BAD;
    }
    return GOOD;
}

static void a_missing_library_says_what_to_install(void **state)
{
    (void)state;
    assert_int_equal(run_child(missing_child), GOOD);
}

static int unknown_child(void)
{
    int status = open_and_close("no-such-provider");
    return status == WEFT_NOT_FOUND && strstr(weft_error_detail(), "no-such-provider") ? GOOD : BAD;
}

static void an_unknown_provider_is_named(void **state)
{
    (void)state;
    assert_int_equal(run_child(unknown_child), GOOD);
}

/* Nobody names a provider: there is one that fits all the same. */
static int unnamed_child(void)
{
    int status = open_and_close(NULL);
    if (!status)
        status = open_and_close("");
    if (status)
        fprintf(stderr, "%s\n", weft_error_detail());
    return status ? BAD : GOOD;
}

static void a_provider_need_not_be_named(void **state)
{
    (void)state;
    assert_int_equal(run_child(unnamed_child), GOOD);
}

static int absent_child(void)
{
    const char *reason = test_ofi_absent();
    if (reason)
        printf("SKIP: %s\n", reason);
    fflush(stdout);
    return reason ? ABSENT : GOOD;
}

int main(void)
{
    int status;
    pid_t pid = fork(); /* this process does not load libfabric */
    if (pid == 0)
        _exit(absent_child());
    if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == ABSENT)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_stay_as_they_were),
        cmocka_unit_test(loaded_by_the_first_open),
        cmocka_unit_test(a_missing_library_says_what_to_install),
        cmocka_unit_test(an_unknown_provider_is_named),
        cmocka_unit_test(a_provider_need_not_be_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
