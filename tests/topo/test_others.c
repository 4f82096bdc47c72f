/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads text) */
/* What stands next to the files that are read is named, with what to give instead; and a file of nothing says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/topo_asks.h"
#include <weft/weft.h>

#define FABRIC  "weft-topo reads the fabric from what ibnetdiscover prints: ibnetdiscover > FILE"
#define MACHINE "weft-topo reads a machine from hwloc's XML: lstopo --of xml > FILE"
#define NVLINK  "weft-topo reads links between GPUs from the XML that NCCL writes: NCCL_TOPO_DUMP_FILE=FILE"
#define NETWORK                                                                                              \
    "weft-topo reads the network from topology.conf, topology.yaml or what \"scontrol show topology\" "      \
    "prints"

static const struct {
    const char *text, *detail;
} named[] = {
    {"CA: node1 HCA-1:\n      0x0002c90000000001     67    1[  ] ==( 4X  25.78125 Gbps Active/  "
     "LinkUp)==>      48    1[  ] \"leaf 1\" ( )\n",
     "file:2: this is what iblinkinfo prints; " FABRIC},
    {"\xef\xbb\xbf\r\n0x0002c90000000001 \"leaf 1\"  48  1[  ] ==(  Down/ Polling)==>   [  ] \"\" ( "
     ")\r\n",
     "file:2: this is what iblinkinfo prints; " FABRIC},
    {"{ SW Ports:24 SystemGUID:0002c90000000001 NodeGUID:0002c90000000002 } \n",
     "file:1: this is the list of links that opensm and ibdiagnet write; " FABRIC},
    {"{ CA-HCA Ports:01 SystemGUID:0002c90000000001 }\n",
     "file:1: this is the list of links that opensm and ibdiagnet write; " FABRIC},
    {"CA 'mlx5_0'\n\tCA type: MT4123\n", "file:1: this is what ibstat prints; " FABRIC},
    {"hca_id:\tmlx5_0\n", "file:1: this is what ibv_devinfo prints; " MACHINE},
    {"Machine (126GB total)\n  Package L#0\n", "file:1: this is what lstopo prints as text; " MACHINE},
    {"Package:2 L3:1 Core:8 PU:2\n", "file:1: this is hwloc's synthetic description; " MACHINE},
    {"[NUMANode(memory=1)] Core:8 PU:2\n", "file:1: this is hwloc's synthetic description; " MACHINE},
    {"-[0000:00]-+-00.0\n", "file:1: this is what lspci -t prints; " MACHINE},
    {"\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X \tNV4\n",
     "file:1: this is what \"nvidia-smi topo -m\" prints; " NVLINK},
    {"============ ROCm System Management Interface ============\n",
     "file:1: this is what rocm-smi prints; " NVLINK},
    {"host1:17:17 [0] NCCL INFO Bootstrap : Using eth0\n", "file:1: this is NCCL's log; " NVLINK},
    {"NodeName=n0 Arch=x86_64\n",
     "file:1: this is what slurm.conf and \"scontrol show node\" say of nodes; " NETWORK},
    {"# the cluster\nClusterName=c1\nNodeName=n[0-1]\n", "file:2: this is slurm.conf; " NETWORK},
    {"PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\n", "file:1: this is what sinfo prints; " NETWORK},
    {"Configuration data as of 2026-01-01T00:00:00\n",
     "file:1: this is what \"scontrol show config\" prints; " NETWORK},
    {"metadata:\n  labels:\n    network.topology.nvidia.com/leaf: s0\n",
     "file:3: this is labels that topograph gives to nodes of Kubernetes; " NETWORK},
    {"{\n  \"instances\": [\n    {\n      \"id\": \"i1\",\n      \"network_layers\": [\"leaf\"]\n",
     "file:5: this is what topograph's engine graph writes, with instances for hosts; " NETWORK},
    {"apiVersion: v1\nkind: ConfigMap\ndata:\n  topology.conf: |\n    SwitchName=s0 Nodes=n0\n",
     "file:2: this is an object of Kubernetes around a file; weft-topo reads that file alone"},
    /* As kubectl prints it: by rising keys, with the file before the kind. */
    {"apiVersion: v1\ndata:\n  topology.conf: |\n    SwitchName=s0 Nodes=n0\n    NodeName=n0\nkind: "
     "ConfigMap\n"
     "metadata:\n  name: slurm\n",
     "file:6: this is an object of Kubernetes around a file; weft-topo reads that file alone"},
    {"apiVersion: v1\ndata:\n  topology.yaml: |\n    - topology: t\nkind: ConfigMap\n",
     "file:5: this is an object of Kubernetes around a file; weft-topo reads that file alone"},
    {"{\"apiVersion\":\"v1\",\"data\":{\"topology.conf\":\"SwitchName=s0 "
     "Nodes=n0\"},\"kind\":\"ConfigMap\"}\n",
     "file:1: this is an object of Kubernetes around a file; weft-topo reads that file alone"},
    {"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n",
     "file:4: this is a node of Kubernetes; " NETWORK},
    {"---\napiVersion: v1\nstringData:\n  topology.conf: SwitchName=s0 Nodes=n0\nkind: Secret\n",
     "file:2: this is an object of Kubernetes; weft-topo reads the file or the topology in it alone"},
    {"{\n  \"schema\": 1,\n  \"program\": \"weft-topo\",\n",
     "file:3: this is what weft-topo prints with --format json; weft-topo reads what it was made from, "
     "or "
     "NCCL's XML: weft-topo --format xml"},
    {"graph weft {\n", "file:1: this is a drawing for Graphviz; weft-topo reads what it was made from"},
    {"<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\">\n",
     "file:2: this is a picture; weft-topo reads what it was made from"},
    {"\n<!-- chosen -->\n<graphs version=\"1\">\n",
     "file:3: this is NCCL's file of graphs (NCCL_GRAPH_DUMP_FILE), the paths that it has chosen; "
     "weft-topo "
     "reads the machine that they were chosen for: NCCL_TOPO_DUMP_FILE=FILE"},
    {"<topologydiff refname=\"a\">\n", "file:1: this is the difference of two topologies of hwloc; " MACHINE},
    {"<html>\n",
     "file:1: XML with the root element <html>, expected <topology> of hwloc or <system> of NCCL"},
    {"\x1f\x8b\x08", "file:1: this is packed by gzip; weft-topo reads it when it is unpacked"},
    {"\xff\xfeS", "file:1: this is text in UTF-16; weft-topo reads text in ASCII or UTF-8"},
};

static void test_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        topo_fails(named[i].text, named[i].detail);
}

static void test_nothing(void **state)
{
    (void)state;
#define KINDS                                                                                                \
    ": expected XML of hwloc or NCCL, output of ibnetdiscover, YAML of topograph, addresses, topology.conf " \
    "or "                                                                                                    \
    "topology.yaml of Slurm, or a text like fat-tree:leaves=32"
    topo_fails("", "file: holds nothing" KINDS);
    topo_fails(" \r\n\t\n", "file: holds nothing" KINDS);
    topo_fails("# Managed by a tool. Nothing yet.\n", "file: holds nothing but comments" KINDS);
    topo_fails("\xef\xbb\xbf\r\n  # one\r\n#two", "file: holds nothing but comments" KINDS);
    topo_fails("<!-- nothing -->\n", "file: holds nothing but comments" KINDS);
    topo_fails("# and\na word\n", "file: not a topology that is known" KINDS);
    topo_fails("<!-- not ended", "file: holds nothing but comments" KINDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_named), cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
