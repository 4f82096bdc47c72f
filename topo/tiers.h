/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers: which switches, and with them which hosts, belong together at each height of the fabric. Private to topo/.
 *
 * Found from the graph alone. The height of a switch is its distance from the nearest switch that ranks hang on, so those have
 * height 0 whatever they are called. At tier 0, switches are together that hosts join: in a rail-optimised fabric the 8 ports of
 * a host hang on 8 leaves, and the hosts that share these 8 are nearer to each other than to any others although no cable joins the
 * leaves. At tier t from 1 up, those are also together that are joined through switches of heights below t: at tier 1
 * leaves with cables between them, at tier 2 pods of leaves and the switches above them, and so on, to where nothing more
 * is joined. */
#ifndef WEFT_TOPO_TIERS_H
#define WEFT_TOPO_TIERS_H

#include "topo/order_parts.h"
#include "topo/routes.h"

struct weft_tiers {
    unsigned count;
    uint32_t *
        group; /* [count][switch_count]: the first leaf, by name, of what the switch is together with; WEFT_NODE_NONE
                        for switches that are higher than the tier */
};

/* strict: one host is enough to join two switches, as a bound has it. Otherwise it takes more than half of the hosts that hang on
 * either and on others besides, so that one wrong cable does not join two pods. */
int weft_tiers_find(const struct weft_order *order, int strict, struct weft_tiers *tiers);

static inline const uint32_t *weft_tier(const struct weft_order *order, const struct weft_tiers *tiers,
                                        unsigned tier)
{
    return tiers->group + (size_t)tier * order->routes->switch_count;
}

#endif
