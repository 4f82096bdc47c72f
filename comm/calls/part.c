/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/calls/part.h"

#include <stdlib.h>
#include <string.h>

#include "comm/calls/op.h"
#include "devmem/command_queue.h"

struct weft_call weft_operands_call(const struct weft_comm *comm, const struct weft_operands *operands)
{
    const size_t *counts = operands->unequal ? weft_operands_common_counts(operands) : NULL;
    uint64_t count = !operands->unequal ? operands->count
                     : counts           ? weft_counts_hash(counts, (size_t)comm->ranks)
                                        : 0;
    return (struct weft_call){.sequence = weft_comm_next_call(comm),
                              .count = count,
                              .root = operands->root,
                              .collective = (uint8_t)operands->collective,
                              .dtype = (uint8_t)operands->dtype,
                              .op = weft_op_announced(comm->context, operands->op),
                              .in_place = (uint8_t)operands->in_place,
                              .unequal = (uint8_t)operands->unequal};
}

/* --- whose memory */

/* Any byte of a buffer that there is; NULL: there is none. */
static const void *any_byte(const struct weft_operands *operands, const void *memory,
                            const struct weft_exec_blocks *blocks, size_t count)
{
    size_t end = 0;
    for (size_t b = 0; b < count; b++) {
        size_t offset = weft_operands_next(operands, blocks, (uint32_t)b, &end);
        if (weft_operands_count(operands, blocks, (uint32_t)b))
            return (const uint8_t *)memory + offset * operands->element_bytes;
    }
    return NULL;
}

static int where(const struct weft_comm *comm, const struct weft_operands *operands, int host_works,
                 struct weft_where *found)
{
    const void *send =
        any_byte(operands, operands->send, &operands->send_blocks, operands->send_blocks_count);
    const void *recv =
        any_byte(operands, operands->recv, &operands->recv_blocks, operands->recv_blocks_count);
    enum weft_where_work work = host_works                        ? WEFT_WHERE_HOST
                                : weft_operands_reduces(operands) ? WEFT_WHERE_REDUCES
                                                                  : WEFT_WHERE_COPIES;
    found->kind = NULL;
    if (operands->collective == WEFT_BARRIER)
        return WEFT_OK;
    return weft_where_look(comm->context, send, recv, work, found);
}

int weft_operands_where(const struct weft_comm *comm, const struct weft_operands *operands,
                        struct weft_where *found)
{
    return where(comm, operands,
                 weft_operands_reduces(operands) && weft_op_is_function(comm->context, operands->op), found);
}

/* Takes a command queue where the operands are device memory; otherwise the part stays as it is. [lock] */
static int place(struct weft_comm *comm, const struct weft_operands *operands, struct weft_part *part)
{
    struct weft_where found;
    int status = weft_operands_where(comm, operands, &found);
    if (status != WEFT_OK || !found.kind)
        return status;
    status = weft_part_take_command_queue(comm, operands, &found, part);
    if (status == WEFT_OK && part->on_host != found.on_host) {
        status = where(comm, operands, 1, &found);
        part->on_host = found.on_host;
    }
    return status;
}

int weft_part_take_command_queue(struct weft_comm *comm, const struct weft_operands *operands,
                                 const struct weft_where *found, struct weft_part *part)
{
    int status = weft_where_command_queue(comm->context, found, &part->commands);
    part->context = comm->context;
    part->on_host = found->on_host;
    if (status == WEFT_OK && !found->on_host && weft_operands_reduces(operands) &&
        !weft_command_queue_reduces(part->commands, operands->dtype,
                                    weft_op_kernel(comm->context, operands->op)))
        part->on_host = WEFT_SHADOW_NONE;
    return status;
}

/* --- the input
 *
 * Some calls change what the plan reads: they multiply the input by the rank's scalar, or copy it, where it is in place and the plan cannot
 * be. That is written down as moves. A command queue does them before the plan begins, and otherwise the host, here. */

/* Room for as many loads; the packed tensors of a list have theirs already. */
static struct weft_exec_moves *moves_of(struct weft_part *part, size_t loads)
{
    if (part->moves)
        return part->moves;
    struct weft_exec_moves *moves = calloc(1, sizeof *moves + loads * sizeof(struct weft_exec_move));
    if (!moves)
        weft_fail(WEFT_NOMEM, "no memory for what is to be done to the input");
    else if (loads)
        moves->loads = (struct weft_exec_move *)(moves + 1);
    part->moves = moves;
    return moves;
}

/* Memory of weft's own in place of the input, where the plan reads it. */
static int take_memory(struct weft_part *part, size_t bytes, void **memory)
{
    if (part->commands && !part->on_host)
        return weft_command_queue_memory(part->commands, WEFT_COMMAND_QUEUE_INPUT, bytes, memory);
    *memory = part->memory = malloc(bytes);
    return *memory ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for a copy of %zu bytes of input", bytes);
}

/* Where the host works on a device's memory the input lies in the shadow, and is multiplied there. */
static int scale_input(struct weft_part *part, const struct weft_operands *operands, const void *scalar,
                       struct weft_exec_request *request, int *in_place)
{
    struct weft_exec_moves *moves = moves_of(part, 0);
    size_t count = weft_operands_sum(operands, &operands->send_blocks, operands->send_blocks_count);
    int output_holds_it = operands->collective != WEFT_REDUCE_SCATTER && operands->recv_blocks_count;
    int status = moves ? WEFT_OK : WEFT_NOMEM;
    if (!moves || !count)
        return status;
    moves->scaled_count = count;
    moves->unscaled = operands->send;
    memcpy(moves->scalar, scalar, operands->element_bytes); /* the operation may go while the host works */
    if (part->on_host & WEFT_SHADOW_INPUT)
        return WEFT_OK;
    *in_place = !part->commands && output_holds_it;
    if (*in_place)
        moves->scaled = operands->recv;
    else
        status = take_memory(part, count * operands->element_bytes, &moves->scaled);
    request->input = moves->scaled;
    return status;
}

/* With the same distances between its blocks; the program may use the gaps meanwhile. */
static int copy_input(struct weft_part *part, const struct weft_operands *operands,
                      struct weft_exec_request *request)
{
    const struct weft_exec_blocks *blocks = &operands->send_blocks;
    size_t element_bytes = operands->element_bytes, many = operands->send_blocks_count, first, end = 0;
    size_t count = weft_operands_extent(operands, blocks, many, &first);
    struct weft_exec_moves *moves = count ? moves_of(part, many) : NULL;
    void *memory;
    if (!moves)
        return count ? WEFT_NOMEM : WEFT_OK;
    int status = take_memory(part, count * element_bytes, &memory);
    if (status != WEFT_OK)
        return status;
    struct weft_exec_move *loads = (struct weft_exec_move *)(moves + 1), *last = NULL;
    for (uint32_t b = 0; b < many; b++) {
        size_t offset = weft_operands_next(operands, blocks, b, &end);
        size_t bytes = weft_operands_count(operands, blocks, b) * element_bytes;
        const uint8_t *from = (const uint8_t *)operands->send + offset * element_bytes;
        if (bytes && last && (const uint8_t *)last->from + last->bytes == from) {
            last->bytes += bytes;
        } else if (bytes) {
            last = &loads[moves->load_count++];
            *last = (struct weft_exec_move){(uint8_t *)memory + (offset - first) * element_bytes, from, bytes,
                                            !part->commands};
        }
    }
    request->input = (const void *)((uintptr_t)memory - first * element_bytes);
    return WEFT_OK;
}

/* Without the lock where the call's thread does it, as it may be long. The room that was found for the operation stays: collectives of one
 * communicator come from one thread at a time. [lock] */
static int move_on_host(struct weft_comm *comm, const struct weft_exec_moves *moves, weft_dtype dtype)
{
    int keeps_lock = comm->context->progress.progressing, status = WEFT_OK;
    if (!keeps_lock)
        weft_context_unlock(comm->context);
    for (size_t m = 0; m < moves->load_count; m++)
        weft_copy(moves->loads[m].to, moves->loads[m].from, moves->loads[m].bytes);
    if (moves->scaled_count)
        status = weft_scale(dtype, moves->scaled, moves->unscaled, moves->scaled_count, moves->scalar);
    if (!keeps_lock)
        weft_context_lock(comm->context);
    return status;
}

/* Sets the request's input, and whether the plan is in place. [lock] */
static int prepare_input(struct weft_comm *comm, struct weft_part *part, const struct weft_operands *operands,
                         const void *scalar, struct weft_exec_request *request, int *in_place)
{
    int status = WEFT_OK;
    if (part->commands) {
        request->commands = part->commands;
        request->on_host = part->on_host;
        request->streaming = 0;
    }
    if (scalar)
        status = scale_input(part, operands, scalar, request, in_place);
    else if (operands->in_place && !*in_place)
        status = copy_input(part, operands, request);
    if (part->commands)
        request->moves = part->moves;
    else if (status == WEFT_OK && part->moves)
        status = move_on_host(comm, part->moves, operands->dtype);
    return status;
}

/* --- the request */

/* Whether results go past the caches. In one pass the output is written once and read by nobody here, so this
 * pays as soon as it exceeds a processor's own cache; otherwise peers read it back at once, and only outputs
 * of about the size of the shared cache gain (figures: docs/performance.md). */
static int should_stream(const struct weft_comm *comm, enum weft_algorithm algorithm,
                         const struct weft_operands *operands)
{
    const size_t one_pass_bytes = 1u << 20, shared_bytes = 16u << 20;
    size_t bytes = operands->count * operands->element_bytes;
    int one_pass = comm->ranks == 2 && algorithm == WEFT_ALGO_RD;
    return operands->collective == WEFT_ALLREDUCE && !operands->in_place &&
           bytes >= (one_pass ? one_pass_bytes : shared_bytes);
}

/* Everybody knows that there is nothing: an equal call of no elements, which compares the call. */
static int is_empty(const struct weft_comm *comm, const struct weft_operands *operands)
{
    const size_t *counts = weft_operands_common_counts(operands);
    for (int r = 0; counts && r < comm->ranks; r++) {
        if (counts[r])
            return 0;
    }
    return counts != NULL;
}

/* Finds out what the executor needs. The part has nothing but its command queue so far, and a list's packed tensors their moves; its plan and
 * memory become the part's. [lock] */
static int prepare(struct weft_comm *comm, const struct weft_operands *operands, const struct weft_call *call,
                   struct weft_exec_request *request, struct weft_part *part)
{
    enum weft_algorithm algorithm = (enum weft_algorithm)call->algorithm;
    int in_place = operands->in_place && operands->collective != WEFT_ALLTOALL;
    int empty = operands->unequal && is_empty(comm, operands);
    *request = (struct weft_exec_request){
        .input = operands->send,
        .output = operands->recv,
        .count = empty ? 0 : operands->count,
        .element_bytes = operands->element_bytes,
        .input_blocks = operands->send_blocks,
        .output_blocks = operands->recv_blocks,
        .streaming = should_stream(comm, algorithm, operands),
        .digest = weft_call_digest(call),
        .call = *call,
    };
    if (weft_call_is_list(call)) /* several operations, which need not have the same */
        request->call.algorithm = 0;
    const void *scalar = NULL;
    if (weft_operands_reduces(operands))
        weft_op_request(comm->context, operands->op, operands->dtype, comm->ranks, request->streaming,
                        request, &scalar);
    int status = prepare_input(comm, part, operands, scalar, request, &in_place);
    const struct weft_plan_request wanted = {
        .collective = operands->collective,
        .algorithm = algorithm,
        .ranks = (uint32_t)comm->ranks,
        .rank = (uint32_t)comm->rank,
        .in_place = in_place,
        .root = operands->root,
        .unequal = operands->unequal && !empty,
        .strict = weft_collective_is_strict(comm, operands),
        .hosts = comm->hosts,
    };
    if (status == WEFT_OK)
        status = weft_plans_get(&comm->plans, &wanted, &part->plan);
    if (status == WEFT_OK)
        request->plan = part->plan->plan;
    else
        weft_part_end(part);
    return status;
}

static int start_request(struct weft_comm *comm, const struct weft_exec_request *request,
                         struct weft_part *part)
{
    int status = weft_exec_start(comm->exec, request, &part->op);
    if (status != WEFT_OK)
        weft_part_end(part);
    return status;
}

int weft_part_start(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_call *call, struct weft_kept_call *kept, struct weft_part *part)
{
    int status = weft_exec_is_full(comm->exec) ? weft_works_await_room(comm) : WEFT_OK;
    *part = (struct weft_part){0};
    const struct weft_exec_request *request =
        kept && status == WEFT_OK ? weft_kept_find(comm, kept, operands, call, &part->plan) : NULL;
    if (request)
        return start_request(comm, request, part);
    if (status == WEFT_OK)
        status = place(comm, operands, part);
    if (status == WEFT_OK && !part->commands)
        return weft_part_start_placed(comm, operands, call, kept, part);
    if (status == WEFT_OK)
        status = weft_part_start_placed(comm, operands, call, kept, part);
    else
        weft_part_end(part);
    return status == WEFT_OK ? WEFT_OK : weft_comm_fail_here(comm, status);
}

int weft_part_start_placed(struct weft_comm *comm, const struct weft_operands *operands,
                           const struct weft_call *call, struct weft_kept_call *kept, struct weft_part *part)
{
    struct weft_exec_request request;
    int status = prepare(comm, operands, call, &request, part);
    if (status != WEFT_OK)
        return status;
    if (kept && !part->moves)
        weft_kept_put(comm, kept, operands, &request, part->plan);
    return start_request(comm, &request, part);
}
