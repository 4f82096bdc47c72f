/* SPDX-License-Identifier: Apache-2.0 */
/* Where a node's bytes leave its host. Private to topo/path*.c. */
#ifndef WEFT_TOPO_PATH_ENDS_H
#define WEFT_TOPO_PATH_ENDS_H

#include "topo/graph/graph.h"

struct weft_ends {
    uint32_t *nodes;
    uint32_t count;
};

/* Whether a cable that carries begins at the node, below it or elsewhere in its host (a port's or NIC's: at it or below
 * it only). */
int weft_path_has_end(const struct weft_graph *graph, uint32_t node);

/* Those ends that are nearest to node by class, or with everything all of its host. Freed by weft_path_ends_free(),
 * also when there are none. */
int weft_path_ends(const struct weft_graph *graph, uint32_t node, int everything, struct weft_ends *ends);
void weft_path_ends_free(struct weft_ends *ends);

#endif
