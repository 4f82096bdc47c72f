/* SPDX-License-Identifier: Apache-2.0 */
/* Links between GPUs out of hwloc's relative values.
 *
 * hwloc's NVML, RSMI and Level Zero parts write a matrix of bandwidths in MB/s, both directions of a pair as two values
 * ("NVLinkBandwidth", "XGMIBandwidth", "XeLinkBandwidth"); the diagonal, which stands for the device itself, is passed
 * over. A value is the sum over all links of a pair, how many is not told: one edge, with its links unknown. NVLink's
 * matrix also holds what else the links end at: packages (POWER) and NVSwitches, functions on PCI. GPUs that share an
 * NVSwitch reach each other with what the weaker of them has to all switches together.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/files/hwloc.h"

struct numbered {
    uint64_t number;
    uint32_t object;
};

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct numbered *)a)->number, y = ((const struct numbered *)b)->number;
    return x < y ? -1 : x > y;
}

/* All objects that have a gp_index, sorted by it. */
static int index_objects(const struct weft_hwloc_file *file, struct numbered **result, uint32_t *count)
{
    struct numbered *sorted = malloc(file->object_count * sizeof *sorted);
    if (!sorted)
        return weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
    uint32_t used = 0;
    for (uint32_t i = 0; i < file->object_count; i++) {
        if (file->objects[i].gp_index)
            sorted[used++] = (struct numbered){file->objects[i].gp_index, i};
    }
    qsort(sorted, used, sizeof *sorted, by_number);
    for (uint32_t i = 1; i < used; i++) {
        if (sorted[i].number == sorted[i - 1].number) {
            uint32_t a = sorted[i - 1].object, b = sorted[i].object;
            free(sorted);
            return weft_read_fail(file->text, file->objects[a > b ? a : b].line,
                                  "gp_index %llu is also that of the object at line %zu",
                                  (unsigned long long)file->objects[a].gp_index,
                                  file->objects[a < b ? a : b].line);
        }
    }
    *result = sorted;
    *count = used;
    return WEFT_OK;
}

static int resolve(const struct weft_hwloc_file *file, struct weft_hwloc_matrix *matrix,
                   const struct numbered *sorted, uint32_t count)
{
    for (uint64_t i = 0; i < matrix->size; i++) {
        struct weft_hwloc_reference *reference = &matrix->references[i];
        if (reference->by_os_index)
            continue; /* a processor or NUMA node: no link of a GPU that hwloc tells of ends there */
        struct numbered wanted = {.number = reference->number};
        const struct numbered *found = bsearch(&wanted, sorted, count, sizeof wanted, by_number);
        if (!found)
            return weft_read_fail(file->text, matrix->line, "%.40s names gp_index %llu, which no object has",
                                  matrix->name, (unsigned long long)reference->number);
        reference->object = found->object;
    }
    return WEFT_OK;
}

/* What a reference is in the graph: a GPU, a package's NUMA node, an NVSwitch's function; NONE for anything else. */
static int end_of(struct weft_hwloc_file *file, const struct weft_hwloc_reference *reference, uint32_t *node)
{
    *node = WEFT_NODE_NONE;
    if (reference->object == WEFT_HWLOC_NONE)
        return WEFT_OK;
    const struct weft_hwloc_object *object = &file->objects[reference->object];
    if (object->type == WEFT_HWLOC_DEVICE)
        object = &file->objects[object->owner];
    if (object->type == WEFT_HWLOC_PCI)
        *node = object->node;
    else if (object->type == WEFT_HWLOC_PACKAGE || object->type == WEFT_HWLOC_NUMA)
        return weft_hwloc_place(file, object, node);
    return WEFT_OK;
}

static unsigned flag_of(const char *name)
{
    return strcmp(name, "NVLinkBandwidth") == 0   ? WEFT_EDGE_NVLINK
           : strcmp(name, "XGMIBandwidth") == 0   ? WEFT_EDGE_XGMI
           : strcmp(name, "XeLinkBandwidth") == 0 ? WEFT_EDGE_XE
                                                  : 0;
}

static uint64_t bytes_per_s(uint64_t megabytes)
{
    return megabytes > UINT64_MAX / 1000000 ? 0 : megabytes * 1000000;
}

/* What both directions have. */
static uint64_t between(const struct weft_hwloc_matrix *matrix, uint64_t a, uint64_t b)
{
    uint64_t there = matrix->values[a * matrix->size + b], back = matrix->values[b * matrix->size + a];
    return !there || !back ? there + back : there < back ? there : back;
}

static int add_link(struct weft_graph *graph, uint32_t a, uint32_t b, unsigned flags, uint64_t megabytes)
{
    struct weft_edge told = {.a = a,
                             .b = b,
                             .kind = WEFT_EDGE_GPU_LINK,
                             .flags = (uint8_t)(flags | WEFT_EDGE_LINKS_UNKNOWN),
                             .links = 1,
                             .bytes_per_s = bytes_per_s(megabytes),
                             .port_a = -1,
                             .port_b = -1};
    uint32_t edge;
    return weft_graph_add_edge(graph, &told, &edge);
}

static int is_gpu(const struct weft_graph *graph, uint32_t node)
{
    return node != WEFT_NODE_NONE && graph->nodes[node].kind == WEFT_NODE_GPU;
}

/* Adds what one side of the matrix has to the other, above its diagonal. through: MB/s of each to NVSwitches. */
static int add_links(struct weft_graph *graph, const struct weft_hwloc_matrix *matrix, const uint32_t *ends,
                     uint64_t *through)
{
    unsigned flags = flag_of(matrix->name);
    int status = WEFT_OK;
    for (uint64_t i = 0; i < matrix->size && !status; i++) {
        for (uint64_t j = i + 1; j < matrix->size && !status; j++) {
            uint64_t megabytes = between(matrix, i, j);
            uint32_t a = ends[i], b = ends[j];
            if (!megabytes || a == WEFT_NODE_NONE || b == WEFT_NODE_NONE || a == b ||
                (!is_gpu(graph, a) && !is_gpu(graph, b)))
                continue;
            unsigned kind_a = graph->nodes[a].kind, kind_b = graph->nodes[b].kind;
            if (kind_a == WEFT_NODE_DEVICE)
                through[j] += megabytes;
            else if (kind_b == WEFT_NODE_DEVICE)
                through[i] += megabytes;
            else if (kind_a != WEFT_NODE_HOST && kind_b != WEFT_NODE_HOST)
                status = add_link(graph, a, b, flags, megabytes);
        }
    }
    for (uint64_t i = 0; i < matrix->size && !status; i++) {
        for (uint64_t j = i + 1; j < matrix->size && !status; j++) {
            if (through[i] && through[j] && ends[i] != ends[j])
                status = add_link(graph, ends[i], ends[j], flags | WEFT_EDGE_NVSWITCH,
                                  through[i] < through[j] ? through[i] : through[j]);
        }
    }
    return status;
}

static int add_matrix(struct weft_hwloc_file *file, const struct weft_hwloc_matrix *matrix)
{
    uint32_t *ends = malloc(matrix->size * sizeof *ends);
    uint64_t *through = ends ? calloc(matrix->size, sizeof *through) : NULL;
    int status = through ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
    for (uint64_t i = 0; i < matrix->size && !status; i++)
        status = end_of(file, &matrix->references[i], &ends[i]);
    if (!status)
        status = add_links(file->graph, matrix, ends, through);
    free(through);
    free(ends);
    return status;
}

int weft_hwloc_links(struct weft_hwloc_file *file)
{
    struct numbered *sorted = NULL;
    uint32_t count = 0;
    int status = index_objects(file, &sorted, &count);
    if (status)
        return status;
    for (struct weft_hwloc_matrix *matrix = file->matrices; matrix && !status; matrix = matrix->next) {
        if (!flag_of(matrix->name))
            continue;
        status = resolve(file, matrix, sorted, count);
        if (!status)
            status = add_matrix(file, matrix);
    }
    free(sorted);
    return status;
}
