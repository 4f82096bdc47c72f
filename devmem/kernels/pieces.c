/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/kernels/pieces.h"

#include <string.h>

/* Elements that a thread takes where everything goes element by element. */
#define ELEMENTS_PER_THREAD 4

#define VECTOR_BYTES WEFT_KERNEL_VECTOR_BYTES

#define SUM_EDGE(name, lane, ...)         [WEFT_KERNEL_##name] = (lane) / 8,
#define OTHER_EDGE(name, lane, edge, ...) [WEFT_KERNEL_##name] = (edge) / 8,
static const uint8_t edge_bytes[WEFT_KERNEL_FAMILY_COUNT] = {WEFT_KERNEL_FAMILIES(SUM_EDGE, OTHER_EDGE)};

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

size_t weft_kernel_edge_bytes(int family)
{
    return edge_bytes[family];
}

int weft_kernel_family(weft_dtype dtype, weft_op op)
{
    if ((unsigned)dtype >= WEFT_DTYPE_COUNT || (unsigned)op >= WEFT_OP_COUNT || !families[dtype][op])
        return WEFT_UNSUPPORTED;
    return families[dtype][op] - 1;
}

int weft_kernel_family_of(const struct weft_device_reduction *reduction)
{
    if (reduction->size < sizeof *reduction)
        return WEFT_INVALID;
    int family = weft_kernel_family(reduction->dtype, reduction->op);
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
void weft_kernel_piece_lay_out(struct weft_kernel_piece *piece, size_t edge, uint64_t size)
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

void weft_kernel_piece_reduce(struct weft_kernel_piece *piece, const struct weft_device_reduction *reduction,
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
    weft_kernel_piece_lay_out(piece, edge_bytes[family], size);
}

uint64_t weft_kernel_piece_steps(const struct weft_kernel_piece *piece)
{
    uint64_t slow = (piece->count + ELEMENTS_PER_THREAD - 1) / ELEMENTS_PER_THREAD;
    return piece->vectors ? piece->vectors : slow;
}

/* --- steps of device collectives */

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
    size_t edge = is_copy ? 1 : weft_kernel_edge_bytes(family);
    uint64_t size = step->count * weft_dtype_size(collective->dtype);
    uint32_t used = WEFT_KERNEL_STEP_WORDS;
    if (!size)
        return 0;
    for (uint32_t d = 0; d < step->destination_count; d++)
        words[used++] = (uintptr_t)(piece.destinations[d] = step->destinations[d]);
    for (uint32_t s = 0; s < step->source_count; s++)
        words[used++] = (uintptr_t)(piece.sources[s] = step->sources[s]);
    weft_kernel_piece_lay_out(&piece, edge, size);
    words[0] = head_of(is_copy ? WEFT_KERNEL_STEP_COPY : WEFT_KERNEL_STEP_REDUCE, step->source_count,
                       step->destination_count) |
               (piece.vectors ? piece.head_bytes << 24 : 0) | (uint64_t)piece.flags << 32;
    words[1] = collective->op == WEFT_AVG ? step->finish : 0;
    words[2] = size / edge;
    words[3] = piece.vectors;
    return used;
}

uint32_t weft_kernel_step_encode(uint64_t *words, const struct weft_device_collective *collective,
                                 const struct weft_device_step *step, int family)
{
    if (step->kind == WEFT_DEVICE_STEP_REDUCE)
        return piece_encode(words, collective, step, family);
    words[0] = head_of(
        step->kind == WEFT_DEVICE_STEP_SIGNAL ? WEFT_KERNEL_STEP_SIGNAL : WEFT_KERNEL_STEP_AWAIT, 0, 0);
    words[1] = (uintptr_t)step->word;
    words[2] = step->value;
    return WEFT_KERNEL_STEP_LENGTH(words[0]);
}
