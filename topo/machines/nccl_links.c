/* SPDX-License-Identifier: Apache-2.0 */
/* Links of NCCL's XML become edges.
 *
 * Both ends of a link between GPUs tell it, each with its count, so that a pair of GPUs has one edge: with as many links
 * as the end that tells more has. GPUs with links to NVSwitches reach each other with all of them: each pair gets an
 * edge with as many as the GPU that has less. That is quadratic, so there is a bound far above what machines have. A
 * target that the file does not have is left alone, as NCCL writes only the GPUs that take part; its link is kept as
 * an attribute (nccl_nodes.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/machines/nccl.h"

#define SWITCHED_MAX 64 /* GPUs on NVSwitches in one host */

struct link {
    uint32_t low, high;   /* nodes; low < high; NVSwitches are the host */
    uint8_t from_high;    /* which of them tells it */
    uint8_t kind, flags;  /* of the edge */
    uint32_t count;       /* 0: not told */
    uint64_t bytes_per_s; /* of one link */
    uint32_t element;
};

struct links {
    struct weft_nccl_file *file;
    struct link *all;
    uint32_t count;
};

static int64_t integer_of(const struct weft_xml_element *view, const char *name, int64_t missing)
{
    int64_t value = missing;
    weft_xml_integer(view, name, INT64_MIN, INT64_MAX, missing, &value); /* was checked */
    return value;
}

static void link_add(struct links *links, uint32_t element, uint32_t from, uint32_t to, struct link given)
{
    struct weft_xml_element view = weft_xml_tree_element(&links->file->tree, element);
    given.low = from < to ? from : to;
    given.high = from < to ? to : from;
    given.from_high = from > to;
    given.element = element;
    given.count = (uint32_t)integer_of(&view, "count", 0);
    links->all[links->count++] = given;
}

/* The node of a GPU at the address: 1; 0 where the file has nothing there; -1 where it has something else. */
static int gpu_at(const struct weft_nccl_file *file, uint32_t host, const char *canonical, uint32_t *node)
{
    uint32_t pci = weft_nccl_at(file, host, canonical);
    if (pci == WEFT_XML_NONE)
        return 0;
    *node = file->marks[pci].node;
    if (file->marks[pci].becomes == WEFT_NODE_GPU)
        return 1;
    /* Several in one pci: its first. */
    for (uint32_t c = file->tree.nodes[pci].child_first; c != WEFT_XML_NONE; c = file->tree.nodes[c].next) {
        if (file->marks[c].kind == WEFT_NCCL_GPU) {
            *node = file->marks[c].node;
            return 1;
        }
    }
    return -1;
}

static int link_to_gpu(struct links *links, uint32_t element, uint32_t from, struct link given)
{
    struct weft_nccl_file *file = links->file;
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    const char *target = weft_xml_attribute(&view, "target");
    char canonical[32];
    uint32_t to;
    int status = weft_pci_parse(target, canonical);
    if (status)
        return weft_nccl_failed(file, element, status);
    int found = gpu_at(file, file->marks[element].host, canonical, &to);
    if (found < 0)
        return weft_xml_fail(&view, "<%s> leads to %s, which is no GPU in line %u", view.name, canonical,
                             file->tree.nodes[weft_nccl_at(file, file->marks[element].host, canonical)].line);
    if (found && to == from)
        weft_nccl_odd(file, WEFT_NCCL_ODD_SELF_LINK, (uint32_t)view.line,
                      "<%s> leads from %s to itself, passed over", view.name, canonical);
    else if (found)
        link_add(links, element, from, to, given);
    return WEFT_OK;
}

/* nvlink and xgmi. */
static int link_gpu(struct links *links, uint32_t element)
{
    struct weft_nccl_file *file = links->file;
    uint32_t gpu = file->tree.nodes[element].parent, from = file->marks[gpu].node, to = WEFT_NODE_NONE;
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    struct weft_xml_element owner = weft_xml_tree_element(&file->tree, gpu);
    int is_xgmi = file->marks[element].kind == WEFT_NCCL_XGMI;
    struct link given = {.kind = WEFT_EDGE_GPU_LINK, .flags = is_xgmi ? WEFT_EDGE_XGMI : WEFT_EDGE_NVLINK};
    given.bytes_per_s = is_xgmi ? weft_nccl_xgmi_bytes_per_s(weft_xml_attribute(&owner, "gcn"))
                                : weft_nccl_nvlink_bytes_per_s(integer_of(&owner, "sm", 0));
    uint64_t class = 0;
    weft_xml_unsigned(&view, "tclass", UINT64_MAX, 0, &class); /* was checked */
    if (class == 0x068001) {                                   /* the processor */
        to = weft_graph_above(file->graph, from, WEFT_NODE_NUMA);
    } else if (class == 0x068000) {
        to = file->graph->nodes[from].host;
        given.flags |= WEFT_EDGE_NVSWITCH;
    } else {
        return link_to_gpu(links, element, from, given);
    }
    link_add(links, element, from, to, given);
    return WEFT_OK;
}

static void link_c2c(struct links *links, uint32_t element)
{
    struct weft_nccl_file *file = links->file;
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    uint32_t from = file->marks[file->tree.nodes[element].parent].node;
    struct link given = {.kind = WEFT_EDGE_GPU_LINK, .flags = WEFT_EDGE_C2C};
    given.bytes_per_s = (uint64_t)integer_of(&view, "bw", 0) * 1000000;
    link_add(links, element, from, weft_graph_above(file->graph, from, WEFT_NODE_NUMA), given);
}

static int link_pci(struct links *links, uint32_t element)
{
    struct weft_nccl_file *file = links->file;
    uint32_t owner = file->tree.nodes[element].parent;
    char canonical[32];
    int status = weft_pci_parse(weft_nccl_value(file, element, "target"), canonical);
    if (status)
        return weft_nccl_failed(file, element, status);
    uint32_t target = weft_nccl_at(file, file->marks[element].host, canonical);
    if (target == WEFT_XML_NONE)
        return WEFT_OK;
    if (file->marks[target].node == file->marks[owner].node)
        return weft_read_fail(file->text, file->tree.nodes[element].line, "<pcilink> leads from %s to itself",
                              canonical);
    link_add(links, element, file->marks[owner].node, file->marks[target].node,
             (struct link){.kind = WEFT_EDGE_PCI});
    return WEFT_OK;
}

static int compare_links(const void *left, const void *right)
{
    const struct link *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    if (a->high != b->high)
        return a->high < b->high ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->flags != b->flags)
        return a->flags < b->flags ? -1 : 1;
    return a->element < b->element ? -1 : a->element > b->element;
}

static int same_link(const struct link *a, const struct link *b)
{
    return a->low == b->low && a->high == b->high && a->kind == b->kind && a->flags == b->flags;
}

/* What both ends tell as one edge: sums by end, the larger of the two; the rate of a link that both can do, which says nothing
 * of an edge without the number of its links. */
static struct weft_edge edge_of(const struct link *from, const struct link *end)
{
    uint64_t count[2] = {0, 0}, bytes_per_s = from->bytes_per_s;
    int unlisted = 0;
    for (const struct link *at = from; at < end; at++) {
        count[at->from_high] += at->count ? at->count : 1;
        unlisted |= at->count == 0 && at->kind == WEFT_EDGE_GPU_LINK;
        bytes_per_s = at->bytes_per_s < bytes_per_s ? at->bytes_per_s : bytes_per_s;
    }
    return (struct weft_edge){.a = from->low,
                              .b = from->high,
                              .kind = from->kind,
                              .flags = from->flags | (unlisted ? WEFT_EDGE_LINKS_UNKNOWN : 0),
                              .links = unlisted ? 1 : (uint32_t)(count[0] > count[1] ? count[0] : count[1]),
                              .bytes_per_s = unlisted ? 0 : bytes_per_s,
                              .port_a = -1,
                              .port_b = -1};
}

/* Two GPUs of a host that reach its NVSwitches. */
static int pair_add(struct weft_nccl_file *file, const struct link *a, const struct link *b)
{
    struct link both[2] = {*a, *b};
    struct weft_edge edge = edge_of(both, both + 2);
    edge.a = a->high;
    edge.b = b->high;
    edge.links = a->count && b->count ? (a->count < b->count ? a->count : b->count) : 1;
    return weft_nccl_failed(file, a->element, weft_graph_add_edge(file->graph, &edge, NULL));
}

/* All GPUs of one host that do, each once. */
static int pairs_add(struct weft_nccl_file *file, const struct link *from, const struct link *end)
{
    int status = WEFT_OK;
    if (end - from > SWITCHED_MAX)
        return weft_read_fail(file->text, file->tree.nodes[from[SWITCHED_MAX].element].line,
                              "more than %d GPUs on NVSwitches in one host", SWITCHED_MAX);
    for (const struct link *a = from; a < end; a++) {
        for (const struct link *b = a + 1; b < end && status == WEFT_OK; b++)
            status = pair_add(file, a, b);
    }
    return status;
}

/* Edges of sorted links. Those to NVSwitches gather at the front, each GPU's as one. */
static int edges_add(struct links *links)
{
    uint32_t switched = 0;
    int status = WEFT_OK;
    for (uint32_t i = 0, end; i < links->count && status == WEFT_OK; i = end) {
        for (end = i + 1; end < links->count && same_link(&links->all[i], &links->all[end]);)
            end++;
        struct weft_edge edge = edge_of(&links->all[i], &links->all[end]);
        if (edge.flags & WEFT_EDGE_NVSWITCH) {
            links->all[switched] = links->all[i];
            links->all[switched++].count = edge.flags & WEFT_EDGE_LINKS_UNKNOWN ? 0 : edge.links;
        } else {
            status = weft_nccl_failed(links->file, links->all[i].element,
                                      weft_graph_add_edge(links->file->graph, &edge, NULL));
        }
    }
    for (uint32_t i = 0, end; i < switched && status == WEFT_OK; i = end) {
        for (end = i + 1; end < switched && links->all[end].low == links->all[i].low;)
            end++;
        status = pairs_add(links->file, &links->all[i], &links->all[end]);
    }
    return status;
}

static int links_gather(struct links *links)
{
    struct weft_nccl_file *file = links->file;
    int status = WEFT_OK;
    for (uint32_t i = 0; i < file->tree.count && status == WEFT_OK; i++) {
        switch ((enum weft_nccl_kind)file->marks[i].kind) {
        case WEFT_NCCL_NVLINK:
        case WEFT_NCCL_XGMI:
            status = link_gpu(links, i);
            break;
        case WEFT_NCCL_C2C:
            link_c2c(links, i);
            break;
        case WEFT_NCCL_PCILINK:
            status = link_pci(links, i);
            break;
        default:
            break;
        }
    }
    return status;
}

int weft_nccl_links(struct weft_nccl_file *file)
{
    uint32_t room = 0;
    for (uint32_t i = 0; i < file->tree.count; i++)
        room += file->marks[i].kind >= WEFT_NCCL_NVLINK && file->marks[i].kind <= WEFT_NCCL_PCILINK;
    if (room == 0)
        return WEFT_OK;
    struct links links = {.file = file, .all = malloc(room * sizeof *links.all)};
    if (!links.all)
        return weft_fail(WEFT_NOMEM, "%.300s: no memory for %u links", file->text->name, room);
    int status = links_gather(&links);
    if (status == WEFT_OK && links.count) {
        qsort(links.all, links.count, sizeof *links.all, compare_links);
        status = edges_add(&links);
    }
    free(links.all);
    return status;
}
