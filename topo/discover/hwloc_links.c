/* SPDX-License-Identifier: Apache-2.0 */
/* Links between GPUs out of hwloc's distances.
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
#include "topo/discover/hwloc.h"

#define NAME_MATRICES_MAX 16 /* of one name */

/* What an object is in the graph: a GPU, a package's NUMA node, an NVSwitch's function; NONE for anything else. */
static uint32_t end_of(const struct weft_hwloc_machine *machine, hwloc_obj_t object)
{
    if (!weft_hwloc_of(object))
        return WEFT_NODE_NONE;
    const struct weft_hwloc_object *end = weft_hwloc_of(object)->owner;
    switch (end->object->type) {
    case HWLOC_OBJ_PCI_DEVICE:
        return end->node;
    case HWLOC_OBJ_PACKAGE:
    case HWLOC_OBJ_NUMANODE:
        return weft_hwloc_place(machine, end);
    default:
        return WEFT_NODE_NONE;
    }
}

static uint64_t bytes_per_s(uint64_t megabytes)
{
    return megabytes > UINT64_MAX / 1000000 ? 0 : megabytes * 1000000;
}

/* What both directions have. */
static uint64_t between(const struct hwloc_distances_s *matrix, uint64_t a, uint64_t b)
{
    uint64_t there = matrix->values[a * matrix->nbobjs + b], back = matrix->values[b * matrix->nbobjs + a];
    return !there || !back ? there + back : there < back ? there : back;
}

static int add_link(struct weft_graph *graph, uint32_t a, uint32_t b, unsigned flags, uint64_t megabytes)
{
    struct weft_edge given = {.a = a,
                              .b = b,
                              .kind = WEFT_EDGE_GPU_LINK,
                              .flags = (uint8_t)(flags | WEFT_EDGE_LINKS_UNKNOWN),
                              .links = 1,
                              .bytes_per_s = bytes_per_s(megabytes),
                              .port_a = -1,
                              .port_b = -1};
    uint32_t edge;
    return weft_graph_add_edge(graph, &given, &edge);
}

static int is_gpu(const struct weft_graph *graph, uint32_t node)
{
    return node != WEFT_NODE_NONE && graph->nodes[node].kind == WEFT_NODE_GPU;
}

/* Adds what one side of the matrix has to the other, above its diagonal. through: MB/s of each to NVSwitches. */
static int add_links(struct weft_graph *graph, const struct hwloc_distances_s *matrix, const uint32_t *ends,
                     unsigned flags, uint64_t *through)
{
    int status = WEFT_OK;
    for (uint64_t i = 0; i < matrix->nbobjs && !status; i++) {
        for (uint64_t j = i + 1; j < matrix->nbobjs && !status; j++) {
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
    for (uint64_t i = 0; i < matrix->nbobjs && !status; i++) {
        for (uint64_t j = i + 1; j < matrix->nbobjs && !status; j++) {
            if (through[i] && through[j] && ends[i] != ends[j])
                status = add_link(graph, ends[i], ends[j], flags | WEFT_EDGE_NVSWITCH,
                                  through[i] < through[j] ? through[i] : through[j]);
        }
    }
    return status;
}

static int add_matrix(struct weft_hwloc_machine *machine, const struct hwloc_distances_s *matrix,
                      unsigned flags)
{
    uint32_t *ends = malloc(matrix->nbobjs * sizeof *ends);
    uint64_t *through = ends ? calloc(matrix->nbobjs, sizeof *through) : NULL;
    int status = through ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for links between GPUs");
    for (unsigned i = 0; i < matrix->nbobjs && !status; i++)
        ends[i] = end_of(machine, matrix->objs[i]);
    if (!status)
        status = add_links(machine->graph, matrix, ends, flags, through);
    free(through);
    free(ends);
    return status;
}

int weft_hwloc_links(struct weft_hwloc_machine *machine)
{
    static const struct {
        const char *name;
        unsigned flags;
    } known[] = {{"NVLinkBandwidth", WEFT_EDGE_NVLINK},
                 {"XGMIBandwidth", WEFT_EDGE_XGMI},
                 {"XeLinkBandwidth", WEFT_EDGE_XE}};
    int status = WEFT_OK;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct hwloc_distances_s *matrices[NAME_MATRICES_MAX];
        unsigned count = NAME_MATRICES_MAX;
        if (machine->hwloc->distances_get_by_name(machine->topology, known[k].name, &count, matrices, 0) != 0)
            continue;
        for (unsigned i = 0; i < count && i < NAME_MATRICES_MAX; i++) {
            if (!status)
                status = add_matrix(machine, matrices[i], known[k].flags);
            machine->hwloc->distances_release(machine->topology, matrices[i]);
        }
    }
    return status;
}
