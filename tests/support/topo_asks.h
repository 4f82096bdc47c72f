/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a graph in tests of its readers. What is not there fails the test. */
#ifndef WEFT_TESTS_TOPO_ASKS_H
#define WEFT_TESTS_TOPO_ASKS_H

#include "topo/graph/graph.h"
#include "topo/read.h"

/* What weft_topo_read_text() makes of a text called "file": 0, or an error. One that must be readable; the caller frees the graph. One that must
 * be refused with this detail, which stands for the reader of its kind and what comes before it. */
int topo_try(const char *text, struct weft_graph **graph);
struct weft_graph *topo_read(const char *text);
void topo_fails(const char *text, const char *detail);

/* The reader itself, without naming the kind of text, and then finishing: must fail with this detail. */
void topo_refuses(weft_reader *reader, const char *text, size_t size, const char *detail);

/* How many nodes of the kind the whole graph has; how many edges of the kind. */
uint32_t topo_count(const struct weft_graph *graph, enum weft_node_kind kind);
uint32_t topo_count_edges(const struct weft_graph *graph, enum weft_edge_kind kind);

/* The only node so called, or HOST/NAME. */
uint32_t topo_node(const struct weft_graph *graph, const char *name);

const struct weft_node *topo_named(const struct weft_graph *graph, const char *name);

/* Of the only node so called: what it lies in, an attribute or "(none)", the bandwidth of the edge to its parent. */
const char *topo_parent_name(const struct weft_graph *graph, const char *name);
const char *topo_attribute(const struct weft_graph *graph, const char *name, const char *key);
uint64_t topo_uplink(const struct weft_graph *graph, const char *name);

/* The child so called. */
uint32_t topo_child(const struct weft_graph *graph, uint32_t parent, const char *name);

/* How many edges join the two; *edge is the last of them. The only one between two that have these names. */
uint32_t topo_joins(const struct weft_graph *graph, uint32_t a, uint32_t b, struct weft_edge *edge);
struct weft_edge topo_edge(const struct weft_graph *graph, const char *a, const char *b);

/* The joins (topo_leads()) of a text that is taken for this format, and its only warning, NULL for none. */
void topo_shows(const char *text, const char *format, const char *joins, const char *warning);

/* All edges are a fabric's of which no more is known, and lead to a switch: "s2>s0 s2>s1 s0>n1", upper end first. */
void topo_leads(const struct weft_graph *graph, const char *edges);

#endif
