/* SPDX-License-Identifier: Apache-2.0 */
/* Calls are made ahead, AHEAD_CALLS at most and those of a sample or two: each has a stream wait, of which a driver
 * has some thousands. Marks stand between the samples, so that one's end is the next one's beginning:
 *
 *     mark 0 | calls of sample 0 | mark 1 | calls of sample 1 | mark 2 | ...
 *
 * A mark is let go when the sample behind it has been read.
 */
#include "perf/device/clock.h"

#include <sched.h>
#include <string.h>

#include "devmem/devices.h"

enum {
    SAMPLE_NS = 100000, /* CUDA's clock ticks once in half a microsecond */
    TRIALS = 4,
    AHEAD_CALLS = 512,
    MARKS = 64
};

struct run {
    const struct perf_device *device;
    perf_call *call;
    void *arg;
    struct weft_device_event *marks[MARKS]; /* those from done to made, by number % MARKS */
    size_t done, made;
};

static int mark(struct run *run)
{
    const struct weft_device_kind *kind = run->device->kind;
    int status = kind->ops.mark_stream(kind->device, run->device->ordinal, run->device->stream,
                                       WEFT_DEVICE_EVENT_TIMED, &run->marks[run->made % MARKS]);
    run->made += status == 0;
    return status;
}

static void let_go(struct run *run)
{
    run->device->kind->ops.event_free(run->marks[run->done++ % MARKS]);
}

/* Waits for the end of the sample that is the next to be read. */
static int read_sample(struct run *run, double *us)
{
    const struct weft_device_ops *ops = &run->device->kind->ops;
    struct weft_device_event *from = run->marks[run->done % MARKS];
    struct weft_device_event *to = run->marks[(run->done + 1) % MARKS];
    double ns;
    int state;
    while ((state = ops->test(to)) == 0)
        sched_yield();
    int status = state < 0 ? state : ops->elapsed(from, to, &ns);
    if (status == 0)
        *us = ns / 1e3;
    let_go(run);
    return status;
}

/* Count samples of so many calls each. */
static int take(struct run *run, size_t count, int calls, double *samples_us)
{
    size_t ahead = (size_t)(AHEAD_CALLS / calls), read = 0;
    ahead = ahead < 1 ? 1 : ahead > MARKS - 2 ? MARKS - 2 : ahead;
    run->done = run->made = 0;
    int status = mark(run);
    for (size_t sample = 0; status == 0 && sample < count; sample++) {
        for (int i = 0; status == 0 && i < calls; i++)
            status = run->call(run->arg);
        if (status == 0)
            status = mark(run);
        if (status == 0 && sample - read >= ahead)
            status = read_sample(run, &samples_us[read++]);
    }
    while (status == 0 && read < count)
        status = read_sample(run, &samples_us[read++]);
    while (run->done < run->made)
        let_go(run);
    for (size_t i = 0; status == 0 && i < count; i++)
        samples_us[i] /= calls;
    return status;
}

/* Waits until all that has been made is done. */
static int catch_up(struct run *run)
{
    double us;
    int status = mark(run);
    if (status == 0)
        status = mark(run);
    if (status == 0)
        status = read_sample(run, &us);
    while (run->done < run->made)
        let_go(run);
    return status;
}

/* A device has room for so many closed stream waits, and each call has one. */
static int warm_up(struct run *run, int count)
{
    int status = 0;
    run->done = run->made = 0;
    for (int i = 1; status == 0 && i <= count; i++) {
        status = run->call(run->arg);
        if (status == 0 && i % AHEAD_CALLS == 0)
            status = catch_up(run);
    }
    return status;
}

weft_call_options perf_clock_stream(const struct perf_device *device)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    options.stream = device->stream;
    options.stream_kind = device->kind->name;
    options.stream_ordinal = device->ordinal;
    return options;
}

/* An empty message to the rank itself says whether the device's streams can wait, without the others. */
int perf_clock_check(const struct perf_device *device, const struct perf_session *session)
{
    struct run run = {.device = device};
    const weft_call_options options = perf_clock_stream(device);
    int status = weft_sendrecv(session->comm, NULL, 0, session->rank, 0, NULL, 0, session->rank, 0,
                               WEFT_UINT8, NULL, &options);
    if (status == 0)
        status = catch_up(&run);
    return status == 0 ? 0 : perf_device_complain(device, "--clock 'device'", status);
}

/* Calls per sample: from the slowest rank's fastest trial. */
static int agree_calls(struct run *run, struct perf_session *session, int *calls)
{
    double samples_us[TRIALS], fastest_us = 0;
    int status = take(run, TRIALS, 1, samples_us);
    for (int i = 0; status == 0 && i < TRIALS; i++)
        fastest_us = i && fastest_us < samples_us[i] ? fastest_us : samples_us[i];
    return status == 0 ? perf_agree_calls(&session->channel, (int64_t)(fastest_us * 1e3), SAMPLE_NS, calls)
                       : status;
}

int perf_clock_measure(const struct perf_device *device, struct perf_session *session, perf_call *call,
                       void *arg, int warmups, struct perf_timing *timing)
{
    struct run run = {.device = device, .call = call, .arg = arg};
    int calls = 1;
    int status = agree_calls(&run, session, &calls);
    calls = calls < timing->least_calls ? timing->least_calls : calls;
    if (status == 0)
        status = warm_up(&run, warmups);
    if (status == 0)
        status = take(&run, timing->sample_count, calls, timing->samples_us);
    if (status == 0) /* why stream-ordered calls have failed shows in the next ones */
        status = weft_barrier(session->comm, NULL);
    if (status == 0)
        status = perf_take_slowest(&session->channel, timing->samples_us, timing->sample_count);
    if (status == 0)
        timing->calls_per_sample = calls;
    return status;
}
