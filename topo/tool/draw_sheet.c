/* SPDX-License-Identifier: Apache-2.0 */
/* The sheet of a picture: shapes in the order in which they cover each other, as SVG 1.1. They are text in memory until the size
 * of the sheet and the styles in use are known, which come first.
 *
 * Looks are in one style sheet, whose rules apply within class "weft" only, so that the file may stand inside a page.
 * Coordinates are whole pixels; all is moved by half a pixel, so that lines of one pixel fall on pixels.
 */
#include "topo/tool/draw.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* NULL: the sheet has failed. */
static FILE *body_of(struct draw_sheet *sheet, int right, int bottom)
{
    if (!sheet->body)
        sheet->body = open_memstream(&sheet->bytes, &sheet->size);
    sheet->failed |= !sheet->body;
    sheet->right = right > sheet->right ? right : sheet->right;
    sheet->bottom = bottom > sheet->bottom ? bottom : sheet->bottom;
    return sheet->body;
}

void draw_rect(struct draw_sheet *sheet, enum draw_style style, int x, int y, int w, int h, const char *hint)
{
    FILE *out = body_of(sheet, x + w, y + h);
    if (!out)
        return;
    int is_plain = style == DRAW_CHIP || style == DRAW_CELL || style == DRAW_CELL_FULL;
    sheet->styles_used |= 1u << style;
    fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"%s", styles[style].name, x,
            y, w, h, is_plain ? "" : " rx=\"4\"");
    if (!hint) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    draw_escape(out, hint);
    fputs("</title></rect>\n", out);
}

void draw_line(struct draw_sheet *sheet, enum draw_style style, int width, const int (*points)[2], int count)
{
    int right = 0, bottom = 0;
    for (int i = 0; i < count; i++) {
        right = points[i][0] > right ? points[i][0] : right;
        bottom = points[i][1] > bottom ? points[i][1] : bottom;
    }
    FILE *out = body_of(sheet, right, bottom);
    if (!out)
        return;
    sheet->styles_used |= 1u << style;
    fprintf(out, "<path class=\"%s\"", styles[style].name);
    if (width != 1)
        fprintf(out, " stroke-width=\"%d\"", width);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%d %d", i ? "L" : " d=\"M", points[i][0], points[i][1]);
    fputs("\"/>\n", out);
}

void draw_text(struct draw_sheet *sheet, enum draw_font font, enum draw_anchor anchor, int x, int y,
               const char *text)
{
    int width = draw_text_width(font, text);
    FILE *out = *text ? body_of(sheet, x + (anchor == DRAW_MIDDLE ? (width + 1) / 2 : width), y + 3) : NULL;
    if (!out)
        return;
    fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\"%s>", fonts[font].name, x, y,
            anchor == DRAW_MIDDLE ? " text-anchor=\"middle\"" : "");
    draw_escape(out, text);
    fputs("</text>\n", out);
}

void draw_sheet_write(struct draw_sheet *sheet, const char *title, FILE *out)
{
    int w = sheet->right + 16, h = sheet->bottom + 16;
    FILE *body = body_of(sheet, 0, 0);
    sheet->failed |= !body || fflush(body) != 0 || ferror(body);
    if (sheet->failed)
        return;
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
    fwrite(sheet->bytes, 1, sheet->size, out);
    fputs("</g>\n</svg>\n", out);
}

void draw_sheet_free(struct draw_sheet *sheet)
{
    while (sheet->blocks) {
        struct draw_block *next = sheet->blocks->next;
        free(sheet->blocks);
        sheet->blocks = next;
    }
    if (sheet->body)
        fclose(sheet->body);
    free(sheet->bytes);
}
