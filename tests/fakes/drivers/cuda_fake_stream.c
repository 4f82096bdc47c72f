/* SPDX-License-Identifier: Apache-2.0 */
/* The fake libcuda.so.1: streams, which are threads, and what they do. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "devmem/cuda/parameters.h"
#include "tests/fakes/drivers/cuda_fake_sim.h"

enum what { COPY, RECORD, WAIT_EVENT, WAIT_VALUE, WRITE_VALUE, CALL_HOST, FILL, LAUNCH, LAUNCH_COLLECTIVE };

struct sim_event {
    CUcontext context;
    unsigned long long recorded, done; /* counts: of records made, and of the last that has happened */
    int references, is_timed;
    int64_t happened_ns; /* the last that has happened */
};

struct work {
    enum what what;
    uintptr_t destination, source; /* or the word */
    size_t size;
    uint32_t value;
    struct sim_event *event;
    unsigned long long number;
    void (*function)(void *);
    void *argument;
    const char *kernel;
    unsigned grid, block;
    struct weft_kernel_batch batch;           /* LAUNCH, */
    struct weft_kernel_collective collective; /* LAUNCH_COLLECTIVE: the parameter */
    struct work *next;
};

struct sim_stream {
    CUcontext context;
    unsigned flags;
    int priority, is_busy, is_at_word;
    int is_destroyed; /* ends when its work is done, */
    int is_ending;    /* and what it waits for does not matter */
    struct work *first, **last;
    struct sim_stream *next;
};

/* One lock and one condition for all streams: nothing here is to be fast. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct sim_stream *streams;

static int broken(CUcontext context)
{
    pthread_mutex_lock(&sim.lock);
    int result = sim.is_down ? DEINITIALIZED : sim.results[context->device];
    pthread_mutex_unlock(&sim.lock);
    return result;
}

void sim_wake(void)
{
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void event_put(struct sim_event *event)
{
    if (--event->references == 0)
        free(event);
}

/* --- the thread; with the lock, which work that takes long gives up */

static int word_is_reached(const struct work *work)
{
    uint32_t seen = __atomic_load_n((const uint32_t *)work->destination, __ATOMIC_ACQUIRE);
    return (int32_t)(seen - work->value) >= 0;
}

static void wait_value(struct sim_stream *stream, const struct work *work)
{
    stream->is_at_word = 1;
    while (!stream->is_ending && !broken(stream->context) && !word_is_reached(work)) {
        pthread_mutex_unlock(&lock);
        usleep(100);
        pthread_mutex_lock(&lock);
    }
    stream->is_at_word = 0;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void launch(struct work *work)
{
    size_t room;
    for (uint32_t i = 0; i < work->batch.piece_count; i++) {
        struct weft_kernel_piece *piece = &work->batch.pieces[i];
        for (uint32_t s = 0; s < piece->source_count; s++)
            piece->sources[s] = sim_touch((uintptr_t)piece->sources[s], &room);
        for (int d = 0; d < 2; d++) {
            if (piece->destinations[d])
                piece->destinations[d] = sim_touch((uintptr_t)piece->destinations[d], &room);
        }
    }
    if (cuda_fake.run)
        cuda_fake.run(work->kernel, work->grid, work->block, &work->batch);
}

static void word_touch(uint64_t *word)
{
    size_t room;
    *word = (uint64_t)(uintptr_t)sim_touch((uintptr_t)*word, &room);
}

static void launch_collective(struct work *work)
{
    struct weft_kernel_collective *collective = &work->collective;
    uint32_t length;
    size_t room;
    for (uint32_t at = 0; at < collective->word_count; at += length) {
        uint64_t *words = collective->words + at;
        length = WEFT_KERNEL_STEP_LENGTH(words[0]);
        if (WEFT_KERNEL_STEP_KIND(words[0]) >= WEFT_KERNEL_STEP_SIGNAL)
            word_touch(&words[1]);
        else
            for (uint32_t i = WEFT_KERNEL_STEP_WORDS; i < length; i++)
                word_touch(&words[i]);
    }
    collective->stop = (const uint64_t *)(const void *)sim_touch((uintptr_t)collective->stop, &room);
    if (cuda_fake.run_collective)
        cuda_fake.run_collective(work->kernel, work->grid, collective);
}

static void work_do(struct sim_stream *stream, struct work *work)
{
    if (work->what == WAIT_VALUE) {
        wait_value(stream, work);
        return;
    }
    while (work->what == WAIT_EVENT && work->event->done < work->number && !stream->is_ending &&
           !broken(stream->context) && !broken(work->event->context))
        pthread_cond_wait(&changed, &lock);
    if (broken(stream->context))
        return; /* what comes after a failure is not done */
    pthread_mutex_unlock(&lock);
    if (work->what == COPY)
        sim_copy(work->destination, work->source, work->size);
    else if (work->what == WRITE_VALUE)
        __atomic_store_n((uint32_t *)work->destination, work->value, __ATOMIC_RELEASE);
    else if (work->what == CALL_HOST)
        work->function(work->argument);
    else if (work->what == FILL)
        sim_fill(work->destination, (int)work->value, work->size);
    else if (work->what == LAUNCH)
        launch(work);
    else if (work->what == LAUNCH_COLLECTIVE)
        launch_collective(work);
    pthread_mutex_lock(&lock);
    if (work->what == RECORD && work->event->done < work->number) {
        work->event->done = work->number;
        work->event->happened_ns = now_ns();
    }
}

static void *stream_main(void *argument)
{
    struct sim_stream *stream = argument;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct work *work = stream->first;
        if (!work) {
            if (stream->is_destroyed)
                break;
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        stream->is_busy = 1;
        stream->first = work->next;
        if (!stream->first)
            stream->last = &stream->first;
        work_do(stream, work);
        if (work->event)
            event_put(work->event);
        free(work);
        stream->is_busy = 0;
        pthread_cond_broadcast(&changed);
    }
    struct sim_stream **link = &streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    free(stream);
    return NULL;
}

/* --- streams */

static CUstream stream_new(CUcontext context, unsigned flags, int priority)
{
    pthread_t thread;
    struct sim_stream *stream = calloc(1, sizeof *stream);
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->last = &stream->first;
    pthread_mutex_lock(&lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, stream_main, stream) != 0 || pthread_detach(thread) != 0)
        abort();
    return stream;
}

/* Nobody names it any more; its thread ends when its work is done. */
static void stream_destroy(struct sim_stream *stream)
{
    pthread_mutex_lock(&lock);
    stream->is_destroyed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int has_destroyed(CUcontext context)
{
    const struct sim_stream *stream = streams;
    while (stream && !(stream->is_destroyed && stream->context == context))
        stream = stream->next;
    return stream != NULL;
}

void sim_streams_end(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (struct sim_stream *stream = streams; stream; stream = stream->next) {
        stream->is_destroyed |= stream == context->legacy;
        stream->is_ending |= stream->is_destroyed && stream->context == context;
    }
    context->legacy = NULL;
    pthread_cond_broadcast(&changed);
    while (has_destroyed(context))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* NULL and 1 are the legacy stream of the current context, 2 the thread's own: here, the legacy one too. Handles that
 * are none are found out. */
static CUstream stream_at(CUstream stream)
{
    CUcontext context = sim_current();
    CUstream found = NULL;
    if ((uintptr_t)stream > 2) {
        pthread_mutex_lock(&lock);
        for (found = streams; found && (found != stream || found->is_destroyed); found = found->next)
            ;
        pthread_mutex_unlock(&lock);
        return found;
    }
    if (!context)
        return NULL;
    pthread_mutex_lock(&lock);
    found = context->legacy;
    pthread_mutex_unlock(&lock);
    if (!found) {
        found = stream_new(context, 0, 0);
        pthread_mutex_lock(&lock);
        context->legacy = found;
        pthread_mutex_unlock(&lock);
    }
    return found;
}

static void count(int *counter, int change)
{
    pthread_mutex_lock(&sim.lock);
    *counter += change;
    pthread_mutex_unlock(&sim.lock);
}

int sim_waits_for_word(CUcontext context)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (const struct sim_stream *stream = streams; stream; stream = stream->next) {
        int waits = stream->is_at_word;
        for (const struct work *work = stream->first; work; work = work->next)
            waits |= work->what == WAIT_VALUE;
        found |= waits && stream->context == context;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int sim_stream_is_idle(void *stream)
{
    const struct sim_stream *found = stream;
    pthread_mutex_lock(&lock);
    int is_idle = !found->first && !found->is_busy;
    pthread_mutex_unlock(&lock);
    return is_idle;
}

int sim_stream_flags(void *stream, int *priority)
{
    *priority = ((CUstream)stream)->priority;
    return (int)((CUstream)stream)->flags;
}

int cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CALL();
    if (!sim_current())
        return INVALID_CONTEXT;
    *stream = stream_new(sim_current(), flags, priority);
    count(&sim.streams, 1);
    return SUCCESS;
}

int cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

int cuStreamDestroy_v2(CUstream stream)
{
    CALL();
    stream_destroy(stream);
    count(&sim.streams, -1);
    return SUCCESS;
}

int cuStreamSynchronize(CUstream stream)
{
    CALL();
    CUstream found = stream_at(stream);
    if (!found)
        return INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    while ((found->first || found->is_busy) && !broken(found->context))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return broken(found->context);
}

int cuStreamQuery(CUstream stream)
{
    CALL();
    CUstream found = stream_at(stream);
    if (!found)
        return INVALID_HANDLE;
    int result = broken(found->context);
    return result ? result : sim_stream_is_idle(found) ? SUCCESS : NOT_READY;
}

int cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    CALL();
    CUstream found = stream_at(stream);
    if (found)
        *context = found->context;
    return found ? SUCCESS : INVALID_HANDLE;
}

int cuStreamIsCapturing(CUstream stream, int *status)
{
    CALL();
    CUstream found = stream_at(stream);
    if (found)
        *status = cuda_fake.capturing == found;
    return found ? SUCCESS : INVALID_HANDLE;
}

static int submit(CUstream stream, const struct work *work)
{
    CUstream found = stream_at(stream);
    if (!found)
        return INVALID_HANDLE;
    int result = broken(found->context);
    if (result)
        return result;
    struct work *made = malloc(sizeof *made);
    *made = *work;
    made->next = NULL;
    pthread_mutex_lock(&lock);
    if (made->event) {
        made->event->references++;
        made->number = made->what == RECORD ? ++made->event->recorded : made->event->recorded;
    }
    *found->last = made;
    found->last = &made->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *argument)
{
    CALL();
    return submit(stream, &(struct work){.what = CALL_HOST, .function = function, .argument = argument});
}

/* --- waiting for words */

static int word_is_device_readable(CUdeviceptr word)
{
    pthread_mutex_lock(&sim.lock);
    const struct sim_memory *found = sim_find(word);
    int is_right = found && (found->kind == SIM_REGISTERED || found->kind == SIM_PINNED) && word % 4 == 0;
    pthread_mutex_unlock(&sim.lock);
    return is_right;
}

static int value(CUstream stream, enum what what, CUdeviceptr word, uint32_t number, unsigned flags)
{
    if (!word_is_device_readable(word) ||
        (flags & ~(what == WAIT_VALUE && cuda_fake.has_flush ? 1U << 30 : 0)))
        return INVALID_VALUE;
    return submit(stream, &(struct work){.what = what, .destination = word, .value = number});
}

int cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr word, uint32_t number, unsigned flags)
{
    CALL();
    return value(stream, WAIT_VALUE, word, number, flags);
}

int cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr word, uint32_t number, unsigned flags)
{
    CALL();
    return value(stream, WRITE_VALUE, word, number, flags);
}

int cuStreamWaitValue32(CUstream stream, CUdeviceptr word, uint32_t number, unsigned flags)
{
    CALL();
    return cuda_fake.has_memory_operations ? value(stream, WAIT_VALUE, word, number, flags) : NOT_SUPPORTED;
}

int cuStreamWriteValue32(CUstream stream, CUdeviceptr word, uint32_t number, unsigned flags)
{
    CALL();
    return cuda_fake.has_memory_operations ? value(stream, WRITE_VALUE, word, number, flags) : NOT_SUPPORTED;
}

/* --- events */

int cuEventCreate(CUevent *event, unsigned flags)
{
    CALL();
    if (!sim_current() || (flags != 0 && flags != 2)) /* the latter without timing */
        return INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    (*event)->context = sim_current();
    (*event)->references = 1;
    (*event)->is_timed = flags == 0;
    count(&sim.events, 1);
    return SUCCESS;
}

int cuEventDestroy_v2(CUevent event)
{
    CALL();
    pthread_mutex_lock(&lock);
    event_put(event);
    pthread_mutex_unlock(&lock);
    count(&sim.events, -1);
    return SUCCESS;
}

int cuEventRecord(CUevent event, CUstream stream)
{
    CALL();
    CUstream found = stream_at(stream);
    if (!found || found->context != event->context)
        return INVALID_HANDLE;
    return submit(stream, &(struct work){.what = RECORD, .event = event});
}

int cuEventQuery(CUevent event)
{
    CALL();
    int result = broken(event->context);
    pthread_mutex_lock(&lock);
    if (!result && event->done < event->recorded)
        result = NOT_READY;
    pthread_mutex_unlock(&lock);
    return result;
}

int cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    CALL();
    int result = broken(from->context);
    pthread_mutex_lock(&lock);
    if (!from->is_timed || !to->is_timed || !from->recorded || !to->recorded || from->context != to->context)
        result = INVALID_HANDLE;
    else if (!result && (from->done < from->recorded || to->done < to->recorded))
        result = NOT_READY;
    if (!result)
        *ms = (float)(to->happened_ns - from->happened_ns) / 1e6F;
    pthread_mutex_unlock(&lock);
    return result;
}

int cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CALL();
    return flags ? INVALID_VALUE : submit(stream, &(struct work){.what = WAIT_EVENT, .event = event});
}

/* --- copies and kernels */

/* A copy may lie in several mappings, but not in more than one registration of host memory. */
static int is_copyable(CUdeviceptr pointer, size_t size)
{
    pthread_mutex_lock(&sim.lock);
    const struct sim_memory *found = sim_find(pointer);
    int is_right = !found || found->kind == SIM_MAPPED || pointer + size <= found->base + found->size;
    pthread_mutex_unlock(&sim.lock);
    return is_right;
}

int cuMemsetD8Async(CUdeviceptr destination, unsigned char byte, size_t size, CUstream stream)
{
    CALL();
    if (!is_copyable(destination, size))
        return INVALID_VALUE;
    return submit(stream,
                  &(struct work){.what = FILL, .destination = destination, .value = byte, .size = size});
}

int cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream)
{
    CALL();
    if (!is_copyable(destination, size) || !is_copyable(source, size))
        return INVALID_VALUE;
    return submit(stream,
                  &(struct work){.what = COPY, .destination = destination, .source = source, .size = size});
}

int cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                   void **arguments, void **extra)
{
    CALL();
    if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_y != 1 || block_z != 1 || shared_bytes ||
        extra)
        return INVALID_VALUE;
    static const char suffix[] = "_collective";
    size_t length = strlen(function->name), behind = sizeof suffix - 1;
    int is_collective = length > behind && strcmp(function->name + length - behind, suffix) == 0;
    CUstream found = stream_at(stream);
    if (!found)
        return INVALID_HANDLE;
    sim_function_load(function, found->context);
    struct work work = {.what = is_collective ? LAUNCH_COLLECTIVE : LAUNCH,
                        .kernel = function->name,
                        .grid = grid_x,
                        .block = block_x};
    if (is_collective)
        memcpy(&work.collective, arguments[0], sizeof work.collective);
    else
        memcpy(&work.batch, arguments[0], sizeof work.batch);
    return submit(stream, &work);
}
