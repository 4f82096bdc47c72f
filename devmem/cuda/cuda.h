/* SPDX-License-Identifier: Apache-2.0 */
/* The "cuda" kind of devices, on NVIDIA's driver API. What has been tried is a simulation of the driver (tests/fakes/drivers/):
 * no line of this folder has run on a real one. Private to devmem/cuda/; devmem/registry.c knows weft_cuda_ops.
 *
 * Levels. Opening the kind finds out nothing: a process that does not use CUDA pays neither for loading the driver
 * nor for initialising it.
 *   found   the program has loaded libcuda.so.1: its functions are known. identify() needs no more, and asks again for a
 *           library only when the dynamic linker has loaded something since.
 *   ready   weft has loaded it where need be, and cuInit() has been called. Every operation but open, close and identify gets
 *           there by itself and says why it cannot (WEFT_NOT_FOUND).
 *
 * Contexts. Weft works in a device's primary context, which is that of the CUDA runtime, and retains it from the first
 * operation that needs one until close. weft_cuda_enter() makes it current by pushing it, leave pops it: the program's
 * current context is as it was, on every thread. Between the two the thread's stream capture mode is "relaxed", so that what weft
 * does while the program captures a graph neither fails nor spoils the capture.
 *
 * Process-wide state, guarded by locks of its own: memory that was imported (a handle may be opened once per context),
 * host memory that is pinned (the driver refuses to register a page twice), descriptors for other processes (a desk where
 * they ask), words for stream waits (a stream may still wait at one when its device has been closed), and the kernels that are loaded
 * (launch.c). Contexts are process-wide as well.
 *
 * Locks: device->lock guards what one weft_device has. It is taken last: the others may be held then, never the other way
 * round, and no two of the others at a time.
 */
#ifndef WEFT_DEVMEM_CUDA_CUDA_H
#define WEFT_DEVMEM_CUDA_CUDA_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <weft/device.h>
#include "devmem/cuda/driver.h"

#define WEFT_CUDA_ORDINALS_MAX 64
#define WEFT_CUDA_TEXT         256

struct weft_cuda_launcher; /* launch.c: the kernels of one device */

struct weft_device_event {
    struct weft_device *device;
    cuda_event event;
    int ordinal, is_timed;
    cuda_context context;           /* NULL: the primary one */
    struct weft_device_event *next; /* unused */
};

struct weft_cuda_ordinal {
    int device;           /* CUdevice */
    cuda_context context; /* NULL: not retained */
    uint64_t peers;       /* bit per ordinal whose memory its kernels reach, weft_cuda_is_reached(); atomic */
    int has_dmabuf, has_waits, can_flush, has_concurrent_managed;
    int orders_writes, can_flush_writes; /* of NICs: its own work sees them; it can be made to */
    struct weft_cuda_launcher *launcher;
    struct weft_device_event *events[2]; /* unused ones, and those that time */
};

struct weft_cuda_allocation {
    void *memory;
    int ordinal;
    enum weft_memory_kind kind;
    struct weft_cuda_allocation *next;
};

enum { WEFT_CUDA_NOTHING, WEFT_CUDA_FOUND, WEFT_CUDA_READY };

struct weft_device {
    struct weft_device_params params;
    pid_t pid; /* a forked child must not touch the driver */
    pthread_mutex_t lock;
    atomic_int level;
    atomic_int is_narrow;        /* the driver does not know the newest attributes of pointers */
    atomic_ullong library_loads; /* of the dynamic linker, when libcuda was last looked for */
    int said_old;
    struct weft_cuda_driver driver;
    int count;
    int uses_host_pointers; /* all devices use host memory at the host's addresses */
    struct weft_cuda_ordinal ordinals[WEFT_CUDA_ORDINALS_MAX];
    struct weft_cuda_allocation *allocations;
};

struct weft_device_queue {
    struct weft_device *device;
    int ordinal;
    cuda_stream stream;
    cuda_event waited; /* recorded behind the last wait of this queue, or program */
    int meeting;       /* where blocks of its programs meet; -1: they have one block */
};

extern const struct weft_device_ops weft_cuda_ops;

/* --- cuda.c */

/* Finds the library if it is there; the level. Never fails. */
int weft_cuda_find(struct weft_device *device);
/* Loads and initialises. */
int weft_cuda_ready(struct weft_device *device);
/* WEFT_INVALID for a device that does not exist. Ready afterwards. */
int weft_cuda_check(struct weft_device *device, int ordinal);

/* --- context.c */

struct weft_cuda_turn {
    struct weft_device *device;
    int mode; /* the thread's capture mode before */
};

/* Makes the primary context of ordinal current. Nothing to leave when it fails. */
int weft_cuda_enter(struct weft_device *device, int ordinal, struct weft_cuda_turn *turn);
/* The same for the context of a stream of the program's; WEFT_UNSUPPORTED while it is being captured into a graph. */
int weft_cuda_enter_stream(struct weft_device *device, int ordinal, cuda_stream stream, cuda_context *context,
                           struct weft_cuda_turn *turn);
int weft_cuda_enter_context(struct weft_device *device, int ordinal, cuda_context context,
                            struct weft_cuda_turn *turn);
void weft_cuda_leave(struct weft_cuda_turn *turn);
/* An ordinal whose context is there already, else 0. */
int weft_cuda_some_ordinal(struct weft_device *device);
/* Lets kernels on ordinal reach the memory of those other devices that have a context and can be reached. May wait. */
void weft_cuda_reach_peers(struct weft_device *device, int ordinal);
struct weft_cuda_memory;
/* Whether kernels on the ordinal can use what lies at the pointer. */
int weft_cuda_is_reached(struct weft_device *device, int ordinal, const void *pointer,
                         const struct weft_cuda_memory *memory);
int weft_cuda_reaches(struct weft_device *device, int ordinal, const void *pointer, int may_wait);

/* --- error.c */

/* The status for a result of the driver's. */
int weft_cuda_status(int result);
/* Whether a result says that the context, or the device, is lost with all that it holds. */
int weft_cuda_is_fatal(int result);
/* "what: CUDA_ERROR_X (its text)", and its status. */
int weft_cuda_fail(struct weft_device *device, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- identify.c */

struct weft_cuda_memory {
    struct weft_device_span span;
    uint64_t handle_types;
    cuda_pool pool;
    int is_legacy_ipc;
};

/* Memory that a handle may be made of; WEFT_UNSUPPORTED with a text otherwise. */
int weft_cuda_look_device(struct weft_device *device, const void *pointer, struct weft_cuda_memory *memory);
/* identify() and what exports need to know besides. WEFT_NOT_FOUND has no text. */
int weft_cuda_look(struct weft_device *device, const void *pointer, struct weft_cuda_memory *memory);
int weft_cuda_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span);
/* Whether all size bytes are memory that the driver knows, be it in several spans. */
int weft_cuda_is_known(struct weft_device *device, const void *pointer, size_t size);

/* --- the other operations: share.c, import.c, queue.c, event.c, wait.c, pin.c, memory.c, launch.c */

int weft_cuda_flush_writes(struct weft_device *device, int ordinal);
int weft_cuda_export_dmabuf(struct weft_device *device, const void *memory, size_t size, int *fd,
                            uint64_t *offset);
int weft_cuda_export_ipc(struct weft_device *device, const void *memory, struct weft_device_handle *handle,
                         uint64_t *offset);
int weft_cuda_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *handle,
                         void **base);
int weft_cuda_unimport(struct weft_device *device, void *base);
/* Whether the pointer is in memory that was imported for that ordinal, whose kernels then reach it. */
int weft_cuda_is_imported(int ordinal, const void *pointer);

int weft_cuda_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue);
void weft_cuda_queue_close(struct weft_device_queue *queue);
int weft_cuda_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size);
int weft_cuda_mark(struct weft_device_queue *queue, struct weft_device_event **event);
int weft_cuda_mark_stream(struct weft_device *device, int ordinal, void *stream, uint32_t flags,
                          struct weft_device_event **event);
int weft_cuda_test(struct weft_device_event *event);
int weft_cuda_await(struct weft_device_queue *queue, struct weft_device_event *event);
int weft_cuda_elapsed(struct weft_device_event *from, struct weft_device_event *to, double *ns);
void weft_cuda_event_free(struct weft_device_event *event);
/* Gives the unused events back; to the driver as well, when the ordinal's context is there. */
void weft_cuda_events_destroy(struct weft_device *device, int ordinal, int is_there);

int weft_cuda_wait_stream(struct weft_device *device, int ordinal, void *stream,
                          struct weft_device_wait **wait);
int weft_cuda_wait_open(struct weft_device_wait *wait, struct weft_device_queue *queue);
void weft_cuda_wait_free(struct weft_device_wait *wait);
/* Has words ready for stream waits; a context is current. A result of the driver's. */
int weft_cuda_waits_prepare(struct weft_device *device);
/* Work of the ordinal has failed: stream waits that its queues were to open are opened from here. */
void weft_cuda_waits_rescue(int ordinal);

int weft_cuda_pin(struct weft_device *device, void *memory, size_t size);
int weft_cuda_unpin(struct weft_device *device, void *memory, size_t size);
int weft_cuda_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                       void **memory);
int weft_cuda_release(struct weft_device *device, void *memory);

#endif
