/* SPDX-License-Identifier: Apache-2.0 */
#include "base/majority.h"

/* R. S. Boyer, J. S. Moore: "MJRTY - A Fast Majority Vote Algorithm", 1991. Whom it leaves is then counted. */
int weft_majority(int count, int (*alike)(const void *arg, int a, int b), const void *arg)
{
    int candidate = -1, first = -1, lead = 0, voters = 0, votes = 0, lowest = -1;
    for (int i = 0; i < count; i++) {
        if (!alike(arg, i, i))
            continue;
        first = first < 0 ? i : first;
        voters++;
        if (lead == 0)
            candidate = i;
        lead += alike(arg, i, candidate) ? 1 : -1;
    }
    for (int i = 0; i < count && candidate >= 0; i++) {
        if (!alike(arg, i, candidate))
            continue;
        lowest = lowest < 0 ? i : lowest;
        votes++;
    }
    return 2 * votes > voters ? lowest : first;
}
