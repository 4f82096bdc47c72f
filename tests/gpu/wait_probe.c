/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/gpu/streams.c */
/* Whether weft's queues go on while streams of the program's stand at stream waits: wait_probe
 *
 * CUDA does not know that a stream which waits for a word depends on other streams, and may put both into one of the
 * device's channels, where the first holds up the second. weft's queues have the highest priority to keep them off the channels
 * of ordinary streams. Here 1, 8, 32 and 128 streams stand at stream waits, with a copy behind each, while a queue that was open before
 * and one that is opened now copy between pinned and device memory. Either all of that ends while the stream waits last,
 * or it does not within LIMIT_NS; then the stream waits end, and what is left must end. Then the same with streams of the
 * highest priority, for which weft promises nothing.
 *
 * One line per case; exit status 1 where ordinary streams hold up a queue, 77 without a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/gpu/streams.h"

enum { STREAMS_MAX = 128, BYTES = 1 << 20, PLACE_BYTES = BYTES / STREAMS_MAX, ROUNDS = 20 };
#define LIMIT_NS 3000000000

struct probe {
    struct weft_devices *devices;
    const struct weft_device_ops *ops;
    struct weft_device *device;
    struct weft_device_queue *early;
    char *pinned, *memory;
    int priority, opened, held;
    void *streams[STREAMS_MAX];
    struct weft_device_wait *waits[STREAMS_MAX];
};

static int complain(const char *what, int status)
{
    fprintf(stderr, "gate_probe: %s: %d (%s)\n", what, status, weft_error_detail());
    return -1;
}

/* Puts count streams to wait, each with a copy behind its stream wait. */
static int wait_stream(struct probe *probe, int count)
{
    for (int i = 0; i < count; i++) {
        int result = gpu_stream_open(0, probe->priority, &probe->streams[i]);
        if (result)
            return complain("opening a stream", result);
        probe->opened++;
    }
    for (int i = 0; i < count; i++) {
        void *stream = probe->streams[i];
        int status = probe->ops->wait_stream(probe->device, 0, stream, &probe->waits[i]);
        if (status)
            return complain("putting a stream wait into a stream", status);
        probe->held++;
        uintptr_t place = (uintptr_t)probe->memory + (size_t)i * PLACE_BYTES; /* of this stream alone */
        int result = CU(cuMemcpyAsync)(place, place + PLACE_BYTES / 2, PLACE_BYTES / 2, stream);
        if (result)
            return complain("a copy behind a stream wait", result);
    }
    return 0;
}

static int let_go(struct probe *probe)
{
    int result = 0;
    for (int i = 0; i < probe->held; i++) {
        probe->ops->wait_open(probe->waits[i], NULL);
        probe->ops->wait_free(probe->waits[i]);
    }
    for (int i = 0; i < probe->opened; i++) {
        result |= CU(cuStreamSynchronize)(probe->streams[i]);
        result |= gpu_stream_close(probe->streams[i]);
    }
    probe->opened = probe->held = 0;
    return result ? complain("streams behind open stream waits", result) : 0;
}

/* Copies to and fro in the queue, and waits for them until the deadline: 1 when they have ended, 0 when not, or -1. event is
 * then to be waited for and freed. */
static int work(struct probe *probe, struct weft_device_queue *queue, struct weft_device_event **event)
{
    int status = 0, state = 0;
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    for (int i = 0; i < ROUNDS && !status; i++) {
        status = probe->ops->copy(queue, probe->memory + BYTES, probe->pinned, BYTES);
        if (!status)
            status = probe->ops->copy(queue, probe->pinned, probe->memory + BYTES, BYTES);
    }
    if (!status)
        status = probe->ops->mark(queue, event);
    if (status)
        return complain("work in a queue", status);
    while ((state = probe->ops->test(*event)) == 0 && weft_clock_ns() < deadline_ns)
        usleep(20);
    return state < 0 ? complain("work in a queue", state) : state;
}

/* 1: the queues went on; 0: they did not; -1 after a message. */
static int try_count(struct probe *probe, int count)
{
    struct weft_device_queue *late = NULL;
    struct weft_device_event *events[2] = {NULL, NULL};
    int first = -1, second = -1;
    double milliseconds = 0;
    if (wait_stream(probe, count) == 0) {
        int64_t start_ns = weft_clock_ns();
        first = work(probe, probe->early, &events[0]);
        int status = first < 0 ? first : probe->ops->queue_open(probe->device, 0, &late);
        if (!status)
            second = work(probe, late, &events[1]);
        milliseconds = (double)(weft_clock_ns() - start_ns) / 1e6;
    }
    int failed = let_go(probe);
    for (int i = 0; i < 2; i++) {
        while (events[i] && probe->ops->test(events[i]) == 0)
            usleep(20);
        if (events[i])
            probe->ops->event_free(events[i]);
    }
    if (late)
        probe->ops->queue_close(late);
    if (failed || first < 0 || second < 0)
        return -1;
    static const char *const words[] = {"is held up", "goes on"};
    printf("%3d streams of %s priority at stream waits: a queue that was open %s, a new one %s (%.1f ms)\n",
           count, probe->priority ? "the highest" : "ordinary", words[first], words[second], milliseconds);
    fflush(stdout);
    return first && second;
}

static int run(struct probe *probe)
{
    static const int counts[] = {1, 8, 32, STREAMS_MAX};
    int least, greatest, kept = 1;
    int result = gpu_priorities(0, &least, &greatest);
    if (result)
        return complain("asking for priorities", result);
    printf("priorities of streams: %d to %d\n", least, greatest);
    for (int highest = 0; highest < 2; highest++) {
        probe->priority = highest ? greatest : 0;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            int went_on = try_count(probe, counts[i]);
            if (went_on < 0)
                return -1;
            kept &= went_on || highest;
        }
    }
    printf("ordinary streams at stream waits %s\n", kept ? "hold up no queue" : "hold up queues");
    return kept ? 0 : -1;
}

static int open_probe(struct probe *probe)
{
    void *pinned, *memory;
    int status = weft_devices_create("cuda", "", "", &probe->devices);
    const struct weft_device_kind *kind = status ? NULL : weft_devices_find(probe->devices, "cuda");
    if (!kind)
        return complain("opening the kind cuda", status);
    probe->ops = &kind->ops;
    probe->device = kind->device;
    status = probe->ops->queue_open(probe->device, 0, &probe->early);
    if (!status)
        status = probe->ops->allocate(probe->device, -1, WEFT_MEMORY_PINNED, BYTES, &pinned);
    if (!status)
        status = probe->ops->allocate(probe->device, 0, WEFT_MEMORY_DEVICE, 2 * (size_t)BYTES, &memory);
    if (status)
        return complain("a queue and memory", status);
    probe->pinned = pinned;
    probe->memory = memory;
    memset(pinned, 1, BYTES);
    return 0;
}

int main(void)
{
    struct gpu_machine machine;
    struct probe probe = {.devices = NULL};
    gpu_machine_ask(&machine);
    if (!machine.devices || !machine.has_waits) {
        printf("SKIP: %s\n", machine.devices
                                 ? "the driver has no memory operations in streams, which stream waits need"
                                 : machine.reason);
        return 77;
    }
    if (open_probe(&probe) != 0)
        return 1;
    int failed = run(&probe);
    probe.ops->queue_close(probe.early);
    probe.ops->release(probe.device, probe.pinned);
    probe.ops->release(probe.device, probe.memory);
    weft_devices_destroy(probe.devices);
    return failed != 0;
}
