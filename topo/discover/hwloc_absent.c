/* SPDX-License-Identifier: Apache-2.0 */
/* libhwloc, left out of this build. */
#include "base/error.h"
#include "topo/discover/discover.h"

int weft_live_hwloc(unsigned host_flags, struct weft_graph *graph)
{
    (void)host_flags;
    (void)graph;
    return weft_fail(WEFT_NOT_FOUND, "built without hwloc (WITH_HWLOC=no)");
}

int weft_read_hwloc(const struct weft_text *text, struct weft_graph *graph)
{
    (void)graph;
    return weft_fail(WEFT_NOT_FOUND,
                     "%.300s: hwloc's XML, which libhwloc reads: built without it (WITH_HWLOC=no)",
                     text->name);
}
