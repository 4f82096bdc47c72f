/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation is to the choice of staging.h: the way it goes, what is learnt from it, and which regrets its messages carry. */
#ifndef WEFT_COMM_EXEC_TRIALS_H
#define WEFT_COMM_EXEC_TRIALS_H

#include <stddef.h>
#include <stdint.h>

#include "comm/exec/staging.h"

struct weft_exec_op;
struct weft_wire_header;

struct weft_trial {
    uint8_t way;  /* enum weft_staging_way */
    uint8_t part; /* enum weft_staging_part */
    uint8_t stages;
    uint8_t has_staged;          /* some of its SENDs are, by choice */
    uint8_t has_heard;           /* regrets of others */
    uint8_t lacks_staging;       /* some should be, and are not; or none may, as nobody waits for it */
    uint32_t regrets;            /* of it and its peers, in a call that settles; otherwise 0 */
    int64_t begun_ns;            /* 0: it does not count */
    int64_t waits_ns, waited_ns; /* since when a caller waits, 0: none does; and has waited before, */
    int64_t left_ns;             /* until then */
    size_t bytes;                /* of the call */
};

/* How surely callers wait at once for calls that they start, and from where on those may stage. */
#define WEFT_TRIAL_WAITED_MAX 8
#define WEFT_TRIAL_WAITED_MIN 4

/* The operation begins. */
void weft_trial_begin(struct weft_exec_op *op);
/* A message of the operation's has come with regrets, which its own carry on, also where this rank never stages. */
void weft_trial_hear(struct weft_exec_op *op, const struct weft_wire_header *header);
/* Those of a kept message that a later one is put into (deliver.c): its own, with what the later one has heard. */
uint16_t weft_trial_flags(uint16_t flags, uint16_t later);
/* It has ended with this status. */
void weft_trial_end(struct weft_exec_op *op, int status);

#endif
