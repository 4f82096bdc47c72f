/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two or three ways a message takes, where only measuring says which is faster: that depends on the size and on how near two processors are, which
 * changes while a program runs. One of both ends chooses, and what it sends or asks for says which way it is, so nothing has to be agreed.
 *
 * Costs. A message's cost is the time until all of it has been taken, at the end that chooses. It may be too long, since a peer may be
 * late or put aside, and never too short. So what counts is the least of the last messages that were timed: of short ones a fifth is, as looking at the
 * clock costs something as well. Those are some in a row, as in a trial: a call may have several messages that do not cost the same, and each way
 * has to be judged by all of them.
 *
 * Trials. A way that is not taken has three messages now and then, and its cost is the least of theirs. Two such ways have them in turn. It is taken from then
 * on if it was clearly the faster one. Until then no more messages go that way, however many are sent meanwhile. The first trial of a way comes after a few
 * messages, of large ones after fewer. Trials are to cost about a fiftieth of the time, so they are the rarer the slower the other way was, and become a little rarer as
 * long as they change nothing. One comes early when the cost of what is taken has moved by a quarter, as then processors may have; and the next such one
 * later, if it was in vain.
 *
 * A pure function of the costs that it is given: no clock, no other state. The caller serialises calls.
 */
#ifndef WEFT_BASE_CHOICE_H
#define WEFT_BASE_CHOICE_H

#include <stddef.h>
#include <stdint.h>

#define WEFT_CHOICE_WAYS 3

/* Between two or three ways, from 0 on. 0 is taken at first. */
struct weft_choice {
    uint32_t cost_ns[WEFT_CHOICE_WAYS]; /* 0: not known */
    uint32_t low_ns[2];                 /* the least of the window before, and of this one; 0: none */
    uint32_t mark_ns;                   /* the cost of the way that is taken, at the last trial */
    uint16_t messages;                  /* since then */
    uint16_t pause;                     /* messages between trials */
    uint16_t first_pause;               /* before the first one of a way */
    uint16_t least_pause;               /* and at least, when costs have moved */
    uint16_t cheap
        [WEFT_CHOICE_WAYS]; /* the pause with which trials such as the last one of the way cost little enough */
    uint16_t sure[WEFT_CHOICE_WAYS]; /* the shorter one of the last two */
    uint8_t ways;                    /* 2 or 3 */
    uint8_t taken;
    uint8_t had;     /* bitmap: ways that have had a trial, and 0 */
    uint8_t tried;   /* in the last trial */
    uint8_t early;   /* trials still to come, with this one, as costs have moved: one of each other way */
    uint8_t is_long; /* looking at the clock costs nothing beside a message */
    uint8_t trial;   /* messages of a trial whose costs are still to come */
    uint8_t sent;    /* of those, messages that have gone */
    uint8_t timed;   /* in this window */
};

/* ways: 2 up to WEFT_CHOICE_WAYS. */
void weft_choice_open(struct weft_choice *choice, uint8_t ways);
/* The way of the next message. *is_timed: 1 where its cost is wanted. */
uint8_t weft_choice_next(struct weft_choice *choice, int *is_timed);
/* What a message has taken. 0: it cannot be said, as it has not gone that way in the end. Returns 1 where that way is taken from now on. */
int weft_choice_observe(struct weft_choice *choice, uint8_t way, int64_t cost_ns);

/* Between ways for messages of all sizes: a choice for each class of them. */
#define WEFT_CHOICE_SIZES     12                /* up to 8 KiB, 16 KiB and so on; the last has all above */
#define WEFT_CHOICE_BYTES_MIN ((size_t)8 << 10) /* the largest message of the first class */

struct weft_choices {
    struct weft_choice
        sizes[WEFT_CHOICE_SIZES]; /* costs are those of a message as long as the largest of its size */
};

void weft_choices_open(struct weft_choices *choices, uint8_t ways);
uint8_t weft_choices_next(struct weft_choices *choices, size_t bytes, int *is_timed);
/* The way that messages of this length take, without a trial. */
uint8_t weft_choices_taken(const struct weft_choices *choices, size_t bytes);
/* The way that they take, and what each has taken lately for a message of *of_bytes, in ns; 0: not known. */
uint8_t weft_choices_costs(const struct weft_choices *choices, size_t bytes,
                           uint64_t costs_ns[WEFT_CHOICE_WAYS], size_t *of_bytes);
/* Says which of two ways costs clearly less: -1 the first, 1 the second, 0 neither, or nothing is known. All sizes count the same. One of which a cost is
 * not known, or which has a trial just now, does not count. */
int weft_choices_compare(const struct weft_choices *choices, uint8_t first, uint8_t second);
int weft_choices_observe(struct weft_choices *choices, size_t bytes, uint8_t way, int64_t cost_ns);

#endif
