/* SPDX-License-Identifier: Apache-2.0 */
#include "base/runtime.h"

#include <stddef.h>

const struct weft_runtime_library weft_runtime_libraries[] = {
    {WEFT_RUNTIME_VERBS, "library", "transport verbs: InfiniBand and RoCE between hosts",
     "ranks on several hosts use ofi"},
    {WEFT_RUNTIME_OFI, "library", "transport ofi: TCP and fabrics between hosts",
     "ranks on several hosts need verbs"},
    {WEFT_RUNTIME_PMIX, "library", "ranks started by srun --mpi=pmix or Open MPI's mpirun",
     "these launchers start no ranks; RANK, WORLD_SIZE, MASTER_ADDR and WEFT_PORT do"},
    {WEFT_RUNTIME_CUDA, "library", "memory of NVIDIA GPUs", "device memory of CUDA is refused"},
    {WEFT_RUNTIME_HWLOC, "tools", "this machine as hwloc sees it", "weft-topo reads sysfs"},
    {WEFT_RUNTIME_NVML, "tools", "NVLink between GPUs", "weft-topo shows no NVLink"},
    {WEFT_RUNTIME_SYSMAN, "tools", "Xe Link between GPUs", "weft-topo shows no Xe Link"},
    {NULL, NULL, NULL, NULL},
};
