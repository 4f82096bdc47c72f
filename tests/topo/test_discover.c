/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery: this machine against what /sys says, and other machines as trees of files.
 *
 * Where there are no GPUs and no RDMA devices, their part is tested on trees and fakes only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/hwloc_text.h"
#include "tests/support/sys_tree.h"
#include "tests/support/topo_asks.h"
#include "topo/discover/discover.h"
#include "topo/live/live.h"
#include "topo/read.h"
#include <weft/weft.h>

/* --- this machine */

static uint32_t entries(const char *folder, const char *prefix)
{
    DIR *opened = opendir(folder);
    uint32_t found = 0;
    for (struct dirent *entry; opened && (entry = readdir(opened)) != NULL;) {
        size_t length = strlen(prefix);
        const char *rest = entry->d_name + length;
        found += strncmp(entry->d_name, prefix, length) == 0 && *rest &&
                 strspn(rest, "0123456789") == strlen(rest);
    }
    if (opened)
        closedir(opened);
    return found;
}

/* Processors that are the first of their core. */
static uint32_t cores_of_system(void)
{
    uint32_t found = 0;
    for (int cpu = 0; cpu < 4096; cpu++) {
        char path[128];
        int first;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        found += fscanf(file, "%d", &first) == 1 && first == cpu;
        fclose(file);
    }
    return found;
}

static uint32_t descriptors(void)
{
    return entries("/proc/self/fd", "");
}

static void test_this_machine(void **state)
{
    (void)state;
    struct weft_graph *graph;
    char name[256];
    assert_int_equal(weft_topo_discover(&graph), WEFT_OK);
    assert_string_equal(graph->source, "this machine");
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 1);
    assert_int_equal(gethostname(name, sizeof name), 0);
    assert_string_equal(graph->nodes[weft_graph_first(graph, WEFT_NODE_NONE)].name, name);
    uint32_t numas = entries("/sys/devices/system/node", "node");
    if (numas)
        assert_int_equal(topo_count(graph, WEFT_NODE_NUMA), numas);
    uint32_t cores = cores_of_system();
    if (cores)
        assert_int_equal(topo_count(graph, WEFT_NODE_CORE), cores);
    print_message("%s: %u NUMA nodes, %u cores, %u GPUs, %u adapters, by %s\n", name,
                  topo_count(graph, WEFT_NODE_NUMA), topo_count(graph, WEFT_NODE_CORE),
                  topo_count(graph, WEFT_NODE_GPU), topo_count(graph, WEFT_NODE_NIC), graph->format);
    weft_graph_free(graph);
}

static void on_signal(int number)
{
    (void)number;
}

/* Neither output nor descriptors, environment or signals are touched, also where hwloc has something to complain about. */
static void test_leaves_no_trace(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root); /* without processors hwloc reports a critical error */
    sys_tree_file(root, "/sys/class/infiniband/mlx5_0/node_guid", "0000:0000:0000:0001");
    struct sigaction action = {.sa_handler = on_signal}, found;
    assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
    int out = memfd_create("output", 0), saved[2] = {dup(1), dup(2)};
    assert_true(out >= 0);
    fflush(NULL);
    struct weft_graph *graph;
    uint32_t before = 0;
    char **environment = NULL;
    int status = WEFT_OK;
    for (int round = 0; round < 4 && !status; round++) {
        if (round == 2)
            setenv("HWLOC_FSROOT", root, 1);
        if (round == 1 || round == 2) {
            dup2(out, 1);
            dup2(out, 2);
            before = descriptors();
            environment = environ;
        }
        status = weft_topo_discover(&graph);
        if (!status)
            weft_graph_free(graph);
    }
    fflush(NULL);
    uint32_t after = descriptors();
    dup2(saved[0], 1);
    dup2(saved[1], 2);
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(lseek(out, 0, SEEK_END), 0);
    assert_int_equal(after, before);
    assert_ptr_equal(environ, environment);
    assert_int_equal(sigaction(SIGUSR2, NULL, &found), 0);
    assert_true(found.sa_handler == on_signal);
    signal(SIGUSR2, SIG_DFL);
    unsetenv("HWLOC_FSROOT");
    close(out);
    close(saved[0]);
    close(saved[1]);
    sys_tree_remove(root);
}

/* --- other machines */

#define IB "/sys/class/infiniband/"

static void add_port(const char *root, const char *port, const char *port_state, const char *rate,
                     const char *layer)
{
    char path[256];
    snprintf(path, sizeof path, IB "%s/state", port);
    sys_tree_file(root, path, port_state);
    snprintf(path, sizeof path, IB "%s/rate", port);
    sys_tree_file(root, path, rate);
    snprintf(path, sizeof path, IB "%s/link_layer", port);
    sys_tree_file(root, path, layer);
}

/* Two adapters: one of InfiniBand with a port down and one active, one of RoCE. */
static void test_rdma_devices(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root);
    sys_tree_file(root, "/proc/sys/kernel/hostname", "other");
    sys_tree_file(root, IB "mlx5_0/node_guid", "b8ce:f603:00aa:0010");
    sys_tree_file(root, IB "mlx5_0/sys_image_guid", "b8ce:f603:00aa:0010");
    sys_tree_link(root, IB "mlx5_0/device", "../../../0000:0c:00.0");
    add_port(root, "mlx5_0/ports/1", "1: DOWN", "10 Gb/sec (4X SDR)", "InfiniBand");
    add_port(root, "mlx5_0/ports/2", "4: ACTIVE", "100 Gb/sec (4X EDR)", "InfiniBand");
    sys_tree_file(root, IB "mlx5_0/ports/2/lid", "0x2a");
    sys_tree_file(root, IB "mlx5_0/ports/2/gids/0", "fe80:0000:0000:0000:b8ce:f603:00aa:0012");
    sys_tree_file(root, IB "mlx5_0/ports/2/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000");
    sys_tree_link(root, IB "rocep1s0/device", "../../../0001:01:00.0");
    add_port(root, "rocep1s0/ports/1", "4: ACTIVE", "40 Gb/sec (4X QDR)", "Ethernet");
    sys_tree_file(root, IB "rocep1s0/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001");
    sys_tree_file(root, IB "rocep1s0/ports/1/gid_attrs/types/3", "RoCE v2");
    sys_tree_file(root, IB "rocep1s0/ports/1/gid_attrs/ndevs/3", "enp1s0");
    sys_tree_file(root, IB "rocep1s0/ports/x/state", "4: ACTIVE");
    setenv("HWLOC_FSROOT", root, 1);
    struct weft_graph *graph;
    assert_int_equal(weft_topo_discover(&graph), WEFT_OK);
    unsetenv("HWLOC_FSROOT");
    assert_string_equal(graph->nodes[weft_graph_first(graph, WEFT_NODE_NONE)].name, "other");
    assert_string_equal(topo_attribute(graph, "other", "HostName"), "other");
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 2);
    assert_int_equal(topo_count(graph, WEFT_NODE_PORT), 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 0);
    assert_true(topo_named(graph, "mlx5_0")->guid == 0xb8cef60300aa0010);
    assert_string_equal(topo_named(graph, "mlx5_0")->pci, "0000:0c:00.0");
    assert_string_equal(topo_attribute(graph, "mlx5_0", "SysImageGUID"), "b8ce:f603:00aa:0010");
    /* A port that is down has no rate, whatever its driver would try. */
    assert_int_equal(topo_named(graph, "mlx5_0:1")->state, WEFT_PORT_DOWN);
    assert_int_equal(topo_named(graph, "mlx5_0:1")->bytes_per_s, 0);
    const struct weft_node *port = topo_named(graph, "mlx5_0:2");
    assert_int_equal(port->state, WEFT_PORT_ACTIVE);
    assert_true(port->bytes_per_s == weft_ib_bytes_per_s("4xEDR"));
    assert_true(port->bytes_per_s == 12500000000);
    assert_true(port->guid == 0xb8cef60300aa0012);
    assert_string_equal(topo_attribute(graph, "mlx5_0:2", "LID"), "0x2a");
    assert_string_equal(topo_attribute(graph, "mlx5_0:2", "GID0"), "fe80:0000:0000:0000:b8ce:f603:00aa:0012");
    assert_string_equal(topo_attribute(graph, "mlx5_0:2", "GID1"), "(none)");
    /* On Ethernet 40 Gb/s are 40 Gb/s, although InfiniBand's QDR would leave 32. */
    port = topo_named(graph, "rocep1s0:1");
    assert_true(port->bytes_per_s == 5000000000);
    assert_true(port->guid == 0);
    assert_string_equal(topo_attribute(graph, "rocep1s0:1", "GID3Type"), "RoCE v2");
    assert_string_equal(topo_attribute(graph, "rocep1s0:1", "net"), "enp1s0");
    weft_graph_free(graph);
    sys_tree_remove(root);
}

static struct weft_graph *new_graph(void)
{
    struct weft_graph *graph;
    assert_int_equal(weft_graph_new("tree", "sysfs", &graph), WEFT_OK);
    return graph;
}

#define PCI_DEVICES "/sys/bus/pci/devices/"

static void add_function(const char *root, const char *address, const char *above, const char *class,
                         const char *vendor, const char *numa)
{
    char path[256], target[256];
    snprintf(path, sizeof path, "/sys/devices/%s/%s/class", above, address);
    sys_tree_file(root, path, class);
    snprintf(path, sizeof path, "/sys/devices/%s/%s/vendor", above, address);
    sys_tree_file(root, path, vendor);
    snprintf(path, sizeof path, "/sys/devices/%s/%s/numa_node", above, address);
    sys_tree_file(root, path, numa);
    snprintf(path, sizeof path, PCI_DEVICES "%s", address);
    snprintf(target, sizeof target, "../../../devices/%s/%s", above, address);
    sys_tree_link(root, path, target);
}

static void add_link_of(const char *root, const char *address, const char *speed, const char *width,
                        const char *now)
{
    char path[256];
    snprintf(path, sizeof path, PCI_DEVICES "%s/max_link_speed", address);
    sys_tree_file(root, path, speed);
    snprintf(path, sizeof path, PCI_DEVICES "%s/max_link_width", address);
    sys_tree_file(root, path, width);
    snprintf(path, sizeof path, PCI_DEVICES "%s/current_link_width", address);
    sys_tree_file(root, path, now);
}

#define ROOT_PORT  "pci0000:00/0000:00:01.0"
#define UPPER_PORT ROOT_PORT "/0000:01:00.0"
#define LOWER_PORT UPPER_PORT "/0000:02:00.0"

/* A switch below a root port, with a GPU and an adapter; another adapter on another NUMA node; a screen. */
static void make_machine(const char *root)
{
    static const char *const processors[][2] = {
        {"node0/cpu0", "0,2"}, {"node0/cpu2", "0,2"}, {"node10/cpu1", "1"}};
    char path[256];
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/node/%s/topology/thread_siblings_list",
                 processors[i][0]);
        sys_tree_file(root, path, processors[i][1]);
    }
    sys_tree_file(root, "/sys/devices/system/node/has_cpu", "0-1");
    add_function(root, "0000:00:01.0", "pci0000:00", "0x060400", "0x8086", "0");
    add_function(root, "0000:01:00.0", ROOT_PORT, "0x060400", "0x1000", "0");
    add_function(root, "0000:02:00.0", UPPER_PORT, "0x060400", "0x1000", "0");
    add_function(root, "0000:03:00.0", LOWER_PORT, "0x030200", "0x10de", "0");
    add_function(root, "0000:03:00.1", LOWER_PORT, "0x020700", "0x15b3", "0");
    add_function(root, "0000:03:00.2", LOWER_PORT, "0x020700", "0x15b3", "0");
    add_function(root, "0000:80:00.0", "pci0000:80", "0x020000", "0x8086", "10");
    add_function(root, "0000:80:01.0", "pci0000:80", "0x030000", "0x1a03", "10");
    sys_tree_link(root, PCI_DEVICES "0000:03:00.2/physfn", "../0000:03:00.1");
    add_link_of(root, "0000:00:01.0", "16.0 GT/s PCIe", "16", "16");
    add_link_of(root, "0000:01:00.0", "32.0 GT/s PCIe", "16", "16");
    add_link_of(root, "0000:02:00.0", "16.0 GT/s PCIe", "16", "16");
    add_link_of(root, "0000:03:00.0", "16.0 GT/s PCIe", "16", "8");
    add_link_of(root, "0000:03:00.1", "Unknown", "0", "0");
    add_link_of(root, "0000:80:00.0", "8.0 GT/s PCIe", "255", "255");
    sys_tree_link(root, "/sys/class/net/eth0", "../../devices/pci0000:80/0000:80:00.0/net/eth0");
    sys_tree_file(root, "/sys/devices/pci0000:80/0000:80:00.0/net/eth0/speed", "25000");
    sys_tree_file(root, "/sys/devices/pci0000:80/0000:80:00.0/net/eth0/operstate", "up");
    sys_tree_link(root, "/sys/devices/pci0000:80/0000:80:00.0/net/eth0/device", "../../../0000:80:00.0");
    sys_tree_file(root, "/sys/class/net/docker0/operstate", "up");
    sys_tree_link(root, IB "mlx5_0", "../../devices/" LOWER_PORT "/0000:03:00.1/infiniband/mlx5_0");
    sys_tree_file(root, "/sys/devices/" LOWER_PORT "/0000:03:00.1/infiniband/mlx5_0/ports/1/state",
                  "2: INIT");
    sys_tree_link(root, "/sys/devices/" LOWER_PORT "/0000:03:00.1/infiniband/mlx5_0/device",
                  "../../../0000:03:00.1");
}

/* What discovery does where there is no hwloc. */
static void test_without_hwloc(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root);
    make_machine(root);
    struct weft_graph *graph = new_graph();
    assert_int_equal(weft_live_machine(root, 0, graph), WEFT_OK);
    assert_int_equal(weft_live_ports(root, graph), WEFT_OK);
    assert_int_equal(weft_live_pci(root, graph), WEFT_OK);
    assert_int_equal(weft_graph_finish(graph), WEFT_OK);
    assert_int_equal(topo_count(graph, WEFT_NODE_NUMA), 2);
    assert_int_equal(topo_count(graph, WEFT_NODE_CORE), 2);
    assert_string_equal(topo_parent_name(graph, "core0"), "numa0");
    assert_string_equal(topo_parent_name(graph, "core1"), "numa10");
    assert_int_equal(topo_count(graph, WEFT_NODE_BRIDGE), 5);
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 1);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_PORT), 2);
    assert_string_equal(topo_parent_name(graph, "gpu0"), "0000:02:00.0");
    assert_string_equal(topo_parent_name(graph, "mlx5_0"), "0000:02:00.0");
    assert_string_equal(topo_parent_name(graph, "0000:01:00.0"), "0000:00:01.0");
    assert_string_equal(topo_parent_name(graph, "pci0000:00"), "numa0");
    assert_string_equal(topo_parent_name(graph, "pci0000:80"), "numa10");
    assert_int_equal(topo_named(graph, "0000:00:01.0")->bridge, WEFT_BRIDGE_PORT);
    assert_int_equal(topo_named(graph, "0000:02:00.0")->bridge, WEFT_BRIDGE_SWITCH);
    assert_int_equal(topo_named(graph, "mlx5_0:1")->state, WEFT_PORT_INIT);
    assert_int_equal(topo_named(graph, "eth0:1")->state, WEFT_PORT_ACTIVE);
    assert_true(topo_named(graph, "eth0:1")->bytes_per_s == 3125000000);
    assert_string_equal(topo_attribute(graph, "gpu0", "vendor"), "0x10de");
    weft_graph_free(graph);
    sys_tree_remove(root);
}

static void test_pci_links(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX];
    sys_tree_make(root);
    make_machine(root);
    struct weft_graph *graph = new_graph();
    assert_int_equal(weft_live_machine(root, 0, graph), WEFT_OK);
    assert_int_equal(weft_live_pci(root, graph), WEFT_OK);
    /* The switch could have 32 GT/s and its root port 16; the GPU has 8 of 16 lanes. */
    assert_true(topo_uplink(graph, "0000:01:00.0") == weft_pci_bytes_per_s(16, 16));
    assert_true(topo_uplink(graph, "0000:02:00.0") == 0);
    assert_true(topo_uplink(graph, "0000:00:01.0") == 0);
    assert_true(topo_uplink(graph, "gpu0") == weft_pci_bytes_per_s(16, 8));
    assert_string_equal(topo_attribute(graph, "gpu0", "link_width"), "8");
    assert_string_equal(topo_attribute(graph, "gpu0", "link_width_max"), "16");
    assert_string_equal(topo_attribute(graph, "0000:01:00.0", "link_width_max"), "(none)");
    assert_string_equal(topo_attribute(graph, "0000:01:00.0", "link_speed"), "16.0 GT/s PCIe");
    assert_string_equal(topo_attribute(graph, "gpu0", "class"), "0x030200");
    /* What is not told stays unknown. */
    assert_true(topo_uplink(graph, "0000:03:00.1") == 0);
    assert_true(topo_uplink(graph, "0000:80:00.0") == 0);
    assert_string_equal(topo_attribute(graph, "0000:03:00.2", "virtual_function"), "yes");
    assert_string_equal(topo_attribute(graph, "0000:03:00.2", "function_of"), "0000:03:00.1");
    assert_string_equal(topo_attribute(graph, "0000:03:00.1", "virtual_function"), "(none)");
    weft_graph_free(graph);
    sys_tree_remove(root);
}

static void test_kind_of_host(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text;
        unsigned flags;
    } cases[] = {
        {"/nothing", "", 0},
        {"/proc/cpuinfo",
         "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\nbugs\t\t:", WEFT_HOST_VIRTUAL},
        {"/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor", WEFT_HOST_VIRTUAL},
        {"/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisors vme\nbugs\t\t: hypervisor", 0},
        {"/sys/hypervisor/type", "xen", WEFT_HOST_VIRTUAL},
        {"/sys/class/dmi/id/product_name", "KVM", WEFT_HOST_VIRTUAL},
        {"/sys/class/dmi/id/sys_vendor", "Dell Inc.", 0},
        {"/.dockerenv", "", WEFT_HOST_CONTAINER},
        {"/run/.containerenv", "", WEFT_HOST_CONTAINER},
        {"/proc/self/cgroup", "0::/kubepods.slice/kubepods-pod1.slice", WEFT_HOST_CONTAINER},
        {"/proc/self/cgroup", "0::/user.slice/user-1000.slice", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char root[SYS_TREE_ROOT_MAX];
        sys_tree_make(root);
        sys_tree_file(root, cases[i].path, cases[i].text);
        struct weft_graph *graph = new_graph();
        assert_int_equal(weft_live_machine(root, weft_live_host_flags(root), graph), WEFT_OK);
        assert_int_equal(weft_live_host(root, graph), WEFT_OK);
        assert_int_equal(topo_named(graph, "host")->flags, cases[i].flags);
        weft_graph_free(graph);
        sys_tree_remove(root);
    }
}

static void test_xml_file(void **state)
{
    (void)state;
    char root[SYS_TREE_ROOT_MAX], path[256], expected[600];
    sys_tree_make(root);
    sys_tree_file(root, "/m.xml", HEAD MACHINE_OF(1) INFO("HostName", "far") NUMA(0, ff, 1) END_ALL);
    sys_tree_file(root, "/n.xml", "<system version=\"1\"></system>");
    snprintf(path, sizeof path, "%s/m.xml", root);
    setenv("HWLOC_XMLFILE", path, 1);
    struct weft_graph *graph = NULL;
    assert_int_equal(weft_topo_discover(&graph), WEFT_OK);
    assert_int_equal(graph->node_count, 2);
    assert_string_equal(graph->nodes[0].name, "far");
    assert_int_equal(graph->nodes[0].flags, 0); /* nothing of this machine */
    weft_graph_free(graph);
    graph = NULL;
    snprintf(path, sizeof path, "%s/absent.xml", root);
    setenv("HWLOC_XMLFILE", path, 1);
    assert_true(weft_topo_discover(&graph) < 0);
    assert_null(graph);
    assert_non_null(strstr(weft_error_detail(), "absent.xml"));
    setenv("HWLOC_XMLFILE", "fat-tree:leaves=2,nodes-per-leaf=2", 1);
    int status = weft_topo_discover(&graph);
    snprintf(expected, sizeof expected, "%s", weft_error_detail());
    unsetenv("HWLOC_XMLFILE");
    assert_int_equal(status, WEFT_INVALID);
    assert_non_null(strstr(expected, "fat-tree"));
    assert_null(graph);
    sys_tree_remove(root);
}

int main(void)
{
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_FSROOT");
    weft_discover_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_machine), cmocka_unit_test(test_leaves_no_trace),
        cmocka_unit_test(test_rdma_devices), cmocka_unit_test(test_without_hwloc),
        cmocka_unit_test(test_pci_links),    cmocka_unit_test(test_kind_of_host),
        cmocka_unit_test(test_xml_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
