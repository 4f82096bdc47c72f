/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a bootstrap: check-in, table, tree, first barrier (docs/bootstrap.md, section 1). It stands above
 * edges and consensus, and so it is here that the one gets to know the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "comm/boot/consensus/wave.h"
#include "base/net/socket.h"

static int init_lock(struct weft_bootstrap *b)
{
    if (pthread_mutex_init(&b->lock, NULL) != 0)
        return -1;
    if (weft_clock_condition(&b->changed) == 0)
        return 0;
    pthread_mutex_destroy(&b->lock);
    return -1;
}

static void destroy(struct weft_bootstrap *b)
{
    weft_boot_listener_close(b);
    weft_boot_gather_clear(b);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    weft_boot_consensus_clear(b);
    weft_boot_oobs_free(b->oobs);
    free(b->deaths);
    free(b->slots);
    free(b->noticed);
    free(b->aborts_of);
    free(b->members);
    weft_crypto_wipe(&b->job, sizeof b->job);
    for (int i = 0; b->edges && i < b->edge_count; i++)
        free(b->edges[i].words);
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
    b->on_oob = options->received;
    b->on_oob_arg = options->received_arg;
    b->cancelled = options->cancelled;
    b->cancelled_arg = options->cancelled_arg;
    b->heartbeat_ns = (options->heartbeat_ms ? options->heartbeat_ms : WEFT_HEARTBEAT_DEFAULT_MS) * 1000000;
    b->consensus = &weft_boot_consensus;
    b->round = b->slots_round = WEFT_BOOT_ROUND_START;
    b->agreements = b->instances_from = WEFT_BOOT_ROUND_START;
    size_t ranks = (size_t)b->ranks;
    b->members = calloc(ranks, sizeof *b->members);
    b->noticed = calloc(ranks, 1);
    b->aborts_of = calloc(ranks, sizeof *b->aborts_of);
    if (b->rank == 0)
        b->slots = calloc(ranks, sizeof *b->slots);
    b->listener = -1;
    if (weft_boot_edges_make(b) != WEFT_OK || !b->members || !b->noticed || !b->aborts_of ||
        (b->rank == 0 && !b->slots)) {
        weft_fail(WEFT_NOMEM, "bootstrap: no memory for %d ranks", b->ranks);
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

/* Lets the service thread take over, hands on the table, and waits until everybody got that far. */
static int build_overlay(struct weft_bootstrap *b, struct weft_boot_bytes *table, int64_t deadline_ns)
{
    int status = weft_boot_overlay_start(b);
    if (status == WEFT_OK)
        status = weft_boot_mesh_make(b, table, deadline_ns);
    if (status == WEFT_OK)
        status = weft_bootstrap_barrier(b, "making the communicator", weft_boot_grace(deadline_ns));
    weft_boot_listener_close(b);
    if (status == WEFT_TIMEOUT) {
        char text[WEFT_DETAIL_MAX];
        snprintf(text, sizeof text, "%.900s", weft_error_detail());
        status = weft_fail(WEFT_RANKS_ABSENT, "after the check-in, %s", text);
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
    weft_boot_kick(b); /* for out-of-band messages that have come already */
    pthread_mutex_unlock(&b->lock);
    return status;
}

static void note_address(struct weft_bootstrap *b)
{
    struct weft_net_address here = b->ranks == 1
                                       ? (struct weft_net_address){.family = 4, .ip = {127, 0, 0, 1}}
                                       : b->members[b->rank].address;
    weft_net_address_text(&here, 0, b->local_address);
}

/* Open has failed. Unless the others know, or run into the same deadline, they need not wait for theirs. */
static void announce_failure(struct weft_bootstrap *b, int status, const char *text)
{
    pthread_mutex_lock(&b->lock);
    if (status != WEFT_RANKS_ABSENT && b->failure_status == WEFT_OK)
        weft_boot_revoke(b, WEFT_REVOKED, text);
    pthread_mutex_unlock(&b->lock);
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
    return WEFT_OK;
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
        announce_failure(b, status, text);
        weft_boot_overlay_stop(b);
        destroy(b);
        return weft_fail(status, "%s", text);
    }
    return WEFT_OK;
}

void weft_bootstrap_stop(struct weft_bootstrap *b)
{
    if (b && !b->stopped)
        weft_boot_overlay_stop(b);
    if (b)
        b->stopped = 1;
}

void weft_bootstrap_close(struct weft_bootstrap *b)
{
    if (!b)
        return;
    weft_bootstrap_stop(b);
    destroy(b);
}
