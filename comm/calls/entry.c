/* SPDX-License-Identifier: Apache-2.0 */
/* The public collectives: each puts its arguments where comm/calls/collective.h looks for them. */
#include "comm/calls/collective.h"

/* Calls of equal blocks, or of none. */
static struct weft_operands equal(enum weft_collective collective, const void *send, void *recv, size_t count,
                                  weft_dtype dtype)
{
    return (struct weft_operands){
        .collective = collective, .root = -1, .send = send, .recv = recv, .count = count, .dtype = dtype};
}

static struct weft_operands rooted(enum weft_collective collective, const void *send, void *recv,
                                   size_t count, weft_dtype dtype, int root)
{
    struct weft_operands operands = equal(collective, send, recv, count, dtype);
    operands.root = root;
    return operands;
}

static struct weft_operands reducing(enum weft_collective collective, const void *send, void *recv,
                                     size_t count, weft_dtype dtype, weft_op op, int root)
{
    struct weft_operands operands = rooted(collective, send, recv, count, dtype, root);
    operands.op = op;
    return operands;
}

/* Every rank's block on one side, the own one on the other. */
static struct weft_operands collecting(enum weft_collective collective, const void *send, size_t count,
                                       void *recv, const size_t *counts, const size_t *offsets,
                                       weft_dtype dtype, int root)
{
    struct weft_operands operands = rooted(collective, send, recv, count, dtype, root);
    operands.unequal = 1;
    operands.recv_blocks = (struct weft_exec_blocks){counts, offsets};
    return operands;
}

static struct weft_operands distributing(enum weft_collective collective, const void *send,
                                         const size_t *counts, const size_t *offsets, void *recv,
                                         size_t count, weft_dtype dtype, int root)
{
    struct weft_operands operands = rooted(collective, send, recv, count, dtype, root);
    operands.unequal = 1;
    operands.send_blocks = (struct weft_exec_blocks){counts, offsets};
    return operands;
}

static struct weft_operands exchanging(const void *send, const size_t *send_counts,
                                       const size_t *send_offsets, void *recv, const size_t *recv_counts,
                                       const size_t *recv_offsets, weft_dtype dtype)
{
    struct weft_operands operands = equal(WEFT_ALLTOALL, send, recv, 0, dtype);
    operands.unequal = 1;
    operands.send_blocks = (struct weft_exec_blocks){send_counts, send_offsets};
    operands.recv_blocks = (struct weft_exec_blocks){recv_counts, recv_offsets};
    return operands;
}

static struct weft_operands scattering_sums(const weft_comm *comm, const void *send, void *recv,
                                            const size_t *counts, weft_dtype dtype, weft_op op)
{
    size_t count = comm && counts ? counts[comm->rank] : 0;
    struct weft_operands operands =
        distributing(WEFT_REDUCE_SCATTER, send, counts, NULL, recv, count, dtype, -1);
    operands.op = op;
    return operands;
}

int weft_allreduce(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, weft_op op,
                   const weft_call_options *options)
{
    struct weft_operands operands = reducing(WEFT_ALLREDUCE, send, recv, count, dtype, op, -1);
    return weft_collective_call(comm, &operands, options);
}

int weft_broadcast(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                   const weft_call_options *options)
{
    struct weft_operands operands = rooted(WEFT_BROADCAST, send, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_reduce(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, weft_op op,
                int root, const weft_call_options *options)
{
    struct weft_operands operands = reducing(WEFT_REDUCE, send, recv, count, dtype, op, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_allgather(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                   const weft_call_options *options)
{
    struct weft_operands operands = equal(WEFT_ALLGATHER, send, recv, count, dtype);
    return weft_collective_call(comm, &operands, options);
}

int weft_allgatherv(weft_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                    const size_t *offsets, weft_dtype dtype, const weft_call_options *options)
{
    struct weft_operands operands = collecting(WEFT_ALLGATHER, send, count, recv, counts, offsets, dtype, -1);
    return weft_collective_call(comm, &operands, options);
}

int weft_gather(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                const weft_call_options *options)
{
    struct weft_operands operands = rooted(WEFT_GATHER, send, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_gatherv(weft_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                 const size_t *offsets, weft_dtype dtype, int root, const weft_call_options *options)
{
    struct weft_operands operands = collecting(WEFT_GATHER, send, count, recv, counts, offsets, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_scatter(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                 const weft_call_options *options)
{
    struct weft_operands operands = rooted(WEFT_SCATTER, send, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_scatterv(weft_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                  size_t count, weft_dtype dtype, int root, const weft_call_options *options)
{
    struct weft_operands operands =
        distributing(WEFT_SCATTER, send, counts, offsets, recv, count, dtype, root);
    return weft_collective_call(comm, &operands, options);
}

int weft_reduce_scatter(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                        weft_op op, const weft_call_options *options)
{
    struct weft_operands operands = reducing(WEFT_REDUCE_SCATTER, send, recv, count, dtype, op, -1);
    return weft_collective_call(comm, &operands, options);
}

int weft_reduce_scatterv(weft_comm *comm, const void *send, void *recv, const size_t *counts,
                         weft_dtype dtype, weft_op op, const weft_call_options *options)
{
    struct weft_operands operands = scattering_sums(comm, send, recv, counts, dtype, op);
    return weft_collective_call(comm, &operands, options);
}

int weft_alltoall(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                  const weft_call_options *options)
{
    struct weft_operands operands = equal(WEFT_ALLTOALL, send, recv, count, dtype);
    return weft_collective_call(comm, &operands, options);
}

int weft_alltoallv(weft_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                   void *recv, const size_t *recv_counts, const size_t *recv_offsets, weft_dtype dtype,
                   const weft_call_options *options)
{
    struct weft_operands operands =
        exchanging(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, dtype);
    return weft_collective_call(comm, &operands, options);
}

int weft_barrier(weft_comm *comm, const weft_call_options *options)
{
    struct weft_operands operands = equal(WEFT_BARRIER, NULL, NULL, 0, WEFT_UINT8);
    return weft_collective_call(comm, &operands, options);
}
