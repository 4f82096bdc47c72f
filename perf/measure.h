/* SPDX-License-Identifier: Apache-2.0 */
/* Timing a call on all ranks, and what the times add up to. */
#ifndef WEFT_PERF_MEASURE_H
#define WEFT_PERF_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "perf/channel.h"

/* One call of what is measured: 0 or a negative weft status. */
typedef int perf_call(void *arg);

struct perf_timing {
    double *samples_us;   /* per sample, the slowest rank's mean time per call; owned by the caller */
    size_t sample_count;  /* as given */
    int least_calls;      /* of a sample, as given */
    int calls_per_sample; /* above 1 where a call is so short that reading the clock would show */
};

/* Runs warmups calls, then timing->sample_count timed samples; collective over the channel. samples_us and
 * sample_count are set by the caller. 0; a negative weft status when a call failed; 1 when the side channel
 * failed (said already). */
int perf_measure(struct perf_channel *channel, perf_call *call, void *arg, int warmups,
                 struct perf_timing *timing);

/* Sets the number of calls that fill sample_ns, from 1 to 1000, by the slowest rank's fastest trial; collective over the
 * channel. 0; 1 when the side channel failed (said already). */
int perf_agree_calls(struct perf_channel *channel, int64_t fastest_ns, int64_t sample_ns, int *calls);

/* Now, by a clock that only goes forward, the same one for all processes of a host. */
int64_t perf_now_ns(void);

/* Replaces every sample by the slowest rank's; collective over the channel. 0; 1 when the side channel failed. */
int perf_take_slowest(struct perf_channel *channel, double *samples, size_t count);

/* Median (mean of the middle two) and nearest-rank 99th percentile. */
struct perf_summary {
    double median_us, p99_us;
};
int perf_summarise(const double *samples_us, size_t count, struct perf_summary *summary);

#endif
