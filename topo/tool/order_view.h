/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a job that nobody started, with what is worth saying of it. */
#ifndef WEFT_TOPO_TOOL_ORDER_VIEW_H
#define WEFT_TOPO_TOOL_ORDER_VIEW_H

#include "topo/report/order_load.h"
#include "topo/tool/tool.h"

struct weft_order_view {
    const struct weft_graph *graph;
    const struct weft_topo_job *job;
    struct weft_place *places;
    uint32_t ranks;
    struct weft_layout *layout;
    struct weft_load by_rank; /* of the ring in the order of the ranks' numbers */
    struct weft_load by_weft; /* of ring 0 */
    struct weft_bound bound;
};

int weft_order_view_make(const struct weft_graph *graph, const struct weft_topo_job *job,
                         struct weft_order_view *view);
void weft_order_view_drop(struct weft_order_view *view);

void weft_order_view_text(const struct weft_order_view *view, int all, FILE *file);
int weft_order_view_json(const struct weft_order_view *view, FILE *file);

const char *weft_level_name(unsigned level); /* "job", "switch", ... */

#define WEFT_ORDER_REASON_SIZE 512

#endif
