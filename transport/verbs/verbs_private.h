/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the verbs transport share.
 *
 * load.c     libibverbs itself               device.c   devices, ports, limits
 * choose.c   which ports are used            rails.c    what is asked for and known of them
 * gid.c      which GID of a port             address.c  an instance's address; which ports talk to which
 * region.c   registered memory               window.c   memory windows
 * why.c      error texts for people          async.c    what devices report by themselves
 * verbs.c    opening, closing, the table     queue.c    queue pairs and their send queues
 * buffer.c   memory for frames, receives     oob.c      what instances say to each other
 * link.c     links and their failure         meet.c     how two instances meet
 * message.c  messages, frames, credits       completion.c completions, events
 * sleep.c    descriptors
 * rbuf.c     memory for puts                 slot.c     what names them
 * put.c      the sending side of puts
 * withdraw.c taking memory back              failover.c rails that go down and come back
 * replay.c   what is sent again after that
 * leave.c    links that nobody uses any more
 *
 * Instance, rails, links, queue pairs. An instance uses up to VERBS_RAILS ports ("rails"). A link leads to one other
 * instance over up to VERBS_QPS reliable-connected queue pairs; queue pair i of both ends are the two ends
 * of one connection. Which rails the queue pairs use follows from the two addresses alone (address.c), so both ends come
 * to the same list. How queue pair numbers are exchanged is in oob.h.
 *
 * Frames. Messages travel as SENDs on one queue pair, the first in use: struct verbs_frame, little-endian, then what its type
 * says. A queue pair keeps the order, and delivers to nobody but the peer that it is connected to; so a frame is known to
 * be the peer's by the number of the queue pair that it arrived on, and the link id in it is only where to look first.
 *
 *   DATA     one message of the caller, numbered per link.
 *   CREDIT   nothing else; the frame's counter is the point.
 *   CANCEL   the receive buffer with the immediate `sequence` is withdrawn: put nothing into it any more, and answer on the
 *            queue pairs whose bits it has (withdraw.c).
 *   KEYS     open receive buffers after rails have changed, and their new keys; KEYS_END: there are no others (failover.c).
 *   BYE      the sender closes; it takes nothing more. `sequence` is the number of the message that would follow.
 *            Other queue pairs may have brought puts that are not read yet, so the link ends when all rails have been.
 *   RELEASE, PART, KEEP, KEPT  how both ends agree that the link's queue pairs are needed no more (leave.c).
 *
 * Flow control. A receiver grants each peer a window of messages and posts that many buffers, besides some for
 * frames that need no credit and one for each immediate that can come, into the shared receive queue of the
 * rail; a receive buffer waits until it has its, and few CANCELs are in flight at a time. So a sender never finds the receiver
 * without a buffer (but see slot.c, and KEYS after a failover). Every frame says how many messages of this link the
 * sender has consumed; where nothing flows back, a CREDIT does after half a window. As that leaves the peer more
 * than half a window at any time, no timer and no flush is needed.
 *
 * Send queues. A completion is asked for where something waits for one, and for every quarter of the queue; it
 * retires all entries before it. The entries posted are kept in a ring per queue pair, so each one's owner hears of
 * its end, in order, also when the queue pair fails. What a completion carries in wr_id names the queue pair, its generation
 * and the position in the ring: no pointer that could outlive what it points to. The last entries are kept for frames
 * of the link itself, and those before them for messages: puts do not shut out messages, nor messages credits.
 *
 * Threads: the caller serialises all calls on an instance.
 */
#ifndef WEFT_TRANSPORT_VERBS_PRIVATE_H
#define WEFT_TRANSPORT_VERBS_PRIVATE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>
#include "transport/verbs/address.h"
#include "transport/verbs/device.h"
#include "transport/verbs/load.h"
#include "transport/verbs/oob.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames are written as they lie in memory: little-endian"
#endif

#define VERBS_FRAME_MARK   0xb7
#define VERBS_FRAME_BYTES  (8192 + 128) /* frame header and message */
#define VERBS_WINDOW       32           /* messages granted to a peer */
#define VERBS_WINDOW_SMALL 8            /* the same, beyond VERBS_LINKS_LARGE links */
#define VERBS_LINKS_LARGE  64
#define VERBS_CANCELS      2 /* CANCELs that wait for their answer, per link */
/* Receives per link beside the window: 2 CREDIT, BYE, 2 to leave (leave.c), CANCEL, and for each an answer, as a queue pair
 * whose put crosses CANCEL has two immediates for one receive. With several queue pairs on the rail there may be more of
 * these: the adapters try again then until receives come back, which needs nothing but that this end looks. */
#define VERBS_LINK_SPARE     (5 + 2 * VERBS_CANCELS)
#define VERBS_FIRST_SEQUENCE 0xfffffff0u /* so that every run crosses the wrap */
#define VERBS_SEND_DEPTH     128         /* send queue entries of a queue pair; a power of two */
#define VERBS_SEND_CONTROL   8           /* of them for frames of the link itself */
#define VERBS_SEND_MESSAGES  32          /* and before them for messages */
#define VERBS_SILENT_FRAMES  4           /* buffers that may wait for a completion that nobody asked for */
#define VERBS_LINK_SENDS                                                                                     \
    (VERBS_WINDOW + VERBS_SILENT_FRAMES) /* send buffers per link, made as they are needed */
#define VERBS_BATCH      16              /* completions read at once */
#define VERBS_CONNECT_NS 10000000000
#define VERBS_FLUSH_NS   200000000    /* what was posted before an error comes back within that */
#define VERBS_RECEIVE    (1ull << 63) /* wr_id of a receive: the buffer's index with this bit */

struct verbs_qp;
struct verbs_failover; /* failover.h */
struct verbs_put;      /* rbuf.h */
struct verbs_part;     /* rbuf.h */

/* Something to report to the caller: every kind of event is part of the thing that it is about. */
struct verbs_notice {
    struct verbs_notice *next;
    enum weft_event_kind kind;
    int status;
    int withdrawn; /* nobody wants to hear it any more */
};
/* The thing. */
#define VERBS_NOTICE_OF(pointer, type) ((type *)(void *)((char *)(pointer)-offsetof(type, notice)))

enum verbs_frame_type {
    VERBS_DATA = 1,
    VERBS_CREDIT,
    VERBS_BYE,
    VERBS_CANCEL,
    VERBS_KEYS,
    VERBS_KEYS_END,
    VERBS_RELEASE,
    VERBS_PART,
    VERBS_KEEP,
    VERBS_KEPT
};

struct verbs_frame {
    uint8_t mark;
    uint8_t type;
    uint16_t qps;      /* CANCEL: bits */
    uint32_t link;     /* the receiver's id of the link */
    uint32_t sequence; /* DATA: its number; BYE: of what would follow; CANCEL: which receive buffer */
    uint32_t consumed; /* number of the next message expected to be consumed */
};

/* --- send queues (queue.c) --- */

enum verbs_post_kind {
    VERBS_POST_NONE,  /* nobody waits for it */
    VERBS_POST_FRAME, /* owner: struct verbs_buffer, goes back to its pool */
    VERBS_POST_PUT,   /* struct verbs_put: verbs_put_retired() */
    VERBS_POST_BIND,  /* struct verbs_part: verbs_rbuf_bound() */
    VERBS_POST_CLOSE, /* struct verbs_part: verbs_rbuf_closed() */
};

struct verbs_post {
    enum verbs_post_kind kind;
    void *owner;
};

/* One end of a reliable connection. */
struct verbs_qp {
    struct weft_link *link;
    struct verbs_queues *queues;
    struct ibv_qp *ibv;       /* NULL: there is none any more, nothing of it moves */
    struct verbs_post *posts; /* ring of `depth` */
    uint32_t depth;           /* a power of two */
    uint32_t posted, retired; /* counts; posts[i % depth] for retired <= i < posted */
    uint32_t signalled;       /* count after the last entry that asks for a completion */
    uint32_t silent_frames;   /* buffers in entries after that */
    uint32_t resendable;      /* count after the last entry that the device may send again */
    uint32_t draining;        /* windows that wait until there is none: nothing else is sent */
    uint32_t psn;
    uint32_t inline_bytes;
    uint32_t peer_number; /* of the queue pair at the other end */
    struct verbs_pair pair;
    struct verbs_path path;
    uint16_t index, generation; /* in the table of the transport */
    uint8_t number;             /* in the table of the link; the stripe bit of its puts */
    uint8_t is_stopped;         /* in error */
    uint8_t is_torn;            /* the device took a part of a request only */
    uint8_t is_drained;         /* and done with what had arrived, its device says */
};

/* --- rails and their memory (buffer.c) --- */

/* A frame's memory: posted in a rail's receive queue, or waiting to be posted, or holding a message that waits to be
 * reported; or free to send, or in a send queue. */
struct verbs_buffer {
    struct verbs_notice notice;
    struct verbs_buffer *next;
    struct weft_link *link;      /* of the message that waits */
    struct verbs_queues *queues; /* where it arrived */
    uint8_t *memory;             /* aligned to 64 bytes; VERBS_FRAME_BYTES */
    uint32_t lkey;
    uint32_t size;
    uint32_t index; /* in queues->receives */
    uint32_t turn;  /* when it was posted, with failover on; 0: it has completed */
};

struct verbs_slab; /* many buffers registered at once */

/* What a rail is worked with: completion queue, shared receive queue, buffers. */
struct verbs_queues {
    struct weft_transport *transport;
    struct verbs_rail *rail;          /* device.h; holds channel, cq and srq */
    uint32_t cq_entries, cq_reserved; /* what it holds; what queue pairs and receives may need */
    uint32_t wakings;                 /* reports of the channel that are not acknowledged yet */
    int is_armed;                     /* the channel will report the next completion */
    int has_remains; /* queue pairs were destroyed since the queue was last read to its end */
    struct ibv_wc batch[VERBS_BATCH]; /* completions read and not yet handled: [batch_next, batch_count) */
    int batch_next, batch_count;

    struct verbs_deferred *deferred; /* queue pairs that are reset, to be destroyed; the oldest first */
    struct verbs_slab *slabs;
    int64_t slab_ns; /* before then there is no memory for another, as there was none (errno slab_error) */
    int slab_error;
    int slab_refused;               /* by the device: there was memory, but it could not be registered */
    struct verbs_buffer **receives; /* all receive buffers, by index */
    uint32_t receives_count;
    uint32_t receives_wanted; /* so many are to be posted; at most srq_entries */
    uint32_t receives_posted; /* in the queue */
    uint32_t srq_entries;
    struct verbs_buffer *receives_free; /* to be posted */
    uint32_t receives_lost;             /* replaced, as queue pairs that ended may have swallowed so many */
    uint32_t receives_turn,
        receives_done; /* of the last that was posted, and of the newest that has completed */
    struct verbs_buffer *sends_free;
    uint32_t sends_count, sends_limit; /* there are; there may be */
};

/* --- links (link.c) --- */

/* CONNECTING: the peer's half is not known, or not known to be ready. PARKED: neither end uses it, connect() makes it anew in
 * the same place (leave.c). */
enum verbs_link_state { VERBS_LINK_CONNECTING, VERBS_LINK_UP, VERBS_LINK_FAILED, VERBS_LINK_PARKED };

/* How far a link is on its way to be given up (leave.c). */
enum verbs_leave {
    VERBS_LEAVE_NONE,
    VERBS_LEAVE_RELEASED, /* RELEASE sent */
    VERBS_LEAVE_ASKED,    /* and then KEEP: no answer yet */
    VERBS_LEAVE_PARTING,  /* PART sent */
    VERBS_LEAVE_PARTED,   /* PART received */
};

/* Frames that a link still has to send. */
enum verbs_pending {
    VERBS_PENDING_CREDIT = 1 << 0,
    VERBS_PENDING_BYE = 1 << 1,
    VERBS_PENDING_CANCEL = 1 << 2, /* verbs_cancels_send() has something to send */
    VERBS_PENDING_ANSWER = 1 << 3, /* verbs_answers_send() has */
    VERBS_PENDING_RESUME = 1 << 4, /* verbs_resume_send() has */
    VERBS_PENDING_REPLAY = 1 << 5, /* verbs_puts_replay() has */
};

struct weft_link {
    struct weft_transport *transport;
    struct verbs_notice notice;
    void *context;
    int references; /* of connect() */
    int status;     /* why it failed */
    uint8_t state, pending;
    uint8_t ready; /* the queue pairs are connected to the peer's */
    uint8_t gone;  /* the peer said BYE: fails once everything that has arrived is read */
    uint8_t qp_count;
    uint8_t oob_due;   /* an oob message to be sent as soon as possible */
    uint8_t live;      /* bits of the queue pairs in use: all, but for rails that are down (failover.c) */
    uint8_t first;     /* of these: the queue pair of the messages */
    uint8_t held;      /* no message may leave before what was lost has been sent again */
    uint8_t rails;     /* bits of the rails that have room reserved; 0: there are no queue pairs any more */
    uint8_t leave;     /* enum verbs_leave */
    uint8_t leave_due; /* verbs_leave_drive() has something to do */
    uint8_t keep_due, answer_due;         /* KEEP, KEPT */
    uint8_t peer_left;                    /* its RELEASE stands */
    uint8_t is_fenced;                    /* the peer's keys open nothing */
    uint8_t has_agreed;                   /* with the peer that its queue pairs go */
    int64_t part_ns;                      /* when PART need not have arrived any more */
    uint32_t past_generation;             /* of the peer's last half, before the link was made anew */
    struct verbs_qp *qps[VERBS_QPS];      /* NULL: not in use */
    uint32_t id;                          /* index | nonce << 16; the peer puts it into its frames */
    uint32_t peer_id;                     /* what we put into ours */
    uint32_t generation, peer_generation; /* of the two halves; 0: none came yet */
    uint32_t round;                       /* of queue pairs that the link has, from 0 */
    struct verbs_failover *failover;      /* NULL: a queue pair that fails takes the link along */
    uint32_t window, peer_window;
    uint32_t peer_features;
    uint32_t frame_bytes;        /* largest frame that both take */
    uint32_t sent, acked;        /* messages: next number, and what the peer has consumed */
    uint32_t expected;           /* next number to arrive */
    uint32_t consumed, reported; /* what the caller has seen, and what the peer knows of it */
    int64_t deadline_ns;         /* of connecting; 0 when over */
    int64_t oob_ns, oob_wait_ns; /* when to send it again, and how long to wait after that */
    struct weft_link *next_dying;
    int64_t dying_ns; /* when it failed */
    /* rbuf.h */
    uint32_t unbound; /* windows that messages could overtake: none may leave before they are bound */
    uint32_t rbuf_turn;
    uint32_t sends;   /* buffers in its send queues; not more than it has brought to the rail */
    uint32_t cancels; /* sent and not answered */
    uint8_t heard;    /* since recall_wait() began */
    struct verbs_refusals *refusals; /* NULL: none */
    struct verbs_address peer;       /* as decoded from: */
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t address_size;
    char why[704];
};

struct weft_transport {
    struct weft_verbs_settings settings;
    void *oob_arg;
    int (*oob_send)(void *oob_arg, const void *address, size_t address_size, const void *oob, size_t size);
    struct verbs_rail rails[VERBS_RAILS];
    struct verbs_queues queues[VERBS_RAILS];
    int rails_count;
    uint64_t put_bytes;       /* largest put */
    struct verbs_address own; /* as decoded from: */
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t address_size;

    struct weft_link **links;
    uint32_t links_count, links_capacity, links_pending, links_connecting;
    uint32_t links_made, links_alive;
    uint32_t links_turning;  /* whose queue pairs are about to be replaced */
    uint32_t links_leaving;  /* whose peers said BYE since the last look */
    int links_unused;        /* some may have something to do for leave.c */
    struct weft_link *dying; /* failed, with queue pairs that are not destroyed yet */
    struct verbs_qp **qps;   /* by index; NULL where free */
    uint16_t *qp_generations;
    uint32_t qp_capacity;

    struct weft_region *regions;
    struct verbs_rbufs *rbufs; /* rbuf.h */
    struct verbs_puts *puts;   /* rbuf.h */

    struct verbs_notice *notices, **notices_last;
    uint32_t turns;    /* of poll() and progress */
    int64_t events_ns; /* when the devices' reports were last looked at */
    int closing, broken;
    char why[704];
    uint64_t stale_frames, stale_completions, stale_oob, stale_immediates;
};

/* queue.c */
/* Makes the link's queue pair of this number, in INIT. */
int verbs_qp_open(struct weft_link *link, uint32_t number, const struct verbs_pair *pair, int nth);
/* To ready-to-receive and ready-to-send, towards the peer's queue pair of this number and first packet. */
int verbs_qp_connect(struct verbs_qp *qp, uint32_t number, uint32_t psn);
/* Peers may write over it, or not, as link->is_fenced says. */
void verbs_qp_fence(struct verbs_qp *qp);
/* Nothing arrives or is read any more once what was posted has been flushed. */
void verbs_qp_stop(struct verbs_qp *qp);
/* Posts a last request on a queue pair that was stopped: when it comes back all before it have, also those that asked for no
 * completion. */
void verbs_qp_mark(struct verbs_qp *qp);
/* Ends the queue pair (nothing moves over it any more, in or out), and whatever was posted with an error, and frees its
 * struct. */
void verbs_qp_close(struct verbs_qp *qp);
/* Destroys queue pairs that were closed, those which are due before this time. */
void verbs_deferred_destroy(struct verbs_queues *queues, int64_t until_ns);
/* How many entries may be posted, when `reserve` of them are kept for others. */
static inline uint32_t verbs_qp_free(const struct verbs_qp *qp, uint32_t reserve)
{
    uint32_t used = qp->posted - qp->retired + reserve;
    return used < qp->depth ? qp->depth - used : 0;
}
/* The same for entries that send something. */
static inline uint32_t verbs_qp_room(const struct verbs_qp *qp, uint32_t reserve)
{
    return qp->draining ? 0 : verbs_qp_free(qp, reserve);
}
/* Posts a chain of `count` requests, linked by `next`; fills wr_id, and asks for a completion of the last where that is due or
 * `signal` is set. post is the last one's, nobody waits for the others: its owner hears of the end exactly once if this
 * returns WEFT_OK. WEFT_AGAIN: no room for all (with `reserve` entries left), nothing was posted; anything else has
 * failed the link. */
int verbs_qp_post(struct verbs_qp *qp, struct ibv_send_wr *chain, uint32_t count, struct verbs_post post,
                  uint32_t reserve, int signal);
/* Whether a window may be bound now; and whether a completion will say when ("Binding" in queue.c). */
int verbs_qp_binds(const struct verbs_qp *qp);
int verbs_qp_will_bind(const struct verbs_qp *qp);
/* Sees to it that one will; needs to be called again where the queue is full. May fail the link. */
void verbs_qp_drain(struct verbs_qp *qp);
struct verbs_qp *verbs_qp_find(struct weft_transport *transport, uint64_t wr_id);
/* By the queue pair's number; slow. */
struct verbs_qp *verbs_qp_by_number(const struct verbs_queues *queues, uint32_t number);
/* Ends all entries up to and with the one that wr_id names. */
void verbs_qp_retire(struct verbs_qp *qp, uint64_t wr_id, int status);

/* buffer.c */
int verbs_queues_open(struct weft_transport *transport, struct verbs_queues *queues, struct verbs_rail *rail);
void verbs_queues_close(struct verbs_queues *queues);
/* Room for completions. WEFT_NOMEM when the device gives no more. */
int verbs_completions_reserve(struct verbs_queues *queues, uint32_t count);
void verbs_completions_release(struct verbs_queues *queues, uint32_t count);
/* More room for what arrives: each immediate, and each frame, takes a receive buffer. WEFT_NOMEM when the device's queue
 * holds no more. */
int verbs_receives_reserve(struct verbs_queues *queues, uint32_t count);
void verbs_receives_release(struct verbs_queues *queues, uint32_t count);
void verbs_receives_post(struct verbs_queues *queues);
void verbs_receive_return(struct verbs_queues *queues, struct verbs_buffer *buffer);
/* So many queue pairs that were connected have ended: others for the receives that they may have taken along. */
void verbs_receives_replace(struct verbs_queues *queues, uint32_t ended);
/* A buffer to send from, or NULL when there is none for now. */
struct verbs_buffer *verbs_send_take(struct verbs_queues *queues);
void verbs_send_return(struct verbs_queues *queues, struct verbs_buffer *buffer);

/* meet.c */
void verbs_oob_receive(struct weft_transport *transport, const void *from, size_t from_size, const void *oob,
                       size_t size);
/* Sends the peer this half; again later if there is no way now. May fail the link. */
void verbs_link_send_oob(struct weft_link *link);
/* Announces to the peer that its half has no counterpart any more. */
void verbs_link_send_end(struct weft_link *link);
/* Connects the queue pair to the peer's. WEFT_PROTOCOL: that one is between other ports. WEFT_AGAIN: it cannot be connected,
 * which the link knows then (verbs_qp_trouble()). */
int verbs_qp_meet(struct verbs_qp *qp, const struct verbs_oob_qp *theirs);

/* link.c */
int verbs_reachable(struct weft_transport *transport, const void *address, size_t size);
/* Whether the link's peer has this address. Its instance number alone could also be what another member has published. */
int verbs_link_leads(const struct weft_link *link, const void *address, size_t size);
/* The link to an address, NULL when there is none that has not failed. */
struct weft_link *verbs_link_of(struct weft_transport *transport, const void *address, size_t size);
/* Makes a link that is not connected yet. */
int verbs_link_make(struct weft_transport *transport, const struct verbs_address *peer, const void *address,
                    size_t size, struct weft_link **link);
void verbs_link_free(struct weft_link *link);
/* A link that was parked, for a caller who holds it. */
void verbs_link_reopen(struct weft_link *link);
/* Its queue pairs go to the error state, and are destroyed soon. */
void verbs_link_stop(struct weft_link *link);
/* The first half of that: what was posted comes back. */
void verbs_qps_stop(struct weft_link *link);
/* Whether all of it has. */
int verbs_qps_are_flushed(const struct weft_link *link);
int verbs_connect(struct weft_transport *transport, const void *address, size_t size, void *link_context,
                  struct weft_link **link);
void verbs_disconnect(struct weft_link *link);
int verbs_link_flags(struct weft_link *link, uint32_t *flags);
const char *verbs_link_why(struct weft_link *link);
int verbs_sent_by(struct weft_transport *transport, const void *sender, const void *address, size_t size);
/* Fails the link: its queue pairs stop, the caller is notified if it has the link. */
void verbs_link_fail(struct weft_link *link, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether nothing of a failed link can move any more. */
int verbs_link_is_dead(const struct weft_link *link);
struct weft_link *verbs_link_find(struct weft_transport *transport, uint32_t id);
/* The link's queue pair that a completion on these queues came over, NULL when it is not the link's. */
struct verbs_qp *verbs_link_qp(const struct weft_link *link, const struct verbs_queues *queues,
                               uint32_t qp_number);
void verbs_link_up(struct weft_link *link);
void verbs_link_want(struct weft_link *link, uint8_t pending);
void verbs_links_flush(struct weft_transport *transport);
void verbs_links_tick(struct weft_transport *transport, int64_t now_ns);
/* Destroys the queue pairs of a link that has failed now, without waiting for what is flushed. */
void verbs_link_cut(struct weft_link *link);
/* The same for all that have waited long enough. */
void verbs_links_reap(struct weft_transport *transport, int64_t now_ns);

/* Whether the link can still have queue pairs of this number: the rails that its addresses call for. Returns how many. */
int verbs_link_pairs(const struct weft_link *link, struct verbs_pair pairs[VERBS_PAIRS]);
/* Room for a link's messages on the rails of these bits, and back. */
int verbs_link_reserve(struct weft_link *link, uint8_t rails);
void verbs_link_release(struct weft_link *link);

/* failover.c */
/* The queue pair is of no use any more: its traffic moves to the others, or the link fails with this reason. */
void verbs_qp_trouble(struct verbs_qp *qp, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A rail's port went down, or came back. */
void verbs_failover_port(struct weft_transport *transport, const struct verbs_rail *rail, int is_up);
/* Goes on with links whose queue pairs are being replaced; and with what waits for its time. */
void verbs_failover_drive(struct weft_transport *transport);
void verbs_failover_tick(struct weft_transport *transport, int64_t now_ns);

/* leave.c */
/* The last reference has gone; the first has come. */
void verbs_leave_unused(struct weft_link *link);
void verbs_leave_used(struct weft_link *link);
/* RELEASE, PART, KEEP or KEPT has arrived. */
void verbs_leave_receive(struct weft_link *link, enum verbs_frame_type type);
/* The link fails: 1 when that is no loss, and nobody has to hear of it. */
int verbs_leave_failed(struct weft_link *link);
/* The link's queue pairs are to be replaced (failover.c): 1 when they need not be. */
int verbs_leave_turns(struct weft_link *link);
/* The link is up, or again. */
void verbs_leave_up(struct weft_link *link);
void verbs_leave_drive(struct weft_transport *transport);

/* message.c */
/* A message that was lost, again. */
int verbs_message_replay(struct weft_link *link, uint32_t sequence, const void *bytes, size_t size);
/* A frame of the link itself that is longer than its header. */
int verbs_frame_send_long(struct weft_link *link, enum verbs_frame_type type, const void *bytes, size_t size);
int verbs_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
               size_t payload_size);
/* A frame of the link itself. */
int verbs_frame_send(struct weft_link *link, enum verbs_frame_type type, uint32_t sequence, uint16_t qps,
                     int signal);
/* A frame has arrived: the link whose message it is, or NULL when it is none. */
struct weft_link *verbs_frame_receive(struct verbs_queues *queues, const struct verbs_buffer *buffer,
                                      uint32_t qp_number);
void verbs_message_consume(struct weft_link *link);

/* completion.c */
void verbs_notice_push(struct weft_transport *transport, struct verbs_notice *notice,
                       enum weft_event_kind kind, int status);
int verbs_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);
/* Drives what is in flight without reporting anything to the caller: events wait for poll(). */
void verbs_progress(struct weft_transport *transport);
/* Reads completions into the empty batch; returns how many. */
int verbs_batch_read(struct verbs_queues *queues);
/* Handles all that has completed so far, on one rail or all, without reporting it. */
void verbs_queues_drain(struct verbs_queues *queues);
void verbs_drain(struct weft_transport *transport);
/* Takes what the devices have to report. */
void verbs_events_take(struct weft_transport *transport);
/* The instance is of no use any more: every link fails. */
void verbs_break(struct weft_transport *transport, const char *why);

/* sleep.c */
int verbs_fds(struct weft_transport *transport, int *fds, int capacity);
int verbs_arm(struct weft_transport *transport);
void verbs_disarm(struct weft_transport *transport);
int verbs_busy(struct weft_transport *transport);
/* Makes a descriptor non-blocking. */
int verbs_sleep_prepare(int fd);
/* Takes the channel's reports, and acknowledges them if there are more than `most`. */
void verbs_wakings_take(struct verbs_queues *queues, uint32_t most);

/* rbuf.c, put.c, withdraw.c (rbuf.h has what only they share) */
int verbs_rbufs_open(struct weft_transport *transport);
void verbs_rbufs_free(struct weft_transport *transport);
int verbs_puts_open(struct weft_transport *transport);
void verbs_puts_free(struct weft_transport *transport);
/* What was posted with these kinds has ended, status 0 or why not; in the order of each queue pair. */
void verbs_put_retired(struct verbs_put *put, int status);
void verbs_rbuf_bound(struct verbs_part *part);
void verbs_rbuf_closed(struct verbs_part *part, int status);
/* An immediate came over this queue pair; anything may stand in it. */
void verbs_rbuf_arrived(struct verbs_queues *queues, uint32_t qp_number, uint32_t immediate);
/* poll() reports this event now: returns its cookie, and the thing may be used again. */
uint64_t verbs_put_reported(struct verbs_notice *notice);
uint64_t verbs_rbuf_reported(struct verbs_notice *notice);
/* The link's queue pairs are in error: its windows are dropped, its receive buffers gone. Puts end by verbs_put_retired().
 * Before the queue pairs are destroyed, or that blocks (withdraw.c); may be called again. */
void verbs_rbufs_link_failed(struct weft_link *link);
/* The link's queue pairs are about to be replaced: windows are dropped, what is open waits for new ones. */
void verbs_rbufs_turn(struct weft_link *link);
/* The link's queue pairs are gone: puts that nobody wants any more end. */
void verbs_puts_turn(struct weft_link *link);
/* The link has failed: so have puts that wait to be written again. */
void verbs_puts_link_failed(struct weft_link *link);
/* The link is freed. */
void verbs_rbufs_link_freed(struct weft_link *link);
/* What found no room in a send queue; by every poll(). */
void verbs_rbufs_poll(struct weft_transport *transport);
/* The caller wants to deregister: waits, for a bounded time, until no window is bound on it any more. */
void verbs_region_settle(struct weft_region *region);
/* Whether the link has receive buffers; puts. */
int verbs_rbufs_on(const struct weft_link *link);
int verbs_puts_on(const struct weft_link *link);
/* For caps. */
uint64_t verbs_put_bytes(const struct weft_transport *transport);
/* For VERBS_PENDING_CANCEL and _ANSWER: WEFT_AGAIN keeps them pending. */
int verbs_cancels_send(struct weft_link *link);
int verbs_answers_send(struct weft_link *link);
/* What the peer had asked back over queue pairs that are gone needs no answer. */
void verbs_answers_forget(struct weft_link *link);
/* A CANCEL has arrived. */
void verbs_cancel_receive(struct weft_link *link, uint32_t immediate, uint16_t qps);
/* Whether peers may be about to ask us something about puts: 1 or 0. */
int verbs_withdraw_busy(const struct weft_transport *transport);
int verbs_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                    uint64_t cookie, struct weft_token *token);
void verbs_withdraw(struct weft_link *link, const struct weft_token *token);
int verbs_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
              const void *memory, size_t size, uint64_t cookie);
int verbs_recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie);
void verbs_recall_wait(struct weft_transport *transport);

#endif
