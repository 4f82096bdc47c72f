#include "perf/calls.h"

PERF_CALL(allreduce)
{
    return weft_allreduce(comm, send, recv, shape->count, dtype, op);
}
