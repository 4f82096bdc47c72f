/* SPDX-License-Identifier: Apache-2.0 */
/* The cache-line path for tiny collectives between ranks of one host.
 *
 * Calls that block and started ones go this way alike: a started one publishes at once, or when the one before it has ended, and is
 * finished by progress (comm/calls/queue.c). A rank whose input a device has publishes nothing but that, and then all ranks make
 * the call by its plan.
 *
 * An allreduce is equivalent to the plan of recursive doubling ("rd"): the contributions are combined in the same
 * association, so the bits are the same (tests compare). Every rank publishes a copy of its contribution in memory of
 * weft's own that the others have mapped, then reads everybody's and reduces locally: nobody ever reads the
 * user's memory here, so a call that ends early leaves nothing behind that its user could spoil.
 *
 * Contributions up to 48 bytes share a cache line with the sequence word: one line transfer per peer. The word also carries the digest of
 * what the ranks must agree on.
 *
 * Most operations are exchanges: everybody waits for everybody. For these a rank has two slots and alternates. A slot is written again two
 * exchanges later; a rank gets there only after it has seen everybody's contribution to the exchange in between, which they publish after
 * they have read the slot. So no acknowledgement is needed.
 *
 * Of more than 2 KB that only moves there is a second word beside the slot's, which says how much lies there already. Who waits for the slot's takes
 * what there is meanwhile, so that both copy at once. The slot's word alone says that it is all, and whose call it is.
 *
 * Small broadcasts and scatters are given by their root: the others wait for it, and it waits for nobody while it has room. For these a rank
 * has WEFT_SLOTS_GIVEN slots in turn. All leave a mark, which is a word without data. A slot is written again when everybody has come to the
 * operation behind the one that used it before. So a root may be that many operations less two ahead. It
 * compares the others' words when it needs the room, or at the next exchange: two ranks that both take themselves for the root hear of it
 * then. A slot in which a rank finds a later operation than the one that it looks for was compared by its owner before that was written. The
 * root's word alone says whether the operation is made by its plan.
 *
 * Slots come from buffers of the context's pool, sixteen communicators' from one, and go back there, so that making and ending
 * communicators leaves peers with no mappings that pile up. A peer that has not noticed an end yet may look at slots of another communicator then: so words
 * are erased before slots go back, and sequences begin at the communicator's id, which is random and the same on all
 * its ranks.
 */
#ifndef WEFT_COMM_EXEC_FASTPATH_H
#define WEFT_COMM_EXEC_FASTPATH_H

#include <stddef.h>
#include <stdint.h>

#include "comm/exec/call.h"
#include "devmem/reduce.h"
#include <weft/transport.h>

struct weft_context;
struct weft_exec;
struct weft_fastpath;

#define WEFT_FASTPATH_RANKS_MAX 16

/* Allocates this rank's slots and makes tokens[r] for every other rank of exec, to all of which links are up. [lock] */
int weft_fastpath_open(struct weft_context *context, struct weft_exec *exec, size_t bytes_max,
                       struct weft_token *tokens, struct weft_fastpath **fastpath);
/* Maps the peers' slots: tokens[r] is what rank r made for this rank. [lock] */
int weft_fastpath_map(struct weft_fastpath *fastpath, const struct weft_token *tokens);
/* [lock] */
void weft_fastpath_close(struct weft_fastpath *fastpath);

size_t weft_fastpath_bytes_max(const struct weft_fastpath *fastpath);
/* What it has allocated; slots are the pool's. */
size_t weft_fastpath_bytes(const struct weft_fastpath *fastpath);

/* How what has been published is put together. */
enum weft_fastpath_kind { WEFT_FASTPATH_MOVES, WEFT_FASTPATH_REDUCES, WEFT_FASTPATH_SHOWS };

/* The most that a root publishes which is ahead, bytes. */
#define WEFT_FASTPATH_GIVEN_MAX 2048
#define WEFT_FASTPATH_NO_ROOT   UINT32_MAX

/* Blocks of equal size that only move. */
struct weft_fastpath_move {
    uint32_t root; /* who gives it; WEFT_FASTPATH_NO_ROOT: it is an exchange */
    size_t block;  /* bytes */
    void *output;  /* the blocks of the ranks [first, end) side by side */
    uint32_t first, end;
    size_t theirs, from; /* how much each of them publishes, and where in it the block begins */
    const void *own;     /* the own block where it is among them; it may be in its place already */
};

/* A reduction of what each rank publishes in [from, from + count elements). One to all or to one rank is associated as recursive doubling
 * is (and binomial's plan), one of blocks, where more than the result is published, like strict mode's (as halving's plan is). */
struct weft_fastpath_reduction {
    void *output; /* NULL at ranks that take no result */
    size_t count, from;
    weft_reduce_function *reduce;
    uint32_t finish;
};

/* One operation. */
struct weft_fastpath_exchange {
    const struct weft_call *call;
    enum weft_fastpath_kind kind;
    const void *
        input; /* what the others read; copied before anything is waited for. A move leaves out the block that is this rank's */
    size_t published; /* bytes of it */
    size_t size;      /* compared beside the call's digest: the same on all ranks, or the call fails */
    union {
        struct weft_fastpath_move move;
        struct weft_fastpath_reduction reduction; /* SHOWS: neither, the caller reads weft_fastpath_shown() */
    };
};

/* Who is in the way of an operation, and in which other call it is. */
struct weft_fastpath_odd {
    uint32_t peer;
    struct weft_call past; /* an earlier call than this one, that a root gave; sequence 0: it is this one */
    char text[200];
};

/* Runs one where the peers are quick, without a look at the clock: as weft_fastpath_begin(), and weft_fastpath_finish() as soon as all have
 * come. WEFT_AGAIN: one lets this rank wait longer than to spin, and the caller goes on as who does not block (comm/core/fastpath.h). */
int weft_fastpath_run(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                      int *by_plan, struct weft_fastpath_odd *odd);

/* Begins the next one, which must not be before the one before has been finished. by_plan: this rank has nothing to publish, as a device
 * has its input, and all ranks shall make the call by a plan. */
void weft_fastpath_begin(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                         int by_plan);
/* The first rank that has not come to it, or -1: it can be finished. */
int weft_fastpath_missing(const struct weft_fastpath *fastpath);
/* *by_plan becomes 1, and no output is written, where a rank has asked for that. WEFT_MISMATCH: odd->peer is in another call, as the text
 * says; WEFT_PEER_FAILED: it has taken back what it had published. */
int weft_fastpath_finish(struct weft_fastpath *fastpath, const struct weft_fastpath_exchange *exchange,
                         int *by_plan, struct weft_fastpath_odd *odd);
/* The number of the operation that has begun last, for weft_fastpath_awaits(). */
uint32_t weft_fastpath_sequence(const struct weft_fastpath *fastpath);

/* What a rank shows, of this size: valid until this rank's next operation but one, and true if the operation is finished well after it
 * has been read. */
const void *weft_fastpath_shown(const struct weft_fastpath *fastpath, uint32_t rank, size_t size);

/* Whether an operation, which was weft_fastpath_sequence() when it began, waits for a rank. [lock] */
int weft_fastpath_awaits(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t sequence);

/* The operations that were given and in which not everybody has been seen yet, from the oldest on: 1, or 0 where there are no more. The call
 * has no label. [lock] */
int weft_fastpath_past(const struct weft_fastpath *fastpath, uint32_t index, struct weft_call *call);
/* Whether a rank has come to all operations that were given. [lock] */
int weft_fastpath_follows(const struct weft_fastpath *fastpath, uint32_t rank);
/* Of a given operation whose root has come: whether it wants a plan. */
int weft_fastpath_goes_by_plan(const struct weft_fastpath *fastpath);
/* Where ranks part, a root may have been ahead to its end: each sends the others what it took the last operations for that were given, and
 * compares. The first fills words and returns how many. The second: WEFT_OK, or WEFT_MISMATCH with odd->text; the bytes are a peer's. [lock] */
struct weft_fastpath_word {
    uint64_t word, size;
};
#define WEFT_FASTPATH_WORDS_MAX 16
/* How many of them a root may be ahead. */
#define WEFT_FASTPATH_AHEAD_MAX (WEFT_FASTPATH_WORDS_MAX - 2)
size_t weft_fastpath_last(const struct weft_fastpath *fastpath, struct weft_fastpath_word *words);
int weft_fastpath_compare_last(const struct weft_fastpath *fastpath, uint32_t rank, const void *bytes,
                               size_t size, struct weft_fastpath_odd *odd);

#endif
