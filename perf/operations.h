/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that weft-perf sweeps over sizes, as data: who sends and receives how much, what must arrive, what to
 * call, and by how much bus bandwidth differs from size over time. */
#ifndef WEFT_PERF_OPERATIONS_H
#define WEFT_PERF_OPERATIONS_H

#include <stddef.h>
#include <weft/weft.h>

#include "perf/options.h"

/* How much of the size a rank's buffer holds: nothing, its own block, or the whole. */
enum perf_extent { PERF_NOTHING, PERF_BLOCK, PERF_WHOLE };

/* Where what arrives comes from. */
enum perf_content {
    PERF_FROM_NOBODY,
    PERF_FROM_ALL,  /* the reduction */
    PERF_FROM_ROOT, /* the root's data */
    PERF_FROM_EACH, /* every rank's block, in order */
    PERF_FROM_LEFT, /* the data of the rank before */
};

/* Traits. */
enum {
    PERF_ROOTED = 1,        /* has a root */
    PERF_ROOT_SENDS = 2,    /* only the root has something to send */
    PERF_ROOT_RECEIVES = 4, /* only the root gets something */
    PERF_UNEQUAL = 8,       /* blocks differ, see perf_shape_make() */
    PERF_REDUCES = 16,
    PERF_HAS_IN_PLACE = 32,
};

/* One rank's part of an operation of one size. Numbers of elements. */
struct perf_shape {
    int rank, ranks, root;   /* root is -1 where there is none */
    size_t elements;         /* as asked for */
    size_t total;            /* what the size column says, in elements */
    size_t count;            /* of this rank's block, or of the whole where there are no blocks */
    size_t send, recv;       /* in this rank's buffers */
    size_t send_at, recv_at; /* where they begin in the one buffer of a call in place */
    size_t *counts;          /* the blocks in the whole that this rank sends or gets; owned */
};

struct perf_operation {
    const char *name, *collective; /* the latter for weft_comm_describe(); NULL: it is none */
    const char *help;
    enum perf_extent sends, receives;
    enum perf_content content;
    unsigned traits;
    double (*bus_factor)(int ranks); /* busbw is so many times algbw */
    int (*call)(weft_comm *comm, const struct perf_shape *shape, const void *send, void *recv,
                weft_dtype dtype, weft_op op, const weft_call_options *options);
};

/* A stretch of what arrives at a rank: count elements at recv + at are those of source from position on. */
struct perf_stretch {
    int source; /* a rank, or PERF_REDUCED */
    size_t at, position, count;
};

extern const struct perf_operation perf_operations[];
extern const int perf_operation_count;

/* Which flags its sweep takes. */
void perf_operation_accepts(const struct perf_operation *operation, struct perf_accepts *accepts);

/* What rank's part is when the whole is elements elements long: what nccl-tests calls its size, which is what the
 * largest buffer of a rank holds. Equal blocks are the quotient of elements and ranks, and total is what is left of
 * elements then. Unequal blocks add up to elements: the block of rank r is as near as can be to (r + 1) parts of 1 + 2 +
 * ... + ranks; from rank r to rank p it is the one of rank (r + p) modulo ranks. 0, or -1 when out of memory. */
int perf_shape_make(struct perf_shape *shape, const struct perf_operation *operation, size_t elements,
                    int rank, int ranks, int root);
void perf_shape_release(struct perf_shape *shape);

/* How many stretches what arrives consists of, and the index-th. */
int perf_shape_stretches(const struct perf_shape *shape, const struct perf_operation *operation);
void perf_shape_stretch(const struct perf_shape *shape, const struct perf_operation *operation, int index,
                        struct perf_stretch *stretch);

#endif
