/* How far a rank may be ahead of another.
 *
 * A small message is done when it has been handed to the transport, so the root of many broadcasts would be through with
 * all of them before the others have begun. Who is asked to keep messages for operations to come keeps WEFT_OPS_MAX
 * operations' worth, so no rank sends more than that beyond what it knows its peer to have begun. It knows from
 * every message of the peer. Where those have stayed away for ASK_AHEAD operations it asks, and goes on until the bound;
 * the answer comes once the peer is near.
 */
#include "base/error.h"
#include "comm/exec_internal.h"

#define ASK_AHEAD    WEFT_CREDIT_ASK
#define ANSWER_AHEAD (ASK_AHEAD / 2)

static int tell(struct weft_exec *exec, uint32_t rank, enum weft_wire_kind kind, uint32_t op)
{
    struct weft_exec_peer *peer;
    int status = weft_exec_connect(exec, rank, &peer);
    if (status != WEFT_OK)
        return status;
    struct weft_wire_header header = {.comm = exec->options.id,
                                      .op = op,
                                      .source = exec->options.rank,
                                      .kind = (uint8_t)kind,
                                      .version = WEFT_WIRE_VERSION};
    status = peer->ops->send(peer->link, &header, sizeof header, NULL, 0);
    if (status == WEFT_OK)
        exec->stats.messages++;
    return status;
}

int weft_credit_ask(struct weft_exec *exec, uint32_t rank, uint32_t op)
{
    struct weft_credit *credit = &exec->credits[rank];
    if (!credit->asked) {
        int status = tell(exec, rank, WEFT_WIRE_ASK, op);
        if (status != WEFT_OK && status != WEFT_AGAIN)
            return status;
        credit->asked = status == WEFT_OK;
    }
    return (int32_t)(op - credit->seen) > WEFT_OPS_MAX ? WEFT_AGAIN : WEFT_OK;
}

void weft_credit_pay(struct weft_exec *exec)
{
    exec->debts_blocked = 0;
    for (uint32_t r = 0; r < exec->options.ranks && exec->debts; r++) {
        struct weft_credit *credit = &exec->credits[r];
        uint32_t begun = exec->next_sequence - 1;
        if (!credit->owed || (int32_t)(begun - (credit->owed_op - ANSWER_AHEAD)) < 0)
            continue;
        int status = tell(exec, r, WEFT_WIRE_CREDIT, begun);
        exec->debts_blocked |= status == WEFT_AGAIN;
        if (status == WEFT_AGAIN)
            continue;
        credit->owed = 0;
        exec->debts--;
        if (status != WEFT_OK) {
            weft_exec_fail(exec, status, weft_error_detail());
            return;
        }
    }
}

int weft_credit_message(struct weft_exec *exec, const struct weft_wire_header *header)
{
    struct weft_credit *credit = &exec->credits[header->source];
    int32_t ahead = (int32_t)(header->op - exec->next_sequence);
    if (header->size || ahead >= 4 * WEFT_OPS_MAX)
        return weft_fail(WEFT_PROTOCOL, "rank %u speaks of operation %u: expected none so far from %u",
                         header->source, header->op, exec->next_sequence);
    if (header->kind == WEFT_WIRE_CREDIT) {
        weft_credit_seen(exec, header->source, header->op);
        credit->asked = 0;
        return WEFT_OK;
    }
    exec->debts += !credit->owed;
    credit->owed = 1;
    credit->owed_op = header->op;
    weft_credit_pay(exec);
    return WEFT_OK;
}
