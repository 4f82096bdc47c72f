/* SPDX-License-Identifier: Apache-2.0 */
/* The contract for kinds of devices (include/weft/device.h) as tests, run on any kind.
 *
 * A test program names its kinds in a table and calls device_suite_run(). Each test opens a set of kinds of its own, and fails
 * when a descriptor, a thread or a shared mapping is left behind. What a kind does not claim is not tested.
 */
#ifndef WEFT_TESTS_DEVICE_SUITE_H
#define WEFT_TESTS_DEVICE_SUITE_H

#include <weft/device.h>

#include "devmem/devices.h"
#include "tests/support/leak.h"
#include "tests/support/plugins.h"

/* The program's side of streams: the kind's own runtime. All but is_idle() return 0. */
struct device_streams {
    int (*open)(int ordinal, void **stream);
    int (*close)(void *stream);
    int (*wait)(void *stream, const int *flag); /* a kernel that ends when *flag is not 0 */
    int (*fill)(void *stream, void *memory, int byte, size_t size);
    int (*sync)(void *stream);
    int (*is_idle)(void *stream);
};

struct device_row {
    const char *label, *kind;
    const char *plugin; /* its shared object, from the build folder; NULL: built in */
    const char *options;
    int owns;    /* has memory that ordinary pointers are not */
    int faults;  /* host access to device memory is a SIGSEGV */
    int managed; /* allocates MANAGED memory */
    int reuses;  /* an address that was freed comes again soon */
    int shares;  /* between processes */
    int dmabufs;
    int scales_sums; /* takes a scalar with sum and avg only, which is where the public calls have one */
    int keeps; /* the driver keeps descriptors, threads and mappings once it was used: leaks cannot be seen */
    int no_reductions;      /* leaves their tests out, and those of programs */
    int collectives;        /* runs them, */
    int collectives_beside; /* and promises that any number of them get on */
    int fails;              /* all its work fails: runs the tests of that only */
    int no_own_stream;      /* NULL is no stream */
    /* Where the kind has streams. */
    void (*streams)(const struct weft_device_kind *kind, struct device_streams *streams);
    /* NULL, or the reason why this machine cannot run the row. May be NULL. */
    const char *(*absent)(void);
    /* After each test, with nothing of it left. May be NULL. */
    void (*check_empty)(const struct weft_device_kind *kind);
    /* And when the kind has been closed. May be NULL. */
    void (*check_closed)(void);
};

/* Runs the suite on each row; the number of failed tests, or 77 when no row could run here. */
int device_suite_run(const struct device_row *rows, size_t count);

/* --- for the suite's own files */

struct device_world {
    const struct device_row *row;
    struct test_leak before;
    struct test_plugin plugin;
    struct weft_devices *devices;
    const struct weft_device_kind *kind;
    const struct weft_device_ops *ops;
    struct weft_device *device;
    struct device_streams streams;
    int count; /* of devices */
    /* What device_put() and device_get() use once device_prepare() was called. */
    struct weft_device_queue *mover;
    char *staging;
};

const struct device_row *device_row(void **state);

void device_open(struct device_world *world, const struct device_row *row);
void device_close(struct device_world *world);

void *device_allocate(struct device_world *world, int ordinal, enum weft_memory_kind kind, size_t size);
struct weft_device_queue *device_queue(struct device_world *world, int ordinal);
/* Waits for what the queue holds; what the event says in the end. */
int device_finish(struct device_world *world, struct weft_device_queue *queue);
/* Waits until the event has happened or its work has failed. Fails the test after 20 s. */
int device_wait(struct device_world *world, struct weft_device_event *event);
/* What is queued in the queue from now on waits for what the stream holds now. */
void device_follow(struct device_world *world, struct weft_device_queue *queue, int ordinal, void *stream);
/* Makes what device_put() and device_get() of so many bytes need, so that they neither allocate nor open anything, which may
 * wait for streams that wait themselves. */
void device_prepare(struct device_world *world, size_t size);
/* Between ordinary memory and any: through pinned memory. */
void device_put(struct device_world *world, void *to, const void *from, size_t size);
void device_get(struct device_world *world, void *to, const void *from, size_t size);

struct CMUnitTest;
/* Parts of the suite: fill tests that suit the row, and return how many. */
size_t device_memory_tests(const struct device_row *row, struct CMUnitTest *tests);
size_t device_share_tests(const struct device_row *row, struct CMUnitTest *tests);
size_t device_work_tests(const struct device_row *row, struct CMUnitTest *tests);
size_t device_reduce_tests(const struct device_row *row, struct CMUnitTest *tests);
size_t device_stream_tests(const struct device_row *row, struct CMUnitTest *tests);
size_t device_collective_tests(const struct device_row *row, struct CMUnitTest *tests);
size_t device_failure_tests(const struct device_row *row, struct CMUnitTest *tests);
size_t device_collective_failure_tests(const struct device_row *row, struct CMUnitTest *tests);

/* Two processes whose programs talk to each other: each runs one on the ordinal, side 0 and side 1, with so many shared bytes of device
 * memory, all 0. */
extern const size_t device_collective_shared_bytes;
void device_collective_share(struct device_world *world, int ordinal, void *shared, int side);

#define DEVICE_OK(call)                                                                                      \
    do {                                                                                                     \
        int status_ = (call);                                                                                \
        if (status_ != WEFT_OK)                                                                              \
            fail_msg("%s: %s (%s)", #call, weft_strerror(status_), weft_error_detail());                     \
    } while (0)

#endif
