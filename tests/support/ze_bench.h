/* SPDX-License-Identifier: Apache-2.0 */
/* Seats on the kind "ze": Level Zero's own loader, with the fake driver of tests/fakes/ze/. */
#ifndef WEFT_TESTS_ZE_BENCH_H
#define WEFT_TESTS_ZE_BENCH_H

#include "tests/support/device_seat.h"

/* Two devices. Nothing is left of them, and no call was one that the specification forbids. */
extern const struct device_bench ze_bench;
/* And where the driver has no immediate command lists. */
extern const struct device_bench ze_queues_bench;
/* And where it does not run two kernels side by side. */
extern const struct device_bench ze_alone_bench;
/* The same, where ranks map each other's memory: some is mapped. */
extern const struct device_bench ze_sharing_bench;
/* And where the driver gives an address the same number each time. */
extern const struct device_bench ze_addressed_bench;
/* And where no process sees a device of another's, as with ZE_AFFINITY_MASK: none is. */
extern const struct device_bench ze_masked_bench;

#endif
