/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a host of the fabric among those of the machine that it is.
 *
 * Ports are looked for by their own GUID, then by their NIC's GUID, then by their NIC's name, the last two with the port's
 * number where both tell one. NCCL's files call ports what others call NICs, so a port's name counts as a NIC's too, last.
 * What is surer comes first for all ports, and never gives way to what is less sure, even where that would match one more;
 * by each of these as many are matched as can be, the first in order among equals.
 */
#include "topo/lay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/natural.h"

int weft_lay_list_ports(const struct weft_graph *graph, uint32_t host, struct weft_lay_ports *list)
{
    uint32_t most = weft_graph_count_below(graph, host, WEFT_NODE_PORT) +
                    weft_graph_count_below(graph, host, WEFT_NODE_NIC);
    *list = (struct weft_lay_ports){.graph = graph, .ports = malloc((most + 1) * sizeof *list->ports)};
    if (!list->ports)
        return weft_fail(WEFT_NOMEM, "no memory for %u ports", most);
    for (uint32_t port = weft_graph_next_below(graph, host, WEFT_NODE_PORT, WEFT_NODE_NONE);
         port != WEFT_NODE_NONE; port = weft_graph_next_below(graph, host, WEFT_NODE_PORT, port))
        list->ports[list->count++] = port;
    for (uint32_t nic = weft_graph_next_below(graph, host, WEFT_NODE_NIC, WEFT_NODE_NONE);
         nic != WEFT_NODE_NONE; nic = weft_graph_next_below(graph, host, WEFT_NODE_NIC, nic)) {
        if (weft_graph_next_below(graph, nic, WEFT_NODE_PORT, WEFT_NODE_NONE) == WEFT_NODE_NONE)
            list->ports[list->count++] = nic;
    }
    return 0;
}

void weft_lay_free_ports(struct weft_lay_ports *list)
{
    free(list->ports);
}

static uint32_t nic_of(const struct weft_graph *graph, uint32_t port)
{
    uint32_t nic = weft_graph_above(graph, port, WEFT_NODE_NIC);
    return nic == WEFT_NODE_NONE ? port : nic;
}

/* --- by GUID and name */

/* What both must have in common, the surest first. */
enum by { BY_PORT_GUID, BY_NIC_GUID, BY_NIC_NAME, BY_PORT_NAME, BY_COUNT };

struct key {
    uint64_t guid;
    const char *name;
    int32_t number; /* the port's; -1: any will do */
};

int weft_lay_fail_size(const struct weft_graph *machines, const struct weft_graph *fabric)
{
    return weft_fail(WEFT_INVALID, "too many devices in %.100s to lay under %.100s", machines->source,
                     fabric->source);
}

static struct key key_of(const struct weft_lay_ports *list, uint32_t index, enum by by, int is_machine)
{
    const struct weft_node *nodes = list->graph->nodes, *port = &nodes[list->ports[index]];
    const struct weft_node *nic = &nodes[nic_of(list->graph, list->ports[index])];
    struct key key = {.name = "", .number = -1};
    if (by <= BY_NIC_GUID)
        key.guid = by == BY_PORT_GUID ? port->guid : nic->guid;
    else
        key.name = by == BY_PORT_NAME && is_machine ? port->name : nic->name;
    if (by != BY_PORT_GUID && port->kind == WEFT_NODE_PORT && port->index >= 0)
        key.number = port->index;
    return key;
}

static int has_number(const struct key *key)
{
    return key->number >= 0;
}

/* Equal numbers are paired first, then those with a number and those that any number will do for, these among each other last: so
 * as many are paired as can be. */
enum numbers { BOTH, FABRIC, MACHINE, NEITHER, NUMBERS_COUNT };

static int fits(const struct key *theirs, const struct key *ours, enum numbers numbers)
{
    return has_number(ours) == (numbers == BOTH || numbers == MACHINE) &&
           (numbers != BOTH || theirs->number == ours->number) && theirs->guid == ours->guid &&
           strcmp(theirs->name, ours->name) == 0;
}

/* matched: of the fabric's ports, then of the machine's. */
static int match_by(enum by by, enum numbers numbers, const struct weft_lay_ports *fabric,
                    const struct weft_lay_ports *machine, uint8_t *matched, uint32_t *twin,
                    uint64_t *compared)
{
    for (uint32_t f = 0; f < fabric->count; f++) {
        struct key theirs = key_of(fabric, f, by, 0);
        int is_done = matched[f] || (!theirs.guid && !*theirs.name) ||
                      has_number(&theirs) != (numbers == BOTH || numbers == FABRIC);
        for (uint32_t m = 0; m < machine->count && !is_done; m++) {
            if (++*compared > WEFT_LAY_COMPARED_MAX)
                return weft_lay_fail_size(machine->graph, fabric->graph);
            if (matched[fabric->count + m])
                continue;
            struct key ours = key_of(machine, m, by, 1);
            is_done = fits(&theirs, &ours, numbers);
            if (!is_done)
                continue;
            twin[f] = m;
            matched[f] = matched[fabric->count + m] = 1;
        }
    }
    return 0;
}

/* --- in order */

struct position {
    const struct weft_lay_ports *list;
    uint32_t index;
};

static int compare_positions(const void *a, const void *b)
{
    const struct position *one = a, *other = b;
    const struct weft_graph *graph = one->list->graph;
    uint32_t ports[2] = {one->list->ports[one->index], other->list->ports[other->index]};
    int32_t rails[2] = {graph->nodes[ports[0]].rail, graph->nodes[ports[1]].rail};
    if (rails[0] != rails[1])
        return rails[0] < rails[1] ? -1 : 1;
    int order = weft_natural_compare(graph->nodes[nic_of(graph, ports[0])].name,
                                     graph->nodes[nic_of(graph, ports[1])].name);
    if (!order)
        order = weft_natural_compare(graph->nodes[ports[0]].name, graph->nodes[ports[1]].name);
    return order ? order : one->index < other->index ? -1 : 1;
}

static uint32_t sort_unmatched(const struct weft_lay_ports *list, const uint8_t *matched,
                               struct position *positions)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!matched[i])
            positions[count++] = (struct position){list, i};
    }
    qsort(positions, count, sizeof *positions, compare_positions);
    return count;
}

/* By rail and name, where neither name nor GUID said anything. */
static int match_in_order(const struct weft_lay_ports *fabric, const struct weft_lay_ports *machine,
                          const uint8_t *matched, uint32_t *twin)
{
    struct position *theirs = malloc((fabric->count + machine->count + 1) * sizeof *theirs);
    if (!theirs)
        return weft_fail(WEFT_NOMEM, "no memory to match %u ports", fabric->count);
    struct position *ours = theirs + fabric->count;
    uint32_t count = sort_unmatched(fabric, matched, theirs);
    uint32_t others = sort_unmatched(machine, matched + fabric->count, ours);
    for (uint32_t i = 0; i < count && i < others; i++)
        twin[theirs[i].index] = ours[i].index;
    free(theirs);
    return 0;
}

int weft_lay_match_ports(const struct weft_lay_ports *fabric, const struct weft_lay_ports *machine,
                         int stand_in, uint32_t *twin, uint64_t *compared)
{
    uint8_t *matched = calloc((size_t)fabric->count + machine->count + 1, 1);
    int status = 0;
    if (!matched)
        return weft_fail(WEFT_NOMEM, "no memory to match %u ports", fabric->count);
    memset(twin, 0xff, fabric->count * sizeof *twin); /* WEFT_NODE_NONE */
    for (int by = stand_in ? BY_NIC_NAME : BY_PORT_GUID; by < BY_COUNT; by++) {
        for (int numbers = by == BY_PORT_GUID ? NEITHER : BOTH; numbers < NUMBERS_COUNT && !status; numbers++)
            status = match_by((enum by)by, (enum numbers)numbers, fabric, machine, matched, twin, compared);
    }
    if (!status && stand_in)
        status = match_in_order(fabric, machine, matched, twin);
    free(matched);
    return status;
}
