/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of one direction: one producer, one consumer, in a sealed memfd.
 *
 *   page 0   the consumer's line: head, how far it has read, published once per quarter of the ring
 *            what both write where the producer helps the consumer to read its memory (help.h), or feeds it (feed.h)
 *   then     SHM_RING_LINES cache lines
 *   then     marks and blocks by which the producer feeds the consumer: no memory before that begins
 *
 * Positions count lines and never wrap; a record starts at a line and is contiguous:
 *
 *   bytes 0..7    stamp: key + position * odd constant. The record is there when the stamp is.
 *   bytes 8..11   size of the data
 *   bytes 12..15  kind: data, or SKIP (the rest of the ring is empty, go on at its start)
 *   from 16       data
 *
 * The producer writes the data and then the stamp, all of a small message in one line, so that it costs one
 * cache line transfer and no acknowledgement; neither side ever clears a line. A stamp is right only for its
 * position in this lap. Old data that lies where a stamp is looked for cannot pass for it except by guessing
 * the 64-bit key. The producer reads head only when its last known value leaves no room.
 *
 * Each side trusts the other as little as it can: size and kind are read once and checked against the ring.
 */
#ifndef WEFT_TRANSPORT_SHM_RING_H
#define WEFT_TRANSPORT_SHM_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "transport/shm/feed.h"
#include "transport/shm/help.h"

#define SHM_LINE         64u
#define SHM_RING_LINES   1024u
#define SHM_RING_CONTROL 4096u
#define SHM_RING_RECORDS (SHM_RING_LINES * SHM_LINE)
#define SHM_RING_BLOCKS  (128u << 10) /* where the blocks begin: a page, also where pages have 64 KiB */
#define SHM_RING_BYTES   (SHM_RING_BLOCKS + SHM_FEED_BYTES)
#define SHM_EAGER_BYTES  8320u /* 8 KiB, and a header */
#define SHM_RECORD_HEAD  16u

enum shm_record_kind { SHM_RECORD_DATA = 1, SHM_RECORD_SKIP };

struct shm_record {
    _Atomic uint64_t stamp;
    uint32_t size;
    uint32_t kind;
};

struct shm_ring_control {
    _Atomic uint64_t head;
    struct shm_help help;
    struct shm_feed feed;
};

_Static_assert(sizeof(struct shm_ring_control) <= SHM_RING_CONTROL,
               "the consumer's line and what follows fit the page");
_Static_assert(SHM_RING_CONTROL + SHM_RING_RECORDS + SHM_FEED_MARKS_BYTES <= SHM_RING_BLOCKS,
               "the marks end before the blocks begin");

struct shm_producer {
    uint8_t *memory; /* the whole memfd */
    uint64_t key;
    uint64_t tail;
    uint64_t head_seen;
};

struct shm_consumer {
    uint8_t *memory;
    uint64_t expected; /* stamp at head */
    uint64_t key;
    uint64_t head;
    uint64_t published;
};

static inline uint64_t shm_stamp(uint64_t key, uint64_t position)
{
    return key + position * 0x9e3779b97f4a7c15ull;
}

static inline struct shm_record *shm_record_at(uint8_t *memory, uint64_t position)
{
    return (struct shm_record *)(void *)(memory + SHM_RING_CONTROL + position % SHM_RING_LINES * SHM_LINE);
}

static inline uint64_t shm_record_lines(uint64_t size)
{
    return (SHM_RECORD_HEAD + size + SHM_LINE - 1) / SHM_LINE;
}

static inline uint64_t shm_head(uint8_t *memory)
{
    struct shm_ring_control *control = (struct shm_ring_control *)(void *)memory;
    return atomic_load_explicit(&control->head, memory_order_acquire);
}

/* Whether lines fit; reads head when it must. */
static inline int shm_producer_fits(struct shm_producer *ring, uint64_t lines)
{
    if (ring->tail + lines <= ring->head_seen + SHM_RING_LINES)
        return 1;
    ring->head_seen = shm_head(ring->memory);
    return ring->head_seen <= ring->tail && ring->tail + lines <= ring->head_seen + SHM_RING_LINES;
}

static inline void shm_producer_publish(struct shm_producer *ring, struct shm_record *record, uint32_t kind,
                                        uint32_t size, uint64_t lines)
{
    record->size = size;
    record->kind = kind;
    atomic_store_explicit(&record->stamp, shm_stamp(ring->key, ring->tail), memory_order_release);
    ring->tail += lines;
}

/* Room for size bytes of data at result + 1, to be published; NULL when there is none now. */
static inline struct shm_record *shm_producer_reserve(struct shm_producer *ring, uint64_t size)
{
    uint64_t lines = shm_record_lines(size);
    uint64_t left = SHM_RING_LINES - ring->tail % SHM_RING_LINES;
    if (__builtin_expect(lines > left, 0)) {
        if (!shm_producer_fits(ring, left + lines))
            return NULL;
        shm_producer_publish(ring, shm_record_at(ring->memory, ring->tail), SHM_RECORD_SKIP, 0, left);
    } else if (!shm_producer_fits(ring, lines)) {
        return NULL;
    }
    return shm_record_at(ring->memory, ring->tail);
}

/* The record at head if it has come, else NULL. */
static inline struct shm_record *shm_consumer_peek(const struct shm_consumer *ring)
{
    struct shm_record *record = shm_record_at(ring->memory, ring->head);
    return atomic_load_explicit(&record->stamp, memory_order_acquire) == ring->expected ? record : NULL;
}

static inline void shm_consumer_advance(struct shm_consumer *ring, uint64_t lines)
{
    ring->head += lines;
    ring->expected = shm_stamp(ring->key, ring->head);
    if (ring->head - ring->published >= SHM_RING_LINES / 4) {
        struct shm_ring_control *control = (struct shm_ring_control *)(void *)ring->memory;
        atomic_store_explicit(&control->head, ring->head, memory_order_release);
        ring->published = ring->head;
    }
}

#endif
