/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the tcp transport share.
 *
 * tcp.c      opening, closing, the table      link.c     links and their failure
 * meet.c     how two instances meet           rbuf.c     memory for puts
 * out.c      what is written to a connection  in.c       what is read from one
 * poll.c     events, sleeping
 *
 * Connections. A link is one connection. Its two ends prove to each other that they know the address of the listening one, in
 * which there is a random key; addresses travel over authenticated channels only. It is the handshake of the bootstrap
 * (base/net/), and no byte of a connection is looked at as a frame before it is over. What has proven nothing has one of a bounded
 * number of places (base/net/accept.h).
 *
 * Both ends may connect at once. The dial of the instance with the lower number wins: the other end drops its own as soon as that
 * one's proof is here, and the winner keeps the loser's connection aside, unanswered, for the case that its own dial fails. Dials
 * of an instance are numbered; one that is not newer than what the instance is known by is dropped. They also say how many
 * connections there have been, so that one that has crossed the connection that is up is not taken for the next.
 *
 * Frames. A connection is a row of frames, little-endian: struct tcp_frame, then what its type says.
 *
 *   DATA    one message of the caller, padded with zeros to a multiple of 8 bytes.
 *   PUT     struct tcp_put_head, then bytes for a receive buffer. A put travels as many of these, in order, and messages pass
 *           between them.
 *   CANCEL  struct tcp_name: the receive buffer is withdrawn; what comes for it is dropped.
 *   CUT     struct tcp_name: no more of this put will come, it was recalled.
 *   BYE     the sender closes.
 *
 * There are no credits: who does not poll stops reading, and TCP's window stops the sender.
 *
 * Memory. Nobody but this instance, reading its own socket, writes to a receive buffer. So taking one back needs nothing
 * of the peer: what still comes for it is read into a sink. A put that is recalled in the midst of a frame leaves the rest of that
 * frame as a copy.
 *
 * An idle connection has no buffers. Reading goes into one place for all links; what is left over, a frame that is not whole or
 * one that the caller's budget left, is kept with the link until the next turn.
 *
 * Threads: the caller serialises all calls on an instance.
 */
#ifndef WEFT_TRANSPORT_TCP_PRIVATE_H
#define WEFT_TRANSPORT_TCP_PRIVATE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>
#include "base/net/accept.h"
#include "base/net/address.h"
#include "base/net/dial.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames are written as they lie in memory: little-endian"
#endif

#define TCP_MAGIC        0x50435457u /* "WTCP" */
#define TCP_WIRE_VERSION 1
#define TCP_PURPOSE      16 /* of a handshake; the bootstrap's are below (base/net/auth.h) */
#define TCP_FRAME_MARK   0xd5
#define TCP_EAGER_BYTES  65536 /* largest message */
#define TCP_OUT_BYTES    65536 /* messages that wait to be written, per link */

#define TCP_PLACE_BYTES (256 << 10)         /* where is read to */
#define TCP_PIECE_BYTES (UINT32_C(1) << 18) /* of a put, in one frame: so long messages wait at most */
#define TCP_PIECES      16                  /* written in one go, then others have their turn */
#define TCP_SLOTS       65536
#define TCP_CONNECT_NS  INT64_C(10000000000)
#define TCP_TICK_NS     INT64_C(20000000) /* how often links that are coming up are looked at */
#define TCP_CLOSE_NS    INT64_C(1000000000)
#define TCP_EXPECTED    256 /* honest connections that may be in the midst of the handshake at once */
#define TCP_LOOKS       32  /* polls that find nothing, from one look at all descriptors to the next */

enum tcp_frame_type { TCP_DATA = 1, TCP_PUT, TCP_CANCEL, TCP_CUT, TCP_BYE };

struct tcp_frame {
    uint8_t mark;
    uint8_t type;
    uint16_t reserved;
    uint32_t size; /* of what follows, without padding */
};

/* Names a receive buffer. */
struct tcp_name {
    uint32_t slot, generation;
    uint64_t nonce;
};

struct tcp_put_head {
    struct tcp_name name;
    uint64_t offset;
};

struct tcp_address {
    uint32_t magic;
    uint8_t version_min, version_max;
    uint8_t family;
    uint8_t reserved;
    uint16_t port;
    uint16_t reserved2;
    uint32_t features;
    uint64_t instance;   /* random, not 0 */
    uint64_t host;       /* identity of host and network namespace, 0 unknown */
    uint8_t ip[16];      /* a link-local one without its scope, which is a matter of each host */
    struct weft_key key; /* random: knowing it proves that one knows this address */
};

struct tcp_token {
    uint32_t magic;
    uint32_t reserved;
    struct tcp_name name;
    uint64_t size;
    uint64_t instance; /* whose memory it is */
};

/* --- outgoing (out.c) --- */

/* A row of bytes that grows. */
struct tcp_bytes {
    uint8_t *bytes;
    size_t start, end, capacity;
};

struct tcp_put {
    struct tcp_put *next;
    struct weft_link *link;
    const uint8_t *memory;
    uint64_t size, taken; /* taken: begun to be written, in frames */
    uint64_t cookie;
    struct tcp_name name;
    int status;
    int recalled; /* nobody wants to hear of it any more */
};

/* The frame of a put that is being written. */
struct tcp_piece {
    struct tcp_put *put; /* NULL: the bytes are a copy, or there is none */
    struct {
        struct tcp_frame frame;
        struct tcp_put_head head;
    } start;
    size_t start_done; /* bytes of start that are written */
    const uint8_t *at; /* bytes of the put that follow */
    size_t left;
    uint8_t *copy; /* that the rest lies in */
};

/* --- incoming (rbuf.c) --- */

/* CUT: the put into it was recalled, it will not be filled. */
enum tcp_rbuf_state { TCP_RBUF_FREE, TCP_RBUF_OPEN, TCP_RBUF_CUT };

struct tcp_rbuf {
    struct weft_link *link;
    uint8_t *memory;
    uint64_t size, filled;
    uint64_t cookie;
    uint64_t nonce;
    uint32_t slot, generation;
    uint32_t next_free; /* slot + 1 */
    uint8_t state;
    uint32_t
        sent_at; /* link->sent when it was made: no message since means that the peer cannot know the token */
};

/* --- links (link.c, meet.c) --- */

/* epoll reports it by its address plus 1; links by theirs. */
struct tcp_dial {
    struct weft_net_dial net;
    struct weft_link
        *link; /* NULL: it leaves once it has proven itself, so that it is not taken for a stranger's */
    struct tcp_dial *next; /* leaving, or over */
};

enum tcp_link_state { TCP_LINK_CONNECTING, TCP_LINK_UP, TCP_LINK_FAILED };

struct weft_link {
    struct weft_transport *transport;
    void *context;
    int references; /* of connect() */
    int status;     /* why it failed */
    uint8_t state;
    uint8_t is_known;    /* address is whole */
    uint8_t failed_due;  /* LINK_FAILED has yet to be reported */
    uint8_t is_dirty;    /* in the list of links that have something to write */
    uint8_t is_blocked;  /* the connection takes no more for now: epoll reports when it does */
    uint8_t is_kept;     /* in the list of links that have kept bytes which may be frames */
    uint8_t peer_leaves; /* BYE came */
    uint8_t
        is_mute; /* nothing can be written any more: what the peer wrote before is read, then the link fails */
    int fd;      /* -1: none */
    uint32_t watched; /* events that epoll has for fd, 0: fd is not in its set */
    uint32_t sent;    /* messages */

    uint64_t dial_number; /* of the peer's dials, the newest */
    uint32_t epoch;       /* connections that there have been with this peer, this one included */
    struct tcp_address address;

    struct tcp_dial *dial;         /* while it comes up and this end dials */
    struct weft_net_proven *aside; /* the peer's dial, if ours fails */
    int64_t deadline_ns, again_ns;

    struct tcp_bytes out;
    struct tcp_piece piece;
    struct tcp_put *puts, **puts_end; /* to be written, in order; the first may be in piece */

    struct tcp_bytes kept;    /* read, not handed on yet */
    struct tcp_rbuf *filling; /* the PUT that is being read goes here; NULL with filling_left: nowhere */
    uint8_t *filling_at;
    uint64_t filling_left;

    struct tcp_name *refused; /* receive buffers that the peer has withdrawn, one for each of its slots */
    uint32_t refused_count, refused_capacity;
    struct weft_link *next_dirty, *next_kept;
    char why[256];
};

struct weft_transport {
    struct tcp_address address;
    uint32_t scope; /* the interface of this host to the link that link-local addresses are of, 0 none */
    int listener, poll_fd, timer_fd;
    int timer_runs;
    struct weft_net_accept *accept;
    unsigned strangers;
    uint64_t dials; /* made so far, which numbers them */

    uint32_t idle_polls;
    uint32_t connecting; /* links that are coming up */
    uint32_t failed_due; /* links whose failure has yet to be reported */
    uint32_t blocked;    /* links whose connection takes no more */
    struct weft_link **links;
    uint32_t links_count, links_capacity, links_up;
    struct weft_link *only; /* the link that is up, where there is one only */
    struct weft_link *dirty, *kept;

    struct tcp_dial *leaving, *over;  /* over: freed when no event can name it any more */
    struct tcp_put *done, **done_end; /* puts to be reported */
    struct tcp_put *free_puts;
    struct tcp_rbuf **rbufs;                         /* by slot */
    uint32_t rbufs_count, rbufs_capacity, rbuf_free; /* first free slot + 1, 0 none */
    uint8_t *place;                                  /* TCP_PLACE_BYTES */
    int closing;
    int (*fail)(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
};

/* --- link.c --- */
int tcp_address_check(const struct weft_transport *transport, const void *bytes, size_t size,
                      struct tcp_address *address);
int tcp_reachable(struct weft_transport *transport, const void *address, size_t size);
int tcp_connect(struct weft_transport *transport, const void *address, size_t size, void *link_context,
                struct weft_link **link);
void tcp_disconnect(struct weft_link *link);
int tcp_link_flags(struct weft_link *link, uint32_t *flags);
const char *tcp_why(struct weft_link *link);
int tcp_sent_by(struct weft_transport *transport, const void *sender, const void *address, size_t size);
/* The one of this instance that has not failed, or NULL. */
struct weft_link *tcp_link_find(struct weft_transport *transport, uint64_t instance);
int tcp_link_new(struct weft_transport *transport, const struct tcp_address *address,
                 struct weft_link **link);
void tcp_link_fail(struct weft_link *link, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with why the link has failed. */
int tcp_link_down(struct weft_link *link);
/* It is up over this connection, which is the link's from here on. */
void tcp_link_up(struct weft_link *link, int fd);
/* Has epoll report these events of the connection. */
int tcp_link_watch(struct weft_link *link, uint32_t events);
void tcp_link_free(struct weft_link *link);

/* --- meet.c --- */
void tcp_dial(struct weft_link *link);
/* Ends this end's dial, and drops the peer's. */
void tcp_dial_drop(struct weft_link *link);
/* The link is up by the peer's dial: ours is not needed. */
void tcp_dial_leave(struct weft_link *link);
void tcp_dial_step(struct weft_transport *transport, struct tcp_dial *dial);
/* Frees the dials that are over; all: those that leave, too. */
void tcp_dials_free(struct weft_transport *transport, int all);
/* Links that have waited long enough: for their next dial, or for good. */
void tcp_dials_check(struct weft_transport *transport);
void tcp_accept(struct weft_transport *transport);

/* --- out.c --- */
int tcp_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
             size_t payload_size);
int tcp_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
            const void *memory, size_t size, uint64_t cookie);
void tcp_put_recall(struct weft_link *link, uint64_t cookie);
void tcp_put_give(struct weft_transport *transport, struct tcp_put *put);
/* Appends a small frame. WEFT_NOMEM. */
int tcp_frame_append(struct weft_link *link, int type, const void *body, size_t size);
/* Writes what the connection takes now. */
void tcp_link_write(struct weft_link *link);
void tcp_links_write(struct weft_transport *transport);
int tcp_has_output(const struct weft_link *link);
/* The peer has withdrawn this receive buffer. */
void tcp_refused(struct weft_link *link, const struct tcp_name *name);
/* The link has failed: its puts end. */
void tcp_output_drop(struct weft_link *link);
/* Room for size more bytes at the end. NULL: no memory. */
uint8_t *tcp_bytes_room(struct tcp_bytes *bytes, size_t size);
void tcp_bytes_clear(struct tcp_bytes *bytes);

/* --- in.c --- */
/* Reads from the connection, if the descriptor is still that, and hands on what is whole; returns how many events. */
int tcp_link_read(struct weft_link *link, int budget, weft_event_handler *handler, void *arg);
/* Hands on what was kept. */
int tcp_links_kept(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);
void tcp_input_drop(struct weft_link *link);

/* --- rbuf.c --- */
int tcp_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                  uint64_t cookie, struct weft_token *token);
void tcp_withdraw(struct weft_link *link, const struct weft_token *token);
int tcp_recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie);
void tcp_recall_wait(struct weft_transport *transport);
/* The open receive buffer of this name on the link. NULL: it is no more. *unknown: this end never made one of that name. */
struct tcp_rbuf *tcp_rbuf_find(struct weft_link *link, const struct tcp_name *name, int *unknown);
void tcp_rbuf_release(struct weft_transport *transport, struct tcp_rbuf *rbuf);
void tcp_rbufs_free(struct weft_transport *transport);

/* --- poll.c --- */
int tcp_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);
int tcp_fds(struct weft_transport *transport, int *fds, int capacity);
int tcp_arm(struct weft_transport *transport);
int tcp_busy(struct weft_transport *transport);
/* A link comes up, or no longer does: the timer runs while any does. */
void tcp_connecting(struct weft_transport *transport, int change);

#endif
