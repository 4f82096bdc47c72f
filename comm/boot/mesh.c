/* SPDX-License-Identifier: Apache-2.0 */
/* Who is whose neighbour, and how the edges come into being (docs/bootstrap.md, section 1).
 *
 * Rank r has its parent and children in the tree and, so that no death cuts off others, the ranks r +- 2^k with
 * 2^k <= ranks / 2. Of two neighbours the lower one dials. Dials need no table at the other end, only
 * its listener, so they run all at once; those who come in are served by the service thread. A rank comes to the
 * first barrier when its own dials are done, so that behind the barrier all edges are there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "comm/boot/boot.h"

/* Appends neighbour to list unless it is there. */
static int add(int *list, int count, int64_t neighbour)
{
    for (int i = 0; i < count; i++) {
        if (list[i] == neighbour)
            return count;
    }
    list[count] = (int)neighbour;
    return count + 1;
}

int weft_boot_neighbours(int rank, int ranks, int list[WEFT_BOOT_DEGREE_MAX], int *tree)
{
    int count = 0;
    if (rank > 0)
        list[count++] = weft_boot_parent(rank);
    for (int64_t i = 1; i <= WEFT_BOOT_ARITY && (int64_t)rank * WEFT_BOOT_ARITY + i < ranks; i++)
        list[count++] = (int)((int64_t)rank * WEFT_BOOT_ARITY + i);
    *tree = count;
    for (int64_t distance = 1; distance <= ranks / 2; distance *= 2) {
        count = add(list, count, (rank + distance) % ranks);
        count = add(list, count, (rank - distance + ranks) % ranks);
    }
    return count;
}

int weft_boot_edges_make(struct weft_bootstrap *b)
{
    int list[WEFT_BOOT_DEGREE_MAX];
    int count = weft_boot_neighbours(b->rank, b->ranks, list, &b->tree_count);
    b->edges = calloc((size_t)count + 1, sizeof *b->edges);
    if (!b->edges)
        return WEFT_NOMEM;
    b->edge_count = b->ranks > 1 ? count : 0;
    for (int i = 0; i < b->edge_count; i++) {
        struct weft_boot_edge *edge = &b->edges[i];
        edge->owner = b;
        edge->rank = list[i];
        edge->link.fd = -1;
    }
    return WEFT_OK;
}

struct weft_auth_claims weft_boot_claims(const struct weft_bootstrap *b, int purpose)
{
    return (struct weft_auth_claims){.purpose = purpose,
                                     .rank = (uint32_t)b->rank,
                                     .ranks = (uint32_t)b->ranks,
                                     .generation = b->generation,
                                     .name_hash = b->name_hash,
                                     .session = b->session};
}

static int check_cancelled(void *arg)
{
    return weft_boot_check_cancelled(arg);
}

/* Connects to all neighbours with a higher rank at once: dials are as many as edges, and idle towards the lower ones. */
static int dial(struct weft_bootstrap *b, struct weft_net_dial *dials, int64_t deadline_ns)
{
    struct weft_auth_claims claims = weft_boot_claims(b, WEFT_AUTH_EDGE);
    for (int i = 0; i < b->edge_count; i++) {
        int rank = b->edges[i].rank;
        claims.peer = (uint32_t)rank;
        if (rank > b->rank)
            weft_net_dial_start(&dials[i], &b->job, &b->members[rank].address, &claims);
    }
    return weft_net_dial_all(dials, b->edge_count, deadline_ns, b->cancelled ? check_cancelled : NULL, b);
}

/* Who does not answer in time may be alive: then there is no communicator, but nobody has died. Nor when this rank has no
 * socket for it. */
static int check_dials(const struct weft_bootstrap *b, const struct weft_net_dial *dials)
{
    for (int i = 0; i < b->edge_count; i++) {
        const struct weft_boot_member *member = &b->members[b->edges[i].rank];
        if (dials[i].status == WEFT_SYSTEM)
            return weft_fail(WEFT_SYSTEM, "%s", dials[i].reason);
        if (dials[i].status == WEFT_TIMEOUT)
            return weft_fail(WEFT_RANKS_ABSENT,
                             "rank %d on host '%s' (pid %u) has checked in, but does not answer: %s",
                             b->edges[i].rank, member->host, (unsigned)member->pid, dials[i].reason);
    }
    return WEFT_OK;
}

/* Locked. The children get the table before anything else comes over their edges; NULL when there is no use for it. */
static int adopt(struct weft_bootstrap *b, struct weft_net_dial *dials, struct weft_boot_bytes *table)
{
    int status = WEFT_OK;
    for (int i = 0; i < b->edge_count; i++) {
        if (dials[i].state != WEFT_NET_DIAL_WELCOMED)
            continue;
        weft_boot_edge_adopt(&b->edges[i], dials[i].fd, &dials[i].session);
        dials[i].fd = -1;
        if (status == WEFT_OK && table && i < b->tree_count)
            status = weft_boot_edge_queue(&b->edges[i], WEFT_BOOT_TABLE, table);
    }
    return status;
}

/* Locked. Those who could not be reached are dead: said when the others' edges can carry it. */
static void note_unreached(struct weft_bootstrap *b, const struct weft_net_dial *dials)
{
    int known = b->failure_status != WEFT_OK; /* then they have left, as this rank will */
    for (int i = 0; i < b->edge_count && !known; i++) {
        if (dials[i].status != WEFT_OK)
            weft_boot_died(b, b->edges[i].rank, dials[i].reason);
    }
}

/* Locked. There will be no communicator, and the neighbours that were reached hear it from this rank: one that hung up
 * without a word would be dead to them. What only those find out who dial is said to all. */
static void part(struct weft_bootstrap *b, struct weft_net_dial *dials, int status, const char *text)
{
    adopt(b, dials, NULL);
    if (status == WEFT_RANKS_ABSENT && b->failure_status == WEFT_OK)
        weft_boot_revoke(b, WEFT_RANKS_ABSENT, text);
}

static int make(struct weft_bootstrap *b, struct weft_net_dial *dials, struct weft_boot_bytes *table,
                int64_t deadline_ns)
{
    char text[WEFT_DETAIL_MAX];
    int status = dial(b, dials, deadline_ns);
    if (status == WEFT_OK)
        status = check_dials(b, dials);
    snprintf(text, sizeof text, "%s", status == WEFT_OK ? "" : weft_error_detail());
    pthread_mutex_lock(&b->lock);
    if (status != WEFT_OK) {
        part(b, dials, status, text);
        pthread_mutex_unlock(&b->lock);
        return weft_fail(status, "%s", text);
    }
    status = adopt(b, dials, table);
    if (status == WEFT_OK)
        status = weft_boot_edges_watch(b);
    if (status == WEFT_OK)
        note_unreached(b, dials);
    pthread_mutex_unlock(&b->lock);
    return status;
}

/* --- those who dial this rank */

/* Whether it speaks of this communicator and rank. */
static int claims_fit(const struct weft_bootstrap *b, const struct weft_auth_claims *claims)
{
    return claims->purpose == WEFT_AUTH_EDGE && claims->session == b->session &&
           claims->peer == (uint32_t)b->rank && claims->ranks == (uint32_t)b->ranks &&
           claims->generation == b->generation && claims->name_hash == b->name_hash;
}

/* Locked. A proven connection becomes the edge of a lower neighbour. 0: it is none. */
static int take(struct weft_bootstrap *b, const struct weft_net_proven *proven)
{
    struct weft_boot_edge *edge = NULL;
    for (int i = 0; i < b->edge_count; i++) {
        if ((uint32_t)b->edges[i].rank == proven->claims.rank && b->edges[i].rank < b->rank)
            edge = &b->edges[i];
    }
    if (!edge || !claims_fit(b, &proven->claims) || weft_net_welcome(proven) != WEFT_OK)
        return 0;
    if (edge->link.fd >= 0) /* one that the neighbour gave up on */
        weft_boot_edge_drop(edge);
    weft_boot_edge_adopt(edge, proven->fd, &proven->session);
    return 1;
}

void weft_boot_mesh_serve(struct weft_bootstrap *b)
{
    struct weft_net_proven proven;
    while (weft_net_accept_step(b->accept, &proven) == 1) {
        if (take(b, &proven))
            continue;
        weft_log(WEFT_LOG_INFO, "bootstrap: dropped a connection of rank %u, which is no neighbour",
                 (unsigned)proven.claims.rank);
        weft_fd_close(proven.fd);
    }
    weft_crypto_wipe(&proven, sizeof proven);
}

static void on_mesh(void *arg, int fd)
{
    struct weft_bootstrap *b = arg;
    weft_boot_enter(b);
    if (!b->closing) {
        weft_boot_mesh_serve(b);
        if (weft_boot_edges_watch(b) != WEFT_OK) {
            weft_boot_revoke(b, WEFT_REVOKED, weft_error_detail());
            weft_service_unwatch(b->service, fd);
        }
    }
    weft_boot_leave(b);
}

int weft_boot_mesh_make(struct weft_bootstrap *b, struct weft_boot_bytes *table, int64_t deadline_ns)
{
    int status = WEFT_OK;
    struct weft_net_dial *dials = calloc((size_t)b->edge_count, sizeof *dials);
    if (!dials)
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory to connect to %d ranks", b->edge_count);
    for (int i = 0; i < b->edge_count; i++)
        dials[i].fd = -1;
    if (b->accept)
        status = weft_service_watch(b->service, weft_net_accept_fd(b->accept), on_mesh, b);
    if (status == WEFT_OK)
        status = make(b, dials, table, deadline_ns);
    for (int i = 0; i < b->edge_count; i++)
        weft_net_dial_stop(&dials[i]);
    free(dials);
    return status;
}

void weft_boot_listener_close(struct weft_bootstrap *b)
{
    if (b->accept)
        weft_service_unwatch(b->service, weft_net_accept_fd(b->accept));
    weft_net_accept_close(b->accept);
    b->accept = NULL;
    weft_fd_close(b->listener);
    b->listener = -1;
}
