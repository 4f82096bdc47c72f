/* SPDX-License-Identifier: Apache-2.0 */
/* From places to a layout, step by step:
 *
 *   1. ranks are gathered by host, near ones next to each other    order_gather.c
 *   2. each gets its NIC                                           nics.c
 *   3. the fabric is divided into tiers, found from its cables     routes.c, tiers.c
 *   4. hosts are ordered depth first through the tiers             order_fabric.c
 *   5. rings are laid along the hosts, one per rail                lanes.c, order_rings.c
 *   6. groups of hosts are moved where that lowers the load        order_refine.c, routes_spread.c, bound.c
 *   7. groups are the runs of equal keys along ring 0              order_groups.c
 */
#include "topo/order_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/nics.h"

/* One ring, host after host, or the ranks as they are numbered. */
static int ring_plain(struct weft_order *order)
{
    order->ring_count = 1;
    order->rings = malloc(order->ranks * sizeof *order->rings);
    if (!order->rings) {
        return weft_fail(WEFT_NOMEM, "no memory for a ring of %u ranks", order->ranks);
    }
    for (uint32_t at = 0; at < order->ranks; at++) {
        order->rings[at] = order->flags & WEFT_ORDER_BY_RANK ? at : order->members[at];
    }
    return WEFT_OK;
}

/* The layout is one piece: the struct, then its arrays. */
static int layout_make(const struct weft_order *order, struct weft_layout **layout)
{
    size_t ranks = order->ranks, rings = order->ring_count;
    size_t numbers = (4 + rings) * ranks;
    struct weft_layout *made = malloc(sizeof *made + order->group_count * sizeof *made->groups +
                                      ranks * sizeof *made->nic_reasons + numbers * sizeof(uint32_t));
    uint32_t *host_numbers = malloc(order->host_count * sizeof *host_numbers);
    if (!made || !host_numbers) {
        free(made);
        free(host_numbers);
        return weft_fail(WEFT_NOMEM, "no memory for a layout of %u ranks", order->ranks);
    }
    *made = (struct weft_layout){.ranks = order->ranks,
                                 .ring_count = order->ring_count,
                                 .group_count = order->group_count,
                                 .host_count = order->host_count,
                                 .refined = order->refined};
    made->groups = (struct weft_group_span *)(made + 1);
    made->nic_reasons = (struct weft_nic_reason *)(made->groups + order->group_count);
    made->order = (uint32_t *)(made->nic_reasons + ranks);
    made->position = made->order + ranks;
    made->nic = made->position + ranks;
    made->host_of = made->nic + ranks;
    made->rings = made->host_of + ranks;
    memcpy(made->groups, order->groups, order->group_count * sizeof *made->groups);
    memcpy(made->rings, order->rings, rings * ranks * sizeof *made->rings);
    memset(host_numbers, 0xff, order->host_count * sizeof *host_numbers);
    uint32_t hosts = 0;
    for (uint32_t at = 0; at < order->ranks; at++) {
        uint32_t rank = order->rings[at];
        uint32_t *number = &host_numbers[order->host_of[rank]];
        *number = *number == UINT32_MAX ? hosts++ : *number;
        made->order[at] = rank;
        made->position[rank] = at;
        made->host_of[rank] = *number;
        made->nic[rank] = order->nic ? order->nic[rank] : WEFT_NODE_NONE;
        made->nic_reasons[rank] = order->nic_reasons ? order->nic_reasons[rank] : (struct weft_nic_reason){0};
    }
    free(host_numbers);
    *layout = made;
    return WEFT_OK;
}

/* What the graph adds to the hosts: NICs and tiers. */
static int fabric_find(struct weft_order *order)
{
    int status = weft_nics_choose(order);
    if (!status)
        status = weft_order_ends(order);
    if (!status && order->flags & WEFT_ORDER_GIVEN_NICS)
        status = weft_nics_keep_given(order);
    if (!status)
        status = weft_order_levels_of_fabric(order);
    return status;
}

static int rings_find(struct weft_order *order)
{
    if (!order->graph || order->flags & WEFT_ORDER_BY_RANK)
        return ring_plain(order);
    int status = weft_order_hosts(order);
    if (!status)
        status = weft_order_rings(order);
    if (!status && !(order->flags & WEFT_ORDER_NO_REFINE))
        status = weft_order_refine(order);
    return status;
}

int weft_order_ranks(const struct weft_graph *graph, const struct weft_place *places, uint32_t ranks,
                     unsigned flags, struct weft_layout **layout)
{
    struct weft_order order = {.graph = graph, .places = places, .ranks = ranks, .flags = flags};
    int status = weft_order_gather(&order);
    if (!status && graph)
        status = fabric_find(&order);
    if (!status)
        status = weft_order_levels_of_hosts(&order);
    if (!status)
        status = rings_find(&order);
    if (!status)
        status = weft_order_group(&order);
    if (!status)
        status = layout_make(&order, layout);
    weft_order_free(&order);
    return status;
}

void weft_layout_free(struct weft_layout *layout)
{
    free(layout);
}
