/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters' ports from sysfs.
 *
 * /sys/class/infiniband/DEVICE holds node_guid, sys_image_guid, device (a link to the PCI function), and for each port
 * ports/N with state ("4: ACTIVE"), rate ("100 Gb/sec (4X EDR)"), link_layer, lid, gids/I and gid_attrs/{types,ndevs}/I
 * (kernel: Documentation/ABI/stable/sysfs-class-infiniband). RoCE and Soft-RoCE are there too. /sys/class/net/NAME
 * holds speed (Mbit/s, -1 or an error when down), operstate, dev_port and device for network devices with hardware.
 *
 * The rate of a port that is not active is what its driver would try, so it is left unknown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/live/live.h"
#include "topo/live/sysfs.h"

#define PORTS_MAX 255
#define GIDS_MAX  16 /* shown of one port */

#define FABRIC  "/sys/class/infiniband"
#define NETWORK "/sys/class/net"

/* The last PCI address among the parts of a path, as in "../../devices/pci0000:00/0000:00:03.0/virtio1/net/eth0". */
static void pci_in_path(char *path, char pci[32])
{
    *pci = '\0';
    for (char *part = path, *next; part; part = next) {
        next = strchr(part, '/');
        if (next)
            *next++ = '\0';
        char address[32];
        if (strchr(part, '.') && strspn(part, "0123456789abcdef:.") == strlen(part) && strchr(part, ':') &&
            weft_pci_parse(part, address) == WEFT_OK)
            snprintf(pci, 32, "%s", address);
    }
}

/* The PCI function behind a device, also through a virtio device; empty when it is not on PCI. */
static void pci_behind(const char *root, const char *folder, const char *name, char pci[32])
{
    char target[WEFT_SYSFS_PATH_MAX];
    *pci = '\0';
    if (weft_sysfs_link(root, target, "%s/%s/device", folder, name) >= 0)
        pci_in_path(target, pci);
    if (!*pci && weft_sysfs_link(root, target, "%s/%s", folder, name) >= 0)
        pci_in_path(target, pci);
}

/* "4: ACTIVE" */
static enum weft_port_state state_of(const char *text)
{
    static const char *const names[] = {"DOWN", "INIT", "ARMED", "ACTIVE"};
    const char *name = strstr(text, ": ");
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name + 2, names[i]) == 0)
            return (enum weft_port_state)(WEFT_PORT_DOWN + i);
    }
    return WEFT_PORT_UNKNOWN;
}

/* "100 Gb/sec (4X EDR)". InfiniBand's names say what is left for data, on Ethernet the number is that. */
static uint64_t rate_of(const char *text, int is_infiniband)
{
    unsigned whole = 0, tenths = 0, lanes;
    char speed[8], name[16];
    int fields = sscanf(text, "%u.%1u", &whole, &tenths);
    const char *mode = strchr(text, '(');
    if (fields < 1 || !strstr(text, "Gb/sec") || whole > 100000)
        return 0;
    if (is_infiniband && mode && sscanf(mode, "(%uX %7[A-Z0-9])", &lanes, speed) == 2 && lanes <= 12) {
        snprintf(name, sizeof name, "%ux%s", lanes, speed);
        uint64_t data = weft_ib_bytes_per_s(name);
        if (data)
            return data;
    }
    return (whole * UINT64_C(10) + tenths) * 100000000 / 8;
}

/* "248a:0703:001e:39fe", 0 when it is no such text; a GID's last four groups with offset 20. */
static uint64_t guid_of(const char *text)
{
    unsigned part[4];
    if (strlen(text) != 19 || sscanf(text, "%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3]) != 4)
        return 0;
    return (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 | part[3];
}

static uint32_t port_of(const struct weft_graph *graph, uint32_t nic, int64_t number)
{
    uint32_t port = weft_graph_first(graph, nic);
    while (port != WEFT_NODE_NONE && graph->nodes[port].index != number)
        port = graph->nodes[port].sibling_next;
    return port;
}

static int name_port(struct weft_graph *graph, uint32_t nic, int64_t number, uint32_t *port)
{
    char name[WEFT_NAME_SIZE_MAX + 24];
    snprintf(name, sizeof name, "%s:%lld", graph->nodes[nic].name, (long long)number);
    if (*port != WEFT_NODE_NONE)
        return weft_graph_rename(graph, *port, name);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, name);
    given.index = (int32_t)number;
    return weft_graph_add_node(graph, &given, port);
}

/* --- adapters */

static uint32_t nic_named(const struct weft_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].kind == WEFT_NODE_NIC && strcmp(graph->nodes[i].name, name) == 0)
            return i;
    }
    return WEFT_NODE_NONE;
}

/* Where an adapter stands that nobody else told of: the NUMA node that sysfs names, or the host. */
static uint32_t place_of(const char *root, const struct weft_graph *graph, const char *folder,
                         const char *name)
{
    int64_t numa = weft_sysfs_number(root, -1, "%s/%s/device/numa_node", folder, name);
    for (uint32_t i = 0; i < graph->node_count && numa >= 0; i++) {
        if (graph->nodes[i].kind == WEFT_NODE_NUMA && graph->nodes[i].index == numa)
            return i;
    }
    return weft_graph_first(graph, WEFT_NODE_NONE);
}

static int rename_nic(struct weft_graph *graph, uint32_t nic, const char *name)
{
    int status = weft_graph_rename(graph, nic, name);
    for (uint32_t port = weft_graph_first(graph, nic); port != WEFT_NODE_NONE && !status;
         port = graph->nodes[port].sibling_next)
        status = name_port(graph, nic, graph->nodes[port].index, &port);
    if (!status && weft_graph_attribute(graph, nic, "driver_device"))
        status = weft_graph_set_attribute(graph, nic, "driver_device", name);
    return status;
}

/* Whether an adapter is known by no better name: its address, or for an RDMA device also a network device. */
static int is_nameless(const struct weft_graph *graph, uint32_t nic, int by_rdma)
{
    uint32_t port = weft_graph_first(graph, nic);
    if (strcmp(graph->nodes[nic].name, graph->nodes[nic].pci) == 0)
        return 1;
    return by_rdma && graph->nodes[nic].guid == 0 &&
           (port == WEFT_NODE_NONE || !weft_graph_attribute(graph, port, "link_layer"));
}

/* The adapter of this name; or on this PCI function, which takes the name if it has none; or a new one. A second RDMA
 * device of a function is an adapter of its own, a second network device is not. */
static int find_nic(const char *root, struct weft_graph *graph, const char *folder, const char *name,
                    uint32_t *nic)
{
    char pci[32];
    int by_rdma = strcmp(folder, FABRIC) == 0;
    pci_behind(root, folder, name, pci);
    *nic = nic_named(graph, name);
    if (*nic != WEFT_NODE_NONE && *pci && !graph->nodes[*nic].pci &&
        !(graph->nodes[*nic].pci = weft_graph_string(graph, pci)))
        return weft_fail(WEFT_NOMEM, "no memory for the address of %s", name);
    if (*nic != WEFT_NODE_NONE)
        return WEFT_OK;
    uint32_t beside = *pci ? weft_live_find(graph, WEFT_NODE_NIC, pci) : WEFT_NODE_NONE;
    *nic = beside;
    if (beside != WEFT_NODE_NONE && is_nameless(graph, beside, by_rdma))
        return rename_nic(graph, beside, name);
    if (beside != WEFT_NODE_NONE && !by_rdma)
        return WEFT_OK;
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NIC, place_of(root, graph, folder, name), name);
    if (beside != WEFT_NODE_NONE)
        given.parent = graph->nodes[beside].parent;
    given.pci = *pci ? pci : NULL;
    given.parent_pci = *pci != '\0';
    return weft_graph_add_node(graph, &given, nic);
}

/* --- InfiniBand and RoCE */

static int read_gids(const char *root, struct weft_graph *graph, const char *name, int64_t number,
                     uint32_t port)
{
    char gid[WEFT_SYSFS_LINE_MAX], text[WEFT_SYSFS_LINE_MAX], key[32];
    int status = WEFT_OK;
    for (int i = 0; i < GIDS_MAX && !status; i++) {
        if (weft_sysfs_line(root, gid, FABRIC "/%s/ports/%lld/gids/%d", name, (long long)number, i) != 39 ||
            strspn(gid, "0:") == 39)
            continue;
        snprintf(key, sizeof key, "GID%d", i);
        status = weft_graph_set_attribute(graph, port, key, gid);
        snprintf(key, sizeof key, "GID%dType", i);
        if (!status && weft_sysfs_line(root, text, FABRIC "/%s/ports/%lld/gid_attrs/types/%d", name,
                                       (long long)number, i) > 0)
            status = weft_graph_set_attribute(graph, port, key, text);
        if (!status && !weft_graph_attribute(graph, port, "net") &&
            weft_sysfs_line(root, text, FABRIC "/%s/ports/%lld/gid_attrs/ndevs/%d", name, (long long)number,
                            i) > 0)
            status = weft_graph_set_attribute(graph, port, "net", text);
    }
    return status;
}

static int read_port(const char *root, struct weft_graph *graph, const char *name, uint32_t nic,
                     int64_t number)
{
    uint32_t port = port_of(graph, nic, number);
    int status = name_port(graph, nic, number, &port);
    if (status)
        return status;
    char text[WEFT_SYSFS_LINE_MAX], gid[WEFT_SYSFS_LINE_MAX];
    int is_infiniband = 0;
    if (weft_sysfs_line(root, text, FABRIC "/%s/ports/%lld/link_layer", name, (long long)number) > 0) {
        is_infiniband = strcmp(text, "InfiniBand") == 0;
        status = weft_graph_set_attribute(graph, port, "link_layer", text);
    }
    if (weft_sysfs_line(root, text, FABRIC "/%s/ports/%lld/state", name, (long long)number) > 0)
        graph->nodes[port].state = (uint8_t)state_of(text);
    if (!status && weft_sysfs_line(root, text, FABRIC "/%s/ports/%lld/rate", name, (long long)number) > 0 &&
        graph->nodes[port].state == WEFT_PORT_ACTIVE) {
        graph->nodes[port].bytes_per_s = rate_of(text, is_infiniband);
        status = weft_graph_set_attribute(graph, port, "rate", text);
    }
    if (!status && weft_sysfs_line(root, text, FABRIC "/%s/ports/%lld/lid", name, (long long)number) > 0)
        status = weft_graph_set_attribute(graph, port, "LID", text);
    if (is_infiniband &&
        weft_sysfs_line(root, gid, FABRIC "/%s/ports/%lld/gids/0", name, (long long)number) == 39)
        graph->nodes[port].guid = guid_of(gid + 20);
    return status ? status : read_gids(root, graph, name, number, port);
}

static int read_fabric_device(const char *root, struct weft_graph *graph, const char *name)
{
    uint32_t nic, count;
    char text[WEFT_SYSFS_LINE_MAX], folder[WEFT_SYSFS_PATH_MAX], **ports;
    int length = snprintf(folder, sizeof folder, FABRIC "/%s/ports", name);
    if (strlen(name) >= WEFT_NAME_SIZE_MAX - 8 || length >= (int)sizeof folder)
        return WEFT_OK;
    int status = find_nic(root, graph, FABRIC, name, &nic);
    if (status)
        return status;
    if (weft_sysfs_line(root, text, FABRIC "/%s/node_guid", name) > 0)
        graph->nodes[nic].guid = guid_of(text);
    if (weft_sysfs_line(root, text, FABRIC "/%s/sys_image_guid", name) > 0)
        status = weft_graph_set_attribute(graph, nic, "SysImageGUID", text);
    if (!status)
        status = weft_sysfs_list(root, folder, &ports, &count);
    if (status)
        return status;
    for (uint32_t i = 0; i < count && !status; i++) {
        char *end;
        long number = strtol(ports[i], &end, 10);
        if (!*end && number >= 1 && number <= PORTS_MAX)
            status = read_port(root, graph, name, nic, number);
    }
    free(ports);
    return status;
}

/* --- Ethernet */

/* The port that a network device uses, NONE for one that nobody told of. */
static uint32_t port_with_net(const struct weft_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const char *net =
            graph->nodes[i].kind == WEFT_NODE_PORT ? weft_graph_attribute(graph, i, "net") : NULL;
        if (net && strcmp(net, name) == 0)
            return i;
    }
    return WEFT_NODE_NONE;
}

static int read_network_device(const char *root, struct weft_graph *graph, const char *name)
{
    char text[WEFT_SYSFS_LINE_MAX], target[WEFT_SYSFS_PATH_MAX];
    uint32_t port = port_with_net(graph, name), nic;
    int status = WEFT_OK;
    if (port ==
        WEFT_NODE_NONE) { /* without hardware behind it: a bridge, a tunnel, a container's end of a pair */
        if (strlen(name) >= WEFT_NAME_SIZE_MAX - 8 ||
            weft_sysfs_link(root, target, NETWORK "/%s/device", name) < 0)
            return WEFT_OK;
        int64_t number = weft_sysfs_number(root, 0, NETWORK "/%s/dev_port", name) + 1;
        if (number < 1 || number > PORTS_MAX)
            number = 1;
        status = find_nic(root, graph, NETWORK, name, &nic);
        if (status)
            return status;
        port = port_of(graph, nic, number);
        if (port != WEFT_NODE_NONE && weft_graph_attribute(graph, port, "net"))
            return WEFT_OK; /* one of many on this port */
        if (port == WEFT_NODE_NONE)
            status = name_port(graph, nic, number, &port);
        if (!status)
            status = weft_graph_set_attribute(graph, port, "net", name);
    }
    if (status || weft_graph_attribute(graph, port, "link_layer"))
        return status; /* what InfiniBand's part of sysfs told is more exact */
    struct weft_node *node = &graph->nodes[port];
    if (weft_sysfs_line(root, text, NETWORK "/%s/operstate", name) > 0)
        node->state = (uint8_t)(strcmp(text, "up") == 0     ? WEFT_PORT_ACTIVE
                                : strcmp(text, "down") == 0 ? WEFT_PORT_DOWN
                                                            : WEFT_PORT_UNKNOWN);
    int64_t megabits = weft_sysfs_number(root, -1, NETWORK "/%s/speed", name);
    if (megabits > 0 && megabits < 100000000 && node->state != WEFT_PORT_DOWN)
        node->bytes_per_s = (uint64_t)megabits * 1000000 / 8;
    return WEFT_OK;
}

static int for_each(const char *root, struct weft_graph *graph, const char *folder,
                    int (*read_device)(const char *root, struct weft_graph *graph, const char *name))
{
    char **names;
    uint32_t count;
    int status = weft_sysfs_list(root, folder, &names, &count);
    if (status)
        return status;
    for (uint32_t i = 0; i < count && !status; i++)
        status = read_device(root, graph, names[i]);
    free(names);
    return status;
}

int weft_live_rdma(const char *root, struct weft_graph *graph)
{
    return for_each(root, graph, FABRIC, read_fabric_device);
}

int weft_live_ports(const char *root, struct weft_graph *graph)
{
    int status = weft_live_rdma(root, graph);
    return status ? status : for_each(root, graph, NETWORK, read_network_device);
}
