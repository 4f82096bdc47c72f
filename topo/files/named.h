/* SPDX-License-Identifier: Apache-2.0 */
/* Fabrics that are told by names alone: which switches stand over which, and which hosts hang on them (Slurm, topograph).
 *
 * Such sources say neither how many cables there are nor how fast they are: every edge has WEFT_EDGE_LINKS_UNKNOWN and no
 * bandwidth. Switches may have several switches above them; none may stand above itself. Nodes are made when first named,
 * in that order. Errors: WEFT_INVALID with the text's name and a line, WEFT_NOMEM. Threads: one.
 */
#ifndef WEFT_TOPO_FILES_NAMED_H
#define WEFT_TOPO_FILES_NAMED_H

#include "topo/files/names.h"

struct weft_named_node {
    uint32_t node; /* in the graph */
    uint32_t line; /* where it was first named */
    uint8_t is_host;
    uint32_t given;         /* for the reader: the line that names it in full, 0 at first */
    uint32_t place;         /* for the reader: what it hangs on, 0 at first */
    struct weft_span words; /* for the reader: what was told, empty at first */
};

struct weft_named_join {
    uint32_t upper, lower; /* of weft_named.nodes; upper is a switch */
    uint32_t line;
};

struct weft_named {
    const struct weft_text *text;
    struct weft_graph *graph;
    struct weft_names names;
    struct weft_named_node *nodes;
    uint32_t count, room;
    struct weft_named_join *joins;
    uint32_t join_count, join_room;
    uint32_t budget; /* names that hostlists may still stand for: WEFT_HOSTLIST_NAMES_MAX at first */
};

void weft_named_open(const struct weft_text *text, struct weft_graph *graph, struct weft_named *named);
void weft_named_close(struct weft_named *named);

/* The host or switch of that name, made when it is new; *which is its index in named->nodes. */
int weft_named_find(struct weft_named *named, struct weft_span name, int is_host, size_t line,
                    uint32_t *which);

/* The same join may be told again; it is one edge. */
int weft_named_join(struct weft_named *named, uint32_t upper, uint32_t lower, size_t line);

int weft_named_attribute(struct weft_named *named, uint32_t which, const char *name, struct weft_span value);

/* Refuses circles, and adds the edges to the graph. */
int weft_named_finish(struct weft_named *named);

#endif
