/* SPDX-License-Identifier: Apache-2.0 */
/* From the tables to the graph: switches, hosts with their adapters and ports, one edge per cable with the ports' numbers.
 *
 * A managed switch describes itself as "MF0;NAME:MODEL/U1" and is called NAME; "/L01/U1" behind the model is one of
 * several chips in its box, which then is part of the name. A description that is empty, has blanks (makers' texts), or is
 * another's too names nothing, and the switch is called by its GUID. Routers join the subnet with others: switches with
 * the attribute router=yes.
 *
 * The aggregation nodes of SHARP are channel adapters inside of switches. They are no hosts and left out; the attribute
 * aggregation_nodes of their switch says how many there are. So are cables from a switch to itself: loop_cables.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "topo/files/ibnet.h"

#define NAMED_TWICE 1u

static int no_memory(void)
{
    return weft_fail(WEFT_NOMEM, "no memory for the graph of a fabric");
}

static const char *copy_of(struct weft_ibnet *net, struct weft_span span)
{
    char text[WEFT_NAME_SIZE_MAX];
    size_t size = span.size < sizeof text ? span.size : sizeof text - 1;
    if (size)
        memcpy(text, span.data, size);
    text[size] = '\0';
    return weft_graph_string(net->graph, text);
}

static int set_text(struct weft_ibnet *net, uint32_t node, const char *name, struct weft_span value)
{
    const char *copy = value.size ? copy_of(net, value) : "";
    if (!copy)
        return no_memory();
    return *copy ? weft_graph_set_attribute(net->graph, node, name, copy) : 0;
}

/* 0 stands for what was not told. */
static int set_number(struct weft_ibnet *net, uint32_t node, const char *name, int hex, uint32_t value)
{
    char text[16];
    if (!value)
        return 0;
    snprintf(text, sizeof text, hex ? "0x%x" : "%u", value);
    return weft_graph_set_attribute(net->graph, node, name, text);
}

static int set_given(struct weft_ibnet *net, const struct weft_ibnet_node *from)
{
    int status = set_text(net, from->node, "description", from->description);
    if (!status)
        status = set_number(net, from->node, "vendid", 1, from->vendor_id);
    if (!status)
        status = set_number(net, from->node, "devid", 1, from->device_id);
    if (!status)
        status = set_number(net, from->node, "chassis", 0, from->chassis);
    if (!status)
        status = set_number(net, from->node, "lid", 0, from->lid);
    if (!status && from->given_by_peer)
        status = weft_graph_set_attribute(net->graph, from->node, "told_by", "switch");
    return status;
}

/* --- switches */

/* The name in a switch's description, at most as long as that; empty where it has none. */
static void switch_label(struct weft_span description, char label[WEFT_NAME_SIZE_MAX])
{
    struct weft_span name = description, chip = {"", 0};
    const char *colon = NULL;
    if (weft_span_starts(name, "MF0;"))
        colon = memchr(name.data, ':', name.size);
    if (colon) {
        const char *end = name.data + name.size;
        name = (struct weft_span){name.data + 4, (size_t)(colon - name.data) - 4};
        const char *slash = memchr(colon, '/', (size_t)(end - colon));
        if (slash)
            chip = (struct weft_span){slash, (size_t)(end - slash)};
        if (weft_span_is(chip, "/U1"))
            chip.size = 0;
    }
    snprintf(label, WEFT_NAME_SIZE_MAX, "%.*s%.*s", (int)name.size, name.data, (int)chip.size, chip.data);
    for (const char *at = label; *at; at++) {
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            *label = '\0';
    }
}

static int is_switch(const struct weft_ibnet_node *node)
{
    return node->kind != WEFT_IBNET_ADAPTER;
}

/* Which names two switches would have, or a switch and a host. */
static int find_taken(struct weft_ibnet *net, struct weft_names *taken)
{
    char label[WEFT_NAME_SIZE_MAX];
    uint32_t before;
    int status = 0;
    for (uint32_t i = 0; i < net->host_count && !status; i++) {
        const char *name = net->hosts[i].name;
        if (net->hosts[i].adapters)
            status = weft_names_put(taken, (struct weft_span){name, strlen(name)}, NAMED_TWICE, &before);
    }
    for (uint32_t i = 0; i < net->node_count && !status; i++) {
        if (!is_switch(&net->nodes[i]))
            continue;
        switch_label(net->nodes[i].description, label);
        const char *copy = weft_graph_string(net->graph, label);
        if (!copy)
            return no_memory();
        struct weft_span name = {copy, strlen(copy)};
        if (weft_names_find(taken, name, &before))
            weft_names_change(taken, name, NAMED_TWICE);
        else
            status = weft_names_put(taken, name, 0, &before);
    }
    return status;
}

static int add_switch(struct weft_ibnet *net, struct weft_names *taken, struct weft_ibnet_node *from)
{
    char label[WEFT_NAME_SIZE_MAX];
    uint32_t twice = 0;
    switch_label(from->description, label);
    weft_names_find(taken, (struct weft_span){label, strlen(label)}, &twice);
    const char *name = *label && !twice ? label : copy_of(net, from->key);
    if (!name)
        return no_memory();
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_SWITCH, WEFT_NODE_NONE, name);
    given.guid = from->guid;
    int status = weft_graph_add_node(net->graph, &given, &from->node);
    if (!status)
        status = set_given(net, from);
    if (!status && from->kind == WEFT_IBNET_ROUTER)
        status = weft_graph_set_attribute(net->graph, from->node, "router", "yes");
    return status;
}

static int add_switches(struct weft_ibnet *net)
{
    struct weft_names taken = {0};
    int status = find_taken(net, &taken);
    for (uint32_t i = 0; i < net->node_count && !status; i++) {
        if (is_switch(&net->nodes[i]))
            status = add_switch(net, &taken, &net->nodes[i]);
    }
    weft_names_free(&taken);
    return status;
}

/* --- hosts */

static int add_host(struct weft_ibnet *net, struct weft_ibnet_host *host)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, host->name);
    given.guid = host->system_guid;
    return weft_graph_add_node(net->graph, &given, &host->node);
}

static int add_port(struct weft_ibnet *net, const struct weft_ibnet_node *adapter, uint8_t number,
                    const struct weft_ibnet_port *given_of, uint64_t guid, uint32_t *place)
{
    char name[8];
    snprintf(name, sizeof name, "%u", number);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_PORT, adapter->node, name);
    given.index = number;
    given.guid = guid;
    given.bytes_per_s = given_of->bytes_per_s;
    if (adapter->ports_count <= 1 && adapter->device != WEFT_IBNET_NONE)
        given.rail = (int32_t)adapter->device;
    return weft_graph_add_node(net->graph, &given, place);
}

static int add_adapter(struct weft_ibnet *net, struct weft_ibnet_node *from)
{
    const char *name = copy_of(net, from->device_name.size ? from->device_name : from->key);
    if (!name)
        return no_memory();
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NIC, net->hosts[from->host].node, name);
    given.guid = from->guid;
    if (from->device != WEFT_IBNET_NONE)
        given.rail = (int32_t)from->device;
    int status = weft_graph_add_node(net->graph, &given, &from->node);
    if (!status)
        status = set_given(net, from);
    for (uint32_t i = 0; i < from->ports_count && !status; i++) {
        struct weft_ibnet_port *port = &net->ports[from->ports_first + i];
        status = add_port(net, from, port->number, port, port->guid, &port->place);
        if (!status)
            status = set_number(net, port->place, "lid", 0, port->lid);
    }
    return status;
}

static int add_hosts(struct weft_ibnet *net)
{
    int status = 0;
    for (uint32_t i = 0; i < net->node_count && !status; i++) {
        struct weft_ibnet_node *node = &net->nodes[i];
        if (is_switch(node) || node->aggregates)
            continue;
        struct weft_ibnet_host *host = &net->hosts[node->host];
        if (host->node == WEFT_NODE_NONE)
            status = add_host(net, host);
        if (!status)
            status = add_adapter(net, node);
    }
    return status;
}

/* --- cables */

/* Counts what becomes no edge; 0 when the cable becomes one. */
static int count_apart(struct weft_ibnet_node *here, struct weft_ibnet_node *there)
{
    if (here->aggregates || there->aggregates) {
        here->aggregations += there->aggregates;
        there->aggregations += here->aggregates;
        return 1;
    }
    if (here != there || !is_switch(here))
        return 0;
    here->loops++;
    return 1;
}

static int add_cable(struct weft_ibnet *net, struct weft_ibnet_port *port)
{
    struct weft_ibnet_node *here = &net->nodes[port->node], *there = &net->nodes[port->peer];
    struct weft_ibnet_port *other = weft_ibnet_other_end(net, port);
    if (other)
        other->done = 1;
    if (count_apart(here, there))
        return 0;
    struct weft_edge edge = {.a = is_switch(here) ? here->node : port->place,
                             .b = is_switch(there) ? there->node
                                  : other          ? other->place
                                                   : 0,
                             .kind = WEFT_EDGE_FABRIC,
                             .lanes = port->lanes,
                             .links = 1,
                             .bytes_per_s = port->bytes_per_s,
                             .port_a = port->number,
                             .port_b = port->peer_number};
    int status = 0;
    if (!other && !is_switch(there))
        status = add_port(net, there, port->peer_number, port, port->peer_guid, &edge.b);
    return status ? status : weft_graph_add_edge(net->graph, &edge, NULL);
}

static int add_cables(struct weft_ibnet *net)
{
    int status = 0;
    for (uint32_t i = 0; i < net->port_count && !status; i++) {
        if (!net->ports[i].done)
            status = add_cable(net, &net->ports[i]);
    }
    for (uint32_t i = 0; i < net->node_count && !status; i++) {
        const struct weft_ibnet_node *node = &net->nodes[i];
        if (!is_switch(node))
            continue;
        status = set_number(net, node->node, "aggregation_nodes", 0, node->aggregations);
        if (!status)
            status = set_number(net, node->node, "loop_cables", 0, node->loops);
    }
    return status;
}

int weft_ibnet_make_graph(struct weft_ibnet *net)
{
    int status = add_switches(net);
    if (!status)
        status = add_hosts(net);
    return status ? status : add_cables(net);
}
