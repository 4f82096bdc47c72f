/* SPDX-License-Identifier: Apache-2.0 */
/* What the consensus does for the overlay: takes its frames, and, at the end of each of the service thread's callbacks,
 * takes in the losses and deaths that were noted, and begins what is due. */
#include "comm/boot/consensus/wave.h"

static int take_news(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_bootstrap *b = edge->owner;
    struct weft_boot_wave_head head;
    struct weft_boot_value *value;
    const unsigned char *set;
    int status = weft_boot_wave_get(frame->type, frame->body, frame->size, b->ranks, &head, &value, &set);
    if (status != WEFT_OK)
        return status;
    if (b->outcast)
        weft_boot_value_free(value);
    else if (head.kind == WEFT_BOOT_DECIDED)
        weft_boot_decided_take(edge, head.instance, value);
    else if (head.kind == WEFT_BOOT_AGREED)
        weft_boot_agreed_take(edge, set);
    else if (head.kind == WEFT_BOOT_LEFT)
        weft_boot_left_take(edge, (int)head.initiator);
    else
        weft_boot_cut_off(b, set, edge);
    return WEFT_OK;
}

static int take_frame(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    switch (frame->type) {
    case WEFT_BOOT_GOODBYE:
        weft_boot_goodbye_heard(edge);
        return WEFT_OK;
    case WEFT_BOOT_WAVE:
        return weft_boot_wave_take(edge, frame);
    case WEFT_BOOT_ECHO:
        return weft_boot_echo_take(edge, frame);
    default:
        return take_news(edge, frame);
    }
}

static int take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    int status = take_frame(edge, frame);
    if (status != WEFT_NOMEM)
        return status;
    weft_boot_drop_out(edge->owner, "to take part in an agreement of the ranks");
    return WEFT_OK;
}

/* Waves that they end or answer may bring more of them. */
static void take_in_losses(struct weft_bootstrap *b)
{
    while (b->death_due || b->loss_due) {
        int died = b->death_due;
        b->death_due = b->loss_due = 0;
        if (died) {
            weft_boot_waves_end(b);
            weft_boot_agree_seen(b);
        }
        for (int i = 0; i < b->edge_count; i++) {
            if (!b->edges[i].loss_due)
                continue;
            b->edges[i].loss_due = 0;
            weft_boot_waves_lost(b, &b->edges[i]);
        }
    }
}

static void run(struct weft_bootstrap *b)
{
    take_in_losses(b);
    while (b->agree_due && !b->outcast && !b->closing) {
        weft_boot_agree_begin(b);
        take_in_losses(b);
    }
    b->agree_due = 0;
}

void weft_boot_consensus_clear(struct weft_bootstrap *b)
{
    weft_boot_agree_clear(b);
    weft_boot_waves_clear(b);
}

const struct weft_boot_consensus weft_boot_consensus = {.take = take, .run = run};
