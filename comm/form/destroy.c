/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a communicator: its ranks meet once more, and each frees what it has. */
#include <stdio.h>
#include <stdlib.h>

#include "algos/hosts.h"
#include "base/fd.h"
#include "base/fork.h"
#include "comm/core/driven.h"
#include "comm/core/judge.h"
#include "comm/core/queue.h"
#include "comm/core/work.h"
#include "comm/exec/fastpath.h"
#include "comm/form/create.h"
#include "comm/form/ending.h"
#include "comm/exec/group.h"

static void free_comm(struct weft_comm *comm)
{
    struct weft_context *context = comm->context;
    weft_context_lock(context);
    if (comm->exec)
        weft_context_unroute(context, comm->driven.id);
    weft_fastpath_close(comm->fastpath);
    if (comm->exec)
        weft_exec_fail(comm->exec, WEFT_CANCELLED);
    weft_queue_fail(comm);
    weft_p2p_close(comm->p2p);
    for (int r = 0; r < comm->ranks && comm->exec; r++) {
        struct weft_link *link = weft_exec_link(comm->exec, (uint32_t)r);
        if (link)
            weft_context_unlink(context, link);
    }
    weft_exec_destroy(comm->exec);
    weft_driven_forget(comm);
    weft_context_unlock(context);
    weft_bootstrap_stop(comm->bootstrap); /* the judge is called by it, and calls it */
    weft_judge_close(comm->judge);
    weft_bootstrap_close(comm->bootstrap);
    weft_inbox_close(&comm->inbox);
    for (int r = 0; r < comm->ranks && comm->members; r++)
        free(comm->members[r].addresses);
    free(comm->members);
    weft_hosts_free(comm->hosts);
    free(comm->used_tags);
    free(comm->name);
    for (int i = 0; i < WEFT_KEPT_CALLS; i++)
        weft_plans_put(comm->kept[i].plan);
    weft_plans_clear(&comm->plans);
    free(comm);
    weft_context_lock(context); /* the losses of this thread */
    weft_context_unlock(context);
    atomic_fetch_sub(&context->users, 1);
}

void weft_comm_discard(struct weft_comm *comm)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_ending_remove(comm);
    free_comm(comm);
    weft_error_set_detail(text);
}

int weft_comm_destroy(weft_comm *comm)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm)
        return WEFT_OK;
    weft_fd_losses_drop();
    if (comm->works)
        return weft_fail(WEFT_BUSY, "%d work%s of the communicator %s not been freed%s", comm->works,
                         comm->works == 1 ? "" : "s", comm->works == 1 ? "has" : "have",
                         weft_group_is_open() ? ": weft_group_end() has not been called in this thread" : "");
    weft_context_look(comm->context);
    weft_context_lock(comm->context); /* the service thread may just be ending some */
    int dropped = comm->dropped;
    weft_context_unlock(comm->context);
    int status = dropped ? weft_works_finish(comm) : WEFT_OK;
    char text[WEFT_DETAIL_MAX] = "";
    if (status == WEFT_TIMEOUT)
        snprintf(text, sizeof text, "%s", comm->failure.text);
    else
        status = WEFT_OK;
    if (weft_ending_remove(comm) && status == WEFT_OK) {
        status = weft_comm_part(comm, weft_comm_deadline_ns(comm), 0);
        snprintf(text, sizeof text, "%s", weft_error_detail());
    }
    free_comm(comm);
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, "%s", text);
}
