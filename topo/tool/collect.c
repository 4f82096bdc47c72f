/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/tool/collect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/copy.h"
#include "topo/files/names.h"

/* --- names of roots -------------------------------------------------------------------------------------- */

static struct weft_span span_of(const char *name)
{
    return (struct weft_span){name, strlen(name)};
}

/* Counts the graph's roots by name; *roots counts all. Strings stay the graph's. */
static int names_take(struct weft_names *names, const struct weft_graph *graph, uint32_t *roots)
{
    uint32_t count;
    for (uint32_t at = weft_graph_first(graph, WEFT_NODE_NONE); at != WEFT_NODE_NONE;
         at = graph->nodes[at].sibling_next, ++*roots) {
        struct weft_span name = span_of(graph->nodes[at].name);
        if (weft_names_find(names, name, &count))
            weft_names_change(names, name, count + 1);
        else if (weft_names_put(names, name, 1, &count) != WEFT_OK)
            return WEFT_NOMEM;
    }
    return WEFT_OK;
}

/* A name of which neither graph has a root: `free` when `name` is taken in `to` as well as in `from`. */
static int name_choose(const struct weft_names *names, uint32_t roots, const char *name,
                       char free_name[WEFT_NAME_SIZE_MAX])
{
    uint32_t count = 0;
    snprintf(free_name, WEFT_NAME_SIZE_MAX, "%s", name);
    weft_names_find(names, span_of(name), &count);
    if (count < 2)
        return WEFT_OK;
    for (uint32_t number = 2; number <= roots + 2; number++) {
        int length = snprintf(free_name, WEFT_NAME_SIZE_MAX, "%s-%" PRIu32, name, number);
        if (length >= WEFT_NAME_SIZE_MAX)
            break;
        if (!weft_names_find(names, span_of(free_name), &count))
            return WEFT_OK;
    }
    return weft_fail(WEFT_INVALID, "host '%.200s' is described twice, and has no shorter name", name);
}

/* --- the copy -------------------------------------------------------------------------------------------- */

/* Every root, or the host alone. */
static int roots_copy(const struct weft_graph *from, uint32_t host, const struct weft_names *names,
                      uint32_t roots, struct weft_graph *to, uint32_t *copies)
{
    char name[WEFT_NAME_SIZE_MAX];
    int status = WEFT_OK;
    for (uint32_t root = weft_graph_first(from, WEFT_NODE_NONE); status == WEFT_OK && root != WEFT_NODE_NONE;
         root = from->nodes[root].sibling_next) {
        if (host != WEFT_NODE_NONE && root != host)
            continue;
        status = name_choose(names, roots, from->nodes[root].name, name);
        if (status == WEFT_OK)
            status = weft_copy_tree(from, root, name, to, copies);
    }
    return status;
}

int weft_topo_collect(const struct weft_graph *from, uint32_t host, struct weft_graph *to)
{
    struct weft_names names = {0};
    uint32_t roots = 0, *copies = malloc(((size_t)from->node_count + 1) * sizeof *copies);
    int status = copies ? names_take(&names, to, &roots)
                        : weft_fail(WEFT_NOMEM, "no memory to copy %" PRIu32 " nodes", from->node_count);
    if (status == WEFT_OK)
        status = names_take(&names, from, &roots);
    if (status == WEFT_OK) {
        memset(copies, 0xff, from->node_count * sizeof *copies); /* WEFT_NODE_NONE */
        status = roots_copy(from, host, &names, roots, to, copies);
    }
    if (status == WEFT_OK)
        status = weft_copy_edges(from, copies, NULL, to);
    free(copies);
    weft_names_free(&names);
    return status;
}
