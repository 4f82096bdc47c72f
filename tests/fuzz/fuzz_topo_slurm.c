/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: Slurm's addresses and topology.conf. */
#include "tests/fuzz/switches.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_switches(data, size, "Slurm", weft_read_slurm);
}
