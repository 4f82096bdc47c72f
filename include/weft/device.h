/* SPDX-License-Identifier: Apache-2.0 */
/* Where bytes live and who computes on them: the contract between weft and a kind of device, and the plug-in ABI for
 * kinds outside this library.
 *
 * A backend serves one kind ("cuda", "sim", a plug-in's own): it says which pointers are its memory, hands that memory to
 * NICs and to other processes, and does copies and reductions on the device, in queues of weft's own that never hold up the
 * program's. What is sent when to whom is not its business.
 *
 * Terms
 *   ordinal   number of a device within its kind, from 0, as the driver counts in this process.
 *   span      what one allocation (or, of memory that was mapped piece by piece, one mapping) covers: from base on, length
 *             bytes. A buffer of the program's may lie across several spans.
 *   identity  of a span: a number that no other allocation of this process has had or will have, also at the same address. What is
 *             cached about memory (registrations, handles) is valid as long as identify() still gives the same identity.
 *   queue     weft's own sequence of work on one device; work in one queue runs in order, queues run beside each other and
 *             beside the program's streams. A queue never waits for the program.
 *   stream    the program's own sequence of work, whatever its runtime calls it, passed as a pointer: a cudaStream_t; of Level Zero an
 *             immediate command list, or a command queue with the lowest bit of its pointer set.
 *   event     a place in a queue or a stream; it has happened when all work before it is done.
 *     wait      a stream wait: a place in a stream at which it waits until the host or a queue opens it.
 *
 * Stream order. A call of the program's on a stream is served without waiting: mark_stream() makes an event behind what the stream
 * holds by then, wait_stream() puts a stream wait behind that, and the call returns. The host asks for the event, and queues weft's work when it has
 * happened. When that is done, or has failed, the wait is opened, at once or behind the work that is still in a queue. Every stream wait is
 * opened, whatever happens: a stream that waits for ever hangs the program.
 * Queues do not wait for streams by themselves: queues share a device's hardware channels, so one that waits for a stream could stand
 * before another one's work that opens an earlier wait of that stream, and neither would ever get on.
 *
 * Operations that a backend lacks may be NULL in its table; weft_device_complete() (devmem/registry.c) fills them with a
 * default that answers WEFT_UNSUPPORTED, so that every operation is callable. New operations come at the table's end.
 *
 * Threads: all operations may be called from any thread at any time, and by several at once, but a queue, event or stream wait is used
 * by one thread at a time. A backend leaves the calling thread as it was (its current device or context).
 * Blocking: open, close, describe (which may try out what a device can), queue_open, queue_close, unimport, pin, unpin, allocate, release, flush_writes and reaches (where it is
 * allowed to) may wait, for a bounded time where the device still answers. Nothing else waits for the device: no host synchronisation hides in an operation.
 * Errors: 0 or a negative enum weft_status, WEFT_AGAIN only of elapsed(); the text goes to params.fail first. Work that fails later on the device is reported by
 * test() of every event behind it. What a queue was to do still reaches its end then: stream waits are opened, events happen.
 * Memory visibility: when test() says that an event has happened, what the work before it wrote is visible to the host, to
 * the device's other queues and to NICs.
 *
 * Plug-ins. A shared object that is built from include/weft/ alone exports
 *     const struct weft_device_ops *weft_device_plugin(void);
 * and is named by WEFT_DEVICE_PLUGIN, a list of absolute paths separated by colons. It is loaded only when it is a regular file
 * that belongs to root or the effective user and that nobody else may write, and likewise every folder on its path (sticky
 * folders as /tmp excepted).
 */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/status.h>
#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_DEVICE_ABI              2
#define WEFT_DEVICE_HANDLE_MAX       192  /* bytes of an exported handle */
#define WEFT_DEVICE_SOURCES_MAX      8    /* inputs of a reduction */
#define WEFT_DEVICE_DESTINATIONS_MAX 2    /* places that its result goes to */
#define WEFT_DEVICE_STEPS_MAX        4096 /* of a device collective */
#define WEFT_DEVICE_CLOSE_MS         500  /* that queue_close() waits for what a queue awaits */

struct weft_device;       /* one opened kind; defined by the backend */
struct weft_device_queue; /* defined by the backend */
struct weft_device_event; /* defined by the backend */
struct weft_device_wait;  /* defined by the backend */

/* Frozen. */
enum weft_memory_kind {
    WEFT_MEMORY_HOST = 0,    /* ordinary memory, unknown to any device */
    WEFT_MEMORY_PINNED = 1,  /* host memory that a device reads and writes by itself */
    WEFT_MEMORY_MANAGED = 2, /* moves between host and device by itself */
    WEFT_MEMORY_DEVICE = 3,  /* the device's own */
};

enum weft_span_flags {
    WEFT_SPAN_HOST_ACCESS = 1 << 0, /* the host may load and store there */
    WEFT_SPAN_IPC = 1 << 1,         /* export_ipc() may work: another process can map it */
    WEFT_SPAN_DMABUF = 1 << 2,      /* export_dmabuf() may work */
    WEFT_SPAN_PEER_MEMORY = 1 << 3, /* a NIC's driver may register the pointer itself (peer-memory modules) */
    WEFT_SPAN_ORDERED = 1 << 4,     /* came from a pool whose allocation and release follow streams */
    /* Other libraries do not have this device by its ordinal: they count devices otherwise, or do not know it. A library that is
     * given an ordinal beside a pointer might then use another device. */
    WEFT_SPAN_OWN_ORDINAL = 1 << 5,
};

/* What identify() says of the memory at a pointer. */
struct weft_device_span {
    size_t size;     /* of this struct, as the caller knows it */
    uint32_t kind;   /* enum weft_memory_kind */
    uint32_t flags;  /* enum weft_span_flags */
    int32_t ordinal; /* the device; -1: none in particular */
    uint32_t reserved;
    uint64_t base;     /* of ordinary host memory, which has no allocations that are known: 0, */
    uint64_t length;   /* and all there is */
    uint64_t identity; /* 0: not known; then nothing about it may be cached */
};

/* What describe() says of a device. */
struct weft_device_info {
    size_t size; /* of this struct, as the caller knows it */
    char name[96];
    char pci[16];     /* "0000:3b:00.0", "" unknown */
    char runtime[64]; /* driver and runtime with their versions, for people */
    uint8_t uuid[16]; /* all 0: unknown; equal in all processes that see the device */
    uint64_t memory_bytes;
    int32_t numa;   /* -1 unknown */
    uint32_t flags; /* enum weft_device_flags */
};

enum weft_device_flags {
    WEFT_DEVICE_REDUCES = 1 << 0, /* reduce() works for at least one type and operation */
    WEFT_DEVICE_IPC = 1 << 1,
    WEFT_DEVICE_DMABUF = 1 << 2,
    WEFT_DEVICE_STREAM_WAITS = 1 << 3, /* mark_stream() and wait_stream() work */
    WEFT_DEVICE_COLLECTIVES = 1 << 4,  /* run() works */
    /* Device collectives in several queues of this process on one device always get on beside each other, also when each waits for the
     * others. */
    WEFT_DEVICE_COLLECTIVES_BESIDE = 1 << 5,
};

enum weft_device_event_flags {
    /* For elapsed(). Only events that need it: a device that notes the time reports the event later than one that need not. */
    WEFT_DEVICE_EVENT_TIMED = 1 << 0,
};

/* Memory of another process, as export_ipc() describes it. Opaque to everybody but the kind that made it. */
struct weft_device_handle {
    uint32_t bytes_used;
    uint8_t bytes[WEFT_DEVICE_HANDLE_MAX];
};

/* As WEFT_LOG has them. Frozen. */
enum weft_device_log {
    WEFT_DEVICE_LOG_ERROR = 1,
    WEFT_DEVICE_LOG_WARN = 2,
    WEFT_DEVICE_LOG_INFO = 3,
    WEFT_DEVICE_LOG_DEBUG = 4,
};

/* What weft gives a backend when it opens it; strings and functions live until close(). */
struct weft_device_params {
    size_t size;
    /* Every backend says why it fails through this: one line for weft_error_detail(). Returns status. */
    int (*fail)(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void (*log)(int level, const char *format, ...)
        __attribute__((format(printf, 2, 3))); /* level: enum weft_device_log */
    const char *options; /* the kind's own settings, "" none: WEFT_DEVICE_OPTIONS's part for it */
};

/* A reduction: destinations[*][i] = sources[0][i] op sources[1][i] op ... for i in [0, count), left to right, in the
 * arithmetic of docs/types.md, bit for bit what weft computes on host memory. A destination may be one of the sources, or not overlap
 * any. Sources and destinations may be memory that was imported, of a peer device that is reachable (reaches()), or pinned. Pointers are aligned as
 * C aligns the element's type, complex numbers as their parts. */
struct weft_device_reduction {
    size_t size; /* of this struct, as the caller knows it */
    weft_dtype dtype;
    weft_op op;
    uint32_t source_count;      /* 1 to WEFT_DEVICE_SOURCES_MAX; 1: a copy that applies finish */
    uint32_t destination_count; /* 1 to WEFT_DEVICE_DESTINATIONS_MAX */
    const void *const *sources;
    void *const *destinations;
    uint64_t count;  /* elements */
    uint32_t finish; /* 0, or the number of ranks that avg divides by in this, its last, step */
    uint32_t reserved;
    const void *
        scalar; /* NULL, or one element in host memory by which sources[0] is multiplied first (rounded once) */
};

/* A device collective: work of many steps that the device runs in one go, without the host in between. Its steps are run in their order;
 * each sees what those before it have written. Devices show each other how far they are by words: 64 bits, aligned so, in this device's
 * memory, in that of a peer that is reachable, imported or pinned; whoever writes one only ever makes it larger. Words start at 0 when
 * whoever shares them out has written that. */
enum weft_device_step_kind {
    WEFT_DEVICE_STEP_REDUCE = 0, /* as reduce() does; with one source and no finish: a copy, byte for byte */
    WEFT_DEVICE_STEP_SIGNAL =
        1, /* *word = value, seen by others behind everything that the steps before have written */
    WEFT_DEVICE_STEP_AWAIT =
        2, /* until *word >= value; steps behind it see what was written before that value */
};

struct weft_device_step {
    uint32_t kind;                                    /* enum weft_device_step_kind */
    uint32_t source_count, destination_count, finish; /* of a REDUCE, as in struct weft_device_reduction */
    uint64_t count;                                   /* elements */
    const void *sources[WEFT_DEVICE_SOURCES_MAX];
    void *destinations[WEFT_DEVICE_DESTINATIONS_MAX];
    uint64_t *word; /* of a SIGNAL or AWAIT */
    uint64_t value;
};

struct weft_device_collective {
    size_t size; /* of this struct, as the caller knows it */
    weft_dtype dtype;
    weft_op op;
    uint32_t step_count; /* 1 to WEFT_DEVICE_STEPS_MAX */
    uint32_t reserved;
    const struct weft_device_step *steps; /* in host memory; may go when run() returns */
    /* In pinned memory. When it is no longer 0 the device collective ends within a short time, wherever it is; what it had still to do
     * is not done, and that is no failure of the queue. */
    const uint64_t *stop;
};

struct weft_device_ops {
    size_t size; /* of this table, as the backend knows it */
    uint32_t abi;
    const char *name; /* of the kind: lower case, unique */

    /* WEFT_NOT_FOUND when driver, library or device is absent, too old or forbidden, saying which and what was wanted.
     * Opening allocates nothing on a device and makes no device current. A backend may put off looking for its driver until
     * an operation needs it, which then says WEFT_NOT_FOUND, so that programs that do not use it do not pay for it: count()
     * says whether it works. identify() does not load a driver. */
    int (*open)(const struct weft_device_params *params, struct weft_device **device);
    /* Everything made with it must have been given back. */
    void (*close)(struct weft_device *device);
    /* Devices of the kind in this process. */
    int (*count)(struct weft_device *device);
    int (*describe)(struct weft_device *device, int ordinal, struct weft_device_info *info);

    /* Whose memory is at the pointer: fills span as far as its size goes. WEFT_NOT_FOUND, without a text, when it is not this
     * kind's (ordinary host memory, another kind's, or freed). Called for every buffer of every call: fast. */
    int (*identify)(struct weft_device *device, const void *pointer, struct weft_device_span *span);

    /* The memory as a dma-buf, for ibv_reg_dmabuf_mr() and FI_MR_DMABUF: a descriptor (close-on-exec, the caller closes
     * it) and where in it the memory begins. It stays valid, and keeps the memory, until closed. */
    int (*export_dmabuf)(struct weft_device *device, const void *memory, size_t size, int *fd,
                         uint64_t *offset);
    /* The span around memory so that another process can map it; *offset is where in it memory lies. The allocation must
     * outlive the imports. */
    int (*export_ipc)(struct weft_device *device, const void *memory, struct weft_device_handle *handle,
                      uint64_t *offset);
    /* Maps it: *base is where the span begins here, for work on that ordinal. Handles come from peers, who may have written anything
     * into them: WEFT_PROTOCOL. A handle that this same process exported gives WEFT_UNSUPPORTED: use the pointer. */
    int (*import_ipc)(struct weft_device *device, int ordinal, const struct weft_device_handle *handle,
                      void **base);
    int (*unimport)(struct weft_device *device, void *base);

    int (*queue_open)(struct weft_device *device, int ordinal, struct weft_device_queue **queue);
    /* Waits until its work has ended, but at most WEFT_DEVICE_CLOSE_MS for what the queue itself waits for: an event that it
     * awaits, and what a device collective in it awaits, may never come. What is queued behind such a wait is then left: it is done when the
     * wait ends, if it ever does, or it is dropped. Events there happen, or report a failure, and stream waits there are opened, then or at
     * once. Whoever queues work behind a wait keeps its memory until an event behind it has been reported. */
    void (*queue_close)(struct weft_device_queue *queue);
    /* Between any two of: this device's memory, memory that was imported, pinned or managed memory, other devices of the kind.
     * Ordinary host memory has to be pinned before. */
    int (*copy)(struct weft_device_queue *queue, void *destination, const void *source, size_t size);
    /* WEFT_UNSUPPORTED for a type and operation that the device does not know, and for memory that it does not reach; nothing has
     * been queued then, and the queue is as it was. The struct may go when it returns. */
    int (*reduce)(struct weft_device_queue *queue, const struct weft_device_reduction *reduction);
    /* Makes an event behind what the stream holds. The device's memory that ordinal names is where the stream runs. flags: enum
     * weft_device_event_flags. */
    int (*mark_stream)(struct weft_device *device, int ordinal, void *stream, uint32_t flags,
                       struct weft_device_event **event);

    /* Makes an event behind what the queue holds. */
    int (*mark)(struct weft_device_queue *queue, struct weft_device_event **event);
    /* 1: has happened; 0: not yet; negative: work before it has failed. */
    int (*test)(struct weft_device_event *event);
    /* Work that follows in the queue waits for the event, which may be another queue's or ordinal's, or a stream's. Where what the
     * event stands for has failed, so has this queue. */
    int (*await)(struct weft_device_queue *queue, struct weft_device_event *event);
    /* It need not have happened, and queues may wait for it still. */
    void (*event_free)(struct weft_device_event *event);

    /* Puts a closed stream wait behind what is in the stream by now. The device's memory that ordinal names is where the stream runs. */
    int (*wait_stream)(struct weft_device *device, int ordinal, void *stream, struct weft_device_wait **wait);
    /* Opens it, once: when the queue has done what is in it by now, or with queue NULL at once. */
    int (*wait_open)(struct weft_device_wait *wait, struct weft_device_queue *queue);
    /* Of an open stream wait, which need not have been passed yet. */
    void (*wait_free)(struct weft_device_wait *wait);

    /* Lets devices of this kind read and write host memory by themselves; page by page, counted. */
    int (*pin)(struct weft_device *device, void *memory, size_t size);
    int (*unpin)(struct weft_device *device, void *memory, size_t size);
    /* Memory for tests, tools and staging: kind DEVICE on that ordinal, PINNED (ordinal -1: for all), or MANAGED where the
     * kind has it. */
    int (*allocate)(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                    void **memory);
    int (*release)(struct weft_device *device, void *memory);

    /* Whether the program may have memory of this kind by now: 1 or 0, by looking only; nothing is loaded or started. NULL: 1. */
    int (*in_use)(struct weft_device *device);

    /* Makes what NICs have written into the device's memory, and reported to the host, visible to work that is queued from now on; may
     * wait for the device's bus. WEFT_UNSUPPORTED: cannot be had, so that NICs must not write there. NULL: is so by itself. */
    int (*flush_writes)(struct weft_device *device, int ordinal);

    /* Queues a device collective. While it waits for words it may hold a part of the device, but other queues get on. Whoever queues one sees to
     * it that the peers it waits for run theirs, or sets stop. WEFT_UNSUPPORTED for a type and operation as reduce(). Nothing is queued of
     * one that is refused; the text names the step by its number, from 0. */
    int (*run)(struct weft_device_queue *queue, const struct weft_device_collective *collective);

    /* Whether reductions and device collectives of queues on that ordinal can use the memory at pointer, which is this kind's: 1 or 0.
     * may_wait 0: by looking only; otherwise what the driver needs for it is done first. NULL: 1. Copies go between all devices of
     * a kind. */
    int (*reaches)(struct weft_device *device, int ordinal, const void *pointer, int may_wait);

    /* The device's time between two events of one ordinal that were marked with WEFT_DEVICE_EVENT_TIMED and have happened, in nanoseconds:
     * negative where `to` happened first. WEFT_INVALID for other events; WEFT_AGAIN where one has not happened yet. */
    int (*elapsed)(struct weft_device_event *from, struct weft_device_event *to, double *ns);
};

/* What a plug-in exports under this name. */
typedef const struct weft_device_ops *weft_device_plugin_function(void);
#define WEFT_DEVICE_PLUGIN_SYMBOL "weft_device_plugin"

#ifdef __cplusplus
}
#endif

#endif
