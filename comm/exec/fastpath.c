/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/fastpath.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/demote.h"
#include "base/fence.h"
#include "comm/drive/progress.h"
#include "comm/exec/internal.h"
#include "comm/exec/mismatch.h"

#define INLINE_BYTES 48
#define SPIN_CHECK   64 /* polls of one word between pauses that may yield, or look at the clock */
#define SPINS_MAX    (20 * SPIN_CHECK)
#define DEMOTED_MAX  2048 /* bytes: more than that is read while it is written */
#define BANK_PLACES  16   /* communicators whose slots lie in one buffer of the pool */

/* One published contribution. Written by its owner, read by everybody. */
struct slot {
    _Alignas(64) _Atomic uint64_t word; /* digest << 32 | sequence, written last */
    uint8_t small[INLINE_BYTES];
    _Atomic uint64_t size; /* bytes published: a count that differs is found exactly */
};

struct weft_fastpath {
    struct weft_context *context;
    uint32_t ranks, rank;
    uint32_t sequence;
    size_t bytes_max, slot_bytes;
    int demotes;                                       /* see base/demote.h */
    uint8_t *own;                                      /* two slots */
    const uint8_t *published[WEFT_FASTPATH_RANKS_MAX]; /* every rank's slots, the own included */
    struct weft_link *links[WEFT_FASTPATH_RANKS_MAX];
    struct weft_token tokens[WEFT_FASTPATH_RANKS_MAX]; /* of the own slots, for each peer */
    const struct weft_transport_ops *ops;
    uint8_t *partial; /* sums on the way up the tree: ranks / 2 of bytes_max */
};

/* --- slots */

/* A buffer of the pool costs a descriptor, so several communicators share one. A place is the slots of one of them. */
struct weft_slot_bank {
    struct weft_slot_bank *next;
    const struct weft_transport *owner;
    uint8_t *memory;
    size_t place_bytes;
    uint32_t used; /* a bit for each place */
};

static struct weft_slot_bank *make_bank(struct weft_context *context, size_t place_bytes)
{
    struct weft_slot_bank *bank = calloc(1, sizeof *bank);
    if (!bank)
        return NULL;
    bank->memory = weft_memory_buffer_get(context, WEFT_SHM, BANK_PLACES * place_bytes, NULL);
    if (!bank->memory) {
        free(bank);
        return NULL;
    }
    bank->owner = context->transports[WEFT_SHM].instance;
    bank->place_bytes = place_bytes;
    bank->next = context->regions.slot_banks;
    context->regions.slot_banks = bank;
    return bank;
}

static uint8_t *take_slots(struct weft_context *context, size_t bytes)
{
    struct weft_slot_bank *bank = context->regions.slot_banks;
    while (bank && (bank->place_bytes != bytes || bank->owner != context->transports[WEFT_SHM].instance ||
                    bank->used == (1u << BANK_PLACES) - 1))
        bank = bank->next;
    if (!bank)
        bank = make_bank(context, bytes);
    if (!bank)
        return NULL;
    int place = __builtin_ctz(~bank->used);
    bank->used |= 1u << place;
    return bank->memory + (size_t)place * bytes;
}

static void give_slots(struct weft_context *context, const uint8_t *slots)
{
    struct weft_slot_bank **at = &context->regions.slot_banks, *bank;
    while ((bank = *at) && (slots < bank->memory || slots >= bank->memory + BANK_PLACES * bank->place_bytes))
        at = &bank->next;
    if (!bank)
        return;
    bank->used &= ~(1u << (size_t)(slots - bank->memory) / bank->place_bytes);
    if (bank->used)
        return;
    *at = bank->next;
    weft_memory_buffer_put(context, WEFT_SHM, bank->memory, BANK_PLACES * bank->place_bytes);
    free(bank);
}

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

int weft_fastpath_open(struct weft_context *context, struct weft_exec *exec, size_t bytes_max,
                       struct weft_token *tokens, struct weft_fastpath **opened)
{
    struct weft_open_transport *shm = &context->transports[WEFT_SHM];
    struct weft_fastpath *fastpath = calloc(1, sizeof *fastpath);
    if (!fastpath)
        return weft_fail(WEFT_NOMEM, "no memory for the fast path");
    fastpath->context = context;
    fastpath->ranks = exec->options.ranks;
    fastpath->rank = exec->options.rank;
    fastpath->bytes_max = bytes_max;
    fastpath->demotes = weft_demote_works();
    fastpath->slot_bytes = (sizeof(struct slot) + bytes_max + 127) / 128 * 128;
    fastpath->ops = &shm->ops;
    fastpath->sequence =
        exec->options.id & INT32_MAX; /* fastpath.h; not near the wrap, where it would be an erased word */
    int status = WEFT_NOMEM;
    fastpath->partial = aligned_alloc(64, partial_bytes(fastpath));
    if (!fastpath->partial)
        goto free_fastpath;
    uint8_t *own = take_slots(context, 2 * fastpath->slot_bytes);
    if (!own)
        goto free_partial;
    fastpath->own = own;
    erase(fastpath);
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (r == fastpath->rank)
            continue;
        struct weft_exec_peer *peer;
        status = weft_exec_connect(exec, r, &peer);
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
    give_slots(context, own);
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
    give_slots(fastpath->context, fastpath->own);
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
static inline struct slot *next_slot(struct weft_fastpath *fastpath)
{
    fastpath->sequence++;
    return (struct slot *)(fastpath->own + (fastpath->sequence & 1) * fastpath->slot_bytes);
}

/* size is what is compared. */
static inline void publish(struct weft_fastpath *fastpath, struct slot *slot, size_t size, uint32_t digest)
{
    atomic_store_explicit(&slot->size, size, memory_order_relaxed);
    atomic_store_explicit(&slot->word, (uint64_t)digest << 32 | fastpath->sequence, memory_order_release);
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (r != fastpath->rank)
            fastpath->ops->notify(fastpath->links[r]);
    }
}

/* Whether a slot holds this operation. */
static inline int is_published(const struct slot *slot, uint32_t sequence)
{
    return (uint32_t)atomic_load_explicit(&slot->word, memory_order_acquire) == sequence;
}

/* Whether the peer has come before patience is over. */
static int spin(const struct weft_fastpath *fastpath, uint32_t peer)
{
    const struct slot *slot = slot_of(fastpath, peer);
    const uint32_t sequence = fastpath->sequence;
    struct weft_idle idle = {0};
    int yields = fastpath->context->oversubscribed;
    for (uint32_t spins = 0; !is_published(slot, sequence); spins++) {
        if ((yields || spins % SPIN_CHECK == SPIN_CHECK - 1) &&
            (weft_idle_pause(fastpath->context, &idle) || spins > SPINS_MAX))
            return 0;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    return 1;
}

int weft_fastpath_has_published(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t sequence)
{
    const struct slot *slot =
        (const struct slot *)(fastpath->published[rank] + (sequence & 1) * fastpath->slot_bytes);
    return is_published(slot, sequence);
}

/* Recursive doubling's association: guests into their hosts, then neighbours pairwise, level by level; in strict mode,
 * which has one association for all, partners that are half of what is left apart. */
static void combine(struct weft_fastpath *fastpath, const struct weft_fastpath_reduction *reduction,
                    int strict, const void **contributions)
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
        reduction->reduce(sum, pair, 2, reduction->count, 0);
        values[place] = sum;
    }
    for (uint32_t left = places / 2; left >= 1; left /= 2) {
        for (uint32_t i = 0; i < left; i++) {
            const void *pair[2] = {values[strict ? i : 2 * i], values[strict ? i + left : 2 * i + 1]};
            void *sum = left == 1 ? reduction->output : fastpath->partial + i * stride;
            reduction->reduce(sum, pair, 2, reduction->count, left == 1 ? reduction->finish : 0);
            values[i] = sum;
        }
    }
}

/* What the others read of the input: all but the block that is meant for this rank. */
static void copy_in(const struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                    struct slot *slot)
{
    size_t published = exchange->published, block = exchange->move.block;
    char *data = slot_data(slot, published);
    const char *input = exchange->input;
    size_t hole = published > block ? (size_t)fastpath->rank * block : published;
    memcpy(data, input, hole);
    if (hole < published)
        memcpy(data + hole + block, input + hole + block, published - hole - block);
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

/* --- one operation */

/* Whether this rank waits for what the others publish. One that only gives, as a broadcast's root, writes ahead of those that take. */
static inline int takes(const struct weft_fastpath_exchange *exchange)
{
    switch (exchange->kind) {
    case WEFT_FASTPATH_REDUCES:
        return exchange->reduction.output != NULL;
    case WEFT_FASTPATH_MOVES:
        return exchange->move.end - exchange->move.first > 1;
    default:
        return 1;
    }
}

/* The others wait for it. */
static inline void demote(const struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                          const struct slot *slot)
{
    size_t published = exchange->published;
    if (fastpath->demotes && published && published <= DEMOTED_MAX && takes(exchange))
        weft_demote(slot, sizeof *slot + (published <= INLINE_BYTES ? 0 : published));
}

static inline void begin(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                         uint32_t digest, int by_plan)
{
    struct slot *slot = next_slot(fastpath);
    if (exchange->published && !by_plan) {
        if (exchange->kind == WEFT_FASTPATH_MOVES)
            copy_in(fastpath, exchange, slot);
        else
            memcpy(slot_data(slot, exchange->published), exchange->input, exchange->published);
    }
    publish(fastpath, slot, exchange->size, by_plan ? digest | WEFT_DIGEST_BY_PLAN : digest);
    demote(fastpath, exchange, slot);
}

void weft_fastpath_begin(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                         int by_plan)
{
    begin(fastpath, exchange, weft_call_digest(exchange->call), by_plan);
}

uint32_t weft_fastpath_sequence(const struct weft_fastpath *fastpath)
{
    return fastpath->sequence;
}

int weft_fastpath_missing(const struct weft_fastpath *fastpath)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (!is_published(slot_of(fastpath, r), fastpath->sequence))
            return (int)r;
    }
    return -1;
}

const void *weft_fastpath_shown(const struct weft_fastpath *fastpath, uint32_t rank, size_t size)
{
    return slot_data(slot_of(fastpath, rank), size);
}

static inline uint64_t word_of(const struct weft_fastpath *fastpath, uint32_t rank)
{
    return atomic_load_explicit(&slot_of(fastpath, rank)->word, memory_order_relaxed);
}

/* Ranks [first, end), whose slots are looked at. */
struct looked {
    uint32_t first, end;
};

static inline struct looked look_at_all(const struct weft_fastpath *fastpath)
{
    return (struct looked){0, fastpath->ranks};
}

/* The own slot holds the own operation: of two ranks the other one is looked at alone. */
static inline struct looked look_at_others(const struct weft_fastpath *fastpath)
{
    uint32_t other = 1 - fastpath->rank;
    return fastpath->ranks == 2 ? (struct looked){other, other + 1} : look_at_all(fastpath);
}

/* Whether some rank wants a plan. */
static inline int goes_by_plan(const struct weft_fastpath *fastpath, struct looked looked)
{
    uint64_t words = 0;
    for (uint32_t r = looked.first; r < looked.end; r++)
        words |= word_of(fastpath, r);
    return (words >> 32 & WEFT_DIGEST_BY_PLAN) != 0;
}

static inline void put_together(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange)
{
    const void *contributions[WEFT_FASTPATH_RANKS_MAX];
    const struct weft_fastpath_reduction *reduction = &exchange->reduction;
    if (exchange->kind == WEFT_FASTPATH_MOVES)
        copy_out(fastpath, &exchange->move);
    if (exchange->kind != WEFT_FASTPATH_REDUCES || !reduction->output || !reduction->count)
        return;
    for (uint32_t r = 0; r < fastpath->ranks; r++)
        contributions[r] =
            (const uint8_t *)(r == fastpath->rank ? exchange->input
                                                  : slot_data(slot_of(fastpath, r), exchange->published)) +
            reduction->from;
    if (fastpath->ranks == 2) { /* by far the most, and without a tree */
        reduction->reduce(reduction->output, contributions, 2, reduction->count, reduction->finish);
        return;
    }
    int blocks = exchange->call->collective == WEFT_REDUCE_SCATTER;
    combine(fastpath, reduction, blocks || fastpath->context->settings.strict, contributions);
}

/* The first rank whose slot does not hold this operation, or -1. Asked after it has been read: nothing was taken away meanwhile, and
 * what was read belongs to the same call. An owner that has given up may have erased its slots; it never
 * overwrites one that is still being read (the argument of fastpath.h), and publishes nothing more. */
static inline int odd_one(const struct weft_fastpath *fastpath, struct looked looked, uint32_t digest,
                          size_t bytes)
{
    const uint64_t expected = (uint64_t)digest << 32 | fastpath->sequence;
    weft_fence_loads();
    for (uint32_t r = looked.first; r < looked.end; r++) {
        uint64_t word = word_of(fastpath, r) & ~((uint64_t)WEFT_DIGEST_BY_PLAN << 32);
        uint64_t size = atomic_load_explicit(&slot_of(fastpath, r)->size, memory_order_relaxed);
        if (__builtin_expect(word != expected || size != bytes, 0))
            return (int)r;
    }
    return -1;
}

/* Either the rank is in another call; or its slot no longer holds this operation, because an owner that gave up has erased it, and may use
 * it for another communicator by now. */
static int doubt(const struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                 struct weft_fastpath_odd *odd)
{
    uint64_t word = word_of(fastpath, odd->peer);
    uint64_t bytes = atomic_load_explicit(&slot_of(fastpath, odd->peer)->size, memory_order_relaxed);
    if ((uint32_t)word != fastpath->sequence)
        return WEFT_PEER_FAILED;
    uint32_t theirs = (uint32_t)(word >> 32) & ~WEFT_DIGEST_BY_PLAN;
    weft_mismatch_cell(exchange->call, theirs, exchange->size, bytes, odd->peer, fastpath->rank, odd->text,
                       sizeof odd->text);
    return WEFT_MISMATCH;
}

/* A slot has room for bytes_max whatever its owner has published, so that reading it before the calls are compared
 * does no harm: the output is not reported good. Inline wherever it is used: with a call between, two ranks that share no cache took 330 ns
 * where they take 305, as the lines that they write and read went to and fro more often. */
static inline __attribute__((always_inline)) int finish(struct weft_fastpath *fastpath,
                                                        const struct weft_fastpath_exchange *exchange,
                                                        struct looked looked, uint32_t digest, int *by_plan,
                                                        struct weft_fastpath_odd *odd)
{
    *by_plan = goes_by_plan(fastpath, looked);
    if (!*by_plan)
        put_together(fastpath, exchange);
    int rank = odd_one(fastpath, looked, digest, exchange->size);
    if (__builtin_expect(rank < 0, 1))
        return WEFT_OK;
    odd->peer = (uint32_t)rank;
    return doubt(fastpath, exchange, odd);
}

int weft_fastpath_finish(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                         int *by_plan, struct weft_fastpath_odd *odd)
{
    const struct looked all = look_at_all(fastpath); /* this rank may have asked for a plan itself */
    if (exchange->kind == WEFT_FASTPATH_MOVES && !goes_by_plan(fastpath, all))
        copy_own(fastpath, &exchange->move);
    return finish(fastpath, exchange, all, weft_call_digest(exchange->call), by_plan, odd);
}

int weft_fastpath_run(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                      int *by_plan, struct weft_fastpath_odd *odd)
{
    const uint32_t digest = weft_call_digest(exchange->call);
    begin(fastpath, exchange, digest, 0);
    if (exchange->kind == WEFT_FASTPATH_MOVES)
        copy_own(fastpath, &exchange->move); /* while the others' blocks are on their way */
    const struct looked others = look_at_others(fastpath);
    for (uint32_t r = others.first; r < others.end; r++) {
        if (r != fastpath->rank && __builtin_expect(!spin(fastpath, r), 0))
            return WEFT_AGAIN;
    }
    return finish(fastpath, exchange, others, digest, by_plan, odd);
}
