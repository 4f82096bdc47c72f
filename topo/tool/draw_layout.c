/* SPDX-License-Identifier: Apache-2.0 */
/* Where the boxes of a machine stand.
 *
 * Sizes from within outwards: a device is as large as its lines, all GPUs of a machine alike and all NICs alike; devices of a
 * box stand in rows, NICs above GPUs, so that nothing is beneath a GPU but the border of its boxes and links can leave
 * downwards; boxes of a box stand in rows that are as even as the room allows. Boxes of a row are stretched to one height,
 * GPUs staying at the bottom. Links between NUMA nodes get room above them, links between GPUs beneath.
 */
#include "topo/tool/draw.h"

#include <stdlib.h>
#include <string.h>

enum {
    GAP = 8,
    LINE = 13,       /* of text */
    LEAF_PAD = 6,    /* on both sides of a device's text */
    LEAF_TEXT = 138, /* longest, pixels */
    HEAD_TEXT = 260,
    TITLE_TEXT = 700,
    ROOM = 1640,  /* width that a machine may take before it is broken into rows */
    GPUS_MAX = 8, /* in a row of one box */
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int is_container(const struct draw_box *box)
{
    return !draw_is_leaf(box);
}

/* A box with boxes and devices gets a place for the devices, which is a box without a border. */
static void make_places(struct draw_sheet *sheet, struct draw_box *box)
{
    uint32_t containers = 0;
    while (containers < box->child_count && is_container(box->children[containers]))
        make_places(sheet, box->children[containers++]);
    if (containers == 0 || containers == box->child_count)
        return;
    struct draw_box *place = draw_alloc(sheet, sizeof *place);
    if (!place)
        return;
    *place = (struct draw_box){.node = WEFT_NODE_NONE, .role = DRAW_IS_PLACE, .parent = box, .name = ""};
    place->children = box->children + containers;
    place->child_count = box->child_count - containers;
    for (uint32_t i = 0; i < place->child_count; i++)
        place->children[i]->parent = place;
    /* The children were sorted with devices last, so that the place can have their room but for the first one's slot. */
    struct draw_box **children = draw_alloc(sheet, (containers + 1) * sizeof *children);
    if (!children)
        return;
    memcpy(children, box->children, containers * sizeof *children);
    children[containers] = place;
    box->children = children;
    box->child_count = containers + 1;
}

/* Goes over the lines of a container's head as they stand in the width: several in a row where they fit. Paints them at
 * x, y with a sheet; returns the height. */
static int head(struct draw_sheet *sheet, const struct draw_box *box, int width, int x, int y)
{
    int at = 0, row = 0;
    for (int i = 0; i < box->line_count; i++) {
        int w = draw_text_width((enum draw_font)box->fonts[i], box->lines[i]);
        if (at > 0 && at + w > width) {
            at = 0;
            row++;
        }
        if (sheet)
            draw_text(sheet, (enum draw_font)box->fonts[i], DRAW_LEFT, x + at, y + row * LINE + 11,
                      box->lines[i]);
        at += w + 10;
    }
    return box->line_count ? (row + 1) * LINE + 5 : 0;
}

static void count_leaves(const struct draw_box *box, int *gpus, int *nics)
{
    *gpus = *nics = 0;
    for (uint32_t i = 0; i < box->child_count; i++) {
        *gpus += box->children[i]->role == DRAW_IS_GPU;
        *nics += box->children[i]->role == DRAW_IS_NIC;
    }
}

static int rows(int count, int columns)
{
    return columns ? (count + columns - 1) / columns : 0;
}

static void lay_leaves(const struct draw_machine *machine, struct draw_box *box, int room, int *w, int *h)
{
    int gpus, nics, step = machine->leaf_w + GAP, fit = larger(1, (room + GAP) / step);
    count_leaves(box, &gpus, &nics);
    box->gpu_columns = gpus < GPUS_MAX ? gpus : GPUS_MAX;
    box->gpu_columns = box->gpu_columns < fit ? box->gpu_columns : fit;
    int wish = gpus == 0  ? (nics > 16 ? 8 : 4)
               : gpus < 3 ? larger(box->gpu_columns, nics > 1 ? 2 : 1)
                          : box->gpu_columns;
    box->nic_columns = nics < wish ? nics : wish;
    box->nic_columns = box->nic_columns < fit ? box->nic_columns : fit;
    int gpu_rows = rows(gpus, box->gpu_columns), nic_rows = rows(nics, box->nic_columns);
    *w = larger(box->gpu_columns, box->nic_columns) * step - GAP;
    *h = gpu_rows * (machine->gpu_h + GAP) + nic_rows * (machine->nic_h + GAP) - GAP;
}

/* Breaks the children into rows no wider than the bound. Returns how many rows. */
static int break_rows(struct draw_box *box, int bound)
{
    int row = 0, at = 0;
    for (uint32_t i = 0; i < box->child_count; i++) {
        int w = box->children[i]->w;
        if (at > 0 && at + w > bound) {
            row++;
            at = 0;
        }
        box->children[i]->row = row;
        at += w + GAP;
    }
    return row + 1;
}

/* The least width that needs no more rows than the room does: even rows. */
static void lay_rows(struct draw_box *box, int room, int *w, int *h)
{
    int low = 1, high = room, count = break_rows(box, room), at = 0, tallest = 0, row = 0;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (break_rows(box, middle) > count)
            low = middle + 1;
        else
            high = middle;
    }
    break_rows(box, high);
    *w = *h = 0;
    for (uint32_t i = 0; i < box->child_count; i++) {
        if (box->children[i]->row != row) {
            *h += tallest + GAP;
            at = tallest = 0;
            row = box->children[i]->row;
        }
        at += box->children[i]->w + (at ? GAP : 0);
        *w = larger(*w, at);
        tallest = larger(tallest, box->children[i]->h);
    }
    *h += tallest;
}

static void size_box(struct draw_sheet *sheet, const struct draw_machine *machine, struct draw_box *box,
                     int room)
{
    int w = 0, h = 0, pad = draw_box_pad(box), longest = 0;
    if (draw_is_leaf(box)) {
        box->w = machine->leaf_w;
        box->h = box->role == DRAW_IS_GPU ? machine->gpu_h : machine->nic_h;
        return;
    }
    for (uint32_t i = 0; i < box->child_count; i++)
        size_box(sheet, machine, box->children[i], room - 2 * pad);
    if (box->child_count && draw_is_leaf(box->children[0]))
        lay_leaves(machine, box, room - 2 * pad, &w, &h);
    else if (box->child_count)
        lay_rows(box, room - 2 * pad, &w, &h);
    for (int i = 0; i < box->line_count; i++) {
        int most = box->role == DRAW_IS_HOST ? TITLE_TEXT : HEAD_TEXT;
        box->lines[i] = draw_fit(sheet, (enum draw_font)box->fonts[i], box->lines[i], most);
        longest = larger(longest, draw_text_width((enum draw_font)box->fonts[i], box->lines[i]));
    }
    if (box->role != DRAW_IS_PLACE)
        w = larger(w, larger(longest, 56));
    w = larger(w, larger(box->band_w, box->role == DRAW_IS_HOST ? machine->above_w : 0));
    box->header_h = head(NULL, box, w, 0, 0);
    box->w = w + 2 * pad;
    box->h = h + (h ? pad : 0) + pad + box->header_h - (box->header_h && !h ? 4 : 0) + box->band_h;
    box->h += box->role == DRAW_IS_HOST ? machine->above_h : 0;
}

static void place_leaves(const struct draw_machine *machine, struct draw_box *box, int top)
{
    int gpus, nics, gpu = 0, nic = 0, step = machine->leaf_w + GAP, pad = draw_box_pad(box);
    count_leaves(box, &gpus, &nics);
    int gpu_top =
        box->y + box->h - box->band_h - pad + GAP - rows(gpus, box->gpu_columns) * (machine->gpu_h + GAP);
    int wide = larger(box->gpu_columns, box->nic_columns), left = box->x + (box->w - wide * step + GAP) / 2;
    for (uint32_t i = 0; i < box->child_count; i++) {
        struct draw_box *leaf = box->children[i];
        int is_gpu = leaf->role == DRAW_IS_GPU, at = is_gpu ? gpu++ : nic++;
        int columns = is_gpu ? box->gpu_columns : box->nic_columns, total = is_gpu ? gpus : nics;
        int in_row = total - at / columns * columns;
        in_row = in_row < columns ? in_row : columns;
        leaf->x = left + (wide - in_row) * step / 2 + at % columns * step;
        leaf->y = is_gpu ? gpu_top + at / columns * (machine->gpu_h + GAP)
                         : top + at / columns * (machine->nic_h + GAP);
    }
}

static void place_box(const struct draw_machine *machine, struct draw_box *box)
{
    int pad = draw_box_pad(box), top = box->y + pad + box->header_h, x = box->x + pad;
    top += box->role == DRAW_IS_HOST ? machine->above_h : 0;
    if (box->child_count && draw_is_leaf(box->children[0])) {
        place_leaves(machine, box, top);
        return;
    }
    for (uint32_t i = 0, end; i < box->child_count; i = end, x = box->x + pad) {
        int tallest = 0;
        for (end = i; end < box->child_count && box->children[end]->row == box->children[i]->row; end++)
            tallest = larger(tallest, box->children[end]->h);
        if (end == box->child_count)
            tallest = larger(tallest, box->y + box->h - box->band_h - pad - top);
        for (; i < end; i++) {
            struct draw_box *child = box->children[i];
            child->x = x;
            child->y = top;
            child->h = tallest;
            x += child->w + GAP;
            place_box(machine, child);
        }
        top += tallest + GAP;
    }
}

/* Lines of devices cut to a common width; the sizes of all GPUs and all NICs. */
static void size_leaves(struct draw_sheet *sheet, struct draw_machine *machine)
{
    machine->leaf_w = 70;
    for (uint32_t i = 0; i < machine->box_count; i++) {
        struct draw_box *box = machine->boxes[i];
        if (!draw_is_leaf(box))
            continue;
        box->hint = "";
        for (int n = 0; n < box->line_count; n++) {
            box->hint = draw_format(sheet, "%s%s%s", box->hint, n ? ", " : "", box->lines[n]);
            box->lines[n] = draw_fit(sheet, (enum draw_font)box->fonts[n], box->lines[n], LEAF_TEXT);
            int w = draw_text_width((enum draw_font)box->fonts[n], box->lines[n]);
            machine->leaf_w = larger(machine->leaf_w, w + 2 * LEAF_PAD);
        }
        int h = box->line_count * LINE + 9;
        machine->gpu_h = box->role == DRAW_IS_GPU ? larger(machine->gpu_h, h) : machine->gpu_h;
        machine->nic_h = box->role == DRAW_IS_NIC ? larger(machine->nic_h, h) : machine->nic_h;
    }
}

void draw_machine_lay(struct draw_sheet *sheet, struct draw_machine *machine, const char *title,
                      const char *note)
{
    struct draw_box *top = machine->top;
    int ahead = *note ? 2 : 1, most = DRAW_LINES_MAX - ahead;
    int lines = top->line_count < most ? top->line_count : most;
    for (int i = lines; i-- > 0;) {
        top->lines[i + ahead] = top->lines[i];
        top->fonts[i + ahead] = top->fonts[i];
    }
    top->lines[0] = title;
    top->fonts[0] = DRAW_NAME;
    if (*note) {
        top->lines[1] = note;
        top->fonts[1] = DRAW_SMALL;
    }
    top->line_count = lines + ahead;
    size_leaves(sheet, machine);
    make_places(sheet, top);
    /* Links need the boxes' places, and the boxes room for the links, which may make them wider: three times is enough, as
     * neither what a piece of links is nor its label changes by that, and where it stands only once. */
    for (int pass = 0; pass < 3 && !sheet->failed; pass++) {
        size_box(sheet, machine, top, ROOM);
        place_box(machine, top);
        draw_links_plan(sheet, machine, &machine->sockets);
        draw_links_plan(sheet, machine, &machine->gpus);
    }
}

static void paint_leaf(struct draw_sheet *sheet, const struct draw_box *box, int x, int y)
{
    enum draw_style style = box->role == DRAW_IS_GPU ? DRAW_GPU : box->down ? DRAW_NIC_DOWN : DRAW_NIC;
    draw_rect(sheet, style, x + box->x, y + box->y, box->w, box->h, box->hint);
    for (int i = 0; i < box->line_count; i++)
        draw_text(sheet, (enum draw_font)box->fonts[i], DRAW_MIDDLE, x + box->x + box->w / 2,
                  y + box->y + 4 + (i + 1) * LINE - 2, box->lines[i]);
}

static void paint_box(struct draw_sheet *sheet, const struct draw_box *box, int x, int y)
{
    static const enum draw_style styles[] = {
        [DRAW_IS_HOST] = DRAW_HOST, [DRAW_IS_NUMA] = DRAW_NUMA, [DRAW_IS_BRIDGE] = DRAW_BRIDGE};
    if (draw_is_leaf(box)) {
        paint_leaf(sheet, box, x, y);
        return;
    }
    if (box->role != DRAW_IS_PLACE) {
        int pad = draw_box_pad(box);
        draw_rect(sheet, styles[box->role], x + box->x, y + box->y, box->w, box->h, NULL);
        head(sheet, box, box->w - 2 * pad, x + box->x + pad, y + box->y + pad - 3);
    }
    for (uint32_t i = 0; i < box->child_count; i++)
        paint_box(sheet, box->children[i], x, y);
}

void draw_machine_paint(struct draw_sheet *sheet, const struct draw_machine *machine, int x, int y)
{
    paint_box(sheet, machine->top, x, y);
    draw_links_paint(sheet, machine, &machine->sockets, x, y);
    draw_links_paint(sheet, machine, &machine->gpus, x, y);
}
