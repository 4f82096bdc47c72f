/* SPDX-License-Identifier: Apache-2.0 */
/* What a context owns: transports, their links and memory, the communicators' message routing, the service
 * threads, and the progress token.
 *
 * Locking: `lock` is the progress token. Whoever holds it may call transports and executors; everything
 * marked [lock] is touched only under it. `contenders` asks a polling holder to step aside for a moment.
 */
#ifndef WEFT_COMM_CONTEXT_H
#define WEFT_COMM_CONTEXT_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fd.h"
#include "base/interval.h"
#include "base/settings.h"
#include "comm/exec.h"
#include "comm/ports.h"
#include "comm/service.h"
#include <weft/transport.h>
#include <weft/weft.h>

enum weft_transport_index { WEFT_SHM, WEFT_OFI, WEFT_VERBS, WEFT_TRANSPORT_COUNT };

#define WEFT_USER_OPS 16

struct weft_region_cache;
struct weft_user_op;
struct weft_devices;
struct weft_device_regions;
struct weft_device_kind;
struct weft_lanes;
struct weft_request;
struct weft_shares;
struct weft_graph;
struct weft_stream;

/* An instance that is of no use any more, but has links that failed communicators still hold, and perhaps memory.
 * Who frees that memory must name this instance, not the one that has taken its place. */
struct weft_broken_transport {
    struct weft_broken_transport *next;
    struct weft_transport *instance;
};

struct weft_open_transport {
    struct weft_transport_ops ops;
    struct weft_transport *instance; /* NULL until opened */
    struct weft_broken_transport *replaced;
    struct weft_transport_caps caps;
};

/* A link shared by the communicators of a context. */
struct weft_shared_link {
    struct weft_shared_link *next;
    struct weft_link *link;
    uint32_t users;
    uint16_t transport, address_size;
    uint8_t address[];
};

/* A free block of staging or landing memory. */
struct weft_pool_buffer {
    struct weft_pool_buffer *next;
    void *memory;
    size_t size;
    uint32_t transport;
    struct weft_transport *owner; /* the instance whose alloc() it came from, NULL: ordinary pages */
    struct weft_memory *known;
    const struct weft_device_kind *kind; /* whose devices reach it, NULL: none */
    int used;
};

/* A transport's region of known memory, found by its address. */
struct weft_known_region {
    struct weft_interval at; /* the region's address; first, so that one is the other */
    struct weft_memory *memory;
    struct weft_region *region; /* NULL: none yet, and in no tree */
    int refused;                /* there can be none: a device's memory that the transport does not take */
};

/* Memory of the user's: allocated by weft_mem_alloc() or registered by weft_mem_register(). */
struct weft_memory {
    struct weft_interval span; /* first, so that one is the other */
    struct weft_memory *next, *previous;
    void *memory;
    size_t size;
    int allocated; /* by weft_mem_alloc() */
    struct weft_transport
        *owner; /* allocated: the shm instance whose alloc() it came from, NULL: ordinary pages */
    int users;  /* operations that hold a region of it */
    struct weft_known_region regions[WEFT_TRANSPORT_COUNT];
};

/* The NUMA node of threads that may run on these processors: comm/place.c. */
struct weft_known_numa {
    cpu_set_t processors;
    int32_t numa;
};

#define WEFT_KNOWN_NUMAS 4

struct weft_context {
    struct weft_settings settings;
    uint64_t instance;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* followers of a sleeping leader */
    atomic_int contenders;
    int leader_sleeps;            /* [lock] somebody sleeps on the descriptors */
    int followers;                /* [lock] */
    int vain_wakes;               /* [lock] by transports' descriptors, since anything happened */
    int event_fd;                 /* wakes the leader: failures, new work */
    struct weft_service *service; /* drives transports */
    struct weft_service *overlay; /* the bootstraps' own thread, once there is one */
    int is_robbed;                /* [lock] descriptors were found not to be weft's any more */
    int lost_fd;                  /* [lock] the first of them, where is_robbed */
    struct weft_fd_losses losses; /* [lock] of communicators that have been destroyed */
    atomic_int background;        /* operations started without a waiter: the service thread drives them */
    atomic_int lingers;           /* one of `background` stands for transports that are busy */
    atomic_int tick_sleeps;       /* the service thread must be woken for new background work */
    int tick_idle;                /* service thread only */
    int tick_naps;                /* service thread only: something waits for a device, and it looks often */
    int64_t tick_ns;              /* service thread only: when it last saw that something had happened */
    uint64_t tick_events;         /* service thread only: `events` at the last tick */
    uint64_t events;              /* [lock] that progress has met */
    atomic_int dozes;             /* the service thread sleeps on the descriptors; changes under the lock */
    int64_t looked_ns;            /* service thread only: when all communicators were looked at */
    struct weft_open_transport transports[WEFT_TRANSPORT_COUNT]; /* [lock] once open */
    unsigned
        working; /* [lock] a bit each: open, and answers more than errors; else the next communicator gets
                                            a new instance */
    int polled;  /* [lock] which of them tells an event right now */
    struct weft_shared_link *links;             /* [lock] */
    struct weft_pool_buffer *buffers;           /* [lock] */
    struct weft_memory *memory;                 /* [lock] */
    struct weft_intervals memory_spans;         /* [lock] the same, by address */
    struct weft_intervals known_regions;        /* [lock] their regions, each an interval of one byte */
    struct weft_region_cache *cache;            /* [lock] of other memory's regions, made when first needed */
    struct weft_device_regions *device_regions; /* [lock] of devices' memory, made when first needed */
    atomic_int cache_died;                      /* some of its memory has gone: weft_memory_tidy() */
    atomic_int has_surplus;                     /* lanes have memory to give back: comm/device_memory.h */
    uint64_t registrations;                     /* [lock] regions that transports hold for us */
    struct weft_comm **comms;                   /* [lock] hash by id, open addressing */
    struct weft_comm **all;                     /* [lock] all of them, comm_count, in no order */
    uint32_t comm_capacity, comm_count;
    atomic_int users;                               /* communicators being made or alive */
    atomic_int letters;                             /* some have arrived: inbox.h */
    atomic_int oversubscribed;                      /* more ranks than processors on this host */
    struct weft_graph *fabric;                      /* WEFT_TOPO_FILE, NULL without; comm/arrange.h */
    uint64_t fabric_digest;                         /* 0 without */
    struct weft_known_numa numas[WEFT_KNOWN_NUMAS]; /* [lock] a ring: the last ones asked for */
    uint32_t numa_count;                            /* [lock] all that were asked for */
    struct weft_devices *devices;                   /* kinds of devices; opened when first asked */
    struct weft_lanes *lanes;                       /* [lock] made when first needed */
    struct weft_shares *shares;                     /* [lock] likewise */
    struct weft_stream *streams;                    /* [lock] of the program's: comm/stream.h */
    int holds;                                      /* [lock] of theirs, which have not ended */
    int progressing;                                /* [lock] weft_progress_once() runs */
    atomic_int scopes;                              /* that threads have begun */
    struct weft_comm *queues;    /* [lock] those with calls that progress carries on: comm/queue.h */
    struct weft_request *held;   /* [lock] messages in the order of streams: comm/p2p_held.c */
    struct weft_request *copies; /* [lock] receives that devices copy to: comm/p2p_copy.c */
    struct weft_ports ports;     /* [lock] of RDMA devices */
    int holds_pmix;              /* comm/boot_pmix.h */
    struct weft_user_op *user_ops[WEFT_USER_OPS]; /* by op - WEFT_OP_USER; comm/op.c */
};

/* The thread that carries bootstraps' overlays, started by the first that asks. It is not the one that drives transports, so that heartbeats do
 * not wait for long copies. */
int weft_context_overlay(struct weft_context *context, struct weft_service **service);

/* WEFT_OK, or WEFT_SYSTEM with the text of the loss, after such a look. */
int weft_context_check(struct weft_context *context);

/* Whether all descriptors are still weft's; if not, all communicators fail, and no library is called any more that keeps
 * descriptors of its own. The service threads look once a second: this is for before something is ended. */
void weft_context_look(struct weft_context *context);

void weft_context_lock(struct weft_context *context);
void weft_context_unlock(struct weft_context *context);

/* [lock] Opens a transport if it is not open yet. local_address: see weft_transport_params. */
int weft_context_transport(struct weft_context *context, enum weft_transport_index index,
                           const char *local_address);

/* [lock] A counted link to an address. */
int weft_context_link(struct weft_context *context, enum weft_transport_index index, const void *address,
                      size_t size, struct weft_link **link);
void weft_context_unlink(struct weft_context *context, struct weft_link *link);

/* [lock] Routes messages with this id to comm. WEFT_BUSY when the id is taken. */
int weft_context_route(struct weft_context *context, uint32_t id, struct weft_comm *comm);
void weft_context_unroute(struct weft_context *context, uint32_t id);
struct weft_comm *weft_context_find(const struct weft_context *context, uint32_t id);

/* The executor's hooks for memory; arg is the context. comm/memory.c */
void *weft_memory_buffer_get(void *arg, uint32_t transport, size_t size, const struct weft_device_kind *kind);
void weft_memory_buffer_put(void *arg, uint32_t transport, void *buffer, size_t size);
/* A region of the memory, the host's or a device's. WEFT_UNSUPPORTED: it cannot be registered, as the text says, and has to be
 * copied. */
int weft_memory_region_get(void *arg, uint32_t transport, const void *memory, size_t size,
                           struct weft_region **region);
void weft_memory_region_put(void *arg, uint32_t transport, struct weft_region *region);
/* Whether peers on this host can load the memory (it came from weft_mem_alloc()). Takes the lock. */
int weft_memory_is_shared(struct weft_context *context, const void *memory, size_t size);
/* [lock] Forgets what is registered with a transport, whose instance is of no use any more, and pooled buffers that
 * came from it. The user's memory stays where it is. */
void weft_memory_set_aside(struct weft_context *context, enum weft_transport_index transport);
/* [lock] Ends registrations of memory that the program has given back. */
void weft_memory_tidy(struct weft_context *context);
/* [lock] Frees pooled buffers; user memory still there is counted. */
int weft_memory_close(struct weft_context *context);

#endif
