/* SPDX-License-Identifier: Apache-2.0 */
/* How launches look: which kernel, how many blocks, and which pieces. */
#include "devmem/cuda/kernels.h"

#include <string.h>

/* Enough for a multiprocessor's 2048 threads; blocks that do not fit at once wait their turn. */
#define BLOCKS_PER_MULTIPROCESSOR 8
/* Vectors of a device collective's largest step for which one more block is worth meeting it. */
#define COLLECTIVE_STEPS_PER_BLOCK (2 * WEFT_KERNEL_COLLECTIVE_THREADS)

#define NAME_OF(name, ...)            "weft_cuda_" #name,
#define NAME_OF_FIXED(name, n, f)     "weft_cuda_" #name "_" #n,
#define NAME_OF_COLLECTIVE(name, ...) "weft_cuda_" #name "_collective",
static const char *const names[WEFT_KERNEL_COUNT] = {WEFT_KERNEL_FAMILIES(NAME_OF, NAME_OF) WEFT_KERNEL_FIXED(
    NAME_OF_FIXED) WEFT_KERNEL_REDUCTIONS(NAME_OF_COLLECTIVE, NAME_OF_COLLECTIVE)};

/* Kernels for a fixed number of sources, one past the family they belong to, and vectors per thread. */
#define FIXED_ROW(name, n, f) {WEFT_KERNEL_##name, (n), (f), WEFT_KERNEL_##name##_##n},
static const struct {
    int family;
    uint32_t source_count, in_flight;
    int kernel;
} fixed[] = {WEFT_KERNEL_FIXED(FIXED_ROW)};

#define FIXED_COUNT (sizeof fixed / sizeof *fixed)

const char *weft_kernel_name(int kernel)
{
    return kernel >= 0 && kernel < WEFT_KERNEL_COUNT ? names[kernel] : NULL;
}

static size_t skew_of(const void *address)
{
    return (uintptr_t)address & (WEFT_KERNEL_VECTOR_BYTES - 1);
}

/* Whether all sources are aligned where the destination is, as kernels for a fixed number of sources want it. */
static int piece_is_aligned(const struct weft_kernel_piece *piece)
{
    size_t skew = skew_of(piece->destinations[0]), other = 0;
    for (uint32_t s = 0; s < piece->source_count; s++)
        other |= skew_of(piece->sources[s]) ^ skew;
    return !other && piece->vectors;
}

/* The kernel for a number of sources when all pieces can be done by it, the family's general one otherwise. */
static void kernel_choose(struct weft_kernel_launch *launch, int family, uint32_t *in_flight)
{
    const struct weft_kernel_batch *batch = &launch->batch;
    launch->kernel = family;
    *in_flight = 1;
    for (size_t i = 0; i < FIXED_COUNT; i++) {
        int fits = fixed[i].family == family && batch->piece_count > 0;
        for (uint32_t p = 0; fits && p < batch->piece_count; p++) {
            const struct weft_kernel_piece *piece = &batch->pieces[p];
            fits = piece->source_count == fixed[i].source_count && !piece->finish &&
                   !(piece->flags & WEFT_KERNEL_SCALED) && piece_is_aligned(piece);
        }
        if (fits) {
            launch->kernel = fixed[i].kernel;
            *in_flight = fixed[i].in_flight;
        }
    }
}

/* Gives every piece blocks by its share of the work: no more than have something to do, at least one, and together about what the
 * device runs at once. */
static void blocks_share(struct weft_kernel_launch *launch, const struct weft_kernel_device *device,
                         uint32_t in_flight)
{
    struct weft_kernel_batch *batch = &launch->batch;
    uint64_t room =
        (uint64_t)(device->multiprocessors > 0 ? device->multiprocessors : 1) * BLOCKS_PER_MULTIPROCESSOR;
    uint64_t tile = (uint64_t)WEFT_KERNEL_THREADS * in_flight, wanted = 0;
    for (uint32_t p = 0; p < batch->piece_count; p++)
        wanted += (weft_kernel_piece_steps(&batch->pieces[p]) + tile - 1) / tile;
    launch->grid = 0;
    launch->block = WEFT_KERNEL_THREADS;
    for (uint32_t p = 0; p < batch->piece_count; p++) {
        uint64_t blocks = (weft_kernel_piece_steps(&batch->pieces[p]) + tile - 1) / tile;
        if (wanted > room)
            blocks = (uint64_t)((double)blocks / (double)wanted * (double)room);
        batch->pieces[p].first_block = launch->grid;
        launch->grid += blocks ? (uint32_t)blocks : 1;
    }
}

static struct weft_kernel_piece *piece_begin(struct weft_kernel_batch *batch)
{
    struct weft_kernel_piece *piece = &batch->pieces[batch->piece_count++];
    memset(piece, 0, sizeof *piece);
    return piece;
}

static int device_runs(const struct weft_kernel_device *device)
{
    return device->major >= 8;
}

int weft_kernel_reduce(struct weft_kernel_launch *launch, const struct weft_kernel_device *device,
                       const struct weft_device_reduction *reductions, size_t count)
{
    if (!device_runs(device))
        return WEFT_UNSUPPORTED;
    if (count == 0)
        return WEFT_INVALID;
    int family = weft_kernel_family_of(&reductions[0]), taken = 0;
    if (family < 0)
        return family;
    launch->batch.piece_count = launch->batch.reserved = 0;
    for (; (size_t)taken < count && taken < INT32_MAX; taken++) {
        const struct weft_device_reduction *reduction = &reductions[taken];
        if (weft_kernel_family_of(reduction) != family)
            break;
        if (reduction->count == 0)
            continue;
        if (launch->batch.piece_count == WEFT_KERNEL_PIECES)
            break;
        weft_kernel_piece_reduce(piece_begin(&launch->batch), reduction, family);
    }
    uint32_t in_flight;
    kernel_choose(launch, family, &in_flight);
    blocks_share(launch, device, in_flight);
    return taken;
}

int weft_kernel_copy(struct weft_kernel_launch *launch, const struct weft_kernel_device *device,
                     const struct weft_kernel_copy *copies, size_t count)
{
    int taken = 0;
    uint32_t in_flight;
    if (!device_runs(device))
        return WEFT_UNSUPPORTED;
    if (count == 0)
        return WEFT_INVALID;
    launch->batch.piece_count = launch->batch.reserved = 0;
    for (; (size_t)taken < count && taken < INT32_MAX; taken++) {
        if (copies[taken].size == 0)
            continue;
        if (launch->batch.piece_count == WEFT_KERNEL_PIECES)
            break;
        struct weft_kernel_piece *piece = piece_begin(&launch->batch);
        piece->source_count = 1;
        piece->sources[0] = copies[taken].source;
        piece->destinations[0] = copies[taken].destination;
        piece->count = copies[taken].size;
        weft_kernel_piece_lay_out(piece, 1, copies[taken].size);
    }
    kernel_choose(launch, WEFT_KERNEL_copy, &in_flight);
    blocks_share(launch, device, in_flight);
    return taken;
}

/* --- device collectives */

/* Blocks that find work in so many vectors, or elements without. All of them must be on the device at a time, as they wait for
 * each other: one in four multiprocessors is free for them unless device collectives have taken it. */
static uint32_t collective_blocks(const struct weft_kernel_device *device, uint64_t steps)
{
    uint64_t room = device->multiprocessors > 4 ? (uint64_t)device->multiprocessors / 4 : 1;
    uint64_t wanted = (steps + COLLECTIVE_STEPS_PER_BLOCK - 1) / COLLECTIVE_STEPS_PER_BLOCK;
    room = room < WEFT_KERNEL_COLLECTIVE_BLOCKS ? room : WEFT_KERNEL_COLLECTIVE_BLOCKS;
    wanted = wanted ? wanted : 1;
    return (uint32_t)(wanted < room ? wanted : room);
}

int weft_kernel_collective(struct weft_kernel_collective_launch *launch,
                           const struct weft_kernel_device *device,
                           const struct weft_device_collective *collective, uint32_t first)
{
    uint64_t largest = 0, *words = launch->collective.words;
    uint32_t used = 0, at = first;
    int family =
        device_runs(device) ? weft_kernel_family(collective->dtype, collective->op) : WEFT_UNSUPPORTED;
    if (family < 0)
        return family;
    for (; at < collective->step_count && used + WEFT_KERNEL_STEP_WORDS_MAX <= WEFT_KERNEL_COLLECTIVE_WORDS;
         at++) {
        const struct weft_device_step *step = &collective->steps[at];
        uint32_t length = weft_kernel_step_encode(words + used, collective, step, family);
        if (length && step->kind == WEFT_DEVICE_STEP_REDUCE) {
            uint64_t vectors = words[used + 3], count = words[used + 2];
            uint64_t steps = vectors ? vectors : count;
            largest = steps > largest ? steps : largest;
        }
        used += length;
    }
    launch->collective.word_count = used;
    launch->kernel = WEFT_KERNEL_COLLECTIVES + family;
    launch->grid = collective_blocks(device, largest);
    launch->block = WEFT_KERNEL_COLLECTIVE_THREADS;
    return (int)(at - first);
}
