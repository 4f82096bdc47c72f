/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: what one rank does in one collective, as data.
 *
 * Data is divided into `chunks` logical chunks, in one space that all ranks share. A step works on the chunk range
 * [chunk, chunk + span) and names the buffers it reads and writes, never addresses or bytes; so one plan serves
 * every count, type and pointer. What a chunk holds follows from the collective (weft_collective_blocks()):
 *   even    count elements are cut into chunks: c holds [c * count / chunks, (c + 1) * count / chunks).
 *           Allreduce, broadcast, reduce, barrier.
 *   blocks  chunk c is the block of rank c: count elements, or counts[c] where the caller gives one per rank (an
 *           unequal call). Allgather, gather, scatter, reduce-scatter, alltoall. There may be more chunks than
 *           ranks, for TEMP only (equal calls only: they hold count elements as well).
 *
 * Buffers:
 *   INPUT   the caller's send buffer, only read. In an in-place call it is the same memory as OUTPUT.
 *   OUTPUT  the caller's receive buffer.
 *   TEMP    weft's own memory, chunk c at its place in the shared space, chunks [temp_first, temp_chunks); keeps its
 *           content for the whole operation.
 *   CELL    weft's own memory for one chunk (span 1), of whatever number: written by RECV, REDUCE or COPY, read any
 *           number of times until it is written again. Cells are numbered like slots, but are memory: a plan that
 *           passes many chunks on needs only a few.
 *   SLOT    a transient place for received data: written by exactly one RECV, then read by exactly one later
 *           REDUCE or COPY, and empty again. The executor decides whether it ever becomes memory: data may be
 *           reduced straight from the peer's memory or the network's receive buffer. Slots are numbered and
 *           hold one chunk range each; a slot may be reused once it is empty.
 * INPUT and OUTPUT are windows on the space: rank r's INPUT of an allgather holds chunk r alone, its OUTPUT all
 * (weft_plan_window()). That makes a buffer that is in place, as NCCL and MPI mean it, lie where it belongs.
 * Alltoall is the exception: chunk j of INPUT goes to rank j, chunk i of OUTPUT comes from rank i. It is never in
 * place here (the caller copies first).
 *
 * Steps run as if in order, one after the other; the executor overlaps them where that cannot be seen (see
 * docs/architecture.md). The k-th SEND to rank p matches the k-th RECV that p does from this rank, with equal spans;
 * the chunks are equal as well but in alltoall, where chunk + i of the SEND becomes chunk + i of the RECV. A SEND is
 * complete only when its bytes have been consumed: received into OUTPUT, TEMP or a CELL, or, through a SLOT, read by
 * the REDUCE or COPY that empties the slot. (Small messages complete earlier, but a plan may not rely on that: the
 * verifier assumes the strict rule.) Steps whose chunk range is empty for the given count are skipped by both sides.
 *
 * A COPY may move its range: its source is then the range that begins at `from` (with from_stride), its destination
 * the one at chunk. Both have equal sizes because they are blocks of an equal call, or the same block.
 *
 * An unequal call's buffers may have gaps between blocks: a plan made for one (request.unequal) names INPUT and OUTPUT
 * with span 1 only. What a rank must know is stated by weft_algorithm_needs(): all counts, or only those of the
 * blocks in its own INPUT and OUTPUT; then it names no other chunk anywhere.
 *
 * LOOP {iterations, body} repeats the `body` records that follow it; in iteration i a step's chunk is
 * (chunk + i * chunk_stride) mod chunks, its peer (peer + i * peer_stride) mod ranks, a slot (slot +
 * i * slot_stride) mod slots, a cell likewise mod cells, from like chunk. Loops do not nest. With iterations 0 the
 * body is skipped.
 *
 * Records are of fixed size and hold no pointers. Plans do not depend on count, type or operation; they do on
 * the fields of struct weft_plan_request.
 *
 * Ownership: weft_plan_make() allocates, weft_plan_free() frees; a finished plan is immutable and may be used
 * by any number of threads.
 */
#ifndef WEFT_ALGOS_PLAN_H
#define WEFT_ALGOS_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include <weft/status.h>

/* Frozen: they travel in what ranks compare. */
enum weft_collective {
    WEFT_ALLREDUCE,
    WEFT_BROADCAST,
    WEFT_REDUCE,
    WEFT_ALLGATHER,
    WEFT_GATHER,
    WEFT_SCATTER,
    WEFT_REDUCE_SCATTER,
    WEFT_ALLTOALL,
    WEFT_BARRIER,
    WEFT_COLLECTIVE_COUNT
};

/* Frozen: they are values of the setting WEFT_ALGO. Which collectives an algorithm serves: weft_algorithm_serves(). */
enum weft_algorithm {
    WEFT_ALGO_AUTO,
    WEFT_ALGO_RING,
    WEFT_ALGO_TREE,     /* double binary tree */
    WEFT_ALGO_RD,       /* recursive doubling */
    WEFT_ALGO_RAB,      /* Rabenseifner: halving, then doubling */
    WEFT_ALGO_BINOMIAL, /* binomial tree */
    WEFT_ALGO_CHAIN,    /* pipelined chain */
    WEFT_ALGO_SAG,      /* scatter and allgather */
    WEFT_ALGO_BRUCK,
    WEFT_ALGO_HALVING,  /* recursive halving */
    WEFT_ALGO_DIRECT,   /* everybody with whom it concerns */
    WEFT_ALGO_PAIRWISE, /* in rounds of disjoint pairs */
    WEFT_ALGO_DISSEMINATION,
    WEFT_ALGO_HIER,   /* within hosts and between them, every rank for its share */
    WEFT_ALGO_LEADER, /* within hosts and between them, one rank of each host for all */
    WEFT_ALGO_COUNT
};

enum weft_step_kind { WEFT_STEP_SEND, WEFT_STEP_RECV, WEFT_STEP_REDUCE, WEFT_STEP_COPY, WEFT_STEP_LOOP };

enum weft_step_flags {
    WEFT_STEP_FINISH = 1 << 0, /* REDUCE or COPY whose result is the final value of its chunk (avg divides) */
};

enum weft_buffer {
    WEFT_BUFFER_INPUT,
    WEFT_BUFFER_OUTPUT,
    WEFT_BUFFER_TEMP,
    WEFT_BUFFER_SLOT,
    WEFT_BUFFER_CELL
};

#define WEFT_STEP_SOURCES_MAX 3
#define WEFT_CELLS_MAX        16

struct weft_ref {
    uint8_t buffer; /* enum weft_buffer */
    uint8_t reserved;
    uint16_t slot;       /* SLOT and CELL only: its number */
    int16_t slot_stride; /* SLOT and CELL only: per loop iteration, modulo the plan's slots or cells */
    uint16_t reserved2;
};

struct weft_step { /* 64 bytes */
    uint8_t kind;
    uint8_t flags;
    uint8_t source_count; /* SEND, COPY: 1; REDUCE: 2..3, in order of association; RECV: 0 */
    uint8_t reserved;
    int32_t peer; /* SEND, RECV */
    int32_t peer_stride;
    uint32_t chunk;
    int32_t chunk_stride;
    uint32_t span;
    union {
        uint32_t iterations; /* LOOP */
        uint32_t from;       /* COPY: first chunk of the source; equal to chunk where nothing moves */
    };
    union {
        uint32_t body;       /* LOOP: how many of the following records */
        int32_t from_stride; /* COPY */
    };
    struct weft_ref destination; /* RECV, REDUCE, COPY */
    struct weft_ref sources[WEFT_STEP_SOURCES_MAX];
};

struct weft_plan {
    uint32_t collective;
    uint32_t algorithm;
    uint32_t ranks;
    uint32_t rank;
    uint32_t chunks;
    uint32_t slots;       /* how many SLOTs the plan names */
    uint32_t cells;       /* how many CELLs */
    uint32_t in_place;    /* made for INPUT == OUTPUT */
    uint32_t temp_first;  /* TEMP is used for chunks [temp_first, temp_chunks) only; */
    uint32_t temp_chunks; /* 0: not at all */
    int32_t root;         /* -1: the collective has none */
    uint32_t unequal;     /* made for blocks of unequal size, with gaps */
    uint32_t step_count;
    struct weft_step steps[];
};

struct weft_hosts; /* algos/hosts.h */

/* What a plan is made for. */
struct weft_plan_request {
    enum weft_collective collective;
    enum weft_algorithm algorithm; /* not AUTO */
    uint32_t ranks;
    uint32_t rank;
    int in_place; /* INPUT lies within OUTPUT, or OUTPUT within INPUT, where the windows overlap */
    int root;     /* collectives that have one: 0 to ranks - 1; others: -1 */
    int unequal;  /* blocks: each rank's has a size of its own, and there may be gaps */
    int strict;   /* reductions: the association that strict mode fixes; others: ignored */
    /* Where ranks stand, the same for all of them; NULL: all on one host, in the order of ranks. Only looked at while the
     * plan is made. */
    const struct weft_hosts *hosts;
};

/* Whether the collective has a root, reduces, is made of blocks (see above). */
int weft_collective_has_root(enum weft_collective collective);
int weft_collective_reduces(enum weft_collective collective);
int weft_collective_blocks(enum weft_collective collective);
/* "allreduce", "reduce_scatter"; NULL / -1 when unknown. */
const char *weft_collective_name(enum weft_collective collective);
int weft_collective_parse(const char *name);

/* Whether there is a plan of the collective by this algorithm. */
int weft_algorithm_serves(enum weft_collective collective, enum weft_algorithm algorithm);

/* Whether it has plans for unequal calls; for strict mode (struct weft_plan_request); whether its plans, when they are
 * not strict, put contributions together in the order of ranks, whatever the root, as operations need that do not
 * commute. weft_plan_make() answers WEFT_INVALID where a request asks for what the algorithm cannot do. */
int weft_algorithm_serves_unequal(enum weft_collective collective, enum weft_algorithm algorithm);
int weft_algorithm_serves_strict(enum weft_collective collective, enum weft_algorithm algorithm);
int weft_algorithm_keeps_order(enum weft_collective collective, enum weft_algorithm algorithm);

/* Whether its plans follow the order of the request's hosts. Others name ranks as they are numbered, as do all plans for
 * strict mode, which fixes an order of its own. */
int weft_algorithm_follows_order(enum weft_collective collective, enum weft_algorithm algorithm);

/* What a rank must know of an unequal call: only the counts of blocks in its own INPUT and OUTPUT, or all. */
enum weft_needs { WEFT_NEEDS_OWN_COUNTS, WEFT_NEEDS_ALL_COUNTS };
enum weft_needs weft_algorithm_needs(enum weft_collective collective, enum weft_algorithm algorithm);

/* The chunks that the caller's buffer (INPUT or OUTPUT) of this plan's rank holds: [*first, *first + *count), which are
 * the blocks of the ranks for block collectives (never those beyond, of TEMP). *count is 0 where the rank passes none:
 * OUTPUT of a reduce at other ranks than the root, INPUT of a broadcast there. */
void weft_plan_window(const struct weft_plan *plan, enum weft_buffer buffer, uint32_t *first,
                      uint32_t *count);

/* Makes one rank's plan. Pure: no I/O, no clock. WEFT_INVALID names the bad field. */
int weft_plan_make(const struct weft_plan_request *request, struct weft_plan **plan);
void weft_plan_free(struct weft_plan *plan);

/* Walks a plan's steps in program order, loops expanded. */
struct weft_cursor {
    const struct weft_plan *plan;
    uint32_t index;      /* next record */
    uint32_t loop_start; /* first record of the open loop's body */
    uint32_t loop_end;   /* one past it; 0 when no loop is open */
    uint32_t iteration;
    uint32_t iterations;
};

void weft_cursor_start(struct weft_cursor *cursor, const struct weft_plan *plan);

/* Fills *step with the next SEND, RECV, REDUCE or COPY with chunk, peer and slots resolved (strides 0).
 * Returns 1, or 0 at the end. */
int weft_cursor_next(struct weft_cursor *cursor, struct weft_step *step);

/* Names as in WEFT_ALGO and weft-plan: "ring", "tree", "rd", ..., "auto". NULL / -1 when unknown. */
const char *weft_algorithm_name(enum weft_algorithm algorithm);
int weft_algorithm_parse(const char *name);

#endif
