/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a bootstrap: check-in, table, tree, first barrier (docs/bootstrap.md, section 1). */
#include "comm/bootstrap.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "comm/boot.h"
#include "comm/boot_net.h"

static int init_lock(struct weft_bootstrap *b)
{
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&b->lock, NULL) != 0)
        return -1;
    if (pthread_condattr_init(&attributes) != 0)
        goto destroy_lock;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int error = pthread_cond_init(&b->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error == 0)
        return 0;
destroy_lock:
    pthread_mutex_destroy(&b->lock);
    return -1;
}

static void destroy(struct weft_bootstrap *b)
{
    weft_boot_mesh_close(b);
    weft_boot_gather_clear(b);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    weft_boot_agree_clear(b);
    weft_boot_reports_free(b->reports);
    weft_boot_reports_free(b->letters);
    free(b->deaths);
    free(b->slots);
    free(b->arrived);
    free(b->noticed);
    free(b->aborts_of);
    free(b->members);
    weft_boot_accept_close(b->retired);
    weft_crypto_wipe(&b->job, sizeof b->job);
    for (int i = 0; i < b->edge_count; i++)
        weft_crypto_wipe(&b->edges[i].send, sizeof b->edges[i].send);
    free(b->edges);
    free(b);
}

static struct weft_bootstrap *create(const struct weft_bootstrap_options *options)
{
    struct weft_bootstrap *b = calloc(1, sizeof *b);
    if (!b || init_lock(b) != 0) {
        free(b);
        weft_fail(WEFT_NOMEM, "bootstrap: no memory");
        return NULL;
    }
    b->rank = options->rank;
    b->ranks = options->ranks;
    b->service = options->service;
    b->generation = options->generation;
    b->name_hash = weft_boot_name_hash(options->name);
    b->on_failed = options->failed;
    b->on_failed_arg = options->failed_arg;
    b->on_report = options->rank == 0 ? options->report : NULL;
    b->on_report_arg = options->report_arg;
    b->on_told = options->told;
    b->on_told_arg = options->told_arg;
    b->cancelled = options->cancelled;
    b->cancelled_arg = options->cancelled_arg;
    b->heartbeat_ns = (options->heartbeat_ms ? options->heartbeat_ms : WEFT_HEARTBEAT_DEFAULT_MS) * 1000000;
    b->timer_fd = -1;
    b->round = b->slots_round = WEFT_BOOT_ROUND_START;
    b->agreements = b->instances_from = WEFT_BOOT_ROUND_START;
    size_t ranks = (size_t)b->ranks;
    b->members = calloc(ranks, sizeof *b->members);
    b->noticed = calloc(ranks, 1);
    b->aborts_of = calloc(ranks, sizeof *b->aborts_of);
    if (b->rank == 0) {
        b->slots = calloc(ranks, sizeof *b->slots);
        b->arrived = calloc(ranks, 1);
    }
    b->listener = -1;
    if (weft_boot_edges_make(b) != WEFT_OK || !b->members || !b->noticed || !b->aborts_of ||
        (b->rank == 0 && (!b->slots || !b->arrived))) {
        weft_fail(WEFT_NOMEM, "bootstrap: no memory for %d ranks", b->ranks);
        free(b->slots); /* without it nothing looks into arrived */
        b->slots = NULL;
        destroy(b);
        return NULL;
    }
    return b;
}

static int make_table(struct weft_bootstrap *b, struct weft_boot_bytes **table)
{
    struct weft_boot_writer body = {0};
    weft_boot_table_put(&body, b->session, b->heartbeat_ns / 1000000, b->members, b->ranks);
    if (body.failed) {
        free(body.data);
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for the addresses of %d ranks", b->ranks);
    }
    *table = weft_boot_bytes_new(body.data, body.size);
    return *table ? WEFT_OK : WEFT_NOMEM;
}

/* Hands on the table, lets the service thread take over, and waits until everybody got that far. */
static int build_overlay(struct weft_bootstrap *b, struct weft_boot_bytes *table, int64_t deadline_ns)
{
    int status = weft_boot_tree_make(b, table, deadline_ns);
    if (status == WEFT_OK)
        status = weft_boot_overlay_start(b);
    if (status == WEFT_OK)
        status = weft_boot_mesh_make(b, deadline_ns);
    if (status == WEFT_OK)
        status = weft_bootstrap_barrier(b, "making the communicator", deadline_ns);
    weft_boot_mesh_close(b);
    if (status == WEFT_TIMEOUT) {
        char text[WEFT_DETAIL_MAX];
        snprintf(text, sizeof text, "%.900s", weft_error_detail());
        status = weft_fail(WEFT_ABSENT, "after the check-in, %s", text);
    }
    return status;
}

static int meet(struct weft_bootstrap *b, const struct weft_bootstrap_options *options)
{
    struct weft_boot_root *root = NULL;
    struct weft_boot_bytes *table = NULL;
    int status;
    if (b->rank == 0) {
        status = weft_boot_root_meet(b, options, &root);
        if (status == WEFT_OK)
            status = make_table(b, &table);
    } else {
        status = weft_boot_join(b, options, &table);
    }
    if (status == WEFT_OK)
        status = build_overlay(b, table, options->deadline_ns);
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", status == WEFT_OK ? "" : weft_error_detail());
    weft_boot_root_end(root, status, text);
    pthread_mutex_lock(&b->lock);
    weft_boot_bytes_drop(table);
    pthread_mutex_unlock(&b->lock);
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, "%s", text);
}

static int check_options(const struct weft_bootstrap_options *options)
{
    if (options->ranks < 1 || options->ranks > WEFT_BOOT_RANKS_MAX || options->rank < 0 ||
        options->rank >= options->ranks)
        return weft_fail(WEFT_INVALID, "rank %d of %d: expected 0 <= rank < ranks <= %d", options->rank,
                         options->ranks, WEFT_BOOT_RANKS_MAX);
    if (options->heartbeat_ms &&
        (options->heartbeat_ms < WEFT_HEARTBEAT_MIN_MS || options->heartbeat_ms > WEFT_HEARTBEAT_MAX_MS))
        return weft_fail(WEFT_INVALID, "heartbeat of %lld ms: expected %d to %d",
                         (long long)options->heartbeat_ms, WEFT_HEARTBEAT_MIN_MS, WEFT_HEARTBEAT_MAX_MS);
    if (options->ranks == 1 || options->store || options->file)
        return WEFT_OK;
    if (options->address) {
        char host[WEFT_BOOT_HOSTPORT_MAX];
        uint16_t port;
        return weft_boot_hostport_split(options->address, host, &port);
    }
    if (options->rank == 0 && options->listen_fd >= 0)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "rank %d has no way to find rank 0: expected a store, file or address",
                     options->rank);
}

/* From here on a failure is an event and not an error of open: unless one has happened already. */
static int arm(struct weft_bootstrap *b, struct weft_bootstrap **bootstrap)
{
    pthread_mutex_lock(&b->lock);
    int status = b->failure_status == WEFT_OK ? WEFT_OK : weft_boot_report_failure(b);
    if (status == WEFT_OK)
        *bootstrap = b; /* before a callback can want it */
    b->armed = status == WEFT_OK;
    b->ticked_ns = weft_clock_ns(); /* silence counts from here */
    for (int i = 0; i < b->edge_count; i++)
        b->edges[i].heard_ns = b->ticked_ns;
    weft_boot_kick(b); /* for reports that have come already */
    pthread_mutex_unlock(&b->lock);
    return status;
}

static void note_address(struct weft_bootstrap *b)
{
    struct weft_boot_address here = b->ranks == 1
                                        ? (struct weft_boot_address){.family = 4, .ip = {127, 0, 0, 1}}
                                        : b->members[b->rank].address;
    weft_boot_address_text(&here, 0, b->local_address);
}

/* Open has failed. Unless the others know, or run into the same deadline, they need not wait for theirs. */
static void tell_others(struct weft_bootstrap *b, int status, const char *text)
{
    pthread_mutex_lock(&b->lock);
    if (status != WEFT_ABSENT && b->failure_status == WEFT_OK)
        weft_boot_revoke(b, WEFT_REVOKED, text);
    pthread_mutex_unlock(&b->lock);
}

int weft_bootstrap_open(const struct weft_bootstrap_options *options, struct weft_bootstrap **bootstrap)
{
    int status = check_options(options);
    if (status != WEFT_OK)
        return status;
    struct weft_bootstrap *b = create(options);
    if (!b)
        return WEFT_NOMEM;
    if (b->ranks == 1)
        weft_boot_self(&b->members[0]);
    else
        status = weft_boot_secret_find(b, options);
    if (status == WEFT_OK && b->ranks > 1)
        status = meet(b, options);
    b->cancelled = NULL;
    if (status == WEFT_OK) {
        note_address(b);
        status = arm(b, bootstrap);
    }
    if (status != WEFT_OK) {
        char text[WEFT_DETAIL_MAX];
        snprintf(text, sizeof text, "%s", weft_error_detail());
        tell_others(b, status, text);
        weft_boot_overlay_stop(b);
        destroy(b);
        return weft_fail(status, "%s", text);
    }
    return WEFT_OK;
}

void weft_bootstrap_close(struct weft_bootstrap *b)
{
    if (!b)
        return;
    weft_boot_overlay_stop(b);
    destroy(b);
}

const char *weft_bootstrap_local_address(const struct weft_bootstrap *b)
{
    return b->local_address;
}

int weft_bootstrap_failure(const struct weft_bootstrap *bootstrap, char *text, size_t capacity)
{
    struct weft_bootstrap *b = (struct weft_bootstrap *)bootstrap; /* only to lock */
    if (!weft_bootstrap_has_failed(b))
        return WEFT_OK;
    pthread_mutex_lock(&b->lock);
    int status = b->failure_status;
    if (text && capacity)
        snprintf(text, capacity, "%s", b->failure_text);
    pthread_mutex_unlock(&b->lock);
    return status;
}

int weft_bootstrap_has_failed(const struct weft_bootstrap *b)
{
    return __atomic_load_n(&b->failed, __ATOMIC_ACQUIRE);
}

void weft_bootstrap_revoke(struct weft_bootstrap *b, const char *reason)
{
    pthread_mutex_lock(&b->lock);
    weft_boot_revoke(b, WEFT_REVOKED, reason);
    pthread_mutex_unlock(&b->lock);
}

void weft_bootstrap_abort(struct weft_bootstrap *b, const char *reason)
{
    pthread_mutex_lock(&b->lock);
    weft_boot_abort(b, reason);
    pthread_mutex_unlock(&b->lock);
}

uint64_t weft_bootstrap_aborts(struct weft_bootstrap *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t aborts = b->aborts;
    pthread_mutex_unlock(&b->lock);
    return aborts;
}

void weft_bootstrap_revoke_as(struct weft_bootstrap *b, int status, const char *reason)
{
    if (status >= 0 || status < WEFT_INTERNAL)
        status = WEFT_REVOKED;
    pthread_mutex_lock(&b->lock);
    weft_boot_revoke(b, status, reason);
    b->heard_failure = 1;
    weft_boot_kick(b);
    pthread_mutex_unlock(&b->lock);
}

int weft_bootstrap_listen(const struct weft_bootstrap *b, int *fd, char *address, size_t capacity)
{
    struct weft_boot_address here = b->members[b->rank].address, any = {0};
    char text[WEFT_BOOT_ADDRESS_TEXT];
    here.port = 0;
    /* An address that is forwarded to this host is none of its own. */
    int status = weft_boot_listen(&here, fd, &here.port);
    if (status != WEFT_OK)
        status = weft_boot_listen(&any, fd, &here.port);
    if (status == WEFT_OK)
        snprintf(address, capacity, "%s", weft_boot_address_text(&here, 1, text));
    return status;
}

size_t weft_bootstrap_bytes(const struct weft_bootstrap *b)
{
    size_t per_rank = sizeof *b->members + sizeof *b->noticed + sizeof *b->aborts_of;
    per_rank += b->slots ? sizeof *b->slots + sizeof *b->arrived : 0;
    return sizeof *b + (size_t)b->ranks * per_rank + (size_t)b->edge_count * sizeof *b->edges;
}

int weft_bootstrap_lowest(struct weft_bootstrap *b)
{
    pthread_mutex_lock(&b->lock);
    weft_boot_agree_seen(b); /* goodbyes that only neighbours have heard count from here on */
    int lowest = weft_boot_coordinator(b);
    pthread_mutex_unlock(&b->lock);
    return lowest;
}

int weft_bootstrap_lost_more(struct weft_bootstrap *b, const unsigned char *known)
{
    int more = 0;
    pthread_mutex_lock(&b->lock);
    for (int r = 0; r < b->ranks && !more; r++)
        more = !known[r] && b->noticed[r] & (WEFT_BOOT_IS_DEAD | WEFT_BOOT_HAS_LEFT);
    pthread_mutex_unlock(&b->lock);
    return more;
}
