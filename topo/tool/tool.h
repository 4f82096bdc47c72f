/* SPDX-License-Identifier: Apache-2.0 */
/* What weft-topo prints of a finished graph, one function per format or view.
 *
 * Each writes to the file and returns 0 or a negative status with its detail (base/error.h). Whether the file took what was
 * written is the caller's to check, once, at the end: main() does. Text that came from outside (names, attributes, what the
 * source was called) goes out through weft_topo_put() or weft_topo_clean(), which let no control character, no escape
 * sequence and no broken UTF-8 through: graph.h replaces control characters of names already, but a terminal and a
 * parser of JSON or XML deserve better than trust.
 */
#ifndef WEFT_TOPO_TOOL_TOOL_H
#define WEFT_TOPO_TOOL_TOOL_H

#include <stdio.h>

#include "topo/report/degraded.h"
#include "topo/graph/graph.h"
#include "topo/order.h"
#include "topo/path.h"

/* --- say.c: text and amounts ---------------------------------------------------------------------------- */

/* Copies text into clean[size], cut at a whole character: control characters, characters that change the direction of
 * writing, and bytes that are no UTF-8 become '?'. Returns clean. */
char *weft_topo_clean(const char *text, char *clean, size_t size);

/* The character at *text, so cleaned, into out; moves *text behind it. Returns the bytes written. */
size_t weft_topo_clean_one(const char **text, char out[4]);

/* Writes text so cleaned. */
void weft_topo_put(FILE *file, const char *text);

/* Columns that cleaned text takes on a terminal, one per character. */
size_t weft_topo_columns(const char *text);

#define WEFT_TOPO_AMOUNT_SIZE 32
/* "31.5 GB/s" (10^9 bytes per second), "400 Gb/s", "1.2 us"; 0 is "unknown". Return text. */
char *weft_topo_rate(uint64_t bytes_per_s, char text[WEFT_TOPO_AMOUNT_SIZE]);
char *weft_topo_bits(uint64_t bytes_per_s, char text[WEFT_TOPO_AMOUNT_SIZE]);
char *weft_topo_time(uint64_t nanoseconds, char text[WEFT_TOPO_AMOUNT_SIZE]);

#define WEFT_TOPO_NAME_SIZE (2 * WEFT_NAME_SIZE_MAX)
/* What people call the node: its name ("gpu0"), behind its host's where the graph has several hosts ("host3/gpu0"), and a port
 * behind its NIC's ("mlx5_0 port 1"). Returns text. */
char *weft_topo_name(const struct weft_graph *graph, uint32_t node, char text[WEFT_TOPO_NAME_SIZE]);

/* What kind of edge, as people say it: "NVLink x12 through NVSwitch", "PCI", "cable". Returns text. */
#define WEFT_TOPO_EDGE_SIZE 96
char *weft_topo_edge(const struct weft_edge *edge, char text[WEFT_TOPO_EDGE_SIZE]);

/* --- the whole graph ------------------------------------------------------------------------------------ */

/* A readable tree. Fabrics and many hosts are summarised, unless all. */
int weft_topo_text(const struct weft_graph *graph, int all, FILE *file);
/* fabric_text.c: the part about switches and cables; nothing without switches. */
int weft_topo_fabric_text(const struct weft_graph *graph, int all, FILE *file);
/* degraded_text.c: links that carry less than they could; nothing where there is none. */
int weft_topo_degraded_text(const struct weft_graph *graph, int all, FILE *file);
/* Why one is taken for that. Returns text. */
#define WEFT_TOPO_SPEED_SIZE    (2 * WEFT_TOPO_AMOUNT_SIZE + 24)
#define WEFT_TOPO_DEGRADED_SIZE 200
char *weft_topo_degraded_why(const struct weft_graph *graph, const struct weft_degraded *link,
                             char text[WEFT_TOPO_DEGRADED_SIZE]);
/* links_text.c: edges that containment does not show: between GPUs, NUMA nodes, a GPU and its processor. */
int weft_topo_links_text(const struct weft_graph *graph, uint32_t host, FILE *file);
/* docs/weft-topo-json.md */
int weft_topo_json(const struct weft_graph *graph, FILE *file);
/* Graphviz; an SVG picture. */
int weft_topo_dot(const struct weft_graph *graph, FILE *file);
int weft_topo_svg(const struct weft_graph *graph, FILE *file);

/* --- views ---------------------------------------------------------------------------------------------- */

int weft_topo_matrix(const struct weft_graph *graph, int json, FILE *file);
int weft_topo_explain(const struct weft_graph *graph, const char *a, const char *b, int json, FILE *file);
int weft_topo_nic_map(const struct weft_graph *graph, FILE *file);

struct weft_topo_job {
    uint32_t ranks_per_node; /* 0: as many as the host has GPUs, at least 1 */
    uint64_t seed;
    int shuffle;
};
int weft_topo_order(const struct weft_graph *graph, const struct weft_topo_job *job, int json, int all,
                    FILE *file);

/* --- inputs.c ------------------------------------------------------------------------------------------- */

struct weft_topo_inputs {
    const char *const *machines; /* as weft_topo_read() takes them; none: this machine */
    uint32_t machine_count;
    const char *fabric; /* NULL: none */
    int everywhere;     /* the one machine stands for every host of the fabric */
    const char *host;   /* only this one of the hosts; NULL: all */
};

/* Reads what the inputs name into one finished graph. With a fabric, says on `notes` how many ports were joined to it. */
int weft_topo_inputs_read(const struct weft_topo_inputs *inputs, FILE *notes, struct weft_graph **graph);

#endif
