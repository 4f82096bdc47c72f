/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/live/numa.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NODES_MAX 1024

/* Reads a file of sysfs, at most a page. 0 when there is none. */
static int read_line(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, capacity - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    return size > 0;
}

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
    if (!read_line(path, online, sizeof online))
        return -1;
    const char *at = online;
    long first, last;
    while (next_range(&at, &first, &last)) {
        for (long node = first; node <= last && node < NODES_MAX; node++) {
            snprintf(path, sizeof path, "%s/devices/system/node/node%ld/cpulist", sysfs, node);
            if (read_line(path, list, sizeof list) && holds_all(list, processors))
                return (int)node;
        }
    }
    return -1;
}
