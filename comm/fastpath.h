/* SPDX-License-Identifier: Apache-2.0 */
/* The cache-line path for tiny collectives between ranks of one host.
 *
 * An allreduce is equivalent to the plan of recursive doubling ("rd"): the contributions are combined in the same
 * association, so the bits are the same (tests compare). Every rank publishes a copy of its contribution in memory of
 * weft's own that the others have mapped, then reads everybody's and reduces locally: nobody ever reads the
 * user's memory here, so a call that ends early leaves nothing behind that its user could spoil.
 *
 * A rank has two slots and alternates. Slot s is written again two operations later; a rank gets there only
 * after it has seen everybody's contribution to the operation in between, which they publish after they have
 * read slot s. So no acknowledgement is needed. Contributions up to 48 bytes share a cache line with the
 * sequence word: one line transfer per peer. The word also carries the digest of what the ranks must agree
 * on.
 *
 * Slots come from the context's pool and go back there, so that making and ending communicators leaves peers with no
 * mappings that pile up. A peer that has not noticed an end yet may look at slots of another communicator then: so words
 * are erased before slots go back, and sequences begin at the communicator's id, which is random and the same on all
 * its ranks.
 */
#ifndef WEFT_COMM_FASTPATH_H
#define WEFT_COMM_FASTPATH_H

#include <stddef.h>
#include <stdint.h>

#include "comm/call.h"
#include "devmem/reduce.h"
#include <weft/transport.h>

struct weft_comm;
struct weft_fastpath;

#define WEFT_FASTPATH_RANKS_MAX 16

/* Allocates this rank's slots and makes tokens[r] for every other rank. Links must be up. [lock] */
int weft_fastpath_open(struct weft_comm *comm, size_t bytes_max, struct weft_token *tokens,
                       struct weft_fastpath **fastpath);
/* Maps the peers' slots: tokens[r] is what rank r made for this rank. [lock] */
int weft_fastpath_map(struct weft_fastpath *fastpath, const struct weft_token *tokens);
/* [lock] */
void weft_fastpath_close(struct weft_fastpath *fastpath);

size_t weft_fastpath_bytes_max(const struct weft_fastpath *fastpath);
/* What it has allocated; slots are the pool's. */
size_t weft_fastpath_bytes(const struct weft_fastpath *fastpath);

/* Everybody's bytes at everybody: publishes size bytes and waits for the others'. contributions[r] points
 * into rank r's slot (the own entry is data itself) and stays valid until this rank's next exchange but one.
 * size and what call's digest holds must be the same on all ranks; where they are not, rank 0 names the rank that
 * is wrong and the communicator fails with WEFT_MISMATCH. */
int weft_fastpath_exchange(struct weft_fastpath *fastpath, const void *data, size_t size,
                           const struct weft_call *call, int64_t timeout_ms, const void **contributions);

/* What has been exchanged differs in a way that only the caller can see: waits for rank 0's verdict. Returns the
 * status with which the communicator has failed. Takes the lock. */
int weft_fastpath_differs(struct weft_fastpath *fastpath, const struct weft_call *call, const char *text);

/* Whether a rank has come to an exchange; sequence is that of weft_waiting. [lock] */
int weft_fastpath_has_published(const struct weft_fastpath *fastpath, uint32_t rank, uint32_t sequence);

/* After using the contributions: whether they were there all the time. An owner that has given up may have freed
 * its slots meanwhile. (It never overwrites one that is still being read: the argument above, and a rank that has
 * given up publishes nothing more.) */
int weft_fastpath_confirm(struct weft_fastpath *fastpath, size_t size, const struct weft_call *call);

struct weft_fastpath_request {
    const void *input;
    void *output;
    size_t count, element_bytes;
    weft_reduce_function *reduce;
    uint32_t finish;
};

/* Runs one operation, the call counted last, whose digest this is; blocks like weft_allreduce(). The clock is read only when a peer lets this rank wait.
 */
int weft_fastpath_allreduce(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                            uint32_t digest, int64_t timeout_ms);

/* Reduces [from, from + count elements) of what each rank publishes at request->input into request->output, NULL at ranks
 * that take no result. A reduction to one rank is associated like an allreduce (as binomial's plan is), one of blocks,
 * where published is more than the result, like strict mode's (as halving's plan is). */
int weft_fastpath_reduce(struct weft_fastpath *fastpath, const struct weft_fastpath_request *request,
                         size_t published, size_t from, const struct weft_call *call, int64_t timeout_ms);

/* A collective that only moves blocks of equal size. Everybody waits for everybody, a broadcast's root as well: that is
 * what makes two slots enough. */
struct weft_fastpath_move {
    const void *input; /* what the others read; copied before anything is waited for */
    size_t published;  /* bytes of it: none, a block, or one per rank in order of the ranks */
    size_t block;      /* bytes; the same on all ranks or the call fails */
    void *output;      /* the blocks of the ranks [first, end) side by side */
    uint32_t first, end;
    size_t theirs, from; /* how much each of them publishes, and where in it the block begins */
    const void *own;     /* the own block where it is among them; it may be in its place already */
};
int weft_fastpath_move(struct weft_fastpath *fastpath, const struct weft_fastpath_move *move,
                       const struct weft_call *call, int64_t timeout_ms);

/* The same without the comparison of calls: wrong when ranks disagree. Only for perf/micro/checks.c, which measures
 * what the comparison costs; weft_allreduce_unchecked() is weft_allreduce() on top of it. comm/allreduce.c */
int weft_fastpath_allreduce_unchecked(struct weft_fastpath *fastpath,
                                      const struct weft_fastpath_request *request, int64_t timeout_ms);
int weft_allreduce_unchecked(struct weft_comm *comm, const void *send, void *recv, size_t count,
                             weft_dtype dtype, weft_op op);

#endif
