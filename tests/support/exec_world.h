/* SPDX-License-Identifier: Apache-2.0 */
/* A world of executors over the in-process loop transport, driven by one thread: every rank of a plan in one
 * place, deterministic for a seed. Used by the executor's tests and its micro-benchmark.
 *
 * Ownership: exec_world_open() allocates, exec_world_close() frees. Not thread-safe.
 */
#ifndef WEFT_TESTS_EXEC_WORLD_H
#define WEFT_TESTS_EXEC_WORLD_H

#include "comm/exec/exec.h"

/* Whether ranks reach each other's device memory. */
enum exec_sharing {
    EXEC_APART,    /* they are not said to be on one machine */
    EXEC_TOGETHER, /* threads of one process */
    EXEC_ONE_WAY,  /* the same, but ranks with an odd number have no set */
};

/* What a rank that lies makes of a message. *size: of the payload, which may grow by 64 bytes. */
typedef void exec_world_mangle(struct weft_wire_header *header, uint8_t *payload, size_t *size);

struct exec_world_options {
    uint32_t ranks, window;
    const char *mode; /* the loop transport's provider string: "map", "pull", "put", "eager", ":storm=N" */
    uint32_t eager_bytes; /* 0: what the transport takes */
    uint32_t slice_bytes;
    uint32_t first_sequence;
    int stage_only;
    int no_staging; /* there is no staging memory */
    enum exec_sharing sharing;
    struct weft_exec_collectives collectives;
    exec_world_mangle *mangle; /* of every message before it is sent; NULL: none. The transport is loop. */
    int checks;        /* 0, or how many times mapped memory is found to be exposed before it is not */
    int puts_are_late; /* the peer has taken back what they name */
    int short_tokens;  /* what ranks expose to each other is a byte shorter than the message says */
    uint32_t seed;     /* order in which ranks are driven; 0 round-robin */
    /* The transport registers memory of this kind (NULL: of none) as a dma-buf, and puts from there and has receive buffers
     * there: by the processor, which sees the memory elsewhere. Other memory is registered as the host's. */
    const struct weft_device_kind *registers;
    const char *transport;          /* NULL: "loop"; another one registers by itself */
    uint64_t refuses;               /* ranks that are refused it, as bits */
    const struct weft_hosts *hosts; /* exec_world_allreduce()'s plans: struct weft_plan_request */
};

struct exec_world;

int exec_world_open(const struct exec_world_options *options, struct exec_world **world);
void exec_world_close(struct exec_world *world);
struct weft_exec *exec_world_rank(struct exec_world *world, uint32_t rank);
/* What a rank's executor has stopped for: the words, and *status. NULL: it has not. */
const char *exec_world_failure(const struct exec_world *world, uint32_t rank, int *status);

/* Of all ranks together: bytes and programs. */
struct weft_exec_stats exec_world_sum(const struct exec_world *world);

/* Regions of buffers that have not been given back. */
uint32_t exec_world_regions(const struct exec_world *world);

/* Polls and progresses every rank once. Returns how much happened. */
int exec_world_turn(struct exec_world *world);

/* One operation of every rank, to the end. Returns the first status that is not 0; WEFT_TIMEOUT when nothing moves any
 * more. */
int exec_world_run(struct exec_world *world, const struct weft_exec_request *requests);

/* One allreduce over all ranks; inputs[r] may equal outputs[r] when in_place. Returns the first status that
 * is not 0; WEFT_TIMEOUT when nothing moves any more. */
int exec_world_allreduce(struct exec_world *world, enum weft_algorithm algorithm, int in_place,
                         void *const *inputs, void *const *outputs, size_t count, weft_dtype dtype,
                         weft_op op);

/* Staging memory handed out so far: pattern checks. Fills all free staging buffers with value, and counts the
 * bytes that differ from it later. */
void exec_world_paint_staging(struct exec_world *world, uint8_t value);
size_t exec_world_painted_away(struct exec_world *world, uint8_t value);
/* Staging buffers that are in use. */
int exec_world_staged(const struct exec_world *world);

#endif
