/* SPDX-License-Identifier: Apache-2.0 */
/* What is drawn of a host: boxes within boxes.
 *
 *     host > NUMA node > bridge > ... > GPU, NIC
 *
 * A bridge that leads to one thing only would be a box around a box: it is left out, and the slowest PCI link on the way
 * stands in the device. Bridges that lead to neither GPU nor NIC are left out too; other devices are counted. Ports are
 * lines within their NIC, ranks a line where they sit, cores a number.
 *
 * Depth is bounded (boxes beyond DEPTH_MAX join the one around them), and so is what is drawn of one container and of
 * one machine; the rest is counted. Walks are loops over a list of the host's nodes: a file may nest as deep as it likes.
 */
#include "topo/tool/draw.h"

#include <stdlib.h>
#include <string.h>

#include "topo/natural.h"

enum {
    DEPTH_MAX = 6,
    BUILT_MAX = 1 << 16,
    DRAWN_MAX = 1200,
    CHILDREN_MAX = 128,
    PORTS_MAX = 4,
    CLIMB_MAX = 64
};

int draw_is_leaf(const struct draw_box *box)
{
    return box->role == DRAW_IS_GPU || box->role == DRAW_IS_NIC;
}

static void add_line(struct draw_box *box, enum draw_font font, const char *text)
{
    if (box->line_count == DRAW_LINES_MAX || !*text)
        return;
    box->fonts[box->line_count] = font;
    box->lines[box->line_count++] = text;
}

static struct draw_box *box_new(struct draw_sheet *sheet, struct draw_box *parent, enum draw_role role,
                                uint32_t node)
{
    struct draw_box *box = draw_alloc(sheet, sizeof *box);
    if (!box)
        return NULL;
    box->node = node;
    box->role = role;
    box->parent = parent;
    box->least_gpu = INT32_MAX;
    box->name = "";
    if (!parent)
        return box;
    box->depth = parent->depth + 1;
    if (parent->child_count == parent->child_capacity) {
        uint32_t capacity = parent->child_capacity ? 2 * parent->child_capacity : 4;
        struct draw_box **children = draw_alloc(sheet, capacity * sizeof *children);
        if (!children)
            return NULL;
        if (parent->child_count)
            memcpy(children, parent->children, parent->child_count * sizeof *children);
        parent->children = children;
        parent->child_capacity = capacity;
    }
    parent->children[parent->child_count++] = box;
    return box;
}

static const struct weft_edge *parent_edge(const struct weft_graph *graph, uint32_t node)
{
    uint32_t edge = graph->nodes[node].parent_edge;
    return edge == WEFT_NODE_NONE ? NULL : &graph->edges[edge];
}

/* The slowest PCI link from the node up to the box that holds it; 0: none is known. */
static uint64_t slowest_up(const struct weft_graph *graph, uint32_t node, uint32_t until)
{
    uint64_t slowest = 0;
    for (int i = 0; i < CLIMB_MAX && node != until && node != WEFT_NODE_NONE;
         i++, node = graph->nodes[node].parent) {
        const struct weft_edge *edge = parent_edge(graph, node);
        if (edge && edge->kind == WEFT_EDGE_PCI && edge->bytes_per_s &&
            (!slowest || edge->bytes_per_s < slowest))
            slowest = edge->bytes_per_s;
    }
    return slowest;
}

static const char *bridge_word(const struct weft_node *node)
{
    static const char *const words[] = {[WEFT_BRIDGE_UNKNOWN] = "PCI bridge",
                                        [WEFT_BRIDGE_HOST] = "host bridge",
                                        [WEFT_BRIDGE_PORT] = "root port",
                                        [WEFT_BRIDGE_SWITCH] = "PCI switch"};
    return words[node->bridge <= WEFT_BRIDGE_SWITCH ? node->bridge : WEFT_BRIDGE_UNKNOWN];
}

static int by_port(const void *a, const void *b, void *context)
{
    const struct weft_graph *graph = context;
    const struct weft_node *p = &graph->nodes[*(const uint32_t *)a], *q = &graph->nodes[*(const uint32_t *)b];
    return p->index != q->index ? (p->index < q->index ? -1 : 1) : weft_natural_compare(p->name, q->name);
}

static void port_line(struct draw_sheet *sheet, struct draw_box *box, const struct weft_node *port, int alone)
{
    const char *number = alone || port->index < 0 ? "" : draw_format(sheet, "%d: ", port->index);
    if (port->state == WEFT_PORT_DOWN || port->state == WEFT_PORT_INIT || port->state == WEFT_PORT_ARMED)
        add_line(box, DRAW_BAD, draw_format(sheet, "%s%s", number, weft_port_state_name(port->state)));
    else
        add_line(box, DRAW_SMALL, draw_format(sheet, "%s%s", number, draw_bits(sheet, port->bytes_per_s)));
}

/* Ports by number; a NIC counts as down when ports are and none is not. */
static void add_ports(struct draw_sheet *sheet, const struct weft_graph *graph, struct draw_box *box)
{
    uint32_t ports[PORTS_MAX], count = 0, down = 0;
    for (uint32_t n = weft_graph_first(graph, box->node); n != WEFT_NODE_NONE;
         n = graph->nodes[n].sibling_next) {
        if (graph->nodes[n].kind != WEFT_NODE_PORT)
            continue;
        down += graph->nodes[n].state == WEFT_PORT_DOWN;
        if (count < PORTS_MAX)
            ports[count] = n;
        count++;
    }
    uint32_t shown = count < PORTS_MAX ? count : PORTS_MAX;
    qsort_r(ports, shown, sizeof *ports, by_port, (void *)(uintptr_t)graph);
    for (uint32_t i = 0; i < shown; i++)
        port_line(sheet, box, &graph->nodes[ports[i]], count == 1);
    if (count > shown)
        add_line(box, DRAW_SMALL, draw_format(sheet, "+ %u ports", count - shown));
    box->down = count > 0 && down == count;
}

/* A GPU joined with its processor or NIC directly. */
static void add_own_links(struct draw_sheet *sheet, const struct weft_graph *graph, struct draw_box *box)
{
    const char *found[2] = {NULL, NULL};
    uint32_t count;
    const uint32_t *edges = weft_graph_edges_of(graph, box->node, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_edge *edge = &graph->edges[edges[i]];
        const struct weft_node *other = &graph->nodes[weft_edge_other(edge, box->node)];
        if (edge->kind != WEFT_EDGE_GPU_LINK || other->kind == WEFT_NODE_GPU)
            continue;
        const char *what = edge->flags & WEFT_EDGE_C2C      ? "C2C"
                           : edge->flags & WEFT_EDGE_NVLINK ? "NVLink"
                                                            : "link";
        const char *line = draw_format(sheet, "%s %s: %s", what, other->name,
                                       draw_bytes(sheet, edge->bytes_per_s * edge->links));
        int at = !found[0] || weft_natural_compare(line, found[0]) < 0 ? 0 : 1;
        if (at == 0)
            found[1] = found[0];
        else if (found[1] && weft_natural_compare(line, found[1]) >= 0)
            continue;
        found[at] = line;
    }
    for (int i = 0; i < 2 && found[i]; i++)
        add_line(box, DRAW_SMALL, found[i]);
}

static void fill_leaf(struct draw_sheet *sheet, const struct draw_machine *machine, struct draw_box *box)
{
    const struct weft_graph *graph = machine->graph;
    const struct weft_node *node = &graph->nodes[box->node];
    add_line(box, DRAW_NAME, node->name);
    if (node->pci && strcmp(node->pci, node->name) != 0)
        add_line(box, DRAW_SMALL, node->pci);
    uint64_t rate = slowest_up(graph, box->node, box->parent->node);
    if (rate)
        add_line(box, DRAW_SMALL, draw_format(sheet, "PCI %s", draw_bytes(sheet, rate)));
    if (box->role == DRAW_IS_GPU)
        add_own_links(sheet, graph, box);
    else
        add_ports(sheet, graph, box);
    if (box->ranks == 1 && !machine->many)
        add_line(box, DRAW_SMALL, draw_format(sheet, "rank %d", box->one_rank));
    else if (box->ranks)
        add_line(box, DRAW_SMALL, draw_format(sheet, "%u rank%s", box->ranks, box->ranks == 1 ? "" : "s"));
}

static void fill_container(struct draw_sheet *sheet, const struct weft_graph *graph, struct draw_box *box)
{
    const struct weft_node *node = &graph->nodes[box->node];
    if (box->role == DRAW_IS_NUMA) {
        add_line(box, DRAW_HEAD, node->index >= 0 ? draw_format(sheet, "NUMA %d", node->index) : node->name);
        if (box->cores)
            add_line(box, DRAW_SMALL,
                     draw_format(sheet, "%u core%s", box->cores, box->cores == 1 ? "" : "s"));
    } else if (box->role == DRAW_IS_BRIDGE) {
        uint64_t rate = slowest_up(graph, box->node, box->parent->node);
        add_line(box, DRAW_HEAD, bridge_word(node));
        add_line(box, DRAW_SMALL, node->pci ? node->pci : node->name);
        if (rate)
            add_line(box, DRAW_SMALL, draw_format(sheet, "%s up", draw_bytes(sheet, rate)));
    } else if (box->cores) {
        add_line(box, DRAW_SMALL, draw_format(sheet, "%u core%s", box->cores, box->cores == 1 ? "" : "s"));
    }
    if (box->ranks)
        add_line(box, DRAW_SMALL, draw_format(sheet, "%u rank%s", box->ranks, box->ranks == 1 ? "" : "s"));
    if (box->devices)
        add_line(box, DRAW_SMALL,
                 draw_format(sheet, "+ %u other device%s", box->devices, box->devices == 1 ? "" : "s"));
    if (box->left_out)
        add_line(box, DRAW_SMALL, draw_format(sheet, "+ %u not drawn", box->left_out));
}

/* Boxes, then GPUs, then NICs; by the numbers of GPUs, by name, those without a name of their own by address. */
static int by_key(const void *a, const void *b)
{
    const struct draw_box *p = *(struct draw_box *const *)a, *q = *(struct draw_box *const *)b;
    if (p->role != q->role)
        return p->role < q->role ? -1 : 1;
    if (p->least_gpu != q->least_gpu)
        return p->least_gpu < q->least_gpu ? -1 : 1;
    if (!p->address != !q->address)
        return p->address ? 1 : -1;
    int order = p->address ? strcmp(p->address, q->address) : 0;
    return order ? order : weft_natural_compare(p->name, q->name);
}

/* Sorts, cuts what is too much, writes the lines; children first, as a box is sorted by the GPUs in it. */
static void finish(struct draw_sheet *sheet, struct draw_machine *machine, struct draw_box *box,
                   uint32_t *drawn)
{
    const struct weft_graph *graph = machine->graph;
    if (box->child_count)
        qsort(box->children, box->child_count, sizeof(struct draw_box *), by_key);
    uint32_t kept = 0;
    for (; kept < box->child_count && kept < CHILDREN_MAX && *drawn < DRAWN_MAX; kept++) {
        machine->boxes[(*drawn)++] = box->children[kept];
        finish(sheet, machine, box->children[kept], drawn);
    }
    box->left_out += box->child_count - kept;
    box->child_count = kept;
    if (draw_is_leaf(box))
        fill_leaf(sheet, machine, box);
    else
        fill_container(sheet, graph, box);
}

/* Numbers of NUMA nodes count before names, and so do those of GPUs among each other. */
static void set_key(struct draw_box *box, const struct weft_node *node)
{
    box->name = node->name;
    box->address = node->pci && (!draw_is_leaf(box) || strcmp(node->pci, node->name) == 0) ? node->pci : NULL;
    if (box->role == DRAW_IS_NUMA || box->role == DRAW_IS_GPU)
        box->least_gpu = node->index >= 0 ? node->index : INT32_MAX;
}

struct walk {
    struct draw_sheet *sheet;
    struct draw_machine *machine;
    struct draw_box **box_of; /* by node: the box that holds what is below it */
    uint32_t *order, count;   /* the host's nodes, parents first */
    uint32_t *below, *kids;   /* by position in order: GPUs and NICs at it and below; children with some */
    uint32_t built;
};

/* The box of a node that gets one; NULL: what is below it goes to its parent's. */
static struct draw_box *make_box(struct walk *walk, uint32_t at, struct draw_box *around)
{
    uint32_t n = walk->order[at];
    const struct weft_node *node = &walk->machine->graph->nodes[n];
    enum draw_role role;
    if (draw_is_leaf(around))
        return NULL;
    if (node->kind == WEFT_NODE_NUMA && around->depth < DEPTH_MAX)
        role = DRAW_IS_NUMA;
    else if (node->kind == WEFT_NODE_BRIDGE && walk->kids[at] > 1 && around->depth < DEPTH_MAX)
        role = DRAW_IS_BRIDGE;
    else if (node->kind == WEFT_NODE_GPU || node->kind == WEFT_NODE_NIC)
        role = node->kind == WEFT_NODE_GPU ? DRAW_IS_GPU : DRAW_IS_NIC;
    else
        return NULL;
    if (walk->built == BUILT_MAX) {
        around->left_out++;
        return NULL;
    }
    walk->built++;
    struct draw_box *box = box_new(walk->sheet, around, role, n);
    if (!box)
        return NULL;
    set_key(box, node);
    if (role == DRAW_IS_GPU) {
        for (struct draw_box *up = around; up && up->role == DRAW_IS_BRIDGE; up = up->parent)
            up->least_gpu = node->index >= 0 && node->index < up->least_gpu ? node->index : up->least_gpu;
    }
    return box;
}

static void build(struct walk *walk)
{
    const struct weft_graph *graph = walk->machine->graph;
    for (uint32_t i = 1; i < walk->count && !walk->sheet->failed; i++) {
        const struct weft_node *node = &graph->nodes[walk->order[i]];
        struct draw_box *around = walk->box_of[node->parent], *box = make_box(walk, i, around);
        walk->box_of[walk->order[i]] = box ? box : around;
        if (node->kind == WEFT_NODE_CORE)
            around->cores++;
        else if (node->kind == WEFT_NODE_DEVICE)
            around->devices++;
        if (node->kind == WEFT_NODE_RANK) {
            around->ranks++;
            around->one_rank = node->index;
        }
    }
}

/* Lists the host's nodes and counts, from the end of the list, what is below each. */
static int list(struct walk *walk)
{
    const struct weft_graph *graph = walk->machine->graph;
    uint32_t host = walk->machine->host, count = 0;
    for (uint32_t n = host; n != WEFT_NODE_NONE; n = weft_graph_next(graph, host, n))
        count++;
    walk->order = draw_alloc(walk->sheet, count * sizeof *walk->order);
    walk->below = draw_alloc(walk->sheet, count * sizeof *walk->below);
    walk->kids = draw_alloc(walk->sheet, count * sizeof *walk->kids);
    uint32_t *position = draw_alloc(walk->sheet, graph->node_count * sizeof *position);
    if (walk->sheet->failed)
        return -1;
    for (uint32_t n = host; n != WEFT_NODE_NONE; n = weft_graph_next(graph, host, n)) {
        position[n] = walk->count;
        walk->order[walk->count++] = n;
    }
    for (uint32_t i = walk->count; i-- > 1;) {
        const struct weft_node *node = &graph->nodes[walk->order[i]];
        uint32_t up = position[node->parent];
        walk->below[i] += node->kind == WEFT_NODE_GPU || node->kind == WEFT_NODE_NIC;
        walk->below[up] += walk->below[i];
        walk->kids[up] += walk->below[i] > 0;
    }
    return 0;
}

static struct draw_box *end_box(struct draw_box **box_of, const struct draw_machine *machine, uint32_t node,
                                enum draw_role role)
{
    struct draw_box *box = machine->graph->nodes[node].host == machine->host ? box_of[node] : NULL;
    return box && box->node == node && box->role == role ? box : NULL;
}

static int by_link(const void *a, const void *b)
{
    const struct draw_link *p = a, *q = b;
    if (p->a != q->a || p->b != q->b)
        return p->a != q->a ? (p->a < q->a ? -1 : 1) : (p->b < q->b ? -1 : 1);
    if (p->flags != q->flags || p->bytes_per_s != q->bytes_per_s)
        return p->flags != q->flags ? (p->flags < q->flags ? -1 : 1)
                                    : (p->bytes_per_s < q->bytes_per_s ? -1 : 1);
    return 0;
}

/* Edges of the kind between drawn boxes of the role; equal ones between the same two are joined. */
static void collect_links(struct walk *walk, enum draw_role role, enum weft_edge_kind kind,
                          struct draw_links *links)
{
    const struct draw_machine *machine = walk->machine;
    const struct weft_graph *graph = machine->graph;
    uint32_t capacity = 0, count, kept = 0;
    links->kind = kind;
    links->ends = draw_alloc(walk->sheet, (machine->box_count + 1) * sizeof *links->ends);
    if (!links->ends)
        return;
    for (uint32_t i = 0; i < machine->box_count; i++) {
        if (machine->boxes[i]->role != role)
            continue;
        machine->boxes[i]->row = (int)links->end_count; /* until it is laid out */
        links->ends[links->end_count++] = machine->boxes[i];
        weft_graph_edges_of(graph, machine->boxes[i]->node, &count);
        capacity += count;
    }
    links->links = draw_alloc(walk->sheet, (capacity + 1) * sizeof *links->links);
    if (!links->links)
        return;
    for (uint32_t i = 0; i < links->end_count; i++) {
        const uint32_t *edges = weft_graph_edges_of(graph, links->ends[i]->node, &count);
        for (uint32_t e = 0; e < count; e++) {
            const struct weft_edge *edge = &graph->edges[edges[e]];
            struct draw_box *other =
                end_box(walk->box_of, machine, weft_edge_other(edge, links->ends[i]->node), role);
            if (edge->kind != kind || !other || links->ends[other->row] != other || other->row <= (int)i)
                continue;
            links->links[links->link_count++] = (struct draw_link){i,
                                                                   (uint32_t)other->row,
                                                                   edge->links,
                                                                   edge->bytes_per_s,
                                                                   edge->flags & ~(unsigned)WEFT_EDGE_PARENT,
                                                                   0};
        }
    }
    if (links->link_count)
        qsort(links->links, links->link_count, sizeof *links->links, by_link);
    for (uint32_t i = 0; i < links->link_count; i++) {
        if (kept && by_link(&links->links[kept - 1], &links->links[i]) == 0)
            links->links[kept - 1].links += links->links[i].links;
        else
            links->links[kept++] = links->links[i];
    }
    links->link_count = kept;
}

struct draw_machine *draw_machine_new(struct draw_sheet *sheet, const struct weft_graph *graph, uint32_t host,
                                      int many, struct draw_box **scratch)
{
    struct draw_machine *machine = draw_alloc(sheet, sizeof *machine);
    if (!machine)
        return NULL;
    machine->graph = graph;
    machine->host = host;
    machine->many = many;
    machine->top = box_new(sheet, NULL, DRAW_IS_HOST, host);
    machine->boxes = draw_alloc(sheet, DRAWN_MAX * sizeof *machine->boxes);
    struct walk walk = {.sheet = sheet, .machine = machine, .box_of = scratch};
    if (sheet->failed || list(&walk) != 0)
        return NULL;
    scratch[host] = machine->top;
    set_key(machine->top, &graph->nodes[host]);
    build(&walk);
    if (sheet->failed)
        return NULL;
    finish(sheet, machine, machine->top, &machine->box_count);
    collect_links(&walk, DRAW_IS_NUMA, WEFT_EDGE_SOCKET, &machine->sockets);
    collect_links(&walk, DRAW_IS_GPU, WEFT_EDGE_GPU_LINK, &machine->gpus);
    machine->sockets.up = 1;
    return sheet->failed ? NULL : machine;
}
