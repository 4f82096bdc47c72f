/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "topo/discover/discover.h"
#include "topo/read.h"
#include "topo/tool/collect.h"
#include "topo/tool/tool.h"

/* What is odd in the file is said, whatever becomes of it. */
static int input_read(const char *path, FILE *notes, struct weft_graph **graph)
{
    char clean[1024];
    int status = weft_topo_read_any(path, graph);
    for (uint32_t i = 0; status == WEFT_OK && i < (*graph)->warning_count; i++)
        fprintf(notes, "weft-topo: warning: %s\n",
                weft_topo_clean((*graph)->warnings[i], clean, sizeof clean));
    return status;
}

/* Puts what `path` describes beside what `all` has; the kind of file is told as long as it is the same for all. */
static int machine_add(const char *path, FILE *notes, struct weft_graph *all)
{
    struct weft_graph *one;
    int status = input_read(path, notes, &one);
    if (status != WEFT_OK)
        return status;
    const char *format = all->node_count == 0 ? one->format : all->format;
    if (strcmp(format, one->format) != 0)
        format = "several kinds";
    all->format = weft_graph_string(all, format);
    status = all->format ? weft_topo_collect(one, WEFT_NODE_NONE, all)
                         : weft_fail(WEFT_NOMEM, "no memory for the graph of several machines");
    weft_graph_free(one);
    return status;
}

/* Several machines in one graph. */
static int merge(const char *const *machines, uint32_t count, FILE *notes, struct weft_graph **graph)
{
    struct weft_graph *all;
    char source[32];
    snprintf(source, sizeof source, "%" PRIu32 " inputs", count);
    int status = weft_graph_new(source, "", &all);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++)
        status = machine_add(machines[i], notes, all);
    if (status == WEFT_OK)
        status = weft_graph_finish(all);
    if (status != WEFT_OK) {
        weft_graph_free(all);
        return status;
    }
    *graph = all;
    return WEFT_OK;
}

static int machines_read(const struct weft_topo_inputs *inputs, FILE *notes, struct weft_graph **graph)
{
    if (inputs->machine_count == 0)
        return weft_topo_discover(graph);
    if (inputs->machine_count == 1)
        return input_read(inputs->machines[0], notes, graph);
    return merge(inputs->machines, inputs->machine_count, notes, graph);
}

/* Puts the fabric under the machines: *graph becomes both. */
static int fabric_add(const struct weft_topo_inputs *inputs, FILE *notes, struct weft_graph **graph)
{
    struct weft_graph *fabric, *both;
    uint32_t joined, added;
    int status = input_read(inputs->fabric, notes, &fabric);
    if (status != WEFT_OK)
        return status;
    status = weft_fabric_lay(*graph, fabric, inputs->everywhere, &both, &joined, &added);
    weft_graph_free(fabric);
    if (status != WEFT_OK)
        return status;
    weft_graph_free(*graph);
    *graph = both;
    fprintf(notes, "weft-topo: fabric ");
    weft_topo_put(notes, inputs->fabric);
    fprintf(notes, ": %" PRIu32 " %s joined to its switches, %" PRIu32 " %s that no machine describes\n",
            joined, joined == 1 ? "port" : "ports", added, added == 1 ? "host" : "hosts");
    return WEFT_OK;
}

static uint32_t host_find(const struct weft_graph *graph, const char *name)
{
    for (uint32_t at = weft_graph_first(graph, WEFT_NODE_NONE); at != WEFT_NODE_NONE;
         at = graph->nodes[at].sibling_next) {
        if (graph->nodes[at].kind == WEFT_NODE_HOST && strcmp(graph->nodes[at].name, name) == 0)
            return at;
    }
    return WEFT_NODE_NONE;
}

/* "a, b, c, ...": the first hosts, for a message. */
static void hosts_list(const struct weft_graph *graph, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t at = weft_graph_first(graph, WEFT_NODE_NONE); at != WEFT_NODE_NONE && used + 64 < size;
         at = graph->nodes[at].sibling_next) {
        if (graph->nodes[at].kind != WEFT_NODE_HOST)
            continue;
        const char *more = used + 128 < size ? "" : ", ...";
        used += (size_t)snprintf(text + used, size - used, "%s%.48s%s", used ? ", " : "",
                                 graph->nodes[at].name, more);
    }
}

/* Leaves only the host of that name in *graph. */
static int host_only(const char *name, struct weft_graph **graph)
{
    struct weft_graph *one;
    uint32_t host = host_find(*graph, name);
    if (host == WEFT_NODE_NONE) {
        char list[384];
        hosts_list(*graph, list, sizeof list);
        return weft_fail(WEFT_INVALID, "--host '%.200s': there is no such host%s%s", name,
                         *list ? "; there is " : " nor another", list);
    }
    int status = weft_graph_new((*graph)->source, (*graph)->format, &one);
    if (status != WEFT_OK)
        return status;
    status = weft_topo_collect(*graph, host, one);
    if (status == WEFT_OK)
        status = weft_graph_finish(one);
    if (status != WEFT_OK) {
        weft_graph_free(one);
        return status;
    }
    weft_graph_free(*graph);
    *graph = one;
    return WEFT_OK;
}

int weft_topo_inputs_read(const struct weft_topo_inputs *inputs, FILE *notes, struct weft_graph **graph)
{
    struct weft_graph *read;
    int status = machines_read(inputs, notes, &read);
    if (status != WEFT_OK)
        return status;
    if (inputs->fabric)
        status = fabric_add(inputs, notes, &read);
    if (status == WEFT_OK && inputs->host)
        status = host_only(inputs->host, &read);
    if (status != WEFT_OK) {
        weft_graph_free(read);
        return status;
    }
    *graph = read;
    return WEFT_OK;
}
