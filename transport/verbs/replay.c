/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent and announced again in a new round of a link's queue pairs (failover.c), in this order:
 *
 *   KEYS      the receive buffers that were open, with windows on the new queue pairs: as many entries as fit, each a token
 *             and the number of the message that was next when the receive buffer was made. A window on another queue pair
 *             than the messages' is awaited, as in advertise().
 *   KEYS_END  there are no others.
 *   DATA      messages from the one on that the peer expects.
 *
 * Only then new messages go out. The peer keeps the tokens by slot. A token of an earlier round, which it may have had
 * before or find in a message that is sent again, no longer fits the link's round: put() takes the newer one instead, waits
 * for it until KEYS_END, and finds the receive buffer withdrawn when it was not among the keys. (It takes it before
 * KEYS_END, as the peer may need the windows of receive buffers that are filled to announce others.) A put that was in
 * flight when the round began is written again, as a whole, when its receive buffer's new key comes; it has ended when
 * KEYS_END comes and it had none. One that began in this round and is lost before KEYS_END comes waits for the next round's
 * keys.
 *
 * A put that had ended here, but is named by KEYS, was acknowledged by an adapter that did not deliver it. Slots and
 * generations come again, so an entry and an older receive buffer of the same name are told apart by its message number: an
 * older put had begun before the newer receive buffer was made.
 */
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>
#include "base/error.h"
#include "transport/verbs/failover.h"

#define DONE VERBS_IMMEDIATE_END

int verbs_message_keep(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                       size_t payload_size)
{
    struct verbs_kept *kept = &link->failover->kept[link->sent % VERBS_KEPT_MAX];
    size_t size = header_size + payload_size;
    if (size > kept->capacity) {
        uint8_t *bytes = realloc(kept->bytes, size);
        if (!bytes)
            return weft_fail(WEFT_NOMEM, "verbs: no memory to keep a message of %zu bytes", size);
        kept->bytes = bytes;
        kept->capacity = (uint32_t)size;
    }
    if (header_size)
        memcpy(kept->bytes, header, header_size);
    if (payload_size)
        memcpy(kept->bytes + header_size, payload, payload_size);
    kept->size = (uint32_t)size;
    return WEFT_OK;
}

/* --- the receiver of puts */

/* Gives stale receive buffers new windows and writes what the peer is to know, up to `capacity` entries. */
static int keys_renew(struct weft_link *link, struct verbs_key_entry *entries, uint32_t capacity,
                      uint32_t *count)
{
    const struct verbs_rbufs *rbufs = link->transport->rbufs;
    *count = 0;
    for (uint32_t i = 0; i < rbufs->count && *count < capacity; i++) {
        struct verbs_rbuf *rbuf = rbufs->slots[i];
        if (rbuf->state != VERBS_RBUF_OPEN || rbuf->link != link || !rbuf->stale)
            continue;
        struct verbs_key_entry *entry = &entries[*count];
        memset(entry, 0, sizeof *entry);
        int status = verbs_rbuf_renew(rbuf, &entry->token);
        if (status)
            return *count && link->state == VERBS_LINK_UP ? WEFT_OK : status;
        rbuf->announced = 1;
        entry->sent_at = rbuf->sent_at;
        ++*count;
    }
    return WEFT_OK;
}

/* Bound windows are announced when they are bound; what has been renewed waits in `entries` until then. */
static int keys_send(struct weft_link *link)
{
    struct verbs_failover *failover = link->failover;
    uint32_t most = (link->frame_bytes - (uint32_t)sizeof(struct verbs_frame)) / sizeof failover->entries[0];
    most = most < VERBS_KEY_ENTRIES ? most : VERBS_KEY_ENTRIES;
    while (!failover->keys_sent) {
        if (!failover->entries_count) {
            int status = keys_renew(link, failover->entries, most, &failover->entries_count);
            if (status)
                return status;
        }
        if (link->unbound)
            return WEFT_AGAIN;
        int is_end = !failover->entries_count;
        int status = verbs_frame_send_long(link, is_end ? VERBS_KEYS_END : VERBS_KEYS, failover->entries,
                                           failover->entries_count * sizeof failover->entries[0]);
        if (status)
            return status;
        failover->entries_count = 0;
        failover->keys_sent = (uint8_t)is_end;
    }
    return WEFT_OK;
}

int verbs_resume_send(struct weft_link *link)
{
    struct verbs_failover *failover = link->failover;
    int status = keys_send(link);
    while (!status && failover->replay != link->sent) {
        const struct verbs_kept *kept = &failover->kept[failover->replay % VERBS_KEPT_MAX];
        status = verbs_message_replay(link, failover->replay, kept->bytes, kept->size);
        if (status)
            break;
        failover->replay++;
        failover->messages++;
    }
    if (!status)
        link->held = 0;
    return status;
}

/* --- the sender of puts */

/* What is known of a slot, made if need be; NULL when there is no memory. */
static struct verbs_renewal *renewal_of(struct verbs_failover *failover, uint32_t immediate)
{
    uint32_t slot = immediate & (VERBS_SLOTS - 1);
    if (slot >= failover->renewals_count) {
        uint32_t count = (slot | 63) + 1;
        struct verbs_renewal *renewals = realloc(failover->renewals, count * sizeof *renewals);
        if (!renewals)
            return NULL;
        memset(renewals + failover->renewals_count, 0, (count - failover->renewals_count) * sizeof *renewals);
        failover->renewals = renewals;
        failover->renewals_count = count;
    }
    return &failover->renewals[slot];
}

void verbs_put_note(struct weft_link *link, const struct verbs_put *put)
{
    struct verbs_renewal *renewal = renewal_of(link->failover, put->token.immediate);
    link->failover->moved++;
    if (!renewal)
        return; /* the put has ended all the same; an adapter that has lied about it is found by the deadline only */
    renewal->done = put->token.immediate | DONE;
    renewal->expected = put->expected;
}

int verbs_token_renew(const struct weft_link *link, struct verbs_token *token, size_t size)
{
    const struct verbs_failover *failover = link->failover;
    uint32_t slot = token->immediate & (VERBS_SLOTS - 1);
    const struct verbs_token *newer =
        slot < failover->renewals_count ? &failover->renewals[slot].token : NULL;
    if (newer && newer->immediate == token->immediate && newer->check &&
        newer->check == verbs_token_check(newer, verbs_token_link(link->peer_id, link->round), size)) {
        *token = *newer;
        return WEFT_OK;
    }
    return failover->keys_known
               ? weft_fail(WEFT_CANCELLED, "verbs: the peer has withdrawn this receive buffer")
               : WEFT_AGAIN;
}

static int key_take(struct weft_link *link, const struct verbs_key_entry *entry)
{
    uint32_t qps = entry->token.check & 0xff;
    if (entry->token.immediate >> 28 || !qps || qps & ~(uint32_t)link->live)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: the peer announces keys for receive buffer %#x on queue pairs %#x of %#x",
                         entry->token.immediate, qps, link->live);
    struct verbs_renewal *renewal = renewal_of(link->failover, entry->token.immediate);
    if (!renewal)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for the peer's keys");
    if (renewal->done == (entry->token.immediate | DONE) && (int32_t)(renewal->expected - entry->sent_at) > 0)
        return weft_fail(WEFT_TRANSPORT,
                         "verbs: the peer's adapter had acknowledged a put that has not arrived");
    renewal->token = entry->token;
    verbs_put_renew(link, &entry->token);
    return WEFT_OK;
}

void verbs_keys_receive(struct weft_link *link, const struct verbs_frame *frame, uint32_t size)
{
    const uint8_t *bytes = (const uint8_t *)(frame + 1);
    size_t length = size - sizeof *frame;
    int status = WEFT_OK;
    if (verbs_failover_is_turning(link) && link->failover->keys_known)
        return; /* once more: see message.c */
    if (!link->failover || !link->round || link->failover->keys_known ||
        length % sizeof(struct verbs_key_entry))
        status = weft_fail(WEFT_PROTOCOL, "verbs: the peer announces keys that it was not to announce");
    for (size_t i = 0; !status && i + sizeof(struct verbs_key_entry) <= length;
         i += sizeof(struct verbs_key_entry)) {
        struct verbs_key_entry entry;
        memcpy(&entry, bytes + i, sizeof entry);
        status = key_take(link, &entry);
    }
    if (status) {
        verbs_link_fail(link, status, "%s", weft_error_detail());
        return;
    }
    if (frame->type != VERBS_KEYS_END)
        return;
    link->failover->keys_known = 1;
    verbs_puts_settle(link);
}
