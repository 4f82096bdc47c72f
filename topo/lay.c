/* SPDX-License-Identifier: Apache-2.0 */
/* Machines under a fabric.
 *
 * The result gets the switches of both graphs, then every host: the machine's where there is one (what the fabric tells of
 * the inside of that host is left out), the fabric's where not. Nodes of the fabric that a machine has too, ports above
 * all, become the machine's, so that the fabric's cables, which are copied last, end there. Ports that only the fabric
 * knows are added to the machine's host.
 */
#include "topo/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/copy.h"
#include "topo/files/names.h"
#include "topo/lay.h"

#define ADDED_MARK "@fabric" /* behind a name that the machine's host uses for something else */

struct lay {
    const struct weft_graph *machines, *fabric;
    struct weft_graph *out;
    int everywhere;
    uint32_t *new_machine, *new_fabric; /* nodes of the result, by nodes of each */
    uint32_t *machine_of;               /* by hosts of the fabric */
    uint32_t joined, added;
    uint64_t compared; /* pairs of devices so far */
};

/* --- cables */

/* Cables between what both graphs have are the fabric's to tell. */
static int copy_machine_edges(struct lay *lay)
{
    uint8_t *given = calloc((size_t)lay->out->node_count + 1, 1);
    if (!given)
        return weft_fail(WEFT_NOMEM, "no memory to lay %u nodes", lay->out->node_count);
    for (uint32_t i = 0; i < lay->fabric->node_count; i++) {
        if (lay->new_fabric[i] != WEFT_NODE_NONE)
            given[lay->new_fabric[i]] = 1;
    }
    int status = weft_copy_edges(lay->machines, lay->new_machine, given, lay->out);
    free(given);
    return status;
}

static struct weft_span name_of(const struct weft_graph *graph, uint32_t node)
{
    return (struct weft_span){graph->nodes[node].name, strlen(graph->nodes[node].name)};
}

/* Switches of both; those of the machines that the fabric has too, by name, are the fabric's. */
static int copy_switches(struct lay *lay)
{
    const struct weft_graph *fabric = lay->fabric, *machines = lay->machines;
    struct weft_names names = {0};
    uint32_t has;
    int status = 0;
    for (uint32_t i = fabric->first_root; i != WEFT_NODE_NONE && !status; i = fabric->nodes[i].sibling_next) {
        if (fabric->nodes[i].kind != WEFT_NODE_SWITCH)
            continue;
        status = weft_copy_tree(fabric, i, NULL, lay->out, lay->new_fabric);
        if (!status)
            status = weft_names_put(&names, name_of(fabric, i), lay->new_fabric[i], &has);
    }
    for (uint32_t i = machines->first_root; i != WEFT_NODE_NONE && !status;
         i = machines->nodes[i].sibling_next) {
        if (machines->nodes[i].kind == WEFT_NODE_SWITCH &&
            !weft_names_find(&names, name_of(machines, i), &lay->new_machine[i]))
            status = weft_copy_tree(machines, i, NULL, lay->out, lay->new_machine);
    }
    weft_names_free(&names);
    return status;
}

/* --- one host */

/* What the machine does not say of its port and the fabric does. */
static void complete_port(struct weft_node *port, const struct weft_node *given)
{
    if (!port->guid && port->kind == given->kind)
        port->guid = given->guid;
    if (port->rail < 0)
        port->rail = given->rail;
    if (port->kind != WEFT_NODE_PORT)
        return;
    if (!port->bytes_per_s)
        port->bytes_per_s = given->bytes_per_s;
    if (port->state == WEFT_PORT_UNKNOWN)
        port->state = given->state;
}

/* 1 when parent has a child of the name. */
static int is_child(struct lay *lay, uint32_t parent, const char *name)
{
    const struct weft_node *nodes = lay->out->nodes;
    for (uint32_t i = weft_graph_first(lay->out, parent); i != WEFT_NODE_NONE; i = nodes[i].sibling_next) {
        if (++lay->compared > WEFT_LAY_COMPARED_MAX)
            return weft_lay_fail_size(lay->machines, lay->fabric);
        if (strcmp(nodes[i].name, name) == 0)
            return 1;
    }
    return 0;
}

static int add_to(struct lay *lay, uint32_t node, uint32_t parent)
{
    char name[WEFT_NAME_SIZE_MAX];
    const char *own = lay->fabric->nodes[node].name;
    int is_there = is_child(lay, parent, own);
    if (is_there < 0)
        return is_there;
    if (is_there) {
        snprintf(name, sizeof name, "%.*s" ADDED_MARK, (int)(sizeof name - sizeof ADDED_MARK), own);
        own = name;
    }
    return weft_copy_node(lay->fabric, node, parent, own, lay->out, &lay->new_fabric[node]);
}

/* A port that the machine does not have, with its NIC where that is new as well. */
static int add_port(struct lay *lay, uint32_t port, uint32_t host)
{
    const struct weft_graph *fabric = lay->fabric;
    uint32_t nic = weft_graph_above(fabric, port, WEFT_NODE_NIC);
    if (nic != WEFT_NODE_NONE && lay->new_fabric[nic] == WEFT_NODE_NONE) {
        int status = add_to(lay, nic, host);
        if (status || nic == port)
            return status;
    }
    return add_to(lay, port, nic == WEFT_NODE_NONE ? host : lay->new_fabric[nic]);
}

static int has_cable(const struct weft_graph *graph, uint32_t node)
{
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(graph, node, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (graph->edges[edges[i]].kind == WEFT_EDGE_FABRIC)
            return 1;
    }
    return 0;
}

static int lay_ports(struct lay *lay, const struct weft_lay_ports *theirs, const struct weft_lay_ports *ours,
                     const uint32_t *twin, uint32_t host)
{
    const struct weft_graph *fabric = lay->fabric;
    for (uint32_t i = 0; i < theirs->count; i++) {
        if (twin[i] == WEFT_NODE_NONE)
            continue;
        uint32_t port = theirs->ports[i], made = lay->new_machine[ours->ports[twin[i]]];
        uint32_t nic = weft_graph_above(fabric, port, WEFT_NODE_NIC);
        uint32_t own_nic = weft_graph_above(lay->out, made, WEFT_NODE_NIC);
        if (nic != WEFT_NODE_NONE && lay->new_fabric[nic] == WEFT_NODE_NONE)
            lay->new_fabric[nic] = own_nic == WEFT_NODE_NONE ? WEFT_NODE_NONE : own_nic;
        lay->new_fabric[port] = made;
        complete_port(&lay->out->nodes[made], &fabric->nodes[port]);
        lay->joined++;
    }
    for (uint32_t i = 0; i < theirs->count; i++) {
        if (twin[i] != WEFT_NODE_NONE)
            continue;
        int status = add_port(lay, theirs->ports[i], host);
        if (status)
            return status;
    }
    return 0;
}

static int lay_host(struct lay *lay, uint32_t host, uint32_t machine)
{
    const char *name = lay->everywhere ? lay->fabric->nodes[host].name : NULL;
    struct weft_lay_ports theirs = {0}, ours = {0};
    uint32_t *twin = NULL;
    int status = weft_copy_tree(lay->machines, machine, name, lay->out, lay->new_machine);
    if (!status)
        status = weft_lay_list_ports(lay->fabric, host, &theirs);
    if (!status)
        status = weft_lay_list_ports(lay->machines, machine, &ours);
    if (!status) {
        twin = malloc((theirs.count + 1) * sizeof *twin);
        status = twin ? weft_lay_match_ports(&theirs, &ours, lay->everywhere, twin, &lay->compared)
                      : weft_fail(WEFT_NOMEM, "no memory for %u ports", theirs.count);
    }
    if (!status) {
        lay->new_fabric[host] = lay->new_machine[machine];
        lay->joined += (uint32_t)has_cable(lay->fabric, host); /* a fabric that tells no ports */
        status = lay_ports(lay, &theirs, &ours, twin, lay->new_machine[machine]);
    }
    if (!status && lay->everywhere)
        status = weft_copy_edges(lay->machines, lay->new_machine, NULL, lay->out);
    free(twin);
    weft_lay_free_ports(&ours);
    weft_lay_free_ports(&theirs);
    return status;
}

/* --- all of it */

static int check_arguments(const struct weft_graph *machines, const struct weft_graph *fabric, int everywhere,
                           uint32_t *only)
{
    if (!machines->finished || !fabric->finished)
        return weft_fail(WEFT_INVALID, "a graph that is not finished cannot be laid");
    uint32_t hosts = weft_graph_count_below(machines, WEFT_NODE_NONE, WEFT_NODE_HOST);
    *only = weft_graph_next_below(machines, WEFT_NODE_NONE, WEFT_NODE_HOST, WEFT_NODE_NONE);
    if (!everywhere)
        return 0;
    if (hosts != 1)
        return weft_fail(WEFT_INVALID, "%.100s: %u hosts, expected one that stands for all hosts of %.100s",
                         machines->source, hosts, fabric->source);
    uint64_t nodes =
        (uint64_t)weft_graph_count_below(fabric, WEFT_NODE_NONE, WEFT_NODE_HOST) * machines->node_count;
    if (nodes > WEFT_NODES_MAX)
        return weft_fail(WEFT_INVALID, "%.100s under every host of %.100s: %llu nodes, expected at most %u",
                         machines->source, fabric->source, (unsigned long long)nodes, WEFT_NODES_MAX);
    return 0;
}

static int lay_all(struct lay *lay, uint32_t only)
{
    const struct weft_graph *machines = lay->machines, *fabric = lay->fabric;
    int status = copy_switches(lay);
    for (uint32_t i = fabric->first_root; i != WEFT_NODE_NONE && !status; i = fabric->nodes[i].sibling_next) {
        if (fabric->nodes[i].kind != WEFT_NODE_HOST)
            continue;
        uint32_t machine = lay->everywhere ? only : lay->machine_of[i];
        if (machine != WEFT_NODE_NONE) {
            status = lay_host(lay, i, machine);
        } else {
            status = weft_copy_tree(fabric, i, NULL, lay->out, lay->new_fabric);
            lay->added++;
        }
    }
    for (uint32_t i = machines->first_root; i != WEFT_NODE_NONE && !lay->everywhere && !status;
         i = machines->nodes[i].sibling_next) {
        if (lay->new_machine[i] == WEFT_NODE_NONE)
            status = weft_copy_tree(machines, i, NULL, lay->out, lay->new_machine);
    }
    if (!status && !lay->everywhere)
        status = copy_machine_edges(lay);
    if (!status)
        status = weft_copy_edges(fabric, lay->new_fabric, NULL, lay->out);
    return status ? status : weft_graph_finish(lay->out);
}

int weft_fabric_lay(const struct weft_graph *machines, const struct weft_graph *fabric, int everywhere,
                    struct weft_graph **graph, uint32_t *joined, uint32_t *added)
{
    char source[600];
    uint32_t only = WEFT_NODE_NONE;
    int status = check_arguments(machines, fabric, everywhere, &only);
    if (status)
        return status;
    struct lay lay = {.machines = machines, .fabric = fabric, .everywhere = everywhere};
    size_t rooms = (size_t)machines->node_count + 2 * (size_t)fabric->node_count;
    lay.new_machine = malloc((rooms + 1) * sizeof *lay.new_machine);
    if (!lay.new_machine)
        return weft_fail(WEFT_NOMEM, "no memory to lay %u nodes", machines->node_count);
    memset(lay.new_machine, 0xff, rooms * sizeof *lay.new_machine);
    lay.new_fabric = lay.new_machine + machines->node_count;
    lay.machine_of = lay.new_fabric + fabric->node_count;
    snprintf(source, sizeof source, "%.250s under %.250s", machines->source, fabric->source);
    status = weft_graph_new(source, "machines under a fabric", &lay.out);
    if (status)
        goto free_rooms;
    if (!everywhere)
        status = weft_lay_hosts(machines, fabric, lay.machine_of);
    if (!status)
        status = lay_all(&lay, only);
    if (status) {
        weft_graph_free(lay.out);
        goto free_rooms;
    }
    *graph = lay.out;
    *joined = lay.joined;
    *added = lay.added;
free_rooms:
    free(lay.new_machine);
    return status;
}
