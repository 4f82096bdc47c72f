/* SPDX-License-Identifier: Apache-2.0 */
/* The sheet of a picture: shapes in the order in which they cover each other, and writing them as SVG 1.1.
 *
 * Looks are in one style sheet, whose rules apply within class "weft" only, so that the file may stand inside a page.
 * Coordinates are whole pixels; all is moved by half a pixel, so that lines of one pixel fall on pixels.
 */
#include "topo/tool/draw.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum shape_kind { SHAPE_RECT, SHAPE_LINE, SHAPE_TEXT };

struct draw_shape {
    uint8_t kind, look, anchor, points;
    int x, y, w, h;       /* LINE: w is the width of the pen */
    const char *text;     /* RECT: its hint or NULL */
    const int (*path)[2]; /* LINE */
};

struct draw_block {
    struct draw_block *next;
    max_align_t bytes[];
};

struct look {
    const char *name, *css;
};

static const struct look styles[DRAW_STYLE_COUNT] = {
    [DRAW_HOST] = {"host", "fill:#fafbfc;stroke:#57606a"},
    [DRAW_NUMA] = {"numa", "fill:#eef2f6;stroke:#8c99a8"},
    [DRAW_BRIDGE] = {"pci", "fill:#fffdf5;stroke:#c9b98a"},
    [DRAW_GPU] = {"gpu", "fill:#d6efd2;stroke:#3d8b37"},
    [DRAW_NIC] = {"nic", "fill:#d4e6fa;stroke:#2f6fb0"},
    [DRAW_NIC_DOWN] = {"down", "fill:#f6f6f6;stroke:#b02a2a;stroke-dasharray:4 3"},
    [DRAW_SWITCH] = {"switch", "fill:#e7e0f5;stroke:#6f4fb3"},
    [DRAW_HOSTS] = {"hosts", "fill:#f1f3f5;stroke:#57606a"},
    [DRAW_BAR_GPU] = {"bar", "fill:#3d8b37;stroke:#2c6b28"},
    [DRAW_BAR_GPU + 1] = {"bar1", "fill:#0f766e;stroke:#0b5650"},
    [DRAW_BAR_GPU + 2] = {"bar2", "fill:#a16207;stroke:#7c4b05"},
    [DRAW_BAR_GPU + 3] = {"bar3", "fill:#9d3a6f;stroke:#782b54"},
    [DRAW_BAR_SOCKET] = {"sbar", "fill:#64748b;stroke:#475569"},
    [DRAW_CHIP] = {"chip", "fill:#fff;stroke:none"},
    [DRAW_CELL] = {"cell", "fill:#fff;stroke:#c5ccd3"},
    [DRAW_CELL_FULL] = {"full", "fill:#d6efd2;stroke:#c5ccd3"},
    [DRAW_LINE_GPU] = {"lg", "fill:none;stroke:#3d8b37"},
    [DRAW_LINE_GPU + 1] = {"lg1", "fill:none;stroke:#0f766e"},
    [DRAW_LINE_GPU + 2] = {"lg2", "fill:none;stroke:#a16207"},
    [DRAW_LINE_GPU + 3] = {"lg3", "fill:none;stroke:#9d3a6f"},
    [DRAW_LINE_SOCKET] = {"ls", "fill:none;stroke:#64748b"},
    [DRAW_LINE_FABRIC] = {"lf", "fill:none;stroke:#b7a8d8"},
};
static const struct look fonts[DRAW_FONT_COUNT] = {
    [DRAW_TITLE] = {"t", "font-weight:bold;fill:#1b1f24"},
    [DRAW_NOTE] = {"n", "fill:#4b5563"},
    [DRAW_HEAD] = {"h", "font-weight:bold;fill:#3f4a56"},
    [DRAW_NAME] = {"d", "font-weight:bold;fill:#1b1f24"},
    [DRAW_SMALL] = {"s", "fill:#3f4a56"},
    [DRAW_BAD] = {"b", "font-weight:bold;fill:#b02a2a"},
    [DRAW_ON_BAR] = {"o", "font-weight:bold;fill:#fff"},
};

void *draw_alloc(struct draw_sheet *sheet, size_t size)
{
    struct draw_block *block = size < SIZE_MAX / 2 ? calloc(1, sizeof *block + size) : NULL;
    if (!block) {
        sheet->failed = 1;
        return NULL;
    }
    block->next = sheet->blocks;
    sheet->blocks = block;
    return block->bytes;
}

const char *draw_format(struct draw_sheet *sheet, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = size < 0 ? NULL : draw_alloc(sheet, (size_t)size + 1);
    if (!text)
        return "";
    va_start(args, format);
    vsnprintf(text, (size_t)size + 1, format, args);
    va_end(args);
    return text;
}

static struct draw_shape *add(struct draw_sheet *sheet, int right, int bottom)
{
    if (sheet->count == sheet->capacity) {
        size_t capacity = sheet->capacity ? 2 * sheet->capacity : 256;
        struct draw_shape *shapes = realloc(sheet->shapes, capacity * sizeof *shapes);
        if (!shapes) {
            sheet->failed = 1;
            return NULL;
        }
        sheet->shapes = shapes;
        sheet->capacity = capacity;
    }
    sheet->right = right > sheet->right ? right : sheet->right;
    sheet->bottom = bottom > sheet->bottom ? bottom : sheet->bottom;
    return &sheet->shapes[sheet->count++];
}

void draw_rect(struct draw_sheet *sheet, enum draw_style style, int x, int y, int w, int h, const char *hint)
{
    struct draw_shape *shape = add(sheet, x + w, y + h);
    if (!shape)
        return;
    *shape =
        (struct draw_shape){.kind = SHAPE_RECT, .look = style, .x = x, .y = y, .w = w, .h = h, .text = hint};
    sheet->styles_used |= 1u << style;
}

void draw_line(struct draw_sheet *sheet, enum draw_style style, int width, const int (*points)[2], int count)
{
    int(*path)[2] = draw_alloc(sheet, (size_t)count * sizeof *path);
    int right = 0, bottom = 0;
    if (!path)
        return;
    for (int i = 0; i < count; i++) {
        path[i][0] = points[i][0];
        path[i][1] = points[i][1];
        right = path[i][0] > right ? path[i][0] : right;
        bottom = path[i][1] > bottom ? path[i][1] : bottom;
    }
    struct draw_shape *shape = add(sheet, right, bottom);
    if (!shape)
        return;
    *shape = (struct draw_shape){.kind = SHAPE_LINE,
                                 .look = style,
                                 .w = width,
                                 .points = (uint8_t)count,
                                 .path = (const int(*)[2])path};
    sheet->styles_used |= 1u << style;
}

void draw_text(struct draw_sheet *sheet, enum draw_font font, enum draw_anchor anchor, int x, int y,
               const char *text)
{
    int width = draw_text_width(font, text);
    if (!*text)
        return;
    struct draw_shape *shape = add(sheet, x + (anchor == DRAW_MIDDLE ? (width + 1) / 2 : width), y + 3);
    if (!shape)
        return;
    *shape =
        (struct draw_shape){.kind = SHAPE_TEXT, .look = font, .anchor = anchor, .x = x, .y = y, .text = text};
}

static void write_rect(const struct draw_shape *shape, FILE *out)
{
    int round = shape->look == DRAW_CHIP || shape->look == DRAW_CELL || shape->look == DRAW_CELL_FULL ? 0 : 4;
    fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", styles[shape->look].name,
            shape->x, shape->y, shape->w, shape->h);
    if (round)
        fprintf(out, " rx=\"%d\"", round);
    if (!shape->text) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    draw_escape(out, shape->text);
    fputs("</title></rect>\n", out);
}

static void write_shape(const struct draw_shape *shape, FILE *out)
{
    switch ((enum shape_kind)shape->kind) {
    case SHAPE_RECT:
        write_rect(shape, out);
        return;
    case SHAPE_LINE:
        fprintf(out, "<path class=\"%s\"", styles[shape->look].name);
        if (shape->w != 1)
            fprintf(out, " stroke-width=\"%d\"", shape->w);
        for (int i = 0; i < shape->points; i++)
            fprintf(out, "%s%d %d", i ? "L" : " d=\"M", shape->path[i][0], shape->path[i][1]);
        fputs("\"/>\n", out);
        return;
    case SHAPE_TEXT:
        fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\"%s>", fonts[shape->look].name, shape->x, shape->y,
                shape->anchor == DRAW_MIDDLE ? " text-anchor=\"middle\"" : "");
        draw_escape(out, shape->text);
        fputs("</text>\n", out);
        return;
    }
}

void draw_sheet_write(const struct draw_sheet *sheet, const char *title, FILE *out)
{
    int w = sheet->right + 16, h = sheet->bottom + 16;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"weft\" width=\"%d\" height=\"%d\" viewBox=\"0 "
            "0 %d %d\" "
            "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<title>",
            w, h, w, h);
    draw_escape(out, title);
    fputs("</title>\n<style>\n", out);
    for (int i = 0; i < DRAW_STYLE_COUNT; i++) {
        if (sheet->styles_used & 1u << i)
            fprintf(out, ".weft .%s{%s}\n", styles[i].name, styles[i].css);
    }
    for (int i = 0; i < DRAW_FONT_COUNT; i++)
        fprintf(out, ".weft .%s{font-size:%dpx;%s}\n", fonts[i].name, draw_font_size((enum draw_font)i),
                fonts[i].css);
    fprintf(
        out,
        "</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<g transform=\"translate(.5 .5)\">\n", w,
        h);
    for (size_t i = 0; i < sheet->count; i++)
        write_shape(&sheet->shapes[i], out);
    fputs("</g>\n</svg>\n", out);
}

void draw_sheet_free(struct draw_sheet *sheet)
{
    while (sheet->blocks) {
        struct draw_block *next = sheet->blocks->next;
        free(sheet->blocks);
        sheet->blocks = next;
    }
    free(sheet->shapes);
    sheet->shapes = NULL;
}
