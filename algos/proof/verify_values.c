/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/proof/verify_values.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/proof/verify.h"
#include "base/error.h"
#include "base/hash.h"

#define PAGE 32 /* values */

const char *weft_values_complain(const char *format, ...)
{
    static _Thread_local char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

uint64_t weft_value_number(const struct weft_values *values, uint32_t rank, uint32_t chunk)
{
    return weft_mix(weft_mix(values->seed + rank) ^ (0x9e3779b97f4a7c15u * ((uint64_t)chunk + 1)));
}

uint64_t weft_value_trace(uint64_t left, uint64_t right, uint64_t offsets)
{
    return weft_mix(weft_mix(left * 3) + right * 5 + weft_mix(offsets + 7));
}

struct weft_value weft_value_leaf(const struct weft_values *values, uint32_t rank, uint32_t chunk)
{
    return (struct weft_value){
        .sum = values->rotation ? 0 : weft_value_number(values, rank, chunk),
        .trace = weft_mix(values->rotation ? 1 : (uint64_t)rank + 1),
        .start = rank,
        .length = 1,
        .label = chunk,
        .flags = WEFT_VALUE_DEFINED | (values->rotation ? 0 : WEFT_VALUE_ORDERED),
    };
}

/* --- memory -------------------------------------------------------------------------------------------- */

static size_t page_size(const struct weft_values *values)
{
    return PAGE * (sizeof(struct weft_value) + values->words * sizeof(uint64_t));
}

static struct weft_area *area_of(const struct weft_values *values, uint32_t runner, unsigned buffer)
{
    unsigned kind = buffer == WEFT_BUFFER_TEMP   ? WEFT_AREA_TEMP
                    : buffer == WEFT_BUFFER_CELL ? WEFT_AREA_CELL
                                                 : WEFT_AREA_OUTPUT;
    return &values->areas[(size_t)runner * WEFT_AREAS + kind];
}

/* NULL when its page was never written. The set lies behind the page's values. */
static struct weft_value *value_at(const struct weft_values *values, const struct weft_area *area,
                                   uint32_t at, uint64_t **set)
{
    struct weft_value *page = area->pages[(at - area->first) / PAGE];
    uint32_t index = (at - area->first) % PAGE;
    if (!page)
        return NULL;
    *set = (uint64_t *)(page + PAGE) + (size_t)index * values->words;
    return page + index;
}

/* Takes memory from the allowance; NULL when it is not there. */
static void *take(struct weft_values *values, uint64_t count, size_t size)
{
    if (count > (values->memory_max - values->memory) / size) {
        values->exhausted = 1;
        return NULL;
    }
    void *memory = calloc((size_t)count, size);
    values->exhausted |= !memory;
    values->memory += memory ? count * size : 0;
    return memory;
}

static void areas_measure(struct weft_values *values, uint32_t runner)
{
    const struct weft_plan *plan = values->plans[runner];
    struct weft_area *areas = &values->areas[(size_t)runner * WEFT_AREAS];
    weft_plan_window(plan, WEFT_BUFFER_OUTPUT, &areas[WEFT_AREA_OUTPUT].first,
                     &areas[WEFT_AREA_OUTPUT].count);
    areas[WEFT_AREA_TEMP].first = plan->temp_first;
    areas[WEFT_AREA_TEMP].count = plan->temp_chunks - plan->temp_first;
    areas[WEFT_AREA_CELL].count = plan->cells;
}

int weft_values_open(struct weft_values *values, const struct weft_plan *const *plans, uint32_t ranks,
                     int rotation, const struct weft_verify_options *options)
{
    uint32_t chunks = plans[0]->chunks, first = options->chunk_first;
    *values =
        (struct weft_values){.plans = plans,
                             .collective = (enum weft_collective)plans[0]->collective,
                             .ranks = ranks,
                             .chunks = plans[0]->chunks,
                             .runners = rotation ? 1 : ranks,
                             .rotation = rotation,
                             .overlaps = plans[0]->collective == WEFT_BARRIER,
                             .followed_first = options->chunk_count ? first : 0,
                             .followed_end = options->chunk_count ? first + options->chunk_count : chunks,
                             .seed = weft_mix(options->seed + 0x9e3779b97f4a7c15u),
                             .memory_max = options->memory_max};
    /* Where contributions may overlap only sets can show it. */
    if (!rotation && (ranks < WEFT_VERIFY_EXACT_RANKS || values->overlaps))
        values->words = (ranks + 63) / 64;
    values->sets = take(values, 2 * (uint64_t)values->words + 1, sizeof *values->sets);
    values->areas = take(values, (uint64_t)values->runners * WEFT_AREAS, sizeof *values->areas);
    for (uint32_t runner = 0; !values->exhausted && runner < values->runners; runner++)
        areas_measure(values, runner);
    for (size_t i = 0; !values->exhausted && i < (size_t)values->runners * WEFT_AREAS; i++) {
        struct weft_area *area = &values->areas[i];
        area->pages = take(values, ((uint64_t)area->count + PAGE - 1) / PAGE + 1, sizeof(void *));
    }
    if (!values->exhausted)
        return WEFT_OK;
    weft_values_close(values);
    return weft_fail(WEFT_NOMEM, "verifying %u ranks with %u chunks needs more than %" PRIu64 " bytes", ranks,
                     values->chunks, values->memory_max);
}

static uint32_t page_count(const struct weft_area *area)
{
    return area->pages ? (uint32_t)(((uint64_t)area->count + PAGE - 1) / PAGE) : 0;
}

void weft_values_close(struct weft_values *values)
{
    for (size_t i = 0; values->areas && i < (size_t)values->runners * WEFT_AREAS; i++) {
        for (uint32_t page = 0; page < page_count(&values->areas[i]); page++)
            free(values->areas[i].pages[page]);
        free(values->areas[i].pages);
    }
    free(values->areas);
    free(values->sets);
    values->areas = NULL;
    values->sets = NULL;
}

void weft_values_reset(struct weft_values *values)
{
    for (size_t i = 0; i < (size_t)values->runners * WEFT_AREAS; i++) {
        for (uint32_t page = 0; page < page_count(&values->areas[i]); page++) {
            if (values->areas[i].pages[page])
                memset(values->areas[i].pages[page], 0, page_size(values));
        }
    }
}

static int write_value(struct weft_values *values, struct weft_area *area, uint32_t at,
                       const struct weft_value *value, const uint64_t *set)
{
    struct weft_value **page = &area->pages[(at - area->first) / PAGE];
    uint64_t *to = NULL;
    if (!*page)
        *page = take(values, 1, page_size(values));
    if (!*page)
        return 0;
    *value_at(values, area, at, &to) = *value;
    if (values->words)
        memcpy(to, set, values->words * sizeof *set);
    return 1;
}

/* --- steps --------------------------------------------------------------------------------------------- */

static int in_window(const struct weft_plan *plan, enum weft_buffer buffer, uint32_t chunk)
{
    uint32_t first, count;
    weft_plan_window(plan, buffer, &first, &count);
    return chunk >= first && chunk - first < count;
}

/* Reads what the place holds for the step's chunk, the exact set into set[] when sets are kept. INPUT that is OUTPUT
 * as well is what was written there last. */
static struct weft_value read_value(const struct weft_values *values, const struct weft_spot *place,
                                    uint32_t chunk, uint64_t *set)
{
    struct weft_value value = {0};
    const struct weft_value *found = NULL;
    const struct weft_plan *plan = values->plans[place->runner];
    uint64_t *found_set = NULL;
    uint32_t at = (uint32_t)(((uint64_t)chunk + place->shift) % values->chunks);
    int user = place->buffer == WEFT_BUFFER_INPUT || place->buffer == WEFT_BUFFER_OUTPUT;
    int from_input = user && (place->buffer == WEFT_BUFFER_INPUT || plan->in_place) &&
                     in_window(plan, WEFT_BUFFER_INPUT, at);
    if (place->buffer == WEFT_BUFFER_CELL)
        at = place->cell;
    if (!user ||
        ((place->buffer == WEFT_BUFFER_OUTPUT || plan->in_place) && in_window(plan, WEFT_BUFFER_OUTPUT, at)))
        found = value_at(values, area_of(values, place->runner, place->buffer), at, &found_set);
    if (found && found->flags & WEFT_VALUE_DEFINED) {
        value = *found;
        if (values->words)
            memcpy(set, found_set, values->words * sizeof *set);
    } else if (from_input) {
        value = weft_value_leaf(values, place->runner, at);
        memset(set, 0, values->words * sizeof *set);
        if (values->words)
            set[place->runner / 64] = 1ull << place->runner % 64;
    }
    if (place->rotate) {
        value.start = (uint32_t)(((uint64_t)value.start + place->rotate) % values->ranks);
        if (values->chunks == values->ranks)
            value.label = (uint32_t)(((uint64_t)value.label + place->rotate) % values->ranks);
    }
    return value;
}

/* Makes *left the union of two intervals of ranks. 0, or 1 when they overlap, 2 when they are not adjacent. */
static int join(const struct weft_values *values, struct weft_value *left, const struct weft_value *right)
{
    uint64_t n = values->ranks, length = (uint64_t)left->length + right->length;
    uint64_t after = ((uint64_t)right->start + n - left->start) % n;
    uint64_t before = ((uint64_t)left->start + n - right->start) % n;
    if (!values->overlaps && (after < left->length || before < right->length))
        return 1;
    if (after <= left->length) {
        length = after + right->length > left->length ? after + right->length : left->length;
    } else if (before <= right->length) {
        length = before + left->length > right->length ? before + left->length : right->length;
        left->start = right->start;
    } else {
        return 2;
    }
    left->length = (uint32_t)(length < n ? length : n);
    return 0;
}

static const char *combine_sets(const struct weft_values *values, uint64_t *left, const uint64_t *right)
{
    for (uint32_t i = 0; i < values->words; i++) {
        if (left[i] & right[i] && !values->overlaps)
            return weft_values_complain("adds the contribution of rank %d twice",
                                        (int)i * 64 + __builtin_ctzll(left[i] & right[i]));
        left[i] |= right[i];
    }
    return NULL;
}

/* *left = *left op *right. The trace mixes both sides differently, so that order and grouping show; in the
 * rotation method also how far each begins from the start of the union. */
static const char *combine(const struct weft_values *values, struct weft_value *left,
                           const struct weft_value *right, uint64_t *left_set, const uint64_t *right_set,
                           int *unsupported)
{
    uint64_t offsets = 0;
    if ((left->flags | right->flags) & WEFT_VALUE_FINISHED)
        return "adds to a value that was finished already";
    if (left->label != right->label)
        return weft_values_complain("adds chunk %u to chunk %u", right->label, left->label);
    if (values->rotation) {
        struct weft_value both = *left;
        int failed = join(values, &both, right);
        if (failed == 1)
            return weft_values_complain(
                "adds contributions twice (of %u ranks from %u on, and of %u ranks from %u on)", left->length,
                left->start, right->length, right->start);
        *unsupported |= failed == 2;
        uint64_t n = values->ranks;
        offsets = (left->start + n - both.start) % n << 32 | (right->start + n - both.start) % n;
        left->start = both.start;
        left->length = both.length;
    } else {
        if (!(right->flags & WEFT_VALUE_ORDERED) || left->start + left->length != right->start)
            left->flags &= ~(unsigned)WEFT_VALUE_ORDERED;
        left->sum += right->sum;
        left->length += right->length;
    }
    left->trace = weft_value_trace(left->trace, right->trace, offsets);
    return combine_sets(values, left_set, right_set);
}

static const char *buffer_name(unsigned buffer)
{
    static const char *const names[] = {"INPUT", "OUTPUT", "TEMP", "SLOT", "CELL"};
    return names[buffer];
}

/* One chunk of a step. */
static const char *apply_one(struct weft_values *values, uint32_t runner, const struct weft_step *step,
                             uint32_t chunk, const struct weft_spot *sources, int source_count,
                             int *unsupported)
{
    uint64_t *set = values->sets, *other_set = values->sets + values->words;
    struct weft_value value = {0};
    for (int i = 0; i < source_count; i++) {
        struct weft_value other = read_value(values, &sources[i], chunk, i == 0 ? set : other_set);
        const char *wrong = NULL;
        if (!(other.flags & WEFT_VALUE_DEFINED))
            return weft_values_complain("reads chunk %u of rank %u's %s before it was written",
                                        (uint32_t)(((uint64_t)chunk + sources[i].shift) % values->chunks),
                                        sources[i].runner, buffer_name(sources[i].buffer));
        if (i == 0)
            value = other;
        else
            wrong = combine(values, &value, &other, set, other_set, unsupported);
        if (wrong)
            return wrong;
    }
    if (step->flags & WEFT_STEP_FINISH) {
        if (value.flags & WEFT_VALUE_FINISHED)
            return weft_values_complain("finishes chunk %u a second time", chunk);
        value.flags |= WEFT_VALUE_FINISHED;
    }
    const struct weft_ref *to = &step->destination;
    if (!write_value(values, area_of(values, runner, to->buffer),
                     to->buffer == WEFT_BUFFER_CELL ? to->slot : chunk, &value, set))
        return "needs more memory than is allowed";
    return NULL;
}

const char *weft_values_apply(struct weft_values *values, uint32_t runner, const struct weft_step *step,
                              const struct weft_spot *sources, int source_count, int *unsupported)
{
    for (uint32_t i = 0; i < step->span; i++) {
        if (step->chunk + i < values->followed_first || step->chunk + i >= values->followed_end)
            continue;
        const char *wrong =
            apply_one(values, runner, step, step->chunk + i, sources, source_count, unsupported);
        if (wrong)
            return wrong;
    }
    return NULL;
}

struct weft_value weft_value_output(const struct weft_values *values, uint32_t runner, uint32_t chunk,
                                    const uint64_t **set)
{
    struct weft_spot place = {.runner = runner, .buffer = WEFT_BUFFER_OUTPUT};
    *set = values->words ? values->sets : NULL;
    return read_value(values, &place, chunk, values->sets);
}
