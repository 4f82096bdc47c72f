/* SPDX-License-Identifier: Apache-2.0 */
/* What the public may know of a rank. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "comm/comm.h"

static void describe(weft_rank_info *info, const char *host, int pid, const struct weft_placement *placement)
{
    snprintf(info->host, sizeof info->host, "%s", host);
    info->pid = pid;
    info->node = placement->node;
    info->local_rank = placement->local_rank;
    info->local_ranks = placement->local_ranks;
}

/* A communicator of one rank has no members. */
static void describe_self(weft_rank_info *info)
{
    struct weft_placement placement;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    weft_pmix_placement(&placement);
    describe(info, host, (int)getpid(), &placement);
}

int weft_comm_get_rank_info(const weft_comm *comm, int rank, weft_rank_info *info)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !info)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "info" : "comm");
    if (info->size < sizeof(size_t))
        return weft_fail(WEFT_INVALID, "weft_rank_info.size is %zu: use WEFT_RANK_INFO_INIT", info->size);
    if (rank < 0 || rank >= comm->ranks)
        return weft_fail(WEFT_INVALID, "rank is %d: expected 0 to %d", rank, comm->ranks - 1);
    weft_rank_info made = {.size = info->size};
    if (comm->members)
        describe(&made, comm->members[rank].host, comm->members[rank].pid, &comm->members[rank].placement);
    else
        describe_self(&made);
    memcpy(info, &made, info->size < sizeof made ? info->size : sizeof made);
    return WEFT_OK;
}
