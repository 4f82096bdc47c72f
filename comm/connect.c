/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting all peers at once, where the first message to each would pay for it otherwise. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/agree.h"
#include "comm/round.h"

/* Three quarters of the time: the rest is to tell each other of a link that does not come up. */
static int64_t connect_until_ns(int64_t deadline_ns)
{
    int64_t now_ns = weft_clock_ns();
    return deadline_ns == WEFT_NEVER_NS ? deadline_ns : now_ns + (deadline_ns - now_ns) / 4 * 3;
}

int weft_comm_connect_peers(struct weft_comm *comm, int64_t deadline_ns)
{
    int64_t until_ns = connect_until_ns(deadline_ns);
    int status = WEFT_OK;
    weft_context_lock(comm->context);
    for (int pass = 0; pass < 2; pass++) { /* all set out before any is waited for */
        for (int i = 1; i < comm->ranks && status == WEFT_OK; i++) {
            uint32_t rank = (uint32_t)((comm->rank + i) % comm->ranks);
            struct weft_exec_peer *peer;
            status = weft_exec_connect(comm->exec, rank, &peer);
            if (status == WEFT_OK && pass == 1)
                status = weft_agree_link(comm, (int)rank, peer->ops, peer->link, until_ns);
        }
    }
    weft_context_unlock(comm->context);
    return status;
}

/* Whether it has worked everywhere: an answer that is the same on all ranks. */
static int conclude(struct weft_round *round, int status)
{
    struct weft_word word, theirs;
    struct weft_blob *words;
    int here = status, failed = -1;
    weft_word_set(&word, status);
    status = weft_round_gather(round, &word, status == WEFT_OK ? 0 : sizeof word, &words);
    if (status != WEFT_OK)
        return status;
    for (int r = 0; r < round->comm->ranks && failed < 0; r++) {
        if (weft_word_read(&words[r], &theirs) != WEFT_OK || theirs.status != WEFT_OK)
            failed = r;
    }
    free(words);
    if (here != WEFT_OK)
        return weft_fail(here, "%s", word.text);
    if (failed < 0)
        return WEFT_OK;
    return weft_fail(theirs.status ? theirs.status : WEFT_PROTOCOL, "rank %d on host '%s': %s", failed,
                     round->comm->members[failed].host, theirs.text);
}

int weft_comm_connect(weft_comm *comm)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    int status = weft_comm_begin(comm);
    if (status != WEFT_OK || comm->ranks == 1)
        return status;
    struct weft_round round;
    weft_round_begin(&round, comm, WEFT_CALL_CONNECT);
    status = conclude(&round, weft_comm_connect_peers(comm, round.deadline_ns));
    weft_round_end(&round);
    return status;
}
