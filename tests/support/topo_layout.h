/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of every layout. */
#ifndef WEFT_TESTS_SUPPORT_TOPO_LAYOUT_H
#define WEFT_TESTS_SUPPORT_TOPO_LAYOUT_H

#include "topo/order.h"

/* Fails the test where the order or a ring is no permutation, groups do not nest, hosts are numbered wrongly, or a group is in
 * pieces along ring 0. by_rank: hosts need not be in one piece. */
void layout_check(const struct weft_graph *graph, const struct weft_place *places,
                  const struct weft_layout *layout, int by_rank);

/* Places for ranks_per_host ranks on every host that has a NIC, near its GPUs in turn where it has as many or more, in the
 * order of the graph and then shuffled (seed 0: not). Returns how many; *places is malloc'ed. */
uint32_t layout_places(const struct weft_graph *graph, uint32_t ranks_per_host, uint64_t seed,
                       struct weft_place **places);

/* How many groups of the level there are. */
uint32_t layout_groups(const struct weft_layout *layout, enum weft_level level);

#endif
