/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of weft-topo. */
#ifndef WEFT_TOPO_TOOL_OPTIONS_H
#define WEFT_TOPO_TOOL_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "topo/tool/tool.h"

#define WEFT_TOPO_MACHINES_MAX 256

enum weft_topo_view {
    WEFT_TOPO_GRAPH,
    WEFT_TOPO_MATRIX,
    WEFT_TOPO_EXPLAIN,
    WEFT_TOPO_NIC_MAP,
    WEFT_TOPO_ORDER
};

enum weft_topo_output {
    WEFT_TOPO_AS_NONE, /* none given: what the view writes by itself */
    WEFT_TOPO_AS_TEXT,
    WEFT_TOPO_AS_JSON,
    WEFT_TOPO_AS_XML,
    WEFT_TOPO_AS_DOT,
    WEFT_TOPO_AS_SVG
};

struct weft_topo_options {
    enum weft_topo_view view;
    enum weft_topo_output format; /* never NONE once parsed */
    int all, help, version;
    const char *explain[2];
    const char *machines[WEFT_TOPO_MACHINES_MAX];
    struct weft_topo_inputs inputs; /* machines points into the options: do not copy them */
    struct weft_topo_job job;
};

/* 0, or -1 after a line on `errors` that says what is wrong. Words are kept, not copied. */
int weft_topo_options_parse(struct weft_topo_options *options, int argc, char **argv, FILE *errors);
void weft_topo_options_help(FILE *file);

#endif
