/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of KEY=VALUE words, as in Slurm's topology.conf and as `scontrol show topology` prints them: slurm.c has the forms.
 *
 * A record is one line, or several where a backslash ends one. Its words are collected first, and mean something when it
 * ends: they may stand in any order behind the first. Threads: one.
 */
#ifndef WEFT_TOPO_FILES_SLURM_CONF_H
#define WEFT_TOPO_FILES_SLURM_CONF_H

#include "topo/files/slurm_net.h"

enum weft_slurm_record { WEFT_SLURM_NONE, WEFT_SLURM_SWITCH, WEFT_SLURM_IGNORED };

struct weft_slurm_conf {
    struct weft_slurm_net net;
    size_t line;
    enum weft_slurm_record record; /* that is open */
    const char *kind;              /* NULL: a switch, else what sort of group */
    struct weft_span name, nodes, switches, link_speed;
    size_t name_line, nodes_line, switches_line;
    uint32_t level;
    int has_nodes, has_switches, is_shown, is_placement;
};

/* The words of a line; goes_on: the next one is of the same record. */
int weft_slurm_conf_line(struct weft_slurm_conf *conf, struct weft_cursor *cursor, int goes_on);

/* After the last line. */
int weft_slurm_conf_finish(struct weft_slurm_conf *conf);

#endif
