/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/live/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"

#define NODES_MAX 1024

/* The next number or range of a list like "0-3,8,10-11", or 0 at its end or where it is none. */
static int next_range(const char **list, long *first, long *last)
{
    char *end;
    *first = *last = strtol(*list, &end, 10);
    if (end == *list)
        return 0;
    if (*end == '-')
        *last = strtol(end + 1, &end, 10);
    *list = *end == ',' ? end + 1 : end;
    return *first >= 0 && *last >= *first;
}

static int holds_all(const char *list, const cpu_set_t *processors)
{
    int held = 0;
    long first, last;
    while (next_range(&list, &first, &last)) {
        for (long p = first; p <= last && p < CPU_SETSIZE; p++)
            held += CPU_ISSET((size_t)p, processors) != 0;
    }
    return held > 0 && held == CPU_COUNT(processors);
}

int weft_numa_of(const cpu_set_t *processors, const char *sysfs)
{
    char path[256], online[4096], list[4096];
    snprintf(path, sizeof path, "%s/devices/system/node/online", sysfs);
    if (weft_file_read(path, online, sizeof online) <= 0)
        return -1;
    const char *at = online;
    long first, last;
    while (next_range(&at, &first, &last)) {
        for (long node = first; node <= last && node < NODES_MAX; node++) {
            snprintf(path, sizeof path, "%s/devices/system/node/node%ld/cpulist", sysfs, node);
            if (weft_file_read(path, list, sizeof list) > 0 && holds_all(list, processors))
                return (int)node;
        }
    }
    return -1;
}
