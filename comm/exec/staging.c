/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/staging.h"

#include <string.h>

#define FIRST     24   /* the number of the first trial: by then pipe or pull has been tried (ways.c) */
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
                                        size_t bytes, int *is_timed)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint32_t since = choice->calls++ - choice->trial; /* numbers wrap */
    uint32_t timed = TRIAL * ways_of(staging, collective, largest);
    *is_timed = since < timed;
    if (!*is_timed)
        return (enum weft_staging_way)choice->taken;
    if (since == 0) {
        memset(choice->cost_ns, 0, sizeof choice->cost_ns);
        choice->pending = (uint8_t)timed;
    } else if (since == timed - 1) {
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
           (way == WEFT_STAGING_STREAMED && (is_timed || choice->cost_ns[WEFT_STAGING_STAGED]));
}

static int compare(struct weft_staging_choice *choice)
{
    uint64_t known = choice->cost_ns[choice->taken], least = known;
    uint8_t best = choice->taken;
    for (uint8_t way = 0; way < WEFT_STAGING_WAYS; way++) {
        if (choice->cost_ns[way] && choice->cost_ns[way] < least) {
            least = choice->cost_ns[way];
            best = way;
        }
    }
    int is_faster = least * 100 < known * 95;
    if (is_faster)
        choice->taken = best;
    return is_faster;
}

int weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                         enum weft_staging_way way, int64_t cost_ns)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    double scaled = bytes && cost_ns > 0 ? (double)cost_ns * (double)largest / (double)bytes : 0;
    uint32_t seen_ns = scaled < COST_MAX ? (uint32_t)scaled : COST_MAX, *least_ns = &choice->cost_ns[way];
    if (seen_ns && (!*least_ns || seen_ns < *least_ns))
        *least_ns = seen_ns;
    return choice->pending && --choice->pending == 0 ? compare(choice) : 0;
}

enum weft_staging_way weft_staging_costs(struct weft_staging *staging, enum weft_collective collective,
                                         size_t bytes, uint64_t costs_ns[WEFT_STAGING_WAYS], size_t *of_bytes)
{
    const struct weft_staging_choice *choice = choice_of(staging, collective, bytes, of_bytes);
    for (int way = 0; way < WEFT_STAGING_WAYS; way++)
        costs_ns[way] = choice->pending ? 0 : choice->cost_ns[way];
    return (enum weft_staging_way)choice->taken;
}

const char *weft_staging_way_name(enum weft_staging_way way)
{
    static const char *const names[] = {"in place", "staged", "past the caches"};
    return names[way];
}
