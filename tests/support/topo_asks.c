/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/topo_asks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <weft/weft.h>

#include "base/error.h"

int topo_try(const char *text, struct weft_graph **graph)
{
    struct weft_text given = {"file", text, strlen(text)};
    weft_error_clear();
    return weft_topo_read_text(&given, graph);
}

struct weft_graph *topo_read(const char *text)
{
    struct weft_graph *graph = NULL;
    if (topo_try(text, &graph) != 0)
        fail_msg("%s in:\n%.4000s", weft_error_detail(), text);
    return graph;
}

void topo_fails(const char *text, const char *detail)
{
    struct weft_graph *graph = NULL;
    assert_int_equal(topo_try(text, &graph), WEFT_INVALID);
    assert_null(graph);
    assert_string_equal(weft_error_detail(), detail);
}

void topo_refuses(weft_reader *reader, const char *text, size_t size, const char *detail)
{
    struct weft_text given = {"file", text, size};
    struct weft_graph *graph;
    weft_error_clear();
    assert_int_equal(weft_graph_new("file", "test", &graph), 0);
    int status = reader(&given, graph);
    if (!status)
        status = weft_graph_finish(graph);
    weft_graph_free(graph);
    assert_string_equal(weft_error_detail(), detail);
    assert_int_equal(status, WEFT_INVALID);
}

uint32_t topo_count(const struct weft_graph *graph, enum weft_node_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].kind == kind;
    return count;
}

uint32_t topo_count_edges(const struct weft_graph *graph, enum weft_edge_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        count += graph->edges[i].kind == kind;
    return count;
}

uint32_t topo_node(const struct weft_graph *graph, const char *name)
{
    uint32_t node = WEFT_NODE_NONE;
    if (weft_graph_find(graph, name, &node) != 0)
        fail_msg("%s", weft_error_detail());
    return node;
}

uint32_t topo_child(const struct weft_graph *graph, uint32_t parent, const char *name)
{
    uint32_t found = WEFT_NODE_NONE;
    for (uint32_t n = weft_graph_first(graph, parent); n != WEFT_NODE_NONE;
         n = graph->nodes[n].sibling_next) {
        if (strcmp(graph->nodes[n].name, name) == 0)
            found = n;
    }
    if (found == WEFT_NODE_NONE)
        fail_msg("%s has no child \"%s\"", graph->nodes[parent].name, name);
    return found;
}

uint32_t topo_joins(const struct weft_graph *graph, uint32_t a, uint32_t b, struct weft_edge *edge)
{
    uint32_t found = 0, count;
    const uint32_t *edges = weft_graph_edges_of(graph, a, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (weft_edge_other(&graph->edges[edges[i]], a) != b)
            continue;
        found++;
        if (edge)
            *edge = graph->edges[edges[i]];
    }
    return found;
}

struct weft_edge topo_edge(const struct weft_graph *graph, const char *a, const char *b)
{
    struct weft_edge edge = {0};
    assert_int_equal(topo_joins(graph, topo_node(graph, a), topo_node(graph, b), &edge), 1);
    return edge;
}

void topo_leads(const struct weft_graph *graph, const char *edges)
{
    char said[4096] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct weft_edge *edge = &graph->edges[i];
        assert_int_equal(edge->kind, WEFT_EDGE_FABRIC);
        assert_int_equal(edge->flags, WEFT_EDGE_LINKS_UNKNOWN);
        assert_int_equal(edge->links, 1);
        assert_int_equal(edge->bytes_per_s, 0);
        assert_int_equal(edge->port_a, -1);
        assert_int_equal(graph->nodes[edge->b].kind, WEFT_NODE_SWITCH);
        used += (size_t)snprintf(said + used, sizeof said - used, "%s%s>%s", used ? " " : "",
                                 graph->nodes[edge->b].name, graph->nodes[edge->a].name);
        assert_true(used < sizeof said);
    }
    assert_string_equal(said, edges);
}

const struct weft_node *topo_named(const struct weft_graph *graph, const char *name)
{
    const struct weft_node *found = NULL;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].name, name) == 0) {
            assert_null(found);
            found = &graph->nodes[i];
        }
    }
    if (!found)
        print_message("no node \"%s\"\n", name);
    assert_non_null(found);
    return found;
}

const char *topo_parent_name(const struct weft_graph *graph, const char *name)
{
    return graph->nodes[topo_named(graph, name)->parent].name;
}

const char *topo_attribute(const struct weft_graph *graph, const char *name, const char *key)
{
    const char *value = weft_graph_attribute(graph, (uint32_t)(topo_named(graph, name) - graph->nodes), key);
    return value ? value : "(none)";
}

uint64_t topo_uplink(const struct weft_graph *graph, const char *name)
{
    return graph->edges[topo_named(graph, name)->parent_edge].bytes_per_s;
}

void topo_shows(const char *text, const char *format, const char *joins, const char *warning)
{
    struct weft_graph *graph = topo_read(text);
    assert_string_equal(graph->format, format);
    topo_leads(graph, joins);
    assert_int_equal(graph->warning_count, warning != NULL);
    if (warning)
        assert_string_equal(graph->warnings[0], warning);
    weft_graph_free(graph);
}
