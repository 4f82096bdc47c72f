/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rank has its NIC and why it stands where it does, in words. */
#include "topo/order.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topo/path.h"

/* Appends to text, cut at size. */
__attribute__((format(printf, 4, 5))) static void say(char *text, size_t size, size_t *used,
                                                      const char *format, ...)
{
    va_list arguments;
    if (*used + 1 >= size)
        return;
    va_start(arguments, format);
    int length = vsnprintf(text + *used, size - *used, format, arguments);
    va_end(arguments);
    *used = length < 0 ? *used : *used + (size_t)length < size ? *used + (size_t)length : size - 1;
}

static void say_nic(const struct weft_graph *graph, const struct weft_place *places,
                    const struct weft_layout *layout, uint32_t rank, char *text, size_t size, size_t *used)
{
    const struct weft_place *place = &places[rank];
    const struct weft_nic_reason *reason = &layout->nic_reasons[rank];
    uint32_t port = layout->nic[rank];
    if (port == WEFT_NODE_NONE) {
        say(text, size, used, "rank %u: no NIC, as %s", rank,
            !graph || place->host == WEFT_NODE_NONE ? "its host is not in the graph"
            : reason->fit                           ? "it tells none that it uses"
                                                    : "its host has none that is up");
        return;
    }
    const struct weft_node *node = &graph->nodes[port];
    uint32_t nic = node->kind == WEFT_NODE_PORT ? node->parent : port;
    say(text, size, used, "rank %u: NIC %s", rank, graph->nodes[nic].name);
    if (node->kind == WEFT_NODE_PORT)
        say(text, size, used, " port %s", node->name);
    if (place->near == WEFT_NODE_NONE)
        say(text, size, used, ", as nothing tells where in its host it runs");
    else
        say(text, size, used, ", %s from %s",
            weft_path_class_name(weft_path_classify(graph, place->near, nic)),
            graph->nodes[place->near].name);
    if (node->bytes_per_s)
        say(text, size, used, ", %.3g GB/s", (double)node->bytes_per_s / 1e9);
    if (place->has_nic)
        say(text, size, used, "; its own choice");
    else
        say(text, size, used, "; one of %u that serve it equally", reason->equal);
    say(text, size, used, ", used by %u rank%s", reason->sharing, reason->sharing == 1 ? "" : "s");
}

static const char *group_name(const struct weft_graph *graph, const struct weft_group_span *group,
                              const struct weft_place *place)
{
    if (group->node != WEFT_NODE_NONE)
        return graph->nodes[group->node].name;
    return place->host_name && place->host == WEFT_NODE_NONE ? place->host_name : "?";
}

void weft_order_explain(const struct weft_graph *graph, const struct weft_place *places,
                        const struct weft_layout *layout, uint32_t rank, char *text, size_t size)
{
    static const char *const levels[] = {"job", "switch", "host", "NUMA node", "PCI switch"};
    size_t used = 0;
    if (size == 0)
        return;
    text[0] = 0;
    if (rank >= layout->ranks) {
        say(text, size, &used, "rank %u: there are %u", rank, layout->ranks);
        return;
    }
    say_nic(graph, places, layout, rank, text, size, &used);
    uint32_t at = layout->position[rank], after = layout->order[at ? at - 1 : layout->ranks - 1];
    say(text, size, &used, "\nrank %u: position %u", rank, at);
    if (layout->ranks > 1)
        say(text, size, &used, ", after rank %u", after);
    for (uint32_t g = 1; g < layout->group_count; g++) {
        const struct weft_group_span *group = &layout->groups[g];
        if (at < group->first || at - group->first >= group->count)
            continue;
        say(text, size, &used, "; with %u rank%s of %s %s", group->count, group->count == 1 ? "" : "s",
            levels[group->level], group_name(graph, group, &places[rank]));
    }
    say(text, size, &used, "\n");
}
