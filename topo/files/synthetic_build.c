/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and switches of a synthetic text. */
#include "topo/files/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NVLINK_BYTES_PER_S UINT64_C(25000000000) /* one link, one way, of generations 2 to 4 */
#define BUS_FIRST          1
#define NAME_SIZE          48

struct build {
    struct weft_graph *graph;
    const struct weft_synthetic *asked;
    uint32_t *leaves;    /* nodes */
    uint32_t *leaf_used; /* ports taken so far */
    uint32_t bus;        /* next of the host being built */
    uint32_t numas[64], bridges[64], gpus[64];
};

/* The word, and i with as many digits as the last of count numbers has. */
static void number_name(char name[NAME_SIZE], const char *word, uint32_t i, uint32_t count)
{
    char number[12];
    int digits = snprintf(number, sizeof number, "%u", count ? count - 1 : 0);
    snprintf(name, NAME_SIZE, "%s%010u", word, i);
    /* Off with the zeros that are too many. */
    size_t length = strlen(word);
    memmove(name + length, name + length + 10 - digits, (size_t)digits + 1);
}

/* Item i of `count` that are spread in order over `places`. */
static uint32_t place_of(uint32_t i, uint32_t count, uint32_t places)
{
    return (uint32_t)((uint64_t)i * places / count);
}

static int add(struct build *build, const struct weft_node_given *given, uint32_t *node)
{
    return weft_graph_add_node(build->graph, given, node);
}

static int add_on_pci(struct build *build, struct weft_node_given *given, uint32_t *node)
{
    char address[16];
    snprintf(address, sizeof address, "0000:%02x:00.0", build->bus++ & 0xff);
    given->pci = address;
    given->parent_pci = 1;
    given->parent_bytes_per_s = build->asked->pci_bytes_per_s;
    return add(build, given, node);
}

/* The bridge or NUMA node for device i of count. */
static uint32_t home_of(const struct build *build, uint32_t i, uint32_t count)
{
    const struct weft_synthetic *asked = build->asked;
    return asked->pci_switches ? build->bridges[place_of(i, count, asked->pci_switches)]
                               : build->numas[place_of(i, count, asked->numas)];
}

static int add_numas(struct build *build, uint32_t host)
{
    const struct weft_synthetic *asked = build->asked;
    char name[NAME_SIZE];
    int status = 0;
    for (uint32_t i = 0; i < asked->numas && !status; i++) {
        number_name(name, "numa", i, asked->numas);
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, name);
        given.index = (int32_t)i;
        status = add(build, &given, &build->numas[i]);
        for (uint32_t before = 0; before < i && !status; before++) {
            struct weft_edge edge = {.a = build->numas[before],
                                     .b = build->numas[i],
                                     .kind = WEFT_EDGE_SOCKET,
                                     .flags = WEFT_EDGE_LINKS_UNKNOWN,
                                     .port_a = -1,
                                     .port_b = -1};
            status = weft_graph_add_edge(build->graph, &edge, NULL);
        }
    }
    for (uint32_t i = 0; i < asked->cores && !status; i++) {
        uint32_t node;
        number_name(name, "core", i, asked->cores);
        struct weft_node_given given =
            WEFT_NODE_GIVEN(WEFT_NODE_CORE, build->numas[place_of(i, asked->cores, asked->numas)], name);
        given.index = (int32_t)i;
        status = add(build, &given, &node);
    }
    return status;
}

static int add_bridges(struct build *build)
{
    const struct weft_synthetic *asked = build->asked;
    int status = 0;
    for (uint32_t i = 0; i < asked->pci_switches && !status; i++) {
        char name[NAME_SIZE];
        number_name(name, "pci", i, asked->pci_switches);
        struct weft_node_given given = WEFT_NODE_GIVEN(
            WEFT_NODE_BRIDGE, build->numas[place_of(i, asked->pci_switches, asked->numas)], name);
        given.bridge = WEFT_BRIDGE_SWITCH;
        given.flags = WEFT_BRIDGE_WHOLE;
        status = add_on_pci(build, &given, &build->bridges[i]);
    }
    return status;
}

static int add_gpus(struct build *build)
{
    const struct weft_synthetic *asked = build->asked;
    int status = 0;
    for (uint32_t i = 0; i < asked->gpus && !status; i++) {
        char name[NAME_SIZE];
        number_name(name, "gpu", i, asked->gpus);
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, home_of(build, i, asked->gpus), name);
        given.index = (int32_t)i;
        status = add_on_pci(build, &given, &build->gpus[i]);
        for (uint32_t before = 0; before < i && asked->nvlink && !status; before++) {
            struct weft_edge edge = {.a = build->gpus[before],
                                     .b = build->gpus[i],
                                     .kind = WEFT_EDGE_GPU_LINK,
                                     .flags = WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH,
                                     .links = asked->nvlink,
                                     .bytes_per_s = NVLINK_BYTES_PER_S,
                                     .port_a = -1,
                                     .port_b = -1};
            status = weft_graph_add_edge(build->graph, &edge, NULL);
        }
    }
    return status;
}

/* The cable of a port to its leaf switch, if there is a fabric. */
static int plug(struct build *build, uint32_t port, uint32_t host_number, uint32_t rail)
{
    const struct weft_synthetic *asked = build->asked;
    if (!asked->leaves)
        return 0;
    uint32_t leaf = host_number / asked->nodes_per_leaf;
    if (asked->rail_optimised)
        leaf = leaf * asked->rails + rail;
    struct weft_edge edge = {.a = port,
                             .b = build->leaves[leaf],
                             .kind = WEFT_EDGE_FABRIC,
                             .bytes_per_s = asked->cable_bytes_per_s,
                             .port_a = 1,
                             .port_b = (int32_t)++build->leaf_used[leaf]};
    return weft_graph_add_edge(build->graph, &edge, NULL);
}

static int add_nics(struct build *build, uint32_t host_number)
{
    const struct weft_synthetic *asked = build->asked;
    int status = 0;
    for (uint32_t i = 0; i < asked->nics && !status; i++) {
        char name[NAME_SIZE];
        uint32_t nic, node;
        number_name(name, "nic", i, asked->nics);
        struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NIC, home_of(build, i, asked->nics), name);
        given.index = (int32_t)i;
        given.rail = (int32_t)(i % asked->rails);
        status = add_on_pci(build, &given, &nic);
        if (status)
            break;
        strcat(name, ":1");
        struct weft_node_given port = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, name);
        port.index = 1;
        port.rail = given.rail;
        port.bytes_per_s = asked->cable_bytes_per_s;
        port.state = WEFT_PORT_ACTIVE;
        status = add(build, &port, &node);
        if (!status)
            status = plug(build, node, host_number, (uint32_t)given.rail);
    }
    return status;
}

static int add_hosts(struct build *build)
{
    int status = 0;
    for (uint32_t i = 0; i < build->asked->hosts && !status; i++) {
        char name[NAME_SIZE];
        uint32_t host;
        number_name(name, "node", i, build->asked->hosts);
        struct weft_node_given given =
            WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, build->asked->leaves ? name : "machine");
        build->bus = BUS_FIRST;
        status = add(build, &given, &host);
        if (!status)
            status = add_numas(build, host);
        if (!status)
            status = add_bridges(build);
        if (!status)
            status = add_gpus(build);
        if (!status)
            status = add_nics(build, i);
    }
    return status;
}

/* --- switches */

static int add_switch(struct build *build, const char *name, uint32_t *node)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_SWITCH, WEFT_NODE_NONE, name);
    return add(build, &given, node);
}

static int add_leaves(struct build *build)
{
    int status = 0;
    for (uint32_t i = 0; i < build->asked->leaves && !status; i++) {
        char name[NAME_SIZE];
        number_name(name, "leaf", i, build->asked->leaves);
        status = add_switch(build, name, &build->leaves[i]);
    }
    return status;
}

static int join(struct build *build, uint32_t lower, uint32_t upper, uint32_t links)
{
    struct weft_edge edge = {.a = lower,
                             .b = upper,
                             .kind = WEFT_EDGE_FABRIC,
                             .links = links,
                             .bytes_per_s = build->asked->cable_bytes_per_s,
                             .port_a = -1,
                             .port_b = -1};
    return weft_graph_add_edge(build->graph, &edge, NULL);
}

static void name_spine(const struct weft_synthetic *asked, uint32_t pod, uint32_t spine, char name[NAME_SIZE])
{
    char word[NAME_SIZE / 2] = "";
    if (asked->tiers == 3) {
        char pod_name[NAME_SIZE];
        number_name(pod_name, "pod", pod, asked->pods);
        snprintf(word, sizeof word, "%.15s-", pod_name);
    }
    strcat(word, "spine");
    number_name(name, word, spine, asked->spines);
}

/* Spine s of every pod is joined with the same tops: the s-th tops_per_spine of them. */
static int add_spines(struct build *build, const uint32_t *tops)
{
    const struct weft_synthetic *asked = build->asked;
    uint32_t leaves = asked->leaves / asked->pods;
    int status = 0;
    for (uint32_t i = 0; i < asked->pods * asked->spines && !status; i++) {
        uint32_t pod = i / asked->spines, spine = i % asked->spines, node = WEFT_NODE_NONE;
        char name[NAME_SIZE];
        name_spine(asked, pod, spine, name);
        status = add_switch(build, name, &node);
        for (uint32_t leaf = 0; leaf < leaves && !status; leaf++)
            status = join(build, build->leaves[pod * leaves + leaf], node, asked->leaf_links);
        for (uint32_t top = 0; top < asked->tops_per_spine && !status; top++)
            status = join(build, node, tops[spine * asked->tops_per_spine + top], asked->top_links);
    }
    return status;
}

static int add_upper(struct build *build)
{
    const struct weft_synthetic *asked = build->asked;
    uint32_t count = asked->spines * asked->tops_per_spine;
    uint32_t *tops = malloc((count + 1) * sizeof *tops);
    if (!tops)
        return weft_fail(WEFT_NOMEM, "no memory for %u switches", count);
    int status = 0;
    for (uint32_t i = 0; i < count && !status; i++) {
        char name[NAME_SIZE];
        number_name(name, "top", i, count);
        status = add_switch(build, name, &tops[i]);
    }
    if (!status)
        status = add_spines(build, tops);
    free(tops);
    return status;
}

int weft_synthetic_build(struct weft_graph *graph, const struct weft_synthetic *asked)
{
    struct build build = {.graph = graph, .asked = asked};
    if (!asked->leaves)
        return add_hosts(&build);
    build.leaves = calloc(asked->leaves, 2 * sizeof *build.leaves);
    if (!build.leaves)
        return weft_fail(WEFT_NOMEM, "no memory for %u switches", asked->leaves);
    build.leaf_used = build.leaves + asked->leaves;
    int status = add_leaves(&build);
    if (!status && asked->spines)
        status = add_upper(&build);
    if (!status)
        status = add_hosts(&build);
    free(build.leaves);
    return status;
}
