/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of hwloc's XML, for tests that put machines together. */
#ifndef WEFT_TESTS_HWLOC_TEXT_H
#define WEFT_TESTS_HWLOC_TEXT_H

#define HEAD    "<topology version=\"2.0\">\n"
#define MACHINE "<object type=\"Machine\" os_index=\"0\" nodeset=\"0x00000003\" gp_index=\"1\">\n"
#define NUMA(n, gp)                                                                                          \
    "<object type=\"NUMANode\" os_index=\"" #n "\" nodeset=\"0x" #gp "\" gp_index=\"2" #n "\"/>"
#define PACKAGE(n, bit)                                                                                      \
    "<object type=\"Package\" os_index=\"" #n "\" nodeset=\"0x" #bit "\" gp_index=\"1" #n "\">"
#define CORE(n, pu)                                                                                          \
    "<object type=\"Core\" os_index=\"" #n "\"><object type=\"PU\" os_index=\"" #pu                          \
    "\"/><object type=\"PU\" os_index=\"6" #pu "\"/></object>"
#define HOST_BRIDGE(buses) "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"" buses "\">"
#define BRIDGE(pci, speed)                                                                                   \
    "<object type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"" pci                                           \
    "\" pci_type=\"0604 [8086:3c03] [0000:0000] 07\" pci_link_speed=\"" speed "\">"
#define PCI(pci, class, speed, gp)                                                                           \
    "<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"" pci                                           \
    "\" pci_type=\"" class " [0000:0000] 00\" pci_link_speed=\"" speed "\">"
#define OSDEV(name, type, more) "<object type=\"OSDev\" name=\"" name "\" osdev_type=\"" type "\"" more ">"
#define INFO(name, value)       "<info name=\"" name "\" value=\"" value "\"/>"
#define END                     "</object>\n"

#define GPU_AT(pci, gp) PCI(pci, "0302 [10de:20b0]", "0.0", gp) END
#define FOUR_GPUS                                                                                            \
    HEAD MACHINE PACKAGE(0, 1) NUMA(0, 1) GPU_AT("01:00.0", "31") GPU_AT("02:00.0", "32") END PACKAGE(1, 2)  \
        NUMA(1, 2) GPU_AT("03:00.0", "33") PCI("04:00.0", "0680 [10de:1af1]", "0.0", "34") END END END
#define MATRIX(n, name, indexes, values)                                                                     \
    "<distances2hetero nbobjs=\"" n "\" kind=\"25\" name=\"" name "\">\n<indexes length=\"9\">" indexes      \
    "</indexes>\n<u64values length=\"9\">" values "</u64values>\n</distances2hetero>\n"

#endif
