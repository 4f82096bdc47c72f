#include "tests/support/device_seat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tests/support/case_device.h"

static void expect(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, weft_error_detail());
    abort();
}

/* --- ranks */

struct run {
    const struct device_bench *bench;
    int threads; /* 0: processes */
    test_rank_function *body;
    void *arg;
};

static int run_process(int rank, int ranks, void *arg)
{
    const struct run *run = arg;
    if (run->bench->begin)
        CHECK(run->bench->begin() == 0);
    int failed = run->threads ? test_ranks_threads(run->threads, run->body, run->arg)
                              : run->body(rank, ranks, run->arg);
    if (failed || !run->bench->left)
        return failed;
    struct device_seat seat;
    device_seat_take(&seat, run->bench);
    CHECK(run->bench->left(&seat) == 0);
    device_seat_leave(&seat);
    return 0;
}

int device_bench_run(const struct device_bench *bench, int ranks, int in_threads, test_rank_function *body,
                     void *arg)
{
    struct run run = {.bench = bench, .threads = in_threads ? ranks : 0, .body = body, .arg = arg};
    return test_ranks_fork(in_threads ? 1 : ranks, run_process, &run);
}

void device_bench_run_status(const struct device_bench *bench, int ranks, test_rank_function *body, void *arg,
                             int *statuses)
{
    struct run run = {.bench = bench, .body = body, .arg = arg};
    test_ranks_fork_status(ranks, run_process, &run, statuses);
}

/* --- seats */

void device_seat_take(struct device_seat *seat, const struct device_bench *bench)
{
    const char *plugin = getenv("WEFT_DEVICE_PLUGIN");
    char kinds[64];
    memset(seat, 0, sizeof *seat);
    snprintf(kinds, sizeof kinds, "host,%s", bench->kind);
    expect(weft_devices_create(kinds, plugin ? plugin : "", bench->options ? bench->options : "",
                               &seat->devices) == 0,
           "a set of kinds");
    seat->kind = weft_devices_find(seat->devices, bench->kind);
    expect(seat->kind != NULL, "the kind");
    seat->count = seat->kind->ops.count(seat->kind->device);
    expect(seat->count > 0, "devices");
    if (bench->streams)
        bench->streams(seat->kind, &seat->streams);
}

void device_seat_leave(struct device_seat *seat)
{
    weft_devices_destroy(seat->devices);
}

void *device_seat_get(const struct device_seat *seat, int ordinal, size_t bytes)
{
    void *memory = NULL;
    bytes = bytes ? bytes : 1;
    if (ordinal < 0)
        memory = malloc(bytes);
    else
        expect(seat->kind->ops.allocate(seat->kind->device, ordinal % seat->count, WEFT_MEMORY_DEVICE, bytes,
                                        &memory) == 0,
               "device memory");
    expect(memory != NULL, "memory");
    return memory;
}

void device_seat_put(const struct device_seat *seat, int ordinal, void *memory)
{
    if (ordinal < 0)
        free(memory);
    else
        expect(seat->kind->ops.release(seat->kind->device, memory) == 0, "giving device memory back");
}

void device_seat_store(const struct device_seat *seat, int ordinal, void *memory, const void *bytes,
                       size_t size)
{
    if (ordinal < 0)
        memcpy(memory, bytes, size);
    else
        case_device_move(seat->kind, ordinal % seat->count, memory, bytes, size);
}

void device_seat_load(const struct device_seat *seat, int ordinal, void *bytes, const void *memory,
                      size_t size)
{
    if (ordinal < 0)
        memcpy(bytes, memory, size);
    else
        case_device_move(seat->kind, ordinal % seat->count, bytes, memory, size);
}
