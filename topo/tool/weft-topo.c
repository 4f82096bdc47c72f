/* SPDX-License-Identifier: Apache-2.0 */
/* weft-topo: look at machines and the fabric between them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

#include "base/tool/version.h"
#include "topo/discover/discover.h"
#include "topo/read.h"
#include "topo/report/nccl_write.h"
#include "topo/tool/options.h"
#include "topo/tool/tool.h"

enum { EXIT_WRONG = 1, EXIT_USAGE = 2 };

static int xml(const struct weft_graph *graph, FILE *file)
{
    char *text;
    size_t size;
    uint32_t host = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST, WEFT_NODE_NONE);
    if (host != WEFT_NODE_NONE &&
        weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST, host) != WEFT_NODE_NONE)
        host = WEFT_NODE_NONE; /* several: all of them */
    int status = weft_nccl_write(graph, host, &text, &size);
    if (status != WEFT_OK)
        return status;
    fwrite(text, 1, size, file);
    free(text);
    return WEFT_OK;
}

static int show_graph(const struct weft_graph *graph, const struct weft_topo_options *options, FILE *file)
{
    switch (options->format) {
    case WEFT_TOPO_AS_JSON:
        return weft_topo_json(graph, file);
    case WEFT_TOPO_AS_XML:
        return xml(graph, file);
    case WEFT_TOPO_AS_DOT:
        return weft_topo_dot(graph, file);
    case WEFT_TOPO_AS_SVG:
        return weft_topo_svg(graph, file);
    default:
        return weft_topo_text(graph, options->all, file);
    }
}

static int show(const struct weft_graph *graph, const struct weft_topo_options *options, FILE *file)
{
    int json = options->format == WEFT_TOPO_AS_JSON;
    switch (options->view) {
    case WEFT_TOPO_MATRIX:
        return weft_topo_matrix(graph, json, file);
    case WEFT_TOPO_EXPLAIN:
        return weft_topo_explain(graph, options->explain[0], options->explain[1], json, file);
    case WEFT_TOPO_NIC_MAP:
        return weft_topo_nic_map(graph, file);
    case WEFT_TOPO_ORDER:
        return weft_topo_order(graph, &options->job, json, options->all, file);
    default:
        return show_graph(graph, options, file);
    }
}

static int failed(int status)
{
    char clean[1024];
    const char *detail = weft_error_detail();
    fprintf(stderr, "weft-topo: %s\n",
            weft_topo_clean(*detail ? detail : weft_strerror(status), clean, sizeof clean));
    return EXIT_WRONG;
}

static int run(const struct weft_topo_options *options)
{
    struct weft_graph *graph;
    int status = weft_topo_inputs_read(&options->inputs, stderr, &graph);
    if (status != WEFT_OK)
        return failed(status);
    status = show(graph, options, stdout);
    weft_graph_free(graph);
    return status == WEFT_OK ? 0 : failed(status);
}

int main(int argc, char **argv)
{
    static struct weft_topo_options options;
    int result = 0;
    weft_discover_begin();
    signal(SIGPIPE, SIG_IGN); /* a reader that left early is an error like a full disk, and said like it */
    if (weft_topo_options_parse(&options, argc, argv, stderr) != 0)
        return EXIT_USAGE;
    if (options.help)
        weft_topo_options_help(stdout);
    else if (options.version)
        weft_tool_version("weft-topo", stdout);
    else
        result = run(&options);
    if (ferror(stdout) | (fclose(stdout) != 0)) {
        fprintf(stderr, "weft-topo: cannot write the output\n");
        return EXIT_WRONG;
    }
    return result;
}
