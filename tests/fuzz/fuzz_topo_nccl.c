/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: NCCL's topology XML. What is read without complaint is a graph that keeps its own rules, is written, can
 * be read again, and then is written the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "topo/machines/nccl.h"
#include "topo/read.h"
#include "topo/report/nccl_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct weft_graph *read_one(const char *data, size_t size)
{
    struct weft_text text = {"fuzz.xml", data, size};
    struct weft_graph *graph;
    if (weft_graph_new(text.name, "NCCL XML", &graph))
        return NULL;
    if (weft_read_nccl(&text, graph) == 0 && weft_graph_finish(graph) == 0)
        return graph;
    weft_graph_free(graph);
    return NULL;
}

static char *write_one(const struct weft_graph *graph, size_t *size)
{
    char *xml;
    if (weft_nccl_write(graph, WEFT_NODE_NONE, &xml, size))
        __builtin_trap();
    return xml;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_graph *first = read_one((const char *)data, size);
    if (!first)
        return 0;
    size_t first_size, second_size;
    char *first_xml = write_one(first, &first_size);
    struct weft_graph *second = read_one(first_xml, first_size);
    if (!second)
        __builtin_trap();
    char *second_xml = write_one(second, &second_size);
    if (first_size != second_size || memcmp(first_xml, second_xml, first_size) != 0)
        __builtin_trap();
    if (first->node_count != second->node_count || first->edge_count != second->edge_count)
        __builtin_trap();
    free(second_xml);
    weft_graph_free(second);
    free(first_xml);
    weft_graph_free(first);
    return 0;
}
