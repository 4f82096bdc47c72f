/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/tool/tool.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

/* --- cleaning -------------------------------------------------------------------------------------------- */

size_t weft_topo_clean_one(const char **text, char out[4])
{
    size_t length = weft_text_character_bytes(*text);
    if (length == 0) {
        *text += 1;
        out[0] = '?';
        return 1;
    }
    memcpy(out, *text, length);
    *text += length;
    return length;
}

char *weft_topo_clean(const char *text, char *clean, size_t size)
{
    size_t used = 0;
    while (*text) {
        char one[4];
        size_t length = weft_topo_clean_one(&text, one);
        if (used + length + 1 > size)
            break;
        memcpy(clean + used, one, length);
        used += length;
    }
    clean[used] = '\0';
    return clean;
}

void weft_topo_put(FILE *file, const char *text)
{
    while (*text) {
        char one[4];
        size_t length = weft_topo_clean_one(&text, one);
        fwrite(one, 1, length, file);
    }
}

size_t weft_topo_columns(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

/* --- amounts --------------------------------------------------------------------------------------------- */

/* Three digits are enough to compare by: 0.25, 31.5, 400. */
static char *amount(double value, const char *unit, char text[WEFT_TOPO_AMOUNT_SIZE])
{
    int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(text, WEFT_TOPO_AMOUNT_SIZE, "%.*f", digits, value);
    if (digits) {
        char *end = text + strlen(text) - 1;
        while (*end == '0')
            *end-- = '\0';
        if (*end == '.')
            *end = '\0';
    }
    snprintf(text + strlen(text), WEFT_TOPO_AMOUNT_SIZE - strlen(text), " %s", unit);
    return text;
}

char *weft_topo_rate(uint64_t bytes_per_s, char text[WEFT_TOPO_AMOUNT_SIZE])
{
    if (bytes_per_s == 0)
        return strcpy(text, "unknown");
    if (bytes_per_s < 10000000)
        return amount((double)bytes_per_s / 1e6, "MB/s", text);
    return amount((double)bytes_per_s / 1e9, "GB/s", text);
}

char *weft_topo_bits(uint64_t bytes_per_s, char text[WEFT_TOPO_AMOUNT_SIZE])
{
    if (bytes_per_s == 0)
        return strcpy(text, "unknown");
    if (bytes_per_s < 125000000)
        return amount((double)bytes_per_s / 125000, "Mb/s", text);
    return amount((double)bytes_per_s / 125e6, "Gb/s", text);
}

char *weft_topo_time(uint64_t nanoseconds, char text[WEFT_TOPO_AMOUNT_SIZE])
{
    if (nanoseconds == 0)
        return strcpy(text, "unknown");
    if (nanoseconds < 1000) {
        snprintf(text, WEFT_TOPO_AMOUNT_SIZE, "%" PRIu64 " ns", nanoseconds);
        return text;
    }
    return amount((double)nanoseconds / 1e3, "us", text);
}

/* --- nodes and edges ------------------------------------------------------------------------------------- */

static int has_several_hosts(const struct weft_graph *graph)
{
    int hosts = 0;
    for (uint32_t root = weft_graph_first(graph, WEFT_NODE_NONE); root != WEFT_NODE_NONE && hosts < 2;
         root = graph->nodes[root].sibling_next)
        hosts += graph->nodes[root].kind == WEFT_NODE_HOST;
    return hosts > 1;
}

char *weft_topo_name(const struct weft_graph *graph, uint32_t node, char text[WEFT_TOPO_NAME_SIZE])
{
    const struct weft_node *at = &graph->nodes[node];
    char own[WEFT_NAME_SIZE_MAX], above[WEFT_NAME_SIZE_MAX] = "";
    if (at->host != WEFT_NODE_NONE && at->host != node && has_several_hosts(graph))
        weft_topo_clean(graph->nodes[at->host].name, above, sizeof above);
    size_t used = 0;
    if (*above)
        used = (size_t)snprintf(text, WEFT_TOPO_NAME_SIZE, "%s/", above);
    if (at->kind == WEFT_NODE_PORT && at->parent != WEFT_NODE_NONE && at->index >= 0)
        snprintf(text + used, WEFT_TOPO_NAME_SIZE - used, "%s port %d",
                 weft_topo_clean(graph->nodes[at->parent].name, own, sizeof own / 2), at->index);
    else
        snprintf(text + used, WEFT_TOPO_NAME_SIZE - used, "%s", weft_topo_clean(at->name, own, sizeof own));
    return text;
}

char *weft_topo_edge(const struct weft_edge *edge, char text[WEFT_TOPO_EDGE_SIZE])
{
    static const char *const kinds[] = {[WEFT_EDGE_LOCAL] = "inside",
                                        [WEFT_EDGE_PCI] = "PCI",
                                        [WEFT_EDGE_SOCKET] = "between NUMA nodes",
                                        [WEFT_EDGE_GPU_LINK] = "GPU link",
                                        [WEFT_EDGE_FABRIC] = "cable"};
    const char *kind = edge->kind < WEFT_EDGE_KIND_COUNT ? kinds[edge->kind] : "link";
    char links[32] = "";
    if (edge->flags & WEFT_EDGE_C2C)
        kind = "NVLink-C2C";
    else if (edge->flags & WEFT_EDGE_NVLINK)
        kind = "NVLink";
    else if (edge->flags & WEFT_EDGE_XGMI)
        kind = "xGMI";
    else if (edge->flags & WEFT_EDGE_XE)
        kind = "Xe Link";
    if (edge->flags & WEFT_EDGE_LINKS_UNKNOWN)
        snprintf(links, sizeof links, ", number of links unknown");
    else if (edge->links > 1)
        snprintf(links, sizeof links, " x%" PRIu32, edge->links);
    snprintf(text, WEFT_TOPO_EDGE_SIZE, "%s%s%s%s", kind, links,
             edge->flags & WEFT_EDGE_NVSWITCH ? " through NVSwitch" : "",
             edge->flags & WEFT_EDGE_DOWN ? ", down" : "");
    return text;
}
