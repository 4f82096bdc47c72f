#include "perf/buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As a float an odd tiny number that no pattern of data.c contains. */
enum { POISON = 0xa5, PAGE = 4096, GUARD = 256 };

int perf_buffer_make(struct perf_buffer *buffer, weft_context *context, const struct perf_place *place,
                     size_t capacity)
{
    size_t size = (capacity + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
    void *block = NULL;
    int is_weft = strcmp(place->kind, "weft") == 0;
    if (is_weft) {
        int status = weft_mem_alloc(context, size, &block);
        if (status != 0) {
            fprintf(stderr, "weft-perf: weft_mem_alloc of %zu bytes: %s: %s\n", size, weft_strerror(status),
                    weft_error_detail());
            return -1;
        }
    } else {
        block = aligned_alloc(PAGE, size);
        if (!block) {
            fprintf(stderr, "weft-perf: no memory for a buffer of %zu bytes\n", size);
            return -1;
        }
    }
    memset(block, POISON, size);
    *buffer = (struct perf_buffer){.context = is_weft ? context : NULL,
                                   .block = block,
                                   .bytes = (unsigned char *)block + PAGE,
                                   .capacity = capacity};
    return 0;
}

void perf_buffer_release(struct perf_buffer *buffer)
{
    if (buffer->context && buffer->block)
        weft_mem_free(buffer->context, buffer->block);
    else
        free(buffer->block);
    buffer->block = buffer->bytes = NULL;
}

void perf_buffer_guard(struct perf_buffer *buffer, size_t size)
{
    memset(buffer->bytes - GUARD, POISON, GUARD);
    memset(buffer->bytes + size, POISON, GUARD);
}

void perf_buffer_poison(struct perf_buffer *buffer, size_t size)
{
    memset(buffer->bytes, POISON, size);
    perf_buffer_guard(buffer, size);
}

uint64_t perf_buffer_damage(const struct perf_buffer *buffer, size_t size)
{
    uint64_t damage = 0;
    for (size_t i = 0; i < GUARD; i++) {
        damage += buffer->bytes[-(ptrdiff_t)i - 1] != POISON;
        damage += buffer->bytes[size + i] != POISON;
    }
    return damage;
}
