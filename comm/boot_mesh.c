/* SPDX-License-Identifier: Apache-2.0 */
/* Who is whose neighbour, and the edges beyond the tree (docs/bootstrap.md, section 1).
 *
 * Rank r has its parent and children in the tree and, so that no death cuts off others, the ranks r +- 2^k with
 * 2^k <= ranks / 2. Of two neighbours in the mesh the lower one dials. Dials need no table at the other end, only
 * its listener, so they run all at once; those who come in are served by the service thread. A rank comes to the
 * first barrier when its own dials are done, so that behind the barrier all edges are there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "comm/boot_wave.h"

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

int weft_boot_inbound(int rank, int ranks)
{
    int list[WEFT_BOOT_DEGREE_MAX], tree;
    int count = weft_boot_neighbours(rank, ranks, list, &tree);
    int inbound = weft_boot_parent(rank) > 0;
    for (int i = tree; i < count; i++)
        inbound += list[i] < rank;
    return inbound;
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
        uint64_t accepts = i >= b->tree_count                     ? WEFT_BOOT_EDGES
                           : list[i] == weft_boot_parent(b->rank) ? WEFT_BOOT_DOWN
                                                                  : WEFT_BOOT_UP;
        edge->owner = b;
        edge->rank = list[i];
        edge->fd = -1;
        edge->sequence = WEFT_BOOT_SEQUENCE_START;
        weft_boot_reader_init(&edge->reader, accepts);
    }
    return WEFT_OK;
}

/* Dials to several neighbours. */
struct group {
    struct weft_boot_dial *dials;
    int *edges; /* index of the edge of each dial */
    int count;
};

static void group_free(struct group *group)
{
    for (int i = 0; i < group->count; i++)
        weft_boot_dial_stop(&group->dials[i]);
    free(group->dials);
    free(group->edges);
}

/* Connects to those of edges[first..last) with a higher rank, all at once. */
static int dial(struct weft_bootstrap *b, int first, int last, int purpose, int64_t deadline_ns,
                struct group *group)
{
    struct group made = {calloc((size_t)(last - first) + 1, sizeof(struct weft_boot_dial)),
                         calloc((size_t)(last - first) + 1, sizeof(int)), 0};
    if (!made.dials || !made.edges) {
        group_free(&made);
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory to connect to %d ranks", last - first);
    }
    for (int i = first; i < last; i++) {
        int rank = b->edges[i].rank;
        if (rank < b->rank)
            continue;
        const struct weft_auth_claims claims = {.purpose = purpose,
                                                .rank = (uint32_t)b->rank,
                                                .peer = (uint32_t)rank,
                                                .ranks = (uint32_t)b->ranks,
                                                .generation = b->generation,
                                                .name_hash = b->name_hash,
                                                .session = b->session};
        made.edges[made.count] = i;
        weft_boot_dial_start(&made.dials[made.count++], &b->job, &b->members[rank].address, &claims);
    }
    int status = WEFT_OK, left = 1;
    while (left > 0 && status == WEFT_OK && weft_clock_ns() < deadline_ns) {
        int64_t nap_ns = weft_clock_ns() + weft_boot_nap_ms(b) * INT64_C(1000000);
        left = weft_boot_dial_until(made.dials, made.count, nap_ns < deadline_ns ? nap_ns : deadline_ns);
        status = weft_boot_check_cancelled(b);
    }
    if (status != WEFT_OK) {
        group_free(&made);
        return status;
    }
    weft_boot_dial_all(made.dials, made.count, deadline_ns);
    *group = made;
    return WEFT_OK;
}

/* Locked. */
static void adopt(struct weft_bootstrap *b, struct group *group)
{
    for (int i = 0; i < group->count; i++) {
        struct weft_boot_dial *each = &group->dials[i];
        if (each->status != WEFT_OK)
            continue;
        weft_boot_edge_adopt(&b->edges[group->edges[i]], each->fd, &each->session);
        each->fd = -1;
    }
}

/* Locked. Those who could not be reached are dead: said when the others' edges can carry it. */
static void mourn(struct weft_bootstrap *b, const struct group *group)
{
    for (int i = 0; i < group->count; i++) {
        if (group->dials[i].status != WEFT_OK)
            weft_boot_died(b, b->edges[group->edges[i]].rank, group->dials[i].reason);
    }
}

int weft_boot_tree_make(struct weft_bootstrap *b, struct weft_boot_bytes *table, int64_t deadline_ns)
{
    struct group group = {NULL, NULL, 0};
    int status = WEFT_OK, first = b->rank == 0 ? 0 : 1;
    if (b->rank != 0) /* whose children came to it */
        status = dial(b, first, b->tree_count, WEFT_AUTH_EDGE, deadline_ns, &group);
    pthread_mutex_lock(&b->lock);
    adopt(b, &group);
    for (int i = first; i < b->tree_count && status == WEFT_OK; i++)
        status = weft_boot_edge_queue(&b->edges[i], WEFT_BOOT_TABLE, table);
    mourn(b, &group);
    pthread_mutex_unlock(&b->lock);
    group_free(&group);
    return status;
}

/* --- those who dial this rank */

int weft_boot_mesh_take(struct weft_bootstrap *b, const struct weft_boot_proven *proven)
{
    const struct weft_auth_claims *claims = &proven->claims;
    struct weft_boot_edge *edge = NULL;
    for (int i = b->tree_count; i < b->edge_count; i++) {
        if ((uint32_t)b->edges[i].rank == claims->rank && b->edges[i].rank < b->rank)
            edge = &b->edges[i];
    }
    if (!edge || !weft_boot_claims_fit(b, claims, WEFT_AUTH_MESH) || weft_boot_welcome(proven) != WEFT_OK)
        return 0;
    if (edge->fd >= 0) /* one that the neighbour gave up on */
        weft_boot_edge_drop(edge);
    weft_boot_reader_init(&edge->reader, WEFT_BOOT_EDGES);
    edge->sequence = WEFT_BOOT_SEQUENCE_START;
    weft_boot_edge_adopt(edge, proven->fd, &proven->session);
    return 1;
}

int weft_boot_claims_fit(const struct weft_bootstrap *b, const struct weft_auth_claims *claims, int purpose)
{
    return claims->purpose == purpose && claims->session == b->session && claims->peer == (uint32_t)b->rank &&
           claims->ranks == (uint32_t)b->ranks && claims->generation == b->generation &&
           claims->name_hash == b->name_hash;
}

static void on_mesh(void *arg, int fd)
{
    struct weft_bootstrap *b = arg;
    struct weft_boot_proven proven;
    (void)fd;
    weft_boot_enter(b);
    while (!b->closing && weft_boot_accept_step(b->accept, &proven) == 1) {
        if (!weft_boot_mesh_take(b, &proven)) {
            weft_log(WEFT_LOG_INFO, "bootstrap: dropped a connection of rank %u, which is no neighbour",
                     (unsigned)proven.claims.rank);
            weft_fd_close(proven.fd);
        } else if (weft_boot_edges_watch(b) != WEFT_OK) {
            weft_boot_revoke(b, WEFT_REVOKED, weft_error_detail());
        }
    }
    weft_crypto_wipe(&proven, sizeof proven);
    weft_boot_leave(b);
}

int weft_boot_mesh_make(struct weft_bootstrap *b, int64_t deadline_ns)
{
    struct group group = {NULL, NULL, 0};
    int status = WEFT_OK;
    if (b->accept)
        status = weft_service_watch(b->service, weft_boot_accept_fd(b->accept), on_mesh, b);
    if (status == WEFT_OK && b->edge_count > b->tree_count)
        status = dial(b, b->tree_count, b->edge_count, WEFT_AUTH_MESH, deadline_ns, &group);
    pthread_mutex_lock(&b->lock);
    adopt(b, &group);
    if (status == WEFT_OK)
        status = weft_boot_edges_watch(b);
    mourn(b, &group);
    pthread_mutex_unlock(&b->lock);
    group_free(&group);
    return status;
}

void weft_boot_mesh_close(struct weft_bootstrap *b)
{
    if (b->accept)
        weft_service_unwatch(b->service, weft_boot_accept_fd(b->accept));
    pthread_mutex_lock(&b->lock);
    weft_boot_retire(b, b->accept);
    b->accept = NULL;
    pthread_mutex_unlock(&b->lock);
    weft_fd_close(b->listener);
    b->listener = -1;
}
