/* SPDX-License-Identifier: Apache-2.0 */
/* How launches look: which kernel, how many blocks, and where the head, vectors and tail of each piece lie. */
#include "devmem/cuda/kernels.h"

#include <string.h>

/* Enough for a multiprocessor's 2048 threads; blocks that do not fit at once wait their turn. */
#define BLOCKS_PER_MULTIPROCESSOR 8
/* Elements that a thread takes where everything goes element by element. */
#define ELEMENTS_PER_THREAD 4
/* Vectors of a device collective's largest step for which one more block is worth meeting it. */
#define COLLECTIVE_STEPS_PER_BLOCK (2 * WEFT_KERNEL_COLLECTIVE_THREADS)
#define COLLECTIVE_STEP_WORDS_MAX                                                                            \
    (WEFT_KERNEL_STEP_WORDS + WEFT_DEVICE_SOURCES_MAX + WEFT_DEVICE_DESTINATIONS_MAX)

#define VECTOR_BYTES WEFT_KERNEL_VECTOR_BYTES

#define NAME_OF(name, ...)            "weft_cuda_" #name,
#define NAME_OF_FIXED(name, n, f)     "weft_cuda_" #name "_" #n,
#define NAME_OF_COLLECTIVE(name, ...) "weft_cuda_" #name "_collective",
static const char *const names[WEFT_KERNEL_COUNT] = {WEFT_KERNEL_FAMILIES(NAME_OF, NAME_OF) WEFT_KERNEL_FIXED(
    NAME_OF_FIXED) WEFT_KERNEL_REDUCTIONS(NAME_OF_COLLECTIVE, NAME_OF_COLLECTIVE)};

/* Bytes that a family goes by outside of whole vectors. */
#define SUM_EDGE(name, lane, ...)         [WEFT_KERNEL_##name] = (lane) / 8,
#define OTHER_EDGE(name, lane, edge, ...) [WEFT_KERNEL_##name] = (edge) / 8,
static const uint8_t edge_bytes[WEFT_KERNEL_COUNT] = {WEFT_KERNEL_FAMILIES(SUM_EDGE, OTHER_EDGE)};

/* Kernels for a fixed number of sources, one past the family they belong to, and vectors per thread. */
#define FIXED_ROW(name, n, f) {WEFT_KERNEL_##name, (n), (f), WEFT_KERNEL_##name##_##n},
static const struct {
    int family;
    uint32_t source_count, in_flight;
    int kernel;
} fixed[] = {WEFT_KERNEL_FIXED(FIXED_ROW)};

#define FIXED_COUNT (sizeof fixed / sizeof *fixed)

/* Families, one more so that 0 is none. */
#define F(name) (WEFT_KERNEL_##name + 1)
#define INTEGERS(type, wraps)                                                                                \
    {                                                                                                        \
        [WEFT_SUM] = F(type##_sum), [WEFT_AVG] = F(type##_sum), [WEFT_PROD] = F(wraps##_prod),               \
        [WEFT_MAX] = F(type##_max), [WEFT_MIN] = F(type##_min), [WEFT_AND] = F(bits_and),                    \
        [WEFT_OR] = F(bits_or), [WEFT_XOR] = F(bits_xor)                                                     \
    }
#define FLOATS(type)                                                                                         \
    {                                                                                                        \
        [WEFT_SUM] = F(type##_sum), [WEFT_AVG] = F(type##_sum), [WEFT_PROD] = F(type##_prod),                \
        [WEFT_MAX] = F(type##_max), [WEFT_MIN] = F(type##_min)                                               \
    }
#define COMPLEXES(type)                                                                                      \
    {                                                                                                        \
        [WEFT_SUM] = F(type##_sum), [WEFT_AVG] = F(type##_sum), [WEFT_PROD] = F(type##_prod)                 \
    }
static const uint8_t families[WEFT_DTYPE_COUNT][WEFT_OP_COUNT] = {
    [WEFT_INT8] = INTEGERS(int8, int8),
    [WEFT_UINT8] = INTEGERS(uint8, int8),
    [WEFT_INT16] = INTEGERS(int16, int16),
    [WEFT_UINT16] = INTEGERS(uint16, int16),
    [WEFT_INT32] = INTEGERS(int32, int32),
    [WEFT_UINT32] = INTEGERS(uint32, int32),
    [WEFT_INT64] = INTEGERS(int64, int64),
    [WEFT_UINT64] = INTEGERS(uint64, int64),
    [WEFT_FLOAT8_E4M3] = FLOATS(e4m3),
    [WEFT_FLOAT8_E5M2] = FLOATS(e5m2),
    [WEFT_FLOAT16] = FLOATS(float16),
    [WEFT_BFLOAT16] = FLOATS(bfloat16),
    [WEFT_FLOAT32] = FLOATS(float32),
    [WEFT_FLOAT64] = FLOATS(float64),
    [WEFT_COMPLEX64] = COMPLEXES(complex64),
    [WEFT_COMPLEX128] = COMPLEXES(complex128),
    [WEFT_BOOL] = {[WEFT_SUM] = F(bool_or),
                   [WEFT_MAX] = F(bool_or),
                   [WEFT_PROD] = F(bool_and),
                   [WEFT_MIN] = F(bool_and),
                   [WEFT_AND] = F(bool_and),
                   [WEFT_OR] = F(bool_or),
                   [WEFT_XOR] = F(bool_xor)},
};

const char *weft_kernel_name(int kernel)
{
    return kernel >= 0 && kernel < WEFT_KERNEL_COUNT ? names[kernel] : NULL;
}

/* WEFT_UNSUPPORTED where there is none. */
static int family_find(weft_dtype dtype, weft_op op)
{
    if ((unsigned)dtype >= WEFT_DTYPE_COUNT || (unsigned)op >= WEFT_OP_COUNT || !families[dtype][op])
        return WEFT_UNSUPPORTED;
    return families[dtype][op] - 1;
}

/* The family of a reduction, or why there is none. */
static int family_of(const struct weft_device_reduction *reduction)
{
    if (reduction->size < sizeof *reduction)
        return WEFT_INVALID;
    int family = family_find(reduction->dtype, reduction->op);
    if (family < 0)
        return family;
    if (reduction->source_count < 1 || reduction->source_count > WEFT_KERNEL_SOURCES ||
        reduction->destination_count < 1 || reduction->destination_count > WEFT_DEVICE_DESTINATIONS_MAX)
        return WEFT_INVALID;
    if (reduction->scalar &&
        (reduction->dtype == WEFT_BOOL || (reduction->op != WEFT_SUM && reduction->op != WEFT_AVG)))
        return WEFT_UNSUPPORTED;
    return family;
}

static size_t skew_of(const void *address, size_t bytes)
{
    return (uintptr_t)address & (bytes - 1);
}

/* Some address is not a multiple of what elements are loaded by: 16 bytes are loaded as two times 8. */
static int goes_bytewise(const struct weft_kernel_piece *piece, size_t edge)
{
    size_t unit = edge < 8 ? edge : 8, skew = skew_of(piece->destinations[0], unit);
    if (piece->destinations[1])
        skew |= skew_of(piece->destinations[1], unit);
    for (uint32_t s = 0; s < piece->source_count; s++)
        skew |= skew_of(piece->sources[s], unit);
    return skew != 0;
}

/* Lays out head, vectors and tail of size bytes. A source that is not aligned where the destination is needs the bytes of the
 * aligned vectors around each vector: so many before it that the head grows by one vector, so many behind it that the last one may be
 * left to the tail. */
static void piece_lay_out(struct weft_kernel_piece *piece, size_t edge, uint64_t size)
{
    const unsigned char *to = piece->destinations[0], *second = piece->destinations[1];
    if (goes_bytewise(piece, edge))
        piece->flags |= WEFT_KERNEL_BYTEWISE;
    piece->vectors = 0;
    piece->head_bytes = size;
    if (skew_of(to, edge) || (second && skew_of(second, VECTOR_BYTES) != skew_of(to, VECTOR_BYTES)))
        return;
    uint64_t head = -(uintptr_t)to & (VECTOR_BYTES - 1), before = 0, behind = 0;
    for (uint32_t s = 0; s < piece->source_count; s++) {
        uint64_t shift = skew_of(piece->sources[s] + head, VECTOR_BYTES);
        before = shift > before ? shift : before;
        if (shift && VECTOR_BYTES - shift > behind)
            behind = VECTOR_BYTES - shift;
    }
    if (head < before)
        head += VECTOR_BYTES;
    if (size < head + behind + VECTOR_BYTES)
        return;
    piece->head_bytes = head;
    piece->vectors = (size - head - behind) / VECTOR_BYTES;
}

/* Whether all sources are aligned where the destination is, as kernels for a fixed number of sources want it. */
static int piece_is_aligned(const struct weft_kernel_piece *piece)
{
    size_t skew = skew_of(piece->destinations[0], VECTOR_BYTES), other = 0;
    for (uint32_t s = 0; s < piece->source_count; s++)
        other |= skew_of(piece->sources[s], VECTOR_BYTES) ^ skew;
    return !other && piece->vectors;
}

/* Threads that a piece keeps busy with one step each. */
static uint64_t piece_steps(const struct weft_kernel_piece *piece)
{
    uint64_t slow = (piece->count + ELEMENTS_PER_THREAD - 1) / ELEMENTS_PER_THREAD;
    return piece->vectors ? piece->vectors : slow;
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
        wanted += (piece_steps(&batch->pieces[p]) + tile - 1) / tile;
    launch->grid = 0;
    launch->block = WEFT_KERNEL_THREADS;
    for (uint32_t p = 0; p < batch->piece_count; p++) {
        uint64_t blocks = (piece_steps(&batch->pieces[p]) + tile - 1) / tile;
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

static void piece_reduce(struct weft_kernel_piece *piece, const struct weft_device_reduction *reduction,
                         int family)
{
    uint64_t size = reduction->count * weft_dtype_size(reduction->dtype);
    piece->source_count = reduction->source_count;
    for (uint32_t s = 0; s < reduction->source_count; s++)
        piece->sources[s] = reduction->sources[s];
    for (uint32_t d = 0; d < reduction->destination_count; d++)
        piece->destinations[d] = reduction->destinations[d];
    piece->count = size / edge_bytes[family];
    piece->finish = reduction->op == WEFT_AVG ? reduction->finish : 0;
    if (reduction->scalar) {
        piece->flags |= WEFT_KERNEL_SCALED;
        memcpy(piece->scalar, reduction->scalar, weft_dtype_size(reduction->dtype));
    }
    piece_lay_out(piece, edge_bytes[family], size);
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
    int family = family_of(&reductions[0]), taken = 0;
    if (family < 0)
        return family;
    launch->batch.piece_count = launch->batch.reserved = 0;
    for (; (size_t)taken < count && taken < INT32_MAX; taken++) {
        const struct weft_device_reduction *reduction = &reductions[taken];
        if (family_of(reduction) != family)
            break;
        if (reduction->count == 0)
            continue;
        if (launch->batch.piece_count == WEFT_KERNEL_PIECES)
            break;
        piece_reduce(piece_begin(&launch->batch), reduction, family);
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
        piece_lay_out(piece, 1, copies[taken].size);
    }
    kernel_choose(launch, WEFT_KERNEL_copy, &in_flight);
    blocks_share(launch, device, in_flight);
    return taken;
}

/* --- device collectives */

static uint32_t head_of(uint32_t kind, uint32_t sources, uint32_t destinations)
{
    return kind | sources << 8 | destinations << 16;
}

/* The words of a reduction or copy; how many, none when it has no elements. */
static uint32_t piece_encode(uint64_t *words, const struct weft_device_collective *collective,
                             const struct weft_device_step *step, int family)
{
    struct weft_kernel_piece piece = {.source_count = step->source_count};
    int is_copy = step->source_count == 1 && !step->finish;
    size_t edge = is_copy ? 1 : edge_bytes[family];
    uint64_t size = step->count * weft_dtype_size(collective->dtype);
    uint32_t used = WEFT_KERNEL_STEP_WORDS;
    if (!size)
        return 0;
    for (uint32_t d = 0; d < step->destination_count; d++)
        words[used++] = (uintptr_t)(piece.destinations[d] = step->destinations[d]);
    for (uint32_t s = 0; s < step->source_count; s++)
        words[used++] = (uintptr_t)(piece.sources[s] = step->sources[s]);
    piece_lay_out(&piece, edge, size);
    words[0] = head_of(is_copy ? WEFT_KERNEL_STEP_COPY : WEFT_KERNEL_STEP_REDUCE, step->source_count,
                       step->destination_count) |
               (piece.vectors ? piece.head_bytes << 24 : 0) | (uint64_t)piece.flags << 32;
    words[1] = collective->op == WEFT_AVG ? step->finish : 0;
    words[2] = size / edge;
    words[3] = piece.vectors;
    return used;
}

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
    int family = device_runs(device) ? family_find(collective->dtype, collective->op) : WEFT_UNSUPPORTED;
    if (family < 0)
        return family;
    for (; at < collective->step_count && used + COLLECTIVE_STEP_WORDS_MAX <= WEFT_KERNEL_COLLECTIVE_WORDS;
         at++) {
        const struct weft_device_step *step = &collective->steps[at];
        if (step->kind == WEFT_DEVICE_STEP_REDUCE) {
            uint32_t length = piece_encode(words + used, collective, step, family);
            uint64_t vectors = length ? words[used + 3] : 0, count = length ? words[used + 2] : 0;
            uint64_t steps = vectors ? vectors : count;
            largest = steps > largest ? steps : largest;
            used += length;
        } else {
            int is_signal = step->kind == WEFT_DEVICE_STEP_SIGNAL;
            words[used++] = head_of(is_signal ? WEFT_KERNEL_STEP_SIGNAL : WEFT_KERNEL_STEP_AWAIT, 0, 0);
            words[used++] = (uintptr_t)step->word;
            words[used++] = step->value;
        }
    }
    launch->collective.word_count = used;
    launch->kernel = WEFT_KERNEL_COLLECTIVES + family;
    launch->grid = collective_blocks(device, largest);
    launch->block = WEFT_KERNEL_COLLECTIVE_THREADS;
    return (int)(at - first);
}
