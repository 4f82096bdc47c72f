/* SPDX-License-Identifier: Apache-2.0 */
/* Joins are sorted by upper end, which brings those that are told twice together, and gives each switch the list of what is
 * below it. Circles show when ends are taken off from the top (A. B. Kahn, "Topological sorting of large networks", 1962):
 * what is never free of uppers lies on a circle or below one, and going up from there leads into it. No recursion, and
 * time that grows with the text (times the logarithm of its joins, for the sorting). */
#include "topo/files/named.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/files/hostlist.h"

static int no_memory(void)
{
    return weft_fail(WEFT_NOMEM, "no memory for the names of a topology");
}

void weft_named_open(const struct weft_text *text, struct weft_graph *graph, struct weft_named *named)
{
    *named = (struct weft_named){.text = text, .graph = graph, .budget = WEFT_HOSTLIST_NAMES_MAX};
}

void weft_named_close(struct weft_named *named)
{
    weft_names_free(&named->names);
    free(named->nodes);
    free(named->joins);
}

static int grow(void **array, uint32_t count, uint32_t *room, size_t item)
{
    if (count < *room)
        return 0;
    uint32_t more = *room ? *room * 2 : 64;
    void *grown = more > WEFT_EDGES_MAX ? NULL : realloc(*array, more * item);
    if (!grown)
        return no_memory();
    *array = grown;
    *room = more;
    return 0;
}

/* The graph's copy of a name that every output can show as it is, so that different names stay different. */
static int name_copy(struct weft_named *named, struct weft_span name, size_t line, const char **copy)
{
    char text[WEFT_NAME_SIZE_MAX];
    if (!name.size)
        return weft_read_fail(named->text, line, "an empty name, expected that of a switch or node");
    if (name.size >= sizeof text)
        return weft_read_fail(named->text, line,
                              "the name \"%.*s...\" has %zu bytes, at most %d are expected",
                              WEFT_SPAN_SHOWN(name), name.size, WEFT_NAME_SIZE_MAX - 1);
    for (size_t i = 0; i < name.size; i++) {
        unsigned char letter = (unsigned char)name.data[i];
        if (letter <= ' ' || letter == 0x7f || letter == '[' || letter == ']' || letter == ',')
            return weft_read_fail(named->text, line,
                                  "the name \"%.*s\" has a blank, bracket, comma or control character in it",
                                  WEFT_SPAN_SHOWN(name));
    }
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    *copy = weft_graph_string(named->graph, text);
    return *copy ? 0 : no_memory();
}

static int add_node(struct weft_named *named, struct weft_span name, int is_host, size_t line,
                    uint32_t *which)
{
    const char *copy = NULL;
    int status = grow((void **)&named->nodes, named->count, &named->room, sizeof *named->nodes);
    if (!status)
        status = name_copy(named, name, line, &copy);
    if (status)
        return status;
    struct weft_named_node made = {.line = (uint32_t)line, .is_host = is_host != 0};
    struct weft_node_given given =
        WEFT_NODE_GIVEN(is_host ? WEFT_NODE_HOST : WEFT_NODE_SWITCH, WEFT_NODE_NONE, copy);
    status = weft_graph_add_node(named->graph, &given, &made.node);
    if (!status)
        status = weft_names_put(&named->names, (struct weft_span){copy, name.size}, named->count, which);
    if (status)
        return status;
    named->nodes[named->count++] = made;
    return 0;
}

int weft_named_find(struct weft_named *named, struct weft_span name, int is_host, size_t line,
                    uint32_t *which)
{
    uint32_t found;
    if (!weft_names_find(&named->names, name, &found))
        return add_node(named, name, is_host, line, which);
    const struct weft_named_node *node = &named->nodes[found];
    if (node->is_host != (is_host != 0))
        return weft_read_fail(named->text, line, "\"%.*s\" is a %s here and a %s in line %u",
                              WEFT_SPAN_SHOWN(name), is_host ? "node" : "switch", is_host ? "switch" : "node",
                              node->line);
    *which = found;
    return 0;
}

int weft_named_join(struct weft_named *named, uint32_t upper, uint32_t lower, size_t line)
{
    if (upper == lower)
        return weft_read_fail(named->text, line, "switch \"%s\" stands below itself",
                              named->graph->nodes[named->nodes[upper].node].name);
    int status = grow((void **)&named->joins, named->join_count, &named->join_room, sizeof *named->joins);
    if (status)
        return status;
    named->joins[named->join_count++] = (struct weft_named_join){upper, lower, (uint32_t)line};
    return 0;
}

int weft_named_attribute(struct weft_named *named, uint32_t which, const char *name, struct weft_span value)
{
    char text[1024];
    if (value.size >= sizeof text)
        return weft_fail(WEFT_INVALID, "%.300s: the value of %.60s has %zu bytes, at most %zu are expected",
                         named->text->name, name, value.size, sizeof text - 1);
    if (value.size)
        memcpy(text, value.data, value.size);
    text[value.size] = '\0';
    return weft_graph_set_attribute(named->graph, named->nodes[which].node, name, text);
}

static int compare_joins(const void *a, const void *b)
{
    const struct weft_named_join *one = a, *other = b;
    if (one->upper != other->upper)
        return one->upper < other->upper ? -1 : 1;
    if (one->lower != other->lower)
        return one->lower < other->lower ? -1 : 1;
    return one->line < other->line ? -1 : one->line > other->line;
}

static void drop_repeated(struct weft_named *named)
{
    struct weft_named_join *joins = named->joins;
    uint32_t kept = 0;
    if (named->join_count)
        qsort(joins, named->join_count, sizeof *joins, compare_joins);
    for (uint32_t i = 0; i < named->join_count; i++) {
        if (!kept || joins[kept - 1].upper != joins[i].upper || joins[kept - 1].lower != joins[i].lower)
            joins[kept++] = joins[i];
    }
    named->join_count = kept;
}

/* Names a switch of the circle that has kept `uppers` of some nodes from reaching 0. */
static int fail_circle(const struct weft_named *named, const uint32_t *uppers, uint32_t *above)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < named->join_count; i++) {
        const struct weft_named_join *join = &named->joins[i];
        if (uppers[join->upper] && uppers[join->lower]) {
            above[join->lower] = i;
            at = join->lower;
        }
    }
    for (uint32_t steps = 0; steps < named->count; steps++)
        at = named->joins[above[at]].upper;
    const struct weft_named_join *join = &named->joins[above[at]];
    return weft_read_fail(named->text, join->line, "switch \"%s\" stands below itself, by way of \"%s\"",
                          named->graph->nodes[named->nodes[join->lower].node].name,
                          named->graph->nodes[named->nodes[join->upper].node].name);
}

/* room: three numbers for each node. */
static int check_circles(const struct weft_named *named, uint32_t *room)
{
    uint32_t *uppers = room, *first = room + named->count, *free_ones = first + named->count;
    uint32_t waiting = 0, done = 0;
    for (uint32_t i = named->join_count; i-- > 0;) {
        uppers[named->joins[i].lower]++;
        first[named->joins[i].upper] = i;
    }
    for (uint32_t i = 0; i < named->count; i++) {
        if (!uppers[i])
            free_ones[waiting++] = i;
    }
    for (; done < waiting; done++) {
        uint32_t at = free_ones[done];
        for (uint32_t i = first[at]; i < named->join_count && named->joins[i].upper == at; i++) {
            uint32_t lower = named->joins[i].lower;
            if (--uppers[lower] == 0)
                free_ones[waiting++] = lower;
        }
    }
    return done == named->count ? 0 : fail_circle(named, uppers, first);
}

int weft_named_finish(struct weft_named *named)
{
    if (!named->count)
        return weft_read_fail(named->text, 0, "has no switch and no node");
    drop_repeated(named);
    uint32_t *room = calloc(named->count, 3 * sizeof *room);
    if (!room)
        return no_memory();
    int status = check_circles(named, room);
    free(room);
    for (uint32_t i = 0; i < named->join_count && !status; i++) {
        const struct weft_named_join *join = &named->joins[i];
        struct weft_edge edge = {.a = named->nodes[join->lower].node,
                                 .b = named->nodes[join->upper].node,
                                 .kind = WEFT_EDGE_FABRIC,
                                 .flags = WEFT_EDGE_LINKS_UNKNOWN,
                                 .links = 1,
                                 .port_a = -1,
                                 .port_b = -1};
        status = weft_graph_add_edge(named->graph, &edge, NULL);
    }
    return status;
}
