/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the simulated device.
 *
 * memory.c  spans: what is allocated, imported or pinned, and how device threads get at it
 * command_queue.c  command queues: sequences of work, each with a thread; queues and streams are made of them
 * share.c   handles for other processes, and dma-bufs
 * reduce.c  the arithmetic, one element at a time
 * collective.c device collectives: how they are checked, and what a command queue's thread does with them
 * kind.c    the table for weft, options, and refusals
 * process.c which process this is
 * stream.c  the table for programs
 *
 * Memory and command queues belong to the process, as those of hardware do, so that several contexts of weft see the same. One
 * lock guards everything but the work itself; `changed` is signalled at any change. Simple, and fast enough for tests.
 */
#ifndef WEFT_SIM_PRIVATE_H
#define WEFT_SIM_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>
#include <weft/device.h>

#include "sim.h"

/* Memory that devices may touch. The program has it at base; for device threads it is at view. */
struct sim_span {
    struct sim_span *next;
    uintptr_t base;
    size_t length, mapped_bytes;
    char *view;
    int kind, ordinal;
    int fd; /* DEVICE: the memfd, -1 */
    uint64_t identity;
    uint64_t token[2]; /* DEVICE: names the memfd */
    int is_imported, is_pinned;
    int users; /* works that run on it */
};

struct sim_machine {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sim_span *spans;
    struct sim_hole *holes;
    uint64_t identities;
    int instances;
    struct sim_counts counts;
};
extern struct sim_machine sim;

/* One opened kind. */
struct weft_device {
    struct weft_device_params params;
    pid_t process;
    uint64_t seed, random; /* [lock] random: the state for refusals */
    unsigned delay_us, fail, refuse, devices, dmabuf, ipc, peers;
    unsigned queues; /* [lock] made so far: each draws its own numbers */
};

#define SIM_DEVICES_MAX  16
#define SIM_POINTERS_MAX (WEFT_DEVICE_SOURCES_MAX + WEFT_DEVICE_DESTINATIONS_MAX)

enum sim_work_kind {
    SIM_COPY,   /* pointers[0] <- pointers[1], size bytes */
    SIM_FILL,   /* pointers[0] <- byte */
    SIM_REDUCE, /* destinations, then sources */
    SIM_RUN,    /* collective */
    SIM_MARK,
    SIM_AWAIT,
    SIM_WAIT, /* waits for it */
    SIM_OPEN, /* opens it */
    SIM_FLAG, /* waits for it */
};

struct sim_work {
    struct sim_work *next;
    enum sim_work_kind kind;
    void *pointers[SIM_POINTERS_MAX];
    int pointer_count;
    size_t size; /* bytes at each pointer */
    int byte;
    struct weft_device_reduction reduction;
    char scalar[16];
    struct weft_device_event *event;
    struct weft_device_wait *wait;
    const int *flag;
    struct weft_device_collective *collective; /* the work's own, with its steps */
};

/* Fields but the thread's own: [lock]. */
struct sim_command_queue {
    struct weft_device *device; /* NULL: a stream's */
    pthread_t thread;
    pthread_cond_t has_work; /* or is_closing; what others wait for is sim.changed */
    struct sim_work *first, **end;
    int is_closing, is_ended;
    int is_abandoned; /* waits for no event or word any more */
    int status;       /* of the first work that failed; sticks */
    char why[200];
    uint64_t random; /* the thread's */
};

struct weft_device_event {
    struct weft_device *device;
    int users; /* [lock] like the rest */
    int state; /* atomic, and written with the lock: 0 not yet, 1, or what has failed */
    int ordinal, is_timed;
    int64_t happened_ns;
    char why[200];
};

struct weft_device_wait {
    struct weft_device *device;
    int users, is_open;
};

struct weft_device_queue {
    struct weft_device *device;
    int ordinal;
    struct sim_command_queue commands;
};

/* [lock] Notes which process this is, for sim_is_own(). 0, or -1: the system has no such memory. */
int sim_process_learn(void);
int sim_is_own(const struct weft_device *device);
/* Takes the lock. WEFT_INVALID, without it, in a forked child: the device's threads are not there. device NULL: a
 * program's call. */
int sim_enter(const struct weft_device *device);
void sim_leave(void);

uint64_t sim_random(uint64_t *state);
/* [lock] Whether this registration is to be refused. */
int sim_refuses(struct weft_device *device);

/* [lock] Whether kernels of the ordinal reach it, as the options say. Imported memory is of the device that it was imported for. */
int sim_is_reached(const struct weft_device *device, int ordinal, const void *pointer);

/* [lock] memory.c */
struct sim_span *sim_span_find(const void *pointer, size_t size);
/* Maps a memfd: for the program out of reach, for device threads readable. fd is the span's when it succeeds. */
int sim_span_map(int fd, size_t length, struct sim_span **made);
/* Waits until no work runs on it; frees it and keeps its address for the next of that size. */
void sim_span_free(struct sim_span *span);
void sim_holes_free(void);

/* command_queue.c */
int sim_command_queue_open(struct sim_command_queue *commands, struct weft_device *device, uint64_t seed);
/* Waits for what it holds; a queue's command queue abandons what waits for an event or a word that does not come. */
void sim_command_queue_close(struct sim_command_queue *commands);
/* Copies the work; a failure is without text. Takes the lock. */
int sim_command_queue_add(struct sim_command_queue *commands, const struct sim_work *work);
/* [lock] */
int sim_command_queue_append(struct sim_command_queue *commands, const struct sim_work *work);
/* [lock] The command queue's first failure is what it answers from now on. */
void sim_command_queue_fail(struct sim_command_queue *commands, int status, const char *why);
/* [lock] Where the thread finds size bytes at each pointer, which do not go until they are released. 0, or the command queue has
 * failed: device memory that has been freed while work on it was queued is an error of the program's, as on hardware. */
int sim_command_queue_hold(struct sim_command_queue *commands, void *const *pointers, int count, size_t size,
                           struct sim_span **spans, char **views);
/* [lock] */
void sim_command_queue_release(struct sim_span *const *spans, int count);
void sim_event_drop(struct weft_device_event *event);
void sim_wait_drop(struct weft_device_wait *wait);

/* [lock] stream.c: the stream's command queue, NULL when there is no such stream. stream NULL: the device's own. */
struct sim_command_queue *sim_stream_command_queue(int ordinal, void *stream);
/* Waits for what the devices' own streams hold. */
void sim_defaults_close(void);

/* reduce.c */
size_t sim_element_bytes(weft_dtype dtype);
int sim_reduce_knows(weft_dtype dtype, weft_op op, int is_scaled);
void sim_reduce(const struct weft_device_reduction *reduction);

/* collective.c */
int sim_run(struct weft_device_queue *queue, const struct weft_device_collective *collective);
/* [lock] In the command queue's thread, which gives the lock up while it works and waits. */
void sim_collective_run(struct sim_command_queue *commands, const struct weft_device_collective *collective);

/* kind.c's operations that are in share.c */
int sim_export_dmabuf(struct weft_device *device, const void *memory, size_t size, int *fd, uint64_t *offset);
int sim_export_ipc(struct weft_device *device, const void *memory, struct weft_device_handle *handle,
                   uint64_t *offset);
int sim_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *handle,
                   void **base);
int sim_unimport(struct weft_device *device, void *base);
/* A sealed memfd called by token and length. -1 with errno. */
int sim_memfd(const uint64_t token[2], size_t length);
size_t sim_pages(size_t size);

#endif
