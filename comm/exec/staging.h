/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks of one host stage what the others could read where it is, and whether results go past the caches: those that are copied. What is
 * reduced goes there by a rule (comm/calls/part.c).
 *
 * In a collective without a root both ends of a link copy at once. Then two copies through staging memory, which stays in a cache, may be faster than
 * one by the kernel, which looks up every page, or than being fed, as what is staged is reduced where it lies. And a processor
 * that copies itself can write a large result past its caches, which saves reading what is overwritten; that is slower where the same buffers come again
 * and again, and are in a cache. Only measuring says which, and only where all ranks do the same: one that stages alone makes a copy more, and still
 * waits for what the others copy.
 *
 * So trials go by number. All ranks make the same calls, so the n-th call of a size is the n-th everywhere. A trial is a few calls of each way in turn,
 * at numbers that are the same on every rank. Each rank keeps its own times, of which the least counts: a call
 * takes longer when others are late. In the next call the ranks settle on a way. Each message carries its sender's regrets: how much
 * slower each way was than the fastest, on this rank and on all whose messages it has got, the worst of them. What a call without a root leaves
 * on a rank comes from all others, by messages that begin when earlier ones have come, so at the call's end every rank knows
 * the same regrets. All take the way that is the least bad where it is worst, and stay with the one they had where it is as good. A rank that has
 * measured nothing, as its caller does not wait, is for in place. Puts into a peer's memory and device collectives have no such messages. There
 * ranks may come to different ends, which is slower than either way until they settle again, and never wrong, as what is sent says how it goes.
 *
 * Whether what is staged goes past the caches is another choice, which each sender makes for each message, as its reader wants it (WEFT_LINK_PAST_CACHES): it
 * needs no agreement, and follows processors that move between two trials.
 *
 * Trials are to cost no more than a twenty-fifth of the time, and less where nothing changes for long. So how far apart they are follows from the
 * regrets as well. Where the ways that are not taken are hardly slower trials come often, and find soon that processors have moved. What is many times
 * slower is tried ever more rarely. The distances are powers of two, and trials begin at multiples of them. So ranks whose trials have come apart, as
 * many calls were begun before one was settled, meet in the trials of the rank with the longest distance, and agree again. Where no regrets come the
 * distance doubles each time, whatever a rank has seen, so that trials stay the same calls on all ranks.
 *
 * A pure function of the costs that it is given: no clock, no other state. The caller serialises calls.
 */
#ifndef WEFT_COMM_EXEC_STAGING_H
#define WEFT_COMM_EXEC_STAGING_H

#include <stddef.h>
#include <stdint.h>

#include "algos/plan.h"

#define WEFT_STAGING_BYTES_MIN (16u << 10) /* of a call's buffer: below it calls are in place */
#define WEFT_STAGING_SIZES     12          /* up to 16 KiB, 32 KiB and so on; the last has all above */

/* Of sizes whose largest result has fewer bytes none goes past the caches: whoever reads it next would miss it there. */
#define WEFT_STAGING_STREAMED_MIN (1u << 20)

enum weft_staging_way {
    WEFT_STAGING_IN_PLACE, /* at first */
    WEFT_STAGING_STAGED,
    WEFT_STAGING_STREAMED, /* staged, and results go past the caches; memory that peers can map is still read in place. Where no staged call has been
                            * measured on all ranks, as some had only such memory, nothing is staged outside of trials */
    WEFT_STAGING_WAYS
};

/* What a call is to the choice. */
enum weft_staging_part {
    WEFT_STAGING_GOES,   /* nothing is learnt from it */
    WEFT_STAGING_TIMED,  /* of a trial: its cost is wanted */
    WEFT_STAGING_SETTLES /* the first after a trial: its messages carry the ranks' regrets */
};

struct weft_staging_choice {
    uint32_t calls;                      /* that have begun */
    uint32_t first, period;              /* trials begin with this call, and so many apart, a power of two */
    uint32_t cost_ns[WEFT_STAGING_WAYS]; /* the least in this trial; 0: none */
    uint8_t taken;
    uint8_t unchanged;       /* trials since it was taken */
    uint8_t is_open;         /* the trial has begun, and is not settled */
    uint8_t settles_next;    /* its calls have begun */
    uint8_t is_staged_known; /* to all ranks, when they last settled: what staging takes */
};

/* For each way three bits, the first way's lowest: 0 where no rank has seen another that was faster by 5 %, more in steps up to 6, and 7 where a rank
 * does not know. Behind them two bits: 1 for the first way where ranks have that, and so on, of those the last. 0: nothing was sent. */
#define WEFT_STAGING_REGRET_BITS 3
#define WEFT_STAGING_REGRET_MAX  7
#define WEFT_STAGING_TAKEN_SHIFT (WEFT_STAGING_WAYS * WEFT_STAGING_REGRET_BITS)
#define WEFT_STAGING_REGRETS_MAX (3u << WEFT_STAGING_TAKEN_SHIFT | ((1u << WEFT_STAGING_TAKEN_SHIFT) - 1))

struct weft_staging {
    uint32_t ranks;
    struct weft_staging_choice
        sizes[WEFT_COLLECTIVE_COUNT]
             [WEFT_STAGING_SIZES]; /* costs are those of a call as large as the largest of its size */
};

void weft_staging_open(struct weft_staging *staging, uint32_t ranks);
/* The way of the next call of so many bytes. */
enum weft_staging_way weft_staging_next(struct weft_staging *staging, enum weft_collective collective,
                                        size_t bytes, enum weft_staging_part *part);
/* Whether a call that goes this way stages ordinary memory. */
int weft_staging_stages(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                        enum weft_staging_way way, int is_timed);
/* What a timed call has taken. Where that says nothing about its way, it is not called. */
void weft_staging_observe(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                          enum weft_staging_way way, int64_t cost_ns);
/* This rank's regrets of the last trial, for the call that settles. */
uint32_t weft_staging_regrets(struct weft_staging *staging, enum weft_collective collective, size_t bytes);
/* Those of two ranks together. */
uint32_t weft_staging_regrets_join(uint32_t one, uint32_t other);
/* The call that settles has ended, and those are the regrets of all ranks, or, where not is_agreed, of this one, as none have come. Returns 1 where another way is
 * taken from now on. */
int weft_staging_settle(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                        uint32_t regrets, int is_agreed);

enum weft_staging_way weft_staging_taken(struct weft_staging *staging, enum weft_collective collective,
                                         size_t bytes);
/* What each way has taken here in the last trial for a call of *of_bytes, in ns; 0: not known. */
void weft_staging_costs(struct weft_staging *staging, enum weft_collective collective, size_t bytes,
                        uint64_t costs_ns[WEFT_STAGING_WAYS], size_t *of_bytes);
const char *weft_staging_way_name(enum weft_staging_way way);

#endif
