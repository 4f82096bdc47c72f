#include "algos/verify_values.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *complain(const char *format, ...)
{
    static _Thread_local char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

/* A bijection on 64 bits whose every output bit depends on every input bit (the finalizer of splitmix64: G.
 * Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t contribution(const struct weft_values *values, uint32_t rank, uint32_t chunk)
{
    return scramble(scramble(values->seed + rank) ^ (0x9e3779b97f4a7c15u * ((uint64_t)chunk + 1)));
}

static uint32_t start_of(const struct weft_cell *cell)
{
    return (uint32_t)(cell->origin >> 32);
}

static uint32_t length_of(const struct weft_cell *cell)
{
    return (uint32_t)cell->origin;
}

static uint64_t interval(uint64_t start, uint64_t length)
{
    return start << 32 | length;
}

static struct weft_cell *cell_at(const struct weft_values *values, uint32_t lane, unsigned buffer,
                                 uint32_t chunk)
{
    return values->cells[(size_t)lane * 2 + (buffer == WEFT_BUFFER_TEMP)] + chunk;
}

static uint64_t *set_at(const struct weft_values *values, uint32_t lane, unsigned buffer, uint32_t chunk)
{
    return values->sets[(size_t)lane * 2 + (buffer == WEFT_BUFFER_TEMP)] + (size_t)chunk * values->words;
}

/* What a rank itself contributes. */
static struct weft_cell leaf(const struct weft_values *values, uint32_t rank, uint32_t chunk)
{
    struct weft_cell cell;
    cell.origin = values->rotation ? interval(rank, 1) : contribution(values, rank, chunk);
    cell.trace = scramble(values->rotation ? 1 : (uint64_t)rank + 1);
    cell.trace = (cell.trace & ~(uint64_t)WEFT_CELL_FLAGS) | WEFT_CELL_DEFINED;
    return cell;
}

int weft_values_open(struct weft_values *values, const struct weft_plan *const *plans, uint32_t ranks,
                     int rotation, uint64_t seed, uint64_t memory_max)
{
    *values = (struct weft_values){.plans = plans,
                                   .ranks = ranks,
                                   .chunks = plans[0]->chunks,
                                   .lanes = rotation ? 1 : ranks,
                                   .rotation = rotation,
                                   .words = rotation || ranks >= 512 ? 0 : (ranks + 63) / 64,
                                   .seed = scramble(seed + 0x9e3779b97f4a7c15u)};
    size_t chunk_size = sizeof(struct weft_cell) + values->words * sizeof(uint64_t);
    uint64_t buffers = 0;
    for (uint32_t lane = 0; lane < values->lanes; lane++)
        buffers += plans[lane]->temp_chunks ? 2 : 1;
    if (buffers > memory_max / values->chunks / chunk_size)
        return weft_fail(WEFT_NOMEM, "verifying %u ranks with %u chunks needs more than %" PRIu64 " bytes",
                         ranks, values->chunks, memory_max);
    values->cells = calloc((size_t)values->lanes * 2, sizeof *values->cells);
    values->sets = calloc((size_t)values->lanes * 2, sizeof *values->sets);
    int full = values->cells && values->sets;
    for (size_t i = 0; full && i < (size_t)values->lanes * 2; i++) {
        if (i % 2 == 1 && !plans[i / 2]->temp_chunks)
            continue;
        values->cells[i] = calloc(values->chunks, sizeof **values->cells);
        values->sets[i] = values->words ? calloc((size_t)values->chunks * values->words, 8) : NULL;
        full = values->cells[i] && (values->sets[i] || !values->words);
    }
    if (!full) {
        weft_values_close(values);
        return weft_fail(WEFT_NOMEM, "verifying %u ranks: no memory for values", ranks);
    }
    return WEFT_OK;
}

void weft_values_close(struct weft_values *values)
{
    for (size_t i = 0; i < (size_t)values->lanes * 2; i++) {
        if (values->cells)
            free(values->cells[i]);
        if (values->sets)
            free(values->sets[i]);
    }
    free(values->cells);
    free(values->sets);
    values->cells = NULL;
    values->sets = NULL;
}

void weft_values_reset(struct weft_values *values)
{
    for (uint32_t lane = 0; lane < values->lanes; lane++) {
        if (values->cells[lane * 2 + 1])
            memset(values->cells[lane * 2 + 1], 0, values->chunks * sizeof(struct weft_cell));
        for (uint32_t chunk = 0; chunk < values->chunks; chunk++) {
            struct weft_cell *cell = cell_at(values, lane, WEFT_BUFFER_OUTPUT, chunk);
            *cell = (struct weft_cell){0, 0};
            if (!values->plans[lane]->in_place)
                continue;
            *cell = leaf(values, lane, chunk);
            if (values->words) {
                uint64_t *set = set_at(values, lane, WEFT_BUFFER_OUTPUT, chunk);
                memset(set, 0, values->words * sizeof *set);
                set[lane / 64] |= 1ull << lane % 64;
            }
        }
    }
}

/* Reads one chunk of a place, the exact set into set[] when sets are kept. */
static struct weft_cell read_cell(const struct weft_values *values, const struct weft_place *place,
                                  uint32_t chunk, uint64_t *set)
{
    struct weft_cell cell;
    uint32_t at = (uint32_t)(((uint64_t)chunk + place->shift) % values->chunks);
    if (place->buffer == WEFT_BUFFER_INPUT && !values->plans[place->lane]->in_place) {
        cell = leaf(values, place->lane, at);
        memset(set, 0, values->words * sizeof *set);
        if (values->words)
            set[place->lane / 64] = 1ull << place->lane % 64;
    } else {
        cell = *cell_at(values, place->lane, place->buffer, at);
        if (values->words)
            memcpy(set, set_at(values, place->lane, place->buffer, at), values->words * sizeof *set);
    }
    if (place->rotate)
        cell.origin = interval(((uint64_t)start_of(&cell) + place->rotate) % values->ranks, length_of(&cell));
    return cell;
}

/* The union of two intervals. 0, or 1 when they overlap, 2 when they are not adjacent. */
static int join(const struct weft_values *values, const struct weft_cell *left, const struct weft_cell *right,
                uint64_t *joined)
{
    uint32_t n = values->ranks;
    uint64_t length = (uint64_t)length_of(left) + length_of(right);
    uint32_t after = (uint32_t)(((uint64_t)start_of(right) + n - start_of(left)) % n);
    uint32_t before = (uint32_t)(((uint64_t)start_of(left) + n - start_of(right)) % n);
    if (after < length_of(left) || before < length_of(right))
        return 1;
    if (after == length_of(left))
        *joined = interval(start_of(left), length);
    else if (before == length_of(right))
        *joined = interval(start_of(right), length);
    else
        return 2;
    return 0;
}

/* *left = *left op *right. The trace mixes both sides differently, so that order and grouping show; in the
 * rotation method also how far each begins from the start of the union. */
static const char *combine(const struct weft_values *values, struct weft_cell *left,
                           const struct weft_cell *right, uint64_t *left_set, const uint64_t *right_set,
                           int *unsupported)
{
    uint64_t offsets = 0;
    if ((left->trace | right->trace) & WEFT_CELL_FINISHED)
        return complain("adds to a value that was finished already");
    if (values->rotation) {
        uint64_t joined = 0;
        int failed = join(values, left, right, &joined);
        if (failed == 1)
            return complain("adds contributions twice (of %u ranks from %u on, and of %u ranks from %u on)",
                            length_of(left), start_of(left), length_of(right), start_of(right));
        *unsupported |= failed == 2;
        uint64_t n = values->ranks, start = joined >> 32;
        offsets = interval((start_of(left) + n - start) % n, (start_of(right) + n - start) % n);
        left->origin = joined;
    } else {
        left->origin += right->origin;
    }
    for (uint32_t i = 0; i < values->words; i++) {
        if (left_set[i] & right_set[i])
            return complain("adds the contribution of rank %d twice",
                            (int)i * 64 + __builtin_ctzll(left_set[i] & right_set[i]));
        left_set[i] |= right_set[i];
    }
    uint64_t trace =
        scramble(scramble((left->trace | WEFT_CELL_FLAGS) * 3) + right->trace * 5 + scramble(offsets + 7));
    left->trace = (trace & ~(uint64_t)WEFT_CELL_FLAGS) | WEFT_CELL_DEFINED;
    return NULL;
}

static const char *buffer_name(unsigned buffer)
{
    return buffer == WEFT_BUFFER_TEMP ? "TEMP" : "OUTPUT";
}

const char *weft_values_apply(struct weft_values *values, uint32_t lane, const struct weft_step *step,
                              const struct weft_place *sources, int source_count, int *unsupported)
{
    uint64_t set[8], other_set[8];
    for (uint32_t chunk = step->chunk; chunk < step->chunk + step->span; chunk++) {
        struct weft_cell cell = {0, 0};
        for (int i = 0; i < source_count; i++) {
            struct weft_cell other = read_cell(values, &sources[i], chunk, i == 0 ? set : other_set);
            if (!(other.trace & WEFT_CELL_DEFINED))
                return complain("reads chunk %u of rank %u's %s before it was written", chunk,
                                sources[i].lane, buffer_name(sources[i].buffer));
            const char *wrong = NULL;
            if (i == 0)
                cell = other;
            else
                wrong = combine(values, &cell, &other, set, other_set, unsupported);
            if (wrong)
                return wrong;
        }
        if (step->flags & WEFT_STEP_FINISH) {
            if (cell.trace & WEFT_CELL_FINISHED)
                return complain("finishes chunk %u a second time", chunk);
            cell.trace |= WEFT_CELL_FINISHED;
        }
        *cell_at(values, lane, step->destination.buffer, chunk) = cell;
        if (values->words)
            memcpy(set_at(values, lane, step->destination.buffer, chunk), set, values->words * sizeof *set);
    }
    return NULL;
}

/* The first rank that a chunk lacks, for the error's wording. */
static uint32_t first_missing(const struct weft_values *values, const uint64_t *set)
{
    for (uint32_t rank = 0; rank < values->ranks; rank++) {
        if (!(set[rank / 64] >> rank % 64 & 1))
            return rank;
    }
    return UINT32_MAX;
}

static const char *final_cell(const struct weft_values *values, uint32_t lane, uint32_t chunk, uint64_t total)
{
    const struct weft_cell *cell = cell_at(values, lane, WEFT_BUFFER_OUTPUT, chunk);
    if (!(cell->trace & WEFT_CELL_DEFINED))
        return complain("ends without a value in chunk %u", chunk);
    if (values->words) {
        uint32_t missing = first_missing(values, set_at(values, lane, WEFT_BUFFER_OUTPUT, chunk));
        if (missing != UINT32_MAX)
            return complain("ends without rank %u's contribution in chunk %u", missing, chunk);
    }
    if (values->rotation && length_of(cell) != values->ranks)
        return complain("ends with %u contributions in chunk %u, expected %u", length_of(cell), chunk,
                        values->ranks);
    if (!values->rotation && cell->origin != total)
        return complain("ends with contributions missing or doubled in chunk %u", chunk);
    if (!(cell->trace & WEFT_CELL_FINISHED))
        return complain("ends with chunk %u not finished", chunk);
    return NULL;
}

/* All ranks must hold the same expression: compared with rank 0's, or, rotated, with rank 0's chunk 0. */
static int same_trace(const struct weft_values *values, uint32_t lane, uint32_t chunk)
{
    uint32_t n = values->ranks;
    const struct weft_cell *cell = cell_at(values, lane, WEFT_BUFFER_OUTPUT, chunk);
    const struct weft_cell *first = cell_at(values, 0, WEFT_BUFFER_OUTPUT, values->rotation ? 0 : chunk);
    if (values->rotation && ((uint64_t)start_of(first) + chunk) % n != start_of(cell))
        return 0;
    return cell->trace == first->trace;
}

const char *weft_values_final(const struct weft_values *values, uint32_t *rank)
{
    for (uint32_t chunk = 0; chunk < values->chunks; chunk++) {
        uint64_t total = 0;
        for (uint32_t i = 0; !values->rotation && i < values->ranks; i++)
            total += contribution(values, i, chunk);
        for (uint32_t lane = 0; lane < values->lanes; lane++) {
            const char *wrong = final_cell(values, lane, chunk, total);
            if (!wrong && !same_trace(values, lane, chunk))
                wrong = complain("ends with chunk %u added up in another order than %s", chunk,
                                 values->rotation ? "chunk 0" : "rank 0");
            *rank = lane;
            if (wrong)
                return wrong;
        }
    }
    return NULL;
}
