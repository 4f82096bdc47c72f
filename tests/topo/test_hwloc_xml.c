/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs hwloc */
/* hwloc's XML: what becomes of each kind of object, and the sample files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/hwloc_text.h"
#include "tests/support/topo_asks.h"
#include "tests/support/topo_files.h"
#include "topo/discover/discover.h"
#include "topo/read.h"
#include "topo/discover/virtual.h"
#include <weft/weft.h>

static struct weft_graph *must_read(const char *document)
{
    struct weft_graph *graph = topo_read(document);
    assert_string_equal(graph->format, "hwloc XML");
    return graph;
}

/* The edge of the kind between two nodes; exactly one. */
static const struct weft_edge *edge(const struct weft_graph *graph, enum weft_edge_kind kind, const char *a,
                                    const char *b)
{
    uint32_t x = (uint32_t)(topo_named(graph, a) - graph->nodes),
             y = (uint32_t)(topo_named(graph, b) - graph->nodes);
    const struct weft_edge *found = NULL;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct weft_edge *at = &graph->edges[i];
        if (at->kind == kind && ((at->a == x && at->b == y) || (at->a == y && at->b == x))) {
            assert_null(found);
            found = at;
        }
    }
    assert_non_null(found);
    return found;
}

static uint32_t edges_of(const struct weft_graph *graph, enum weft_edge_kind kind)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        found += graph->edges[i].kind == kind && !(graph->edges[i].flags & WEFT_EDGE_PARENT);
    return found;
}

/* Two packages; behind the first a PCI switch with a GPU and an adapter, behind the second an Ethernet adapter, a
 * screen, an accelerator and a disk. */
static const char machine[] =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<!-- made up -->\n" HEAD MACHINE
        /**/ INFO("HostName", "node7") INFO("Architecture", "x86_64") PACKAGE(0, f, 1)
            INFO("CPUModel", "Model 7")
    /**/ NUMA(0, f, 1) CORE(0, 3, 1) PU(0, 1, 1) PU(1, 2, 1) END CORE(1, c, 1) PU(3, 8, 1) PU(2, 4, 1) END
        /**/ HOST_BRIDGE("0000:[00-05]") BRIDGE("0000:00:01.0", "15.753846")
            BRIDGE("0000:01:00.0", "31.507692")
    /**/ BRIDGE("0000:02:00.0", "31.5")
        PCI_OF("0000:03:00.0", "0302 [10de:20b0] [10de:1463] a1", "31.507692", "30")
    /**/ OSDEV("nvml0", "1", " subtype=\"NVML\"") INFO("NVIDIAUUID", "GPU-1") END END END
        /**/ BRIDGE("0000:02:01.0", "31.5") PCI("0000:04:00.0", "0207 [15b3:101b]", "31.507692", "31")
    /**/ OSDEV("ib0", "2", "") INFO("Address", "80:00") INFO("Port", "2") END
        /**/ OSDEV("mlx5_0", "3", "") INFO("NodeGUID", "b8ce:f603:00aa:0010")
    /**/ INFO("SysImageGUID", "b8ce:f603:00aa:0010") INFO("Port1State", "1") INFO("Port1LID", "0xffff")
    /**/ INFO("Port2State", "4") INFO("Port2LID", "0x2a")
    /**/ INFO("Port2GID0", "fe80:0000:0000:0000:b8ce:f603:00aa:0012") INFO("Port3State", "5")
    /**/ END END END END END END END PACKAGE(1, f0, 2) NUMA(1, f0, 2) CORE(2, 10, 2) PU(4, 10, 2) END
        /**/ HOST_BRIDGE("1000:[80-82]") PCI("1000:80:00.0", "0200 [8086:1521]", "0.000000", "32")
    /**/ OSDEV("eth0", "2", "") INFO("Address", "a4:93 &amp; &lt;more&gt;") END END
        /**/ PCI("1000:80:00.1", "0200 [8086:1521]", "0.000000", "33")
            INFO("PCIDevice", "Some Virtual Function")
    /**/ END PCI("1000:80:01.0", "0300 [1a03:2000]", "0.0", "34") OSDEV("card0", "1", "") END END
        /**/ PCI("1000:80:02.0", "1200 [1002:74a1]", "63", "35") END
            /**/ PCI("1000:80:03.0", "0106 [8086:1d02]", "0.0", "36") OSDEV("sda", "0", " subtype=\"Disk\"")
                END END
                    /**/ END END END_ALL;

static void test_places(void **state)
{
    (void)state;
    struct weft_graph *graph = must_read(machine);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 1);
    assert_int_equal(topo_count(graph, WEFT_NODE_NUMA), 2);
    assert_int_equal(topo_count(graph, WEFT_NODE_CORE), 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_GPU), 2);
    assert_int_equal(topo_count(graph, WEFT_NODE_NIC), 3);
    assert_int_equal(topo_count(graph, WEFT_NODE_PORT), 4);
    assert_int_equal(topo_count(graph, WEFT_NODE_BRIDGE), 6);
    assert_int_equal(topo_count(graph, WEFT_NODE_DEVICE), 2);
    assert_int_equal(topo_named(graph, "node7")->flags, 0);
    assert_string_equal(topo_attribute(graph, "node7", "Architecture"), "x86_64");
    assert_string_equal(topo_attribute(graph, "numa0", "CPUModel"), "Model 7");
    assert_string_equal(topo_attribute(graph, "numa1", "package"), "1");
    assert_string_equal(topo_attribute(graph, "numa1", "affinity"), "000000f0");
    assert_int_equal(topo_named(graph, "core2")->index, 2);
    assert_string_equal(topo_parent_name(graph, "core2"), "numa0");
    assert_string_equal(topo_parent_name(graph, "core4"), "numa1");
    assert_string_equal(topo_parent_name(graph, "pci0000:00"), "numa0");
    assert_string_equal(topo_parent_name(graph, "pci1000:80"), "numa1");
    assert_string_equal(topo_parent_name(graph, "gpu0"), "0000:02:00.0");
    assert_string_equal(topo_parent_name(graph, "mlx5_0"), "0000:02:01.0");
    assert_string_equal(topo_parent_name(graph, "mlx5_0:2"), "mlx5_0");
    weft_graph_free(graph);
}

static void test_bridges(void **state)
{
    (void)state;
    struct weft_graph *graph = must_read(machine);
    assert_int_equal(topo_named(graph, "pci0000:00")->bridge, WEFT_BRIDGE_HOST);
    assert_int_equal(topo_named(graph, "0000:00:01.0")->bridge, WEFT_BRIDGE_PORT);
    assert_int_equal(topo_named(graph, "0000:01:00.0")->bridge, WEFT_BRIDGE_SWITCH);
    assert_int_equal(topo_named(graph, "0000:02:00.0")->bridge, WEFT_BRIDGE_SWITCH);
    /* Only the switch's upper port and the functions have a link of their own upwards. */
    assert_int_equal(topo_uplink(graph, "0000:00:01.0"), 0);
    assert_int_equal(topo_uplink(graph, "0000:01:00.0"), 31507692000);
    assert_int_equal(topo_uplink(graph, "0000:02:00.0"), 0);
    assert_int_equal(topo_uplink(graph, "gpu0"), 31507692000);
    assert_int_equal(topo_uplink(graph, "gpu1"), 63000000000);
    assert_int_equal(topo_uplink(graph, "eth0"), 0);
    assert_int_equal(graph->edges[topo_named(graph, "gpu0")->parent_edge].kind, WEFT_EDGE_PCI);
    assert_int_equal(graph->edges[topo_named(graph, "pci0000:00")->parent_edge].kind, WEFT_EDGE_LOCAL);
    weft_graph_free(graph);
}

static void test_devices(void **state)
{
    (void)state;
    struct weft_graph *graph = must_read(machine);
    assert_string_equal(topo_named(graph, "gpu0")->pci, "0000:03:00.0");
    assert_int_equal(topo_named(graph, "gpu0")->index, 0);
    assert_string_equal(topo_attribute(graph, "gpu0", "NVML"), "nvml0");
    assert_string_equal(topo_attribute(graph, "gpu0", "NVIDIAUUID"), "GPU-1");
    assert_string_equal(topo_attribute(graph, "gpu0", "vendor"), "0x10de");
    assert_string_equal(topo_attribute(graph, "gpu0", "subsystem_device"), "0x1463");
    assert_string_equal(topo_named(graph, "gpu1")->pci, "1000:80:02.0");
    /* A screen is no GPU, a disk has its name. */
    assert_int_equal(topo_named(graph, "1000:80:01.0")->kind, WEFT_NODE_DEVICE);
    assert_string_equal(topo_attribute(graph, "1000:80:01.0", "class"), "0x030000");
    assert_string_equal(topo_attribute(graph, "1000:80:03.0", "Disk"), "sda");

    const struct weft_node *nic = topo_named(graph, "mlx5_0");
    assert_true(nic->guid == 0xb8cef60300aa0010);
    assert_string_equal(topo_attribute(graph, "mlx5_0", "SysImageGUID"), "b8ce:f603:00aa:0010");
    assert_int_equal(topo_named(graph, "mlx5_0:1")->state, WEFT_PORT_DOWN);
    assert_int_equal(topo_named(graph, "mlx5_0:2")->state, WEFT_PORT_ACTIVE);
    assert_int_equal(topo_named(graph, "mlx5_0:3")->state, WEFT_PORT_UNKNOWN);
    assert_int_equal(topo_named(graph, "mlx5_0:2")->index, 2);
    assert_true(topo_named(graph, "mlx5_0:2")->guid == 0xb8cef60300aa0012);
    assert_string_equal(topo_attribute(graph, "mlx5_0:2", "LID"), "0x2a");
    assert_string_equal(topo_attribute(graph, "mlx5_0:2", "net"), "ib0");
    assert_string_equal(topo_attribute(graph, "mlx5_0:1", "net"), "(none)");
    assert_string_equal(topo_attribute(graph, "eth0:1", "net"), "eth0");
    assert_string_equal(topo_attribute(graph, "eth0:1", "address"), "a4:93 & <more>");
    /* A function that no driver has: kept, without a port. */
    assert_string_equal(topo_attribute(graph, "1000:80:00.1", "driver_device"), "none");
    assert_string_equal(topo_attribute(graph, "1000:80:00.1", "function_of"), "1000:80:00.0");
    assert_string_equal(topo_attribute(graph, "1000:80:00.1", "virtual_function"), "yes");
    assert_int_equal(topo_named(graph, "1000:80:00.1")->child_first, WEFT_NODE_NONE);
    assert_string_equal(topo_attribute(graph, "eth0", "driver_device"), "(none)");
    weft_graph_free(graph);
}

static void test_sockets(void **state)
{
    (void)state;
    struct weft_graph *graph = must_read(machine);
    const struct weft_edge *between = edge(graph, WEFT_EDGE_SOCKET, "numa0", "numa1");
    assert_int_equal(between->flags, WEFT_EDGE_LINKS_UNKNOWN);
    assert_int_equal(between->bytes_per_s, 0);
    weft_graph_free(graph);
    /* A virtual machine's packages are made up. */
    graph = must_read(HEAD MACHINE INFO("DMIProductName", "KVM") PACKAGE(0, f, 1) NUMA(0, f, 1) PU(0, 1, 1)
                          END PACKAGE(1, f0, 2) NUMA(1, f0, 2) PU(4, 10, 2) END END_ALL);
    assert_int_equal(edges_of(graph, WEFT_EDGE_SOCKET), 0);
    weft_graph_free(graph);
    /* Two NUMA nodes of one package: nobody knows what is between them. */
    graph = must_read(HEAD MACHINE PACKAGE(0, ff, 3) NUMA(0, ff, 1) NUMA(1, ff, 2) PU(0, 1, 3) END END_ALL);
    assert_int_equal(edges_of(graph, WEFT_EDGE_SOCKET), 0);
    weft_graph_free(graph);
}

/* GPUs are numbered as one driver numbers all of them, and in the order of the file otherwise. */
static void test_gpu_numbers(void **state)
{
    (void)state;
#define GPU(pci, name) PCI(pci, "0302 [10de:20b0]", "0.0", "0") OSDEV(name, "5", " subtype=\"CUDA\"") END END
#define GPUS(a, b, c)  HEAD SMALL GPU("0000:01:00.0", a) GPU("0000:02:00.0", b) GPU("0000:03:00.0", c) END_ALL
    static const struct {
        const char *text;
        int order[3];
    } cases[] = {
        {GPUS("cuda2", "cuda0", "cuda1"), {2, 0, 1}},   {GPUS("nvml1", "nvml2", "nvml0"), {1, 2, 0}},
        {GPUS("cuda2", "cuda0", "cuda0"), {0, 1, 2}},   {GPUS("cuda3", "cuda0", "cuda1"), {0, 1, 2}},
        {GPUS("cuda2", "opencl0", "cuda1"), {0, 1, 2}}, {GPUS("rsmi2", "rsmi1", "rsmi0"), {2, 1, 0}},
        {GPUS("cuda2", "cuda0", "cuda1x"), {0, 1, 2}},
    };
    static const char *const addresses[] = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_graph *graph = must_read(cases[i].text);
        for (int j = 0; j < 3; j++) {
            char name[16];
            snprintf(name, sizeof name, "gpu%d", cases[i].order[j]);
            assert_string_equal(topo_named(graph, name)->pci, addresses[j]);
            assert_int_equal(topo_named(graph, name)->index, cases[i].order[j]);
        }
        weft_graph_free(graph);
    }
}

/* Bridges stand where the nodeset around them says. */
static void test_nodesets(void **state)
{
    (void)state;
    struct weft_graph *graph = must_read(HEAD MACHINE NUMA(0, f, 1) NUMA(1, f0, 2) PU(0, 1, 1)
                                             HOST_BRIDGE("0000:[00-01]") END END_ALL);
    assert_string_equal(topo_parent_name(graph, "pci0000:00"), "host");
    weft_graph_free(graph);
    /* A GPU's memory beside the package's own does not move its bridges away. */
    graph = must_read(HEAD MACHINE PACKAGE(0, ff, 3) NUMA(0, ff, 1) NUMA_OF(1, 0, 2, " subtype=\"GPUMemory\"")
                          PU(0, 1, 1) HOST_BRIDGE("0000:[00-01]") END END END_ALL);
    assert_string_equal(topo_parent_name(graph, "pci0000:00"), "numa0");
    weft_graph_free(graph);
}

/* hwloc's sets of processors, in the words of NCCL's masks. */
static void test_affinity(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"0x000000ff", "000000ff"},
        {"0x1,,0xff00", "00000001,00000000,0000ff00"},
        {"0xf...f,0x1", "(none)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        const char *set = cases[i][0];
        snprintf(text, sizeof text,
                 "<topology version=\"2.0\"><object type=\"Machine\" gp_index=\"1\" cpuset=\"%s\" "
                 "complete_cpuset=\"%s\" nodeset=\"0x1\" complete_nodeset=\"0x1\"><object type=\"NUMANode\" "
                 "os_index=\"0\" cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"0x1\" "
                 "complete_nodeset=\"0x1\" gp_index=\"2\"/></object></topology>",
                 set, set, set, set);
        struct weft_graph *graph = must_read(text);
        assert_string_equal(topo_attribute(graph, "numa0", "affinity"), cases[i][1]);
        weft_graph_free(graph);
    }
}

/* What is not on PCI, several adapters of one function, processors without cores. */
static void test_odd_machines(void **state)
{
    (void)state;
    struct weft_graph *graph =
        must_read(HEAD MACHINE_OF(1) INFO("DMISysVendor", "QEMU") INFO("DMIProductName", "Standard PC")
                      NUMA(0, ff, 1) PU(3, 8, 1) PCI("0000:01:00.0", "0200 [15b3:1017]", "0.0", "90")
                          OSDEV("mlx5_1", "3", "") INFO("Port1State", "4") END OSDEV("mlx5_2", "3", "")
                              INFO("Port1State", "2") END END OSDEV("rxe0", "3", "") INFO("Port1State", "4")
                                  END OSDEV("veth0", "2", "") END OSDEV("opencl0", "5", "") END END_ALL);
    assert_int_equal(topo_named(graph, "host")->flags, WEFT_HOST_VIRTUAL);
    assert_int_equal(topo_named(graph, "core3")->index, 3);
    assert_string_equal(topo_parent_name(graph, "rxe0"), "numa0");
    assert_int_equal(topo_named(graph, "rxe0:1")->state, WEFT_PORT_ACTIVE);
    assert_null(topo_named(graph, "rxe0")->pci);
    assert_string_equal(topo_parent_name(graph, "veth0"), "numa0");
    assert_string_equal(topo_named(graph, "mlx5_1")->pci, "0000:01:00.0");
    assert_string_equal(topo_named(graph, "mlx5_2")->pci, "0000:01:00.0");
    assert_int_equal(topo_named(graph, "mlx5_2:1")->state, WEFT_PORT_INIT);
    /* Off InfiniBand a GID does not tell the port's GUID, and nothing is made up. */
    assert_true(topo_named(graph, "mlx5_1:1")->guid == 0);
    weft_graph_free(graph);
}

static void test_virtual_products(void **state)
{
    (void)state;
    assert_int_equal(weft_product_is_virtual(NULL, NULL), 0);
    assert_int_equal(weft_product_is_virtual("Supermicro", "X9DRG-HF"), 0);
    assert_int_equal(weft_product_is_virtual("Microsoft Corporation", "Surface"), 0);
    assert_int_equal(weft_product_is_virtual("Microsoft Corporation", "Virtual Machine"), 1);
    assert_int_equal(weft_product_is_virtual("QEMU", NULL), 1);
    assert_int_equal(weft_product_is_virtual("Amazon EC2", "p4d.24xlarge"), 1);
    assert_int_equal(weft_product_is_virtual("Amazon EC2", "m5.metal"), 0);
    assert_int_equal(weft_product_is_virtual("Amazon EC2", NULL), 0);
}

/* Four GPUs and what follows, to be put together: see MATRIX. */
static struct weft_graph *with_links(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct weft_graph *with_links(const char *format, ...)
{
    char links[2048], text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(links, sizeof links, format, arguments);
    va_end(arguments);
    int length = snprintf(text, sizeof text, "%s%s</topology>", FOUR_GPUS, links);
    assert_true(length < (int)sizeof text);
    return must_read(text);
}

static void test_links(void **state)
{
    (void)state;
    struct weft_graph *graph = with_links(MATRIX("3", "NVLinkBandwidth", "PCIDev:31 PCIDev:32 Package:11",
                                                 "1000000 50000 0 40000 1000000 25000 0 0 1000000"));
    assert_int_equal(edges_of(graph, WEFT_EDGE_GPU_LINK), 2);
    const struct weft_edge *link = edge(graph, WEFT_EDGE_GPU_LINK, "gpu0", "gpu1");
    assert_int_equal(link->flags, WEFT_EDGE_NVLINK | WEFT_EDGE_LINKS_UNKNOWN);
    assert_int_equal(link->links, 1);
    assert_true(link->bytes_per_s == 40000000000); /* the weaker direction */
    link = edge(graph, WEFT_EDGE_GPU_LINK, "gpu1", "numa1");
    assert_true(link->bytes_per_s == 25000000000);
    weft_graph_free(graph);
    graph = with_links(MATRIX("2", "SomethingElse", "PCIDev:31 PCIDev:32", "0 2 3 0"));
    assert_int_equal(edges_of(graph, WEFT_EDGE_GPU_LINK), 0);
    weft_graph_free(graph);

    /* All over an NVSwitch: each pair has what the weaker of the two has. */
    graph = with_links(MATRIX("4", "NVLinkBandwidth", "PCIDev:31 PCIDev:32 PCIDev:33 PCIDev:34",
                              "0 0 0 300000 0 0 0 300000 0 0 0 150000 300000 300000 150000 0"));
    assert_int_equal(edges_of(graph, WEFT_EDGE_GPU_LINK), 3);
    link = edge(graph, WEFT_EDGE_GPU_LINK, "gpu0", "gpu1");
    assert_int_equal(link->flags, WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH | WEFT_EDGE_LINKS_UNKNOWN);
    assert_true(link->bytes_per_s == 300000000000);
    assert_true(edge(graph, WEFT_EDGE_GPU_LINK, "gpu0", "gpu2")->bytes_per_s == 150000000000);
    weft_graph_free(graph);

    graph = with_links(
        "<distances2 type=\"PCIDev\" nbobjs=\"2\" kind=\"25\" name=\"XGMIBandwidth\" indexing=\"gp\">"
        "<indexes length=\"5\">31 33</indexes><u64values length=\"17\">0 100000 100000 "
        "0</u64values></distances2>"
        "<distances2 type=\"NUMANode\" nbobjs=\"2\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">"
        "<indexes length=\"3\">0 1</indexes><u64values length=\"11\">10 20 20 10</u64values></distances2>");
    assert_int_equal(edges_of(graph, WEFT_EDGE_GPU_LINK), 1);
    assert_int_equal(edge(graph, WEFT_EDGE_GPU_LINK, "gpu0", "gpu2")->flags,
                     WEFT_EDGE_XGMI | WEFT_EDGE_LINKS_UNKNOWN);
    weft_graph_free(graph);
}

/* XML that hwloc 1 wrote: hwloc reads it, and so it is read. */
static void test_version_1(void **state)
{
    (void)state;
#define SETS_1(cpus)                                                                                         \
    SETS(cpus, 1) " online_cpuset=\"0x" #cpus "\" allowed_cpuset=\"0x" #cpus "\" allowed_nodeset=\"0x1\""
    struct weft_graph *graph =
        must_read("<topology>\n<object type=\"Machine\" os_level=\"-1\" os_index=\"0\"" SETS_1(
            3) ">\n"
               "<object type=\"NUMANode\" os_level=\"-1\" os_index=\"0\" local_memory=\"4096\"" SETS_1(
                   3) ">\n"
                      "<object type=\"Socket\" os_level=\"-1\" os_index=\"0\"" SETS_1(
                          3) ">\n"
                             "<object type=\"PU\" os_level=\"-1\" os_index=\"0\"" SETS_1(
                                 1) "/>\n"
                                    "<object type=\"PU\" os_level=\"-1\" os_index=\"1\"" SETS_1(
                                        2) "/>\n"
                                           "</object></object></object></topology>\n");
#undef SETS_1
    assert_int_equal(topo_count(graph, WEFT_NODE_NUMA), 1);
    assert_int_equal(topo_count(graph, WEFT_NODE_CORE), 2);
    assert_string_equal(topo_parent_name(graph, "core1"), "numa0");
    weft_graph_free(graph);
}

/* --- samples: what test_nic_map.sh does not count */

static struct weft_graph *sample(const char *name)
{
    char *bytes;
    size_t size;
    if (topo_file(name, &bytes, &size))
        return NULL;
    struct weft_text text = {name, bytes, size};
    struct weft_graph *graph;
    int status = weft_topo_read_text(&text, &graph);
    free(bytes);
    assert_int_equal(status, WEFT_OK);
    return graph;
}

static void test_sample_two_packages(void **state)
{
    (void)state;
    size_t size;
    char *bytes = topo_sample("hwloc-2package.xml", &size);
    struct weft_graph *graph;
    int status = weft_topo_read_text(&(struct weft_text){"two", bytes, size}, &graph);
    free(bytes);
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(topo_named(graph, "two")->kind, WEFT_NODE_HOST);
    assert_string_equal(topo_named(graph, "gpu0")->pci, "0000:01:00.0");
    assert_string_equal(topo_named(graph, "gpu1")->pci, "0000:80:01.0");
    assert_true(topo_uplink(graph, "gpu1") == 15753846000);
    assert_string_equal(topo_parent_name(graph, "mlx5_0"), "0000:00:01.0");
    assert_int_equal(topo_named(graph, "mlx5_0:1")->state, WEFT_PORT_ACTIVE);
    weft_graph_free(graph);
}

static void test_sample_power8(void **state)
{
    (void)state;
    struct weft_graph *graph = sample("hwloc-xml/power8gpudistances.xml");
    if (!graph)
        skip();
    assert_int_equal(topo_named(graph, "drac-12.grenoble.grid5000.fr")->kind, WEFT_NODE_HOST);
    assert_string_equal(topo_named(graph, "gpu2")->pci, "000a:01:00.0");
    assert_true(topo_uplink(graph, "gpu2") == 15753846000);
    static const char *const joined[][2] = {{"gpu0", "gpu1"},  {"gpu2", "gpu3"},  {"gpu0", "numa0"},
                                            {"gpu1", "numa0"}, {"gpu2", "numa1"}, {"gpu3", "numa1"}};
    assert_int_equal(edges_of(graph, WEFT_EDGE_GPU_LINK), 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(edge(graph, WEFT_EDGE_GPU_LINK, joined[i][0], joined[i][1])->bytes_per_s == 40000000000);
    weft_graph_free(graph);
}

static void test_sample_many_functions(void **state)
{
    (void)state;
    struct weft_graph *graph = sample("hwloc-xml/16intel64-manyVFs.xml");
    if (!graph)
        skip();
    uint32_t bare = 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        bare +=
            graph->nodes[i].kind == WEFT_NODE_NIC && weft_graph_attribute(graph, i, "driver_device") != NULL;
    assert_int_equal(bare, 12);
    assert_string_equal(topo_parent_name(graph, "usnic_2"), "0000:87:00.0");
    assert_string_equal(topo_attribute(graph, "usnic_2:1", "net"), "eth6");
    assert_int_equal(topo_named(graph, "usnic_2:1")->state, WEFT_PORT_ACTIVE);
    weft_graph_free(graph);
}

static void test_sample_whole_io(void **state)
{
    (void)state;
    struct weft_graph *graph = sample("hwloc-xml/32em64t-2n8c2t-pci-wholeio.xml");
    if (!graph)
        skip();
    assert_int_equal(topo_named(graph, "conan")->flags, 0);
    assert_string_equal(topo_named(graph, "gpu3")->pci, "0000:84:00.1");
    assert_true(topo_named(graph, "mlx5_0:1")->guid == 0x248a0703001e39fe);
    assert_string_equal(topo_parent_name(graph, "mlx5_0"), "0000:80:03.0");
    weft_graph_free(graph);
}

int main(void)
{
    weft_discover_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),           cmocka_unit_test(test_bridges),
        cmocka_unit_test(test_devices),          cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_gpu_numbers),      cmocka_unit_test(test_nodesets),
        cmocka_unit_test(test_affinity),         cmocka_unit_test(test_odd_machines),
        cmocka_unit_test(test_virtual_products), cmocka_unit_test(test_links),
        cmocka_unit_test(test_version_1),        cmocka_unit_test(test_sample_two_packages),
        cmocka_unit_test(test_sample_power8),    cmocka_unit_test(test_sample_many_functions),
        cmocka_unit_test(test_sample_whole_io),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
