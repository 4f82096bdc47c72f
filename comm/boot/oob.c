/* SPDX-License-Identifier: Apache-2.0 */
/* Out-of-band messages over the tree (docs/bootstrap.md, section 6).
 *
 * One goes up until the receiver is below, and then down. Each hop checks that the edge it came over lies between
 * sender and receiver: then none goes in circles, and a rank can send in nobody's name but its own and
 * that of the ranks which it stands between. They may be lost; who misses an answer sends again. So a
 * hop that cannot pass one on at once, or has too many waiting, drops it, and a flood of them delays nothing else.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "comm/boot/boot.h"

#define WAITING_MAX 4096 /* at the receiver, for a callback that does not come along */
#define QUEUED_MAX  4096 /* on an edge, behind a neighbour that does not read */

static void keep(struct weft_bootstrap *b, const struct weft_boot_oob_body *body)
{
    if (!b->on_oob || b->oob_count >= WAITING_MAX)
        return;
    struct weft_boot_oob *kept = malloc(sizeof *kept + body->size);
    if (!kept)
        return;
    *kept = (struct weft_boot_oob){.rank = body->from, .channel = body->channel, .size = body->size};
    if (body->size)
        memcpy(kept->data, body->bytes, body->size);
    if (b->oobs_last)
        b->oobs_last->next = kept;
    else
        b->oobs = kept;
    b->oobs_last = kept;
    b->oob_count++;
}

struct weft_boot_oob *weft_boot_oobs_due(struct weft_bootstrap *b)
{
    struct weft_boot_oob *first = b->oobs;
    b->oobs = b->oobs_last = NULL;
    b->oob_count = 0;
    return first;
}

void weft_boot_oobs_free(struct weft_boot_oob *first)
{
    while (first) {
        struct weft_boot_oob *next = first->next;
        free(first);
        first = next;
    }
}

/* The edge of the tree that leads to a rank other than this one. */
static struct weft_boot_edge *edge_towards(struct weft_bootstrap *b, int rank)
{
    for (int i = 0; i < b->tree_count; i++) {
        if (b->edges[i].rank > b->rank && weft_boot_is_below(rank, b->edges[i].rank))
            return &b->edges[i];
    }
    return b->rank == 0 ? NULL : &b->edges[0];
}

/* Whether a rank lies behind this edge. */
static int lies_behind(const struct weft_bootstrap *b, const struct weft_boot_edge *edge, int rank)
{
    return edge->rank > b->rank ? weft_boot_is_below(rank, edge->rank) : !weft_boot_is_below(rank, b->rank);
}

/* Queues one on the way to its receiver. WEFT_AGAIN: it is lost. */
static int pass_on(struct weft_bootstrap *b, const struct weft_boot_oob_body *body)
{
    struct weft_boot_edge *edge = edge_towards(b, body->to);
    if (!edge || !weft_boot_edge_takes(edge) || edge->oobs >= QUEUED_MAX)
        return WEFT_AGAIN;
    struct weft_boot_writer writer = {0};
    weft_boot_oob_put(&writer, body);
    return weft_boot_edge_queue_writer(edge, WEFT_BOOT_OOB, &writer) == WEFT_OK ? WEFT_OK : WEFT_AGAIN;
}

int weft_boot_oob_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_bootstrap *b = edge->owner;
    struct weft_boot_oob_body body;
    int status = weft_boot_oob_get(frame->body, frame->size, b->ranks, &body);
    if (status != WEFT_OK)
        return status;
    if (!lies_behind(b, edge, body.from) || lies_behind(b, edge, body.to))
        return weft_fail(WEFT_PROTOCOL, "out-of-band message of rank %d to rank %d by way of rank %d",
                         body.from, body.to, edge->rank);
    if (body.to == b->rank)
        keep(b, &body);
    else
        pass_on(b, &body);
    return WEFT_OK;
}

int weft_bootstrap_send_oob(struct weft_bootstrap *b, int rank, enum weft_oob_channel channel,
                            const void *bytes, size_t size)
{
    const struct weft_boot_oob_body body = {
        .to = rank, .from = b->rank, .channel = channel, .bytes = bytes, .size = size};
    if (rank < 0 || rank >= b->ranks || size > WEFT_BOOTSTRAP_OOB_MAX)
        return weft_fail(
            WEFT_INVALID,
            "out-of-band message of %zu bytes to rank %d: expected at most %d bytes, ranks 0 to %d", size,
            rank, WEFT_BOOTSTRAP_OOB_MAX, b->ranks - 1);
    int status = WEFT_OK;
    pthread_mutex_lock(&b->lock);
    if (b->noticed[rank] & (WEFT_BOOT_IS_DEAD | WEFT_BOOT_HAS_LEFT)) {
        status = weft_fail(WEFT_PEER_FAILED, "rank %d on host '%s' %s", rank, b->members[rank].host,
                           weft_boot_is_dead(b, rank) ? "died" : "has left");
    } else if (rank == b->rank) {
        keep(b, &body);
        weft_boot_kick(b);
    } else {
        status = pass_on(b, &body);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}
