/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator has moved and what it holds. */
#include <string.h>

#include "base/fork.h"
#include "base/struct.h"
#include "algos/hosts.h"
#include "comm/core/comm.h"
#include "comm/regions/device_regions.h"
#include "comm/exec/fastpath.h"
#include "comm/regions/cache.h"

/* [lock] Peers whose links are up, and what is counted by link. */
static void count_links(const struct weft_comm *comm, weft_comm_stats *now)
{
    for (int r = 0; r < comm->ranks; r++) {
        struct weft_link *link = weft_exec_link(comm->exec, (uint32_t)r);
        struct weft_exec_peer *peer;
        struct weft_link_help help = {.size = sizeof help};
        uint32_t flags;
        if (!link || weft_exec_connect(comm->exec, (uint32_t)r, &peer) != WEFT_OK)
            continue;
        now->connections += peer->ops->link_flags(link, &flags) == WEFT_OK;
        if (peer->ops->link_help(link, &help) != WEFT_OK)
            continue;
        now->bytes_offered += help.bytes_offered;
        now->bytes_helped += help.bytes_helped;
        now->bytes_fed += help.bytes_fed;
    }
}

/* [lock] */
static uint64_t count_bytes(const struct weft_comm *comm)
{
    size_t bytes = sizeof *comm + strlen(comm->name) + 1;
    for (int r = 0; r < comm->ranks; r++)
        bytes += sizeof comm->members[r] + weft_member_bytes(&comm->members[r]);
    bytes += weft_plans_bytes(&comm->plans);
    bytes += comm->hosts ? weft_hosts_bytes(comm->hosts) : 0;
    bytes += weft_exec_bytes(comm->exec);
    bytes += weft_p2p_bytes(comm->p2p);
    if (comm->fastpath)
        bytes += weft_fastpath_bytes(comm->fastpath);
    return bytes + weft_bootstrap_bytes(comm->bootstrap);
}

/* [lock] */
static uint64_t count_pool(const struct weft_context *context)
{
    uint64_t bytes = 0;
    for (const struct weft_pool_buffer *buffer = context->regions.buffers; buffer; buffer = buffer->next)
        bytes += buffer->size;
    return bytes;
}

int weft_comm_get_stats(const weft_comm *comm, weft_comm_stats *stats)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !stats)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "stats" : "comm");
    static const struct weft_struct about = WEFT_STRUCT(weft_comm_stats, WEFT_COMM_STATS_INIT, operations);
    int status = weft_struct_check(&about, stats);
    if (status != WEFT_OK)
        return status;
    weft_comm_stats now = {.size = sizeof now};
    weft_context_lock(comm->context); /* progress counts calls that have been started */
    now.operations = comm->operations + comm->fast_operations;
    now.fast_path = comm->fast_operations;
    const struct weft_exec_stats *moved = weft_exec_get_stats(comm->exec);
    now.operations += moved->operations;
    now.bytes_eager = moved->bytes_eager;
    now.bytes_direct = moved->bytes_direct;
    now.bytes_staged = moved->bytes_staged;
    now.bytes_mapped = moved->bytes_mapped;
    now.bytes_pulled = moved->bytes_pulled;
    now.messages = moved->messages;
    now.device_collectives = moved->collectives;
    count_links(comm, &now);
    now.p2p_sends = weft_p2p_get_stats(comm->p2p)->sends;
    now.p2p_receives = weft_p2p_get_stats(comm->p2p)->receives;
    now.registrations = comm->context->regions.registrations;
    if (comm->context->regions.cache) {
        struct weft_region_cache_stats kept;
        weft_region_cache_get_stats(comm->context->regions.cache, &kept);
        now.cache_hits = kept.hits;
        now.cache_misses = kept.misses;
    }
    if (comm->context->regions.device_regions) {
        struct weft_device_regions_stats kept;
        weft_device_regions_get_stats(comm->context->regions.device_regions, &kept);
        now.cache_hits += kept.hits;
        now.cache_misses += kept.misses;
    }
    now.bytes_memory = count_bytes(comm);
    now.bytes_pool = count_pool(comm->context);
    weft_context_unlock(comm->context);
    weft_struct_fill(&about, stats, 0, &now);
    return WEFT_OK;
}
