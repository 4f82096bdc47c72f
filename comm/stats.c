/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator has moved and what it holds. */
#include <string.h>

#include "base/fork.h"
#include "comm/arrange.h"
#include "comm/comm.h"
#include "comm/device_regions.h"
#include "comm/fastpath.h"
#include "comm/region_cache.h"

/* [lock] Peers whose links are up. */
static uint64_t count_connections(const struct weft_comm *comm)
{
    uint64_t connections = 0;
    for (int r = 0; r < comm->ranks; r++) {
        struct weft_link *link = weft_exec_link(comm->exec, (uint32_t)r);
        struct weft_exec_peer *peer;
        uint32_t flags;
        if (link && weft_exec_connect(comm->exec, (uint32_t)r, &peer) == WEFT_OK)
            connections += peer->ops->link_flags(link, &flags) == WEFT_OK;
    }
    return connections;
}

/* [lock] */
static uint64_t count_bytes(const struct weft_comm *comm)
{
    size_t bytes = sizeof *comm + strlen(comm->name) + 1;
    for (int r = 0; r < comm->ranks && comm->members; r++)
        bytes += sizeof comm->members[r] + weft_member_bytes(&comm->members[r]);
    bytes += weft_plans_bytes(&comm->plans) + weft_comm_hosts_bytes(comm);
    if (comm->exec)
        bytes += weft_exec_bytes(comm->exec);
    bytes += weft_p2p_bytes(comm->p2p);
    if (comm->fastpath)
        bytes += weft_fastpath_bytes(comm->fastpath);
    if (comm->bootstrap)
        bytes += weft_bootstrap_bytes(comm->bootstrap);
    return bytes;
}

/* [lock] */
static uint64_t count_pool(const struct weft_context *context)
{
    uint64_t bytes = 0;
    for (const struct weft_pool_buffer *buffer = context->buffers; buffer; buffer = buffer->next)
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
    if (stats->size < sizeof(size_t))
        return weft_fail(WEFT_INVALID, "weft_comm_stats.size is %zu: use WEFT_COMM_STATS_INIT", stats->size);
    weft_comm_stats now = {.size = stats->size,
                           .operations = comm->operations + comm->fast_operations,
                           .fast_path = comm->fast_operations};
    weft_context_lock(comm->context);
    if (comm->exec) {
        const struct weft_exec_stats *moved = weft_exec_get_stats(comm->exec);
        now.operations += moved->operations;
        now.bytes_eager = moved->bytes_eager;
        now.bytes_direct = moved->bytes_direct;
        now.bytes_staged = moved->bytes_staged;
        now.messages = moved->messages;
        now.programs = moved->programs;
        now.connections = count_connections(comm);
    }
    now.p2p_sends = weft_p2p_get_stats(comm->p2p)->sends;
    now.p2p_receives = weft_p2p_get_stats(comm->p2p)->receives;
    now.registrations = comm->context->registrations;
    if (comm->context->cache) {
        struct weft_region_cache_stats kept;
        weft_region_cache_get_stats(comm->context->cache, &kept);
        now.cache_hits = kept.hits;
        now.cache_misses = kept.misses;
    }
    if (comm->context->device_regions) {
        struct weft_device_regions_stats kept;
        weft_device_regions_get_stats(comm->context->device_regions, &kept);
        now.cache_hits += kept.hits;
        now.cache_misses += kept.misses;
    }
    now.bytes_memory = count_bytes(comm);
    now.bytes_pool = count_pool(comm->context);
    weft_context_unlock(comm->context);
    memcpy(stats, &now, stats->size < sizeof now ? stats->size : sizeof now);
    return WEFT_OK;
}
