#include "algos/choose.h"

#include "algos/cost.h"

#define ALL (1u << WEFT_ALGO_RING | 1u << WEFT_ALGO_TREE | 1u << WEFT_ALGO_RD | 1u << WEFT_ALGO_RAB)

/* The cheapest of a set of algorithms; the lowest number wins a tie. */
static enum weft_algorithm cheapest(const struct weft_choice *choice, unsigned allowed)
{
    struct weft_link_cost link = weft_link_cost_of(choice->one_host, choice->oversubscribed);
    enum weft_algorithm best = WEFT_ALGO_RING;
    double best_ns = -1;
    for (int i = WEFT_ALGO_AUTO + 1; i < WEFT_ALGO_COUNT; i++) {
        if (!(allowed & 1u << i))
            continue;
        double ns = weft_cost_estimate_ns((enum weft_algorithm)i, choice->ranks, choice->bytes, &link);
        if (best_ns < 0 || ns < best_ns) {
            best = (enum weft_algorithm)i;
            best_ns = ns;
        }
    }
    return best;
}

/* Thresholds that are set cut the sizes into rd | rab | ring or tree; one that is not set leaves its border
 * to the cost model. */
enum weft_algorithm weft_algorithm_choose(const struct weft_choice *choice)
{
    unsigned allowed = ALL;
    if (weft_algorithm_serves(choice->collective, (enum weft_algorithm)choice->algorithm))
        return (enum weft_algorithm)choice->algorithm;
    if (choice->ranks <= 1)
        return WEFT_ALGO_RD;
    if (choice->rd_bytes > 0) {
        if (choice->bytes <= (uint64_t)choice->rd_bytes)
            return WEFT_ALGO_RD;
        allowed &= ~(1u << WEFT_ALGO_RD);
    }
    if (choice->rab_bytes > 0) {
        if (choice->bytes <= (uint64_t)choice->rab_bytes)
            allowed &= 1u << WEFT_ALGO_RD | 1u << WEFT_ALGO_RAB;
        else
            allowed &= 1u << WEFT_ALGO_RING | 1u << WEFT_ALGO_TREE;
    }
    return cheapest(choice, allowed);
}
