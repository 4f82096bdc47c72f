/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of ordinary memory feeds a peer that reads it.
 *
 * Between processors that share a cache two copies through it are faster than one by the kernel, which pays for every page and keeps one processor
 * busy alone. So a reader may ask the owner for the bytes. The owner, if it polls, copies them into blocks behind its ring,
 * slice by slice, and marks each; the reader copies out what is marked, and says what is free again. Both copy at once. Whether that is faster than the kernel is
 * the reader's choice (pull.c), which nobody has to agree to.
 *
 * Between processors that share no cache a line has to be fetched from the other one's. There the owner's copies go past the caches where the reader wants that, and
 * the reader finds them in memory.
 *
 * Nobody waits for the other for long. An owner that does not begin at once computes, sleeps or is stopped, and one that does not go on has been put aside: the
 * reader takes back what it has asked for, and reads the rest by the kernel. A reader that does not go on leaves an owner with full blocks, which
 * looks again with each poll(). While a reader waits it feeds others, so two that read from each other both get what they want.
 *
 * Blocks have numbers, and those of what is asked for never come twice. The reader says from which number on it wants to be fed, each time beyond all numbers before, and a mark is the number
 * of the block where the slice begins. So what an owner still writes that was stopped in its copy, long after the reader has gone on without it, is never taken for anything: it
 * has another number, and the owner itself, which writes alone here, comes to what is wanted next only after that.
 *
 * The owner copies nothing but memory that it exposes, and looks again before each few slices: what it has taken back it does not touch. The reader looks at
 * the token's cell afterwards, as after any read (cells.c).
 *
 * A message of up to 128 KB is fed ahead, before anybody has asked, where the peer has used what was fed ahead last, or has asked since. All of the message must be
 * final (expose_whole()). Its blocks are the same ones, with numbers of the owner's, which are in its token. A peer that asks for something else first gives up what is fed ahead: the
 * owner clears its marks before it fills those blocks. Its token also says what had been asked for last, so that such a peer does not wait for them, and whether it
 * goes past the caches: a peer that wants it otherwise asks. These numbers come again some day, and all marks are cleared then. No peer waits for a
 * mark of the time before: nothing else is fed ahead while the memory is exposed that was; what was given up since says another number that was asked for; and what
 * was taken back is refused by its cell.
 *
 * Blocks get memory when a peer first wants something, for so many links of an instance at a time, and an idle link's go to one that needs them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/pause.h"
#include "devmem/reduce.h"
#include "transport/shm/shm_private.h"

#define GIVEN_BYTES   SHM_FEED_BYTES /* at a time, or a reader would wait while its owner is elsewhere */
#define FED_LINKS     16u            /* that have memory for blocks: 8 MiB */
#define IDLE_NS       INT64_C(1000000000)
#define BEGIN_NS      4000  /* about what the kernel's copy of 32 KiB takes */
#define STALL_NS      20000 /* longer than an owner needs for a slice of its own, or for another peer's */
#define AHEAD_EACH    (32u << 10)  /* at a time, before it is looked at again what is asked for */
#define AHEAD_BYTES   (128u << 10) /* of a message that is fed before anybody has asked */
#define AHEAD_NUMBERS (SHM_TOKEN_NUMBER / 2 + 1)
#define LOOKS         16          /* between two looks at the clock */
#define LINE_NS       8           /* at least, of a line that comes from elsewhere, beside the clock */
#define GIVES_MAX     2           /* while a slice is waited for: 1 MiB of one other peer's */
#define SMALL_BYTES   (32u << 10) /* a slice of one block, so that the reader begins early; */
#define MIDDLE_BYTES  (96u << 10) /* of two; more are marked less often */

_Static_assert(AHEAD_NUMBERS + AHEAD_BYTES / SHM_FEED_BLOCK < SHM_TOKEN_NUMBER &&
                   AHEAD_NUMBERS % SHM_FEED_SLICE_MAX == 0,
               "tokens have room, and slices begin at 0");
_Static_assert(AHEAD_BYTES <= SHM_FEED_BYTES, "nobody frees blocks of what is fed ahead while it is filled");

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

/* Past the caches each slice waits until its stores have arrived, so there are no short ones. */
static uint32_t slice_of(size_t bytes, int is_past)
{
    if (bytes < SMALL_BYTES && !is_past)
        return 1;
    return bytes < MIDDLE_BYTES ? 2 : SHM_FEED_SLICE_MAX;
}

/* --- the owner */

/* Whether the peer may still look at what it has asked for. */
static int is_asked_in_use(const struct weft_link *link)
{
    const struct shm_feed *feed = feed_in(link->ring.memory);
    const struct shm_fed_piece *asked = &link->feeding.asked;
    uint64_t wanted = atomic_load_explicit(&feed->wanted, memory_order_acquire);
    return wanted &&
           (wanted != asked->number || asked->done < asked->bytes ||
            atomic_load_explicit(&feed->freed, memory_order_acquire) < wanted - 1 + blocks_of(asked->bytes));
}

/* Or at what it has not asked for: as long as the memory is exposed. Where its cell is used again that may seem so for longer. */
static int is_ahead_in_use(const struct weft_link *link)
{
    const struct shm_fed_piece *ahead = &link->feeding.ahead;
    return ahead->number && shm_cell_covers(link->transport, ahead->cell, ahead->source, ahead->bytes);
}

/* Or at any block of the link's. */
static int is_in_use(const struct weft_link *link)
{
    return atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_UP &&
           (is_ahead_in_use(link) || is_asked_in_use(link));
}

static void give_back(struct weft_link *link)
{
    if (!link->feeding.has_blocks ||
        madvise(block_at(link->ring.memory, 0), SHM_FEED_BYTES, MADV_REMOVE) != 0)
        return;
    link->feeding.has_blocks = 0;
    link->feeding.ahead.number = 0;
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

/* Now, rather than with a signal where there is none: a kernel before 5.14 cannot. Where there are only some they go back, and nobody asks again for some
 * time. */
static int get_blocks(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    uint8_t *blocks = block_at(link->ring.memory, 0);
    if (transport->fed_links == FED_LINKS)
        make_room(transport, weft_clock_about_ns());
    if (transport->fed_links == FED_LINKS ||
        (transport->denied_ns && weft_clock_about_ns() - transport->denied_ns < IDLE_NS))
        return 0;
    if (madvise(blocks, SHM_FEED_BYTES, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
        madvise(blocks, SHM_FEED_BYTES, MADV_REMOVE);
        transport->denied_ns = weft_clock_about_ns();
        return 0;
    }
    transport->fed_links++;
    link->feeding.has_blocks = 1;
    return 1;
}

/* Whether the peer has taken what was fed ahead, if anything was. */
static int is_ahead_wanted(const struct weft_link *link)
{
    const struct shm_feed *feed = feed_in(link->ring.memory);
    const struct shm_fed_piece *ahead = &link->feeding.ahead;
    return !ahead->number || atomic_load_explicit(&feed->ahead_used, memory_order_relaxed) == ahead->number;
}

/* No mark of these blocks is there any more. */
static void clear_marks(struct weft_link *link, uint64_t first, uint64_t blocks)
{
    for (uint64_t block = first; block < first + blocks; block++)
        atomic_store_explicit(mark_of(link->ring.memory, block), 0, memory_order_relaxed);
}

/* Reads what the peer wants, which it may be changing: 0 where it is. */
static int take(struct weft_link *link, const struct shm_feed *feed, uint64_t wanted)
{
    struct shm_fed_piece now = {
        .number = wanted,
        .source = (const uint8_t *)(uintptr_t)atomic_load_explicit(&feed->source, memory_order_relaxed),
        .bytes = atomic_load_explicit(&feed->bytes, memory_order_relaxed),
        .cell = atomic_load_explicit(&feed->cell, memory_order_relaxed),
        .slice_blocks = atomic_load_explicit(&feed->slice_blocks, memory_order_relaxed),
        .is_past = atomic_load_explicit(&feed->is_past, memory_order_relaxed) != 0};
    weft_fence_loads();
    if (atomic_load_explicit(&feed->wanted, memory_order_relaxed) != wanted)
        return 0;
    uint32_t blocks = now.slice_blocks; /* it may be anything */
    if (!blocks || blocks > SHM_FEED_SLICE_MAX || (blocks & (blocks - 1)) || (wanted - 1) % blocks)
        now.bytes = 0;
    link->feeding.asked = now;
    link->feeding.is_ahead_good = is_ahead_wanted(link);
    if (link->feeding.ahead.number) /* what is asked for comes to the same blocks */
        clear_marks(link, link->feeding.ahead.number - 1, blocks_of(link->feeding.ahead.bytes));
    link->feeding.ahead.number = 0;
    return 1;
}

/* Fills slices up to block number `end`, and so many bytes. bits: of the marks. */
static size_t fill(struct weft_link *link, struct shm_fed_piece *piece, uint64_t end, size_t most,
                   uint64_t bits)
{
    uint8_t *ring = link->ring.memory;
    size_t slice_bytes = (size_t)piece->slice_blocks * SHM_FEED_BLOCK, given = 0;
    if (!shm_cell_covers(link->transport, piece->cell, piece->source, piece->bytes))
        return 0;
    while (piece->done < piece->bytes && given < most) {
        uint64_t block = piece->number - 1 + piece->done / SHM_FEED_BLOCK;
        size_t left = piece->bytes - piece->done, bytes = left < slice_bytes ? left : slice_bytes;
        if (block + piece->slice_blocks > end)
            break;
        if (piece->is_past)
            weft_copy_streaming(block_at(ring, block), piece->source + piece->done, bytes);
        else
            memcpy(block_at(ring, block), piece->source + piece->done, bytes);
        atomic_store_explicit(mark_of(ring, block), (block + 1) | bits, memory_order_release);
        piece->done += bytes;
        given += bytes;
    }
    if (given)
        link->feeding.given_ns = weft_clock_about_ns();
    return given;
}

static int give(struct weft_link *link)
{
    struct shm_feed *feed = feed_in(link->ring.memory);
    struct shm_fed_piece *asked = &link->feeding.asked, *ahead = &link->feeding.ahead;
    uint64_t wanted = atomic_load_explicit(&feed->wanted, memory_order_acquire);
    if (wanted && wanted != asked->number && !take(link, feed, wanted))
        return 0;
    if (wanted && asked->done < asked->bytes) {
        uint64_t end = atomic_load_explicit(&feed->freed, memory_order_acquire) + SHM_FEED_BLOCKS;
        return (link->feeding.has_blocks || get_blocks(link)) && fill(link, asked, end, GIVEN_BYTES, 0) > 0;
    }
    return ahead->number && ahead->done < ahead->bytes && link->feeding.has_blocks &&
           fill(link, ahead, UINT64_MAX, AHEAD_EACH, SHM_FED_AHEAD) > 0;
}

void shm_feed_exposed(struct weft_link *link)
{
    atomic_store_explicit(&feed_in(link->ring.memory)->exposed, ++link->feeding.exposed,
                          memory_order_relaxed);
}

int shm_feed_stages_past(const struct weft_link *link)
{
    int setting = link->transport->params.fed;
    return setting == WEFT_FED_PAST ||
           (setting != WEFT_FED_ALWAYS &&
            atomic_load_explicit(&feed_in(link->ring.memory)->is_past_better, memory_order_relaxed) != 0);
}

int shm_feed_is_past(const struct weft_link *link)
{
    return atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_UP &&
           atomic_load_explicit(&feed_in(link->ring.memory)->is_past, memory_order_relaxed) != 0;
}

uint64_t shm_feed_ahead(struct weft_link *link, const void *memory, size_t size, uint32_t cell)
{
    struct shm_feeding *feeding = &link->feeding;
    struct shm_fed_piece *ahead = &feeding->ahead;
    if (!feeding->is_ahead_good || !feeding->has_blocks || cell == SHM_CELL_SHARED ||
        size < SHM_FED_BYTES_MIN || size > AHEAD_BYTES || is_asked_in_use(link) ||
        link->transport->fed_links == FED_LINKS) /* others may need these blocks */
        return 0;
    if (ahead->number) {
        if (ahead->cell != cell && is_ahead_in_use(link))
            return 0;
        feeding->is_ahead_good = is_ahead_wanted(link);
        ahead->number = 0;
        if (!feeding->is_ahead_good)
            return 0;
    }
    int is_past = link->transport->params.fed == WEFT_FED_AUTO ? shm_feed_is_past(link)
                                                               : link->transport->params.fed == WEFT_FED_PAST;
    uint32_t blocks = slice_of(size, is_past);
    uint64_t first = (feeding->ahead_next + blocks - 1) / blocks * blocks;
    if (first >= AHEAD_NUMBERS) { /* numbers come again, and marks that were made with them are still there */
        first = 0;
        clear_marks(link, 0, SHM_FEED_BLOCKS);
    }
    feeding->ahead_next = first + blocks_of(size);
    *ahead = (struct shm_fed_piece){.number = first + 1,
                                    .source = memory,
                                    .bytes = size,
                                    .cell = cell,
                                    .slice_blocks = blocks,
                                    .is_past = is_past};
    return (first + 1) << SHM_TOKEN_AHEAD | (feeding->asked.number & SHM_TOKEN_NUMBER) << SHM_TOKEN_ASKED |
           (is_past ? SHM_TOKEN_PAST : 0);
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

int shm_feed_look(struct weft_link *link, struct shm_reads *reads)
{
    struct shm_channel *channel = shm_channel_of(link);
    if (!channel)
        return 0;
    const struct shm_feed *feed = feed_in(channel->ring.memory);
    const _Atomic uint64_t *line = &feed->exposed;
    /* This finds the page, so the time is not that of finding it, where the caches have been full of other things. `exposed` is so far from
     * `is_past_better` that it does not come along. */
    atomic_load_explicit(&feed->is_past_better, memory_order_acquire);
    int64_t begun_ns = weft_clock_ns();
    uint64_t exposed = atomic_load_explicit(line, memory_order_acquire);
    int64_t come_ns = weft_clock_ns();
    uint64_t again = atomic_load_explicit(line, memory_order_acquire);
    int64_t clock_ns = weft_clock_ns() - come_ns, line_ns = come_ns - begun_ns;
    int is_new = exposed != reads->exposed && exposed == again && line_ns >= clock_ns + LINE_NS;
    reads->exposed = again;
    return is_new ? weft_distance_observe(&reads->distance, line_ns) : 0; /* else it was here already */
}

void shm_feed_say_past(struct weft_link *link, int is_past_better)
{
    struct shm_channel *channel = shm_channel_of(link);
    if (!channel)
        return;
    _Atomic uint32_t *said = &feed_in(channel->ring.memory)->is_past_better;
    if (atomic_load_explicit(said, memory_order_relaxed) != (uint32_t)is_past_better)
        atomic_store_explicit(said, (uint32_t)is_past_better, memory_order_relaxed);
}

/* Returns the number of the first block. */
static uint64_t ask(struct shm_channel *channel, const struct shm_token *token, uint64_t offset, size_t bytes,
                    const struct shm_fed_how *how)
{
    struct shm_feed *feed = feed_in(channel->ring.memory);
    uint32_t blocks = slice_of(bytes, how->is_past),
             wishes = atomic_load_explicit(&feed->wishes, memory_order_relaxed);
    uint64_t first = (channel->fed_next + blocks - 1) / blocks * blocks;
    channel->fed_next = first + blocks_of(bytes);
    channel->asked = first + 1;
    atomic_store_explicit(&feed->wanted, 0, memory_order_release);
    atomic_store_explicit(&feed->freed, first, memory_order_release);
    atomic_store_explicit(&feed->source, token->offset + offset, memory_order_release);
    atomic_store_explicit(&feed->bytes, bytes, memory_order_release);
    atomic_store_explicit(&feed->cell, token->cell, memory_order_release);
    atomic_store_explicit(&feed->slice_blocks, blocks, memory_order_release);
    atomic_store_explicit(&feed->is_past, how->is_past, memory_order_release);
    atomic_store_explicit(&feed->wishes, wishes + how->is_wish, memory_order_release);
    atomic_store_explicit(&feed->wanted, first + 1, memory_order_release);
    return first;
}

/* Waits for a slice, and feeds others meanwhile: that lasts a little, so patience begins anew, but not for ever. 0: the owner has something
 * else to do. */
static int await(struct weft_transport *transport, const _Atomic uint64_t *mark, uint64_t filled,
                 int64_t patience_ns)
{
    int64_t until_ns = 0;
    int gives = 0;
    for (uint32_t looks = 1; atomic_load_explicit(mark, memory_order_acquire) != filled; looks++) {
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

/* What is read, and how far that is. */
struct reading {
    uint8_t *destination;
    size_t size, done;
    uint32_t flags; /* WEFT_PULL_* */
};

/* Copies out slices from block `block` on. bits: of their marks. */
static void copy_out(struct weft_transport *transport, uint8_t *ring, uint64_t block, uint64_t bits,
                     int is_past, struct reading *reading)
{
    struct shm_feed *feed = feed_in(ring);
    size_t first = reading->done;
    uint32_t slice_blocks = slice_of(reading->size - first, is_past);
    size_t slice_bytes = (size_t)slice_blocks * SHM_FEED_BLOCK;
    while (reading->done < reading->size && await(transport, mark_of(ring, block), (block + 1) | bits,
                                                  reading->done > first ? STALL_NS : BEGIN_NS)) {
        size_t left = reading->size - reading->done, bytes = left < slice_bytes ? left : slice_bytes;
        if (reading->flags & WEFT_PULL_STREAMING)
            weft_copy_streaming(reading->destination + reading->done, block_at(ring, block), bytes);
        else
            memcpy(reading->destination + reading->done, block_at(ring, block), bytes);
        reading->done += bytes;
        block += slice_blocks;
        if (!bits)
            atomic_store_explicit(&feed->freed, block, memory_order_release);
    }
}

size_t shm_pull_fed(struct weft_link *link, const struct shm_token *token, uint64_t offset, void *destination,
                    size_t size, const struct shm_fed_how *how, uint32_t flags)
{
    struct shm_channel *channel = shm_channel_of(link);
    if (!channel)
        return 0;
    uint8_t *ring = channel->ring.memory;
    struct shm_feed *feed = feed_in(ring);
    uint64_t ahead = token->segment >> SHM_TOKEN_AHEAD & SHM_TOKEN_NUMBER,
             asked = token->segment >> SHM_TOKEN_ASKED;
    struct reading reading = {.destination = destination, .size = size, .flags = flags};
    int is_past = (token->segment & SHM_TOKEN_PAST) != 0;
    /* Who has asked since would wait for marks that the owner has cleared. */
    if (ahead && size == token->size && asked == (channel->asked & SHM_TOKEN_NUMBER) &&
        is_past == (int)how->is_past && (ahead - 1) % slice_of(size, is_past) == 0) {
        if (how->is_wish)
            atomic_store_explicit(&feed->wishes,
                                  atomic_load_explicit(&feed->wishes, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
        atomic_store_explicit(&feed->bytes, size, memory_order_relaxed);
        atomic_store_explicit(&feed->ahead_used, ahead, memory_order_relaxed);
        copy_out(link->transport, ring, ahead - 1, SHM_FED_AHEAD, is_past, &reading);
        if (!reading.done) { /* who asks it would wait as long once more */
            atomic_store_explicit(&feed->ahead_used, 0, memory_order_relaxed);
            return 0;
        }
    }
    if (reading.done == size)
        return size;
    uint64_t block = ask(channel, token, offset + reading.done, size - reading.done, how);
    copy_out(link->transport, ring, block, 0, how->is_past, &reading);
    if (reading.done < size)
        atomic_store_explicit(&feed->wanted, 0, memory_order_release);
    return reading.done;
}
