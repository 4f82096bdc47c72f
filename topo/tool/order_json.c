/* SPDX-License-Identifier: Apache-2.0 */
/* The order as JSON: docs/weft-topo-json.md. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/json_say.h"
#include "topo/report/order_load.h"
#include "topo/tool/order_view.h"

static json_t *load_json(const struct weft_load *load)
{
    return json_pack("{s:f, s:o, s:o, s:I, s:I, s:I}", "highest_streams", load->highest, "highest_edge",
                     weft_json_or_null(load->highest_edge, load->highest_edge != WEFT_NODE_NONE),
                     "highest_seconds_per_byte",
                     load->highest_time > 0 ? json_real(load->highest_time) : json_null(), "crossings_leaf",
                     (json_int_t)load->crossings_leaf, "crossings_host", (json_int_t)load->crossings_host,
                     "crossings_numa", (json_int_t)load->crossings_numa);
}

static json_t *groups_json(const struct weft_order_view *view)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < view->layout->group_count; i++) {
        const struct weft_group_span *group = &view->layout->groups[i];
        int has_node = group->node != WEFT_NODE_NONE;
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:I, s:I, s:I, s:o, s:o}", "level", weft_level_name(group->level), "parent",
                      weft_json_or_null(group->parent, group->parent != UINT32_MAX), "depth",
                      (json_int_t)group->depth, "first", (json_int_t)group->first, "count",
                      (json_int_t)group->count, "node", weft_json_or_null(group->node, has_node), "name",
                      has_node ? weft_json_text(view->graph->nodes[group->node].name) : json_null()));
    }
    return list;
}

static json_t *numbers_json(const uint32_t *numbers, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

static json_t *rings_json(const struct weft_layout *layout)
{
    json_t *list = json_array();
    for (uint32_t ring = 0; ring < layout->ring_count; ring++)
        json_array_append_new(list,
                              numbers_json(layout->rings + (size_t)ring * layout->ranks, layout->ranks));
    return list;
}

/* Links that carry something in weft's order. */
static json_t *streams_json(const struct weft_order_view *view)
{
    json_t *list = json_array();
    const double *streams = view->by_weft.streams;
    for (uint32_t i = 0; streams && i < view->graph->edge_count; i++) {
        double there = streams[2 * (size_t)i], back = streams[2 * (size_t)i + 1];
        char a[WEFT_TOPO_NAME_SIZE], b[WEFT_TOPO_NAME_SIZE];
        if (there <= 0 && back <= 0)
            continue;
        json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:f, s:f}", "edge", (json_int_t)i, "a",
                                              weft_topo_name(view->graph, view->graph->edges[i].a, a), "b",
                                              weft_topo_name(view->graph, view->graph->edges[i].b, b),
                                              "a_to_b", there, "b_to_a", back));
    }
    return list;
}

static json_t *name_or_null(const struct weft_graph *graph, uint32_t node)
{
    char name[WEFT_TOPO_NAME_SIZE];
    return node == WEFT_NODE_NONE ? json_null() : json_string(weft_topo_name(graph, node, name));
}

static json_t *why_json(const struct weft_order_view *view, uint32_t rank)
{
    char reason[WEFT_ORDER_REASON_SIZE];
    json_t *list = json_array();
    weft_order_explain(view->graph, view->places, view->layout, rank, reason, sizeof reason);
    for (char *line = reason, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        json_array_append_new(list, weft_json_text(line));
    }
    return list;
}

static json_t *ranks_json(const struct weft_order_view *view)
{
    json_t *list = json_array();
    for (uint32_t rank = 0; rank < view->ranks; rank++) {
        const struct weft_place *place = &view->places[rank];
        json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "rank", (json_int_t)rank,
                                              "position", (json_int_t)view->layout->position[rank], "host",
                                              name_or_null(view->graph, place->host), "near",
                                              name_or_null(view->graph, place->near), "nic",
                                              name_or_null(view->graph, view->layout->nic[rank]), "why",
                                              why_json(view, rank)));
    }
    return list;
}

int weft_order_view_json(const struct weft_order_view *view, FILE *file)
{
    json_t *root = weft_json_head(view->graph, "order");
    json_object_set_new(root, "hosts", json_integer(view->layout->host_count));
    json_object_set_new(root, "ranks_per_node",
                        weft_json_or_null(view->job->ranks_per_node, view->job->ranks_per_node != 0));
    json_object_set_new(root, "shuffle",
                        view->job->shuffle ? json_sprintf("%" PRIu64, view->job->seed) : json_null());
    json_object_set_new(root, "refined", json_integer(view->layout->refined));
    json_object_set_new(root, "by_number", load_json(&view->by_rank));
    json_object_set_new(root, "by_weft", load_json(&view->by_weft));
    json_object_set_new(root, "bound",
                        json_pack("{s:f, s:I, s:s}", "highest_streams", view->bound.highest, "crossings_leaf",
                                  (json_int_t)view->bound.crossings_leaf, "argument",
                                  view->bound.argument ? view->bound.argument : ""));
    json_object_set_new(root, "order", numbers_json(view->layout->order, view->ranks));
    json_object_set_new(root, "rings", rings_json(view->layout));
    json_object_set_new(root, "groups", groups_json(view));
    json_object_set_new(root, "streams", streams_json(view));
    json_object_set_new(root, "ranks", ranks_json(view));
    return weft_json_put(root, file);
}
