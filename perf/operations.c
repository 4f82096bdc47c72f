/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/operations.h"

#include "perf/calls.h"
#include "perf/data.h"

/* What a link carries, compared with size over time, as nccl-tests' PERFORMANCE.md derives it. Gather and scatter are not on
 * that page; its programs take the factor of allgather for them, and one for sendrecv. */
static double twice_all_but_own(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

static double all_but_own(int ranks)
{
    return (ranks - 1.0) / ranks;
}

static double once(int ranks)
{
    (void)ranks;
    return 1;
}

const struct perf_operation perf_operations[] = {
    {"allreduce", "allreduce", "every rank gets the reduction of all ranks' data", PERF_WHOLE, PERF_WHOLE,
     PERF_FROM_ALL, PERF_REDUCES | PERF_HAS_IN_PLACE, twice_all_but_own, perf_call_allreduce},
    {"broadcast", "broadcast", "every rank gets the root's data", PERF_WHOLE, PERF_WHOLE, PERF_FROM_ROOT,
     PERF_ROOTED | PERF_ROOT_SENDS | PERF_HAS_IN_PLACE, once, perf_call_broadcast},
    {"reduce", "reduce", "the root gets the reduction of all ranks' data", PERF_WHOLE, PERF_WHOLE,
     PERF_FROM_ALL, PERF_ROOTED | PERF_ROOT_RECEIVES | PERF_REDUCES | PERF_HAS_IN_PLACE, once,
     perf_call_reduce},
    {"allgather", "allgather", "every rank gets every rank's block", PERF_BLOCK, PERF_WHOLE, PERF_FROM_EACH,
     PERF_HAS_IN_PLACE, all_but_own, perf_call_allgather},
    {"allgatherv", "allgather", "allgather of unequal blocks", PERF_BLOCK, PERF_WHOLE, PERF_FROM_EACH,
     PERF_UNEQUAL | PERF_HAS_IN_PLACE, all_but_own, perf_call_allgatherv},
    {"gather", "gather", "the root gets every rank's block", PERF_BLOCK, PERF_WHOLE, PERF_FROM_EACH,
     PERF_ROOTED | PERF_ROOT_RECEIVES | PERF_HAS_IN_PLACE, all_but_own, perf_call_gather},
    {"gatherv", "gather", "gather of unequal blocks", PERF_BLOCK, PERF_WHOLE, PERF_FROM_EACH,
     PERF_ROOTED | PERF_ROOT_RECEIVES | PERF_UNEQUAL | PERF_HAS_IN_PLACE, all_but_own, perf_call_gatherv},
    {"scatter", "scatter", "every rank gets its block of the root's data", PERF_WHOLE, PERF_BLOCK,
     PERF_FROM_ROOT, PERF_ROOTED | PERF_ROOT_SENDS | PERF_HAS_IN_PLACE, all_but_own, perf_call_scatter},
    {"scatterv", "scatter", "scatter of unequal blocks", PERF_WHOLE, PERF_BLOCK, PERF_FROM_ROOT,
     PERF_ROOTED | PERF_ROOT_SENDS | PERF_UNEQUAL | PERF_HAS_IN_PLACE, all_but_own, perf_call_scatterv},
    {"reduce_scatter", "reduce_scatter", "every rank gets its block of the reduction of all ranks' data",
     PERF_WHOLE, PERF_BLOCK, PERF_FROM_ALL, PERF_REDUCES | PERF_HAS_IN_PLACE, all_but_own,
     perf_call_reduce_scatter},
    {"reduce_scatterv", "reduce_scatter", "reduce_scatter with unequal blocks", PERF_WHOLE, PERF_BLOCK,
     PERF_FROM_ALL, PERF_REDUCES | PERF_UNEQUAL | PERF_HAS_IN_PLACE, all_but_own, perf_call_reduce_scatterv},
    {"alltoall", "alltoall", "every rank gets a block of every rank's data", PERF_WHOLE, PERF_WHOLE,
     PERF_FROM_EACH, PERF_HAS_IN_PLACE, all_but_own, perf_call_alltoall},
    {"alltoallv", "alltoall", "alltoall of unequal blocks", PERF_WHOLE, PERF_WHOLE, PERF_FROM_EACH,
     PERF_UNEQUAL | PERF_HAS_IN_PLACE, all_but_own, perf_call_alltoallv},
    {"barrier", "barrier", "every rank waits for every other", PERF_NOTHING, PERF_NOTHING, PERF_FROM_NOBODY,
     0, once, perf_call_barrier},
    {"sendrecv", NULL, "every rank sends to the next and receives from the one before", PERF_WHOLE,
     PERF_WHOLE, PERF_FROM_LEFT, 0, once, perf_call_sendrecv},
};
const int perf_operation_count = sizeof perf_operations / sizeof *perf_operations;

void perf_operation_accepts(const struct perf_operation *operation, struct perf_accepts *accepts)
{
    unsigned flags = PERF_TAKES_ALGORITHM | PERF_TAKES_COUNTS | PERF_TAKES_WARMUPS | PERF_TAKES_CHECK |
                     PERF_TAKES_CSV | PERF_TAKES_COLUMNS | PERF_TAKES_NCCL;
    if (operation->content != PERF_FROM_NOBODY)
        flags |=
            PERF_TAKES_SIZES | PERF_TAKES_TYPE | PERF_TAKES_MEMORY | PERF_TAKES_DEVICE | PERF_TAKES_CLOCK;
    if (operation->traits & PERF_REDUCES)
        flags |= PERF_TAKES_OP;
    if (operation->traits & PERF_ROOTED)
        flags |= PERF_TAKES_ROOT;
    if (operation->traits & PERF_HAS_IN_PLACE)
        flags |= PERF_TAKES_PLACEMENT;
    /* nccl-tests' programs all take all flags, and scripts pass them: a reduction or a root where there is none. */
    *accepts = (struct perf_accepts){.flags = flags, .ignores = PERF_TAKES_OP | PERF_TAKES_ROOT};
}
