/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: Slurm's topology.yaml. */
#include "tests/fuzz/switches.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_switches(data, size, "Slurm YAML", weft_read_slurm_yaml);
}
