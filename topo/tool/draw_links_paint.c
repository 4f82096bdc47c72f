/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing what draw_links.c planned. */
#include "topo/tool/draw_links.h"

struct paper {
    struct draw_sheet *sheet;
    const struct draw_machine *machine;
    const struct draw_links *links;
    int x, y; /* of the machine */
};

/* The y of something so tall that begins so far away from the ends. */
static int y_at(const struct paper *paper, const struct draw_piece *piece, int away, int tall)
{
    const struct draw_box *in = piece->in;
    int pad = draw_box_pad(in);
    if (paper->links->up)
        return paper->y + in->y + pad + in->header_h + paper->machine->above_h - away - tall;
    return paper->y + in->y + in->h - in->band_h - pad + away;
}

static enum draw_style line_of(const struct paper *paper, const struct draw_piece *piece)
{
    return paper->links->up ? DRAW_LINE_SOCKET : (enum draw_style)(DRAW_LINE_GPU + piece->colour);
}

static enum draw_style bar_of(const struct paper *paper, const struct draw_piece *piece)
{
    return paper->links->up ? DRAW_BAR_SOCKET : (enum draw_style)(DRAW_BAR_GPU + piece->colour);
}

static int edge_of(const struct paper *paper, const struct draw_box *box)
{
    return paper->y + box->y + (paper->links->up ? 0 : box->h);
}

static void paint_bar(const struct paper *paper, const struct draw_piece *piece)
{
    int y = y_at(paper, piece, piece->away, DRAW_BAR_H);
    draw_rect(paper->sheet, bar_of(paper, piece), paper->x + piece->left, y, piece->right - piece->left,
              DRAW_BAR_H, NULL);
    draw_text(paper->sheet, DRAW_ON_BAR, DRAW_MIDDLE, paper->x + (piece->left + piece->right) / 2, y + 12,
              piece->label);
}

static void paint_stubs(const struct paper *paper, const struct draw_piece *piece)
{
    for (uint32_t i = 0; i < piece->member_count; i++) {
        const struct draw_box *box = paper->links->ends[piece->members[i]];
        int x = paper->x + draw_middle_of(box), y = edge_of(paper, box);
        if (piece->clear) {
            int points[2][2] = {{x, y}, {x, y_at(paper, piece, piece->away, 0)}};
            draw_line(paper->sheet, line_of(paper, piece), 2, (const int(*)[2])points, 2);
        } else {
            int left = paper->x + box->x + 4, right = left + box->w - 8;
            int points[2][2] = {{left, y}, {right, y}};
            draw_line(paper->sheet, line_of(paper, piece), 4, (const int(*)[2])points, 2);
        }
    }
}

/* A piece's text in words, with its colour in front. */
static void paint_label(const struct paper *paper, const struct draw_piece *piece, int y, const char *more)
{
    int x = paper->x + piece->left;
    draw_rect(paper->sheet, bar_of(paper, piece), x, y + 2, 12, 9, NULL);
    draw_text(paper->sheet, DRAW_NOTE, DRAW_LEFT, x + 18, y + 11,
              draw_format(paper->sheet, "%s%s", piece->label, more));
}

static void paint_tracks(const struct paper *paper, const struct draw_piece *piece)
{
    int uniform = 1;
    const struct draw_link *links = &paper->links->links[piece->first];
    for (uint32_t i = 0; i < piece->count; i++) {
        int y = y_at(paper, piece, piece->away + piece->tracks[i] * DRAW_TRACK_STEP + 5, 0);
        int from = paper->x + piece->pins[i][0], to = paper->x + piece->pins[i][1];
        int points[4][2] = {{from, edge_of(paper, paper->links->ends[links[i].a])},
                            {from, y},
                            {to, y},
                            {to, edge_of(paper, paper->links->ends[links[i].b])}};
        draw_line(paper->sheet, line_of(paper, piece), links[i].links > 1 ? 2 : 1, (const int(*)[2])points,
                  4);
        uniform &= links[i].links == links[0].links;
    }
    for (uint32_t i = 0; !uniform && i < piece->count; i++) {
        const char *text = draw_format(paper->sheet, "%u", links[i].links);
        int y = y_at(paper, piece, piece->away + piece->tracks[i] * DRAW_TRACK_STEP + 5, 0),
            w = draw_text_width(DRAW_SMALL, text);
        int x = paper->x + (piece->pins[i][0] + piece->pins[i][1]) / 2;
        draw_rect(paper->sheet, DRAW_CHIP, x - w / 2 - 2, y - 6, w + 4, 12, NULL);
        draw_text(paper->sheet, DRAW_SMALL, DRAW_MIDDLE, x, y + 4, text);
    }
    paint_label(paper, piece, y_at(paper, piece, piece->label_away, DRAW_LABEL_H), "");
}

static void paint_name(const struct paper *paper, const struct draw_box *box, int x, int y, int room)
{
    draw_text(paper->sheet, DRAW_SMALL, DRAW_LEFT, x + 2, y + 12,
              draw_fit(paper->sheet, DRAW_SMALL, box->lines[0], room - 6));
}

/* Cells hold the number of links of two ends; several edges between them are added. */
static void paint_matrix(const struct paper *paper, const struct draw_piece *piece)
{
    const struct draw_links *links = paper->links;
    uint32_t n = piece->member_count;
    unsigned unknown = 0;
    int left = paper->x + piece->left + piece->label_w, top;
    unsigned *cells = draw_alloc(paper->sheet, (size_t)n * n * sizeof *cells);
    uint32_t *position = draw_alloc(paper->sheet, (links->end_count + 1) * sizeof *position);
    if (paper->sheet->failed)
        return;
    top = y_at(paper, piece, piece->away, DRAW_LABEL_H + (int)(n + 1) * DRAW_CELL_H);
    paint_label(paper, piece, top, DRAW_MATRIX_TEXT);
    top += DRAW_LABEL_H + DRAW_CELL_H;
    for (uint32_t i = 0; i < n; i++) {
        position[piece->members[i]] = i;
        paint_name(paper, links->ends[piece->members[i]], left + (int)i * piece->cell_w, top - DRAW_CELL_H,
                   piece->cell_w);
        paint_name(paper, links->ends[piece->members[i]], paper->x + piece->left, top + (int)i * DRAW_CELL_H,
                   piece->label_w);
    }
    for (uint32_t i = piece->first; i < piece->first + piece->count; i++) {
        uint32_t a = position[links->links[i].a], b = position[links->links[i].b];
        cells[a * n + b] += links->links[i].links;
        cells[b * n + a] += links->links[i].links;
        unknown |= links->links[i].flags & WEFT_EDGE_LINKS_UNKNOWN;
    }
    for (uint32_t i = 0; i < n * n; i++) {
        int x = left + (int)(i % n) * piece->cell_w, y = top + (int)(i / n) * DRAW_CELL_H;
        draw_rect(paper->sheet, cells[i] ? DRAW_CELL_FULL : DRAW_CELL, x, y, piece->cell_w, DRAW_CELL_H,
                  NULL);
        if (cells[i])
            draw_text(paper->sheet, DRAW_SMALL, DRAW_MIDDLE, x + piece->cell_w / 2, y + 12,
                      unknown ? "?"
                              : draw_fit(paper->sheet, DRAW_SMALL, draw_format(paper->sheet, "%u", cells[i]),
                                         piece->cell_w - 2));
    }
}

void draw_links_paint(struct draw_sheet *sheet, const struct draw_machine *machine,
                      const struct draw_links *links, int x, int y)
{
    struct paper paper = {sheet, machine, links, x, y};
    for (uint32_t i = 0; i < links->piece_count; i++) {
        if (links->pieces[i].kind != PIECE_TRACKS)
            paint_stubs(&paper, &links->pieces[i]);
    }
    for (uint32_t i = 0; i < links->piece_count; i++) {
        const struct draw_piece *piece = &links->pieces[i];
        if (piece->kind == PIECE_BAR)
            paint_bar(&paper, piece);
        else if (piece->kind == PIECE_TRACKS)
            paint_tracks(&paper, piece);
        else if (piece->kind == PIECE_MATRIX)
            paint_matrix(&paper, piece);
        else
            paint_label(&paper, piece, y_at(&paper, piece, piece->away, DRAW_LABEL_H), "");
    }
}
