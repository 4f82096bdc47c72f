/* SPDX-License-Identifier: Apache-2.0 */
/* Knowing that everybody knows: deaths and departures (docs/bootstrap.md, section 8).
 *
 * A death is flooded. When the coordinator learns of one it sends the set of the dead through all survivors in a
 * wave; when that has come back, all of them know, and the coordinator floods that as AGREED. A rank without a lower
 * neighbour sends such a wave too, to find out whether the coordinator is there at all (reach.c). A goodbye is heard by
 * neighbours alone; the others hear of it, as LEFT, only when it matters: once a rank is dead or ranks agree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/boot/consensus/wave.h"

static unsigned char *dead_set(const struct weft_bootstrap *b)
{
    unsigned char *set = calloc(weft_boot_set_bytes(b->ranks), 1);
    for (int r = 0; set && r < b->ranks; r++) {
        if (weft_boot_is_dead(b, r))
            weft_boot_set_add(set, r);
    }
    return set;
}

static int all_agreed(const struct weft_bootstrap *b)
{
    for (int i = 0; i < b->death_count; i++) {
        if (!(b->noticed[b->deaths[i].rank] & WEFT_BOOT_AGREED_DEAD))
            return 0;
    }
    return 1;
}

void weft_boot_sync_begin(struct weft_bootstrap *b, int again)
{
    int leads = weft_boot_coordinator(b) == b->rank;
    if (all_agreed(b) && (leads || !weft_boot_agree_waits(b)))
        return;
    if (!leads && weft_boot_has_lower_neighbour(b))
        return;
    if (!again && weft_boot_wave_runs(b, WEFT_BOOT_SYNC, 0))
        return;
    unsigned char *set = dead_set(b);
    if (!set || weft_boot_wave_start(b, WEFT_BOOT_SYNC, 0, NULL, set) != WEFT_OK)
        weft_log(WEFT_LOG_ERROR, "no memory to make sure that all ranks know of a death");
    free(set);
}

void weft_boot_sync_learn(struct weft_bootstrap *b, const unsigned char *set, int from)
{
    char reason[64];
    snprintf(reason, sizeof reason, "rank %d says so", from);
    for (int r = 0; r < b->ranks; r++) {
        if (weft_boot_set_has(set, r) && !weft_boot_is_dead(b, r) && r != b->rank)
            weft_boot_died(b, r, reason);
    }
}

/* Everybody knows of these. */
static void agreed(struct weft_bootstrap *b, const unsigned char *set, const struct weft_boot_edge *from)
{
    int news = 0;
    for (int r = 0; r < b->ranks; r++) {
        if (!weft_boot_set_has(set, r) || b->noticed[r] & WEFT_BOOT_AGREED_DEAD)
            continue;
        b->noticed[r] |= WEFT_BOOT_AGREED_DEAD;
        news = 1;
    }
    if (!news)
        return;
    weft_boot_news(b, WEFT_BOOT_AGREED, b->rank, 0, NULL, set, from);
    pthread_cond_broadcast(&b->changed);
}

void weft_boot_sync_done(struct weft_bootstrap *b, const unsigned char *reached)
{
    if (!b->armed || b->closing || !weft_boot_reach_probed(b, reached))
        return;
    unsigned char *set = dead_set(b);
    if (set)
        agreed(b, set, NULL);
    free(set);
}

void weft_boot_agreed_take(struct weft_boot_edge *edge, const unsigned char *set)
{
    agreed(edge->owner, set, edge);
}

/* --- departures */

static void announce_left(struct weft_bootstrap *b, int rank, const struct weft_boot_edge *from)
{
    if (b->noticed[rank] & WEFT_BOOT_HAS_LEFT)
        return;
    b->noticed[rank] |= WEFT_BOOT_HAS_LEFT;
    weft_boot_news(b, WEFT_BOOT_LEFT, rank, 0, NULL, NULL, from);
    weft_boot_agree_due(b, WEFT_BOOT_BEGIN);
    pthread_cond_broadcast(&b->changed);
}

void weft_boot_agree_seen(struct weft_bootstrap *b)
{
    if (b->agree_seen)
        return;
    b->agree_seen = 1;
    for (int i = 0; i < b->edge_count; i++) {
        if (b->edges[i].heard_goodbye)
            announce_left(b, b->edges[i].rank, NULL);
    }
}

void weft_boot_goodbye_heard(struct weft_boot_edge *edge)
{
    if (edge->owner->agree_seen && !edge->owner->closing)
        announce_left(edge->owner, edge->rank, NULL);
    weft_boot_waves_lost(edge->owner, edge);
    if (edge->owner->agree_seen) /* this may have been the last way to a lower rank */
        weft_boot_agree_due(edge->owner, WEFT_BOOT_BEGIN);
}

void weft_boot_left_take(struct weft_boot_edge *edge, int rank)
{
    if (rank == edge->owner->rank)
        return;
    weft_boot_agree_seen(edge->owner);
    announce_left(edge->owner, rank, edge);
}

/* --- the calls */

int weft_bootstrap_lowest(struct weft_bootstrap *b)
{
    pthread_mutex_lock(&b->lock);
    weft_boot_agree_seen(b); /* goodbyes that only neighbours have heard count from here on */
    int lowest = weft_boot_coordinator(b);
    pthread_mutex_unlock(&b->lock);
    return lowest;
}

int weft_bootstrap_deaths(struct weft_bootstrap *b, struct weft_boot_death *deaths, int capacity, int *count,
                          int64_t deadline_ns)
{
    pthread_mutex_lock(&b->lock);
    while (!all_agreed(b) && !b->outcast && weft_clock_ns() < deadline_ns)
        weft_clock_wait(&b->changed, &b->lock, deadline_ns);
    int status = b->outcast ? weft_boot_report_outcast(b) : WEFT_OK;
    int copied = b->death_count < capacity ? b->death_count : capacity;
    if (status == WEFT_OK && copied > 0)
        memcpy(deaths, b->deaths, (size_t)copied * sizeof *deaths);
    if (status == WEFT_OK)
        *count = b->death_count;
    pthread_mutex_unlock(&b->lock);
    return status;
}
