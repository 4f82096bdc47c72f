/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the shm transport share. See shm.c for the picture. */
#ifndef WEFT_TRANSPORT_SHM_PRIVATE_H
#define WEFT_TRANSPORT_SHM_PRIVATE_H

#include <pthread.h>
#include <weft/transport.h>
#include "base/choice.h"
#include "base/distance.h"
#include "base/error.h"
#include "transport/shm/ring.h"
#include "transport/shm/wire.h"

#define SHM_PAGE          4096u
#define SHM_FRAME_FDS     2
#define SHM_MAP_CACHE     8u
#define SHM_CONTROL_BYTES (4u * SHM_PAGE)
#define SHM_CELLS         ((SHM_CONTROL_BYTES - 64u) / 8u)

/* Pages that the owner writes and everybody who sends to it reads. */
struct shm_control {
    _Atomic uint32_t sleep;                         /* odd while it sleeps, another value for every sleep */
    _Alignas(64) _Atomic uint64_t cells[SHM_CELLS]; /* cells.c */
};

_Static_assert(sizeof(struct shm_control) == SHM_CONTROL_BYTES, "the control pages are whole pages");

/* Memory of a peer, mapped here. */
struct shm_mapping {
    uint64_t id;
    uint64_t size;
    void *base;
    int freed; /* by its owner */
    int swept; /* zero pages since a poll() after that; the addresses stay until the peer goes */
    struct shm_mapping *next;
};

/* Everything known about another instance. Guarded by the transport's lock, except pid. Lives while links or
 * channels refer to it. */
struct shm_peer {
    struct shm_identity identity;
    uint32_t references;
    uint32_t deliveries; /* of its messages, ever; it wraps. The polling thread's */
    uint32_t unhelped;   /* reads of its memory since it helped or fed last (pull.c). The polling thread's */
    uint32_t read_as;    /* SHM_TOKEN_* of the token that was read last. The polling thread's */
    _Atomic int pid;     /* by which its memory can be pulled; 0: it cannot */
    struct shm_control *_Atomic control;
    struct shm_mapping *mappings;
    struct shm_peer *next;
};

enum shm_channel_state { SHM_CHANNEL_NEW, SHM_CHANNEL_UP, SHM_CHANNEL_DEAD };

/* The receiving end of a peer's link. state, watched, failure and peer are guarded by the lock; the ring belongs to
 * the polling thread once the channel is adopted. */
struct shm_channel {
    struct shm_consumer ring;
    struct shm_peer *peer;
    struct weft_transport *transport;
    struct shm_identity source; /* as proven */
    int fd;
    int watched;
    int broken; /* has sent nonsense: read no more */
    int failure; /* of a frame that the polling thread could not take; the service thread ends the channel then */
    int adopted;
    uint64_t asked; /* `wanted` of the last read that is fed. The polling thread's */
    uint64_t
        fed_next; /* the number of the block at which the next read begins that is fed. The polling thread's */
    _Atomic int state;
    struct shm_channel *next;
};

/* What a link that is coming up waits for. */
enum shm_link_step { SHM_STEP_CHALLENGE, SHM_STEP_WELCOME, SHM_STEP_REPLY };

enum shm_link_state { SHM_LINK_DIALING, SHM_LINK_WAITING, SHM_LINK_UP, SHM_LINK_FAILED };

struct shm_map_entry {
    uint64_t id;
    uint64_t size;
    const uint8_t *base;
};

/* Memory with which a peer is fed. */
struct shm_fed_piece {
    uint64_t number; /* of the first block, and 1; 0: there is none */
    const uint8_t *source;
    uint64_t bytes, done;
    uint32_t cell, slice_blocks;
    int is_past; /* the caches */
};

/* How a reader wants to be fed. */
struct shm_fed_how {
    uint32_t is_wish; /* 1: of its own, and not as the peer wants to be fed */
    uint32_t is_past; /* 1: past the caches; what is fed ahead otherwise is not used */
};

/* Of a link, and the polling thread's. */
struct shm_feeding {
    struct shm_fed_piece asked, ahead;
    uint64_t ahead_next; /* number of the block at which the next piece begins that is fed ahead */
    int is_ahead_good;   /* the peer has used the last one, or has asked when there was none */
    int has_blocks;      /* they have memory */
    uint32_t wishes;     /* as shm_feed_was_wanted() has seen them */
    int64_t given_ns;    /* when the last slice was, by a coarse clock */
    uint64_t exposed;    /* memory, so often */
};

/* How ordinary memory is read. */
enum shm_read { SHM_READ_KERNEL, SHM_READ_FED, SHM_READ_PAST, SHM_READ_WAYS };
_Static_assert(SHM_READ_WAYS == WEFT_CHOICE_WAYS, "costs of each");

/* What the reader of a peer's memory has found: how near it is, and which enum shm_read is the fastest for ordinary memory. The polling thread's. */
struct shm_reads {
    struct weft_choices choices[2]; /* while the peer's processor is near, and while it is far */
    struct weft_distance distance;
    uint64_t exposed; /* by the peer, as of the last look */
    uint32_t count;   /* of reads, and of staged messages: one in so many looks */
    uint32_t looks;
    int wants_past; /* what is staged for it */
};

/* The sending end. fd, watched: guarded by the lock once connect() has returned. */
struct weft_link {
    _Atomic int state;
    int light; /* see base/fence.h */
    struct shm_producer ring;
    uint32_t answered;           /* the peer's deliveries, as of the last message */
    int demotes;                 /* see base/demote.h */
    struct shm_control *control; /* the peer's */
    _Atomic uint32_t rung;       /* the sleep that was already ended */
    int wake_fd;
    uint32_t flags; /* enum weft_link_flags */
    struct weft_transport *transport;
    struct shm_peer *peer;
    void *context;
    struct weft_link *next;
    struct shm_map_entry cache[SHM_MAP_CACHE];
    uint32_t exposures;         /* of ordinary memory, large enough to help with or to feed */
    struct shm_feeding feeding; /* of the peer, from this process's memory */
    struct shm_reads *reads;    /* NULL: it has read neither ordinary memory of the peer nor what it stages */
    uint64_t offered_bytes, helped_bytes, fed_bytes; /* of what was pulled here, see link_help() */
    uint64_t *sent; /* bitmap over the transport's segments: the peer has it */
    uint32_t sent_words;
    uint32_t count; /* of connect() calls */
    int fd;
    int watched;
    int reported; /* LINK_FAILED was delivered */
    int fail_status;
    int probe_errno;       /* why the peer cannot read this process's memory, 0: it can, or has not tried */
    uint64_t nonce, probe; /* probe is what the peer reads by its address */
    enum shm_link_step step;
    int64_t dial_ns, dial_until_ns; /* not before, and not after */
    struct weft_key key;            /* the peer's */
    struct shm_challenge challenge;
    struct shm_proof proof;
};

/* Memory of alloc(). */
struct shm_segment {
    uint8_t *base; /* NULL: free entry */
    uint64_t size;
    uint64_t id;
    int fd;
};

struct weft_transport {
    struct shm_channel **inbound; /* adopted channels; the first few are looked at by every poll() */
    uint32_t inbound_count, inbound_capacity;
    uint32_t cold_next, hot_next;
    uint32_t exposures;    /* the links' together */
    struct iovec *exposed; /* of each cell, what is counted there */
    _Atomic int attention; /* something changed off the polling thread */
    struct shm_control *control;
    struct weft_link *links;
    struct shm_segment *segments;
    uint32_t segment_count;
    uint64_t last_segment;
    uint32_t free_cell_count;
    uint16_t free_cells[SHM_CELLS];
    int direct;
    int light;
    int demotes;
    int event_fd, control_fd, listen_fd, timer_fd;
    int helps;                      /* 0: its setting says no, or the kernel */
    uint32_t fed_links;             /* whose blocks have memory */
    int64_t denied_ns;              /* when there was none for more; 0: never */
    int listening;                  /* listen_fd and timer_fd are watched */
    int closing;                    /* under the lock */
    struct shm_stranger *strangers; /* oldest first; under the lock */
    uint32_t stranger_count, strangers_dropped;
    struct shm_address address;
    pthread_mutex_t lock;
    struct shm_channel *channels; /* all of them; under the lock */
    struct shm_peer *peers;
    struct weft_transport_params params;
};

/* memory.c: sealed memfds and their mappings. All descriptors are CLOEXEC; statuses come with a reason. */
int shm_memfd_make(struct weft_transport *transport, size_t size, int *fd);
/* Seals against any change of size and against writable mappings by others. */
int shm_memfd_seal(struct weft_transport *transport, int fd, int read_only);
/* WEFT_PROTOCOL unless fd is a memfd of exactly size bytes that can never shrink. */
int shm_memfd_check(struct weft_transport *transport, int fd, size_t size);
/* Maps the whole of it, large ones so that huge pages fit. populate: touches the first so many bytes now. */
int shm_memfd_map(struct weft_transport *transport, int fd, size_t size, int writable, size_t populate,
                  void **memory);

/* frame.c: frames and descriptors over a socket. */
int shm_frame_send(struct weft_transport *transport, int socket_fd, const struct shm_frame *frame,
                   const int *fds, int fd_count);
/* WEFT_AGAIN: nothing there; WEFT_PEER_FAILED: closed. Unused entries of fds are -1; the caller closes. */
int shm_frame_receive(struct weft_transport *transport, int socket_fd, struct shm_frame *frame,
                      int fds[SHM_FRAME_FDS]);
/* The other process, as the kernel saw it: WEFT_ACCESS unless its user is ours. pid is 0 when invisible. */
int shm_socket_peer(struct weft_transport *transport, int socket_fd, int *pid);
int shm_socket_name(const struct shm_identity *identity, void *sockaddr_un);

/* link.c: the sending end. */
int shm_connect(struct weft_transport *transport, const void *address, size_t size, void *link_context,
                struct weft_link **link);
void shm_disconnect(struct weft_link *link);
/* Tries again to reach a listener whose queue was full. Returns 1 when it must be tried once more. */
int shm_link_redial(struct weft_link *link);
/* Why a link does not work. */
int shm_link_down(struct weft_link *link);

/* prove.c: the blocks that come before the first frame. */
void shm_challenge_make(struct shm_challenge *challenge);
void shm_proof_make(const struct weft_key *key, const struct shm_challenge *challenge,
                    const struct shm_identity *source, const struct shm_identity *target,
                    struct shm_proof *proof);
/* 1 when the proof is right; the answer to it is then in *welcome. */
int shm_proof_check(const struct weft_key *key, const struct shm_challenge *challenge,
                    const struct shm_identity *target, const struct shm_proof *proof,
                    struct shm_welcome *welcome);
int shm_welcome_check(const struct weft_key *key, const struct shm_challenge *challenge,
                      const struct shm_identity *target, const struct shm_proof *proof,
                      const struct shm_welcome *welcome);

/* listener.c */
int shm_listener_watch(struct weft_transport *transport);
void shm_listener_close(struct weft_transport *transport);

/* channel.c: the receiving end. */
/* Under the lock, on the service thread: takes over the connection of a peer that has proven itself. The caller
 * closes fd when this fails. */
int shm_channel_make(struct weft_transport *transport, int fd, const struct shm_identity *source);
/* Reads frames that have come for a channel. Under the lock; leaves the end of a channel to the service. WEFT_OK, or why one that came could
 * not be taken. */
int shm_channel_refresh(struct shm_channel *channel);
/* Ends a channel that is dead or whose transport closes. Not under the lock. */
void shm_channel_free(struct shm_channel *channel);

/* segment.c */
int shm_alloc(struct weft_transport *transport, size_t size, void **memory);
void shm_free(struct weft_transport *transport, void *memory);
int shm_expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
               struct weft_token *token);
void shm_expose_whole(struct weft_link *link, struct weft_token *token);
int shm_map(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory);
int shm_pull(struct weft_link *link, const struct weft_token *token, uint64_t offset, void *destination,
             size_t size, uint32_t flags);
/* Unmaps what its owner has freed. */
void shm_mappings_sweep(struct weft_transport *transport);

/* pull.c */
/* Pulls from offset on what the token stands for, from the peer's process, which may feed this one or help. */
int shm_pull_ordinary(struct weft_link *link, int pid, const struct shm_token *token, uint64_t offset,
                      void *destination, size_t size, uint32_t flags);
int shm_link_help(struct weft_link *link, struct weft_link_help *help);

/* near.c */
/* NULL: no memory. */
struct shm_reads *shm_reads_of(struct weft_link *link);
/* So many bytes of the peer's memory are read next: sees now and then how near it is. */
void shm_reads_begin(struct weft_link *link, struct shm_reads *reads, uint64_t bytes);
/* Sees now how near it is. Returns where `choices` are from now on, NULL: nowhere. */
struct weft_choices *shm_reads_look(struct weft_link *link, struct shm_reads *reads,
                                    struct weft_choices *choices);
/* So many bytes are read next that the peer has staged: as shm_reads_begin(). */
void shm_look(struct weft_link *link, uint64_t bytes);

/* feed.c */
/* Fills some of the slices that a peer wants of this instance's memory: 1. 0: none wants or takes any. */
int shm_feed_give(struct weft_transport *transport);
/* Memory is exposed, by a cell of its own, for a message that may be fed ahead: returns what its token says of that, 0: it is not. */
uint64_t shm_feed_ahead(struct weft_link *link, const void *memory, size_t size, uint32_t cell);
/* Whether the peer has wanted to be fed with about so many bytes, since this was asked last. */
int shm_feed_was_wanted(struct weft_link *link, size_t size);
/* Whether it has last wanted that past the caches. */
int shm_feed_is_past(const struct weft_link *link);
/* Memory has been exposed: fed, staged or mapped. The link is up. */
void shm_feed_exposed(struct weft_link *link);
/* Whether what is staged for the peer is to go past the caches: by the setting, or as the peer wants it. The link is up. */
int shm_feed_stages_past(const struct weft_link *link);
/* Says to the peer how it had better be. */
void shm_feed_say_past(struct weft_link *link, int is_past_better);
/* Sees how near the peer is, whose memory is about to be read. Returns what weft_distance_observe() does. */
int shm_feed_look(struct weft_link *link, struct shm_reads *reads);
/* Has the peer feed this process, which begins at once or not at all. flags: WEFT_PULL_*. Returns how many bytes have come, from the first
 * on. */
size_t shm_pull_fed(struct weft_link *link, const struct shm_token *token, uint64_t offset, void *destination,
                    size_t size, const struct shm_fed_how *how, uint32_t flags);
/* The link ends. */
void shm_feed_end(struct weft_link *link);

/* help.c */
/* Copies what a peer offers of what it is reading of this instance's memory: 1. 0: there is none. */
int shm_help_give(struct weft_transport *transport);
/* Pulls by the kernel. asks: the peer may write half of it. */
int shm_pull_helped(struct weft_link *link, int pid, const struct shm_token *token, uint64_t offset,
                    void *destination, size_t size, int asks);

/* stopped.c: whether all threads of a process are stopped, or have ended. 0 where /proc does not say. */
int shm_process_is_stopped(int pid);

/* cells.c */
void shm_cells_init(struct weft_transport *transport);
void shm_cell_take(struct weft_link *link, struct shm_token *token);
/* Whether the memory lies in ordinary memory that is exposed by this cell, and large enough to help with. */
int shm_cell_covers(const struct weft_transport *transport, uint32_t cell, const void *memory, size_t size);
/* After reading: WEFT_PEER_FAILED when the token's owner has taken the memory back. */
int shm_cell_check(const struct weft_link *link, const struct shm_token *token);
void shm_unexpose(struct weft_link *link, const struct weft_token *token, int taken);
int shm_exposed(struct weft_link *link, const struct weft_token *token);

/* wake.c, of a link that is up. Ends this sleep of the peer's: writes to it at most once per sleep and link. */
void shm_peer_ring(struct weft_link *link, uint32_t sleep);
/* Wakes it where it sleeps now, after what was written for it. */
void shm_peer_wake(struct weft_link *link);

/* poll.c */
int shm_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
             size_t payload_size);
int shm_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);
int shm_fds(struct weft_transport *transport, int *fds, int capacity);
int shm_arm(struct weft_transport *transport);
void shm_disarm(struct weft_transport *transport);
int shm_notify(struct weft_link *link);
int shm_link_flags(struct weft_link *link, uint32_t *flags);

/* shm.c. Under the lock: the peer of an identity, one reference taken or given back. */
struct shm_peer *shm_peer_get(struct weft_transport *transport, const struct shm_identity *identity);
void shm_peer_put(struct weft_transport *transport, struct shm_peer *peer);
/* Makes the polling thread look around, waking it if it sleeps. */
void shm_attention(struct weft_transport *transport);

/* The peer's end of the link, whose ring both have mapped; NULL: it has not come up, or cannot be believed. */
static inline struct shm_channel *shm_channel_of(const struct weft_link *link)
{
    const struct weft_transport *transport = link->transport;
    for (uint32_t i = transport->inbound_count; i-- > 0;) {
        struct shm_channel *channel = transport->inbound[i];
        if (channel->peer == link->peer && !channel->broken &&
            atomic_load_explicit(&channel->state, memory_order_relaxed) == SHM_CHANNEL_UP)
            return channel;
    }
    return NULL;
}

#endif
