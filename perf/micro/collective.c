/* SPDX-License-Identifier: Apache-2.0 */
/* What device kernels of many steps cost: a launch, from the call to the event behind it and one behind the other; a signal with the
 * wait for it; a step that adds two inputs, beside reduce() of as much. Medians over samples.
 *
 *     build/perf/micro/collective [KIND [DEVICE]]
 *
 * KIND is cuda without it, or a plug-in's (WEFT_DEVICE_PLUGIN). Ends with 77 where the device has none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "devmem/devices.h"

enum { SAMPLES = 11, LAUNCHES = 100, PAIRS = 500, STEPS = 100, LARGEST = 1 << 18 };

struct bench {
    const struct weft_device_ops *ops;
    struct weft_device *device;
    struct weft_device_queue *queue;
    uint64_t *words; /* stop, one that is signalled, and how far that is */
    float *inputs[2], *result;
    uint64_t bytes; /* of a step */
};

#define DO(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != WEFT_OK) {                                                                             \
            fprintf(stderr, "%s: %s\n", #call, weft_error_detail());                                         \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static void finish(const struct bench *bench)
{
    struct weft_device_event *event;
    int state;
    DO(bench->ops->mark(bench->queue, &event));
    while ((state = bench->ops->test(event)) == 0)
        ;
    bench->ops->event_free(event);
    DO(state < 0 ? state : WEFT_OK);
}

static void run(const struct bench *bench, const struct weft_device_step *steps, uint32_t count)
{
    const struct weft_device_collective collective = {
        sizeof collective, WEFT_FLOAT32, WEFT_SUM, count, 0, steps, bench->words};
    DO(bench->ops->run(bench->queue, &collective));
}

static struct weft_device_step word_step(const struct bench *bench, enum weft_device_step_kind kind)
{
    bench->words[2] += kind == WEFT_DEVICE_STEP_SIGNAL;
    return (struct weft_device_step){.kind = kind, .word = bench->words + 1, .value = bench->words[2]};
}

/* --- what is timed; each returns by how many its time is to be divided */

static int launch_alone(const struct bench *bench)
{
    struct weft_device_step step = word_step(bench, WEFT_DEVICE_STEP_SIGNAL);
    run(bench, &step, 1);
    finish(bench);
    return 1;
}

static int launches(const struct bench *bench)
{
    for (int i = 0; i < LAUNCHES; i++) {
        struct weft_device_step step = word_step(bench, WEFT_DEVICE_STEP_SIGNAL);
        run(bench, &step, 1);
    }
    finish(bench);
    return LAUNCHES;
}

static int words(const struct bench *bench)
{
    static struct weft_device_step steps[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        steps[2 * i] = word_step(bench, WEFT_DEVICE_STEP_SIGNAL);
        steps[2 * i + 1] = word_step(bench, WEFT_DEVICE_STEP_AWAIT);
    }
    run(bench, steps, 2 * PAIRS);
    finish(bench);
    return PAIRS;
}

static int sums(const struct bench *bench)
{
    static struct weft_device_step steps[STEPS];
    for (int i = 0; i < STEPS; i++)
        steps[i] = (struct weft_device_step){.source_count = 2,
                                             .destination_count = 1,
                                             .count = bench->bytes / sizeof(float),
                                             .sources = {bench->inputs[0], bench->inputs[1]},
                                             .destinations = {bench->result}};
    run(bench, steps, STEPS);
    finish(bench);
    return STEPS;
}

static int reductions(const struct bench *bench)
{
    const void *sources[] = {bench->inputs[0], bench->inputs[1]};
    void *destinations[] = {bench->result};
    const struct weft_device_reduction reduction = {.size = sizeof reduction,
                                                    .dtype = WEFT_FLOAT32,
                                                    .op = WEFT_SUM,
                                                    .source_count = 2,
                                                    .destination_count = 1,
                                                    .sources = sources,
                                                    .destinations = destinations,
                                                    .count = bench->bytes / sizeof(float)};
    for (int i = 0; i < STEPS; i++)
        DO(bench->ops->reduce(bench->queue, &reduction));
    finish(bench);
    return STEPS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure_us(const struct bench *bench, int (*timed)(const struct bench *))
{
    double samples[SAMPLES];
    timed(bench);
    for (int i = 0; i < SAMPLES; i++) {
        int64_t start_ns = weft_clock_ns();
        int number = timed(bench);
        samples[i] = (double)(weft_clock_ns() - start_ns) / 1e3 / number;
    }
    qsort(samples, SAMPLES, sizeof *samples, compare);
    return samples[SAMPLES / 2];
}

static void *allocate(const struct bench *bench, int ordinal, enum weft_memory_kind kind, size_t size)
{
    void *memory;
    DO(bench->ops->allocate(bench->device, ordinal, kind, size, &memory));
    return memory;
}

static void measure_all(struct bench *bench)
{
    printf("a launch, to the event behind it      %9.2f us\n", measure_us(bench, launch_alone));
    printf("a launch, %d behind each other       %9.2f us\n", LAUNCHES, measure_us(bench, launches));
    printf("a signal and the wait for it          %9.2f us\n", measure_us(bench, words));
    for (bench->bytes = 1024; bench->bytes <= LARGEST; bench->bytes *= 4) {
        double step_us = measure_us(bench, sums), call_us = measure_us(bench, reductions);
        printf("a sum of two times %7llu bytes      %9.2f us; by reduce() %9.2f us\n",
               (unsigned long long)bench->bytes, step_us, call_us);
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cuda", *plugins = getenv("WEFT_DEVICE_PLUGIN");
    int ordinal = argc > 2 ? atoi(argv[2]) : 0;
    struct weft_devices *devices;
    struct weft_device_info info = {.size = sizeof info};
    struct bench bench = {0};
    DO(weft_devices_create(name, plugins ? plugins : "", "", &devices));
    const struct weft_device_kind *kind = weft_devices_find(devices, name);
    if (!kind || kind->ops.describe(kind->device, ordinal, &info) != WEFT_OK) {
        fprintf(stderr, "collective: no device %s:%d here\n", name, ordinal);
        return 77;
    }
    if (!(info.flags & WEFT_DEVICE_COLLECTIVES)) {
        fprintf(stderr, "collective: %s:%d (%s) runs no device collectives\n", name, ordinal, info.name);
        return 77;
    }
    bench.ops = &kind->ops;
    bench.device = kind->device;
    DO(bench.ops->queue_open(bench.device, ordinal, &bench.queue));
    bench.words = allocate(&bench, -1, WEFT_MEMORY_PINNED, 3 * sizeof *bench.words);
    memset(bench.words, 0, 3 * sizeof *bench.words);
    bench.inputs[0] = allocate(&bench, ordinal, WEFT_MEMORY_DEVICE, LARGEST);
    bench.inputs[1] = allocate(&bench, ordinal, WEFT_MEMORY_DEVICE, LARGEST);
    bench.result = allocate(&bench, ordinal, WEFT_MEMORY_DEVICE, LARGEST);
    printf("%s:%d, %s, %s\n", name, ordinal, info.name, info.runtime);
    measure_all(&bench);
    bench.ops->queue_close(bench.queue);
    void *const all[] = {bench.words, bench.inputs[0], bench.inputs[1], bench.result};
    for (int i = 0; i < 4; i++)
        DO(bench.ops->release(bench.device, all[i]));
    weft_devices_destroy(devices);
    return 0;
}
