/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/calls/device.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/drive/progress.h"
#include "comm/drive/wait.h"

/* --- on copies */

/* Copies of both buffers, the input first. */
int weft_staged_open(struct weft_comm *comm, const struct weft_operands *operands,
                     const struct weft_where *found, struct weft_staged *staged)
{
    size_t block = operands->count * operands->element_bytes;
    size_t sent = (operands->send_blocks_count * block + 63) / 64 * 64;
    *staged =
        (struct weft_staged){.operands = *operands, .bytes = sent + operands->recv_blocks_count * block};
    int status = weft_where_command_queue(comm->context, found, &staged->commands);
    if (status != WEFT_OK)
        return status;
    staged->memory = weft_memory_buffer_get(comm->context, WEFT_SHM, staged->bytes, found->kind);
    if (!staged->memory)
        return weft_fail(WEFT_NOMEM, "no staging memory of %zu bytes", staged->bytes);
    staged->operands.send = staged->memory;
    staged->operands.recv = (uint8_t *)staged->memory + sent;
    return WEFT_OK;
}

/* A call that ends early waits, for a bounded time, for what the device still has to do of it: that reads and writes the program's
 * memory. */
static void commands_stop(struct weft_command_queue *commands)
{
    char why[WEFT_DETAIL_MAX];
    if (!commands || weft_command_queue_is_idle(commands))
        return;
    snprintf(why, sizeof why, "%s", weft_error_detail());
    if (weft_command_queue_drain(commands, WEFT_RECALL_MS) == WEFT_TIMEOUT)
        weft_log(WEFT_LOG_ERROR,
                 "%s device %d still works on a call that has failed: its buffers may be written later",
                 weft_command_queue_kind(commands)->name, weft_command_queue_ordinal(commands));
    weft_error_set_detail(why);
}

void weft_staged_close(struct weft_comm *comm, struct weft_staged *staged)
{
    commands_stop(staged->commands);
    if (staged->memory)
        weft_command_queue_keep(staged->commands, weft_memory_buffer_put, comm->context, WEFT_SHM,
                                staged->memory, staged->bytes);
    weft_command_queue_put(staged->commands);
}

/* Notes that the command queue has come to here. */
static int mark(struct weft_command_queue *commands)
{
    static const struct weft_command_queue_note note = {0};
    int status = weft_command_queue_note(commands, &note);
    if (status == WEFT_OK)
        status = weft_command_queue_flush(commands);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

struct awaited_mark {
    struct weft_command_queue *commands;
    int status;
};

static int has_marked(void *arg)
{
    struct awaited_mark *awaited = arg;
    struct weft_command_queue_note note;
    if (awaited->status == 0)
        awaited->status = weft_command_queue_poll(awaited->commands, &note);
    return awaited->status != 0;
}

/* Waits for the command queue's next mark. [lock] */
static int await_mark(struct weft_comm *comm, struct weft_command_queue *commands)
{
    struct awaited_mark awaited = {commands, 0};
    const struct weft_wait wait = {.driven = &comm->driven,
                                   .done = has_marked,
                                   .late = weft_wait_ends,
                                   .arg = &awaited,
                                   .timeout_ms = comm->timeout_ms,
                                   .is_unannounced = 1};
    int status = weft_wait(comm->context, &wait);
    if (comm->failure.status)
        return weft_comm_word_failure(comm);
    if (status == WEFT_TIMEOUT)
        return weft_fail(WEFT_TIMEOUT,
                         "rank %d gave up after %lld ms: %s device %d has not copied the buffer of a call",
                         comm->rank, (long long)comm->timeout_ms, weft_command_queue_kind(commands)->name,
                         weft_command_queue_ordinal(commands));
    return awaited.status > 0 ? WEFT_OK : awaited.status;
}

/* WEFT_AGAIN: the command queue does it. */
static int move_start(const struct weft_staged *staged, void *to, const void *from, size_t bytes,
                      int is_device)
{
    if (bytes && !is_device)
        weft_copy(to, from, bytes);
    if (!bytes || !is_device)
        return WEFT_OK;
    int status = weft_command_queue_copy(staged->commands, to, from, bytes);
    return status == WEFT_OK ? mark(staged->commands) : status;
}

int weft_staged_leave(struct weft_comm *comm, const struct weft_operands *operands,
                      const struct weft_staged *staged)
{
    size_t bytes = operands->recv_blocks_count * operands->count * operands->element_bytes;
    return move_start(staged, operands->recv, staged->operands.recv, bytes,
                      bytes && weft_where_is_device(comm->context, operands->recv));
}

int weft_staged_poll(const struct weft_staged *staged)
{
    struct weft_command_queue_note note;
    int status = weft_command_queue_poll(staged->commands, &note);
    return status == 0 ? WEFT_AGAIN : status > 0 ? WEFT_OK : status;
}

/* Copies the input and waits. Fails with the communicator. */
static int staged_begin(struct weft_comm *comm, const struct weft_operands *operands,
                        const struct weft_where *found, struct weft_staged *staged)
{
    size_t bytes = operands->send_blocks_count * operands->count * operands->element_bytes;
    weft_context_lock(comm->context);
    int status = weft_staged_open(comm, operands, found, staged);
    if (status == WEFT_OK)
        status = move_start(staged, (void *)(uintptr_t)staged->operands.send, operands->send, bytes,
                            bytes && weft_where_is_device(comm->context, operands->send));
    if (status == WEFT_AGAIN)
        status = await_mark(comm, staged->commands);
    if (status != WEFT_OK) {
        weft_comm_fail_here(comm, status); /* the others hear of it before this rank waits for its device */
        weft_staged_close(comm, staged);
    }
    weft_context_unlock(comm->context);
    return status;
}

/* Copies the output back, if status is WEFT_OK, and waits. Returns status, or what has failed then, and the communicator with it. */
static int staged_end(struct weft_comm *comm, const struct weft_operands *operands,
                      struct weft_staged *staged, int status)
{
    weft_context_lock(comm->context);
    if (status == WEFT_OK) {
        status = weft_staged_leave(comm, operands, staged);
        if (status == WEFT_AGAIN)
            status = await_mark(comm, staged->commands);
        if (status != WEFT_OK)
            weft_comm_fail_here(comm, status);
    }
    weft_staged_close(comm, staged);
    weft_context_unlock(comm->context);
    return status;
}

int weft_staged_run(struct weft_comm *comm, const struct weft_operands *operands,
                    const struct weft_where *where, weft_staged_call *run, const void *arg)
{
    struct weft_staged staged;
    int status = staged_begin(comm, operands, where, &staged);
    if (status != WEFT_OK)
        return weft_comm_report(comm);
    status = run(comm, &staged.operands, arg);
    int ended = staged_end(comm, operands, &staged, status);
    return status != WEFT_OK || ended == WEFT_OK ? status : weft_comm_report(comm);
}
