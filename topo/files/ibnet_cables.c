/* SPDX-License-Identifier: Apache-2.0 */
/* Every cable is told from both its ends, so what one line says another must confirm: which ports it joins, the port's
 * GUID, the speed. A file in which they disagree was cut, edited, or put together from two, and routes made from it would
 * be wrong without anybody noticing.
 *
 * Where a node has no section at all: an adapter or router is taken as its switch describes it (people keep only the
 * switches of a long file), as nothing but that one cable hangs on it. A switch without a section is an error: which of its
 * cables are missing cannot be known. A node without any cable cannot have been found over one: the output was cut, or it
 * is that of a machine whose own port is down. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "topo/files/ibnet.h"

#define PORT_SHOWN(net, port) (port)->number, WEFT_SPAN_SHOWN((net)->nodes[(port)->node].key)

static int check_cabled(const struct weft_ibnet *net)
{
    for (uint32_t i = 0; i < net->node_count; i++) {
        const struct weft_ibnet_node *node = &net->nodes[i];
        if (!node->ports_count)
            return weft_read_fail(
                net->text, node->line,
                "\"%.*s\" (\"%.*s\") has no cable, expected a line like [1] for at least one of "
                "its %u ports: the file is cut, or its maker's own port is down",
                WEFT_SPAN_SHOWN(node->key), WEFT_SPAN_SHOWN(node->description), node->ports_max);
    }
    return 0;
}

static int add_unlisted(struct weft_ibnet *net, const struct weft_ibnet_port *port, uint32_t *made)
{
    if (port->peer_key.data[0] == 'S')
        return weft_read_fail(
            net->text, port->line,
            "port %u of \"%.*s\" leads to \"%.*s\", of which the file does not tell: it is cut, or "
            "ibnetdiscover did not get an answer",
            PORT_SHOWN(net, port), WEFT_SPAN_SHOWN(port->peer_key));
    int status = weft_ibnet_add_node(net, port->peer_key, port->line, made);
    if (status)
        return status;
    net->nodes[*made].description = port->peer_description;
    net->nodes[*made].given_by_peer = 1;
    net->nodes[*made].aggregates =
        port->peer_key.data[0] == 'H' && weft_ibnet_is_aggregation(port->peer_description);
    return 0;
}

static int find_peers(struct weft_ibnet *net)
{
    for (uint32_t i = 0; i < net->port_count; i++) {
        struct weft_ibnet_port *port = &net->ports[i];
        if (weft_names_find(&net->keys, port->peer_key, &port->peer))
            continue;
        int status = add_unlisted(net, port, &port->peer);
        if (status)
            return status;
    }
    return 0;
}

struct weft_ibnet_port *weft_ibnet_other_end(const struct weft_ibnet *net, const struct weft_ibnet_port *port)
{
    const struct weft_ibnet_node *peer = &net->nodes[port->peer];
    uint32_t first = peer->ports_first, end = first + peer->ports_count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (net->ports[middle].number < port->peer_number)
            first = middle + 1;
        else
            end = middle;
    }
    int found =
        first < peer->ports_first + peer->ports_count && net->ports[first].number == port->peer_number;
    return found ? &net->ports[first] : NULL;
}

/* An adapter that has no section has one cable at each of its ports all the same. */
static int check_unlisted(struct weft_ibnet *net, const struct weft_ibnet_port *port)
{
    char text[32];
    uint32_t first;
    snprintf(text, sizeof text, "%.18s[%u]", port->peer_key.data, port->peer_number);
    const char *copy = weft_graph_string(net->graph, text);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "no memory for the ports of a fabric");
    int status = weft_names_put(&net->unlisted, (struct weft_span){copy, strlen(copy)}, port->line, &first);
    if (status || first == port->line)
        return status;
    return weft_read_fail(
        net->text, port->line,
        "port %u of \"%.*s\" leads to port %u of \"%.*s\", but line %u says that of another one",
        PORT_SHOWN(net, port), port->peer_number, WEFT_SPAN_SHOWN(port->peer_key), first);
}

static int check_cable(struct weft_ibnet *net, struct weft_ibnet_port *port)
{
    const struct weft_ibnet_node *peer = &net->nodes[port->peer];
    struct weft_ibnet_port *other = weft_ibnet_other_end(net, port);
    if (!other && peer->given_by_peer)
        return check_unlisted(net, port);
    if (!other)
        return weft_read_fail(
            net->text, port->line,
            "port %u of \"%.*s\" leads to port %u of \"%.*s\", but what line %u tells of that has no "
            "such port: the file is cut or was changed",
            PORT_SHOWN(net, port), port->peer_number, WEFT_SPAN_SHOWN(peer->key), peer->line);
    if (other == port)
        return weft_read_fail(net->text, port->line, "port %u of \"%.*s\" leads to itself",
                              PORT_SHOWN(net, port));
    if (other->peer != port->node || other->peer_number != port->number)
        return weft_read_fail(
            net->text, port->line,
            "port %u of \"%.*s\" leads to port %u of \"%.*s\", but line %u says that that one leads "
            "to port %u of \"%.*s\"",
            PORT_SHOWN(net, port), PORT_SHOWN(net, other), other->line, other->peer_number,
            WEFT_SPAN_SHOWN(other->peer_key));
    if (port->peer_guid && other->guid && port->peer_guid != other->guid)
        return weft_read_fail(net->text, port->line,
                              "port %u of \"%.*s\" leads to a port with the GUID %llx, but line %u says %llx",
                              PORT_SHOWN(net, port), (unsigned long long)port->peer_guid, other->line,
                              (unsigned long long)other->guid);
    if (port->bytes_per_s && other->bytes_per_s && port->bytes_per_s != other->bytes_per_s)
        return weft_read_fail(
            net->text, port->line,
            "port %u of \"%.*s\" runs at %.*s, but line %u says that the other end runs at %.*s",
            PORT_SHOWN(net, port), WEFT_SPAN_SHOWN(port->speed), other->line, WEFT_SPAN_SHOWN(other->speed));
    if (!port->bytes_per_s) {
        port->bytes_per_s = other->bytes_per_s;
        port->lanes = other->lanes;
    }
    return 0;
}

int weft_ibnet_check(struct weft_ibnet *net)
{
    int status = check_cabled(net);
    if (!status)
        status = find_peers(net);
    for (uint32_t i = 0; i < net->port_count && !status; i++)
        status = check_cable(net, &net->ports[i]);
    return status;
}
