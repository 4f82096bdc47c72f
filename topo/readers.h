/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of files there are: how they are told apart, and who reads each.
 *
 * Threads: any, once weft_topo_read_machines_by() has been called; nothing is allocated.
 */
#ifndef WEFT_TOPO_READERS_H
#define WEFT_TOPO_READERS_H

#include "topo/read.h"

enum weft_topo_format {
    WEFT_FORMAT_HWLOC,
    WEFT_FORMAT_NCCL,
    WEFT_FORMAT_IBNETDISCOVER,
    WEFT_FORMAT_TOPOGRAPH,
    WEFT_FORMAT_SLURM,
    WEFT_FORMAT_SLURM_YAML,
    WEFT_FORMAT_SYNTHETIC,
    WEFT_FORMAT_COUNT /* of none of these kinds */
};

struct weft_topo_reader {
    const char *name; /* becomes graph->format */
    weft_reader *read;
};
extern struct weft_topo_reader weft_topo_readers[WEFT_FORMAT_COUNT];

/* What the text looks like. Reads no further than it must. */
enum weft_topo_format weft_topo_detect(const struct weft_text *text);

/* WEFT_INVALID for a text of no kind: what it is where that is known, and what to give instead. */
int weft_topo_refuse(const struct weft_text *text);

#endif
