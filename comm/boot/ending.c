/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that end, and ranks that leave while others stay (docs/bootstrap.md, section 6).
 *
 * ENDING is for neighbours: the last words of a program that fails. Its connections stay open until the system closes them, and only
 * then is it dead: so nobody hears of an end, and ends by it, before whoever has started the program can see whose end came first.
 * GONE is for everybody, like FAILED, but nothing has failed: who needs the rank that is gone sees to it.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/boot/boot.h"

#define ENDS_NS INT64_C(2000000000) /* what a program may take to end, once it has said so */
#define LOCK_NS INT64_C(100000000)

static int try_lock(struct weft_bootstrap *b)
{
    int64_t until_ns = weft_clock_ns() + LOCK_NS;
    while (pthread_mutex_trylock(&b->lock) != 0) {
        if (weft_clock_ns() >= until_ns)
            return 0;
        sched_yield();
    }
    return 1;
}

static void notice_put(const struct weft_bootstrap *b, int status, const char *text,
                       struct weft_boot_writer *writer)
{
    struct weft_boot_notice notice = {
        .rank = (uint32_t)b->rank, .reporter = (uint32_t)b->rank, .status = status};
    snprintf(notice.text, sizeof notice.text, "%s", text);
    weft_boot_notice_put(writer, &notice);
}

void weft_bootstrap_end(struct weft_bootstrap *b, const char *text)
{
    struct weft_boot_writer writer = {0};
    if (!try_lock(b))
        return;
    if (!b->outcast && !b->closing) {
        notice_put(b, WEFT_PEER_FAILED, text, &writer);
        weft_boot_flood(b, WEFT_BOOT_ENDING, &writer, NULL);
    }
    pthread_mutex_unlock(&b->lock);
}

int weft_boot_ending_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_bootstrap *b = edge->owner;
    struct weft_boot_notice notice;
    int status = weft_boot_notice_get(frame->body, frame->size, b->ranks, &notice);
    if (status == WEFT_OK && notice.rank != (uint32_t)edge->rank)
        status =
            weft_fail(WEFT_PROTOCOL, "rank %d says that rank %u ends", edge->rank, (unsigned)notice.rank);
    if (status != WEFT_OK || edge->words)
        return status;
    edge->words = strdup(notice.text);
    edge->words_ns = weft_clock_ns();
    weft_boot_kick(b);
    return WEFT_OK;
}

int64_t weft_boot_ending_look(struct weft_boot_edge *edge, int64_t now_ns)
{
    int64_t until_ns = edge->words_ns + ENDS_NS;
    if (now_ns < until_ns)
        return until_ns;
    weft_boot_died(edge->owner, edge->rank, edge->words);
    return WEFT_NEVER_NS;
}

/* Once for each rank. */
static void learn(struct weft_bootstrap *b, const struct weft_boot_notice *notice,
                  const struct weft_boot_edge *from)
{
    unsigned char *noticed = &b->noticed[notice->rank];
    if (b->outcast || *noticed & (WEFT_BOOT_IS_GONE | WEFT_BOOT_IS_DEAD))
        return;
    *noticed |= WEFT_BOOT_IS_GONE | WEFT_BOOT_HAS_LEFT;
    if (notice->status == WEFT_PEER_FAILED)
        *noticed |= WEFT_BOOT_HAS_EXITED;
    weft_log(WEFT_LOG_INFO, "rank %d: rank %u on host '%s' has left", b->rank, (unsigned)notice->rank,
             b->members[notice->rank].host);
    struct weft_boot_writer writer = {0};
    weft_boot_notice_put(&writer, notice);
    weft_boot_flood(b, WEFT_BOOT_GONE, &writer, from);
    if (b->agree_seen)
        weft_boot_agree_due(b, WEFT_BOOT_BEGIN);
    if (notice->rank == (uint32_t)b->rank)
        return;
    atomic_fetch_add(&b->gone, 1);
    b->gone_due = 1;
    weft_boot_kick(b);
    pthread_cond_broadcast(&b->changed);
}

void weft_bootstrap_leave(struct weft_bootstrap *b, int exits)
{
    if (!try_lock(b))
        return;
    struct weft_boot_notice notice = {.rank = (uint32_t)b->rank,
                                      .reporter = (uint32_t)b->rank,
                                      .status = exits ? WEFT_PEER_FAILED : WEFT_REVOKED};
    learn(b, &notice, NULL);
    pthread_mutex_unlock(&b->lock);
}

int weft_boot_gone_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_boot_notice notice;
    int status = weft_boot_notice_get(frame->body, frame->size, edge->owner->ranks, &notice);
    if (status == WEFT_OK &&
        notice.rank != (uint32_t)edge->owner->rank) /* its own comes back to the one that leaves */
        learn(edge->owner, &notice, edge);
    return status;
}

int weft_bootstrap_gone(const struct weft_bootstrap *b)
{
    return atomic_load_explicit(&b->gone, memory_order_acquire);
}

static void word(const struct weft_bootstrap *b, int rank, char *text, size_t capacity)
{
    const struct weft_boot_member *member = &b->members[rank];
    snprintf(text, capacity, "rank %d on host '%s' (pid %u) has left: %s", rank, member->host,
             (unsigned)member->pid,
             b->noticed[rank] & WEFT_BOOT_HAS_EXITED ? "its program has ended"
                                                     : "it has ended the communicator");
}

int weft_bootstrap_is_gone(struct weft_bootstrap *b, int rank, char *text, size_t capacity)
{
    if (!weft_bootstrap_gone(b))
        return 0;
    pthread_mutex_lock(&b->lock);
    int is_gone = (b->noticed[rank] & WEFT_BOOT_IS_GONE) != 0;
    if (is_gone && text)
        word(b, rank, text, capacity);
    pthread_mutex_unlock(&b->lock);
    return is_gone;
}

int weft_boot_report_gone(const struct weft_bootstrap *b, const char *what)
{
    char text[WEFT_BOOT_TEXT_MAX];
    int rank = 0;
    while (rank < b->ranks - 1 && !(b->noticed[rank] & WEFT_BOOT_IS_GONE))
        rank++;
    word(b, rank, text, sizeof text);
    return weft_fail(WEFT_PEER_FAILED, "%s: %s", what, text);
}
