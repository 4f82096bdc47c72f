/* SPDX-License-Identifier: Apache-2.0 */
/* The public collectives: each puts its arguments where comm/calls/collective.h looks for them. */
#include "comm/calls/collective.h"

/* They are written where they are used, field by field: a copy of what has just been written in pieces waits until the pieces are in the
 * cache, and so for all that was written before them, as a line that another processor has. That was a third of a small broadcast.
 *
 * Calls of equal blocks, or of none. */
static inline void equal(struct weft_operands *operands, enum weft_collective collective, const void *send,
                         void *recv, size_t count, weft_dtype dtype)
{
    operands->collective = collective;
    operands->root = -1;
    operands->dtype = dtype;
    operands->op = WEFT_SUM;
    operands->send = send;
    operands->recv = recv;
    operands->count = count;
    operands->algorithm = WEFT_ALGO_AUTO;
    operands->unequal = 0;
    operands->send_blocks.counts = operands->send_blocks.offsets = NULL;
    operands->recv_blocks.counts = operands->recv_blocks.offsets = NULL;
    operands->element_bytes = 0;
    operands->send_blocks_count = operands->recv_blocks_count = 0;
    operands->in_place = 0;
}

static inline void rooted(struct weft_operands *operands, enum weft_collective collective, const void *send,
                          void *recv, size_t count, weft_dtype dtype, int root)
{
    equal(operands, collective, send, recv, count, dtype);
    operands->root = root;
}

static inline void reducing(struct weft_operands *operands, enum weft_collective collective, const void *send,
                            void *recv, size_t count, weft_dtype dtype, weft_op op, int root)
{
    rooted(operands, collective, send, recv, count, dtype, root);
    operands->op = op;
}

/* Every rank's block on one side, the own one on the other. */
static void collecting(struct weft_operands *operands, enum weft_collective collective, const void *send,
                       size_t count, void *recv, const size_t *counts, const size_t *offsets,
                       weft_dtype dtype, int root)
{
    rooted(operands, collective, send, recv, count, dtype, root);
    operands->unequal = 1;
    operands->recv_blocks = (struct weft_exec_blocks){counts, offsets};
}

static void distributing(struct weft_operands *operands, enum weft_collective collective, const void *send,
                         const size_t *counts, const size_t *offsets, void *recv, size_t count,
                         weft_dtype dtype, int root)
{
    rooted(operands, collective, send, recv, count, dtype, root);
    operands->unequal = 1;
    operands->send_blocks = (struct weft_exec_blocks){counts, offsets};
}

static void exchanging(struct weft_operands *operands, const void *send, const size_t *send_counts,
                       const size_t *send_offsets, void *recv, const size_t *recv_counts,
                       const size_t *recv_offsets, weft_dtype dtype)
{
    equal(operands, WEFT_ALLTOALL, send, recv, 0, dtype);
    operands->unequal = 1;
    operands->send_blocks = (struct weft_exec_blocks){send_counts, send_offsets};
    operands->recv_blocks = (struct weft_exec_blocks){recv_counts, recv_offsets};
}

static void scattering_sums(struct weft_operands *operands, const weft_comm *comm, const void *send,
                            void *recv, const size_t *counts, weft_dtype dtype, weft_op op)
{
    size_t count = comm && counts ? counts[comm->rank] : 0;
    distributing(operands, WEFT_REDUCE_SCATTER, send, counts, NULL, recv, count, dtype, -1);
    operands->op = op;
}

int weft_allreduce(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, weft_op op,
                   const weft_call_options *options)
{
    struct weft_operands operands;
    reducing(&operands, WEFT_ALLREDUCE, send, recv, count, dtype, op, -1);
    return weft_collective_call(comm, &operands, options);
}

int weft_broadcast(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                   const weft_call_options *options)
{
    struct weft_operands operands;
    rooted(&operands, WEFT_BROADCAST, send, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_reduce(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, weft_op op,
                int root, const weft_call_options *options)
{
    struct weft_operands operands;
    reducing(&operands, WEFT_REDUCE, send, recv, count, dtype, op, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_allgather(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                   const weft_call_options *options)
{
    struct weft_operands operands;
    equal(&operands, WEFT_ALLGATHER, send, recv, count, dtype);
    return weft_collective_call(comm, &operands, options);
}

int weft_allgatherv(weft_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                    const size_t *offsets, weft_dtype dtype, const weft_call_options *options)
{
    struct weft_operands operands;
    collecting(&operands, WEFT_ALLGATHER, send, count, recv, counts, offsets, dtype, -1);
    return weft_collective_call(comm, &operands, options);
}

int weft_gather(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                const weft_call_options *options)
{
    struct weft_operands operands;
    rooted(&operands, WEFT_GATHER, send, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_gatherv(weft_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                 const size_t *offsets, weft_dtype dtype, int root, const weft_call_options *options)
{
    struct weft_operands operands;
    collecting(&operands, WEFT_GATHER, send, count, recv, counts, offsets, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_scatter(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                 const weft_call_options *options)
{
    struct weft_operands operands;
    rooted(&operands, WEFT_SCATTER, send, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_scatterv(weft_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                  size_t count, weft_dtype dtype, int root, const weft_call_options *options)
{
    struct weft_operands operands;
    distributing(&operands, WEFT_SCATTER, send, counts, offsets, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_reduce_scatter(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                        weft_op op, const weft_call_options *options)
{
    struct weft_operands operands;
    reducing(&operands, WEFT_REDUCE_SCATTER, send, recv, count, dtype, op, -1);
    return weft_collective_call(comm, &operands, options);
}

int weft_reduce_scatterv(weft_comm *comm, const void *send, void *recv, const size_t *counts,
                         weft_dtype dtype, weft_op op, const weft_call_options *options)
{
    struct weft_operands operands;
    scattering_sums(&operands, comm, send, recv, counts, dtype, op);
    return weft_collective_call(comm, &operands, options);
}

int weft_alltoall(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                  const weft_call_options *options)
{
    struct weft_operands operands;
    equal(&operands, WEFT_ALLTOALL, send, recv, count, dtype);
    return weft_collective_call(comm, &operands, options);
}

int weft_alltoallv(weft_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                   void *recv, const size_t *recv_counts, const size_t *recv_offsets, weft_dtype dtype,
                   const weft_call_options *options)
{
    struct weft_operands operands;
    exchanging(&operands, send, send_counts, send_offsets, recv, recv_counts, recv_offsets, dtype);
    return weft_collective_call(comm, &operands, options);
}

int weft_barrier(weft_comm *comm, const weft_call_options *options)
{
    struct weft_operands operands;
    equal(&operands, WEFT_BARRIER, NULL, NULL, 0, WEFT_UINT8);
    return weft_collective_call(comm, &operands, options);
}
