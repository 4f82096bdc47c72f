/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations of ordinary memory that outlive the operation they were made for.
 *
 * An entry is a range of whole pages and the regions that transports have made of it, one per transport. An operation whose
 * memory lies within one entry takes that entry's region; several entries may overlap. Entries that no operation uses
 * are kept, the least recently used one goes first when there would be more than so many bytes or ENTRIES_MAX of them.
 *
 * Entries are only made of memory that can be watched (comm/regions/monitor.h), and that is private to the process. When part of it is unmapped,
 * moved or discarded the entry is dead at once: it is found no more, whatever comes to lie at its address, and its
 * regions end with the operations that use them, or at the next reap(). Where the kernel does not let memory be
 * watched, none is kept: get() answers WEFT_UNSUPPORTED and the caller registers it for the operation alone.
 *
 * Registering whole pages lets neighbours hit. It must not widen what peers can write, so only transports whose keys end
 * with the receive buffer use the cache (WEFT_CAP_REG_KEEP in include/weft/transport.h).
 *
 * Threads: the caller serialises (the context's lock), but for the monitor's thread, which is kept apart by a lock that
 * all caches of the process share, as they share the monitor. It is held for no registration, no allocation, no log line:
 * see comm/regions/monitor.h.
 */
#ifndef WEFT_COMM_REGIONS_CACHE_H
#define WEFT_COMM_REGIONS_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct weft_region;
struct weft_region_cache;

#define WEFT_CACHE_TRANSPORTS 4

struct weft_region_cache_options {
    uint64_t bytes_max; /* 0: nothing is kept */
    void *arg;
    /* As a transport's, of which there are WEFT_CACHE_TRANSPORTS at most. Called without the cache's lock. */
    int (*reg)(void *arg, uint32_t transport, void *memory, size_t size, struct weft_region **region);
    void (*dereg)(void *arg, uint32_t transport, struct weft_region *region);
    /* Something has died that nobody uses: reap() soon. Called on the monitor's thread with the cache's lock held, so
     * it does nothing but note and wake. May be NULL. */
    void (*died)(void *arg);
};

struct weft_region_cache_stats {
    uint64_t hits, misses;   /* of get(), in regions; what was not for the cache is neither */
    uint64_t delayed;        /* get() that gave nothing as a change of memory was on its way: later it may */
    uint64_t entries, bytes; /* that can be found */
};

int weft_region_cache_open(const struct weft_region_cache_options *options, struct weft_region_cache **cache);
/* Nothing of it is in use. NULL is allowed. */
void weft_region_cache_close(struct weft_region_cache *cache);

/* A region that covers the memory, until put(). WEFT_UNSUPPORTED, without a text: this memory is not for the cache. */
int weft_region_cache_get(struct weft_region_cache *cache, uint32_t transport, const void *memory,
                          size_t size, struct weft_region **region);
/* Whether the region was the cache's: 1, or 0 and nothing is done. */
int weft_region_cache_put(struct weft_region_cache *cache, uint32_t transport, struct weft_region *region);

/* Ends what has died and no operation uses, which other calls do as well. Until then its pages are not free. */
void weft_region_cache_reap(struct weft_region_cache *cache);
/* Ends what no operation uses; returns how many entries that were. When memory for registrations has run out. */
uint32_t weft_region_cache_trim(struct weft_region_cache *cache);
/* Ends all regions of a transport, none of which is in use any more. */
void weft_region_cache_forget(struct weft_region_cache *cache, uint32_t transport);

void weft_region_cache_get_stats(struct weft_region_cache *cache, struct weft_region_cache_stats *stats);

#endif
