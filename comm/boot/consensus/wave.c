/* SPDX-License-Identifier: Apache-2.0 */
/* Propagation of information with feedback over all live edges (docs/bootstrap.md, section 8).
 *
 * A rank that is reached by a wave for the first time passes it on to all its other neighbours and then waits
 * until something of this wave has come from each of them: the wave itself (they were reached another way) or an
 * echo (they, and all who were reached through them, have answered). Then it sends its own echo back to where the
 * wave came from. The one who began has all answers when it has heard from all its neighbours.
 *
 * Each initiator has at most one wave per class in flight; one with a higher number takes its place. A neighbour
 * that is lost before it has answered taints the wave, and the initiator begins again.
 */
#include "comm/boot/consensus/wave.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"

int weft_boot_edge_open(const struct weft_boot_edge *edge)
{
    return edge->link.fd >= 0 && edge->watched && !edge->heard_goodbye && !edge->said_goodbye &&
           !edge->doomed;
}

void weft_boot_news(struct weft_bootstrap *b, int kind, int rank, uint32_t instance,
                    const struct weft_boot_value *value, const unsigned char *set,
                    const struct weft_boot_edge *except)
{
    const struct weft_boot_wave_head head = {.initiator = (uint32_t)rank, .kind = kind, .instance = instance};
    struct weft_boot_writer writer = {0};
    weft_boot_wave_put(&writer, &head, value, set, b->ranks);
    weft_boot_flood(b, WEFT_BOOT_NEWS, &writer, except);
}

static int class_of(int kind)
{
    return kind == WEFT_BOOT_PROPOSE ? WEFT_BOOT_COLLECT : kind;
}

static struct weft_boot_wave *find(const struct weft_bootstrap *b, uint32_t initiator, int kind)
{
    for (struct weft_boot_wave *wave = b->waves; wave; wave = wave->next) {
        if (wave->head.initiator == initiator && class_of(wave->head.kind) == class_of(kind))
            return wave;
    }
    return NULL;
}

/* Ends a wave; only its head stays. */
static void end(struct weft_boot_wave *wave)
{
    wave->ended = 1;
    free(wave->awaits);
    free(wave->set);
    weft_boot_value_free(wave->accepted);
    wave->awaits = wave->set = NULL;
    wave->accepted = NULL;
}

/* A place for a wave, over the one that it replaces (NULL none). */
static struct weft_boot_wave *place(struct weft_bootstrap *b, struct weft_boot_wave *old,
                                    const struct weft_boot_wave_head *head, int parent)
{
    struct weft_boot_wave *wave = old;
    unsigned char *awaits = calloc((size_t)b->edge_count + 1, 1);
    unsigned char *set = calloc(weft_boot_set_bytes(b->ranks), 1);
    if (!wave && awaits && set)
        wave = calloc(1, sizeof *wave);
    if (!awaits || !set || !wave) {
        free(awaits);
        free(set);
        weft_boot_drop_out(b, "to take part in an agreement of the ranks");
        return NULL;
    }
    if (old) {
        end(old);
    } else {
        wave->next = b->waves;
        b->waves = wave;
    }
    *wave = (struct weft_boot_wave){.next = wave->next,
                                    .head = *head,
                                    .parent = parent,
                                    .awaits = awaits,
                                    .set = set,
                                    .flags = UINT64_MAX};
    return wave;
}

static void send_echo(struct weft_bootstrap *b, const struct weft_boot_wave *wave)
{
    struct weft_boot_echo echo = {.head = wave->head,
                                  .tainted = wave->tainted,
                                  .flags = wave->flags,
                                  .set = wave->set,
                                  .ballot = wave->ballot,
                                  .accepted = wave->accepted};
    struct weft_boot_writer writer = {0};
    weft_boot_echo_put(&writer, &echo, b->ranks);
    if (weft_boot_edge_queue_writer(&b->edges[wave->parent], WEFT_BOOT_ECHO, &writer) != WEFT_OK)
        weft_boot_drop_out(b, "to answer in an agreement of the ranks");
}

/* Answers when everything is there. The wave may be replaced by what follows from that. */
static void check(struct weft_bootstrap *b, struct weft_boot_wave *wave)
{
    if (wave->ended || wave->held || wave->awaited > 0)
        return;
    weft_boot_agree_adds(b, wave);
    if (wave->parent >= 0) {
        send_echo(b, wave);
        end(wave);
        return;
    }
    struct weft_boot_wave done = *wave;
    wave->awaits = wave->set = NULL;
    wave->accepted = NULL;
    wave->ended = 1;
    weft_boot_agree_done(b, &done);
    end(&done);
}

/* Passes a wave on, and waits for those to whom it went. */
static void spread(struct weft_bootstrap *b, struct weft_boot_wave *wave, struct weft_boot_bytes *body)
{
    for (int i = 0; i < b->edge_count; i++) {
        /* A broken one takes nothing; to wait for it is to wait until reading says why, which taints the wave. */
        if (i == wave->parent || !weft_boot_edge_open(&b->edges[i]))
            continue;
        if (weft_boot_edge_queue(&b->edges[i], WEFT_BOOT_WAVE, body) != WEFT_OK) {
            weft_boot_drop_out(b, "to pass on a question to all ranks");
            return;
        }
        wave->awaits[i] = 1;
        wave->awaited++;
    }
}

int weft_boot_wave_start(struct weft_bootstrap *b, int kind, uint32_t instance,
                         const struct weft_boot_value *value, const unsigned char *set)
{
    struct weft_boot_wave_head head = {
        .initiator = (uint32_t)b->rank, .number = ++b->wave_number, .kind = kind, .instance = instance};
    struct weft_boot_writer writer = {0};
    weft_boot_wave_put(&writer, &head, value, set, b->ranks);
    struct weft_boot_bytes *body = weft_boot_bytes_of(&writer);
    if (!body) {
        weft_boot_drop_out(b, "to begin an agreement of the ranks");
        return weft_fail(WEFT_NOMEM, "no memory for a wave");
    }
    struct weft_boot_wave *wave = place(b, find(b, head.initiator, kind), &head, -1);
    if (wave) {
        spread(b, wave, body);
        check(b, wave);
    }
    weft_boot_bytes_drop(body);
    return wave ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for a wave");
}

int weft_boot_wave_runs(const struct weft_bootstrap *b, int kind, uint32_t instance)
{
    const struct weft_boot_wave *wave = find(b, (uint32_t)b->rank, kind);
    return wave && !wave->ended && wave->head.instance == instance;
}

void weft_boot_waves_release(struct weft_bootstrap *b, uint32_t instance)
{
    for (struct weft_boot_wave *wave = b->waves; wave; wave = wave->next) {
        if (!wave->held || wave->head.instance != instance)
            continue;
        wave->held = 0;
        check(b, wave);
    }
}

void weft_boot_waves_lost(struct weft_bootstrap *b, const struct weft_boot_edge *edge)
{
    int i = (int)(edge - b->edges);
    for (struct weft_boot_wave *wave = b->waves; wave; wave = wave->next) {
        if (wave->ended)
            continue;
        if (wave->parent == i) {
            end(wave);
        } else if (wave->awaits[i]) {
            wave->awaits[i] = 0;
            wave->awaited--;
            wave->tainted = 1;
            check(b, wave);
        }
    }
}

void weft_boot_waves_end(struct weft_bootstrap *b)
{
    for (struct weft_boot_wave *wave = b->waves; wave; wave = wave->next) {
        if (weft_boot_is_dead(b, (int)wave->head.initiator))
            end(wave);
    }
}

void weft_boot_waves_clear(struct weft_bootstrap *b)
{
    while (b->waves) {
        struct weft_boot_wave *next = b->waves->next;
        end(b->waves);
        free(b->waves);
        b->waves = next;
    }
}

/* Something of a wave that runs here has come. */
static void heard(struct weft_bootstrap *b, struct weft_boot_wave *wave, const struct weft_boot_edge *edge)
{
    int i = (int)(edge - b->edges);
    if (wave->ended || !wave->awaits[i])
        return;
    wave->awaits[i] = 0;
    wave->awaited--;
    check(b, wave);
}

int weft_boot_wave_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_bootstrap *b = edge->owner;
    struct weft_boot_wave_head head;
    struct weft_boot_value *value;
    const unsigned char *set;
    int status = weft_boot_wave_get(frame->type, frame->body, frame->size, b->ranks, &head, &value, &set);
    if (status != WEFT_OK)
        return status;
    struct weft_boot_wave *wave = find(b, head.initiator, head.kind);
    int known = wave && wave->head.number >= head.number;
    if (known || b->outcast || weft_boot_is_dead(b, (int)head.initiator) ||
        head.initiator == (uint32_t)b->rank) {
        weft_boot_value_free(value);
        if (known && wave->head.number == head.number)
            heard(b, wave, edge);
        return WEFT_OK;
    }
    wave = place(b, wave, &head, (int)(edge - b->edges));
    if (!wave) {
        weft_boot_value_free(value);
        return WEFT_OK;
    }
    if (weft_boot_agree_joins(b, wave, value, set) != 0) {
        end(wave);
        return WEFT_OK;
    }
    struct weft_boot_writer copy = {0};
    weft_boot_put_bytes(&copy, frame->body, frame->size);
    struct weft_boot_bytes *body = weft_boot_bytes_of(&copy);
    if (body)
        spread(b, wave, body);
    else
        wave->tainted = 1;
    weft_boot_bytes_drop(body);
    check(b, wave);
    return WEFT_OK;
}

static int later(const struct weft_boot_ballot *a, const struct weft_boot_ballot *b)
{
    return a->rank != b->rank ? a->rank > b->rank : a->number > b->number;
}

static void merge(struct weft_bootstrap *b, struct weft_boot_wave *wave, struct weft_boot_echo *echo)
{
    wave->tainted |= echo->tainted;
    wave->flags &= echo->flags;
    for (size_t i = 0; i < weft_boot_set_bytes(b->ranks); i++)
        wave->set[i] |= echo->set[i];
    if (echo->accepted && (!wave->accepted || later(&echo->ballot, &wave->ballot))) {
        weft_boot_value_free(wave->accepted);
        wave->accepted = echo->accepted;
        wave->ballot = echo->ballot;
        echo->accepted = NULL;
    }
}

int weft_boot_echo_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame)
{
    struct weft_bootstrap *b = edge->owner;
    struct weft_boot_echo echo;
    int status = weft_boot_echo_get(frame->body, frame->size, b->ranks, &echo);
    if (status != WEFT_OK)
        return status;
    struct weft_boot_wave *wave = find(b, echo.head.initiator, echo.head.kind);
    if (wave && !wave->ended && wave->head.number == echo.head.number && wave->head.kind == echo.head.kind &&
        wave->awaits[edge - b->edges]) {
        merge(b, wave, &echo);
        heard(b, wave, edge);
    }
    weft_boot_value_free(echo.accepted);
    return WEFT_OK;
}
