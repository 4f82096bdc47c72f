/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of host this is: a virtual machine, a container, and its name.
 *
 * A hypervisor says so in the processor's flags (CPUID leaf 1, ECX bit 31, which the kernel lists as "hypervisor" in
 * /proc/cpuinfo), in /sys/hypervisor (Xen), or by what the firmware calls the product. A container runtime leaves a file
 * in the root (/.dockerenv, /run/.containerenv, /run/systemd/container) or its name in the control group. A flag is set
 * where one of these says so; none of them proves the opposite.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "topo/discover/discover.h"
#include "topo/live/live.h"
#include "topo/live/sysfs.h"
#include "topo/discover/virtual.h"

#define CPUINFO_BYTES 16384 /* holds the first processor */

/* "flags : fpu ... hypervisor ..." in what is told of the first processor. */
static int hypervisor_flag(const char *root)
{
    char text[CPUINFO_BYTES];
    if (weft_sysfs_bytes(root, text, sizeof text, "/proc/cpuinfo") < 0)
        return 0;
    const char *flags = strstr(text, "\nflags");
    if (!flags)
        return 0;
    size_t length = strcspn(flags + 1, "\n");
    for (const char *at = flags; (at = strstr(at, " hypervisor")) != NULL && at < flags + length; at++) {
        if (at[11] == ' ' || at[11] == '\n' || !at[11])
            return 1;
    }
    return 0;
}

static int is_virtual(const char *root)
{
    char vendor[WEFT_SYSFS_LINE_MAX] = "", product[WEFT_SYSFS_LINE_MAX] = "", type[WEFT_SYSFS_LINE_MAX];
    if (hypervisor_flag(root) || weft_sysfs_line(root, type, "/sys/hypervisor/type") > 0)
        return 1;
    if (weft_sysfs_line(root, vendor, "/sys/class/dmi/id/sys_vendor") < 0)
        *vendor = '\0';
    if (weft_sysfs_line(root, product, "/sys/class/dmi/id/product_name") < 0)
        *product = '\0';
    return weft_product_is_virtual(vendor, product);
}

static int is_container(const char *root)
{
    static const char *const files[] = {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"};
    static const char *const words[] = {"docker", "kubepods", "containerd", "libpod", "/lxc", "garden"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (weft_sysfs_exists(root, files[i]))
            return 1;
    }
    char groups[4096];
    if (weft_sysfs_bytes(root, groups, sizeof groups, "/proc/self/cgroup") < 0 &&
        weft_sysfs_bytes(root, groups, sizeof groups, "/proc/1/cgroup") < 0)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(groups, words[i]))
            return 1;
    }
    return 0;
}

/* Of a copy of another machine hwloc tells this one's name. */
static int name_host(const char *root, struct weft_graph *graph, uint32_t host)
{
    char name[WEFT_SYSFS_LINE_MAX] = "host";
    if (!*root && (strcmp(graph->nodes[host].name, "host") != 0 || gethostname(name, sizeof name) != 0))
        return WEFT_OK;
    if (*root && weft_sysfs_line(root, name, "/proc/sys/kernel/hostname") <= 0)
        snprintf(name, sizeof name, "host");
    name[sizeof name - 1] = '\0';
    int status = *name ? weft_graph_rename(graph, host, name) : WEFT_OK;
    if (!status && *root && weft_graph_attribute(graph, host, "HostName"))
        status = weft_graph_set_attribute(graph, host, "HostName", name);
    return status;
}

unsigned weft_live_host_flags(const char *root)
{
    return (is_virtual(root) ? WEFT_HOST_VIRTUAL : 0u) | (is_container(root) ? WEFT_HOST_CONTAINER : 0u);
}

int weft_live_host(const char *root, struct weft_graph *graph)
{
    uint32_t host = weft_graph_first(graph, WEFT_NODE_NONE);
    if (host == WEFT_NODE_NONE || graph->nodes[host].kind != WEFT_NODE_HOST)
        return WEFT_OK;
    return name_host(root, graph, host);
}
