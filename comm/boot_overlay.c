/* The overlay while the communicator lives: reading edges, deaths, revocations, goodbyes.
 *
 * docs/bootstrap.md, section 6. A notice is passed on the first time it is seen, to every edge but the one it
 * came from; `noticed` remembers, per rank and kind, that it was. That ends the flood after one frame per
 * edge and direction.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "comm/boot.h"
#include "comm/boot_net.h"

#define READS_PER_CALLBACK 64 /* then others get their turn; what is left keeps the descriptor readable */
#define GOODBYE_NS         INT64_C(1000000000)

enum { NOTICED_FAILED = 1, NOTICED_REVOKED = 2 };

int weft_boot_report_failure(struct weft_bootstrap *b)
{
    return weft_fail(b->failure_status, "%s", b->failure_text);
}

static void flood(struct weft_bootstrap *b, int type, const struct weft_boot_notice *notice,
                  const struct weft_boot_edge *except)
{
    struct weft_boot_writer writer = {0};
    weft_boot_notice_put(&writer, notice);
    struct weft_boot_bytes *body = writer.failed ? NULL : weft_boot_bytes_new(writer.data, writer.size);
    if (!body) {
        if (writer.failed)
            free(writer.data);
        weft_log(WEFT_LOG_ERROR, "no memory to pass on that rank %u failed", (unsigned)notice->rank);
        return;
    }
    for (int i = 0; i < b->edge_count; i++) {
        if (&b->edges[i] != except)
            weft_boot_edge_queue(&b->edges[i], type, body);
    }
    weft_boot_bytes_drop(body);
}

/* Takes in a failure from here or from a neighbour, once per rank and kind. */
static void notice_failure(struct weft_bootstrap *b, int type, const struct weft_boot_notice *notice,
                           const struct weft_boot_edge *from)
{
    int rank = (int)notice->rank;
    unsigned char bit = type == WEFT_BOOT_FAILED ? NOTICED_FAILED : NOTICED_REVOKED;
    if (b->noticed[rank] & bit)
        return;
    b->noticed[rank] |= bit;
    const struct weft_boot_member *member = &b->members[rank];
    if (type == WEFT_BOOT_FAILED && b->failure_status != WEFT_PEER_FAILED) {
        b->failure_status = WEFT_PEER_FAILED;
        snprintf(b->failure_text, sizeof b->failure_text, "rank %d on host '%s' (pid %u) died: %s", rank,
                 member->host, (unsigned)member->pid, notice->text);
    } else if (b->failure_status == WEFT_OK) {
        b->failure_status = WEFT_REVOKED;
        snprintf(b->failure_text, sizeof b->failure_text, "rank %d on host '%s' (pid %u) gave up: %s", rank,
                 member->host, (unsigned)member->pid, notice->text);
    }
    weft_log(WEFT_LOG_INFO, "rank %d: %s", b->rank, b->failure_text);
    if (type == WEFT_BOOT_FAILED || rank != b->rank)
        b->heard_failure = 1;
    __atomic_store_n(&b->failed, 1, __ATOMIC_RELEASE);
    flood(b, type, notice, from);
    pthread_cond_broadcast(&b->changed);
}

static void notice_own(struct weft_bootstrap *b, int type, int rank, const char *text)
{
    struct weft_boot_notice notice = {
        .rank = (uint32_t)rank, .pid = b->members[rank].pid, .reporter = (uint32_t)b->rank};
    snprintf(notice.host, sizeof notice.host, "%s", b->members[rank].host);
    snprintf(notice.text, sizeof notice.text, "%s", text);
    notice_failure(b, type, &notice, NULL);
}

void weft_boot_died(struct weft_bootstrap *b, int rank, const char *reason)
{
    notice_own(b, WEFT_BOOT_FAILED, rank, reason);
}

void weft_boot_revoke(struct weft_bootstrap *b, const char *reason)
{
    notice_own(b, WEFT_BOOT_REVOKED, b->rank, reason);
}

/* On the service thread only, where unwatch() does not wait. */
static void drop_edge(struct weft_boot_edge *edge)
{
    weft_service_unwatch(edge->owner->service, edge->fd);
    weft_fork_fd_close(edge->fd);
    edge->fd = -1;
    weft_boot_edge_discard(edge);
    weft_boot_reader_clear(&edge->reader);
    pthread_cond_broadcast(&edge->owner->changed);
}

static void lose_edge(struct weft_boot_edge *edge, const char *reason)
{
    struct weft_bootstrap *b = edge->owner;
    int expected = edge->heard_goodbye || b->closing;
    drop_edge(edge);
    if (!expected)
        weft_boot_died(b, edge->rank, reason);
}

static int take_notice(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_boot_notice notice;
    int status = weft_boot_notice_get(frame->body, frame->size, edge->owner->ranks, &notice);
    if (status == WEFT_OK)
        notice_failure(edge->owner, frame->type, &notice, edge);
    return status;
}

/* Takes over the body. */
static int take_frame(struct weft_boot_edge *edge, struct weft_boot_frame *frame)
{
    int status = WEFT_OK;
    switch (frame->type) {
    case WEFT_BOOT_GOODBYE:
        edge->heard_goodbye = 1;
        status = weft_boot_edge_queue(edge, WEFT_BOOT_GOODBYE, NULL);
        pthread_cond_broadcast(&edge->owner->changed);
        break;
    case WEFT_BOOT_FAILED:
    case WEFT_BOOT_REVOKED:
        status = take_notice(edge, frame);
        break;
    default:
        return weft_boot_gather_frame(edge->owner, edge, frame);
    }
    free(frame->body);
    return status;
}

static void read_edge(struct weft_boot_edge *edge)
{
    int status = 0, idle = 0;
    for (int i = 0; i < READS_PER_CALLBACK && !idle && !edge->heard_goodbye; i++) {
        status = weft_boot_receive(edge->fd, &edge->reader, &idle);
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

static void on_edge(void *arg, int fd)
{
    struct weft_boot_edge *edge = arg;
    struct weft_bootstrap *b = edge->owner;
    pthread_mutex_lock(&b->lock);
    b->active++;
    if (edge->fd == fd) {
        weft_boot_edge_flush(edge);
        read_edge(edge);
        /* The neighbour has said goodbye and so have we, as far as it listens: it ends here. */
        if (edge->fd >= 0 && edge->heard_goodbye && (edge->said_goodbye || edge->broken) && !edge->first)
            drop_edge(edge);
    }
    int tell = b->armed && b->heard_failure && !b->told;
    b->told |= tell;
    pthread_mutex_unlock(&b->lock);
    if (tell && b->on_failed)
        b->on_failed(b->on_failed_arg);
    pthread_mutex_lock(&b->lock);
    b->active--;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

int weft_boot_overlay_start(struct weft_bootstrap *b)
{
    int status = WEFT_OK;
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < b->edge_count && status == WEFT_OK; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        if (edge->fd < 0)
            continue;
        status = weft_service_watch(b->service, edge->fd, on_edge, edge);
        edge->watched = status == WEFT_OK;
        weft_boot_edge_flush(edge);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}

static int all_left(const struct weft_bootstrap *b)
{
    for (int i = 0; i < b->edge_count; i++) {
        const struct weft_boot_edge *edge = &b->edges[i];
        if (edge->fd >= 0 && edge->watched && (!edge->heard_goodbye || edge->first))
            return 0;
    }
    return 1;
}

static void wait_changed(struct weft_bootstrap *b, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_cond_timedwait(&b->changed, &b->lock, &until);
}

void weft_boot_overlay_stop(struct weft_bootstrap *b)
{
    int64_t until_ns = weft_clock_ns() + GOODBYE_NS;
    pthread_mutex_lock(&b->lock);
    b->closing = 1;
    for (int i = 0; i < b->edge_count; i++)
        weft_boot_edge_queue(&b->edges[i], WEFT_BOOT_GOODBYE, NULL);
    while (!all_left(b) && weft_clock_ns() < until_ns)
        wait_changed(b, until_ns);
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        int fd = edge->fd;
        edge->fd = -1; /* a callback that waits for the lock finds the edge gone */
        if (fd >= 0) {
            pthread_mutex_unlock(&b->lock);
            if (edge->watched)
                weft_service_unwatch(b->service, fd);
            weft_fork_fd_close(fd);
            pthread_mutex_lock(&b->lock);
        }
        weft_boot_edge_discard(edge);
        weft_boot_reader_clear(&edge->reader);
    }
    while (b->active > 0)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}
