#include "comm/fastpath.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/progress.h"

#define INLINE_BYTES 48
#define SPIN_CHECK   64 /* polls of one word between looks at failures */

/* One published contribution. Written by its owner, read by everybody. */
struct slot {
    _Alignas(64) _Atomic uint64_t word; /* digest << 32 | sequence, written last */
    uint8_t small[INLINE_BYTES];
    _Atomic uint64_t size; /* bytes published: a count that differs is found exactly */
};

struct weft_fastpath {
    struct weft_comm *comm;
    uint32_t ranks, rank;
    uint32_t sequence;
    size_t bytes_max, slot_bytes;
    uint8_t *own;                                      /* two slots */
    const uint8_t *published[WEFT_FASTPATH_RANKS_MAX]; /* every rank's slots, the own included */
    struct weft_link *links[WEFT_FASTPATH_RANKS_MAX];
    struct weft_token tokens[WEFT_FASTPATH_RANKS_MAX]; /* of the own slots, for each peer */
    const struct weft_transport_ops *ops;
    uint8_t *partial; /* sums on the way up the tree: ranks / 2 of bytes_max */
};

/* Peers notice by the slots themselves: check_peer(). */
static void unexpose(struct weft_fastpath *fastpath)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (fastpath->links[r])
            fastpath->ops->unexpose(fastpath->links[r], &fastpath->tokens[r], 1);
    }
}

int weft_fastpath_open(struct weft_comm *comm, size_t bytes_max, struct weft_token *tokens,
                       struct weft_fastpath **opened)
{
    struct weft_open_transport *shm = &comm->context->transports[WEFT_SHM];
    struct weft_fastpath *fastpath = calloc(1, sizeof *fastpath);
    if (!fastpath)
        return weft_fail(WEFT_NOMEM, "no memory for the fast path");
    fastpath->comm = comm;
    fastpath->ranks = (uint32_t)comm->ranks;
    fastpath->rank = (uint32_t)comm->rank;
    fastpath->bytes_max = bytes_max;
    fastpath->slot_bytes = (sizeof(struct slot) + bytes_max + 127) / 128 * 128;
    fastpath->ops = &shm->ops;
    int status = WEFT_NOMEM;
    fastpath->partial = aligned_alloc(64, (bytes_max + 63) / 64 * 64 * (fastpath->ranks / 2 + 1));
    if (!fastpath->partial)
        goto free_fastpath;
    void *own;
    status = shm->ops.alloc(shm->instance, 2 * fastpath->slot_bytes, &own);
    if (status != WEFT_OK)
        goto free_partial;
    fastpath->own = own;
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (r == fastpath->rank)
            continue;
        struct weft_exec_peer *peer;
        status = weft_exec_connect(comm->exec, r, &peer);
        if (status == WEFT_OK)
            status = shm->ops.expose(peer->link, NULL, own, 2 * fastpath->slot_bytes, &tokens[r]);
        if (status != WEFT_OK)
            goto free_own;
        fastpath->links[r] = peer->link;
        fastpath->tokens[r] = tokens[r];
    }
    *opened = fastpath;
    return WEFT_OK;

free_own:
    unexpose(fastpath);
    shm->ops.free(shm->instance, own);
free_partial:
    free(fastpath->partial);
free_fastpath:
    free(fastpath);
    return status;
}

int weft_fastpath_map(struct weft_fastpath *fastpath, const struct weft_token *tokens)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        const void *mapped = fastpath->own;
        if (r != fastpath->rank) {
            int status = fastpath->ops->map(fastpath->links[r], &tokens[r], &mapped);
            if (status != WEFT_OK)
                return status;
        }
        fastpath->published[r] = mapped;
    }
    return WEFT_OK;
}

void weft_fastpath_close(struct weft_fastpath *fastpath)
{
    if (!fastpath)
        return;
    struct weft_open_transport *shm = &fastpath->comm->context->transports[WEFT_SHM];
    unexpose(fastpath);
    shm->ops.free(shm->instance, fastpath->own);
    free(fastpath->partial);
    free(fastpath);
}

size_t weft_fastpath_bytes_max(const struct weft_fastpath *fastpath)
{
    return fastpath->bytes_max;
}

static const struct slot *slot_of(const struct weft_fastpath *fastpath, uint32_t rank)
{
    return (const struct slot *)(fastpath->published[rank] + (fastpath->sequence & 1) * fastpath->slot_bytes);
}

static const void *slot_data(const struct slot *slot, size_t bytes)
{
    return bytes <= INLINE_BYTES ? (const void *)slot->small : (const void *)(slot + 1);
}

static void publish(struct weft_fastpath *fastpath, const void *data, size_t bytes, uint32_t digest)
{
    struct slot *slot = (struct slot *)(fastpath->own + (fastpath->sequence & 1) * fastpath->slot_bytes);
    if (bytes)
        memcpy(bytes <= INLINE_BYTES ? (void *)slot->small : (void *)(slot + 1), data, bytes);
    atomic_store_explicit(&slot->size, bytes, memory_order_relaxed);
    atomic_store_explicit(&slot->word, (uint64_t)digest << 32 | fastpath->sequence, memory_order_release);
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (r != fastpath->rank)
            fastpath->ops->notify(fastpath->links[r]);
    }
}

struct waiting {
    const struct slot *slot;
    uint32_t sequence;
};

static int still_waiting(void *arg)
{
    const struct waiting *waiting = arg;
    return (uint32_t)atomic_load_explicit(&waiting->slot->word, memory_order_acquire) != waiting->sequence;
}

/* What an operation needs only when a peer lets it wait: nothing of it is touched before. */
struct patience {
    const struct weft_call *call;
    int64_t timeout_ms;
    int64_t deadline_ns; /* 0: has not had to be patient yet */
    int64_t look_ns;     /* when to look for a stall */
    struct weft_waiting shown;
};

static void begin_patience(const struct weft_fastpath *fastpath, struct patience *patience)
{
    int64_t now_ns = weft_clock_ns();
    patience->deadline_ns = weft_deadline_ns(patience->timeout_ms);
    patience->look_ns = now_ns + WEFT_STALL_NS;
    patience->shown = (struct weft_waiting){
        .call = *patience->call, .since_ns = now_ns, .fast_sequence = fastpath->sequence};
}

/* The deadline has passed: first rank 0 is asked who has not come, then this rank says what it knows. Returns 0
 * or WEFT_TIMEOUT. [lock] */
static int be_late(struct weft_fastpath *fastpath, struct patience *patience, uint32_t peer)
{
    struct weft_comm *comm = fastpath->comm;
    char text[200];
    snprintf(text, sizeof text, "%s #%llu: rank %u on host '%s' did not arrive in time",
             weft_call_name(patience->call), (unsigned long long)patience->call->sequence, peer,
             comm->members[peer].host);
    if (comm->stall.late) {
        weft_comm_fail(comm, WEFT_TIMEOUT, text);
        return WEFT_TIMEOUT;
    }
    int64_t waited_ms = (weft_clock_ns() - patience->shown.since_ns) / 1000000;
    patience->deadline_ns = weft_stall_late(comm, patience->call, waited_ms, text);
    return WEFT_OK;
}

/* The slow side of waiting: failures, stalls, the deadline, other operations' progress, sleep. */
static int wait_patiently(struct weft_fastpath *fastpath, struct waiting *waiting, uint32_t peer,
                          struct patience *patience)
{
    struct weft_comm *comm = fastpath->comm;
    struct weft_context *context = comm->context;
    struct weft_idle idle = {0};
    if (!patience->deadline_ns)
        begin_patience(fastpath, patience);
    weft_context_lock(context);
    comm->stall.waiting = &patience->shown;
    int status = WEFT_OK;
    while (still_waiting(waiting)) {
        int moved = weft_progress_once(context);
        status = weft_comm_check(comm);
        if (status != WEFT_OK)
            break;
        if (moved)
            idle = (struct weft_idle){0};
        weft_context_unlock(context);
        int sleepy = weft_idle_pause(context, &idle);
        weft_context_lock(context);
        if (!sleepy)
            continue;
        int64_t now_ns = weft_clock_ns();
        if (now_ns >= patience->look_ns)
            patience->look_ns = weft_stall_look(comm, now_ns);
        if (now_ns >= patience->deadline_ns) {
            status = be_late(fastpath, patience, peer);
            if (status != WEFT_OK)
                break;
        }
        weft_progress_sleep(
            context, patience->look_ns < patience->deadline_ns ? patience->look_ns : patience->deadline_ns,
            still_waiting, waiting);
    }
    comm->stall.waiting = NULL;
    weft_context_unlock(context);
    return status;
}

static int await_peer(struct weft_fastpath *fastpath, uint32_t peer, struct patience *patience)
{
    struct waiting waiting = {slot_of(fastpath, peer), fastpath->sequence};
    struct weft_idle idle = {0};
    int yields = fastpath->comm->context->oversubscribed;
    for (uint32_t spins = 0; still_waiting(&waiting); spins++) {
        if (yields || spins % SPIN_CHECK == SPIN_CHECK - 1) {
            if (weft_bootstrap_has_failed(fastpath->comm->bootstrap) ||
                weft_idle_pause(fastpath->comm->context, &idle) || spins > 20 * SPIN_CHECK) {
                int status = wait_patiently(fastpath, &waiting, peer, patience);
                if (status != WEFT_OK)
                    return status;
            }
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    return WEFT_OK;
}

int weft_fastpath_has_published(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t sequence)
{
    const struct slot *slot =
        (const struct slot *)(fastpath->published[rank] + (sequence & 1) * fastpath->slot_bytes);
    return (uint32_t)atomic_load_explicit(&slot->word, memory_order_acquire) == sequence;
}

int weft_fastpath_differs(struct weft_fastpath *fastpath, const struct weft_call *call, const char *text)
{
    struct weft_waiting waiting = {.call = *call, .fast_sequence = fastpath->sequence};
    weft_stall_await_verdict(fastpath->comm, &waiting, text);
    return fastpath->comm->failed;
}

/* A peer has published: digest and size must agree. A slot that no longer holds this operation was taken away by
 * an owner that gave up, freed it, and had its pages replaced by zeros here (transport/shm/segment.c). */
static int check_peer(struct weft_fastpath *fastpath, uint32_t peer, uint32_t digest, size_t size,
                      const struct weft_call *call)
{
    const struct slot *slot = slot_of(fastpath, peer);
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&slot->size, memory_order_relaxed);
    if (word == ((uint64_t)digest << 32 | fastpath->sequence) && bytes == size)
        return WEFT_OK;
    struct weft_comm *comm = fastpath->comm;
    uint32_t theirs = (uint32_t)(word >> 32);
    char text[200];
    if ((uint32_t)word == fastpath->sequence) {
        snprintf(text, sizeof text,
                 "rank %u and rank %u disagree on the %s of call #%llu (%llu and %zu bytes)", peer,
                 fastpath->rank, weft_digest_difference(digest, theirs), (unsigned long long)call->sequence,
                 (unsigned long long)bytes, size);
        return weft_fastpath_differs(fastpath, call, text);
    }
    snprintf(text, sizeof text, "rank %u on host '%s' gave up during %s #%llu", peer,
             comm->members[peer].host, weft_call_name(call), (unsigned long long)call->sequence);
    weft_context_lock(comm->context);
    weft_comm_fail(comm, WEFT_PEER_FAILED, text);
    weft_context_unlock(comm->context);
    return WEFT_PEER_FAILED;
}

/* Recursive doubling's association: guests into their hosts, then neighbours pairwise, level by level. */
static void combine(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                    const void **contributions)
{
    uint32_t ranks = fastpath->ranks, places = 1;
    while (2 * places <= ranks)
        places *= 2;
    uint32_t guests = ranks - places;
    size_t stride = (fastpath->bytes_max + 63) / 64 * 64;
    const void *values[WEFT_FASTPATH_RANKS_MAX];
    for (uint32_t place = 0; place < places; place++) {
        if (place >= guests) {
            values[place] = contributions[place + guests];
            continue;
        }
        uint8_t *sum = fastpath->partial + place * stride;
        const void *pair[2] = {contributions[2 * place], contributions[2 * place + 1]};
        request->reduce(sum, pair, 2, request->count, 0);
        values[place] = sum;
    }
    for (uint32_t left = places / 2; left >= 1; left /= 2) {
        for (uint32_t i = 0; i < left; i++) {
            const void *pair[2] = {values[2 * i], values[2 * i + 1]};
            void *sum = left == 1 ? request->output : fastpath->partial + i * stride;
            request->reduce(sum, pair, 2, request->count, left == 1 ? request->finish : 0);
            values[i] = sum;
        }
    }
}

/* checked is a constant: without it nothing of the ranks' calls is compared. */
static inline int exchange(struct weft_fastpath *fastpath, const void *data, size_t size,
                           const struct weft_call *call, int64_t timeout_ms, const void **contributions,
                           int checked)
{
    struct patience patience;
    patience.call = call;
    patience.timeout_ms = timeout_ms;
    patience.deadline_ns = 0;
    uint32_t digest = checked ? weft_call_digest(call) : 0;
    fastpath->sequence++;
    publish(fastpath, data, size, digest);
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        int status = r == fastpath->rank ? WEFT_OK : await_peer(fastpath, r, &patience);
        if (status != WEFT_OK)
            return status;
    }
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        int status = !checked || r == fastpath->rank ? WEFT_OK : check_peer(fastpath, r, digest, size, call);
        if (status != WEFT_OK)
            return status;
        contributions[r] = r == fastpath->rank ? data : slot_data(slot_of(fastpath, r), size);
    }
    return WEFT_OK;
}

int weft_fastpath_confirm(struct weft_fastpath *fastpath, size_t size, const struct weft_call *call)
{
    atomic_thread_fence(memory_order_acquire);
    for (uint32_t r = 0; r < fastpath->ranks; r++) { /* the own slot holds the own operation */
        uint64_t word = atomic_load_explicit(&slot_of(fastpath, r)->word, memory_order_relaxed);
        if (__builtin_expect((uint32_t)word != fastpath->sequence, 0))
            return check_peer(fastpath, r, (uint32_t)(word >> 32), size, call);
    }
    return WEFT_OK;
}

int weft_fastpath_exchange(struct weft_fastpath *fastpath, const void *data, size_t size,
                           const struct weft_call *call, int64_t timeout_ms, const void **contributions)
{
    return exchange(fastpath, data, size, call, timeout_ms, contributions, 1);
}

static inline int allreduce(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                            int64_t timeout_ms, int checked)
{
    const void *contributions[WEFT_FASTPATH_RANKS_MAX];
    int status = exchange(fastpath, request->input, request->count * request->element_bytes, request->call,
                          timeout_ms, contributions, checked);
    if (status != WEFT_OK)
        return status;
    combine(fastpath, request, contributions);
    return weft_fastpath_confirm(fastpath, request->count * request->element_bytes, request->call);
}

int weft_fastpath_allreduce(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                            int64_t timeout_ms)
{
    return allreduce(fastpath, request, timeout_ms, 1);
}

int weft_fastpath_allreduce_unchecked(struct weft_fastpath *fastpath,
                                      const struct weft_fastpath_request *request, int64_t timeout_ms)
{
    return allreduce(fastpath, request, timeout_ms, 0);
}
