/* SPDX-License-Identifier: Apache-2.0 */
/* A program's streams on the fake libcuda.so.1, which cuda_scene.h has loaded. */
#ifndef WEFT_TESTS_CUDA_STREAMS_H
#define WEFT_TESTS_CUDA_STREAMS_H

#include "tests/support/device_suite.h"

void cuda_streams(const struct weft_device_kind *kind, struct device_streams *streams);

#endif
