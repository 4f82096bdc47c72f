/* SPDX-License-Identifier: Apache-2.0 */
/* Letters from rank to rank over the tree (docs/bootstrap.md, section 6).
 *
 * A TELL goes up until the receiver is below, and then down. Each hop checks that the edge it came over lies between
 * sender and receiver: then no letter goes in circles, and a rank can write letters in nobody's name but its own and
 * that of the ranks which it stands between. Letters may be lost; who misses an answer tells again. So a
 * hop that cannot pass one on at once, or has too many waiting, drops it, and a flood of letters delays nothing else.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "comm/boot.h"

#define WAITING_MAX 1024 /* at the receiver, for a callback that does not come along */
#define QUEUED_MAX  512  /* on an edge, behind a neighbour that does not read */

static void keep(struct weft_bootstrap *b, int from, const void *letter, size_t size)
{
    if (!b->on_told || b->letter_count >= WAITING_MAX)
        return;
    struct weft_boot_report *kept = malloc(sizeof *kept + size);
    if (!kept)
        return;
    *kept = (struct weft_boot_report){.rank = from, .size = size};
    if (size)
        memcpy(kept->data, letter, size);
    if (b->letters_last)
        b->letters_last->next = kept;
    else
        b->letters = kept;
    b->letters_last = kept;
    b->letter_count++;
}

struct weft_boot_report *weft_boot_letters_due(struct weft_bootstrap *b)
{
    struct weft_boot_report *first = b->letters;
    b->letters = b->letters_last = NULL;
    b->letter_count = 0;
    return first;
}

/* The edge of the tree that leads to a rank other than this one. */
static struct weft_boot_edge *edge_towards(struct weft_bootstrap *b, int rank)
{
    for (int i = 0; i < b->tree_count; i++) {
        if (b->edges[i].rank > b->rank && weft_boot_is_below(rank, b->edges[i].rank))
            return &b->edges[i];
    }
    return weft_boot_parent_edge(b);
}

/* Whether a rank lies behind this edge. */
static int lies_behind(const struct weft_bootstrap *b, const struct weft_boot_edge *edge, int rank)
{
    return edge->rank > b->rank ? weft_boot_is_below(rank, edge->rank) : !weft_boot_is_below(rank, b->rank);
}

/* Queues one on the way to its receiver. WEFT_AGAIN: it is lost. */
static int pass_on(struct weft_bootstrap *b, int to, int from, const void *letter, size_t size)
{
    struct weft_boot_edge *edge = edge_towards(b, to);
    if (!edge || !weft_boot_edge_takes(edge) || edge->letters >= QUEUED_MAX)
        return WEFT_AGAIN;
    struct weft_boot_writer writer = {0};
    weft_boot_put(&writer, (uint64_t)to, 4);
    weft_boot_put(&writer, (uint64_t)from, 4);
    weft_boot_put_bytes(&writer, letter, size);
    return weft_boot_edge_queue_writer(edge, WEFT_BOOT_TELL, &writer) == WEFT_OK ? WEFT_OK : WEFT_AGAIN;
}

int weft_boot_tell_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_bootstrap *b = edge->owner;
    int to, from;
    const unsigned char *letter;
    size_t size;
    int status = weft_boot_tell_get(frame->body, frame->size, b->ranks, &to, &from, &letter, &size);
    if (status != WEFT_OK)
        return status;
    if (!lies_behind(b, edge, from) || lies_behind(b, edge, to))
        return weft_fail(WEFT_PROTOCOL, "letter of rank %d to rank %d by way of rank %d", from, to,
                         edge->rank);
    if (to == b->rank)
        keep(b, from, letter, size);
    else
        pass_on(b, to, from, letter, size);
    return WEFT_OK;
}

int weft_bootstrap_tell(struct weft_bootstrap *b, int rank, const void *letter, size_t size)
{
    if (rank < 0 || rank >= b->ranks || size > WEFT_BOOTSTRAP_TELL_MAX)
        return weft_fail(WEFT_INVALID,
                         "letter of %zu bytes to rank %d: expected at most %d bytes, ranks 0 to %d", size,
                         rank, WEFT_BOOTSTRAP_TELL_MAX, b->ranks - 1);
    int status = WEFT_OK;
    pthread_mutex_lock(&b->lock);
    if (b->noticed[rank] & (WEFT_BOOT_IS_DEAD | WEFT_BOOT_HAS_LEFT)) {
        status = weft_fail(WEFT_PEER_FAILED, "rank %d on host '%s' %s", rank, b->members[rank].host,
                           weft_boot_is_dead(b, rank) ? "died" : "has left");
    } else if (rank == b->rank) {
        keep(b, rank, letter, size);
        weft_boot_kick(b);
    } else {
        status = pass_on(b, rank, b->rank, letter, size);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}
