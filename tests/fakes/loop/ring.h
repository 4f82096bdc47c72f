/* SPDX-License-Identifier: Apache-2.0 */
/* loop's ring: one producer, one consumer, records in place.
 *
 * Positions count bytes and never wrap in practice; a record lies at position modulo the ring's size and is
 * contiguous: where it does not fit before the end, a SKIP record fills the rest. A producer that finds the
 * ring empty after some KiB also skips to the start, so that a link with little in flight keeps using the
 * same few cache lines. Each side caches the other's position and reads it again only when it has to.
 */
#ifndef WEFT_TESTS_FAKES_LOOP_RING_H
#define WEFT_TESTS_FAKES_LOOP_RING_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define LOOP_RING_BYTES   16384u
#define LOOP_REWIND_BYTES 512u
#define LOOP_EAGER_BYTES  4096u

enum loop_record_kind { LOOP_MESSAGE = 1, LOOP_FILLED, LOOP_SKIP };

struct loop_record {
    uint32_t size; /* of the data that follows */
    uint32_t kind;
};

struct loop_ring {
    _Alignas(64) _Atomic uint64_t tail; /* written by the producer */
    uint64_t tail_own;
    uint64_t head_seen;
    _Alignas(64) _Atomic uint64_t head; /* written by the consumer */
    uint64_t head_own;
    uint64_t tail_seen;
    _Alignas(64) uint8_t bytes[LOOP_RING_BYTES];
};

static inline uint64_t loop_record_bytes(uint64_t data_size)
{
    return sizeof(struct loop_record) + ((data_size + 7) & ~(uint64_t)7);
}

static inline struct loop_record *loop_ring_at(struct loop_ring *ring, uint64_t position)
{
    return (struct loop_record *)(void *)(ring->bytes + position % LOOP_RING_BYTES);
}

static inline void loop_ring_skip(struct loop_ring *ring)
{
    uint64_t rest = LOOP_RING_BYTES - ring->tail_own % LOOP_RING_BYTES;
    struct loop_record *record = loop_ring_at(ring, ring->tail_own);
    record->size = (uint32_t)(rest - sizeof *record);
    record->kind = LOOP_SKIP;
    ring->tail_own += rest;
}

/* Room for a record of data_size bytes, which must then be published; NULL when there is none now. */
static inline struct loop_record *loop_ring_reserve(struct loop_ring *ring, uint64_t data_size)
{
    uint64_t need = loop_record_bytes(data_size);
    uint64_t offset = ring->tail_own % LOOP_RING_BYTES;
    if (offset >= LOOP_REWIND_BYTES || ring->tail_own + 2 * need > ring->head_seen + LOOP_RING_BYTES)
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (offset >= LOOP_REWIND_BYTES && offset >= need && ring->head_seen == ring->tail_own) {
        loop_ring_skip(ring);
        offset = 0;
    }
    uint64_t gap = offset + need > LOOP_RING_BYTES ? LOOP_RING_BYTES - offset : 0;
    if (ring->tail_own + gap + need > ring->head_seen + LOOP_RING_BYTES)
        return NULL;
    if (gap)
        loop_ring_skip(ring);
    return loop_ring_at(ring, ring->tail_own);
}

static inline void loop_ring_publish(struct loop_ring *ring, struct loop_record *record, uint32_t kind,
                                     uint64_t data_size)
{
    record->size = (uint32_t)data_size;
    record->kind = kind;
    ring->tail_own += loop_record_bytes(data_size);
    atomic_store_explicit(&ring->tail, ring->tail_own, memory_order_release);
}

/* The next record, or NULL. It stays valid until loop_ring_release(). */
static inline struct loop_record *loop_ring_peek(struct loop_ring *ring)
{
    for (;;) {
        if (ring->head_own == ring->tail_seen) {
            ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
            if (ring->head_own == ring->tail_seen)
                return NULL;
        }
        struct loop_record *record = loop_ring_at(ring, ring->head_own);
        if (record->kind != LOOP_SKIP)
            return record;
        ring->head_own += loop_record_bytes(record->size);
    }
}

static inline void loop_ring_advance(struct loop_ring *ring, const struct loop_record *record)
{
    ring->head_own += loop_record_bytes(record->size);
}

/* Gives everything behind the reader back to the producer. */
static inline void loop_ring_release(struct loop_ring *ring)
{
    atomic_store_explicit(&ring->head, ring->head_own, memory_order_release);
}

#endif
