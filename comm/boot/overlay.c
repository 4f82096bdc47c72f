/* SPDX-License-Identifier: Apache-2.0 */
/* The overlay while the communicator lives: reading edges, and leaving (docs/bootstrap.md, section 6). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "comm/boot/boot.h"
#include "base/net/socket.h"
#include "comm/boot/net.h"

/* Then others get their turn; what is left keeps the descriptor readable. */
#define READS_PER_CALLBACK 64
#define READS_OF_LARGE     4
#define GOODBYE_NS         INT64_C(1000000000)

/* On the service thread only, where unwatch() does not wait. */
void weft_boot_edge_drop(struct weft_boot_edge *edge)
{
    weft_service_unwatch(edge->owner->service, edge->link.fd);
    weft_boot_link_close(&edge->link);
    edge->watched = edge->wants_output = 0;
    weft_boot_edge_discard(edge);
    edge->loss_due = edge->owner->loss_due = 1;
    pthread_cond_broadcast(&edge->owner->changed);
}

static void lose_edge(struct weft_boot_edge *edge, const char *reason)
{
    struct weft_bootstrap *b = edge->owner;
    int has_left = edge->heard_goodbye || b->noticed[edge->rank] & WEFT_BOOT_IS_GONE;
    int expected = (has_left && !edge->words) || b->closing;
    weft_boot_edge_drop(edge);
    if (!expected)
        weft_boot_died(b, edge->rank, edge->words ? edge->words : reason);
}

static int take_frame(struct weft_boot_edge *edge, struct weft_boot_frame *frame)
{
    int status = WEFT_OK;
    switch (frame->type) {
    case WEFT_BOOT_GOODBYE:
        edge->heard_goodbye = 1;
        edge->owner->consensus->take(edge, frame);
        status = weft_boot_edge_queue(edge, WEFT_BOOT_GOODBYE, NULL);
        pthread_cond_broadcast(&edge->owner->changed);
        break;
    case WEFT_BOOT_FAILED:
    case WEFT_BOOT_REVOKED:
        status = weft_boot_notice_take(edge, frame);
        break;
    case WEFT_BOOT_ENDING:
        status = weft_boot_ending_take(edge, frame);
        break;
    case WEFT_BOOT_GONE:
        status = weft_boot_gone_take(edge, frame);
        break;
    case WEFT_BOOT_HEARTBEAT: /* that it came is all it says */
        break;
    case WEFT_BOOT_OOB:
        status = weft_boot_oob_take(edge, frame);
        break;
    case WEFT_BOOT_WAVE:
    case WEFT_BOOT_ECHO:
    case WEFT_BOOT_NEWS:
        status = edge->owner->consensus->take(edge, frame);
        break;
    default:
        status = weft_boot_gather_frame(edge->owner, edge, frame);
    }
    if (frame->body)
        weft_crypto_wipe(frame->body, frame->size); /* a secret, perhaps */
    free(frame->body);
    return status;
}

void weft_boot_edge_read(struct weft_boot_edge *edge)
{
    int status = 0, idle = 0;
    for (int i = 0; i < READS_PER_CALLBACK && !idle && !edge->heard_goodbye;
         i += edge->link.reader.frame.size < WEFT_BOOT_PIECE_MAX ? 1 : READS_PER_CALLBACK / READS_OF_LARGE) {
        status = weft_boot_receive(&edge->link, &idle);
        if (status >= 0 && !idle)
            edge->heard_ns = weft_clock_ns();
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&edge->link.reader, &frame);
            status = take_frame(edge, &frame);
        }
        if (status < 0) {
            char reason[WEFT_BOOT_TEXT_MAX];
            snprintf(reason, sizeof reason, "%s", weft_error_detail());
            lose_edge(edge, reason);
            return;
        }
    }
}

void weft_boot_enter(struct weft_bootstrap *b)
{
    pthread_mutex_lock(&b->lock);
    b->active++;
}

void weft_boot_leave(struct weft_bootstrap *b)
{
    b->consensus->run(b);
    if (b->doomed)
        weft_boot_doomed_close(b);
    int announces = b->armed && b->heard_failure && !b->reported;
    b->reported |= announces;
    int wakes = b->armed && b->gone_due;
    b->gone_due &= !b->armed;
    struct weft_boot_oob *oobs = b->armed ? weft_boot_oobs_due(b) : NULL;
    pthread_mutex_unlock(&b->lock);
    for (const struct weft_boot_oob *each = oobs; each; each = each->next)
        b->on_oob(b->on_oob_arg, each->rank, each->channel, each->data, each->size);
    weft_boot_oobs_free(oobs);
    if ((announces || wakes) && b->on_failed)
        b->on_failed(b->on_failed_arg);
    pthread_mutex_lock(&b->lock);
    b->active--;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void on_edge(void *arg, int fd)
{
    struct weft_boot_edge *edge = arg;
    weft_boot_enter(edge->owner);
    if (edge->link.fd == fd) {
        weft_boot_beat(edge->owner); /* with much to read and write it is long until the timer's turn */
        weft_boot_edge_flush(edge);
        weft_boot_edge_read(edge);
        /* The neighbour has said goodbye and so have we, as far as it listens: it ends here. */
        if (edge->link.fd >= 0 && edge->heard_goodbye && (edge->said_goodbye || edge->broken) &&
            !weft_boot_edge_pending(edge))
            lose_edge(edge, "");
    }
    weft_boot_leave(edge->owner);
}

int weft_boot_edges_watch(struct weft_bootstrap *b)
{
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        if (edge->link.fd < 0 || edge->watched)
            continue;
        int status = weft_service_watch(b->service, edge->link.fd, on_edge, edge);
        if (status != WEFT_OK)
            return status;
        edge->watched = 1;
        edge->heard_ns = edge->sent_ns = weft_clock_ns();
        weft_boot_edge_flush(edge);
    }
    return WEFT_OK;
}

int weft_boot_overlay_start(struct weft_bootstrap *b)
{
    pthread_mutex_lock(&b->lock);
    int status = weft_boot_edges_watch(b);
    if (status == WEFT_OK)
        weft_boot_beat_start(b);
    pthread_mutex_unlock(&b->lock);
    return status;
}

static int all_left(const struct weft_bootstrap *b)
{
    for (int i = 0; i < b->edge_count; i++) {
        const struct weft_boot_edge *edge = &b->edges[i];
        if (edge->link.fd >= 0 && edge->watched && (!edge->heard_goodbye || weft_boot_edge_pending(edge)))
            return 0;
    }
    return 1;
}

/* A callback that waits for the lock finds it gone. */
static void close_watched(struct weft_bootstrap *b, int *place)
{
    int fd = *place;
    *place = -1;
    if (fd < 0)
        return;
    pthread_mutex_unlock(&b->lock);
    weft_service_unwatch(b->service, fd);
    weft_fd_close(fd);
    pthread_mutex_lock(&b->lock);
}

static void end_timer(struct weft_bootstrap *b)
{
    if (!b->is_timed)
        return;
    b->is_timed = 0;
    pthread_mutex_unlock(&b->lock);
    weft_service_timer_end(b->service, &b->timer);
    pthread_mutex_lock(&b->lock);
}

void weft_boot_overlay_stop(struct weft_bootstrap *b)
{
    int64_t until_ns = weft_clock_ns() + GOODBYE_NS;
    pthread_mutex_lock(&b->lock);
    b->closing = 1;
    weft_boot_edges_watch(b); /* of an open that failed: its neighbours hear a goodbye, not a death */
    for (int i = 0; i < b->edge_count; i++)
        weft_boot_edge_queue(&b->edges[i], WEFT_BOOT_GOODBYE, NULL);
    while (!all_left(b) && weft_clock_ns() < until_ns)
        weft_clock_wait(&b->changed, &b->lock, until_ns);
    end_timer(b);
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        close_watched(b, &edge->link.fd);
        weft_boot_edge_discard(edge);
        weft_boot_link_close(&edge->link);
    }
    while (b->active > 0)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}
