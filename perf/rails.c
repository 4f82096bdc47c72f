/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/rails.h"

#include <string.h>

int perf_rails_read(weft_context *context, struct perf_rails *rails)
{
    memset(rails, 0, sizeof *rails);
    rails->list[0] = (weft_rail)WEFT_RAIL_INIT;
    int count, status = weft_context_get_rails(context, rails->list, PERF_RAILS_MAX, &count);
    if (status != 0)
        return status;
    rails->count = count < PERF_RAILS_MAX ? count : PERF_RAILS_MAX;
    for (int i = 0; i < rails->count; i++)
        if (rails->list[i].active)
            rails->line_gbs += (double)rails->list[i].bytes_per_s / 1e9;
    return 0;
}

double perf_rails_percent(const struct perf_rails *rails, double gbs)
{
    return rails->line_gbs > 0 ? 100 * gbs / rails->line_gbs : -1;
}
