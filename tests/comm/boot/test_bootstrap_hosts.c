/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts, as network namespaces joined by a veth pair: ranks that reach rank 0 over loopback must be
 * reachable for those that do not. Ranks are threads of one process per host.
 */
#include <sched.h>
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
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot/bootstrap.h"
#include "tests/support/heartbeat.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define DEADLINE_MS test_patient(20000)
#define RANKS       23 /* 21 and 22 are children of rank 5, which alone is on the other host */
#define LONER       5

enum { STARTING, APART, JOINED, IMPOSSIBLE };

struct scene {
    int host[2]; /* atomic: how far each is */
    pid_t pid[2];
    char file[64]; /* "" : by address */
    char address[64];
};

struct side {
    struct scene *scene;
    int index;
};

static int take_part(int number, int ranks, void *arg)
{
    const struct side *side = arg;
    (void)ranks;
    int rank = side->index == 1 ? LONER : number < LONER ? number : number + 1;
    struct weft_service *service;
    struct weft_bootstrap *b;
    struct weft_blob *blobs;
    CHECK_OK(weft_service_start("weft-test", &service));
    struct weft_bootstrap_options options = {.rank = rank,
                                             .ranks = RANKS,
                                             .listen_fd = -1,
                                             .secret = TEST_SECRET,
                                             .secret_size = TEST_SECRET_BYTES,
                                             .file = side->scene->file[0] ? side->scene->file : NULL,
                                             .address = side->scene->address,
                                             .heartbeat_ms = TEST_HEARTBEAT_MS,
                                             .deadline_ns = weft_deadline_ns(DEADLINE_MS),
                                             .service = service};
    CHECK_OK(weft_bootstrap_open(&options, &b));
    CHECK(strcmp(weft_bootstrap_local_address(b), side->index ? "10.99.0.2" : "10.99.0.1") == 0);
    CHECK_OK(
        weft_bootstrap_allgather(b, "allgather", &rank, sizeof rank, &blobs, weft_deadline_ns(DEADLINE_MS)));
    for (int i = 0; i < RANKS; i++)
        CHECK_BITS(blobs[i].size == sizeof i && memcmp(blobs[i].data, &i, sizeof i) == 0);
    free(blobs);
    CHECK_OK(weft_bootstrap_barrier(b, "barrier", weft_deadline_ns(DEADLINE_MS)));
    weft_bootstrap_close(b);
    weft_service_stop(service);
    return 0;
}

static int reaches(int *state, int wanted)
{
    int64_t until_ns = weft_deadline_ns(DEADLINE_MS);
    int now;
    while ((now = __atomic_load_n(state, __ATOMIC_SEQ_CST)) < wanted && weft_clock_ns() < until_ns)
        usleep(1000);
    return now == wanted;
}

/* Whether this process is alone in a network namespace that is joined to the other one. */
static int join_hosts(struct scene *scene, int index)
{
    char command[512];
    int *mine = &scene->host[index], *other = &scene->host[!index];
    if (unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0) {
        __atomic_store_n(mine, IMPOSSIBLE, __ATOMIC_SEQ_CST);
        return 0;
    }
    __atomic_store_n(mine, APART, __ATOMIC_SEQ_CST);
    if (!reaches(other, index == 0 ? APART : JOINED)) { /* the first makes the pair of both */
        __atomic_store_n(mine, IMPOSSIBLE, __ATOMIC_SEQ_CST);
        return 0;
    }
    if (index == 0)
        snprintf(command, sizeof command,
                 "ip link add weft0 type veth peer name weft1 netns %d && ip address add 10.99.0.1/24 dev "
                 "weft0 && "
                 "ip link set weft0 up",
                 (int)scene->pid[1]);
    else
        snprintf(command, sizeof command, "ip address add 10.99.0.2/24 dev weft1 && ip link set weft1 up");
    int done = system(command) == 0;
    __atomic_store_n(mine, done ? JOINED : IMPOSSIBLE, __ATOMIC_SEQ_CST);
    return done && reaches(other, JOINED);
}

enum { SKIPPED = 77 };

static void host_main(struct scene *scene, int index)
{
    struct side side = {scene, index};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    scene->pid[index] = getpid();
    if (!join_hosts(scene, index))
        _exit(SKIPPED);
    _exit(test_ranks_threads(index ? 1 : RANKS - 1, take_part, &side) ? 1 : 0);
}

/* 1 when this machine does not let us make hosts. */
static int run_hosts(const char *file, const char *address)
{
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    *scene = (struct scene){.host = {STARTING, STARTING}};
    snprintf(scene->file, sizeof scene->file, "%s", file);
    snprintf(scene->address, sizeof scene->address, "%s", address);
    pid_t pids[2];
    int ends[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            host_main(scene, i);
    }
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        ends[i] = WEXITSTATUS(status);
    }
    munmap(scene, sizeof *scene);
    if (ends[0] == SKIPPED && ends[1] == SKIPPED)
        return 1;
    assert_int_equal(ends[0], 0);
    assert_int_equal(ends[1], 0);
    return 0;
}

#define SKIP_REASON "no network namespaces with veth here (needs root and iproute2)"

static void test_shared_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/test-hosts-XXXXXX", file[64];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/meet", folder);
    int skipped = run_hosts(file, "");
    assert_int_equal(rmdir(folder), 0);
    if (skipped)
        TEST_SKIP(SKIP_REASON);
}

static void test_address(void **state)
{
    (void)state;
    if (run_hosts("", "10.99.0.1:4711"))
        TEST_SKIP(SKIP_REASON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared_file), cmocka_unit_test(test_address)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
