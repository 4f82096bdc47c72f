/* SPDX-License-Identifier: Apache-2.0 */
/* Mailboxes: device memory of each rank that the others' device collectives write into (votes.h). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/exec/device/votes.h"
#include "devmem/borrowed.h"
#include "devmem/claim.h"
#include "devmem/command_queue_surplus.h"

/* What a rank receives in one operation: of the algorithms for sizes near the largest at most about twice the operation's. */
#define ROOM_FACTOR 2
#define ROOM_EXTRA  ((size_t)64 << 10) /* messages are rounded up */

size_t weft_mailbox_begin(const struct weft_exec *exec)
{
    return (size_t)exec->options.ranks * 64;
}

size_t weft_mailbox_room(const struct weft_exec *exec)
{
    return (ROOM_FACTOR * exec->options.collectives.bytes + ROOM_EXTRA + 63) / 64 * 64;
}

static size_t pinned_bytes(const struct weft_exec *exec)
{
    return 64 + weft_mailbox_begin(exec);
}

static struct weft_shares *shares_of(const struct weft_exec *exec)
{
    return exec->options.hooks.shares(exec->options.hooks.arg);
}

/* There are no device collectives in this communicator; the text is weft_error_detail(). */
static int disable(struct weft_exec *exec)
{
    exec->collectives->is_disabled = 1;
    weft_log(WEFT_LOG_INFO, "no device collectives: %s", weft_error_detail());
    weft_error_clear(); /* nothing has failed */
    return 0;
}

/* --- this rank's */

/* Connects all others. *is_for_others: one is of another process. */
static int look_around(struct weft_exec *exec, struct weft_shares *shares, int *is_for_others)
{
    *is_for_others = 0;
    for (uint32_t others = weft_device_collectives_others(exec); others; others &= others - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(others);
        struct weft_exec_peer *peer;
        int status = weft_exec_connect(exec, rank, &peer);
        if (status != WEFT_OK)
            return status;
        if (!peer->process || peer->stage_only)
            return weft_fail(WEFT_UNSUPPORTED, "rank %u shares no memory with rank %u", rank,
                             exec->options.rank);
        *is_for_others |= !weft_peer_is_here(peer, shares);
    }
    return WEFT_OK;
}

static int device_flags(const struct weft_device_kind *kind, int ordinal, uint32_t *flags)
{
    struct weft_device_info info = {.size = sizeof info};
    int status = kind->ops.describe(kind->device, ordinal, &info);
    *flags = info.flags;
    return status;
}

static int check_device(struct weft_command_queue *commands, uint32_t *flags)
{
    const struct weft_device_kind *kind = weft_command_queue_kind(commands);
    int status = device_flags(kind, weft_command_queue_ordinal(commands), flags);
    if (status == WEFT_OK &&
        (!(*flags & WEFT_DEVICE_COLLECTIVES) || !weft_command_queue_reduces(commands, WEFT_UINT8, WEFT_SUM)))
        status = weft_fail(WEFT_UNSUPPORTED, "%s device %d runs none", kind->name,
                           weft_command_queue_ordinal(commands));
    return status;
}

static void give_back(struct weft_exec *exec)
{
    struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    if (mailbox->memory)
        weft_command_queue_surplus_add(
            weft_command_queues_surplus(mailbox->queues, exec->collectives->is_loud), mailbox->kind,
            mailbox->ordinal, mailbox->memory, mailbox->bytes);
    if (mailbox->pinned) /* of no device, so that nobody takes it for a device's */
        weft_command_queue_surplus_add(
            weft_command_queues_surplus(mailbox->queues, exec->collectives->is_loud), mailbox->kind, -1,
            mailbox->pinned, pinned_bytes(exec));
    *mailbox = (struct weft_mailbox){0};
}

static int get_memory(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    struct weft_command_queue *commands = op->request.commands;
    void *pinned = NULL;
    *mailbox = (struct weft_mailbox){.kind = weft_command_queue_kind(commands),
                                     .ordinal = weft_command_queue_ordinal(commands),
                                     .maker = op->sequence,
                                     .queues = weft_command_queue_pool(commands),
                                     .bytes = weft_mailbox_begin(exec) + weft_mailbox_room(exec)};
    /* The driver's own, as kernels of some kinds reach no other memory of the host's. */
    int status = mailbox->kind->ops.allocate(mailbox->kind->device, mailbox->ordinal, WEFT_MEMORY_PINNED,
                                             pinned_bytes(exec), &pinned);
    if (status != WEFT_OK)
        return status;
    mailbox->pinned = memset(pinned, 0, pinned_bytes(exec));
    return mailbox->kind->ops.allocate(mailbox->kind->device, mailbox->ordinal, WEFT_MEMORY_DEVICE,
                                       mailbox->bytes, (void **)&mailbox->memory);
}

/* Who is to hear of this rank's mailbox can vote, and this rank may never make a call again. */
static void listen(struct weft_exec *exec)
{
    const struct weft_exec_hooks *hooks = &exec->options.hooks;
    if (!hooks->listen || exec->collectives->listens)
        return;
    exec->collectives->listens = 1;
    hooks->listen(hooks->arg, 1);
}

static int make(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    struct weft_shares *shares = shares_of(exec);
    int is_for_others;
    uint32_t flags;
    if (!shares)
        return weft_fail(WEFT_UNSUPPORTED, "device memory is not shared");
    int status = look_around(exec, shares, &is_for_others);
    if (status == WEFT_OK)
        status = check_device(op->request.commands, &flags);
    if (status != WEFT_OK)
        return status;
    status = get_memory(op);
    if (status == WEFT_OK)
        status = weft_share_describe(shares, mailbox->kind, mailbox->memory, mailbox->bytes, is_for_others,
                                     &mailbox->reported.share);
    if (status == WEFT_OK)
        status = weft_command_queue_copy(op->request.commands, mailbox->memory, mailbox->pinned + 8,
                                         weft_mailbox_begin(exec));
    if (status != WEFT_OK) {
        give_back(exec);
        return status;
    }
    mailbox->is_alone = !(flags & WEFT_DEVICE_COLLECTIVES_BESIDE);
    mailbox->reported.bytes = mailbox->bytes;
    mailbox->reported.ordinal = mailbox->ordinal;
    return WEFT_OK;
}

static int is_here(const struct weft_exec *exec, uint32_t rank)
{
    return weft_peer_is_here(&exec->peers[rank], shares_of(exec));
}

static int announce(struct weft_exec *exec, uint32_t rank)
{
    struct weft_device_collective_peer *known = &exec->collectives->peers[rank];
    struct weft_wire_mailbox mailbox = exec->collectives->mailbox.reported;
    struct weft_exec_peer *peer;
    struct weft_wire_header header = {.source = exec->options.rank,
                                      .size = sizeof mailbox,
                                      .kind = WEFT_WIRE_MAILBOX,
                                      .version = WEFT_WIRE_VERSION};
    int status = weft_exec_connect(exec, rank, &peer);
    if (status == WEFT_OK && !known->borrowed && is_here(exec, rank))
        status = weft_borrowed_open(&known->borrowed);
    mailbox.borrowed = known->borrowed;
    return status == WEFT_OK ? weft_exec_post(exec, peer, &header, &mailbox) : status;
}

int weft_mailbox_announce(struct weft_exec *exec)
{
    struct weft_device_collectives *collectives = exec->collectives;
    uint32_t left =
        collectives->mailbox.kind ? weft_device_collectives_others(exec) & ~collectives->reported : 0;
    for (; left; left &= left - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(left);
        int status = announce(exec, rank);
        if (status == WEFT_OK)
            collectives->reported |= 1u << rank;
        else if (status == WEFT_AGAIN)
            exec->reports_blocked = 1;
        else
            return status;
    }
    return WEFT_OK;
}

/* --- the others' */

int weft_mailbox_take(struct weft_exec *exec, const struct weft_wire_header *header, const void *payload)
{
    struct weft_device_collectives *collectives = weft_device_collectives_get(exec);
    struct weft_device_collective_peer *peer = collectives ? &collectives->peers[header->source] : NULL;
    if (!peer || peer->is_known || header->source == exec->options.rank ||
        header->size != sizeof peer->mailbox)
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u announces a mailbox, in %u bytes: expected it once, in %zu, and where they "
                         "are in use",
                         header->source, header->size, sizeof peer->mailbox);
    memcpy(&peer->mailbox, payload, sizeof peer->mailbox);
    if (peer->mailbox.bytes < weft_mailbox_begin(exec))
        return weft_fail(WEFT_PROTOCOL, "rank %u announces a mailbox of %llu bytes: expected at least %zu",
                         header->source, (unsigned long long)peer->mailbox.bytes, weft_mailbox_begin(exec));
    peer->is_known = 1;
    return WEFT_OK;
}

/* Device collectives of one process on one device must get on beside each other. */
static int check_beside(const struct weft_exec *exec, uint32_t rank)
{
    const struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    if (!is_here(exec, rank) || exec->collectives->peers[rank].mailbox.ordinal != mailbox->ordinal ||
        !mailbox->is_alone)
        return WEFT_OK;
    return weft_fail(WEFT_UNSUPPORTED, "ranks %u and %u share %s device %d in one process", rank,
                     exec->options.rank, mailbox->kind->name, mailbox->ordinal);
}

static int map(struct weft_exec *exec, uint32_t rank)
{
    struct weft_device_collective_peer *peer = &exec->collectives->peers[rank];
    const struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    int status = check_beside(exec, rank);
    if (status == WEFT_OK)
        status = weft_share_reach(shares_of(exec), mailbox->kind, mailbox->ordinal, exec->peers[rank].process,
                                  &peer->mailbox.share, peer->mailbox.bytes, (void **)&peer->memory,
                                  &peer->import);
    peer->is_mapped = status == WEFT_OK;
    return status;
}

int weft_mailbox_claim(struct weft_exec *exec)
{
    struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    if (mailbox->is_alone && !weft_claim_take(mailbox->kind->name, mailbox->ordinal))
        return 0;
    mailbox->is_claimed = mailbox->is_alone;
    return 1;
}

void weft_mailbox_unclaim(struct weft_exec *exec)
{
    struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    if (mailbox->is_claimed)
        weft_claim_give(mailbox->kind->name, mailbox->ordinal);
    mailbox->is_claimed = 0;
}

int weft_mailbox_ready(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_device_collectives *collectives = exec->collectives;
    const struct weft_mailbox *mailbox = &collectives->mailbox;
    if (!mailbox->kind) {
        if (make(op) != WEFT_OK)
            return disable(exec);
        listen(exec);
        return weft_mailbox_announce(exec);
    }
    if (!mailbox->is_zeroed || mailbox->kind != weft_command_queue_kind(op->request.commands) ||
        mailbox->ordinal != weft_command_queue_ordinal(op->request.commands))
        return 0;
    int announced = weft_mailbox_announce(exec); /* before any vote */
    if (announced != WEFT_OK || collectives->reported != weft_device_collectives_others(exec))
        return announced;
    for (uint32_t others = weft_device_collectives_others(exec); others; others &= others - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(others);
        if (!collectives->peers[rank].is_known)
            return 0;
        int status = collectives->peers[rank].is_mapped ? WEFT_OK : map(exec, rank);
        if (status != WEFT_OK)
            return status == WEFT_PROTOCOL ? status : disable(exec);
    }
    return 1;
}

int weft_mailboxes_borrow(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    int status = WEFT_OK;
    for (uint32_t others = weft_device_collectives_others(exec); others && status == WEFT_OK;
         others &= others - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(others);
        if (is_here(exec, rank))
            status =
                weft_borrowed_take(exec->collectives->peers[rank].mailbox.borrowed, op->request.commands);
    }
    return status;
}

void weft_mailboxes_return(struct weft_exec *exec)
{
    for (uint32_t others = weft_device_collectives_others(exec); others; others &= others - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(others);
        if (is_here(exec, rank))
            weft_borrowed_return(exec->collectives->peers[rank].mailbox.borrowed);
    }
}

/* --- the end */

/* Device collectives of this process may be about to write into the mailbox: they end soon, as their ranks learn that this one is gone. */
static void end_borrowed(struct weft_exec *exec)
{
    struct weft_device_collectives *collectives = exec->collectives;
    for (uint32_t r = 0; r < exec->options.ranks; r++) {
        uint64_t borrowed = collectives->peers[r].borrowed;
        collectives->peers[r].borrowed = 0;
        if (!collectives->is_loud)
            weft_borrowed_close(borrowed);
        else if (borrowed && weft_borrowed_recall(borrowed, weft_device_recall_ms(exec)) != WEFT_OK)
            weft_log(WEFT_LOG_ERROR,
                     "a device collective of rank %u, which should have ended, may still write into memory "
                     "of rank %u: %s",
                     r, exec->options.rank, weft_error_detail());
    }
}

static void release_memory(void *kind, uint32_t index, void *memory, size_t size)
{
    const struct weft_device_kind *of = kind;
    (void)index;
    if (of->ops.release(of->device, memory) != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "a mailbox of %zu bytes cannot be released: %s", size, weft_error_detail());
}

void weft_mailbox_leave(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_mailbox *mailbox = &exec->collectives->mailbox;
    struct weft_command_queue *commands = op->request.commands;
    if (!mailbox->kind ||
        (op->vote != WEFT_VOTE_COLLECTIVE && (mailbox->is_zeroed || mailbox->maker != op->sequence)))
        return;
    for (uint32_t r = 0; r < exec->options.ranks; r++) {
        struct weft_device_collective_peer *peer = &exec->collectives->peers[r];
        if (peer->import)
            weft_command_queue_keep(commands, weft_share_release_kept, shares_of(exec), 0, peer->import, 0);
        peer->import = NULL;
    }
    end_borrowed(exec);
    weft_command_queue_keep(commands, release_memory, (void *)(uintptr_t)mailbox->kind, 0, mailbox->memory,
                            mailbox->bytes);
    weft_command_queue_keep(commands, release_memory, (void *)(uintptr_t)mailbox->kind, 0, mailbox->pinned,
                            pinned_bytes(exec));
    *mailbox = (struct weft_mailbox){0};
}

void weft_mailbox_close(struct weft_exec *exec)
{
    struct weft_device_collectives *collectives = exec->collectives;
    for (uint32_t r = 0; r < exec->options.ranks; r++) {
        if (collectives->peers[r].import)
            weft_share_release(shares_of(exec), collectives->peers[r].import);
        collectives->peers[r].import = NULL;
    }
    end_borrowed(exec);
    give_back(exec);
}
