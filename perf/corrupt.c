/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/corrupt.h"

#include <stdio.h>
#include <stdlib.h>

int perf_corrupt(int rank, void *elements, size_t count, size_t element_bytes)
{
    const char *text = getenv("WEFT_PERF_CORRUPT");
    int wanted;
    long index;
    if (!text || sscanf(text, "%d:%ld", &wanted, &index) != 2 || wanted != rank || index < 0 ||
        (size_t)index >= count)
        return 0;
    ((unsigned char *)elements)[(size_t)index * element_bytes] ^= 1;
    return 1;
}
