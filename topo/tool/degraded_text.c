/* SPDX-License-Identifier: Apache-2.0 */
/* Links that carry less than they could, for people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "topo/tool/tool.h"

enum { LINKS_SHOWN = 16 };

/* "16 Gb/s (2 GB/s), 4xDDR". */
static char *rate_text(unsigned lanes, uint64_t bytes_per_s, char text[WEFT_TOPO_SPEED_SIZE])
{
    char bits[WEFT_TOPO_AMOUNT_SIZE], rate[WEFT_TOPO_AMOUNT_SIZE], name[16];
    weft_ib_speed_name(lanes, bytes_per_s, name);
    snprintf(text, WEFT_TOPO_SPEED_SIZE, "%s (%s)%s%s", weft_topo_bits(bytes_per_s, bits),
             weft_topo_rate(bytes_per_s, rate), *name ? ", " : "", name);
    return text;
}

char *weft_topo_degraded_why(const struct weft_graph *graph, const struct weft_degraded *link,
                             char text[WEFT_TOPO_DEGRADED_SIZE])
{
    const struct weft_edge *edge = &graph->edges[link->edge];
    const char *width = weft_graph_attribute(graph, edge->a, "link_width");
    char expected[WEFT_TOPO_SPEED_SIZE];
    rate_text(0, link->expected_bytes_per_s, expected);
    switch (link->why) {
    case WEFT_DEGRADED_TRUNK:
        snprintf(text, WEFT_TOPO_DEGRADED_SIZE, "another cable of the trunk runs at %s", expected);
        break;
    case WEFT_DEGRADED_SWITCHES:
        snprintf(text, WEFT_TOPO_DEGRADED_SIZE, "both switches run most cables to switches at %s or more",
                 expected);
        break;
    case WEFT_DEGRADED_LANE:
        snprintf(text, WEFT_TOPO_DEGRADED_SIZE, "1 lane, where other cables have %u", link->expected_lanes);
        break;
    case WEFT_DEGRADED_ADAPTER:
        snprintf(text, WEFT_TOPO_DEGRADED_SIZE,
                 "the switch, and adapters of this make, run other cables at %s or more", expected);
        break;
    case WEFT_DEGRADED_SLOT:
        snprintf(text, WEFT_TOPO_DEGRADED_SIZE, "%.8s lanes, where both ends can have %u",
                 width ? width : "?", link->expected_lanes);
        break;
    default:
        text[0] = '\0';
    }
    return text;
}

static void end_put(const struct weft_graph *graph, uint32_t node, int32_t port, FILE *file)
{
    char name[WEFT_TOPO_NAME_SIZE];
    fputs(weft_topo_name(graph, node, name), file);
    if (port >= 0 && graph->nodes[node].kind == WEFT_NODE_SWITCH)
        fprintf(file, " [%" PRId32 "]", port);
}

static void link_put(const struct weft_graph *graph, const struct weft_degraded *link, FILE *file)
{
    const struct weft_edge *edge = &graph->edges[link->edge];
    char kind[WEFT_TOPO_EDGE_SIZE], rate[WEFT_TOPO_SPEED_SIZE], why[WEFT_TOPO_DEGRADED_SIZE];
    fprintf(file, "  %s ", weft_topo_edge(edge, kind));
    end_put(graph, edge->a, edge->port_a, file);
    fprintf(file, " - ");
    end_put(graph, edge->b, edge->port_b, file);
    if (link->why == WEFT_DEGRADED_SLOT)
        fprintf(file, ": %s", weft_topo_rate(edge->bytes_per_s, rate));
    else
        fprintf(file, ": %s", rate_text(edge->lanes, edge->bytes_per_s, rate));
    fprintf(file, "; %s\n", weft_topo_degraded_why(graph, link, why));
}

int weft_topo_degraded_text(const struct weft_graph *graph, int all, FILE *file)
{
    struct weft_degraded *list;
    uint32_t count;
    int status = weft_degraded_find(graph, &list, &count);
    if (status || !count)
        return status;
    uint32_t shown = all || count <= LINKS_SHOWN ? count : LINKS_SHOWN;
    fprintf(file, "\ndegraded: %" PRIu32 " %s less than could be\n", count,
            count == 1 ? "link carries" : "links carry");
    for (uint32_t i = 0; i < shown; i++)
        link_put(graph, &list[i], file);
    if (shown < count)
        fprintf(file, "  and %" PRIu32 " more: --all shows them\n", count - shown);
    free(list);
    return 0;
}
