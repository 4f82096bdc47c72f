/* SPDX-License-Identifier: Apache-2.0 */
/* Who may speak for the survivors when not all of them can be reached (docs/bootstrap.md, section 10).
 *
 * Deaths and departures can cut the overlay into parts that know nothing of each other. A part goes on without the
 * rest only if it holds more than half of those that it knows neither dead nor gone, or half and the lowest of them:
 * two parts cannot both. The others find out that they are cut off, and say so at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/log.h"
#include "comm/boot_wave.h"

static int counts(const struct weft_bootstrap *b, int rank)
{
    return !(b->noticed[rank] & (WEFT_BOOT_IS_DEAD | WEFT_BOOT_HAS_LEFT));
}

/* Of those that count: how many there are, and how many of them are in a set. */
struct share {
    int have, all;
    int has_lowest;
};

static struct share share_of(const struct weft_bootstrap *b, const unsigned char *set)
{
    struct share share = {0, 0, 0};
    for (int r = 0; r < b->ranks; r++) {
        if (!counts(b, r))
            continue;
        share.has_lowest |= share.all == 0 && weft_boot_set_has(set, r);
        share.all++;
        share.have += weft_boot_set_has(set, r);
    }
    return share;
}

static int may_go_on(const struct share *share)
{
    return 2 * share->have > share->all || (2 * share->have == share->all && share->has_lowest);
}

static void declare_unreached(struct weft_bootstrap *b, const unsigned char *set)
{
    for (int r = 0; r < b->ranks; r++) {
        if (!weft_boot_set_has(set, r) && counts(b, r))
            weft_boot_died(b, r, "unreachable: it left, or all ranks on the way to it are dead");
    }
}

static void word_cut(struct weft_bootstrap *b, const unsigned char *set)
{
    struct share share = share_of(b, set);
    struct weft_boot_late away = {0};
    char text[256] = "others";
    unsigned char *present = calloc((size_t)b->ranks, 1);
    for (int r = 0; present && r < b->ranks; r++)
        present[r] = weft_boot_set_has(set, r) || !counts(b, r);
    if (present) {
        weft_boot_late_collect(present, b->ranks, &away);
        weft_boot_late_text(&away, text, sizeof text);
    }
    free(present);
    snprintf(
        b->cut_text, sizeof b->cut_text,
        "this rank (%d) is cut off from %s: %d of %d survivors can be reached, which is too few to go on "
        "without the others",
        b->rank, text, share.have, share.all);
}

/* set: the part that this rank belongs to. It stays so: no edge is ever made again, and losses within the part only
 * lessen its share. */
static void cut_off(struct weft_bootstrap *b, const unsigned char *set, const struct weft_boot_edge *from)
{
    struct weft_boot_writer writer = {0};
    if (b->cut || b->outcast || b->closing)
        return;
    b->cut = 1;
    word_cut(b, set);
    weft_log(WEFT_LOG_INFO, "%s", b->cut_text);
    weft_boot_put_bytes(&writer, set, weft_boot_set_bytes(b->ranks));
    weft_boot_tell_all(b, WEFT_BOOT_CUT, &writer, from);
    pthread_cond_broadcast(&b->changed);
}

int weft_boot_cut_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    const unsigned char *set;
    int status = weft_boot_set_get(frame->body, frame->size, edge->owner->ranks, &set);
    if (status == WEFT_OK)
        cut_off(edge->owner, set, edge);
    return status;
}

int weft_boot_report_cut(struct weft_bootstrap *b)
{
    return weft_fail(WEFT_PEER_FAILED, "%s", b->cut_text);
}

int weft_boot_reach(struct weft_bootstrap *b, const unsigned char *set)
{
    struct share share = share_of(b, set);
    if (share.have == share.all)
        return 1;
    if (may_go_on(&share))
        declare_unreached(b, set);
    else
        cut_off(b, set, NULL);
    return 0;
}

int weft_boot_reach_probed(struct weft_bootstrap *b, const unsigned char *set)
{
    struct share share = share_of(b, set);
    int lowest = weft_boot_coordinator(b);
    if (lowest ==
        b->rank) { /* whom an agreement cannot reach it will declare dead; until then nothing hangs on it */
        if (!may_go_on(&share))
            cut_off(b, set, NULL);
        return may_go_on(&share);
    }
    for (int r = 0; r < b->rank; r++) {
        if (weft_boot_set_has(set, r)) /* the lowest of this part is another, which looks for itself */
            return 0;
    }
    weft_boot_reach(b, set);
    return 0;
}

int weft_boot_has_lower_neighbour(const struct weft_bootstrap *b)
{
    for (int i = 0; i < b->edge_count; i++) {
        if (b->edges[i].rank < b->rank && weft_boot_edge_open(&b->edges[i]))
            return 1;
    }
    return 0;
}
