/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a host of the fabric among those of the machine that it is.
 *
 * Ports are looked for by their own GUID, then by their NIC's GUID, then by their NIC's name, the last two with the port's
 * number where both tell one. NCCL's files call ports what others call NICs, so a port's name counts as a NIC's too, last.
 * What is surer comes first for all ports, and never gives way to what is less sure, even where that would match one more;
 * by each of these as many are matched as can be, the first in order among equals. Sorted by what they have in common, so that
 * files in which thousands share one GUID cost no more than others.
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
    uint32_t index; /* in the list */
};

struct side {
    const struct weft_lay_ports *list;
    uint8_t *matched;
    struct key *keys;
    uint32_t count;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *one = a, *other = b;
    if (one->guid != other->guid)
        return one->guid < other->guid ? -1 : 1;
    int order = strcmp(one->name, other->name);
    if (order)
        return order;
    if (one->number != other->number)
        return one->number < other->number ? -1 : 1;
    return one->index < other->index ? -1 : one->index > other->index;
}

static int same_key(const struct key *a, const struct key *b)
{
    return a->guid == b->guid && strcmp(a->name, b->name) == 0;
}

/* The keys of what is not matched yet. */
static void list_keys(struct side *side, enum by by, int is_machine)
{
    const struct weft_graph *graph = side->list->graph;
    side->count = 0;
    for (uint32_t i = 0; i < side->list->count; i++) {
        const struct weft_node *port = &graph->nodes[side->list->ports[i]];
        const struct weft_node *nic = &graph->nodes[nic_of(graph, side->list->ports[i])];
        struct key key = {.name = "", .number = -1, .index = i};
        if (by <= BY_NIC_GUID)
            key.guid = by == BY_PORT_GUID ? port->guid : nic->guid;
        else
            key.name = by == BY_PORT_NAME && is_machine ? port->name : nic->name;
        if (by != BY_PORT_GUID && port->kind == WEFT_NODE_PORT && port->index >= 0)
            key.number = port->index;
        if (!side->matched[i] && (key.guid || *key.name))
            side->keys[side->count++] = key;
    }
    qsort(side->keys, side->count, sizeof *side->keys, compare_keys);
}

static void pair(struct side *fabric, const struct key *theirs, struct side *machine, const struct key *ours,
                 uint32_t *twin)
{
    twin[theirs->index] = ours->index;
    fabric->matched[theirs->index] = machine->matched[ours->index] = 1;
}

/* The next key at or after `at` that is not matched yet. */
static uint32_t next_free(const struct side *side, uint32_t at, uint32_t end)
{
    while (at < end && side->matched[side->keys[at].index])
        at++;
    return at;
}

/* Pairs what is free in the two ranges, one after another, as far as both reach. */
static void pair_free(struct side *fabric, uint32_t f, uint32_t f_end, struct side *machine, uint32_t m,
                      uint32_t m_end, uint32_t *twin)
{
    f = next_free(fabric, f, f_end);
    m = next_free(machine, m, m_end);
    while (f < f_end && m < m_end) {
        pair(fabric, &fabric->keys[f], machine, &machine->keys[m], twin);
        f = next_free(fabric, f, f_end);
        m = next_free(machine, m, m_end);
    }
}

/* One key: those without a number come first in each range. Equal numbers are paired first, then those with a number and those
 * that any number will do for, these among each other last: so as many are paired as can be. */
static void match_key(struct side *fabric, uint32_t f, uint32_t f_end, struct side *machine, uint32_t m,
                      uint32_t m_end, uint32_t *twin)
{
    uint32_t f_number = f, m_number = m;
    while (f_number < f_end && fabric->keys[f_number].number < 0)
        f_number++;
    while (m_number < m_end && machine->keys[m_number].number < 0)
        m_number++;
    for (uint32_t i = f_number, k = m_number; i < f_end && k < m_end;) {
        int32_t theirs = fabric->keys[i].number, ours = machine->keys[k].number;
        if (theirs == ours)
            pair(fabric, &fabric->keys[i], machine, &machine->keys[k], twin);
        i += theirs <= ours;
        k += ours <= theirs;
    }
    pair_free(fabric, f_number, f_end, machine, m, m_number, twin);
    pair_free(fabric, f, f_number, machine, m_number, m_end, twin);
    pair_free(fabric, f, f_number, machine, m, m_number, twin);
}

/* All keys of one kind. */
static void match_by(enum by by, struct side *fabric, struct side *machine, uint32_t *twin)
{
    list_keys(fabric, by, 0);
    list_keys(machine, by, 1);
    for (uint32_t f = 0, m = 0; f < fabric->count && m < machine->count;) {
        const struct key *theirs = &fabric->keys[f], *ours = &machine->keys[m];
        uint32_t f_end = f, m_end = m;
        if (same_key(theirs, ours)) {
            while (f_end < fabric->count && same_key(&fabric->keys[f_end], theirs))
                f_end++;
            while (m_end < machine->count && same_key(&machine->keys[m_end], ours))
                m_end++;
            match_key(fabric, f, f_end, machine, m, m_end, twin);
        } else if (compare_keys(theirs, ours) < 0) {
            f_end++;
        } else {
            m_end++;
        }
        f = f_end;
        m = m_end;
    }
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
                         int stand_in, uint32_t *twin)
{
    size_t count = (size_t)fabric->count + machine->count;
    uint8_t *matched = calloc(count + 1, 1);
    struct key *keys = malloc((count + 1) * sizeof *keys);
    if (!matched || !keys) {
        free(matched);
        free(keys);
        return weft_fail(WEFT_NOMEM, "no memory to match %u ports", fabric->count);
    }
    struct side theirs = {fabric, matched, keys, 0};
    struct side ours = {machine, matched + fabric->count, keys + fabric->count, 0};
    memset(twin, 0xff, fabric->count * sizeof *twin); /* WEFT_NODE_NONE */
    for (int by = stand_in ? BY_NIC_NAME : BY_PORT_GUID; by < BY_COUNT; by++)
        match_by((enum by)by, &theirs, &ours, twin);
    int status = stand_in ? match_in_order(fabric, machine, matched, twin) : 0;
    free(keys);
    free(matched);
    return status;
}
