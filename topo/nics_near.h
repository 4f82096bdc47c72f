/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs of a host serve a place best. Private to topo/.
 *
 * weft_near_open() notes once per host which ports can be chosen; weft_near_look() asks weft_path_classify() for each NIC.
 *
 * Errors: WEFT_NOMEM. Threads: an object belongs to one; the graph is only read.
 */
#ifndef WEFT_TOPO_NICS_NEAR_H
#define WEFT_TOPO_NICS_NEAR_H

#include "topo/path.h"

/* A port, or a NIC without ports, that can be chosen. */
struct weft_near_end {
    uint32_t node;
    uint32_t nic; /* number of its NIC among the host's, in the order of its tree */
    uint64_t bytes_per_s;
    unsigned cabled;
    uint32_t used; /* the caller's */
};

/* The ends that serve a place equally well, and how its NICs stand to them. */
struct weft_near_set {
    uint32_t *best; /* indices of ends, ascending */
    uint32_t count;
    enum weft_path_class path_class;
    uint32_t near;        /* NICs with an end, of that class or nearer */
    uint32_t nearer_down; /* NICs all of whose ports are down, of a nearer class */
};

struct weft_near {
    const struct weft_graph *graph;
    uint32_t host;
    struct weft_near_end *ends; /* in the order of the host's tree */
    uint32_t end_count;
    struct weft_near_nic *nics; /* likewise; topo/nics_near.c's */
    uint32_t nic_count;
    uint32_t *nic_used;       /* the caller's, by NIC */
    uint32_t nics_up;         /* NICs with a port that is not down */
    uint32_t nics_fit;        /* those with an end */
    struct weft_near_set set; /* of the last look */
};

/* The ends of a host, as far as they are allowed (by node, NULL: all; used during the call); none with host WEFT_NODE_NONE.
 * On failure *near is all zero. */
int weft_near_open(const struct weft_graph *graph, uint32_t host, const uint8_t *allowed,
                   struct weft_near *near);
void weft_near_close(struct weft_near *near); /* all zero: nothing to do */

/* place: a node of the host, or WEFT_NODE_NONE, which all NICs serve alike. There must be an end. The set is good until the
 * next look. */
const struct weft_near_set *weft_near_look(struct weft_near *near, uint32_t place);

#endif
