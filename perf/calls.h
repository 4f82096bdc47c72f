/* SPDX-License-Identifier: Apache-2.0 */
/* Each operation's call, with arguments as operations.h's table wants them. */
#ifndef WEFT_PERF_CALLS_H
#define WEFT_PERF_CALLS_H

#include "perf/operations.h"

#define PERF_CALL(name)                                                                                      \
    int perf_call_##name(weft_comm *comm, const struct perf_shape *shape, const void *send, void *recv,      \
                         weft_dtype dtype, weft_op op, const weft_call_options *options)

PERF_CALL(allgather);
PERF_CALL(allgatherv);
PERF_CALL(allreduce);
PERF_CALL(alltoall);
PERF_CALL(alltoallv);
PERF_CALL(barrier);
PERF_CALL(broadcast);
PERF_CALL(gather);
PERF_CALL(gatherv);
PERF_CALL(reduce);
PERF_CALL(reduce_scatter);
PERF_CALL(reduce_scatterv);
PERF_CALL(scatter);
PERF_CALL(scatterv);
PERF_CALL(sendrecv);

#endif
