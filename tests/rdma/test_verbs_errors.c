/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks hear when a port, a process or the network breaks under them: which peer and address, over which device,
 * port and GID, in which state, and what to look at next. Others go on meanwhile, bit for bit, and nothing is left behind.
 *
 * Three processes. Ranks 0 and 1 have the device rxe1. Rank 2 has one of its own, rxe2, on an interface r2 that
 * shares r0's end of the cable (macvlan): what happens to r2 changes nothing for the others' port. The links between
 * them and rank 2 break; there is a communicator that does not need those, and one that has all three ranks, of which
 * two use it. The bootstrap's connections go over the loopback interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"
#include "tests/support/skip.h"

#define RANKS     3
#define LARGE     20011 /* elements: more than goes eagerly */
#define CALLS     4     /* before anything breaks */
#define CALLS_MAX 100000
#define AFTER     4 /* calls after that */
#define PARTS     8

/* What a text has to say, in any order. */
struct words {
    const char *parts[PARTS];
};

struct scene {
    const char *near, *far;     /* devices of ranks 0 and 1, and of rank 2 */
    const char *breaks, *mends; /* commands; NULL: rank 2 dies */
    size_t count;               /* elements of the calls meanwhile */
    struct words to_others, to_rank_2;
};

/* --- a rank */

static int is_reported(int rank, int status, const struct words *words)
{
    const char *text = weft_error_detail();
    int missing = status != WEFT_PEER_FAILED && status != WEFT_REVOKED;
    for (int i = 0; i < PARTS && words->parts[i]; i++)
        missing += !strstr(text, words->parts[i]);
    if (missing)
        fprintf(stderr, "rank %d: status %d, '%s'\n", rank, status, text);
    for (int i = 0; i < PARTS && words->parts[i]; i++) {
        if (!strstr(text, words->parts[i]))
            fprintf(stderr, "which does not say '%s'\n", words->parts[i]);
    }
    return !missing;
}

/* Allreduces until one fails, which has to be after something broke. */
static int call_on(weft_comm *comm, const struct scene *scene, void *send, void *recv)
{
    int status = WEFT_OK, rank = weft_comm_rank(comm), calls = 0;
    for (; status == WEFT_OK && calls < CALLS_MAX; calls++) {
        if (calls == CALLS && rank == 0 && scene->breaks)
            CHECK(system(scene->breaks) == 0);
        if (calls == CALLS && rank == 2 && !scene->breaks)
            raise(SIGKILL);
        job_fill(send, WEFT_FLOAT32, rank, scene->count);
        status = weft_allreduce(comm, send, recv, scene->count, WEFT_FLOAT32, WEFT_SUM, NULL);
        if (status == WEFT_OK)
            CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, RANKS, scene->count) == 0);
    }
    CHECK(calls > CALLS);
    return is_reported(rank, status, rank == 2 ? &scene->to_rank_2 : &scene->to_others) ? 0 : 1;
}

/* Ranks 0 and 1 to each other. */
static int exchange(weft_comm *comm, void *send, void *recv)
{
    int rank = weft_comm_rank(comm);
    for (int i = 0; i < AFTER && rank < 2; i++) {
        job_fill(send, WEFT_FLOAT32, rank, LARGE);
        memset(recv, 0xcc, LARGE * sizeof(float));
        CHECK_OK(weft_sendrecv(comm, send, LARGE, 1 - rank, i, recv, LARGE, 1 - rank, i, WEFT_FLOAT32, NULL,
                               NULL));
        job_fill(send, WEFT_FLOAT32, 1 - rank, LARGE);
        CHECK_BITS(memcmp(send, recv, LARGE * sizeof(float)) == 0);
    }
    return 0;
}

static int use(weft_comm *near, weft_comm *copy, const struct scene *scene, void *send, void *recv)
{
    for (int i = 0; i < AFTER; i++)
        CHECK(job_reduce(near, send, recv, LARGE, WEFT_FLOAT32) == 0);
    return scene->breaks ? exchange(copy, send, recv) : 0; /* else one of its ranks is dead */
}

static int body(int rank, int ranks, void *arg)
{
    const struct scene *scene = arg;
    struct job job;
    weft_comm *near, *copy;
    void *send = malloc(LARGE * sizeof(float)), *recv = malloc(LARGE * sizeof(float));
    CHECK(send && recv && ranks == RANKS);
    setenv("WEFT_VERBS_DEVICE", rank == 2 ? scene->far : scene->near, 1);
    CHECK_OK(job_open(&job, "verbs", NULL));
    CHECK_OK(weft_comm_split(job.comm, rank == 2, rank, &near, NULL));
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &copy, NULL));
    CHECK(use(near, copy, scene, send, recv) == 0);
    CHECK(call_on(job.comm, scene, send, recv) == 0);
    CHECK(use(near, copy, scene, send, recv) == 0);
    CHECK_OK(weft_comm_destroy(near));
    int status = weft_comm_destroy(copy);
    CHECK(status == WEFT_OK || !scene->breaks);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    free(send);
    free(recv);
    return 0;
}

/* --- around them */

/* What a command prints. */
static void read_command(const char *command, char *text, size_t capacity)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(text, 1, capacity - 1, pipe);
    text[size] = '\0';
    assert_int_equal(pclose(pipe), 0);
}

/* Until a command prints this. */
static void await(const char *command, const char *expected)
{
    char text[4096];
    time_t limit = time(NULL) + 20;
    do {
        read_command(command, text, sizeof text);
        if (strcmp(text, expected) == 0)
            return;
        usleep(50000);
    } while (time(NULL) < limit);
    fail_msg("'%s' says '%s', not '%s'", command, text, expected);
}

/* Queue pairs, completion queues, registrations and contexts, of all devices. */
#define RESOURCES "rdma resource show"

static void play(const struct scene *scene)
{
    char before[4096];
    int statuses[TEST_RANKS_MAX];
    if (!getenv("WEFT_VM"))
        TEST_SKIP("breaks the network: only in a virtual machine");
    read_command(RESOURCES, before, sizeof before);
    assert_non_null(strstr(before, "rxe2: "));
    test_ranks_fork_status(RANKS, body, (void *)(uintptr_t)scene, statuses);
    if (scene->mends)
        assert_int_equal(system(scene->mends), 0);
    await("cat /sys/class/infiniband/rxe?/ports/1/state", "4: ACTIVE\n4: ACTIVE\n4: ACTIVE\n");
    for (int i = 0; i < RANKS; i++) {
        if (i == 2 && !scene->breaks)
            assert_true(WIFSIGNALED(statuses[i]));
        else
            assert_int_equal(statuses[i], 0);
    }
    await(RESOURCES, before);
}

#define SILENCE "transport retry counter exceeded (12) with a peer at ::ffff:10.7.0."
#define TRIES                                                                                                \
    "; port ACTIVE, LinkUp: no acknowledgement in 7 tries of 134 ms; does the peer live? Then look at its "  \
    "port, MTU, GID, UDP port 4791 and PFC/ECN on the switches"
#define GO_AND_LOOK "look at cable, switch port and 'ip link'"

/* The ends of a link find out at different times, and the first one says so to the other: all get the text of either. */
static void test_port_goes_down(void **state)
{
    (void)state;
    static const struct scene scene = {
        .near = "rxe1",
        .far = "rxe2",
        .breaks = "ip link set r2 down",
        .mends = "ip link set r2 up",
        .count = LARGE,
        .to_others = {{"rank 2 on host '", "' (pid ", "::ffff:10.7.0.3", "::ffff:10.7.0.2", " port 1 (GID 1 ",
                       "look at "}},
        .to_rank_2 = {{" on host '", "' (pid ", "rxe2 port 1 (GID 1 ::ffff:10.7.0.3, RoCE v2)", "DOWN",
                       GO_AND_LOOK}},
    };
    play(&scene);
}

/* The other end of the cable has no carrier then. Ranks 0 and 1 go on all the same, as packets of a port to itself do
 * not leave it; though the kernel takes seconds to destroy a queue pair whose packets find no neighbour. */
static void test_cable_is_pulled(void **state)
{
    (void)state;
    static const struct scene scene = {
        .near = "rxe0",
        .far = "rxe1",
        .breaks = "ip link set r1 down",
        .mends = "ip link set r1 up",
        .count = LARGE,
        .to_others = {{"rank 2 on host '", "' (pid ", "::ffff:10.7.0.2", "::ffff:10.7.0.1", " port 1 (GID 1 ",
                       "DOWN", GO_AND_LOOK}},
        .to_rank_2 = {{" on host '", "' (pid ", "rxe1 port 1 (GID 1 ::ffff:10.7.0.2, RoCE v2)", "DOWN",
                       GO_AND_LOOK}},
    };
    play(&scene);
}

static void test_process_dies(void **state)
{
    (void)state;
    static const struct scene scene = {
        .near = "rxe1",
        .far = "rxe2",
        .count = LARGE,
        .to_others = {{"rank 2 on host '", ") died: connection "}},
    };
    play(&scene);
}

/* Only what rank 2 sends is lost, acknowledgements among it. */
static void test_network_loses_everything(void **state)
{
    (void)state;
    static const struct scene scene = {
        .near = "rxe1",
        .far = "rxe2",
        .breaks = "tc qdisc add dev r2 root netem loss 100%",
        .mends = "tc qdisc del dev r2 root",
        .count = 2,
        .to_others = {{" on host '", "' (pid ", "the link to it broke: verbs: ", SILENCE, " port 1 (GID 1 ",
                       "::ffff:10.7.0.2", "::ffff:10.7.0.3", TRIES}},
        .to_rank_2 = {{" on host '", "' (pid ", "the link to it broke: verbs: ", SILENCE, " port 1 (GID 1 ",
                       "::ffff:10.7.0.2", "::ffff:10.7.0.3", TRIES}},
    };
    play(&scene);
}

/* r0 must not answer for the address of r2, which is behind it. */
#define ARP_IGNORE "/proc/sys/net/ipv4/conf/all/arp_ignore"

static int setup(void **state)
{
    (void)state;
    if (!getenv("WEFT_VM"))
        return 0;
    if (system(
            "echo 1 >" ARP_IGNORE " && ip link add link r0 name r2 type macvlan mode bridge && "
            "ip addr add 10.7.0.3/24 dev r2 && ip link set r2 up && rdma link add rxe2 type rxe netdev r2"))
        return 1;
    await("cat /sys/class/infiniband/rxe2/ports/1/state", "4: ACTIVE\n");
    await("cat /sys/class/infiniband/rxe2/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a07:0003\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return getenv("WEFT_VM") && system("rdma link delete rxe2 && ip link delete r2 && echo 0 >" ARP_IGNORE);
}

int main(void)
{
    static char address[64];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port_goes_down),
        cmocka_unit_test(test_cable_is_pulled),
        cmocka_unit_test(test_process_dies),
        cmocka_unit_test(test_network_loses_everything),
    };
    const char *reason = test_rdma_address(0, address, sizeof address);
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    /* As short as an emulated machine can stand: it may be late by most of a second. Soft-RoCE takes 7 retries as endless. */
    setenv("WEFT_VERBS_TIMEOUT", "15", 1);
    setenv("WEFT_VERBS_RETRY", "6", 1);
    return cmocka_run_group_tests(tests, setup, teardown);
}
