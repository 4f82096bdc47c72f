/* SPDX-License-Identifier: Apache-2.0 */
/* The order that a communicator finds for its ranks, from host names, Slurm's addresses and a file; and that collectives
 * over it are right. Each rank has a host name of its own choice (a UTS namespace); none shares memory unless
 * its test says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "algos/hosts.h"
#include "comm/core/comm.h"
#include "tests/support/ranks.h"
#include "tests/support/effort.h"
#include "tests/support/skip.h"

#define RANKS 6
#define COUNT 1000

struct scene {
    const char *hosts[RANKS];
    const char *addresses[RANKS]; /* NULL: Slurm says nothing */
    const char *files[RANKS];     /* WEFT_TOPO_FILE, NULL without */
    const char *order;            /* WEFT_ORDER */
    const char *algorithm;        /* WEFT_ALGO */
    const char *settings[RANKS];  /* "NAME=value", one of a rank's own */
    const char *transport;        /* WEFT_TRANSPORT; NULL: tcp, with which no two share memory */
    int plain;                    /* no hosts in plans: all ranks on one, as numbered */
    uint32_t expected[RANKS];     /* the rank at each position */
    uint32_t sizes[RANKS];        /* of the hosts, 0 behind the last */
    const char *error;            /* what creating the communicator ends in */
};

/* One rank on each host. */
#define AS_NUMBERED .expected = {0, 1, 2, 3, 4, 5}, .sizes = {1, 1, 1, 1, 1, 1}

static void set_up(const struct scene *scene, int rank)
{
    setenv("WEFT_TRANSPORT", scene->transport ? scene->transport : "tcp", 1);
    unsetenv("SLURM_TOPOLOGY_ADDR");
    unsetenv("SLURM_TOPOLOGY_ADDR_PATTERN");
    unsetenv("WEFT_TOPO_FILE");
    unsetenv("WEFT_ORDER");
    unsetenv("WEFT_ALGO");
    if (scene->algorithm)
        setenv("WEFT_ALGO", scene->algorithm, 1);
    if (scene->addresses[rank]) {
        setenv("SLURM_TOPOLOGY_ADDR", scene->addresses[rank], 1);
        setenv("SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node", 1);
    }
    if (scene->files[rank])
        setenv("WEFT_TOPO_FILE", scene->files[rank], 1);
    if (scene->order)
        setenv("WEFT_ORDER", scene->order, 1);
    if (scene->settings[rank])
        putenv((char *)(uintptr_t)scene->settings[rank]);
}

static int check_layout(const struct scene *scene, const struct weft_hosts *hosts)
{
    CHECK((hosts == NULL) == scene->plain);
    if (!hosts)
        return 0;
    uint32_t count = 0;
    for (uint32_t p = 0; p < RANKS; p++)
        CHECK(weft_hosts_rank(hosts, p) == scene->expected[p]);
    while (count < RANKS && scene->sizes[count])
        count++;
    CHECK(hosts->count == count);
    for (uint32_t h = 0; h < count; h++)
        CHECK(weft_hosts_size(hosts, h) == scene->sizes[h]);
    return 0;
}

/* Without shared memory hosts go by their names here: one machine runs all. */
static int check_indices(const struct scene *scene, const weft_comm *comm)
{
    int indices[RANKS], next = 0;
    for (int r = 0; r < RANKS; r++) {
        weft_rank_info info = WEFT_RANK_INFO_INIT;
        int before = 0;
        CHECK_OK(weft_comm_get_rank_info(comm, r, &info));
        while (before < r && strcmp(scene->hosts[before], scene->hosts[r]) != 0)
            before++;
        indices[r] = before < r ? indices[before] : next++;
        CHECK(info.host_index == indices[r]);
    }
    return 0;
}

/* Sums and blocks whose every element says where it came from. */
static int check_collectives(weft_comm *comm, int rank)
{
    static int64_t in[COUNT], out[COUNT], all[RANKS * COUNT], part[COUNT];
    for (int i = 0; i < COUNT; i++)
        in[i] = (int64_t)i * (rank + 1);
    CHECK_OK(weft_allreduce(comm, in, out, COUNT, WEFT_INT64, WEFT_SUM, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(out[i] == (int64_t)i * RANKS * (RANKS + 1) / 2);
    CHECK_OK(weft_allgather(comm, in, all, COUNT, WEFT_INT64, NULL));
    for (int i = 0; i < RANKS * COUNT; i++)
        CHECK_BITS(all[i] == (int64_t)(i % COUNT) * (i / COUNT + 1));
    CHECK_OK(weft_reduce_scatter(comm, all, part, COUNT, WEFT_INT64, WEFT_SUM, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(part[i] == (int64_t)i * (rank + 1) * RANKS);
    for (int root = 0; root < RANKS; root++) {
        for (int i = 0; i < COUNT; i++)
            out[i] = rank == root ? i + root : -1;
        CHECK_OK(weft_broadcast(comm, out, out, COUNT, WEFT_INT64, root, NULL));
        for (int i = 0; i < COUNT; i++)
            CHECK_BITS(out[i] == i + root);
    }
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    const struct scene *scene = arg;
    weft_context *context;
    weft_comm *comm = NULL;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    (void)ranks;
    CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname(scene->hosts[rank], strlen(scene->hosts[rank])) == 0);
    set_up(scene, rank);
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &context));
    int status = weft_comm_create(context, &options, &comm);
    if (scene->error) {
        CHECK(status == WEFT_SETTINGS);
        if (!strstr(weft_error_detail(), scene->error)) {
            fprintf(stderr, "'%s': expected '%s'\n", weft_error_detail(), scene->error);
            return 1;
        }
    } else {
        CHECK_OK(status);
        CHECK(check_layout(scene, comm->hosts) == 0);
        CHECK(scene->transport || check_indices(scene, comm) == 0);
        CHECK(check_collectives(comm, rank) == 0);
        CHECK_OK(weft_comm_destroy(comm));
    }
    CHECK_OK(weft_context_close(context));
    return 0;
}

/* Sanitized, every third one: six ranks that start over libfabric take long then. */
static void play(struct scene scene)
{
    static unsigned turn;
    int end;
    if (test_is_sanitized() && turn++ % 3)
        return;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(unshare(CLONE_NEWUTS) == 0 ? 0 : errno);
    assert_int_equal(waitpid(child, &end, 0), child);
    if (WEXITSTATUS(end))
        TEST_SKIP("no UTS namespaces here: %s", strerror(WEXITSTATUS(end)));
    assert_int_equal(test_ranks_fork(RANKS, body, &scene), 0);
}

#define CYCLIC                                                                                               \
    {                                                                                                        \
        "c", "a", "b", "c", "a", "b"                                                                         \
    }
#define ALL(path)                                                                                            \
    {                                                                                                        \
        path, path, path, path, path, path                                                                   \
    }

static void test_by_host_names(void **state)
{
    (void)state;
    play((struct scene){.hosts = CYCLIC, .expected = {1, 4, 2, 5, 0, 3}, .sizes = {2, 2, 2}});
    play((struct scene){.hosts = {"n10", "n9", "n9", "n10", "n9", "n100"},
                        .expected = {1, 2, 4, 0, 3, 5},
                        .sizes = {3, 2, 1}});
}

/* Plans for several ranks on several hosts, of unequal sizes; without being asked for, too. */
static void test_hierarchical(void **state)
{
    (void)state;
    static const char *const algorithms[] = {"hier", "leader", NULL};
    for (int i = 0; i < 3; i++)
        play((struct scene){.hosts = {"b", "a", "b", "c", "b", "a"},
                            .algorithm = algorithms[i],
                            .expected = {1, 5, 0, 2, 4, 3},
                            .sizes = {2, 3, 1}});
}

static void test_plain(void **state)
{
    (void)state;
    play((struct scene){.hosts = {"a", "a", "a", "a", "a", "a"}, .plain = 1});
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"}, AS_NUMBERED});
}

/* One rank a host, hosts on two switches by turns. */
static void test_by_slurm(void **state)
{
    (void)state;
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .addresses = {"s0.s1.a", "s0.s2.b", "s0.s1.c", "s0.s2.d", "s0.s1.e", "s0.s2.f"},
                        .expected = {0, 2, 4, 1, 3, 5},
                        .sizes = {1, 1, 1, 1, 1, 1}});
}

static void write_file(char path[64], const char *text)
{
    strcpy(path, "/tmp/weft-arrange-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static const char fabric[] = "SwitchName=s1 Nodes=b,d,f\n"
                             "SwitchName=s2 Nodes=a,c,e\n"
                             "SwitchName=s0 Switches=s[1-2]\n";

/* The file counts before Slurm's addresses; hosts are found by their short names. */
static void test_by_file(void **state)
{
    (void)state;
    char path[64];
    write_file(path, fabric);
    play((struct scene){.hosts = {"a.x.y", "b.x.y", "c.x.y", "d.x.y", "e.x.y", "f.x.y"},
                        .addresses = ALL("s9.s9.n"),
                        .files = ALL(path),
                        .expected = {1, 3, 5, 0, 2, 4},
                        .sizes = {1, 1, 1, 1, 1, 1}});
    play((struct scene){
        .hosts = {"a", "b", "c", "d", "e", "f"}, .files = ALL(path), .order = "rank", AS_NUMBERED});
    unlink(path);
}

/* What scontrol prints orders like the file that it was made from. One of switches that nothing hangs on yet ends no job. */
static void test_files_of_slurm(void **state)
{
    (void)state;
    char path[64];
    write_file(
        path, "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=b,d,f\nSwitchName=s2 Level=0 LinkSpeed=1 Nodes=a,c,e\n"
              "SwitchName=s0 Level=1 LinkSpeed=1 Nodes=a,b,c,d,e,f Switches=s[1-2]\n");
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .files = ALL(path),
                        .expected = {1, 3, 5, 0, 2, 4},
                        .sizes = {1, 1, 1, 1, 1, 1}});
    unlink(path);
    write_file(path, "- topology: t\n  tree:\n    switches:\n    - {switch: s1, nodes: 'b,d,f'}\n"
                     "    - {switch: s2, nodes: 'a,c,e'}\n    - {switch: s0, children: 's[1-2]'}\n");
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .files = ALL(path),
                        .expected = {1, 3, 5, 0, 2, 4},
                        .sizes = {1, 1, 1, 1, 1, 1}});
    unlink(path);
    write_file(path, "SwitchName=root Switches=s[1-2]\nSwitchName=s1\nSwitchName=s2\n");
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"}, .files = ALL(path), AS_NUMBERED});
    unlink(path);
}

static void test_files_differ(void **state)
{
    (void)state;
    char path[64], other[64];
    write_file(path, fabric);
    write_file(other, "SwitchName=s1 Nodes=a,b,c,d,e,f\n");
    play((struct scene){
        .hosts = {"a", "b", "c", "d", "e", "f"},
        .files = {path, path, path, other, path, path},
        .error = "rank 3 on host 'd' reads another fabric from WEFT_TOPO_FILE than rank 0 on host 'a'"});
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .files = {path, path, NULL, path, path, path},
                        .error =
                            "rank 2 on host 'c' runs without WEFT_TOPO_FILE, rank 0 on host 'a' with it"});
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .files = {NULL, NULL, path, NULL, NULL, NULL},
                        .error =
                            "rank 2 on host 'c' runs with WEFT_TOPO_FILE, rank 0 on host 'a' without it"});
    unlink(path);
    unlink(other);
}

/* Whoever is alone with what he reads is named, also where that is rank 0. */
static void test_rank_0_differs(void **state)
{
    (void)state;
    char path[64], other[64];
    write_file(path, fabric);
    write_file(other, "SwitchName=s1 Nodes=a,b,c,d,e,f\n");
    play((struct scene){
        .hosts = {"a", "b", "c", "d", "e", "f"},
        .files = {other, path, path, path, path, path},
        .error = "rank 0 on host 'a' reads another fabric from WEFT_TOPO_FILE than rank 1 on host 'b'"});
    unlink(path);
    unlink(other);
}

static void test_settings_differ(void **state)
{
    (void)state;
    play((struct scene){.hosts = CYCLIC,
                        .settings = {[4] = "WEFT_ORDER=rank"},
                        .error = "rank 4 on host 'a' runs with WEFT_ORDER='rank', rank 0 with 'topology'"});
    play((struct scene){.hosts = CYCLIC,
                        .algorithm = "hier",
                        .settings = {[0] = "WEFT_ALGO=ring"},
                        .error = "rank 0 on host 'c' runs with WEFT_ALGO='ring', rank 1 with 'hier'"});
}

/* One rank cannot read its file, and does not come: the others hear so when their time is over. */
static int absent_body(int rank, int ranks, void *arg)
{
    const int absent = *(const int *)arg;
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    char expected[32];
    (void)ranks;
    test_ranks_options(&options);
    options.timeout_ms = 1500;
    setenv("WEFT_TRANSPORT", "shm", 1);
    if (rank == absent) {
        setenv("WEFT_TOPO_FILE", "/nonexistent/fabric", 1);
        CHECK(weft_context_open(NULL, &context) == WEFT_SYSTEM && !context);
        CHECK(strstr(weft_error_detail(), "WEFT_TOPO_FILE: ") &&
              strstr(weft_error_detail(), "/nonexistent/fabric"));
        if (options.listen_fd >= 0)
            close(options.listen_fd);
        return 0;
    }
    CHECK_OK(weft_context_open(NULL, &context));
    int status = weft_comm_create(context, &options, &comm);
    snprintf(expected, sizeof expected, "rank %d", absent);
    if ((status != WEFT_RANKS_ABSENT && status != WEFT_TIMEOUT) || !strstr(weft_error_detail(), expected) ||
        comm) {
        fprintf(stderr, "rank %d: status %d, '%s': expected %s\n", rank, status, weft_error_detail(),
                expected);
        return 1;
    }
    CHECK_OK(weft_context_close(context));
    return 0;
}

static void test_file_on_one_rank(void **state)
{
    (void)state;
    for (int absent = 0; absent < 3; absent += 2)
        assert_int_equal(test_ranks_fork(3, absent_body, &absent), 0);
}

/* Hosts that the file does not have come behind those that it has, by name. */
static void test_file_lacks_hosts(void **state)
{
    (void)state;
    char path[64];
    write_file(path, "SwitchName=s1 Nodes=f,d\nSwitchName=s2 Nodes=a\nSwitchName=s0 Switches=s[1-2]\n");
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .files = ALL(path),
                        .expected = {3, 5, 0, 1, 2, 4},
                        .sizes = {1, 1, 1, 1, 1, 1}});
    play((struct scene){.hosts = {"e", "f", "a", "e", "f", "a"},
                        .files = ALL(path),
                        .algorithm = "hier",
                        .expected = {1, 4, 2, 5, 0, 3},
                        .sizes = {2, 2, 2}});
    unlink(path);
}

/* A host that is named under two switches has a cable to each; one that is named twice under one is there once. The others
 * stay with their switches. */
static void test_file_has_hosts_twice(void **state)
{
    (void)state;
    char path[64];
    write_file(path,
               "SwitchName=s1 Nodes=c,b,f,b\nSwitchName=s2 Nodes=c,a,d,e\nSwitchName=s0 Switches=s[1-2]\n");
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .files = ALL(path),
                        .expected = {1, 2, 5, 0, 3, 4},
                        .sizes = {1, 1, 1, 1, 1, 1}});
    unlink(path);
}

static void test_file_is_broken(void **state)
{
    (void)state;
    weft_context *context = NULL;
    char path[64], expected[128];
    write_file(path, "SwitchName=s1 Nodes=a\nSwitchName=s2 Nodes=b[\n");
    setenv("WEFT_TOPO_FILE", path, 1);
    assert_int_equal(weft_context_open(NULL, &context), WEFT_INVALID);
    snprintf(expected, sizeof expected, "WEFT_TOPO_FILE: %s:2: ", path);
    assert_memory_equal(weft_error_detail(), expected, strlen(expected));
    unlink(path);
    assert_int_equal(weft_context_open(NULL, &context), WEFT_SYSTEM);
    assert_non_null(strstr(weft_error_detail(), "WEFT_TOPO_FILE: "));
    assert_non_null(strstr(weft_error_detail(), path));
    assert_null(context);
    unsetenv("WEFT_TOPO_FILE");
}

/* Hosts that call themselves by their whole names, and Slurm by the short ones; a variable that was carried along from
 * another host says nothing of this one. */
static void test_names_of_slurm(void **state)
{
    (void)state;
    play((struct scene){.hosts = {"a.x", "b.x", "c.x", "d.x", "e.x", "f.x"},
                        .addresses = {"s0.s1.a", "s0.s2.b", "s0.s1.c", "s0.s2.d", "s0.s1.e", "s0.s2.f"},
                        .expected = {0, 2, 4, 1, 3, 5},
                        .sizes = {1, 1, 1, 1, 1, 1}});
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "f"},
                        .addresses = {"s0.s1.c", "s0.s2.b", "s0.s1.c", "s0.s2.d", "s0.s1.c", "s0.s2.f"},
                        .expected = {2, 1, 3, 5, 0, 4},
                        .sizes = {1, 1, 1, 1, 1, 1}});
}

/* A fabric whose names do not fit the hosts' does not keep ranks from working. */
static void test_names_clash(void **state)
{
    (void)state;
    char path[64];
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "s1"},
                        .addresses = {"s0.s1.a", "s0.s2.b", "s0.s1.c", "s0.s2.d", "s0.s1.e", NULL},
                        AS_NUMBERED});
    write_file(path, fabric);
    play((struct scene){.hosts = {"a", "b", "c", "d", "e", "s1"}, .files = ALL(path), AS_NUMBERED});
    play((struct scene){.hosts = {"a.x", "a.y", "c.x", "d.x", "e.x", "f.x"},
                        .files = ALL(path),
                        .expected = {3, 5, 2, 4, 0, 1},
                        .sizes = {1, 1, 1, 1, 1, 1}});
    unlink(path);
}

static void test_hosts_without_name(void **state)
{
    (void)state;
    play((struct scene){.hosts = {"", "", "", "", "", ""}, .plain = 1});
}

/* Containers of one host that have names of their own. */
static void test_shared_memory_decides(void **state)
{
    (void)state;
    play((struct scene){.hosts = {"b", "a", "b", "c", "a", "b"}, .transport = "shm", .plain = 1});
}

/* Files that differ in nothing but the speed of a port. */
static void test_ports_differ(void **state)
{
    (void)state;
    static const char text[] = "vendid=0x2c9\ndevid=0xd2f2\nswitchguid=0x100(100)\n"
                               "Switch\t65 \"S-0000000000000100\"\t\t# \"leaf\" enhanced port 0 lid 7 lmc 0\n"
                               "[1]\t\"H-0000000000000a10\"[1](a11) \t\t# \"a mlx5_0\" lid 25 %s\n";
    char fast[64], slow[64], content[sizeof text + 8];
    snprintf(content, sizeof content, text, "4xNDR");
    write_file(fast, content);
    snprintf(content, sizeof content, text, "4xHDR");
    write_file(slow, content);
    play((struct scene){
        .hosts = {"a", "b", "c", "d", "e", "f"},
        .files = {fast, fast, fast, fast, slow, fast},
        .error = "rank 4 on host 'e' reads another fabric from WEFT_TOPO_FILE than rank 0 on host 'a'"});
    unlink(fast);
    unlink(slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_host_names),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_by_slurm),
        cmocka_unit_test(test_by_file),
        cmocka_unit_test(test_files_of_slurm),
        cmocka_unit_test(test_files_differ),
        cmocka_unit_test(test_rank_0_differs),
        cmocka_unit_test(test_settings_differ),
        cmocka_unit_test(test_file_on_one_rank),
        cmocka_unit_test(test_file_lacks_hosts),
        cmocka_unit_test(test_file_has_hosts_twice),
        cmocka_unit_test(test_file_is_broken),
        cmocka_unit_test(test_names_of_slurm),
        cmocka_unit_test(test_names_clash),
        cmocka_unit_test(test_hosts_without_name),
        cmocka_unit_test(test_shared_memory_decides),
        cmocka_unit_test(test_ports_differ),
        cmocka_unit_test(test_hierarchical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
