/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers while a job starts: whatever they do at rank 0's listener or at another rank's, the start succeeds, one
 * line of the log says that they were there, and they do not use up the ranks' descriptors.
 *
 * The last process of each run is the stranger. Rank 3 comes only when the attack is running, so that the listeners
 * are open until then. Ranks may have 256 descriptors, fewer than there are silent connections.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/net/auth.h"
#include "comm/boot/body.h"
#include "tests/support/attack.h"
#include "tests/support/boot_party.h"
#include "tests/support/skip.h"

enum { RANKS = 6, LATE = 3, STRANGERS = 1000, FEW = 100, DESCRIPTORS = 256 };
enum kind { SCAN, SILENT, HALF, REPLAY, WRONG_SECRET, KINDS };

static const char *const names[] = {"scan", "silent", "half", "replay", "wrong secret"};

/* What the processes of a run share. */
struct scene {
    enum kind kind;
    int target;   /* rank whose listener is attacked */
    int attacked; /* atomic */
    int finished; /* atomic: ranks that are through */
    pid_t pids[RANKS];
    struct attack_record record;
};

static struct scene *scene;
static char log_path[64], proxy_address[32];

static int wait_for(const int *value, int wanted)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    while (__atomic_load_n(value, __ATOMIC_ACQUIRE) < wanted && weft_clock_ns() < until_ns)
        usleep(1000);
    return __atomic_load_n(value, __ATOMIC_ACQUIRE) >= wanted;
}

static int take_part(int rank)
{
    struct party party;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = DESCRIPTORS;
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
    __atomic_store_n(&scene->pids[rank], getpid(), __ATOMIC_RELEASE);
    if (rank == LATE)
        CHECK(wait_for(&scene->attacked, 1));
    CHECK_OK(party_open(&party, rank, RANKS, "", PATIENCE_MS));
    CHECK_OK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)));
    __atomic_add_fetch(&scene->finished, 1, __ATOMIC_ACQ_REL);
    party_close(&party);
    return 0;
}

/* 0 while the target has none. */
static uint16_t port_of_target(void)
{
    uint16_t root = (uint16_t)atoi(strchr(test_ranks_address(), ':') + 1);
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    uint16_t port = scene->target == 0 ? root : 0;
    while (!port && weft_clock_ns() < until_ns) {
        pid_t pid = __atomic_load_n(&scene->pids[scene->target], __ATOMIC_ACQUIRE);
        usleep(1000);
        port = pid ? attack_find_listener(pid, root) : 0;
    }
    return port;
}

static int attack(void)
{
    static int fds[STRANGERS];
    int count = scene->kind == SILENT ? STRANGERS : scene->kind == SCAN ? 0 : FEW;
    uint16_t port = port_of_target();
    CHECK(port != 0);
    CHECK(attack_may_have(count));
    switch (scene->kind) {
    case SCAN:
        attack_scan(port, FEW);
        break;
    case SILENT:
        attack_silent(port, fds, count);
        break;
    case HALF:
        attack_half(port, fds, count);
        break;
    case REPLAY:
        attack_replay(port, &scene->record, fds, count);
        break;
    default:
        attack_wrong_secret(port, fds, count);
    }
    __atomic_store_n(&scene->attacked, 1, __ATOMIC_RELEASE);
    CHECK(wait_for(&scene->finished, RANKS));
    attack_end(fds, count);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    (void)ranks, (void)arg;
    return rank < RANKS ? take_part(rank) : attack();
}

/* Warnings in the log, each of which must be about a stranger. */
static int warnings(void)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen(log_path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (!strstr(line, " warn ") && !strstr(line, " error "))
            continue;
        count++;
        if (!strstr(line, "that is no rank of this job"))
            fail_msg("%s", line);
    }
    if (file)
        fclose(file);
    return count;
}

static void run(enum kind kind, int target)
{
    assert_int_equal(truncate(log_path, 0), 0);
    scene->kind = kind;
    scene->target = target;
    scene->attacked = scene->finished = 0;
    memset(scene->pids, 0, sizeof scene->pids);
    int bad = test_ranks_fork(RANKS + 1, body, NULL);
    int said = warnings();
    if (bad || said != 1)
        fail_msg("%s at rank %d: %d processes failed, %d warnings", names[kind], target, bad, said);
}

static void run_both(enum kind kind)
{
    run(kind, 0);
    run(kind, RANKS - 1);
}

static void test_scan(void **state)
{
    (void)state;
    run_both(SCAN);
}

static void test_silent(void **state)
{
    (void)state;
    if (!attack_may_have(STRANGERS))
        TEST_SKIP("%d connections need a higher hard limit of descriptors", STRANGERS);
    run_both(SILENT);
}

static void test_half_frames(void **state)
{
    (void)state;
    run_both(HALF);
}

static void test_wrong_secret(void **state)
{
    (void)state;
    run_both(WRONG_SECRET);
}

/* --- a start is recorded, and said again to the next one */

static int recorded_rank(int rank, int ranks)
{
    struct party party;
    if (rank > 0)
        test_ranks_seat(rank, ranks, -1, proxy_address);
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    CHECK_OK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)));
    party_close(&party);
    return 0;
}

/* The least that one has. */
static size_t checkin_bytes(void)
{
    struct weft_boot_writer body = {0};
    weft_boot_checkin_put(
        &body,
        &(struct weft_boot_checkin){.member = {.address = {.family = 4, .ip = {127, 0, 0, 1}}, .host = "h"}});
    free(body.data);
    return WEFT_BOOT_HEADER_BYTES + body.size + WEFT_TAG_BYTES;
}

static void test_recorded_frames(void **state)
{
    (void)state;
    char root_address[32];
    int proxy_fd = test_ranks_listen(proxy_address, sizeof proxy_address);
    int root_fd = test_ranks_listen(root_address, sizeof root_address);
    uint16_t root_port = (uint16_t)atoi(strchr(root_address, ':') + 1);
    fflush(NULL);
    pid_t proxy = fork();
    assert_true(proxy >= 0);
    if (proxy == 0) {
        close(root_fd);
        attack_record_proxy(proxy_fd, root_port, &scene->record);
    }
    close(proxy_fd);
    pid_t ranks[RANKS];
    int bad = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        ranks[rank] = fork();
        assert_true(ranks[rank] >= 0);
        if (ranks[rank] == 0) {
            test_ranks_seat(rank, RANKS, rank == 0 ? root_fd : -1, root_address);
            _exit(recorded_rank(rank, RANKS));
        }
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status;
        bad += waitpid(ranks[rank], &status, 0) != ranks[rank] || status != 0;
    }
    kill(proxy, SIGKILL);
    waitpid(proxy, NULL, 0);
    close(root_fd);
    assert_int_equal(bad, 0);
    /* All that a rank says to rank 0: the proof, and a check-in. */
    assert_true(__atomic_load_n(&scene->record.size, __ATOMIC_ACQUIRE) >=
                WEFT_AUTH_PROOF_BYTES + checkin_bytes());
    run_both(REPLAY);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(log_path, sizeof log_path, "/tmp/weft-strangers-XXXXXX");
    int fd = mkstemp(log_path);
    scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fd < 0 || scene == MAP_FAILED)
        return -1;
    close(fd);
    setenv("WEFT_LOG_FILE", log_path, 1); /* this process itself logs nothing before it forks */
    unsetenv("WEFT_LOG");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    munmap(scene, sizeof *scene);
    return unlink(log_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_half_frames),
        cmocka_unit_test(test_wrong_secret),
        cmocka_unit_test(test_recorded_frames),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
