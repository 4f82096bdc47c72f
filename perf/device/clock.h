/* SPDX-License-Identifier: Apache-2.0 */
/* Timing by a device's own clock: stream-ordered calls, between events of that stream.
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
int perf_clock_check(const struct perf_device *device, const struct perf_session *session);

/* How calls are made in the device's own stream. */
weft_call_options perf_clock_stream(const struct perf_device *device);

/* As perf_measure(), where each call is made with perf_clock_stream(). The session's ranks call it together, each with a device of its
 * own; results are there when it returns. 0; a negative weft status; 1 when the side channel failed (said already). */
int perf_clock_measure(const struct perf_device *device, struct perf_session *session, perf_call *call,
                       void *arg, int warmups, struct perf_timing *timing);

#endif
