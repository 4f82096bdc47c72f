/* SPDX-License-Identifier: Apache-2.0 */
/* Links that carry less than they could: trained at fewer lanes or at a lower speed.
 *
 * No format says what a cable's ports can do, so it is taken from what the graph shows besides, and only that is named
 * for which there is a witness:
 *   TRUNK     of the cables between the same two switches it is slower than the fastest
 *   SWITCHES  it joins two switches, is slower than most cables to switches of each, and none between the same two is just as
 *             slow. Cables to hosts do not count: a network may be narrower above its hosts, and between any two of its
 *             levels
 *   LANE      it has one lane, and another cable of the fabric has more: ports have 4, or 2 where they are split
 *   ADAPTER   it joins an adapter to a switch and carries less than half of what both an adapter of the same make and
 *             another cable of that switch do. Half is left out: makers sell one chip for two rates
 *   SLOT      PCI: it has fewer lanes than both its ends can have (link_width_max, from sysfs)
 * Two lanes are not named where a lane is as fast as one of a cable of four, or HDR and faster: ports are split on purpose. So
 * one of four lanes that was trained at two is not found, unless its lanes are slower besides.
 * In a network that is the same everywhere nothing is degraded, however slow. Cables that are down are not named: they
 * are shown as down. Nor is a rate that is not known.
 *
 * Time: of a cable, linear in the cables of the switch at its end that has fewer; of a switch, to sort its cables.
 */
#ifndef WEFT_TOPO_REPORT_DEGRADED_H
#define WEFT_TOPO_REPORT_DEGRADED_H

#include "topo/graph/graph.h"

enum weft_degraded_why {
    WEFT_DEGRADED_NOT,
    WEFT_DEGRADED_TRUNK,
    WEFT_DEGRADED_SWITCHES,
    WEFT_DEGRADED_LANE,
    WEFT_DEGRADED_ADAPTER,
    WEFT_DEGRADED_SLOT,
};

struct weft_degraded {
    uint32_t edge;
    enum weft_degraded_why why;
    uint64_t expected_bytes_per_s; /* of one link: what it could carry as far as the graph shows */
    unsigned expected_lanes;       /* LANE, SLOT; else 0 */
};

/* Those of a finished graph, by rising edge, in a list that the caller frees; NULL where there is none. */
int weft_degraded_find(const struct weft_graph *graph, struct weft_degraded **list, uint32_t *count);

const char *weft_degraded_why_name(enum weft_degraded_why why); /* "trunk" */

#endif
