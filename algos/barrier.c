/* SPDX-License-Identifier: Apache-2.0 */
/* Dissemination barrier.
 *
 * In the round with distance k = 1, 2, 4, ... below n each rank sends rank r+k what it knows and hears from rank r-k;
 * after ceil(log2 n) rounds everybody has heard, directly or not, from everybody.
 *
 * As a plan it moves one chunk and uses the reduction for nothing but to make what is sent depend on what came; the
 * executor runs it on one byte and takes the first source. A rank's contribution may come in twice. Results alternate between OUTPUT
 * and TEMP as in rd.c, and for the same reason, so that the last one is in OUTPUT.
 *
 * Cost, with a per message, d = ceil(log2 n):   d a
 *
 * Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", International Journal of
 * Parallel Programming 17 (1988).
 */
#include "algos/generators.h"

void weft_barrier_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    uint32_t n = request->ranks, r = request->rank, left = 0;
    struct weft_range all = weft_range(0, 1, 0);
    struct weft_ref mine = weft_in(WEFT_BUFFER_INPUT);
    for (uint32_t distance = 1; distance < n && distance; distance *= 2)
        left++;

    weft_builder_start(builder, request, 1, 2);
    if (request->in_place && left % 2 == 1) {
        mine = weft_in(WEFT_BUFFER_TEMP);
        weft_builder_copy(builder, all, mine, weft_in(WEFT_BUFFER_INPUT), 0);
    }
    for (uint64_t distance = 1; distance < n; distance *= 2, left--) {
        struct weft_ref sum = weft_in(left % 2 ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_TEMP);
        weft_builder_recv(builder, (uint32_t)((r + n - distance) % n), all, weft_slot(left % 2, 0));
        weft_builder_send(builder, (uint32_t)((r + distance) % n), all, mine);
        weft_builder_reduce(builder, all, sum, mine, weft_slot(left % 2, 0), 0);
        mine = sum;
    }
}
