/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: telling files apart, and whatever reader that leads to. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>
#include "topo/machines/nccl.h"
#include "topo/path.h"
#include "topo/readers.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* hwloc's is left to fuzz_topo_hwloc: it forks. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    weft_topo_read_machines_by(weft_topo_readers[WEFT_FORMAT_HWLOC].read, weft_read_nccl);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_text text = {"input", (const char *)data, size};
    struct weft_graph *graph = NULL;
    enum weft_topo_format format = weft_topo_detect(&text);
    if (format == WEFT_FORMAT_SYNTHETIC) /* fuzz_topo_synthetic's, with bounds */
        return 0;
    int status = weft_topo_read_text(&text, &graph);
    if ((status == 0) != (graph != NULL) || (status == 0 && format == WEFT_FORMAT_COUNT))
        __builtin_trap();
    if (status != 0 && (!*weft_error_detail() || strncmp(weft_error_detail(), "input:", 6) != 0))
        __builtin_trap();
    if (graph && graph->node_count) {
        struct weft_path path;
        (void)weft_path_find(graph, 0, graph->node_count - 1, &path);
        (void)weft_path_find(graph, graph->node_count / 2, graph->node_count / 3, &path);
    }
    weft_graph_free(graph);
    return 0;
}
