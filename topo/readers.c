/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/readers.h"

/* See weft_topo_read_machines_by(). */
static int refuse_hwloc(const struct weft_text *text, struct weft_graph *graph)
{
    (void)graph;
    return weft_read_fail(
        text, 0, "hwloc's XML, which describes one machine: weft-topo reads it, the library does not");
}

static int refuse_nccl(const struct weft_text *text, struct weft_graph *graph)
{
    (void)graph;
    return weft_read_fail(
        text, 0, "NCCL's XML, which describes one machine: weft-topo reads it, the library does not");
}

struct weft_topo_reader weft_topo_readers[WEFT_FORMAT_COUNT] = {
    [WEFT_FORMAT_HWLOC] = {"hwloc XML", refuse_hwloc},
    [WEFT_FORMAT_NCCL] = {"NCCL XML", refuse_nccl},
    [WEFT_FORMAT_IBNETDISCOVER] = {"ibnetdiscover", weft_read_ibnetdiscover},
    [WEFT_FORMAT_TOPOGRAPH] = {"topograph YAML", weft_read_topograph},
    [WEFT_FORMAT_SLURM] = {"Slurm", weft_read_slurm},
    [WEFT_FORMAT_SLURM_YAML] = {"Slurm YAML", weft_read_slurm_yaml},
    [WEFT_FORMAT_SYNTHETIC] = {"synthetic", weft_read_synthetic},
};

void weft_topo_read_machines_by(weft_reader *hwloc, weft_reader *nccl)
{
    weft_topo_readers[WEFT_FORMAT_HWLOC].read = hwloc;
    weft_topo_readers[WEFT_FORMAT_NCCL].read = nccl;
}
