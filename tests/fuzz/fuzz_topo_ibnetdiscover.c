/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: output of ibnetdiscover. */
#include "tests/fuzz/switches.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_switches(data, size, "ibnetdiscover", weft_read_ibnetdiscover);
}
