/* SPDX-License-Identifier: Apache-2.0 */
/* What a context owns: transports, their links and memory, the communicators' message routing, the service
 * threads, and the progress token.
 *
 * Locking: `lock` is the progress token. Whoever holds it may call transports and executors; everything
 * marked [lock] is touched only under it. `contenders` asks a polling holder to step aside for a moment.
 */
#ifndef WEFT_COMM_DRIVE_CONTEXT_H
#define WEFT_COMM_DRIVE_CONTEXT_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/interval.h"
#include "base/settings.h"
#include "base/service.h"
#include <weft/transport.h>
#include <weft/weft.h>

enum weft_transport_index { WEFT_SHM, WEFT_OFI, WEFT_VERBS, WEFT_TCP, WEFT_TRANSPORT_COUNT };

#define WEFT_USER_OPS 16

struct weft_region_cache;
struct weft_user_op;
struct weft_devices;
struct weft_device_regions;
struct weft_device_kind;
struct weft_command_queues;
struct weft_request;
struct weft_shares;
struct weft_graph;
struct weft_stream;
struct weft_work;

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

/* A free block of staging, or a free receive buffer. */
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

/* The NUMA node of threads that may run on these processors: comm/form/place.c. */
struct weft_known_numa {
    cpu_set_t processors;
    int32_t numa;
};

#define WEFT_KNOWN_NUMAS 4

struct weft_driven;

/* What drive hands to a communicator and asks of it. All [lock]. */
struct weft_driven_ops {
    void (*message)(struct weft_driven *driven, const void *sender, const void *data, size_t size);
    void (*io_done)(struct weft_driven *driven, uint64_t cookie, int status);
    /* why is what the link's transport says, or NULL. */
    void (*link_failed)(struct weft_driven *driven, struct weft_link *link, int status, const char *why);
    /* Takes failures over, and moves once what is in flight. Returns how much happened. */
    int (*poll)(struct weft_driven *driven);
    /* Whether something waits for room or for a device, which no event announces. */
    int (*is_blocked)(const struct weft_driven *driven);
    /* Looks for calls that have waited for too long already. Returns when to look again. */
    int64_t (*look)(struct weft_driven *driven, int64_t now_ns);
    void (*fail)(struct weft_driven *driven, int status, const char *text);
    /* Out-of-band messages of transports: hands over what has come; sends one to the rank of this address. oob_send() returns 1 where no rank has it. */
    int (*deliver)(struct weft_driven *driven);
    int (*oob_send)(struct weft_driven *driven, const void *address, size_t address_size, const void *message,
                    size_t size);
};

/* A communicator as drive knows it: comm/core registers each with weft_context_route(). */
struct weft_driven {
    const struct weft_driven_ops *ops;
    const atomic_int *status; /* 0, or what it has failed with */
    uint32_t id;              /* what messages for it begin with */
    unsigned transports;      /* bit per enum weft_transport_index: what reaches some other rank from here */
};

/* What rooms above drive do for a context: comm/form/open.c. All [lock]. */
struct weft_context_hooks {
    /* Where streams stand, while there are some. Returns how much happened. */
    int (*follow_streams)(struct weft_context *context);
    /* Goes on with calls that progress carries, while there are queues, held, copies or watched. The same. */
    int (*carry)(struct weft_context *context);
    /* Ends registrations and mappings of memory that has gone. Lets go of the lock meanwhile. */
    void (*tidy)(struct weft_context *context);
    /* Forgets what is registered with a transport, whose instance is of no use any more. */
    void (*set_aside)(struct weft_context *context, enum weft_transport_index transport);
};

/* A callback of the program's that is due: what it is called with. */
struct weft_notice {
    struct weft_notice *next;
    weft_work_callback *callback;
    void *arg;
    int status;
    char detail[WEFT_DETAIL_MAX];
};

/* Who drives: threads that wait, and the service thread when there is none. */
struct weft_context_progress {
    pthread_cond_t changed; /* followers of a sleeping leader */
    int leader_sleeps;      /* [lock] somebody sleeps on the descriptors */
    int followers;          /* [lock] */
    int vain_wakes;         /* [lock] by transports' descriptors, since anything happened */
    int progressing;        /* [lock] weft_progress_once() starts calls */
    int polled;             /* [lock] which transport hands over an event right now */
    uint64_t events;        /* [lock] that progress has met */
    atomic_int background;  /* operations started without a waiter: the service thread drives them */
    atomic_int lingers;     /* one of `background` stands for transports that are busy */
    atomic_int dozes;       /* the service thread sleeps on the descriptors; changes under the lock */
    atomic_int oob;         /* some have arrived: comm/core/inbox.h */
};

/* The service thread's own, but for what is atomic. */
struct weft_context_tick {
    atomic_int sleeps; /* it must be woken for new background work */
    atomic_int aside;  /* it waits a while, as another thread drives, and is woken for new background work */
    atomic_int is_new; /* there is new background work since its last look */
    int idle;
    int misses;        /* of the lock, since it last made something happen or slept on the descriptors */
    int naps;          /* something waits for a device, and it looks often */
    int64_t ns;        /* when it last saw that something had happened */
    uint64_t events;   /* those of progress at the last tick */
    int64_t others_ns; /* when it last saw that another thread drives */
    int64_t looked_ns; /* when all communicators were looked at */
};

/* Communicators. [lock] */
struct weft_context_routes {
    struct weft_driven **by_id; /* hash, open addressing */
    struct weft_driven **all;   /* all of them, count, in no order */
    uint32_t capacity, count;
};

/* Opened, or made, when first needed: comm/drive/devices.c */
struct weft_context_devices {
    struct weft_devices *kinds;
    struct weft_command_queues *queues; /* [lock] */
    struct weft_shares *shares;         /* [lock] */
};

/* Of rooms above. [lock] but for what is atomic. */
struct weft_context_regions {
    struct weft_pool_buffer *buffers;
    struct weft_slot_bank *slot_banks; /* comm/exec/fastpath.c */
    struct weft_memory *memory;
    struct weft_intervals memory_spans;         /* the same, by address */
    struct weft_intervals known_regions;        /* their regions, each an interval of one byte */
    struct weft_region_cache *cache;            /* of other memory's regions, made when first needed */
    struct weft_device_regions *device_regions; /* of device memory, made when first needed */
    uint64_t registrations;                     /* regions that transports hold for us */
    atomic_int cache_died;                      /* some of its memory has gone: weft_memory_tidy() */
    atomic_int has_surplus; /* command queues have memory to give back: comm/regions/device_memory.h */
};

struct weft_context_exec {
    struct weft_stream *streams; /* of the program's: comm/exec/stream.h */
    int stream_waits;            /* of theirs, which have not ended */
};

struct weft_context_p2p {
    struct weft_request *held;   /* stream-ordered messages: comm/p2p/held.c */
    struct weft_request *copies; /* receives that devices copy to: comm/p2p/copy.c */
    uint32_t offers;             /* announced messages whose memory is offered: comm/p2p/offer.c */
};

struct weft_context_core {
    struct weft_comm *queues;  /* those with calls that progress carries on: comm/core/queue.h */
    int queued, quiet;         /* such calls; and those of them that a peer's coming wakes a sleeper for */
    struct weft_work *watched; /* whose end somebody wants to know: comm/core/works_watched.c */
    struct weft_work *spare;   /* handles that are free: comm/core/work.c */
    int spares;
};

struct weft_context_form {
    struct weft_graph *fabric;                      /* WEFT_TOPO_FILE, NULL without; comm/form/arrange.h */
    uint64_t fabric_digest;                         /* 0 without */
    struct weft_known_numa numas[WEFT_KNOWN_NUMAS]; /* a ring: the last ones asked for */
    uint32_t numa_count;                            /* all that were asked for */
    struct weft_ports *ports;                       /* of RDMA devices: comm/form/ports.h */
    const char *chosen_ports;                       /* of these, as WEFT_VERBS_DEVICE names them; "": none */
    int holds_pmix;                                 /* comm/boot/modex.h */
};

struct weft_context_calls {
    struct weft_user_op *user_ops[WEFT_USER_OPS]; /* by op - WEFT_OP_USER; comm/calls/op.c */
};

struct weft_context {
    const struct weft_context_hooks *hooks;
    struct weft_settings settings;
    uint64_t instance;
    pthread_mutex_t lock;
    atomic_int contenders;
    atomic_int is_missed;      /* the service thread has found the lock taken, and is woken when it is free */
    atomic_int users;          /* communicators being made or alive */
    atomic_int forming;        /* works that make one, whose handles have not been freed */
    atomic_int oversubscribed; /* more ranks than processors on this host */
    int event_fd;              /* wakes the leader: failures, new work */
    struct weft_service *service;               /* drives transports */
    struct weft_service *overlay;               /* the bootstraps' own thread, once there is one */
    struct weft_notice *notices, **notices_end; /* [lock] called by who lets go of the lock */
    /* Says that a work has ended, once the program has asked for it; -1 before. Changes under the lock. */
    atomic_int signal_fd;
    int is_robbed;                /* [lock] descriptors were found not to be weft's any more */
    int lost_fd;                  /* [lock] the first of them, where is_robbed */
    struct weft_fd_losses losses; /* [lock] of communicators that have been destroyed */
    /* [lock] A bit for each transport that is open, and answers more than errors; else the next communicator gets a new instance. */
    unsigned working;
    struct weft_open_transport transports[WEFT_TRANSPORT_COUNT]; /* [lock] once open */
    struct weft_shared_link *links;                              /* [lock] */
    struct weft_context_progress progress;
    struct weft_context_tick tick;
    struct weft_context_routes routes;
    struct weft_context_devices devices;
    struct weft_context_regions regions;
    struct weft_context_exec exec;
    struct weft_context_p2p p2p;
    struct weft_context_core core;
    struct weft_context_form form;
    struct weft_context_calls calls;
};

/* Makes what drives a context whose settings and hooks are set: its lock, its event, its service thread. comm/drive/open.c */
int weft_context_start(struct weft_context *context);
/* Ends the transports and the threads, and then the rest of it. Nothing uses it any more. */
void weft_context_stop(struct weft_context *context);

/* The thread that carries bootstraps' overlays, started by the first that asks. It is not the one that drives transports, so that heartbeats do
 * not wait for long copies. */
int weft_context_overlay(struct weft_context *context, struct weft_service **service);

/* Has a service thread look for descriptors that are not weft's any more. */
void weft_context_watch_losses(struct weft_context *context, struct weft_service *service);

/* WEFT_OK, or WEFT_SYSTEM with the text of the loss, after such a look. */
int weft_context_check(struct weft_context *context);

/* Whether all descriptors are still weft's; if not, all communicators fail, and no library is called any more that keeps
 * descriptors of its own. The service threads look once a second: this is for before something is ended. */
void weft_context_look(struct weft_context *context);

void weft_context_lock(struct weft_context *context);
/* And returns since when it has waited for the lock, by weft_clock_ns(); 0: not at all. */
int64_t weft_context_lock_since(struct weft_context *context);
/* Calls the program's callbacks that have become due, when it has let go. */
void weft_context_unlock(struct weft_context *context);
/* [lock] Such a callback; it is freed with free() then. */
void weft_context_notify(struct weft_context *context, struct weft_notice *notice);
/* Makes signal_fd, if there is none. Takes the lock. comm/drive/open.c */
int weft_context_signal_fd(struct weft_context *context);

/* [lock] Opens a transport if it is not open yet. local_address: see weft_transport_params. */
int weft_context_transport(struct weft_context *context, enum weft_transport_index index,
                           const char *local_address);

/* [lock] A counted link to an address. */
int weft_context_link(struct weft_context *context, enum weft_transport_index index, const void *address,
                      size_t size, struct weft_link **link);
void weft_context_unlink(struct weft_context *context, struct weft_link *link);

/* [lock] Routes messages with the id to it. WEFT_BUSY when the id is taken. */
int weft_context_route(struct weft_context *context, struct weft_driven *driven);
void weft_context_unroute(struct weft_context *context, uint32_t id);
struct weft_driven *weft_context_find(const struct weft_context *context, uint32_t id);

/* The executor's hooks for memory; arg is the context. comm/regions/memory.c */
void *weft_memory_buffer_get(void *arg, uint32_t transport, size_t size, const struct weft_device_kind *kind);
void weft_memory_buffer_put(void *arg, uint32_t transport, void *buffer, size_t size);
/* A region of the memory, the host's or a device's. WEFT_UNSUPPORTED: it cannot be registered, as the text says, and has to be
 * copied. */
int weft_memory_region_get(void *arg, uint32_t transport, const void *memory, size_t size,
                           struct weft_region **region);
void weft_memory_region_put(void *arg, uint32_t transport, struct weft_region *region);
/* Whether peers on this host can load the memory (it came from weft_mem_alloc()). [lock] */
int weft_memory_is_shared(void *arg, const void *memory, size_t size);
/* [lock] Forgets what is registered with a transport, whose instance is of no use any more, and pooled buffers that
 * came from it. The user's memory stays where it is. */
void weft_memory_set_aside(struct weft_context *context, enum weft_transport_index transport);
/* [lock] Ends registrations of memory that the program has given back. */
void weft_memory_tidy(struct weft_context *context);
/* [lock] Frees pooled buffers; user memory still there is counted. */
int weft_memory_close(struct weft_context *context);

#endif
