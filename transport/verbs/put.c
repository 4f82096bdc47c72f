/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side of puts: see rbuf.h.
 *
 * A put takes what it needs of all its queue pairs' send queues at once or nothing at all. The last entry of each
 * queue pair asks for a completion, which stands for the queue pair's others too: it says that the peer's adapter has
 * acknowledged all of them, so that the source may be overwritten.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "transport/verbs/failover.h"
#include "transport/verbs/rbuf.h"

int verbs_puts_open(struct weft_transport *transport)
{
    transport->puts = calloc(1, sizeof *transport->puts);
    return transport->puts ? WEFT_OK : weft_fail(WEFT_NOMEM, "verbs: no memory for puts");
}

void verbs_puts_free(struct weft_transport *transport)
{
    if (!transport->puts)
        return;
    struct verbs_put *put;
    while ((put = transport->puts->made)) {
        transport->puts->made = put->next_made;
        free(put);
    }
    free(transport->puts);
    transport->puts = NULL;
}

static uint32_t write_bytes(const struct verbs_rail *rail)
{
    uint32_t bytes = rail->limits.message_bytes;
    return bytes < VERBS_WRITE_BYTES ? bytes : VERBS_WRITE_BYTES;
}

uint64_t verbs_put_bytes(const struct weft_transport *transport)
{
    uint64_t least = VERBS_WRITE_BYTES;
    for (int i = 0; i < transport->rails_count; i++) {
        uint32_t bytes = write_bytes(&transport->rails[i]);
        least = bytes < least ? bytes : least;
    }
    return least * VERBS_PUT_WRITES;
}

static struct verbs_put *put_take(struct verbs_puts *puts)
{
    struct verbs_put *put = puts->free;
    if (put) {
        puts->free = put->next;
        return put;
    }
    put = calloc(1, sizeof *put);
    if (put) {
        put->next_made = puts->made;
        puts->made = put;
    }
    return put;
}

static void put_give(struct verbs_puts *puts, struct verbs_put *put)
{
    put->next = puts->free;
    puts->free = put;
}

static void active_add(struct verbs_puts *puts, struct verbs_put *put)
{
    put->previous = NULL;
    put->next = puts->active;
    if (put->next)
        put->next->previous = put;
    puts->active = put;
}

static void active_remove(struct verbs_puts *puts, struct verbs_put *put)
{
    if (put->previous)
        put->previous->next = put->next;
    else
        puts->active = put->next;
    if (put->next)
        put->next->previous = put->previous;
    put->next = put->previous = NULL;
}

/* Whether the token is the peer's, and good; an old one is replaced. */
static int token_check(const struct weft_link *link, struct verbs_token *token, size_t size)
{
    uint32_t qps = token->check & 0xff;
    if (token->check != verbs_token_check(token, verbs_token_link(link->peer_id, link->round), size)) {
        int status = link->round
                         ? verbs_token_renew(link, token, size)
                         : weft_fail(WEFT_INVALID,
                                     "verbs: token is not from this link's peer, or not for %zu bytes", size);
        if (status)
            return status;
        qps = token->check & 0xff;
    }
    if (!qps || qps & ~(uint32_t)link->live)
        return weft_fail(WEFT_INVALID, "verbs: token with queue pairs %#x of %#x", qps, link->live);
    if (verbs_is_refused(link, token->immediate))
        return weft_fail(WEFT_CANCELLED, "verbs: the peer has withdrawn this receive buffer");
    return WEFT_OK;
}

/* Whether each queue pair has room for its part. */
static int has_room(const struct weft_link *link, uint32_t qps, size_t size)
{
    uint32_t count = (uint32_t)__builtin_popcount(qps), index = 0;
    for (uint32_t bits = qps; bits; bits &= bits - 1, index++) {
        const struct verbs_qp *qp = link->qps[__builtin_ctz(bits)];
        size_t offset, part = verbs_stripe(size, count, index, &offset);
        size_t writes = (part + write_bytes(qp->queues->rail) - 1) / write_bytes(qp->queues->rail);
        if (verbs_qp_room(qp, VERBS_PUT_RESERVE) < writes + 1)
            return 0;
    }
    return 1;
}

static void immediate_fill(struct ibv_send_wr *entry, const struct verbs_qp *qp, uint32_t immediate)
{
    memset(entry, 0, sizeof *entry);
    entry->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    entry->imm_data = htobe32(immediate | (uint32_t)qp->number << 28);
}

int verbs_immediate_send(struct verbs_qp *qp, uint32_t immediate)
{
    struct ibv_send_wr entry;
    immediate_fill(&entry, qp, immediate);
    return verbs_qp_post(qp, &entry, 1, (struct verbs_post){VERBS_POST_NONE, NULL}, VERBS_SEND_CONTROL / 2,
                         0);
}

/* Where the bytes of one queue pair come from and go to. */
struct span {
    const uint8_t *memory;
    size_t size;
    uint64_t address;
    uint32_t key, lkey;
};

/* What one queue pair carries: its writes, and the immediate. */
static int part_write(struct verbs_put *put, struct verbs_qp *qp, const struct span *span, uint32_t immediate)
{
    struct ibv_send_wr entries[VERBS_PUT_WRITES + 1];
    struct ibv_sge pieces[VERBS_PUT_WRITES];
    uint32_t most = write_bytes(qp->queues->rail), count = 0;
    for (size_t done = 0; done < span->size; count++) {
        uint32_t bytes = span->size - done < most ? (uint32_t)(span->size - done) : most;
        pieces[count] = (struct ibv_sge){(uint64_t)(uintptr_t)(span->memory + done), bytes, span->lkey};
        struct ibv_send_wr *entry = &entries[count];
        memset(entry, 0, sizeof *entry);
        entry->next = entry + 1;
        entry->opcode = IBV_WR_RDMA_WRITE;
        entry->sg_list = &pieces[count];
        entry->num_sge = 1;
        entry->wr.rdma.remote_addr = span->address + done;
        entry->wr.rdma.rkey = span->key;
        done += bytes;
    }
    immediate_fill(&entries[count], qp, immediate);
    put->left++; /* posting may fail the link, and end it */
    int status =
        verbs_qp_post(qp, entries, count + 1, (struct verbs_post){VERBS_POST_PUT, put}, VERBS_PUT_RESERVE, 1);
    if (status)
        put->left--;
    return status;
}

/* The whole put. What has been posted before a failure ends as the link does. */
static int put_write(struct verbs_put *put)
{
    struct weft_link *link = put->link;
    const struct verbs_token *token = &put->token;
    uint32_t qps = token->check & 0xff, count = (uint32_t)__builtin_popcount(qps), index = 0;
    for (uint32_t bits = qps; bits; bits &= bits - 1, index++) {
        struct verbs_qp *qp = link->qps[__builtin_ctz(bits)];
        size_t offset, part = verbs_stripe(put->size, count, index, &offset);
        struct span span = {.memory = put->memory + offset,
                            .size = part,
                            .address = token->address + offset,
                            .key = token->keys[index],
                            .lkey = put->region->mr[qp->queues->rail->number]->lkey};
        int status = part_write(put, qp, &span, token->immediate);
        if (!status)
            continue;
        if (status == WEFT_AGAIN && !put->left)
            return status;
        if (link->state ==
            VERBS_LINK_CONNECTING) { /* the queue pair has failed: all is written again over others */
            put->status = WEFT_TRANSPORT;
            return WEFT_OK;
        }
        if (link->state != VERBS_LINK_FAILED)
            verbs_link_fail(
                link, WEFT_TRANSPORT,
                "verbs: %s port %d takes no more of a put of which other queue pairs have their parts",
                qp->queues->rail->device, qp->queues->rail->port.number);
        return weft_fail(link->status, "%s", link->why);
    }
    return WEFT_OK;
}

int verbs_put(struct weft_link *link, const struct weft_token *bytes, struct weft_region *region,
              const void *memory, size_t size, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    if (link->state != VERBS_LINK_UP || link->leave)
        return link->state == VERBS_LINK_FAILED ? weft_fail(link->status, "%s", link->why) : WEFT_AGAIN;
    struct verbs_token token;
    memcpy(&token, bytes, sizeof token);
    int status = token_check(link, &token, size);
    if (!status)
        status = verbs_region_check(transport, region, memory, size);
    if (status)
        return status;
    if (!has_room(link, token.check & 0xff, size))
        return WEFT_AGAIN;
    struct verbs_put *put = put_take(transport->puts);
    if (!put)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for a put");
    put->link = link;
    put->region = region;
    put->memory = memory;
    put->size = size;
    put->token = token;
    put->expected = link->expected;
    put->cookie = cookie;
    put->status = WEFT_OK;
    put->left = 0;
    put->recalled = put->refused = put->lost = put->waits = put->replay = 0;
    active_add(transport->puts, put);
    status = put_write(put);
    if (!status)
        return WEFT_OK;
    put->refused = 1; /* the caller hears it from here, and nothing more */
    if (!put->left) {
        active_remove(transport->puts, put);
        put_give(transport->puts, put);
    }
    return status;
}

/* It is over, as the caller hears if it still wants to. */
static void put_end(struct verbs_put *put, int status)
{
    struct weft_transport *transport = put->link->transport;
    active_remove(transport->puts, put);
    put->lost = put->waits = put->replay = 0;
    if (put->refused) {
        put_give(transport->puts, put);
        return;
    }
    verbs_notice_push(transport, &put->notice, WEFT_EVENT_PUT_DONE, status);
    put->notice.withdrawn = put->recalled;
}

void verbs_put_retired(struct verbs_put *put, int status)
{
    if (status && !put->status)
        put->status = status;
    if (--put->left)
        return;
    struct weft_link *link = put->link;
    if (link->failover && put->status && link->state != VERBS_LINK_FAILED) {
        put->lost = 1;
        return;
    }
    if (link->failover && !put->status)
        verbs_put_note(link, put);
    put_end(put, put->status);
}

/* --- when the link's queue pairs are replaced (failover.c) */

void verbs_put_renew(struct weft_link *link, const struct verbs_token *token)
{
    for (struct verbs_put *put = link->transport->puts->active; put; put = put->next) {
        if (put->link != link || !put->waits || put->recalled || put->token.immediate != token->immediate)
            continue;
        put->token = *token;
        put->replay = 1;
        verbs_link_want(link, VERBS_PENDING_REPLAY);
        return;
    }
}

void verbs_puts_settle(struct weft_link *link)
{
    for (struct verbs_put *put = link->transport->puts->active, *next; put; put = next) {
        next = put->next;
        if (put->link == link && put->waits && !put->replay)
            put_end(put, WEFT_OK);
    }
}

int verbs_puts_replay(struct weft_link *link)
{
    for (struct verbs_put *put = link->transport->puts->active, *next; put; put = next) {
        next = put->next;
        if (put->link != link || !put->replay)
            continue;
        if (verbs_is_refused(link, put->token.immediate)) { /* meanwhile */
            put_end(put, WEFT_OK);
            continue;
        }
        if (!has_room(link, put->token.check & 0xff, put->size))
            return WEFT_AGAIN;
        put->lost = put->waits = put->replay = 0;
        put->status = WEFT_OK;
        int status = put_write(put);
        if (!status) {
            link->failover->puts++;
            continue;
        }
        if (put->left)
            return status; /* the link has failed, and ends it */
        put->lost = 1;
        put->waits = put->replay = link->state == VERBS_LINK_UP;
        if (link->state == VERBS_LINK_FAILED)
            put_end(put, link->status);
        return status;
    }
    return WEFT_OK;
}

void verbs_puts_turn(struct weft_link *link)
{
    struct verbs_puts *puts = link->transport->puts;
    for (struct verbs_put *put = puts->active, *next; put; put = next) {
        next = put->next;
        if (put->link != link)
            continue;
        put->waits = put->lost;
        put->replay = 0;
        if (!put->recalled)
            continue;
        active_remove(puts, put);
        put_give(puts, put);
    }
}

void verbs_puts_link_failed(struct weft_link *link)
{
    for (struct verbs_put *put = link->transport->puts->active, *next; put; put = next) {
        next = put->next;
        if (put->link == link && put->lost)
            put_end(put, link->status);
    }
}

uint64_t verbs_put_reported(struct verbs_notice *notice)
{
    struct verbs_put *put = VERBS_NOTICE_OF(notice, struct verbs_put);
    uint64_t cookie = put->cookie;
    put_give(put->link->transport->puts, put);
    return cookie;
}

void verbs_put_recall(struct weft_link *link, uint64_t cookie)
{
    struct weft_transport *transport = link->transport;
    for (struct verbs_put *put = transport->puts->active; put; put = put->next) {
        if (put->link == link && put->cookie == cookie && !put->recalled) {
            put->recalled = 1;
            transport->rbufs->recalling = 1;
            if (put->lost && !verbs_failover_is_turning(link)) { /* nothing of it moves */
                active_remove(transport->puts, put);
                put_give(transport->puts, put);
            }
            return;
        }
    }
    for (struct verbs_notice *notice = transport->notices; notice; notice = notice->next) {
        struct verbs_put *put = VERBS_NOTICE_OF(notice, struct verbs_put);
        if (notice->kind == WEFT_EVENT_PUT_DONE && put->link == link && put->cookie == cookie)
            notice->withdrawn = 1;
    }
}

int verbs_puts_on(const struct weft_link *link)
{
    const struct verbs_put *put = link->transport->puts->active;
    while (put && put->link != link)
        put = put->next;
    return put != NULL;
}

int verbs_put_is_recalled(const struct weft_link *link)
{
    for (const struct verbs_put *put = link->transport->puts->active; put; put = put->next) {
        if (put->link == link && put->recalled)
            return 1;
    }
    return 0;
}
