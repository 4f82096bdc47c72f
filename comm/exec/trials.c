/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/trials.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/exec/internal.h"
#include "comm/exec/wire.h"

_Static_assert(WEFT_STAGING_REGRETS <= UINT16_MAX >> WEFT_WIRE_REGRETS_SHIFT, "the header's flags have room");

/* Every call that could stage on any rank counts on all. One that started leaves its thread free, and so has nobody to refill the staging memory: what is
 * pulled needs its sender no more. */
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
    trial->begun_ns = is_timed ? weft_clock_ns() : 0;
    if (part == WEFT_STAGING_SETTLES)
        trial->regrets = weft_staging_regrets(exec->staging, collective, trial->bytes);
    trial->lacks_staging = call->started || op->request.commands;
    if (trial->lacks_staging)
        return;
    trial->way = (uint8_t)way;
    trial->stages = weft_staging_stages(exec->staging, collective, trial->bytes, way, is_timed) != 0;
    op->request.streaming |= way == WEFT_STAGING_STREAMED;
}

void weft_trial_hear(struct weft_exec_op *op, const struct weft_wire_header *header)
{
    struct weft_trial *trial = &op->window->trial;
    if (trial->part == WEFT_STAGING_SETTLES)
        trial->regrets = weft_staging_regrets_join(trial->regrets, header->flags >> WEFT_WIRE_REGRETS_SHIFT);
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
    if (status != WEFT_OK || trial->part == WEFT_STAGING_GOES)
        return;
    if (trial->part == WEFT_STAGING_TIMED) {
        if (!trial->lacks_staging && went_so(trial))
            weft_staging_observe(staging, collective, trial->bytes, (enum weft_staging_way)trial->way,
                                 weft_clock_ns() - trial->begun_ns);
    } else if (weft_staging_settle(staging, collective, trial->bytes, trial->regrets)) {
        weft_log(WEFT_LOG_DEBUG, "%s of about %zu bytes is faster %s now", weft_call_name(call), trial->bytes,
                 weft_staging_way_name(weft_staging_taken(staging, collective, trial->bytes)));
    }
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
}
