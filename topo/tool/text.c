/* SPDX-License-Identifier: Apache-2.0 */
/* The readable tree.
 *
 * One line per thing, indented below what it lies in: host, NUMA node, bridges, GPUs, NICs and their ports. What nobody asks for
 * at first (cores, functions that are neither GPU nor NIC, bridges that lead to nothing else) is counted, unless all. Hosts
 * of a fabric are mostly alike: from five on, or with nothing known inside, they are counted by what is in them, unless all.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/tool.h"

enum { HOSTS_SHOWN = 4, INDENT = 2 };

struct tree {
    const struct weft_graph *graph;
    FILE *file;
    int all;
    uint8_t *wanted; /* per node: a GPU, NIC, port or rank, or above one */
};

/* "1 switch", "8 switches". */
static void count_put(FILE *file, uint64_t count, const char *one, const char *many)
{
    fprintf(file, "%" PRIu64 " %s", count, count == 1 ? one : many);
}

/* --- the line of one node --------------------------------------------------------------------------------- */

static void attributes_put(const struct tree *tree, const struct weft_node *node)
{
    for (uint32_t at = node->attributes_first; at != WEFT_NODE_NONE; at = tree->graph->attributes[at].next) {
        fprintf(tree->file, ", ");
        weft_topo_put(tree->file, tree->graph->attributes[at].name);
        fprintf(tree->file, "=");
        weft_topo_put(tree->file, tree->graph->attributes[at].value);
    }
}

static void name_put(const struct tree *tree, const struct weft_node *node, const char *what)
{
    fprintf(tree->file, "%s ", what);
    weft_topo_put(tree->file, node->name);
    if (node->pci && strcmp(node->pci, node->name) != 0) {
        fprintf(tree->file, ", ");
        weft_topo_put(tree->file, node->pci);
    }
}

static const char *bridge_name(const struct weft_node *node)
{
    static const char *const names[] = {[WEFT_BRIDGE_UNKNOWN] = "bridge",
                                        [WEFT_BRIDGE_HOST] = "host bridge",
                                        [WEFT_BRIDGE_PORT] = "root port",
                                        [WEFT_BRIDGE_SWITCH] = "PCI switch port"};
    if (node->bridge == WEFT_BRIDGE_SWITCH && node->flags & WEFT_BRIDGE_WHOLE)
        return "PCI switch";
    return node->bridge <= WEFT_BRIDGE_SWITCH ? names[node->bridge] : names[WEFT_BRIDGE_UNKNOWN];
}

/* What the device is, where the source says so in the words of hwloc. */
static void model_put(const struct tree *tree, uint32_t index)
{
    static const char *const given_as[] = {"GPUModel", "LevelZeroModel", "PCIDevice"};
    const char *model = NULL;
    for (size_t i = 0; !model && i < sizeof given_as / sizeof *given_as; i++)
        model = weft_graph_attribute(tree->graph, index, given_as[i]);
    if (!model)
        return;
    fprintf(tree->file, ", ");
    weft_topo_put(tree->file, model);
}

/* What the way up carries, where a way over PCI leads up. */
static void uplink_put(const struct tree *tree, const struct weft_node *node)
{
    char rate[WEFT_TOPO_AMOUNT_SIZE];
    if (node->parent_edge == WEFT_NODE_NONE || tree->graph->edges[node->parent_edge].kind != WEFT_EDGE_PCI)
        return;
    uint64_t bytes_per_s = tree->graph->edges[node->parent_edge].bytes_per_s;
    if (bytes_per_s)
        fprintf(tree->file, ", PCI %s", weft_topo_rate(bytes_per_s, rate));
    else
        fprintf(tree->file, ", PCI rate unknown");
}

static void port_put(const struct tree *tree, const struct weft_node *node)
{
    char bits[WEFT_TOPO_AMOUNT_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE];
    if (node->index >= 0)
        fprintf(tree->file, "port %" PRId32 ": ", node->index);
    else
        fprintf(tree->file, "port: ");
    fprintf(tree->file, "%s%s", node->state == WEFT_PORT_UNKNOWN ? "state " : "",
            weft_port_state_name((enum weft_port_state)node->state));
    if (node->bytes_per_s)
        fprintf(tree->file, ", %s (%s)", weft_topo_bits(node->bytes_per_s, bits),
                weft_topo_rate(node->bytes_per_s, rate));
    else
        fprintf(tree->file, ", rate unknown");
    if (node->guid)
        fprintf(tree->file, ", GUID %016" PRIx64, node->guid);
}

static void host_put(const struct tree *tree, const struct weft_node *node)
{
    name_put(tree, node, "host");
    if (node->flags & WEFT_HOST_VIRTUAL)
        fprintf(tree->file, " (virtual machine: how its devices are joined is not known)");
    if (node->flags & WEFT_HOST_CONTAINER)
        fprintf(tree->file, " (seen from within a container: devices may be missing)");
}

static void node_put(const struct tree *tree, uint32_t index)
{
    const struct weft_node *node = &tree->graph->nodes[index];
    uint32_t cores;
    switch ((enum weft_node_kind)node->kind) {
    case WEFT_NODE_HOST:
        host_put(tree, node);
        break;
    case WEFT_NODE_NUMA:
        fprintf(tree->file, node->index >= 0 ? "NUMA node %" PRId32 : "NUMA node", node->index);
        cores = weft_graph_count_below(tree->graph, index, WEFT_NODE_CORE);
        if (cores) {
            fprintf(tree->file, ", ");
            count_put(tree->file, cores, "core", "cores");
        }
        break;
    case WEFT_NODE_BRIDGE:
        name_put(tree, node, bridge_name(node));
        uplink_put(tree, node);
        break;
    case WEFT_NODE_PORT:
        port_put(tree, node);
        break;
    case WEFT_NODE_GPU:
    case WEFT_NODE_NIC:
        name_put(tree, node, node->kind == WEFT_NODE_GPU ? "GPU" : "NIC");
        if (!tree->all) /* else it stands among the attributes */
            model_put(tree, index);
        uplink_put(tree, node);
        if (node->guid)
            fprintf(tree->file, ", GUID %016" PRIx64, node->guid);
        break;
    default:
        name_put(tree, node, weft_node_kind_name((enum weft_node_kind)node->kind));
        uplink_put(tree, node);
    }
    if (node->rail >= 0 &&
        (node->parent == WEFT_NODE_NONE || tree->graph->nodes[node->parent].rail != node->rail))
        fprintf(tree->file, ", rail %" PRId32, node->rail);
    if (tree->all)
        attributes_put(tree, node);
    fprintf(tree->file, "\n");
}

/* --- one host --------------------------------------------------------------------------------------------- */

static void indent(const struct tree *tree, unsigned depth)
{
    fprintf(tree->file, "%*s", (int)(INDENT * depth), "");
}

/* Whether the node has a line of its own. */
static int is_shown(const struct tree *tree, uint32_t index)
{
    enum weft_node_kind kind = (enum weft_node_kind)tree->graph->nodes[index].kind;
    return tree->all || tree->wanted[index] || kind == WEFT_NODE_HOST || kind == WEFT_NODE_NUMA;
}

/* The functions below the node's children that have no line. */
static uint32_t hidden_below(const struct tree *tree, uint32_t index)
{
    uint32_t hidden = 0;
    for (uint32_t at = weft_graph_first(tree->graph, index); at != WEFT_NODE_NONE;
         at = tree->graph->nodes[at].sibling_next) {
        if (is_shown(tree, at))
            continue;
        hidden += tree->graph->nodes[at].kind == WEFT_NODE_DEVICE;
        hidden += weft_graph_count_below(tree->graph, at, WEFT_NODE_DEVICE);
    }
    return hidden;
}

/* Depth first without recursion: a file decides how deep this goes. */
static void host_tree_put(const struct tree *tree, uint32_t host)
{
    const struct weft_node *nodes = tree->graph->nodes;
    unsigned depth = 0;
    for (uint32_t at = host; at != WEFT_NODE_NONE;) {
        uint32_t next = WEFT_NODE_NONE;
        if (is_shown(tree, at)) {
            indent(tree, depth);
            node_put(tree, at);
            uint32_t hidden = hidden_below(tree, at);
            if (hidden) {
                indent(tree, depth + 1);
                count_put(tree->file, hidden, "other PCI function\n", "other PCI functions\n");
            }
            next = weft_graph_first(tree->graph, at);
        }
        if (next != WEFT_NODE_NONE) {
            depth++;
            at = next;
            continue;
        }
        while (at != host && nodes[at].sibling_next == WEFT_NODE_NONE) {
            at = nodes[at].parent;
            depth--;
        }
        at = at == host ? WEFT_NODE_NONE : nodes[at].sibling_next;
    }
}

/* Marks what leads to a GPU, a NIC, a port or a rank: parents have smaller numbers than their children. */
static void wanted_mark(struct tree *tree)
{
    const struct weft_graph *graph = tree->graph;
    for (uint32_t i = graph->node_count; i-- > 0;) {
        const struct weft_node *node = &graph->nodes[i];
        if (node->kind == WEFT_NODE_GPU || node->kind == WEFT_NODE_NIC || node->kind == WEFT_NODE_PORT ||
            node->kind == WEFT_NODE_RANK)
            tree->wanted[i] = 1;
        if (tree->wanted[i] && node->parent != WEFT_NODE_NONE)
            tree->wanted[node->parent] = 1;
    }
}

/* --- many hosts ------------------------------------------------------------------------------------------- */

static const struct {
    enum weft_node_kind kind;
    const char *one, *many;
} counted[] = {{WEFT_NODE_HOST, "host", "hosts"}, {WEFT_NODE_NUMA, "NUMA node", "NUMA nodes"},
               {WEFT_NODE_GPU, "GPU", "GPUs"},    {WEFT_NODE_NIC, "NIC", "NICs"},
               {WEFT_NODE_PORT, "port", "ports"}, {WEFT_NODE_SWITCH, "switch", "switches"},
               {WEFT_NODE_RANK, "rank", "ranks"}};
enum { COUNTED = sizeof counted / sizeof *counted };

struct shape {
    uint32_t counts[WEFT_NODE_KIND_COUNT];
    uint32_t host;
};

/* ", 2 NUMA nodes, 8 GPUs" of the kinds from `first` in the list on; without the comma where nothing stands before. */
static void counts_put(FILE *file, const uint32_t counts[WEFT_NODE_KIND_COUNT], unsigned first,
                       const char *between)
{
    int nothing = 1;
    for (unsigned i = first; i < COUNTED; i++) {
        if (!counts[counted[i].kind])
            continue;
        fprintf(file, "%s", nothing ? "" : between);
        count_put(file, counts[counted[i].kind], counted[i].one, counted[i].many);
        nothing = 0;
    }
    if (nothing)
        fprintf(file, "nothing known inside");
}

/* Hosts with most in them first; alike ones in the order in which they came. */
static int shape_compare(const void *a, const void *b)
{
    const struct shape *x = a, *y = b;
    for (unsigned i = 1; i < COUNTED; i++) {
        uint32_t of_x = x->counts[counted[i].kind], of_y = y->counts[counted[i].kind];
        if (of_x != of_y)
            return of_x > of_y ? -1 : 1;
    }
    return x->host < y->host ? -1 : x->host > y->host;
}

static int shape_same(const struct shape *a, const struct shape *b)
{
    for (unsigned i = 1; i < COUNTED; i++) {
        if (a->counts[counted[i].kind] != b->counts[counted[i].kind])
            return 0;
    }
    return 1;
}

static void shapes_put(const struct tree *tree, const struct shape *shapes, uint32_t count)
{
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && shape_same(&shapes[first], &shapes[end]);)
            end++;
        count_put(tree->file, end - first, "host with ", "hosts with ");
        counts_put(tree->file, shapes[first].counts, 1, ", ");
        fprintf(tree->file, ": ");
        for (uint32_t i = first; i < end; i++) {
            if (end - first > 4 && i == first + 2) {
                fprintf(tree->file, ", ...");
                i = end - 1;
            }
            fprintf(tree->file, "%s", i > first ? ", " : "");
            weft_topo_put(tree->file, tree->graph->nodes[shapes[i].host].name);
        }
        fprintf(tree->file, "\n");
    }
}

/* Counts what lies in each host in one pass over the graph. */
static int hosts_summarise(const struct tree *tree, uint32_t hosts)
{
    const struct weft_graph *graph = tree->graph;
    struct shape *shapes = calloc(hosts, sizeof *shapes);
    uint32_t *number = malloc((size_t)graph->node_count * sizeof *number);
    int status = WEFT_OK;
    if (!shapes || !number) {
        status = weft_fail(WEFT_NOMEM, "no memory to count %" PRIu32 " hosts", hosts);
        goto free_both;
    }
    uint32_t found = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct weft_node *node = &graph->nodes[i];
        if (node->kind == WEFT_NODE_HOST) {
            shapes[found].host = i;
            number[i] = found++;
        } else if (node->host != WEFT_NODE_NONE) {
            shapes[number[node->host]].counts[node->kind]++;
        }
    }
    qsort(shapes, found, sizeof *shapes, shape_compare);
    shapes_put(tree, shapes, found);
free_both:
    free(shapes);
    free(number);
    return status;
}

/* --- everything ------------------------------------------------------------------------------------------- */

static void title_put(const struct tree *tree, const uint32_t counts[WEFT_NODE_KIND_COUNT])
{
    weft_topo_put(tree->file, tree->graph->source);
    fprintf(tree->file, " (");
    weft_topo_put(tree->file, tree->graph->format);
    fprintf(tree->file, "): ");
    counts_put(tree->file, counts, 0, ", ");
    fprintf(tree->file, "\n");
}

static int hosts_put(const struct tree *tree, const uint32_t counts[WEFT_NODE_KIND_COUNT])
{
    uint32_t hosts = counts[WEFT_NODE_HOST];
    int nothing_inside = hosts + counts[WEFT_NODE_SWITCH] == tree->graph->node_count;
    int status = WEFT_OK;
    if (!tree->all && (hosts > HOSTS_SHOWN || (hosts && nothing_inside))) {
        fprintf(tree->file, "\n");
        return hosts_summarise(tree, hosts);
    }
    for (uint32_t at = weft_graph_first(tree->graph, WEFT_NODE_NONE);
         status == WEFT_OK && at != WEFT_NODE_NONE; at = tree->graph->nodes[at].sibling_next) {
        if (tree->graph->nodes[at].kind != WEFT_NODE_HOST)
            continue;
        fprintf(tree->file, "\n");
        host_tree_put(tree, at);
        status = weft_topo_links_text(tree->graph, at, tree->file);
    }
    return status;
}

int weft_topo_text(const struct weft_graph *graph, int all, FILE *file)
{
    struct tree tree = {.graph = graph, .file = file, .all = all};
    uint32_t counts[WEFT_NODE_KIND_COUNT] = {0};
    tree.wanted = calloc((size_t)graph->node_count + 1, 1);
    if (!tree.wanted)
        return weft_fail(WEFT_NOMEM, "no memory to print %" PRIu32 " nodes", graph->node_count);
    for (uint32_t i = 0; i < graph->node_count; i++)
        counts[graph->nodes[i].kind]++;
    wanted_mark(&tree);
    title_put(&tree, counts);
    int status = weft_topo_fabric_text(graph, all, file);
    if (status == WEFT_OK)
        status = weft_topo_degraded_text(graph, all, file);
    if (status == WEFT_OK)
        status = hosts_put(&tree, counts);
    free(tree.wanted);
    return status;
}
