/* SPDX-License-Identifier: Apache-2.0 */
#include "base/runtime.h"

#include <stddef.h>

const struct weft_runtime_library weft_runtime_libraries[] = {
    {WEFT_RUNTIME_VERBS, "library", "recommends", "transport verbs: InfiniBand and RoCE between hosts",
     "ranks on several hosts use ofi or tcp"},
    {WEFT_RUNTIME_OFI, "library", "recommends", "transport ofi: fabrics between hosts",
     "ranks on several hosts use verbs or tcp"},
    {WEFT_RUNTIME_PMIX, "library", "suggests", "ranks started by srun --mpi=pmix or Open MPI's mpirun",
     "these launchers start no ranks; RANK, WORLD_SIZE, MASTER_ADDR and WEFT_PORT do"},
    {WEFT_RUNTIME_CUDA, "library", "suggests", "memory of NVIDIA GPUs", "device memory of CUDA is refused"},
    {WEFT_RUNTIME_ZE, "library", "recommends", "memory of Intel GPUs, and Xe Link between them",
     "device memory of Level Zero is refused, and weft-topo shows no Xe Link"},
    {WEFT_RUNTIME_HWLOC, "tools", "suggests", "this machine as hwloc sees it, and hwloc's XML",
     "weft-topo reads sysfs, and no XML of hwloc's"},
    {WEFT_RUNTIME_NVML, "tools", "suggests", "NVLink between GPUs", "weft-topo shows no NVLink"},
    {NULL, NULL, NULL, NULL, NULL},
};
