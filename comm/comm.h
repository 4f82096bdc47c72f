/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator: who takes part, how each peer is reached, the plans in use, and the executor that runs
 * them.
 *
 * Threads: like the public API says, one thread at a time calls collectives on one communicator. Fields
 * marked [lock] are touched under the context's lock only.
 */
#ifndef WEFT_COMM_COMM_H
#define WEFT_COMM_COMM_H

#include "base/error.h"
#include "comm/boot_pmix.h"
#include "comm/bootstrap.h"
#include "comm/context.h"
#include "comm/inbox.h"
#include "comm/p2p.h"
#include "comm/plans.h"
#include "comm/stall.h"

struct weft_fastpath;
struct weft_hosts;

/* One rank as the others know it. */
struct weft_member {
    char host[64];
    int32_t pid;
    int32_t numa;                         /* NUMA node that it is bound to, -1: several, or not known */
    uint64_t process;                     /* devmem/share.h, 0: none */
    uint32_t machine;                     /* as its kernel tells, 0: not known; arrange.h */
    uint32_t host_group;                  /* lowest rank that shares memory with this one */
    struct weft_placement placement;      /* as the launcher says */
    uint16_t sizes[WEFT_TRANSPORT_COUNT]; /* of its addresses, 0 none */
    uint16_t transport;                   /* enum weft_transport_index: what reaches it from here */
    uint8_t *addresses;                   /* one behind the other */
};

/* A member's address for a transport. */
static inline const uint8_t *weft_member_address(const struct weft_member *member,
                                                 enum weft_transport_index transport, size_t *size)
{
    const uint8_t *address = member->addresses;
    for (int t = 0; t < (int)transport; t++)
        address += member->sizes[t];
    *size = member->sizes[transport];
    return address;
}

/* How many bytes its addresses take. */
static inline size_t weft_member_bytes(const struct weft_member *member)
{
    size_t bytes = 1;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++)
        bytes += member->sizes[t];
    return bytes;
}

/* What was chosen for a call: comm/collective_choose.c. */
#define WEFT_CHOSEN 16
struct weft_chosen {
    uint64_t bytes;
    uint32_t key; /* 0: none */
    uint32_t algorithm;
};

/* A blocking allreduce as it was the last time: what the next one needs that has the same count, type and operation,
 * in place or not. comm/allreduce.c */
struct weft_again {
    struct weft_kept_plan *plan; /* NULL: there was none */
    size_t count;
    weft_dtype dtype;
    weft_op op;
    int in_place;
    struct weft_exec_request request; /* but for the buffers and the number of the call */
};

/* Calls that progress starts: comm/queue.h. [lock] but for waiting */
struct weft_queue {
    struct weft_queued *head, *tail; /* not started yet, in the order of the calls */
    struct weft_queued *running;
    atomic_int waiting;     /* how many have not been started */
    int is_listed;          /* in the context's list, */
    struct weft_comm *next; /* of communicators that have some */
};

struct weft_comm {
    struct weft_context *context;
    uint32_t id;
    int rank, ranks;
    char *name;
    uint32_t generation;              /* how often it has shrunk */
    _Atomic int64_t timeout_ms;       /* weft_comm_set_timeout() may come from any thread */
    struct weft_bootstrap *bootstrap; /* NULL for one rank */
    struct weft_exec *exec;           /* [lock] NULL for one rank */
    struct weft_p2p *p2p;             /* [lock] */
    struct weft_member *members;      /* [ranks], NULL for one rank */
    int one_host;                     /* all ranks share memory */
    int no_shm;                       /* no two ranks share memory */
    struct weft_hosts *hosts;         /* arrange.h; NULL: as ranks are numbered, on one host */
    unsigned transports; /* bit per enum weft_transport_index: what reaches some other rank from here */
    int shm_status;      /* why this rank shares no memory: 0 when it does, or may not */
    char shm_reason[160];
    int vetoed;                             /* a rank's vote ended the start, and all have it */
    int some_host_crowded;                  /* more ranks than processors somewhere */
    struct weft_plans plans;                /* [lock] */
    struct weft_fastpath *fastpath;         /* NULL when not used */
    struct weft_chosen chosen[WEFT_CHOSEN]; /* the last automatic choices */
    struct weft_again again;                /* [lock] */
    struct weft_queue queue;
    atomic_int works;              /* handles not freed yet */
    int dropped;                   /* [lock] works that run on without a handle */
    struct weft_work *dropped_ops; /* [lock] those of them that are collectives */
    uint64_t operations, fast_operations;
    _Atomic uint64_t calls;      /* made so far; only the thread that makes calls writes */
    struct weft_stall stall;     /* [lock] */
    struct weft_subset *subsets; /* [lock] attempts under way: subset.c */
    struct weft_judge *judge;    /* rank 0 of several */
    atomic_int shrinking;        /* threads inside weft_comm_shrink() */
    atomic_int failed;           /* 0, or the status with which it was revoked; set under the lock */
    atomic_int reported;
    char failure[WEFT_DETAIL_MAX];
    char last_words[2048];      /* [lock] what this rank waited for when it failed; "" nothing */
    int lost_rank, lost_status; /* [lock] a link that broke, until the bootstrap says why */
    int64_t lost_ns;
    char lost_why[704]; /* what its transport says, "" nothing */
    struct weft_inbox inbox;
};

/* Makes a communicator where resolved says; name, rank, ranks, source and generation of it are set. */
int weft_comm_open(struct weft_context *context, struct weft_bootstrap_options *resolved, int64_t timeout_ms,
                   int64_t deadline_ns, struct weft_comm **comm);
/* Frees it without waiting for the others to come here. Keeps the calling thread's error. */
void weft_comm_discard(struct weft_comm *comm);

/* [lock] Ends everything in flight with status and revokes: the first reason stays. */
void weft_comm_fail(struct weft_comm *comm, int status, const char *text);

/* [lock] A link broke; why is what its transport says, or NULL. */
void weft_comm_link_failed(struct weft_comm *comm, struct weft_link *link, int status, const char *why);

/* Takes over a failure that bootstrap or executor know about. Returns the status, 0 when there is none.
 * [lock] */
int weft_comm_check(struct weft_comm *comm);

/* Whether a call may begin: WEFT_OK, or what it returns because the communicator has failed. */
int weft_comm_begin(struct weft_comm *comm);

/* Whether there may be a failure that weft_comm_check() has to take over, or has. Cheap. [lock] */
int weft_comm_is_lost(const struct weft_comm *comm);
/* weft_comm_check(), of a communicator of one rank too. [lock] */
int weft_comm_check_any(struct weft_comm *comm);

/* Something of a peer's is gone, of which the bootstrap may know more in a moment: waits for that, a moment. */
void weft_comm_await_reason(const struct weft_comm *comm);

/* Reports the failure to the calling thread: first WEFT_PEER_FAILED and the like, then WEFT_REVOKED. */
int weft_comm_report(struct weft_comm *comm);

/* The number of the call that is being made, and that it counts. By the thread that makes calls. */
static inline uint64_t weft_comm_next_call(const struct weft_comm *comm)
{
    return atomic_load_explicit(&comm->calls, memory_order_relaxed) + 1;
}
static inline void weft_comm_count_call(struct weft_comm *comm)
{
    atomic_store_explicit(&comm->calls, weft_comm_next_call(comm), memory_order_relaxed);
}

/* The deadline of a call that starts now. */
int64_t weft_comm_deadline_ns(const struct weft_comm *comm);

/* Connects every peer and waits until the links are up, for three quarters of the time until the deadline. What the others do is their matter: somebody has to drive their
 * transports meanwhile. connect.c */
int weft_comm_connect_peers(struct weft_comm *comm, int64_t deadline_ns);

/* The executor's connect hook; arg is the communicator. comm.c */
int weft_comm_link_peer(void *arg, uint32_t rank, struct weft_exec_peer *peer);
/* Its differs hook. */
int weft_comm_differs(void *arg, const char *text, const struct weft_call *past);
/* [lock] Its tagged hook. */
int weft_comm_tagged(void *arg, const struct weft_wire_header *header, const void *payload);
/* [lock] Makes what point-to-point messages need, after the executor. */
int weft_comm_make_p2p(struct weft_comm *comm);
/* What its executor may make programs of. */
struct weft_exec_programs weft_comm_programs(const struct weft_comm *comm);
/* [lock] The executor's sent_by hook, inside an event. */
int weft_comm_sent_by(void *arg, uint32_t rank, const void *sender);

#endif
