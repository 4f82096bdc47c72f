/* SPDX-License-Identifier: Apache-2.0 */
/* PCI links and virtual functions from sysfs: /sys/bus/pci/devices/ADDRESS/{max_link_speed,max_link_width,
 * current_link_width,physfn,class}.
 *
 * Links slow down while a device is idle, so what hwloc reads (the present speed) may be a fraction of what a link can
 * do. The speed here is the lower of what its two ends can have at most; the width is the present one, which stays as
 * it was trained: a card in a narrow or a bad slot shows it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/discover/discover.h"
#include "topo/live/live.h"
#include "topo/live/sysfs.h"

#define DEVICES   "/sys/bus/pci/devices"
#define LANES_MAX 32

/* The highest speed of a function, 0 where it is not known. */
static double highest_speed(const char *root, const char *pci, char text[WEFT_SYSFS_LINE_MAX])
{
    double speed;
    if (weft_sysfs_line(root, text, DEVICES "/%s/max_link_speed", pci) <= 0 ||
        weft_pci_speed_parse(text, &speed) != WEFT_OK)
        return 0;
    return speed;
}

/* 0 where it is not known. */
static unsigned most_lanes(const char *root, const char *pci)
{
    int64_t most = weft_sysfs_number(root, 0, DEVICES "/%s/max_link_width", pci);
    return most < 1 || most > LANES_MAX ? 0 : (unsigned)most;
}

static unsigned lanes_of(const char *root, const char *pci)
{
    int64_t most = most_lanes(root, pci);
    int64_t lanes = weft_sysfs_number(root, 0, DEVICES "/%s/current_link_width", pci);
    if (lanes < 1 || lanes > LANES_MAX)
        lanes = most;
    return lanes < 1 || lanes > LANES_MAX ? 0 : (unsigned)lanes;
}

/* Where the link has fewer lanes than both its ends can have, how many that is. A card in a slot that is narrower than it
 * is as it was built. */
static int note_degraded(const char *root, struct weft_graph *graph, uint32_t index, const char *above,
                         unsigned lanes)
{
    char width[16];
    unsigned most = most_lanes(root, graph->nodes[index].pci),
             most_above = above ? most_lanes(root, above) : 0;
    most = most_above < most ? most_above : most;
    if (lanes >= most)
        return WEFT_OK;
    snprintf(width, sizeof width, "%u", most);
    return weft_graph_set_attribute(graph, index, "link_width_max", width);
}

/* Whether the link that the function's registers tell of is the one to its parent. */
static int faces_up(const struct weft_graph *graph, const struct weft_node *node)
{
    if (node->kind != WEFT_NODE_BRIDGE)
        return 1;
    if (node->bridge != WEFT_BRIDGE_SWITCH)
        return 0;
    unsigned ports = 0;
    for (uint32_t at = node->parent; at != WEFT_NODE_NONE && graph->nodes[at].bridge == WEFT_BRIDGE_SWITCH;
         at = graph->nodes[at].parent)
        ports++;
    return ports % 2 == 0; /* upper and lower ports of switches take turns below a root port */
}

static int read_link(const char *root, struct weft_graph *graph, uint32_t index)
{
    struct weft_node *node = &graph->nodes[index];
    const char *above = graph->nodes[node->parent].pci;
    char text[WEFT_SYSFS_LINE_MAX], other[WEFT_SYSFS_LINE_MAX];
    double speed = highest_speed(root, node->pci, text);
    unsigned lanes = lanes_of(root, node->pci);
    double speed_above = above ? highest_speed(root, above, other) : 0;
    if (speed_above > 0 && speed_above < speed) {
        speed = speed_above;
        memcpy(text, other, sizeof text);
    }
    uint64_t bytes_per_s = weft_pci_bytes_per_s(speed, lanes);
    if (!bytes_per_s)
        return WEFT_OK;
    graph->edges[node->parent_edge].bytes_per_s = bytes_per_s;
    char width[16];
    snprintf(width, sizeof width, "%u", lanes);
    int status = weft_graph_set_attribute(graph, index, "link_speed", text);
    if (!status)
        status = weft_graph_set_attribute(graph, index, "link_width", width);
    return status ? status : note_degraded(root, graph, index, above, lanes);
}

/* A virtual function names the function that it was made from. */
static int read_virtual(const char *root, struct weft_graph *graph, uint32_t index)
{
    char target[WEFT_SYSFS_PATH_MAX], pci[32];
    if (weft_sysfs_link(root, target, DEVICES "/%s/physfn", graph->nodes[index].pci) < 0)
        return WEFT_OK;
    const char *last = strrchr(target, '/');
    if (weft_pci_parse(last ? last + 1 : target, pci) != WEFT_OK)
        return WEFT_OK;
    int status = weft_graph_set_attribute(graph, index, "virtual_function", "yes");
    return status ? status : weft_graph_set_attribute(graph, index, "function_of", pci);
}

int weft_live_pci(const char *root, struct weft_graph *graph)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < graph->node_count && !status; i++) {
        const struct weft_node *node = &graph->nodes[i];
        if (!node->pci || node->parent == WEFT_NODE_NONE ||
            graph->edges[node->parent_edge].kind != WEFT_EDGE_PCI)
            continue;
        char class[WEFT_SYSFS_LINE_MAX];
        if (weft_sysfs_line(root, class, DEVICES "/%s/class", node->pci) > 0)
            status = weft_graph_set_attribute(graph, i, "class", class);
        if (!status && faces_up(graph, node))
            status = read_link(root, graph, i);
        if (!status)
            status = read_virtual(root, graph, i);
    }
    return status;
}
