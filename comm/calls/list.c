/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tensors in one call.
 *
 * Tensors up to PACKED_BYTES are copied side by side into one buffer, which moves as one operation and is taken apart at
 * the end; larger ones are operations of their own, on the caller's memory. All of them are in flight together. The call
 * has one number, and what its messages carry for a count is a hash of all counts, so that lists that differ anywhere
 * are noticed like a count that differs.
 *
 * Tensors of a device are packed by its command queue, in device memory; where the host must reduce or some of the tensors are the
 * host's, in host memory.
 *
 * In the packed buffer a block is one rank's elements of all packed tensors, in the order of the list: an allreduce has
 * one block, the others one for each rank on the side that has all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "comm/calls/collective.h"
#include "comm/calls/part.h"
#include "comm/drive/progress.h"
#include "comm/core/queue.h"

#define PACKED_BYTES ((size_t)64 << 10) /* of one rank's part of a tensor */

struct list {
    struct weft_operands *operands; /* [tensors], checked */
    size_t tensors, packed;         /* packed: how many of them are */
    size_t elements;                /* of a packed block */
    size_t next;                    /* part to start: 0 the packed one, then each tensor's */
    struct weft_where where;        /* of the packed ones */
    struct weft_call call;
};

static int is_packed(const struct weft_operands *operands)
{
    return operands->count && operands->count * operands->element_bytes <= PACKED_BYTES;
}

static uint32_t blocks_of(const struct weft_comm *comm, enum weft_collective collective, int receiving)
{
    return (uint32_t)(collective == (receiving ? WEFT_ALLGATHER : WEFT_REDUCE_SCATTER) ? comm->ranks : 1);
}

/* Of the packed buffers together. */
static size_t bytes_of(const struct weft_comm *comm, const struct list *list)
{
    const struct weft_operands *first = &list->operands[0];
    size_t blocks = blocks_of(comm, first->collective, 0) + (size_t)blocks_of(comm, first->collective, 1);
    return list->elements * first->element_bytes * blocks;
}

/* What packs and unpacks: copies of the tensors into the packed buffers, and back. The buffers are memory, or NULL: host memory behind
 * the moves. */
static struct weft_exec_moves *make_moves(const struct weft_comm *comm, const struct list *list,
                                          uint8_t *memory, int on_host)
{
    enum weft_collective collective = list->operands[0].collective;
    uint32_t sent = blocks_of(comm, collective, 0), received = blocks_of(comm, collective, 1);
    size_t count = list->packed * (sent + (size_t)received);
    size_t head = (sizeof(struct weft_exec_moves) + count * sizeof(struct weft_exec_move) + 63) / 64 * 64;
    struct weft_exec_moves *moves = malloc(head + (memory ? 0 : bytes_of(comm, list)));
    if (!moves) {
        weft_fail(WEFT_NOMEM, "no memory for %zu packed tensors", list->packed);
        return NULL;
    }
    struct weft_exec_move *move = (struct weft_exec_move *)(moves + 1);
    *moves = (struct weft_exec_moves){.loads = move,
                                      .load_count = list->packed * sent,
                                      .stores = move + list->packed * sent,
                                      .store_count = list->packed * received};
    int is_host = !memory;
    memory = memory ? memory : (uint8_t *)moves + head;
    for (uint32_t b = 0; b < sent + received; b++) {
        for (size_t t = 0; t < list->tensors; t++) {
            const struct weft_operands *operands = &list->operands[t];
            size_t bytes = operands->count * operands->element_bytes;
            if (!is_packed(operands))
                continue;
            int loads = b < sent;
            uint8_t *tensor = loads ? (uint8_t *)(uintptr_t)operands->send + b * bytes
                                    : (uint8_t *)operands->recv + (b - sent) * bytes;
            *move++ =
                (struct weft_exec_move){loads ? memory : tensor, loads ? tensor : memory, bytes,
                                        is_host || (on_host && !weft_where_is_device(comm->context, tensor))};
            memory += bytes;
        }
    }
    return moves;
}

static void move_all(const struct weft_exec_move *moves, size_t count)
{
    for (size_t m = 0; m < count; m++)
        memcpy(moves[m].to, moves[m].from, moves[m].bytes);
}

static void unpack(struct weft_work *work)
{
    const struct weft_exec_moves *moves = work->arg;
    move_all(moves->stores, moves->store_count);
}

/* The packed operation, on buffers at memory. */
static struct weft_operands operands_of(const struct weft_comm *comm, const struct list *list,
                                        uint8_t *memory)
{
    struct weft_operands packed = list->operands[0];
    size_t block = list->elements * packed.element_bytes;
    packed.send = memory;
    packed.recv = memory + block * blocks_of(comm, packed.collective, 0);
    packed.count = list->elements;
    packed.in_place = 0;
    return packed;
}

/* Packs tensors of the host. */
static int make_packed(struct weft_comm *comm, const struct list *list, struct weft_work *work,
                       struct weft_operands *packed)
{
    struct weft_exec_moves *moves = make_moves(comm, list, NULL, 0);
    if (!moves)
        return WEFT_NOMEM;
    move_all(moves->loads, moves->load_count);
    *packed = operands_of(comm, list, moves->loads[0].to);
    work->arg = moves;
    work->finish = unpack;
    return WEFT_OK;
}

/* --- on a device */

/* Where the packed tensors are: all on one kind of device, or the host packs them. */
static int find_where(const struct weft_comm *comm, struct list *list)
{
    int some_host = 0;
    list->where.kind = NULL;
    if (!weft_devices_in_use(comm->context->devices.kinds))
        return WEFT_OK;
    for (size_t t = 0; t < list->tensors; t++) {
        struct weft_where where;
        if (!is_packed(&list->operands[t]))
            continue;
        int status = weft_operands_where(comm, &list->operands[t], &where);
        if (status != WEFT_OK)
            return status;
        if (where.kind && list->where.kind && where.kind != list->where.kind)
            return weft_fail(WEFT_UNSUPPORTED,
                             "tensor %zu is device memory of kind '%s', earlier ones of kind '%s': "
                             "expected one kind",
                             t, where.kind->name, list->where.kind->name);
        some_host |= !where.kind || where.on_host;
        if (where.kind)
            list->where = where;
    }
    list->where.on_host = some_host ? WEFT_SHADOW_NONE : 0;
    return WEFT_OK;
}

/* What the thread that makes calls remembers is not for progress. */
static enum weft_algorithm choose(struct weft_comm *comm, const struct weft_operands *operands)
{
    return comm->context->progress.progressing ? weft_collective_choose(comm, operands)
                                               : weft_collective_choose_cached(comm, operands);
}

/* One more has been started, if status says so. */
static void add_part(struct weft_work *work, int status)
{
    if (status == WEFT_OK)
        weft_exec_op_look(work->parts[work->part_count++].op)->timeout_ms = work->timeout_ms;
}

/* The packed operation. [lock] */
static int start_on_device(struct weft_comm *comm, const struct list *list, struct weft_work *work)
{
    struct weft_part *part = &work->parts[work->part_count];
    size_t bytes = bytes_of(comm, list);
    struct weft_call call = list->call;
    void *memory = NULL;
    int status = weft_exec_is_full(comm->exec) ? weft_works_await_room(comm) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_part_take_command_queue(comm, &list->operands[0], &list->where, part);
    if (status == WEFT_OK && part->on_host) {
        memory = part->staging = weft_memory_buffer_get(comm->context, WEFT_SHM, bytes, list->where.kind);
        part->staging_bytes = bytes;
        status = memory ? WEFT_OK : weft_fail(WEFT_NOMEM, "no staging memory of %zu bytes", bytes);
    } else if (status == WEFT_OK) {
        status = weft_command_queue_memory(part->commands, WEFT_COMMAND_QUEUE_LIST, bytes, &memory);
    }
    if (status == WEFT_OK) {
        part->moves = make_moves(comm, list, memory, part->on_host);
        status = part->moves ? WEFT_OK : WEFT_NOMEM;
    }
    if (status != WEFT_OK) {
        weft_part_end(part);
        return weft_comm_fail_here(comm, status);
    }
    const struct weft_operands packed = operands_of(comm, list, memory);
    call.algorithm = (uint8_t)choose(comm, &packed);
    status = weft_part_start_placed(comm, &packed, &call, NULL, part);
    add_part(work, status);
    return status == WEFT_OK ? WEFT_OK : weft_comm_fail_here(comm, status);
}

/* Starts one more part. [lock] */
static int start_part(struct weft_comm *comm, const struct list *list, const struct weft_operands *operands,
                      struct weft_work *work)
{
    struct weft_call call = list->call;
    call.algorithm = (uint8_t)choose(comm, operands);
    int status = weft_part_start(comm, operands, &call, NULL, &work->parts[work->part_count]);
    add_part(work, status);
    return status;
}

/* The empty tensors move nothing; a list of nothing else is a call without elements. */
static int is_due(const struct list *list, const struct weft_work *work)
{
    if (list->next == 0)
        return list->packed > 0;
    const struct weft_operands *operands = &list->operands[list->next - 1];
    return list->next <= list->tensors ? operands->count && !is_packed(operands) : work->part_count == 0;
}

/* Starts all parts, in their order. WEFT_AGAIN: there is no room for the next one, where progress starts them. [lock] */
static int start_parts(struct weft_comm *comm, struct list *list, const struct weft_operands *packed,
                       struct weft_work *work)
{
    int status = WEFT_OK;
    for (; list->next <= list->tensors + 1 && status == WEFT_OK; list->next++) {
        if (!is_due(list, work))
            continue;
        if (comm->context->progress.progressing && weft_exec_is_full(comm->exec))
            return WEFT_AGAIN;
        if (list->next > 0)
            status = start_part(comm, list, &list->operands[list->next - 1], work);
        else
            status =
                list->where.kind ? start_on_device(comm, list, work) : start_part(comm, list, packed, work);
    }
    if (status != WEFT_OK && work->part_count) /* the others are waiting for what does not come */
        weft_comm_fail(comm, status, weft_error_detail());
    return status;
}

/* --- stream-ordered, or behind such a call */

struct queued_list {
    struct weft_queued queued;
    struct list list;
    struct weft_operands packed;
};

/* Tensors that the host packs are packed when the stream is there. */
static int start_queued(struct weft_queued *queued)
{
    struct queued_list *kept = (struct queued_list *)queued;
    struct weft_work *work = queued->work;
    struct list *list = &kept->list;
    if (weft_exec_is_full(work->comm->exec))
        return WEFT_AGAIN;
    int status = weft_comm_check(work->comm);
    if (status == WEFT_OK && list->packed && !list->where.kind && !work->arg)
        status = make_packed(work->comm, list, work, &kept->packed);
    return status == WEFT_OK ? start_parts(work->comm, list, &kept->packed, work) : status;
}

static void release_queued(struct weft_queued *queued)
{
    struct queued_list *kept = (struct queued_list *)queued;
    free(kept->list.operands);
    free(kept);
}

static const struct weft_queued_ops queued_ops = {start_queued, NULL, release_queued};

/* The operands are the queue's where this has worked. [lock] */
static int queue_list(struct weft_comm *comm, struct list *list, struct weft_stream *stream,
                      struct weft_work *work)
{
    struct queued_list *kept = calloc(1, sizeof *kept);
    if (!kept)
        return weft_fail(WEFT_NOMEM, "no memory for a stream-ordered call");
    kept->queued.ops = &queued_ops;
    kept->queued.call = list->call;
    kept->list = *list;
    int status = weft_comm_check(comm);
    if (status == WEFT_OK)
        status = weft_queue_add(comm, &kept->queued, stream, work);
    if (status != WEFT_OK) {
        free(kept);
        return status;
    }
    weft_comm_count_call(comm);
    list->operands = NULL;
    return WEFT_OK;
}

/* [lock] */
static int start_now(struct weft_comm *comm, struct list *list, const struct weft_operands *packed,
                     struct weft_work *work)
{
    int status = weft_comm_check(comm);
    if (status == WEFT_OK)
        status = start_parts(comm, list, packed, work);
    if (status == WEFT_OK)
        weft_comm_count_call(comm);
    for (size_t i = 0; i < work->part_count && status != WEFT_OK; i++)
        weft_part_end(&work->parts[i]);
    if (status != WEFT_OK)
        return status;
    weft_progress_background(comm->context, 1);
    if (work->signals)
        weft_work_watch(work);
    return WEFT_OK;
}

static int start_all(struct weft_comm *comm, struct list *list, struct weft_stream *stream,
                     struct weft_work *work)
{
    struct weft_operands packed;
    int is_queued = weft_queue_takes(comm, stream), status = WEFT_OK;
    work->parts = calloc(list->tensors + 1, sizeof *work->parts);
    if (!work->parts) {
        work->parts = &work->only;
        return weft_fail(WEFT_NOMEM, "no memory for a list of %zu tensors", list->tensors);
    }
    if (list->packed && !list->where.kind &&
        !is_queued) /* before the lock is taken: it copies, and changes nothing of the caller's */
        status = make_packed(comm, list, work, &packed);
    if (status != WEFT_OK)
        return status;
    weft_context_lock(comm->context);
    status = is_queued ? queue_list(comm, list, stream, work) : start_now(comm, list, &packed, work);
    weft_context_unlock(comm->context);
    return status;
}

/* Makes the work of a list; it has been started, or is over. */
static int start(struct weft_comm *comm, struct list *list, const struct weft_how *how,
                 struct weft_work **started)
{
    struct weft_work *work;
    weft_context_lock(comm->context);
    int status = weft_how_work(comm, how, &work);
    weft_context_unlock(comm->context);
    if (status != WEFT_OK)
        return status;
    list->call.label = work->label[0] ? work->label : NULL;
    status = start_all(comm, list, how->stream, work);
    if (status != WEFT_OK) {
        weft_work_discard(work);
        return comm->failure.status ? weft_comm_report(comm) : status;
    }
    comm->works++;
    *started = work;
    return WEFT_OK;
}

static int check_arrays(const weft_comm *comm, size_t tensors, const void *const *sends, void *const *recvs,
                        const size_t *counts)
{
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    if (tensors && (!sends || !recvs || !counts))
        return weft_fail(WEFT_INVALID, "%s is NULL, tensors is %zu",
                         !sends   ? "sends"
                         : !recvs ? "recvs"
                                  : "counts",
                         tensors);
    return WEFT_OK;
}

static int check_tensors(const weft_comm *comm, struct list *list, const void *const *sends,
                         void *const *recvs, const size_t *counts, const struct weft_operands *form)
{
    for (size_t t = 0; t <= list->tensors;
         t++) { /* one more, of no elements: type and operation, and an empty list */
        struct weft_operands *operands = &list->operands[t];
        *operands = *form;
        if (t < list->tensors) {
            operands->send = sends[t];
            operands->recv = recvs[t];
            operands->count = counts[t];
        }
        int status = weft_operands_check(comm, operands);
        if (status != WEFT_OK) {
            char text[WEFT_DETAIL_MAX];
            snprintf(text, sizeof text, "%s", weft_error_detail());
            return weft_fail(status, "tensor %zu of %zu: %s", t, list->tensors, text);
        }
        list->packed += (size_t)is_packed(operands);
        list->elements += is_packed(operands) ? operands->count : 0;
    }
    return WEFT_OK;
}

/* A stream without a kind is that of the first tensor that is a device's. */
static int follow(const struct weft_comm *comm, const struct list *list, struct weft_how *how)
{
    struct weft_where where = list->where;
    int status = WEFT_OK;
    for (size_t t = 0; how->is_ordered && !how->kind && !where.kind && t < list->tensors && status == WEFT_OK;
         t++)
        status = weft_operands_where(comm, &list->operands[t], &where);
    return status == WEFT_OK ? weft_how_follow(comm, &where, how) : status;
}

/* Checks the tensors, and finds the stream. list->operands is the caller's. */
static int prepare(weft_comm *comm, struct list *list, const void *const *sends, void *const *recvs,
                   const size_t *counts, struct weft_operands *form, struct weft_how *how)
{
    form->algorithm = how->algorithm;
    int status = weft_comm_check_free(comm);
    if (status == WEFT_OK)
        status = check_tensors(comm, list, sends, recvs, counts, form);
    if (status == WEFT_OK)
        status = weft_operands_check_algorithm(comm, &list->operands[list->tensors]);
    if (status == WEFT_OK)
        status = find_where(comm, list);
    if (status == WEFT_OK)
        status = follow(comm, list, how);
    if (status == WEFT_OK)
        status = weft_comm_begin(comm);
    return status == WEFT_OK && !how->starts ? weft_queue_await(comm) : status;
}

static int run(struct weft_comm *comm, struct list *list, const struct weft_how *how)
{
    struct weft_work *work = NULL;
    int status = start(comm, list, how, &work);
    if (status != WEFT_OK)
        return status;
    if (how->starts)
        return weft_how_leave(how, work);
    status = weft_work_wait(work, -1);
    comm->works--;
    weft_work_discard(work);
    return status;
}

static int call(weft_comm *comm, enum weft_other_calls which, struct weft_operands *form, size_t tensors,
                const void *const *sends, void *const *recvs, const size_t *counts,
                const weft_call_options *options)
{
    struct list list = {.tensors = tensors};
    struct weft_how how;
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    int status = check_arrays(comm, tensors, sends, recvs, counts);
    if (status == WEFT_OK)
        status = weft_how_read(options, &how);
    if (status != WEFT_OK)
        return status;
    list.operands = tensors < SIZE_MAX / sizeof *form - 1 ? malloc((tensors + 1) * sizeof *form) : NULL;
    if (!list.operands)
        return weft_fail(WEFT_NOMEM, "no memory for a list of %zu tensors", tensors);
    status = prepare(comm, &list, sends, recvs, counts, form, &how);
    if (status == WEFT_OK) {
        list.call = weft_operands_call(comm, &list.operands[tensors]);
        list.call.collective = (uint8_t)which;
        list.call.count = weft_counts_hash(counts, tensors);
        list.call.started = (uint8_t)how.starts;
        status = run(comm, &list, &how);
    }
    weft_how_end(&how);
    free(list.operands);
    return status;
}

int weft_allreduce_list(weft_comm *comm, size_t tensors, const void *const *sends, void *const *recvs,
                        const size_t *counts, weft_dtype dtype, weft_op op, const weft_call_options *options)
{
    struct weft_operands form = {.collective = WEFT_ALLREDUCE, .root = -1, .dtype = dtype, .op = op};
    return call(comm, WEFT_CALL_ALLREDUCE_LIST, &form, tensors, sends, recvs, counts, options);
}

int weft_allgather_list(weft_comm *comm, size_t tensors, const void *const *sends, void *const *recvs,
                        const size_t *counts, weft_dtype dtype, const weft_call_options *options)
{
    struct weft_operands form = {.collective = WEFT_ALLGATHER, .root = -1, .dtype = dtype};
    return call(comm, WEFT_CALL_ALLGATHER_LIST, &form, tensors, sends, recvs, counts, options);
}

int weft_reduce_scatter_list(weft_comm *comm, size_t tensors, const void *const *sends, void *const *recvs,
                             const size_t *counts, weft_dtype dtype, weft_op op,
                             const weft_call_options *options)
{
    struct weft_operands form = {.collective = WEFT_REDUCE_SCATTER, .root = -1, .dtype = dtype, .op = op};
    return call(comm, WEFT_CALL_REDUCE_SCATTER_LIST, &form, tensors, sends, recvs, counts, options);
}
