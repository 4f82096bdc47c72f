/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/plan_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BASE   0x9e3779b97f4a7c15u /* odd, so that no power of it is 0 */
#define BIT_FOREIGN (1ull << 63)

uint64_t plan_data_draw(struct plan_data *data)
{
    uint64_t x = data->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
    x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44du;
    return x ^ (x >> 33);
}

/* --- layout -------------------------------------------------------------------------------------------- */

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory)
        abort();
    return memory;
}

static int is_blocks(const struct plan_data *data)
{
    return data->collective != WEFT_ALLREDUCE && data->collective != WEFT_BROADCAST &&
           data->collective != WEFT_REDUCE && data->collective != WEFT_BARRIER;
}

/* The same for all ranks that have to do with the block. Half of unequal blocks are empty or small. */
static size_t block_size(const struct plan_data *data, uint32_t from, uint32_t to)
{
    uint64_t x = (data->seed + from) * 0x9e3779b97f4a7c15u + to * 0xc2b2ae3d27d4eb4fu;
    x ^= x >> 29;
    if (!data->unequal)
        return data->count;
    return x % 4 == 0 ? 0 : x / 4 % (data->count + 1);
}

/* rank, receives: whose buffer, and which, of an alltoall. gaps: 0 for none between blocks, otherwise whatever. */
static void lay_out(const struct plan_data *data, struct layout *layout, uint32_t rank, int receives,
                    uint32_t gaps)
{
    layout->at = allocate(data->chunks + 1, sizeof *layout->at);
    layout->size = allocate(data->chunks + 1, sizeof *layout->size);
    size_t at = gaps;
    for (uint32_t chunk = 0; chunk < data->chunks; chunk++) {
        size_t first = (size_t)((unsigned __int128)chunk * data->count / data->chunks);
        size_t end = (size_t)((unsigned __int128)(chunk + 1) * data->count / data->chunks);
        layout->size[chunk] = end - first;
        if (is_blocks(data))
            layout->size[chunk] = data->collective != WEFT_ALLTOALL ? block_size(data, 0, chunk)
                                  : receives                        ? block_size(data, chunk, rank)
                                                                    : block_size(data, rank, chunk);
        layout->at[chunk] = at;
        at += layout->size[chunk] + (gaps ? 1 + (chunk + gaps) % 3 : 0);
    }
    layout->total = at;
}

static void release(struct layout *layout)
{
    free(layout->at);
    free(layout->size);
}

int plan_data_in_window(const struct plan_data *data, uint32_t rank, unsigned buffer, uint32_t chunk)
{
    int input = buffer == WEFT_BUFFER_INPUT, is_root = data->root == (int64_t)rank;
    uint32_t end = is_blocks(data) ? data->ranks : data->chunks;
    if (chunk >= end)
        return 0;
    switch (data->collective) {
    case WEFT_BROADCAST:
        return !input || is_root;
    case WEFT_REDUCE:
        return input || is_root;
    case WEFT_ALLGATHER:
        return !input || chunk == rank;
    case WEFT_GATHER:
        return input ? chunk == rank : is_root;
    case WEFT_SCATTER:
        return input ? is_root : chunk == rank;
    case WEFT_REDUCE_SCATTER:
        return input || chunk == rank;
    default:
        return 1;
    }
}

/* --- data ---------------------------------------------------------------------------------------------- */

static struct element *garbage(struct plan_data *data, size_t count)
{
    struct element *memory = allocate(count, sizeof *memory);
    for (size_t i = 0; i < count; i++) {
        memory[i] = (struct element){
            plan_data_draw(data), plan_data_draw(data), plan_data_draw(data), TEXT_BASE, BIT_FOREIGN, NAN, 0};
    }
    return memory;
}

static void fill_input(struct plan_data *data, uint32_t rank)
{
    struct plan_memory *memory = &data->memories[rank];
    for (uint32_t chunk = 0; chunk < data->chunks; chunk++) {
        if (!plan_data_in_window(data, rank, WEFT_BUFFER_INPUT, chunk))
            continue;
        for (size_t i = 0; i < memory->input_layout.size[chunk]; i++) {
            struct element *element = &memory->input[memory->input_layout.at[chunk] + i];
            element->bits = 1ull << rank % 60;
            element->real = (float)(int64_t)(plan_data_draw(data) >> 40) / 1000 - 8000;
        }
    }
}

static struct element *copy_of(const struct element *memory, size_t count)
{
    struct element *copy = allocate(count, sizeof *copy);
    memcpy(copy, memory, count * sizeof *copy);
    return copy;
}

static void memory_open(struct plan_data *data, const struct weft_plan *plan, uint32_t rank)
{
    struct plan_memory *memory = &data->memories[rank];
    int same = plan->in_place && data->collective != WEFT_ALLTOALL;
    lay_out(data, &memory->input_layout, rank, 0, data->unequal ? 1 + rank : 0);
    lay_out(data, &memory->output_layout, rank, 1, data->unequal ? 2 + rank - (uint32_t)same : 0);
    lay_out(data, &memory->temp_layout, 0, 0, 0);
    for (uint32_t chunk = 0; chunk < data->chunks; chunk++) {
        if (memory->temp_layout.size[chunk] > memory->cell_size)
            memory->cell_size = memory->temp_layout.size[chunk];
    }
    memory->input = garbage(data, memory->input_layout.total);
    fill_input(data, rank);
    memory->output = same ? memory->input : garbage(data, memory->output_layout.total);
    memory->temp = garbage(data, memory->temp_layout.total);
    memory->cells = garbage(data, plan->cells * memory->cell_size);
    memory->input_kept = copy_of(memory->input, memory->input_layout.total);
    memory->output_kept = copy_of(memory->output, memory->output_layout.total);
}

void plan_data_open(struct plan_data *data, const struct weft_plan *const *plans, size_t count, uint64_t seed)
{
    *data = (struct plan_data){.collective = plans[0]->collective,
                               .ranks = plans[0]->ranks,
                               .chunks = plans[0]->chunks,
                               .root = plans[0]->root,
                               .unequal = (int)plans[0]->unequal,
                               .count = count,
                               .seed = seed,
                               .random = seed};
    data->memories = allocate(data->ranks, sizeof *data->memories);
    for (uint32_t rank = 0; rank < data->ranks; rank++)
        memory_open(data, plans[rank], rank);
}

void plan_data_close(struct plan_data *data)
{
    for (uint32_t rank = 0; rank < data->ranks; rank++) {
        struct plan_memory *memory = &data->memories[rank];
        if (memory->output != memory->input)
            free(memory->output);
        free(memory->input);
        free(memory->temp);
        free(memory->cells);
        free(memory->input_kept);
        free(memory->output_kept);
        release(&memory->input_layout);
        release(&memory->output_layout);
        release(&memory->temp_layout);
    }
    free(data->memories);
}

/* --- operations ---------------------------------------------------------------------------------------- */

/* Depends on which side is which, and on what was put together first. */
static uint64_t order_of(uint64_t left, uint64_t right)
{
    uint64_t mixed = left * 0xd6e8feb86659fd93u + (right ^ right >> 32);
    return (mixed ^ mixed >> 29) * 0xcaf649a9d5a5b9c5u;
}

void plan_data_combine(struct element *sum, const struct element *right)
{
    sum->whole += right->whole;
    sum->order = order_of(sum->order, right->order);
    sum->text = sum->text * right->power + right->text;
    sum->power *= right->power;
    sum->bits |= right->bits;
    sum->real += right->real;
}

void plan_data_finish(const struct plan_data *data, struct element *element)
{
    element->whole = 3 * element->whole + 7;
    element->real /= (float)data->ranks;
}

/* --- what must come out -------------------------------------------------------------------------------- */

static const struct element *given(const struct plan_data *data, uint32_t rank, uint32_t chunk, size_t i)
{
    const struct plan_memory *memory = &data->memories[rank];
    return &memory->input_kept[memory->input_layout.at[chunk] + i];
}

/* The sum in the order of ranks, or in strict mode's: the first pairs of ranks stand for one place each, then places at
 * half the distance, and so on. */
static struct element sum_of(const struct plan_data *data, uint32_t chunk, size_t i, int strict)
{
    struct element sum, places[64];
    uint32_t width = 1, pairs;
    while (2 * width <= data->ranks)
        width *= 2;
    pairs = data->ranks - width;
    sum = *given(data, 0, chunk, i);
    for (uint32_t rank = 1; !strict && rank < data->ranks; rank++)
        plan_data_combine(&sum, given(data, rank, chunk, i));
    for (uint32_t place = 0; strict && place < width; place++) {
        places[place] = *given(data, place < pairs ? 2 * place : place + pairs, chunk, i);
        if (place < pairs)
            plan_data_combine(&places[place], given(data, 2 * place + 1, chunk, i));
    }
    for (; strict && width > 1; width /= 2) {
        for (uint32_t place = 0; place < width / 2; place++)
            plan_data_combine(&places[place], &places[place + width / 2]);
    }
    if (strict)
        sum = places[0];
    plan_data_finish(data, &sum);
    return sum;
}

static const char *judge_sum(const struct plan_data *data, uint32_t chunk, size_t i,
                             const struct element *got, int strict, int ordered)
{
    struct element sum = sum_of(data, chunk, i, strict);
    const struct plan_memory *first = &data->memories[0];
    if (got->whole != sum.whole || !(fabsf(got->real - sum.real) < 0.1f))
        return "a sum is wrong";
    if (strict && got->order != sum.order)
        return "a sum is not put together in strict mode's order";
    if (ordered && got->text != sum.text)
        return "a sum is not put together in the order of ranks";
    if (data->collective != WEFT_ALLREDUCE)
        return NULL;
    const struct element *same = &first->output[first->output_layout.at[chunk] + i];
    if (memcmp(&got->real, &same->real, sizeof got->real) != 0)
        return "ranks have different bits";
    return got->order == same->order ? NULL : "ranks put values together in different order";
}

static const char *judge_element(const struct plan_data *data, uint32_t rank, uint32_t chunk, size_t i,
                                 int strict, int ordered)
{
    const struct plan_memory *memory = &data->memories[rank];
    const struct element *got = &memory->output[memory->output_layout.at[chunk] + i], *wanted;
    switch (data->collective) {
    case WEFT_BROADCAST:
    case WEFT_SCATTER:
        wanted = given(data, (uint32_t)data->root, chunk, i);
        break;
    case WEFT_ALLGATHER:
    case WEFT_GATHER:
        wanted = given(data, chunk, chunk, i);
        break;
    case WEFT_ALLTOALL:
        wanted = given(data, chunk, rank, i);
        break;
    case WEFT_BARRIER:
        return got->bits == (1ull << data->ranks) - 1 ? NULL : "a rank has not heard of all others";
    default:
        return judge_sum(data, chunk, i, got, strict, ordered);
    }
    return memcmp(got, wanted, sizeof *got) == 0 ? NULL : "an element is not the one that was sent";
}

/* Everything that the rank may not write. */
static int untouched(const struct plan_data *data, uint32_t rank)
{
    const struct plan_memory *memory = &data->memories[rank];
    const struct layout *layout = &memory->output_layout;
    char *ours = allocate(layout->total, 1);
    int same = 1;
    for (uint32_t chunk = 0; chunk < data->chunks; chunk++) {
        if (plan_data_in_window(data, rank, WEFT_BUFFER_OUTPUT, chunk))
            memset(ours + layout->at[chunk], 1, layout->size[chunk]);
    }
    for (size_t i = 0; i < layout->total; i++)
        same &= ours[i] || memcmp(&memory->output[i], &memory->output_kept[i], sizeof *memory->output) == 0;
    free(ours);
    if (memory->input != memory->output)
        same &= memcmp(memory->input, memory->input_kept,
                       memory->input_layout.total * sizeof *memory->input) == 0;
    return same;
}

const char *plan_data_judge(const struct plan_data *data, int strict, int ordered)
{
    for (uint32_t rank = 0; rank < data->ranks; rank++) {
        const struct layout *layout = &data->memories[rank].output_layout;
        for (uint32_t chunk = 0; chunk < data->chunks; chunk++) {
            if (!plan_data_in_window(data, rank, WEFT_BUFFER_OUTPUT, chunk))
                continue;
            for (size_t i = 0; i < layout->size[chunk]; i++) {
                const char *wrong = judge_element(data, rank, chunk, i, strict, ordered);
                if (wrong)
                    return wrong;
            }
        }
        if (!untouched(data, rank))
            return "memory was written that is not the rank's to write";
    }
    return NULL;
}
