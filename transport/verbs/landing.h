/* SPDX-License-Identifier: Apache-2.0 */
/* Puts: what landing.c, put.c and withdraw.c share.
 *
 * A landing is memory that is ready for one put. Its token tells the peer where, by which lanes, and with which key on
 * each. A put of less than WEFT_VERBS_STRIPE bytes goes over one lane; the receiver gives landings to the lanes in
 * turn. A larger one is cut over all lanes, at multiples of 4 KiB, in the order of the lanes' numbers.
 *
 * Each lane's part is one RDMA write (several where the device's largest message is smaller), and after it a
 * write of no bytes with the landing's immediate. Where a network spreads one connection's packets over many
 * paths (adaptive routing) an adapter may put a write's bytes into memory in any order; but the completion of a
 * later entry of the same connection says that everything before it is in place. So the immediate, not a
 * byte's change, is the arrival of its lane's part. The landing is filled when each lane's immediate has come; each
 * lane has a bit, and one that comes twice counts once.
 *
 * Keys. With memory windows the key of each lane is a window bound on exactly that lane's part and valid on that queue pair
 * only. It is bound by an entry of the lane's own send queue. On the lane of the messages the token therefore cannot
 * overtake it; on other lanes send() waits until the device says that the binding is done. (On Soft-RoCE a binding waits
 * until its lane's send queue has ended, and send() with it: see queue.c.) A window is invalidated as soon as its lane's
 * immediate has come. That goes on beside: LANDED does not wait for it, but the landing's slot does, and so does
 * deregistering the region. Without windows the key is the region's, and as wide.
 *
 * Immediate: slot (bits 0 to 15), generation of the slot (16 to 27), lane (28 to 30), and bit 31: "nothing (more) comes
 * over this lane", the answer to CANCEL. Slots are used again in the order they became free, so that a generation comes
 * again only after 4,096 times as many landings as there are slots free, and one that a peer was asked not to put into
 * never does (withdraw.c). An immediate that fits no open
 * landing of the link that it came over is dropped and counted.
 */
#ifndef WEFT_TRANSPORT_VERBS_LANDING_H
#define WEFT_TRANSPORT_VERBS_LANDING_H

#include "transport/verbs/region.h"
#include "transport/verbs/verbs_private.h"
#include "transport/verbs/window.h"

#define VERBS_SLOTS            0x10000
#define VERBS_GENERATION_MASK  0xfff
#define VERBS_GENERATION_WORDS ((VERBS_GENERATION_MASK + 1) / 64)
#define VERBS_IMMEDIATE_END    (1u << 31)
#define VERBS_CUT_BYTES        4096
#define VERBS_WRITE_BYTES      (UINT32_C(1) << 30) /* one write at most, whatever the device allows */
#define VERBS_PUT_WRITES       16                  /* so many writes of a put on one lane */
#define VERBS_PUT_RESERVE      (VERBS_SEND_CONTROL + VERBS_SEND_MESSAGES)
#define VERBS_LANDING_SHARE    4 /* landings take at most 1/4 of a receive queue for immediates */

/* Opaque to the peer's caller; little-endian. */
struct verbs_token {
    uint32_t immediate; /* slot and generation */
    uint32_t check;     /* bits 0 to 7: lanes; 8 to 31: of this token, size and link, against mix-ups */
    uint64_t address;
    uint32_t keys[VERBS_LANES]; /* of the lanes with a bit, in their order */
};
_Static_assert(sizeof(struct verbs_token) == WEFT_TOKEN_SIZE, "the token fits exactly");

enum verbs_landing_state {
    VERBS_LANDING_FREE,
    VERBS_LANDING_OPEN,      /* bytes may arrive */
    VERBS_LANDING_FILLED,    /* LANDED waits to be told, or was */
    VERBS_LANDING_WITHDRAWN, /* nobody wants to hear of it */
};

/* What one lane carries of it. */
struct verbs_part {
    struct verbs_landing *landing;
    struct verbs_window *window; /* NULL: none, the key is the region's */
};

struct verbs_landing {
    struct verbs_notice notice;
    struct verbs_landing *next;     /* free */
    struct verbs_landing *next_due; /* in landings->due */
    struct weft_link *link;
    struct weft_region *region;
    struct verbs_part parts[VERBS_LANES];
    uint8_t *memory;
    size_t size;
    uint64_t cookie;
    uint32_t sent_at; /* link->sent when landed: no message since means that the peer cannot know the token */
    uint16_t slot, generation;
    uint64_t *refused; /* bits of the generations that some peer was asked not to put into; NULL: none */
    uint16_t posts;    /* entries in send queues that name this landing */
    uint8_t state;
    uint8_t lanes; /* bits */
    /* Of these: */
    uint8_t arrived;  /* the part is here */
    uint8_t ended;    /* nothing more comes, the peer says */
    uint8_t to_bind;  /* has a window that is yet to be bound */
    uint8_t bound;    /* has one that is */
    uint8_t closing;  /* whose invalidation is in the send queue */
    uint8_t to_close; /* or has yet to be put there */
    uint8_t reserved; /* a receive buffer is kept for the immediate */
    uint8_t bare;     /* there was none to keep */

    uint8_t telling; /* the notice is queued */
    uint8_t listed;  /* in landings->due */
    uint8_t known;   /* withdrawn when the peer could know the token already */
    uint8_t cancel_due;
    uint8_t asked;    /* CANCEL was sent; the answers have receives as long as the landing has */
    uint8_t is_last;  /* its slot is not used again */
    uint8_t recalled; /* recall_wait() is concerned with it */
    uint8_t stale;    /* open, but its lanes are gone: waits for others */
    uint8_t told;     /* the peer has been told keys beside the caller's messages */
};

struct verbs_landings {
    struct verbs_landing **slots;
    uint32_t count, capacity;
    struct verbs_landing *free, *free_last;
    struct verbs_landing *due;      /* windows to be bound or invalidated when that is possible */
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
    struct verbs_token token; /* as last told */
    uint32_t expected;        /* link->expected when it began */
    int status;
    uint8_t lost;     /* its lanes failed */
    uint8_t waits;    /* in an earlier round: for new keys, or for news that it had arrived */
    uint8_t replay;   /* has new keys */
    uint8_t left;     /* lanes that have not ended */
    uint8_t recalled; /* nobody wants to hear of it any more */
    uint8_t refused;  /* put() has returned an error, what is left of it only ends */
};

struct verbs_puts {
    struct verbs_put *active, *free;
    struct verbs_put *made; /* all */
};

/* The part of a put of size bytes that the index-th of count lanes carries. */
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

/* What tokens of a round are checked against, besides the landing. */
static inline uint32_t verbs_token_link(uint32_t link_id, uint32_t round)
{
    return link_id ^ round * 0x9e3779b1u;
}

/* slot.c */
/* NULL: no room, or all slots are in use. */
struct verbs_landing *verbs_slot_take(struct verbs_landings *landings);
void verbs_slot_give(struct verbs_landings *landings, struct verbs_landing *landing);
/* The slot must not come to this generation again: the peer refuses it from now on. */
void verbs_slot_refused(struct verbs_landing *landing);
/* Receive buffers for the immediates of the landing's lanes. WEFT_AGAIN: not before others are over; _release() gives
 * back what there is. */
int verbs_slot_receives_reserve(struct verbs_landing *landing);
void verbs_slot_receives_release(struct verbs_landing *landing);
/* The landing that an immediate or a token names, or NULL. */
struct verbs_landing *verbs_landing_find(struct weft_transport *transport, uint32_t immediate);
uint32_t verbs_landing_immediate(const struct verbs_landing *landing);

/* landing.c */
/* New windows for a landing that has lost its lanes. WEFT_AGAIN: no room yet. */
int verbs_landing_renew(struct verbs_landing *landing, struct verbs_token *token);
uint32_t verbs_token_check(const struct verbs_token *token, uint32_t link_id, size_t size);
/* Invalidates the windows of these lanes, now or as soon as there is room. */
void verbs_landing_close(struct verbs_landing *landing, uint32_t lanes);
/* Whether something in the list of what is due will not be announced by a completion. */
int verbs_landings_are_due(const struct verbs_landings *landings);
/* Frees it if nothing has to do with it any more. */
void verbs_landing_release(struct verbs_landing *landing);
/* WEFT_INVALID unless the region covers the memory. */
int verbs_region_check(const struct weft_transport *transport, const struct weft_region *region,
                       const void *memory, size_t size);

/* put.c */
void verbs_put_recall(struct weft_link *link, uint64_t cookie);
/* Whether a put that was recalled still runs on the link. */
int verbs_put_is_recalled(const struct weft_link *link);
/* A write of no bytes with this immediate, and the lane's number in it. */
int verbs_immediate_send(struct verbs_lane *lane, uint32_t immediate);

/* withdraw.c */
/* Whether the link's peer has withdrawn the landing. */
int verbs_is_refused(const struct weft_link *link, uint32_t immediate);
/* Whether a peer that keeps to the rules puts nothing into it any more. */
int verbs_landing_is_quiet(const struct verbs_landing *landing);

#endif
