/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of hwloc's XML, for tests that put machines together. Sets are hexadecimal words: of processors, of NUMA nodes. */
#ifndef WEFT_TESTS_HWLOC_TEXT_H
#define WEFT_TESTS_HWLOC_TEXT_H

#define SETS(cpus, nodes)                                                                                    \
    " cpuset=\"0x" #cpus "\" complete_cpuset=\"0x" #cpus "\" nodeset=\"0x" #nodes                            \
    "\" complete_nodeset=\"0x" #nodes "\""

#define HEAD "<topology version=\"2.0\">\n"
#define MACHINE_OF(nodes)                                                                                    \
    "<object type=\"Machine\" os_index=\"0\" gp_index=\"1\" allowed_cpuset=\"0xff\" "                        \
    "allowed_nodeset=\"0x" #nodes "\"" SETS(ff, nodes) ">\n"
#define MACHINE MACHINE_OF(3)
#define NUMA_OF(n, cpus, node, more)                                                                         \
    "<object type=\"NUMANode\" os_index=\"" #n "\" gp_index=\"2" #n "\"" SETS(cpus, node) more "/>\n"
#define NUMA(n, cpus, node) NUMA_OF(n, cpus, node, "")
#define PACKAGE(n, cpus, nodes)                                                                              \
    "<object type=\"Package\" os_index=\"" #n "\" gp_index=\"1" #n "\"" SETS(cpus, nodes) ">\n"
#define CORE(n, cpus, node)                                                                                  \
    "<object type=\"Core\" os_index=\"" #n "\" gp_index=\"5" #n "\"" SETS(cpus, node) ">"
#define PU(n, cpu, node)   "<object type=\"PU\" os_index=\"" #n "\" gp_index=\"6" #n "\"" SETS(cpu, node) "/>\n"
#define HOST_BRIDGE(buses) "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"" buses "\">\n"
#define BRIDGE(pci, speed)                                                                                   \
    "<object type=\"Bridge\" bridge_type=\"1-1\" bridge_pci=\"0000:[00-ff]\" pci_busid=\"" pci               \
    "\" pci_type=\"0604 [8086:3c03] [0000:0000] 07\" pci_link_speed=\"" speed "\">\n"
#define PCI_OF(pci, type, speed, gp)                                                                         \
    "<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"" pci "\" pci_type=\"" type                     \
    "\" pci_link_speed=\"" speed "\">\n"
#define PCI(pci, class, speed, gp) PCI_OF(pci, class " [0000:0000] 00", speed, gp)
#define OSDEV(name, type, more)    "<object type=\"OSDev\" name=\"" name "\" osdev_type=\"" type "\"" more ">\n"
#define INFO(name, value)          "<info name=\"" name "\" value=\"" value "\"/>\n"
#define END                        "</object>\n"
#define END_ALL                    "</object></topology>\n"

/* A machine of one NUMA node and one processor. */
#define SMALL MACHINE_OF(1) NUMA(0, ff, 1) PU(0, 1, 1)

#define GPU_AT(pci, gp) PCI(pci, "0302 [10de:20b0]", "0.0", gp) END
#define FOUR_GPUS                                                                                            \
    HEAD MACHINE PACKAGE(0, f, 1) NUMA(0, f, 1) PU(0, 1, 1) GPU_AT("0000:01:00.0", "31")                     \
        GPU_AT("0000:02:00.0", "32") END PACKAGE(1, f0, 2) NUMA(1, f0, 2) PU(4, 10, 2)                       \
            GPU_AT("0000:03:00.0", "33") PCI("0000:04:00.0", "0680 [10de:1af1]", "0.0", "34") END END END
/* hwloc takes the lengths of both texts at their word. */
#define MATRIX(n, name, indexes, values)                                                                     \
    "<distances2hetero nbobjs=\"" n "\" kind=\"25\" name=\"" name "\">\n<indexes length=\"%zu\">" indexes    \
    "</indexes>\n<u64values length=\"%zu\">" values "</u64values>\n</distances2hetero>\n",                   \
        strlen(indexes), strlen(values)

#endif
