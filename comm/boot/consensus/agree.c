/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement among the survivors (docs/bootstrap.md, section 9).
 *
 * The coordinator, the lowest rank that is neither dead nor gone, collects everybody's flags in one wave, proposes
 * the outcome in a second, and floods it as decided when all survivors have accepted it. A death on the way makes
 * it begin again. A coordinator that follows a dead one proposes what it finds accepted, since that may have been
 * decided; one that begins again itself knows better, and proposes anew.
 *
 * What this rank has to begin is only noted where it is found out, and begun by the service thread when it leaves
 * its callback: so nothing here calls itself through a chain of deaths.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/boot/consensus/wave.h"

#define INSTANCES_MAX 64

struct weft_boot_instance {
    struct weft_boot_instance *next; /* a later one */
    uint32_t number;
    int contributed; /* this rank's caller has come; what it brought: */
    uint64_t flags;
    uint32_t payload_size;
    unsigned char payload[WEFT_BOOTSTRAP_PAYLOAD_MAX];
    struct weft_boot_ballot ballot;   /* of accepted */
    struct weft_boot_value *accepted; /* NULL none */
    int inherited; /* accepted was proposed by this rank, but is an earlier coordinator's */
    int decided;   /* accepted is the outcome */
};

static struct weft_boot_instance *find(const struct weft_bootstrap *b, uint32_t number)
{
    struct weft_boot_instance *instance = b->instances;
    while (instance && instance->number != number)
        instance = instance->next;
    return instance;
}

static int is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* NULL: no memory, or it is over and forgotten. */
static struct weft_boot_instance *find_or_make(struct weft_bootstrap *b, uint32_t number)
{
    struct weft_boot_instance **at = &b->instances;
    int count = 0;
    for (; *at && is_before((*at)->number, number); at = &(*at)->next)
        count++;
    if (*at && (*at)->number == number)
        return *at;
    if (count >= INSTANCES_MAX || is_before(number, b->instances_from))
        return NULL;
    struct weft_boot_instance *instance = calloc(1, sizeof *instance);
    if (!instance) {
        weft_boot_drop_out(b, "for an agreement");
        return NULL;
    }
    instance->number = number;
    instance->next = *at;
    *at = instance;
    return instance;
}

static void drop_first(struct weft_bootstrap *b)
{
    struct weft_boot_instance *first = b->instances;
    b->instances = first->next;
    weft_boot_value_free(first->accepted);
    weft_crypto_wipe(first->payload, sizeof first->payload);
    free(first);
}

void weft_boot_agree_clear(struct weft_bootstrap *b)
{
    while (b->instances)
        drop_first(b);
    free(b->ask_set);
}

int weft_boot_coordinator(struct weft_bootstrap *b)
{
    while (b->lowest < b->ranks && b->noticed[b->lowest] & (WEFT_BOOT_IS_DEAD | WEFT_BOOT_HAS_LEFT))
        b->lowest++;
    return b->lowest;
}

/* Everybody contributes in order, so the first that is not decided is next. */
static struct weft_boot_instance *next_to_decide(const struct weft_bootstrap *b)
{
    for (struct weft_boot_instance *each = b->instances; each; each = each->next) {
        if (each->contributed && !each->decided)
            return each;
    }
    return NULL;
}

int weft_boot_agree_waits(const struct weft_bootstrap *b)
{
    return next_to_decide(b) != NULL;
}

static void begin_agreement(struct weft_bootstrap *b, int again)
{
    struct weft_boot_instance *instance = next_to_decide(b);
    if (!instance || weft_boot_coordinator(b) != b->rank)
        return;
    if (!again && weft_boot_wave_runs(b, WEFT_BOOT_COLLECT, instance->number))
        return;
    if (weft_boot_wave_start(b, WEFT_BOOT_COLLECT, instance->number, NULL, NULL) != WEFT_OK)
        weft_log(WEFT_LOG_ERROR, "%s", weft_error_detail());
}

void weft_boot_agree_begin(struct weft_bootstrap *b)
{
    int due = b->agree_due;
    b->agree_due = 0;
    weft_boot_sync_begin(b, due == WEFT_BOOT_BEGIN_AGAIN);
    begin_agreement(b, due == WEFT_BOOT_BEGIN_AGAIN);
}

/* --- what reaches this rank */

static void accept_value(struct weft_boot_instance *instance, const struct weft_boot_wave_head *head,
                         struct weft_boot_value *value)
{
    weft_boot_value_free(instance->accepted);
    instance->accepted = value;
    instance->ballot = (struct weft_boot_ballot){head->initiator, head->number};
}

int weft_boot_agree_joins(struct weft_bootstrap *b, struct weft_boot_wave *wave,
                          struct weft_boot_value *value, const unsigned char *set)
{
    const struct weft_boot_wave_head *head = &wave->head;
    struct weft_boot_instance *instance;
    weft_boot_agree_seen(b);
    switch (head->kind) {
    case WEFT_BOOT_COLLECT:
        instance = find_or_make(b, head->instance);
        if (!instance)
            return 1;
        wave->held = !instance->contributed && !instance->decided;
        return 0;
    case WEFT_BOOT_PROPOSE:
        instance = find(b, head->instance);
        if (instance && !instance->decided)
            accept_value(instance, head, value);
        else
            weft_boot_value_free(value);
        return instance == NULL;
    case WEFT_BOOT_SYNC:
        weft_boot_sync_learn(b, set, (int)head->initiator);
        return 0;
    default:
        return 0;
    }
}

static void add_accepted(struct weft_bootstrap *b, struct weft_boot_wave *wave,
                         const struct weft_boot_instance *instance)
{
    const struct weft_boot_ballot *mine = &instance->ballot, *best = &wave->ballot;
    if (!instance->accepted)
        return;
    if (wave->accepted && !instance->decided &&
        (best->rank > mine->rank || (best->rank == mine->rank && best->number >= mine->number)))
        return;
    struct weft_boot_value *copy = weft_boot_value_copy(instance->accepted, b->ranks);
    if (!copy) {
        wave->tainted = 1; /* to be asked again, rather than to hide it */
        return;
    }
    weft_boot_value_free(wave->accepted);
    wave->accepted = copy;
    wave->ballot = *mine;
}

void weft_boot_agree_adds(struct weft_bootstrap *b, struct weft_boot_wave *wave)
{
    const struct weft_boot_instance *instance = find(b, wave->head.instance);
    if (wave->head.kind != WEFT_BOOT_ASK || (instance && instance->contributed))
        weft_boot_set_add(wave->set, b->rank);
    if (wave->head.kind != WEFT_BOOT_COLLECT || !instance)
        return;
    if (instance->contributed)
        wave->flags &= instance->flags;
    add_accepted(b, wave, instance);
}

/* --- what comes back to the coordinator */

static struct weft_boot_value *make_value(struct weft_bootstrap *b, const struct weft_boot_instance *instance,
                                          const struct weft_boot_wave *wave)
{
    struct weft_boot_value *value = weft_boot_value_new(b->ranks);
    if (!value)
        return NULL;
    value->flags = wave->flags;
    value->leader = (uint32_t)b->rank;
    value->payload_size = instance->payload_size;
    memcpy(value->payload, instance->payload, instance->payload_size);
    for (int r = 0; r < b->ranks; r++) {
        if (!weft_boot_set_has(wave->set, r))
            weft_boot_set_add(value->dead, r);
    }
    return value;
}

static void propose(struct weft_bootstrap *b, struct weft_boot_instance *instance,
                    struct weft_boot_wave *wave)
{
    struct weft_boot_value *value;
    int own = wave->accepted && wave->ballot.rank == (uint32_t)b->rank && !instance->inherited;
    if (wave->accepted && !own) {
        value = wave->accepted;
        wave->accepted = NULL;
        instance->inherited = 1;
    } else {
        value = make_value(b, instance, wave);
    }
    if (!value)
        goto no_memory;
    struct weft_boot_wave_head mine = {.initiator = (uint32_t)b->rank, .number = b->wave_number + 1};
    accept_value(instance, &mine, value);
    weft_boot_wave_start(b, WEFT_BOOT_PROPOSE, instance->number, value, NULL);
    return;
no_memory:
    weft_boot_drop_out(b, "to propose the outcome of an agreement");
}

/* The outcome is known: the others first, then this rank's caller. Earlier agreements are over for everybody,
 * since all have come to this one. */
static void decide(struct weft_bootstrap *b, struct weft_boot_instance *instance,
                   const struct weft_boot_edge *from)
{
    instance->decided = 1;
    weft_boot_news(b, WEFT_BOOT_DECIDED, b->rank, instance->number, instance->accepted, NULL, from);
    while (b->instances != instance)
        drop_first(b);
    b->instances_from = instance->number;
    pthread_cond_broadcast(&b->changed);
    weft_boot_agree_due(b, WEFT_BOOT_BEGIN);
}

static void answered(struct weft_bootstrap *b, const struct weft_boot_wave *wave)
{
    free(b->ask_set);
    b->ask_set = calloc(weft_boot_set_bytes(b->ranks), 1);
    for (int r = 0; b->ask_set && r < b->ranks; r++) {
        if (!weft_boot_set_has(wave->set, r) && !weft_boot_is_dead(b, r))
            weft_boot_set_add(b->ask_set, r);
    }
    b->asked = wave->head.number;
    pthread_cond_broadcast(&b->changed);
}

/* Whether a death or loss that came up during the wave makes it void. */
static int is_void(struct weft_bootstrap *b, const struct weft_boot_wave *wave)
{
    if (wave->tainted)
        weft_boot_agree_due(b, WEFT_BOOT_BEGIN_AGAIN);
    return b->agree_due == WEFT_BOOT_BEGIN_AGAIN;
}

void weft_boot_agree_done(struct weft_bootstrap *b, struct weft_boot_wave *wave)
{
    struct weft_boot_instance *instance = find(b, wave->head.instance);
    if (wave->head.kind == WEFT_BOOT_ASK) {
        answered(b, wave);
        return;
    }
    if (is_void(b, wave))
        return;
    if (wave->head.kind == WEFT_BOOT_SYNC) {
        weft_boot_sync_done(b, wave->set);
        return;
    }
    if (!instance || instance->decided)
        return;
    if (!weft_boot_reach(b, wave->set))
        return;
    if (wave->head.kind == WEFT_BOOT_COLLECT)
        propose(b, instance, wave);
    else
        decide(b, instance, NULL);
}

void weft_boot_decided_take(struct weft_boot_edge *edge, uint32_t number, struct weft_boot_value *value)
{
    struct weft_bootstrap *b = edge->owner;
    struct weft_boot_instance *instance = find_or_make(b, number);
    if (!instance || instance->decided) {
        weft_boot_value_free(value);
        return;
    }
    weft_boot_value_free(instance->accepted);
    instance->accepted = value;
    decide(b, instance, edge);
}

/* --- the call */

static void contribute(struct weft_bootstrap *b, struct weft_boot_instance *instance, uint64_t flags,
                       const void *payload, size_t size)
{
    instance->contributed = 1;
    instance->flags = flags;
    instance->payload_size = (uint32_t)size;
    if (size)
        memcpy(instance->payload, payload, size);
    weft_boot_agree_seen(b);
    weft_boot_waves_release(b, instance->number);
    weft_boot_agree_due(b, WEFT_BOOT_BEGIN);
}

static void copy_out(const struct weft_bootstrap *b, const struct weft_boot_value *value,
                     struct weft_boot_agreement *out)
{
    out->flags = value->flags;
    out->leader = (int)value->leader;
    out->payload_size = value->payload_size;
    memcpy(out->payload, value->payload, value->payload_size);
    for (int r = 0; r < b->ranks && out->dead; r++)
        out->dead[r] = (unsigned char)weft_boot_set_has(value->dead, r);
}

/* The deadline has passed: asks who has not come, and words it. */
static int timed_out(struct weft_bootstrap *b, uint32_t number)
{
    char text[256];
    int64_t until_ns = weft_clock_ns() + WEFT_BOOT_GRACE_NS;
    b->asked = 0;
    int status = weft_boot_wave_start(b, WEFT_BOOT_ASK, number, NULL, NULL);
    uint64_t wave = b->wave_number;
    while (status == WEFT_OK && b->asked != wave && weft_clock_ns() < until_ns)
        weft_clock_wait(&b->changed, &b->lock, until_ns);
    const struct weft_boot_instance *instance = find(b, number);
    if (instance && instance->decided)
        return WEFT_OK;
    if (b->asked != wave || !b->ask_set)
        return weft_fail(WEFT_TIMEOUT,
                         "agreement: deadline passed, and not all ranks say whether they have come");
    if (weft_boot_set_text(b->ask_set, b->ranks, text, sizeof text) == 0)
        return weft_fail(WEFT_TIMEOUT, "agreement: deadline passed while the last of %d ranks came",
                         b->ranks);
    return weft_fail(WEFT_TIMEOUT, "agreement: deadline passed, %s of %d did not come", text, b->ranks);
}

static int await(struct weft_bootstrap *b, uint32_t number, int64_t deadline_ns,
                 struct weft_boot_agreement *out)
{
    int status = WEFT_OK;
    for (;;) {
        const struct weft_boot_instance *instance = find(b, number);
        if (instance && instance->decided) {
            copy_out(b, instance->accepted, out);
            return WEFT_OK;
        }
        if (b->outcast)
            return weft_boot_report_outcast(b);
        if (b->aborts != out->aborts)
            return weft_fail(WEFT_REVOKED, "%s", b->abort_text);
        if (status == WEFT_OK && weft_clock_ns() >= deadline_ns)
            status = timed_out(b, number);
        if (status != WEFT_OK)
            return status;
        instance = find(b, number);
        if (!instance || !instance->decided)
            weft_clock_wait(&b->changed, &b->lock, deadline_ns);
    }
}

int weft_bootstrap_agree(struct weft_bootstrap *b, uint64_t flags, const void *payload, size_t payload_size,
                         int64_t deadline_ns, struct weft_boot_agreement *out)
{
    if (payload_size > WEFT_BOOTSTRAP_PAYLOAD_MAX)
        return weft_fail(WEFT_INVALID, "agreement: payload of %zu bytes, at most %d are allowed",
                         payload_size, WEFT_BOOTSTRAP_PAYLOAD_MAX);
    int status;
    pthread_mutex_lock(&b->lock);
    struct weft_boot_instance *instance = find_or_make(b, b->agreements);
    if (b->outcast) {
        status = weft_boot_report_outcast(b);
    } else if (!instance) {
        status = weft_fail(WEFT_NOMEM, "agreement: no memory, or %d before it have not ended", INSTANCES_MAX);
    } else {
        uint32_t number = b->agreements++;
        contribute(b, instance, flags, payload, payload_size);
        if (b->ranks == 1) /* it has no edges, and so no thread comes by */
            b->consensus->run(b);
        status = await(b, number, deadline_ns, out);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}
