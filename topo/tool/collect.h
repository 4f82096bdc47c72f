/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, or one host of one, collected in a graph being built. */
#ifndef WEFT_TOPO_TOOL_COLLECT_H
#define WEFT_TOPO_TOOL_COLLECT_H

#include "topo/graph/graph.h"

/* Adds what `from` (finished) holds to `to`: all of it, or with a host what lies in it and the edges within. A root whose name
 * `to` has already gets "-2", "-3", ... behind its name. On failure `to` is half filled: drop it. */
int weft_topo_collect(const struct weft_graph *from, uint32_t host, struct weft_graph *to);

#endif
