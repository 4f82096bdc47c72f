/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/choose.h"

#include "algos/cost.h"
#include "algos/hosts.h"

#define BIT(algorithm) (1u << (algorithm))

/* Those that can do what is asked. */
static unsigned able(const struct weft_choice *choice)
{
    enum weft_collective collective = choice->collective;
    int reduces = weft_collective_reduces(collective);
    unsigned set = 0;
    for (int i = WEFT_ALGO_AUTO + 1; i < WEFT_ALGO_COUNT; i++) {
        enum weft_algorithm algorithm = (enum weft_algorithm)i;
        int can = weft_algorithm_serves(collective, algorithm);
        if (choice->unequal)
            can &= weft_algorithm_serves_unequal(collective, algorithm);
        if (reduces && choice->keep_order)
            can &= weft_algorithm_keeps_order(collective, algorithm);
        else if (reduces && choice->strict)
            can &= weft_algorithm_serves_strict(collective, algorithm);
        set |= can ? BIT(i) : 0;
    }
    return set;
}

/* Whether there are several hosts, and several ranks on one of them. */
static int layered(const struct weft_choice *choice)
{
    return choice->hosts && choice->hosts->count > 1 && choice->hosts->count < choice->ranks;
}

static double price(const struct weft_choice *choice, enum weft_algorithm algorithm)
{
    struct weft_link_cost link = weft_link_cost_of(choice->one_host, choice->oversubscribed);
    if (!layered(choice))
        return weft_cost_estimate_ns(choice->collective, algorithm, choice->ranks, choice->bytes, &link);
    struct weft_hosts_cost cost = {weft_link_cost_of(1, choice->oversubscribed),
                                   weft_link_cost_of(0, choice->oversubscribed), choice->hosts->ports};
    return weft_cost_hosts_ns(choice->collective, algorithm, choice->hosts, choice->bytes, &cost);
}

/* The cheapest of a set of algorithms; the lowest number wins a tie. */
static enum weft_algorithm cheapest(const struct weft_choice *choice, unsigned allowed)
{
    enum weft_algorithm best = WEFT_ALGO_AUTO;
    double best_ns = -1;
    for (int i = WEFT_ALGO_AUTO + 1; i < WEFT_ALGO_COUNT; i++) {
        if (!(allowed & BIT(i)))
            continue;
        double ns = price(choice, (enum weft_algorithm)i);
        if (best_ns < 0 || ns < best_ns) {
            best = (enum weft_algorithm)i;
            best_ns = ns;
        }
    }
    return best;
}

/* Thresholds that are set cut an allreduce's sizes into rd | rab | ring, tree or hier; one that is not set leaves its border
 * to the cost model. */
static unsigned within_thresholds(const struct weft_choice *choice)
{
    const unsigned large = BIT(WEFT_ALGO_RING) | BIT(WEFT_ALGO_TREE) | BIT(WEFT_ALGO_HIER);
    unsigned allowed = large | BIT(WEFT_ALGO_RD) | BIT(WEFT_ALGO_RAB);
    if (choice->rd_bytes <= 0 && choice->rab_bytes <= 0)
        allowed |= BIT(WEFT_ALGO_LEADER);
    if (choice->rd_bytes > 0) {
        if (choice->bytes <= (uint64_t)choice->rd_bytes)
            return BIT(WEFT_ALGO_RD);
        allowed &= ~BIT(WEFT_ALGO_RD);
    }
    if (choice->rab_bytes > 0)
        allowed &=
            choice->bytes <= (uint64_t)choice->rab_bytes ? BIT(WEFT_ALGO_RD) | BIT(WEFT_ALGO_RAB) : large;
    return allowed;
}

enum weft_algorithm weft_algorithm_choose(const struct weft_choice *choice)
{
    unsigned allowed = able(choice);
    if (choice->algorithm > WEFT_ALGO_AUTO && choice->algorithm < WEFT_ALGO_COUNT &&
        allowed & BIT(choice->algorithm))
        return (enum weft_algorithm)choice->algorithm;
    if (!layered(choice))
        allowed &= ~(BIT(WEFT_ALGO_HIER) | BIT(WEFT_ALGO_LEADER));
    if (choice->collective == WEFT_ALLREDUCE && allowed & within_thresholds(choice))
        allowed &= within_thresholds(choice);
    return cheapest(choice, allowed);
}
