/* SPDX-License-Identifier: Apache-2.0 */
/* Puts: what rbuf.c, put.c and withdraw.c share.
 *
 * A receive buffer is memory that is ready for one put. Its token says where, by which queue pairs, and with which key on
 * each. A put of less than WEFT_VERBS_STRIPE bytes goes over one queue pair; the receiver gives receive buffers to the
 * queue pairs in turn. A larger one is cut over all queue pairs, at multiples of 4 KiB, in the order of their numbers.
 *
 * Each queue pair's part is one RDMA write (several where the device's largest message is smaller), and after it a
 * write of no bytes with the receive buffer's immediate. Where a network spreads one connection's packets over many
 * paths (adaptive routing) an adapter may put a write's bytes into memory in any order; but the completion of a
 * later entry of the same connection says that everything before it is in place. So the immediate, not a
 * byte's change, is the arrival of its queue pair's part. The receive buffer is filled when each queue pair's immediate has
 * come; each queue pair has a bit, and one that comes twice counts once.
 *
 * Keys. With memory windows the key of each queue pair is a window bound on exactly its part and valid on it only. It is
 * bound by an entry of the queue pair's own send queue. On the queue pair of the messages the token therefore cannot
 * overtake it; on other queue pairs send() waits until the device says that the binding is done. (On Soft-RoCE a binding
 * waits until its queue pair's send queue has ended, and send() with it: see queue.c.) A window is invalidated as soon as
 * its queue pair's immediate has come. That goes on beside: WEFT_EVENT_FILLED does not wait for it, but the receive
 * buffer's slot does, and so does deregistering the region. Without windows the key is the region's, and as wide.
 *
 * Immediate: slot (bits 0 to 15), generation of the slot (16 to 27), queue pair (28 to 30), and bit 31: "nothing (more)
 * comes over this queue pair", the answer to CANCEL. Slots are used again in the order they became free, so that a
 * generation comes again only after 4,096 times as many receive buffers as there are slots free, and one that a peer was
 * asked not to put into never does (withdraw.c). An immediate that fits no open
 * receive buffer of the link that it came over is dropped and counted.
 */
#ifndef WEFT_TRANSPORT_VERBS_RBUF_H
#define WEFT_TRANSPORT_VERBS_RBUF_H

#include "transport/verbs/region.h"
#include "transport/verbs/verbs_private.h"
#include "transport/verbs/window.h"

#define VERBS_SLOTS            0x10000
#define VERBS_GENERATION_MASK  0xfff
#define VERBS_GENERATION_WORDS ((VERBS_GENERATION_MASK + 1) / 64)
#define VERBS_IMMEDIATE_END    (1u << 31)
#define VERBS_CUT_BYTES        4096
#define VERBS_WRITE_BYTES      (UINT32_C(1) << 30) /* one write at most, whatever the device allows */
#define VERBS_PUT_WRITES       16                  /* so many writes of a put on one queue pair */
#define VERBS_PUT_RESERVE      (VERBS_SEND_CONTROL + VERBS_SEND_MESSAGES)
#define VERBS_RBUF_SHARE       4 /* receive buffers take at most 1/4 of a receive queue for immediates */

/* Opaque to the peer's caller; little-endian. */
struct verbs_token {
    uint32_t immediate; /* slot and generation */
    uint32_t check;     /* bits 0 to 7: queue pairs; 8 to 31: of this token, size and link, against mix-ups */
    uint64_t address;
    uint32_t keys[VERBS_QPS]; /* of the queue pairs with a bit, in their order */
};
_Static_assert(sizeof(struct verbs_token) == WEFT_TOKEN_SIZE, "the token fits exactly");

enum verbs_rbuf_state {
    VERBS_RBUF_FREE,
    VERBS_RBUF_OPEN,      /* bytes may arrive */
    VERBS_RBUF_FILLED,    /* WEFT_EVENT_FILLED waits to be reported, or was */
    VERBS_RBUF_WITHDRAWN, /* nobody wants to hear of it */
};

/* What one queue pair carries of it. */
struct verbs_part {
    struct verbs_rbuf *rbuf;
    struct verbs_window *window; /* NULL: none, the key is the region's */
};

struct verbs_rbuf {
    struct verbs_notice notice;
    struct verbs_rbuf *next;     /* free */
    struct verbs_rbuf *next_due; /* in the list of those due */
    struct weft_link *link;
    struct weft_region *region;
    struct verbs_part parts[VERBS_QPS];
    uint8_t *memory;
    size_t size;
    uint64_t cookie;
    uint32_t sent_at; /* link->sent when made: no message since means that the peer cannot know the token */
    uint16_t slot, generation;
    uint64_t *refused; /* bits of the generations that some peer was asked not to put into; NULL: none */
    uint16_t posts;    /* entries in send queues that name this receive buffer */
    uint8_t state;
    uint8_t qps; /* bits */
    /* Of these: */
    uint8_t arrived;  /* the part is here */
    uint8_t ended;    /* nothing more comes, the peer says */
    uint8_t to_bind;  /* has a window that is yet to be bound */
    uint8_t bound;    /* has one that is */
    uint8_t closing;  /* whose invalidation is in the send queue */
    uint8_t to_close; /* or has yet to be put there */
    uint8_t reserved; /* a receive buffer is kept for the immediate */
    uint8_t bare;     /* there was none to keep */

    uint8_t reporting; /* the notice is queued */
    uint8_t listed;    /* in the list of those due */
    uint8_t known;     /* withdrawn when the peer could know the token already */
    uint8_t cancel_due;
    uint8_t asked;     /* CANCEL was sent; the answers have receives as long as the receive buffer has */
    uint8_t is_last;   /* its slot is not used again */
    uint8_t recalled;  /* recall_wait() is concerned with it */
    uint8_t stale;     /* open, but its queue pairs are gone: waits for others */
    uint8_t announced; /* the peer has got keys beside the caller's messages */
};

struct verbs_rbufs {
    struct verbs_rbuf **slots;
    uint32_t count, capacity;
    struct verbs_rbuf *free, *free_last;
    struct verbs_rbuf *due;         /* windows to be bound or invalidated when that is possible */
    uint32_t reserved[VERBS_RAILS]; /* receive buffers */
    uint32_t bare[VERBS_RAILS];     /* immediates without one */
    int recalling;                  /* something was recalled since the last recall_wait() */
    int64_t linger_ns;              /* until then peers may ask */
};

struct verbs_put {
    struct verbs_notice notice;
    struct verbs_put *next, *previous; /* in flight, or free */
    struct verbs_put *next_made;
    struct weft_link *link;
    const struct weft_region *region;
    const uint8_t *memory;
    size_t size;
    uint64_t cookie;
    struct verbs_token token; /* as last announced */
    uint32_t expected;        /* link->expected when it began */
    int status;
    uint8_t lost;     /* its queue pairs failed */
    uint8_t waits;    /* in an earlier round: for new keys, or for news that it had arrived */
    uint8_t replay;   /* has new keys */
    uint8_t left;     /* queue pairs that have not ended */
    uint8_t recalled; /* nobody wants to hear of it any more */
    uint8_t refused;  /* put() has returned an error, what is left of it only ends */
};

struct verbs_puts {
    struct verbs_put *active, *free;
    struct verbs_put *made; /* all */
};

/* The part of a put of size bytes that the index-th of count queue pairs carries. */
static inline size_t verbs_stripe(size_t size, uint32_t count, uint32_t index, size_t *offset)
{
    size_t part = count > 1 ? (size / count + VERBS_CUT_BYTES) / VERBS_CUT_BYTES * VERBS_CUT_BYTES : size;
    *offset = index * part < size ? index * part : size;
    return size - *offset < part ? size - *offset : part;
}

/* Bits by generation of a slot. */
static inline int verbs_generation_is(const uint64_t *bits, uint32_t generation)
{
    return bits && bits[generation / 64] >> generation % 64 & 1;
}

static inline void verbs_generation_set(uint64_t *bits, uint32_t generation)
{
    bits[generation / 64] |= UINT64_C(1) << generation % 64;
}

/* What tokens of a round are checked against, besides the receive buffer. */
static inline uint32_t verbs_token_link(uint32_t link_id, uint32_t round)
{
    return link_id ^ round * 0x9e3779b1u;
}

/* slot.c */
/* NULL: no room, or all slots are in use. */
struct verbs_rbuf *verbs_slot_take(struct verbs_rbufs *rbufs);
void verbs_slot_give(struct verbs_rbufs *rbufs, struct verbs_rbuf *rbuf);
/* The slot must not come to this generation again: the peer refuses it from now on. */
void verbs_slot_refused(struct verbs_rbuf *rbuf);
/* Receives for the immediates of the receive buffer's queue pairs. WEFT_AGAIN: not before others are over; _release() gives
 * back what there is. */
int verbs_slot_receives_reserve(struct verbs_rbuf *rbuf);
void verbs_slot_receives_release(struct verbs_rbuf *rbuf);
/* The receive buffer that an immediate or a token names, or NULL. */
struct verbs_rbuf *verbs_rbuf_find(struct weft_transport *transport, uint32_t immediate);
uint32_t verbs_rbuf_immediate(const struct verbs_rbuf *rbuf);

/* rbuf.c */
/* New windows for a receive buffer that has lost its queue pairs. WEFT_AGAIN: no room yet. */
int verbs_rbuf_renew(struct verbs_rbuf *rbuf, struct verbs_token *token);
uint32_t verbs_token_check(const struct verbs_token *token, uint32_t link_id, size_t size);
/* Invalidates the windows of these queue pairs, now or as soon as there is room. */
void verbs_rbuf_close(struct verbs_rbuf *rbuf, uint32_t qps);
/* Whether something in the list of what is due will not be announced by a completion. */
int verbs_rbufs_are_due(const struct verbs_rbufs *rbufs);
/* Frees it if nothing has to do with it any more. */
void verbs_rbuf_release(struct verbs_rbuf *rbuf);
/* WEFT_INVALID unless the region covers the memory. */
int verbs_region_check(const struct weft_transport *transport, const struct weft_region *region,
                       const void *memory, size_t size);

/* put.c */
void verbs_put_recall(struct weft_link *link, uint64_t cookie);
/* Whether a put that was recalled still runs on the link. */
int verbs_put_is_recalled(const struct weft_link *link);
/* A write of no bytes with this immediate, and the queue pair's number in it. */
int verbs_immediate_send(struct verbs_qp *qp, uint32_t immediate);

/* withdraw.c */
/* Whether the link's peer has withdrawn the receive buffer. */
int verbs_is_refused(const struct weft_link *link, uint32_t immediate);
/* Whether a peer that keeps to the rules puts nothing into it any more. */
int verbs_rbuf_is_quiet(const struct verbs_rbuf *rbuf);

#endif
