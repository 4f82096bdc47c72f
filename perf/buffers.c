/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As a float an odd tiny number that no pattern of data.c contains. */
enum { POISON = 0xa5, PAGE = 4096, GUARD = 256 };

static int complain_memory(size_t size)
{
    fprintf(stderr, "weft-perf: no memory for a buffer of %zu bytes\n", size);
    return -1;
}

static int make_known(struct perf_buffer *buffer, weft_context *context, size_t size)
{
    void *block;
    int status = weft_mem_alloc(context, size, &block);
    if (status != 0) {
        fprintf(stderr, "weft-perf: weft_mem_alloc of %zu bytes: %s: %s\n", size, weft_strerror(status),
                weft_error_detail());
        return -1;
    }
    buffer->context = context;
    buffer->block = block;
    return 0;
}

/* The device's memory, and the mirror. */
static int make_there(struct perf_buffer *buffer, weft_context *context, const struct perf_place *place,
                      size_t size)
{
    void *block;
    if (perf_device_open(&buffer->device, context, place) != 0)
        return -1;
    if (perf_device_allocate(&buffer->device, size, &block) != 0)
        goto close_device;
    buffer->mirror = aligned_alloc(PAGE, size);
    if (!buffer->mirror) {
        complain_memory(size);
        goto release_block;
    }
    buffer->is_device = 1;
    buffer->block = block;
    return 0;
release_block:
    perf_device_release(&buffer->device, block);
close_device:
    perf_device_close(&buffer->device);
    return -1;
}

int perf_buffer_make(struct perf_buffer *buffer, weft_context *context, const struct perf_place *place,
                     size_t capacity)
{
    size_t size = (capacity + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
    struct perf_buffer made = {.capacity = capacity};
    int failed;
    if (strcmp(place->kind, "weft") == 0)
        failed = make_known(&made, context, size);
    else if (strcmp(place->kind, "malloc") != 0)
        failed = make_there(&made, context, place, size);
    else
        failed = (made.block = aligned_alloc(PAGE, size)) ? 0 : complain_memory(size);
    if (failed)
        return -1;
    memset(made.mirror ? made.mirror : made.block, POISON, size);
    made.bytes = made.block + PAGE;
    made.host = made.mirror ? made.mirror + PAGE : made.bytes;
    *buffer = made;
    return 0;
}

void perf_buffer_release(struct perf_buffer *buffer)
{
    if (buffer->is_device) {
        perf_device_release(&buffer->device, buffer->block);
        perf_device_close(&buffer->device);
    } else if (buffer->context) {
        weft_mem_free(buffer->context, buffer->block);
    } else {
        free(buffer->block);
    }
    free(buffer->mirror);
    *buffer = (struct perf_buffer){.capacity = 0};
}

int perf_buffer_put(struct perf_buffer *buffer, size_t size)
{
    return !buffer->mirror ? 0
                           : perf_device_put(&buffer->device, buffer->bytes - GUARD, buffer->host - GUARD,
                                             size + 2 * (size_t)GUARD);
}

int perf_buffer_get(struct perf_buffer *buffer, size_t size)
{
    return !buffer->mirror ? 0
                           : perf_device_get(&buffer->device, buffer->host - GUARD, buffer->bytes - GUARD,
                                             size + 2 * (size_t)GUARD);
}

void perf_buffer_guard(struct perf_buffer *buffer, size_t size)
{
    memset(buffer->host - GUARD, POISON, GUARD);
    memset(buffer->host + size, POISON, GUARD);
}

void perf_buffer_poison(struct perf_buffer *buffer, size_t size)
{
    memset(buffer->host, POISON, size);
    perf_buffer_guard(buffer, size);
}

uint64_t perf_buffer_damage(const struct perf_buffer *buffer, size_t size)
{
    uint64_t damage = 0;
    for (size_t i = 0; i < GUARD; i++) {
        damage += buffer->host[-(ptrdiff_t)i - 1] != POISON;
        damage += buffer->host[size + i] != POISON;
    }
    return damage;
}
