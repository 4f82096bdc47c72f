/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: creation, end, failures, and how each peer is reached. */
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/limits.h"
#include "base/log.h"
#include "algos/hosts.h"
#include "comm/agree.h"
#include "comm/boot_pmix.h"
#include "comm/device_memory.h"
#include "comm/dump.h"
#include "comm/fastpath.h"
#include "comm/judge.h"
#include "comm/progress.h"
#include "comm/queue.h"
#include "comm/work.h"
#include "comm/round.h"

int64_t weft_comm_deadline_ns(const struct weft_comm *comm)
{
    return weft_deadline_ns(comm->timeout_ms);
}

struct weft_exec_programs weft_comm_programs(const struct weft_comm *comm)
{
    const struct weft_settings *settings = &comm->context->settings;
    return (struct weft_exec_programs){.mode = (enum weft_program_mode)settings->device_program,
                                       .bytes = comm->one_host ? (size_t)settings->device_program_bytes : 0};
}

int weft_comm_link_peer(void *arg, uint32_t rank, struct weft_exec_peer *peer)
{
    struct weft_comm *comm = arg;
    struct weft_context *context = comm->context;
    const struct weft_member *member = &comm->members[rank];
    enum weft_transport_index index = member->transport;
    struct weft_link *link;
    size_t size;
    const uint8_t *address = weft_member_address(member, index, &size);
    int status = weft_context_link(context, index, address, size, &link);
    if (status != WEFT_OK)
        return status;
    struct weft_open_transport *transport = &context->transports[index];
    const struct weft_settings *settings = &context->settings;
    const int64_t eagers[] = {[WEFT_SHM] = settings->eager_bytes_shm,
                              [WEFT_OFI] = settings->eager_bytes_ofi,
                              [WEFT_VERBS] = settings->eager_bytes_verbs};
    const int64_t slices[] = {[WEFT_SHM] = settings->slice_bytes_shm,
                              [WEFT_OFI] = settings->slice_bytes_ofi,
                              [WEFT_VERBS] = settings->slice_bytes_verbs};
    uint32_t room = transport->caps.eager_bytes - (uint32_t)sizeof(struct weft_wire_header);
    int64_t eager = eagers[index];
    *peer = (struct weft_exec_peer){
        .ops = &transport->ops,
        .instance = transport->instance,
        .link = link,
        .caps = transport->caps.flags,
        .eager_bytes = eager < room ? (eager < 64 ? 64 : (uint32_t)eager) : room,
        .slice_bytes = (uint32_t)(slices[index] / 64 * 64),
        .put_bytes = transport->caps.put_bytes,
        .stage_only = index == WEFT_SHM && !settings->direct,
        .transport = index,
        .process = index == WEFT_SHM ? member->process : 0,
    };
    return WEFT_OK;
}

int weft_comm_differs(void *arg, const char *text, const struct weft_call *past)
{
    return weft_stall_suspect(arg, text, past);
}

int weft_comm_sent_by(void *arg, uint32_t rank, const void *sender)
{
    struct weft_comm *comm = arg;
    const struct weft_member *member = &comm->members[rank];
    enum weft_transport_index index = member->transport;
    const struct weft_open_transport *transport = &comm->context->transports[index];
    size_t size;
    const uint8_t *address = weft_member_address(member, index, &size);
    return comm->context->polled == (int)index &&
           transport->ops.sent_by(transport->instance, sender, address, size);
}

int weft_comm_tagged(void *arg, const struct weft_wire_header *header, const void *payload)
{
    struct weft_comm *comm = arg;
    return weft_p2p_message(comm->p2p, header, payload);
}

int weft_comm_make_p2p(struct weft_comm *comm)
{
    const struct weft_p2p_options options = {.rank = (uint32_t)comm->rank,
                                             .ranks = (uint32_t)comm->ranks,
                                             .local_bytes = (size_t)comm->context->settings.eager_bytes_shm,
                                             .exec = comm->exec,
                                             .context = comm->context,
                                             .fail = weft_comm_fail,
                                             .comm = comm};
    return weft_p2p_open(&options, &comm->p2p);
}

static void wake_waiters(void *arg)
{
    struct weft_comm *comm = arg;
    weft_progress_wake(comm->context);
}

static int check_options(const weft_comm_options *options)
{
    if (!options)
        return WEFT_OK;
    if (options->size < offsetof(weft_comm_options, name))
        return weft_fail(WEFT_INVALID, "weft_comm_options.size is %zu: use WEFT_COMM_OPTIONS_INIT",
                         options->size);
    return WEFT_OK;
}

static void free_comm(struct weft_comm *comm)
{
    struct weft_context *context = comm->context;
    weft_context_lock(context);
    if (comm->exec)
        weft_context_unroute(context, comm->id);
    weft_fastpath_close(comm->fastpath);
    if (comm->exec)
        weft_exec_fail(comm->exec, WEFT_CANCELLED, "the communicator was destroyed");
    weft_queue_fail(comm);
    weft_p2p_close(comm->p2p);
    for (int r = 0; r < comm->ranks && comm->exec; r++) {
        struct weft_link *link = weft_exec_link(comm->exec, (uint32_t)r);
        if (link)
            weft_context_unlink(context, link);
    }
    weft_exec_destroy(comm->exec);
    weft_where_forget(comm);
    weft_context_unlock(context);
    weft_bootstrap_close(comm->bootstrap);
    weft_judge_close(comm->judge);
    weft_inbox_close(&comm->inbox);
    for (int r = 0; r < comm->ranks && comm->members; r++)
        free(comm->members[r].addresses);
    free(comm->members);
    weft_hosts_free(comm->hosts);
    free(comm->name);
    weft_plans_put(comm->again.plan);
    weft_plans_clear(&comm->plans);
    free(comm);
    weft_context_lock(context); /* the losses of this thread */
    weft_context_unlock(context);
    atomic_fetch_sub(&context->users, 1);
}

/* WEFT_CONNECT=eager. Until all have got there the service thread answers peers. */
static int connect_eagerly(struct weft_comm *comm, int64_t deadline_ns)
{
    weft_progress_background(comm->context, 1);
    int status = weft_comm_connect_peers(comm, deadline_ns);
    if (status == WEFT_OK)
        status = weft_bootstrap_barrier(comm->bootstrap, "making the communicator", deadline_ns);
    weft_progress_background(comm->context, -1);
    return status;
}

static int meet(struct weft_comm *comm, struct weft_bootstrap_options *resolved, int64_t deadline_ns)
{
    resolved->deadline_ns = deadline_ns;
    int started = weft_context_overlay(comm->context, &resolved->service);
    if (started != WEFT_OK)
        return started;
    resolved->heartbeat_ms = comm->context->settings.heartbeat_ms;
    resolved->failed = wake_waiters;
    resolved->failed_arg = comm;
    resolved->told = weft_inbox_put;
    resolved->told_arg = comm;
    comm->members = calloc((size_t)comm->ranks, sizeof *comm->members);
    if (!comm->members)
        return weft_fail(WEFT_NOMEM, "no memory for %d ranks", comm->ranks);
    int status = comm->rank == 0 ? weft_judge_open(comm, &comm->judge) : WEFT_OK;
    resolved->report = weft_judge_take;
    resolved->report_arg = comm->judge;
    if (status == WEFT_OK)
        status = weft_bootstrap_open(resolved, &comm->bootstrap);
    if (resolved->pmix)
        weft_pmix_source_end(resolved->pmix, status == WEFT_OK);
    if (status != WEFT_OK)
        return status;
    status = weft_agree(comm, deadline_ns);
    if (status == WEFT_OK && comm->context->settings.connect)
        status = connect_eagerly(comm, deadline_ns);
    int all_know = status == WEFT_SETTINGS || comm->vetoed; /* whoever tells them takes their reason away */
    if (status != WEFT_OK && !all_know && !weft_bootstrap_has_failed(comm->bootstrap)) {
        char text[WEFT_DETAIL_MAX];
        snprintf(text, sizeof text, "%s", weft_error_detail());
        weft_bootstrap_revoke(comm->bootstrap, text);
        weft_error_set_detail(text);
    }
    return status;
}

/* What the caller gives, or else the setting. */
static int64_t creation_timeout_ms(const weft_context *context, const weft_comm_options *options)
{
    if (options && options->size >= offsetof(weft_comm_options, timeout_ms) + sizeof options->timeout_ms &&
        options->timeout_ms)
        return options->timeout_ms;
    return context->settings.timeout_ms;
}

/* The text of a failure, with a word about this process where it has no descriptors left: then a peer that was
 * never let in, or a link that never came up, is only how it shows. */
static void explain(char *text, size_t capacity, const char *failure)
{
    int limit = strstr(failure, "ulimit") ? 0 : weft_limits_descriptors();
    if (limit)
        snprintf(text, capacity, "%s; here: %s", failure, weft_errno_text(limit));
    else
        snprintf(text, capacity, "%s", failure);
}

static int create(weft_context *context, const weft_comm_options *options, weft_comm **created)
{
    if (!context || !created)
        return weft_fail(WEFT_INVALID, "%s is NULL", context ? "comm" : "context");
    char buffer[WEFT_BOOTSTRAP_BUFFER];
    int64_t timeout_ms = creation_timeout_ms(context, options), deadline_ns = weft_deadline_ns(timeout_ms);
    struct weft_pmix_source pmix = {.held = &context->holds_pmix, .deadline_ns = deadline_ns};
    struct weft_bootstrap_options resolved = {.pmix = &pmix};
    int status = weft_bootstrap_resolve(options, &resolved, buffer, sizeof buffer);
    if (status != WEFT_OK)
        return status;
    return weft_comm_open(context, &resolved, timeout_ms, deadline_ns, created);
}

int weft_comm_create(weft_context *context, const weft_comm_options *options, weft_comm **created)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = check_options(options);
    if (status != WEFT_OK)
        return status;
    status = create(context, options, created);
    if (options && options->size >= offsetof(weft_comm_options, address))
        weft_fd_close(options->listen_fd); /* whatever has come of it */
    return status;
}

int weft_comm_open(struct weft_context *context, struct weft_bootstrap_options *resolved, int64_t timeout_ms,
                   int64_t deadline_ns, struct weft_comm **opened)
{
    weft_fd_losses_drop();
    int status = weft_context_check(context);
    if (status != WEFT_OK)
        return status;
    struct weft_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return weft_fail(WEFT_NOMEM, "no memory for a communicator");
    atomic_fetch_add(&context->users, 1);
    weft_inbox_open(&comm->inbox);
    comm->context = context;
    comm->rank = resolved->rank;
    comm->ranks = resolved->ranks;
    comm->generation = resolved->generation;
    comm->timeout_ms = timeout_ms;
    comm->name = strdup(resolved->name ? resolved->name : "");
    status = comm->name ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for a communicator");
    if (status == WEFT_OK && comm->ranks > 1)
        status = meet(comm, resolved, deadline_ns);
    else if (status == WEFT_OK)
        status = weft_comm_make_p2p(comm);
    if (status == WEFT_OK) {
        *opened = comm;
        return WEFT_OK;
    }
    char text[WEFT_DETAIL_MAX];
    explain(text, sizeof text, weft_error_detail());
    free_comm(comm);
    return weft_fail(status, "%s", text);
}

void weft_comm_discard(struct weft_comm *comm)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    free_comm(comm);
    weft_error_set_detail(text);
}

/* Peers may still wait for what this rank has sent. */
static int meet_at_end(struct weft_comm *comm)
{
    struct weft_round round;
    struct weft_blob *blobs;
    weft_round_begin(&round, comm, WEFT_CALL_DESTROY);
    int status = weft_round_gather(&round, NULL, 0, &blobs);
    weft_round_end(&round);
    if (status == WEFT_OK)
        free(blobs);
    return status;
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
        return weft_fail(WEFT_BUSY, "%d works of the communicator have not been freed", comm->works);
    weft_context_look(comm->context);
    weft_context_lock(comm->context); /* the service thread may just be ending some */
    int dropped = comm->dropped;
    weft_context_unlock(comm->context);
    int status = dropped ? weft_works_finish(comm) : WEFT_OK;
    char text[WEFT_DETAIL_MAX] = "";
    if (status == WEFT_TIMEOUT)
        snprintf(text, sizeof text, "%s", comm->failure);
    else
        status = WEFT_OK;
    if (comm->bootstrap && !comm->failed && !weft_bootstrap_has_failed(comm->bootstrap)) {
        status = meet_at_end(comm);
        snprintf(text, sizeof text, "%s", weft_error_detail());
    }
    free_comm(comm);
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, "%s", text);
}

int weft_comm_set_timeout(weft_comm *comm, int64_t timeout_ms)
{
    weft_error_clear();
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    atomic_store(&comm->timeout_ms, timeout_ms ? timeout_ms : comm->context->settings.timeout_ms);
    return WEFT_OK;
}

void weft_comm_fail(struct weft_comm *comm, int status, const char *text)
{
    if (comm->failed)
        return;
    if (comm->exec)
        weft_dump_locked(comm, comm->last_words, sizeof comm->last_words);
    explain(comm->failure, sizeof comm->failure, text);
    if (status == WEFT_AGAIN) /* of a plug-in's, perhaps: of works it would mean that they run */
        status = WEFT_SYSTEM;
    atomic_store(&comm->failed, status);
    /* The others first: withdrawing what is in flight may take a moment. */
    if (comm->bootstrap && !weft_bootstrap_has_failed(comm->bootstrap)) {
        if (status == WEFT_MISMATCH) /* everybody's answer, as when rank 0 finds it */
            weft_bootstrap_revoke_as(comm->bootstrap, status, comm->failure);
        else
            weft_bootstrap_revoke(comm->bootstrap, comm->failure);
    }
    if (comm->exec)
        weft_exec_fail(comm->exec, status, comm->failure);
    weft_p2p_fail(comm->p2p, status);
    weft_log(WEFT_LOG_INFO, "rank %d revokes its communicator: %s", comm->rank, comm->failure);
    weft_progress_wake(comm->context);
    weft_progress_linger(comm->context); /* peers may want answers to what they take back */
}

void weft_comm_link_failed(struct weft_comm *comm, struct weft_link *link, int status, const char *why)
{
    for (int r = 0; r < comm->ranks; r++) {
        if (weft_exec_link(comm->exec, (uint32_t)r) != link || comm->lost_status)
            continue;
        comm->lost_rank = r;
        comm->lost_status = status;
        snprintf(comm->lost_why, sizeof comm->lost_why, "%s", why ? why : "");
        comm->lost_ns = weft_clock_ns();
        return;
    }
}

/* How long a broken link waits for the bootstrap to say why: a rank that died is named there. */
#define LINK_GRACE_NS 200000000

/* A send or read that fails often means that the peer has died: the bootstrap knows who, in a moment. */
void weft_comm_await_reason(const struct weft_comm *comm)
{
    int64_t until_ns = weft_clock_ns() + LINK_GRACE_NS;
    while (!weft_bootstrap_has_failed(comm->bootstrap) && weft_clock_ns() < until_ns)
        usleep(1000);
}

/* The link that broke, of which no event has told perhaps, but an answer to a call. */
static void find_lost(struct weft_comm *comm)
{
    for (int r = 0; r < comm->ranks && !comm->lost_status; r++) {
        struct weft_link *link = weft_exec_link(comm->exec, (uint32_t)r);
        const struct weft_transport_ops *ops = &comm->context->transports[comm->members[r].transport].ops;
        const char *why = link ? ops->why(link) : NULL;
        if (why)
            weft_comm_link_failed(comm, link, WEFT_PEER_FAILED, why);
    }
}

static void word_lost(const struct weft_comm *comm, char *text, size_t capacity)
{
    const struct weft_member *member = &comm->members[comm->lost_rank];
    snprintf(text, capacity, "rank %d on host '%s' (pid %d): the link to it broke: %s", comm->lost_rank,
             member->host, member->pid, *comm->lost_why ? comm->lost_why : weft_strerror(comm->lost_status));
}

int weft_comm_check(struct weft_comm *comm)
{
    int status;
    char text[WEFT_DETAIL_MAX];
    if (comm->failed)
        return comm->failed;
    if (weft_bootstrap_has_failed(comm->bootstrap)) {
        status = weft_bootstrap_failure(comm->bootstrap, text, sizeof text);
        if (status == WEFT_TIMEOUT && !comm->stall.late)
            status = WEFT_REVOKED; /* another rank's deadline has passed */
        if (*comm->lost_why && weft_bootstrap_is_dead(comm->bootstrap, comm->lost_rank)) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "; the link to it: %s", comm->lost_why);
        } else if (*comm->lost_why &&
                   status == WEFT_REVOKED) { /* both ends of a link have something to say */
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "; here the link to rank %d broke: %s", comm->lost_rank,
                     comm->lost_why);
        }
        weft_comm_fail(comm, status, text);
    } else if (weft_exec_failure(comm->exec, &status)) {
        if (status != WEFT_MISMATCH && status != WEFT_PROTOCOL)
            weft_comm_await_reason(comm);
        if (weft_bootstrap_has_failed(comm->bootstrap))
            return weft_comm_check(comm);
        snprintf(text, sizeof text, "%s", weft_exec_failure(comm->exec, &status));
        int is_link = status == WEFT_PEER_FAILED || status == WEFT_TRANSPORT;
        if (is_link)
            find_lost(comm);
        if (is_link && *comm->lost_why)
            word_lost(comm, text, sizeof text);
        weft_comm_fail(comm, status, text);
    } else if (comm->lost_status && weft_clock_ns() - comm->lost_ns > LINK_GRACE_NS) {
        word_lost(comm, text, sizeof text);
        weft_comm_fail(comm, WEFT_PEER_FAILED, text);
    }
    return comm->failed;
}

int weft_comm_begin(struct weft_comm *comm)
{
    if (!comm->failed && !(comm->bootstrap && weft_bootstrap_has_failed(comm->bootstrap)))
        return WEFT_OK;
    if (comm->bootstrap) {
        weft_context_lock(comm->context);
        weft_comm_check(comm);
        weft_context_unlock(comm->context);
    }
    return weft_comm_report(comm);
}

int weft_comm_is_lost(const struct weft_comm *comm)
{
    int status;
    return comm->failed || comm->lost_status ||
           (comm->bootstrap && weft_bootstrap_has_failed(comm->bootstrap)) ||
           (comm->exec && weft_exec_failure(comm->exec, &status));
}

int weft_comm_check_any(struct weft_comm *comm)
{
    if (comm->bootstrap)
        return weft_comm_check(comm);
    if (comm->failed) /* aborted */
        weft_p2p_fail(comm->p2p, comm->failed);
    return comm->failed;
}

int weft_comm_report(struct weft_comm *comm)
{
    int status = comm->reported ? WEFT_REVOKED : comm->failed;
    comm->reported = 1;
    return weft_fail(status, "%s", comm->failure);
}

int weft_comm_rank(const weft_comm *comm)
{
    if (weft_fork_is_child())
        return weft_fork_refuse();
    return comm ? comm->rank : weft_fail(WEFT_INVALID, "comm is NULL");
}

int weft_comm_size(const weft_comm *comm)
{
    if (weft_fork_is_child())
        return weft_fork_refuse();
    return comm ? comm->ranks : weft_fail(WEFT_INVALID, "comm is NULL");
}
