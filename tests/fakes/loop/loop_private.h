/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the loop transport share. See loop.c for the picture. */
#ifndef WEFT_TESTS_FAKES_LOOP_PRIVATE_H
#define WEFT_TESTS_FAKES_LOOP_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <weft/transport.h>
#include "tests/fakes/loop/ring.h"

#define LOOP_PEERS_MAX   1024u
#define LOOP_RBUFS_BLOCK 64u
#define LOOP_RBUFS_MAX   4096u

enum loop_rbuf_state { LOOP_FREE, LOOP_ARMED, LOOP_WRITING, LOOP_WRITTEN };

/* Memory prepared for one put. state is generation << 2 | enum loop_rbuf_state; the owner arms and frees,
 * the putter moves it ARMED -> WRITING -> WRITTEN, so that withdraw() knows when nothing is written any more. */
struct loop_rbuf {
    _Atomic uint64_t state;
    uint64_t peer; /* id of the only inbox whose owner may put */
    void *memory;
    uint64_t size;
    uint64_t cookie;
    uint32_t next_free;
};

/* The part of an instance that other instances touch: lives until the last channel to it is gone. */
struct loop_inbox {
    /* bytes[i]: look at inbound[i]; set by its producer. Read eight at a time as words. */
    _Alignas(64) union {
        _Atomic uint8_t bytes[LOOP_PEERS_MAX];
        _Atomic uint64_t words[LOOP_PEERS_MAX / 8];
    } ready;
    _Alignas(64) _Atomic uint32_t inbound_count;
    _Atomic uint32_t attention; /* a peer closed: look at the links */
    _Atomic uint32_t sleeping;
    uint64_t id;
    int event_fd;
    uint32_t references; /* guarded by the hub */
    struct loop_channel *_Atomic inbound[LOOP_PEERS_MAX];
    struct loop_rbuf *_Atomic blocks[LOOP_RBUFS_MAX / LOOP_RBUFS_BLOCK];
};

/* One direction between two instances. */
struct loop_channel {
    struct loop_ring ring;
    struct loop_inbox *from, *to; /* a reference each */
    uint32_t slot;                /* in to->inbound */
    uint32_t references;          /* guarded by the hub */
    _Atomic uint32_t receiver_gone;
    _Atomic uint32_t sender_gone;
};

#define LOOP_ADDRESS_MAGIC 0x706f6f6c74666577ull /* "weftloop" */
#define LOOP_OOB_MAGIC     0x7274656c706f6f6cull /* "loopletr" */

struct loop_address {
    uint64_t magic;
    uint64_t nonce; /* of the process */
    uint64_t pid;
    uint64_t id;
};

struct loop_oob {
    uint64_t magic;
    uint64_t kind;
};

enum { LOOP_KNOCK = 1, LOOP_ANSWER = 2 }; /* kinds of oob messages */

struct weft_link {
    struct weft_transport *transport;
    struct loop_channel *channel;
    void *context;
    uint32_t count;           /* of connect() calls */
    uint32_t late;            /* storm: answers AGAIN so many times more */
    int failed;               /* LINK_FAILED was delivered */
    int unanswered;           /* oob: the peer has not let us in yet */
    uint32_t pending;         /* puts in flight */
    struct loop_address peer; /* oob: whom we knock at */
    int64_t asked_ns;         /* ..., the last time */
    struct weft_link *next;
};

/* A put that is not over yet. In calm weather the bytes and the event are there already. */
struct loop_put {
    struct weft_link *link;
    struct loop_rbuf *rbuf;
    uint64_t token_slot, generation;
    const void *memory;
    uint64_t size;
    uint64_t cookie;
    int status;
    int written;
};

struct loop_filled {
    uint64_t slot, generation;
};

struct weft_transport {
    struct loop_inbox *inbox;
    uint32_t offers; /* enum weft_transport_flags */
    int can_map;
    uint32_t storm;      /* state of the generator; 0: calm */
    uint32_t unanswered; /* oob: links that are not up yet */
    void *oob_arg;       /* oob: of the params, as oob_send(), NULL without */
    int (*oob_send)(void *oob_arg, const void *address, size_t address_size, const void *oob, size_t size);
    struct loop_put *puts;
    uint32_t put_count;
    struct loop_filled *filled; /* storm: arrived, not yet reported */
    uint32_t filled_count;
    uint32_t rbuf_count, rbuf_free; /* slots made; first free + 1, 0 none */
    uint32_t next_word;             /* where the next poll() begins, so that a small budget starves nobody */
    struct weft_link *links;
    struct weft_transport *next_open; /* hub's list */
    int (*fail)(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
};

/* Shared by all instances of the process. */
struct loop_hub {
    pthread_mutex_t lock;
    struct weft_transport *open;
    uint64_t nonce; /* guards against addresses and tokens of another process */
    uint64_t last_id;
    int light; /* see base/fence.h */
};
extern struct loop_hub loop_hub;

/* Storm: yes about once in n. */
static inline int loop_chance(struct weft_transport *transport, uint32_t n)
{
    if (!transport->storm)
        return 0;
    uint32_t x = transport->storm;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    transport->storm = x;
    return (x >> 8) % n == 0;
}

/* Under the hub's lock: gives one reference back. */
void loop_channel_release(struct loop_channel *channel);

/* Messages and sleeping (move.c). */
int loop_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
              size_t payload_size);
int loop_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);
int loop_fds(struct weft_transport *transport, int *fds, int capacity);
int loop_arm(struct weft_transport *transport);
void loop_disarm(struct weft_transport *transport);
int loop_notify(struct weft_link *link);
int loop_link_flags(struct weft_link *link, uint32_t *flags);
const char *loop_why(struct weft_link *link);
/* Fails with the reason that the peer has closed. */
int loop_link_down(struct weft_link *link);
/* Wakes the owner of an inbox if it sleeps. */
void loop_wake(struct loop_inbox *inbox);

/* Out-of-band messages (oob.c). A link is made, or goes: before the peer has answered. */
void loop_oob_connect(struct weft_link *link, const struct loop_address *peer);
void loop_oob_disconnect(struct weft_link *link);
void loop_oob_poll(struct weft_transport *transport);
void loop_oob_receive(struct weft_transport *transport, const void *from, size_t from_size, const void *oob,
                      size_t size);

/* Reads (read.c). */
int loop_expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                struct weft_token *token);
int loop_map(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory);
int loop_pull(struct weft_link *link, const struct weft_token *token, uint64_t offset, void *destination,
              size_t size, uint32_t flags);

/* Puts and receive buffers (rbuf.c). */
int loop_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                   uint64_t cookie, struct weft_token *token);
int loop_recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie);
void loop_withdraw(struct weft_link *link, const struct weft_token *token);
int loop_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
             const void *memory, size_t size, uint64_t cookie);
/* Writes and completes puts; returns the number of events. */
int loop_puts_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);
/* Ends the puts of a link that fails. */
void loop_puts_fail(struct weft_link *link);
/* A LOOP_FILLED record: 1 when it became an event. */
int loop_filled(struct weft_transport *transport, const struct loop_filled *filled,
                weft_event_handler *handler, void *arg);
int loop_filled_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg);

/* Makes the receiver of a channel look. */
void loop_ring_bell(struct loop_channel *channel);

#endif
