/* SPDX-License-Identifier: Apache-2.0 */
/* The output of ibnetdiscover (infiniband-diags; ibnetdiscover(8), "TOPOLOGY FILE FORMAT"), also with -f and -g.
 *
 * A section per node, told first by lines of identities, then by the node's line, then by a line for each port that
 * has a cable:
 *
 *     vendid=0x2c9
 *     devid=0xd2f2
 *     sysimgguid=0x0002c9                           the box (of adapters: the card) it is part of
 *     switchguid=0x0002c9(0002c9)                   or caguid=, rtguid=
 *     Switch  65 "S-00000000000002c9"               # "MF0;leaf-1:MQM9700/U1" enhanced port 0 lid 73 lmc 0
 *     [1]     "H-0000000000000a01"[1](a01)          # "node-1 mlx5_0" lid 647 4xNDR
 *     [35][ext 3]  "S-0000000000000c26"[32]         # "MF0;spine-1:MQM9700/U1" lid 236 4xNDR
 *
 *     Ca      1 "H-0000000000000a01"                # "node-1 mlx5_0"
 *     [1](a01)     "S-00000000000002c9"[1]          # lid 647 lmc 0 "MF0;leaf-1:MQM9700/U1" lid 73 4xNDR
 *
 * Rt is a router to another subnet. With -g there are lines "Chassis 1 (guid ...)", "Hostname: ...", "Non-Chassis Nodes"
 * and comments with the chassis behind the identities, and [ext N] is a port's number on the chassis. With -f more
 * follows the speed. Descriptions are free text and may hold quotes: one lasts from the first quote behind # to the last
 * of the line. Other reports of the same program (-p, -l, --diff) are other formats and refused by name.
 *
 * Time: each line is passed once; GUIDs are found in a balanced tree (names.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/files/ibnet.h"

#define PORTS_MAX       254 /* InfiniBand numbers ports 1 to 254; 0 is a switch itself, 255 is reserved */
#define DESCRIPTION_MAX 255
#define KEY_BYTES       18

/* The identities that precede a node's line. */
struct section {
    uint32_t vendor_id, device_id, chassis;
    uint64_t system_guid, guid; /* 0: not told */
    uint32_t node;              /* whose port lines come; WEFT_IBNET_NONE without */
};

static int fail(const struct weft_ibnet *net, const struct weft_cursor *cursor, const char *expected)
{
    struct weft_span rest = weft_line_rest(cursor);
    return rest.size ? weft_read_fail(net->text, cursor->line, "found \"%.*s\", expected %s",
                                      WEFT_SPAN_SHOWN(rest), expected)
                     : weft_read_fail(net->text, cursor->line, "the line ends, expected %s", expected);
}

/* --- nodes */

/* "S-0123456789abcdef" with its quotes. */
static int take_key(const struct weft_ibnet *net, struct weft_cursor *cursor, struct weft_span *key)
{
    static const char expected[] = "a node like \"S-0002c90000000001\"";
    struct weft_cursor start = *cursor;
    uint64_t guid;
    if (!weft_line_take(cursor, "\""))
        return fail(net, &start, expected);
    key->data = cursor->at;
    if (!weft_line_take(cursor, "S-") && !weft_line_take(cursor, "H-") && !weft_line_take(cursor, "R-"))
        return fail(net, &start, expected);
    if (!weft_line_take_hex(cursor, &guid))
        return fail(net, &start, expected);
    key->size = (size_t)(cursor->at - key->data);
    if (key->size != KEY_BYTES || !weft_line_take(cursor, "\""))
        return fail(net, &start, expected);
    return 0;
}

/* What lies between the first quote and the last one of the line; the cursor goes behind it. */
static int take_description(const struct weft_ibnet *net, struct weft_cursor *cursor,
                            struct weft_span *description)
{
    struct weft_span rest = weft_line_rest(cursor);
    const char *first = memchr(rest.data, '"', rest.size);
    const char *last = first ? memrchr(first + 1, '"', (size_t)(cursor->end - first - 1)) : NULL;
    if (!last)
        return fail(net, cursor, "the node's description in quotes");
    if (last - first - 1 > DESCRIPTION_MAX)
        return fail(net, cursor, "a description of at most 255 bytes");
    *description = (struct weft_span){first + 1, (size_t)(last - first - 1)};
    cursor->at = last + 1;
    return 0;
}

/* The line of a node, from its number of ports on. */
static int read_node(struct weft_ibnet *net, struct section *section, struct weft_cursor *cursor, char kind)
{
    struct weft_span key, description;
    uint32_t ports, line = (uint32_t)cursor->line, made, lid = 0;
    weft_line_skip_blanks(cursor);
    struct weft_cursor start = *cursor;
    if (!weft_line_take_number(cursor, PORTS_MAX, &ports) || ports == 0)
        return fail(net, &start, "a number of ports from 1 to 254, as ibnetdiscover prints without -l");
    weft_line_skip_blanks(cursor);
    int status = take_key(net, cursor, &key);
    if (status)
        return status;
    if (key.data[0] != kind)
        return weft_read_fail(net->text, line, "\"%.*s\" in the line of a %s, expected \"%c-...\"",
                              WEFT_SPAN_SHOWN(key),
                              kind == 'S'   ? "switch"
                              : kind == 'H' ? "channel adapter"
                                            : "router",
                              kind);
    weft_line_skip_blanks(cursor);
    if (!weft_line_take(cursor, "#"))
        return fail(net, cursor, "# and the node's description in quotes");
    status = take_description(net, cursor, &description);
    if (!status)
        status = weft_ibnet_add_node(net, key, line, &made);
    if (status)
        return status;
    struct weft_ibnet_node *node = &net->nodes[made];
    if (section->guid && section->guid != node->guid)
        return weft_read_fail(net->text, line, "\"%.*s\" follows the GUID %016llx, expected the same",
                              WEFT_SPAN_SHOWN(key), (unsigned long long)section->guid);
    for (struct weft_span word; weft_line_skip_blanks(cursor), weft_line_take_word(cursor, &word);) {
        weft_line_skip_blanks(cursor);
        if (weft_span_is(word, "lid"))
            weft_line_take_number(cursor, UINT16_MAX, &lid);
    }
    node->ports_max = (uint8_t)ports;
    node->description = description;
    node->aggregates = kind == 'H' && weft_ibnet_is_aggregation(description);
    node->system_guid = section->system_guid;
    node->vendor_id = section->vendor_id;
    node->device_id = section->device_id;
    node->chassis = section->chassis;
    node->lid = lid;
    *section = (struct section){.node = made};
    return 0;
}

/* --- ports */

/* [N], then perhaps [ext N]. */
static int take_port_number(const struct weft_ibnet *net, struct weft_cursor *cursor, uint8_t *number)
{
    struct weft_cursor start = *cursor;
    uint32_t value, outside;
    if (!weft_line_take(cursor, "[") || !weft_line_take_number(cursor, PORTS_MAX, &value) || value == 0 ||
        !weft_line_take(cursor, "]"))
        return fail(net, &start, "a port's number in brackets, from 1 to 254");
    if (weft_line_take(cursor, "[ext ") &&
        (!weft_line_take_number(cursor, UINT16_MAX, &outside) || !weft_line_take(cursor, "]")))
        return fail(net, &start, "a port's number on its chassis like [ext 3]");
    *number = (uint8_t)value;
    return 0;
}

/* (GUID), which may be left out. */
static int take_port_guid(const struct weft_ibnet *net, struct weft_cursor *cursor, uint64_t *guid)
{
    struct weft_cursor start = *cursor;
    *guid = 0;
    if (!weft_line_take(cursor, "("))
        return 0;
    if (!weft_line_take_hex(cursor, guid) || !weft_line_take(cursor, ")"))
        return fail(net, &start, "a port's GUID in parentheses, at most 16 hexadecimal digits");
    return 0;
}

/* Behind #: [lid N lmc N] "description" [lid N [SPEED ...]]. */
static int take_remarks(const struct weft_ibnet *net, struct weft_cursor *cursor,
                        struct weft_ibnet_port *port)
{
    char speed[16];
    weft_line_skip_blanks(cursor);
    if (!weft_line_take(cursor, "#"))
        return fail(net, cursor, "# and the description of the node at the other end");
    weft_line_skip_blanks(cursor);
    if (weft_line_take(cursor, "lid ") && !weft_line_take_number(cursor, UINT16_MAX, &port->lid))
        return fail(net, cursor, "the port's LID");
    int status = take_description(net, cursor, &port->peer_description);
    if (status)
        return status;
    weft_line_skip_blanks(cursor);
    if (weft_line_take(cursor, "lid ") && !weft_line_take_number(cursor, UINT16_MAX, &port->peer_lid))
        return fail(net, cursor, "the LID of the port at the other end");
    weft_line_skip_blanks(cursor);
    weft_line_take_word(cursor, &port->speed);
    if (port->speed.size && port->speed.size < sizeof speed) {
        memcpy(speed, port->speed.data, port->speed.size);
        speed[port->speed.size] = '\0';
        port->bytes_per_s = weft_ib_bytes_per_s(speed);
        port->lanes = port->bytes_per_s ? (uint8_t)strtoul(speed, NULL, 10) : 0;
    }
    return 0;
}

/* Puts the port among those of its node; the lines nearly always come by rising number. */
static int add_port(struct weft_ibnet *net, const struct weft_ibnet_port *port)
{
    int status = weft_ibnet_grow((void **)&net->ports, net->port_count, &net->port_room, sizeof *net->ports);
    if (status)
        return status;
    struct weft_ibnet_node *node = &net->nodes[port->node];
    uint32_t at = net->port_count;
    while (at > node->ports_first && net->ports[at - 1].number > port->number) {
        net->ports[at] = net->ports[at - 1];
        at--;
    }
    if (at > node->ports_first && net->ports[at - 1].number == port->number)
        return weft_read_fail(net->text, port->line, "port %u of \"%.*s\" is in line %u already",
                              port->number, WEFT_SPAN_SHOWN(node->key), net->ports[at - 1].line);
    net->ports[at] = *port;
    net->port_count++;
    node->ports_count++;
    return 0;
}

static int read_port(struct weft_ibnet *net, const struct section *section, struct weft_cursor *cursor)
{
    struct weft_ibnet_port port = {.node = section->node, .line = (uint32_t)cursor->line};
    if (port.node == WEFT_IBNET_NONE)
        return weft_read_fail(net->text, port.line,
                              "a port's line without a node's (Switch, Ca, Rt) before it");
    int status = take_port_number(net, cursor, &port.number);
    if (!status)
        status = take_port_guid(net, cursor, &port.guid);
    weft_line_skip_blanks(cursor);
    if (!status)
        status = take_key(net, cursor, &port.peer_key);
    if (!status)
        status = take_port_number(net, cursor, &port.peer_number);
    weft_line_skip_blanks(cursor);
    if (!status)
        status = take_port_guid(net, cursor, &port.peer_guid);
    if (!status)
        status = take_remarks(net, cursor, &port);
    if (status)
        return status;
    const struct weft_ibnet_node *node = &net->nodes[port.node];
    if (port.number > node->ports_max)
        return weft_read_fail(net->text, port.line, "port %u of \"%.*s\", which has %u", port.number,
                              WEFT_SPAN_SHOWN(node->key), node->ports_max);
    return add_port(net, &port);
}

/* --- lines */

/* NAME=0x...; 0 when the line is none of the identities, 1 when it was one, else the failure. */
static int read_identity(struct weft_ibnet *net, struct section *section, struct weft_cursor *cursor)
{
    static const char *const names[] = {
        "vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid="};
    size_t which = 0, count = sizeof names / sizeof *names;
    uint64_t value;
    while (which < count && !weft_line_take(cursor, names[which]))
        which++;
    if (which == count)
        return 0;
    if (!weft_line_take(cursor, "0x") || !weft_line_take_hex(cursor, &value))
        return fail(net, cursor, "a number like 0x2c9");
    if (section->node != WEFT_IBNET_NONE)
        *section = (struct section){.node = WEFT_IBNET_NONE};
    if (which == 0)
        section->vendor_id = (uint32_t)value;
    else if (which == 1)
        section->device_id = (uint32_t)value;
    else if (which == 2)
        section->system_guid = value;
    else
        section->guid = value;
    weft_line_skip_blanks(cursor);
    if (which == 2 && weft_line_take(cursor, "# Chassis "))
        weft_line_take_number(cursor, INT32_MAX, &section->chassis);
    return 1;
}

static int fail_line(const struct weft_ibnet *net, struct weft_cursor *cursor)
{
    struct weft_span rest = weft_line_rest(cursor), word;
    weft_line_take_word(cursor, &word);
    if (weft_span_is(word, "SW") || weft_span_is(word, "CA") || weft_span_is(word, "RT"))
        return weft_read_fail(
            net->text, cursor->line,
            "a line of the ports report (ibnetdiscover -p), expected ibnetdiscover without -p");
    if (weft_span_is(word, "<") || weft_span_is(word, ">"))
        return weft_read_fail(
            net->text, cursor->line,
            "a line of a comparison (ibnetdiscover --diff), expected ibnetdiscover without it");
    return weft_read_fail(
        net->text, cursor->line,
        "found \"%.*s\", expected a line of ibnetdiscover: vendid=0x..., Switch, Ca, Rt or a "
        "port like [1]",
        WEFT_SPAN_SHOWN(rest));
}

static int read_line(struct weft_ibnet *net, struct section *section, struct weft_cursor *cursor)
{
    static const struct {
        const char *word;
        char kind;
    } nodes[] = {{"Switch", 'S'}, {"Ca", 'H'}, {"Rt", 'R'}};
    if (memchr(cursor->at, '\0', (size_t)(cursor->end - cursor->at)))
        return weft_read_fail(net->text, cursor->line, "a zero byte, expected text");
    weft_line_skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at == '#')
        return 0;
    if (*cursor->at == '[')
        return read_port(net, section, cursor);
    int status = read_identity(net, section, cursor);
    if (status)
        return status < 0 ? status : 0;
    struct weft_cursor start = *cursor;
    struct weft_span word;
    weft_line_take_word(cursor, &word);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        if (weft_span_is(word, nodes[i].word))
            return read_node(net, section, cursor, nodes[i].kind);
    }
    if (weft_span_is(word, "Chassis") || weft_span_is(word, "Hostname:") ||
        weft_span_is(word, "Non-Chassis")) {
        *section = (struct section){.node = WEFT_IBNET_NONE};
        return 0;
    }
    return fail_line(net, &start);
}

static int read_lines(struct weft_ibnet *net)
{
    struct section section = {.node = WEFT_IBNET_NONE};
    struct weft_cursor cursor = {0};
    size_t at = 0;
    int status = 0;
    while (!status && weft_line_next(net->text, &at, &cursor)) {
        struct weft_cursor line = cursor;
        status = read_line(net, &section, &line);
    }
    if (!status && !net->node_count)
        status =
            weft_read_fail(net->text, 0, "no node in it, expected lines of ibnetdiscover (Switch, Ca, Rt)");
    return status;
}

int weft_read_ibnetdiscover(const struct weft_text *text, struct weft_graph *graph)
{
    struct weft_ibnet net = {.text = text, .graph = graph};
    int status = read_lines(&net);
    if (!status)
        status = weft_ibnet_check(&net);
    if (!status)
        status = weft_ibnet_find_hosts(&net);
    if (!status)
        status = weft_ibnet_make_graph(&net);
    weft_names_free(&net.keys);
    weft_names_free(&net.unlisted);
    free(net.nodes);
    free(net.ports);
    free(net.hosts);
    return status;
}
