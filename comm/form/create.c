/* SPDX-License-Identifier: Apache-2.0 */
/* Making a communicator: its ranks meet, agree on how each is reached, and connect if they shall at once. */
#include "comm/form/create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/secret.h"
#include "base/struct.h"
#include "comm/core/driven.h"
#include "comm/core/judge.h"
#include "comm/drive/progress.h"
#include "comm/exec/device/ops.h"
#include "comm/form/agree.h"
#include "comm/form/ending.h"
#include "comm/form/making.h"
#include "comm/regions/device_memory.h"

static void wake_waiters(void *arg)
{
    struct weft_comm *comm = arg;
    weft_progress_wake(comm->context);
}

static const struct weft_struct options_struct =
    WEFT_STRUCT(weft_comm_options, WEFT_COMM_OPTIONS_INIT, ranks);

/* Three quarters of the time: the rest is to hear from each other of a link that does not come up. */
static int64_t connect_until_ns(int64_t deadline_ns)
{
    int64_t now_ns = weft_clock_ns();
    return deadline_ns == WEFT_NEVER_NS ? deadline_ns : now_ns + (deadline_ns - now_ns) / 4 * 3;
}

static int connect_peers(struct weft_comm *comm, int64_t deadline_ns)
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

/* WEFT_CONNECT=eager. Until all have got there the service thread answers peers. */
static int connect_eagerly(struct weft_comm *comm, int64_t deadline_ns)
{
    weft_progress_background(comm->context, 1);
    int status = connect_peers(comm, deadline_ns);
    if (status == WEFT_OK)
        status = weft_bootstrap_barrier(comm->bootstrap, "making the communicator", deadline_ns);
    weft_progress_background(comm->context, -1);
    return status;
}

/* Creates what runs operations, and makes it reachable for messages. */
static int construct(struct weft_comm *comm)
{
    struct weft_context *context = comm->context;
    struct weft_exec_options options = {
        .id = comm->driven.id,
        .rank = (uint32_t)comm->rank,
        .ranks = (uint32_t)comm->ranks,
        .devices = &weft_exec_devices,
        .window = (uint32_t)context->settings.window,
        .may_stage = context->settings.direct && !context->settings.way_shm,
        .collectives = weft_comm_device_collectives(comm),
        .hooks = {.arg = context,
                  .comm = comm,
                  .connect = weft_comm_link_peer,
                  .differs = weft_comm_differs,
                  .stopped = weft_comm_stopped,
                  .has_left = weft_comm_has_left,
                  .tagged = weft_comm_tagged,
                  .sent_by = weft_comm_sent_by,
                  .buffer_get = weft_memory_buffer_get,
                  .buffer_put = weft_memory_buffer_put,
                  .region_get = weft_memory_region_get,
                  .region_put = weft_memory_region_put,
                  .is_shared = weft_memory_is_shared,
                  .listen = weft_progress_listen,
                  .shares = weft_where_shares},
    };
    weft_context_lock(context);
    int status = weft_exec_create(&options, &comm->exec);
    if (status == WEFT_OK)
        status = weft_comm_make_p2p(comm);
    if (status == WEFT_OK)
        status = weft_context_route(context, &comm->driven);
    if (status == WEFT_OK)
        weft_inbox_look(context);
    if (status != WEFT_OK) {
        weft_p2p_close(comm->p2p);
        comm->p2p = NULL;
        weft_exec_destroy(comm->exec);
        comm->exec = NULL;
    }
    weft_context_unlock(context);
    return status;
}

static void receive(void *arg, int rank, enum weft_oob_channel channel, const void *bytes, size_t size)
{
    struct weft_comm *comm = arg;
    if (channel == WEFT_OOB_TRANSPORT)
        weft_inbox_put(comm, rank, bytes, size);
    else if (comm->judge)
        weft_judge_take(comm->judge, rank, bytes, size);
}

static int meet(struct weft_comm *comm, struct weft_bootstrap_options *resolved, int64_t deadline_ns)
{
    resolved->deadline_ns = deadline_ns;
    int status = comm->ranks > 1 ? weft_context_overlay(comm->context, &resolved->service) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    resolved->heartbeat_ms = comm->context->settings.heartbeat_ms;
    int64_t report_ms = comm->context->settings.report_ms;
    resolved->report_ns = report_ms < 0 ? 0 : report_ms * 1000000 + 1;
    resolved->failed = wake_waiters;
    resolved->failed_arg = comm;
    resolved->received = receive;
    resolved->received_arg = comm;
    comm->members = calloc((size_t)comm->ranks, sizeof *comm->members);
    if (!comm->members)
        return weft_fail(WEFT_NOMEM, "no memory for %d ranks", comm->ranks);
    status = comm->rank == 0 ? weft_judge_open(comm, &comm->judge) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_bootstrap_open(resolved, &comm->bootstrap);
    if (resolved->pmix)
        weft_pmix_source_end(resolved->pmix, status == WEFT_OK);
    if (status != WEFT_OK)
        return status;
    status = weft_agree(comm, deadline_ns);
    if (status == WEFT_OK)
        status = construct(comm);
    if (status == WEFT_OK)
        status = weft_agree_fastpath(comm, deadline_ns);
    if (status == WEFT_OK && comm->context->settings.connect)
        status = connect_eagerly(comm, deadline_ns);
    int all_know = status == WEFT_SETTINGS || comm->vetoed; /* whoever revokes takes their reason away */
    if (status != WEFT_OK && !all_know && !weft_bootstrap_has_failed(comm->bootstrap)) {
        char text[WEFT_DETAIL_MAX];
        snprintf(text, sizeof text, "%s", weft_error_detail());
        weft_bootstrap_revoke(comm->bootstrap, text);
        weft_error_set_detail(text);
    }
    return status;
}

int weft_comm_options_read(const weft_comm_options *given, weft_comm_options *options)
{
    *options = (weft_comm_options)WEFT_COMM_OPTIONS_INIT;
    int status = weft_struct_read(&options_struct, options, given);
    if (status == WEFT_UNSUPPORTED) /* they are of a later weft: all that this one knows is there */
        options->listen_fd = given->listen_fd;
    return weft_fork_is_child() ? weft_fork_refuse() : status;
}

/* Copies bytes that belong to the caller to *at, and moves it. */
static const void *copy(char **at, const void *bytes, size_t size)
{
    char *to = *at;
    if (!bytes)
        return NULL;
    memcpy(to, bytes, size);
    *at += size;
    return to;
}

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

int weft_comm_options_keep(weft_comm_options *options, void **kept)
{
    size_t name = text_size(options->name), file = text_size(options->file),
           address = text_size(options->address);
    if (options->secret && options->secret_size > WEFT_SECRET_MAX)
        return weft_fail(WEFT_INVALID, "the secret has %zu bytes: expected %d to %d", options->secret_size,
                         WEFT_SECRET_MIN, WEFT_SECRET_MAX);
    char *at = malloc(name + file + address + (options->secret ? options->secret_size : 0) + 1);
    if (!at)
        return weft_fail(WEFT_NOMEM, "no memory for the options of a communicator");
    *kept = at;
    options->name = copy(&at, options->name, name);
    options->file = copy(&at, options->file, file);
    options->address = copy(&at, options->address, address);
    options->secret = copy(&at, options->secret, options->secret_size);
    return WEFT_OK;
}

void weft_comm_options_release(weft_comm_options *options, void *kept)
{
    weft_fd_close(options->listen_fd); /* whatever has come of it */
    if (kept && options->secret)
        weft_crypto_wipe((void *)(uintptr_t)options->secret, options->secret_size);
    free(kept);
}

struct creation {
    struct weft_making making; /* first, so that one is the other */
    weft_comm_options options;
    void *kept;
};

static int create(struct weft_making *making, struct weft_comm **created)
{
    char buffer[WEFT_BOOTSTRAP_BUFFER];
    struct weft_pmix_source pmix = {.held = &making->context->form.holds_pmix,
                                    .deadline_ns = making->deadline_ns};
    struct weft_bootstrap_options resolved = {.pmix = &pmix};
    const struct creation *creation = (const struct creation *)making;
    int status = weft_bootstrap_resolve(&creation->options, &resolved, buffer, sizeof buffer);
    if (status != WEFT_OK)
        return status;
    return weft_comm_open(making->context, &resolved, making->timeout_ms, making->deadline_ns, created);
}

static int keep(struct weft_making *making)
{
    struct creation *creation = (struct creation *)making;
    return weft_comm_options_keep(&creation->options, &creation->kept);
}

static void release(struct weft_making *making)
{
    struct creation *creation = (struct creation *)making;
    weft_comm_options_release(&creation->options, creation->kept);
}

int weft_comm_create(weft_context *context, const weft_comm_options *given, weft_comm **created)
{
    weft_error_clear();
    struct creation creation = {
        .making = {.context = context, .out = created, .make = create, .keep = keep, .release = release}};
    weft_comm_options *options = &creation.options;
    int status = weft_comm_options_read(given, options);
    if (status == WEFT_OK && (!context || !created))
        status = weft_fail(WEFT_INVALID, "%s is NULL", context ? "comm" : "context");
    if (status != WEFT_OK) {
        weft_comm_options_release(options, NULL);
        return status;
    }
    struct weft_making *making = &creation.making;
    making->timeout_ms = options->timeout_ms ? options->timeout_ms : context->settings.timeout_ms;
    making->deadline_ns = weft_deadline_ns(making->timeout_ms);
    return weft_making_run(making, sizeof creation, options->work);
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
    comm->driven.ops = &weft_comm_driven_ops;
    comm->driven.status = &comm->failure.status;
    comm->context = context;
    comm->rank = resolved->rank;
    comm->ranks = resolved->ranks;
    comm->generation = resolved->generation;
    comm->timeout_ms = timeout_ms;
    comm->name = strdup(resolved->name ? resolved->name : "");
    status = comm->name ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for a communicator");
    if (status == WEFT_OK)
        status = meet(comm, resolved, deadline_ns);
    if (status == WEFT_OK) {
        weft_ending_add(comm);
        *opened = comm;
        return WEFT_OK;
    }
    char text[WEFT_DETAIL_MAX];
    weft_comm_explain(text, sizeof text, weft_error_detail());
    weft_comm_discard(comm);
    return weft_fail(status, "%s", text);
}
