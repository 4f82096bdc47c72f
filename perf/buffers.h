/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's buffers, with guard bytes on both sides.
 *
 * Where the host may not touch a buffer, or is not to, everything here works on a mirror of it in ordinary memory, which goes to the
 * device before a call (perf_buffer_put) and comes back behind it (perf_buffer_get).
 */
#ifndef WEFT_PERF_BUFFERS_H
#define WEFT_PERF_BUFFERS_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#include "perf/device/memory.h"
#include "perf/options.h"

struct perf_buffer {
    weft_context *context; /* borrowed, of weft_mem_alloc(); else NULL */
    struct perf_device device;
    int is_device;
    unsigned char *block;  /* guard page, capacity bytes, guard page */
    unsigned char *bytes;  /* what the calls see; page aligned */
    unsigned char *mirror; /* the block on the host; NULL: the host touches the block itself */
    unsigned char *host;   /* the bytes where the host may touch them */
    size_t capacity;
};

/* 0, or -1 after a message. End with perf_buffer_release(), before the context is closed. */
int perf_buffer_make(struct perf_buffer *buffer, weft_context *context, const struct perf_place *place,
                     size_t capacity);
void perf_buffer_release(struct perf_buffer *buffer);

/* Brings the first size bytes and the guards around them from the host to where the calls see them, and back. 0, or -1 after a
 * message. */
int perf_buffer_put(struct perf_buffer *buffer, size_t size);
int perf_buffer_get(struct perf_buffer *buffer, size_t size);

/* On the host: fills the first size bytes with poison, and the guards before them and right behind them. */
void perf_buffer_poison(struct perf_buffer *buffer, size_t size);

/* Only the guards. */
void perf_buffer_guard(struct perf_buffer *buffer, size_t size);

/* On the host: how many guard bytes around the first size bytes have changed. */
uint64_t perf_buffer_damage(const struct perf_buffer *buffer, size_t size);

#endif
