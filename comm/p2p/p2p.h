/* SPDX-License-Identifier: Apache-2.0 */
/* Point-to-point messages between the ranks of a communicator.
 *
 * One matcher (comm/p2p/match.h) serves all transports. A message goes its way in one of three forms:
 *
 *   TAGGED    up to the link's eager limit, the payload inside. If no receive waits for it the receiver copies it. What a
 *             peer may send so is bounded: the sender has credit (WEFT_P2P_CREDIT bytes, of which each message takes its
 *             payload and WEFT_P2P_COST), which comes back with ROOM once the messages have been received.
 *   ANNOUNCE  anything longer, and anything for which the credit does not suffice: tag, length, and the sender's id.
 *             When a receive takes it the receiver answers MATCHED with its own id, and both ends run a transfer of the
 *             executor (comm/exec/exec.h). So a message that nobody has asked for holds no receive buffer or staging.
 *             MATCHED without an id says that nothing is to be moved: the message is empty, or longer than what the
 *             receiver has room for, which is the receiver's failure alone; or the announcement has offered the sender's memory, and the
 *             receiver has read it (comm/p2p/offer.c).
 *   local     to the rank itself: copied, at once or when the receive comes.
 *
 * Device memory is not touched here. A message from there is announced, whatever its length, so that it is a
 * transfer, which goes through a command queue (comm/exec/device/device.c); so does one that is announced and goes there. What comes
 * inside a message, and local messages, a device copies, and the requests end when it has: comm/p2p/copy.c. Messages are matched
 * in the same order as others, but may be there later than ones behind them.
 *
 * Weft's own messages (comm/core/oob.h) are TAGGED in a space and with a credit of their own, so that no program's messages
 * hold them up. They are short, go out at once or not at all, and stay with the receiver until it looks for them.
 *
 * What a link does not take now waits in the peer's queue, and what comes later stands behind it: messages of a
 * sender are matched in the order in which it sent them, whatever their form. Announcements hold an id until they are
 * matched, as many as the program likes, so sends may not take the ids that receives need (WEFT_P2P_TURNS for each peer,
 * of a half at most): with none left no MATCHED could leave on any rank. A send without an id waits in its queue. Receives of announced messages begin in
 * the order in which they were matched, at most WEFT_P2P_TURNS of one peer at a time; they need nothing but that peer.
 *
 * Threads: everything here is [lock], under the context's lock.
 */
#ifndef WEFT_COMM_P2P_P2P_H
#define WEFT_COMM_P2P_P2P_H

#include <stddef.h>
#include <stdint.h>

#include "comm/regions/device_memory.h"
#include "comm/exec/exec.h"
#include "comm/p2p/match.h"

#define WEFT_P2P_CREDIT       (1u << 20)
#define WEFT_P2P_COST         64         /* of a message beside its payload */
#define WEFT_P2P_OOB_CREDIT   (1u << 16) /* for weft's own messages */
#define WEFT_P2P_OOB_MAX      1024       /* bytes of one of these: less than what any transport takes */
#define WEFT_P2P_TURNS        16         /* receiving transfers of one peer at a time */
#define WEFT_P2P_ANNOUNCE_MAX 65536      /* of one peer that no receive has taken */

struct weft_p2p;
struct weft_stream_wait;

enum weft_request_state {
    WEFT_REQUEST_QUEUED,    /* send: the link has not taken it yet */
    WEFT_REQUEST_ANNOUNCED, /* send: waits for MATCHED */
    WEFT_REQUEST_LOCAL,     /* send to the rank itself: waits for a receive */
    WEFT_REQUEST_POSTED,    /* receive: waits for a message */
    WEFT_REQUEST_HELD,      /* has met what it is for; waits for the stream: comm/p2p/held.c */
    WEFT_REQUEST_TURN,      /* receive: matched, MATCHED has not gone out yet */
    WEFT_REQUEST_MOVING,
    WEFT_REQUEST_ENDED
};

/* An end of a copy that is a device's memory; all NULL where it is the host's. */
struct weft_copy_end {
    struct weft_command_queue *commands;
    uint8_t *staging; /* pinned; NULL: none is needed */
    size_t staging_bytes;
};

/* What a device does of a receive: comm/p2p/copy.c */
struct weft_p2p_copy {
    struct weft_request *next;   /* of the context's list */
    struct weft_request *sender; /* to the rank itself: ends with it. NULL: the payload is in staging */
    struct weft_copy_end from, to;
    struct weft_copy_end *at; /* where work is in flight */
    size_t position, piece;   /* bytes that are there; and that are in flight behind them */
    int status;               /* of beginning it */
};

/* A send or receive. The caller's; it stays where it is until it has ended. */
struct weft_request {
    /* Set by the caller, who clears what follows, too, but for p2p, found, posted, copy, the places in lists, and what follows hold where
     * that is NULL: these are set when it is posted or needs them. */
    void *memory; /* not written by a send */
    size_t bytes; /* of the message, or room for it */
    int32_t peer; /* WEFT_MATCH_ANY: any source */
    int64_t tag;
    struct weft_where where; /* of memory, if bytes is not 0 */
    uint8_t sends, space;
    void (*ended)(struct weft_request *request); /* may be NULL. It must not start or end anything. */

    struct weft_p2p *p2p;
    int status; /* WEFT_AGAIN until it has ended */
    uint8_t state;
    uint8_t own; /* status is this request's alone: the communicator goes on */
    uint8_t is_offered;
    uint8_t is_taken;   /* receive: what was offered is here, and the sender has not been answered yet */
    uint8_t is_decided; /* send: whether it is offered */
    uint8_t is_timed;   /* send: it is measured, as one that could have gone inside */
    uint8_t is_asked;   /* receive: the sender of what is offered wants to know how long reading takes */
    int32_t found;      /* receive: what has been matched. -1: nothing yet */
    int64_t found_tag;
    uint64_t found_bytes;
    uint32_t id, peer_id;
    struct weft_command_queue *commands; /* of its transfer */
    struct weft_p2p_copy copy;
    struct weft_posted posted;
    const char *label;          /* the program's word for it, NULL: none. Stays as long as the request. */
    int64_t timeout_ms;         /* its own deadline; 0: the communicator's */
    struct weft_arrived *local; /* send to the rank itself */
    struct weft_request *next, *previous; /* all that have not ended, oldest first */
    struct weft_request *after;           /* in a queue of the peer */
    int64_t took_ns;                      /* a send that is measured; 0: it cannot be said */
    int64_t read_ns;         /* receive: when reading what is offered has begun; then what it has taken */
    struct weft_token offer; /* where is_offered: of the memory of a send, or of what a receive has found */
    int64_t since_ns;        /* for reports; 0: not looked at yet */
    struct weft_stream_wait
        *stream_wait; /* of a stream-ordered one; NULL: it is not, and what follows is not set */
    struct weft_request *held_next, *held_previous;
    struct weft_request *mate; /* to the rank itself: the other end, which it has met */
    void *payload;             /* kept until the stream is there */
    int keeping;               /* what that has come to */
    int64_t deadline_ns;       /* once the stream is there */
    uint8_t is_reached, is_listed;
    uint8_t is_unannounced; /* no handle can say how it ends */
    uint8_t is_second;      /* of its work: comm/core/work.h */
    /* Once its deadline has passed: whether nothing of the other end's has met it, and a message of rank other that waits for another
     * receive; -1: none does. */
    uint8_t is_unmet;
    int32_t other;
    int64_t other_tag;
    uint64_t other_bytes;
};

struct weft_p2p_options {
    uint32_t rank, ranks;
    size_t local_bytes; /* messages to the rank itself that are copied while no receive waits */
    struct weft_exec *exec;
    struct weft_context *context; /* for requests on device memory; NULL: there are none */
    /* A copy that no message is part of has failed: ends all with status. [lock] */
    void (*fail)(struct weft_comm *comm, int status, const char *text);
    struct weft_comm *comm; /* argument of fail */
};

int weft_p2p_open(const struct weft_p2p_options *options, struct weft_p2p **p2p);
struct weft_comm *weft_p2p_comm(const struct weft_p2p *p2p); /* of the options */
/* After weft_p2p_fail(), or when nothing is in flight. NULL is allowed. */
void weft_p2p_close(struct weft_p2p *p2p);

/* Sends a message that goes out at once and needs no request. WEFT_AGAIN: it needs one; one of weft's own, which are never
 * queued: there is no room in the link, or no credit left. */
int weft_p2p_send_now(struct weft_p2p *p2p, int32_t peer, int64_t tag, int space, const void *memory,
                      size_t bytes);
/* Starts a request of the program's space, which may end at once. Where this fails it has not begun. */
int weft_p2p_send(struct weft_p2p *p2p, struct weft_request *request);
int weft_p2p_receive(struct weft_p2p *p2p, struct weft_request *request);
/* A request that has begun waits for its stream. */
void weft_request_follow(struct weft_p2p *p2p, struct weft_request *request);
/* Of a request that waits so. 1: its stream has come to it; 0: not yet; negative: what it has failed with. */
int weft_request_look(const struct weft_request *request);
/* It has: the request goes on, and may end at once. */
void weft_request_go_on(struct weft_request *request, int64_t deadline_ns);
/* Ends a request that nobody else knows of (POSTED, LOCAL) with status. WEFT_BUSY: it is another's as well. */
int weft_p2p_withdraw(struct weft_p2p *p2p, struct weft_request *request, int status);
/* Whether a send or a receive waits for a rank that has left; nobody_else: all others have, so a receive from any rank does, too. */
int weft_p2p_awaits(const struct weft_p2p *p2p, int32_t rank, int nobody_else);
/* Ends those, each alone, with WEFT_PEER_FAILED. Returns whether some could not be ended. */
int weft_p2p_give_up(struct weft_p2p *p2p, int32_t rank, int nobody_else);
/* The message that a receive would take now, without its payload: *source, *tag_found, *bytes. WEFT_AGAIN: none. */
int weft_p2p_look(const struct weft_p2p *p2p, int32_t source, int64_t tag, int space, int32_t *found,
                  int64_t *found_tag, uint64_t *bytes);

/* Weft's own messages of a source and tag, oldest first (after: NULL at first), or of all; NULL: no more. */
struct weft_arrived *weft_p2p_oob_next(const struct weft_p2p *p2p, int32_t source, int64_t tag,
                                       const struct weft_arrived *after);
struct weft_arrived *weft_p2p_oob_next_of_all(const struct weft_p2p *p2p, const struct weft_arrived *after);
const void *weft_p2p_oob_bytes(const struct weft_arrived *message, size_t *size);
void weft_p2p_oob_drop(struct weft_p2p *p2p, struct weft_arrived *message);

/* The executor's tagged hook: a message of this header, which was checked for its source and size. */
int weft_p2p_message(struct weft_p2p *p2p, const struct weft_wire_header *header, const void *payload);
/* Sends what has waited and begins what may begin. Returns how much moved. */
int weft_p2p_progress(struct weft_p2p *p2p);
/* The same for what devices copy, of all communicators; while context->p2p.copies is not NULL. [lock] */
int weft_p2p_copies_progress(struct weft_context *context);
/* Whether a call, outside of progress, has done what another thread may sleep for: ended its request, kept a message that
 * it looks for. Says so once. */
int weft_p2p_take_news(struct weft_p2p *p2p);
/* Whether something waits for room in a link. */
int weft_p2p_is_blocked(const struct weft_p2p *p2p);
/* Ends everything with status, after the executor has failed. Nothing can be started afterwards. */
void weft_p2p_fail(struct weft_p2p *p2p, int status);

struct weft_p2p_stats {
    uint64_t sends, receives; /* that have ended well */
    uint64_t bytes_kept;      /* payload that had to be copied because no receive waited */
};
const struct weft_p2p_stats *weft_p2p_get_stats(const struct weft_p2p *p2p);
/* Which way a message of the program's to the rank would go now: static; and why, as snprintf() writes it. [lock] */
const char *weft_p2p_way(struct weft_p2p *p2p, uint32_t rank, const void *memory, size_t bytes, char *why,
                         size_t capacity);
/* Likewise how so many bytes would be read of a rank's ordinary memory: "fed", "helped", "alone" or "-". [lock] */
const char *weft_p2p_help(struct weft_p2p *p2p, uint32_t rank, size_t bytes, char *why, size_t capacity);
/* Memory in use, with the messages that no receive has taken. */
size_t weft_p2p_bytes(const struct weft_p2p *p2p);
/* The request that has run longest, NULL when none runs; the others by next. */
struct weft_request *weft_p2p_oldest(const struct weft_p2p *p2p);
/* "rank 3, tag 7", "any rank, any tag", "rank 3, tag 7, weft's own". */
void weft_p2p_print_whom(int32_t rank, int64_t tag, int space, char *text, size_t capacity);
/* "receive of at most 64 bytes from any rank, tag 7", "send of 64 bytes to rank 3, tag 7". Length like snprintf(). */
int weft_request_print(const struct weft_request *request, char *text, size_t capacity);
/* Lines of what waits, for weft_comm_dump(). Length like snprintf(). */
size_t weft_p2p_dump(struct weft_p2p *p2p, char *text, size_t capacity);

#endif
