/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "comm/drive/progress.h"
#include "comm/exec/fastpath.h"
#include "comm/form/ending.h"
#include "comm/form/round.h"

#define DRAIN_NS INT64_C(200000000)

/* Whether those that are there have come to what this rank has given ahead of them (comm/exec/fastpath.h). [lock] */
static int is_followed(const struct weft_comm *comm)
{
    for (int r = 0; r < comm->ranks && comm->fastpath; r++) {
        if (!weft_bootstrap_is_gone(comm->bootstrap, r, NULL, 0) &&
            !weft_fastpath_follows(comm->fastpath, (uint32_t)r))
            return 0;
    }
    return 1;
}

/* What has been sent leaves, and those that are late come to what was given, as nobody says that it has come. */
static void drain(struct weft_comm *comm)
{
    int64_t until_ns = weft_clock_ns() + DRAIN_NS;
    weft_context_lock(comm->context);
    weft_progress_drain(comm->context, until_ns);
    while (!is_followed(comm) && weft_clock_ns() < until_ns) {
        weft_context_unlock(comm->context);
        nanosleep(&(const struct timespec){.tv_nsec = 100000}, NULL);
        weft_context_lock(comm->context);
    }
    weft_context_unlock(comm->context);
}

/* What the others took the last calls for that a root gave. */
static int compare_last(struct weft_comm *comm, const struct weft_blob *blobs)
{
    struct weft_fastpath_odd odd;
    int status = WEFT_OK;
    weft_context_lock(comm->context);
    for (int r = 0; r < comm->ranks && comm->fastpath && status == WEFT_OK; r++)
        status = weft_fastpath_compare_last(comm->fastpath, (uint32_t)r, blobs[r].data, blobs[r].size, &odd);
    weft_context_unlock(comm->context);
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, "%s", odd.text);
}

/* Peers may still wait for what this rank has sent. Where some have left nobody is waited for: those that stay need not come either. */
static int meet_at_end(struct weft_comm *comm, int64_t deadline_ns, int exits)
{
    struct weft_fastpath_word words[WEFT_FASTPATH_WORDS_MAX];
    struct weft_round round;
    struct weft_blob *blobs;
    int status =
        weft_round_begin(&round, comm, exits ? WEFT_CALL_EXIT : WEFT_CALL_DESTROY, deadline_ns, NULL);
    if (status != WEFT_OK)
        return status;
    round.is_last = 1;
    size_t count = comm->fastpath ? weft_fastpath_last(comm->fastpath, words) : 0;
    status = weft_round_gather(&round, words, count * sizeof *words, &blobs);
    int leaves = status != WEFT_OK && !comm->failure.status && !weft_bootstrap_has_failed(comm->bootstrap) &&
                 (weft_bootstrap_gone(comm->bootstrap) || (exits && status == WEFT_TIMEOUT));
    if (status == WEFT_OK) {
        status = compare_last(comm, blobs);
        free(blobs);
    } else if (leaves) {
        weft_bootstrap_leave(comm->bootstrap, exits);
    } else if (!comm->failure.status) {
        status = weft_round_fail(&round, status);
    }
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
