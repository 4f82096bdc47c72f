/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the plans of all ranks together compute their collective.
 *
 * What is proven, for a window of W steps (the executor's setting WEFT_WINDOW):
 *   - every record and step stays in bounds: ranks, chunks, slots, cells, loops, and the windows of the callers'
 *     buffers (weft_plan_window()); INPUT is never written, TEMP only where announced, a cell is read as the chunk
 *     that was written there, nothing is read before it was written; plans for unequal blocks name one block of a
 *     caller's buffer at a time, and none of unknown size;
 *   - the k-th SEND to a rank meets the k-th RECV from it with the same chunk range (in alltoall: with as many
 *     chunks), and none is left over;
 *   - slots are written by one RECV and then read by exactly one REDUCE or COPY of the same range;
 *   - nothing deadlocks under the strict rule that a SEND is complete only when it has been consumed;
 *   - at the end every chunk of every OUTPUT's window holds what the collective promises:
 *       allreduce, reduce, reduce-scatter   each rank's contribution exactly once, finished exactly once; after an
 *                  allreduce in the same association on all ranks (so all ranks have the same bits). On request: in
 *                  the association that strict mode fixes, the same for all algorithms and roots; or with operands in
 *                  the order of ranks, as operations need that do not commute
 *       broadcast, scatter      the root's data
 *       allgather, gather       chunk c: rank c's data
 *       alltoall                chunk c: what rank c's INPUT held for this rank
 *       barrier                 each rank's contribution, as often as you like: nobody is done before all have come
 *
 * How. The plans are run on an abstract machine (verify_machine.h) that keeps the executor's rules: steps
 * enter a window of W in program order; the window slides when its oldest step is done; a step may act once
 * no earlier unfinished step conflicts with it (hazard.h); SENDs to one rank are offered in program order,
 * and so are RECVs from one rank (an executor that offers them out of order has only more freedom). Elements
 * are replaced by values that remember where they come from:
 *   - a label, the chunk of INPUT that they are of: values of different chunks cannot be added, and a chunk can only
 *     end where it belongs, however it was moved;
 *   - a sum modulo 2^64 of one random number per (rank, chunk): differs from the right one, but for a chance
 *     of 2^-64, unless each contribution is there exactly once;
 *   - for fewer than WEFT_VERIFY_EXACT_RANKS ranks (for a barrier always) also the exact set of contributions;
 *   - a hash of the expression that is neither commutative nor associative, and whether its operands are consecutive
 *     ranks in their order;
 *   - whether the value has been finished.
 * What strict mode's expression is, the verifier says for itself (verify_final.c), without the generators.
 *
 * Why one run stands for every interleaving. Whatever can happen is enabled by conditions of the form "that
 * step is done" or "that step has been offered". These never become false again, and nothing that happens
 * disables anything else: matching goes by position in a queue, not by who comes first. So enabledness is
 * monotone, any two maximal runs perform the same set of events (by induction over one of them: its first
 * event that the other lacks would be enabled there for ever), and if one run completes, all do; if one gets
 * stuck, all do, at the same steps. Nor can timing change a value: conflicting steps of a rank act in
 * program order; a SEND's source cannot change between the moment it is offered and the moment it is
 * consumed, because a writer would conflict with the unfinished SEND; and what meets what is fixed by
 * counting. So each value depends on the plans alone. Finally more freedom does no harm: a larger window, a
 * SEND that completes early because its bytes were copied, steps skipped on both sides because their chunk
 * range is empty at the given count, all only make conditions true earlier. The executor goes further: it
 * keeps hazards byte by byte, so that a slice may pass before the rest of its step, and gives every RECV
 * into a slot a place of its own. For each byte this is the same machine with conditions that come true
 * earlier, and each byte's conflicting steps still act in program order. The argument can be tried out:
 * `interleavings` runs that many random schedules besides.
 *
 * Large rank counts. If rank r's plan is rank 0's with r added to every chunk (modulo chunks = ranks; not in a
 * barrier, whose one chunk is everybody's) and every peer (modulo ranks), checked record by record for all r, the
 * machine is symmetric under rotation, as are the windows of collectives without a root and the promised results.
 * Then the run in which all ranks act in step is one of the maximal runs, and rank 0's part of it determines
 * all: what rank 0 receives from rank p is what it sends to rank -p itself, with all names rotated by p. So
 * only rank 0 is run. Its values are exact: the set of contributions as an interval of ranks modulo n, the
 * expression hash with leaf names relative to the interval's start. (A barrier's intervals may overlap. A label is
 * rotated like a chunk.) Rank r's chunk c + r is then rank 0's
 * chunk c rotated by r, so all ranks agree on a chunk exactly if in rank 0's final chunks start - c and hash
 * are the same for all c. Plans whose sets are not intervals are left to the full method.
 *
 * Plans may be garbage (fuzzed, or from a file in future): the answer is an error, never a crash.
 * Threads: any number of verifications may run at once.
 */
#ifndef WEFT_ALGOS_PROOF_VERIFY_H
#define WEFT_ALGOS_PROOF_VERIFY_H

#include "algos/plan.h"

#define WEFT_VERIFY_EXACT_RANKS 512
#define WEFT_VERIFY_WINDOW      32 /* the executor's default */
#define WEFT_VERIFY_WINDOW_MAX  64

enum weft_verify_method {
    WEFT_VERIFY_AUTO,     /* ROTATION from WEFT_VERIFY_EXACT_RANKS on where it applies, otherwise FULL */
    WEFT_VERIFY_FULL,     /* run every rank */
    WEFT_VERIFY_ROTATION, /* run rank 0; WEFT_UNSUPPORTED where the plans are not symmetric */
};

/* Orders of adding up that a reduction's results may have. */
enum weft_verify_expect {
    WEFT_VERIFY_EXPECT_STRICT = 1 << 0,     /* the association that strict mode fixes */
    WEFT_VERIFY_EXPECT_RANK_ORDER = 1 << 1, /* operands in the order of ranks, grouped anyhow */
};

struct weft_verify_options {
    uint32_t window; /* 1 to WEFT_VERIFY_WINDOW_MAX; 0 the default */
    enum weft_verify_method method;
    uint32_t interleavings; /* FULL: random schedules to run besides the proving one */
    unsigned expect;        /* WEFT_VERIFY_EXPECT_*: refuse plans without (FULL only) */
    uint64_t seed;          /* of random numbers and schedules */
    uint64_t memory_max;    /* bytes for values, 0 for 4 GiB; more is WEFT_NOMEM */
    /* FULL: follow the values of chunks [chunk_first, chunk_first + chunk_count) only; 0 chunks: of all. What a chunk holds
     * depends on no other, so that many small runs prove what one does that would need too much memory. Everything but
     * values is checked for all chunks every time. WEFT_UNSUPPORTED for plans that move chunks. */
    uint32_t chunk_first, chunk_count;
    uint64_t steps_max; /* steps to run, all ranks together, 0 for 2^32; more is WEFT_INVALID */
};

struct weft_verify_report {
    enum weft_verify_method method; /* that decided */
    uint64_t steps;                 /* of all ranks */
    uint64_t messages;
    uint32_t window;
    uint32_t in_flight_max; /* messages that one rank may have in flight at once: a bound for every timing */
    unsigned orders;        /* WEFT_VERIFY_EXPECT_* that all results have (FULL only) */
    uint32_t exact;         /* contributions were checked as exact sets */
    /* Where it failed; the detail of the error (weft_error_detail()) says what. */
    uint32_t rank;
    uint64_t step; /* in program order, loops expanded */
};

/* Verifies plans[0..ranks-1], plans[r] being rank r's. options may be NULL. 0 when proven; WEFT_INVALID with
 * the reason as detail; *report is filled as far as it is known either way. */
int weft_plans_verify(const struct weft_plan *const *plans, uint32_t ranks,
                      const struct weft_verify_options *options, struct weft_verify_report *report);

/* Checks one plan's header and records for what the cursor relies on: after this, walking the plan stays in
 * bounds and ends. *steps is its number of steps, loops expanded. */
int weft_plan_check(const struct weft_plan *plan, uint64_t *steps);

/* Makes all ranks' plans; weft_plans_free() frees them. */
int weft_plans_make(const struct weft_plan_request *request, struct weft_plan ***plans);
void weft_plans_free(struct weft_plan **plans, uint32_t ranks);

#endif
