/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of ordinary memory feeds a peer that reads it.
 *
 * Between processors that share a cache two copies through it take half the time of one by the kernel, which pays for every page and keeps one processor
 * busy alone. So a reader may ask the owner for the bytes. The owner, if it polls, copies them into blocks behind its ring,
 * slice by slice, and marks each; the reader copies out what is marked, and says what is free again. Both copy at once. Whether that is faster than the kernel is
 * the reader's choice (pull.c), which nobody has to agree to.
 *
 * Nobody waits for the other for long. An owner that does not begin at once computes, sleeps or is stopped, and one that does not go on has been put aside: the
 * reader takes back what it has asked for, and reads the rest by the kernel. A reader that does not go on leaves an owner with full blocks, which
 * looks again with each poll(). While a reader waits it feeds others, so two that read from each other both get what they want.
 *
 * Blocks have numbers, which never come twice. The reader says from which number on it wants to be fed, each time beyond all numbers before, and a mark is the number
 * of the block where the slice begins. So what an owner still writes that was stopped in its copy, long after the reader has gone on without it, is never taken for anything: it
 * has another number, and the owner itself, which writes alone here, comes to what is wanted next only after that.
 *
 * The owner copies nothing but memory that it exposes, and looks again before each few slices: what it has taken back it does not touch. The reader looks at
 * the token's cell afterwards, as after any read (cells.c).
 *
 * Blocks get memory when a peer first wants something, for so many links of an instance at a time, and an idle link's go to one that needs them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/pause.h"
#include "transport/shm/shm_private.h"

#define GIVEN_BYTES  (128u << 10) /* at a time, before messages are looked at again */
#define FED_LINKS    16u          /* that have memory for blocks: 4 MiB */
#define IDLE_NS      INT64_C(1000000000)
#define BEGIN_NS     4000 /* an owner that polls begins within 1 us. The kernel's copy of 32 KiB takes as long */
#define STALL_NS     20000 /* longer than an owner needs for a slice of its own, or for another peer's */
#define LOOKS        16    /* between two looks at the clock */
#define GIVES_MAX    8     /* while a slice is waited for: 1 MiB of one other peer's */
#define SMALL_BYTES  (32u << 10) /* a slice of one block, so that the reader begins early; */
#define MIDDLE_BYTES (96u << 10) /* of two; more are marked less often */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct shm_feed *feed_in(uint8_t *ring)
{
    return &((struct shm_ring_control *)(void *)ring)->feed;
}

static _Atomic uint64_t *mark_of(uint8_t *ring, uint64_t block)
{
    struct shm_feed_mark *marks =
        (struct shm_feed_mark *)(void *)(ring + SHM_RING_CONTROL + SHM_RING_RECORDS);
    return &marks[block % SHM_FEED_BLOCKS].filled;
}

static uint8_t *block_at(uint8_t *ring, uint64_t block)
{
    return ring + SHM_RING_BLOCKS + block % SHM_FEED_BLOCKS * SHM_FEED_BLOCK;
}

static uint64_t blocks_of(uint64_t bytes)
{
    return (bytes + SHM_FEED_BLOCK - 1) / SHM_FEED_BLOCK;
}

/* --- the owner */

static int64_t coarse_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether the peer may still look at blocks of the link's. */
static int is_in_use(const struct weft_link *link)
{
    const struct shm_feed *feed = feed_in(link->ring.memory);
    const struct shm_feeding *feeding = &link->feeding;
    uint64_t wanted = atomic_load_explicit(&feed->wanted, memory_order_acquire);
    return atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_UP && wanted &&
           (wanted != feeding->wanted || feeding->done < feeding->bytes ||
            atomic_load_explicit(&feed->freed, memory_order_acquire) <
                wanted - 1 + blocks_of(feeding->bytes));
}

static void give_back(struct weft_link *link)
{
    if (!link->feeding.has_blocks ||
        madvise(block_at(link->ring.memory, 0), SHM_FEED_BYTES, MADV_REMOVE) != 0)
        return;
    link->feeding.has_blocks = 0;
    link->transport->fed_links--;
}

/* The blocks of the link that has been idle longest become free, if any has for some time. */
static void make_room(struct weft_transport *transport, int64_t now_ns)
{
    struct weft_link *idle = NULL;
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (link->feeding.has_blocks && now_ns - link->feeding.given_ns > IDLE_NS && !is_in_use(link) &&
            (!idle || link->feeding.given_ns < idle->feeding.given_ns))
            idle = link;
    }
    if (idle)
        give_back(idle);
}

/* Now, rather than with a signal where there is none: a kernel before 5.14 cannot. */
static int get_blocks(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    if (transport->fed_links == FED_LINKS)
        make_room(transport, coarse_ns());
    if (transport->fed_links == FED_LINKS)
        return 0;
    if (madvise(block_at(link->ring.memory, 0), SHM_FEED_BYTES, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return 0;
    transport->fed_links++;
    link->feeding.has_blocks = 1;
    return 1;
}

/* Reads what the peer wants, which it may be changing: 0 where it is. */
static int take(struct weft_link *link, const struct shm_feed *feed, uint64_t wanted)
{
    struct shm_feeding now = {
        .wanted = wanted,
        .source = (const uint8_t *)(uintptr_t)atomic_load_explicit(&feed->source, memory_order_relaxed),
        .bytes = atomic_load_explicit(&feed->bytes, memory_order_relaxed),
        .cell = atomic_load_explicit(&feed->cell, memory_order_relaxed),
        .slice_blocks = atomic_load_explicit(&feed->slice_blocks, memory_order_relaxed),
        .has_blocks = link->feeding.has_blocks,
        .given_ns = link->feeding.given_ns,
        .wishes = link->feeding.wishes};
    weft_fence_loads();
    if (atomic_load_explicit(&feed->wanted, memory_order_relaxed) != wanted)
        return 0;
    uint32_t blocks = now.slice_blocks; /* it may be anything */
    if (!blocks || blocks > SHM_FEED_SLICE_MAX || (blocks & (blocks - 1)) || (wanted - 1) % blocks)
        now.bytes = 0;
    link->feeding = now;
    return now.has_blocks || !now.bytes || get_blocks(link);
}

/* Fills slices as long as the peer frees them. */
static size_t fill(struct weft_link *link, struct shm_feed *feed)
{
    uint8_t *ring = link->ring.memory;
    struct shm_feeding *feeding = &link->feeding;
    uint64_t end = atomic_load_explicit(&feed->freed, memory_order_acquire) + SHM_FEED_BLOCKS;
    size_t slice_bytes = (size_t)feeding->slice_blocks * SHM_FEED_BLOCK, given = 0;
    while (feeding->done < feeding->bytes && given < GIVEN_BYTES) {
        uint64_t block = feeding->wanted - 1 + feeding->done / SHM_FEED_BLOCK;
        size_t left = feeding->bytes - feeding->done, bytes = left < slice_bytes ? left : slice_bytes;
        if (block + feeding->slice_blocks > end)
            break;
        memcpy(block_at(ring, block), feeding->source + feeding->done, bytes);
        atomic_store_explicit(mark_of(ring, block), block + 1, memory_order_release);
        feeding->done += bytes;
        given += bytes;
    }
    if (given)
        feeding->given_ns = coarse_ns();
    return given;
}

static int give(struct weft_link *link)
{
    struct shm_feed *feed = feed_in(link->ring.memory);
    struct shm_feeding *feeding = &link->feeding;
    uint64_t wanted = atomic_load_explicit(&feed->wanted, memory_order_acquire);
    if (!wanted || (wanted == feeding->wanted && feeding->done >= feeding->bytes))
        return 0;
    if (wanted != feeding->wanted && !take(link, feed, wanted))
        return 0;
    if (!shm_cell_covers(link->transport, feeding->cell, feeding->source, feeding->bytes))
        return 0;
    if (!feeding->has_blocks && !get_blocks(link))
        return 0;
    return fill(link, feed) > 0;
}

int shm_feed_give(struct weft_transport *transport)
{
    int given = 0;
    if (transport->params.help == WEFT_HELP_NEVER || transport->params.fed == WEFT_FED_NEVER)
        return 0;
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (link->exposures && atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_UP)
            given |= give(link);
    }
    return given;
}

int shm_feed_was_wanted(struct weft_link *link, size_t size)
{
    if (atomic_load_explicit(&link->state, memory_order_acquire) != SHM_LINK_UP) /* nor may there be a ring */
        return 0;
    const struct shm_feed *feed = feed_in(link->ring.memory);
    uint32_t wishes = atomic_load_explicit(&feed->wishes, memory_order_relaxed), seen = link->feeding.wishes;
    uint64_t bytes = atomic_load_explicit(&feed->bytes, memory_order_relaxed);
    link->feeding.wishes = wishes;
    return wishes != seen && size / 2 < bytes && bytes / 2 < size;
}

void shm_feed_end(struct weft_link *link)
{
    link->transport->fed_links -= link->feeding.has_blocks != 0;
    link->feeding.has_blocks = 0; /* the mapping's end gives it back */
}

/* --- the reader */

static uint32_t slice_of(size_t bytes)
{
    return bytes < SMALL_BYTES ? 1 : bytes < MIDDLE_BYTES ? 2 : SHM_FEED_SLICE_MAX;
}

/* Returns the number of the first block. */
static uint64_t ask(struct shm_channel *channel, const struct shm_token *token, uint64_t offset, size_t bytes,
                    int is_wish)
{
    struct shm_feed *feed = feed_in(channel->ring.memory);
    uint32_t blocks = slice_of(bytes), wishes = atomic_load_explicit(&feed->wishes, memory_order_relaxed);
    uint64_t first = (channel->fed_next + blocks - 1) / blocks * blocks;
    channel->fed_next = first + blocks_of(bytes);
    atomic_store_explicit(&feed->wanted, 0, memory_order_release);
    atomic_store_explicit(&feed->freed, first, memory_order_release);
    atomic_store_explicit(&feed->source, token->offset + offset, memory_order_release);
    atomic_store_explicit(&feed->bytes, bytes, memory_order_release);
    atomic_store_explicit(&feed->cell, token->cell, memory_order_release);
    atomic_store_explicit(&feed->slice_blocks, blocks, memory_order_release);
    atomic_store_explicit(&feed->wishes, wishes + (is_wish != 0), memory_order_release);
    atomic_store_explicit(&feed->wanted, first + 1, memory_order_release);
    return first;
}

/* Waits for a slice, and feeds others meanwhile: that lasts a little, so patience begins anew, but not for ever. 0: the owner has something
 * else to do. */
static int await(struct weft_transport *transport, const _Atomic uint64_t *mark, uint64_t block,
                 int64_t patience_ns)
{
    int64_t until_ns = 0;
    int gives = 0;
    for (uint32_t looks = 1; atomic_load_explicit(mark, memory_order_acquire) != block + 1; looks++) {
        if (transport->exposures && gives < GIVES_MAX && shm_feed_give(transport)) {
            gives++;
            until_ns = 0;
            continue;
        }
        weft_pause();
        if (looks % LOOKS)
            continue;
        int64_t now_ns = weft_clock_ns();
        if (!until_ns)
            until_ns = now_ns + patience_ns;
        else if (now_ns > until_ns)
            return 0;
    }
    return 1;
}

size_t shm_pull_fed(struct weft_link *link, const struct shm_token *token, uint64_t offset, void *destination,
                    size_t size, int is_wish)
{
    struct shm_channel *channel = shm_channel_of(link);
    if (!channel)
        return 0;
    uint8_t *ring = channel->ring.memory;
    struct shm_feed *feed = feed_in(ring);
    uint64_t block = ask(channel, token, offset, size, is_wish);
    uint32_t slice_blocks = slice_of(size);
    size_t done = 0, slice_bytes = (size_t)slice_blocks * SHM_FEED_BLOCK;
    while (done < size && await(link->transport, mark_of(ring, block), block, done ? STALL_NS : BEGIN_NS)) {
        size_t left = size - done, bytes = left < slice_bytes ? left : slice_bytes;
        memcpy((uint8_t *)destination + done, block_at(ring, block), bytes);
        done += bytes;
        block += slice_blocks;
        atomic_store_explicit(&feed->freed, block, memory_order_release);
    }
    if (done < size)
        atomic_store_explicit(&feed->wanted, 0, memory_order_release);
    return done;
}
