/* All calls have the same parameters, whether they need them or not. */
#include "perf/calls.h"

PERF_CALL(allreduce)
{
    return weft_allreduce(comm, send, recv, shape->count, dtype, op);
}

PERF_CALL(sendrecv)
{
    int right = (shape->rank + 1) % shape->ranks, left = (shape->rank + shape->ranks - 1) % shape->ranks;
    (void)op;
    return weft_sendrecv(comm, send, shape->count, right, 0, recv, shape->count, left, 0, dtype, NULL);
}
