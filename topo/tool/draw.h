/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of graphs: what the parts of the SVG writer share.
 *
 * A picture is a sheet: a list of rectangles, lines and texts in whole pixels, which is written once its size is
 * known. Everything is laid out before it is drawn, from the widths of the texts, so that no label meets another. Sizes
 * come from a table of advance widths of DejaVu Sans; viewers that lack it take Verdana, which is as wide, or another
 * sans serif, which is narrower.
 *
 * Texts come from outside and may hold anything: they are measured and written as weft_topo_clean() reads them.
 *
 * Memory: everything belongs to the sheet. When it runs out, the sheet is marked as failed, draw_alloc() returns NULL,
 * and what is added later is dropped; the one who made the sheet looks at `failed` at the end.
 *
 * Order: what is drawn depends on names, numbers and addresses, never on the order of nodes and edges in the graph.
 */
#ifndef WEFT_TOPO_TOOL_DRAW_H
#define WEFT_TOPO_TOOL_DRAW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "topo/graph/graph.h"

enum draw_font {
    DRAW_TITLE,
    DRAW_NOTE,  /* beneath the title, of the legend, beside tiers */
    DRAW_HEAD,  /* of a box with others in it */
    DRAW_NAME,  /* of a device or switch */
    DRAW_SMALL, /* addresses and rates */
    DRAW_BAD,   /* what is down */
    DRAW_ON_BAR,
    DRAW_FONT_COUNT
};

#define DRAW_LINK_COLOURS 4

enum draw_style {
    DRAW_HOST,
    DRAW_NUMA,
    DRAW_BRIDGE,
    DRAW_GPU,
    DRAW_NIC,
    DRAW_NIC_DOWN,
    DRAW_SWITCH,
    DRAW_HOSTS,
    DRAW_BAR_GPU, /* links of GPUs; the first of DRAW_LINK_COLOURS */
    DRAW_BAR_SOCKET = DRAW_BAR_GPU + DRAW_LINK_COLOURS,
    DRAW_CHIP, /* behind a number on a line */
    DRAW_CELL,
    DRAW_CELL_FULL,
    DRAW_LINE_GPU, /* as many */
    DRAW_LINE_SOCKET = DRAW_LINE_GPU + DRAW_LINK_COLOURS,
    DRAW_LINE_FABRIC,
    DRAW_STYLE_COUNT
};

enum draw_anchor { DRAW_LEFT, DRAW_MIDDLE };

struct draw_block;

struct draw_sheet {
    FILE *body; /* the shapes, into bytes; NULL: none so far */
    char *bytes;
    size_t size;
    struct draw_block *blocks;
    int failed;
    int right, bottom;                /* how far the shapes reach */
    unsigned styles_used;             /* bits by enum draw_style */
    unsigned bytes_given, bits_given; /* whether a rate in GB/s, in Gb/s stands on it */
    unsigned unknown_given;           /* whether a '?' for a rate does */
};

/* --- sheet.c */
void *draw_alloc(struct draw_sheet *sheet, size_t size); /* zeroed */
const char *draw_format(struct draw_sheet *sheet, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* never NULL */
void draw_rect(struct draw_sheet *sheet, enum draw_style style, int x, int y, int w, int h,
               const char *hint); /* hint: shown under the pointer, or NULL */
/* Through up to four points. */
void draw_line(struct draw_sheet *sheet, enum draw_style style, int width, const int (*points)[2], int count);
void draw_text(struct draw_sheet *sheet, enum draw_font font, enum draw_anchor anchor, int x, int y,
               const char *text); /* y: of the base line */
void draw_sheet_write(struct draw_sheet *sheet, const char *title, FILE *out);
void draw_sheet_free(struct draw_sheet *sheet);

/* --- text.c */
uint32_t draw_decode(const char **text); /* the next character, 0 at the end */
int draw_font_size(enum draw_font font);
int draw_text_width(enum draw_font font, const char *text);
/* The text, or its beginning and end with "..." between, at most as wide. */
const char *draw_fit(struct draw_sheet *sheet, enum draw_font font, const char *text, int width);
void draw_escape(FILE *out, const char *text);
/* "31.5 GB/s" from bytes, "400 Gb/s" likewise from bytes; unknown: "? GB/s". */
const char *draw_bytes(struct draw_sheet *sheet, uint64_t bytes_per_s);
const char *draw_bits(struct draw_sheet *sheet, uint64_t bytes_per_s);
/* "node[001-064], login": of sorted names; what does not fit is counted. */
const char *draw_ranges(struct draw_sheet *sheet, enum draw_font font, const char *const *names,
                        uint32_t count, int width);

/* --- machine.c: what is drawn of a host */
enum draw_role { DRAW_IS_HOST, DRAW_IS_NUMA, DRAW_IS_BRIDGE, DRAW_IS_PLACE, DRAW_IS_GPU, DRAW_IS_NIC };

#define DRAW_LINES_MAX 8

struct draw_box {
    uint32_t node; /* WEFT_NODE_NONE for a place: the devices that hang on a box beside other boxes */
    enum draw_role role;
    const char *name;
    const char *address; /* on PCI, of a bridge and of a device with no other name */
    int32_t least_gpu;   /* the least number of a GPU in it */
    struct draw_box *parent, **children;
    uint32_t child_count, child_capacity;
    unsigned depth, cores, ranks, devices, left_out;
    int32_t one_rank; /* the rank, where ranks is 1 */
    int down;         /* NIC: it has ports, and none is up */
    const char *lines[DRAW_LINES_MAX];
    uint8_t fonts[DRAW_LINES_MAX];
    int line_count;
    const char *hint;
    int x, y, w, h;     /* on the machine's own sheet of paper */
    int band_h, band_w; /* room at the bottom for links between GPUs in it, and the width that they need */
    int header_h;
    int gpu_columns, nic_columns;
    int row; /* in the parent */
};

struct draw_link {
    uint32_t a, b; /* indices of ends, a < b */
    uint32_t links;
    uint64_t bytes_per_s;
    unsigned flags; /* enum weft_edge_flags */
    unsigned group;
};

struct draw_links {
    struct draw_box **ends;
    uint32_t end_count;
    struct draw_link *links;
    uint32_t link_count;
    enum weft_edge_kind kind;
    int up; /* they are drawn above the ends */
    /* The plan: pieces with a place each, in rows away from the ends. */
    struct draw_piece *pieces;
    uint32_t piece_count;
};

struct draw_machine {
    const struct weft_graph *graph;
    uint32_t host;
    struct draw_box *top;
    struct draw_box **boxes; /* all but places */
    uint32_t box_count, box_capacity;
    int leaf_w, gpu_h, nic_h;
    struct draw_links sockets, gpus;
    int above_h, above_w; /* room for links between NUMA nodes */
    int many;             /* it stands for several: no rank is named */
};

/* scratch: as many as the graph has nodes. */
struct draw_machine *draw_machine_new(struct draw_sheet *sheet, const struct weft_graph *graph, uint32_t host,
                                      int many, struct draw_box **scratch);
int draw_is_leaf(const struct draw_box *box);

/* --- layout.c: sizes and places within the machine, and its drawing */
void draw_machine_lay(struct draw_sheet *sheet, struct draw_machine *machine, const char *title,
                      const char *note);
void draw_machine_paint(struct draw_sheet *sheet, const struct draw_machine *machine, int x, int y);

int draw_box_pad(const struct draw_box *box);

/* --- links.c: finds the pieces once all boxes have their place; sets band_h and band_w of the boxes that get links, for
 * sockets the machine's above_h and above_w. Ends may move afterwards; then it is planned again. */
void draw_links_plan(struct draw_sheet *sheet, struct draw_machine *machine, struct draw_links *links);
void draw_links_paint(struct draw_sheet *sheet, const struct draw_machine *machine,
                      const struct draw_links *links, int x, int y);

/* --- fabric.c, tiers.c: switches by tiers. Painting returns the height that it took. */
struct draw_fabric;
struct draw_fabric *draw_fabric_new(struct draw_sheet *sheet, const struct weft_graph *graph);
int draw_fabric_paint(struct draw_sheet *sheet, const struct draw_fabric *fabric, int x, int y,
                      int least); /* least: the width of what else is drawn */

/* --- alike.c: hosts that differ in nothing but their name */
struct draw_kind {
    uint64_t digest;
    uint32_t *hosts; /* sorted by name */
    uint32_t count;
};
struct draw_kind *draw_kinds(struct draw_sheet *sheet, const struct weft_graph *graph, uint32_t *count);

#endif
