/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/device_seat.h"

#include <pthread.h>
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
        CHECK(run->bench->begin(rank) == 0);
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

/* --- memory that is kept */

struct kept {
    struct weft_device *device;
    int ordinal, is_used;
    enum weft_memory_kind kind;
    size_t size;
    void *memory;
    struct kept *next;
};

static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static struct kept *all_kept;
static struct weft_device_ops kinds_own; /* what allocates for keeps */

static struct kept *find_unused(struct weft_device *device, int ordinal, enum weft_memory_kind kind,
                                size_t size)
{
    struct kept *kept = all_kept;
    while (kept && (kept->is_used || kept->device != device || kept->ordinal != ordinal ||
                    kept->kind != kind || kept->size != size))
        kept = kept->next;
    return kept;
}

static int keep_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                         void **memory)
{
    int status = WEFT_OK;
    size_t rounded = 4096;
    while (rounded < size)
        rounded *= 2;
    pthread_mutex_lock(&keeping);
    struct kept *kept = find_unused(device, ordinal, kind, rounded);
    if (!kept) {
        kept = calloc(1, sizeof *kept);
        *kept = (struct kept){.device = device, .ordinal = ordinal, .kind = kind, .size = rounded};
        status = kinds_own.allocate(device, ordinal, kind, rounded, &kept->memory);
        kept->next = all_kept;
        all_kept = kept;
    }
    kept->is_used = 1;
    *memory = kept->memory;
    pthread_mutex_unlock(&keeping);
    return status;
}

static int keep_release(struct weft_device *device, void *memory)
{
    pthread_mutex_lock(&keeping);
    struct kept *kept = all_kept;
    while (kept && (kept->device != device || kept->memory != memory))
        kept = kept->next;
    if (kept)
        kept->is_used = 0;
    pthread_mutex_unlock(&keeping);
    return kept ? WEFT_OK : WEFT_INVALID;
}

static void keep_no_more(const struct weft_device *device)
{
    struct kept *given_back = NULL, *kept;
    pthread_mutex_lock(&keeping);
    for (struct kept **link = &all_kept; (kept = *link);) {
        if (kept->device != device) {
            link = &kept->next;
            continue;
        }
        *link = kept->next;
        kept->next = given_back;
        given_back = kept;
    }
    pthread_mutex_unlock(&keeping);
    while ((kept = given_back)) { /* which may wait for others */
        expect(!kept->memory || kinds_own.release(kept->device, kept->memory) == 0, "giving memory back");
        given_back = kept->next;
        free(kept);
    }
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
    if (!bench->keeps)
        return;
    pthread_mutex_lock(&keeping);
    kinds_own = seat->kind->ops;
    pthread_mutex_unlock(&keeping);
    seat->kept = *seat->kind;
    seat->kept.ops.allocate = keep_allocate;
    seat->kept.ops.release = keep_release;
    seat->kind = &seat->kept;
}

void device_seat_leave(struct device_seat *seat)
{
    keep_no_more(seat->kind->device);
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
