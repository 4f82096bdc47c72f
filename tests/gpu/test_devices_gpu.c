/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/gpu/streams.c */
/* The contract for kinds of devices on the kind "cuda" with the driver that this machine has: test_devices_gpu [copies]
 *
 * The same tests pass on the fake driver (tests/conform/test_devices_cuda.c). "copies" leaves the reductions out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/streams.h"

static struct gpu_machine machine;

static const char *absent(void)
{
    return machine.devices ? NULL : machine.reason;
}

int main(int argc, char **argv)
{
    setenv("WEFT_LOG", "error", 0);
    gpu_machine_ask(&machine);
    int no_reductions = argc > 1 && strcmp(argv[1], "copies") == 0;
    if (machine.devices && !machine.has_kernels && !no_reductions)
        printf("SKIP: reductions: the library was built without CUDA kernels\n");
    const struct device_row row = {.label = "cuda",
                                   .kind = "cuda",
                                   .owns = 1,
                                   .faults = 1,
                                   .shares = 1,
                                   .dmabufs = machine.has_dmabuf,
                                   .scales_sums = 1,
                                   .keeps = 1,
                                   .no_reductions = no_reductions || !machine.has_kernels,
                                   .collectives = machine.has_collectives,
                                   .streams = machine.has_waits ? gpu_streams : NULL,
                                   .absent = absent};
    if (machine.devices && !machine.has_waits)
        printf("SKIP: streams: the driver has no memory operations in streams, which stream waits need\n");
    return device_suite_run(&row, 1);
}
