/* SPDX-License-Identifier: Apache-2.0 */
/* The machine without hwloc: NUMA nodes, processors and PCI as sysfs shows them.
 *
 * /sys/devices/system/node/nodeN is a NUMA node; the links cpuN in it are its processors. A processor whose
 * topology/thread_siblings_list begins with its own number stands for its core. /sys/bus/pci/devices/ADDRESS is a link
 * through everything above the function, "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0", so that the links
 * alone give the tree. Of functions, GPUs and adapters are kept, with the bridges above them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/live/live.h"
#include "topo/live/sysfs.h"

#define NODES   "/sys/devices/system/node"
#define DEVICES "/sys/bus/pci/devices"

/* N of PREFIX and N, -1 for other names. */
static long number_behind(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    char *end;
    if (strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9')
        return -1;
    long number = strtol(name + length, &end, 10);
    return *end || number > INT32_MAX ? -1 : number;
}

/* Cores among the entries of a folder that are called cpuN. */
static int add_cores(const char *root, struct weft_graph *graph, const char *folder, uint32_t place)
{
    char **names, name[32], siblings[WEFT_SYSFS_LINE_MAX];
    uint32_t count, core;
    int status = weft_sysfs_list(root, folder, &names, &count);
    if (status)
        return status;
    for (uint32_t i = 0; i < count && !status; i++) {
        long number = number_behind(names[i], "cpu");
        if (number < 0 ||
            weft_sysfs_line(root, siblings, "%s/%s/topology/thread_siblings_list", folder, names[i]) <= 0 ||
            strtol(siblings, NULL, 10) != number)
            continue;
        snprintf(name, sizeof name, "core%ld", number);
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_CORE, place, name);
        given.index = (int32_t)number;
        status = weft_graph_add_node(graph, &given, &core);
    }
    free(names);
    return status;
}

static int add_numas(const char *root, struct weft_graph *graph, uint32_t host, int with_cores)
{
    char **names, folder[WEFT_SYSFS_PATH_MAX], name[32];
    uint32_t count, numa, found = 0;
    int status = weft_sysfs_list(root, NODES, &names, &count);
    if (status)
        return status;
    for (uint32_t i = 0; i < count && !status; i++) {
        long number = number_behind(names[i], "node");
        if (number < 0)
            continue;
        snprintf(name, sizeof name, "numa%ld", number);
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, name);
        given.index = (int32_t)number;
        status = weft_graph_add_node(graph, &given, &numa);
        snprintf(folder, sizeof folder, NODES "/node%ld", number);
        if (!status && with_cores)
            status = add_cores(root, graph, folder, numa);
        found++;
    }
    free(names);
    if (!status && !found && with_cores)
        status = add_cores(root, graph, "/sys/devices/system/cpu", host);
    return status;
}

/* --- PCI */

static uint32_t bridge_named(const struct weft_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].kind == WEFT_NODE_BRIDGE && strcmp(graph->nodes[i].name, name) == 0)
            return i;
    }
    return WEFT_NODE_NONE;
}

static uint32_t numa_of(const char *root, const struct weft_graph *graph, const char *pci)
{
    int64_t number = weft_sysfs_number(root, -1, DEVICES "/%s/numa_node", pci);
    uint32_t only = WEFT_NODE_NONE, count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].kind != WEFT_NODE_NUMA)
            continue;
        if (graph->nodes[i].index == number)
            return i;
        only = i;
        count++;
    }
    return count == 1 ? only : weft_graph_first(graph, WEFT_NODE_NONE);
}

static enum weft_bridge bridge_below(const struct weft_graph *graph, uint32_t place)
{
    if (graph->nodes[place].kind != WEFT_NODE_BRIDGE)
        return WEFT_BRIDGE_UNKNOWN;
    return graph->nodes[place].bridge == WEFT_BRIDGE_HOST ? WEFT_BRIDGE_PORT : WEFT_BRIDGE_SWITCH;
}

/* The bridges that a function's link passes, each made when it is met first; *place is the last. */
static int add_bridges(const char *root, struct weft_graph *graph, const char *pci, char *link,
                       uint32_t *place)
{
    char *part = strstr(link, "/pci");
    int status = WEFT_OK;
    *place = numa_of(root, graph, pci);
    for (char *next; part && !status; part = next) {
        part++;
        next = strchr(part, '/');
        if (!next)
            break; /* the function itself */
        *next = '\0';
        uint32_t known = bridge_named(graph, part);
        char address[32];
        int is_host = strncmp(part, "pci", 3) == 0;
        if (known == WEFT_NODE_NONE && (is_host || weft_pci_parse(part, address) == WEFT_OK)) {
            struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_BRIDGE, *place, part);
            given.bridge = is_host ? WEFT_BRIDGE_HOST : bridge_below(graph, *place);
            given.pci = is_host ? NULL : address;
            given.parent_pci = !is_host;
            status = weft_graph_add_node(graph, &given, &known);
        }
        if (known != WEFT_NODE_NONE)
            *place = known;
        *next = '/';
    }
    return status;
}

/* What a class is worth keeping as; -1 not at all. Screens of makers that make no GPUs are not. */
static int kind_of_class(long class, long vendor)
{
    if (class >> 16 == 0x02)
        return WEFT_NODE_NIC;
    int makes_gpus = vendor == 0x10de || vendor == 0x1002 || vendor == 0x8086;
    if (class >> 8 == 0x0302 || class >> 16 == 0x12 || (class >> 16 == 0x03 && makes_gpus))
        return WEFT_NODE_GPU;
    return -1;
}

static int add_function(const char *root, struct weft_graph *graph, const char *name, int *gpus)
{
    static const char *const ids[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
    char class[WEFT_SYSFS_LINE_MAX], value[WEFT_SYSFS_LINE_MAX], link[WEFT_SYSFS_PATH_MAX], pci[32], gpu[32];
    if (weft_pci_parse(name, pci) != WEFT_OK ||
        weft_sysfs_line(root, class, DEVICES "/%s/class", name) <= 0 ||
        weft_sysfs_line(root, value, DEVICES "/%s/vendor", name) <= 0 ||
        weft_sysfs_link(root, link, DEVICES "/%s", name) < 0)
        return WEFT_OK;
    int kind = kind_of_class(strtol(class, NULL, 16), strtol(value, NULL, 16));
    if (kind < 0)
        return WEFT_OK;
    uint32_t place, node;
    int status = add_bridges(root, graph, name, link, &place);
    if (status)
        return status;
    struct weft_node_given given = WEFT_NODE_GIVEN((enum weft_node_kind)kind, place, pci);
    if (kind == WEFT_NODE_GPU) {
        snprintf(gpu, sizeof gpu, "gpu%d", *gpus);
        given.name = gpu;
        given.index = (*gpus)++;
    }
    given.pci = pci;
    given.parent_pci = 1;
    status = weft_graph_add_node(graph, &given, &node);
    for (size_t i = 0; i < sizeof ids / sizeof *ids && !status; i++) {
        if (weft_sysfs_line(root, value, DEVICES "/%s/%s", name, ids[i]) > 0)
            status = weft_graph_set_attribute(graph, node, ids[i], value);
    }
    if (!status && kind == WEFT_NODE_NIC)
        status = weft_graph_set_attribute(graph, node, "driver_device", "none");
    return status;
}

static int add_host(const char *root, unsigned flags, int with_cores, struct weft_graph *graph)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "host");
    given.flags = flags;
    uint32_t host;
    int status = weft_graph_add_node(graph, &given, &host);
    return status ? status : add_numas(root, graph, host, with_cores);
}

int weft_live_host_numas(const char *root, struct weft_graph *graph)
{
    return add_host(root, 0, 0, graph);
}

int weft_live_machine(const char *root, unsigned host_flags, struct weft_graph *graph)
{
    uint32_t count;
    char **names;
    int gpus = 0, status = add_host(root, host_flags, 1, graph);
    if (!status)
        status = weft_sysfs_list(root, DEVICES, &names, &count);
    if (status)
        return status;
    for (uint32_t i = 0; i < count && !status; i++)
        status = add_function(root, graph, names[i], &gpus);
    free(names);
    return status;
}
