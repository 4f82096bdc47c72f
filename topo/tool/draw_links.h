/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of links: what draw_links.c plans and draw_links_paint.c draws. */
#ifndef WEFT_TOPO_TOOL_DRAW_LINKS_H
#define WEFT_TOPO_TOOL_DRAW_LINKS_H

#include "topo/tool/draw.h"

enum { DRAW_BAR_H = 17, DRAW_BAR_STEP = 23, DRAW_TRACK_STEP = 14, DRAW_CELL_H = 16, DRAW_LABEL_H = 15 };

enum piece_kind { PIECE_BAR, PIECE_TRACKS, PIECE_MATRIX, PIECE_WORDS };

struct draw_piece {
    enum piece_kind kind;
    uint32_t first, count;           /* its links */
    uint32_t *members, member_count; /* ends, in their order */
    struct draw_box *in;             /* the box at whose bottom it stands */
    int clear;                       /* stubs reach all members */
    int colour;
    int left, right, away;   /* its place: away from the ends' box */
    int cell_w, label_w;     /* MATRIX */
    int *tracks, (*pins)[2]; /* TRACKS: by link: how far away, and where it leaves its ends */
    int label_away;          /* TRACKS: of the text, beneath the tracks of all pieces in the box */
    const char *label;
};

#define DRAW_MATRIX_TEXT "; number of links:"

int draw_middle_of(const struct draw_box *box);

#endif
