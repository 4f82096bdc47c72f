/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as a tree in memory, with bounds: for readers of files that are written in it.
 *
 * One document of mappings, sequences and scalars. What makes small texts large or slow is refused with line and reason:
 * aliases, directives, more than WEFT_YAML_NODES_MAX nodes, texts larger than WEFT_YAML_SIZE_MAX, and nesting deeper than
 * WEFT_YAML_DEPTH_MAX, as libyaml looks for each value at all that is open around it. Keys of mappings are scalars, each
 * once. Scalars are text, whatever they look like; none holds a zero byte. Ownership: the tree owns everything. Threads:
 * one.
 */
#ifndef WEFT_TOPO_FILES_YAML_TREE_H
#define WEFT_TOPO_FILES_YAML_TREE_H

#include "topo/files/lines.h"

#define WEFT_YAML_SIZE_MAX  (32u << 20)
#define WEFT_YAML_NODES_MAX (4u << 20)
#define WEFT_YAML_DEPTH_MAX 16
#define WEFT_YAML_NONE      UINT32_MAX

enum weft_yaml_kind { WEFT_YAML_SCALAR, WEFT_YAML_SEQUENCE, WEFT_YAML_MAPPING };

struct weft_yaml_node {
    uint8_t kind;         /* enum weft_yaml_kind */
    uint32_t line;        /* from 1 */
    uint32_t first, next; /* the first one within, the next one beside; of a mapping: key, value, key, ... */
    uint32_t text, size;  /* SCALAR: where in the tree's text, with a 0 behind */
};

struct weft_yaml {
    const struct weft_text *source;
    struct weft_yaml_node *nodes; /* the document is 0; there is none when count is 0 */
    char *text;
    uint32_t count, room;
    size_t text_used, text_room;
};

/* On failure nothing is left to free. */
int weft_yaml_parse(const struct weft_text *source, struct weft_yaml *yaml);
void weft_yaml_free(struct weft_yaml *yaml);

/* A scalar's text; empty for the others. */
struct weft_span weft_yaml_text(const struct weft_yaml *yaml, uint32_t node);

#endif
