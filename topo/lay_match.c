/* Hosts are looked for by their whole name first, then by the part before the first dot (a switch's view often has no
 * domain) where that is not ambiguous, then by a GUID of host, NIC or port. Each host is found once at most.
 *
 * Ports of a host that was found are looked for by their own GUID, by their NIC's GUID, and by their NIC's name, the last
 * two with the port's number where there are several. NCCL's files call ports what others call NICs, so a port's name
 * counts as a NIC's too.
 */
#include "topo/lay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/natural.h"

#define PAIRS_MAX (1u << 24) /* of ports of one host that are compared */

/* A host under one of its names or GUIDs. */
struct label {
    const char *name;
    size_t size;
    uint64_t guid;
    uint32_t host;
};

struct labels {
    struct label *items;
    uint32_t count;
};

static int compare_labels(const void *a, const void *b)
{
    const struct label *one = a, *other = b;
    if (one->guid != other->guid)
        return one->guid < other->guid ? -1 : 1;
    size_t size = one->size < other->size ? one->size : other->size;
    int order = size ? memcmp(one->name, other->name, size) : 0;
    return order ? order : one->size < other->size ? -1 : one->size > other->size;
}

/* The host with this label; none where several have it. */
static uint32_t look_up(const struct labels *labels, const struct label *wanted)
{
    uint32_t low = 0, high = labels->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_labels(&labels->items[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == labels->count || compare_labels(&labels->items[low], wanted) != 0)
        return WEFT_NODE_NONE;
    uint32_t host = labels->items[low].host;
    for (uint32_t i = low + 1; i < labels->count && compare_labels(&labels->items[i], wanted) == 0; i++) {
        if (labels->items[i].host != host)
            return WEFT_NODE_NONE;
    }
    return host;
}

enum by { BY_NAME, BY_SHORT_NAME, BY_GUID, BY_COUNT };

static int is_labelled(const struct weft_node *node, enum by by)
{
    if (by != BY_GUID)
        return node->kind == WEFT_NODE_HOST;
    return node->guid && node->host != WEFT_NODE_NONE;
}

static struct label label_of(const struct weft_graph *graph, uint32_t node, enum by by)
{
    const struct weft_node *own = &graph->nodes[node];
    struct label label = {.host = own->host};
    if (by == BY_GUID) {
        label.guid = own->guid;
    } else {
        label.name = own->name;
        label.size = by == BY_NAME ? strlen(own->name) : strcspn(own->name, ".");
    }
    return label;
}

static int label_all(const struct weft_graph *graph, enum by by, struct labels *labels)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        count += (uint32_t)is_labelled(&graph->nodes[i], by);
    labels->count = 0;
    labels->items = malloc((count ? count : 1) * sizeof *labels->items);
    if (!labels->items)
        return weft_fail(WEFT_NOMEM, "no memory to match %u hosts", count);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (is_labelled(&graph->nodes[i], by))
            labels->items[labels->count++] = label_of(graph, i, by);
    }
    qsort(labels->items, labels->count, sizeof *labels->items, compare_labels);
    return 0;
}

int weft_lay_hosts(const struct weft_graph *machines, const struct weft_graph *fabric, uint32_t *machine_of)
{
    uint8_t *taken = calloc(machines->node_count + 1, 1);
    if (!taken)
        return weft_fail(WEFT_NOMEM, "no memory to match %u nodes", machines->node_count);
    memset(machine_of, 0xff, fabric->node_count * sizeof *machine_of);
    int status = 0;
    for (int by = BY_NAME; by < BY_COUNT && !status; by++) {
        struct labels ours = {0}, theirs = {0};
        status = label_all(fabric, (enum by)by, &theirs);
        if (!status)
            status = label_all(machines, (enum by)by, &ours);
        for (uint32_t i = 0; i < ours.count && !status; i++) {
            const struct label *label = &ours.items[i];
            uint32_t host = look_up(&theirs, label);
            if (host == WEFT_NODE_NONE || machine_of[host] != WEFT_NODE_NONE || taken[label->host] ||
                look_up(&ours, label) == WEFT_NODE_NONE)
                continue;
            machine_of[host] = label->host;
            taken[label->host] = 1;
        }
        free(ours.items);
        free(theirs.items);
    }
    free(taken);
    return status;
}

/* --- ports */

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

/* How well two ports fit: 0 not at all. */
static int fit(const struct weft_graph *fabric, uint32_t theirs, const struct weft_graph *machine,
               uint32_t ours, int stand_in)
{
    const struct weft_node *a = &fabric->nodes[theirs], *b = &machine->nodes[ours];
    const struct weft_node *a_nic = &fabric->nodes[nic_of(fabric, theirs)];
    const struct weft_node *b_nic = &machine->nodes[nic_of(machine, ours)];
    int ports = a->kind == WEFT_NODE_PORT && b->kind == WEFT_NODE_PORT;
    int same_number = !ports || a->index == b->index || a->index < 0 || b->index < 0;
    if (!stand_in && a->guid && a->guid == b->guid)
        return 4;
    if (!stand_in && a_nic->guid && a_nic->guid == b_nic->guid && same_number)
        return 3;
    if (strcmp(a_nic->name, b_nic->name) == 0 && same_number)
        return 2;
    return strcmp(a_nic->name, b->name) == 0 && same_number;
}

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
    if ((uint64_t)fabric->count * machine->count > PAIRS_MAX)
        return weft_fail(WEFT_INVALID,
                         "a host with %u ports in the fabric and %u in the machine, too many to match",
                         fabric->count, machine->count);
    uint8_t *matched = calloc((size_t)fabric->count + machine->count + 1, 1);
    if (!matched)
        return weft_fail(WEFT_NOMEM, "no memory to match %u ports", fabric->count);
    uint8_t *taken = matched + fabric->count;
    for (uint32_t i = 0; i < fabric->count; i++) {
        uint32_t best = WEFT_NODE_NONE;
        int best_fit = 0;
        for (uint32_t k = 0; k < machine->count; k++) {
            int fits =
                taken[k] ? 0
                         : fit(fabric->graph, fabric->ports[i], machine->graph, machine->ports[k], stand_in);
            if (fits > best_fit) {
                best_fit = fits;
                best = k;
            }
        }
        twin[i] = best;
        if (best != WEFT_NODE_NONE)
            matched[i] = taken[best] = 1;
    }
    int status = stand_in ? match_in_order(fabric, machine, matched, twin) : 0;
    free(matched);
    return status;
}
