/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of NICs, for weft_order_ranks(). Private to topo/. */
#ifndef WEFT_TOPO_NICS_H
#define WEFT_TOPO_NICS_H

#include "topo/order_parts.h"

/* Fills order->nic and order->nic_reasons; after weft_order_gather(). */
int weft_nics_choose(struct weft_order *order);

/* For WEFT_ORDER_GIVEN_NICS: takes back what was chosen for ranks whose places give none; after weft_order_ends(). */
int weft_nics_keep_given(struct weft_order *order);

/* weft_order_nics() among the ports, and NICs without ports, that are allowed: by node, NULL: all. */
int weft_nics_of(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                 const uint8_t *allowed, uint32_t *nic);

#endif
