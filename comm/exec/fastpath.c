/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/fastpath.h"

#include <string.h>

#include "base/demote.h"
#include "base/fence.h"
#include "base/pause.h"
#include "base/prefetch.h"
#include "comm/drive/progress.h"
#include "comm/exec/fastpath_given.h"
#include "comm/exec/internal.h"
#include "comm/exec/mismatch.h"

#define SPIN_CHECK   64 /* polls of one word between pauses that may yield, or look at the clock */
#define SPINS_MAX    (20 * SPIN_CHECK)
#define PREFETCH_MIN 256  /* bytes: less gained nothing */
#define PART_BYTES   2048 /* docs/performance.md */
#define DEMOTED_MAX  2048 /* bytes: more than that is read while it is written */

static const struct weft_slot *slot_at(const struct weft_fastpath *fastpath, uint32_t rank, size_t at)
{
    return (const struct weft_slot *)(fastpath->published[rank] + at);
}

/* Of this operation. */
static const struct weft_slot *slot_of(const struct weft_fastpath *fastpath, uint32_t rank)
{
    return slot_at(fastpath, rank, fastpath->at);
}

/* Where a rank has put so many bytes for this operation. */
static void *data_of(const struct weft_fastpath *fastpath, uint32_t rank, size_t bytes)
{
    const uint8_t *slots = fastpath->published[rank];
    return bytes <= WEFT_SLOT_INLINE_BYTES ? (void *)((const struct weft_slot *)(slots + fastpath->at))->small
                                           : (void *)(slots + fastpath->data);
}

/* Begins the next operation: its own slot, whose content nobody reads any more. */
static inline struct weft_slot *next_slot(struct weft_fastpath *fastpath,
                                          const struct weft_fastpath_exchange *exchange)
{
    fastpath->sequence++;
    fastpath->root = exchange->kind == WEFT_FASTPATH_MOVES ? exchange->move.root : WEFT_FASTPATH_NO_ROOT;
    if (fastpath->root != WEFT_FASTPATH_NO_ROOT) {
        fastpath->at = weft_slot_given(fastpath, fastpath->given);
        fastpath->data = weft_slot_given_data(fastpath, fastpath->given);
        fastpath->given++;
    } else {
        fastpath->at = weft_slot_exchanged(fastpath, fastpath->exchanged++);
        fastpath->data = fastpath->at + sizeof(struct weft_slot);
    }
    return (struct weft_slot *)(fastpath->own + fastpath->at);
}

/* size is what is compared. Of a given operation all leave a mark, and its root alone has a slot. */
static inline void publish(struct weft_fastpath *fastpath, struct weft_slot *slot, size_t size,
                           uint32_t digest)
{
    const uint64_t word = (uint64_t)digest << 32 | fastpath->sequence;
    if (fastpath->root == WEFT_FASTPATH_NO_ROOT || fastpath->root == fastpath->rank) {
        atomic_store_explicit(&slot->size, size, memory_order_relaxed);
        atomic_store_explicit(&slot->word, word, memory_order_release);
    }
    if (fastpath->root != WEFT_FASTPATH_NO_ROOT) {
        struct weft_slot_mark *mark =
            (struct weft_slot_mark *)(fastpath->own + weft_slot_marked(fastpath, fastpath->given - 1));
        atomic_store_explicit(&mark->size, (uint64_t)fastpath->sequence << 32 | size, memory_order_relaxed);
        atomic_store_explicit(&mark->word, word, memory_order_release);
    }
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (r != fastpath->rank)
            fastpath->ops->notify(fastpath->links[r]);
    }
}

/* Whether a slot holds this operation. */
static inline int is_published(const struct weft_slot *slot, uint32_t sequence)
{
    return (uint32_t)atomic_load_explicit(&slot->word, memory_order_acquire) == sequence;
}

/* --- waiting */

/* What a rank has published for this operation at a place where it is not looked for, as it is in another call: an exchange, or one that
 * another root gives. */
static int is_elsewhere(const struct weft_fastpath *fastpath, uint32_t rank, uint64_t *word, uint64_t *size)
{
    int is_given = fastpath->root != WEFT_FASTPATH_NO_ROOT;
    const struct weft_slot *slot =
        slot_at(fastpath, rank, weft_slot_exchanged(fastpath, fastpath->exchanged));
    const struct weft_slot_mark *mark =
        weft_slot_mark_at(fastpath, rank, fastpath->given - (uint32_t)is_given);
    *word = atomic_load_explicit(&mark->word, memory_order_acquire);
    *size = (uint32_t)atomic_load_explicit(&mark->size, memory_order_relaxed);
    if ((uint32_t)*word == fastpath->sequence)
        return 1;
    *word = atomic_load_explicit(&slot->word, memory_order_acquire);
    *size = atomic_load_explicit(&slot->size, memory_order_relaxed);
    return is_given && (uint32_t)*word == fastpath->sequence;
}

static inline int is_here(const struct weft_fastpath *fastpath, uint32_t rank)
{
    uint64_t word, size;
    return is_published(slot_of(fastpath, rank), fastpath->sequence) ||
           is_elsewhere(fastpath, rank, &word, &size);
}

/* Whether this operation waits for a rank. */
static int awaits(const struct weft_fastpath *fastpath, uint32_t rank)
{
    if (rank == fastpath->rank)
        return 0;
    if (fastpath->root == WEFT_FASTPATH_NO_ROOT || fastpath->root == rank)
        return !is_here(fastpath, rank);
    return !weft_given_has_room(fastpath) && !weft_given_has_come(fastpath, rank, fastpath->settled);
}

int weft_fastpath_awaits(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t sequence)
{
    return sequence == fastpath->sequence && awaits(fastpath, rank);
}

int weft_fastpath_missing(const struct weft_fastpath *fastpath)
{
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        if (awaits(fastpath, r))
            return (int)r;
    }
    return -1;
}

/* How long a rank polls. */
struct patience {
    struct weft_context *context;
    int yields;
    uint32_t spins;
    struct weft_idle idle;
};

static inline struct patience have_patience(const struct weft_fastpath *fastpath)
{
    return (struct patience){.context = fastpath->context, .yields = fastpath->context->oversubscribed};
}

/* A pause between two polls; 0: patience is over. */
static inline int pause_once(struct patience *patience)
{
    if ((patience->yields || patience->spins % SPIN_CHECK == SPIN_CHECK - 1) &&
        (weft_idle_pause(patience->context, &patience->idle) || patience->spins > SPINS_MAX))
        return 0;
    patience->spins++;
    weft_pause();
    return 1;
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

/* Says that so many bytes of this operation are there. */
static void say_part(struct weft_fastpath *fastpath, size_t bytes)
{
    struct weft_slot_part *part =
        (struct weft_slot_part *)(fastpath->own + weft_slot_part(fastpath, fastpath->at));
    atomic_store_explicit(&part->word, fastpath->exchanged << WEFT_SLOT_PART_BITS | bytes,
                          memory_order_release);
}

/* Others have read these lines before. Where it goes in parts they see how many bytes are there; before: those in front. */
static __attribute__((noinline)) void show_parts(struct weft_fastpath *fastpath, char *to, const char *from,
                                                 size_t bytes, size_t before)
{
    const size_t most = fastpath->part_bytes ? fastpath->part_bytes : PART_BYTES;
    for (size_t done = 0, size; done < bytes; done += size) {
        size = bytes - done < most ? bytes - done : most;
        weft_prefetch_write(to + done, size);
        memcpy(to + done, from + done, size);
        if (fastpath->part_bytes && bytes > done + size) /* of the last one the slot's word says it */
            say_part(fastpath, before + done + size);
    }
}

static inline void show(struct weft_fastpath *fastpath, char *to, const char *from, size_t bytes,
                        size_t before)
{
    if (__builtin_expect(bytes >= PREFETCH_MIN, 0))
        show_parts(fastpath, to, from, bytes, before);
    else
        memcpy(to, from, bytes);
}

/* What the others read of the input: all but the block that is meant for this rank. */
static void copy_in(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange)
{
    size_t published = exchange->published, block = exchange->move.block;
    char *data = data_of(fastpath, fastpath->rank, published);
    const char *input = exchange->input;
    size_t hole = published > block ? (size_t)fastpath->rank * block : published, end = hole + block;
    show(fastpath, data, input, hole, 0);
    if (hole < published)
        show(fastpath, data + end, input + end, published - end, end);
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

/* What is new of a rank's block, of which so many bytes are there. */
static inline void copy_block(struct weft_fastpath *fastpath, const struct weft_fastpath_move *move,
                              uint32_t rank, size_t there)
{
    size_t done = fastpath->part_bytes ? fastpath->taken[rank] : 0;
    size_t end = there < move->from ? 0 : there - move->from < move->block ? there - move->from : move->block;
    if (end <= done)
        return;
    const char *from = (const char *)data_of(fastpath, rank, move->theirs) + move->from + done;
    memcpy((char *)move->output + (size_t)(rank - move->first) * move->block + done, from, end - done);
    if (fastpath->part_bytes)
        fastpath->taken[rank] = (uint32_t)end;
}

static void copy_out(struct weft_fastpath *fastpath, const struct weft_fastpath_move *move)
{
    for (uint32_t r = move->first; r < move->end && move->block; r++) {
        if (r != fastpath->rank)
            copy_block(fastpath, move, r, move->theirs);
    }
}

/* Before the calls are compared, as in finish(): the parts of a rank's data that are there. */
static void take_part(struct weft_fastpath *fastpath, const struct weft_fastpath_move *move, uint32_t rank)
{
    const struct weft_slot_part *part =
        (const struct weft_slot_part *)(fastpath->published[rank] + weft_slot_part(fastpath, fastpath->at));
    if (rank < move->first || rank >= move->end)
        return;
    uint64_t word = atomic_load_explicit(&part->word, memory_order_acquire);
    if (word >> WEFT_SLOT_PART_BITS == fastpath->exchanged)
        copy_block(fastpath, move, rank, word & WEFT_SLOT_PART_MAX);
}

/* 0: what others publish is not taken as it comes. So it is where the output is what a plan would still need, if it came to that. */
static inline uint32_t part_bytes_of(const struct weft_fastpath *fastpath,
                                     const struct weft_fastpath_exchange *exchange)
{
    const struct weft_fastpath_move *move = &exchange->move;
    if (exchange->kind != WEFT_FASTPATH_MOVES || fastpath->root != WEFT_FASTPATH_NO_ROOT ||
        move->theirs <= PART_BYTES || (move->theirs != move->block && move->output == exchange->input))
        return 0;
    return move->end - move->first > 1 ? PART_BYTES
                                       : PART_BYTES / 2; /* one gives, and has nothing else to do */
}

/* Whether the peer has come before patience is over. */
static int spin(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange, uint32_t peer)
{
    const struct weft_slot *slot = slot_of(fastpath, peer);
    const uint32_t sequence = fastpath->sequence;
    struct patience patience = have_patience(fastpath);
    while (!is_published(slot, sequence)) {
        if (__builtin_expect(fastpath->part_bytes, 0))
            take_part(fastpath, &exchange->move, peer);
        if (!pause_once(&patience))
            return 0;
    }
    return 1;
}

/* Whether the next given operation finds room before patience is over. Who waits for it waits for more, so that this happens at every eighth
 * operation, and not at each: the others' marks are lines that they are writing. */
static int spin_for_room(const struct weft_fastpath *fastpath)
{
    struct patience patience = have_patience(fastpath);
    for (uint32_t r = 0; r < fastpath->ranks; r++) {
        while (r != fastpath->rank &&
               !weft_given_has_come(fastpath, r, fastpath->given - WEFT_SLOTS_GIVEN / 2)) {
            if (!pause_once(&patience))
                return 0;
        }
    }
    return 1;
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
                          const struct weft_slot *slot)
{
    size_t published = exchange->published;
    if (fastpath->demotes && published && published <= DEMOTED_MAX && takes(exchange))
        weft_demote(slot, sizeof *slot + (published <= WEFT_SLOT_INLINE_BYTES ? 0 : published));
}

/* What the others have to publish for a given operation: that is compared later. */
static inline void expect(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                          uint32_t digest)
{
    struct weft_slot_given *expected = &fastpath->expected[(fastpath->given - 1) % WEFT_SLOTS_GIVEN];
    expected->word = (uint64_t)digest << 32 | fastpath->sequence;
    expected->size = exchange->size;
    expected->sequence = exchange->call->sequence;
    expected->count = exchange->call->count;
    expected->root = exchange->call->root;
}

static inline void begin(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                         uint32_t digest, int by_plan)
{
    struct weft_slot *slot = next_slot(fastpath, exchange);
    fastpath->part_bytes = part_bytes_of(fastpath, exchange);
    if (__builtin_expect(fastpath->part_bytes, 0))
        memset(fastpath->taken, 0, sizeof fastpath->taken);
    if (exchange->published && !by_plan) {
        if (exchange->kind == WEFT_FASTPATH_MOVES)
            copy_in(fastpath, exchange);
        else
            show(fastpath, data_of(fastpath, fastpath->rank, exchange->published), exchange->input,
                 exchange->published, 0);
    }
    publish(fastpath, slot, exchange->size, by_plan ? digest | WEFT_DIGEST_BY_PLAN : digest);
    if (fastpath->root != WEFT_FASTPATH_NO_ROOT)
        expect(fastpath, exchange, digest);
    else
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

const void *weft_fastpath_shown(const struct weft_fastpath *fastpath, uint32_t rank, size_t size)
{
    return data_of(fastpath, rank, size);
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

/* Whose word alone decides on a given operation. */
static inline struct looked look_at_root(const struct weft_fastpath *fastpath)
{
    return (struct looked){fastpath->root, fastpath->root + 1};
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
                                                  : data_of(fastpath, r, exchange->published)) +
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
        is_elsewhere(fastpath, odd->peer, &word, &bytes);
    if ((uint32_t)word != fastpath->sequence)
        return WEFT_PEER_FAILED;
    uint32_t theirs = (uint32_t)(word >> 32) & ~WEFT_DIGEST_BY_PLAN;
    weft_mismatch_cell(exchange->call, theirs, exchange->size, bytes, odd->peer, fastpath->rank, odd->text,
                       sizeof odd->text);
    return WEFT_MISMATCH;
}

/* The root's word has been compared; where that is everybody's, and everybody's before, the operation is complete. Else they are compared when
 * room is needed. */
static inline int finish_given(struct weft_fastpath *fastpath, struct weft_fastpath_odd *odd)
{
    if (fastpath->ranks == 2 && fastpath->root != fastpath->rank &&
        fastpath->settled + 1 == fastpath->given) {
        fastpath->settled = fastpath->given;
        return WEFT_OK;
    }
    return weft_given_has_room(fastpath) ? WEFT_OK : weft_given_settle(fastpath, odd);
}

/* All have come, so that they have been in the given operations before as well. */
static int settle_all(struct weft_fastpath *fastpath, struct weft_fastpath_odd *odd)
{
    int status = weft_given_settle(fastpath, odd);
    return status == WEFT_OK && fastpath->settled != fastpath->given ? WEFT_PEER_FAILED : status;
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
    if (__builtin_expect(rank >= 0, 0)) {
        odd->peer = (uint32_t)rank;
        odd->past.sequence = 0;
        return doubt(fastpath, exchange, odd);
    }
    if (fastpath->root != WEFT_FASTPATH_NO_ROOT)
        return finish_given(fastpath, odd);
    return fastpath->settled == fastpath->given ? WEFT_OK : settle_all(fastpath, odd);
}

int weft_fastpath_finish(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                         int *by_plan, struct weft_fastpath_odd *odd)
{
    const struct looked looked = fastpath->root == WEFT_FASTPATH_NO_ROOT
                                     ? look_at_all(fastpath) /* this rank may have asked for a plan itself */
                                     : look_at_root(fastpath);
    if (exchange->kind == WEFT_FASTPATH_MOVES && !goes_by_plan(fastpath, looked))
        copy_own(fastpath, &exchange->move);
    return finish(fastpath, exchange, looked, weft_call_digest(exchange->call), by_plan, odd);
}

/* A root's word is waited for, and room for the next one. */
static int run_given(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                     uint32_t digest, int *by_plan, struct weft_fastpath_odd *odd)
{
    if (fastpath->root != fastpath->rank && __builtin_expect(!spin(fastpath, exchange, fastpath->root), 0))
        return WEFT_AGAIN;
    if (__builtin_expect(!weft_given_has_room(fastpath), 0) && !spin_for_room(fastpath))
        return WEFT_AGAIN;
    return finish(fastpath, exchange, look_at_root(fastpath), digest, by_plan, odd);
}

int weft_fastpath_run(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                      int *by_plan, struct weft_fastpath_odd *odd)
{
    const uint32_t digest = weft_call_digest(exchange->call);
    begin(fastpath, exchange, digest, 0);
    if (exchange->kind == WEFT_FASTPATH_MOVES)
        copy_own(fastpath, &exchange->move); /* while the others' blocks are on their way */
    if (fastpath->root != WEFT_FASTPATH_NO_ROOT)
        return run_given(fastpath, exchange, digest, by_plan, odd);
    const struct looked others = look_at_others(fastpath);
    const uint32_t first =
        exchange->move.first; /* who gives, where one does, comes before those who only take */
    if (__builtin_expect(fastpath->part_bytes && first != fastpath->rank, 0) &&
        !spin(fastpath, exchange, first))
        return WEFT_AGAIN;
    for (uint32_t r = others.first; r < others.end; r++) {
        if (r != fastpath->rank && __builtin_expect(!spin(fastpath, exchange, r), 0))
            return WEFT_AGAIN;
    }
    return finish(fastpath, exchange, others, digest, by_plan, odd);
}

int weft_fastpath_goes_by_plan(const struct weft_fastpath *fastpath)
{
    return goes_by_plan(fastpath, look_at_root(fastpath));
}
