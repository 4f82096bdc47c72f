/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/fastpath.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/progress.h"
#include "transport/fence.h"

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

static size_t partial_bytes(const struct weft_fastpath *fastpath)
{
    return (fastpath->bytes_max + 63) / 64 * 64 * (fastpath->ranks / 2 + 1);
}

/* Peers notice by the slots themselves: confirm(). */
static void unexpose(struct weft_fastpath *fastpath)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (fastpath->links[r])
            fastpath->ops->unexpose(fastpath->links[r], &fastpath->tokens[r], 1);
    }
}

/* The slots hold no operation: peers that still look for one see that its owner has given up, before the memory is used
 * for anything else. */
static void erase(const struct weft_fastpath *fastpath)
{
    for (int i = 0; i < 2; i++) {
        struct slot *slot = (struct slot *)(fastpath->own + (size_t)i * fastpath->slot_bytes);
        atomic_store_explicit(&slot->word, 0, memory_order_relaxed);
    }
    weft_fence_full();
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
    fastpath->sequence =
        comm->id & INT32_MAX; /* fastpath.h; not near the wrap, where it would be an erased word */
    int status = WEFT_NOMEM;
    fastpath->partial = aligned_alloc(64, partial_bytes(fastpath));
    if (!fastpath->partial)
        goto free_fastpath;
    void *own = weft_memory_buffer_get(comm->context, WEFT_SHM, 2 * fastpath->slot_bytes, NULL);
    if (!own)
        goto free_partial;
    fastpath->own = own;
    erase(fastpath);
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
    weft_memory_buffer_put(comm->context, WEFT_SHM, own, 2 * fastpath->slot_bytes);
free_partial:
    free(fastpath->partial);
free_fastpath:
    free(fastpath);
    return status == WEFT_NOMEM ? weft_fail(WEFT_NOMEM, "no memory for the fast path") : status;
}

int weft_fastpath_map(struct weft_fastpath *fastpath, const struct weft_token *tokens)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        const void *mapped = fastpath->own;
        if (r != fastpath->rank) {
            int status =
                fastpath->ops->map(fastpath->links[r], &tokens[r], 2 * fastpath->slot_bytes, &mapped);
            if (status != WEFT_OK)
                return status;
            if ((uintptr_t)mapped % _Alignof(struct slot))
                return weft_fail(WEFT_PROTOCOL, "rank %u's slots are not aligned to %zu bytes", r,
                                 _Alignof(struct slot));
        }
        fastpath->published[r] = mapped;
    }
    return WEFT_OK;
}

void weft_fastpath_close(struct weft_fastpath *fastpath)
{
    if (!fastpath)
        return;
    erase(fastpath);
    unexpose(fastpath);
    weft_memory_buffer_put(fastpath->comm->context, WEFT_SHM, fastpath->own, 2 * fastpath->slot_bytes);
    free(fastpath->partial);
    free(fastpath);
}

size_t weft_fastpath_bytes_max(const struct weft_fastpath *fastpath)
{
    return fastpath->bytes_max;
}

size_t weft_fastpath_bytes(const struct weft_fastpath *fastpath)
{
    return sizeof *fastpath + partial_bytes(fastpath);
}

static const struct slot *slot_of(const struct weft_fastpath *fastpath, uint32_t rank)
{
    return (const struct slot *)(fastpath->published[rank] + (fastpath->sequence & 1) * fastpath->slot_bytes);
}

/* Where a slot holds so many bytes. */
static void *slot_data(const struct slot *slot, size_t bytes)
{
    return bytes <= INLINE_BYTES ? (void *)slot->small : (void *)(slot + 1);
}

/* Begins the next operation: its own slot, whose content nobody reads any more. */
static struct slot *next_slot(struct weft_fastpath *fastpath)
{
    fastpath->sequence++;
    return (struct slot *)(fastpath->own + (fastpath->sequence & 1) * fastpath->slot_bytes);
}

/* size is what is compared. */
static void publish(struct weft_fastpath *fastpath, struct slot *slot, size_t size, uint32_t digest)
{
    atomic_store_explicit(&slot->size, size, memory_order_relaxed);
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

/* What an operation needs only when a peer lets it wait: nothing but the first few is touched before, since every
 * store delays what the peers wait for. */
struct patience {
    const struct weft_call *call; /* or NULL, and the request says it */
    const struct weft_fastpath_request *request;
    uint32_t digest;
    int64_t timeout_ms;
    int64_t deadline_ns; /* 0: has not had to be patient yet */
    int64_t look_ns;     /* when to look for a stall */
    struct weft_waiting shown;
};

/* The call that waits. For a request the digest is enough: the call is the last one counted.
 */
static struct weft_call call_of(const struct weft_fastpath *fastpath, const struct patience *patience)
{
    if (patience->call)
        return *patience->call;
    const struct weft_fastpath_request *request = patience->request;
    struct weft_call call = weft_digest_call(patience->digest);
    call.sequence = weft_comm_next_call(fastpath->comm) - 1;
    call.count = request->count;
    call.in_place = request->input == request->output;
    return call;
}

static void begin_patience(const struct weft_fastpath *fastpath, struct patience *patience)
{
    int64_t now_ns = weft_clock_ns();
    patience->deadline_ns = weft_deadline_ns(patience->timeout_ms);
    patience->look_ns = now_ns + WEFT_STALL_NS;
    patience->shown = (struct weft_waiting){
        .call = call_of(fastpath, patience), .since_ns = now_ns, .fast_sequence = fastpath->sequence};
}

/* The deadline has passed: first rank 0 is asked who has not come, then this rank says what it knows. Returns 0
 * or WEFT_TIMEOUT. [lock] */
static int be_late(struct weft_fastpath *fastpath, struct patience *patience, uint32_t peer)
{
    struct weft_comm *comm = fastpath->comm;
    char text[200];
    snprintf(text, sizeof text, "%s #%llu: rank %u on host '%s' did not arrive in time",
             weft_call_name(&patience->shown.call), (unsigned long long)patience->shown.call.sequence, peer,
             comm->members[peer].host);
    if (comm->stall.late) {
        weft_comm_fail(comm, WEFT_TIMEOUT, text);
        return WEFT_TIMEOUT;
    }
    int64_t waited_ms = (weft_clock_ns() - patience->shown.since_ns) / 1000000;
    patience->deadline_ns = weft_stall_late(comm, &patience->shown.call, waited_ms, text);
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
        weft_progress_sleep(context, &idle,
                            patience->look_ns < patience->deadline_ns ? patience->look_ns
                                                                      : patience->deadline_ns,
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

/* A slot that is not what it should be. Either its owner is in another call; or it no longer holds this operation,
 * because an owner that gave up has erased it, and may use it for another communicator by now. */
static int doubt_peer(struct weft_fastpath *fastpath, uint32_t peer, uint32_t digest, size_t size,
                      const struct patience *patience)
{
    const struct slot *slot = slot_of(fastpath, peer);
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    unsigned long long bytes = atomic_load_explicit(&slot->size, memory_order_relaxed);
    struct weft_comm *comm = fastpath->comm;
    const struct weft_call call = call_of(fastpath, patience);
    char text[200];
    if ((uint32_t)word == fastpath->sequence) {
        snprintf(text, sizeof text,
                 "rank %u and rank %u disagree on the %s of call #%llu (%llu and %zu bytes)", peer,
                 fastpath->rank, weft_digest_difference(digest, (uint32_t)(word >> 32)),
                 (unsigned long long)call.sequence, bytes, size);
        return weft_fastpath_differs(fastpath, &call, text);
    }
    snprintf(text, sizeof text, "rank %u on host '%s' gave up during %s #%llu", peer,
             comm->members[peer].host, weft_call_name(&call), (unsigned long long)call.sequence);
    weft_context_lock(comm->context);
    weft_comm_await_reason(comm);
    if (weft_comm_check(comm) == WEFT_OK)
        weft_comm_fail(comm, WEFT_PEER_FAILED, text);
    weft_context_unlock(comm->context);
    return comm->failed;
}

static int is_strict(const struct weft_fastpath *fastpath)
{
    return fastpath->comm->context->settings.strict != 0;
}

/* Recursive doubling's association: guests into their hosts, then neighbours pairwise, level by level; in strict mode,
 * which has one association for all, partners that are half of what is left apart. */
static void combine(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request, int strict,
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
            const void *pair[2] = {values[strict ? i : 2 * i], values[strict ? i + left : 2 * i + 1]};
            void *sum = left == 1 ? request->output : fastpath->partial + i * stride;
            request->reduce(sum, pair, 2, request->count, left == 1 ? request->finish : 0);
            values[i] = sum;
        }
    }
}

static inline int await_peers(struct weft_fastpath *fastpath, struct patience *patience)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        int status = r == fastpath->rank ? WEFT_OK : await_peer(fastpath, r, patience);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Publishes and waits until everybody has. */
static inline int exchange(struct weft_fastpath *fastpath, const void *data, size_t size, uint32_t digest,
                           struct patience *patience, const void **contributions)
{
    struct slot *slot = next_slot(fastpath);
    if (size)
        memcpy(slot_data(slot, size), data, size);
    publish(fastpath, slot, size, digest);
    int status = await_peers(fastpath, patience);
    if (status != WEFT_OK)
        return status;
    for (uint32_t r = 0; r < fastpath->ranks; r++)
        contributions[r] = r == fastpath->rank ? data : slot_data(slot_of(fastpath, r), size);
    return WEFT_OK;
}

/* Whether every slot holds this operation, which is asked after it has been read: nothing was taken away meanwhile
 * and, when calls are compared (a constant), what was read belongs to the same call. */
static inline int confirm(struct weft_fastpath *fastpath, uint32_t digest, size_t size,
                          const struct patience *patience, int compared)
{
    const uint64_t expected = (uint64_t)digest << 32 | fastpath->sequence;
    weft_fence_loads();
    for (uint32_t r = 0; r < fastpath->ranks; r++) { /* the own slot holds the own operation */
        const struct slot *slot = slot_of(fastpath, r);
        uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
        int same = compared
                       ? word == expected && atomic_load_explicit(&slot->size, memory_order_relaxed) == size
                       : (uint32_t)word == fastpath->sequence;
        if (__builtin_expect(!same, 0))
            return doubt_peer(fastpath, r, digest, size, patience);
    }
    return WEFT_OK;
}

int weft_fastpath_confirm(struct weft_fastpath *fastpath, size_t size, const struct weft_call *call)
{
    struct patience patience;
    patience.call = call;
    return confirm(fastpath, weft_call_digest(call), size, &patience, 1);
}

int weft_fastpath_exchange(struct weft_fastpath *fastpath, const void *data, size_t size,
                           const struct weft_call *call, int64_t timeout_ms, const void **contributions)
{
    struct patience patience;
    patience.call = call;
    patience.timeout_ms = timeout_ms;
    patience.deadline_ns = 0;
    int status = exchange(fastpath, data, size, weft_call_digest(call), &patience, contributions);
    return status == WEFT_OK ? weft_fastpath_confirm(fastpath, size, call) : status;
}

/* A slot has room for bytes_max whatever its owner has published, so that reading it before the calls are compared
 * does no harm: the output is not reported good. */
static inline int allreduce(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                            uint32_t digest, int64_t timeout_ms, int compared)
{
    const void *contributions[WEFT_FASTPATH_RANKS_MAX];
    size_t size = request->count * request->element_bytes;
    struct patience patience;
    patience.call = NULL;
    patience.request = request;
    patience.digest = digest;
    patience.timeout_ms = timeout_ms;
    patience.deadline_ns = 0;
    int status = exchange(fastpath, request->input, size, digest, &patience, contributions);
    if (status != WEFT_OK)
        return status;
    combine(fastpath, request, is_strict(fastpath), contributions);
    return confirm(fastpath, digest, size, &patience, compared);
}

int weft_fastpath_allreduce(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                            uint32_t digest, int64_t timeout_ms)
{
    return allreduce(fastpath, request, digest, timeout_ms, 1);
}

int weft_fastpath_allreduce_unchecked(struct weft_fastpath *fastpath,
                                      const struct weft_fastpath_request *request, int64_t timeout_ms)
{
    return allreduce(fastpath, request, 0, timeout_ms, 0);
}

int weft_fastpath_reduce(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                         size_t published, size_t from, const struct weft_call *call, int64_t timeout_ms)
{
    const void *contributions[WEFT_FASTPATH_RANKS_MAX];
    uint32_t digest = weft_call_digest(call);
    struct patience patience;
    patience.call = call;
    patience.timeout_ms = timeout_ms;
    patience.deadline_ns = 0;
    int status = exchange(fastpath, request->input, published, digest, &patience, contributions);
    if (status != WEFT_OK)
        return status;
    for (uint32_t r = 0; r < fastpath->ranks; r++)
        contributions[r] = (const uint8_t *)contributions[r] + from;
    int blocks = call->collective == WEFT_REDUCE_SCATTER;
    if (request->output && request->count)
        combine(fastpath, request, blocks || is_strict(fastpath), contributions);
    return confirm(fastpath, digest, published, &patience, 1);
}

/* What the others read of the input: all but the block that is meant for this rank. */
static void copy_in(const struct weft_fastpath *fastpath, const struct weft_fastpath_move *move,
                    struct slot *slot)
{
    char *data = slot_data(slot, move->published);
    const char *input = move->input;
    size_t hole = move->published > move->block ? (size_t)fastpath->rank * move->block : move->published;
    memcpy(data, input, hole);
    if (hole < move->published)
        memcpy(data + hole + move->block, input + hole + move->block, move->published - hole - move->block);
}

static void copy_own(const struct weft_fastpath *fastpath, const struct weft_fastpath_move *move)
{
    uint32_t rank = fastpath->rank;
    if (rank < move->first || rank >= move->end || !move->block)
        return;
    char *to = (char *)move->output + (size_t)(rank - move->first) * move->block;
    if (move->own != to)
        memcpy(to, move->own, move->block);
}

static void copy_out(const struct weft_fastpath *fastpath, const struct weft_fastpath_move *move)
{
    for (uint32_t r = move->first; r < move->end && move->block; r++) {
        if (r == fastpath->rank)
            continue;
        const char *from = (const char *)slot_data(slot_of(fastpath, r), move->theirs) + move->from;
        memcpy((char *)move->output + (size_t)(r - move->first) * move->block, from, move->block);
    }
}

int weft_fastpath_move(struct weft_fastpath *fastpath, const struct weft_fastpath_move *move,
                       const struct weft_call *call, int64_t timeout_ms)
{
    uint32_t digest = weft_call_digest(call);
    struct patience patience;
    patience.call = call;
    patience.timeout_ms = timeout_ms;
    patience.deadline_ns = 0;
    struct slot *slot = next_slot(fastpath);
    if (move->published)
        copy_in(fastpath, move, slot);
    publish(fastpath, slot, move->block, digest);
    copy_own(fastpath, move); /* while the others' blocks are on their way */
    int status = await_peers(fastpath, &patience);
    if (status != WEFT_OK)
        return status;
    copy_out(fastpath, move);
    return confirm(fastpath, digest, move->block, &patience, 1);
}
