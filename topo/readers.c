/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/readers.h"

const struct weft_topo_reader weft_topo_readers[WEFT_FORMAT_COUNT] = {
    [WEFT_FORMAT_HWLOC] = {"hwloc XML", weft_read_hwloc_xml},
    [WEFT_FORMAT_NCCL] = {"NCCL XML", weft_read_nccl},
    [WEFT_FORMAT_IBNETDISCOVER] = {"ibnetdiscover", weft_read_ibnetdiscover},
    [WEFT_FORMAT_TOPOGRAPH] = {"topograph YAML", weft_read_topograph},
    [WEFT_FORMAT_SLURM] = {"Slurm", weft_read_slurm},
    [WEFT_FORMAT_SYNTHETIC] = {"synthetic", weft_read_synthetic},
};
