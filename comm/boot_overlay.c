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
#include "comm/boot_wave.h"
#include "comm/boot_net.h"

/* Then others get their turn; what is left keeps the descriptor readable. */
#define READS_PER_CALLBACK 64
#define READS_OF_LARGE     4
#define GOODBYE_NS         INT64_C(1000000000)

/* On the service thread only, where unwatch() does not wait. */
void weft_boot_edge_drop(struct weft_boot_edge *edge)
{
    weft_service_unwatch(edge->owner->service, edge->fd);
    weft_fd_close(edge->fd);
    edge->fd = -1;
    edge->watched = edge->wants_output = 0;
    weft_boot_edge_discard(edge);
    weft_boot_reader_clear(&edge->reader);
    weft_boot_waves_lost(edge->owner, edge);
    pthread_cond_broadcast(&edge->owner->changed);
}

static void lose_edge(struct weft_boot_edge *edge, const char *reason)
{
    struct weft_bootstrap *b = edge->owner;
    int expected = edge->heard_goodbye || b->closing;
    weft_boot_edge_drop(edge);
    if (!expected)
        weft_boot_died(b, edge->rank, reason);
}

/* Takes over the body. */
static int take_frame(struct weft_boot_edge *edge, struct weft_boot_frame *frame)
{
    int status = WEFT_OK;
    switch (frame->type) {
    case WEFT_BOOT_GOODBYE:
        edge->heard_goodbye = 1;
        weft_boot_goodbye_heard(edge);
        status = weft_boot_edge_queue(edge, WEFT_BOOT_GOODBYE, NULL);
        pthread_cond_broadcast(&edge->owner->changed);
        break;
    case WEFT_BOOT_FAILED:
    case WEFT_BOOT_REVOKED:
        status = weft_boot_notice_take(edge, frame);
        break;
    case WEFT_BOOT_HEARTBEAT: /* that it came is all it says */
        break;
    case WEFT_BOOT_REPORT:
        status = weft_boot_report_take(edge->owner, frame);
        break;
    case WEFT_BOOT_TELL:
        status = weft_boot_tell_take(edge, frame);
        break;
    case WEFT_BOOT_WAVE:
        status = weft_boot_wave_take(edge, frame);
        break;
    case WEFT_BOOT_ECHO:
        status = weft_boot_echo_take(edge, frame);
        break;
    case WEFT_BOOT_DECIDED:
        status = weft_boot_decided_take(edge, frame);
        break;
    case WEFT_BOOT_AGREED:
        status = weft_boot_agreed_take(edge, frame);
        break;
    case WEFT_BOOT_LEFT:
        status = weft_boot_left_take(edge, frame);
        break;
    case WEFT_BOOT_CUT:
        status = weft_boot_cut_take(edge, frame);
        break;
    default:
        return weft_boot_gather_frame(edge->owner, edge, frame);
    }
    if (frame->body)
        weft_crypto_wipe(frame->body, frame->size); /* a secret, perhaps; never long */
    free(frame->body);
    return status;
}

static void note_arrival(struct weft_boot_edge *edge)
{
    int64_t now_ns = weft_clock_ns();
    if (now_ns - edge->heard_ns > edge->unheard_ns_max)
        edge->unheard_ns_max = now_ns - edge->heard_ns;
    edge->heard_ns = now_ns;
}

void weft_boot_edge_read(struct weft_boot_edge *edge)
{
    int status = 0, idle = 0;
    for (int i = 0; i < READS_PER_CALLBACK && !idle && !edge->heard_goodbye;
         i += edge->reader.frame.size < WEFT_BOOT_PIECE_MAX ? 1 : READS_PER_CALLBACK / READS_OF_LARGE) {
        status = weft_boot_receive(edge->fd, &edge->reader, &idle);
        if (status >= 0 && !idle)
            note_arrival(edge);
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&edge->reader, &frame);
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
    weft_boot_agree_run(b);
    if (b->doomed)
        weft_boot_doomed_close(b);
    int tell = b->armed && b->heard_failure && !b->told;
    b->told |= tell;
    struct weft_boot_report *reports = b->armed ? weft_boot_reports_due(b) : NULL;
    struct weft_boot_report *letters = b->armed ? weft_boot_letters_due(b) : NULL;
    pthread_mutex_unlock(&b->lock);
    for (const struct weft_boot_report *each = reports; each; each = each->next)
        b->on_report(b->on_report_arg, each->rank, each->data, each->size);
    for (const struct weft_boot_report *each = letters; each; each = each->next)
        b->on_told(b->on_told_arg, each->rank, each->data, each->size);
    weft_boot_reports_free(reports);
    weft_boot_reports_free(letters);
    if (tell && b->on_failed)
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
    if (edge->fd == fd) {
        weft_boot_beat(edge->owner); /* with much to read and write it is long until the timer's turn */
        weft_boot_edge_flush(edge);
        weft_boot_edge_read(edge);
        /* The neighbour has said goodbye and so have we, as far as it listens: it ends here. */
        if (edge->fd >= 0 && edge->heard_goodbye && (edge->said_goodbye || edge->broken) &&
            !weft_boot_edge_pending(edge))
            weft_boot_edge_drop(edge);
    }
    weft_boot_leave(edge->owner);
}

int weft_boot_edges_watch(struct weft_bootstrap *b)
{
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        if (edge->fd < 0 || edge->watched)
            continue;
        int status = weft_service_watch(b->service, edge->fd, on_edge, edge);
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
        status = weft_boot_beat_start(b);
    pthread_mutex_unlock(&b->lock);
    return status;
}

static int all_left(const struct weft_bootstrap *b)
{
    for (int i = 0; i < b->edge_count; i++) {
        const struct weft_boot_edge *edge = &b->edges[i];
        if (edge->fd >= 0 && edge->watched && (!edge->heard_goodbye || weft_boot_edge_pending(edge)))
            return 0;
    }
    return 1;
}

static void wait_changed(struct weft_bootstrap *b, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_cond_timedwait(&b->changed, &b->lock, &until);
}

static void stop_timer(struct weft_bootstrap *b)
{
    int fd = b->timer_fd;
    b->timer_fd = -1;
    if (fd < 0)
        return;
    pthread_mutex_unlock(&b->lock);
    weft_service_unwatch(b->service, fd);
    weft_fd_close(fd);
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
        wait_changed(b, until_ns);
    stop_timer(b);
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        int fd = edge->fd;
        edge->fd = -1; /* a callback that waits for the lock finds the edge gone */
        if (fd >= 0) {
            pthread_mutex_unlock(&b->lock);
            if (edge->watched)
                weft_service_unwatch(b->service, fd);
            weft_fd_close(fd);
            pthread_mutex_lock(&b->lock);
        }
        weft_boot_edge_discard(edge);
        weft_boot_reader_clear(&edge->reader);
    }
    while (b->active > 0)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}
