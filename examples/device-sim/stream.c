/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, as programs make them, and one of each device's own. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_private.h"

struct stream {
    struct stream *next; /* [lock] */
    struct sim_command_queue commands;
};

static struct stream *streams;                   /* [lock] */
static struct stream *defaults[SIM_DEVICES_MAX]; /* [lock] made at their first use */

static struct sim_command_queue *default_command_queue(int ordinal)
{
    struct stream *made = defaults[ordinal] ? NULL : calloc(1, sizeof *made);
    if (made && sim_command_queue_open(&made->commands, NULL, 0) == WEFT_OK)
        defaults[ordinal] = made;
    else
        free(made);
    return defaults[ordinal] ? &defaults[ordinal]->commands : NULL;
}

void sim_defaults_close(void)
{
    struct stream *closed[SIM_DEVICES_MAX];
    pthread_mutex_lock(&sim.lock);
    memcpy(closed, defaults, sizeof closed);
    memset(defaults, 0, sizeof defaults);
    pthread_mutex_unlock(&sim.lock);
    for (int i = 0; i < SIM_DEVICES_MAX; i++) {
        if (closed[i])
            sim_command_queue_close(&closed[i]->commands);
        free(closed[i]);
    }
}

struct sim_command_queue *sim_stream_command_queue(int ordinal, void *stream)
{
    if (!stream)
        return default_command_queue(ordinal);
    for (struct stream *at = streams; at; at = at->next) {
        if (at == stream)
            return &at->commands;
    }
    return NULL;
}

static int stream_open(int ordinal, void **stream)
{
    struct stream *opened = calloc(1, sizeof *opened);
    if (ordinal < 0 || !opened || sim_command_queue_open(&opened->commands, NULL, 0) != WEFT_OK) {
        free(opened);
        return ordinal < 0 ? WEFT_INVALID : WEFT_NOMEM;
    }
    pthread_mutex_lock(&sim.lock);
    opened->next = streams;
    streams = opened;
    sim.counts.streams++;
    pthread_mutex_unlock(&sim.lock);
    *stream = opened;
    return WEFT_OK;
}

static int stream_close(void *stream)
{
    struct stream *closed = stream;
    pthread_mutex_lock(&sim.lock);
    struct stream **at = &streams;
    while (*at && *at != closed)
        at = &(*at)->next;
    if (*at) {
        *at = closed->next;
        sim.counts.streams--;
    }
    pthread_mutex_unlock(&sim.lock);
    sim_command_queue_close(&closed->commands);
    free(closed);
    return WEFT_OK;
}

static int stream_wait(void *stream, const int *flag)
{
    struct stream *own = stream;
    return sim_command_queue_add(&own->commands, &(struct sim_work){.kind = SIM_FLAG, .flag = flag});
}

static int stream_fill(void *stream, void *memory, int byte, size_t size)
{
    struct stream *own = stream;
    struct sim_work work = {
        .kind = SIM_FILL, .pointers = {memory}, .pointer_count = 1, .size = size, .byte = byte};
    return sim_command_queue_add(&own->commands, &work);
}

static int stream_copy(void *stream, void *destination, const void *source, size_t size)
{
    struct stream *own = stream;
    struct sim_work work = {.kind = SIM_COPY,
                            .pointers = {destination, (void *)(uintptr_t)source},
                            .pointer_count = 2,
                            .size = size};
    return sim_command_queue_add(&own->commands, &work);
}

static int stream_sync(void *stream)
{
    struct stream *own = stream;
    pthread_mutex_lock(&sim.lock);
    while (own->commands.first)
        pthread_cond_wait(&sim.changed, &sim.lock);
    int status = own->commands.status;
    pthread_mutex_unlock(&sim.lock);
    return status;
}

static int stream_is_idle(void *stream)
{
    struct stream *own = stream;
    pthread_mutex_lock(&sim.lock);
    int is_idle = own->commands.first == NULL;
    pthread_mutex_unlock(&sim.lock);
    return is_idle;
}

static void counts(struct sim_counts *now)
{
    pthread_mutex_lock(&sim.lock);
    *now = sim.counts;
    pthread_mutex_unlock(&sim.lock);
}

extern const struct sim_api sim_api;
__attribute__((visibility("default"))) const struct sim_api sim_api = {
    .size = sizeof(struct sim_api),
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_wait = stream_wait,
    .stream_fill = stream_fill,
    .stream_copy = stream_copy,
    .stream_sync = stream_sync,
    .stream_is_idle = stream_is_idle,
    .counts = counts,
};
