/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx. Without arguments: what can be seen without a launcher (who wins, silent servers, missing libraries). With
 * one: a rank of a job that a PMIx launcher has started, which test_pmix.sh and test_pmix_slurm.sh do:
 *   recreate      several communicators by name, each made several times
 *   late RANKS PATH       rank 1 misses the first attempt, and is named; the second attempt works. PATH begins names of files
 *   reopen        closes the context, which finalises PMIx, and begins again
 *   quiet         PMIx leaves signal dispositions alone; a forked child is refused
 *   explicit      torchrun's variables are there, and PMIx is not even loaded
 *   part          ranks 0 and 1 alone; the others hear that their numbers do not fit
 *   facts NODES LOCAL     how many nodes and ranks per node the launcher must have said
 */
#include <arpa/inet.h>
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/bits.h"
#include "tests/support/skip.h"

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, weft_error_detail());                 \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

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

/* --- as a rank */

static int make(weft_context *context, const char *name, int64_t timeout_ms, weft_comm **comm)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.name = name;
    options.timeout_ms = timeout_ms;
    return weft_comm_create(context, &options, comm);
}

/* Everybody adds its rank. */
static int is_sound(weft_comm *comm)
{
    int ranks = weft_comm_size(comm);
    int32_t sum = weft_comm_rank(comm);
    return weft_allreduce(comm, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL) == 0 &&
           BITS_AGREE(sum == ranks * (ranks - 1) / 2);
}

static int recreate(weft_context *context)
{
    static const char *const names[] = {"", "a", "another"};
    weft_comm *comms[3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(make(context, names[i], 30000, &comms[i]) == 0);
        for (int i = 2; i >= 0; i--)
            CHECK(is_sound(comms[i]));
        for (int i = 0; i < 3; i++)
            CHECK(weft_comm_destroy(comms[i]) == 0);
    }
    return 0;
}

/* A file for each rank that has given up; the ranks' hosts are all this machine. */
static int say_given_up(const char *path, int rank)
{
    char name[512];
    snprintf(name, sizeof name, "%s.%d", path, rank);
    FILE *file = fopen(name, "we");
    CHECK(file && fclose(file) == 0);
    return 0;
}

static void await_given_up(const char *path, int ranks, int me)
{
    char name[512];
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(name, sizeof name, "%s.%d", path, rank);
        while (rank != me && access(name, F_OK) != 0)
            usleep(10000);
    }
}

/* Rank 1 comes when the others have given up. */
static int late(weft_context *context, int ranks, const char *path)
{
    int me = atoi(getenv("PMIX_RANK"));
    weft_comm *comm;
    char expected[32];
    if (me == 1) {
        await_given_up(path, ranks, me);
    } else {
        int64_t start_ms = now_ms();
        CHECK(make(context, "late", 1000, &comm) == WEFT_RANKS_ABSENT);
        CHECK(now_ms() - start_ms < 20000);
        snprintf(expected, sizeof expected, me == 0 ? "rank 1 of" : "rank 1");
        CHECK(strstr(weft_error_detail(), expected));
        CHECK(say_given_up(path, me) == 0);
    }
    CHECK(make(context, "late", 30000, &comm) == 0);
    CHECK(is_sound(comm));
    CHECK(weft_comm_destroy(comm) == 0);
    return recreate(context);
}

static int reopen(weft_context *context)
{
    weft_context *second;
    weft_comm *comm;
    (void)context;
    for (int round = 0; round < 3; round++) {
        CHECK(weft_context_open(NULL, &second) == 0);
        CHECK(make(second, "reopen", 30000, &comm) == 0);
        CHECK(is_sound(comm));
        CHECK(weft_comm_destroy(comm) == 0);
        CHECK(weft_context_close(second) == 0);
    }
    return 0;
}

static int child_is_refused(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        weft_context *context;
        weft_comm *comm;
        status = weft_context_open(NULL, &context);
        if (status == 0)
            status = weft_comm_create(context, NULL, &comm);
        _exit(status == WEFT_INVALID ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int quiet(weft_context *context)
{
    static struct sigaction before[65], after;
    weft_comm *comm;
    signal(SIGUSR1, SIG_IGN);
    for (int i = 1; i <= 64; i++)
        sigaction(i, NULL, &before[i]);
    CHECK(!is_mapped("libpmix"));
    CHECK(make(context, "", 30000, &comm) == 0);
    CHECK(is_mapped("libpmix"));
    for (int i = 1; i <= 64; i++) {
        memset(&after, 0, sizeof after);
        sigaction(i, NULL, &after);
        CHECK(after.sa_handler == before[i].sa_handler);
    }
    CHECK(child_is_refused());
    CHECK(is_sound(comm));
    CHECK(weft_comm_destroy(comm) == 0);
    return 0;
}

/* The script has set MASTER_ADDR and WEFT_PORT; ranks are reversed, to see who wins. */
static int variables_win(weft_context *context)
{
    weft_comm *comm;
    CHECK(make(context, "", 30000, &comm) == 0);
    CHECK(weft_comm_rank(comm) == atoi(getenv("RANK")));
    CHECK(is_sound(comm));
    CHECK(!is_mapped("libpmix"));
    CHECK(weft_comm_destroy(comm) == 0);
    return 0;
}

static int part(weft_context *context)
{
    int me = atoi(getenv("PMIX_RANK"));
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.ranks = 2;
    options.rank = me % 2;
    if (me < 2) {
        CHECK(weft_comm_create(context, &options, &comm) == 0);
        CHECK(is_sound(comm));
        CHECK(weft_comm_destroy(comm) == 0);
    } else {
        CHECK(weft_comm_create(context, &options, &comm) == WEFT_INVALID);
        CHECK(strstr(weft_error_detail(), "by PMIx"));
    }
    return 0;
}

static int facts(weft_context *context, int nodes, int local)
{
    weft_comm *comm;
    int distinct = 0;
    CHECK(make(context, "", 30000, &comm) == 0);
    for (int r = 0; r < weft_comm_size(comm); r++) {
        weft_rank_info info = WEFT_RANK_INFO_INIT, other = WEFT_RANK_INFO_INIT;
        int seen = 0;
        CHECK(weft_comm_get_rank_info(comm, r, &info) == 0);
        CHECK(info.node >= 0 && info.local_ranks == local);
        CHECK(info.local_rank >= 0 && info.local_rank < local);
        CHECK(info.pid > 0 && info.host[0]);
        for (int s = 0; s < r; s++) {
            CHECK(weft_comm_get_rank_info(comm, s, &other) == 0);
            seen |= other.node == info.node;
            CHECK(other.node != info.node || other.local_rank != info.local_rank);
        }
        distinct += !seen;
    }
    CHECK(distinct == nodes);
    CHECK(weft_comm_destroy(comm) == 0);
    return 0;
}

static int be_rank(int argc, char **argv)
{
    weft_context *context;
    int failed = 1;
    CHECK(weft_context_open(NULL, &context) == 0);
    if (strcmp(argv[1], "recreate") == 0)
        failed = recreate(context);
    else if (strcmp(argv[1], "late") == 0 && argc == 4)
        failed = late(context, atoi(argv[2]), argv[3]);
    else if (strcmp(argv[1], "reopen") == 0)
        failed = reopen(context);
    else if (strcmp(argv[1], "quiet") == 0)
        failed = quiet(context);
    else if (strcmp(argv[1], "explicit") == 0)
        failed = variables_win(context);
    else if (strcmp(argv[1], "part") == 0)
        failed = part(context);
    else if (strcmp(argv[1], "facts") == 0 && argc == 4)
        failed = facts(context, atoi(argv[2]), atoi(argv[3]));
    CHECK(failed == 0);
    CHECK(weft_context_close(context) == 0);
    printf("rank %s: %s is fine\n", getenv("PMIX_RANK"), argv[1]);
    return 0;
}

/* --- without a launcher. Each test is a process of its own: PMIx is once per process. */

static char last[512]; /* what create() said */

static int create(int64_t timeout_ms)
{
    weft_context *context;
    weft_comm *comm;
    int status = weft_context_open(NULL, &context);
    if (status == 0) {
        status = make(context, "", timeout_ms, &comm);
        if (status == 0)
            weft_comm_destroy(comm);
        snprintf(last, sizeof last, "%s", weft_error_detail());
        weft_context_close(context);
        fprintf(stderr, "    %d: %s\n", status, last);
        if (!strstr(last, "PMI"))
            status = status ? -1000 : 0;
    }
    return status;
}

static void in_child(int (*run)(void), int expected)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(-run());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (-WEXITSTATUS(status) == WEFT_NOT_FOUND && expected != WEFT_NOT_FOUND)
        TEST_SKIP("there is no libpmix, or weft was built without PMIx");
    assert_int_equal(-WEXITSTATUS(status), expected);
}

static void pretend_launcher(const char *uri)
{
    static const char *const names[] = {"PMIX_SERVER_URI",   "PMIX_SERVER_URI2",  "PMIX_SERVER_URI21",
                                        "PMIX_SERVER_URI3",  "PMIX_SERVER_URI4",  "PMIX_SERVER_URI41",
                                        "PMIX_SERVER_URI50", "PMIX_SERVER_URI51", NULL};
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("MASTER_ADDR");
    unsetenv("WEFT_BOOTSTRAP_FILE");
    setenv("PMIX_NAMESPACE", "nobody", 1);
    setenv("PMIX_RANK", "0", 1);
    setenv("PMIX_SECURITY_MODE", "native", 1);
    setenv("PMIX_VERSION", "4.2.2", 1);
    for (int i = 0; names[i]; i++)
        setenv(names[i], uri, 1);
}

/* Listens, so that connections come about, and says nothing. */
static int silent_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char uri[96];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return -1;
    snprintf(uri, sizeof uri, "nobody.0;tcp4://127.0.0.1:%d", ntohs(address.sin_port));
    pretend_launcher(uri);
    int64_t start_ms = now_ms();
    int status = create(700);
    return now_ms() - start_ms < 5000 ? status : -1001;
}

static void a_silent_server_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    in_child(silent_server, WEFT_TIMEOUT);
}

static int no_server(void)
{
    pretend_launcher("nobody.0;tcp4://127.0.0.1:1");
    return create(20000);
}

static void a_missing_server_is_an_error(void **state)
{
    (void)state;
    in_child(no_server, WEFT_SYSTEM);
}

static int another_source(void)
{
    pretend_launcher("nobody.0;tcp4://127.0.0.1:1");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    int status = create(20000);
    return is_mapped("libpmix") ? -1002 : status;
}

static void torchruns_variables_come_before_pmix(void **state)
{
    (void)state;
    in_child(another_source, WEFT_OK);
}

/* Left over from another start: neither source has all. */
static int half_of_torchruns_variables(void)
{
    pretend_launcher("nobody.0;tcp4://127.0.0.1:1");
    setenv("WORLD_SIZE", "2", 1);
    if (create(20000) != WEFT_INVALID || !strstr(last, "not used as WORLD_SIZE is set: unset it"))
        return -1003;
    unsetenv("WORLD_SIZE");
    setenv("RANK", "0", 1);
    if (create(20000) != WEFT_INVALID || !strstr(last, "not used as RANK is set: unset it"))
        return -1004;
    return 0;
}

static void a_variable_that_keeps_pmix_out_is_named(void **state)
{
    (void)state;
    in_child(half_of_torchruns_variables, WEFT_OK);
}

static int other_launcher(void)
{
    unsetenv("PMIX_NAMESPACE");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    setenv("SLURM_PROCID", "0", 1);
    return create(1000);
}

static void a_launcher_without_pmix_is_an_error_that_says_so(void **state)
{
    (void)state;
    in_child(other_launcher, WEFT_INVALID);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_server_costs_no_more_than_the_deadline),
        cmocka_unit_test(a_missing_server_is_an_error),
        cmocka_unit_test(torchruns_variables_come_before_pmix),
        cmocka_unit_test(a_variable_that_keeps_pmix_out_is_named),
        cmocka_unit_test(a_launcher_without_pmix_is_an_error_that_says_so),
    };
    return argc > 1 ? be_rank(argc, argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
