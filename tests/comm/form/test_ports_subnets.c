/* SPDX-License-Identifier: Apache-2.0 */
/* Separate InfiniBand subnets with one prefix: what ranks announce proves it, and they fail before a link does. Also what a rank announces
 * of its ports for that, from a tree of files that looks like sysfs. The communicator is one of numbers only: nothing is opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "comm/form/agree_network.h"
#include "comm/core/comm.h"
#include "comm/form/ports.h"
#include "tests/support/sys_tree.h"

#define RANKS  4 /* of two hosts */
#define PREFIX UINT64_C(0xfe80000000000000)

struct scene {
    struct weft_context context;
    struct weft_comm comm;
    struct weft_member members[RANKS];
    struct weft_network networks[RANKS];
    struct weft_network_claim all[RANKS];
};

static int reachable(struct weft_transport *transport, const void *address, size_t size)
{
    (void)transport, (void)address, (void)size;
    return 1;
}

static void announce(struct scene *scene, int rank, int rail, uint16_t lid)
{
    struct weft_network *network = &scene->networks[rank];
    struct weft_announced_port *port = &network->ports[network->port_count++];
    *port = (struct weft_announced_port){.guid = (uint64_t)rank / 2 * 16 + (uint64_t)rail + 1,
                                         .subnet = PREFIX,
                                         .numa = -1,
                                         .rail = (uint16_t)rail,
                                         .lid = lid,
                                         .number = 1};
    snprintf(port->device, sizeof port->device, "mlx5_%d", rail);
}

/* Two hosts, two rails, and a rank for each port. */
static struct scene *make_scene(const uint16_t lids[RANKS])
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->comm = (struct weft_comm){.context = &scene->context, .ranks = RANKS, .members = scene->members};
    strcpy(scene->context.settings.transports, "shm,verbs");
    scene->context.transports[WEFT_VERBS].ops.reachable = reachable;
    scene->context.transports[WEFT_VERBS].instance = (void *)scene;
    for (int r = 0; r < RANKS; r++) {
        scene->members[r].host[0] = r < 2 ? 'a' : 'b';
        scene->networks[r].sizes[WEFT_VERBS] = 16;
        scene->networks[r].is_part = 1;
        scene->all[r] = (struct weft_network_claim){&scene->networks[r], r < 2 ? 0 : 2};
        announce(scene, r, r % 2, lids[r]);
    }
    return scene;
}

/* What each of the ranks says: all the same. */
static int complete(struct scene *scene, const char *reason)
{
    int status = WEFT_OK;
    for (int r = 0; r < RANKS; r++) {
        struct weft_network network = scene->networks[r];
        scene->comm.rank = r;
        weft_network_complete(&scene->comm, scene->all, &network);
        assert_true(r == 0 || network.status == status);
        assert_string_equal(network.reason, network.status == WEFT_OK ? "" : reason);
        status = network.status;
    }
    free(scene);
    return status;
}

#define APART(rank)                                                                                          \
    "InfiniBand subnets look like one, and WEFT_VERBS_DEVICE has to name ports of each for every rank: "     \
    "rank "                                                                                                  \
    "0's mlx5_0:1 and rank " rank "'s mlx5_1:1 both have LID 3"

static const uint16_t one[RANKS] = {3, 4, 5, 6}, several[RANKS] = {3, 4, 5, 3};

static void ports_of_two_rails_with_one_lid(void **state)
{
    (void)state;
    assert_int_equal(complete(make_scene(one), ""), WEFT_OK);
    assert_int_equal(complete(make_scene(several), APART("3")), WEFT_TRANSPORT);
    struct scene *scene = make_scene(several);
    for (int r = 0; r < RANKS; r++) /* each has announced the other's as well, behind its own */
        announce(scene, r, !(r % 2), several[r ^ 1]);
    assert_int_equal(complete(scene, APART("2")), WEFT_TRANSPORT);
}

/* All ranks have the same ports, which pair by place. */
static void ranks_with_all_ports(void **state)
{
    (void)state;
    struct scene *scene = make_scene(several);
    for (int r = 0; r < RANKS; r++)
        scene->networks[r].is_part = 0;
    assert_int_equal(complete(scene, ""), WEFT_OK);
    scene = make_scene(several);
    for (int r = 0; r < 3; r++)
        scene->networks[r].is_part = 0;
    assert_int_equal(complete(scene, APART("3")), WEFT_TRANSPORT);
}

static void what_proves_nothing(void **state)
{
    static const uint16_t by_rail[RANKS] = {3, 4, 3, 4}, of_host[RANKS] = {3, 3, 5, 3};
    static const uint16_t none[RANKS] = {0, 7, 7, 0}, no_lids[RANKS] = {0xffff, 0xc000, 0xc000, 0xffff};
    (void)state;
    assert_int_equal(complete(make_scene(by_rail), ""), WEFT_OK); /* one adapter of two machines */
    assert_int_equal(complete(make_scene(of_host), ""), WEFT_OK); /* its own ranks know */
    assert_int_equal(complete(make_scene(no_lids), ""), WEFT_OK);
    struct scene *scene = make_scene(none);
    scene->networks[2].ports[0].subnet = PREFIX + 1; /* told apart by their prefixes */
    assert_int_equal(complete(scene, ""), WEFT_OK);
    scene = make_scene(several);
    scene->networks[3].ports[0].rail = WEFT_RAIL_NONE;
    assert_int_equal(complete(scene, ""), WEFT_OK);
    scene = make_scene(several);
    scene->networks[3].ports[0].guid = 0;
    assert_int_equal(complete(scene, ""), WEFT_OK);
    scene = make_scene(several);
    scene->networks[3].ports[0].guid =
        scene->networks[0].ports[0].guid; /* the same port, as containers name it */
    assert_int_equal(complete(scene, ""), WEFT_OK);
}

/* --- what is announced */

static int opened; /* ports */
static const char *device = "mlx5_";

static int rails(struct weft_transport *transport, weft_rail *infos, int capacity)
{
    (void)transport;
    for (int i = 0; i < opened && i < capacity; i++) {
        snprintf(infos[i].device, sizeof infos[i].device, "%s%d", device, i);
        infos[i].port = 1;
        infos[i].bytes_per_s = 50000000000;
    }
    return opened;
}

static void make_files(char root[SYS_TREE_ROOT_MAX])
{
    sys_tree_make(root);
    sys_tree_file(root, "/sys/devices/system/node/online", "0");
    for (int i = 0; i < 2; i++) {
        const char *const files[][2] = {
            {"node_type", "1: CA"},
            {"ports/1/state", "4: ACTIVE"},
            {"ports/1/rate", "400 Gb/sec (4X NDR)"},
            {"ports/1/link_layer", i ? "Ethernet" : "InfiniBand"},
            {"ports/1/lid", "0x1f"},
            {"ports/1/gids/0", "fe80:0000:0000:0007:0002:c903:0000:0001"},
        };
        for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
            char path[128];
            snprintf(path, sizeof path, "/sys/class/infiniband/mlx5_%d/%s", i, files[f][0]);
            sys_tree_file(root, path, files[f][1]);
        }
    }
    setenv("HWLOC_FSROOT", root, 1);
    char log[SYS_TREE_ROOT_MAX + 8];
    snprintf(log, sizeof log, "%s/log", root);
    setenv("WEFT_LOG", "info", 1);
    setenv("WEFT_LOG_FILE", log, 1);
}

/* What the log says, in a file below root. */
static void expect_log(const char *root, const char *expected)
{
    char path[SYS_TREE_ROOT_MAX + 8], text[4096];
    snprintf(path, sizeof path, "%s/log", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    assert_non_null(strstr(text, expected));
}

static void what_a_rank_announces(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    struct weft_announced_port announced[WEFT_ANNOUNCED_PORTS];
    struct scene *scene = make_scene(one);
    make_files(root);
    assert_int_equal(weft_ports_open(&scene->context), WEFT_OK);
    scene->context.transports[WEFT_VERBS].ops.rails = rails;
    scene->context.settings.verbs.rails = 1; /* a port is InfiniBand's, the other Ethernet's */
    weft_ports_choose(&scene->comm);
    assert_string_equal(scene->context.form.ports->chosen, "");
    expect_log(root, "ports of this host are on more than 1 networks (WEFT_VERBS_RAILS)");
    scene->context.settings.verbs.rails = 4;
    weft_ports_choose(&scene->comm); /* a port of either network for both ranks */
    assert_string_equal(scene->context.form.ports->chosen, "mlx5_0:1,mlx5_1:1");
    assert_int_equal(scene->context.form.ports->is_part, 0);
    opened = 2;
    assert_int_equal(weft_ports_announce(&scene->context, announced), 2);
    assert_true(announced[0].subnet == PREFIX + 7);
    assert_int_equal(announced[0].lid, 0x1f);
    assert_true(announced[1].subnet == 0);
    assert_int_equal(announced[1].lid, 0);
    sys_tree_file(root, "/sys/class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand");
    sys_tree_file(root, "/sys/class/infiniband/mlx5_1/ports/1/lid", "0x20");
    weft_ports_choose(&scene->comm); /* one network now: a port each */
    assert_string_equal(scene->context.form.ports->chosen, "mlx5_0:1");
    assert_int_equal(scene->context.form.ports->is_part, 1);
    device = "a_device_with_a_name_longer_than_is_told_";
    assert_int_equal(weft_ports_announce(&scene->context, announced), 1);
    assert_true(weft_ports_are_valid(announced, 1));
    opened = -1; /* it does not say */
    assert_int_equal(weft_ports_announce(&scene->context, announced), 0);
    weft_ports_give_up(&scene->context);
    assert_int_equal(scene->context.form.ports->is_part, 0);
    weft_ports_close(&scene->context);
    unsetenv("HWLOC_FSROOT");
    sys_tree_remove(root);
    free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rank_announces), /* says where the log goes before there is any */
        cmocka_unit_test(ports_of_two_rails_with_one_lid),
        cmocka_unit_test(ranks_with_all_ports),
        cmocka_unit_test(what_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
