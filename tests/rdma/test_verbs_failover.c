/* SPDX-License-Identifier: Apache-2.0 */
/* Two rails that fail in turn while ranks reduce and pass messages (WEFT_VERBS_FAILOVER): every byte is right, nothing waits for
 * the rail that is down, traffic is on the other one meanwhile and on both afterwards, and memory that was received into is not
 * written again.
 *
 * The rails are two cables (veth) of their own, each with a soft-RoCE device at both ends: rank 0 has one end of each, rank 1
 * the other. A cable is cut by setting one end down, in turn the one of rank 0 and of rank 1; in a second scene any end at any
 * moment, also while the link is still busy with the last time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define FLAPS   20
#define FAST    60    /* flaps of the second scene */
#define FLOATS  12001 /* of an allreduce: some slices' receive buffers, cut over both rails */
#define BYTES   40001
#define PATTERN 0x5a
#define LIMIT_S 100 /* for a step that takes a second or two */

static struct shared {
    atomic_int turns; /* that rank 0 has behind it */
    atomic_int is_over, has_failed;
} * shared;

static const char *const devices[2] = {"cable0a,cable1a", "cable0b,cable1b"};

/* One turn: a reduction, and messages both ways, into memory that was not used last time. */
struct turn {
    float *send, *recv;
    uint8_t *out, *in[2];
};

static int is_pattern(const uint8_t *bytes, size_t size)
{
    return bytes[0] == PATTERN && memcmp(bytes, bytes + 1, size - 1) == 0;
}

static int turn_take(weft_comm *comm, struct turn *turn, int number, int *is_over)
{
    int rank = weft_comm_rank(comm), peer = !rank;
    int32_t flag = rank == 0 ? atomic_load(&shared->is_over) : 0, flags = -1;
    uint8_t *in = turn->in[number % 2], *idle = turn->in[!(number % 2)];
    CHECK_OK(weft_allreduce(comm, &flag, &flags, 1, WEFT_INT32, WEFT_SUM, NULL));
    job_fill(turn->send, WEFT_FLOAT32, rank, FLOATS);
    memset(turn->recv, 0xcc, FLOATS * sizeof *turn->recv);
    CHECK_OK(weft_allreduce(comm, turn->send, turn->recv, FLOATS, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(turn->recv, WEFT_FLOAT32, WEFT_SUM, 2, FLOATS) == 0);
    size_t size = number % 3 ? (size_t)BYTES - (size_t)number % 7 : 100 + (size_t)number % 50;
    for (size_t i = 0; i < size; i++)
        turn->out[i] = (uint8_t)(i * 7 + (size_t)(number * 3 + rank));
    CHECK_OK(weft_sendrecv(comm, turn->out, size, peer, 5, in, size, peer, 5, WEFT_UINT8, NULL, NULL));
    for (size_t i = 0; i < size; i++)
        CHECK_BITS(in[i] == (uint8_t)(i * 7 + (size_t)(number * 3 + peer)));
    memset(in, PATTERN, BYTES);
    CHECK_BITS(is_pattern(idle, BYTES)); /* since the end of the last turn */
    *is_over = flags != 0;
    return 0;
}

static int turns_take(weft_comm *comm)
{
    struct turn turn = {malloc(FLOATS * sizeof(float)),
                        malloc(FLOATS * sizeof(float)),
                        malloc(BYTES),
                        {malloc(BYTES), malloc(BYTES)}};
    CHECK(turn.send && turn.recv && turn.out && turn.in[0] && turn.in[1]);
    memset(turn.in[0], PATTERN, BYTES);
    memset(turn.in[1], PATTERN, BYTES);
    int is_over = 0;
    for (int number = 0; !is_over; number++) {
        if (turn_take(comm, &turn, number, &is_over))
            return 1;
        if (weft_comm_rank(comm) == 0)
            atomic_fetch_add(&shared->turns, 1);
    }
    free(turn.send);
    free(turn.recv);
    free(turn.out);
    free(turn.in[0]);
    free(turn.in[1]);
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)ranks, (void)arg;
    setenv("WEFT_VERBS_DEVICE", devices[rank], 1);
    int failed = job_open(&job, "verbs", NULL);
    if (!failed)
        failed = turns_take(job.comm);
    if (failed) {
        fprintf(stderr, "rank %d: %s\n", rank, weft_error_detail());
        atomic_store(&shared->has_failed, 1);
    }
    CHECK(!failed);
    CHECK_OK(job_close(&job));
    return 0;
}

/* --- cables */

static int run(const char *command)
{
    int status = system(command);
    if (status)
        fprintf(stderr, "%s: status %d\n", command, status);
    return status;
}

/* One end of a cable; 0 when that worked. */
static int end_set(int cable, char end, int is_up)
{
    struct ifreq request = {0};
    int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "c%d%c", cable, end);
    int status = ioctl(socket_fd, SIOCGIFFLAGS, &request);
    request.ifr_flags = (short)(is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    if (!status)
        status = ioctl(socket_fd, SIOCSIFFLAGS, &request);
    close(socket_fd);
    return status;
}

/* Packets that the device of this cable's end has sent. */
static long long sent(int cable, char end)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/class/infiniband/cable%d%c/ports/1/hw_counters/sent_pkts", cable, end);
    FILE *file = fopen(path, "r");
    long long count = -1;
    if (file && fscanf(file, "%lld", &count) != 1)
        count = -1;
    if (file)
        fclose(file);
    return count;
}

/* Until so many more turns have been taken; 0 when they have not. */
static int wait_turns(int count)
{
    int wanted = atomic_load(&shared->turns) + count;
    for (int i = 0; i < LIMIT_S * 100 && !atomic_load(&shared->has_failed); i++) {
        if (atomic_load(&shared->turns) >= wanted)
            return 1;
        usleep(10000);
    }
    return 0;
}

/* Until the rank's device sends over this cable again. */
static int wait_sent(int cable)
{
    long long before = sent(cable, 'a');
    for (int i = 0; i < LIMIT_S * 100 && !atomic_load(&shared->has_failed); i++) {
        if (sent(cable, 'a') > before + 10)
            return 1;
        usleep(10000);
    }
    return 0;
}

#define STEP(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "flap %d: %s is not so\n", number, #condition);                                  \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static int flap(int number)
{
    int cable = number % 2;
    char end = number / 2 % 2 ? 'b' : 'a';
    STEP(wait_sent(cable)); /* it is in use */
    if (number % 3 == 0)
        usleep(3000 * (unsigned)number); /* any moment of a turn */
    STEP(end_set(cable, end, 0) == 0);
    STEP(wait_turns(2));
    long long dead = sent(cable, 'a');
    STEP(wait_turns(2));
    STEP(wait_sent(!cable));
    STEP(sent(cable, 'a') - dead < 10);
    STEP(end_set(cable, end, 1) == 0);
    return 0;
}

/* Up to 120 ms down, and up to 120 ms up again: less than what a round takes, or more. */
static int flap_fast(int number)
{
    static unsigned seed = 20261122;
    int cable = rand_r(&seed) % 2;
    char end = rand_r(&seed) % 2 ? 'b' : 'a';
    STEP(end_set(cable, end, 0) == 0);
    usleep((unsigned)rand_r(&seed) % 120000);
    STEP(end_set(cable, end, 1) == 0);
    usleep((unsigned)rand_r(&seed) % 120000);
    STEP(number % 10 || wait_turns(2));
    return 0;
}

static int flapper(int (*flap_one)(int number), int flaps)
{
    int failed = !wait_turns(2);
    for (int number = 0; !failed && number < flaps; number++)
        failed = flap_one(number);
    failed |= !wait_turns(2);
    atomic_store(&shared->is_over, 1);
    return failed;
}

static const char cable_up[] =
    "ip link add c%da mtu 9000 type veth peer name c%db mtu 9000 && "
    "ip addr add 10.8.%d.1/24 dev c%da && ip addr add 10.8.%d.2/24 dev c%db && "
    "ip link set c%da up && ip link set c%db up && "
    "rdma link add cable%da type rxe netdev c%da && rdma link add cable%db type rxe netdev c%db";

static int cables_lay(void **state)
{
    (void)state;
    char command[512];
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, cable_up, i, i, i, i, i, i, i, i, i, i, i, i);
        if (run(command))
            return -1;
    }
    return run(
        "for d in cable0a cable0b cable1a cable1b; do n=0; "
        "until grep -q ACTIVE /sys/class/infiniband/$d/ports/1/state && "
        "grep -q :ffff: /sys/class/infiniband/$d/ports/1/gids/1; do n=$((n+1)); [ $n -lt 100 ] || exit 1; "
        "sleep 0.1; done; done");
}

static int cables_take_away(void **state)
{
    (void)state;
    run("for i in 0 1; do for e in a b; do rdma link delete cable$i$e; done; ip link delete c${i}a; done");
    return 0;
}

static void ranks_go_on(int (*flap_one)(int number), int flaps)
{
    memset(shared, 0, sizeof *shared);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(flapper(flap_one, flaps));
    int failed = test_ranks_fork(2, body, NULL), status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(failed, 0);
    assert_int_equal(status, 0);
}

static void rails_fail_in_turn(void **state)
{
    (void)state;
    ranks_go_on(flap, FLAPS);
}

static void rails_fail_while_others_come_back(void **state)
{
    (void)state;
    ranks_go_on(flap_fast, FAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_fail_in_turn),
        cmocka_unit_test(rails_fail_while_others_come_back),
    };
    if (!getenv("WEFT_VM")) {
        printf("SKIP: cables are cut in a virtual machine only\n");
        return 77;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    test_ranks_limit(300); /* emulated, on a machine with other work */
    setenv("WEFT_HEARTBEAT_MS", "20000",
           1); /* nor is one dead that the machine lets stand for some seconds */
    setenv("WEFT_VERBS_FAILOVER", "1", 1);
    setenv("WEFT_VERBS_RETRY", "6", 1);
    setenv("WEFT_VERBS_TIMEOUT", "14", 1);
    setenv("WEFT_VERBS_STRIPE", "32768", 1);
    return cmocka_run_group_tests(tests, cables_lay, cables_take_away);
}
