/* SPDX-License-Identifier: Apache-2.0 */
/* Seats on the kind "ze": Level Zero's own loader, with the fake driver of tests/fakes/ze/. */
#ifndef WEFT_TESTS_ZE_BENCH_H
#define WEFT_TESTS_ZE_BENCH_H

#include "tests/support/device_seat.h"

/* Two devices. Nothing is left of them, and no call was one that the specification forbids. */
extern const struct device_bench ze_bench;

#endif
