/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the ofi transport share.
 *
 * load.c        libfabric itself            info.c        which provider, and what it demands
 * ofi.c         opening, closing, the table endpoint.c    fabric objects and their memory
 * link.c        links: handshake, failure   message.c     messages, frames, credits
 * rbuf.c        memory for puts             withdraw.c    taking it back
 * hello.c       who may talk to us
 * put.c         the sending side of puts    completion.c  completions, events, sleeping
 * sever.c       cutting a link's connection  device.c      device memory
 *
 * Frames. Everything that travels as a libfabric message is one frame: struct ofi_frame, little-endian, then
 * what its type says.
 *
 *   HELLO    first frame in each direction: struct ofi_hello_frame (see "Strangers"). It says which link id
 *            and pass to put into frames for the sender and how many messages it takes. A link is up once the
 *            peer's HELLO is here (but see "Connections that are replaced"). An instance that gets a HELLO from one it does not know answers with its
 *            own.
 *   DATA     one message of the caller, numbered per link.
 *   CREDIT   u32: how many messages were sent before it; the frame's counters are the point. Its number is that of the
 *            last FLUSH seen.
 *   FLUSH    asks for a CREDIT at once; numbered. u32: how many messages were sent before it.
 *   CANCEL   u32 immediate: this receive buffer is withdrawn, do not put there any more.
 *   CANCELLED u32 immediate: the answer; every earlier put into it has been sent before this frame.
 *   SOCKET   u32 port: the local one of the connection that the sender has made to the receiver (sever.c).
 *   BYE      the sender closes; it takes nothing more. Over connections of ofi_rxm to a device it is answered with BYE,
 *            the last frame of that side (message.c).
 *
 * Strangers. A provider's endpoint takes messages from whoever reaches it. An instance's address therefore
 * carries a random key, and addresses travel over authenticated channels only. A HELLO is encrypted and
 * authenticated (ChaCha20-Poly1305) under a key derived by HMAC-SHA-256 from the receiver's key and a fresh
 * nonce: who can make one knows the receiver's address. Inside are the sender's whole address, so that it can
 * be answered in kind, and a random 64-bit pass that the receiver must put into every further frame. A frame
 * is compared with its link's pass before anything else of it is looked at; nothing is kept for a sender that
 * has not proven itself. HELLOs are numbered per sender: one that is repeated, by whomever, is dropped. What
 * this leaves open: without encryption by the provider, whoever reads the wire learns passes and keys of
 * registered memory (docs/security.md).
 *
 * Connections that are replaced. The reliable datagrams of net (tcp from libfabric 1.18) are not quite that: when a
 * connection ends while messages are in the socket they are lost, and the next message makes a new connection; neither
 * end is informed. When both ends connect at once it can happen that one of them takes a connection for good that the
 * other has given up already: what is written there completes and is lost (prov/net/src/xnet_rdm_cm.c: a request that
 * is looked at between the reply to an own one and the event that reports it replaces the connection; and closing
 * one connection drops the events of all others that wait, requests among them). This is most likely after a cut,
 * as both ends connect anew then. So there
 *   - a HELLO is said again until a frame comes back, by a new number, over whatever connection there is by then;
 *     each that arrives is answered with a CREDIT. Until then the link is MET at most, and nothing of the caller's
 *     travels;
 *   - an own connection whose request nobody has looked at for long is given up, so that the next try makes another
 *     (sever.c);
 *   - FLUSH and CREDIT say how many messages were sent before them (u32). Fewer here means that some were lost on
 *     the way: the link fails, so that nobody waits for them.
 * Both ends say in their addresses that they do so.
 *
 * Flow control. A receiver posts as many buffers as it grants messages, over all links, so that no message
 * ever waits inside a provider for room. Only DATA counts. Every frame says how many messages and
 * receive buffers of this link its sender is done with; where nothing flows back, a CREDIT does after
 * half a window, before sleeping, and after a millisecond.
 *
 * Order. DATA carries a sequence number. With a provider that keeps the order of sends a number out of order
 * is an error; otherwise up to a window of frames wait, in the buffers they arrived in, for their turn.
 *
 * Puts. With RMA: advertise() makes a 32-bit immediate, slot | generation << 16; put() writes with it as remote
 * completion data, and its completion at the receiver is WEFT_EVENT_FILLED. Without: the immediate is part of the tag of
 * a tagged receive straight into the memory. A generation that does not match is dropped and counted. Where
 * completion data has 64 bits, and in tags, a random number per receive buffer goes with it; keys of registrations
 * are random where weft chooses them: none of these can be guessed from earlier ones.
 */
#ifndef WEFT_TRANSPORT_OFI_PRIVATE_H
#define WEFT_TRANSPORT_OFI_PRIVATE_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>
#include "base/crypto.h"
#include "transport/ofi/load.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames are written as they lie in memory: little-endian"
#endif

#define OFI_API            FI_VERSION(1, 17)
#define OFI_MAGIC          0x49464f57u /* "WOFI" */
#define OFI_WIRE_VERSION   2
#define OFI_FRAME_MARK     0xf7
#define OFI_FRAME_BYTES    (16384 + 64) /* frame header and message; what a provider allows may be less */
#define OFI_WINDOW         32           /* messages granted to a peer */
#define OFI_WINDOW_SMALL   8            /* the same, beyond OFI_LINKS_LARGE links */
#define OFI_LINKS_LARGE    64
#define OFI_SPARE_BUFFERS  16          /* receive buffers for frames that need no credit */
#define OFI_FIRST_SEQUENCE 0xfffffff0u /* so that every run crosses the wrap */
#define OFI_CONNECT_NS     10000000000 /* a HELLO that the provider has not delivered by then fails the link */
#define OFI_REQUEST_NS                                                                                       \
    500000000 /* a connection nobody answers for so long is tried anew; then twice as long */
#define OFI_PROBE_NS       200000000 /* after this much silence a waiting rank asks whether peers live */
#define OFI_PROBE_AGAIN_NS 1000000000
#define OFI_LOOKS          64 /* without anything that has come, from one look at the clock to the next */
#define OFI_SELDOM_NS      INT64_C(150000000) /* between two of them: nobody waits (comm/drive/progress.c) */
#define OFI_STUCK_NS       200000000  /* a provider that takes nothing, though idle, has lost the peer */
#define OFI_STUCK_BUSY_NS  5000000000 /* the same, while it has other work */
#define OFI_CLOSE_NS       1000000000
#define OFI_ANSWER_NS      100000000
#define OFI_PARTING_NS     100000000  /* between saying good-bye and closing, where the provider needs it */
#define OFI_PARTED_NS      300000000  /* how long peers have there to say theirs */
#define OFI_ACK_NS         1000000    /* acknowledgements older than this are sent on their own */
#define OFI_RECALL_NS      400000000  /* how long recall_wait() waits for peers that say nothing */
#define OFI_RECALL_SLOW_NS 550000000  /* and for those that are heard, but slow */
#define OFI_SEVER_NS       1000000000 /* and then for connections to end, before the last resort */
#define OFI_LOOK_NS        2000000    /* between looks at the process's sockets meanwhile */
#define OFI_LINGER_NS      1000000000 /* so long after a recall peers may still ask */
#define OFI_HELLO_TRIES    3
#define OFI_HELLO_AGAIN_NS 50000000   /* a HELLO that nothing came back for is said again; each time later, */
#define OFI_HELLO_LAST_NS  1000000000 /* up to this */
#define OFI_NONCE_BYTES    16
#define OFI_BATCH          16 /* completions read at once */

#define OFI_TAG(nonce, immediate) (0x57ull << 56 | (uint64_t)((nonce)&0xffffff) << 32 | (immediate))

enum ofi_frame_type {
    OFI_HELLO = 1,
    OFI_DATA,
    OFI_CREDIT,
    OFI_FLUSH,
    OFI_CANCEL,
    OFI_CANCELLED,
    OFI_BYE,
    OFI_SOCKET,
};

struct ofi_frame {
    uint8_t mark;
    uint8_t type;
    uint16_t filled;   /* receive buffers filled, modulo 2^16 */
    uint32_t link;     /* the receiver's id of the link; 0 in a HELLO */
    uint32_t sequence; /* DATA; FLUSH and CREDIT: of the FLUSH */
    uint32_t consumed; /* sequence number of the next message expected to be consumed */
    uint64_t pass;     /* what the receiver's HELLO asked for; 0 in a HELLO */
};

struct ofi_address {
    uint32_t magic;
    uint8_t version_min, version_max;
    uint16_t name_size;
    uint32_t format;   /* libfabric's address format */
    uint32_t protocol; /* its wire protocol */
    uint64_t instance; /* random */
    uint64_t host;     /* hash of boot id and network namespace */
    uint32_t features;
    char provider[28];
    struct weft_key key;                 /* random: knowing it proves that one knows this address */
    uint8_t name[WEFT_ADDRESS_MAX - 96]; /* name_size bytes travel */
};

#define OFI_ADDRESS_FIXED offsetof(struct ofi_address, name)

/* What a HELLO says; encrypted on the wire. */
struct ofi_hello {
    uint32_t magic;
    uint8_t version_min, version_max;
    uint16_t address_size;
    uint32_t features;
    uint32_t window;
    uint32_t frame_bytes;
    uint32_t link;       /* the sender's id of the link */
    uint64_t generation; /* grows with every HELLO that the sender says, 1 or more */
    uint64_t pass;       /* for frames to the sender */
    struct ofi_address address;
};

/* A HELLO as it travels; always of this size. */
struct ofi_hello_frame {
    struct ofi_frame frame;
    uint8_t nonce[OFI_NONCE_BYTES];
    struct ofi_hello hello;
    uint8_t tag[WEFT_TAG_BYTES];
};

struct ofi_token {
    uint32_t magic;
    uint32_t immediate;
    uint64_t key;
    uint64_t address;
    uint64_t size;
    uint64_t instance; /* whose memory it is */
    uint32_t nonce;
    uint32_t reserved;
};

enum ofi_op_kind { OFI_OP_RECV, OFI_OP_SEND, OFI_OP_PUT, OFI_OP_RBUF };

/* An operation that libfabric works on; the context that it wants comes first. */
struct ofi_op {
    struct fi_context2 context;
    enum ofi_op_kind kind;
    struct weft_link *link; /* NULL for receives */
};

/* Something to report to the caller: every kind of event is part of the thing that it is about. */
struct ofi_event {
    struct ofi_event *next;
    enum weft_event_kind kind;
    int status;
    int withdrawn; /* nobody wants to hear it any more */
};

/* A frame's memory. Receive buffers are posted, or unposted, or hold a message that waits; send buffers are
 * free or in flight. */
struct ofi_buffer {
    struct ofi_op op;
    struct ofi_event event;
    struct ofi_buffer *next;
    void *desc;
    uint8_t *memory; /* the provider's prefix, then the frame */
    uint32_t size;   /* of the frame, without prefix */
    uint8_t control; /* a HELLO: its failure says that the peer cannot be reached, unless it is said again */
};

struct ofi_chunk {
    struct ofi_chunk *next;
    struct fid_mr *mr;
    void *memory;
    size_t size;
    struct ofi_buffer buffers[];
};

struct ofi_put {
    struct ofi_op op;
    struct ofi_event event;
    struct ofi_put *next, *previous; /* in flight */
    struct ofi_buffer *prefix;       /* memory for the provider's prefix, tagged puts only */
    uint64_t cookie;
    uint32_t immediate;
    uint8_t recalled; /* nobody wants to hear of it any more */
};

enum ofi_rbuf_state {
    OFI_RBUF_FREE,
    OFI_RBUF_UNPOSTED, /* tagged: the receive found no room yet */
    OFI_RBUF_OPEN,     /* bytes may arrive */
    OFI_RBUF_FILLED,   /* WEFT_EVENT_FILLED waits to be reported */
    OFI_RBUF_WITHDRAWN /* bytes that still arrive go to the sink */
};

struct ofi_rbuf {
    struct ofi_op op;
    struct ofi_event event;
    struct ofi_rbuf *next; /* free */
    struct weft_link *link;
    struct weft_region *region; /* whose registration is used, or NULL */
    struct fid_mr *mr;          /* own registration, or NULL */
    struct ofi_buffer *prefix;
    void *memory;
    void *sink;
    size_t size;
    uint64_t cookie;
    uint64_t key;
    uint32_t nonce; /* random, per receive buffer */
    uint16_t slot, generation;
    uint32_t sent_at; /* link->sent when made: no message since means that the peer cannot know the token */
    uint8_t state;
    uint8_t cancel_due;  /* a CANCEL has yet to be sent */
    uint8_t cancel_done; /* the peer has answered, or is gone */
    uint8_t posted;      /* libfabric holds op */
    uint8_t recalled;    /* recall_wait() is concerned with it */
    uint8_t known;       /* recalled when the peer could know the token already */
};

/* MET: the peer's HELLO is here, but nothing says that it has ours (only where links are wary). */
enum ofi_link_state { OFI_LINK_CONNECTING, OFI_LINK_MET, OFI_LINK_UP, OFI_LINK_FAILED };

/* Features, in addresses. */
enum ofi_feature {
    OFI_FEATURE_WARY = 1 << 0, /* HELLOs are said until they are answered: "Connections that are replaced" */
};

/* Frames that a link still has to send. */
enum ofi_pending {
    OFI_PENDING_HELLO = 1 << 0,
    OFI_PENDING_CREDIT = 1 << 1,
    OFI_PENDING_FLUSH = 1 << 2,
    OFI_PENDING_BYE = 1 << 3,
    OFI_PENDING_CANCEL = 1 << 4,    /* some receive buffer has cancel_due */
    OFI_PENDING_CANCELLED = 1 << 5, /* answers[] is not empty */
    OFI_PENDING_SOCKET = 1 << 6,
};

/* How far cutting a link's connection has got. */
enum ofi_sever { OFI_SEVER_NOT, OFI_SEVER_SHUT, OFI_SEVER_CANNOT };

struct weft_link {
    struct weft_transport *transport;
    struct ofi_event event;
    void *context;
    int references; /* of connect() */
    uint8_t state, pending;
    uint8_t hello_tries;          /* how often sending a HELLO has failed */
    uint8_t gone;                 /* the peer said BYE, its last message is the one before `last` */
    uint8_t parted;               /* BYE has been sent */
    uint8_t lost;                 /* an operation that had begun failed, or BYE: the connection is no more */
    uint8_t closed;               /* nothing moves over its connection any more, in either direction */
    uint8_t sever;                /* enum ofi_sever */
    uint8_t heard;                /* a frame came since recall_wait() has begun */
    uint8_t wary;                 /* the provider may replace its connection without a word */
    uint8_t hellos;               /* how often a HELLO was said, up to what makes a difference */
    uint16_t own_port, peer_port; /* of the connections made from here and from there, 0 when not known */
    uint8_t by_socket;            /* a socket was seen that may be its connection */
    uint64_t cut[4];              /* inodes of the sockets that were shut down */
    uint32_t cut_count;
    uint32_t last;
    uint32_t in_flight; /* sends and puts that have not completed */
    int64_t stuck_ns;   /* how long tries have been refused since the provider last took something */
    int64_t refused_ns; /* when the last try was refused */
    int64_t probed_ns;  /* when the peer was asked whether it lives and has not answered; 0 */
    int status;
    fi_addr_t to;
    uint32_t id;      /* index | nonce << 16; the peer puts it into its frames */
    uint32_t peer_id; /* what we put into ours */
    uint64_t pass, peer_pass;
    uint64_t generation, peer_generation; /* of the HELLOs; 0: none came yet */
    int64_t connect_deadline_ns;
    int64_t request_due_ns; /* when an own connection that was not answered is given up */
    int64_t hello_due_ns;   /* when the HELLO is said again, if it is */
    uint32_t window, peer_window;
    uint32_t sent, acked;        /* messages: next number, and what the peer has consumed */
    uint32_t expected;           /* next number to arrive */
    uint32_t consumed, reported; /* what the caller has seen, and what the peer knows of it */
    uint16_t puts, puts_acked;   /* puts completed here, and arrived there or known to be dropped there */
    uint32_t flushes, flushed;   /* FLUSHes sent here, and the last seen from there */
    uint16_t puts_flushed;       /* `puts` at the last FLUSH sent here */
    uint16_t filled, filled_reported; /* receive buffers filled here */
    struct ofi_buffer *held[OFI_WINDOW];
    uint32_t *answers, answers_count, answers_capacity; /* CANCELs to answer */
    uint32_t *refused, refused_count, refused_capacity; /* tokens that must not be put to any more */
    struct ofi_address address;
    size_t address_size;
    char why[160];
};

struct weft_region {
    struct weft_transport *transport;
    struct weft_region *next, *previous;
    struct fid_mr *mr;
    void *memory;
    size_t size;
    int is_device; /* device memory */
};

struct weft_transport {
    const struct ofi_library *library;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    int wait_fd; /* -1: the provider has none */

    /* What the provider reports. */
    int ordered;       /* sends arrive in order */
    int use_rma;       /* puts are RMA writes, otherwise tagged messages */
    int data_buffers;  /* remote completion data consumes a receive buffer */
    int address_keys;  /* RMA addresses are virtual, otherwise offsets */
    int own_keys;      /* we choose keys: advertise() registers on its own */
    int local_mr;      /* every local buffer needs a descriptor */
    int wide_data;     /* completion data has 64 bits */
    int wide_keys;     /* keys have 64 bits */
    int takes_devices; /* the domain was asked for device memory, and takes it */
    int fragile;       /* must not connect or close with completions unread: message.c */
    size_t prefix, inject_bytes, frame_bytes;
    uint64_t put_bytes;
    int64_t parted_ns; /* when the last BYE was sent */
    uint32_t next_key;

    struct ofi_address address;
    size_t address_size;
    uint64_t links_made;
    uint64_t random_pool[64]; /* what of it has been used is zero */
    uint32_t random_used;

    struct weft_link **links;
    uint32_t links_count, links_capacity, links_pending, links_connecting, links_unanswered;
    struct weft_region *regions;

    struct ofi_chunk *chunks;
    struct ofi_buffer *unposted; /* receive buffers */
    uint32_t receives, receives_wanted;
    struct ofi_buffer *free_sends;
    uint32_t sends, sends_free, sends_limit;
    struct ofi_put *free_puts, *active_puts;
    struct ofi_rbuf **rbufs, *free_rbufs, *free_rbufs_last;
    uint32_t rbufs_count, rbufs_capacity, rbufs_unposted;

    struct ofi_event *events, **events_last;
    uint32_t idle_polls;
    int owing; /* some link may owe acknowledgements */
    int64_t owing_since_ns, silent_since_ns, looked_ns;
    int closing;
    int unclosed; /* stopped, but not closed */
    struct weft_transport *next_unclosed;
    int broken;
    char why[160];
    uint32_t in_flight; /* over all links */
    int recalling;      /* something was recalled and recall_wait() has not been called yet */
    int64_t linger_ns;  /* until when peers may still want answers to recalls of theirs; 0 */
    uint64_t strangers, stale_puts, stale_frames, unanswered_withdrawals;
    uint8_t *scratch; /* one small frame with its prefix */
};

/* info.c; no_verbs: not by an RDMA device. */
int ofi_info_choose(const struct ofi_library *library, const struct weft_transport_params *params,
                    int no_verbs, struct fi_info **info);
int ofi_info_is_verbs(const struct fi_info *info);
/* The same entry with device memory as well: takes *info's place if it is offered, and differs in nothing else that matters. */
void ofi_info_add_devices(const struct ofi_library *library, struct fi_info **info);

/* endpoint.c */
/* What to raise when a limit of the process explains the error, else "". registering: bytes that were to be registered, 0 for
 * anything else. Who has filled the descriptors is said as far as it is known. */
#define OFI_LIMIT_TEXT 256
const char *ofi_limit_reached(const struct weft_transport *transport, int error, size_t registering,
                              char *text, size_t size);
int ofi_endpoint_open(struct weft_transport *transport);
/* No byte moves any more: the endpoint is closed, or not driven any more where closing it would crash. */
void ofi_endpoint_stop(struct weft_transport *transport);
void ofi_endpoint_close(struct weft_transport *transport);
int ofi_register(struct weft_transport *transport, const void *memory, size_t size, uint64_t access,
                 uint64_t key, struct fid_mr **mr);
/* Access that regions of the caller need, and a key that no other registration has. */
uint64_t ofi_region_access(const struct weft_transport *transport);
uint64_t ofi_next_key(struct weft_transport *transport);
int ofi_reg(struct weft_transport *transport, void *memory, size_t size, struct weft_region **region);
void ofi_dereg(struct weft_region *region);
/* Binds and enables what was registered, where the provider wants that; closes it if that fails. */
int ofi_register_end(struct weft_transport *transport, struct fid_mr *mr, size_t size);
/* Lists a new region. */
void ofi_region_add(struct weft_transport *transport, struct weft_region *region);

/* device.c */
int ofi_reg_device(struct weft_transport *transport, const struct weft_device_memory *memory,
                   struct weft_region **region);
/* Whether the running libfabric knows dma-bufs. */
int ofi_has_dmabufs(const struct weft_transport *transport);
/* Posts receive buffers until wanted many are posted, or the provider takes no more for now. */
int ofi_receives_post(struct weft_transport *transport);
int ofi_receives_grow(struct weft_transport *transport, uint32_t more);
/* A send buffer, or NULL when there is none for now. */
struct ofi_buffer *ofi_send_take(struct weft_transport *transport);
void ofi_send_return(struct weft_transport *transport, struct ofi_buffer *buffer);

/* link.c */
int ofi_connect(struct weft_transport *transport, const void *address, size_t size, void *link_context,
                struct weft_link **link);
void ofi_disconnect(struct weft_link *link);
int ofi_link_flags(struct weft_link *link, uint32_t *flags);
int ofi_sent_by(struct weft_transport *transport, const void *sender, const void *address, size_t size);
int ofi_reachable(struct weft_transport *transport, const void *address, size_t size);
/* A sender has proven itself: the link that its HELLO is for, made if need be; NULL when it is not wanted. */
struct weft_link *ofi_link_greet(struct weft_transport *transport, const struct ofi_hello *hello);
void ofi_link_fail(struct weft_link *link, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A frame of the peer's, who has our HELLO then. */
void ofi_link_answered(struct weft_link *link);
/* The provider has delivered our HELLO. */
void ofi_link_greeted(struct weft_link *link);
struct weft_link *ofi_link_find(struct weft_transport *transport, uint32_t id);
/* Marks frames to be sent; ofi_links_flush() sends them as the provider has room. */
void ofi_link_want(struct weft_link *link, uint8_t pending);
void ofi_links_flush(struct weft_transport *transport);
/* Connections that take too long, and HELLOs that have to be said again. */
void ofi_links_check(struct weft_transport *transport, int64_t now_ns);
/* Asks peers that the caller may be waiting for: a dead one makes the frame fail. */
void ofi_links_probe(struct weft_transport *transport, int64_t now_ns);
void ofi_link_free(struct weft_link *link);

/* hello.c */
/* A HELLO of any sender and size. */
void ofi_hello_receive(struct weft_transport *transport, const void *frame, size_t size);
int ofi_hello_send(struct weft_link *link);
/* Sending one has failed. A provider may have tried a connection that the peer had ended while it was idle: 1 when
 * it shall be tried again. */
int ofi_hello_again(struct weft_link *link);
/* A link that is made, and whether its HELLO, which may be lost, is now due again. */
void ofi_hello_watch(struct weft_link *link);
int ofi_hello_due(struct weft_link *link, int64_t now_ns);
/* Its HELLO need not be said any more. */
void ofi_hello_unwatch(struct weft_link *link);
/* Something of a sender that has not proven itself is dropped. */
void ofi_stranger(struct weft_transport *transport);
/* A random number, without a system call most of the time. */
uint64_t ofi_random(struct weft_transport *transport);

/* message.c */
int ofi_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
             size_t payload_size);
/* Sends a control frame; WEFT_AGAIN when there is no room. With wait its delivery is waited for. */
int ofi_frame_send(struct weft_link *link, enum ofi_frame_type type, const void *body, size_t body_size,
                   int watched);
/* At once, or not. */
int ofi_bye_send(struct weft_link *link);
/* Sends bytes that are a frame already. */
int ofi_frame_send_raw(struct weft_link *link, const void *frame, size_t size);
/* A frame has arrived in buffer. */
void ofi_frame_receive(struct weft_transport *transport, struct ofi_buffer *buffer);
/* The provider takes nothing for this link now: WEFT_AGAIN, until that has gone on for too long. */
int ofi_link_stuck(struct weft_link *link);
void ofi_link_started(struct weft_link *link);
void ofi_link_ended(struct weft_link *link);
/* Reads what the device has in store, up to a point, for connections that are about to close. */
void ofi_queue_settle(struct weft_transport *transport);
/* The caller has seen this message: its buffer goes back, its sender gets credit. */
void ofi_message_consume(struct weft_link *link, struct ofi_buffer *buffer);
void ofi_buffer_repost(struct weft_transport *transport, struct ofi_buffer *buffer);
/* Every link that owes acknowledgements shall send them. */
void ofi_acks_want(struct weft_transport *transport);

/* rbuf.c */
int ofi_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                  uint64_t cookie, struct weft_token *token);
/* A write with this immediate has filled its memory. */
void ofi_rbuf_arrived(struct weft_transport *transport, uint64_t data);
/* A receive buffer's tagged receive has ended with size bytes. */
void ofi_rbuf_completed(struct weft_transport *transport, struct ofi_rbuf *rbuf, int status, size_t size);
void ofi_rbuf_reported(struct weft_transport *transport, struct ofi_rbuf *rbuf);
void ofi_rbufs_post(struct weft_transport *transport);
/* Before and after the endpoint is closed: registrations, then memory that libfabric may have held. */
void ofi_rbufs_close(struct weft_transport *transport);
void ofi_rbufs_free(struct weft_transport *transport);
uint32_t ofi_rbuf_immediate(const struct ofi_rbuf *rbuf);
struct ofi_rbuf *ofi_rbuf_find(struct weft_transport *transport, uint32_t immediate);
void ofi_rbuf_release(struct weft_transport *transport, struct ofi_rbuf *rbuf);
/* Posts the tagged receive of a receive buffer, into its memory or its sink. */
ssize_t ofi_rbuf_receive(struct weft_transport *transport, struct ofi_rbuf *rbuf);
/* Whether size is right, and region covers the memory if one is needed. */
int ofi_region_check(const struct weft_transport *transport, int needed, const struct weft_region *region,
                     const void *memory, size_t size);
/* Memory for the provider's prefix of a tagged message, where it wants one, beyond what messages may use. */
int ofi_prefix_take(struct weft_transport *transport, struct ofi_buffer **prefix);

/* withdraw.c */
void ofi_withdraw(struct weft_link *link, const struct weft_token *token);
int ofi_recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie);
void ofi_recall_wait(struct weft_transport *transport);
/* Takes back every receive buffer that is still open, as the instance closes. */
void ofi_rbufs_withdraw(struct weft_transport *transport);
/* Nothing of this receive buffer can arrive any more: forgets it, once libfabric lets go of it. */
void ofi_rbuf_end(struct weft_transport *transport, struct ofi_rbuf *rbuf);
/* The link's connection has ended: nobody will answer its withdrawals, and nothing arrives for them. */
void ofi_rbufs_abandon(struct weft_link *link);
int ofi_cancels_send(struct weft_link *link);
int ofi_cancelled_send(struct weft_link *link);
void ofi_cancel_receive(struct weft_link *link, uint32_t immediate);
void ofi_cancelled_receive(struct weft_link *link, uint32_t immediate);

/* sever.c */
/* Connections that others have made to the provider's listener, beyond those of links that are up: nobody has proven anything
 * on them. As well as can be known: a peer may have two for a moment. Takes no descriptor. */
unsigned ofi_strangers_connected(const struct weft_transport *transport);
/* Notes by which socket this rank has connected to the peer, so that it can be found later. */
void ofi_socket_note(struct weft_link *link);
/* Whether the peer is known to have ended the connection, of which providers may say nothing while it is idle.
 * With surely, it must not be possible either that another one has taken its place. */
int ofi_connection_ended(struct weft_link *link, int surely);
/* Ends what this process has connected to the peer's address and never got an answer on. */
void ofi_requests_drop(struct weft_link *link);
/* Fails the link and begins to cut its connection. */
void ofi_sever_begin(struct weft_link *link, const char *why);
/* Whether the connection has ended. */
int ofi_sever_done(struct weft_link *link);

/* put.c */
int ofi_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
            const void *memory, size_t size, uint64_t cookie);
void ofi_put_completed(struct weft_transport *transport, struct ofi_put *put, int status);
/* Nobody wants to hear of the put any more; it goes on. */
void ofi_put_recall(struct weft_link *link, uint64_t cookie);
/* A put of the link that was recalled and goes on. */
int ofi_put_is_recalled(const struct weft_link *link);
void ofi_put_reported(struct weft_transport *transport, struct ofi_put *put);
void ofi_puts_free(struct weft_transport *transport);

/* completion.c */
int ofi_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);
/* Reads completions and does what is due, without reporting anything to the caller yet. */
int ofi_progress(struct weft_transport *transport, int limit);
/* Stops the endpoint: every link fails, every operation that runs has failed, every call answers so. */
void ofi_break(struct weft_transport *transport, const char *why);
void ofi_event_push(struct weft_transport *transport, struct ofi_event *event, enum weft_event_kind kind,
                    int status);
int ofi_fds(struct weft_transport *transport, int *fds, int capacity);
int ofi_arm(struct weft_transport *transport);

#endif
