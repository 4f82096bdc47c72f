/* The plan: what one rank does in one collective, as data.
 *
 * Data is divided into `chunks` logical chunks; which elements chunk c holds follows from the count alone:
 * [c * count / chunks, (c + 1) * count / chunks). A step works on the chunk range [chunk, chunk + span) and
 * names the buffers it reads and writes, never addresses or bytes; so one plan serves every count, type and
 * pointer.
 *
 * Buffers:
 *   INPUT   the caller's send buffer, only read. In an in-place call it is the same memory as OUTPUT.
 *   OUTPUT  the caller's receive buffer.
 *   TEMP    weft's own memory, laid out like OUTPUT (chunk c at the same offset); keeps its content for the
 *           whole operation. Plans with uses_temp need it.
 *   SLOT    a transient place for received data: written by exactly one RECV, then read by exactly one later
 *           REDUCE or COPY, and empty again. The executor decides whether it ever becomes memory: data may be
 *           reduced straight from the peer's memory or the network's landing buffer. Slots are numbered and
 *           hold one chunk range each; a slot may be reused once it is empty.
 *
 * Steps run as if in order, one after the other; the executor overlaps them where that cannot be seen (see
 * docs/architecture.md). The k-th SEND to rank p matches the k-th RECV that p does from this rank, with equal
 * chunk ranges. A SEND is complete only when its bytes have been consumed: received into OUTPUT or TEMP, or,
 * through a SLOT, read by the REDUCE or COPY that empties the slot. (Small messages complete earlier, but a
 * plan may not rely on that: the verifier assumes the strict rule.) Steps whose chunk range is empty for the
 * given count are skipped by both sides.
 *
 * LOOP {iterations, body} repeats the `body` records that follow it; in iteration i a step's chunk is
 * (chunk + i * chunk_stride) mod chunks, its peer (peer + i * peer_stride) mod ranks, a slot (slot +
 * i * slot_stride) mod slots. Loops do not nest. With iterations 0 the body is skipped.
 *
 * Records are of fixed size and hold no pointers. Plans do not depend on count, type or operation; they do on
 * (collective, algorithm, ranks, rank, in_place).
 *
 * Ownership: weft_plan_make() allocates, weft_plan_free() frees; a finished plan is immutable and may be used
 * by any number of threads.
 */
#ifndef WEFT_ALGOS_PLAN_H
#define WEFT_ALGOS_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include <weft/status.h>

enum weft_collective { WEFT_ALLREDUCE };

/* Frozen: they are values of the setting WEFT_ALGO. */
enum weft_algorithm {
    WEFT_ALGO_AUTO,
    WEFT_ALGO_RING,
    WEFT_ALGO_TREE,
    WEFT_ALGO_RD,
    WEFT_ALGO_RAB,
    WEFT_ALGO_COUNT
};

enum weft_step_kind { WEFT_STEP_SEND, WEFT_STEP_RECV, WEFT_STEP_REDUCE, WEFT_STEP_COPY, WEFT_STEP_LOOP };

enum weft_step_flags {
    WEFT_STEP_FINISH = 1 << 0, /* REDUCE or COPY whose result is the final value of its chunk (avg divides) */
};

enum weft_buffer { WEFT_BUFFER_INPUT, WEFT_BUFFER_OUTPUT, WEFT_BUFFER_TEMP, WEFT_BUFFER_SLOT };

#define WEFT_STEP_SOURCES_MAX 3

struct weft_ref {
    uint8_t buffer; /* enum weft_buffer */
    uint8_t reserved;
    uint16_t slot;       /* SLOT only */
    int16_t slot_stride; /* SLOT only: per loop iteration, modulo the plan's slots */
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
    uint32_t iterations;         /* LOOP */
    uint32_t body;               /* LOOP: how many of the following records */
    struct weft_ref destination; /* RECV, REDUCE, COPY */
    struct weft_ref sources[WEFT_STEP_SOURCES_MAX];
};

struct weft_plan {
    uint32_t collective;
    uint32_t algorithm;
    uint32_t ranks;
    uint32_t rank;
    uint32_t chunks;
    uint32_t slots;    /* how many SLOTs the plan names */
    uint32_t in_place; /* made for INPUT == OUTPUT */
    uint32_t uses_temp;
    uint32_t step_count;
    struct weft_step steps[];
};

/* What a plan is made for. */
struct weft_plan_request {
    enum weft_collective collective;
    enum weft_algorithm algorithm; /* not AUTO */
    uint32_t ranks;
    uint32_t rank;
    int in_place;
};

/* Makes one rank's plan. Pure: no I/O, no clock. WEFT_INVALID names the bad field. */
int weft_plan_make(const struct weft_plan_request *request, struct weft_plan **plan);
void weft_plan_free(struct weft_plan *plan);

/* First element of chunk c. c may be chunks (the end). Never overflows. */
static inline size_t weft_chunk_start(const struct weft_plan *plan, uint32_t chunk, size_t count)
{
    return count / plan->chunks * chunk + count % plan->chunks * chunk / plan->chunks;
}

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

/* Names as in WEFT_ALGO and weft-plan: "ring", "tree", "rd", "rab", "auto". NULL / -1 when unknown. */
const char *weft_algorithm_name(enum weft_algorithm algorithm);
int weft_algorithm_parse(const char *name);

#endif
