/* SPDX-License-Identifier: Apache-2.0 */
/* How near everything is to everything: a table per host, in the words of nvidia-smi topo -m. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/json_say.h"
#include "topo/tool/tool.h"

enum { HOSTS_MAX = 16, DEVICES_MAX = 512, HEAD_COLUMNS = 8, WORD_COLUMNS = 4 };

struct devices {
    uint32_t *nodes;
    uint32_t count;
};

/* GPUs, NICs and NUMA nodes of the host, in this order, each in the order of the tree. */
static int devices_find(const struct weft_graph *graph, uint32_t host, struct devices *devices)
{
    static const enum weft_node_kind kinds[] = {WEFT_NODE_GPU, WEFT_NODE_NIC, WEFT_NODE_NUMA};
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        count += weft_graph_count_below(graph, host, kinds[i]);
    if (count > DEVICES_MAX)
        return weft_fail(WEFT_UNSUPPORTED,
                         "host '%.200s' has %" PRIu64 " GPUs, NICs and NUMA nodes: a matrix takes at most %d",
                         graph->nodes[host].name, count, DEVICES_MAX);
    devices->count = 0;
    devices->nodes = malloc((count + 1) * sizeof *devices->nodes);
    if (!devices->nodes)
        return weft_fail(WEFT_NOMEM, "no memory for a matrix of %" PRIu64 " devices", count);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint32_t node = WEFT_NODE_NONE;
        while ((node = weft_graph_next_below(graph, host, kinds[i], node)) != WEFT_NODE_NONE)
            devices->nodes[devices->count++] = node;
    }
    return WEFT_OK;
}

static char *label(const struct weft_graph *graph, uint32_t index, char text[WEFT_NAME_SIZE_MAX])
{
    const struct weft_node *node = &graph->nodes[index];
    if (node->kind == WEFT_NODE_NUMA && node->index >= 0) {
        snprintf(text, WEFT_NAME_SIZE_MAX, "NUMA%" PRId32, node->index);
        return text;
    }
    return weft_topo_clean(node->name, text, WEFT_NAME_SIZE_MAX);
}

static size_t put_padded(FILE *file, const char *text, size_t width)
{
    size_t columns = weft_topo_columns(text);
    fprintf(file, "%s%*s", text, (int)(columns < width ? width - columns : 0), "");
    return columns;
}

/* The head of a column: the name, or its number where the name is long; the row has both then. */
static char *head(const struct weft_graph *graph, const struct devices *devices, uint32_t at,
                  char text[WEFT_NAME_SIZE_MAX])
{
    if (weft_topo_columns(label(graph, devices->nodes[at], text)) > HEAD_COLUMNS)
        snprintf(text, WEFT_NAME_SIZE_MAX, "[%" PRIu32 "]", at);
    return text;
}

static char *row_name(const struct weft_graph *graph, const struct devices *devices, uint32_t at,
                      char text[WEFT_TOPO_NAME_SIZE])
{
    char name[WEFT_NAME_SIZE_MAX], number[WEFT_NAME_SIZE_MAX];
    label(graph, devices->nodes[at], name);
    head(graph, devices, at, number);
    snprintf(text, WEFT_TOPO_NAME_SIZE, strcmp(name, number) ? "%s %s" : "%s", name, number);
    return text;
}

static void row_put(const struct weft_graph *graph, const struct devices *devices, uint32_t row,
                    unsigned *seen, FILE *file)
{
    char text[WEFT_NAME_SIZE_MAX];
    for (uint32_t column = 0; column < devices->count; column++) {
        size_t width = weft_topo_columns(head(graph, devices, column, text));
        int last = column + 1 == devices->count;
        const char *word = "X";
        if (row != column) {
            enum weft_path_class path_class =
                weft_path_classify(graph, devices->nodes[row], devices->nodes[column]);
            word = weft_path_class_name(path_class);
            *seen |= 1u << path_class;
        }
        fprintf(file, "  ");
        put_padded(file, word, last ? 0 : width > WORD_COLUMNS ? width : WORD_COLUMNS);
    }
    fprintf(file, "\n");
}

/* Returns the classes that occur, as bits. */
static unsigned table_put(const struct weft_graph *graph, const struct devices *devices, FILE *file)
{
    char text[WEFT_TOPO_NAME_SIZE];
    size_t first = 0;
    unsigned seen = 0;
    for (uint32_t i = 0; i < devices->count; i++) {
        size_t columns = weft_topo_columns(row_name(graph, devices, i, text));
        first = columns > first ? columns : first;
    }
    fprintf(file, "%*s", (int)first, "");
    for (uint32_t i = 0; i < devices->count; i++) {
        fprintf(file, "  ");
        put_padded(file, head(graph, devices, i, text), i + 1 == devices->count ? 0 : WORD_COLUMNS);
    }
    fprintf(file, "\n");
    for (uint32_t row = 0; row < devices->count; row++) {
        put_padded(file, row_name(graph, devices, row, text), first);
        row_put(graph, devices, row, &seen, file);
    }
    return seen;
}

static void legend_put(unsigned seen, FILE *file)
{
    fprintf(file, "  X     itself\n");
    for (int i = 0; i < WEFT_PATH_CLASS_COUNT; i++) {
        if (seen & 1u << i)
            fprintf(file, "  %-4s  %s\n", weft_path_class_name((enum weft_path_class)i),
                    weft_path_class_text((enum weft_path_class)i));
    }
}

static json_t *device_json(const struct weft_graph *graph, uint32_t index)
{
    const struct weft_node *node = &graph->nodes[index];
    return json_pack("{s:i, s:s, s:o, s:o}", "id", (int)index, "kind",
                     weft_node_kind_name((enum weft_node_kind)node->kind), "name", weft_json_text(node->name),
                     "pci", weft_json_text(node->pci));
}

static json_t *host_json(const struct weft_graph *graph, uint32_t host, const struct devices *devices)
{
    json_t *list = json_array(), *rows = json_array();
    for (uint32_t row = 0; row < devices->count; row++) {
        json_t *words = json_array();
        json_array_append_new(list, device_json(graph, devices->nodes[row]));
        for (uint32_t column = 0; column < devices->count; column++) {
            enum weft_path_class path_class =
                weft_path_classify(graph, devices->nodes[row], devices->nodes[column]);
            json_array_append_new(words, json_string(weft_path_class_name(path_class)));
        }
        json_array_append_new(rows, words);
    }
    return json_pack("{s:o, s:o, s:o}", "host", weft_json_text(graph->nodes[host].name), "devices", list,
                     "classes", rows);
}

/* One host, in either form. */
static int host_put(const struct weft_graph *graph, uint32_t host, int several, unsigned *seen, json_t *list,
                    FILE *file)
{
    struct devices devices;
    int status = devices_find(graph, host, &devices);
    if (status != WEFT_OK)
        return status;
    if (list) {
        json_array_append_new(list, host_json(graph, host, &devices));
    } else {
        if (several) {
            fprintf(file, "host ");
            weft_topo_put(file, graph->nodes[host].name);
            fprintf(file, "\n");
        }
        if (devices.count)
            *seen |= table_put(graph, &devices, file);
        else
            fprintf(file, "no GPUs, NICs or NUMA nodes are known\n");
        if (several || devices.count) /* the next host, or the legend */
            fprintf(file, "\n");
    }
    free(devices.nodes);
    return WEFT_OK;
}

int weft_topo_matrix(const struct weft_graph *graph, int json, FILE *file)
{
    unsigned seen = 0;
    uint32_t hosts = weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST);
    if (hosts == 0)
        return weft_fail(WEFT_INVALID, "there is no host to make a matrix of");
    if (hosts > HOSTS_MAX)
        return weft_fail(WEFT_INVALID, "there are %" PRIu32 " hosts: choose one with --host NAME", hosts);
    json_t *list = json ? json_array() : NULL;
    int status = WEFT_OK;
    for (uint32_t host = weft_graph_first(graph, WEFT_NODE_NONE); status == WEFT_OK && host != WEFT_NODE_NONE;
         host = graph->nodes[host].sibling_next) {
        if (graph->nodes[host].kind == WEFT_NODE_HOST)
            status = host_put(graph, host, hosts > 1, &seen, list, file);
    }
    if (status == WEFT_OK && json) {
        json_t *root = weft_json_head(graph, "matrix");
        json_object_set(root, "hosts", list);
        status = weft_json_put(root, file);
    } else if (status == WEFT_OK && seen) {
        legend_put(seen, file);
    }
    json_decref(list);
    return status;
}
