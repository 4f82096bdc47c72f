/* SPDX-License-Identifier: Apache-2.0 */
/* What every collective promises for the end, held against the verifier's values. */
#include <stdlib.h>

#include "algos/proof/verify.h"
#include "algos/proof/verify_values.h"

#define complain weft_values_complain

/* The first rank that a chunk lacks, for the error's wording. */
static uint32_t first_missing(const struct weft_values *values, const uint64_t *set)
{
    for (uint32_t rank = 0; rank < values->ranks; rank++) {
        if (!(set[rank / 64] >> rank % 64 & 1))
            return rank;
    }
    return UINT32_MAX;
}

/* Every rank's contribution. total: the sum of their numbers. */
static const char *check_all(const struct weft_values *values, const struct weft_value *value,
                             const uint64_t *set, uint32_t chunk, uint64_t total)
{
    uint32_t missing = set ? first_missing(values, set) : UINT32_MAX;
    if (missing != UINT32_MAX)
        return complain("ends without rank %u's contribution in chunk %u", missing, chunk);
    if (values->rotation && value->length != values->ranks)
        return complain("ends with %u contributions in chunk %u, expected %u", value->length, chunk,
                        values->ranks);
    if (!values->rotation && !values->overlaps && value->sum != total)
        return complain("ends with contributions missing or doubled in chunk %u", chunk);
    return NULL;
}

/* Rank source's data alone. */
static const char *check_one(const struct weft_values *values, const struct weft_value *value,
                             const uint64_t *set, uint32_t chunk, uint32_t source)
{
    int other = set && set[source / 64] != 1ull << source % 64;
    if (value->start != source || value->length != 1 || other ||
        (!values->rotation && value->sum != weft_value_number(values, source, value->label)))
        return complain("ends with rank %u's data in chunk %u, expected rank %u's", value->start, chunk,
                        source);
    return NULL;
}

static const char *check_chunk(const struct weft_values *values, uint32_t runner, uint32_t chunk,
                               uint64_t total)
{
    const uint64_t *set;
    struct weft_value value = weft_value_output(values, runner, chunk, &set);
    uint32_t root = (uint32_t)values->plans[0]->root;
    uint32_t label = values->collective == WEFT_ALLTOALL ? runner : chunk;
    const char *wrong = NULL;
    if (!(value.flags & WEFT_VALUE_DEFINED))
        return complain("ends without a value in chunk %u", chunk);
    switch (values->collective) {
    case WEFT_BROADCAST:
    case WEFT_SCATTER:
        wrong = check_one(values, &value, set, chunk, root);
        break;
    case WEFT_ALLGATHER:
    case WEFT_GATHER:
    case WEFT_ALLTOALL:
        wrong = check_one(values, &value, set, chunk, chunk);
        break;
    default:
        wrong = check_all(values, &value, set, chunk, total);
    }
    if (!wrong && value.label != label)
        wrong = complain("ends with chunk %u in the place of chunk %u", value.label, chunk);
    if (!wrong && weft_collective_reduces(values->collective) && !(value.flags & WEFT_VALUE_FINISHED))
        wrong = complain("ends with chunk %u not finished", chunk);
    return wrong;
}

/* All ranks of an allreduce must hold the same expression: compared with rank 0's, or, rotated, with rank 0's chunk
 * 0. */
static int same_trace(const struct weft_values *values, uint32_t runner, uint32_t chunk)
{
    const uint64_t *set;
    struct weft_value value = weft_value_output(values, runner, chunk, &set);
    struct weft_value first = weft_value_output(values, 0, values->rotation ? 0 : chunk, &set);
    if (values->rotation && ((uint64_t)first.start + chunk) % values->ranks != value.start)
        return 0;
    return value.trace == first.trace;
}

/* The expression that strict mode fixes (struct weft_fold, spelled out once more on purpose): the first pairs of
 * ranks stand for one place each, so that places are a power of two; then places at distance w/2, ..., 1 are put
 * together, the lower one first. 0 when there is no memory. */
static int strict_trace(const struct weft_values *values, uint64_t *trace)
{
    uint32_t width = 1, pairs;
    while (width <= values->ranks / 2)
        width *= 2;
    pairs = values->ranks - width;
    uint64_t *places = malloc(width * sizeof *places);
    if (!places)
        return 0;
    for (uint32_t i = 0; i < width; i++) {
        places[i] = weft_value_leaf(values, i < pairs ? 2 * i : i + pairs, 0).trace;
        if (i < pairs)
            places[i] = weft_value_trace(places[i], weft_value_leaf(values, 2 * i + 1, 0).trace, 0);
    }
    for (uint32_t half = width / 2; half > 0; half /= 2) {
        for (uint32_t i = 0; i < half; i++)
            places[i] = weft_value_trace(places[i], places[i + half], 0);
    }
    *trace = places[0];
    free(places);
    return 1;
}

/* Which of the expected orders one chunk has. */
static unsigned orders_of(const struct weft_values *values, uint32_t runner, uint32_t chunk, uint64_t strict)
{
    const uint64_t *set;
    struct weft_value value = weft_value_output(values, runner, chunk, &set);
    unsigned has = value.flags & WEFT_VALUE_ORDERED ? WEFT_VERIFY_EXPECT_RANK_ORDER : 0;
    return has | (value.trace == strict && !values->rotation ? WEFT_VERIFY_EXPECT_STRICT : 0);
}

static const char *check_orders(const struct weft_values *values, uint32_t runner, uint32_t chunk,
                                uint64_t strict, unsigned expected, unsigned *found)
{
    if (values->collective == WEFT_ALLREDUCE && !same_trace(values, runner, chunk))
        return complain("ends with chunk %u added up in another order than %s", chunk,
                        values->rotation ? "chunk 0" : "rank 0");
    if (!weft_collective_reduces(values->collective))
        return NULL;
    *found &= orders_of(values, runner, chunk, strict);
    if (expected & ~*found & WEFT_VERIFY_EXPECT_STRICT)
        return complain("ends with chunk %u added up in another order than strict mode's", chunk);
    if (expected & ~*found & WEFT_VERIFY_EXPECT_RANK_ORDER)
        return complain("ends with chunk %u not added up in the order of ranks", chunk);
    return NULL;
}

const char *weft_values_final(struct weft_values *values, unsigned expected, unsigned *found, uint32_t *rank)
{
    uint64_t strict = 0;
    const char *wrong = NULL;
    int sums = weft_collective_reduces(values->collective) && !values->rotation;
    *found = sums ? WEFT_VERIFY_EXPECT_STRICT | WEFT_VERIFY_EXPECT_RANK_ORDER : 0;
    *rank = 0;
    if (sums && !strict_trace(values, &strict)) {
        values->exhausted = 1;
        return "ends with no memory left to check the order of its sums";
    }
    uint32_t end = weft_collective_blocks(values->collective) ? values->ranks : values->chunks;
    if (end > values->followed_end)
        end = values->followed_end;
    for (uint32_t chunk = values->followed_first; chunk < end; chunk++) {
        uint64_t total = 0;
        for (uint32_t i = 0; sums && i < values->ranks; i++)
            total += weft_value_number(values, i, chunk);
        for (uint32_t runner = 0; !wrong && runner < values->runners; runner++) {
            uint32_t first, count;
            weft_plan_window(values->plans[runner], WEFT_BUFFER_OUTPUT, &first, &count);
            *rank = runner;
            if (chunk < first || chunk - first >= count)
                continue;
            wrong = check_chunk(values, runner, chunk, total);
            if (!wrong)
                wrong = check_orders(values, runner, chunk, strict, expected, found);
        }
        if (wrong)
            return wrong;
    }
    return NULL;
}
