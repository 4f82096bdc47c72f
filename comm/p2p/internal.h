/* SPDX-License-Identifier: Apache-2.0 */
/* The state of point-to-point messages, shared by its files:
 *   request.c    requests from their beginning to their end, and peers
 *   copy.c       payloads that are here, and what devices copy on this rank
 *   local.c      messages to the rank itself
 *   p2p.c        sending, receiving, queues
 *   turn.c       announced messages, once a receive has taken them
 *   held.c       stream-ordered messages
 *   inside.c     which messages go inside of the link's
 *   offer.c      announcements that offer the message's memory
 *   message.c    what peers say
 *   oob_queue.c  weft's own messages
 *   look.c       texts
 *   way.c        which way a message would go, and why
 */
#ifndef WEFT_COMM_P2P_INTERNAL_H
#define WEFT_COMM_P2P_INTERNAL_H

#include <string.h>

#include "base/error.h"
#include "base/choice.h"
#include "comm/p2p/p2p.h"

/* A message that no receive has taken. */
struct weft_p2p_arrived {
    struct weft_arrived match; /* first: one is cast to the other */
    uint64_t bytes;
    uint32_t id;                 /* announced: the sender's, otherwise 0 */
    uint8_t is_offered;          /* announced: payload is the token of the sender's memory, */
    uint8_t is_asked;            /* and the sender wants to know how long reading takes */
    struct weft_request *sender; /* local and not copied */
    uint8_t payload[];
};

#define WEFT_P2P_LATER 1 /* not now: something of this rank's ends first, and then pends the peer */

struct weft_p2p_queue {
    struct weft_request *head, *tail;
};

static inline void weft_p2p_enqueue(struct weft_p2p_queue *queue, struct weft_request *request)
{
    request->after = NULL;
    *(queue->tail ? &queue->tail->after : &queue->head) = request;
    queue->tail = request;
}

static inline void weft_p2p_dequeue(struct weft_p2p_queue *queue)
{
    queue->head = queue->head->after;
    if (!queue->head)
        queue->tail = NULL;
}

struct weft_p2p_peer {
    uint32_t rank;
    /* Of each space (comm/p2p/match.h): */
    uint32_t credit[2]; /* what may be sent to it inside messages */
    uint32_t held[2];   /* of the credit it has: messages that have not been received */
    uint32_t owed[2];   /* and what has been, but is not announced yet */
    uint32_t waiting;   /* messages announced to it that no receive there has taken */
    uint32_t announced; /* messages of it that no receive here has taken */
    uint32_t moving;    /* receiving transfers */
    struct weft_p2p_queue sends, turns;
    struct weft_p2p_peer *next_pending; /* list of those that p2p_progress() looks at */
    struct weft_p2p_peer *next_starved; /* queue of those whose next send needs an id */
    uint8_t pending, starved;
    uint8_t decided;          /* how the message at hand goes, until it has: enum weft_p2p_decided; */
    uint8_t is_decided_timed; /* and whether that is measured, where one is decided */
    uint8_t until_timed;   /* messages a little above the eager limit that come inside, before one is timed */
    uint8_t is_read_due;   /* the peer is to hear soon what that takes, */
    uint8_t is_read_known; /* as the first time */
    uint32_t read_ns;      /* what 8 KiB of it have taken at least since the peer heard; 0: not known */
    uint32_t their_read_ns;    /* and what it takes the peer; 0: not known */
    struct weft_choice inside; /* of messages a little above the eager limit: enum weft_p2p_way */
};

#define WEFT_P2P_SCALE_BYTES 8192 /* costs of messages that may go inside are those of one so long */
#define WEFT_P2P_TIMED_BYTES 4096 /* messages inside of others that are timed are at least so long */

enum weft_p2p_way { WEFT_P2P_ANNOUNCED, WEFT_P2P_INSIDE };
enum weft_p2p_decided { WEFT_P2P_UNDECIDED, WEFT_P2P_DECIDED_ANNOUNCED, WEFT_P2P_DECIDED_INSIDE };

struct weft_p2p {
    struct weft_p2p_options options;
    struct weft_match match;
    struct weft_p2p_peer **peers; /* [ranks], NULL where not used yet; NULL: none yet */
    struct weft_p2p_peer *pending;
    struct weft_p2p_peer *starved, *starved_last;
    uint32_t send_ids, send_ids_max;  /* in use by sends */
    struct weft_request *head, *tail; /* all that have not ended */
    int status;
    int news; /* of what another thread may wait for, which no progress has counted */
    struct weft_p2p_stats stats;
    char trouble[WEFT_DETAIL_MAX]; /* why a copy could not begin */
};

/* request.c */
/* NULL without memory. */
struct weft_p2p_peer *weft_p2p_peer_find(struct weft_p2p *p2p, uint32_t rank);
/* Sends a message of the kind; the header's tag, ids and flags are set. WEFT_AGAIN: the link is full. */
int weft_p2p_post(struct weft_p2p *p2p, const struct weft_exec_peer *link, enum weft_wire_kind kind,
                  struct weft_wire_header *header, const void *payload, size_t size);
/* weft_p2p_progress() shall look at the peer. */
void weft_p2p_pend(struct weft_p2p *p2p, struct weft_p2p_peer *peer);
/* Whether the request waits for its stream. */
int weft_request_is_held(const struct weft_request *request);
/* A receive that waits has met a message; payload is what came inside of it, or NULL. */
void weft_request_keep(struct weft_request *request, const void *payload);
/* The request is one of those that have not ended; and is no longer, before it has begun. */
void weft_request_begin(struct weft_p2p *p2p, struct weft_request *request, enum weft_request_state state);
void weft_request_leave(struct weft_p2p *p2p, struct weft_request *request);
void weft_request_end(struct weft_p2p *p2p, struct weft_request *request, int status);

/* copy.c */
/* A receive and its message have met; the message's payload, when it is here. */
void weft_request_deliver(struct weft_p2p *p2p, struct weft_request *request, const void *payload);
/* The same for a send of this rank; one of both is on device memory. */
void weft_p2p_copy_local(struct weft_p2p *p2p, struct weft_request *receive, struct weft_request *send);
/* Takes back what devices still copy; the requests are the caller's to end. Waits for a bounded time. */
void weft_p2p_copies_stop(struct weft_p2p *p2p);

/* inside.c */
/* Whether a message a little above the eager limit goes inside one of the link's, rather than announced. The answer stays the same until it has gone:
 * it may have to wait for room in the link. *is_timed becomes 1 where weft_p2p_went_inside() is to hear of it. */
int weft_p2p_goes_inside(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const void *memory, size_t bytes,
                         int *is_timed);
/* One like that has come, and has been copied in so long. */
void weft_p2p_inside_read(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns);
/* It has, which took the sender so long. */
void weft_p2p_went_inside(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns);
/* One was announced instead, and getting it has taken so long. 0: it cannot be said. */
void weft_p2p_inside_observe(struct weft_p2p_peer *peer, size_t bytes, int64_t cost_ns);

/* offer.c */
/* A send is about to be announced: decides whether its memory is offered. Any number of times. */
void weft_p2p_offer(struct weft_p2p *p2p, const struct weft_exec_peer *link, struct weft_request *request);
/* A send's offer ends. Unless the receiver has taken the message, or will not take it so, the memory is taken back. */
void weft_p2p_offer_end(struct weft_p2p *p2p, struct weft_request *request, int is_over);

/* local.c */
int weft_p2p_send_local(struct weft_p2p *p2p, struct weft_request *request);
/* A receive and a send of this rank have met. */
void weft_p2p_meet(struct weft_p2p *p2p, struct weft_request *receive, struct weft_request *send);

/* A receive has found a message whose memory is offered. */
static inline void weft_request_offered(struct weft_request *request, const void *token, int is_asked)
{
    request->is_offered = 1;
    request->is_asked = is_asked != 0;
    memcpy(&request->offer, token, sizeof request->offer);
}

/* turn.c */
/* A receive and an announced message have met. */
void weft_request_turn(struct weft_p2p *p2p, struct weft_p2p_peer *peer, struct weft_request *request,
                       uint32_t peer_id);
/* MATCHED has come for a send. read_ns: how long reading has taken the receiver; 0: it has not read, or was not asked. */
int weft_request_go(struct weft_p2p *p2p, struct weft_request *request, uint32_t peer_id, uint32_t read_ns);
/* The oldest receive in a peer's turns, of which there is one, begins, or has its sender answered. WEFT_AGAIN: the link is full. WEFT_P2P_LATER: until another
 * one has ended. */
int weft_p2p_begin_turn(struct weft_p2p *p2p, struct weft_p2p_peer *peer);

/* p2p.c */
/* A message inside a message has been received. */
void weft_p2p_owe(struct weft_p2p *p2p, struct weft_p2p_peer *peer, int space, uint32_t cost);

/* The credit of a space that nothing has been sent of. */
static inline uint32_t weft_p2p_budget(int space)
{
    return space == WEFT_SPACE_INTERNAL ? WEFT_P2P_OOB_CREDIT : WEFT_P2P_CREDIT;
}

static inline struct weft_request *weft_request_of(struct weft_posted *posted)
{
    return (struct weft_request *)((char *)posted - offsetof(struct weft_request, posted));
}

#endif
