/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the JSON that weft-topo writes: docs/weft-topo-json.md. */
#ifndef WEFT_TOPO_TOOL_JSON_SAY_H
#define WEFT_TOPO_TOOL_JSON_SAY_H

#include <stdio.h>

#include <jansson.h>

#include "topo/graph/graph.h"

enum { WEFT_TOPO_SCHEMA = 1 };

/* The text, cleaned as for a terminal; null for NULL. */
json_t *weft_json_text(const char *text);
json_t *weft_json_or_null(int64_t number, int known);
/* 16 hexadecimal digits; null for 0. */
json_t *weft_json_guid(uint64_t guid);

/* The fields that every view starts with. */
json_t *weft_json_head(const struct weft_graph *graph, const char *view);

/* Writes and frees root, with a newline. WEFT_NOMEM where root, or something in it, could not be made. */
int weft_json_put(json_t *root, FILE *file);

#endif
