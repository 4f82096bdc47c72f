/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_transport_find */
/* Which ports of RDMA devices the ranks of a communicator open: each its share of the host's, by a tree of files that looks like
 * sysfs; what a setting says; and what can be had where the share cannot. The fake of tests/support/verbs_fake.h takes the place of
 * verbs, and notes what it is asked for. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "algos/hosts.h"
#include "comm/core/comm.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"
#include "tests/support/sys_tree.h"
#include "tests/support/verbs_fake.h"
#include "transport/registry.h"

#define RANKS_MAX 8

const struct weft_transport_ops *__real_weft_transport_find(const char *name);
const struct weft_transport_ops *__wrap_weft_transport_find(const char *name);
const struct weft_transport_ops *__wrap_weft_transport_find(const char *name)
{
    return strcmp(name, "verbs") == 0 ? verbs_fake_ops() : __real_weft_transport_find(name);
}

static char root[SYS_TREE_ROOT_MAX];
static int processors[2]; /* two that this program may run on */

struct scene {
    const char *numas;               /* a rank's NUMA node each: "0", "1", or "-" for both */
    const char *transports;          /* NULL: verbs */
    const char *missing;             /* what no rank can open */
    const char *hosts;               /* a rank's host each, as a character; NULL: all are on one */
    uint32_t rings, ports;           /* of the layout, where hosts are named */
    const char *expected[RANKS_MAX]; /* what each has asked for last */
};

static void bind_to(char numa)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < 2; i++) {
        if (numa == '-' || numa == '0' + i)
            CPU_SET(processors[i], &set);
    }
    sched_setaffinity(0, sizeof set, &set);
}

static int body(int rank, int ranks, void *arg)
{
    const struct scene *scene = arg;
    struct job job;
    float in[100], out[100];
    verbs_fake_set(&(struct verbs_fake){.missing = scene->missing});
    bind_to(scene->numas[rank]);
    if (scene->hosts)
        CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname(&scene->hosts[rank], 1) == 0);
    CHECK_OK(job_open(&job, scene->transports ? scene->transports : "verbs", NULL));
    if (strcmp(verbs_fake_devices, scene->expected[rank]) != 0) {
        fprintf(stderr, "rank %d has asked for '%s', expected '%s'\n", rank, verbs_fake_devices,
                scene->expected[rank]);
        return 1;
    }
    if (scene->hosts) {
        const struct weft_hosts *hosts = job.comm->hosts;
        CHECK(hosts && weft_hosts_rings(hosts) == scene->rings && hosts->ports == scene->ports);
    }
    job_fill(in, WEFT_FLOAT32, rank, 100);
    CHECK_OK(weft_allreduce(job.comm, in, out, 100, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(out, WEFT_FLOAT32, WEFT_SUM, ranks, 100) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void play(struct scene scene)
{
    verbs_fake_reset(0);
    assert_int_equal(test_ranks_threads((int)strlen(scene.numas), body, &scene), 0);
}

static void add_device(int number, int numa, const char *state, const char *rate)
{
    struct {
        const char *path, *text;
    } files[] = {
        {"node_type", "1: CA"},
        {"ports/1/state", state},
        {"ports/1/rate", rate},
        {"ports/1/link_layer", "InfiniBand"},
        {"ports/1/sm_lid", "0x1"},
        {"ports/1/gids/0", "fe80:0000:0000:0000:0002:c903:0000:0001"},
        {"device/numa_node", numa ? "1" : "0"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/class/infiniband/mlx5_%d/%s", number, files[i].path);
        sys_tree_file(root, path, files[i].text);
    }
}

/* Two NUMA nodes, of which each has one of the processors, and half of the devices. */
static void make_machine(int devices)
{
    sys_tree_make(root);
    sys_tree_file(root, "/sys/devices/system/node/online", "0-1");
    for (int i = 0; i < 2; i++) {
        char path[128], list[16];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", i);
        snprintf(list, sizeof list, "%d", processors[i]);
        sys_tree_file(root, path, list);
    }
    for (int i = 0; i < devices; i++)
        add_device(i, i >= devices / 2, "4: ACTIVE", "400 Gb/sec (4X NDR)");
    setenv("HWLOC_FSROOT", root, 1);
}

static void remove_machine(void)
{
    unsetenv("HWLOC_FSROOT");
    sys_tree_remove(root);
}

/* Each rank has a device of its own, the nearest; a rank alone has four, and with shared memory it is the same. */
static void ranks_share_the_ports(void **state)
{
    (void)state;
    make_machine(8);
    play((struct scene){.numas = "00001111",
                        .expected = {"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1",
                                     "mlx5_6:1", "mlx5_7:1"}});
    play((struct scene){.numas = "01010101",
                        .expected = {"mlx5_0:1", "mlx5_4:1", "mlx5_1:1", "mlx5_5:1", "mlx5_2:1", "mlx5_6:1",
                                     "mlx5_3:1", "mlx5_7:1"}});
    play((struct scene){
        .numas = "--",
        .expected = {"mlx5_0:1,mlx5_2:1,mlx5_4:1,mlx5_6:1", "mlx5_1:1,mlx5_3:1,mlx5_5:1,mlx5_7:1"}});
    play((struct scene){
        .numas = "11",
        .expected = {"mlx5_0:1,mlx5_2:1,mlx5_4:1,mlx5_6:1", "mlx5_1:1,mlx5_3:1,mlx5_5:1,mlx5_7:1"}});
    remove_machine();
}

/* Slow, inactive and foreign devices are nobody's. */
static void only_ports_that_serve(void **state)
{
    (void)state;
    make_machine(4);
    add_device(0, 0, "1: DOWN", "400 Gb/sec (4X NDR)");
    add_device(4, 1, "4: ACTIVE", "25 Gb/sec (1X EDR)");
    add_device(5, 1, "4: ACTIVE", "400 Gb/sec (4X NDR)");
    sys_tree_file(root, "/sys/class/infiniband/mlx5_5/node_type", "4: RNIC");
    play((struct scene){.numas = "01", .expected = {"mlx5_1:1", "mlx5_2:1,mlx5_3:1"}});
    remove_machine();
}

static void settings_go_first(void **state)
{
    (void)state;
    make_machine(4);
    setenv("WEFT_VERBS_RAILS", "1", 1);
    play((struct scene){.numas = "01", .expected = {"mlx5_0:1", "mlx5_2:1"}});
    unsetenv("WEFT_VERBS_RAILS");
    static const struct {
        const char *setting, *first, *second; /* what the ranks ask for */
    } lists[] = {
        {"^mlx5_3", "mlx5_0:1,mlx5_1:1", "mlx5_2:1"},
        {"^mlx5_0,mlx5_3:1", "mlx5_1:1", "mlx5_2:1"},
        {"^mlx5_0:2,mlx5,mlx5_30", "mlx5_0:1,mlx5_1:1", "mlx5_2:1,mlx5_3:1"}, /* there are none such */
        {"^mlx5_0,mlx5_1,mlx5_2,mlx5_3", "^mlx5_0,mlx5_1,mlx5_2,mlx5_3", "^mlx5_0,mlx5_1,mlx5_2,mlx5_3"},
        {"^", "^", "^"}, /* verbs says what is wrong with these */
        {"^mlx5_3,", "^mlx5_3,", "^mlx5_3,"},
        {"^mlx5_3:", "^mlx5_3:", "^mlx5_3:"},
        {"^mlx5_3:x", "^mlx5_3:x", "^mlx5_3:x"},
        {"^mlx5_3:01", "^mlx5_3:01", "^mlx5_3:01"},
        {"^,:1", "^,:1", "^,:1"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        setenv("WEFT_VERBS_DEVICE", lists[i].setting, 1);
        play((struct scene){.numas = "01", .expected = {lists[i].first, lists[i].second}});
    }
    setenv("WEFT_VERBS_DEVICE", "mlx5_7:1", 1);
    play((struct scene){.numas = "01", .expected = {"mlx5_7:1", "mlx5_7:1"}});
    unsetenv("WEFT_VERBS_DEVICE");
    remove_machine();
}

/* Ranks of each host share among themselves, announce it to the others, and have a ring for each rail. */
static void several_hosts(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(unshare(CLONE_NEWUTS) == 0 ? 0 : errno);
    int end;
    assert_int_equal(waitpid(child, &end, 0), child);
    if (WEXITSTATUS(end))
        TEST_SKIP("no UTS namespaces here: %s", strerror(WEXITSTATUS(end)));
    make_machine(4);
    play((struct scene){.numas = "00110011",
                        .hosts = "aaaabbbb",
                        .rings = 4,
                        .ports = 4,
                        .expected = {"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1", "mlx5_0:1", "mlx5_1:1",
                                     "mlx5_2:1", "mlx5_3:1"}});
    /* As containers of one machine: names say which ranks see the same devices. */
    sys_tree_file(root, "/proc/sys/kernel/random/boot_id", "6f1c3b1e-7c55-4f0e-9a53-0d2f4b8c6a01");
    play((struct scene){
        .numas = "0101",
        .hosts = "abba",
        .rings = 2,
        .ports = 2,
        .expected = {"mlx5_0:1,mlx5_1:1", "mlx5_2:1,mlx5_3:1", "mlx5_0:1,mlx5_1:1", "mlx5_2:1,mlx5_3:1"}});
    setenv("WEFT_VERBS_DEVICE", "mlx5_1:1", 1); /* all ranks say so */
    play((struct scene){.numas = "0011",
                        .hosts = "abab",
                        .rings = 1,
                        .ports = 1,
                        .expected = {"mlx5_1:1", "mlx5_1:1", "mlx5_1:1", "mlx5_1:1"}});
    unsetenv("WEFT_VERBS_DEVICE");
    remove_machine();
}

/* As in containers, which see devices that they may not open: verbs takes what it can. */
static void a_share_that_cannot_be_opened(void **state)
{
    (void)state;
    make_machine(4);
    play((struct scene){.numas = "01", .missing = "mlx5_3", .expected = {"mlx5_0:1,mlx5_1:1", ""}});
    setenv("WEFT_VERBS_DEVICE", "^mlx5_1", 1);
    play((struct scene){.numas = "01", .missing = "mlx5_3", .expected = {"mlx5_0:1", "^mlx5_1"}});
    unsetenv("WEFT_VERBS_DEVICE");
    remove_machine();
}

static void nothing_to_share(void **state)
{
    (void)state;
    make_machine(0);
    play((struct scene){.numas = "01", .expected = {"", ""}});
    remove_machine();
    make_machine(4);
    for (int i = 0; i < 4; i++)
        add_device(i, 0, "2: INIT", "400 Gb/sec (4X NDR)");
    play((struct scene){.numas = "01", .expected = {"", ""}});
    remove_machine();
}

/* Two processors of this machine, or a reason why not. */
static int find_processors(void)
{
    cpu_set_t set;
    int found = 0;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++) {
        if (CPU_ISSET(i, &set))
            processors[found++] = i;
    }
    return found == 2;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_the_ports),
        cmocka_unit_test(only_ports_that_serve),
        cmocka_unit_test(settings_go_first),
        cmocka_unit_test(nothing_to_share),
        cmocka_unit_test(a_share_that_cannot_be_opened),
        cmocka_unit_test(several_hosts),
    };
    if (!find_processors()) {
        printf("SKIP: one processor: no two NUMA nodes to be bound to\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
