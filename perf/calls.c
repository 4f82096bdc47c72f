/* SPDX-License-Identifier: Apache-2.0 */
/* All calls have the same parameters, whether they need them or not. */
#include "perf/calls.h"

PERF_CALL(allgather)
{
    (void)op;
    return weft_allgather(comm, send, recv, shape->count, dtype, options);
}

PERF_CALL(allgatherv)
{
    (void)op;
    return weft_allgatherv(comm, send, shape->count, recv, shape->counts, NULL, dtype, options);
}

PERF_CALL(allreduce)
{
    return weft_allreduce(comm, send, recv, shape->count, dtype, op, options);
}

PERF_CALL(alltoall)
{
    (void)op;
    return weft_alltoall(comm, send, recv, shape->count, dtype, options);
}

/* What a rank sends to another is as much as it gets from it. */
PERF_CALL(alltoallv)
{
    (void)op;
    return weft_alltoallv(comm, send, shape->counts, NULL, recv, shape->counts, NULL, dtype, options);
}

PERF_CALL(barrier)
{
    (void)shape, (void)send, (void)recv, (void)dtype, (void)op;
    return weft_barrier(comm, options);
}

PERF_CALL(broadcast)
{
    (void)op;
    return weft_broadcast(comm, send, recv, shape->count, dtype, shape->root, options);
}

PERF_CALL(gather)
{
    (void)op;
    return weft_gather(comm, send, recv, shape->count, dtype, shape->root, options);
}

PERF_CALL(gatherv)
{
    (void)op;
    return weft_gatherv(comm, send, shape->count, recv, shape->counts, NULL, dtype, shape->root, options);
}

PERF_CALL(reduce)
{
    return weft_reduce(comm, send, recv, shape->count, dtype, op, shape->root, options);
}

PERF_CALL(reduce_scatter)
{
    return weft_reduce_scatter(comm, send, recv, shape->count, dtype, op, options);
}

PERF_CALL(reduce_scatterv)
{
    return weft_reduce_scatterv(comm, send, recv, shape->counts, dtype, op, options);
}

PERF_CALL(scatter)
{
    (void)op;
    return weft_scatter(comm, send, recv, shape->count, dtype, shape->root, options);
}

PERF_CALL(scatterv)
{
    (void)op;
    return weft_scatterv(comm, send, shape->counts, NULL, recv, shape->count, dtype, shape->root, options);
}

PERF_CALL(sendrecv)
{
    int right = (shape->rank + 1) % shape->ranks, left = (shape->rank + shape->ranks - 1) % shape->ranks;
    (void)op;
    return weft_sendrecv(comm, send, shape->count, right, 0, recv, shape->count, left, 0, dtype, NULL,
                         options);
}
