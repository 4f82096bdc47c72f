/* SPDX-License-Identifier: Apache-2.0 */
/* A program's streams on the fake driver of Level Zero, in a context of the program's: immediate command lists, or command queues where the
 * driver has no such lists. They are in order, as whoever makes them puts a barrier in front of each command. */
#ifndef WEFT_TESTS_ZE_STREAMS_H
#define WEFT_TESTS_ZE_STREAMS_H

#include "tests/support/device_suite.h"

void ze_streams(const struct weft_device_kind *kind, struct device_streams *streams);

#endif
