/* SPDX-License-Identifier: Apache-2.0 */
/* Who may speak for the survivors when not all of them can be reached (docs/bootstrap.md, section 10).
 *
 * Deaths and departures can cut the overlay into parts that know nothing of each other. A part goes on without the
 * rest only if it holds more than half of those that it knows neither dead nor gone, or half and the lowest of them:
 * two parts cannot both. The others find out that they are cut off, and say so at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include "comm/boot/consensus/wave.h"

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

void weft_boot_cut_off(struct weft_bootstrap *b, const unsigned char *set, const struct weft_boot_edge *from)
{
    struct share share = share_of(b, set);
    char text[512], list[256] = "others";
    if (b->outcast || b->closing)
        return;
    unsigned char *away = calloc(weft_boot_set_bytes(b->ranks), 1);
    for (int r = 0; away && r < b->ranks; r++) {
        if (counts(b, r) && !weft_boot_set_has(set, r))
            weft_boot_set_add(away, r);
    }
    if (away)
        weft_boot_set_text(away, b->ranks, list, sizeof list);
    free(away);
    snprintf(
        text, sizeof text,
        "this rank (%d) is cut off from %s: %d of %d survivors can be reached, which is too few to go on "
        "without the others",
        b->rank, list, share.have, share.all);
    weft_boot_news(b, WEFT_BOOT_CUT, b->rank, 0, NULL, set, from);
    weft_boot_cast_out(b, WEFT_PEER_FAILED, text);
}

int weft_boot_reach(struct weft_bootstrap *b, const unsigned char *set)
{
    struct share share = share_of(b, set);
    if (share.have == share.all)
        return 1;
    if (may_go_on(&share))
        declare_unreached(b, set);
    else
        weft_boot_cut_off(b, set, NULL);
    return 0;
}

int weft_boot_reach_probed(struct weft_bootstrap *b, const unsigned char *set)
{
    struct share share = share_of(b, set);
    int lowest = weft_boot_coordinator(b);
    if (lowest ==
        b->rank) { /* whom an agreement cannot reach it will declare dead; until then nothing hangs on it */
        if (!may_go_on(&share))
            weft_boot_cut_off(b, set, NULL);
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
