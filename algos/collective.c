/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know of collectives and algorithms without making a plan. */
#include <string.h>

#include "algos/plan.h"

enum flags { ROOT = 1, REDUCES = 2, BLOCKS = 4 };

#define BIT(algorithm) (1u << WEFT_ALGO_##algorithm)

/* By enum weft_collective. The last four are subsets of `serves`. */
static const struct {
    const char *name;
    unsigned flags;
    unsigned serves;
    unsigned unequal, strict, ordered, follows;
} collectives[WEFT_COLLECTIVE_COUNT] = {
    [WEFT_ALLREDUCE] = {"allreduce", REDUCES,
                        BIT(RING) | BIT(TREE) | BIT(RD) | BIT(RAB) | BIT(HIER) | BIT(LEADER), 0,
                        BIT(RD) | BIT(RAB), BIT(RD),
                        BIT(RING) | BIT(TREE) | BIT(RAB) | BIT(HIER) | BIT(LEADER)},
    [WEFT_BROADCAST] = {"broadcast", ROOT, BIT(BINOMIAL) | BIT(CHAIN) | BIT(SAG) | BIT(HIER) | BIT(LEADER), 0,
                        0, 0, BIT(BINOMIAL) | BIT(CHAIN) | BIT(SAG) | BIT(HIER) | BIT(LEADER)},
    [WEFT_REDUCE] = {"reduce", ROOT | REDUCES, BIT(BINOMIAL) | BIT(CHAIN) | BIT(RAB), 0,
                     BIT(BINOMIAL) | BIT(RAB), BIT(BINOMIAL), BIT(CHAIN) | BIT(RAB)},
    [WEFT_ALLGATHER] = {"allgather", BLOCKS, BIT(RING) | BIT(BRUCK) | BIT(HIER),
                        BIT(RING) | BIT(BRUCK) | BIT(HIER), 0, 0, BIT(RING) | BIT(HIER)},
    [WEFT_GATHER] = {"gather", ROOT | BLOCKS, BIT(BINOMIAL) | BIT(DIRECT), BIT(DIRECT), 0, 0, 0},
    [WEFT_SCATTER] = {"scatter", ROOT | BLOCKS, BIT(BINOMIAL) | BIT(DIRECT), BIT(DIRECT), 0, 0, 0},
    [WEFT_REDUCE_SCATTER] = {"reduce_scatter", REDUCES | BLOCKS,
                             BIT(RING) | BIT(HALVING) | BIT(DIRECT) | BIT(HIER),
                             BIT(RING) | BIT(HALVING) | BIT(DIRECT) | BIT(HIER), BIT(HALVING), BIT(DIRECT),
                             BIT(RING) | BIT(HIER)},
    [WEFT_ALLTOALL] = {"alltoall", BLOCKS, BIT(PAIRWISE) | BIT(BRUCK), BIT(PAIRWISE), 0, 0, 0},
    [WEFT_BARRIER] = {"barrier", 0, BIT(DISSEMINATION), 0, 0, 0, 0},
};

static int known(enum weft_collective collective)
{
    return (unsigned)collective < WEFT_COLLECTIVE_COUNT;
}

int weft_collective_has_root(enum weft_collective collective)
{
    return known(collective) && (collectives[collective].flags & ROOT) != 0;
}

int weft_collective_reduces(enum weft_collective collective)
{
    return known(collective) && (collectives[collective].flags & REDUCES) != 0;
}

int weft_collective_blocks(enum weft_collective collective)
{
    return known(collective) && (collectives[collective].flags & BLOCKS) != 0;
}

const char *weft_collective_name(enum weft_collective collective)
{
    return known(collective) ? collectives[collective].name : NULL;
}

int weft_collective_parse(const char *name)
{
    for (int i = 0; i < WEFT_COLLECTIVE_COUNT; i++) {
        if (strcmp(name, collectives[i].name) == 0)
            return i;
    }
    return -1;
}

static int has(unsigned algorithms, enum weft_algorithm algorithm)
{
    return algorithm > WEFT_ALGO_AUTO && algorithm < WEFT_ALGO_COUNT && (algorithms >> algorithm & 1);
}

int weft_algorithm_serves(enum weft_collective collective, enum weft_algorithm algorithm)
{
    return known(collective) && has(collectives[collective].serves, algorithm);
}

int weft_algorithm_serves_unequal(enum weft_collective collective, enum weft_algorithm algorithm)
{
    return known(collective) && has(collectives[collective].unequal, algorithm);
}

int weft_algorithm_serves_strict(enum weft_collective collective, enum weft_algorithm algorithm)
{
    return known(collective) && has(collectives[collective].strict, algorithm);
}

int weft_algorithm_keeps_order(enum weft_collective collective, enum weft_algorithm algorithm)
{
    return known(collective) && has(collectives[collective].ordered, algorithm);
}

int weft_algorithm_follows_order(enum weft_collective collective, enum weft_algorithm algorithm)
{
    return known(collective) && has(collectives[collective].follows, algorithm);
}

enum weft_needs weft_algorithm_needs(enum weft_collective collective, enum weft_algorithm algorithm)
{
    int moves =
        !weft_collective_reduces(collective); /* a reduce-scatter's sums are in memory of weft's own */
    return moves && (algorithm == WEFT_ALGO_DIRECT || algorithm == WEFT_ALGO_PAIRWISE)
               ? WEFT_NEEDS_OWN_COUNTS
               : WEFT_NEEDS_ALL_COUNTS;
}

/* Where a rank's buffer holds everything, its own block, or nothing. */
enum holds { NOTHING, OWN, ALL };

static enum holds input_holds(const struct weft_plan *plan)
{
    switch (plan->collective) {
    case WEFT_ALLGATHER:
    case WEFT_GATHER:
        return OWN;
    case WEFT_BROADCAST:
    case WEFT_SCATTER:
        return (int64_t)plan->rank == plan->root ? ALL : NOTHING;
    default:
        return ALL;
    }
}

static enum holds output_holds(const struct weft_plan *plan)
{
    switch (plan->collective) {
    case WEFT_SCATTER:
    case WEFT_REDUCE_SCATTER:
        return OWN;
    case WEFT_REDUCE:
    case WEFT_GATHER:
        return (int64_t)plan->rank == plan->root ? ALL : NOTHING;
    default:
        return ALL;
    }
}

void weft_plan_window(const struct weft_plan *plan, enum weft_buffer buffer, uint32_t *first, uint32_t *count)
{
    enum holds holds = buffer == WEFT_BUFFER_INPUT ? input_holds(plan) : output_holds(plan);
    int blocks = weft_collective_blocks((enum weft_collective)plan->collective);
    *first = holds == OWN ? plan->rank : 0;
    *count = holds == OWN ? 1 : holds == NOTHING ? 0 : blocks ? plan->ranks : plan->chunks;
}
