/* SPDX-License-Identifier: Apache-2.0 */
/* The state of point-to-point messages, shared by its files:
 *   request.c    requests from their beginning to their end, and peers
 *   copy.c       payloads that are here, and what devices copy on this rank
 *   local.c      messages to the rank itself
 *   p2p.c        sending, receiving, queues, turns
 *   held.c       stream-ordered messages
 *   inside.c     which messages go inside of the link's
 *   message.c    what peers say
 *   oob_queue.c  weft's own messages
 *   look.c       texts
 */
#ifndef WEFT_COMM_P2P_INTERNAL_H
#define WEFT_COMM_P2P_INTERNAL_H

#include "base/error.h"
#include "comm/exec/ways.h"
#include "comm/p2p/p2p.h"

/* A message that no receive has taken. */
struct weft_p2p_arrived {
    struct weft_arrived match; /* first: one is cast to the other */
    uint64_t bytes;
    uint32_t id;                 /* announced: the sender's, otherwise 0 */
    struct weft_request *sender; /* local and not copied */
    uint8_t payload[];
};

struct weft_p2p_queue {
    struct weft_request *head, *tail;
};

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
    uint8_t decided;           /* the message at hand is to be announced: enum weft_p2p_decided */
    struct weft_choice inside; /* of messages a little above the eager limit: enum weft_p2p_way */
};

enum weft_p2p_way { WEFT_P2P_ANNOUNCED, WEFT_P2P_INSIDE };
enum weft_p2p_decided { WEFT_P2P_UNDECIDED, WEFT_P2P_DECIDED, WEFT_P2P_DECIDED_TIMED };

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
/* Whether a message a little above the eager limit goes inside one of the link's, rather than announced. *is_timed becomes 1 where
 * weft_p2p_went_inside() is to hear of it. */
int weft_p2p_goes_inside(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const void *memory, size_t bytes,
                         int *is_timed);
/* It has, which took the sender so long. */
void weft_p2p_went_inside(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns);
/* It was announced, and the receiver has taken all of it. */
void weft_p2p_went_announced(struct weft_p2p_peer *peer, const struct weft_request *request);

/* local.c */
int weft_p2p_send_local(struct weft_p2p *p2p, struct weft_request *request);
/* A receive and a send of this rank have met. */
void weft_p2p_meet(struct weft_p2p *p2p, struct weft_request *receive, struct weft_request *send);

/* p2p.c */
/* A receive and an announced message have met. */
void weft_request_turn(struct weft_p2p *p2p, struct weft_p2p_peer *peer, struct weft_request *request,
                       uint32_t peer_id);
/* MATCHED has come for a send. */
int weft_request_go(struct weft_p2p *p2p, struct weft_request *request, uint32_t peer_id);
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
