/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/staging.h"

#include <string.h>

#define FIRST    56 /* the number of the first trial: by then readers have tried each way once, or nearly */
#define LARGE    12 /* and of large ones, where that is tried sooner */
#define TRIAL    3  /* calls of each way: the first of them may find cold caches */
#define COST_MAX 2000000000
#define TRIALS_PART                                                                                          \
    25 /* of the calls' time is what trials may cost, but of ways that are many times slower */

/* Calls from a trial's first to the next one's: powers of two. */
#define PERIOD_MIN  32  /* where a trial has changed something, and twice as many where it has not */
#define PERIOD_LONG 512 /* twice as many up to here after each UNCHANGED trials, */
#define UNCHANGED   16
#define PERIOD_MAX  2048 /* and up to here after each, where a way is many times slower, or not known */

/* What a way of each regret costs at most, in percent of the fastest. Beyond those there is what costs more, and what is not known. */
static const uint16_t percent[] = {105, 110, 120, 140, 180, 260};
#define PERCENTS (sizeof percent / sizeof *percent)

_Static_assert(PERCENTS == WEFT_STAGING_REGRET_MAX - 1, "more has a number, and not known");

void weft_staging_open(struct weft_staging *staging, uint32_t ranks)
{
    staging->ranks = ranks;
    for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
        for (int s = 0; s < WEFT_STAGING_SIZES; s++)
            staging->sizes[c][s] = (struct weft_staging_choice){
                .first = (uint64_t)WEFT_STAGING_BYTES_MIN << s < (uint64_t)ranks << 20 ? FIRST : LARGE,
                .period = PERIOD_MIN};
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

/* The same for all calls of a size, so that a trial is as long for each. What a reduce-scatter leaves on a rank is reduced there, and not copied. */
static uint32_t ways_of(const struct weft_staging *staging, enum weft_collective collective, size_t largest)
{
    int is_gathered = weft_collective_blocks(collective) && !weft_collective_reduces(collective);
    size_t result = largest * (is_gathered ? staging->ranks : 1);
    return collective == WEFT_REDUCE_SCATTER || result < WEFT_STAGING_STREAMED_MIN ? WEFT_STAGING_STREAMED
                                                                                   : WEFT_STAGING_WAYS;
}

enum weft_staging_way weft_staging_next(struct weft_staging *staging, enum weft_collective collective,
                                        size_t bytes, enum weft_staging_part *part)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint32_t number = choice->calls++; /* it wraps: a trial that does not end before comes to nothing */
    uint32_t since = number < choice->first ? UINT32_MAX : (number - choice->first) % choice->period;
    uint32_t timed = TRIAL * ways_of(staging, collective, largest);
    *part = choice->settles_next ? WEFT_STAGING_SETTLES
            : since < timed      ? WEFT_STAGING_TIMED
                                 : WEFT_STAGING_GOES;
    choice->settles_next = since == timed - 1;
    if (*part != WEFT_STAGING_TIMED)
        return (enum weft_staging_way)choice->taken;
    if (since == 0) {
        memset(choice->cost_ns, 0, sizeof choice->cost_ns);
        choice->is_open = 1;
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
    size_t largest;
    const struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint64_t least_ns = UINT64_MAX;
    uint32_t regrets = (choice->taken + 1u) << WEFT_STAGING_TAKEN_SHIFT;
    for (int way = 0; way < WEFT_STAGING_WAYS; way++) {
        if (choice->cost_ns[way] && choice->cost_ns[way] < least_ns)
            least_ns = choice->cost_ns[way];
    }
    for (int way = 0; way < WEFT_STAGING_WAYS; way++) {
        uint64_t cost_ns = choice->cost_ns[way];
        uint32_t regret = 0;
        if (least_ns == UINT64_MAX && way == WEFT_STAGING_IN_PLACE)
            continue;
        while (regret < PERCENTS && cost_ns * 100 > least_ns * percent[regret])
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

/* How many calls there are from a trial to the next, after one that has found this. What is much slower, or not known, is tried more and more rarely, and
 * all a little where nothing changes for long. */
static uint32_t period_after(const struct weft_staging_choice *choice, uint32_t regrets, uint32_t ways)
{
    uint32_t period = choice->unchanged ? 2 * PERIOD_MIN : PERIOD_MIN;
    uint32_t slower = 0; /* at most, in percent, all ways together */
    int is_many_times = 0;
    for (uint32_t way = 0; way < ways; way++) {
        uint32_t regret = regret_of(regrets, (int)way);
        if (regret >= PERCENTS)
            is_many_times = 1;
        else if (regret > regret_of(regrets, choice->taken))
            slower += percent[regret] - 100;
    }
    while (period < TRIAL * TRIALS_PART * slower / 100)
        period *= 2;
    for (uint32_t trials = UNCHANGED; trials <= choice->unchanged && period < PERIOD_LONG;
         trials += UNCHANGED)
        period *= 2;
    uint32_t longer = choice->period < PERIOD_MAX ? 2 * choice->period : PERIOD_MAX;
    return is_many_times && longer > period ? longer : period;
}

int weft_staging_settle(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                        uint32_t regrets, int is_agreed)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint8_t before = choice->taken, had = (uint8_t)((regrets >> WEFT_STAGING_TAKEN_SHIFT) - 1);
    choice->taken = had < WEFT_STAGING_WAYS ? had : WEFT_STAGING_IN_PLACE;
    for (uint8_t way = 0; way < WEFT_STAGING_WAYS; way++) {
        if (regret_of(regrets, way) < regret_of(regrets, choice->taken))
            choice->taken = way;
    }
    if (choice->taken != before)
        choice->unchanged = 0;
    else if (choice->unchanged < UINT8_MAX)
        choice->unchanged++;
    if (is_agreed)
        choice->period = period_after(choice, regrets, ways_of(staging, collective, largest));
    else if (choice->period < PERIOD_MAX)
        choice->period *= 2;
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
    static const char *const names[] = {"not staged", "staged", "with results past the caches"};
    return names[way];
}
