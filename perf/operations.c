#include "perf/operations.h"

#include "perf/calls.h"
#include "perf/data.h"

/* What a link carries, compared with size over time, as nccl-tests' PERFORMANCE.md derives it. Gather and scatter are not on
 * that page; its programs take the factor of allgather for them, and one for sendrecv. */
static double twice_all_but_own(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

static double once(int ranks)
{
    (void)ranks;
    return 1;
}

const struct perf_operation perf_operations[] = {
    {"allreduce", "every rank gets the reduction of all ranks' data", PERF_WHOLE, PERF_WHOLE, PERF_FROM_ALL,
     PERF_REDUCES | PERF_HAS_IN_PLACE, twice_all_but_own, perf_call_allreduce},
    {"sendrecv", "every rank sends to the next and receives from the one before", PERF_WHOLE, PERF_WHOLE,
     PERF_FROM_LEFT, 0, once, perf_call_sendrecv},
};
const int perf_operation_count = sizeof perf_operations / sizeof *perf_operations;

void perf_operation_accepts(const struct perf_operation *operation, struct perf_accepts *accepts)
{
    unsigned flags =
        PERF_TAKES_ALGORITHM | PERF_TAKES_COUNTS | PERF_TAKES_WARMUPS | PERF_TAKES_CHECK | PERF_TAKES_CSV;
    if (operation->content != PERF_FROM_NOBODY)
        flags |= PERF_TAKES_SIZES | PERF_TAKES_TYPE | PERF_TAKES_MEMORY;
    if (operation->traits & PERF_REDUCES)
        flags |= PERF_TAKES_OP;
    if (operation->traits & PERF_ROOTED)
        flags |= PERF_TAKES_ROOT;
    if (operation->traits & PERF_HAS_IN_PLACE)
        flags |= PERF_TAKES_PLACEMENT;
    *accepts = (struct perf_accepts){.flags = flags};
}
