/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that ranks of one machine work on directly, below whoever does that work: no copy through host memory.
 *
 * The owner describes memory of one span; the description travels as bytes; the peer gets a pointer out of it that queues of its own
 * can work on (reach), and gives it back (release). A rank of the owner's own process gets the owner's pointer; one of another
 * process maps the span. The caller knows that both are on one machine, and which process a peer is: each has an instance, a
 * random number that ranks exchange when they meet.
 *
 * What is remembered, by identity and not by address:
 *   exports  the handles of spans that have been described, so that describing one again costs a lookup. At most exports_max; those of
 *            memory that is freed go when the next handle is made. An entry holds nothing of the device's.
 *   imports  the spans that are mapped, by peer, identity there and handle. Other memory that the peer says is at the same place ends the
 *            old one. Spans that nobody uses are kept, imports_kept of them, the most recently used.
 *
 * Where it waits. describe() and reach() may wait for a bounded time when they make a handle or map a span, as those
 * operations of the kind do; nothing else of them does. Mappings are undone by trim() and close() only, because a driver may
 * wait then until the device is idle, which it never is while a stream stands at a stream wait that is closed: call trim() when no
 * operation of this process has one. Until then up to imports_max spans are mapped; more are refused (WEFT_UNSUPPORTED).
 *
 * Threads: the caller serialises all calls on one set (the context's lock). Sets are independent of each other.
 * Errors: 0 or a negative enum weft_status with a text. What a kind's export_ipc() answers is passed on; what its import_ipc() says
 * against a handle is WEFT_UNSUPPORTED with its text. Whatever it is, the memory can be staged instead.
 */
#ifndef WEFT_DEVMEM_SHARE_H
#define WEFT_DEVMEM_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "devmem/devices.h"

#define WEFT_SHARE_BYTES 256

/* A description, as it travels: devmem/share_wire.h. */
struct weft_share {
    uint8_t bytes[WEFT_SHARE_BYTES];
};

struct weft_shares;
struct weft_share_import;

struct weft_share_limits {
    uint32_t exports_max;
    uint32_t imports_kept; /* without users, behind trim() */
    uint32_t imports_max;
};

struct weft_share_stats {
    uint64_t exports_made, export_hits;
    uint64_t imports_made, import_hits;
    uint32_t exports, imports; /* now: remembered, and mapped */
};

/* limits: NULL for those that suit a context. WEFT_SYSTEM without randomness. */
int weft_shares_open(const struct weft_share_limits *limits, struct weft_shares **shares);
/* Undoes all mappings, of which none is in use; before the kinds are closed. NULL is allowed. */
void weft_shares_close(struct weft_shares *shares);

/* The instance of this process, never 0; a forked child has another. WEFT_SYSTEM without randomness. */
int weft_share_process(uint64_t *instance);
/* The same, of the process that opened the set. */
uint64_t weft_share_instance(const struct weft_shares *shares);

/* Describes [memory, memory + size), which is memory of that kind, of one span and not empty. is_for_others: ranks of other
 * processes are to reach it; else no handle is made. WEFT_UNSUPPORTED where the memory cannot be described so: it lies in several
 * spans, has no identity, or can have no handle. The description is good until the memory is freed. */
int weft_share_describe(struct weft_shares *shares, const struct weft_device_kind *kind, const void *memory,
                        size_t size, int is_for_others, struct weft_share *share);

/* A pointer to the first of size bytes that the description names, for queues of the kind on that ordinal; valid until
 * release(import), and as long as the owner has the memory. peer: the instance of the process that the description came
 * from, which may have written anything into it: WEFT_PROTOCOL when it makes no sense, belongs to another process, or names memory that
 * is not (or no longer) there, or fewer bytes. WEFT_UNSUPPORTED: memory of another kind, or that the device does not reach or map.
 * *import is NULL for memory of this same process, which may be another device's than ordinal. */
int weft_share_reach(struct weft_shares *shares, const struct weft_device_kind *kind, int ordinal,
                     uint64_t peer, const struct weft_share *share, size_t size, void **pointer,
                     struct weft_share_import **import);
/* No work on it is queued any more. NULL is allowed. */
void weft_share_release(struct weft_shares *shares, struct weft_share_import *import);
/* The same for weft_command_queue_keep(), where work on it is queued still. */
void weft_share_release_kept(void *shares, uint32_t index, void *import, size_t size);

/* The peer's process is gone, or no rank of it is a peer any more: nothing of it is found again, and trim() undoes it. */
void weft_share_forget(struct weft_shares *shares, uint64_t peer);
/* Undoes mappings without users: those that have ended, and the least recently used beyond imports_kept. May wait, see above. */
void weft_shares_trim(struct weft_shares *shares);

void weft_shares_get_stats(const struct weft_shares *shares, struct weft_share_stats *stats);

#endif
