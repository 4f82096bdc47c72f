/* SPDX-License-Identifier: Apache-2.0 */
/* Reading back the SVG that weft-topo writes, and whether everything in it has its place. */
#ifndef WEFT_TESTS_TOPO_PICTURE_H
#define WEFT_TESTS_TOPO_PICTURE_H

#include <stddef.h>

#include "topo/graph/graph.h"

struct shape {
    char look[16]; /* its class */
    int is_text;
    int x, y, w, h; /* a text's as the table of widths says */
    char text[600]; /* a rectangle's: its hint */
};

struct picture {
    int w, h;
    struct shape *shapes;
    size_t count, capacity;
    size_t lines; /* paths */
};

/* malloc'ed, ends with 0. Fails the test where drawing fails. */
char *picture_draw(const struct weft_graph *graph);

/* Fails the test unless the text is well-formed XML with an svg element that has a size. */
void picture_read(const char *svg, struct picture *picture);
void picture_free(struct picture *picture);

/* The first thing that is not as it should be, as words; NULL: all is well.
 *   - nothing leaves the canvas;
 *   - two boxes are apart or one is in the other; devices, switches and bars are apart;
 *   - texts do not meet; a text lies in every box that it touches, or the box has no claim on it */
const char *picture_judge(const struct picture *picture);

/* How many texts (or hints) are, or begin with, the text. */
size_t picture_count(const struct picture *picture, const char *text);
size_t picture_count_look(const struct picture *picture, const char *look);

#endif
