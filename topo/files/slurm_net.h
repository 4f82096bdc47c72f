/* SPDX-License-Identifier: Apache-2.0 */
/* The switches of Slurm's topology, however they are written: what topology.conf, scontrol and topology.yaml share.
 *
 * A switch is begun with its name, is given what is below it, and is ended. As in Slurm one that has neither nodes nor
 * switches is read: a warning says so. In a file of settings, a switch that is only named below another is an error;
 * where the text is what scontrol prints, which may be a part of the whole, it is a warning, and nodes that are named by
 * a switch further up alone hang on that one. Threads: one.
 */
#ifndef WEFT_TOPO_FILES_SLURM_NET_H
#define WEFT_TOPO_FILES_SLURM_NET_H

#include "topo/files/named.h"

/* The nodes that a switch of scontrol's lists though switches are below it. */
struct weft_slurm_list {
    struct weft_span nodes;
    uint32_t upper, level;
    size_t line;
};

struct weft_slurm_net {
    struct weft_named *named;
    const char *entry; /* what says of a switch, for messages */
    size_t line;       /* of the list that is read */
    uint32_t upper;    /* the switch that has begun */
    uint32_t below;    /* what it has below it so far */
    int is_hosts;      /* of the list that is read */
    int has_switches;  /* there was a switch */
    int is_shown;      /* by scontrol */
    struct weft_slurm_list *lists;
    uint32_t list_count, list_room;
};

/* kind: NULL, or what sort of group the nodes are ("block", "ring"): the attribute slurm. */
int weft_slurm_net_begin(struct weft_slurm_net *net, struct weft_span name, const char *kind, size_t line);

/* A hostlist of nodes or of switches; an empty one is nothing. */
int weft_slurm_net_add(struct weft_slurm_net *net, struct weft_span list, int is_hosts, size_t line);

/* The nodes of a switch that scontrol prints with switches below it. */
int weft_slurm_net_note(struct weft_slurm_net *net, struct weft_span nodes, uint32_t level, size_t line);

int weft_slurm_net_end(struct weft_slurm_net *net, size_t line);

/* After the last switch. */
int weft_slurm_net_finish(struct weft_slurm_net *net);
void weft_slurm_net_close(struct weft_slurm_net *net);

#endif
