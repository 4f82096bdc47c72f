/* SPDX-License-Identifier: Apache-2.0 */
/* run: early; elsewhere (tests/system/test_collectives) */
/* Communicators over several hosts, shared memory within and TCP between: every collective with every algorithm, hosts of
 * equal and unequal sizes, ranks in any order; and what is derived from such a communicator, which orders its own ranks by
 * the same facts. Hosts are namespaces (tests/support/machines.h).
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include <cmocka.h>

#include "algos/plan.h"
#include "base/error.h"
#include "comm/calls/collective.h"
#include "tests/support/collective_sweep.h"
#include "tests/support/job.h"
#include "tests/support/layouts.h"
#include "tests/support/machines.h"
#include "tests/support/mounts.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"
#include "tests/support/skip.h"
#include "tests/support/sys_tree.h"

struct scene {
    struct test_layout layout;
    unsigned algorithms; /* bit per enum weft_algorithm: one communicator each */
    int layered;         /* several ranks on one of several hosts */
};

#define BIT(algorithm) (1u << (algorithm))
#define EVERY          (BIT(WEFT_ALGO_COUNT) - 1)
/* What is different when hosts are. */
#define LAYERED (BIT(WEFT_ALGO_AUTO) | BIT(WEFT_ALGO_HIER) | BIT(WEFT_ALGO_LEADER))

/* The host of the test's own that a rank runs on: ranks on different ones do not share memory. */
static int machine_of(const struct test_layout *layout, int rank)
{
    return (layout->domains ? layout->domains : layout->hosts)[rank] - 'a';
}

static void hosts_open(const struct test_layout *layout)
{
    static char names[TEST_MACHINES_MAX][2];
    const char *list[TEST_MACHINES_MAX];
    int count = 0;
    for (int rank = 0; layout->hosts[rank]; rank++) {
        int machine = machine_of(layout, rank);
        names[machine][0] = layout->hosts[rank];
        count = machine >= count ? machine + 1 : count;
    }
    for (int m = 0; m < count; m++)
        list[m] = names[m];
    const char *impossible = test_machines_open(list, count);
    if (impossible)
        TEST_SKIP("%s", impossible);
}

/* Trees that say of the processors of this process that they are those of NUMA node 0, 1, 2. */
#define NODES 3
static char nodes[NODES][SYS_TREE_ROOT_MAX];
/* Files /a, /b, ... with a boot id each. */
static char boots[SYS_TREE_ROOT_MAX];

/* Processors as the kernel lists them: "0,1,5". */
static void list_processors(char *text, size_t capacity)
{
    cpu_set_t set;
    size_t used = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (int p = 0; p < CPU_SETSIZE && used + 8 < capacity; p++) {
        if (CPU_ISSET(p, &set))
            used += (size_t)snprintf(text + used, capacity - used, "%s%d", used ? "," : "", p);
    }
}

static int make_trees(void **state)
{
    (void)state;
    char processors[2048] = "", path[32];
    list_processors(processors, sizeof processors);
    for (int n = 0; n < NODES; n++) {
        sys_tree_make(nodes[n]);
        sys_tree_file(nodes[n], "/online", "0-2");
        for (int i = 0; i < NODES; i++) {
            snprintf(path, sizeof path, "/node%d/cpulist", i);
            sys_tree_file(nodes[n], path, i == n ? processors : "");
        }
    }
    sys_tree_make(boots);
    for (int m = 0; m < TEST_MACHINES_MAX; m++) {
        snprintf(path, sizeof path, "/%c", 'a' + m);
        snprintf(processors, sizeof processors, "%d0000000-0000-4000-8000-000000000000", m + 1);
        sys_tree_file(boots, path, processors);
    }
    return 0;
}

static int remove_trees(void **state)
{
    (void)state;
    for (int n = 0; n < NODES; n++)
        sys_tree_remove(nodes[n]);
    sys_tree_remove(boots);
    return 0;
}

static const char place[] = "/sys/devices/system/node", boot_id[] = "/proc/sys/kernel/random/boot_id";

static void need_nodes(void)
{
    if (access(place, F_OK))
        TEST_SKIP("no %s to put others over", place);
    int failed = test_mounts_probe(place);
    if (failed)
        TEST_SKIP("no mounts of one's own here: %s", strerror(failed));
}

/* In the rank's process: lets it see only what one of the trees says, or a system without NUMA nodes. 0 or an errno. */
static int run_on(char node)
{
    int failed = test_mounts_own(place);
    if (failed)
        return failed;
    failed = node == '-' ? mount("none", place, "tmpfs", 0, NULL)
                         : mount(nodes[node - '0'], place, NULL, MS_BIND, NULL);
    return failed ? errno : 0;
}

/* In the rank's process: as if the kernel of a machine of its own ran it. 0 or an errno. */
static int boot_as(int machine)
{
    char file[SYS_TREE_ROOT_MAX + 8];
    snprintf(file, sizeof file, "%s/%c", boots, 'a' + machine);
    int failed = test_mounts_own(boot_id);
    if (failed)
        return failed;
    return mount(file, boot_id, NULL, MS_BIND, NULL) ? errno : 0;
}

/* In the rank's process: the communicator that the layout is of. */
static int open_on_host(struct job *job, const struct test_layout *layout, int rank, int meeting)
{
    if (layout->by_rank)
        setenv("WEFT_ORDER", "rank", 1);
    int failed = layout->numa ? run_on(layout->numa[rank]) : 0;
    if (!failed && layout->same_name)
        failed = boot_as(machine_of(layout, rank));
    if (failed)
        return weft_fail(WEFT_SYSTEM, "the mounts of rank %d's machine: %s", rank, strerror(failed));
    test_machines_seat(rank, (int)strlen(layout->hosts), machine_of(layout, 0), meeting);
    return job_open(job, NULL, NULL);
}

/* The collectives that a forced algorithm serves: that it is taken for them, and no other takes part otherwise. */
static int served(const weft_comm *comm, enum weft_algorithm forced, unsigned *collectives)
{
    *collectives = 0;
    for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
        enum weft_collective collective = (enum weft_collective)c;
        struct weft_operands operands = {.collective = collective,
                                         .root = weft_collective_has_root(collective) ? 0 : -1,
                                         .count = 1000,
                                         .dtype = WEFT_INT32,
                                         .op = WEFT_SUM,
                                         .element_bytes = 4};
        enum weft_algorithm chosen = weft_collective_choose(comm, &operands);
        CHECK(weft_algorithm_serves(collective, chosen));
        CHECK(chosen == forced || !weft_algorithm_serves(collective, forced));
        if (chosen == forced || forced == WEFT_ALGO_AUTO)
            *collectives |= 1u << c;
    }
    return 0;
}

/* Nobody has to ask for plans for several ranks on several hosts, at any size from a word to 64 MiB. */
static int takes_layers(const weft_comm *comm)
{
    int taken = 0;
    for (size_t count = 1; count <= (size_t)16 << 20; count *= 2) {
        struct weft_operands operands = {.collective = WEFT_ALLREDUCE,
                                         .root = -1,
                                         .count = count,
                                         .dtype = WEFT_INT32,
                                         .op = WEFT_SUM,
                                         .element_bytes = 4};
        enum weft_algorithm chosen = weft_collective_choose(comm, &operands);
        taken |= chosen == WEFT_ALGO_HIER || chosen == WEFT_ALGO_LEADER;
    }
    return taken;
}

static int sweep_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct scene *scene = arg;
    static const size_t all[] = {1, 301, 40001}, few[] = {7};
    int sanitized = test_is_sanitized();
    CHECK(test_machines_enter(machine_of(&scene->layout, rank)) == 0);
    for (int a = 0; a < WEFT_ALGO_COUNT; a++) {
        struct job job;
        unsigned collectives;
        if (!(scene->algorithms & BIT(a)))
            continue;
        if (sanitized && scene->algorithms == EVERY && a != WEFT_ALGO_AUTO && a % 2 == scene->layout.by_rank)
            continue; /* half of them over each of both layouts */
        setenv("WEFT_ALGO", weft_algorithm_name((enum weft_algorithm)a), 1);
        CHECK_OK(open_on_host(&job, &scene->layout, rank, 1 + a));
        CHECK(test_layout_check(job.comm, &scene->layout) == 0);
        CHECK(served(job.comm, (enum weft_algorithm)a, &collectives) == 0 && collectives);
        if (a == WEFT_ALGO_AUTO)
            CHECK(takes_layers(job.comm) == scene->layered);
        CHECK(collective_sweep(job.comm, collectives, (uint32_t)a + 1, sanitized ? few : all,
                               sanitized ? 1 : 3) == 0);
        CHECK_OK(job_close(&job));
    }
    return 0;
}

static void sweep(struct scene scene)
{
    hosts_open(&scene.layout);
    int failed = test_ranks_fork((int)strlen(scene.layout.hosts), sweep_body, &scene);
    test_machines_close();
    assert_int_equal(failed, 0);
}

static void test_unequal_hosts(void **state)
{
    (void)state;
    sweep((struct scene){{.hosts = "bacaba"}, EVERY, 1});
}

static void test_equal_hosts(void **state)
{
    (void)state;
    sweep((struct scene){{.hosts = "aabb"}, LAYERED, 1});
}

static void test_one_rank_on_a_host(void **state)
{
    (void)state;
    sweep((struct scene){{.hosts = "aaab"}, LAYERED, 1});
}

static void test_one_host(void **state)
{
    (void)state;
    sweep((struct scene){{.hosts = "aaaa"}, LAYERED, 0});
}

/* Ranks of one host, and of several, that run on its NUMA nodes by turns. */
static void test_numa_nodes(void **state)
{
    (void)state;
    need_nodes();
    sweep((struct scene){{.hosts = "aaaaa", .numa = "1-020"}, BIT(WEFT_ALGO_AUTO), 0});
    sweep((struct scene){{.hosts = "babaa", .numa = "10010"}, BIT(WEFT_ALGO_AUTO), 1});
}

/* Ranks of a machine that do not all share memory: on one host, those that do side by side; where the job has no other,
 * hosts of their own. And two machines of one name. */
static void test_domains(void **state)
{
    (void)state;
    const unsigned some = BIT(WEFT_ALGO_AUTO) | BIT(WEFT_ALGO_HIER);
    sweep((struct scene){{.hosts = "aabaaab", .domains = "abcbaac", .numa = "1011010"}, some, 1});
    sweep((struct scene){{.hosts = "aaaaa", .domains = "baaab"}, some, 1});
    sweep((struct scene){{.hosts = "aabaa", .domains = "bacab", .same_name = 1}, some, 1});
}

/* Hosts that have no part in it: ranks stand as they are numbered, back and forth between them. */
static void test_by_rank(void **state)
{
    (void)state;
    sweep((struct scene){{.hosts = "abaab", .by_rank = 1}, EVERY, 0});
    sweep((struct scene){
        {.hosts = "baa", .by_rank = 1}, BIT(WEFT_ALGO_AUTO), 1}); /* host by host all the same */
}

/* --- what is derived */

struct lineage {
    struct test_layout job; /* of the first communicator */
    int dies;               /* this rank of it, at last */
    const char *fabric;     /* WEFT_TOPO_FILE; NULL: none */
};

/* One member is wrong: all hear who by its rank in this communicator, and where that is. Ends the communicator. */
static int name_the_wrong(weft_comm *comm, const char *hosts)
{
    int32_t send[8] = {0}, recv[8];
    int rank = weft_comm_rank(comm), wrong = weft_comm_size(comm) - 1;
    char expected[64];
    snprintf(expected, sizeof expected, "rank %d on host '%c'", wrong, hosts[wrong]);
    CHECK(weft_allreduce(comm, send, recv, rank == wrong ? 7 : 5, WEFT_INT32, WEFT_SUM, NULL) ==
          WEFT_MISMATCH);
    if (strstr(weft_error_detail(), expected))
        return 0;
    fprintf(stderr, "'%s': expected '%s'\n", weft_error_detail(), expected);
    return 1;
}

/* members: ranks of the job, by the derived communicator's ranks; the last is -1. */
static int check_derived(weft_comm *comm, const struct lineage *lineage, const int *members)
{
    static const size_t counts[] = {301};
    char hosts[TEST_LAYOUT_RANKS + 1] = "", numa[TEST_LAYOUT_RANKS + 1] = "",
                                   domains[TEST_LAYOUT_RANKS + 1] = "";
    struct test_layout expected = lineage->job;
    expected.hosts = hosts;
    expected.numa = lineage->job.numa ? numa : NULL;
    expected.domains = lineage->job.domains ? domains : NULL;
    for (int r = 0; members[r] >= 0; r++) {
        hosts[r] = lineage->job.hosts[members[r]];
        numa[r] = lineage->job.numa ? lineage->job.numa[members[r]] : '-';
        domains[r] = (char)('a' + machine_of(&lineage->job, members[r]));
    }
    CHECK(test_layout_check(comm, &expected) == 0);
    CHECK(collective_sweep(comm, COLLECTIVES_ALL, 5, counts, 1) == 0);
    CHECK(name_the_wrong(comm, hosts) == 0);
    CHECK_OK(weft_comm_destroy(comm));
    return 0;
}

/* The even ranks backwards, the odd ones, and copies of both, which outlive them. */
static int derive_halves(weft_comm *comm, const struct lineage *lineage)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), count = 0;
    int members[TEST_LAYOUT_RANKS + 1];
    for (int r = ranks - 1; r >= 0; r--) {
        if (r % 2 == rank % 2)
            members[count++] = r;
    }
    members[count] = -1;
    weft_comm *half, *copy;
    CHECK_OK(weft_comm_split(comm, rank % 2, -rank, &half, NULL));
    CHECK_OK(weft_comm_split(half, 0, 0, &copy, NULL));
    CHECK(check_derived(half, lineage, members) == 0);
    CHECK(check_derived(copy, lineage, members) == 0);
    return 0;
}

static int derive_subset(weft_comm *comm, const struct lineage *lineage)
{
    static const int members[] = {5, 0, 6, 3, -1};
    weft_comm *some;
    int takes_part = 0;
    for (int i = 0; members[i] >= 0; i++)
        takes_part |= members[i] == weft_comm_rank(comm);
    if (!takes_part)
        return 0;
    CHECK_OK(weft_comm_subset(comm, members, 4, 1, &some, NULL));
    return check_derived(some, lineage, members);
}

/* After a death, which all hear of by the dead one's name. */
static int derive_survivors(weft_comm *comm, const struct lineage *lineage)
{
    int ranks = weft_comm_size(comm), members[TEST_LAYOUT_RANKS + 1], count = 0, status;
    int32_t send = 1, recv;
    char expected[64];
    weft_comm *smaller;
    status = weft_barrier(comm, NULL); /* others may still be making theirs */
    if (weft_comm_rank(comm) == lineage->dies)
        kill(getpid(), SIGKILL);
    while (status == WEFT_OK)
        status = weft_allreduce(comm, &send, &recv, 1, WEFT_INT32, WEFT_SUM, NULL);
    snprintf(expected, sizeof expected, "rank %d on host '%c'", lineage->dies,
             lineage->job.hosts[lineage->dies]);
    CHECK(status == WEFT_PEER_FAILED && strstr(weft_error_detail(), expected));
    CHECK_OK(weft_comm_shrink(comm, &smaller, NULL));
    for (int r = 0; r < ranks; r++) {
        if (r != lineage->dies)
            members[count++] = r;
    }
    members[count] = -1;
    return check_derived(smaller, lineage, members);
}

static int lineage_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct lineage *lineage = arg;
    struct job job;
    CHECK(test_machines_enter(machine_of(&lineage->job, rank)) == 0);
    if (lineage->fabric)
        setenv("WEFT_TOPO_FILE", lineage->fabric, 1);
    CHECK_OK(open_on_host(&job, &lineage->job, rank, 1));
    CHECK(test_layout_check(job.comm, &lineage->job) == 0);
    CHECK(derive_halves(job.comm, lineage) == 0);
    CHECK(derive_subset(job.comm, lineage) == 0);
    CHECK(derive_survivors(job.comm, lineage) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void derive(struct lineage lineage)
{
    int statuses[TEST_RANKS_MAX] = {0}, ranks = (int)strlen(lineage.job.hosts);
    hosts_open(&lineage.job);
    test_ranks_fork_status(ranks, lineage_body, &lineage, statuses);
    test_machines_close();
    for (int r = 0; r < ranks; r++)
        assert_int_equal(statuses[r], r == lineage.dies ? SIGKILL : 0);
}

static void test_derived(void **state)
{
    (void)state;
    derive((struct lineage){{.hosts = "bacabac"}, 4, NULL});
    if (!test_is_sanitized())
        derive((struct lineage){{.hosts = "bacabac"}, 0, NULL});
}

static void test_derived_by_rank(void **state)
{
    (void)state;
    derive((struct lineage){{.hosts = "bacabac", .by_rank = 1}, 4, NULL});
}

static void test_derived_by_numa_node(void **state)
{
    (void)state;
    need_nodes();
    derive((struct lineage){{.hosts = "bacabac", .numa = "0211-10"}, 4, NULL});
}

static const char fabric[] =
    "SwitchName=s1 Nodes=a,c\nSwitchName=s2 Nodes=b\nSwitchName=s0 Switches=s[1-2]\n";

static void derive_on_fabric(struct lineage lineage)
{
    char path[] = "/tmp/weft-layouts-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, fabric, strlen(fabric)), (ssize_t)strlen(fabric));
    assert_int_equal(close(fd), 0);
    lineage.fabric = path;
    derive(lineage);
    unlink(path);
}

/* Hosts "a" and "c" are on one switch. */
static void test_derived_by_fabric(void **state)
{
    (void)state;
    derive_on_fabric((struct lineage){{.hosts = "bacabac", .sequence = "acb"}, 4, NULL});
}

/* Ranks of "a" that share no memory with the others there are on its switch all the same. */
static void test_derived_in_domains(void **state)
{
    (void)state;
    derive_on_fabric(
        (struct lineage){{.hosts = "bacabac", .sequence = "acb", .domains = "badcbcd"}, 4, NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unequal_hosts),
        cmocka_unit_test(test_equal_hosts),
        cmocka_unit_test(test_one_rank_on_a_host),
        cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_by_rank),
        cmocka_unit_test(test_numa_nodes),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_derived_in_domains),
        cmocka_unit_test(test_derived_by_numa_node),
        cmocka_unit_test(test_derived),
        cmocka_unit_test(test_derived_by_rank),
        cmocka_unit_test(test_derived_by_fabric),
    };
    return cmocka_run_group_tests(tests, make_trees, remove_trees);
}
