/* SPDX-License-Identifier: Apache-2.0 */
/* The order as text: what it is worth, the order itself, groups, the load on the links, reasons. Lists are cut unless all. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "topo/report/order_load.h"
#include "topo/tool/order_view.h"

enum { SHOWN_MAX = 32, RANKS_MAX = 256, LINE_COLUMNS = 100 };

/* Says that something was left out. */
static void more_put(uint64_t more, const char *what, FILE *file)
{
    if (more)
        fprintf(file, "  ... and %" PRIu64 " more %s: --all lists them\n", more, what);
}

/* --- what it is worth ------------------------------------------------------------------------------------- */

static void title_put(const struct weft_order_view *view, FILE *file)
{
    uint32_t hosts = view->layout->host_count;
    fprintf(file, "%" PRIu32 " %s on %" PRIu32 " %s", view->ranks, view->ranks == 1 ? "rank" : "ranks", hosts,
            hosts == 1 ? "host" : "hosts");
    if (view->job->ranks_per_node)
        fprintf(file, ", %" PRIu32 " per host", view->job->ranks_per_node);
    if (view->job->shuffle)
        fprintf(file, ", shuffled with seed %" PRIu64, view->job->seed);
    fprintf(file, "\n\n");
}

static void row_put(const char *what, uint64_t by_rank, uint64_t by_weft, FILE *file)
{
    fprintf(file, "  %-32s %12" PRIu64 " %14" PRIu64 "\n", what, by_rank, by_weft);
}

static void worth_put(const struct weft_order_view *view, FILE *file)
{
    const struct weft_load *by_rank = &view->by_rank, *by_weft = &view->by_weft;
    char from[WEFT_TOPO_NAME_SIZE], to[WEFT_TOPO_NAME_SIZE];
    fprintf(file, "  %-32s %12s %14s %16s\n", "a ring over the ranks", "by number", "weft's order",
            "least possible");
    fprintf(file, "  %-32s %12.3f %14.3f %16.3f\n", "highest load of a link (streams)", by_rank->highest,
            by_weft->highest, view->bound.highest);
    fprintf(file, "  %-32s %12" PRIu64 " %14" PRIu64 " %16" PRIu64 "\n", "crossings between leaf switches",
            by_rank->crossings_leaf, by_weft->crossings_leaf, view->bound.crossings_leaf);
    row_put("crossings between hosts", by_rank->crossings_host, by_weft->crossings_host, file);
    row_put("crossings between NUMA nodes", by_rank->crossings_numa, by_weft->crossings_numa, file);
    if (view->bound.argument)
        fprintf(file, "\n  least possible: %s\n", view->bound.argument);
    if (by_weft->highest_edge != WEFT_NODE_NONE) {
        const struct weft_edge *edge = &view->graph->edges[by_weft->highest_edge];
        fprintf(file, "  highest load in weft's order: %s - %s\n", weft_topo_name(view->graph, edge->a, from),
                weft_topo_name(view->graph, edge->b, to));
    }
    fprintf(file, "  moves that the refinement kept: %" PRIu32 "\n", view->layout->refined);
}

/* --- order and groups ------------------------------------------------------------------------------------- */

/* "0-7 12 9-8 ...": numbers in turn, runs by their ends; broken into lines. */
static void ranks_put(const uint32_t *ranks, uint32_t count, int all, FILE *file)
{
    uint32_t shown = all || count <= RANKS_MAX ? count : RANKS_MAX;
    size_t column = 0;
    for (uint32_t i = 0, end; i < shown; i = end) {
        char text[48];
        for (end = i + 1; end < shown && ranks[end] == ranks[end - 1] + 1;)
            end++;
        if (end - i < 3)
            end = i + 1;
        int length = end == i + 1
                         ? snprintf(text, sizeof text, " %" PRIu32, ranks[i])
                         : snprintf(text, sizeof text, " %" PRIu32 "-%" PRIu32, ranks[i], ranks[end - 1]);
        if (column == 0 || column + (size_t)length > LINE_COLUMNS) {
            fprintf(file, column ? "\n " : " ");
            column = 1;
        }
        fputs(text, file);
        column += (size_t)length;
    }
    fprintf(file, "\n");
    more_put(count - shown, "ranks", file);
}

static void rings_put(const struct weft_order_view *view, int all, FILE *file)
{
    const struct weft_layout *layout = view->layout;
    fprintf(file, "\norder (ring 0)\n");
    ranks_put(layout->order, layout->ranks, all, file);
    if (layout->ring_count > 1 && !all && layout->ranks > SHOWN_MAX) {
        more_put(layout->ring_count - 1, "rings, one for each further rail", file);
        return;
    }
    for (uint32_t ring = 1; ring < layout->ring_count; ring++) {
        fprintf(file, "ring %" PRIu32 "\n", ring);
        ranks_put(layout->rings + (size_t)ring * layout->ranks, layout->ranks, all, file);
    }
}

static void groups_put(const struct weft_order_view *view, int all, FILE *file)
{
    const struct weft_layout *layout = view->layout;
    uint32_t shown = all || layout->group_count <= SHOWN_MAX ? layout->group_count : SHOWN_MAX;
    fprintf(file, "\ngroups\n");
    for (uint32_t i = 0; i < shown; i++) {
        const struct weft_group_span *group = &layout->groups[i];
        char name[WEFT_TOPO_NAME_SIZE];
        fprintf(file, "  %*s%s", (int)(2 * group->depth), "", weft_level_name(group->level));
        if (group->node != WEFT_NODE_NONE)
            fprintf(file, " %s", weft_topo_name(view->graph, group->node, name));
        fprintf(file, ": %" PRIu32 " %s, ", group->count, group->count == 1 ? "rank" : "ranks");
        if (group->count == 1)
            fprintf(file, "position %" PRIu32 "\n", group->first);
        else
            fprintf(file, "positions %" PRIu32 "-%" PRIu32 "\n", group->first,
                    group->first + group->count - 1);
    }
    more_put(layout->group_count - shown, "groups", file);
}

/* --- load on the links ------------------------------------------------------------------------------------ */

struct loaded {
    double streams; /* in the fuller direction */
    uint32_t edge;
};

static int loaded_compare(const void *a, const void *b)
{
    const struct loaded *x = a, *y = b;
    if (x->streams > y->streams || x->streams < y->streams)
        return x->streams > y->streams ? -1 : 1;
    return x->edge < y->edge ? -1 : x->edge > y->edge;
}

static void link_put(const struct weft_order_view *view, const struct loaded *loaded, FILE *file)
{
    const struct weft_edge *edge = &view->graph->edges[loaded->edge];
    const double *streams = &view->by_weft.streams[2 * (size_t)loaded->edge];
    char from[WEFT_TOPO_NAME_SIZE], to[WEFT_TOPO_NAME_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE];
    fprintf(file, "  %.3f there, %.3f back: %s - %s", streams[0], streams[1],
            weft_topo_name(view->graph, edge->a, from), weft_topo_name(view->graph, edge->b, to));
    if (edge->links > 1)
        fprintf(file, ", %" PRIu32 " links", edge->links);
    fprintf(file, ", %s\n", edge->bytes_per_s ? weft_topo_bits(edge->bytes_per_s, rate) : "rate unknown");
}

/* Links that carry anything, the fullest first. */
static void links_put(const struct weft_order_view *view, int all, FILE *file)
{
    uint32_t edges = view->graph->edge_count, count = 0;
    const double *streams = view->by_weft.streams;
    struct loaded *list = malloc(((size_t)edges + 1) * sizeof *list);
    if (!list || !streams) {
        free(list);
        return;
    }
    for (uint32_t i = 0; i < edges; i++) {
        double there = streams[2 * (size_t)i], back = streams[2 * (size_t)i + 1];
        if (there > 0 || back > 0)
            list[count++] = (struct loaded){there > back ? there : back, i};
    }
    qsort(list, count, sizeof *list, loaded_compare);
    if (count)
        fprintf(file, "\nstreams per link in weft's order\n");
    uint32_t shown = all || count <= SHOWN_MAX ? count : SHOWN_MAX;
    for (uint32_t i = 0; i < shown; i++)
        link_put(view, &list[i], file);
    more_put(count - shown, "links", file);
    free(list);
}

/* --- reasons ---------------------------------------------------------------------------------------------- */

/* The library's lines, each of which names the rank. */
static void reason_put(const struct weft_order_view *view, uint32_t rank, FILE *file)
{
    char reason[WEFT_ORDER_REASON_SIZE];
    weft_order_explain(view->graph, view->places, view->layout, rank, reason, sizeof reason);
    for (char *line = reason, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        fprintf(file, "  ");
        weft_topo_put(file, line);
        fprintf(file, "\n");
    }
}

void weft_order_view_text(const struct weft_order_view *view, int all, FILE *file)
{
    title_put(view, file);
    worth_put(view, file);
    rings_put(view, all, file);
    groups_put(view, all, file);
    links_put(view, all, file);
    uint32_t shown = all || view->ranks <= SHOWN_MAX ? view->ranks : SHOWN_MAX;
    fprintf(file, "\nreasons, in the order\n");
    for (uint32_t i = 0; i < shown; i++)
        reason_put(view, view->layout->order[i], file);
    more_put(view->ranks - shown, "ranks", file);
}

const char *weft_level_name(unsigned level)
{
    static const char *const names[] = {[WEFT_LEVEL_JOB] = "job",
                                        [WEFT_LEVEL_SWITCH] = "switch",
                                        [WEFT_LEVEL_HOST] = "host",
                                        [WEFT_LEVEL_NUMA] = "numa",
                                        [WEFT_LEVEL_BRIDGE] = "bridge"};
    return level < sizeof names / sizeof *names ? names[level] : "group";
}
