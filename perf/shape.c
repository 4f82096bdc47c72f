/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends and receives how much (operations.h). */
#include "perf/operations.h"

#include <stdlib.h>

#include "perf/data.h"

/* elements times part over whole, for elements too many to multiply; part is at most whole. */
static size_t portion(size_t elements, size_t part, size_t whole)
{
    return elements / whole * part + elements % whole * part / whole;
}

/* The block of weight + 1 parts of 1 + 2 + ... + ranks. Blocks end where the portion of all blocks up to them does, so
 * that they add up. */
static size_t unequal(size_t elements, int weight, int ranks)
{
    size_t before = (size_t)weight * ((size_t)weight + 1) / 2,
           whole = (size_t)ranks * ((size_t)ranks + 1) / 2;
    return portion(elements, before + (size_t)weight + 1, whole) - portion(elements, before, whole);
}

static int is_alltoall(const struct perf_operation *operation)
{
    return operation->content == PERF_FROM_EACH && operation->sends == PERF_WHOLE;
}

/* The index-th block in rank's whole. */
static size_t block(const struct perf_operation *operation, size_t elements, int rank, int index, int ranks)
{
    if (!(operation->traits & PERF_UNEQUAL))
        return elements / (size_t)ranks;
    return unequal(elements, is_alltoall(operation) ? (rank + index) % ranks : index, ranks);
}

static size_t sum(const size_t *counts, int first)
{
    size_t total = 0;
    for (int i = 0; i < first; i++)
        total += counts[i];
    return total;
}

static size_t extent(enum perf_extent extent, const struct perf_shape *shape)
{
    return extent == PERF_NOTHING ? 0 : extent == PERF_BLOCK ? shape->counts[shape->rank] : shape->total;
}

/* Where the parts lie when there is one buffer: the block inside the whole, where the rank has both. */
static void place(struct perf_shape *shape, const struct perf_operation *operation)
{
    size_t before = sum(shape->counts, shape->rank);
    if (operation->sends == PERF_BLOCK && operation->receives == PERF_WHOLE && shape->recv)
        shape->send_at = before;
    if (operation->sends == PERF_WHOLE && operation->receives == PERF_BLOCK && shape->send)
        shape->recv_at = before;
}

int perf_shape_make(struct perf_shape *shape, const struct perf_operation *operation, size_t elements,
                    int rank, int ranks, int root)
{
    int has_blocks = operation->sends == PERF_BLOCK || operation->receives == PERF_BLOCK ||
                     operation->content == PERF_FROM_EACH;
    struct perf_shape made = {.rank = rank,
                              .ranks = ranks,
                              .root = operation->traits & PERF_ROOTED ? root : -1,
                              .elements = elements,
                              .total = elements,
                              .count = elements,
                              .counts = calloc((size_t)ranks, sizeof *made.counts)};
    if (!made.counts)
        return -1;
    for (int i = 0; i < ranks; i++)
        made.counts[i] = block(operation, elements, rank, i, ranks);
    if (has_blocks) {
        made.total = sum(made.counts, ranks);
        made.count = made.counts[rank];
    }
    if (!(operation->traits & PERF_ROOT_SENDS) || rank == root)
        made.send = extent(operation->sends, &made);
    if (!(operation->traits & PERF_ROOT_RECEIVES) || rank == root)
        made.recv = extent(operation->receives, &made);
    place(&made, operation);
    *shape = made;
    return 0;
}

void perf_shape_release(struct perf_shape *shape)
{
    free(shape->counts);
    shape->counts = NULL;
}

int perf_shape_stretches(const struct perf_shape *shape, const struct perf_operation *operation)
{
    if (shape->recv == 0)
        return 0;
    return operation->content == PERF_FROM_EACH ? shape->ranks : 1;
}

void perf_shape_stretch(const struct perf_shape *shape, const struct perf_operation *operation, int index,
                        struct perf_stretch *stretch)
{
    *stretch = (struct perf_stretch){.count = shape->recv};
    if (operation->receives == PERF_BLOCK)
        stretch->position = sum(shape->counts, shape->rank);
    switch (operation->content) {
    case PERF_FROM_ALL:
        stretch->source = PERF_REDUCED;
        break;
    case PERF_FROM_ROOT:
        stretch->source = shape->root;
        break;
    case PERF_FROM_LEFT:
        stretch->source = (shape->rank + shape->ranks - 1) % shape->ranks;
        break;
    default:
        stretch->source = index;
        stretch->at = sum(shape->counts, index);
        stretch->count = shape->counts[index];
        for (int before = 0; is_alltoall(operation) && before < shape->rank; before++)
            stretch->position += block(operation, shape->elements, index, before, shape->ranks);
    }
}
