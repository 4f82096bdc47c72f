/* SPDX-License-Identifier: Apache-2.0 */
/* Timing by a device's own clock: calls in the order of a stream, between events of that stream.
 *
 * So measure programs that call from streams, nccl-tests among them: the calls are made ahead, and what counts is when the device has passed
 * them. What the host needs to make a call does not show where the device is behind it.
 */
#ifndef WEFT_PERF_DEVICE_CLOCK_H
#define WEFT_PERF_DEVICE_CLOCK_H

#include "perf/device/memory.h"
#include "perf/measure.h"
#include "perf/session.h"

/* Whether the device can be measured by. 0, or -1 after a message. */
int perf_clock_check(const struct perf_device *device, weft_context *context);

/* As perf_measure(), with each call in the order of the device's own stream (NULL). The session's ranks call it together, each with a
 * device of its own; results are there when it returns. 0; a negative weft status; 1 when the side channel failed (said already). After
 * a failure the thread may be in the scope of weft_stream_begin() still, as leaving it forgets weft_error_detail(). */
int perf_clock_measure(const struct perf_device *device, struct perf_session *session, perf_call *call,
                       void *arg, int warmups, struct perf_timing *timing);

#endif
