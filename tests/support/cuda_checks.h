/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the kind "cuda" do again and again, and fail when it does not work. */
#ifndef WEFT_TESTS_CUDA_CHECKS_H
#define WEFT_TESTS_CUDA_CHECKS_H

#include <weft/device.h>

/* What the backend said last has this in it. */
void cuda_check_said(const char *part);
struct weft_device_queue *cuda_check_queue(struct weft_device *device, int ordinal);
void *cuda_check_memory(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size);
/* All that the queue holds is done, without failure. */
void cuda_check_finish(struct weft_device_queue *queue);
/* What is queued in it from now on waits for what the stream holds now. */
void cuda_check_follow(struct weft_device_queue *queue, struct weft_device *device, int ordinal,
                       void *stream);

#endif
