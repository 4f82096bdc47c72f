/* SPDX-License-Identifier: Apache-2.0 */
/* Switches in tiers and groups: what draw_fabric.c finds and draw_tiers.c draws. */
#ifndef WEFT_TOPO_TOOL_DRAW_FABRIC_H
#define WEFT_TOPO_TOOL_DRAW_FABRIC_H

#include "topo/tool/draw.h"

enum {
    FABRIC_TIERS_MAX = 8,   /* switches farther from the hosts join the last tier */
    FABRIC_GROUPS_MAX = 6,  /* of a tier */
    FABRIC_SINGLES_MAX = 12 /* fabrics with no more switches show each of them */
};

/* Parallel cables. */
struct draw_bundle {
    uint64_t links, dead; /* that carry, that are down */
    uint64_t bytes_per_s; /* of one; 0: not known */
    int mixed;            /* of several rates */
    int uncounted;        /* links is how many edges there are: the source tells no number of cables */
};

struct draw_switch {
    uint32_t node, group;
    uint32_t tier; /* 0: a leaf */
    uint32_t hosts;
    uint32_t pairs_first; /* its hosts, in fabric->pairs */
    struct draw_bundle to_hosts, up, down, across;
};

struct draw_pair {
    uint32_t at, host; /* index of a switch */
    const char *name;
};

/* Switches of one tier that are alike; where a tier would have too many groups, the last one holds what is left: `rest`. */
struct draw_group {
    uint32_t first, count; /* in fabric->switches */
    uint32_t tier;
    int rest;
    int x, y, w, h, host_w, host_h;
    const char *lines[6], *host_lines[3];
    uint8_t fonts[6], host_fonts[3];
    int line_count, host_line_count;
};

struct draw_fabric {
    const struct weft_graph *graph;
    struct draw_switch *switches; /* by tier, then by group, then by name */
    uint32_t switch_count;
    uint32_t *switch_of;     /* by node; WEFT_NODE_NONE: none */
    struct draw_pair *pairs; /* switches and the hosts on them, once each, sorted */
    uint32_t pair_count, host_count;
    struct draw_group *groups;
    uint32_t group_count, tier_count;
    uint32_t unreached;          /* the tier of switches that no host reaches, or tier_count */
    struct draw_bundle *between; /* [group_count][group_count] */
    struct draw_bundle tier_up[FABRIC_TIERS_MAX + 1], to_hosts;
    uint64_t beside; /* cables that join hosts without a switch */
};

void draw_bundle_add(struct draw_bundle *bundle, const struct weft_edge *edge, uint64_t bytes_per_s);

#endif
