/* SPDX-License-Identifier: Apache-2.0 */
/* What a call would use, without making it. */
#include "base/fork.h"
#include "comm/collective.h"
#include "comm/fastpath.h"
#include "comm/op.h"

const char *weft_comm_transport_name(const struct weft_comm *comm)
{
    static const char *const names[2][4] = {
        {"shm", "shm+ofi", "shm+verbs", "shm+verbs+ofi"},
        {"none", "ofi", "verbs", "verbs+ofi"},
    };
    int network = 0; /* a rank brings an address only where it is needed */
    if (comm->ranks == 1)
        return "none";
    for (int r = 0; r < comm->ranks && !comm->one_host; r++)
        network |= (comm->members[r].sizes[WEFT_OFI] != 0) | (comm->members[r].sizes[WEFT_VERBS] != 0) << 1;
    return names[comm->no_shm][network];
}

/* Allreduce has a fast way of its own, which is no part of weft_collective_fast_algorithm(). */
static enum weft_algorithm algorithm_of(const struct weft_comm *comm, const struct weft_operands *operands)
{
    enum weft_algorithm algorithm = weft_collective_fast_algorithm(comm, operands);
    if (operands->collective == WEFT_ALLREDUCE && weft_op_is_builtin(operands->op) &&
        weft_allreduce_takes_fastpath(comm, operands->count * operands->element_bytes))
        algorithm = WEFT_ALGO_RD;
    return algorithm ? algorithm : weft_collective_choose(comm, operands);
}

int weft_describe(const weft_comm *comm, const char *collective, size_t count, weft_dtype dtype, weft_op op,
                  int root, const char **algorithm, const char **transport)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !collective || !algorithm || !transport)
        return weft_fail(WEFT_INVALID, "%s is NULL",
                         !comm         ? "comm"
                         : !collective ? "collective"
                         : !algorithm  ? "algorithm"
                                       : "transport");
    int which = weft_collective_parse(collective);
    if (which < 0)
        return weft_fail(WEFT_INVALID,
                         "collective is '%s': expected a name like 'allreduce' or 'reduce_scatter'",
                         collective);
    struct weft_operands operands = {.collective = (enum weft_collective)which,
                                     .root =
                                         weft_collective_has_root((enum weft_collective)which) ? root : -1,
                                     .count = which == WEFT_BARRIER ? 0 : count,
                                     .dtype = dtype,
                                     .op = op};
    int status = weft_operands_check_shape(comm, &operands);
    if (status != WEFT_OK)
        return status;
    *algorithm = comm->ranks == 1 ? "copy" : weft_algorithm_name(algorithm_of(comm, &operands));
    *transport = weft_comm_transport_name(comm);
    return WEFT_OK;
}
