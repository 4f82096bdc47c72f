/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/report/order_load.h"
#include "topo/tool/order_view.h"
#include "topo/tool/places.h"

/* Loads of the ring by rank numbers, of weft's, and the least possible. */
static int loads_find(struct weft_order_view *view)
{
    uint32_t *by_rank = malloc((size_t)view->ranks * sizeof *by_rank);
    if (!by_rank)
        return weft_fail(WEFT_NOMEM, "no memory for the order of %" PRIu32 " ranks", view->ranks);
    for (uint32_t rank = 0; rank < view->ranks; rank++)
        by_rank[rank] = rank;
    int status =
        weft_load_ring(view->graph, view->places, view->ranks, view->layout->nic, by_rank, &view->by_rank);
    free(by_rank);
    if (status != WEFT_OK)
        return status;
    status = weft_load_ring(view->graph, view->places, view->ranks, view->layout->nic, view->layout->order,
                            &view->by_weft);
    if (status != WEFT_OK)
        goto free_by_rank;
    status = weft_load_bound(view->graph, view->places, view->ranks, view->layout->nic, 1, &view->bound);
    if (status != WEFT_OK)
        goto free_by_weft;
    return WEFT_OK;
free_by_weft:
    weft_load_free(&view->by_weft);
free_by_rank:
    weft_load_free(&view->by_rank);
    return status;
}

int weft_order_view_make(const struct weft_graph *graph, const struct weft_topo_job *job,
                         struct weft_order_view *view)
{
    memset(view, 0, sizeof *view);
    view->graph = graph;
    view->job = job;
    int status = weft_topo_places_make(graph, job, &view->places, &view->ranks);
    if (status != WEFT_OK)
        return status;
    status = weft_order_ranks(graph, view->places, view->ranks, 0, &view->layout);
    if (status != WEFT_OK)
        goto free_places;
    status = loads_find(view);
    if (status != WEFT_OK)
        goto free_layout;
    return WEFT_OK;
free_layout:
    weft_layout_free(view->layout);
free_places:
    free(view->places);
    return status;
}

void weft_order_view_drop(struct weft_order_view *view)
{
    weft_load_free(&view->by_weft);
    weft_load_free(&view->by_rank);
    weft_layout_free(view->layout);
    free(view->places);
}

int weft_topo_order(const struct weft_graph *graph, const struct weft_topo_job *job, int json, int all,
                    FILE *file)
{
    struct weft_order_view view;
    int status = weft_order_view_make(graph, job, &view);
    if (status != WEFT_OK)
        return status;
    if (json)
        status = weft_order_view_json(&view, file);
    else
        weft_order_view_text(&view, all, file);
    weft_order_view_drop(&view);
    return status;
}
