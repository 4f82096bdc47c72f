/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/clock.h"
#include "comm/drive/progress.h"
#include "comm/form/ending.h"
#include "comm/form/round.h"

#define DRAIN_NS INT64_C(200000000)

/* What has been sent leaves, as nobody says that it has come. */
static void drain(struct weft_comm *comm)
{
    weft_context_lock(comm->context);
    weft_progress_drain(comm->context, weft_clock_ns() + DRAIN_NS);
    weft_context_unlock(comm->context);
}

/* Peers may still wait for what this rank has sent. Where some have left nobody is waited for: those that stay need not come either. */
static int meet_at_end(struct weft_comm *comm, int64_t deadline_ns, int exits)
{
    struct weft_round round;
    struct weft_blob *blobs;
    int status =
        weft_round_begin(&round, comm, exits ? WEFT_CALL_EXIT : WEFT_CALL_DESTROY, deadline_ns, NULL);
    if (status != WEFT_OK)
        return status;
    round.is_last = 1;
    status = weft_round_gather(&round, NULL, 0, &blobs);
    int leaves = status != WEFT_OK && !comm->failure.status && !weft_bootstrap_has_failed(comm->bootstrap) &&
                 (weft_bootstrap_gone(comm->bootstrap) || (exits && status == WEFT_TIMEOUT));
    if (status == WEFT_OK)
        free(blobs);
    else if (leaves)
        weft_bootstrap_leave(comm->bootstrap, exits);
    else if (!comm->failure.status)
        status = weft_round_fail(&round, status);
    weft_round_end(&round);
    if (leaves)
        drain(comm);
    return leaves ? WEFT_OK : status;
}

int weft_comm_part(struct weft_comm *comm, int64_t deadline_ns, int exits)
{
    if (comm->failure.status || weft_bootstrap_has_failed(comm->bootstrap))
        return WEFT_OK;
    if (!weft_bootstrap_gone(comm->bootstrap))
        return meet_at_end(comm, deadline_ns, exits);
    weft_bootstrap_leave(comm->bootstrap, exits);
    drain(comm);
    return WEFT_OK;
}
