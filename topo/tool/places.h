/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of a job that nobody started would run. */
#ifndef WEFT_TOPO_TOOL_PLACES_H
#define WEFT_TOPO_TOOL_PLACES_H

#include "topo/tool/tool.h"

#define WEFT_TOPO_RANKS_MAX (1u << 22)

/* Ranks in blocks over the hosts in the order of the graph: ranks_per_node on each, or one per GPU, or one. The ranks of a host
 * take its GPUs in turn, without GPUs its NUMA nodes. With shuffle, the places are dealt out at random by the seed (the
 * same on every machine). *places is malloc'ed. */
int weft_topo_places_make(const struct weft_graph *graph, const struct weft_topo_job *job,
                          struct weft_place **places, uint32_t *ranks);

#endif
