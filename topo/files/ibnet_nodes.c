/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a fabric that is being read: what stands below all parts of the reader of ibnetdiscover's output. */
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/error.h"
#include "topo/files/ibnet.h"

int weft_ibnet_grow(void **array, uint32_t count, uint32_t *room, size_t item)
{
    if (count < *room)
        return 0;
    uint32_t more = *room ? *room * 2 : 64;
    void *grown = more > WEFT_EDGES_MAX ? NULL : realloc(*array, more * item);
    if (!grown)
        return weft_fail(WEFT_NOMEM, "no memory for the nodes and ports of a fabric");
    *array = grown;
    *room = more;
    return 0;
}

int weft_ibnet_add_node(struct weft_ibnet *net, struct weft_span key, uint32_t line, uint32_t *node)
{
    struct weft_cursor cursor = {key.data + 2, key.data + key.size, line};
    struct weft_ibnet_node made = {.kind = key.data[0] == 'S'   ? WEFT_IBNET_SWITCH
                                           : key.data[0] == 'H' ? WEFT_IBNET_ADAPTER
                                                                : WEFT_IBNET_ROUTER,
                                   .line = line,
                                   .ports_first = net->port_count,
                                   .host = WEFT_IBNET_NONE,
                                   .node = WEFT_NODE_NONE,
                                   .device = WEFT_IBNET_NONE,
                                   .key = key};
    weft_line_take_hex(&cursor, &made.guid);
    int status = weft_ibnet_grow((void **)&net->nodes, net->node_count, &net->node_room, sizeof *net->nodes);
    if (!status)
        status = weft_names_put(&net->keys, key, net->node_count, node);
    if (status)
        return status;
    if (*node != net->node_count)
        return weft_read_fail(net->text, line, "\"%.*s\" is in line %u already", WEFT_SPAN_SHOWN(key),
                              net->nodes[*node].line);
    net->nodes[net->node_count++] = made;
    return 0;
}

/* The name that firmware gives to the unit of a switch that computes reductions (SHARP). */
int weft_ibnet_is_aggregation(struct weft_span description)
{
    static const char name[] = "Aggregation Node";
    size_t size = sizeof name - 1;
    return description.size >= size && memcmp(description.data + description.size - size, name, size) == 0;
}
