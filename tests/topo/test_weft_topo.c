/* SPDX-License-Identifier: Apache-2.0 */
/* The weft-topo program, from outside: its command line, inputs, and what it prints for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/tool.h"

#define expect tool_expect

/* Two sockets; on each a PCI switch with two GPUs and a NIC. Written for this test. */
static const char nccl_xml[] =
    "<system version=\"1\">\n"
    "  <cpu numaid=\"0\" affinity=\"0000000f\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
    "modelid=\"85\">\n"
    "    <pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
    "      <pci busid=\"0000:11:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "      <pci busid=\"0000:12:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "      <pci busid=\"0000:13:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"8\">\n"
    "        <nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" guid=\"0x1234\" "
    "maxconn=\"262144\" "
    "gdr=\"1\"/></nic>\n"
    "      </pci>\n"
    "    </pci>\n"
    "  </cpu>\n"
    "  <cpu numaid=\"1\" affinity=\"000000f0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
    "modelid=\"85\">\n"
    "    <pci busid=\"0000:20:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
    "      <pci busid=\"0000:21:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "      <pci busid=\"0000:22:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "      <pci busid=\"0000:23:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
    "    </pci>\n"
    "  </cpu>\n"
    "</system>\n";

/* One GPU and one NIC on each of two NUMA nodes. */
static const char hwloc_xml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\">\n"
    "  <object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" "
    "nodeset=\"0x3\" complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">\n"
    "    <info name=\"HostName\" value=\"box\"/>\n"
    "    <object type=\"Package\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"2\">\n"
    "      <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"3\" local_memory=\"1048576\"/>\n"
    "      <object type=\"Core\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"4\">\n"
    "        <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"5\"/>\n"
    "      </object>\n"
    "      <object type=\"Bridge\" gp_index=\"6\" bridge_type=\"0-1\" depth=\"0\" "
    "bridge_pci=\"0000:[00-1f]\">\n"
    "        <object type=\"PCIDev\" gp_index=\"7\" name=\"\" pci_busid=\"0000:01:00.0\" "
    "pci_type=\"0302 [10de:15f9] [10de:116b] a1\" pci_link_speed=\"15.753846\"/>\n"
    "        <object type=\"PCIDev\" gp_index=\"8\" pci_busid=\"0000:02:00.0\" "
    "pci_type=\"0207 [15b3:1013] [15b3:0010] 00\" pci_link_speed=\"15.753846\">\n"
    "          <object type=\"OSDev\" gp_index=\"9\" name=\"mlx5_0\" osdev_type=\"3\">\n"
    "            <info name=\"NodeGUID\" value=\"0002:c903:0000:0001\"/>\n"
    "            <info name=\"Port1State\" value=\"4\"/>\n"
    "          </object>\n"
    "        </object>\n"
    "      </object>\n"
    "    </object>\n"
    "    <object type=\"Package\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"10\">\n"
    "      <object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"11\" local_memory=\"1048576\"/>\n"
    "      <object type=\"Core\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"12\">\n"
    "        <object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"13\"/>\n"
    "      </object>\n"
    "    </object>\n"
    "  </object>\n"
    "</topology>\n";

static const char ibnetdiscover_out[] =
    "#\n# Topology file: generated on Sun Nov 22 08:00:00 2026\n#\n\n"
    "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x100\nswitchguid=0x100(100)\n"
    "Switch\t4 \"S-0000000000000100\"\t\t# \"leaf one\" enhanced port 0 lid 1 lmc 0\n"
    "[1]\t\"H-0000000000000a00\"[1](a01) \t\t# \"hosta mlx5_0\" lid 10 4xNDR\n"
    "[2]\t\"H-0000000000000b00\"[1](b01) \t\t# \"hostb mlx5_0\" lid 11 4xNDR\n\n"
    "vendid=0x2c9\ndevid=0x1021\nsysimgguid=0xa00\ncaguid=0xa00\n"
    "Ca\t1 \"H-0000000000000a00\"\t\t# \"hosta mlx5_0\"\n"
    "[1](a01) \t\"S-0000000000000100\"[1]\t\t# lid 10 lmc 0 \"leaf one\" lid 1 4xNDR\n\n"
    "vendid=0x2c9\ndevid=0x1021\nsysimgguid=0xb00\ncaguid=0xb00\n"
    "Ca\t1 \"H-0000000000000b00\"\t\t# \"hostb mlx5_0\"\n"
    "[1](b01) \t\"S-0000000000000100\"[2]\t\t# lid 11 lmc 0 \"leaf one\" lid 1 4xNDR\n";

static const char topograph_yaml[] = "switches:\n  top:\n    switches: [left, right]\n"
                                     "blocks:\n- switch: left\n  nodes: [\"n[1-2]\"]\n"
                                     "- switch: right\n  nodes: [\"n[3-4]\"]\n";

static const char slurm_conf[] =
    "SwitchName=l0 Nodes=a[0-1]\nSwitchName=l1 Nodes=a[2-3]\nSwitchName=top Switches=l[0-1]\n";

static int files_make(void **state)
{
    if (tool_topo(state) != 0)
        return -1;
    tool_file("nccl.xml", nccl_xml);
    tool_file("hwloc.xml", hwloc_xml);
    tool_file("ib.out", ibnetdiscover_out);
    tool_file("fabric.yaml", topograph_yaml);
    tool_file("topology.conf", slurm_conf);
    return 0;
}

static void test_bad_arguments(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"machine.xml", "unknown argument 'machine.xml': expected one that weft-topo --help lists"},
        {"--inputs x", "unknown argument '--inputs'"},
        {"--matrix=1", "unknown argument '--matrix=1'"},
        {"\"$(printf '\\033[31m')\"", "unknown argument '?[31m'"},
        {"--input", "--input needs a value behind it"},
        {"--input ''", "--input '': expected a file, - or a synthetic text"},
        {"--input - --input -", "--input '-': expected standard input to be read once"},
        {"--fabric ''", "--fabric '': expected a file, - or a synthetic text"},
        {"--host ''", "--host '': expected the name of a host"},
        {"--format", "--format needs a value behind it"},
        {"--format pdf", "--format 'pdf': expected text, json, xml, dot or svg"},
        {"--format ''", "--format '': expected text"},
        {"--explain gpu0", "--explain needs two names behind it: expected --explain A B"},
        {"--explain", "--explain needs two names behind it"},
        {"--matrix --order", "--matrix and --order: expected one of them"},
        {"--explain a b --nic-map", "--explain and --nic-map: expected one of them"},
        {"--matrix --format svg", "--matrix with --format 'svg': expected text or json"},
        {"--explain a b --format xml", "--explain with --format 'xml': expected text or json"},
        {"--order --format dot", "--order with --format 'dot': expected text or json"},
        {"--nic-map --format text", "--nic-map with --format 'text': expected json"},
        {"--order --ranks-per-node 0", "--ranks-per-node '0': expected a whole number from 1 to 65536"},
        {"--order --ranks-per-node 65537", "--ranks-per-node '65537': expected"},
        {"--order --ranks-per-node=4x", "--ranks-per-node '4x': expected"},
        {"--order --ranks-per-node -1", "--ranks-per-node '-1': expected"},
        {"--order --shuffle=", "--shuffle '': expected a whole number from 0 to 18446744073709551615"},
        {"--order --shuffle 18446744073709551616", "--shuffle '18446744073709551616': expected"},
        {"--shuffle 1", "without --order there is no use for '--shuffle'"},
        {"--matrix --ranks-per-node 2", "without --order there is no use for '--ranks-per-node'"},
        {"--everywhere", "without --fabric there is no use for '--everywhere'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i][0], 2, cases[i][1]);
}

static void test_help(void **state)
{
    (void)state;
    expect("--help", 0, "usage: weft-topo [INPUT]");
    expect("-h", 0, "Exit status: 0, 1 when");
    expect("--input /nowhere --help", 0, "usage: weft-topo");
    expect("--version", 0, "weft-topo ");
    static const char *const options[] = {"--input",  "--fabric",      "--everywhere",     "--host",
                                          "--matrix", "--explain A B", "--nic-map",        "--order",
                                          "--format", "--all",         "--ranks-per-node", "--shuffle"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect("--help", 0, options[i]);
}

static void test_inputs(void **state)
{
    (void)state;
    expect("--input $T/nccl.xml", 0, "(NCCL XML): 1 host, 2 NUMA nodes, 4 GPUs, 2 NICs, 1 port\n");
    expect("--input $T/hwloc.xml", 0,
           "(hwloc XML): 1 host, 2 NUMA nodes, 1 GPU, 1 NIC, 1 port\n\nhost box\n");
    expect("--input $T/ib.out", 0, "(ibnetdiscover): 2 hosts, 2 NICs, 2 ports, 1 switch\n");
    expect("--input $T/fabric.yaml", 0, "4 hosts, 3 switches\n");
    expect("--input $T/topology.conf", 0, "(Slurm): 4 hosts, 3 switches\n");
    expect("--input - <$T/nccl.xml", 0, "standard input (NCCL XML): 1 host");
    expect("--input=$T/nccl.xml", 0, "4 GPUs");
    expect("--input $T/absent", 1, "weft-topo: cannot open ");
    expect("--input $T", 1, "weft-topo: cannot read ");
    expect("--input - </dev/null", 1, "weft-topo: standard input: holds nothing: expected ");
    expect("--input /dev/null", 1, "/dev/null: holds nothing: expected ");
}

/* Without --input: whatever machine this is, it is one host; HWLOC_XMLFILE puts another in its place. */
static void test_this_machine(void **state)
{
    (void)state;
    char path[128];
    expect("", 0, "this machine (");
    assert_non_null(strstr(tool_output, "): 1 host"));
    expect("--matrix --format json", 0, "\"view\": \"matrix\"");
    snprintf(path, sizeof path, "%s/hwloc.xml", getenv("T"));
    assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
    tool_run("");
    assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
    if (!strstr(tool_output, "1 host, 2 NUMA nodes, 1 GPU, 1 NIC, 1 port\n\nhost box\n"))
        fail_msg("HWLOC_XMLFILE gives %.2000s", tool_output);
}

static void test_several_inputs(void **state)
{
    (void)state;
    expect("--input $T/nccl.xml --input $T/hwloc.xml --input $T/nccl.xml", 0,
           "3 inputs (several kinds): 3 hosts, 6 NUMA nodes, 9 GPUs, 5 NICs, 3 ports\n");
    assert_non_null(strstr(tool_output, "\nhost host0\n"));
    assert_non_null(strstr(tool_output, "\nhost box\n"));
    assert_non_null(strstr(tool_output, "\nhost host0-2\n"));
    expect("--input $T/nccl.xml --input $T/nccl.xml --explain gpu0 gpu1", 1, "\"gpu0\" is the name of 2: ");
    expect("--input $T/nccl.xml --input $T/nccl.xml --explain host0-2/gpu0 host0-2/gpu1", 0, ": PIX, ");
    expect("--input $T/nccl.xml --input $T/nccl.xml --explain host0/gpu0 host0-2/gpu0", 0, ": DIS, ");
    expect("--input $T/nccl.xml --input $T/absent", 1, "cannot open ");
    expect("--input $T/nccl.xml --input /dev/null", 1, "/dev/null: holds nothing");
}

static void test_one_host(void **state)
{
    (void)state;
    expect("--input $T/ib.out --host hosta", 0, "(ibnetdiscover): 1 host, 1 NIC, 1 port\n\nhost hosta\n");
    assert_null(strstr(tool_output, "hostb"));
    assert_null(strstr(tool_output, "switch"));
    expect("--input $T/ib.out --host host", 1,
           "--host 'host': there is no such host; there is hosta, hostb\n");
    expect("--input 'fat-tree:leaves=8,nodes-per-leaf=8' --host none", 1, ", ...\n");
}

static void test_text(void **state)
{
    (void)state;
    expect("--input $T/nccl.xml", 0,
           "\n"
           "host host0\n"
           "  NUMA node 0\n"
           "    PCI switch 0000:10:00.0, PCI 31.5 GB/s\n"
           "      GPU gpu0, 0000:11:00.0, PCI 31.5 GB/s\n"
           "      GPU gpu1, 0000:12:00.0, PCI 31.5 GB/s\n"
           "      NIC mlx5_0, 0000:13:00.0, PCI 15.8 GB/s, GUID ");
    expect("--input $T/nccl.xml", 0, "        port 1: state unknown, 200 Gb/s (25 GB/s)");
    expect("--input $T/hwloc.xml", 0,
           "host box\n"
           "  NUMA node 0, 1 core\n"
           "    host bridge pci0000:00\n"
           "      GPU gpu0, 0000:01:00.0, PCI 15.8 GB/s\n"
           "      NIC mlx5_0, 0000:02:00.0, PCI 15.8 GB/s, GUID 0002c90300000001\n"
           "        port 1: active, rate unknown\n"
           "  NUMA node 1, 1 core\n");
    expect("--input $T/hwloc.xml", 0, "  NUMA node 0 - NUMA node 1: processor link, rate unknown\n");
    expect("--input $T/hwloc.xml --all", 0, "    core core0");
    expect("--input $T/hwloc.xml --all", 0, "HostName=box");
    expect("--input $T/ib.out", 0,
           "\nfabric: 1 switch in 1 tier\n"
           "  tier 1 (leaves): 1 switch; 2 cables to hosts, 400 Gb/s (50 GB/s) each\n");
    expect("--input $T/ib.out --all", 0, "    [1] hosta/mlx5_0 port 1, 400 Gb/s\n");
    expect("--input $T/topology.conf", 0,
           "\nfabric: 3 switches in 2 tiers\n"
           "  tier 2: 1 switch; 2 cables down, rate unknown\n"
           "  tier 1 (leaves): 2 switches; 4 cables to hosts, rate unknown; 2 cables up, rate unknown\n"
           "\n"
           "4 hosts with nothing known inside: a0, a1, a2, a3\n");
}

/* The table is read off the XML: gpu0, gpu1 and mlx5_0 share a switch, as gpu2, gpu3 and the other NIC do. */
static void test_matrix(void **state)
{
    (void)state;
    assert_int_equal(tool_run("--input $T/nccl.xml --matrix"), 0);
    assert_string_equal(tool_output, "        gpu0  gpu1  gpu2  gpu3  mlx5_0  nic1  NUMA0  NUMA1\n"
                                     "gpu0    X     PIX   SYS   SYS   PIX     SYS   PHB    SYS\n"
                                     "gpu1    PIX   X     SYS   SYS   PIX     SYS   PHB    SYS\n"
                                     "gpu2    SYS   SYS   X     PIX   SYS     PIX   SYS    PHB\n"
                                     "gpu3    SYS   SYS   PIX   X     SYS     PIX   SYS    PHB\n"
                                     "mlx5_0  PIX   PIX   SYS   SYS   X       SYS   PHB    SYS\n"
                                     "nic1    SYS   SYS   PIX   PIX   SYS     X     SYS    PHB\n"
                                     "NUMA0   PHB   PHB   SYS   SYS   PHB     SYS   X      SYS\n"
                                     "NUMA1   SYS   SYS   PHB   PHB   SYS     PHB   SYS    X\n"
                                     "\n"
                                     "  X     itself\n"
                                     "  PIX   at most one PCI switch between them\n"
                                     "  PHB   a PCI host bridge: the processor's root complex\n"
                                     "  SYS   the processors' links between NUMA nodes\n");
    expect("--input $T/nccl.xml --input $T/hwloc.xml --matrix", 0,
           "\nhost box\n"
           "        gpu0  mlx5_0  NUMA0  NUMA1\n"
           "gpu0    X     PHB     PHB    SYS\n"
           "mlx5_0  PHB   X       PHB    SYS\n"
           "NUMA0   PHB   PHB     X      SYS\n"
           "NUMA1   SYS   SYS     SYS    X\n");
    expect("--input $T/topology.conf --matrix", 0, "host a0\nno GPUs, NICs or NUMA nodes are known\n");
    expect("--input 'fat-tree:leaves=8,nodes-per-leaf=8' --matrix", 1,
           "there are 64 hosts: choose one with --host NAME\n");
}

/* Not every source numbers them. */
static void test_port_without_number(void **state)
{
    (void)state;
    tool_file("unnumbered.xml",
              "<system version=\"1\"><cpu numaid=\"0\">"
              "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"100000\"/></nic></cpu></system>");
    expect("--input $T/unnumbered.xml --explain mlx5_0 mlx5_0:port", 0, "mlx5_0 - mlx5_0:port: LOC, ");
    expect("--input $T/unnumbered.xml --format dot", 0, "mlx5_0\\nport: 100 Gb/s");
}

static void test_explain(void **state)
{
    (void)state;
    assert_int_equal(tool_run("--input $T/nccl.xml --explain gpu0 mlx5_0"), 0);
    assert_string_equal(
        tool_output, "gpu0 - mlx5_0: PIX, at most one PCI switch between them\n"
                     "\n"
                     "  GPU gpu0, 0000:11:00.0\n"
                     "    | PCI, 31.5 GB/s\n"
                     "  PCI switch 0000:10:00.0\n"
                     "    | PCI, 15.8 GB/s   <- narrowest\n"
                     "  NIC mlx5_0, 0000:13:00.0\n"
                     "\n"
                     "bandwidth: 15.8 GB/s\n"
                     "latency: unknown\n"
                     "direct access to GPU memory: sensible: they meet below the host bridge: the bytes pass "
                     "neither the processor nor its memory\n");
    expect("--input $T/nccl.xml --explain 11:00.0 0000:23:00.0", 0, "gpu0 - nic1: SYS, ");
    expect("--input $T/nccl.xml --explain gpu0 nic1", 0, "direct access to GPU memory: no");
    expect("--input $T/hwloc.xml --explain gpu0 mlx5_0", 0, "direct access to GPU memory: possible");
    expect("--input $T/ib.out --explain hosta/mlx5_0 hostb/mlx5_0", 0,
           ": NET, another host, over the fabric\n");
    assert_non_null(strstr(tool_output, "    | cable, 50 GB/s   <- narrowest\n"));
    assert_null(strstr(tool_output, "direct access"));
    expect("--input $T/nccl.xml --explain gpu0 gpu9", 1, "there is no \"gpu9\" in ");
    expect("--input $T/nccl.xml --explain \"$(printf '\\033]0;x')\" gpu0", 1, "there is no \"?]0;x\" in ");
}

/* A way that is too long to be told is no missing NIC. */
static void test_long_way(void **state)
{
    (void)state;
    char text[32768];
    int used = snprintf(text, sizeof text, "<system version=\"1\"><cpu numaid=\"0\">");
    for (unsigned i = 1; i <= 80; i++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "<pci busid=\"0000:%02x:00.0\" class=\"%s\">", i, i < 80 ? "0x060400" : "0x030200");
    for (unsigned i = 1; i <= 80; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "</pci>");
    snprintf(text + used, sizeof text - (size_t)used,
             "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"100000\" port=\"1\"/></nic></cpu></system>");
    tool_file("deep.xml", text);
    expect("--input $T/deep.xml --explain gpu0 mlx5_0", 1, "a path of more than 64 edges");
    expect("--input $T/deep.xml --nic-map", 1, "a path of more than 64 edges");
}

static void test_fabric(void **state)
{
    (void)state;
    expect("--input $T/nccl.xml --fabric fat-tree:leaves=2,nodes-per-leaf=2 --everywhere", 0,
           "weft-topo: fabric fat-tree:leaves=2,nodes-per-leaf=2: 4 ports joined to its switches, 0 hosts "
           "that no "
           "machine describes\n");
    assert_non_null(strstr(tool_output, "4 hosts, 8 NUMA nodes, 16 GPUs, 8 NICs, 4 ports, 4 switches\n"));
    expect("--input $T/nccl.xml --fabric fat-tree:leaves=2,nodes-per-leaf=1", 0,
           ": 0 ports joined to its switches, 2 hosts that no machine describes\n");
    assert_non_null(strstr(tool_output, "3 hosts, "));
    /* Of what is written for programs, nothing but that. */
    expect("--input $T/nccl.xml --fabric $T/ib.out --format svg 2>/dev/null", 0, "<svg ");
    assert_null(strstr(tool_output, "weft-topo:"));
    expect("--input $T/nccl.xml --input $T/nccl.xml --fabric $T/ib.out --everywhere", 1,
           "2 hosts, expected one that stands for all hosts of ");
    expect("--input $T/nccl.xml --fabric $T/absent", 1, "cannot open ");
}

static void test_formats(void **state)
{
    (void)state;
    expect("--input $T/nccl.xml --format text", 0, "\nhost host0\n");
    expect("--input $T/nccl.xml --format dot", 0, "graph ");
    expect("--input $T/nccl.xml --format svg", 0, "</svg>\n");
    /* What was written in NCCL's words reads back as the same machine. */
    expect("--input $T/nccl.xml --format xml >$T/again.xml", 0, "");
    expect("--input $T/again.xml --format xml 2>&1 | cmp - $T/again.xml && echo the same", 0, "the same\n");
    expect("--input $T/again.xml", 0, "again.xml (NCCL XML): 1 host, 2 NUMA nodes, 4 GPUs, 2 NICs, 1 port\n");
    expect("--input $T/hwloc.xml --format xml", 0, "<net name=\"mlx5_0\"");
}

/* Four hosts with two ranks each, two under each leaf: a ring must leave each leaf once at least, whatever the seed. */
static void test_order(void **state)
{
    (void)state;
    static const char job[] = "--input fat-tree:leaves=2,nodes-per-leaf=2,gpus=2,rails=1 --order --shuffle ";
    char words[160];
    for (int seed = 0; seed < 20; seed++) {
        snprintf(words, sizeof words, "%s %d", job, seed);
        expect(words, 0, "8 ranks on 4 hosts, shuffled with seed ");
        const char *leaf = strstr(tool_output, "crossings between leaf switches");
        const char *host = strstr(tool_output, "crossings between hosts");
        unsigned by_number, by_weft, least;
        assert_non_null(leaf);
        assert_non_null(host);
        assert_int_equal(
            sscanf(leaf, "crossings between leaf switches %u %u %u", &by_number, &by_weft, &least), 3);
        assert_int_equal(by_weft, 2);
        assert_int_equal(least, 2);
        assert_true(by_number >= 2);
        assert_int_equal(sscanf(host, "crossings between hosts %u %u", &by_number, &by_weft), 2);
        assert_int_equal(by_weft, 4);
        assert_true(by_number >= 4);
    }
    static const char *const parts[] = {
        "\norder (ring 0)\n",
        "\ngroups\n  job: 8 ranks, positions 0-7\n",
        "\n    switch leaf0: 4 ranks, positions 0-3\n      host node0: 2 ranks, positions 0-1\n",
        "\nstreams per link in weft's order\n",
        "node0/nic0 port 1 - leaf0, 400 Gb/s\n",
        "\nreasons, in the order\n",
        "  rank 7: NIC nic0 ",
        "highest load of a link (streams) "};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        expect(words, 0, parts[i]);
    expect("--input fat-tree:leaves=2,nodes-per-leaf=2,gpus=2 --order --ranks-per-node 40", 0,
           "160 ranks on 4 hosts, 40 per host\n");
    assert_non_null(strstr(tool_output, "  ... and 128 more ranks: --all lists them\n"));
    expect("--input fat-tree:leaves=2,nodes-per-leaf=2,gpus=2 --order --ranks-per-node 40 --all", 0,
           "  rank 159: ");
    assert_null(strstr(tool_output, "--all lists them"));
    expect("--input $T/topology.conf --order", 0, "4 ranks on 4 hosts\n");
    expect("--input fat-tree:leaves=64,nodes-per-leaf=64 --order --ranks-per-node 65536", 1,
           "that makes 268435456 ranks: expected at most 4194304\n");
}

/* Names of a file that would steer a terminal, turn the direction of writing or are no UTF-8. */
static void test_hostile_names(void **state)
{
    (void)state;
    tool_file("hostile.conf", "SwitchName=l\x1b[31m0 Nodes=n\xe2\x80\xae"
                              "a,n\xff"
                              "b\n");
    static const char *const words[] = {"",         "--all",  "--format json", "--format dot", "--format svg",
                                        "--matrix", "--order"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char line[128];
        snprintf(line, sizeof line, "--input $T/hostile.conf %s", words[i]);
        tool_run(line);
        for (const char *at = tool_output; *at; at++) {
            if ((unsigned char)*at >= 0x7f || ((unsigned char)*at < 0x20 && *at != '\n'))
                fail_msg("%s: byte %02x at %.40s", line, (unsigned char)*at, at);
        }
    }
}

static void test_output_errors(void **state)
{
    (void)state;
    static const char *const words[] = {"--help",
                                        "--version",
                                        "--format json",
                                        "--format xml",
                                        "--format dot",
                                        "--matrix",
                                        "--format svg",
                                        "--nic-map",
                                        "--order",
                                        "--explain gpu0 gpu1",
                                        "",
                                        "--order --format json"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char line[128];
        snprintf(line, sizeof line, "--input $T/nccl.xml %s >/dev/full", words[i]);
        expect(line, 1, "weft-topo: cannot write the output\n");
        snprintf(line, sizeof line, "--input $T/nccl.xml %s >&-", words[i]);
        expect(line, 1, "weft-topo: cannot write the output\n");
    }
    /* The reader has left: what is written does not fit into the pipe, so the end is noticed. */
    expect("--input 'fat-tree:leaves=32,nodes-per-leaf=32' --format json 2>$T/closed | true; cat $T/closed",
           0, "weft-topo: cannot write the output\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_arguments),  cmocka_unit_test(test_help),
        cmocka_unit_test(test_inputs),         cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_several_inputs), cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_text),           cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_explain),        cmocka_unit_test(test_port_without_number),
        cmocka_unit_test(test_long_way),       cmocka_unit_test(test_fabric),
        cmocka_unit_test(test_formats),        cmocka_unit_test(test_order),
        cmocka_unit_test(test_hostile_names),  cmocka_unit_test(test_output_errors),
    };
    return cmocka_run_group_tests(tests, files_make, tool_leave);
}
