/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the order in which people count, "node9" before "node10", and nodes in the order in which they stand in a machine. */
#ifndef WEFT_TOPO_NATURAL_H
#define WEFT_TOPO_NATURAL_H

#include "topo/graph/graph.h"

/* Below, equal to or above 0. Runs of digits compare by their number, of any length, everything else by its bytes. Names
 * that differ never compare equal ("a01" and "a1": by bytes), so the order is total. */
int weft_natural_compare(const char *a, const char *b);

/* Which of two nodes of one host comes first: as its tree is walked, children by PCI address, number and name, never by
 * their index in the graph. */
int weft_order_nodes(const struct weft_graph *graph, uint32_t a, uint32_t b);

#endif
