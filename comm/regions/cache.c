/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/regions/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/interval.h"
#include "base/log.h"
#include "comm/regions/monitor.h"
#include <weft/weft.h>

/* Each may cost two of the 65,530 mappings that a process has by default (vm.max_map_count), as its watched pages
 * become a mapping of their own. */
#define ENTRIES_MAX 4096
#define BUCKETS     1024 /* a power of two */

struct entry;

/* A region in the table by which put() finds its entry. */
struct slot {
    struct weft_region *region; /* NULL: this transport has none */
    struct entry *entry;
    struct slot *next;
};

struct entry {
    struct weft_interval span;   /* first, so that one is the other */
    struct entry *newer, *older; /* [lock] while nobody uses it: in the order of use, or of the dead */
    uint32_t users;              /* [lock] */
    int dead;                    /* [lock] its memory has gone; not in the tree */
    struct slot slots[WEFT_CACHE_TRANSPORTS];
};

struct weft_region_cache {
    struct weft_region_cache_options options;
    uintptr_t page_bytes;
    struct weft_monitor *monitor; /* shared.monitor, once it is needed */
    int refused;                  /* there will be none */
    struct slot *buckets[BUCKETS];
    uint64_t hits, misses, delayed;
    struct weft_region_cache *next; /* [lock] of shared.caches */
    struct weft_intervals tree;     /* [lock] */
    struct entry *newest, *oldest;  /* [lock] of those that nobody uses */
    struct entry *dead;             /* [lock] of those that nobody uses, to be ended; linked by older */
    uint64_t bytes, count;          /* [lock] in the tree */
};

/* All caches have one monitor, and one lock. With a userfaultfd for each they would harm each other on kernels where one may end
 * what another one watches (6.12 does so, 6.18 does not): a cache lets go of an entry whose memory has just gone, and that another
 * cache watches at the same address by now. So what is ended is what no cache has. It also lets several keep the same memory. */
static struct {
    pthread_mutex_t lock;
    struct weft_region_cache *caches; /* [lock] that use the monitor */
    pthread_mutex_t life;             /* taken before the other one, and never by the monitor's thread */
    struct weft_monitor *monitor;     /* [life] */
    uint32_t users;                   /* [life] */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .life = PTHREAD_MUTEX_INITIALIZER};

static uint64_t bytes_of(const struct entry *entry)
{
    return entry->span.end - entry->span.begin;
}

static struct slot **bucket_of(struct weft_region_cache *cache, const struct weft_region *region)
{
    uint64_t mixed = (uint64_t)(uintptr_t)region * UINT64_C(0x9e3779b97f4a7c15);
    return &cache->buckets[mixed >> 32 & (BUCKETS - 1)];
}

/* --- with the lock held; also on the monitor's thread */

static void idle_add(struct weft_region_cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void idle_remove(struct weft_region_cache *cache, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

/* It is not found any more. Ended, if not in use, at the next reap. */
static void kill_entry(struct weft_region_cache *cache, struct entry *entry)
{
    weft_intervals_remove(&cache->tree, &entry->span);
    cache->bytes -= bytes_of(entry);
    cache->count--;
    entry->dead = 1;
    if (entry->users)
        return;
    idle_remove(cache, entry);
    entry->older = cache->dead;
    cache->dead = entry;
}

/* What entries of this cache or of those behind it still cover stays watched. */
static void unwatch_beside(const struct weft_region_cache *cache, uintptr_t begin, uintptr_t end)
{
    uintptr_t gap_begin, gap_end;
    if (!cache) {
        weft_monitor_remove(shared.monitor, begin, end);
        return;
    }
    while (weft_intervals_gap(&cache->tree, begin, end, &gap_begin, &gap_end)) {
        unwatch_beside(cache->next, gap_begin, gap_end);
        begin = gap_end;
    }
}

static void unwatch(uintptr_t begin, uintptr_t end)
{
    if (begin < end)
        unwatch_beside(shared.caches, begin, end);
}

static void retire(struct weft_region_cache *cache, struct entry *entry)
{
    kill_entry(cache, entry);
    unwatch(entry->span.begin, entry->span.end);
}

static void gone_from(struct weft_region_cache *cache, uintptr_t begin, uintptr_t end)
{
    struct weft_interval *found;
    while ((found = weft_intervals_touch(&cache->tree, begin, end))) {
        kill_entry(cache, (struct entry *)found);
        /* Not the part that has gone: the program may have a userfaultfd of its own for what is there now, and older
         * kernels would take it away from that one. */
        unwatch(found->begin, begin);
        unwatch(end, found->end);
    }
    if (cache->dead && cache->options.died)
        cache->options.died(cache->options.arg);
}

static void on_gone(void *arg, uintptr_t begin, uintptr_t end, int watched)
{
    (void)arg;
    for (struct weft_region_cache *cache = shared.caches; cache; cache = cache->next)
        gone_from(cache, begin, end);
    if (watched)
        unwatch(begin, end);
}

/* --- without it */

static void slot_set(struct weft_region_cache *cache, struct entry *entry, uint32_t transport,
                     struct weft_region *region)
{
    struct slot *slot = &entry->slots[transport], **bucket = bucket_of(cache, region);
    *slot = (struct slot){region, entry, *bucket};
    *bucket = slot;
}

static void slot_end(struct weft_region_cache *cache, struct entry *entry, uint32_t transport)
{
    struct slot *slot = &entry->slots[transport];
    if (!slot->region)
        return;
    struct slot **at = bucket_of(cache, slot->region);
    while (*at != slot)
        at = &(*at)->next;
    *at = slot->next;
    cache->options.dereg(cache->options.arg, transport, slot->region);
    slot->region = NULL;
}

static void entry_end(struct weft_region_cache *cache, struct entry *entry)
{
    for (uint32_t t = 0; t < WEFT_CACHE_TRANSPORTS; t++)
        slot_end(cache, entry, t);
    free(entry);
}

void weft_region_cache_reap(struct weft_region_cache *cache)
{
    pthread_mutex_lock(&shared.lock);
    struct entry *dead = cache->dead;
    cache->dead = NULL;
    pthread_mutex_unlock(&shared.lock);
    while (dead) {
        struct entry *next = dead->older;
        entry_end(cache, dead);
        dead = next;
    }
}

static int start_monitor(struct weft_region_cache *cache)
{
    if (cache->monitor || cache->refused)
        return cache->monitor != NULL;
    pthread_mutex_lock(&shared.life);
    int status = shared.users ? WEFT_OK : weft_monitor_start(&shared.lock, on_gone, NULL, &shared.monitor);
    if (status == WEFT_OK) {
        shared.users++;
        cache->monitor = shared.monitor;
        pthread_mutex_lock(&shared.lock);
        cache->next = shared.caches;
        shared.caches = cache;
        pthread_mutex_unlock(&shared.lock);
    }
    pthread_mutex_unlock(&shared.life);
    if (status != WEFT_OK) {
        cache->refused = 1;
        weft_log_once(WEFT_LOG_INFO, "ordinary memory is registered for each operation anew: %s",
                      weft_error_detail());
        weft_error_clear();
    }
    return cache->monitor != NULL;
}

/* Nothing of the cache is watched any more. */
static void stop_monitor(const struct weft_region_cache *cache)
{
    if (!cache->monitor)
        return;
    pthread_mutex_lock(&shared.life);
    pthread_mutex_lock(&shared.lock);
    struct weft_region_cache **at = &shared.caches;
    while (*at != cache)
        at = &(*at)->next;
    *at = cache->next;
    pthread_mutex_unlock(&shared.lock);
    if (--shared.users == 0) {
        weft_monitor_stop(shared.monitor);
        shared.monitor = NULL;
    }
    pthread_mutex_unlock(&shared.life);
}

/* Puts an entry into the tree that nobody uses, and has its memory watched; others that nobody uses may have to go. Its
 * being there before its memory is registered means that a change is not missed between the two. */
static struct entry *entry_add(struct weft_region_cache *cache, uintptr_t begin, uintptr_t end)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->span.begin = begin;
    entry->span.end = end;
    entry->users = 1;
    pthread_mutex_lock(&shared.lock);
    while (cache->oldest &&
           (cache->bytes + bytes_of(entry) > cache->options.bytes_max || cache->count >= ENTRIES_MAX))
        retire(cache, cache->oldest);
    int fits = cache->bytes + bytes_of(entry) <= cache->options.bytes_max && cache->count < ENTRIES_MAX;
    if (fits) {
        weft_intervals_add(&cache->tree, &entry->span);
        cache->bytes += bytes_of(entry);
        cache->count++;
        fits = weft_monitor_add(cache->monitor, begin, end) == 0;
        if (!fits)
            kill_entry(cache, entry);
    }
    pthread_mutex_unlock(&shared.lock);
    weft_region_cache_reap(cache);
    if (!fits) {
        free(entry);
        return NULL;
    }
    return entry;
}

/* An entry that covers the memory, in use once more, with or without a region. */
static struct entry *entry_take(struct weft_region_cache *cache, uintptr_t begin, uintptr_t end)
{
    pthread_mutex_lock(&shared.lock);
    struct entry *entry = (struct entry *)weft_intervals_cover(&cache->tree, begin, end);
    if (entry && !entry->users++)
        idle_remove(cache, entry);
    pthread_mutex_unlock(&shared.lock);
    return entry;
}

static void entry_give(struct weft_region_cache *cache, struct entry *entry)
{
    pthread_mutex_lock(&shared.lock);
    int over = --entry->users == 0;
    if (over && !entry->dead) {
        idle_add(cache, entry);
        over = 0;
    }
    pthread_mutex_unlock(&shared.lock);
    if (over)
        entry_end(cache, entry);
}

static void entry_retire(struct weft_region_cache *cache, struct entry *entry)
{
    pthread_mutex_lock(&shared.lock);
    if (!entry->dead)
        retire(cache, entry);
    pthread_mutex_unlock(&shared.lock);
}

/* Registers the entry's memory; when there is no room for it, once more without what nobody uses. */
static int entry_register(struct weft_region_cache *cache, struct entry *entry, uint32_t transport)
{
    struct weft_region *region;
    void *memory = (void *)entry->span.begin;
    int status = cache->options.reg(cache->options.arg, transport, memory, bytes_of(entry), &region);
    if (status != WEFT_OK && status != WEFT_INVALID && weft_region_cache_trim(cache))
        status = cache->options.reg(cache->options.arg, transport, memory, bytes_of(entry), &region);
    if (status != WEFT_OK)
        return status;
    slot_set(cache, entry, transport, region);
    cache->misses++;
    return WEFT_OK;
}

int weft_region_cache_get(struct weft_region_cache *cache, uint32_t transport, const void *memory,
                          size_t size, struct weft_region **region)
{
    uintptr_t begin = (uintptr_t)memory, end = begin + size;
    uintptr_t from = begin & ~(cache->page_bytes - 1),
              to = (end + cache->page_bytes - 1) & ~(cache->page_bytes - 1);
    if (!size || end < begin || to < end || to - from > cache->options.bytes_max || !start_monitor(cache))
        return WEFT_UNSUPPORTED;
    /* The order matters: comm/regions/monitor.h. While a change is on its way nothing that is known counts. */
    if (!weft_monitor_quiet(cache->monitor)) {
        cache->delayed++;
        return WEFT_UNSUPPORTED;
    }
    weft_region_cache_reap(cache);
    struct entry *entry = entry_take(cache, begin, end);
    /* What cannot be kept pushes nothing out, and is not watched either. It stays what it is meanwhile, as the operation that it
     * is wanted for uses it. */
    if (!entry && weft_monitor_is_private(cache->monitor, from, to))
        entry = entry_add(cache, from, to);
    if (!entry)
        return WEFT_UNSUPPORTED;
    if (entry->slots[transport].region) {
        cache->hits++;
    } else if (entry_register(cache, entry, transport) != WEFT_OK) {
        /* The memory itself may do where whole pages did not: the caller sees. */
        weft_error_clear();
        entry_retire(cache, entry);
        entry_give(cache, entry);
        return WEFT_UNSUPPORTED;
    }
    *region = entry->slots[transport].region;
    return WEFT_OK;
}

int weft_region_cache_put(struct weft_region_cache *cache, uint32_t transport, struct weft_region *region)
{
    struct slot *slot = *bucket_of(cache, region);
    while (slot && (slot->region != region || slot != &slot->entry->slots[transport]))
        slot = slot->next;
    if (!slot)
        return 0;
    entry_give(cache, slot->entry);
    return 1;
}

uint32_t weft_region_cache_trim(struct weft_region_cache *cache)
{
    uint32_t ended = 0;
    pthread_mutex_lock(&shared.lock);
    while (cache->oldest)
        retire(cache, cache->oldest);
    for (const struct entry *entry = cache->dead; entry; entry = entry->older)
        ended++;
    pthread_mutex_unlock(&shared.lock);
    weft_region_cache_reap(cache);
    return ended;
}

void weft_region_cache_forget(struct weft_region_cache *cache, uint32_t transport)
{
    weft_region_cache_trim(cache);
    for (int b = 0; b < BUCKETS; b++) {
        for (struct slot *slot = cache->buckets[b], *next; slot; slot = next) {
            next = slot->next;
            if (slot == &slot->entry->slots[transport])
                slot_end(cache, slot->entry, transport);
        }
    }
}

void weft_region_cache_get_stats(struct weft_region_cache *cache, struct weft_region_cache_stats *stats)
{
    pthread_mutex_lock(&shared.lock);
    *stats = (struct weft_region_cache_stats){cache->hits, cache->misses, cache->delayed, cache->count,
                                              cache->bytes};
    pthread_mutex_unlock(&shared.lock);
}

int weft_region_cache_open(const struct weft_region_cache_options *options, struct weft_region_cache **result)
{
    struct weft_region_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return weft_fail(WEFT_NOMEM, "no memory for a cache of registrations");
    cache->options = *options;
    cache->page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    *result = cache;
    return WEFT_OK;
}

void weft_region_cache_close(struct weft_region_cache *cache)
{
    if (!cache)
        return;
    weft_region_cache_trim(cache);
    stop_monitor(cache);
    free(cache);
}
