/* SPDX-License-Identifier: Apache-2.0 */
/* How bytes move: the contract between weft's executor and a transport, and the plug-in ABI for new ones.
 *
 * A transport moves three things between processes:
 *   messages  short header plus payload, at most caps.eager_bytes together, in order per link, copied before
 *             send() returns. Flow control is the transport's: send() answers WEFT_AGAIN when the peer has no
 *             room, and the caller tries again after poll().
 *   puts      long payload written straight into a receive buffer: memory that the receiver has prepared, and whose
 *             token it has handed over in a message: advertise() -> token -> put() -> PUT_DONE here, FILLED there.
 *   reads     long payload read by the receiver straight from the sender's memory, whose token was handed
 *             over in a message: expose() -> token -> map() or pull().
 * A transport offers puts or reads or both (caps.flags); the executor chooses. Links may be made by out-of-band
 * messages, short ones outside of links that the context carries (oob_send() in the params, oob_receive()). Who sends tokens and
 * acknowledgements is the executor's business, not the transport's.
 *
 * Operations that a transport lacks may be NULL in its table; weft_transport_complete()
 * (transport/registry.c) fills them with a default that answers WEFT_UNSUPPORTED, so that every operation is
 * callable.
 *
 * Threads: the caller serialises all calls on one transport instance, except `watch` callbacks, which arrive
 * on the context's service thread, and notify(), which may be called from any thread at any time. Callbacks
 * of poll() run inside poll() on the calling thread; they may call send, put, advertise, expose, map, pull and
 * release functions of the same transport but not poll or close.
 * Blocking: only open, close, reg, reg_source, reg_device, dereg, withdraw and recall_wait may block, for a bounded time.
 * Everything else returns at once.
 * Errors: 0 or a negative enum weft_status.
 * Memory visibility: when poll() reports a MESSAGE or FILLED, the bytes are visible to the calling thread.
 */
#ifndef WEFT_TRANSPORT_H
#define WEFT_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT_TRANSPORT_ABI 4
#define WEFT_ADDRESS_MAX   256  /* longest transport address in bytes */
#define WEFT_RECALL_MS     1600 /* how long recall_wait() may take */
#define WEFT_TOKEN_SIZE    48   /* a token is opaque to everybody but the transport that made it */
#define WEFT_OOB_MAX       1024 /* bytes of an out-of-band message from one instance to another */

struct weft_transport; /* one opened instance; defined by the backend */
struct weft_link;      /* a path to one peer; defined by the backend */
struct weft_region;    /* registered memory; defined by the backend */

struct weft_token {
    uint8_t bytes[WEFT_TOKEN_SIZE];
};

enum weft_pull_flags {
    WEFT_PULL_STREAMING = 1 << 0, /* nobody reads it soon where it comes to: it may go past the caches */
};

enum weft_transport_flags {
    WEFT_CAP_PUT = 1 << 0,        /* advertise() and put() work */
    WEFT_CAP_READ = 1 << 1,       /* expose() and map() or pull() work */
    WEFT_CAP_REG_LOCAL = 1 << 2,  /* put() needs a region for its source */
    WEFT_CAP_REG_REMOTE = 1 << 3, /* advertise() needs a region */
    WEFT_CAP_SAME_HOST = 1 << 4,  /* peers share this host's memory */
    WEFT_CAP_NOTIFY = 1 << 5,     /* notify() wakes a peer that sleeps on its descriptors */
    /* A region may outlive the operations that use it, and be wider than what they advertise or put: the token of a
     * receive buffer is of no use to a peer afterwards or beside it. */
    WEFT_CAP_REG_KEEP = 1 << 6,
    WEFT_CAP_DMABUF = 1 << 7,         /* reg_device() takes dma-bufs */
    WEFT_CAP_DEVICE_POINTER = 1 << 8, /* reg_device() takes pointers, of some kinds of devices */
};

struct weft_transport_caps {
    size_t size;
    uint32_t flags;
    uint32_t eager_bytes; /* largest header + payload of one message */
    uint64_t put_bytes;   /* largest put; the executor splits above it */
};

enum weft_event_kind {
    WEFT_EVENT_MESSAGE,     /* header and payload in data/data_size, valid during the callback only */
    WEFT_EVENT_PUT_DONE,    /* cookie of put(): the source memory is free, the bytes are at the peer */
    WEFT_EVENT_FILLED,      /* cookie of advertise(): the memory is filled */
    WEFT_EVENT_LINK_FAILED, /* link_context of connect(); status says why; the link only answers errors now */
};

struct weft_event {
    enum weft_event_kind kind;
    int status;       /* 0, or why this put, receive buffer or link failed */
    const void *data; /* MESSAGE; aligned to 8 bytes */
    size_t data_size;
    uint64_t cookie;    /* PUT_DONE, FILLED */
    void *link_context; /* LINK_FAILED */
    const void
        *sender; /* MESSAGE: opaque, who sent it: for sent_by(); NULL where a transport does not know */
};

typedef void weft_event_handler(void *arg, const struct weft_event *event);

/* Device memory, for reg_device(). */
struct weft_device_memory {
    size_t size;  /* of this struct, as the caller knows it */
    void *memory; /* where it begins in this process, which need not be able to touch it */
    uint64_t bytes;
    const char *kind; /* of device, as its table (include/weft/device.h) calls itself */
    int32_t ordinal;  /* the device */
    int32_t fd;       /* a dma-buf that has it, which stays the caller's; -1: by pointer */
    uint64_t offset;  /* of memory in the dma-buf */
    uint32_t flags;   /* enum weft_span_flags: what else is known of the memory */
    uint32_t reserved;
};

/* Called on the service thread when a watched descriptor is readable. */
typedef void weft_watch_callback(void *arg, int fd);

/* Numbers of the verbs transport; each is the setting of that name (base/settings.c has the ranges). Begin with
 * WEFT_VERBS_SETTINGS_INIT, the defaults. */
struct weft_verbs_settings {
    size_t size;             /* of this struct, as the caller knows it */
    int64_t qps;             /* WEFT_VERBS_QPS: queue pairs per rail and peer */
    int64_t rails;           /* WEFT_VERBS_RAILS: ports used at most */
    int64_t stripe_bytes;    /* WEFT_VERBS_STRIPE: puts of at least that are cut over all queue pairs */
    int64_t gid_index;       /* WEFT_VERBS_GID: -1 chooses */
    int64_t traffic_class;   /* WEFT_VERBS_TRAFFIC_CLASS */
    int64_t service_level;   /* WEFT_VERBS_SERVICE_LEVEL */
    int64_t timeout;         /* WEFT_VERBS_TIMEOUT: acknowledgements are awaited for 4.096 us * 2^timeout */
    int64_t retry;           /* WEFT_VERBS_RETRY: of what is not acknowledged; soft-RoCE takes 7 as endless */
    int64_t partition_index; /* WEFT_VERBS_PKEY: index into the port's table of partition keys */
    int64_t odp;             /* WEFT_VERBS_ODP: 1 on-demand paging where offered */
    int64_t relaxed;         /* WEFT_VERBS_RELAXED: 1 relaxed ordering where offered */
    int64_t windows;         /* WEFT_VERBS_WINDOWS: 1 memory windows where offered */
    int64_t failover;        /* WEFT_VERBS_FAILOVER: 1 a dead rail's traffic moves to the others */
};
#define WEFT_VERBS_SETTINGS_INIT                                                                             \
    {                                                                                                        \
        .size = sizeof(struct weft_verbs_settings), .qps = 1, .rails = 4, .stripe_bytes = 1 << 18,           \
        .gid_index = -1, .timeout = 18, .retry = 7, .relaxed = 1, .windows = 1                               \
    }

/* Whether the reader of a peer's ordinary memory has its owner write half of it, where the owner waits anyway. */
enum weft_help {
    WEFT_HELP_AUTO,   /* a peer that has not helped for some time is asked less often */
    WEFT_HELP_ALWAYS, /* every one is asked every time */
    WEFT_HELP_NEVER,  /* this instance neither asks nor helps */
};

/* Whether the owner of ordinary memory feeds those that read it: both copy, through memory that both have in a cache, or past the caches. */
enum weft_fed {
    WEFT_FED_AUTO,   /* where the reader finds that faster than the kernel's copy, as it finds faster */
    WEFT_FED_NEVER,  /* of this instance's memory nobody is fed */
    WEFT_FED_ALWAYS, /* whoever asks is, and readers ask whatever is faster: as often as WEFT_HELP_* has it */
    WEFT_FED_PAST,   /* likewise, past the caches */
};

/* What has come of that, for link_help(). */
struct weft_link_help {
    size_t size; /* of this struct, as the caller knows it */
    uint64_t
        bytes_offered; /* of what pull() has read over the link: those that its owner might have written */
    uint64_t bytes_helped; /* and those that it has */
    int is_offered;        /* 1: the next large read by the kernel is offered */
    char why[116];         /* a line for people on why, or why not */
    uint64_t bytes;        /* by the caller: of the reads that it asks about */
    uint64_t bytes_fed;    /* and, not among those offered, what the owner has fed */
    int is_fed;            /* 1: a read of so many bytes is fed */
};

/* What the context gives a transport when it opens it. Strings and tables live until close(). */
struct weft_transport_params {
    size_t size;
    const char *provider; /* ofi: provider wanted, NULL or "" for the first that fits */
    /* Numeric IP address that peers reach this rank by, NULL when all are local. A link-local one has an interface of this host behind
     * it ("fe80::1%eth0"), which is no part of what peers read. */
    const char *local_address;
    int direct;        /* shm: 0 never reads peers' memory by system call */
    uint64_t instance; /* random, unique per context: part of shm's address */
    /* Watches a descriptor on the service thread; unwatch returns only when no callback runs any more. */
    void *watch_arg;
    int (*watch)(void *watch_arg, int fd, weft_watch_callback *callback, void *arg);
    void (*unwatch)(void *watch_arg, int fd);
    /* Every backend says why it fails through this: one line for weft_error_detail(). Returns status. */
    int (*fail)(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void (*log)(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
    /* Out-of-band messages: how instances talk before there is a link between them. Passes at most WEFT_OOB_MAX bytes to the
     * oob_receive() of the instance that has this address, some time, over the bootstrap's authenticated overlay. One that
     * is lost is not missed by anybody else: the transport repeats it, so these messages are idempotent. WEFT_AGAIN: no
     * way now, try later; WEFT_PEER_FAILED: nobody has this address any more, or the bootstrap knows that it is
     * dead. NULL: this context has none. Returns at once; may be called inside any operation of the transport,
     * callbacks of poll() included. */
    void *oob_arg;
    int (*oob_send)(void *oob_arg, const void *address, size_t address_size, const void *message,
                    size_t size);
    const char *devices;                     /* verbs: WEFT_VERBS_DEVICE, NULL or "" to choose */
    const struct weft_verbs_settings *verbs; /* NULL: the defaults */
    int device_memory; /* 1: reg_device() may be called; an instance that was opened without may refuse */
    int help;          /* shm: enum weft_help */
    int fed;           /* shm: enum weft_fed */
};

struct weft_transport_ops {
    size_t size; /* of this table, as the backend knows it */
    uint32_t abi;
    const char *name;

    /* Opens an instance. WEFT_NOT_FOUND when the device or library is absent, saying what to install. */
    int (*open)(const struct weft_transport_params *params, struct weft_transport **transport);
    /* Closes links, regions and instance. Every message whose send() returned 0 before reaches its peer as
     * long as the peer keeps polling for a moment (close may block up to 1 s for that). */
    void (*close)(struct weft_transport *transport);
    void (*caps)(const struct weft_transport *transport, struct weft_transport_caps *caps);
    /* Copies the own address; *size is capacity in, length out. */
    int (*address)(struct weft_transport *transport, void *address, size_t *size);
    /* Whether the two addresses can talk at all, by looking (same boot, same network namespace): 1 or 0. */
    int (*reachable)(struct weft_transport *transport, const void *address, size_t size);

    /* Makes a link. Returns at once; the link may still be coming up (send() then answers WEFT_AGAIN).
     * Connecting twice to one address gives the same link, counted, unless that one has failed meanwhile, known
     * so far or only found now: then a new one. */
    int (*connect)(struct weft_transport *transport, const void *address, size_t size, void *link_context,
                   struct weft_link **link);
    void (*disconnect)(struct weft_link *link);

    /* Registers memory for advertise(), put() and expose(). */
    int (*reg)(struct weft_transport *transport, void *memory, size_t size, struct weft_region **region);
    void (*dereg)(struct weft_region *region);

    /* Allocates memory that peers can map; NULL where a transport has none. Page aligned, zeroed; its region
     * is used by expose() implicitly: the transport finds it by address. */
    int (*alloc)(struct weft_transport *transport, size_t size, void **memory);
    void (*free)(struct weft_transport *transport, void *memory);

    /* Sends a message: header then payload. WEFT_AGAIN: no room now, nothing was sent. */
    int (*send)(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                size_t payload_size);

    /* Prepares memory to receive one put of exactly size bytes from link's peer. region may be NULL without
     * WEFT_CAP_REG_REMOTE. withdraw() withdraws: no byte is written there after it returns, and no FILLED follows.
     * Of many receive buffers at once, see recall(). */
    int (*advertise)(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                     uint64_t cookie, struct weft_token *token);
    void (*withdraw)(struct weft_link *link, const struct weft_token *token);
    /* Writes size bytes into the peer's receive buffer. WEFT_AGAIN: queue full, nothing was started. WEFT_CANCELLED: the peer has
     * taken the buffer back. The link goes on. */
    int (*put)(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
               const void *memory, size_t size, uint64_t cookie);

    /* Describes memory so that link's peer can read it, until unexpose(). Whether the peer may actually read is
     * known from link_flags(). */
    int (*expose)(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                  struct weft_token *token);
    /* The exposed memory as a loadable address, valid until the peer's memory is freed or the link goes.
     * token came from link's peer, who may have written anything into it: WEFT_PROTOCOL when it does not stand for
     * at least size bytes, so that all of [*memory, *memory + size) can be loaded. The address is aligned as the
     * peer likes; a caller that needs it aligned looks. WEFT_UNSUPPORTED when this memory can only be pulled. See
     * exposed(). */
    int (*map)(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory);
    /* Copies [offset, offset + size) of the exposed memory to destination; WEFT_PEER_FAILED when the owner has
     * taken it back. flags: of WEFT_PULL_*. */
    int (*pull)(struct weft_link *link, const struct weft_token *token, uint64_t offset, void *destination,
                size_t size, uint32_t flags);

    /* Delivers events; at most budget. Returns how many, or a negative status when the instance is broken. */
    int (*poll)(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);

    /* Sleeping. fds() fills up to capacity descriptors that become readable when there may be work, and
     * returns how many. Before sleeping the caller arms: 0 means it may sleep on the descriptors, WEFT_AGAIN
     * that work is waiting. disarm() after waking. With no descriptors the caller polls with backoff. */
    int (*fds)(struct weft_transport *transport, int *fds, int capacity);
    int (*arm)(struct weft_transport *transport);
    void (*disarm)(struct weft_transport *transport);
    /* Wakes link's peer if it sleeps. */
    int (*notify)(struct weft_link *link);

    /* WEFT_LINK_* of an established link; WEFT_AGAIN while it is coming up. */
    int (*link_flags)(struct weft_link *link, uint32_t *flags);

    /* Whether something that was sent or put still needs poll() to get on its way, or a peer may be waiting
     * for an answer that only poll() gives, or poll() has something to give back: 1 or 0. */
    int (*busy)(struct weft_transport *transport);

    /* Ending early. recall() asks one thing back and returns at once: the receive buffer of this token, or with
     * token NULL the put with this cookie that runs on this link; what is over or unknown is ignored.
     * WEFT_UNSUPPORTED where a transport has only withdraw(). recall_wait() returns when
     *   - no byte is written any more to anything that was recalled on the instance, and no FILLED follows;
     *   - no put that was recalled reads its source any more. It has been finished, or cut short in a way
     *     that the peer notices: FILLED with status 0 does not follow there. No PUT_DONE follows here.
     * It waits for all peers at once, at most WEFT_RECALL_MS whatever they do. The link to a peer that stays
     * silent fails; others may fail with it only where a transport cannot help it. Both may be called from
     * callbacks of poll(). A communicator that ends early calls recall_wait() with nothing recalled as well: its
     * peers are about to ask, so the instance is busy() for a while if they need poll() for an answer. */
    int (*recall)(struct weft_link *link, const struct weft_token *token, uint64_t cookie);
    void (*recall_wait)(struct weft_transport *transport);

    /* Whether sender, from a MESSAGE of this instance, is the instance that has this address: 1 or 0. */
    int (*sent_by)(struct weft_transport *transport, const void *sender, const void *address, size_t size);

    /* The end of what expose() made. taken: the peer has read all that it wants. Otherwise the memory is taken
     * back: once this has returned it may be overwritten, and whatever link's peer reads from then on is refused
     * there by pull() or exposed(). */
    void (*unexpose)(struct weft_link *link, const struct weft_token *token, int taken);
    /* For the reader of a mapped token, after reading and before using what was read: WEFT_PEER_FAILED when the
     * owner may have taken the memory back before the last byte was read. */
    int (*exposed)(struct weft_link *link, const struct weft_token *token);

    /* An out-of-band message (oob_send() in the params) from the instance that has the address `from`, for which the bootstrap vouches:
     * a member of a communicator with this one. Its bytes are the peer's, who may write anything, or wrote for another
     * transport: what makes no sense is ignored. Called like the other operations, outside of poll(). Connecting may take the
     * kernel a second where the peer's network interface does not answer (RoCE's neighbour resolution). */
    void (*oob_receive)(struct weft_transport *transport, const void *from, size_t from_size,
                        const void *message, size_t size);
    /* One line for people on why the link failed, or NULL: what failed where (device, port, GID, port's state) and what
     * to look at next. Lives as long as the link. */
    const char *(*why)(struct weft_link *link);
    /* The ports that it uses: fills up to capacity, as far as each entry's size goes, and returns how many there are. */
    int (*rails)(struct weft_transport *transport, weft_rail *rails, int capacity);
    /* Registers memory that is only sent from: put() takes the region, advertise() refuses it with WEFT_INVALID. For memory that
     * reg() answers WEFT_INVALID for, as the program itself may not write there. */
    int (*reg_source)(struct weft_transport *transport, void *memory, size_t size,
                      struct weft_region **region);
    /* Registers device memory, for advertise() and put(), which then always need its region, also without WEFT_CAP_REG_LOCAL and
     * WEFT_CAP_REG_REMOTE. Negative: not in this way; the caller tries another, and last copies through host memory. Peers
     * that have the token of a receive buffer in it may be able to write to all of the region while it lasts. Neither send() nor
     * expose() take such memory. */
    int (*reg_device)(struct weft_transport *transport, const struct weft_device_memory *memory,
                      struct weft_region **region);
    /* What came of having link's peer help with pull(). WEFT_UNSUPPORTED: nobody helps here. */
    int (*link_help)(struct weft_link *link, struct weft_link_help *help);
    /* Of memory that expose() has described just now: all of it may be read from now on, so the instance may begin to copy it for the peer. The
     * token, which is changed, says so. */
    void (*expose_whole)(struct weft_link *link, struct weft_token *token);
    /* A message of so many bytes is about to be read that link's peer stages, piece by piece, in memory that is mapped here. The instance may measure how near
     * the peer is, and ask it to write past the caches: then the peer's link has WEFT_LINK_PAST_CACHES. */
    void (*look)(struct weft_link *link, uint64_t bytes);
};

enum weft_link_flags {
    WEFT_LINK_PEER_MAPS = 1 << 0,  /* the peer can map memory of alloc() */
    WEFT_LINK_PEER_PULLS = 1 << 1, /* the peer can pull ordinary memory of this process */
    /* What is copied into memory of alloc() for the peer to read had better go past the caches, as it reads from far, or has measured that. It may change
     * at any time. */
    WEFT_LINK_PAST_CACHES = 1 << 2,
};

#endif
