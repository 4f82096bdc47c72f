/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/trials.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/exec/internal.h"
#include "comm/exec/wire.h"

_Static_assert(WEFT_STAGING_REGRETS_MAX <= UINT16_MAX >> WEFT_WIRE_REGRETS_SHIFT,
               "the header's flags have room");

/* Whether its caller can be taken to wait: staging memory has to be refilled, while what is pulled needs its sender no more. Whoever has waited at
 * once for started calls before does so again. */
static int is_waited_for(const struct weft_exec_op *op)
{
    return !op->request.call.started || op->exec->waited >= WEFT_TRIAL_WAITED_MIN;
}

/* Every call that could stage on any rank counts on all. */
void weft_trial_begin(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_trial *trial = &op->window->trial;
    const struct weft_call *call = &op->request.call;
    enum weft_collective collective = (enum weft_collective)call->collective;
    enum weft_staging_part part;
    *trial = (struct weft_trial){.bytes = call->count * weft_dtype_size((weft_dtype)call->dtype)};
    if (trial->bytes < WEFT_STAGING_BYTES_MIN || call->collective >= WEFT_COLLECTIVE_COUNT || call->unequal ||
        !exec->staging || weft_collective_has_root(collective))
        return;
    enum weft_staging_way way = weft_staging_next(exec->staging, collective, trial->bytes, &part);
    int is_timed = part == WEFT_STAGING_TIMED;
    trial->part = (uint8_t)part;
    trial->begun_ns = weft_clock_ns();
    trial->waits_ns = call->unattended ? 0 : trial->begun_ns; /* its beginning may be a good part of it */
    trial->lacks_staging = op->request.commands || !is_waited_for(op);
    if (part == WEFT_STAGING_SETTLES)
        trial->regrets = weft_staging_regrets(exec->staging, collective, trial->bytes);
    if (trial->lacks_staging)
        return;
    trial->way = (uint8_t)way;
    trial->stages = weft_staging_stages(exec->staging, collective, trial->bytes, way, is_timed) != 0;
    op->request.streaming |= way == WEFT_STAGING_STREAMED;
}

void weft_trial_hear(struct weft_exec_op *op, const struct weft_wire_header *header)
{
    struct weft_trial *trial = &op->window->trial;
    trial->has_heard = 1;
    trial->regrets = weft_staging_regrets_join(trial->regrets, header->flags >> WEFT_WIRE_REGRETS_SHIFT);
}

void weft_exec_op_waits(struct weft_exec_op *op, int waits, int64_t since_ns)
{
    struct weft_trial *trial = &op->window->trial;
    if (!trial->begun_ns || !op->request.call.started || op->status != WEFT_AGAIN)
        return;
    int64_t now_ns = weft_clock_ns();
    if (trial->waits_ns) {
        trial->waited_ns += now_ns - trial->waits_ns;
        trial->left_ns = now_ns;
    }
    if (!since_ns)
        since_ns = now_ns;
    int64_t least_ns = trial->left_ns > trial->begun_ns ? trial->left_ns : trial->begun_ns;
    trial->waits_ns = !waits ? 0 : since_ns > least_ns ? since_ns : least_ns;
}

/* Whether a caller has waited nearly from its beginning to its end; and counts that. */
static int has_been_waited_for(struct weft_exec_op *op, int64_t now_ns)
{
    const struct weft_trial *trial = &op->window->trial;
    struct weft_exec *exec = op->exec;
    if (!op->request.call.started)
        return 1;
    int64_t waited_ns = trial->waited_ns + (trial->waits_ns ? now_ns - trial->waits_ns : 0);
    int has = waited_ns >= (now_ns - trial->begun_ns) / 8 * 7;
    if (has)
        exec->waited += exec->waited < WEFT_TRIAL_WAITED_MAX;
    else
        exec->waited -= exec->waited > 2 ? 2 : exec->waited;
    return has;
}

uint16_t weft_trial_flags(uint16_t flags, uint16_t later)
{
    uint32_t regrets =
        weft_staging_regrets_join(flags >> WEFT_WIRE_REGRETS_SHIFT, later >> WEFT_WIRE_REGRETS_SHIFT);
    return (uint16_t)((flags & ((1u << WEFT_WIRE_REGRETS_SHIFT) - 1)) | regrets << WEFT_WIRE_REGRETS_SHIFT);
}

/* Whether the call went as it should: of ordinary memory all was staged, or nothing. */
static int went_so(const struct weft_trial *trial)
{
    switch (trial->way) {
    case WEFT_STAGING_IN_PLACE:
        return !trial->has_staged;
    case WEFT_STAGING_STAGED:
        return trial->has_staged;
    default: /* also of memory that peers map, which is not staged */
        return 1;
    }
}

void weft_trial_end(struct weft_exec_op *op, int status)
{
    const struct weft_trial *trial = &op->window->trial;
    const struct weft_call *call = &op->request.call;
    enum weft_collective collective = (enum weft_collective)call->collective;
    struct weft_staging *staging = op->exec->staging;
    if (status != WEFT_OK || !trial->begun_ns)
        return;
    int64_t now_ns = trial->part == WEFT_STAGING_TIMED || call->started ? weft_clock_ns() : 0;
    int is_clean = has_been_waited_for(op, now_ns) && !trial->lacks_staging && went_so(trial);
    if (trial->part == WEFT_STAGING_TIMED && is_clean) {
        weft_staging_observe(staging, collective, trial->bytes, (enum weft_staging_way)trial->way,
                             now_ns - trial->begun_ns);
    } else if (trial->part == WEFT_STAGING_SETTLES &&
               weft_staging_settle(staging, collective, trial->bytes, trial->regrets, trial->has_heard)) {
        weft_log(WEFT_LOG_DEBUG, "%s of about %zu bytes is faster %s now", weft_call_name(call), trial->bytes,
                 weft_staging_way_name(weft_staging_taken(staging, collective, trial->bytes)));
    }
}

int weft_exec_may_stage(const struct weft_exec *exec)
{
    return exec->staging != NULL;
}

void weft_exec_past_say(const struct weft_exec *exec, char *why, size_t capacity)
{
    uint32_t ranks = 0, flags;
    for (uint32_t r = 0; r < exec->options.ranks; r++) {
        const struct weft_exec_peer *peer = &exec->peers[r];
        ranks += peer->link && peer->ops->link_flags(peer->link, &flags) == WEFT_OK &&
                 flags & WEFT_LINK_PAST_CACHES;
    }
    weft_error_clear(); /* of links that have failed */
    size_t at = strlen(why);
    if (ranks && at < capacity)
        snprintf(why + at, capacity - at, "; staging goes past the caches for %" PRIu32 " rank%s", ranks,
                 ranks == 1 ? "" : "s");
}

void weft_exec_staging_say(struct weft_exec *exec, enum weft_collective collective, size_t bytes, char *why,
                           size_t capacity)
{
    uint64_t costs_ns[WEFT_STAGING_WAYS];
    size_t of_bytes, at = 0;
    if (bytes < WEFT_STAGING_BYTES_MIN || weft_collective_has_root(collective) || !exec->staging)
        return;
    int taken = weft_staging_taken(exec->staging, collective, bytes), known = 0;
    weft_staging_costs(exec->staging, collective, bytes, costs_ns, &of_bytes);
    for (int way = 0; way < WEFT_STAGING_WAYS; way++)
        known += costs_ns[way] != 0;
    if (known < 2 || !costs_ns[taken])
        return;
    at = (size_t)snprintf(why, capacity, "measured: %" PRIu64 " ns %s", costs_ns[taken],
                          weft_staging_way_name((enum weft_staging_way)taken));
    for (int way = 0; way < WEFT_STAGING_WAYS; way++) {
        if (way != taken && costs_ns[way] && at < capacity)
            at += (size_t)snprintf(why + at, capacity - at, ", %" PRIu64 " ns %s", costs_ns[way],
                                   weft_staging_way_name((enum weft_staging_way)way));
    }
    if (at < capacity)
        snprintf(why + at, capacity - at, ", for %zu bytes", of_bytes);
    if (taken != WEFT_STAGING_IN_PLACE)
        weft_exec_past_say(exec, why, capacity);
}
