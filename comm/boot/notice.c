/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths and revocations: what is known here, and announced to everybody (docs/bootstrap.md, section 6).
 *
 * A notice is passed on the first time it is seen, to every edge but the one it came from; `noticed` remembers,
 * per rank and kind, that it was. That ends the flood after one frame per edge and direction. The dead hear
 * as well, since they may only have been stopped, and their edges close behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "base/fd.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/boot/boot.h"

int weft_boot_report_failure(struct weft_bootstrap *b)
{
    return weft_fail(b->failure_status, "%s", b->failure_text);
}

void weft_boot_flood(struct weft_bootstrap *b, int type, struct weft_boot_writer *writer,
                     const struct weft_boot_edge *except)
{
    struct weft_boot_bytes *body = weft_boot_bytes_of(writer);
    int status = body ? WEFT_OK : WEFT_NOMEM;
    for (int i = 0; i < b->edge_count && status == WEFT_OK; i++) {
        int deaf =
            type == WEFT_BOOT_NEWS && b->edges[i].doomed; /* what survivors agree on is not for the dead */
        if (&b->edges[i] != except && !deaf)
            status = weft_boot_edge_queue(&b->edges[i], type, body);
    }
    weft_boot_bytes_drop(body);
    if (status != WEFT_OK)
        weft_boot_drop_out(b, "to pass on what it has learnt");
}

/* Keeps the list in order of rank. Without memory the death counts all the same, but is not listed. */
static void list_death(struct weft_bootstrap *b, const struct weft_boot_notice *notice)
{
    if (b->death_count == b->death_capacity) {
        int capacity = b->death_capacity ? 2 * b->death_capacity : 4;
        struct weft_boot_death *grown = realloc(b->deaths, (size_t)capacity * sizeof *grown);
        if (!grown) {
            weft_log(WEFT_LOG_ERROR, "no memory to list the death of rank %u", (unsigned)notice->rank);
            return;
        }
        b->deaths = grown;
        b->death_capacity = capacity;
    }
    int at = b->death_count++;
    for (; at > 0 && b->deaths[at - 1].rank > (int)notice->rank; at--)
        b->deaths[at] = b->deaths[at - 1];
    struct weft_boot_death *death = &b->deaths[at];
    *death = (struct weft_boot_death){.rank = (int)notice->rank, .time_ns = notice->time_ns};
    snprintf(death->host, sizeof death->host, "%s", b->members[notice->rank].host);
    snprintf(death->reason, sizeof death->reason, "%.*s", (int)sizeof death->reason - 1, notice->text);
}

static void doom(struct weft_bootstrap *b, int rank)
{
    for (int i = 0; i < b->edge_count; i++) {
        if (rank >= 0 && b->edges[i].rank != rank)
            continue;
        b->edges[i].doomed = 1;
        b->doomed = 1;
        b->edges[i].loss_due = b->loss_due = 1;
    }
}

/* A plain revocation says least: whatever comes later explains it. Otherwise the first reason stays. */
static int outweighs(int status, int known)
{
    return known == WEFT_OK || (known == WEFT_REVOKED && status != WEFT_REVOKED);
}

/* What it says behind "rank 3 gave up", which its own errors begin with; all of it where it does not. */
static const char *without_its_name(const struct weft_boot_notice *notice, const char *did)
{
    char begin[64];
    const size_t length = (size_t)snprintf(begin, sizeof begin, "rank %u %s", (unsigned)notice->rank, did);
    return strncmp(notice->text, begin, length) == 0 ? notice->text + length : notice->text;
}

static void word_failure(struct weft_bootstrap *b, int type, const struct weft_boot_notice *notice)
{
    const struct weft_boot_member *member = &b->members[notice->rank];
    const char *did = type == WEFT_BOOT_FAILED ? "died" : "gave up";
    const char *text = without_its_name(notice, did);
    if (!outweighs(notice->status, b->failure_status))
        return;
    b->failure_status = notice->status;
    if (notice->status != WEFT_REVOKED && type == WEFT_BOOT_REVOKED)
        snprintf(b->failure_text, sizeof b->failure_text, "%s", notice->text);
    else
        snprintf(b->failure_text, sizeof b->failure_text, "rank %u on host '%s' (pid %u) %s%s%s",
                 (unsigned)notice->rank, member->host, (unsigned)member->pid, did,
                 text == notice->text ? ": " : "", text);
}

static void failure_known(struct weft_bootstrap *b)
{
    __atomic_store_n(&b->failed, 1, __ATOMIC_RELEASE);
    weft_boot_kick(b);
    pthread_cond_broadcast(&b->changed);
}

static void fail(struct weft_bootstrap *b, int status, const char *text)
{
    b->failure_status = status;
    snprintf(b->failure_text, sizeof b->failure_text, "%s", text);
}

int weft_boot_cast_out(struct weft_bootstrap *b, int status, const char *text)
{
    if (b->outcast || b->closing)
        return 0;
    b->outcast = status;
    snprintf(b->outcast_text, sizeof b->outcast_text, "%s", text);
    if (b->failure_status == WEFT_OK)
        fail(b, status, text);
    weft_log(WEFT_LOG_WARN, "%s", text);
    doom(b, -1);
    b->heard_failure = 1;
    failure_known(b);
    return 1;
}

void weft_boot_drop_out(struct weft_bootstrap *b, const char *what)
{
    char text[256];
    snprintf(text, sizeof text, "this rank (%d) on host '%s' has no memory %s, and has left the others",
             b->rank, b->members[b->rank].host, what);
    if (weft_boot_cast_out(b, WEFT_NOMEM, text))
        fail(b, WEFT_NOMEM, text);
}

static void heard_of_own_death(struct weft_bootstrap *b, const struct weft_boot_notice *notice)
{
    char text[sizeof b->failure_text];
    snprintf(text, sizeof text, "this rank (%d) on host '%s' was declared dead by rank %u: %s", b->rank,
             b->members[b->rank].host, (unsigned)notice->reporter, notice->text);
    if (weft_boot_cast_out(b, WEFT_PEER_FAILED, text))
        fail(b, WEFT_PEER_FAILED, text);
}

int weft_boot_report_outcast(struct weft_bootstrap *b)
{
    return weft_fail(b->outcast, "%s", b->outcast_text);
}

/* Each abort is news, whatever its rank has said before: what it is to end has begun since. */
static void count_abort(struct weft_bootstrap *b, const struct weft_boot_notice *notice)
{
    b->aborts_of[notice->rank] = notice->aborts;
    b->aborts++;
    snprintf(b->abort_text, sizeof b->abort_text, "rank %u on host '%s' (pid %u): %s", (unsigned)notice->rank,
             b->members[notice->rank].host, (unsigned)b->members[notice->rank].pid, notice->text);
}

/* Takes in a failure from here or from a neighbour, once per rank and kind, or per abort. */
static void learn(struct weft_bootstrap *b, int type, const struct weft_boot_notice *notice,
                  const struct weft_boot_edge *from)
{
    int rank = (int)notice->rank;
    unsigned char bit = type == WEFT_BOOT_FAILED         ? WEFT_BOOT_IS_DEAD
                        : notice->status == WEFT_REVOKED ? WEFT_BOOT_GAVE_UP
                                                         : WEFT_BOOT_GAVE_REASON;
    int aborts = type == WEFT_BOOT_REVOKED && (int32_t)(notice->aborts - b->aborts_of[rank]) > 0;
    if (b->outcast || (b->noticed[rank] & bit && !aborts))
        return;
    b->noticed[rank] |= bit;
    if (aborts)
        count_abort(b, notice);
    if (type == WEFT_BOOT_FAILED && rank == b->rank) {
        heard_of_own_death(b, notice);
        return;
    }
    word_failure(b, type, notice);
    weft_log(WEFT_LOG_INFO, "rank %d: %s", b->rank, b->failure_text);
    struct weft_boot_writer writer = {0};
    weft_boot_notice_put(&writer, notice);
    weft_boot_flood(b, type, &writer, from);
    if (type == WEFT_BOOT_FAILED) {
        list_death(b, notice);
        doom(b, rank);
        b->death_due = 1;
        weft_boot_agree_due(b, WEFT_BOOT_BEGIN_AGAIN);
    }
    if (rank != b->rank || bit != WEFT_BOOT_GAVE_UP)
        b->heard_failure = 1;
    failure_known(b);
}

static void learn_own(struct weft_bootstrap *b, int type, int rank, int status, uint32_t aborts,
                      const char *text)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct weft_boot_notice notice = {.rank = (uint32_t)rank,
                                      .reporter = (uint32_t)b->rank,
                                      .status = status,
                                      .aborts = aborts,
                                      .time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
    snprintf(notice.text, sizeof notice.text, "%.*s", WEFT_BOOT_TEXT_MAX, text);
    learn(b, type, &notice, NULL);
}

void weft_boot_died(struct weft_bootstrap *b, int rank, const char *reason)
{
    learn_own(b, WEFT_BOOT_FAILED, rank, WEFT_PEER_FAILED, 0, reason);
}

void weft_boot_revoke(struct weft_bootstrap *b, int status, const char *reason)
{
    learn_own(b, WEFT_BOOT_REVOKED, b->rank, status, 0, reason);
}

void weft_boot_abort(struct weft_bootstrap *b, const char *reason)
{
    learn_own(b, WEFT_BOOT_REVOKED, b->rank, WEFT_REVOKED, b->aborts_of[b->rank] + 1, reason);
}

int weft_boot_notice_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_boot_notice notice;
    int status = weft_boot_notice_get(frame->body, frame->size, edge->owner->ranks, &notice);
    if (status != WEFT_OK)
        return status;
    if (frame->type == WEFT_BOOT_FAILED)
        notice.status = WEFT_PEER_FAILED;
    else if (notice.status < WEFT_INTERNAL) /* of a later version */
        notice.status = WEFT_REVOKED;
    learn(edge->owner, frame->type, &notice, edge);
    return WEFT_OK;
}

int weft_bootstrap_is_dead(struct weft_bootstrap *b, int rank)
{
    pthread_mutex_lock(&b->lock);
    int dead = weft_boot_is_dead(b, rank) != 0;
    pthread_mutex_unlock(&b->lock);
    return dead;
}

/* What the dead had sent is read away first: closing with unread bytes would answer with a reset. */
static void drain(int fd)
{
    char bytes[4096];
    for (int i = 0; i < 16 && weft_fd_recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0; i++)
        ;
}

void weft_boot_doomed_close(struct weft_bootstrap *b)
{
    b->doomed = 0;
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        if (!edge->doomed || edge->link.fd < 0)
            continue;
        weft_boot_edge_flush(edge);
        drain(edge->link.fd);
        weft_boot_edge_drop(edge);
    }
}
