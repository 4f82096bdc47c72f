/* SPDX-License-Identifier: Apache-2.0 */
/* What a call would use, without making it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/struct.h"
#include "comm/calls/collective.h"
#include "comm/exec/fastpath.h"
#include "comm/exec/staging.h"
#include "comm/regions/device_memory.h"
#include "comm/calls/op.h"

const char *weft_comm_transport_name(const struct weft_comm *comm)
{
    static const char *const names[2][8] = {
        {"shm", "shm+ofi", "shm+verbs", "shm+verbs+ofi", "shm+tcp", "shm+ofi+tcp", "shm+verbs+tcp",
         "shm+verbs+ofi+tcp"},
        {"none", "ofi", "verbs", "verbs+ofi", "tcp", "ofi+tcp", "verbs+tcp", "verbs+ofi+tcp"},
    };
    int network = 0; /* a rank brings an address only where it is needed */
    for (int r = 0; r < comm->ranks && !comm->one_host; r++)
        network |= (comm->members[r].sizes[WEFT_OFI] != 0) | (comm->members[r].sizes[WEFT_VERBS] != 0) << 1 |
                   (comm->members[r].sizes[WEFT_TCP] != 0) << 2;
    return names[comm->no_shm][network];
}

/* As the ranks would agree on it, when the others pass memory of the same kind. */
static enum weft_algorithm algorithm_of(const struct weft_comm *comm, const struct weft_operands *operands)
{
    enum weft_algorithm algorithm = weft_collective_fast_algorithm(comm, operands);
    if (algorithm)
        return algorithm;
    algorithm = weft_collective_choose(comm, operands);
    weft_context_lock(comm->context);
    algorithm = weft_allreduce_prefer(comm, operands, algorithm);
    weft_context_unlock(comm->context);
    return algorithm;
}

/* Why what is larger than the eager limit goes the way it does between ranks of one host, of a collective that has no root. [lock] */
static void say_why(const struct weft_comm *comm, const struct weft_operands *operands, char *why,
                    size_t capacity)
{
    const struct weft_settings *settings = &comm->context->settings;
    size_t bytes = operands->count * weft_dtype_size(operands->dtype);
    if (weft_collective_fast_algorithm(comm, operands))
        snprintf(why, capacity, "it goes by the cache-line path (WEFT_FAST_PATH)");
    else if (comm->ranks == 1 || comm->no_shm || bytes < WEFT_STAGING_BYTES_MIN ||
             weft_collective_has_root(operands->collective))
        return;
    else if (weft_exec_may_stage(comm->exec))
        weft_exec_staging_say(comm->exec, operands->collective, bytes, why, capacity);
    else if (!settings->direct) {
        snprintf(why, capacity, "large pieces are staged within a host: WEFT_DIRECT is 0");
        weft_exec_past_say(comm->exec, why, capacity);
    } else if (settings->way_shm)
        snprintf(why, capacity, "this rank stages nothing by choice: WEFT_WAY_SHM is set");
}

static int describe_message(const struct weft_comm *comm, int is_received, int rank, const void *memory,
                            size_t count, weft_dtype dtype, weft_description *made)
{
    size_t element_bytes = weft_dtype_size(dtype);
    if (rank < 0 || rank >= comm->ranks)
        return weft_fail(WEFT_INVALID, "root, the rank that the message %s, is %d: expected 0 to %d",
                         is_received ? "comes from" : "goes to", rank, comm->ranks - 1);
    if (!element_bytes || count > SIZE_MAX / element_bytes)
        return weft_fail(WEFT_INVALID,
                         "%zu elements of type %d: expected a type, and bytes that can be counted", count,
                         (int)dtype);
    weft_context_lock(comm->context);
    made->algorithm = is_received ? weft_p2p_help(comm->p2p, (uint32_t)rank, count * element_bytes, made->why,
                                                  sizeof made->why)
                                  : weft_p2p_way(comm->p2p, (uint32_t)rank, memory, count * element_bytes,
                                                 made->why, sizeof made->why);
    made->transport =
        rank == comm->rank ? "self" : comm->context->transports[comm->members[rank].transport].ops.name;
    weft_context_unlock(comm->context);
    return WEFT_OK;
}

static int fail_name(const char *collective)
{
    char names[200] = "";
    for (int i = 0; i < WEFT_COLLECTIVE_COUNT; i++) {
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s, ", weft_collective_name((enum weft_collective)i));
    }
    return weft_fail(WEFT_INVALID, "collective is '%s': expected %ssend or recv", collective, names);
}

int weft_comm_describe(const weft_comm *comm, const char *collective, const void *send, const void *recv,
                       size_t count, weft_dtype dtype, weft_op op, int root, weft_description *description)
{
    static const struct weft_struct about = WEFT_STRUCT(weft_description, WEFT_DESCRIPTION_INIT, algorithm);
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !collective || !description)
        return weft_fail(WEFT_INVALID, "%s is NULL",
                         !comm         ? "comm"
                         : !collective ? "collective"
                                       : "description");
    int status = weft_struct_check(&about, description), which = weft_collective_parse(collective);
    if (status != WEFT_OK)
        return status;
    int is_received = strcmp(collective, "recv") == 0;
    if (is_received || strcmp(collective, "send") == 0) {
        weft_description message = WEFT_DESCRIPTION_INIT;
        status = describe_message(comm, is_received, root, send, count, dtype, &message);
        if (status == WEFT_OK)
            weft_struct_fill(&about, description, 0, &message);
        return status;
    }
    if (which < 0)
        return fail_name(collective);
    struct weft_operands operands = {.collective = (enum weft_collective)which,
                                     .root =
                                         weft_collective_has_root((enum weft_collective)which) ? root : -1,
                                     .send = send,
                                     .recv = (void *)(uintptr_t)recv,
                                     .count = which == WEFT_BARRIER ? 0 : count,
                                     .dtype = dtype,
                                     .op = op};
    status = send || recv ? weft_operands_check(comm, &operands) : weft_operands_check_shape(comm, &operands);
    if (status != WEFT_OK)
        return status;
    weft_description made = {
        .algorithm = comm->ranks == 1 ? "copy" : weft_algorithm_name(algorithm_of(comm, &operands)),
        .transport = weft_comm_transport_name(comm)};
    weft_context_lock(comm->context);
    if (!(send && weft_where_is_device(comm->context, send)) &&
        !(recv && weft_where_is_device(comm->context, recv)))
        say_why(comm, &operands, made.why, sizeof made.why);
    weft_context_unlock(comm->context);
    weft_struct_fill(&about, description, 0, &made);
    return WEFT_OK;
}
