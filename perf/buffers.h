/* A rank's buffers, with guard bytes on both sides. */
#ifndef WEFT_PERF_BUFFERS_H
#define WEFT_PERF_BUFFERS_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#include "perf/options.h"

struct perf_buffer {
    weft_context *context; /* borrowed; NULL: ordinary memory */
    unsigned char *block;  /* guard page, capacity bytes, guard page */
    unsigned char *bytes;  /* what the collective sees; page aligned */
    size_t capacity;
};

/* 0, or -1 after a message. End with perf_buffer_release(). */
int perf_buffer_make(struct perf_buffer *buffer, weft_context *context, const struct perf_place *place,
                     size_t capacity);
void perf_buffer_release(struct perf_buffer *buffer);

/* Fills the first size bytes with poison, and the guards before them and right behind them. */
void perf_buffer_poison(struct perf_buffer *buffer, size_t size);

/* Only the guards. */
void perf_buffer_guard(struct perf_buffer *buffer, size_t size);

/* How many guard bytes around the first size bytes have changed. */
uint64_t perf_buffer_damage(const struct perf_buffer *buffer, size_t size);

#endif
