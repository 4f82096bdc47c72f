/* SPDX-License-Identifier: Apache-2.0 */
/* Which RDMA ports of this machine reach each other, as far as that can be told without sending anything.
 *
 * InfiniBand: ports of one subnet have the subnet's prefix in their GIDs and the same subnet manager. Separate subnets should have
 * prefixes of their own, and often all have the default one; then the managers' LIDs may still differ. Where these are the same as
 * well, LIDs may give it away: within a subnet each is one port's. Two ports with one LID are of two subnets, and as nothing tells
 * which the others are of, each port of that prefix and manager counts as a network of its own. (So do virtual functions, which
 * share a LID. They gain nothing from being shared out.)
 *
 * RoCE: ports with addresses in one IP subnet. GIDs hold the addresses; the subnet of an IPv4 one is the connected route of the GID's
 * interface that covers it (/proc/net/route), that of an IPv6 one its first 64 bits. Subnets that a router joins count as networks of their own,
 * because nothing here tells whether there is one. So does a port of which none of this is known.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/live/live.h"
#include "topo/live/sysfs.h"

#define ROUTES_MAX   (1 << 25) /* bytes, 128 for a route; of more nothing is known */
#define ROUTE_UP     1         /* RTF_UP */
#define ROUTE_CHARS  256       /* of a line; the kernel's have 127 */
#define GIDS_MAX     16
#define KEY_MAX      80
#define INFINIBAND   'i'                              /* begins the keys of its ports */
#define MAPPED       "0000:0000:0000:0000:0000:ffff:" /* begins an IPv4 address among GIDs */
#define PREFIX_CHARS 19                               /* "fe80:0000:0000:0000" */

/* /proc/net/route whole, "" where there is none. The kernel does not say how long it is. */
static int read_routes(const char *root, char **routes)
{
    for (size_t size = 16384; size <= ROUTES_MAX; size *= 2) {
        char *bytes = malloc(size);
        if (!bytes)
            return weft_fail(WEFT_NOMEM, "no memory for %zu bytes of routes", size);
        int length = weft_sysfs_bytes(root, bytes, size, "/proc/net/route");
        if (length >= 0 && (size_t)length < size - 1) {
            *routes = bytes;
            return WEFT_OK;
        }
        free(bytes);
        if (length < 0)
            break;
    }
    *routes = calloc(1, 1);
    return *routes ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for routes");
}

/* The interface's connected route with the longest mask that covers the address (in network order); 0: none. */
static int find_subnet(const char *routes, const char *interface, uint32_t address, uint32_t *subnet,
                       uint32_t *mask)
{
    int found = 0;
    for (const char *end = strchr(routes, '\n'); end; end = strchr(end, '\n')) { /* after the heading */
        char line[ROUTE_CHARS], name[16];
        unsigned destination, gateway, flags, its_mask;
        size_t length = strcspn(++end, "\n");
        if (length >= sizeof line)
            continue;
        memcpy(line, end, length);
        line[length] = '\0';
        if (sscanf(line, "%15s %8x %8x %4x %*s %*s %*s %8x", name, &destination, &gateway, &flags,
                   &its_mask) != 5 ||
            strcmp(name, interface) != 0 || !(flags & ROUTE_UP) || gateway || !its_mask ||
            (address & its_mask) != destination || (found && ntohl(its_mask) <= ntohl(*mask)))
            continue;
        *subnet = destination;
        *mask = its_mask;
        found = 1;
    }
    return found;
}

/* The interface that has a GID of a port. A port may have several: one for each VLAN. */
static int interface_of(const char *root, const struct weft_graph *graph, uint32_t port, int gid,
                        char interface[WEFT_SYSFS_LINE_MAX])
{
    const struct weft_node *node = &graph->nodes[port];
    return weft_sysfs_line(root, interface, "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d",
                           graph->nodes[node->parent].name, (int)node->index, gid) > 0;
}

static int key_of_roce(const char *root, const struct weft_graph *graph, uint32_t port, const char *routes,
                       char key[KEY_MAX])
{
    for (int i = 0; i < GIDS_MAX; i++) {
        char name[16], interface[WEFT_SYSFS_LINE_MAX];
        unsigned high, low;
        uint32_t subnet = 0, mask = 0;
        snprintf(name, sizeof name, "GID%d", i);
        const char *gid = weft_graph_attribute(graph, port, name);
        if (!gid || strncmp(gid, MAPPED, strlen(MAPPED)) != 0 ||
            sscanf(gid + strlen(MAPPED), "%4x:%4x", &high, &low) != 2 ||
            !interface_of(root, graph, port, i, interface) ||
            !find_subnet(routes, interface, htonl(high << 16 | low), &subnet, &mask))
            continue;
        snprintf(key, KEY_MAX, "4 %08x/%08x", subnet, mask);
        return 1;
    }
    for (int i = 0; i < GIDS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "GID%d", i);
        const char *gid = weft_graph_attribute(graph, port, name);
        if (!gid || strncmp(gid, "fe8", 3) == 0 || strncmp(gid, MAPPED, strlen(MAPPED)) == 0)
            continue;
        snprintf(key, KEY_MAX, "6 %.*s", PREFIX_CHARS, gid);
        return 1;
    }
    return 0;
}

static int key_of(const char *root, const struct weft_graph *graph, uint32_t port, const char *routes,
                  char key[KEY_MAX])
{
    const struct weft_node *node = &graph->nodes[port];
    const char *layer = weft_graph_attribute(graph, port, "link_layer");
    const char *gid = weft_graph_attribute(graph, port, "GID0");
    char manager[WEFT_SYSFS_LINE_MAX];
    if (!layer || strcmp(layer, "InfiniBand") != 0)
        return key_of_roce(root, graph, port, routes, key);
    if (!gid)
        return 0;
    if (weft_sysfs_line(root, manager, "/sys/class/infiniband/%s/ports/%d/sm_lid",
                        graph->nodes[node->parent].name, (int)node->index) < 0)
        *manager = '\0';
    snprintf(key, KEY_MAX, "%c %.*s %.16s", INFINIBAND, PREFIX_CHARS, gid, manager);
    return 1;
}

/* The LID of an active InfiniBand port; 0: none. */
static unsigned long lid_of(const struct weft_graph *graph, uint32_t port, const char *key)
{
    const char *lid = weft_graph_attribute(graph, port, "LID");
    int has_one = key[0] == INFINIBAND && lid && graph->nodes[port].state == WEFT_PORT_ACTIVE;
    return has_one ? strtoul(lid, NULL, 0) : 0;
}

/* Whether two ports of this network have one LID. */
static int is_several(const struct weft_graph *graph, const uint32_t *networks, char (*keys)[KEY_MAX],
                      uint32_t network)
{
    for (uint32_t a = network; a < graph->node_count; a++) {
        unsigned long lid = networks[a] == network ? lid_of(graph, a, keys[a]) : 0;
        for (uint32_t b = a + 1; lid && b < graph->node_count; b++) {
            if (networks[b] == network && lid_of(graph, b, keys[b]) == lid &&
                graph->nodes[a].guid != graph->nodes[b].guid)
                return 1;
        }
    }
    return 0;
}

static void part_subnets(const struct weft_graph *graph, uint32_t *networks, char (*keys)[KEY_MAX])
{
    for (uint32_t first = 0; first < graph->node_count; first++) {
        if (networks[first] != first || keys[first][0] != INFINIBAND ||
            !is_several(graph, networks, keys, first))
            continue;
        for (uint32_t n = first; n < graph->node_count; n++)
            networks[n] = networks[n] == first ? n : networks[n];
    }
}

int weft_live_networks(const char *root, const struct weft_graph *graph, uint32_t *networks)
{
    char(*keys)[KEY_MAX] = calloc(graph->node_count ? graph->node_count : 1, sizeof *keys);
    char *routes = NULL;
    int status = keys ? read_routes(root, &routes)
                      : weft_fail(WEFT_NOMEM, "no memory for the networks of %u ports", graph->node_count);
    for (uint32_t n = 0; n < graph->node_count && status == WEFT_OK; n++) {
        networks[n] = n;
        if (graph->nodes[n].kind != WEFT_NODE_PORT || !key_of(root, graph, n, routes, keys[n]))
            continue;
        for (uint32_t before = 0; before < n && networks[n] == n; before++) {
            if (strcmp(keys[before], keys[n]) == 0)
                networks[n] = before;
        }
    }
    if (status == WEFT_OK)
        part_subnets(graph, networks, keys);
    free(routes);
    free(keys);
    return status;
}
