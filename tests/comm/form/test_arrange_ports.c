/* SPDX-License-Identifier: Apache-2.0 */
/* What ports that ranks announce do to the layout of a communicator (comm/form/arrange.h): rings for rails, cables by GUID, and nothing
 * that a strange message could break. The communicator is one of numbers only: nothing is opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/hosts.h"
#include "comm/form/arrange.h"
#include "comm/core/comm.h"
#include "comm/form/ports.h"
#include "topo/graph/graph.h"
#include "topo/read.h"

#define RANKS_MAX 8

struct scene {
    struct weft_context *context;
    struct weft_comm *comm;
    struct weft_announced_place announced[RANKS_MAX];
    struct weft_announced_port ports[RANKS_MAX][WEFT_ANNOUNCED_PORTS];
};

/* A rank for each character, which is its host's name. */
static void open_scene(struct scene *scene, const char *hosts, const char *fabric)
{
    int ranks = (int)strlen(hosts);
    memset(scene, 0, sizeof *scene);
    scene->context = calloc(1, sizeof *scene->context);
    scene->comm = calloc(1, sizeof *scene->comm);
    assert_true(scene->context && scene->comm && ranks <= RANKS_MAX);
    scene->comm->context = scene->context;
    scene->comm->ranks = ranks;
    scene->comm->no_shm = 1;
    scene->comm->members = calloc((size_t)ranks, sizeof *scene->comm->members);
    assert_non_null(scene->comm->members);
    for (int r = 0; r < ranks; r++) {
        scene->comm->members[r].host[0] = hosts[r];
        scene->announced[r] =
            (struct weft_announced_place){.numa = -1, .address = "", .pattern = "", .ports = scene->ports[r]};
    }
    if (fabric) {
        struct weft_text text = {"fabric", fabric, strlen(fabric)};
        assert_int_equal(weft_topo_read_text(&text, &scene->context->form.fabric), WEFT_OK);
    }
}

static void close_scene(struct scene *scene)
{
    weft_hosts_free(scene->comm->hosts);
    free(scene->comm->members);
    free(scene->comm);
    weft_graph_free(scene->context->form.fabric);
    free(scene->context);
}

/* One more port of a rank: mlx5_N:1 on rail N; guid 0: not known. */
static struct weft_announced_port *announce(struct scene *scene, int rank, int number, uint64_t guid)
{
    struct weft_announced_port *port = &scene->ports[rank][scene->announced[rank].port_count++];
    *port = (struct weft_announced_port){
        .guid = guid, .speed_mbps = 400000, .numa = -1, .rail = (uint16_t)number, .number = 1};
    snprintf(port->device, sizeof port->device, "mlx5_%d", number);
    return port;
}

/* As each of the ranks finds it: all the same. */
static const struct weft_hosts *arrange(struct scene *scene)
{
    struct weft_comm *comm = scene->comm;
    struct weft_hosts *first = NULL;
    for (comm->rank = 0; comm->rank < comm->ranks; comm->rank++) {
        comm->hosts = NULL;
        assert_int_equal(weft_comm_arrange(comm, scene->announced), WEFT_OK);
        assert_non_null(comm->hosts);
        if (comm->rank == 0) {
            first = comm->hosts;
            continue;
        }
        assert_int_equal(weft_hosts_rings(first), weft_hosts_rings(comm->hosts));
        assert_int_equal(first->ports, comm->hosts->ports);
        for (uint32_t ring = 0; ring < weft_hosts_rings(first); ring++) {
            for (uint32_t i = 0; i < first->ranks; i++)
                assert_int_equal(weft_hosts_rank(first, weft_hosts_ring_at(first, ring, i)),
                                 weft_hosts_rank(comm->hosts, weft_hosts_ring_at(comm->hosts, ring, i)));
        }
        weft_hosts_free(comm->hosts);
    }
    comm->rank = 0;
    comm->hosts = first;
    return first;
}

/* The port that the rank announces as its own. */
static int rail_of(const struct scene *scene, uint32_t rank)
{
    return scene->ports[rank][0].rail;
}

/* Each rank its own NIC: as many rings, and every ring goes from one host to the next on one rail. */
static void a_ring_for_each_rail(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "abababab", NULL);
    for (int r = 0; r < 8; r++)
        announce(&scene, r, r / 2, 0);
    const struct weft_hosts *hosts = arrange(&scene);
    assert_int_equal(hosts->count, 2);
    assert_int_equal(hosts->ports, 4);
    assert_int_equal(weft_hosts_rings(hosts), 4);
    unsigned used = 0;
    for (uint32_t ring = 0; ring < 4; ring++) {
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t from = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, ring, i));
            uint32_t to = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, ring, (i + 1) % 8));
            if (from % 2 == to % 2) /* of one host */
                continue;
            assert_int_equal(rail_of(&scene, from), rail_of(&scene, to));
            used |= 1u << rail_of(&scene, from);
        }
    }
    assert_int_equal(used, 15);
    close_scene(&scene);
}

/* Ranks that share a NIC have one ring; a rank with several counts with its own. */
static void as_many_ports_as_are_used(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "aabb", NULL);
    for (int r = 0; r < 4; r++)
        announce(&scene, r, 0, 0);
    const struct weft_hosts *hosts = arrange(&scene);
    assert_int_equal(hosts->ports, 1);
    assert_int_equal(weft_hosts_rings(hosts), 1);
    close_scene(&scene);
    open_scene(&scene, "aabb", NULL);
    for (int r = 0; r < 4; r++) {
        announce(&scene, r, r % 2, 0);
        announce(&scene, r, 2 + r % 2, 0);
    }
    hosts = arrange(&scene);
    assert_int_equal(hosts->ports, 2);
    assert_int_equal(weft_hosts_rings(hosts), 2);
    close_scene(&scene);
}

/* Slurm's addresses and topology.conf name the switch of a host and nothing of its NICs: there are as many rings as rails all the
 * same, and hosts of one leaf are next to each other. */
static void rails_behind_a_cable_of_the_host(void **state)
{
    static const char conf[] =
        "SwitchName=s1 Nodes=a,c\nSwitchName=s2 Nodes=b,d\nSwitchName=s0 Switches=s[1-2]\n";
    static const char *const addresses[] = {"s0.s1.a", "s0.s2.b", "s0.s1.c", "s0.s2.d"};
    (void)state;
    for (int by_file = 0; by_file < 2; by_file++) {
        struct scene scene;
        open_scene(&scene, "abcdabcd", by_file ? conf : NULL);
        for (int r = 0; r < 8; r++) {
            announce(&scene, r, r / 4, 0);
            scene.announced[r].address = by_file ? "" : addresses[r % 4];
            scene.announced[r].pattern = by_file ? "" : "switch.switch.node";
        }
        const struct weft_hosts *hosts = arrange(&scene);
        assert_int_equal(hosts->count, 4);
        assert_int_equal(hosts->ports, 2);
        assert_int_equal(weft_hosts_rings(hosts), 2);
        for (uint32_t h = 0; h < 4; h++) /* a c b d */
            assert_int_equal(weft_hosts_rank(hosts, hosts->first[h]) % 4, h / 2 + h % 2 * 2);
        for (uint32_t i = 1; i < 8; i += 2) { /* from host to host each ring is on another rail */
            uint32_t from[2], to[2];
            for (uint32_t ring = 0; ring < 2; ring++) {
                from[ring] = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, ring, i));
                to[ring] = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, ring, (i + 1) % 8));
                assert_int_equal(rail_of(&scene, from[ring]), rail_of(&scene, to[ring]));
            }
            assert_int_not_equal(rail_of(&scene, from[0]), rail_of(&scene, from[1]));
        }
        close_scene(&scene);
    }
}

/* Two leaves below a spine; the fabric knows adapters by GUID, and calls their hosts otherwise than these call themselves. */
#define SWITCH(n, lines)                                                                                     \
    "vendid=0x2c9\nsysimgguid=0x" n "\nswitchguid=0x" n "(" n ")\nSwitch\t8 \"S-00000000000000" n            \
    "\" # \"s" n "\" enhanced port 0 lid 7 lmc 0\n" lines
#define CABLE(port, n) "[" port "] \"H-00000000000000" n "\"[1](" n ") # \"x" n " mlx5_0\" lid 1 4xNDR\n"
#define ADAPTER(n, leaf, port)                                                                               \
    "Ca\t1 \"H-00000000000000" n "\" # \"x" n " mlx5_0\"\n[1](" n ") \"S-00000000000000" leaf "\"[" port     \
    "] # lid 1 lmc 0 \"\" lid 7 4xNDR\n"

static const char leaves[] = SWITCH("01", "[1] \"S-0000000000000002\"[8] # \"s02\" lid 3 4xNDR\n"
                                          "[2] \"S-0000000000000003\"[8] # \"s03\" lid 3 4xNDR\n")
    SWITCH("02", "[8] \"S-0000000000000001\"[1] # \"s01\" lid 3 4xNDR\n" CABLE("1", "11") CABLE("2", "13"))
        SWITCH("03", "[8] \"S-0000000000000001\"[2] # \"s01\" lid 3 4xNDR\n" CABLE("1", "12")
                         CABLE("2", "14")) ADAPTER("11", "02", "1") ADAPTER("12", "03", "1")
            ADAPTER("13", "02", "2") ADAPTER("14", "03", "2");

static void cables_by_guid(void **state)
{
    static const uint32_t expected[2][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}};
    (void)state;
    for (int known = 0; known < 2; known++) {
        struct scene scene;
        open_scene(&scene, "abcd", leaves);
        for (int r = 0; r < 4; r++)
            announce(&scene, r, 0, known ? 0x11u + (unsigned)r : 0);
        const struct weft_hosts *hosts = arrange(&scene);
        for (uint32_t p = 0; p < 4; p++)
            assert_int_equal(weft_hosts_rank(hosts, p), expected[known][p]);
        close_scene(&scene);
    }
}

/* ibnetdiscover's view of hosts a to d, by turns on one of two leaves, each with two adapters. */
static char *two_rails(void)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int leaf = 0; leaf < 2; leaf++) {
        fprintf(out,
                "vendid=0x2c9\nsysimgguid=0x%d\nswitchguid=0x%d(%d)\nSwitch\t8 \"S-000000000000000%d\" # "
                "\"s%d\" enhanced port 0 lid 7 lmc 0\n[8] \"S-000000000000000%d\"[8] # \"s\" lid 3 4xNDR\n",
                leaf + 1, leaf + 1, leaf + 1, leaf + 1, leaf + 1, 2 - leaf);
        for (int i = 0; i < 4; i++)
            fprintf(out, "[%d] \"H-00000000000000%d%d\"[1](%d%d) # \"%c mlx5_%d\" lid 1 4xNDR\n", i + 1,
                    leaf + 1, i, leaf + 1, i, 'a' + i / 2 * 2 + leaf, i % 2);
    }
    for (int leaf = 0; leaf < 2; leaf++) {
        for (int i = 0; i < 4; i++)
            fprintf(
                out,
                "Ca\t1 \"H-00000000000000%d%d\" # \"%c mlx5_%d\"\n[1](%d%d) \"S-000000000000000%d\"[%d] # "
                "lid 1 lmc 0 \"\" lid 7 4xNDR\n",
                leaf + 1, i, 'a' + i / 2 * 2 + leaf, i % 2, leaf + 1, i, leaf + 1, i + 1);
    }
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Ranks that announce no port (they use libfabric, say) count for no rail, whatever NICs the file names of their hosts; the order is by
 * leaf all the same. And one rank that announces none beside others that do is not given theirs. */
static void no_port_announced_is_none(void **state)
{
    static const struct {
        const char *announced; /* of each rank: its rail, or '-' */
        uint32_t rings, ports;
    } plays[] = {
        {"--------", 1, 0}, {"00001111", 2, 2}, {"-0001111", 2, 1}, {"----1111", 1, 1}, {"-000-111", 2, 0},
    };
    (void)state;
    char *fabric = two_rails();
    for (int with_file = 0; with_file < 2; with_file++) {
        for (size_t i = 0; i < sizeof plays / sizeof *plays; i++) {
            struct scene scene;
            open_scene(&scene, "abcdabcd", with_file ? fabric : NULL);
            for (int r = 0; r < 8; r++)
                if (plays[i].announced[r] != '-')
                    announce(&scene, r, plays[i].announced[r] - '0', 0);
            const struct weft_hosts *hosts = arrange(&scene);
            assert_int_equal(hosts->ports, plays[i].ports);
            assert_int_equal(weft_hosts_rings(hosts), plays[i].rings);
            for (uint32_t h = 0; h < 4; h++) /* a c b d, or a b c d */
                assert_int_equal(weft_hosts_rank(hosts, hosts->first[h]) % 4,
                                 with_file ? h / 2 + h % 2 * 2 : h);
            close_scene(&scene);
        }
    }
    free(fabric);
}

/* Ranks contradict each other, and call devices what nodes are called. */
static void strange_ports(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "aabb", leaves);
    for (int r = 0; r < 4; r++) {
        scene.announced[r].numa = r % 2;
        struct weft_announced_port *port = announce(&scene, r, 0, 0x11);
        port->numa = 1 - r % 2;
        port->rail = (uint16_t)(r * 20000);
        port->speed_mbps = r ? UINT32_MAX : 0;
        port->device_guid = UINT64_MAX;
        strcpy(announce(&scene, r, 1, 0x11)->device, "numa1");
        strcpy(announce(&scene, r, 1, 0x12)->device, "a");
        announce(&scene, r, 0, 0x13)->number = 255;
    }
    strcpy(scene.ports[3][0].device, "numa0");
    assert_int_equal(arrange(&scene)->count, 2);
    close_scene(&scene);
}

static void what_is_no_port(void **state)
{
    (void)state;
    struct weft_announced_port ports[WEFT_ANNOUNCED_PORTS];
    memset(ports, 0, sizeof ports);
    for (int i = 0; i < WEFT_ANNOUNCED_PORTS; i++) {
        strcpy(ports[i].device, "mlx5_0");
        ports[i].number = (uint8_t)(i + 1);
    }
    assert_true(weft_ports_are_valid(ports, 0));
    assert_true(weft_ports_are_valid(ports, WEFT_ANNOUNCED_PORTS));
    assert_false(weft_ports_are_valid(ports, WEFT_ANNOUNCED_PORTS + 1));
    assert_false(weft_ports_are_valid(ports, UINT32_MAX));
    ports[3].number = 0;
    assert_false(weft_ports_are_valid(ports, 4));
    assert_true(weft_ports_are_valid(ports, 3));
    ports[1].device[0] = '\0';
    assert_false(weft_ports_are_valid(ports, 3));
    memset(ports[1].device, 'x', sizeof ports[1].device);
    assert_false(weft_ports_are_valid(ports, 3));
    ports[1].device[WEFT_DEVICE_NAME - 1] = '\0';
    assert_true(weft_ports_are_valid(ports, 3));
    ports[1].device[5] = '\n';
    assert_false(weft_ports_are_valid(ports, 3));
    strcpy(ports[1].device, "m\xc3\xbcnze"); /* beyond ASCII, as sysfs may call it */
    assert_true(weft_ports_are_valid(ports, 3));
    strcpy(ports[1].device, "mlx5_0");
    assert_true(weft_ports_are_valid(ports, 3));
    ports[1].number = 1; /* as the first */
    assert_true(weft_ports_are_valid(ports, 1));
    assert_false(weft_ports_are_valid(ports, 2));
    assert_false(weft_ports_are_valid(ports, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_for_each_rail),
        cmocka_unit_test(as_many_ports_as_are_used),
        cmocka_unit_test(rails_behind_a_cable_of_the_host),
        cmocka_unit_test(cables_by_guid),
        cmocka_unit_test(no_port_announced_is_none),
        cmocka_unit_test(strange_ports),
        cmocka_unit_test(what_is_no_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
