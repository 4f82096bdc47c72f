/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way up the tree to rank 0's callback. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "comm/boot.h"

#define WAITING_MAX 4096 /* at rank 0, for a callback that does not come along */

/* Rank 0: keeps a record until the service thread calls back without the lock. */
static void keep(struct weft_bootstrap *b, int rank, const void *record, size_t size)
{
    if (!b->on_report || b->report_count >= WAITING_MAX)
        return;
    struct weft_boot_report *report = malloc(sizeof *report + size);
    if (!report) {
        weft_log(WEFT_LOG_ERROR, "no memory for a report of rank %d", rank);
        return;
    }
    *report = (struct weft_boot_report){.rank = rank, .size = size};
    if (size)
        memcpy(report->data, record, size);
    if (b->reports_last)
        b->reports_last->next = report;
    else
        b->reports = report;
    b->reports_last = report;
    b->report_count++;
}

int weft_boot_report_take(struct weft_bootstrap *b, const struct weft_boot_frame *frame)
{
    int rank;
    const unsigned char *record;
    size_t size;
    int status = weft_boot_report_get(frame->body, frame->size, b->ranks, &rank, &record, &size);
    if (status != WEFT_OK)
        return status;
    if (b->rank == 0) {
        keep(b, rank, record, size);
        return WEFT_OK;
    }
    struct weft_boot_writer writer = {0};
    weft_boot_put_bytes(&writer, frame->body, frame->size);
    weft_boot_edge_queue_writer(&b->edges[0], WEFT_BOOT_REPORT, &writer);
    return WEFT_OK; /* a record that is lost is no reason to give up an edge */
}

struct weft_boot_report *weft_boot_reports_due(struct weft_bootstrap *b)
{
    struct weft_boot_report *first = b->reports;
    b->reports = b->reports_last = NULL;
    b->report_count = 0;
    return first;
}

void weft_boot_reports_free(struct weft_boot_report *first)
{
    while (first) {
        struct weft_boot_report *next = first->next;
        free(first);
        first = next;
    }
}

void weft_bootstrap_report(struct weft_bootstrap *b, const void *record, size_t size)
{
    if (size > WEFT_BOOTSTRAP_REPORT_MAX || b->ranks == 1)
        return;
    pthread_mutex_lock(&b->lock);
    if (b->rank == 0) {
        keep(b, 0, record, size);
        weft_boot_kick(b);
    } else {
        struct weft_boot_writer writer = {0};
        weft_boot_put(&writer, (uint64_t)b->rank, 4);
        weft_boot_put_bytes(&writer, record, size);
        weft_boot_edge_queue_writer(&b->edges[0], WEFT_BOOT_REPORT, &writer);
    }
    pthread_mutex_unlock(&b->lock);
}
