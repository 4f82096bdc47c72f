/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/tool/collect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/copy.h"

/* --- names of roots -------------------------------------------------------------------------------------- */

struct names {
    const char **sorted;
    uint32_t count;
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static uint32_t root_count(const struct weft_graph *graph)
{
    uint32_t count = 0;
    for (uint32_t at = weft_graph_first(graph, WEFT_NODE_NONE); at != WEFT_NODE_NONE;
         at = graph->nodes[at].sibling_next)
        count++;
    return count;
}

static void names_take(struct names *names, const struct weft_graph *graph)
{
    for (uint32_t at = weft_graph_first(graph, WEFT_NODE_NONE); at != WEFT_NODE_NONE;
         at = graph->nodes[at].sibling_next)
        names->sorted[names->count++] = graph->nodes[at].name;
}

/* The names of both graphs' roots. Strings stay the graphs'. */
static int names_make(struct names *names, const struct weft_graph *from, const struct weft_graph *to)
{
    names->count = 0;
    names->sorted = malloc(((size_t)root_count(from) + root_count(to) + 1) * sizeof *names->sorted);
    if (!names->sorted)
        return weft_fail(WEFT_NOMEM, "no memory for the names of hosts");
    names_take(names, to);
    names_take(names, from);
    qsort(names->sorted, names->count, sizeof *names->sorted, compare);
    return WEFT_OK;
}

/* How many roots have the name: 0, 1 or 2, as either graph's are unique. */
static int names_having(const struct names *names, const char *name)
{
    const char **found = bsearch(&name, names->sorted, names->count, sizeof *names->sorted, compare);
    if (!found)
        return 0;
    size_t at = (size_t)(found - names->sorted);
    return (at > 0 && strcmp(found[-1], name) == 0) || (at + 1 < names->count && strcmp(found[1], name) == 0)
               ? 2
               : 1;
}

/* A name of which neither graph has a root: `free` when `name` is taken in `to` as well as in `from`. */
static int name_choose(const struct names *names, const char *name, char free_name[WEFT_NAME_SIZE_MAX])
{
    snprintf(free_name, WEFT_NAME_SIZE_MAX, "%s", name);
    if (names_having(names, name) < 2)
        return WEFT_OK;
    for (uint32_t number = 2; number <= names->count + 2; number++) {
        int length = snprintf(free_name, WEFT_NAME_SIZE_MAX, "%s-%" PRIu32, name, number);
        if (length >= WEFT_NAME_SIZE_MAX)
            break;
        if (names_having(names, free_name) == 0)
            return WEFT_OK;
    }
    return weft_fail(WEFT_INVALID, "host '%.200s' is described twice, and has no shorter name", name);
}

/* --- the copy -------------------------------------------------------------------------------------------- */

/* Every root, or the host alone. */
static int roots_copy(const struct weft_graph *from, uint32_t host, const struct names *names,
                      struct weft_graph *to, uint32_t *copies)
{
    char name[WEFT_NAME_SIZE_MAX];
    int status = WEFT_OK;
    for (uint32_t root = weft_graph_first(from, WEFT_NODE_NONE); status == WEFT_OK && root != WEFT_NODE_NONE;
         root = from->nodes[root].sibling_next) {
        if (host != WEFT_NODE_NONE && root != host)
            continue;
        status = name_choose(names, from->nodes[root].name, name);
        if (status == WEFT_OK)
            status = weft_copy_tree(from, root, name, to, copies);
    }
    return status;
}

int weft_topo_collect(const struct weft_graph *from, uint32_t host, struct weft_graph *to)
{
    struct names names;
    int status = names_make(&names, from, to);
    if (status != WEFT_OK)
        return status;
    uint32_t *copies = malloc(((size_t)from->node_count + 1) * sizeof *copies);
    if (!copies)
        status = weft_fail(WEFT_NOMEM, "no memory to copy %" PRIu32 " nodes", from->node_count);
    for (uint32_t i = 0; copies && i < from->node_count; i++)
        copies[i] = WEFT_NODE_NONE;
    if (status == WEFT_OK)
        status = roots_copy(from, host, &names, to, copies);
    if (status == WEFT_OK)
        status = weft_copy_edges(from, copies, NULL, to);
    free(copies);
    free(names.sorted);
    return status;
}
