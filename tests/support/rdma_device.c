/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rdma_device.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/class/infiniband"

struct port {
    char device[64];
    int number;
};

static int port_find(int index, struct port *port)
{
    const char *list = getenv("WEFT_RDMA_DEVICE");
    for (; list && index > 0; index--) {
        list = strchr(list, ',');
        list += list != NULL;
    }
    port->number = 1;
    return list && sscanf(list, "%63[^:,]:%d", port->device, &port->number) >= 1;
}

/* The IPv4 address of an interface. */
static int interface_address(const char *name, char *address, size_t capacity)
{
    struct ifaddrs *list;
    int found = 0;
    if (getifaddrs(&list))
        return 0;
    for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || strcmp(i->ifa_name, name) != 0)
            continue;
        const struct sockaddr_in *in = (const void *)i->ifa_addr;
        found = inet_ntop(AF_INET, &in->sin_addr, address, (socklen_t)capacity) != NULL;
    }
    freeifaddrs(list);
    return found;
}

/* RoCE: the interfaces of the port's GIDs. */
static int gid_address(const struct port *port, char *address, size_t capacity)
{
    for (int gid = 0; gid < 16; gid++) {
        char path[192], name[64];
        snprintf(path, sizeof path, DEVICES "/%s/ports/%d/gid_attrs/ndevs/%d", port->device, port->number,
                 gid);
        FILE *file = fopen(path, "r");
        int found = file && fscanf(file, "%63s", name) == 1 && interface_address(name, address, capacity);
        if (file)
            fclose(file);
        if (found)
            return 1;
    }
    return 0;
}

/* InfiniBand: the interfaces of the same PCI device (IPoIB). */
static int sibling_address(const struct port *port, char *address, size_t capacity)
{
    char path[192];
    int found = 0;
    snprintf(path, sizeof path, DEVICES "/%s/device/net", port->device);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory && !found && (entry = readdir(directory)))
        found = interface_address(entry->d_name, address, capacity);
    if (directory)
        closedir(directory);
    return found;
}

/* NULL and the port, or the reason why it is not there. */
static const char *port_absent(int index, struct port *port)
{
    static char why[160];
    char path[128];
    if (!getenv("WEFT_RDMA_DEVICE"))
        return "WEFT_RDMA_DEVICE names no RDMA device";
    if (!port_find(index, port)) {
        snprintf(why, sizeof why, "WEFT_RDMA_DEVICE has no device number %d", index);
        return why;
    }
    snprintf(path, sizeof path, DEVICES "/%s/ports/%d", port->device, port->number);
    if (!access(path, F_OK))
        return NULL;
    snprintf(why, sizeof why, "there is no RDMA device %s with a port %d", port->device, port->number);
    return why;
}

const char *test_rdma_absent(int index)
{
    struct port port;
    return port_absent(index, &port);
}

int test_rdma_device(int index, char *name, size_t capacity)
{
    struct port port;
    if (!port_find(index, &port))
        return 0;
    snprintf(name, capacity, "%s", port.device);
    return port.number;
}

const char *test_rdma_address(int index, char *address, size_t capacity)
{
    static char why[160];
    struct port port;
    const char *reason = port_absent(index, &port);
    if (reason || gid_address(&port, address, capacity) || sibling_address(&port, address, capacity))
        return reason;
    snprintf(why, sizeof why, "RDMA device %s has no interface with an IPv4 address", port.device);
    return why;
}

int test_rdma_held(void)
{
    static const char *const kinds[] = {"ctx", "pd", "cq", "srq", "qp", "mr"};
    char command[64], line[512], own[32];
    int held = 0;
    snprintf(own, sizeof own, " pid %d ", (int)getpid());
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(command, sizeof command, "rdma resource show %s 2>/dev/null", kinds[i]);
        FILE *lines = popen(command, "r");
        while (lines && fgets(line, sizeof line, lines))
            held += strstr(line, own) != NULL;
        if (!lines || pclose(lines))
            return -1;
    }
    return held;
}
