/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "sim": the table that weft loads.
 *
 * Options, separated by commas: seed=N (0: any; it is logged), devices=N (2), delay=N (microseconds that each work may take
 * longer), fail=N (one work in N fails), refuse=N (one registration in N is refused: allocate, pin, handles, dma-bufs),
 * ipc=0|1 (1), dmabuf=0|1 (0), peers=0|1 (1: devices reach each other's memory). What is drawn depends on the seed and the order of calls alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "sim_private.h"

struct sim_machine sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* SplitMix64 (Steele, Lea and Flood 2014). */
uint64_t sim_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

int sim_enter(const struct weft_device *device)
{
    if (device && !sim_is_own(device))
        return device->params.fail(WEFT_INVALID,
                                   "sim: this process was forked: the device's threads are not here");
    pthread_mutex_lock(&sim.lock);
    return WEFT_OK;
}

void sim_leave(void)
{
    pthread_mutex_unlock(&sim.lock);
}

int sim_refuses(struct weft_device *device)
{
    return device->refuse && sim_random(&device->random) % device->refuse == 0;
}

static int read_options(struct weft_device *device)
{
    const char *text = device->params.options;
    const struct {
        const char *name;
        unsigned *value, highest;
    } numbers[] = {
        {"devices=", &device->devices, SIM_DEVICES_MAX},
        {"delay=", &device->delay_us, 1000000},
        {"fail=", &device->fail, 1u << 30},
        {"refuse=", &device->refuse, 1u << 30},
        {"ipc=", &device->ipc, 1},
        {"dmabuf=", &device->dmabuf, 1},
        {"peers=", &device->peers, 1},
    };
    while (*text) {
        const char *equals = strchr(text, '=');
        char *end = NULL;
        unsigned long long number = equals ? strtoull(equals + 1, &end, 10) : 0;
        int is_known = equals && end != equals + 1 && (*end == ',' || *end == '\0') && equals[1] != '-';
        int is_read = is_known && strncmp(text, "seed=", 5) == 0;
        if (is_read)
            device->seed = number;
        for (size_t i = 0; is_known && i < sizeof numbers / sizeof *numbers; i++) {
            if (strncmp(text, numbers[i].name, strlen(numbers[i].name)) == 0 &&
                number <= numbers[i].highest) {
                *numbers[i].value = (unsigned)number;
                is_read = 1;
            }
        }
        if (!is_read)
            return device->params.fail(WEFT_INVALID,
                                       "sim: option '%.40s': expected seed, devices (up to %d), delay, fail, "
                                       "refuse, ipc, dmabuf or peers=NUMBER",
                                       text, SIM_DEVICES_MAX);
        text = *end ? end + 1 : end;
    }
    return WEFT_OK;
}

static int sim_open(const struct weft_device_params *params, struct weft_device **device)
{
    struct weft_device *opened = calloc(1, sizeof *opened);
    if (!opened)
        return params->fail(WEFT_NOMEM, "sim: no memory for a device");
    *opened =
        (struct weft_device){.params = *params, .process = getpid(), .devices = 2, .ipc = 1, .peers = 1};
    pthread_mutex_lock(&sim.lock);
    int is_known = sim_process_learn() == 0;
    pthread_mutex_unlock(&sim.lock);
    int status = is_known ? read_options(opened)
                          : params->fail(WEFT_NOMEM, "sim: no memory that a forked child has as zeros");
    if (status != WEFT_OK) {
        free(opened);
        return status;
    }
    if (opened->seed == 0 && getrandom(&opened->seed, sizeof(uint32_t), 0) < 0)
        opened->seed = (uint64_t)opened->process;
    opened->random = opened->seed;
    params->log(WEFT_DEVICE_LOG_INFO, "sim: %u devices, seed=%llu", opened->devices,
                (unsigned long long)opened->seed);
    pthread_mutex_lock(&sim.lock);
    sim.instances++;
    pthread_mutex_unlock(&sim.lock);
    *device = opened;
    return WEFT_OK;
}

static void sim_close(struct weft_device *device)
{
    if (sim_is_own(device)) {
        pthread_mutex_lock(&sim.lock);
        int is_last = --sim.instances == 0;
        if (is_last && !sim.spans)
            sim_holes_free();
        pthread_mutex_unlock(&sim.lock);
        if (is_last)
            sim_defaults_close();
    }
    free(device);
}

static int sim_count(struct weft_device *device)
{
    return (int)device->devices;
}

static int check_ordinal(const struct weft_device *device, int ordinal)
{
    if (ordinal >= 0 && (unsigned)ordinal < device->devices)
        return WEFT_OK;
    return device->params.fail(WEFT_INVALID, "sim: there is no device %d of %u", ordinal, device->devices);
}

static int sim_describe(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    struct weft_device_info known = {.size = info->size,
                                     .runtime = "weft's example 1",
                                     .uuid = "weft-sim",
                                     .memory_bytes = (uint64_t)1 << 30,
                                     .numa = -1,
                                     .flags = WEFT_DEVICE_REDUCES | WEFT_DEVICE_STREAM_WAITS |
                                              WEFT_DEVICE_COLLECTIVES | WEFT_DEVICE_COLLECTIVES_BESIDE};
    int status = check_ordinal(device, ordinal);
    if (status != WEFT_OK)
        return status;
    snprintf(known.name, sizeof known.name, "simulated device %d", ordinal);
    known.uuid[15] = (uint8_t)ordinal;
    known.flags |= device->ipc ? WEFT_DEVICE_IPC : 0;
    known.flags |= device->dmabuf ? WEFT_DEVICE_DMABUF : 0;
    memcpy(info, &known, info->size < sizeof known ? info->size : sizeof known);
    return WEFT_OK;
}

static int sim_identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    if (!sim_is_own(device))
        return WEFT_NOT_FOUND;
    pthread_mutex_lock(&sim.lock);
    const struct sim_span *found = sim_span_find(pointer, 1);
    struct weft_device_span known = {.size = span->size};
    if (found) {
        known.kind = (uint32_t)found->kind;
        known.ordinal = found->ordinal;
        known.base = found->base;
        known.length = found->length;
        known.identity = found->identity;
        known.flags = found->fd < 0 ? WEFT_SPAN_HOST_ACCESS : 0;
        if (found->fd >= 0 && device->ipc && !found->is_imported)
            known.flags |= WEFT_SPAN_IPC;
        if (found->fd >= 0 && device->dmabuf)
            known.flags |= WEFT_SPAN_DMABUF;
    }
    pthread_mutex_unlock(&sim.lock);
    if (!found)
        return WEFT_NOT_FOUND;
    memcpy(span, &known, span->size < sizeof known ? span->size : sizeof known);
    return WEFT_OK;
}

static int sim_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue)
{
    int status = check_ordinal(device, ordinal);
    if (status == WEFT_OK)
        status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    uint64_t seed = device->seed + ++device->queues;
    sim_leave();
    struct weft_device_queue *opened = calloc(1, sizeof *opened);
    if (!opened)
        return device->params.fail(WEFT_NOMEM, "sim: no memory for a queue");
    opened->device = device;
    opened->ordinal = ordinal;
    status = sim_command_queue_open(&opened->commands, device, seed);
    if (status != WEFT_OK) {
        free(opened);
        return device->params.fail(status, "sim: cannot start a queue's thread");
    }
    pthread_mutex_lock(&sim.lock);
    sim.counts.queues++;
    pthread_mutex_unlock(&sim.lock);
    *queue = opened;
    return WEFT_OK;
}

static void sim_queue_close(struct weft_device_queue *queue)
{
    if (!sim_is_own(queue->device))
        return;
    sim_command_queue_close(&queue->commands);
    pthread_mutex_lock(&sim.lock);
    sim.counts.queues--;
    pthread_mutex_unlock(&sim.lock);
    free(queue);
}

static int add(struct weft_device_queue *queue, const struct sim_work *work)
{
    int status = sim_command_queue_add(&queue->commands, work);
    if (status == WEFT_INVALID && work->pointer_count > 0 && sim_is_own(queue->device))
        return queue->device->params.fail(
            WEFT_INVALID,
            "sim: one of %d pointers to %zu bytes (the first is %p) is no memory that devices can reach",
            work->pointer_count, work->size, work->pointers[0]);
    return status == WEFT_NOMEM ? queue->device->params.fail(status, "sim: no memory for work") : status;
}

static int sim_copy(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    struct sim_work work = {.kind = SIM_COPY,
                            .pointers = {destination, (void *)(uintptr_t)source},
                            .pointer_count = 2,
                            .size = size};
    return size > 0 ? add(queue, &work) : WEFT_OK;
}

int sim_is_reached(const struct weft_device *device, int ordinal, const void *pointer)
{
    const struct sim_span *span = sim_span_find(pointer, 1);
    return device->peers || !span || span->kind != WEFT_MEMORY_DEVICE || span->ordinal == ordinal;
}

static int sim_reaches(struct weft_device *device, int ordinal, const void *pointer, int may_wait)
{
    (void)may_wait;
    if (sim_enter(device) != WEFT_OK)
        return 0;
    int is_reached = sim_is_reached(device, ordinal, pointer);
    sim_leave();
    return is_reached;
}

static int check_reaches(struct weft_device_queue *queue, const struct sim_work *work)
{
    for (int i = 0; i < work->pointer_count; i++) {
        if (!sim_reaches(queue->device, queue->ordinal, work->pointers[i], 0))
            return queue->device->params.fail(WEFT_UNSUPPORTED,
                                              "sim: device %d does not reach the memory at %p",
                                              queue->ordinal, work->pointers[i]);
    }
    return WEFT_OK;
}

static int sim_queue_reduce(struct weft_device_queue *queue, const struct weft_device_reduction *reduction)
{
    struct sim_work work = {.kind = SIM_REDUCE, .reduction = *reduction};
    uint32_t sources = reduction->source_count, destinations = reduction->destination_count;
    if (sources < 1 || sources > WEFT_DEVICE_SOURCES_MAX || destinations < 1 ||
        destinations > WEFT_DEVICE_DESTINATIONS_MAX)
        return queue->device->params.fail(WEFT_INVALID, "sim: a reduction of %u sources to %u destinations",
                                          sources, destinations);
    if (!sim_reduce_knows(reduction->dtype, reduction->op, reduction->scalar != NULL))
        return queue->device->params.fail(WEFT_UNSUPPORTED, "sim: operation %d of type %d is not supported",
                                          (int)reduction->op, (int)reduction->dtype);
    size_t bytes = sim_element_bytes(reduction->dtype);
    work.pointer_count = (int)(destinations + sources);
    work.size = (size_t)reduction->count * bytes;
    for (uint32_t i = 0; i < destinations; i++)
        work.pointers[i] = reduction->destinations[i];
    for (uint32_t i = 0; i < sources; i++)
        work.pointers[destinations + i] = (void *)(uintptr_t)reduction->sources[i];
    if (reduction->scalar)
        memcpy(work.scalar, reduction->scalar, bytes);
    if (!reduction->count)
        return WEFT_OK;
    int status = check_reaches(queue, &work);
    return status == WEFT_OK ? add(queue, &work) : status;
}

/* [lock] An event behind what a command queue holds; the caller has one of its users. */
static struct weft_device_event *mark_command_queue(struct weft_device *device,
                                                    struct sim_command_queue *commands)
{
    struct weft_device_event *event = calloc(1, sizeof *event);
    struct sim_work work = {.kind = SIM_MARK, .event = event};
    if (!event)
        return NULL;
    event->device = device;
    event->users = 1;
    if (sim_command_queue_append(commands, &work) != WEFT_OK) {
        free(event);
        return NULL;
    }
    sim.counts.events++;
    return event;
}

static int sim_mark(struct weft_device_queue *queue, struct weft_device_event **event)
{
    int status = sim_enter(queue->device);
    if (status != WEFT_OK)
        return status;
    struct weft_device_event *made = mark_command_queue(queue->device, &queue->commands);
    sim_leave();
    if (!made)
        return queue->device->params.fail(WEFT_NOMEM, "sim: no memory for an event");
    *event = made;
    return WEFT_OK;
}

static int sim_test(struct weft_device_event *event)
{
    if (!sim_is_own(event->device)) /* whose thread completes it is not here */
        return sim_enter(event->device);
    int state = __atomic_load_n(&event->state, __ATOMIC_ACQUIRE); /* asked all the time: without the lock */
    return state < 0 ? event->device->params.fail(state, "%s", event->why) : state;
}

static int sim_await(struct weft_device_queue *queue, struct weft_device_event *event)
{
    return add(queue, &(struct sim_work){.kind = SIM_AWAIT, .event = event});
}

static void sim_event_free(struct weft_device_event *event)
{
    if (sim_enter(event->device) != WEFT_OK)
        return;
    sim_event_drop(event);
    sim_leave();
}

static int no_stream(struct weft_device *device, void *stream)
{
    return device->params.fail(WEFT_INVALID, "sim: %p is no stream of the simulated devices", stream);
}

static int sim_mark_stream(struct weft_device *device, int ordinal, void *stream, uint32_t flags,
                           struct weft_device_event **event)
{
    int status = check_ordinal(device, ordinal);
    if (status == WEFT_OK)
        status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    struct sim_command_queue *commands = sim_stream_command_queue(ordinal, stream);
    struct weft_device_event *made = commands ? mark_command_queue(device, commands) : NULL;
    if (made) {
        made->ordinal = ordinal;
        made->is_timed = (flags & WEFT_DEVICE_EVENT_TIMED) != 0;
    }
    sim_leave();
    if (!commands)
        return no_stream(device, stream);
    if (!made)
        return device->params.fail(WEFT_NOMEM, "sim: no memory for an event");
    *event = made;
    return WEFT_OK;
}

static int sim_elapsed(struct weft_device_event *from, struct weft_device_event *to, double *ns)
{
    struct weft_device *device = from->device;
    if (!from->is_timed || !to->is_timed || from->ordinal != to->ordinal)
        return device->params.fail(WEFT_INVALID, "sim: the time between two events: expected timed ones of "
                                                 "one device");
    int status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    int have_happened = from->state && to->state;
    double between_ns = (double)(to->happened_ns - from->happened_ns);
    sim_leave();
    if (!have_happened)
        return device->params.fail(WEFT_AGAIN, "sim: the time between two events, one of which has not "
                                               "happened");
    *ns = between_ns;
    return WEFT_OK;
}

static int sim_wait_stream(struct weft_device *device, int ordinal, void *stream,
                           struct weft_device_wait **wait)
{
    struct weft_device_wait *made = calloc(1, sizeof *made);
    int status = made ? check_ordinal(device, ordinal)
                      : device->params.fail(WEFT_NOMEM, "sim: no memory for a stream wait");
    if (status == WEFT_OK)
        status = sim_enter(device);
    if (status != WEFT_OK) {
        free(made);
        return status;
    }
    *made = (struct weft_device_wait){.device = device, .users = 1};
    struct sim_command_queue *commands = sim_stream_command_queue(ordinal, stream);
    if (commands)
        status = sim_command_queue_append(commands, &(struct sim_work){.kind = SIM_WAIT, .wait = made});
    sim.counts.waits += commands && status == WEFT_OK;
    sim_leave();
    if (!commands || status != WEFT_OK)
        free(made);
    if (!commands)
        return no_stream(device, stream);
    if (status != WEFT_OK)
        return device->params.fail(status, "sim: no memory for a stream wait");
    *wait = made;
    return WEFT_OK;
}

static int sim_wait_open(struct weft_device_wait *wait, struct weft_device_queue *queue)
{
    if (queue)
        return add(queue, &(struct sim_work){.kind = SIM_OPEN, .wait = wait});
    int status = sim_enter(wait->device);
    if (status != WEFT_OK)
        return status;
    wait->is_open = 1;
    pthread_cond_broadcast(&sim.changed);
    sim_leave();
    return WEFT_OK;
}

static void sim_wait_free(struct weft_device_wait *wait)
{
    if (sim_enter(wait->device) != WEFT_OK)
        return;
    sim_wait_drop(wait);
    sim_leave();
}

/* The pages that the range touches, as a span of their own for each call. */
static int sim_pin(struct weft_device *device, void *memory, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)memory / page * page;
    struct sim_span *span = calloc(1, sizeof *span);
    int status = span && size > 0 ? sim_enter(device)
                                  : device->params.fail(span ? WEFT_INVALID : WEFT_NOMEM,
                                                        "sim: cannot pin %zu bytes", size);
    if (status != WEFT_OK) {
        free(span);
        return status;
    }
    const struct sim_span *other = sim_span_find(memory, 1);
    if ((other && !other->is_pinned) || sim_refuses(device)) {
        free(span);
        status = device->params.fail(other ? WEFT_INVALID : WEFT_NOMEM,
                                     "sim: pinning %zu bytes at %p is refused%s", size, memory,
                                     other ? ": devices reach them already" : ", as the options say");
    } else {
        *span = (struct sim_span){.next = sim.spans,
                                  .base = base,
                                  .length = sim_pages((uintptr_t)memory - base + size),
                                  .view = (char *)base,
                                  .kind = WEFT_MEMORY_PINNED,
                                  .ordinal = -1,
                                  .fd = -1,
                                  .identity = ++sim.identities,
                                  .is_pinned = 1};
        sim.spans = span;
        sim.counts.spans++;
    }
    sim_leave();
    return status;
}

static int sim_unpin(struct weft_device *device, void *memory, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)memory / page * page;
    size_t length = sim_pages((uintptr_t)memory - base + size);
    int status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    struct sim_span *span = sim.spans;
    while (span && !(span->is_pinned && span->base == base && span->length == length))
        span = span->next;
    if (span)
        sim_span_free(span);
    else
        status = device->params.fail(WEFT_INVALID, "sim: %zu bytes at %p are not pinned", size, memory);
    sim_leave();
    return status;
}

static int sim_allocate(struct weft_device *device, int ordinal, enum weft_memory_kind kind, size_t size,
                        void **memory)
{
    uint64_t token[2];
    struct sim_span *span;
    int status = kind == WEFT_MEMORY_PINNED && ordinal == -1 ? WEFT_OK : check_ordinal(device, ordinal);
    if (status == WEFT_OK && (size == 0 || size > (size_t)1 << 40 || kind == WEFT_MEMORY_HOST))
        status =
            device->params.fail(WEFT_INVALID, "sim: cannot allocate %zu bytes of kind %d", size, (int)kind);
    if (status == WEFT_OK)
        status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    int fd = -1;
    if (kind == WEFT_MEMORY_DEVICE)
        fd = getrandom(token, sizeof token, 0) == sizeof token ? sim_memfd(token, size) : -1;
    if (sim_refuses(device))
        status = device->params.fail(WEFT_NOMEM, "sim: an allocation is refused, as the options say");
    else if (kind == WEFT_MEMORY_DEVICE && fd < 0)
        status = device->params.fail(WEFT_NOMEM, "sim: %zu bytes: %s", size, strerror(errno));
    else if (sim_span_map(fd, size, &span) != WEFT_OK)
        status = device->params.fail(WEFT_NOMEM, "sim: cannot map %zu bytes", size);
    if (status == WEFT_OK) {
        span->kind = (int)kind;
        span->ordinal = ordinal;
        if (fd >= 0)
            memcpy(span->token, token, sizeof token);
        *memory = (void *)span->base;
    } else if (fd >= 0) {
        close(fd);
    }
    sim_leave();
    return status;
}

static int sim_release(struct weft_device *device, void *memory)
{
    int status = sim_enter(device);
    if (status != WEFT_OK)
        return status;
    struct sim_span *span = sim_span_find(memory, 1);
    if (span && span->base == (uintptr_t)memory && !span->is_imported && !span->is_pinned)
        sim_span_free(span);
    else
        status = device->params.fail(WEFT_INVALID, "sim: %p was not allocated here", memory);
    sim_leave();
    return status;
}

static const struct weft_device_ops sim_ops = {
    .size = sizeof(struct weft_device_ops),
    .abi = WEFT_DEVICE_ABI,
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .count = sim_count,
    .describe = sim_describe,
    .identify = sim_identify,
    .export_dmabuf = sim_export_dmabuf,
    .export_ipc = sim_export_ipc,
    .import_ipc = sim_import_ipc,
    .unimport = sim_unimport,
    .queue_open = sim_queue_open,
    .queue_close = sim_queue_close,
    .copy = sim_copy,
    .reduce = sim_queue_reduce,
    .mark_stream = sim_mark_stream,
    .mark = sim_mark,
    .test = sim_test,
    .await = sim_await,
    .event_free = sim_event_free,
    .wait_stream = sim_wait_stream,
    .wait_open = sim_wait_open,
    .wait_free = sim_wait_free,
    .pin = sim_pin,
    .unpin = sim_unpin,
    .allocate = sim_allocate,
    .release = sim_release,
    .run = sim_run,
    .reaches = sim_reaches,
    .elapsed = sim_elapsed,
};

const struct weft_device_ops *weft_device_plugin(void);

__attribute__((visibility("default"))) const struct weft_device_ops *weft_device_plugin(void)
{
    return &sim_ops;
}
