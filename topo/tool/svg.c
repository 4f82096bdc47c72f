/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a graph: the title, the fabric if there is one, a machine of each kind, the legend. */
#include "topo/tool/tool.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/draw.h"

enum {
    MARGIN = 16,
    MACHINES_MAX = 4, /* kinds of machine drawn; the others are counted */
    TITLE_WIDTH = 900,
    NAMES_WIDTH = 480
};

static unsigned long long count_kind(const struct weft_graph *graph, enum weft_node_kind kind)
{
    unsigned long long count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].kind == kind;
    return count;
}

static int paint_title(struct draw_sheet *sheet, const struct weft_graph *graph)
{
    static const struct {
        enum weft_node_kind kind;
        const char *one, *many;
    } counted[] = {
        {WEFT_NODE_HOST, "host", "hosts"},        {WEFT_NODE_NUMA, "NUMA node", "NUMA nodes"},
        {WEFT_NODE_GPU, "GPU", "GPUs"},           {WEFT_NODE_NIC, "NIC", "NICs"},
        {WEFT_NODE_SWITCH, "switch", "switches"}, {WEFT_NODE_RANK, "rank", "ranks"},
    };
    const char *note = graph->format ? graph->format : "";
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        unsigned long long count = count_kind(graph, counted[i].kind);
        if (count)
            note = draw_format(sheet, "%s%s%llu %s", note, *note ? " \xc2\xb7 " : "", count,
                               count == 1 ? counted[i].one : counted[i].many);
    }
    draw_text(sheet, DRAW_TITLE, DRAW_LEFT, MARGIN, MARGIN + 16,
              draw_fit(sheet, DRAW_TITLE, graph->source ? graph->source : "", TITLE_WIDTH));
    draw_text(sheet, DRAW_NOTE, DRAW_LEFT, MARGIN, MARGIN + 34, note);
    return MARGIN + 50;
}

static const char *host_note(const struct weft_node *host)
{
    if (host->flags & WEFT_HOST_VIRTUAL && host->flags & WEFT_HOST_CONTAINER)
        return "virtual machine, seen from within a container: links between devices are not known, devices "
               "may be missing";
    if (host->flags & WEFT_HOST_VIRTUAL)
        return "virtual machine: links between devices are not known";
    return host->flags & WEFT_HOST_CONTAINER ? "seen from within a container: devices may be missing" : "";
}

static const char *kind_title(struct draw_sheet *sheet, const struct weft_graph *graph,
                              const struct draw_kind *kind)
{
    const char **names = draw_alloc(sheet, kind->count * sizeof *names);
    if (!names)
        return "";
    for (uint32_t i = 0; i < kind->count; i++)
        names[i] = graph->nodes[kind->hosts[i]].name;
    const char *list = draw_ranges(sheet, DRAW_NAME, names, kind->count, NAMES_WIDTH);
    return kind->count == 1 ? list : draw_format(sheet, "%u \xc3\x97 %s", kind->count, list);
}

/* The machines to draw, laid out: one of each kind of host. */
struct machines {
    struct draw_machine *drawn[MACHINES_MAX];
    uint32_t count, kinds;
    unsigned long long left_out; /* hosts of further kinds */
    int w;                       /* of the widest */
};

static void lay_machines(struct draw_sheet *sheet, const struct weft_graph *graph, struct machines *machines)
{
    struct draw_kind *kinds = draw_kinds(sheet, graph, &machines->kinds);
    struct draw_box **scratch = draw_alloc(sheet, ((size_t)graph->node_count + 1) * sizeof *scratch);
    for (uint32_t i = 0; !sheet->failed && i < machines->kinds; i++) {
        if (i >= MACHINES_MAX) {
            machines->left_out += kinds[i].count;
            continue;
        }
        uint32_t host = kinds[i].hosts[0];
        struct draw_machine *machine = draw_machine_new(sheet, graph, host, kinds[i].count > 1, scratch);
        if (!machine)
            return;
        draw_machine_lay(sheet, machine, kind_title(sheet, graph, &kinds[i]), host_note(&graph->nodes[host]));
        machines->w = machine->top->w > machines->w ? machine->top->w : machines->w;
        machines->drawn[machines->count++] = machine;
    }
}

static int paint_machines(struct draw_sheet *sheet, const struct machines *machines, int y)
{
    for (uint32_t i = 0; i < machines->count; i++) {
        draw_machine_paint(sheet, machines->drawn[i], MARGIN, y);
        y += machines->drawn[i]->top->h + 18;
    }
    if (machines->left_out) {
        uint32_t kinds = machines->kinds - MACHINES_MAX;
        draw_text(sheet, DRAW_NOTE, DRAW_LEFT, MARGIN, y + 8,
                  draw_format(sheet, "and %llu host%s of %u other kind%s", machines->left_out,
                              machines->left_out == 1 ? "" : "s", kinds, kinds == 1 ? "" : "s"));
        y += 24;
    }
    return y;
}

struct legend {
    struct draw_sheet *sheet;
    int x, y, right;
};

/* The place for an entry so wide: in this line or the next. */
static void legend_step(struct legend *legend, int width)
{
    if (legend->x > MARGIN && legend->x + width > legend->right) {
        legend->x = MARGIN;
        legend->y += 18;
    }
}

static void legend_entry(struct legend *legend, int style, const char *text)
{
    int swatch = style >= 0 ? 24 : 0, width = swatch + draw_text_width(DRAW_NOTE, text);
    legend_step(legend, width);
    if (style == DRAW_LINE_FABRIC) {
        int points[2][2] = {{legend->x, legend->y + 6}, {legend->x + 18, legend->y + 6}};
        draw_line(legend->sheet, (enum draw_style)style, 3, (const int(*)[2])points, 2);
    } else if (style >= 0) {
        draw_rect(legend->sheet, (enum draw_style)style, legend->x, legend->y, 18, 12, NULL);
    }
    draw_text(legend->sheet, DRAW_NOTE, DRAW_LEFT, legend->x + swatch, legend->y + 10, text);
    legend->x += width + 20;
}

static void paint_legend(struct draw_sheet *sheet, int y)
{
    static const struct {
        enum draw_style style;
        const char *text;
    } entries[] = {
        {DRAW_GPU, "GPU"},
        {DRAW_NIC, "NIC"},
        {DRAW_NIC_DOWN, "NIC whose ports are down"},
        {DRAW_BRIDGE, "PCI bridge or switch: what is in it shares its link up"},
        {DRAW_BAR_GPU, "links between GPUs, a colour for each group"},
        {DRAW_BAR_SOCKET, "links between NUMA nodes"},
        {DRAW_SWITCH, "switch, or switches that are alike"},
        {DRAW_HOSTS, "the hosts on it"},
        {DRAW_LINE_FABRIC, "cables, thicker where there are more"},
    };
    unsigned used = sheet->styles_used;
    struct legend legend = {sheet, MARGIN, y, sheet->right > 640 ? sheet->right : 640};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (used & 1u << entries[i].style)
            legend_entry(&legend, entries[i].style, entries[i].text);
    }
    if (sheet->bytes_given && sheet->bits_given)
        legend_entry(&legend, -1, "GB/s, Gb/s: 10^9 bytes, bits per second in one direction");
    else if (sheet->bytes_given || sheet->bits_given)
        legend_entry(&legend, -1,
                     sheet->bytes_given ? "GB/s: 10^9 bytes per second in one direction"
                                        : "Gb/s: 10^9 bits per second in one direction");
    if (sheet->unknown_given)
        legend_entry(&legend, -1, "?: the source does not tell");
}

int weft_topo_svg(const struct weft_graph *graph, FILE *file)
{
    struct draw_sheet sheet = {0};
    struct machines machines = {0};
    int y = paint_title(&sheet, graph);
    lay_machines(&sheet, graph, &machines);
    if (count_kind(graph, WEFT_NODE_SWITCH) && !sheet.failed) {
        struct draw_fabric *fabric = draw_fabric_new(&sheet, graph);
        if (fabric)
            y += draw_fabric_paint(&sheet, fabric, MARGIN, y, machines.w) + 24;
    }
    if (!sheet.failed) {
        y = paint_machines(&sheet, &machines, y);
        paint_legend(&sheet, y);
    }
    if (!sheet.failed)
        draw_sheet_write(&sheet, graph->source ? graph->source : "", file);
    int failed = sheet.failed;
    draw_sheet_free(&sheet);
    return failed ? weft_fail(WEFT_NOMEM, "the picture of %u nodes", graph->node_count) : 0;
}
