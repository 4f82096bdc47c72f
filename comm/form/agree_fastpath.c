/* SPDX-License-Identifier: Apache-2.0 */
/* Round 3: whether small allreduces go along the cache-line path, which all ranks have or none. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/core/comm.h"
#include "comm/exec/fastpath.h"
#include "comm/form/agree.h"

static int uses_fastpath(const struct weft_comm *comm)
{
    return comm->one_host && comm->ranks > 1 && comm->ranks <= WEFT_FASTPATH_RANKS_MAX &&
           comm->context->settings.fast_path_bytes > 0 && comm->context->settings.direct;
}

/* With more ranks than processors every exchange costs task switches, and one exchange with more bytes read
 * beats several with fewer. */
#define CROWDED_FACTOR 8

static size_t fastpath_bytes(const struct weft_comm *comm)
{
    return (size_t)comm->context->settings.fast_path_bytes * (comm->some_host_crowded ? CROWDED_FACTOR : 1);
}

static int open_fastpath(struct weft_comm *comm, struct weft_token *tokens, int64_t deadline_ns)
{
    weft_context_lock(comm->context);
    int status = WEFT_OK;
    for (int r = 0; r < comm->ranks && status == WEFT_OK; r++) {
        struct weft_exec_peer *peer;
        if (r == comm->rank)
            continue;
        status = weft_exec_connect(comm->exec, (uint32_t)r, &peer);
        if (status == WEFT_OK)
            status = weft_agree_link(comm, r, peer->ops, peer->link, deadline_ns);
    }
    if (status == WEFT_OK)
        status = weft_fastpath_open(comm->context, comm->exec, fastpath_bytes(comm), tokens, &comm->fastpath);
    weft_context_unlock(comm->context);
    return status;
}

int weft_agree_fastpath(struct weft_comm *comm, int64_t deadline_ns)
{
    struct weft_token tokens[WEFT_FASTPATH_RANKS_MAX + 1];
    memset(tokens, 0, sizeof tokens);
    size_t size = 0;
    int wanted = uses_fastpath(comm), opened = WEFT_OK;
    if (wanted) {
        opened = open_fastpath(comm, tokens, deadline_ns);
        if (opened == WEFT_OK)
            size = (size_t)comm->ranks * sizeof tokens[0];
    }
    struct weft_blob *blobs;
    int status = weft_bootstrap_allgather(comm->bootstrap, "making the communicator", tokens, size, &blobs,
                                          deadline_ns);
    if (status != WEFT_OK)
        return status;
    int everybody = wanted;
    for (int r = 0; r < comm->ranks; r++)
        everybody &= blobs[r].size == (size_t)comm->ranks * sizeof tokens[0];
    for (int r = 0; r < comm->ranks && everybody; r++)
        memcpy(&tokens[r], (const uint8_t *)blobs[r].data + (size_t)comm->rank * sizeof tokens[0],
               sizeof tokens[0]);
    free(blobs);
    weft_context_lock(comm->context);
    uint8_t mapped = everybody && weft_fastpath_map(comm->fastpath, tokens) == WEFT_OK;
    weft_context_unlock(comm->context);
    if (!wanted)
        return WEFT_OK;
    /* All or none: one more round, so that no rank waits on a path that another has not got. */
    status =
        weft_bootstrap_allgather(comm->bootstrap, "making the communicator", &mapped, 1, &blobs, deadline_ns);
    if (status != WEFT_OK)
        return status;
    for (int r = 0; r < comm->ranks; r++)
        mapped &= blobs[r].size == 1 && *(const uint8_t *)blobs[r].data;
    free(blobs);
    if (!mapped) {
        weft_log_once(WEFT_LOG_WARN,
                      "small allreduces go through plans: the cache-line path is not available: %s",
                      weft_error_detail());
        weft_context_lock(comm->context);
        weft_fastpath_close(comm->fastpath);
        weft_context_unlock(comm->context);
        comm->fastpath = NULL;
    }
    return WEFT_OK;
}
