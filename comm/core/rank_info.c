/* SPDX-License-Identifier: Apache-2.0 */
/* What the public may know of a rank. */
#include <stdio.h>

#include "base/fork.h"
#include "base/struct.h"
#include "comm/core/comm.h"

int weft_comm_get_rank_info(const weft_comm *comm, int rank, weft_rank_info *info)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !info)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "info" : "comm");
    static const struct weft_struct about = WEFT_STRUCT(weft_rank_info, WEFT_RANK_INFO_INIT, host);
    int status = weft_struct_check(&about, info);
    if (status != WEFT_OK)
        return status;
    if (rank < 0 || rank >= comm->ranks)
        return weft_fail(WEFT_INVALID, "rank is %d: expected 0 to %d", rank, comm->ranks - 1);
    const struct weft_member *member = &comm->members[rank];
    weft_rank_info made = WEFT_RANK_INFO_INIT;
    snprintf(made.host, sizeof made.host, "%s", member->host);
    made.pid = member->pid;
    made.node = member->placement.node;
    made.local_rank = member->placement.local_rank;
    made.local_ranks = member->placement.local_ranks;
    made.host_index = (int)member->host_index;
    weft_struct_fill(&about, info, 0, &made);
    return WEFT_OK;
}
