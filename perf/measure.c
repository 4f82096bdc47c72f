/* SPDX-License-Identifier: Apache-2.0 */
/* What a row's time is.
 *
 * A sample is one call, or, where a call takes less than SAMPLE_NS, as many calls back to back as fill that
 * time: a clock reading costs 20 to 40 ns and must stay well below a percent of what lies between two of
 * them. How many is agreed between the ranks from a few calls beforehand. A sample's time is that of the
 * slowest rank; the row's time is the median over samples, so that one interruption by the system does not
 * decide it, and the 99th percentile shows the interruptions. (nccl-tests gives the mean over all calls
 * instead.)
 */
#include "perf/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLE_NS = 20000, TRIAL_CALLS = 4, CALLS_MAX = 1000 };

int64_t perf_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int perf_agree_calls(struct perf_channel *channel, int64_t fastest_ns, int64_t sample_ns, int *calls)
{
    int64_t slowest_ns = 1;
    int64_t *all = malloc((size_t)channel->ranks * sizeof *all);
    if (!all) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return 1;
    }
    int failed = perf_channel_allgather(channel, &fastest_ns, sizeof fastest_ns, all);
    for (int rank = 0; !failed && rank < channel->ranks; rank++)
        slowest_ns = all[rank] > slowest_ns ? all[rank] : slowest_ns;
    free(all);
    if (failed)
        return 1;
    int64_t wanted = (sample_ns + slowest_ns - 1) / slowest_ns;
    *calls = wanted > CALLS_MAX ? CALLS_MAX : (int)wanted;
    return 0;
}

static int agree_calls(struct perf_channel *channel, perf_call *call, void *arg, int *calls)
{
    int64_t fastest_ns = INT64_MAX;
    for (int i = 0; i < TRIAL_CALLS; i++) {
        int64_t start_ns = perf_now_ns();
        int status = call(arg);
        if (status != 0)
            return status;
        int64_t took_ns = perf_now_ns() - start_ns;
        fastest_ns = took_ns < fastest_ns ? took_ns : fastest_ns;
    }
    return perf_agree_calls(channel, fastest_ns, SAMPLE_NS, calls);
}

static int take_samples(perf_call *call, void *arg, double *samples_us, size_t count, int calls)
{
    int64_t start_ns = perf_now_ns();
    for (size_t sample = 0; sample < count; sample++) {
        for (int i = 0; i < calls; i++) {
            int status = call(arg);
            if (status != 0)
                return status;
        }
        int64_t end_ns = perf_now_ns();
        samples_us[sample] = (double)(end_ns - start_ns) / 1e3 / calls;
        start_ns = end_ns;
    }
    return 0;
}

int perf_take_slowest(struct perf_channel *channel, double *samples_us, size_t count)
{
    double *all = malloc((size_t)channel->ranks * count * sizeof *all);
    if (!all) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return 1;
    }
    int failed = perf_channel_allgather(channel, samples_us, count * sizeof *samples_us, all);
    for (int rank = 0; !failed && rank < channel->ranks; rank++)
        for (size_t i = 0; i < count; i++) {
            double sample_us = all[(size_t)rank * count + i];
            samples_us[i] = sample_us > samples_us[i] ? sample_us : samples_us[i];
        }
    free(all);
    return failed ? 1 : 0;
}

int perf_measure(struct perf_channel *channel, perf_call *call, void *arg, int warmups,
                 struct perf_timing *timing)
{
    int calls = 1;
    int status = agree_calls(channel, call, arg, &calls);
    for (int i = 0; status == 0 && i < warmups; i++)
        status = call(arg);
    calls = calls < timing->least_calls ? timing->least_calls : calls;
    if (status == 0)
        status = take_samples(call, arg, timing->samples_us, timing->sample_count, calls);
    if (status == 0)
        status = perf_take_slowest(channel, timing->samples_us, timing->sample_count);
    if (status == 0)
        timing->calls_per_sample = calls;
    return status;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int perf_summarise(const double *samples_us, size_t count, struct perf_summary *summary)
{
    double *sorted = malloc(count * sizeof *sorted);
    if (!sorted || count == 0) {
        free(sorted);
        return -1;
    }
    memcpy(sorted, samples_us, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ascending);
    summary->median_us = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    summary->p99_us = sorted[(count * 99 + 99) / 100 - 1];
    free(sorted);
    return 0;
}
