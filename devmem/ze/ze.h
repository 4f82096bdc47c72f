/* SPDX-License-Identifier: Apache-2.0 */
/* The "ze" kind of devices: Intel GPUs by Level Zero. What has been tried is the real loader with a driver of the tests' own
 * (tests/fakes/ze/): no line of this folder has run on a GPU. Private to devmem/ze/; devmem/registry.c knows weft_ze_ops.
 *
 * Levels, as of the kind "cuda". Opening the kind finds out nothing, so that programs that use no Level Zero pay nothing for it. What
 * needs more loads the loader where the program has not, and initialises the drivers (weft_ze_ready()); where that fails it says why
 * (WEFT_NOT_FOUND), and the next one tries again. Whose memory a pointer is is asked where the program has loaded the loader.
 *
 * Contexts. Memory and events belong to a context. Weft has one of its own for each driver. Of the program's memory, which belongs to
 * another, it asks through its own: drivers know all memory of theirs by its address. Other libraries that are never given a
 * context (libfabric, UCX, MPICH) rely on the same.
 *
 * Locks: device->lock guards what changes after initialisation, and initialisation itself; device->imports_lock what is mapped of other processes;
 * device->residents_lock is kept while memory is made resident.
 *
 * Ordinals. Drivers in the loader's order, and of each its GPUs in the driver's: the order in which SYCL counts the devices of a
 * platform, so "ze:1" is PyTorch's "xpu:1" where there is one driver. ZE_AFFINITY_MASK and ZE_FLAT_DEVICE_HIERARCHY decide which devices there are,
 * and whether a tile is one of its own. What Level Zero calls a sub-device belongs to its device's ordinal.
 *
 * Source: oneAPI Level Zero Specification 1.9, "Core Programming Guide", Drivers and Devices.
 */
#ifndef WEFT_DEVMEM_ZE_ZE_H
#define WEFT_DEVMEM_ZE_ZE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>
#include <weft/device.h>

#include "devmem/ze/driver.h"

#define WEFT_ZE_ORDINALS_MAX 64
#define WEFT_ZE_DRIVERS_MAX  16
#define WEFT_ZE_TILES_MAX    8
#define WEFT_ZE_TEXT         256

/* An event is signalled once, and reset before it is used again: when it has been signalled, and nobody waits for it any more. */
struct weft_device_event {
    struct weft_device *device;
    ze_event_handle_t handle;
    int place, ordinal; /* its driver; where it was marked */
    int users; /* who asks for it, the queue whose last wait it stands behind, events that await it. With the lock */
    struct weft_device_event *awaits; /* what a queue or a stream waits for in front of this one */
    uint64_t *ticks; /* the device's time there, in host memory of the driver's; NULL: none was wanted yet */
    int is_timed;
    int is_loose; /* the call that was to put it into a stream has failed, and it may be signalled all the same */
    struct weft_device_event *next; /* retired, or unused */
};

struct weft_ze_pool {
    ze_event_pool_handle_t handle;
    struct weft_ze_pool *next;
    uint32_t made;
    struct weft_device_event events[];
};

/* A driver, and weft's own context of it. */
struct weft_ze_place {
    ze_driver_handle_t driver;
    ze_context_handle_t context;
    struct weft_ze_pool *pools;
    struct weft_device_event *retired, *unused; /* the first ones may not have been signalled yet */
};

/* A stream of the program's, as a pointer names it. */
struct weft_ze_stream {
    void *given;
    ze_command_list_handle_t list;      /* an immediate one; NULL: */
    ze_command_queue_handle_t commands; /* a command queue, */
    uint32_t group;                     /* of this group */
};

/* A place where a stream waits: an event that weft signals, and one that the stream signals behind it. */
struct weft_device_wait {
    struct weft_device *device;
    struct weft_device_event *opens, *passed;
    int opener;  /* the ordinal of the queue that it was left to; -1: none */
    int is_kept; /* opens, for ever: the host has signalled it, and the queue may yet, also where it failed */
    int is_free; /* nobody but a queue has it any more */
    struct weft_device_wait *next;
};

/* What weft has to try of a device, as no call says it: whether queues get on beside a kernel that waits
 * (probe.c), and get by beside a stream that waits (beside.c). */
enum { WEFT_ZE_BESIDE_KERNEL, WEFT_ZE_BESIDE_STREAM, WEFT_ZE_TRIALS };
enum weft_ze_answer { WEFT_ZE_ANSWER_UNTRIED = 0, WEFT_ZE_ANSWER_YES, WEFT_ZE_ANSWER_NO };

/* An answer stays, and so does the text of a NO. Until there is one: with the launcher's probe_lock. */
struct weft_ze_trial {
    atomic_int answer; /* enum weft_ze_answer */
    int tries;         /* without an answer */
    char text[WEFT_ZE_TEXT];
};

struct weft_ze_ordinal {
    ze_device_handle_t device;
    int place;
    uint32_t group;      /* of its command queues: one that computes and copies */
    uint32_t last_index; /* of that group's */
    uint32_t tile_count;
    ze_device_handle_t tiles[WEFT_ZE_TILES_MAX]; /* memory may be one's */
    uint8_t uuid[16], tile_uuids[WEFT_ZE_TILES_MAX][16];
    int exports, imports;              /* memory, as a dma-buf */
    int is_unlisted;                   /* by its ordinal in the first driver's list */
    struct weft_ze_launcher *launcher; /* launch.h; NULL: it has reduced nothing */
    struct weft_ze_batch *on_streams;  /* lists in command queues of the program's, the oldest first */
    struct weft_ze_trial trials[WEFT_ZE_TRIALS];
    atomic_int
        limit_ms; /* that device collectives may wait, until that has been said; 0: no limit is known */
    atomic_uchar peers[WEFT_ZE_ORDINALS_MAX]; /* enum weft_ze_peer, by ordinal */
    atomic_int is_resident_said;              /* that others' memory cannot be made resident */
    atomic_llong status_ns;                   /* when the driver was last asked whether it is lost, */
    atomic_int is_lost;                       /* and what it has said once */
};

enum weft_ze_peer { WEFT_ZE_PEER_UNASKED = 0, WEFT_ZE_PEER_REACHED, WEFT_ZE_PEER_UNREACHED };

struct weft_ze_allocation {
    void *memory;
    int place;
    struct weft_ze_allocation *next;
};

/* Pages that somebody has pinned. */
struct weft_ze_pin {
    uintptr_t begin, end;
    uint64_t serial;
    struct weft_ze_pin *next;
};

/* A command list of a command queue: one operation, and an event behind it. */
struct weft_ze_batch {
    ze_command_list_handle_t list;
    uint32_t group; /* of a list in a command queue of the program's */
    struct weft_device_event *end;
    struct weft_ze_batch *next; /* the oldest first */
};

/* What commands go to. */
struct weft_ze_channel {
    ze_command_list_handle_t list;      /* an immediate one; NULL where the driver has none: */
    ze_command_queue_handle_t commands; /* a command queue, and lists for it */
    struct weft_ze_batch *batches;
    ze_command_list_handle_t former; /* the immediate one, where it had one before; NULL */
    struct weft_device_event *turn;  /* behind what that holds, */
    int is_turning;                  /* for which the command queue's first list has to wait */
};

enum { WEFT_ZE_NOTHING, WEFT_ZE_READY };

struct weft_device {
    struct weft_device_params params;
    const char *root; /* of the kernel's files: "" */
    pid_t pid;        /* a forked child must not touch the drivers */
    pthread_mutex_t lock;
    atomic_int level;
    atomic_ullong library_loads; /* of the dynamic linker, when identify() last looked for the loader */
    struct weft_ze_driver driver;
    int place_count, count;
    struct weft_ze_place places[WEFT_ZE_DRIVERS_MAX];
    struct weft_ze_ordinal ordinals[WEFT_ZE_ORDINALS_MAX];
    struct weft_ze_allocation *allocations;
    struct weft_ze_pin *pins;
    pthread_mutex_t imports_lock; /* of imports and mappings, also while the driver maps */
    struct weft_ze_import *imports;
    struct weft_ze_mapping *mappings;   /* mapping.h */
    struct weft_device_queue *left;     /* with work that waits for ever */
    struct weft_device_wait *waits;     /* that were left to queues */
    struct weft_ze_resident *residents; /* resident.c; with the lock */
    pthread_mutex_t residents_lock;     /* from looking for one until it has been added; never within lock */
};

struct weft_device_queue {
    struct weft_device *device;
    int ordinal, place;
    struct weft_ze_channel channel;
    int is_open_ended;  /* its last commands may run beside what follows: a barrier has to be between */
    ze_result_t broken; /* why it takes nothing any more: channel.c; ZE_RESULT_SUCCESS: it does */
    void *borrowed;     /* memory for what kernels do not reach, launch.c; NULL: none was needed */
    struct weft_ze_steps *steps;      /* of device collectives, run.c */
    struct weft_device_event *waited; /* behind its last wait; NULL: none */
    struct weft_device_event *end;    /* for closing */
    struct weft_device_queue *next;   /* left */
};

extern const struct weft_device_ops weft_ze_ops;

/* Weft's own context of the ordinal's driver. */
static inline ze_context_handle_t weft_ze_context_of(const struct weft_device *device, int ordinal)
{
    return device->places[device->ordinals[ordinal].place].context;
}

/* Whether this is a forked child. There nobody else has a lock of the kind's, or gives it back, and no driver may be called. */
static inline int weft_ze_is_child(const struct weft_device *device)
{
    return device->pid != getpid();
}

/* --- error.c */

/* What a result means for weft: WEFT_OK, or a negative status. */
int weft_ze_status(ze_result_t result);
/* weft_ze_status(), and a text that names what was tried and the result as the specification does. */
int weft_ze_word(ze_result_t result, char text[WEFT_ZE_TEXT], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, given to the caller. */
int weft_ze_fail(struct weft_device *device, ze_result_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- limits.c */

/* The PCI address; "": it is not known. */
void weft_ze_pci(const struct weft_ze_driver *driver, ze_device_handle_t place, char *text, size_t size);
/* After which the kernel's driver may reset a kernel that waits; 0: never, or it is not known. */
int weft_ze_limit_ms(struct weft_device *device, int ordinal);

/* --- find.c */

/* Loads and initialises. */
int weft_ze_ready(struct weft_device *device);
/* Whether the program uses Level Zero: initialises where it has loaded the loader. Says nothing. */
int weft_ze_find(struct weft_device *device);
/* WEFT_INVALID for a device that does not exist. Ready afterwards. */
int weft_ze_check(struct weft_device *device, int ordinal);

/* --- memory.c */

int weft_ze_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span);
/* The same, with all that is known: 1, or 0. place becomes the driver, -1 where the memory is the host's, pinned. */
int weft_ze_look(struct weft_device *device, const void *pointer, struct weft_device_span *span, int *place);
/* Bytes from pointer to the end of its span; 0: nobody knows it. place becomes its driver, -1 where it is the host's, pinned. */
size_t weft_ze_left_in_span(struct weft_device *device, const void *pointer, int *place);
int weft_ze_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                     void **memory);
int weft_ze_release(struct weft_device *device, void *memory);
/* Whether work of a device reaches memory of another, or of its own: 1 or 0. may_wait 0: where the driver has not been asked, 0. */
int weft_ze_reaches_peer(struct weft_device *device, int ordinal, int peer, int may_wait);

/* --- resident.c */

/* Whether kernels of the ordinal reach the memory, which its device reaches, by an address that is no parameter: by looking only. */
int weft_ze_is_resident(struct weft_device *device, int ordinal, const struct weft_device_span *span);
int weft_ze_reaches(struct weft_device *device, int ordinal, const void *pointer, int may_wait);
void weft_ze_residents_end(struct weft_device *device, int is_here);

/* --- share.c */

int weft_ze_export_dmabuf(struct weft_device *device, const void *memory, size_t size, int *fd,
                          uint64_t *offset);
int weft_ze_export_ipc(struct weft_device *device, const void *memory, struct weft_device_handle *exported,
                       uint64_t *offset);

/* --- import.c */

int weft_ze_import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *given,
                       void **base);
int weft_ze_unimport(struct weft_device *device, void *base);

/* --- pin.c */

int weft_ze_pin(struct weft_device *device, void *memory, size_t size);
int weft_ze_unpin(struct weft_device *device, void *memory, size_t size);
/* Fills the span, of one pin, where the pointer is in pinned pages. */
int weft_ze_find_pin(struct weft_device *device, const void *pointer, struct weft_device_span *span);

/* --- event.c */

/* One that has not been signalled, with one user. NULL with a text. */
struct weft_device_event *weft_ze_event_get(struct weft_device *device, int ordinal);
/* One more user, and one less. */
void weft_ze_event_use(struct weft_device_event *event);
void weft_ze_event_put(struct weft_device_event *event);
/* The last, of who marked it. */
void weft_ze_event_free(struct weft_device_event *event);
/* Gives back one that nothing signals; a loose one, when it has been signalled. */
void weft_ze_event_unused(struct weft_device_event *event);
int weft_ze_test(struct weft_device_event *event);
/* What the driver says of it; ZE_RESULT_ERROR_DEVICE_LOST also where only the device says so, or that of what the event waits for. Then work may go
 * on all the same, so that nothing is to be freed for it. Asks the driver now and then: without the lock. */
ze_result_t weft_ze_event_state(struct weft_device_event *event);
/* Whether the event itself has not happened, whatever its device says. */
int weft_ze_event_is_ahead(const struct weft_device_event *event);
/* Whether the driver has said that the ordinal is lost: asked now and then, without the lock. What is lost stays it. */
int weft_ze_is_lost(struct weft_device *device, int ordinal);
/* Opens a stream wait by the host, where it is not open. With the lock, or where nobody else knows the wait. */
void weft_ze_wait_signal(struct weft_device_wait *wait);
/* Work on the ordinal has failed: opens the stream waits that its queues were to open. */
void weft_ze_events_rescue(struct weft_device *device, int ordinal);
/* Makes the event, which has not been signalled, one that notes the device's time: weft_ze_command has to name its ticks. */
ze_result_t weft_ze_event_time(struct weft_device_event *event);
int weft_ze_elapsed(struct weft_device_event *from, struct weft_device_event *to, double *ns);
/* Gives back those of one driver: 1. 0: some have yet to be signalled, by streams of the program's, and all are left. */
int weft_ze_events_destroy(struct weft_device *device, struct weft_ze_place *place);

/* --- channel.c */

/* One command: a launch of a kernel whose arguments are set; a copy; a look at the device's clock; or, with none of these, a barrier. */
struct weft_ze_command {
    ze_kernel_handle_t kernel;
    uint32_t blocks;
    void *destination;
    const void *source;
    size_t size;
    uint64_t *ticks;          /* where the device's time goes; NULL: nowhere */
    ze_event_handle_t signal; /* NULL: none */
    ze_event_handle_t wait;   /* NULL: none */
};

/* Makes one for a device: an immediate command list, or a command queue; of weft's, or as programs make them. */
ze_result_t weft_ze_channel_open(struct weft_device *device, int ordinal, int is_plain,
                                 struct weft_ze_channel *channel);
/* Nothing of it is in flight. */
void weft_ze_channel_close(struct weft_device *device, struct weft_ze_channel *channel);
/* Has all that follows go to a command queue, behind what the immediate list holds. Where it fails the channel is as it was. */
ze_result_t weft_ze_channel_turn(struct weft_device_queue *queue);
/* Appends a command that is ordered behind nothing but barriers: in a command queue each is one. A queue that has broken takes none. */
ze_result_t weft_ze_channel_append(struct weft_device_queue *queue, const struct weft_ze_command *command);
/* What was to signal the event could not be appended: it is given back, or kept where the queue has broken. */
void weft_ze_channel_drop(const struct weft_device_queue *queue, struct weft_device_event *event);
/* Whether the driver may run later what this result is of: memory was short when it was to be submitted. */
int weft_ze_may_run(ze_result_t result);
/* To any list. */
ze_result_t weft_ze_list_append(const struct weft_ze_driver *driver, ze_command_list_handle_t list,
                                const struct weft_ze_command *command);

/* --- stream.c */

/* What a pointer names; what it cannot be is WEFT_INVALID with a text. */
int weft_ze_stream_find(struct weft_device *device, int ordinal, void *given, struct weft_ze_stream *found);
/* A barrier behind all that the stream holds, in front of all that follows. The event that it signals may not be reset before a command queue is
 * through with it: it gets a user more for that. */
ze_result_t weft_ze_stream_append(struct weft_device *device, int ordinal,
                                  const struct weft_ze_stream *stream, struct weft_device_event *signal,
                                  const struct weft_device_event *wait);
int weft_ze_mark_stream(struct weft_device *device, int ordinal, void *given, uint32_t flags,
                        struct weft_device_event **marked);
/* Gives back the lists of an ordinal that command queues are through with. 0: they are not with all, and those are left. */
int weft_ze_streams_close(struct weft_device *device, int ordinal);

/* --- wait.c */

int weft_ze_wait_stream(struct weft_device *device, int ordinal, void *given, struct weft_device_wait **wait);
int weft_ze_wait_open(struct weft_device_wait *wait, struct weft_device_queue *queue);
void weft_ze_wait_free(struct weft_device_wait *wait);
/* Forgets the waits that queues have opened, or never will as their device is lost; is_last: the others as well. */
void weft_ze_waits_sweep(struct weft_device *device, int is_last);

/* --- load.c, launch.c */

int weft_ze_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction);
/* Gives back the ordinal's kernels, none of which is in flight. is_there 0: only what is not the driver's. */
void weft_ze_launcher_close(struct weft_device *device, int ordinal, int is_there);
/* Whether the library was built with kernels. */
int weft_ze_has_kernels(void);
/* And whether the device runs them; some types may be the host's all the same. */
int weft_ze_reduces(struct weft_device *device, int ordinal);

/* Bytes from the pointer on that a kernel of the queue's device reaches, as a parameter, or as an address in steps; 0: none, as it is pinned memory that the
 * driver does not know. Negative with a text, which begins with the prefix. */
int64_t weft_ze_reached(const struct weft_device_queue *queue, const void *pointer, int is_in_steps,
                        const char *prefix);

/* --- run.c, probe.c */

int weft_ze_run(struct weft_device_queue *queue, const struct weft_device_collective *collective);
/* steps.c; nothing of the queue is in flight. */
void weft_ze_steps_free(struct weft_device_queue *queue);
/* Tries once whether other queues get on beside a kernel, where the library has kernels. */
void weft_ze_probe(struct weft_device *device, int ordinal);
/* What trying shows: 1; 0 with a text of why not, and with a line in the log when that is final. It is tried
 * when nobody knows yet, which may take a while; what is known takes no lock. */
int weft_ze_try(struct weft_device *device, int ordinal, int trial, char text[WEFT_ZE_TEXT]);
/* Whether other queues are known to get on beside a kernel by now: 1, or 0. Takes no lock. */
int weft_ze_meets(struct weft_device *device, int ordinal);
int weft_ze_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue);

/* --- beside.c */

#define WEFT_ZE_SOON_MS 500
/* Whether it happens within that time. */
int weft_ze_event_is_soon(const struct weft_device_event *event);
/* "Level Zero device ORDINAL WHAT within TIME". */
void weft_ze_late(char text[WEFT_ZE_TEXT], int ordinal, const char *what);
/* One attempt: enum weft_ze_answer, UNTRIED where another one may show more. With a text. */
int weft_ze_try_stream(struct weft_device *device, int ordinal, char text[WEFT_ZE_TEXT]);
static inline int weft_ze_streams_wait(struct weft_device *device, int ordinal, char text[WEFT_ZE_TEXT])
{
    return weft_ze_try(device, ordinal, WEFT_ZE_BESIDE_STREAM, text);
}

/* --- queue.c */

/* Without probing the device. */
int weft_ze_queue_make(struct weft_device *device, int ordinal, struct weft_device_queue **queue);
/* The queue's last wait, which may never end, stands before this event, which becomes the queue's. */
void weft_ze_queue_stands(struct weft_device_queue *queue, struct weft_device_event *behind);
void weft_ze_queue_close(struct weft_device_queue *queue);
int weft_ze_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size);
int weft_ze_mark(struct weft_device_queue *queue, struct weft_device_event **event);
int weft_ze_await(struct weft_device_queue *queue, struct weft_device_event *event);
/* WEFT_OK, or the status with a text where the queue takes nothing any more, or is a forked child's copy. */
int weft_ze_queue_check(const struct weft_device_queue *queue);
/* Ends command lists that were left, where what they waited for has come. */
void weft_ze_queues_sweep(struct weft_device *device);
/* The same, and waits a little for the others. */
void weft_ze_queues_end(struct weft_device *device);

#endif
