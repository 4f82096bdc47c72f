/* SPDX-License-Identifier: Apache-2.0 */
/* A kind of device for the ranks of a test, so that the same test runs on any: memory, streams, and what is left of it.
 *
 * A test program has a *bench*: how ranks come to the kind. Each rank then takes a *seat* there, which opens a set of kinds of its own.
 * What goes wrong with a seat ends the program. No driver is touched before ranks are started, as drivers do not outlive a fork.
 */
#ifndef WEFT_TESTS_DEVICE_SEAT_H
#define WEFT_TESTS_DEVICE_SEAT_H

#include <stddef.h>
#include <stdint.h>

#include "devmem/devices.h"
#include "tests/support/device_suite.h"
#include "tests/support/ranks.h"

struct device_seat {
    struct weft_devices *devices;
    const struct weft_device_kind *kind;
    struct weft_device_kind kept;  /* where the bench keeps memory: the kind with other calls for that */
    struct device_streams streams; /* where the bench has some */
    int count;                     /* of devices */
};

struct device_bench {
    const char *kind;
    const char *options; /* of the seats' sets of kinds; NULL: none */
    /* Memory that a test releases is given back with its seat. For threads with streams: a driver may wait for the whole device when memory
     * is given back, also for another rank's stream that waits for this one. Programs keep their memory for that reason, too. */
    int keeps;
    /* In each process of ranks, before the first of them, whose number it is given. 0, or not. May be NULL. */
    int (*begin)(int rank);
    void (*streams)(const struct weft_device_kind *kind, struct device_streams *streams); /* may be NULL */
    /* How much is left on devices of this process: 0 where all contexts are closed and all memory is back. Else says what. May be
     * NULL. */
    int (*left)(const struct device_seat *seat);
};

/* Runs ranks as processes, or as threads of one that is made for them, and looks at what is left in each process. How many did not
 * return 0: of processes. */
int device_bench_run(const struct device_bench *bench, int ranks, int in_threads, test_rank_function *body,
                     void *arg);

/* Processes, with each one's end as test_ranks_fork_status() reports it. */
void device_bench_run_status(const struct device_bench *bench, int ranks, test_rank_function *body, void *arg,
                             int *statuses);

void device_seat_take(struct device_seat *seat, const struct device_bench *bench);
void device_seat_leave(struct device_seat *seat);

/* Device memory, or the host's (-1). ordinal goes round where there are fewer devices. */
void *device_seat_get(const struct device_seat *seat, int ordinal, size_t bytes);
void device_seat_put(const struct device_seat *seat, int ordinal, void *memory);
/* Between ordinary memory and such. */
void device_seat_store(const struct device_seat *seat, int ordinal, void *memory, const void *bytes,
                       size_t size);
void device_seat_load(const struct device_seat *seat, int ordinal, void *bytes, const void *memory,
                      size_t size);

#endif
