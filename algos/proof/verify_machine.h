/* SPDX-License-Identifier: Apache-2.0 */
/* The abstract machine that the verifier runs plans on. Internal to the verifier; see verify.h for its rules
 * and for what a run proves.
 *
 * A runner is one rank's window. Positions are step numbers modulo the window; sets of positions are 64-bit
 * masks. A channel holds what was offered between an ordered pair of ranks and has not met yet. In the
 * rotation method there is one runner, rank 0, which plays all its peers too.
 */
#ifndef WEFT_ALGOS_PROOF_VERIFY_MACHINE_H
#define WEFT_ALGOS_PROOF_VERIFY_MACHINE_H

#include "algos/proof/verify.h"
#include "algos/proof/verify_values.h"

enum weft_step_state { WEFT_STATE_WAITING, WEFT_STATE_OFFERED, WEFT_STATE_MET, WEFT_STATE_DONE };

struct weft_machine_slot {
    uint32_t chunk, span; /* of the RECV that wrote it, in program order */
    uint32_t sender;      /* rank */
    uint8_t sender_position;
    uint8_t full; /* in program order, as of the newest step in the window */
};

struct weft_runner {
    uint32_t rank;
    const struct weft_plan *plan;
    struct weft_cursor cursor;
    uint64_t head, tail; /* step numbers in the window: [head, tail) */
    uint64_t live;       /* positions of steps not done */
    uint64_t unoffered;  /* positions of SENDs and RECVs not offered yet */
    uint64_t transfers;  /* one bit per step, newest lowest: it is a SEND or RECV */
    int ended;           /* the cursor is at its end */
    int queued;
    struct weft_step *steps;
    uint64_t *blockers; /* earlier steps that conflict */
    uint64_t *order;    /* earlier SENDs (RECVs) to the same rank */
    uint32_t *channels;
    uint8_t *states;
    int8_t *next; /* in the channel's queue */
    struct weft_machine_slot *slots;
    uint64_t cells[WEFT_CELLS_MAX]; /* 1 + the chunk that each holds in program order; 0: nothing yet */
};

struct weft_channel {
    uint64_t key;
    int8_t send_first, send_last, recv_first, recv_last; /* positions, -1 for none */
};

struct weft_machine {
    const struct weft_plan *const *plans;
    uint32_t ranks;
    uint32_t runner_count;
    uint32_t window;
    int rotation;
    struct weft_runner *runners;
    void *runner_memory;
    struct weft_values values;
    struct weft_channel *channels;
    uint32_t channel_count, channel_capacity;
    uint32_t *channel_index; /* open addressing over channels, 0 is free, otherwise number + 1 */
    uint32_t *queue;         /* runners to look at: a ring of runner_count */
    uint32_t queue_first, queue_count;
    unsigned expect; /* WEFT_VERIFY_EXPECT_* */
    uint64_t random; /* state of the generator for random schedules */
    int unsupported; /* the rotation method cannot decide */
    struct weft_verify_report *report;
};

int weft_machine_open(struct weft_machine *machine, const struct weft_plan *const *plans, uint32_t ranks,
                      int rotation, const struct weft_verify_options *options,
                      struct weft_verify_report *report);
void weft_machine_close(struct weft_machine *machine);

/* What can be said about a step from its own rank's program alone: NULL, or what is wrong. Keeps the program-order state
 * of slots and cells. */
const char *weft_runner_check(struct weft_runner *runner, const struct weft_step *step);

/* Runs the plans from the start until all are done, or it is known what is wrong. shuffle: a random schedule
 * instead of the eager one. Fills in the report's counts. */
int weft_machine_run(struct weft_machine *machine, int shuffle);

#endif
