/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/limits.h"
#include "base/log.h"
#include "comm/core/comm.h"
#include "comm/core/dump.h"
#include "comm/drive/progress.h"

/* How long the bootstrap has to say why something broke: a rank that died is named there. */
#define GRACE_NS 200000000

void weft_comm_explain(char *text, size_t capacity, const char *failure)
{
    int limit = strstr(failure, "ulimit") ? 0 : weft_limits_descriptors();
    if (limit)
        snprintf(text, capacity, "%s; here: %s", failure, weft_errno_text(limit));
    else
        snprintf(text, capacity, "%s", failure);
}

void weft_comm_fail(struct weft_comm *comm, int status, const char *text)
{
    struct weft_failure_record *failure = &comm->failure;
    if (failure->status)
        return;
    if (comm->exec)
        weft_dump_locked(comm, failure->waits, sizeof failure->waits);
    weft_comm_explain(failure->text, sizeof failure->text, text);
    if (status == WEFT_AGAIN) /* of a plug-in's, perhaps: of works it would mean that they run */
        status = WEFT_SYSTEM;
    atomic_store(&failure->status, status);
    /* The others first: withdrawing what is in flight may take a moment. */
    if (!weft_bootstrap_has_failed(comm->bootstrap)) {
        if (status == WEFT_MISMATCH) /* everybody's answer, as when rank 0 finds it */
            weft_bootstrap_revoke_as(comm->bootstrap, status, failure->text);
        else
            weft_bootstrap_revoke(comm->bootstrap, failure->text);
    }
    if (comm->exec)
        weft_exec_fail(comm->exec, status);
    if (comm->p2p)
        weft_p2p_fail(comm->p2p, status);
    weft_log(WEFT_LOG_INFO, "rank %d revokes its communicator: %s", comm->rank, failure->text);
    weft_progress_wake(comm->context);
    weft_progress_linger(comm->context); /* peers may want answers to what they take back */
}

int weft_comm_fail_here(struct weft_comm *comm, int status)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_comm_fail(comm, status, text);
    return status;
}

static void lose(struct weft_comm *comm, int status, int rank, const char *words)
{
    struct weft_failure_record *failure = &comm->failure;
    if (failure->status)
        return;
    if (!failure->lost_status) {
        failure->lost_status = status;
        failure->lost_ns = weft_clock_ns();
    } else if (failure->lost_rank >= 0 || rank < 0) {
        return;
    }
    failure->lost_rank = rank;
    snprintf(failure->text, sizeof failure->text, "%s", words);
}

void weft_comm_lose(struct weft_comm *comm, int status, const char *words)
{
    lose(comm, status, -1, words);
}

int weft_comm_has_left(void *arg, uint32_t rank)
{
    const struct weft_comm *comm = arg;
    char text[300];
    if (!weft_bootstrap_is_gone(comm->bootstrap, (int)rank, text, sizeof text))
        return 0;
    weft_fail(WEFT_PEER_FAILED, "%s", text);
    return 1;
}

void weft_comm_link_failed(struct weft_comm *comm, struct weft_link *link, int status, const char *why)
{
    for (int r = 0; r < comm->ranks; r++) {
        if (weft_exec_link(comm->exec, (uint32_t)r) != link)
            continue;
        comm->members[r].is_cut = 1;
        if (!weft_comm_has_left(comm, (uint32_t)r))
            lose(comm, WEFT_PEER_FAILED, r, why ? why : weft_strerror(status));
    }
}

static int is_of_link(int status)
{
    return status == WEFT_PEER_FAILED || status == WEFT_TRANSPORT;
}

/* The link that broke: perhaps no event has said so, but an answer to a call. */
static void find_lost(struct weft_comm *comm)
{
    for (int r = 0; r < comm->ranks && comm->failure.lost_rank < 0; r++) {
        struct weft_link *link = weft_exec_link(comm->exec, (uint32_t)r);
        const struct weft_transport_ops *ops = &comm->context->transports[comm->members[r].transport].ops;
        const char *why = link ? ops->why(link) : NULL;
        if (why)
            lose(comm, WEFT_PEER_FAILED, r, why);
    }
}

/* Nobody has said why: it fails with the loss itself. */
static void fail_with_loss(struct weft_comm *comm)
{
    struct weft_failure_record *failure = &comm->failure;
    char text[WEFT_DETAIL_MAX];
    if (is_of_link(failure->lost_status))
        find_lost(comm);
    if (failure->lost_rank < 0) {
        snprintf(text, sizeof text, "%s", failure->text);
        weft_comm_fail(comm, failure->lost_status, text);
        return;
    }
    const struct weft_member *member = &comm->members[failure->lost_rank];
    if (weft_bootstrap_is_gone(comm->bootstrap, failure->lost_rank, text, sizeof text)) {
        weft_comm_fail(comm, WEFT_PEER_FAILED, text);
        return;
    }
    snprintf(text, sizeof text, "rank %d on host '%s' (pid %d): the link to it broke: %.700s",
             failure->lost_rank, member->host, member->pid, failure->text);
    weft_comm_fail(comm, failure->lost_status, text);
}

/* The bootstrap's word, with what is known of the link here. */
static void fail_with_word(struct weft_comm *comm)
{
    const struct weft_failure_record *failure = &comm->failure;
    char text[WEFT_DETAIL_MAX];
    int status = weft_bootstrap_failure(comm->bootstrap, text, sizeof text);
    size_t used = strlen(text);
    if (status == WEFT_TIMEOUT && !weft_stall_is_late(comm))
        status = WEFT_REVOKED; /* another rank's deadline has passed */
    int is_link = failure->lost_status && failure->lost_rank >= 0;
    int says_more = is_link && strcmp(failure->text, weft_strerror(failure->lost_status)) != 0;
    if (says_more && weft_bootstrap_is_dead(comm->bootstrap, failure->lost_rank))
        snprintf(text + used, sizeof text - used, "; the link to it: %.700s", failure->text);
    else if (says_more && status == WEFT_REVOKED) /* both ends of a link have something to say */
        snprintf(text + used, sizeof text - used, "; here the link to rank %d broke: %.700s",
                 failure->lost_rank, failure->text);
    weft_comm_fail(comm, status, text);
}

/* What no death can be behind: nobody needs to say why. */
static int is_explained(int status)
{
    return status == WEFT_MISMATCH || status == WEFT_PROTOCOL || status == WEFT_NOMEM;
}

int weft_comm_check(struct weft_comm *comm)
{
    struct weft_failure_record *failure = &comm->failure;
    if (failure->status)
        return failure->status;
    if (weft_bootstrap_has_failed(comm->bootstrap)) {
        fail_with_word(comm);
        return failure->status;
    }
    if (failure->lost_status &&
        (is_explained(failure->lost_status) || weft_clock_ns() - failure->lost_ns > GRACE_NS))
        fail_with_loss(comm);
    return failure->status;
}

int weft_comm_begin(struct weft_comm *comm)
{
    if (!comm->failure.status && !weft_bootstrap_has_failed(comm->bootstrap))
        return WEFT_OK;
    weft_context_lock(comm->context);
    weft_comm_check(comm);
    weft_context_unlock(comm->context);
    return weft_comm_report(comm);
}

int weft_comm_word_failure(const struct weft_comm *comm)
{
    return weft_fail(comm->failure.status, "%s", comm->failure.text);
}

int weft_comm_report(struct weft_comm *comm)
{
    int again = atomic_exchange(&comm->failure.is_reported, 1);
    int status = weft_comm_word_failure(comm);
    return again ? WEFT_REVOKED : status;
}

int weft_comm_get_error(weft_comm *comm)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    if (!comm->failure.status) {
        weft_context_lock(comm->context);
        weft_comm_check(comm);
        weft_context_unlock(comm->context);
    }
    return comm->failure.status ? weft_comm_word_failure(comm) : WEFT_OK;
}
