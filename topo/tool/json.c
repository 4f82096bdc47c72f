/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as JSON: docs/weft-topo-json.md. One node or edge a line, written as it is made: a fabric has millions. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "topo/tool/json_say.h"
#include "topo/tool/tool.h"

static json_t *id_or_null(uint32_t node)
{
    return weft_json_or_null(node, node != WEFT_NODE_NONE);
}

static json_t *amount(uint64_t value)
{
    return weft_json_or_null(value > INT64_MAX ? INT64_MAX : (int64_t)value, value != 0);
}

static json_t *attributes(const struct weft_graph *graph, const struct weft_node *node)
{
    json_t *object = json_object();
    for (uint32_t at = node->attributes_first; at != WEFT_NODE_NONE; at = graph->attributes[at].next) {
        const struct weft_attribute *attribute = &graph->attributes[at];
        char name[WEFT_TOPO_NAME_SIZE];
        json_object_set_new(object, weft_topo_clean(attribute->name, name, sizeof name),
                            weft_json_text(attribute->value));
    }
    return object;
}

static const char *bridge_name(const struct weft_node *node)
{
    static const char *const names[] = {[WEFT_BRIDGE_UNKNOWN] = "unknown",
                                        [WEFT_BRIDGE_HOST] = "host",
                                        [WEFT_BRIDGE_PORT] = "port",
                                        [WEFT_BRIDGE_SWITCH] = "switch"};
    return names[node->bridge <= WEFT_BRIDGE_SWITCH ? node->bridge : WEFT_BRIDGE_UNKNOWN];
}

static json_t *node_json(const struct weft_graph *graph, uint32_t index)
{
    const struct weft_node *node = &graph->nodes[index];
    json_t *object =
        json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", (json_int_t)index, "kind",
                  weft_node_kind_name((enum weft_node_kind)node->kind), "name", weft_json_text(node->name),
                  "parent", id_or_null(node->parent), "host", id_or_null(node->host), "index",
                  weft_json_or_null(node->index, node->index >= 0), "rail",
                  weft_json_or_null(node->rail, node->rail >= 0), "pci", weft_json_text(node->pci), "guid",
                  weft_json_guid(node->guid), "attributes", attributes(graph, node));
    if (!object)
        return NULL;
    if (node->kind == WEFT_NODE_BRIDGE) {
        json_object_set_new(object, "bridge", json_string(bridge_name(node)));
        json_object_set_new(object, "whole", json_boolean(node->flags & WEFT_BRIDGE_WHOLE));
    }
    if (node->kind == WEFT_NODE_PORT) {
        json_object_set_new(object, "state",
                            json_string(weft_port_state_name((enum weft_port_state)node->state)));
        json_object_set_new(object, "bytes_per_s", amount(node->bytes_per_s));
    }
    if (node->kind == WEFT_NODE_HOST) {
        json_object_set_new(object, "virtual", json_boolean(node->flags & WEFT_HOST_VIRTUAL));
        json_object_set_new(object, "container", json_boolean(node->flags & WEFT_HOST_CONTAINER));
    }
    return object;
}

static json_t *technology(const struct weft_edge *edge)
{
    return edge->flags & WEFT_EDGE_C2C      ? json_string("c2c")
           : edge->flags & WEFT_EDGE_NVLINK ? json_string("nvlink")
           : edge->flags & WEFT_EDGE_XGMI   ? json_string("xgmi")
           : edge->flags & WEFT_EDGE_XE     ? json_string("xe")
                                            : json_null();
}

static json_t *edge_json(const struct weft_graph *graph, uint32_t index)
{
    const struct weft_edge *edge = &graph->edges[index];
    return json_pack("{s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:o, s:o}", "id",
                     (json_int_t)index, "a", (json_int_t)edge->a, "b", (json_int_t)edge->b, "kind",
                     weft_edge_kind_name((enum weft_edge_kind)edge->kind), "parent",
                     json_boolean(edge->flags & WEFT_EDGE_PARENT), "technology", technology(edge), "links",
                     weft_json_or_null(edge->links, !(edge->flags & WEFT_EDGE_LINKS_UNKNOWN)), "bytes_per_s",
                     amount(edge->bytes_per_s), "latency_ns", amount(edge->latency_ns), "nvswitch",
                     (edge->flags & WEFT_EDGE_NVSWITCH) != 0, "down", (edge->flags & WEFT_EDGE_DOWN) != 0,
                     "port_a", weft_json_or_null(edge->port_a, edge->port_a >= 0), "port_b",
                     weft_json_or_null(edge->port_b, edge->port_b >= 0));
}

/* Writes and frees the object. */
static int line_put(json_t *object, uint32_t index, FILE *file)
{
    int made = object != NULL;
    fputs(index ? ",\n    " : "\n    ", file);
    made = made && (json_dumpf(object, file, 0) == 0 || ferror(file));
    json_decref(object);
    return made ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory to write JSON");
}

static json_t *counts(const struct weft_graph *graph)
{
    json_int_t kinds[WEFT_NODE_KIND_COUNT] = {0};
    json_t *object = json_object();
    for (uint32_t i = 0; i < graph->node_count; i++)
        kinds[graph->nodes[i].kind]++;
    for (int i = 0; i < WEFT_NODE_KIND_COUNT; i++)
        json_object_set_new(object, weft_node_kind_name((enum weft_node_kind)i), json_integer(kinds[i]));
    return object;
}

/* The fields before the lists, without the brace that closes them. */
static int head_put(const struct weft_graph *graph, FILE *file)
{
    json_t *head = weft_json_head(graph, "graph"), *value;
    const char *key;
    if (!head || json_object_set_new(head, "counts", counts(graph)) != 0) {
        json_decref(head);
        return weft_fail(WEFT_NOMEM, "no memory to write JSON");
    }
    fputs("{", file);
    int first = 1;
    json_object_foreach(head, key, value)
    {
        fprintf(file, "%s\n  \"%s\": ", first ? "" : ",", key);
        json_dumpf(value, file, JSON_ENCODE_ANY);
        first = 0;
    }
    json_decref(head);
    return WEFT_OK;
}

/* One object a line, behind the list's bracket. */
static int degraded_put(const struct weft_graph *graph, FILE *file)
{
    struct weft_degraded *list;
    uint32_t count;
    char why[WEFT_TOPO_DEGRADED_SIZE];
    int status = weft_degraded_find(graph, &list, &count);
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++)
        status = line_put(json_pack("{s:I, s:s, s:o, s:o, s:s}", "edge", (json_int_t)list[i].edge, "reason",
                                    weft_degraded_why_name(list[i].why), "bytes_per_s",
                                    amount(graph->edges[list[i].edge].bytes_per_s), "expected_bytes_per_s",
                                    amount(list[i].expected_bytes_per_s), "why",
                                    weft_topo_degraded_why(graph, &list[i], why)),
                          i, file);
    free(list);
    return status;
}

int weft_topo_json(const struct weft_graph *graph, FILE *file)
{
    int status = head_put(graph, file);
    fputs(",\n  \"nodes\": [", file);
    for (uint32_t i = 0; status == WEFT_OK && i < graph->node_count; i++)
        status = line_put(node_json(graph, i), i, file);
    fputs("\n  ],\n  \"edges\": [", file);
    for (uint32_t i = 0; status == WEFT_OK && i < graph->edge_count; i++)
        status = line_put(edge_json(graph, i), i, file);
    fputs("\n  ],\n  \"degraded\": [", file);
    if (status == WEFT_OK)
        status = degraded_put(graph, file);
    fputs("\n  ]\n}\n", file);
    return status;
}
