/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/staging.h"

#define FIRST     24 /* the number of the first trial's first call: pipe or pull has been tried before (ways.c) */
#define TRIAL     3    /* calls of each way: the first of them may find cold caches */
#define PAUSE_MIN 32   /* calls between trials, */
#define PAUSE_MAX 2048 /* each time twice as many */
#define COST_MAX  2000000000

void weft_staging_open(struct weft_staging *staging)
{
    for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
        for (int s = 0; s < WEFT_STAGING_SIZES; s++)
            staging->sizes[c][s] = (struct weft_staging_choice){.trial = FIRST, .pause = PAUSE_MIN};
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

int weft_staging_next(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                      int *is_timed)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    uint32_t since = choice->calls++ - choice->trial; /* numbers wrap */
    *is_timed = since < 2 * TRIAL;
    if (!*is_timed)
        return choice->taken;
    if (since == 0) {
        choice->cost_ns[0] = choice->cost_ns[1] = 0;
        choice->pending = 2 * TRIAL;
    } else if (since == 2 * TRIAL - 1) {
        choice->trial = choice->calls + choice->pause;
        choice->pause = choice->pause < PAUSE_MAX / 2 ? 2 * choice->pause : PAUSE_MAX;
    }
    return since >= TRIAL;
}

static int compare(struct weft_staging_choice *choice)
{
    uint64_t other = choice->cost_ns[!choice->taken], known = choice->cost_ns[choice->taken];
    int is_faster = other && known && other * 100 < known * 95;
    choice->taken ^= (uint8_t)is_faster;
    return is_faster;
}

int weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                         int is_staged, int64_t cost_ns)
{
    size_t largest;
    struct weft_staging_choice *choice = choice_of(staging, collective, bytes, &largest);
    double scaled = bytes && cost_ns > 0 ? (double)cost_ns * (double)largest / (double)bytes : 0;
    uint32_t seen_ns = scaled < COST_MAX ? (uint32_t)scaled : COST_MAX,
             *least_ns = &choice->cost_ns[is_staged];
    if (seen_ns && (!*least_ns || seen_ns < *least_ns))
        *least_ns = seen_ns;
    return choice->pending && --choice->pending == 0 ? compare(choice) : 0;
}

int weft_staging_costs(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                       uint64_t costs_ns[2], size_t *of_bytes)
{
    const struct weft_staging_choice *choice = choice_of(staging, collective, bytes, of_bytes);
    for (int way = 0; way < 2; way++)
        costs_ns[way] = choice->pending ? 0 : choice->cost_ns[way];
    return choice->taken;
}
