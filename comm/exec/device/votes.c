/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/device/votes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

struct weft_device_collectives *weft_device_collectives_get(struct weft_exec *exec)
{
    const struct weft_exec_options *options = &exec->options;
    if (exec->collectives || options->collectives.mode == WEFT_DEVICE_COLLECTIVE_NEVER ||
        !options->collectives.bytes || options->ranks < 2 ||
        options->ranks > WEFT_DEVICE_COLLECTIVE_RANKS_MAX || !options->hooks.shares)
        return exec->collectives;
    exec->collectives = calloc(1, sizeof *exec->collectives);
    for (uint32_t r = 0; exec->collectives && r < options->ranks; r++)
        exec->collectives->peers[r].refused_last = options->first_sequence - 1;
    return exec->collectives;
}

void weft_device_collectives_free(struct weft_exec *exec)
{
    if (!exec->collectives)
        return;
    if (exec->collectives->listens)
        exec->options.hooks.listen(exec->options.hooks.arg, -1);
    weft_mailbox_close(exec);
    free(exec->collectives);
    exec->collectives = NULL;
}

static size_t ballot_bytes(const struct weft_exec_op *op)
{
    return op && op->ballot ? sizeof *op->ballot : 0;
}

size_t weft_device_collectives_bytes(const struct weft_exec *exec)
{
    size_t bytes =
        sizeof *exec->collectives + exec->collectives->mailbox.bytes + ballot_bytes(exec->spare_ops);
    for (int i = 0; i < WEFT_OPS_MAX; i++)
        bytes += ballot_bytes(exec->ops[i]);
    return bytes;
}

/* --- sending */

int weft_votes_pay(struct weft_exec *exec)
{
    struct weft_device_collectives *collectives = exec->collectives;
    int status = weft_mailbox_announce(exec);
    for (uint32_t r = 0; r < exec->options.ranks && status == WEFT_OK; r++) {
        struct weft_device_collective_peer *peer = &collectives->peers[r];
        struct weft_exec_peer *reached;
        if (peer->refused)
            status = weft_exec_connect(exec, r, &reached);
        while (peer->refused && status == WEFT_OK) {
            uint32_t slot = (uint32_t)__builtin_ctzll(peer->refused);
            struct weft_wire_header header = {.op = peer->refused_last -
                                                    (peer->refused_last - slot) % WEFT_OPS_MAX,
                                              .source = exec->options.rank,
                                              .kind = WEFT_WIRE_VOTE,
                                              .version = WEFT_WIRE_VERSION};
            status = weft_exec_post(exec, reached, &header, NULL);
            if (status == WEFT_OK)
                peer->refused &= ~(UINT64_C(1) << slot);
        }
        if (status == WEFT_AGAIN) {
            exec->reports_blocked = 1;
            status = WEFT_OK;
        }
    }
    return status;
}

/* What a peer still waits for lies within WEFT_OPS_MAX operations. */
int weft_vote_refuse(struct weft_exec *exec, uint32_t rank, uint32_t sequence)
{
    struct weft_device_collective_peer *peer = &exec->collectives->peers[rank];
    if (!peer->refused) /* however long ago the last one was */
        peer->refused_last = sequence;
    int32_t further = (int32_t)(sequence - peer->refused_last);
    if (further <= -WEFT_OPS_MAX)
        return WEFT_OK;
    if (further >= WEFT_OPS_MAX)
        peer->refused = 0;
    for (int32_t i = 1; i <= further && i < WEFT_OPS_MAX; i++)
        peer->refused &= ~(UINT64_C(1) << (peer->refused_last + (uint32_t)i) % WEFT_OPS_MAX);
    if (further > 0)
        peer->refused_last = sequence;
    peer->refused |= UINT64_C(1) << sequence % WEFT_OPS_MAX;
    return weft_votes_pay(exec);
}

/* --- one operation */

/* This rank can vote for another operation. */
static void free_vote(struct weft_exec_op *op)
{
    if (op->exec->collectives->voted != op)
        return;
    if (op->vote == WEFT_VOTE_COLLECTIVE)
        weft_device_waits_count(-1);
    op->exec->collectives->voted = NULL;
    weft_mailbox_unclaim(op->exec);
}

static int can_be_kernel(const struct weft_exec_op *op)
{
    const struct weft_exec_request *request = &op->request;
    const struct weft_plan *plan = request->plan;
    enum weft_collective collective = (enum weft_collective)plan->collective;
    size_t bytes = request->count * request->element_bytes;
    if (plan->unequal || collective == WEFT_BARRIER || !bytes || !request->call.sequence ||
        weft_call_is_list(&request->call) || (weft_collective_reduces(collective) && !request->reduce))
        return 0;
    return bytes <=
           op->exec->options.collectives.bytes / (weft_collective_blocks(collective) ? plan->ranks : 1);
}

void weft_vote_open(struct weft_exec_op *op)
{
    if (!can_be_kernel(op) || !weft_device_collectives_get(op->exec))
        return;
    if (!op->ballot)
        op->ballot = malloc(sizeof *op->ballot);
    if (!op->ballot)
        return; /* the others are answered no */
    memset(op->ballot, 0, sizeof *op->ballot);
    op->vote = WEFT_VOTE_OPEN;
}

/* It runs the ordinary way. Who has voted hears so. */
static int give_up(struct weft_exec_op *op)
{
    int status = WEFT_OK;
    op->vote = WEFT_VOTE_OUT;
    op->phase = op->phase == WEFT_PHASE_VOTES ? WEFT_PHASE_RUNS : op->phase;
    free_vote(op);
    for (uint32_t yes = op->ballot->yes; yes && status == WEFT_OK; yes &= yes - 1)
        status = weft_vote_refuse(op->exec, (uint32_t)__builtin_ctz(yes), op->sequence);
    return status;
}

/* Where what others send is to lie. */
static int fits(struct weft_exec_op *op)
{
    struct weft_ballot *ballot = op->ballot;
    size_t at = weft_mailbox_begin(op->exec), room = weft_mailbox_room(op->exec);
    weft_device_collective_measure(&op->layout, op->request.plan, ballot->channels, &ballot->steps_max);
    for (uint32_t r = 0; r < op->exec->options.ranks; r++) {
        ballot->offsets[r] = at;
        if (ballot->channels[r].in_bytes > room)
            return 0;
        at += ballot->channels[r].in_bytes;
        room -= ballot->channels[r].in_bytes;
    }
    return ballot->steps_max <= WEFT_DEVICE_STEPS_MAX;
}

/* Whether no rank is so far behind, as is known here, that it must be asked first. */
static int has_credit(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    int has = 1;
    for (uint32_t others = weft_device_collectives_others(exec); others; others &= others - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(others);
        if ((int32_t)(op->sequence - exec->credits[rank].seen) < WEFT_CREDIT_ASK)
            continue;
        int status = weft_credit_inquire(exec, rank, op->sequence);
        if (status != WEFT_OK && status != WEFT_AGAIN)
            return status;
        has = 0;
    }
    return has;
}

/* Copies go between all devices of a kind, device collectives only where the device reaches. Of reductions that has been asked before. */
static int reaches_buffers(const struct weft_exec_op *op)
{
    const struct weft_command_queue *commands = op->request.commands;
    int reaches = 1;
    for (int b = WEFT_BUFFER_INPUT; b <= WEFT_BUFFER_OUTPUT; b++) {
        const struct weft_extent *extent = &op->layout.extents[b];
        if (extent->bytes && !weft_collective_reduces((enum weft_collective)op->request.plan->collective))
            reaches &= weft_command_queues_reach(weft_command_queue_kind(commands),
                                                 weft_command_queue_ordinal(commands), extent->memory);
    }
    return reaches;
}

/* 1, 0 or a failure. */
static int may_vote(struct weft_exec_op *op)
{
    const struct weft_device_collectives *collectives = op->exec->collectives;
    if (collectives->is_disabled || collectives->voted || !weft_device_collective_class_votes(op))
        return 0;
    int status = weft_mailbox_ready(op);
    if (status <= 0 || !fits(op) || !reaches_buffers(op))
        return status < 0 ? status : 0;
    status = has_credit(op);
    return status > 0 ? weft_mailbox_claim(op->exec) : status;
}

static int send_votes(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_ballot *ballot = op->ballot;
    struct weft_wire_vote vote = ballot->votes[exec->options.rank];
    for (uint32_t left = weft_device_collectives_others(exec) & ~ballot->reported; left; left &= left - 1) {
        uint32_t rank = (uint32_t)__builtin_ctz(left);
        struct weft_exec_peer *peer;
        struct weft_wire_header header = {.op = op->sequence,
                                          .source = exec->options.rank,
                                          .digest = op->request.digest,
                                          .size = sizeof vote,
                                          .kind = WEFT_WIRE_VOTE,
                                          .version = WEFT_WIRE_VERSION,
                                          .count = op->count};
        vote.offset = ballot->offsets[rank];
        vote.bytes = ballot->channels[rank].in_bytes;
        int status = weft_exec_connect(exec, rank, &peer);
        if (status == WEFT_OK)
            status = weft_exec_post(exec, peer, &header, &vote);
        if (status == WEFT_OK)
            ballot->reported |= 1u << rank;
        else if (status != WEFT_AGAIN)
            return status;
    }
    return WEFT_OK;
}

static int cast_vote(struct weft_exec_op *op)
{
    const struct weft_device_collective_class *class = weft_device_collective_class_of(op);
    struct weft_wire_vote *own = &op->ballot->votes[op->exec->options.rank];
    int may = may_vote(op);
    if (may <= 0)
        return may < 0 ? may : give_up(op);
    for (int way = 0; way < WEFT_WAYS; way++)
        own->cost_ns[way] = class->cost_ns[way];
    op->ballot->is_cast = 1;
    op->exec->collectives->voted = op;
    return send_votes(op);
}

/* --- all votes are there */

static void join_channels(struct weft_exec_op *op)
{
    const struct weft_device_collectives *collectives = op->exec->collectives;
    const struct weft_mailbox *mailbox = &collectives->mailbox;
    uint32_t own = op->exec->options.rank;
    for (uint32_t others = weft_device_collectives_others(op->exec); others; others &= others - 1) {
        uint32_t r = (uint32_t)__builtin_ctz(others);
        const struct weft_device_collective_peer *peer = &collectives->peers[r];
        struct weft_device_collective_channel *channel = &op->ballot->channels[r];
        channel->outbox = peer->memory + op->ballot->votes[r].offset;
        channel->inbox = mailbox->memory + op->ballot->offsets[r];
        channel->out_word = (uint64_t *)(peer->memory + (size_t)own * 64);
        channel->in_word = (uint64_t *)(mailbox->memory + (size_t)r * 64);
        channel->sent = peer->sent;
        channel->received = peer->received;
    }
}

/* Kernels of collectives that only copy know bytes. */
static int queue_kernel(struct weft_exec_op *op, struct weft_device_step *steps)
{
    const struct weft_exec_request *request = &op->request;
    int reduces = weft_collective_reduces((enum weft_collective)request->plan->collective);
    const struct weft_device_collective_unit unit = {.bytes = reduces ? request->element_bytes : 1,
                                                     .finish = reduces ? request->finish : 0};
    struct weft_device_collective collective = {.size = sizeof collective,
                                                .dtype = reduces ? request->dtype : WEFT_UINT8,
                                                .op = reduces ? request->op : WEFT_SUM,
                                                .steps = steps,
                                                .stop = op->exec->collectives->mailbox.pinned};
    int status = weft_device_collective_write(&op->layout, request->plan, &unit, op->ballot->channels, steps,
                                              &collective.step_count);
    if (status != WEFT_OK || !collective.step_count)
        return status;
    return weft_command_queue_run(request->commands, &collective);
}

static int run_kernel(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_device_step *steps = calloc(op->ballot->steps_max + 1u, sizeof *steps);
    if (!steps)
        return weft_fail(WEFT_NOMEM, "no memory for a device collective of %u steps", op->ballot->steps_max);
    op->vote = WEFT_VOTE_COLLECTIVE;
    weft_device_waits_count(1); /* it waits for others, as a stream at its wait does */
    join_channels(op);
    int status = weft_mailboxes_borrow(op);
    if (status == WEFT_OK)
        status = queue_kernel(op, steps);
    free(steps);
    if (status != WEFT_OK)
        return status;
    for (uint32_t r = 0; r < exec->options.ranks; r++) {
        exec->collectives->peers[r].sent += op->ballot->channels[r].sends;
        exec->collectives->peers[r].received += op->ballot->channels[r].receives;
        exec->stats.bytes_direct += op->ballot->channels[r].in_bytes;
    }
    exec->stats.collectives++;
    op->exhausted = 1;
    return weft_device_finish(op);
}

static int decide(struct weft_exec_op *op)
{
    struct weft_exec *exec = op->exec;
    struct weft_ballot *ballot = op->ballot;
    for (uint32_t yes = ballot->yes; yes; yes &= yes - 1) {
        uint32_t r = (uint32_t)__builtin_ctz(yes);
        if (ballot->votes[r].bytes != ballot->channels[r].out_bytes)
            return weft_fail(WEFT_PROTOCOL,
                             "rank %u expects %llu bytes of rank %u in operation %u: expected %zu", r,
                             (unsigned long long)ballot->votes[r].bytes, exec->options.rank, op->sequence,
                             ballot->channels[r].out_bytes);
    }
    ballot->way = (uint8_t)weft_device_collective_choose(op);
    ballot->decided_ns = weft_clock_ns();
    ballot->is_timed = 1;
    if (ballot->way == WEFT_WAY_COLLECTIVE)
        return run_kernel(op);
    op->vote = WEFT_VOTE_OUT;
    op->phase = WEFT_PHASE_RUNS;
    free_vote(op);
    return WEFT_OK;
}

int weft_vote_run(struct weft_exec_op *op)
{
    uint32_t others = weft_device_collectives_others(op->exec);
    int status = op->ballot->is_cast ? send_votes(op) : cast_vote(op);
    if (status == WEFT_OK && op->vote == WEFT_VOTE_OPEN && op->ballot->yes == others &&
        op->ballot->reported == others)
        status = decide(op);
    return status;
}

void weft_vote_describe(const struct weft_exec_op *op, char *text, size_t capacity)
{
    uint32_t missing = weft_device_collectives_others(op->exec) & ~op->ballot->yes;
    if (!missing) {
        snprintf(text, capacity, "waits for room in links to other ranks");
        return;
    }
    size_t used = (size_t)snprintf(text, capacity, "waits for rank%s ", missing & (missing - 1) ? "s" : "");
    for (uint32_t left = missing; left && used < capacity; left &= left - 1)
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", left == missing ? "" : ", ",
                                 __builtin_ctz(left));
    if (used < capacity)
        snprintf(text + used, capacity - used, " to begin it");
}

/* --- what others send */

int weft_vote_check(struct weft_exec *exec, const struct weft_wire_header *header, int32_t ahead)
{
    int is_yes = header->size != 0;
    if (!weft_device_collectives_get(exec))
        return weft_fail(WEFT_PROTOCOL, "rank %u votes for a device collective: there are none here",
                         header->source);
    if (header->source == exec->options.rank || ahead >= WEFT_OPS_MAX || (!is_yes && ahead >= 0) ||
        (is_yes && header->size != sizeof(struct weft_wire_vote)))
        return weft_fail(WEFT_PROTOCOL, "a vote of rank %u for operation %u, %u bytes, is malformed",
                         header->source, header->op, header->size);
    return WEFT_OK;
}

/* Who says no to this rank's vote has begun the operation. It may have voted yes before another rank answered no. */
static int take_refusal(struct weft_exec_op *op, uint32_t source)
{
    if (op->vote != WEFT_VOTE_OPEN)
        return WEFT_OK;
    if (!op->ballot->is_cast)
        return weft_fail(WEFT_PROTOCOL, "rank %u answers a vote for operation %u, which nobody here has cast",
                         source, op->sequence);
    weft_device_collective_refused(op);
    return give_up(op);
}

int weft_vote_take(struct weft_exec_op *op, const struct weft_wire_header *header, const void *payload)
{
    uint32_t source = header->source;
    const struct weft_device_collective_peer *peer = &op->exec->collectives->peers[source];
    struct weft_wire_vote vote;
    if (!header->size)
        return take_refusal(op, source);
    if (op->vote == WEFT_VOTE_OUT)
        return weft_vote_refuse(op->exec, source, op->sequence);
    memcpy(&vote, payload, sizeof vote);
    if (op->vote == WEFT_VOTE_COLLECTIVE || op->ballot->yes >> source & 1 || !peer->is_known)
        return weft_fail(WEFT_PROTOCOL, "rank %u votes for operation %u twice, or has announced no mailbox",
                         source, op->sequence);
    if (vote.offset % 64 || vote.offset < weft_mailbox_begin(op->exec) || vote.offset > peer->mailbox.bytes ||
        vote.bytes > peer->mailbox.bytes - vote.offset)
        return weft_fail(WEFT_PROTOCOL,
                         "rank %u offers %llu bytes at %llu of its mailbox of %llu bytes: expected fewer",
                         source, (unsigned long long)vote.bytes, (unsigned long long)vote.offset,
                         (unsigned long long)peer->mailbox.bytes);
    op->ballot->votes[source] = vote;
    op->ballot->yes |= 1u << source;
    return WEFT_OK;
}

/* --- the end */

void weft_vote_ended(struct weft_exec_op *op)
{
    struct weft_device_collectives *collectives = op->exec->collectives;
    if (collectives->mailbox.kind && collectives->mailbox.maker == op->sequence)
        collectives->mailbox.is_zeroed = 1;
    if (op->vote == WEFT_VOTE_COLLECTIVE)
        weft_mailboxes_return(op->exec);
    free_vote(op);
    if (op->ballot && op->ballot->is_timed)
        weft_device_collective_learn(op, weft_clock_ns() - op->ballot->decided_ns);
    if (op->ballot)
        op->ballot->is_timed = 0;
}

void weft_vote_stop(struct weft_exec_op *op)
{
    struct weft_device_collectives *collectives = op->exec->collectives;
    if (op->ballot)
        op->ballot->is_timed = 0;
    if (collectives->voted != op)
        return;
    free_vote(op);
    collectives->is_loud = 1;
    if (op->vote == WEFT_VOTE_COLLECTIVE)
        __atomic_store_n(collectives->mailbox.pinned, 1, __ATOMIC_RELEASE);
}

void weft_device_collectives_stop(struct weft_exec *exec)
{
    if (exec->collectives && exec->collectives->voted)
        weft_vote_stop(exec->collectives->voted);
}
