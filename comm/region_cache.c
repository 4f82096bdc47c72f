#include "comm/region_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/interval.h"
#include "base/log.h"
#include "comm/monitor.h"
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
    struct weft_monitor *monitor;
    int refused; /* there will be no monitor */
    struct slot *buckets[BUCKETS];
    uint64_t hits, misses;
    pthread_mutex_t lock;
    struct weft_intervals tree;    /* [lock] */
    struct entry *newest, *oldest; /* [lock] of those that nobody uses */
    struct entry *dead;            /* [lock] of those that nobody uses, to be ended; linked by older */
    uint64_t bytes, count;         /* [lock] in the tree */
};

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

/* What entries still cover stays watched. */
static void unwatch(struct weft_region_cache *cache, uintptr_t begin, uintptr_t end)
{
    uintptr_t gap_begin, gap_end;
    while (weft_intervals_gap(&cache->tree, begin, end, &gap_begin, &gap_end)) {
        weft_monitor_remove(cache->monitor, gap_begin, gap_end);
        begin = gap_end;
    }
}

static void retire(struct weft_region_cache *cache, struct entry *entry)
{
    kill_entry(cache, entry);
    unwatch(cache, entry->span.begin, entry->span.end);
}

static void on_gone(void *arg, uintptr_t begin, uintptr_t end, int watched)
{
    struct weft_region_cache *cache = arg;
    struct weft_interval *found;
    while ((found = weft_intervals_touch(&cache->tree, begin, end))) {
        kill_entry(cache, (struct entry *)found);
        /* Not the part that has gone: the program may have a userfaultfd of its own for what is there now, and older
         * kernels would take it away from that one. */
        unwatch(cache, found->begin, begin);
        unwatch(cache, end, found->end);
    }
    if (watched)
        unwatch(cache, begin, end);
    if (cache->dead && cache->options.died)
        cache->options.died(cache->options.arg);
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
    pthread_mutex_lock(&cache->lock);
    struct entry *dead = cache->dead;
    cache->dead = NULL;
    pthread_mutex_unlock(&cache->lock);
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
    if (weft_monitor_start(&cache->lock, on_gone, cache, &cache->monitor) != WEFT_OK) {
        cache->refused = 1;
        weft_log_once(WEFT_LOG_INFO, "ordinary memory is registered for each operation anew: %s",
                      weft_error_detail());
        weft_error_clear();
    }
    return cache->monitor != NULL;
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
    pthread_mutex_lock(&cache->lock);
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
    pthread_mutex_unlock(&cache->lock);
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
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = (struct entry *)weft_intervals_cover(&cache->tree, begin, end);
    if (entry && !entry->users++)
        idle_remove(cache, entry);
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

static void entry_give(struct weft_region_cache *cache, struct entry *entry)
{
    pthread_mutex_lock(&cache->lock);
    int over = --entry->users == 0;
    if (over && !entry->dead) {
        idle_add(cache, entry);
        over = 0;
    }
    pthread_mutex_unlock(&cache->lock);
    if (over)
        entry_end(cache, entry);
}

static void entry_retire(struct weft_region_cache *cache, struct entry *entry)
{
    pthread_mutex_lock(&cache->lock);
    if (!entry->dead)
        retire(cache, entry);
    pthread_mutex_unlock(&cache->lock);
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
    /* Asked now that registering has brought the pages in. */
    if (!weft_monitor_is_private(cache->monitor, entry->span.begin, entry->span.end))
        entry_retire(cache, entry);
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
    /* The order matters: comm/monitor.h. While a change is on its way nothing that is known counts. */
    if (!weft_monitor_quiet(cache->monitor))
        return WEFT_UNSUPPORTED;
    weft_region_cache_reap(cache);
    struct entry *entry = entry_take(cache, begin, end);
    if (!entry)
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
    pthread_mutex_lock(&cache->lock);
    while (cache->oldest)
        retire(cache, cache->oldest);
    for (const struct entry *entry = cache->dead; entry; entry = entry->older)
        ended++;
    pthread_mutex_unlock(&cache->lock);
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
    pthread_mutex_lock(&cache->lock);
    *stats = (struct weft_region_cache_stats){cache->hits, cache->misses, cache->count, cache->bytes};
    pthread_mutex_unlock(&cache->lock);
}

int weft_region_cache_open(const struct weft_region_cache_options *options, struct weft_region_cache **result)
{
    struct weft_region_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return weft_fail(WEFT_NOMEM, "no memory for a cache of registrations");
    cache->options = *options;
    cache->page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&cache->lock, NULL);
    *result = cache;
    return WEFT_OK;
}

void weft_region_cache_close(struct weft_region_cache *cache)
{
    if (!cache)
        return;
    weft_region_cache_trim(cache);
    weft_monitor_stop(cache->monitor);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}
