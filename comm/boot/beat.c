/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats, and the overlay's timer (docs/bootstrap.md, section 7).
 *
 * An edge on which nothing was sent for a quarter of the heartbeat gets a HEARTBEAT. A neighbour from which
 * nothing came for the whole heartbeat is dead. Silence is counted from tick to tick, and never more than was
 * planned between the two: time in which this process did not run (stopped, starved, a virtual machine that was
 * paused) is nobody else's silence. Before the verdict the socket is read empty, since what the neighbour said
 * may be waiting there.
 */
#include <stdio.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "comm/boot/boot.h"

#define BEATS       4 /* sent per heartbeat */
#define TICK_NS_MIN INT64_C(1000000)

static void set_timer(struct weft_bootstrap *b, int64_t in_ns)
{
    if (b->is_timed)
        weft_service_timer_set(b->service, &b->timer, weft_clock_ns() + in_ns);
}

void weft_boot_kick(struct weft_bootstrap *b)
{
    set_timer(b, 0);
}

void weft_boot_agree_due(struct weft_bootstrap *b, int due)
{
    if (due > b->agree_due)
        b->agree_due = due;
    weft_boot_kick(b);
}

static int is_live(const struct weft_boot_edge *edge)
{
    return edge->link.fd >= 0 && edge->watched && !edge->heard_goodbye;
}

/* Sends what is due. Returns when the next is. */
static int64_t send_beat(struct weft_boot_edge *edge, int64_t now_ns)
{
    int64_t period_ns = edge->owner->heartbeat_ns / BEATS;
    if (weft_boot_edge_pending(
            edge)) /* bytes are on their way as it is, as fast as the neighbour takes them */
        return now_ns + period_ns;
    if (now_ns - edge->sent_ns >= period_ns) {
        weft_boot_edge_queue(edge, WEFT_BOOT_HEARTBEAT, NULL);
        edge->sent_ns = now_ns;
    }
    return edge->sent_ns + period_ns;
}

void weft_boot_beat(struct weft_bootstrap *b)
{
    int64_t now_ns = weft_clock_ns();
    for (int i = 0; i < b->edge_count; i++) {
        if (is_live(&b->edges[i]))
            send_beat(&b->edges[i], now_ns);
    }
}

/* Returns when the neighbour's time is over, unless something comes. */
static int64_t judge(struct weft_boot_edge *edge, int64_t now_ns, int64_t counted_ns)
{
    struct weft_bootstrap *b = edge->owner;
    if (edge->heard_ns > b->ticked_ns) {
        int64_t since_ns = now_ns - edge->heard_ns;
        edge->silent_ns = since_ns < counted_ns ? since_ns : counted_ns;
    } else {
        edge->silent_ns += counted_ns;
    }
    if (edge->silent_ns >= b->heartbeat_ns) {
        int64_t heard_ns = edge->heard_ns;
        weft_boot_edge_read(edge);
        if (!is_live(edge))
            return WEFT_NEVER_NS;
        if (edge->heard_ns == heard_ns) {
            char reason[64];
            snprintf(reason, sizeof reason, "silent for %.1f s (WEFT_HEARTBEAT_MS)",
                     (double)edge->silent_ns / 1e9);
            weft_boot_died(b, edge->rank, reason);
            return WEFT_NEVER_NS;
        }
        edge->silent_ns = 0;
    }
    return now_ns + b->heartbeat_ns - edge->silent_ns;
}

static void tick(struct weft_bootstrap *b)
{
    int64_t now_ns = weft_clock_ns();
    int64_t counted_ns = now_ns - b->ticked_ns;
    int64_t next_ns = now_ns + b->heartbeat_ns / BEATS;
    if (counted_ns > b->planned_ns)
        counted_ns = b->planned_ns;
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        if (!is_live(edge) || edge->doomed)
            continue;
        int64_t due_ns = send_beat(edge, now_ns);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
        if (!b->armed || b->closing)
            continue;
        due_ns = edge->words ? weft_boot_ending_look(edge, now_ns) : judge(edge, now_ns, counted_ns);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    b->ticked_ns = now_ns;
    b->planned_ns = next_ns - now_ns > TICK_NS_MIN ? next_ns - now_ns : TICK_NS_MIN;
    set_timer(b, b->planned_ns);
}

static void on_timer(void *arg)
{
    struct weft_bootstrap *b = arg;
    weft_boot_enter(b);
    tick(b);
    weft_boot_leave(b);
}

void weft_boot_beat_start(struct weft_bootstrap *b)
{
    b->timer = (struct weft_service_timer){.expired = on_timer, .arg = b};
    b->is_timed = 1;
    b->ticked_ns = weft_clock_ns();
    b->planned_ns = b->heartbeat_ns / BEATS;
    weft_boot_kick(b);
}
