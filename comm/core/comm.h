/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator: who takes part, how each peer is reached, the plans in use, and the executor that runs
 * them.
 *
 * Threads: like the public API says, one thread at a time calls collectives on one communicator. Fields
 * marked [lock] are touched under the context's lock only.
 */
#ifndef WEFT_COMM_CORE_COMM_H
#define WEFT_COMM_CORE_COMM_H

#include "base/clock.h"
#include "base/error.h"
#include "comm/boot/modex.h"
#include "comm/boot/bootstrap.h"
#include "comm/drive/context.h"
#include "comm/drive/wait.h"
#include "comm/core/failure.h"
#include "comm/core/inbox.h"
#include "comm/p2p/p2p.h"
#include "comm/exec/plans.h"
#include "comm/core/stall.h"

struct weft_fastpath;
struct weft_hosts;

/* One rank as the others know it. */
struct weft_member {
    char host[64];
    int32_t pid;
    int32_t numa;                         /* NUMA node that it is bound to, -1: several, or not known */
    uint64_t process;                     /* devmem/share.h, 0: none */
    uint32_t machine;                     /* as its kernel says, 0: not known; arrange.h */
    uint32_t host_group;                  /* lowest rank that shares memory with this one */
    uint32_t host_index;                  /* its host's, from 0 on by their lowest ranks; arrange.h */
    struct weft_placement placement;      /* as the launcher says */
    uint16_t sizes[WEFT_TRANSPORT_COUNT]; /* of its addresses, 0 none */
    uint16_t transport;                   /* enum weft_transport_index: what reaches it from here */
    uint8_t is_cut, is_gone; /* [lock] the link to it has failed; it has left while others stay */
    uint8_t *addresses;      /* one behind the other */
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

/* Programs make one call many times: what depends on its count, type, operation and form only is kept from the last ones.
 * Buffers and the number of the call are new each time. comm/calls/kept.c */
#define WEFT_KEPT_CALLS 8
struct weft_kept_call {
    uint64_t key, count; /* key 0: none */
    enum weft_algorithm algorithm;
    struct weft_kept_plan *plan; /* [lock] NULL: the rest has not been needed */
    uint64_t prepared;           /* [lock] the key that plan and request are for */
    struct weft_exec_request request;
};

/* Calls that progress starts: comm/core/queue.h. [lock] but for waiting */
struct weft_queue {
    struct weft_queued *head, *tail; /* not started yet, in the order of the calls */
    struct weft_queued *running;
    atomic_int waiting;     /* how many have not been started */
    int never_quiet;        /* calls over the cache lines may become plans: one has */
    int is_listed;          /* in the context's list, */
    struct weft_comm *next; /* of communicators that have some */
};

/* A tag with which a subset cannot be made any more, and why: what a call with it has failed with. */
struct weft_used_tag {
    int64_t tag;
    int status;
};

struct weft_comm {
    struct weft_driven driven; /* first, so that one is the other */
    struct weft_context *context;
    int rank, ranks;
    char *name;
    uint32_t generation;        /* how often it has shrunk */
    _Atomic int64_t timeout_ms; /* weft_comm_set_timeout() may come from any thread */
    struct weft_bootstrap *bootstrap;
    struct weft_exec *exec;      /* [lock] */
    struct weft_p2p *p2p;        /* [lock] */
    struct weft_member *members; /* [ranks] */
    int one_host;                /* all ranks share memory */
    int no_shm;                  /* no two ranks share memory */
    struct weft_hosts *hosts;    /* arrange.h; NULL: as ranks are numbered, on one host */
    int shm_status;              /* why this rank shares no memory: 0 when it does, or may not */
    char shm_reason[160];
    int vetoed;                     /* a rank's vote ended the start, and all have it */
    int some_host_crowded;          /* more ranks than processors somewhere */
    struct weft_plans plans;        /* [lock] */
    struct weft_fastpath *fastpath; /* NULL when not used */
    struct weft_kept_call kept[WEFT_KEPT_CALLS];
    struct weft_queue queue;
    atomic_int works;              /* handles not freed yet */
    int dropped;                   /* [lock] works that run on without a handle */
    struct weft_work *dropped_ops; /* [lock] those of them that are collectives */
    uint64_t operations, fast_operations;
    _Atomic uint64_t calls;          /* made so far; only the thread that makes calls writes */
    struct weft_stall stall;         /* [lock] */
    struct weft_subset *subsets;     /* [lock] attempts in flight: comm/form/subset.c */
    struct weft_used_tag *used_tags; /* [lock] [used_tag_count] of subsets */
    size_t used_tag_count;
    struct weft_judge *judge;    /* rank 0 */
    atomic_int shrinking;        /* calls of weft_comm_shrink() that have not ended */
    struct weft_comm *next_open; /* comm/form/ending.c */
    atomic_int is_forming; /* a call without an end yet makes a communicator from it: no other collectives */
    struct weft_failure_record failure;
    struct weft_inbox inbox;
};

/* Whether another collective may begin: WEFT_OK, or WEFT_BUSY while one that makes a communicator has not ended. */
int weft_comm_refuse_forming(const struct weft_comm *comm);
static inline int weft_comm_check_free(const struct weft_comm *comm)
{
    int is_forming = atomic_load_explicit(&comm->is_forming, memory_order_relaxed);
    return __builtin_expect(is_forming, 0) ? weft_comm_refuse_forming(comm) : WEFT_OK;
}

/* The number of the call that is being made, and that it counts. By the thread that makes calls. */
static inline uint64_t weft_comm_next_call(const struct weft_comm *comm)
{
    return atomic_load_explicit(&comm->calls, memory_order_relaxed) + 1;
}
static inline void weft_comm_count_call(struct weft_comm *comm)
{
    atomic_store_explicit(&comm->calls, weft_comm_next_call(comm), memory_order_relaxed);
}

/* What texts name. */
static inline int64_t weft_comm_timeout_of(const struct weft_comm *comm, int64_t timeout_ms)
{
    return timeout_ms ? timeout_ms : atomic_load(&comm->timeout_ms);
}

/* weft_wait(), as long as the communicator has not failed; deadline_ns 0: so long (0: its own timeout) from the first look at the clock
 * on. [lock] */
static inline int weft_comm_wait(struct weft_comm *comm, int (*done)(void *arg),
                                 int (*late)(void *arg, int64_t *deadline_ns), void *arg, int64_t deadline_ns,
                                 int64_t timeout_ms)
{
    const struct weft_wait wait = {.driven = &comm->driven,
                                   .done = done,
                                   .late = late,
                                   .arg = arg,
                                   .deadline_ns = deadline_ns,
                                   .timeout_ms = weft_comm_timeout_of(comm, timeout_ms)};
    return weft_wait(comm->context, &wait);
}

/* The deadline of a call that starts now; the second of one with its own (0: the communicator's). */
static inline int64_t weft_comm_deadline_of(const struct weft_comm *comm, int64_t timeout_ms)
{
    return weft_deadline_ns(weft_comm_timeout_of(comm, timeout_ms));
}
static inline int64_t weft_comm_deadline_ns(const struct weft_comm *comm)
{
    return weft_comm_deadline_of(comm, 0);
}

/* The executor's connect hook; arg is the communicator. comm.c */
int weft_comm_link_peer(void *arg, uint32_t rank, struct weft_exec_peer *peer);
/* [lock] Its stopped hook. */
void weft_comm_stopped(void *arg, int status, const char *words);
/* Its differs hook. */
int weft_comm_differs(void *arg, const char *text, const struct weft_call *past);
/* [lock] Its tagged hook. */
int weft_comm_tagged(void *arg, const struct weft_wire_header *header, const void *payload);
/* [lock] Makes what point-to-point messages need, after the executor. */
int weft_comm_make_p2p(struct weft_comm *comm);
/* What its executor may make programs of. */
struct weft_exec_collectives weft_comm_device_collectives(const struct weft_comm *comm);
/* [lock] The executor's sent_by hook, inside an event. */
int weft_comm_sent_by(void *arg, uint32_t rank, const void *sender);

#endif
