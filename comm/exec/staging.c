/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/staging.h"

#include <string.h>

#define FIRST     24   /* the number of the first trial: by then readers have tried both ways */
#define LARGE     12   /* and of large ones, where that is tried sooner */
#define TRIAL     3    /* calls of each way: the first of them may find cold caches */
#define PAUSE_MIN 32   /* calls between trials, */
#define PAUSE_MAX 2048 /* each time twice as many */
#define COST_MAX  2000000000

void weft_staging_open(struct weft_staging *staging, uint32_t ranks)
{
    staging->ranks = ranks;
    for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
        for (int s = 0; s < WEFT_STAGING_SIZES; s++)
            staging->sizes[c][s] = (struct weft_staging_choice){
                .trial = (uint64_t)WEFT_STAGING_BYTES_MIN << s < (uint64_t)ranks << 20 ? FIRST : LARGE,
                .pause = PAUSE_MIN};
    }
}

static struct weft_staging_choice *choice_of(struct weft_staging *staging, enum weft_collective collective,
                                             size_t bytes, size_t *largest)
{
    int s = 0;
    *largest = WEFT_STAGING_BYTES_MIN;
    for (; s < WEFT_STAGING_SIZES - 1 && *largest < bytes; s++)
        *largest *= 2;
    return &staging->sizes[collective][s];
}

/* The same for all calls of a size, so that a trial is as long for each. */
static uint32_t ways_of(const struct weft_staging *staging, enum weft_collective collective, size_t largest)
{
    int is_gathered = weft_collective_blocks(collective) && !weft_collective_reduces(collective);
    return largest * (is_gathered ? staging->ranks : 1) < WEFT_STAGING_STREAMED_MIN ? WEFT_STAGING_STREAMED
                                                                                    : WEFT_STAGING_WAYS;
}

enum weft_staging_way weft_staging_next(struct weft_staging *staging, enum weft_collective collective,
                                        size_t bytes, enum weft_staging_part *part)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint32_t since = choice->calls++ - choice->trial; /* numbers wrap */
    uint32_t timed = TRIAL * ways_of(staging, collective, largest);
    *part = choice->settles_next ? WEFT_STAGING_SETTLES
            : since < timed      ? WEFT_STAGING_TIMED
                                 : WEFT_STAGING_GOES;
    choice->settles_next = 0;
    if (*part != WEFT_STAGING_TIMED)
        return (enum weft_staging_way)choice->taken;
    if (since == 0) {
        memset(choice->cost_ns, 0, sizeof choice->cost_ns);
        choice->is_open = 1;
    } else if (since == timed - 1) {
        choice->settles_next = 1;
        choice->trial = choice->calls + choice->pause;
        choice->pause = choice->pause < PAUSE_MAX / 2 ? 2 * choice->pause : PAUSE_MAX;
    }
    return (enum weft_staging_way)(since / TRIAL);
}

int weft_staging_stages(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                        enum weft_staging_way way, int is_timed)
{
    size_t largest;
    const struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    return way == WEFT_STAGING_STAGED ||
           (way == WEFT_STAGING_STREAMED && (is_timed || choice->is_staged_known));
}

void weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                          enum weft_staging_way way, int64_t cost_ns)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    double scaled = bytes && cost_ns > 0 ? (double)cost_ns * (double)largest / (double)bytes : 0;
    uint32_t seen_ns = scaled < COST_MAX ? (uint32_t)scaled : COST_MAX, *least_ns = &choice->cost_ns[way];
    if (seen_ns && (!*least_ns || seen_ns < *least_ns))
        *least_ns = seen_ns;
}

uint32_t weft_staging_regrets(struct weft_staging *staging, enum weft_collective collective, size_t bytes)
{
    static const uint16_t percent[] = {105, 110, 120, 140, 180, 260}; /* of the fastest */
    size_t largest;
    const struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint64_t least_ns = UINT64_MAX;
    uint32_t regrets = (uint32_t)choice->taken << WEFT_STAGING_TAKEN_SHIFT;
    for (int way = 0; way < WEFT_STAGING_WAYS; way++) {
        if (choice->cost_ns[way] && choice->cost_ns[way] < least_ns)
            least_ns = choice->cost_ns[way];
    }
    for (int way = 0; way < WEFT_STAGING_WAYS; way++) {
        uint64_t cost_ns = choice->cost_ns[way];
        uint32_t regret = 0;
        if (least_ns == UINT64_MAX && way == WEFT_STAGING_IN_PLACE)
            continue;
        while (regret < sizeof percent / sizeof *percent && cost_ns * 100 > least_ns * percent[regret])
            regret++;
        regrets |= (cost_ns ? regret : WEFT_STAGING_REGRET_MAX) << way * WEFT_STAGING_REGRET_BITS;
    }
    return regrets;
}

static uint32_t regret_of(uint32_t regrets, int way)
{
    return regrets >> way * WEFT_STAGING_REGRET_BITS & WEFT_STAGING_REGRET_MAX;
}

uint32_t weft_staging_regrets_join(uint32_t one, uint32_t other)
{
    uint32_t had = one >> WEFT_STAGING_TAKEN_SHIFT, other_had = other >> WEFT_STAGING_TAKEN_SHIFT;
    uint32_t joined = (had > other_had ? had : other_had) << WEFT_STAGING_TAKEN_SHIFT;
    for (int way = 0; way < WEFT_STAGING_WAYS; way++) {
        uint32_t a = regret_of(one, way), b = regret_of(other, way);
        joined |= (a > b ? a : b) << way * WEFT_STAGING_REGRET_BITS;
    }
    return joined;
}

int weft_staging_settle(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                        uint32_t regrets)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint8_t before = choice->taken, had = (uint8_t)(regrets >> WEFT_STAGING_TAKEN_SHIFT);
    choice->taken = had < WEFT_STAGING_WAYS ? had : WEFT_STAGING_IN_PLACE;
    for (uint8_t way = 0; way < WEFT_STAGING_WAYS; way++) {
        if (regret_of(regrets, way) < regret_of(regrets, choice->taken))
            choice->taken = way;
    }
    choice->is_open = 0;
    choice->is_staged_known = regret_of(regrets, WEFT_STAGING_STAGED) != WEFT_STAGING_REGRET_MAX;
    return choice->taken != before;
}

void weft_staging_costs(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                        uint64_t costs_ns[WEFT_STAGING_WAYS], size_t *of_bytes)
{
    const struct weft_staging_choice *choice = choice_of(staging, collective, bytes, of_bytes);
    for (int way = 0; way < WEFT_STAGING_WAYS; way++)
        costs_ns[way] = choice->is_open ? 0 : choice->cost_ns[way];
}

enum weft_staging_way weft_staging_taken(struct weft_staging *staging, enum weft_collective collective,
                                         size_t bytes)
{
    size_t largest;
    return (enum weft_staging_way)choice_of(staging, collective, bytes, &largest)->taken;
}

const char *weft_staging_way_name(enum weft_staging_way way)
{
    static const char *const names[] = {"in place", "staged", "past the caches"};
    return names[way];
}
